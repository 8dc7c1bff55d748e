/* See offload.h. None of the host's values has been updated when a device is lost (plan/plan.h),
 * or, as those of the device are gone, the steps before are run again (run/resident). */
#include "run/offload.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "plan/lanes/partition.h"
#include "run/placing/comparison.h"
#include "run/placing/within.h"
#include "run/policy.h"
#include "run/resident/resident.h"

#include <stdio.h>
#include <string.h>

/* ---- opening ---- */

/* A piece that somebody's frame may have to wait for is a small part of it. */
static void set_pace(const qn_engine *e, const qn_device *device, void *state) {
    const double frame_ns = 1e9 / e->options.foreground_hz, most_ns = 4e6;
    const double piece_ns = frame_ns / 8 < most_ns ? frame_ns / 8 : most_ns;
    if (e->options.foreground_hz > 0 && device->set_pace)
        device->set_pace(state, (int64_t)piece_ns, (int64_t)(piece_ns / 4));
}

static qn_status add(qn_engine *e, const qn_driver *driver, int number) {
    const qn_driver_options options = {.number = number, .shares = true};
    void *state;
    int row;
    QN_TRY(qn_driver_open(driver, &e->allocator, &options, &state));
    const qn_device *device = driver->functions->device;
    const qn_status status = qn_machine_add(&e->machine, device, state, &row);
    if (status != QN_OK) {
        device->close(state);
        return status;
    }
    qn_offload *o = qn_offload_of(e);
    o->device = o->opened = row;
    o->driver = driver;
    o->number = number;
    set_pace(e, device, state);
    return QN_OK;
}

bool qn_device_is_chosen(const char *device) {
    qn_device_name name;
    if (strcmp(device, "auto") == 0)
        return true;
    return qn_driver_parse(device, &name) == QN_OK && name.driver->functions &&
           name.driver->functions->is_placed && !name.placement;
}

static qn_status check(const qn_engine *e) {
    const qn_engine_options *o = &e->options;
    const char *what = o->budget_changes ? "a memory budget that changes"
                       : o->swap_folder  ? "a swap file"
                                         : NULL;
    if (what)
        return qn_fail(QN_ERROR_UNSUPPORTED, "the device %s does not work with %s yet; use the cpu",
                       o->device, what);
    if (o->real != QN_F32)
        return qn_fail(QN_ERROR_UNSUPPORTED, "the device %s trains in f32 only; use the cpu",
                       o->device);
    return QN_OK;
}

/* Joules come from the watts of both. */
static qn_status check_wish(const qn_device_wish *wish) {
    const double most = 1e6;
    const bool is_sound = wish->cpu_watts >= 0 && wish->cpu_watts <= most &&
                          wish->device_watts >= 0 && wish->device_watts <= most &&
                          wish->idle_watts >= 0 && wish->idle_watts <= most;
    if (wish->prefer < QN_PREFER_TIME || wish->prefer > QN_PREFER_BALANCED || !is_sound)
        return qn_fail(QN_ERROR_ARGUMENT, "the watts of a processor are from 0 to %g", most);
    if (wish->prefer == QN_PREFER_TIME || (wish->cpu_watts > 0 && wish->device_watts > 0))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "a device that is chosen for energy needs the watts of both processors while "
                   "they work: --cpu-watts and --device-watts");
}

/* ---- the option ---- */

/* A text of the engine's own for that of the options, which the caller does not keep. */
static qn_status take_name(qn_engine *e, const char *text) {
    qn_offload *o = qn_offload_of(e);
    const size_t bytes = strlen(text) + 1;
    char *name;
    QN_TRY(qn_allocate(&e->allocator, 1, bytes, &name));
    memcpy(name, text, bytes);
    qn_release(&e->allocator, o->name, 1, o->name_bytes);
    e->options.device = o->name = name;
    o->name_bytes = bytes;
    return QN_OK;
}

