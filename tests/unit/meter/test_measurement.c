/* Measurements worked out from recordings whose answers are known by hand, and conservation on
 * random ones. */
#include "meter/recording.h"

#include "base/rng.h"
#include "check.h"
#include "failing.h"
#include "meter/results/metrics.h"
#include "meter/results/periodicity.h"
#include "meter/results/tables.h"
#include "os/heap.h"

#include <stdlib.h>

#define MS 1000000LL

/* A machine of two cores: 1 GFLOP/s each, 1 GB/s from memory, 1.5 GB/s together. */
static const qn_roofline machine = {
    .n_peaks = 2,
    .peaks = {{"cpu", "f32", 2, 1e9, 2e9}, {"cpu", "f64", 2, 5e8, 1e9}},
    .n_levels = 2,
    .levels = {{"L1", 1000, 2000, 4e9, 8e9}, {"DRAM", 0, 0, 1e9, 1.5e9}},
};

/* ---- three steps of 100 ms, after two that are left out ---- */

enum { STEPS = 5, SKIPPED = 2, TICKS = 10 * STEPS };

static const qn_recorded_operation operations[] = {
    {{"conv2d", "conv1", "cpu", QN_PASS_FORWARD, 2, 40000000, 1000000, false}, 0, 0},
    {{"sgd", "conv1.weight.update", "cpu", QN_PASS_UPDATE, 2, 1000, 6000000, false}, 0, 1},
    {{"add", "sum", "cpu", QN_PASS_FORWARD, 2, 100, 1200, false}, 0, 2},
    {{"conv2d", "conv1", "cpu", QN_PASS_FORWARD, 2, 40000000, 1000000, false},
     1,
     0}, /* never runs */
};

typedef struct made {
    qn_recording recording;
    int64_t marks[STEPS + 1];
    qn_event events[5 * STEPS];
    qn_reading power[TICKS], cpu[TICKS], process[TICKS], core[2][TICKS], resident[TICKS];
    qn_series series[8];
} made;

static void add_event(made *m, int64_t begin, int64_t end, int item, int thread,
                      qn_event_kind kind) {
    m->events[m->recording.n_events++] = (qn_event){.begin_ns = begin,
                                                    .end_ns = end,
                                                    .item = item,
                                                    .thread = (int16_t)thread,
                                                    .kind = (int32_t)kind};
}

static void add_series(made *m, const char *name, qn_quantity quantity, qn_part part,
                       const qn_reading *readings, size_t n) {
    qn_series *s = &m->series[m->recording.n_series++];
    *s =
        (qn_series){.channel = {.source = "made", .quantity = quantity, .part = part, .inside = -1},
                    .n = n,
                    .readings = readings};
    snprintf(s->channel.name, sizeof s->channel.name, "%s", name);
}

static qn_series *series_of(made *m, const char *name) {
    for (int i = 0; i < m->recording.n_series; i++) {
        if (strcmp(m->series[i].channel.name, name) == 0)
            return &m->series[i];
    }
    return NULL;
}

/* In each step: conv1 runs from 0 to 40 ms, thread 1 with it to 30 ms, its update from 60 to 80 ms.
 * The whole takes 5 W while conv1 runs, else 2 W. */
