/* Which samples are worth asking for, and answers: of rows, a name is worth the members of the
 * found class that gets it; of samples that a network labels, see network/asking.h. */
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "label/labeller.h"
#include "label/network/asking.h"

#include <string.h>

/* The found class of a label that has the name it was found with, or -1. */
static int unnamed_place(const qn_labeller *l, int64_t label) {
    for (int i = 0; label >= l->n_known && i < QN_LABEL_MAX_NEW; i++) {
        const qn_label_record *r = qn_labeller_found(l, i);
        if (r->serial == label - l->n_known)
            return qn_labeller_is_unnamed(l, l->n_known + i) ? i : -1;
    }
    return -1;
}

/* Puts the questions with most members first; of equals, those that were found earlier. */
static void put_in_order(qn_label_question *q, int n) {
    for (int i = 1; i < n; i++) {
        const qn_label_question moved = q[i];
        int at = i;
        for (;
             at > 0 && (q[at - 1].n_members < moved.n_members ||
                        (q[at - 1].n_members == moved.n_members && q[at - 1].label > moved.label));
             at--)
            q[at] = q[at - 1];
        q[at] = moved;
    }
}

qn_status qn_labeller_ask(const qn_labeller *labeller, int most, qn_label_question *questions,
                          int *n) {
    QN_NEED(labeller, "labeller");
    QN_NEED(questions, "questions");
    QN_NEED(n, "n");
    const qn_labeller *l = labeller;
    if (l->net)
        return qn_net_ask(l, most < QN_LABEL_MAX_NEW ? most : QN_LABEL_MAX_NEW, questions, n);
    qn_label_question all[QN_LABEL_MAX_NEW] = {{0}};
    float surest[QN_LABEL_MAX_NEW] = {0};
    for (int64_t age = 0; age < qn_labeller_kept(l); age++) {
        qn_label_answer answer;
        QN_TRY(qn_labeller_revise(l, age, NULL, &answer));
        const int i = unnamed_place(l, answer.label);
        if (i < 0)
            continue;
        if (all[i].n_members++ == 0 || answer.confidence > surest[i]) {
            surest[i] = answer.confidence;
            all[i].label = answer.label;
            all[i].age = age;
        }
    }
    put_in_order(all, QN_LABEL_MAX_NEW);
    for (*n = 0; *n < QN_LABEL_MAX_NEW && *n < most && all[*n].n_members > 0; ++*n)
        questions[*n] = all[*n];
    return QN_OK;
}

/* ---- answers ---- */

/* Of rows: each sample is of a found class that has no name yet. */
static qn_status check_row(const qn_labeller *l, int64_t age) {
    qn_label_answer now;
    QN_TRY(qn_labeller_revise(l, age, NULL, &now));
    if (unnamed_place(l, now.label) < 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "sample %lld before the last one is of no found class without a name: of "
                       "rows, only these are named",
                       (long long)age);
    return QN_OK;
}

static qn_status tell_rows(qn_labeller *l, int n, const int64_t *ages, const char *const *names) {
    for (int i = 0; i < n; i++)
        QN_TRY(check_row(l, ages[i]));
    for (int i = 0; i < n; i++) {
        qn_label_answer now;
        QN_TRY(qn_labeller_revise(l, ages[i], NULL, &now));
        const int place = unnamed_place(l, now.label); /* below 0: named by an answer before */
        if (place >= 0)
            QN_TRY(qn_labeller_rename(l, qn_labeller_found(l, place)->name, names[i]));
    }
    return QN_OK;
}

qn_status qn_labeller_review(qn_labeller *labeller, int64_t *n_changed) {
    QN_NEED(labeller, "labeller");
    QN_NEED(n_changed, "n_changed");
    *n_changed = 0;
    return labeller->net ? qn_lesson_review(labeller, n_changed) : QN_OK;
}

qn_status qn_labeller_tell(qn_labeller *labeller, int n, const int64_t *ages,
                           const char *const *names) {
    QN_NEED(labeller, "labeller");
    QN_NEED(ages, "ages");
    QN_NEED(names, "names");
    for (int i = 0; i < n; i++) {
        qn_label_answer now;
        QN_NEED(names[i], "names");
        QN_TRY(qn_labeller_check_name(labeller, names[i]));
        QN_TRY(qn_labeller_revise(labeller, ages[i], NULL, &now));
    }
    return labeller->net ? qn_net_tell(labeller, n, ages, names)
                         : tell_rows(labeller, n, ages, names);
}
