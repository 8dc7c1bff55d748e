/* See skyline.h. */
#include "plan/packing/skyline.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_BOXES = 4096, MOST_WIDTH = 1 << 22 };

static size_t min_bytes(size_t a, size_t b) {
    return a < b ? a : b;
}

/* ---- making ---- */

static int by_place(const void *left, const void *right) {
    const qn_packed_box *a = left, *b = right;
    if (a->lower != b->lower)
        return a->lower < b->lower ? -1 : 1;
    if (a->upper != b->upper)
        return a->upper > b->upper ? -1 : 1;
    if (a->bytes != b->bytes)
        return a->bytes > b->bytes ? -1 : 1;
    return (a->id > b->id) - (a->id < b->id);
}

/* Sections of all boxes together. */
static size_t total_width(const qn_packing_problem *p) {
    size_t width = 0;
    for (int32_t i = 0; i < p->n; i++)
        width += (size_t)(p->boxes[i].upper - p->boxes[i].lower);
    return width;
}

bool qn_skyline_is_possible(const qn_packing_problem *p) {
    return p->n > 0 && p->n <= MOST_BOXES && total_width(p) <= MOST_WIDTH;
}

static qn_status allocate(const qn_packing_problem *p, qn_arena *arena, qn_skyline *s) {
    const size_t n = (size_t)p->n, n_sections = (size_t)p->n_sections + 2;
    s->n = p->n;
    s->n_sections = p->n_sections;
    s->most_decisions = 2 * p->n + 64;
    s->most_owned = 2 * total_width(p) + 64 * n_sections;
    s->boxes = qn_arena_allocate(arena, n, sizeof *s->boxes);
    for (int side = 0; side < 2; side++) {
        s->order[side] = qn_arena_allocate(arena, n, sizeof *s->order[side]);
        s->first[side] = qn_arena_allocate(arena, n_sections, sizeof *s->first[side]);
        if (!s->order[side] || !s->first[side])
            return QN_ERROR_MEMORY;
    }
    s->decision_of = qn_arena_allocate(arena, n, sizeof *s->decision_of);
    s->floors = qn_arena_allocate(arena, n_sections, sizeof *s->floors);
    s->owners = qn_arena_allocate(arena, n_sections, sizeof *s->owners);
    s->slack = qn_arena_allocate(arena, n_sections, sizeof *s->slack);
    s->first_slack = qn_arena_allocate(arena, n_sections, sizeof *s->first_slack);
    s->n_left = qn_arena_allocate(arena, n_sections, sizeof *s->n_left);
    s->placings = qn_arena_allocate(arena, (size_t)s->most_decisions, sizeof *s->placings);
    s->owned = qn_arena_allocate(arena, s->most_owned, sizeof *s->owned);
    const bool is_whole = s->boxes && s->decision_of && s->floors && s->owners && s->slack &&
                          s->first_slack && s->n_left && s->placings && s->owned;
    return is_whole ? QN_OK : QN_ERROR_MEMORY;
}

/* Sorts the boxes' numbers by when they begin or end, by counting. */
static void sort_side(qn_skyline *s, int side) {
    int32_t *first = s->first[side];
    for (int32_t i = 0; i < s->n; i++)
        first[(side == QN_LEFT ? s->boxes[i].lower : s->boxes[i].upper) + 1]++;
    for (int32_t t = 0; t <= s->n_sections; t++)
        first[t + 1] += first[t];
    for (int32_t i = 0; i < s->n; i++)
        s->order[side][first[side == QN_LEFT ? s->boxes[i].lower : s->boxes[i].upper]++] = i;
    for (int32_t t = s->n_sections + 1; t > 0; t--)
        first[t] = first[t - 1];
    first[0] = 0;
}

