/* quern plan --cores auto: the schedule that training would begin with, measured here, as
 * predicted and as a rehearsed step ran. */
#include "base/status.h"
#include "base/text.h"
#include "cli/json.h"
#include "cli/plan/plan.h"
#include "cli/terminal.h"
#include "cli/train/core_choice.h"
#include "cli/train/core_facts.h"
#include "os/heap.h"
#include "run/cores/cores.h"

#include <string.h>

bool plan_wants_schedule(const arguments *a) {
    return strcmp(arguments_get(a, "cores"), "auto") == 0;
}

/* The first program that trains: it is the one that runs side by side. */
static const qn_program *find_program(const qn_engine *engine) {
    for (int i = 0; i < qn_engine_program_count(engine); i++) {
        const qn_program *p = qn_engine_get_program(engine, i);
        if (p->training)
            return p;
    }
    return NULL;
}

/* By the times that were measured. */
static qn_status find_trades(qn_report_schedule *s, const planning *p, const qn_engine *engine) {
    const qn_core_wish *wish = &p->core_wish;
    qn_tasks tasks;
    int32_t n;
    const qn_curve *curves = qn_cores_curves(engine, &n);
    QN_TRY(qn_tasks_of_plan(qn_allocator_default(), s->plan, s->graph, &tasks));
    for (int32_t i = 0; i < tasks.n && i < n; i++)
        tasks.curves[i] = curves[i];
    s->cores = qn_cores_for(&p->core_facts, wish, s->use.n_cores);
    const qn_status status =
        n == tasks.n ? qn_timetable_trade(&tasks, &s->cores, wish->most_watts, &s->trades) : QN_OK;
    qn_tasks_deinit(&tasks);
    return status;
}

qn_status plan_schedule(planning *p) {
    QN_TRY(core_choice_wish(p->a, &p->settings, &p->core_wish));
    QN_TRY(core_facts_load(&p->core_facts));
    QN_TRY(planned_open(&p->scheduled, p, &(planned_as){.is_timed = true}));
    const qn_engine *engine = planned_engine(&p->scheduled);
    const qn_program *program = find_program(engine);
    qn_report_schedule *s = &p->schedule;
    s->use = qn_engine_get_cores(engine);
    if (s->use.n_cores == 0 || !program)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "operations run one by one here: --cores auto needs --threads 2 or more, a "
                       "program that trains, and neither a swap file nor other processors");
    s->program = program->name;
    s->graph = program->graph;
    s->plan = program->plan;
    if (!s->use.is_over_budget)
        qn_cores_schedule(engine, &s->predicted, &s->seen);
    p->report.schedule = s;
    return find_trades(s, p, engine);
}

static void print_operation(const qn_report_schedule *s, int32_t step) {
    const qn_turn *turn = &s->predicted->turns[step];
    const qn_node *node = s->graph->nodes[s->plan->steps[step].node];
    const bool was_seen = qn_report_was_seen(s, step);
    json_begin_item();
    json_text("name", node->name);
    json_text("type", node->op->name);
    json_count("first_core", turn->first);
    json_count("cores", turn->width);
    json_number("begin_ms", turn->begin_ns * 1e-6);
    json_number("end_ms", turn->end_ns * 1e-6);
    if (was_seen) {
        json_number("measured_begin_ms", s->seen->turns[step].begin_ns * 1e-6);
        json_number("measured_end_ms", s->seen->turns[step].end_ns * 1e-6);
    }
    json_end_item();
}

static void print_object(const qn_report_schedule *s) {
    const qn_cores_use *use = &s->use;
    json_begin();
    json_text("event", "schedule");
    json_text("program", s->program);
    core_facts_print(use);
    json_open_list("operations");
    for (int32_t rank = 0; s->predicted && rank < s->predicted->n; rank++)
        print_operation(s, s->predicted->order[rank]);
    json_close_list();
    plan_json_trades(&s->trades, &s->cores);
    json_end();
}

void plan_print_schedule(const planning *p) {
    const qn_report_schedule *s = &p->schedule;
    char text[QN_SCHEDULE_TEXT], arena[QN_SIZE_TEXT], usual[QN_SIZE_TEXT];
    if (arguments_flag(p->a, "json")) {
        print_object(s);
        return;
    }
    terminal_print(0, "\n%s", qn_report_schedule_text(s, text));
    terminal_print(0, "Arena %s instead of %s; found in %d steps (%.1f s) and %.0f ms of planning.",
                   qn_text_print_size(s->use.arena_bytes, arena),
                   qn_text_print_size(s->use.usual_arena_bytes, usual), s->use.n_profiled,
                   (double)s->use.measuring_ns * 1e-9, (double)s->use.planning_ns * 1e-6);
    plan_print_trades(&s->trades, &s->cores);
}
