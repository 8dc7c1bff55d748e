/* Loaders for a task's settings, shared by the tasks on images. */
#include "base/status.h"
#include "os/ranks.h"
#include "tasks/tasks.h"

#include <string.h>

enum { PREFETCHED = 2 };

qn_status qn_task_choose_last_batch(qn_task *task) {
    const bool is_resumed =
        qn_setting_text(task, QN_PREPARED, NULL) || qn_setting_text(task, QN_HELD_OUT, NULL);
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
        .first = first + qn_ranks_own(task->how.ranks),
        .stride = qn_ranks_count(task->how.ranks),
        .n_batches = -1,
        .n_prefetched = task->how.memory_budget_bytes > 0 ? 0 : PREFETCHED,
    };
    if (options.batch > source->n_samples[QN_TRAIN])
        return qn_fail(QN_ERROR_FORMAT,
                       "a batch of %lld is larger than the data set: %s has %lld training "
                       "samples; use a smaller --batch",
                       (long long)options.batch, source->name,
                       (long long)source->n_samples[QN_TRAIN]);
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
        .n_prefetched = task->how.memory_budget_bytes > 0 ? 0 : PREFETCHED,
    };
    if (*loader)
        return qn_loader_rewind(*loader);
    return qn_loader_create(source, preparation, &options, loader);
}

qn_status qn_task_open_tests(const qn_task *task, const qn_data_source *source,
                             const qn_preparation *preparation, int64_t batch,
                             qn_loader **loaders) {
    if (task->how.memory_budget_bytes == 0)
        return QN_OK;
    for (int split = task->training ? QN_TEST : QN_TRAIN; split < QN_SPLITS; split++) {
        if (source->n_samples[split] > 0)
            QN_TRY(qn_task_open_split(task, source, preparation, (qn_split)split, batch,
                                      &loaders[split]));
    }
    return QN_OK;
}
