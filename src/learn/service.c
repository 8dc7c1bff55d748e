/* See service.h. What decides bits is in the store before it is used: a turn that fails, or is
 * killed, leaves the store at a place from which the same goes on, and a failure makes the next
 * turn read anew. Only time, energy and the log depend on when something happened. */
#include "learn/service.h"

#include "base/memory.h"
#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/images/image.h"
#include "data/prepare.h"
#include "learn/change.h"
#include "learn/inbox.h"
#include "learn/senses/senses.h"
#include "os/files/record_file.h"
#include "os/files/room.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/checkpoint.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SECOND INT64_C(1000000000)

enum {
    FILES_OF_TURN = 8,
    USUAL_KEPT = 3000,
    MOST_KEPT = 1000000,
    MOST_BATCH = 4096,
    USUAL_FRESH = 16,
    EPOCHS = 6,
    TEXT = 400,
    LONGEST_HOLD = 3600,
    TRIES = 3,
    UNDO_BYTES = 128 * 1024 /* of a change without weights */
};
static const int64_t look_ns = SECOND, keep_ns = 10 * SECOND, scan_ns = 60 * SECOND;

struct qn_service {
    qn_service_options o;
    qn_record_file *lock;
    qn_store store;
    qn_metadata *pairs; /* of the checkpoint */
    qn_preparation preparation;
    qn_preparer preparer;
    bool is_ready, must_load;
    bool may_wait;    /* samples, in the store's inbox */
    bool has_yielded; /* since the last step */
    qn_learner *learner;
    uint8_t *pixels; /* (n_values) */
    float *x;        /* (n_values) */
    size_t n_values;
    qn_policy policy;
    bool has_decided;
    qn_decision decision;
    qn_moment moment;
    double cool;
    int64_t sensed_ns, loaded_ns, scanned_ns; /* of qn_clock_ns; 0: never */
    qn_inbox files;
    size_t next_file;
    bool is_listed, needs_scan, has_named_stranger, has_noted_unread;
    bool has_unread; /* of the files that are listed */
    bool made_folder;
    bool is_refused;   /* a start that did not come to version 0: what it made goes */
    qn_origin origin;  /* of the files */
    bool was_old_read; /* as far as it could be: the next start tries the rest */
    int64_t n_kept, batch, seed, n_fresh;
    int64_t must_learn; /* without new samples: some were taken out */
    int64_t judged_id;  /* samples up to here were judged by */
    qn_change change;   /* of the error of the version in use */
    double unkept_seconds, round_seconds;
    qn_learning_facts facts;
};

/* ---- log ---- */

