/* Layers that take several nodes in a file, as this exporter writes them and others do:
 *     attention   dropout(softmax(where(places < lengths, q k^T * scale, -inf))) v
 *                 becomes a node "QuernAttention" of q, k, v, lengths, dropout's ratio
 *     LSTM        weights whose gates i, f, g, o are split and joined as ONNX has them become those
 *                 that were split, and the bias, before zeros, the one of both
 * Only where nothing else reads what lies in between. */
#include "onnx/recognise.h"

#include <math.h>
#include <string.h>

typedef qn_onnx_recogniser recogniser;

/* The node of a type that gives a name which nothing else reads; or null. */
static qn_onnx_node *only_maker(const recogniser *r, const char *name, const char *type,
                                int n_inputs) {
    return qn_onnx_count_reads(r, name) == 1 ? qn_onnx_maker(r, name, type, n_inputs) : NULL;
}

/* Whether a name is a list of whole numbers. */
static bool is_list(const recogniser *r, const char *name, const int64_t *numbers, int n) {
    const qn_onnx_tensor *t = qn_onnx_tensor_named(r, name);
    const size_t bytes = (size_t)n * sizeof *numbers;
    return t && t->type == QN_ONNX_INT64 && t->bytes == bytes &&
           memcmp(t->data, numbers, bytes) == 0;
}

static int64_t int_of(const qn_onnx_node *node, const char *name, int64_t fallback) {
    const qn_onnx_attribute *a = qn_onnx_find_attribute(node, name);
    return a && a->kind == QN_ONNX_ATTRIBUTE_INT ? a->count : fallback;
}

/* ---- attention ---- */

/* The nodes of one; those that may be missing are null. */
typedef struct attention {
    qn_onnx_node *product, *dropout, *softmax, *where, *less, *range, *ends, *cast, *scaled,
        *scores, *keys;
    float scale;
} attention;

/* The mask, if there is one; false: another than by lengths. */
static bool find_mask(const recogniser *r, const char *name, attention *a) {
    static const int64_t axes[] = {1, 2, 3}, zero = 0, one = 1;
    a->where = only_maker(r, name, "Where", 3);
    if (!a->where)
        return true;
    a->less = only_maker(r, a->where->inputs[0], "Less", 2);
    a->range = a->less ? only_maker(r, a->less->inputs[0], "Range", 3) : NULL;
    a->ends = a->less ? only_maker(r, a->less->inputs[1], "Unsqueeze", 2) : NULL;
    a->cast = a->ends ? only_maker(r, a->ends->inputs[0], "Cast", 1) : NULL;
    return a->range && a->cast && is_list(r, a->range->inputs[0], &zero, 1) &&
           is_list(r, a->range->inputs[2], &one, 1) && is_list(r, a->ends->inputs[1], axes, 3) &&
           qn_onnx_number_named(r, a->where->inputs[2]) < -1e29;
}

/* Keys transposed for the product, which is all that reads them. */
static bool find_keys(const recogniser *r, attention *a) {
    a->keys = a->scores ? only_maker(r, a->scores->inputs[1], "Transpose", 1) : NULL;
    const qn_onnx_attribute *perm = a->keys ? qn_onnx_find_attribute(a->keys, "perm") : NULL;
    return perm && perm->kind == QN_ONNX_ATTRIBUTE_INTS && perm->n == 4;
}

static bool find_attention(const recogniser *r, attention *a) {
    const char *x = a->product->inputs[0];
    a->dropout = only_maker(r, x, "Dropout", 2);
    x = a->dropout ? a->dropout->inputs[0] : x;
    a->softmax = only_maker(r, x, "Softmax", 1);
    const int64_t axis = a->softmax ? int_of(a->softmax, "axis", -1) : 0;
    if ((axis != -1 && axis != 3) || !find_mask(r, a->softmax->inputs[0], a))
        return false;
    x = a->where ? a->where->inputs[1] : a->softmax->inputs[0];
    a->scaled = only_maker(r, x, "Mul", 2);
    const bool is_product = a->scaled != NULL;
    if (!is_product)
        a->scaled = only_maker(r, x, "Div", 2);
    const double by = a->scaled ? qn_onnx_number_named(r, a->scaled->inputs[1]) : 1;
    a->scale = (float)(is_product ? by : 1 / by);
    a->scores = only_maker(r, a->scaled ? a->scaled->inputs[0] : x, "MatMul", 2);
    return by > 0 && isfinite(a->scale) && find_keys(r, a);
}

