/* See study.h. */
#include "study/study.h"

#include "base/status.h"
#include "base/text.h"
#include "meter/processor.h"
#include "os/files/room.h"
#include "os/heap.h"
#include "os/os.h"
#include "study/demand.h"
#include "study/results.h"
#include "study/settings.h"

#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SKIPPED_STEPS = 3, MOST_STEPS = 5000 };

/* On the disk, about: of the results, and of a cell in them and in its file. */
enum { RESULT_BYTES = 1 << 20, CELL_BYTES = 1 << 14 };

/* Of a processor of which nothing has been measured yet, for each thread; and what a cell takes
 * beside its steps. */
static const double guessed_flops = 5e9, start_s = 0.5;

struct qn_study {
    qn_study_options o;
    const qn_allocator *allocator;
    int n_cells;
    size_t capacity;
    qn_cell *cells; /* (n_cells): those of this run in its order, then others of the folder */
    int n_asked;    /* of this run */
    qn_processor *processor;
    int *core_kinds;
    char machine[QN_PROCESSOR_TEXT];
};

/* ---- paths ---- */

static qn_status make_path(const qn_study *s, const char *name, const char *suffix,
                           char path[PATH_MAX]) {
    const int n = snprintf(path, PATH_MAX, "%s/%s%s", s->o.folder, name, suffix);
    if (n < 0 || n >= PATH_MAX)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", s->o.folder);
    return QN_OK;
}

static qn_status cell_path(const qn_study *s, const qn_cell *cell, char path[PATH_MAX]) {
    char name[96], within[112];
    qn_cell_name(cell, name, sizeof name);
    snprintf(within, sizeof within, "cells/%s", name);
    return make_path(s, within, ".json", path);
}

/* ---- the list of cells ---- */

static qn_cell *find_cell(const qn_study *s, qn_cell_kind kind, const qn_model *model,
                          int64_t batch) {
    for (int i = 0; i < s->n_cells; i++) {
        qn_cell *c = &s->cells[i];
        if (c->kind == kind && c->batch == batch && (kind == QN_CELL_DRIP || c->model == model))
            return c;
    }
    return NULL;
}

/* What is known without a plan: products of the forward pass, and twice as much backward. */
static void guess_demand(qn_cell *cell, double drip_flops) {
    const qn_model *m = cell->model;
    qn_model_size size = {0};
    if (cell->kind == QN_CELL_DRIP) {
        cell->demand.flops_per_step = cell->demand.forward_flops = drip_flops;
    } else if (qn_model_measure(m, m->input, qn_model_classes(m, m->input), &size) == QN_OK) {
        cell->demand.forward_flops = (double)size.forward_flops * (double)cell->batch;
        cell->demand.flops_per_step = 3 * cell->demand.forward_flops;
    }
}

static qn_status add_cell(qn_study *s, qn_cell_kind kind, const qn_model *model, int64_t batch) {
    if (find_cell(s, kind, model, batch))
        return QN_OK;
    QN_TRY(
        qn_grow(s->allocator, &s->cells, &s->capacity, (size_t)s->n_cells + 1, sizeof *s->cells));
    qn_cell *cell = &s->cells[s->n_cells++];
    qn_cell_init(cell, s->allocator, kind, model, batch);
    guess_demand(cell, s->o.drip_flops);
    return QN_OK;
}

static qn_status list_cells(qn_study *s) {
    for (int m = 0; m < s->o.n_models; m++) {
        for (int b = 0; b < s->o.n_batches; b++) {
            QN_TRY(add_cell(s, QN_CELL_TRAINING, s->o.models[m], s->o.batches[b]));
            if (b == 0)
                QN_TRY(add_cell(s, QN_CELL_INFERENCE, s->o.models[m], s->o.batches[b]));
        }
    }
    for (int b = 0; s->o.drip_model && b < s->o.n_drip_batches; b++)
        QN_TRY(add_cell(s, QN_CELL_DRIP, s->o.drip_model, s->o.drip_batches[b]));
    s->n_asked = s->n_cells;
    return QN_OK;
}

/* ---- cells that the folder holds ---- */

/* Takes "MODEL-bN", "MODEL-bN-inference", "drip-bN" apart; false: it is no such name. */
static bool split_name(const char *name, char model[64], int64_t *batch, qn_cell_kind *kind) {
    static const char inference[] = "-inference.json", training[] = ".json";
    const char *at = NULL;
    char *end;
    for (const char *next = name; (next = strstr(next, "-b")); next++)
        at = next[2] >= '1' && next[2] <= '9' ? next : at;
    if (!at || at == name || at - name >= 64)
        return false;
    memcpy(model, name, (size_t)(at - name));
    model[at - name] = 0;
    *batch = strtoll(at + 2, &end, 10);
    *kind = strcmp(end, inference) == 0  ? QN_CELL_INFERENCE
            : strcmp(model, "drip") == 0 ? QN_CELL_DRIP
                                         : QN_CELL_TRAINING;
    return *batch < 1000000000 && (*kind == QN_CELL_INFERENCE || strcmp(end, training) == 0);
}

