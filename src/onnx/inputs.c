/* See inputs.h. */
#include "onnx/inputs.h"

#include "base/decimal.h"
#include "base/status.h"
#include "tensor/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- lists of NAME=VALUE ---- */

/* Ends the next pair of a list at its comma and its name at the last "="; null: none is left, or
 * *value null: it has no "=". */
static char *next_pair(char **rest, char **value) {
    char *name = *rest;
    if (!name)
        return NULL;
    char *comma = strchr(name, ',');
    if (comma)
        *comma = 0;
    *rest = comma ? comma + 1 : NULL;
    *value = strrchr(name, '=');
    if (*value)
        *(*value)++ = 0;
    return name;
}

/* ---- values ---- */

/* Whole numbers of a type, and whether it is signed. */
static bool read_integer(qn_onnx_type type, const char *text, char **end, uint64_t *bits) {
    const bool is_half = type == QN_ONNX_UINT4 || type == QN_ONNX_INT4;
    const size_t width = is_half ? 4 : 8 * qn_onnx_type_bytes(type);
    const bool is_unsigned = type == QN_ONNX_UINT4 || type == QN_ONNX_UINT8 ||
                             type == QN_ONNX_UINT16 || type == QN_ONNX_UINT32 ||
                             type == QN_ONNX_UINT64;
    errno = 0;
    if (is_unsigned) {
        *bits = strtoull(text, end, 10);
        return errno == 0 && *text != '-' && (width == 64 || *bits >> width == 0);
    }
    const int64_t value = strtoll(text, end, 10), most = INT64_MAX >> (64 - width);
    *bits = (uint64_t)value;
    return errno == 0 && value <= most && value >= -most - 1;
}

static bool read_bool(const char *text, char **end, uint64_t *bits) {
    static const struct {
        const char *word;
        bool value;
    } words[] = {{"true", true}, {"false", false}, {"yes", true},
                 {"no", false},  {"1", true},      {"0", false}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t n = strlen(words[i].word);
        if (strncmp(text, words[i].word, n) != 0 || (text[n] && text[n] != 'x'))
            continue;
        *bits = words[i].value;
        *end = (char *)text + n;
        return true;
    }
    return false;
}

/* One number as element i; *end: what follows it. */
static bool read_element(qn_onnx_type type, const char *text, char **end, void *data, size_t i) {
    const size_t bytes = qn_onnx_type_bytes(type);
    uint64_t bits = 0;
    *end = (char *)text;
    if (qn_onnx_type_is_real(type)) {
        const double number = qn_decimal_read(text, end);
        qn_numbers_convert(QN_F64, &number, qn_onnx_dtype_of(type), (char *)data + i * bytes, 0, 1);
        return *end > text;
    }
    const bool is_right =
        type == QN_ONNX_BOOL ? read_bool(text, end, &bits) : read_integer(type, text, end, &bits);
    memcpy((char *)data + i * bytes, &bits, bytes);
    return is_right && *end > text;
}

static int count_parts(const char *text) {
    int n = 1;
    for (; *text; text++)
        n += *text == 'x';
    return n;
}

/* The input's extents as a constant of n numbers has them. */
static qn_status find_dims(const qn_onnx_value *input, int n, qn_arena *arena,
                           qn_onnx_tensor *tensor) {
    int64_t *dims = qn_arena_allocate(arena, (size_t)QN_ONNX_MOST_DIMS, sizeof *dims), count = 1;
    if (!dims)
        return QN_ERROR_MEMORY;
    tensor->n_dims = input->n_dims < 0 ? n > 1 : input->n_dims;
    tensor->dims = dims;
    for (int i = 0; i < tensor->n_dims; i++) {
        const bool is_open = input->n_dims < 0 || input->dims[i] < 0;
        if (is_open && tensor->n_dims > 1)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "input %s has %d axes, some of them open: only numbers, lists and "
                           "inputs of fixed extents are set",
                           input->name, tensor->n_dims);
        dims[i] = is_open ? n : input->dims[i];
        count *= dims[i] < 1 << 20 ? dims[i] : 1 << 20;
        if (count > 1 << 20)
            return qn_fail(QN_ERROR_UNSUPPORTED, "input %s has too many numbers to be set",
                           input->name);
    }
    if (n != 1 && n != count)
        return qn_fail(QN_ERROR_ARGUMENT, "input %s takes %lld numbers, and %d are given",
                       input->name, (long long)count, n);
    tensor->bytes = (size_t)count * qn_onnx_type_bytes(tensor->type);
    return QN_OK;
}

