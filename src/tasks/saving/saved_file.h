/* A file that training saves to. What it holds when a run begins may have been trained longer than
 * the run has, so far or at its end. Such a file stays until the run has as many steps: before,
 * the run saves beside it, in a file of its own. Room for the next checkpoint is kept on the disk
 * from the beginning: what would not fit is found before the first step. */
#ifndef QN_TASKS_SAVING_SAVED_FILE_H
#define QN_TASKS_SAVING_SAVED_FILE_H

#include "base/memory.h"
#include "format/checkpoint.h"

/* is_beside: saved beside the path so far; then that file is there. */
typedef struct qn_saved_file {
    const qn_allocator *allocator; /* of the room */
    const char *path;              /* null: nothing is saved */
    const char *beside; /* PATH.unfinished, where path may not be replaced yet; else null */
    int64_t held_step;  /* of what path held; -1: no checkpoint, or one that may be replaced */
    bool is_beside;
    qn_room *room; /* for the next checkpoint; null: none is kept */
    bool is_full;  /* no room was to be had for it */
} qn_saved_file;

/* Looks at what is there. Texts go to the arena. A path that cannot be written is a failure. A
 * held_step of own is that of this very run, which it may replace; -1: none. */
qn_status qn_saved_file_open(qn_arena *texts, const char *path, int64_t own, qn_saved_file *file);
void qn_saved_file_close(qn_saved_file *file);

/* Keeps room for a checkpoint of the engine; again after each that was saved, unless it was the
 * last. */
qn_status qn_saved_file_keep_room(qn_saved_file *file, const qn_engine *engine,
                                  const qn_metadata *settings);

/* Saves the engine's step; *saved_to: where. */
qn_status qn_saved_file_save(qn_saved_file *file, const qn_engine *engine,
                             const qn_metadata *settings, const char **saved_to);

/* The run is at its end, after so many steps: what was saved beside the path takes its place, if it
 * was trained as long. */
qn_status qn_saved_file_finish(qn_saved_file *file, int64_t step);

#endif
