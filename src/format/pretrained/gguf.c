/* See gguf.h. */
#include "format/pretrained/gguf.h"

#include "base/status.h"
#include "os/heap.h"
#include "tensor/halves.h"

#include <stdlib.h>
#include <string.h>

enum {
    HEADER_BYTES = 24,
    MOST_NAME_BYTES = 65535, /* of a key; the format's own limit */
    MOST_AXES = 4,
    LEAST_PAIR_BYTES = 8 + 4 + 1,
    LEAST_TENSOR_BYTES = 8 + 4 + 4 + 8,
    USUAL_ALIGNMENT = 32,
    MOST_ALIGNMENT = 1 << 20,
};

/* Bytes of an element; 0: it depends. */
static const size_t kind_bytes[QN_GGUF_KINDS] = {
    [QN_GGUF_U8] = 1,  [QN_GGUF_I8] = 1,  [QN_GGUF_U16] = 2, [QN_GGUF_I16] = 2,
    [QN_GGUF_U32] = 4, [QN_GGUF_I32] = 4, [QN_GGUF_F32] = 4, [QN_GGUF_BOOL] = 1,
    [QN_GGUF_U64] = 8, [QN_GGUF_I64] = 8, [QN_GGUF_F64] = 8,
};

/* Types of tensors by their numbers; sizes of those that quern does not widen, whose place is
 * checked all the same. */
static const struct {
    const char *name;
    int n_numbers, n_bytes;
} types[] = {
    [0] = {"F32", 0, 0},         [1] = {"F16", 0, 0},         [2] = {"Q4_0", 0, 0},
    [3] = {"Q4_1", 0, 0},        [6] = {"Q5_0", 0, 0},        [7] = {"Q5_1", 0, 0},
    [8] = {"Q8_0", 0, 0},        [9] = {"Q8_1", 32, 40},      [10] = {"Q2_K", 256, 84},
    [11] = {"Q3_K", 256, 110},   [12] = {"Q4_K", 0, 0},       [13] = {"Q5_K", 0, 0},
    [14] = {"Q6_K", 0, 0},       [15] = {"Q8_K", 256, 292},   [16] = {"IQ2_XXS", 256, 66},
    [17] = {"IQ2_XS", 256, 74},  [18] = {"IQ3_XXS", 256, 98}, [19] = {"IQ1_S", 256, 50},
    [20] = {"IQ4_NL", 32, 18},   [21] = {"IQ3_S", 256, 110},  [22] = {"IQ2_S", 256, 82},
    [23] = {"IQ4_XS", 256, 136}, [24] = {"I8", 1, 1},         [25] = {"I16", 1, 2},
    [26] = {"I32", 1, 4},        [27] = {"I64", 1, 8},        [28] = {"F64", 1, 8},
    [29] = {"IQ1_M", 256, 56},   [30] = {"BF16", 0, 0},       [34] = {"TQ1_0", 256, 54},
    [35] = {"TQ2_0", 256, 66},   [39] = {"MXFP4", 32, 17},    [40] = {"NVFP4", 64, 36},
    [41] = {"Q1_0", 128, 18},
};

enum { N_TYPES = sizeof types / sizeof types[0] };

/* What is left of the file. The first failure is kept: all that is read after it is 0. */
typedef struct reader {
    const char *place;
    const uint8_t *begin, *at, *end;
    qn_status status;
} reader;

static size_t left(const reader *r) {
    return (size_t)(r->end - r->at);
}

static qn_status refuse(const char *place, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "%s: not a valid GGUF file: %s", place, what);
}

static void fail(reader *r, const char *what) {
    if (r->status == QN_OK)
        r->status = refuse(r->place, what);
}

static const uint8_t *take(reader *r, uint64_t bytes) {
    const uint8_t *taken = r->at;
    if (r->status == QN_OK && bytes > left(r))
        fail(r, "it ends too early; it may have been cut short");
    if (r->status != QN_OK)
        return NULL;
    r->at += bytes;
    return taken;
}

static uint64_t get_integer(const uint8_t *from, size_t bytes) {
    uint64_t value = 0;
    for (size_t i = bytes; i-- > 0;)
        value = value << 8 | from[i];
    return value;
}

static uint64_t take_integer(reader *r, size_t bytes) {
    const uint8_t *from = take(r, bytes);
    return from ? get_integer(from, bytes) : 0;
}

