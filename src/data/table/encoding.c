/* See encoding.h. */
#include "data/table/encoding.h"

#include "base/status.h"
#include "base/text.h"

#include <string.h>

enum { PIECE_BYTES = 16 * 1024, LOOKED_AT = 1024, MOST_OF_ONE = 4 };

const char *qn_encoding_name(qn_encoding encoding) {
    static const char *const names[] = {"UTF-8", "Latin-1", "UTF-16", "UTF-16"};
    return names[encoding];
}

/* ---- finding ---- */

/* How many bytes more a character takes after its first; -1: none begins so. */
static int count_following(unsigned char first) {
    return first < 0x80   ? 0
           : first < 0xc2 ? -1
           : first < 0xe0 ? 1
           : first < 0xf0 ? 2
           : first < 0xf5 ? 3
                          : -1;
}

/* The second byte of three or four: no long forms, surrogates or numbers beyond the last. */
static bool is_second(unsigned char first, unsigned char second) {
    const unsigned char least = first == 0xe0 ? 0xa0 : first == 0xf0 ? 0x90 : 0x80;
    const unsigned char most = first == 0xed ? 0x9f : first == 0xf4 ? 0x8f : 0xbf;
    return second >= least && second <= most;
}

/* Where a text is: bytes that are still to come of a character, and its first. */
typedef struct utf8_state {
    int n_left;
    unsigned char first;
    bool is_begun; /* the second byte is next */
} utf8_state;

static bool check_piece(utf8_state *s, const unsigned char *piece, size_t n) {
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = piece[i];
        if (s->n_left == 0) {
            s->n_left = count_following(c);
            s->first = c;
            s->is_begun = true;
            if (s->n_left < 0)
                return false;
            continue;
        }
        if (s->is_begun ? !is_second(s->first, c) : (c & 0xc0) != 0x80)
            return false;
        s->is_begun = false;
        s->n_left--;
    }
    return true;
}

/* Zeros at every second byte are the upper halves of letters. */
static bool looks_like_utf16(const unsigned char *bytes, size_t n, size_t zeros_at) {
    size_t n_zeros = 0, n_others = 0;
    for (size_t i = 0; i + 1 < n; i += 2) {
        n_zeros += bytes[i + zeros_at] == 0;
        n_others += bytes[i + 1 - zeros_at] == 0;
    }
    return n >= 4 && n_others == 0 && 2 * n_zeros > n / 2;
}

static bool find_by_start(const unsigned char *start, size_t n, qn_encoding *encoding) {
    const bool has_mark = n >= 2 && (start[0] ^ start[1]) == 1 && start[0] >= 0xfe;
    if (has_mark)
        *encoding = start[0] == 0xff ? QN_ENCODING_UTF16_LE : QN_ENCODING_UTF16_BE;
    else if (looks_like_utf16(start, n, 1))
        *encoding = QN_ENCODING_UTF16_LE;
    else if (looks_like_utf16(start, n, 0))
        *encoding = QN_ENCODING_UTF16_BE;
    else
        return false;
    return true;
}

qn_status qn_encoding_find(qn_file *file, qn_encoding *encoding) {
    unsigned char piece[PIECE_BYTES];
    const int64_t bytes = qn_file_bytes(file);
    utf8_state state = {0};
    *encoding = QN_ENCODING_UTF8;
    for (int64_t at = 0; at < bytes; at += PIECE_BYTES) {
        const size_t n = bytes - at < PIECE_BYTES ? (size_t)(bytes - at) : PIECE_BYTES;
        QN_TRY(qn_file_read(file, at, piece, n));
        if (at == 0 && find_by_start(piece, n < LOOKED_AT ? n : LOOKED_AT, encoding))
            return QN_OK;
        if (!check_piece(&state, piece, n)) {
            *encoding = QN_ENCODING_LATIN1;
            return QN_OK;
        }
    }
    if (state.n_left > 0)
        *encoding = QN_ENCODING_LATIN1;
    return QN_OK;
}

/* ---- reading ---- */

/* Windows-1252 from 0x80 to 0x9f; 0: as in Latin-1. */
static const uint16_t windows[32] = {
    0x20ac, 0,      0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017d, 0,      0,      0x2018, 0x2019, 0x201c, 0x201d, 0x2022,
    0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0,      0x017e, 0x0178};

static uint32_t unit_at(qn_encoding encoding, const unsigned char *bytes) {
    return encoding == QN_ENCODING_UTF16_LE ? (uint32_t)(bytes[0] | bytes[1] << 8)
                                            : (uint32_t)(bytes[0] << 8 | bytes[1]);
}

