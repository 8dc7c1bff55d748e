/* See findings.h. */
#include "tasks/features/findings.h"

#include "base/fmath.h"
#include "base/status.h"
#include "tasks/features/calibration.h"
#include "tasks/features/dot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { NEAREST = QN_FINDINGS_NEAREST, SCALE = 4 /* the neighbour whose distance is the scale */ };

static const float same = 0.02f; /* distance of pictures that are nearly the same */
static const float few = 30;     /* pictures of a class are few below */
static const float half = 0.5f;  /* a suggestion has at least so much of votes and answers */

typedef struct neighbour {
    float square; /* of the distance */
    int64_t index;
} neighbour;

typedef struct finding {
    const qn_sample_looks *looks;
    qn_findings *f;
    int64_t width;
    float *x;     /* (n, width) of length 1, or rows as they are */
    float *norm;  /* (n) squares of lengths */
    float *means; /* (n_classes, width) */
    float *votes; /* (n_classes) */
} finding;

/* ---- features ---- */

/* The first view of each, of length 1; rows keep theirs, which says something. */
static void take_features(finding *g) {
    const qn_features *from = &g->looks->features;
    for (int64_t i = 0; i < g->f->n; i++) {
        float *x = g->x + i * g->width;
        memcpy(x, from->x + i * from->n_views * g->width, (size_t)g->width * sizeof *x);
        const float square = qn_features_dot(x, x, g->width);
        const float factor = !g->looks->are_inputs && square > 0 ? 1 / sqrtf(square) : 1;
        for (int64_t k = 0; k < g->width; k++)
            x[k] *= factor;
        g->norm[i] = qn_features_dot(x, x, g->width);
    }
}

static float square_between(const finding *g, int64_t i, int64_t k) {
    const float square = g->norm[i] + g->norm[k] -
                         2 * qn_features_dot(g->x + i * g->width, g->x + k * g->width, g->width);
    return square > 0 ? square : 0;
}

/* ---- neighbours ---- */

static void insert(neighbour *nearest, int *n, neighbour one) {
    int at = *n < NEAREST ? (*n)++ : NEAREST;
    for (; at > 0 && one.square < nearest[at - 1].square; at--)
        if (at < NEAREST)
            nearest[at] = nearest[at - 1];
    if (at < NEAREST)
        nearest[at] = one;
}

/* The most distance of what is nearly the same; rows have no length of their own to measure it by.
 */
static float most_same(const finding *g) {
    return g->looks->are_inputs ? 0 : same;
}

/* Copies of a sample have no vote, whose label was wrong likewise. */
static int find_nearest(const finding *g, int64_t i, neighbour *nearest, neighbour *first) {
    const float most = most_same(g);
    int n = 0;
    *first = (neighbour){INFINITY, -1};
    for (int64_t k = 0; k < g->f->n; k++) {
        if (k == i)
            continue;
        const neighbour one = {square_between(g, i, k), k};
        if (one.square < first->square)
            *first = one;
        if (one.square > most * most && (n < NEAREST || one.square < nearest[n - 1].square))
            insert(nearest, &n, one);
    }
    return n;
}

/* votes (n_classes) become parts of 1. A class of more samples has no more votes for that. */
static void count_votes(const finding *g, const neighbour *nearest, int n) {
    float sum = 0;
    const float scale = n > 0 ? nearest[n > SCALE ? SCALE : n - 1].square : 1;
    memset(g->votes, 0, (size_t)g->f->n_classes * sizeof *g->votes);
    for (int k = 0; k < n; k++) {
        const int32_t class = g->f->samples[nearest[k].index].label;
        const double weight = qn_exp_f64(-(double)(nearest[k].square / (scale > 0 ? scale : 1)));
        g->votes[class] += (float)(weight / sqrt((double)g->f->classes[class].n));
    }
    for (int c = 0; c < g->f->n_classes; c++)
        sum += g->votes[c];
    for (int c = 0; c < g->f->n_classes && sum > 0; c++)
        g->votes[c] /= sum;
}

