/* See results.h. A column is a row of a table, which the CSV and the JSON file share. */
#include "study/results.h"

#include "format/output.h"
#include "graph/graph.h"
#include "os/os.h"

#include <math.h>
#include <string.h>

/* ---- columns ---- */

/* A number of a cell that is done; row null: it was not a training. */
typedef double (*qn_column_value)(const qn_cell *cell, const qn_study_row *row);

static double steps_of(const qn_cell *c, const qn_study_row *r) {
    (void)r;
    return c->m.n_steps > 0 ? c->m.n_steps : (double)NAN;
}

static double bytes_of(const qn_cell *c, qn_kind kind) {
    return (double)c->m.memory.kind_bytes[kind];
}

#define MEASURED(name)                                                                             \
    static double name##_of(const qn_cell *c, const qn_study_row *r) {                             \
        (void)r;                                                                                   \
        return c->m.name;                                                                          \
    }
MEASURED(step_ms_median)
MEASURED(step_ms_mean)
MEASURED(step_ms_deviation)
MEASURED(step_ms_low)
MEASURED(step_ms_high)
MEASURED(n_measurements)
MEASURED(operations_ms_per_step)
MEASURED(idle_ms_per_step)
MEASURED(cpu_utilisation)
MEASURED(gpu_utilisation)
MEASURED(energy_mj_per_step)
MEASURED(gflops)
MEASURED(resident_peak_bytes)

#define OF_KIND(name, kind)                                                                        \
    static double name##_of(const qn_cell *c, const qn_study_row *r) {                             \
        (void)r;                                                                                   \
        return bytes_of(c, kind);                                                                  \
    }
OF_KIND(parameter, QN_KIND_PARAMETER)
OF_KIND(gradient, QN_KIND_GRADIENT)
OF_KIND(state, QN_KIND_STATE)
OF_KIND(input, QN_KIND_INPUT)
OF_KIND(feature, QN_KIND_FEATURE)
OF_KIND(workspace, QN_KIND_WORKSPACE)

static double engine_of(const qn_cell *c, const qn_study_row *r) {
    (void)r;
    return (double)c->m.memory.peak_bytes;
}

static double meter_of(const qn_cell *c, const qn_study_row *r) {
    (void)r;
    return (double)c->m.meter_bytes;
}

static double inference_of(const qn_cell *c, const qn_study_row *r) {
    (void)c;
    return r ? r->inference_ms : (double)NAN;
}

static double throughput_of(const qn_cell *c, const qn_study_row *r) {
    (void)r;
    return qn_cell_throughput(c);
}

static double energy_mj_per_sample_of(const qn_cell *c, const qn_study_row *r) {
    (void)r;
    return c->m.energy_mj_per_step / (double)c->batch;
}

static double process_of(const qn_cell *c, const qn_study_row *r) {
    (void)c;
    return r ? r->process : (double)NAN;
}

static double others_of(const qn_cell *c, const qn_study_row *r) {
    return r ? r->others : c->m.others;
}

static double use_rhythm_of(const qn_cell *c, const qn_study_row *r) {
    (void)c;
    return r ? r->use_periodicity : (double)NAN;
}

static double power_rhythm_of(const qn_cell *c, const qn_study_row *r) {
    (void)c;
    return r ? r->power_periodicity : (double)NAN;
}

static const struct {
    const char *name;
    qn_column_value value;
} columns[] = {
    {"steps", steps_of},
    {"step_ms_median", step_ms_median_of},
    {"step_ms_mean", step_ms_mean_of},
    {"step_ms_deviation", step_ms_deviation_of},
    {"step_ms_low", step_ms_low_of},
    {"step_ms_high", step_ms_high_of},
    {"measurements", n_measurements_of},
    {"others", others_of},
    {"operations_ms_per_step", operations_ms_per_step_of},
    {"idle_ms_per_step", idle_ms_per_step_of},
    {"samples_per_second", throughput_of},
    {"cpu_utilisation", cpu_utilisation_of},
    {"process_utilisation", process_of},
    {"gpu_utilisation", gpu_utilisation_of},
    {"energy_mj_per_step", energy_mj_per_step_of},
    {"energy_mj_per_sample", energy_mj_per_sample_of},
    {"gflops", gflops_of},
    {"parameter_bytes", parameter_of},
    {"gradient_bytes", gradient_of},
    {"state_bytes", state_of},
    {"input_bytes", input_of},
    {"feature_bytes", feature_of},
    {"workspace_bytes", workspace_of},
    {"engine_peak_bytes", engine_of},
    {"resident_peak_bytes", resident_peak_bytes_of},
    {"inference_ms", inference_of},
    {"utilisation_periodicity", use_rhythm_of},
    {"power_periodicity", power_rhythm_of},
    {"meter_bytes", meter_of},
};

enum { N_COLUMNS = sizeof columns / sizeof columns[0] };

static const char *kind_name(qn_cell_kind kind) {
    static const char *const names[] = {[QN_CELL_TRAINING] = "training",
                                        [QN_CELL_INFERENCE] = "inference",
                                        [QN_CELL_DRIP] = "drip"};
    return names[kind];
}

static const char *state_name(qn_cell_state state) {
    static const char *const names[] = {[QN_CELL_WAITING] = "waiting",
                                        [QN_CELL_DONE] = "done",
                                        [QN_CELL_FAILED] = "failed",
                                        [QN_CELL_LEFT_OUT] = "left out"};
    return names[state];
}

