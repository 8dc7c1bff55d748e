/* Searches for a packing within a capacity, by corners of the skyline (skyline.h).
 *
 * - Of all corners, the one with the fewest choices comes next; choices are divided by how often
 * the corner was found without any (Boussemart et al., "Boosting systematic search by weighting
 * constraints", ECAI 2004). Where space is tight, mistakes show early. - A corner without choices
 * is explained by the decisions that created it, its walls, its floor, and the boxes that would fit
 * but are elsewhere. The search jumps back to the last of them and skips unrelated decisions
 * (Prosser, "Hybrid algorithms for the constraint satisfaction problem", 1993: conflict-directed
 * backjumping). This has the effect of decomposition at cut lines wherever the packing falls apart.
 * - Runs are short and restart, with lengths by Luby et al. ("Optimal speedup of Las Vegas
 * algorithms", 1993) and a different order of nearly equal choices.
 *
 * - Some runs use a problem whose boxes have been joined (join.h), which may have few boxes.
 *
 * A run that ends without restart proves that no packing fits the capacity. */
#include "plan/packing/search.h"

#include "base/status.h"
#include "os/os.h"
#include "plan/packing/fill.h"
#include "plan/packing/join.h"
#include "plan/packing/skyline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RUN_WORK = 2000, CLOCK_WORK = 256, CHOICES_PER_BOX = 48 };

/* Part of time and bytes that may be left over where a problem is filled. */
#define MOST_FILLED 0.2

typedef enum result {
    FOUND,      /* the skyline is a packing within the capacity */
    IMPOSSIBLE, /* proven: there is none */
    OPEN,
} result;

/* A decision's alternatives: choices[next .. end) are still to be tried. */
typedef struct frame {
    qn_valley valley;
    int side;
    int32_t begin, next, end;
} frame;

typedef struct search {
    qn_packing_problem *problem;
    const qn_packing_problem *packed; /* that problem, or that filled */
    qn_skyline skyline;
    frame *frames;       /* (most_decisions) */
    uint64_t *conflicts; /* (most_decisions + 1, n_words) sets of decisions, one for each frame */
    int32_t n_words;
    qn_choice *choices; /* (most_choices) of all frames */
    int32_t n_choices, most_choices;
    double *weights[2]; /* (n_sections + 1) of corners at a time, by side */
    uint64_t random;
    bool is_pruned; /* some choice was left out: nothing is proven */
} search;

/* ---- sets of decisions ---- */

static uint64_t *conflict_of(const search *s, int32_t decision) {
    return &s->conflicts[(size_t)decision * (size_t)s->n_words];
}

static void add(uint64_t *set, int32_t decision) {
    if (decision >= 0)
        set[decision / 64] |= UINT64_C(1) << (decision % 64);
}

/* The last of a set, or -1. */
static int32_t last_of(const uint64_t *set, int32_t n_words) {
    for (int32_t i = n_words - 1; i >= 0; i--) {
        if (set[i])
            return i * 64 + 63 - __builtin_clzll(set[i]);
    }
    return -1;
}

/* ---- where next ---- */

/* The corner with the fewest choices for its weight. Returns their number: 0, a dead end; 1,
 * forced. */
static int32_t choose_corner(const search *s, qn_valley *best, int *best_side) {
    const qn_skyline *skyline = &s->skyline;
    double least = INFINITY;
    int32_t best_count = -1;
    qn_valley v;
    for (int32_t from = 0; qn_skyline_find(skyline, from, &v); from = v.end) {
        for (int side = 0; side < 2; side++) {
            const double weight = s->weights[side][side == QN_LEFT ? v.begin : v.end];
            const double enough = least * weight;
            const int32_t most = enough < 1e6 ? (int32_t)enough + 2 : INT32_MAX;
            const int32_t count = qn_skyline_choices(skyline, &v, side, most, NULL);
            const double score = count <= 1 ? count * 1e-9 : count / weight;
            if (score > least || (score == least && v.floor >= best->floor))
                continue;
            least = score;
            best_count = count;
            *best = v;
            *best_side = side;
            if (count == 0)
                return 0;
        }
    }
    return best_count;
}

/* ---- why not more ---- */

/* Adds who made the wall beside a valley: what lies there at the height of the floor, or, where the
 * wall's height counts, all from there to its top. */
