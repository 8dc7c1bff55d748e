/* Exports a network of the zoo that is no classifier, for a comparison elsewhere:
 *     export_network MODEL BATCH FOLDER
 * FOLDER gets MODEL.onnx, and for each of its inputs and outputs MODEL.in.I and MODEL.out.I: chance
 * numbers and what quern makes of them, as floats or 32-bit numbers, images as (N, C, H, W). */
#include "base/rng.h"
#include "format/onnx/onnx_file.h"
#include "models/models.h"
#include "quern/onnx.h"
#include "quern/quern.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 16 };

static void stop(const char *what) {
    fprintf(stderr, "export_network: %s: %s\n", what, qn_error_message());
    exit(1);
}

typedef struct network {
    const qn_model *model;
    qn_network_sizes sizes;
} network;

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    network *n = user;
    n->model->network(graph, n->model->user, &n->sizes, phase, kept);
    return QN_NO_VALUE;
}

static void write_tensor(const char *path, const char *data, qn_shape shape) {
    const bool is_image = shape.rank == 4;
    const int64_t n = qn_shape_count(shape), columns = is_image ? shape.dims[3] : 1;
    const int64_t pixels = is_image ? shape.dims[1] * shape.dims[2] : n;
    char *moved = malloc((size_t)n * 4);
    FILE *file = fopen(path, "wb");
    if (!moved || !file)
        stop(path);
    for (int64_t i = 0; i < n; i++) {
        const int64_t c = i % columns, pixel = i / columns % pixels, sample = i / columns / pixels;
        memcpy(moved + ((sample * columns + c) * pixels + pixel) * 4, data + i * 4, 4);
    }
    if (fwrite(moved, 4, (size_t)n, file) != (size_t)n || fclose(file) != 0)
        stop(path);
    free(moved);
}

/* Numbers for an input: tokens that the smallest table has, lengths from 1 on, normal reals. */
static void *fill(const qn_engine_input *input, int index) {
    const int64_t n = qn_shape_count(input->shape);
    const bool is_length = strstr(input->name, "lengths") != NULL;
    float *reals = malloc(input->bytes);
    for (int64_t i = 0; reals && i < n; i++) {
        const qn_rng rng = qn_rng_make(4, (uint64_t)index, 0);
        const int32_t whole =
            (int32_t)(qn_rng_below(rng, (uint64_t)i, is_length ? 9 : 2) + is_length);
        reals[i] = (float)qn_rng_normal(rng, (uint64_t)i);
        if (input->dtype == QN_I32)
            memcpy(&reals[i], &whole, 4);
    }
    return reals;
}

/* Runs the network and writes what the file's inputs and outputs have. */
static void run(qn_engine *engine, const char *name, const char *folder,
                const qn_onnx_model *file) {
    const void *inputs[MOST];
    char path[512];
    const int n_inputs = qn_engine_input_count(engine, 0);
    for (int i = 0; i < n_inputs; i++) {
        const qn_engine_input input = qn_engine_input_at(engine, 0, i);
        inputs[i] = fill(&input, i);
        for (int k = 0; k < file->n_inputs; k++) {
            snprintf(path, sizeof path, "%s/%s.in.%d", folder, name, k);
            if (strcmp(file->inputs[k].name, input.name) == 0)
                write_tensor(path, inputs[i], input.shape);
        }
    }
    if (qn_engine_run(engine, 0, inputs) != QN_OK)
        stop(name);
    for (int i = 0; i < file->n_outputs; i++) {
        snprintf(path, sizeof path, "%s/%s.out.%d", folder, name, i);
        write_tensor(path, qn_engine_result(engine, 0, i), qn_engine_result_shape(engine, 0, i));
    }
    for (int i = 0; i < n_inputs; i++)
        free((void *)inputs[i]);
}

int main(int n_arguments, char **arguments) {
    network n = {.model = n_arguments == 4 ? qn_model_find(arguments[1]) : NULL};
    char path[512];
    qn_engine *engine;
    qn_onnx_file *file = NULL;
    if (!n.model || !n.model->network)
        stop("usage: MODEL BATCH FOLDER");
    n.sizes = n.model->sizes;
    n.sizes.batch = atoi(arguments[2]);
    n.sizes.is_bare = true;
    if (strcmp(n.model->task, "answering") == 0)
        n.sizes.variant = QN_ANSWER_PADDED;
    const qn_program_options program = {QN_OPTIONS_INIT(qn_program_options), .user = &n,
                                        .build = build};
    if (qn_engine_create(&(qn_engine_options){QN_OPTIONS_INIT(qn_engine_options), .seed = 3},
                         &program, 1, &engine) != QN_OK)
        stop(n.model->name);
    snprintf(path, sizeof path, "%s/%s.onnx", arguments[3], n.model->name);
    const qn_onnx_export_options options = {QN_OPTIONS_INIT(qn_onnx_export_options),
                                            .model = n.model, .engine = engine};
    if (qn_onnx_export(&options, path) != QN_OK ||
        qn_onnx_file_open(NULL, path, false, &file) != QN_OK)
        stop(path);
    run(engine, n.model->name, arguments[3], qn_onnx_file_model(file));
    qn_onnx_file_close(file);
    qn_engine_destroy(engine);
    return 0;
}
