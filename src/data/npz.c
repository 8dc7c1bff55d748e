/* See npz.h. */
#include "data/npz.h"

#include "base/status.h"
#include "format/zip.h"

#include <math.h>
#include <string.h>
#include <zlib.h>

enum { MOST_ENTRIES = 4096 };

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

/* The bytes of an entry as they were before they were packed. */
static qn_status unpack(qn_zip *z, const qn_zip_entry *e, qn_arena *arena,
                        const unsigned char **data) {
    const unsigned char *bytes;
    QN_TRY(qn_zip_locate(z, e, &bytes));
    *data = bytes;
    if (e->method == QN_ZIP_DEFLATED) {
        unsigned char *unpacked = qn_arena_allocate(arena, (size_t)e->unpacked + 1, 1);
        if (!unpacked)
            return QN_ERROR_MEMORY;
        if (!inflate_all(bytes, e->packed, unpacked, e->unpacked))
            return qn_fail(QN_ERROR_FORMAT, "%.*s cannot be unpacked: the file is damaged",
                           (int)e->name_bytes, e->name);
        *data = unpacked;
    }
    if (!qn_zip_is_whole(e, *data))
        return qn_fail(QN_ERROR_FORMAT, "%.*s: wrong checksum: the file is damaged",
                       (int)e->name_bytes, e->name);
    return QN_OK;
}

static qn_status add_array(qn_zip *z, const qn_zip_entry *e, qn_npz *npz) {
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
    if (e->unpacked - (uint64_t)array->header.header_bytes < (uint64_t)array->header.data_bytes)
        return qn_fail(QN_ERROR_FORMAT, "array %s is cut off", array->name);
    array->data += array->header.header_bytes;
    if (qn_npz_find(npz, array->name))
        return qn_fail(QN_ERROR_FORMAT, "two arrays %s", array->name);
    npz->n++;
    return QN_OK;
}

qn_status qn_npz_parse(const unsigned char *data, size_t bytes, qn_npz *npz) {
    qn_zip z;
    qn_zip_entry e;
    npz->n = 0;
    QN_TRY(qn_zip_open(&z, data, bytes, MOST_ENTRIES, "a .npz file", "write it with numpy.savez"));
    npz->arrays = qn_arena_allocate(&npz->arena, (size_t)z.n_entries + 1, sizeof *npz->arrays);
    if (!npz->arrays)
        return QN_ERROR_MEMORY;
    for (uint64_t i = 0; i < z.n_entries; i++) {
        QN_TRY(qn_zip_next(&z, &e));
        QN_TRY(add_array(&z, &e, npz));
    }
    return npz->n > 0 ? QN_OK : qn_fail(QN_ERROR_FORMAT, "no arrays in it");
}

qn_status qn_npz_check_numbers(const qn_npz_array *array) {
    if (array->header.kind == 'U' || array->header.kind == 'S')
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "array %s holds texts; save the numbers of the classes, "
                       "numpy.unique(y, return_inverse=True)[1]",
                       array->name);
    if (array->header.is_fortran)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "array %s is in Fortran's order; save numpy.ascontiguousarray of it",
                       array->name);
    return QN_OK;
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

void qn_npz_forget(const qn_npz *npz) {
    qn_file_forget(npz->memory);
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
    const uint64_t value = qn_zip_take(array->data + index * bytes, bytes);
    if (array->header.kind == 'i')
        return (int64_t)(value << unused) >> unused;
    return value > INT64_MAX ? INT64_MAX : (int64_t)value;
}

static float read_real(const qn_npz_array *array, int64_t index) {
    return qn_npy_float(&array->header, array->data + index * array->header.element_bytes);
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
