/* See npz.h. The list at a zip file's end says what it holds (PKWARE's APPNOTE, 4.3); sizes beyond
 * 32 bits are in extra fields (4.5.3). */
#include "data/npz.h"

#include "base/status.h"

#include <math.h>
#include <string.h>
#include <zlib.h>

enum {
    END_BYTES = 22,   /* of the record at the end, without its comment */
    ENTRY_BYTES = 46, /* of an entry in the list, without name, extra fields and comment */
    LOCAL_BYTES = 30, /* of the header before an entry's data, likewise */
    LOCATOR_BYTES = 20,
    LARGE_END_BYTES = 56,
    MOST_COMMENT = 65535,
    MOST_ENTRIES = 4096,
    MOST_PACKED = 1032, /* bytes that deflate makes of one, at most */
    STORED = 0,
    DEFLATED = 8,
};

static const uint32_t end_sign = 0x06054b50, locator_sign = 0x07064b50, large_sign = 0x06064b50,
                      entry_sign = 0x02014b50, local_sign = 0x04034b50;

/* ---- zip ---- */

typedef struct zip {
    const unsigned char *data;
    uint64_t bytes;
    uint64_t n_entries, at, list_bytes; /* the list */
    uint64_t packed_left;               /* bytes of entries that there may still be */
} zip;

typedef struct entry {
    int flags, method;
    uint32_t checksum;
    uint64_t packed, unpacked, at; /* at: of its local header */
    const char *name;
    size_t name_bytes;
} entry;

static uint64_t take(const unsigned char *data, int bytes) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | data[i];
    return value;
}

static bool is_within(const zip *z, uint64_t at, uint64_t bytes) {
    return at <= z->bytes && bytes <= z->bytes - at;
}

static qn_status fail_zip(const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "not a .npz file: %s; write it with numpy.savez", what);
}

/* The list of a file whose end record says that its numbers are elsewhere. */
static void find_large_list(zip *z, uint64_t end) {
    if (end < LOCATOR_BYTES || take(z->data + end - LOCATOR_BYTES, 4) != locator_sign)
        return;
    const uint64_t at = take(z->data + end - LOCATOR_BYTES + 8, 8);
    if (!is_within(z, at, LARGE_END_BYTES) || take(z->data + at, 4) != large_sign)
        return;
    z->n_entries = take(z->data + at + 32, 8);
    z->list_bytes = take(z->data + at + 40, 8);
    z->at = take(z->data + at + 48, 8);
}

static qn_status find_list(zip *z) {
    if (z->bytes < END_BYTES)
        return fail_zip("it is too short for a zip file");
    uint64_t end = z->bytes - END_BYTES;
    const uint64_t least = end > MOST_COMMENT ? end - MOST_COMMENT : 0;
    while (end > least && take(z->data + end, 4) != end_sign)
        end--;
    if (take(z->data + end, 4) != end_sign)
        return fail_zip("it does not end as a zip file does, so it may be cut off");
    z->n_entries = take(z->data + end + 10, 2);
    z->list_bytes = take(z->data + end + 12, 4);
    z->at = take(z->data + end + 16, 4);
    if (z->n_entries == UINT16_MAX || z->list_bytes == UINT32_MAX || z->at == UINT32_MAX)
        find_large_list(z, end);
    if (!is_within(z, z->at, z->list_bytes))
        return fail_zip("its list of files is outside of it");
    if (z->n_entries > MOST_ENTRIES)
        return qn_fail(QN_ERROR_FORMAT, "%llu arrays, where %d are the most",
                       (unsigned long long)z->n_entries, MOST_ENTRIES);
    return QN_OK;
}

/* Sizes that did not fit are in an extra field, in this order. */
static void read_large_sizes(const unsigned char *extra, size_t bytes, entry *e) {
    uint64_t *const sizes[] = {&e->unpacked, &e->packed, &e->at};
    for (size_t at = 0, field; at + 4 <= bytes; at += 4 + field) {
        field = (size_t)take(extra + at + 2, 2);
        if (field > bytes - at - 4)
            return;
        if (take(extra + at, 2) != 1)
            continue;
        for (size_t i = 0, used = 0; i < 3; i++) {
            if (*sizes[i] != UINT32_MAX || used + 8 > field)
                continue;
            *sizes[i] = take(extra + at + 4 + used, 8);
            used += 8;
        }
    }
}