static qn_status visit(void *context, const char *name, bool is_folder) {
    qn_study *s = context;
    char model_name[64];
    int64_t batch;
    qn_cell_kind kind;
    if (is_folder || !split_name(name, model_name, &batch, &kind))
        return QN_OK;
    const qn_model *model = kind == QN_CELL_DRIP ? s->o.drip_model : qn_model_find(model_name);
    return model ? add_cell(s, kind, model, batch) : QN_OK;
}

static bool is_kept(const qn_study *s, const qn_cell *cell) {
    return cell->state == QN_CELL_DONE || (cell->state == QN_CELL_FAILED && !s->o.retries);
}

static qn_status read_cells(qn_study *s) {
    for (int i = 0; i < s->n_cells; i++) {
        char path[PATH_MAX];
        QN_TRY(cell_path(s, &s->cells[i], path));
        if (!qn_path_is_file(path))
            continue;
        const qn_status status = qn_cell_read(&s->cells[i], path);
        if (status == QN_ERROR_MEMORY)
            return status;
        if (status != QN_OK && s->o.warn)
            s->o.warn(s->o.user, qn_error_message());
        if (!is_kept(s, &s->cells[i]))
            s->cells[i].state = QN_CELL_WAITING;
    }
    return QN_OK;
}

/* ---- opening ---- */

static qn_status read_machine(qn_study *s) {
    QN_TRY(qn_processor_create(s->allocator, s->o.sysroot ? s->o.sysroot : "", &s->processor));
    const qn_processor *p = s->processor;
    QN_TRY(qn_allocate(s->allocator, (size_t)p->n_cores, sizeof *s->core_kinds, &s->core_kinds));
    for (int i = 0; i < p->n_cores; i++)
        s->core_kinds[i] = p->cores[i].kind;
    qn_processor_print(p, s->machine);
    return QN_OK;
}

/* Hours of cells are not measured for a folder that takes none. */
static qn_status check_writable(const qn_study *s) {
    char path[PATH_MAX];
    QN_TRY(make_path(s, "cells/cell", ".json", path));
    QN_TRY(qn_file_check_target(path, false));
    QN_TRY(make_path(s, "study", ".csv", path));
    return qn_file_check_target(path, false);
}

/* Results of a folder without settings are no study's. */
static qn_status check_names(const qn_study *s) {
    static const char *const names[][2] = {
        {"study", ".csv"}, {"study", ".json"}, {"report", ".html"}};
    char path[PATH_MAX];
    QN_TRY(make_path(s, "settings", ".json", path));
    if (qn_path_is_file(path))
        return QN_OK;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        QN_TRY(make_path(s, names[i][0], names[i][1], path));
        if (qn_path_bytes(path) >= 0)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s is there already, and %s has no study; name another --out", path,
                           s->o.folder);
    }
    return QN_OK;
}

static qn_status open_study(qn_study *s) {
    char path[PATH_MAX];
    QN_TRY(check_names(s));
    QN_TRY(read_machine(s));
    QN_TRY(make_path(s, "cells", "", path));
    QN_TRY(qn_folder_create(path));
    QN_TRY(check_writable(s));
    QN_TRY(list_cells(s));
    QN_TRY(qn_folder_list(s->allocator, path, visit, s));
    QN_TRY(make_path(s, "settings", ".json", path));
    QN_TRY(qn_study_settings_hold(s, path));
    QN_TRY(read_cells(s));
    /* Results are written again after every cell. */
    QN_TRY(make_path(s, "report", ".html", path));
    return qn_room_try(s->allocator, path, RESULT_BYTES + s->n_cells * (int64_t)CELL_BYTES);
}

qn_status qn_study_open(const qn_study_options *options, qn_study **study) {
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    qn_study *s;
    QN_TRY(qn_allocate(allocator, 1, sizeof *s, &s));
    s->o = *options;
    s->allocator = allocator;
    const qn_status status = open_study(s);
    if (status != QN_OK) {
        qn_study_close(s);
        return status;
    }
    *study = s;
    return QN_OK;
}

void qn_study_close(qn_study *s) {
    if (!s)
        return;
    for (int i = 0; i < s->n_cells; i++)
        qn_cell_deinit(&s->cells[i]);
    qn_release(s->allocator, s->cells, s->capacity, sizeof *s->cells);
    if (s->processor)
        qn_release(s->allocator, s->core_kinds, (size_t)s->processor->n_cores,
                   sizeof *s->core_kinds);
    qn_processor_destroy(s->processor);
    qn_release(s->allocator, s, 1, sizeof *s);
}

