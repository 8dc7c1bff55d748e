/* Tasks: a model on data of its kind, ready to be trained, measured and looked at. What a batch is,
 * what a step does and what is measured differ between classifying images, language, translation,
 * answering questions, generating images and control; how a run is driven does not. quern train,
 * evaluate and sample are clients of this interface. */
#ifndef QUERN_TASK_H
#define QUERN_TASK_H

#include "quern/checkpoint.h"
#include "quern/data.h"
#include "quern/engine.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_task qn_task;

typedef struct qn_task_options {
    const qn_allocator *allocator; /* null: the heap */
    const qn_log *log;             /* may be null */
    const qn_model *model;         /* must outlive the task */
    /* Text pairs under the names of quern train's options ("data", "batch", "lr", "length"); what
     * is not there is the model's recipe's or the task's default. With the pairs of a checkpoint
     * the task is the one that was saved. The task adds what it found out (input, classes,
     * preparation, vocabulary), so that the pairs go into checkpoints as they are. */
    qn_metadata *settings;
    bool training;       /* false: only evaluation and samples; the data may then be absent */
    int n_threads;       /* 0: the processors available */
    int64_t micro_batch; /* as that of qn_engine_options */
    /* As that of qn_engine_options: its engine is there to be looked at, nothing can be run. */
    bool plan_only;
    bool no_fusion;        /* as that of qn_engine_options */
    qn_kernel_tuning tune; /* likewise */
    /* Bytes within which everything keeps that the task allocates: what its engine holds, batches,
     * data that is in memory; 0: no limit. Batches are then not made ahead, and images tested 32 at
     * a time at most. Equal bits. QN_ERROR_MEMORY where it cannot work, with the least that can. */
    size_t memory_budget_bytes;
    bool no_least;                          /* as those of qn_engine_options */
    const struct qn_saved_plan *saved_plan; /* which may end when the task is open */
    /* Called when the programs are built and before they are planned; may be null. */
    qn_status (*on_built)(void *user, qn_engine *engine);
    void *user;
    const char *swap_folder;     /* as that of qn_engine_options, with a budget only; null: none */
    size_t memory_outside_bytes; /* of the budget, what the caller holds besides the task */
    bool budget_changes;         /* as that of qn_engine_options */
    bool confusion;              /* evaluations count what samples of each class were taken for */
} qn_task_options;

QN_API qn_status qn_task_open(const qn_task_options *options, qn_task **task);
QN_API void qn_task_close(qn_task *task);

/* Its parameters and state: for checkpoints. */
QN_API qn_engine *qn_task_engine(const qn_task *task);

/* Says that the engine's tensors and steps are a checkpoint's: data goes on from there. Called once
 * before the first step. */
QN_API qn_status qn_task_resume(qn_task *task);

/* What one would say of it before the first step. */
typedef struct qn_task_facts {
    const char *data;             /* name of the data: "fashion-mnist" */
    const char *input;            /* "28x28x1", "100 of 96 characters" */
    const char *output;           /* "10 outputs" */
    const char *unit;             /* what a batch counts: "samples", "sentences" */
    int64_t n_samples[QN_SPLITS]; /* of them; 0: none, or without end */
    int64_t batch;                /* samples in a batch */
    double epoch_steps;           /* steps in a pass over the data; 0: it has no end */
    int64_t step_samples;         /* samples in a step: the batches that it accumulates */
    int64_t n_left_out;           /* samples at the end of each epoch that fill no batch */
    qn_network_sizes sizes;       /* of the network, in training; 0 of classifiers */
    int64_t total_steps;          /* of the run, as the settings say (epochs, steps) */
} qn_task_facts;

QN_API qn_task_facts qn_task_get_facts(const qn_task *task);

/* A number that says how well it goes. */
typedef struct qn_metric {
    const char *name; /* "loss", "accuracy", "bits_per_character" */
    double value;
    bool is_fraction; /* shown in per cent */
    bool is_count;    /* of what there was so far; shown as it is now, where others are means */
} qn_metric;

/* The first is the loss, where there is one. */
typedef struct qn_metrics {
    int n;
    qn_metric list[8];
} qn_metrics;

/* The value of a metric by name, or NaN. */
QN_API double qn_metrics_get(const qn_metrics *metrics, const char *name);

/* One step: one update of the parameters. */
QN_API qn_status qn_task_step(qn_task *task, qn_metrics *metrics);

/* Measures on all data of a split. should_stop (may be null) is asked now and then; true ends it
 * with QN_ERROR_INTERRUPTED. n_samples gets how many were measured; 0: the data has no such split.
 * Training goes on afterwards as if it had not been called. */
QN_API qn_status qn_task_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                                  void *user, qn_metrics *metrics, int64_t *n_samples);

/* What samples of each class were taken for in the last evaluation. */
typedef struct qn_confusion {
    int n_classes;            /* outputs of the model */
    int n_names;              /* classes with a name: the first so many */
    const char *const *names; /* (n_names) */
    const int64_t *counts;    /* (n_classes, n_classes), rows by class; null: not counted, since the
                                 task was not opened so, or names no classes */
} qn_confusion;

QN_API qn_confusion qn_task_get_confusion(const qn_task *task);

/* Runs the network forward as evaluation does, once, on the batch of the last step: what applying
 * it costs beside training it. Of an agent: the values of that batch by the learned and the target
 * network. Does nothing before the first step. */
QN_API qn_status qn_task_infer(qn_task *task);

/* Fails with QN_ERROR_NUMERIC if the weights as they are now give no finite loss: they are not
 * worth keeping. */
QN_API qn_status qn_task_check(qn_task *task);

/* The name of a model's task: "classification". */
QN_API const char *qn_task_of(const qn_model *model);

/* What is to be looked at, and where it goes. */
typedef struct qn_sample_options {
    const char *prompt;  /* text to go on from, a sentence, a question; null: some of the data's */
    const char *context; /* text in which a question is answered */
    int64_t count;       /* samples; 0: the task's default */
    int64_t length;      /* characters; 0: the task's default */
    double temperature;  /* of drawing characters; 0: the likeliest */
    uint64_t seed;
    const char *picture; /* PNG file to write; null: none */
    void *user;
    void (*put)(void *user, const char *line); /* text, a line at a time, without its end */
} qn_sample_options;

/* Shows what it has learned: text, translations, answers, images, a game. QN_ERROR_UNSUPPORTED for
 * tasks that have nothing to show. Training goes on afterwards as if it had not been called. */
QN_API qn_status qn_task_sample(qn_task *task, const qn_sample_options *options);

#ifdef __cplusplus
}
#endif
#endif