/* A key's or tensor's name, copied and ended. "" after a failure. */
static const char *take_name(reader *r, qn_arena *texts) {
    const uint64_t bytes = take_integer(r, 8);
    if (r->status == QN_OK && bytes > MOST_NAME_BYTES)
        fail(r, "a name is longer than 65,535 bytes");
    const uint8_t *from = take(r, bytes);
    if (from && (bytes == 0 || memchr(from, 0, (size_t)bytes)))
        fail(r, "a name is empty or has a zero byte");
    if (r->status != QN_OK)
        return "";
    char *name = qn_arena_allocate(texts, (size_t)bytes + 1, 1);
    if (name)
        memcpy(name, from, (size_t)bytes);
    else
        r->status = QN_ERROR_MEMORY;
    return name ? name : "";
}

/* ---- values ---- */

static void pass_texts(reader *r, uint64_t n) {
    if (r->status == QN_OK && n > left(r) / 8)
        fail(r, "a list is longer than the file");
    for (uint64_t i = 0; i < n && r->status == QN_OK; i++)
        take(r, take_integer(r, 8));
}

static void check_bools(reader *r, const qn_gguf_value *value) {
    for (size_t i = 0; r->status == QN_OK && i < value->bytes; i++) {
        if (value->data[i] > 1)
            fail(r, "a truth value is neither 0 nor 1");
    }
}

static void take_elements(reader *r, qn_gguf_value *value) {
    value->data = r->at;
    if (value->kind == QN_GGUF_TEXT)
        pass_texts(r, value->n);
    else if (value->n > left(r) / kind_bytes[value->kind])
        fail(r, "a value is longer than the file");
    else
        take(r, value->n * kind_bytes[value->kind]);
    value->bytes = (size_t)(r->at - value->data);
    if (value->kind == QN_GGUF_BOOL)
        check_bools(r, value);
}

static void take_value(reader *r, const char *key, qn_gguf_value *value) {
    uint64_t kind = take_integer(r, 4);
    *value = (qn_gguf_value){.is_list = kind == QN_GGUF_LIST, .n = 1};
    if (value->is_list) {
        kind = take_integer(r, 4);
        value->n = take_integer(r, 8);
    }
    if (r->status == QN_OK && kind == QN_GGUF_LIST)
        r->status = qn_fail(QN_ERROR_UNSUPPORTED,
                            "%s: the value of %.80s is a list of lists, which quern does not read",
                            r->place, key);
    else if (kind >= QN_GGUF_KINDS)
        fail(r, "a value is of a kind that the format does not have");
    if (r->status != QN_OK)
        return;
    value->kind = (qn_gguf_kind)kind;
    take_elements(r, value);
}

static int compare_keys(const void *left_pair, const void *right_pair) {
    return strcmp(((const qn_gguf_pair *)left_pair)->key, ((const qn_gguf_pair *)right_pair)->key);
}

static qn_status read_pairs(qn_gguf *file, reader *r, uint64_t n) {
    if (n > left(r) / LEAST_PAIR_BYTES)
        return refuse(r->place, "it says that it has more values than fit in it");
    file->pairs = qn_arena_allocate(&file->texts, (size_t)n + 1, sizeof *file->pairs);
    if (!file->pairs)
        return QN_ERROR_MEMORY;
    for (; file->n_pairs < n && r->status == QN_OK; file->n_pairs++) {
        qn_gguf_pair *pair = &file->pairs[file->n_pairs];
        pair->key = take_name(r, &file->texts);
        take_value(r, pair->key, &pair->value);
    }
    QN_TRY(r->status);
    qsort(file->pairs, file->n_pairs, sizeof *file->pairs, compare_keys);
    for (size_t i = 1; i < file->n_pairs; i++) {
        if (compare_keys(&file->pairs[i - 1], &file->pairs[i]) == 0)
            return qn_fail(QN_ERROR_FORMAT, "%s: not a valid GGUF file: %.80s is there twice",
                           r->place, file->pairs[i].key);
    }
    return QN_OK;
}

const qn_gguf_value *qn_gguf_find(const qn_gguf *file, const char *key) {
    const qn_gguf_pair wanted = {.key = key};
    const qn_gguf_pair *found = file->n_pairs > 0 ? bsearch(&wanted, file->pairs, file->n_pairs,
                                                            sizeof wanted, compare_keys)
                                                  : NULL;
    return found ? &found->value : NULL;
}

static bool get_signed(uint64_t bits, size_t bytes, double *number) {
    const int shift = 64 - 8 * (int)bytes;
    const int64_t value = (int64_t)(bits << shift) >> shift;
    *number = (double)value;
    return *number >= -0x1p53 && *number <= 0x1p53;
}

