/* Pictures of all kinds to bytes: as given, and with the sums of PNG chunks set right, since a
 * fuzzer will hardly guess those. */
#include "data/images/image.h"

#include <stdlib.h>
#include <string.h>
#include <zlib.h>

static void decode(const uint8_t *data, size_t size) {
    uint8_t x[5 * 7 * 3];
    qn_shape colour = {3, {5, 7, 3}}, grey = {3, {7, 5, 1}};
    (void)qn_image_decode(data, size, &colour, true, x);
    (void)qn_image_decode(data, size, &grey, false, x);
}

static uint32_t read_be32(const uint8_t *data) {
    return (uint32_t)data[0] << 24 | (uint32_t)data[1] << 16 | (uint32_t)data[2] << 8 | data[3];
}

static void repair_png(uint8_t *data, size_t size) {
    for (size_t at = 8; at + 12 <= size;) {
        size_t length = read_be32(data + at);
        if (length > size - at - 12)
            return;
        uint32_t sum = (uint32_t)crc32(0, data + at + 4, (uInt)length + 4);
        for (int i = 0; i < 4; i++)
            data[at + 8 + length + (size_t)i] = (uint8_t)(sum >> (24 - 8 * i));
        at += 12 + length;
    }
}

static int64_t read_le16(const uint8_t *p) {
    return (int64_t)p[1] << 8 | p[0];
}

static uint64_t read_tiff(const uint8_t *p, int n_bytes, int is_big) {
    uint64_t number = 0;
    for (int i = 0; i < n_bytes; i++)
        number = number << 8 | p[is_big ? i : n_bytes - 1 - i];
    return number;
}

/* Of a TIFF: whether what its first directory says to be the width, the height or a tile's makes
 * many pixels. */
static int has_large_side(const uint8_t *data, size_t size) {
    const int is_big = data[0] == 'M';
    const uint64_t at = read_tiff(data + 4, 4, is_big);
    uint64_t sides[2] = {1, 1};
    if (read_tiff(data + 2, 2, is_big) != 42)
        return 1;
    if (at > size - 2)
        return 0;
    const uint64_t n = read_tiff(data + at, 2, is_big);
    for (uint64_t i = 0, entry = at + 2; i < n && entry + 12 <= size; i++, entry += 12) {
        const uint64_t tag = read_tiff(data + entry, 2, is_big);
        const int is_short = read_tiff(data + entry + 2, 2, is_big) == 3;
        const int is_side = tag == 256 || tag == 257 || tag == 322 || tag == 323;
        const uint64_t side = read_tiff(data + entry + 8, is_short ? 2 : 4, is_big);
        if (is_side && side > sides[tag & 1])
            sides[tag & 1] = side;
    }
    return sides[0] * sides[1] > 1 << 18 || sides[0] > 1 << 16 || sides[1] > 1 << 16;
}

/* Pictures of many pixels only cost time. */
static int is_large(const uint8_t *data, size_t size) {
    enum { MANY = 1 << 20 };
    if (size < 26)
        return 0;
    if (memcmp(data, "\x89PNG", 4) == 0)
        return (uint64_t)read_be32(data + 16) * read_be32(data + 20) > MANY;
    if (memcmp(data, "GIF8", 4) == 0)
        return read_le16(data + 6) * read_le16(data + 8) > MANY;
    if (memcmp(data, "BM", 2) == 0)
        return read_le16(data + 18) * read_le16(data + 22) > MANY || data[20] || data[24];
    return (memcmp(data, "II", 2) == 0 || memcmp(data, "MM", 2) == 0) && has_large_side(data, size);
}

static int64_t read_be16(const uint8_t *p) {
    return (int64_t)p[0] << 8 | p[1];
}

static int has_large_frame(const uint8_t *data, size_t size) {
    for (size_t i = 0; i + 9 < size; i++)
        if (data[i] == 0xff && data[i + 1] >= 0xc0 && data[i + 1] <= 0xcf &&
            read_be16(data + i + 5) * read_be16(data + i + 7) > 1 << 18)
            return 1;
    return 0;
}

/* libheif 1.15 does not give back the packet (40 bytes) that its AV1 decoder refuses. That is not
 * ours to mend, and a fuzzer would find nothing else; leaks of our own stay found. */
__attribute__((visibility("default"))) const char *__lsan_default_suppressions(void);

const char *__lsan_default_suppressions(void) {
    return "leak:libdav1d.so\n";
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (is_large(data, size) || (size > 0 && data[0] == 0xff && has_large_frame(data, size)))
        return 0;
    decode(data, size);
    if (size < 8 || memcmp(data, "\x89PNG", 4) != 0)
        return 0;
    uint8_t *repaired = malloc(size);
    if (!repaired)
        return 0;
    memcpy(repaired, data, size);
    repair_png(repaired, size);
    decode(repaired, size);
    free(repaired);
    return 0;
}
