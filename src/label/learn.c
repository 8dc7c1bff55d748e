/* Learning from the labelled samples: the scale of each feature, the clusters of each class, and
 * the typical size of clusters. */
#include "base/fmath.h"
#include "base/status.h"
#include "label/labeller.h"
#include "label/select.h"
#include "label/turn.h"

#include <string.h>

enum {
    CLASS_LANES = 24,
    ROUNDS = 8,
    LOOKS = 64,
    FEW_ROUNDS = 3,
    BATCH_ADDED = 2,
    FIRST_STEPS = 10,
    STEPS = 8,
    LAST_STEPS = 20,
    LEAST_HALVED = 20, /* labelled samples */
    MIXING_STEPS = 50,
    MORE_PASSES = 4,
    MOST_FORETOLD = 3 * QN_MOST_EXAMPLES,
    LEAST_FITTED = 8 /* samples of a class below which it is one cluster */
};

static const double unlike = 3.0; /* scales of features that differ more count one by one */

static const double least_texts =
    0.1; /* square of a deviation that a column of texts counts with */

static const float least_share = 0.25f; /* of examples, below which there are none */

/* ---- scales ---- */

/* A feature over all labelled samples, and from the means of their classes. */
typedef struct feature_scale {
    float middle;
    double all, within; /* deviations */
} feature_scale;

/* Deviations of values (n), by class. */
static void measure_deviations(const qn_label_options *o, int64_t n, const float *values,
                               feature_scale *scale) {
    double sum[QN_LABEL_MAX_KNOWN] = {0}, square[QN_LABEL_MAX_KNOWN] = {0}, mean = 0.0;
    int64_t count[QN_LABEL_MAX_KNOWN] = {0};
    double within = 0.0, all = 0.0;
    for (int64_t i = 0; i < n; i++) {
        count[o->label[i]]++;
        sum[o->label[i]] += (double)values[i];
        square[o->label[i]] += (double)values[i] * (double)values[i];
        mean += (double)values[i] / (double)n;
    }
    for (int c = 0; c < o->n_classes; c++) {
        all += square[c];
        within += count[c] ? square[c] - sum[c] * sum[c] / (double)count[c] : 0.0;
    }
    all = all / (double)n - mean * mean;
    within /= (double)n;
    scale->all = all > 1e-12 * mean * mean ? __builtin_sqrt(all) : 0.0;
    scale->within = within > 1e-12 * all && all > 0 ? __builtin_sqrt(within) : 0.0;
}

/* Values beyond six deviations of the middle half are taken as if they were there. */
static feature_scale measure_feature(const qn_label_options *o, int64_t n, int j, float *values) {
    feature_scale scale;
    for (int64_t i = 0; i < n; i++)
        values[i] = o->x[i * o->n_features + j];
    scale.middle = qn_select_smallest(values, (int)n, (int)(n / 2));
    const float low = qn_select_smallest(values, (int)n, (int)(n / 4));
    const float high = qn_select_smallest(values, (int)n, (int)(n - 1 - n / 4));
    const float far = high > low ? 6.0f * (high - low) / 1.349f : 1e18f;
    for (int64_t i = 0; i < n; i++) {
        const float off = o->x[i * o->n_features + j] - scale.middle;
        values[i] = off > far ? far : off < -far ? -far : off;
    }
    measure_deviations(o, n, values, &scale);
    return scale;
}

/* Root mean squares of the deviations of n columns. */
typedef struct column_scales {
    double least, most, all, within;
    int n;
} column_scales;

static void add_scale(column_scales *to, double all, double within) {
    if (!(within > 0))
        return;
    to->least = to->n && to->least < within ? to->least : within;
    to->most = to->most > within ? to->most : within;
    to->all += all * all;
    to->within += within * within;
    to->n++;
}

static void finish_scales(column_scales *to) {
    to->all = to->n ? __builtin_sqrt(to->all / to->n) : 1.0;
    to->within = to->n ? __builtin_sqrt(to->within / to->n) : 1.0;
}

