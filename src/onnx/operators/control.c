/* Graphs inside of nodes. If: the branch that a condition known at import takes. Loop: a body run
 * as often as is known at import, each time built anew. Scan: a body run for each place along an
 * axis. What they make is nodes of the one graph. */
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/builder.h"
#include "onnx/fold.h"

#include <string.h>

enum { MOST_RUNS = 1024 };

/* One number of an input that is known; false: it is not. */
static bool read_number(qn_onnx_call *call, const qn_onnx_item *item, double *number) {
    qn_onnx_item copy = *item, *const inputs[] = {&copy};
    qn_onnx_call one = *call;
    one.inputs = inputs;
    one.n_inputs = 1;
    const qn_onnx_constant *c = qn_onnx_is_known(&one, 0) ? qn_onnx_constant_of(&one, 0) : NULL;
    if (!c || c->n != 1)
        return false;
    *number = c->reals ? c->reals[0] : (double)c->whole[0];
    return true;
}

static qn_status find_graph(const qn_onnx_call *call, const char *name,
                            const qn_onnx_model **graph) {
    const qn_onnx_attribute *a = qn_onnx_attribute_of(call, name);
    *graph = a && a->kind == QN_ONNX_ATTRIBUTE_GRAPH ? a->graph : NULL;
    return *graph ? QN_OK : qn_fail(QN_ERROR_FORMAT, "it has no %s", name);
}

/* An output of a graph that was run. */
static qn_status find_output(qn_onnx_call *call, const qn_onnx_model *graph, int i,
                             qn_onnx_item **item) {
    *item = i < graph->n_outputs ? qn_onnx_find_item(call->builder, graph->outputs[i].name) : NULL;
    return *item ? QN_OK : qn_fail(QN_ERROR_FORMAT, "its graph gives no output %d", i);
}

static qn_status give_item(qn_onnx_call *call, int output, const qn_onnx_item *item) {
    if (output >= call->node->n_outputs || !*call->node->outputs[output])
        return QN_OK;
    return qn_onnx_bind(call->builder, call->node->outputs[output], item);
}

static qn_status build_if(qn_onnx_call *call) {
    const qn_onnx_model *graph;
    qn_onnx_item *item;
    double condition;
    if (!read_number(call, call->inputs[0], &condition))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "its condition is known only when it runs: export with shapes that decide "
                       "it, or write the model without a branch");
    QN_TRY(find_graph(call, condition != 0 ? "then_branch" : "else_branch", &graph));
    QN_TRY(qn_onnx_builder_run_inner(call->builder, graph));
    for (int i = 0; i < call->node->n_outputs; i++) {
        QN_TRY(find_output(call, graph, i, &item));
        QN_TRY(give_item(call, i, item));
    }
    return QN_OK;
}

/* A loop: inputs are the number of runs, the condition, and what is carried; its body takes the
 * run's number, the condition and what is carried, and gives the condition, what is carried, and
 * what is put one run after the other. */
typedef struct loop {
    qn_onnx_call *call;
    const qn_onnx_model *body;
    int n_carried, n_listed;
    qn_onnx_item *carried; /* (n_carried) */
    qn_value *listed;      /* (n_listed, MOST_RUNS), of every run */
    qn_onnx_type *types;   /* (n_listed) */
    int64_t most;
    int n_runs;
} loop;

static qn_status begin_loop(loop *l) {
    const qn_onnx_call *call = l->call;
    double number = MOST_RUNS;
    QN_TRY(find_graph(call, "body", &l->body));
    if (call->n_inputs > 0 && call->inputs[0] && !read_number(l->call, call->inputs[0], &number))
        return qn_fail(QN_ERROR_UNSUPPORTED, "how often it runs is known only when it runs");
    l->most = number < 0 ? 0 : number > MOST_RUNS ? MOST_RUNS + 1 : (int64_t)number;
    l->n_carried = l->body->n_inputs - 2;
    l->n_listed = l->body->n_outputs - 1 - l->n_carried;
    if (l->n_carried < 0 || l->n_listed < 0 || call->n_inputs > 2 + l->n_carried)
        return qn_fail(QN_ERROR_FORMAT, "its body has other inputs or outputs than it");
    l->carried = qn_onnx_scratch(l->call, ((size_t)l->n_carried + 1) * sizeof *l->carried);
    l->listed = qn_onnx_scratch(l->call, ((size_t)l->n_listed * MOST_RUNS + 1) * sizeof *l->listed);
    l->types = qn_onnx_scratch(l->call, ((size_t)l->n_listed + 1) * sizeof *l->types);
    if (!l->carried || !l->listed || !l->types)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < l->n_carried; i++) {
        if (2 + i >= call->n_inputs || !call->inputs[2 + i])
            return qn_fail(QN_ERROR_FORMAT, "its input %d is left out, but needed", 2 + i);
        l->carried[i] = *call->inputs[2 + i];
    }
    return QN_OK;
}

