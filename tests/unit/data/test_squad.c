/* Questions on passages: reading SQuAD's format, good and bad, rows of tokens with their windows,
 * and the scores of answers. */
#include "base/status.h"
#include "data/text/squad.h"
#include "data_files.h"

#define WORDS                                                                                      \
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nwhere\nis\nthe\nred\nblue\nbox\nball\non\nunder\ntable\n" \
    "shelf\n.\n?\ncaf\n##es\ndoor\n"

static const char good[] =
    "{\"version\": \"v2.0\", \"data\": [{\"title\": \"Things\", \"paragraphs\": [\n"
    "  {\"context\": \"The red ball is on the table. The caf\xc3\xa9s door is blue.\", \"qas\": [\n"
    "    {\"id\": \"1\", \"question\": \"Where is the red ball?\", \"is_impossible\": false,\n"
    "     \"answers\": [{\"text\": \"on the table\", \"answer_start\": 16},\n"
    "                 {\"text\": \"the table\", \"answer_start\": 19}]},\n"
    "    {\"id\": \"2\", \"question\": \"Where is the box?\", \"is_impossible\": true, "
    "\"answers\": []},\n"
    "    {\"id\": \"3\", \"question\": \"What is blue?\",\n"
    "     \"answers\": [{\"text\": \"The caf\xc3\xa9s door\", \"answer_start\": 30}]},\n"
    "    {\"id\": \"4\", \"question\": \"Which?\",\n"
    "     \"answers\": [{\"text\": \"blue\", \"answer_start\": 48}]}]}]}]}\n";

static void read_good(qn_squad *s) {
    qn_squad_init(s, NULL);
    CHECK_OK(qn_squad_parse(s, "things.json", good, strlen(good)));
}

/* ---- reading ---- */

static void test_reading(void) {
    qn_squad s;
    read_good(&s);
    CHECK(s.n_passages == 1 && s.n_questions == 4 && s.has_unanswerable);
    const qn_squad_question *q = s.questions;
    CHECK(strcmp(q[0].text, "Where is the red ball?") == 0 && q[0].n_answers == 2);
    CHECK(strcmp(q[0].answers[1].text, "the table") == 0 && q[0].answers[1].begin == 19 &&
          q[0].answers[1].end == 28);
    CHECK(q[1].n_answers == 0 && q[2].answers[0].begin == 30);
    /* Places count characters; bytes follow the accent. */
    CHECK(q[3].answers[0].begin == 49 && strncmp(s.passages[0] + 49, "blue", 4) == 0);
    /* A second file adds to the first. */
    CHECK_OK(qn_squad_parse(&s, "things.json", good, strlen(good)));
    CHECK(s.n_questions == 8 && s.questions[7].passage == 1);
    qn_squad_deinit(&s);
}

static void check_fails(const char *text, const char *message) {
    qn_squad s;
    qn_squad_init(&s, NULL);
    CHECK_FAILS(qn_squad_parse(&s, "bad.json", text, strlen(text)), QN_ERROR_FORMAT, message);
    qn_squad_deinit(&s);
}

#define PASSAGE(questions)                                                                         \
    "{\"data\": [{\"paragraphs\": [{\"context\": \"a b\", \"qas\": [" questions
#define QUESTION(answers) PASSAGE("{\"question\": \"?\", \"answers\": [" answers)
#define ENDED             "]}]}]}"
#define GOOD_ONE          "{\"text\": \"b\", \"answer_start\": 2}"

static void test_broken_json(void) {
    check_fails("", "bad.json: the file is empty");
    check_fails("{\"data\": [\n  {\"paragraphs\": [}]}]}",
                "bad.json: line 2, column 19: this is not");
    check_fails("\xc3\xa9", "line 1, column 1");
    check_fails(PASSAGE("") ENDED " x", "line 1, column 61");
    check_fails(QUESTION(GOOD_ONE), "bad.json: line 1, column");
    check_fails("[]", "bad.json: data: it is missing");
    check_fails("3", "data: it is missing");
    check_fails("{\"data\": {}}", "data: it is not a list");
    check_fails("{\"data\": []}", "there is no question in it");
    check_fails("{\"data\": [3]}", "data[0].paragraphs: it is missing");
    check_fails(PASSAGE("") ENDED, "there is no question in it");
    check_fails("{\"data\": [{\"paragraphs\": [{\"qas\": []}]}]}",
                "data[0].paragraphs[0].context: it is missing");
    check_fails("{\"data\": [{\"paragraphs\": []}, {\"paragraphs\": [{\"context\": 3}]}]}",
                "data[1].paragraphs[0].context: it is not text");
}

