/* The waits of steps in several lanes, as few as possible: at most one step of every other lane,
 * and only if no awaited step has waited for it already. Reuse of memory adds no waits: lifetimes
 * follow from the waits that exist. */
#include "base/status.h"
#include "plan/lanes/clocks.h"

#include <string.h>

typedef struct waiting {
    qn_plan *plan;
    const qn_graph *graph;
    const int32_t *behind; /* (n_steps), or null */
    int32_t n_behind;      /* steps that all from here on are behind */
    qn_clocks clocks;
    int32_t *step_of;   /* (n_nodes), or -1 */
    int32_t *last_read; /* (n_values, n_lanes): last step that reads it, or -1 */
    int32_t *need;      /* (n_lanes): step that has to be waited for, or -1 */
    int32_t *last;      /* (n_lanes): last step of it, or that uses it as a core, or -1 */
    int32_t *awaited;   /* (n_lanes): last step of it that all behind wait for, or -1 */
} waiting;

static void need(const waiting *w, int32_t step) {
    int32_t *of_lane = &w->need[w->plan->steps[step].lane];
    *of_lane = step > *of_lane ? step : *of_lane;
}

static void need_made(const waiting *w, int32_t value) {
    const int32_t producer = w->graph->values[value]->producer;
    if (producer >= 0 && w->step_of[producer] >= 0)
        need(w, w->step_of[producer]);
}

static int32_t *reads_of(const waiting *w, int32_t value) {
    return w->last_read + (size_t)value * (size_t)w->plan->lanes->n_lanes;
}

/* The steps that nobody overtakes: of lanes that can be lost. */
static void need_all_that_can_be_lost(const waiting *w) {
    for (int i = 0; i < w->plan->lanes->n_lanes; i++) {
        if (w->plan->lanes->lanes[i].can_be_lost && w->last[i] >= 0)
            need(w, w->last[i]);
    }
}

/* Nodes that wait, from one on up to a step's: what they wait for is before all behind them. */
static void note_waits(const waiting *w, int32_t *node, int32_t end) {
    for (; *node < end; ++*node) {
        const qn_node *wait = w->graph->nodes[*node];
        if (!wait->op->is_wait)
            continue;
        const int32_t maker = w->graph->values[wait->inputs[0].id]->producer;
        const int32_t step = maker < 0 ? -1 : w->step_of[maker];
        int32_t *awaited = step < 0 ? NULL : &w->awaited[w->plan->steps[step].lane];
        if (awaited && step > *awaited)
            *awaited = step;
    }
}

/* The first steps, on which all that come are behind. */
static void note_first_wait(waiting *w, int32_t step) {
    const int32_t n = w->behind && w->behind[step] < step ? w->behind[step] : w->n_behind;
    for (; w->n_behind < n; w->n_behind++) {
        int32_t *awaited = &w->awaited[w->plan->steps[w->n_behind].lane];
        *awaited = w->n_behind > *awaited ? w->n_behind : *awaited;
    }
}

/* Lanes that a step uses: its own and, where they are cores, those behind it. */
static int end_of_cores(const waiting *w, int32_t step) {
    const qn_step *s = &w->plan->steps[step];
    return s->lane + (w->plan->lanes->are_cores ? s->n_threads : 1);
}

static void need_cores(const waiting *w, int32_t step) {
    for (int i = w->plan->steps[step].lane; i < end_of_cores(w, step); i++) {
        if (w->plan->lanes->are_cores && w->last[i] >= 0)
            need(w, w->last[i]);
    }
}

static void find_needs(const waiting *w, int32_t step) {
    const qn_node *node = w->graph->nodes[w->plan->steps[step].node];
    for (int i = 0; i < w->plan->lanes->n_lanes; i++)
        w->need[i] = w->awaited[i];
    if (w->plan->lanes->lanes[w->plan->steps[step].lane].in_turn && w->last[0] >= 0)
        need(w, w->last[0]);
    need_cores(w, step);
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id < 0)
            continue;
        const int32_t value = qn_graph_unview(w->graph, node->inputs[i]).id;
        need_made(w, value);
        reads_of(w, value)[w->plan->steps[step].lane] = step;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t old = w->graph->values[node->outputs[i].id]->overwrites;
        if (old < 0)
            continue;
        need_made(w, old);
        for (int lane = 0; lane < w->plan->lanes->n_lanes; lane++) {
            const int32_t reader = reads_of(w, old)[lane];
            if (reader >= 0 && reader != step)
                need(w, reader);
        }
        need_all_that_can_be_lost(w);
    }
}

