/* See tune.h. */
#include "passes/tune.h"

#include "base/patterns.h"
#include "base/status.h"
#include "base/text.h"
#include "ops/ops.h"
#include "passes/copy.h"
#include "passes/head.h"
#include "passes/layers.h"

#include <stdio.h>
#include <string.h>

bool qn_tuning_is_used(const qn_tuning *t) {
    return t->freeze || t->train_only || t->head || t->lora_rank > 0;
}

const qn_value_info *qn_parameter_of(const qn_graph *graph, qn_value value) {
    const qn_value_info *info = qn_graph_value(graph, value);
    while (info && info->overwrites >= 0)
        info = graph->values[info->overwrites];
    return info && info->producer < 0 && info->kind == QN_KIND_PARAMETER ? info : NULL;
}

/* ---- patterns that fit nothing ---- */

static bool is_parameter(const qn_value_info *info) {
    return info->producer < 0 && info->kind == QN_KIND_PARAMETER;
}

/* layers null: by the parameters' own names alone. */
static bool matches_parameter(const qn_graph *graph, const qn_layers *layers, qn_pattern pattern) {
    for (int v = 0; v < graph->n_values; v++) {
        if (!is_parameter(graph->values[v]))
            continue;
        if (layers ? qn_layers_match(layers, pattern, v)
                   : qn_pattern_matches(pattern, graph->values[v]->name))
            return true;
    }
    return false;
}

/* PyTorch's exporter names weights "onnx::Conv_28" that it has folded a batch norm into. */
static bool is_lost_name(const char *name) {
    return strstr(name, "::") != NULL || strspn(name, "0123456789") == strlen(name);
}

static qn_status fail_lost(const char *what, const char *typed, const qn_layers *layers,
                           const char *name) {
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s \"%s\" fits no parameter and no layer: the export has lost the names (one "
                   "is %s). Give layers by their place, '#1-%d' of %d, or export with names kept: "
                   "torch.onnx.export(..., do_constant_folding=False, "
                   "training=torch.onnx.TrainingMode.TRAINING)",
                   what, typed, name, layers->n > 1 ? layers->n - 1 : 1, layers->n);
}

/* Names of layers with an adapter end so. */
static bool matches_adapted(const qn_graph *graph, qn_pattern pattern) {
    char list[512];
    snprintf(list, sizeof list, "%.*s", (int)pattern.bytes, pattern.text);
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        const qn_value_info *weight =
            qn_can_adapt(graph, node) ? qn_parameter_of(graph, node->inputs[1]) : NULL;
        if (weight && qn_layer_matches(list, node->name, weight->name))
            return true;
    }
    return false;
}

/* Fails with the parameter's name that is nearest, or with the first ones. */
static qn_status fail_unmatched(qn_graph *graph, const qn_layers *layers, qn_pattern pattern,
                                const char *what) {
    const char **names =
        qn_arena_allocate(&graph->arena, (size_t)graph->n_values + 1, sizeof *names);
    char typed[512];
    int n = 0;
    if (!names)
        return QN_ERROR_MEMORY;
    for (int v = 0; v < graph->n_values; v++) {
        if (is_parameter(graph->values[v]))
            names[n++] = graph->values[v]->name;
    }
    snprintf(typed, sizeof typed, "%.*s", (int)pattern.bytes, pattern.text);
    for (int i = 0; i < n && layers; i++) {
        if (is_lost_name(names[i]))
            return fail_lost(what, typed, layers, names[i]);
    }
    const char *nearest = qn_text_nearest(typed, names, n);
    if (nearest || n < 3)
        return qn_fail(QN_ERROR_ARGUMENT, "%s \"%s\" fits no parameter; did you mean %s?", what,
                       typed,
                       nearest ? nearest
                       : n > 0 ? names[0]
                               : "another model");
    return qn_fail(QN_ERROR_ARGUMENT, "%s \"%s\" fits no parameter; they are called %s, %s, ... %s",
                   what, typed, names[0], names[1], names[n - 1]);
}

