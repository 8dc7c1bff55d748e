/* Confusion: scores worked out by hand, classes without samples, names that CSV must quote, the
 * page's parts, and every allocation failing in turn. */
#include "check.h"
#include "failing.h"
#include "os/os.h"
#include "report/confusion.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const names[] = {"cat, grey", "dog", "<owl>"};
static const int64_t counts[] = {
    5, 2, 1, 0, /* 8 cats */
    3, 6, 0, 0, /* 9 dogs */
    0, 4, 0, 0, /* 4 owls, none found */
    0, 0, 0, 0, /* none, and nothing taken for it */
};
static const qn_confusion confusion = {4, 3, names, counts};
static const qn_metrics metrics = {
    2, {{"loss", 0.5, false, false}, {"accuracy", 11.0 / 21, true, false}}};
static char path[64];

static bool is_near(double a, double b) {
    return fabs(a - b) < 1e-15;
}

static void test_scores(void) {
    qn_class_scores s = qn_confusion_scores(&confusion, 0);
    CHECK(s.n_samples == 8 && s.n_taken == 8 && s.n_right == 5);
    CHECK(is_near(s.precision, 5.0 / 8) && is_near(s.recall, 5.0 / 8) && is_near(s.f1, 5.0 / 8));
    s = qn_confusion_scores(&confusion, 1);
    CHECK(is_near(s.precision, 0.5) && is_near(s.recall, 2.0 / 3) && is_near(s.f1, 4.0 / 7));
    s = qn_confusion_scores(&confusion, 2);
    CHECK(s.precision == 0 && s.recall == 0 && s.f1 == 0);
    s = qn_confusion_scores(&confusion, 3);
    CHECK(isnan(s.precision) && isnan(s.recall) && isnan(s.f1));
    CHECK(is_near(qn_confusion_macro_f1(&confusion), (5.0 / 8 + 4.0 / 7) / 3));
    CHECK(qn_confusion_most_wrong(&confusion, 0) == 1);
    CHECK(qn_confusion_most_wrong(&confusion, 2) == 1);
    CHECK(qn_confusion_most_wrong(&confusion, 3) == -1);
}

/* Whether the file's text holds another. */
static bool holds(const char *wanted) {
    char *text;
    size_t bytes;
    if (qn_file_read_whole(NULL, path, &text, &bytes) != QN_OK)
        return false;
    const bool found = strstr(text, wanted) != NULL;
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    return found;
}

static void test_files(void) {
    CHECK_OK(qn_confusion_write_csv(&confusion, path));
    CHECK(holds("class,\"cat, grey\",dog,<owl>,3\n\"cat, grey\",5,2,1,0\ndog,3,6,0,0\n"
                "<owl>,0,4,0,0\n3,0,0,0,0\n"));
    CHECK_OK(qn_confusion_write_html(NULL, &confusion, "a & b", &metrics, path));
    CHECK(holds("<h1>a &amp; b</h1>") && holds("&lt;owl&gt;"));
    CHECK(holds("\"counts\":[[5,2,1,0],[3,6,0,0],[0,4,0,0],[0,0,0,0]]"));
    CHECK(holds("52.38") && holds("0.399") && holds("drawMatrix"));
    CHECK(qn_confusion_write_csv(&confusion, "/nowhere/a.csv") == QN_ERROR_IO);
}

static void test_failing(void) {
    failing f;
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_status status = QN_ERROR_MEMORY;
    for (int64_t n = 0; status != QN_OK && n < 10000; n++) {
        f = (failing){.left = n};
        status = qn_confusion_write_html(&allocator, &confusion, "t", &metrics, path);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    snprintf(path, sizeof path, "/tmp/quern-confusion-%ld", (long)getpid());
    test_scores();
    test_files();
    test_failing();
    remove(path);
    return checks_finish();
}
