/* See join.h. */
#include "plan/packing/join.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Part of possible joins that a try with noise leaves out. */
#define LEFT_OUT 0.03

/* Of noise, what differs between joins of equal sums at one time: which of several equal ones
 * belong together is a guess of its own. */
#define NOISE_BETWEEN 0.5

/* A try that leaves one box more is kept with probability exp(-1 / HEAT). */
#define HEAT 0.3

/* A group is of one lifetime. Of many only few or nearly all are taken, and beyond the largest the
 * rest of them together or not at all. */
enum { MOST_GROUP = 12, MANY = 8, PARTS_OF_MANY = 3, MOST_SUMS = 800, MOST_LEAST = 10 };

/* Sums that take as long as a placement of the search, measured with 300 boxes; how many more a
 * list of them takes; steps along lists that take as long as a sum. */
enum { SUMS_BY_PLACEMENT = 150, SUMS_BY_LIST = 4, STEPS_BY_SUM = 32 };

/* Groups at a time; joins between looks at the clock; tries without a better one, for each box,
 * before all begins anew; every such of equally good tries is worth a search. */
enum { MOST_GROUPS = 64, CLOCK_JOINS = 16, SINCE_BY_BOX = 10, SEARCHED = 64 };

/* Why to look at a time again: pieces that begin or end there; what pinwheels begin with. */
enum { LOOK = 1, LOOK_FOR_PINWHEELS = 2 };

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
    int32_t n_sums[N_SLOTS];        /* 0: not yet listed */
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
    j->kept = qn_arena_allocate(arena, 2 * n, sizeof *j->kept);
    j->numbers = qn_arena_allocate(arena, 2 * n, sizeof *j->numbers);
    j->pinwheel = qn_arena_allocate(arena, 1, sizeof *j->pinwheel);
    j->joins = qn_arena_allocate(arena, 2 * n_times, sizeof *j->joins);
    j->reasons = qn_arena_allocate(arena, n_times, sizeof *j->reasons);
    j->log_factorials = qn_arena_allocate(arena, n + 1, sizeof *j->log_factorials);
    j->first[0] = qn_arena_allocate(arena, n_times, sizeof *j->first[0]);
    j->first[1] = qn_arena_allocate(arena, n_times, sizeof *j->first[1]);
    j->joined.boxes = qn_arena_allocate(arena, n, sizeof *j->joined.boxes);
    const bool is_whole = j->pieces && j->kept && j->numbers && j->pinwheel && j->joins &&
                          j->reasons && j->log_factorials && j->first[0] && j->first[1] &&
                          j->joined.boxes;
    if (!is_whole)
        return QN_ERROR_MEMORY;
    for (size_t i = 1; i <= n; i++)
        j->log_factorials[i] = j->log_factorials[i - 1] + log((double)i);
    return QN_OK;
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

static int32_t random_below(qn_joining *j, int32_t n) {
    return (int32_t)(random_number(j) * n);
}

/* What is added to the score of a join of two pieces' groups: most of it is the same for equal
 * bytes at a time throughout a try, in which some are not joined at all. */
