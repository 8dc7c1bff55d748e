/* The folder in which a run is kept that names no file: runs/NAME-N with the last and the best
 * checkpoint, a log (a JSON object an epoch) and a page. A run that goes on from the last
 * checkpoint of such a folder is kept there, too. $QUERN_RUNS is another place than runs; "none":
 * nowhere. */
#ifndef QN_CLI_TRAIN_RUN_FOLDER_H
#define QN_CLI_TRAIN_RUN_FOLDER_H

#include "cli/train/progress.h"
#include "os/files/stream.h"
#include "quern/training.h"

#include <limits.h>

/* What an epoch was measured at; NaN: it was not. */
typedef struct run_point {
    double step, train_loss, validation, test;
} run_point;

/* path "": no folder; then every call does nothing. */
typedef struct run_folder {
    char path[PATH_MAX], last[PATH_MAX], best[PATH_MAX];
    bool is_new;
    qn_out_stream *log;
    run_point *points; /* (n_points) of capacity */
    size_t n_points, capacity;
    char metric[48]; /* of validation and test */
} run_folder;

/* Makes the folder of a run of a model (a name, or an ONNX file), unless $QUERN_RUNS says none.
 * resume: the checkpoint that it goes on from, or null. */
qn_status run_folder_open(run_folder *f, const char *model, const char *resume);

/* Writes the log's first line. pairs: the settings. */
qn_status run_folder_begin(run_folder *f, const qn_metadata *pairs, int64_t first_step);

/* At the end of an epoch, before progress_epoch. A log that cannot be written is closed, and the
 * failure returned once: training goes on. */
qn_status run_folder_note(run_folder *f, const qn_training_event *epoch, const progress *p);

/* Ends the log with how it ended, and writes the page. */
qn_status run_folder_end(run_folder *f, const qn_training_state *state, const char *title,
                         const char *how);

/* Closes; a new folder without a checkpoint goes. */
void run_folder_close(run_folder *f);

/* What option --weights (or, with of_run "last", --resume) means by a folder: the best checkpoint
 * in it, or the last. *what: in words, for a person. A folder that is no run's is an error. */
qn_status run_folder_find(const char *path, const char *of_run, char found[PATH_MAX],
                          const char **what);

#endif