/* "SCHEME:NUMBER/PLACEMENT", of what is known. */
static qn_status print_name(qn_engine *e) {
    enum { MOST_NUMBER = 24 };
    const qn_offload *o = qn_offload_of(e);
    const char *scheme = o->driver->scheme;
    const size_t bytes = strlen(scheme) + MOST_NUMBER + qn_placed_text_bytes(&o->placed);
    char *text;
    QN_TRY(qn_allocate(&e->allocator, 1, bytes, &text));
    size_t at = (size_t)snprintf(text, bytes, "%s", scheme);
    if (o->number > 0)
        at += (size_t)snprintf(text + at, bytes - at, ":%d", o->number);
    if (o->placed.is_given) {
        text[at++] = '/';
        qn_placed_print(&o->placed, text + at, bytes - at);
    }
    const qn_status status = take_name(e, text);
    qn_release(&e->allocator, text, 1, bytes);
    return status;
}

qn_status qn_engine_note_placed(qn_engine *e, const qn_program *p) {
    qn_offload *o = qn_offload_of(e);
    const int64_t pieces = p ? qn_program_pieces(p) : 0;
    qn_placed placed = {.pieces = 1};
    if (p && p->site_of)
        QN_TRY(qn_placed_take(&e->allocator, p->site_of, qn_program_built_graph(p)->n_nodes,
                              pieces > 0 ? pieces : 1, &placed));
    qn_placed_deinit(&e->allocator, &o->placed);
    o->placed = placed;
    return print_name(e);
}

qn_status qn_engine_note_cpu(qn_engine *e) {
    qn_placed_deinit(&e->allocator, &qn_offload_of(e)->placed);
    return take_name(e, "cpu");
}

/* What "auto" cannot use, it does without. */
static qn_status open_auto(qn_engine *e) {
    qn_offload *o = qn_offload_of(e);
    const bool is_fit = check(e) == QN_OK && !e->options.plan_only && !e->options.saved_plan;
    QN_TRY(check_wish(&e->options.device_wish));
    for (const qn_driver *d = qn_drivers; is_fit && !o->is_tried && d->scheme; d++)
        o->is_tried = d->functions && d->functions->is_tried && add(e, d, 0) == QN_OK;
    QN_TRY(take_name(e, o->is_tried ? "auto" : "cpu"));
    if (e->options.plan_only)
        qn_engine_tell(
            e, 0,
            "device auto is chosen by measuring steps before training; this plan is the CPU's");
    return QN_OK;
}

/* The option is parsed here, once; what it says is typed from here on. */
static qn_status create(qn_engine *e) {
    qn_offload *o;
    QN_TRY(qn_allocate(&e->allocator, 1, sizeof *o, &o));
    e->policies[QN_POLICY_OFFLOAD] = o;
    o->placed.pieces = 1;
    qn_device_name name;
    QN_TRY(take_name(e, e->options.device ? e->options.device : "cpu"));
    if (strcmp(o->name, "cpu") == 0)
        return QN_OK;
    if (strcmp(o->name, "auto") == 0)
        return open_auto(e);
    QN_TRY(qn_driver_parse(o->name, &name));
    QN_TRY(qn_placed_parse(&e->allocator, name.placement, &o->placed));
    QN_TRY(check(e));
    return add(e, name.driver, name.number);
}

static void destroy(qn_engine *e) {
    qn_offload *o = qn_offload_of(e);
    if (!o)
        return;
    qn_resident_destroy(e);
    qn_release(&e->shared, o->left_arena, 1, o->left_arena_bytes);
    if (o->opened > 0)
        qn_offload_opened(e)->device->close(qn_offload_opened(e)->state);
    qn_device_choice_destroy(e);
    qn_placed_deinit(&e->allocator, &o->placed);
    qn_release(&e->allocator, o->name, 1, o->name_bytes);
    qn_release(&e->allocator, o, 1, sizeof *o);
    e->policies[QN_POLICY_OFFLOAD] = NULL;
}

/* ---- planning ---- */

void qn_engine_fill_lanes(const qn_engine *e, qn_lane lanes[2]) {
    lanes[0] = (qn_lane){.n_threads = (int16_t)e->options.n_threads};
    lanes[1] = (qn_lane){.device = (int16_t)qn_engine_device(e),
                         .space = e->machine.devices[qn_engine_device(e)].first_space,
                         .n_threads = 1,
                         .can_be_lost = e->machine.devices[qn_engine_device(e)].device->is_lost &&
                                        !qn_resident_is_active(e)};
}

