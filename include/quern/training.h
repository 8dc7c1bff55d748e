/* Runs the training of a task: steps and epochs, evaluation, early stopping, best weights,
 * checkpoints, resuming, and orderly stops. Training is not lost: room for its checkpoints is kept
 * on the disk from the beginning, they are written every few minutes, and if anything fails after
 * the first step, the last good step is saved before the failure is returned. quern train is a
 * client of this interface.
 *
 * Threads: one call at a time per training, its task and its engine. */
#ifndef QUERN_TRAINING_H
#define QUERN_TRAINING_H

#include "quern/meter.h"
#include "quern/task.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_training qn_training;

/* The best measurement so far: on the validation samples or, without them, on the test samples,
 * by the first metric (a loss, or one where higher is better). */
typedef struct qn_best {
    double value;
    int64_t step;     /* of the best; -1: nothing was measured, value is undefined */
    int64_t measured; /* the last measured step; -1: none */
    int64_t n_worse;  /* measurements since the best */
    char metric[40];  /* "loss" */
    qn_split split;
} qn_best;

typedef enum qn_training_event_kind {
    QN_TRAINING_STEP,    /* a step was done: metrics, ns */
    QN_TRAINING_EPOCH,   /* an epoch, or the run, has ended: test, validation */
    QN_TRAINING_STOPPED, /* early, by patience */
    QN_TRAINING_TESTED,  /* nothing was left to train: test */
    QN_TRAINING_WARNING, /* a problem that does not stop training: message */
} qn_training_event_kind;

/* Texts and metrics are valid only during tell. */
typedef struct qn_training_event {
    qn_training_event_kind kind;
    int64_t step;                        /* done so far */
    int64_t epoch;                       /* done so far; 0 for unlimited data */
    int64_t ns;                          /* that the step took */
    const qn_metrics *metrics;           /* of the step */
    const qn_metrics *test, *validation; /* null: not measured */
    const char *message;
} qn_training_event;

typedef struct qn_training_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_training_options) */
    const qn_allocator *allocator; /* null: the heap */
    qn_task *task;                 /* opened for training; it must outlive the training */
    /* The settings that the task was opened with, which go into checkpoints. The best
     * measurement is stored in them for resumed runs. May be null. */
    qn_metadata *settings;
    const char *save;      /* checkpoint: written during training, at the end and when stopped;
                              null: none */
    const char *save_best; /* checkpoint of the best weights, written whenever they improve */
    /* Steps between checkpoints. 0: after 5, 10, 20, 40 and 80 seconds and then every two minutes,
     * or later if saving would take more than 1 % of the time (2 % for the first), judging by the
     * checkpoints so far. -1: none during training. */
    int64_t save_every;
    int64_t total_steps; /* of the run, including earlier parts; 0: the task's */
    int64_t patience;    /* epochs without improvement until the run ends; 0: unlimited */
    bool no_test;        /* skip test samples; the best is then determined by validation */
    void *user;
    bool (*should_stop)(void *user); /* called after every step and during evaluation; may be
                                        null */
    void (*tell)(void *user, const qn_training_event *event); /* may be null */
    int64_t (*clock_ns)(void *user);                          /* null: the system's */
    qn_meter *meter; /* marked after every step (qn_meter_mark); may be null */
    bool is_standby; /* another process makes the same run and its checkpoints: save is written only
                        if the run fails, save_best never */
    /* A checkpoint that was trained for more steps than this run stays until the run has as many;
     * till then the run saves to FILE.unfinished, and a run that will have fewer is refused.
     * replaces_longer: such a file may be replaced at once. */
    bool replaces_longer;
    /* Once not 0, which any thread or signal handler may make it, a step on the CPU ends between
     * two operations, if it has changed nothing yet, and the run as if should_stop had said so. A
     * step that has begun to update goes on to its end. Null: no such flag. */
    const int *stop_flag;
} qn_training_options;

/* Copies options and texts. Fails if a file cannot be written, its disk is full, nothing can be
 * measured to determine the best weights, or save holds a checkpoint of more steps than this run
 * will have. */
QN_API qn_status qn_training_create(const qn_training_options *options, qn_training **training);
QN_API void qn_training_destroy(qn_training *training);

/* Trains up to total_steps, or until it is stopped, continuing from the steps that the task's
 * engine has done (qn_task_load). If something fails, or it is asked to stop
 * (QN_ERROR_INTERRUPTED), the last good step is saved, unless that step itself has spoiled the
 * parameters; then the previous checkpoint stays. */
QN_API qn_status qn_training_run(qn_training *training);

typedef struct qn_training_state {
    int64_t first_step, total_steps; /* this run: steps (first_step, total_steps] */
    int64_t saved_step;              /* of the last checkpoint of this run; -1: none */
    int64_t saved_best_step;         /* of the best weights saved by this run; -1: none */
    int64_t n_saved;                 /* checkpoints written */
    int64_t saving_ns;               /* time for saving them */
    bool has_best;                   /* best weights are determined */
    bool is_stopped;                 /* early */
    bool is_trained;                 /* all steps are done, though perhaps not saved */
    qn_best best;
    const char *saved_to, *saved_best_to; /* files that hold them; null: none. They are valid until
                                             the training is destroyed. */
} qn_training_state;

QN_API qn_training_state qn_training_get_state(const qn_training *training);

#ifdef __cplusplus
}
#endif
#endif
