/* What a service of learning keeps in its folder: samples, versions of the model, a round that is
 * under way, what a day used, and a log. One SQLite file, learn.db; a change is there as a whole or
 * not at all. The commands that look at it, or go back, work while a service runs: it sees another
 * generation, and reads anew. Numbers are SQLite's own; weights and the round are floats as the
 * machine has them, lowest byte first on all that quern runs on. */
#ifndef QN_LEARN_STORE_H
#define QN_LEARN_STORE_H

#include "learn/database.h"
#include "learn/learner.h"

typedef struct qn_store {
    const qn_allocator *allocator;
    qn_database *database;
    int64_t generation; /* of what its holder knows */
} qn_store;

/* Larger counts are damage; sums of a few of them are numbers still. */
#define QN_STORE_MOST_COUNT (INT64_C(1) << 53)

enum { QN_STORE_PATH = 512, QN_STORE_VERSIONS = 8, QN_STORE_LOG_ROWS = 10000 };

/* FOLDER/name. Returns path. */
const char *qn_store_path(const char *folder, const char *name, char path[QN_STORE_PATH]);

/* Limits the file itself, now and for all who visit the store later. */
qn_status qn_store_limit(qn_store *store, int64_t most_bytes);

/* must_exist: a folder without a store is QN_ERROR_ARGUMENT; else it is made. most_bytes: of its
 * file; 0: no limit. Whoever opens it with must_exist has the limit of the last who did not. */
qn_status qn_store_open(const qn_allocator *allocator, const char *folder, bool must_exist,
                        int64_t most_bytes, qn_store *store);
void qn_store_close(qn_store *store);

/* Begins a change. *is_other: somebody else went back or took samples out since the holder read;
 * nothing is begun then. */
qn_status qn_store_begin(qn_store *store, bool *is_other);
/* Ends it: status, or what the commit says; on a failure nothing has changed. */
qn_status qn_store_end(qn_store *store, qn_status status);

/* Settings: whole numbers by name. */
qn_status qn_store_get(qn_store *store, const char *name, int64_t otherwise, int64_t *value);
qn_status qn_store_set(qn_store *store, const char *name, int64_t value);

/* ---- samples ---- */

typedef struct qn_stored_sample {
    int64_t id, place;
    qn_origin origin;
    bool is_held_out;
    int32_t label;
    int64_t version; /* in use when it came */
    const char *name;
    const uint8_t *x;
    size_t bytes;
} qn_stored_sample;

/* Puts a sample to its place, instead of another that may be there. */
qn_status qn_store_put_sample(qn_store *store, const qn_stored_sample *sample);

/* All of them, by place. */
qn_status qn_store_each_sample(qn_store *store, void *user,
                               qn_status (*visit)(void *user, const qn_stored_sample *sample));

/* The largest id that a sample has; 0: there is none. */
qn_status qn_store_last_sample(qn_store *store, int64_t *id);

/* What came so far of each class, beside what is kept (qn_sample_memory). */
qn_status qn_store_put_memory(qn_store *store, qn_origin origin, bool is_held_out,
                              const qn_sample_memory *memory);
qn_status qn_store_get_memory(qn_store *store, qn_origin origin, bool is_held_out,
                              qn_sample_memory *memory);

/* Samples that wait to be taken: origin, place and version mean nothing. */
qn_status qn_store_put_waiting(qn_store *store, const qn_stored_sample *sample);
/* Visits the first ones, at most so many, and then takes them out; *n: how many there were. */
qn_status qn_store_take_waiting(qn_store *store, int most, void *user,
                                qn_status (*visit)(void *user, const qn_stored_sample *sample),
                                int64_t *n);
qn_status qn_store_count_waiting(qn_store *store, int64_t *n);

/* Files and contents that were taken, by a number of each. */
qn_status qn_store_has_taken(qn_store *store, uint64_t key, bool *has);
qn_status qn_store_take(qn_store *store, uint64_t key);

/* Takes a sample out for good. *version: in use when it came. must_relearn: goes back to that
 * version, and the next round learns from what is left. */
qn_status qn_store_forget(qn_store *store, int64_t id, bool must_relearn, int64_t *version);

/* ---- the learner's state, its round, versions ---- */

/* round null: there is none. */
qn_status qn_store_put_state(qn_store *store, const qn_learner_state *state, const void *round,
                             size_t bytes);
/* *round is released with qn_release(allocator, round, bytes, 1). */
qn_status qn_store_get_state(qn_store *store, qn_learner_state *state, void **round, size_t *bytes);

typedef struct qn_stored_version {
    int64_t number, second, n_steps;
    double joules, seconds, part;
    qn_comparison recent, old;
    bool has_weights; /* the oldest have none */
} qn_stored_version;

/* Adds a version, and drops the weights of those that are too old. */
qn_status qn_store_put_version(qn_store *store, const qn_stored_version *version,
                               const float *weights, int64_t n);
qn_status qn_store_each_version(qn_store *store, void *user,
                                qn_status (*visit)(void *user, const qn_stored_version *version));
qn_status qn_store_get_weights(qn_store *store, int64_t version, float *weights, int64_t n);

/* Goes back to the version before. QN_ERROR_ARGUMENT: there is none. *version: in use then. */
qn_status qn_store_undo(qn_store *store, int64_t *version);

/* ---- log ---- */

qn_status qn_store_log(qn_store *store, int64_t second, const char *text);

/* The last n rows, oldest first. */
qn_status qn_store_each_log(qn_store *store, int64_t n, void *user,
                            qn_status (*visit)(void *user, int64_t second, const char *text));

/* What a day used so far. */
qn_status qn_store_put_day(qn_store *store, int64_t day, double joules, double seconds);
/* The latest day that there is; -1: none. */
qn_status qn_store_get_day(qn_store *store, int64_t *day, double *joules, double *seconds);

#endif
