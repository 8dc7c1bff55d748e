/* See notices.h. */
#include "meter/notices.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

qn_status qn_notices_init(const qn_allocator *allocator, const qn_log *log, qn_notices *said) {
    said->log = log;
    said->n = 0;
    return qn_monitor_create(allocator, &said->monitor);
}

void qn_notices_deinit(qn_notices *said) {
    qn_monitor_destroy(said->monitor);
    said->monitor = NULL;
}

static bool is_known(const qn_notices *said, const char *line) {
    for (int i = 0; i < said->n; i++)
        if (strcmp(said->lines[i], line) == 0)
            return true;
    return false;
}

/* The line that was added, or null. */
static const char *add_line(qn_notices *said, const char *line) {
    if (said->n == QN_NOTICES_MOST || is_known(said, line))
        return NULL;
    char *to = said->lines[said->n];
    memcpy(to, line, QN_NOTICE_BYTES);
    __atomic_store_n(&said->n, said->n + 1, __ATOMIC_RELEASE);
    return to;
}

void qn_notices_add(void *user, const char *source, const char *text) {
    qn_notices *said = user;
    char line[QN_NOTICE_BYTES] = "";
    snprintf(line, sizeof line, "%s: %s", source, text);
    qn_monitor_lock(said->monitor);
    const char *added = add_line(said, line);
    qn_monitor_unlock(said->monitor);
    if (added && said->log && said->log->write)
        said->log->write(said->log->user, 0, added);
}

const char *qn_notices_get(const qn_notices *said, int index) {
    const int n = __atomic_load_n(&said->n, __ATOMIC_ACQUIRE);
    return index >= 0 && index < n ? said->lines[index] : NULL;
}
