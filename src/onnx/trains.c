/* See trains.h. */
#include "onnx/trains.h"

#include "base/patterns.h"
#include "base/status.h"
#include "base/text.h"
#include "onnx/builder.h"
#include "onnx/properties/inside.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How nodes read a tensor, as bits. */
enum {
    USED_AS_WEIGHT = 1,    /* weight or bias of a layer */
    USED_AS_STATISTIC = 2, /* mean or variance of a batch norm */
    USED_AS_SETTING = 4,   /* a bound, an extent, a scale of integers: it is no operand */
    USED_AS_OPERAND = 8,
};

/* A name and what it stands for. */
typedef struct name_entry {
    const char *name;
    size_t length;
    int index;
} name_entry;

typedef struct name_list {
    int n;
    name_entry *entries; /* (n), sorted */
} name_list;

typedef struct deciding {
    const qn_onnx_model *model;
    qn_arena *arena;
    qn_onnx_decisions *decisions;
    const qn_onnx_tensor **tensors; /* (n) */
    unsigned *uses;                 /* (n) */
    name_list names;                /* initialisers, and what nodes make of one alone */
    name_list infos;                /* value_info */
    name_list signature;            /* index: whether it is a parameter */
    bool has_evidence;              /* the file marks some of its initialisers */
} deciding;

/* ---- lists of names ---- */

static int compare_entries(const void *left, const void *right) {
    const name_entry *a = left, *b = right;
    const size_t n = a->length < b->length ? a->length : b->length;
    const int order = memcmp(a->name, b->name, n);
    return order ? order : (a->length > b->length) - (a->length < b->length);
}

static name_entry *find_name(const name_list *list, const char *name, size_t length) {
    const name_entry key = {name, length, 0};
    return list->n > 0 ? bsearch(&key, list->entries, (size_t)list->n, sizeof key, compare_entries)
                       : NULL;
}

static void sort_names(name_list *list) {
    if (list->n > 1)
        qsort(list->entries, (size_t)list->n, sizeof *list->entries, compare_entries);
}

static void add_name(name_list *list, const char *name, size_t length, int index) {
    list->entries[list->n++] = (name_entry){name, length, index};
}

