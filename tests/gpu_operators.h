/* Operators on a GPU: every sample, with its gradients, against the reference in double, with at
 * most twice the error of the CPU's floats; and the same bits again, with kernels in pieces. */
#ifndef QN_TESTS_GPU_OPERATORS_H
#define QN_TESTS_GPU_OPERATORS_H

#include "base/memory.h"
#include "base/status.h"
#include "gpu_lanes.h"
#include "graph_run.h"
#include "ops/shared.h"
#include "os/heap.h"
#include "os/team.h"

#include <float.h>
#include <math.h>

/* Distance of values from the truth, beside their size. */
static inline double error_of(const graph_run *run, const graph_run *truth, int v) {
    const qn_tensor tensor = truth->graph->values[v]->tensor;
    double distance = 0, size = 0;
    for (int64_t i = 0; i < qn_shape_count(tensor.shape); i++) {
        const double a = run_get(run, (qn_value){v}, i), b = run_get(truth, (qn_value){v}, i);
        distance += (a - b) * (a - b);
        size += b * b;
    }
    return sqrt(distance) / (sqrt(size) + 1e-3);
}

/* Runs a graph on the device and takes all values that it makes; how many nodes ran there. */
static inline int run_on_device(const graph_run *run, const qn_kernels *kernels,
                                const qn_device *gpu, void *state) {
    gpu_run r;
    gpu_run_open(&r, run->graph, kernels, gpu, state);
    for (int v = 0; v < run->n_values; v++) {
        if (run->graph->values[v]->producer < 0 && !gpu_run_copy(&r, v, run->memory[v], false))
            qn_executor_bind(r.executor, r.spread.values[v], run->memory[v]);
    }
    CHECK_OK(qn_executor_run(r.executor, 3, 5, NULL));
    for (int v = 0; v < run->n_values; v++) {
        const void *made = qn_executor_get(r.executor, r.spread.values[v]);
        if (run->graph->values[v]->is_overwritten)
            (void)gpu_run_copy(&r, v, run->memory[v], true);
        if (run->graph->values[v]->is_result && made)
            memcpy(run->memory[v], made, qn_tensor_bytes(run->graph->values[v]->tensor));
    }
    const int n = r.n_steps;
    gpu_run_close(&r);
    return n;
}

/* Every value is a result, but what is overwritten. */
static inline void ask_for_all(qn_graph *graph) {
    for (int v = 0; v < graph->n_values; v++) {
        qn_value_info *info = graph->values[v];
        info->is_result = info->producer >= 0 && !info->is_overwritten && info->overwrites < 0 &&
                          !graph->nodes[info->producer]->op->is_view;
    }
}

/* What the last rounding adds; a loss is a sum that may cancel, and the CPU's right by chance. */
static inline double rounding_of(const graph_run *truth, int v) {
    return (qn_shape_count(truth->graph->values[v]->tensor.shape) == 1 ? 16 : 4) *
           (double)FLT_EPSILON;
}

/* What is asked for, and what is updated. */
static inline bool is_compared(const qn_value_info *info) {
    return info->is_result || info->overwrites >= 0;
}

static inline void compare(const qn_op *op, int variant, const graph_run *device,
                           const graph_run *cpu, const graph_run *truth) {
    for (int v = 0; v < truth->n_values; v++) {
        if (!is_compared(device->graph->values[v]))
            continue;
        const double error = error_of(device, truth, v), bound = 2 * error_of(cpu, truth, v);
        const bool is_good = error <= bound + rounding_of(truth, v);
        CHECK(is_good);
        if (!is_good)
            printf("%s, sample %d, %s: error %g, the CPU's %g\n", op->name, variant,
                   truth->graph->values[v]->name, error, bound / 2);
    }
}

static inline void check_bits(const qn_op *op, const graph_run *a, const graph_run *b) {
    for (int v = 0; v < a->n_values; v++) {
        const size_t bytes = qn_tensor_bytes(a->graph->values[v]->tensor);
        const bool is_same =
            !is_compared(a->graph->values[v]) || memcmp(a->memory[v], b->memory[v], bytes) == 0;
        CHECK(is_same);
        if (!is_same)
            printf("%s: %s has other bits\n", op->name, a->graph->values[v]->name);
    }
}

static inline int check_sample(const qn_op *op, int variant, const qn_device *gpu, void *state) {
    const qn_kernels *f32 = qn_kernels_get(QN_F32, QN_ISA_REF);
    op_sample single = sample_build(op, variant, QN_F32), exact = sample_build(op, variant, QN_F64);
    ask_for_all(single.graph);
    graph_run cpu = run_create(single.graph), device = run_create(single.graph);
    graph_run again = run_create(single.graph), truth = run_create(exact.graph);
    run_fill(&cpu);
    run_fill(&device);
    run_fill(&again);
    run_fill(&truth);
    run_all(&cpu, f32, NULL);
    run_all(&truth, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    const int n = run_on_device(&device, f32, gpu, state);
    qn_gpu_set_pace(state, 1, 1); /* in as many pieces as there are groups */
    run_on_device(&again, f32, gpu, state);
    qn_gpu_set_pace(state, 0, 0);
    compare(op, variant, &device, &cpu, &truth);
    check_bits(op, &device, &again);
    run_destroy(&cpu);
    run_destroy(&device);
    run_destroy(&again);
    run_destroy(&truth);
    qn_graph_destroy(single.graph);
    qn_graph_destroy(exact.graph);
    return n;
}

/* Integers round alike on all devices, and what updates them runs on the CPU. */
static inline bool is_float(const qn_op *op, int variant) {
    op_sample sample = sample_build(op, variant, QN_F32);
    bool is = sample.graph->status == QN_OK;
    for (int v = 0; is && v < sample.graph->n_values; v++)
        is = sample.graph->values[v]->overwrites < 0 ||
             sample.graph->values[v]->tensor.dtype == QN_F32;
    qn_graph_destroy(sample.graph);
    return is;
}

/* Filters' gradients whose sums over pixels are cut into parts, which samples are too small for. */
static inline qn_value many_pixels(qn_graph *graph, int variant) {
    const int64_t channels = 3, outputs = variant == 0 ? 4 : channels;
    const int groups = variant == 0 ? 1 : (int)channels;
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(2, 24, 24, channels), 1);
    qn_value filter =
        qn_sample_parameter(graph, "filter", QN_SHAPE(outputs, 3, 3, channels / groups), 0.5);
    return qn_conv2d(graph, "y", x, filter, QN_NO_VALUE, qn_window_square(3, 1, 1), groups);
}

static inline int check_many_pixels(const qn_op *convolution, const qn_device *gpu, void *state) {
    qn_op op = *convolution;
    op.sample = many_pixels;
    return check_sample(&op, 0, gpu, state) + check_sample(&op, 1, gpu, state);
}

/* All operators that are tried (null: all). */
static inline void check_operators(const qn_device *gpu, void *state,
                                   bool (*is_tried)(const qn_op *op)) {
    for (int i = 0; qn_ops[i]; i++) {
        int n = 0;
        if (is_tried && !is_tried(qn_ops[i]))
            continue;
        for (int variant = 0; variant < qn_ops[i]->n_samples; variant++)
            n += is_float(qn_ops[i], variant) ? check_sample(qn_ops[i], variant, gpu, state) : 0;
        if (strcmp(qn_ops[i]->name, "conv2d") == 0)
            n += check_many_pixels(qn_ops[i], gpu, state);
        if (qn_ops[i]->n_samples > 0)
            printf("%s: %d nodes on the device\n", qn_ops[i]->name, n);
    }
}

#endif
