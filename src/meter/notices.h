/* Messages of sources, each once: a fixed number of lines, since they may come from any thread at
 * any time. */
#ifndef QN_METER_NOTICES_H
#define QN_METER_NOTICES_H

#include "os/os.h"

enum { QN_NOTICES_MOST = 64, QN_NOTICE_BYTES = 400 };

/*     n <= QN_NOTICES_MOST; lines[0, n) differ and do not change */
typedef struct qn_notices {
    qn_monitor *monitor;
    const qn_log *log; /* hears each line as it comes; may be null */
    int n;
    char lines[QN_NOTICES_MOST][QN_NOTICE_BYTES];
} qn_notices;

qn_status qn_notices_init(const qn_allocator *allocator, const qn_log *log, qn_notices *said);
void qn_notices_deinit(qn_notices *said);

/* Adds "source: text" if it was not said before; beyond the last line nothing. Thread-safe; a
 * qn_notices is its user. */
void qn_notices_add(void *said, const char *source, const char *text);

/* A line, or null past the end. Thread-safe. */
const char *qn_notices_get(const qn_notices *said, int index);

#endif
