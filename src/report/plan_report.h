/* A description of a trainer's plans, and their HTML page. */
#ifndef QN_REPORT_PLAN_REPORT_H
#define QN_REPORT_PLAN_REPORT_H

#include "plan/baselines.h"
#include "plan/budget/budget.h"
#include "plan/schedule/timetable.h"
#include "quern/engine.h"

/* What costs time so that less memory is needed: a node that runs again, or a value that goes to
 * the swap file and comes back. */
typedef struct qn_report_extra {
    int32_t id; /* of the base graph */
    const char *name, *type;
    bool is_swapped;
    int32_t n_times;
    size_t bytes; /* of what is made or read back, once */
    double ns;    /* estimated for all times; of swapping 0, as other work goes on meanwhile */
} qn_report_extra;

/* Where steps of a plan run one after the other. */
typedef struct qn_report_lane {
    const char *device, *space; /* where its steps read, and write unless they copy */
    int n_threads;
    int32_t n_steps, n_waits;
} qn_report_lane;

/* A program's plan. What is borrowed must outlive the report. */
typedef struct qn_report_program {
    const char *name;
    bool is_training;
    int64_t micro_batch;          /* samples that it works on at a time; 0: all of its batch */
    const qn_graph *unsplit;      /* the graph of the whole batch where it is split */
    const qn_graph *base;         /* as it was built */
    const qn_graph *graph;        /* as it runs: base, or with values made again or swapped */
    const qn_plan *plan;          /* of graph */
    const qn_budget_plan *budget; /* null: every value is made once */
    size_t default_bytes;         /* arena without a budget */
    qn_unplanned unplanned;       /* arena without a plan */
    size_t once_bytes;            /* arena without a budget and with every value made once */
    size_t late_bytes;            /* the same with updates behind all gradients */
    const double *node_ns;        /* by node of base: measured, below 0: not; null: none is */
    double base_ns, extra_ns;     /* a run's, estimated; of it what the second runs cost */
    int32_t n_again;
    qn_report_extra *again;           /* (n_again): swapped, then the dearest first */
    int32_t peak_step;                /* where most bytes of the arena are alive */
    size_t kind_bytes[QN_KIND_COUNT]; /* alive there */
} qn_report_program;

/* Operations of a program over the cores, side by side: predicted, and as a rehearsed step ran. */
typedef struct qn_report_schedule {
    const char *program;
    const qn_graph *graph;
    const qn_plan *plan;                  /* one by one, whose steps the tasks are */
    const qn_timetable *predicted, *seen; /* null: none was found within the budget */
    qn_cores_use use;
    qn_cores cores;   /* whose curve of time against energy it is, by what was measured */
    qn_trades trades; /* none: n is 0 */
} qn_report_schedule;

/* Invariants: peak_bytes = fixed_bytes + arena_bytes + rest, likewise the default's;
 * lower_bound_bytes <= arena_bytes. */
typedef struct qn_plan_report {
    const char *model, *input, *optimizer, *isa;
    const qn_machine *machine; /* of the plans */
    int64_t batch;
    int n_threads;
    size_t budget_bytes;                   /* 0: none */
    size_t peak_bytes;                     /* all that the trainer holds */
    size_t fixed_bytes;                    /* parameters and optimiser state */
    size_t arena_bytes, lower_bound_bytes; /* of the largest plan */
    size_t default_peak_bytes, unplanned_peak_bytes;
    size_t early_bytes; /* that updating early saves, every value made once */
    bool is_measured;   /* times: of operations on this machine; else they are estimated */
    int64_t planning_ns;
    size_t planner_bytes;               /* that planning held at most */
    int n_programs, largest;            /* largest: the program whose arena it is */
    qn_report_program *programs;        /* (n_programs) */
    const qn_report_schedule *schedule; /* null: operations run one by one */
} qn_plan_report;

/* Whether a step of a schedule ran in its rehearsal. */
bool qn_report_was_seen(const qn_report_schedule *schedule, int32_t step);

/* One sentence on what was predicted, what was rehearsed, and the bound. */
enum { QN_SCHEDULE_TEXT = 320 };
const char *qn_report_schedule_text(const qn_report_schedule *schedule,
                                    char text[QN_SCHEDULE_TEXT]);

/* Time of a node of the base graph: measured, or estimated. */
double qn_report_node_ns(const qn_report_program *program, int32_t node);

/* Lanes and spaces of a plan: 1 of each where it is of the host alone. */
int qn_report_lane_count(const qn_report_program *program);
int qn_report_space_count(const qn_report_program *program);
qn_report_lane qn_report_lane_at(const qn_plan_report *report, const qn_report_program *program,
                                 int lane);
const char *qn_report_space_name(const qn_plan_report *report, int space);

/* Fills again, in memory. */
qn_status qn_plan_report_extra(qn_arena *memory, qn_report_program *program);

/* Writes the page, whole or not at all: the figures, and of each program the picture of its arena
 * and a table of its operations. */
qn_status qn_plan_report_write(const qn_allocator *allocator, const qn_plan_report *report,
                               const char *path);

#endif
