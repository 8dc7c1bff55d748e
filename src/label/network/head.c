/* See head.h. */
#include "label/network/head.h"

#include "base/fmath.h"

#include <string.h>

/* ---- whitening ---- */

/* Means of the classes in room: (n_classes, d), and counts after them. */
static void measure_means(int n, int d, const float *z, const int32_t *label, int n_classes,
                          float *room) {
    float *count = room + n_classes * d;
    memset(room, 0, (size_t)(n_classes * (d + 1)) * sizeof *room);
    for (int i = 0; i < n; i++) {
        if (label[i] < 0)
            continue;
        count[label[i]] += 1.0f;
        for (int j = 0; j < d; j++)
            room[label[i] * d + j] += z[i * d + j];
    }
    for (int c = 0; c < n_classes; c++)
        for (int j = 0; j < d && count[c] > 0; j++)
            room[c * d + j] /= count[c];
}

/* Adds the products of a sample's deviations from its class to the lower triangle. */
static void add_products(qn_whitening *v, const float *z, const float *mean) {
    float off[QN_HEAD_MOST_FEATURES];
    for (int j = 0; j < v->d; j++)
        off[j] = z[j] - mean[j];
    for (int i = 0; i < v->d; i++)
        for (int j = 0; j <= i; j++)
            v->w[i][j] += off[i] * off[j];
}

/* The lower triangle becomes its Cholesky factor, row by row. */
static void factorise(qn_whitening *v) {
    for (int i = 0; i < v->d; i++)
        for (int j = 0; j <= i; j++) {
            float sum = v->w[i][j];
            for (int k = 0; k < j; k++)
                sum -= v->w[i][k] * v->w[j][k];
            if (i == j)
                v->w[i][i] = __builtin_sqrtf(sum > 1e-12f ? sum : 1e-12f);
            else
                v->w[i][j] = sum / v->w[j][j];
        }
}

/* The inverse of the factor, column by column by forward substitution, into the rows from the
 * diagonal on: what is read of the factor for later columns is below it. */
static void invert(qn_whitening *v) {
    for (int j = 0; j < v->d; j++) {
        float column[QN_HEAD_MOST_FEATURES];
        for (int i = j; i < v->d; i++) {
            float sum = i == j ? 1.0f : 0.0f;
            for (int k = j; k < i; k++)
                sum -= v->w[i][k] * column[k];
            column[i] = sum / v->w[i][i];
        }
        for (int i = j; i < v->d; i++)
            v->w[j][i] = column[i];
    }
}

/* Puts what invert left in the rows above the diagonal below it, where apply reads it. */
static void turn(qn_whitening *v) {
    for (int i = 0; i < v->d; i++)
        for (int j = 0; j < i; j++)
            v->w[i][j] = v->w[j][i];
}

void qn_whitening_measure(qn_whitening *v, int n, int d, const float *z, const int32_t *label,
                          int n_classes, float shrink, float *room) {
    float trace = 0;
    int counted = 0;
    *v = (qn_whitening){.d = d};
    float *mean = v->w[QN_HEAD_MOST_FEATURES];
    measure_means(n, d, z, label, n_classes, room);
    for (int i = 0; i < n; i++) {
        if (label[i] < 0)
            continue;
        counted++;
        add_products(v, z + i * d, room + label[i] * d);
        for (int j = 0; j < d; j++)
            mean[j] += z[i * d + j];
    }
    const float each = counted > 0 ? 1.0f / (float)counted : 0.0f;
    for (int j = 0; j < d; j++) {
        mean[j] *= each;
        trace += v->w[j][j] * each;
    }
    trace = trace > 1e-8f ? trace / (float)d : 1.0f;
    for (int i = 0; i < d; i++)
        for (int j = 0; j <= i; j++)
            v->w[i][j] = v->w[i][j] * each * (1.0f - shrink) + (i == j ? shrink * trace : 0.0f);
    factorise(v);
    invert(v);
    turn(v);
}

void qn_whitening_apply(const qn_whitening *v, int n, float *z) {
    float from[QN_HEAD_MOST_FEATURES];
    const float *mean = v->w[QN_HEAD_MOST_FEATURES];
    for (int s = 0; s < n; s++, z += v->d) {
        for (int j = 0; j < v->d; j++)
            from[j] = z[j] - mean[j];
        for (int i = 0; i < v->d; i++) {
            float sum = 0;
            for (int j = 0; j <= i; j++)
                sum += v->w[i][j] * from[j];
            z[i] = sum;
        }
    }
}

/* ---- the classifier ---- */

