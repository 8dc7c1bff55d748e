/* Moves, and descent by them; see search.h. The score of a move is its reduction of the bytes above
 * the target, summed over time, for each nanosecond that it costs: Melon's metric of tensor size
 * times idle time divided by recomputation time (Wang et al., "Melon", MobiSys 2022, section 4.3),
 * counting only time in which memory exceeds the target. Scores are estimates; the best few moves
 * are measured. */
#include "plan/budget/search.h"

#include "base/status.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    KEEP_INPUTS,  /* what the repetition reads is kept for it */
    REMAKE_ALL,   /* it is made again as far as it is gone */
    REMAKE_CHEAP, /* it is made again where that costs less than keeping, at the last price */
    N_POLICIES
};

enum { MEASURED_MOVES = 6, MEASURED_FREE_MOVES = 3, MOST_MEASURED_MOVES = 48 };

/* What is kept longer for a move may cost so many times what it gains: runs that it leaves out give
 * some of that back. */
enum { MOST_LOSS = 4 };

/* Sequences may get so much longer. */
enum { MOST_TIMES = 6 };

qn_status qn_budget_search_init(qn_arena *arena, const qn_allocator *allocator,
                                const qn_budget_model *model, qn_budget_search *search) {
    const int32_t most_items = MOST_TIMES * model->n_turns + 16;
    const size_t n_items = (size_t)most_items + 2, n_turns = (size_t)model->n_turns + 1;
    *search = (qn_budget_search){
        .model = model, .allocator = allocator, .most_ns = INFINITY, .most_work = INT64_MAX};
    search->rng = qn_rng_make(1, qn_hash_text("budget"), 0);
    QN_TRY(qn_budget_trial_init(arena, model, most_items, &search->now));
    QN_TRY(qn_budget_trial_init(arena, model, most_items, &search->next));
    const size_t n_copies = (size_t)search->now.most_copies;
    search->item_of = qn_arena_allocate(arena, n_turns, sizeof *search->item_of);
    search->n_over = qn_arena_allocate(arena, n_items, sizeof *search->n_over);
    search->marks = qn_arena_allocate(arena, n_turns, sizeof *search->marks);
    search->again = qn_arena_allocate(arena, n_turns, sizeof *search->again);
    search->last_use = qn_arena_allocate(arena, n_copies, sizeof *search->last_use);
    search->items = qn_arena_allocate(arena, n_items + n_turns, sizeof *search->items);
    search->is_left_out = qn_arena_allocate(arena, n_items, sizeof *search->is_left_out);
    if (!search->item_of || !search->n_over || !search->marks || !search->again ||
        !search->last_use || !search->items || !search->is_left_out)
        return QN_ERROR_MEMORY;
    qn_budget_trial_begin(&search->now);
    return QN_OK;
}

void qn_budget_search_deinit(qn_budget_search *search) {
    qn_release(search->allocator, search->moves, search->move_capacity, sizeof *search->moves);
    search->moves = NULL;
    search->move_capacity = 0;
}

void qn_budget_search_restart(qn_budget_search *search) {
    qn_budget_search_deinit(search);
    search->n_moves = 0;
    search->n_drawn = 0;
    search->noise = 0;
    search->price = 0;
}

/* ---- what is known of the sequence at hand ---- */

static void look(qn_budget_search *s) {
    const qn_budget_trial *now = &s->now;
    s->n_over[0] = 0;
    for (int32_t i = 0; i < now->n_items; i++) {
        s->n_over[i + 1] = s->n_over[i] + (now->live_bytes[i] > (int64_t)s->target_bytes);
        if (!now->is_again[i])
            s->item_of[now->items[i]] = i;
    }
}

/* Items above the target in [from, to). */
static int32_t count_over(const qn_budget_search *s, int32_t from, int32_t to) {
    return to > from ? s->n_over[to] - s->n_over[from] : 0;
}

/* The copy of a value that an item put in front of another would read. */
static int32_t find_copy(const qn_budget_trial *trial, int32_t value, int32_t item) {
    int32_t c = trial->latest[value];
    while (trial->copies[c].first >= item)
        c = trial->copies[c].before;
    return c;
}

static size_t group_room(const qn_budget_trial *trial, int32_t group) {
    return trial->model->values[trial->copies[group].value].room;
}

/* ---- what a move makes again ---- */