/* Within a change of the store. */
static qn_status note(qn_service *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
static qn_status note(qn_service *s, const char *format, ...) {
    char text[TEXT];
    va_list values;
    va_start(values, format);
    qn_print_list(text, sizeof text, format, values);
    va_end(values);
    QN_TRY(qn_store_log(&s->store, s->moment.second, text));
    if (s->o.said)
        s->o.said(s->o.user, s->moment.second, text);
    return QN_OK;
}

/* Ends a change; after a failure the learner is no longer what the store has. */
static qn_status end_change(qn_service *s, qn_status status) {
    status = qn_store_end(&s->store, status);
    s->must_load = s->must_load || status != QN_OK;
    return status;
}

/* *is_begun: false where somebody else changed the store; the next turn reads anew. */
static qn_status begin_change(qn_service *s, bool *is_begun) {
    bool is_other;
    QN_TRY(qn_store_begin(&s->store, &is_other));
    *is_begun = !is_other;
    s->must_load = s->must_load || is_other;
    return QN_OK;
}

/* ---- what the device says ---- */

static qn_status sense(qn_service *s) {
    const int64_t now = qn_clock_ns();
    if (!s->o.sense && s->sensed_ns > 0 && now - s->sensed_ns < look_ns / 2)
        return QN_OK;
    s->sensed_ns = now;
    if (s->o.sense)
        return s->o.sense(s->o.user, &s->moment, &s->cool);
    const qn_senses_options o = {.allocator = s->o.allocator, .root = s->o.root};
    return qn_senses_read(&o, &s->moment, &s->cool);
}

static bool has_rule(const qn_service *s, qn_sense sense_of, double *limit) {
    for (int i = 0; i < s->policy.n_rules; i++) {
        *limit = s->policy.rules[i].limit;
        if (s->policy.rules[i].kind->sense == sense_of)
            return true;
    }
    return false;
}

/* Asked before every step, so it looks at little. */
static bool must_yield(void *user) {
    const qn_service *s = user;
    double limit;
    if (s->o.should_stop && s->o.should_stop(s->o.user))
        return true;
    if (qn_service_is_paused(s->o.folder))
        return true;
    return !s->o.sense && has_rule(s, QN_SENSE_IDLE, &limit) && qn_senses_idle() < limit;
}

static qn_status note_decision(qn_service *s, const qn_decision *d) {
    char why[QN_POLICY_TEXT];
    bool is_begun;
    if (s->has_decided && d->may_train == s->decision.may_train && d->reason == s->decision.reason)
        return QN_OK;
    QN_TRY(begin_change(s, &is_begun));
    if (!is_begun)
        return QN_OK;
    s->has_decided = true;
    s->decision = *d;
    return end_change(s, note(s, "%s: %s", d->may_train ? "may learn" : "may not learn",
                              qn_decision_print(&s->policy, d, &s->moment, why)));
}

/* ---- opening ---- */

/* What bits depend on: as at the first start. */
static qn_status settle(qn_service *s, const char *name, int64_t given, int64_t usual, int64_t most,
                        int64_t *value) {
    QN_TRY(qn_store_get(&s->store, name, -1, value));
    if (*value > most)
        return qn_fail(QN_ERROR_FORMAT, "%s/learn.db: damaged: %s is %" PRId64, s->o.folder, name,
                       *value);
    if (*value >= 0 && given > 0 && given != *value)
        return qn_fail(QN_ERROR_ARGUMENT, "%s was begun with --%s %" PRId64 ", which stays",
                       s->o.folder, name, *value);
    if (*value >= 0)
        return QN_OK;
    *value = given > 0 ? given : usual;
    return qn_store_set(&s->store, name, *value);
}

/* ---- which model a folder began with ---- */

static const char begun_with[] = "begun_with";

/* Tells one file from another, as a count of the store. */
static qn_status tell_file(const qn_service *s, const char *path, int64_t *content) {
    enum { PIECE = 1 << 16 };
    uint64_t pair[2] = {0, 0};
    qn_file *file;
    char *piece;
    QN_TRY(qn_file_open(s->o.allocator, path, &file));
    qn_status status = qn_allocate(s->o.allocator, PIECE, 1, &piece);
    const bool has_piece = status == QN_OK;
    for (int64_t at = 0, n = qn_file_bytes(file); at < n && status == QN_OK; at += PIECE) {
        const size_t bytes = n - at < PIECE ? (size_t)(n - at) : PIECE;
        status = qn_file_read(file, at, piece, bytes);
        pair[1] = status == QN_OK ? qn_hash_bytes(piece, bytes) : 0;
        pair[0] = qn_hash_bytes(pair, sizeof pair);
    }
    if (has_piece)
        qn_release(s->o.allocator, piece, PIECE, 1);
    qn_file_close(file);
    *content = (int64_t)(pair[0] >> 1);
    return status;
}

/* A folder goes on with its own model: to be given another one is a mistake. Folders of older
 * versions did not keep which one they began with. Within a change of the store. */
static qn_status check_model(qn_service *s) {
    int64_t known, given, now;
    char path[QN_STORE_PATH];
    if (!s->o.model)
        return QN_OK;
    QN_TRY(qn_store_get(&s->store, begun_with, -1, &known));
    QN_TRY(tell_file(s, s->o.model, &given));
    QN_TRY(tell_file(s, qn_store_path(s->o.folder, "model.safetensors", path), &now));
    if (given == known || given == now)
        return QN_OK;
    if (known < 0) {
        QN_TRY(qn_store_set(&s->store, begun_with, given));
        return note(s, "goes on with its own model; %.200s is taken for the one that it began with",
                    s->o.model);
    }
    return qn_fail(
        QN_ERROR_ARGUMENT,
        "%s goes on with its own model, and %s is not the file that it began with: leave "
        "--model out, or begin in another folder",
        s->o.folder, s->o.model);
}

/* What fits: half of the memory as numbers; of the disk what versions leave, as bytes. */
static int64_t limit_kept(const qn_service *s, int64_t n_weights) {
    const double values = (double)s->n_values * 4; /* of two origins, to train on and judge by */
    double most = USUAL_KEPT;
    if (s->o.n_kept > 0)
        most = (double)s->o.n_kept;
    if (s->o.memory_bytes > 0)
        most = fmin(most, (double)s->o.memory_bytes / 2 / (values * sizeof(float)));
    if (s->o.disk_bytes > 0)
        most = fmin(most, ((double)s->o.disk_bytes - 64.0 * (double)n_weights) / (values * 1.2));
    return (int64_t)most;
}

/* A step of some 20 ms at 10 GFLOP/s: the user who comes back waits for a step. */
static int64_t usual_batch(const qn_model_size *size) {
    const double n = 2e8 / (3 * (double)size->forward_flops + 1);
    return n < 4 ? 4 : n > 32 ? 32 : (int64_t)n;
}

static qn_status make_learner(qn_service *s, const qn_model *model) {
    const int64_t pools = s->n_kept * 4 * (int64_t)(s->n_values * sizeof(float));
    const qn_learner_options o = {
        .allocator = s->o.allocator,
        .model = model,
        .input = s->preparation.sample,
        .n_classes = s->preparation.n_classes,
        .n_kept = s->n_kept,
        .n_held_out = s->n_kept,
        .batch = s->batch,
        .epochs = EPOCHS,
        .n_threads = s->o.n_threads,
        .seed = (uint64_t)s->seed,
        .memory_bytes = s->o.memory_bytes > 0 ? (size_t)(s->o.memory_bytes - pools) : 0,
        .should_stop = must_yield,
        .user = s,
    };
    const qn_status status = qn_learner_create(&o, &s->learner);
    if (status == QN_OK || pools == 0 || s->o.memory_bytes == 0)
        return status;
    return qn_fail_within(status, "beside %.1f MiB for samples, of which --keep has fewer: ",
                          (double)pools / (1 << 20));
}

static qn_status save_model(qn_service *s) {
    char text[32], path[QN_STORE_PATH];
    snprintf(text, sizeof text, "%" PRId64, qn_learner_version(s->learner));
    QN_TRY(qn_metadata_set(s->pairs, "learn_version", text));
    QN_TRY(qn_checkpoint_save(qn_learner_engine(s->learner), s->pairs,
                              qn_store_path(s->o.folder, "model.safetensors", path)));
    return qn_path_make_private(path);
}

/* Version 0: the weights as they came. */
static qn_status begin_store(qn_service *s) {
    const qn_learner_state state = qn_learner_get_state(s->learner);
    const qn_stored_version first = {.second = s->moment.second};
    int64_t n, content;
    QN_TRY(tell_file(s, s->o.model, &content));
    QN_TRY(qn_store_set(&s->store, begun_with, content));
    QN_TRY(qn_checkpoint_load(qn_learner_engine(s->learner), s->o.model, false));
    QN_TRY(qn_learner_begin(s->learner, qn_learner_engine(s->learner)));
    const float *weights = qn_learner_weights(s->learner, &n);
    QN_TRY(save_model(s));
    QN_TRY(qn_store_put_version(&s->store, &first, weights, n));
    QN_TRY(qn_store_put_state(&s->store, &state, NULL, 0));
    return note(s, "begins with %.200s as version 0; keeps %" PRId64 " samples of each kind",
                s->o.model, s->n_kept);
}

/* Of --disk: beside the samples and versions there are the model, and while it is written another
 * one, or what the store needs to undo the change at hand: the largest ends a round and drops an
 * old version. */
static qn_status limit_store(qn_service *s, int64_t n_weights) {
    char path[QN_STORE_PATH];
    if (s->o.disk_bytes <= 0)
        return QN_OK;
    const int64_t model = qn_path_bytes(qn_store_path(s->o.folder, "model.safetensors", path));
    const int64_t undo = (int64_t)qn_learner_round_bytes(s->learner) +
                         n_weights * (int64_t)sizeof(float) + FILES_OF_TURN * (int64_t)s->n_values +
                         UNDO_BYTES;
    const int64_t left = s->o.disk_bytes - model - (undo > model ? undo : model);
    return qn_store_limit(&s->store, left > 0 ? left : 1); /* 1: as large as it is, 0 is no limit */
}

static qn_status set_up_learner(qn_service *s, const qn_model *model, bool is_new) {
    qn_model_size size;
    if (!is_new)
        QN_TRY(check_model(s));
    QN_TRY(qn_model_measure(model, s->preparation.sample, s->preparation.n_classes, &size));
    const int64_t most = limit_kept(s, size.n_parameters);
    QN_TRY(settle(s, "keep", s->o.n_kept > most ? most : s->o.n_kept, most, MOST_KEPT, &s->n_kept));
    QN_TRY(settle(s, "batch", s->o.batch, usual_batch(&size), MOST_BATCH, &s->batch));
    QN_TRY(settle(s, "seed", s->o.seed, 1, INT64_MAX, &s->seed));
    if (s->n_kept < 16)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--memory or --disk leave room for %" PRId64 " samples of each kind; "
                       "at least 16 are needed",
                       s->n_kept);
    QN_TRY(make_learner(s, model));
    if (is_new)
        QN_TRY(begin_store(s));
    return limit_store(s, size.n_parameters);
}

