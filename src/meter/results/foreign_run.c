/* See foreign_run.h. In nested slices every moment belongs to the innermost one, so time and energy
 * of an operation are its own. Slices that only describe others (steps, clock marks, the span of
 * the recording) are removed before. */
#include "meter/results/foreign_run.h"

#include "base/status.h"
#include "os/heap.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char step_name[] = "ProfilerStep#";

/* Steps of one recording follow each other at once. */
#define MOST_STEP_GAP_NS 100000000

struct qn_foreign_run {
    const qn_allocator *allocator;
    qn_arena arena; /* of the recordings' texts */
    qn_trace_reading *reading;
    qn_clock_map map;
    qn_trace_slice_read
        *slices; /* (n_slices) that are operations, as they are sorted in the file */
    size_t n_slices, slice_capacity;
    int32_t *rows;    /* (n_slices) of their names */
    int64_t *self_ns; /* (n_slices) */
    qn_event *events; /* (n_events) stretches of slices */
    size_t n_events, event_capacity;
    qn_recorded_operation *operations; /* (n_operations) */
    size_t n_operations, operation_capacity;
    qn_recorded_call *calls; /* (n_slices) of those in the steps */
    size_t n_calls;
    int64_t *marks; /* (n_marks) */
    size_t n_marks, mark_capacity;
    bool has_trace;
    qn_foreign_run_trace trace;
    qn_measurement run, steps;
};

/* ---- what of a trace is what ---- */

static bool is_on_gpu(const qn_trace_slice_read *slice) {
    return strncmp(slice->category, "gpu_", 4) == 0 || strcmp(slice->category, "kernel") == 0;
}

static bool is_step(const qn_trace_slice_read *slice) {
    return strncmp(slice->name, step_name, sizeof step_name - 1) == 0;
}

static bool is_operation(const qn_trace_slice_read *slice) {
    qn_clock clock;
    int64_t at_ns;
    return !is_step(slice) && strcmp(slice->category, "Trace") != 0 &&
           !qn_clock_mark(slice->name, &clock, &at_ns);
}

static qn_status add_mark(qn_foreign_run *o, int64_t at_ns) {
    QN_TRY(qn_grow(o->allocator, &o->marks, &o->mark_capacity, o->n_marks + 1, sizeof *o->marks));
    if (o->n_marks == 0 || at_ns > o->marks[o->n_marks - 1])
        o->marks[o->n_marks++] = at_ns;
    return QN_OK;
}

/* Marks where the first row of steps begins and where the last of them ends. */
static qn_status find_steps(qn_foreign_run *o, const qn_trace_slice_read *slices, size_t n) {
    int64_t end_ns = 0;
    int32_t track = -1;
    for (size_t i = 0; i < n; i++) {
        if (!is_step(&slices[i]) || is_on_gpu(&slices[i]))
            continue;
        const bool is_next =
            slices[i].track == track && slices[i].begin_ns - end_ns <= MOST_STEP_GAP_NS;
        if (track >= 0 && !is_next)
            break;
        track = slices[i].track;
        end_ns = slices[i].end_ns;
        QN_TRY(add_mark(o, qn_clock_map_apply(&o->map, slices[i].begin_ns)));
        o->trace.n_steps++;
    }
    return track < 0 ? QN_OK : add_mark(o, qn_clock_map_apply(&o->map, end_ns));
}

static qn_status keep_operations(qn_foreign_run *o, const qn_trace_slice_read *slices, size_t n) {
    for (size_t i = 0; i < n; i++) {
        if (!is_operation(&slices[i]))
            continue;
        QN_TRY(qn_grow(o->allocator, &o->slices, &o->slice_capacity, o->n_slices + 1,
                       sizeof *o->slices));
        o->slices[o->n_slices++] = slices[i];
    }
    return QN_OK;
}

/* ---- rows ---- */

/* Equal names are one text, and names on a GPU are rows of their own. */
static int compare_names(const void *left, const void *right) {
    const qn_trace_slice_read *a = *(const qn_trace_slice_read *const *)left;
    const qn_trace_slice_read *b = *(const qn_trace_slice_read *const *)right;
    const int order = a->name == b->name ? 0 : strcmp(a->name, b->name);
    return order != 0 ? order : is_on_gpu(a) - is_on_gpu(b);
}

static qn_status add_row(qn_foreign_run *o, const qn_trace_slice_read *slice) {
    QN_TRY(qn_grow(o->allocator, &o->operations, &o->operation_capacity, o->n_operations + 1,
                   sizeof *o->operations));
    o->operations[o->n_operations] =
        (qn_recorded_operation){.operation = {.type = slice->name,
                                              .name = slice->name,
                                              .device = is_on_gpu(slice) ? "gpu" : "cpu",
                                              .n_threads = 1},
                                .item = (int32_t)o->n_operations};
    o->n_operations++;
    return QN_OK;
}

