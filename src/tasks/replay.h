/* Replay memory: a ring of observations and actions. Each observation is stored once; the stacks of
 * frames that a network sees, and the sums of rewards over several actions, are assembled when they
 * are drawn. Memory and position belong to the caller, who stores them in checkpoints. */
#ifndef QN_TASKS_REPLAY_H
#define QN_TASKS_REPLAY_H

#include "quern/graph.h"

/* Slots are counted from the oldest. */
typedef struct qn_replay_place {
    int64_t next; /* slot of the ring to be written, 0 to capacity - 1 */
    int64_t n;    /* slots in use, 0 to capacity */
} qn_replay_place;

typedef struct qn_replay {
    int64_t capacity; /* at least depth + 2 */
    size_t n_values;  /* of an observation */
    qn_dtype dtype;   /* of them: QN_U8, taken as 0 to 1, or QN_F32 */
    int depth;        /* observations in a stack, the newest last */
    double discount;  /* of the reward of each later action */
    int n_steps;      /* rewards that are added up, at least 1 */
    uint8_t *memory;  /* (capacity, qn_replay_slot_bytes) */
    qn_replay_place *place;
} qn_replay;

/* Bytes of a slot for observations of so many bytes. */
size_t qn_replay_slot_bytes(size_t observation_bytes);

/* Fails if place or marks are none that this memory can have, with so many actions. */
qn_status qn_replay_check(const qn_replay *replay, int n_actions);

/* An episode begins with an observation. */
void qn_replay_begin(qn_replay *replay, const void *observation);

/* What was done in the newest observation, and what came of it. next: the observation after it;
 * null where the episode is over and what would come next is worth nothing. */
void qn_replay_add(qn_replay *replay, int action, double reward, bool is_terminal,
                   const void *next);

/* The newest stack as reals: (n_values, depth), the newest last. */
void qn_replay_newest(const qn_replay *replay, float *state);

/* What is learned from. */
typedef struct qn_replay_sample {
    int32_t action;
    float reward;   /* of n_steps actions at most, discounted */
    float discount; /* of the value of the state after them; 0: it is worth nothing */
} qn_replay_sample;

/* Whether there is something to draw. */
bool qn_replay_is_ready(const qn_replay *replay);

/* Draws number `index` of a stream: state and next are (n_values, depth); next may be null. */
qn_replay_sample qn_replay_draw(const qn_replay *replay, uint64_t seed, uint64_t update,
                                uint64_t index, float *state, float *next);

#endif
