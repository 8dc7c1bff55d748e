/* Schedules of random graphs of tasks: every rule gives one that the simulation can run, with no
 * core in use twice; ours is never slower than one by one, nor than any other rule, and near the
 * optimum where that can be searched. Energy and a ceiling of power; machines as texts; every
 * failing allocation. */
#include "base/rng.h"
#include "base/status.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "plan/schedule/timetable.h"

#include <math.h>
#include <stdio.h>

static qn_cores machine(int n) {
    qn_cores c = qn_cores_typical(n);
    c.wait_ns = c.thread_ns = 100;
    c.bytes_per_ns = 1000;
    c.near_bytes = 0;
    return c;
}

static qn_cores phone(void) {
    static const char text[] = "# four and four\n"
                               "cores big 4 20 8 1.5\n"
                               "cores little 4 6 4 0.25 # slower\n\n"
                               "memory 14\ncache 0.25\nidle 0.5\noverhead 500 2000 3000\n";
    qn_cores c;
    CHECK_OK(qn_cores_parse(text, sizeof text - 1, &c));
    CHECK(c.near_bytes > 249999 && c.near_bytes < 250001);
    CHECK(c.n == 8 && c.n_kinds == 2 && c.kinds[1].n == 4);
    CHECK(qn_cores_kind(&c, 3) == 0 && qn_cores_kind(&c, 4) == 1);
    return c;
}

/* Layers of a few tasks; each comes after some of the layer before. */
static qn_status make_tasks(const qn_allocator *a, uint64_t seed, int32_t n, qn_tasks *tasks) {
    const qn_rng rng = qn_rng_make(seed, 3, 0);
    uint64_t at = 0;
    int32_t begin = 0;
    QN_TRY(qn_tasks_init(a, n, tasks));
    for (int32_t i = 0; i < n; i++) {
        const double ns = 1000 * (double)(1 + qn_rng_below(rng, at++, 100) % (seed % 2 ? 2 : 100));
        const double serial = (double)qn_rng_below(rng, at++, 100) / 100;
        tasks->curves[i] = (qn_curve){
            .alone_ns = ns, .serial_ns = serial * ns, .flops = ns, .bytes = 10, .thread_ns = 100};
        if (qn_rng_below(rng, at++, 3) == 0)
            begin = i;
        for (int32_t j = begin - 4 > 0 ? begin - 4 : 0; j < begin; j++) {
            if (qn_rng_below(rng, at++, 2) == 0)
                QN_TRY(qn_tasks_add_edge(tasks, j, i));
        }
    }
    return qn_tasks_finish(tasks);
}

/* Order along edges, and on every core one after the other. */
static void check_schedule(const qn_tasks *tasks, const qn_cores *cores, const qn_timetable *s) {
    double free_ns[QN_MAX_CORES] = {0};
    for (int32_t i = 0; i < tasks->n; i++) {
        const qn_turn *turn = &s->turns[s->order[i]];
        CHECK(turn->rank == i && turn->width >= 1 && turn->first >= 0 &&
              turn->first + turn->width <= cores->n);
        for (int c = turn->first; c < turn->first + turn->width; c++) {
            CHECK(turn->begin_ns >= free_ns[c] - 1e-3);
            free_ns[c] = turn->end_ns;
        }
    }
    for (int32_t e = 0; e < tasks->n_edges; e++)
        CHECK(s->turns[tasks->edges[e].before].end_ns <=
              s->turns[tasks->edges[e].after].begin_ns + 1e-3);
}

static double time_of(const qn_tasks *tasks, const qn_cores *cores, qn_timetable_rule rule,
                      int width) {
    qn_timetable s;
    CHECK_OK(qn_timetable_init(tasks->allocator, tasks->n, &s));
    CHECK_OK(qn_timetable_make(tasks, cores, rule, width, &s));
    check_schedule(tasks, cores, &s);
    const double ns = s.ns;
    qn_timetable_deinit(&s);
    return ns;
}

