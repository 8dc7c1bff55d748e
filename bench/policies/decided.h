/* Steps in which it was decided beforehand for each feature map whether it is kept, dropped and
 * made again, or swapped between its last forward and its first backward reader: what Capuchin and
 * vDNN have in common. */
#ifndef QN_BENCH_DECIDED_H
#define QN_BENCH_DECIDED_H

#include "replay.h"

typedef enum qn_fate { QN_KEEP = 0, QN_DROP, QN_SWAP } qn_fate;

typedef struct qn_decided {
    qn_facts *facts;
    uint8_t *fate;      /* (n_values): qn_fate */
    int32_t *from, *to; /* (n_values): turns of the last forward and the first backward reader; -1:
                           it has none of those, and is kept */
    int32_t *load_at;   /* (n_values): turn before which loading begins */
    bool stores_early;  /* storing begins before the turn `from`, and ends with it */
} qn_decided;

qn_status qn_decided_init(qn_decided *decided, qn_facts *facts);

/* Writes the sequence. What was made again early is dropped again where the limit is in danger. */
qn_status qn_decided_run(qn_decided *decided, qn_sequence *to);

#endif
