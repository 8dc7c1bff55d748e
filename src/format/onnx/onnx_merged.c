/* What an exporter drops or makes one because of how it begins: PyTorch's optimiser keeps one of
 * all weights of ones, and one of all biases of zeros, of a shape. They would train as one. The
 * file still says which parameters the module had (the signature), and of each node which ones it
 * was made of ("pkg.torch.onnx.fx_node"), so each node gets back the tensor of its own, under the
 * module's name. Only tensors of equal numbers are parted: others that are shared are shared in the
 * module, too. A layer whose bias was dropped, being zeros, gets it back. Guaranteed: what is
 * computed stays the same. */
#include "base/status.h"
#include "format/onnx/onnx_parts.h"

#include <stdlib.h>
#include <string.h>

static const char signature_key[] = "pkg.torch.export.ExportedProgram.graph_signature";
static const char node_key[] = "pkg.torch.onnx.fx_node";
enum { PROPERTIES_OF_GRAPH = 16, PROPERTIES_OF_NODE = 9, MOST_OPERANDS = 64, MOST_BIAS = 1 << 20 };

/* A parameter or buffer of the module: its name in the program ("p_a_weight"), and its own. */
typedef struct entry {
    const char *place, *name;
    size_t place_length;
    bool is_there; /* an initialiser has its name */
    const qn_onnx_tensor *made;
} entry;

typedef struct parting {
    qn_onnx_reading *reading;
    qn_onnx_model *model;
    int n_entries, n_made;
    entry *entries;                 /* in the signature's order */
    const qn_onnx_tensor **by_name; /* initialisers, sorted */
    qn_onnx_tensor *tensors;        /* initialisers, then those that are made */
} parting;

/* ---- the signature ---- */

/* "  p_a_weight: PARAMETER target='a.weight'" */
static qn_status read_entry(parting *p, const char *text, const char *mark, entry *e) {
    const char *name = strchr(mark, '\'') + 1, *line = mark;
    const size_t length = strcspn(name, "'");
    char *copy;
    while (line > text && line[-1] != '\n')
        line--;
    line += strspn(line, " ");
    QN_TRY(qn_onnx_place(p->reading, length + 1, 1, &copy));
    memcpy(copy, name, length);
    copy[length] = 0;
    *e = (entry){.place = line, .place_length = strcspn(line, ": \n"), .name = copy};
    return QN_OK;
}

static qn_status read_signature(parting *p, const char *text) {
    static const char mark[] = "target='";
    size_t n = 0;
    for (const char *at = text; (at = strstr(at, mark)); at += sizeof mark - 1)
        n++;
    QN_TRY(qn_onnx_place(p->reading, n + 1, sizeof *p->entries, &p->entries));
    for (const char *at = text; (at = strstr(at, mark)); at += sizeof mark - 1)
        QN_TRY(read_entry(p, text, at, &p->entries[p->n_entries++]));
    return QN_OK;
}

/* ---- initialisers ---- */

