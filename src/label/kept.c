/* See kept.h. */
#include "label/kept.h"

#include "base/status.h"

/* The place of a label's record, or -1. */
static int place_of(const qn_labeller *l, int64_t label) {
    if (label < l->n_known)
        return (int)label;
    for (int i = 0; i < QN_LABEL_MAX_NEW; i++)
        if (qn_labeller_found(l, i)->serial == label - l->n_known)
            return l->n_known + i;
    return -1;
}

static void put_row(const qn_labeller *l, qn_kept_rows *rows, const float *scaled, int class_of,
                    float confidence) {
    qn_labeller_unscale(l, scaled, rows->x + (size_t)rows->n * (size_t)rows->d);
    rows->class_of[rows->n] = class_of;
    rows->confidence[rows->n++] = confidence > 1.0f ? 1.0f : confidence;
}

static qn_status put_window(const qn_labeller *l, qn_kept_rows *rows) {
    for (int age = l->n_window - 1; age >= 0; age--) {
        const int i = (l->window_at - 1 - age + 2 * QN_LABEL_WINDOW) % QN_LABEL_WINDOW;
        qn_label_answer answer;
        QN_TRY(qn_labeller_revise(l, age, NULL, &answer));
        const int place = answer.label < 0 ? -1 : place_of(l, answer.label);
        if (place >= 0)
            put_row(l, rows, l->window + (size_t)i * (size_t)l->d, place, answer.confidence);
    }
    return QN_OK;
}

qn_status qn_kept_rows_get(const qn_labeller *l, qn_arena *arena, qn_kept_rows *rows) {
    const size_t most = (size_t)l->examples.n + (size_t)l->n_window, d = (size_t)l->d;
    float x[QN_LABEL_MAX_FEATURES];
    *rows = (qn_kept_rows){.d = l->d};
    if (most == 0 || *l->where.source)
        return QN_OK;
    rows->x = qn_arena_allocate(arena, most * d, sizeof *rows->x);
    rows->class_of = qn_arena_allocate(arena, most, sizeof *rows->class_of);
    rows->confidence = qn_arena_allocate(arena, most, sizeof *rows->confidence);
    if (!rows->x || !rows->class_of || !rows->confidence)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < l->examples.n; i++) {
        qn_examples_get(&l->examples, i, x);
        put_row(l, rows, x, (int)l->examples.class_of[i], 1.0f);
    }
    return put_window(l, rows);
}
