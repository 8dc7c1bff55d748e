/* quern plan --compare-cores, --machine, --prefer, --power: what a step would take on some cores,
 * by the rules of others and by ours. Predicted, of the largest program. */
#include "run/cores/cores.h"
#include "base/decimal.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/json.h"
#include "cli/plan/plan.h"
#include "cli/terminal.h"
#include "cli/train/core_choice.h"
#include "cli/train/core_facts.h"
#include "format/trace.h"
#include "ops/ops.h"
#include "os/heap.h"
#include "os/os.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const option rows[] = {
    {.name = "cores",
     .kind = OPTION_CHOICE,
     .argument = "all|auto",
     .fallback = "all",
     .help = "auto: measure and show the schedule of quern train --cores auto"},
    {.name = "compare-cores",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "predict a step scheduled over the cores by several rules"},
    {.name = "machine",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "this one",
     .help = "cores to predict for, as a text (docs/cores.md)"},
    {.name = "measure",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "time operations on this machine for the prediction"},
    CORE_CHOICE_POWER,
    {.name = "trace",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_TRACE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "predicted schedule, a track for each core, for Perfetto or Chrome"},
};

const option_list plan_cores_options = {rows, sizeof rows / sizeof rows[0]};

enum { MOST_ROWS = 16 };

typedef struct row {
    char name[48];
    double ns, joules, watts;
    int n_cores;
} row;

typedef struct comparing {
    const planning *p;
    const qn_report_program *program;
    qn_cores cores;
    const char *machine;
    qn_tasks tasks;
    qn_timetable schedule;
    row rows[MOST_ROWS];
    int n_rows;
    qn_trades trades;
    qn_timetable_bounds bounds;
    int64_t planning_ns; /* of ours */
    bool is_measured;    /* times; else by the roofline */
} comparing;

bool plan_wants_cores(const arguments *a) {
    return arguments_flag(a, "compare-cores") || arguments_has(a, "machine") ||
           arguments_has(a, "measure") || arguments_has(a, "trace") ||
           (arguments_has(a, "prefer") && !plan_wants_device(a) && !plan_wants_schedule(a)) ||
           (arguments_has(a, "power") && !plan_wants_schedule(a));
}

static qn_status read_machine(const char *path, qn_cores *cores) {
    char *text;
    size_t bytes;
    QN_TRY(qn_file_read_whole(qn_allocator_default(), path, &text, &bytes));
    const qn_status status = qn_cores_parse(text, bytes, cores);
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", path);
}

/* The cores of this machine. */
static qn_status fill_here(const planning *p, qn_cores *cores) {
    qn_core_wish wish = {0};
    QN_TRY(core_choice_watts(&p->settings, &wish));
    QN_TRY(core_facts_load(cores));
    *cores = qn_cores_for(cores, &wish, p->report.n_threads);
    return QN_OK;
}

/* Times of operations by the roofline. */
static void estimate_curves(comparing *c) {
    const qn_report_program *p = c->program;
    for (int32_t s = 0; s < c->tasks.n; s++) {
        const qn_cost cost = qn_node_cost(p->graph, p->graph->nodes[p->plan->steps[s].node]);
        c->tasks.curves[s] = qn_curve_estimate(&c->cores, &cost);
    }
}

/* Measured times, for a machine of the file's: by the roofline of its first kind to this one's. */
static void scale_curves(comparing *c, const qn_curve *measured) {
    const qn_cores here = qn_cores_typical(1);
    const bool is_here = !arguments_has(c->p->a, "machine");
    for (int32_t s = 0; s < c->tasks.n; s++) {
        const qn_cost cost = {(int64_t)measured[s].flops, (int64_t)measured[s].bytes};
        const double ratio = c->tasks.curves[s].alone_ns / qn_curve_estimate(&here, &cost).alone_ns;
        c->tasks.curves[s] = measured[s];
        c->tasks.curves[s].alone_ns *= is_here ? 1 : ratio;
        c->tasks.curves[s].serial_ns *= is_here ? 1 : ratio;
        c->tasks.curves[s].least_ns *= is_here ? 1 : 0; /* there its memory decides */
    }
}

