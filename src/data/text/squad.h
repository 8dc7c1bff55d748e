/* Questions on passages with their answers, in the format of the Stanford question answering
 * dataset, v1.1 and v2.0 (Rajpurkar et al. 2016 and 2018): reading, generated questions, questions
 * as rows of tokens for a network, and the score of an answer. */
#ifndef QN_DATA_TEXT_SQUAD_H
#define QN_DATA_TEXT_SQUAD_H

#include "base/memory.h"
#include "data/text/wordpiece.h"

/* An answer; bytes [begin, end) of the passage are its text. */
typedef struct qn_squad_answer {
    const char *text;
    int32_t begin, end;
} qn_squad_answer;

/* A question on a passage. One that the passage does not answer has no answers. */
typedef struct qn_squad_question {
    const char *text;
    int64_t passage;
    const qn_squad_answer *answers; /* (n_answers) */
    int n_answers;
} qn_squad_question;

/* All of a file, or what was added. */
typedef struct qn_squad {
    qn_arena texts;
    const char **passages; /* (n_passages) */
    size_t n_passages, passage_capacity;
    qn_squad_question *questions; /* (n_questions) */
    size_t n_questions, question_capacity;
    bool has_unanswerable; /* questions without an answer: v2.0 */
} qn_squad;

void qn_squad_init(qn_squad *squad, const qn_allocator *allocator);
void qn_squad_deinit(qn_squad *squad);

/* Adds the questions of a file's text. A failure names the line and column of what is no JSON, or
 * the path of a field that is missing or wrong, as data[3].paragraphs[1].qas[0].question, after
 * name; squad is then of no use but to deinit. Titles and ids are not looked at. */
qn_status qn_squad_parse(qn_squad *squad, const char *name, const char *text, size_t bytes);

/* The same from a file. */
qn_status qn_squad_read(qn_squad *squad, const char *path);

/* Adds a passage, or a question on one, copied. */
qn_status qn_squad_add_passage(qn_squad *squad, const char *text);
qn_status qn_squad_add_question(qn_squad *squad, const qn_squad_question *question);

/* ---- made up ---- */

/* The text of a vocabulary of so many words, at least 16: the marks, then t5, t6 and so on. Memory
 * of the arena; null: memory is out. */
char *qn_synthetic_vocabulary(qn_arena *arena, int32_t n_words);

/* Adds questions on passages of such words, drawn by seed: the answer stands between t5 and t6.
 * Question and passage have so many words. */
qn_status qn_squad_synthesise(qn_squad *squad, int64_t n_questions, int64_t question_words,
                              int64_t passage_words, int32_t n_words, uint64_t seed);

/* ---- rows of tokens ---- */

/* A row: "[CLS] question [SEP] part of the passage [SEP]". Where the passage is longer than fits,
 * several rows of the question look at it through a window that moves on by a stride. start and
 * end are the tokens of the row with the first and the last of the answer; where the window does
 * not hold all of it, both are 0, the place of [CLS].
 *     first, n: pieces of the passage; 0 <= start <= end < n_tokens */
typedef struct qn_squad_row {
    int32_t question, first, n, start, end;
} qn_squad_row;

typedef struct qn_squad_rows {
    const qn_squad *squad;
    qn_wordpiece_marks marks;
    int64_t length, question_limit;       /* tokens of a row; of a question, the rest is cut off */
    qn_pieces questions, passages;        /* all, one after the other */
    size_t *question_ends, *passage_ends; /* (n_questions), (n_passages): ends in these */
    qn_squad_row *list;                   /* (n) of capacity, in the questions' order */
    size_t n, capacity;
} qn_squad_rows;

enum { QN_SQUAD_LEAST_LENGTH = 16 };

/* Rows of length tokens, at least QN_SQUAD_LEAST_LENGTH; stride 0: a third of it. squad must
 * outlive them. */
qn_status qn_squad_rows_init(qn_squad_rows *rows, const qn_allocator *allocator,
                             const qn_squad *squad, const qn_wordpiece *wordpiece, int64_t length,
                             int64_t stride);
void qn_squad_rows_deinit(qn_squad_rows *rows);

/* Tokens and their types (0: question, 1: passage) of a row, both (length); the padding's type is
 * 0. Returns how many are no padding. */
int32_t qn_squad_rows_fill(const qn_squad_rows *rows, size_t row, int32_t *tokens, int32_t *types);

/* Where the passage's part begins in a row. */
int32_t qn_squad_rows_passage_at(const qn_squad_rows *rows, size_t row);

/* The bytes [*begin, *end) of the passage that tokens start to end of a row stand for. */
void qn_squad_rows_bytes(const qn_squad_rows *rows, size_t row, int32_t start, int32_t end,
                         int32_t *begin_byte, int32_t *end_byte);

/* ---- scores ---- */

/* Whether an answer is one of those that are right, and how much of one: the harmonic mean of the
 * parts of words that are in both; 0 to 1. */
typedef struct qn_squad_score {
    double exact, f1;
} qn_squad_score;

/* The best score over the answers of a question, "" being right where there is none. Compared are
 * words in lower case without ASCII's punctuation and the articles a, an and the. */
qn_status qn_squad_score_answer(const qn_allocator *allocator, const qn_squad_question *question,
                                const char *answer, size_t bytes, qn_squad_score *score);

#endif