/* The next entry of the list. */
static qn_status read_entry(zip *z, entry *e) {
    const unsigned char *d = z->data + z->at;
    if (!is_within(z, z->at, ENTRY_BYTES) || take(d, 4) != entry_sign)
        return fail_zip("its list of files is damaged");
    *e = (entry){.flags = (int)take(d + 8, 2),
                 .method = (int)take(d + 10, 2),
                 .checksum = (uint32_t)take(d + 16, 4),
                 .packed = take(d + 20, 4),
                 .unpacked = take(d + 24, 4),
                 .at = take(d + 42, 4),
                 .name = (const char *)d + ENTRY_BYTES,
                 .name_bytes = (size_t)take(d + 28, 2)};
    const uint64_t extra = take(d + 30, 2), comment = take(d + 32, 2);
    const uint64_t bytes = ENTRY_BYTES + e->name_bytes + extra + comment;
    if (!is_within(z, z->at, bytes))
        return fail_zip("its list of files is damaged");
    read_large_sizes(d + ENTRY_BYTES + e->name_bytes, (size_t)extra, e);
    z->at += bytes;
    return QN_OK;
}

/* Where an entry's bytes are. All of them together are not more than the file. */
static qn_status find_bytes(zip *z, const entry *e, const unsigned char **bytes) {
    if (e->flags & 1 || (e->method != STORED && e->method != DEFLATED))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%.*s is encrypted, or packed in another way than numpy.savez_compressed "
                       "does",
                       (int)e->name_bytes, e->name);
    if (!is_within(z, e->at, LOCAL_BYTES) || take(z->data + e->at, 4) != local_sign)
        return fail_zip("its list of files is damaged");
    const uint64_t at =
        e->at + LOCAL_BYTES + take(z->data + e->at + 26, 2) + take(z->data + e->at + 28, 2);
    if (!is_within(z, at, e->packed) || e->packed > z->packed_left ||
        (e->method == STORED && e->packed != e->unpacked) || e->unpacked / MOST_PACKED > e->packed)
        return fail_zip("the sizes in its list of files are wrong");
    z->packed_left -= e->packed;
    *bytes = z->data + at;
    return QN_OK;
}

/* ---- unpacking ---- */

static bool inflate_all(const unsigned char *from, uint64_t packed, unsigned char *to,
                        uint64_t unpacked) {
    enum { MOST = 1 << 30 };
    z_stream s = {.next_in = (unsigned char *)from, .next_out = to};
    uint64_t in_left = packed, out_left = unpacked;
    int result = inflateInit2(&s, -MAX_WBITS);
    while (result == Z_OK && (s.avail_in > 0 || in_left > 0 || out_left > 0 || s.avail_out > 0)) {
        if (s.avail_in == 0) {
            s.avail_in = (uInt)(in_left < MOST ? in_left : MOST);
            in_left -= s.avail_in;
        }
        if (s.avail_out == 0) {
            s.avail_out = (uInt)(out_left < MOST ? out_left : MOST);
            out_left -= s.avail_out;
        }
        result = inflate(&s, Z_NO_FLUSH);
    }
    inflateEnd(&s);
    return result == Z_STREAM_END && out_left == 0 && s.avail_out == 0;
}

static bool is_checked(const unsigned char *data, uint64_t bytes, uint32_t checksum) {
    return crc32_z(crc32_z(0, NULL, 0), data, (z_size_t)bytes) == checksum;
}

/* The bytes of an entry as they were before they were packed. */
static qn_status unpack(zip *z, const entry *e, qn_arena *arena, const unsigned char **data) {
    const unsigned char *bytes;
    QN_TRY(find_bytes(z, e, &bytes));
    *data = bytes;
    if (e->method == DEFLATED) {
        unsigned char *unpacked = qn_arena_allocate(arena, (size_t)e->unpacked + 1, 1);
        if (!unpacked)
            return QN_ERROR_MEMORY;
        if (!inflate_all(bytes, e->packed, unpacked, e->unpacked))
            return qn_fail(QN_ERROR_FORMAT, "%.*s cannot be unpacked: the file is damaged",
                           (int)e->name_bytes, e->name);
        *data = unpacked;
    }
    if (!is_checked(*data, e->unpacked, e->checksum))
        return qn_fail(QN_ERROR_FORMAT, "%.*s: wrong checksum: the file is damaged",
                       (int)e->name_bytes, e->name);
    return QN_OK;
}

static qn_status add_array(zip *z, const entry *e, qn_npz *npz) {
    static const char ending[] = ".npy";
    const size_t n = e->name_bytes, shorter = strlen(ending);
    qn_npz_array *array = &npz->arrays[npz->n];
    if (n <= shorter || memcmp(e->name + n - shorter, ending, shorter) != 0)
        return qn_fail(QN_ERROR_FORMAT, "%.*s is not an array", (int)n, e->name);
    array->name = qn_arena_format(&npz->arena, "%.*s", (int)(n - shorter), e->name);
    if (!array->name)
        return QN_ERROR_MEMORY;
    QN_TRY(unpack(z, e, &npz->arena, &array->data));
    const qn_status status = qn_npy_parse(array->data, (size_t)e->unpacked, &array->header);
    if (status != QN_OK)
        return qn_fail_within(status, "array %s", array->name);
    if (array->header.is_fortran)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "array %s is in Fortran's order; save numpy.ascontiguousarray of it",
                       array->name);
    if (e->unpacked - (uint64_t)array->header.header_bytes < (uint64_t)array->header.data_bytes)
        return qn_fail(QN_ERROR_FORMAT, "array %s is cut off", array->name);
    array->data += array->header.header_bytes;
    if (qn_npz_find(npz, array->name))
        return qn_fail(QN_ERROR_FORMAT, "two arrays %s", array->name);
    npz->n++;
    return QN_OK;
}