/* By an engine that can run; its plan has the same steps. */
static qn_status measure_curves(comparing *c) {
    planned_task timed;
    int32_t n;
    QN_TRY(planned_open(&timed, c->p, &(planned_as){.is_usual = true, .is_timed = true}));
    const qn_curve *measured = qn_cores_curves(planned_engine(&timed), &n);
    qn_status status = QN_OK;
    if (measured && n == c->tasks.n)
        scale_curves(c, measured);
    else
        status =
            qn_fail(QN_ERROR_UNSUPPORTED,
                    "operations cannot be timed here: --measure needs --threads 2 or more, and "
                    "no budget that changes the plan");
    c->is_measured = status == QN_OK;
    planned_close(&timed);
    return status;
}

static qn_status fill_curves(comparing *c) {
    estimate_curves(c);
    return arguments_flag(c->p->a, "measure") ? measure_curves(c) : QN_OK;
}

static void add_row(comparing *c, const char *name, int n_cores, const qn_timetable *s) {
    row *r = &c->rows[c->n_rows++];
    *r = (row){.ns = s->ns, .joules = s->joules, .watts = s->most_watts, .n_cores = n_cores};
    snprintf(r->name, sizeof r->name, "%s", name);
}

static qn_status add_rule(comparing *c, const char *name, qn_timetable_rule rule, int width) {
    QN_TRY(qn_timetable_make(&c->tasks, &c->cores, rule, width, &c->schedule));
    add_row(c, name, c->cores.n, &c->schedule);
    return QN_OK;
}

/* So many groups of cores, each an operation at a time. */
static qn_status add_groups(comparing *c, int n, const char *words) {
    char name[48];
    snprintf(name, sizeof name, "%d groups of %d cores%s", n, c->cores.n / n, words);
    return add_rule(c, name, QN_TIMETABLE_FIFO, c->cores.n / n);
}

/* One width for all operations, as many at a time as there is room for: the best of all widths. */
static qn_status add_best_uniform(comparing *c) {
    char name[48];
    int best = 0;
    double least_ns = 0;
    for (int width = 1; width <= c->cores.n; width++) {
        QN_TRY(qn_timetable_make(&c->tasks, &c->cores, QN_TIMETABLE_FIFO, width, &c->schedule));
        if (best > 0 && c->schedule.ns >= least_ns)
            continue;
        best = width;
        least_ns = c->schedule.ns;
    }
    snprintf(name, sizeof name, "best uniform width: %d", best);
    return add_rule(c, name, QN_TIMETABLE_FIFO, best);
}

static qn_status add_optimum(comparing *c) {
    if (c->tasks.n > QN_OPTIMUM_TASKS)
        return QN_OK;
    const qn_status status = qn_timetable_optimum(&c->tasks, &c->cores, &c->schedule);
    if (status == QN_OK)
        add_row(c, "optimum", c->cores.n, &c->schedule);
    return status == QN_ERROR_UNSUPPORTED ? QN_OK : status;
}

/* ---- the predicted schedule as a trace ---- */

typedef struct drawing {
    const comparing *c;
    const qn_cores *part;
} drawing;

static qn_status put_turn(const drawing *d, int32_t step, qn_trace *trace) {
    static const char *const names[] = {"cores", "step"};
    const qn_report_program *p = d->c->program;
    const qn_node *node = p->graph->nodes[p->plan->steps[step].node];
    const qn_turn *turn = &d->c->schedule.turns[step];
    const double values[] = {turn->width, step};
    for (int core = turn->first; core < turn->first + turn->width; core++)
        QN_TRY(qn_trace_slice(trace, 1, core + 1, node->name, node->op->name,
                              (int64_t)turn->begin_ns, (int64_t)turn->end_ns, 2, names, values));
    return QN_OK;
}