/* The next character of n bytes, at least one of which is given; *used: its bytes. */
static uint32_t take_character(qn_encoding encoding, const unsigned char *bytes, size_t n,
                               size_t *used) {
    if (encoding == QN_ENCODING_LATIN1) {
        *used = 1;
        const uint32_t c = bytes[0];
        return c >= 0x80 && c < 0xa0 && windows[c - 0x80] ? windows[c - 0x80] : c;
    }
    *used = n < 2 ? n : 2;
    const uint32_t unit = n < 2 ? 0xfffd : unit_at(encoding, bytes);
    if (unit < 0xd800 || unit >= 0xe000)
        return unit;
    const uint32_t low = unit < 0xdc00 && n >= 4 ? unit_at(encoding, bytes + 2) : 0;
    if (low < 0xdc00 || low >= 0xe000)
        return 0xfffd;
    *used = 4;
    return 0x10000 + ((unit - 0xd800) << 10) + (low - 0xdc00);
}

qn_status qn_decoder_more(void *context, void *to, size_t bytes, size_t *n) {
    qn_decoder *d = context;
    unsigned char piece[PIECE_BYTES];
    char *out = to;
    const int64_t left = qn_file_bytes(d->file) - d->at;
    const size_t most = bytes / MOST_OF_ONE < sizeof piece ? bytes / MOST_OF_ONE : sizeof piece;
    const size_t wanted = most > MOST_OF_ONE ? most : MOST_OF_ONE;
    const size_t given = left < (int64_t)wanted ? (size_t)left : wanted;
    *n = 0;
    QN_TRY(qn_file_read(d->file, d->at, piece, given));
    /* A character may be cut at the end of the piece: it is left for the next one. */
    for (size_t i = 0, used; i < given && *n + MOST_OF_ONE <= bytes; i += used) {
        const bool is_cut = given - i < MOST_OF_ONE && left > (int64_t)given && *n > 0;
        if (is_cut)
            break;
        *n += qn_text_put_code(take_character(d->encoding, piece + i, given - i, &used), out + *n);
        d->at += (int64_t)used;
    }
    return QN_OK;
}

/* ---- reading what arrives ---- */

/* How many of the bytes are whole characters of UTF-8; *is_wrong: what follows them is none. */
static size_t count_utf8(qn_stream_decoder *d, const unsigned char *bytes, size_t n,
                         bool *is_wrong) {
    utf8_state state = {0};
    size_t n_whole = 0;
    *is_wrong = false;
    for (size_t i = 0; i < n && !*is_wrong; i++) {
        *is_wrong = !check_piece(&state, bytes + i, 1);
        if (*is_wrong || state.n_left > 0)
            continue;
        d->has_letters |= bytes[i] >= 0x80;
        n_whole = i + 1;
    }
    return n_whole;
}

static qn_status take_utf8(qn_stream_decoder *d, bool is_end, char *to, size_t bytes, size_t *n) {
    bool is_wrong;
    *n = count_utf8(d, d->bytes, d->n < bytes ? d->n : bytes, &is_wrong);
    memcpy(to, d->bytes, *n);
    if (*n > 0 || (!is_wrong && !is_end) || d->n == 0)
        return QN_OK;
    if (d->has_letters)
        return qn_fail(QN_ERROR_FORMAT,
                       "a byte is no UTF-8, and letters before it are; write one encoding");
    d->encoding = QN_ENCODING_LATIN1;
    return QN_OK;
}

/* Bytes that the next character takes; of what begins in the middle of one, 1. */
static size_t count_needed(const qn_stream_decoder *d, size_t at, bool is_end) {
    if (d->encoding == QN_ENCODING_LATIN1 || is_end)
        return 1;
    const uint32_t unit = d->n - at < 2 ? 0 : unit_at(d->encoding, d->bytes + at);
    return unit >= 0xd800 && unit < 0xdc00 ? 4 : 2;
}

/* Reads whole characters of the bytes that wait. */
static qn_status take_waiting(qn_stream_decoder *d, bool is_end, char *to, size_t bytes,
                              size_t *n) {
    size_t at = 0;
    *n = 0;
    if (d->encoding == QN_ENCODING_UTF8) {
        QN_TRY(take_utf8(d, is_end, to, bytes, n));
        at = *n;
    }
    if (d->encoding != QN_ENCODING_UTF8) {
        size_t used;
        for (; at < d->n && at + count_needed(d, at, is_end) <= d->n && *n + MOST_OF_ONE <= bytes;
             at += used)
            *n += qn_text_put_code(take_character(d->encoding, d->bytes + at, d->n - at, &used),
                                   to + *n);
    }
    d->n -= at;
    memmove(d->bytes, d->bytes + at, d->n);
    return QN_OK;
}

qn_status qn_stream_decoder_more(void *context, void *to, size_t bytes, size_t *n) {
    qn_stream_decoder *d = context;
    bool is_end = false;
    for (*n = 0; *n == 0 && !is_end;) {
        size_t got;
        if (d->is_found)
            QN_TRY(take_waiting(d, false, to, bytes, n));
        if (*n > 0)
            return QN_OK;
        QN_TRY(d->more(d->context, d->bytes + d->n, sizeof d->bytes - d->n, &got));
        d->n += got;
        is_end = got == 0;
        if (!d->is_found && (d->n >= 2 || is_end)) {
            d->is_found = true;
            (void)find_by_start(d->bytes, d->n, &d->encoding);
        }
    }
    return is_end ? take_waiting(d, true, to, bytes, n) : QN_OK;
}
