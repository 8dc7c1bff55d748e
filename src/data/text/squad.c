/* See squad.h: reading. JSON is parsed by cJSON; what it says is checked here. */
#include "data/text/squad.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <stdio.h>
#include <string.h>

void qn_squad_init(qn_squad *squad, const qn_allocator *allocator) {
    *squad = (qn_squad){.n_questions = 0};
    qn_arena_init(&squad->texts, qn_allocator_or_default(allocator));
}

void qn_squad_deinit(qn_squad *squad) {
    const qn_allocator *allocator = squad->texts.allocator;
    qn_release(allocator, squad->questions, squad->question_capacity, sizeof *squad->questions);
    qn_release(allocator, squad->passages, squad->passage_capacity, sizeof *squad->passages);
    qn_arena_deinit(&squad->texts);
}

/* ---- adding ---- */

qn_status qn_squad_add_passage(qn_squad *squad, const char *text) {
    QN_TRY(qn_grow(squad->texts.allocator, &squad->passages, &squad->passage_capacity,
                   squad->n_passages + 1, sizeof *squad->passages));
    const char *copy = qn_arena_text(&squad->texts, text);
    if (!copy)
        return QN_ERROR_MEMORY;
    squad->passages[squad->n_passages++] = copy;
    return QN_OK;
}

qn_status qn_squad_add_question(qn_squad *squad, const qn_squad_question *question) {
    const size_t n = (size_t)question->n_answers;
    QN_TRY(qn_grow(squad->texts.allocator, &squad->questions, &squad->question_capacity,
                   squad->n_questions + 1, sizeof *squad->questions));
    qn_squad_question copy = *question;
    qn_squad_answer *answers = qn_arena_allocate(&squad->texts, n + 1, sizeof *answers);
    copy.text = qn_arena_text(&squad->texts, question->text);
    copy.answers = answers;
    if (!copy.text || !answers)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        answers[i] = question->answers[i];
        answers[i].text = qn_arena_text(&squad->texts, question->answers[i].text);
        if (!answers[i].text)
            return QN_ERROR_MEMORY;
    }
    squad->has_unanswerable |= n == 0;
    squad->questions[squad->n_questions++] = copy;
    return QN_OK;
}

/* ---- reading ---- */

enum { MOST_ANSWERS = 64 };

static const char *const lists[] = {"data", "paragraphs", "qas", "answers"};

enum { N_LISTS = sizeof lists / sizeof lists[0] };

/* Where in the file: element at[i] of list i, for depth lists. */
typedef struct place {
    const char *file;
    int64_t at[N_LISTS];
    int depth;
} place;

/* A failure at a field of the element. */
static qn_status refuse(const place *where, const char *field, const char *what) {
    char path[160];
    int used = 0;
    path[0] = 0;
    for (int i = 0; i < where->depth; i++)
        used += snprintf(path + used, sizeof path - (size_t)used, "%s[%lld].", lists[i],
                         (long long)where->at[i]);
    return qn_fail(QN_ERROR_FORMAT, "%s: %s%s: %s", where->file, path, field, what);
}

/* The text of a field. */
static qn_status get_text(const place *where, const cJSON *item, const char *field,
                          const char **text) {
    const cJSON *found = cJSON_GetObjectItemCaseSensitive(item, field);
    *text = cJSON_GetStringValue(found);
    if (!*text)
        return refuse(where, field, found ? "it is not text" : "it is missing");
    return QN_OK;
}

/* Calls read for each element of the next list of an object. */
static qn_status read_list(place *where, const cJSON *item, void *context,
                           qn_status (*read)(void *context, place *where, const cJSON *element)) {
    const char *field = lists[where->depth];
    const cJSON *element, *list = cJSON_GetObjectItemCaseSensitive(item, field);
    int64_t *at = &where->at[where->depth];
    if (!cJSON_IsArray(list))
        return refuse(where, field, list ? "it is not a list" : "it is missing");
    *at = 0;
    where->depth++;
    cJSON_ArrayForEach(element, list) {
        QN_TRY(read(context, where, element));
        ++*at;
    }
    where->depth--;
    return QN_OK;
}

/* A question that is read. */
typedef struct reading {
    qn_squad *squad;
    const char *passage;
    qn_squad_answer answers[MOST_ANSWERS];
    int n_answers;
} reading;