static qn_status place_names(deciding *d, name_list *list, size_t n) {
    list->entries = qn_arena_allocate(d->arena, n + 1, sizeof *list->entries);
    return list->entries ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- initialisers ---- */

static size_t count_initializers(const qn_onnx_model *m, int *n_nodes) {
    size_t n = (size_t)m->n_initializers;
    *n_nodes += m->n_nodes;
    for (int i = 0; i < m->n_nodes; i++) {
        for (int k = 0; k < m->nodes[i].n_attributes; k++) {
            if (m->nodes[i].attributes[k].graph)
                n += count_initializers(m->nodes[i].attributes[k].graph, n_nodes);
        }
    }
    return n;
}

static void add_initializer(deciding *d, const qn_onnx_tensor *tensor, const char *name) {
    const int i = d->decisions->n++;
    d->tensors[i] = tensor;
    d->decisions->list[i] = (qn_onnx_initializer){
        .name = name, .type = qn_onnx_type_name(tensor->type), .n_dims = tensor->n_dims};
    for (int k = 0; k < tensor->n_dims && k < QN_MAX_RANK; k++)
        d->decisions->list[i].dims[k] = tensor->dims[k];
    add_name(&d->names, name, strlen(name), i);
}

static const qn_onnx_tensor *constant_of(const qn_onnx_node *node) {
    const qn_onnx_attribute *a = qn_onnx_find_attribute(node, "value");
    return strcmp(node->type, "Constant") == 0 && !*node->domain && node->n_outputs == 1 && a &&
                   a->kind == QN_ONNX_ATTRIBUTE_TENSOR
               ? &a->tensor
               : NULL;
}

/* Whether a name stands in a list, one a line. */
static bool is_required(const char *list, const char *name) {
    const size_t length = strlen(name);
    for (const char *line = list; line && *line; line += *line == '\n') {
        const size_t n = strcspn(line, "\n");
        if (n == length && memcmp(line, name, n) == 0)
            return true;
        line += n;
    }
    return false;
}

static bool is_named(const char *list, const char *name) {
    qn_pattern pattern;
    while (qn_pattern_next(&list, &pattern)) {
        if (qn_pattern_is(pattern, name))
            return true;
    }
    return false;
}

/* Of the file's graph and those inside of its nodes. What a node "Constant" gives is one only if a
 * list names it. */
static void add_initializers(deciding *d, const qn_onnx_model *m, const char *train_only,
                             const char *required) {
    for (int i = 0; i < m->n_initializers; i++)
        add_initializer(d, &m->initializers[i], m->initializers[i].name);
    for (int i = 0; i < m->n_nodes; i++) {
        const qn_onnx_tensor *t = constant_of(&m->nodes[i]);
        if (t && (is_named(train_only, m->nodes[i].outputs[0]) ||
                  is_required(required, m->nodes[i].outputs[0])))
            add_initializer(d, t, m->nodes[i].outputs[0]);
        for (int k = 0; k < m->nodes[i].n_attributes; k++) {
            if (m->nodes[i].attributes[k].graph)
                add_initializers(d, m->nodes[i].attributes[k].graph, train_only, required);
        }
    }
}

/* ---- what nodes do with them ---- */

/* Inputs of operators that are not plain operands, as bit masks. */
static const struct {
    const char *type;
    unsigned weights, settings;
} positions[] = {
    {"Conv", 6, 0},
    {"ConvTranspose", 6, 0},
    {"ConvInteger", 2, 12},
    {"Gemm", 6, 0},
    {"MatMul", 2, 0},
    {"LSTM", 0x8e, 0x10},
    {"GRU", 0xe, 0x10},
    {"RNN", 0xe, 0x10},
    {"BatchNormalization", 6, 0},
    {"InstanceNormalization", 6, 0},
    {"LayerNormalization", 6, 0},
    {"GroupNormalization", 6, 0},
    {"RMSNormalization", 2, 0},
    {"SimplifiedLayerNormalization", 2, 0},
    {"PRelu", 2, 0},
    {"Gather", 0, 2},
    {"GatherElements", 0, 2},
    {"GatherND", 0, 2},
    {"ScatterND", 0, 2},
    {"ScatterElements", 0, 2},
    {"Clip", 0, 6},
    {"Dropout", 0, 6},
    {"Pow", 0, 2},
    {"Pad", 0, 0xe},
    {"Resize", 0, 0xe},
    {"Upsample", 0, 2},
    {"Reshape", 0, 2},
    {"Slice", 0, 0x1e},
    {"Expand", 0, 2},
    {"Tile", 0, 2},
    {"Range", 0, 7},
    {"OneHot", 0, 6},
    {"TopK", 0, 2},
    {"ConstantOfShape", 0, 1},
    {"QuantizeLinear", 0, 6},
    {"DequantizeLinear", 0, 6},
    {"STFT", 0, 0xe},
    {"DFT", 0, 6},
    {"MelWeightMatrix", 0, 0x1f},
};

/* An exponent of one axis or more is an operand: pooling with a learnt power has one. */
static unsigned use_of(const qn_onnx_node *node, int input, int rank) {
    const unsigned bit = input < 32 ? 1u << input : 0;
    if (*node->domain || (strcmp(node->type, "Pow") == 0 && rank > 0))
        return USED_AS_OPERAND;
    if (strcmp(node->type, "BatchNormalization") == 0 && (input == 3 || input == 4))
        return USED_AS_STATISTIC;
    for (size_t i = 0; i < sizeof positions / sizeof *positions; i++) {
        if (strcmp(positions[i].type, node->type) == 0)
            return positions[i].weights & bit    ? USED_AS_WEIGHT
                   : positions[i].settings & bit ? USED_AS_SETTING
                                                 : USED_AS_OPERAND;
    }
    return USED_AS_OPERAND;
}

/* Whether what a node makes is its first input in another form. */
static bool passes_on(const qn_onnx_node *node) {
    static const char *const types[] = {"Identity", "Transpose", "Reshape", "Unsqueeze",
                                        "Squeeze",  "Flatten",   "Cast",    "DequantizeLinear",
                                        "CastLike", NULL};
    for (int i = 0; types[i]; i++) {
        if (strcmp(types[i], node->type) == 0)
            return node->n_outputs > 0 && node->n_inputs > 0;
    }
    return false;
}

static void note_use(deciding *d, const qn_onnx_node *node, int input) {
    name_entry *entry = find_name(&d->names, node->inputs[input], strlen(node->inputs[input]));
    if (!entry || entry->index < 0)
        return;
    if (input == 0 && passes_on(node)) {
        name_entry *made = find_name(&d->names, node->outputs[0], strlen(node->outputs[0]));
        if (made && made->index < 0)
            made->index = entry->index;
        return;
    }
    d->uses[entry->index] |= use_of(node, input, d->tensors[entry->index]->n_dims);
}

static void note_uses(deciding *d, const qn_onnx_model *m) {
    for (int n = 0; n < m->n_nodes; n++) {
        for (int i = 0; i < m->nodes[n].n_inputs; i++)
            note_use(d, &m->nodes[n], i);
        for (int k = 0; k < m->nodes[n].n_attributes; k++) {
            if (m->nodes[n].attributes[k].graph)
                note_uses(d, m->nodes[n].attributes[k].graph);
        }
    }
    for (int i = 0; i < m->n_outputs; i++) {
        const name_entry *entry =
            find_name(&d->names, m->outputs[i].name, strlen(m->outputs[i].name));
        if (entry && entry->index >= 0)
            d->uses[entry->index] |= USED_AS_OPERAND;
    }
}

static void add_passed_names(deciding *d, const qn_onnx_model *m) {
    for (int n = 0; n < m->n_nodes; n++) {
        if (passes_on(&m->nodes[n]))
            add_name(&d->names, m->nodes[n].outputs[0], strlen(m->nodes[n].outputs[0]), -1);
        for (int k = 0; k < m->nodes[n].n_attributes; k++) {
            if (m->nodes[n].attributes[k].graph)
                add_passed_names(d, m->nodes[n].attributes[k].graph);
        }
    }
}

/* ---- what the file says ---- */

static const char kind_key[] = "pkg.torch.export.graph_signature.InputSpec.kind";
static const char folded_key[] = "pkg.onnxscript.optimizer.folded_from";
static const char signature_key[] = "pkg.torch.export.ExportedProgram.graph_signature";

/* Every "target='NAME'" of the signature, with the kind that stands before it. */
static qn_status read_signature(deciding *d) {
    static const char mark[] = "target='";
    const char *text =
        qn_onnx_find_property(d->model->properties, d->model->n_properties, signature_key);
    size_t n = 0;
    for (const char *at = text; at && (at = strstr(at, mark)); at += sizeof mark - 1)
        n++;
    QN_TRY(place_names(d, &d->signature, n));
    for (const char *begin = text, *at; begin && (at = strstr(begin, mark));) {
        const char *name = at + sizeof mark - 1, *kind = strstr(begin, "PARAMETER");
        const size_t length = strcspn(name, "'");
        add_name(&d->signature, name, length, kind && kind < at);
        begin = name + length;
    }
    sort_names(&d->signature);
    d->has_evidence = d->has_evidence || n > 0;
    return QN_OK;
}

static qn_status read_infos(deciding *d) {
    const qn_onnx_model *m = d->model;
    QN_TRY(place_names(d, &d->infos, (size_t)m->n_infos));
    for (int i = 0; i < m->n_infos; i++) {
        if (m->infos[i].n_properties == 0)
            continue;
        add_name(&d->infos, m->infos[i].name, strlen(m->infos[i].name), i);
        d->has_evidence =
            d->has_evidence ||
            qn_onnx_find_property(m->infos[i].properties, m->infos[i].n_properties, kind_key);
    }
    sort_names(&d->infos);
    return QN_OK;
}

/* What the file says of a tensor under a key: with its value's description, or with the tensor. */
static const char *said_of(const deciding *d, int i, const char *key) {
    const char *name = d->decisions->list[i].name;
    const name_entry *entry = find_name(&d->infos, name, strlen(name));
    const qn_onnx_value *info = entry ? &d->model->infos[entry->index] : NULL;
    const char *said =
        info ? qn_onnx_find_property(info->properties, info->n_properties, key) : NULL;
    return said
               ? said
               : qn_onnx_find_property(d->tensors[i]->properties, d->tensors[i]->n_properties, key);
}

/* 1: a parameter, 0: none, -1: the file does not say it. */
static int kind_of(const deciding *d, int i) {
    const char *kind = said_of(d, i, kind_key);
    if (kind)
        return strstr(kind, "PARAMETER") != NULL;
    const char *name = d->decisions->list[i].name;
    const name_entry *entry = find_name(&d->signature, name, strlen(name));
    return entry ? entry->index : -1;
}

static bool is_weight_name(const char *name, size_t length);

/* Whether a list of what was folded names it in quotes. */
static bool is_in_list(const char *list, const char *name, size_t length) {
    for (const char *at = length > 0 ? list : NULL; at && (at = strstr(at, name)); at += length) {
        if (at > list && at[-1] == '\'' && at[length] == '\'')
            return true;
    }
    return false;
}

static bool was_folded(const deciding *d, const char *name, size_t length) {
    bool was = false;
    for (int i = 0; !was && i < d->decisions->n; i++)
        was = is_in_list(said_of(d, i, folded_key), name, length);
    return was;
}

/* The optimiser of PyTorch's exporter drops biases of zeros, and makes equal tensors one: then the
 * file trains another network than the module. Parameters that nothing of the module reads are
 * not in the file either. */
static qn_status find_missing(deciding *d) {
    const size_t n = (size_t)d->signature.n + 1;
    d->decisions->missing = qn_arena_allocate(d->arena, n, sizeof *d->decisions->missing);
    if (!d->decisions->missing)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < d->signature.n; i++) {
        const name_entry *e = &d->signature.entries[i];
        char *name = qn_arena_format(d->arena, "%.*s", (int)e->length, e->name);
        if (!name)
            return QN_ERROR_MEMORY;
        if (e->index != 1 || qn_onnx_find_decision(d->decisions, name) ||
            was_folded(d, name, e->length))
            continue;
        d->decisions->missing[d->decisions->n_missing++] = name;
    }
    return QN_OK;
}

