/* BERT's tokenizer: words and pieces of words, the places of both in the text, Unicode, and
 * vocabularies that are none. */
#include "base/status.h"
#include "check.h"
#include "data/text/wordpiece.h"
#include "data_files.h"

#include <stdlib.h>

#define MARKS "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n"

static const char uncased[] =
    MARKS "want\n##want\n##ed\nwa\nun\nrunn\n##ing\n,\nlow\nlowest\n##est\n"
          "caf\n##e\ncafe\nthe\ni\n##s\n\xe4\xb8\xad\n\xe5\x9b\xbd\n$\n'\n"
          "mat\n.\n\xce\xbf\xce\xb4\xce\xbf\xcf\x83\n";

static qn_wordpiece *make(const char *text) {
    qn_wordpiece *w = NULL;
    CHECK_OK(qn_wordpiece_create(NULL, "vocabulary", text, strlen(text), &w));
    return w;
}

/* The pieces of a text: "token[what it stands for]" for each, in one line. */
static const char *show(const qn_wordpiece *w, const char *text) {
    static char line[4096];
    qn_pieces pieces;
    size_t used = 0;
    line[0] = 0;
    qn_pieces_init(&pieces, NULL);
    CHECK_OK(qn_wordpiece_split(w, text, strlen(text), &pieces));
    for (size_t i = 0; i < pieces.n; i++) {
        const qn_piece *p = &pieces.list[i];
        size_t n;
        const char *token = qn_wordpiece_token(w, p->token, &n);
        CHECK(p->begin >= 0 && p->begin < p->end && p->end <= (int32_t)strlen(text));
        used += (size_t)snprintf(line + used, sizeof line - used, "%s%.*s[%.*s]", i ? " " : "",
                                 (int)n, token, p->end - p->begin, text + p->begin);
    }
    qn_pieces_deinit(&pieces);
    return line;
}

#define CHECK_SPLIT(w, text, wanted)                                                               \
    do {                                                                                           \
        const char *shown = show(w, text);                                                         \
        CHECK(strcmp(shown, wanted) == 0);                                                         \
        if (strcmp(shown, wanted) != 0)                                                            \
            printf("%s\ninstead of\n%s\n", shown, wanted);                                         \
    } while (0)

static void test_words(void) {
    qn_wordpiece *w = make(uncased);
    CHECK(qn_wordpiece_count(w) == 29 && !qn_wordpiece_is_cased(w));
    CHECK(strcmp(qn_wordpiece_text(w), uncased) == 0);
    const qn_wordpiece_marks marks = qn_wordpiece_get_marks(w);
    CHECK(marks.padding == 0 && marks.unknown == 1 && marks.first == 2 && marks.separator == 3 &&
          marks.mask == 4);
    /* The examples of the published implementation's tests. */
    CHECK_SPLIT(w, "unwanted running", "un[un] ##want[want] ##ed[ed] runn[runn] ##ing[ing]");
    CHECK_SPLIT(w, "unwantedX running", "[UNK][unwantedX] runn[runn] ##ing[ing]");
    CHECK_SPLIT(w,
                "UNwant\xc3\xa9"
                "d,running",
                "un[UN] ##want[want] ##ed[\xc3\xa9"
                "d] ,[,] runn[runn] ##ing[ing]");
    CHECK_SPLIT(w, "", "");
    CHECK_SPLIT(w, " \t\n\r  ", "");
    /* The longest first, even where that leads nowhere. */
    CHECK_SPLIT(w, "lowest", "lowest[lowest]");
    CHECK_SPLIT(w, "wants", "want[want] ##s[s]");
    CHECK_SPLIT(w, "wan", "[UNK][wan]");
    CHECK_SPLIT(w, "'the mat'.", "'['] the[the] mat[mat] '['] .[.]");
    CHECK_SPLIT(w, "$the|mat", "$[$] the[the] [UNK][|] mat[mat]");
    CHECK_SPLIT(w, "[CLS] the [MASK]",
                "[UNK][[] [UNK][CLS] [UNK][]] the[the] [UNK][[] [UNK][MASK] [UNK][]]");
    qn_wordpiece_destroy(w);
}

