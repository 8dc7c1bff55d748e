/* See rules.h. Nearest sample and nearest mean: a sample is new if its distance to everything known
 * exceeds that of nineteen of twenty labelled samples. Micro-clusters, after MINAS (Faria, Carvalho
 * and Gama 2016, "MINAS: multiclass learning algorithm for novelty detection in data streams"):
 * k-means divides each class into balls; samples outside all balls are unknown and stored. When
 * enough are stored, k-means looks for dense balls among them, which extend the nearest known class
 * or, if that is far, form a new one. */
#include "label/bench/rules.h"

#include "base/memory.h"
#include "base/status.h"
#include "label/select.h"

#include <string.h>

static float square_distance(const float *a, const float *b, int d) {
    float sum = 0;
    for (int j = 0; j < d; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

/* ---- nearest sample, nearest mean ---- */

/* points (n, d) with their classes; beyond limit a sample is new. */
typedef struct nearest {
    int n, d;
    float *points;
    int32_t *class_of;
    float limit; /* of the squared distance */
} nearest;

static int find_nearest(const nearest *r, const float *x, int but, float *square) {
    int best = -1;
    for (int i = 0; i < r->n; i++) {
        const float s = i == but ? 3e38f : square_distance(r->points + i * r->d, x, r->d);
        if (best < 0 || s < *square) {
            *square = s;
            best = i;
        }
    }
    return best;
}

static void nearest_destroy(const qn_allocator *allocator, void *self) {
    nearest *r = self;
    if (!r)
        return;
    qn_release(allocator, r->points, (size_t)r->n * (size_t)r->d, sizeof(float));
    qn_release(allocator, r->class_of, (size_t)r->n, sizeof *r->class_of);
    qn_release(allocator, r, 1, sizeof *r);
}

static qn_status make_nearest(const qn_allocator *allocator, int n, int d, nearest **made) {
    nearest *r;
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    r->n = n;
    r->d = d;
    qn_status status = qn_allocate(allocator, (size_t)n * (size_t)d, sizeof(float), &r->points);
    if (status == QN_OK)
        status = qn_allocate(allocator, (size_t)n, sizeof *r->class_of, &r->class_of);
    if (status != QN_OK) {
        nearest_destroy(allocator, r);
        return status;
    }
    *made = r;
    return QN_OK;
}

/* Sets the limit by the labelled samples themselves. */
static qn_status set_limit(const qn_allocator *allocator, nearest *r, const qn_label_known *known,
                           bool are_same) {
    float *squares;
    QN_TRY(qn_allocate(allocator, (size_t)known->n, sizeof *squares, &squares));
    for (int i = 0; i < known->n; i++)
        find_nearest(r, known->x + i * known->d, are_same ? i : -1, &squares[i]);
    r->limit = qn_select_smallest(squares, known->n, known->n - 1 - known->n / 20);
    qn_release(allocator, squares, (size_t)known->n, sizeof *squares);
    return QN_OK;
}

static qn_status finish_nearest(const qn_allocator *allocator, nearest *r,
                                const qn_label_known *known, bool are_same, void **self) {
    const qn_status status = set_limit(allocator, r, known, are_same);
    if (status != QN_OK) {
        nearest_destroy(allocator, r);
        return status;
    }
    *self = r;
    return QN_OK;
}

static qn_status sample_create(const qn_allocator *allocator, const qn_label_known *known,
                               void **self) {
    nearest *r;
    QN_TRY(make_nearest(allocator, known->n, known->d, &r));
    memcpy(r->points, known->x, (size_t)known->n * (size_t)known->d * sizeof(float));
    memcpy(r->class_of, known->label, (size_t)known->n * sizeof *r->class_of);
    return finish_nearest(allocator, r, known, true, self);
}

static qn_status mean_create(const qn_allocator *allocator, const qn_label_known *known,
                             void **self) {
    nearest *r;
    QN_TRY(make_nearest(allocator, known->n_classes, known->d, &r));
    for (int c = 0; c < known->n_classes; c++) {
        float *mean = r->points + c * known->d;
        int n = 0;
        r->class_of[c] = c;
        for (int i = 0; i < known->n; i++) {
            n += known->label[i] == c;
            for (int j = 0; known->label[i] == c && j < known->d; j++)
                mean[j] += known->x[i * known->d + j];
        }
        for (int j = 0; j < known->d && n > 0; j++)
            mean[j] /= (float)n;
    }
    return finish_nearest(allocator, r, known, false, self);
}

static int nearest_add(void *self, const float *x) {
    const nearest *r = self;
    float square = 0;
    const int best = find_nearest(r, x, -1, &square);
    return square > r->limit ? -1 : r->class_of[best];
}

/* ---- micro-clusters ---- */

enum {
    BALLS = 600,      /* at most */
    CLASS_BALLS = 50, /* of a class */
    KEPT = 500,       /* unknown samples that are looked at together */
    NEW_BALLS = 20,   /* that these are cut into */
    LEAST_MEMBERS = 15,
    MEANS_STEPS = 10,
    MOST_FEATURES = 128
};

static const float reach = 2.0f; /* radius of a ball in deviations of its members */

typedef struct ball {
    float centre[MOST_FEATURES];
    float radius;
    int class_of; /* -1: a novelty */
    int n_members;
} ball;

typedef struct micro {
    int d, n_balls, n_kept;
    float *kept; /* (KEPT, d) */
    ball balls[BALLS];
} micro;

/* Cuts samples x (n, d) into at most k balls by k-means that starts with every n/k-th sample. */
static int cut(const float *x, int n, int d, int k, ball *balls) {
    float sum[CLASS_BALLS][MOST_FEATURES], squares[CLASS_BALLS];
    k = k > n ? n : k;
    for (int b = 0; b < k; b++)
        memcpy(balls[b].centre, x + (int64_t)b * n / k * d, (size_t)d * sizeof *x);
    for (int step = 0; step < MEANS_STEPS; step++) {
        memset(sum, 0, sizeof sum);
        memset(squares, 0, sizeof squares);
        for (int b = 0; b < k; b++)
            balls[b].n_members = 0;
        for (int i = 0; i < n; i++) {
            int best = 0;
            float least = 3e38f;
            for (int b = 0; b < k; b++) {
                const float s = square_distance(balls[b].centre, x + i * d, d);
                best = s < least ? b : best;
                least = s < least ? s : least;
            }
            balls[best].n_members++;
            squares[best] += least;
            for (int j = 0; j < d; j++)
                sum[best][j] += x[i * d + j];
        }
        for (int b = 0; b < k; b++) {
            const float count = (float)(balls[b].n_members ? balls[b].n_members : 1);
            balls[b].radius = reach * __builtin_sqrtf(squares[b] / count);
            for (int j = 0; j < d && balls[b].n_members && step < MEANS_STEPS - 1; j++)
                balls[b].centre[j] = sum[b][j] / count;
        }
    }
    return k;
}

static const ball *nearest_ball(const micro *m, const float *x, float *distance) {
    const ball *best = NULL;
    float least = 3e38f;
    for (int b = 0; b < m->n_balls; b++) {
        const float s = square_distance(m->balls[b].centre, x, m->d);
        if (s < least) {
            least = s;
            best = &m->balls[b];
        }
    }
    *distance = __builtin_sqrtf(least);
    return best;
}

static void micro_destroy(const qn_allocator *allocator, void *self) {
    micro *m = self;
    if (!m)
        return;
    qn_release(allocator, m->kept, (size_t)KEPT * (size_t)m->d, sizeof(float));
    qn_release(allocator, m, 1, sizeof *m);
}

static qn_status cut_classes(const qn_allocator *allocator, const qn_label_known *known, micro *m) {
    float *x;
    const size_t bytes = (size_t)known->d * sizeof *x;
    QN_TRY(qn_allocate(allocator, (size_t)known->n, bytes, &x));
    for (int c = 0; c < known->n_classes && m->n_balls <= BALLS - CLASS_BALLS; c++) {
        int n = 0;
        for (int i = 0; i < known->n; i++)
            if (known->label[i] == c)
                memcpy(x + n++ * known->d, known->x + i * known->d, bytes);
        const int n_balls = cut(x, n, known->d, CLASS_BALLS, m->balls + m->n_balls);
        for (int b = 0; b < n_balls; b++)
            m->balls[m->n_balls++].class_of = c;
    }
    qn_release(allocator, x, (size_t)known->n, bytes);
    return QN_OK;
}

static qn_status micro_create(const qn_allocator *allocator, const qn_label_known *known,
                              void **self) {
    micro *m;
    if (known->d > MOST_FEATURES)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "micro-clusters with %d features; at most %d are supported", known->d,
                       MOST_FEATURES);
    QN_TRY(qn_allocate(allocator, 1, sizeof *m, &m));
    m->d = known->d;
    qn_status status = qn_allocate(allocator, (size_t)KEPT * (size_t)m->d, sizeof(float), &m->kept);
    if (status == QN_OK)
        status = cut_classes(allocator, known, m);
    if (status != QN_OK) {
        micro_destroy(allocator, m);
        return status;
    }
    *self = m;
    return QN_OK;
}

/* Dense balls of what was kept join the others. */
static void learn_kept(micro *m) {
    ball found[CLASS_BALLS];
    const int n = cut(m->kept, m->n_kept, m->d, NEW_BALLS, found);
    for (int b = 0; b < n && m->n_balls < BALLS; b++) {
        float distance = 0;
        const ball *near = nearest_ball(m, found[b].centre, &distance);
        if (found[b].n_members < LEAST_MEMBERS || !near || found[b].radius > 2 * reach * distance)
            continue;
        found[b].class_of = distance <= near->radius * reach ? near->class_of : -1;
        m->balls[m->n_balls++] = found[b];
    }
    m->n_kept = 0;
}

static int micro_add(void *self, const float *x) {
    micro *m = self;
    float distance = 0;
    const ball *near = nearest_ball(m, x, &distance);
    if (near && distance <= near->radius)
        return near->class_of;
    memcpy(m->kept + m->n_kept++ * m->d, x, (size_t)m->d * sizeof *x);
    if (m->n_kept == KEPT)
        learn_kept(m);
    return -1;
}

static const qn_label_rule by_sample = {"nearest labelled sample", sample_create, nearest_destroy,
                                        nearest_add};
static const qn_label_rule by_mean = {"nearest class mean", mean_create, nearest_destroy,
                                      nearest_add};
static const qn_label_rule by_balls = {"micro-clusters (MINAS)", micro_create, micro_destroy,
                                       micro_add};

static const qn_label_rule *const rules[] = {
    &by_sample,         &by_mean,       &qn_rule_self_training,
    &qn_rule_spreading, &qn_rule_means, &qn_rule_vectors,
    &qn_rule_boosting,  &by_balls,      &qn_rule_outliers,
};

const qn_label_rule *qn_label_rule_at(int index) {
    return index < (int)(sizeof rules / sizeof rules[0]) ? rules[index] : NULL;
}
