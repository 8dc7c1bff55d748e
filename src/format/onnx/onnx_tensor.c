/* Tensors of ONNX files: what type and extents say is compared with what there is, in the message
 * (as raw bytes or as a list of numbers) or in a file beside it. Raw and outside data are used
 * where they lie; lists are made dense, and numbers of four bits get a byte each. Left out: tensors
 * in segments, of texts, of complex numbers. */
#include "base/status.h"
#include "format/onnx/onnx_parts.h"
#include "os/os.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
    qn_onnx_type type;
    const char *name;
    size_t bytes;
} types[] = {
    {QN_ONNX_FLOAT, "float", 4},
    {QN_ONNX_UINT8, "uint8", 1},
    {QN_ONNX_INT8, "int8", 1},
    {QN_ONNX_UINT16, "uint16", 2},
    {QN_ONNX_INT16, "int16", 2},
    {QN_ONNX_INT32, "int32", 4},
    {QN_ONNX_INT64, "int64", 8},
    {QN_ONNX_STRING, "string", 0},
    {QN_ONNX_BOOL, "bool", 1},
    {QN_ONNX_FLOAT16, "float16", 2},
    {QN_ONNX_DOUBLE, "double", 8},
    {QN_ONNX_UINT32, "uint32", 4},
    {QN_ONNX_UINT64, "uint64", 8},
    {QN_ONNX_BFLOAT16, "bfloat16", 2},
    {QN_ONNX_FLOAT8E4M3FN, "float8e4m3fn", 1},
    {QN_ONNX_FLOAT8E5M2, "float8e5m2", 1},
    {QN_ONNX_UINT4, "uint4", 1},
    {QN_ONNX_INT4, "int4", 1},
};

enum { N_TYPES = sizeof types / sizeof types[0], DATA_ALIGNMENT = 16 };

const char *qn_onnx_type_name(qn_onnx_type type) {
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].type == type)
            return types[i].name;
    }
    return "unknown";
}

size_t qn_onnx_type_bytes(qn_onnx_type type) {
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].type == type)
            return types[i].bytes;
    }
    return 0;
}

/* A tensor that is being read, with where it is for messages. */
typedef struct work {
    qn_onnx_reading *reading;
    const char *place;
    const Onnx__TensorProto *from;
    qn_onnx_tensor *tensor;
    size_t n; /* elements */
} work;

static qn_status refuse(const work *w, qn_status status, const char *what) {
    return QN_ONNX_FAIL(w->reading, status, "%s '%.80s': %s", w->place, w->tensor->name, what);
}

static qn_status read_extents(work *w) {
    qn_onnx_tensor *t = w->tensor;
    const size_t size = qn_onnx_type_bytes(t->type);
    int64_t n = 1, bytes;
    if (size == 0)
        return QN_ONNX_FAIL(w->reading, QN_ERROR_UNSUPPORTED,
                            "%s '%.80s' is of type %s (%d), which quern has no use for", w->place,
                            t->name, qn_onnx_type_name(t->type), (int)t->type);
    if (w->from->n_dims > QN_ONNX_MOST_DIMS)
        return refuse(w, QN_ERROR_UNSUPPORTED, "it has more than 16 axes");
    for (size_t i = 0; i < w->from->n_dims; i++) {
        if (w->from->dims[i] < 0)
            return refuse(w, QN_ERROR_FORMAT, "an extent is below 0");
        if (__builtin_mul_overflow(n, w->from->dims[i], &n))
            return refuse(w, QN_ERROR_FORMAT, "its extents are beyond all memory");
    }
    if (__builtin_mul_overflow(n, (int64_t)size, &bytes) || (uint64_t)bytes > SIZE_MAX / 2)
        return refuse(w, QN_ERROR_FORMAT, "its extents are beyond all memory");
    t->n_dims = (int)w->from->n_dims;
    t->dims = w->from->dims;
    t->bytes = (size_t)bytes;
    w->n = (size_t)n;
    return QN_OK;
}

static bool is_packed(const work *w) {
    return w->tensor->type == QN_ONNX_UINT4 || w->tensor->type == QN_ONNX_INT4;
}

/* Bytes that the numbers have in the file. */
static size_t stored_bytes(const work *w) {
    return is_packed(w) ? w->n / 2 + w->n % 2 : w->tensor->bytes;
}

/* Numbers of four bits, the first of two in the lower half of a byte, as bytes of their own. */
static qn_status unpack(work *w) {
    const bool is_signed = w->tensor->type == QN_ONNX_INT4;
    const uint8_t *packed = w->tensor->data;
    uint8_t *data;
    if (!is_packed(w) || w->n == 0)
        return QN_OK;
    QN_TRY(qn_onnx_place(w->reading, w->n, 1, &data));
    for (size_t i = 0; i < w->n; i++) {
        const uint8_t number = packed[i / 2] >> 4 * (i % 2) & 15;
        data[i] = is_signed && number > 7 ? (uint8_t)(number | 0xf0) : number;
    }
    w->tensor->data = data;
    return QN_OK;
}

