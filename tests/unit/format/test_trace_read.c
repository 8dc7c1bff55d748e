/* Traces that others wrote: both forms, gzipped or not, slices whole and in halves, times to the
 * nanosecond, what is passed over, what is refused and where; self times against sums made by
 * hand; a failing allocation at every place. */
#include "base/status.h"
#include "data_files.h"
#include "format/trace.h"

#include <zlib.h>

static qn_status read_text(const char *text, qn_trace_reading **reading) {
    write_text("@/t.json", text);
    return qn_trace_read(NULL, at_root("@/t.json"), reading);
}

static bool is_slice(const qn_trace_reading *r, size_t i, const char *name, int64_t begin_ns,
                     int64_t end_ns) {
    size_t n;
    const qn_trace_slice_read *slices = qn_trace_reading_slices(r, &n);
    return i < n && strcmp(slices[i].name, name) == 0 && slices[i].begin_ns == begin_ns &&
           slices[i].end_ns == end_ns;
}

static size_t count_slices(const qn_trace_reading *r) {
    size_t n;
    qn_trace_reading_slices(r, &n);
    return n;
}

/* ---- what is read ---- */

static void test_forms(void) {
    qn_trace_reading *r;
    const char *const events = "[{\"name\":\"a\",\"cat\":\"c\",\"ph\":\"X\",\"ts\":1,\"dur\":2,"
                               "\"pid\":3,\"tid\":4,\"args\":{\"ts\":[5,{\"ph\":\"q\"}]}}]";
    char object[512];
    CHECK_OK(read_text(events, &r));
    CHECK(count_slices(r) == 1 && is_slice(r, 0, "a", 1000, 3000));
    CHECK(!qn_trace_reading_fact(r, "traceName"));
    qn_trace_reading_destroy(r);
    snprintf(object, sizeof object,
             "{\"schemaVersion\": 1, \"deviceProperties\": [{\"id\": 0, \"name\": \"x\"}], "
             "\"traceEvents\": %s, \"traceName\": \"n.json\", \"baseTimeNanoseconds\": "
             "1727299674000000000}",
             events);
    CHECK_OK(read_text(object, &r));
    CHECK(count_slices(r) == 1 && is_slice(r, 0, "a", 1000, 3000));
    CHECK(strcmp(qn_trace_reading_fact(r, "baseTimeNanoseconds"), "1727299674000000000") == 0);
    CHECK(strcmp(qn_trace_reading_fact(r, "traceName"), "n.json") == 0);
    CHECK(!qn_trace_reading_fact(r, "id"));
    size_t n;
    const qn_trace_track *tracks = qn_trace_reading_tracks(r, &n);
    CHECK(n == 1 && strcmp(tracks[0].pid, "3") == 0 && strcmp(tracks[0].tid, "4") == 0);
    CHECK(strcmp(qn_trace_reading_slices(r, &n)->category, "c") == 0);
    qn_trace_reading_destroy(r);
}

static void test_empty(void) {
    qn_trace_reading *r;
    CHECK_OK(read_text("[]", &r));
    CHECK(count_slices(r) == 0);
    qn_trace_reading_destroy(r);
    CHECK_OK(read_text(" {\"traceEvents\" : [ ] } \n", &r));
    CHECK(count_slices(r) == 0);
    qn_trace_reading_destroy(r);
}

static void test_times(void) {
    static const struct {
        const char *text;
        int64_t ns;
    } cases[] = {
        {"0", 0},
        {"1", 1000},
        {"1.5", 1500},
        {"0.001", 1},
        {"1790000000123456.789", 1790000000123456789},
        {"1790000000123456", 1790000000123456000},
        {"-2.25", -2250},
        {"1.5e3", 1500000},
        {"\"7.125\"", 7125},
        {"3.0004", 3000},
        {"3.9996", 4000},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char text[160];
        qn_trace_reading *r;
        snprintf(text, sizeof text, "[{\"ph\":\"X\",\"ts\":%s}]", cases[i].text);
        CHECK_OK(read_text(text, &r));
        CHECK(is_slice(r, 0, "", cases[i].ns, cases[i].ns));
        qn_trace_reading_destroy(r);
    }
}