static void judge_label(const finding *g, int64_t i) {
    qn_sample_finding *s = &g->f->samples[i];
    const float *held = g->looks->held ? g->looks->held + i * g->f->n_classes : NULL;
    float most = -1;
    s->suggest = s->label;
    for (int c = 0; c < g->f->n_classes; c++) {
        const float both = held ? (g->votes[c] + held[c]) / 2 : g->votes[c];
        if (c == s->label)
            s->trust = both;
        if (both > most) {
            most = both;
            s->suggest = c;
        }
    }
    if (most <= s->trust || most < half)
        s->suggest = s->label;
    s->suggestion = most;
    s->votes = g->votes[s->suggest];
}

static qn_status compare_all(finding *g, bool (*should_stop)(void *user), void *user) {
    neighbour nearest[NEAREST + 1], first;
    for (int64_t i = 0; i < g->f->n; i++) {
        if (should_stop && i % 64 == 0 && should_stop(user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while samples were compared");
        const int n = find_nearest(g, i, nearest, &first);
        g->f->samples[i].nearest = first.index;
        g->f->samples[i].distance = sqrtf(first.square);
        count_votes(g, nearest, n);
        judge_label(g, i);
    }
    return QN_OK;
}

/* ---- classes ---- */

static void find_means(const finding *g) {
    for (int64_t i = 0; i < g->f->n; i++) {
        const qn_sample_finding *s = &g->f->samples[i];
        float *mean = g->means + s->label * g->width;
        for (int64_t k = 0; k < g->width; k++)
            mean[k] += g->x[i * g->width + k] / (float)g->f->classes[s->label].n;
    }
    for (int64_t i = 0; i < g->f->n; i++) {
        qn_sample_finding *s = &g->f->samples[i];
        const float *mean = g->means + s->label * g->width;
        const float square = g->norm[i] + qn_features_dot(mean, mean, g->width) -
                             2 * qn_features_dot(g->x + i * g->width, mean, g->width);
        s->from_mean = sqrtf(square > 0 ? square : 0);
    }
}

static void take_samples(finding *g) {
    const qn_sample_looks *l = g->looks;
    int64_t at = 0;
    for (int split = 0; split < QN_SPLITS; split++) {
        for (int64_t i = 0; i < l->n[split] && at < g->f->n; i++, at++) {
            qn_sample_finding *s = &g->f->samples[at];
            s->split = (qn_split)split;
            s->index = i;
            s->label = l->features.y[at];
            g->f->classes[s->label].n++;
        }
    }
}

/* What a sample was not learned from answers it: of a head that was fitted, one fitted without it;
 * else the network, of samples that were held out. */
static void take_answers(finding *g) {
    const qn_sample_looks *l = g->looks;
    qn_calibration sum = {.unsure = (double)g->f->unsure};
    int64_t n_right = 0;
    for (int64_t i = 0; i < g->f->n; i++) {
        qn_sample_finding *s = &g->f->samples[i];
        const bool is_own = s->split != QN_TRAIN || !l->held || !l->is_fitted;
        const float *of = (is_own ? l->chances : l->held) + i * l->n_classes;
        for (int c = 1; c < l->n_classes; c++)
            s->answer = of[c] > of[s->answer] ? c : s->answer;
        s->chance = of[s->answer];
        s->is_judged = s->split != QN_TRAIN || !is_own;
        if (s->is_judged)
            qn_calibration_add(&sum, (double)s->chance, s->answer == s->label);
        n_right += s->is_judged && s->answer == s->label;
    }
    g->f->accuracy = sum.n > 0 ? (double)n_right / (double)sum.n : NAN;
    g->f->calibration = sum.n > 0 ? qn_calibration_error(&sum) : NAN;
}

static bool is_mistake(const qn_sample_finding *s) {
    return s->is_judged && s->answer != s->label;
}

/* Of the samples of a class whose label is not in doubt: which wrong answer is the commonest;
 * counts (n_classes). */
static void find_taken(const finding *g, int32_t class, float *counts) {
    qn_class_finding *c = &g->f->classes[class];
    memset(counts, 0, (size_t)g->f->n_classes * sizeof *counts);
    c->taken_for = -1;
    for (int64_t i = 0; i < g->f->n; i++) {
        const qn_sample_finding *s = &g->f->samples[i];
        if (s->label != class || !is_mistake(s) || s->suggest != class)
            continue;
        counts[s->answer]++;
        if ((int64_t)counts[s->answer] > c->n_taken) {
            c->n_taken = (int64_t)counts[s->answer];
            c->taken_for = s->answer;
        }
    }
}

/* Few pictures, wrong answers and unsure ones make a need. */
static void find_needs(const finding *g) {
    for (int32_t c = 0; c < g->f->n_classes; c++) {
        qn_class_finding *class = &g->f->classes[c];
        const float n = (float)class->n, judged = (float)class->n_judged;
        const float lack = n < few ? (few - n) / few : 0;
        const float wrong = judged > 0 ? (judged - (float)class->n_right) / judged : 0;
        const float unsure = judged > 0 ? (float)class->n_unsure / judged : 0;
        class->need = 1 - (1 - lack / 2) * (1 - wrong) * (1 - unsure / 2);
        find_taken(g, c, g->votes);
    }
}

static void sum_classes(const finding *g) {
    for (int64_t i = 0; i < g->f->n; i++) {
        const qn_sample_finding *s = &g->f->samples[i];
        qn_class_finding *c = &g->f->classes[s->label];
        c->n_judged += s->is_judged;
        c->n_right += s->is_judged && s->answer == s->label;
        c->n_unsure += s->is_judged && s->chance < g->f->unsure;
        c->n_suspect += s->suggest != s->label;
    }
    find_needs(g);
}

/* ---- lists ---- */

/* A number and what it is sorted by, the least first. */
typedef struct ranked {
    float key;
    int64_t index;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    if (x->key != y->key)
        return x->key < y->key ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

static bool is_listed_suspect(const finding *g, const qn_sample_finding *s, float *key) {
    (void)g;
    *key = s->trust;
    return s->suggest != s->label;
}

static bool is_listed_mistake(const finding *g, const qn_sample_finding *s, float *key) {
    (void)g;
    *key = -s->chance;
    return is_mistake(s) && s->suggest == s->label;
}

static bool is_listed_doubtful(const finding *g, const qn_sample_finding *s, float *key) {
    *key = s->chance;
    return s->is_judged && s->chance < g->f->unsure;
}

static bool is_listed_duplicate(const finding *g, const qn_sample_finding *s, float *key) {
    const int64_t i = s - g->f->samples, k = s->nearest;
    *key = s->distance;
    const bool is_mutual = k >= 0 && g->f->samples[k].nearest == i;
    return k >= 0 && s->distance <= most_same(g) && (i < k || !is_mutual);
}

static qn_status list(const finding *g, ranked *all,
                      bool (*is_listed)(const finding *, const qn_sample_finding *, float *),
                      int64_t **numbers, int64_t *n) {
    for (int64_t i = 0; i < g->f->n; i++) {
        all[*n].index = i;
        *n += is_listed(g, &g->f->samples[i], &all[*n].key);
    }
    qsort(all, (size_t)*n, sizeof *all, compare_ranked);
    QN_TRY(qn_allocate(g->f->allocator, (size_t)*n, sizeof **numbers, numbers));
    for (int64_t i = 0; i < *n; i++)
        (*numbers)[i] = all[i].index;
    return QN_OK;
}

static qn_status list_all(const finding *g, ranked *all) {
    qn_findings *f = g->f;
    for (int c = 0; c < f->n_classes; c++)
        all[c] = (ranked){-f->classes[c].need, c};
    qsort(all, (size_t)f->n_classes, sizeof *all, compare_ranked);
    for (int c = 0; c < f->n_classes; c++)
        f->by_need[c] = all[c].index;
    QN_TRY(list(g, all, is_listed_suspect, &f->suspects, &f->n_suspects));
    QN_TRY(list(g, all, is_listed_mistake, &f->mistakes, &f->n_mistakes));
    QN_TRY(list(g, all, is_listed_doubtful, &f->doubtful, &f->n_doubtful));
    return list(g, all, is_listed_duplicate, &f->duplicates, &f->n_duplicates);
}

/* ---- all ---- */

static qn_status find_all(finding *g, qn_arena *arena, bool (*should_stop)(void *user),
                          void *user) {
    const size_t n = (size_t)g->f->n, n_classes = (size_t)g->f->n_classes;
    g->x = qn_arena_allocate(arena, n * (size_t)g->width, sizeof *g->x);
    g->norm = qn_arena_allocate(arena, n, sizeof *g->norm);
    g->means = qn_arena_allocate(arena, n_classes * (size_t)g->width, sizeof *g->means);
    g->votes = qn_arena_allocate(arena, n_classes, sizeof *g->votes);
    ranked *all = qn_arena_allocate(arena, (n > n_classes ? n : n_classes) + 1, sizeof *all);
    if (!g->x || !g->norm || !g->means || !g->votes || !all)
        return QN_ERROR_MEMORY;
    memset(g->means, 0, n_classes * (size_t)g->width * sizeof *g->means);
    take_samples(g);
    take_features(g);
    QN_TRY(compare_all(g, should_stop, user));
    find_means(g);
    take_answers(g);
    sum_classes(g);
    return list_all(g, all);
}

qn_status qn_findings_make(const qn_sample_looks *looks, double unsure,
                           bool (*should_stop)(void *user), void *user, qn_findings *findings) {
    const int64_t n = looks->features.n;
    qn_arena arena;
    finding g = {.looks = looks, .f = findings, .width = looks->features.width};
    *findings = (qn_findings){.allocator = looks->allocator,
                              .n = n < QN_FINDINGS_MOST ? n : QN_FINDINGS_MOST,
                              .n_classes = looks->n_classes,
                              .unsure = (float)(unsure > 0 ? unsure : looks->fit.unsure)};
    findings->n_left_out = n - findings->n;
    QN_TRY(qn_allocate(looks->allocator, (size_t)findings->n, sizeof *findings->samples,
                       &findings->samples));
    QN_TRY(qn_allocate(looks->allocator, (size_t)findings->n_classes, sizeof *findings->classes,
                       &findings->classes));
    QN_TRY(qn_allocate(looks->allocator, (size_t)findings->n_classes, sizeof *findings->by_need,
                       &findings->by_need));
    qn_arena_init(&arena, looks->allocator);
    const qn_status status = find_all(&g, &arena, should_stop, user);
    qn_arena_deinit(&arena);
    return status;
}

void qn_findings_deinit(qn_findings *f) {
    if (!f->allocator)
        return;
    qn_release(f->allocator, f->samples, (size_t)f->n, sizeof *f->samples);
    qn_release(f->allocator, f->classes, (size_t)f->n_classes, sizeof *f->classes);
    qn_release(f->allocator, f->by_need, (size_t)f->n_classes, sizeof *f->by_need);
    qn_release(f->allocator, f->suspects, (size_t)f->n_suspects, sizeof *f->suspects);
    qn_release(f->allocator, f->mistakes, (size_t)f->n_mistakes, sizeof *f->mistakes);
    qn_release(f->allocator, f->doubtful, (size_t)f->n_doubtful, sizeof *f->doubtful);
    qn_release(f->allocator, f->duplicates, (size_t)f->n_duplicates, sizeof *f->duplicates);
}
