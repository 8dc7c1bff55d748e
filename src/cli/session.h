/* Shared by train, evaluate and sample: a model, a checkpoint's pairs, and a task. */
#ifndef QN_CLI_SESSION_H
#define QN_CLI_SESSION_H

#include "cli/commands.h"
#include "os/os.h"
#include "quern/quern.h"

/* Everything is made in the order of the fields and released in the reverse one. */
typedef struct session {
    qn_counter counter; /* of all memory below */
    qn_allocator allocator;
    const qn_model *model;
    qn_task_options how; /* of the task that is opened next */
    qn_metadata *kept;   /* pairs of the checkpoint; may be null */
    qn_metadata *pairs;  /* the task's settings */
    qn_task *task;
} session;

void session_init(session *s);
void session_deinit(session *s);

/* Unless path is null, reads a checkpoint's pairs, and finds the model (null: the checkpoint's),
 * which data (else the checkpoint's; may be null) may say the task of; a checkpoint of another
 * model is refused. pairs begins empty. */
qn_status session_begin(session *s, const char *model, const char *data, const char *path);

/* Adds those of the checkpoint's pairs that pairs has no value for. */
qn_status session_keep_pairs(session *s);

/* What --recompute says. */
qn_recompute session_recompute(const arguments *a);

/* The budget of what is opened then; 0: none. */
void session_set_budget(session *s, size_t bytes);

/* Opens the task with the pairs; under a budget, with the times of operations that were kept for
 * it. */
qn_status session_open_task(session *s, bool training, int n_threads);

/* Opens a training task, measures its operations in some steps, keeps their times for the next that
 * is opened, and closes it. */
qn_status session_measure(session *s, int n_threads);

/* Fills the engine from a checkpoint and goes on from there. */
qn_status session_load(session *s, const char *path, bool with_state);

/* Fills the engine with weights to begin with, and says what begins anew. */
qn_status session_load_start(session *s, const char *path);

/* Says further settings once the model is known, before the checkpoint's are added. */
typedef qn_status session_prepare(const arguments *a, session *s);

/* For evaluate and sample: the task as the checkpoint has it (of an ONNX file, which has weights,
 * one is not needed), but for what the options "data",
 * "holdout" and others in names (a list, null at its end) and prepare (which may be null) say. */
qn_status session_open_trained(session *s, const arguments *a, const char *const *names,
                               session_prepare *prepare);

/* The same of a checkpoint that is a word of the command line. */
qn_status session_open_checkpoint(session *s, const arguments *a, const char *path,
                                  const char *const *names, session_prepare *prepare);

/* "bits per character" of "bits_per_character", in text. */
const char *metric_words(const char *name, char *text, size_t bytes);

/* Messages of the library go to standard error. */
extern const qn_log session_log;

#endif
