/* Which classes are worth naming first: a name is worth the samples that get it. */
#include "base/memory.h"
#include "base/options.h"
#include "base/status.h"
#include "label/labeller.h"

#include <string.h>

/* The found class of a label that has the name it was found with, or -1. */
static int unnamed_place(const qn_labeller *l, int64_t label) {
    for (int i = 0; label >= l->n_known && i < QN_LABEL_MAX_NEW; i++) {
        const qn_label_record *r = qn_labeller_found(l, i);
        if (r->serial == label - l->n_known)
            return strncmp(r->name, "new-", 4) == 0 ? i : -1;
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
