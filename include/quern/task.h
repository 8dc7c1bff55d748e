/* Tasks: a model with data of its kind, ready for training and evaluation. Tasks define batches,
 * steps and metrics for image classification, language, translation, question answering, image
 * generation and control; a run is driven in the same way for all. quern train, evaluate and sample
 * are clients of this interface.
 *
 * Threads: one call at a time per task and its engine. */
#ifndef QUERN_TASK_H
#define QUERN_TASK_H

#include "quern/checkpoint.h"
#include "quern/data.h"
#include "quern/engine.h"
#include "quern/onnx.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_task qn_task;

/* Sizes of qn_task_options and the engine options in it. */
#ifdef __cplusplus
#define QN_TASK_OPTIONS_INIT                                                                       \
    sizeof(qn_task_options), {                                                                     \
        sizeof(qn_engine_options)                                                                  \
    }
#else
#define QN_TASK_OPTIONS_INIT                                                                       \
    QN_OPTIONS_INIT(qn_task_options), .engine.size = sizeof(qn_engine_options)
#endif

typedef struct qn_task_options {
    size_t size; /* QN_TASK_OPTIONS_INIT */
    /* Also initialised with its size. The settings determine update, tuning, rules and seed; the
     * task sets plan_later and aligned_inputs, and computes in float. memory_budget_bytes limits
     * everything that the task allocates: its engine, batches, data in memory. Batches are then not
     * made ahead of time, and images evaluated at most 32 at a time; equal bits. QN_ERROR_MEMORY if
     * the budget cannot work; the message names the smallest that can. saved_plan is only read
     * while the task is opened. */
    qn_engine_options engine;
    const qn_log *log;     /* may be null */
    const qn_model *model; /* must outlive the task */
    /* Text pairs named like the options of quern train ("data", "batch", "lr", "length"); missing
     * ones are the model's recipe or the task's default. With the pairs of a checkpoint, the task
     * is the one that was saved. The task adds what it determines (input, classes, preparation,
     * vocabulary), so that the pairs can go into checkpoints. */
    qn_metadata *settings;
    bool training; /* false: only evaluation and samples; the data may then be absent */
    /* Called after the programs are built and before they are planned; may be null. */
    qn_status (*on_built)(void *user, qn_engine *engine);
    void *user;
    size_t memory_outside_bytes; /* part of the budget that the caller uses outside the task */
    bool confusion;              /* evaluations count the confusion matrix */
    /* The data, instead of the "data" setting; only for classification and regression (others:
     * QN_ERROR_UNSUPPORTED). It belongs to the caller and must stay open as long as the task.
     * Its name is stored as "data" if the settings have none. May be null. */
    const qn_data_source *source;
    /* Of training: the pairs of the weights that the caller puts into the engine afterwards, as of
     * a checkpoint of them. Classes and columns of the data are matched to theirs by name, as to
     * those of the file that "load" names. Copied; null: there are none. */
    const qn_metadata *start;
} qn_task_options;

QN_API qn_status qn_task_open(const qn_task_options *options, qn_task **task);
QN_API void qn_task_close(qn_task *task);

/* For qn_data_options.held_out: how the samples of the data that these settings name were held out,
 * as the checkpoint says that the settings are of. Null: they are of none. */
QN_API const char *qn_task_held_out(const qn_metadata *settings);

/* Its engine, with parameters and state: for checkpoints. */
QN_API qn_engine *qn_task_engine(const qn_task *task);

/* Continues after the engine's tensors and steps were loaded from a checkpoint. Call once,
 * before the first step. */
QN_API qn_status qn_task_resume(qn_task *task);

/* Begins with the weights of the file that the setting "load" names; the outputs of classes that
 * they know stay as they are where the head grows ("head" is "data"). *n_kept gets how many.
 * Otherwise like qn_checkpoint_begin. */
QN_API qn_status qn_task_begin(qn_task *task, int *n_loaded, int *n_new, int *n_kept);

/* Outputs of a head that grows ("head" is "data") which are those of the weights that training
 * begins with, and come first; 0: all begin anew, or none does. */
QN_API int qn_task_kept_outputs(const qn_task *task);

/* Opens other data as the task's own were: columns of tables and recordings by the names of those
 * that the task was trained on, windows, groups and sizes as its settings say. Only of
 * classification and regression. The task must outlive the source. */
QN_API qn_status qn_task_open_data(qn_task *task, const char *data, qn_data_source *source);

