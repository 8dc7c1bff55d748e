/* See json_stream.h. yajl does not check its allocations, so a failed one leaves it by a jump; its
 * blocks are kept in a list, from which they are released in every case. */
#include "format/json_stream.h"

#include "base/memory.h"
#include "base/status.h"
#include "format/gzip.h"
#include "os/heap.h"

#include <setjmp.h>
#include <string.h>
#include <yajl/yajl_parse.h>

enum { CHUNK_BYTES = 64 * 1024 };

/* What stands before a block of yajl's. */
typedef struct block {
    struct block *before, *after;
    size_t bytes; /* with this head */
    size_t unused;
} block;

typedef struct stream {
    const qn_allocator *allocator;
    const char *path;
    block blocks; /* ring of all of them */
    yajl_handle yajl;
    jmp_buf out_of_memory;
    void *context;
    qn_status (*put)(void *context, const qn_json_token *token);
    qn_status status; /* of put */
    int depth;
    bool is_done;       /* the outermost value is complete */
    int64_t byte, line; /* where the chunk begins, from 0 */
    const unsigned char *chunk;
    size_t n_chunk;
} stream;

/* ---- memory ---- */

static void free_block(void *context, void *memory) {
    stream *s = context;
    if (!memory)
        return;
    block *b = (block *)memory - 1;
    b->before->after = b->after;
    b->after->before = b->before;
    qn_release(s->allocator, b, 1, b->bytes);
}

static void *allocate_block(void *context, size_t bytes) {
    stream *s = context;
    block *b;
    if (qn_allocate(s->allocator, 1, sizeof *b + bytes, &b) != QN_OK)
        longjmp(s->out_of_memory, 1);
    *b = (block){&s->blocks, s->blocks.after, sizeof *b + bytes, 0};
    b->before->after = b;
    b->after->before = b;
    return b + 1;
}

static void *resize_block(void *context, void *memory, size_t bytes) {
    void *resized = allocate_block(context, bytes);
    if (memory) {
        const size_t old = ((block *)memory - 1)->bytes - sizeof(block);
        memcpy(resized, memory, old < bytes ? old : bytes);
        free_block(context, memory);
    }
    return resized;
}

static void free_all(stream *s) {
    while (s->blocks.after != &s->blocks)
        free_block(s, s->blocks.after + 1);
}

/* ---- tokens ---- */

/* Zero stops yajl. */
static int put(stream *s, qn_json_kind kind, const void *text, size_t bytes) {
    const qn_json_token token = {kind, s->depth, text, bytes};
    s->status = s->put(s->context, &token);
    return s->status == QN_OK;
}

/* The same for a value, which may be the outermost. */
static int put_value(stream *s, qn_json_kind kind, const void *text, size_t bytes) {
    s->is_done = s->depth == 0;
    return put(s, kind, text, bytes);
}

static int on_null(void *s) {
    return put_value(s, QN_JSON_NULL, "null", 4);
}

static int on_boolean(void *s, int value) {
    return put_value(s, QN_JSON_BOOLEAN, value ? "true" : "false", value ? 4 : 5);
}

static int on_number(void *s, const char *text, size_t bytes) {
    return put_value(s, QN_JSON_NUMBER, text, bytes);
}

static int on_text(void *s, const unsigned char *text, size_t bytes) {
    return put_value(s, QN_JSON_TEXT, text, bytes);
}

static int on_key(void *s, const unsigned char *text, size_t bytes) {
    return put(s, QN_JSON_KEY, text, bytes);
}

static int open_value(stream *s, qn_json_kind kind) {
    const int goes_on = put(s, kind, NULL, 0);
    s->depth++;
    return goes_on;
}

static int close_value(stream *s, qn_json_kind kind) {
    s->depth--;
    return put_value(s, kind, NULL, 0);
}

static int on_object(void *s) {
    return open_value(s, QN_JSON_OBJECT);
}

static int on_object_end(void *s) {
    return close_value(s, QN_JSON_OBJECT_END);
}

static int on_list(void *s) {
    return open_value(s, QN_JSON_LIST);
}

static int on_list_end(void *s) {
    return close_value(s, QN_JSON_LIST_END);
}

static const yajl_callbacks callbacks = {
    .yajl_null = on_null,
    .yajl_boolean = on_boolean,
    .yajl_number = on_number,
    .yajl_string = on_text,
    .yajl_start_map = on_object,
    .yajl_map_key = on_key,
    .yajl_end_map = on_object_end,
    .yajl_start_array = on_list,
    .yajl_end_array = on_list_end,
};

/* ---- parsing ---- */

static int64_t count_lines(const unsigned char *text, size_t bytes) {
    int64_t n = 0;
    for (size_t i = 0; i < bytes; i++)
        n += text[i] == '\n';
    return n;
}

