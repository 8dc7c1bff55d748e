/* Measures of labels against numbers worked out by hand. */
#include "check.h"
#include "os/heap.h"
#include "tasks/rows/labels.h"

#include <math.h>
#include <string.h>

static void test_measures(void) {
    static const float chances[] = {0.9f, 0.2f, 0.8f, 0.1f, 0.7f, 0.3f, 0.6f, 0.4f};
    static const float labels[] = {1, 0, 0, 0, 1, 0, 0, 0};
    qn_label_counts counts;
    qn_metrics metrics = {.n = 0};
    CHECK_OK(qn_label_counts_init(&counts, qn_allocator_default(), 2));
    qn_label_counts_add(&counts, chances, labels, 4);
    /* The first label's samples come first and third: (1/1 + 2/3) / 2. */
    CHECK(fabs(qn_label_precision(&counts, 0) - 5.0 / 6) < 1e-12);
    CHECK(isnan(qn_label_precision(&counts, 1)));
    const double threshold = qn_label_threshold(&counts, 0);
    CHECK(threshold > 0.6 && threshold <= 0.7);
    CHECK(fabs(qn_label_f1(&counts, 0, threshold) - 0.8) < 1e-12);
    CHECK(fabs(qn_label_f1(&counts, 0, 0.85) - 2.0 / 3) < 1e-12);
    CHECK(qn_label_f1(&counts, 1, 0.5) == 0);
    qn_label_report(&counts, NULL, &metrics);
    CHECK(metrics.n == 3 && strcmp(metrics.list[2].name, "map") == 0);
    CHECK(fabs(metrics.list[2].value - 5.0 / 6) < 1e-12);
    CHECK(fabs(metrics.list[0].value - 0.75) < 1e-12); /* 6 of 8 at a half */
    qn_label_counts_clear(&counts);
    CHECK(counts.n == 0 && isnan(qn_label_precision(&counts, 0)));
    qn_label_counts_deinit(&counts, qn_allocator_default());
}

static void test_thresholds(void) {
    const double given[] = {0.25, 1, 0.000001};
    double read[4];
    const char *text;
    qn_arena arena;
    qn_arena_init(&arena, qn_allocator_default());
    CHECK_OK(qn_label_thresholds_write(&arena, given, 3, &text));
    qn_label_thresholds_read(text, 4, read);
    CHECK(read[0] == 0.25 && read[1] == 1 && fabs(read[2] - 1e-6) < 1e-12 && read[3] == 0.5);
    qn_label_thresholds_read("2,x,,0.75", 4, read);
    CHECK(read[0] == 0.5 && read[1] == 0.5 && read[2] == 0.5);
    qn_label_thresholds_read(NULL, 2, read);
    CHECK(read[0] == 0.5 && read[1] == 0.5);
    qn_arena_deinit(&arena);
}

int main(void) {
    test_measures();
    test_thresholds();
    return checks_finish();
}
