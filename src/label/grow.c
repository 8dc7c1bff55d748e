/* See grow.h. */
#include "label/grow.h"

#include "base/fmath.h"
#include "label/select.h"

enum { N_RADII = 3, TRIAL_STEPS = 8, LEAST_MEMBERS = 5, LEAST_FITTED = 3 };

static const float nothing = -80.0f; /* ln of a density that counts as none beside any other */

size_t qn_grow_space_floats(int most_samples, int d, int capacity) {
    return qn_cluster_sums_floats(d, capacity) + qn_clusters_floats(d, QN_CLUSTER_LANES) +
           2 * (size_t)most_samples;
}

void qn_grow_space_lay(qn_grow_space *space, int most_samples, int d, int capacity, float *block) {
    space->most_samples = most_samples;
    space->d = d;
    space->capacity = capacity;
    qn_cluster_sums_lay(&space->sums, d, capacity, block);
    block += qn_cluster_sums_floats(d, capacity);
    qn_clusters_lay(&space->tried, d, QN_CLUSTER_LANES, block);
    block += qn_clusters_floats(d, QN_CLUSTER_LANES);
    space->model = block;
    space->distance = block + most_samples;
}

static float rest_of(const qn_grow_samples *samples, int i) {
    return samples->rest ? samples->rest[i] : nothing;
}

/* Expectation: fills the sums; the logarithm of the likelihood. */
static double expect(const qn_clusters *set, const qn_grow_samples *samples, qn_cluster_sums *sums,
                     float *rest_count) {
    qn_cluster_view view;
    float part[QN_MAX_LANES], others = 0;
    const int n = (set->n + QN_CLUSTER_LANES - 1) / QN_CLUSTER_LANES * QN_CLUSTER_LANES;
    double likelihood = 0.0;
    qn_cluster_sums_clear(sums);
    for (int i = 0; i < samples->n; i++) {
        const float *x = samples->x + (size_t)i * (size_t)samples->d;
        const float rest = rest_of(samples, i);
        const float sum = qn_clusters_look(set, x, rest, &view);
        const float beside = samples->rest_weight * qn_exp_f32(rest - view.base);
        const float all = sum + beside + 1e-30f, scale = 1.0f / all;
        for (int k = 0; k < n; k++)
            part[k] = view.density[k] * scale;
        qn_cluster_sums_add(sums, set, x, &view, part);
        others += beside * scale;
        likelihood += (double)(view.base + qn_ln(all));
    }
    *rest_count = others;
    return likelihood;
}

double qn_grow_fit(qn_clusters *set, int first, qn_grow_samples *samples, int steps,
                   const qn_cluster_prior *prior, qn_grow_space *space) {
    double likelihood = 0.0;
    for (int step = 0; step < steps; step++) {
        float rest_count;
        likelihood = expect(set, samples, &space->sums, &rest_count);
        if (samples->rest)
            samples->rest_weight = rest_count / (float)samples->n;
        for (int k = 0; k < set->n; k++) {
            set->weight[k] = space->sums.count[k] / (float)samples->n;
            if (k >= first && space->sums.count[k] >= LEAST_FITTED)
                qn_cluster_fit(set, k, &space->sums, prior);
        }
    }
    return likelihood;
}

void qn_grow_model(const qn_clusters *set, const qn_grow_samples *samples, qn_grow_space *space) {
    qn_cluster_view view;
    for (int i = 0; i < samples->n; i++) {
        const float rest = rest_of(samples, i);
        const float sum =
            qn_clusters_look(set, samples->x + (size_t)i * (size_t)samples->d, rest, &view);
        space->model[i] =
            view.base + qn_ln(sum + samples->rest_weight * qn_exp_f32(rest - view.base) + 1e-30f);
    }
}

/* ---- where to look ---- */

static void square_distances(const qn_grow_samples *samples, int from, float *distance) {
    const float *at = samples->x + (size_t)from * (size_t)samples->d;
    for (int i = 0; i < samples->n; i++) {
        const float *x = samples->x + (size_t)i * (size_t)samples->d;
        float sum = 0;
        for (int j = 0; j < samples->d; j++)
            sum += (x[j] - at[j]) * (x[j] - at[j]);
        distance[i] = sum;
    }
}

/* A place where samples lie denser than the model says. */
typedef struct peak {
    int sample;
    float excess; /* of the logarithm of the density */
    float square; /* squared distance to the neighbour that it was measured by */
    float weight; /* share of samples within that */
} peak;

/* Keeps the best of each radius: lanes [radius * n / N_RADII, ...), worst replaced. */
static void keep_peak(peak *peaks, int n, peak candidate) {
    int worst = 0;
    for (int i = 1; i < n; i++)
        worst = peaks[i].excess < peaks[worst].excess ? i : worst;
    if (candidate.excess > peaks[worst].excess)
        peaks[worst] = candidate;
}

