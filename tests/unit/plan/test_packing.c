/* The packer: every packing is checked; on tiny problems against all orders there are; on
 * rectangles cut into boxes against the packing they were cut from; equal work gives equal offsets;
 * no failing allocation changes anything. */
#include "base/rng.h"
#include "check.h"
#include "cut_rectangle.h"
#include "failing.h"
#include "os/heap.h"
#include "plan/packing/packing.h"

enum { MOST = 512, MUCH = 2000000 };

static qn_box boxes[MOST];

/* Packs with so much work, checks the packing and what is said of it. */
static qn_packing pack(int32_t n, size_t capacity, int64_t most_work) {
    const qn_packing_options options = {.capacity = capacity, .most_work = most_work};
    qn_packing p = {0};
    CHECK_OK(qn_pack(qn_allocator_default(), boxes, n, &options, &p));
    CHECK_OK(qn_packing_check(boxes, n, p.top_bytes));
    size_t top = 0;
    for (int32_t i = 0; i < n; i++)
        top = boxes[i].offset + boxes[i].bytes > top ? boxes[i].offset + boxes[i].bytes : top;
    CHECK(top == p.top_bytes);
    CHECK(p.lower_bound_bytes <= p.proven_bytes && p.proven_bytes <= p.top_bytes);
    CHECK(p.is_optimal == (p.proven_bytes == p.top_bytes));
    CHECK(p.is_impossible == (capacity > 0 && capacity < p.proven_bytes));
    return p;
}

/* ---- all orders ---- */

static size_t lowest(const qn_box *box, const int *before, int n) {
    size_t offset = 0;
    for (int changed = 1; changed;) {
        changed = 0;
        for (int i = 0; i < n; i++) {
            const qn_box *b = &boxes[before[i]];
            if (b->lower < box->upper && box->lower < b->upper && b->offset < offset + box->bytes &&
                offset < b->offset + b->bytes) {
                offset = b->offset + b->bytes;
                changed = 1;
            }
        }
    }
    return offset;
}

/* The lowest top of any order in which each box goes to the lowest free offset, and not above
 * `enough` at best: some order gives an optimal packing, that of its offsets once all have sunk. */
static size_t best_of_all(int *order, int n_done, int n, size_t top, size_t best, size_t enough) {
    if (top >= best || n_done == n)
        return top < best ? top : best;
    for (int i = n_done; i < n && best > enough; i++) {
        const int box = order[i];
        order[i] = order[n_done];
        order[n_done] = box;
        boxes[box].offset = lowest(&boxes[box], order, n_done);
        const size_t end = boxes[box].offset + boxes[box].bytes;
        best = best_of_all(order, n_done + 1, n, end > top ? end : top, best, enough);
        order[n_done] = order[i];
        order[i] = box;
    }
    return best;
}

/* A few boxes, and in most sections another that makes up for the largest load: hardly a packing is
 * perfect, and some problems have none. Returns how many. */
static int make_tight(uint64_t seed, size_t *largest) {
    enum { TIMES = 6, LONG = 4 };
    const qn_rng rng = qn_rng_make(seed, 21, 0);
    size_t loads[TIMES] = {0};
    int n = 0;
    for (; n < LONG; n++) {
        const int64_t lower = (int64_t)qn_rng_below(rng, 3 * (uint64_t)n, TIMES - 1);
        const int64_t most = TIMES - lower - 1;
        const int64_t upper =
            lower + 2 + (int64_t)qn_rng_below(rng, 3 * (uint64_t)n + 1, (uint64_t)most);
        boxes[n] = (qn_box){lower, upper, 1 + qn_rng_below(rng, 3 * (uint64_t)n + 2, 4), 0};
        for (int64_t t = lower; t < upper; t++)
            loads[t] += boxes[n].bytes;
    }
    *largest = 0;
    for (int t = 0; t < TIMES; t++)
        *largest = loads[t] > *largest ? loads[t] : *largest;
    for (int t = 0; t < TIMES; t++) {
        if (loads[t] < *largest && (seed % 4 > 0 || qn_rng_below(rng, 100 + (uint64_t)t, 4) > 0))
            boxes[n++] = (qn_box){t, t + 1, *largest - loads[t], 0};
    }
    return n;
}

