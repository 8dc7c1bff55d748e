/* See layers.h. */
#include "plan/budget/layers.h"

#include <math.h>
#include <string.h>

/* More pieces than these are too many to be weighed against one another: every second is joined to
 * the one before. */
enum { MOST_PIECES = 128 };

/* ---- where the forward part can be cut ---- */

static bool makes_gradient(const qn_budget_model *model, int32_t turn) {
    const qn_node *node = model->graph->nodes[model->turns[turn].node];
    return node->n_outputs > 0 &&
           model->graph->values[node->outputs[0].id]->kind == QN_KIND_GRADIENT;
}

static int32_t count_forward(const qn_budget_model *model) {
    int32_t n = 0;
    while (n < model->n_turns && !makes_gradient(model, n))
        n++;
    return n;
}

/* last[v]: the last turn of the forward part that reads value v. */
static void find_last(const qn_budget_layers *l, int32_t *last) {
    const qn_budget_model *m = l->model;
    for (int32_t v = 0; v < m->n_values; v++)
        last[v] = -1;
    for (int32_t t = 0; t < l->n_forward; t++) {
        for (int32_t r = 0; r < m->turns[t].n_reads; r++)
            last[m->reads[m->turns[t].first_read + r].value] = t;
    }
}

/* Behind turn t, values that lead on: their number, and the last of them. */
static int32_t find_cuts(qn_budget_layers *l, const int32_t *last, int32_t *n_ending) {
    const qn_budget_model *m = l->model;
    int32_t n = 1, n_open = 0, sum = 0;
    for (int32_t v = 0; v < m->n_values; v++) {
        if (last[v] > m->values[v].turn)
            n_ending[last[v]]++;
    }
    l->pieces[0] = (qn_layers_piece){.begin = 0, .value = -1};
    for (int32_t t = 0; t < l->n_forward; t++) {
        int32_t own = -1;
        n_open -= n_ending[t];
        for (int32_t k = 0; k < m->turns[t].n_outputs; k++) {
            const int32_t v = m->turns[t].first_output + k;
            if (last[v] > t) {
                own = v;
                n_open++;
            }
        }
        sum += own >= 0 && n_open == 1;
        if (own >= 0 && n_open == 1 && t + 1 < l->n_forward)
            l->pieces[n++] =
                (qn_layers_piece){.begin = t + 1, .value = own, .kept = m->values[own].room};
    }
    l->pieces[n] = (qn_layers_piece){.begin = l->n_forward, .value = -1};
    return sum > 0 ? n : 1;
}

static void thin(qn_budget_layers *l) {
    while (l->n_pieces > MOST_PIECES) {
        int32_t n = 0;
        for (int32_t j = 0; j < l->n_pieces; j += 2)
            l->pieces[n++] = l->pieces[j];
        l->pieces[n] = l->pieces[l->n_pieces];
        l->n_pieces = n;
    }
}

/* ---- what pieces take ---- */

/* Whether a turn of the forward part may run again at all. */
static bool may_repeat(const qn_budget_model *m, int32_t turn) {
    return m->turns[turn].latest >= 0;
}

/* Marks what the marked turns of a piece read of it. */
static void close_marks(qn_budget_layers *l, int32_t begin, int32_t end) {
    const qn_budget_model *m = l->model;
    for (int32_t t = end - 1; t >= begin; t--) {
        for (int32_t r = 0; l->is_marked[t] && r < m->turns[t].n_reads; r++) {
            const int32_t maker = m->values[m->reads[m->turns[t].first_read + r].value].turn;
            if (maker >= begin && may_repeat(m, maker))
                l->is_marked[maker] = true;
        }
    }
}

static double marked_ns(const qn_budget_layers *l, int32_t begin, int32_t end) {
    double ns = 0;
    for (int32_t t = begin; t < end; t++)
        ns += l->is_marked[t] ? l->model->turns[t].ns : 0;
    return ns;
}

