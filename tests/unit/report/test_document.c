/* Documents: parts in places where they may not be, the first failure kept, every allocation
 * failing in turn, a disk that is full, and Chart.js with its licence inside. What a browser makes
 * of one is looked at in tests/cli/test_report*.py. */
#include "data_files.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "report/document.h"

#include <signal.h>
#include <sys/resource.h>

static qn_status fill_and_write(const qn_allocator *allocator, const char *path) {
    const char *const labels[] = {"4", "8"};
    const double y[] = {1, NAN};
    qn_document *d;
    QN_TRY(qn_document_create(allocator, "A title", &d));
    qn_document_figure(d, "label", "value", "note");
    qn_document_begin_table(d, "A table", 2, labels);
    for (int i = 0; i < 200; i++)
        qn_document_cell_number(d, i, 2);
    qn_document_end_table(d);
    qn_document_begin_chart(d, &(qn_chart){.kind = QN_CHART_BAR,
                                           .title = "A chart",
                                           .x_label = "batch",
                                           .n_labels = 2,
                                           .labels = labels});
    qn_document_series(d, "one", 2, NULL, y);
    qn_document_end_chart(d);
    qn_document_figure(d, "last", "value", "");
    const qn_status status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}

/* Whether a file holds a text. */
static bool holds(const char *path, const char *wanted) {
    char *read;
    size_t bytes;
    CHECK_OK(qn_file_read_whole(NULL, path, &read, &bytes));
    const bool is_there = strstr(read, wanted) != NULL;
    qn_release(qn_allocator_default(), read, bytes + 1, 1);
    return is_there;
}

static void test_whole(void) {
    const char *path = at_root("@/whole.html");
    CHECK_OK(fill_and_write(NULL, path));
    CHECK(holds(path, "<title>A title</title>") && holds(path, "</body>\n</html>\n"));
    CHECK(holds(path, "Chart.js v3.") && holds(path, "Permission is hereby granted"));
    CHECK(holds(path, "\"labels\":[\"4\",\"8\"],\"series\":[{\"name\":\"one\",\"guide\":false,"
                      "\"y\":[1,null]}]}</script>"));
    CHECK(holds(path, "<td class=\"n\" data-v=\"7\">7.00</td><"));
    CHECK(!holds(path, "http://") || !holds(path, "src="));
}

typedef void (*misuse)(qn_document *d);

static void cell_outside(qn_document *d) {
    qn_document_cell_number(d, 1, 0);
}

static void series_outside(qn_document *d) {
    const double y = 1;
    qn_document_series(d, "one", 1, &y, &y);
}

static void half_a_row(qn_document *d) {
    qn_document_begin_table(d, "t", 2, (const char *const[]){"a", "b"});
    qn_document_cell_text(d, "x");
    qn_document_end_table(d);
}

static void no_columns(qn_document *d) {
    qn_document_begin_table(d, "t", 0, NULL);
    qn_document_cell_text(d, "x");
    qn_document_end_table(d);
}

static void table_in_chart(qn_document *d) {
    qn_document_begin_chart(d, &(qn_chart){.title = "c"});
    qn_document_begin_table(d, "t", 1, (const char *const[]){"a"});
}

static void left_open(qn_document *d) {
    qn_document_begin_chart(d, &(qn_chart){.title = "c"});
}

static void end_of_nothing(qn_document *d) {
    qn_document_end_table(d);
    qn_document_end_chart(d);
}

static void test_misuse(void) {
    static const struct {
        misuse body;
        const char *says;
    } rows[] = {
        {cell_outside, "a cell without a table"},
        {series_outside, "a series without a chart"},
        {half_a_row, "within a row"},
        {no_columns, "without columns"},
        {table_in_chart, "was not ended before the next part"},
        {left_open, "was not ended"},
        {end_of_nothing, "a cell without a table"},
    };
    write_text("@/kept.html", "old");
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_document *d;
        CHECK_OK(qn_document_create(NULL, "misused", &d));
        rows[i].body(d);
        qn_document_text(d, "more");
        qn_fail(QN_ERROR_NUMERIC, "something else in between");
        CHECK_FAILS(qn_document_write(d, at_root("@/kept.html")), QN_ERROR_ARGUMENT, rows[i].says);
        CHECK_FAILS(qn_document_write(d, at_root("@/kept.html")), QN_ERROR_ARGUMENT, "misused");
        qn_document_destroy(d);
    }
    CHECK(holds(at_root("@/kept.html"), "old"));
    qn_document_destroy(NULL);
}

static void test_memory(void) {
    qn_status status = QN_ERROR_MEMORY;
    int n = 0;
    for (; status != QN_OK && n < 100; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = fill_and_write(&allocator, at_root("@/memory.html"));
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
        CHECK(qn_path_is_file(at_root("@/memory.html")) == (status == QN_OK));
    }
    CHECK(status == QN_OK && n > 4);
}

static void test_full_disk(void) {
    struct rlimit limit, before;
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &before);
    for (rlim_t bytes = 0; bytes < 200000; bytes += 33333) {
        limit = (struct rlimit){bytes, before.rlim_max};
        CHECK(setrlimit(RLIMIT_FSIZE, &limit) == 0);
        CHECK_FAILS(fill_and_write(NULL, at_root("@/kept.html")), QN_ERROR_IO, "kept.html");
        CHECK(setrlimit(RLIMIT_FSIZE, &before) == 0);
        CHECK(holds(at_root("@/kept.html"), "old"));
    }
    CHECK_FAILS(fill_and_write(NULL, "/dev/full"), QN_ERROR_IO, "/dev/full");
    CHECK_FAILS(fill_and_write(NULL, at_root("@/none/a.html")), QN_ERROR_IO, "none");
}

int main(void) {
    files_begin();
    test_whole();
    test_misuse();
    test_memory();
    test_full_disk();
    files_end();
    return checks_finish();
}
