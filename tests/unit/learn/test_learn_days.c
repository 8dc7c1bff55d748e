/* Learning from a drip: memories are balanced and bounded, the judge is the sign test, a candidate
 * that is not better changes nothing, a round goes on bit for bit, threads change nothing, and
 * a model gets used to changed samples without forgetting. */
#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "learn/days.h"

#include <math.h>
#include <stdlib.h>

enum { N_CLASSES = 4, SIDE = 8, VALUES = SIDE * SIDE };

/* ---- memories ---- */

static void test_memory(void) {
    qn_sample_memory m;
    const float x[2] = {1, 2};
    int64_t first_half = 0;
    CHECK_OK(qn_sample_memory_init(qn_allocator_default(), 40, 2, N_CLASSES, 3, &m));
    for (int i = 0; i < 400; i++) { /* class 0 alone, then some of the others */
        const float own[2] = {(float)i, x[1]};
        qn_sample_memory_offer(&m, own, i < 300 ? 0 : i % N_CLASSES);
    }
    CHECK(m.n == 40 && m.seen[0] == 325 && m.seen[1] == 25);
    for (int c = 0; c < N_CLASSES; c++)
        CHECK(m.counts[c] == 10);
    for (int64_t i = 0; i < m.n; i++)
        first_half += m.labels[i] == 0 && m.x[2 * i] < 160;
    CHECK(first_half >= 1 && first_half <= 9); /* early ones are not all gone */
    const float last = m.x[2 * 39];
    const int32_t label = m.labels[7], moved = m.labels[39];
    const int64_t others = m.counts[label];
    qn_sample_memory_remove(&m, 7);
    CHECK(m.n == 39 && m.x[2 * 7] == last && m.labels[7] == moved && m.counts[label] == others - 1);
    qn_sample_memory_deinit(&m);
}

/* ---- the judge ---- */

static void test_judge(void) {
    const bool model[6] = {true, true, false, false, false, false};
    const bool candidate[6] = {true, false, true, true, true, false};
    qn_comparison c = qn_comparison_make(model, candidate, 6);
    const qn_comparison same = {.n = 100, .n_right = 90};
    CHECK(c.n == 6 && c.n_right == 4 && c.n_better == 3 && c.n_worse == 1);
    CHECK(fabs(qn_comparison_chance(&c) - 5.0 / 16) < 1e-12); /* 4 + 1 of 16 */
    c = (qn_comparison){.n = 50, .n_better = 10};
    CHECK(fabs(qn_comparison_chance(&c) - 1.0 / 1024) < 1e-12);
    CHECK(qn_judge(&c, &same, 0.05, 90, 1));
    CHECK(!qn_judge(&c, &same, 0.05, 92, 1));   /* forgets 2 of 100 */
    CHECK(!qn_judge(&c, &same, 0.0009, 90, 1)); /* not sure enough */
    CHECK(!qn_judge(&same, &same, 1, 90, 1));   /* equal is not better */
    CHECK(fabs(qn_comparison_chance(&same) - 1) < 1e-12);
}

/* ---- the learner ---- */

static qn_value build(qn_graph *graph, void *user, qn_value x, int n_outputs) {
    (void)user;
    x = qn_flatten(graph, "flat", x);
    x = qn_tanh(graph, "tanh", qn_linear_layer(graph, "fc1", x, 16));
    return qn_linear_layer(graph, "fc2", x, n_outputs);
}

static const qn_model small = {.name = "small",
                               .input = {3, {SIDE, SIDE, 1}},
                               .n_classes = N_CLASSES,
                               .recipe = {.rate = 0.2, .momentum = 0.9, .epochs = 1, .batch = 16},
                               .build = build};

/* A bright bar of the class, in noise; turned: lying. */
static void make_sample(uint64_t i, bool is_turned, float *x, int32_t *label) {
    const qn_rng rng = qn_rng_make(11, is_turned, i);
    *label = (int32_t)(i % N_CLASSES);
    for (int k = 0; k < VALUES; k++) {
        const int place = is_turned ? k / SIDE : k % SIDE;
        x[k] = (float)(0.7 * qn_rng_normal(rng, (uint64_t)k)) + (place / 2 == *label ? 1 : 0);
    }
}

static qn_learner_options usual(int n_threads) {
    return (qn_learner_options){.model = &small,
                                .input = small.input,
                                .n_classes = N_CLASSES,
                                .n_kept = 200,
                                .n_held_out = 80,
                                .batch = 16,
                                .epochs = 8,
                                .n_threads = n_threads,
                                .seed = 4};
}

