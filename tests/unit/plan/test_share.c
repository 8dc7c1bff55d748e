/* Values that lie in others: graphs of concats and slices run by their plan, against the same graph
 * run with memory of its own for every value, where each concat and slice copies. Losses, gradients
 * and statistics must have equal bits, in every kernel table and for teams of one to three; and
 * what should lie in place does. Then each placement and storage is broken, one at a time, and the
 * check must refuse the plan. */
#include "a_machine.h"
#include "check.h"
#include "graph_run.h"
#include "os/heap.h"
#include "plan/plan.h"
#include "quern/quern.h"
#include "run/executor.h"

/* ---- graphs ---- */

static qn_value conv(qn_graph *g, const char *name, qn_value x, int filters, int kernel,
                     bool bias) {
    return qn_conv2d_layer(g, name, x, filters, qn_window_square(kernel, 1, kernel / 2), 1, bias);
}

static qn_value conv_norm(qn_graph *g, const char *name, qn_value x, int filters, int kernel) {
    char norm[64];
    snprintf(norm, sizeof norm, "%s.norm", name);
    return qn_relu(g, NULL,
                   qn_batch_norm_layer(g, norm, conv(g, name, x, filters, kernel, false), 1e-5));
}

static qn_value join(qn_graph *g, const char *name, qn_value a, qn_value b) {
    return qn_concat(g, name, (qn_value[]){a, b}, 2, -1);
}

/* Two dense blocks of three layers: all that a block appends lies in one storage. */
static qn_value build_dense(qn_graph *g, qn_value x) {
    x = conv(g, "stem", x, 5, 3, false);
    for (int i = 0; i < 6; i++) {
        char name[32];
        snprintf(name, sizeof name, "norm%d", i);
        qn_value y = qn_relu(g, NULL, qn_batch_norm_layer(g, name, x, 1e-5));
        snprintf(name, sizeof name, "conv%d", i);
        y = conv(g, name, y, 3, 3, false);
        snprintf(name, sizeof name, "join%d", i);
        x = join(g, name, x, y);
        if (i == 2)
            x = qn_average_pool(g, "pool", conv(g, "transition", x, 6, 1, false),
                                qn_window_square(2, 2, 0));
    }
    return qn_relu(g, NULL, qn_batch_norm_layer(g, "last", x, 1e-5));
}

/* Branches with pools, a concat within a concat, and a depthwise convolution. */
static qn_value build_inception(qn_graph *g, qn_value x) {
    x = conv_norm(g, "stem", x, 8, 3);
    qn_value inner = join(g, "inner", conv_norm(g, "b1", x, 3, 1), conv_norm(g, "b2", x, 4, 3));
    qn_value depthwise = qn_conv2d_layer(g, "depthwise", x, 8, qn_window_square(3, 1, 1), 8, false);
    const qn_value parts[] = {conv_norm(g, "a", x, 5, 1), inner,
                              qn_max_pool(g, NULL, x, qn_window_square(3, 1, 1)),
                              qn_average_pool(g, NULL, x, qn_window_square(3, 1, 1)), depthwise};
    x = qn_concat(g, "outer", parts, 5, -1);
    return conv_norm(g, "after", x, 4, 1);
}

/* SqueezeNet's module, twice: biases and activations without batch norm. */
static qn_value build_fire(qn_graph *g, qn_value x) {
    for (int i = 0; i < 2; i++) {
        qn_graph_enter(g, "%d", i);
        x = qn_relu(g, NULL, conv(g, "squeeze", x, 4, 1, true));
        qn_value left = qn_relu(g, NULL, conv(g, "left", x, 8, 1, true));
        x = join(g, "join", left, qn_tanh(g, NULL, conv(g, "right", x, 8, 3, true)));
        qn_graph_leave(g);
    }
    return x;
}

/* What must be copied: a part from outside, twice the same, in two concats, read where rows must
 * not lie apart, made where they must not; and another axis. */
static qn_value build_copies(qn_graph *g, qn_value x) {
    qn_value a = conv_norm(g, "a", x, 4, 3), b = conv_norm(g, "b", x, 4, 3);
    qn_value outside = join(g, "outside", x, a);
    qn_value twice = qn_concat(g, "twice", (qn_value[]){b, b, a}, 3, -1);
    qn_value dropped = qn_dropout(g, "drop", conv(g, "c", x, 3, 1, true), 0.25);
    qn_value read = conv(g, "read", x, 3, 1, true), reader = conv(g, "reader", read, 3, 3, true);
    qn_value all = qn_concat(g, "all", (qn_value[]){outside, twice, dropped, read, reader}, 5, -1);
    qn_value other = qn_concat(g, "other", (qn_value[]){all, all}, 2, 1);
    return qn_average_pool(g, NULL, other, qn_window_square(2, 2, 0));
}