/* Loads the checkpoint from which the settings were taken: base weights of an adapter, tensors,
 * step and position in the data. with_state as in qn_checkpoint_load. */
QN_API qn_status qn_task_load(qn_task *task, const char *path, bool with_state);

/* Facts about a task before the first step. */
typedef struct qn_task_facts {
    const char *data;             /* name of the data: "fashion-mnist" */
    const char *input;            /* "28x28x1", "100 of 96 characters" */
    const char *output;           /* "10 outputs" */
    const char *unit;             /* unit of counts: "samples", "sentences" */
    int64_t n_samples[QN_SPLITS]; /* by split; 0: none, or unlimited */
    int64_t batch;                /* samples in a batch */
    double epoch_steps;           /* steps per epoch; 0: unlimited data */
    int64_t step_samples;         /* samples per step, with accumulation */
    int64_t n_left_out;           /* samples at the end of each epoch that do not fill a batch */
    qn_network_sizes sizes;       /* of the network, in training; 0 of classifiers */
    int64_t total_steps;          /* of the run, as the settings say (epochs, steps) */
} qn_task_facts;

QN_API qn_task_facts qn_task_get_facts(const qn_task *task);

/* The data that a task trains on or evaluates; null: of its kind it has none, or another form. */
QN_API const qn_data_source *qn_task_get_source(const qn_task *task);

/* A metric. */
typedef struct qn_metric {
    const char *name; /* "loss", "accuracy", "bits_per_character" */
    double value;
    bool is_fraction; /* shown in per cent */
    bool is_count;    /* a running count: shown as its current value, not as a mean */
} qn_metric;

/* The first is the loss, if there is one. */
typedef struct qn_metrics {
    int n;
    qn_metric list[8];
} qn_metrics;

/* The value of a metric by name, or NaN. */
QN_API double qn_metrics_get(const qn_metrics *metrics, const char *name);

/* One step: one update of the parameters. */
QN_API qn_status qn_task_step(qn_task *task, qn_metrics *metrics);

/* Evaluates all data of a split, or of all (QN_ALL_SPLITS; only classification and regression).
 * should_stop (may be null) is called now and then; true ends the evaluation with
 * QN_ERROR_INTERRUPTED. n_samples gets the number of samples; 0: the data has no such split. Does
 * not affect training. */
QN_API qn_status qn_task_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                                  void *user, qn_metrics *metrics, int64_t *n_samples);

/* Evaluates data other than the task's own (QN_ALL_SPLITS: all of them), prepared in the same way;
 * only for classification and regression (others: QN_ERROR_UNSUPPORTED). Classes are matched by
 * their names. QN_ERROR_ARGUMENT if the data has more classes than the network has outputs, or
 * different targets; QN_ERROR_FORMAT if a table has other columns, or in another order, than the
 * network was trained on: qn_task_open_data finds them by name. */
QN_API qn_status qn_task_evaluate_on(qn_task *task, const qn_data_source *source, qn_split split,
                                     bool (*should_stop)(void *user), void *user,
                                     qn_metrics *metrics, int64_t *n_samples);

/* Outputs of the network for every sample of a split; labels are ignored. outputs:
 * (n_samples[split], qn_task_output_count), probabilities or values of numeric targets.
 * Otherwise like qn_task_evaluate_on. */
QN_API qn_status qn_task_predict(qn_task *task, const qn_data_source *source, qn_split split,
                                 bool (*should_stop)(void *user), void *user, float *outputs);

/* Outputs per sample; 0 if the task cannot predict. */
QN_API int qn_task_output_count(const qn_task *task);

/* A cell of the confusion matrix: samples of class `actual` predicted as class `taken`. */
typedef struct qn_confusion_cell {
    int32_t actual, taken;
    int64_t n_samples; /* more than 0 */
} qn_confusion_cell;

typedef struct qn_class_count {
    int64_t n_samples, n_taken, n_right; /* of the class; predicted as it; both */
    int64_t first_cell;
} qn_class_count;

/* The confusion matrix of the last evaluation: its non-zero cells, at most one per sample. The
 * cells of class i are cells[classes[i].first_cell] up to, but not including, cells[classes[i +
 * 1].first_cell]. */
typedef struct qn_confusion {
    int n_classes;            /* outputs of the model */
    int n_names;              /* number of classes with a name, from the first */
    const char *const *names; /* (n_names) */
    int64_t n_cells;
    const qn_confusion_cell *cells; /* (n_cells), by actual, then by taken */
    const qn_class_count *classes;  /* (n_classes + 1), the last one empty; null: not counted, since
                                       the task was not opened so, or names no classes */
} qn_confusion;

