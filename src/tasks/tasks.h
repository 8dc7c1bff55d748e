/* Kinds of tasks: each a file and a row in tasks.c. What they share: a task's fields, and its
 * settings with the names of quern train's options. */
#ifndef QN_TASKS_TASKS_H
#define QN_TASKS_TASKS_H

#include "base/memory.h"
#include "numerics/numerics.h"
#include "quern/task.h"
#include "tasks/features/head_fit.h"
#include "tasks/features/looking.h"
#include "tasks/proximal.h"

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
    /* Likewise, with other data; null, all three: it cannot. */
    qn_status (*evaluate_on)(qn_task *task, const qn_data_source *source, qn_split split,
                             bool (*should_stop)(void *user), void *user, qn_metrics *metrics,
                             int64_t *n_samples);
    qn_status (*predict)(qn_task *task, const qn_data_source *source, qn_split split,
                         bool (*should_stop)(void *user), void *user, float *outputs);
    int (*n_outputs)(const qn_task *task);
    /* Runs the network forward, as evaluation does, on the last step's batch. *loss gets what is
     * finite only if the weights are of use, and stays as it is where no step was done. */
    qn_status (*infer)(qn_task *task, double *loss);
    /* Of a task with the setting QN_START: fits the head to the features of the training samples,
     * of which n_made had to be computed. Null: it cannot. */
    qn_status (*fit_head)(qn_task *task, bool (*should_stop)(void *user), void *user,
                          int64_t *n_made, qn_head_fit *fit);
    /* Of a task with the setting QN_GIVES_FEATURES: looks at every sample. looks is to be given to
     * qn_looks_deinit, also after a failure. Null: it cannot. */
    qn_status (*look)(qn_task *task, bool (*should_stop)(void *user), void *user,
                      qn_sample_looks *looks);
} qn_task_kind;

extern const qn_task_kind qn_task_classification, qn_task_language, qn_task_generation,
    qn_task_control, qn_task_translation, qn_task_answering, qn_task_arrays, qn_task_tokens;

/* One row for each kind; a null pointer ends it. */
extern const qn_task_kind *const qn_task_kinds[];

struct qn_task {
    const qn_task_kind *kind;
    const qn_allocator *allocator; /* never null */
    const qn_log *log;
    const qn_model *model;
    qn_metadata *settings;
    qn_numerics numerics; /* that the settings name; no name: none */
    /* Of the engine, as the task was asked for and its settings say: the caller's of opening, then
     * the engine's own. */
    qn_engine_options *opening;
    const qn_engine_options *how;
    bool had_budget;              /* when it was opened; it may have another since */
    const qn_data_source *source; /* the caller's data; null: the settings name some */
    bool training, wants_confusion;
    qn_confusion confusion; /* where it is wanted and the kind counts it */
    size_t outside_bytes;   /* of the budget, that the caller holds */
    size_t reserve_bytes;   /* of it, for what the kind allocates after it has been opened */
    const qn_metadata *given_start; /* the caller's, while the task is opened; or null */
    qn_metadata *start;             /* pairs of the weights that training begins with; null: none */
    bool start_is_file;             /* those are a network's file's own */
    qn_table start_table;           /* their columns, whose targets are chosen anew */
    int n_kept_outputs;  /* of the weights that training begins with, where the head grows */
    bool aligned_inputs; /* those of its programs: the kind says so before it makes the engine */
    qn_counter counter;  /* of all that goes through the allocator */
    qn_allocator counting;
    const qn_data_source *data; /* opened or the caller's, for those who ask; null: none */
    qn_engine *engine;          /* made by open, destroyed by qn_task_close after close */
    qn_task_facts facts;
    qn_proximal proximal;
    void *self; /* the kind's own */
};

/* Setting of a text of words: so many of each file are learned from and validated by, the others
 * tested on. */
#define QN_FIRST_WORDS "first_words"

/* Settings of what a checkpoint was trained on: the data whose preparation is kept, and how samples
 * of it were held out (qn_data_source.held_out). */
#define QN_PREPARED "prepared"
#define QN_HELD_OUT "held_out"

