/* See others.h. */
#include "label/bench/others.h"

#include "base/rng.h"
#include "base/status.h"
#include "label/select.h"

#include <string.h>

enum { NEIGHBOURS = 10, SPREADS = 30, CLUSTERS = 30, MOVES = 20 };
static const float spreading = 0.9f;

static float distance(const float *a, const float *b, int d) {
    float sum = 0;
    for (int j = 0; j < d; j++)
        sum += (a[j] - b[j]) * (a[j] - b[j]);
    return sum;
}

/* The nearest of n points (n, d). *far: its squared distance. */
static int nearest(const float *z, const float *points, int n, int d, float *far) {
    int best = 0;
    *far = 1e30f;
    for (int i = 0; i < n; i++) {
        const float at = distance(z, points + i * d, d);
        best = at < *far ? i : best;
        *far = at < *far ? at : *far;
    }
    return best;
}

/* ---- class means ---- */

static void measure_means(const qn_others *o, float *mean) {
    memset(mean, 0, (size_t)(o->n_known * o->d) * sizeof *mean);
    for (int c = 0; c < o->n_known; c++) {
        int count = 0;
        for (int i = 0; i < o->n_labelled; i++)
            count += o->label[i] == c;
        for (int i = 0; i < o->n_labelled; i++)
            for (int j = 0; j < o->d && o->label[i] == c; j++)
                mean[c * o->d + j] += o->z[i * o->d + j] / (float)count;
    }
}

static qn_status by_mean(const qn_others *o, int32_t *answers) {
    float *mean, far;
    const size_t n = (size_t)(o->n_known * o->d);
    QN_TRY(qn_allocate(o->allocator, n, sizeof *mean, &mean));
    measure_means(o, mean);
    for (int i = o->n_labelled; i < o->n; i++)
        answers[i] = nearest(o->z + i * o->d, mean, o->n_known, o->d, &far);
    qn_release(o->allocator, mean, n, sizeof *mean);
    return QN_OK;
}

/* ---- k-means ---- */

/* k centres of the samples with use above 0, from samples that are drawn; of (n): the nearest. */
static void cluster(const qn_others *o, const uint8_t *use, int k, float *centre, int32_t *of) {
    const qn_rng rng = qn_rng_make(o->seed, qn_hash_text("label.others"), 0);
    float far;
    int drawn = 0;
    for (uint64_t i = 0; i < (uint64_t)o->n * 8 && drawn < k; i++) {
        const int at = (int)qn_rng_below(rng, i, (uint64_t)o->n);
        if (use[at])
            memcpy(centre + o->d * drawn++, o->z + at * o->d, (size_t)o->d * sizeof *centre);
    }
    for (int move = 0; move < MOVES && drawn > 0; move++) {
        int count[CLUSTERS] = {0};
        for (int i = 0; i < o->n; i++) {
            of[i] = nearest(o->z + i * o->d, centre, drawn, o->d, &far);
            count[of[i]] += use[i];
        }
        for (int c = 0; c < drawn; c++)
            if (count[c] > 0)
                memset(centre + c * o->d, 0, (size_t)o->d * sizeof *centre);
        for (int i = 0; i < o->n; i++)
            for (int j = 0; j < o->d && use[i]; j++)
                centre[of[i] * o->d + j] += o->z[i * o->d + j] / (float)count[of[i]];
    }
}

/* Every cluster is of the class that most of its labelled samples have. */
static void name_clusters(const qn_others *o, const int32_t *of, int32_t *class) {
    for (int k = 0; k < CLUSTERS; k++) {
        int most = 0;
        class[k] = 0;
        for (int c = 0; c < o->n_known; c++) {
            int count = 0;
            for (int i = 0; i < o->n_labelled; i++)
                count += of[i] == k && o->label[i] == c;
            class[k] = count > most ? c : class[k];
            most = count > most ? count : most;
        }
    }
}

