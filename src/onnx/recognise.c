/* Layer norm and GELU as exporters write them out, node by node, become one node again
 * ("LayerNormalization", "Gelu"), which is quicker and keeps less:
 *     d = x - mean(x);  d / sqrt(mean(d * d) + epsilon), perhaps * scale, + shift  (Ba et al. 2016)
 *     x * (erf(x / sqrt(2)) + 1) * 0.5                     (Hendrycks and Gimpel 2016)
 * Attention and layers of LSTM, as this exporter writes them: recognise_layers.c. Only over the
 * last axis, and only where nothing else reads what lies in between. The model that was read stays
 * as it is; a list of nodes of its own is made. */
#include "onnx/recognise.h"

#include "onnx/builder.h"

#include <math.h>
#include <string.h>

typedef qn_onnx_recogniser recogniser;

/* ---- looking around ---- */

qn_onnx_node *qn_onnx_maker(const recogniser *r, const char *name, const char *type, int n_inputs) {
    for (int n = 0; n < r->model->n_nodes; n++) {
        qn_onnx_node *node = &r->nodes[n];
        if (node->n_outputs == 1 && node->n_inputs >= n_inputs && strcmp(node->type, type) == 0 &&
            strcmp(node->outputs[0], name) == 0)
            return node;
    }
    return NULL;
}

int qn_onnx_count_reads(const recogniser *r, const char *name) {
    int count = 0;
    for (int n = 0; n < r->model->n_nodes; n++) {
        int own = 0;
        for (int i = 0; *r->nodes[n].type && i < r->nodes[n].n_inputs; i++)
            own += strcmp(r->nodes[n].inputs[i], name) == 0;
        if (own == 0 && r->nodes[n].n_attributes > 0 && *r->nodes[n].type)
            own = qn_onnx_node_reads(&r->nodes[n], name);
        count += own;
    }
    for (int i = 0; i < r->model->n_outputs; i++)
        count += strcmp(r->model->outputs[i].name, name) == 0;
    return count;
}

/* The one node that reads a name, if it is of a type; *other is its other input of two. */
static qn_onnx_node *reader(const recogniser *r, const char *name, const char *type,
                            const char **other) {
    if (qn_onnx_count_reads(r, name) != 1)
        return NULL;
    for (int n = 0; n < r->model->n_nodes; n++) {
        qn_onnx_node *node = &r->nodes[n];
        for (int i = 0; i < 2 && node->n_inputs == 2 && strcmp(node->type, type) == 0; i++) {
            if (strcmp(node->inputs[i], name) == 0) {
                *other = node->inputs[1 - i];
                return node;
            }
        }
    }
    return NULL;
}

const qn_onnx_tensor *qn_onnx_tensor_named(const recogniser *r, const char *name) {
    const qn_onnx_node *same = qn_onnx_maker(r, name, "Identity", 1);
    name = same ? same->inputs[0] : name;
    const qn_onnx_node *node = qn_onnx_maker(r, name, "Constant", 0);
    const qn_onnx_attribute *a = node ? qn_onnx_find_attribute(node, "value") : NULL;
    if (a && a->kind == QN_ONNX_ATTRIBUTE_TENSOR)
        return &a->tensor;
    for (int i = 0; i < r->model->n_initializers; i++) {
        if (strcmp(r->model->initializers[i].name, name) == 0)
            return &r->model->initializers[i];
    }
    return NULL;
}

double qn_onnx_number_named(const recogniser *r, const char *name) {
    const qn_onnx_tensor *t = qn_onnx_tensor_named(r, name);
    if (t && t->type == QN_ONNX_DOUBLE && t->bytes == sizeof(double))
        return *(const double *)t->data;
    return t && t->type == QN_ONNX_FLOAT && t->bytes == sizeof(float)
               ? qn_onnx_decimal(*(const float *)t->data)
               : NAN;
}

static bool is_near(double number, double wanted) {
    return fabs(number - wanted) < 1e-6;
}

void qn_onnx_remove(qn_onnx_node *node) {
    if (node)
        node->type = "";
}

/* ---- layer norm ---- */

static bool is_mean_of_last(const qn_onnx_node *node) {
    const qn_onnx_attribute *axes = qn_onnx_find_attribute(node, "axes");
    const qn_onnx_attribute *keep = qn_onnx_find_attribute(node, "keepdims");
    return axes && axes->n == 1 && axes->counts && axes->counts[0] == -1 && node->n_inputs == 1 &&
           (!keep || keep->count == 1);
}