/* A single number stands for all elements. */
static qn_status make_constant(const qn_onnx_value *input, const char *text, qn_arena *arena,
                               qn_onnx_tensor *tensor) {
    const int n = count_parts(text);
    *tensor = (qn_onnx_tensor){.name = input->name, .type = input->type};
    const size_t bytes = qn_onnx_type_bytes(input->type);
    if (bytes == 0 ||
        (qn_onnx_type_is_real(input->type) && qn_onnx_dtype_of(input->type) == QN_NONE))
        return qn_fail(QN_ERROR_UNSUPPORTED, "input %s is of %s, which cannot be set", input->name,
                       qn_onnx_type_name(input->type));
    QN_TRY(find_dims(input, n, arena, tensor));
    char *data = qn_arena_allocate(arena, tensor->bytes + 1, 1), *end = NULL;
    const char *at = text;
    if (!data)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i * bytes < tensor->bytes; i++) {
        at = n == 1 ? text : at;
        if (!read_element(input->type, at, &end, data, i) || (*end && *end != 'x'))
            return qn_fail(QN_ERROR_ARGUMENT, "%s=%s: %s", input->name, text,
                           input->type == QN_ONNX_BOOL         ? "true or false belongs there"
                           : qn_onnx_type_is_real(input->type) ? "no number"
                                                               : "no whole number of its type");
        at = *end ? end + 1 : end;
    }
    tensor->data = data;
    return QN_OK;
}

static int find_value(const qn_onnx_value *values, int n, const char *name) {
    for (int i = 0; i < n; i++) {
        if (strcmp(values[i].name, name) == 0)
            return i;
    }
    return -1;
}

/* Inputs and initialisers as lists that can grow by the values of a text. */
static qn_status copy_model(const qn_onnx_model *model, const char *values, qn_arena *arena,
                            qn_onnx_model **copy) {
    size_t most = 1;
    for (const char *c = values; *c; c++)
        most += *c == ',';
    qn_onnx_value *inputs = qn_arena_allocate(arena, (size_t)model->n_inputs + 1, sizeof *inputs);
    qn_onnx_tensor *tensors =
        qn_arena_allocate(arena, (size_t)model->n_initializers + most, sizeof *tensors);
    *copy = qn_arena_allocate(arena, 1, sizeof **copy);
    if (!inputs || !tensors || !*copy)
        return QN_ERROR_MEMORY;
    if (model->n_inputs > 0)
        memcpy(inputs, model->inputs, (size_t)model->n_inputs * sizeof *inputs);
    if (model->n_initializers > 0)
        memcpy(tensors, model->initializers, (size_t)model->n_initializers * sizeof *tensors);
    **copy = *model;
    (*copy)->inputs = inputs;
    (*copy)->initializers = tensors;
    return QN_OK;
}

static qn_status set_value(qn_onnx_model *m, const char *name, const char *value, qn_arena *arena) {
    const int at = find_value(m->inputs, m->n_inputs, name);
    if (!value || at < 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "no input is called %s: a value is written NAME=16000, each input once, and "
                       "the first input is %s",
                       name, m->n_inputs > 0 ? m->inputs[0].name : "missing");
    QN_TRY(make_constant(&m->inputs[at], value, arena,
                         (qn_onnx_tensor *)&m->initializers[m->n_initializers]));
    m->n_initializers++;
    m->n_inputs--;
    memmove((qn_onnx_value *)&m->inputs[at], &m->inputs[at + 1],
            (size_t)(m->n_inputs - at) * sizeof *m->inputs);
    return QN_OK;
}

qn_status qn_onnx_set_values(const qn_onnx_model *model, const char *values, qn_arena *arena,
                             const qn_onnx_model **with, int *n_set) {
    qn_onnx_model *copy;
    char *rest, *name, *value;
    *with = model;
    *n_set = 0;
    if (!values)
        return QN_OK;
    QN_TRY(copy_model(model, values, arena, &copy));
    rest = qn_arena_text(arena, values);
    if (!rest)
        return QN_ERROR_MEMORY;
    for (; (name = next_pair(&rest, &value)); (*n_set)++)
        QN_TRY(set_value(copy, name, value, arena));
    *with = copy;
    return QN_OK;
}

void qn_onnx_fix_values(const qn_onnx_model *with, int n_set, qn_onnx_decisions *decisions) {
    for (int i = with->n_initializers - n_set; i < with->n_initializers; i++) {
        qn_onnx_initializer *it =
            (qn_onnx_initializer *)qn_onnx_find_decision(decisions, with->initializers[i].name);
        if (!it)
            continue;
        it->trains = false;
        it->is_sure = true;
        it->reason = "it is an input whose value is set";
    }
}

