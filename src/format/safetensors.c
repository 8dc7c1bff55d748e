/* See safetensors.h. cJSON parses the header's values; what they say is checked here. */
#include "format/safetensors.h"

#include "base/status.h"
#include "base/text.h"
#include "os/heap.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { PREFIX_BYTES = 8, ALIGNMENT = 8 };

/* Types of the format that quern has too. */
static const struct {
    const char *name;
    qn_dtype dtype;
} types[] = {
    {"F32", QN_F32},   {"F64", QN_F64},        {"I32", QN_I32},        {"U8", QN_U8},
    {"U16", QN_U16},   {"I8", QN_I8},          {"I16", QN_I16},        {"F16", QN_F16},
    {"BF16", QN_BF16}, {"F8_E4M3", QN_F8E4M3}, {"F8_E5M2", QN_F8E5M2},
};

enum { N_TYPES = sizeof types / sizeof types[0] };

/* Those that it has none of. */
static const struct {
    const char *name;
    int bytes;
} other_types[] = {
    {"I64", 8},
    {"U64", 8},
    {"U32", 4},
    {"BOOL", 1},
};

enum { N_OTHER_TYPES = sizeof other_types / sizeof other_types[0] };

const char *qn_safetensors_type(qn_dtype dtype) {
    for (int i = 0; i < N_TYPES; i++) {
        if (types[i].dtype == dtype)
            return types[i].name;
    }
    return NULL;
}

static qn_dtype find_type(const char *name) {
    for (int i = 0; name && i < N_TYPES; i++) {
        if (strcmp(types[i].name, name) == 0)
            return types[i].dtype;
    }
    return QN_NONE;
}

void qn_safetensors_init(qn_safetensors *file, const qn_allocator *allocator) {
    *file = (qn_safetensors){.n_tensors = 0};
    qn_arena_init(&file->texts, qn_allocator_or_default(allocator));
}

void qn_safetensors_deinit(qn_safetensors *file) {
    qn_release(file->texts.allocator, file->tensors, file->capacity, sizeof *file->tensors);
    qn_arena_deinit(&file->texts);
}

/* ---- reading ---- */

/* Where a message says the trouble is: the file, and the tensor if one is read. */
typedef struct place {
    const char *file, *tensor;
} place;

static qn_status refuse(place where, const char *what) {
    if (!where.tensor)
        return qn_fail(QN_ERROR_FORMAT, "%s: not a valid safetensors file: %s", where.file, what);
    return qn_fail(QN_ERROR_FORMAT, "%s: not a valid safetensors file: tensor %s: %s", where.file,
                   where.tensor, what);
}

/* A number without sign or fraction that a double holds exactly. */
static bool get_count(const cJSON *item, int64_t *count) {
    const double largest = 9007199254740992.0;
    if (!cJSON_IsNumber(item) || !(item->valuedouble >= 0) || item->valuedouble > largest)
        return false;
    *count = (int64_t)item->valuedouble;
    return (double)*count == item->valuedouble;
}

static qn_status parse_shape(const cJSON *item, place where, qn_shape *shape) {
    const cJSON *extent;
    *shape = (qn_shape){.rank = 0};
    if (!cJSON_IsArray(item))
        return refuse(where, "shape is not an array");
    cJSON_ArrayForEach(extent, item) {
        if (shape->rank == QN_MAX_RANK)
            return qn_fail(QN_ERROR_UNSUPPORTED, "%s: tensor %s has more than %d axes", where.file,
                           where.tensor, QN_MAX_RANK);
        if (!get_count(extent, &shape->dims[shape->rank++]))
            return refuse(where, "an extent of the shape is not a count");
    }
    return QN_OK;
}

/* Bytes that type and shape ask for; false when they do not fit in 62 bits. */
static bool count_bytes(const qn_safetensor *tensor, int64_t *bytes) {
    *bytes = (int64_t)qn_dtype_bytes(tensor->dtype);
    for (int i = 0; tensor->dtype == QN_NONE && i < N_OTHER_TYPES; i++) {
        if (tensor->type == other_types[i].name)
            *bytes = other_types[i].bytes;
    }
    for (int i = 0; i < tensor->shape.rank; i++) {
        if (__builtin_mul_overflow(*bytes, tensor->shape.dims[i], bytes))
            return false;
    }
    return *bytes < INT64_MAX / 2;
}