static void make(made *m) {
    memset(m, 0, sizeof *m);
    for (int step = 0; step < STEPS; step++) {
        const int64_t at = m->marks[step] = 1000 * MS + step * 100 * MS;
        add_event(m, at, at + 90 * MS, -1, 0, QN_EVENT_RUN);
        add_event(m, at, at + 40 * MS, 0, 0, QN_EVENT_OPERATION);
        add_event(m, at, at + 30 * MS, 0, 1, QN_EVENT_SHARE);
        add_event(m, at + 60 * MS, at + 80 * MS, 1, 0, QN_EVENT_OPERATION);
        for (int i = 0; i < 10; i++) {
            const int64_t begin = at + i * 10 * MS;
            const int tick = 10 * step + i;
            const double busy = i < 4 ? 1.5 : i >= 6 && i < 8 ? 1 : 0;
            m->power[tick] = (qn_reading){begin, begin + 10 * MS, i < 4 ? 5 : 2};
            m->cpu[tick] = (qn_reading){begin, begin + 10 * MS, 1.5};
            m->process[tick] = (qn_reading){begin, begin + 10 * MS, busy};
            m->core[0][tick] = (qn_reading){begin, begin + 10 * MS, busy > 1 ? 1 : busy};
            m->core[1][tick] = (qn_reading){begin, begin + 10 * MS, busy > 1 ? 0.5 : 0.004};
            m->resident[tick] = (qn_reading){begin, begin + 10 * MS, 1e6 * (tick % 17)};
        }
    }
    m->marks[STEPS] = m->marks[0] + STEPS * 100 * MS;
    add_series(m, "input", QN_QUANTITY_POWER, QN_PART_SYSTEM, m->power, TICKS);
    m->series[0].counts = true;
    add_series(m, "package", QN_QUANTITY_POWER, QN_PART_CPU, m->cpu, TICKS);
    add_series(m, "process", QN_QUANTITY_UTILISATION, QN_PART_PROCESS, m->process, TICKS);
    add_series(m, "cpu0", QN_QUANTITY_UTILISATION, QN_PART_CORE, m->core[0], TICKS);
    add_series(m, "cpu1", QN_QUANTITY_UTILISATION, QN_PART_CORE, m->core[1], TICKS);
    add_series(m, "resident", QN_QUANTITY_MEMORY, QN_PART_PROCESS, m->resident, TICKS);
    add_series(m, "lost", QN_QUANTITY_POWER, QN_PART_GPU, NULL, 0);
    m->recording.operations = operations;
    m->recording.n_operations = 4;
    m->recording.n_threads = 2;
    m->recording.dtype = "f32";
    m->recording.roofline = &machine;
    m->recording.marks_ns = m->marks;
    m->recording.n_marks = STEPS + 1;
    m->recording.skip_steps = SKIPPED;
    m->recording.samples_per_step = 16;
    m->recording.events = m->events;
    m->recording.series = m->series;
}

static bool is_near(double a, double b) {
    return fabs(a - b) <= 1e-9 * fmax(fabs(a), fabs(b));
}

static void check_run(const qn_measurement *m) {
    CHECK(m->n_steps == 3 && m->skipped_steps == 2);
    CHECK(m->begin_ns == 1200 * MS && m->end_ns == 1500 * MS);
    CHECK(is_near(m->steps[1].operations_ms, 60) && is_near(m->steps[1].idle_ms, 40));
    CHECK(is_near(m->steps[2].energy_mj, 320));
    CHECK(is_near(m->step_ms_mean, 100) && is_near(m->step_ms_median, 100));
    CHECK(m->step_ms_deviation < 1e-9);
    CHECK(is_near(m->operations_ms_per_step, 60) && is_near(m->idle_ms_per_step, 40));
    CHECK(is_near(m->throughput, 160));
    CHECK(is_near(m->energy_j, 0.96) && is_near(m->energy_mj_per_step, 320));
    CHECK(is_near(m->energy_mj_per_sample, 20) && is_near(m->idle_energy_j, 0.24));
    CHECK(is_near(m->part_energy_j[QN_PART_SYSTEM], 0.96));
    CHECK(is_near(m->part_energy_j[QN_PART_CPU], 0.45));
    CHECK(isnan(m->part_energy_j[QN_PART_GPU]) && isnan(m->gpu_utilisation));
    CHECK(is_near(m->cpu_utilisation, (0.6 + 0.2 + 0.6 * 0.004) / 2));
    CHECK(is_near(m->flops_per_step, 40001000) && is_near(m->gflops, 0.40001));
    CHECK(is_near(m->peak_flops, 2e9) && is_near(m->peak_bandwidth, 1.5e9));
    CHECK(!m->energy_is_estimated);
    CHECK(is_near(m->resident_peak_bytes, 16e6));
    CHECK(m->n_lost_events == 0 && m->n_folded_events == 0 && m->n_said == 0);
}

