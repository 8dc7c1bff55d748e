/* Arrays as saved by numpy: X of numbers, (N, H, W, C), (N, H, W), (N, T, C) or (N, C), or with the
 * axes named nchw (N, C, H, W) or nct (N, C, T); Y of integers or truths (classes from 0) or of
 * floats (targets), (N) or (N, T). Little endian. Bytes stay bytes; other numbers, and arrays in
 * Fortran's order, are made float32 in C's order, once, in the user's cache folder. All labels and
 * floats are checked at opening: one that is not finite is named before training starts. Labels may
 * be texts (npy_texts.c). */
#include "data/npy.h"

#include "base/status.h"
#include "data/cache.h"
#include "os/os.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- header ---- */

/* Text between at and end, end exclusive. */
typedef struct npy_text {
    const char *at, *end;
} npy_text;

static void skip_space(npy_text *text) {
    while (text->at < text->end && strchr(" \t\r\n", *text->at) && *text->at)
        text->at++;
}

static bool skip_char(npy_text *text, char c) {
    skip_space(text);
    bool is_there = text->at < text->end && *text->at == c;
    text->at += is_there;
    return is_there;
}

/* A quoted text without escapes, cut to fit. */
static bool take_quoted(npy_text *text, char *value, size_t bytes) {
    skip_space(text);
    char quote = text->at < text->end ? *text->at : 0;
    if (quote != '\'' && quote != '"')
        return false;
    const char *begin = ++text->at;
    while (text->at < text->end && *text->at != quote)
        text->at++;
    size_t length = (size_t)(text->at - begin);
    if (text->at == text->end || length >= bytes)
        return false;
    text->at++;
    memcpy(value, begin, length);
    value[length] = 0;
    return true;
}

static bool take_word(npy_text *text, const char *word) {
    skip_space(text);
    size_t length = strlen(word);
    bool is_there = (size_t)(text->end - text->at) >= length && memcmp(text->at, word, length) == 0;
    text->at += is_there ? length : 0;
    return is_there;
}

static bool take_extent(npy_text *text, int64_t *extent) {
    skip_space(text);
    const char *begin = text->at;
    for (*extent = 0; text->at < text->end && *text->at >= '0' && *text->at <= '9'; text->at++) {
        if (text->at - begin > 15)
            return false;
        *extent = *extent * 10 + (*text->at - '0');
    }
    return text->at > begin;
}

static bool take_shape(npy_text *text, qn_shape *shape) {
    *shape = (qn_shape){0};
    if (!skip_char(text, '('))
        return false;
    while (!skip_char(text, ')')) {
        if (shape->rank == QN_MAX_RANK || !take_extent(text, &shape->dims[shape->rank++]))
            return false;
        if (!skip_char(text, ',') && !(text->at < text->end && *text->at == ')'))
            return false;
    }
    return true;
}

/* <U12, |S8: so many characters, or bytes, in each element. */
static qn_status set_text_type(const char *type, const char *bare, qn_npy_header *header) {
    npy_text size = {bare + 1, bare + strlen(bare)};
    int64_t n = 0;
    header->kind = bare[0];
    if (!take_extent(&size, &n) || size.at != size.end || (type[0] == '>' && bare[0] == 'U'))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "elements of type '%s'; texts are <U or |S, save them with astype(str)",
                       type);
    if (n < 1 || n > QN_NPY_TEXT)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "texts of %" PRId64 " characters (type '%s'); 1 to %d are known", n, type,
                       QN_NPY_TEXT);
    header->element_bytes = (int)n * (bare[0] == 'U' ? 4 : 1);
    return QN_OK;
}