/* Farther from all class means than nineteen of twenty labelled samples from their own. */
static void reject(const qn_others *o, const float *mean, float *room, uint8_t *use,
                   int32_t *answers) {
    for (int i = 0; i < o->n_labelled; i++)
        room[i] = distance(o->z + i * o->d, mean + o->label[i] * o->d, o->d);
    const float most = qn_select_smallest(room, o->n_labelled, o->n_labelled * 19 / 20);
    for (int i = 0; i < o->n; i++) {
        float far;
        answers[i] = nearest(o->z + i * o->d, mean, o->n_known, o->d, &far);
        use[i] = i >= o->n_labelled && far > most;
    }
}

/* What the two methods with k-means work on. */
typedef struct clustering {
    uint8_t *use;
    float *centre, *mean, *room;
    int32_t *of;
} clustering;

static bool make_clustering(const qn_others *o, qn_arena *arena, clustering *c) {
    qn_arena_init(arena, o->allocator);
    c->use = qn_arena_allocate(arena, (size_t)o->n, 1);
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
        memset(c.use, 1, (size_t)o->n);
        cluster(o, c.use, CLUSTERS, c.centre, c.of);
        name_clusters(o, c.of, class);
        for (int i = o->n_labelled; i < o->n; i++)
            answers[i] = class[c.of[i]];
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
        cluster(o, c.use, o->n_new < CLUSTERS ? o->n_new : CLUSTERS, c.centre, c.of);
        for (int i = o->n_labelled; i < o->n; i++)
            answers[i] = c.use[i] ? o->n_known + c.of[i] : answers[i];
    }
    qn_arena_deinit(&arena);
    return is_made ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- label spreading ---- */

/* The nearest neighbours of sample i. */
static void find_neighbours(const qn_others *o, int i, int32_t *next) {
    float far[NEIGHBOURS];
    int n = 0;
    for (int k = 0; k < o->n; k++) {
        const float at = k == i ? 1e30f : distance(o->z + i * o->d, o->z + k * o->d, o->d);
        if (n == NEIGHBOURS && at >= far[n - 1])
            continue;
        int to = n < NEIGHBOURS ? n++ : n - 1;
        for (; to > 0 && far[to - 1] > at; to--) {
            far[to] = far[to - 1];
            next[to] = next[to - 1];
        }
        far[to] = at;
        next[to] = k;
    }
}

/* Labels flow to neighbours, over and over, and return in part to where they came from (Zhou et al.
 * 2004, "Learning with local and global consistency", with each sample's neighbours alike). */
static qn_status by_spreading(const qn_others *o, int32_t *answers) {
    qn_arena arena;
    const size_t n = (size_t)o->n, c = (size_t)o->n_known;
    qn_arena_init(&arena, o->allocator);
    int32_t *next = qn_arena_allocate(&arena, n, NEIGHBOURS * sizeof *next);
    float *now = qn_arena_allocate(&arena, n * c, sizeof *now);
    float *before = qn_arena_allocate(&arena, n * c, sizeof *before);
    const bool is_made = next && now && before && o->n > NEIGHBOURS;
    for (int i = 0; is_made && i < o->n; i++)
        find_neighbours(o, i, next + i * NEIGHBOURS);
    for (int turn = 0; is_made && turn < SPREADS; turn++) {
        memcpy(before, now, n * c * sizeof *now);
        for (size_t i = 0; i < n; i++)
            for (size_t k = 0; k < c; k++) {
                float sum = 0;
                for (int j = 0; j < NEIGHBOURS; j++)
                    sum += before[(size_t)next[i * NEIGHBOURS + (size_t)j] * c + k];
                const bool is_its = i < (size_t)o->n_labelled && (size_t)o->label[i] == k;
                now[i * c + k] = spreading * sum / NEIGHBOURS + (is_its ? 1 - spreading : 0);
            }
    }
    for (size_t i = (size_t)o->n_labelled; is_made && i < n; i++) {
        answers[i] = 0;
        for (size_t k = 1; k < c; k++)
            if (now[i * c + k] > now[i * c + (size_t)answers[i]])
                answers[i] = (int32_t)k;
    }
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