/* Fills peaks (QN_CLUSTER_LANES). */
static void find_peaks(const qn_grow_samples *samples, int looks, qn_rng rng, qn_grow_space *space,
                       peak *peaks) {
    static const int parts[N_RADII] = {130, 50, 18}, first[N_RADII + 1] = {0, 2, 5, 8};
    const int n = samples->n;
    const float half = 0.5f * (float)samples->d;
    for (int i = 0; i < QN_CLUSTER_LANES; i++)
        peaks[i] = (peak){.sample = -1, .excess = -1e30f};
    for (int look = 0; look < looks && look < n; look++) {
        const int i = (int)qn_rng_permute(rng, (uint64_t)look, (uint64_t)n);
        square_distances(samples, i, space->distance);
        int within = n;
        for (int r = N_RADII - 1; r >= 0; r--) {
            int k = n / parts[r];
            k = k < 3 ? 3 : k;
            if (k >= within)
                continue;
            const float square = qn_select_smallest(space->distance, within, k);
            within = k + 1;
            if (!(square > 0))
                continue;
            const float density = qn_ln((float)k / (float)n) - half * qn_ln(square);
            keep_peak(peaks + first[r], first[r + 1] - first[r],
                      (peak){i, density - space->model[i], square, (float)k / (float)n});
        }
    }
}

/* ---- trials ---- */

static void start_trials(const qn_grow_samples *samples, const peak *peaks,
                         const qn_cluster_prior *prior, qn_clusters *tried) {
    tried->n = QN_CLUSTER_LANES;
    for (int k = 0; k < QN_CLUSTER_LANES; k++) {
        const int i = peaks[k].sample < 0 ? 0 : peaks[k].sample;
        for (int j = 0; j < samples->d; j++)
            tried->centre[j * tried->capacity + k] =
                samples->x[(size_t)i * (size_t)samples->d + (size_t)j];
        qn_cluster_set(tried, k, peaks[k].square, prior->spread, prior);
        tried->weight[k] = peaks[k].sample < 0 ? 0.0f : 2.0f * peaks[k].weight;
    }
}

/* Expectation of every trial by itself beside the model. */
static void expect_trials(const qn_clusters *tried, const qn_grow_samples *samples,
                          const float *model, qn_cluster_sums *sums) {
    qn_cluster_view view;
    float part[QN_CLUSTER_LANES];
    qn_cluster_sums_clear(sums);
    for (int i = 0; i < samples->n; i++) {
        const float *x = samples->x + (size_t)i * (size_t)samples->d;
        qn_clusters_look(tried, x, model[i], &view);
        const float beside = qn_exp_f32(model[i] - view.base);
        for (int k = 0; k < QN_CLUSTER_LANES; k++) {
            const float all = view.density[k] + (1.0f - tried->weight[k]) * beside;
            part[k] = all > 0 ? view.density[k] / all : 0.0f;
            sums->gain[k] += all > 0 ? view.base + qn_ln(all) - model[i] : 0.0f;
        }
        qn_cluster_sums_add(sums, tried, x, &view, part);
    }
}

static void fit_trials(qn_clusters *tried, const qn_grow_samples *samples, int steps,
                       const qn_cluster_prior *prior, qn_grow_space *space, qn_cluster_sums *sums) {
    for (int step = 0; step < steps; step++) {
        expect_trials(tried, samples, space->model, sums);
        if (step == steps - 1)
            return;
        for (int k = 0; k < QN_CLUSTER_LANES; k++) {
            tried->weight[k] = sums->count[k] / (float)samples->n;
            qn_cluster_fit(tried, k, sums, prior);
        }
    }
}

static int best_trial(const qn_cluster_sums *sums) {
    int best = -1;
    for (int k = 0; k < QN_CLUSTER_LANES; k++)
        if (sums->count[k] >= LEAST_MEMBERS && (best < 0 || sums->gain[k] > sums->gain[best]))
            best = k;
    return best;
}

int qn_grow_add(qn_clusters *set, qn_grow_samples *samples, int looks, int most_added, float price,
                qn_rng rng, const qn_cluster_prior *prior, qn_grow_space *space) {
    peak peaks[QN_CLUSTER_LANES];
    int n_added = 0;
    qn_grow_model(set, samples, space);
    find_peaks(samples, looks, rng, space, peaks);
    start_trials(samples, peaks, prior, &space->tried);
    while (n_added < most_added && set->n < set->capacity) {
        fit_trials(&space->tried, samples, n_added ? 2 : TRIAL_STEPS, prior, space, &space->sums);
        const int best = best_trial(&space->sums);
        if (best < 0 || !(space->sums.gain[best] > price))
            break;
        const float weight = space->tried.weight[best];
        for (int k = 0; k < set->n; k++)
            set->weight[k] *= 1.0f - weight;
        samples->rest_weight *= 1.0f - weight;
        qn_cluster_copy(&space->tried, best, set, set->n++);
        space->tried.weight[best] = 0;
        n_added++;
        qn_grow_model(set, samples, space);
    }
    return n_added;
}