static qn_status check_list(qn_graph *graph, const qn_layers *layers, const char *list,
                            const char *what) {
    qn_pattern pattern;
    while (qn_pattern_next(&list, &pattern)) {
        const char *equals = memchr(pattern.text, '=', pattern.bytes);
        pattern.bytes = equals ? (size_t)(equals - pattern.text) : pattern.bytes;
        if (!qn_pattern_is(pattern, "bias") && !qn_pattern_is(pattern, "norm") &&
            !qn_pattern_is(pattern, "head") && !matches_parameter(graph, layers, pattern))
            return fail_unmatched(graph, layers, pattern, what);
    }
    return QN_OK;
}

static qn_status check_head(const qn_graph *graph, const char *head) {
    bool is_found = !head;
    for (int v = 0; v < graph->n_values; v++)
        is_found |= graph->values[v]->is_head;
    if (is_found)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "head: no layer %s that the loss depends on has weights; quern models "
                   "MODEL lists them",
                   head);
}

static qn_status check_lists(qn_graph *graph, const qn_tuning *tuning) {
    qn_layers layers;
    if (!tuning->freeze && !tuning->train_only && !tuning->rates)
        return QN_OK;
    QN_TRY(qn_layers_find(graph, &layers));
    QN_TRY(check_list(graph, &layers, tuning->freeze, "freeze"));
    QN_TRY(check_list(graph, &layers, tuning->train_only, "train-only"));
    return check_list(graph, NULL, tuning->rates, "lr-for");
}

qn_status qn_tune_check(qn_graph *graph, const qn_tuning *tuning) {
    const char *layers = tuning->lora_rank > 0 ? tuning->lora_layers : NULL;
    qn_pattern pattern;
    QN_TRY(check_head(graph, tuning->head));
    QN_TRY(check_lists(graph, tuning));
    while (qn_pattern_next(&layers, &pattern)) {
        if (!matches_adapted(graph, pattern))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "lora: \"%.*s\" fits no linear layer or 1x1 convolution; quern models "
                           "MODEL lists all",
                           (int)pattern.bytes, pattern.text);
    }
    return QN_OK;
}

/* ---- what is trained ---- */

enum { IS_NORM = 1, IS_SCALE = 2, IS_HEAD = 4 };

typedef struct selection {
    qn_graph *graph;
    const qn_tuning *tuning;
    qn_layers layers; /* where patterns are to be matched */
    uint8_t *roles;   /* (values): of parameters */
    bool *leads;      /* (values): to the loss */
    bool *behind;     /* (values): and through no further weights */
} selection;

static void add_role(selection *s, qn_value value, int role) {
    while (value.id >= 0 && s->graph->values[value.id]->overwrites >= 0)
        value.id = s->graph->values[value.id]->overwrites;
    if (value.id >= 0)
        s->roles[value.id] |= (uint8_t)role;
}

static void find_leads(selection *s, qn_value loss) {
    if (loss.id >= 0)
        s->leads[loss.id] = s->behind[loss.id] = true;
    for (int n = s->graph->n_nodes - 1; n >= 0; n--) {
        const qn_node *node = s->graph->nodes[n];
        bool leads = false;
        for (int i = 0; i < node->n_outputs; i++)
            leads |= s->leads[node->outputs[i].id];
        for (int i = 0; leads && i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                s->leads[node->inputs[i].id] = true;
        }
    }
}

/* The weights of a product, through views of them; no value: it has none. */
static qn_value weight_of(const qn_graph *graph, const qn_node *node) {
    for (int i = node->op->is_product ? node->n_inputs - 1 : -1; i >= 0; i--) {
        const qn_value v =
            node->inputs[i].id < 0 ? QN_NO_VALUE : qn_graph_unview(graph, node->inputs[i]);
        const qn_value_info *info = qn_parameter_of(graph, v);
        if (info && info->tensor.shape.rank > 1)
            return v;
    }
    return QN_NO_VALUE;
}

/* Marks what leads to the loss through no further weights: behind a head. */
static void find_behind(selection *s) {
    for (int n = s->graph->n_nodes - 1; n >= 0; n--) {
        const qn_node *node = s->graph->nodes[n];
        bool is_behind = false;
        for (int i = 0; i < node->n_outputs; i++)
            is_behind |= s->behind[node->outputs[i].id];
        if (!is_behind || weight_of(s->graph, node).id >= 0)
            continue;
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                s->behind[node->inputs[i].id] = true;
        }
    }
}

