/* The orientation of an image: cameras store the sensor's rows, and EXIF's tag 0x0112 says how to
 * turn them. */
#ifndef QN_DATA_IMAGES_ORIENTATION_H
#define QN_DATA_IMAGES_ORIENTATION_H

#include <stddef.h>
#include <stdint.h>

/* 1 to 8 as EXIF numbers them; 1: as stored. From 5 on, rows become columns. */
typedef int qn_orientation;

/* What EXIF data (a TIFF header and its first folder) say; 1 where they say nothing that can be
 * read. A head of "Exif\0\0" may come before. */
qn_orientation qn_orientation_parse(const uint8_t *exif, size_t bytes);

/* Turns pixels in (as stored) to out (h, w, c), not overlapping; in is (w, h, c) from 5 on. */
void qn_orientation_apply(qn_orientation orientation, const uint8_t *in, int64_t h, int64_t w,
                          int64_t c, uint8_t *out);

#endif