/* The latest first: what it has waited for need not be waited for again. */
static qn_status add_waits(waiting *w, int32_t step) {
    qn_plan *plan = w->plan;
    qn_lanes *lanes = plan->lanes;
    plan->steps[step].first_wait = lanes->n_waits;
    w->need[plan->steps[step].lane] = -1;
    for (;;) {
        int32_t latest = -1;
        for (int i = 0; i < plan->lanes->n_lanes; i++)
            latest = w->need[i] > latest ? w->need[i] : latest;
        if (latest < 0)
            return QN_OK;
        w->need[plan->steps[latest].lane] = -1;
        if (qn_clocks_is_before(&w->clocks, latest, step))
            continue;
        QN_TRY(qn_grow(plan->allocator, &lanes->waits, &lanes->wait_capacity,
                       (size_t)lanes->n_waits + 1, sizeof *lanes->waits));
        lanes->waits[lanes->n_waits++] = latest;
        qn_clocks_wait(&w->clocks, step, latest);
    }
}

static qn_status fill(waiting *w) {
    const size_t n_lanes = (size_t)w->plan->lanes->n_lanes;
    memset(w->step_of, -1, (size_t)w->graph->n_nodes * sizeof *w->step_of);
    memset(w->last_read, -1, (size_t)w->graph->n_values * n_lanes * sizeof *w->last_read);
    int32_t node = 0;
    for (size_t i = 0; i < n_lanes; i++)
        w->last[i] = w->awaited[i] = -1;
    for (int32_t s = 0; s < w->plan->n_steps; s++) {
        const int lane = w->plan->steps[s].lane;
        qn_clocks_begin(&w->clocks, s, lane);
        note_waits(w, &node, w->plan->steps[s].node);
        note_first_wait(w, s);
        find_needs(w, s);
        QN_TRY(add_waits(w, s));
        w->step_of[w->plan->steps[s].node] = s;
        for (int i = lane; i < end_of_cores(w, s); i++)
            w->last[i] = s;
    }
    return QN_OK;
}

static qn_status find_waits(qn_plan *plan, const qn_graph *graph, const int32_t *behind) {
    const qn_allocator *a = plan->allocator;
    const size_t n_nodes = (size_t)graph->n_nodes, n_lanes = (size_t)plan->lanes->n_lanes;
    const size_t n_reads = (size_t)graph->n_values * n_lanes;
    waiting w = {.plan = plan, .graph = graph, .behind = behind};
    qn_status status = qn_clocks_init(&w.clocks, plan);
    if (status == QN_OK)
        status = qn_allocate(a, n_nodes, sizeof *w.step_of, &w.step_of);
    if (status == QN_OK)
        status = qn_allocate(a, n_reads, sizeof *w.last_read, &w.last_read);
    if (status == QN_OK)
        status = qn_allocate(a, 3 * n_lanes, sizeof *w.need, &w.need);
    if (status == QN_OK) {
        w.last = w.need + n_lanes;
        w.awaited = w.last + n_lanes;
        status = fill(&w);
    }
    qn_release(a, w.step_of, n_nodes, sizeof *w.step_of);
    qn_release(a, w.last_read, n_reads, sizeof *w.last_read);
    qn_release(a, w.need, 3 * n_lanes, sizeof *w.need);
    qn_clocks_deinit(&w.clocks);
    return status;
}

/* ---- lanes ---- */

static bool is_update(const qn_graph *graph, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (graph->values[node->outputs[i].id]->overwrites >= 0)
            return true;
    }
    return false;
}

/* Updates, and what reads what they or such nodes make. is_late (n_nodes). */
void qn_plan_find_late(const qn_graph *graph, bool *is_late) {
    for (int n = 0; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        is_late[n] = is_update(graph, node);
        for (int i = 0; i < node->n_inputs; i++) {
            const int32_t value = node->inputs[i].id;
            const int32_t producer = value < 0 ? -1 : graph->values[value]->producer;
            is_late[n] = is_late[n] || (producer >= 0 && is_late[producer]);
        }
    }
}

/* Early nodes in their order, then late ones in theirs. sorted (n_steps): scratch. */
static void put_late_last(qn_plan *plan, const bool *is_late, qn_step *sorted) {
    int32_t n = 0;
    for (int late = 0; late < 2; late++) {
        for (int32_t s = 0; s < plan->n_steps; s++) {
            if (is_late[plan->steps[s].node] == (late == 1))
                sorted[n++] = plan->steps[s];
        }
    }
    memcpy(plan->steps, sorted, (size_t)plan->n_steps * sizeof *sorted);
}

