/* Protocol buffers: a field, at any depth, goes, comes again, takes the content of another of its
 * kind, or gets another number; the lengths of what it lies in are set right. */
#include "fuzz/format.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_DEPTH = 10, VARINT = 0, FIXED64 = 1, BYTES = 2, FIXED32 = 5 };

typedef struct field {
    const uint8_t *begin, *content, *end; /* content: of bytes */
    uint64_t number;                      /* of a varint */
    int kind;
} field;

static const uint8_t *read_varint(const uint8_t *at, const uint8_t *end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; at < end && shift < 64; shift += 7) {
        *value |= (uint64_t)(*at & 127) << shift;
        if (!(*at++ & 128))
            return at;
    }
    return NULL;
}

static uint8_t *put_varint(uint8_t *at, uint64_t value) {
    for (; value > 127; value >>= 7)
        *at++ = (uint8_t)(value | 128);
    *at++ = (uint8_t)value;
    return at;
}

/* The field at a place; 0: there is none. */
static int read_field(const uint8_t *at, const uint8_t *end, field *f) {
    uint64_t key, length = 0;
    f->begin = at;
    at = read_varint(at, end, &key);
    f->kind = (int)(key & 7);
    if (!at || key >> 3 == 0)
        return 0;
    if (f->kind == VARINT || f->kind == BYTES)
        at = read_varint(at, end, f->kind == VARINT ? &f->number : &length);
    else if (f->kind == FIXED64 || f->kind == FIXED32)
        length = f->kind == FIXED64 ? 8 : 4;
    else
        return 0;
    if (!at || length > (uint64_t)(end - at))
        return 0;
    f->content = at;
    f->end = at + length;
    return 1;
}

static int is_message(const uint8_t *at, const uint8_t *end) {
    field f;
    int n = 0;
    for (; at < end; at = f.end, n++)
        if (!read_field(at, end, &f))
            return 0;
    return n > 0;
}

/* The fields of a message and of those in it are numbered as they come. */
typedef struct change {
    chance *c;
    size_t n, chosen, other; /* passed; to be changed; whose content is taken */
    field found;             /* the other one */
    int has_found;
} change;

static void count(const uint8_t *at, const uint8_t *end, int depth, change *ch) {
    field f;
    for (; at < end && read_field(at, end, &f); at = f.end) {
        if (ch->n++ == ch->other) {
            ch->found = f;
            ch->has_found = 1;
        }
        if (f.kind == BYTES && depth < MOST_DEPTH && is_message(f.content, f.end))
            count(f.content, f.end, depth + 1, ch);
    }
}

static uint8_t *put_bytes(uint8_t *to, const uint8_t *begin, const uint8_t *end) {
    memcpy(to, begin, (size_t)(end - begin));
    return to + (end - begin);
}

static uint64_t other_number(chance *c, uint64_t number) {
    static const uint64_t numbers[] = {0, 1, 2, 3, 7, 11, 127, 1u << 16, 1u << 31, UINT64_MAX};
    const size_t n = sizeof numbers / sizeof *numbers, i = chance_below(c, n + 2);
    return i < n ? numbers[i] : i == n ? number + 1 : number - 1;
}

/* The chosen field, changed. */
static uint8_t *put_changed(uint8_t *to, const field *f, change *ch) {
    const size_t kind = chance_below(ch->c, 6);
    const uint8_t *key_end = f->begin;
    while (*key_end++ & 128) {
    }
    if (kind == 0)
        return to;
    if (kind == 1)
        return put_bytes(put_bytes(to, f->begin, f->end), f->begin, f->end);
    if (kind < 4 && ch->has_found && ch->found.kind == f->kind) {
        to = put_bytes(to, f->begin, key_end);
        if (f->kind == VARINT)
            return put_varint(to, ch->found.number);
        if (f->kind == BYTES)
            to = put_varint(to, (uint64_t)(ch->found.end - ch->found.content));
        return put_bytes(to, ch->found.content, ch->found.end);
    }
    if (f->kind == VARINT)
        return put_varint(put_bytes(to, f->begin, key_end), other_number(ch->c, f->number));
    uint8_t *begin = to;
    to = put_bytes(to, f->begin, f->end);
    if (f->end > f->content)
        begin[(f->content - f->begin) +
              (ptrdiff_t)chance_below(ch->c, (size_t)(f->end - f->content))] =
            (uint8_t)chance_below(ch->c, 256);
    return to;
}

static uint8_t *put_message(uint8_t *to, const uint8_t *at, const uint8_t *end, int depth,
                            change *ch);

/* A field with one in it changed, behind its new length. */
static uint8_t *put_nested(uint8_t *to, const field *f, int depth, change *ch) {
    const size_t room = 2 * (size_t)(f->end - f->content) +
                        (ch->has_found ? (size_t)(ch->found.end - ch->found.begin) : 0) + 64;
    const uint8_t *key_end = f->begin;
    uint8_t *inner = malloc(room);
    if (!inner)
        return put_bytes(to, f->begin, f->end);
    const uint8_t *inner_end = put_message(inner, f->content, f->end, depth + 1, ch);
    while (*key_end++ & 128) {
    }
    to = put_bytes(to, f->begin, key_end);
    to = put_varint(to, (uint64_t)(inner_end - inner));
    to = put_bytes(to, inner, inner_end);
    free(inner);
    return to;
}

static uint8_t *put_message(uint8_t *to, const uint8_t *at, const uint8_t *end, int depth,
                            change *ch) {
    field f;
    for (; at < end && read_field(at, end, &f); at = f.end) {
        if (ch->n++ == ch->chosen)
            to = put_changed(to, &f, ch);
        else if (f.kind == BYTES && depth < MOST_DEPTH && is_message(f.content, f.end))
            to = put_nested(to, &f, depth, ch);
        else
            to = put_bytes(to, f.begin, f.end);
    }
    return put_bytes(to, at, end);
}

size_t format_change(uint8_t *data, size_t size, size_t most, chance *c) {
    change ch = {.c = c, .other = SIZE_MAX};
    count(data, data + size, 0, &ch);
    if (ch.n == 0)
        return size;
    const size_t n = ch.n;
    ch.chosen = chance_below(c, n);
    ch.other = chance_below(c, n);
    ch.n = 0;
    count(data, data + size, 0, &ch);
    ch.n = 0;
    uint8_t *copy = malloc(size), *to = malloc(3 * size + 1024);
    if (copy && to) {
        memcpy(copy, data, size);
        if (ch.has_found) { /* it is read while data are written */
            const ptrdiff_t moved = copy - data;
            ch.found.begin += moved, ch.found.content += moved, ch.found.end += moved;
        }
        const size_t made = (size_t)(put_message(to, copy, copy + size, 0, &ch) - to);
        if (made <= most) {
            memcpy(data, to, made);
            size = made;
        }
    }
    free(copy);
    free(to);
    return size;
}