/* The nodes of one. */
typedef struct norm {
    qn_onnx_node *mean, *less, *square, *variance, *plus, *root, *divide, *times, *shift;
    const char *x, *scale, *bias;
    double epsilon;
} norm;

/* d * d, or d to the power of 2, and nothing else but the division reads d. */
static bool find_square(const recogniser *r, const char *name, norm *l) {
    const char *d = l->less->outputs[0];
    l->square = qn_onnx_maker(r, name, "Pow", 2);
    if (l->square)
        return strcmp(l->square->inputs[0], d) == 0 &&
               is_near(qn_onnx_number_named(r, l->square->inputs[1]), 2) &&
               qn_onnx_count_reads(r, d) == 2;
    l->square = qn_onnx_maker(r, name, "Mul", 2);
    return l->square && strcmp(l->square->inputs[0], d) == 0 &&
           strcmp(l->square->inputs[1], d) == 0 && qn_onnx_count_reads(r, d) == 3;
}

static bool find_moments(const recogniser *r, norm *l) {
    l->less = qn_onnx_maker(r, l->divide->inputs[0], "Sub", 2);
    l->root = qn_onnx_maker(r, l->divide->inputs[1], "Sqrt", 1);
    l->mean = l->less ? qn_onnx_maker(r, l->less->inputs[1], "ReduceMean", 1) : NULL;
    l->plus = l->root ? qn_onnx_maker(r, l->root->inputs[0], "Add", 2) : NULL;
    if (!l->mean || !l->plus || !is_mean_of_last(l->mean))
        return false;
    l->x = l->mean->inputs[0];
    l->variance = qn_onnx_maker(r, l->plus->inputs[0], "ReduceMean", 1);
    l->epsilon = qn_onnx_number_named(r, l->plus->inputs[1]);
    return strcmp(l->less->inputs[0], l->x) == 0 && l->variance && is_mean_of_last(l->variance) &&
           l->epsilon > 0 && qn_onnx_count_reads(r, l->mean->outputs[0]) == 1 &&
           qn_onnx_count_reads(r, l->variance->outputs[0]) == 1 &&
           qn_onnx_count_reads(r, l->plus->outputs[0]) == 1 &&
           qn_onnx_count_reads(r, l->root->outputs[0]) == 1 &&
           find_square(r, l->variance->inputs[0], l) &&
           qn_onnx_count_reads(r, l->square->outputs[0]) == 1;
}

static bool is_row(const recogniser *r, const char *name) {
    const qn_onnx_tensor *t = qn_onnx_tensor_named(r, name);
    return t && t->n_dims == 1;
}

/* Scale and shift behind the division, if they are there. */
static void find_affine(const recogniser *r, norm *l) {
    l->times = reader(r, l->divide->outputs[0], "Mul", &l->scale);
    if (l->times && !is_row(r, l->scale))
        l->times = NULL;
    l->shift = l->times ? reader(r, l->times->outputs[0], "Add", &l->bias) : NULL;
    if (l->shift && !is_row(r, l->bias))
        l->shift = NULL;
}

bool qn_onnx_replace(recogniser *r, qn_onnx_node *last, const char *type, const char *const *inputs,
                     int n_inputs, const qn_onnx_attribute *attributes, int n_attributes) {
    const char **copy = qn_arena_allocate(r->arena, (size_t)n_inputs, sizeof *copy);
    qn_onnx_attribute *kept =
        qn_arena_allocate(r->arena, (size_t)n_attributes + 1, sizeof *attributes);
    if (!copy || !kept)
        return false;
    memcpy(copy, inputs, (size_t)n_inputs * sizeof *copy);
    if (n_attributes > 0)
        memcpy(kept, attributes, (size_t)n_attributes * sizeof *kept);
    last->type = type;
    last->inputs = copy;
    last->n_inputs = n_inputs;
    last->attributes = kept;
    last->n_attributes = n_attributes;
    return true;
}