/* A column of texts counts as much as one of numbers, all its features together; where a text tells
 * the class, it counts more, but within limits. */
static void scale_texts(qn_labeller *l, const feature_scale *scales, const column_scales *numbers) {
    column_scales texts = {.n = 0};
    double within[QN_LABEL_MAX_FEATURES] = {0};
    for (int i = 0, j = 0; i < l->columns.n; j += qn_label_column_width(&l->columns.column[i++])) {
        double all = 0.0;
        for (int k = j; k < j + qn_label_column_width(&l->columns.column[i]); k++) {
            all += scales[k].all * scales[k].all;
            within[i] += scales[k].within * scales[k].within;
        }
        within[i] = __builtin_sqrt(within[i] > least_texts ? within[i] : least_texts);
        if (l->columns.column[i].is_text)
            add_scale(&texts, __builtin_sqrt(all), within[i]);
    }
    finish_scales(&texts);
    const column_scales *typical = numbers->n > 0 ? numbers : &texts;
    for (int i = 0, j = 0; i < l->columns.n; i++)
        for (int k = 0; k < qn_label_column_width(&l->columns.column[i]); k++, j++)
            if (l->columns.column[i].is_text)
                l->factor[j] = (float)(typical->within / (within[i] * typical->all));
}

/* One factor for all features where those within a class are alike, else one for each; outliers
 * move neither. A feature that never changes counts like the others once it does. */
static void measure_scales(qn_labeller *l, const qn_label_options *o, int64_t n, float *values) {
    feature_scale scales[QN_LABEL_MAX_FEATURES];
    bool is_text[QN_LABEL_MAX_FEATURES] = {false};
    column_scales numbers = {.n = 0};
    for (int i = 0, j = 0; l->columns.column && i < l->columns.n; i++)
        for (int k = 0; k < qn_label_column_width(&l->columns.column[i]); k++)
            is_text[j++] = l->columns.column[i].is_text;
    for (int j = 0; j < l->d; j++) {
        scales[j] = measure_feature(o, n, j, values);
        l->shift[j] = scales[j].middle;
        if (!is_text[j])
            add_scale(&numbers, scales[j].all, scales[j].within);
    }
    finish_scales(&numbers);
    for (int j = 0; j < l->d; j++) {
        const bool has_own = scales[j].within > 0 && numbers.most > unlike * numbers.least;
        /* By its own scale, and then by how much wider all of them together are than a class. */
        l->factor[j] = (float)(has_own ? numbers.within / (scales[j].within * numbers.all)
                                       : 1.0 / numbers.all);
    }
    if (l->columns.column)
        scale_texts(l, scales, &numbers);
}

/* ---- classes ---- */

/* What a fit of all classes works on. */
typedef struct lesson {
    qn_labeller *labeller;
    const qn_label_options *options;
    qn_cluster_prior prior;
    float extent;    /* of the scaled samples, by measure_extent */
    float square;    /* mean of u that half a sample of each class is believed to have */
    float *x;        /* (QN_LABEL_CLASS_SAMPLES, d) samples of a class */
    float *values;   /* (n_samples) */
    float *block;    /* of set and space */
    qn_clusters set; /* of one class */
    qn_grow_space space;
    int most_clusters;                      /* of a class */
    int half;                               /* -1: all samples; 0, 1: one half of them */
    const float *turn;                      /* (d, d) of scaled features; null: none */
    float *turns;                           /* (2, d, d) of the halves; null where there are none */
    double *products;                       /* (d, d) */
    bool in_second[QN_LABEL_CLASS_SAMPLES]; /* which half a sample of a class is in */
    float apart[QN_MOST_EXAMPLES]; /* ln of the density of the other half's clusters at examples */
} lesson;

/* The samples of a class in a half (or of all), scaled; where they are too many, some drawn by the
 * seed. */