/* Of "['a.weight', 'b']", names in quotes: how many are parameters, and how many there are.
 * Files of some versions have no signature: then it is by their names. */
static int count_folded(const deciding *d, const char *list, int *n) {
    int n_parameters = 0;
    *n = 0;
    for (const char *at = strchr(list, '\''); at; at = strchr(at, '\'')) {
        const size_t length = strcspn(++at, "'");
        const name_entry *entry = find_name(&d->signature, at, length);
        n_parameters += entry ? entry->index : is_weight_name(at, length);
        ++*n;
        at += length;
        if (*at)
            at++;
    }
    return n_parameters;
}

/* ---- names ---- */

static bool is_one_of(const char *name, size_t length, const char *const *names) {
    for (int i = 0; names[i]; i++) {
        if (strlen(names[i]) == length && strncmp(names[i], name, length) == 0)
            return true;
    }
    return false;
}

/* What stands behind the last dot or slash of a name, without TensorFlow's ":0"; *length: of
 * the name, then of that. */
static const char *last_part(const char *name, size_t *length) {
    size_t begin = 0;
    for (size_t i = 0; i + 1 < *length; i++)
        begin = name[i] == '.' || name[i] == '/' ? i + 1 : begin;
    *length -= begin;
    name += begin;
    if (*length > 2 && memcmp(name + *length - 2, ":0", 2) == 0)
        *length -= 2;
    return name;
}