static bool is_head(const selection *s, const qn_node *node) {
    const qn_value weight = weight_of(s->graph, node);
    if (weight.id < 0 || !s->leads[node->outputs[0].id])
        return false;
    return !s->tuning->head ||
           qn_layer_matches(s->tuning->head, node->name, qn_parameter_of(s->graph, weight)->name);
}

static const qn_node *find_head(const selection *s) {
    for (int n = s->graph->n_nodes - 1; n >= 0; n--) {
        if (is_head(s, s->graph->nodes[n]))
            return s->graph->nodes[n];
    }
    return NULL;
}

/* The head, and those beside it: layers as wide, whose outputs come together with its without
 * further weights, as those of networks that average two classifiers. */
static int find_heads(selection *s, const qn_node *heads[QN_MOST_HEADS]) {
    const qn_node *head = find_head(s);
    int n_heads = 0;
    if (!head)
        return 0;
    find_behind(s);
    heads[n_heads++] = head;
    const qn_shape made = qn_graph_shape(s->graph, head->outputs[0]);
    for (int n = s->graph->n_nodes - 1; n >= 0 && n_heads < QN_MOST_HEADS; n--) {
        const qn_node *node = s->graph->nodes[n];
        if (node != head && is_head(s, node) && s->behind[node->outputs[0].id] &&
            s->behind[head->outputs[0].id] && node->op == head->op &&
            qn_shape_equal(qn_graph_shape(s->graph, node->outputs[0]), made))
            heads[n_heads++] = node;
    }
    return n_heads;
}

int qn_find_heads(qn_graph *graph, qn_value value, const char *patterns,
                  const qn_node *heads[QN_MOST_HEADS]) {
    const qn_tuning tuning = {.head = patterns};
    selection s = {.graph = graph, .tuning = &tuning};
    s.leads = qn_arena_allocate(&graph->arena, (size_t)graph->n_values + 1, sizeof *s.leads);
    s.behind = qn_arena_allocate(&graph->arena, (size_t)graph->n_values + 1, sizeof *s.behind);
    if (!s.leads || !s.behind) {
        qn_graph_fail(graph, QN_ERROR_MEMORY, "head: %s", qn_error_message());
        return 0;
    }
    find_leads(&s, value);
    return find_heads(&s, heads);
}

const qn_node *qn_find_head(qn_graph *graph, qn_value value, const char *patterns) {
    const qn_node *heads[QN_MOST_HEADS];
    return qn_find_heads(graph, value, patterns, heads) > 0 ? heads[0] : NULL;
}

static bool is_sum(const qn_node *node) {
    return node->op->is_sum && node->op->is_sum(node->attributes);
}

qn_value qn_find_head_bias(const qn_graph *graph, const qn_node *head) {
    const qn_shape made = qn_graph_shape(graph, head->outputs[0]);
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        for (int i = 0; i < 2 && is_sum(node); i++) {
            const qn_value x = qn_graph_unview(graph, node->inputs[i]);
            const qn_value bias = qn_graph_unview(graph, node->inputs[!i]);
            const qn_value_info *info = qn_parameter_of(graph, bias);
            if (x.id == head->outputs[0].id && info && made.rank > 0 &&
                qn_shape_count(info->tensor.shape) == made.dims[made.rank - 1])
                return bias;
        }
    }
    return QN_NO_VALUE;
}

/* The weights and bias of a head. */
static void add_head(selection *s, const qn_node *head) {
    add_role(s, qn_find_head_bias(s->graph, head), IS_HEAD);
    for (int i = 0; i < head->n_inputs; i++)
        add_role(s,
                 head->inputs[i].id < 0 ? head->inputs[i]
                                        : qn_graph_unview(s->graph, head->inputs[i]),
                 IS_HEAD);
}