/* is_marked: turns of which gradients read something. */
static void weigh_piece(qn_budget_layers *l, int32_t j) {
    const qn_budget_model *m = l->model;
    qn_layers_piece *p = &l->pieces[j];
    const int32_t next = p[1].value;
    for (int32_t t = p->begin; t < p[1].begin; t++) {
        for (int32_t k = 0; l->is_marked[t] && k < m->turns[t].n_outputs; k++) {
            const int32_t v = m->turns[t].first_output + k;
            p->inside += v != next ? m->values[v].room : 0;
        }
    }
    close_marks(l, p->begin, p[1].begin);
    p->again_ns = marked_ns(l, p->begin, p[1].begin);
    if (next >= 0 && may_repeat(m, m->values[next].turn))
        l->is_marked[m->values[next].turn] = true;
    close_marks(l, p->begin, p[1].begin);
    p->on_ns = marked_ns(l, p->begin, p[1].begin) - p->again_ns;
}

/* Gradients that are still there when those of all layers are made belong to the piece whose values
 * made them. */
static void weigh_gradients(qn_budget_layers *l, int32_t *last) {
    const qn_budget_model *m = l->model;
    int32_t end = l->n_forward, piece = l->n_pieces - 1;
    for (int32_t t = l->n_forward; t < m->n_turns; t++) {
        for (int32_t r = 0; r < m->turns[t].n_reads; r++) {
            const int32_t v = m->reads[m->turns[t].first_read + r].value;
            last[v] = t;
            end = m->values[v].turn < l->n_forward ? t : end;
        }
    }
    for (int32_t t = l->n_forward; t <= end && t < m->n_turns; t++) {
        for (int32_t r = 0; r < m->turns[t].n_reads; r++) {
            const int32_t maker = m->values[m->reads[m->turns[t].first_read + r].value].turn;
            if (maker < l->n_forward && l->piece_of[maker] < piece)
                piece = l->piece_of[maker];
        }
        for (int32_t k = 0; k < m->turns[t].n_outputs; k++) {
            const int32_t v = m->turns[t].first_output + k;
            l->pieces[piece].gradients += last[v] > end ? m->values[v].room : 0;
        }
    }
}

/* Marks what gradients read. */
static void find_readers(qn_budget_layers *l) {
    const qn_budget_model *m = l->model;
    for (int32_t t = 0; t < m->n_turns; t++)
        l->last_read[t] = -1;
    for (int32_t t = l->n_forward; t < m->n_turns; t++) {
        for (int32_t r = 0; r < m->turns[t].n_reads; r++) {
            const int32_t maker = m->values[m->reads[m->turns[t].first_read + r].value].turn;
            l->is_marked[maker] = true;
            l->last_read[maker] = t;
        }
    }
}

static void weigh(qn_budget_layers *l, int32_t *last) {
    size_t all = 0, largest = 0;
    find_readers(l);
    for (int32_t j = 0; j < l->n_pieces; j++) {
        for (int32_t t = l->pieces[j].begin; t < l->pieces[j + 1].begin; t++)
            l->piece_of[t] = j;
        weigh_piece(l, j);
    }
    weigh_gradients(l, last);
    for (int32_t j = 0; j < l->n_pieces; j++) {
        const qn_layers_piece *p = &l->pieces[j];
        all += p->kept + p->gradients;
        largest = p->inside > largest ? p->inside : largest;
    }
    l->least = largest;
    l->most = all + 2 * largest;
}