static bool is_statistic_name(const char *name) {
    static const char *const names[] = {
        "running_mean", "running_var", "running_variance", "num_batches_tracked", "moving_variance",
        "moving_mean",  NULL};
    size_t length = strlen(name);
    const char *last = last_part(name, &length);
    return is_one_of(last, length, names);
}

/* Buffers of widely used modules: tables of positions and frequencies, masks, what inputs are
 * normalised by, windows, filter banks, anchors. */
static bool is_buffer_name(const char *name) {
    static const char *const names[] = {"pe",
                                        "pos_enc",
                                        "pos_encoding",
                                        "positional_encoding",
                                        "position_encoding",
                                        "inv_freq",
                                        "freqs",
                                        "freqs_cis",
                                        "freqs_cos",
                                        "freqs_sin",
                                        "cos",
                                        "sin",
                                        "cos_cached",
                                        "sin_cached",
                                        "cos_table",
                                        "sin_table",
                                        "mask",
                                        "attn_mask",
                                        "attention_mask",
                                        "causal_mask",
                                        "tril",
                                        "triu",
                                        "mean",
                                        "std",
                                        "pixel_mean",
                                        "pixel_std",
                                        "image_mean",
                                        "image_std",
                                        "norm_mean",
                                        "norm_std",
                                        "anchors",
                                        "anchor_points",
                                        "anchor_grid",
                                        "grid",
                                        "window",
                                        "hann_window",
                                        "fb",
                                        "mel_fb",
                                        "filterbank",
                                        "mel_filters",
                                        "dct_mat",
                                        "eps",
                                        "epsilon",
                                        "one",
                                        "zero",
                                        "ones",
                                        "zeros",
                                        "lut",
                                        "tbl",
                                        "sinusoid",
                                        "relative_coords_table",
                                        NULL};
    size_t length = strlen(name);
    const char *last = last_part(name, &length);
    return is_one_of(last, length, names);
}