static void check_nodes(const qn_measurement *m) {
    CHECK(m->n_nodes == 3);
    const qn_operation_row *conv = &m->nodes[0], *update = &m->nodes[1], *sum = &m->nodes[2];
    CHECK(strcmp(conv->name, "conv1") == 0 && strcmp(conv->type, "conv2d") == 0);
    CHECK(conv->calls == 3 && is_near(conv->total_ms, 120));
    CHECK(is_near(conv->share, 120.0 / 180));
    CHECK(is_near(conv->mean_us, 40000) && is_near(conv->p50_us, 40000));
    CHECK(is_near(conv->p95_us, 40000));
    CHECK(is_near(conv->flops, 1.2e8) && is_near(conv->bytes, 3e6) && is_near(conv->gflops, 1));
    CHECK(conv->bound == QN_BOUND_COMPUTE && is_near(conv->roof, 0.5));
    CHECK(is_near(conv->energy_mj, 600) && is_near(conv->mean_w, 5));
    CHECK(is_near(conv->utilisation, 0.75) && !conv->is_estimated);
    CHECK(update->bound == QN_BOUND_MEMORY && is_near(update->roof, 0.2));
    CHECK(is_near(update->energy_mj, 120) && is_near(update->utilisation, 0.5));
    CHECK(sum->calls == 0 && isnan(sum->mean_us) && isnan(sum->p50_us) && isnan(sum->gflops));
    CHECK(sum->energy_mj == 0 && isnan(sum->mean_w));
}

static void test_by_hand(void) {
    static made in;
    qn_measurement m;
    make(&in);
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    check_run(&m);
    check_nodes(&m);
    CHECK(m.n_types == 3 && strcmp(m.types[0].type, "conv2d") == 0 && !m.types[0].name);
    CHECK(m.types[0].calls == 3 && is_near(m.types[0].energy_mj, 600));
    CHECK(m.n_layers == 2 && strcmp(m.layers[0].name, "conv1") == 0 && !m.layers[0].type);
    CHECK(m.layers[0].calls == 6 && is_near(m.layers[0].total_ms, 180));
    CHECK(is_near(m.layers[0].energy_mj, 720) && m.layers[0].bound == QN_BOUND_COMPUTE);
    CHECK(is_near(m.layers[0].roof, 72.0 / 180) && is_near(m.layers[0].p50_us, 30000));
    /* What has no readings is no series. */
    CHECK(m.n_series == 6);
    CHECK(is_near(m.series[0].mean, 3.2) && m.series[0].most == 5);
    CHECK(is_near(m.series[0].energy_j, 0.96) && isnan(m.series[0].idle_ratio));
    CHECK(is_near(m.series[0].seen, 1));
    CHECK(fabs(m.series[0].period_s - 0.1) < 0.002 && m.series[0].periodicity > 0.99);
    CHECK(is_near(m.series[3].idle_ratio, 0.4) && is_near(m.series[4].idle_ratio, 0.6));
    CHECK(isnan(m.series[5].energy_j) && isnan(m.series[5].periodicity));
    qn_measurement_deinit(&m);
}

/* Bandwidth is that of the level that holds what a step walks through. */
static void test_bandwidth(void) {
    static made in;
    qn_measurement m;
    make(&in);
    in.recording.memory.arena_bytes = 1500;
    in.recording.memory.parameter_bytes = 500;
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    CHECK(is_near(m.peak_bandwidth, 8e9) && is_near(m.nodes[1].roof, 6e6 / 8e9 / 20e-3));
    CHECK(m.memory.arena_bytes == 1500);
    qn_measurement_deinit(&m);
}

/* Without a sensor, a roofline or cores there is no number, and no wrong one. */
static void test_nothing_there(void) {
    static made in;
    qn_measurement m;
    const qn_roofline none = {.n_peaks = 0};
    make(&in);
    in.recording.n_series = 0;
    in.recording.roofline = &none;
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    CHECK(isnan(m.energy_j) && isnan(m.idle_energy_j) && isnan(m.energy_mj_per_step));
    CHECK(isnan(m.steps[0].energy_mj) && isnan(m.nodes[0].energy_mj) && isnan(m.nodes[0].mean_w));
    CHECK(isnan(m.cpu_utilisation) && isnan(m.peak_flops) && isnan(m.peak_bandwidth));
    CHECK(isnan(m.nodes[0].roof) && m.nodes[0].bound == QN_BOUND_UNKNOWN);
    CHECK(isnan(m.resident_peak_bytes) && is_near(m.operations_ms_per_step, 60));
    CHECK(m.nodes[0].utilisation > 0); /* from the threads that took part */
    qn_measurement_deinit(&m);
    in.recording.n_operations = 0;
    in.recording.n_events = 0;
    in.recording.samples_per_step = 0;
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    CHECK(m.n_nodes == 0 && m.n_layers == 0 && isnan(m.flops_per_step) && isnan(m.throughput));
    CHECK(is_near(m.idle_ms_per_step, 100));
    qn_measurement_deinit(&m);
    in.recording.skip_steps = STEPS;
    CHECK_FAILS(qn_measurement_init(&in.recording, &m), QN_ERROR_ARGUMENT, "no step was measured");
}

