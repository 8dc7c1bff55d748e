/* The reader of CSV: records as they are told by hand, the same from a text, a file and a stream of
 * pieces of any size; what is written by chance is read again; failures name the line; each failing
 * allocation. */
#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "format/csv.h"

#include <stdlib.h>
#include <unistd.h>

enum { MOST_TEXT = 4096, MOST_SHOWN = 2 * MOST_TEXT };

/* A text in pieces of so many bytes. */
typedef struct pieces {
    const char *text;
    size_t bytes, at, piece;
} pieces;

static qn_status next_piece(void *context, void *to, size_t bytes, size_t *n) {
    pieces *p = context;
    const size_t left = p->bytes - p->at;
    *n = p->piece < left ? p->piece : left;
    *n = *n < bytes ? *n : bytes;
    memcpy(to, p->text + p->at, *n);
    p->at += *n;
    return QN_OK;
}

/* "1|a|'b'\n": each record's line and fields, quoted ones in quotes, ragged ones with a !. */
static qn_status show(qn_csv_reader *r, char *shown) {
    *shown = 0;
    for (;;) {
        bool is_end;
        const qn_status status = qn_csv_next(r, &is_end);
        if (status != QN_OK || is_end)
            return status;
        shown += sprintf(shown, "%d", (int)r->line);
        for (size_t i = 0; i < r->n_fields; i++) {
            const char *quote = r->fields[i].is_quoted ? "'" : "";
            shown += sprintf(shown, "|%s%s%s%s", quote, qn_csv_text(r, i), quote,
                             r->fields[i].is_ragged ? "!" : "");
        }
        shown += sprintf(shown, "\n");
    }
}

/* Reads a text in every way: all must show the same, or fail with the same message. */
static void check_ways(const char *text, char remark, const char *wanted, const char *message) {
    char shown[MOST_SHOWN];
    const size_t bytes = strlen(text);
    for (size_t piece = 0; piece <= bytes + 1; piece++) {
        pieces p = {text, bytes, 0, piece};
        qn_csv_reader r;
        if (piece == 0)
            qn_csv_read_text(&r, NULL, "t.csv", text, bytes);
        else
            qn_csv_read_stream(&r, NULL, "t.csv", next_piece, &p);
        r.remark = remark;
        if (message)
            CHECK_FAILS(show(&r, shown), QN_ERROR_FORMAT, message);
        else
            CHECK_OK(show(&r, shown));
        CHECK(strcmp(shown, wanted) == 0);
        qn_csv_deinit(&r);
    }
}

static void test_records(void) {
    check_ways("", 0, "", NULL);
    check_ways("\n\r\n\r", 0, "", NULL);
    check_ways("\xef\xbb\xbf", 0, "", NULL);
    check_ways("\xef\xbb", 0, "1|\xef\xbb\n", NULL);
    check_ways("a,b\n\n c , d\te\t\n", 0, "1|a|b\n3|c|d\te\n", NULL);
    check_ways("a,b\r\n1,2\r3,4\n\r5,", 0, "1|a|b\n2|1|2\n3|3|4\n5|5|\n", NULL);
    check_ways("\xef\xbb\xbf\"a\",\n", 0, "1|'a'|\n", NULL);
    check_ways("\"a \"\"b\"\", \n c\" , \"\"\nd", 0, "1|'a \"b\", \n c'|''\n3|d\n", NULL);
    check_ways("\"\"\n\"a\"b c ,5\" x\n", 0, "1|''\n2|'ab c'!|5\" x\n", NULL);
    check_ways("#a,\"b\n c,#d\n  # \"\n#", 0, "1|#a|'b\n c,#d\n  # '\n4|#\n", NULL);
}

static void test_remarks(void) {
    check_ways("#a,\"b\n c,#d\n  # \"\n#", '#', "2|c|#d\n", NULL);
    check_ways("# x\r# y\r\n\r\n1\n #", '#', "4|1\n", NULL);
}

static void test_failures(void) {
    char shown[MOST_SHOWN];
    qn_csv_reader r;
    bool is_end;
    check_ways("a\nb,\"c\nd", 0, "1|a\n", "t.csv: line 2: a quote is not closed");
    qn_csv_read_text(&r, NULL, "t.csv", "a\n\"b\nc\0\"", 8);
    CHECK_FAILS(show(&r, shown), QN_ERROR_FORMAT, "t.csv: line 3: a zero byte");
    CHECK_FAILS(qn_csv_next(&r, &is_end), QN_ERROR_FORMAT, "");
    qn_csv_deinit(&r);
    qn_csv_read_text(&r, NULL, "t.csv", "a,\0", 3);
    CHECK_FAILS(show(&r, shown), QN_ERROR_FORMAT, "t.csv: line 1: a zero byte");
    qn_csv_deinit(&r);
    qn_csv_read_text(&r, NULL, "t.csv", "1,23\n4,567\n", 11);
    r.record_bytes = 5;
    CHECK_OK(qn_csv_next(&r, &is_end));
    CHECK_FAILS(qn_csv_next(&r, &is_end), QN_ERROR_FORMAT, "line 2: longer than 5 bytes");
    qn_csv_deinit(&r);
}

