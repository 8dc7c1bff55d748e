/* Unpacking gzip through zlib, which checks CRC and length of every member; see gzip.h. Zeros
 * after the last member are padding; anything else there is an error. */
#include "format/gzip.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

enum { CHUNK_BYTES = 64 * 1024 };

/* offset: of the next byte to read from the file. */
typedef struct unpacking {
    z_stream stream;
    qn_file *source;
    qn_sink sink;
    int64_t offset;
    unsigned char in[CHUNK_BYTES], out[CHUNK_BYTES];
} unpacking;

static qn_status fail_gzip(const unpacking *u, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s: broken gzip file: %s; get the file again",
                   qn_file_path(u->source), what);
}

/* Makes sure that there is input, unless the file is at its end. */
static qn_status refill(unpacking *u) {
    int64_t left = qn_file_bytes(u->source) - u->offset;
    if (u->stream.avail_in > 0 || left == 0)
        return QN_OK;
    size_t bytes = left < CHUNK_BYTES ? (size_t)left : CHUNK_BYTES;
    QN_TRY(qn_file_read(u->source, u->offset, u->in, bytes));
    u->offset += (int64_t)bytes;
    u->stream.next_in = u->in;
    u->stream.avail_in = (uInt)bytes;
    return QN_OK;
}

/* One call of inflate; *is_end: the member is complete. */
static qn_status inflate_chunk(unpacking *u, bool *is_end) {
    QN_TRY(refill(u));
    if (u->stream.avail_in == 0)
        return fail_gzip(u, "it is cut off");
    u->stream.next_out = u->out;
    u->stream.avail_out = CHUNK_BYTES;
    int result = inflate(&u->stream, Z_NO_FLUSH);
    if (result == Z_MEM_ERROR)
        return qn_fail_memory(CHUNK_BYTES);
    if (result != Z_OK && result != Z_STREAM_END)
        return fail_gzip(u, u->stream.msg ? u->stream.msg : "bad data");
    *is_end = result == Z_STREAM_END;
    return u->sink.put(u->sink.context, u->out, CHUNK_BYTES - u->stream.avail_out);
}

/* Passes over zeros. *is_end: nothing else is left. */
static qn_status skip_padding(unpacking *u, bool *is_end) {
    for (;;) {
        QN_TRY(refill(u));
        *is_end = u->stream.avail_in == 0;
        if (*is_end || *u->stream.next_in != 0)
            return QN_OK;
        u->stream.next_in++;
        u->stream.avail_in--;
    }
}

static qn_status unpack_all(unpacking *u) {
    for (bool is_end = false; !is_end;) {
        for (bool is_member_end = false; !is_member_end;)
            QN_TRY(inflate_chunk(u, &is_member_end));
        QN_TRY(skip_padding(u, &is_end));
        if (inflateReset(&u->stream) != Z_OK)
            return fail_gzip(u, "bad state");
    }
    return QN_OK;
}

qn_status qn_gzip_unpack(void *context, qn_file *source, qn_sink sink) {
    (void)context;
    unpacking *u = calloc(1, sizeof *u);
    if (!u)
        return qn_fail_memory(sizeof *u);
    u->source = source;
    u->sink = sink;
    /* 15 bits of window, and 16: a gzip header, nothing else. */
    qn_status status =
        inflateInit2(&u->stream, 15 + 16) == Z_OK ? unpack_all(u) : qn_fail_memory(sizeof *u);
    inflateEnd(&u->stream);
    free(u);
    return status;
}