static bool has_said(const qn_measurement *m, const char *text) {
    for (int i = 0; i < m->n_said; i++) {
        if (strstr(m->said[i], text))
            return true;
    }
    return false;
}

/* What is not whole is said; estimates are marked everywhere. */
static void test_what_is_said(void) {
    static made in;
    qn_measurement m;
    const char *const said[] = {"rapl: permission denied"};
    make(&in);
    in.recording.said = said;
    in.recording.n_said = 1;
    in.recording.n_lost_events = 7;
    series_of(&in, "input")->readings += 25; /* from the middle of the measured steps on */
    series_of(&in, "input")->n -= 25;
    series_of(&in, "input")->channel.is_estimated = true;
    in.recording.n_series = 1;
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    CHECK(m.n_said == 3 && has_said(&m, "permission denied") && has_said(&m, "7 events were lost"));
    CHECK(has_said(&m, "was measured for 83 %"));
    CHECK(m.energy_is_estimated && m.nodes[0].is_estimated && m.layers[0].is_estimated);
    CHECK(is_near(m.series[0].seen, 25.0 / 30) && is_near(m.energy_j, 0.64 + 0.1));
    qn_measurement_deinit(&m);
    make(&in);
    for (int i = 0; i < TICKS; i++) /* slower than steps */
        in.power[i] = (qn_reading){(900 + 200 * i) * MS, (1100 + 200 * i) * MS, i % 2};
    in.recording.n_series = 1;
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    CHECK(isnan(m.series[0].periodicity) && has_said(&m, "period not measurable"));
    qn_measurement_deinit(&m);
}

/* Rails inside one another, two sensors of one part, and an estimate beside a sensor. */
static void test_parts(void) {
    static made in;
    qn_measurement m;
    make(&in);
    in.recording.n_series = 0;
    add_series(&in, "package-0", QN_QUANTITY_POWER, QN_PART_CPU, in.cpu, TICKS);
    add_series(&in, "core-0", QN_QUANTITY_POWER, QN_PART_CPU, in.cpu, TICKS);
    in.series[1].channel.inside = 0;
    add_series(&in, "package-1", QN_QUANTITY_POWER, QN_PART_CPU, in.cpu, TICKS);
    add_series(&in, "board", QN_QUANTITY_POWER, QN_PART_CPU, in.power, TICKS);
    in.series[3].channel.source = "other";
    add_series(&in, "guess", QN_QUANTITY_POWER, QN_PART_MEMORY, in.power, TICKS);
    in.series[4].channel.is_estimated = true;
    add_series(&in, "dram", QN_QUANTITY_POWER, QN_PART_MEMORY, in.cpu, TICKS);
    in.series[5].channel.source = "other";
    in.series[0].counts = in.series[2].counts = in.series[5].counts = true;
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    CHECK(is_near(m.part_energy_j[QN_PART_CPU], 0.9));
    CHECK(is_near(m.part_energy_j[QN_PART_MEMORY], 0.45));
    CHECK(isnan(m.part_energy_j[QN_PART_SYSTEM]));
    CHECK(is_near(m.energy_j, 1.35) && !m.energy_is_estimated);
    qn_measurement_deinit(&m);
}

