/* Generated, learnable samples: a smooth random pattern for every class (or target) plus noise.
 * Every number is a function of seed, split and index, so only the patterns' coarse grids are
 * stored. */
#include "base/status.h"
#include "data/source.h"

#include <string.h>

enum { GRID = 4, N_TRAIN = 10000 };

/* Numbers of a line, and words of noise, that are made at a time. */
enum { LINE = 256, WORDS = 64 };

/* The test set: about a million numbers, so that testing a large network takes no longer than the
 * few steps it is tried with. */
enum { TEST_NUMBERS = 1 << 20, LEAST_TEST = 64, MOST_TEST = 1000 };

/* Noise is uniform, a byte for each number: deviation 1 is 1 / sqrt((256^2 - 1) / 12). */
#define NOISE      0.013532f
#define NOISE_MEAN 127.5f

typedef struct synthetic_source {
    qn_source_base base;
    int n_patterns, n_targets;
    int64_t h, w, c, grid; /* grid: points along each side of a pattern */
    const float *patterns; /* (n_patterns, grid, grid, c), uniform in [-1, 1) */
    int64_t *left;         /* (w): grid point before a column */
    float *weight;         /* (w): how far behind it */
} synthetic_source;

/* Weight and place of pixel i of n in a pattern of grid points. */
static int64_t locate(int64_t i, int64_t n, int64_t grid, float *weight) {
    float at = n > 1 ? (float)i * (float)(grid - 1) / (float)(n - 1) : 0.0f;
    int64_t left = (int64_t)at < grid - 1 ? (int64_t)at : grid - 1;
    *weight = at - (float)left;
    return left;
}

/* Numbers [first, first + n) of a line of pixels (w, c) that lies at a row of the grid. */
static void make_line(const synthetic_source *s, const float *points, int64_t first, int64_t n,
                      float *line) {
    int64_t x = first / s->c, k = first % s->c;
    for (int64_t i = 0; i < n; i++) {
        const int64_t left = s->left[x], right = left < s->grid - 1 ? left + 1 : left;
        const float l = points[left * s->c + k], r = points[right * s->c + k];
        line[i] = l + s->weight[x] * (r - l);
        k = k + 1 < s->c ? k + 1 : 0;
        x += k == 0;
    }
}

static void add_between(const float *restrict above, const float *restrict below, float weight,
                        float amount, int64_t n, float *restrict to) {
    for (int64_t i = 0; i < n; i++)
        to[i] += amount * (above[i] + weight * (below[i] - above[i]));
}

/* Adds amount times a pattern to a sample. */
static void add_pattern(const synthetic_source *s, int pattern, float amount, float *pixels) {
    const int64_t width = s->w * s->c;
    float lines[GRID][LINE];
    for (int64_t first = 0; first < width; first += LINE) {
        const int64_t n = width - first < LINE ? width - first : LINE;
        for (int64_t i = 0; i < s->grid; i++)
            make_line(s, s->patterns + (pattern * s->grid + i) * s->grid * s->c, first, n,
                      lines[i]);
        for (int64_t y = 0; y < s->h; y++) {
            float weight;
            const int64_t top = locate(y, s->h, s->grid, &weight);
            const int64_t bottom = top < s->grid - 1 ? top + 1 : top;
            add_between(lines[top], lines[bottom], weight, amount, n, pixels + y * width + first);
        }
    }
}

static void fill_noise(qn_rng rng, int64_t n, float *x) {
    uint32_t words[WORDS];
    for (int64_t first = 0; first < n; first += 4 * WORDS) {
        const int64_t left = n - first < 4 * WORDS ? n - first : 4 * WORDS;
        qn_rng_blocks(rng, (uint64_t)first / 16, (size_t)(left + 15) / 16, words);
        for (int64_t i = 0; i < left; i++)
            x[first + i] = ((float)(words[i / 4] >> (i % 4 * 8) & 255) - NOISE_MEAN) * NOISE;
    }
}