/* ---- extents ---- */

int qn_onnx_file_axis(const qn_onnx_place *place, int axis) {
    const int batch = place->batch_axis;
    if (batch == QN_ONNX_NO_BATCH)
        return axis - 1;
    return axis == 0 ? batch : axis <= batch ? axis - 1 : axis;
}

bool qn_onnx_is_moved(const qn_onnx_place *place) {
    return place->batch_axis != 0;
}

/* An open extent, and those that the file calls by the same name, is from now on a number. */
static void set_extent(qn_onnx_network *n, int input, int axis, int64_t extent) {
    const int own = qn_onnx_file_axis(&n->inputs[input], axis);
    const char *symbol = n->source->inputs[input].symbols[own];
    n->inputs[input].dims[axis] = extent;
    for (int i = 0; *symbol && i < n->n_inputs; i++) {
        const qn_onnx_value *other = &n->source->inputs[i];
        for (int k = 1; k < n->inputs[i].n_dims; k++) {
            const int from = qn_onnx_file_axis(&n->inputs[i], k);
            if (n->inputs[i].dims[k] < 0 && strcmp(other->symbols[from], symbol) == 0)
                n->inputs[i].dims[k] = extent;
        }
    }
}

/* What a text says of a place: extents in the file's order (the batch's: 0), or none. */
typedef struct said {
    int rank, batch; /* batch: the axis, or QN_ONNX_NO_BATCH */
    int64_t dims[QN_MAX_RANK];
} said;

/* "Nx3x512x512", "1x3x512x512", "20xNx8", "none:5x8", "none". */
static bool read_said(const char *text, said *s) {
    static const char none[] = "none";
    const size_t n = strlen(none);
    const bool has_none = strncmp(text, none, n) == 0 && (text[n] == ':' || !text[n]);
    bool has_mark = false;
    *s = (said){.batch = has_none ? QN_ONNX_NO_BATCH : 0};
    text += has_none ? n + (text[n] == ':') : 0;
    while (s->rank < QN_MAX_RANK && *text) {
        char *end = (char *)text + 1;
        if (*text == 'N' && !has_none && !has_mark) {
            has_mark = true;
            s->batch = s->rank;
            s->dims[s->rank] = 0;
        } else {
            s->dims[s->rank] = strtoll(text, &end, 10);
            if (end == text || s->dims[s->rank] < 1 || s->dims[s->rank] > INT32_MAX)
                return false;
        }
        if (*end && (*end != 'x' || !end[1]))
            return false;
        s->rank++;
        text = *end ? end + 1 : end;
    }
    return !*text && (has_none || s->rank > 0);
}

static qn_status refuse_said(const char *name, int rank) {
    return qn_fail(
        QN_ERROR_ARGUMENT,
        "the shape of %s has %d extents with an x between: N stands for the batch, which "
        "is the first where no N is, and none: in front says that there is none",
        name, rank);
}

/* Whether what is said of extents agrees with what the file says. */
static qn_status check_said(const qn_onnx_value *value, const said *s) {
    for (int axis = 0; axis < s->rank; axis++) {
        if (axis == s->batch || value->dims[axis] < 0 || value->dims[axis] == s->dims[axis])
            continue;
        return qn_fail(QN_ERROR_ARGUMENT,
                       "extent %d of %s is %lld in the file, so it cannot be %lld", axis,
                       value->name, (long long)value->dims[axis], (long long)s->dims[axis]);
    }
    return QN_OK;
}

/* Puts the batch first. */
static qn_status move_batch(qn_onnx_network *n, int input, int batch) {
    const qn_onnx_value *value = &n->source->inputs[input];
    qn_onnx_place *place = &n->inputs[input];
    if (batch == place->batch_axis)
        return QN_OK;
    if (batch == QN_ONNX_NO_BATCH && value->n_dims >= QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "input %s has too many axes for one more",
                       value->name);
    place->batch_axis = batch;
    place->n_dims = value->n_dims + (batch == QN_ONNX_NO_BATCH);
    for (int i = 0; i < place->n_dims; i++) {
        const int from = qn_onnx_file_axis(place, i);
        place->dims[i] = from < 0 ? 1 : value->dims[from];
    }
    return qn_onnx_find_image(n, input);
}

