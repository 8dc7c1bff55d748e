/* After ECSMiner (Masud et al. 2011, "Classification and novel class detection in concept-drifting
 * data streams under time constraints"), without its later feedback of true labels: k-means divides
 * each class into balls; samples outside all balls are outliers. An outlier is new if it is nearer
 * to other outliers than to any class: (b - a) / max(a, b) > 0, where a is the mean distance of the
 * q nearest kept outliers, and b, of the classes, the least mean distance of their q nearest
 * centres. */
#include "label/bench/points.h"
#include "label/bench/rules.h"

#include "base/memory.h"
#include "base/status.h"

#include <string.h>

enum { BALLS = 50, KEPT = 400, NEAR = 20, STEPS = 10 };

typedef struct outliers {
    int d, n_classes, n_kept;
    int64_t n_seen;
    float *centres; /* (n_classes, BALLS, d) */
    float *radius;  /* (n_classes, BALLS), below 0: there is none */
    float *kept;    /* (KEPT, d), a ring */
    float *sums;    /* (BALLS, d) */
} outliers;

static float distance(const float *a, const float *b, int d) {
    return __builtin_sqrtf(qn_square_distance(a, b, d));
}

static void outliers_destroy(const qn_allocator *allocator, void *self) {
    outliers *r = self;
    if (!r)
        return;
    const size_t n = (size_t)r->n_classes * BALLS, bytes = (size_t)r->d * sizeof(float);
    qn_release(allocator, r->centres, n, bytes);
    qn_release(allocator, r->radius, n, sizeof(float));
    qn_release(allocator, r->kept, KEPT, bytes);
    qn_release(allocator, r->sums, BALLS, bytes);
    qn_release(allocator, r, 1, sizeof *r);
}

/* The nearest ball of a class that there is, or -1. */
static int nearest_ball(const outliers *r, int class, const float *x, float *least) {
    int best = -1;
    for (int b = class * BALLS; b < (class + 1) * BALLS; b++) {
        const float far =
            r->radius[b] < 0 ? 3e38f : distance(r->centres + (ptrdiff_t)b * r->d, x, r->d);
        if (far < 3e38f && (best < 0 || far < *least)) {
            *least = far;
            best = b;
        }
    }
    return best;
}

/* A step of k-means over a class; radii are the distances of the farthest members. */
static void move_balls(outliers *r, const qn_label_known *known, int class) {
    int count[BALLS] = {0};
    float farthest[BALLS] = {0};
    memset(r->sums, 0, (size_t)BALLS * (size_t)r->d * sizeof *r->sums);
    for (int i = 0; i < known->n; i++) {
        const float *x = known->x + (ptrdiff_t)i * r->d;
        float far = 0;
        const int b = known->label[i] == class ? nearest_ball(r, class, x, &far) : -1;
        if (b < 0)
            continue;
        const int at = b - class * BALLS;
        count[at]++;
        farthest[at] = far > farthest[at] ? far : farthest[at];
        for (int j = 0; j < r->d; j++)
            r->sums[at * r->d + j] += x[j];
    }
    for (int at = 0; at < BALLS; at++) {
        const int b = class * BALLS + at;
        r->radius[b] = count[at] > 0 ? farthest[at] : -1.0f;
        for (int j = 0; j < r->d && count[at] > 0; j++)
            r->centres[b * r->d + j] = r->sums[at * r->d + j] / (float)count[at];
    }
}

static void cut_class(outliers *r, const qn_label_known *known, int class) {
    int n = 0, begun = 0;
    for (int i = 0; i < known->n; i++)
        n += known->label[i] == class;
    for (int i = 0, at = 0; i < known->n; i++)
        if (known->label[i] == class && (int64_t)at++ * BALLS / (n > 0 ? n : 1) >= begun &&
            begun < BALLS) {
            const int b = class * BALLS + begun++;
            memcpy(r->centres + (ptrdiff_t)b * r->d, known->x + (ptrdiff_t)i * r->d,
                   (size_t)r->d * sizeof(float));
            r->radius[b] = 0;
        }
    for (int b = begun; b < BALLS; b++)
        r->radius[class * BALLS + b] = -1.0f;
    for (int step = 0; step < STEPS; step++)
        move_balls(r, known, class);
}

static qn_status outliers_create(const qn_allocator *allocator, const qn_label_known *known,
                                 void **self) {
    outliers *r;
    const size_t n = (size_t)known->n_classes * BALLS, bytes = (size_t)known->d * sizeof(float);
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    r->d = known->d;
    r->n_classes = known->n_classes;
    qn_status status = qn_allocate(allocator, n, bytes, &r->centres);
    if (status == QN_OK)
        status = qn_allocate(allocator, n, sizeof(float), &r->radius);
    if (status == QN_OK)
        status = qn_allocate(allocator, KEPT, bytes, &r->kept);
    if (status == QN_OK)
        status = qn_allocate(allocator, BALLS, bytes, &r->sums);
    if (status != QN_OK) {
        outliers_destroy(allocator, r);
        return status;
    }
    for (int class = 0; class < r->n_classes; class ++)
        cut_class(r, known, class);
    *self = r;
    return QN_OK;
}

/* Mean distance of the NEAR nearest of n points, or of those that there are; radius, if given,
 * leaves out those below 0. */
static float mean_of_nearest(const outliers *r, const float *points, const float *radius, int n,
                             const float *x) {
    float least[NEAR], sum = 0;
    int m = 0;
    for (int i = 0; i < n; i++) {
        if (radius && radius[i] < 0)
            continue;
        const float far = distance(points + (ptrdiff_t)i * r->d, x, r->d);
        if (m == NEAR && far >= least[m - 1])
            continue;
        int at = m < NEAR ? m++ : NEAR - 1;
        for (; at > 0 && least[at - 1] > far; at--)
            least[at] = least[at - 1];
        least[at] = far;
    }
    for (int i = 0; i < m; i++)
        sum += least[i] / (float)m;
    return m > 0 ? sum : 3e38f;
}

static bool is_new(outliers *r, const float *x) {
    float to_class = 3e38f;
    for (int c = 0; c < r->n_classes; c++) {
        const float far = mean_of_nearest(r, r->centres + (ptrdiff_t)c * BALLS * r->d,
                                          r->radius + c * BALLS, BALLS, x);
        to_class = far < to_class ? far : to_class;
    }
    const float to_outliers = mean_of_nearest(r, r->kept, NULL, r->n_kept, x);
    const bool is_alone = r->n_kept < NEAR;
    memcpy(r->kept + r->n_seen++ % KEPT * r->d, x, (size_t)r->d * sizeof *x);
    r->n_kept += r->n_kept < KEPT;
    return !is_alone && to_outliers < to_class;
}

static int outliers_add(void *self, const float *x) {
    outliers *r = self;
    int best = 0;
    float nearest = 3e38f;
    for (int c = 0; c < r->n_classes; c++) {
        float far = 3e38f;
        const int b = nearest_ball(r, c, x, &far);
        if (b >= 0 && far <= r->radius[b])
            return c;
        best = b >= 0 && far < nearest ? c : best;
        nearest = b >= 0 && far < nearest ? far : nearest;
    }
    return is_new(r, x) ? -1 : best;
}

const qn_label_rule qn_rule_outliers = {"outliers (ECSMiner)", outliers_create, outliers_destroy,
                                        outliers_add};