/* One whole number as an item. */
static qn_onnx_item *number_item(qn_onnx_call *call, qn_onnx_type type, int64_t number) {
    qn_onnx_item *item = qn_onnx_scratch(call, sizeof *item);
    qn_onnx_constant *c = qn_onnx_scratch(call, sizeof *c);
    int64_t *whole = qn_onnx_scratch(call, sizeof *whole);
    if (!item || !c || !whole)
        return NULL;
    *whole = number;
    *c = (qn_onnx_constant){.type = type, .n = 1, .whole = whole};
    *item = (qn_onnx_item){.name = call->name,
                           .type = type,
                           .value = QN_NO_VALUE,
                           .other = QN_NO_VALUE,
                           .row = QN_NO_VALUE,
                           .constant = c};
    return item;
}

/* An item as reals in the file's order. */
static qn_value plain_item(qn_onnx_call *call, qn_onnx_item *item) {
    qn_onnx_item *const inputs[] = {item};
    qn_onnx_call one = *call;
    one.inputs = inputs;
    one.n_inputs = 1;
    return qn_onnx_as_reals(&one, qn_onnx_plain(&one, 0));
}

static qn_status run_body(loop *l, bool *goes_on) {
    qn_onnx_builder *b = l->call->builder;
    const qn_onnx_item *number = number_item(l->call, QN_ONNX_INT64, l->n_runs);
    const qn_onnx_item *is_on = number_item(l->call, QN_ONNX_BOOL, 1);
    qn_onnx_item *item;
    double condition;
    if (!number || !is_on)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_onnx_bind(b, l->body->inputs[0].name, number));
    QN_TRY(qn_onnx_bind(b, l->body->inputs[1].name, is_on));
    for (int i = 0; i < l->n_carried; i++)
        QN_TRY(qn_onnx_bind(b, l->body->inputs[2 + i].name, &l->carried[i]));
    QN_TRY(qn_onnx_builder_run_inner(b, l->body));
    QN_TRY(find_output(l->call, l->body, 0, &item));
    if (!read_number(l->call, item, &condition))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its condition is known only when it runs");
    for (int i = 0; i < l->n_carried; i++) {
        QN_TRY(find_output(l->call, l->body, 1 + i, &item));
        l->carried[i] = *item;
    }
    for (int i = 0; i < l->n_listed; i++) {
        QN_TRY(find_output(l->call, l->body, 1 + l->n_carried + i, &item));
        l->types[i] = item->type;
        l->listed[i * MOST_RUNS + l->n_runs] = plain_item(l->call, item);
    }
    l->n_runs++;
    *goes_on = condition != 0;
    return l->call->graph->status;
}

