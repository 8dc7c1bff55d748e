/* An external environment: a process that speaks the protocol of docs/environments.md over its
 * standard input and output. Invalid answers, a process that ends and one that does not answer are
 * reported as failures; everything it sends is checked before use. Its state cannot be stored: a
 * resumed run begins a new episode. */
#include "base/memory.h"
#include "base/status.h"
#include "env/kinds.h"
#include "env/protocol.h"
#include "os/os.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { BUFFER = 64 * 1024 };

/* What has been read and not yet used: buffer[begin, end). */
typedef struct outside {
    qn_process *process;
    int64_t timeout_ns;
    size_t begin, end;
    char buffer[BUFFER];
} outside;

/* ---- reading ---- */

static qn_status read_more(outside *o) {
    size_t n;
    o->begin = o->end = 0;
    QN_TRY(qn_process_read(o->process, o->buffer, sizeof o->buffer, o->timeout_ns, &n));
    o->end = n;
    return QN_OK;
}

/* A line without its end; what cannot be printed becomes a question mark, since it may end up in a
 * message. */
static qn_status read_line(outside *o, char line[QN_ENV_LINE]) {
    for (int length = 0; length < QN_ENV_LINE; length++) {
        if (o->begin == o->end)
            QN_TRY(read_more(o));
        const char c = o->buffer[o->begin++];
        line[length] = c >= ' ' && c <= '~' ? c : '?';
        if (c == '\n') {
            line[length] = 0;
            return QN_OK;
        }
    }
    line[QN_ENV_LINE - 1] = 0;
    return qn_fail(QN_ERROR_FORMAT, "a line of more than %d characters, \"%.40s...\"",
                   QN_ENV_LINE - 1, line);
}

static qn_status read_bytes(outside *o, char *to, size_t bytes) {
    while (bytes > 0) {
        if (o->begin == o->end)
            QN_TRY(read_more(o));
        const size_t ready = o->end - o->begin, n = ready < bytes ? ready : bytes;
        memcpy(to, o->buffer + o->begin, n);
        o->begin += n;
        to += n;
        bytes -= n;
    }
    return QN_OK;
}

static qn_status read_observation(qn_env *env, void *observation) {
    outside *o = env->self;
    const float *numbers = observation;
    QN_TRY(read_bytes(o, observation, qn_env_observation_bytes(env)));
    for (int64_t i = 0; env->space.dtype == QN_F32 && i < env->space.shape.dims[0]; i++) {
        if (!isfinite(numbers[i]))
            return qn_fail(QN_ERROR_FORMAT, "number %lld of the observation is not finite",
                           (long long)i);
    }
    if (o->begin != o->end)
        return qn_fail(QN_ERROR_FORMAT, "it sent %zu bytes more than its observation has",
                       o->end - o->begin);
    return QN_OK;
}

/* ---- asking ---- */

static qn_status ask(qn_env *env, const char *request, void *observation, qn_env_outcome *outcome) {
    outside *o = env->self;
    char line[QN_ENV_LINE];
    QN_TRY(qn_process_write(o->process, request, strlen(request), o->timeout_ns));
    QN_TRY(read_line(o, line));
    QN_TRY(qn_env_parse_reply(line, outcome));
    return read_observation(env, observation);
}

/* The request without its newline names the place in a message. */
static qn_status fail_asking(qn_status status, const char *request) {
    if (status == QN_OK)
        return QN_OK;
    return qn_fail_within(status, "environment, asked \"%.*s\"", (int)strcspn(request, "\n"),
                          request);
}

static qn_status process_reset(qn_env *env, uint64_t seed, void *observation) {
    char request[40];
    qn_env_outcome outcome = {0};
    snprintf(request, sizeof request, "reset %llu\n", (unsigned long long)(seed >> 1));
    qn_status status = ask(env, request, observation, &outcome);
    if (status == QN_OK && (outcome.is_over || outcome.is_terminal))
        status = qn_fail(QN_ERROR_FORMAT, "an episode cannot end as it begins");
    return fail_asking(status, request);
}

static qn_status process_step(qn_env *env, int action, void *observation, qn_env_outcome *outcome) {
    char request[40];
    snprintf(request, sizeof request, "step %d\n", action);
    return fail_asking(ask(env, request, observation, outcome), request);
}

/* ---- opening ---- */

static qn_status greet(qn_env *env) {
    char line[QN_ENV_LINE];
    QN_TRY(read_line(env->self, line));
    return qn_env_parse_hello(line, &env->space);
}

static qn_status process_open(qn_env *env, const char *argument, const qn_env_options *options) {
    outside *o;
    QN_TRY(qn_allocate(env->allocator, 1, sizeof *o, &o));
    env->self = o;
    o->timeout_ns = options->timeout_ms * 1000000;
    QN_TRY(qn_process_start(env->allocator, argument, &o->process));
    qn_status status = greet(env);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "environment \"%.100s\"", argument);
}

static void process_close(qn_env *env) {
    outside *o = env->self;
    if (!o)
        return;
    qn_process_close(o->process);
    qn_release(env->allocator, o, 1, sizeof *o);
}

const qn_env_kind qn_env_process = {
    .name = "process",
    .argument = "COMMAND",
    .open = process_open,
    .close = process_close,
    .reset = process_reset,
    .step = process_step,
};
