/* Learning from the stream: repeatedly, in bounded pieces of work, one after each sample until
 * done. Found clusters are fitted to the last samples beside the known ones, new clusters are
 * searched for, and known ones are tracked: by small moves of their centres, and, if a found
 * cluster turns out to be a known one that has moved away, by replacing it. */
#include "base/fmath.h"
#include "label/labeller.h"

#include <string.h>

enum {
    STEPS = 5,
    LOOKS = 32,
    MOST_ADDED = 3,
    FOLLOWED = 200,   /* last samples that known clusters follow */
    LEAST_LIFE = 30,  /* labels after which a cluster stays though it has no members */
    LEAST_COUNT = 3,  /* members below which one that is younger goes */
    FIRST_REFIT = 50, /* samples */
    FIRST_TAKEOVER = 100,
    MOST_TAKEOVERS = 2 /* that are tried in a refit */
};

static const float half_life = 20.0f;   /* samples after which one counts half in following */
static const float anchor = 2.0f;       /* members that hold a known cluster where it is */
static const float stride_most = 0.15f; /* that a centre moves in 100 samples */
static const float known_pseudo = 16.0f, fresh_pseudo = 1.0f; /* members of no sample */

int qn_labeller_interval(int64_t n_samples) {
    return n_samples < 200 ? 25 : n_samples < 400 ? 50 : 100;
}

qn_cluster_prior qn_labeller_prior(const qn_labeller *l) {
    return (qn_cluster_prior){
        .spread = *l->spread, .count = 8.0f, .smooth = 0.003f, .least = 4e-4f};
}

static float price_of(const qn_labeller *l) {
    return 0.5f * (float)(l->d + 4) * qn_ln((float)l->n_window);
}

static qn_grow_samples samples_of(const qn_labeller *l) {
    return (qn_grow_samples){l->n_window, l->d, l->window, l->rest, *l->known_weight};
}

/* ---- found clusters ---- */

void qn_labeller_drop_fresh(qn_labeller *l, int k) {
    const int last = --l->fresh.n;
    qn_cluster_copy(&l->fresh, last, &l->fresh, k);
    l->place[k] = l->place[last];
    l->fresh.weight[last] = 0;
}

/* Young clusters without members go. */
static void drop_empty(qn_labeller *l) {
    for (int k = l->fresh.n - 1; k > 0; k--)
        if (l->fresh.weight[k] * (float)l->n_window < LEAST_COUNT &&
            qn_labeller_found(l, l->place[k])->n_members < LEAST_LIFE)
            qn_labeller_drop_fresh(l, k);
}

/* The others wait with a little weight: a class that comes back is the one that it was. */
static void keep_waiting(qn_labeller *l) {
    const float least = 0.5f / (float)l->n_window;
    for (int k = 1; k < l->fresh.n; k++)
        l->fresh.weight[k] = l->fresh.weight[k] > least ? l->fresh.weight[k] : least;
}

/* Makes room where all lanes are taken: the one whose class was not seen longest goes. */
static void make_room(qn_labeller *l) {
    int oldest = 1;
    if (l->fresh.n < l->fresh.capacity)
        return;
    for (int k = 2; k < l->fresh.n; k++)
        if (qn_labeller_found(l, l->place[k])->last < qn_labeller_found(l, l->place[oldest])->last)
            oldest = k;
    if (l->fresh.weight[oldest] * (float)l->n_window < LEAST_COUNT)
        qn_labeller_drop_fresh(l, oldest);
}

/* A place for a new class: a free one, or that of the class not seen longest that has no cluster.
 */
static int take_place(const qn_labeller *l) {
    int best = -1;
    for (int i = 0; i < QN_LABEL_MAX_NEW; i++) {
        const qn_label_record *r = qn_labeller_found(l, i);
        bool is_used = false;
        for (int k = 1; k < l->fresh.n; k++)
            is_used |= l->place[k] == i;
        if (is_used)
            continue;
        if (r->serial < 0)
            return i;
        if (best < 0 || r->last < qn_labeller_found(l, best)->last)
            best = i;
    }
    return best;
}

static void print_new_name(char *name, int64_t number) {
    char digits[24];
    int n = 0, at = 4;
    memcpy(name, "new-", 4);
    do {
        digits[n++] = (char)('0' + number % 10);
        number /= 10;
    } while (number > 0);
    while (n > 0)
        name[at++] = digits[--n];
    name[at] = 0;
}

void qn_labeller_begin_class(qn_labeller *l, int place) {
    qn_label_record *r = qn_labeller_found(l, place);
    *r = (qn_label_record){.serial = l->n_found++, .first = -1, .last = l->n_samples - 1};
    print_new_name(r->name, r->serial + 1);
}

static void name_fresh(qn_labeller *l, int k) {
    l->place[k] = -1;
    const int place = take_place(l);
    qn_labeller_begin_class(l, place);
    l->place[k] = place;
}