static void test_bad_questions(void) {
    check_fails(PASSAGE("{}") ENDED, "data[0].paragraphs[0].qas[0].question: it is missing");
    check_fails(PASSAGE("{\"question\": \"?\"}") ENDED, "qas[0].answers: it is missing");
    check_fails(QUESTION("]}") ENDED, "qas[0].answers: there are none");
    check_fails(QUESTION("], \"is_impossible\": 1}") ENDED, "qas[0].is_impossible: it is neither");
    check_fails(QUESTION(GOOD_ONE ", {\"text\": \"b\"}]}") ENDED,
                "bad.json: data[0].paragraphs[0].qas[0].answers[1].answer_start: it is missing");
    check_fails(QUESTION("{\"answer_start\": 0}]}") ENDED, "answers[0].text: it is missing");
    check_fails(QUESTION("{\"text\": \"\", \"answer_start\": 0}]}") ENDED, "is not empty");
    check_fails(QUESTION("{\"text\": \"b\", \"answer_start\": \"2\"}]}") ENDED,
                "it is not a number");
    check_fails(QUESTION("{\"text\": \"b\", \"answer_start\": 1}]}") ENDED, "does not go on with");
    check_fails(QUESTION("{\"text\": \"b\", \"answer_start\": 4}]}") ENDED,
                "no place in the context");
    check_fails(QUESTION("{\"text\": \"b\", \"answer_start\": -1}]}") ENDED, "no place in");
    check_fails(QUESTION("{\"text\": \"b\", \"answer_start\": 1.5}]}") ENDED, "no place in");
    check_fails(QUESTION("{\"text\": \"b\", \"answer_start\": 1e999}]}") ENDED, "no place in");
    check_fails(QUESTION("{\"text\": \"bc\", \"answer_start\": 2}]}") ENDED, "does not go on with");
}

/* ---- rows ---- */

static qn_wordpiece *make_words(void) {
    qn_wordpiece *w = NULL;
    CHECK_OK(qn_wordpiece_create(NULL, "words", WORDS, strlen(WORDS), &w));
    return w;
}

static void test_row(void) {
    static const int32_t wanted[] = {2, 5,  6,  7,  8, 11, 17, 3, 7, 8, 11, 6, 12, 7, 14, 16,
                                     7, 18, 19, 20, 6, 9,  16, 3, 0, 0, 0,  0, 0,  0, 0,  0};
    qn_wordpiece *w = make_words();
    qn_squad s;
    qn_squad_rows rows;
    int32_t tokens[32], types[32], begin, end;
    read_good(&s);
    CHECK_OK(qn_squad_rows_init(&rows, NULL, &s, w, 32, 0));
    CHECK(rows.n == 4);
    CHECK(qn_squad_rows_fill(&rows, 0, tokens, types) == 24);
    CHECK(memcmp(tokens, wanted, sizeof wanted) == 0);
    for (int i = 0; i < 32; i++)
        CHECK(types[i] == (i >= 8 && i < 24));
    CHECK(rows.list[0].start == 12 && rows.list[0].end == 14);
    qn_squad_rows_bytes(&rows, 0, 12, 14, &begin, &end);
    CHECK(begin == 16 && end == 28);
    CHECK(rows.list[1].start == 0 && rows.list[1].end == 0);
    CHECK(qn_squad_rows_passage_at(&rows, 2) == 6); /* "What" is unknown, and one token */
    qn_squad_rows_bytes(&rows, 2, rows.list[2].start, rows.list[2].end, &begin, &end);
    CHECK(begin == 30 && end == 45);
    qn_squad_rows_deinit(&rows);
    CHECK_FAILS(qn_squad_rows_init(&rows, NULL, &s, w, 15, 0), QN_ERROR_ARGUMENT, "at least 16");
    qn_squad_deinit(&s);
    qn_wordpiece_destroy(w);
}

