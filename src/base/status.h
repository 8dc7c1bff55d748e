/* Creating and propagating failures. The text of a failure says what happened, where, and what to
 * do. It is kept per thread and belongs to the status that the function returns. */
#ifndef QN_BASE_STATUS_H
#define QN_BASE_STATUS_H

#include "quern/base.h"

/* Sets this thread's message and returns status, so that a check is one line:
 *     return qn_fail(QN_ERROR_FORMAT, "%s: header too short", path); */
qn_status qn_fail(qn_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Puts text before this thread's message: the caller's view of where. Returns status. */
qn_status qn_fail_within(qn_status status, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The failure of an allocation of so many bytes. */
qn_status qn_fail_memory(size_t bytes);

/* At the top of a public function: what it must be given. Returns where that is null; of a function
 * that returns no status, with something else, and the message is set all the same. */
#define QN_NEED(pointer, name) QN_NEED_OR(pointer, name, QN_ERROR_ARGUMENT)
#define QN_NEED_OR(pointer, name, otherwise)                                                       \
    do {                                                                                           \
        if (!(pointer)) {                                                                          \
            qn_fail_null(__func__, name);                                                          \
            return otherwise;                                                                      \
        }                                                                                          \
    } while (0)

/* Likewise: something that must hold of what it is given, as an index in its range. */
#define QN_DEMAND(condition) QN_DEMAND_OR(condition, QN_ERROR_ARGUMENT)
#define QN_DEMAND_OR(condition, otherwise)                                                         \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            qn_fail(QN_ERROR_ARGUMENT, "%s: %s does not hold", __func__, #condition);              \
            return otherwise;                                                                      \
        }                                                                                          \
    } while (0)

/* The failure of a function that was given null. */
void qn_fail_null(const char *function, const char *name);

/* Returns from the calling function if an expression is not QN_OK. */
#define QN_TRY(expression)                                                                         \
    do {                                                                                           \
        qn_status qn_try_status = (expression);                                                    \
        if (qn_try_status != QN_OK)                                                                \
            return qn_try_status;                                                                  \
    } while (0)

#endif
