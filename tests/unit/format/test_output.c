/* Text on its way out: numbers in any locale, what HTML, CSV and JSON escape, sticky failures; and
 * trace files: what is written, to the nanosecond, and what is left when that fails. */
#include "data_files.h"

#include "base/status.h"
#include "format/output.h"
#include "format/trace.h"
#include "os/heap.h"
#include "os/os.h"

#include <locale.h>
#include <signal.h>
#include <sys/resource.h>

static char text[65536];
static size_t used;

static qn_status append(void *user, const void *data, size_t bytes) {
    int *left = user;
    if (left && (*left)-- <= 0)
        return qn_fail(QN_ERROR_IO, "no more room");
    CHECK(used + bytes < sizeof text);
    memcpy(text + used, data, bytes);
    used += bytes;
    text[used] = 0;
    return QN_OK;
}

static qn_output begin(int *left) {
    used = 0;
    text[0] = 0;
    return (qn_output){.user = left, .put = append};
}

/* ---- escaping ---- */

static void test_html(void) {
    qn_output out = begin(NULL);
    qn_output_html(&out, "a<b>&\"c'\n\x01"
                         "\x7f\xc3\xa9\xff\xe2\x82z\xed\xa0\x80");
    CHECK(strcmp(text, "a&lt;b&gt;&amp;&quot;c&#39;\n\uFFFD\uFFFDé\uFFFD\uFFFD\uFFFDz"
                       "\uFFFD\uFFFD\uFFFD") == 0);
    out = begin(NULL);
    qn_output_html(&out, "");
    CHECK(used == 0 && out.status == QN_OK);
}

static void test_csv(void) {
    static const char *const rows[][2] = {{"plain text", "plain text"},
                                          {"a,b", "\"a,b\""},
                                          {"say \"a\"", "\"say \"\"a\"\"\""},
                                          {"two\nlines", "\"two\nlines\""},
                                          {"\r", "\"\\x0d\""},
                                          {"a\033[2J\tb", "a\\x1b[2J\tb"},
                                          {"\u202Ec", "\\u202ec"},
                                          {"", ""},
                                          {"\xffz", "\uFFFDz"}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_output out = begin(NULL);
        qn_output_csv(&out, rows[i][0]);
        CHECK(strcmp(text, rows[i][1]) == 0);
    }
}

static void test_json(void) {
    qn_output out = begin(NULL);
    qn_json_open(&out, NULL, '{');
    qn_json_text(&out, "k\"", "</script>&\\\"\n\x7f\xe2\x80\xa8\xe2\x80\xa9\U0001F333\u00BC");
    qn_json_open(&out, "list", '[');
    qn_json_number(&out, NULL, 1.5);
    qn_json_open(&out, NULL, '{');
    qn_json_close(&out, '}');
    qn_json_number(&out, NULL, NAN);
    qn_json_number(&out, NULL, -INFINITY);
    qn_json_close(&out, ']');
    qn_json_count(&out, "n", INT64_MIN);
    qn_json_flag(&out, "yes", true);
    qn_json_flag(&out, "no", false);
    qn_json_close(&out, '}');
    CHECK(strcmp(text, "{\"k\\\"\":\"\\u003c/script\\u003e\\u0026\\\\\\\"\\u000a\\u007f"
                       "\\u2028\\u2029\U0001F333\u00BC\",\"list\":[1.5,{},null,null],"
                       "\"n\":-9223372036854775808,\"yes\":true,\"no\":false}") == 0);
}

/* ---- numbers ---- */

static void check_numbers(void) {
    qn_output out = begin(NULL);
    qn_output_number(&out, 0.1, 17, "");
    qn_output_text(&out, " ");
    qn_output_number(&out, -1.25e-300, 9, "");
    qn_output_text(&out, " ");
    qn_output_number(&out, 123456789.0, 9, "");
    qn_output_text(&out, " ");
    qn_output_number(&out, NAN, 9, "none");
    qn_output_text(&out, " ");
    qn_output_fixed(&out, 1234.5678, 2, "");
    qn_output_text(&out, " ");
    qn_output_fixed(&out, -0.5, 0, "");
    qn_output_text(&out, " ");
    qn_output_fixed(&out, INFINITY, 0, "-");
    CHECK(strcmp(text, "0.10000000000000001 -1.25e-300 123456789 none 1234.57 0 -") == 0);
    out = begin(NULL);
    qn_output_fixed(&out, 1.7e308, 9, "");
    CHECK(used == 309 + 1 + 9);
}

/* In a locale with a comma, made of nothing but that, where localedef and its tables are. */
static void test_numbers(void) {
    check_numbers();
    write_text("@/comma.locale", "LC_NUMERIC\ndecimal_point \",\"\nthousands_sep \".\"\n"
                                 "grouping -1\nEND LC_NUMERIC\n");
    /* It complains about what is missing, and makes it all the same. */
    const int made =
        system(at_root("localedef -ci @/comma.locale -f UTF-8 @/comma >/dev/null 2>&1"));
    setenv("LOCPATH", at_root("@"), 1);
    if (setlocale(LC_NUMERIC, "comma"))
        CHECK(localeconv()->decimal_point[0] == ',');
    else
        printf("no locale with a comma: localedef gave %d\n", made);
    check_numbers();
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
}