static void test_against_all_orders(void) {
    int n_above_bound = 0;
    for (uint64_t seed = 0; seed < 6000; seed++) {
        int order[16] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15};
        size_t largest;
        const int n = make_tight(seed, &largest);
        const size_t best = best_of_all(order, 0, n, 0, SIZE_MAX, largest);
        const qn_packing p = pack(n, 0, MUCH);
        CHECK(p.lower_bound_bytes == largest);
        CHECK(p.top_bytes == best && p.is_optimal);
        CHECK(pack(n, best, MUCH).top_bytes == best);
        if (best > largest) {
            n_above_bound++;
            CHECK(pack(n, best - 1, MUCH).is_impossible);
        }
    }
    CHECK(n_above_bound > 2); /* else there was nothing to prove */
}

/* ---- rectangles ---- */

static void test_rectangles(void) {
    int n_greedy = 0;
    for (int kind = 0; kind < CUT_KINDS; kind++) {
        for (uint64_t seed = 0; seed < 8; seed++) {
            const int64_t times = seed % 2 ? 1000 : 100;
            const int32_t n =
                cut_rectangle((cut_kind)kind, seed, times, 1000, boxes, 20 + 12 * (int32_t)seed);
            n_greedy += pack(n, 0, 0).is_optimal;
            const qn_packing p = pack(n, 0, MUCH);
            CHECK(p.lower_bound_bytes == 1000);
            CHECK(p.top_bytes == 1000 && p.is_optimal);
        }
    }
    CHECK(n_greedy < 20); /* most are not for greedy orders */
    const int32_t n = cut_rectangle(CUT_PINWHEEL, 1, 1024, 1024, boxes, 400);
    CHECK(pack(n, 0, 0).top_bytes > 1200);
    CHECK(pack(n, 0, MUCH).top_bytes == 1024);
}

/* Many boxes begin and end at the same few times. */
static void test_few_times(void) {
    for (int kind = 0; kind < CUT_KINDS; kind++) {
        for (uint64_t seed = 0; seed < 2; seed++) {
            const int32_t n = cut_rectangle((cut_kind)kind, seed, 64, 1024, boxes, 150);
            CHECK(pack(n, 1034, MUCH).top_bytes <= 1034);
        }
    }
    int32_t n = cut_rectangle(CUT_STRAIGHT, 0, 64, 1024, boxes, 200);
    CHECK(pack(n, 0, MUCH / 4).top_bytes == 1024);
    /* where several boxes on either side of a time are equal, which belong together matters */
    n = cut_rectangle(CUT_PINWHEEL, 3, 64, 1024, boxes, 300);
    CHECK(pack(n, 1034, MUCH).top_bytes <= 1034);
}

/* Without every ninth box a packing within the rectangle is still known, and waste is allowed. */
static void test_holes(void) {
    for (uint64_t seed = 0; seed < 6; seed++) {
        int32_t n = cut_rectangle(CUT_PINWHEEL, seed, 300, 1000, boxes, 40);
        n -= n / 9;
        CHECK(pack(n, 1000, MUCH).top_bytes <= 1000);
    }
}

static void test_capacity(void) {
    const int32_t n = cut_rectangle(CUT_STRAIGHT, 3, 1024, 1024, boxes, 100);
    const int64_t work = pack(n, 0, MUCH).work;
    CHECK(work > 5 * n && work < MUCH);
    CHECK(pack(n, 4096, MUCH).work < 6 * n); /* the first order is within it */
    CHECK(pack(n, 1023, MUCH).is_impossible);
    CHECK(!pack(n, 1024, 0).is_impossible);
}