static qn_status read_model(qn_service *s, const char *path, const qn_model **model) {
    QN_TRY(qn_checkpoint_read(s->o.allocator, path, &s->pairs));
    const char *name = qn_metadata_get(s->pairs, "model");
    QN_TRY(qn_metadata_get_preparation(s->pairs, &s->preparation));
    if (!name || s->preparation.n_classes < 2 || s->preparation.sample.rank != 3)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s says no model of images and classes; quern train --save makes such",
                       path);
    *model = qn_model_find(name);
    if (!*model)
        return qn_fail_within(QN_ERROR_UNSUPPORTED, "%s: ", path);
    s->n_values = (size_t)qn_shape_count(s->preparation.sample);
    QN_TRY(qn_allocate(s->o.allocator, s->n_values, 1, &s->pixels));
    QN_TRY(qn_allocate(s->o.allocator, s->n_values, sizeof *s->x, &s->x));
    QN_TRY(qn_preparer_init(&s->preparer, s->o.allocator, &s->preparation.sample, QN_U8,
                            &s->preparation));
    s->is_ready = true;
    return QN_OK;
}

static qn_status read_policy(qn_service *s) {
    int64_t day;
    double joules, seconds;
    qn_moment later = s->moment;
    QN_TRY(qn_policy_parse(s->o.when, s->cool, &s->policy));
    later.second += LONGEST_HOLD; /* what holds now is taken to have held for long enough */
    qn_policy_decide(&s->policy, &s->moment);
    qn_policy_decide(&s->policy, &later);
    s->policy.has_begun = false;
    s->policy.budget_joules = s->o.day_joules;
    s->policy.budget_seconds = s->o.day_seconds;
    QN_TRY(qn_store_get_day(&s->store, &day, &joules, &seconds));
    if (day < 0)
        return QN_OK;
    s->policy.has_begun = true;
    s->policy.day = day;
    qn_policy_spend(&s->policy, joules, seconds);
    return QN_OK;
}

/* Whether the disk has room for the next version: its model, and what the store writes with it.
 * What comes before is stored as it is learned, and a full disk ends it there. */
static qn_status try_disk(const qn_service *s) {
    char path[QN_STORE_PATH];
    int64_t n;
    qn_store_path(s->o.folder, "model.safetensors", path);
    qn_learner_weights(s->learner, &n);
    const int64_t stored = (int64_t)qn_learner_round_bytes(s->learner) + n * (int64_t)sizeof(float);
    return qn_room_try(s->o.allocator, path, qn_path_bytes(path) + 2 * stored + UNDO_BYTES);
}