static qn_status set_shape(qn_onnx_network *n, int input, const char *text) {
    qn_onnx_place *place = &n->inputs[input];
    const qn_onnx_value *value = &n->source->inputs[input];
    said s;
    if (!read_said(text, &s) || (s.rank != value->n_dims && s.rank > 0) || value->n_dims < 0)
        return refuse_said(place->name, value->n_dims < 0 ? 0 : value->n_dims);
    QN_TRY(move_batch(n, input, s.batch));
    if (s.rank == 0)
        return QN_OK;
    /* the first extent, where nothing marks the batch, is only an example */
    QN_TRY(check_said(value, &s));
    for (int axis = 1; axis < place->n_dims; axis++)
        set_extent(n, input, axis, s.dims[qn_onnx_file_axis(place, axis)]);
    return QN_OK;
}

static qn_status set_output(qn_onnx_network *n, int output, const char *text) {
    const qn_onnx_value *value = &n->source->outputs[output];
    said s;
    if (!read_said(text, &s) || (value->n_dims >= 0 && s.rank > 0 && s.rank != value->n_dims))
        return refuse_said(value->name, value->n_dims < 0 ? 0 : value->n_dims);
    if (value->n_dims >= 0)
        QN_TRY(check_said(value, &s));
    n->outputs[output].batch_axis = s.batch;
    n->is_said[output] = true;
    return QN_OK;
}

/* One "NAME=EXTENTS". */
static qn_status set_named(qn_onnx_network *n, const char *name, const char *text) {
    const int input = text ? find_value(n->source->inputs, n->n_inputs, name) : -1;
    const int output = text ? find_value(n->source->outputs, n->n_outputs, name) : -1;
    if (input >= 0)
        return set_shape(n, input, text);
    if (output >= 0)
        return set_output(n, output, text);
    return qn_fail(QN_ERROR_ARGUMENT,
                   "no input is called %s: a shape is written NAME=1x3x512x512, and the first "
                   "input is %s",
                   name, n->n_inputs > 0 ? n->inputs[0].name : "missing");
}

qn_status qn_onnx_set_shapes(qn_onnx_network *n, const char *shapes) {
    char *rest = qn_arena_text(&n->arena, shapes ? shapes : ""), *name, *text;
    if (!rest)
        return QN_ERROR_MEMORY;
    while (shapes && (name = next_pair(&rest, &text)))
        QN_TRY(set_named(n, name, text));
    return QN_OK;
}

/* ---- the batch of outputs ---- */

bool qn_onnx_has_batch(const qn_onnx_network *n) {
    for (int i = 0; i < n->n_inputs; i++) {
        if (n->inputs[i].batch_axis != QN_ONNX_NO_BATCH)
            return true;
    }
    return false;
}

static bool is_any_moved(const qn_onnx_network *n) {
    bool is = false;
    for (int i = 0; i < n->n_inputs; i++)
        is = is || qn_onnx_is_moved(&n->inputs[i]);
    return is;
}

/* The outputs' shapes, in the file's order of axes, for a batch. */
static qn_status try_batch(qn_onnx_network *n, int64_t batch, qn_shape *shapes) {
    qn_value *outputs = qn_arena_allocate(&n->arena, (size_t)n->n_outputs + 1, sizeof *outputs);
    qn_graph *graph;
    if (!outputs)
        return QN_ERROR_MEMORY;
    n->trial_batch = batch;
    const qn_status status = qn_onnx_try(n, false, &graph, outputs);
    n->trial_batch = 1;
    for (int i = 0; status == QN_OK && i < n->n_outputs; i++)
        shapes[i] = qn_onnx_shape_in_file(&n->outputs[i], qn_graph_shape(graph, outputs[i]));
    qn_graph_destroy(graph);
    return status;
}

/* The one axis that is as long as the batch in both trials; -1: none, or several. */
static int find_batch(qn_shape two, qn_shape three) {
    int axis = -1;
    for (int i = 0; i < two.rank && two.rank == three.rank; i++) {
        if (two.dims[i] == three.dims[i])
            continue;
        if (axis >= 0 || two.dims[i] != 2 || three.dims[i] != 3)
            return -1;
        axis = i;
    }
    return axis;
}

/* An axis that the file calls by the name of the first input's batch; -1: none. */
static int find_symbol(const qn_onnx_network *n, int output) {
    const qn_onnx_place *first = &n->inputs[0];
    const qn_onnx_value *value = &n->source->outputs[output];
    const char *symbol = first->batch_axis == QN_ONNX_NO_BATCH
                             ? ""
                             : n->source->inputs[0].symbols[first->batch_axis];
    for (int i = 0; *symbol && i < value->n_dims; i++) {
        if (value->dims[i] < 0 && strcmp(value->symbols[i], symbol) == 0)
            return i;
    }
    return -1;
}

