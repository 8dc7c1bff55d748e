/* See features.h. The file in the cache, one for each body: a head, then records of a key (a hash
 * of the prepared picture), a sum of the features, and the features of all views. A record whose
 * sum is wrong is made again. What was asked for last comes first; pictures of other data sets stay
 * behind it, as many as MOST_KEPT_BYTES leave room for. */
#include "tasks/features/features.h"

#include "base/rng.h"
#include "base/status.h"
#include "os/files/cache_folder.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_KEPT_BYTES = 256 << 20 };

static const char mark[8] = "qnfeat01";

typedef struct head {
    char mark[8];
    uint64_t body; /* a hash of its weights */
    int64_t width, n_views;
} head;

typedef struct record {
    uint64_t key, sum;
} record;

/* Where a key's record begins in the file. */
typedef struct place {
    uint64_t key;
    int64_t offset;
    bool is_wanted; /* the picture is among those that were asked for */
} place;

typedef struct making {
    qn_feature_maker *m;
    qn_features *f;
    head head;
    size_t view_bytes; /* of the features of one view; of all: n_views times that */
    uint64_t *keys;    /* (n), of the pictures until n_done */
    int64_t n_done;
    float *mirrored; /* (batch,) + sample */
    char path[PATH_MAX];
    qn_file *file; /* null: nothing is kept yet */
    place *places; /* (n_places), sorted */
    size_t n_places, capacity;
} making;

static size_t record_bytes(const making *k) {
    return (size_t)k->head.n_views * k->view_bytes;
}

static float *features_at(const making *k, int64_t i) {
    return k->f->x + i * k->f->n_views * k->f->width;
}

/* ---- what is kept ---- */

/* Of the weights that features are made by: all but the head's. */
static uint64_t hash_body(const making *k) {
    const qn_engine *engine = qn_trainer_engine(k->m->trainer);
    uint64_t hash = qn_hash_bytes(k->m->sample.dims, sizeof k->m->sample.dims);
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (t.is_state || t.is_head)
            continue;
        const uint64_t parts[] = {hash, qn_hash_text(t.name), qn_hash_bytes(t.data, t.bytes)};
        hash = qn_hash_bytes(parts, sizeof parts);
    }
    return hash;
}

static int compare_places(const void *a, const void *b) {
    const place *x = a, *y = b;
    return (x->key > y->key) - (x->key < y->key);
}

/* Its records, as far as the file is whole. */
static qn_status list_places(making *k) {
    const int64_t n_bytes = qn_file_bytes(k->file);
    const int64_t step = (int64_t)(sizeof(record) + record_bytes(k));
    record r;
    for (int64_t at = sizeof(head); at + step <= n_bytes; at += step) {
        QN_TRY(qn_file_read(k->file, at, &r, sizeof r));
        QN_TRY(
            qn_grow(k->m->allocator, &k->places, &k->capacity, k->n_places + 1, sizeof *k->places));
        k->places[k->n_places++] = (place){r.key, at, false};
    }
    if (k->n_places > 0)
        qsort(k->places, k->n_places, sizeof *k->places, compare_places);
    return QN_OK;
}

/* A file that is not as expected is as good as none. */
static qn_status open_kept(making *k) {
    char folder[PATH_MAX - 128];
    head found;
    if (qn_folder_cache(folder, sizeof folder) != QN_OK)
        return QN_OK;
    snprintf(k->path, sizeof k->path, "%s/features-%016" PRIx64, folder, k->head.body);
    qn_cache_clear_path(k->path);
    if (!qn_path_is_file(k->path) || qn_file_open(k->m->allocator, k->path, &k->file) != QN_OK)
        return QN_OK;
    if (qn_file_bytes(k->file) >= (int64_t)sizeof found &&
        qn_file_read(k->file, 0, &found, sizeof found) == QN_OK &&
        memcmp(&found, &k->head, sizeof found) == 0) {
        qn_cache_use(k->path);
        return list_places(k);
    }
    qn_file_close(k->file);
    k->file = NULL;
    return QN_OK;
}

static place *find_place(const making *k, uint64_t key) {
    const place wanted = {.key = key};
    return k->n_places > 0
               ? bsearch(&wanted, k->places, k->n_places, sizeof *k->places, compare_places)
               : NULL;
}

