/* Rules that also learn from the stream: self-training, k-means labelling, label spreading. Each
 * keeps the labelled samples (at most 500, drawn evenly) and the last 500 of the stream, and looks
 * at them anew after every 250. A sample farther from all labelled ones than nineteen of twenty of
 * these are from each other is new; k-means and spreading find new ones among those that are near,
 * too: where no label reaches. */
#include "label/bench/points.h"
#include "label/bench/rules.h"

#include "base/memory.h"
#include "base/status.h"
#include "label/select.h"

#include <string.h>

enum { SIDE = 500, POINTS = 2 * SIDE, EVERY = 250, NEAR = 7, MEANS = 40, STEPS = 15 };

typedef enum method { SELF_TRAINING, MEANS_LABELS, SPREADING } method;

/* What is said of a point below all classes: that there is none, nothing, that it is new. */
enum { ABSENT = -3, SILENT, NEW };

/* points (POINTS, d): labelled ones in 0 to n_labelled - 1, the stream's in a ring from SIDE on.
 * said: of each its class, or what is above. */
typedef struct learned {
    method way;
    int d, n_classes, n_labelled, n_stream;
    int64_t n_seen;
    float limit;
    float *points, *mass; /* mass (POINTS, n_classes) */
    int32_t *said, *near; /* near (POINTS, NEAR): neighbours; (POINTS): cluster of each */
    float *centres;       /* (MEANS, d) */
    int32_t of_mean[MEANS];
} learned;

/* The first n points of which that or more is said. */
static qn_points points_of(const learned *r, int n, int least) {
    return (qn_points){n, r->d, r->points, r->said, least};
}

/* ---- making ---- */

static void learned_destroy(const qn_allocator *allocator, void *self) {
    learned *r = self;
    if (!r)
        return;
    qn_release(allocator, r->points, POINTS, (size_t)r->d * sizeof(float));
    qn_release(allocator, r->mass, POINTS, (size_t)r->n_classes * sizeof(float));
    qn_release(allocator, r->said, POINTS, sizeof *r->said);
    qn_release(allocator, r->near, POINTS, NEAR * sizeof *r->near);
    qn_release(allocator, r->centres, MEANS, (size_t)r->d * sizeof(float));
    qn_release(allocator, r, 1, sizeof *r);
}

static qn_status allocate(const qn_allocator *allocator, learned *r) {
    QN_TRY(qn_allocate(allocator, POINTS, (size_t)r->d * sizeof(float), &r->points));
    QN_TRY(qn_allocate(allocator, POINTS, (size_t)r->n_classes * sizeof(float), &r->mass));
    QN_TRY(qn_allocate(allocator, POINTS, sizeof *r->said, &r->said));
    QN_TRY(qn_allocate(allocator, POINTS, NEAR * sizeof *r->near, &r->near));
    return qn_allocate(allocator, MEANS, (size_t)r->d * sizeof(float), &r->centres);
}

static void take_labelled(learned *r, const qn_label_known *known) {
    float room[SIDE];
    r->n_labelled = known->n < SIDE ? known->n : SIDE;
    for (int i = 0; i < POINTS; i++)
        r->said[i] = ABSENT;
    for (int i = 0; i < r->n_labelled; i++) {
        const int64_t from = (int64_t)i * known->n / r->n_labelled;
        memcpy(r->points + (ptrdiff_t)i * r->d, known->x + from * r->d,
               (size_t)r->d * sizeof(float));
        r->said[i] = known->label[from];
    }
    const qn_points labelled = points_of(r, r->n_labelled, 0);
    r->limit = qn_points_reach(&labelled, room);
}

static qn_status make(const qn_allocator *allocator, const qn_label_known *known, method way,
                      void **self) {
    learned *r;
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    r->way = way;
    r->d = known->d;
    r->n_classes = known->n_classes;
    const qn_status status = allocate(allocator, r);
    if (status != QN_OK) {
        learned_destroy(allocator, r);
        return status;
    }
    take_labelled(r, known);
    *self = r;
    return QN_OK;
}

static qn_status self_create(const qn_allocator *allocator, const qn_label_known *known,
                             void **self) {
    return make(allocator, known, SELF_TRAINING, self);
}

static qn_status means_create(const qn_allocator *allocator, const qn_label_known *known,
                              void **self) {
    return make(allocator, known, MEANS_LABELS, self);
}

static qn_status spreading_create(const qn_allocator *allocator, const qn_label_known *known,
                                  void **self) {
    return make(allocator, known, SPREADING, self);
}

/* ---- k-means ---- */

static qn_points centres_of(const learned *r) {
    return (qn_points){MEANS, r->d, r->centres, NULL, 0};
}

/* A cluster is of the class that most of its labelled samples have; new, where these are less than
 * a tenth of their share of all points. */