static bool is_weight_name(const char *name, size_t length) {
    static const char *const names[] = {"weight", "bias",  "kernel",     "gamma",
                                        "beta",   "alpha", "embeddings", NULL};
    static const char *const begins[] = {"weight_", "bias_", NULL};
    static const char *const ends[] = {"_weight", "_bias", "_kernel", NULL};
    const char *last = last_part(name, &length);
    bool is = is_one_of(last, length, names) || strncmp(last, "ReadVariableOp", 14) == 0;
    for (int i = 0; begins[i]; i++)
        is = is || (length > strlen(begins[i]) && strncmp(last, begins[i], strlen(begins[i])) == 0);
    for (int i = 0; ends[i]; i++)
        is = is || (length > strlen(ends[i]) &&
                    strncmp(last + length - strlen(ends[i]), ends[i], strlen(ends[i])) == 0);
    return is;
}

static bool is_lifted_name(const char *name) {
    return strstr(name, "lifted_tensor") || strstr(name, "_tensor_constant");
}

/* A name that an exporter thought of. */
static bool is_made_name(const char *name) {
    static const char *const begins[] = {"val_", "_val_", "const_", "Const", "const", NULL};
    if (strstr(name, "::") || strstr(name, "onstant") || is_lifted_name(name))
        return true;
    for (int i = 0; begins[i]; i++) {
        if (strncmp(name, begins[i], strlen(begins[i])) == 0)
            return true;
    }
    return strspn(name, "0123456789") == strlen(name);
}

/* ---- decisions ---- */

static void decide(deciding *d, int i, bool trains, bool is_sure, const char *reason) {
    qn_onnx_initializer *it = &d->decisions->list[i];
    it->trains = trains;
    it->is_sure = is_sure;
    it->reason = reason;
}

static bool decide_by_type(deciding *d, int i) {
    if (!qn_onnx_type_is_real(d->tensors[i]->type))
        decide(d, i, false, true, "integers do not train");
    else if (d->uses[i] == 0)
        decide(d, i, false, true, "no node reads it");
    else
        return false;
    return true;
}

/* What is plain from the operators that read it. False: nothing is. */
static bool decide_by_use(deciding *d, int i) {
    const unsigned uses = d->uses[i];
    if (!(uses & ~(unsigned)USED_AS_STATISTIC))
        decide(d, i, false, true, "a batch norm's running statistic");
    else if (!(uses & ~(unsigned)(USED_AS_SETTING | USED_AS_STATISTIC)))
        decide(d, i, false, true, "a setting of an operator");
    else
        return false;
    return true;
}

static bool decide_by_file(deciding *d, int i) {
    const int kind = kind_of(d, i);
    const char *folded = said_of(d, i, folded_key);
    int n = 0;
    if (kind >= 0) {
        decide(d, i, kind == 1, true,
               kind == 1 ? "the file says that it is a parameter"
                         : "the file says that it is a buffer or constant");
        return true;
    }
    const int n_parameters = folded ? count_folded(d, folded, &n) : 0;
    if (n == 0)
        return false;
    decide(d, i, n_parameters > 0, n_parameters == 0 || n_parameters == n,
           n_parameters == 0   ? "the exporter folded it from constants"
           : n_parameters == n ? "the exporter folded it from parameters"
                               : "the exporter folded it from parameters and constants");
    return true;
}

