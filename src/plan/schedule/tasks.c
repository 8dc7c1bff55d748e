/* See tasks.h. */
#include "plan/schedule/tasks.h"

#include "base/status.h"

#include <string.h>

qn_status qn_tasks_init(const qn_allocator *allocator, int32_t n, qn_tasks *t) {
    *t = (qn_tasks){.allocator = allocator, .n = n};
    return qn_allocate(allocator, (size_t)n + 1, sizeof *t->curves, &t->curves);
}

static void release_list(const qn_tasks *t, qn_task_list *list) {
    qn_release(t->allocator, list->first, (size_t)t->n + 1, sizeof *list->first);
    qn_release(t->allocator, list->tasks, (size_t)t->n_edges + 1, sizeof *list->tasks);
}

void qn_tasks_deinit(qn_tasks *t) {
    if (!t->allocator)
        return;
    qn_release(t->allocator, t->curves, (size_t)t->n + 1, sizeof *t->curves);
    qn_release(t->allocator, t->edges, t->edge_capacity, sizeof *t->edges);
    release_list(t, &t->before);
    release_list(t, &t->after);
    *t = (qn_tasks){0};
}

qn_status qn_tasks_add_edge(qn_tasks *t, int32_t before, int32_t after) {
    QN_TRY(qn_grow(t->allocator, &t->edges, &t->edge_capacity, (size_t)t->n_edges + 1,
                   sizeof *t->edges));
    t->edges[t->n_edges++] = (qn_task_edge){before, after};
    return QN_OK;
}

/* Sorts the edges by one of their ends, in the order of the other one's numbers where they were
 * added so. */
static qn_status make_list(const qn_tasks *t, bool is_before, qn_task_list *list) {
    QN_TRY(qn_allocate(t->allocator, (size_t)t->n + 1, sizeof *list->first, &list->first));
    QN_TRY(qn_allocate(t->allocator, (size_t)t->n_edges + 1, sizeof *list->tasks, &list->tasks));
    for (int32_t i = 0; i < t->n_edges; i++)
        list->first[is_before ? t->edges[i].after : t->edges[i].before]++;
    int32_t end = 0;
    for (int32_t i = 0; i <= t->n; i++) {
        end += i < t->n ? list->first[i] : 0;
        list->first[i] = end;
    }
    for (int32_t i = t->n_edges - 1; i >= 0; i--) {
        const qn_task_edge e = t->edges[i];
        list->tasks[--list->first[is_before ? e.after : e.before]] = is_before ? e.before : e.after;
    }
    return QN_OK;
}

qn_status qn_tasks_finish(qn_tasks *t) {
    QN_TRY(make_list(t, true, &t->before));
    return make_list(t, false, &t->after);
}

/* ---- of a plan ---- */

/* Readers of every value, as a list that grows from its end: newest first. */
typedef struct reader {
    int32_t step, next; /* next: row of readers, or -1 */
} reader;

typedef struct finding {
    qn_tasks *tasks;
    const qn_graph *graph;
    int32_t *step_of; /* (n_nodes), or -1 */
    int32_t *newest;  /* (n_values): row of readers, or -1 */
    reader *readers;
    int32_t n_readers;
    size_t reader_capacity;
} finding;

static qn_status after_maker(finding *f, int32_t value, int32_t step) {
    const int32_t producer = f->graph->values[value]->producer;
    const int32_t maker = producer < 0 ? -1 : f->step_of[producer];
    return maker < 0 || maker == step ? QN_OK : qn_tasks_add_edge(f->tasks, maker, step);
}

static qn_status note_read(finding *f, int32_t value, int32_t step) {
    QN_TRY(qn_grow(f->tasks->allocator, &f->readers, &f->reader_capacity, (size_t)f->n_readers + 1,
                   sizeof *f->readers));
    f->readers[f->n_readers] = (reader){step, f->newest[value]};
    f->newest[value] = f->n_readers++;
    return QN_OK;
}

static qn_status add_step(finding *f, const qn_node *node, int32_t step) {
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id < 0)
            continue;
        const int32_t value = qn_graph_unview(f->graph, node->inputs[i]).id;
        QN_TRY(after_maker(f, value, step));
        QN_TRY(note_read(f, value, step));
    }
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t old = f->graph->values[node->outputs[i].id]->overwrites;
        if (old < 0)
            continue;
        QN_TRY(after_maker(f, old, step));
        for (int32_t r = f->newest[old]; r >= 0; r = f->readers[r].next) {
            if (f->readers[r].step != step)
                QN_TRY(qn_tasks_add_edge(f->tasks, f->readers[r].step, step));
        }
    }
    return QN_OK;
}

static qn_status find_edges(finding *f, const qn_plan *plan) {
    const qn_allocator *a = f->tasks->allocator;
    const size_t n_nodes = (size_t)f->graph->n_nodes + 1, n_values = (size_t)f->graph->n_values + 1;
    QN_TRY(qn_allocate(a, n_nodes, sizeof *f->step_of, &f->step_of));
    QN_TRY(qn_allocate(a, n_values, sizeof *f->newest, &f->newest));
    memset(f->step_of, -1, n_nodes * sizeof *f->step_of);
    memset(f->newest, -1, n_values * sizeof *f->newest);
    for (int32_t s = 0; s < plan->n_steps; s++) {
        QN_TRY(add_step(f, f->graph->nodes[plan->steps[s].node], s));
        f->step_of[plan->steps[s].node] = s;
    }
    return qn_tasks_finish(f->tasks);
}

qn_status qn_tasks_of_plan(const qn_allocator *allocator, const qn_plan *plan,
                           const qn_graph *graph, qn_tasks *tasks) {
    finding f = {.tasks = tasks, .graph = graph};
    qn_status status = qn_tasks_init(allocator, plan->n_steps, tasks);
    if (status == QN_OK)
        status = find_edges(&f, plan);
    qn_release(allocator, f.step_of, (size_t)graph->n_nodes + 1, sizeof *f.step_of);
    qn_release(allocator, f.newest, (size_t)graph->n_values + 1, sizeof *f.newest);
    qn_release(allocator, f.readers, f.reader_capacity, sizeof *f.readers);
    if (status != QN_OK)
        qn_tasks_deinit(tasks);
    return status;
}