/* ---- outside ---- */

/* A path of names without "..", which starts where the model is. */
static bool stays_inside(const char *path) {
    if (!path[0] || path[0] == '/' || strchr(path, '\\'))
        return false;
    for (const char *name = path; name; name = strchr(name, '/')) {
        name += *name == '/';
        if (strncmp(name, "..", 2) == 0 && (name[2] == '/' || !name[2]))
            return false;
    }
    return true;
}

/* Whether a path, links resolved, lies in the folder, or may lie elsewhere; resolved gets it. */
static qn_status resolve_inside(const work *w, const char *location, char resolved[PATH_MAX],
                                bool *is_followed) {
    char path[PATH_MAX], folder[PATH_MAX];
    if (!w->reading->folder)
        return refuse(w, QN_ERROR_FORMAT, "its data are outside of the file, which has no folder");
    if (!stays_inside(location))
        return refuse(w, QN_ERROR_FORMAT, "the path of its data leads out of the model's folder");
    const int n = snprintf(path, sizeof path, "%s/%s", w->reading->folder, location);
    if (n < 0 || (size_t)n >= sizeof path)
        return refuse(w, QN_ERROR_FORMAT, "the path of its data is too long");
    QN_TRY(qn_path_resolve(w->reading->folder, folder, sizeof folder));
    if (qn_path_resolve(path, resolved, PATH_MAX) != QN_OK)
        return qn_fail_within(QN_ERROR_IO, "%s: data of %s '%.80s'", w->reading->name, w->place,
                              w->tensor->name);
    const size_t length = strlen(folder);
    const size_t part = length == 1 ? 0 : length; /* "/" */
    *is_followed = strncmp(resolved, folder, part) != 0 || resolved[part] != '/';
    if (*is_followed && !w->reading->follows_links)
        return refuse(w, QN_ERROR_FORMAT,
                      "the path of its data leads out of the model's folder by a link: copy the "
                      "file there, or allow it by --follow-links");
    return QN_OK;
}

static qn_status map_path(const char *path, const qn_allocator *allocator, qn_onnx_mapping *m) {
    qn_file *file;
    QN_TRY(qn_file_open(allocator, path, &file));
    const qn_status status = qn_file_map(file, &m->memory);
    m->bytes = (size_t)qn_file_bytes(file);
    qn_file_close(file);
    return status;
}

static qn_status find_mapping(work *w, const char *location, const qn_onnx_mapping **found) {
    qn_onnx_file *file = w->reading->file;
    char resolved[PATH_MAX];
    qn_onnx_mapping *m = file->mappings;
    while (m && strcmp(m->location, location) != 0)
        m = m->next;
    if (!m) {
        bool is_followed;
        QN_TRY(resolve_inside(w, location, resolved, &is_followed));
        QN_TRY(qn_onnx_place(w->reading, 1, sizeof *m, &m));
        if (is_followed && !(m->followed = qn_arena_text(&file->arena, resolved)))
            return QN_ERROR_MEMORY;
        m->location = location;
        const qn_status status = map_path(resolved, file->allocator, m);
        if (status != QN_OK)
            return qn_fail_within(status, "%s: data of %s '%.80s'", w->reading->name, w->place,
                                  w->tensor->name);
        m->next = file->mappings;
        file->mappings = m;
    }
    *found = m;
    return QN_OK;
}

/* A count in decimal digits; fallback where there is no such entry. */
static bool find_count(const Onnx__TensorProto *from, const char *key, uint64_t fallback,
                       uint64_t *count) {
    *count = fallback;
    for (size_t i = 0; i < from->n_external_data; i++) {
        const char *value = qn_onnx_text_or_empty(from->external_data[i]->value);
        if (strcmp(qn_onnx_text_or_empty(from->external_data[i]->key), key) != 0)
            continue;
        const size_t n = strspn(value, "0123456789");
        *count = strtoull(value, NULL, 10);
        return n > 0 && n < 19 && !value[n];
    }
    return true;
}

static qn_status read_outside(work *w) {
    qn_onnx_tensor *t = w->tensor;
    const qn_onnx_mapping *mapping;
    const size_t bytes = stored_bytes(w);
    uint64_t offset, length;
    const char *location = "";
    for (size_t i = 0; i < w->from->n_external_data; i++) {
        if (strcmp(qn_onnx_text_or_empty(w->from->external_data[i]->key), "location") == 0)
            location = qn_onnx_text_or_empty(w->from->external_data[i]->value);
    }
    if (!find_count(w->from, "offset", 0, &offset) ||
        !find_count(w->from, "length", bytes, &length))
        return refuse(w, QN_ERROR_FORMAT, "offset or length of its data is not a count");
    if (length != bytes)
        return refuse(w, QN_ERROR_FORMAT, "its data are not as long as type and extents say");
    QN_TRY(find_mapping(w, location, &mapping));
    if (offset > mapping->bytes || length > mapping->bytes - offset)
        return refuse(w, QN_ERROR_FORMAT, "its data lie beyond the end of their file");
    if (t->bytes == 0)
        return QN_OK;
    t->data = (const char *)mapping->memory + offset;
    if (offset % qn_onnx_type_bytes(t->type) == 0)
        return QN_OK;
    void *aligned;
    QN_TRY(qn_onnx_place(w->reading, t->bytes, 1, &aligned));
    memcpy(aligned, t->data, t->bytes);
    t->data = aligned;
    return QN_OK;
}

