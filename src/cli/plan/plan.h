/* The parts of quern plan: gathering facts about a model's plans, and printing them. */
#ifndef QN_CLI_PLAN_PLAN_H
#define QN_CLI_PLAN_PLAN_H

#include "cli/session.h"
#include "cli/settings.h"
#include "format/plan_file.h"
#include "report/plan_report.h"
#include "run/inspect.h"

struct planning;

/* ---- tasks that only plan ---- */

typedef struct planned_task {
    qn_counter counter; /* of all it holds */
    qn_allocator allocator;
    qn_metadata *pairs;
    qn_task *task;
} planned_task;

/* How a task is to be opened. */
typedef struct planned_as {
    int64_t batch; /* 0: as the settings say */
    bool no_fusion;
    bool is_usual;       /* without a budget or a saved plan */
    bool is_search;      /* many are tried: one without a plan need not say what would do */
    bool is_timed;       /* it can run, and its operations are timed */
    bool chooses_device; /* it can run, and device auto comes to one */
} planned_as;

qn_status planned_open(planned_task *t, const struct planning *p, const planned_as *as);
void planned_close(planned_task *t);

const qn_engine *planned_engine(const planned_task *t);

/* All that its trainer would hold. */
size_t planned_peak_bytes(const planned_task *t);

/* A program with its plan, without what has to be worked out. */
qn_report_program planned_program(const planned_task *t, int index);

/* Fills base_ns and extra_ns: as the planner counted, which may have measured; else estimated. */
void planned_times(qn_report_program *program);

/* ---- all that is found out about a model ---- */

/* Made in the order of the fields. */
typedef struct planning {
    const arguments *a;
    qn_plan_file file; /* that was loaded; model null: none */
    const qn_model *model;
    settings settings;
    int n_threads;                      /* 0: all processors */
    size_t budget_bytes;                /* 0: none */
    const char *swap_folder;            /* null: none */
    planned_task choosing;              /* of the device; or none */
    planned_task asked, usual, unfused; /* usual: without a budget; as asked where there is none */
    const qn_machine *machine;
    qn_arena memory;             /* of the lists */
    planned_task scheduled;      /* with --cores auto: measured */
    qn_report_schedule schedule; /* likewise */
    qn_core_wish core_wish;      /* likewise */
    qn_cores core_facts;         /* likewise */
    qn_plan_report report;
} planning;

void planning_init(planning *p, const arguments *a);
void planning_deinit(planning *p);

/* Finds the model and its settings, as the command line says. A failure of QN_ERROR_ARGUMENT is
 * wrong usage. */
qn_status planning_begin(planning *p);

/* Opens the tasks and notes their programs. */
qn_status planning_open(planning *p);

/* Works out the report of the programs. */
qn_status planning_fill(planning *p);

/* Between begin and open: finds the largest batch within the budget, says what was found, and makes
 * it the settings'. */
qn_status plan_batches(planning *p);

/* Instead of begin, open and fill: the plan of a file, proven. What fails names the file. */
qn_status plan_load(planning *p, const char *path);
qn_status plan_save(const planning *p, const char *path);

/* --compare-cores and its like: whether they are asked for; predicts and prints. */
extern const option_list plan_cores_options;
bool plan_wants_cores(const arguments *a);
qn_status plan_compare_cores(const planning *p);

/* --device auto: whether it is asked for; opens a task that measures, before the others, and makes
 * what it came to the settings'; prints what was found. */
bool plan_wants_device(const arguments *a);
qn_status plan_choose_device(planning *p);
void plan_print_device(const planning *p);

/* The curve of time against energy. */
void plan_print_trades(const qn_trades *trades, const qn_cores *cores);
void plan_json_trades(const qn_trades *trades, const qn_cores *cores);

/* --cores auto: whether it is asked for; finds the schedule for the report; prints it. */
bool plan_wants_schedule(const arguments *a);
qn_status plan_schedule(planning *p);
void plan_print_schedule(const planning *p);

/* The report for people, and as a JSON object. */
void plan_print(const qn_plan_report *report);
void plan_print_json(const qn_plan_report *report);

#endif
