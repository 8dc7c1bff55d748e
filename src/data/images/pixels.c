/* Images in memory, prepared like a data set's samples: those for a network trained on folders are
 * first fitted to the network's size as bytes; those of sets with one size go through the loader's
 * preparer. */
#include "base/memory.h"
#include "base/status.h"
#include "data/images/image.h"
#include "data/prepare.h"
#include "os/heap.h"
#include "tensor/tensor.h"

static qn_status check(const qn_image *image, const qn_shape *size) {
    if (size->rank != 3 || (size->dims[2] != 1 && size->dims[2] != 3))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the network takes no images (H, W, 1 or 3), but rows of numbers");
    if (!image->pixels || (image->channels != 1 && image->channels != 3))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "an image needs pixels of 1 channel (grey) or 3 (red, green, blue)");
    if (image->height < 1 || image->width < 1 || image->height > QN_IMAGE_MAX_PIXELS / image->width)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "an image of %lld x %lld pixels; it must have 1 to %d of them",
                       (long long)image->height, (long long)image->width, QN_IMAGE_MAX_PIXELS);
    return QN_OK;
}

static qn_status apply(const qn_allocator *allocator, const qn_image *image,
                       const qn_preparation *preparation, float *x) {
    const qn_shape size = QN_SHAPE(image->height, image->width, image->channels);
    qn_preparer preparer;
    QN_TRY(qn_preparer_init(&preparer, allocator, &size, QN_U8, preparation));
    qn_preparer_apply(&preparer, image->pixels, x);
    qn_preparer_deinit(&preparer);
    return QN_OK;
}

qn_status qn_image_prepare_pixels(const qn_allocator *allocator, const qn_image *image,
                                  const qn_preparation *preparation, float *x) {
    QN_NEED(image, "image");
    QN_NEED(preparation, "preparation");
    QN_NEED(x, "x");
    const qn_shape *size = &preparation->sample;
    uint8_t *pixels;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(check(image, size));
    if (!preparation->centre_crop)
        return apply(allocator, image, preparation, x);
    const size_t bytes = (size_t)qn_shape_count(*size);
    QN_TRY(qn_allocate(allocator, bytes, 1, &pixels));
    const qn_image fitted = {pixels, size->dims[0], size->dims[1], (int)size->dims[2]};
    qn_status status = qn_image_fit(image, size, true, pixels);
    if (status == QN_OK)
        status = apply(allocator, &fitted, preparation, x);
    qn_release(allocator, pixels, bytes, 1);
    return status;
}