typedef struct closure {
    double ns;   /* of what is made again, less what is left out for it */
    double loss; /* bytes times items above the target of what is kept longer */
    bool is_possible;
    bool has_later; /* something is made again later too */
} closure;

static void add_again(qn_budget_search *s, closure *c, int32_t turn, int32_t before) {
    const int32_t latest = s->model->turns[turn].latest;
    if (s->marks[turn] == s->mark)
        return;
    if (latest < 0 || (latest < s->model->n_turns && s->item_of[latest] < before)) {
        c->is_possible = false;
        return;
    }
    s->marks[turn] = s->mark;
    s->again[s->n_again++] = turn;
    c->ns += s->model->turns[turn].ns;
}

static bool can_run_again(const qn_budget_search *s, int32_t turn, int32_t before) {
    const int32_t latest = s->model->turns[turn].latest;
    return latest == s->model->n_turns || (latest >= 0 && s->item_of[latest] >= before);
}

/* Keeps an input of what is made again, or makes it again too. */
static void reach_input(qn_budget_search *s, const qn_budget_move *move, closure *c,
                        int32_t value) {
    const qn_budget_trial *now = &s->now;
    const int32_t turn = s->model->values[value].turn;
    if (s->marks[turn] == s->mark)
        return;
    const int32_t copy = find_copy(now, value, move->before), group = now->group_of[copy];
    if (group == move->group) {
        add_again(s, c, turn, move->before);
        return;
    }
    const int32_t last = now->groups[group].last;
    if (last >= move->before)
        return;
    const double loss = (double)group_room(now, group) * count_over(s, last + 1, move->before);
    const bool is_dear = move->policy == REMAKE_ALL || (move->policy == REMAKE_CHEAP &&
                                                        s->model->turns[turn].ns < s->price * loss);
    if (loss > 0 && is_dear && can_run_again(s, turn, move->before))
        add_again(s, c, turn, move->before);
    else
        c->loss += loss;
}

/* Where a turn runs again at or behind an item; -1: nowhere. */
static int32_t find_later(const qn_budget_search *s, int32_t turn, int32_t item) {
    const qn_budget_trial *now = &s->now;
    const qn_budget_turn *t = &s->model->turns[turn];
    int32_t found = -1;
    for (int32_t c = t->n_outputs > 0 ? now->latest[t->first_output] : -1;
         c >= 0 && now->copies[c].first >= item; c = now->copies[c].before)
        found = now->copies[c].first;
    return found >= 0 && s->now.is_again[found] ? found : -1;
}

/* The run of a turn whose results nothing reads in front of an item, in front of which it runs
 * again; -1: there is none. */
static int32_t find_idle(const qn_budget_search *s, int32_t turn, int32_t before) {
    const qn_budget_turn *t = &s->model->turns[turn];
    int32_t item = -1;
    for (int32_t k = 0; k < t->n_outputs; k++) {
        const qn_budget_copy *copy =
            &s->now.copies[find_copy(&s->now, t->first_output + k, before)];
        if (copy->first_read < before)
            return -1;
        item = copy->first;
    }
    return item;
}

/* Bytes of an item above the target. */
static double excess_at(const qn_budget_search *s, int32_t item) {
    const int64_t above = s->now.live_bytes[item] - (int64_t)s->target_bytes;
    return above > 0 ? (double)above : 0;
}

static void count_merges(const qn_budget_search *s, const qn_budget_move *move, closure *c) {
    for (int32_t i = 0; i < s->n_again; i++) {
        const qn_budget_turn *t = &s->model->turns[s->again[i]];
        const int32_t later = find_later(s, s->again[i], move->before);
        const int32_t idle = find_idle(s, s->again[i], move->before);
        const double excess = excess_at(s, move->before);
        c->ns -= idle >= 0 ? t->ns : 0;
        c->loss += idle >= 0 ? excess - excess_at(s, idle) : 0;
        if (later < 0)
            continue;
        c->has_later = true;
        if (!move->merges)
            continue;
        c->ns -= t->ns;
        for (int32_t k = 0; k < t->n_outputs; k++)
            c->loss += (double)s->model->values[t->first_output + k].room *
                       count_over(s, move->before, later);
    }
}

static int by_turn(const void *left, const void *right) {
    return *(const int32_t *)left - *(const int32_t *)right;
}

/* Fills s->again with the turns that a move makes again; without what may be left out for them.
 * What is kept longer for it may cost most_loss, or else it is given up as impossible. */
