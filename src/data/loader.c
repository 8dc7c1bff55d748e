/* The loader: a thread prepares batches in advance in a ring of slots; all memory is allocated at
 * creation. Batch b of a seed is always the same: its epoch is b / epoch_batches, the epoch's
 * permutation gives its samples, and epoch and sample number give their augmentation. A failure
 * ends the stream, and every later call of next returns it. */
#include "base/memory.h"
#include "base/options.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/prepare.h"
#include "data/source.h"
#include "os/heap.h"
#include "os/os.h"

#include <inttypes.h>
#include <string.h>

typedef struct slot {
    float *x;
    void *y;
    float *weight; /* null: the source has none */
    qn_batch batch;
    qn_status status;
    char message[1024]; /* of a status that is no QN_OK */
} slot;

/* Batch `first + i * stride` is made in slot i % n_slots.
 *     n_taken <= n_made <= n_taken + n_slots - 1      (the taken one is still being read)
 * n_made, n_taken, is_making, is_held and is_stopping are guarded by the monitor where there is a
 * thread. */
struct qn_loader {
    const qn_allocator *allocator;
    int n_forks;           /* qn_fork_count when it was made */
    qn_data_source source; /* a copy: what it points to stays open */
    qn_loader_options options;
    qn_shape sample; /* of the network */
    int n_classes;
    int64_t n_samples, epoch_batches;
    int n_scaled;            /* targets; 0: they are taken as they are */
    float *target_mean;      /* (n_scaled) then as many scales */
    size_t x_count, y_bytes; /* of a slot: floats, bytes */
    qn_preparer preparer;
    size_t raw_bytes;
    char *raw;       /* a sample as the source gives it */
    float *prepared; /* a sample before augmentation; null without */
    slot *slots;
    size_t n_slots;
    int64_t n_made, n_taken;
    bool is_making, is_held, is_stopping;
    int64_t wait_ns;
    qn_monitor *monitor;
    qn_thread *thread;
};

/* ---- making a batch ---- */

static size_t label_bytes(const qn_data_source *source) {
    return sizeof(float) * (size_t)(source->n_targets > 0 ? source->n_targets : 1);
}

static qn_status check_label(const qn_loader *loader, int64_t index, const void *y) {
    int32_t class;
    memcpy(&class, y, sizeof class);
    if (loader->source.n_targets > 0 || (class >= 0 && class < loader->n_classes))
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "%s: sample %" PRId64 " is of class %d, there are %d classes",
                   loader->source.name, index, (int)class, loader->n_classes);
}

/* Numeric targets as the network learns them. */
static void scale_targets(const qn_loader *loader, void *y) {
    const float *mean = loader->target_mean, *scale = mean + loader->n_scaled;
    float *targets = y;
    for (int k = 0; k < loader->n_scaled; k++)
        targets[k] = (targets[k] - mean[k]) / scale[k];
}

/* Sample `index` of the split to x, y and, where sources have them, weight. */
static qn_status make_sample(qn_loader *loader, int64_t epoch, int64_t index, float *x, void *y,
                             float *weight) {
    const qn_data_source *source = &loader->source;
    const qn_loader_options *options = &loader->options;
    QN_TRY(source->read(source->self, options->split, index, loader->raw, y));
    QN_TRY(check_label(loader, index, y));
    if (loader->n_scaled > 0)
        scale_targets(loader, y);
    if (weight)
        QN_TRY(source->read_weight(source->self, options->split, index, weight));
    if (!loader->prepared) {
        qn_preparer_apply(&loader->preparer, loader->raw, x);
        return QN_OK;
    }
    qn_rng rng = qn_rng_make(options->seed, qn_hash_text("loader.augment"), (uint64_t)epoch);
    qn_augmentation drawn =
        qn_augmentation_draw(rng, (uint64_t)index, &loader->sample, options->crop, options->flip);
    qn_preparer_apply(&loader->preparer, loader->raw, loader->prepared);
    qn_augmentation_apply(&drawn, &loader->sample, loader->prepared, x);
    return QN_OK;
}

/* Zeros, and classes that are none, from sample n on. */
static void pad(const qn_loader *loader, int64_t n, slot *to) {
    size_t batch = (size_t)loader->options.batch, x_stride = loader->x_count / batch;
    size_t y_stride = loader->y_bytes / batch, n_padding = batch - (size_t)n;
    memset(to->x + (size_t)n * x_stride, 0, n_padding * x_stride * sizeof *to->x);
    int filler = loader->source.n_targets > 0 ? 0 : 0xff; /* -1 in every byte is class -1 */
    memset((char *)to->y + (size_t)n * y_stride, filler, n_padding * y_stride);
    if (to->weight)
        memset(to->weight + n, 0, n_padding * sizeof *to->weight);
}