static bool join_norm(recogniser *r, qn_onnx_node *divide) {
    norm l = {.divide = divide};
    if (divide->n_inputs != 2 || !find_moments(r, &l))
        return true;
    find_affine(r, &l);
    qn_onnx_node *last = l.shift ? l.shift : l.times ? l.times : divide;
    const char *inputs[] = {l.x, l.times ? l.scale : "", l.shift ? l.bias : ""};
    const qn_onnx_attribute epsilon = {
        .name = "epsilon", .kind = QN_ONNX_ATTRIBUTE_FLOAT, .number = (float)l.epsilon};
    qn_onnx_node *const gone[] = {l.mean, l.less, l.square, l.variance, l.plus,
                                  l.root, divide, l.times,  l.shift};
    for (int i = 0; i < 9; i++)
        qn_onnx_remove(gone[i]);
    return qn_onnx_replace(r, last, "LayerNormalization", inputs, 3, &epsilon, 1);
}

/* ---- GELU ---- */

/* x times (1 + erf), times a half, in any order. */
static bool join_gelu(recogniser *r, qn_onnx_node *erf) {
    const char *other, *x;
    qn_onnx_node *less = qn_onnx_maker(r, erf->inputs[0], "Div", 2);
    const double by = less ? qn_onnx_number_named(r, less->inputs[1]) : NAN;
    qn_onnx_node *plus = reader(r, erf->outputs[0], "Add", &other);
    if (!less || !is_near(by, 1.4142135623730951) ||
        qn_onnx_count_reads(r, less->outputs[0]) != 1 || !plus ||
        !is_near(qn_onnx_number_named(r, other), 1))
        return true;
    x = less->inputs[0];
    qn_onnx_node *times = reader(r, plus->outputs[0], "Mul", &other), *half = NULL, *last = times;
    if (times && strcmp(other, x) == 0) {
        last = half = reader(r, times->outputs[0], "Mul", &other);
        if (!half || !is_near(qn_onnx_number_named(r, other), 0.5))
            return true;
    } else {
        half = times ? qn_onnx_maker(r, other, "Mul", 2) : NULL;
        if (!half || qn_onnx_count_reads(r, other) != 1 || strcmp(half->inputs[0], x) != 0 ||
            !is_near(qn_onnx_number_named(r, half->inputs[1]), 0.5))
            return true;
    }
    qn_onnx_node *const gone[] = {less, erf, plus, times, half};
    for (int i = 0; i < 5; i++)
        qn_onnx_remove(gone[i]);
    return qn_onnx_replace(r, last, "Gelu", &x, 1, NULL, 0);
}

/* ---- all of it ---- */

static int without_removed(qn_onnx_node *nodes, int n_nodes) {
    int n = 0;
    for (int i = 0; i < n_nodes; i++) {
        if (*nodes[i].type)
            nodes[n++] = nodes[i];
    }
    return n;
}

qn_status qn_onnx_recognise(const qn_onnx_model *model, qn_arena *arena,
                            const qn_onnx_model **simpler) {
    qn_onnx_model *m = qn_arena_allocate(arena, 1, sizeof *m);
    qn_onnx_node *nodes = qn_arena_allocate(arena, (size_t)model->n_nodes + 1, sizeof *nodes);
    if (!m || !nodes)
        return QN_ERROR_MEMORY;
    if (model->n_nodes > 0)
        memcpy(nodes, model->nodes, (size_t)model->n_nodes * sizeof *nodes);
    *m = *model;
    m->nodes = nodes;
    recogniser r = {.model = m, .nodes = nodes, .arena = arena};
    for (int n = 0; n < m->n_nodes; n++) {
        bool is_well = true;
        if (strcmp(nodes[n].type, "Div") == 0)
            is_well = join_norm(&r, &nodes[n]);
        else if (strcmp(nodes[n].type, "Erf") == 0 && nodes[n].n_inputs == 1)
            is_well = join_gelu(&r, &nodes[n]);
        else if (strcmp(nodes[n].type, "MatMul") == 0 && nodes[n].n_inputs == 2)
            is_well = qn_onnx_join_attention(&r, &nodes[n]);
        else if (strcmp(nodes[n].type, "LSTM") == 0 && nodes[n].n_inputs > 3)
            is_well = qn_onnx_join_lstm(&r, &nodes[n]);
        if (!is_well)
            return QN_ERROR_MEMORY;
    }
    m->n_nodes = without_removed(nodes, m->n_nodes);
    *simpler = m;
    return QN_OK;
}