/* The byte at which character `index` begins; false: the text is shorter. */
static bool find_character(const char *text, double index, size_t *byte) {
    size_t i = 0;
    while (index > 0 && text[i]) {
        i++;
        while (((unsigned char)text[i] & 0xc0) == 0x80)
            i++;
        index--;
    }
    *byte = i;
    return index == 0;
}

static qn_status read_answer(void *context, place *where, const cJSON *item) {
    reading *r = context;
    const cJSON *start = cJSON_GetObjectItemCaseSensitive(item, "answer_start");
    const char *text;
    size_t begin;
    QN_TRY(get_text(where, item, "text", &text));
    if (!cJSON_IsNumber(start))
        return refuse(where, "answer_start", start ? "it is not a number" : "it is missing");
    if (!*text)
        return refuse(where, "text", "an answer is not empty");
    if (!(start->valuedouble >= 0) || !find_character(r->passage, start->valuedouble, &begin))
        return refuse(where, "answer_start", "it is no place in the context");
    const size_t bytes = strlen(text);
    if (strncmp(r->passage + begin, text, bytes) != 0)
        return refuse(where, "answer_start", "the context does not go on with the text there");
    if (begin + bytes > INT32_MAX)
        return refuse(where, "answer_start", "contexts of more than 2 GiB are not read");
    if (r->n_answers < MOST_ANSWERS)
        r->answers[r->n_answers++] =
            (qn_squad_answer){text, (int32_t)begin, (int32_t)(begin + bytes)};
    return QN_OK;
}

static qn_status read_question(void *context, place *where, const cJSON *item) {
    reading *r = context;
    const cJSON *impossible = cJSON_GetObjectItemCaseSensitive(item, "is_impossible");
    qn_squad_question question = {.passage = (int64_t)r->squad->n_passages - 1,
                                  .answers = r->answers};
    QN_TRY(get_text(where, item, "question", &question.text));
    if (impossible && !cJSON_IsBool(impossible))
        return refuse(where, "is_impossible", "it is neither true nor false");
    r->n_answers = 0;
    if (!cJSON_IsTrue(impossible))
        QN_TRY(read_list(where, item, r, read_answer));
    if (r->n_answers == 0 && !cJSON_IsTrue(impossible))
        return refuse(where, "answers", "there are none, and is_impossible is not true");
    question.n_answers = r->n_answers;
    return qn_squad_add_question(r->squad, &question);
}

static qn_status read_paragraph(void *context, place *where, const cJSON *item) {
    reading *r = context;
    QN_TRY(get_text(where, item, "context", &r->passage));
    QN_TRY(qn_squad_add_passage(r->squad, r->passage));
    return read_list(where, item, r, read_question);
}

static qn_status read_article(void *context, place *where, const cJSON *item) {
    return read_list(where, item, context, read_paragraph);
}

/* Lines and columns count from 1, columns in characters. */
static qn_status refuse_json(const char *name, const char *text, const char *at) {
    long long line = 1, column = 1;
    for (; text < at; text++) {
        column = *text == '\n' ? 1 : column + (((unsigned char)*text & 0xc0) != 0x80);
        line += *text == '\n';
    }
    return qn_fail(QN_ERROR_FORMAT, "%s: line %lld, column %lld: this is not JSON", name, line,
                   column);
}

qn_status qn_squad_parse(qn_squad *squad, const char *name, const char *text, size_t bytes) {
    reading r = {.squad = squad};
    place where = {.file = name};
    const char *end = text;
    if (bytes == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: the file is empty; SQuAD's JSON was expected", name);
    cJSON *json = cJSON_ParseWithLengthOpts(text, bytes, &end, false);
    const char *rest = end;
    while (json && rest < text + bytes && memchr(" \t\r\n", *rest, 4))
        rest++;
    if (!json || rest < text + bytes) {
        cJSON_Delete(json);
        return refuse_json(name, text, rest);
    }
    qn_status status = read_list(&where, json, &r, read_article);
    cJSON_Delete(json);
    if (status == QN_OK && squad->n_questions == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: there is no question in it", name);
    return status;
}

qn_status qn_squad_read(qn_squad *squad, const char *path) {
    const qn_allocator *allocator = squad->texts.allocator;
    char *text;
    size_t bytes;
    QN_TRY(qn_file_read_whole(allocator, path, &text, &bytes));
    qn_status status = qn_squad_parse(squad, path, text, bytes);
    qn_release(allocator, text, bytes + 1, 1);
    return status;
}