/* Files that have the names of a store's, in a folder without a store, are somebody else's. An
 * empty lock is what a start leaves that was cut off. */
static qn_status check_names(const qn_service *s) {
    static const char *const names[] = {"learn.db-journal", "model.safetensors", "lock"};
    char path[QN_STORE_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const int64_t bytes = qn_path_bytes(qn_store_path(s->o.folder, names[i], path));
        if (bytes > 0 || (bytes == 0 && strcmp(names[i], "lock") != 0))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s is there already, and %s is no folder that quern learns in: name "
                           "another folder",
                           path, s->o.folder);
    }
    return QN_OK;
}

/* A start that was cut off before version 0 was there is one that never was. */
static qn_status open_all(qn_service *s) {
    char path[QN_STORE_PATH];
    const qn_model *model;
    bool is_begun;
    int64_t is_old;
    const bool was_there = qn_path_bytes(s->o.folder) >= 0;
    const bool had_store = qn_path_is_file(qn_store_path(s->o.folder, "learn.db", path));
    if (!had_store)
        QN_TRY(check_names(s));
    QN_TRY(qn_folder_create(s->o.folder));
    s->made_folder = !was_there;
    s->is_refused = !had_store;
    if (!was_there || had_store)
        QN_TRY(qn_path_make_private(s->o.folder)); /* samples are the user's alone */
    QN_TRY(qn_record_file_open(s->o.allocator, qn_store_path(s->o.folder, "lock", path), &s->lock));
    QN_TRY(qn_store_open(s->o.allocator, s->o.folder, false, s->o.disk_bytes, &s->store));
    QN_TRY(qn_database_ask(s->store.database, "SELECT count(*) FROM state", 0, NULL, 0, &is_old));
    if (!is_old && !s->o.model)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no model yet: give --model FILE", s->o.folder);
    QN_TRY(sense(s));
    QN_TRY(read_policy(s));
    QN_TRY(read_model(
        s, is_old ? qn_store_path(s->o.folder, "model.safetensors", path) : s->o.model, &model));
    QN_TRY(begin_change(s, &is_begun));
    if (!is_begun)
        return qn_fail(QN_ERROR_IO, "%s: changed while it was opened; try again", s->o.folder);
    QN_TRY(end_change(s, set_up_learner(s, model, !is_old)));
    QN_TRY(try_disk(s));
    s->is_refused = false;
    s->must_load = s->needs_scan = true;
    return QN_OK;
}

qn_status qn_service_open(const qn_service_options *options, qn_service **service) {
    qn_service *s;
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *s, &s));
    s->o = *options;
    s->o.allocator = allocator;
    s->o.n_fresh = s->o.n_fresh > 0 ? s->o.n_fresh : USUAL_FRESH;
    const qn_status status = open_all(s);
    if (status != QN_OK) {
        s->must_load = true; /* nothing to keep */
        qn_service_close(s);
        return status;
    }
    *service = s;
    return QN_OK;
}

/* Of a start that was refused: no store, and no folder where there was none. */
static void remove_all(const qn_service *s) {
    static const char *const names[] = {"learn.db", "learn.db-journal", "model.safetensors",
                                        "lock"};
    char path[QN_STORE_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        qn_file_remove(qn_store_path(s->o.folder, names[i], path));
    if (s->made_folder)
        qn_folder_remove_empty(s->o.folder);
}

void qn_service_close(qn_service *s) {
    if (!s)
        return;
    if (s->learner && !s->must_load)
        (void)qn_service_keep(s); /* else the steps since the last time are done again */
    qn_inbox_deinit(&s->files);
    qn_learner_destroy(s->learner);
    if (s->is_ready)
        qn_preparer_deinit(&s->preparer);
    qn_release(s->o.allocator, s->x, s->n_values, sizeof *s->x);
    qn_release(s->o.allocator, s->pixels, s->n_values, 1);
    qn_metadata_destroy(s->pairs);
    qn_store_close(&s->store);
    if (s->is_refused && s->lock)
        remove_all(s);
    qn_record_file_close(s->lock);
    qn_release(s->o.allocator, s, 1, sizeof *s);
}

/* ---- reading what the store has ---- */

static qn_status load_sample(void *user, const qn_stored_sample *sample) {
    qn_service *s = user;
    qn_sample_memory *m = qn_learner_memory(s->learner, sample->origin, sample->is_held_out);
    if (sample->place != m->n || m->n == m->capacity || sample->bytes != s->n_values ||
        sample->label < 0 || sample->label >= m->n_classes)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s/learn.db: damaged: sample %" PRId64 "; begin in another folder",
                       s->o.folder, sample->id);
    qn_preparer_apply(&s->preparer, sample->x, m->x + m->n * m->n_values);
    if (sample->origin == QN_ORIGIN_USER && sample->is_held_out)
        qn_learner_note_new(s->learner, m->n, sample->id > s->judged_id);
    m->labels[m->n++] = sample->label;
    m->counts[sample->label]++;
    return QN_OK;
}

/* ---- changes of the world ---- */

static bool may_be_count(int64_t value) {
    return value >= 0 && value <= QN_STORE_MOST_COUNT;
}

static const char *const change_keys[] = {"change_n", "change_wrong", "change_n_recent",
                                          "change_recent"};

