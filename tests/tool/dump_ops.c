/* Writes what every operator of the list makes of its samples, in double: to FOLDER/ops.jsonl an
 * object a line with the operator, its attributes and where its tensors lie in FOLDER/ops.bin. The
 * same for what is put together from several operators; its inputs are the sample's parameters.
 * test_torch_ops.py does the same in PyTorch and compares. */
#include "graph_run.h"
#include "ops/shared.h"

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

/* ---- put together ---- */

static qn_value sample_conv1d(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(3, 9, 5), 1);
    qn_value filter = qn_sample_parameter(graph, "filter", QN_SHAPE(7, 3, 5), 1);
    qn_value bias = qn_sample_parameter(graph, "bias", QN_SHAPE(7), 1);
    return qn_conv1d(graph, variant ? "y" : NULL, x, filter, bias, 2, variant);
}

static qn_value sample_add_rows(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(3, 5, 7), 1);
    return qn_add_rows(graph, variant ? "y" : NULL, x,
                       qn_sample_parameter(graph, "rows", QN_SHAPE(5, 7), 1));
}

static qn_value sample_lstm_layer(qn_graph *graph, int variant) {
    const int64_t n = 3, t = 5, c = 7, k = 6;
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(n, t, c), 1);
    qn_value weight_x = qn_sample_parameter(graph, "weight_x", QN_SHAPE(4 * k, c), 1);
    qn_value weight_h = qn_sample_parameter(graph, "weight_h", QN_SHAPE(4 * k, k), 1);
    qn_value bias = qn_sample_parameter(graph, "bias", QN_SHAPE(4 * k), 1);
    qn_value h = qn_sample_parameter(graph, "h", QN_SHAPE(n, k), 1);
    qn_value cells = qn_sample_parameter(graph, "c", QN_SHAPE(n, k), 1);
    const qn_lstm_result r =
        qn_lstm(graph, variant ? "y" : NULL, x, weight_x, weight_h, bias, h, cells, QN_NO_VALUE);
    return variant ? r.c : r.y;
}

static qn_value sample_deconv2d(qn_graph *graph, int variant) {
    qn_value x = qn_sample_parameter(graph, "x", QN_SHAPE(3, 4, 3, 5), 1);
    qn_value filter = qn_sample_parameter(graph, "filter", QN_SHAPE(5, 4, 4, 7), 1);
    qn_value bias = qn_sample_parameter(graph, "bias", QN_SHAPE(7), 1);
    return qn_conv2d_transpose(graph, variant ? "y" : NULL, x, filter, bias,
                               qn_window_square(4, 2, 1));
}

static qn_value sample_expand(qn_graph *graph, int variant) {
    qn_value x =
        qn_sample_parameter(graph, "x", variant ? QN_SHAPE(1, 1, 3, 1) : QN_SHAPE(4, 1), 1);
    return qn_expand(graph, variant ? "y" : NULL, x,
                     variant ? QN_SHAPE(2, 5, 3, 4) : QN_SHAPE(3, 4, 5));
}

static const struct {
    const char *name;
    qn_sample *sample;
} composites[] = {{"lstm_layer", sample_lstm_layer},
                  {"conv1d", sample_conv1d},
                  {"deconv2d", sample_deconv2d},
                  {"add_rows", sample_add_rows},
                  {"expand", sample_expand}};

enum { N_COMPOSITES = sizeof composites / sizeof *composites, COMPOSITE_VARIANTS = 2 };

/* ---- one sample ---- */

/* The node's inputs are what gradients are taken of. */
static void want_inputs(op_sample *sample, const qn_node *node) {
    sample->n_sources = node->n_inputs;
    for (int i = 0; i < node->n_inputs; i++)
        sample->sources[i] = node->inputs[i];
}

/* Parameters that are not trained, as tables of angles, have no gradient. */
static void leave_out_fixed(op_sample *sample) {
    for (int i = 0; i < sample->n_sources; i++) {
        const qn_value_info *info = qn_graph_value(sample->graph, sample->sources[i]);
        if (info && info->kind == QN_KIND_PARAMETER && !info->trainable)
            sample->sources[i] = QN_NO_VALUE;
    }
}

/* outputs of the sample; its sources are the inputs. */
static void put_sample(dump *d, op_sample *sample, const char *name, int variant,
                       const char *attributes, const qn_value *outputs, int n_outputs) {
    qn_value sources[SAMPLE_SOURCES];
    memcpy(sources, sample->sources, sizeof sources);
    leave_out_fixed(sample);
    if (sample->has_gradients)
        sample_differentiate(sample);
    memcpy(sample->sources, sources, sizeof sources);
    graph_run run = run_create(sample->graph);
    fill(&run);
    run_all(&run, qn_kernels_get(QN_F64, QN_ISA_REF), NULL);
    int output = 0; /* whose gradients follow */
    while (output + 1 < n_outputs && outputs[output].id != sample->y.id)
        output++;
    fprintf(d->index, "{\"op\": \"%s\", \"variant\": %d, \"output\": %d, \"attributes\": \"%s\"",
            name, variant, output, attributes);
    put_tensors(d, &run, "outputs", outputs, n_outputs);
    if (sample->has_gradients) {
        const qn_value weights = qn_graph_find(sample->graph, "loss.weights");
        put_tensors(d, &run, "gradients", sample->gradients, sample->n_sources);
        put_tensors(d, &run, "weights", &weights, 1);
    }
    /* Updates have changed some: inputs are written as they were before. */
    fill(&run);
    put_tensors(d, &run, "inputs", sample->sources, sample->n_sources);
    fprintf(d->index, "}\n");
    run_destroy(&run);
}

static bool is_built(const op_sample *sample, const char *name, int variant) {
    if (sample->graph->status == QN_OK)
        return true;
    fprintf(stderr, "%s, sample %d: %s\n", name, variant, sample->graph->message);
    return false;
}

static bool put_operator(dump *d, const qn_op *op, int variant) {
    op_sample sample = sample_begin(op, variant, QN_F64);
    const bool is_done = is_built(&sample, op->name, variant);
    if (is_done) {
        const qn_node *node = sample.graph->nodes[qn_graph_value(sample.graph, sample.y)->producer];
        want_inputs(&sample, node);
        put_sample(d, &sample, node->op->name, variant,
                   qn_node_print_attributes(sample.graph, node), node->outputs, node->n_outputs);
    }
    qn_graph_destroy(sample.graph);
    return is_done;
}

static bool put_composite(dump *d, int i, int variant) {
    const qn_op whole = {.sample = composites[i].sample};
    op_sample sample = sample_begin(&whole, variant, QN_F64);
    const bool is_done = is_built(&sample, composites[i].name, variant);
    if (is_done) {
        sample_find_sources(&sample);
        sample.has_gradients = true;
        put_sample(d, &sample, composites[i].name, variant, "", &sample.y, 1);
    }
    qn_graph_destroy(sample.graph);
    return is_done;
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
            is_done = put_operator(&d, qn_ops[i], variant);
    }
    for (int i = 0; is_done && i < N_COMPOSITES; i++) {
        for (int variant = 0; is_done && variant < COMPOSITE_VARIANTS; variant++)
            is_done = put_composite(&d, i, variant);
    }
    if (d.index)
        is_done &= fclose(d.index) == 0;
    if (d.data)
        is_done &= fclose(d.data) == 0;
    return !is_done;
}
