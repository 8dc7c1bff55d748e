/* See squad.h: generated questions. Every word depends on its number alone, so a set is the same on
 * every machine. */
#include "base/rng.h"
#include "base/status.h"
#include "data/text/squad.h"

#include <stdio.h>
#include <string.h>

enum { FIRST_WORD = 5, OPENING = 5, CLOSING = 6, FIRST_PLAIN = 7, WORD_BYTES = 13 };

static const char marks[] = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";

char *qn_synthetic_vocabulary(qn_arena *arena, int32_t n_words) {
    const size_t bytes = sizeof marks + (size_t)n_words * WORD_BYTES;
    char *text = qn_arena_allocate(arena, bytes, 1);
    size_t used = sizeof marks - 1;
    if (!text)
        return NULL;
    memcpy(text, marks, sizeof marks);
    for (int32_t i = FIRST_WORD; i < n_words; i++)
        used += (size_t)snprintf(text + used, bytes - used, "t%d\n", i);
    return text;
}

/* A text of words with a blank after each. */
typedef struct writing {
    char *text;
    size_t used, capacity;
    int32_t n_words;
    qn_rng rng;
    uint64_t n_drawn;
} writing;

static uint64_t draw(writing *w, uint64_t bound) {
    return qn_rng_below(w->rng, w->n_drawn++, bound);
}

static void put_word(writing *w, int32_t word) {
    w->used += (size_t)snprintf(w->text + w->used, w->capacity - w->used, "t%d ", word);
}

static void put_words(writing *w, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        put_word(w, FIRST_PLAIN + (int32_t)draw(w, (uint64_t)(w->n_words - FIRST_PLAIN)));
}

/* A passage with an answer of one to four words, which is cut out of it into its own memory. */
static void write_passage(writing *w, int64_t n_words, char *answer_text, qn_squad_answer *answer) {
    const int64_t most = n_words - 2 < 4 ? n_words - 2 : 4;
    const int64_t n_answer = 1 + (int64_t)draw(w, (uint64_t)most);
    const int64_t n_before = (int64_t)draw(w, (uint64_t)(n_words - n_answer - 1));
    w->used = 0;
    put_words(w, n_before);
    put_word(w, OPENING);
    answer->begin = (int32_t)w->used;
    put_words(w, n_answer);
    answer->end = (int32_t)w->used - 1;
    put_word(w, CLOSING);
    put_words(w, n_words - n_answer - n_before - 2);
    const size_t bytes = (size_t)(answer->end - answer->begin);
    memcpy(answer_text, w->text + answer->begin, bytes);
    answer_text[bytes] = 0;
    answer->text = answer_text;
}

static qn_status add(qn_squad *squad, writing *w, int64_t question_words, int64_t passage_words) {
    char answer_text[5 * WORD_BYTES];
    qn_squad_answer answer;
    write_passage(w, passage_words, answer_text, &answer);
    QN_TRY(qn_squad_add_passage(squad, w->text));
    w->used = 0;
    put_words(w, question_words);
    return qn_squad_add_question(squad,
                                 &(qn_squad_question){.text = w->text,
                                                      .passage = (int64_t)squad->n_passages - 1,
                                                      .answers = &answer,
                                                      .n_answers = 1});
}

qn_status qn_squad_synthesise(qn_squad *squad, int64_t n_questions, int64_t question_words,
                              int64_t passage_words, int32_t n_words, uint64_t seed) {
    const qn_allocator *allocator = squad->texts.allocator;
    const int64_t longest = question_words > passage_words ? question_words : passage_words;
    writing w = {.capacity = (size_t)longest * WORD_BYTES + 1, .n_words = n_words};
    qn_status status = qn_allocate(allocator, w.capacity, 1, &w.text);
    for (int64_t i = 0; i < n_questions && status == QN_OK; i++) {
        w.rng = qn_rng_make(seed, qn_hash_text("questions"), (uint64_t)i);
        w.n_drawn = 0;
        status = add(squad, &w, question_words, passage_words);
    }
    qn_release(allocator, w.text, w.capacity, 1);
    return status;
}
