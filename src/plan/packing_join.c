/* See packing_join.h. */
#include "plan/packing_join.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Part of possible joins that a try with noise leaves out. */
#define LEFT_OUT 0.03

/* A group is of one lifetime. Of many only few or nearly all are taken, and beyond the largest the
 * rest of them together or not at all. */
enum {
    MOST_GROUP = 12,
    MANY = 8,
    PARTS_OF_MANY = 3,
    MOST_SUMS = 800,
    MOST_LEAST = 10,
    SUMS_BY_PLACEMENT = 4
};

/* Groups at a time; joins between looks at the clock; tries without a better one before all begins
 * anew; every such of equally good tries is worth a search. */
enum { MOST_GROUPS = 64, CLOCK_JOINS = 16, MOST_SINCE = 200, SEARCHED = 16 };

/* What is joined: the boxes that meet along one line, left of it and right of it; or a pinwheel:
 * four around one in the middle, which meet along two lines.
 *
 *     left | top             sum(left) = sum(middle) + sum(top)
 *     left | middle | right
 *     bottom        | right  sum(right) = sum(middle) + sum(bottom) */
typedef enum slot { LEFT, RIGHT, MIDDLE, TOP, BOTTOM, N_SLOTS } slot;

typedef struct qn_join {
    double score;    /* the lowest is best; INFINITY: there is none */
    int32_t n_slots; /* 2: a line; N_SLOTS: a pinwheel */
    int32_t n[N_SLOTS];
    int32_t pieces[N_SLOTS][MOST_GROUP];
    bool has_rest[N_SLOTS];
} qn_join;

/* Pieces of one lifetime, the largest first; if there are more, bytes[MOST_GROUP] is of these. */
typedef struct group {
    int32_t n; /* of bytes */
    int32_t pieces[MOST_GROUP];
    size_t bytes[MOST_GROUP + 1];
} group;

/* The bytes of some of a group. */
typedef struct sum {
    size_t bytes;
    uint32_t set;
} sum;

/* Groups that may be a pinwheel. */
typedef struct qn_pinwheel {
    group groups[N_SLOTS];
    sum sums[N_SLOTS][MOST_SUMS];
    int32_t n_sums[N_SLOTS];
    int32_t n_ends[2], n_begins[2]; /* pieces at its two lines */
} qn_pinwheel;

/* ---- making ---- */