static void fit_fresh(qn_labeller *l, int steps) {
    const qn_cluster_prior prior = qn_labeller_prior(l);
    qn_grow_samples samples = samples_of(l);
    qn_grow_fit(&l->fresh, 1, &samples, steps, &prior, &l->space);
    *l->known_weight = samples.rest_weight;
    keep_waiting(l);
}

static void add_fresh(qn_labeller *l) {
    const qn_cluster_prior prior = qn_labeller_prior(l);
    qn_grow_samples samples = samples_of(l);
    drop_empty(l);
    make_room(l);
    const int before = l->fresh.n;
    qn_grow_add(&l->fresh, &samples, LOOKS, MOST_ADDED, price_of(l),
                qn_rng_make(l->seed, 99, (uint64_t)l->n_samples), &prior, &l->space);
    for (int k = before; k < l->fresh.n; k++)
        name_fresh(l, k);
    *l->known_weight = samples.rest_weight;
}

/* ---- known clusters ---- */

/* What the known clusters explain of a sample, in parts of it. */
static void known_parts(const qn_labeller *l, const float *x, qn_label_view *view, float *part) {
    qn_labeller_look(l, &l->known, x, view);
    const float scale = *l->known_weight * qn_exp_f32(view->known.base - view->fresh.base) /
                        (view->known_part + view->fresh_part + 1e-30f);
    for (int k = 0; k < l->known.capacity; k++)
        part[k] = k < l->known.n ? view->known.density[k] * scale : 0.0f;
}

/* A sample that was explained when it came stays so, though its cluster has moved on. */
static void keep_rest(qn_labeller *l) {
    qn_cluster_view view;
    for (int i = 0; i < l->n_window; i++) {
        const float sum = qn_clusters_look(&l->known, l->window + (size_t)i * (size_t)l->d,
                                           qn_labeller_least_log(l), &view);
        const float now = view.base + qn_ln(sum + 1e-30f);
        l->rest[i] = now > l->rest[i] ? now : l->rest[i];
    }
}

static void move_centre(qn_labeller *l, int k, float most) {
    const qn_cluster_sums *sums = &l->space.sums;
    const float part = sums->count[k] / (sums->count[k] + anchor);
    float square = 0, move[QN_LABEL_MAX_FEATURES];
    for (int j = 0; j < l->d; j++) {
        const size_t row = (size_t)j;
        move[j] = part * (sums->pulled[row * (size_t)sums->capacity + (size_t)k] / sums->pull[k] -
                          l->known.centre[row * (size_t)l->known.capacity + (size_t)k]);
        square += move[j] * move[j];
    }
    const float length = __builtin_sqrtf(square), cut = length > most ? most / length : 1.0f;
    for (int j = 0; j < l->d; j++)
        l->known.centre[(size_t)j * (size_t)l->known.capacity + (size_t)k] += cut * move[j];
}

static void follow(qn_labeller *l) {
    qn_label_view view;
    float part[QN_MAX_LANES];
    const int n = l->n_window < FOLLOWED ? l->n_window : FOLLOWED;
    const float fade = qn_exp_f32(-0.693147181f / half_life);
    float count = 1.0f;
    qn_cluster_sums_clear(&l->space.sums);
    for (int age = 0; age < n; age++, count *= fade) {
        const int i = (l->window_at - 1 - age + QN_LABEL_WINDOW) % QN_LABEL_WINDOW;
        const float *x = l->window + (size_t)i * (size_t)l->d;
        known_parts(l, x, &view, part);
        for (int k = 0; k < l->known.n; k++)
            part[k] *= count;
        qn_cluster_sums_add(&l->space.sums, &l->known, x, &view.known, part);
    }
    const float most = stride_most * (float)qn_labeller_interval(l->n_samples) / 100.0f;
    for (int k = 0; k < l->known.n; k++)
        if (l->space.sums.count[k] > 0.5f)
            move_centre(l, k, most);
    if (*l->lead > 0) /* else they do not answer, and what they explain does not count */
        keep_rest(l);
}

static float radius_of(const qn_clusters *set, int k) {
    return __builtin_sqrtf(set->shape[k] * set->scale[k]);
}

/* How far cluster f is from known cluster k, in what k may move; beyond 1.5 it is another one. */
static float distance_to(const qn_labeller *l, int f, int k) {
    float square = 0;
    for (int j = 0; j < l->d; j++) {
        const size_t row = (size_t)j;
        const float off = l->fresh.centre[row * (size_t)l->fresh.capacity + (size_t)f] -
                          l->known.centre[row * (size_t)l->known.capacity + (size_t)k];
        square += off * off;
    }
    return __builtin_sqrtf(square) / (radius_of(&l->known, k) + 0.2f);
}

static bool are_alike(float a, float b) {
    return a < 2.5f * b && b < 2.5f * a;
}

/* The known cluster that lost about the members that f has, is as wide, and the nearest; or -1.
 * count: members of the known clusters in the window. */