/* Tracks in the order in which they are met; in one, longest first, then as in the file. */
static void test_order(void) {
    qn_trace_reading *r;
    CHECK_OK(read_text("[{\"name\":\"b\",\"ph\":\"X\",\"ts\":5,\"dur\":1,\"pid\":\"CPU\"},"
                       "{\"name\":\"z\",\"ph\":\"X\",\"ts\":0,\"dur\":1,\"pid\":7},"
                       "{\"name\":\"c\",\"ph\":\"X\",\"ts\":5,\"dur\":1,\"pid\":\"CPU\"},"
                       "{\"name\":\"a\",\"ph\":\"X\",\"ts\":5,\"dur\":3,\"pid\":\"CPU\"},"
                       "{\"name\":\"y\",\"ph\":\"X\",\"ts\":9,\"dur\":-1,\"pid\":7},"
                       "{\"name\":\"i\",\"ph\":\"i\",\"ts\":1},{\"ph\":\"C\"},{},"
                       "{\"name\":\"m\",\"ph\":\"M\",\"args\":{\"name\":\"python\"}}]",
                       &r));
    CHECK(count_slices(r) == 5);
    CHECK(is_slice(r, 0, "a", 5000, 8000) && is_slice(r, 1, "b", 5000, 6000));
    CHECK(is_slice(r, 2, "c", 5000, 6000) && is_slice(r, 3, "z", 0, 1000));
    CHECK(is_slice(r, 4, "y", 9000, 9000));
    qn_trace_reading_destroy(r);
}

/* B and E of one thread may stand anywhere in the file. */
static void test_halves(void) {
    qn_trace_reading *r;
    CHECK_OK(read_text(
        "[{\"ph\":\"E\",\"ts\":9},{\"ph\":\"E\",\"ts\":1},"
        "{\"name\":\"in\",\"ph\":\"B\",\"ts\":4},{\"name\":\"out\",\"ph\":\"B\",\"ts\":2},"
        "{\"ph\":\"E\",\"ts\":5},{\"name\":\"other\",\"ph\":\"B\",\"ts\":3,\"tid\":1},"
        "{\"name\":\"none\",\"ph\":\"B\",\"ts\":9},{\"ph\":\"E\",\"ts\":9},"
        "{\"name\":\"open\",\"ph\":\"B\",\"ts\":10}]",
        &r));
    CHECK(count_slices(r) == 3);
    CHECK(is_slice(r, 0, "out", 2000, 9000) && is_slice(r, 1, "in", 4000, 5000));
    CHECK(is_slice(r, 2, "none", 9000, 9000));
    qn_trace_reading_destroy(r);
}

static void test_cut_off(void) {
    static const char *const bare[] = {"[{\"ph\":\"X\",\"ts\":1}", "[{\"ph\":\"X\",\"ts\":1},\n"};
    for (int i = 0; i < 2; i++) {
        qn_trace_reading *r;
        CHECK_OK(read_text(bare[i], &r));
        CHECK(count_slices(r) == 1);
        qn_trace_reading_destroy(r);
    }
}

static void test_escapes(void) {
    qn_trace_reading *r;
    CHECK_OK(read_text("[{\"name\":\"a\\\"\\u00e9\\n\",\"ph\":\"X\",\"ts\":1}]", &r));
    CHECK(is_slice(r, 0, "a\"\xc3\xa9\n", 1000, 1000));
    qn_trace_reading_destroy(r);
}

/* ---- what is refused ---- */