static int gather(lesson *w, int class, int half) {
    const qn_label_options *o = w->options;
    const qn_rng rng = qn_rng_make(o->seed, 0x67617468, (uint64_t) class);
    const int d = o->n_features;
    int n = 0;
    for (int64_t at = 0; at < o->n_samples && n < QN_LABEL_CLASS_SAMPLES; at++) {
        const int64_t i = (int64_t)qn_rng_permute(rng, (uint64_t)at, (uint64_t)o->n_samples);
        if (o->label[i] != class || (half >= 0 && (at & 1) != half))
            continue;
        for (int j = 0; j < d; j++)
            w->x[n * d + j] = (o->x[i * d + j] - w->labeller->shift[j]) * w->labeller->factor[j];
        if (w->turn)
            qn_turn_apply(w->turn, d, w->x + (ptrdiff_t)n * d);
        w->in_second[n++] = at & 1;
    }
    return n;
}

/* The first cluster of a class: all of it. */
static void begin_set(lesson *w, int n) {
    const int d = w->set.d;
    double square = 0.0;
    qn_clusters_clear(&w->set);
    for (int j = 0; j < d; j++) {
        double mean = 0.0;
        for (int i = 0; i < n; i++)
            mean += (double)w->x[i * d + j] / n;
        for (int i = 0; i < n; i++)
            square += ((double)w->x[i * d + j] - mean) * ((double)w->x[i * d + j] - mean) / n;
        w->set.centre[j * w->set.capacity] = (float)mean;
    }
    const float mean = ((float)square * (float)n + 0.5f * w->square) / ((float)n + 0.5f);
    w->set.n = 1;
    w->set.weight[0] = 1.0f;
    qn_cluster_set(&w->set, 0, mean, w->prior.spread, &w->prior);
}

static float price_of(int d, int n) {
    return 0.5f * (float)(d + 4) * qn_ln((float)n);
}

static void fit_class(lesson *w, int class, int n) {
    qn_grow_samples samples = {.n = n, .d = w->set.d, .x = w->x};
    begin_set(w, n);
    if (n < LEAST_FITTED)
        return;
    qn_grow_fit(&w->set, 0, &samples, FIRST_STEPS, &w->prior, &w->space);
    for (int round = 0; round < ROUNDS && w->set.n < w->most_clusters; round++) {
        const int room = w->most_clusters - w->set.n;
        const int added =
            qn_grow_add(&w->set, &samples, LOOKS, room < BATCH_ADDED ? room : BATCH_ADDED,
                        price_of(w->set.d, n),
                        qn_rng_make(w->options->seed, (uint64_t) class + 1, (uint64_t)round),
                        &w->prior, &w->space);
        if (!added && round >= FEW_ROUNDS)
            break;
        qn_grow_fit(&w->set, 0, &samples, STEPS, &w->prior, &w->space);
    }
    qn_grow_fit(&w->set, 0, &samples, LAST_STEPS, &w->prior, &w->space);
}

/* Fits all classes; what their clusters have in common is the prior of the next pass. */
static void fit_classes(lesson *w) {
    qn_labeller *l = w->labeller;
    float spread = 0, square = 0, weights = 0;
    qn_clusters_clear(&l->known); /* the last fit may have had more of them */
    for (int class = 0; class < l->n_known; class ++) {
        const int n = gather(w, class, w->half);
        if (n == 0)
            continue;
        fit_class(w, class, n);
        l->records[class].n_members = 0;
        for (int k = 0; k < w->set.n; k++) {
            const int to = l->known.n++;
            qn_cluster_copy(&w->set, k, &l->known, to);
            l->known.weight[to] *= (float)n;
            l->owner[to] = class;
            spread += l->known.weight[to] * qn_cluster_spread(&w->set, k);
            square += l->known.weight[to] * w->set.shape[k] * w->set.scale[k];
            weights += l->known.weight[to];
        }
    }
    for (int k = 0; k < l->known.n; k++)
        l->known.weight[k] /= weights;
    *l->spread = spread / weights;
    w->prior = qn_labeller_prior(l);
    w->square = square / weights;
}

