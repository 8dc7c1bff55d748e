/* See replay.h. What is missing is found by going from a node's inputs backwards to what is here;
 * that set runs in the graph's order, and all that it reads is locked until its last reader in the
 * set has run. */
#include "replay.h"

#include "base/status.h"

#include <stdlib.h>

enum { MOST_REPEATS = 8 };

size_t bench_replay_most_items(const qn_facts *facts) {
    return MOST_REPEATS * (size_t)facts->n_turns + 1000;
}

qn_status bench_replay_init(bench_replay *r, const qn_facts *facts, const bench_replay_hooks *hooks,
                            qn_sequence *to) {
    qn_arena *arena = &((qn_facts *)(uintptr_t)facts)->arena;
    const size_t n_values = (size_t)facts->graph->n_values;
    const size_t n_nodes = (size_t)facts->graph->n_nodes;
    *r = (bench_replay){.facts = facts, .hooks = hooks, .to = to};
    r->residence = qn_arena_allocate(arena, n_values, sizeof *r->residence);
    r->locks = qn_arena_allocate(arena, n_values, sizeof *r->locks);
    r->read_ns = qn_arena_allocate(arena, n_values, sizeof *r->read_ns);
    r->listed = qn_arena_allocate(arena, n_values, sizeof *r->listed);
    r->place = qn_arena_allocate(arena, n_values, sizeof *r->place);
    r->is_wanted = qn_arena_allocate(arena, n_nodes, sizeof *r->is_wanted);
    r->set = qn_arena_allocate(arena, n_nodes, sizeof *r->set);
    if (!r->residence || !r->locks || !r->read_ns || !r->listed || !r->place || !r->is_wanted ||
        !r->set)
        return QN_ERROR_MEMORY;
    for (size_t v = 0; v < n_values; v++)
        r->place[v] = -1;
    return QN_OK;
}

/* ---- what takes memory ---- */

static void enter(bench_replay *r, int32_t value) {
    if (r->place[value] >= 0)
        return;
    r->place[value] = r->n_listed;
    r->listed[r->n_listed++] = value;
    r->live_bytes += r->facts->bytes[value];
    if (r->live_bytes > r->most_bytes)
        r->most_bytes = r->live_bytes;
}

static void leave(bench_replay *r, int32_t value, qn_residence residence) {
    const int32_t place = r->place[value];
    r->residence[value] = (uint8_t)residence;
    if (place < 0)
        return;
    r->listed[place] = r->listed[--r->n_listed];
    r->place[r->listed[place]] = place;
    r->place[value] = -1;
    r->live_bytes -= r->facts->bytes[value];
}

bool bench_replay_may_evict(const bench_replay *r, int32_t value) {
    return r->facts->is_movable[value] && r->residence[value] == QN_HERE && r->locks[value] == 0;
}

static void drop(bench_replay *r, int32_t value, bool evicted) {
    leave(r, value, QN_AWAY);
    if (r->hooks->went)
        r->hooks->went(r->hooks->user, r, value, evicted);
}

void bench_replay_evict(bench_replay *r, int32_t value) {
    drop(r, value, true);
}

/* ---- swapping ---- */

qn_status bench_replay_store(bench_replay *r, int32_t value) {
    QN_TRY(qn_sequence_add(r->to, QN_ACTION_STORE, value));
    r->residence[value] = QN_STORING;
    return QN_OK;
}

qn_status bench_replay_stored(bench_replay *r, int32_t value) {
    QN_TRY(qn_sequence_add(r->to, QN_ACTION_STORED, value));
    leave(r, value, QN_STORED);
    return QN_OK;
}

qn_status bench_replay_load(bench_replay *r, int32_t value) {
    if (r->residence[value] == QN_STORING)
        QN_TRY(bench_replay_stored(r, value));
    QN_TRY(qn_sequence_add(r->to, QN_ACTION_LOAD, value));
    r->residence[value] = QN_LOADING;
    enter(r, value);
    return QN_OK;
}

/* Makes a swapped value readable. */
static qn_status fetch(bench_replay *r, int32_t value) {
    if (r->residence[value] == QN_STORED) {
        if (r->hooks->before)
            QN_TRY(r->hooks->before(r->hooks->user, r, -1, r->facts->bytes[value]));
        QN_TRY(bench_replay_load(r, value));
    }
    if (r->residence[value] == QN_LOADING) {
        QN_TRY(qn_sequence_add(r->to, QN_ACTION_LOADED, value));
        r->residence[value] = QN_HERE;
    }
    return QN_OK;
}

/* ---- running ---- */

