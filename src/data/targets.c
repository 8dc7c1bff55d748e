/* Mean and deviation of numeric targets over the training samples. Targets whose mean and deviation
 * are of the size of 1 are learned as they are, so that what was trained on them before stays the
 * same; others are scaled, all of them, since a network begins with outputs near 0 and a rate that
 * suits errors near 1. */
#include "base/status.h"
#include "data/source.h"

#include <math.h>
#include <string.h>

static const double most_mean = 10, least_deviation = 0.1, most_deviation = 10;

/* Sums are relative to the first sample, so that targets far from zero lose nothing. */
typedef struct target_sums {
    char *sample;
    size_t sample_bytes;
    float *targets, *first;
    double *sum, *square; /* (n_targets) */
} target_sums;

static qn_status take_memory(const qn_source_base *base, const qn_data_source *source,
                             target_sums *s) {
    const qn_allocator *allocator = base->options.allocator;
    const size_t n = (size_t)source->n_targets;
    s->sample_bytes = (size_t)qn_shape_count(source->sample) * qn_dtype_bytes(source->dtype);
    QN_TRY(qn_allocate(allocator, s->sample_bytes, 1, &s->sample));
    QN_TRY(qn_allocate(allocator, n, sizeof *s->targets, &s->targets));
    QN_TRY(qn_allocate(allocator, n, sizeof *s->first, &s->first));
    QN_TRY(qn_allocate(allocator, n, sizeof *s->sum, &s->sum));
    return qn_allocate(allocator, n, sizeof *s->square, &s->square);
}

static void give_memory_back(const qn_source_base *base, const qn_data_source *source,
                             target_sums *s) {
    const qn_allocator *allocator = base->options.allocator;
    const size_t n = (size_t)source->n_targets;
    qn_release(allocator, s->sample, s->sample_bytes, 1);
    qn_release(allocator, s->targets, n, sizeof *s->targets);
    qn_release(allocator, s->first, n, sizeof *s->first);
    qn_release(allocator, s->sum, n, sizeof *s->sum);
    qn_release(allocator, s->square, n, sizeof *s->square);
}

static qn_status add_all(const qn_data_source *source, target_sums *s) {
    for (int64_t i = 0; i < source->n_samples[QN_TRAIN]; i++) {
        QN_TRY(source->read(source->self, QN_TRAIN, i, s->sample, s->targets));
        for (int k = 0; k < source->n_targets; k++) {
            s->first[k] = i == 0 ? s->targets[k] : s->first[k];
            const double difference = (double)s->targets[k] - (double)s->first[k];
            s->sum[k] += difference;
            s->square[k] += difference * difference;
        }
    }
    return QN_OK;
}

static qn_status keep(qn_source_base *base, qn_data_source *source, const target_sums *s) {
    const size_t n = (size_t)source->n_targets;
    const double count = (double)source->n_samples[QN_TRAIN];
    float *mean = qn_arena_allocate(&base->arena, n, sizeof *mean);
    float *scale = qn_arena_allocate(&base->arena, n, sizeof *scale);
    bool are_usual = true;
    if (!mean || !scale)
        return QN_ERROR_MEMORY;
    for (size_t k = 0; k < n; k++) {
        const double shift = s->sum[k] / count;
        const double deviation = sqrt(fmax(s->square[k] / count - shift * shift, 0.0));
        mean[k] = (float)((double)s->first[k] + shift);
        scale[k] = (float)deviation > 0 ? (float)deviation : 1.0f;
        are_usual &= fabs((double)mean[k]) <= most_mean && (double)scale[k] >= least_deviation &&
                     (double)scale[k] <= most_deviation;
    }
    if (are_usual)
        return QN_OK;
    source->preparation.n_scaled = source->n_targets;
    source->preparation.target_mean = mean;
    source->preparation.target_scale = scale;
    return QN_OK;
}

qn_status qn_targets_measure(qn_source_base *base, qn_data_source *source) {
    target_sums s = {.sample = NULL};
    const qn_table *table = source->preparation.table;
    if (source->n_targets == 0 || (table && table->are_labels) ||
        source->n_samples[QN_TRAIN] == 0 || qn_shape_count(source->sample) == 0)
        return QN_OK;
    qn_status status = take_memory(base, source, &s);
    if (status == QN_OK)
        status = add_all(source, &s);
    if (status == QN_OK)
        status = keep(base, source, &s);
    give_memory_back(base, source, &s);
    return status;
}
