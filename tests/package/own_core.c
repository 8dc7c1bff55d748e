/* A model of one's own on the core alone, without file formats, data sets and the zoo: it learns
 * which of two numbers is the larger, from batches made here, and counts what it gets right. */
#include <quern/trainer.h>

#include <stdio.h>

enum { BATCH = 32, STEPS = 300 };

/* x (N, 2) -> logits (N, n_outputs). */
static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    return qn_linear_layer(graph, "output", x, n_outputs);
}

static const qn_model larger = {
    .name = "larger",
    .domain = "pairs of numbers",
    .source = "this file",
    .input = {.rank = 1, .dims = {2}},
    .n_classes = 2,
    .recipe = {.optimizer = QN_ADAM, .rate = 0.05, .schedule = QN_CONSTANT, .batch = BATCH},
    .build = build,
};

static void make_batch(uint32_t *state, float *x /* (BATCH, 2) */, int32_t *y /* (BATCH) */) {
    for (int i = 0; i < 2 * BATCH; i++) {
        *state = *state * 1664525u + 1013904223u;
        x[i] = (float)(*state >> 8) / (float)(1 << 24);
    }
    for (int i = 0; i < BATCH; i++)
        y[i] = x[2 * i + 1] > x[2 * i];
}

/* Trains, and counts in a batch that was not trained on. */
static qn_status run(qn_trainer *trainer, qn_evaluation *sum) {
    float x[BATCH * 2];
    int32_t y[BATCH];
    uint32_t state = 1;
    qn_step_result result;
    for (int step = 0; step < STEPS; step++) {
        make_batch(&state, x, y);
        qn_status status = qn_trainer_step(trainer, x, y, &result);
        if (status != QN_OK)
            return status;
    }
    make_batch(&state, x, y);
    return qn_trainer_evaluate(trainer, x, y, BATCH, sum);
}

int main(void) {
    qn_trainer_options options = qn_trainer_options_for(&larger);
    qn_trainer *trainer = NULL;
    qn_evaluation sum = {0};
    qn_status status = qn_trainer_create(&options, &trainer);
    if (status == QN_OK)
        status = run(trainer, &sum);
    if (status != QN_OK)
        fprintf(stderr, "own_core: %s\n", qn_error_message());
    printf("%d of %d pairs are told right\n", (int)sum.n_correct, (int)sum.n_samples);
    qn_trainer_destroy(trainer);
    return status != QN_OK || sum.n_correct < BATCH - 3;
}