/* What every run listed, with an axis in front. */
static qn_status give_listed(loop *l, int i) {
    qn_onnx_call *call = l->call;
    qn_graph *g = call->graph;
    qn_value *parts = &l->listed[i * MOST_RUNS];
    if (l->n_runs == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it lists what it makes, and runs not once");
    for (int k = 0; k < l->n_runs; k++) {
        const qn_shape from = qn_graph_shape(g, parts[k]);
        qn_shape to = {.rank = from.rank + 1, .dims = {1}};
        if (to.rank > QN_MAX_RANK)
            return qn_fail(QN_ERROR_UNSUPPORTED, "it makes %d axes, where %d are the most here",
                           to.rank, QN_MAX_RANK);
        memcpy(to.dims + 1, from.dims, (size_t)from.rank * sizeof *to.dims);
        parts[k] = qn_reshape(g, qn_onnx_side_name(call, "run"), parts[k], to);
    }
    qn_value all = l->n_runs == 1
                       ? parts[0]
                       : qn_concat(g, qn_onnx_side_name(call, "runs"), parts, l->n_runs, 0);
    if (!qn_onnx_type_is_real(l->types[i]) && l->types[i] != QN_ONNX_BOOL)
        all = qn_op_cast(g, qn_onnx_side_name(call, "whole"), all, QN_I32);
    qn_onnx_give_typed(call, l->n_carried + i, all, false, l->types[i]);
    return g->status;
}

static qn_status build_loop(qn_onnx_call *call) {
    loop l = {.call = call};
    double condition = 1;
    QN_TRY(begin_loop(&l));
    if (call->n_inputs > 1 && call->inputs[1] && !read_number(call, call->inputs[1], &condition))
        return qn_fail(QN_ERROR_UNSUPPORTED, "its condition is known only when it runs");
    bool goes_on = condition != 0;
    while (goes_on && l.n_runs < l.most) {
        if (l.n_runs == MOST_RUNS)
            return qn_fail(QN_ERROR_UNSUPPORTED, "it runs more than %d times", MOST_RUNS);
        QN_TRY(run_body(&l, &goes_on));
    }
    for (int i = 0; i < l.n_carried; i++)
        QN_TRY(give_item(call, i, &l.carried[i]));
    for (int i = 0; i < l.n_listed; i++) {
        if (qn_onnx_is_used(call, l.n_carried + i))
            QN_TRY(give_listed(&l, i));
    }
    return QN_OK;
}

/* ---- Scan ---- */

/* Inputs are states and what is scanned; the body takes states and one place of each, and gives
 * states and what is put side by side. */
typedef struct scan {
    qn_onnx_call *call;
    const qn_onnx_model *body;
    int n_scanned, n_states, n_listed;
    int64_t length;
    qn_onnx_item *states; /* (n_states) */
    qn_value *listed;     /* (n_listed, length) */
    qn_onnx_type *types;  /* (n_listed) */
} scan;

static int64_t setting_at(const qn_onnx_call *call, const char *name, int i) {
    int n;
    const int64_t *list = qn_onnx_ints(call, name, &n);
    return list && i < n ? list[i] : 0;
}

static qn_status begin_scan(scan *s) {
    qn_onnx_call *call = s->call;
    const int64_t n_scanned = qn_onnx_int(call, "num_scan_inputs", 0);
    QN_TRY(find_graph(call, "body", &s->body));
    if (call->opset < 9)
        return qn_fail(QN_ERROR_UNSUPPORTED, "of opset 8; export with opset 9 or later");
    if (n_scanned < 1 || n_scanned > call->n_inputs || s->body->n_inputs != call->n_inputs ||
        s->body->n_outputs < call->n_inputs - n_scanned)
        return qn_fail(QN_ERROR_FORMAT, "its body has other inputs or outputs than it");
    s->n_scanned = (int)n_scanned;
    s->n_states = call->n_inputs - s->n_scanned;
    s->n_listed = s->body->n_outputs - s->n_states;
    for (int i = 0; i < s->n_scanned; i++) {
        const qn_shape shape = qn_onnx_shape(call, s->n_states + i);
        int axis;
        QN_TRY(qn_onnx_axis(setting_at(call, "scan_input_axes", i), shape.rank, &axis));
        if (i > 0 && shape.dims[axis] != s->length)
            return qn_fail(QN_ERROR_FORMAT, "it scans inputs of different lengths");
        s->length = shape.dims[axis];
    }
    if (s->length < 1 || s->length > MOST_RUNS)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it runs %lld times, and 1 to %d are known",
                       (long long)s->length, MOST_RUNS);
    s->states = qn_onnx_scratch(call, ((size_t)s->n_states + 1) * sizeof *s->states);
    s->listed =
        qn_onnx_scratch(call, ((size_t)s->n_listed * (size_t)s->length + 1) * sizeof *s->listed);
    s->types = qn_onnx_scratch(call, ((size_t)s->n_listed + 1) * sizeof *s->types);
    if (!s->states || !s->listed || !s->types)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < s->n_states; i++)
        s->states[i] = *call->inputs[i];
    return QN_OK;
}

