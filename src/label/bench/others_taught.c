/* Other methods that learn what labels have: logistic regression, support vectors and boosting, and
 * what the first two teach themselves; see others.h. */
#include "base/fmath.h"
#include "base/rng.h"
#include "label/bench/others.h"
#include "label/network/head.h"

#include <string.h>

enum { LANES = 16, HINGES = 20000, STUMPS = 100, QUESTIONS = 100 };
static const float sure = 0.6f;

/* ---- logistic regression ---- */

static void answer_by(const qn_head *head, const qn_others *o, int32_t *answers, int32_t *taught) {
    for (int i = o->n_labelled; i < o->n; i++) {
        float p[QN_HEAD_MOST_OUTPUTS];
        int best = 0;
        qn_head_look(head, o->z + i * o->d, p);
        for (int c = 1; c < o->n_known; c++)
            best = p[c] > p[best] ? c : best;
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

/* The answer of linear machines, one a class, and by how much it is ahead.
 * weight (n_known, d + 1) */
static int ask_machines(const qn_others *o, const float *weight, const float *z, float *ahead) {
    float first = -1e30f, second = -1e30f;
    int best = 0;
    for (int c = 0; c < o->n_known; c++) {
        const float *w = weight + c * (o->d + 1);
        float sum = w[o->d];
        for (int j = 0; j < o->d; j++)
            sum += w[j] * z[j];
        second = sum > first ? first : sum > second ? sum : second;
        best = sum > first ? c : best;
        first = sum > first ? sum : first;
    }
    *ahead = first - second;
    return best;
}

/* Machines of one class against all others by subgradients of the hinge loss (Shalev-Shwartz et al.
 * 2007, "Pegasos"). */
static void fit_machines(const qn_others *o, const int32_t *taught, float *weight) {
    const qn_rng rng = qn_rng_make(o->seed, qn_hash_text("label.machines"), 0);
    const float decay = 1e-3f;
    const int n = o->d + 1;
    memset(weight, 0, (size_t)(o->n_known * n) * sizeof *weight);
    for (int step = 0; step < HINGES; step++) {
        const int i = (int)qn_rng_below(rng, (uint64_t)step, (uint64_t)o->n);
        const float *z = o->z + i * o->d, rate = 1.0f / (decay * (float)(step + 1000));
        for (int c = 0; c < o->n_known && taught[i] >= 0; c++) {
            float *w = weight + c * n, sum = w[o->d];
            const float side = taught[i] == c ? 1.0f : -1.0f;
            for (int j = 0; j < o->d; j++)
                sum += w[j] * z[j];
            for (int j = 0; j < n; j++)
                w[j] *= 1.0f - rate * decay;
            for (int j = 0; j < n && side * sum < 1; j++)
                w[j] += rate * side * (j < o->d ? z[j] : 1.0f);
        }
    }
}

/* Two rounds of teaching themselves what they put outside their margin. */
qn_status qn_other_machines(const qn_others *o, int32_t *answers) {
    qn_arena arena;
    qn_arena_init(&arena, o->allocator);
    float *weight = qn_arena_allocate(&arena, (size_t)(o->n_known * (o->d + 1)), sizeof *weight);
    int32_t *taught = qn_arena_allocate(&arena, (size_t)o->n, sizeof *taught);
    const bool is_made = weight && taught;
    for (int i = 0; is_made && i < o->n; i++)
        taught[i] = i < o->n_labelled ? o->label[i] : -1;
    for (int round = 0; is_made && round < 3; round++) {
        fit_machines(o, taught, weight);
        for (int i = o->n_labelled; i < o->n; i++) {
            float ahead;
            answers[i] = ask_machines(o, weight, o->z + i * o->d, &ahead);
            taught[i] = ahead > 1 ? answers[i] : -1;
        }
    }
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- boosting ---- */

/* A question about one feature, and the class of each answer. */
typedef struct stump {
    int feature, below, above;
    float limit, say;
} stump;

/* Weight of what each side of a limit holds of each class: sums (2, n_known). */
static void weigh_sides(const qn_others *o, int feature, float limit, const float *weight,
                        float *sums) {
    memset(sums, 0, 2 * (size_t)o->n_known * sizeof *sums);
    for (int i = 0; i < o->n_labelled; i++)
        sums[(o->z[i * o->d + feature] > limit) * o->n_known + o->label[i]] += weight[i];
}

static int heaviest(const float *sums, int n) {
    int best = 0;
    for (int c = 1; c < n; c++)
        best = sums[c] > sums[best] ? c : best;
    return best;
}

/* The best of drawn questions: a labelled sample's number is the limit. */
static stump find_stump(const qn_others *o, int round, const float *weight, float *sums,
                        float *right) {
    const qn_rng rng = qn_rng_make(o->seed, qn_hash_text("label.stumps"), (uint64_t)round);
    stump best = {.limit = 0};
    *right = -1;
    for (uint64_t k = 0; k < QUESTIONS; k++) {
        const int feature = (int)qn_rng_below(rng, 2 * k, (uint64_t)o->d);
        const int at = (int)qn_rng_below(rng, 2 * k + 1, (uint64_t)o->n_labelled);
        const float limit = o->z[at * o->d + feature];
        weigh_sides(o, feature, limit, weight, sums);
        const int below = heaviest(sums, o->n_known),
                  above = heaviest(sums + o->n_known, o->n_known);
        const float both = sums[below] + sums[o->n_known + above];
        if (both > *right) {
            *right = both;
            best = (stump){feature, below, above, limit, 0};
        }
    }
    return best;
}

static int ask_stump(const stump *s, const float *z) {
    return z[s->feature] > s->limit ? s->above : s->below;
}

/* Questions that weigh what those before answered wrong (Zhu et al. 2009, "SAMME"). */
static void boost(const qn_others *o, stump *stumps, float *weight, float *sums) {
    for (int i = 0; i < o->n_labelled; i++)
        weight[i] = 1.0f / (float)o->n_labelled;
    for (int round = 0; round < STUMPS; round++) {
        float right, sum = 0;
        stumps[round] = find_stump(o, round, weight, sums, &right);
        right = right < 1e-6f ? 1e-6f : right > 0.999999f ? 0.999999f : right;
        const float say =
            qn_log1p_f32(right / (1 - right) - 1) + qn_log1p_f32((float)o->n_known - 2);
        stumps[round].say = say > 0 ? say : 0;
        for (int i = 0; i < o->n_labelled; i++) {
            if (ask_stump(&stumps[round], o->z + i * o->d) != o->label[i])
                weight[i] *= qn_exp_f32(stumps[round].say);
            sum += weight[i];
        }
        for (int i = 0; i < o->n_labelled; i++)
            weight[i] /= sum;
    }
}

qn_status qn_other_boosting(const qn_others *o, int32_t *answers) {
    stump stumps[STUMPS];
    qn_arena arena;
    qn_arena_init(&arena, o->allocator);
    float *weight = qn_arena_allocate(&arena, (size_t)o->n_labelled, sizeof *weight);
    float *sums = qn_arena_allocate(&arena, 2 * (size_t)o->n_known, sizeof *sums);
    const bool is_made = weight && sums;
    if (is_made)
        boost(o, stumps, weight, sums);
    for (int i = o->n_labelled; is_made && i < o->n; i++) {
        memset(sums, 0, (size_t)o->n_known * sizeof *sums);
        for (int k = 0; k < STUMPS; k++)
            sums[ask_stump(&stumps[k], o->z + i * o->d)] += stumps[k].say;
        answers[i] = heaviest(sums, o->n_known);
    }
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}