static void test_alignment(void) {
    int32_t n = cut_rectangle(CUT_PINWHEEL, 5, 300, 1000, boxes, 80);
    n -= n / 20;
    for (int32_t i = 0; i < n; i++)
        boxes[i].bytes *= 64;
    CHECK(pack(n, 0, MUCH / 10).top_bytes % 64 == 0);
    for (int32_t i = 0; i < n; i++)
        CHECK(boxes[i].offset % 64 == 0);
}

static void test_equal_work(void) {
    size_t offsets[MOST];
    const int32_t n = cut_rectangle(CUT_STRAIGHT, 9, 64, 1024, boxes, 250);
    for (int64_t work = 0; work <= 40000; work += 20000) {
        const qn_packing first = pack(n, 0, work);
        CHECK(first.work <= work + 5 * n);
        for (int32_t i = 0; i < n; i++)
            offsets[i] = boxes[i].offset;
        const qn_packing second = pack(n, 0, work);
        CHECK(first.top_bytes == second.top_bytes && first.work == second.work);
        for (int32_t i = 0; i < n; i++)
            CHECK(boxes[i].offset == offsets[i]);
    }
}

/* ---- edges ---- */

static void test_edges(void) {
    CHECK(pack(0, 0, MUCH).top_bytes == 0);
    boxes[0] = (qn_box){INT64_MIN, INT64_MAX, 7, 0};
    boxes[1] = (qn_box){INT64_MIN, 0, 0, 3};
    boxes[2] = (qn_box){INT64_MAX - 1, INT64_MAX, SIZE_MAX - 8, 0};
    CHECK(pack(3, 0, MUCH).top_bytes == SIZE_MAX - 1);
    CHECK(boxes[1].offset == 0);
    const qn_packing_options options = {.most_work = 1};
    qn_packing p = {0};
    boxes[2].bytes++;
    boxes[0].offset = 99;
    CHECK_FAILS(qn_pack(NULL, boxes, 3, &options, &p), QN_ERROR_ARGUMENT, "box 2");
    boxes[2] = (qn_box){5, 5, 1, 0};
    CHECK_FAILS(qn_pack(NULL, boxes, 3, &options, &p), QN_ERROR_ARGUMENT, "is empty");
    CHECK(boxes[0].offset == 99 && p.top_bytes == 0);
}

static void test_check(void) {
    const qn_box wrong[] = {{0, 4, 10, 0}, {4, 8, 10, 0}, {3, 5, 5, 10}, {6, 7, 2, 9}};
    CHECK_OK(qn_packing_check(wrong, 3, 15));
    CHECK_FAILS(qn_packing_check(wrong, 4, 15), QN_ERROR_ARGUMENT, "boxes 1 and 3 overlap");
    CHECK_FAILS(qn_packing_check(wrong, 3, 14), QN_ERROR_ARGUMENT, "box 2: bytes 10 to 15");
    const qn_box far = {0, 1, 2, SIZE_MAX};
    CHECK_FAILS(qn_packing_check(&far, 1, SIZE_MAX), QN_ERROR_ARGUMENT, "exceed the top");
}

static void test_failing_allocations(void) {
    const int32_t n = cut_rectangle(CUT_STRAIGHT, 9, 64, 1024, boxes, 60);
    const qn_packing_options options = {.most_work = 20000};
    qn_status status = QN_ERROR_MEMORY;
    for (int64_t i = 0; status != QN_OK && i < 1000; i++) {
        failing f = {.left = i};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_packing p = {.top_bytes = 77};
        boxes[0].offset = 88;
        status = qn_pack(&allocator, boxes, n, &options, &p);
        CHECK(status == QN_OK || (status == QN_ERROR_MEMORY && p.top_bytes == 77));
        CHECK(status == QN_OK || boxes[0].offset == 88);
        CHECK(f.held_bytes == 0);
        CHECK(i > 5 || status != QN_OK);
    }
    CHECK(status == QN_OK);
}

int main(void) {
    test_check();
    test_edges();
    test_against_all_orders();
    test_rectangles();
    test_few_times();
    test_holes();
    test_capacity();
    test_alignment();
    test_equal_work();
    test_failing_allocations();
    return checks_finish();
}