static qn_status parse_type(const cJSON *item, place where, bool takes_any, qn_safetensor *tensor) {
    const char *name = cJSON_GetStringValue(item);
    if (!name)
        return refuse(where, "dtype is not text");
    tensor->dtype = find_type(name);
    tensor->type = qn_safetensors_type(tensor->dtype);
    for (int i = 0; takes_any && !tensor->type && i < N_OTHER_TYPES; i++) {
        if (strcmp(other_types[i].name, name) == 0)
            tensor->type = other_types[i].name;
    }
    if (!tensor->type)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: tensor %s is of type %.20s; quern reads F32, F64, F16, BF16, F8_E4M3, "
                       "F8_E5M2, I8, I16, I32, U8 and U16",
                       where.file, where.tensor, name);
    return QN_OK;
}

static qn_status parse_tensor(const cJSON *item, place where, int64_t n_data, bool takes_any,
                              qn_safetensor *tensor) {
    int64_t end, bytes;
    const cJSON *offsets = cJSON_GetObjectItemCaseSensitive(item, "data_offsets");
    if (!cJSON_IsObject(item))
        return refuse(where, "its entry is not an object");
    QN_TRY(parse_type(cJSON_GetObjectItemCaseSensitive(item, "dtype"), where, takes_any, tensor));
    QN_TRY(parse_shape(cJSON_GetObjectItemCaseSensitive(item, "shape"), where, &tensor->shape));
    if (!cJSON_IsArray(offsets) || cJSON_GetArraySize(offsets) != 2 ||
        !get_count(cJSON_GetArrayItem(offsets, 0), &tensor->begin) ||
        !get_count(cJSON_GetArrayItem(offsets, 1), &end))
        return refuse(where, "data_offsets are not two counts");
    if (end < tensor->begin || end > n_data)
        return refuse(where, "data_offsets lie outside the file; it may have been cut short");
    if (!count_bytes(tensor, &bytes) || bytes != end - tensor->begin)
        return refuse(where, "data_offsets do not match type and shape");
    tensor->bytes = (size_t)bytes;
    return QN_OK;
}

static qn_status parse_pairs(qn_safetensors *file, const cJSON *object, const char *from) {
    const cJSON *item;
    if (!cJSON_IsObject(object))
        return refuse((place){from, NULL}, "__metadata__ is not an object");
    if (file->pairs)
        return refuse((place){from, NULL}, "__metadata__ is there twice");
    const size_t n_pairs = (size_t)cJSON_GetArraySize(object);
    file->pairs = qn_arena_allocate(&file->texts, n_pairs + 1, sizeof *file->pairs);
    if (!file->pairs)
        return QN_ERROR_MEMORY;
    cJSON_ArrayForEach(item, object) {
        qn_safetensors_pair *pair = &file->pairs[file->n_pairs];
        if (!cJSON_IsString(item))
            return refuse((place){from, item->string}, "its metadata is not text");
        pair->key = qn_arena_text(&file->texts, item->string);
        pair->value = qn_arena_text(&file->texts, item->valuestring);
        if (!pair->key || !pair->value)
            return QN_ERROR_MEMORY;
        file->n_pairs++;
    }
    return QN_OK;
}

static qn_status parse_entry(qn_safetensors *file, const char *from, const char *name,
                             const cJSON *item, int64_t n_data) {
    if (strcmp(name, "__metadata__") == 0)
        return parse_pairs(file, item, from);
    QN_TRY(qn_grow(file->texts.allocator, &file->tensors, &file->capacity, file->n_tensors + 1,
                   sizeof *file->tensors));
    qn_safetensor *tensor = &file->tensors[file->n_tensors];
    tensor->name = qn_arena_text(&file->texts, name);
    if (!tensor->name)
        return QN_ERROR_MEMORY;
    QN_TRY(parse_tensor(item, (place){from, tensor->name}, n_data, file->takes_any_type, tensor));
    file->n_tensors++;
    return QN_OK;
}

static int compare_places(const void *left, const void *right) {
    const qn_safetensor *a = left, *b = right;
    if (a->begin != b->begin)
        return a->begin < b->begin ? -1 : 1;
    return a->bytes < b->bytes ? -1 : a->bytes > b->bytes;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const qn_safetensor *)left)->name, ((const qn_safetensor *)right)->name);
}