static void find_roles(selection *s) {
    const qn_node *heads[QN_MOST_HEADS];
    const int n_heads = find_heads(s, heads);
    for (int i = 0; i < n_heads; i++)
        add_head(s, heads[i]);
    for (int n = 0; n < s->graph->n_nodes; n++) {
        const qn_node *node = s->graph->nodes[n];
        if (node->op->is_norm) {
            add_role(s, node->inputs[1], IS_NORM | IS_SCALE);
            add_role(s, node->inputs[2], IS_NORM);
        }
    }
}

static bool matches_selection(const selection *s, qn_pattern pattern, int v) {
    const qn_value_info *info = s->graph->values[v];
    if (qn_pattern_is(pattern, "bias"))
        return info->tensor.shape.rank <= 1 && !(s->roles[v] & IS_SCALE);
    if (qn_pattern_is(pattern, "norm"))
        return s->roles[v] & IS_NORM;
    if (qn_pattern_is(pattern, "head"))
        return s->roles[v] & IS_HEAD;
    return qn_layers_match(&s->layers, pattern, v);
}

static bool is_frozen(const selection *s, int v) {
    const char *list = s->tuning->freeze;
    qn_pattern pattern;
    while (qn_pattern_next(&list, &pattern)) {
        if (qn_layers_match(&s->layers, pattern, v))
            return true;
    }
    return false;
}

static bool is_selected(const selection *s, int v) {
    const qn_tuning *t = s->tuning;
    const char *list = t->train_only;
    bool is_trained = (!list && t->lora_rank == 0) || (t->head && s->roles[v] & IS_HEAD);
    qn_pattern pattern;
    while (!is_trained && qn_pattern_next(&list, &pattern))
        is_trained = matches_selection(s, pattern, v);
    return is_trained && !is_frozen(s, v);
}

qn_status qn_tune_select(qn_graph *graph, qn_value loss, const qn_tuning *tuning) {
    selection s = {.graph = graph, .tuning = tuning};
    const size_t n_values = (size_t)graph->n_values + 1;
    int n_before = 0, n_trained = 0;
    s.roles = qn_arena_allocate(&graph->arena, n_values, sizeof *s.roles);
    s.leads = qn_arena_allocate(&graph->arena, n_values, sizeof *s.leads);
    s.behind = qn_arena_allocate(&graph->arena, n_values, sizeof *s.behind);
    if (!s.roles || !s.leads || !s.behind)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_layers_find(graph, &s.layers));
    find_leads(&s, loss);
    find_roles(&s);
    for (int v = 0; v < graph->n_values; v++) {
        qn_value_info *info = graph->values[v];
        if (info->producer >= 0 || info->kind != QN_KIND_PARAMETER || !info->trainable)
            continue;
        n_before++;
        info->trainable = is_selected(&s, v);
        n_trained += info->trainable;
        info->is_head = tuning->head && (s.roles[v] & IS_HEAD);
    }
    if (n_before == 0 || n_trained > 0 || tuning->lora_rank > 0)
        return QN_OK;
    QN_TRY(check_lists(graph, tuning));
    return qn_fail(QN_ERROR_ARGUMENT, "all %d parameters are frozen; leave some to be trained",
                   n_before);
}

/* ---- the graph ---- */

typedef struct rewriting {
    const qn_graph *from;
    qn_graph *to;
    const qn_tuning *tuning;
    int first_node;
    qn_value *values; /* (from's values): the same in to */
} rewriting;

bool qn_layer_matches(const char *patterns, const char *node_name, const char *weight_name) {
    char layer[1024];
    const size_t n = strlen(weight_name);
    const bool has_suffix = n > 7 && strcmp(weight_name + n - 7, ".weight") == 0;
    snprintf(layer, sizeof layer, "%.*s", (int)(has_suffix ? n - 7 : n), weight_name);
    return qn_patterns_match(patterns, node_name) || qn_patterns_match(patterns, weight_name) ||
           qn_patterns_match(patterns, layer);
}

static bool is_frozen_norm(const rewriting *r, const qn_node *node) {
    if (!r->from->training || !qn_op_twin(node->op, QN_TWIN_GIVEN_STATISTICS))
        return false;
    const qn_value_info *scale = qn_parameter_of(r->from, node->inputs[1]);
    return scale && !scale->trainable;
}

