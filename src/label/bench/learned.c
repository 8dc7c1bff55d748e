/* Rules that also learn from the stream: self-training, k-means labelling, label spreading. Each
 * keeps the labelled samples (at most 500, drawn evenly) and the last 500 of the stream, and looks
 * at them anew after every 250. A sample farther from all labelled ones than nineteen of twenty of
 * these are from each other is new; k-means and spreading find new ones among those that are near,
 * too: where no label reaches. */
#include "label/bench/rules.h"

#include "base/fmath.h"
#include "base/memory.h"
#include "base/status.h"
#include "label/select.h"

#include <string.h>

enum { SIDE = 500, POINTS = 2 * SIDE, EVERY = 250, NEAR = 7, MEANS = 40, STEPS = 15 };

typedef enum method { SELF_TRAINING, MEANS_LABELS, SPREADING } method;

/* points (POINTS, d): labelled ones in 0 to n_labelled - 1, the stream's in a ring from SIDE on.
 * said: what a point was labelled, below 0: nothing. */
typedef struct learned {
    method way;
    int d, n_classes, n_labelled, n_stream;
    int64_t n_seen;
    float limit;
    float *points, *mass; /* mass (POINTS, n_classes) */
    int32_t *said, *near; /* near (POINTS, NEAR) */
    float *centres;       /* (MEANS, d) */
    int32_t of_mean[MEANS];
} learned;

