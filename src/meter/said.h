/* What sources said, each once: lines of a fixed number, since they may come from any thread at any
 * moment of a run. */
#ifndef QN_METER_SAID_H
#define QN_METER_SAID_H

#include "os/os.h"

enum { QN_SAID_MOST = 64, QN_SAID_BYTES = 400 };

/*     n <= QN_SAID_MOST; lines[0, n) differ and do not change */
typedef struct qn_said {
    qn_monitor *monitor;
    const qn_log *log; /* hears each line as it comes; may be null */
    int n;
    char lines[QN_SAID_MOST][QN_SAID_BYTES];
} qn_said;

qn_status qn_said_init(const qn_allocator *allocator, const qn_log *log, qn_said *said);
void qn_said_deinit(qn_said *said);

/* Adds "source: text" if it was not said before; beyond the last line nothing. Thread-safe; a
 * qn_said is its user. */
void qn_said_add(void *said, const char *source, const char *text);

/* A line, or null past the end. Thread-safe. */
const char *qn_said_get(const qn_said *said, int index);

#endif