static int find_moved(const qn_labeller *l, int f, const float *count) {
    const float n = (float)l->n_window, has = l->fresh.weight[f] * n;
    float nearest = 1.5f;
    int best = -1;
    for (int k = 0; k < l->known.n; k++) {
        const float expected = n * *l->known_weight * l->known.weight[k];
        const float lost = expected - count[k];
        if (lost < 2.0f * __builtin_sqrtf(expected) + 2.0f || !are_alike(has, lost) ||
            !are_alike(radius_of(&l->fresh, f), radius_of(&l->known, k)))
            continue;
        const float distance = distance_to(l, f, k);
        if (distance < nearest) {
            nearest = distance;
            best = k;
        }
    }
    return best;
}

/* What the logarithm of the likelihood changes by if f takes k's place instead of standing beside
 * it. view and part (QN_MAX_LANES): room. */
static double change_of_takeover(const qn_labeller *l, int f, int k, qn_label_view *view,
                                 float *part) {
    double change = 0.0;
    const float ratio = *l->known_weight * l->known.weight[k] / (l->fresh.weight[f] + 1e-30f);
    for (int i = 0; i < l->n_window; i++) {
        known_parts(l, l->window + (size_t)i * (size_t)l->d, view, part);
        const float all = view->known_part + view->fresh_part + 1e-30f;
        const float there = view->fresh.density[f] / all * ratio;
        const float left = 1.0f - part[k] + there;
        change += (double)qn_ln(left > 1e-30f ? left : 1e-30f);
    }
    return change;
}

static void take_over(qn_labeller *l, int f, int k) {
    const float weight = l->known.weight[k];
    qn_cluster_copy(&l->fresh, f, &l->known, k);
    l->known.weight[k] = weight;
    qn_labeller_drop_fresh(l, f);
    keep_rest(l);
}

static void find_takeovers(qn_labeller *l) {
    qn_label_view view;
    float part[QN_MAX_LANES], count[QN_MAX_LANES] = {0};
    for (int i = 0; i < l->n_window; i++) {
        known_parts(l, l->window + (size_t)i * (size_t)l->d, &view, part);
        for (int k = 0; k < l->known.n; k++)
            count[k] += part[k];
    }
    int left = MOST_TAKEOVERS;
    for (int f = l->fresh.n - 1; f > 0 && left > 0; f--) {
        const int k = find_moved(l, f, count);
        if (k < 0)
            continue;
        left--;
        if (change_of_takeover(l, f, k, &view, part) > (double)-price_of(l)) {
            take_over(l, f, k);
            return; /* one in a refit: its members are counted anew */
        }
    }
}

/* ---- the limit of the examples ---- */

float qn_labeller_odds(const qn_labeller *l, const float *x, float log_known) {
    qn_cluster_view view;
    const float sum = qn_clusters_look(&l->fresh, x, qn_labeller_least_log(l), &view);
    return qn_ln(*l->known_weight + 1e-30f) + log_known - view.base - qn_ln(sum + 1e-30f);
}

void qn_labeller_set_limit(qn_labeller *l) {
    float known[QN_MOST_EXAMPLES], all[QN_LABEL_WINDOW], x[QN_LABEL_MAX_FEATURES];
    const int n = l->examples.n, n_all = l->n_window;
    for (int i = 0; i < n; i++) {
        qn_examples_get(&l->examples, i, x);
        known[i] = qn_labeller_odds(l, x, l->examples.alone[i]);
    }
    for (int i = 0; i < n_all; i++)
        all[i] = qn_labeller_odds(l, l->window + (size_t)i * (size_t)l->d, l->rest[i]);
    *l->examples.limit = qn_examples_find_limit(known, n, all, n_all);
}

/* ---- refits ---- */

/* Shares of samples that have not come keep any of them from 0. */
static void add_pseudo_counts(qn_labeller *l) {
    const float n = (float)l->n_window, all = n + known_pseudo + fresh_pseudo;
    for (int k = 0; k < l->fresh.n; k++)
        l->fresh.weight[k] *= n / all;
    *l->known_weight = (*l->known_weight * n + known_pseudo) / all;
    l->fresh.weight[0] += fresh_pseudo / all;
}

void qn_labeller_refit(qn_labeller *l) {
    if (l->n_samples >= FIRST_REFIT && l->n_samples % qn_labeller_interval(l->n_samples) == 0)
        l->stage = 1;
    switch (l->stage) {
    case 0:
        return;
    case 1:
        fit_fresh(l, STEPS);
        break;
    case 2:
        add_fresh(l);
        break;
    case 3:
        fit_fresh(l, STEPS);
        break;
    case 4:
        if (*l->lead > 0 && l->n_samples >= FIRST_TAKEOVER)
            find_takeovers(l);
        break;
    case 5:
        follow(l);
        add_pseudo_counts(l);
        break;
    case QN_LABEL_STAGES:
        if (l->examples.n > 0)
            qn_labeller_absorb(l);
        if (qn_labeller_has_examples(l))
            qn_labeller_set_limit(l);
        break;
    }
    l->stage = l->stage < QN_LABEL_STAGES ? l->stage + 1 : 0;
}