/* Where sample i of a batch is in the stream of all epochs. */
typedef struct place {
    int64_t epoch, index; /* of the epoch's samples, in its order */
} place;

static place find_place(const qn_loader *loader, int64_t number, int64_t i) {
    const int64_t batch = loader->options.batch, n = loader->n_samples;
    if (loader->options.wrap)
        return (place){(number * batch + i) / n, (number * batch + i) % n};
    return (place){number / loader->epoch_batches, number % loader->epoch_batches * batch + i};
}

/* The batch that an epoch begins in, where batches go on with the next epoch. */
static int64_t first_of_epoch(const qn_loader *loader, int64_t epoch) {
    const int64_t batch = loader->options.batch;
    return loader->options.wrap ? (epoch * loader->n_samples + batch - 1) / batch
                                : epoch * loader->epoch_batches;
}

static qn_status make_batch(qn_loader *loader, int64_t number, slot *to) {
    const qn_loader_options *options = &loader->options;
    const place first = find_place(loader, number, 0);
    const int64_t left = loader->n_samples - first.index;
    int64_t n_valid = left < options->batch && !options->wrap ? left : options->batch;
    size_t x_stride = loader->x_count / (size_t)options->batch;
    size_t y_stride = loader->y_bytes / (size_t)options->batch;
    for (int64_t i = 0; i < n_valid; i++) {
        const place at = find_place(loader, number, i);
        qn_rng rng = qn_rng_make(options->seed, qn_hash_text("loader.order"), (uint64_t)at.epoch);
        uint64_t index = (uint64_t)at.index;
        if (options->shuffle)
            index = qn_rng_permute(rng, index, (uint64_t)loader->n_samples);
        QN_TRY(make_sample(loader, at.epoch, (int64_t)index, to->x + (size_t)i * x_stride,
                           (char *)to->y + (size_t)i * y_stride,
                           to->weight ? to->weight + i : NULL));
    }
    pad(loader, n_valid, to);
    to->batch = (qn_batch){
        to->x,     to->y, n_valid, first.epoch, number - first_of_epoch(loader, first.epoch),
        to->weight};
    return QN_OK;
}

static bool is_at_end(const qn_loader *loader, int64_t i) {
    return loader->options.n_batches >= 0 && i >= loader->options.n_batches;
}

/* Makes batch first + i in its slot, failures included. */
static void make(qn_loader *loader, int64_t i) {
    slot *to = &loader->slots[(size_t)i % loader->n_slots];
    to->status = make_batch(loader, loader->options.first + i * loader->options.stride, to);
    if (to->status != QN_OK)
        snprintf(to->message, sizeof to->message, "%s", qn_error_message());
}

/* ---- the thread ---- */

/* Whether there is nothing to make now: enough is made, all is, or it failed. */
static bool must_wait(const qn_loader *loader) {
    int64_t n = loader->n_made;
    return loader->is_held || n - loader->n_taken >= (int64_t)loader->n_slots - 1 ||
           is_at_end(loader, n) ||
           (n > 0 && loader->slots[(size_t)(n - 1) % loader->n_slots].status != QN_OK);
}

static void prefetch(void *context) {
    qn_loader *loader = context;
    qn_monitor_lock(loader->monitor);
    for (;;) {
        while (!loader->is_stopping && must_wait(loader))
            qn_monitor_wait(loader->monitor);
        if (loader->is_stopping)
            break;
        loader->is_making = true;
        int64_t i = loader->n_made;
        qn_monitor_unlock(loader->monitor);
        make(loader, i);
        qn_monitor_lock(loader->monitor);
        loader->is_making = false;
        loader->n_made++;
        qn_monitor_notify(loader->monitor);
    }
    qn_monitor_unlock(loader->monitor);
}

/* ---- creation ---- */

static qn_status check_options(const qn_data_source *source, const qn_preparation *preparation,
                               const qn_loader_options *o) {
    QN_DEMAND(source->sample.rank >= 1 && source->sample.rank <= QN_MAX_RANK);
    QN_DEMAND(preparation->sample.rank >= 1 && preparation->sample.rank <= QN_MAX_RANK);
    QN_DEMAND(preparation->n_statistics == 0 || (preparation->mean && preparation->std_dev));
    QN_DEMAND(o->split >= QN_TRAIN && o->split < QN_SPLITS && source->read);
    int64_t n = source->n_samples[o->split];
    static const char *const splits[] = {"training", "test", "validation"};
    if (o->batch < 1 || o->batch > INT32_MAX)
        return qn_fail(QN_ERROR_ARGUMENT, "a batch of %" PRId64 "; it is at least 1", o->batch);
    if (n < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no %s samples", source->name, splits[o->split]);
    if (!o->pad_last && !o->wrap && o->batch > n)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a batch of %" PRId64 " is larger than the %" PRId64
                       " %s samples of %s; use --batch %" PRId64 " or less",
                       o->batch, n, splits[o->split], source->name, n);
    if (o->first < 0 || o->stride < 0 || o->n_prefetched < 0 || o->n_prefetched > 1024)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a loader's first batch and stride are at least 0, and it makes 0 to "
                       "1024 batches ahead");
    if ((o->crop || o->flip) && preparation->sample.rank != 3)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s has rows of numbers; only images can be cropped or "
                       "mirrored",
                       source->name);
    return QN_OK;
}

