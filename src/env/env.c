/* The kinds of environments, and what they share. */
#include "env/env.h"

#include "base/memory.h"
#include "base/status.h"
#include "env/kinds.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

/* One row for each kind; a null pointer ends it. */
static const qn_env_kind *const kinds[] = {&qn_env_cartpole, &qn_env_breakout, &qn_env_process,
                                           NULL};

static const qn_env_kind *find_kind(const char *specification, const char **argument) {
    const size_t length = strcspn(specification, ":");
    *argument = specification[length] ? specification + length + 1 : NULL;
    for (int i = 0; kinds[i]; i++) {
        if (strlen(kinds[i]->name) == length && strncmp(kinds[i]->name, specification, length) == 0)
            return kinds[i];
    }
    return NULL;
}

static qn_status fail_unknown(const char *specification) {
    char names[200] = "";
    for (int i = 0; kinds[i]; i++) {
        const size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s%s%s", i ? ", " : "", kinds[i]->name,
                 kinds[i]->argument ? ":" : "", kinds[i]->argument ? kinds[i]->argument : "");
    }
    return qn_fail(QN_ERROR_ARGUMENT, "no environment is called \"%s\"; there are %s",
                   specification, names);
}

static qn_status open_kind(qn_env *env, const char *argument, const qn_env_options *options) {
    QN_TRY(qn_allocate(env->allocator, 1, env->kind->state_bytes, &env->own_state));
    env->state = env->own_state;
    return env->kind->open ? env->kind->open(env, argument, options) : QN_OK;
}

qn_status qn_env_open(const qn_env_options *options, qn_env **env) {
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    const char *argument;
    const qn_env_kind *kind = find_kind(options->specification, &argument);
    qn_env *e;
    if (!kind || (argument && !kind->argument))
        return fail_unknown(options->specification);
    if (kind->argument && (!argument || !*argument))
        return qn_fail(QN_ERROR_ARGUMENT, "say %s:%s", kind->name, kind->argument);
    QN_TRY(qn_allocate(allocator, 1, sizeof *e, &e));
    *e = (qn_env){.kind = kind, .allocator = allocator, .space = kind->space};
    qn_status status = open_kind(e, argument, options);
    if (status != QN_OK) {
        qn_env_close(e);
        return status;
    }
    *env = e;
    return QN_OK;
}

void qn_env_close(qn_env *env) {
    if (!env)
        return;
    if (env->kind->close)
        env->kind->close(env);
    qn_release(env->allocator, env->own_state, 1, env->kind->state_bytes);
    qn_release(env->allocator, env, 1, sizeof *env);
}

const char *qn_env_name(const qn_env *env) {
    return env->kind->name;
}

qn_env_space qn_env_get_space(const qn_env *env) {
    return env->space;
}

size_t qn_env_observation_bytes(const qn_env *env) {
    return qn_tensor_bytes((qn_tensor){env->space.dtype, env->space.shape});
}

size_t qn_env_state_bytes(const qn_env *env) {
    return env->kind->state_bytes;
}

void qn_env_use_state(qn_env *env, void *state) {
    env->state = state;
}

qn_status qn_env_check_state(const qn_env *env) {
    return env->kind->check_state ? env->kind->check_state(env) : QN_OK;
}

qn_status qn_env_reset(qn_env *env, uint64_t seed, void *observation) {
    return env->kind->reset(env, seed, observation);
}

qn_status qn_env_step(qn_env *env, int action, void *observation, qn_env_outcome *outcome) {
    *outcome = (qn_env_outcome){0};
    if (action < 0 || action >= env->space.n_actions)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: action %d is not one of %d", env->kind->name, action,
                       env->space.n_actions);
    return env->kind->step(env, action, observation, outcome);
}
