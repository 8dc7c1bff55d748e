/* See word_score.h. */
#include "tasks/language/word_score.h"

#include "tasks/tasks.h"

enum { MOST_LETTERS = 255 };

/* Letters that two words begin with alike. */
static int common_letters(const char *a, const char *b) {
    int n = 0, i = 0;
    for (; a[i] && a[i] == b[i]; i++)
        n += ((unsigned char)a[i] & 0xC0) != 0x80;
    /* the last one differs in a later byte */
    const bool is_cut =
        ((unsigned char)a[i] & 0xC0) == 0x80 || ((unsigned char)b[i] & 0xC0) == 0x80;
    return is_cut ? n - 1 : n;
}

/* Letters that must be typed until the word is among the suggestions; -1: it never is. Of equal
 * logits the more frequent word is suggested. */
static int letters_until_shown(const qn_words *words, const float *logits, int32_t label,
                               int letters, int *n_better) {
    int alike[MOST_LETTERS + 1] = {0}; /* better words by letters in common */
    *n_better = 0;
    for (int32_t i = QN_FIRST_WORD; i < words->n; i++) {
        if (logits[i] > logits[label] || (logits[i] == logits[label] && i < label)) {
            const int n = common_letters(words->words[i], words->words[label]);
            alike[n < MOST_LETTERS ? n : MOST_LETTERS]++;
            (*n_better)++;
        }
    }
    int left = *n_better;
    for (int typed = 0; typed < letters; left -= alike[typed++]) {
        if (left < QN_SUGGESTIONS)
            return typed;
    }
    return -1;
}

void qn_word_score_add(qn_word_score *s, const qn_words *words, const float *logits, int32_t label,
                       int letters) {
    int n_better = QN_SUGGESTIONS, typed = -1;
    if (label == QN_SENTENCE_END)
        return;
    if (label >= QN_FIRST_WORD)
        typed = letters_until_shown(words, logits, label, letters, &n_better);
    s->n++;
    s->n_first += n_better == 0;
    s->n_shown += n_better < QN_SUGGESTIONS;
    s->n_keys += letters + 1;
    s->n_typed += typed < 0 ? letters + 1 : typed + 1; /* one that picks it, with its blank */
}

void qn_word_score_end(const qn_word_score *s, qn_metrics *metrics) {
    const double n = s->n > 0 ? (double)s->n : 1, n_keys = s->n_keys > 0 ? (double)s->n_keys : 1;
    qn_metrics_add(metrics, "top1_accuracy", (double)s->n_first / n, true);
    qn_metrics_add(metrics, "top3_accuracy", (double)s->n_shown / n, true);
    qn_metrics_add(metrics, "keystrokes_saved", (double)(s->n_keys - s->n_typed) / n_keys, true);
}
