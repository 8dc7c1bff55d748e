/* See text.h. */
#include "base/text.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_LENGTH = 63 };

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
    double value = strtod(text, &end);
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
        snprintf(text, QN_SIZE_TEXT, "%.*f %ciB", is_whole ? 0 : digits, value,
                 size_letters[power - 1]);
    return text;
}
