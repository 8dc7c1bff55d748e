/* Searches for the cheapest sequence whose live bytes stay below a target. A move evicts some
 * values over a stretch in which nothing reads them, and recomputes them before the next reader. */
#ifndef QN_PLAN_BUDGET_SEARCH_H
#define QN_PLAN_BUDGET_SEARCH_H

#include "base/rng.h"
#include "plan/budget/trial.h"

/* Lets the copies of a group go between two of their uses. */
typedef struct qn_budget_move {
    int32_t group, after, before; /* items: the uses */
    int8_t policy;                /* what of the inputs is kept longer, what is made again */
    bool merges;                  /* later repetitions of what is made again are left out */
    bool is_free;                 /* it seems to lose no time */
    double factor;                /* of its scores: chance */
    double score;                 /* bytes times items below the target, by ns lost */
} qn_budget_move;

typedef struct qn_budget_search {
    const qn_budget_model *model;
    size_t target_bytes;
    double most_ns; /* that may be lost to what runs again; INFINITY: any */
    double noise;   /* of scores: 0: none */
    double price;   /* ns that a byte over one item is worth, by the last move */
    qn_rng rng;
    uint64_t n_drawn;
    int64_t work, most_work;   /* items measured */
    int64_t n_looks;           /* turns looked at to find moves */
    qn_budget_trial now, next; /* the sequence at hand, and one that is tried */
    int32_t *item_of;          /* (n_turns): a turn's first item in now */
    int32_t *n_over;           /* (items + 1): items above the target in front */
    int32_t *marks;            /* (n_turns): number of the move that makes it again */
    int32_t mark;
    int32_t *again; /* (n_again) turns that a move makes again */
    int32_t n_again;
    int32_t *last_use; /* (copies): of a group while candidates are found */
    int32_t *items;    /* a sequence in the making */
    bool *is_left_out; /* (most_items) of now by a move; false between moves */
    size_t n_moves, move_capacity;
    qn_budget_move *moves;
    const qn_allocator *allocator;
} qn_budget_search;

qn_status qn_budget_search_init(qn_arena *arena, const qn_allocator *allocator,
                                const qn_budget_model *model, qn_budget_search *search);
void qn_budget_search_deinit(qn_budget_search *search);

/* As it was at the beginning, but for the sequence at hand and the counts of work: what is found
 * from there on, and the memory that it takes, do not depend on what was looked for before. */
void qn_budget_search_restart(qn_budget_search *search);

/* Moves until the target holds (*holds) or no move that may be paid for brings it nearer. */
qn_status qn_budget_search_descend(qn_budget_search *search, bool *holds);

/* Leaves out what need not run again for the target to hold, the dearest first, and runs whose
 * results nothing reads. */
void qn_budget_search_prune(qn_budget_search *search);

/* Leaves out some repetitions at random, neighbours in time or any, and descends to the target
 * again in another way; *holds as above. */
qn_status qn_budget_search_vary(qn_budget_search *search, bool *holds);

#endif
