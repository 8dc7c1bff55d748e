/* Confusion: scores worked out by hand, classes without samples, names that CSV must quote, the
 * page's parts, the most confused of many classes, counts against a matrix, memory and files of
 * 20,000 classes, and every allocation failing in turn. */
#include "base/memory.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "os/os.h"
#include "report/confusion.h"
#include "tasks/confusion.h"

#include <stdlib.h>
#include <unistd.h>

static const char *const names[] = {"cat, grey", "dog", "<owl>"};
static const int counts[4][4] = {
    {5, 2, 1, 0}, /* 8 cats */
    {3, 6, 0, 0}, /* 9 dogs */
    {0, 4, 0, 0}, /* 4 owls, none found */
    {0, 0, 0, 0}, /* none, and nothing taken for it */
};
static qn_confusion_counts *counted;
static qn_confusion confusion = {.n_classes = 4, .n_names = 3, .names = names};
static const qn_metrics metrics = {
    2, {{"loss", 0.5, false, false}, {"accuracy", 11.0 / 21, true, false}}};
static char path[64];

static void make_counts(void) {
    CHECK_OK(qn_confusion_counts_create(qn_allocator_default(), 4, 21, &counted));
    for (int k = 3; k >= 0; k--)
        for (int i = 0; i < 4; i++)
            for (int n = 0; n < counts[i][k]; n++)
                qn_confusion_counts_add(counted, i, k);
    qn_confusion_counts_finish(counted, &confusion);
    CHECK(confusion.n_cells == 6);
}

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
    CHECK(is_near(qn_confusion_balanced_accuracy(&confusion), (5.0 / 8 + 2.0 / 3) / 3));
    CHECK(qn_confusion_most_wrong(&confusion, 0)->taken == 1);
    CHECK(qn_confusion_most_wrong(&confusion, 2)->taken == 1);
    CHECK(qn_confusion_most_wrong(&confusion, 3) == NULL);
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
    CHECK_OK(qn_confusion_write_csv(NULL, &confusion, 4, path));
    CHECK(holds("class,\"cat, grey\",dog,<owl>,3\n\"cat, grey\",5,2,1,0\ndog,3,6,0,0\n"
                "<owl>,0,4,0,0\n3,0,0,0,0\n"));
    CHECK_OK(qn_confusion_write_html(NULL, &confusion, 4, "a & b", 2, &metrics, path));
    CHECK(holds("<h1>a &amp; b</h1>") && holds("&lt;owl&gt;"));
    CHECK(holds("\"counts\":[[5,2,1,0],[3,6,0,0],[0,4,0,0],[0,0,0,0]]"));
    CHECK(holds("52.38") && holds("0.399") && holds("drawMatrix"));
    CHECK(qn_confusion_write_csv(NULL, &confusion, 4, "/nowhere/a.csv") == QN_ERROR_IO);
}

/* Of more classes than are to be shown: the most confused, equals in their order. */
static void test_most(void) {
    CHECK_OK(qn_confusion_write_csv(NULL, &confusion, 3, path));
    CHECK(
        holds("class,taken for,samples\n<owl>,dog,4\ndog,\"cat, grey\",3\n\"cat, grey\",dog,2\n"));
    CHECK_OK(qn_confusion_write_html(NULL, &confusion, 2, "a", 2, &metrics, path));
    CHECK(holds("The 2 with the most wrong samples, of 4 pairs"));
    CHECK(holds("The 2 with the most wrong samples, of 3 classes"));
    CHECK(!holds("\"counts\"") && !holds("<td>&lt;owl&gt;</td><td class=\"n\" data-v=\"0\""));
    qn_confusion_ranking r;
    CHECK_OK(qn_confusion_rank_classes(NULL, &confusion, 2, &r));
    CHECK(r.n == 2 && r.n_all == 3 && r.ranks[0].index == 2 && r.ranks[1].index == 0);
    qn_confusion_ranking_deinit(NULL, &r);
    CHECK_OK(qn_confusion_rank_pairs(NULL, &confusion, 9, &r));
    CHECK(r.n == 4 && r.n_all == 4 && r.ranks[3].n_wrong == 1);
    qn_confusion_ranking_deinit(NULL, &r);
}