static int32_t input_root(const bench_replay *r, const qn_node *node, int i) {
    return node->inputs[i].id < 0 ? -1 : r->facts->root[node->inputs[i].id];
}

static bool is_missing(const bench_replay *r, int32_t root) {
    return root >= 0 && r->facts->made[root] >= 0 && r->residence[root] == QN_AWAY &&
           r->facts->graph->values[root]->overwrites < 0;
}

static void lock_inputs(bench_replay *r, int32_t node, int by) {
    const qn_node *of = r->facts->graph->nodes[node];
    for (int i = 0; i < of->n_inputs; i++) {
        const int32_t root = input_root(r, of, i);
        if (root >= 0)
            r->locks[root] += by;
    }
}

void bench_replay_want(bench_replay *r, int32_t node) {
    if (r->is_wanted[node])
        return;
    const qn_node *of = r->facts->graph->nodes[node];
    r->is_wanted[node] = true;
    r->set[r->n_set++] = node;
    lock_inputs(r, node, 1);
    for (int i = 0; i < of->n_inputs; i++) {
        const int32_t root = input_root(r, of, i);
        if (is_missing(r, root))
            bench_replay_want(r, r->facts->graph->values[root]->producer);
    }
    if (r->hooks->wanted)
        r->hooks->wanted(r->hooks->user, r, node);
}

/* Bytes of the outputs that are not here, and the workspace. */
static size_t needed_bytes(const bench_replay *r, int32_t node) {
    const qn_node *of = r->facts->graph->nodes[node];
    size_t bytes = r->facts->problem->workspace[node];
    for (int i = 0; i < of->n_outputs; i++) {
        if (r->residence[of->outputs[i].id] == QN_AWAY)
            bytes += r->facts->bytes[of->outputs[i].id];
    }
    return bytes;
}

static bool has_reader(const bench_replay *r, int32_t value) {
    return r->locks[value] > 0 || qn_facts_next_read(r->facts, value, r->turn) >= 0;
}

/* Outputs come; those that nothing will read go at once. */
static qn_status take_outputs(bench_replay *r, int32_t node, bool again) {
    const qn_node *of = r->facts->graph->nodes[node];
    for (int i = 0; i < of->n_outputs; i++) {
        const int32_t v = of->outputs[i].id;
        if (r->facts->bytes[v] == 0 || r->residence[v] != QN_AWAY)
            continue;
        r->residence[v] = QN_HERE;
        r->read_ns[v] = r->clock_ns;
        enter(r, v);
        if (r->hooks->came)
            QN_TRY(r->hooks->came(r->hooks->user, r, v, again));
    }
    if (r->live_bytes + r->facts->problem->workspace[node] > r->most_bytes)
        r->most_bytes = r->live_bytes + r->facts->problem->workspace[node];
    for (int i = 0; i < of->n_outputs; i++) {
        const int32_t v = of->outputs[i].id;
        if (r->residence[v] == QN_HERE && r->facts->is_movable[v] && !has_reader(r, v))
            drop(r, v, false);
    }
    return QN_OK;
}

/* Whose inputs are locked. */
static qn_status run_node(bench_replay *r, int32_t node, bool again) {
    const qn_node *of = r->facts->graph->nodes[node];
    if (r->to->n > bench_replay_most_items(r->facts))
        return qn_fail(QN_ERROR_UNSUPPORTED, "a step became more than %d times as long",
                       MOST_REPEATS);
    for (int i = 0; i < of->n_inputs; i++) {
        const int32_t root = input_root(r, of, i);
        if (root >= 0 && r->facts->made[root] >= 0)
            QN_TRY(fetch(r, root));
    }
    if (r->hooks->before)
        QN_TRY(r->hooks->before(r->hooks->user, r, node, needed_bytes(r, node)));
    QN_TRY(qn_sequence_add(r->to, QN_ACTION_RUN, node));
    r->clock_ns += r->facts->problem->node_ns[node];
    for (int i = 0; i < of->n_inputs; i++) {
        const int32_t root = input_root(r, of, i);
        if (root >= 0)
            r->read_ns[root] = r->clock_ns;
    }
    return take_outputs(r, node, again);
}

/* Lets go of what a node has read, where nothing reads it from turn `from` on. */
static void release_inputs(bench_replay *r, int32_t node, int32_t from) {
    const qn_node *of = r->facts->graph->nodes[node];
    for (int i = 0; i < of->n_inputs; i++) {
        const int32_t v = input_root(r, of, i);
        if (v >= 0 && r->residence[v] == QN_HERE && r->facts->is_movable[v] && r->locks[v] == 0 &&
            qn_facts_next_read(r->facts, v, from) < 0)
            drop(r, v, false);
    }
}

