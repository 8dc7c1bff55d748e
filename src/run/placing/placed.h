/* Which nodes of a program run on the device beside the CPU, as it was chosen or given: read once
 * from the text that a checkpoint keeps, so that a run that goes on has the same bits. As a text:
 * "2:h12d30h3": a batch in two pieces (left out: it is whole), of whose graph as built the first 12
 * nodes run on the host, 30 on the device, 3 on the host; or "all": all that the device can. */
#ifndef QN_RUN_PLACING_PLACED_H
#define QN_RUN_PLACING_PLACED_H

#include "base/memory.h"

/* Invariants: lengths[0] >= 0, all others used > 0; n_nodes is their sum. is_given == (is_all or
 * n_runs > 0). */
typedef struct qn_placed {
    bool is_given; /* else all that the device can run is on it, by choice of nobody */
    bool is_all;
    int64_t pieces; /* of the batch; 1: it is whole */
    int32_t n_nodes;
    size_t n_runs, capacity;
    int32_t *lengths; /* (capacity), n_runs used: nodes in turn on the host and on the device */
} qn_placed;

/* QN_ERROR_ARGUMENT: it is no placement. Null: none is given. */
qn_status qn_placed_parse(const qn_allocator *allocator, const char *text, qn_placed *placed);

/* Takes it from a site of each node, 0: the host; pieces 1: the batch is whole. */
qn_status qn_placed_take(const qn_allocator *allocator, const int16_t *site_of, int32_t n_nodes,
                         int64_t pieces, qn_placed *placed);
void qn_placed_deinit(const qn_allocator *allocator, qn_placed *placed);

/* Bytes that the text takes at most, and the text. */
size_t qn_placed_text_bytes(const qn_placed *placed);
void qn_placed_print(const qn_placed *placed, char *to, size_t bytes);

/* 1 where a node runs on the device, else 0. QN_ERROR_ARGUMENT: it is of another number of nodes.
 */
qn_status qn_placed_fill(const qn_placed *placed, int16_t *site_of, int32_t n_nodes);

#endif