static void test_refused(void) {
    static const struct {
        const char *text, *says;
    } cases[] = {
        {"", "t.json: line 1, byte 0: it is not JSON: nothing is there"},
        {"3", "not a trace: neither a list of events nor an object"},
        {"{}", "t.json: it is not a trace: there is no \"traceEvents\""},
        {"{\"a\":[{\"ph\":\"X\",\"ts\":1}]}", "there is no \"traceEvents\""},
        {"{\"traceEvents\":7}", "\"traceEvents\" is not a list"},
        {"[\n{\"ph\":\"X\"}]", "line 2, byte 12: an event of phase X without \"ts\""},
        {"[\n\n7]", "line 3, byte 4: an event is not an object"},
        {"[[]]", "an event is not an object"},
        {"[{\"ph\":\"X\",\"ts\":\"soon\"}]", "\"ts\": soon is not a time"},
        {"[{\"ph\":\"X\",\"ts\":1e300}]", "is not a time"},
        {"[{\"ph\":\"X\",\"ts\":[1]}]", "\"ts\" is not a number"},
        {"[{\"ph\":\"X\",\"ts\":null}]", "\"ts\" is not a number"},
        {"[{\"ph\":\"X\",\"ts\":1,\n\"dur\":nan}]", "line 2, byte"},
        {"{\"traceEvents\":[{\"ph\":\"X\",\"ts\":1}", "the file is cut off here"},
        {"[{\"ph\":\"X\",\"ts\":1", "the file is cut off here"},
        {"[]\n]", "line 2, byte"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_trace_reading *r = NULL;
        CHECK_FAILS(read_text(cases[i].text, &r), QN_ERROR_FORMAT, cases[i].says);
        CHECK(!r);
    }
    qn_trace_reading *r = NULL;
    CHECK_FAILS(qn_trace_read(NULL, at_root("@/none.json"), &r), QN_ERROR_IO, "none.json");
}

/* ---- gzip, and files of many chunks ---- */

enum { N_MANY = 20000 };

static void write_many(const char *path, bool is_gzip) {
    gzFile file = gzopen(at_root(path), is_gzip ? "wb" : "wbT");
    gzprintf(file, "{\"traceEvents\":[");
    for (int i = 0; i < N_MANY; i++)
        gzprintf(file, "%s\n{\"name\":\"op%d\",\"ph\":\"X\",\"ts\":%d.5,\"dur\":0.25,\"tid\":%d}",
                 i ? "," : "", i % 100, N_MANY - i, i % 3);
    gzprintf(file, "]}\n");
    CHECK(gzclose(file) == Z_OK);
}

static void check_many(const char *path) {
    qn_trace_reading *r;
    size_t n, at = 0;
    CHECK_OK(qn_trace_read(NULL, at_root(path), &r));
    const qn_trace_slice_read *slices = qn_trace_reading_slices(r, &n);
    CHECK(n == N_MANY);
    for (int track = 0; track < 3; track++)
        for (int i = N_MANY - 1; i >= 0; i--)
            if (i % 3 == track) {
                const bool is_right = slices[at].begin_ns == (N_MANY - i) * 1000LL + 500 &&
                                      slices[at].end_ns == slices[at].begin_ns + 250 &&
                                      atoi(slices[at].name + 2) == i % 100;
                if (!is_right)
                    CHECK(is_right);
                at++;
            }
    qn_trace_reading_destroy(r);
}

static void test_many(void) {
    qn_trace_reading *r;
    write_many("@/many.json", false);
    write_many("@/many.json.gz", true);
    check_many("@/many.json");
    check_many("@/many.json.gz");
    CHECK(truncate(at_root("@/many.json.gz"), 5000) == 0);
    CHECK_FAILS(qn_trace_read(NULL, at_root("@/many.json.gz"), &r), QN_ERROR_FORMAT, "cut off");
    CHECK(truncate(at_root("@/many.json"), 900000) == 0);
    CHECK_FAILS(qn_trace_read(NULL, at_root("@/many.json"), &r), QN_ERROR_FORMAT,
                "many.json: line 15643, byte 900000: the file is cut off");
}

/* ---- self times ---- */

typedef struct shares {
    int64_t ns[16]; /* by slice */
    int64_t last_ns;
    bool is_in_order;
} shares;

static qn_status add_share(void *context, size_t slice, int64_t begin_ns, int64_t end_ns) {
    shares *s = context;
    s->is_in_order = s->is_in_order && begin_ns >= s->last_ns && end_ns > begin_ns;
    s->last_ns = end_ns;
    s->ns[slice] += end_ns - begin_ns;
    return QN_OK;
}

/* Slices of one track as {begin, end}, sorted; shares, both to be 0 at the end. */
static void check_cut(const int64_t (*times)[2], size_t n, const int64_t *wanted) {
    qn_trace_slice_read slices[16] = {0};
    shares s = {.last_ns = INT64_MIN, .is_in_order = true};
    for (size_t i = 0; i < n; i++)
        slices[i] = (qn_trace_slice_read){.begin_ns = times[i][0], .end_ns = times[i][1]};
    CHECK_OK(qn_trace_self_times(NULL, slices, n, &s, add_share));
    CHECK(s.is_in_order);
    for (size_t i = 0; i < n; i++)
        CHECK(s.ns[i] == wanted[i]);
}

static void test_cut(void) {
    static const int64_t nested[][2] = {{0, 100}, {10, 40}, {20, 30}, {40, 50}, {120, 130}};
    static const int64_t nested_wanted[] = {60, 20, 10, 10, 10};
    static const int64_t crossing[][2] = {{0, 10}, {5, 15}, {8, 9}, {12, 13}, {14, 14}};
    static const int64_t crossing_wanted[] = {5, 8, 1, 1, 0};
    static const int64_t equal[][2] = {{0, 10}, {0, 10}, {0, 10}};
    static const int64_t equal_wanted[] = {0, 0, 10};
    check_cut(nested, 5, nested_wanted);
    check_cut(crossing, 5, crossing_wanted);
    check_cut(equal, 3, equal_wanted);
    check_cut(equal, 0, NULL);
}

static qn_status refuse_share(void *context, size_t slice, int64_t begin_ns, int64_t end_ns) {
    (void)context, (void)slice, (void)begin_ns, (void)end_ns;
    return QN_ERROR_INTERRUPTED;
}

static void test_cut_tracks(void) {
    const qn_trace_slice_read slices[] = {{.begin_ns = 0, .end_ns = 9},
                                          {.begin_ns = 3, .end_ns = 5, .track = 1}};
    shares s = {.is_in_order = true};
    CHECK_OK(qn_trace_self_times(NULL, slices, 2, &s, add_share));
    CHECK(s.ns[0] == 9 && s.ns[1] == 2);
    CHECK(qn_trace_self_times(NULL, slices, 2, NULL, refuse_share) == QN_ERROR_INTERRUPTED);
}

/* ---- memory ---- */

static qn_status read_and_cut(const qn_allocator *allocator, const char *path) {
    qn_trace_reading *r;
    shares s = {.is_in_order = true};
    size_t n;
    QN_TRY(qn_trace_read(allocator, path, &r));
    const qn_trace_slice_read *slices = qn_trace_reading_slices(r, &n);
    qn_status status = qn_trace_self_times(allocator, slices, n < 16 ? n : 16, &s, add_share);
    qn_trace_reading_destroy(r);
    return status;
}

/* yajl's own allocations are among those that fail. */
static void test_memory(void) {
    char name[2000];
    char text[4096];
    memset(name, 'n', sizeof name);
    name[sizeof name - 1] = 0;
    snprintf(
        text, sizeof text,
        "{\"baseTimeNanoseconds\":1,\"traceEvents\":[{\"name\":\"%s\\n\",\"ph\":\"X\",\"ts\":1,"
        "\"dur\":4},{\"ph\":\"B\",\"ts\":2,\"args\":[[[[{\"a\":[]}]]]]},{\"ph\":\"E\",\"ts\":3}]}",
        name);
    write_text("@/memory.json", text);
    int n = 0;
    for (; n < 1000; n++) {
        failing f = {.left = n};
        qn_allocator allocator = {&f, failing_allocate, failing_release};
        const qn_status status = read_and_cut(&allocator, at_root("@/memory.json"));
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
    }
    CHECK(n > 15 && n < 1000);
}

int main(void) {
    files_begin();
    test_forms();
    test_empty();
    test_times();
    test_order();
    test_halves();
    test_cut_off();
    test_escapes();
    test_refused();
    test_many();
    test_cut();
    test_cut_tracks();
    test_memory();
    files_end();
    return checks_finish();
}
