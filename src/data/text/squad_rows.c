/* See squad.h: questions as rows of tokens. All texts are tokenised once; a row is built when it is
 * needed, so memory does not grow with the row length. */
#include "base/status.h"
#include "data/text/squad.h"

#include <string.h>

enum { QUESTION_MARKS = 2, ROW_MARKS = 3, MOST_QUESTION = 64 };

/* Pieces [*begin, end) of text i. */
static size_t text_pieces(const size_t *ends, size_t i, size_t *begin) {
    *begin = i > 0 ? ends[i - 1] : 0;
    return ends[i];
}

/* Tokens of a row's question, after the cut. */
static int32_t question_tokens(const qn_squad_rows *rows, size_t question) {
    size_t begin;
    const size_t n = text_pieces(rows->question_ends, question, &begin) - begin;
    return (int32_t)(n < (size_t)rows->question_limit ? n : (size_t)rows->question_limit);
}

int32_t qn_squad_rows_passage_at(const qn_squad_rows *rows, size_t row) {
    return question_tokens(rows, (size_t)rows->list[row].question) + QUESTION_MARKS;
}

/* ---- making ---- */

static qn_status split_texts(qn_squad_rows *rows, const qn_wordpiece *wordpiece) {
    const qn_squad *s = rows->squad;
    const qn_allocator *allocator = rows->questions.allocator;
    QN_TRY(qn_allocate(allocator, s->n_questions, sizeof(size_t), &rows->question_ends));
    QN_TRY(qn_allocate(allocator, s->n_passages, sizeof(size_t), &rows->passage_ends));
    for (size_t i = 0; i < s->n_questions; i++) {
        const char *text = s->questions[i].text;
        QN_TRY(qn_wordpiece_split(wordpiece, text, strlen(text), &rows->questions));
        rows->question_ends[i] = rows->questions.n;
    }
    for (size_t i = 0; i < s->n_passages; i++) {
        const char *text = s->passages[i];
        QN_TRY(qn_wordpiece_split(wordpiece, text, strlen(text), &rows->passages));
        rows->passage_ends[i] = rows->passages.n;
    }
    return QN_OK;
}

/* The first and last of n pieces that the answer touches; false: none. */
static bool find_answer(const qn_piece *pieces, size_t n, const qn_squad_answer *answer,
                        int32_t *first, int32_t *last) {
    *first = *last = -1;
    for (size_t i = 0; i < n; i++) {
        if (pieces[i].end <= answer->begin || pieces[i].begin >= answer->end)
            continue;
        *first = *first < 0 ? (int32_t)i : *first;
        *last = (int32_t)i;
    }
    return *first >= 0;
}

static qn_status add_row(qn_squad_rows *rows, qn_squad_row row) {
    QN_TRY(qn_grow(rows->questions.allocator, &rows->list, &rows->capacity, rows->n + 1,
                   sizeof *rows->list));
    rows->list[rows->n++] = row;
    return QN_OK;
}

/* The windows of a question: the last one ends where the passage does. */
static qn_status add_rows(qn_squad_rows *rows, size_t index, int64_t stride) {
    const qn_squad_question *q = &rows->squad->questions[index];
    const int32_t at = question_tokens(rows, index) + QUESTION_MARKS;
    const int64_t room = rows->length - at - 1;
    const int64_t step = stride < room ? stride : room;
    size_t begin;
    const size_t end = text_pieces(rows->passage_ends, (size_t)q->passage, &begin);
    const int64_t n_pieces = (int64_t)(end - begin);
    const qn_piece *pieces = n_pieces > 0 ? rows->passages.list + begin : NULL;
    int32_t first = 0, last = 0;
    const bool is_answered =
        q->n_answers > 0 && find_answer(pieces, end - begin, q->answers, &first, &last);
    for (int64_t window = 0;; window += step) {
        const int64_t n = n_pieces - window < room ? n_pieces - window : room;
        qn_squad_row row = {.question = (int32_t)index, .first = (int32_t)window, .n = (int32_t)n};
        if (is_answered && first >= window && last < window + n) {
            row.start = (int32_t)(first - window) + at;
            row.end = (int32_t)(last - window) + at;
        }
        QN_TRY(add_row(rows, row));
        if (window + n >= n_pieces)
            return QN_OK;
    }
}

