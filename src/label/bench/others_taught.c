/* Other methods that learn what labels have: logistic regression, support vectors and boosting, and
 * what the first two teach themselves; see others.h. */
#include "base/rng.h"
#include "label/bench/machines.h"
#include "label/bench/others.h"
#include "label/bench/points.h"
#include "label/network/head.h"

#include <string.h>

enum { LANES = 16, HINGES = 20000, STUMPS = 100, QUESTIONS = 100 };
static const float sure = 0.6f;

/* ---- logistic regression ---- */

static void answer_by(const qn_head *head, const qn_others *o, int32_t *answers, int32_t *taught) {
    for (int i = o->n_labelled; i < o->n; i++) {
        float p[QN_HEAD_MOST_OUTPUTS];
        qn_head_look(head, o->z + i * o->d, p);
        const int best = qn_largest(p, o->n_known);
        answers[i] = best;
        taught[i] = p[best] > sure ? best : -1;
    }
}

/* Rounds of learning the labels, and what the round before was sure of. */
static qn_status by_head(const qn_others *o, int rounds, int32_t *answers) {
    const int outputs = (o->n_known + LANES - 1) / LANES * LANES;
    const size_t n_weights = (size_t)(outputs * (o->d + 1));
    uint8_t is_open[QN_HEAD_MOST_OUTPUTS] = {0};
    qn_arena arena;
    qn_arena_init(&arena, o->allocator);
    qn_head head = {.d = o->d,
                    .n_outputs = outputs,
                    .weight = qn_arena_allocate(&arena, n_weights, sizeof(float)),
                    .is_open = is_open};
    float *room = qn_arena_allocate(&arena, 2 * n_weights + 1, sizeof(float));
    float *weight = qn_arena_allocate(&arena, (size_t)o->n, sizeof(float));
    int32_t *taught = qn_arena_allocate(&arena, (size_t)o->n, sizeof(int32_t));
    const bool is_made = head.weight && room && weight && taught;
    memset(is_open, 1, (size_t)o->n_known);
    for (int i = 0; is_made && i < o->n; i++) {
        taught[i] = i < o->n_labelled ? o->label[i] : -1;
        weight[i] = 1;
    }
    for (int round = 0; is_made && round < rounds; round++) {
        qn_head_fit(&head, o->n, o->z, taught, weight, 60, room);
        answer_by(&head, o, answers, taught);
    }
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}

qn_status qn_other_transfer(const qn_others *o, int32_t *answers) {
    return by_head(o, 1, answers);
}

qn_status qn_other_self_training(const qn_others *o, int32_t *answers) {
    return by_head(o, 4, answers);
}

/* ---- support vectors ---- */

/* By how much the first of them is ahead of all others. */
static float lead_of(const float *say, int n, int first) {
    float second = -1e30f;
    for (int c = 0; c < n; c++)
        second = c != first && say[c] > second ? say[c] : second;
    return say[first] - second;
}

/* Two rounds of teaching themselves what they put outside their margin. */
qn_status qn_other_machines(const qn_others *o, int32_t *answers) {
    qn_arena arena;
    qn_arena_init(&arena, o->allocator);
    float *weight = qn_arena_allocate(&arena, (size_t)(o->n_known * (o->d + 1)), sizeof *weight);
    float *say = qn_arena_allocate(&arena, (size_t)o->n_known, sizeof *say);
    int32_t *label = qn_arena_allocate(&arena, (size_t)o->n, sizeof *label);
    const bool is_made = weight && say && label;
    const qn_taught taught = {o->n, o->d, o->n_known, o->z, label};
    const qn_machines_options options = {
        .rng = qn_rng_make(o->seed, qn_hash_text("label.machines"), 0),
        .end = HINGES,
        .warm = 1000,
        .bias = 1,
        .decays_bias = true};
    for (int i = 0; is_made && i < o->n; i++)
        label[i] = i < o->n_labelled ? o->label[i] : -1;
    for (int round = 0; is_made && round < 3; round++) {
        qn_machines_fit(&taught, &options, weight);
        for (int i = o->n_labelled; i < o->n; i++) {
            qn_machines_ask(weight, o->n_known, o->d, o->z + i * o->d, say);
            answers[i] = qn_largest(say, o->n_known);
            label[i] = lead_of(say, o->n_known, answers[i]) > 1 ? answers[i] : -1;
        }
    }
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- boosting ---- */

qn_status qn_other_boosting(const qn_others *o, int32_t *answers) {
    qn_stump stumps[STUMPS];
    qn_arena arena;
    qn_arena_init(&arena, o->allocator);
    float *weight = qn_arena_allocate(&arena, (size_t)o->n_labelled, sizeof *weight);
    float *sums = qn_arena_allocate(&arena, 2 * (size_t)o->n_known, sizeof *sums);
    const bool is_made = weight && sums;
    const qn_taught taught = {o->n_labelled, o->d, o->n_known, o->z, o->label};
    const qn_stumps_options options = {.n_drawn = QUESTIONS, .seed = o->seed, .slack = 1e-6f};
    if (is_made)
        qn_stumps_fit(&taught, &options, STUMPS, stumps, weight, sums);
    for (int i = o->n_labelled; is_made && i < o->n; i++) {
        qn_stumps_ask(stumps, STUMPS, o->n_known, o->z + i * o->d, sums);
        answers[i] = qn_largest(sums, o->n_known);
    }
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}
