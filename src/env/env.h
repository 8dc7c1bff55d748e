/* Environments of reinforcement learning, observed and acted upon step by step, in episodes.
 * Built-in ones keep their state in one block of plain memory, so that a checkpoint can store it
 * and continue in the middle of an episode. An external one is a process (see docs/environments.md)
 * and cannot be stored. Equal seeds and actions give equal bits in built-in environments. */
#ifndef QN_ENV_ENV_H
#define QN_ENV_ENV_H

#include "quern/graph.h"

/* What an agent sees and can do. */
typedef struct qn_env_space {
    qn_dtype dtype;      /* QN_U8: frames; QN_F32: numbers */
    qn_shape shape;      /* (H, W) of a frame, or (C) */
    int n_actions;       /* actions are 0 to n_actions - 1 */
    int frames_per_step; /* of the game: an action is repeated for so many */
} qn_env_space;

/* What an action led to. Neither: the episode goes on. */
typedef struct qn_env_outcome {
    double reward;
    bool is_terminal; /* what comes after is worth nothing to what came before: lost, or a life lost
                       */
    bool is_over;     /* the episode has ended; reset comes next. Without is_terminal: cut short */
} qn_env_outcome;

typedef struct qn_env qn_env;

typedef struct qn_env_options {
    const qn_allocator *allocator; /* null: the heap */
    const char *specification;     /* "cartpole", "breakout", "process:COMMAND" */
    int64_t timeout_ms;            /* for each answer of a process */
} qn_env_options;

qn_status qn_env_open(const qn_env_options *options, qn_env **env);
void qn_env_close(qn_env *env);

const char *qn_env_name(const qn_env *env); /* "cartpole" */
qn_env_space qn_env_get_space(const qn_env *env);
size_t qn_env_observation_bytes(const qn_env *env);

/* Bytes of the state, 0 where it cannot be kept; and the memory it is to live in from now on: of
 * zeros before the first reset, or what an environment of that name left there. Aligned to 8. */
size_t qn_env_state_bytes(const qn_env *env);
void qn_env_use_state(qn_env *env, void *state);

/* Fails if the state is none that the environment can be in (a file may hold anything). */
qn_status qn_env_check_state(const qn_env *env);

/* Begins an episode; observation: (shape) of dtype. */
qn_status qn_env_reset(qn_env *env, uint64_t seed, void *observation);

/* Acts. After the outcome is_over, only reset may follow. */
qn_status qn_env_step(qn_env *env, int action, void *observation, qn_env_outcome *outcome);

#endif
