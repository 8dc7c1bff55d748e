/* Labelled rows of a data set in memory, for quern label: training and test samples together. */
#include "base/status.h"
#include "base/text.h"
#include "cli/label/label.h"
#include "cli/label/rows.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void label_samples_deinit(label_samples *set) {
    free(set->x);
    free(set->label);
}

static bool fills_gaps(const arguments *a) {
    return strcmp(arguments_get(a, "missing"), "median") == 0;
}

qn_status label_open_known(const arguments *a, qn_data_source *source) {
    qn_data_options how = {QN_OPTIONS_INIT(qn_data_options),
                           .allocator = qn_allocator_default(),
                           .log = &session_log,
                           .reads_texts = true,
                           .target = arguments_get(a, "target"),
                           .ignore = arguments_get(a, "ignore"),
                           .categories = arguments_get(a, "categories"),
                           .keeps_gaps = fills_gaps(a) || arguments_flag(a, "skip-bad")};
    QN_TRY(label_read_form(a, &how));
    return qn_data_open(arguments_get(a, "known"), &how, source);
}

static qn_status read_split(const qn_data_source *source, qn_split split, label_samples *set) {
    unsigned char bytes[QN_LABEL_MAX_FEATURES];
    for (int64_t i = 0; i < source->n_samples[split]; i++, set->n++) {
        float *x = set->x + set->n * set->n_features;
        const bool are_bytes = source->dtype == QN_U8;
        QN_TRY(source->read(source->self, split, i, are_bytes ? (void *)bytes : x,
                            &set->label[set->n]));
        for (int j = 0; are_bytes && j < set->n_features; j++)
            x[j] = (float)bytes[j];
    }
    return QN_OK;
}

/* ---- gaps ---- */

static bool has_gap(const float *x, int d) {
    for (int j = 0; j < d; j++)
        if (isnan(x[j]))
            return true;
    return false;
}

static void leave_out(label_samples *set, const char *name) {
    const size_t d = (size_t)set->n_features;
    int64_t n = 0;
    for (int64_t i = 0; i < set->n; i++) {
        const float *x = set->x + (size_t)i * d;
        if (has_gap(x, set->n_features))
            continue;
        memmove(set->x + (size_t)n * d, x, d * sizeof *x);
        set->label[n++] = set->label[i];
    }
    if (n < set->n)
        terminal_note("%s: %" PRId64 " rows with missing values are left out", name, set->n - n);
    set->n = n;
}

static qn_status fill_column(label_samples *set, int column, int64_t *n_filled) {
    const int d = set->n_features;
    float median = 0;
    QN_TRY(qn_label_columns_median(qn_allocator_default(), set->x + column, set->n, d, &median));
    *n_filled = 0;
    for (int64_t i = 0; i < set->n; i++) {
        float *x = &set->x[i * d + column];
        *n_filled += isnan(*x) != 0;
        *x = isnan(*x) ? median : *x;
    }
    return QN_OK;
}

static qn_status fill_all(label_samples *set, const qn_data_source *source) {
    qn_text_names names = {.n = 0};
    int64_t n_filled, n = 0;
    for (int j = 0; j < set->n_features; j++) {
        char place[32];
        snprintf(place, sizeof place, "column %d", j + 1);
        const char *name = source->columns ? source->columns[j].name : "";
        QN_TRY(fill_column(set, j, &n_filled));
        n += n_filled;
        if (n_filled > 0)
            qn_text_names_add(&names, *name ? name : place);
    }
    if (n > 0)
        terminal_note("%s: %" PRId64
                      " values are missing, in %d column%s (%s): the median stands in for them",
                      source->name, n, names.n, names.n == 1 ? "" : "s",
                      qn_text_names_finish(&names));
    return QN_OK;
}

qn_status label_samples_read(const arguments *a, const qn_data_source *source, label_samples *set) {
    const int64_t n = source->n_samples[QN_TRAIN] + source->n_samples[QN_TEST];
    const int64_t d = qn_shape_count(source->sample);
    if (source->n_targets > 0)
        return qn_fail(QN_ERROR_ARGUMENT, "the labels are numbers, not classes");
    if (d < 1 || d > QN_LABEL_MAX_FEATURES)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "samples of %lld numbers; a labeller takes rows of 1 to %d: give it what a "
                       "network makes of them, or fewer columns",
                       (long long)d, QN_LABEL_MAX_FEATURES);
    set->n_features = (int)d;
    set->x = calloc((size_t)n, (size_t)d * sizeof *set->x);
    set->label = calloc((size_t)n, sizeof *set->label);
    if (!set->x || !set->label)
        return qn_fail_memory((size_t)n * (size_t)d * sizeof *set->x);
    QN_TRY(read_split(source, QN_TRAIN, set));
    QN_TRY(read_split(source, QN_TEST, set));
    if (fills_gaps(a))
        return fill_all(set, source);
    leave_out(set, source->name);
    return set->n > 0 ? QN_OK
                      : qn_fail(QN_ERROR_FORMAT,
                                "%s: every row lacks a value; --missing median "
                                "takes them",
                                source->name);
}
