/* See saved_file.h. */
#include "tasks/saving/saved_file.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/checkpoint.h"

#include <stdio.h>
#include <stdlib.h>

enum { MOST_BESIDE = 100 };

/* The step of a checkpoint; -1: there is none. */
static qn_status find_step(const char *path, int64_t *found) {
    qn_metadata *pairs;
    *found = -1;
    if (!qn_path_is_file(path))
        return QN_OK;
    const qn_status status = qn_checkpoint_read(NULL, path, &pairs);
    if (status != QN_OK)
        return status == QN_ERROR_FORMAT ? QN_OK : status;
    const char *step = qn_metadata_get(pairs, "step");
    *found = step ? strtoll(step, NULL, 10) : -1;
    qn_metadata_destroy(pairs);
    return QN_OK;
}

/* A name beside the path that nothing has: another run's unfinished file stays, too. */
static qn_status choose_beside(qn_arena *texts, qn_saved_file *file) {
    for (int i = 1; i <= MOST_BESIDE; i++) {
        const char *name = i == 1 ? qn_arena_format(texts, "%s.unfinished", file->path)
                                  : qn_arena_format(texts, "%s.unfinished%d", file->path, i);
        if (!name)
            return QN_ERROR_MEMORY;
        file->beside = name;
        if (qn_path_bytes(name) < 0)
            return qn_file_check_target(name, false);
    }
    return qn_fail(QN_ERROR_IO,
                   "%s has been trained for %lld steps and stays until this run has as many; there "
                   "are %d unfinished files beside it: remove some",
                   file->path, (long long)file->held_step, MOST_BESIDE);
}

qn_status qn_saved_file_open(qn_arena *texts, const char *path, int64_t own, qn_saved_file *file) {
    *file = (qn_saved_file){.allocator = texts->allocator, .held_step = -1};
    if (!path)
        return QN_OK;
    file->path = qn_arena_text(texts, path);
    if (!file->path)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_check_target(path, false));
    int64_t held;
    QN_TRY(find_step(path, &held));
    if (held < 1 || held <= own)
        return QN_OK;
    file->held_step = held;
    return choose_beside(texts, file);
}

void qn_saved_file_close(qn_saved_file *file) {
    qn_room_close(file->room);
    file->room = NULL;
}

/* Whether a network of the engine's steps is to be saved beside the path. */
static bool goes_beside(const qn_saved_file *file, const qn_engine *engine) {
    return file->beside && qn_engine_steps(engine) < file->held_step;
}

qn_status qn_saved_file_keep_room(qn_saved_file *file, const qn_engine *engine,
                                  const qn_metadata *settings) {
    if (!file->path)
        return QN_OK;
    if (file->room)
        return qn_room_renew(file->room);
    return qn_checkpoint_keep_room(file->allocator, engine, settings,
                                   goes_beside(file, engine) ? file->beside : file->path,
                                   &file->room);
}

qn_status qn_saved_file_save(qn_saved_file *file, const qn_engine *engine,
                             const qn_metadata *settings, const char **saved_to) {
    const bool was_beside = file->is_beside, is_beside = goes_beside(file, engine);
    const char *path = is_beside ? file->beside : file->path;
    QN_TRY(qn_checkpoint_save_in(file->room, engine, settings, path));
    file->is_beside = is_beside;
    if (was_beside && !is_beside)
        qn_file_remove(file->beside);
    *saved_to = path;
    return QN_OK;
}

qn_status qn_saved_file_finish(qn_saved_file *file, int64_t step) {
    if (!file->is_beside || step < file->held_step)
        return QN_OK;
    QN_TRY(qn_file_move(file->beside, file->path));
    file->is_beside = false;
    file->beside = NULL;
    return QN_OK;
}
