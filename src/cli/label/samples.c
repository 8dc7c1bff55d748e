/* Labelled rows of a data set in memory, for quern label: training and test samples together. */
#include "base/status.h"
#include "cli/label/label.h"
#include "tensor/tensor.h"

#include <stdlib.h>

void label_samples_deinit(label_samples *set) {
    free(set->x);
    free(set->label);
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

qn_status label_samples_read(const qn_data_source *source, label_samples *set) {
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
    return read_split(source, QN_TEST, set);
}
