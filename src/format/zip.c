/* See zip.h. */
#include "format/zip.h"

#include "base/status.h"
#include "os/os.h"

#include <zlib.h>

enum {
    END_BYTES = 22,   /* of the record at the end, without its comment */
    ENTRY_BYTES = 46, /* of an entry in the list, without name, extra fields and comment */
    LOCAL_BYTES = 30, /* of the header before an entry's data, likewise */
    LOCATOR_BYTES = 20,
    LARGE_END_BYTES = 56,
    MOST_COMMENT = 65535,
    MOST_PACKED = 1032, /* bytes that deflate makes of one, at most */
};

static const uint32_t end_sign = 0x06054b50, locator_sign = 0x07064b50, large_sign = 0x06064b50,
                      entry_sign = 0x02014b50, local_sign = 0x04034b50;

uint64_t qn_zip_take(const unsigned char *data, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | data[i];
    return value;
}

static bool is_within(const qn_zip *z, uint64_t at, uint64_t bytes) {
    return at <= z->bytes && bytes <= z->bytes - at;
}

static qn_status fail_zip(const qn_zip *z, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "not %s: %s; %s", z->kind, what, z->advice);
}

/* The list of a file whose end record says that its numbers are elsewhere. */
static void find_large_list(qn_zip *z, uint64_t end) {
    if (end < LOCATOR_BYTES || qn_zip_take(z->data + end - LOCATOR_BYTES, 4) != locator_sign)
        return;
    const uint64_t at = qn_zip_take(z->data + end - LOCATOR_BYTES + 8, 8);
    if (!is_within(z, at, LARGE_END_BYTES) || qn_zip_take(z->data + at, 4) != large_sign)
        return;
    z->n_entries = qn_zip_take(z->data + at + 32, 8);
    z->list_bytes = qn_zip_take(z->data + at + 40, 8);
    z->at = qn_zip_take(z->data + at + 48, 8);
}

qn_status qn_zip_open(qn_zip *z, const unsigned char *data, uint64_t bytes, uint64_t most_entries,
                      const char *kind, const char *advice) {
    *z = (qn_zip){
        .data = data, .bytes = bytes, .kind = kind, .advice = advice, .packed_left = bytes};
    if (bytes < END_BYTES)
        return fail_zip(z, "it is too short for a zip file");
    uint64_t end = bytes - END_BYTES;
    const uint64_t least = end > MOST_COMMENT ? end - MOST_COMMENT : 0;
    while (end > least && qn_zip_take(data + end, 4) != end_sign)
        end--;
    if (qn_zip_take(data + end, 4) != end_sign)
        return fail_zip(z, "it does not end as a zip file does, so it may be cut off");
    z->n_entries = qn_zip_take(data + end + 10, 2);
    z->list_bytes = qn_zip_take(data + end + 12, 4);
    z->at = qn_zip_take(data + end + 16, 4);
    if (z->n_entries == UINT16_MAX || z->list_bytes == UINT32_MAX || z->at == UINT32_MAX)
        find_large_list(z, end);
    if (!is_within(z, z->at, z->list_bytes))
        return fail_zip(z, "its list of files is outside of it");
    if (z->n_entries > most_entries)
        return qn_fail(QN_ERROR_FORMAT, "%llu files in it, where %llu are the most",
                       (unsigned long long)z->n_entries, (unsigned long long)most_entries);
    return QN_OK;
}

/* Sizes that did not fit are in an extra field, in this order. */
static void read_large_sizes(const unsigned char *extra, size_t bytes, qn_zip_entry *e) {
    uint64_t *const sizes[] = {&e->unpacked, &e->packed, &e->at};
    for (size_t at = 0, field; at + 4 <= bytes; at += 4 + field) {
        field = (size_t)qn_zip_take(extra + at + 2, 2);
        if (field > bytes - at - 4)
            return;
        if (qn_zip_take(extra + at, 2) != 1)
            continue;
        for (size_t i = 0, used = 0; i < 3; i++) {
            if (*sizes[i] != UINT32_MAX || used + 8 > field)
                continue;
            *sizes[i] = qn_zip_take(extra + at + 4 + used, 8);
            used += 8;
        }
    }
}

qn_status qn_zip_next(qn_zip *z, qn_zip_entry *e) {
    if (!is_within(z, z->at, ENTRY_BYTES) || qn_zip_take(z->data + z->at, 4) != entry_sign)
        return fail_zip(z, "its list of files is damaged");
    const unsigned char *d = z->data + z->at;
    *e = (qn_zip_entry){.flags = (int)qn_zip_take(d + 8, 2),
                        .method = (int)qn_zip_take(d + 10, 2),
                        .checksum = (uint32_t)qn_zip_take(d + 16, 4),
                        .packed = qn_zip_take(d + 20, 4),
                        .unpacked = qn_zip_take(d + 24, 4),
                        .at = qn_zip_take(d + 42, 4),
                        .name = (const char *)d + ENTRY_BYTES,
                        .name_bytes = (size_t)qn_zip_take(d + 28, 2)};
    const uint64_t extra = qn_zip_take(d + 30, 2), comment = qn_zip_take(d + 32, 2);
    const uint64_t bytes = ENTRY_BYTES + e->name_bytes + extra + comment;
    if (!is_within(z, z->at, bytes))
        return fail_zip(z, "its list of files is damaged");
    read_large_sizes(d + ENTRY_BYTES + e->name_bytes, (size_t)extra, e);
    z->at += bytes;
    return QN_OK;
}

qn_status qn_zip_locate(qn_zip *z, const qn_zip_entry *e, const unsigned char **bytes) {
    if (e->flags & 1 || (e->method != QN_ZIP_STORED && e->method != QN_ZIP_DEFLATED))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%.*s is encrypted, or packed by another method than deflate; %s",
                       (int)e->name_bytes, e->name, z->advice);
    if (!is_within(z, e->at, LOCAL_BYTES) || qn_zip_take(z->data + e->at, 4) != local_sign)
        return fail_zip(z, "its list of files is damaged");
    const uint64_t at = e->at + LOCAL_BYTES + qn_zip_take(z->data + e->at + 26, 2) +
                        qn_zip_take(z->data + e->at + 28, 2);
    if (!is_within(z, at, e->packed) || e->packed > z->packed_left ||
        (e->method == QN_ZIP_STORED && e->packed != e->unpacked) ||
        e->unpacked / MOST_PACKED > e->packed)
        return fail_zip(z, "the sizes in its list of files are wrong");
    z->packed_left -= e->packed;
    *bytes = z->data + at;
    return QN_OK;
}

bool qn_zip_is_whole(const qn_zip_entry *entry, const unsigned char *data) {
    enum { PIECE = 1 << 22 };
    uLong sum = crc32_z(0, NULL, 0);
    for (uint64_t at = 0; at < entry->unpacked; at += PIECE) {
        const uint64_t left = entry->unpacked - at;
        sum = crc32_z(sum, data + at, left < PIECE ? (z_size_t)left : PIECE);
        if (left > PIECE)
            qn_file_forget(data); /* a mapped file's pages do not stay in memory */
    }
    return sum == entry->checksum;
}
