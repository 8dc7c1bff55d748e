/* Goes through a step turn by turn as a policy would run it, and writes down the sequence: what is
 * missing is made again or loaded, what has no reader left is dropped, and the policy is asked to
 * make room and told what happens. Bytes are those of values, one by one. */
#ifndef QN_BENCH_REPLAY_H
#define QN_BENCH_REPLAY_H

#include "facts.h"

typedef enum qn_residence {
    QN_AWAY = 0,
    QN_HERE,
    QN_STORING, /* here, and being written */
    QN_STORED,  /* in the swap file alone */
    QN_LOADING, /* takes memory, but cannot be read yet */
} qn_residence;

typedef struct bench_replay bench_replay;

/* What a policy does; each may be null. */
typedef struct bench_replay_hooks {
    void *user;
    /* Before a node that needs so many more bytes runs. */
    qn_status (*before)(void *user, bench_replay *replay, int32_t node, size_t bytes);
    /* Before the node of a turn and what it needs; behind it. */
    qn_status (*turn)(void *user, bench_replay *replay);
    qn_status (*behind)(void *user, bench_replay *replay);
    /* A node of the set that is to run again was chosen; bench_replay_want chooses further ones. */
    void (*wanted)(void *user, bench_replay *replay, int32_t node);
    /* A value has come to be here (again: it was evicted before), or is no more. */
    qn_status (*came)(void *user, bench_replay *replay, int32_t value, bool again);
    void (*went)(void *user, bench_replay *replay, int32_t value, bool evicted);
} bench_replay_hooks;

struct bench_replay {
    const qn_facts *facts;
    const bench_replay_hooks *hooks;
    qn_sequence *to;
    int32_t turn;
    int n_again; /* nodes of the set in hand that have run */
    size_t live_bytes, most_bytes;
    double clock_ns;    /* of all nodes that have run */
    uint8_t *residence; /* (n_values): qn_residence */
    int32_t *locks;     /* (n_values): above 0 it must stay */
    double *read_ns;    /* (n_values): clock of the last access */
    int32_t *listed;    /* values that take memory, in no order */
    int32_t *place;     /* (n_values): in listed, or -1 */
    int32_t n_listed;
    bool *is_wanted;     /* (n_nodes): of the set in hand */
    int32_t *set, n_set; /* (n_nodes) */
};

qn_status bench_replay_init(bench_replay *replay, const qn_facts *facts,
                            const bench_replay_hooks *hooks, qn_sequence *to);

/* Items beyond which a replay gives up with QN_ERROR_UNSUPPORTED. */
size_t bench_replay_most_items(const qn_facts *facts);

/* All turns. */
qn_status bench_replay_run(bench_replay *replay);

/* ---- for hooks ---- */

/* Whether a value can be evicted now. */
bool bench_replay_may_evict(const bench_replay *replay, int32_t value);
void bench_replay_evict(bench_replay *replay, int32_t value);

/* Adds a node to the set that is to run again, with all that it misses. */
void bench_replay_want(bench_replay *replay, int32_t node);

/* Begins to write a value that is here; ends it, so that its memory is free; begins to load one. */
qn_status bench_replay_store(bench_replay *replay, int32_t value);
qn_status bench_replay_stored(bench_replay *replay, int32_t value);
qn_status bench_replay_load(bench_replay *replay, int32_t value);

#endif
