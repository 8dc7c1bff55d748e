/* Another program's run, by a trace made by hand and replayed power: rows with own times and their
 * energy, which adds up; steps; what is left out; a failing allocation at every place. */
#define _GNU_SOURCE

#include "base/status.h"
#include "data_files.h"
#include "meter/results/foreign_run.h"
#include "os/process/cpu_time.h"

#include <time.h>

#define MS 1000000LL

/* What was sampled, for all tests. */
static qn_sampler *sampler;
static qn_clock_log clocks;
static int64_t begin_ns, end_ns;

static void sample(void) {
    const struct timespec rest = {.tv_nsec = 150 * MS};
    write_text("@/power.csv", "time_s,system:VIN:W\n0,5\n100,5\n");
    const qn_sampler_options options = {.pid = qn_process_id(), .replay = at_root("@/power.csv")};
    CHECK_OK(qn_sampler_create(&options, &sampler));
    CHECK_OK(qn_sampler_start(sampler));
    qn_clock_log_init(&clocks);
    qn_clock_log_add(&clocks);
    begin_ns = qn_clock_ns();
    nanosleep(&rest, NULL);
    end_ns = qn_clock_ns();
    qn_sampler_stop(sampler);
    qn_clock_log_end(&clocks);
}

/* An event; times in milliseconds since begin_ns. */
typedef struct event {
    const char *name, *category;
    double begin_ms, end_ms;
    int tid;
} event;

static void write_events(const char *path, const event *events, int n) {
    FILE *file = fopen(at_root(path), "w");
    fprintf(file, "[");
    for (int i = 0; i < n; i++)
        fprintf(
            file,
            "%s{\"ph\":\"X\",\"name\":\"%s\",\"cat\":\"%s\",\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f}",
            i ? "," : "", events[i].name, events[i].category ? events[i].category : "",
            events[i].tid, (double)begin_ns * 1e-3 + events[i].begin_ms * 1e3,
            (events[i].end_ms - events[i].begin_ms) * 1e3);
    fprintf(file, "]");
    CHECK(fclose(file) == 0);
}

static qn_status measure(const qn_allocator *allocator, const char *operations, int64_t skip_steps,
                         qn_foreign_run **outside) {
    const qn_foreign_run_options options = {.allocator = allocator,
                                            .sampler = sampler,
                                            .clocks = &clocks,
                                            .begin_ns = begin_ns,
                                            .end_ns = end_ns,
                                            .skip_steps = skip_steps,
                                            .operations = operations ? at_root(operations) : NULL,
                                            .clock = "monotonic"};
    return qn_foreign_run_create(&options, outside);
}

static const qn_operation_row *find_row(const qn_measurement *m, const char *name,
                                        const char *device) {
    for (int i = 0; i < m->n_nodes; i++)
        if (strcmp(m->nodes[i].name, name) == 0 && strcmp(m->nodes[i].device, device) == 0)
            return &m->nodes[i];
    CHECK(!"there is such a row");
    return &m->nodes[0];
}

static bool is_near(double a, double b, double within) {
    return fabs(a - b) <= within;
}

static void test_no_trace(void) {
    qn_foreign_run *o;
    CHECK_OK(measure(NULL, NULL, 0, &o));
    const qn_measurement *m = qn_foreign_run_whole(o);
    CHECK(m == qn_foreign_run_steps(o) && !qn_foreign_run_get_trace(o));
    CHECK(m->n_steps == 1 && m->n_nodes == 0);
    const double seconds = (double)(end_ns - begin_ns) * 1e-9;
    CHECK(is_near(m->energy_j, 5 * seconds, 0.005 * 5 * seconds));
    CHECK(isnan(m->operations_ms_per_step) && isnan(m->idle_energy_j));
    CHECK(is_near(m->step_ms_mean, seconds * 1e3, 0.001));
    qn_foreign_run_destroy(o);
}

