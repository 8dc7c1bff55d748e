/* A candidate sequence: its turns as items, and the memory it needs. The storages are the same that
 * qn_plan_lifetimes gives the graph of the sequence: copies stored inside one another form a group,
 * and a group may take over the storage of another in place.
 *
 * Invariants, once measured:
 *     live_bytes[i] is the sum over the storages s with s.first <= i <= s.last
 *     group_of[c] = c  <=>  copy c is stored in no other */
#ifndef QN_PLAN_BUDGET_TRIAL_H
#define QN_PLAN_BUDGET_TRIAL_H

#include "plan/budget/model.h"
#include "plan/packing/packing.h"

/* What one run of a turn makes of a value. */
typedef struct qn_budget_copy {
    int32_t value;
    int32_t first, last; /* items: that makes it; that reads it last, or the number of items */
    int32_t first_read;  /* item, or the number of items */
    int32_t before;      /* copy of the same value before this one, or -1 */
    int32_t outer;       /* copy that it lies in, or -1 */
    int32_t next_member; /* of its group, or -1 */
    bool may_be_strided;
} qn_budget_copy;

/* Copies that lie in one another; by its outermost copy. */
typedef struct qn_budget_group {
    int32_t first, last; /* items */
    int32_t storage;
    int32_t members; /* first of its copies */
} qn_budget_group;

typedef struct qn_budget_storage {
    int32_t first, last;
    size_t room;
} qn_budget_storage;

typedef struct qn_budget_trial {
    const qn_budget_model *model;
    int32_t n_items, most_items, most_copies, most_reads;
    int32_t *items;  /* (n_items) turns */
    double again_ns; /* of items whose turn ran before */

    bool *is_again; /* (n_items): the item's turn has run before */

    int32_t n_copies, n_storages;
    qn_budget_copy *copies;  /* (n_copies) */
    qn_budget_group *groups; /* (n_copies), of those that lie in no other */
    int32_t *group_of;       /* (n_copies) */
    int32_t *first_copy;     /* (n_items): of its outputs, which are neighbours */
    int32_t *first_read;     /* (n_items + 1): in read_copies */
    int32_t *read_copies;    /* of all items' reads */
    int32_t *latest;         /* (model's n_values): last copy */
    qn_budget_storage *storages;
    int64_t *live_bytes; /* (n_items) */
    size_t peak_bytes;
} qn_budget_trial;

/* Room for sequences of at most most_items; everything lies in the arena. */
qn_status qn_budget_trial_init(qn_arena *arena, const qn_budget_model *model, int32_t most_items,
                               qn_budget_trial *trial);

/* Every turn once. */
void qn_budget_trial_begin(qn_budget_trial *trial);

/* Whether there is room for a sequence. */
bool qn_budget_trial_has_room(const qn_budget_trial *trial, const int32_t *items, int32_t n_items);

/* Takes a sequence, for which there is room, and measures it. */
void qn_budget_trial_set(qn_budget_trial *trial, const int32_t *items, int32_t n_items);

/* Sum over the items of the bytes above a limit. */
double qn_budget_trial_excess(const qn_budget_trial *trial, size_t limit);

/* The storages as boxes (n_storages). */
void qn_budget_trial_boxes(const qn_budget_trial *trial, qn_box *boxes);

/* The items as a sequence of the graph. */
qn_status qn_budget_trial_write(const qn_budget_trial *trial, qn_sequence *sequence);

#endif
