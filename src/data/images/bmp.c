/* BMP, with a reader of our own, since no library that machines usually have reads it: the headers
 * of OS/2 1 and of Windows from version 3, palettes of 1, 4 and 8 bits, run lengths, 16, 24 and 32
 * bits with or without masks. Alpha is ignored: most writers leave it 0. Leaves out OS/2's own ways
 * of packing, and PNG and JPEG within BMP. */
#include "base/memory.h"
#include "base/status.h"
#include "data/images/image.h"
#include "data/images/little.h"
#include "os/heap.h"

#include <string.h>

enum { FILE_HEADER = 14, CORE_HEADER = 12, INFO_HEADER = 40, MASKS = 54 };
enum { PLAIN = 0, RUNS_8 = 1, RUNS_4 = 2, BIT_FIELDS = 3, ALPHA_BIT_FIELDS = 6 };

/* A channel within a pixel: (pixel & mask) >> shift is 0 to most. */
typedef struct bmp_channel {
    uint32_t mask, most;
    int shift;
} bmp_channel;

typedef struct bmp {
    const uint8_t *data;
    size_t bytes, pixels_at;
    int64_t w, h;
    bool is_top_down;
    uint32_t header_bytes, bits, packing;
    bmp_channel channels[3]; /* red, green, blue, of 16 and 32 bits */
    uint8_t palette[256][3];
    uint8_t *indices; /* (h, w) unpacked, from the bottom; null where nothing is packed */
} bmp;

static qn_status fail(const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "broken BMP: %s", what);
}

/* ---- header ---- */

static qn_status read_size(bmp *b) {
    const uint8_t *d = b->data;
    if (b->bytes < FILE_HEADER + CORE_HEADER)
        return fail("truncated");
    b->pixels_at = qn_read_le32(d + 10);
    b->header_bytes = qn_read_le32(d + 14);
    const bool is_core = b->header_bytes == CORE_HEADER;
    if (!is_core && (b->header_bytes < INFO_HEADER || b->header_bytes > 1024))
        return fail("a header of unknown length");
    if (b->bytes < FILE_HEADER + b->header_bytes || b->pixels_at > b->bytes)
        return fail("truncated");
    const int32_t w = is_core ? (int32_t)qn_read_le16(d + 18) : (int32_t)qn_read_le32(d + 18);
    const int32_t h = is_core ? (int32_t)qn_read_le16(d + 20) : (int32_t)qn_read_le32(d + 22);
    b->bits = qn_read_le16(d + (is_core ? 24 : 28));
    b->packing = is_core ? PLAIN : qn_read_le32(d + 30);
    b->is_top_down = h < 0;
    b->w = w;
    b->h = h < 0 ? -(int64_t)h : h;
    if (b->w < 1 || b->h < 1)
        return fail("no pixels");
    return b->h > QN_IMAGE_MAX_PIXELS / b->w ? qn_fail(QN_ERROR_FORMAT, "BMP of too many pixels")
                                             : QN_OK;
}

/* Which ways of packing go with how many bits. */
static bool is_known(const bmp *b) {
    switch (b->packing) {
    case PLAIN:
        return b->bits == 1 || b->bits == 4 || b->bits == 8 || b->bits == 16 || b->bits == 24 ||
               b->bits == 32;
    case RUNS_8:
        return b->bits == 8 && !b->is_top_down;
    case RUNS_4:
        return b->bits == 4 && !b->is_top_down;
    case BIT_FIELDS:
    case ALPHA_BIT_FIELDS:
        return (b->bits == 16 || b->bits == 32) && b->header_bytes != 64;
    default:
        return false;
    }
}

static qn_status set_channel(bmp_channel *channel, uint32_t mask) {
    if (mask == 0)
        return fail("a colour without bits");
    const int shift = __builtin_ctz(mask);
    const uint32_t most = mask >> shift;
    if (most & (most + 1))
        return fail("a colour whose bits are not side by side");
    *channel = (bmp_channel){mask, most, shift};
    return QN_OK;
}

static qn_status read_masks(bmp *b) {
    static const uint32_t usual[2][3] = {{0x7c00, 0x03e0, 0x001f}, {0xff0000, 0xff00, 0xff}};
    const bool are_given = b->packing == BIT_FIELDS || b->packing == ALPHA_BIT_FIELDS;
    if (are_given && b->bytes < MASKS + 12)
        return fail("truncated");
    for (int i = 0; i < 3; i++)
        QN_TRY(set_channel(&b->channels[i], are_given ? qn_read_le32(b->data + MASKS + 4 * i)
                                                      : usual[b->bits == 32][i]));
    return QN_OK;
}

/* Colours behind the header, blue first; those that are missing are black. */
static qn_status read_palette(bmp *b) {
    const bool is_core = b->header_bytes == CORE_HEADER;
    const size_t entry = is_core ? 3 : 4, at = FILE_HEADER + (size_t)b->header_bytes;
    const uint32_t given = is_core ? 0 : qn_read_le32(b->data + 46), most = 1u << b->bits;
    const size_t n = given > 0 && given < most ? given : most;
    if (at + n * entry > b->bytes)
        return fail("truncated");
    for (size_t i = 0; i < n; i++) {
        const uint8_t *colour = b->data + at + i * entry;
        for (int k = 0; k < 3; k++)
            b->palette[i][k] = colour[2 - k];
    }
    return QN_OK;
}

static qn_status read_header(bmp *b) {
    QN_TRY(read_size(b));
    if (!is_known(b))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "BMP of %u bits, packed in way %u, which is not read; convert it to PNG",
                       b->bits, b->packing);
    if (b->bits == 16 || b->bits == 32)
        return read_masks(b);
    return b->bits <= 8 ? read_palette(b) : QN_OK;
}

