/* See recording.h. */
#include "meter/recording.h"

#include "base/status.h"
#include "meter/processor.h"

/* Work of the plan's own team, which time and energy are shared out to. */
static bool is_work(const qn_event *event) {
    return event->kind == QN_EVENT_OPERATION || event->kind == QN_EVENT_SHARE;
}

int qn_recording_row(const qn_recording *recording, const qn_event *event) {
    int low = 0, high = recording->n_operations;
    if (!is_work(event) && event->kind != QN_EVENT_QUEUED)
        return -1;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        const qn_recorded_operation *o = &recording->operations[middle];
        if (o->program == event->program && o->item == event->item)
            return middle;
        if (o->program < event->program || (o->program == event->program && o->item < event->item))
            low = middle + 1;
        else
            high = middle;
    }
    return -1;
}

int64_t qn_covered_ns(const qn_event *events, size_t n_events, int64_t begin_ns, int64_t end_ns) {
    int64_t reached = begin_ns, covered_ns = 0;
    for (size_t i = 0; i < n_events && events[i].begin_ns < end_ns; i++) {
        const int64_t end = events[i].end_ns < end_ns ? events[i].end_ns : end_ns;
        const int64_t begin = events[i].begin_ns > reached ? events[i].begin_ns : reached;
        if (!is_work(&events[i]) || end <= begin)
            continue;
        covered_ns += end - begin;
        reached = end;
    }
    return covered_ns;
}

/* ---- from an engine ---- */

/* In the order of programs' numbers: the update program is the first. */
static int add_operations(const qn_engine *engine, qn_recorded_operation *to) {
    int n = 0;
    for (int program = QN_PROGRAM_UPDATE; program < qn_engine_program_count(engine); program++) {
        for (int item = 0; item < qn_engine_operation_count(engine, program); item++, n++) {
            if (to)
                to[n] = (qn_recorded_operation){qn_engine_operation_at(engine, program, item),
                                                program, item};
        }
    }
    return n;
}

qn_status qn_recording_add_engine(qn_recording *recording, qn_arena *arena,
                                  const qn_engine *engine) {
    const qn_engine_options *options = qn_engine_get_options(engine);
    const int n = add_operations(engine, NULL);
    qn_recorded_operation *operations = qn_arena_allocate(arena, (size_t)n + 1, sizeof *operations);
    if (!operations)
        return QN_ERROR_MEMORY;
    recording->n_operations = add_operations(engine, operations);
    recording->operations = operations;
    recording->n_threads = options->n_threads;
    recording->dtype = options->real == QN_F64 ? "f64" : "f32";
    recording->memory = qn_engine_get_memory(engine);
    return QN_OK;
}

/* ---- from a sampler ---- */

static qn_status add_said(qn_recording *recording, qn_arena *arena, const qn_sampler *sampler) {
    int n = 0;
    while (qn_sampler_said(sampler, n))
        n++;
    const char **said = qn_arena_allocate(arena, (size_t)n + 1, sizeof *said);
    if (!said)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < n; i++)
        said[i] = qn_sampler_said(sampler, i);
    recording->n_said = n;
    recording->said = said;
    return QN_OK;
}

/* A recorded tree of files stands for another machine. */
static qn_status name_machine(qn_recording *recording, qn_arena *arena, const char *root) {
    char text[QN_PROCESSOR_TEXT];
    qn_processor *processor;
    if (!root)
        return QN_OK;
    QN_TRY(qn_processor_create(arena->allocator, root, &processor));
    recording->machine = qn_arena_text(arena, qn_processor_print(processor, text));
    qn_processor_destroy(processor);
    return recording->machine ? QN_OK : QN_ERROR_MEMORY;
}

qn_status qn_recording_add_sampler(qn_recording *recording, qn_arena *arena,
                                   const qn_sampler *sampler) {
    const int n = qn_sampler_channel_count(sampler);
    qn_series *series = qn_arena_allocate(arena, (size_t)n + 1, sizeof *series);
    if (!series)
        return QN_ERROR_MEMORY;
    QN_TRY(add_said(recording, arena, sampler));
    for (int i = 0; i < n; i++) {
        series[i].channel = *qn_sampler_channel(sampler, i);
        series[i].counts = qn_sampler_counts(sampler, i);
        series[i].readings = qn_sampler_readings(sampler, i, &series[i].n);
    }
    recording->n_series = n;
    recording->series = series;
    recording->sampling = qn_sampler_get_cost(sampler);
    qn_sampler_get_load(sampler, &recording->begin, &recording->end);
    return name_machine(recording, arena, qn_sampler_root(sampler));
}