/* None is above what is possible; on one core the work is all that there is. */
static void check_bounds(const qn_tasks *tasks, const qn_cores *cores, const qn_timetable *s) {
    qn_timetable_bounds b;
    CHECK_OK(qn_timetable_bound(tasks, cores, &b));
    CHECK(b.critical_path_ns > 0 && b.critical_path_ns <= s->ns * (1 + 1e-9));
    CHECK(b.work_ns > 0 && b.work_ns <= s->ns * (1 + 1e-9));
    CHECK(b.memory_ns >= 0 && b.memory_ns <= s->ns * (1 + 1e-9));
    CHECK(cores->n > 1 || b.work_ns >= s->ns * (1 - 1e-9));
}

static void test_rules(void) {
    for (uint64_t seed = 1; seed <= 12; seed++) {
        const int n_cores[] = {1, 2, 4, 16};
        for (int i = 0; i < 5; i++) {
            const qn_cores cores = i < 4 ? machine(n_cores[i]) : phone();
            qn_tasks tasks;
            qn_timetable ours;
            CHECK_OK(make_tasks(qn_allocator_default(), seed, 80, &tasks));
            CHECK_OK(qn_timetable_init(tasks.allocator, tasks.n, &ours));
            CHECK_OK(qn_timetable_choose(&tasks, &cores, QN_PREFER_TIME, &ours));
            check_schedule(&tasks, &cores, &ours);
            CHECK(ours.ns <= time_of(&tasks, &cores, QN_TIMETABLE_ONE_BY_ONE, 0));
            check_bounds(&tasks, &cores, &ours);
            CHECK(ours.ns <= time_of(&tasks, &cores, QN_TIMETABLE_HEFT, 0));
            CHECK(ours.ns <= 1.05 * time_of(&tasks, &cores, QN_TIMETABLE_BEST_WIDTH, 0));
            for (int width = 1; width <= cores.n; width *= 2)
                CHECK(ours.ns <= 1.05 * time_of(&tasks, &cores, QN_TIMETABLE_FIFO, width));
            qn_timetable_deinit(&ours);
            qn_tasks_deinit(&tasks);
        }
    }
}

/* Of graphs of seven tasks on two cores: the mean, and each. */
static void test_optimum(void) {
    enum { GRAPHS = 40 };
    double sum = 0;
    for (uint64_t seed = 1; seed <= GRAPHS; seed++) {
        qn_cores cores = machine(2);
        qn_tasks tasks;
        qn_timetable ours, best;
        cores.wait_ns = 0;
        cores.help = 1; /* the optimum is of cores that keep to their own work */
        CHECK_OK(make_tasks(qn_allocator_default(), seed, 7, &tasks));
        CHECK_OK(qn_timetable_init(tasks.allocator, tasks.n, &ours));
        CHECK_OK(qn_timetable_init(tasks.allocator, tasks.n, &best));
        CHECK_OK(qn_timetable_choose(&tasks, &cores, QN_PREFER_TIME, &ours));
        CHECK_OK(qn_timetable_optimum(&tasks, &cores, &best));
        check_schedule(&tasks, &cores, &best);
        CHECK(best.ns <= ours.ns * (1 + 1e-9));
        CHECK(ours.ns <= 1.15 * best.ns);
        sum += best.ns / ours.ns;
        qn_timetable_deinit(&ours);
        qn_timetable_deinit(&best);
        qn_tasks_deinit(&tasks);
    }
    printf("of the optimum: %.4f\n", sum / GRAPHS);
    CHECK(sum / GRAPHS >= 0.97);
}

/* From the fastest to the cheapest, each slower and cheaper than the one before. */
static void check_trades(const qn_trades *t, const qn_timetable *fast, const qn_timetable *cheap) {
    CHECK(t->n >= 2);
    CHECK(t->list[0].ns <= fast->ns && t->list[t->n - 1].joules <= cheap->joules);
    for (int i = 1; i < t->n; i++)
        CHECK(t->list[i].ns > t->list[i - 1].ns && t->list[i].joules < t->list[i - 1].joules);
}