static void test_unicode(void) {
    qn_wordpiece *w = make(uncased);
    /* An accent of its own goes with its letter. */
    CHECK_SPLIT(w, "Caf\xc3\xa9", "cafe[Caf\xc3\xa9]");
    CHECK_SPLIT(w, "cafe\xcc\x81 the", "cafe[cafe\xcc\x81] the[the]");
    CHECK_SPLIT(w, "\xc4\xb0s", "i[\xc4\xb0] ##s[s]"); /* a dotted capital I */
    CHECK_SPLIT(w,
                "the\xe4\xb8\xad\xe5\x9b\xbd"
                "the",
                "the[the] \xe4\xb8\xad[\xe4\xb8\xad] \xe5\x9b\xbd[\xe5\x9b\xbd] the[the]");
    CHECK_SPLIT(w, "\xce\x9f\xce\x94\xce\x9f\xce\xa3", /* no final sigma */
                "\xce\xbf\xce\xb4\xce\xbf\xcf\x83[\xce\x9f\xce\x94\xce\x9f\xce\xa3]");
    /* A no-break space and a line separator part words; a soft hyphen, a zero byte's replacement
     * and broken UTF-8 are passed over. */
    CHECK_SPLIT(w, "the\xc2\xa0mat\xe2\x80\xa8the", "the[the] mat[mat] the[the]");
    CHECK_SPLIT(w, "\xc2\xadthe\xef\xbf\xbd \xff\x80mat", "the[the] mat[mat]");
    CHECK_SPLIT(w, "lo\xc2\xadw", "low[lo\xc2\xadw]");
    CHECK_SPLIT(w, "the\xe2\x80\x94mat", "the[the] [UNK][\xe2\x80\x94] mat[mat]");
    qn_wordpiece_destroy(w);
}

static void test_cased(void) {
    qn_wordpiece *w = make(MARKS "The\r\nthe\r\n\r\ncaf\xc3\xa9\r\nlast");
    CHECK(qn_wordpiece_is_cased(w) && qn_wordpiece_count(w) == 10);
    CHECK_SPLIT(w, "The the THE caf\xc3\xa9 cafe last",
                "The[The] the[the] [UNK][THE] caf\xc3\xa9[caf\xc3\xa9] [UNK][cafe] last[last]");
    qn_wordpiece_destroy(w);
}

/* 100 characters are a word, one more is unknown; the place is all of it. */
static void test_long_words(void) {
    char text[512], wanted[1024];
    qn_pieces pieces;
    qn_wordpiece *w = make(MARKS "a\n##a\n");
    qn_pieces_init(&pieces, NULL);
    memset(text, 'a', sizeof text);
    CHECK_OK(qn_wordpiece_split(w, text, 100, &pieces));
    CHECK(pieces.n == 100 && pieces.list[0].token == 5 && pieces.list[99].token == 6 &&
          pieces.list[99].begin == 99);
    CHECK_OK(qn_wordpiece_split(w, text, 101, &pieces)); /* appended */
    CHECK(pieces.n == 101 && pieces.list[100].token == 1 && pieces.list[100].end == 101);
    qn_pieces_deinit(&pieces);
    text[300] = ' ';
    text[302] = 0;
    snprintf(wanted, sizeof wanted, "[UNK][%.300s] a[a]", text);
    CHECK_SPLIT(w, text, wanted);
    qn_wordpiece_destroy(w);
}

static void check_fails(const char *text, size_t bytes, const char *message) {
    qn_wordpiece *w = NULL;
    CHECK_FAILS(qn_wordpiece_create(NULL, "words.txt", text, bytes, &w), QN_ERROR_FORMAT, message);
    CHECK(!w);
}

static void test_bad_vocabularies(void) {
    qn_wordpiece *w = NULL;
    check_fails("", 0, "words.txt: no line is [PAD]");
    check_fails("\n\n", 2, "no line is [PAD]");
    check_fails("[PAD]\n[UNK]\n[CLS]\n", 18, "no line is [SEP]");
    check_fails(MARKS "a\nb\na\n", strlen(MARKS) + 6, "line 8: the token a is in line 6 already");
    check_fails(MARKS "a\n\xff\n", strlen(MARKS) + 4, "line 7 is not UTF-8");
    check_fails(MARKS "a\0b\n", strlen(MARKS) + 4, "line 6 is not UTF-8");
    CHECK_FAILS(qn_wordpiece_open(NULL, "/nowhere/words.txt", &w), QN_ERROR_IO, "words.txt");
}

static qn_status whole_run(const qn_allocator *allocator) {
    qn_wordpiece *w = NULL;
    qn_pieces pieces;
    qn_pieces_init(&pieces, allocator);
    QN_TRY(qn_wordpiece_open(allocator, at_root("@/words.txt"), &w));
    qn_status status = qn_wordpiece_split(w, "unwanted, running to the mat", 28, &pieces);
    CHECK(status == QN_OK || pieces.n == 0);
    qn_pieces_deinit(&pieces);
    qn_wordpiece_destroy(w);
    return status;
}

static void test_memory(void) {
    qn_status status = QN_ERROR_MEMORY;
    write_text("@/words.txt", uncased);
    for (int n = 0; n < 100 && status != QN_OK; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = whole_run(&allocator);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    files_begin();
    test_words();
    test_unicode();
    test_cased();
    test_long_words();
    test_bad_vocabularies();
    test_memory();
    files_end();
    return checks_finish();
}