/* Steps of 90, 100 and 110 ms, and calls of 1 to 20 ms. */
static void test_spread(void) {
    qn_event events[20];
    qn_measurement m;
    const int64_t marks[] = {0, 90 * MS, 190 * MS, 300 * MS};
    const qn_recording recording = {.n_operations = 4,
                                    .operations = operations,
                                    .roofline = &machine,
                                    .marks_ns = marks,
                                    .n_marks = 4,
                                    .events = events,
                                    .n_events = 20};
    for (int i = 0; i < 20; i++)
        events[i] = (qn_event){.begin_ns = 14 * i * MS, .end_ns = (14 * i + i + 1) * MS};
    CHECK_OK(qn_measurement_init(&recording, &m));
    CHECK(is_near(m.step_ms_deviation, 10) && is_near(m.step_ms_median, 100));
    CHECK(fabs(m.nodes[0].p50_us - 10500) < 0.01 && fabs(m.nodes[0].p95_us - 19050) < 0.01);
    CHECK(is_near(m.nodes[0].mean_us, 10500) && isnan(m.nodes[0].energy_mj));
    qn_measurement_deinit(&m);
}

static void expect_interval(int n, const double *given, double low, double high) {
    double times[24], found_low, found_high;
    memcpy(times, given, (size_t)n * sizeof *times);
    qn_metrics_interval(times, n, &found_low, &found_high);
    CHECK(found_low == low && found_high == high);
}

/* Medians of stretches: a single slow step changes nothing, a slow stretch does. */
static void test_interval(void) {
    static const double steady[] = {5, 5, 90, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5};
    static const double drifting[] = {5, 6, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 9, 8, 9};
    expect_interval(15, steady, 5, 5);
    expect_interval(15, drifting, 5, 9);
    expect_interval(4, (const double[]){1, 3, 4, 6}, 2, 5);
    expect_interval(3, (const double[]){7, 3, 5}, 3, 7);
    expect_interval(1, (const double[]){2}, 2, 2);
}

/* Others' part is known from the loads around the run alone. */
static void test_others(void) {
    static made in;
    qn_measurement m;
    make(&in);
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    CHECK(isnan(m.others) && m.n_measurements == 1 && m.n_threads == 2 && !m.machine);
    qn_measurement_deinit(&m);
    in.recording.machine = "a board";
    in.recording.begin = (qn_load){true, 1000 * MS, 500 * MS, 300 * MS};
    in.recording.end = (qn_load){true, 3000 * MS, 2100 * MS, 1300 * MS};
    CHECK_OK(qn_measurement_init(&in.recording, &m));
    CHECK(is_near(m.others, 0.3) && strcmp(m.machine, "a board") == 0);
    qn_measurement_deinit(&m);
}

/* Two calls whose events are three pieces, and one with another inside of it. */
static void test_calls(void) {
    const qn_event events[] = {{.begin_ns = 0, .end_ns = 4 * MS},
                               {.begin_ns = 4 * MS, .end_ns = 7 * MS, .item = 1},
                               {.begin_ns = 7 * MS, .end_ns = 9 * MS},
                               {.begin_ns = 20 * MS, .end_ns = 30 * MS}};
    const qn_recorded_call calls[] = {{1, 3 * MS}, {0, 6 * MS}, {0, 10 * MS}};
    const int64_t marks[] = {0, 40 * MS};
    const qn_recording recording = {.n_operations = 3,
                                    .operations = operations,
                                    .roofline = &machine,
                                    .marks_ns = marks,
                                    .n_marks = 2,
                                    .events = events,
                                    .n_events = 4,
                                    .calls = calls,
                                    .n_calls = 3};
    qn_measurement m;
    CHECK_OK(qn_measurement_init(&recording, &m));
    CHECK(m.nodes[0].calls == 2 && is_near(m.nodes[0].total_ms, 16));
    CHECK(fabs(m.nodes[0].p50_us - 8000) < 0.01 && m.nodes[1].calls == 1);
    CHECK(is_near(m.operations_ms_per_step, 19) && is_near(m.idle_ms_per_step, 21));
    qn_measurement_deinit(&m);
}

/* ---- folds ---- */