/* Settings that say which samples of the data of a checkpoint were held out; null ends them. */
extern const char *const qn_split_keys[];

/* Setting of a network of another program's file: the names of its outputs, as JSON. */
#define QN_NETWORK_CLASSES "network.classes"

/* Adds it, where the file says them, and what was understood; nothing of other models, and where
 * the pairs say classes. */
qn_status qn_task_read_names(const qn_model *model, const qn_log *log, qn_metadata *pairs);

/* Adds what the file of the task's network says of itself to its settings. */
qn_status qn_task_add_file(qn_task *task);

/* Settings of a network whose head is fitted to features: the name of the weights that it starts
 * from, and the chance below which an answer is unsure. */
#define QN_START        "start"
#define QN_UNSURE_BELOW "unsure_below"

/* Setting of a task that is not for training, which no checkpoint keeps, where every sample will be
 * looked at (qn_task_kind.look): "kept" by features in the cache folder, of weights whose head
 * alone was fitted, else "made". */
#define QN_GIVES_FEATURES "gives_features"

/* Setting of what becomes of the samples at the end of an epoch that are no whole batch: "used", in
 * one batch with the first of the next epoch. Checkpoints of versions that left them out have none,
 * and go on so. */
#define QN_LAST_BATCH "last_batch"

/* Settings of a language model from a file, which no checkpoint keeps: "yes" where all of the text
 * is one part, learned from or measured; and where the task only draws text, of so many tokens as
 * "length" says, prompt included. */
#define QN_WHOLE "whole"
#define QN_DRAWS "draws"

/* Setting under which a checkpoint of words keeps them. */
#define QN_TEXT_WORDS "text.words"

/* Settings by name; the fallback where there is none. */
const char *qn_setting_text(const qn_task *task, const char *name, const char *fallback);
int64_t qn_setting_count(const qn_task *task, const char *name, int64_t fallback);
double qn_setting_number(const qn_task *task, const char *name, double fallback);
bool qn_setting_flag(const qn_task *task, const char *name, bool fallback);
qn_status qn_setting_set(qn_task *task, const char *name, const char *value);
qn_status qn_setting_set_count(qn_task *task, const char *name, int64_t value);

/* What the settings say of tables. Columns of a checkpoint are found by name: all of them where the
 * task goes on with its preparation; its inputs where training goes on with other data, or begins
 * with weights of a table. */
qn_status qn_task_table_options(qn_task *task, bool is_prepared, qn_data_options *options);

/* Batch size: the setting, else the recipe's. */
int64_t qn_task_batch(const qn_task *task);

/* Samples that are tested at a time where that is free to choose: under a budget few, which gives
 * equal numbers. */
int64_t qn_task_test_batch(const qn_task *task);

/* For training on photos: batch, rate, weight decay, epochs and augmentation by the number of
 * training samples, unless the settings have them. are_labels: a picture may have several, which
 * are not smoothed. */
qn_status qn_task_choose_for_photos(qn_task *task, int64_t n_samples, bool are_labels);

/* Says where classes have few pictures, and what to do. */
qn_status qn_task_warn_of_few(const qn_task *task, const qn_data_source *source);

/* Fills facts.epoch_steps (0 batches: no end), step_samples and total_steps from the settings
 * epochs, steps and accumulate and the recipe. Call it before the engine is made: the schedule's
 * length depends on it. */
void qn_task_set_length(qn_task *task, double epoch_batches);

/* Of a task that is opened for training: a new run uses the last samples of an epoch
 * (QN_LAST_BATCH), one that is resumed does as it did. `kept` is a setting that all checkpoints of
 * the kind have, where they may lack those above; or null. */
qn_status qn_task_choose_last_batch(qn_task *task, const char *kept);
bool qn_task_uses_last_batch(const qn_task *task);

/* Batches in an epoch of n samples; one may be of two epochs. */
double qn_task_epoch_batches(const qn_task *task, int64_t n);

/* Training samples of n that no batch of an epoch has. */
int64_t qn_task_left_out(const qn_task *task, int64_t n);

