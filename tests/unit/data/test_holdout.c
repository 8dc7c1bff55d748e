/* Held-out samples: nobody moves from training to test when samples are added, equal samples are on
 * one side, classes have one where they can, the share is near what is asked for, and the text of a
 * checkpoint tells which training samples are test samples now. */
#include "check.h"
#include "data/split/held_out.h"
#include "failing.h"
#include "os/heap.h"

enum { MOST = 4000 };

/* Sample i has content content[i] and class i % n_classes. */
typedef struct set {
    int64_t n, n_classes;
    uint64_t content[MOST];
    qn_held_out *held; /* is told of what is looked at, unless null */
} set;

static set data;

static qn_status look(void *context, int64_t i, uint64_t *content, int32_t *class) {
    const set *s = context;
    *content = qn_hash_bytes(&s->content[i], sizeof s->content[i]);
    *class = s->n_classes > 0 ? (int32_t)(i % s->n_classes) : *class;
    if (s->held)
        qn_held_out_look(s->held, i, *content);
    return QN_OK;
}

static void fill(int64_t n, int64_t n_classes, uint64_t first) {
    data = (set){.n = n, .n_classes = n_classes};
    for (int64_t i = 0; i < n; i++)
        data.content[i] = first + (uint64_t)i;
}

static qn_status hold_out(qn_arena *arena, const qn_allocator *allocator, double part,
                          qn_holdout *h) {
    const qn_holdout_samples samples = {data.n, (int)data.n_classes, &data, look};
    return qn_holdout_by_content(arena, &samples,
                                 &(qn_holdout_options){allocator, part, 7, "test", NULL}, h);
}

/* side[i]: 1 where sample i is held out. Every sample is in one part, in order. */
static void find_sides(const qn_holdout *h, char *side) {
    int64_t last[2] = {-1, -1}, n[2] = {h->n - h->n_test, h->n_test};
    memset(side, 2, (size_t)h->n);
    for (int split = 0; split < 2; split++)
        for (int64_t i = 0; i < n[split]; i++) {
            const int64_t index = qn_holdout_index(h, (qn_split)split, i);
            CHECK(index > last[split] && index < h->n && side[index] == 2);
            side[index] = (char)split;
            last[split] = index;
        }
}

static void check_additions(void) {
    static char before[MOST], after[MOST];
    qn_arena arena;
    qn_holdout h;
    int64_t n_crossed = 0, n_back = 0;
    qn_arena_init(&arena, qn_allocator_default());
    for (uint64_t seed = 0; seed < 40; seed++) {
        fill(60, 2, 1000 * seed);
        CHECK_OK(hold_out(&arena, qn_allocator_default(), 0.2, &h));
        find_sides(&h, before);
        /* Fourteen more, which come first. */
        memmove(data.content + 14, data.content, 60 * sizeof *data.content);
        for (uint64_t i = 0; i < 14; i++)
            data.content[i] = 1000000 + 1000 * seed + i;
        data.n = 74;
        CHECK_OK(hold_out(&arena, qn_allocator_default(), 0.2, &h));
        find_sides(&h, after);
        for (int i = 0; i < 60; i++) {
            n_crossed += before[i] == 0 && after[i + 14] == 1;
            n_back += before[i] == 1 && after[i + 14] == 0;
        }
    }
    CHECK(n_crossed == 0 && n_back == 0);
    qn_arena_deinit(&arena);
}

static void check_share(void) {
    static char side[MOST];
    static const double parts[] = {0.05, 0.1, 0.2, 0.5, 0.9};
    qn_arena arena;
    qn_holdout h;
    qn_arena_init(&arena, qn_allocator_default());
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        fill(MOST, 10, 5);
        CHECK_OK(hold_out(&arena, qn_allocator_default(), parts[i], &h));
        find_sides(&h, side);
        const double deviation = sqrt(MOST * parts[i] * (1 - parts[i]));
        CHECK(fabs((double)h.n_test - MOST * parts[i]) < 4 * deviation && h.n_copies == 0);
    }
    qn_arena_deinit(&arena);
}

/* Classes of ten samples: each has one of them at least, and leaves one to train with. */
static void check_classes(void) {
    static char side[MOST];
    qn_arena arena;
    qn_holdout h;
    qn_arena_init(&arena, qn_allocator_default());
    fill(2000, 200, 77);
    CHECK_OK(hold_out(&arena, qn_allocator_default(), 0.1, &h));
    find_sides(&h, side);
    for (int class = 0; class < 200; class ++) {
        int n = 0;
        for (int k = 0; k < 10; k++)
            n += side[class + 200 * k];
        CHECK(n >= 1 && n <= 9);
    }
    for (int64_t n = 2; n < 12; n++) { /* few samples in all */
        fill(n, n, 3 * (uint64_t)n);
        CHECK_OK(hold_out(&arena, qn_allocator_default(), 0.3, &h));
        CHECK(h.n_test >= 1 && h.n_test < n);
    }
    qn_arena_deinit(&arena);
}

static void check_copies(void) {
    static char side[MOST];
    qn_arena arena;
    qn_holdout h;
    qn_arena_init(&arena, qn_allocator_default());
    fill(3000, 3, 0);
    for (int i = 0; i < 3000; i++)
        data.content[i] = (uint64_t)(i % 1000); /* in three classes */
    CHECK_OK(hold_out(&arena, qn_allocator_default(), 0.2, &h));
    find_sides(&h, side);
    for (int i = 0; i < 2000; i++)
        CHECK(side[i] == side[i + 1000]);
    CHECK(h.n_copies == 2000 && !h.is_estimate);
    memset(data.content, 0, sizeof data.content);
    CHECK_FAILS(hold_out(&arena, qn_allocator_default(), 0.2, &h), QN_ERROR_ARGUMENT,
                "none to train");
    qn_arena_deinit(&arena);
}