static void offer(qn_learner *l, qn_origin origin, uint64_t first, int n) {
    for (int i = 0; i < n; i++) {
        float x[VALUES];
        int32_t label;
        make_sample(first + (uint64_t)i, origin == QN_ORIGIN_USER, x, &label);
        CHECK_OK(qn_learner_offer(l, origin, QN_USE_DRAWN, x, label, NULL));
    }
}

static double accuracy(qn_learner *l, bool is_turned) {
    enum { N = 200 };
    static float x[N * VALUES];
    static int32_t labels[N];
    int64_t n_right = 0;
    for (int i = 0; i < N; i++)
        make_sample(1000000 + (uint64_t)i, is_turned, x + (ptrdiff_t)i * VALUES, &labels[i]);
    CHECK_OK(qn_learner_test(l, x, labels, N, &n_right));
    return (double)n_right / N;
}

static void keep(qn_learner *l, float *to) {
    const qn_stored_tensor t = qn_engine_find(qn_learner_engine(l), "fc1.weight");
    memcpy(to, t.data, t.bytes);
}

static void live(int n_threads, float *weights, bool is_talkative) {
    const qn_learner_options o = usual(n_threads);
    float before[VALUES * 16], after[VALUES * 16];
    qn_learner *l;
    qn_learned d;
    CHECK_OK(qn_learner_create(&o, &l));
    CHECK_OK(qn_learner_begin(l, qn_learner_engine(l)));
    CHECK_FAILS(qn_learner_offer(l, QN_ORIGIN_USER, QN_USE_DRAWN, before, N_CLASSES, NULL),
                QN_ERROR_ARGUMENT, "class");
    CHECK_OK(qn_learner_learn(l, 1e12, &d));
    CHECK(!d.has_tried && d.version == 0); /* no samples */
    offer(l, QN_ORIGIN_OLD, 0, 200);
    offer(l, QN_ORIGIN_USER, 0, 120);
    CHECK_OK(qn_learner_learn(l, 1, &d));
    CHECK(!d.has_tried); /* no effort */
    keep(l, before);
    const qn_learner_state state = qn_learner_get_state(l);
    float model[1200];
    int64_t n;
    memcpy(model, qn_learner_weights(l, &n), 1108 * sizeof *model);
    CHECK(n == 1108);
    CHECK_OK(qn_learner_learn(l, qn_learner_wanted_flops(l), &d));
    CHECK(d.has_tried && d.has_replaced && !d.is_head && d.version == 1 && d.chance < 0.05);
    CHECK(d.recent.n > 15 && d.recent.n < 45 && d.old.n > 30);
    CHECK(accuracy(l, true) > 0.7);
    keep(l, weights);
    CHECK(memcmp(before, weights, sizeof before) != 0);
    qn_learner_resume(l, &state, model, NULL);
    keep(l, after);
    CHECK(memcmp(before, after, sizeof before) == 0 && qn_learner_version(l) == 0);
    CHECK_OK(qn_learner_learn(l, 0.1 * qn_learner_wanted_flops(l), &d));
    CHECK(d.has_tried && d.is_head);
    keep(l, after); /* the head is not fc1 */
    CHECK(memcmp(before, after, sizeof before) == 0);
    if (is_talkative)
        printf("head: %lld of %lld became right\n", (long long)d.recent.n_better,
               (long long)d.recent.n);
    qn_learner_destroy(l);
}

static void test_learner(void) {
    float one[VALUES * 16], three[VALUES * 16];
    live(1, one, true);
    live(3, three, false);
    CHECK(memcmp(one, three, sizeof one) == 0);
}

/* A round that was left after some steps goes on in another learner with the same samples. */
static void test_rounds(void) {
    const qn_learner_options o = usual(1);
    float whole[VALUES * 16], resumed[VALUES * 16], model[1200];
    static char round[64 * 1024];
    qn_learner *l[2];
    qn_learned d;
    int64_t n;
    for (int i = 0; i < 2; i++) {
        CHECK_OK(qn_learner_create(&o, &l[i]));
        CHECK_OK(qn_learner_begin(l[i], qn_learner_engine(l[i])));
        CHECK(!qn_learner_can_begin(l[i]));
        offer(l[i], QN_ORIGIN_OLD, 0, 100);
        offer(l[i], QN_ORIGIN_USER, 0, 120);
        CHECK(qn_learner_can_begin(l[i]));
    }
    qn_learner_begin_round(l[0]);
    for (int i = 0; i < 50; i++)
        CHECK_OK(qn_learner_step(l[0]));
    const qn_learner_state state = qn_learner_get_state(l[0]);
    CHECK(state.step == 50 && state.n_steps > 60);
    CHECK(qn_learner_round_bytes(l[0]) <= sizeof round);
    qn_learner_save_round(l[0], round);
    memcpy(model, qn_learner_weights(l[0], &n), 1108 * sizeof *model);
    CHECK_OK(qn_learner_learn(l[1], 1e12, &d));
    keep(l[1], whole);
    qn_learner_resume(l[1], &state, model, round);
    while (qn_learner_steps_left(l[1]) > 0)
        CHECK_OK(qn_learner_step(l[1]));
    CHECK_OK(qn_learner_end_round(l[1], &d));
    keep(l[1], resumed);
    CHECK(d.has_replaced && d.version == 1 && memcmp(whole, resumed, sizeof whole) == 0);
    qn_learner_destroy(l[0]);
    qn_learner_destroy(l[1]);
}

