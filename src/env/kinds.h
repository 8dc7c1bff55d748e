/* Kinds of environments: each a file and a row in env.c. */
#ifndef QN_ENV_KINDS_H
#define QN_ENV_KINDS_H

#include "env/env.h"

typedef struct qn_env_kind {
    const char *name;
    const char *argument; /* what follows the colon; null: nothing */
    qn_env_space space;   /* of those that know it before they are opened */
    size_t state_bytes;   /* of plain memory, zeros at first; 0: it cannot be kept */
    /* Opens with the text after the colon; fills env->space. May be null, as may close. */
    qn_status (*open)(qn_env *env, const char *argument, const qn_env_options *options);
    void (*close)(qn_env *env);
    qn_status (*check_state)(const qn_env *env); /* null where nothing is kept */
    qn_status (*reset)(qn_env *env, uint64_t seed, void *observation);
    qn_status (*step)(qn_env *env, int action, void *observation, qn_env_outcome *outcome);
} qn_env_kind;

struct qn_env {
    const qn_env_kind *kind;
    const qn_allocator *allocator; /* never null */
    qn_env_space space;
    void *state;     /* (kind->state_bytes): the one in use */
    void *own_state; /* (kind->state_bytes): until another is given */
    void *self;      /* the kind's own */
};

extern const qn_env_kind qn_env_cartpole, qn_env_breakout, qn_env_process;

#endif
