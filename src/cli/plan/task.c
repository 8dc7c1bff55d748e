/* Tasks that only plan; see plan.h. */
#include "cli/plan/plan.h"

#include "base/decimal.h"
#include "base/status.h"
#include "cli/model.h"
#include "cli/train/patience.h"
#include "format/operation_times.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>

/* A placement is of the graph that it was chosen for. */
static qn_status fill_device(planned_task *t, const settings *s, const planned_as *as) {
    const char *device = settings_get(s, "device");
    char name[40];
    if (!as->no_fusion || !device || !strchr(device, '/'))
        return QN_OK;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(device, "/"), device);
    return qn_metadata_set(t->pairs, "device", name);
}

static qn_status fill_pairs(planned_task *t, const qn_model *model, const settings *s,
                            const planned_as *as) {
    char batch[24];
    QN_TRY(qn_metadata_create(&t->allocator, &t->pairs));
    QN_TRY(settings_store(s, t->pairs));
    QN_TRY(fill_device(t, s, as));
    QN_TRY(model_add_pairs(model, true, t->pairs));
    if (as->batch == 0)
        return QN_OK;
    snprintf(batch, sizeof batch, "%lld", (long long)as->batch);
    return qn_metadata_set(t->pairs, "batch", batch);
}

/* Times that were measured before, as training would use them. */
static qn_status use_times(void *user, qn_engine *engine) {
    int64_t n_found;
    (void)user;
    return qn_operation_times_load(engine, &n_found);
}

qn_status planned_open(planned_task *t, const planning *p, const planned_as *as) {
    *t = (planned_task){.task = NULL};
    t->allocator = qn_counter_init(&t->counter, qn_allocator_default());
    qn_status status = fill_pairs(t, p->model, &p->settings, as);
    const qn_task_options options = {
        QN_TASK_OPTIONS_INIT,
        .engine.allocator = &t->allocator,
        .log = as->is_search || as->chooses_device || (as->is_usual && !as->is_timed)
                   ? NULL
                   : &session_log,
        .model = p->model,
        .settings = t->pairs,
        .training = true,
        .engine.n_threads = p->n_threads,
        .engine.micro_batch = as->is_usual ? 0 : arguments_count(p->a, "micro-batch"),
        .engine.recompute = session_recompute(p->a),
        .engine.plan_only = !as->is_timed && !as->chooses_device,
        .engine.cores = as->is_timed ? QN_CORES_MEASURED : QN_CORES_ONE_BY_ONE,
        .engine.core_facts = as->is_timed && p->core_facts.n > 0 ? &p->core_facts : NULL,
        .engine.core_wish = as->is_timed ? p->core_wish : (qn_core_wish){0},
        .engine.foreground_hz = arguments_has(p->a, "foreground")
                                    ? qn_decimal_read(arguments_get(p->a, "foreground"), NULL)
                                    : 0,
        .engine.no_fusion = as->no_fusion,
        .engine.memory_budget_bytes = as->is_usual ? 0 : p->budget_bytes,
        .engine.swap_folder = as->is_usual ? NULL : p->swap_folder,
        .memory_outside_bytes = t->counter.held_bytes,
        .engine.no_least = as->is_search,
        .on_built = use_times,
        .engine.saved_plan = as->is_usual || !p->file.model ? NULL : &p->file.plan,
    };
    if (status == QN_OK)
        status =
            as->is_search ? qn_task_open(&options, &t->task) : patience_open(&options, &t->task);
    if (status != QN_OK)
        planned_close(t);
    return status;
}

void planned_close(planned_task *t) {
    qn_task_close(t->task);
    qn_metadata_destroy(t->pairs);
    t->task = NULL;
    t->pairs = NULL;
}

const qn_engine *planned_engine(const planned_task *t) {
    return qn_task_engine(t->task);
}

/* What planning took for a while is gone before the arena comes, and counts where it was more. */
size_t planned_peak_bytes(const planned_task *t) {
    const qn_memory_use use = qn_engine_get_memory(planned_engine(t));
    const qn_budget_use budget = qn_engine_get_budget(planned_engine(t));
    const size_t held = t->counter.held_bytes + use.planned_bytes;
    if (budget.budget_bytes > 0)
        return budget.peak_bytes;
    return held > t->counter.peak_bytes ? held : t->counter.peak_bytes;
}

qn_report_program planned_program(const planned_task *t, int index) {
    const qn_program *made = qn_engine_get_program(planned_engine(t), index);
    return (qn_report_program){
        .name = made->name,
        .is_training = made->training,
        .micro_batch = made->micro_batch,
        .unsplit = made->unsplit,
        .base = made->base ? made->base : made->graph,
        .graph = made->graph,
        .plan = made->plan,
        .budget = made->base ? &made->budget : NULL,
        .node_ns = made->node_ns,
    };
}

static double sum_ns(const qn_report_program *p) {
    double sum = 0;
    for (int32_t n = 0; n < p->base->n_nodes; n++)
        sum += qn_report_node_ns(p, n);
    return sum;
}

void planned_times(qn_report_program *program) {
    const qn_budget_plan *budget = program->budget;
    const bool is_known = budget && budget->base_ns > 0;
    program->base_ns = is_known ? budget->base_ns : sum_ns(program);
    program->extra_ns = is_known ? budget->extra_ns : 0;
    for (int32_t i = 0; !is_known && i < program->n_again; i++)
        program->extra_ns += program->again[i].ns;
    if (!program->unsplit)
        return;
    const qn_report_program unsplit = {.base = program->unsplit, .plan = program->plan};
    const double whole = sum_ns(&unsplit), split = program->base_ns;
    program->base_ns = whole;
    program->extra_ns += split > whole ? split - whole : 0;
}