/* The sample of n in place `at` of the stream of all epochs, which `purpose` orders: what it is
 * depends on the seed, purpose and place alone. */
int64_t qn_task_sample_at(const qn_task *task, const char *purpose, int64_t n, int64_t at);

/* For training: a batch is all of n samples (of `unit`, a plural) where they are fewer than one. */
qn_status qn_task_fit_batch(qn_task *task, int64_t n, const char *unit);

/* A loader of training samples without end, from batch `first` on, as the settings batch, seed,
 * shuffle and augment say. */
qn_status qn_task_open_train(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, int64_t first, qn_loader **loader);

/* A loader from the first to the last sample of a split, in order, in batches of so many; one that
 * is there already (*loader not null) begins again. */
qn_status qn_task_open_split(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, qn_split split, int64_t batch,
                             qn_loader **loader);

/* Under a budget: makes the loaders (QN_SPLITS) of the splits that will be tested on, so that their
 * memory is there when the engine is planned. */
qn_status qn_task_open_tests(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, int64_t batch, qn_loader **loaders);

/* What settings say of tuning, in their texts. head: "N" or "data", and ",NAME"; lora:
 * "rank=N,alpha=X,layers=PATTERNS". */
qn_tuning qn_tuning_of(const qn_metadata *settings);

/* The numerics that settings (which may be null) name or describe; without a name: f32. */
qn_status qn_numerics_of(const qn_metadata *settings, qn_numerics *numerics);

/* Reads the pairs of the weights that training begins with, task->start, if they have any. */
qn_status qn_task_read_start(qn_task *task);

/* Numbers the classes of a source, by their names, as the outputs of what the task's settings are
 * of: a checkpoint, or the weights that training begins with, whose head may grow
 * (n_kept_outputs). */
qn_status qn_task_match_classes(qn_task *task, qn_data_source *source);

/* The same for other data than the task's own, whose classes must all be known. */
qn_status qn_match_classes(const qn_allocator *allocator, const qn_log *log,
                           const qn_preparation *known, qn_data_source *source);

/* Once the engine is made: of a network of a file whose head grows, the first n_kept_outputs are
 * the file's. input: of a sample. */
qn_status qn_task_keep_outputs(qn_task *task, qn_shape input);

/* What weights know of data. All zero: nothing. */
typedef struct qn_known_data {
    qn_metadata *pairs;
    qn_preparation preparation;
} qn_known_data;

/* Opens data as the weights of a checkpoint need them: columns and classes by name, samples held
 * out by its rule. The checkpoint may be null, or know nothing of data. known must stay as long as
 * the source, also on failure. */
qn_status qn_known_data_open(const char *checkpoint, const char *data,
                             const qn_data_options *options, qn_known_data *known,
                             qn_data_source *source);
void qn_known_data_deinit(qn_known_data *known);

/* Whether mean and deviation are one, or one for each channel or element of an input. */
bool qn_statistics_fit(const qn_preparation *preparation, const qn_shape *input);

/* QN_ELEMENTS_BYTES or QN_ELEMENTS_NUMBERS (format/metadata.h). */
const char *qn_elements_of(const qn_data_source *source);

/* Into the pairs of a checkpoint: what its weights know of the data that they were trained on. */
qn_status qn_known_data_put(qn_metadata *pairs, const char *data, const qn_data_source *source);

/* The seed that settings say, by which what no file holds was drawn; 1 where they do not. */
uint64_t qn_seed_of(const qn_metadata *settings);

/* The engine's options as the settings and the recipe say. */
const qn_engine_options *qn_task_engine_options(qn_task *task);

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

/* What another optimizer than the recipe's begins with, for the setting `name`, as text; null where
 * that does not depend on it. */
const char *qn_optimizer_default(const char *optimizer, const char *name);

/* Whether the settings name another optimizer than the recipe's. */
bool qn_task_has_own_optimizer(const qn_task *task);

/* Names of optimizers and schedules, null beyond the last. */
const char *qn_optimizer_name(int optimizer);
const char *qn_schedule_name(int schedule);

#endif