/* A row for each name, in the order of the alphabet. */
static qn_status make_rows(qn_foreign_run *o) {
    const qn_trace_slice_read **sorted;
    qn_status status = QN_OK;
    QN_TRY(qn_allocate(o->allocator, o->n_slices, sizeof *o->rows, &o->rows));
    QN_TRY(qn_allocate(o->allocator, o->n_slices, sizeof *sorted, &sorted));
    for (size_t i = 0; i < o->n_slices; i++)
        sorted[i] = &o->slices[i];
    if (o->n_slices > 0)
        qsort(sorted, o->n_slices, sizeof *sorted, compare_names);
    for (size_t i = 0; i < o->n_slices && status == QN_OK; i++) {
        if (i == 0 || compare_names(&sorted[i - 1], &sorted[i]) != 0)
            status = add_row(o, sorted[i]);
        o->rows[sorted[i] - o->slices] = (int32_t)o->n_operations - 1;
    }
    qn_release(o->allocator, sorted, o->n_slices, sizeof *sorted);
    return status;
}

/* ---- times ---- */

/* Number of the step that a moment lies in, from 0. */
static int32_t step_at(const qn_foreign_run *o, int64_t at_ns) {
    size_t low = 0, high = o->n_marks;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (o->marks[middle] <= at_ns)
            low = middle + 1;
        else
            high = middle;
    }
    return low > 0 ? (int32_t)low - 1 : 0;
}

static qn_status add_stretch(void *context, size_t slice, int64_t begin_ns, int64_t end_ns) {
    qn_foreign_run *o = context;
    QN_TRY(
        qn_grow(o->allocator, &o->events, &o->event_capacity, o->n_events + 1, sizeof *o->events));
    const int64_t at_ns = qn_clock_map_apply(&o->map, begin_ns);
    o->self_ns[slice] += end_ns - begin_ns;
    o->events[o->n_events++] = (qn_event){.begin_ns = at_ns,
                                          .end_ns = qn_clock_map_apply(&o->map, end_ns),
                                          .step = step_at(o, at_ns),
                                          .item = o->rows[slice],
                                          .thread = (int16_t)o->slices[slice].track,
                                          .kind = QN_EVENT_OPERATION};
    return QN_OK;
}

static int compare_events(const void *left, const void *right) {
    const qn_event *a = left, *b = right;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return (a->thread > b->thread) - (a->thread < b->thread);
}

/* Calls that began in the steps that count; of a whole run all, though the clocks may put one that
 * began with it a little before. */
static qn_status make_calls(qn_foreign_run *o, int64_t skip_steps) {
    const bool is_whole = o->trace.n_steps == 0;
    const size_t first = (size_t)skip_steps < o->n_marks ? (size_t)skip_steps : o->n_marks - 1;
    QN_TRY(qn_allocate(o->allocator, o->n_slices, sizeof *o->calls, &o->calls));
    for (size_t i = 0; i < o->n_slices; i++) {
        const int64_t at_ns = qn_clock_map_apply(&o->map, o->slices[i].begin_ns);
        if (is_whole || (at_ns >= o->marks[first] && at_ns < o->marks[o->n_marks - 1]))
            o->calls[o->n_calls++] = (qn_recorded_call){o->rows[i], o->self_ns[i]};
    }
    return QN_OK;
}

/* Time of each track in which one of its slices ran. */
static int64_t measure_cover(const qn_foreign_run *o) {
    int64_t covered_ns = 0, until_ns = INT64_MIN;
    for (size_t i = 0; i < o->n_slices; i++) {
        const qn_trace_slice_read *s = &o->slices[i];
        if (i > 0 && s->track != s[-1].track)
            until_ns = INT64_MIN;
        const int64_t from_ns = s->begin_ns > until_ns ? s->begin_ns : until_ns;
        covered_ns += s->end_ns > from_ns ? s->end_ns - from_ns : 0;
        until_ns = s->end_ns > until_ns ? s->end_ns : until_ns;
    }
    return covered_ns;
}

static void fill_trace(qn_foreign_run *o) {
    size_t n_tracks;
    int64_t self_ns = 0;
    qn_trace_reading_tracks(o->reading, &n_tracks);
    for (size_t i = 0; i < o->n_slices; i++)
        self_ns += o->self_ns[i];
    o->has_trace = true;
    o->trace.n_slices = (int64_t)o->n_slices;
    o->trace.n_tracks = (int64_t)n_tracks;
    o->trace.covered_ms = (double)measure_cover(o) * 1e-6;
    o->trace.self_ms = (double)self_ns * 1e-6;
    o->trace.clock_error_ms = (double)o->map.error_ns * 1e-6;
    memcpy(o->trace.clock, o->map.how, sizeof o->trace.clock);
}