qn_status qn_joining_init(qn_packing_problem *limits, const qn_packing_problem *p, qn_arena *arena,
                          qn_joining *j) {
    const size_t n = (size_t)p->n, n_times = (size_t)p->n_sections + 1;
    *j = (qn_joining){.limits = limits, .problem = p};
    j->joined = (qn_packing_problem){.allocator = p->allocator,
                                     .n_sections = p->n_sections,
                                     .bound_bytes = p->bound_bytes,
                                     .load_bytes = p->load_bytes};
    j->pieces = qn_arena_allocate(arena, 2 * n, sizeof *j->pieces);
    j->best = qn_arena_allocate(arena, 2 * n, sizeof *j->best);
    j->numbers = qn_arena_allocate(arena, 2 * n, sizeof *j->numbers);
    j->pinwheel = qn_arena_allocate(arena, 1, sizeof *j->pinwheel);
    j->joins = qn_arena_allocate(arena, 2 * n_times, sizeof *j->joins);
    j->first[0] = qn_arena_allocate(arena, n_times, sizeof *j->first[0]);
    j->first[1] = qn_arena_allocate(arena, n_times, sizeof *j->first[1]);
    j->joined.boxes = qn_arena_allocate(arena, n, sizeof *j->joined.boxes);
    const bool is_whole = j->pieces && j->best && j->numbers && j->pinwheel && j->joins &&
                          j->first[0] && j->first[1] && j->joined.boxes;
    return is_whole ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- lists ---- */

static int32_t time_of(const qn_joined_piece *piece, int side) {
    return side == 0 ? piece->lower : piece->upper;
}

static void link_piece(qn_joining *j, int32_t i) {
    for (int side = 0; side < 2; side++) {
        int32_t *first = &j->first[side][time_of(&j->pieces[i], side)];
        j->pieces[i].next[side] = *first;
        *first = i;
    }
}

static void unlink_piece(qn_joining *j, int32_t i) {
    for (int side = 0; side < 2; side++) {
        int32_t *at = &j->first[side][time_of(&j->pieces[i], side)];
        while (*at != i)
            at = &j->pieces[*at].next[side];
        *at = j->pieces[i].next[side];
    }
}

/* ---- what may be joined at a time ---- */

/* Uniform in [0, 1). */
static double number_of(uint64_t z) {
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (double)((z ^ (z >> 31)) >> 11) * 0x1p-53;
}

static double random_number(qn_joining *j) {
    j->random += UINT64_C(0x9e3779b97f4a7c15);
    return number_of(j->random);
}

/* What is added to a score: the same for equal bytes at a time throughout a try, in which some are
 * not joined at all. */
static double noise_of(const qn_joining *j, int32_t time, size_t bytes) {
    const uint64_t what = (uint64_t)time * UINT64_C(0xd1342543de82ef95) +
                          (uint64_t)bytes * UINT64_C(0xaf251af3b0f025b5);
    const double number = number_of(j->n_tries * UINT64_C(0x9e3779b97f4a7c15) ^ what);
    return j->noise > 0 && number < LEFT_OUT ? INFINITY : j->noise * number;
}

/* Adds a piece to its group; it may be among the largest or the rest. */
static void add_to_group(const qn_joining *j, group *g, int32_t i) {
    const int32_t n = g->n < MOST_GROUP ? g->n : MOST_GROUP;
    int32_t at = n;
    while (at > 0 && (g->bytes[at - 1] < j->pieces[i].bytes ||
                      (g->bytes[at - 1] == j->pieces[i].bytes && g->pieces[at - 1] > i)))
        at--;
    if (n == MOST_GROUP) {
        g->bytes[n] =
            (g->n == n ? 0 : g->bytes[n]) + (at == n ? j->pieces[i].bytes : g->bytes[n - 1]);
        g->n = n + 1;
    } else {
        g->n++;
    }
    for (int32_t k = (n < MOST_GROUP ? n : n - 1); k > at; k--) {
        g->pieces[k] = g->pieces[k - 1];
        g->bytes[k] = g->bytes[k - 1];
    }
    if (at < MOST_GROUP) {
        g->pieces[at] = i;
        g->bytes[at] = j->pieces[i].bytes;
    }
}

/* The pieces of one list that have the same other end as its first whose end is not done; that is
 * done then. Returns false when all are. */
static bool next_group(const qn_joining *j, int32_t first, int list, int32_t *done, int32_t n_done,
                       group *g) {
    int32_t other = -1;
    g->n = 0;
    for (int32_t i = first; i >= 0; i = j->pieces[i].next[list]) {
        const int32_t t = time_of(&j->pieces[i], !list);
        bool is_done = false;
        for (int32_t k = 0; k < n_done && !is_done; k++)
            is_done = done[k] == t;
        if (is_done || (other >= 0 && t != other))
            continue;
        other = t;
        add_to_group(j, g, i);
    }
    done[n_done] = other;
    return g->n > 0;
}

static int by_bytes(const void *left, const void *right) {
    const sum *a = left, *b = right;
    if (a->bytes != b->bytes)
        return a->bytes < b->bytes ? -1 : 1;
    return (a->set > b->set) - (a->set < b->set);
}

static size_t sum_of(const group *g, uint32_t set) {
    size_t bytes = 0;
    for (; set; set &= set - 1)
        bytes += g->bytes[__builtin_ctz(set)];
    return bytes;
}

static int32_t list_sums(qn_joining *j, const group *g, sum *sums) {
    int32_t n = 0;
    for (uint32_t set = 1; set < UINT32_C(1) << g->n; set++) {
        const int parts = __builtin_popcount(set);
        if ((g->n > MANY && parts > PARTS_OF_MANY && parts < g->n - PARTS_OF_MANY) ||
            set == UINT32_C(1) << MOST_GROUP)
            continue;
        sums[n++] = (sum){sum_of(g, set), set};
    }
    qsort(sums, (size_t)n, sizeof *sums, by_bytes);
    j->limits->work += 1 + n / SUMS_BY_PLACEMENT;
    return n;
}

/* Whether no part of one set has the bytes of a part of the other. */
static bool is_least(const group groups[2], const uint32_t sets[2]) {
    if (__builtin_popcount(sets[0]) + __builtin_popcount(sets[1]) > MOST_LEAST)
        return true;
    for (uint32_t a = (sets[0] - 1) & sets[0]; a; a = (a - 1) & sets[0]) {
        const size_t bytes = sum_of(&groups[0], a);
        for (uint32_t b = (sets[1] - 1) & sets[1]; b; b = (b - 1) & sets[1])
            if (sum_of(&groups[1], b) == bytes)
                return false;
    }
    return true;
}

/* Logarithm of the ways to take k of n. */
static double log_ways(int32_t n, int32_t k) {
    double ways = 0;
    for (int32_t i = 0; i < k; i++)
        ways += log((double)(n - i) / (i + 1));
    return ways;
}

/* Makes a set of a group's pieces a slot of a join. */
static void fill_slot(qn_join *to, slot which, const group *g, uint32_t set) {
    to->n[which] = 0;
    to->has_rest[which] = set >> MOST_GROUP & 1;
    for (set &= (UINT32_C(1) << MOST_GROUP) - 1; set; set &= set - 1)
        to->pieces[which][to->n[which]++] = g->pieces[__builtin_ctz(set)];
}

/* Takes a pair of sets for the best of its time if it is that. */
static void rate(qn_joining *j, const int32_t n[2], const group groups[2], const uint32_t sets[2],
                 size_t bytes, qn_join *best) {
    const int32_t parts[2] = {__builtin_popcount(sets[0]), __builtin_popcount(sets[1])};
    const double score = log_ways(n[0], parts[0]) + log_ways(n[1], parts[1]) - log((double)bytes) +
                         noise_of(j, j->pieces[groups[0].pieces[0]].upper, bytes);
    if (score >= best->score || !is_least(groups, sets))
        return;
    best->score = score;
    best->n_slots = 2;
    fill_slot(best, LEFT, &groups[0], sets[0]);
    fill_slot(best, RIGHT, &groups[1], sets[1]);
}

/* Looks at all sums that two groups have in common. */
static void match(qn_joining *j, const int32_t n[2], const group groups[2], qn_join *best) {
    sum sums[2][MOST_SUMS];
    const int32_t n_left = list_sums(j, &groups[0], sums[0]);
    const int32_t n_right = list_sums(j, &groups[1], sums[1]);
    for (int32_t a = 0, b = 0; a < n_left && b < n_right;) {
        const size_t bytes = sums[0][a].bytes;
        if (bytes != sums[1][b].bytes) {
            if (bytes < sums[1][b].bytes)
                a++;
            else
                b++;
            continue;
        }
        for (int32_t i = b; i < n_right && sums[1][i].bytes == bytes; i++)
            rate(j, n, groups, (uint32_t[]){sums[0][a].set, sums[1][i].set}, bytes, best);
        a++;
    }
}

static int32_t count(const qn_joining *j, int32_t first, int list) {
    int32_t n = 0;
    for (int32_t i = first; i >= 0; i = j->pieces[i].next[list])
        n++;
    return n;
}

/* Finds the best join at a time. */
static void look(qn_joining *j, int32_t time) {
    const int32_t left = j->first[1][time], right = j->first[0][time];
    const int32_t n[2] = {count(j, left, 1), count(j, right, 0)};
    int32_t done[2][MOST_GROUPS + 1];
    group groups[2];
    qn_join *best = &j->joins[time];
    best->score = INFINITY;
    for (int32_t a = 0; a < MOST_GROUPS && next_group(j, left, 1, done[0], a, &groups[0]); a++)
        for (int32_t b = 0; b < MOST_GROUPS && next_group(j, right, 0, done[1], b, &groups[1]); b++)
            match(j, n, groups, best);
}

/* ---- pinwheels ---- */

/* The group of a lifetime. */
static void find_group(const qn_joining *j, int32_t lower, int32_t upper, group *g) {
    g->n = 0;
    for (int32_t i = j->first[0][lower]; i >= 0; i = j->pieces[i].next[0])
        if (j->pieces[i].upper == upper)
            add_to_group(j, g, i);
}

static void rate_pinwheel(qn_joining *j, const qn_pinwheel *w, const sum *sums[N_SLOTS],
                          qn_join *best) {
    int32_t parts[N_SLOTS];
    for (int i = 0; i < N_SLOTS; i++)
        parts[i] = __builtin_popcount(sums[i]->set);
    const double score = log_ways(w->n_ends[0], parts[LEFT]) +
                         log_ways(w->n_begins[0], parts[MIDDLE] + parts[TOP]) +
                         log_ways(w->n_ends[1], parts[MIDDLE] + parts[BOTTOM]) +
                         log_ways(w->n_begins[1], parts[RIGHT]) - log((double)sums[LEFT]->bytes) -
                         log((double)sums[RIGHT]->bytes) + j->pinwheel_score +
                         noise_of(j, j->pieces[w->groups[LEFT].pieces[0]].upper, sums[LEFT]->bytes);
    if (score >= best->score)
        return;
    best->score = score;
    best->n_slots = N_SLOTS;
    for (int i = 0; i < N_SLOTS; i++)
        fill_slot(best, (slot)i, &w->groups[i], sums[i]->set);
}

/* A sum of so many bytes, or null. */
static const sum *find_sum(const qn_pinwheel *w, slot of, size_t bytes) {
    for (int32_t i = 0; i < w->n_sums[of]; i++)
        if (w->sums[of][i].bytes == bytes)
            return &w->sums[of][i];
    return NULL;
}

static void match_pinwheel(qn_joining *j, qn_pinwheel *w, qn_join *best) {
    const sum *s[N_SLOTS];
    for (int i = 0; i < N_SLOTS; i++)
        w->n_sums[i] = list_sums(j, &w->groups[i], w->sums[i]);
    for (int32_t m = 0; m < w->n_sums[MIDDLE]; m++) {
        s[MIDDLE] = &w->sums[MIDDLE][m];
        for (int32_t t = 0; t < w->n_sums[TOP]; t++) {
            s[TOP] = &w->sums[TOP][t];
            s[LEFT] = find_sum(w, LEFT, s[MIDDLE]->bytes + s[TOP]->bytes);
            for (int32_t b = 0; s[LEFT] && b < w->n_sums[BOTTOM]; b++) {
                s[BOTTOM] = &w->sums[BOTTOM][b];
                s[RIGHT] = find_sum(w, RIGHT, s[MIDDLE]->bytes + s[BOTTOM]->bytes);
                if (s[RIGHT])
                    rate_pinwheel(j, w, s, best);
            }
        }
    }
}

/* Looks at the tops of pinwheels whose left, middle and bottom are known, from one line to the
 * other. */
static void look_for_tops(qn_joining *j, int32_t line, int32_t other, qn_join *best) {
    qn_pinwheel *w = j->pinwheel;
    int32_t done[MOST_GROUPS + 1];
    group *top = &w->groups[TOP];
    w->n_ends[1] = count(j, j->first[1][other], 1);
    w->n_begins[1] = count(j, j->first[0][other], 0);
    for (int32_t i = 0; i < MOST_GROUPS && next_group(j, j->first[0][line], 0, done, i, top); i++) {
        if (done[i] <= other)
            continue;
        find_group(j, other, done[i], &w->groups[RIGHT]);
        if (w->groups[RIGHT].n > 0)
            match_pinwheel(j, w, best);
    }
}

/* The same where only the left is known, from lower to the line. */
static void look_for_middles(qn_joining *j, int32_t lower, int32_t line, qn_join *best) {
    qn_pinwheel *w = j->pinwheel;
    int32_t done[MOST_GROUPS + 1];
    group *middle = &w->groups[MIDDLE];
    for (int32_t i = 0; i < MOST_GROUPS && next_group(j, j->first[0][line], 0, done, i, middle);
         i++) {
        if (done[i] == j->problem->n_sections)
            continue;
        find_group(j, lower, done[i], &w->groups[BOTTOM]);
        if (w->groups[BOTTOM].n > 0)
            look_for_tops(j, line, done[i], best);
    }
}

/* Finds the best pinwheel with its first line at a time. */
static void look_for_pinwheels(qn_joining *j, int32_t time) {
    qn_pinwheel *w = j->pinwheel;
    int32_t done[MOST_GROUPS + 1];
    qn_join *best = &j->joins[j->problem->n_sections + 1 + time];
    const int32_t left = j->first[1][time];
    best->score = INFINITY;
    w->n_ends[0] = count(j, left, 1);
    w->n_begins[0] = count(j, j->first[0][time], 0);
    for (int32_t i = 0; i < MOST_GROUPS && next_group(j, left, 1, done, i, &w->groups[LEFT]); i++)
        look_for_middles(j, done[i], time, best);
}

/* ---- joining ---- */

/* The pieces of a slot, into of, which has room for all of a lifetime. Returns how many. */
static int32_t list_slot(const qn_joining *j, const qn_join *from, slot which, int32_t *of) {
    const qn_joined_piece *any = &j->pieces[from->pieces[which][0]];
    int32_t n = from->n[which];
    group g;
    memcpy(of, from->pieces[which], (size_t)n * sizeof *of);
    if (!from->has_rest[which])
        return n;
    find_group(j, any->lower, any->upper, &g);
    for (int32_t i = j->first[0][any->lower]; i >= 0; i = j->pieces[i].next[0]) {
        bool is_rest = j->pieces[i].upper == any->upper;
        for (int32_t k = 0; k < MOST_GROUP && is_rest; k++)
            is_rest = g.pieces[k] != i;
        if (is_rest)
            of[n++] = i;
    }
    return n;
}

/* Stacks a slot's pieces within a whole from an offset on. Returns where they end. */
static size_t stack(qn_joining *j, const qn_join *from, slot which, int32_t whole, size_t offset) {
    const int32_t n = list_slot(j, from, which, j->numbers);
    for (int32_t k = 0; k < n; k++) {
        qn_joined_piece *piece = &j->pieces[j->numbers[k]];
        unlink_piece(j, j->numbers[k]);
        piece->whole = whole;
        piece->offset = offset;
        offset += piece->bytes;
    }
    return offset;
}

static void join(qn_joining *j, const qn_join *from) {
    const int32_t made = j->n_pieces++;
    const slot last = from->n_slots == 2 ? RIGHT : TOP;
    qn_joined_piece *piece = &j->pieces[made];
    *piece = (qn_joined_piece){.lower = j->pieces[from->pieces[LEFT][0]].lower,
                               .upper = j->pieces[from->pieces[last][0]].upper,
                               .whole = -1};
    if (last == RIGHT) {
        stack(j, from, LEFT, made, 0);
        piece->bytes = stack(j, from, RIGHT, made, 0);
    } else {
        const size_t floor = stack(j, from, BOTTOM, made, 0);
        stack(j, from, LEFT, made, floor);
        stack(j, from, MIDDLE, made, floor);
        piece->bytes = stack(j, from, TOP, made, stack(j, from, RIGHT, made, 0));
    }
    link_piece(j, made);
}

static bool has_no_work_left(const qn_joining *j) {
    return j->limits->work >= j->limits->most_work;
}

/* All boxes, with nothing joined. */
static void begin_anew(qn_joining *j) {
    const qn_packing_problem *p = j->problem;
    j->n_pieces = p->n;
    for (int32_t i = 0; i < p->n; i++) {
        const qn_packed_box *b = &p->boxes[i];
        j->pieces[i] =
            (qn_joined_piece){.bytes = b->bytes, .lower = b->lower, .upper = b->upper, .whole = -1};
    }
}

/* The best try, in which some of what was joined last is taken apart again. */
static void begin_from_best(qn_joining *j) {
    static const double tops[4] = {0.3, 0.1, 0.5, 0.2}, inners[4] = {0.5, 0.9, 0.3, 1};
    const double top = tops[j->n_tries / 8 % 4], inner = inners[j->n_tries / 8 % 4];
    const int32_t n = j->problem->n;
    for (int32_t i = j->n_best - 1; i >= 0; i--) {
        const int32_t whole = j->best[i].whole;
        const bool may_part = whole < 0 || j->numbers[whole] < 0;
        const bool parts = i >= n && may_part && random_number(j) < (whole < 0 ? top : inner);
        j->numbers[i] = parts ? -1 : 0;
    }
    j->n_pieces = 0;
    for (int32_t i = 0; i < j->n_best; i++)
        if (j->numbers[i] == 0)
            j->numbers[i] = j->n_pieces++;
    for (int32_t i = 0; i < j->n_best; i++) {
        if (j->numbers[i] < 0)
            continue;
        qn_joined_piece *piece = &j->pieces[j->numbers[i]];
        *piece = j->best[i];
        piece->whole = piece->whole < 0 ? -1 : j->numbers[piece->whole];
    }
}

/* Links the pieces that are not part of others and looks at all times. */
static void look_everywhere(qn_joining *j) {
    const int32_t n_times = j->problem->n_sections + 1;
    for (int32_t t = 0; t < n_times; t++) {
        j->first[0][t] = j->first[1][t] = -1;
        j->joins[t].score = j->joins[n_times + t].score = INFINITY;
    }
    for (int32_t i = 0; i < j->n_pieces; i++)
        if (j->pieces[i].whole < 0)
            link_piece(j, i);
    for (int32_t t = 1; t < n_times - 1 && !has_no_work_left(j); t++) {
        look(j, t);
        look_for_pinwheels(j, t);
    }
}

static void finish(qn_joining *j) {
    qn_packing_problem *to = &j->joined;
    to->n = 0;
    for (int32_t i = 0; i < j->n_pieces; i++) {
        const qn_joined_piece *piece = &j->pieces[i];
        if (piece->whole < 0)
            to->boxes[to->n++] = (qn_packed_box){
                .bytes = piece->bytes, .lower = piece->lower, .upper = piece->upper, .id = i};
    }
}

/* Looks again at all that a change at a time may have changed. */
static void look_around(qn_joining *j, int32_t time) {
    if (time == 0 || time == j->problem->n_sections)
        return;
    look(j, time);
    look_for_pinwheels(j, time);
    for (int32_t i = j->first[1][time]; i >= 0; i = j->pieces[i].next[1])
        if (j->pieces[i].lower > 0)
            look_for_pinwheels(j, j->pieces[i].lower);
}

/* Of the best joins at all times the best; null: there is none. */
static const qn_join *find_best(const qn_joining *j) {
    const int32_t n_times = j->problem->n_sections + 1;
    const qn_join *best = NULL;
    for (int32_t i = 0; i < 2 * n_times; i++)
        if (j->joins[i].score < (best ? best->score : INFINITY))
            best = &j->joins[i];
    return best;
}

/* Joins what can be, the best first. */
static void join_all(qn_joining *j) {
    for (const qn_join *best; (best = find_best(j));) {
        if (has_no_work_left(j) ||
            (j->n_pieces % CLOCK_JOINS == 0 && qn_packing_is_done(j->limits)))
            break;
        const int32_t line = j->pieces[best->pieces[LEFT][0]].upper;
        const int32_t other = best->n_slots == 2 ? 0 : j->pieces[best->pieces[MIDDLE][0]].upper;
        join(j, best);
        const qn_joined_piece *made = &j->pieces[j->n_pieces - 1];
        look_around(j, line);
        look_around(j, other);
        look_around(j, made->lower);
        look_around(j, made->upper);
    }
}

/* Keeps a try that is as good as the best. */
static bool keep_best(qn_joining *j) {
    j->n_since = j->joined.n < j->least ? 0 : j->n_since + 1;
    if (j->joined.n > j->least)
        return false;
    j->least = j->joined.n;
    j->n_best = j->n_pieces;
    memcpy(j->best, j->pieces, (size_t)j->n_pieces * sizeof *j->pieces);
    return j->n_since % SEARCHED == 0;
}

bool qn_joining_try(qn_joining *j) {
    const uint64_t number = j->n_tries++;
    static const double noises[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    static const double pinwheels[4] = {0, -3, 2, -1};
    j->random = number;
    j->noise = noises[number % 8];
    j->pinwheel_score = pinwheels[number / 2 % 4];
    if (j->n_best == 0 || j->n_since >= MOST_SINCE) {
        begin_anew(j);
        j->least = INT32_MAX;
        j->n_since = 0;
    } else {
        begin_from_best(j);
    }
    look_everywhere(j);
    join_all(j);
    finish(j);
    return keep_best(j);
}

void qn_joining_place(qn_joining *j) {
    for (int32_t i = j->n_pieces - 1; i >= 0; i--)
        if (j->pieces[i].whole >= 0)
            j->pieces[i].offset += j->pieces[j->pieces[i].whole].offset;
}