/* The one that a placement is of: the first that trains. */
static const qn_program *placed_program(const qn_engine *e) {
    int i = 0;
    while (i + 1 < e->n_programs && !e->programs[i].training)
        i++;
    return &e->programs[i];
}

/* The placement that was measured or given for a program; else all that the device can run. */
qn_status qn_engine_fill_lane_of(const qn_engine *e, const qn_program *p, int16_t *lane_of) {
    const qn_graph *graph = p->graph;
    const qn_placed *placed = &qn_offload_of(e)->placed;
    const bool is_placed = p == placed_program(e) && placed->is_given;
    for (int n = 0; n < graph->n_nodes; n++)
        lane_of[n] = !p->site_of || p->site_of[n] > 0;
    if (!p->site_of && is_placed)
        QN_TRY(qn_placed_fill(placed, lane_of, graph->n_nodes));
    for (int n = 0; n < graph->n_nodes; n++) {
        qn_tensor outputs[QN_MAX_OUTPUTS];
        const qn_node *node = graph->nodes[n];
        const qn_query query = qn_machine_query(graph, node, e->options.n_threads, outputs);
        lane_of[n] = lane_of[n] && !node->op->is_view && !node->op->is_wait &&
                     qn_machine_supports(&e->machine, qn_engine_device(e), &query);
    }
    return QN_OK;
}

/* The node of a graph from one on that has a name; the number of nodes: none. */
static int find_from(const qn_graph *graph, int node, const char *name) {
    int n = node;
    while (n < graph->n_nodes && strcmp(graph->nodes[n]->name, name) != 0)
        n++;
    return n;
}

/* The node and the value of a graph that each of its partition's is; copies are none. */
qn_status qn_engine_find_origins(const qn_graph *graph, const qn_partition *s,
                                 qn_origins *origins) {
    const size_t n_nodes = (size_t)s->graph->n_nodes, n_values = (size_t)s->graph->n_values;
    int32_t *node_of = qn_arena_allocate(&s->graph->arena, n_nodes + 1, sizeof *node_of);
    int32_t *value_of = qn_arena_allocate(&s->graph->arena, n_values + 1, sizeof *value_of);
    if (!node_of || !value_of)
        return QN_ERROR_MEMORY;
    for (int n = 0, next = 0; n < s->graph->n_nodes; n++) {
        const int same = find_from(graph, next, s->graph->nodes[n]->name);
        node_of[n] = same < graph->n_nodes ? same : -1;
        next = same < graph->n_nodes ? same + 1 : next;
    }
    for (size_t v = 0; v < n_values; v++)
        value_of[v] = -1;
    for (int v = 0; v < graph->n_values; v++) {
        if (s->values[v].id >= 0)
            value_of[s->values[v].id] = v;
    }
    *origins = (qn_origins){
        .node_of = node_of, .value_of = value_of, .first = s->values, .last = s->values};
    return QN_OK;
}

/* Where the values of a program from outside lie. */
void qn_engine_fill_space_of(const qn_engine *e, const qn_graph *graph, int16_t *space_of) {
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        space_of[v] = info->producer < 0 && qn_resident_has(e, info->name)
                          ? e->machine.devices[qn_engine_device(e)].first_space
                          : 0;
    }
}

static qn_status plan(qn_engine *e, const qn_program *p, int16_t *of_nodes, int16_t *of_values,
                      qn_budget_plan *made) {
    qn_lane lanes[2];
    qn_partition partition;
    qn_engine_fill_lanes(e, lanes);
    QN_TRY(qn_engine_fill_lane_of(e, p, of_nodes));
    qn_engine_fill_space_of(e, p->graph, of_values);
    const qn_assignment wanted = {.n_lanes = 2,
                                  .n_spaces = e->machine.n_spaces,
                                  .lanes = lanes,
                                  .lane_of = of_nodes,
                                  .space_of = of_values};
    QN_TRY(qn_partition_make(p->graph, &wanted, &partition));
    made->graph = partition.graph;
    QN_TRY(qn_engine_find_origins(p->graph, &partition, &made->origins));
    return qn_plan_create_for_lanes(&e->allocator, partition.graph, &e->machine,
                                    &partition.assignment, &made->plan);
}

