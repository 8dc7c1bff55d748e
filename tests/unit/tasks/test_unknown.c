/* The region of known pictures: what lies far from all classes is outside, what is kept in settings
 * is what was found; damaged texts, and every allocation failing in turn. */
#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "tasks/features/unknown.h"

#include <string.h>

enum { N = 120, WIDTH = 16, CLASSES = 3 };

typedef struct points {
    float x[N * 2 * WIDTH]; /* two views, of which the first counts */
    int32_t y[N];
} points;

static void make(points *p) {
    const qn_rng rng = qn_rng_make(1, 2, 3);
    for (int i = 0; i < N; i++) {
        p->y[i] = i % CLASSES;
        for (int k = 0; k < 2 * WIDTH; k++) {
            const uint32_t word = qn_rng_word(rng, (uint64_t)(i * 2 * WIDTH + k));
            p->x[i * 2 * WIDTH + k] =
                (float)(word >> 8) / (float)(1 << 24) + (k % CLASSES == p->y[i] ? 3 : 0);
        }
    }
}

static qn_status keep(const qn_allocator *allocator, points *p, qn_metadata *settings) {
    const qn_features f = {.n = N, .n_views = 2, .width = WIDTH, .x = p->x, .y = p->y};
    return qn_known_region_keep(allocator, &f, CLASSES, settings);
}

static void test_region(void) {
    static points p;
    float far[WIDTH] = {0}, between[WIDTH];
    qn_metadata *settings;
    qn_known_region r;
    int n_inside = 0;
    make(&p);
    CHECK_OK(qn_metadata_create(NULL, &settings));
    CHECK_OK(keep(qn_allocator_default(), &p, settings));
    CHECK_OK(qn_known_region_read(qn_allocator_default(), settings, &r));
    CHECK(r.n_classes == CLASSES && r.width == WIDTH && r.most > 0);
    for (int i = 0; i < N; i++)
        n_inside += qn_known_region_distance(&r, p.x + i * 2 * WIDTH) <= r.most;
    CHECK(n_inside >= N * 97 / 100);
    for (int k = 0; k < WIDTH; k++) {
        between[k] = (p.x[k] + p.x[2 * WIDTH + k]) / 2; /* of two classes */
        far[k] = -3;
    }
    CHECK(qn_known_region_distance(&r, far) > 2 * r.most);
    CHECK(qn_known_region_distance(&r, between) > r.most);
    qn_known_region_deinit(qn_allocator_default(), &r);
    qn_metadata_destroy(settings);
}

static void test_damaged(void) {
    static const char *const texts[] = {"",           "1 1 1 ",      "1 1 1 8",    "1 1 1 80zz",
                                        "2 1 1 8080", "1 0 1 80",    "1 1 0 80",   "1 999 1 8080",
                                        "1 1 1 808",  "1 1 1 8080 ", "1 -1 1 8080"};
    qn_metadata *settings;
    qn_known_region r;
    CHECK_OK(qn_metadata_create(NULL, &settings));
    CHECK_OK(qn_known_region_read(qn_allocator_default(), settings, &r));
    CHECK(r.n_classes == 0);
    CHECK_OK(qn_metadata_set(settings, QN_UNKNOWN_ABOVE, "1.5"));
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        CHECK_OK(qn_metadata_set(settings, QN_KNOWN_MEANS, texts[i]));
        CHECK(qn_known_region_read(qn_allocator_default(), settings, &r) == QN_ERROR_FORMAT);
        CHECK(r.n_classes == 0 && !r.means && !r.scale);
    }
    CHECK_OK(qn_metadata_set(settings, QN_KNOWN_MEANS, "1 1 1 8080"));
    CHECK_OK(qn_known_region_read(qn_allocator_default(), settings, &r));
    CHECK(r.scale[0] == 1 && r.means[0] == 0 && r.most == 1.5);
    qn_known_region_deinit(qn_allocator_default(), &r);
    CHECK_OK(qn_metadata_set(settings, QN_UNKNOWN_ABOVE, "nan"));
    CHECK(qn_known_region_read(qn_allocator_default(), settings, &r) == QN_ERROR_FORMAT);
    qn_metadata_destroy(settings);
}

static void test_failures(void) {
    static points p;
    qn_status status = QN_ERROR_MEMORY;
    make(&p);
    for (int64_t n = 0; status != QN_OK && n < 100; n++) {
        failing at = {.left = n};
        const qn_allocator allocator = {&at, failing_allocate, failing_release};
        qn_metadata *settings;
        qn_known_region r = {.n_classes = 0};
        CHECK_OK(qn_metadata_create(NULL, &settings));
        status = keep(&allocator, &p, settings);
        if (status == QN_OK)
            status = qn_known_region_read(&allocator, settings, &r);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_known_region_deinit(&allocator, &r);
        qn_metadata_destroy(settings);
        CHECK(at.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    test_region();
    test_damaged();
    test_failures();
    return checks_finish();
}
