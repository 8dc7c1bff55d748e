/* All of a run's metrics as JSON; see profile.h. Keys are the names of the measurement's fields;
 * what was not measured is null. */
#include "format/output.h"
#include "os/os.h"
#include "report/processors.h"
#include "report/profile.h"
#include "report/stretch.h"
#include "report/words.h"

typedef struct report {
    const qn_measurement *m;
    const char *title;
} report;

static double seconds_from(int64_t begin_ns, int64_t at_ns) {
    return (double)(at_ns - begin_ns) * 1e-9;
}

/* Numbers by name. */
typedef struct fact {
    const char *key;
    double value;
} fact;

static void put_facts(qn_output *out, const fact *facts, size_t n) {
    for (size_t i = 0; i < n; i++)
        qn_json_number(out, facts[i].key, facts[i].value);
}

#define PUT_FACTS(out, ...)                                                                        \
    do {                                                                                           \
        const fact facts_[] = {__VA_ARGS__};                                                       \
        put_facts(out, facts_, sizeof facts_ / sizeof *facts_);                                    \
    } while (0)

static void put_run(qn_output *out, const report *r) {
    const qn_measurement *m = r->m;
    qn_json_text(out, "quern", qn_version());
    qn_json_text(out, "title", r->title);
    qn_json_count(out, "steps", m->n_steps);
    qn_json_text(out, "machine", m->machine ? m->machine : "");
    qn_json_count(out, "threads", m->n_threads);
    qn_json_count(out, "skipped_steps", m->skipped_steps);
    PUT_FACTS(
        out, {"samples_per_step", m->samples_per_step}, {"step_ms_mean", m->step_ms_mean},
        {"step_ms_median", m->step_ms_median}, {"step_ms_deviation", m->step_ms_deviation},
        {"step_ms_low", m->step_ms_low}, {"step_ms_high", m->step_ms_high}, {"others", m->others},
        {"measurements", m->n_measurements}, {"operations_ms_per_step", m->operations_ms_per_step},
        {"idle_ms_per_step", m->idle_ms_per_step}, {"throughput", m->throughput},
        {"cpu_utilisation", m->cpu_utilisation}, {"gpu_utilisation", m->gpu_utilisation},
        {"energy_j", m->energy_j}, {"energy_mj_per_step", m->energy_mj_per_step},
        {"energy_mj_per_sample", m->energy_mj_per_sample}, {"idle_energy_j", m->idle_energy_j});
    qn_json_flag(out, "energy_is_estimated", m->energy_is_estimated);
    qn_json_open(out, "part_energy_j", '{');
    for (int i = 0; i < QN_PART_COUNT; i++)
        qn_json_number(out, qn_words_part((qn_part)i), m->part_energy_j[i]);
    qn_json_close(out, '}');
    PUT_FACTS(out, {"flops_per_step", m->flops_per_step}, {"gflops", m->gflops},
              {"peak_flops", m->peak_flops}, {"peak_bandwidth", m->peak_bandwidth},
              {"resident_peak_bytes", m->resident_peak_bytes});
}

static void put_memory(qn_output *out, const qn_memory_use *use) {
    qn_json_open(out, "memory", '{');
    qn_json_count(out, "peak_bytes", (int64_t)use->peak_bytes);
    qn_json_count(out, "parameter_bytes", (int64_t)use->parameter_bytes);
    qn_json_count(out, "arena_bytes", (int64_t)use->arena_bytes);
    qn_json_open(out, "kinds", '{');
    for (int i = 0; i < QN_MEMORY_KINDS; i++)
        qn_json_count(out, qn_words_memory[i], (int64_t)use->kind_bytes[i]);
    qn_json_close(out, '}');
    qn_json_close(out, '}');
}

static void put_steps(qn_output *out, const qn_measurement *m) {
    qn_json_open(out, "step_rows", '[');
    for (int i = 0; i < m->n_steps; i++) {
        const qn_step_row *step = &m->steps[i];
        qn_json_open(out, NULL, '{');
        PUT_FACTS(out, {"begin_s", seconds_from(m->begin_ns, step->begin_ns)},
                  {"end_s", seconds_from(m->begin_ns, step->end_ns)},
                  {"operations_ms", step->operations_ms}, {"idle_ms", step->idle_ms},
                  {"energy_mj", step->energy_mj});
        qn_json_close(out, '}');
    }
    qn_json_close(out, ']');
}

static void put_row(qn_output *out, const qn_operation_row *row, bool is_node) {
    qn_json_open(out, NULL, '{');
    if (row->type)
        qn_json_text(out, "type", row->type);
    if (row->name)
        qn_json_text(out, "name", row->name);
    if (row->device)
        qn_json_text(out, "device", row->device);
    if (is_node) {
        qn_json_count(out, "program", row->program);
        qn_json_count(out, "item", row->item);
    }
    qn_json_count(out, "calls", row->calls);
    PUT_FACTS(out, {"total_ms", row->total_ms}, {"share", row->share}, {"mean_us", row->mean_us},
              {"p50_us", row->p50_us}, {"p95_us", row->p95_us}, {"flops", row->flops},
              {"bytes", row->bytes}, {"gflops", row->gflops}, {"roof", row->roof},
              {"energy_mj", row->energy_mj}, {"mean_w", row->mean_w},
              {"utilisation", row->utilisation});
    qn_json_text(out, "bound", qn_words_bound(row->bound));
    qn_json_flag(out, "estimated", row->is_estimated);
    qn_json_close(out, '}');
}

