/* How samples are prepared, in exported files: as text pairs, and by choice as two nodes in front,
 * so that a file takes the bytes of images, as numbers from 0 to 255, where it would else take what
 * was made of them. The nodes compute what qn_preparer computes, to the bit. */
#include "base/status.h"
#include "format/metadata.h"
#include "onnx/export/export.h"

#include <math.h>

/* One constant of the preparation: a scalar, one for each channel, or one for each element of a
 * row, so that it lies along the input's axes. */
static const char *put_constant(qn_onnx_exporter *e, const char *name, const qn_preparation *p,
                                bool is_image, double (*number)(double mean, double std_dev)) {
    const int n = p->n_statistics > 0 ? p->n_statistics : 1;
    const int64_t dims[] = {n, 1, 1};
    double *values = qn_onnx_room(e, (size_t)n, sizeof *values);
    for (int i = 0; values && i < n; i++) {
        const bool is_said = p->n_statistics > 0;
        values[i] = number(is_said ? (double)p->mean[i] : 0, is_said ? (double)p->std_dev[i] : 1);
    }
    return values ? qn_onnx_real_tensor(e, name, values, dims, is_image ? 3 : 1) : NULL;
}

static double scale_of(double mean, double std_dev) {
    (void)mean;
    return 1.0 / 255 / std_dev;
}

static double shift_of(double mean, double std_dev) {
    return -mean / std_dev;
}

const char *qn_onnx_prepare(qn_onnx_exporter *e, const qn_preparation *p, const char *input,
                            bool is_image) {
    const int n = p->n_statistics;
    if (p->sample.rank < 1 || (n > 1 && n != p->sample.dims[p->sample.rank - 1])) {
        qn_onnx_export_fail(
            e, QN_ERROR_UNSUPPORTED,
            "mean and deviation go into a file where there is one of them or one for "
            "each channel; leave out with_preparation");
        return NULL;
    }
    const char *scale = put_constant(e, "preparation/scale", p, is_image, scale_of);
    const char *shift = put_constant(e, "preparation/shift", p, is_image, shift_of);
    const char *scaled = "preparation/scaled", *shifted = "preparation/shifted";
    if (!scale || !shift)
        return NULL;
    qn_onnx_put(e, "Mul", scaled, (const char *const[]){input, scale}, 2, scaled);
    return qn_onnx_put(e, "Add", shifted, (const char *const[]){scaled, shift}, 2, shifted)
               ? shifted
               : NULL;
}

/* The float whose quotient 1/255 over it rounds to 1: bytes stay as they are. */
static float byte_deviation(void) {
    float deviation = (float)(1.0 / 255);
    while ((float)(1.0 / 255 / (double)deviation) < 1)
        deviation = nextafterf(deviation, 0);
    return deviation;
}

qn_status qn_onnx_describe_preparation(const qn_onnx_export_options *options, qn_metadata **pairs) {
    const float mean = 0, deviation = byte_deviation();
    QN_TRY(qn_metadata_create(options->allocator, pairs));
    QN_TRY(qn_metadata_add(*pairs, options->properties));
    if (!options->preparation)
        return QN_OK;
    qn_preparation outside = *options->preparation;
    if (!options->with_preparation)
        return qn_metadata_set_preparation(*pairs, &outside);
    outside.n_statistics = 1;
    outside.mean = &mean;
    outside.std_dev = &deviation;
    QN_TRY(qn_metadata_set(*pairs, "prepared_inside", "yes"));
    return qn_metadata_set_preparation(*pairs, &outside);
}