static qn_status load_change(qn_service *s) {
    qn_change *c = &s->change;
    int64_t *const values[] = {&c->n, &c->n_wrong, &c->n_recent, &c->recent};
    bool is_whole = true;
    QN_TRY(qn_store_get(&s->store, "judged_id", 0, &s->judged_id));
    for (int i = 0; i < 4; i++) {
        QN_TRY(qn_store_get(&s->store, change_keys[i], 0, values[i]));
        is_whole = is_whole && may_be_count(*values[i]);
    }
    is_whole = is_whole && c->n_wrong <= c->n && c->n_recent <= QN_CHANGE_WINDOW &&
               c->recent <= UINT32_MAX;
    if (!is_whole)
        *c = (qn_change){0}; /* a comparison is lost, no sample */
    return QN_OK;
}

static qn_status note_change(qn_service *s, const qn_change *c) {
    return note(s,
                "the world changed: the version in use was wrong on %" PRId64
                " of the latest %d samples that it had not learned from, on %" PRId64 " of %" PRId64
                " before",
                qn_change_recent_wrong(c), QN_CHANGE_WINDOW, c->n_wrong, c->n);
}

/* Within the change of the store that a judgement makes. A version begins its own count. */
static qn_status watch_world(qn_service *s, const qn_learned *d) {
    qn_change c = s->change;
    for (int64_t i = 0; i < d->n_new; i++) {
        if (!qn_change_add(&c, i < d->n_new_wrong))
            continue;
        QN_TRY(note_change(s, &c));
        c = (qn_change){0};
    }
    if (d->has_replaced)
        c = (qn_change){0};
    const int64_t values[] = {c.n, c.n_wrong, c.n_recent, c.recent};
    for (int i = 0; i < 4; i++)
        QN_TRY(qn_store_set(&s->store, change_keys[i], values[i]));
    QN_TRY(qn_store_last_sample(&s->store, &s->judged_id));
    QN_TRY(qn_store_set(&s->store, "judged_id", s->judged_id));
    s->change = c;
    return QN_OK;
}

static qn_status load_memories(qn_service *s) {
    for (int i = 0; i < 4; i++) {
        const qn_origin origin = i / 2 ? QN_ORIGIN_USER : QN_ORIGIN_OLD;
        qn_sample_memory *m = qn_learner_memory(s->learner, origin, i % 2);
        const size_t n = (size_t)m->n_classes;
        m->n = 0;
        memset(m->counts, 0, n * sizeof *m->counts);
        memset(m->seen, 0, n * sizeof *m->seen);
        memset(m->full, 0, n * sizeof *m->full);
        QN_TRY(qn_store_get_memory(&s->store, origin, i % 2, m));
    }
    return qn_store_each_sample(&s->store, s, load_sample);
}

static qn_status resume(qn_service *s, const qn_learner_state *state, const void *round,
                        size_t bytes) {
    qn_learner_state resting = *state;
    int64_t n;
    float *weights;
    qn_learner_weights(s->learner, &n);
    if (state->step > state->n_steps || state->n_steps > INT32_MAX || state->n_tried > INT32_MAX)
        return qn_fail(QN_ERROR_FORMAT, "%s/learn.db: damaged: a state that cannot be",
                       s->o.folder);
    if (state->n_steps > 0 && bytes != qn_learner_round_bytes(s->learner))
        return qn_fail(QN_ERROR_FORMAT, "%s/learn.db: a round of another network", s->o.folder);
    QN_TRY(qn_allocate(s->o.allocator, (size_t)n, sizeof *weights, &weights));
    qn_status status = qn_store_get_weights(&s->store, state->version, weights, n);
    resting.step = resting.n_steps = 0;
    if (status == QN_OK) {
        qn_learner_resume(s->learner, &resting, weights, NULL);
        const char *saved = qn_metadata_get(s->pairs, "learn_version");
        char text[32];
        snprintf(text, sizeof text, "%" PRId64, state->version);
        if (!saved || strcmp(saved, text) != 0)
            status = save_model(s);
    }
    if (status == QN_OK)
        qn_learner_resume(s->learner, state, weights, round);
    qn_release(s->o.allocator, weights, (size_t)n, sizeof *weights);
    return status;
}

qn_status qn_service_load(qn_service *s) {
    qn_learner_state state;
    int64_t ms;
    void *round;
    size_t bytes;
    QN_TRY(qn_store_get(&s->store, "generation", 0, &s->store.generation));
    QN_TRY(qn_store_get(&s->store, "fresh", 0, &s->n_fresh));
    QN_TRY(qn_store_get(&s->store, "must_learn", 0, &s->must_learn));
    QN_TRY(qn_store_get(&s->store, "taken", 0, &s->facts.n_taken));
    QN_TRY(qn_store_get(&s->store, "round_ms", 0, &ms));
    if (!may_be_count(s->n_fresh) || !may_be_count(s->facts.n_taken) || !may_be_count(ms))
        return qn_fail(QN_ERROR_FORMAT, "%s/learn.db: damaged: a count that cannot be",
                       s->o.folder);
    s->round_seconds = (double)ms / 1e3;
    s->unkept_seconds = 0;
    QN_TRY(load_change(s));
    QN_TRY(load_memories(s));
    QN_TRY(qn_store_get_state(&s->store, &state, &round, &bytes));
    const qn_status status = resume(s, &state, round, bytes);
    qn_release(s->store.allocator, round, bytes, 1);
    s->must_load = status != QN_OK;
    qn_inbox_deinit(&s->files);
    s->is_listed = false;
    s->needs_scan = true;
    s->loaded_ns = qn_clock_ns();
    return status;
}

