/* PNG files through libpng, written completely or not at all. */
#ifndef QN_FORMAT_PICTURE_H
#define QN_FORMAT_PICTURE_H

#include "quern/base.h"

/* Writes pixels (h, w, c), c 1 for grey or 3 for colours, 1 to 65535 each side. */
qn_status qn_picture_write(const char *path, int64_t h, int64_t w, int c, const uint8_t *pixels);

/* The same for n images (n, h, w, c) of floats from -1, black, to 1, white (what lies outside is
 * cut), side by side in rows of so many columns, with a white line of two pixels between them. */
qn_status qn_picture_write_grid(const qn_allocator *allocator, const char *path, int64_t n,
                                int64_t columns, int64_t h, int64_t w, int c, const float *images);

#endif