static qn_status order_late(qn_plan *plan, const qn_graph *graph) {
    const qn_allocator *a = plan->allocator;
    bool *is_late = NULL;
    qn_step *sorted = NULL;
    QN_TRY(qn_allocate(a, (size_t)graph->n_nodes, sizeof *is_late, &is_late));
    const qn_status status = qn_allocate(a, (size_t)plan->n_steps, sizeof *sorted, &sorted);
    if (status == QN_OK) {
        qn_plan_find_late(graph, is_late);
        put_late_last(plan, is_late, sorted);
    }
    qn_release(a, sorted, (size_t)plan->n_steps, sizeof *sorted);
    qn_release(a, is_late, (size_t)graph->n_nodes, sizeof *is_late);
    return status;
}

/* What is allocated is released with the plan. */
static qn_status take_lanes(qn_plan *plan, const qn_machine *machine,
                            const qn_assignment *assignment) {
    const qn_allocator *a = plan->allocator;
    const size_t n_lanes = (size_t)assignment->n_lanes;
    qn_lanes *lanes;
    QN_TRY(qn_allocate(a, 1, sizeof *lanes, &lanes));
    plan->lanes = lanes;
    QN_TRY(qn_allocate(a, n_lanes, sizeof *lanes->lanes, &lanes->lanes));
    memcpy(lanes->lanes, assignment->lanes, n_lanes * sizeof *lanes->lanes);
    lanes->n_lanes = assignment->n_lanes;
    lanes->are_cores = assignment->width_of != NULL;
    const size_t n_further = (size_t)assignment->n_spaces - 1;
    QN_TRY(qn_allocate(a, n_further, sizeof *lanes->further, &lanes->further));
    lanes->n_further = (int)n_further;
    for (size_t i = 0; i < n_further; i++)
        lanes->further[i].alignment = machine->spaces[i + 1].space->alignment;
    for (int32_t s = 0; s < plan->n_steps; s++) {
        qn_step *step = &plan->steps[s];
        step->lane = assignment->lane_of[step->node];
        step->n_threads = assignment->width_of ? assignment->width_of[step->node]
                          : step->lane == 0    ? step->n_threads
                                               : lanes->lanes[step->lane].n_threads;
    }
    return QN_OK;
}

/* A lane is of a device and a space that the machine has. */
static qn_status check_lanes(const qn_machine *machine, const qn_assignment *assignment) {
    if (assignment->n_spaces > machine->n_spaces)
        return qn_fail(QN_ERROR_ARGUMENT, "plan: %d memory spaces; the machine has %d",
                       assignment->n_spaces, machine->n_spaces);
    for (int i = 0; i < assignment->n_lanes; i++) {
        const qn_lane *lane = &assignment->lanes[i];
        if (lane->device < 0 || lane->device >= machine->n_devices || lane->space < 0 ||
            lane->space >= machine->n_spaces)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "plan: lane %d uses device %d and memory space %d; the machine has %d "
                           "devices and %d spaces, numbered from 0",
                           i, lane->device, lane->space, machine->n_devices, machine->n_spaces);
    }
    return QN_OK;
}

qn_status qn_plan_order_lanes(qn_plan *plan, const qn_graph *graph, const qn_machine *machine,
                              const qn_assignment *assignment) {
    bool can_be_lost = false;
    if (assignment->n_lanes < 1 || assignment->n_lanes > QN_MAX_LANES || assignment->n_spaces < 1 ||
        assignment->n_spaces > QN_MAX_SPACES)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "plan: %d lanes and %d memory spaces; at most %d and %d are supported",
                       assignment->n_lanes, assignment->n_spaces, QN_MAX_LANES, QN_MAX_SPACES);
    if (assignment->n_lanes == 1 && assignment->n_spaces == 1)
        return QN_OK;
    QN_TRY(check_lanes(machine, assignment));
    QN_TRY(take_lanes(plan, machine, assignment));
    for (int i = 0; i < plan->lanes->n_lanes; i++)
        can_be_lost |= plan->lanes->lanes[i].can_be_lost;
    if (can_be_lost)
        QN_TRY(order_late(plan, graph));
    return find_waits(plan, graph, can_be_lost ? NULL : assignment->behind);
}