static qn_status fill(qn_squad_rows *rows, const qn_wordpiece *wordpiece, int64_t stride) {
    QN_TRY(split_texts(rows, wordpiece));
    if (rows->passages.n > INT32_MAX || rows->squad->n_questions > INT32_MAX)
        return qn_fail(QN_ERROR_UNSUPPORTED, "passages of more than 2^31 tokens");
    for (size_t i = 0; i < rows->squad->n_questions; i++)
        QN_TRY(add_rows(rows, i, stride));
    return QN_OK;
}

qn_status qn_squad_rows_init(qn_squad_rows *rows, const qn_allocator *allocator,
                             const qn_squad *squad, const qn_wordpiece *wordpiece, int64_t length,
                             int64_t stride) {
    if (length < QN_SQUAD_LEAST_LENGTH || length > INT32_MAX || stride < 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "questions and passages need a length of at least %d tokens, not %lld",
                       QN_SQUAD_LEAST_LENGTH, (long long)length);
    /* At least half of a row is the passage's. */
    const int64_t half = length / 2 - ROW_MARKS;
    *rows = (qn_squad_rows){.squad = squad,
                            .marks = qn_wordpiece_get_marks(wordpiece),
                            .length = length,
                            .question_limit = half < MOST_QUESTION ? half : MOST_QUESTION};
    qn_pieces_init(&rows->questions, allocator);
    qn_pieces_init(&rows->passages, allocator);
    qn_status status = fill(rows, wordpiece, stride > 0 ? stride : length / 3);
    if (status != QN_OK)
        qn_squad_rows_deinit(rows);
    return status;
}

void qn_squad_rows_deinit(qn_squad_rows *rows) {
    const qn_allocator *allocator = rows->questions.allocator;
    if (!allocator)
        return;
    qn_release(allocator, rows->list, rows->capacity, sizeof *rows->list);
    qn_release(allocator, rows->question_ends, rows->squad->n_questions, sizeof(size_t));
    qn_release(allocator, rows->passage_ends, rows->squad->n_passages, sizeof(size_t));
    qn_pieces_deinit(&rows->questions);
    qn_pieces_deinit(&rows->passages);
    *rows = (qn_squad_rows){.squad = NULL};
}

/* ---- looking at them ---- */

int32_t qn_squad_rows_fill(const qn_squad_rows *rows, size_t row, int32_t *tokens, int32_t *types) {
    const qn_squad_row *r = &rows->list[row];
    const int32_t n_question = question_tokens(rows, (size_t)r->question);
    size_t question, passage;
    int32_t n = 0;
    text_pieces(rows->question_ends, (size_t)r->question, &question);
    text_pieces(rows->passage_ends, (size_t)rows->squad->questions[r->question].passage, &passage);
    tokens[n++] = rows->marks.first;
    for (int32_t i = 0; i < n_question; i++)
        tokens[n++] = rows->questions.list[question + (size_t)i].token;
    tokens[n++] = rows->marks.separator;
    for (int32_t i = 0; i < r->n; i++)
        tokens[n++] = rows->passages.list[passage + (size_t)r->first + (size_t)i].token;
    tokens[n++] = rows->marks.separator;
    for (int32_t i = 0; i < rows->length; i++)
        types[i] = i >= n_question + QUESTION_MARKS && i < n;
    for (int64_t i = n; i < rows->length; i++)
        tokens[i] = rows->marks.padding;
    return n;
}

void qn_squad_rows_bytes(const qn_squad_rows *rows, size_t row, int32_t start, int32_t end,
                         int32_t *begin_byte, int32_t *end_byte) {
    const qn_squad_row *r = &rows->list[row];
    const int32_t at = qn_squad_rows_passage_at(rows, row);
    size_t passage;
    text_pieces(rows->passage_ends, (size_t)rows->squad->questions[r->question].passage, &passage);
    const qn_piece *pieces = rows->passages.list + passage + r->first;
    *begin_byte = pieces[start - at].begin;
    *end_byte = pieces[end - at].end;
}