/* A type like <f4. Bytes have no order; others must be little endian. */
static qn_status set_type(const char *type, qn_npy_header *header) {
    const char *known = "<f4 <f8 |b1 |u1 |i1 <u2 <i2 <u4 <i4 <u8 <i8 ";
    const char *bare = type[0] && strchr("<>|=", type[0]) ? type + 1 : type;
    char plain[8];
    if (bare[0] == 'U' || bare[0] == 'S')
        return set_text_type(type, bare, header);
    if (bare[0] == 'O')
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "elements of type '%s', objects of Python (pickle), which are not read; "
                       "save texts with astype(str), numbers with astype(float)",
                       type);
    snprintf(plain, sizeof plain, "%c%.2s ", bare == type ? '|' : type[0], bare);
    if (plain[0] && plain[1] && plain[2] == '1')
        plain[0] = '|';
    if (strlen(type) > 3 || strlen(plain) != 4 || !strstr(known, plain))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "elements of type '%s'; convert them to float32, uint8 or (labels) "
                       "integers, little endian",
                       type);
    header->kind = plain[1];
    header->element_bytes = plain[2] - '0';
    return QN_OK;
}

static qn_status parse_dictionary(npy_text text, qn_npy_header *header) {
    char key[32], type[32] = "";
    bool has_order = false, has_shape = false, is_good = skip_char(&text, '{');
    while (is_good && !skip_char(&text, '}')) {
        is_good = take_quoted(&text, key, sizeof key) && skip_char(&text, ':');
        if (is_good && strcmp(key, "descr") == 0) {
            is_good = take_quoted(&text, type, sizeof type);
        } else if (is_good && strcmp(key, "fortran_order") == 0) {
            header->is_fortran = take_word(&text, "True");
            has_order = is_good = header->is_fortran || take_word(&text, "False");
        } else if (is_good && strcmp(key, "shape") == 0) {
            has_shape = is_good = take_shape(&text, &header->shape);
        } else {
            is_good = false;
        }
        skip_char(&text, ',');
    }
    if (!is_good || !has_order || !has_shape || !type[0])
        return qn_fail(QN_ERROR_FORMAT, "header that is not {'descr': 'TYPE', 'fortran_order': "
                                        "False, 'shape': (...)}");
    return set_type(type, header);
}

/* Where the dictionary is. */
static qn_status find_dictionary(const unsigned char *data, size_t bytes, npy_text *text) {
    if (bytes < 12 || memcmp(data, "\x93NUMPY", 6) != 0)
        return qn_fail(QN_ERROR_FORMAT, "not a .npy file (its first bytes are not \\x93NUMPY)");
    if (data[6] < 1 || data[6] > 3)
        return qn_fail(QN_ERROR_UNSUPPORTED, ".npy version %d; known are 1 to 3", data[6]);
    size_t begin = data[6] == 1 ? 10 : 12;
    uint32_t length = (uint32_t)data[8] | (uint32_t)data[9] << 8;
    if (data[6] > 1)
        length |= (uint32_t)data[10] << 16 | (uint32_t)data[11] << 24;
    if (length > QN_NPY_MAX_HEADER - begin)
        return qn_fail(QN_ERROR_FORMAT, "header of %" PRIu32 " bytes, %d is the most", length,
                       QN_NPY_MAX_HEADER);
    if (begin + length > bytes)
        return qn_fail(QN_ERROR_FORMAT, "truncated within its header");
    *text = (npy_text){(const char *)data + begin, (const char *)data + begin + length};
    return QN_OK;
}

qn_status qn_npy_parse(const unsigned char *data, size_t bytes, qn_npy_header *header) {
    npy_text text = {NULL, NULL};
    *header = (qn_npy_header){0};
    QN_TRY(find_dictionary(data, bytes, &text));
    QN_TRY(parse_dictionary(text, header));
    header->header_bytes = (const unsigned char *)text.end - data;
    header->data_bytes = header->element_bytes;
    for (int i = 0; i < header->shape.rank; i++)
        if (header->shape.dims[i] < 1 ||
            __builtin_mul_overflow(header->data_bytes, header->shape.dims[i], &header->data_bytes))
            return qn_fail(QN_ERROR_FORMAT, "extent %" PRId64 " in dimension %d of an array",
                           header->shape.dims[i], i);
    header->is_fortran &= header->shape.rank > 1;
    return QN_OK;
}