/* A wide normal cluster over all that was labelled, for new samples of no cluster. */
static void begin_fresh(qn_labeller *l, float extent) {
    const qn_cluster_prior prior = {.smooth = 0.01f, .least = 1.0f};
    l->fresh.n = 1;
    l->fresh.weight[0] = 0.2f;
    *l->known_weight = 0.8f;
    l->fresh.shape[0] = 0.5f * (float)l->d;
    qn_cluster_set(&l->fresh, 0, 2.0f * extent, qn_cluster_spread(&l->fresh, 0), &prior);
}

/* Mean square of the scaled samples, those far out cut off, for begin_fresh. */
static float measure_extent(const lesson *w) {
    const qn_labeller *l = w->labeller;
    const qn_label_options *o = w->options;
    float x[QN_LABEL_MAX_FEATURES];
    double sum = 0.0;
    for (int64_t i = 0; i < o->n_samples; i++) {
        for (int j = 0; j < l->d; j++)
            x[j] = (o->x[i * l->d + j] - l->shift[j]) * l->factor[j];
        if (w->turn)
            qn_turn_apply(w->turn, l->d, x);
        for (int j = 0; j < l->d; j++) {
            const float cut = x[j] > 5.0f ? 5.0f : x[j] < -5.0f ? -5.0f : x[j];
            sum += (double)cut * (double)cut;
        }
    }
    return (float)(sum / (double)o->n_samples);
}

static qn_status begin_lesson(lesson *w, qn_labeller *l, const qn_label_options *o) {
    const size_t set = qn_clusters_floats(l->d, CLASS_LANES);
    const size_t space = qn_grow_space_floats(QN_LABEL_CLASS_SAMPLES, l->d, CLASS_LANES);
    const size_t samples = (size_t)QN_LABEL_CLASS_SAMPLES * (size_t)l->d;
    QN_TRY(qn_allocate(l->allocator, set + space + samples + (size_t)o->n_samples, sizeof(float),
                       &w->block));
    qn_clusters_lay(&w->set, l->d, CLASS_LANES, w->block);
    qn_grow_space_lay(&w->space, QN_LABEL_CLASS_SAMPLES, l->d, CLASS_LANES, w->block + set);
    qn_clusters_clear(&w->set);
    qn_clusters_clear(&w->space.tried);
    w->x = w->block + set + space;
    w->values = w->x + samples;
    w->most_clusters = l->capacity / l->n_known;
    w->most_clusters = w->most_clusters > CLASS_LANES ? CLASS_LANES : w->most_clusters;
    return QN_OK;
}

static void end_lesson(const lesson *w, const qn_labeller *l, const qn_label_options *o) {
    qn_release(l->allocator, w->block,
               qn_clusters_floats(l->d, CLASS_LANES) +
                   qn_grow_space_floats(QN_LABEL_CLASS_SAMPLES, l->d, CLASS_LANES) +
                   (size_t)QN_LABEL_CLASS_SAMPLES * (size_t)l->d + (size_t)o->n_samples,
               sizeof(float));
}

/* ---- clusters or examples ---- */

/* How many of a class's n samples are taken where there is room for so many of all classes'. */
static int taken_of(int64_t n, int64_t all, int64_t room) {
    const int64_t taken = n * (all > room ? room : all) / all;
    return (int)(n > 0 && taken == 0 ? 1 : taken);
}

static int64_t half_samples(const lesson *w) {
    return w->half < 0 ? w->options->n_samples : w->options->n_samples / 2;
}

/* Gathers a class; how many of its samples become examples beside those before. */
static int gather_examples(lesson *w, int class, int before, int *n) {
    const int capacity = w->labeller->examples.capacity, room = capacity - before;
    *n = gather(w, class, w->half);
    const int taken = taken_of(*n, half_samples(w), capacity);
    return taken > room ? room : taken;
}

