/* Attribution of readings to spans: against a sum over every nanosecond on random instances, by
 * hand on the cases that matter, and conservation whatever runs side by side. */
#include "meter/results/attribution.h"

#include "base/memory.h"
#include "base/rng.h"
#include "check.h"
#include "os/heap.h"

#include <stdlib.h>

enum { ROWS = 5, MOST = 64, LENGTH = 400 };

/* A random instance. */
typedef struct instance {
    qn_reading readings[MOST];
    qn_span spans[MOST];
    size_t n_readings, n_spans;
    int64_t begin_ns, end_ns;
    qn_rng rng;
    uint64_t word;
} instance;

static int64_t below(instance *in, int64_t n) {
    return (int64_t)qn_rng_below(in->rng, in->word++, (uint64_t)n);
}

static int compare_spans(const void *left, const void *right) {
    const qn_span *a = left, *b = right;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* Readings of up to longest_reading with gaps now and then; spans of up to longest_span anywhere.
 */
static void fill(instance *in, uint64_t key, int64_t longest_reading, int64_t longest_span) {
    *in = (instance){.rng = qn_rng_make(key, 0, 0)};
    int64_t now = below(in, 20);
    while (in->n_readings < MOST && now < LENGTH) {
        const int64_t length = 1 + below(in, longest_reading);
        const double value = below(in, 8) == 0 ? NAN : (double)below(in, 1000) / 7;
        in->readings[in->n_readings++] = (qn_reading){now, now + length, value};
        now += length + (below(in, 4) == 0 ? below(in, 10) : 0);
    }
    in->n_spans = (size_t)below(in, MOST);
    for (size_t i = 0; i < in->n_spans; i++) {
        const int64_t begin = below(in, LENGTH);
        const float weight = (float)below(in, 4) / 3; /* 0 too */
        in->spans[i] =
            (qn_span){begin, begin + below(in, longest_span), (int32_t)below(in, ROWS), weight};
    }
    qsort(in->spans, in->n_spans, sizeof *in->spans, compare_spans);
    in->begin_ns = below(in, LENGTH / 3);
    in->end_ns = in->begin_ns + below(in, LENGTH);
}

/* The specification: each nanosecond of its own. */
static void attribute_slowly(const instance *in, qn_shares *shares) {
    for (int64_t now = in->begin_ns; now < in->end_ns; now++) {
        double value = 0, weight = 0;
        for (size_t i = 0; i < in->n_readings; i++) {
            const qn_reading *r = &in->readings[i];
            if (r->begin_ns <= now && now < r->end_ns && isfinite(r->value))
                value = r->value * 1e-9;
        }
        for (size_t i = 0; i < in->n_spans; i++) {
            if (in->spans[i].begin_ns <= now && now < in->spans[i].end_ns)
                weight += in->spans[i].weight;
        }
        for (size_t i = 0; i < in->n_spans; i++) {
            if (weight > 0 && in->spans[i].begin_ns <= now && now < in->spans[i].end_ns)
                shares->rows[in->spans[i].row] += value * in->spans[i].weight / weight;
        }
        shares->idle += weight > 0 ? 0 : value;
        shares->total += value;
    }
}

static double sum_of(const qn_shares *shares, int n_rows) {
    double sum = shares->idle;
    for (int i = 0; i < n_rows; i++)
        sum += shares->rows[i];
    return sum;
}

static bool is_near(double a, double b, double scale) {
    return fabs(a - b) <= 1e-12 * scale;
}

static bool agrees(const instance *in) {
    double fast_rows[ROWS] = {0}, slow_rows[ROWS] = {0};
    qn_shares fast = {.rows = fast_rows}, slow = {.rows = slow_rows};
    attribute_slowly(in, &slow);
    if (qn_attribute(qn_allocator_default(), in->readings, in->n_readings, in->spans, in->n_spans,
                     in->begin_ns, in->end_ns, &fast) != QN_OK)
        return false;
    bool same = is_near(fast.idle, slow.idle, slow.total) &&
                is_near(fast.total, slow.total, slow.total) &&
                is_near(sum_of(&fast, ROWS), fast.total, fast.total);
    for (int i = 0; i < ROWS; i++)
        same = same && is_near(fast_rows[i], slow_rows[i], slow.total);
    return same;
}

/* Readings longer than spans, the reverse, and both alike. */
static void test_against_specification(void) {
    const int64_t lengths[][2] = {{60, 6}, {3, 150}, {12, 12}, {1, 1}, {400, 400}};
    int n_wrong = 0;
    instance in;
    for (int kind = 0; kind < 5; kind++) {
        for (uint64_t key = 0; key < 200; key++) {
            fill(&in, key + 1000 * (uint64_t)kind, lengths[kind][0], lengths[kind][1]);
            n_wrong += !agrees(&in);
        }
    }
    CHECK(n_wrong == 0);
}

/* 2 W over 10 s; spans of weights 1 and 3 that share the middle, and two gaps. */
static void test_by_hand(void) {
    const int64_t s = 1000000000;
    const qn_reading readings[] = {{0, 4 * s, 2}, {4 * s, 10 * s, 2}};
    const qn_span spans[] = {{1 * s, 5 * s, 0, 1}, {3 * s, 9 * s, 1, 3}};
    double rows[2] = {0};
    qn_shares shares = {.rows = rows};
    CHECK_OK(qn_attribute(qn_allocator_default(), readings, 2, spans, 2, 0, 10 * s, &shares));
    CHECK(fabs(rows[0] - (4 + 1)) < 1e-12);
    CHECK(fabs(rows[1] - (3 + 8)) < 1e-12);
    CHECK(fabs(shares.idle - 4) < 1e-12);
    CHECK(fabs(shares.total - 20) < 1e-12);
    /* Adds to what is there; windows side by side make the whole. */
    CHECK_OK(qn_attribute(qn_allocator_default(), readings, 2, spans, 2, 0, 4 * s, &shares));
    CHECK_OK(qn_attribute(qn_allocator_default(), readings, 2, spans, 2, 4 * s, 10 * s, &shares));
    CHECK(fabs(rows[0] - 10) < 1e-12 && fabs(shares.total - 40) < 1e-12);
}

/* Readings of 1 ms over operations of 3 to 41 ms, one of which burns 9 W where all else is 2 W: it
 * gets its energy within 2 %, although readings are means that straddle its borders. */
static void test_burst(void) {
    enum { STEPS = 50, READINGS = 4200 };
    static qn_reading readings[READINGS];
    static qn_span spans[4 * STEPS];
    const int64_t lengths[] = {13000000, 41000000, 3000000, 20000000}, pause = 1500000;
    double rows[4] = {0}, truth = 0;
    qn_shares shares = {.rows = rows};
    int64_t now = 0;
    int n_spans = 0, n_readings = 0;
    for (int step = 0; step < STEPS; step++) {
        for (int i = 0; i < 4; i++, now += pause) {
            spans[n_spans++] = (qn_span){now, now + lengths[i], i, 2};
            truth += i == 1 ? 9 * (double)lengths[i] * 1e-9 : 0;
            now += lengths[i];
        }
    }
    for (int64_t at = 0; at < now; at += 1000000, n_readings++) {
        double joules = 0;
        for (int64_t part = at; part < at + 1000000; part += 100000) {
            bool is_burst = false;
            for (int i = 1; i < n_spans; i += 4)
                is_burst = is_burst || (spans[i].begin_ns <= part && part < spans[i].end_ns);
            joules += (is_burst ? 9 : 2) * 1e-4;
        }
        readings[n_readings] = (qn_reading){at, at + 1000000, joules / 1e-3};
    }
    CHECK_OK(qn_attribute(qn_allocator_default(), readings, (size_t)n_readings, spans,
                          (size_t)n_spans, 0, now, &shares));
    CHECK(fabs(rows[1] / truth - 1) < 0.02);
    CHECK(fabs(sum_of(&shares, 4) / shares.total - 1) < 1e-12);
}

/* A million spans, each a few microseconds, on two threads: nothing gets lost in rounding. */
static void test_long_run(void) {
    enum { N = 1000000 };
    qn_span *spans = malloc(N * sizeof *spans);
    double rows[7] = {0};
    qn_shares shares = {.rows = rows};
    for (int i = 0; i < N; i++)
        spans[i] = (qn_span){i * 3000LL, i * 3000LL + 5000, i % 7, 1.37F};
    const qn_reading reading = {0, N * 3000LL + 1000000, 12.5};
    CHECK_OK(
        qn_attribute(qn_allocator_default(), &reading, 1, spans, N, 0, reading.end_ns, &shares));
    CHECK(fabs(shares.total - 12.5e-9 * (double)reading.end_ns) < 1e-9);
    CHECK(fabs(sum_of(&shares, 7) - shares.total) < 1e-9);
    CHECK(fabs(rows[3] - (shares.total - shares.idle) / 7) < 1e-4);
    free(spans);
}

static void *fail_allocate(void *user, size_t bytes, size_t align) {
    (void)user, (void)bytes, (void)align;
    return NULL;
}

static void fail_release(void *user, void *memory, size_t bytes) {
    (void)user, (void)memory, (void)bytes;
}

/* Nothing has changed after a failure; without spans no memory is needed. */
static void test_failing_allocation(void) {
    const qn_allocator none = {NULL, fail_allocate, fail_release};
    const qn_reading readings[] = {{0, 500, 3}, {500, 1000, 4}};
    const qn_span span = {600, 700, 0, 1};
    double rows[1] = {1};
    qn_shares shares = {rows, 2, 3};
    CHECK(qn_attribute(&none, readings, 2, &span, 1, 0, 1000, &shares) == QN_ERROR_MEMORY);
    CHECK(rows[0] == 1 && shares.idle == 2 && shares.total == 3);
    CHECK_OK(qn_attribute(&none, readings, 2, NULL, 0, 0, 1000, &shares));
    CHECK(fabs(shares.idle - 2 - 3.5e-6) < 1e-12);
    CHECK_OK(qn_attribute(&none, NULL, 0, NULL, 0, 0, 1000, &shares));
}

int main(void) {
    test_against_specification();
    test_by_hand();
    test_burst();
    test_long_run();
    test_failing_allocation();
    return checks_finish();
}