/* ---- inside ---- */

/* Whole numbers of 32 bits as those of a smaller type; halves come as their bits, and two numbers
 * of four bits as a byte. */
static qn_status narrow(work *w) {
    const size_t size = qn_onnx_type_bytes(w->tensor->type), n = w->from->n_int32_data;
    const bool is_signed = w->tensor->type == QN_ONNX_INT8 || w->tensor->type == QN_ONNX_INT16;
    const int32_t span = size == 1 ? 256 : 65536, least = is_signed ? -span / 2 : 0;
    char *data;
    QN_TRY(qn_onnx_place(w->reading, n, size, &data));
    for (size_t i = 0; i < n; i++) {
        const int32_t value = w->from->int32_data[i];
        if (value < least || value >= least + span)
            return refuse(w, QN_ERROR_FORMAT, "one of its numbers is not of its type");
        memcpy(data + i * size, &value, size);
    }
    w->tensor->data = data;
    return QN_OK;
}

static qn_status narrow_unsigned(work *w) {
    uint32_t *data;
    QN_TRY(qn_onnx_place(w->reading, w->n, sizeof *data, &data));
    for (size_t i = 0; i < w->n; i++) {
        if (w->from->uint64_data[i] > UINT32_MAX)
            return refuse(w, QN_ERROR_FORMAT, "one of its numbers is not of its type");
        data[i] = (uint32_t)w->from->uint64_data[i];
    }
    w->tensor->data = data;
    return QN_OK;
}

/* The list that numbers of a type are in. */
static size_t find_list(const Onnx__TensorProto *from, qn_onnx_type type, const void **list) {
    switch (type) {
    case QN_ONNX_FLOAT:
        *list = from->float_data;
        return from->n_float_data;
    case QN_ONNX_DOUBLE:
        *list = from->double_data;
        return from->n_double_data;
    case QN_ONNX_INT64:
        *list = from->int64_data;
        return from->n_int64_data;
    case QN_ONNX_UINT32:
    case QN_ONNX_UINT64:
        *list = from->uint64_data;
        return from->n_uint64_data;
    default:
        *list = from->int32_data;
        return from->n_int32_data;
    }
}

static qn_status read_list(work *w) {
    const void *list;
    const size_t n = find_list(w->from, w->tensor->type, &list);
    const size_t wanted = is_packed(w) ? stored_bytes(w) : w->n;
    if (n != wanted)
        return QN_ONNX_FAIL(w->reading, QN_ERROR_FORMAT,
                            "%s '%.80s': %zu numbers, while its extents say %zu", w->place,
                            w->tensor->name, n, wanted);
    if (n == 0)
        return QN_OK;
    if (w->tensor->type == QN_ONNX_UINT32)
        return narrow_unsigned(w);
    if (qn_onnx_type_bytes(w->tensor->type) < 4)
        return narrow(w);
    w->tensor->data = list;
    return QN_OK;
}

static qn_status read_raw(work *w) {
    if (w->from->raw_data.len != stored_bytes(w))
        return QN_ONNX_FAIL(w->reading, QN_ERROR_FORMAT,
                            "%s '%.80s': %zu bytes, while type and extents say %zu", w->place,
                            w->tensor->name, w->from->raw_data.len, stored_bytes(w));
    w->tensor->data = w->from->raw_data.data;
    return QN_OK;
}

qn_status qn_onnx_read_tensor(qn_onnx_reading *reading, const char *place,
                              const Onnx__TensorProto *from, qn_onnx_tensor *tensor) {
    static const char nothing[DATA_ALIGNMENT] __attribute__((aligned(DATA_ALIGNMENT)));
    work w = {.reading = reading, .place = place, .from = from, .tensor = tensor};
    tensor->name = qn_onnx_text_or_empty(from->name);
    tensor->type = (qn_onnx_type)from->data_type;
    QN_TRY(read_extents(&w));
    QN_TRY(qn_onnx_read_properties(reading, &from->base, QN_ONNX_PROPERTIES_OF_TENSOR,
                                   &tensor->properties, &tensor->n_properties));
    if (from->segment)
        return refuse(&w, QN_ERROR_UNSUPPORTED, "it is in segments");
    if (from->data_location == ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL)
        QN_TRY(read_outside(&w));
    else if (from->has_raw_data)
        QN_TRY(read_raw(&w));
    else
        QN_TRY(read_list(&w));
    QN_TRY(unpack(&w));
    if (tensor->bytes == 0)
        tensor->data = nothing;
    return QN_OK;
}