/* ---- time ---- */

static double step_flops(const qn_cell *cell) {
    return cell->kind == QN_CELL_INFERENCE ? cell->demand.forward_flops
                                           : cell->demand.flops_per_step;
}

int qn_study_threads(const qn_study *s) {
    return s->o.n_threads > 0 ? s->o.n_threads : qn_cpu_count();
}

/* FLOPs per second of a model's cells that are done, or of all where it has none (model null); NaN:
 * none are. */
static double measured_rate(const qn_study *s, const qn_model *model) {
    double flops = 0, seconds = 0;
    for (int i = 0; i < s->n_cells; i++) {
        const qn_cell *c = &s->cells[i];
        if (c->state != QN_CELL_DONE || c->kind == QN_CELL_DRIP || (model && c->model != model))
            continue;
        flops += step_flops(c);
        seconds += c->m.step_ms_mean * 1e-3;
    }
    return flops > 0 && seconds > 0 ? flops / seconds : (double)NAN;
}

static double rate_of(const qn_study *s, const qn_cell *cell) {
    double rate = measured_rate(s, cell->model);
    if (!isfinite(rate))
        rate = measured_rate(s, NULL);
    return isfinite(rate) ? rate : guessed_flops * qn_study_threads(s);
}

static int64_t steps_of(const qn_study *s, const qn_cell *cell) {
    const double step_s = step_flops(cell) / rate_of(s, cell);
    const double wanted = step_s > 0 ? ceil(s->o.least_s / step_s) : 0;
    if (wanted <= (double)s->o.steps)
        return s->o.steps;
    return wanted < MOST_STEPS ? (int64_t)wanted : MOST_STEPS;
}

double qn_study_seconds_left(const qn_study *s) {
    double seconds = 0;
    for (int i = 0; i < s->n_asked; i++) {
        const qn_cell *c = &s->cells[i];
        const double n = c->kind == QN_CELL_DRIP ? 1 : (double)(steps_of(s, c) + SKIPPED_STEPS);
        if (c->state == QN_CELL_WAITING)
            seconds += start_s + n * step_flops(c) / rate_of(s, c);
    }
    return seconds;
}

/* ---- running ---- */

static void tell(qn_study *s, const qn_cell *cell) {
    if (s->o.tell)
        s->o.tell(s->o.user, s, cell);
}

static bool should_stop(void *context) {
    const qn_study *s = context;
    return s->o.should_stop && s->o.should_stop(s->o.user);
}

static double memory_limit(const qn_study *s) {
    return s->o.memory_limit > 0 ? s->o.memory_limit : (double)qn_memory_available_bytes();
}

/* A cell that the plan says would not fit is left out. The process of an inference holds the plans
 * of training, too. */
static qn_status check_memory(qn_study *s, qn_cell *cell) {
    char needed[QN_SIZE_TEXT], free[QN_SIZE_TEXT];
    const double limit = memory_limit(s);
    if (cell->kind == QN_CELL_DRIP)
        return QN_OK;
    QN_TRY(qn_demand_find(s->allocator, cell->model, cell->batch, s->o.n_threads, &cell->demand));
    if (limit <= 0 || cell->demand.bytes <= limit)
        return QN_OK;
    cell->state = QN_CELL_LEFT_OUT;
    cell->reason = qn_arena_format(&cell->texts, "its plan needs %s, but the limit is %s",
                                   qn_text_print_size((uint64_t)cell->demand.bytes, needed),
                                   qn_text_print_size((uint64_t)limit, free));
    return cell->reason ? QN_OK : QN_ERROR_MEMORY;
}

/* Why a process left no result. */
static void explain(const qn_program_end *end, char *reason, size_t bytes) {
    static const char prefix[] = "quern: ";
    const char *last = end->last;
    char size[QN_SIZE_TEXT];
    if (strncmp(last, prefix, sizeof prefix - 1) == 0)
        last += sizeof prefix - 1;
    if (qn_signal_is_kill(end->signal))
        snprintf(reason, bytes,
                 "killed at %s of memory, probably because the system ran out of memory",
                 qn_text_print_size((uint64_t)end->peak_bytes, size));
    else if (end->signal > 0)
        snprintf(reason, bytes, "ended by signal %d%s%s", end->signal, *last ? ": " : "", last);
    else if (*last)
        snprintf(reason, bytes, "%s", last);
    else
        snprintf(reason, bytes, "ended with status %d and no message", end->status);
}

/* Keeps why a cell failed, in its file and in memory. */
static qn_status fail_cell(qn_cell *cell, const char *path, const char *reason) {
    cell->state = QN_CELL_FAILED;
    cell->reason = qn_arena_text(&cell->texts, reason);
    return cell->reason ? qn_cell_write_failure(path, reason) : QN_ERROR_MEMORY;
}