static qn_status synthetic_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    const synthetic_source *s = self;
    uint64_t sample = (uint64_t)index * 2 + (split == QN_TEST);
    float *pixels = x;
    qn_rng labels = qn_rng_make(s->base.options.seed, qn_hash_text("synthetic.label"), sample);
    fill_noise(qn_rng_make(s->base.options.seed, qn_hash_text("synthetic.noise"), sample),
               s->h * s->w * s->c, pixels);
    int32_t class = (int32_t)qn_rng_below(labels, 0, (uint64_t)s->n_patterns);
    if (s->n_targets == 0)
        memcpy(y, &class, sizeof class);
    for (int t = 0; t < s->n_targets; t++)
        ((float *)y)[t] = 2.0f * qn_rng_uniform(qn_rng_word(labels, (uint64_t)t)) - 1.0f;
    int first = s->n_targets > 0 ? 0 : class, end = s->n_targets > 0 ? s->n_targets : class + 1;
    for (int p = first; p < end; p++) {
        float amount = s->n_targets > 0 ? ((const float *)y)[p] : 1.0f;
        add_pattern(s, p, amount, pixels);
    }
    return QN_OK;
}

static qn_status make_patterns(synthetic_source *s) {
    size_t n = (size_t)s->n_patterns * (size_t)(s->grid * s->grid * s->c);
    qn_rng rng = qn_rng_make(s->base.options.seed, qn_hash_text("synthetic.pattern"), 0);
    float *patterns = qn_arena_allocate(&s->base.arena, n, sizeof *patterns);
    s->left = qn_arena_allocate(&s->base.arena, (size_t)s->w, sizeof *s->left);
    s->weight = qn_arena_allocate(&s->base.arena, (size_t)s->w, sizeof *s->weight);
    if (!patterns || !s->left || !s->weight)
        return QN_ERROR_MEMORY;
    for (int64_t x = 0; x < s->w; x++)
        s->left[x] = locate(x, s->w, s->grid, &s->weight[x]);
    for (size_t i = 0; i < n; i++)
        patterns[i] = 2.0f * qn_rng_uniform(qn_rng_word(rng, i)) - 1.0f;
    s->patterns = patterns;
    return QN_OK;
}

static int64_t test_samples(qn_shape sample) {
    const int64_t n = TEST_NUMBERS / qn_shape_count(sample);
    return n < LEAST_TEST ? LEAST_TEST : n > MOST_TEST ? MOST_TEST : n;
}

static qn_status synthetic_open(qn_source_base *base, qn_data_source *source) {
    synthetic_source *s = (synthetic_source *)base;
    const qn_data_options *options = &base->options;
    qn_shape sample = options->sample.rank > 0 ? options->sample : QN_SHAPE(32, 32, 3);
    bool is_image = sample.rank == 3;
    if (!is_image && sample.rank != 1)
        return qn_fail(QN_ERROR_ARGUMENT, "synthetic samples are (H, W, C) or (C)");
    for (int i = 0; i < sample.rank; i++)
        if (sample.dims[i] < 1 || sample.dims[i] > 65535)
            return qn_fail(QN_ERROR_ARGUMENT, "synthetic samples have extents of 1 to 65535");
    s->h = is_image ? sample.dims[0] : 1;
    s->w = is_image ? sample.dims[1] : 1;
    s->c = sample.dims[sample.rank - 1];
    s->grid = is_image ? GRID : 1;
    s->n_targets = source->n_targets = options->n_targets > 0 ? options->n_targets : 0;
    if (s->n_targets == 0)
        source->preparation.n_classes = options->n_classes > 0 ? options->n_classes : 10;
    s->n_patterns = s->n_targets > 0 ? s->n_targets : source->preparation.n_classes;
    source->n_samples[QN_TRAIN] = N_TRAIN;
    source->n_samples[QN_TEST] = test_samples(sample);
    source->sample = source->preparation.sample = sample;
    source->dtype = QN_F32;
    source->read = synthetic_read;
    return make_patterns(s);
}

const qn_data_format qn_format_synthetic = {
    .name = "synthetic",
    .self_bytes = sizeof(synthetic_source),
    .open = synthetic_open,
};