/* A length of 20 leaves 7 tokens to the question and 10 or more to the passage of 15. */
static void test_windows(void) {
    qn_wordpiece *w = make_words();
    qn_squad s;
    qn_squad_rows rows;
    int32_t tokens[20], types[20];
    read_good(&s);
    CHECK_OK(qn_squad_rows_init(&rows, NULL, &s, w, 20, 3));
    /* Question 0 has 6 tokens: windows of 11 at 0, 3 and 6. Its answer is pieces 4 to 6. */
    CHECK(rows.list[0].n == 11 && rows.list[1].first == 3 && rows.list[2].first == 6);
    CHECK(rows.list[2].question == 0 && rows.list[3].question == 1);
    CHECK(rows.list[2].n == 9 && rows.list[1].n == 11);
    CHECK(rows.list[0].start == 12 && rows.list[0].end == 14);
    CHECK(rows.list[1].start == 9 && rows.list[1].end == 11);
    CHECK(rows.list[2].start == 0 && rows.list[2].end == 0); /* it would begin before */
    for (size_t i = 0; i < rows.n; i++) {
        const qn_squad_row *r = &rows.list[i];
        CHECK(qn_squad_rows_fill(&rows, i, tokens, types) ==
              qn_squad_rows_passage_at(&rows, i) + r->n + 1);
        CHECK(r->start <= r->end && r->end < 20 && r->n > 0);
    }
    qn_squad_rows_deinit(&rows);
    /* A stride beyond the window leaves nothing out. */
    CHECK_OK(qn_squad_rows_init(&rows, NULL, &s, w, 20, 1000));
    CHECK(rows.list[1].question == 0 && rows.list[1].first == 11 && rows.list[1].n == 4);
    qn_squad_rows_deinit(&rows);
    /* A question is cut to what half a row leaves. */
    CHECK_OK(qn_squad_rows_init(&rows, NULL, &s, w, 16, 0));
    CHECK(qn_squad_rows_passage_at(&rows, 0) == 5 + 2);
    qn_squad_rows_deinit(&rows);
    qn_squad_deinit(&s);
    qn_wordpiece_destroy(w);
}

/* Passages without a single token, and answers that are none. */
static void test_empty_passages(void) {
    static const char text[] =
        "{\"data\": [{\"paragraphs\": [{\"context\": \"\", \"qas\": ["
        "{\"question\": \"\", \"is_impossible\": true}]}, {\"context\": "
        "\"\\u00ad\", \"qas\": [{\"question\": \"red\", \"answers\": [{\"text\""
        ": \"\\u00ad\", \"answer_start\": 0}]}]}]}]}";
    qn_wordpiece *w = make_words();
    qn_squad s;
    qn_squad_rows rows;
    int32_t tokens[16], types[16];
    qn_squad_init(&s, NULL);
    CHECK_OK(qn_squad_parse(&s, "empty", text, strlen(text)));
    CHECK_OK(qn_squad_rows_init(&rows, NULL, &s, w, 16, 0));
    CHECK(rows.n == 2 && rows.list[1].n == 0 && rows.list[1].start == 0);
    CHECK(qn_squad_rows_fill(&rows, 0, tokens, types) == 3);
    CHECK(qn_squad_rows_fill(&rows, 1, tokens, types) == 4);
    qn_squad_rows_deinit(&rows);
    qn_squad_deinit(&s);
    qn_wordpiece_destroy(w);
}

/* ---- made up ---- */