static closure close_over(qn_budget_search *s, const qn_budget_move *move, double most_loss) {
    const qn_budget_trial *now = &s->now;
    closure c = {.is_possible = true};
    s->mark++;
    s->n_again = 0;
    for (int32_t m = now->groups[move->group].members; m >= 0; m = now->copies[m].next_member) {
        if (now->copies[m].first < move->before && now->copies[m].last >= move->before)
            add_again(s, &c, s->model->values[now->copies[m].value].turn, move->before);
    }
    for (int32_t i = 0; i < s->n_again && c.is_possible; i++) {
        const qn_budget_turn *t = &s->model->turns[s->again[i]];
        for (int32_t r = 0; r < t->n_reads && c.is_possible; r++)
            reach_input(s, move, &c, s->model->reads[t->first_read + r].value);
        c.is_possible &= c.loss <= most_loss;
    }
    s->n_looks += s->n_again;
    return c;
}

/* The same, with what may be left out for them. */
static closure close_move(qn_budget_search *s, const qn_budget_move *move) {
    closure c = close_over(s, move, INFINITY);
    if (c.is_possible)
        count_merges(s, move, &c);
    return c;
}

/* ---- candidates ---- */

/* Bytes times items that are no longer above the target without the group. */
static double find_gain(const qn_budget_search *s, const qn_budget_move *move) {
    const int64_t room = (int64_t)group_room(&s->now, move->group);
    double gain = 0;
    for (int32_t i = move->after + 1; i < move->before; i++) {
        const int64_t above = s->now.live_bytes[i] - (int64_t)s->target_bytes;
        const int64_t less = above < room ? above : room;
        gain += less > 0 ? (double)less : 0;
    }
    return gain;
}

static double draw_factor(qn_budget_search *s) {
    if (s->noise <= 0)
        return 1;
    const double u = (double)qn_rng_uniform(qn_rng_word(s->rng, s->n_drawn++));
    return exp(s->noise * (2 * u - 1));
}

static qn_status add_move(qn_budget_search *s, const qn_budget_move *move) {
    QN_TRY(qn_grow(s->allocator, &s->moves, &s->move_capacity, s->n_moves + 1, sizeof *s->moves));
    s->moves[s->n_moves++] = *move;
    return QN_OK;
}

static double score(double gain, double ns) {
    return gain / (ns > 1 ? ns : 1);
}

/* Adds a move that seems to gain something. known: the closure of the one before, which is not
 * worth trying twice. */
static qn_status add_variant(qn_budget_search *s, qn_budget_move *move, double gain,
                             const closure *c, closure *known) {
    if (gain <= c->loss || (c->ns == known->ns && c->loss == known->loss) ||
        s->now.again_ns + c->ns > s->most_ns)
        return QN_OK;
    *known = *c;
    move->score = score(gain - c->loss, c->ns) * move->factor;
    move->is_free = c->ns <= 0;
    return add_move(s, move);
}

/* Adds the variants of letting a group go between two uses that seem to gain something. */
static qn_status add_moves(qn_budget_search *s, int32_t group, int32_t after, int32_t before) {
    qn_budget_move move = {.group = group, .after = after, .before = before};
    if (count_over(s, after + 1, before) == 0)
        return QN_OK;
    const double gain = find_gain(s, &move);
    closure known = {.ns = -1, .loss = -1};
    move.factor = draw_factor(s);
    for (move.policy = 0; move.policy < N_POLICIES; move.policy++) {
        const closure kept = close_over(s, &move, MOST_LOSS * gain);
        bool may_merge = true;
        for (int merges = 0; merges < 2 && kept.is_possible && may_merge; merges++) {
            closure c = kept;
            move.merges = merges;
            count_merges(s, &move, &c);
            QN_TRY(add_variant(s, &move, gain, &c, &known));
            may_merge = c.has_later;
        }
    }
    return QN_OK;
}

/* A use of a group: what lies between it and the use before is a stretch without one. */
static qn_status use_group(qn_budget_search *s, int32_t copy, int32_t item) {
    const int32_t group = s->now.group_of[copy];
    const int32_t last = s->last_use[group];
    s->last_use[group] = item;
    return last >= 0 && item > last + 1 ? add_moves(s, group, last, item) : QN_OK;
}