/* The row of a training cell that is done, or null. */
static const qn_study_row *row_of(const qn_study_facts *facts, const qn_cell *cell) {
    for (int i = 0; cell->kind == QN_CELL_TRAINING && i < facts->n_rows; i++) {
        const qn_study_row *r = &facts->rows[i];
        if (r->batch == cell->batch && strcmp(r->model, cell->model->name) == 0)
            return r;
    }
    return NULL;
}

static bool has_numbers(const qn_cell *cell) {
    return cell->state == QN_CELL_DONE && cell->kind != QN_CELL_DRIP;
}

/* ---- CSV ---- */

typedef struct table {
    const qn_study *study;
    const qn_study_facts *facts;
    const qn_finding *findings; /* (QN_OBSERVATIONS); of JSON */
} table;

/* Energy that a model of the device has made. */
static bool is_estimated(const qn_cell *cell) {
    return has_numbers(cell) && cell->m.energy_is_estimated;
}

static void put_row(qn_output *out, const table *t, const qn_cell *cell) {
    const char *const texts[] = {cell->model->name,
                                 qn_domain_name(qn_domain_of(cell->model)),
                                 kind_name(cell->kind),
                                 state_name(cell->state),
                                 cell->reason ? cell->reason : "",
                                 is_estimated(cell) ? "yes" : "no"};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        qn_output_csv(out, texts[i]);
        qn_output_text(out, ",");
    }
    qn_output_count(out, cell->batch);
    for (int i = 0; i < N_COLUMNS; i++) {
        const double value =
            has_numbers(cell) ? columns[i].value(cell, row_of(t->facts, cell)) : (double)NAN;
        qn_output_text(out, ",");
        qn_output_number(out, value, 9, "");
    }
    qn_output_text(out, "\n");
}

static qn_status put_table(void *context, qn_writer *writer) {
    const table *t = context;
    qn_output out = qn_output_to_file(writer);
    qn_output_text(&out, "model,domain,kind,state,reason,energy_is_estimated,batch");
    for (int i = 0; i < N_COLUMNS; i++) {
        qn_output_text(&out, ",");
        qn_output_text(&out, columns[i].name);
    }
    qn_output_text(&out, "\n");
    for (int i = 0; i < qn_study_count(t->study); i++)
        put_row(&out, t, qn_study_cell(t->study, i));
    return out.status;
}

qn_status qn_study_write_csv(const qn_study *study, const qn_study_facts *facts, const char *path) {
    table t = {.study = study, .facts = facts};
    return qn_file_replace(path, put_table, &t);
}

/* ---- JSON ---- */

static void put_days(qn_output *out, const qn_drip *drip) {
    qn_json_text(out, "data", drip->data);
    qn_json_open(out, "accuracy_by_day", '[');
    for (int i = 0; i < drip->n_days; i++)
        qn_json_number(out, NULL, drip->days[i].accuracy);
    qn_json_close(out, ']');
}

static void put_cell(qn_output *out, const table *t, const qn_cell *cell) {
    qn_json_open(out, NULL, '{');
    qn_json_text(out, "model", cell->model->name);
    qn_json_text(out, "domain", qn_domain_name(qn_domain_of(cell->model)));
    qn_json_text(out, "kind", kind_name(cell->kind));
    qn_json_count(out, "batch", cell->batch);
    qn_json_text(out, "state", state_name(cell->state));
    if (cell->reason)
        qn_json_text(out, "reason", cell->reason);
    if (cell->demand.bytes > 0)
        qn_json_number(out, "planned_bytes", cell->demand.bytes);
    if (cell->state == QN_CELL_DONE && cell->kind == QN_CELL_DRIP)
        put_days(out, &cell->drip);
    if (has_numbers(cell))
        qn_json_flag(out, "energy_is_estimated", is_estimated(cell));
    for (int i = 0; has_numbers(cell) && i < N_COLUMNS; i++)
        qn_json_number(out, columns[i].name, columns[i].value(cell, row_of(t->facts, cell)));
    qn_json_close(out, '}');
}

static void put_finding(qn_output *out, const qn_finding *f) {
    qn_json_open(out, NULL, '{');
    qn_json_count(out, "number", f->number);
    qn_json_text(out, "claim", f->claim);
    qn_json_text(out, "verdict", qn_verdict_text(f->verdict));
    qn_json_text(out, "here", f->here);
    qn_json_text(out, "study", f->theirs);
    qn_json_flag(out, "estimated", f->is_estimated);
    qn_json_close(out, '}');
}

static qn_status put_study(void *context, qn_writer *writer) {
    const table *t = context;
    qn_output out = qn_output_to_file(writer);
    qn_json_open(&out, NULL, '{');
    qn_json_text(&out, "quern", qn_version());
    qn_json_text(&out, "machine", qn_study_machine(t->study));
    qn_json_open(&out, "observations", '[');
    for (int i = 0; i < QN_OBSERVATIONS; i++)
        put_finding(&out, &t->findings[i]);
    qn_json_close(&out, ']');
    qn_json_open(&out, "cells", '[');
    for (int i = 0; i < qn_study_count(t->study); i++)
        put_cell(&out, t, qn_study_cell(t->study, i));
    qn_json_close(&out, ']');
    qn_json_close(&out, '}');
    qn_output_text(&out, "\n");
    return out.status;
}

qn_status qn_study_write_json(const qn_study *study, const qn_study_facts *facts,
                              const qn_finding findings[QN_OBSERVATIONS], const char *path) {
    table t = {study, facts, findings};
    return qn_file_replace(path, put_study, &t);
}