/* The transpose with its last two axes as they were before. */
static bool turn_keys(recogniser *r, qn_onnx_node *keys) {
    qn_onnx_attribute perm = *qn_onnx_find_attribute(keys, "perm");
    int64_t *order = qn_arena_allocate(r->arena, 4, sizeof *order);
    if (!order)
        return false;
    for (int i = 0; i < 4; i++)
        order[i] = perm.counts[i < 2 ? i : 5 - i];
    perm.counts = order;
    return qn_onnx_replace(r, keys, keys->type, keys->inputs, keys->n_inputs, &perm, 1);
}

bool qn_onnx_join_attention(recogniser *r, qn_onnx_node *product) {
    attention a = {.product = product};
    if (!find_attention(r, &a))
        return true;
    const char *inputs[] = {a.scores->inputs[0], a.keys->outputs[0], product->inputs[1],
                            a.cast ? a.cast->inputs[0] : "", a.dropout ? a.dropout->inputs[1] : ""};
    const qn_onnx_attribute scale = {
        .name = "scale", .kind = QN_ONNX_ATTRIBUTE_FLOAT, .number = a.scale};
    qn_onnx_node *const gone[] = {a.dropout, a.softmax, a.where,  a.less,  a.range,
                                  a.ends,    a.cast,    a.scaled, a.scores};
    for (size_t i = 0; i < sizeof gone / sizeof *gone; i++)
        qn_onnx_remove(gone[i]);
    return turn_keys(r, a.keys) &&
           qn_onnx_replace(r, product, "QuernAttention", inputs, 5, &scale, 1);
}

/* ---- LSTM ---- */

/* The nodes that put a weight's gates into ONNX's order. */
typedef struct gates {
    qn_onnx_node *unsqueeze, *concat, *split, *zeros;
} gates;

static qn_onnx_node *find_split(const recogniser *r, const char *first) {
    for (int n = 0; n < r->model->n_nodes; n++) {
        qn_onnx_node *node = &r->nodes[n];
        if (strcmp(node->type, "Split") == 0 && node->n_outputs == 4 && node->n_inputs == 1 &&
            int_of(node, "axis", 0) == 0 && strcmp(node->outputs[0], first) == 0)
            return node;
    }
    return NULL;
}

/* n_parts: 4, or 5 with zeros behind. */
static bool find_gates(const recogniser *r, const char *name, int n_parts, gates *g) {
    static const int order[] = {0, 3, 1, 2};
    const int64_t zero = 0;
    g->unsqueeze = only_maker(r, name, "Unsqueeze", 2);
    g->concat = g->unsqueeze ? only_maker(r, g->unsqueeze->inputs[0], "Concat", n_parts) : NULL;
    if (!g->concat || g->concat->n_inputs != n_parts || int_of(g->concat, "axis", 0) != 0 ||
        !is_list(r, g->unsqueeze->inputs[1], &zero, 1))
        return false;
    g->split = find_split(r, g->concat->inputs[0]);
    for (int i = 0; g->split && i < 4; i++) {
        if (strcmp(g->concat->inputs[i], g->split->outputs[order[i]]) != 0 ||
            qn_onnx_count_reads(r, g->concat->inputs[i]) != 1)
            return false;
    }
    if (n_parts == 5)
        g->zeros = only_maker(r, g->concat->inputs[4], "ConstantOfShape", 1);
    return g->split && (n_parts == 4 || (g->zeros && g->zeros->n_attributes == 0));
}

/* A layer with sizes and nothing else that is unusual. */
static bool is_plain(const qn_onnx_node *lstm) {
    return lstm->n_attributes == 1 && strcmp(lstm->attributes[0].name, "hidden_size") == 0;
}

bool qn_onnx_join_lstm(recogniser *r, qn_onnx_node *lstm) {
    enum { WEIGHTS = 3, MOST = 7 };
    gates g[WEIGHTS] = {{0}};
    const char *inputs[MOST];
    if (!is_plain(lstm) || lstm->n_inputs > MOST)
        return true;
    for (int i = 0; i < WEIGHTS; i++) {
        if (!find_gates(r, lstm->inputs[1 + i], i == 2 ? 5 : 4, &g[i]))
            return true;
    }
    for (int i = 0; i < lstm->n_inputs; i++)
        inputs[i] = i >= 1 && i <= WEIGHTS ? g[i - 1].split->inputs[0] : lstm->inputs[i];
    for (int i = 0; i < WEIGHTS; i++) {
        qn_onnx_remove(g[i].unsqueeze);
        qn_onnx_remove(g[i].concat);
        qn_onnx_remove(g[i].split);
        qn_onnx_remove(g[i].zeros);
    }
    const qn_onnx_attribute attributes[] = {
        lstm->attributes[0], {.name = "quern_gates", .kind = QN_ONNX_ATTRIBUTE_INT, .count = 1}};
    return qn_onnx_replace(r, lstm, "LSTM", inputs, lstm->n_inputs, attributes, 2);
}
