/* See look.h. */
#include "data/look/look.h"

#include "base/rng.h"
#include "base/status.h"
#include "data/columns.h"
#include "data/facts.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A sample that is compared: equal contents are equal samples. */
typedef struct seen {
    uint64_t content;
    int32_t class;
    int32_t is_training;
} seen;

/* A column, as far as it was read. */
typedef struct column {
    float first, last;
    bool changes, is_broken; /* broken: it does not count rows */
} column;

typedef struct looking {
    const qn_data_source *source;
    const qn_look_options *options;
    qn_look *look;
    size_t x_bytes, y_bytes;
    char *x, *y;
    int64_t n_columns; /* 0: none are looked at */
    column *columns;
    seen *samples; /* (n_samples) */
    size_t n_samples, n_seen;
    double sum, square; /* of the first target, about its first value */
    double origin;
} looking;

/* ---- columns ---- */

static void look_at_columns(looking *l, bool is_first) {
    const float *x = (const float *)l->x;
    for (int64_t i = 0; i < l->n_columns; i++) {
        column *c = &l->columns[i];
        if (is_first)
            *c = (column){.first = x[i], .last = x[i], .is_broken = x[i] != floorf(x[i])};
        else {
            c->changes |= x[i] != c->first;
            c->is_broken |= !(x[i] > c->last) || x[i] != floorf(x[i]);
            c->last = x[i];
        }
    }
}

static void add_column(qn_look_columns *columns, int64_t i) {
    if (columns->n < QN_LOOK_NAMED)
        columns->first[columns->n] = i;
    columns->n++;
}

static void judge_columns(const looking *l, int64_t n) {
    enum { ENOUGH = 20 };
    const qn_table *table = l->source->preparation.table;
    for (int64_t i = 0; i < l->n_columns && n >= ENOUGH; i++) {
        if (table && qn_table_column_of(table, i) < 0)
            continue; /* one of the features of a date or of texts */
        if (!l->columns[i].changes)
            add_column(&l->look->constant, i);
        else if (!l->columns[i].is_broken)
            add_column(&l->look->counting, i);
    }
}

/* ---- samples ---- */

static void count_target(looking *l, qn_split split, int64_t index) {
    qn_look *k = l->look;
    float value;
    memcpy(&value, l->y, sizeof value);
    if (split == QN_TRAIN) {
        l->origin = index == 0 ? (double)value : l->origin;
        l->sum += (double)value - l->origin;
        l->square += ((double)value - l->origin) * ((double)value - l->origin);
        k->least = index == 0 ? (double)value : fmin(k->least, (double)value);
        k->most = index == 0 ? (double)value : fmax(k->most, (double)value);
        return;
    }
    k->by_mean[split] += ((double)value - k->mean) * ((double)value - k->mean);
}

static void count_labels(looking *l, qn_split split) {
    qn_look *k = l->look;
    int n = 0;
    for (int i = 0; i < k->n_labels; i++) {
        const bool has = ((const float *)(const void *)l->y)[i] > 0.5f;
        k->counts[split * k->n_labels + i] += has;
        n += has;
    }
    k->n_several += n > 1;
    k->n_bare += n == 0;
}

static void compare(looking *l, qn_split split, int32_t class) {
    l->samples[l->n_seen++] = (seen){qn_hash_bytes(l->x, l->x_bytes), class, split == QN_TRAIN};
}

static qn_status look_at_sample(looking *l, qn_split split, int64_t i) {
    const qn_data_source *s = l->source;
    const bool is_compared = i < l->options->most_compared;
    int32_t class = 0;
    if (!is_compared && s->read_class && l->look->n_classes > 0)
        QN_TRY(s->read_class(s->self, split, i, &class));
    else {
        QN_TRY(s->read(s->self, split, i, l->x, l->y));
        memcpy(&class, l->y, sizeof class);
    }
    if (l->look->n_labels > 0)
        count_labels(l, split);
    else if (l->look->n_classes == 0)
        count_target(l, split, i);
    else if (class >= 0 && class < l->look->n_classes)
        l->look->counts[split * l->look->n_classes + class]++;
    if (!is_compared)
        return QN_OK;
    compare(l, split, l->look->n_classes > 0 ? class : 0);
    if (split == QN_TRAIN)
        look_at_columns(l, i == 0);
    return QN_OK;
}

static qn_status look_at_split(looking *l, qn_split split) {
    const int64_t n = l->source->n_samples[split];
    qn_look *k = l->look;
    for (int64_t i = 0; i < n; i++)
        QN_TRY(look_at_sample(l, split, i));
    k->is_part |= n > l->options->most_compared;
    if (split == QN_TRAIN && n > 0) {
        k->mean = l->origin + l->sum / (double)n;
        const double shift = l->sum / (double)n;
        k->deviation = sqrt(fmax(l->square / (double)n - shift * shift, 0));
        k->by_mean[QN_TRAIN] = k->deviation;
        judge_columns(l, n);
    } else {
        k->by_mean[split] = n > 0 ? sqrt(k->by_mean[split] / (double)n) : NAN;
    }
    return QN_OK;
}

/* ---- equal samples ---- */