/* Reads anew where there is reason to. */
static qn_status follow_store(qn_service *s) {
    const int64_t now = qn_clock_ns();
    int64_t generation;
    if (!s->must_load && now - s->loaded_ns >= look_ns) {
        QN_TRY(qn_store_get(&s->store, "generation", 0, &generation));
        s->must_load = generation != s->store.generation;
        s->loaded_ns = now;
    }
    return s->must_load ? qn_service_load(s) : QN_OK;
}

/* ---- taking pictures ---- */

static qn_status list_files(qn_service *s) {
    int64_t was_read;
    QN_TRY(qn_store_get(&s->store, "old_read", 0, &was_read));
    const bool is_old = s->o.old && !was_read && !s->was_old_read;
    const char *folder = is_old ? s->o.old : s->o.inbox;
    s->origin = is_old ? QN_ORIGIN_OLD : QN_ORIGIN_USER;
    s->needs_scan = false;
    s->may_wait = true;
    s->scanned_ns = qn_clock_ns();
    if (!folder)
        return QN_OK;
    QN_TRY(qn_inbox_list(s->o.allocator, folder, &s->preparation, &s->files));
    s->next_file = 0;
    s->is_listed = true;
    s->has_unread = false;
    return QN_OK;
}

/* Of what is in s->pixels; one that was taken before is left out. */
static qn_status keep_sample(qn_service *s, int32_t label, const char *name) {
    qn_placing placing;
    bool has;
    const int64_t version = qn_learner_version(s->learner);
    const uint64_t content = qn_hash_bytes(s->pixels, s->n_values);
    QN_TRY(qn_store_has_taken(&s->store, content, &has));
    if (has)
        return note(s, "left out: %.200s was taken before", name);
    QN_TRY(qn_store_take(&s->store, content));
    qn_preparer_apply(&s->preparer, s->pixels, s->x);
    QN_TRY(qn_learner_offer(s->learner, s->origin, QN_USE_DRAWN, s->x, label, &placing));
    s->n_fresh += s->origin == QN_ORIGIN_USER;
    s->facts.n_taken++;
    if (placing.place < 0)
        return QN_OK;
    const qn_stored_sample sample = {.place = placing.place,
                                     .origin = s->origin,
                                     .is_held_out = placing.is_held_out,
                                     .label = label,
                                     .version = version,
                                     .name = name,
                                     .x = s->pixels,
                                     .bytes = s->n_values};
    return qn_store_put_sample(&s->store, &sample);
}

/* What could not be read now may be read in the next listing; a note says so once. */
static qn_status leave_for_later(qn_service *s) {
    s->has_unread = true;
    if (s->has_noted_unread)
        return QN_OK;
    s->has_noted_unread = true;
    return note(s, "left for later: %.300s", qn_error_message());
}

/* Order decides bits, so a failure that passes is tried again at once, before the next picture. */
static qn_status load_picture(qn_service *s, const char *path) {
    qn_status status = QN_ERROR_IO;
    for (int i = 0; status == QN_ERROR_IO && i < TRIES; i++)
        status = qn_image_load(path, &s->preparation.sample, s->preparation.centre_crop, s->pixels);
    return status;
}

/* A file is taken once: by its name and time, without reading it; and by what is in it. One that
 * is no picture is done with; one that the system did not let be read is not. */
static qn_status take_file(qn_service *s, const qn_inbox_file *f) {
    bool has;
    QN_TRY(qn_store_has_taken(&s->store, f->key, &has));
    if (has)
        return QN_OK;
    const qn_status status = load_picture(s, f->path);
    if (status == QN_ERROR_MEMORY)
        return status;
    if (status == QN_ERROR_IO)
        return leave_for_later(s);
    QN_TRY(qn_store_take(&s->store, f->key));
    if (status != QN_OK)
        return note(s, "left out: %.300s", qn_error_message());
    return keep_sample(s, f->label, f->name);
}

static qn_status put_memories(qn_service *s) {
    const qn_learner_state state = qn_learner_get_state(s->learner);
    for (int i = 0; i < 2; i++)
        QN_TRY(qn_store_put_memory(&s->store, s->origin, i,
                                   qn_learner_memory(s->learner, s->origin, i)));
    QN_TRY(qn_store_set(&s->store, "fresh", s->n_fresh));
    QN_TRY(qn_store_set(&s->store, "taken", s->facts.n_taken));
    return qn_store_put_state(&s->store, &state, NULL, 0);
}

static qn_status name_stranger(qn_service *s) {
    if (!s->files.stranger || s->has_named_stranger)
        return QN_OK;
    s->has_named_stranger = true;
    return note(s, "left out: the folder %.100s is none of the model's %d classes (%.40s, ...)",
                s->files.stranger, s->preparation.n_classes,
                s->preparation.class_names ? s->preparation.class_names[0] : "0");
}

static qn_status take_files(qn_service *s) {
    const int64_t before = s->facts.n_taken;
    int n = 0;
    while (s->next_file < s->files.n && n++ < FILES_OF_TURN)
        QN_TRY(take_file(s, &s->files.files[s->next_file++]));
    if (s->facts.n_taken > before)
        QN_TRY(put_memories(s));
    if (s->next_file < s->files.n)
        return QN_OK;
    if (s->origin == QN_ORIGIN_OLD && !s->has_unread)
        QN_TRY(qn_store_set(&s->store, "old_read", 1));
    return name_stranger(s);
}

