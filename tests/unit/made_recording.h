/* A made-up recording: twenty steps and three before them of a small network on four threads, with
 * sensors of cores, frequency, power (measured or estimated), memory and temperature. Of the power
 * of the package one reading is missing. Names hold what formats must escape. */
#ifndef QN_TESTS_MADE_RECORDING_H
#define QN_TESTS_MADE_RECORDING_H

#include "base/memory.h"
#include "meter/recording.h"
#include "os/heap.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MADE_LAYERS = 16,
    MADE_PASSES = 3,
    MADE_OPERATIONS = MADE_LAYERS * MADE_PASSES,
    MADE_STEPS = 23,
    MADE_SKIPPED = 3,
    MADE_THREADS = 4,
    MADE_SERIES = 16,
    MADE_TICKS = 400, /* of 10 ms */
    MADE_EVENTS = MADE_STEPS * (MADE_OPERATIONS * MADE_THREADS + 2),
};

static const char made_name[] = "conv<1>,\"a\"";

typedef struct made {
    qn_arena arena;
    qn_recording recording;
    qn_roofline roofline;
    qn_measurement measurement;
} made;

static const int64_t made_begin_ns = 5000000000, made_step_ns = 160000000;

static inline void made_operations(made *a) {
    static const char *const types[] = {"conv2d", "batch_norm", "relu", "max_pool"};
    static const char *const passes[] = {"", ".backward", ".weight.update"};
    qn_recorded_operation *o = qn_arena_allocate(&a->arena, MADE_OPERATIONS, sizeof *o);
    for (int i = 0; i < MADE_OPERATIONS; i++) {
        const int pass = i / MADE_LAYERS, layer = i % MADE_LAYERS;
        const char *type = pass == 2 ? "sgd" : types[layer % 4];
        const bool is_heavy = layer % 4 == 0 && pass < 2;
        o[i] = (qn_recorded_operation){
            .operation = {.type =
                              pass == 1 ? qn_arena_format(&a->arena, "%s_gradient", type) : type,
                          .name = i == 0 ? made_name
                                         : qn_arena_format(&a->arena, "%s%d%s", types[layer % 4],
                                                           layer / 4 + 1, passes[pass]),
                          .device = "cpu",
                          .pass = (qn_pass)pass,
                          .n_threads = MADE_THREADS,
                          .flops = is_heavy ? 400000000 * (1 + pass) + layer * 1000000 : 500000,
                          .bytes = is_heavy ? 4000000 + layer * 500000 : 3000000 + layer * 10000},
            .program = 0,
            .item = i};
    }
    a->recording.n_operations = MADE_OPERATIONS;
    a->recording.operations = o;
}

/* Operations one after another in each step, with shares a little shorter, and the run around them.
 */
static inline void made_events(made *a) {
    qn_event *e = qn_arena_allocate(&a->arena, MADE_EVENTS, sizeof *e);
    int64_t *marks = qn_arena_allocate(&a->arena, MADE_STEPS + 1, sizeof *marks);
    size_t n = 0;
    marks[0] = made_begin_ns;
    for (int step = 0; step < MADE_STEPS; step++) {
        int64_t at = marks[step] + 2000000;
        const int64_t jitter = step * 7919 % 13 * 400000;
        const size_t run = n++;
        e[run] = (qn_event){at, 0, step, -1, 0, 0, QN_EVENT_RUN};
        at += 50000;
        for (int i = 0; i < MADE_OPERATIONS; i++) {
            const bool is_heavy = i % 4 == 0 && i < 2 * MADE_LAYERS;
            const int64_t length = (is_heavy ? 14000000 : 900000) + jitter / MADE_OPERATIONS;
            for (int t = 0; t < MADE_THREADS; t++)
                e[n++] = (qn_event){at + t * 5000,
                                    at + length - t * 20000,
                                    step,
                                    i,
                                    0,
                                    (int16_t)t,
                                    t == 0 ? QN_EVENT_OPERATION : QN_EVENT_SHARE};
            at += length + 20000;
        }
        e[run].end_ns = at + 30000;
        marks[step + 1] = at + 3000000;
    }
    a->recording.n_events = n;
    a->recording.events = e;
    a->recording.n_marks = MADE_STEPS + 1;
    a->recording.marks_ns = marks;
    a->recording.skip_steps = MADE_SKIPPED;
}

