/* What train, evaluate and predict share: a model, a data set, its preparation and a trainer, from
 * options or from a checkpoint. */
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
    qn_metadata *metadata; /* of the checkpoint, or of the run; may be null */
    qn_data_source source;
    qn_preparation preparation;
    qn_shape input;
    int n_outputs;
    bool is_regression;
    qn_loader *train, *test; /* null: not made */
    qn_trainer *trainer;
} session;

void session_init(session *s);
void session_deinit(session *s);

/* What is to be opened. */
typedef struct data_request {
    const char *specification;
    uint64_t seed;
    double holdout;
    qn_shape input; /* rank 0: the model's, or that of rows of numbers */
    int n_classes;  /* 0: the data's */
} data_request;

/* Opens the data and settles input, outputs and preparation; kept: the preparation of a checkpoint,
 * or null for the data's own. */
qn_status session_open_data(session *s, const data_request *request, const qn_preparation *kept);

/* Reads a checkpoint's pairs and, with them, input, outputs and preparation. */
qn_status session_read_checkpoint(session *s, const char *path);

/* A loader of the test split, or of the training split in file order, from its first to its last
 * sample. */
qn_status session_open_test(session *s, qn_split split, int64_t batch);

/* A trainer that only evaluates, with a checkpoint's weights. */
qn_status session_open_weights(session *s, const char *path, int64_t batch, int n_threads);

/* Fills the trainer; a file of another model is named as such. */
qn_status session_load(session *s, const char *path, bool with_state);

/* The name of a class, or its number, in text. */
const char *class_name(const qn_preparation *preparation, int64_t index, char *text, size_t bytes);

/* Messages of the library go to standard error. */
extern const qn_log session_log;

#endif