static void test_synthetic(void) {
    qn_squad s;
    qn_squad_rows rows;
    qn_wordpiece *w = NULL;
    int32_t tokens[64], types[64];
    qn_squad_init(&s, NULL);
    const char *words = qn_synthetic_vocabulary(&s.texts, 8192);
    CHECK_OK(qn_wordpiece_create(NULL, "synthetic", words, strlen(words), &w));
    CHECK(qn_wordpiece_count(w) == 8192);
    CHECK_OK(qn_squad_synthesise(&s, 100, 29, 32, 8192, 1));
    CHECK_OK(qn_squad_rows_init(&rows, NULL, &s, w, 64, 0));
    CHECK(rows.n == 100);
    for (size_t i = 0; i < rows.n; i++) {
        const qn_squad_row *r = &rows.list[i];
        CHECK(qn_squad_rows_fill(&rows, i, tokens, types) == 64);
        CHECK(tokens[r->start - 1] == 5 && tokens[r->end + 1] == 6);
        for (int t = 0; t < 64; t++)
            CHECK(tokens[t] != 0 && tokens[t] != 1);
    }
    qn_squad_rows_deinit(&rows);
    qn_wordpiece_destroy(w);
    qn_squad_deinit(&s);
}

/* ---- scores ---- */

static void check_score(const char *right, const char *answer, double exact, double f1) {
    const qn_squad_answer answers[] = {{.text = "something else"}, {.text = right}};
    const qn_squad_question question = {.answers = answers, .n_answers = *right ? 2 : 0};
    qn_squad_score score = {-1, -1};
    CHECK_OK(qn_squad_score_answer(NULL, &question, answer, strlen(answer), &score));
    CHECK(score.exact == exact && fabs(score.f1 - f1) < 1e-12);
    if (score.exact != exact || fabs(score.f1 - f1) >= 1e-12)
        printf("\"%s\" for \"%s\": %g, %g\n", answer, right, score.exact, score.f1);
}

static void test_scores(void) {
    check_score("the table", "table", 1, 1);
    check_score("The  Table!", "a table,", 1, 1);
    check_score("on the table", "the table", 0, 2.0 / 3);
    check_score("the", "an", 1, 1);
    check_score("the", "it", 0, 0);
    check_score("red red blue", "red green", 0, 0.4);
    check_score("red blue", "red red", 0, 0.5);
    check_score("Theory", "the ory", 0, 0);
    check_score("U.S.A.", "usa", 1, 1);
    check_score("the\xe2\x80\x94mat", "\xe2\x80\x94mat", 1,
                1); /* a dash that is no ASCII's parts words */
    check_score("\xc3\x89t\xc3\xa9 an", "\xc3\xa9t\xc3\xa9", 1, 1);
    check_score("caf\xc3\xa9", "cafe", 0, 0);
    check_score("a\xc2\xa0table", "table", 1, 1);
    check_score("\xff", "\xff", 1, 1);
    check_score("", "", 1, 1);
    check_score("", "the", 1, 1);
    check_score("", "table", 0, 0);
    check_score("table", "", 0, 0);
}

/* ---- memory ---- */

static qn_status whole_run(const qn_allocator *allocator, qn_squad *s, qn_wordpiece **w,
                           qn_squad_rows *rows) {
    qn_squad_score score;
    QN_TRY(qn_squad_read(s, at_root("@/good.json")));
    QN_TRY(qn_squad_synthesise(s, 3, 4, 8, 16, 1));
    QN_TRY(qn_wordpiece_create(allocator, "words", WORDS, strlen(WORDS), w));
    QN_TRY(qn_squad_rows_init(rows, allocator, s, *w, 20, 0));
    return qn_squad_score_answer(allocator, &s->questions[0], "a table", 7, &score);
}

static void test_memory(void) {
    qn_status status = QN_ERROR_MEMORY;
    write_text("@/good.json", good);
    for (int n = 0; n < 200 && status != QN_OK; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_squad s;
        qn_squad_rows rows = {.n = 0};
        qn_wordpiece *w = NULL;
        qn_squad_init(&s, &allocator);
        status = whole_run(&allocator, &s, &w, &rows);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_squad_rows_deinit(&rows);
        qn_wordpiece_destroy(w);
        qn_squad_deinit(&s);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    files_begin();
    test_reading();
    test_broken_json();
    test_bad_questions();
    test_row();
    test_windows();
    test_empty_passages();
    test_synthetic();
    test_scores();
    test_memory();
    files_end();
    return checks_finish();
}
