/* How samples are prepared and targets are scaled, in exported files: as text pairs, and as nodes.
 * Samples of numbers (rows of a table, arrays of floats) are prepared by two nodes in front, by
 * choice bytes of images are, too: such a file takes what the data have, bytes as numbers from 0 to
 * 255. Scaled targets come out of two nodes at the end in their own units. The nodes compute what
 * quern computes, to the bit. An import leaves out those at the end, so that training goes on with
 * what it was scaled by. */
#include "base/status.h"
#include "format/metadata.h"
#include "onnx/export/export.h"
#include "onnx/import.h"
#include "onnx/properties/inside.h"

#include <math.h>
#include <string.h>

/* Whether samples are numbers that are prepared as they are, not bytes. */
static bool are_numbers(const qn_onnx_export_options *o) {
    const char *elements = o->properties ? qn_metadata_get(o->properties, QN_ELEMENTS) : NULL;
    if (elements)
        return strcmp(elements, QN_ELEMENTS_NUMBERS) == 0;
    return o->preparation->table && o->preparation->table->n_columns > 0;
}

/* Whether mean and deviation are in the file that is written again. */
static bool is_there(const qn_onnx_export_options *o) {
    return o->source && qn_onnx_property_of(o->source, QN_ONNX_PREPARED_INSIDE);
}

/* Whether they can be said along the input's axes: one, one for each channel, or one for each
 * element of a sample that lies in the file as it does here. */
static bool can_be_said(const qn_preparation *p, bool is_image, int n_axes) {
    const bool lies_so = is_image || n_axes == p->sample.rank;
    if (p->n_statistics <= 1)
        return true;
    return lies_so && (p->n_statistics == p->sample.dims[p->sample.rank - 1] ||
                       p->n_statistics == qn_shape_count(p->sample));
}

/* One constant of the preparation, along the input's axes. */
static const char *put_constant(qn_onnx_exporter *e, const char *name, bool is_image,
                                const double *numbers) {
    const qn_preparation *p = qn_onnx_exporter_options(e)->preparation;
    const int64_t n = p->n_statistics > 0 ? p->n_statistics : 1, count = qn_shape_count(p->sample);
    const int64_t channels = p->sample.dims[p->sample.rank - 1], n_pixels = count / channels;
    int64_t dims[QN_MAX_RANK] = {n, 1, 1};
    double *values = qn_onnx_room(e, (size_t)n, sizeof *values);
    const bool is_of_all = n == count && n > channels;
    if (!values)
        return NULL;
    for (int64_t i = 0; i < n; i++)
        values[is_of_all && is_image ? i % channels * n_pixels + i / channels : i] = numbers[i];
    for (int i = 0; is_of_all && i < p->sample.rank; i++)
        dims[i] = p->sample.dims[is_image ? (i + p->sample.rank - 1) % p->sample.rank : i];
    return qn_onnx_real_tensor(e, name, values, dims,
                               is_of_all  ? p->sample.rank
                               : is_image ? 3
                                          : 1);
}

static const char *put_affine(qn_onnx_exporter *e, const char *input, const char *scale,
                              const char *shift, const char *scaled, const char *output) {
    if (!scale || !shift)
        return NULL;
    qn_onnx_put(e, "Mul", scaled, (const char *const[]){input, scale}, 2, scaled);
    return qn_onnx_put(e, "Add", output, (const char *const[]){scaled, shift}, 2, output) ? output
                                                                                          : NULL;
}

static const char *put_preparation(qn_onnx_exporter *e, const char *input, bool is_image) {
    const qn_onnx_export_options *o = qn_onnx_exporter_options(e);
    const qn_preparation *p = o->preparation;
    const size_t n = p->n_statistics > 0 ? (size_t)p->n_statistics : 1;
    const double unit = are_numbers(o) ? 1.0 : 1.0 / 255;
    double *scale = qn_onnx_room(e, n, sizeof *scale), *shift = qn_onnx_room(e, n, sizeof *shift);
    if (!scale || !shift)
        return NULL;
    for (size_t i = 0; i < n; i++) {
        const double mean = p->n_statistics > 0 ? (double)p->mean[i] : 0;
        const double deviation = p->n_statistics > 0 ? (double)p->std_dev[i] : 1;
        scale[i] = unit / deviation;
        shift[i] = -mean / deviation;
    }
    return put_affine(e, input, put_constant(e, QN_ONNX_PREPARATION_SCALE, is_image, scale),
                      put_constant(e, QN_ONNX_PREPARATION_SHIFT, is_image, shift),
                      "preparation/scaled", "preparation/shifted");
}