static void explain_wall(const search *s, const qn_valley *v, int side, bool counts,
                         uint64_t *set) {
    const qn_skyline *skyline = &s->skyline;
    const int32_t section = side == QN_LEFT ? v->begin - 1 : v->end;
    if (section < 0 || section == skyline->n_sections)
        return;
    int32_t owner = skyline->owners[section + 1];
    for (; owner >= 0 && skyline->placings[owner].floor > v->floor;
         owner = qn_skyline_below(skyline, section, owner)) {
        if (counts)
            add(set, owner);
    }
    add(set, owner);
}

/* Adds who placed the boxes that begin (end, from the right) at a time. Returns whether one that is
 * not placed is kept out by the valley's other wall. */
static bool explain_boxes(const search *s, const qn_valley *v, int side, int32_t time,
                          uint64_t *set) {
    const qn_skyline *skyline = &s->skyline;
    bool is_kept_out = false;
    for (int32_t j = skyline->first[side][time]; j < skyline->first[side][time + 1]; j++) {
        const int32_t i = skyline->order[side][j];
        add(set, skyline->decision_of[i]);
        is_kept_out |= skyline->decision_of[i] == QN_NOT_PLACED &&
                       (skyline->boxes[i].lower < v->begin || skyline->boxes[i].upper > v->end);
    }
    return is_kept_out;
}

/* Where waste is allowed: all that shaped the valley and used up its slack. */
static void explain_slack(const search *s, const qn_valley *v, int side, uint64_t *set) {
    const qn_skyline *skyline = &s->skyline;
    for (int32_t i = v->begin; i < v->end; i++) {
        explain_boxes(s, v, side, side == QN_LEFT ? i : i + 1, set);
        add(set, skyline->owners[i + 1]);
    }
    for (int32_t i = 0; i < skyline->n_decisions; i++) {
        const qn_placing *p = &skyline->placings[i];
        if (p->waste_begin < v->end && p->waste_end > v->begin)
            add(set, i);
    }
    explain_wall(s, v, QN_LEFT, true, set);
    explain_wall(s, v, QN_RIGHT, true, set);
}

/* The decisions for which a corner has no choices but those it has. */
static void explain(const search *s, const qn_valley *v, int side, uint64_t *set) {
    const qn_skyline *skyline = &s->skyline;
    const int32_t corner = side == QN_LEFT ? v->begin : v->end - 1;
    memset(set, 0, (size_t)s->n_words * sizeof *set);
    if (skyline->first_slack[corner] > 0) {
        explain_slack(s, v, side, set);
        return;
    }
    if (explain_boxes(s, v, side, side == QN_LEFT ? v->begin : v->end, set))
        explain_wall(s, v, !side, false, set);
    explain_wall(s, v, side, false, set);
    add(set, skyline->owners[corner + 1]);
}

/* ---- trying ---- */