static float square_distance(const float *a, const float *b, int d) {
    float sum = 0;
    for (int j = 0; j < d; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

static bool is_there(const learned *r, int i) {
    return i < r->n_labelled || (i >= SIDE && i < SIDE + r->n_stream);
}

/* The nearest point that has been labelled, of all or of the first n. */
static int nearest_said(const learned *r, const float *x, int n, int but, float *square) {
    int best = -1;
    for (int i = 0; i < n; i++) {
        if (!is_there(r, i) || r->said[i] < 0 || i == but)
            continue;
        const float s = square_distance(r->points + (ptrdiff_t)i * r->d, x, r->d);
        if (best < 0 || s < *square) {
            *square = s;
            best = i;
        }
    }
    return best;
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
    float squares[SIDE];
    r->n_labelled = known->n < SIDE ? known->n : SIDE;
    for (int i = 0; i < r->n_labelled; i++) {
        const int64_t from = (int64_t)i * known->n / r->n_labelled;
        memcpy(r->points + (ptrdiff_t)i * r->d, known->x + from * r->d,
               (size_t)r->d * sizeof(float));
        r->said[i] = known->label[from];
    }
    for (int i = 0; i < r->n_labelled; i++) {
        squares[i] = 0;
        nearest_said(r, r->points + (ptrdiff_t)i * r->d, SIDE, i, &squares[i]);
    }
    r->limit = qn_select_smallest(squares, r->n_labelled, r->n_labelled - 1 - r->n_labelled / 20);
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

static int nearest_centre(const learned *r, const float *x) {
    int best = 0;
    float least = 3e38f;
    for (int k = 0; k < MEANS; k++) {
        const float s = square_distance(r->centres + (ptrdiff_t)k * r->d, x, r->d);
        best = s < least ? k : best;
        least = s < least ? s : least;
    }
    return best;
}

/* Means of the points nearest to each; those of none stay. mass (MEANS, d) holds sums. */
static void move_centres(learned *r, float *sums) {
    int count[MEANS] = {0};
    memset(sums, 0, (size_t)MEANS * (size_t)r->d * sizeof *sums);
    for (int i = 0; i < POINTS; i++) {
        const float *x = r->points + (ptrdiff_t)i * r->d;
        if (!is_there(r, i))
            continue;
        const int k = nearest_centre(r, x);
        count[k]++;
        for (int j = 0; j < r->d; j++)
            sums[k * r->d + j] += x[j];
    }
    for (int k = 0; k < MEANS; k++)
        for (int j = 0; j < r->d && count[k] > 0; j++)
            r->centres[k * r->d + j] = sums[k * r->d + j] / (float)count[k];
}

/* A cluster is of the class that most of its labelled samples have; new, where these are less than
 * a tenth of their share of all points. */
static void name_means(learned *r) {
    int labelled[MEANS] = {0}, all[MEANS] = {0}, most[MEANS] = {0};
    for (int i = 0; i < POINTS; i++)
        if (is_there(r, i)) {
            const int k = nearest_centre(r, r->points + (ptrdiff_t)i * r->d);
            r->near[i] = k;
            all[k]++;
            labelled[k] += i < r->n_labelled;
        }
    for (int k = 0; k < MEANS; k++)
        r->of_mean[k] = -1;
    for (int class = 0; class < r->n_classes; class ++) {
        int n[MEANS] = {0};
        for (int i = 0; i < r->n_labelled; i++)
            n[r->near[i]] += r->said[i] == class;
        for (int k = 0; k < MEANS; k++)
            if (n[k] > most[k]) {
                most[k] = n[k];
                r->of_mean[k] = class;
            }
    }
    for (int k = 0; k < MEANS; k++)
        if (labelled[k] * (r->n_labelled + r->n_stream) * 10 < all[k] * r->n_labelled)
            r->of_mean[k] = -1;
}

static void learn_means(learned *r) {
    for (int k = 0; k < MEANS; k++) {
        const int side = k % 2 && r->n_stream > 0 ? r->n_stream : r->n_labelled;
        const int at = (k % 2 && r->n_stream > 0 ? SIDE : 0) + k / 2 * side / (MEANS / 2);
        memcpy(r->centres + (ptrdiff_t)k * r->d, r->points + (ptrdiff_t)at * r->d,
               (size_t)r->d * sizeof(float));
    }
    float sums[MEANS * QN_RULES_FEATURES];
    for (int step = 0; step < STEPS; step++)
        move_centres(r, sums);
    name_means(r);
}

/* ---- label spreading ---- */

/* The NEAR nearest points of each (Zhou et al. 2003, "Learning with local and global
 * consistency", over a graph of neighbours). */
static void find_neighbours(learned *r, int i) {
    float least[NEAR];
    int32_t *near = r->near + (ptrdiff_t)i * NEAR;
    for (int k = 0; k < NEAR; k++) {
        near[k] = -1;
        least[k] = 3e38f;
    }
    for (int o = 0; o < POINTS; o++) {
        if (o == i || !is_there(r, o))
            continue;
        const float s =
            square_distance(r->points + (ptrdiff_t)i * r->d, r->points + (ptrdiff_t)o * r->d, r->d);
        int k = NEAR - 1;
        if (s >= least[k])
            continue;
        for (; k > 0 && least[k - 1] > s; k--) {
            least[k] = least[k - 1];
            near[k] = near[k - 1];
        }
        least[k] = s;
        near[k] = o;
    }
}

/* A step: nine tenths of what the neighbours have, a tenth of the own label. */
static void spread(learned *r, int i) {
    for (int c = 0; c < r->n_classes; c++) {
        float sum = 0;
        for (int k = 0; k < NEAR; k++) {
            const int o = r->near[i * NEAR + k];
            sum += o >= 0 ? r->mass[o * r->n_classes + c] : 0.0f;
        }
        const float own = i < r->n_labelled && r->said[i] == c ? 1.0f : 0.0f;
        r->mass[i * r->n_classes + c] = 0.9f * sum / NEAR + 0.1f * own;
    }
}

/* What a point is by its mass; new, where it has less than a fifth of what labelled points have. */
static void name_points(learned *r) {
    float whole[POINTS], typical[SIDE];
    for (int i = 0; i < POINTS; i++) {
        const float *mass = r->mass + (ptrdiff_t)i * r->n_classes;
        int best = 0;
        whole[i] = 0;
        for (int c = 0; c < r->n_classes; c++) {
            whole[i] += mass[c];
            best = mass[c] > mass[best] ? c : best;
        }
        if (i < r->n_labelled)
            typical[i] = whole[i];
        else
            r->said[i] = best;
    }
    const float middle = qn_select_smallest(typical, r->n_labelled, r->n_labelled / 2);
    for (int i = SIDE; i < POINTS; i++)
        r->said[i] = whole[i] < 0.2f * middle ? -2 : r->said[i]; /* said to be new */
}

static void learn_spreading(learned *r) {
    memset(r->mass, 0, (size_t)POINTS * (size_t)r->n_classes * sizeof *r->mass);
    for (int i = 0; i < POINTS; i++)
        if (is_there(r, i))
            find_neighbours(r, i);
    for (int step = 0; step < 3 * STEPS; step++)
        for (int i = 0; i < POINTS; i++)
            if (is_there(r, i))
                spread(r, i);
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

/* The point of the last look that is nearest, labelled or said to be new. */
static int nearest_point(const learned *r, const float *x) {
    int best = 0;
    float least = 3e38f;
    for (int i = 0; i < POINTS; i++) {
        if (!is_there(r, i) || r->said[i] == -1)
            continue;
        const float s = square_distance(r->points + (ptrdiff_t)i * r->d, x, r->d);
        best = s < least ? i : best;
        least = s < least ? s : least;
    }
    return r->said[best] < 0 ? -1 : r->said[best];
}

static int learned_add(void *self, const float *x) {
    learned *r = self;
    float square = 0;
    const int best = nearest_said(r, x, r->way == SELF_TRAINING ? POINTS : SIDE, -1, &square);
    int answer = square > r->limit ? -1 : r->said[best];
    if (answer >= 0 && r->way == MEANS_LABELS && r->n_seen >= EVERY)
        answer = r->of_mean[nearest_centre(r, x)];
    if (answer >= 0 && r->way == SPREADING && r->n_seen >= EVERY)
        answer = nearest_point(r, x);
    /* Self-training learns from what it is sure of. */
    keep(r, x, r->way == SELF_TRAINING && square < 0.5f * r->limit ? answer : -1);
    return answer;
}

const qn_label_rule qn_rule_self_training = {"self-training", self_create, learned_destroy,
                                             learned_add};
const qn_label_rule qn_rule_means = {"k-means labelling", means_create, learned_destroy,
                                     learned_add};
const qn_label_rule qn_rule_spreading = {"label spreading", spreading_create, learned_destroy,
                                         learned_add};