/* Where there are none, there is no array either. */
static void sort_tensors(qn_safetensors *file, int (*compare)(const void *, const void *)) {
    if (file->n_tensors > 0)
        qsort(file->tensors, file->n_tensors, sizeof *file->tensors, compare);
}

static int compare_keys(const void *left, const void *right) {
    return strcmp(((const qn_safetensors_pair *)left)->key,
                  ((const qn_safetensors_pair *)right)->key);
}

/* The tensors fill the data without gap or overlap. */
static qn_status check_places(qn_safetensors *file, const char *from, int64_t n_data) {
    int64_t end = 0;
    sort_tensors(file, compare_places);
    for (size_t i = 0; i < file->n_tensors; i++) {
        const place where = {from, file->tensors[i].name};
        if (file->tensors[i].begin < end)
            return refuse(where, "its data overlaps another tensor's");
        if (file->tensors[i].begin > end)
            return refuse(where, "there is a gap before its data");
        end += (int64_t)file->tensors[i].bytes;
    }
    if (end != n_data)
        return refuse((place){from, NULL}, "there is data that belongs to no tensor");
    return QN_OK;
}

/* Sorts by name; two of one name are refused. */
static qn_status check_names(qn_safetensors *file, const char *from) {
    sort_tensors(file, compare_names);
    for (size_t i = 1; i < file->n_tensors; i++) {
        if (compare_names(&file->tensors[i - 1], &file->tensors[i]) == 0)
            return refuse((place){from, file->tensors[i].name}, "it is there twice");
    }
    if (file->n_pairs > 0)
        qsort(file->pairs, file->n_pairs, sizeof *file->pairs, compare_keys);
    for (size_t i = 1; i < file->n_pairs; i++) {
        if (compare_keys(&file->pairs[i - 1], &file->pairs[i]) == 0)
            return refuse((place){from, file->pairs[i].key}, "its metadata is there twice");
    }
    return QN_OK;
}

/* What is left of a header's text. */
typedef struct cursor {
    const char *at, *end;
} cursor;

/* The next character that cJSON does not skip; 0: there is none. */
static char peek(cursor *c) {
    while (c->at < c->end && (unsigned char)*c->at <= ' ')
        c->at++;
    return (char)(c->at < c->end ? *c->at : 0);
}

static bool take(cursor *c, char wanted) {
    if (peek(c) != wanted)
        return false;
    c->at++;
    return true;
}

/* The next value, without the byte order mark that cJSON skips in front of one; null: none. */
static cJSON *take_value(cursor *c) {
    if ((unsigned char)peek(c) > '~')
        return NULL;
    return cJSON_ParseWithLengthOpts(c->at, (size_t)(c->end - c->at), &c->at, false);
}

static qn_status refuse_header(const char *from) {
    return refuse((place){from, NULL}, "its header is not a JSON object");
}

/* What cJSON did not take: it does not say whether for want of memory, but the heap does. */
static qn_status refuse_value(const char *from) {
    return errno == ENOMEM ? qn_fail(QN_ERROR_MEMORY, "%s: no memory to read its header", from)
                           : refuse_header(from);
}

static qn_status parse_member(qn_safetensors *file, const char *from, cursor *c, int64_t n_data) {
    errno = 0;
    cJSON *name = peek(c) == '"' ? take_value(c) : NULL;
    cJSON *item = name && take(c, ':') ? take_value(c) : NULL;
    const qn_status status =
        item ? parse_entry(file, from, name->valuestring, item, n_data) : refuse_value(from);
    cJSON_Delete(item);
    cJSON_Delete(name);
    return status;
}

/* Member by member: the tree of a whole header takes ten times the header's bytes. Only spaces may
 * follow the object. */
static qn_status parse_object(qn_safetensors *file, const char *from, cursor c, int64_t n_data) {
    if (c.at == c.end || *c.at++ != '{')
        return refuse_header(from);
    if (!take(&c, '}')) {
        do
            QN_TRY(parse_member(file, from, &c, n_data));
        while (take(&c, ','));
        if (!take(&c, '}'))
            return refuse_header(from);
    }
    while (c.at < c.end && *c.at == ' ')
        c.at++;
    return c.at == c.end ? QN_OK : refuse_header(from);
}