qn_status qn_skyline_init(const qn_packing_problem *p, qn_arena *arena, qn_skyline *s) {
    *s = (qn_skyline){0};
    QN_TRY(allocate(p, arena, s));
    memcpy(s->boxes, p->boxes, (size_t)s->n * sizeof *s->boxes);
    qsort(s->boxes, (size_t)s->n, sizeof *s->boxes, by_place);
    sort_side(s, QN_LEFT);
    sort_side(s, QN_RIGHT);
    for (int32_t i = 0; i < s->n; i++) {
        s->decision_of[i] = QN_NOT_PLACED;
        for (int32_t j = s->boxes[i].lower; j < s->boxes[i].upper; j++)
            s->n_left[j]++;
    }
    for (int32_t i = 0; i < s->n_sections + 2; i++)
        s->owners[i] = -1;
    s->floors[0] = s->floors[s->n_sections + 1] = SIZE_MAX;
    for (int32_t i = 0; i < s->n_sections; i++)
        s->floors[i + 1] = s->n_left[i] > 0 ? 0 : SIZE_MAX;
    return QN_OK;
}

void qn_skyline_reset(qn_skyline *s, const qn_packing_problem *p, size_t capacity) {
    while (s->n_decisions > 0)
        qn_skyline_take_back(s);
    for (int32_t i = 0; i < s->n_sections; i++)
        s->slack[i] = s->first_slack[i] = capacity - p->load_bytes[i];
}

/* ---- looking ---- */

bool qn_skyline_find(const qn_skyline *s, int32_t section, qn_valley *valley) {
    const size_t *floors = s->floors + 1;
    for (int32_t begin = section, end; begin < s->n_sections; begin = end) {
        const size_t floor = floors[begin];
        for (end = begin + 1; floors[end] == floor && end < s->n_sections; end++)
            ;
        if (floor == SIZE_MAX || floors[begin - 1] < floor || floors[end] < floor)
            continue;
        *valley = (qn_valley){begin, end, floor, {floors[begin - 1], floors[end]}};
        return true;
    }
    return false;
}

bool qn_skyline_may_place(const qn_skyline *s, int32_t i) {
    const qn_packed_box *b = &s->boxes[i];
    if (s->decision_of[i] != QN_NOT_PLACED)
        return false;
    if (i > 0 && s->decision_of[i - 1] == QN_NOT_PLACED && b[-1].lower == b->lower &&
        b[-1].upper == b->upper && b[-1].bytes == b->bytes)
        return false;
    const int32_t owner = s->owners[b->lower + 1];
    const int32_t below = owner >= 0 ? s->placings[owner].box : QN_NOTHING;
    return below < i || s->boxes[below].lower != b->lower || s->boxes[below].upper != b->upper;
}

/* Adds what begins (ends, from the right) at a time within the valley, if so much waste before it
 * is allowed. */
static int32_t add_boxes(const qn_skyline *s, const qn_valley *v, int side, int32_t time,
                         size_t allowed, int32_t most, qn_choice *choices) {
    const size_t depth = v->walls[side] - v->floor;
    int32_t count = 0;
    for (int32_t j = s->first[side][time]; j < s->first[side][time + 1] && count < most; j++) {
        const int32_t i = s->order[side][j];
        const qn_packed_box *b = &s->boxes[i];
        if (b->lower < v->begin || b->upper > v->end || min_bytes(depth, b->bytes) > allowed ||
            !qn_skyline_may_place(s, i))
            continue;
        if (choices)
            choices[count] = (qn_choice){i, 0};
        count++;
    }
    return count;
}

int32_t qn_skyline_choices(const qn_skyline *s, const qn_valley *v, int side, int32_t most,
                           qn_choice *choices) {
    const int32_t width = v->end - v->begin;
    const size_t wall = min_bytes(v->walls[0], v->walls[1]);
    size_t allowed = SIZE_MAX;
    int32_t count = 0;
    for (int32_t i = 0; i < width && allowed > 0 && count < most; i++) {
        const int32_t time = side == QN_LEFT ? v->begin + i : v->end - i;
        const int32_t section = side == QN_LEFT ? time : time - 1;
        count +=
            add_boxes(s, v, side, time, allowed, most - count, choices ? choices + count : NULL);
        allowed = min_bytes(allowed, s->slack[section]);
    }
    if (count < most && wall != SIZE_MAX && wall - v->floor <= allowed) {
        if (choices)
            choices[count] = (qn_choice){QN_NOTHING, 0};
        count++;
    }
    return count;
}

