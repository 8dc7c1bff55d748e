/* Runs a model of the zoo forward with the weights of a checkpoint, for a comparison elsewhere:
 *     dump_outputs MODEL HxWxC,BATCH,CLASSES f32|f64 WEIGHTS IN OUT
 *     dump_outputs MODEL batch,length,n_inputs,variant f32|f64 WEIGHTS IN OUT
 * IN: all inputs and labels in the program's order; OUT: its results; all as doubles. */
#include "quern/quern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct network {
    const qn_model *model;
    qn_shape x;
    int n_outputs, n_results;
    qn_network_sizes sizes;
} network;

static void stop(const char *what) {
    fprintf(stderr, "dump_outputs: %s: %s\n", what, qn_error_message());
    exit(1);
}

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    network *n = user;
    n->n_results = n->model->network ? 3 : 1;
    if (n->model->network) {
        n->model->network(graph, n->model->user, &n->sizes, phase, kept);
        return QN_NO_VALUE;
    }
    const qn_value x = qn_input(graph, "input", n->x);
    qn_result(graph, n->model->build(graph, n->model->user, x, n->n_outputs));
    return QN_NO_VALUE;
}

static void parse_sizes(network *n, const char *text) {
    long long a, b, c, d, e;
    if (n->model->network) {
        if (sscanf(text, "%lld,%lld,%lld,%lld", &a, &b, &c, &d) != 4)
            stop("the sizes must be batch,length,n_inputs,variant");
        n->sizes = n->model->sizes;
        n->sizes.batch = a;
        n->sizes.length = b;
        n->sizes.n_inputs = c;
        n->sizes.variant = (int)d;
    } else {
        if (sscanf(text, "%lldx%lldx%lld,%lld,%lld", &a, &b, &c, &d, &e) != 5)
            stop("the sizes must be HxWxC,BATCH,CLASSES");
        n->x = QN_SHAPE(d, a, b, c);
        n->n_outputs = (int)e;
    }
}

/* An input's elements from as many doubles. */
static void *read_input(FILE *file, qn_engine_input input) {
    char *memory = aligned_alloc(64, (input.bytes + 63) / 64 * 64);
    const size_t size = input.dtype == QN_F64 ? 8 : 4;
    for (size_t i = 0; memory && i < input.bytes / size; i++) {
        double value;
        if (fread(&value, sizeof value, 1, file) != 1)
            stop("the input ends early");
        if (input.dtype == QN_F64)
            ((double *)memory)[i] = value;
        else if (input.dtype == QN_F32)
            ((float *)memory)[i] = (float)value;
        else
            ((int32_t *)memory)[i] = (int32_t)value;
    }
    if (!memory)
        stop("out of memory");
    return memory;
}

static void write_result(FILE *file, const qn_engine *engine, qn_dtype real, int index) {
    const qn_shape shape = qn_engine_result_shape(engine, 0, index);
    const void *data = qn_engine_result(engine, 0, index);
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++)
        n *= shape.dims[i];
    for (int64_t i = 0; i < n; i++) {
        const double value =
            real == QN_F64 ? ((const double *)data)[i] : (double)((const float *)data)[i];
        if (fwrite(&value, sizeof value, 1, file) != 1)
            stop("the output cannot be written");
    }
}

int main(int argc, char **argv) {
    enum { MOST_INPUTS = 8 };
    void *inputs[MOST_INPUTS] = {NULL};
    network n = {0};
    qn_engine *engine;
    if (argc != 7)
        stop("usage: MODEL SIZES f32|f64 WEIGHTS IN OUT");
    n.model = qn_model_find(argv[1]);
    if (!n.model)
        stop(argv[1]);
    parse_sizes(&n, argv[2]);
    const qn_dtype real = strcmp(argv[3], "f64") == 0 ? QN_F64 : QN_F32;
    const qn_engine_options options = {QN_OPTIONS_INIT(qn_engine_options), .real = real,
                                       .n_threads = 2, .seed = 1};
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .name = n.model->name,
                                        .user = &n, .build = build};
    if (qn_engine_create(&options, &program, 1, &engine) != QN_OK ||
        qn_checkpoint_load(engine, argv[4], false) != QN_OK)
        stop(argv[1]);
    FILE *in = fopen(argv[5], "rb"), *out = fopen(argv[6], "wb");
    if (!in || !out)
        stop("the files cannot be opened");
    const int n_inputs = qn_engine_input_count(engine, 0);
    for (int i = 0; i < n_inputs && i < MOST_INPUTS; i++)
        inputs[i] = read_input(in, qn_engine_input_at(engine, 0, i));
    if (qn_engine_run(engine, 0, (const void *const *)inputs) != QN_OK)
        stop("run");
    for (int i = 0; i < n.n_results; i++)
        write_result(out, engine, real, i);
    for (int i = 0; i < n_inputs && i < MOST_INPUTS; i++)
        free(inputs[i]);
    qn_engine_destroy(engine);
    fclose(in);
    return fclose(out) != 0;
}
