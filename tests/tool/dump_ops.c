/* Writes what every operator of the list makes of its samples, in double: to FOLDER/ops.jsonl an
 * object a line with the operator, its attributes and where its tensors lie in FOLDER/ops.bin.
 * test_torch_ops.py does the same in PyTorch and compares. */
#include "graph_run.h"

#include <math.h>
#include <stdio.h>

typedef struct dump {
    FILE *index, *data;
    int64_t offset; /* numbers written so far */
} dump;

/* {"id": value, "shape": [...], "offset": n}: elements as doubles; null for no value. */
static void put_tensor(dump *d, const graph_run *run, qn_value value) {
    const qn_shape shape = qn_graph_shape(run->graph, value);
    if (value.id < 0) {
        fprintf(d->index, "null");
        return;
    }
    fprintf(d->index, "{\"id\": %d, \"offset\": %lld, \"shape\": [", value.id,
            (long long)d->offset);
    for (int i = 0; i < shape.rank; i++)
        fprintf(d->index, "%s%lld", i ? ", " : "", (long long)shape.dims[i]);
    fprintf(d->index, "]}");
    for (int64_t i = 0; i < qn_shape_count(shape); i++, d->offset++) {
        const double x = run_get(run, value, i);
        fwrite(&x, sizeof x, 1, d->data);
    }
}

static void put_tensors(dump *d, const graph_run *run, const char *name, const qn_value *values,
                        int n) {
    fprintf(d->index, ", \"%s\": [", name);
    for (int i = 0; i < n; i++) {
        fprintf(d->index, "%s", i ? ", " : "");
        put_tensor(d, run, values[i]);
    }
    fprintf(d->index, "]");
}

/* Settings that an optimiser can have: Adam's third step. */
static void set_hyper(const graph_run *run) {
    static const double hyper[QN_HYPER_COUNT] = {
        [QN_HYPER_RATE] = 0.01,     [QN_HYPER_MOMENTUM] = 0.9, [QN_HYPER_DECAY] = 0.1,
        [QN_HYPER_BETA1] = 0.9,     [QN_HYPER_BETA2] = 0.999,  [QN_HYPER_EPSILON] = 1e-8,
        [QN_HYPER_GRADIENT] = 0.25,
    };
    const qn_value value = qn_graph_find(run->graph, "hyper");
    for (int i = 0; value.id >= 0 && i < QN_HYPER_COUNT; i++)
        run_set(run, value, i, hyper[i]);
    if (value.id < 0)
        return;
    run_set(run, value, QN_HYPER_CORRECTION1, 1 - pow(hyper[QN_HYPER_BETA1], 3));
    run_set(run, value, QN_HYPER_CORRECTION2, 1 - pow(hyper[QN_HYPER_BETA2], 3));
}

static void fill(const graph_run *run) {
    run_fill(run);
    set_hyper(run);
}

/* The node's inputs are what gradients are taken of. */
static void want_inputs(op_sample *sample, const qn_node *node) {
    sample->n_sources = node->n_inputs;
    for (int i = 0; i < node->n_inputs; i++)
        sample->sources[i] = node->inputs[i];
}

static bool put_sample(dump *d, const qn_op *op, int variant) {
    op_sample sample = sample_begin(op, variant, QN_F64);
    if (sample.graph->status != QN_OK) {
        fprintf(stderr, "%s, sample %d: %s\n", op->name, variant, sample.graph->message);
        return false;
    }
    const qn_node *node = sample.graph->nodes[qn_graph_value(sample.graph, sample.y)->producer];
    want_inputs(&sample, node);
    if (sample.has_gradients)
        sample_differentiate(&sample);
    graph_run run = run_create(sample.graph);
    fill(&run);
    run_all(&run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    fprintf(d->index, "{\"op\": \"%s\", \"variant\": %d, \"attributes\": \"%s\"", node->op->name,
            variant, qn_node_print_attributes(sample.graph, node));
    put_tensors(d, &run, "outputs", node->outputs, node->n_outputs);
    if (sample.has_gradients) {
        const qn_value weights = qn_graph_find(sample.graph, "loss.weights");
        put_tensors(d, &run, "gradients", sample.gradients, node->n_inputs);
        put_tensors(d, &run, "weights", &weights, 1);
    }
    /* Updates have changed some: inputs are written as they were before. */
    fill(&run);
    put_tensors(d, &run, "inputs", node->inputs, node->n_inputs);
    fprintf(d->index, "}\n");
    run_destroy(&run);
    qn_graph_destroy(sample.graph);
    return true;
}

static FILE *open_in(const char *folder, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    if (!file)
        perror(path);
    return file;
}

int main(int argc, char **argv) {
    if (argc != 2) {
        fprintf(stderr, "usage: dump_ops FOLDER\n");
        return 2;
    }
    dump d = {open_in(argv[1], "ops.jsonl"), open_in(argv[1], "ops.bin"), 0};
    bool is_done = d.index && d.data;
    for (int i = 0; is_done && qn_ops[i]; i++) {
        for (int variant = 0; is_done && variant < qn_ops[i]->n_samples; variant++)
            is_done = put_sample(&d, qn_ops[i], variant);
    }
    if (d.index)
        is_done &= fclose(d.index) == 0;
    if (d.data)
        is_done &= fclose(d.data) == 0;
    return !is_done;
}