/* The first measured steps folded: the same tables, but for what single calls tell. */
static void test_folds(void) {
    static made in;
    qn_measurement whole, folded;
    const qn_fold_row rows[4] = {{2, 80 * MS, 140 * MS}, {2, 40 * MS, 40 * MS}};
    const int64_t covered[STEPS] = {0, 0, 60 * MS, 60 * MS, -1};
    make(&in);
    const qn_fold fold = {in.marks[2], in.marks[4], 8, rows};
    for (int i = 0; i < TICKS; i++) /* alike for all, so that the split by core time is exact */
        in.power[i].value = in.process[i].value = 2;
    CHECK_OK(qn_measurement_init(&in.recording, &whole));
    in.recording.folds = &fold;
    in.recording.n_folds = 1;
    in.recording.folded_ns = covered;
    in.recording.events += 16; /* those of the last step */
    in.recording.n_events -= 16;
    CHECK_OK(qn_measurement_init(&in.recording, &folded));
    CHECK(folded.n_folded_events == 8 && folded.n_nodes == whole.n_nodes);
    CHECK(is_near(folded.energy_j, whole.energy_j));
    CHECK(is_near(folded.idle_energy_j, whole.idle_energy_j));
    CHECK(is_near(folded.operations_ms_per_step, 60) && is_near(folded.idle_ms_per_step, 40));
    CHECK(folded.nodes[0].calls == 3 && is_near(folded.nodes[0].p50_us, 40000));
    CHECK(is_near(folded.nodes[0].total_ms, whole.nodes[0].total_ms));
    CHECK(is_near(folded.nodes[0].energy_mj + folded.nodes[1].energy_mj,
                  whole.nodes[0].energy_mj + whole.nodes[1].energy_mj));
    CHECK(is_near(folded.nodes[1].energy_mj, 40 + 2 * 2 * 60 * 40.0 / 180));
    qn_measurement_deinit(&whole);
    qn_measurement_deinit(&folded);
}

/* ---- random recordings ---- */

static int compare_events(const void *left, const void *right) {
    const qn_event *a = left, *b = right;
    return (a->begin_ns > b->begin_ns) - (a->begin_ns < b->begin_ns);
}

/* Operations on several threads at once, over borders of steps, and a sensor with gaps: the nodes'
 * energies and idle time's make the run's; operations and idle time make the steps'. */
static void test_conservation(void) {
    enum { EVENTS = 300, READINGS = 150, MARKS = 12 };
    static qn_event events[EVENTS];
    static qn_reading readings[READINGS];
    int64_t marks[MARKS];
    for (uint64_t key = 0; key < 50; key++) {
        const qn_rng rng = qn_rng_make(key, 1, 0);
        uint64_t at = 0;
        int64_t now = 0;
        for (int i = 0; i < MARKS; i++)
            marks[i] = 1000 + 900 * i + (int64_t)qn_rng_below(rng, at++, 800);
        for (int i = 0; i < EVENTS; i++) {
            const int64_t begin = (int64_t)qn_rng_below(rng, at++, 12000);
            const int64_t end = begin + (int64_t)qn_rng_below(rng, at++, 300);
            events[i] = (qn_event){.begin_ns = begin,
                                   .end_ns = end,
                                   .item = i % 3,
                                   .kind = i % 5 == 0 ? QN_EVENT_SHARE : QN_EVENT_OPERATION};
        }
        qsort(events, EVENTS, sizeof *events, compare_events);
        for (int i = 0; i < READINGS; i++) {
            const int64_t begin = now + (int64_t)qn_rng_below(rng, at++, 20);
            now = begin + (int64_t)qn_rng_below(rng, at++, 150);
            readings[i] = (qn_reading){begin, now, (double)qn_rng_below(rng, at++, 99)};
        }
        const qn_series series = {
            .channel = {.source = "made", .quantity = QN_QUANTITY_POWER, .inside = -1},
            .counts = true,
            .n = READINGS,
            .readings = readings};
        const qn_recording recording = {.n_operations = 3,
                                        .operations = operations,
                                        .roofline = &machine,
                                        .marks_ns = marks,
                                        .n_marks = MARKS,
                                        .skip_steps = (int64_t)key % 4,
                                        .events = events,
                                        .n_events = EVENTS,
                                        .series = &series,
                                        .n_series = 1};
        qn_measurement m;
        CHECK_OK(qn_measurement_init(&recording, &m));
        double sum = m.idle_energy_j * 1e3, steps = 0;
        for (int i = 0; i < m.n_nodes; i++)
            sum += m.nodes[i].energy_mj;
        CHECK(is_near(sum, m.energy_j * 1e3) && is_near(m.series[0].energy_j, m.energy_j));
        for (int i = 0; i < m.n_steps; i++)
            steps += m.steps[i].operations_ms;
        CHECK(is_near(m.operations_ms_per_step + m.idle_ms_per_step, m.step_ms_mean));
        CHECK(is_near(steps * 1e6, (double)qn_covered_ns(events, EVENTS, m.begin_ns, m.end_ns)));
        qn_measurement_deinit(&m);
    }
}

