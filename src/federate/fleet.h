/* The devices of a federation's clients: of which kind each is, how long it takes to train and to
 * send, what energy that costs, and when it may take part. Time is of a simulated clock, in seconds
 * since its first midnight. The same options give the same fleet, whatever it is asked and when. */
#ifndef QN_FEDERATE_FLEET_H
#define QN_FEDERATE_FLEET_H

#include "learn/replay.h"

typedef struct qn_fleet_options {
    const qn_allocator *allocator;
    const char *kinds; /* "NAME[:WEIGHT],..." of the devices that learn/replay.h knows */
    const char *when;  /* rules of learn/policy.h that must hold while a client takes part; null:
                          always */
    double down_mbit, up_mbit; /* of each client's network, in a second */
    double radio_watts;        /* of a client while it receives or sends */
    int64_t n_clients;
    uint64_t seed;
} qn_fleet_options;

/* What a round asks of a client. */
typedef struct qn_fleet_work {
    double flops;
    int64_t bytes_down, bytes_up, memory_bytes;
} qn_fleet_work;

/* What became of it. */
typedef struct qn_fleet_turn {
    bool is_done;           /* before its device was wanted elsewhere, and before the deadline */
    double seconds, joules; /* until then, or until it was done */
} qn_fleet_turn;

typedef struct qn_fleet qn_fleet;

/* QN_ERROR_ARGUMENT: a kind, weight or rule that is none. */
qn_status qn_fleet_create(const qn_fleet_options *options, qn_fleet **fleet);
void qn_fleet_destroy(qn_fleet *fleet);

const qn_learn_device *qn_fleet_device(const qn_fleet *fleet, int64_t client);

/* The first moment from second on at which so many clients may begin together. QN_ERROR_ARGUMENT:
 * there is none within a week. */
qn_status qn_fleet_wait(qn_fleet *fleet, int64_t n_clients, double second, double *found);

/* Whether a client may begin now. Seconds of one fleet do not go back. */
qn_status qn_fleet_is_free(qn_fleet *fleet, int64_t client, double second, bool *is_free);

/* A client takes part from second on, for at most so many seconds (deadline; infinity: no limit).
 * QN_ERROR_MEMORY: its kind has less memory than the work needs. */
qn_status qn_fleet_take_part(qn_fleet *fleet, int64_t client, double second,
                             const qn_fleet_work *work, double deadline, qn_fleet_turn *turn);

#endif