enum { LANES = 16 };
static const float rate = 0.05f, decay = 1e-3f;

void qn_head_count_used(qn_head *head) {
    int n = head->n_outputs;
    while (n > 1 && !head->is_open[n - 1])
        n--;
    n = (n + LANES - 1) / LANES * LANES;
    head->n_used = n < head->n_outputs ? n : head->n_outputs;
}

static int outputs_in_use(const qn_head *head) {
    return head->n_used > 0 ? head->n_used : head->n_outputs;
}

void qn_head_look(const qn_head *head, const float *z, float *p) {
    float most = -1e30f, sum = 0;
    const int n = outputs_in_use(head);
    memset(p, 0, (size_t)head->n_outputs * sizeof *p);
    memcpy(p, head->weight + head->d * head->n_outputs, (size_t)n * sizeof *p);
    for (int j = 0; j < head->d; j++) {
        const float *w = head->weight + j * head->n_outputs;
        for (int c = 0; c < n; c++)
            p[c] += w[c] * z[j];
    }
    for (int c = 0; c < n; c++)
        most = head->is_open[c] && p[c] > most ? p[c] : most;
    for (int c = 0; c < n; c++) {
        p[c] = head->is_open[c] ? qn_exp_f32(p[c] - most) : 0.0f;
        sum += p[c];
    }
    for (int c = 0; c < n; c++)
        p[c] /= sum;
}

/* Takes from p the probabilities of a sample's classes by clues. */
static void take_clues(const qn_head *head, const qn_head_clues *clues, int sample, float *p) {
    const int n = outputs_in_use(head);
    const float *ratio = clues->ratio + clues->period[sample] * head->n_outputs;
    const float *share = clues->share + clues->cell[sample] * head->n_outputs;
    float may[QN_HEAD_MOST_OUTPUTS], sum = 1e-20f;
    for (int c = 0; c < n; c++) {
        may[c] = (clues->own * p[c] + (1.0f - clues->own) * share[c]) * ratio[c];
        sum += may[c];
    }
    for (int c = 0; c < n; c++)
        p[c] -= may[c] / sum;
}

/* Of a sample with a label from 0 on, or with clues. */
static void add_gradient(const qn_head *head, const float *z, int label, const qn_head_clues *clues,
                         int sample, float weight, float *g) {
    float p[QN_HEAD_MOST_OUTPUTS];
    const int n = outputs_in_use(head);
    qn_head_look(head, z, p);
    if (label < 0)
        take_clues(head, clues, sample, p);
    else
        p[label] -= 1.0f;
    for (int c = 0; c < n; c++)
        p[c] *= weight;
    for (int j = 0; j < head->d; j++)
        for (int c = 0; c < n; c++)
            g[j * head->n_outputs + c] += p[c] * z[j];
    for (int c = 0; c < n; c++)
        g[head->d * head->n_outputs + c] += p[c];
}

void qn_head_gather(qn_head *head, int begin, int end, const float *z, const int32_t *label,
                    const float *weight, const qn_head_clues *clues, float *room) {
    const size_t n_weights = (size_t)head->n_outputs * (size_t)(head->d + 1);
    float *total = room + 2 * n_weights;
    if (begin == 0) {
        memset(room, 0, n_weights * sizeof *room);
        *total = 0;
    }
    for (int i = begin; i < end; i++) {
        if ((label[i] < 0 && !clues) || !(weight[i] > 0))
            continue;
        add_gradient(head, z + i * head->d, label[i], clues, i, weight[i], room);
        *total += weight[i];
    }
}

/* By the sign and relative size of gradients (RMSprop: Tieleman and Hinton 2012); steps get
 * smaller. */
void qn_head_move(qn_head *head, int step, int n_steps, float least, float *room) {
    const int n_weights = head->n_outputs * (head->d + 1);
    const float *gradient = room, total = room[2 * n_weights];
    const float slow = rate * (1.0f - (float)step / (float)n_steps);
    float *square = room + n_weights;
    for (int i = 0; i < n_weights && total > 0; i++) {
        const float g = gradient[i] / total + decay * head->weight[i];
        square[i] = step == 0 ? g * g : 0.9f * square[i] + 0.1f * g * g;
        head->weight[i] -= slow * g / (__builtin_sqrtf(square[i]) + least);
    }
}

void qn_head_fit(qn_head *head, int n, const float *z, const int32_t *label, const float *weight,
                 int n_steps, float *room) {
    for (int step = 0; step < n_steps; step++) {
        qn_head_gather(head, 0, n, z, label, weight, NULL, room);
        qn_head_move(head, step, n_steps, 1e-6f, room);
    }
}