/* ---- other numbers, and another order ---- */

/* An integer of any size, sign extended. */
static int64_t widen(const unsigned char *data, int bytes, bool is_signed) {
    uint64_t value = 0;
    for (int i = bytes - 1; i >= 0; i--)
        value = value << 8 | data[i];
    int unused = 64 - 8 * bytes;
    return is_signed ? (int64_t)(value << unused) >> unused : (int64_t)value;
}

double qn_npy_number(const qn_npy_header *header, const unsigned char *at) {
    float single;
    double wide;
    if (header->kind == 'f' && header->element_bytes == 4) {
        memcpy(&single, at, sizeof single);
        return (double)single;
    }
    if (header->kind == 'f') {
        memcpy(&wide, at, sizeof wide);
        return wide;
    }
    if (header->kind == 'u' && header->element_bytes == 8)
        return (double)(uint64_t)widen(at, 8, false);
    return (double)widen(at, header->element_bytes, header->kind == 'i');
}

/* An integer of 64 bits is not made a double before. */
float qn_npy_float(const qn_npy_header *header, const unsigned char *at) {
    if (header->kind == 'f')
        return (float)qn_npy_number(header, at);
    if (header->kind == 'u' && header->element_bytes == 8)
        return (float)(uint64_t)widen(at, 8, false);
    return (float)widen(at, header->element_bytes, header->kind == 'i');
}

/* Where element number `index` of C's order lies in Fortran's. */
static int64_t place_of(const qn_npy_header *header, int64_t index) {
    const qn_shape *s = &header->shape;
    int64_t place = 0, stride = qn_shape_count(*s);
    for (int i = s->rank - 1; i >= 0; i--) {
        stride /= s->dims[i];
        place += index % s->dims[i] * stride;
        index /= s->dims[i];
    }
    return place;
}

/* From the file's pieces as they come. */
static qn_status put_in_order(const qn_npy_header *header, qn_file *file, qn_sink sink) {
    unsigned char piece[8 * 1024];
    float values[sizeof piece];
    const int bytes = header->element_bytes, most = (int)sizeof piece / bytes;
    const int64_t n = qn_shape_count(header->shape);
    for (int64_t at = 0; at < n; at += most) {
        const int some = n - at < most ? (int)(n - at) : most;
        QN_TRY(
            qn_file_read(file, header->header_bytes + at * bytes, piece, (size_t)(some * bytes)));
        for (int i = 0; i < some; i++)
            values[i] = qn_npy_float(header, piece + i * bytes);
        QN_TRY(sink.put(sink.context, values, (size_t)some * sizeof *values));
    }
    return QN_OK;
}

static qn_status put_fortran(const qn_npy_header *header, const unsigned char *data, qn_sink sink) {
    float values[1024];
    const int64_t n = qn_shape_count(header->shape);
    for (int64_t at = 0; at < n; at += 1024) {
        const int64_t some = n - at < 1024 ? n - at : 1024;
        for (int64_t i = 0; i < some; i++) {
            const int64_t place = place_of(header, at + i);
            values[i] = qn_npy_float(header, data + place * header->element_bytes);
        }
        QN_TRY(sink.put(sink.context, values, (size_t)some * sizeof *values));
    }
    return QN_OK;
}

qn_status qn_npy_put_floats(const qn_npy_header *header, qn_file *file, qn_sink sink) {
    const void *memory;
    if (!header->is_fortran)
        return put_in_order(header, file, sink);
    QN_TRY(qn_file_map(file, &memory));
    qn_status status =
        put_fortran(header, (const unsigned char *)memory + header->header_bytes, sink);
    if (status == QN_OK)
        status = qn_file_map_check(memory);
    qn_file_unmap(memory, (size_t)qn_file_bytes(file));
    return status;
}

/* A qn_derive; context: the header of the array, whose bytes are all there. */
static qn_status make_floats(void *context, qn_file *source, qn_sink sink) {
    return qn_npy_put_floats(context, source, sink);
}