qn_status qn_safetensors_parse(qn_safetensors *file, const char *from, const char *header,
                               size_t header_bytes, int64_t n_data) {
    if (header_bytes == 0)
        return refuse_header(from);
    QN_TRY(parse_object(file, from, (cursor){header, header + header_bytes}, n_data));
    QN_TRY(check_places(file, from, n_data));
    file->data_offset = PREFIX_BYTES + (int64_t)header_bytes;
    return check_names(file, from);
}

qn_status qn_safetensors_read(qn_safetensors *file, qn_file *from) {
    const place where = {qn_file_path(from), NULL};
    const int64_t n_bytes = qn_file_bytes(from);
    unsigned char prefix[PREFIX_BYTES];
    uint64_t length = 0;
    char *header;
    if (n_bytes < PREFIX_BYTES)
        return refuse(where, "it is shorter than 8 bytes");
    QN_TRY(qn_file_read(from, 0, prefix, sizeof prefix));
    for (int i = PREFIX_BYTES - 1; i >= 0; i--)
        length = length << 8 | prefix[i];
    if (length > QN_SAFETENSORS_MAX_HEADER || (int64_t)length > n_bytes - PREFIX_BYTES)
        return refuse(where, "its header is longer than the file or than 100 MB");
    const qn_allocator *allocator = file->texts.allocator;
    QN_TRY(qn_allocate(allocator, (size_t)length, 1, &header));
    qn_status status = qn_file_read(from, PREFIX_BYTES, header, (size_t)length);
    if (status == QN_OK)
        status = qn_safetensors_parse(file, where.file, header, (size_t)length,
                                      n_bytes - PREFIX_BYTES - (int64_t)length);
    qn_release(allocator, header, (size_t)length, 1);
    return status;
}

const qn_safetensor *qn_safetensors_find(const qn_safetensors *file, const char *name) {
    const qn_safetensor wanted = {.name = name};
    if (file->n_tensors == 0)
        return NULL;
    return bsearch(&wanted, file->tensors, file->n_tensors, sizeof wanted, compare_names);
}

/* ---- writing ---- */

/* A text that grows; the first failure is kept. */
typedef struct text {
    const qn_allocator *allocator;
    char *bytes; /* (n_bytes) of capacity */
    size_t n_bytes, capacity;
    qn_status status;
} text;

static void put_bytes(text *to, const char *bytes, size_t n_bytes) {
    if (to->status == QN_OK)
        to->status = qn_grow(to->allocator, &to->bytes, &to->capacity, to->n_bytes + n_bytes, 1);
    if (to->status != QN_OK)
        return;
    memcpy(to->bytes + to->n_bytes, bytes, n_bytes);
    to->n_bytes += n_bytes;
}

static void put_text(text *to, const char *from) {
    put_bytes(to, from, strlen(from));
}

static void put_count(text *to, int64_t count) {
    char digits[24];
    put_bytes(to, digits, (size_t)snprintf(digits, sizeof digits, "%lld", (long long)count));
}

/* In quotation marks, as JSON wants it. */
static void put_quoted(text *to, const char *from) {
    put_text(to, "\"");
    for (size_t n; *from; from += n) {
        char escaped[8];
        const size_t bytes = qn_text_character(from);
        n = bytes > 0 ? bytes : 1;
        if ((unsigned char)*from < ' ')
            put_bytes(to, escaped, (size_t)snprintf(escaped, sizeof escaped, "\\u%04x", *from));
        else if (*from == '"' || *from == '\\')
            put_bytes(to, (char[]){'\\', *from}, 2);
        else if (bytes == 0)
            put_bytes(to, escaped,
                      (size_t)snprintf(escaped, sizeof escaped, "\\\\x%02x", (unsigned char)*from));
        else
            put_bytes(to, from, n);
    }
    put_text(to, "\"");
}