static void test_sticky(void) {
    int left = 2;
    qn_output out = begin(&left);
    qn_output_text(&out, "a");
    qn_output_text(&out, "b");
    qn_output_text(&out, "c");
    left = 2;
    qn_output_text(&out, "d");
    CHECK(out.status == QN_ERROR_IO && strcmp(text, "ab") == 0);
}

/* ---- traces ---- */

static qn_status put_events(void *user, qn_trace *trace) {
    const char *const names[] = {"flops", "void"};
    const double values[] = {4e9, NAN};
    (void)user;
    QN_TRY(qn_trace_process_name(trace, 1, "a \"process\""));
    QN_TRY(qn_trace_thread_name(trace, 1, 2, "thread 0"));
    QN_TRY(qn_trace_slice(trace, 1, 2, "conv1", "conv2d", 9007199254740993, 9007199254742994, 2,
                          names, values));
    QN_TRY(qn_trace_slice(trace, 1, 2, "relu", "relu", -1500, -999, 0, NULL, NULL));
    QN_TRY(qn_trace_counter(trace, 3, "power", "W", 5, NAN));
    return qn_trace_counter(trace, 3, "power", "W", 12034005, 1.25);
}

static qn_status put_nothing(void *user, qn_trace *trace) {
    (void)user;
    (void)trace;
    return QN_OK;
}

static qn_status put_some(void *user, qn_trace *trace) {
    QN_TRY(put_events(user, trace));
    return qn_fail(QN_ERROR_ARGUMENT, "the body's own");
}

static qn_status put_much(void *user, qn_trace *trace) {
    for (int i = 0; i < 10000; i++)
        QN_TRY(put_events(user, trace));
    return QN_OK;
}

static void check_file(const char *path, const char *wanted_end) {
    char *read;
    size_t bytes;
    CHECK_OK(qn_file_read_whole(NULL, path, &read, &bytes));
    CHECK(bytes >= strlen(wanted_end) &&
          strcmp(read + bytes - strlen(wanted_end), wanted_end) == 0);
    qn_release(qn_allocator_default(), read, bytes + 1, 1);
}

static void test_trace(void) {
    const char *path = at_root("@/trace.json");
    CHECK_OK(qn_trace_write(path, put_nothing, NULL));
    check_file(path, "\"clock\":\"CLOCK_MONOTONIC\"},\"traceEvents\":[\n]}\n");
    CHECK_OK(qn_trace_write(path, put_events, NULL));
    check_file(path, "\"traceEvents\":[\n"
                     "{\"ph\":\"M\",\"pid\":1,\"name\":\"process_name\","
                     "\"args\":{\"name\":\"a \\\"process\\\"\"}},\n"
                     "{\"ph\":\"M\",\"pid\":1,\"name\":\"thread_name\",\"tid\":2,"
                     "\"args\":{\"name\":\"thread 0\"}},\n"
                     "{\"ph\":\"X\",\"pid\":1,\"name\":\"conv1\",\"tid\":2,\"cat\":\"conv2d\","
                     "\"ts\":9007199254740.993,\"dur\":2.001,\"args\":{\"flops\":4e+09}},\n"
                     "{\"ph\":\"X\",\"pid\":1,\"name\":\"relu\",\"tid\":2,\"cat\":\"relu\","
                     "\"ts\":-1.500,\"dur\":0.501,\"args\":{}},\n"
                     "{\"ph\":\"C\",\"pid\":3,\"name\":\"power\",\"ts\":12034.005,"
                     "\"args\":{\"W\":1.25}}\n]}\n");
}

/* A disk that takes no more than so many bytes, as far as a limit of file size can stand for it. */
static void test_trace_failures(void) {
    const char *path = at_root("@/kept.json");
    struct rlimit limit, before;
    write_text("@/kept.json", "old");
    CHECK_FAILS(qn_trace_write(path, put_some, NULL), QN_ERROR_ARGUMENT, "the body's own");
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    limit = (struct rlimit){100000, before.rlim_max};
    CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
    CHECK_FAILS(qn_trace_write(path, put_much, NULL), QN_ERROR_IO, "kept.json");
    CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
    check_file(path, "old");
    CHECK_FAILS(qn_trace_write("/dev/full", put_events, NULL), QN_ERROR_IO, "/dev/full");
    CHECK_FAILS(qn_trace_write(at_root("@/none/a"), put_events, NULL), QN_ERROR_IO, "none");
}

int main(void) {
    files_begin();
    test_html();
    test_csv();
    test_json();
    test_numbers();
    test_sticky();
    test_trace();
    test_trace_failures();
    files_end();
    return checks_finish();
}
