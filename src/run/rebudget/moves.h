/* Moves pieces of one memory to other places in it, where old and new places may overlap in any
 * way. First an order is computed, as data, in which nothing is overwritten before it was read;
 * then it runs. Cycles are broken through bytes that are unused at that time, so no additional
 * memory is needed. Knows nothing of graphs and plans. */
#ifndef QN_RUN_REBUDGET_MOVES_H
#define QN_RUN_REBUDGET_MOVES_H

#include "base/memory.h"

/* `rows` pieces of `row` bytes, begins step bytes apart: step >= row. Places are in bytes from the
 * memory's begin. */
typedef struct qn_rows_at {
    size_t offset, step;
} qn_rows_at;

typedef struct qn_move {
    qn_rows_at from, to;
    size_t rows, row;
} qn_move;

typedef struct qn_moves {
    const qn_allocator *allocator;
    size_t n, capacity;
    qn_move *items;  /* (n), one after the other */
    size_t bytes;    /* that they copy in all */
    size_t n_parked; /* of them are to a place that is not the last */
} qn_moves;

/* Adds moves that bring all of what is wanted to its place, using bytes below limit_bytes alone.
 * wanted (n): places that are moved to share no byte; those that are moved from may. What is
 * nowhere moved from is free. Its order is changed. QN_ERROR_UNSUPPORTED: there is too little free
 * room. */
qn_status qn_moves_find(const qn_allocator *allocator, qn_move *wanted, size_t n,
                        size_t limit_bytes, qn_moves *found);

void qn_moves_run(const qn_moves *moves, void *memory);
void qn_moves_deinit(qn_moves *moves);

/* Bytes from the first row's begin to the last one's end. */
size_t qn_move_extent(const qn_move *move, const qn_rows_at *at);

#endif