static void test_energy(void) {
    const qn_cores cores = phone();
    qn_cores fast_part, cheap_part, part;
    qn_trades trades = {0};
    qn_tasks tasks;
    qn_timetable fast, cheap, cool;
    CHECK_OK(make_tasks(qn_allocator_default(), 5, 60, &tasks));
    CHECK_OK(qn_timetable_init(tasks.allocator, tasks.n, &fast));
    CHECK_OK(qn_timetable_init(tasks.allocator, tasks.n, &cheap));
    CHECK_OK(qn_timetable_init(tasks.allocator, tasks.n, &cool));
    CHECK_OK(qn_timetable_prefer(&tasks, &cores, QN_PREFER_TIME, 0, &fast_part, &fast, &trades));
    CHECK_OK(
        qn_timetable_prefer(&tasks, &cores, QN_PREFER_ENERGY, 0, &cheap_part, &cheap, &trades));
    CHECK(fast_part.n == 8);
    CHECK(cheap.joules <= fast.joules && fast.ns <= cheap.ns);
    check_schedule(&tasks, &cheap_part, &cheap);
    check_trades(&trades, &fast, &cheap);
    CHECK_OK(qn_timetable_prefer(&tasks, &cores, QN_PREFER_TIME, 3, &part, &cool, NULL));
    CHECK(cool.most_watts <= 3 && cool.ns >= fast.ns);
    check_schedule(&tasks, &part, &cool);
    CHECK(qn_timetable_prefer(&tasks, &cores, QN_PREFER_TIME, 0.6, &part, &cool, NULL) ==
          QN_ERROR_ARGUMENT);
    qn_timetable_deinit(&fast);
    qn_timetable_deinit(&cheap);
    qn_timetable_deinit(&cool);
    qn_tasks_deinit(&tasks);
}

/* What was measured is predicted; more threads never take less than memory needs. */
static void test_curves(void) {
    const qn_cores cores = machine(4);
    const qn_cost cost = {.flops = 1000000, .bytes = 4000};
    const qn_curve c = qn_curve_fit(&cores, &cost, 80000, 30000, 4);
    CHECK(fabs(qn_curve_ns(&c, &cores, 0, 1) - 80000) < 1e-3);
    CHECK(fabs(qn_curve_ns(&c, &cores, 0, 4) - 30000) < 1e-3);
    const double two = qn_curve_ns(&c, &cores, 0, 2);
    CHECK(two > 30000 && two < 80000);
    /* So is what was faster than the cores' threads or their memory should allow. */
    const qn_curve fast = qn_curve_fit(&cores, &cost, 4000, 1010, 4);
    CHECK(fabs(qn_curve_ns(&fast, &cores, 0, 4) - 1010) < 1e-3);
    const qn_curve near = qn_curve_fit(&cores, &(qn_cost){10, 40000000}, 80000, 20000, 4);
    CHECK(fabs(qn_curve_ns(&near, &cores, 0, 4) - 20000) < 1e-3);
    const qn_curve bound = qn_curve_estimate(&cores, &(qn_cost){.flops = 10, .bytes = 40000000});
    CHECK(qn_curve_ns(&bound, &cores, 0, 4) >= 40000);
}

/* Two that need all of the bandwidth take twice as long side by side. */
static void test_bandwidth(void) {
    qn_cores cores = machine(2);
    qn_tasks tasks;
    qn_timetable s;
    cores.bytes_per_ns = 10;
    CHECK_OK(qn_tasks_init(qn_allocator_default(), 2, &tasks));
    for (int i = 0; i < 2; i++)
        tasks.curves[i] = (qn_curve){.alone_ns = 1e6, .serial_ns = 0, .flops = 1, .bytes = 1e7};
    CHECK_OK(qn_tasks_finish(&tasks));
    CHECK_OK(qn_timetable_init(tasks.allocator, 2, &s));
    CHECK_OK(qn_timetable_make(&tasks, &cores, QN_TIMETABLE_FIFO, 1, &s));
    CHECK(s.turns[0].first != s.turns[1].first);
    CHECK(fabs(s.ns - 2e6) < 1);
    qn_timetable_deinit(&s);
    qn_tasks_deinit(&tasks);
}