/* Random labels: no candidate is better, so the model stays. */
static void test_never_worse(void) {
    const qn_learner_options o = usual(1);
    float before[VALUES * 16], after[VALUES * 16];
    qn_learner *l;
    qn_learned d;
    CHECK_OK(qn_learner_create(&o, &l));
    CHECK_OK(qn_learner_begin(l, qn_learner_engine(l)));
    offer(l, QN_ORIGIN_OLD, 0, 200);
    offer(l, QN_ORIGIN_USER, 0, 200);
    CHECK_OK(qn_learner_learn(l, 1e12, &d));
    CHECK(d.has_replaced);
    for (int i = 0; i < 400; i++) {
        float x[VALUES];
        int32_t label;
        make_sample(5000 + (uint64_t)i, true, x, &label);
        CHECK_OK(qn_learner_offer(l, QN_ORIGIN_USER, QN_USE_DRAWN, x,
                                  (int32_t)qn_rng_below(qn_rng_make(1, 2, 3), (uint64_t)i, 4),
                                  NULL));
    }
    keep(l, before);
    CHECK_OK(qn_learner_learn(l, 1e12, &d));
    CHECK(d.has_tried && !d.has_replaced && d.version == 1);
    keep(l, after);
    CHECK(memcmp(before, after, sizeof before) == 0);
    qn_learner_destroy(l);
}

static void test_failing_allocations(void) {
    for (int64_t n = 0;; n += n < 20 ? 1 : 13) {
        failing f = {.left = n};
        const qn_allocator a = {&f, failing_allocate, failing_release};
        qn_learner_options o = usual(1);
        qn_learner *l = NULL;
        qn_learned d;
        o.allocator = &a;
        qn_status status = qn_learner_create(&o, &l);
        if (status == QN_OK)
            status = qn_learner_begin(l, qn_learner_engine(l));
        if (status == QN_OK) {
            offer(l, QN_ORIGIN_USER, 0, 60);
            status = qn_learner_learn(l, 0.1 * qn_learner_wanted_flops(l), &d);
        }
        qn_learner_destroy(l);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
        CHECK(status == QN_ERROR_MEMORY && n < 5000);
    }
}

/* ---- drift ---- */

static void test_drift(void) {
    static const char *const bad[] = {"",         "rotate",      "rotate:x",
                                      "bright:9", "classes:0.5", "blur:1"};
    const qn_shape shape = {3, {5, 5, 1}};
    uint8_t image[25] = {0}, changed[25];
    qn_drift d;
    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
        CHECK(qn_drift_parse(bad[i], &d) == QN_ERROR_ARGUMENT);
    CHECK_OK(qn_drift_parse("rotate:20,bright:0.5,classes:2", &d));
    CHECK(d.degrees == 20 && d.bright == 0.5 && d.n_new == 2);
    image[2] = 200; /* above the middle */
    CHECK_OK(qn_drift_parse("none", &d));
    qn_drift_apply(&d, shape, QN_U8, 1, image, changed);
    CHECK(memcmp(image, changed, 25) == 0);
    d.bright = 0.5;
    qn_drift_apply(&d, shape, QN_U8, 1, image, changed);
    CHECK(changed[2] == 100);
    d = (qn_drift){.degrees = 90, .bright = 1};
    int sum = 0;
    qn_drift_apply(&d, shape, QN_U8, 1, image, changed);
    for (int i = 0; i < 25; i++)
        sum += changed[i];
    CHECK(changed[2] < 100 && sum > 100 && sum < 320);
}

int main(void) {
    test_memory();
    test_judge();
    test_learner();
    test_rounds();
    test_never_worse();
    test_failing_allocations();
    test_drift();
    return checks_finish();
}