/* Slices of a value, of a slice, of a reshaped value, of a result, and of what is given from
 * outside; one is read where rows must not lie apart. */
static qn_value build_slices(qn_graph *g, qn_value x) {
    qn_value wide = conv_norm(g, "wide", x, 12, 3);
    qn_value left = qn_slice(g, "left", wide, -1, 0, 7),
             right = qn_slice(g, "right", wide, -1, 7, 12);
    qn_value sum = qn_relu(g, NULL, qn_add(g, "sum", qn_slice(g, "inner", left, -1, 2, 7), right));
    qn_value norm = qn_batch_norm_layer(g, "norm", qn_slice(g, "third", left, -1, 1, 4), 1e-5);
    const qn_shape shape = qn_graph_shape(g, wide);
    qn_value flat = qn_reshape(g, "flat", wide, QN_SHAPE(-1, shape.dims[2] * shape.dims[3]));
    qn_value slice = qn_tanh(g, NULL, qn_slice(g, "slice", flat, -1, 5, 5 + 3 * shape.dims[2]));
    slice = qn_reshape(g, NULL, slice, QN_SHAPE(shape.dims[0], shape.dims[1], shape.dims[2], 3));
    qn_value given = qn_tanh(g, NULL, qn_slice(g, "given", x, -1, 1, 3));
    qn_value read = conv(g, "read", qn_slice(g, "dense", wide, -1, 3, 6), 2, 3, true);
    qn_value parts[] = {sum, norm, slice, given, read};
    return qn_concat(g, "y", parts, 5, -1);
}

/* ---- running ---- */

/* A graph with a loss; in training with its gradients, which are results. */
typedef struct subject {
    qn_graph *graph;
    qn_plan *plan;
} subject;

static void set_result(qn_graph *graph, qn_value value) {
    if (value.id >= 0)
        qn_graph_value(graph, value)->is_result = true;
}

static void differentiate(qn_graph *graph, qn_value loss) {
    const qn_value *parameters, *gradients;
    int n;
    CHECK_OK(qn_autodiff(graph, loss, NULL, &parameters, &gradients, &n));
    for (int i = 0; i < n; i++)
        set_result(graph, gradients[i]);
}

static subject create(qn_value (*build)(qn_graph *g, qn_value x), bool training,
                      const qn_kernels *kernels, int n_threads) {
    const qn_value *values;
    subject s = {0};
    qn_graph *g;
    CHECK_OK(qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options),
                                                 .real = kernels->real, .training = training},
                             &g));
    qn_value y = build(g, qn_input(g, "x", QN_SHAPE(3, 6, 6, 4)));
    qn_value weights = qn_graph_add_source(g, QN_KIND_INPUT, "weights", qn_graph_tensor(g, y),
                                           (qn_initial){QN_INITIAL_UNIFORM, 1}, false);
    qn_value loss = qn_mean(g, "loss", qn_multiply(g, "weighted", y, weights));
    CHECK_OK(qn_graph_finish(g));
    CHECK_OK(qn_fuse(g, 0, false, &s.graph, &values));
    loss = values[loss.id];
    qn_graph_destroy(g);
    if (training)
        differentiate(s.graph, loss);
    set_result(s.graph, loss);
    CHECK_OK(
        qn_plan_create(qn_allocator_default(), s.graph, A_MACHINE(kernels, n_threads), &s.plan));
    CHECK_OK(qn_plan_check(s.plan, s.graph));
    return s;
}

static void destroy(subject *s) {
    qn_plan_destroy(s->plan);
    qn_graph_destroy(s->graph);
}

static bool is_same(const qn_value_info *info, const void *left, const void *right) {
    const bool same = memcmp(left, right, qn_tensor_bytes(info->tensor)) == 0;
    if (!same)
        printf("%s differs\n", info->name);
    return same;
}