/* Tasks without edges, on one core each. */
static qn_timetable place(const qn_cores *cores, int n, const qn_curve *curves, qn_tasks *tasks) {
    qn_timetable s;
    CHECK_OK(qn_tasks_init(qn_allocator_default(), n, tasks));
    for (int i = 0; i < n; i++)
        tasks->curves[i] = curves[i];
    CHECK_OK(qn_tasks_finish(tasks));
    CHECK_OK(qn_timetable_init(tasks->allocator, n, &s));
    for (int i = 0; i < n; i++) {
        s.turns[i] = (qn_turn){.first = (int16_t)i, .width = 1, .rank = i};
        s.order[i] = i;
    }
    CHECK_OK(qn_timetable_simulate(tasks, cores, &s));
    return s;
}

static double ns_of(const qn_cores *cores, int n, const qn_curve *curves) {
    qn_tasks tasks;
    qn_timetable s = place(cores, n, curves, &tasks);
    const double ns = s.ns;
    qn_timetable_deinit(&s);
    qn_tasks_deinit(&tasks);
    return ns;
}

/* Nobody gets more of the memory than there is: what three threads need of it, of which one needs
 * little; and what is in caches needs none. */
static void test_fair_bandwidth(void) {
    qn_cores cores = machine(4);
    cores.help = 1;
    cores.bytes_per_ns = 10;
    cores.near_bytes = 0;
    qn_curve c[4];
    for (int i = 0; i < 4; i++)
        c[i] = (qn_curve){.alone_ns = 1e6, .serial_ns = 1e6, .flops = 1, .bytes = 4e6};
    CHECK(fabs(ns_of(&cores, 4, c) - 1.6e6) < 1); /* 16 MB at 10 bytes a nanosecond */
    c[0].bytes = 1e6;                             /* the others share nine tenths */
    qn_tasks tasks;
    qn_timetable s = place(&cores, 4, c, &tasks);
    CHECK(fabs(s.turns[0].end_ns - 1e6) < 1);
    CHECK(s.turns[1].end_ns > 1.3e6 && s.ns < 1.34e6);
    CHECK(fabs(s.ns - 1.3e6) < 1); /* 13 MB in all, and always more than there is of it */
    check_bounds(&tasks, &cores, &s);
    qn_timetable_deinit(&s);
    qn_tasks_deinit(&tasks);
    cores.near_bytes = 4e6;
    CHECK(fabs(ns_of(&cores, 4, c) - 1e6) < 1);
}

/* A core without work takes part in what another one is at, as far as there is room. */
static void test_help(void) {
    qn_cores cores = machine(4);
    cores.thread_ns = 0;
    const qn_curve long_one = {.alone_ns = 4e6, .flops = 1, .bytes = 10};
    const qn_curve both[2] = {long_one, {.alone_ns = 1e6, .flops = 1, .bytes = 10}};
    cores.help = 1;
    CHECK(fabs(ns_of(&cores, 1, &long_one) - 4e6) < 1);
    cores.help = 2;
    CHECK(fabs(ns_of(&cores, 1, &long_one) - 2e6) < 1);
    cores.help = 4;
    CHECK(fabs(ns_of(&cores, 1, &long_one) - 1e6) < 1);
    /* Three take part in the first, then all four once the other, which nobody helps, is done. */
    CHECK(fabs(ns_of(&cores, 2, both) - (1e6 + (4e6 - 3e6) / 4)) < 1);
    cores.thread_ns = 5e6; /* help that costs more than it brings is none */
    const qn_curve dear = {.alone_ns = 4e6, .flops = 1, .bytes = 10, .thread_ns = 5e6};
    CHECK(fabs(ns_of(&cores, 1, &dear) - 4e6) < 1);
}

/* What is in a cache that is half as fast beside others takes longer by the part of its time that
 * it walks through it, and by the part of the memory that the others take. */
