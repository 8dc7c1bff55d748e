/* Trains a classifier of the zoo by numerics on chance data, for a comparison elsewhere:
 *     train_integer MODEL SIDE BATCH STEPS NUMERICS FOLDER
 * FOLDER gets 0.st to STEPS.st, checkpoints before the first step and after each, x, the batches as
 * floats (STEPS, N, H, W, C), and y, their classes (STEPS, N) as int32. */
#include "base/rng.h"
#include "quern/quern.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>

enum { SEED = 7 };

static void stop(const char *what) {
    fprintf(stderr, "train_integer: %s: %s\n", what, qn_error_message());
    exit(1);
}

static const char *path_in(const char *folder, const char *name) {
    static char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void write_bytes(const char *folder, const char *name, const void *data, size_t bytes) {
    FILE *file = fopen(path_in(folder, name), "wb");
    if (!file || fwrite(data, 1, bytes, file) != bytes || fclose(file) != 0)
        stop(name);
}

static void save(const qn_trainer *trainer, int step, const char *folder) {
    char name[32];
    snprintf(name, sizeof name, "%d.st", step);
    if (qn_checkpoint_save(qn_trainer_engine(trainer), NULL, path_in(folder, name)) != QN_OK)
        stop(name);
}

static qn_trainer *make_trainer(const char *const *words) {
    const int side = atoi(words[2]);
    qn_numerics *numerics;
    qn_trainer *trainer;
    const qn_model *model = qn_model_find(words[1]);
    if (!model || qn_numerics_create(NULL, words[5], &numerics) != QN_OK)
        stop(words[1]);
    qn_trainer_options options = qn_trainer_options_for(model);
    options.input = QN_SHAPE(side, side, model->input.dims[2]);
    options.batch = options.evaluation_batch = atoi(words[3]);
    options.engine.numerics = numerics;
    options.engine.seed = SEED;
    options.engine.update.schedule_steps = atoi(words[4]);
    if (qn_trainer_create(&options, &trainer) != QN_OK)
        stop(words[1]);
    qn_numerics_destroy(numerics);
    return trainer;
}

static void train(qn_trainer *trainer, int64_t batch, int n_steps, int64_t n_sample,
                  const char *folder) {
    const int64_t n = batch * n_sample;
    float *x = malloc((size_t)(n_steps * n) * sizeof *x);
    int32_t *y = malloc((size_t)(n_steps * batch) * sizeof *y);
    qn_step_result result;
    if (!x || !y)
        stop("memory");
    for (int64_t i = 0; i < n_steps * batch; i++)
        y[i] = (int32_t)qn_rng_below(qn_rng_make(2, 3, 0), (uint64_t)i, 10);
    /* brighter by class, so that there is something to learn */
    for (int64_t i = 0; i < n_steps * n; i++)
        x[i] = (float)(qn_rng_normal(qn_rng_make(2, 4, 0), (uint64_t)i) +
                       (i % n_sample * 10 / n_sample == y[i / n_sample] ? 2 : 0));
    save(trainer, 0, folder);
    for (int step = 0; step < n_steps; step++) {
        if (qn_trainer_step(trainer, x + step * n, y + step * batch, &result) != QN_OK)
            stop("step");
        save(trainer, step + 1, folder);
    }
    write_bytes(folder, "x", x, (size_t)(n_steps * n) * sizeof *x);
    write_bytes(folder, "y", y, (size_t)(n_steps * batch) * sizeof *y);
    free(x);
    free(y);
}

int main(int n_arguments, char **arguments) {
    const char *const *words = (const char *const *)arguments;
    if (n_arguments != 7) {
        fprintf(stderr, "usage: train_integer MODEL SIDE BATCH STEPS NUMERICS FOLDER\n");
        return 2;
    }
    qn_trainer *trainer = make_trainer(words);
    const int64_t side = atoi(words[2]), channels = qn_model_find(words[1])->input.dims[2];
    train(trainer, atoi(words[3]), atoi(words[4]), side * side * channels, words[6]);
    qn_trainer_destroy(trainer);
    return 0;
}