static qn_status find_moves(qn_budget_search *s) {
    const qn_budget_trial *now = &s->now;
    s->n_moves = 0;
    for (int32_t c = 0; c < now->n_copies; c++)
        s->last_use[c] = -1;
    for (int32_t i = 0; i < now->n_items; i++) {
        const qn_budget_turn *turn = &s->model->turns[now->items[i]];
        for (int32_t r = now->first_read[i]; r < now->first_read[i + 1]; r++)
            QN_TRY(use_group(s, now->read_copies[r], i));
        for (int32_t k = 0; k < turn->n_outputs; k++)
            QN_TRY(use_group(s, now->first_copy[i] + k, i));
    }
    return QN_OK;
}

/* ---- making a move ---- */

/* Writes the sequence after a move into s->items; returns its length, or 0: it is too long. */
static int32_t write_move(qn_budget_search *s, const qn_budget_move *move) {
    const qn_budget_trial *now = &s->now;
    const closure c = close_move(s, move);
    int32_t n = 0;
    if (!c.is_possible || now->n_items + s->n_again > now->most_items)
        return 0;
    qsort(s->again, (size_t)s->n_again, sizeof *s->again, by_turn);
    for (int32_t i = 0; i < s->n_again; i++) {
        const int32_t idle = find_idle(s, s->again[i], move->before);
        if (idle >= 0)
            s->is_left_out[idle] = true;
    }
    for (int32_t i = 0; i < move->before; i++) {
        if (!s->is_left_out[i])
            s->items[n++] = now->items[i];
        s->is_left_out[i] = false;
    }
    memcpy(s->items + n, s->again, (size_t)s->n_again * sizeof *s->items);
    n += s->n_again;
    for (int32_t i = move->before; i < now->n_items; i++) {
        const int32_t turn = now->items[i];
        const bool is_left_out = move->merges && s->now.is_again[i] && s->marks[turn] == s->mark;
        if (is_left_out)
            s->marks[turn] = 0; /* one later repetition is merged, the next is not */
        else
            s->items[n++] = turn;
    }
    return n;
}

/* Measures the sequence in s->items as s->next. */
static bool try_items(qn_budget_search *s, int32_t n_items) {
    if (n_items == 0 || !qn_budget_trial_has_room(&s->next, s->items, n_items))
        return false;
    qn_budget_trial_set(&s->next, s->items, n_items);
    s->work += n_items;
    return true;
}

static void take_next(qn_budget_search *s) {
    const qn_budget_trial kept = s->now;
    s->now = s->next;
    s->next = kept;
}

static int by_score(const void *left, const void *right) {
    const qn_budget_move *a = left, *b = right;
    if (a->score != b->score)
        return a->score < b->score ? 1 : -1;
    return a->before != b->before ? b->before - a->before : a->group - b->group;
}

/* Makes the best of the moves that were measured; false: none gains anything. */
static bool make_best(qn_budget_search *s) {
    const qn_budget_move *last = NULL; /* that s->next is of */
    const double excess = qn_budget_trial_excess(&s->now, s->target_bytes);
    const qn_budget_move *best = NULL;
    double best_score = 0, best_price = 0;
    int n_measured = 0, n_free = 0;
    for (size_t i = 0; i < s->n_moves && n_measured < MOST_MEASURED_MOVES; i++) {
        if (s->moves[i].is_free && n_free++ >= MEASURED_FREE_MOVES)
            continue;
        if (n_measured++ >= MEASURED_MOVES && best)
            break;
        if (!try_items(s, write_move(s, &s->moves[i])))
            continue;
        last = &s->moves[i];
        const double gain = excess - qn_budget_trial_excess(&s->next, s->target_bytes);
        const double ns = s->next.again_ns - s->now.again_ns;
        const double measured = score(gain, ns) * s->moves[i].factor;
        if (gain <= 0 || measured <= best_score || s->next.again_ns > s->most_ns)
            continue;
        best = &s->moves[i];
        best_score = measured;
        best_price = ns > 0 ? ns / gain : 0;
    }
    if (!best)
        return false;
    if (best == last)
        s->work += s->next.n_items;
    else if (!try_items(s, write_move(s, best)))
        return false;
    s->price = best_price > s->price ? best_price : s->price;
    take_next(s);
    return true;
}