qn_status qn_budget_layers_init(qn_arena *arena, const qn_budget_model *model,
                                qn_budget_layers *l) {
    const size_t n_turns = (size_t)model->n_turns + 2, n_values = (size_t)model->n_values + 1;
    *l = (qn_budget_layers){.model = model, .n_forward = count_forward(model)};
    l->pieces = qn_arena_allocate(arena, n_turns, sizeof *l->pieces);
    l->piece_of = qn_arena_allocate(arena, n_turns, sizeof *l->piece_of);
    l->is_marked = qn_arena_allocate(arena, n_turns, sizeof *l->is_marked);
    l->is_remade = qn_arena_allocate(arena, n_turns, sizeof *l->is_remade);
    l->last_read = qn_arena_allocate(arena, n_turns, sizeof *l->last_read);
    int32_t *last = qn_arena_allocate(arena, n_values, sizeof *last);
    int32_t *n_ending = qn_arena_allocate(arena, n_turns, sizeof *n_ending);
    if (!l->pieces || !l->piece_of || !l->is_marked || !l->is_remade || !l->last_read || !last ||
        !n_ending)
        return QN_ERROR_MEMORY;
    find_last(l, last);
    l->n_pieces = l->n_forward < model->n_turns ? find_cuts(l, last, n_ending) : 0;
    thin(l);
    if (l->n_pieces < QN_LAYERS_PIECES)
        return QN_OK;
    weigh(l, last);
    const size_t n = (size_t)l->n_pieces + 1;
    l->is_kept = qn_arena_allocate(arena, n, sizeof *l->is_kept);
    l->cost = qn_arena_allocate(arena, n * n, sizeof *l->cost);
    l->held = qn_arena_allocate(arena, n * n, sizeof *l->held);
    l->from = qn_arena_allocate(arena, n * n, sizeof *l->from);
    return l->is_kept && l->cost && l->held && l->from ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- which values are kept ---- */

static size_t cell(const qn_budget_layers *l, int32_t piece, int32_t n_kept) {
    return (size_t)piece * ((size_t)l->n_pieces + 1) + (size_t)n_kept;
}

/* From a run of pieces that begins at i, behind n_kept values, on to every run that may follow.
 * What the last run made is still there. */
static void go_on(qn_budget_layers *l, int32_t i, int32_t n_kept, const size_t *behind,
                  size_t limit) {
    const size_t at = cell(l, i, n_kept);
    const size_t held = l->held[at] + l->pieces[i].kept + behind[i];
    size_t inside = 0;
    double ns = l->cost[at];
    for (int32_t j = i + 1; j <= l->n_pieces; j++) {
        inside += l->pieces[j - 1].inside;
        ns = j < l->n_pieces ? ns + l->pieces[j - 1].again_ns : l->cost[at];
        if (held + inside > limit)
            return;
        const size_t to = cell(l, j, n_kept + 1);
        if (ns < l->cost[to]) {
            l->cost[to] = ns;
            l->held[to] = l->held[at] + l->pieces[i].kept;
            l->from[to] = i;
        }
        inside += l->pieces[j].kept; /* where both are one run, it is made again */
        ns += l->pieces[j - 1].on_ns;
    }
}

/* The cheapest runs of pieces, of which each takes no more than the limit while its gradients are
 * made. False: there are none. */
static bool choose(qn_budget_layers *l, size_t limit) {
    const int32_t n = l->n_pieces;
    size_t behind[MOST_PIECES + 1] = {0};
    for (int32_t j = n - 1; j >= 0; j--)
        behind[j] = l->pieces[j].gradients + (j + 1 < n ? behind[j + 1] : 0);
    for (size_t k = 0; k < cell(l, n, n) + 1; k++)
        l->cost[k] = INFINITY;
    l->cost[0] = 0;
    l->held[0] = 0;
    for (int32_t i = 0; i < n; i++) {
        for (int32_t k = 0; k <= i; k++) {
            if (l->cost[cell(l, i, k)] < INFINITY)
                go_on(l, i, k, behind, limit);
        }
    }
    int32_t best = 0;
    for (int32_t k = 1; k <= n; k++) {
        if (l->cost[cell(l, n, k)] < (best ? l->cost[cell(l, n, best)] : INFINITY))
            best = k;
    }
    memset(l->is_kept, 0, (size_t)n * sizeof *l->is_kept);
    for (int32_t j = n, k = best; k > 0; k--) {
        j = l->from[cell(l, j, k)];
        l->is_kept[j] = true;
    }
    return best > 0;
}

/* ---- sequences ---- */

typedef struct writing {
    qn_budget_layers *layers;
    int32_t *items, *n_items;
    int32_t last_begin; /* of the last run, whose values are kept */
} writing;

/* The first turn of the run that a turn lies in. */
static int32_t run_begin(const qn_budget_layers *l, int32_t turn) {
    int32_t j = l->piece_of[turn];
    while (!l->is_kept[j])
        j--;
    return l->pieces[j].begin;
}

/* Whether what a turn makes is there no more. */
static bool is_dropped(const writing *w, int32_t turn) {
    const qn_budget_layers *l = w->layers;
    if (turn >= w->last_begin || l->is_remade[turn] || !may_repeat(l->model, turn))
        return false;
    const qn_layers_piece *next = &l->pieces[l->piece_of[turn] + 1];
    const bool leads_on = next->value >= 0 && l->model->values[next->value].turn == turn;
    return !leads_on || !l->is_kept[l->piece_of[turn] + 1];
}

/* Runs a turn again, and before it what it reads. */
static void make_again(writing *w, int32_t turn) {
    qn_budget_layers *l = w->layers;
    const qn_budget_model *m = l->model;
    if (turn >= l->n_forward || !is_dropped(w, turn))
        return;
    const int32_t begin = run_begin(l, turn);
    l->is_marked[turn] = true;
    for (int32_t t = turn; t >= begin; t--) {
        for (int32_t r = 0; l->is_marked[t] && r < m->turns[t].n_reads; r++) {
            const int32_t maker = m->values[m->reads[m->turns[t].first_read + r].value].turn;
            l->is_marked[maker] |= maker >= begin && is_dropped(w, maker);
        }
    }
    for (int32_t t = begin; t <= turn; t++) {
        if (!l->is_marked[t])
            continue;
        l->is_marked[t] = false;
        l->is_remade[t] = true;
        w->items[(*w->n_items)++] = t;
    }
}

/* What is left of a run to be made again, before a turn overwrites what it reads. */
static void make_before(writing *w, int32_t turn) {
    qn_budget_layers *l = w->layers;
    for (int32_t f = 0; f < w->last_begin; f++) {
        if (l->model->turns[f].latest != turn || !is_dropped(w, f))
            continue;
        for (int32_t g = f; g < w->last_begin && run_begin(l, g) == run_begin(l, f); g++) {
            if (l->last_read[g] > turn)
                make_again(w, g);
        }
    }
}

static bool is_update(const qn_budget_model *m, int32_t turn) {
    return m->turns[turn].n_outputs < m->graph->nodes[m->turns[turn].node]->n_outputs;
}

static void write_items(writing *w) {
    const qn_budget_layers *l = w->layers;
    const qn_budget_model *m = l->model;
    for (int32_t t = 0; t < l->n_forward; t++)
        w->items[(*w->n_items)++] = t;
    for (int32_t t = l->n_forward; t < m->n_turns; t++) {
        if (is_update(m, t))
            make_before(w, t);
        for (int32_t r = 0; r < m->turns[t].n_reads; r++)
            make_again(w, m->values[m->reads[m->turns[t].first_read + r].value].turn);
        w->items[(*w->n_items)++] = t;
    }
}

bool qn_budget_layers_propose(qn_budget_layers *l, int number, int32_t *items, int32_t *n_items) {
    const size_t step = (l->most - l->least) / QN_LAYERS_PROPOSALS + 1;
    writing w = {.layers = l, .items = items, .n_items = n_items};
    *n_items = 0;
    if (!choose(l, l->most - step * (size_t)number))
        return false;
    for (int32_t j = 0; j < l->n_pieces; j++)
        w.last_begin = l->is_kept[j] ? l->pieces[j].begin : w.last_begin;
    memset(l->is_marked, 0, (size_t)l->model->n_turns * sizeof *l->is_marked);
    memset(l->is_remade, 0, (size_t)l->model->n_turns * sizeof *l->is_remade);
    write_items(&w);
    return true;
}
