/* Runs an ONNX file of one input, for a comparison elsewhere:
 *     run_onnx FILE f32|f64 STEPS RATE IN OUT SHAPE
 * IN: the input in the file's order of axes, SHAPE its extents in that order: 4x3x32x32; OUT: its
 * first output, in that order too; all numbers are doubles. STEPS 0: the output in inference. Else
 * the loss of every step of plain SGD on the mean of the output's squares, dropout off. */
#include "quern/onnx.h"
#include "quern/quern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct setting {
    qn_onnx_network *network;
    qn_shape file, shape; /* as the file has it; as it is given here */
    bool is_training, is_real;
} setting;

static void stop(const char *what) {
    fprintf(stderr, "%s: %s\n", what, qn_error_message());
    exit(1);
}

static qn_shape read_shape(const char *text) {
    qn_shape shape = {0};
    for (char *end; *text && shape.rank < QN_MAX_RANK; text = *end ? end + 1 : end)
        shape.dims[shape.rank++] = strtoll(text, &end, 10);
    return shape;
}

/* The second axis as the last. */
static qn_shape channels_last(qn_shape shape) {
    const int64_t channels = shape.dims[1];
    for (int i = 1; i + 1 < shape.rank; i++)
        shape.dims[i] = shape.dims[i + 1];
    shape.dims[shape.rank - 1] = channels;
    return shape;
}

/* Where element i of the file's order is, of something with channels last. */
static int64_t place_of(qn_shape file, int64_t i, bool is_image) {
    if (!is_image)
        return i;
    int64_t space = 1;
    for (int axis = 2; axis < file.rank; axis++)
        space *= file.dims[axis];
    return (i / (space * file.dims[1]) * space + i % space) * file.dims[1] +
           i / space % file.dims[1];
}

static qn_value build(qn_graph *graph, void *user, int phase, qn_value kept[QN_MAX_KEPT]) {
    const setting *s = user;
    qn_value outputs[64];
    (void)phase;
    (void)kept;
    const qn_value x =
        s->is_real ? qn_input(graph, "x", s->shape) : qn_index_input(graph, "x", s->shape);
    for (int i = 0; i < 64; i++)
        outputs[i] = QN_NO_VALUE;
    if (qn_onnx_build(s->network, graph, &x, outputs) != QN_OK)
        return QN_NO_VALUE;
    if (!s->is_training) {
        qn_result(graph, outputs[0]);
        return outputs[0];
    }
    const qn_value loss =
        qn_mean(graph, "task.loss", qn_multiply(graph, "task.squares", outputs[0], outputs[0]));
    qn_result(graph, loss);
    return loss;
}

static void *read_input(FILE *file, qn_engine_input input, const setting *s, bool is_image) {
    const size_t width = input.dtype == QN_F64 ? sizeof(double) : sizeof(float);
    char *memory = malloc(input.bytes);
    for (size_t i = 0; i < input.bytes / width; i++) {
        const size_t to = (size_t)place_of(s->file, (int64_t)i, is_image);
        double value;
        if (!memory || fread(&value, sizeof value, 1, file) != 1)
            stop("the input ends early");
        if (input.dtype == QN_F64)
            ((double *)(void *)memory)[to] = value;
        else if (input.dtype == QN_F32)
            ((float *)(void *)memory)[to] = (float)value;
        else
            ((int32_t *)(void *)memory)[to] = (int32_t)value;
    }
    return memory;
}

static void put_result(const setting *s, const qn_engine *engine, bool is_double, FILE *out) {
    const qn_onnx_place *place = qn_onnx_output(s->network, 0);
    const qn_shape shape = qn_engine_result_shape(engine, 0, 0);
    const void *data = qn_engine_result(engine, 0, 0);
    const bool is_image = !s->is_training && place->is_image;
    qn_shape file = shape;
    int64_t n = 1;
    for (int i = 0; i < shape.rank; i++) {
        if (is_image && i > 0)
            file.dims[i] = shape.dims[i == 1 ? shape.rank - 1 : i - 1];
        n *= shape.dims[i];
    }
    for (int64_t i = 0; i < n; i++) {
        const int64_t at = place_of(file, i, is_image);
        const double number = !s->is_training && place->dtype == QN_I32
                                  ? (double)((const int32_t *)data)[at]
                              : is_double ? ((const double *)data)[at]
                                          : (double)((const float *)data)[at];
        if (fwrite(&number, sizeof number, 1, out) != 1)
            stop("the output cannot be written");
    }
}

static void run(qn_engine *engine, const setting *s, bool is_double, int steps, FILE *in,
                FILE *out) {
    const qn_engine_input input = qn_engine_input_at(engine, 0, 0);
    void *x = read_input(in, input, s, qn_onnx_input(s->network, 0)->is_image);
    for (int step = 0; step < (steps > 0 ? steps : 1); step++) {
        const void *inputs[] = {x};
        if (qn_engine_run(engine, 0, inputs) != QN_OK)
            stop("step");
        put_result(s, engine, is_double, out);
    }
    free(x);
}

int main(int argc, char **argv) {
    if (argc != 8)
        stop("usage: FILE f32|f64 STEPS RATE IN OUT SHAPE");
    setting s = {.file = read_shape(argv[7]), .is_training = atoi(argv[3]) > 0};
    const bool is_double = strcmp(argv[2], "f64") == 0;
    const qn_onnx_options onnx = {QN_OPTIONS_INIT(qn_onnx_options), .keep_softmax = true};
    if (qn_onnx_open(&onnx, argv[1], &s.network) != QN_OK)
        stop("opening");
    s.is_real = qn_onnx_input(s.network, 0)->dtype == QN_F32;
    s.shape = qn_onnx_input(s.network, 0)->is_image ? channels_last(s.file) : s.file;
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options),
                                        .training = s.is_training, .user = &s, .build = build};
    const qn_engine_options options = {
        QN_OPTIONS_INIT(qn_engine_options), .real = is_double ? QN_F64 : QN_F32,
        .update = {.rate = atof(argv[4])}, .no_dropout = true, .n_threads = 1};
    qn_engine *engine;
    if (qn_engine_create(&options, &program, 1, &engine) != QN_OK)
        stop("building");
    FILE *in = fopen(argv[5], "rb"), *out = fopen(argv[6], "wb");
    if (!in || !out)
        stop("the files cannot be opened");
    run(engine, &s, is_double, atoi(argv[3]), in, out);
    const bool is_written = fclose(out) == 0;
    fclose(in);
    qn_engine_destroy(engine);
    qn_onnx_close(s.network);
    return is_written ? 0 : 1;
}