/* The node that moves a batch norm's running statistics, or null. */
static const qn_node *find_running(const qn_graph *graph, int norm) {
    for (int n = norm + 1; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        if (node->op->moves_statistics && node->inputs[0].id == graph->nodes[norm]->outputs[1].id)
            return node;
    }
    return NULL;
}

static void copy_result(rewriting *r, qn_value old, qn_value made) {
    r->values[old.id] = made;
    if (made.id < 0)
        return;
    r->to->values[made.id]->kind = r->from->values[old.id]->kind;
    r->to->values[made.id]->is_result = r->from->values[old.id]->is_result;
}

/* In the norm's place, its inference form; what would move the statistics passes them on. */
static void add_frozen_norm(rewriting *r, const qn_node *node, const qn_node *running) {
    const qn_value inputs[] = {r->values[node->inputs[0].id], r->values[node->inputs[1].id],
                               r->values[node->inputs[2].id], r->values[running->inputs[2].id],
                               r->values[running->inputs[3].id]};
    copy_result(r, node->outputs[0],
                qn_graph_add1(r->to, qn_op_twin(node->op, QN_TWIN_GIVEN_STATISTICS), node->name,
                              inputs, 5, node->attributes));
    for (int i = 0; i < 2; i++)
        r->values[running->outputs[i].id] = inputs[3 + i];
}

static void copy_as_it_is(rewriting *r, const qn_node *node) {
    const qn_node *copy =
        qn_copy_node(r->to, r->from, node, node->name, node->attributes, r->values);
    for (int i = 0; copy && i < node->n_outputs; i++)
        copy_result(r, node->outputs[i], copy->outputs[i]);
}

static bool gets_adapter(const rewriting *r, const qn_node *node) {
    return r->tuning->lora_rank > 0 && qn_can_adapt(r->from, node) &&
           qn_layer_matches(r->tuning->lora_layers, node->name,
                            qn_parameter_of(r->from, node->inputs[1])->name);
}

static void copy_node(rewriting *r, int n) {
    const qn_node *node = r->from->nodes[n];
    const qn_node *running =
        n < r->first_node || !is_frozen_norm(r, node) ? NULL : find_running(r->from, n);
    if (running) {
        add_frozen_norm(r, node, running);
        return;
    }
    if (r->values[node->outputs[0].id].id >= 0) /* it moved the statistics of a frozen norm */
        return;
    copy_as_it_is(r, node);
    if (n < r->first_node || !gets_adapter(r, node) || r->to->status != QN_OK)
        return;
    const qn_value y = r->values[node->outputs[0].id];
    r->to->values[y.id]->is_result = false;
    copy_result(r, node->outputs[0],
                qn_add_adapter(r->to, node, qn_parameter_of(r->from, node->inputs[1]),
                               r->values[node->inputs[0].id], y, r->tuning));
}

static qn_status rewrite(rewriting *r) {
    for (int v = 0; v < r->from->n_values; v++)
        r->values[v] = QN_NO_VALUE;
    for (int v = 0; v < r->from->n_values && r->to->status == QN_OK; v++) {
        const qn_value_info *info = r->from->values[v];
        if (info->producer < 0)
            r->values[v] = qn_copy_source(r->to, info);
        else if (info->output == 0)
            copy_node(r, info->producer);
    }
    qn_copy_results(r->to, r->from, r->values);
    return qn_graph_finish(r->to);
}

qn_status qn_tune(const qn_graph *graph, int first_node, const qn_tuning *tuning, qn_graph **tuned,
                  const qn_value **values) {
    rewriting r = {.from = graph, .tuning = tuning, .first_node = first_node};
    QN_TRY(qn_copy_begin(graph, &r.to));
    r.values = qn_arena_allocate(&r.to->arena, (size_t)graph->n_values + 1, sizeof *r.values);
    qn_status status = r.values ? rewrite(&r) : QN_ERROR_MEMORY;
    if (status != QN_OK) {
        qn_graph_destroy(r.to);
        return status;
    }
    *tuned = r.to;
    *values = r.values;
    return QN_OK;
}