/* At 5 W: 5 mJ for each millisecond. */
static void test_operations(void) {
    static const event events[] = {
        {"outer", "", 0, 40, 1},
        {"inner", "", 10, 20, 1},
        {"other", "", 30, 50, 2},
        {"other", "kernel", 60, 70, 7},
        {"inner", "", 80, 84, 1},
        {"inner", "", 90, 91, 1},
        {"PyTorch Profiler (0)", "Trace", 0, 140, 9},
        {"monotonic_ns=5", "", 1, 2, 3},
    };
    qn_foreign_run *o;
    write_events("@/t.json", events, 8);
    CHECK_OK(measure(NULL, "@/t.json", 0, &o));
    const qn_measurement *m = qn_foreign_run_steps(o);
    const qn_foreign_run_trace *trace = qn_foreign_run_get_trace(o);
    CHECK(m->meter_bytes > 0 && m->n_layers == 0 && m->n_types == 3);
    CHECK(m->n_nodes == 4 && m->n_steps == 1 && trace->n_slices == 6 && trace->n_steps == 0);
    const qn_operation_row *outer = find_row(m, "outer", "cpu"),
                           *inner = find_row(m, "inner", "cpu");
    const qn_operation_row *other = find_row(m, "other", "cpu"), *gpu = find_row(m, "other", "gpu");
    CHECK(outer->calls == 1 && inner->calls == 3 && other->calls == 1 && gpu->calls == 1);
    CHECK(is_near(outer->total_ms, 30, 0.01) && is_near(inner->total_ms, 15, 0.01));
    CHECK(is_near(inner->p50_us, 4000, 10) && is_near(inner->mean_us, 5000, 10));
    CHECK(is_near(outer->energy_mj, 125, 1) && is_near(inner->energy_mj, 75, 1));
    CHECK(is_near(other->energy_mj, 75, 1) && is_near(gpu->energy_mj, 50, 1));
    CHECK(is_near(m->energy_j * 1e3, 325 + m->idle_energy_j * 1e3, 1e-3));
    CHECK(is_near(trace->self_ms, 75, 0.001) && is_near(trace->covered_ms, trace->self_ms, 1e-6));
    CHECK(is_near(m->operations_ms_per_step, 65, 0.01));
    qn_foreign_run_destroy(o);
}

static void test_steps(void) {
    static const event events[] = {
        {"ProfilerStep#3", "user_annotation", 10, 30, 1},
        {"a", "", 12, 22, 1},
        {"ProfilerStep#4", "user_annotation", 30, 60, 1},
        {"a", "", 35, 40, 1},
        {"b", "", 50, 70, 1},
        {"ProfilerStep#5", "user_annotation", 60, 90, 1},
        {"a", "", 100, 110, 1},
        {"ProfilerStep#3", "gpu_user_annotation", 14, 45, 2},
    };
    qn_foreign_run *o;
    write_events("@/t.json", events, 8);
    CHECK_OK(measure(NULL, "@/t.json", 1, &o));
    const qn_measurement *m = qn_foreign_run_steps(o);
    CHECK(qn_foreign_run_get_trace(o)->n_steps == 3);
    CHECK(m->n_steps == 2 && m->skipped_steps == 1 && m->n_nodes == 2);
    CHECK(is_near(m->step_ms_mean, 30, 0.001));
    CHECK(find_row(m, "a", "cpu")->calls == 1 && find_row(m, "b", "cpu")->calls == 1);
    CHECK(is_near(find_row(m, "a", "cpu")->total_ms, 5, 0.01));
    CHECK(is_near(m->steps[0].operations_ms, 15, 0.01) && is_near(m->steps[1].idle_ms, 20, 0.01));
    CHECK(qn_foreign_run_whole(o)->n_steps == 1);
    CHECK(m->n_events == 4 && m->events[0].step == 0 && m->events[1].step == 1);
    CHECK(m->events[2].step == 1 && m->events[3].step == 3);
    qn_foreign_run_destroy(o);
    CHECK(measure(NULL, "@/t.json", 3, &o) != QN_OK);
}

/* Only steps, no operation in them. */
static void test_bare_steps(void) {
    static const event events[] = {{"ProfilerStep#0", "", 10, 30, 1}};
    qn_foreign_run *o;
    write_events("@/t.json", events, 1);
    CHECK_OK(measure(NULL, "@/t.json", 0, &o));
    CHECK(qn_foreign_run_steps(o)->n_steps == 1 && qn_foreign_run_steps(o)->n_nodes == 0);
    CHECK(qn_foreign_run_get_trace(o)->n_slices == 0);
    qn_foreign_run_destroy(o);
}

static void test_memory(void) {
    static const event events[] = {{"ProfilerStep#0", "", 10, 30, 1}, {"a", "", 12, 20, 1}};
    int n = 0;
    write_events("@/t.json", events, 2);
    for (; n < 1000; n++) {
        failing f = {.left = n};
        qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_foreign_run *o;
        const qn_status status = measure(&allocator, "@/t.json", 0, &o);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        if (status == QN_OK)
            qn_foreign_run_destroy(o);
        CHECK(f.held_bytes == 0);
        if (status == QN_OK)
            break;
    }
    CHECK(n > 20 && n < 1000);
}

int main(void) {
    files_begin();
    sample();
    test_no_trace();
    test_operations();
    test_steps();
    test_bare_steps();
    test_memory();
    qn_sampler_destroy(sampler);
    files_end();
    return checks_finish();
}
