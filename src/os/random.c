/* See random.h. */
#include "os/random.h"

#include "base/status.h"

#include <errno.h>
#include <string.h>
#include <sys/random.h>

qn_status qn_random_fill(void *data, size_t bytes) {
    char *at = data;
    while (bytes > 0) {
        const ssize_t n = getrandom(at, bytes, 0);
        if (n < 0 && errno != EINTR)
            return qn_fail(QN_ERROR_IO, "the system gives no random bytes: %s", strerror(errno));
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return QN_OK;
}
