/* See facts.h. Where a step has several updates in turn, what an earlier one changed is read by the
 * nodes behind it, so that nodes before it cannot run again behind it. All such updates are moved
 * to where the first of those readers is, and what is made before and read behind stays in memory.
 */
#include "facts.h"

#include "base/status.h"

#include <string.h>

static int32_t resolve(const qn_graph *graph, int32_t value) {
    for (;;) {
        const qn_value_info *info = graph->values[value];
        if (info->producer < 0 || !graph->nodes[info->producer]->op->is_view)
            return value;
        value = graph->nodes[info->producer]->inputs[0].id;
    }
}

static bool has_update(const qn_graph *graph, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (qn_graph_value(graph, node->outputs[i])->overwrites >= 0)
            return true;
    }
    return false;
}

static qn_status allocate(qn_facts *f) {
    const size_t n_values = (size_t)f->graph->n_values, n_nodes = (size_t)f->graph->n_nodes;
    size_t n_inputs = 0;
    for (int n = 0; n < f->graph->n_nodes; n++)
        n_inputs += (size_t)f->graph->nodes[n]->n_inputs;
    f->nodes = qn_arena_allocate(&f->arena, n_nodes + 1, sizeof *f->nodes);
    f->root = qn_arena_allocate(&f->arena, n_values, sizeof *f->root);
    f->bytes = qn_arena_allocate(&f->arena, n_values, sizeof *f->bytes);
    f->made = qn_arena_allocate(&f->arena, n_values, sizeof *f->made);
    f->last = qn_arena_allocate(&f->arena, n_values, sizeof *f->last);
    f->reads = qn_arena_allocate(&f->arena, n_inputs + 1, sizeof *f->reads);
    f->first_read = qn_arena_allocate(&f->arena, n_values + 2, sizeof *f->first_read);
    f->is_movable = qn_arena_allocate(&f->arena, n_values, sizeof *f->is_movable);
    f->is_backward = qn_arena_allocate(&f->arena, n_nodes, sizeof *f->is_backward);
    f->is_update = qn_arena_allocate(&f->arena, n_nodes, sizeof *f->is_update);
    f->turn_of = qn_arena_allocate(&f->arena, n_nodes, sizeof *f->turn_of);
    return f->nodes && f->root && f->bytes && f->made && f->last && f->reads && f->first_read &&
                   f->is_movable && f->is_backward && f->is_update && f->turn_of
               ? QN_OK
               : QN_ERROR_MEMORY;
}

static void describe_nodes(qn_facts *f) {
    for (int n = 0; n < f->graph->n_nodes; n++) {
        const qn_node *node = f->graph->nodes[n];
        f->is_update[n] = has_update(f->graph, node);
        f->is_backward[n] =
            f->is_update[n] || qn_graph_value(f->graph, node->outputs[0])->kind == QN_KIND_GRADIENT;
        f->turn_of[n] = -1;
    }
    for (int32_t v = 0; v < f->graph->n_values; v++)
        f->root[v] = resolve(f->graph, v);
}

/* The first turn at which a node that is no update reads what an update made; n_turns: none. */
static int32_t find_barrier(const qn_facts *f) {
    for (int32_t t = 0; t < f->n_turns; t++) {
        const qn_node *node = f->graph->nodes[f->nodes[t]];
        for (int i = 0; !f->is_update[f->nodes[t]] && i < node->n_inputs; i++) {
            const int32_t v = node->inputs[i].id;
            if (v >= 0 && f->graph->values[f->root[v]]->overwrites >= 0)
                return t;
        }
    }
    return f->n_turns;
}

/* Whether a node that is no update reads what this update makes. */
static bool is_barrier(const qn_facts *f, int32_t node, const bool *is_read) {
    const qn_node *update = f->graph->nodes[node];
    for (int i = 0; i < update->n_outputs; i++) {
        if (is_read[update->outputs[i].id])
            return true;
    }
    return false;
}

static void mark_reads(const qn_facts *f, bool *is_read) {
    for (int32_t t = 0; t < f->n_turns; t++) {
        const qn_node *node = f->graph->nodes[f->nodes[t]];
        for (int i = 0; !f->is_update[f->nodes[t]] && i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                is_read[f->root[node->inputs[i].id]] = true;
        }
    }
}

/* Updates that later nodes depend on move to just before the first of those. Returns how far what
 * is made before and read behind must stay: 0 where there is no such update. */