/* Takes the samples of the half as examples, as many of each class as there is room for. */
static void take_examples(lesson *w) {
    qn_labeller *l = w->labeller;
    const float all = (float)half_samples(w);
    int n;
    qn_examples_clear(&l->examples);
    for (int class = 0; class < l->n_known; class ++) {
        const int taken = gather_examples(w, class, l->examples.n, &n);
        qn_examples_add(&l->examples, class, w->x, taken, (float)n / all / (float)taken);
    }
    qn_examples_fit(&l->examples, &w->prior);
}

/* How the clusters of a half foretell the examples of the other one. */
static void foretell_examples(lesson *w) {
    const qn_labeller *l = w->labeller;
    const int half = w->half;
    qn_cluster_view view;
    int n, at = 0;
    w->half = -1;
    for (int class = 0; class < l->n_known; class ++) {
        const int taken = gather_examples(w, class, at, &n);
        for (int i = 0; i < taken; i++, at++) {
            if (w->in_second[i] == half)
                continue;
            const float *x = w->x + (size_t)i * (size_t)l->d;
            const float sum = qn_clusters_look(&l->known, x, -1e30f, &view);
            w->apart[at] = view.base + qn_ln(sum + 1e-30f);
        }
    }
    w->half = half;
}

/* How two densities foretell the same samples, p and q of them: mixing[i] is p / (p + q) of sample
 * i, level[i] is ln (p + q), with what a turn does to densities. */
typedef struct foretold {
    float *mixing, *level; /* (MOST_FORETOLD) each */
    int n;
    float share; /* of p in the mixture that foretells best */
} foretold;

/* Foretells the samples of the other half with their classes: by examples (p), by clusters (q). */
static void foretell(lesson *w, foretold *f) {
    qn_labeller *l = w->labeller;
    qn_cluster_view view;
    float part[QN_LABEL_MAX_KNOWN];
    const float volume = w->turn ? qn_turn_log_volume(w->turn, l->d) : 0.0f;
    for (int class = 0; class < l->n_known; class ++) {
        const int n = taken_of(gather(w, class, 1 - w->half), half_samples(w), QN_MOST_EXAMPLES);
        for (int i = 0; i < n && f->n < MOST_FORETOLD; i++) {
            float q = 1e-30f;
            const float *x = w->x + (size_t)i * (size_t)l->d;
            qn_clusters_look(&l->known, x, -1e30f, &view);
            float base = view.base;
            qn_examples_look(&l->examples, x, l->n_known, &base, part);
            const float p = part[class] + 1e-30f;
            for (int k = 0; k < l->known.n; k++)
                q += l->owner[k] == class ? view.density[k] * qn_exp_f32(view.base - base) : 0.0f;
            f->level[f->n] = base + qn_ln(p + q) + volume;
            f->mixing[f->n++] = p / (p + q);
        }
    }
}

/* The share of examples in the mixture that foretells best (expectation-maximisation). */
static float find_share(const foretold *f) {
    double share = 0.5;
    for (int step = 0; step < MIXING_STEPS && f->n > 0; step++) {
        double sum = 0.0;
        for (int i = 0; i < f->n; i++) {
            const double p = share * (double)f->mixing[i];
            sum += p / (p + (1.0 - share) * (1.0 - (double)f->mixing[i]) + 1e-30);
        }
        share = sum / f->n;
    }
    return (float)share;
}

/* Adds products of a sample's deviation from the cluster of its class that it is likeliest of. */
static void add_deviation(lesson *w, int class, const float *x) {
    const qn_labeller *l = w->labeller;
    qn_cluster_view view;
    float off[QN_LABEL_MAX_FEATURES];
    int best = -1;
    qn_clusters_look(&l->known, x, -1e30f, &view);
    for (int k = 0; k < l->known.n; k++)
        if (l->owner[k] == class && (best < 0 || view.square[k] < view.square[best]))
            best = k;
    for (int j = 0; best >= 0 && j < l->d; j++)
        off[j] = x[j] - l->known.centre[(size_t)j * (size_t)l->capacity + (size_t)best];
    for (int i = 0; best >= 0 && i < l->d; i++)
        for (int j = 0; j <= i; j++)
            w->products[i * l->d + j] += (double)off[i] * (double)off[j];
}