/* ---- source ---- */

/* Axes by name. A series is a picture of one column. */
typedef struct npy_axes {
    const char *name;
    int rank;            /* of the array */
    int of[3];           /* the array's axes of height, width and channels; 0: there is none */
    const char *meaning; /* for messages */
} npy_axes;

static bool is_byte(const qn_npy_header *header) {
    return header->kind == 'u' && header->element_bytes == 1;
}

/* Makes the array float32 in C's order, unless it is that, bytes, or classes: those are one number
 * a sample, whose order is the same, or are refused later. */
static qn_status make_plain(const qn_source_base *base, bool are_labels, qn_npy_array *array) {
    qn_npy_header *h = &array->header;
    const bool is_float = h->kind == 'f' && h->element_bytes == 4;
    qn_file *floats;
    if (h->kind == 'b')
        h->kind = 'u'; /* truths are 0 and 1 */
    if (qn_npy_is_text(h))
        return are_labels ? QN_OK
                          : qn_fail(QN_ERROR_FORMAT, "%s: %s; samples are numbers", array->path,
                                    array->element);
    if ((are_labels && h->kind != 'f') || (!h->is_fortran && (is_float || is_byte(h))))
        return QN_OK;
    QN_TRY(array->is_input
               ? qn_cache_make(base, array->file, make_floats, h, &floats)
               : qn_cache_open_of(base, array->file, "float32", make_floats, h, &floats));
    qn_file_close(array->file);
    array->file = floats;
    *h = (qn_npy_header){.kind = 'f', .element_bytes = 4, .shape = h->shape};
    h->data_bytes = qn_shape_count(h->shape) * 4;
    return QN_OK;
}

void qn_npy_describe(qn_npy_array *array) {
    const qn_npy_header *h = &array->header;
    const char *order = h->is_fortran ? " in Fortran's order" : "";
    if (qn_npy_is_text(h))
        snprintf(array->element, sizeof array->element, "texts (%c%d)", h->kind,
                 h->element_bytes / (h->kind == 'U' ? 4 : 1));
    else if (h->kind == 'b')
        snprintf(array->element, sizeof array->element, "bool%s", order);
    else
        snprintf(array->element, sizeof array->element, "%s%d%s",
                 h->kind == 'f'   ? "float"
                 : h->kind == 'u' ? "uint"
                                  : "int",
                 8 * h->element_bytes, order);
    array->are_integers = strchr("iub", h->kind) != NULL;
}

bool qn_npy_is_text(const qn_npy_header *header) {
    return header->kind == 'U' || header->kind == 'S';
}

qn_status qn_npy_open(qn_source_base *base, const char *path, qn_npy_array *array) {
    unsigned char data[QN_NPY_MAX_HEADER];
    array->is_input = strcmp(path, "-") == 0;
    array->path = qn_arena_format(&base->arena, "%s", array->is_input ? "standard input" : path);
    if (!array->path)
        return QN_ERROR_MEMORY;
    QN_TRY(array->is_input ? qn_data_open_input(base, &array->file)
                           : qn_file_open(base->options.allocator, path, &array->file));
    int64_t file_bytes = qn_file_bytes(array->file);
    size_t bytes = file_bytes < QN_NPY_MAX_HEADER ? (size_t)file_bytes : QN_NPY_MAX_HEADER;
    QN_TRY(qn_file_read(array->file, 0, data, bytes));
    qn_status status = qn_npy_parse(data, bytes, &array->header);
    if (status != QN_OK)
        return qn_fail_within(status, "%s", array->path);
    if (array->header.shape.rank < 1)
        return qn_fail(QN_ERROR_FORMAT, "%s: a single number, not an array of samples",
                       array->path);
    if (file_bytes - array->header.header_bytes < array->header.data_bytes)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: truncated: its header tells of %" PRId64 " bytes, there are %" PRId64,
                       array->path, array->header.data_bytes,
                       file_bytes - array->header.header_bytes);
    qn_npy_describe(array);
    return QN_OK;
}

