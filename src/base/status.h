/* Making and passing on failures. The text of a failure says what happened, where, and what to do;
 * it is kept per thread and travels with the status that the function returns. */
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

/* Returns from the calling function if an expression is not QN_OK. */
#define QN_TRY(expression)                                                                         \
    do {                                                                                           \
        qn_status qn_try_status = (expression);                                                    \
        if (qn_try_status != QN_OK)                                                                \
            return qn_try_status;                                                                  \
    } while (0)

#endif