/* Against a matrix, with so many samples that cells are joined on the way, and twice. */
static void test_matrix(void) {
    enum { CLASSES = 40, SAMPLES = 30000 };
    static int64_t matrix[CLASSES][CLASSES];
    qn_confusion_counts *c = NULL;
    qn_confusion found = {.n_classes = CLASSES};
    CHECK_OK(qn_confusion_counts_create(qn_allocator_default(), CLASSES, SAMPLES, &c));
    for (uint32_t round = 0; round < 2; round++) {
        uint32_t draw = 5 + round;
        memset(matrix, 0, sizeof matrix);
        qn_confusion_counts_clear(c);
        for (int i = 0; i < SAMPLES; i++) {
            draw = draw * 1664525 + 1013904223;
            const int actual = (int)(draw >> 20) % (CLASSES / 2) * 2;
            const int taken = (int)(draw >> 12 & 255) % CLASSES;
            matrix[actual][taken]++;
            qn_confusion_counts_add(c, actual, taken);
        }
        qn_confusion_counts_finish(c, &found);
        for (int i = 0; i < CLASSES; i++) {
            int64_t cell = found.classes[i].first_cell;
            for (int k = 0; k < CLASSES; k++)
                CHECK(qn_confusion_next(&found, i, k, &cell) == matrix[i][k]);
            CHECK(cell == found.classes[i + 1].first_cell);
        }
    }
    qn_confusion_counts_destroy(c);
}

static int64_t file_bytes(void) {
    char *text;
    size_t bytes;
    if (qn_file_read_whole(NULL, path, &text, &bytes) != QN_OK)
        return -1;
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    return (int64_t)bytes;
}

/* Memory and files go with the samples and with what is shown, not with the square of the classes,
 * which would be 3 GB. */
static void test_many_classes(void) {
    enum { CLASSES = 20000, SAMPLES = 50000, MOST = 1000 };
    qn_counter counter;
    const qn_allocator allocator = qn_counter_init(&counter, qn_allocator_default());
    qn_confusion_counts *c = NULL;
    qn_confusion found = {.n_classes = CLASSES};
    uint32_t draw = 1;
    CHECK_OK(qn_confusion_counts_create(&allocator, CLASSES, SAMPLES, &c));
    const size_t n_allocations = counter.n_allocations;
    for (int i = 0; i < SAMPLES; i++) {
        draw = draw * 1664525 + 1013904223;
        qn_confusion_counts_add(c, i % CLASSES, (int)(draw >> 8) % CLASSES);
    }
    qn_confusion_counts_finish(c, &found);
    CHECK(counter.n_allocations == n_allocations);
    CHECK(counter.peak_bytes < SAMPLES * 16 + CLASSES * 32 + 4096);
    counter.peak_bytes = counter.held_bytes;
    const size_t before = counter.held_bytes;
    CHECK_OK(qn_confusion_write_csv(&allocator, &found, MOST, path));
    CHECK(counter.peak_bytes - before <= MOST * sizeof(qn_confusion_rank) + 4096);
    CHECK(file_bytes() < MOST * 20);
    CHECK_OK(qn_confusion_write_html(&allocator, &found, MOST, "t", 2, &metrics, path));
    CHECK(counter.peak_bytes - before < 2 << 20);
    CHECK(file_bytes() < 2 << 20);
    qn_confusion_counts_destroy(c);
    CHECK(counter.held_bytes == 0);
}

static void test_failing(void) {
    failing f;
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_status status = QN_ERROR_MEMORY;
    for (int64_t n = 0; status != QN_OK && n < 10000; n++) {
        f = (failing){.left = n};
        status = qn_confusion_write_html(&allocator, &confusion, 2, "t", 2, &metrics, path);
        if (status == QN_OK)
            status = qn_confusion_write_csv(&allocator, &confusion, 2, path);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    snprintf(path, sizeof path, "/tmp/quern-confusion-%ld", (long)getpid());
    make_counts();
    test_scores();
    test_files();
    test_most();
    test_matrix();
    test_many_classes();
    test_failing();
    qn_confusion_counts_destroy(counted);
    remove(path);
    return checks_finish();
}