qn_status qn_engine_plan_device(qn_engine *e, qn_program *p) {
    const size_t n = (size_t)p->graph->n_nodes + (size_t)p->graph->n_values;
    qn_budget_plan made = {0};
    int16_t *numbers;
    QN_TRY(qn_allocate(&e->allocator, n, sizeof *numbers, &numbers));
    const qn_status status = plan(e, p, numbers, numbers + p->graph->n_nodes, &made);
    qn_release(&e->allocator, numbers, n, sizeof *numbers);
    if (status != QN_OK) {
        qn_budget_plan_deinit(&made);
        return status;
    }
    qn_program_take(p, &made);
    return QN_OK;
}

/* ---- changing between the device and the CPU ---- */

static qn_status plan_program(qn_engine *e, qn_program *p) {
    QN_TRY(qn_engine_device(e) > 0
               ? qn_engine_plan_device(e, p)
               : qn_plan_create(&e->allocator, p->graph, &e->machine, &p->plan));
    QN_TRY(qn_engine_make_executor(e, p));
    if (p->plan->arena_bytes > e->memory.arena_bytes)
        e->memory.arena_bytes = p->plan->arena_bytes;
    return QN_OK;
}

/* What is left of a budget when a device was lost may be too little: no run is lost for that. */
static void tell_above(qn_engine *e) {
    char text[700];
    snprintf(text, sizeof text, "without the device the memory budget is not kept: %.500s",
             qn_error_message());
    qn_engine_tell(e, 1, text);
    for (int i = 0; i < e->n_programs; i++)
        qn_program_unplan(&e->programs[i]);
    e->memory.arena_bytes = 0;
}

/* Programs and executors, without an arena. */
static qn_status plan_programs(qn_engine *e, int device) {
    qn_offload_of(e)->device = device;
    e->memory.arena_bytes = 0;
    for (int i = 0; i < e->n_programs; i++)
        qn_program_unplan(&e->programs[i]);
    qn_resident_close(e);
    QN_TRY(qn_resident_choose(e));
    if (e->options.memory_budget_bytes > 0) {
        const qn_status status = qn_engine_make_plans(e);
        if (status != QN_ERROR_MEMORY || device > 0)
            return status;
        tell_above(e);
    }
    for (int i = 0; i < e->n_programs; i++)
        QN_TRY(plan_program(e, &e->programs[i]));
    return QN_OK;
}

static qn_status open_lanes(qn_engine *e) {
    char text[600];
    const qn_status status = qn_resident_open(e);
    if (status == QN_OK || !qn_offload_of(e)->is_tried)
        return status;
    snprintf(text, sizeof text, "device auto: %.500s; trains on the CPU", qn_error_message());
    qn_engine_tell(e, 0, text);
    return plan_programs(e, 0);
}

/* Lanes come first: where they fail, plans of another size may take their place. */
static qn_status plan_all(qn_engine *e, int device) {
    QN_TRY(plan_programs(e, device));
    QN_TRY(open_lanes(e));
    QN_TRY(qn_allocate_unset(&e->shared, 1, e->memory.arena_bytes, &e->memory.arena));
    for (int i = 0; i < e->n_programs; i++)
        qn_executor_set_arena(e->programs[i].executor, e->memory.arena);
    return QN_OK;
}

/* A device that was lost for its silence may still write there: it is kept until the end. */
static void leave_arena(qn_engine *e) {
    const qn_machine_device *d = qn_offload_opened(e);
    if (!qn_offload_of(e)->left_arena && d->device->is_silent && d->device->is_silent(d->state)) {
        qn_offload_of(e)->left_arena = e->memory.arena;
        qn_offload_of(e)->left_arena_bytes = e->memory.arena_bytes;
        e->memory.arena = NULL;
        return;
    }
    qn_release(&e->shared, e->memory.arena, 1, e->memory.arena_bytes);
    e->memory.arena = NULL;
}

qn_status qn_engine_change_device(qn_engine *e, int device) {
    leave_arena(e);
    e->planning.is_done = false;
    QN_TRY(plan_all(e, device));
    e->planning.is_done = true;
    return QN_OK;
}