/* Whether the record at an offset is the key's, and whole; its features go to `to`. */
static bool read_record(const making *k, int64_t offset, uint64_t key, float *to) {
    record r;
    return qn_file_read(k->file, offset, &r, sizeof r) == QN_OK &&
           qn_file_read(k->file, offset + (int64_t)sizeof r, to, record_bytes(k)) == QN_OK &&
           r.key == key && r.sum == qn_hash_bytes(to, record_bytes(k));
}

static bool take_kept(const making *k, uint64_t key, float *to) {
    place *found = find_place(k, key);
    if (found)
        found->is_wanted = true;
    return found && read_record(k, found->offset, key, to);
}

static qn_status put_record(const making *k, qn_writer *writer, uint64_t key, const float *x) {
    const record r = {key, qn_hash_bytes(x, record_bytes(k))};
    QN_TRY(qn_writer_put(writer, &r, sizeof r));
    return qn_writer_put(writer, x, record_bytes(k));
}

/* Records of other pictures, in the file's order; room (n_views, width). */
static qn_status put_others(const making *k, qn_writer *writer, float *room) {
    const int64_t step = (int64_t)(sizeof(record) + record_bytes(k));
    int64_t left = ((int64_t)MOST_KEPT_BYTES - k->n_done * step) / step;
    for (size_t i = 0; i < k->n_places && left > 0; i++) {
        const int64_t at = (int64_t)sizeof(head) + (int64_t)i * step;
        uint64_t key;
        if (qn_file_read(k->file, at, &key, sizeof key) != QN_OK)
            return QN_OK;
        const place *found = find_place(k, key);
        if (!found || found->offset != at || found->is_wanted || !read_record(k, at, key, room))
            continue;
        QN_TRY(put_record(k, writer, key, room));
        left--;
    }
    return QN_OK;
}

static qn_status write_all(void *context, qn_writer *writer) {
    const making *k = context;
    float *room;
    QN_TRY(qn_writer_put(writer, &k->head, sizeof k->head));
    for (int64_t i = 0; i < k->n_done; i++)
        QN_TRY(put_record(k, writer, k->keys[i], features_at(k, i)));
    if (!k->file)
        return QN_OK;
    QN_TRY(qn_allocate(k->m->allocator, record_bytes(k), 1, &room));
    const qn_status status = put_others(k, writer, room);
    qn_release(k->m->allocator, room, record_bytes(k), 1);
    return status;
}

/* The next run does without where it cannot be written. Keeps the message of a failure. */
static void keep(making *k) {
    char message[1024];
    snprintf(message, sizeof message, "%s", qn_error_message());
    if (k->m->n_made > 0 && k->path[0] && qn_cache_replace(k->path, write_all, k) == QN_OK) {
        qn_cache_note(k->m->allocator, k->path, k->m->name);
        qn_cache_apply_limit(k->m->allocator);
    }
    (void)qn_fail(QN_ERROR_IO, "%s", message);
}

/* ---- making ---- */

static void mirror(const qn_shape *sample, int64_t n, const float *x, float *to) {
    const int64_t h = sample->dims[0], w = sample->dims[1], c = sample->dims[2];
    for (int64_t row = 0; row < n * h; row++)
        for (int64_t i = 0; i < w; i++)
            memcpy(to + (row * w + i) * c, x + (row * w + w - 1 - i) * c, (size_t)c * sizeof *x);
}

/* One view of the n samples that begin at k->n_done. */
static qn_status run_view(making *k, const float *x, int64_t n, int64_t view) {
    const float *made;
    QN_TRY(qn_trainer_features(k->m->trainer, x, &made));
    for (int64_t i = 0; i < n; i++)
        memcpy(features_at(k, k->n_done + i) + view * k->f->width, made + i * k->f->width,
               k->view_bytes);
    return QN_OK;
}

static qn_status do_batch(making *k, const qn_batch *batch) {
    const int64_t n = batch->n_valid, sample = qn_shape_count(k->m->sample);
    bool are_kept = true;
    memcpy(k->f->y + k->n_done, batch->y, (size_t)n * sizeof(int32_t));
    for (int64_t i = 0; i < n; i++) {
        const float *x = batch->x + i * sample;
        k->keys[k->n_done + i] = qn_hash_bytes(x, (size_t)sample * sizeof *x);
        are_kept = are_kept && take_kept(k, k->keys[k->n_done + i], features_at(k, k->n_done + i));
    }
    if (!are_kept) {
        QN_TRY(run_view(k, batch->x, n, 0));
        mirror(&k->m->sample, k->m->batch, batch->x, k->mirrored);
        QN_TRY(run_view(k, k->mirrored, n, 1));
        k->m->n_made += n;
    }
    k->n_done += n;
    return QN_OK;
}

