/* Mean and deviation of a training set in one pass over it, a sample at a time. Sums of bytes are
 * exact; sums of floats are kept in double, relative to the first sample, so that columns far from
 * zero lose nothing. Deviations of 0 (a constant column) count as 1. */
#include "base/status.h"
#include "data/source.h"

#include <math.h>
#include <string.h>

/* Sums by place in a row (W, C) of the sample; row = W * C is n_statistics or a multiple of it. */
typedef struct sums {
    const qn_allocator *allocator;
    int64_t rows, row;
    size_t sample_bytes, label_bytes;
    char *sample, *label;
    uint32_t *byte_sum, *byte_square; /* (row): of one sample */
    double *first;                    /* (row) of the first sample; 0 for bytes */
    double *sum, *square;             /* (row) */
} sums;

static qn_status sums_init(sums *s, const qn_allocator *allocator, const qn_data_source *source) {
    const qn_shape *shape = &source->sample;
    int64_t rows = shape->rank == 3 ? shape->dims[0] : 1;
    size_t row = (size_t)(qn_shape_count(*shape) / rows);
    *s = (sums){.allocator = allocator, .rows = rows, .row = (int64_t)row};
    s->sample_bytes = (size_t)rows * row * qn_dtype_bytes(source->dtype);
    s->label_bytes = sizeof(float) * (size_t)(source->n_targets > 0 ? source->n_targets : 1);
    QN_TRY(qn_allocate(allocator, s->sample_bytes, 1, &s->sample));
    QN_TRY(qn_allocate(allocator, s->label_bytes, 1, &s->label));
    QN_TRY(qn_allocate(allocator, row, sizeof *s->byte_sum, &s->byte_sum));
    QN_TRY(qn_allocate(allocator, row, sizeof *s->byte_square, &s->byte_square));
    QN_TRY(qn_allocate(allocator, row, sizeof *s->first, &s->first));
    QN_TRY(qn_allocate(allocator, row, sizeof *s->sum, &s->sum));
    return qn_allocate(allocator, row, sizeof *s->square, &s->square);
}

static void sums_deinit(sums *s) {
    size_t row = (size_t)s->row;
    qn_release(s->allocator, s->sample, s->sample_bytes, 1);
    qn_release(s->allocator, s->label, s->label_bytes, 1);
    qn_release(s->allocator, s->byte_sum, row, sizeof *s->byte_sum);
    qn_release(s->allocator, s->byte_square, row, sizeof *s->byte_square);
    qn_release(s->allocator, s->first, row, sizeof *s->first);
    qn_release(s->allocator, s->sum, row, sizeof *s->sum);
    qn_release(s->allocator, s->square, row, sizeof *s->square);
}

/* Exact for up to 66051 rows: 255 * 255 * 66051 < 2^32. Sources have at most 65535. */
static void add_bytes(sums *s, const uint8_t *x /* (rows, row) */) {
    uint32_t *restrict sum = s->byte_sum, *restrict square = s->byte_square;
    memset(sum, 0, (size_t)s->row * sizeof *sum);
    memset(square, 0, (size_t)s->row * sizeof *square);
    for (int64_t y = 0; y < s->rows; y++, x += s->row)
        for (int64_t i = 0; i < s->row; i++) {
            sum[i] += x[i];
            square[i] += (uint32_t)x[i] * x[i];
        }
    for (int64_t i = 0; i < s->row; i++) {
        s->sum[i] += sum[i];
        s->square[i] += square[i];
    }
}

static void add_floats(sums *s, const float *x /* (rows, row) */) {
    for (int64_t y = 0; y < s->rows; y++, x += s->row)
        for (int64_t i = 0; i < s->row; i++) {
            double difference = x[i] - s->first[i];
            s->sum[i] += difference;
            s->square[i] += difference * difference;
        }
}

static qn_status add_all(sums *s, const qn_data_source *source) {
    for (int64_t i = 0; i < source->n_samples[QN_TRAIN]; i++) {
        QN_TRY(source->read(source->self, QN_TRAIN, i, s->sample, s->label));
        if (source->dtype == QN_U8) {
            add_bytes(s, (const uint8_t *)s->sample);
            continue;
        }
        const float *x = (const float *)s->sample;
        for (int64_t k = 0; i == 0 && k < s->row; k++)
            s->first[k] = x[k];
        add_floats(s, x);
    }
    return QN_OK;
}

/* The places of a row that belong to statistic c, joined; the shift is theirs all the same only
 * where a row is one place long, so it is taken off first. */
static void join(const sums *s, double n, int c, int n_statistics, float *mean, float *std_dev,
                 double unit) {
    double places = (double)(s->row / n_statistics), total = 0, square = 0;
    for (int64_t i = c; i < s->row; i += n_statistics)
        total += s->first[i] + s->sum[i] / n;
    double centre = total / places;
    for (int64_t i = c; i < s->row; i += n_statistics) {
        double place = s->first[i] + s->sum[i] / n, shifted = s->sum[i] / n;
        square += s->square[i] / n - shifted * shifted + (place - centre) * (place - centre);
    }
    double deviation = sqrt(fmax(square / places, 0.0)) * unit;
    *mean = (float)(centre * unit);
    *std_dev = (float)deviation > 0 ? (float)deviation : 1.0f;
}

static qn_status measure(sums *s, qn_source_base *base, qn_data_source *source) {
    int n_statistics = (int)source->sample.dims[source->sample.rank - 1];
    float *mean = qn_arena_allocate(&base->arena, (size_t)n_statistics, sizeof *mean);
    float *std_dev = qn_arena_allocate(&base->arena, (size_t)n_statistics, sizeof *std_dev);
    if (!mean || !std_dev)
        return QN_ERROR_MEMORY;
    QN_TRY(add_all(s, source));
    double n = (double)source->n_samples[QN_TRAIN] * (double)s->rows;
    double unit = source->dtype == QN_U8 ? 1.0 / 255 : 1.0;
    for (int c = 0; c < n_statistics; c++)
        if (base->are_marks && base->are_marks[c])
            std_dev[c] = 1.0f;
        else
            join(s, n, c, n_statistics, mean + c, std_dev + c, unit);
    source->preparation.n_statistics = n_statistics;
    source->preparation.mean = mean;
    source->preparation.std_dev = std_dev;
    return QN_OK;
}

qn_status qn_statistics_measure(qn_source_base *base, qn_data_source *source) {
    sums s;
    qn_status status = sums_init(&s, base->options.allocator, source);
    if (status == QN_OK)
        status = measure(&s, base, source);
    sums_deinit(&s);
    return status;
}