/* Mean, deviation and scales that an export of quern's put beside the network. */
static bool decide_by_quern(deciding *d, int i) {
    static const char *const names[] = {QN_ONNX_PREPARATION_SCALE, QN_ONNX_PREPARATION_SHIFT,
                                        QN_ONNX_TARGET_SCALE, QN_ONNX_TARGET_MEAN, NULL};
    const char *name = d->decisions->list[i].name;
    if (!is_one_of(name, strlen(name), names))
        return false;
    decide(d, i, false, true, "quern put it beside the network");
    return true;
}

/* NAME_scale beside integers NAME_quantized or NAME_zero_point, as ONNX Runtime's quantisation
 * names them. */
static bool is_scale(const deciding *d, int i) {
    static const char *const others[] = {"_quantized", "_zero_point"};
    const char *name = d->decisions->list[i].name;
    const size_t n = strlen(name), end = strlen("_scale");
    if (n <= end || strcmp(name + n - end, "_scale") != 0)
        return false;
    for (int k = 0; k < d->decisions->n; k++) {
        const char *other = d->decisions->list[k].name;
        const bool is_beside =
            strncmp(other, name, n - end) == 0 &&
            (strcmp(other + n - end, others[0]) == 0 || strcmp(other + n - end, others[1]) == 0);
        if (is_beside && !qn_onnx_type_is_real(d->tensors[k]->type))
            return true;
    }
    return false;
}

/* By its name and use, where the file does not say it. */
static void guess(deciding *d, int i) {
    const char *name = d->decisions->list[i].name;
    const bool is_weight = d->uses[i] & USED_AS_WEIGHT, is_made = is_made_name(name);
    const bool is_pytorch = strncmp(d->model->producer, "pytorch", 7) == 0;
    const bool is_number = d->tensors[i]->n_dims == 0;
    if (strcmp(d->model->producer, "quern") == 0)
        decide(d, i, !is_number, true, "quern wrote the file");
    else if (is_statistic_name(name) && !is_weight)
        decide(d, i, false, true, "a running statistic by its name");
    else if (is_scale(d, i))
        decide(d, i, false, true, "the scale of a quantised tensor");
    else if (is_lifted_name(name))
        decide(d, i, false, true, "a constant of the program by its name");
    else if (is_weight_name(name, strlen(name)) && !d->has_evidence)
        decide(d, i, true, true, "a weight by its name");
    else if (is_weight && !is_made && !is_buffer_name(name) && !d->has_evidence)
        decide(d, i, true, true, "a layer's weight");
    else if (is_weight)
        decide(d, i, !is_buffer_name(name), false,
               is_made ? "a layer reads it, but the exporter named it" : "a layer reads it");
    else if (is_buffer_name(name))
        decide(d, i, false, false, "a buffer by its name");
    else if (is_made)
        decide(d, i, false, false, "a constant by its name, which the exporter made");
    else if (d->has_evidence)
        decide(d, i, false, false, "the file lists parameters, and this is not among them");
    else if (is_number && !is_pytorch)
        decide(d, i, false, false, "one number, which may be a constant");
    else
        decide(d, i, true, false, "it may be a parameter or a buffer");
}

/* Running statistics are worked out of batches, whatever a list says. */
static qn_status check_statistic(const deciding *d, int i) {
    const qn_onnx_initializer *it = &d->decisions->list[i];
    if (!it->trains || d->uses[i] != (unsigned)USED_AS_STATISTIC)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s is a batch norm's running statistic, which follows the batches and has no "
                   "gradient: leave it out of the list of what trains",
                   it->name);
}

/* What the user's lists say. */
static void override(deciding *d, int i, const char *train_only, const char *required) {
    const qn_onnx_initializer *it = &d->decisions->list[i];
    const bool is_real = qn_onnx_type_is_real(d->tensors[i]->type);
    if (required && is_required(required, it->name))
        decide(d, i, true, true, "the list names it");
    else if (required && is_real)
        decide(d, i, false, true, "the list does not name it");
    else if (!required && is_real && !it->trains &&
             (is_named(train_only, it->name) ||
              (!it->is_sure && qn_patterns_match(train_only, it->name))))
        decide(d, i, true, true, "--train-only names it");
}

