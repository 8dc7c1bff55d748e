/* See naming.h. */
#include "label/bench/naming.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "label/matching.h"

qn_status qn_naming_init(qn_naming *w, const qn_allocator *allocator, int n_known, int n_stream) {
    *w = (qn_naming){.n_known = n_known, .n_stream = n_stream};
    QN_TRY(qn_allocate(allocator, (size_t)n_stream, sizeof *w->class_of, &w->class_of));
    QN_TRY(qn_allocate(allocator, (size_t)n_stream, sizeof *w->label, &w->label));
    return qn_allocate(allocator, QN_NAMING_MOST, QN_NAMING_MOST * sizeof *w->count, &w->count);
}

void qn_naming_deinit(qn_naming *w, const qn_allocator *allocator) {
    qn_release(allocator, w->class_of, (size_t)w->n_stream, sizeof *w->class_of);
    qn_release(allocator, w->label, (size_t)w->n_stream, sizeof *w->label);
    qn_release(allocator, w->count, QN_NAMING_MOST, QN_NAMING_MOST * sizeof *w->count);
}

static qn_status ask(qn_naming *w, const qn_labeller *labeller) {
    qn_label_question questions[QN_NAMING_ANSWERS];
    QN_TRY(qn_labeller_ask(labeller, QN_NAMING_ANSWERS, questions, &w->n_asked));
    for (int i = 0; i < w->n_asked; i++) {
        w->asked[i] = questions[i].label;
        w->asked_name[i] = w->class_of[w->n - 1 - (int)questions[i].age];
    }
    return QN_OK;
}

/* A sample of a known label teaches nothing new; one of a found class gives it a name. */
static qn_status draw(qn_naming *w, const qn_labeller *labeller) {
    const qn_rng rng = qn_rng_make((uint64_t)w->n, 0x6e616d65, 0);
    const uint64_t kept = (uint64_t)qn_labeller_kept(labeller);
    for (uint64_t i = 0; i < QN_NAMING_ANSWERS && i < kept; i++) {
        const int64_t age = (int64_t)qn_rng_permute(rng, i, kept);
        qn_label_answer answer;
        QN_TRY(qn_labeller_revise(labeller, age, NULL, &answer));
        if (answer.label < w->n_known)
            continue;
        w->drawn[w->n_drawn] = answer.label;
        w->drawn_name[w->n_drawn++] = w->class_of[w->n - 1 - (int)age];
    }
    return QN_OK;
}

qn_status qn_naming_add(qn_naming *w, const qn_labeller *labeller, int class,
                        const qn_label_answer *answer) {
    w->class_of[w->n] = class;
    w->label[w->n++] = answer->label;
    if (w->n != w->n_stream / 2)
        return QN_OK;
    QN_TRY(ask(w, labeller));
    return draw(w, labeller);
}

/* ---- judging ---- */

static double judge_names(const qn_naming *w, const int64_t *labels, const int32_t *names, int n) {
    int n_right = 0;
    for (int i = w->n_stream / 2; i < w->n; i++) {
        int64_t said = w->label[i] < w->n_known ? w->label[i] : -1;
        for (int k = 0; said < 0 && k < n; k++)
            said = labels[k] == w->label[i] ? names[k] : -1;
        n_right += said == w->class_of[i];
    }
    return w->n > w->n_stream / 2 ? 100.0 * n_right / (w->n - w->n_stream / 2) : 0.0;
}

/* The row of a found label, a new one if there is room; -1: there is none. */
static int row_of(int64_t *rows, int *n, int64_t label) {
    for (int i = 0; i < *n; i++)
        if (rows[i] == label)
            return i;
    if (*n == QN_NAMING_MOST)
        return -1;
    rows[*n] = label;
    return (*n)++;
}

static double judge_matched(const qn_naming *w) {
    static const int most = QN_NAMING_MOST;
    int64_t rows[QN_NAMING_MOST];
    int32_t of[QN_NAMING_MOST];
    int n_rows = 0, n_right = 0;
    for (int i = w->n_stream / 2; i < w->n; i++) {
        const int class = w->class_of[i];
        n_right += w->label[i] < w->n_known && w->label[i] == class;
        if (class < w->n_known || class >= most || w->label[i] < w->n_known)
            continue;
        const int row = row_of(rows, &n_rows, w->label[i]);
        if (row >= 0)
            w->count[row * most + class]++;
    }
    qn_match(n_rows, most, w->count, of);
    for (int i = 0; i < n_rows; i++)
        n_right += of[i] >= 0 ? w->count[i * most + of[i]] : 0;
    return w->n > w->n_stream / 2 ? 100.0 * n_right / (w->n - w->n_stream / 2) : 0.0;
}

qn_naming_score qn_naming_judge(const qn_naming *w) {
    return (qn_naming_score){.matched = judge_matched(w),
                             .asked = judge_names(w, w->asked, w->asked_name, w->n_asked),
                             .drawn = judge_names(w, w->drawn, w->drawn_name, w->n_drawn)};
}