static double noise_of(const qn_joining *j, const qn_joined_piece *left,
                       const qn_joined_piece *right, size_t bytes) {
    const uint64_t try = j->n_tries * UINT64_C(0x9e3779b97f4a7c15);
    const uint64_t what = (uint64_t)left->upper * UINT64_C(0xd1342543de82ef95) +
                          (uint64_t)bytes * UINT64_C(0xaf251af3b0f025b5);
    const uint64_t whose = (uint64_t)left->lower * UINT64_C(0x8cb92ba72f3d8dd7) +
                           (uint64_t)right->upper * UINT64_C(0x9fb21c651e98df25);
    const double number = number_of(try ^ what), between = number_of(~try ^ (what + whose));
    if (j->noise > 0 && number < LEFT_OUT)
        return INFINITY;
    return j->noise * (number + NOISE_BETWEEN * between);
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

/* Counts what takes as long as so many sums. */
static void count_work(qn_joining *j, int32_t n_sums) {
    j->n_sums += n_sums;
    j->limits->work += j->n_sums / SUMS_BY_PLACEMENT;
    j->n_sums %= SUMS_BY_PLACEMENT;
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
    count_work(j, SUMS_BY_LIST + n);
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
static double log_arrangements(const qn_joining *j, int32_t n, int32_t k) {
    return j->log_factorials[n] - j->log_factorials[k] - j->log_factorials[n - k];
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
    const double score =
        log_arrangements(j, n[0], parts[0]) + log_arrangements(j, n[1], parts[1]) -
        log((double)bytes) +
        noise_of(j, &j->pieces[groups[0].pieces[0]], &j->pieces[groups[1].pieces[0]], bytes);
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

/* The sums that meet along one of a pinwheel's lines, of which the best is found: those of `alone`
 * are as many bytes as the middle's and those beside the middle. */
typedef struct meeting {
    double score; /* INFINITY: there is none */
    const sum *alone, *beside;
} meeting;

static meeting find_meeting(const qn_joining *j, const qn_pinwheel *w, const sum *middle,
                            int line) {
    const slot alone = line == 0 ? LEFT : RIGHT, beside = line == 0 ? TOP : BOTTOM;
    const int32_t n_alone = line == 0 ? w->n_ends[0] : w->n_begins[1];
    const int32_t n_others = line == 0 ? w->n_begins[0] : w->n_ends[1];
    meeting best = {.score = INFINITY};
    for (int32_t a = 0, b = 0; a < w->n_sums[alone] && b < w->n_sums[beside];) {
        const sum *x = &w->sums[alone][a], *y = &w->sums[beside][b];
        const size_t bytes = middle->bytes + y->bytes;
        if (x->bytes < bytes) {
            a++;
            continue;
        }
        b++;
        if (x->bytes > bytes)
            continue;
        const int parts = __builtin_popcount(middle->set) + __builtin_popcount(y->set);
        double score = log_arrangements(j, n_alone, __builtin_popcount(x->set)) +
                       log_arrangements(j, n_others, parts) - log((double)bytes);
        if (line == 0)
            score += noise_of(j, &j->pieces[w->groups[LEFT].pieces[0]],
                              &j->pieces[w->groups[TOP].pieces[0]], bytes);
        if (score < best.score)
            best = (meeting){score, x, y};
    }
    return best;
}

static void fill_pinwheel(const qn_pinwheel *w, const sum *middle, const meeting of[2],
                          qn_join *best) {
    best->n_slots = N_SLOTS;
    fill_slot(best, LEFT, &w->groups[LEFT], of[0].alone->set);
    fill_slot(best, RIGHT, &w->groups[RIGHT], of[1].alone->set);
    fill_slot(best, MIDDLE, &w->groups[MIDDLE], middle->set);
    fill_slot(best, TOP, &w->groups[TOP], of[0].beside->set);
    fill_slot(best, BOTTOM, &w->groups[BOTTOM], of[1].beside->set);
}

/* Looks at all sums of the groups that make a pinwheel. */
static void match_pinwheel(qn_joining *j, qn_pinwheel *w, qn_join *best) {
    int32_t n_others = 0;
    for (int i = 0; i < N_SLOTS; i++) {
        if (w->n_sums[i] == 0)
            w->n_sums[i] = list_sums(j, &w->groups[i], w->sums[i]);
        n_others += i == MIDDLE ? 0 : w->n_sums[i];
    }
    count_work(j, w->n_sums[MIDDLE] * (n_others / STEPS_BY_SUM + 1));
    for (int32_t m = 0; m < w->n_sums[MIDDLE]; m++) {
        const sum *middle = &w->sums[MIDDLE][m];
        meeting of[2];
        of[0] = find_meeting(j, w, middle, 0);
        if (of[0].score == INFINITY)
            continue;
        of[1] = find_meeting(j, w, middle, 1);
        const double score = of[0].score + of[1].score + j->pinwheel_score;
        if (score >= best->score)
            continue;
        best->score = score;
        fill_pinwheel(w, middle, of, best);
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
        w->n_sums[TOP] = w->n_sums[RIGHT] = 0;
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
        w->n_sums[MIDDLE] = w->n_sums[BOTTOM] = 0;
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
    for (int32_t i = 0; i < MOST_GROUPS && next_group(j, left, 1, done, i, &w->groups[LEFT]); i++) {
        w->n_sums[LEFT] = 0;
        look_for_middles(j, done[i], time, best);
    }
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

/* All boxes, with nothing joined, and all to be looked at. */
static void begin_anew(qn_joining *j) {
    const qn_packing_problem *p = j->problem;
    j->n_pieces = p->n;
    for (int32_t i = 0; i < p->n; i++) {
        const qn_packed_box *b = &p->boxes[i];
        j->pieces[i] =
            (qn_joined_piece){.bytes = b->bytes, .lower = b->lower, .upper = b->upper, .whole = -1};
    }
    memset(j->reasons, LOOK, (size_t)p->n_sections + 1);
    j->least = j->n_now = INT32_MAX;
    j->n_since = 0;
}

/* ---- taking apart: numbers[i] is -1 for what is ---- */

/* Picks a piece that is not part of another, and takes another one that might meet it out of all
 * that it is part of. */
static void part_where_one_might_meet(qn_joining *j) {
    int32_t n = 0, n_met = 0, one = 0, met = -1;
    for (int32_t i = 0; i < j->n_kept; i++)
        if (j->kept[i].whole < 0 && random_below(j, ++n) == 0)
            one = i;
    const int side = random_below(j, 2);
    const int other = random_below(j, 4) == 0 ? side : !side;
    const int32_t time = time_of(&j->kept[one], side);
    for (int32_t i = 0; i < j->n_kept; i++)
        if (j->kept[i].whole >= 0 && time_of(&j->kept[i], other) == time &&
            random_below(j, ++n_met) == 0)
            met = i;
    if (met >= j->problem->n && random_below(j, 3) == 0)
        j->numbers[met] = -1;
    while (met >= 0 && (met = j->kept[met].whole) >= 0)
        j->numbers[met] = -1;
}

/* Takes apart some of all that begins or ends at times [begin, end), and some of that again. */
static void part_some(qn_joining *j, int32_t begin, int32_t end, double outer, double inner) {
    for (int32_t i = j->n_kept - 1; i >= j->problem->n; i--) {
        const qn_joined_piece *piece = &j->kept[i];
        const bool is_outer = piece->whole < 0;
        const bool is_there = (piece->lower >= begin && piece->lower < end) ||
                              (piece->upper >= begin && piece->upper < end);
        if ((is_outer ? is_there : j->numbers[piece->whole] < 0) &&
            random_number(j) < (is_outer ? outer : inner))
            j->numbers[i] = -1;
    }
}

static void choose_parted(qn_joining *j) {
    static const double outers[4] = {0.3, 0.1, 0.2, 0.1}, inners[4] = {0.5, 0.9, 0.3, 1};
    const double kind = random_number(j);
    const int32_t n_times = j->problem->n_sections + 1;
    memset(j->numbers, 0, (size_t)j->n_kept * sizeof *j->numbers);
    if (kind < 0.6) {
        for (int32_t n = 1 + random_below(j, 4); n > 0; n--)
            part_where_one_might_meet(j);
    } else if (kind < 0.85) {
        const int32_t begin = random_below(j, n_times), end = begin + 1 + random_below(j, 3);
        const double outer = 0.3 + 0.7 * random_number(j);
        part_some(j, begin, end, outer, 0.2 + 0.8 * random_number(j));
    } else {
        const int32_t i = random_below(j, 4);
        part_some(j, 0, n_times, outers[i], inners[i]);
    }
}

/* What is kept, with some of it taken apart again, and those times to be looked at. */
static void begin_from_kept(qn_joining *j) {
    choose_parted(j);
    j->n_pieces = 0;
    memset(j->reasons, 0, (size_t)j->problem->n_sections + 1);
    for (int32_t i = 0; i < j->n_kept; i++)
        if (j->numbers[i] == 0)
            j->numbers[i] = j->n_pieces++;
    for (int32_t i = 0; i < j->n_kept; i++) {
        const int32_t whole = j->kept[i].whole;
        if (j->numbers[i] < 0)
            continue;
        qn_joined_piece *piece = &j->pieces[j->numbers[i]];
        *piece = j->kept[i];
        piece->whole = whole < 0 ? -1 : j->numbers[whole];
        if (whole >= 0 && piece->whole < 0)
            j->reasons[piece->lower] = j->reasons[piece->upper] = LOOK;
    }
}

/* ---- tries ---- */

/* Links the pieces that are not part of others and looks wherever there is a reason. */
static void look_where_parted(qn_joining *j) {
    const int32_t n_times = j->problem->n_sections + 1;
    for (int32_t t = 0; t < n_times; t++) {
        j->first[0][t] = j->first[1][t] = -1;
        j->joins[t].score = j->joins[n_times + t].score = INFINITY;
    }
    for (int32_t i = 0; i < j->n_pieces; i++)
        if (j->pieces[i].whole < 0)
            link_piece(j, i);
    for (int32_t t = 1; t < n_times - 1; t++)
        if (j->reasons[t] & LOOK)
            for (int32_t i = j->first[1][t]; i >= 0; i = j->pieces[i].next[1])
                j->reasons[j->pieces[i].lower] |= LOOK_FOR_PINWHEELS;
    for (int32_t t = 1; t < n_times - 1 && !has_no_work_left(j); t++) {
        if (j->reasons[t] & LOOK)
            look(j, t);
        if (j->reasons[t])
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

/* Keeps a try that is as good as what is kept, or not much worse. */
static bool keep_if_good(qn_joining *j) {
    const int32_t n = j->joined.n;
    const bool is_best = n <= j->least;
    j->n_since = n < j->least ? 0 : j->n_since + 1;
    j->least = is_best ? n : j->least;
    if (n > j->n_now && random_number(j) >= exp((j->n_now - n) / HEAT))
        return false;
    j->n_now = n;
    j->n_kept = j->n_pieces;
    memcpy(j->kept, j->pieces, (size_t)j->n_pieces * sizeof *j->pieces);
    return is_best && j->n_since % SEARCHED == 0;
}

bool qn_joining_try(qn_joining *j) {
    const uint64_t number = j->n_tries++;
    static const double noises[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    static const double pinwheels[4] = {0, -3, 2, -1};
    j->random = number * UINT64_C(0xd1342543de82ef95);
    j->noise = noises[number % 8];
    j->pinwheel_score = pinwheels[number / 2 % 4];
    if (j->n_kept == 0 || j->n_since >= SINCE_BY_BOX * j->problem->n)
        begin_anew(j);
    else
        begin_from_kept(j);
    count_work(j, j->n_pieces + j->problem->n_sections);
    look_where_parted(j);
    join_all(j);
    finish(j);
    return keep_if_good(j);
}

void qn_joining_place(qn_joining *j) {
    for (int32_t i = j->n_pieces - 1; i >= 0; i--)
        if (j->pieces[i].whole >= 0)
            j->pieces[i].offset += j->pieces[j->pieces[i].whole].offset;
}