bool qn_gguf_get_number(const qn_gguf_value *value, uint64_t i, double *number) {
    const size_t bytes = kind_bytes[value->kind];
    if (i >= value->n || value->kind == QN_GGUF_TEXT)
        return false;
    const uint64_t bits = get_integer(value->data + i * bytes, bytes);
    switch (value->kind) {
    case QN_GGUF_F32:
        *number = qn_float_of((uint32_t)bits);
        return true;
    case QN_GGUF_F64:
        memcpy(number, &bits, sizeof bits);
        return true;
    case QN_GGUF_I8:
    case QN_GGUF_I16:
    case QN_GGUF_I32:
    case QN_GGUF_I64:
        return get_signed(bits, bytes, number);
    default:
        *number = (double)bits;
        return bits <= UINT64_C(1) << 53;
    }
}

const char *qn_gguf_next_text(const uint8_t **at, size_t *bytes) {
    const char *text = (const char *)*at + 8;
    *bytes = (size_t)get_integer(*at, 8);
    *at += 8 + *bytes;
    return text;
}

/* ---- tensors ---- */

/* A tensor's message: what is wrong with it. */
static void fail_tensor(reader *r, const qn_pretrained_tensor *tensor, const char *what) {
    if (r->status == QN_OK)
        r->status = qn_fail(QN_ERROR_FORMAT, "%s: not a valid GGUF file: tensor %.80s: %s",
                            r->place, tensor->name, what);
}

/* The file has the fastest axis first. */
static void take_shape(reader *r, qn_pretrained_tensor *tensor) {
    const uint64_t rank = take_integer(r, 4);
    if (rank > MOST_AXES)
        fail_tensor(r, tensor, "it has more than 4 axes");
    if (r->status != QN_OK)
        return;
    tensor->shape.rank = (int)rank;
    for (int i = (int)rank; i-- > 0;) {
        const uint64_t extent = take_integer(r, 8);
        if (extent > (uint64_t)INT64_MAX)
            fail_tensor(r, tensor, "an extent is beyond all bounds");
        tensor->shape.dims[i] = (int64_t)extent;
    }
}

static void take_type(reader *r, qn_pretrained_tensor *tensor, uint64_t *type) {
    *type = take_integer(r, 4);
    if (r->status == QN_OK && (*type >= N_TYPES || !types[*type].name))
        r->status = qn_fail(QN_ERROR_UNSUPPORTED,
                            "%s: tensor %.80s is of type %llu, which quern does not know", r->place,
                            tensor->name, (unsigned long long)*type);
    if (r->status != QN_OK)
        return;
    tensor->type = types[*type].name;
    tensor->blocks = qn_blocks_find(tensor->type);
}

/* Bytes that type and shape ask for. */
static void count_bytes(reader *r, uint64_t type, qn_pretrained_tensor *tensor) {
    const qn_shape *shape = &tensor->shape;
    int64_t n = 1;
    if (r->status != QN_OK)
        return;
    for (int i = 0; i < shape->rank; i++) {
        if (__builtin_mul_overflow(n, shape->dims[i], &n))
            fail_tensor(r, tensor, "its extents are beyond all bounds");
    }
    const bool is_read = tensor->blocks != QN_BLOCKS_NONE;
    const int n_numbers = is_read ? qn_blocks_numbers(tensor->blocks) : types[type].n_numbers;
    const int n_bytes = is_read ? qn_blocks_bytes(tensor->blocks) : types[type].n_bytes;
    const int64_t columns = shape->rank > 0 ? shape->dims[shape->rank - 1] : 1;
    if (columns % n_numbers != 0)
        fail_tensor(r, tensor, "its rows are no multiple of its blocks");
    if (r->status == QN_OK && __builtin_mul_overflow(n / n_numbers, n_bytes, &n))
        fail_tensor(r, tensor, "its extents are beyond all bounds");
    tensor->bytes = (size_t)n;
}

/* Where a tensor lies, counted from the beginning of the data, until the table has been read. */
typedef struct extent {
    uint64_t begin;
    size_t tensor;
} extent;

static qn_status read_table(qn_gguf *file, reader *r, uint64_t n, extent *extents) {
    for (size_t i = 0; i < n; i++) {
        qn_pretrained_tensor tensor = {.blocks = QN_BLOCKS_NONE};
        uint64_t type = 0;
        tensor.name = take_name(r, &file->texts);
        take_shape(r, &tensor);
        take_type(r, &tensor, &type);
        count_bytes(r, type, &tensor);
        extents[i] = (extent){take_integer(r, 8), i};
        QN_TRY(r->status);
        QN_TRY(qn_tensors_add(&file->tensors, &tensor));
    }
    return QN_OK;
}

static int compare_extents(const void *a, const void *b) {
    const extent *x = a, *y = b;
    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    return x->tensor < y->tensor ? -1 : x->tensor > y->tensor;
}