static int by_content(const void *left, const void *right) {
    const seen *a = left, *b = right;
    if (a->content != b->content)
        return a->content < b->content ? -1 : 1;
    return a->is_training != b->is_training ? b->is_training - a->is_training
                                            : (a->class > b->class) - (a->class < b->class);
}

/* Samples [begin, end) are equal; those of training come first. */
static void count_equal(qn_look *look, const seen *s, size_t begin, size_t end) {
    bool is_contrary = false;
    for (size_t i = begin; i < end; i++) {
        look->n_across += s[begin].is_training && !s[i].is_training;
        is_contrary |= s[i].class != s[begin].class;
    }
    if (is_contrary)
        look->n_contrary += (int64_t)(end - begin);
}

static void find_equal(looking *l) {
    size_t begin = 0;
    if (l->n_seen > 0)
        qsort(l->samples, l->n_seen, sizeof *l->samples, by_content);
    for (size_t i = 1; i <= l->n_seen; i++) {
        if (i < l->n_seen && l->samples[i].content == l->samples[begin].content)
            continue;
        count_equal(l->look, l->samples, begin, i);
        begin = i;
    }
    l->look->n_compared = (int64_t)l->n_seen;
}

/* ---- classes ---- */

static void judge_classes(qn_look *look, const qn_data_source *source) {
    const int n = look->n_classes;
    const qn_split split = source->n_samples[QN_TRAIN] > 0 ? QN_TRAIN : QN_TEST;
    const int64_t *counts = look->counts + split * n;
    look->rarest = -1;
    for (int i = 0; i < n; i++) {
        look->n_absent += counts[i] == 0;
        look->n_few += counts[i] > 0 && counts[i] < QN_LOOK_FEW;
        if (counts[i] > counts[look->commonest])
            look->commonest = i;
        if (counts[i] > 0 && (look->rarest < 0 || counts[i] < counts[look->rarest]))
            look->rarest = i;
    }
    look->rarest = look->rarest < 0 ? 0 : look->rarest;
    for (int s = 0; s < QN_SPLITS; s++)
        look->by_commonest[s] =
            source->n_samples[s] > 0
                ? (double)look->counts[s * n + look->commonest] / (double)source->n_samples[s]
                : NAN;
}

/* ---- all ---- */

static size_t count_places(const qn_look *look) {
    return (size_t)(look->n_classes + look->n_labels) * QN_SPLITS;
}

static qn_status looking_init(looking *l) {
    const qn_allocator *allocator = l->look->allocator;
    const qn_data_source *s = l->source;
    const bool is_open = s->sample.rank == 3 && s->sample.dims[0] == 0;
    const qn_shape *shape = is_open ? &l->options->delivered : &s->sample;
    const int64_t n = qn_shape_count(*shape);
    l->x_bytes = (size_t)n * qn_dtype_bytes(s->dtype);
    l->y_bytes = sizeof(float) * (size_t)(s->n_targets > 0 ? s->n_targets : 1);
    l->n_columns = shape->rank == 1 && s->dtype == QN_F32 && n <= QN_LOOK_COLUMNS ? n : 0;
    for (int split = 0; split < QN_SPLITS; split++)
        l->n_samples +=
            (size_t)(s->n_samples[split] < l->options->most_compared ? s->n_samples[split]
                                                                     : l->options->most_compared);
    QN_TRY(qn_allocate(allocator, l->x_bytes, 1, &l->x));
    QN_TRY(qn_allocate(allocator, l->y_bytes, 1, &l->y));
    QN_TRY(qn_allocate(allocator, (size_t)l->n_columns, sizeof *l->columns, &l->columns));
    QN_TRY(qn_allocate(allocator, l->n_samples, sizeof *l->samples, &l->samples));
    return qn_allocate(allocator, count_places(l->look), sizeof *l->look->counts, &l->look->counts);
}

static void looking_deinit(looking *l) {
    const qn_allocator *allocator = l->look->allocator;
    qn_release(allocator, l->x, l->x_bytes, 1);
    qn_release(allocator, l->y, l->y_bytes, 1);
    qn_release(allocator, l->columns, (size_t)l->n_columns, sizeof *l->columns);
    qn_release(allocator, l->samples, l->n_samples, sizeof *l->samples);
}

static qn_status look_at_all(looking *l) {
    QN_TRY(looking_init(l));
    for (int split = 0; split < QN_SPLITS; split++)
        QN_TRY(look_at_split(l, (qn_split)split));
    find_equal(l);
    if (l->look->n_classes > 0)
        judge_classes(l->look, l->source);
    return QN_OK;
}

qn_status qn_look_at(const qn_allocator *allocator, const qn_data_source *source,
                     const qn_look_options *options, qn_look *look) {
    looking l = {.source = source, .options = options, .look = look};
    const bool are_labels = source->facts && source->facts->target_kind == QN_TARGET_LABELS;
    *look = (qn_look){.allocator = qn_allocator_or_default(allocator),
                      .n_classes = source->n_targets > 0 ? 0 : source->preparation.n_classes,
                      .n_labels = are_labels ? source->n_targets : 0};
    const qn_status status = look_at_all(&l);
    looking_deinit(&l);
    if (status != QN_OK)
        qn_look_deinit(look);
    return status;
}

void qn_look_deinit(qn_look *look) {
    qn_release(look->allocator, look->counts, count_places(look), sizeof *look->counts);
    look->counts = NULL;
}