/* The turn that makes clusters round, by the deviations of the half's samples from the nearest
 * centres of their classes; lower (d, d). */
static bool measure_turn(lesson *w, float *lower) {
    const qn_labeller *l = w->labeller;
    const int d = l->d;
    double all = 0.0;
    memset(w->products, 0, (size_t)d * (size_t)d * sizeof *w->products);
    for (int class = 0; class < l->n_known; class ++) {
        const int n = gather(w, class, w->half);
        for (int i = 0; i < n; i++)
            add_deviation(w, class, w->x + (ptrdiff_t)i * d);
        all += n;
    }
    return qn_turn_make(w->products, all, d, lower);
}

static void fit_both(lesson *w) {
    qn_labeller *l = w->labeller;
    w->set.shape[0] = 0.25f * (float)l->d;
    *l->spread = qn_cluster_spread(&w->set, 0);
    w->prior = qn_labeller_prior(l);
    w->prior.count = 4.0f;
    w->square = w->extent;
    fit_classes(w);
    fit_classes(w);
    /* What few samples of each class lack, is taken from all classes: that needs more passes. */
    for (int i = 0; i < MORE_PASSES && half_samples(w) < LEAST_FITTED * (int64_t)l->n_known; i++)
        fit_classes(w);
}

/* Each half of the labelled samples foretells the other one, turned or not. */
static void foretell_halves(lesson *w, bool is_turned, foretold *f) {
    const size_t square = (size_t)w->labeller->d * (size_t)w->labeller->d;
    for (w->half = 0; w->half < 2; w->half++) {
        float *turn = w->turns ? w->turns + (size_t)w->half * square : NULL;
        w->turn = is_turned ? turn : NULL;
        w->extent = measure_extent(w);
        fit_both(w);
        if (turn && !is_turned && !measure_turn(w, turn))
            w->turns = NULL;
        take_examples(w);
        foretell(w, f);
        foretell_examples(w);
    }
    w->half = -1;
    w->turn = NULL;
    f->share = find_share(f);
}

/* ---- turning ---- */

/* Logarithm of the density of sample i by the best mixture. */
static float level_of(const foretold *f, int i) {
    const float part = f->share * f->mixing[i] + (1.0f - f->share) * (1.0f - f->mixing[i]);
    return f->level[i] + qn_ln(part + 1e-30f);
}

/* Whether gains of logarithms of densities, given by their sum and that of their squares, are above
 * zero by so many standard errors. */
static bool is_clear(double sum, double square, double errors) {
    return sum > errors * __builtin_sqrt(square);
}

static double cut_gain(float gain) {
    return (double)(gain > 10.0f ? 10.0f : gain < -10.0f ? -10.0f : gain);
}

/* Whether the samples are foretold better turned. */
static bool is_better(const foretold *turned, const foretold *plain) {
    double sum = 0.0, square = 0.0;
    const int n = turned->n;
    for (int i = 0; i < n; i++) {
        const double gain = cut_gain(level_of(turned, i) - level_of(plain, i));
        sum += gain;
        square += gain * gain;
    }
    return n == plain->n && is_clear(sum, square, 3.0);
}

/* The share of examples if they foretell the samples better than clusters alone, else 0. */
static float clear_share(const foretold *f) {
    double sum = 0.0, square = 0.0;
    for (int i = 0; i < f->n; i++) {
        const float alone = f->level[i] + qn_ln(1.0f - f->mixing[i] + 1e-30f);
        const double gain = cut_gain(level_of(f, i) - alone);
        sum += gain;
        square += gain * gain;
    }
    return is_clear(sum, square, 2.0) ? f->share : 0.0f;
}