static qn_status take_turn(qn_service *s) {
    bool is_begun;
    QN_TRY(begin_change(s, &is_begun));
    if (!is_begun)
        return QN_OK;
    QN_TRY(end_change(s, take_files(s)));
    if (s->next_file < s->files.n)
        return QN_OK;
    s->was_old_read = s->was_old_read || s->origin == QN_ORIGIN_OLD;
    s->needs_scan = s->origin == QN_ORIGIN_OLD; /* the user's come behind */
    s->is_listed = false;
    qn_inbox_deinit(&s->files);
    return QN_OK;
}

static qn_status take_waiting(void *user, const qn_stored_sample *sample) {
    qn_service *s = user;
    if (sample->bytes != s->n_values || sample->label < 0 ||
        sample->label >= s->preparation.n_classes)
        return note(s, "left out: %.200s of the table inbox has another size, or no class",
                    sample->name);
    memcpy(s->pixels, sample->x, sample->bytes);
    return keep_sample(s, sample->label, sample->name);
}

static qn_status take_all_waiting(qn_service *s) {
    int64_t n;
    s->origin = QN_ORIGIN_USER;
    QN_TRY(qn_store_take_waiting(&s->store, FILES_OF_TURN, s, take_waiting, &n));
    return n > 0 ? put_memories(s) : QN_OK;
}

static qn_status waiting_turn(qn_service *s) {
    bool is_begun;
    QN_TRY(begin_change(s, &is_begun));
    return is_begun ? end_change(s, take_all_waiting(s)) : QN_OK;
}

qn_status qn_service_offer(qn_service *s, const uint8_t *pixels, int32_t label, const char *name) {
    const qn_stored_sample sample = {
        .label = label, .name = name, .x = pixels, .bytes = s->n_values};
    if (label < 0 || label >= s->preparation.n_classes)
        return qn_fail(QN_ERROR_ARGUMENT, "class %d of a sample; there are %d", label,
                       s->preparation.n_classes);
    s->may_wait = true;
    return qn_store_put_waiting(&s->store, &sample);
}

qn_shape qn_service_input(const qn_service *s) {
    return s->preparation.sample;
}

const char *qn_service_folder(const qn_service *s) {
    return s->o.folder;
}

qn_status qn_service_undo(qn_service *s) {
    int64_t version;
    QN_TRY(qn_store_undo(&s->store, &version));
    return qn_service_load(s);
}

/* ---- rounds ---- */

static qn_status put_round(qn_service *s) {
    const qn_learner_state state = qn_learner_get_state(s->learner);
    const size_t bytes = qn_learner_round_bytes(s->learner);
    void *round;
    QN_TRY(qn_allocate(s->o.allocator, bytes, 1, &round));
    qn_learner_save_round(s->learner, round);
    qn_status status =
        qn_store_put_state(&s->store, &state, state.n_steps > 0 ? round : NULL, bytes);
    qn_release(s->o.allocator, round, bytes, 1);
    if (status == QN_OK)
        status = qn_store_put_day(&s->store, s->policy.day, s->policy.spent_joules,
                                  s->policy.spent_seconds);
    if (status == QN_OK)
        status = qn_store_set(&s->store, "round_ms", (int64_t)(s->round_seconds * 1e3));
    return status;
}

qn_status qn_service_keep(qn_service *s) {
    bool is_begun;
    if (s->unkept_seconds <= 0)
        return QN_OK;
    QN_TRY(begin_change(s, &is_begun));
    if (!is_begun)
        return QN_OK;
    QN_TRY(end_change(s, put_round(s)));
    s->unkept_seconds = 0;
    return QN_OK;
}

static qn_status begin_turn(qn_service *s) {
    bool is_begun;
    QN_TRY(begin_change(s, &is_begun));
    if (!is_begun)
        return QN_OK;
    s->round_seconds = 0;
    qn_learner_begin_round(s->learner);
    qn_status status = put_round(s);
    if (status == QN_OK)
        status = note(s, "learns from %" PRId64 " new samples in %" PRId64 " steps", s->n_fresh,
                      qn_learner_steps_left(s->learner));
    return end_change(s, status);
}

static void spend(qn_service *s, int64_t begin_ns) {
    const double seconds = (double)(qn_clock_ns() - begin_ns) * 1e-9;
    qn_policy_spend(&s->policy, seconds * s->o.watts, seconds);
    s->unkept_seconds += seconds;
    s->round_seconds += seconds;
}

static void end_of_round(qn_service *s) {
    s->n_fresh = s->must_learn = 0;
    s->unkept_seconds = s->round_seconds = 0;
    s->needs_scan = true;
}

static qn_status put_result(qn_service *s, const qn_learned *d) {
    const qn_comparison *r = &d->recent, *old = &d->old;
    const qn_stored_version v = {.number = d->version,
                                 .second = s->moment.second,
                                 .n_steps = d->n_steps,
                                 .joules = s->round_seconds * s->o.watts,
                                 .seconds = s->round_seconds,
                                 .part = d->part,
                                 .recent = *r,
                                 .old = *old};
    int64_t n;
    const float *weights = qn_learner_weights(s->learner, &n);
    if (d->has_replaced)
        QN_TRY(qn_store_put_version(&s->store, &v, weights, n));
    QN_TRY(qn_store_set(&s->store, "fresh", 0));
    QN_TRY(qn_store_set(&s->store, "must_learn", 0));
    QN_TRY(put_round(s));
    QN_TRY(watch_world(s, d));
    return note(s,
                "%s %" PRId64 ": of %" PRId64 " recent samples %" PRId64 " became right, %" PRId64
                " wrong; of %" PRId64 " old ones %" PRId64 ", %" PRId64 "; %" PRId64
                " steps, %.1f s, %.0f J (estimated)",
                d->has_replaced ? "better, so it is version"
                                : "not surely better: stays at version",
                d->version, r->n, r->n_better, r->n_worse, old->n, old->n_better, old->n_worse,
                d->n_steps, v.seconds, v.joules);
}