static qn_status open_array(qn_source_base *base, const char *path, bool are_labels,
                            qn_npy_array *array) {
    QN_TRY(qn_npy_open(base, path, array));
    return make_plain(base, are_labels, array);
}

/* Gathers planes (C, H * W) to x (H * W, C), in pieces that fit the buffer. */
static qn_status read_planes(const qn_npy_source *npy, int64_t offset, char *x) {
    char buffer[4096];
    int64_t size = (int64_t)npy->element_bytes, n_channels = npy->planes;
    int64_t plane = npy->x_bytes / size / n_channels, most = (int64_t)sizeof buffer / size;
    for (int64_t c = 0; c < n_channels; c++)
        for (int64_t at = 0; at < plane; at += most) {
            int64_t n = plane - at < most ? plane - at : most;
            QN_TRY(qn_file_read(npy->x.file, offset + (c * plane + at) * size, buffer,
                                (size_t)(n * size)));
            for (int64_t i = 0; i < n; i++)
                memcpy(x + ((at + i) * n_channels + c) * size, buffer + i * size, (size_t)size);
        }
    return QN_OK;
}

static qn_status check_class(const qn_npy_source *npy, const unsigned char *data, int64_t row,
                             int32_t *number) {
    const qn_npy_header *header = &npy->y.header;
    int64_t label = widen(data, header->element_bytes, header->kind == 'i');
    if (label < 0 || label > 1000000)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: label %" PRId64 " in row %" PRId64
                       "; classes are numbered from 0 (and at most a million)",
                       npy->y.path, label, row);
    *number = (int32_t)label;
    return QN_OK;
}

qn_status qn_npy_read_targets(const qn_npy_source *npy, int64_t row, void *y) {
    unsigned char label[8];
    if (!npy->y.file) {
        memset(y, 0, sizeof(int32_t));
        return QN_OK;
    }
    const int64_t offset = npy->y.header.header_bytes + row * npy->y_bytes;
    if (npy->n_targets > 0)
        return qn_file_read(npy->y.file, offset, y, (size_t)npy->y_bytes);
    QN_TRY(qn_file_read(npy->y.file, offset, label, (size_t)npy->y_bytes));
    return check_class(npy, label, row, y);
}

static qn_status npy_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    qn_npy_source *npy = self;
    (void)split;
    int64_t offset = npy->x.header.header_bytes + index * npy->x_bytes;
    QN_TRY(npy->planes > 0 ? read_planes(npy, offset, x)
                           : qn_file_read(npy->x.file, offset, x, (size_t)npy->x_bytes));
    return qn_npy_read_targets(npy, index, y);
}

static qn_status count_classes(const qn_npy_source *npy, int64_t n, int *n_classes) {
    unsigned char buffer[8192];
    int64_t size = npy->y.header.element_bytes, most = (int64_t)sizeof buffer / size;
    *n_classes = 0;
    for (int64_t at = 0; at < n; at += most) {
        int64_t count = n - at < most ? n - at : most;
        QN_TRY(qn_file_read(npy->y.file, npy->y.header.header_bytes + at * size, buffer,
                            (size_t)(count * size)));
        for (int64_t i = 0; i < count; i++) {
            int32_t label = 0;
            QN_TRY(check_class(npy, buffer + i * size, at + i, &label));
            *n_classes = label + 1 > *n_classes ? label + 1 : *n_classes;
        }
    }
    return QN_OK;
}

/* The first of n floats that is infinite or no number, or n. */
static int64_t find_not_finite(const float *values, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(values[i]))
            return i;
    }
    return n;
}

/* Whether all floats of n rows of an array are finite; others have no class of their own, and would
 * only show as a loss that is none. */
