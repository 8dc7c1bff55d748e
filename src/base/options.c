/* See options.h. */
#include "base/options.h"

#include "base/status.h"

#include <string.h>

/* Options are far below this: a size beyond it was never set. */
enum { MOST_BYTES = 4096, LEAST_BYTES = 2 * sizeof(size_t) };

static qn_status check_size(size_t size, size_t most, const char *name) {
    if (size >= LEAST_BYTES && size <= most && size % sizeof(size_t) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s has the size %zu, which it never had; begin it with QN_OPTIONS_INIT(%s)",
                   name, size, name);
}

/* What is given of a part that is `bytes` long here. */
static qn_status take_part(const char *given, size_t given_bytes, size_t bytes, const char *name,
                           char *taken) {
    const size_t both = given_bytes < bytes ? given_bytes : bytes;
    memset(taken, 0, bytes);
    memcpy(taken, given, both);
    for (size_t i = both; i < given_bytes; i++) {
        if (given[i])
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "%s asks for what only a newer version of the library can do", name);
    }
    return QN_OK;
}

static size_t size_of(const void *options) {
    size_t size;
    memcpy(&size, options, sizeof size);
    return size;
}

static void set_size(void *options, size_t size) {
    memcpy(options, &size, sizeof size);
}

qn_status qn_options_take(const void *options, size_t bytes, const char *name, void *taken) {
    const size_t size = size_of(options);
    QN_TRY(check_size(size, MOST_BYTES, name));
    QN_TRY(take_part(options, size, bytes, name, taken));
    set_size(taken, bytes);
    return QN_OK;
}

qn_status qn_options_take_nested(const void *options, size_t bytes, size_t inner_bytes,
                                 const char *name, void *taken) {
    const char *from = (const char *)options + sizeof(size_t);
    char *to = (char *)taken + sizeof(size_t);
    const size_t size = size_of(options);
    QN_TRY(check_size(size, MOST_BYTES, name));
    const size_t inner = size_of(from);
    QN_TRY(check_size(inner, size - sizeof(size_t), "the engine's part of it"));
    QN_TRY(take_part(from, inner, inner_bytes, name, to));
    QN_TRY(take_part(from + inner, size - sizeof(size_t) - inner,
                     bytes - sizeof(size_t) - inner_bytes, name, to + inner_bytes));
    set_size(to, inner_bytes);
    set_size(taken, bytes);
    return QN_OK;
}
