/* Trains a network that is no classifier for some steps on one batch from given weights, for a
 * comparison elsewhere:
 *     dump_network MODEL SIZES list
 *     dump_network MODEL SIZES f32|f64 RATE STEPS IN OUT
 * SIZES: batch,length,target_length,n_inputs,n_outputs,variant as in qn_network_sizes; a 0 is the
 * published model's. The first prints a line "parameter NAME EXTENTS..." for each trainable
 * parameter, "statistic NAME EXTENTS..." for each other one, and "input NAME EXTENTS..." for each
 * input, in order. IN: the parameters, then the inputs, in that order; OUT: the losses of each step
 * (one a phase), then the gradients of the first step in the parameters' order, then, as they are
 * at the end, the parameters and the statistics; all as doubles. The step is SGD with momentum 0.9,
 * whose buffer after one step is the gradient. Dropout is off. */
#include "quern/quern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct network {
    const qn_model *model;
    qn_network_sizes sizes;
} network;

static void stop(const char *what) {
    fprintf(stderr, "dump_network: %s: %s\n", what, qn_error_message());
    exit(1);
}

static void *take_memory(size_t bytes) {
    void *memory = aligned_alloc(64, (bytes + 63) / 64 * 64 + 64);
    if (!memory)
        stop("out of memory");
    return memory;
}

static size_t element_bytes(qn_dtype dtype) {
    return dtype == QN_F64 ? sizeof(double) : sizeof(float);
}

/* bytes of the memory's type from so many doubles of the file. */
static void read_reals(FILE *file, qn_dtype dtype, size_t bytes, void *memory) {
    for (size_t i = 0; i < bytes / element_bytes(dtype); i++) {
        double value;
        if (fread(&value, sizeof value, 1, file) != 1)
            stop("the input ends early");
        if (dtype == QN_F64)
            ((double *)memory)[i] = value;
        else if (dtype == QN_F32)
            ((float *)memory)[i] = (float)value;
        else
            ((int32_t *)memory)[i] = (int32_t)value;
    }
}

static void write_reals(FILE *file, qn_dtype dtype, size_t bytes, const void *memory) {
    for (size_t i = 0; i < bytes / element_bytes(dtype); i++) {
        const double value =
            dtype == QN_F64 ? ((const double *)memory)[i] : (double)((const float *)memory)[i];
        if (fwrite(&value, sizeof value, 1, file) != 1)
            stop("the output cannot be written");
    }
}

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const network *n = user;
    return n->model->network(graph, n->model->user, &n->sizes, phase, kept);
}

static void parse_sizes(const char *text, qn_network_sizes *sizes) {
    long long given[6];
    if (sscanf(text, "%lld,%lld,%lld,%lld,%lld,%lld", &given[0], &given[1], &given[2], &given[3],
               &given[4], &given[5]) != 6)
        stop("SIZES must be six numbers");
    int64_t *const fields[] = {&sizes->batch, &sizes->length, &sizes->target_length,
                               &sizes->n_inputs, &sizes->n_outputs};
    for (int i = 0; i < 5; i++) {
        if (given[i] > 0)
            *fields[i] = given[i];
    }
    sizes->variant = (int)given[5];
}

static qn_engine *make_engine(network *n, qn_dtype real, double rate) {
    const qn_engine_options options = {
        QN_OPTIONS_INIT(qn_engine_options),
        .real = real,
        .update = {.optimizer = QN_SGD, .rate = rate, .momentum = 0.9},
        .no_dropout = true,
        .n_threads = 2,
        .seed = 1,
    };
    const qn_program_options program = {
        QN_OPTIONS_INIT(qn_program_options),
        .name = n->model->name,
        .training = true,
        .n_phases = n->model->n_phases,
        .trained = {n->model->trained[0], n->model->trained[1]},
        .user = n,
        .build = build,
    };
    qn_engine *engine;
    if (qn_engine_create(&options, &program, 1, &engine) != QN_OK)
        stop(n->model->name);
    return engine;
}

static bool is_parameter(const qn_stored_tensor *t) {
    return !t->is_state && t->trainable;
}