static void check_wrong(void) {
    qn_arena arena;
    qn_holdout h;
    qn_arena_init(&arena, qn_allocator_default());
    fill(100, 0, 0);
    CHECK_OK(hold_out(&arena, qn_allocator_default(), 0, &h));
    CHECK(h.n_test == 0 && qn_holdout_index(&h, QN_TRAIN, 17) == 17);
    CHECK_FAILS(hold_out(&arena, qn_allocator_default(), 1.5, &h), QN_ERROR_ARGUMENT, "between 0");
    CHECK_FAILS(hold_out(&arena, qn_allocator_default(), NAN, &h), QN_ERROR_ARGUMENT, "between 0");
    fill(1, 0, 0);
    CHECK_FAILS(hold_out(&arena, qn_allocator_default(), 0.5, &h), QN_ERROR_ARGUMENT,
                "none to train");
    qn_arena_deinit(&arena);
}

static void check_failing(void) {
    for (int64_t n = 0;; n++) {
        failing heap = {.left = n};
        const qn_allocator allocator = {&heap, failing_allocate, failing_release};
        qn_arena arena;
        qn_holdout h;
        qn_arena_init(&arena, &allocator);
        fill(500, 4, 9);
        const qn_status status = hold_out(&arena, &allocator, 0.2, &h);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_arena_deinit(&arena);
        CHECK(heap.held_bytes == 0);
        if (status == QN_OK)
            break;
    }
}

/* ---- what a checkpoint keeps ---- */

static const char *print(qn_arena *arena, const qn_held_out *held, const qn_holdout *h) {
    const char *text = NULL;
    CHECK_OK(qn_held_out_print(arena, held, h, &text));
    return text;
}

/* Of the samples that were trained on under one part, those that another part holds out are found.
 */
static void check_marks(int64_t n) {
    static char first_side[MOST], second_side[MOST];
    static qn_held_out first, second;
    qn_arena arena;
    qn_holdout h;
    qn_arena_init(&arena, qn_allocator_default());
    fill(n, 2, 40);
    CHECK_OK(qn_held_out_parse(NULL, &first));
    data.held = &first;
    CHECK_OK(hold_out(&arena, qn_allocator_default(), 0.2, &h));
    find_sides(&h, first_side);
    const char *text = print(&arena, &first, &h);
    CHECK_OK(qn_held_out_parse(text, &second));
    CHECK(second.n_known > 0 && !second.is_by_place);
    data.held = &second;
    CHECK_OK(hold_out(&arena, qn_allocator_default(), 0.2, &h));
    CHECK(qn_held_out_count_crossed(&second, &h) == 0);
    CHECK(strcmp(print(&arena, &second, &h), text) == 0);
    CHECK_OK(hold_out(&arena, qn_allocator_default(), 0.5, &h));
    find_sides(&h, second_side);
    int n_crossed = 0;
    for (int64_t i = 0; i < n; i++)
        n_crossed += first_side[i] == 0 && second_side[i] == 1;
    const int found = qn_held_out_count_crossed(&second, &h);
    CHECK(n > QN_HELD_OUT_MARKS ? found > 0 && found < n_crossed : found == n_crossed);
    qn_arena_deinit(&arena);
}

static void check_texts(void) {
    static qn_held_out held;
    static const char *const wrong[] = {
        "", "contents", "content 12", "content 0123456789zz", "content 0123456789ab ", "placed"};
    CHECK_OK(qn_held_out_parse("content 0123456789ab 000000000001", &held));
    CHECK(held.n_known == 2 && held.known[0].mark == 1);
    CHECK_OK(qn_held_out_parse("place", &held));
    CHECK(held.is_by_place);
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        CHECK_FAILS(qn_held_out_parse(wrong[i], &held), QN_ERROR_FORMAT, "damaged");
}

/* ---- by place ---- */

/* Every stretch has one held out. */
static void check_place(int64_t n, double part, int64_t n_test) {
    static char side[MOST];
    qn_holdout h;
    CHECK_OK(qn_holdout_by_place(n, part, 5, &h));
    CHECK(h.n_test == n_test);
    find_sides(&h, side);
    for (int64_t i = 0; i < h.n_test; i++) {
        const int64_t index = qn_holdout_index(&h, QN_TEST, i);
        CHECK(index >= i * n / n_test && index < (i + 1) * n / n_test);
    }
}

static void check_places(void) {
    qn_holdout h;
    check_place(100, 0, 0);
    check_place(100, 0.1, 10);
    check_place(997, 0.1, 100);
    check_place(10, 0.9, 9);
    check_place(7, 0.5, 4);
    check_place(3, 0.01, 1);
    CHECK_FAILS(qn_holdout_by_place(1, 0.1, 0, &h), QN_ERROR_ARGUMENT, "none to train");
    CHECK_FAILS(qn_holdout_by_place(100, 1.5, 0, &h), QN_ERROR_ARGUMENT, "between 0 and 1");
    CHECK_FAILS(qn_holdout_by_place(100, NAN, 0, &h), QN_ERROR_ARGUMENT, "between 0 and 1");
}

int main(void) {
    check_additions();
    check_share();
    check_classes();
    check_copies();
    check_wrong();
    check_failing();
    check_marks(100);
    check_marks(3000);
    check_texts();
    check_places();
    return checks_finish();
}