/* Puts the file and the place before this thread's message. */
static qn_status fail_here(const stream *s, qn_status status) {
    const size_t used = s->n_chunk > 0 ? yajl_get_bytes_consumed(s->yajl) : 0;
    const int64_t line = s->line + count_lines(s->chunk, used < s->n_chunk ? used : s->n_chunk);
    return qn_fail_within(status, "%s: line %lld, byte %lld", s->path, (long long)line + 1,
                          (long long)(s->byte + (int64_t)used));
}

/* What yajl has to say, without its "parse error: " and line feed. */
static qn_status fail_yajl(stream *s) {
    char what[160];
    unsigned char *text = yajl_get_error(s->yajl, 0, s->chunk, s->n_chunk);
    const char *from = strstr((char *)text, ": ");
    from = from ? from + 2 : (char *)text;
    const size_t bytes = strcspn(from, "\n");
    qn_fail(QN_ERROR_FORMAT, "it is not JSON: %.*s", (int)(bytes < sizeof what ? bytes : 100),
            from);
    yajl_free_error(s->yajl, text);
    return fail_here(s, QN_ERROR_FORMAT);
}

static qn_status judge(stream *s, yajl_status result) {
    if (result == yajl_status_client_canceled)
        return fail_here(s, s->status);
    return result == yajl_status_ok ? QN_OK : fail_yajl(s);
}

/* Parses the chunk; null: ends. False when memory is out. */
static bool run_yajl(stream *s, yajl_status *result) {
    if (setjmp(s->out_of_memory))
        return false;
    *result = s->chunk ? yajl_parse(s->yajl, s->chunk, s->n_chunk) : yajl_complete_parse(s->yajl);
    return true;
}

/* A sink. */
static qn_status parse_chunk(void *context, const void *data, size_t bytes) {
    stream *s = context;
    yajl_status result;
    if (bytes == 0)
        return QN_OK;
    s->chunk = data;
    s->n_chunk = bytes;
    if (!run_yajl(s, &result))
        return QN_ERROR_MEMORY;
    QN_TRY(judge(s, result));
    s->byte += (int64_t)bytes;
    s->line += count_lines(data, bytes);
    return QN_OK;
}

/* After the last chunk. A value that is not complete is put's to judge. */
static qn_status finish(stream *s) {
    yajl_status result;
    s->chunk = NULL;
    s->n_chunk = 0;
    if (!run_yajl(s, &result))
        return QN_ERROR_MEMORY;
    if (result == yajl_status_client_canceled)
        return fail_here(s, s->status);
    if (result == yajl_status_ok)
        return QN_OK;
    if (s->is_done)
        return fail_yajl(s);
    if (s->depth == 0)
        return fail_here(s, qn_fail(QN_ERROR_FORMAT, "it is not JSON: nothing is there"));
    return put(s, QN_JSON_CUT_OFF, NULL, 0) ? QN_OK : fail_here(s, s->status);
}

static qn_status parse_plain(stream *s, qn_file *file) {
    unsigned char *chunk;
    const int64_t bytes = qn_file_bytes(file);
    qn_status status = QN_OK;
    QN_TRY(qn_allocate(s->allocator, 1, CHUNK_BYTES, &chunk));
    for (int64_t at = 0; status == QN_OK && at < bytes; at += CHUNK_BYTES) {
        const size_t n = bytes - at < CHUNK_BYTES ? (size_t)(bytes - at) : CHUNK_BYTES;
        status = qn_file_read(file, at, chunk, n);
        if (status == QN_OK)
            status = parse_chunk(s, chunk, n);
    }
    qn_release(s->allocator, chunk, 1, CHUNK_BYTES);
    return status;
}

static bool is_gzip(qn_file *file) {
    unsigned char magic[2];
    return qn_file_bytes(file) >= 2 && qn_file_read(file, 0, magic, 2) == QN_OK &&
           magic[0] == 0x1f && magic[1] == 0x8b;
}

static qn_status open_parser(stream *s) {
    yajl_alloc_funcs memory = {allocate_block, resize_block, free_block, s};
    if (setjmp(s->out_of_memory))
        return QN_ERROR_MEMORY;
    s->yajl = yajl_alloc(&callbacks, &memory, s);
    yajl_config(s->yajl, yajl_dont_validate_strings, 1);
    return QN_OK;
}

static qn_status parse_file(stream *s, qn_file *file) {
    QN_TRY(open_parser(s));
    if (is_gzip(file))
        QN_TRY(qn_gzip_unpack(NULL, file, (qn_sink){s, parse_chunk}));
    else
        QN_TRY(parse_plain(s, file));
    return finish(s);
}

qn_status qn_json_read(const qn_allocator *allocator, const char *path, void *context,
                       qn_status (*put_token)(void *context, const qn_json_token *token)) {
    stream s = {.allocator = qn_allocator_or_default(allocator),
                .path = path,
                .context = context,
                .put = put_token};
    qn_file *file;
    s.blocks.before = s.blocks.after = &s.blocks;
    QN_TRY(qn_file_open(s.allocator, path, &file));
    const qn_status status = parse_file(&s, file);
    qn_file_close(file);
    free_all(&s);
    return status;
}