static void print_row(const char *what, const char *name, qn_shape shape) {
    printf("%s %s", what, name);
    for (int i = 0; i < shape.rank; i++)
        printf(" %lld", (long long)shape.dims[i]);
    putchar('\n');
}

static bool is_statistic(const qn_stored_tensor *t) {
    return !t->is_state && !t->trainable;
}

static void list_tensors(const qn_engine *engine, const char *what,
                         bool (*is_listed)(const qn_stored_tensor *)) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (is_listed(&t))
            print_row(what, t.name, t.shape);
    }
}

static void list(const qn_engine *engine) {
    list_tensors(engine, "parameter", is_parameter);
    list_tensors(engine, "statistic", is_statistic);
    for (int i = 0; i < qn_engine_input_count(engine, 0); i++) {
        const qn_engine_input input = qn_engine_input_at(engine, 0, i);
        print_row("input", input.name, input.shape);
    }
}

static void write_gradients(const qn_engine *engine, FILE *out) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        char name[512];
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (!is_parameter(&t))
            continue;
        snprintf(name, sizeof name, "optimizer.momentum.%s", t.name);
        const qn_stored_tensor m = qn_engine_find(engine, name);
        if (!m.data)
            stop(name);
        write_reals(out, m.dtype, m.bytes, m.data);
    }
}

static void write_tensors(const qn_engine *engine, FILE *out,
                          bool (*is_written)(const qn_stored_tensor *)) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (is_written(&t))
            write_reals(out, t.dtype, t.bytes, t.data);
    }
}

/* The steps; the gradients of the first lie in a file of their own until the losses are out. */
static void train(const network *n, qn_engine *engine, int steps, FILE *in, FILE *out) {
    const void *inputs[32];
    const qn_dtype real = qn_engine_get_options(engine)->real;
    FILE *gradients = tmpfile();
    if (!gradients)
        stop("no temporary file");
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (is_parameter(&t))
            read_reals(in, t.dtype, t.bytes, t.data);
    }
    for (int i = 0; i < qn_engine_input_count(engine, 0); i++) {
        const qn_engine_input input = qn_engine_input_at(engine, 0, i);
        void *memory = take_memory(input.bytes);
        read_reals(in, input.dtype, input.bytes, memory);
        inputs[i] = memory;
    }
    for (int step = 0; step < steps; step++) {
        if (qn_engine_run(engine, 0, inputs) != QN_OK)
            stop("step");
        /* A network marks the losses of its phases as its first results. */
        for (int i = 0; i < (n->model->n_phases ? n->model->n_phases : 1); i++)
            write_reals(out, real, element_bytes(real), qn_engine_result(engine, 0, i));
        if (step == 0)
            write_gradients(engine, gradients);
    }
    rewind(gradients);
    for (int byte = fgetc(gradients); byte != EOF; byte = fgetc(gradients))
        fputc(byte, out);
    fclose(gradients);
    write_tensors(engine, out, is_parameter);
    write_tensors(engine, out, is_statistic);
    for (int i = 0; i < qn_engine_input_count(engine, 0); i++)
        free((void *)(uintptr_t)inputs[i]);
}

int main(int argc, char **argv) {
    if (argc != 4 && argc != 8)
        stop("usage: MODEL SIZES list, or MODEL SIZES f32|f64 RATE STEPS IN OUT");
    network n = {.model = qn_model_find(argv[1])};
    if (!n.model || !n.model->network)
        stop(argv[1]);
    n.sizes = n.model->sizes;
    parse_sizes(argv[2], &n.sizes);
    const qn_dtype real = strcmp(argv[3], "f32") == 0 ? QN_F32 : QN_F64;
    qn_engine *engine = make_engine(&n, real, argc == 8 ? atof(argv[4]) : 0.1);
    bool is_written = true;
    if (argc == 4) {
        list(engine);
    } else {
        FILE *in = fopen(argv[6], "rb"), *out = fopen(argv[7], "wb");
        if (!in || !out)
            stop("the files cannot be opened");
        train(&n, engine, atoi(argv[5]), in, out);
        is_written = fclose(out) == 0;
        fclose(in);
    }
    qn_engine_destroy(engine);
    return is_written ? 0 : 1;
}
