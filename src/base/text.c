/* See text.h. */
#include "base/text.h"

#include <stddef.h>
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