static qn_status read_trace(const qn_foreign_run_options *options, qn_foreign_run *o) {
    size_t n;
    QN_TRY(qn_trace_read(o->allocator, options->operations, &o->reading));
    const qn_clock_question question = {.path = options->operations,
                                        .reading = o->reading,
                                        .log = options->clocks,
                                        .begin_ns = options->begin_ns,
                                        .end_ns = options->end_ns,
                                        .clock = options->clock};
    QN_TRY(qn_clock_map_find(&question, &o->map));
    const qn_trace_slice_read *slices = qn_trace_reading_slices(o->reading, &n);
    QN_TRY(find_steps(o, slices, n));
    QN_TRY(keep_operations(o, slices, n));
    QN_TRY(make_rows(o));
    QN_TRY(qn_allocate(o->allocator, o->n_slices, sizeof *o->self_ns, &o->self_ns));
    QN_TRY(qn_trace_self_times(o->allocator, o->slices, o->n_slices, o, add_stretch));
    if (o->n_events > 0)
        qsort(o->events, o->n_events, sizeof *o->events, compare_events);
    fill_trace(o);
    return QN_OK;
}

/* ---- the measurements ---- */

/* Nothing is known of operations. */
static qn_status measure_run(const qn_foreign_run_options *options, qn_recording *r,
                             qn_measurement *run) {
    const int64_t marks[] = {options->begin_ns, options->end_ns};
    r->n_marks = 2;
    r->marks_ns = marks;
    QN_TRY(qn_measurement_init(r, run));
    r->marks_ns = NULL;
    run->operations_ms_per_step = run->idle_ms_per_step = run->idle_energy_j = NAN;
    return QN_OK;
}

static qn_status measure_steps(const qn_foreign_run_options *options, qn_foreign_run *o,
                               qn_recording *r) {
    if (o->n_marks < 2) {
        o->n_marks = 0;
        QN_TRY(add_mark(o, options->begin_ns));
        QN_TRY(add_mark(o, options->end_ns));
    }
    const int64_t skip_steps = o->trace.n_steps > 0 ? options->skip_steps : 0;
    QN_TRY(make_calls(o, skip_steps));
    r->n_operations = (int)o->n_operations;
    r->operations = o->operations;
    r->n_threads = 1;
    r->n_marks = (int64_t)o->n_marks;
    r->marks_ns = o->marks;
    r->skip_steps = skip_steps;
    r->events = o->events;
    r->n_events = o->n_events;
    r->calls = o->calls;
    r->n_calls = o->n_calls;
    r->meter_bytes += o->event_capacity * sizeof *o->events;
    QN_TRY(qn_measurement_init(r, &o->steps));
    o->steps.n_layers = 0; /* a trace does not tell them */
    return QN_OK;
}

static qn_status measure(const qn_foreign_run_options *options, qn_foreign_run *o) {
    qn_recording r = {.allocator = o->allocator};
    QN_TRY(qn_recording_add_sampler(&r, &o->arena, options->sampler));
    r.meter_bytes = r.sampling.bytes;
    QN_TRY(measure_run(options, &r, &o->run));
    if (!options->operations)
        return QN_OK;
    QN_TRY(read_trace(options, o));
    return measure_steps(options, o, &r);
}

qn_status qn_foreign_run_create(const qn_foreign_run_options *options, qn_foreign_run **outside) {
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    qn_foreign_run *o;
    QN_TRY(qn_allocate(allocator, 1, sizeof *o, &o));
    o->allocator = allocator;
    qn_arena_init(&o->arena, allocator);
    const qn_status status = measure(options, o);
    if (status != QN_OK) {
        qn_foreign_run_destroy(o);
        return status;
    }
    *outside = o;
    return QN_OK;
}

void qn_foreign_run_destroy(qn_foreign_run *outside) {
    if (!outside)
        return;
    qn_foreign_run *o = outside;
    const qn_allocator *allocator = o->allocator;
    qn_measurement_deinit(&o->steps);
    qn_measurement_deinit(&o->run);
    qn_release(allocator, o->marks, o->mark_capacity, sizeof *o->marks);
    qn_release(allocator, o->calls, o->n_slices, sizeof *o->calls);
    qn_release(allocator, o->operations, o->operation_capacity, sizeof *o->operations);
    qn_release(allocator, o->events, o->event_capacity, sizeof *o->events);
    qn_release(allocator, o->self_ns, o->n_slices, sizeof *o->self_ns);
    qn_release(allocator, o->rows, o->n_slices, sizeof *o->rows);
    qn_release(allocator, o->slices, o->slice_capacity, sizeof *o->slices);
    qn_trace_reading_destroy(o->reading);
    qn_arena_deinit(&o->arena);
    qn_release(allocator, o, 1, sizeof *o);
}

const qn_measurement *qn_foreign_run_whole(const qn_foreign_run *outside) {
    return &outside->run;
}

const qn_measurement *qn_foreign_run_steps(const qn_foreign_run *outside) {
    return outside->has_trace ? &outside->steps : &outside->run;
}

const qn_foreign_run_trace *qn_foreign_run_get_trace(const qn_foreign_run *outside) {
    return outside->has_trace ? &outside->trace : NULL;
}
