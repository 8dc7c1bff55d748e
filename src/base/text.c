/* See text.h. */
#include "base/text.h"

#include "base/decimal.h"
#include "base/print.h"

#include <stddef.h>
#include <stdio.h>
#include <string.h>

enum { MAX_LENGTH = 63, MOST_NAMED = 5 };

static int least(int a, int b) {
    return a < b ? a : b;
}

static int edit_distance(const char *a, const char *b) {
    const int n = least((int)strlen(a), MAX_LENGTH), m = least((int)strlen(b), MAX_LENGTH);
    int row[MAX_LENGTH + 1];
    for (int j = 0; j <= m; j++)
        row[j] = j;
    for (int i = 1; i <= n; i++) {
        int diagonal = row[0];
        row[0] = i;
        for (int j = 1; j <= m; j++) {
            const int replaced = diagonal + (a[i - 1] != b[j - 1]);
            diagonal = row[j];
            row[j] = least(replaced, least(row[j], row[j - 1]) + 1);
        }
    }
    return row[m];
}

const char *qn_text_nearest(const char *typed, const char *const *names, int n_names) {
    const char *nearest = NULL;
    int best = (int)strlen(typed) / 3 + 2;
    for (int i = 0; i < n_names; i++) {
        const int distance = edit_distance(typed, names[i]);
        if (distance < best) {
            best = distance;
            nearest = names[i];
        }
    }
    return nearest;
}

static const char size_letters[] = "KMGT";

/* The power of 1024 that a unit stands for, "" being 0; -1: it is none. */
static int find_power(const char *unit) {
    const char *letter =
        *unit ? strchr(size_letters, *unit >= 'a' ? *unit - 'a' + 'A' : *unit) : NULL;
    const char *rest = letter ? unit + 1 : unit;
    rest += letter && (*rest == 'i' || *rest == 'I');
    rest += *rest == 'b' || *rest == 'B';
    if (*rest)
        return -1;
    return letter ? (int)(letter - size_letters) + 1 : 0;
}

bool qn_text_size(const char *text, uint64_t *bytes) {
    char *end;
    if (*text < '0' || *text > '9')
        return false;
    double value = qn_decimal_read(text, &end);
    const int power = find_power(end);
    for (int i = 0; i < power; i++)
        value *= 1024;
    if (power < 0 || !(value <= 0x1p60))
        return false;
    *bytes = (uint64_t)value;
    return true;
}

const char *qn_text_print_size(uint64_t bytes, char text[QN_SIZE_TEXT]) {
    double value = (double)bytes;
    int power = 0;
    for (; value >= 1000 && power < 4; power++)
        value /= 1024;
    const int digits = power == 0 || value >= 99.95 ? 0 : value >= 9.995 ? 1 : 2;
    const bool is_whole = value == (double)(uint64_t)value;
    if (power == 0)
        snprintf(text, QN_SIZE_TEXT, "%llu bytes", (unsigned long long)bytes);
    else
        qn_print(text, QN_SIZE_TEXT, "%.*f %ciB", is_whole ? 0 : digits, value,
                 size_letters[power - 1]);
    return text;
}

bool qn_text_is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool qn_text_is_space(char c) {
    return c == ' ' || (c >= '\t' && c <= '\r');
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Whether the text begins with the word; *behind: what follows. */
static bool begins_with(const char *text, const char *word, const char **behind) {
    for (; *word && lower(*text) == lower(*word); word++)
        text++;
    *behind = text;
    return *word == 0;
}

bool qn_text_is_same(const char *a, const char *b) {
    const char *behind;
    return begins_with(a, b, &behind) && *behind == 0;
}

bool qn_text_holds(const char *text, const char *word) {
    const char *behind;
    while (*text && !begins_with(text, word, &behind))
        text++;
    return *text || !*word;
}

/* ---- characters ---- */

static bool follows(const char *text, size_t n) {
    for (size_t i = 1; i < n; i++) {
        if ((text[i] & 0xC0) != 0x80)
            return false;
    }
    return true;
}

size_t qn_text_character(const char *text) {
    const unsigned char first = (unsigned char)text[0], second = (unsigned char)text[first != 0];
    if (first < 0x80)
        return 1;
    const size_t n = first >= 0xF0 ? 4 : first >= 0xE0 ? 3 : 2;
    const bool is_short =
        first < 0xC2 || (first == 0xE0 && second < 0xA0) || (first == 0xF0 && second < 0x90);
    const bool is_beyond =
        first > 0xF4 || (first == 0xF4 && second > 0x8F) || (first == 0xED && second > 0x9F);
    return is_short || is_beyond || !follows(text, n) ? 0 : n;
}

size_t qn_text_put_code(uint32_t code, char to[QN_TEXT_CODE]) {
    static const unsigned char first[] = {0, 0, 0xc0, 0xe0, 0xf0};
    const size_t n = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    for (size_t i = n - 1; i > 0; i--, code >>= 6)
        to[i] = (char)(0x80 | (code & 0x3f));
    to[0] = (char)(n == 1 ? code : first[n] | code);
    return n;
}

bool qn_text_is_obeyed(uint32_t code) {
    const bool turns = code == 0x061C || code == 0x200E || code == 0x200F ||
                       (code >= 0x202A && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069);
    return code < ' ' || (code >= 0x7F && code < 0xA0) || turns || code == 0x2028 || code == 0x2029;
}

uint32_t qn_text_code(const char *text, size_t n) {
    const unsigned char *c = (const unsigned char *)text;
    uint32_t code = n == 1 ? c[0] : c[0] & (0xFFu >> (n + 1));
    for (size_t i = 1; i < n; i++)
        code = code << 6 | (c[i] & 0x3F);
    return code;
}

const char *qn_text_printable(const char *text, char *to, size_t bytes) {
    static const char digits[] = "0123456789abcdef";
    size_t used = 0;
    while (*text) {
        const size_t n = qn_text_character(text), taken = n > 0 ? n : 1;
        const bool is_shown = n > 0 && !qn_text_is_obeyed(qn_text_code(text, n));
        if (used + (is_shown ? n : 4 * taken) + 1 > bytes)
            break;
        for (size_t i = 0; i < taken; i++) {
            const unsigned char c = (unsigned char)text[i];
            const char escaped[4] = {'\\', 'x', digits[c >> 4], digits[c & 15]};
            memcpy(to + used, is_shown ? &text[i] : escaped, is_shown ? 1 : 4);
            used += is_shown ? 1 : 4;
        }
        text += taken;
    }
    to[used] = 0;
    return to;
}

void qn_text_names_add(qn_text_names *names, const char *name) {
    if (names->n++ < MOST_NAMED && names->used < sizeof names->text)
        names->used += (size_t)qn_print(names->text + names->used, sizeof names->text - names->used,
                                        "%s%.80s", names->n > 1 ? ", " : "", name);
}

const char *qn_text_names_finish(qn_text_names *names) {
    if (names->n > MOST_NAMED && names->used < sizeof names->text)
        qn_print(names->text + names->used, sizeof names->text - names->used, " and %d more",
                 names->n - MOST_NAMED);
    return names->text;
}
