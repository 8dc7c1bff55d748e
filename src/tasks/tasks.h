/* Kinds of tasks: each a file and a row in tasks.c. What they share: a task's fields, and its
 * settings with the names of quern train's options. */
#ifndef QN_TASKS_TASKS_H
#define QN_TASKS_TASKS_H

#include "quern/task.h"

/* A kind. What fails leaves the task to close, which copes with a task that is half open. */
typedef struct qn_task_kind {
    const char *name;    /* of qn_model.task: "language" */
    const char *summary; /* "predicting the next character of text" */
    /* Opens the data, makes the engine, and fills facts. */
    qn_status (*open)(qn_task *task);
    void (*close)(qn_task *task);
    /* After a checkpoint was loaded: goes to the data that the next step needs. */
    qn_status (*resume)(qn_task *task);
    qn_status (*step)(qn_task *task, qn_metrics *metrics);
    qn_status (*evaluate)(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                          void *user, qn_metrics *metrics, int64_t *n_samples);
    qn_status (*sample)(qn_task *task,
                        const qn_sample_options *options); /* null: nothing to show */
    /* Fails if the weights as they are now give no finite loss. Null: only the losses of steps are
     * looked at. */
    qn_status (*check)(qn_task *task);
} qn_task_kind;

extern const qn_task_kind qn_task_classification, qn_task_language, qn_task_generation,
    qn_task_control, qn_task_translation, qn_task_answering;

/* One row for each kind; a null pointer ends it. */
extern const qn_task_kind *const qn_task_kinds[];

struct qn_task {
    const qn_task_kind *kind;
    const qn_allocator *allocator; /* never null */
    const qn_log *log;
    const qn_model *model;
    qn_metadata *settings;
    bool training;
    int n_threads;
    qn_engine *engine; /* made by open, destroyed by qn_task_close after close */
    qn_task_facts facts;
    void *self; /* the kind's own */
};

/* Settings by name; the fallback where there is none. */
const char *qn_setting_text(const qn_task *task, const char *name, const char *fallback);
int64_t qn_setting_count(const qn_task *task, const char *name, int64_t fallback);
double qn_setting_number(const qn_task *task, const char *name, double fallback);
bool qn_setting_flag(const qn_task *task, const char *name, bool fallback);
qn_status qn_setting_set(qn_task *task, const char *name, const char *value);
qn_status qn_setting_set_count(qn_task *task, const char *name, int64_t value);

/* Batch size: the setting, else the recipe's. */
int64_t qn_task_batch(const qn_task *task);

/* Fills facts.epoch_steps (0 batches: no end), step_samples and total_steps from the settings epochs,
 * steps and accumulate and the recipe. Call it before the engine is made: the schedule's length
 * depends on it. */
void qn_task_set_length(qn_task *task, int64_t epoch_batches);

/* A loader of training samples without end, from batch `first` on, as the settings batch, seed,
 * shuffle and augment say. */
qn_status qn_task_open_train(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, int64_t first, qn_loader **loader);

/* A loader from the first to the last sample of a split, in order; one that is there already
 * (*loader not null) begins again. */
qn_status qn_task_open_split(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, qn_split split, qn_loader **loader);

/* The engine's options as the settings and the recipe say. */
qn_engine_options qn_task_engine_options(const qn_task *task);

/* Makes task->engine of programs. The first program is the training one. */
qn_status qn_task_make_engine(qn_task *task, const qn_program_options *programs, int n_programs);

/* A network of certain sizes, and the build of its program: user points to one of them. */
typedef struct qn_task_network {
    const qn_model *model;
    qn_network_sizes sizes;
} qn_task_network;

qn_value qn_task_build(qn_graph *graph, void *user, int phase, qn_value *kept);

/* Adds a metric; the ninth is left out. */
void qn_metrics_add(qn_metrics *metrics, const char *name, double value, bool is_fraction);
void qn_metrics_add_count(qn_metrics *metrics, const char *name, int64_t count);

/* Names of optimizers and schedules, null beyond the last. */
const char *qn_optimizer_name(int optimizer);
const char *qn_schedule_name(int schedule);

#endif
