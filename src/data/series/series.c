/* See series.h. */
#include "data/series/series.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_CLASSES = 4096 };

static qn_status find_class(qn_series_source *s, const char *name, int32_t *class) {
    for (size_t i = s->n_classes; i-- > 0;)
        if (strcmp(s->names[i], name) == 0) {
            *class = (int32_t)i;
            return QN_OK;
        }
    if (s->n_classes == MOST_CLASSES)
        return qn_fail(QN_ERROR_FORMAT, "%s: more than %d classes", s->base.argument, MOST_CLASSES);
    QN_TRY(qn_grow(s->base.options.allocator, &s->names, &s->name_capacity, s->n_classes + 1,
                   sizeof *s->names));
    s->names[s->n_classes] = qn_arena_text(&s->base.arena, name);
    if (!s->names[s->n_classes])
        return QN_ERROR_MEMORY;
    *class = (int32_t)s->n_classes++;
    return QN_OK;
}

qn_status qn_series_add(qn_series_source *s, const char *name, uint8_t **bytes) {
    const qn_allocator *allocator = s->base.options.allocator;
    const size_t each = (size_t)qn_shape_count(s->sample);
    int32_t class;
    QN_TRY(find_class(s, name, &class));
    QN_TRY(qn_grow(allocator, &s->class, &s->class_capacity, s->n + 1, sizeof *s->class));
    QN_TRY(qn_grow(allocator, &s->bytes, &s->byte_capacity, s->n + 1, each));
    s->class[s->n] = class;
    *bytes = s->bytes + s->n++ * each;
    return QN_OK;
}

static int by_name(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

static qn_status sort_classes(qn_series_source *s) {
    const size_t n = s->n_classes;
    char **sorted = qn_arena_allocate(&s->base.arena, n, sizeof *sorted);
    int32_t *number = qn_arena_allocate(&s->base.arena, n, sizeof *number);
    if (!sorted || !number)
        return QN_ERROR_MEMORY;
    memcpy(sorted, s->names, n * sizeof *sorted);
    qsort(sorted, n, sizeof *sorted, by_name);
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < n; k++)
            if (sorted[k] == s->names[i])
                number[i] = (int32_t)k;
    for (size_t i = 0; i < s->n; i++)
        s->class[i] = number[s->class[i]];
    memcpy(s->names, sorted, n * sizeof *sorted);
    return QN_OK;
}

/* ---- source ---- */

static qn_status series_read_class(void *self, qn_split split, int64_t index, int32_t *class) {
    const qn_series_source *s = self;
    (void)split;
    *class = s->class[index];
    return QN_OK;
}

static qn_status series_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    const qn_series_source *s = self;
    (void)split;
    const size_t each = (size_t)qn_shape_count(s->sample);
    memcpy(x, s->bytes + (size_t)index * each, each);
    memcpy(y, &s->class[index], sizeof s->class[index]);
    return QN_OK;
}

qn_status qn_series_finish(qn_series_source *s, qn_data_source *source) {
    QN_TRY(sort_classes(s));
    source->n_samples[QN_TRAIN] = (int64_t)s->n;
    source->dtype = QN_U8;
    source->sample = s->sample;
    source->read = series_read;
    source->read_class = series_read_class;
    source->preparation = (qn_preparation){.sample = s->sample,
                                           .n_classes = (int)s->n_classes,
                                           .class_names = (const char **)s->names};
    s->base.wants_statistics = true;
    return QN_OK;
}

void qn_series_release(qn_source_base *base) {
    qn_series_source *s = (qn_series_source *)base;
    const qn_allocator *allocator = base->options.allocator;
    qn_release(allocator, s->bytes, s->byte_capacity, (size_t)qn_shape_count(s->sample));
    qn_release(allocator, s->class, s->class_capacity, sizeof *s->class);
    qn_release(allocator, s->names, s->name_capacity, sizeof *s->names);
}