/* ---- run lengths ---- */

/* Where unpacking is. */
typedef struct bmp_cursor {
    size_t at;
    int64_t x, y; /* y from the bottom */
} bmp_cursor;

static void put_index(const bmp *b, bmp_cursor *c, uint8_t index) {
    if (c->x < b->w && c->y < b->h)
        b->indices[c->y * b->w + c->x] = index;
    c->x++;
}

/* Index k of those in bytes of 8 bits, or two of 4 bits each. */
static uint8_t index_of(const bmp *b, const uint8_t *bytes, int64_t k) {
    if (b->bits == 8)
        return bytes[k];
    return k % 2 == 0 ? bytes[k / 2] >> 4 : bytes[k / 2] & 15;
}

/* What follows a length of 0: *is_end after the last row. */
static qn_status unpack_escape(bmp *b, bmp_cursor *c, uint8_t code, bool *is_end) {
    const uint8_t *d = b->data + c->at;
    const size_t left = b->bytes - c->at;
    *is_end = code == 1;
    if (code == 0) {
        c->x = 0;
        c->y++;
        return QN_OK;
    }
    if (code == 1)
        return QN_OK;
    if (code == 2) {
        if (left < 2)
            return fail("truncated");
        c->x += d[0];
        c->y += d[1];
        c->at += 2;
        return QN_OK;
    }
    const size_t n = b->bits == 8 ? code : (code + 1u) / 2, padded = (n + 1) & ~(size_t)1;
    if (left < n)
        return fail("truncated");
    for (int64_t k = 0; k < code; k++)
        put_index(b, c, index_of(b, d, k));
    c->at += padded < left ? padded : left;
    return QN_OK;
}

/* Rows that are not written stay index 0. */
static qn_status unpack(bmp *b) {
    bmp_cursor c = {.at = b->pixels_at};
    QN_TRY(qn_allocate(qn_allocator_default(), (size_t)b->w, (size_t)b->h, &b->indices));
    for (bool is_end = false; !is_end && c.y < b->h;) {
        if (b->bytes - c.at < 2)
            return fail("truncated");
        const uint8_t length = b->data[c.at], code = b->data[c.at + 1];
        c.at += 2;
        for (int64_t k = 0; k < length; k++)
            put_index(b, &c, b->bits == 8 ? code : k % 2 == 0 ? code >> 4 : code & 15);
        if (length == 0)
            QN_TRY(unpack_escape(b, &c, code, &is_end));
    }
    return QN_OK;
}

/* ---- rows ---- */

static void convert_masked(const bmp *b, const uint8_t *from, uint8_t *row) {
    for (int64_t x = 0; x < b->w; x++) {
        const uint32_t pixel =
            b->bits == 16 ? qn_read_le16(from + 2 * x) : qn_read_le32(from + 4 * x);
        for (int k = 0; k < 3; k++) {
            const bmp_channel *c = &b->channels[k];
            const uint64_t value = (pixel & c->mask) >> c->shift;
            row[3 * x + k] = (uint8_t)((value * 255 + c->most / 2) / c->most);
        }
    }
}

static void convert_indices(const bmp *b, const uint8_t *from, uint8_t *row) {
    const uint32_t bits = b->bits, mask = (1u << bits) - 1;
    for (int64_t x = 0; x < b->w; x++) {
        const int64_t bit = x * bits;
        const uint32_t index = from[bit / 8] >> (8 - bits - (uint32_t)(bit % 8)) & mask;
        memcpy(row + 3 * x, b->palette[index], 3);
    }
}

static void convert_row(const bmp *b, const uint8_t *from, uint8_t *row) {
    if (b->indices)
        for (int64_t x = 0; x < b->w; x++)
            memcpy(row + 3 * x, b->palette[from[x]], 3);
    else if (b->bits <= 8)
        convert_indices(b, from, row);
    else if (b->bits == 24)
        for (int64_t i = 0; i < 3 * b->w; i++)
            row[i] = from[i - i % 3 + 2 - i % 3];
    else
        convert_masked(b, from, row);
}

static qn_status give_rows(const bmp *b, const qn_pixel_sink *sink, uint8_t *row) {
    const int64_t stride = b->indices ? b->w : (b->w * b->bits + 31) / 32 * 4;
    const uint8_t *first = b->indices ? b->indices : b->data + b->pixels_at;
    if (!b->indices && (uint64_t)(stride * b->h) > b->bytes - b->pixels_at)
        return fail("truncated");
    QN_TRY(sink->begin(sink->context, b->h, b->w, 3, 1));
    for (int64_t y = 0; y < b->h; y++) {
        convert_row(b, first + (b->is_top_down ? y : b->h - 1 - y) * stride, row);
        QN_TRY(sink->row(sink->context, row));
    }
    return QN_OK;
}

bool qn_bmp_is(const uint8_t *data, size_t bytes) {
    return bytes >= 18 && data[0] == 'B' && data[1] == 'M' &&
           qn_read_le32(data + 14) <= 1024; /* text may begin so, too */
}

qn_status qn_bmp_decode(const uint8_t *data, size_t bytes, const qn_pixel_sink *sink) {
    const qn_allocator *heap = qn_allocator_default();
    bmp b = {.data = data, .bytes = bytes};
    uint8_t *row = NULL;
    QN_TRY(read_header(&b));
    qn_status status = qn_allocate(heap, (size_t)b.w, 3, &row);
    if (status == QN_OK && (b.packing == RUNS_8 || b.packing == RUNS_4))
        status = unpack(&b);
    if (status == QN_OK)
        status = give_rows(&b, sink, row);
    qn_release(heap, b.indices, (size_t)b.w, (size_t)b.h);
    qn_release(heap, row, (size_t)b.w, 3);
    return status;
}
