/* Samples made up as they are read, and learnable: a smooth random pattern for every class (or
 * target) and noise. Every number is a function of seed, split and index, so nothing is stored but
 * the patterns' coarse grids. */
#include "base/status.h"
#include "data/source.h"

#include <string.h>

enum { GRID = 4, N_TRAIN = 10000 };

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

/* Adds amount times a pattern to row y of a sample, (w, c). */
static void add_pattern_row(const synthetic_source *s, int pattern, float amount, int64_t y,
                            float *row) {
    int64_t last = s->grid - 1;
    float wy;
    int64_t top = locate(y, s->h, s->grid, &wy), bottom = top < last ? top + 1 : top;
    const float *points = s->patterns + (int64_t)pattern * s->grid * s->grid * s->c;
    for (int64_t x = 0; x < s->w; x++) {
        int64_t left = s->left[x], right = left < last ? left + 1 : left;
        float wx = s->weight[x];
        const float *tl = points + (top * s->grid + left) * s->c;
        const float *tr = points + (top * s->grid + right) * s->c;
        const float *bl = points + (bottom * s->grid + left) * s->c;
        const float *br = points + (bottom * s->grid + right) * s->c;
        for (int64_t k = 0; k < s->c; k++) {
            float above = tl[k] + wx * (tr[k] - tl[k]), below = bl[k] + wx * (br[k] - bl[k]);
            row[x * s->c + k] += amount * (above + wy * (below - above));
        }
    }
}

static void fill_noise(qn_rng rng, int64_t n, float *x) {
    for (int64_t i = 0; i < n; i += 16) {
        uint32_t words[4];
        unsigned char bytes[16];
        int64_t left = n - i < 16 ? n - i : 16;
        qn_rng_block(rng, (uint64_t)i / 16, words);
        for (int k = 0; k < 16; k++)
            bytes[k] = (unsigned char)(words[k / 4] >> (k % 4 * 8));
        for (int64_t k = 0; k < left; k++)
            x[i + k] = ((float)bytes[k] - NOISE_MEAN) * NOISE;
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
        for (int64_t row = 0; row < s->h; row++)
            add_pattern_row(s, p, amount, row, pixels + row * s->w * s->c);
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

const qn_data_format qn_format_synthetic = {"synthetic", NULL, sizeof(synthetic_source),
                                            synthetic_open, NULL};
