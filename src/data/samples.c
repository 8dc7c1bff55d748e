/* Samples in the caller's memory, or from the caller's function, as a data set, with the same
 * checks, held-out parts and statistics as a file of arrays (npy.c). Nothing is copied; the results
 * of a function are not checked before use. */
#include "base/options.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/source.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

typedef struct samples_source {
    qn_source_base base;
    qn_samples given;
    int64_t planes;          /* channels that are to go last; 0: they are */
    size_t x_bytes, y_bytes; /* of a sample */
} samples_source;

static const char *const split_names[QN_SPLITS] = {"training", "test", "validation"};

/* ---- checks ---- */

static qn_status check_description(const qn_samples *s) {
    const bool is_row = s->sample.rank == 1, is_image = s->sample.rank == 3;
    bool is_shape = (is_row && !s->is_nchw) || is_image;
    for (int i = 0; i < s->sample.rank && is_shape; i++)
        is_shape = s->sample.dims[i] >= 1;
    if (!is_shape || (is_image && s->sample.dims[0] > 65535))
        return qn_fail(QN_ERROR_ARGUMENT, "samples are (H, W, C), of at most 65535 rows, or (C)");
    if (s->dtype != QN_U8 && s->dtype != QN_F32)
        return qn_fail(QN_ERROR_UNSUPPORTED, "samples are float32 or uint8");
    if (s->n_targets < 0 || s->n_classes < 0 || (s->n_targets > 0 && s->n_classes > 0))
        return qn_fail(QN_ERROR_ARGUMENT, "samples have classes or numeric targets, not both");
    if (s->read && s->n_targets == 0 && s->n_classes == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "samples that a function makes need the number of classes or of targets");
    return QN_OK;
}

static qn_status check_split(const qn_samples *s, int split) {
    if (s->n[split] < 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%" PRId64 " %s samples", s->n[split],
                       split_names[split]);
    if (s->n[split] > 0 && !s->read && !s->x[split])
        return qn_fail(QN_ERROR_ARGUMENT, "there are %" PRId64 " %s samples, but no x", s->n[split],
                       split_names[split]);
    return QN_OK;
}

static qn_status check_floats(const float *values, int64_t n, int64_t width, const char *split) {
    for (int64_t i = 0; i < n * width; i++) {
        if (!isfinite(values[i]))
            return qn_fail(QN_ERROR_FORMAT,
                           "%s samples: row %" PRId64 ", number %" PRId64
                           " of it: %g; leave the row out, or put a number there",
                           split, i / width, i % width, (double)values[i]);
    }
    return QN_OK;
}

/* Labels of a split; *most grows to the largest class and one. */
static qn_status check_classes(const qn_samples *s, int split, int *most) {
    const int32_t *labels = s->y[split];
    const int32_t end = s->n_classes > 0 ? s->n_classes : 1000001;
    for (int64_t i = 0; i < s->n[split]; i++) {
        if (labels[i] < 0 || labels[i] >= end)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s samples: label %" PRId32 " in row %" PRId64
                           "; classes are numbered from 0 to %" PRId32,
                           split_names[split], labels[i], i, end - 1);
        *most = labels[i] + 1 > *most ? labels[i] + 1 : *most;
    }
    return QN_OK;
}

static qn_status check_values(const qn_samples *s, int *n_classes) {
    *n_classes = s->n_classes;
    for (int split = 0; split < QN_SPLITS && !s->read; split++) {
        if (s->dtype == QN_F32)
            QN_TRY(check_floats(s->x[split], s->n[split], qn_shape_count(s->sample),
                                split_names[split]));
        if (s->y[split] && s->n_targets > 0)
            QN_TRY(check_floats(s->y[split], s->n[split], s->n_targets, split_names[split]));
        else if (s->y[split])
            QN_TRY(check_classes(s, split, n_classes));
    }
    if (*n_classes == 0 && s->n_targets == 0)
        *n_classes = 1; /* nothing says what they are */
    return QN_OK;
}

/* ---- reading ---- */

/* A sample of planes (C, H * W) to x (H * W, C). */
static void put_channels_last(const samples_source *s, const char *planes, char *x) {
    const size_t size = qn_dtype_bytes(s->given.dtype);
    const int64_t n = (int64_t)(s->x_bytes / size) / s->planes;
    for (int64_t c = 0; c < s->planes; c++)
        for (int64_t i = 0; i < n; i++)
            memcpy(x + (size_t)(i * s->planes + c) * size, planes + (size_t)(c * n + i) * size,
                   size);
}

static qn_status samples_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    const samples_source *s = self;
    if (s->given.read)
        return s->given.read(s->given.user, split, index, x, y);
    const char *from = (const char *)s->given.x[split] + (size_t)index * s->x_bytes;
    const char *label = s->given.y[split];
    if (s->planes > 0)
        put_channels_last(s, from, x);
    else
        memcpy(x, from, s->x_bytes);
    if (label)
        memcpy(y, label + (size_t)index * s->y_bytes, s->y_bytes);
    else
        memset(y, 0, s->y_bytes);
    return QN_OK;
}

/* What a function makes may differ each time: a sample is known by its number. */
static qn_status look_at_number(qn_source_base *base, int64_t index, uint64_t *content,
                                int32_t *class) {
    (void)base;
    (void)class;
    *content = qn_hash_bytes(&index, sizeof index);
    return QN_OK;
}

/* ---- opening ---- */

static qn_status samples_open(qn_source_base *base, qn_data_source *source) {
    samples_source *s = (samples_source *)base;
    s->given = *base->samples;
    base->samples = NULL; /* the caller's, for now */
    QN_TRY(check_description(&s->given));
    for (int split = 0; split < QN_SPLITS; split++)
        QN_TRY(check_split(&s->given, split));
    QN_TRY(check_values(&s->given, &source->preparation.n_classes));
    const bool is_image = s->given.sample.rank == 3;
    s->planes = s->given.is_nchw && s->given.sample.dims[2] > 1 ? s->given.sample.dims[2] : 0;
    s->x_bytes = (size_t)qn_shape_count(s->given.sample) * qn_dtype_bytes(s->given.dtype);
    s->y_bytes =
        s->given.n_targets > 0 ? (size_t)s->given.n_targets * sizeof(float) : sizeof(int32_t);
    source->sample = is_image ? s->given.sample : QN_SHAPE(s->given.sample.dims[0]);
    source->dtype = s->given.dtype;
    source->n_targets = s->given.n_targets;
    source->preparation.sample = source->sample;
    source->read = samples_read;
    memcpy(source->n_samples, s->given.n, sizeof source->n_samples);
    base->needs_no_training = true;
    base->look = s->given.read ? look_at_number : NULL;
    if (source->n_samples[QN_TRAIN] == 0 || source->n_samples[QN_VALIDATION] > 0)
        base->options.validation = 0; /* those that were given are taken */
    base->wants_statistics = source->dtype == QN_U8 && source->n_samples[QN_TRAIN] > 0;
    return QN_OK;
}

static const qn_data_format format = {
    .name = "samples",
    .self_bytes = sizeof(samples_source),
    .open = samples_open,
};

qn_status qn_data_open_samples(const qn_samples *samples, const qn_data_options *options,
                               qn_data_source *source) {
    QN_NEED(samples, "samples");
    QN_NEED(source, "source");
    qn_samples known;
    QN_TRY(QN_OPTIONS_TAKE(qn_samples, samples, &known));
    const qn_source_base given = {.samples = &known};
    return qn_source_open(&format, &given, known.name ? known.name : "memory", options, source);
}
