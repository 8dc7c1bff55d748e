/* BLEU of a set of translations with one reference each (Papineni et al. 2002, sections 2.1
 * to 2.3): the geometric mean of the precisions of one to four words, each word counted at most as
 * often as the reference has it, times the brevity penalty. Words are compared as they are, nothing
 * is smoothed: without one match of four words it is 0. */
#ifndef QN_TASKS_BLEU_H
#define QN_TASKS_BLEU_H

#include "data/text/pairs.h"

enum { QN_BLEU_ORDER = 4 };

typedef struct qn_bleu {
    int64_t n_matches[QN_BLEU_ORDER], n_grams[QN_BLEU_ORDER];
    int64_t n_words, n_reference_words;
} qn_bleu;

/* Counts a translation; either may be empty. */
void qn_bleu_add(qn_bleu *bleu, qn_sentence output, qn_sentence reference);

/* From 0 to 1. */
double qn_bleu_score(const qn_bleu *bleu);

#endif