static void test_caches(void) {
    qn_cores cores = machine(2);
    qn_tasks tasks;
    qn_timetable s;
    cores.bytes_per_ns = 10;
    cores.wait_ns = 0;
    cores.n_caches = 2;
    cores.caches[0] = (qn_core_cache){1e5, 100, 50};
    cores.caches[1] = (qn_core_cache){0, 10, 10};
    CHECK_OK(qn_tasks_init(qn_allocator_default(), 2, &tasks));
    tasks.curves[0] = (qn_curve){.alone_ns = 2e3, .flops = 1, .bytes = 1e5};
    tasks.curves[1] = (qn_curve){.alone_ns = 1e6, .flops = 1, .bytes = 5e6};
    CHECK(fabs(qn_curve_disturbance(&tasks.curves[0], &cores, 2e3) - 0.5) < 1e-9);
    CHECK(qn_curve_disturbance(&tasks.curves[1], &cores, 1e6) < 1e-9);
    tasks.curves[0].bytes = 1e4;
    CHECK(fabs(qn_curve_disturbance(&tasks.curves[0], &cores, 200) - 0.5) < 1e-9);
    CHECK(fabs(qn_curve_disturbance(&tasks.curves[0], &cores, 2e3) - 0.05) < 1e-9);
    CHECK_OK(qn_tasks_finish(&tasks));
    CHECK_OK(qn_timetable_init(tasks.allocator, 2, &s));
    CHECK_OK(qn_timetable_make(&tasks, &cores, QN_TIMETABLE_FIFO, 1, &s));
    const qn_turn *t = &s.turns[0];
    /* It walks a twentieth of its time; the other one takes half of the memory. */
    CHECK(fabs(t->end_ns - t->begin_ns - 2e3 * (1 + 0.05 * 0.5)) < 1);
    cores.n_caches = 0;
    CHECK(qn_curve_disturbance(&tasks.curves[0], &cores, 200) == 0);
    qn_timetable_deinit(&s);
    qn_tasks_deinit(&tasks);
}

static void test_texts(void) {
    static const char *const wrong[] = {
        "",
        "cores a 1 1 1 1\n",
        "memory 10\n",
        "cores a 1.5 1 1 1\nmemory 1",
        "cores a 65 1 1 1\nmemory 1",
        "cores a 1 0 1 1\nmemory 1",
        "cores a 1 1 1\nmemory 1",
        "cores a 1 1 1 nan\nmemory 1",
        "cores averyveryverylongname 1 1 1 1\nmemory 1",
        "cores a 1 1 1 1\nmemory 1\nspeed 3",
        "cores a 1 1 1 1\nmemory 1 2",
        "cores a 1 1 1 1\nmemory 1\ncache -1",
        "cores a 1 1 1 1\nmemory 1\ncache",
        "cores a 1 1 1 1 1 1 1 1 1 1\nmemory 1",
        "cores a 1 1 1 1\ncores b 1 1 1 1\ncores c 1 1 1 1\ncores d 1 1 1 1\ncores e 1 1 1 1\n",
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        qn_cores cores;
        CHECK(qn_cores_parse(wrong[i], strlen(wrong[i]), &cores) == QN_ERROR_FORMAT);
    }
}

static qn_status choose_with(const qn_allocator *a) {
    const qn_cores cores = machine(2);
    qn_tasks tasks = {0};
    qn_timetable s = {0};
    qn_cores part;
    qn_status status = make_tasks(a, 3, 6, &tasks);
    if (status == QN_OK)
        status = qn_timetable_init(a, tasks.n, &s);
    if (status == QN_OK)
        status = qn_timetable_prefer(&tasks, &cores, QN_PREFER_BALANCED, 0, &part, &s, NULL);
    qn_timetable_deinit(&s);
    qn_tasks_deinit(&tasks);
    return status;
}

static void test_failing_allocations(void) {
    bool is_done = false;
    for (int64_t n = 0; !is_done; n++) {
        failing f = {.left = n};
        const qn_allocator a = {&f, failing_allocate, failing_release};
        const qn_status status = choose_with(&a);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
        is_done = status == QN_OK;
    }
}

int main(void) {
    test_rules();
    test_optimum();
    test_energy();
    test_curves();
    test_bandwidth();
    test_fair_bandwidth();
    test_help();
    test_caches();
    test_texts();
    test_failing_allocations();
    return checks_finish();
}