/* Where a node would leave an input, by the addresses of a call; null: nowhere. */
static const char *place_of(const subject *s, const qn_call *call, int input) {
    const qn_columns c = qn_plan_columns(s->graph, call->node, input);
    const size_t bytes = qn_tensor_bytes(call->inputs[input]);
    if (c.inner >= 0) {
        const size_t before =
            (size_t)c.column * qn_dtype_bytes(s->graph->values[c.inner]->tensor.dtype);
        return call->node->op->sliced_column ? (const char *)call->out[0] - before
                                             : (const char *)call->out[0] + before;
    }
    for (int i = 0; i < call->node->n_outputs; i++) {
        if (call->out[i] == call->in[input] && bytes == qn_tensor_bytes(call->outputs[i]))
            return call->out[i];
    }
    return NULL;
}

/* What a plan says is in its place is there, and nothing else is. */
static void check_placed(const subject *s, const qn_executor *executor) {
    for (int32_t step = 0; step < s->plan->n_steps; step++) {
        const qn_call *call = qn_executor_get_call(executor, step);
        for (int i = 0; i < call->node->n_inputs; i++) {
            const bool is_there = call->in[i] && call->in[i] == place_of(s, call, i);
            if (is_there != call->is_placed[i])
                printf("%s: input %d\n", call->node->name, i);
            CHECK(is_there == call->is_placed[i]);
        }
    }
}

/* The plan against memory of its own for every value. */
static void check_run(const subject *s, const qn_kernels *kernels, qn_team *team) {
    graph_run plain = run_create(s->graph), bound = run_create(s->graph);
    void *arena = run_allocate(s->plan->arena_bytes);
    qn_executor *executor;
    CHECK_OK(qn_executor_create(qn_allocator_default(), s->graph, s->plan, A_MACHINE(kernels, 1),
                                team, arena, &executor));
    run_fill(&plain);
    run_fill(&bound);
    for (int v = 0; v < s->graph->n_values; v++) {
        if (s->graph->values[v]->producer < 0)
            qn_executor_bind(executor, (qn_value){v}, bound.memory[v]);
    }
    check_placed(s, executor);
    run_all(&plain, kernels, team);
    CHECK_OK(qn_executor_run(executor, 3, 5, NULL));
    for (int v = 0; v < s->graph->n_values; v++) {
        const qn_value_info *info = s->graph->values[v];
        if (info->is_result)
            CHECK(is_same(info, qn_executor_get(executor, (qn_value){v}), plain.memory[v]));
        else if (info->producer < 0)
            CHECK(is_same(info, bound.memory[v], plain.memory[v]));
    }
    qn_executor_destroy(executor);
    free(arena);
    run_destroy(&plain);
    run_destroy(&bound);
}

/* Parts and slices of a plan that lie in place, and that are copied. */
typedef struct tally {
    int in_place, copied;
} tally;

static void count_node(const subject *s, const qn_node *node, tally *t) {
    for (int i = 0; i < (node->op->sliced_column ? 1 : node->n_inputs); i++) {
        const qn_columns c = qn_plan_columns(s->graph, node, i);
        if (c.inner < 0)
            continue;
        const qn_placement *inner = &s->plan->placements[c.inner];
        const qn_placement *outer = &s->plan->placements[c.outer];
        const size_t before =
            (size_t)c.column * qn_dtype_bytes(s->graph->values[c.inner]->tensor.dtype);
        if (inner->storage == outer->storage && inner->offset == outer->offset + before)
            t->in_place++;
        else
            t->copied++;
    }
}

static tally count(const subject *s) {
    tally t = {0};
    for (int32_t i = 0; i < s->plan->n_steps; i++)
        count_node(s, s->graph->nodes[s->plan->steps[i].node], &t);
    return t;
}

static const struct {
    const char *name;
    qn_value (*build)(qn_graph *g, qn_value x);
    tally evaluation, training;
} graphs[] = {
    {"dense", build_dense, {12, 0}, {24, 0}},  {"inception", build_inception, {7, 0}, {14, 0}},
    {"fire", build_fire, {4, 0}, {8, 0}},      {"copies", build_copies, {6, 4}, {12, 7}},
    {"slices", build_slices, {9, 3}, {11, 5}},
};

static qn_team *teams[4];

static void check_graph(size_t i, bool training, const qn_kernels *kernels) {
    const tally expected = training ? graphs[i].training : graphs[i].evaluation;
    for (int n_threads = 1; n_threads <= 3; n_threads++) {
        subject s = create(graphs[i].build, training, kernels, n_threads);
        const tally t = count(&s);
        check_run(&s, kernels, teams[n_threads]);
        if (t.in_place != expected.in_place || t.copied != expected.copied)
            printf("%s %d: %d in place, %d copied\n", graphs[i].name, training, t.in_place,
                   t.copied);
        CHECK(t.in_place == expected.in_place && t.copied == expected.copied);
        destroy(&s);
    }
}

