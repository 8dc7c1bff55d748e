/* See plan.h. All figures come from tasks that only plan: as requested, without a budget, and
 * without fusion. */
#include "cli/model.h"
#include "cli/plan/plan.h"
#include "os/heap.h"

#include "base/status.h"
#include "plan/baselines.h"

#include <string.h>

static const planned_task *usual_task(const planning *p) {
    return p->usual.task ? &p->usual : &p->asked;
}

static qn_status find_isa(const char **name) {
    qn_isa isa;
    QN_TRY(qn_cpu_isa(&isa));
    *name = qn_isa_name(isa);
    return QN_OK;
}

/* Plans a graph with every value made once, with the clock and the counter on. */
static qn_status measure_planning(planning *p, const qn_graph *graph, qn_report_program *program) {
    qn_counter counter;
    qn_plan *plan;
    const qn_allocator allocator = qn_counter_init(&counter, qn_allocator_default());
    const int64_t begin = qn_clock_ns();
    QN_TRY(qn_plan_create(&allocator, graph, p->machine, &plan));
    p->report.planning_ns += qn_clock_ns() - begin;
    if (counter.peak_bytes > p->report.planner_bytes)
        p->report.planner_bytes = counter.peak_bytes;
    program->once_bytes = plan->arena_bytes;
    qn_plan_destroy(plan);
    return QN_OK;
}

static qn_status add_late(const planning *p, const qn_graph *graph, qn_report_program *program) {
    qn_plan *late;
    program->late_bytes = program->once_bytes;
    if (!program->is_training)
        return QN_OK;
    QN_TRY(qn_baseline_plan_late(qn_allocator_default(), graph, p->machine, &late));
    program->late_bytes = late->arena_bytes;
    qn_plan_destroy(late);
    return QN_OK;
}

/* Its graph with every value made once. */
static const qn_graph *as_built(const qn_program *program) {
    return program->base ? program->base : program->graph;
}

static qn_status describe(planning *p, int index) {
    const qn_program *plain = qn_engine_get_program(planned_engine(&p->unfused), index);
    const qn_program *usual = qn_engine_get_program(planned_engine(usual_task(p)), index);
    qn_report_program *program = &p->report.programs[index];
    size_t alive;
    program->default_bytes = usual->plan->arena_bytes;
    const qn_graph *once = as_built(usual);
    QN_TRY(measure_planning(p, once, program));
    QN_TRY(qn_baseline_unplanned(qn_allocator_default(), as_built(plain), &program->unplanned));
    QN_TRY(add_late(p, once, program));
    QN_TRY(qn_plan_report_extra(&p->memory, program));
    planned_times(program);
    program->peak_step = qn_plan_peak_step(program->plan, &alive);
    qn_plan_peak_by_kind(program->plan, program->kind_bytes);
    return QN_OK;
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* What is of all programs together: they share an arena, so the largest counts. */
static void add_up(planning *p) {
    qn_plan_report *r = &p->report;
    size_t unplanned = 0, usual = 0, once = 0, late = 0;
    for (int i = 0; i < r->n_programs; i++) {
        const qn_report_program *program = &r->programs[i];
        if (program->plan->arena_bytes > r->programs[r->largest].plan->arena_bytes)
            r->largest = i;
        unplanned = larger(unplanned, program->unplanned.bytes);
        usual = larger(usual, program->default_bytes);
        once = larger(once, program->once_bytes);
        late = larger(late, program->late_bytes);
    }
    const qn_memory_use use = qn_engine_get_memory(planned_engine(&p->asked));
    r->arena_bytes = r->programs[r->largest].plan->arena_bytes;
    r->lower_bound_bytes = r->programs[r->largest].plan->lower_bound_bytes;
    r->peak_bytes = planned_peak_bytes(&p->asked) - use.arena_bytes + r->arena_bytes;
    r->default_peak_bytes = planned_peak_bytes(usual_task(p));
    r->unplanned_peak_bytes = r->default_peak_bytes - usual + unplanned;
    r->early_bytes = late > once ? late - once : 0;
}

static qn_status begin_report(planning *p) {
    const qn_engine *engine = planned_engine(&p->asked);
    const qn_task_facts facts = qn_task_get_facts(p->asked.task);
    qn_plan_report *r = &p->report;
    *r = (qn_plan_report){
        .model = p->model->name,
        .input = facts.input,
        .optimizer = settings_get(&p->settings, "optimizer"),
        .batch = facts.batch,
        .n_threads = qn_engine_get_options(engine)->n_threads,
        .budget_bytes = p->budget_bytes,
        .fixed_bytes = qn_engine_get_memory(engine).parameter_bytes,
        .n_programs = qn_engine_program_count(engine),
    };
    const qn_budget_use use = qn_engine_get_budget(engine);
    r->is_measured = use.is_measured;
    r->planning_ns = use.planning_ns;
    r->planner_bytes = use.planner_bytes;
    p->machine = r->machine = qn_engine_get_machine(engine);
    QN_TRY(find_isa(&r->isa));
    r->programs = qn_arena_allocate(&p->memory, (size_t)r->n_programs, sizeof *r->programs);
    if (!r->programs)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < r->n_programs; i++) {
        r->programs[i] = planned_program(&p->asked, i);
        if (p->file.model)
            r->programs[i].micro_batch = p->file.plan.programs[i].micro_batch;
    }
    return QN_OK;
}

qn_status planning_fill(planning *p) {
    for (int i = 0; i < p->report.n_programs; i++)
        QN_TRY(describe(p, i));
    add_up(p);
    return QN_OK;
}

void planning_init(planning *p, const arguments *a) {
    *p = (planning){.a = a,
                    .n_threads = (int)arguments_count(a, "threads"),
                    .budget_bytes = (size_t)arguments_count(a, "memory"),
                    .swap_folder = arguments_get(a, "swap")};
    qn_plan_file_init(&p->file, NULL);
    qn_arena_init(&p->memory, qn_allocator_default());
}

void planning_deinit(planning *p) {
    qn_arena_deinit(&p->memory);
    planned_close(&p->scheduled);
    planned_close(&p->unfused);
    planned_close(&p->usual);
    planned_close(&p->asked);
    planned_close(&p->choosing);
    settings_deinit(&p->settings);
    qn_plan_file_deinit(&p->file);
}

qn_status planning_begin(planning *p) {
    model_read_options(p->a);
    QN_TRY(model_find(p->a->words[0], arguments_get(p->a, "data"), &p->model));
    return settings_resolve(p->a, p->model, NULL, &p->settings);
}

qn_status planning_open(planning *p) {
    QN_TRY(planned_open(&p->asked, p, &(planned_as){0}));
    if (p->budget_bytes > 0 || p->file.model)
        QN_TRY(planned_open(&p->usual, p, &(planned_as){.is_usual = true}));
    QN_TRY(planned_open(&p->unfused, p, &(planned_as){.no_fusion = true, .is_usual = true}));
    return begin_report(p);
}