const char *qn_onnx_prepare(qn_onnx_exporter *e, const char *input, bool is_image, int n_axes) {
    const qn_onnx_export_options *o = qn_onnx_exporter_options(e);
    const qn_preparation *p = o->preparation;
    if (!p || is_there(o) || p->sample.rank < 1 || (!o->with_preparation && !are_numbers(o)) ||
        (p->n_statistics == 0 && are_numbers(o)))
        return input;
    if (can_be_said(p, is_image, n_axes)) {
        qn_onnx_exporter_inside(e)->is_prepared = true;
        return put_preparation(e, input, is_image);
    }
    if (!o->with_preparation)
        return input;
    qn_onnx_export_fail(e, QN_ERROR_UNSUPPORTED,
                        "mean and deviation go into a file where there is one of them or one for "
                        "each channel; leave out with_preparation");
    return NULL;
}

/* ---- targets ---- */

const float *qn_onnx_target_numbers(qn_onnx_exporter *e, bool are_means, int64_t n) {
    const qn_preparation *p = qn_onnx_exporter_options(e)->preparation;
    const bool is_said = p && p->n_scaled == n;
    float *numbers = qn_onnx_room(e, (size_t)n, sizeof *numbers);
    for (int64_t i = 0; numbers && i < n; i++)
        numbers[i] = are_means ? (is_said ? p->target_mean[i] : 0.0F)
                               : (is_said ? p->target_scale[i] : 1.0F);
    return numbers;
}

static const char *put_target_tensor(qn_onnx_exporter *e, const char *name, bool are_means,
                                     int64_t n) {
    const float *numbers = qn_onnx_target_numbers(e, are_means, n);
    return numbers ? qn_onnx_put_tensor(e, name, QN_ONNX_FLOAT, &n, 1, numbers,
                                        (size_t)n * sizeof *numbers)
                   : NULL;
}

const char *qn_onnx_restore_targets(qn_onnx_exporter *e, const char *output, int64_t n_outputs,
                                    const char *restored) {
    const qn_preparation *p = qn_onnx_exporter_options(e)->preparation;
    if (!p || p->n_scaled == 0 || p->n_scaled != n_outputs)
        return output;
    qn_onnx_exporter_inside(e)->is_restored = true;
    return put_affine(e, output, put_target_tensor(e, QN_ONNX_TARGET_SCALE, false, n_outputs),
                      put_target_tensor(e, QN_ONNX_TARGET_MEAN, true, n_outputs),
                      QN_ONNX_TARGETS_SCALED, restored);
}

/* ---- pairs ---- */

/* The float whose quotient 1/255 over it rounds to 1: bytes stay as they are. */
static float byte_deviation(void) {
    float deviation = (float)(1.0 / 255);
    while ((float)(1.0 / 255 / (double)deviation) < 1)
        deviation = nextafterf(deviation, 0);
    return deviation;
}

static qn_status describe_inside(const qn_onnx_export_options *o, qn_metadata *pairs) {
    const float mean = 0, deviation = byte_deviation();
    qn_preparation outside = *o->preparation;
    outside.n_statistics = are_numbers(o) ? 0 : 1;
    outside.mean = &mean;
    outside.std_dev = &deviation;
    QN_TRY(qn_metadata_set(pairs, QN_ONNX_PREPARED_INSIDE, "yes"));
    return qn_metadata_set_preparation(pairs, &outside);
}

qn_status qn_onnx_describe_preparation(qn_onnx_exporter *e, qn_metadata **pairs) {
    const qn_onnx_export_options *o = qn_onnx_exporter_options(e);
    const qn_onnx_inside *inside = qn_onnx_exporter_inside(e);
    QN_TRY(qn_metadata_create(o->allocator, pairs));
    QN_TRY(qn_metadata_add(*pairs, o->properties));
    if (!o->preparation)
        return QN_OK;
    if (inside->is_restored)
        QN_TRY(qn_metadata_set(*pairs, QN_ONNX_TARGETS_INSIDE, "yes"));
    return inside->is_prepared ? describe_inside(o, *pairs)
                               : qn_metadata_set_preparation(*pairs, o->preparation);
}
