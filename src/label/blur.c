/* See blur.h. */
#include "label/blur.h"

#include "base/rng.h"
#include "base/status.h"

#include <math.h>

enum {
    MOST_VALUES = 8,   /* of a column that is blurred */
    LEAST_SAMPLES = 4, /* times its values */
};

static const float part = 0.25f; /* of a step, that a number moves at most */

qn_status qn_blur_make(qn_labeller *l) {
    return qn_allocate(l->allocator, 2 * (size_t)l->d, sizeof *l->step, &l->step);
}

void qn_blur_drop(qn_labeller *l) {
    qn_release(l->allocator, l->step, 2 * (size_t)l->d, sizeof *l->step);
    l->step = NULL;
}

/* ---- finding ---- */

/* The different values of feature j, at most MOST_VALUES + 1 of them. */
static int find_values(const float *x, int64_t n, int d, int j, float *values) {
    int found = 0;
    for (int64_t i = 0; i < n && found <= MOST_VALUES; i++) {
        int k = 0;
        while (k < found && values[k] != x[i * d + j])
            k++;
        if (k == found)
            values[found++] = x[i * d + j];
    }
    return found;
}

/* The least distance of values if all are multiples of it from the first one; 0: they are not. */
static float step_of(const float *values, int n) {
    float least = 0;
    for (int a = 0; a < n; a++)
        for (int b = 0; b < a; b++) {
            const float apart = fabsf(values[a] - values[b]);
            least = least == 0 || apart < least ? apart : least;
        }
    for (int a = 1; a < n; a++) {
        const float steps = (values[a] - values[0]) / least;
        if (!(fabsf(steps) < 1e4f) || fabsf(steps - rintf(steps)) > 1e-3f)
            return 0;
    }
    return least;
}

qn_status qn_blur_find(qn_labeller *l, const float *x, int64_t n) {
    float values[MOST_VALUES + 1];
    for (int i = 0, j = 0; i < l->columns.n; i++) {
        const qn_label_column *column = l->columns.column ? &l->columns.column[i] : NULL;
        const int at = j;
        j += column ? qn_label_column_width(column) : 1;
        if (column && column->is_text)
            continue;
        const int found = find_values(x, n, l->d, at, values);
        const float step = found <= MOST_VALUES && found * (int64_t)LEAST_SAMPLES <= n
                               ? step_of(values, found)
                               : 0.0f;
        if (!(step > 0))
            continue;
        if (!l->step)
            QN_TRY(qn_blur_make(l));
        l->step[at] = step;
        l->step[l->d + at] = values[0];
    }
    return QN_OK;
}

/* ---- samples ---- */

void qn_blur_apply(const qn_labeller *l, int64_t number, float *features) {
    const qn_rng rng = qn_rng_make(0, 0x626c7572, (uint64_t)number);
    uint64_t word = 0;
    for (int i = 0, j = 0; (l->step || l->columns.column) && i < l->columns.n; i++) {
        const qn_label_column *column = l->columns.column ? &l->columns.column[i] : NULL;
        const int width = column ? qn_label_column_width(column) : 1;
        const float texts = __builtin_sqrtf(3.0f * QN_LABEL_BLUR / (float)width);
        for (int k = 0; k < width; k++, j++) {
            const float most = column && column->is_text ? texts : l->step ? part * l->step[j] : 0;
            if (most > 0)
                features[j] += most * (2.0f * qn_rng_uniform(qn_rng_word(rng, word++)) - 1.0f);
        }
    }
}

void qn_blur_undo(const qn_labeller *l, float *features) {
    for (int j = 0; l->step && j < l->d; j++) {
        const float step = l->step[j], from = l->step[l->d + j];
        if (!(step > 0))
            continue;
        const float value = from + rintf((features[j] - from) / step) * step;
        if (fabsf(value - features[j]) <= 1.01f * part * step)
            features[j] = value;
    }
}