/* One place of what is scanned, without its axis. */
static qn_status bind_place(scan *s, int i, int64_t run) {
    qn_onnx_call *call = s->call;
    qn_graph *g = call->graph;
    const int input = s->n_states + i;
    const qn_shape shape = qn_onnx_shape(call, input);
    const bool is_back = setting_at(call, "scan_input_directions", i) != 0;
    qn_shape less = {.rank = 0};
    int axis;
    QN_TRY(qn_onnx_axis(setting_at(call, "scan_input_axes", i), shape.rank, &axis));
    for (int k = 0; k < shape.rank; k++) {
        if (k != axis)
            less.dims[less.rank++] = shape.dims[k];
    }
    const int64_t at = is_back ? s->length - 1 - run : run;
    qn_value x = qn_slice(g, qn_onnx_side_name(call, "place"),
                          qn_onnx_as_reals(call, qn_onnx_plain(call, input)), axis, at, at + 1);
    x = qn_reshape(g, qn_onnx_side_name(call, "scanned"), x, less);
    const qn_onnx_item item = {.name = call->name,
                               .type = qn_onnx_type_at(call, input),
                               .value = x,
                               .other = QN_NO_VALUE,
                               .row = QN_NO_VALUE};
    QN_TRY(g->status);
    return qn_onnx_bind(call->builder, s->body->inputs[input].name, &item);
}

static qn_status run_scan(scan *s, int64_t run) {
    qn_onnx_builder *b = s->call->builder;
    qn_onnx_item *item;
    for (int i = 0; i < s->n_states; i++)
        QN_TRY(qn_onnx_bind(b, s->body->inputs[i].name, &s->states[i]));
    for (int i = 0; i < s->n_scanned; i++)
        QN_TRY(bind_place(s, i, run));
    QN_TRY(qn_onnx_builder_run_inner(b, s->body));
    for (int i = 0; i < s->n_states; i++) {
        QN_TRY(find_output(s->call, s->body, i, &item));
        s->states[i] = *item;
    }
    for (int i = 0; i < s->n_listed; i++) {
        const bool is_back = setting_at(s->call, "scan_output_directions", i) != 0;
        QN_TRY(find_output(s->call, s->body, s->n_states + i, &item));
        s->types[i] = item->type;
        s->listed[i * s->length + (is_back ? s->length - 1 - run : run)] =
            plain_item(s->call, item);
    }
    return s->call->graph->status;
}

/* What all runs listed, side by side along an axis. */
static qn_status give_scanned(scan *s, int i) {
    qn_onnx_call *call = s->call;
    qn_graph *g = call->graph;
    qn_value *parts = &s->listed[i * s->length];
    qn_shape shape = qn_graph_shape(g, parts[0]);
    int axis;
    QN_TRY(qn_onnx_axis(setting_at(call, "scan_output_axes", i), shape.rank + 1, &axis));
    if (shape.rank == QN_MAX_RANK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it makes more than %d axes", QN_MAX_RANK);
    memmove(shape.dims + axis + 1, shape.dims + axis,
            (size_t)(shape.rank++ - axis) * sizeof *shape.dims);
    shape.dims[axis] = 1;
    for (int64_t k = 0; k < s->length; k++)
        parts[k] = qn_reshape(g, qn_onnx_side_name(call, "run"), parts[k], shape);
    qn_value all = s->length == 1
                       ? parts[0]
                       : qn_concat(g, qn_onnx_side_name(call, "runs"), parts, (int)s->length, axis);
    if (!qn_onnx_type_is_real(s->types[i]) && s->types[i] != QN_ONNX_BOOL)
        all = qn_op_cast(g, qn_onnx_side_name(call, "whole"), all, QN_I32);
    qn_onnx_give_typed(call, s->n_states + i, all, false, s->types[i]);
    return g->status;
}

static qn_status build_scan(qn_onnx_call *call) {
    scan s = {.call = call};
    QN_TRY(begin_scan(&s));
    for (int64_t run = 0; run < s.length; run++)
        QN_TRY(run_scan(&s, run));
    for (int i = 0; i < s.n_states; i++)
        QN_TRY(give_item(call, i, &s.states[i]));
    for (int i = 0; i < s.n_listed; i++) {
        if (qn_onnx_is_used(call, s.n_states + i))
            QN_TRY(give_scanned(&s, i));
    }
    return QN_OK;
}

const qn_onnx_translator qn_onnx_control_translators[] = {
    {"If", 1, 1, build_if},
    {"Loop", 0, -1, build_loop},
    {"Scan", 1, -1, build_scan},
    {NULL, 0, 0, NULL},
};