qn_status qn_budget_search_descend(qn_budget_search *s, bool *holds) {
    for (;;) {
        *holds = s->now.peak_bytes <= s->target_bytes;
        if (*holds || s->work > s->most_work)
            return QN_OK;
        look(s);
        QN_TRY(find_moves(s));
        if (s->n_moves > 0)
            qsort(s->moves, s->n_moves, sizeof *s->moves, by_score);
        if (!make_best(s))
            return QN_OK;
    }
}

/* ---- leaving out ---- */

/* Writes the sequence without an item into s->items. */
static int32_t write_without(qn_budget_search *s, int32_t item) {
    const int32_t n = s->now.n_items;
    memcpy(s->items, s->now.items, (size_t)item * sizeof *s->items);
    memcpy(s->items + item, s->now.items + item + 1, (size_t)(n - item - 1) * sizeof *s->items);
    return n - 1;
}

/* The dearest repetition that costs less than `below`, or as much and stands behind `behind`;
 * -1: none. */
static int32_t find_dearest(const qn_budget_search *s, double below, int32_t behind) {
    int32_t found = -1;
    double found_ns = -1;
    for (int32_t i = 0; i < s->now.n_items; i++) {
        const double ns = s->model->turns[s->now.items[i]].ns;
        if (!s->now.is_again[i] || ns > below || (ns == below && i <= behind) || ns <= found_ns)
            continue;
        found = i;
        found_ns = ns;
    }
    return found;
}

/* Whether nothing reads what an item makes and its turn runs more than once. */
static bool is_useless(const qn_budget_search *s, int32_t item) {
    const qn_budget_trial *now = &s->now;
    const qn_budget_turn *turn = &s->model->turns[now->items[item]];
    bool is_read = turn->n_outputs == 0;
    for (int32_t k = 0; k < turn->n_outputs; k++)
        is_read |= now->copies[now->first_copy[item] + k].last > item;
    return !is_read && now->copies[now->latest[turn->first_output]].before >= 0;
}

static void drop_useless(qn_budget_search *s) {
    for (int32_t i = s->now.n_items - 1; i >= 0; i--) {
        if (is_useless(s, i) && try_items(s, write_without(s, i)))
            take_next(s);
    }
    look(s);
}

void qn_budget_search_prune(qn_budget_search *s) {
    double below = INFINITY;
    int32_t behind = -1;
    drop_useless(s);
    for (;;) {
        const int32_t item = find_dearest(s, below, behind);
        if (item < 0)
            break;
        below = s->model->turns[s->now.items[item]].ns;
        behind = item;
        if (!try_items(s, write_without(s, item)) || s->next.peak_bytes > s->target_bytes)
            continue;
        take_next(s);
        look(s);
        behind = item - 1;
    }
    drop_useless(s);
}

/* ---- another way ---- */

static double draw(qn_budget_search *s) {
    return (double)qn_rng_uniform(qn_rng_word(s->rng, s->n_drawn++));
}

/* Writes the sequence into s->items, within a stretch without some repetitions, or without all and
 * in the usual order. */
static int32_t write_ruined(qn_budget_search *s) {
    const qn_budget_trial *now = &s->now;
    const uint64_t n = (uint64_t)now->n_items;
    const int32_t reach = (int32_t)(n >> (1 + qn_rng_below(s->rng, s->n_drawn++, 7)));
    const int32_t middle = (int32_t)qn_rng_below(s->rng, s->n_drawn++, n);
    const bool is_usual = draw(s) < 0.5;
    const double share = is_usual ? 2 : 0.1 + 0.9 * draw(s);
    int32_t length = 0, begin = -1, end = 0;
    for (int32_t i = 0; i < now->n_items; i++) {
        const bool is_near = i >= middle - reach && i <= middle + reach;
        if (is_near && now->is_again[i] && draw(s) < share)
            continue;
        if (is_near && begin < 0)
            begin = length;
        s->items[length++] = now->items[i];
        end = is_near ? length : end;
    }
    if (is_usual && begin >= 0)
        qsort(s->items + begin, (size_t)(end - begin), sizeof *s->items, by_turn);
    return length;
}

qn_status qn_budget_search_vary(qn_budget_search *s, bool *holds) {
    s->noise = 2 * draw(s);
    look(s);
    if (try_items(s, write_ruined(s)))
        take_next(s);
    QN_TRY(qn_budget_search_descend(s, holds));
    if (*holds)
        qn_budget_search_prune(s);
    return QN_OK;
}
