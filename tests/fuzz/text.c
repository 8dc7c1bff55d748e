/* Changes of a text: a number becomes another, a word or line takes the place of another of its
 * kind, lines and things in brackets go, come again or change places. JSON stays JSON and a table a
 * table, most often. */
#include "fuzz/format.h"

#include <ctype.h>
#include <string.h>

typedef struct span {
    size_t begin, end;
} span;

/* Puts n bytes in the place of a span; the size after it, or as it was where there is no room. */
static size_t replace(uint8_t *data, size_t size, size_t most, span s, const uint8_t *from,
                      size_t n) {
    uint8_t copy[4096];
    if (n > sizeof copy || size - (s.end - s.begin) + n > most)
        return size;
    memcpy(copy, from, n);
    memmove(data + s.begin + n, data + s.end, size - s.end);
    memcpy(data + s.begin, copy, n);
    return size - (s.end - s.begin) + n;
}

static int is_number(uint8_t b) {
    return isdigit(b) || b == '-' || b == '+' || b == '.';
}

static int is_word(uint8_t b) {
    return isalnum(b) || b == '_' || b == '.' || b == '-' || b == '*';
}

/* The first run of bytes of a kind at or behind a place, from the begin again at the end; empty:
 * there is none. */
static span find_run(const uint8_t *data, size_t size, size_t from, int (*is_kind)(uint8_t)) {
    span s = {0, 0};
    for (size_t i = 0; i < size; i++) {
        const size_t at = (from + i) % size;
        if (is_kind(data[at]) && (at == 0 || !is_kind(data[at - 1]))) {
            s = (span){at, at};
            break;
        }
    }
    while (s.end < size && is_kind(data[s.end]))
        s.end++;
    return s;
}

static span find_line(const uint8_t *data, size_t size, size_t from) {
    span s = {from, from};
    while (s.begin > 0 && data[s.begin - 1] != '\n')
        s.begin--;
    while (s.end < size && data[s.end] != '\n')
        s.end++;
    s.end += s.end < size;
    return s;
}

/* What is in brackets, with them and a comma behind. */
static span find_brackets(const uint8_t *data, size_t size, size_t from) {
    int depth = 0;
    size_t begin = size;
    for (size_t i = 0; i < size; i++) {
        const size_t at = (from + i) % size;
        if (data[at] == '{' || data[at] == '[') {
            begin = at;
            break;
        }
    }
    for (size_t at = begin; at < size; at++) {
        depth += data[at] == '{' || data[at] == '[';
        depth -= data[at] == '}' || data[at] == ']';
        if (depth == 0)
            return (span){begin, at + 1 + (at + 1 < size && data[at + 1] == ',')};
    }
    return (span){0, 0};
}

static size_t change_number(uint8_t *data, size_t size, size_t most, chance *c) {
    static const char *const numbers[] = {"0",
                                          "1",
                                          "-1",
                                          "2",
                                          "7",
                                          "2147483647",
                                          "-2147483648",
                                          "4294967296",
                                          "9223372036854775807",
                                          "18446744073709551616",
                                          "0.5",
                                          "1e-9",
                                          "1e9",
                                          "1e308",
                                          "1e400",
                                          "-0",
                                          "00",
                                          "1.",
                                          "100000",
                                          "64"};
    const span s = find_run(data, size, chance_below(c, size), is_number);
    const char *text = numbers[chance_below(c, sizeof numbers / sizeof *numbers)];
    if (s.end == s.begin)
        return size;
    if (chance_below(c, 2)) { /* a digit: what is about as large */
        const size_t at = s.begin + chance_below(c, s.end - s.begin);
        data[at] = (uint8_t)(isdigit(data[at]) ? '0' + chance_below(c, 10) : data[at]);
        return size;
    }
    return replace(data, size, most, s, (const uint8_t *)text, strlen(text));
}

/* A run in the place of another of its kind. */
static size_t copy_run(uint8_t *data, size_t size, size_t most, chance *c) {
    int (*is_kind)(uint8_t) = chance_below(c, 2) ? is_word : is_number;
    const span to = find_run(data, size, chance_below(c, size), is_kind);
    const span from = find_run(data, size, chance_below(c, size), is_kind);
    return replace(data, size, most, to, data + from.begin, from.end - from.begin);
}

typedef span find_span(const uint8_t *data, size_t size, size_t from);

static size_t erase(uint8_t *data, size_t size, size_t most, chance *c, find_span *find) {
    return replace(data, size, most, find(data, size, chance_below(c, size)), data, 0);
}

/* One more of a span, in front of another, or in its place. */
static size_t copy(uint8_t *data, size_t size, size_t most, chance *c, find_span *find) {
    const span from = find(data, size, chance_below(c, size));
    span to = find(data, size, chance_below(c, size));
    to.end = chance_below(c, 2) ? to.end : to.begin;
    return replace(data, size, most, to, data + from.begin, from.end - from.begin);
}

size_t text_change(uint8_t *data, size_t size, size_t most, chance *c) {
    if (size == 0)
        return size;
    switch (chance_below(c, 8)) {
    case 0:
    case 1:
        return change_number(data, size, most, c);
    case 2:
    case 3:
        return copy_run(data, size, most, c);
    case 4:
        return erase(data, size, most, c, find_line);
    case 5:
        return copy(data, size, most, c, find_line);
    case 6:
        return erase(data, size, most, c, find_brackets);
    default:
        return copy(data, size, most, c, find_brackets);
    }
}
