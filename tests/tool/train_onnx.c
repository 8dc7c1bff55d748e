/* Trains an ONNX file for some steps on one batch, for a comparison elsewhere:
 *     train_onnx FILE f32|f64 RATE STEPS IN OUT SHAPE
 * SHAPE: of the input as it is given here, channels last: 4x32x32x3. IN: the batch, then its
 * labels; OUT: the loss of every step; all as doubles. The step is plain SGD; dropout is off. */
#include "quern/onnx.h"
#include "quern/quern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    qn_onnx_network *network;
    qn_shape shape;
} setting;

static void stop(const char *what) {
    fprintf(stderr, "train_onnx: %s: %s\n", what, qn_error_message());
    exit(1);
}

static qn_shape read_shape(const char *text) {
    qn_shape shape = {0};
    for (char *end; *text && shape.rank < QN_MAX_RANK; text = *end ? end + 1 : end)
        shape.dims[shape.rank++] = strtoll(text, &end, 10);
    return shape;
}

static qn_value build(qn_graph *graph, void *user, int phase, qn_value kept[QN_MAX_KEPT]) {
    const setting *s = user;
    const bool is_index = qn_onnx_input(s->network, 0)->dtype == QN_I32;
    (void)phase;
    (void)kept;
    qn_value x = is_index ? qn_index_input(graph, "x", s->shape) : qn_input(graph, "x", s->shape);
    qn_value labels = qn_label(graph, "labels", QN_I32, QN_SHAPE(s->shape.dims[0]));
    qn_value logits = QN_NO_VALUE;
    qn_onnx_build(s->network, graph, &x, &logits);
    qn_value loss =
        qn_mean(graph, "loss", qn_softmax_cross_entropy(graph, "losses", logits, labels, 0));
    qn_result(graph, loss);
    return loss;
}

/* The next doubles of the file as an input's type. */
static void *read_input(FILE *file, qn_engine_input input) {
    const size_t width = input.dtype == QN_F64 ? sizeof(double) : sizeof(float);
    void *memory = malloc(input.bytes);
    for (size_t i = 0; i < input.bytes / width; i++) {
        double value;
        if (!memory || fread(&value, sizeof value, 1, file) != 1)
            stop("the input ends early");
        if (input.dtype == QN_F64)
            ((double *)memory)[i] = value;
        else if (input.dtype == QN_F32)
            ((float *)memory)[i] = (float)value;
        else
            ((int32_t *)memory)[i] = (int32_t)value;
    }
    return memory;
}

static void train(qn_engine *engine, bool is_double, int steps, FILE *in, FILE *out) {
    void *inputs[2];
    for (int i = 0; i < 2; i++)
        inputs[i] = read_input(in, qn_engine_input_at(engine, 0, i));
    for (int step = 0; step < steps; step++) {
        if (qn_engine_run(engine, 0, (const void *const *)inputs) != QN_OK)
            stop("step");
        const void *result = qn_engine_result(engine, 0, 0);
        const double loss = is_double ? *(const double *)result : *(const float *)result;
        if (fwrite(&loss, sizeof loss, 1, out) != 1)
            stop("the output cannot be written");
    }
    free(inputs[0]);
    free(inputs[1]);
}

int main(int argc, char **argv) {
    if (argc != 8)
        stop("usage: FILE f32|f64 RATE STEPS IN OUT SHAPE");
    setting s = {.shape = read_shape(argv[7])};
    const bool is_double = strcmp(argv[2], "f64") == 0;
    if (qn_onnx_open(&(qn_onnx_options){QN_OPTIONS_INIT(qn_onnx_options)}, argv[1], &s.network) !=
        QN_OK)
        stop(argv[1]);
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .training = true,
                                        .user = &s, .build = build};
    const qn_engine_options options = {
        QN_OPTIONS_INIT(qn_engine_options), .real = is_double ? QN_F64 : QN_F32,
        .update = {.rate = atof(argv[3])}, .no_dropout = true, .n_threads = 2};
    qn_engine *engine;
    if (qn_engine_create(&options, &program, 1, &engine) != QN_OK)
        stop(argv[1]);
    FILE *in = fopen(argv[5], "rb"), *out = fopen(argv[6], "wb");
    if (!in || !out)
        stop("the files cannot be opened");
    train(engine, is_double, atoi(argv[4]), in, out);
    const bool is_written = fclose(out) == 0;
    fclose(in);
    qn_engine_destroy(engine);
    qn_onnx_close(s.network);
    return is_written ? 0 : 1;
}