static qn_status check_floats(const qn_npy_array *array, int64_t n) {
    float values[4096];
    const int64_t count = array->header.data_bytes / 4, width = count / n;
    const int64_t most = (int64_t)(sizeof values / sizeof values[0]);
    for (int64_t at = 0; array->header.kind == 'f' && at < count; at += most) {
        const int64_t some = count - at < most ? count - at : most;
        QN_TRY(qn_file_read(array->file, array->header.header_bytes + at * 4, values,
                            (size_t)some * 4));
        const int64_t bad = find_not_finite(values, some);
        if (bad < some)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: row %" PRId64 ", number %" PRId64
                           " of it: %g; leave the row out, or put a number there",
                           array->path, (at + bad) / width, (at + bad) % width,
                           (double)values[bad]);
    }
    return QN_OK;
}

static const npy_axes known_axes[] = {
    {"nhwc", 4, {1, 2, 3}, "(N, H, W, C)"}, {"nchw", 4, {2, 3, 1}, "(N, C, H, W)"},
    {"nhw", 3, {1, 2, 0}, "(N, H, W)"},     {"ntc", 3, {1, 0, 2}, "(N, T, C)"},
    {"nct", 3, {2, 0, 1}, "(N, C, T)"},     {"nc", 2, {0, 0, 1}, "(N, C)"}};

static const npy_axes *find_axes(const char *name) {
    for (size_t i = 0; i < sizeof known_axes / sizeof known_axes[0]; i++) {
        if (strcmp(known_axes[i].name, name) == 0)
            return &known_axes[i];
    }
    return NULL;
}

/* What the axes of an array mean where nobody says it. */
static const npy_axes *usual_axes(int rank) {
    return rank == 4 ? find_axes("nhwc") : rank == 3 ? find_axes("nhw") : find_axes("nc");
}

/* X.npy,Y.npy[,AXES], or X.npy[,AXES] where no labels are needed, or FILE.npz[,AXES] or DIR, which
 * have them: paths[1] is null then. Null axes are the usual ones. */
static qn_status split_argument(qn_source_base *base, const char *paths[2], const npy_axes **axes) {
    char *text = qn_arena_format(&base->arena, "%s", base->argument);
    if (!text)
        return QN_ERROR_MEMORY;
    char *last = strrchr(text, ',');
    *axes = last ? find_axes(last + 1) : NULL;
    if (*axes)
        *last = 0;
    char *comma = strchr(text, ',');
    const bool is_one = !comma && (base->options.is_unlabelled || qn_npy_is_packed(text) ||
                                   qn_path_is_folder(text));
    if ((!comma && !is_one) || (comma && strchr(comma + 1, ',')))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "data 'npy:%s': it is written npy:X.npy,Y.npy[,AXES], npy:FILE.npz[,AXES] "
                       "or npy:DIR, with axes nhwc, nchw, nhw, ntc, nct or nc",
                       base->argument);
    if (comma)
        *comma = 0;
    paths[0] = text;
    paths[1] = comma ? comma + 1 : NULL;
    return QN_OK;
}

static qn_shape shape_of(const npy_axes *axes, const int64_t *d) {
    const int *of = axes->of;
    if (axes->rank == 2)
        return QN_SHAPE(d[1]);
    return QN_SHAPE(d[of[0]], of[1] ? d[of[1]] : 1, of[2] ? d[of[2]] : 1);
}

static qn_status set_samples(qn_npy_source *npy, const npy_axes *axes, qn_data_source *source) {
    const qn_npy_header *header = &npy->x.header;
    const int64_t *d = header->shape.dims;
    const int rank = header->shape.rank;
    qn_data_facts *facts = &npy->base.facts;
    axes = axes ? axes : usual_axes(rank);
    if (rank < 2 || rank > 4 || axes->rank != rank)
        return qn_fail(QN_ERROR_FORMAT, "%s: %d dimensions; samples are %s", npy->x.path, rank,
                       rank < 2 || rank > 4 ? "(N, H, W, C), (N, H, W) or (N, C)" : axes->meaning);
    source->sample = shape_of(axes, d);
    if (source->sample.rank == 3 && source->sample.dims[0] > 65535)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s: samples of more than 65535 rows", npy->x.path);
    source->dtype = is_byte(header) ? QN_U8 : QN_F32;
    npy->element_bytes = (size_t)header->element_bytes;
    npy->planes = rank > 2 && axes->of[2] == 1 && d[1] > 1 ? d[1] : 0;
    npy->x_bytes = header->data_bytes / d[0];
    npy->base.wants_statistics = npy->x.are_integers;
    if (npy->x.are_integers && !is_byte(header))
        qn_data_tell(&npy->base, 0,
                     "%s: %s: scaled by the mean and deviation of the training samples, as bytes "
                     "are",
                     npy->x.path, npy->x.element);
    facts->axes = axes->name;
    return qn_data_facts_set(&npy->base, &facts->element, "%s", npy->x.element);
}

