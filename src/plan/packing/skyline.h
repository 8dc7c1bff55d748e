/* A packing that grows from the bottom: the height of every section, how much may still be wasted
 * in it, and which boxes fit into the corners of its valleys. Internal to the packer.
 *
 * A valley is a run of sections with one floor between higher walls. In a packing in which no box
 * can sink further, there are two cases at a valley's left corner. Either the leftmost box on the
 * floor begins somewhere, and the space to its left is wasted up to the lower of wall and box; or
 * nothing lies on the floor, and the valley is wasted up to the lower wall. So the choices at one
 * corner of any valley are complete, and the waste that the capacity allows leaves few of them: for
 * a perfect packing, only boxes that begin in the corner. The same holds from the right. (Placing
 * on the lowest floor, and bounding every section by what is left to place in it, are section
 * inference of Moffitt, "MiniMalloc", ASPLOS 2023; corners of any valley are ours.) */
#ifndef QN_PLAN_PACKING_SKYLINE_H
#define QN_PLAN_PACKING_SKYLINE_H

#include "plan/packing/greedy.h"

/* Sections [begin, end) at a floor; walls at the left and the right, SIZE_MAX: without end. */
typedef struct qn_valley {
    int32_t begin, end;
    size_t floor, walls[2];
} qn_valley;

/* What lies in a corner: a box by its number in the skyline, or QN_NOTHING: the valley is raised.
 */
typedef struct qn_choice {
    int32_t box;
    float worth;
} qn_choice;

enum { QN_NOTHING = -1, QN_NOT_PLACED = -1, QN_LEFT = 0, QN_RIGHT = 1 };

/* What a decision changed: sections [waste_begin, waste_end) wasted some bytes. */
typedef struct qn_placing {
    int32_t box; /* or QN_NOTHING */
    int32_t waste_begin, waste_end;
    size_t floor, waste_bytes;
    size_t n_owned; /* of owned, before it */
} qn_placing;

/* Arrays over sections have a wall before the first and after the last: that of section s is at
 * s + 1. Decisions are numbered from 0.
 *     floors[s + 1] + bytes of boxes that are not placed and alive in s + slack[s] = capacity
 *     unless no such box is: floors[s + 1] = SIZE_MAX */
typedef struct qn_skyline {
    int32_t n, n_sections, n_placed, n_decisions;
    qn_packed_box *boxes; /* (n) by begin, end, and size */
    int32_t *order[2];    /* (n) boxes by begin, and by end */
    int32_t *first[2];    /* (n_sections + 2) first in order[side] at a time or later */
    int32_t *decision_of; /* (n) that placed a box, or QN_NOT_PLACED */
    size_t *floors;       /* (n_sections + 2) */
    int32_t *owners;      /* (n_sections + 2) decision that made the floor; -1: none */
    size_t *slack;        /* (n_sections) that may still be wasted */
    size_t *first_slack;  /* (n_sections) before anything was placed */
    int32_t *n_left;      /* (n_sections) boxes that are not placed */
    qn_placing *placings; /* (most_decisions) */
    int32_t *owned;       /* (most_owned) owners that decisions replaced */
    size_t n_owned, most_owned;
    int32_t most_decisions;
} qn_skyline;

/* Whether a problem is small enough for a skyline's memory. */
bool qn_skyline_is_possible(const qn_packing_problem *problem);

/* An empty one of the problem's boxes; its memory is the arena's. */
qn_status qn_skyline_init(const qn_packing_problem *problem, qn_arena *arena, qn_skyline *skyline);

/* Takes everything back and begins with a capacity that is not below the problem's bound. */
void qn_skyline_reset(qn_skyline *skyline, const qn_packing_problem *problem, size_t capacity);

/* The first valley that begins at a section or later, in which boxes are left. */
bool qn_skyline_find(const qn_skyline *skyline, int32_t section, qn_valley *valley);

/* Whether a box may lie on its valley's floor: not placed, and not one that a symmetry rules out.
 * Of boxes that are alike only the first is tried; of those with one lifetime that lie on each
 * other, the first in the skyline's order is below. */
bool qn_skyline_may_place(const qn_skyline *skyline, int32_t box);

/* Counts what may lie in a corner, up to `most`, and writes it to choices unless that is null. */
int32_t qn_skyline_choices(const qn_skyline *skyline, const qn_valley *valley, int side,
                           int32_t most, qn_choice *choices);

/* The decision that made the floor of a section below what another made; -1: none. */
int32_t qn_skyline_below(const qn_skyline *skyline, int32_t section, int32_t decision);

/* Makes a decision; false: there is no more room for one. And takes the last one back. */
bool qn_skyline_place(qn_skyline *skyline, const qn_valley *valley, int side, int32_t box);
void qn_skyline_take_back(qn_skyline *skyline);

#endif