/* Uniform in [0, 1). */
static double random_number(search *s) {
    s->random += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = s->random;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

/* What leaves fewer edges in the skyline is worth more; waste is worth little. */
static float rate(search *s, const qn_valley *v, int side, int32_t box) {
    if (box == QN_NOTHING)
        return -10;
    const qn_packed_box *b = &s->skyline.boxes[box];
    const size_t top = v->floor + b->bytes;
    const bool is_in_corner = side == QN_LEFT ? b->lower == v->begin : b->upper == v->end;
    const bool is_whole = b->lower == v->begin && b->upper == v->end;
    double worth = (double)(b->upper - b->lower) / (v->end - v->begin) + random_number(s);
    worth += top == v->walls[side] ? 2 : 0;
    worth += is_whole ? 2 : 0;
    worth += is_whole && top == v->walls[!side] ? 2 : 0;
    return (float)(worth - (is_in_corner ? 0 : 4));
}

static int by_worth(const void *left, const void *right) {
    const qn_choice *a = left, *b = right;
    if (a->worth != b->worth)
        return a->worth < b->worth ? 1 : -1;
    return (a->box > b->box) - (a->box < b->box);
}

/* Opens a frame for the next decision, its choices sorted. */
static void open_frame(search *s, const qn_valley *v, int side, int32_t count) {
    const int32_t decision = s->skyline.n_decisions, room = s->most_choices - s->n_choices;
    frame *f = &s->frames[decision];
    explain(s, v, side, conflict_of(s, decision));
    s->is_pruned |= count > room;
    count = count < room ? count : room;
    qn_choice *choices = &s->choices[s->n_choices];
    count = qn_skyline_choices(&s->skyline, v, side, count, choices);
    for (int32_t i = 0; i < count; i++)
        choices[i].worth = rate(s, v, side, choices[i].box);
    qsort(choices, (size_t)count, sizeof *choices, by_worth);
    *f = (frame){*v, side, s->n_choices, s->n_choices, s->n_choices + count};
    s->n_choices += count;
}

/* Makes the next choice of the frame after the last decision; false: it has no more. */
static bool try_next(search *s) {
    frame *f = &s->frames[s->skyline.n_decisions];
    if (f->next == f->end)
        return false;
    s->problem->work++;
    const bool has_room =
        qn_skyline_place(&s->skyline, &f->valley, f->side, s->choices[f->next++].box);
    s->is_pruned |= !has_room;
    return has_room;
}

/* Jumps back to the last decision that a conflict names and tries what else there is; what has
 * nothing else hands its own conflict on. False: nothing is left anywhere. */
static bool jump_back(search *s, uint64_t *conflict) {
    for (;;) {
        const int32_t decision = last_of(conflict, s->n_words);
        if (decision < 0)
            return false;
        while (s->skyline.n_decisions > decision)
            qn_skyline_take_back(&s->skyline);
        conflict[decision / 64] &= ~(UINT64_C(1) << (decision % 64));
        uint64_t *own = conflict_of(s, decision);
        for (int32_t i = 0; i < s->n_words; i++)
            own[i] |= conflict[i];
        s->n_choices = s->frames[decision].end;
        if (try_next(s))
            return true;
        conflict = own;
    }
}

/* ---- runs ---- */

/* Searches from the beginning with so many placements. */
static result run(search *s, size_t capacity, int64_t most_work) {
    qn_packing_problem *p = s->problem;
    qn_skyline *skyline = &s->skyline;
    const int64_t end = p->work + most_work;
    int64_t n_looks = 0;
    qn_skyline_reset(skyline, s->packed, capacity);
    s->n_choices = 0;
    s->is_pruned = s->packed != p;
    while (skyline->n_placed < skyline->n) {
        qn_valley v = {0};
        int side = 0;
        if (p->work >= end || (++n_looks % CLOCK_WORK == 0 && qn_packing_is_done(p)) ||
            skyline->n_decisions == skyline->most_decisions)
            return OPEN;
        const int32_t count = choose_corner(s, &v, &side);
        if (count > 0) {
            open_frame(s, &v, side, count);
            if (!try_next(s))
                return OPEN;
            continue;
        }
        uint64_t *conflict = conflict_of(s, skyline->most_decisions);
        s->weights[side][side == QN_LEFT ? v.begin : v.end]++;
        explain(s, &v, side, conflict);
        if (!jump_back(s, conflict))
            return s->is_pruned ? OPEN : IMPOSSIBLE;
    }
    return FOUND;
}

static void keep(search *s) {
    qn_packing_problem *p = s->problem;
    const qn_packed_box *boxes = s->skyline.boxes;
    for (int32_t i = 0; i < s->skyline.n; i++) {
        if (boxes[i].id < p->n)
            p->best[boxes[i].id] = boxes[i].offset;
    }
    qn_packing_sink(p);
}

/* What keep does, for a search of joined boxes. */
static void keep_joined(search *s, qn_joining *joining) {
    qn_packing_problem *p = s->problem;
    for (int32_t i = 0; i < s->skyline.n; i++)
        joining->pieces[s->skyline.boxes[i].id].offset = s->skyline.boxes[i].offset;
    qn_joining_place(joining);
    for (int32_t i = 0; i < p->n; i++)
        p->best[i] = joining->pieces[i].offset;
    qn_packing_sink(p);
}

/* The i-th of 1, 1, 2, 1, 1, 2, 4, ... from 1. */
static int64_t luby(int64_t i) {
    int64_t power = 1;
    while (2 * power - 1 < i)
        power *= 2;
    return i == 2 * power - 1 ? power : luby(i - power + 1);
}

static qn_status init(qn_packing_problem *p, const qn_packing_problem *packed, qn_arena *arena,
                      search *s) {
    *s = (search){.problem = p, .packed = packed};
    QN_TRY(qn_skyline_init(packed, arena, &s->skyline));
    const size_t most = (size_t)s->skyline.most_decisions + 1;
    const size_t n_corners = (size_t)p->n_sections + 1;
    s->n_words = s->skyline.most_decisions / 64 + 1;
    s->most_choices = CHOICES_PER_BOX * packed->n;
    s->frames = qn_arena_allocate(arena, most, sizeof *s->frames);
    s->conflicts = qn_arena_allocate(arena, most * (size_t)s->n_words, sizeof *s->conflicts);
    s->choices = qn_arena_allocate(arena, (size_t)s->most_choices, sizeof *s->choices);
    if (!s->frames || !s->conflicts || !s->choices)
        return QN_ERROR_MEMORY;
    for (int side = 0; side < 2; side++) {
        s->weights[side] = qn_arena_allocate(arena, n_corners, sizeof *s->weights[side]);
        if (!s->weights[side])
            return QN_ERROR_MEMORY;
        for (size_t i = 0; i < n_corners; i++)
            s->weights[side][i] = 1;
    }
    return QN_OK;
}

/* ---- turns ---- */

/* Which capacity a run is for: the lowest that is open; what is wanted, which may be above that;
 * between that and the best, since what is found there is better already; that of a filled problem.
 * Of joined boxes, by turns what is wanted and that of the problem that they were joined of. */
typedef enum goal { LOWEST, WANTED, BETWEEN, FILLED, JOINED } goal;

typedef struct turn {
    goal goal;
    search *search;
    qn_joining *joining; /* or null */
} turn;

/* Joining gets so many times the work of another turn where nothing needs to be filled. */
enum { MOST_TURNS = 12, MOST_FILLINGS = 4, JOINING_SHARE = 4 };

/* What takes turns. All tops that need to be looked at are multiples of divisor. */
typedef struct turns {
    qn_packing_problem *problem;
    qn_arena arena;
    size_t divisor;
    search plain, filled[MOST_FILLINGS];
    qn_packing_problem fillings[MOST_FILLINGS];
    qn_joining joinings[MOST_FILLINGS + 1];
    int n, n_filled, n_joinings;
    turn list[MOST_TURNS]; /* (n) */
} turns;

static size_t common_divisor(const qn_packing_problem *p) {
    size_t divisor = 0;
    for (int32_t i = 0; i < p->n; i++) {
        size_t a = p->boxes[i].bytes;
        while (a) {
            const size_t rest = divisor % a;
            divisor = a;
            a = rest;
        }
    }
    return divisor;
}

static size_t capacity_of(const turns *t, const turn *of, int64_t round) {
    const qn_packing_problem *p = t->problem;
    const size_t most = p->best_bytes - t->divisor, low = p->proven_bytes;
    const size_t wanted = p->target_bytes > low ? p->target_bytes : low;
    if (of->goal == FILLED)
        return of->search->packed->bound_bytes;
    if (of->goal == JOINED)
        return round % 2 ? wanted : of->joining->problem->bound_bytes;
    if (of->goal == LOWEST || wanted >= most)
        return of->goal == LOWEST ? low : most;
    if (of->goal == WANTED)
        return wanted;
    return wanted + (most - wanted) / (round % 2 ? 2 : 8) / t->divisor * t->divisor;
}

/* Searches for a packing of joined boxes. */
static qn_status run_joined(turns *t, qn_joining *joining, size_t capacity, int64_t most_work) {
    qn_arena arena;
    search s;
    qn_arena_init(&arena, t->problem->allocator);
    const qn_status status = init(t->problem, &joining->joined, &arena, &s);
    s.random = joining->n_tries;
    if (status == QN_OK && run(&s, capacity, most_work) == FOUND)
        keep_joined(&s, joining);
    qn_arena_deinit(&arena);
    return status;
}

/* Joins boxes time and again, and searches where that leaves few. */
static qn_status search_joined(turns *t, qn_joining *joining, size_t capacity, int64_t most_work) {
    qn_packing_problem *p = t->problem;
    const int64_t end = p->work + most_work;
    do {
        const bool is_promising = qn_joining_try(joining);
        if (is_promising && !qn_packing_is_done(p))
            QN_TRY(run_joined(t, joining, capacity, RUN_WORK));
    } while (p->work < end && p->best_bytes > capacity && !qn_packing_is_done(p));
    return QN_OK;
}

static qn_status search_by_turns(turns *t) {
    qn_packing_problem *p = t->problem;
    for (int64_t round = 0; !qn_packing_is_done(p); round++) {
        const int64_t n_before = round / t->n;
        const turn *next = &t->list[round % t->n];
        const size_t capacity = capacity_of(t, next, n_before);
        const int64_t most_work = (RUN_WORK + 2 * p->n) * luby(n_before + 1);
        if (capacity < p->proven_bytes || capacity >= p->best_bytes)
            continue;
        if (next->joining) {
            const int64_t share = next->joining->problem == p ? JOINING_SHARE : 1;
            QN_TRY(search_joined(t, next->joining, capacity, share * most_work));
            continue;
        }
        next->search->random = (uint64_t)round;
        switch (run(next->search, capacity, most_work)) {
        case FOUND:
            keep(next->search);
            break;
        case IMPOSSIBLE:
            p->proven_bytes = (capacity / t->divisor + 1) * t->divisor;
            break;
        case OPEN:
            break;
        }
    }
    return QN_OK;
}

static void add_turn(turns *t, goal aim, search *by) {
    t->list[t->n++] = (turn){aim, by, NULL};
}

/* Takes turns at what is joined of the boxes of a problem without waste. */
static qn_status add_joined(turns *t, const qn_packing_problem *of) {
    qn_joining *joining = &t->joinings[t->n_joinings++];
    QN_TRY(qn_joining_init(t->problem, of, &t->arena, joining));
    t->list[t->n++] = (turn){JOINED, NULL, joining};
    return QN_OK;
}

/* Takes turns at a filled problem. */
static qn_status add_filled(turns *t, size_t capacity, bool is_pruned) {
    qn_packing_problem *filling = &t->fillings[t->n_filled];
    search *s = &t->filled[t->n_filled++];
    QN_TRY(qn_packing_fill(t->problem, capacity, is_pruned, &t->arena, filling));
    if (!qn_skyline_is_possible(filling))
        return QN_OK;
    QN_TRY(init(t->problem, filling, &t->arena, s));
    add_turn(t, FILLED, s);
    return add_joined(t, filling);
}

/* The same in both ways, where a capacity leaves a little over; what is joined of the problem
 * itself where it leaves nothing. */
static qn_status add_both_filled(turns *t, size_t capacity) {
    const qn_packing_problem *p = t->problem;
    double left = 0;
    capacity -= capacity % t->divisor;
    for (int32_t i = 0; i < p->n_sections; i++)
        left += (double)(capacity - p->load_bytes[i]);
    if (left == 0)
        return add_joined(t, p);
    if (left > MOST_FILLED * (double)capacity * p->n_sections)
        return QN_OK;
    QN_TRY(add_filled(t, capacity, false));
    return add_filled(t, capacity, true);
}

static qn_status make_turns(turns *t) {
    qn_packing_problem *p = t->problem;
    const bool is_wanted = p->target_bytes > p->bound_bytes;
    t->divisor = common_divisor(p);
    QN_TRY(init(p, p, &t->arena, &t->plain));
    add_turn(t, LOWEST, &t->plain);
    QN_TRY(add_both_filled(t, p->bound_bytes));
    add_turn(t, is_wanted ? WANTED : LOWEST, &t->plain);
    /* where the bound leaves nothing over, all that could fill is a band across all times */
    if (is_wanted && t->n_filled > 0)
        QN_TRY(add_both_filled(t, p->target_bytes));
    add_turn(t, LOWEST, &t->plain);
    add_turn(t, BETWEEN, &t->plain);
    return QN_OK;
}

qn_status qn_packing_search(qn_packing_problem *problem) {
    turns t = {.problem = problem};
    if (qn_packing_is_done(problem) || !qn_skyline_is_possible(problem))
        return QN_OK;
    qn_arena_init(&t.arena, problem->allocator);
    qn_status status = make_turns(&t);
    if (status == QN_OK)
        status = search_by_turns(&t);
    qn_arena_deinit(&t.arena);
    return status;
}