QN_API qn_confusion qn_task_get_confusion(const qn_task *task);

/* Runs the network forward once, as in evaluation, on the batch of the last step, to measure the
 * cost of inference. For an agent: the values of that batch by the learned and the target
 * network. Does nothing before the first step. */
QN_API qn_status qn_task_infer(qn_task *task);

/* Fails with QN_ERROR_NUMERIC if the loss of the current weights is not finite: such weights are
 * not worth saving. */
QN_API qn_status qn_task_check(qn_task *task);

/* The name of a model's task: "classification". */
QN_API const char *qn_task_of(const qn_model *model);

/* What to sample, and where to write it. */
typedef struct qn_sample_options {
    size_t size;         /* QN_OPTIONS_INIT(qn_sample_options) */
    const char *prompt;  /* text to continue, a sentence, a question; null: from the data */
    const char *context; /* text in which a question is answered */
    int64_t count;       /* samples; 0: the task's default */
    int64_t length;      /* characters; 0: the task's default */
    double temperature;  /* of sampling characters; 0: the most likely */
    uint64_t seed;
    const char *picture; /* PNG file to write; null: none */
    void *user;
    void (*put)(void *user, const char *line); /* text, a line at a time, without its end */
    /* Language models from files, whose length counts tokens: */
    int64_t top_k;             /* draw among so many likeliest tokens; 0: all */
    double top_p;              /* among the likeliest that together reach this part; 0: all */
    double repetition_penalty; /* logits of tokens that were there are divided by it; 0: none */
    const char *stop;          /* text at which a sample ends, and which is left out; null: none */
    /* Pieces of text as they are made, whole characters each; null: put gets lines. */
    void (*stream)(void *user, const char *text, size_t bytes);
    bool is_chat; /* the prompt is what a user says; the model's chat template is written around it,
                     and the answer alone is put out */
} qn_sample_options;

/* Adds the pairs that an imported network's file was exported with (how samples were prepared and
 * held out, names of classes, a vocabulary) and that the settings do not have yet, as tasks that
 * are opened for classes do. How data were prepared and held out is for what looks at the file
 * alone: a checkpoint says it itself, and training looks at its data anew, but for the input of
 * networks that prepare it inside. */
QN_API qn_status qn_task_read_network(const qn_onnx_network *network, bool training,
                                      qn_metadata *settings);

/* Shows samples of what the task has learned: text, translations, answers, images, a game.
 * QN_ERROR_UNSUPPORTED for tasks without samples. Does not affect training. */
QN_API qn_status qn_task_sample(qn_task *task, const qn_sample_options *options);

/* How a language task of words is made a user's. */
typedef struct qn_personal_options {
    size_t size;      /* QN_OPTIONS_INIT(qn_personal_options) */
    const char *text; /* FILE or FOLDER that the user wrote */
    int64_t n_words;  /* of each file, from the first, to learn from; 0: 2,000. A fifth of them
                         validates; the others of the file are tested on */
    int64_t epochs;   /* at most; 0: 12 */
    double rate;      /* 0: a sixth of the recipe's */
    void *user;
    /* Called after every step, and after every epoch (from 0, before the first) with the metrics
     * of validation; both may be null. */
    void (*stepped)(void *user);
    void (*judged)(void *user, int64_t epoch, const qn_metrics *metrics);
    bool (*should_stop)(void *user); /* ends it with QN_ERROR_INTERRUPTED; may be null */
} qn_personal_options;

typedef struct qn_personal {
    qn_metrics before, after;   /* of the words that are tested on */
    int64_t n_words[QN_SPLITS]; /* with sentence ends */
    int64_t n_new;              /* words that the vocabulary got, for as many rare ones */
    int64_t n_steps, epoch;     /* trained; the epoch whose weights are kept, 0: as they were */
} qn_personal;

/* Trains a language task of words further on a user's text, in a task of its own: the network with
 * the least validation loss after any epoch, that before the first included. The user's most
 * frequent unknown words take the places of the vocabulary's rarest, and begin with the vector of
 * the unknown word. settings: empty; gets those of *personal, for its checkpoint, and must outlive
 * it. task stays as it is. QN_ERROR_UNSUPPORTED: a task without words. */
QN_API qn_status qn_task_personalise(const qn_task *task, const qn_personal_options *options,
                                     qn_metadata *settings, qn_task **personal,
                                     qn_personal *result);

#ifdef __cplusplus
}
#endif
#endif
