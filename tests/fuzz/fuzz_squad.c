/* SQuAD's JSON: answers that are accepted stand in their passage, and rows made of them hold
 * together. */
#include "data/text/squad.h"

#include <stdlib.h>
#include <string.h>

enum { LENGTH = 16 };

static void check_row(const qn_squad *s, const qn_squad_rows *rows, size_t i) {
    int32_t tokens[LENGTH], types[LENGTH], begin, end;
    const qn_squad_row *r = &rows->list[i];
    const int32_t n = qn_squad_rows_fill(rows, i, tokens, types);
    if (n > LENGTH || r->start > r->end || r->end > n - 1 || (r->start == 0) != (r->end == 0))
        abort();
    if (r->start == 0)
        return;
    const qn_squad_question *q = &s->questions[r->question];
    qn_squad_rows_bytes(rows, i, r->start, r->end, &begin, &end);
    if (begin >= q->answers[0].end || end <= q->answers[0].begin)
        abort();
}

static void check_questions(const qn_squad *s) {
    for (size_t i = 0; i < s->n_questions; i++) {
        const qn_squad_question *q = &s->questions[i];
        qn_squad_score score = {1, 1};
        for (int k = 0; k < q->n_answers; k++) {
            const qn_squad_answer *a = &q->answers[k];
            const char *passage = s->passages[q->passage];
            if (strncmp(passage + a->begin, a->text, (size_t)(a->end - a->begin)) != 0 ||
                qn_squad_score_answer(NULL, q, a->text, strlen(a->text), &score) != QN_OK ||
                score.exact != 1 || score.f1 != 1)
                abort();
        }
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const char words[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n##a\nb\n##b\n.\n";
    qn_wordpiece *w;
    qn_squad s;
    qn_squad_rows rows;
    if (qn_wordpiece_create(NULL, "words", words, sizeof words - 1, &w) != QN_OK)
        abort();
    qn_squad_init(&s, NULL);
    if (qn_squad_parse(&s, "fuzz", (const char *)data, size) == QN_OK) {
        check_questions(&s);
        if (qn_squad_rows_init(&rows, NULL, &s, w, LENGTH, 2) != QN_OK)
            abort();
        for (size_t i = 0; i < rows.n; i++)
            check_row(&s, &rows, i);
        qn_squad_rows_deinit(&rows);
    }
    qn_squad_deinit(&s);
    qn_wordpiece_destroy(w);
    return 0;
}
