/* The parameters and optimiser state, by name, that all plans of a trainer share. */
#ifndef QN_RUN_STORE_H
#define QN_RUN_STORE_H

#include "graph/graph.h"
#include "os/team.h"
#include "quern/engine.h"

/* Memory that the tensors of a graph share: most are smaller than a huge page. */
typedef struct qn_store_block {
    void *memory;
    size_t bytes;
} qn_store_block;

/* Invariant: names are unique; bytes = sum of the tensors' bytes; block_bytes = sum of the same,
 * each rounded up to QN_ALIGNMENT = sum of the blocks' bytes. */
typedef struct qn_store {
    const qn_allocator *allocator, *data_allocator; /* the latter: of the blocks */
    qn_team *team; /* draws starting values; null: the calling thread */
    int n_tensors, n_blocks;
    size_t capacity, block_capacity, bytes, block_bytes;
    qn_store_block *blocks;    /* (n_blocks) */
    bool plan_only;            /* tensors and blocks get no memory */
    bool no_random_values;     /* what would start at random starts at zero */
    qn_stored_tensor *tensors; /* in the order in which the graphs declare them */
} qn_store;

void qn_store_init(qn_store *store, const qn_allocator *allocator);
void qn_store_deinit(qn_store *store);

/* Takes up every value of the graph that is given from outside, of a kind in the bit mask, not lent
 * (qn_graph_lend), and not there yet, with its starting value drawn by (seed, name, element). */
qn_status qn_store_add_graph(qn_store *store, const qn_graph *graph, uint32_t kinds, uint64_t seed);

/* Adds a tensor of zeros, which is state; *data is null where there is no memory for tensors. */
qn_status qn_store_add(qn_store *store, const char *name, qn_dtype dtype, qn_shape shape,
                       void **data);

/* A tensor by name, or null. */
const qn_stored_tensor *qn_store_find(const qn_store *store, const char *name);

#endif
