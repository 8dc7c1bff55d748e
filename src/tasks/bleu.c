/* See bleu.h. */
#include "tasks/bleu.h"

#include <math.h>
#include <string.h>

/* How often the first n tokens of gram are among the first n_places places of a sentence. */
static int count(const int32_t *gram, int n, const int32_t *tokens, int n_places) {
    int found = 0;
    for (int i = 0; i < n_places; i++)
        found += memcmp(tokens + i, gram, (size_t)n * sizeof *gram) == 0;
    return found;
}

void qn_bleu_add(qn_bleu *bleu, qn_sentence output, qn_sentence reference) {
    bleu->n_words += output.n;
    bleu->n_reference_words += reference.n;
    for (int n = 1; n <= QN_BLEU_ORDER; n++) {
        for (int i = 0; i + n <= output.n; i++) {
            const int32_t *gram = output.tokens + i;
            const int n_before = count(gram, n, output.tokens, i);
            bleu->n_grams[n - 1]++;
            bleu->n_matches[n - 1] +=
                n_before < count(gram, n, reference.tokens, reference.n - n + 1);
        }
    }
}

double qn_bleu_score(const qn_bleu *bleu) {
    double logarithms = 0, penalty = 0;
    for (int n = 0; n < QN_BLEU_ORDER; n++) {
        if (bleu->n_matches[n] == 0)
            return 0;
        logarithms += log((double)bleu->n_matches[n] / (double)bleu->n_grams[n]);
    }
    if (bleu->n_words < bleu->n_reference_words)
        penalty = 1 - (double)bleu->n_reference_words / (double)bleu->n_words;
    return exp(penalty + logarithms / QN_BLEU_ORDER);
}
