/* Whole numbers of files that put the lowest byte first. */
#ifndef QN_DATA_IMAGES_LITTLE_H
#define QN_DATA_IMAGES_LITTLE_H

#include <stdint.h>

static inline uint32_t qn_read_le16(const uint8_t *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8;
}

static inline uint32_t qn_read_le32(const uint8_t *p) {
    return qn_read_le16(p) | qn_read_le16(p + 2) << 16;
}

#endif