/* ---- deciding ---- */

static void set_floor(qn_skyline *s, int32_t section, size_t floor) {
    s->owned[s->n_owned++] = s->owners[section + 1];
    s->floors[section + 1] = floor;
    s->owners[section + 1] = s->n_decisions;
}

static void waste(qn_skyline *s, const qn_placing *p) {
    for (int32_t i = p->waste_begin; i < p->waste_end; i++) {
        s->slack[i] -= p->waste_bytes;
        set_floor(s, i, p->floor + p->waste_bytes);
    }
}

/* What the decision would be. */
static qn_placing describe(const qn_skyline *s, const qn_valley *v, int side, int32_t box) {
    qn_placing p = {box, v->begin, v->end, v->floor, 0, s->n_owned};
    if (box == QN_NOTHING) {
        p.waste_bytes = min_bytes(v->walls[0], v->walls[1]) - v->floor;
        return p;
    }
    const qn_packed_box *b = &s->boxes[box];
    p.waste_bytes = min_bytes(v->walls[side] - v->floor, b->bytes);
    if (side == QN_LEFT)
        p.waste_end = b->lower;
    else
        p.waste_begin = b->upper;
    return p;
}

bool qn_skyline_place(qn_skyline *s, const qn_valley *v, int side, int32_t box) {
    const size_t width = (size_t)(v->end - v->begin);
    if (s->n_decisions == s->most_decisions || s->n_owned + width > s->most_owned)
        return false;
    qn_placing *p = &s->placings[s->n_decisions];
    *p = describe(s, v, side, box);
    waste(s, p);
    if (box != QN_NOTHING) {
        qn_packed_box *b = &s->boxes[box];
        b->offset = v->floor;
        s->decision_of[box] = s->n_decisions;
        s->n_placed++;
        for (int32_t i = b->lower; i < b->upper; i++)
            set_floor(s, i, --s->n_left[i] > 0 ? v->floor + b->bytes : SIZE_MAX);
    }
    s->n_decisions++;
    return true;
}

int32_t qn_skyline_below(const qn_skyline *s, int32_t section, int32_t decision) {
    const qn_placing *p = &s->placings[decision];
    if (section >= p->waste_begin && section < p->waste_end)
        return s->owned[p->n_owned + (size_t)(section - p->waste_begin)];
    const size_t n_wasted = (size_t)(p->waste_end - p->waste_begin);
    return s->owned[p->n_owned + n_wasted + (size_t)(section - s->boxes[p->box].lower)];
}

static void restore(qn_skyline *s, int32_t begin, int32_t end, size_t floor) {
    for (int32_t i = end - 1; i >= begin; i--) {
        s->floors[i + 1] = floor;
        s->owners[i + 1] = s->owned[--s->n_owned];
    }
}

void qn_skyline_take_back(qn_skyline *s) {
    const qn_placing *p = &s->placings[--s->n_decisions];
    if (p->box != QN_NOTHING) {
        const qn_packed_box *b = &s->boxes[p->box];
        s->decision_of[p->box] = QN_NOT_PLACED;
        s->n_placed--;
        for (int32_t i = b->lower; i < b->upper; i++)
            s->n_left[i]++;
        restore(s, b->lower, b->upper, p->floor);
    }
    for (int32_t i = p->waste_begin; i < p->waste_end; i++)
        s->slack[i] += p->waste_bytes;
    restore(s, p->waste_begin, p->waste_end, p->floor);
}
