/* What features say of labels, against clouds of points whose labels are known: wrong labels,
 * duplicates, needs; and every allocation failing in turn. */
#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "tasks/features/findings.h"

#include <math.h>
#include <string.h>

enum { N = 240, WIDTH = 20, CLASSES = 4, COPY = 7 };

typedef struct points {
    float x[N * WIDTH], chances[N * CLASSES];
    int32_t y[N];
    bool is_wrong[N];
} points;

static float draw(uint32_t word) {
    return (float)(word >> 8) / (float)(1 << 23) - 1;
}

/* Every tenth has the next class's label; the last is a copy of COPY. */
static void make(points *p) {
    const qn_rng rng = qn_rng_make(5, 6, 7);
    for (int i = 0; i < N; i++) {
        p->y[i] = i % CLASSES;
        for (int k = 0; k < WIDTH; k++)
            p->x[i * WIDTH + k] = draw(qn_rng_word(rng, (uint64_t)(i * WIDTH + k))) +
                                  (k % CLASSES == p->y[i] ? 1.2f : 0);
        p->is_wrong[i] = i % 10 == 3;
        if (p->is_wrong[i])
            p->y[i] = (p->y[i] + 1) % CLASSES;
    }
    memcpy(p->x + (N - 1) * WIDTH, p->x + COPY * WIDTH, WIDTH * sizeof *p->x);
}

/* The looks that a network gives which knows nothing. */
static qn_status look(const qn_allocator *allocator, points *p, float *held,
                      qn_sample_looks *looks) {
    *looks =
        (qn_sample_looks){.allocator = allocator,
                          .features = {.n = N, .n_views = 1, .width = WIDTH, .x = p->x, .y = p->y},
                          .n_classes = CLASSES,
                          .n = {[QN_TRAIN] = N - 40, [QN_TEST] = 40},
                          .chances = p->chances,
                          .held = held,
                          .is_fitted = true};
    for (int i = 0; i < N * CLASSES; i++)
        p->chances[i] = 1.0f / CLASSES;
    return qn_head_fit_find(allocator, &looks->features, CLASSES, NULL, NULL, NULL, NULL, held,
                            &looks->fit);
}

static void check_suspects(const points *p, const qn_findings *f) {
    int64_t n_wrong = 0, n_found = 0, n_first = 0;
    for (int64_t i = 0; i < N; i++)
        n_wrong += p->is_wrong[i];
    for (int64_t i = 0; i < f->n_suspects; i++) {
        const int64_t k = f->suspects[i];
        n_found += p->is_wrong[k];
        n_first += p->is_wrong[k] && i < N * 15 / 100;
        CHECK(f->samples[k].suggest != p->y[k]);
        CHECK(i == 0 || f->samples[f->suspects[i - 1]].trust <= f->samples[k].trust);
        if (p->is_wrong[k])
            CHECK(f->samples[k].suggest == (p->y[k] + CLASSES - 1) % CLASSES);
    }
    CHECK(5 * n_first >= 4 * n_wrong);
    CHECK(f->n_suspects - n_found < N / 20);
}

static void test_findings(void) {
    static points p;
    static float held[N * CLASSES];
    qn_sample_looks looks;
    qn_findings f;
    make(&p);
    CHECK_OK(look(qn_allocator_default(), &p, held, &looks));
    CHECK(looks.fit.n_folds == 5);
    CHECK_OK(qn_findings_make(&looks, 0.5, NULL, NULL, &f));
    check_suspects(&p, &f);
    CHECK(f.n_duplicates == 1 && f.duplicates[0] == COPY && f.samples[COPY].nearest == N - 1);
    /* Training samples are judged by layers that did not see them, the others by the network. */
    CHECK(f.samples[0].chance > 1.0f / CLASSES && f.samples[N - 1].chance == 1.0f / CLASSES);
    CHECK(f.samples[N - 40].split == QN_TEST && f.samples[N - 40].index == 0);
    for (int64_t i = 0; i < f.n_mistakes; i++)
        CHECK(f.samples[f.mistakes[i]].answer != p.y[f.mistakes[i]]);
    for (int i = 1; i < CLASSES; i++)
        CHECK(f.classes[f.by_need[i - 1]].need >= f.classes[f.by_need[i]].need);
    qn_findings_deinit(&f);
}

/* Features of a class with a single sample, of no samples of another, and of equal samples. */
static void test_few(void) {
    static float x[] = {1, 0, 1, 0, 0, 1}, chances[9];
    static int32_t y[] = {0, 0, 2};
    qn_sample_looks looks = {.allocator = qn_allocator_default(),
                             .features = {.n = 3, .n_views = 1, .width = 2, .x = x, .y = y},
                             .n_classes = 3,
                             .n = {[QN_TEST] = 3},
                             .chances = chances};
    qn_findings f;
    CHECK_OK(qn_findings_make(&looks, 0, NULL, NULL, &f));
    CHECK(f.n_duplicates == 1 && f.n == 3 && f.classes[1].n == 0 && f.by_need[0] == 2);
    CHECK(isfinite(f.accuracy) && f.samples[2].nearest == 0);
    qn_findings_deinit(&f);
}

static void test_failures(void) {
    static points p;
    static float held[N * CLASSES];
    qn_status status = QN_ERROR_MEMORY;
    for (int64_t n = 0; status != QN_OK && n < 1000; n++) {
        failing at = {.left = n};
        const qn_allocator allocator = {&at, failing_allocate, failing_release};
        qn_sample_looks looks;
        qn_findings f = {.n = 0};
        make(&p);
        status = look(&allocator, &p, held, &looks);
        if (status == QN_OK)
            status = qn_findings_make(&looks, 0, NULL, NULL, &f);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_findings_deinit(&f);
        CHECK(at.held_bytes == 0);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    test_findings();
    test_few();
    test_failures();
    return checks_finish();
}
