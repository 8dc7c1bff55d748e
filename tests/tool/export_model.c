/* Trains a model of the zoo for some steps on chance data and exports it, for a comparison
 * elsewhere:
 *     export_model MODEL BATCH STEPS FOLDER [outside]
 * FOLDER gets MODEL.onnx, MODEL.x, a batch as floats (N, C, H, W), and MODEL.y, its outputs
 * (N, outputs). */
#include "base/rng.h"
#include "quern/onnx.h"
#include "quern/quern.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void stop(const char *what) {
    fprintf(stderr, "export_model: %s: %s\n", what, qn_error_message());
    exit(1);
}

static void write_floats(const char *folder, const char *model, const char *suffix,
                         const float *numbers, size_t n) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s.%s", folder, model, suffix);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(numbers, sizeof *numbers, n, file) != n || fclose(file) != 0)
        stop(path);
}

/* x (N, ..., C) as (N, C, ...), in memory of its own. */
static float *channels_second(const float *x, int64_t batch, qn_shape sample) {
    const int64_t n = qn_shape_count(sample), columns = sample.dims[sample.rank - 1];
    float *moved = malloc((size_t)(batch * n) * sizeof *moved);
    for (int64_t i = 0; moved && i < batch * n; i++) {
        const int64_t c = i % columns, pixel = i % n / columns;
        moved[i / n * n + c * (n / columns) + pixel] = x[i];
    }
    return moved;
}

/* Towards numbers, so that outputs are logits. */
static qn_trainer *train(const qn_model *model, int64_t batch, int steps, float *x, float *y) {
    qn_trainer_options options = qn_trainer_options_for(model);
    qn_trainer *trainer;
    qn_step_result result;
    options.batch = options.evaluation_batch = batch;
    options.engine.update.rate *= 0.01;
    options.regression = true;
    options.engine.seed = 1;
    if (qn_trainer_create(&options, &trainer) != QN_OK)
        stop(model->name);
    for (int i = 0; i < steps; i++) {
        if (qn_trainer_step(trainer, x, y, &result) != QN_OK)
            stop(model->name);
    }
    return trainer;
}

static void compare(const qn_model *model, int64_t batch, int steps, const char *folder,
                    bool is_outside) {
    const size_t n_x = (size_t)(batch * qn_shape_count(model->input));
    const int n_outputs = qn_model_classes(model, model->input);
    float *x = malloc(n_x * sizeof *x), *y = malloc((size_t)batch * (size_t)n_outputs * sizeof *y);
    char path[512];
    if (!x || !y)
        stop("memory");
    for (size_t i = 0; i < n_x; i++)
        x[i] = (float)qn_rng_normal(qn_rng_make(2, 3, 0), i);
    for (int64_t i = 0; i < batch * n_outputs; i++)
        y[i] = (float)qn_rng_normal(qn_rng_make(2, 4, 0), (uint64_t)i);
    qn_trainer *trainer = train(model, batch, steps, x, y);
    if (qn_trainer_predict(trainer, x, y) != QN_OK)
        stop("predict");
    snprintf(path, sizeof path, "%s/%s.onnx", folder, model->name);
    const qn_onnx_export_options options = {QN_OPTIONS_INIT(qn_onnx_export_options), .model = model,
                                            .engine = qn_trainer_engine(trainer),
                                            .is_outside = is_outside};
    if (qn_onnx_export(&options, path) != QN_OK)
        stop(path);
    float *moved = channels_second(x, batch, model->input);
    if (!moved)
        stop("memory");
    write_floats(folder, model->name, "x", moved, n_x);
    write_floats(folder, model->name, "y", y, (size_t)batch * (size_t)n_outputs);
    qn_trainer_destroy(trainer);
    free(moved);
    free(x);
    free(y);
}

int main(int n_arguments, char **arguments) {
    const qn_model *model = n_arguments > 4 ? qn_model_find(arguments[1]) : NULL;
    if (!model || !model->build)
        stop("usage: MODEL BATCH STEPS FOLDER [outside]");
    compare(model, atoi(arguments[2]), atoi(arguments[3]), arguments[4],
            n_arguments > 5 && strcmp(arguments[5], "outside") == 0);
    return 0;
}