static qn_status find_alignment(const qn_gguf *file, const char *place, uint64_t *alignment) {
    const qn_gguf_value *value = qn_gguf_find(file, "general.alignment");
    *alignment = USUAL_ALIGNMENT;
    if (!value)
        return QN_OK;
    if (value->kind != QN_GGUF_U32 || value->is_list)
        return refuse(place, "general.alignment is no count");
    *alignment = get_integer(value->data, 4);
    if (*alignment == 0 || *alignment > MOST_ALIGNMENT || (*alignment & (*alignment - 1)) != 0)
        return refuse(place, "general.alignment is no power of two up to 1 MiB");
    return QN_OK;
}

/* Gives every tensor its bytes, which follow the table at the next multiple of the alignment. */
static qn_status place_tensors(qn_gguf *file, reader *r, extent *extents) {
    uint64_t alignment, free_from = 0;
    QN_TRY(find_alignment(file, r->place, &alignment));
    const uint64_t used = (uint64_t)(r->at - r->begin);
    const uint64_t skipped = (alignment - used % alignment) % alignment;
    const uint8_t *data = skipped < left(r) ? r->at + skipped : r->end;
    const uint64_t n_data = (uint64_t)(r->end - data);
    if (file->tensors.n > 0)
        qsort(extents, file->tensors.n, sizeof *extents, compare_extents);
    for (size_t i = 0; i < file->tensors.n && r->status == QN_OK; i++) {
        qn_pretrained_tensor *tensor = &file->tensors.list[extents[i].tensor];
        const uint64_t begin = extents[i].begin;
        if (begin % alignment != 0)
            fail_tensor(r, tensor, "its place is no multiple of the alignment");
        else if (begin > n_data || tensor->bytes > n_data - begin)
            fail_tensor(r, tensor, "it lies outside the file, which may have been cut short");
        else if (begin < free_from)
            fail_tensor(r, tensor, "it overlaps another tensor");
        else
            tensor->data = data + begin;
        free_from = begin + tensor->bytes;
    }
    return r->status;
}

static qn_status read_tensors(qn_gguf *file, reader *r, uint64_t n) {
    extent *extents;
    if (n > left(r) / LEAST_TENSOR_BYTES)
        return refuse(r->place, "it says that it has more tensors than fit in it");
    QN_TRY(qn_allocate(file->texts.allocator, (size_t)n, sizeof *extents, &extents));
    qn_status status = read_table(file, r, n, extents);
    if (status == QN_OK)
        status = place_tensors(file, r, extents);
    qn_release(file->texts.allocator, extents, (size_t)n, sizeof *extents);
    return status == QN_OK ? qn_tensors_finish(&file->tensors, r->place) : status;
}

/* ---- the whole ---- */

void qn_gguf_init(qn_gguf *file, const qn_allocator *allocator) {
    allocator = qn_allocator_or_default(allocator);
    *file = (qn_gguf){.tensors.allocator = allocator};
    qn_arena_init(&file->texts, allocator);
}

void qn_gguf_deinit(qn_gguf *file) {
    qn_tensors_deinit(&file->tensors);
    qn_arena_deinit(&file->texts);
}

bool qn_gguf_is(const uint8_t *data, size_t bytes) {
    return bytes >= 4 && memcmp(data, "GGUF", 4) == 0;
}

static qn_status check_version(const char *place, uint32_t version) {
    if (version == 2 || version == 3)
        return QN_OK;
    if (version != 0 && (version & 0xffff) == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: a GGUF file of a big-endian machine; convert the model again on a "
                       "little-endian one",
                       place);
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "%s: version %u of GGUF; quern reads versions 2 and 3: convert the model again",
                   place, (unsigned)version);
}

/* One of several files would else be taken for a model without most of its tensors. */
static qn_status check_split(const qn_gguf *file, const char *place) {
    const qn_gguf_value *value = qn_gguf_find(file, "split.count");
    double n;
    if (!value || !qn_gguf_get_number(value, 0, &n) || n <= 1)
        return QN_OK;
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "%s: one of %.0f files of a split model; merge them first: llama-gguf-split "
                   "--merge FIRST-FILE OUT.gguf",
                   place, n);
}

qn_status qn_gguf_parse(qn_gguf *file, const char *place, const uint8_t *data, size_t bytes) {
    if (!qn_gguf_is(data, bytes))
        return refuse(place, "it does not begin with \"GGUF\"");
    if (bytes < HEADER_BYTES)
        return refuse(place, "it is shorter than a header");
    reader r = {.place = place, .begin = data, .at = data, .end = data + bytes};
    take(&r, 4);
    file->version = (uint32_t)take_integer(&r, 4);
    QN_TRY(check_version(place, file->version));
    const uint64_t n_tensors = take_integer(&r, 8), n_pairs = take_integer(&r, 8);
    QN_TRY(read_pairs(file, &r, n_pairs));
    QN_TRY(check_split(file, place));
    return read_tensors(file, &r, n_tensors);
}
