/* A model of one's own: two hidden layers that tell the arms of two spirals apart, trained batch by
 * batch with samples made here, saved, and loaded into a second trainer that gives the same answer.
 */
#include <quern/quern.h>

#include <math.h>
#include <stdio.h>

enum { BATCH = 64, STEPS = 1500, N_TESTS = 16 };

/* x (N, 2) -> logits (N, n_outputs). */
static qn_value build_spiral(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    x = qn_tanh(graph, NULL, qn_linear_layer(graph, "hidden1", x, 32));
    x = qn_tanh(graph, NULL, qn_linear_layer(graph, "hidden2", x, 32));
    return qn_linear_layer(graph, "output", x, n_outputs);
}

static const qn_model spiral = {
    .name = "spiral",
    .domain = "points in a plane",
    .source = "this file",
    .input = {.rank = 1, .dims = {2}},
    .n_classes = 2,
    .recipe = {.optimizer = QN_ADAM, .rate = 0.01, .schedule = QN_COSINE, .batch = BATCH},
    .build = build_spiral,
};

/* A number in [0, 1) that looks random. */
static float draw(uint32_t *state) {
    *state = *state * 1664525u + 1013904223u;
    return (float)(*state >> 8) / (float)(1 << 24);
}

/* Points of two spirals that wind around each other, and the arm each is of. */
static void make_batch(uint32_t *state, float *x /* (BATCH, 2) */, int32_t *y /* (BATCH) */) {
    for (int i = 0; i < BATCH; i++) {
        float t = draw(state), noise = 0.02f * (draw(state) - 0.5f);
        y[i] = draw(state) < 0.5f;
        float angle = 9.0f * t + (y[i] ? 3.14159265f : 0.0f);
        x[2 * i] = (t + noise) * cosf(angle);
        x[2 * i + 1] = (t + noise) * sinf(angle);
    }
}

static qn_status train(qn_trainer *trainer) {
    uint32_t state = 1;
    for (int step = 0; step < STEPS; step++) {
        float x[BATCH * 2];
        int32_t y[BATCH];
        qn_step_result result;
        make_batch(&state, x, y);
        qn_status status = qn_trainer_step(trainer, x, y, &result);
        if (status != QN_OK)
            return status;
        if (result.step % 300 == 0)
            printf("step %d: loss %.4f\n", (int)result.step, result.loss);
    }
    return QN_OK;
}

static qn_status test(qn_trainer *trainer, qn_evaluation *sum) {
    uint32_t state = 2;
    *sum = (qn_evaluation){0};
    for (int i = 0; i < N_TESTS; i++) {
        float x[BATCH * 2];
        int32_t y[BATCH];
        make_batch(&state, x, y);
        qn_status status = qn_trainer_evaluate(trainer, x, y, BATCH, sum);
        if (status != QN_OK)
            return status;
    }
    printf("%d of %d points are told apart\n", (int)sum->n_correct, (int)sum->n_samples);
    return QN_OK;
}

/* Trains one, saves it, and fills another from the file. */
static qn_status run(qn_trainer *one, qn_trainer *other, const char *path) {
    qn_evaluation before, after;
    qn_metadata *notes = NULL;
    qn_status status = train(one);
    if (status == QN_OK)
        status = test(one, &before);
    if (status == QN_OK)
        status = qn_metadata_create(NULL, &notes);
    if (status == QN_OK)
        status = qn_metadata_set(notes, "made-by", "own_model");
    if (status == QN_OK)
        status = qn_checkpoint_save(qn_trainer_engine(one), notes, path);
    qn_metadata_destroy(notes);
    if (status == QN_OK)
        status = qn_checkpoint_load(qn_trainer_engine(other), path, true);
    if (status == QN_OK)
        status = test(other, &after);
    if (status == QN_OK && (before.n_correct != after.n_correct || after.n_correct < 900))
        puts("that is not as it should be"), status = QN_ERROR_NUMERIC;
    return status;
}

int main(int n_arguments, char **arguments) {
    qn_trainer_options options = qn_trainer_options_for(&spiral);
    options.engine.update.schedule_steps = STEPS;
    qn_trainer *one = NULL, *other = NULL;
    qn_status status = qn_trainer_create(&options, &one);
    if (status == QN_OK)
        status = qn_trainer_create(&options, &other);
    if (status == QN_OK)
        status = run(one, other, n_arguments > 1 ? arguments[1] : "spiral.safetensors");
    if (status != QN_OK)
        fprintf(stderr, "own_model: %s\n", qn_error_message());
    qn_trainer_destroy(other);
    qn_trainer_destroy(one);
    return status != QN_OK;
}