static qn_status do_split(making *k, qn_loader *loader, int64_t end) {
    const qn_log *log = k->m->log;
    qn_batch batch;
    while (k->n_done < end) {
        if (k->m->should_stop && k->m->should_stop(k->m->user))
            return qn_fail(QN_ERROR_INTERRUPTED,
                           "stopped after the features of %" PRId64 " of %" PRId64
                           " pictures, which are kept",
                           k->n_done, k->f->n);
        QN_TRY(qn_loader_next(loader, &batch));
        if (!batch.x)
            return qn_fail(QN_ERROR_IO, "%s ends before its last sample", k->m->name);
        QN_TRY(do_batch(k, &batch));
        if (log && log->progress)
            log->progress(log->user, "features of pictures", k->n_done, k->f->n);
    }
    return QN_OK;
}

static qn_status do_all(making *k) {
    for (int split = 0; split < QN_SPLITS; split++) {
        if (k->m->n[split] > 0)
            QN_TRY(do_split(k, k->m->loaders[split], k->n_done + k->m->n[split]));
    }
    return QN_OK;
}

static qn_status make(making *k) {
    qn_features *f = k->f;
    const qn_allocator *allocator = k->m->allocator;
    const int64_t sample = qn_shape_count(k->m->sample);
    for (int split = 0; split < QN_SPLITS; split++)
        f->n += k->m->n[split];
    f->n_views = QN_FEATURE_VIEWS;
    f->width = qn_trainer_feature_width(k->m->trainer);
    k->view_bytes = (size_t)f->width * sizeof *f->x;
    k->head = (head){.body = hash_body(k), .width = f->width, .n_views = f->n_views};
    memcpy(k->head.mark, mark, sizeof mark);
    QN_TRY(qn_allocate(allocator, (size_t)(f->n * f->n_views * f->width), sizeof *f->x, &f->x));
    QN_TRY(qn_allocate(allocator, (size_t)f->n, sizeof *f->y, &f->y));
    QN_TRY(qn_allocate(allocator, (size_t)f->n, sizeof *k->keys, &k->keys));
    QN_TRY(qn_allocate(allocator, (size_t)(k->m->batch * sample), sizeof(float), &k->mirrored));
    QN_TRY(open_kept(k));
    return do_all(k);
}

qn_status qn_features_make(qn_feature_maker *maker, qn_features *features) {
    making k = {.m = maker, .f = features};
    *features = (qn_features){.n = 0};
    maker->n_made = 0;
    const qn_status status = make(&k);
    if (status == QN_OK || status == QN_ERROR_INTERRUPTED)
        keep(&k);
    qn_file_close(k.file);
    qn_release(maker->allocator, k.places, k.capacity, sizeof *k.places);
    qn_release(maker->allocator, k.mirrored, (size_t)(maker->batch * qn_shape_count(maker->sample)),
               sizeof(float));
    qn_release(maker->allocator, k.keys, (size_t)features->n, sizeof *k.keys);
    return status;
}

void qn_features_deinit(const qn_allocator *allocator, qn_features *f) {
    qn_release(allocator, f->x, (size_t)(f->n * f->n_views * f->width), sizeof *f->x);
    qn_release(allocator, f->y, (size_t)f->n, sizeof *f->y);
}

size_t qn_features_bytes(int64_t n, int64_t width, int n_classes, qn_shape sample, int64_t batch) {
    enum { LAYERS = 24, OUTPUTS = 8 }; /* of the fit: its vectors, and outputs of samples */
    const int64_t one = QN_FEATURE_VIEWS * width * (int64_t)sizeof(float) + 64;
    return (size_t)(n * (one + OUTPUTS * n_classes * (int64_t)sizeof(double)) +
                    LAYERS * n_classes * (width + 1) * (int64_t)sizeof(float) +
                    batch * qn_shape_count(sample) * (int64_t)sizeof(float));
}
