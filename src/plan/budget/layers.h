/* Layers that run again: the forward part of a step is cut where a single value leads from one side
 * to the other, some of these values are kept, and between two of them everything that gradients
 * read is made again, once, right before they do (Chen et al. 2016, "Training Deep Nets with
 * Sublinear Memory Cost"). Layers at the end are cut finely, those at the beginning less so, since
 * what is kept of later ones is free by then. Proposes sequences; which one is worth it is seen by
 * measuring them. */
#ifndef QN_PLAN_BUDGET_LAYERS_H
#define QN_PLAN_BUDGET_LAYERS_H

#include "plan/budget/model.h"

/* Sequences that are proposed; the least number of pieces for which any is. */
enum { QN_LAYERS_PROPOSALS = 40, QN_LAYERS_PIECES = 3 };

/* Piece j is the turns [pieces[j].begin, pieces[j + 1].begin). */
typedef struct qn_layers_piece {
    int32_t begin;
    int32_t value;    /* that leads to it; -1: of the first, none */
    size_t kept;      /* bytes of that value */
    size_t inside;    /* of the values that gradients read, without the one that leads on */
    size_t gradients; /* that are made of the piece and live on behind all of its like */
    double again_ns;  /* that making what gradients read again takes */
    double on_ns;     /* and the value that leads on, more */
} qn_layers_piece;

typedef struct qn_budget_layers {
    const qn_budget_model *model;
    int32_t n_forward;       /* turns before the first gradient */
    int32_t n_pieces;        /* below QN_LAYERS_PIECES nothing can be proposed */
    qn_layers_piece *pieces; /* (n_pieces + 1), the last begins at n_forward */
    size_t least, most;      /* bytes between which proposals lie */
    bool *is_kept;           /* (n_pieces): a proposal keeps the value that leads to it */
    int32_t *piece_of;       /* (n_turns) of the forward part */
    int32_t *last_read;      /* (n_turns): the last gradient that reads what it makes; or -1 */
    bool *is_marked;         /* (n_turns) scratch */
    bool *is_remade;         /* (n_turns) in a proposal */
    double *cost;            /* (n_pieces + 1, n_pieces + 1): by first piece and pieces kept */
    size_t *held;            /* likewise */
    int32_t *from;           /* likewise */
} qn_budget_layers;

/* Everything lies in the arena. */
qn_status qn_budget_layers_init(qn_arena *arena, const qn_budget_model *model,
                                qn_budget_layers *layers);

/* Proposal 0 takes most memory, the last least. items has room for 2 * n_turns; false: it asks for
 * less than is possible. */
bool qn_budget_layers_propose(qn_budget_layers *layers, int number, int32_t *items,
                              int32_t *n_items);

#endif