/* ---- plans broken one way at a time ---- */

static void check_refused(const subject *s, const char *what, int32_t which) {
    const qn_status status = qn_plan_check(s->plan, s->graph);
    if (status != QN_ERROR_ARGUMENT)
        printf("not refused: %s %d (%s)\n", what, which, s->graph->values[which]->name);
    CHECK(status == QN_ERROR_ARGUMENT);
}

/* A value a column further, its rows one element further apart, or dense in another storage. (Dense
 * values may have room for a step further, and a vector may fit where a part is still to come.) */
static void break_placement(const subject *s, int32_t value) {
    qn_placement *placement = &s->plan->placements[value], kept = *placement;
    const qn_tensor tensor = s->graph->values[value]->tensor;
    const int rank = tensor.shape.rank;
    const bool is_dense = rank < 2 || (placement->offset == 0 &&
                                       placement->strides[rank - 2] == tensor.shape.dims[rank - 1]);
    placement->offset += qn_dtype_bytes(tensor.dtype);
    if (!is_dense)
        check_refused(s, "offset of value", value);
    *placement = kept;
    if (rank > 1) {
        placement->strides[rank - 2]++;
        check_refused(s, "strides of value", value);
        *placement = kept;
    }
    for (int32_t i = 0; is_dense && rank > 1 && i < s->plan->n_storages; i++) {
        placement->storage = i;
        if (i != kept.storage && qn_tensor_bytes(tensor) <= s->plan->storages[i].bytes)
            check_refused(s, "storage of value", value);
    }
    *placement = kept;
}

static void break_storage(const subject *s, int32_t storage) {
    qn_storage *at = &s->plan->storages[storage], kept = *at;
    at->last--;
    check_refused(s, "last step of storage", storage);
    *at = kept;
    at->first++;
    if (!at->is_bound)
        check_refused(s, "first step of storage", storage);
    *at = kept;
    at->bytes -= QN_ALIGNMENT;
    if (at->kind != QN_KIND_WORKSPACE)
        check_refused(s, "bytes of storage", storage);
    *at = kept;
}

/* A part or a slice may not become a result, and its writers and readers must know of strides. */
static void break_apart(const subject *s, int32_t value) {
    qn_value_info *info = s->graph->values[value];
    info->is_result = true;
    check_refused(s, "result", value);
    info->is_result = false;
    qn_node *node = s->graph->nodes[info->producer];
    qn_op forgetful = *node->op;
    const qn_op *kept = node->op;
    forgetful.strided_outputs = 0;
    node->op = &forgetful;
    check_refused(s, "writer", value);
    node->op = kept;
}

static void test_broken(bool training) {
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        subject s = create(graphs[i].build, training, qn_kernels_get(QN_F64, QN_ISA_REF), 2);
        for (int32_t v = 0; v < s.graph->n_values; v++) {
            const qn_placement *placement = &s.plan->placements[v];
            const qn_shape shape = s.graph->values[v]->tensor.shape;
            if (placement->storage < 0 || s.graph->values[v]->producer < 0)
                continue;
            if (shape.rank > 1 && placement->strides[shape.rank - 2] > shape.dims[shape.rank - 1])
                break_apart(&s, v);
            break_placement(&s, v);
        }
        for (int32_t storage = 0; storage < s.plan->n_storages; storage++)
            break_storage(&s, storage);
        CHECK_OK(qn_plan_check(s.plan, s.graph));
        destroy(&s);
    }
}

int main(void) {
    qn_isa best;
    CHECK_OK(qn_cpu_isa(&best));
    for (int size = 2; size <= 3; size++)
        CHECK_OK(qn_team_create(NULL, size, &teams[size]));
    for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++) {
        check_graph(i, true, qn_kernels_get(QN_F64, QN_ISA_REF));
        for (int isa = QN_ISA_REF; isa <= (int)best; isa++) {
            check_graph(i, true, qn_kernels_get(QN_F32, (qn_isa)isa));
            check_graph(i, false, qn_kernels_get(QN_F32, (qn_isa)isa));
        }
    }
    test_broken(true);
    test_broken(false);
    for (int size = 2; size <= 3; size++)
        qn_team_destroy(teams[size]);
    return checks_finish();
}
