/* How well next words are predicted, as a keyboard shows them: three suggestions, which narrow with
 * each letter typed. Sentence ends are no words and are neither predicted nor counted; a word that
 * the vocabulary lacks is never suggested. */
#ifndef QN_TASKS_LANGUAGE_WORD_SCORE_H
#define QN_TASKS_LANGUAGE_WORD_SCORE_H

#include "data/text/words.h"
#include "quern/task.h"

/* Suggestions that are shown. */
enum { QN_SUGGESTIONS = 3 };

/*     n_first <= n_shown <= n; n_typed <= n_keys */
typedef struct qn_word_score {
    int64_t n, n_first, n_shown; /* words; suggested first, or among the three, before a letter */
    int64_t n_keys, n_typed;     /* keys with a blank for each word; with suggestions */
} qn_word_score;

/* logits (words->n) and the word that came, of so many letters. */
void qn_word_score_add(qn_word_score *score, const qn_words *words, const float *logits,
                       int32_t label, int letters);

/* top1_accuracy, top3_accuracy and keystrokes_saved. */
void qn_word_score_end(const qn_word_score *score, qn_metrics *metrics);

#endif
