/* Runs a graph for tests in the simplest way: memory of its own for every value, nodes in the
 * graph's order, no plan. What is not written yet holds NaN. Sources are filled by name, so that
 * graphs of both real types start from the same numbers, all of which a float can hold. */
#ifndef QN_TESTS_GRAPH_RUN_H
#define QN_TESTS_GRAPH_RUN_H

#include "base/rng.h"
#include "device/cpu/cpu.h"
#include "graph/graph.h"
#include "ops/ops.h"
#include "passes/passes.h"
#include "tensor/number.h"

#include <stdlib.h>
#include <string.h>

typedef struct graph_run {
    const qn_graph *graph;
    int n_values;
    void **memory; /* by value; views and updates share that of what they are of */
} graph_run;

/* The value whose memory this one has: its own, or that of what it views or updates. */
static inline int run_root(const qn_graph *graph, int v) {
    const qn_value_info *info = graph->values[v];
    if (info->overwrites >= 0)
        return info->overwrites;
    if (info->producer >= 0 && graph->nodes[info->producer]->op->is_view)
        return run_root(graph, graph->nodes[info->producer]->inputs[0].id);
    return v;
}

static inline void *run_allocate(size_t bytes) {
    const size_t rounded = (bytes + QN_ALIGNMENT) / QN_ALIGNMENT * QN_ALIGNMENT;
    void *memory = aligned_alloc(QN_ALIGNMENT, rounded);
    if (!memory)
        abort();
    return memset(memory, 0xff, rounded);
}

static inline graph_run run_create(const qn_graph *graph) {
    graph_run run = {graph, graph->n_values, calloc((uint32_t)graph->n_values, sizeof(void *))};
    for (int v = 0; v < run.n_values; v++) {
        const int root = run_root(graph, v);
        run.memory[v] =
            root == v ? run_allocate(qn_tensor_bytes(graph->values[v]->tensor)) : run.memory[root];
    }
    return run;
}

static inline void run_destroy(graph_run *run) {
    for (int v = 0; v < run->n_values; v++) {
        if (run_root(run->graph, v) == v)
            free(run->memory[v]);
    }
    free(run->memory);
}

static inline double run_get(const graph_run *run, qn_value value, int64_t i) {
    return qn_number_get(run->graph->values[value.id]->tensor.dtype, run->memory[value.id], i);
}

static inline void run_set(const graph_run *run, qn_value value, int64_t i, double to) {
    qn_number_set(run->graph->values[value.id]->tensor.dtype, run->memory[value.id], i, to);
}

/* Element i of n of a source. Uniform ones are distinct points of a grid that keeps clear of 0 and
 * of 6 at scale 9, so that no kink and no tie is within the reach of a difference quotient. */