static void put_rows(qn_output *out, const char *key, int n, const qn_operation_row *rows,
                     bool are_nodes) {
    qn_json_open(out, key, '[');
    for (int i = 0; i < n; i++)
        put_row(out, &rows[i], are_nodes);
    qn_json_close(out, ']');
}

static void put_processors(qn_output *out, const qn_measurement *m) {
    qn_processor_use uses[QN_REPORT_PROCESSORS];
    const int n = qn_report_processors(m, uses);
    qn_json_open(out, "processors", '[');
    for (int i = 0; i < n; i++) {
        qn_json_open(out, NULL, '{');
        qn_json_text(out, "device", uses[i].device);
        qn_json_count(out, "operations", uses[i].n_operations);
        PUT_FACTS(out, {"operations_ms", uses[i].operations_ms}, {"copies_ms", uses[i].copies_ms},
                  {"copied_bytes", uses[i].copied_bytes}, {"energy_mj", uses[i].energy_mj});
        qn_json_close(out, '}');
    }
    qn_json_close(out, ']');
}

static void put_readings(qn_output *out, const qn_measurement *m, const qn_series *s) {
    const qn_stretch shown = qn_stretch_of(m);
    size_t n;
    const qn_reading *readings = qn_stretch_readings(s, shown.begin_ns, shown.end_ns, &n);
    qn_json_open(out, "readings", '[');
    for (size_t i = 0; i < n; i++) {
        qn_json_open(out, NULL, '[');
        qn_json_number(out, NULL, seconds_from(m->begin_ns, readings[i].begin_ns));
        qn_json_number(out, NULL, seconds_from(m->begin_ns, readings[i].end_ns));
        qn_json_number(out, NULL, readings[i].value);
        qn_json_close(out, ']');
    }
    qn_json_close(out, ']');
}

static void put_series(qn_output *out, const qn_measurement *m, const qn_series *s) {
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "name", s->channel.name);
    qn_json_text(out, "source", s->channel.source);
    qn_json_text(out, "quantity", qn_words_quantity(s->channel.quantity));
    qn_json_text(out, "part", qn_words_part(s->channel.part));
    qn_json_count(out, "index", s->channel.index);
    qn_json_flag(out, "is_estimated", s->channel.is_estimated);
    qn_json_flag(out, "counts", s->counts);
    PUT_FACTS(out, {"seen", s->seen}, {"mean", s->mean}, {"most", s->most},
              {"energy_j", s->energy_j}, {"idle_ratio", s->idle_ratio}, {"period_s", s->period_s},
              {"periodicity", s->periodicity});
    put_readings(out, m, s);
    qn_json_close(out, '}');
}

static void put_samples(qn_output *out, const qn_measurement *m) {
    qn_json_open(out, "series", '[');
    for (int i = 0; i < m->n_series; i++) {
        if (m->series[i].n > 0)
            put_series(out, m, &m->series[i]);
    }
    qn_json_close(out, ']');
    qn_json_open(out, "said", '[');
    for (int i = 0; i < m->n_said; i++)
        qn_json_text(out, NULL, m->said[i]);
    qn_json_close(out, ']');
    qn_json_count(out, "n_events", (int64_t)m->n_events);
    qn_json_count(out, "n_lost_events", m->n_lost_events);
    qn_json_count(out, "n_folded_events", m->n_folded_events);
    qn_json_count(out, "n_ticks", m->n_ticks);
    qn_json_count(out, "n_missed_ticks", m->n_missed_ticks);
    qn_json_number(out, "sampling_s", m->sampling_s);
    qn_json_count(out, "meter_bytes", (int64_t)m->meter_bytes);
}

static qn_status write_metrics(void *context, qn_writer *writer) {
    const report *r = context;
    qn_output out = qn_output_to_file(writer);
    qn_json_open(&out, NULL, '{');
    put_run(&out, r);
    put_memory(&out, &r->m->memory);
    put_steps(&out, r->m);
    put_processors(&out, r->m);
    put_rows(&out, "types", r->m->n_types, r->m->types, false);
    put_rows(&out, "layers", r->m->n_layers, r->m->layers, false);
    put_rows(&out, "nodes", r->m->n_nodes, r->m->nodes, true);
    put_samples(&out, r->m);
    qn_json_close(&out, '}');
    qn_output_text(&out, "\n");
    return out.status;
}

qn_status qn_report_json(const qn_measurement *m, const char *title, const char *path) {
    report r = {m, title};
    return qn_file_write(path, write_metrics, &r);
}