static int by_number(const void *left, const void *right) {
    const int32_t a = *(const int32_t *)left, b = *(const int32_t *)right;
    return (a > b) - (a < b);
}

/* Runs again what the node of this turn misses. */
static qn_status run_missing(bench_replay *r, int32_t node) {
    const qn_node *of = r->facts->graph->nodes[node];
    r->n_set = r->n_again = 0;
    for (int i = 0; i < of->n_inputs; i++) {
        const int32_t root = input_root(r, of, i);
        if (is_missing(r, root))
            bench_replay_want(r, r->facts->graph->values[root]->producer);
    }
    qsort(r->set, (size_t)r->n_set, sizeof *r->set, by_number);
    for (int32_t i = 0; i < r->n_set; i++, r->n_again++) {
        QN_TRY(run_node(r, r->set[i], true));
        lock_inputs(r, r->set[i], -1);
        r->is_wanted[r->set[i]] = false;
        release_inputs(r, r->set[i], r->turn);
    }
    return QN_OK;
}

static qn_status run_turn(bench_replay *r) {
    const int32_t node = r->facts->nodes[r->turn];
    if (r->hooks->turn)
        QN_TRY(r->hooks->turn(r->hooks->user, r));
    lock_inputs(r, node, 1);
    QN_TRY(run_missing(r, node));
    QN_TRY(run_node(r, node, false));
    lock_inputs(r, node, -1);
    release_inputs(r, node, r->turn + 1);
    return r->hooks->behind ? r->hooks->behind(r->hooks->user, r) : QN_OK;
}

/* ---- updates ---- */

/* Moves each update behind the last item that reads what it overwrites. Nothing reads what such an
 * update makes but updates behind it (facts.c). */
static qn_status delay_updates(bench_replay *r, size_t first) {
    const qn_graph *graph = r->facts->graph;
    qn_arena *arena = &((qn_facts *)(uintptr_t)r->facts)->arena;
    const size_t n = r->to->n - first;
    qn_item *items = r->to->items + first;
    int32_t *last = qn_arena_allocate(arena, (size_t)graph->n_values, sizeof *last);
    int32_t *head = qn_arena_allocate(arena, n + 1, sizeof *head); /* updates behind an item */
    int32_t *next = qn_arena_allocate(arena, (size_t)graph->n_nodes, sizeof *next);
    qn_item *moved = qn_arena_allocate(arena, n + 1, sizeof *moved);
    if (!last || !head || !next || !moved)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const qn_node *node = items[i].action == QN_ACTION_RUN ? graph->nodes[items[i].id] : NULL;
        head[i] = -1;
        for (int k = 0; node && !r->facts->is_update[items[i].id] && k < node->n_inputs; k++) {
            if (node->inputs[k].id >= 0)
                last[r->facts->root[node->inputs[k].id]] = (int32_t)i;
        }
    }
    for (size_t i = n; i-- > 0;) {
        int32_t at = (int32_t)i;
        if (items[i].action != QN_ACTION_RUN || !r->facts->is_update[items[i].id])
            continue;
        const qn_node *node = graph->nodes[items[i].id];
        for (int k = 0; k < node->n_outputs; k++) {
            const int32_t old = qn_graph_value(graph, node->outputs[k])->overwrites;
            if (old >= 0 && last[r->facts->root[old]] > at)
                at = last[r->facts->root[old]];
        }
        next[items[i].id] = head[at];
        head[at] = items[i].id;
    }
    size_t n_moved = 0;
    for (size_t i = 0; i < n; i++) {
        if (items[i].action != QN_ACTION_RUN || !r->facts->is_update[items[i].id])
            moved[n_moved++] = items[i];
        for (int32_t u = head[i]; u >= 0; u = next[u])
            moved[n_moved++] = (qn_item){QN_ACTION_RUN, u};
    }
    for (size_t i = 0; i < n; i++)
        items[i] = moved[i];
    return QN_OK;
}

qn_status bench_replay_run(bench_replay *r) {
    const size_t first = r->to->n;
    for (r->turn = 0; r->turn < r->facts->n_turns; r->turn++)
        QN_TRY(run_turn(r));
    for (int32_t i = r->n_listed; i-- > 0;) {
        if (r->residence[r->listed[i]] == QN_STORING)
            QN_TRY(bench_replay_stored(r, r->listed[i]));
    }
    return delay_updates(r, first);
}
