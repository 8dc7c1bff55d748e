/* Bitmap files, uncompressed, of 24 bits a pixel, in base 64; see bitmap.h. */
#include "report/bitmap.h"

enum { HEAD_BYTES = 54 };

/* Bytes that wait until there are three: four characters are made of them. */
typedef struct base64 {
    qn_output *out;
    uint8_t held[3];
    int n;
} base64;

static void put_four(base64 *b) {
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const uint32_t all =
        (uint32_t)b->held[0] << 16 | (uint32_t)b->held[1] << 8 | (uint32_t)b->held[2];
    char text[4];
    for (int i = 0; i < 4; i++)
        text[i] = i <= b->n ? digits[all >> (18 - 6 * i) & 63] : '=';
    qn_output_bytes(b->out, text, sizeof text);
    b->n = b->held[0] = b->held[1] = b->held[2] = 0;
}

static void put_byte(base64 *b, uint32_t byte) {
    b->held[b->n++] = (uint8_t)byte;
    if (b->n == 3)
        put_four(b);
}

/* Little-endian. */
static void put_number(base64 *b, uint32_t number, int bytes) {
    for (int i = 0; i < bytes; i++)
        put_byte(b, number >> 8 * i & 255);
}

static void put_head(base64 *b, uint32_t h, uint32_t w, uint32_t size) {
    put_byte(b, 'B');
    put_byte(b, 'M');
    put_number(b, HEAD_BYTES + size, 4);
    put_number(b, 0, 4);
    put_number(b, HEAD_BYTES, 4);
    put_number(b, 40, 4); /* bytes of what follows */
    put_number(b, w, 4);
    put_number(b, h, 4);
    put_number(b, 1, 2);
    put_number(b, 24, 2);
    put_number(b, 0, 4);
    put_number(b, size, 4);
    for (int i = 0; i < 4; i++)
        put_number(b, 0, 4);
}

/* The lowest row is the first; a row has a multiple of four bytes. */
void qn_bitmap_put(qn_output *out, int h, int w, int c, const uint8_t *pixels) {
    base64 b = {.out = out};
    const int row = (3 * w + 3) / 4 * 4;
    qn_output_text(out, "data:image/bmp;base64,");
    put_head(&b, (uint32_t)h, (uint32_t)w, (uint32_t)(row * h));
    for (int y = h - 1; y >= 0; y--) {
        for (int x = 0; x < w; x++)
            for (int k = 2; k >= 0; k--)
                put_byte(&b, pixels[(y * w + x) * c + (c == 3 ? k : 0)]);
        put_number(&b, 0, row - 3 * w);
    }
    if (b.n > 0)
        put_four(&b);
}

void qn_bitmap_put_jpeg(qn_output *out, const uint8_t *data, size_t bytes) {
    base64 b = {.out = out};
    qn_output_text(out, "data:image/jpeg;base64,");
    for (size_t i = 0; i < bytes; i++)
        put_byte(&b, data[i]);
    if (b.n > 0)
        put_four(&b);
}