/* ---- the parts ---- */

static void test_layers(void) {
    const char *const names[][2] = {{"conv1", "conv1"},
                                    {"conv1.backward_filter", "conv1"},
                                    {"conv1.weight.update", "conv1"},
                                    {"a.norm.running", "a.norm"},
                                    {"a.sum.gradient", "a.sum"},
                                    {"a.sum.gradient.backward", "a.sum"},
                                    {"fc.bias.accumulate", "fc"},
                                    {"w.update", "w"},
                                    {".update", ".update"},
                                    {".gradient", ".gradient"},
                                    {"", ""}};
    for (int i = 0; i < 11; i++) {
        const size_t length = qn_tables_layer(names[i][0]);
        CHECK(length == strlen(names[i][1]) && strncmp(names[i][0], names[i][1], length) == 0);
    }
}

/* A wave of 50 ms sampled each 5 ms with jitter and noise; what never changes; noise alone. */
static void test_periodicity(void) {
    enum { N = 4000 };
    static qn_reading wave[N], flat[N], noise[N];
    const qn_rng rng = qn_rng_make(5, 5, 5);
    int64_t at = 0;
    qn_period period;
    for (int i = 0; i < N; i++) {
        const int64_t end = (i + 1) * 5 * MS + (int64_t)qn_rng_below(rng, (uint64_t)i, 1000000);
        const double r = (double)qn_rng_below(rng, (uint64_t)i + N, 1000) * 1e-3;
        wave[i] = (qn_reading){at, end, 3 + 2 * sin((double)at * 2 * M_PI / (50 * MS)) + 0.3 * r};
        noise[i] = (qn_reading){at, end, r};
        flat[i] = (qn_reading){at, end, 0.7};
        at = end;
    }
    const qn_allocator *heap = qn_allocator_default();
    CHECK_OK(qn_periodicity(heap, wave, N, 0, 20000 * MS, 400, &period));
    CHECK(fabs(period.seconds - 0.05) < 0.0005 && period.height > 0.95);
    /* Steps are 4 % longer than the wave: the wave's own period is found. */
    CHECK_OK(qn_periodicity(heap, wave, N, 0, 20000 * MS, 384, &period));
    CHECK(fabs(period.seconds - 0.05) < 0.0005);
    CHECK_OK(qn_periodicity(heap, noise, N, 0, 20000 * MS, 400, &period));
    CHECK(period.height < 0.1);
    CHECK_OK(qn_periodicity(heap, flat, N, 0, 20000 * MS, 400, &period));
    CHECK(isnan(period.seconds) && isnan(period.height));
    CHECK_OK(qn_periodicity(heap, wave, N, 0, 20000 * MS, 1500, &period)); /* too slow for steps */
    CHECK(isnan(period.height));
    CHECK_OK(qn_periodicity(heap, wave, N, 0, 100 * MS, 2, &period)); /* too few steps */
    CHECK(isnan(period.height));
    CHECK_OK(qn_periodicity(heap, wave, 0, 0, 100 * MS, 2, &period));
    CHECK(isnan(period.height));
}

static void test_failing_allocation(void) {
    static made in;
    qn_measurement m = {.n_steps = 77};
    int n = 0;
    make(&in);
    for (qn_status status = QN_ERROR_MEMORY; status != QN_OK && n < 1000; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        in.recording.allocator = &allocator;
        status = qn_measurement_init(&in.recording, &m);
        if (status == QN_OK)
            qn_measurement_deinit(&m);
        else
            CHECK(status == QN_ERROR_MEMORY && m.n_steps == 77);
        CHECK(f.held_bytes == 0);
    }
    CHECK(n > 10 && n < 1000);
}

int main(void) {
    test_by_hand();
    test_bandwidth();
    test_nothing_there();
    test_what_is_said();
    test_parts();
    test_spread();
    test_interval();
    test_others();
    test_calls();
    test_folds();
    test_conservation();
    test_layers();
    test_periodicity();
    test_failing_allocation();
    return checks_finish();
}