static qn_status refuse_batch(const qn_onnx_network *n, int output) {
    const char *name = n->source->outputs[output].name;
    return qn_fail(QN_ERROR_UNSUPPORTED,
                   "which axis of output %s is the batch does not follow from that of the inputs: "
                   "say it by --shape %s=20xNx8, or %s=none",
                   name, name, name);
}

/* Outputs that are not the batch's (a loss of all samples) stay as they are. */
static qn_status find_by_trial(qn_onnx_network *n) {
    qn_shape *two = qn_arena_allocate(&n->arena, (size_t)n->n_outputs + 1, sizeof *two);
    qn_shape *three = qn_arena_allocate(&n->arena, (size_t)n->n_outputs + 1, sizeof *three);
    if (!two || !three)
        return QN_ERROR_MEMORY;
    const qn_status first = try_batch(n, 2, two);
    const qn_status second = first == QN_OK ? try_batch(n, 3, three) : first;
    if (first == QN_ERROR_MEMORY || second == QN_ERROR_MEMORY)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < n->n_outputs; i++) {
        if (n->is_said[i])
            continue;
        const int axis = second == QN_OK ? find_batch(two[i], three[i]) : find_symbol(n, i);
        const bool is_same = second == QN_OK && qn_shape_equal(two[i], three[i]);
        if (axis < 0 && !is_same)
            return refuse_batch(n, i);
        n->outputs[i].batch_axis = axis < 0 ? 0 : axis;
    }
    return QN_OK;
}

qn_status qn_onnx_find_batches(qn_onnx_network *n) {
    if (!is_any_moved(n))
        return QN_OK;
    if (qn_onnx_has_batch(n))
        return find_by_trial(n);
    for (int i = 0; i < n->n_outputs; i++) {
        if (!n->is_said[i])
            n->outputs[i].batch_axis = QN_ONNX_NO_BATCH;
    }
    return QN_OK;
}

/* ---- values at the borders ---- */

/* Axes of an image in the file's order. */
static qn_value to_plain(qn_graph *graph, qn_value value) {
    const int rank = qn_graph_shape(graph, value).rank;
    int order[QN_MAX_RANK] = {0};
    for (int i = 1; i < rank; i++)
        order[i] = i == 1 ? rank - 1 : i - 1;
    return qn_transpose(graph, NULL, value, order);
}

qn_value qn_onnx_to_file(const qn_onnx_network *n, const qn_onnx_place *place, qn_graph *graph,
                         qn_value value) {
    int order[QN_MAX_RANK];
    if (place->is_image)
        value = to_plain(graph, value);
    const qn_shape shape = qn_graph_shape(graph, value);
    if (value.id < 0)
        return value;
    if (place->batch_axis == QN_ONNX_NO_BATCH) {
        if (shape.dims[0] == 1)
            return qn_reshape(graph, NULL, value, qn_shape_make(shape.rank - 1, shape.dims + 1));
        qn_graph_fail(graph, QN_ERROR_ARGUMENT,
                      "%s: input %s has no axis for a batch, so samples go one at a time: --batch "
                      "1, and --accumulate N for steps of N samples",
                      n->model.name, place->name);
        return QN_NO_VALUE;
    }
    for (int i = 0; i < shape.rank; i++)
        order[qn_onnx_file_axis(place, i)] = i;
    return qn_transpose(graph, NULL, value, order);
}

qn_value qn_onnx_from_file(const qn_onnx_place *place, qn_graph *graph, qn_value value,
                           bool is_image) {
    int order[QN_MAX_RANK];
    if (is_image)
        value = to_plain(graph, value);
    qn_shape shape = qn_graph_shape(graph, value);
    if (value.id < 0)
        return value;
    if (place->batch_axis == QN_ONNX_NO_BATCH) {
        qn_shape one = {.rank = shape.rank + 1, .dims = {1}};
        for (int i = 0; i < shape.rank && i + 1 < QN_MAX_RANK; i++)
            one.dims[i + 1] = shape.dims[i];
        if (one.rank <= QN_MAX_RANK)
            return qn_reshape(graph, NULL, value, one);
    } else if (place->batch_axis < shape.rank) {
        for (int i = 0; i < shape.rank; i++)
            order[i] = qn_onnx_file_axis(place, i);
        return qn_transpose(graph, NULL, value, order);
    }
    qn_graph_fail(graph, QN_ERROR_UNSUPPORTED,
                  "output %s has %d axes, of which none can be the batch", place->name, shape.rank);
    return QN_NO_VALUE;
}
