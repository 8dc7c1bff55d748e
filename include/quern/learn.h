/* Learning day by day inside a program: a classifier learns from a drip of samples while nobody
 * uses the device, and never gets worse (quern learn start is a client of this interface):
 *
 *     qn_learning_open(&options, &learning);
 *     for (;;) {
 *         qn_learning_offer(learning, pixels, label, "name");   when there is a sample
 *         qn_learning_turn(learning, &turn, &rest_ns);
 *         wait for rest_ns
 *     }
 *     qn_learning_close(learning);
 *
 * A turn takes some samples, or is one training step, or one judgement. What was learned is in the
 * folder at every moment, whatever ends the program; the same samples in the same order give the
 * same versions, bit for bit. FOLDER/model.safetensors is the version in use.
 *
 * Threads: one call at a time. One program at a time uses a folder; the commands of quern learn
 * (status, log, versions, undo, forget, pause) work beside it. */
#ifndef QUERN_LEARN_H
#define QUERN_LEARN_H

#include "quern/graph.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qn_learning qn_learning;

typedef struct qn_learning_options {
    size_t size;                   /* QN_OPTIONS_INIT(qn_learning_options) */
    const qn_allocator *allocator; /* null: the heap */
    const char *folder;            /* where everything is kept; made if it is not there */
    const char *model; /* checkpoint of an image classifier to begin with, of an old folder the file
                          that it began with, or null: the folder's */
    const char *inbox; /* folder with CLASS/FILE to watch; null: none */
    const char *old;   /* likewise, of samples as the model was made for, read once; null: none */
    /* What the result depends on holds from the first start; 0: as it is there, or usual. */
    int64_t n_kept, batch, seed;
    int64_t n_fresh;                /* new samples of a round; 0: 16 */
    int64_t memory_bytes;           /* of samples and training; 0: no limit */
    int64_t disk_bytes;             /* of what is kept; 0: no limit */
    int n_threads;                  /* 0: all */
    const char *when;               /* rules as of quern learn --when; null: "idle,charging,cool" */
    double day_joules, day_minutes; /* that training may take a day; 0: no limit */
    double watts;                   /* what training is taken to need; 0: 5 */
    double power_watts;             /* mean of training, which rests between steps; 0: no limit */
    const char *sysroot;            /* recorded tree of /sys and /proc; null: this device */
    void *user;
    bool (*should_stop)(
        void *user); /* asked before every step: somebody wants the device; or null */
    void (*said)(void *user, int64_t second, const char *text); /* every row of the log; or null */
} qn_learning_options;

QN_API qn_status qn_learning_open(const qn_learning_options *options, qn_learning **learning);
QN_API void qn_learning_close(qn_learning *learning);

/* Numbers of a sample: height, width, channels. */
QN_API qn_shape qn_learning_input(const qn_learning *learning);

/* Hands a sample over: pixels of qn_learning_input, before any scaling, and its class. It is stored
 * at once, and learned from in a later turn; one with the same pixels as a sample before is left
 * out then. Other programs can fill the table `inbox` of FOLDER/learn.db (label, name, x). */
QN_API qn_status qn_learning_offer(qn_learning *learning, const uint8_t *pixels, int32_t label,
                                   const char *name);

typedef enum qn_learn_turn {
    QN_TURN_WORKED, /* there is more to do */
    QN_TURN_WAITS,  /* the rules, or a pause, are in the way */
    QN_TURN_DONE,   /* nothing to do until new samples come */
} qn_learn_turn;

/* rest_ns: to wait before the next turn. A failure leaves what is kept as it was. */
QN_API qn_status qn_learning_turn(qn_learning *learning, qn_learn_turn *turn, int64_t *rest_ns);

/* version: in use; step of n_steps: of the round under way, 0 of 0 where there is none. */
typedef struct qn_learning_facts {
    int64_t version, step, n_steps;
    int64_t n_fresh, n_taken;    /* samples since the last round; in all */
    double longest_step_seconds; /* since it was opened */
} qn_learning_facts;

QN_API qn_learning_facts qn_learning_get_facts(const qn_learning *learning);

/* Goes back to the version before. QN_ERROR_ARGUMENT: there is none, or it is not kept. */
QN_API qn_status qn_learning_undo(qn_learning *learning);

/* A pause outlasts the program. */
QN_API qn_status qn_learning_set_paused(qn_learning *learning, bool is_paused);

#ifdef __cplusplus
}
#endif
#endif