static qn_status put_schedule(void *user, qn_trace *trace) {
    const drawing *d = user;
    char name[64];
    QN_TRY(qn_trace_process_name(trace, 1, "predicted schedule"));
    for (int core = 0; core < d->part->n; core++) {
        snprintf(name, sizeof name, "core %d, %s", core,
                 d->part->kinds[qn_cores_kind(d->part, core)].name);
        QN_TRY(qn_trace_thread_name(trace, 1, core + 1, name));
    }
    for (int32_t rank = 0; rank < d->c->schedule.n; rank++)
        QN_TRY(put_turn(d, d->c->schedule.order[rank], trace));
    return QN_OK;
}

static const char *const preferences[] = {"time", "energy", "balanced"};

/* Ours for one of them; the part of the cores that it uses. */
static qn_status add_preferred(comparing *c, qn_prefer prefer, double watts, qn_cores *part) {
    char name[48];
    const int64_t begin_ns = qn_clock_ns();
    QN_TRY(
        qn_timetable_prefer(&c->tasks, &c->cores, prefer, watts, part, &c->schedule, &c->trades));
    c->planning_ns = qn_clock_ns() - begin_ns;
    snprintf(name, sizeof name, "quern, for %s%s", preferences[prefer],
             part->speed < 1 ? ", slower clock" : "");
    add_row(c, name, part->n, &c->schedule);
    return QN_OK;
}

/* The one that was asked for last; for a machine of a file all. */
static qn_status add_ours(comparing *c) {
    const char *wanted = arguments_get(c->p->a, "prefer"), *watts = arguments_get(c->p->a, "power");
    const double most_watts = watts ? qn_decimal_read(watts, NULL) : 0;
    qn_cores part;
    int prefer = 0;
    while (wanted && prefer < 2 && strcmp(wanted, preferences[prefer]) != 0)
        prefer++;
    for (int i = 0; i < 3 && arguments_has(c->p->a, "machine"); i++) {
        if (i != prefer)
            QN_TRY(add_preferred(c, (qn_prefer)i, most_watts, &part));
    }
    QN_TRY(add_preferred(c, (qn_prefer)prefer, most_watts, &part));
    const char *trace = arguments_get(c->p->a, "trace");
    drawing d = {c, &part};
    return trace ? qn_trace_write(trace, put_schedule, &d) : QN_OK;
}

static qn_status add_rows(comparing *c) {
    QN_TRY(add_rule(c, "one by one, all cores", QN_TIMETABLE_ONE_BY_ONE, 0));
    for (int n = 2; n < c->cores.n && n <= 4; n *= 2)
        QN_TRY(add_groups(c, n, ""));
    if (c->cores.n > 1)
        QN_TRY(add_rule(c, "each on one core, first ready first", QN_TIMETABLE_FIFO, 1));
    QN_TRY(add_rule(c, "each on one core, HEFT", QN_TIMETABLE_HEFT, 1));
    QN_TRY(add_rule(c, "each at its best width", QN_TIMETABLE_BEST_WIDTH, 1));
    QN_TRY(add_best_uniform(c));
    QN_TRY(add_optimum(c));
    return add_ours(c);
}

/* ---- printing ---- */

void plan_print_trades(const qn_trades *trades, const qn_cores *cores) {
    char name[QN_MAX_CORE_KINDS * (QN_CORE_NAME + 8)];
    printf("\n%-36s %9s %6s %9s %7s\n", "time against energy", "ms", "clock", "mJ", "W");
    for (int i = 0; i < trades->n; i++) {
        const qn_trade *t = &trades->list[i];
        qn_trade_name(t, cores, name, sizeof name);
        printf("%-36s %9.3f %5.0f%% %9.1f %7.2f\n", name, t->ns * 1e-6, 100 * t->speed,
               t->joules * 1e3, t->most_watts);
    }
}

void plan_json_trades(const qn_trades *trades, const qn_cores *cores) {
    char name[QN_MAX_CORE_KINDS * (QN_CORE_NAME + 8)];
    json_open_list("curve");
    for (int i = 0; i < trades->n; i++) {
        const qn_trade *t = &trades->list[i];
        qn_trade_name(t, cores, name, sizeof name);
        json_begin_item();
        json_text("cores", name);
        json_number("clock", t->speed);
        json_number("ms", t->ns * 1e-6);
        json_number("joules", t->joules);
        json_number("most_watts", t->most_watts);
        json_end_item();
    }
    json_close_list();
}