/* Where fields stand in the text, and that a reader begins again. */
static void test_places(void) {
    const char text[] = "\xef\xbb\xbf a ,\"b\"\"\" \r\nc,d";
    qn_csv_reader r;
    bool is_end;
    qn_csv_read_text(&r, NULL, "t.csv", text, sizeof text - 1);
    for (int i = 0; i < 2; i++) {
        CHECK_OK(qn_csv_next(&r, &is_end));
        CHECK(!is_end && r.begin == 3 && r.end == 13 && r.n_fields == 2);
        CHECK(r.fields[0].begin == 3 && r.fields[0].end == 6);
        CHECK(r.fields[1].begin == 7 && r.fields[1].end == 13);
        CHECK_OK(qn_csv_next(&r, &is_end));
        CHECK(!is_end && r.begin == 15 && r.end == 18 && r.line == 2);
        CHECK_OK(qn_csv_next(&r, &is_end));
        CHECK(is_end);
        qn_csv_rewind(&r);
    }
    qn_csv_deinit(&r);
}

/* ---- by chance ---- */

typedef struct made {
    char text[MOST_TEXT], shown[MOST_SHOWN];
    size_t bytes, n_shown;
} made;

static void put(made *m, const char *text) {
    m->bytes += (size_t)sprintf(m->text + m->bytes, "%s", text);
}

/* A field of bytes that tell one way of reading from another, quoted where it must be. */
static void make_field(made *m, qn_rng rng, uint64_t *at) {
    static const char bytes[] = "ab1 \t,\"\n\r#";
    const bool is_quoted = qn_rng_below(rng, (*at)++, 2);
    const size_t n_kinds = is_quoted ? sizeof bytes - 1 : 3, n = qn_rng_below(rng, (*at)++, 5);
    m->n_shown += (size_t)sprintf(m->shown + m->n_shown, "|%s", is_quoted ? "'" : "");
    put(m, is_quoted ? " \"" : "\t");
    for (size_t i = 0; i < n; i++) {
        const char c = bytes[qn_rng_below(rng, (*at)++, n_kinds)];
        put(m, (char[]){c, c == '"' ? c : 0, 0});
        m->shown[m->n_shown++] = c;
    }
    put(m, is_quoted ? "\" " : "  ");
    m->n_shown += (size_t)sprintf(m->shown + m->n_shown, "%s", is_quoted ? "'" : "");
}

static int count_line_feeds(const made *m) {
    int n = 0;
    for (size_t i = 0; i < m->bytes; i++)
        n += m->text[i] == '\n';
    return n;
}

static void make_text(made *m, uint64_t index) {
    static const char *const ends[] = {"\n", "\r\n"};
    const qn_rng rng = qn_rng_make(1, qn_hash_text("csv"), index);
    uint64_t at = 0;
    *m = (made){.bytes = 0};
    for (size_t rows = qn_rng_below(rng, at++, 8); rows > 0; rows--) {
        m->n_shown += (size_t)sprintf(m->shown + m->n_shown, "%d", 1 + count_line_feeds(m));
        for (size_t fields = 2 + qn_rng_below(rng, at++, 4); fields > 0; fields--) {
            make_field(m, rng, &at);
            if (fields > 1)
                put(m, ",");
        }
        put(m, ends[qn_rng_below(rng, at++, 2)]);
        m->n_shown += (size_t)sprintf(m->shown + m->n_shown, "\n");
    }
}

static void test_chance(void) {
    static made m;
    for (uint64_t i = 0; i < 300; i++) {
        make_text(&m, i);
        check_ways(m.text, 0, m.shown, NULL);
    }
}

/* ---- files, memory ---- */

/* More than the reader's buffer, with fields across its end. */
static void test_file(void) {
    enum { N = 30000 };
    char path[] = "/tmp/quern-csv-XXXXXX";
    const int descriptor = mkstemp(path);
    FILE *to = fdopen(descriptor, "w");
    qn_file *file;
    qn_csv_reader r;
    bool is_end = false;
    CHECK(to);
    for (int i = 0; to && i < N; i++)
        fprintf(to, "%d,\"a,%d\"\r\n", i, i);
    fclose(to);
    CHECK_OK(qn_file_open(NULL, path, &file));
    qn_csv_read_file(&r, NULL, file);
    for (int i = 0; i < N; i++) {
        char wanted[32];
        CHECK_OK(qn_csv_next(&r, &is_end));
        sprintf(wanted, "a,%d", i);
        if (is_end || r.n_fields != 2 || atoi(qn_csv_text(&r, 0)) != i || r.line != i + 1 ||
            strcmp(qn_csv_text(&r, 1), wanted) != 0)
            CHECK(!"the row is as it was written");
    }
    CHECK_OK(qn_csv_next(&r, &is_end));
    CHECK(is_end);
    qn_csv_deinit(&r);
    qn_file_close(file);
    unlink(path);
}

static void test_memory(void) {
    const char text[] =
        "a,b,c\n\"a long field, so that the text has to grow more than once\",b,c,d,e\n";
    qn_status status = QN_ERROR_MEMORY;
    for (int64_t n = 0; status != QN_OK && n < 100; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        pieces p = {text, sizeof text - 1, 0, 7};
        char shown[MOST_SHOWN];
        qn_csv_reader r;
        qn_csv_read_stream(&r, &allocator, "t.csv", next_piece, &p);
        status = show(&r, shown);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_csv_deinit(&r);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    test_records();
    test_remarks();
    test_failures();
    test_places();
    test_chance();
    test_file();
    test_memory();
    return checks_finish();
}