static qn_status put_failure(qn_service *s) {
    QN_TRY(qn_store_set(&s->store, "fresh", 0));
    QN_TRY(qn_store_set(&s->store, "must_learn", 0));
    QN_TRY(put_round(s));
    return note(s, "the round diverged: the model stays as it is");
}

/* The round ends without a result. */
static qn_status give_up(qn_service *s) {
    bool is_begun;
    QN_TRY(begin_change(s, &is_begun));
    if (!is_begun)
        return QN_OK;
    qn_learner_drop_round(s->learner);
    QN_TRY(end_change(s, put_failure(s)));
    end_of_round(s);
    return QN_OK;
}

static qn_status step_turn(qn_service *s, int64_t *rest_ns) {
    const int64_t begin_ns = qn_clock_ns();
    const qn_status status = qn_learner_step(s->learner);
    const double seconds = (double)(qn_clock_ns() - begin_ns) * 1e-9;
    spend(s, begin_ns);
    if (status == QN_ERROR_NUMERIC)
        return give_up(s);
    QN_TRY(status);
    s->facts.longest_step_seconds = fmax(s->facts.longest_step_seconds, seconds);
    if (s->o.power_watts > 0 && s->o.watts > s->o.power_watts)
        *rest_ns = (int64_t)(seconds * (s->o.watts / s->o.power_watts - 1) * 1e9);
    if (s->unkept_seconds * 1e9 < (double)keep_ns && qn_learner_steps_left(s->learner) > 0)
        return QN_OK;
    return must_yield(s) ? QN_OK : qn_service_keep(s); /* what there is to write can wait */
}

/* A judgement changes nothing until it is in the store. */
static qn_status judge_turn(qn_service *s) {
    const int64_t begin_ns = qn_clock_ns();
    qn_learned d;
    bool is_begun;
    const qn_status status = qn_learner_end_round(s->learner, &d);
    spend(s, begin_ns);
    if (status == QN_ERROR_INTERRUPTED)
        return QN_OK;
    if (status == QN_ERROR_NUMERIC)
        return give_up(s);
    QN_TRY(status);
    s->must_load = true; /* unless the store has it, too */
    QN_TRY(begin_change(s, &is_begun));
    if (!is_begun)
        return QN_OK;
    QN_TRY(end_change(s, put_result(s, &d)));
    s->must_load = false;
    end_of_round(s);
    return d.has_replaced ? save_model(s) : QN_OK;
}

/* ---- turns ---- */

static qn_status work(qn_service *s, qn_learn_turn *turn, int64_t *rest_ns) {
    const qn_learner_state state = qn_learner_get_state(s->learner);
    *turn = QN_TURN_WORKED;
    if (state.n_steps > 0)
        return state.step < state.n_steps ? step_turn(s, rest_ns) : judge_turn(s);
    if (s->is_listed)
        return take_turn(s);
    if (s->may_wait) {
        int64_t n;
        QN_TRY(qn_store_count_waiting(&s->store, &n));
        s->may_wait = n > 0;
        if (n > 0)
            return waiting_turn(s);
    }
    if (s->needs_scan || qn_clock_ns() - s->scanned_ns > scan_ns)
        return list_files(s);
    if ((s->n_fresh >= s->o.n_fresh || s->must_learn) && qn_learner_can_begin(s->learner))
        return begin_turn(s);
    *turn = QN_TURN_DONE;
    *rest_ns = look_ns;
    return QN_OK;
}

qn_status qn_service_turn(qn_service *s, qn_learn_turn *turn, int64_t *rest_ns) {
    *turn = QN_TURN_WAITS;
    *rest_ns = 0;
    QN_TRY(follow_store(s));
    if (!s->has_yielded && must_yield(s)) { /* first of all: what there is to write can wait */
        s->has_yielded = true;
        *rest_ns = look_ns;
        return QN_OK;
    }
    QN_TRY(sense(s));
    const qn_decision d = qn_policy_decide(&s->policy, &s->moment);
    QN_TRY(note_decision(s, &d));
    s->has_yielded = must_yield(s);
    if (d.may_train && !s->has_yielded)
        return work(s, turn, rest_ns);
    *rest_ns = look_ns;
    return s->must_load ? QN_OK : qn_service_keep(s);
}

qn_learning_facts qn_service_get_facts(const qn_service *s) {
    const qn_learner_state state = qn_learner_get_state(s->learner);
    qn_learning_facts f = s->facts;
    f.version = state.version;
    f.step = state.step;
    f.n_steps = state.n_steps;
    f.n_fresh = s->n_fresh;
    return f;
}

/* ---- pauses ---- */

static qn_status write_nothing(void *context, qn_writer *writer) {
    (void)context;
    (void)writer;
    return QN_OK;
}

qn_status qn_service_set_paused(const char *folder, bool is_paused) {
    char path[QN_STORE_PATH];
    qn_store_path(folder, "paused", path);
    if (is_paused)
        return qn_file_replace(path, write_nothing, NULL);
    qn_file_remove(path);
    return QN_OK;
}

bool qn_service_is_paused(const char *folder) {
    char path[QN_STORE_PATH];
    return qn_path_is_file(qn_store_path(folder, "paused", path));
}