static void describe_cores(const qn_cores *cores, char *text, size_t bytes) {
    size_t used = 0;
    text[0] = 0;
    for (int k = 0; k < cores->n_kinds && used < bytes; k++)
        used += (size_t)snprintf(text + used, bytes - used, "%s%d %s", k > 0 ? ", " : "",
                                 cores->kinds[k].n, cores->kinds[k].name);
}

static void print_bounds(const comparing *c) {
    const qn_timetable_bounds *b = &c->bounds;
    const double least = fmax(b->memory_ns, fmax(b->work_ns, b->critical_path_ns));
    printf("%-36s %9.3f %8.3f\n", "no schedule can be faster than", least * 1e-6,
           c->rows[0].ns / least);
}

static void print_text(const comparing *c) {
    char cores[96];
    describe_cores(&c->cores, cores, sizeof cores);
    printf("\n%-36s %9s %8s %6s %9s %7s\n", "a step, predicted", "ms", "speedup", "cores", "mJ",
           "W");
    for (int i = 0; i < c->n_rows; i++) {
        const row *r = &c->rows[i];
        printf("%-36s %9.3f %8.3f %6d %9.1f %7.2f\n", r->name, r->ns * 1e-6, c->rows[0].ns / r->ns,
               r->n_cores, r->joules * 1e3, r->watts);
    }
    print_bounds(c);
    if (arguments_has(c->p->a, "machine"))
        plan_print_trades(&c->trades, &c->cores);
    terminal_print(0,
                   "%s of %s; %d operations of %s, %s; power is an estimate; ours was found in "
                   "%.0f ms",
                   cores, c->machine, c->tasks.n, c->program->name,
                   c->is_measured ? "timed on this machine" : "estimated by the roofline",
                   (double)c->planning_ns * 1e-6);
}

static void print_objects(const comparing *c) {
    char cores[96];
    describe_cores(&c->cores, cores, sizeof cores);
    json_begin();
    json_text("event", "cores");
    json_text("program", c->program->name);
    json_text("machine", c->machine);
    json_text("cores", cores);
    json_count("operations", c->tasks.n);
    json_flag("measured", c->is_measured);
    json_number("planning_ms", (double)c->planning_ns * 1e-6);
    json_open_list("schedules");
    for (int i = 0; i < c->n_rows; i++) {
        const row *r = &c->rows[i];
        json_begin_item();
        json_text("name", r->name);
        json_number("ms", r->ns * 1e-6);
        json_number("speedup", c->rows[0].ns / r->ns);
        json_count("cores", r->n_cores);
        json_number("joules", r->joules);
        json_number("most_watts", r->watts);
        json_end_item();
    }
    json_close_list();
    plan_json_trades(&c->trades, &c->cores);
    json_number("longest_way_ms", c->bounds.critical_path_ns * 1e-6);
    json_number("all_busy_ms", c->bounds.work_ns * 1e-6);
    json_number("memory_ms", c->bounds.memory_ns * 1e-6);
    json_end();
}

static qn_status compare(comparing *c) {
    const qn_report_program *p = c->program;
    QN_TRY(qn_tasks_of_plan(qn_allocator_default(), p->plan, p->graph, &c->tasks));
    QN_TRY(fill_curves(c));
    QN_TRY(qn_timetable_init(qn_allocator_default(), c->tasks.n, &c->schedule));
    QN_TRY(qn_timetable_bound(&c->tasks, &c->cores, &c->bounds));
    return add_rows(c);
}

qn_status plan_compare_cores(const planning *p) {
    comparing c = {.p = p, .program = &p->report.programs[p->report.largest]};
    const char *path = arguments_get(p->a, "machine");
    c.machine = path ? path : "this machine";
    QN_TRY(path ? read_machine(path, &c.cores) : fill_here(p, &c.cores));
    const qn_status status = compare(&c);
    if (status == QN_OK)
        arguments_flag(p->a, "json") ? print_objects(&c) : print_text(&c);
    qn_timetable_deinit(&c.schedule);
    qn_tasks_deinit(&c.tasks);
    return status;
}
