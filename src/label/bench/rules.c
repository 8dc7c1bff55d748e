/* See rules.h. Nearest sample and nearest mean: a sample is new if its distance to everything known
 * exceeds that of nineteen of twenty labelled samples. Micro-clusters, after MINAS (Faria, Carvalho
 * and Gama 2016, "MINAS: multiclass learning algorithm for novelty detection in data streams"):
 * k-means divides each class into balls; samples outside all balls are unknown and stored. When
 * enough are stored, k-means looks for dense balls among them, which extend the nearest known class
 * or, if that is far, form a new one. */
#include "label/bench/rules.h"

#include "base/memory.h"
#include "base/status.h"
#include "label/bench/points.h"
#include "label/select.h"

#include <string.h>

/* ---- nearest sample, nearest mean ---- */

/* points (n, d) with their classes; beyond limit a sample is new. */
typedef struct nearest {
    int n, d;
    float *points;
    int32_t *class_of;
    float limit; /* of the squared distance */
} nearest;

static qn_points points_of(const nearest *r) {
    return (qn_points){r->n, r->d, r->points, NULL, 0};
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
static qn_status finish_nearest(const qn_allocator *allocator, nearest *r,
                                const qn_label_known *known, bool are_same, void **self) {
    const qn_points points = points_of(r);
    float *squares;
    const qn_status status = qn_allocate(allocator, (size_t)known->n, sizeof *squares, &squares);
    if (status != QN_OK) {
        nearest_destroy(allocator, r);
        return status;
    }
    for (int i = 0; i < known->n && !are_same; i++)
        qn_points_nearest(&points, known->x + i * known->d, &squares[i]);
    r->limit = are_same ? qn_points_reach(&points, squares)
                        : qn_select_smallest(squares, known->n, known->n - 1 - known->n / 20);
    qn_release(allocator, squares, (size_t)known->n, sizeof *squares);
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
    const qn_points points = {known->n, known->d, known->x, NULL, 0};
    qn_points_average(&points, known->label, known->n_classes, r->points);
    for (int c = 0; c < known->n_classes; c++)
        r->class_of[c] = c;
    return finish_nearest(allocator, r, known, false, self);
}

static int nearest_add(void *self, const float *x) {
    const nearest *r = self;
    const qn_points points = points_of(r);
    float square;
    const int best = qn_points_nearest(&points, x, &square);
    return square > r->limit ? -1 : r->class_of[best];
}

/* ---- micro-clusters ---- */

enum {
    BALLS = 600,      /* at most */
    CLASS_BALLS = 50, /* of a class */
    KEPT = 500,       /* unknown samples that are looked at together */
    NEW_BALLS = 20,   /* that these are cut into */
    LEAST_MEMBERS = 15,
    MEANS_STEPS = 10
};

static const float reach = 2.0f; /* radius of a ball in deviations of its members */

typedef struct ball {
    float radius;
    int class_of; /* -1: a novelty */
    int n_members;
} ball;

typedef struct micro {
    int d, n_balls, n_kept, n_most; /* n_most: samples that are cut at once, at most */
    float *centres;                 /* (BALLS + CLASS_BALLS, d): the last ones are yet to be kept */
    float *kept;                    /* (KEPT, d) */
    int32_t *of;                    /* (n_most) */
    ball balls[BALLS];
} micro;

/* Cuts samples into at most k balls by k-means that starts with every n/k-th sample. */
static int cut(const qn_points *p, int k, float *centres, int32_t *of, ball *balls) {
    float squares[CLASS_BALLS] = {0};
    k = k > p->n ? p->n : k;
    const qn_points middles = {k, p->d, centres, NULL, 0};
    for (int b = 0; b < k; b++) {
        memcpy(centres + b * p->d, p->x + (int64_t)b * p->n / k * p->d,
               (size_t)p->d * sizeof *centres);
        balls[b].n_members = 0;
    }
    qn_points_assign(p, &middles, of);
    for (int step = 1; step < MEANS_STEPS; step++) {
        qn_points_average(p, of, k, centres);
        qn_points_assign(p, &middles, of);
    }
    for (int i = 0; i < p->n; i++) {
        balls[of[i]].n_members++;
        squares[of[i]] += qn_square_distance(centres + of[i] * p->d, p->x + i * p->d, p->d);
    }
    for (int b = 0; b < k; b++)
        balls[b].radius =
            reach *
            __builtin_sqrtf(squares[b] / (float)(balls[b].n_members ? balls[b].n_members : 1));
    return k;
}

static const ball *nearest_ball(const micro *m, const float *x, float *distance) {
    const qn_points centres = {m->n_balls, m->d, m->centres, NULL, 0};
    float square;
    const int best = qn_points_nearest(&centres, x, &square);
    *distance = __builtin_sqrtf(square);
    return best >= 0 ? &m->balls[best] : NULL;
}

static void micro_destroy(const qn_allocator *allocator, void *self) {
    micro *m = self;
    if (!m)
        return;
    const size_t bytes = (size_t)m->d * sizeof(float);
    qn_release(allocator, m->centres, BALLS + CLASS_BALLS, bytes);
    qn_release(allocator, m->kept, KEPT, bytes);
    qn_release(allocator, m->of, (size_t)m->n_most, sizeof *m->of);
    qn_release(allocator, m, 1, sizeof *m);
}

static qn_status allocate(const qn_allocator *allocator, micro *m) {
    const size_t bytes = (size_t)m->d * sizeof(float);
    QN_TRY(qn_allocate(allocator, BALLS + CLASS_BALLS, bytes, &m->centres));
    QN_TRY(qn_allocate(allocator, KEPT, bytes, &m->kept));
    return qn_allocate(allocator, (size_t)m->n_most, sizeof *m->of, &m->of);
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
        const qn_points points = {n, m->d, x, NULL, 0};
        const int n_balls =
            cut(&points, CLASS_BALLS, m->centres + m->n_balls * m->d, m->of, m->balls + m->n_balls);
        for (int b = 0; b < n_balls; b++)
            m->balls[m->n_balls++].class_of = c;
    }
    qn_release(allocator, x, (size_t)known->n, bytes);
    return QN_OK;
}

static qn_status micro_create(const qn_allocator *allocator, const qn_label_known *known,
                              void **self) {
    micro *m;
    QN_TRY(qn_allocate(allocator, 1, sizeof *m, &m));
    m->d = known->d;
    m->n_most = known->n > KEPT ? known->n : KEPT;
    qn_status status = allocate(allocator, m);
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
    float *centres = m->centres + BALLS * m->d;
    const qn_points kept = {m->n_kept, m->d, m->kept, NULL, 0};
    const int n = cut(&kept, NEW_BALLS, centres, m->of, found);
    for (int b = 0; b < n && m->n_balls < BALLS; b++) {
        float distance = 0;
        const ball *near = nearest_ball(m, centres + b * m->d, &distance);
        if (found[b].n_members < LEAST_MEMBERS || !near || found[b].radius > 2 * reach * distance)
            continue;
        found[b].class_of = distance <= near->radius * reach ? near->class_of : -1;
        memcpy(m->centres + m->n_balls * m->d, centres + b * m->d, (size_t)m->d * sizeof *centres);
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