static int compare_tensors(const void *left, const void *right) {
    const qn_onnx_tensor *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

static int compare_with_name(const void *name, const void *tensor) {
    return strcmp(name, (*(const qn_onnx_tensor *const *)tensor)->name);
}

static const qn_onnx_tensor *find_tensor(const parting *p, const char *name) {
    const qn_onnx_tensor *const *found = bsearch(name, p->by_name, (size_t)p->model->n_initializers,
                                                 sizeof *p->by_name, compare_with_name);
    return found ? *found : NULL;
}

/* *n_missing: entries without an initialiser. */
static qn_status sort_initializers(parting *p, int *n_missing) {
    const int n = p->model->n_initializers;
    QN_TRY(qn_onnx_place(p->reading, (size_t)n + 1, sizeof *p->by_name, &p->by_name));
    for (int i = 0; i < n; i++)
        p->by_name[i] = &p->model->initializers[i];
    if (n > 1)
        qsort(p->by_name, (size_t)n, sizeof *p->by_name, compare_tensors);
    *n_missing = 0;
    for (int i = 0; i < p->n_entries; i++) {
        p->entries[i].is_there = find_tensor(p, p->entries[i].name) != NULL;
        *n_missing += !p->entries[i].is_there;
    }
    return QN_OK;
}

/* Whether all its numbers are equal. */
static bool is_even(const qn_onnx_tensor *t) {
    const size_t width = qn_onnx_type_bytes(t->type);
    const char *data = t->data;
    return width > 0 && t->bytes >= width && memcmp(data, data + width, t->bytes - width) == 0;
}

/* ---- nodes ---- */

/* The text of the program that a node was made of, or null. */
static qn_status read_text(parting *p, const Onnx__NodeProto *from, const char **text) {
    const qn_onnx_property *properties;
    int n;
    QN_TRY(qn_onnx_read_properties(p->reading, &from->base, PROPERTIES_OF_NODE, &properties, &n));
    *text = qn_onnx_find_property(properties, n, node_key);
    return QN_OK;
}

/* Entries among the operands of a node's text, "(args = (%x, %p_a_weight), ...)", by their places
 * there; null for what is none. */
static int read_operands(const parting *p, const char *text, entry *operands[MOST_OPERANDS]) {
    int n = 0;
    const char *at = strstr(text, "(args = ");
    while (at && n < MOST_OPERANDS && (at = strchr(at, '%'))) {
        const size_t length = strspn(++at, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
                                           "0123456789_");
        operands[n] = NULL;
        for (int i = 0; i < p->n_entries && !operands[n]; i++) {
            entry *e = &p->entries[i];
            if (e->place_length == length && memcmp(e->place, at, length) == 0)
                operands[n] = e;
        }
        n++;
    }
    return n;
}

static const char *last_part(const char *name) {
    const char *dot = strrchr(name, '.');
    return dot ? dot + 1 : name;
}

/* Whether a node has the program's operands at the same places. */
static bool has_operands(const qn_onnx_node *node) {
    static const char *const types[] = {"BatchNormalization", "Conv",  "ConvTranspose",
                                        "LayerNormalization", "PRelu", "RMSNormalization"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        if (strcmp(types[i], node->type) == 0)
            return true;
    }
    return false;
}

/* What stands for an initialiser where a node reads it: an operand of the program at the same
 * place; else the only one that is gone of the same kind of name, or the only one. Null: itself. */
static entry *choose_operand(const qn_onnx_node *node, int input, entry *const *operands, int n) {
    const char *name = node->inputs[input];
    entry *alike = NULL, *any = NULL;
    int n_alike = 0, n_any = 0;
    for (int i = 0; i < n; i++) {
        if (!operands[i])
            continue;
        if (strcmp(operands[i]->name, name) == 0)
            return NULL;
        if (operands[i]->is_there)
            continue;
        any = operands[i];
        n_any++;
        if (strcmp(last_part(any->name), last_part(name)) == 0) {
            alike = any;
            n_alike++;
        }
    }
    if (has_operands(node) && input < n)
        return operands[input] && !operands[input]->is_there ? operands[input] : NULL;
    return n_alike == 1 ? alike : n_alike == 0 && n_any == 1 ? any : NULL;
}

/* The entry's own tensor, like one that stood for it; null: it has one of another shape. */
static const qn_onnx_tensor *make_tensor(parting *p, entry *e, const qn_onnx_tensor *like) {
    if (e->made)
        return e->made->data == like->data ? e->made : NULL;
    qn_onnx_tensor *made = &p->tensors[p->model->n_initializers + p->n_made++];
    *made = *like;
    made->name = e->name;
    e->made = made;
    return made;
}

static qn_status part_input(parting *p, qn_onnx_node *node, int input, entry *e,
                            const qn_onnx_tensor *tensor) {
    qn_onnx_parted *parted;
    const char **inputs;
    const qn_onnx_tensor *made = make_tensor(p, e, tensor);
    if (!made)
        return QN_OK;
    QN_TRY(qn_onnx_place(p->reading, (size_t)node->n_inputs, sizeof *inputs, &inputs));
    QN_TRY(qn_onnx_place(p->reading, 1, sizeof *parted, &parted));
    memcpy(inputs, node->inputs, (size_t)node->n_inputs * sizeof *inputs);
    inputs[input] = made->name;
    node->inputs = inputs;
    *parted = (qn_onnx_parted){p->reading->file->parted, node->outputs[0], input, made->name};
    p->reading->file->parted = parted;
    return QN_OK;
}

/* ---- biases ---- */

/* The only bias among the operands that the file has no more; null: none. */
static entry *find_bias(entry *const *operands, int n) {
    entry *bias = NULL;
    int n_found = 0;
    for (int i = 0; i < n; i++) {
        if (operands[i] && !operands[i]->is_there && !operands[i]->made &&
            strcmp(last_part(operands[i]->name), "bias") == 0) {
            bias = operands[i];
            n_found++;
        }
    }
    return n_found == 1 ? bias : NULL;
}

static int64_t attribute_of(const qn_onnx_node *node, const char *name, int64_t fallback) {
    const qn_onnx_attribute *a = qn_onnx_find_attribute(node, name);
    return a && a->kind == QN_ONNX_ATTRIBUTE_INT ? a->count : fallback;
}

/* How many numbers a layer's bias has; 0: it is none that leaves it out. */
static int64_t count_bias(const qn_onnx_node *node, const qn_onnx_tensor *weight) {
    if (strcmp(node->type, "Gemm") == 0 && weight->n_dims == 2)
        return weight->dims[attribute_of(node, "transB", 0) != 0 ? 0 : 1];
    if (strcmp(node->type, "Conv") == 0 && weight->n_dims > 2)
        return weight->dims[0];
    return 0;
}

static qn_status give_bias(parting *p, qn_onnx_node *node, entry *e, const qn_onnx_tensor *weight,
                           int64_t n) {
    const size_t bytes = (size_t)n * qn_onnx_type_bytes(weight->type);
    qn_onnx_tensor zeros = {.name = e->name, .type = weight->type, .n_dims = 1, .bytes = bytes};
    const char **inputs;
    int64_t *dims;
    void *data;
    QN_TRY(qn_onnx_place(p->reading, 1, sizeof *dims, &dims));
    QN_TRY(qn_onnx_place(p->reading, bytes, 1, &data));
    QN_TRY(qn_onnx_place(p->reading, 3, sizeof *inputs, &inputs));
    memset(data, 0, bytes);
    *dims = n;
    zeros.dims = dims;
    zeros.data = data;
    inputs[0] = node->inputs[0];
    inputs[1] = node->inputs[1];
    inputs[2] = "";
    node->inputs = inputs;
    node->n_inputs = 3;
    return part_input(p, node, 2, e, &zeros);
}

/* A layer that the program gave a bias and the file does not. */
static qn_status part_bias(parting *p, qn_onnx_node *node, const Onnx__NodeProto *from) {
    const qn_onnx_tensor *weight = node->n_inputs == 2 ? find_tensor(p, node->inputs[1]) : NULL;
    const int64_t n = weight && !*node->domain ? count_bias(node, weight) : 0;
    entry *operands[MOST_OPERANDS];
    const char *text;
    if (n < 1 || n > MOST_BIAS || node->n_outputs < 1)
        return QN_OK;
    QN_TRY(read_text(p, from, &text));
    entry *e = text ? find_bias(operands, read_operands(p, text, operands)) : NULL;
    return e ? give_bias(p, node, e, weight, n) : QN_OK;
}

/* ---- all nodes ---- */

static qn_status part_node(parting *p, qn_onnx_node *node, const Onnx__NodeProto *from) {
    entry *operands[MOST_OPERANDS];
    const char *text = NULL;
    int n_operands = 0;
    for (int i = 0; i < node->n_inputs && node->n_outputs > 0; i++) {
        const qn_onnx_tensor *tensor = find_tensor(p, node->inputs[i]);
        if (!tensor || !is_even(tensor))
            continue;
        if (!text) {
            QN_TRY(read_text(p, from, &text));
            if (!text)
                return QN_OK;
            n_operands = read_operands(p, text, operands);
        }
        entry *e = choose_operand(node, i, operands, n_operands);
        if (e)
            QN_TRY(part_input(p, node, i, e, tensor));
    }
    return QN_OK;
}

static qn_status part_nodes(parting *p, const Onnx__GraphProto *graph) {
    qn_onnx_model *model = p->model;
    qn_onnx_node *nodes;
    QN_TRY(qn_onnx_place(p->reading, (size_t)model->n_nodes + 1, sizeof *nodes, &nodes));
    QN_TRY(qn_onnx_place(p->reading, (size_t)(model->n_initializers + p->n_entries) + 1,
                         sizeof *p->tensors, &p->tensors));
    if (model->n_nodes > 0)
        memcpy(nodes, model->nodes, (size_t)model->n_nodes * sizeof *nodes);
    if (model->n_initializers > 0)
        memcpy(p->tensors, model->initializers, (size_t)model->n_initializers * sizeof *p->tensors);
    for (int i = 0; i < model->n_nodes; i++)
        QN_TRY(part_node(p, &nodes[i], graph->node[i]));
    for (int i = 0; i < model->n_nodes; i++)
        QN_TRY(part_bias(p, &nodes[i], graph->node[i]));
    model->nodes = nodes;
    model->initializers = p->tensors;
    p->reading->file->n_parted = p->n_made;
    model->n_initializers += p->n_made;
    return QN_OK;
}

/* ---- all of it ---- */

/* The signature is the model's, or, of newer versions, the graph's: then the model gets it, too. */
static qn_status find_signature(qn_onnx_reading *reading, const Onnx__ModelProto *message,
                                qn_onnx_model *model, const char **text) {
    const qn_onnx_property *properties;
    qn_onnx_property *all;
    int n;
    *text = qn_onnx_find_property(model->properties, model->n_properties, signature_key);
    if (*text)
        return QN_OK;
    QN_TRY(qn_onnx_read_properties(reading, &message->graph->base, PROPERTIES_OF_GRAPH, &properties,
                                   &n));
    *text = qn_onnx_find_property(properties, n, signature_key);
    if (!*text)
        return QN_OK;
    QN_TRY(qn_onnx_place(reading, (size_t)model->n_properties + 1, sizeof *all, &all));
    if (model->n_properties > 0)
        memcpy(all, model->properties, (size_t)model->n_properties * sizeof *all);
    all[model->n_properties++] = (qn_onnx_property){signature_key, *text};
    model->properties = all;
    return QN_OK;
}

qn_status qn_onnx_part_tensors(qn_onnx_reading *reading, const Onnx__ModelProto *message,
                               qn_onnx_model *model) {
    parting p = {.reading = reading, .model = model};
    const char *text;
    int n_missing;
    QN_TRY(find_signature(reading, message, model, &text));
    if (!text)
        return QN_OK;
    QN_TRY(read_signature(&p, text));
    QN_TRY(sort_initializers(&p, &n_missing));
    return n_missing > 0 ? part_nodes(&p, message->graph) : QN_OK;
}