static void put_tensor(text *to, const qn_safetensor *tensor, int64_t begin) {
    put_quoted(to, tensor->name);
    put_text(to, ":{\"dtype\":");
    put_quoted(to, qn_safetensors_type(tensor->dtype));
    put_text(to, ",\"shape\":[");
    for (int i = 0; i < tensor->shape.rank; i++) {
        put_text(to, i ? "," : "");
        put_count(to, tensor->shape.dims[i]);
    }
    put_text(to, "],\"data_offsets\":[");
    put_count(to, begin);
    put_text(to, ",");
    put_count(to, begin + (int64_t)tensor->bytes);
    put_text(to, "]}");
}

static void put_pairs(text *to, const qn_safetensors_pair *pairs, size_t n_pairs) {
    put_text(to, "\"__metadata__\":{");
    for (size_t i = 0; i < n_pairs; i++) {
        put_text(to, i ? "," : "");
        put_quoted(to, pairs[i].key);
        put_text(to, ":");
        put_quoted(to, pairs[i].value);
    }
    put_text(to, "}");
}

/* What is written: the header's text, then the tensors' bytes. */
typedef struct content {
    text header;
    const qn_safetensor *tensors; /* (n_tensors) */
    size_t n_tensors;
} content;

static qn_status write_content(void *context, qn_writer *writer) {
    const content *c = context;
    unsigned char prefix[PREFIX_BYTES];
    for (int i = 0; i < PREFIX_BYTES; i++)
        prefix[i] = (unsigned char)((uint64_t)c->header.n_bytes >> (8 * i));
    QN_TRY(qn_writer_put(writer, prefix, sizeof prefix));
    QN_TRY(qn_writer_put(writer, c->header.bytes, c->header.n_bytes));
    for (size_t i = 0; i < c->n_tensors; i++)
        QN_TRY(qn_writer_put(writer, c->tensors[i].data, c->tensors[i].bytes));
    return QN_OK;
}

static void put_header(text *to, const qn_safetensor *tensors, size_t n_tensors,
                       const qn_safetensors_pair *pairs, size_t n_pairs) {
    int64_t begin = 0;
    put_text(to, "{");
    if (n_pairs > 0)
        put_pairs(to, pairs, n_pairs);
    for (size_t i = 0; i < n_tensors; i++) {
        put_text(to, i || n_pairs ? "," : "");
        put_tensor(to, &tensors[i], begin);
        begin += (int64_t)tensors[i].bytes;
    }
    put_text(to, "}");
    while (to->n_bytes % ALIGNMENT != 0 && to->status == QN_OK)
        put_text(to, " ");
}

qn_status qn_safetensors_measure(const qn_allocator *allocator, const qn_safetensor *tensors,
                                 size_t n_tensors, const qn_safetensors_pair *pairs, size_t n_pairs,
                                 int64_t *bytes) {
    text header = {.allocator = qn_allocator_or_default(allocator)};
    put_header(&header, tensors, n_tensors, pairs, n_pairs);
    *bytes = PREFIX_BYTES + (int64_t)header.n_bytes;
    for (size_t i = 0; i < n_tensors; i++)
        *bytes += (int64_t)tensors[i].bytes;
    qn_release(header.allocator, header.bytes, header.capacity, 1);
    return header.status;
}

qn_status qn_safetensors_write(const qn_allocator *allocator, const char *path,
                               const qn_safetensor *tensors, size_t n_tensors,
                               const qn_safetensors_pair *pairs, size_t n_pairs) {
    return qn_safetensors_write_in(allocator, NULL, path, tensors, n_tensors, pairs, n_pairs);
}

qn_status qn_safetensors_write_in(const qn_allocator *allocator, qn_room *room, const char *path,
                                  const qn_safetensor *tensors, size_t n_tensors,
                                  const qn_safetensors_pair *pairs, size_t n_pairs) {
    content c = {.header = {.allocator = qn_allocator_or_default(allocator)},
                 .tensors = tensors,
                 .n_tensors = n_tensors};
    put_header(&c.header, tensors, n_tensors, pairs, n_pairs);
    qn_status status = c.header.status;
    if (status == QN_OK && c.header.n_bytes > QN_SAFETENSORS_MAX_HEADER)
        status = qn_fail(QN_ERROR_UNSUPPORTED, "%s: the header would be longer than 100 MB", path);
    if (status == QN_OK)
        status = qn_file_replace_in(room, path, write_content, &c);
    qn_release(c.header.allocator, c.header.bytes, c.header.capacity, 1);
    return status;
}