qn_status qn_engine_change_pieces(qn_engine *e, qn_program *p, int64_t pieces, int16_t *site_of,
                                  int device) {
    leave_arena(e);
    e->planning.is_done = false;
    for (int i = 0; i < e->n_programs; i++)
        qn_program_unplan(&e->programs[i]);
    qn_resident_close(e);
    qn_program_unsplit(p);
    p->site_of = site_of;
    QN_TRY(qn_program_split_apart(p, &e->machine, pieces > 0 ? pieces : 1));
    QN_TRY(plan_all(e, device));
    e->planning.is_done = true;
    return QN_OK;
}

void qn_engine_describe_device(const qn_engine *e, char name[160], char reason[200]) {
    const qn_machine_device *d = qn_offload_opened(e);
    const char *model = d->device->model_name ? d->device->model_name(d->state) : "";
    const char *why = d->device->reason ? d->device->reason(d->state) : "";
    snprintf(name, 160, model[0] ? "%s (%s)" : "%s", d->device->name, model);
    snprintf(reason, 200, why[0] ? ": %s" : "%s", why);
}

static qn_status leave(qn_engine *e, bool is_running) {
    char text[512], name[160], reason[200], which[40] = "the step is";
    int n;
    qn_engine_describe_device(e, name, reason);
    QN_TRY(qn_engine_change_device(e, 0));
    QN_TRY(qn_resident_repeat(e, &n));
    if (n + is_running != 1)
        snprintf(which, sizeof which, "%d steps are", n + is_running);
    snprintf(text, sizeof text,
             "the device %s was lost%s; all operations run on the CPU from now on, and %s "
             "repeated: no result is lost",
             name, reason, which);
    qn_engine_tell(e, 1, text);
    return QN_OK;
}

qn_status qn_engine_leave_device(qn_engine *e) {
    return leave(e, false);
}

qn_status qn_engine_lose_device(qn_engine *e, int program) {
    void *bound[QN_MAX_INPUTS] = {NULL};
    qn_program *p = &e->programs[program];
    for (int i = 0; i < p->n_inputs; i++)
        bound[i] = qn_executor_get(p->executor, p->inputs[i]);
    QN_TRY(leave(e, true));
    for (int i = 0; i < p->n_inputs; i++)
        qn_executor_bind(p->executor, p->inputs[i], bound[i]);
    return QN_OK;
}

/* ---- the policy ---- */

static qn_status build(qn_engine *e, qn_program *p) {
    return qn_engine_device(e) > 0
               ? qn_program_split_apart(p, &e->machine, qn_offload_of(e)->placed.pieces)
               : QN_OK;
}

static bool has_device(const qn_engine *e) {
    return qn_engine_device(e) > 0;
}

static const qn_machine_device *sharer(const qn_engine *e) {
    const qn_machine_device *d = qn_offload_opened(e);
    return d != &e->machine.devices[0] && d->device->shares && d->device->shares(d->state) ? d
                                                                                           : NULL;
}

static bool runs(const qn_engine *e, int program) {
    (void)program;
    return has_device(e);
}

/* A device that is lost is left, and the step repeated on the CPU. */
static qn_status run(qn_engine *e, int program, uint64_t step, const qn_watch *watch) {
    const qn_program *p = qn_engine_get_program(e, program);
    qn_status status = qn_resident_begin_run(e, program);
    if (status == QN_OK)
        status = qn_resident_run(e, program, step, watch);
    if (status == QN_OK)
        qn_resident_end_run(e, program, step);
    if (status != QN_ERROR_DEVICE)
        return status;
    QN_TRY(qn_engine_lose_device(e, program));
    return qn_executor_run(p->executor, e->options.seed, step, watch);
}

const qn_policy qn_policy_offload = {
    .name = "offload",
    .create = create,
    .build = build,
    .prepare = qn_resident_choose,
    .sharer = sharer,
    .plans = has_device,
    .plan = qn_engine_plan_device,
    .find = qn_within_find,
    .fits = qn_within_fits,
    .restore = qn_within_restore,
    .open_bytes = qn_resident_host_bytes,
    .other_bytes = qn_within_device_bytes,
    .open = open_lanes,
    .start = qn_engine_choose_device,
    .begin_run = qn_resident_prepare,
    .runs = runs,
    .run = run,
    .fetch = qn_resident_fetch,
    .destroy = destroy,
};
