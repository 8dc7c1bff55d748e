/* See orientation.h. */
#include "data/images/orientation.h"

#include <stdbool.h>
#include <string.h>

enum { TAG = 0x0112, TYPE_SHORT = 3, ENTRY_BYTES = 12 };

/* EXIF data in the order of bytes that they say of themselves. */
typedef struct exif {
    const uint8_t *data;
    size_t bytes;
    bool is_big;
} exif;

static uint32_t read16(const exif *e, size_t at) {
    const uint8_t *p = e->data + at;
    return e->is_big ? (uint32_t)(p[0] << 8 | p[1]) : (uint32_t)(p[1] << 8 | p[0]);
}

static uint32_t read32(const exif *e, size_t at) {
    const uint32_t first = read16(e, at), second = read16(e, at + 2);
    return e->is_big ? first << 16 | second : second << 16 | first;
}

static bool begin(exif *e, const uint8_t *data, size_t bytes) {
    const size_t head = bytes >= 6 && memcmp(data, "Exif\0\0", 6) == 0 ? 6 : 0;
    *e = (exif){.data = data + head, .bytes = bytes - head};
    if (e->bytes < 10)
        return false;
    e->is_big = e->data[0] == 'M';
    return memcmp(e->data, e->is_big ? "MM" : "II", 2) == 0 && read16(e, 2) == 42;
}

qn_orientation qn_orientation_parse(const uint8_t *data, size_t bytes) {
    exif e;
    if (!begin(&e, data, bytes))
        return 1;
    const size_t folder = read32(&e, 4);
    if (folder > e.bytes - 2)
        return 1;
    const size_t n_entries = read16(&e, folder);
    for (size_t i = 0; i < n_entries; i++) {
        const size_t at = folder + 2 + i * ENTRY_BYTES;
        if (at + ENTRY_BYTES > e.bytes)
            break;
        if (read16(&e, at) != TAG || read16(&e, at + 2) != TYPE_SHORT)
            continue;
        const uint32_t value = read16(&e, at + 8);
        return value >= 1 && value <= 8 ? (int)value : 1;
    }
    return 1;
}

/* Where pixel (y, x) of the result is stored: (y, x), mirrored along either axis, or with the two
 * exchanged first. */
void qn_orientation_apply(qn_orientation orientation, const uint8_t *in, int64_t h, int64_t w,
                          int64_t c, uint8_t *out) {
    const bool is_turned = orientation >= 5;
    const bool flips_rows =
        orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
    const bool flips_columns =
        orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
    const int64_t stored_h = is_turned ? w : h, stored_w = is_turned ? h : w;
    for (int64_t y = 0; y < h; y++) {
        for (int64_t x = 0; x < w; x++, out += c) {
            const int64_t row = is_turned ? x : y, column = is_turned ? y : x;
            const int64_t from_y = flips_rows ? stored_h - 1 - row : row;
            const int64_t from_x = flips_columns ? stored_w - 1 - column : column;
            memcpy(out, in + (from_y * stored_w + from_x) * c, (size_t)c);
        }
    }
}