static inline double run_draw(const qn_value_info *info, int64_t i, int64_t n) {
    const qn_rng rng = qn_rng_make(1, qn_hash_text(info->name), 0);
    const double uniform = (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
    if (info->tensor.dtype == QN_I32)
        return i % 5 == 3 ? -1 : (double)(i % 3);
    if (info->initial.kind == QN_INITIAL_ONE)
        return 0.5 + uniform;
    if (info->initial.kind == QN_INITIAL_ZERO)
        return 0.1 + 0.8 * uniform;
    const double place = ((double)qn_rng_permute(rng, (uint64_t)i, (uint64_t)n) + 0.25) / (double)n;
    return info->initial.scale * (2 * place - 1);
}

static inline void run_fill(const graph_run *run) {
    for (int v = 0; v < run->n_values; v++) {
        const qn_value_info *info = run->graph->values[v];
        const int64_t n = qn_shape_count(info->tensor.shape);
        for (int64_t i = 0; info->producer < 0 && i < n; i++)
            run_set(run, (qn_value){v}, i, (double)(float)run_draw(info, i, n));
    }
}

/* Sources that start with given values get them. */
static inline void run_fill_given(const graph_run *run) {
    for (int v = 0; v < run->graph->n_values; v++) {
        const qn_value_info *info = run->graph->values[v];
        const qn_shape shape = info->tensor.shape;
        for (int64_t i = 0; info->given && i < qn_shape_count(shape); i++) {
            const qn_given *given = info->given;
            int64_t at = 0, rest = i;
            for (int axis = shape.rank - 1; axis >= 0; rest /= shape.dims[axis--])
                at += rest % shape.dims[axis] * given->strides[axis];
            run_set(run, (qn_value){v}, i,
                    given->dtype == QN_F64   ? ((const double *)given->data)[at]
                    : given->dtype == QN_F32 ? (double)((const float *)given->data)[at]
                                             : (double)((const int32_t *)given->data)[at]);
        }
    }
}

static inline void run_node(const graph_run *run, const qn_node *node, const qn_kernels *kernels,
                            qn_team *team) {
    const size_t n_inputs = (size_t)node->n_inputs;
    qn_tensor *inputs = calloc(n_inputs + 1, sizeof *inputs), outputs[QN_MAX_OUTPUTS];
    void **in = calloc(n_inputs + 1, sizeof *in), *out[QN_MAX_OUTPUTS], *workspace = NULL;
    if (!inputs || !in)
        abort();
    for (int i = 0; i < node->n_inputs; i++) {
        inputs[i] = qn_graph_tensor(run->graph, node->inputs[i]);
        in[i] = node->inputs[i].id < 0 ? NULL : run->memory[node->inputs[i].id];
    }
    for (int i = 0; i < node->n_outputs; i++) {
        outputs[i] = qn_graph_tensor(run->graph, node->outputs[i]);
        out[i] = run->memory[node->outputs[i].id];
    }
    const qn_machine machine = qn_machine_cpu(kernels, qn_team_size(team));
    const qn_query query = {node->op, node->attributes, node->n_inputs,   node->n_outputs,
                            inputs,   outputs,          machine.n_threads};
    workspace = run_allocate(qn_machine_workspace(&machine, 0, &query));
    qn_call call = {.node = node,
                    .attributes = node->attributes,
                    .team = team,
                    .inputs = inputs,
                    .outputs = outputs,
                    .in = in,
                    .out = out,
                    .workspace = workspace,
                    .seed = 3,
                    .step = 5};
    qn_cpu_prepare(&call, &machine);
    qn_cpu_run(&call);
    free(workspace);
    free(inputs);
    free(in);
}

static inline void run_all(const graph_run *run, const qn_kernels *kernels, qn_team *team) {
    for (int n = 0; n < run->graph->n_nodes; n++) {
        if (!run->graph->nodes[n]->op->is_view)
            run_node(run, run->graph->nodes[n], kernels, team);
    }
}

/* ---- an operator's sample with a loss and its gradients ---- */

enum { SAMPLE_SOURCES = 16 };

typedef struct op_sample {
    qn_graph *graph;
    qn_value y, loss;
    int n_sources; /* real parameters of the sample */
    qn_value sources[SAMPLE_SOURCES], gradients[SAMPLE_SOURCES];
    bool has_gradients;
} op_sample;

/* The trainable parameters of the graph so far. */
static inline void sample_find_sources(op_sample *sample) {
    for (int v = 0; v < sample->graph->n_values; v++) {
        const qn_value_info *info = sample->graph->values[v];
        if (info->producer < 0 && info->trainable && sample->n_sources < SAMPLE_SOURCES)
            sample->sources[sample->n_sources++] = (qn_value){v};
    }
}

/* Builds a sample; the graph keeps a failure. */
static inline op_sample sample_begin(const qn_op *op, int variant, qn_dtype real) {
    op_sample sample = {0};
    qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = real, .training = true};
    if (qn_graph_create(&options, &sample.graph) != QN_OK)
        abort();
    sample.y = op->sample(sample.graph, variant);
    sample.has_gradients = op->gradient != NULL && sample.graph->status == QN_OK &&
                           qn_dtype_is_real(qn_graph_tensor(sample.graph, sample.y).dtype);
    return sample;
}

/* Adds mean(y * weights) as the loss, and the gradients of the sources. */
static inline void sample_differentiate(op_sample *sample) {
    qn_value weights = qn_graph_add_source(sample->graph, QN_KIND_INPUT, "loss.weights",
                                           qn_graph_tensor(sample->graph, sample->y),
                                           (qn_initial){QN_INITIAL_UNIFORM, 1}, false);
    sample->loss = qn_mean(sample->graph, "loss",
                           qn_multiply(sample->graph, "loss.weighted", sample->y, weights));
    qn_autodiff_for(sample->graph, sample->loss, sample->sources, sample->n_sources,
                    sample->gradients);
}

/* A sample with the gradients of its parameters, if its operator has a gradient. */
static inline op_sample sample_build(const qn_op *op, int variant, qn_dtype real) {
    op_sample sample = sample_begin(op, variant, real);
    sample_find_sources(&sample);
    if (sample.has_gradients)
        sample_differentiate(&sample);
    return sample;
}

#endif