/* ---- what lists may name ---- */

static qn_status check_line(const deciding *d, const char *line, size_t n) {
    const char **names = qn_arena_allocate(d->arena, (size_t)d->decisions->n + 1, sizeof *names);
    char *typed = qn_arena_format(d->arena, "%.*s", (int)n, line);
    const qn_onnx_initializer *found = typed ? qn_onnx_find_decision(d->decisions, typed) : NULL;
    if (!names || !typed)
        return QN_ERROR_MEMORY;
    if (found && strcmp(found->reason, "the list names it") == 0) {
        const name_entry *entry = find_name(&d->names, line, n);
        if (entry && !qn_onnx_type_is_real(d->tensors[entry->index]->type))
            return qn_fail(QN_ERROR_ARGUMENT, "%s is of %s: only real numbers train", typed,
                           found->type);
        return QN_OK;
    }
    for (int i = 0; i < d->decisions->n; i++)
        names[i] = d->decisions->list[i].name;
    const char *nearest = qn_text_nearest(typed, names, d->decisions->n);
    return qn_fail(
        QN_ERROR_ARGUMENT, "the list of what trains names %s, which is no initialiser%s%s", typed,
        nearest ? "; did you mean " : "; quern import lists them", nearest ? nearest : "");
}

static qn_status check_required(const deciding *d, const char *required) {
    for (const char *line = required; line && *line; line += *line == '\n') {
        const size_t n = strcspn(line, "\n");
        if (n > 0)
            QN_TRY(check_line(d, line, n));
        line += n;
    }
    return QN_OK;
}

/* ---- all of them ---- */

static int compare_names(const void *left, const void *right) {
    const qn_onnx_initializer *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

const qn_onnx_initializer *qn_onnx_find_decision(const qn_onnx_decisions *decisions,
                                                 const char *name) {
    int least = 0, most = decisions->n;
    while (least < most) {
        const int middle = least + (most - least) / 2;
        if (strcmp(decisions->by_name[middle]->name, name) < 0)
            least = middle + 1;
        else
            most = middle;
    }
    return least < decisions->n && strcmp(decisions->by_name[least]->name, name) == 0
               ? decisions->by_name[least]
               : NULL;
}

static qn_status place_all(deciding *d, size_t n, size_t n_nodes) {
    d->decisions->list = qn_arena_allocate(d->arena, n + 1, sizeof *d->decisions->list);
    d->decisions->by_name = qn_arena_allocate(d->arena, n + 1, sizeof *d->decisions->by_name);
    d->tensors = qn_arena_allocate(d->arena, n + 1, sizeof *d->tensors);
    d->uses = qn_arena_allocate(d->arena, n + 1, sizeof *d->uses);
    if (!d->decisions->list || !d->decisions->by_name || !d->tensors || !d->uses)
        return QN_ERROR_MEMORY;
    return place_names(d, &d->names, n + n_nodes);
}

qn_status qn_onnx_decide(const qn_onnx_model *model, const char *train_only, const char *required,
                         qn_arena *arena, qn_onnx_decisions *decisions) {
    deciding d = {.model = model, .arena = arena, .decisions = decisions};
    int n_nodes = 0;
    const size_t n = count_initializers(model, &n_nodes);
    *decisions = (qn_onnx_decisions){.n = 0};
    QN_TRY(place_all(&d, n + (size_t)n_nodes, (size_t)n_nodes));
    add_initializers(&d, model, train_only, required);
    add_passed_names(&d, model);
    sort_names(&d.names);
    QN_TRY(read_infos(&d));
    QN_TRY(read_signature(&d));
    note_uses(&d, model);
    for (int i = 0; i < decisions->n; i++) {
        if (!decide_by_type(&d, i) && !decide_by_file(&d, i) && !decide_by_quern(&d, i) &&
            !decide_by_use(&d, i))
            guess(&d, i);
        override(&d, i, train_only, required);
        QN_TRY(check_statistic(&d, i));
        decisions->by_name[i] = &decisions->list[i];
    }
    if (decisions->n > 1)
        qsort(decisions->by_name, (size_t)decisions->n, sizeof *decisions->by_name, compare_names);
    QN_TRY(find_missing(&d));
    return check_required(&d, required);
}
