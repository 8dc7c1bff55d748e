/* What train, evaluate and sample share: a model, a checkpoint's pairs, and a task. */
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
    qn_metadata *kept;  /* pairs of the checkpoint; may be null */
    qn_metadata *pairs; /* the task's settings */
    qn_task *task;
} session;

void session_init(session *s);
void session_deinit(session *s);

/* Finds the model of the command's first word, and, unless path is null, reads a checkpoint's pairs;
 * one of another model is refused. pairs begins empty. */
qn_status session_begin(session *s, const char *model, const char *path);

/* Adds those of the checkpoint's pairs that pairs has no value for. */
qn_status session_keep_pairs(session *s);

/* Opens the task with the pairs. */
qn_status session_open_task(session *s, bool training, int n_threads);

/* Fills the engine from a checkpoint and goes on from there. */
qn_status session_load(session *s, const char *path, bool with_state);

/* For evaluate and sample: the task as the checkpoint has it, but for what the options "data",
 * "holdout" and others in names (a list, null at its end) say. */
qn_status session_open_trained(session *s, const arguments *a, const char *const *names);

/* "bits per character" of "bits_per_character", in text. */
const char *metric_words(const char *name, char *text, size_t bytes);

/* Messages of the library go to standard error. */
extern const qn_log session_log;

#endif