static qn_status run_process(qn_study *s, qn_cell *cell, const char *path) {
    const char *arguments[QN_STUDY_ARGUMENTS] = {NULL};
    char reason[512];
    qn_program_end end;
    QN_TRY(s->o.command(s->o.user, cell, steps_of(s, cell), path, &cell->texts, arguments));
    QN_TRY(qn_subprocess_run(arguments, should_stop, s, &end));
    if (end.was_stopped)
        return qn_fail(QN_ERROR_INTERRUPTED, "stopped; finished cells are kept");
    if (end.status == 0 && end.signal == 0) {
        if (qn_cell_read(cell, path) == QN_OK)
            return QN_OK;
        snprintf(end.last, sizeof end.last, "%.250s", qn_error_message());
    }
    explain(&end, reason, sizeof reason);
    return fail_cell(cell, path, reason);
}

static qn_status run_cell(qn_study *s, qn_cell *cell) {
    char path[PATH_MAX];
    QN_TRY(cell_path(s, cell, path));
    tell(s, cell);
    QN_TRY(check_memory(s, cell));
    if (cell->state == QN_CELL_WAITING)
        QN_TRY(run_process(s, cell, path));
    tell(s, cell);
    return qn_study_write(s);
}

qn_status qn_study_run(qn_study *s) {
    for (int i = 0; i < s->n_asked; i++) {
        if (should_stop(s))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped; finished cells are kept");
        if (s->cells[i].state == QN_CELL_WAITING)
            QN_TRY(run_cell(s, &s->cells[i]));
    }
    return qn_study_write(s);
}

/* ---- results ---- */

qn_status qn_study_facts_make(const qn_study *s, qn_arena *arena, qn_study_facts *facts) {
    const qn_processor *p = s->processor;
    const size_t n = (size_t)s->n_cells + 1;
    qn_study_row *rows = qn_arena_allocate(arena, n, sizeof *rows);
    const qn_drip **drips = qn_arena_allocate(arena, n, sizeof *drips);
    if (!rows || !drips)
        return QN_ERROR_MEMORY;
    *facts = (qn_study_facts){.rows = rows, .drips = drips, .memory_limit = memory_limit(s)};
    facts->cores =
        (qn_study_cores){.n_kinds = p->n_kinds, .n_cores = p->n_cores, .kind = s->core_kinds};
    for (int i = 0; i < p->n_kinds && i < QN_STUDY_KINDS; i++)
        facts->cores.names[i] = p->kinds[i].name;
    for (int i = 0; i < s->n_cells; i++) {
        const qn_cell *c = &s->cells[i];
        const qn_cell *inference = find_cell(s, QN_CELL_INFERENCE, c->model, c->batch);
        facts->n_left_out += c->state == QN_CELL_LEFT_OUT;
        if (c->state == QN_CELL_DONE && c->kind == QN_CELL_DRIP)
            drips[facts->n_drips++] = &c->drip;
        if (c->state == QN_CELL_DONE && c->kind == QN_CELL_TRAINING)
            qn_study_row_fill(c, inference && inference->state == QN_CELL_DONE ? inference : NULL,
                              &facts->cores, &rows[facts->n_rows++]);
    }
    return QN_OK;
}

static qn_status write_all(const qn_study *s, qn_arena *arena) {
    char path[PATH_MAX];
    qn_study_facts facts;
    qn_finding findings[QN_OBSERVATIONS];
    QN_TRY(qn_study_facts_make(s, arena, &facts));
    qn_observations_judge(&facts, findings);
    QN_TRY(make_path(s, "study", ".csv", path));
    QN_TRY(qn_study_write_csv(s, &facts, path));
    QN_TRY(make_path(s, "study", ".json", path));
    QN_TRY(qn_study_write_json(s, &facts, findings, path));
    QN_TRY(make_path(s, "report", ".html", path));
    return qn_study_write_page(s, &facts, findings, path);
}

qn_status qn_study_write(const qn_study *s) {
    qn_arena arena;
    qn_arena_init(&arena, s->allocator);
    const qn_status status = write_all(s, &arena);
    qn_arena_deinit(&arena);
    return status;
}

/* ---- looking in ---- */

int qn_study_count(const qn_study *s) {
    return s->n_cells;
}

const qn_cell *qn_study_cell(const qn_study *s, int index) {
    return &s->cells[index];
}

int qn_study_count_in(const qn_study *s, qn_cell_state state) {
    int n = 0;
    for (int i = 0; i < s->n_cells; i++)
        n += s->cells[i].state == state;
    return n;
}

const qn_study_options *qn_study_get_options(const qn_study *s) {
    return &s->o;
}

const char *qn_study_machine(const qn_study *s) {
    return s->machine;
}
