/* See reading.h. */
#include "tasks/reading.h"

#include "base/status.h"
#include "data/facts.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

static void set_table(const qn_metadata *settings, qn_data_options *options) {
    const char *separator = qn_metadata_get(settings, "separator");
    options->header = qn_metadata_get(settings, "header");
    options->separator = separator && strcmp(separator, "bar") == 0 ? "|" : separator;
    options->decimal = qn_metadata_get(settings, "decimal");
    options->dates = qn_metadata_get(settings, "dates");
    options->target = qn_metadata_get(settings, "target");
    options->ignore = qn_metadata_get(settings, "ignore");
    options->categories = qn_metadata_get(settings, "categories");
    options->task = qn_metadata_get(settings, "task");
}

static int64_t count_of(const qn_metadata *settings, const char *name) {
    const char *text = qn_metadata_get(settings, name);
    return text ? strtoll(text, NULL, 10) : 0;
}

void qn_reading_set_windows(const qn_metadata *settings, qn_data_options *options) {
    options->window = count_of(settings, "window");
    options->stride = count_of(settings, "stride");
    options->window_label = qn_metadata_get(settings, "window-label");
    options->time = qn_metadata_get(settings, "time");
    options->group = qn_metadata_get(settings, "group");
}

void qn_reading_set(const qn_metadata *settings, qn_data_options *options) {
    const char *classes = settings ? qn_metadata_get(settings, "classes-from") : NULL;
    if (settings) {
        set_table(settings, options);
        qn_reading_set_windows(settings, options);
    }
    if (classes)
        options->classes_from = strcmp(classes, "leaf") == 0   ? QN_CLASSES_FROM_LEAF
                                : strcmp(classes, "path") == 0 ? QN_CLASSES_FROM_PATH
                                                               : QN_CLASSES_FROM_TOP;
}

bool qn_reading_is_series(const qn_data_source *source) {
    return source->facts && source->facts->are_windows;
}

/* Whether two shapes are one but for extents of 1: the numbers lie in the same order. */
static bool is_same_order(const qn_shape *a, const qn_shape *b) {
    int i = 0, k = 0;
    for (;;) {
        while (i < a->rank && a->dims[i] == 1)
            i++;
        while (k < b->rank && b->dims[k] == 1)
            k++;
        if (i == a->rank || k == b->rank)
            return i == a->rank && k == b->rank;
        if (a->dims[i++] != b->dims[k++])
            return false;
    }
}

static bool is_array(const qn_data_source *source) {
    return source->facts && source->facts->axes && source->sample.rank == 3;
}

static bool is_resizing(const qn_metadata *settings) {
    const char *resize = settings ? qn_metadata_get(settings, "resize") : NULL;
    return resize && strcmp(resize, "yes") == 0;
}

qn_status qn_reading_check(const qn_metadata *settings, const qn_data_source *source) {
    if (!is_resizing(settings) || is_array(source))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--resize is for arrays of images or series; %s is none (images in files are "
                   "resized without it)",
                   source->name);
}

/* Arrays are no pictures: they go into the network as they are, or not at all. */
qn_status qn_reading_fit(const qn_metadata *settings, qn_data_source *source,
                         const qn_shape *input) {
    qn_shape *sample = &source->sample;
    char from[QN_SHAPE_TEXT], to[QN_SHAPE_TEXT];
    if (!is_array(source) || input->rank != 3 || is_resizing(settings) ||
        qn_shape_equal(*sample, *input))
        return QN_OK;
    if (is_same_order(sample, input)) {
        *sample = *input;
        return QN_OK;
    }
    if (sample->dims[0] == input->dims[0] && sample->dims[1] == input->dims[1])
        return QN_OK; /* grey for colours or the other way round, or an error that says so */
    qn_shape_print(*sample, from);
    qn_shape_print(*input, to);
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s has samples of %s, and the network takes %s; train with --input %s, or "
                   "with --resize if they are pictures",
                   source->name, from, to, from);
}
