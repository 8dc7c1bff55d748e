/* See others.h. */
#include "label/bench/others.h"

#include "base/rng.h"
#include "base/status.h"
#include "label/bench/points.h"
#include "label/select.h"

#include <string.h>

enum { NEIGHBOURS = 10, SPREADS = 30, CLUSTERS = 30, MOVES = 20 };

static qn_points points_of(const qn_others *o) {
    return (qn_points){o->n, o->d, o->z, NULL, 0};
}

/* ---- class means ---- */

static void measure_means(const qn_others *o, float *mean) {
    const qn_points labelled = {o->n_labelled, o->d, o->z, NULL, 0};
    qn_points_average(&labelled, o->label, o->n_known, mean);
}

static qn_status by_mean(const qn_others *o, int32_t *answers) {
    float *mean, far;
    const size_t n = (size_t)(o->n_known * o->d);
    QN_TRY(qn_allocate(o->allocator, n, sizeof *mean, &mean));
    const qn_points means = {o->n_known, o->d, mean, NULL, 0};
    measure_means(o, mean);
    for (int i = o->n_labelled; i < o->n; i++)
        answers[i] = qn_points_nearest(&means, o->z + i * o->d, &far);
    qn_release(o->allocator, mean, n, sizeof *mean);
    return QN_OK;
}

/* ---- k-means ---- */

/* k centres of points, from those that are drawn; of (n): the nearest of each. */
static void cluster(const qn_points *p, uint64_t seed, int k, float *centre, int32_t *of) {
    const qn_rng rng = qn_rng_make(seed, qn_hash_text("label.others"), 0);
    qn_points centres = {0, p->d, centre, NULL, 0};
    for (uint64_t i = 0; i < (uint64_t)p->n * 8 && centres.n < k; i++) {
        const int at = (int)qn_rng_below(rng, i, (uint64_t)p->n);
        if (qn_point_counts(p, at))
            memcpy(centre + p->d * centres.n++, p->x + at * p->d, (size_t)p->d * sizeof *centre);
    }
    for (int move = 0; move < MOVES; move++) {
        qn_points_assign(p, &centres, of);
        qn_points_average(p, of, centres.n, centre);
    }
}

/* Farther from all class means than nineteen of twenty labelled samples from their own. */
static void reject(const qn_others *o, const float *mean, float *room, int32_t *use,
                   int32_t *answers) {
    const qn_points means = {o->n_known, o->d, mean, NULL, 0};
    for (int i = 0; i < o->n_labelled; i++)
        room[i] = qn_square_distance(o->z + i * o->d, mean + o->label[i] * o->d, o->d);
    const float most = qn_select_smallest(room, o->n_labelled, o->n_labelled * 19 / 20);
    for (int i = 0; i < o->n; i++) {
        float far;
        answers[i] = qn_points_nearest(&means, o->z + i * o->d, &far);
        use[i] = i >= o->n_labelled && far > most;
    }
}

/* What the two methods with k-means work on. */
typedef struct clustering {
    float *centre, *mean, *room;
    int32_t *use, *of;
} clustering;

static bool make_clustering(const qn_others *o, qn_arena *arena, clustering *c) {
    qn_arena_init(arena, o->allocator);
    c->use = qn_arena_allocate(arena, (size_t)o->n, sizeof(int32_t));
    c->centre = qn_arena_allocate(arena, (size_t)(CLUSTERS * o->d), sizeof(float));
    c->mean = qn_arena_allocate(arena, (size_t)(o->n_known * o->d), sizeof(float));
    c->room = qn_arena_allocate(arena, (size_t)o->n, sizeof(float));
    c->of = qn_arena_allocate(arena, (size_t)o->n, sizeof(int32_t));
    return c->use && c->centre && c->mean && c->room && c->of;
}

static qn_status by_clusters(const qn_others *o, int32_t *answers) {
    qn_arena arena;
    clustering c;
    int32_t class[CLUSTERS];
    const bool is_made = make_clustering(o, &arena, &c);
    if (is_made) {
        const qn_points points = points_of(o);
        cluster(&points, o->seed, CLUSTERS, c.centre, c.of);
        qn_points_name(o->n_labelled, c.of, o->label, o->n_known, CLUSTERS, class);
        for (int i = o->n_labelled; i < o->n; i++)
            answers[i] = class[c.of[i]] >= 0 ? class[c.of[i]] : 0;
    }
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status by_rejection(const qn_others *o, int32_t *answers) {
    qn_arena arena;
    clustering c;
    const bool is_made = make_clustering(o, &arena, &c);
    if (is_made) {
        measure_means(o, c.mean);
        reject(o, c.mean, c.room, c.use, answers);
        const qn_points rejected = {o->n, o->d, o->z, c.use, 1};
        cluster(&rejected, o->seed, o->n_new < CLUSTERS ? o->n_new : CLUSTERS, c.centre, c.of);
        for (int i = o->n_labelled; i < o->n; i++)
            answers[i] = c.use[i] ? o->n_known + c.of[i] : answers[i];
    }
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- label spreading ---- */

static qn_status by_spreading(const qn_others *o, int32_t *answers) {
    qn_arena arena;
    const size_t n = (size_t)o->n, c = (size_t)o->n_known;
    qn_arena_init(&arena, o->allocator);
    int32_t *near = qn_arena_allocate(&arena, n, NEIGHBOURS * sizeof *near);
    float *now = qn_arena_allocate(&arena, n * c, sizeof *now);
    float *before = qn_arena_allocate(&arena, n * c, sizeof *before);
    const bool is_made = near && now && before;
    const qn_points points = points_of(o);
    const qn_spread spread = {o->n, o->n_labelled, o->n_known, NEIGHBOURS, near, o->label};
    for (int i = 0; is_made && i < o->n; i++)
        qn_points_neighbours(&points, i, NEIGHBOURS, near + i * NEIGHBOURS);
    for (int turn = 0; is_made && turn < SPREADS; turn++) {
        memcpy(before, now, n * c * sizeof *now);
        qn_spread_step(&spread, before, now);
    }
    for (int i = o->n_labelled; is_made && i < o->n; i++)
        answers[i] = qn_largest(now + i * o->n_known, o->n_known);
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}

const qn_other *qn_other_at(int index) {
    static const qn_other all[] = {
        {"classifier on the labels", false, qn_other_transfer},
        {"self-training", false, qn_other_self_training},
        {"support vectors, pseudo-labels", false, qn_other_machines},
        {"boosting", false, qn_other_boosting},
        {"label spreading", false, by_spreading},
        {"nearest class mean", false, by_mean},
        {"k-means, named by labels", false, by_clusters},
        {"rejection and k-means, number told", true, by_rejection},
    };
    return index >= 0 && index < (int)(sizeof all / sizeof all[0]) ? &all[index] : NULL;
}