/* The shape of a sample as it will be read: where sizes differ, the network's, with as many
 * channels as the source will give. */
static qn_status settle_size(const qn_data_source *source, const qn_shape *wanted,
                             qn_shape *sample) {
    *sample = source->sample;
    if (source->sample.rank != 3 || source->sample.dims[0] > 0)
        return QN_OK;
    if (wanted->rank != 3 || !source->set_size)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: images of differing sizes feed networks of images",
                       source->name);
    *sample = *wanted;
    return source->set_size(source->self, wanted->dims[0], wanted->dims[1], wanted->dims[2]);
}

static qn_status take_memory(qn_loader *loader, const qn_shape *raw) {
    const qn_allocator *allocator = loader->allocator;
    const qn_loader_options *options = &loader->options;
    size_t batch = (size_t)options->batch, sample = (size_t)qn_shape_count(loader->sample);
    if (sample > (size_t)INT64_MAX / sizeof(float) / batch)
        return qn_fail_memory(SIZE_MAX);
    loader->x_count = batch * sample;
    loader->y_bytes = batch * label_bytes(&loader->source);
    loader->raw_bytes = (size_t)qn_shape_count(*raw) * qn_dtype_bytes(loader->source.dtype);
    QN_TRY(qn_allocate(allocator, loader->raw_bytes, 1, &loader->raw));
    if (options->crop || options->flip)
        QN_TRY(qn_allocate(allocator, sample, sizeof *loader->prepared, &loader->prepared));
    size_t n_slots = (size_t)options->n_prefetched + 1;
    QN_TRY(qn_allocate(allocator, n_slots, sizeof *loader->slots, &loader->slots));
    loader->n_slots = n_slots;
    for (size_t i = 0; i < n_slots; i++) {
        QN_TRY(qn_allocate(allocator, loader->x_count, sizeof(float), &loader->slots[i].x));
        QN_TRY(qn_allocate(allocator, loader->y_bytes, 1, &loader->slots[i].y));
        if (loader->source.read_weight)
            QN_TRY(qn_allocate(allocator, batch, sizeof(float), &loader->slots[i].weight));
    }
    return QN_OK;
}

static qn_status keep_scales(qn_loader *loader, const qn_preparation *p) {
    const size_t n = (size_t)p->n_scaled;
    if (n == 0 || p->n_scaled != loader->source.n_targets)
        return QN_OK;
    QN_TRY(qn_allocate(loader->allocator, 2 * n, sizeof(float), &loader->target_mean));
    memcpy(loader->target_mean, p->target_mean, n * sizeof(float));
    memcpy(loader->target_mean + n, p->target_scale, n * sizeof(float));
    loader->n_scaled = p->n_scaled;
    return QN_OK;
}

static qn_status fill_loader(qn_loader *loader, const qn_preparation *preparation) {
    const qn_loader_options *options = &loader->options;
    qn_shape raw;
    int64_t n = loader->n_samples, batch = options->batch;
    loader->epoch_batches = options->pad_last || n < batch ? (n + batch - 1) / batch : n / batch;
    loader->sample = preparation->sample;
    loader->n_classes = preparation->n_classes;
    QN_TRY(settle_size(&loader->source, &preparation->sample, &raw));
    QN_TRY(qn_preparer_init(&loader->preparer, loader->allocator, &raw, loader->source.dtype,
                            preparation));
    QN_TRY(take_memory(loader, &raw));
    QN_TRY(keep_scales(loader, preparation));
    if (options->n_prefetched == 0)
        return QN_OK;
    QN_TRY(qn_monitor_create(loader->allocator, &loader->monitor));
    return qn_thread_start(loader->allocator, prefetch, loader, &loader->thread);
}

qn_status qn_loader_create(const qn_data_source *source, const qn_preparation *preparation,
                           const qn_loader_options *options, qn_loader **loader) {
    QN_NEED(source, "source");
    QN_NEED(preparation, "preparation");
    QN_NEED(options, "options");
    QN_NEED(loader, "loader");
    qn_loader_options taken;
    qn_loader *created;
    QN_TRY(QN_OPTIONS_TAKE(qn_loader_options, options, &taken));
    options = &taken;
    QN_TRY(check_options(source, preparation, options));
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *created, &created));
    created->allocator = allocator;
    created->source = *source;
    created->options = *options;
    created->options.stride += options->stride == 0;
    created->n_forks = qn_fork_count();
    created->n_samples = source->n_samples[options->split];
    qn_status status = fill_loader(created, preparation);
    if (status != QN_OK) {
        qn_loader_destroy(created);
        return status;
    }
    *loader = created;
    return QN_OK;
}