/* The known density at each example by all others. */
static void leave_out_each(const lesson *w) {
    const qn_examples *e = &w->labeller->examples;
    float x[QN_LABEL_MAX_FEATURES], part[QN_LABEL_MAX_KNOWN];
    for (int i = 0; i < e->n; i++) {
        const float weight = e->weight[i];
        float base = w->apart[i];
        qn_examples_get(e, i, x);
        e->weight[i] = 0;
        const float others = qn_examples_look(e, x, w->labeller->n_known, &base, part);
        const float sum = *e->share * others / (1.0f - weight) +
                          (1.0f - *e->share) * qn_exp_f32(w->apart[i] - base);
        e->alone[i] = base + qn_ln(sum + 1e-30f);
        e->weight[i] = weight;
    }
}

/* The turn by all labelled samples, to which clusters have been fitted. */
static qn_status keep_turn(lesson *w) {
    qn_labeller *l = w->labeller;
    w->extent = measure_extent(w);
    fit_both(w);
    QN_TRY(qn_labeller_make_turn(l));
    if (measure_turn(w, l->turn))
        w->turn = l->turn;
    else
        qn_labeller_drop_turn(l);
    return QN_OK;
}

/* Tries both, with the examples of each; leaves w->apart as the better one has it. */
static qn_status choose_turn(lesson *w, foretold *plain, foretold *turned, float *share) {
    float apart[QN_MOST_EXAMPLES];
    foretell_halves(w, false, plain);
    *share = clear_share(plain);
    if (!w->turns)
        return QN_OK;
    memcpy(apart, w->apart, sizeof apart);
    foretell_halves(w, true, turned);
    if (is_better(turned, plain)) {
        *share = clear_share(turned);
        return keep_turn(w);
    }
    memcpy(w->apart, apart, sizeof apart);
    return QN_OK;
}

static qn_status measure_share(lesson *w, float *share) {
    const qn_labeller *l = w->labeller;
    const size_t n = 4 * MOST_FORETOLD, square = (size_t)l->d * (size_t)l->d;
    float *block = NULL;
    double *products = NULL;
    QN_TRY(qn_allocate(l->allocator, n + 2 * square, sizeof *block, &block));
    qn_status status = qn_allocate(l->allocator, square, sizeof *products, &products);
    if (status == QN_OK) {
        foretold plain = {.mixing = block, .level = block + MOST_FORETOLD};
        foretold turned = {.mixing = block + 2 * MOST_FORETOLD, .level = block + 3 * MOST_FORETOLD};
        w->turns = l->d > 1 ? block + n : NULL;
        w->products = products;
        status = choose_turn(w, &plain, &turned, share);
    }
    qn_release(l->allocator, products, square, sizeof *products);
    qn_release(l->allocator, block, n + 2 * square, sizeof *block);
    return status;
}

/* Keeps examples where they foretell clearly more than the clusters leave. */
static qn_status choose_examples(lesson *w) {
    qn_labeller *l = w->labeller;
    const int64_t n = w->options->n_samples;
    float share = 0;
    w->half = -1;
    if (n < LEAST_HALVED)
        return QN_OK;
    QN_TRY(qn_labeller_make_examples(l, n < QN_MOST_EXAMPLES ? (int)n : QN_MOST_EXAMPLES));
    QN_TRY(measure_share(w, &share));
    take_examples(w);
    *l->examples.share = share;
    leave_out_each(w);
    if (share < least_share)
        *l->examples.share = 0;
    return QN_OK;
}

qn_status qn_labeller_learn(qn_labeller *l, const qn_label_options *options) {
    lesson w = {.labeller = l, .options = options};
    QN_TRY(begin_lesson(&w, l, options));
    const int64_t most = 1 << 20; /* samples that scales are measured by */
    measure_scales(l, options, options->n_samples < most ? options->n_samples : most, w.values);
    const qn_status status = choose_examples(&w);
    w.extent = measure_extent(&w);
    begin_fresh(l, w.extent);
    fit_both(&w);
    end_lesson(&w, l, options);
    QN_TRY(status);
    l->origin.n = l->known.n;
    for (int k = 0; k < l->known.n; k++)
        qn_cluster_copy(&l->known, k, &l->origin, k);
    if (qn_labeller_has_examples(l))
        qn_labeller_set_limit(l);
    return QN_OK;
}
