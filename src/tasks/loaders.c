/* Which training samples are in which batch, by a task's settings: the order of an epoch, what
 * becomes of its last samples, and the loaders of the tasks on images. */
#include "base/rng.h"
#include "base/status.h"
#include "os/ranks.h"
#include "tasks/tasks.h"

#include <stdio.h>
#include <string.h>

enum { PREFETCHED = 2 };

qn_status qn_task_choose_last_batch(qn_task *task, const char *kept) {
    const bool is_resumed = qn_setting_text(task, QN_PREPARED, NULL) ||
                            qn_setting_text(task, QN_HELD_OUT, NULL) ||
                            (kept && qn_setting_text(task, kept, NULL));
    return is_resumed || qn_setting_text(task, QN_LAST_BATCH, NULL)
               ? QN_OK
               : qn_setting_set(task, QN_LAST_BATCH, "used");
}

bool qn_task_uses_last_batch(const qn_task *task) {
    return strcmp(qn_setting_text(task, QN_LAST_BATCH, ""), "used") == 0;
}

double qn_task_epoch_batches(const qn_task *task, int64_t n) {
    const int64_t batch = qn_task_batch(task);
    return qn_task_uses_last_batch(task) ? (double)n / (double)batch : (double)(n / batch);
}

int64_t qn_task_left_out(const qn_task *task, int64_t n) {
    return qn_task_uses_last_batch(task) ? 0 : n % qn_task_batch(task);
}

int64_t qn_task_sample_at(const qn_task *task, const char *purpose, int64_t n, int64_t at) {
    const int64_t of_epoch = n - qn_task_left_out(task, n);
    const uint64_t place = (uint64_t)(at % of_epoch), epoch = (uint64_t)(at / of_epoch);
    const qn_rng rng =
        qn_rng_make((uint64_t)qn_setting_count(task, "seed", 1), qn_hash_text(purpose), epoch);
    return qn_setting_flag(task, "shuffle", true) ? (int64_t)qn_rng_permute(rng, place, (uint64_t)n)
                                                  : (int64_t)place;
}

qn_status qn_task_fit_batch(qn_task *task, int64_t n, const char *unit) {
    const int64_t batch = qn_task_batch(task);
    char text[200];
    if (!task->training || batch <= n || n < 1)
        return QN_OK;
    snprintf(text, sizeof text,
             "a batch of %lld is larger than the data: a batch is all %lld training %s",
             (long long)batch, (long long)n, unit);
    if (task->log && task->log->write)
        task->log->write(task->log->user, 0, text);
    return qn_setting_set_count(task, "batch", n);
}

/* Photos of classes never left any out. */
static bool wraps(const qn_task *task, const qn_data_source *source) {
    const bool are_photos =
        source->sample.dims[0] == 0 && strcmp(qn_task_of(task->model), "classification") == 0;
    return are_photos || qn_task_uses_last_batch(task);
}

qn_status qn_task_open_train(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, int64_t first, qn_loader **loader) {
    const char *augment = qn_setting_text(task, "augment", "");
    const qn_loader_options options = {
        QN_OPTIONS_INIT(qn_loader_options),
        .allocator = task->allocator,
        .split = QN_TRAIN,
        .batch = qn_task_batch(task),
        .seed = (uint64_t)qn_setting_count(task, "seed", 1),
        .shuffle = qn_setting_flag(task, "shuffle", true),
        .crop = strstr(augment, "crop") != NULL,
        .flip = strstr(augment, "flip") != NULL,
        .wrap = wraps(task, source),
        .first = first + qn_ranks_own(task->how->ranks),
        .stride = qn_ranks_count(task->how->ranks),
        .n_batches = -1,
        .n_prefetched = task->had_budget ? 0 : PREFETCHED,
    };
    return qn_loader_create(source, preparation, &options, loader);
}

qn_status qn_task_open_split(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, qn_split split, int64_t batch,
                             qn_loader **loader) {
    const qn_loader_options options = {
        QN_OPTIONS_INIT(qn_loader_options),
        .allocator = task->allocator,
        .split = split,
        .batch = batch,
        .pad_last = true,
        .n_batches = (source->n_samples[split] + batch - 1) / batch,
        .n_prefetched = task->had_budget ? 0 : PREFETCHED,
    };
    if (*loader)
        return qn_loader_rewind(*loader);
    return qn_loader_create(source, preparation, &options, loader);
}

qn_status qn_task_open_tests(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, int64_t batch,
                             qn_loader **loaders) {
    if (!task->had_budget)
        return QN_OK;
    for (int split = task->training ? QN_TEST : QN_TRAIN; split < QN_SPLITS; split++) {
        if (source->n_samples[split] > 0)
            QN_TRY(qn_task_open_split(task, source, preparation, (qn_split)split, batch,
                                      &loaders[split]));
    }
    return QN_OK;
}