void qn_loader_destroy(qn_loader *loader) {
    if (!loader)
        return;
    const qn_allocator *allocator = loader->allocator;
    if (loader->thread) {
        qn_monitor_lock(loader->monitor);
        loader->is_stopping = true;
        qn_monitor_notify(loader->monitor);
        qn_monitor_unlock(loader->monitor);
        qn_thread_join(loader->thread);
    }
    qn_monitor_destroy(loader->monitor);
    for (size_t i = 0; i < loader->n_slots; i++) {
        qn_release(allocator, loader->slots[i].x, loader->x_count, sizeof(float));
        qn_release(allocator, loader->slots[i].y, loader->y_bytes, 1);
        qn_release(allocator, loader->slots[i].weight, (size_t)loader->options.batch,
                   sizeof(float));
    }
    size_t sample = (size_t)qn_shape_count(loader->sample);
    qn_release(allocator, loader->target_mean, 2 * (size_t)loader->n_scaled, sizeof(float));
    qn_release(allocator, loader->slots, loader->n_slots, sizeof *loader->slots);
    qn_release(allocator, loader->prepared, sample, sizeof *loader->prepared);
    qn_release(allocator, loader->raw, loader->raw_bytes, 1);
    qn_preparer_deinit(&loader->preparer);
    qn_release(allocator, loader, 1, sizeof *loader);
}

/* ---- reading ---- */

/* Batch n_taken of the ring to the caller; a failure stays there, for the next call too. */
static qn_status give(qn_loader *loader, qn_batch *batch) {
    const slot *from = &loader->slots[(size_t)loader->n_taken % loader->n_slots];
    if (from->status != QN_OK)
        return qn_fail(from->status, "%s", from->message);
    *batch = from->batch;
    loader->n_taken++;
    return QN_OK;
}

static qn_status next_of_thread(qn_loader *loader, qn_batch *batch) {
    qn_monitor_lock(loader->monitor);
    if (loader->n_made == loader->n_taken) {
        int64_t begin = qn_clock_ns();
        while (loader->n_made == loader->n_taken)
            qn_monitor_wait(loader->monitor);
        loader->wait_ns += qn_clock_ns() - begin;
    }
    qn_status status = give(loader, batch);
    qn_monitor_notify(loader->monitor);
    qn_monitor_unlock(loader->monitor);
    return status;
}

qn_status qn_loader_next(qn_loader *loader, qn_batch *batch) {
    QN_NEED(loader, "loader");
    QN_NEED(batch, "batch");
    if (loader->n_forks != qn_fork_count())
        return qn_fail(QN_ERROR_ARGUMENT, "this loader was made before the process forked, and its "
                                          "thread is not in the child; make one there");
    if (is_at_end(loader, loader->n_taken)) {
        *batch = (qn_batch){0};
        return QN_OK;
    }
    if (loader->thread)
        return next_of_thread(loader, batch);
    int64_t begin = qn_clock_ns();
    make(loader, loader->n_taken);
    loader->wait_ns += qn_clock_ns() - begin;
    return give(loader, batch);
}

qn_status qn_loader_rewind(qn_loader *loader) {
    QN_NEED(loader, "loader");
    if (!loader->thread) {
        loader->n_taken = 0;
        return QN_OK;
    }
    qn_monitor_lock(loader->monitor);
    loader->is_held = true;
    while (loader->is_making)
        qn_monitor_wait(loader->monitor);
    loader->n_made = loader->n_taken = 0;
    loader->is_held = false;
    qn_monitor_notify(loader->monitor);
    qn_monitor_unlock(loader->monitor);
    return QN_OK;
}

int64_t qn_loader_epoch_batches(const qn_loader *loader) {
    QN_NEED_OR(loader, "loader", 0);
    return loader->epoch_batches;
}

int64_t qn_loader_wait_ns(const qn_loader *loader) {
    QN_NEED_OR(loader, "loader", 0);
    return loader->wait_ns;
}

static qn_status stream_next(void *self, qn_batch *batch) {
    return qn_loader_next(self, batch);
}

static qn_status stream_rewind(void *self) {
    return qn_loader_rewind(self);
}

qn_batches qn_loader_batches(qn_loader *loader) {
    QN_NEED_OR(loader, "loader", (qn_batches){0});
    return (qn_batches){loader, stream_next, stream_rewind};
}