static qn_status set_labels(qn_npy_source *npy, qn_data_source *source) {
    const qn_npy_header *header = &npy->y.header;
    int64_t n = npy->x.header.shape.dims[0], width = header->data_bytes / header->element_bytes;
    if (header->shape.dims[0] != n)
        return qn_fail(QN_ERROR_FORMAT, "%s: %" PRId64 " labels for %" PRId64 " samples in %s",
                       npy->y.path, header->shape.dims[0], n, npy->x.path);
    if (qn_npy_is_text(header)) {
        QN_TRY(qn_npy_name_classes(&npy->base, &npy->y, &source->preparation));
        npy->y_bytes = header->element_bytes;
        return QN_OK;
    }
    width /= n;
    npy->y_bytes = width * header->element_bytes;
    if (header->kind == 'f' && width <= INT_MAX) {
        npy->n_targets = source->n_targets = (int)width;
        return QN_OK;
    }
    if (width != 1)
        return qn_fail(QN_ERROR_FORMAT, "%s: %" PRId64 " labels a sample; classes are (N)",
                       npy->y.path, width);
    return count_classes(npy, n, &source->preparation.n_classes);
}

static qn_status open_arrays(qn_npy_source *npy, qn_data_source *source, const npy_axes **axes) {
    const char *paths[2];
    QN_TRY(split_argument(&npy->base, paths, axes));
    if (!paths[1] && qn_path_is_folder(paths[0]))
        return qn_npy_open_folder(npy, paths[0], source);
    if (!paths[1] && qn_npy_is_packed(paths[0])) {
        QN_TRY(qn_npy_open_npz(npy, paths[0]));
        QN_TRY(make_plain(&npy->base, false, &npy->x));
        return npy->y.file ? make_plain(&npy->base, true, &npy->y) : QN_OK;
    }
    QN_TRY(open_array(&npy->base, paths[0], false, &npy->x));
    return paths[1] ? open_array(&npy->base, paths[1], true, &npy->y) : QN_OK;
}

static qn_status npy_open(qn_source_base *base, qn_data_source *source) {
    qn_npy_source *npy = (qn_npy_source *)base;
    const npy_axes *axes;
    QN_TRY(open_arrays(npy, source, &axes));
    const bool has_labels = npy->y.file;
    QN_TRY(set_samples(npy, axes, source));
    if (has_labels)
        QN_TRY(set_labels(npy, source));
    int64_t n = npy->x.header.shape.dims[0];
    QN_TRY(check_floats(&npy->x, n));
    if (has_labels)
        QN_TRY(check_floats(&npy->y, n));
    source->n_samples[QN_TRAIN] = n;
    source->preparation.sample = source->sample;
    source->read = npy_read;
    return qn_npy_find_recordings(npy, source);
}

static void npy_release(qn_source_base *base) {
    qn_npy_source *npy = (qn_npy_source *)base;
    qn_npy_close_recordings(npy);
    qn_file_close(npy->x.file);
    qn_file_close(npy->y.file);
}

const qn_data_format qn_format_npy = {
    .name = "npy",
    .usage = "X.npy,Y.npy[,AXES]|FILE.npz[,AXES]|DIR",
    .self_bytes = sizeof(qn_npy_source),
    .open = npy_open,
    .release = npy_release,
    .has_groups = true,
    .has_windows = true,
};
