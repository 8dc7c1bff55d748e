/* Samples of a data set for a labeller with a network, in the data set's order: training samples,
 * then test samples. Pictures are made as large as the network wants them; arrays are not. */
#include "base/status.h"
#include "cli/label/label.h"
#include "data/facts.h"
#include "label/network/net.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 32, AT_ONCE = 32 };

bool label_has_pictures(const qn_data_source *source) {
    return source->sample.rank == 3;
}

/* Arrays are no pictures: they stay as they are. */
static bool is_array(const qn_data_source *source) {
    return source->facts && source->facts->axes;
}

/* The size of samples for a network: pictures are made smaller, series and arrays stay as they are.
 */
static qn_shape choose_sample(const qn_data_source *source) {
    qn_shape s = source->sample;
    const bool stays = s.dims[0] == 1 || s.dims[1] == 1 || is_array(source);
    for (int i = 0; i < 2 && !stays; i++)
        s.dims[i] = s.dims[i] < 1 || s.dims[i] > SIDE ? SIDE : s.dims[i];
    s.dims[2] = s.dims[2] < 1 ? 3 : s.dims[2];
    return s;
}

static qn_status check_size(const label_pictures *p) {
    char from[QN_SHAPE_TEXT], to[QN_SHAPE_TEXT];
    if (!is_array(&p->source) || qn_shape_equal(p->source.sample, p->sample))
        return QN_OK;
    qn_shape_print(p->source.sample, from);
    qn_shape_print(p->sample, to);
    return qn_fail(
        QN_ERROR_ARGUMENT,
        "%s has samples of %s, and the labeller's are %s: arrays are not resized (images "
        "in folders are)",
        p->source.name, from, to);
}

static qn_status begin_split(label_pictures *p) {
    const qn_preparation how = {.sample = p->sample,
                                .centre_crop = p->source.preparation.centre_crop,
                                .n_classes = p->source.preparation.n_classes};
    const qn_loader_options options = {
        QN_OPTIONS_INIT(qn_loader_options), .split = p->split, .batch = AT_ONCE, .seed = p->seed,
        .shuffle = p->is_shuffled,          .pad_last = true,  .n_batches = -1};
    qn_loader_destroy(p->loader);
    p->loader = NULL;
    p->at = p->n_left = 0;
    p->n_split = p->source.n_samples[p->split];
    return p->n_split > 0 ? qn_loader_create(&p->source, &how, &options, &p->loader) : QN_OK;
}

qn_status label_pictures_open(label_pictures *p, const qn_data_source *source, qn_shape sample) {
    p->source = *source;
    p->sample = sample.rank == 3 ? sample : choose_sample(source);
    p->split = QN_TRAIN;
    if (source->n_targets > 0)
        return qn_fail(QN_ERROR_ARGUMENT, "the labels are numbers, not classes");
    QN_TRY(check_size(p));
    return begin_split(p);
}

void label_pictures_close(label_pictures *p) {
    qn_loader_destroy(p->loader);
    p->loader = NULL;
}

qn_status label_pictures_next(label_pictures *p, const float **x, int32_t *label) {
    *x = NULL;
    while (p->n_split == 0) {
        if (p->split == QN_TEST)
            return QN_OK;
        p->split = QN_TEST;
        QN_TRY(begin_split(p));
    }
    if (p->at == p->n_left) {
        QN_TRY(qn_loader_next(p->loader, &p->batch));
        p->n_left = p->batch.n_valid;
        p->at = 0;
    }
    *x = p->batch.x + p->at * qn_shape_count(p->sample);
    *label = ((const int32_t *)p->batch.y)[p->at];
    p->at++;
    p->n_split--;
    return QN_OK;
}

qn_status label_pictures_read(const qn_data_source *source, uint64_t seed, label_samples *set) {
    const int64_t all = source->n_samples[QN_TRAIN] + source->n_samples[QN_TEST];
    const int64_t n = all < QN_NET_MOST_LABELLED ? all : QN_NET_MOST_LABELLED;
    label_pictures p = {.seed = seed, .is_shuffled = all > n};
    QN_TRY(label_pictures_open(&p, source, (qn_shape){0}));
    const int64_t d = qn_shape_count(p.sample);
    set->sample = p.sample;
    set->n_features = (int)d;
    set->x = calloc((size_t)n, (size_t)d * sizeof *set->x);
    set->label = calloc((size_t)n, sizeof *set->label);
    qn_status status =
        set->x && set->label ? QN_OK : qn_fail_memory((size_t)n * (size_t)d * sizeof *set->x);
    for (const float *x = set->x; status == QN_OK && x && set->n < n;) {
        status = label_pictures_next(&p, &x, &set->label[set->n]);
        if (status == QN_OK && x)
            memcpy(set->x + set->n++ * d, x, (size_t)d * sizeof *x);
    }
    label_pictures_close(&p);
    return status;
}