static void name_means(learned *r) {
    int labelled[MEANS] = {0}, all[MEANS] = {0};
    for (int i = 0; i < POINTS; i++)
        if (r->near[i] >= 0) {
            all[r->near[i]]++;
            labelled[r->near[i]] += i < r->n_labelled;
        }
    qn_points_name(r->n_labelled, r->near, r->said, r->n_classes, MEANS, r->of_mean);
    for (int k = 0; k < MEANS; k++)
        if (labelled[k] * (r->n_labelled + r->n_stream) * 10 < all[k] * r->n_labelled)
            r->of_mean[k] = -1;
}

static void learn_means(learned *r) {
    const qn_points points = points_of(r, POINTS, SILENT), centres = centres_of(r);
    for (int k = 0; k < MEANS; k++) {
        const int side = k % 2 && r->n_stream > 0 ? r->n_stream : r->n_labelled;
        const int at = (k % 2 && r->n_stream > 0 ? SIDE : 0) + k / 2 * side / (MEANS / 2);
        memcpy(r->centres + (ptrdiff_t)k * r->d, r->points + (ptrdiff_t)at * r->d,
               (size_t)r->d * sizeof(float));
    }
    for (int step = 0; step < STEPS; step++) {
        qn_points_assign(&points, &centres, r->near);
        qn_points_average(&points, r->near, MEANS, r->centres);
    }
    qn_points_assign(&points, &centres, r->near);
    name_means(r);
}

/* ---- label spreading ---- */

/* What a point is by its mass; new, where it has less than a fifth of what labelled points have. */
static void name_points(learned *r) {
    float whole[POINTS], typical[SIDE];
    for (int i = 0; i < POINTS; i++) {
        whole[i] = 0;
        for (int c = 0; c < r->n_classes; c++)
            whole[i] += r->mass[i * r->n_classes + c];
    }
    memcpy(typical, whole, (size_t)r->n_labelled * sizeof *whole);
    const float middle = qn_select_smallest(typical, r->n_labelled, r->n_labelled / 2);
    for (int i = SIDE; i < SIDE + r->n_stream; i++)
        r->said[i] = whole[i] < 0.2f * middle
                         ? NEW
                         : qn_largest(r->mass + (ptrdiff_t)i * r->n_classes, r->n_classes);
}

static void learn_spreading(learned *r) {
    const qn_points points = points_of(r, POINTS, SILENT);
    const qn_spread spread = {POINTS, r->n_labelled, r->n_classes, NEAR, r->near, r->said};
    memset(r->mass, 0, (size_t)POINTS * (size_t)r->n_classes * sizeof *r->mass);
    memset(r->near, -1, (size_t)POINTS * NEAR * sizeof *r->near);
    for (int i = 0; i < POINTS; i++)
        if (qn_point_counts(&points, i))
            qn_points_neighbours(&points, i, NEAR, r->near + (ptrdiff_t)i * NEAR);
    for (int step = 0; step < 3 * STEPS; step++)
        qn_spread_step(&spread, r->mass, r->mass);
    name_points(r);
}

/* ---- labelling ---- */

static void keep(learned *r, const float *x, int said) {
    const int at = SIDE + (int)(r->n_seen % SIDE);
    memcpy(r->points + (ptrdiff_t)at * r->d, x, (size_t)r->d * sizeof *x);
    r->said[at] = said;
    r->n_stream += r->n_stream < SIDE;
    r->n_seen++;
    if (r->n_seen % EVERY != 0 || r->way == SELF_TRAINING)
        return;
    if (r->way == MEANS_LABELS)
        learn_means(r);
    else
        learn_spreading(r);
}

static int learned_add(void *self, const float *x) {
    learned *r = self;
    float square;
    const qn_points labelled = points_of(r, r->way == SELF_TRAINING ? POINTS : SIDE, 0);
    const int best = qn_points_nearest(&labelled, x, &square);
    const bool is_sure = square < 0.5f * r->limit, has_learned = r->n_seen >= EVERY;
    int answer = square > r->limit ? -1 : r->said[best];
    if (answer >= 0 && r->way == MEANS_LABELS && has_learned) {
        const qn_points centres = centres_of(r);
        answer = r->of_mean[qn_points_nearest(&centres, x, &square)];
    }
    if (answer >= 0 && r->way == SPREADING && has_learned) {
        /* The point of the last look that is nearest, labelled or said to be new. */
        const qn_points looked_at = points_of(r, POINTS, NEW);
        answer = r->said[qn_points_nearest(&looked_at, x, &square)];
    }
    /* Self-training learns from what it is sure of. */
    keep(r, x, r->way == SELF_TRAINING && is_sure ? answer : SILENT);
    return answer;
}

const qn_label_rule qn_rule_self_training = {"self-training", self_create, learned_destroy,
                                             learned_add};
const qn_label_rule qn_rule_means = {"k-means labelling", means_create, learned_destroy,
                                     learned_add};
const qn_label_rule qn_rule_spreading = {"label spreading", spreading_create, learned_destroy,
                                         learned_add};
