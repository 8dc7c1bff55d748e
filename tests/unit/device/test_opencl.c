/* Operators on an OpenCL device: every sample, with its gradients, against the reference in double,
 * with at most twice the error of the CPU's floats; and the same bits again. Drivers take long to
 * compile kernels, so a few operators stand for all unless $QUERN_ALL is set. */
#include "base/memory.h"
#include "base/status.h"
#include "graph_run.h"
#include "opencl_lanes.h"
#include "os/heap.h"
#include "os/team.h"

#include <float.h>
#include <math.h>

/* What stands for all: tiles, a window, sums of columns, rows. */
static bool is_tried(const qn_op *op) {
    static const char *const few[] = {"linear", "conv2d", "relu", "softmax_cross_entropy"};
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) {
        if (strcmp(few[i], op->name) == 0)
            return true;
    }
    return getenv("QUERN_ALL") != NULL;
}

/* Distance of values from the truth, beside their size. */
static double error_of(const graph_run *run, const graph_run *truth, int v) {
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
static int run_on_device(const graph_run *run, const qn_kernels *kernels, void *state) {
    opencl_run r;
    opencl_run_open(&r, run->graph, kernels, state);
    for (int v = 0; v < run->n_values; v++) {
        if (run->graph->values[v]->producer < 0)
            qn_executor_bind(r.executor, r.spread.values[v], run->memory[v]);
    }
    CHECK_OK(qn_executor_run(r.executor, 3, 5, NULL));
    for (int v = 0; v < run->n_values; v++) {
        const void *made = qn_executor_get(r.executor, r.spread.values[v]);
        if (run->graph->values[v]->is_result && made)
            memcpy(run->memory[v], made, qn_tensor_bytes(run->graph->values[v]->tensor));
    }
    const int n = r.n_steps;
    opencl_run_close(&r);
    return n;
}

/* Every value is a result, but what is overwritten. */
static void ask_for_all(qn_graph *graph) {
    for (int v = 0; v < graph->n_values; v++) {
        qn_value_info *info = graph->values[v];
        info->is_result = info->producer >= 0 && !info->is_overwritten && info->overwrites < 0 &&
                          !graph->nodes[info->producer]->op->is_view;
    }
}

static void compare(const qn_op *op, int variant, const graph_run *device, const graph_run *cpu,
                    const graph_run *truth) {
    for (int v = 0; v < truth->n_values; v++) {
        if (!device->graph->values[v]->is_result)
            continue;
        const double error = error_of(device, truth, v), bound = 2 * error_of(cpu, truth, v);
        const bool is_good = error <= bound + 4 * (double)FLT_EPSILON;
        CHECK(is_good);
        if (!is_good)
            printf("%s, sample %d, %s: error %g, the CPU's %g\n", op->name, variant,
                   truth->graph->values[v]->name, error, bound / 2);
    }
}

static void check_bits(const qn_op *op, const graph_run *a, const graph_run *b) {
    for (int v = 0; v < a->n_values; v++) {
        const size_t bytes = qn_tensor_bytes(a->graph->values[v]->tensor);
        const bool is_same =
            !a->graph->values[v]->is_result || memcmp(a->memory[v], b->memory[v], bytes) == 0;
        CHECK(is_same);
        if (!is_same)
            printf("%s: %s has other bits\n", op->name, a->graph->values[v]->name);
    }
}

static int check_sample(const qn_op *op, int variant, void *state) {
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
    const int n = run_on_device(&device, f32, state);
    run_on_device(&again, f32, state);
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

static bool is_float(const qn_op *op, int variant) {
    op_sample sample = sample_build(op, variant, QN_F32);
    bool is = sample.graph->status == QN_OK;
    for (int v = 0; is && v < sample.graph->n_values; v++)
        is = sample.graph->values[v]->overwrites < 0;
    qn_graph_destroy(sample.graph);
    return is;
}

int main(void) {
    void *state;
    if (!opencl_open(&state))
        return checks_finish();
    for (int i = 0; qn_ops[i]; i++) {
        int n = 0;
        for (int variant = 0; is_tried(qn_ops[i]) && variant < qn_ops[i]->n_samples; variant++)
            n += is_float(qn_ops[i], variant) ? check_sample(qn_ops[i], variant, state) : 0;
        if (is_tried(qn_ops[i]) && qn_ops[i]->n_samples > 0)
            printf("%s: %d nodes on the device\n", qn_ops[i]->name, n);
    }
    qn_device_opencl.close(state);
    return checks_finish();
}
