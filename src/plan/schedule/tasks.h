/* The operations of a plan as a graph of tasks: what each takes, and which come before it. */
#ifndef QN_PLAN_SCHEDULE_TASKS_H
#define QN_PLAN_SCHEDULE_TASKS_H

#include "plan/plan.h"
#include "plan/schedule/cores.h"

/* One task comes before another. */
typedef struct qn_task_edge {
    int32_t before, after;
} qn_task_edge;

/* Edges of task i by list: [first[i], first[i + 1]) of tasks. */
typedef struct qn_task_list {
    int32_t *first; /* (n + 1) */
    int32_t *tasks; /* (n_edges) */
} qn_task_list;

/* Task i is step i of the plan; an edge leads from a smaller number to a larger one. */
typedef struct qn_tasks {
    const qn_allocator *allocator;
    int32_t n, n_edges;
    size_t edge_capacity;
    qn_curve *curves; /* (n) */
    qn_task_edge *edges;
    qn_task_list before, after; /* made of the edges by finish */
} qn_tasks;

qn_status qn_tasks_init(const qn_allocator *allocator, int32_t n, qn_tasks *tasks);
qn_status qn_tasks_add_edge(qn_tasks *tasks, int32_t before, int32_t after);
qn_status qn_tasks_finish(qn_tasks *tasks);
void qn_tasks_deinit(qn_tasks *tasks);

/* The steps of a plan, with zeroed curves. A task comes after what makes its inputs, and one that
 * overwrites after all who read what was there. */
qn_status qn_tasks_of_plan(const qn_allocator *allocator, const qn_plan *plan,
                           const qn_graph *graph, qn_tasks *tasks);

#endif