static inline void made_series(made *a, qn_series *to, qn_channel channel, bool counts, double base,
                               double swing) {
    qn_reading *r = qn_arena_allocate(&a->arena, MADE_TICKS, sizeof *r);
    size_t n = 0;
    for (int i = 0; i < MADE_TICKS; i++) {
        const int64_t begin = made_begin_ns + i * 10000000LL;
        const double phase = fmod((double)(begin - made_begin_ns) / (double)made_step_ns, 1);
        const double value = base + swing * (phase < 0.85 ? sin(phase * 5 + to->n) : -0.9);
        if (counts && i == 60)
            continue;
        r[n++] = (qn_reading){begin, begin + 10000000, value};
    }
    *to = (qn_series){.channel = channel, .counts = counts, .n = n, .readings = r};
}

static inline void made_all_series(made *a, bool is_estimated) {
    qn_series *s = qn_arena_allocate(&a->arena, MADE_SERIES, sizeof *s);
    int n = 0;
    for (int i = 0; i < MADE_THREADS; i++) {
        qn_channel core = {.source = "cores",
                           .quantity = QN_QUANTITY_UTILISATION,
                           .part = QN_PART_CORE,
                           .index = i,
                           .inside = -1};
        snprintf(core.name, sizeof core.name, "cpu%d", i);
        made_series(a, &s[n++], core, false, 0.5 + 0.05 * i, 0.4);
        core.quantity = QN_QUANTITY_FREQUENCY;
        core.source = "frequency";
        made_series(a, &s[n++], core, false, 2e9 + 1e8 * i, 3e8);
    }
    const char *power = is_estimated ? "model" : "rapl";
    const qn_channel others[] = {
        {"package-0", power, QN_QUANTITY_POWER, QN_PART_CPU, 0, -1, is_estimated},
        {"dram", power, QN_QUANTITY_POWER, QN_PART_MEMORY, 0, -1, is_estimated},
        {"resident", "memory", QN_QUANTITY_MEMORY, QN_PART_PROCESS, 0, -1, false},
        {"process", "threads", QN_QUANTITY_UTILISATION, QN_PART_PROCESS, 0, -1, false},
        {"x86_pkg_temp", "thermal", QN_QUANTITY_TEMPERATURE, QN_PART_CPU, 0, -1, false},
    };
    const double base[] = {14, 2.5, 9.2e8, 2.2, 61}, swing[] = {6, 0.8, 2e6, 1.5, 1.5};
    for (int i = 0; i < 5; i++)
        made_series(a, &s[n++], others[i], i < 2, base[i], swing[i]);
    /* A thread that never was. */
    s[n++] = (qn_series){
        .channel = {"thread-7", "threads", QN_QUANTITY_UTILISATION, QN_PART_THREAD, 7, -1, false}};
    a->recording.n_series = n;
    a->recording.series = s;
}

static inline qn_status made_init(made *a, const qn_allocator *allocator, bool is_estimated) {
    static const char *const said[] = {
        "ina3221: no device of that kind",
        "nvml: libnvidia-ml.so.1 is not installed, so no GPU of NVIDIA's is seen",
        "battery: /sys/class/power_supply <none>",
    };
    *a = (made){.recording = {.allocator = allocator, .n_threads = MADE_THREADS, .dtype = "f32"}};
    qn_arena_init(&a->arena, qn_allocator_default());
    a->roofline = (qn_roofline){.n_peaks = 1, .n_levels = 1};
    a->roofline.peaks[0] = (qn_roofline_peak){"cpu", "f32", MADE_THREADS, 60e9, 220e9};
    a->roofline.levels[0] =
        (qn_roofline_level){.name = "DRAM", .bandwidth = 1.2e10, .all_bandwidth = 2.4e10};
    a->recording.roofline = &a->roofline;
    made_operations(a);
    made_events(a);
    made_all_series(a, is_estimated);
    a->recording.samples_per_step = 16;
    a->recording.n_said = 3;
    a->recording.said = said;
    a->recording.sampling = (qn_sampler_cost){MADE_TICKS, 2, 31000000, 400000};
    a->recording.meter_bytes = 2500000;
    a->recording.memory = (qn_memory_use){
        .peak_bytes = 912000000,
        .kind_bytes = {786432, 64, 94000000, 94000000, 94000000, 610000000, 20000000}};
    return qn_measurement_init(&a->recording, &a->measurement);
}

static inline void made_deinit(made *a) {
    qn_measurement_deinit(&a->measurement);
    qn_arena_deinit(&a->arena);
}

#endif
