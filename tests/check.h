/* What every unit test uses: checks that count and go on, and the closing line. */
#ifndef QN_TESTS_CHECK_H
#define QN_TESTS_CHECK_H

#include "quern/base.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static int checks_done, checks_failed;

/* One check: says where and what when it does not hold, and goes on. */
#define CHECK(condition)                                                                           \
    do {                                                                                           \
        checks_done++;                                                                             \
        if (!(condition)) {                                                                        \
            checks_failed++;                                                                       \
            printf("%s:%d: %s does not hold\n", __FILE__, __LINE__, #condition);                   \
        }                                                                                          \
    } while (0)

/* A call that must succeed; prints the library's message when it does not. */
#define CHECK_OK(call)                                                                             \
    do {                                                                                           \
        checks_done++;                                                                             \
        if ((call) != QN_OK) {                                                                     \
            checks_failed++;                                                                       \
            printf("%s:%d: %s: %s\n", __FILE__, __LINE__, #call, qn_error_message());              \
        }                                                                                          \
    } while (0)

/* A call that must fail with a status, and whose message contains text. */
#define CHECK_FAILS(call, status, text)                                                            \
    do {                                                                                           \
        checks_done++;                                                                             \
        if ((call) != (status) || !strstr(qn_error_message(), text)) {                             \
            checks_failed++;                                                                       \
            printf("%s:%d: %s: wanted %s with \"%s\", got: %s\n", __FILE__, __LINE__, #call,       \
                   qn_status_text(status), text, qn_error_message());                              \
        }                                                                                          \
    } while (0)

/* The end of main: prints the count; the exit status. */
static inline int checks_finish(void) {
    printf("%d checks, %d failed\n", checks_done, checks_failed);
    return checks_failed != 0;
}

#endif