qn_status qn_npz_parse(const unsigned char *data, size_t bytes, qn_npz *npz) {
    zip z = {.data = data, .bytes = bytes, .packed_left = bytes};
    entry e;
    npz->n = 0;
    QN_TRY(find_list(&z));
    npz->arrays = qn_arena_allocate(&npz->arena, (size_t)z.n_entries + 1, sizeof *npz->arrays);
    if (!npz->arrays)
        return QN_ERROR_MEMORY;
    for (uint64_t i = 0; i < z.n_entries; i++) {
        QN_TRY(read_entry(&z, &e));
        QN_TRY(add_array(&z, &e, npz));
    }
    return npz->n > 0 ? QN_OK : qn_fail(QN_ERROR_FORMAT, "no arrays in it");
}

/* ---- files ---- */

static qn_status map(const qn_allocator *allocator, const char *path, qn_npz *npz) {
    qn_file *file;
    QN_TRY(qn_file_open(allocator, path, &file));
    const qn_status status = qn_file_map(file, &npz->memory);
    npz->bytes = (size_t)qn_file_bytes(file);
    qn_file_close(file);
    return status;
}

qn_status qn_npz_open(const qn_allocator *allocator, const char *path, qn_npz *npz) {
    *npz = (qn_npz){.n = 0};
    QN_TRY(map(allocator, path, npz));
    qn_arena_init(&npz->arena, allocator);
    qn_status status = qn_npz_parse(npz->memory, npz->memory ? npz->bytes : 0, npz);
    if (qn_file_map_check(npz->memory) != QN_OK) {
        qn_npz_close(npz);
        return QN_ERROR_IO;
    }
    if (status != QN_OK) {
        status = qn_fail_within(status, "%s", path);
        qn_npz_close(npz);
    }
    return status;
}

qn_status qn_npz_check(const qn_npz *npz) {
    return qn_file_map_check(npz->memory);
}

void qn_npz_close(qn_npz *npz) {
    if (npz->memory)
        qn_file_unmap(npz->memory, npz->bytes);
    qn_arena_deinit(&npz->arena);
    *npz = (qn_npz){.n = 0};
}

const qn_npz_array *qn_npz_find(const qn_npz *npz, const char *name) {
    for (int i = 0; i < npz->n; i++) {
        if (strcmp(npz->arrays[i].name, name) == 0)
            return &npz->arrays[i];
    }
    return NULL;
}

/* ---- elements ---- */

bool qn_npz_is_whole(const qn_npz_array *array) {
    return array->header.kind != 'f';
}

/* A whole number of any size, sign extended; one of 8 bytes without sign may be beyond the type. */
static int64_t read_whole(const qn_npz_array *array, int64_t index) {
    const int bytes = array->header.element_bytes, unused = 64 - 8 * bytes;
    const uint64_t value = take(array->data + index * bytes, bytes);
    if (array->header.kind == 'i')
        return (int64_t)(value << unused) >> unused;
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static float read_real(const qn_npz_array *array, int64_t index) {
    const unsigned char *at = array->data + index * array->header.element_bytes;
    double wide;
    float narrow;
    if (array->header.kind != 'f')
        return (float)read_whole(array, index);
    if (array->header.element_bytes == 4) {
        memcpy(&narrow, at, sizeof narrow);
        return narrow;
    }
    memcpy(&wide, at, sizeof wide);
    return (float)wide;
}

void qn_npz_read_reals(const qn_npz_array *array, int64_t first, int64_t n, float *values) {
    if (array->header.kind == 'f' && array->header.element_bytes == 4) {
        memcpy(values, array->data + first * 4, (size_t)n * 4);
        return;
    }
    for (int64_t i = 0; i < n; i++)
        values[i] = read_real(array, first + i);
}

bool qn_npz_read_indices(const qn_npz_array *array, int64_t first, int64_t n, int32_t *values,
                         int64_t *bad) {
    for (int64_t i = 0; i < n; i++) {
        const int64_t value = read_whole(array, first + i);
        *bad = first + i;
        if (value < INT32_MIN || value > INT32_MAX)
            return false;
        values[i] = (int32_t)value;
    }
    return true;
}