static qn_status order_turns(qn_facts *f, int32_t *barrier) {
    const qn_sequence *base = f->problem->base;
    bool *is_read = qn_arena_allocate(&f->arena, (size_t)f->graph->n_values, sizeof *is_read);
    int32_t *late = qn_arena_allocate(&f->arena, base->n + 1, sizeof *late);
    if (!is_read || !late)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < base->n; i++)
        f->nodes[f->n_turns++] = base->items[i].id;
    mark_reads(f, is_read);
    const int32_t end = find_barrier(f);
    int32_t n = 0, n_late = 0;
    *barrier = 0;
    for (int32_t t = 0; t < f->n_turns && end < f->n_turns; t++) {
        const int32_t node = f->nodes[t];
        const bool waits = f->is_update[node] && is_barrier(f, node, is_read);
        if (t < end && waits) {
            late[n_late++] = node;
            continue;
        }
        if (t == end) {
            memcpy(f->nodes + n, late, (size_t)n_late * sizeof *late);
            n += n_late;
            *barrier = n;
        }
        f->nodes[n++] = node;
        if (waits)
            *barrier = n;
    }
    return QN_OK;
}

static void find_lives(qn_facts *f) {
    for (int32_t v = 0; v < f->graph->n_values; v++)
        f->made[v] = f->last[v] = -1;
    for (int32_t t = 0; t < f->n_turns; t++) {
        const qn_node *node = f->graph->nodes[f->nodes[t]];
        f->turn_of[f->nodes[t]] = t;
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                f->last[f->root[node->inputs[i].id]] = t;
        }
        for (int i = 0; i < node->n_outputs; i++)
            f->made[node->outputs[i].id] = t;
    }
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        if (f->graph->values[v]->is_result)
            f->last[f->root[v]] = f->n_turns;
    }
}

static void list_reads(qn_facts *f) {
    int32_t *counts = f->first_read + 1;
    for (int pass = 0; pass < 2; pass++) {
        for (int32_t t = 0; t < f->n_turns; t++) {
            const qn_node *node = f->graph->nodes[f->nodes[t]];
            for (int i = 0; i < node->n_inputs; i++) {
                const int32_t v = node->inputs[i].id;
                if (v < 0)
                    continue;
                if (pass == 0)
                    counts[f->root[v] + 1]++;
                else
                    f->reads[counts[f->root[v]]++] = t;
            }
        }
        for (int32_t v = 0; pass == 0 && v < f->graph->n_values; v++)
            counts[v + 1] += counts[v];
    }
}

static void find_movable(qn_facts *f, int32_t barrier) {
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        const qn_value_info *info = f->graph->values[v];
        if (f->root[v] != v || f->made[v] < 0 || info->overwrites >= 0)
            continue;
        const size_t bytes = qn_tensor_bytes(info->tensor);
        f->bytes[v] = (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
        f->is_movable[v] = !info->is_overwritten && f->last[v] < f->n_turns;
        if (f->made[v] < barrier && f->last[v] >= barrier) {
            f->is_movable[v] = false;
            f->last[v] = f->n_turns;
        }
    }
}

qn_status qn_facts_init(qn_facts *f, const qn_policy_problem *problem) {
    int32_t barrier;
    *f = (qn_facts){.problem = problem, .graph = problem->graph};
    qn_arena_init(&f->arena, problem->allocator);
    qn_status status = allocate(f);
    if (status == QN_OK) {
        describe_nodes(f);
        status = order_turns(f, &barrier);
    }
    if (status != QN_OK) {
        qn_facts_deinit(f);
        return status;
    }
    find_lives(f);
    list_reads(f);
    find_movable(f, barrier);
    return QN_OK;
}

void qn_facts_deinit(qn_facts *facts) {
    qn_arena_deinit(&facts->arena);
}

int32_t qn_facts_next_read(const qn_facts *f, int32_t value, int32_t turn) {
    int32_t low = f->first_read[value], high = f->first_read[value + 1];
    const int32_t end = high;
    while (low < high) {
        const int32_t middle = low + (high - low) / 2;
        if (f->reads[middle] < turn)
            low = middle + 1;
        else
            high = middle;
    }
    if (low < end)
        return f->reads[low];
    return f->last[value] == f->n_turns ? f->n_turns : -1;
}

size_t qn_facts_peak(const qn_facts *f) {
    size_t live = 0, most = 0;
    for (int32_t t = 0; t < f->n_turns; t++) {
        const qn_node *node = f->graph->nodes[f->nodes[t]];
        for (int i = 0; i < node->n_outputs; i++)
            live += f->bytes[node->outputs[i].id];
        const size_t now = live + f->problem->workspace[f->nodes[t]];
        most = now > most ? now : most;
        for (int i = 0; i < node->n_outputs; i++) {
            if (f->last[node->outputs[i].id] < 0)
                live -= f->bytes[node->outputs[i].id];
        }
        for (int i = 0; i < node->n_inputs; i++) {
            const int32_t v = node->inputs[i].id < 0 ? -1 : f->root[node->inputs[i].id];
            bool is_first = true;
            for (int j = 0; j < i; j++)
                is_first = is_first && (node->inputs[j].id < 0 || f->root[node->inputs[j].id] != v);
            if (v >= 0 && is_first && f->last[v] == t)
                live -= f->bytes[v];
        }
    }
    return most;
}
