/* Small pictures within a page, as data: nothing has to be loaded. */
#ifndef QN_REPORT_BITMAP_H
#define QN_REPORT_BITMAP_H

#include "format/output.h"

/* The address of pixels (h, w, c) as a bitmap file in base 64: c 1 for grey, 3 for colours. */
void qn_bitmap_put(qn_output *out, int h, int w, int c, const uint8_t *pixels);

/* The address of a JPEG file's bytes, likewise. */
void qn_bitmap_put_jpeg(qn_output *out, const uint8_t *data, size_t bytes);

#endif
