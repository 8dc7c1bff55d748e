/* A service that learns from a folder of pictures, and from samples that are handed over, turn by
 * turn: a turn takes some pictures, or is
 * one training step, or one judgement. Whoever calls it decides when; before each turn it asks the
 * policy, and gives the processor back after the step under way. The same pictures give the same
 * versions bit for bit, however often it is stopped or killed, and wherever. One service at a time
 * uses a folder. */
#ifndef QN_LEARN_SERVICE_H
#define QN_LEARN_SERVICE_H

#include "learn/policy.h"
#include "learn/store.h"
#include "quern/learn.h"

typedef struct qn_service_options {
    const qn_allocator *allocator;
    const char *folder; /* where everything is kept; made if it is not there */
    const char *model;  /* checkpoint to begin with; may be null once the folder has one */
    const char *inbox;  /* folder with CLASS/FILE */
    const char *old;    /* likewise, of the samples before; null: none. Read once */
    /* What bits depend on holds from the first start; 0: as it is there, or usual. */
    int64_t n_kept, batch, seed;
    int64_t n_fresh;      /* new samples of a round; 0: 16 */
    int64_t memory_bytes; /* of samples and engine; 0: no limit */
    int64_t disk_bytes;   /* of the store; 0: no limit */
    int n_threads;
    const char *when;               /* as qn_policy_parse */
    double day_joules, day_seconds; /* 0: no limit */
    double watts;                   /* what training takes, as no meter says it */
    double power_watts; /* mean that training may take: it rests between steps; 0: no limit */
    const char *root;   /* of the senses, as theirs */
    void *user;
    /* What the device says now; *cool_celsius as qn_senses_read. Null: this device's senses. */
    qn_status (*sense)(void *user, qn_moment *moment, double *cool_celsius);
    /* Every row of the log as it is written; may be null. */
    void (*said)(void *user, int64_t second, const char *text);
    /* Before every step: the user is back, or wants it to end; may be null. */
    bool (*should_stop)(void *user);
} qn_service_options;

typedef struct qn_service qn_service;

qn_status qn_service_open(const qn_service_options *options, qn_service **service);
void qn_service_close(qn_service *service);

/* Reads what the store has, so that FOLDER/model.safetensors is the version in use. */
qn_status qn_service_load(qn_service *service);

/* rest_ns: to wait before the next turn. A failure leaves the store as it was. */
qn_status qn_service_turn(qn_service *service, qn_learn_turn *turn, int64_t *rest_ns);

/* Keeps the round that is under way, so that nothing is done twice; also when it is closed. */
qn_status qn_service_keep(qn_service *service);

qn_shape qn_service_input(const qn_service *service);
const char *qn_service_folder(const qn_service *service);

/* Stores a sample of the user, to be taken in a later turn. */
qn_status qn_service_offer(qn_service *service, const uint8_t *pixels, int32_t label,
                           const char *name);

/* Goes back to the version before, and reads anew. */
qn_status qn_service_undo(qn_service *service);

qn_learning_facts qn_service_get_facts(const qn_service *service);

/* A pause holds until resumed, also over restarts; a service sees it before its next step. */
qn_status qn_service_set_paused(const char *folder, bool is_paused);
bool qn_service_is_paused(const char *folder);

#endif
