/* Finding a plan within a limit; see budget.h. The search limits live bytes to a target, which is
 * lowered while the real top of the packing exceeds the limit. */
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "plan/budget/layers.h"
#include "plan/budget/search.h"
#include "plan/budget/swap_or_recompute.h"

#include <math.h>
#include <string.h>

/* Of most_work 0: a sequence is measured so often, less often where there are few turns to choose
 * from; and so many items more where there are more, which takes some tenths of a second. */
enum {
    USUAL_MEASURES = 4000,
    FEW_MEASURES = 1500,
    LAYERS_MEASURES = 300, /* which are near the best from the beginning */
    FEW_TURNS = 64,
    MOST_MORE_ITEMS = 12000000,
    MORE_BY_CUBE = 4
};

/* As much as qn_plan_pack searches, and what is spent on one of many sequences. */
enum { FULL_PACKING_WORK = 1 << 21, PACKING_WORK = FULL_PACKING_WORK / 4 };
/* Placing a box beside n others takes as long as measuring n / PLACEMENTS_BY_ITEM items. */
enum { PLACEMENTS_BY_ITEM = 4 };
/* How much dearer than the best a sequence may be to be gone on from, at first. */
static const double most_dearer = 0.06;

enum { MOST_LOWERINGS = 12, MOST_REPAIRS = 3, MOST_HALVINGS = 7, MOST_FURTHER = 96 };

/* The least arena: it is looked for until this part of it lies above what no arena is below, or so
 * many items were measured and turns looked at. */
enum { NEAR_BOUND = 128, MOST_LEAST_WORK = 12000000 };

typedef struct finding {
    qn_counter counter;
    qn_allocator allocator; /* counts in counter */
    const qn_graph *graph;
    const qn_machine *machine;
    const qn_budget_options *options;
    int64_t begin_ns;
    size_t limit;
    qn_arena arena;
    qn_budget_model model;
    qn_budget_search search;
    qn_box *boxes;       /* room for a trial's storages */
    int32_t *best_items; /* (n_best_items): the cheapest sequence within the limit */
    int32_t n_best_items;
    size_t *best_offsets;   /* of its storages */
    int32_t *current_items; /* (n_current_items): what is varied */
    int32_t n_current_items;
    int64_t packing_work; /* by boxes, of one search for a packing */
    double best_ns;       /* of what runs again in it */
} finding;

static qn_status prepare(finding *f) {
    qn_arena_init(&f->arena, &f->allocator);
    QN_TRY(qn_budget_model_init(&f->allocator, f->graph, f->machine, f->options, &f->model));
    QN_TRY(qn_budget_search_init(&f->arena, &f->allocator, &f->model, &f->search));
    const size_t n_items = (size_t)f->search.now.most_items + 1;
    f->boxes =
        qn_arena_allocate(&f->arena, n_items + (size_t)f->search.now.most_copies, sizeof *f->boxes);
    f->best_offsets = qn_arena_allocate(&f->arena, n_items + (size_t)f->search.now.most_copies,
                                        sizeof *f->best_offsets);
    f->best_items = qn_arena_allocate(&f->arena, n_items, sizeof *f->best_items);
    f->current_items = qn_arena_allocate(&f->arena, n_items, sizeof *f->current_items);
    const bool has_all = f->boxes && f->best_offsets && f->best_items && f->current_items;
    return has_all ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status start(finding *f, const qn_allocator *allocator, const qn_graph *graph,
                       const qn_machine *machine, const qn_budget_options *options) {
    *f = (finding){.graph = graph,
                   .machine = machine,
                   .options = options,
                   .begin_ns = qn_clock_ns(),
                   .packing_work = FULL_PACKING_WORK,
                   .limit = options->arena_bytes};
    f->allocator = qn_counter_init(&f->counter, qn_allocator_or_default(allocator));
    return prepare(f);
}

static void finish(finding *f) {
    qn_budget_search_deinit(&f->search);
    qn_budget_model_deinit(&f->model);
    qn_arena_deinit(&f->arena);
}

/* ---- the packing's top ---- */

/* Whether a packing that the greedy orders have left above the limit is worth a search. */
static bool may_be_lower(const finding *f, const qn_packing *packing) {
    const size_t peak = f->search.now.peak_bytes;
    return packing->top_bytes > f->limit && packing->top_bytes > peak &&
           (peak <= f->limit || f->limit == 0);
}

/* Of the sequence at hand: greedily, and then by search. A limit of 0: as low as possible. */
static qn_status find_top(finding *f, size_t *top) {
    qn_budget_search *s = &f->search;
    const int32_t n = s->now.n_storages;
    qn_packing_options options = {.capacity = f->limit};
    qn_packing packing;
    qn_budget_trial_boxes(&s->now, f->boxes);
    QN_TRY(qn_pack(&f->allocator, f->boxes, n, &options, &packing));
    if (may_be_lower(f, &packing)) {
        options.most_work = f->packing_work / (1 + n);
        QN_TRY(qn_pack(&f->allocator, f->boxes, n, &options, &packing));
        s->work += packing.work * n / PLACEMENTS_BY_ITEM;
    }
    *top = packing.top_bytes;
    return QN_OK;
}

static void keep_best(finding *f) {
    const qn_budget_trial *now = &f->search.now;
    memcpy(f->best_items, now->items, (size_t)now->n_items * sizeof *f->best_items);
    for (int32_t s = 0; s < now->n_storages; s++)
        f->best_offsets[s] = f->boxes[s].offset;
    f->n_best_items = now->n_items;
    f->best_ns = now->again_ns;
}

static void keep_current(finding *f) {
    const qn_budget_trial *now = &f->search.now;
    memcpy(f->current_items, now->items, (size_t)now->n_items * sizeof *f->current_items);
    f->n_current_items = now->n_items;
}

static void lower_target(finding *f, size_t top) {
    const size_t least = f->limit / 512 + QN_ALIGNMENT, above = top - f->limit;
    const size_t less = above > least ? above : least;
    const size_t from = f->search.now.peak_bytes;
    f->search.target_bytes = from > less ? from - less : 0;
}

/* Whether the packing of the sequence at hand is within the limit; it is the best then, if it is
 * the cheapest. */
static qn_status check_fit(finding *f, size_t *top, bool *fits) {
    QN_TRY(find_top(f, top));
    if (*top > f->limit)
        return QN_OK;
    *fits = true;
    if (f->search.now.again_ns < f->best_ns)
        keep_best(f);
    return QN_OK;
}

/* Descends from the sequence at hand until the packing is within the limit; *fits: it is. */
static qn_status fit(finding *f, bool *fits) {
    *fits = false;
    for (int i = 0; i < MOST_LOWERINGS && !*fits; i++) {
        bool holds;
        size_t top;
        QN_TRY(qn_budget_search_descend(&f->search, &holds));
        if (!holds)
            return QN_OK;
        QN_TRY(check_fit(f, &top, fits));
        qn_budget_search_prune(&f->search);
        QN_TRY(check_fit(f, &top, fits));
        if (!*fits)
            lower_target(f, top);
    }
    return QN_OK;
}

/* Varies the current sequence once; while the packing of one that is not above most_ns is above the
 * limit, on to a lower target. What fits is the current sequence then. */
static qn_status vary(finding *f, double most_ns) {
    qn_budget_search *s = &f->search;
    bool holds, fits = false;
    size_t top;
    s->target_bytes = f->limit;
    qn_budget_trial_set(&s->now, f->current_items, f->n_current_items);
    QN_TRY(qn_budget_search_vary(s, &holds));
    for (int i = 0; i < MOST_REPAIRS && holds && !fits && s->now.again_ns < most_ns; i++) {
        QN_TRY(check_fit(f, &top, &fits));
        if (fits)
            break;
        lower_target(f, top);
        QN_TRY(qn_budget_search_descend(s, &holds));
        if (holds)
            qn_budget_search_prune(s);
    }
    if (fits)
        keep_current(f);
    return QN_OK;
}

static bool has_work(const finding *f) {
    const int64_t most_ns = f->options->most_ns;
    return f->search.work < f->search.most_work &&
           (most_ns <= 0 || qn_clock_ns() - f->begin_ns < most_ns);
}

/* Varies the best sequence as long as there is work left; what is a little dearer is gone on from,
 * the less the later (threshold accepting: Dueck and Scheuer 1990). */
static qn_status improve(finding *f) {
    qn_budget_search *s = &f->search;
    const int64_t begin = s->work;
    f->packing_work = PACKING_WORK;
    keep_current(f);
    while (has_work(f) && f->best_ns > 0) {
        const double left = (double)(s->most_work - s->work) / (double)(s->most_work - begin);
        QN_TRY(vary(f, f->best_ns * (1 + most_dearer * left)));
    }
    s->noise = 0;
    s->target_bytes = f->limit;
    qn_budget_trial_set(&s->now, f->best_items, f->n_best_items);
    return QN_OK;
}

/* ---- plans ---- */

/* Puts the storages of the best sequence's plan where the search has put them; false: they are not
 * those of the search. */
static bool place(const finding *f, qn_plan *plan) {
    const qn_budget_trial *now = &f->search.now;
    int32_t n = 0;
    size_t top = 0;
    for (int32_t s = 0; s < plan->n_storages; s++) {
        const qn_storage *storage = &plan->storages[s];
        if (storage->is_bound || storage->space != 0)
            continue;
        if (n == now->n_storages || storage->bytes != now->storages[n].room)
            return false;
        n++;
    }
    if (n != now->n_storages)
        return false;
    n = 0;
    for (int32_t s = 0; s < plan->n_storages; s++) {
        qn_storage *storage = &plan->storages[s];
        if (storage->is_bound || storage->space != 0)
            continue;
        storage->offset = f->best_offsets[n++];
        top = storage->offset + storage->bytes > top ? storage->offset + storage->bytes : top;
    }
    plan->arena_bytes = top;
    return true;
}

static qn_status make_plan(finding *f, const qn_allocator *allocator, qn_budget_plan *made) {
    qn_sequence sequence;
    qn_sequence_init(&sequence, &f->allocator);
    qn_status status = qn_budget_trial_write(&f->search.now, &sequence);
    if (status == QN_OK)
        status = qn_budget_plan_make(allocator, f->graph, f->machine, &sequence, made);
    qn_sequence_deinit(&sequence);
    if (status != QN_OK)
        return status;
    made->base_ns = f->model.base_ns;
    made->extra_ns = f->search.now.again_ns;
    if (qn_plan_bytes(made->plan, f->machine, 0) > f->limit && place(f, made->plan))
        return qn_plan_check(made->plan, made->graph);
    return QN_OK;
}

/* Items that may be measured while a cheaper sequence is looked for. */
static int64_t most_items(const finding *f) {
    const int64_t n = f->model.n_turns, more = n < FEW_TURNS ? 0 : MORE_BY_CUBE * n * n * n;
    if (f->options->most_work > 0)
        return f->options->most_work * n;
    if (f->options->has_layers)
        return LAYERS_MEASURES * n;
    return (n < FEW_TURNS ? FEW_MEASURES : USUAL_MEASURES) * n +
           (more < MOST_MORE_ITEMS ? more : MOST_MORE_ITEMS);
}

/* Makes the best sequence's plan, from the sequence at hand on. *fits: there is one within the
 * limit; at first: the sequence at hand is, and is the best. */
static qn_status search_plan(finding *f, const qn_allocator *allocator, qn_budget_plan *made,
                             bool *fits) {
    qn_budget_search *s = &f->search;
    s->target_bytes = f->limit;
    for (int i = 0; i < MOST_LOWERINGS; i++) {
        if (!*fits) {
            s->most_work = INT64_MAX;
            f->best_ns = INFINITY;
            QN_TRY(fit(f, fits));
        }
        if (!*fits)
            return QN_OK;
        s->most_work = s->work + most_items(f);
        QN_TRY(improve(f));
        QN_TRY(make_plan(f, allocator, made));
        if (qn_plan_bytes(made->plan, f->machine, 0) <= f->limit)
            return QN_OK;
        lower_target(f, made->plan->arena_bytes);
        qn_budget_plan_deinit(made);
        *fits = false;
    }
    *fits = false;
    return QN_OK;
}

/* ---- the least arena ---- */

/* Keeps the sequence at hand if its top is lower than *least. */
static qn_status check_least(finding *f, size_t *least, bool *is_less) {
    size_t top;
    QN_TRY(find_top(f, &top));
    *is_less = top < *least;
    if (*is_less) {
        *least = top;
        keep_best(f);
    }
    return QN_OK;
}

/* Descends from the base sequence to a target. */
static qn_status reach(finding *f, size_t target, size_t *least, bool *is_less) {
    bool holds;
    f->search.target_bytes = target;
    f->search.price = 0;
    qn_budget_trial_begin(&f->search.now);
    QN_TRY(qn_budget_search_descend(&f->search, &holds));
    if (holds)
        qn_budget_search_prune(&f->search);
    return check_least(f, least, is_less);
}

/* Whether it may be worth looking for less, with the work that is left. */
static bool may_go_lower(const finding *f, size_t least, int64_t most_work) {
    const size_t bound = f->model.least_bytes;
    return least > bound + bound / NEAR_BOUND && f->search.work + f->search.n_looks < most_work;
}

/* Varies the sequence of the least, towards a little less. */
static qn_status reach_further(finding *f, int64_t most_work, size_t *least) {
    qn_budget_search *s = &f->search;
    const size_t low = f->model.least_bytes;
    for (int i = 0; i < MOST_FURTHER && may_go_lower(f, *least, most_work); i++) {
        bool holds, is_less;
        s->target_bytes = *least - *least / 64 > low ? *least - *least / 64 : low;
        qn_budget_trial_set(&s->now, f->best_items, f->n_best_items);
        QN_TRY(qn_budget_search_vary(s, &holds));
        QN_TRY(check_least(f, least, &is_less));
    }
    s->noise = 0;
    return QN_OK;
}

/* From the base sequence as low as moves lead; then halves what lies between what no arena is below
 * and the least that was reached. The sequence of the least is the best afterwards. */
static qn_status look_for_least(finding *f, size_t *least) {
    const size_t limit = f->limit;
    size_t low = f->model.least_bytes;
    bool is_less;
    *least = SIZE_MAX;
    f->limit = 0;
    f->search.n_drawn = 0;
    f->search.noise = 0;
    f->packing_work = FULL_PACKING_WORK;
    f->search.most_work = INT64_MAX;
    QN_TRY(reach(f, SIZE_MAX, least, &is_less));
    f->packing_work = PACKING_WORK;
    QN_TRY(reach(f, low, least, &is_less));
    const int64_t most_work = f->search.work + f->search.n_looks + MOST_LEAST_WORK;
    for (int i = 1; i < MOST_HALVINGS && may_go_lower(f, *least, most_work); i++) {
        const size_t target = low + (*least - low) / 2;
        QN_TRY(reach(f, target, least, &is_less));
        low = is_less ? low : target;
    }
    QN_TRY(reach_further(f, most_work, least));
    f->limit = limit;
    return QN_OK;
}

static void release_sequence(qn_budget_low *low) {
    const qn_allocator *a = qn_allocator_or_default(low->allocator);
    qn_release(a, low->items, (size_t)low->n_items, sizeof *low->items);
    qn_release(a, low->offsets, (size_t)low->n_storages, sizeof *low->offsets);
    low->items = NULL;
    low->offsets = NULL;
    low->n_items = low->n_storages = 0;
}

void qn_budget_low_deinit(qn_budget_low *low) {
    release_sequence(low);
    *low = (qn_budget_low){0};
}

/* Keeps the least, and the best sequence as its sequence; where memory is out, or what is kept of a
 * turn or an offset has no room for it, the least alone. */
static void keep_low(finding *f, const qn_allocator *allocator, size_t least, size_t peak_bytes,
                     qn_budget_low *low) {
    low->peak_bytes = peak_bytes;
    low->arena_bytes = least;
    qn_budget_trial_set(&f->search.now, f->best_items, f->n_best_items);
    const size_t n_items = (size_t)f->n_best_items, n_storages = (size_t)f->search.now.n_storages;
    const size_t bytes = n_items * sizeof *low->items + n_storages * sizeof *low->offsets;
    if ((low->most_bytes > 0 && bytes > low->most_bytes) || f->model.n_turns > UINT16_MAX ||
        least / QN_ALIGNMENT > UINT32_MAX)
        return;
    low->allocator = low->allocator ? low->allocator : allocator;
    low->n_items = f->n_best_items;
    low->n_storages = f->search.now.n_storages;
    if (qn_allocate(low->allocator, n_items, sizeof *low->items, &low->items) != QN_OK ||
        qn_allocate(low->allocator, n_storages, sizeof *low->offsets, &low->offsets) != QN_OK) {
        release_sequence(low);
        return;
    }
    for (size_t i = 0; i < n_items; i++)
        low->items[i] = (uint16_t)f->best_items[i];
    for (size_t i = 0; i < n_storages; i++)
        low->offsets[i] = (uint32_t)(f->best_offsets[i] / QN_ALIGNMENT);
}

/* What looking for it has held at most is held here too: a limit of memory refuses both, and
 * whether it was known changes nothing. */
static qn_status take_low(finding *f, const qn_budget_low *low) {
    const size_t held = f->counter.held_bytes;
    const size_t more = low->peak_bytes > held ? low->peak_bytes - held : 0;
    char *room = NULL;
    QN_TRY(qn_allocate(&f->allocator, more, 1, &room));
    qn_release(&f->allocator, room, more, 1);
    if (!low->items)
        return QN_OK;
    for (int32_t i = 0; i < low->n_items; i++)
        f->best_items[i] = low->items[i];
    for (int32_t i = 0; i < low->n_storages; i++)
        f->best_offsets[i] = (size_t)low->offsets[i] * QN_ALIGNMENT;
    f->n_best_items = low->n_items;
    qn_budget_trial_set(&f->search.now, f->best_items, f->n_best_items);
    f->best_ns = f->search.now.again_ns;
    return QN_OK;
}

static qn_status find_low(finding *f, const qn_allocator *allocator, size_t *least) {
    const size_t peak = f->counter.peak_bytes;
    f->counter.peak_bytes = f->counter.held_bytes;
    const qn_status status = look_for_least(f, least);
    const size_t own = f->counter.peak_bytes;
    f->counter.peak_bytes = peak > own ? peak : own;
    if (status == QN_OK && f->options->low)
        keep_low(f, allocator, *least, own, f->options->low);
    return status;
}

/* The least arena and, as the best, its sequence; found, or known already. What comes after is the
 * same either way. */
static qn_status find_least(finding *f, const qn_allocator *allocator, size_t *least) {
    const qn_budget_low *low = f->options->low;
    const bool is_known =
        low && low->arena_bytes > 0 && (low->items || f->limit < low->arena_bytes);
    qn_budget_search_restart(&f->search);
    if (is_known)
        *least = low->arena_bytes;
    QN_TRY(is_known ? take_low(f, low) : find_low(f, allocator, least));
    qn_budget_search_restart(&f->search);
    f->packing_work = FULL_PACKING_WORK;
    return QN_OK;
}

qn_status qn_budget_least(const qn_allocator *allocator, const qn_graph *graph,
                          const qn_machine *machine, const qn_budget_options *options,
                          size_t *least_bytes) {
    finding f;
    qn_status status = start(&f, allocator, graph, machine, options);
    if (status == QN_OK)
        status = find_least(&f, qn_allocator_or_default(allocator), least_bytes);
    finish(&f);
    return status;
}

/* Where descending straight to the limit has failed: the way to the least may lead below it. */
static qn_status find_otherwise(finding *f, const qn_allocator *allocator, qn_budget_plan *made,
                                size_t *least) {
    bool fits = false;
    QN_TRY(find_least(f, allocator, least));
    if (*least <= f->limit) {
        fits = true;
        qn_budget_trial_set(&f->search.now, f->best_items, f->n_best_items);
        QN_TRY(search_plan(f, allocator, made, &fits));
    }
    if (fits)
        return QN_OK;
    return qn_fail(QN_ERROR_MEMORY,
                   "no plan fits into %zu bytes; the smallest plan found needs %zu bytes", f->limit,
                   *least);
}

/* ---- layers ---- */

/* So much more than the least is taken where that is cheaper. */
static const double near_least = 1.02;

/* Takes proposals until one is within the limit (of 0: the cheapest of those near the least), as
 * the best sequence. *fits: there is one. */
static qn_status choose_layers(finding *f, qn_budget_layers *layers, bool *fits) {
    qn_budget_search *s = &f->search;
    int32_t *items = qn_arena_allocate(&f->arena, 2 * (size_t)f->model.n_turns + 1, sizeof *items);
    size_t least = SIZE_MAX, top = 0;
    int32_t n_items;
    *fits = false;
    if (!items)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < QN_LAYERS_PROPOSALS && !(*fits && f->limit > 0); i++) {
        if (!qn_budget_layers_propose(layers, i, items, &n_items) ||
            !qn_budget_trial_has_room(&s->now, items, n_items))
            continue;
        qn_budget_trial_set(&s->now, items, n_items);
        if (f->limit > 0 && s->now.peak_bytes > f->limit)
            continue;
        if (f->limit == 0 && (double)s->now.peak_bytes * near_least > (double)least)
            continue;
        QN_TRY(find_top(f, &top));
        if (f->limit > 0 ? top > f->limit : top >= least)
            continue;
        *fits = true;
        least = top;
        keep_best(f);
    }
    if (*fits)
        qn_budget_trial_set(&s->now, f->best_items, f->n_best_items);
    return QN_OK;
}

/* Layers made again, and more of them where that is not enough: *fits, as the best sequence. */
static qn_status fit_layers(finding *f, bool *fits) {
    const size_t limit = f->limit;
    qn_budget_layers layers;
    *fits = false;
    QN_TRY(qn_budget_layers_init(&f->arena, &f->model, &layers));
    if (layers.n_pieces < QN_LAYERS_PIECES)
        return QN_OK;
    f->best_ns = INFINITY;
    QN_TRY(choose_layers(f, &layers, fits));
    if (*fits)
        return QN_OK;
    f->limit = 0;
    QN_TRY(choose_layers(f, &layers, fits));
    f->limit = limit;
    f->search.target_bytes = limit;
    f->search.most_work = INT64_MAX;
    f->best_ns = INFINITY;
    return *fits ? fit(f, fits) : QN_OK;
}

static qn_status find(finding *f, const qn_allocator *allocator, qn_budget_plan *made,
                      size_t *least) {
    bool fits = false;
    if (f->options->has_layers && f->limit >= f->model.least_bytes)
        QN_TRY(fit_layers(f, &fits));
    if (f->limit >= f->model.least_bytes)
        QN_TRY(search_plan(f, allocator, made, &fits));
    return fits ? QN_OK : find_otherwise(f, allocator, made, least);
}

/* The cheaper one of what was found and of what can be done with swapping too. status: of finding.
 */
static qn_status mix(finding *f, const qn_allocator *allocator, qn_status status,
                     qn_budget_plan *made, size_t *least) {
    size_t bytes;
    const bool is_well = status == QN_OK || (status == QN_ERROR_MEMORY && *least > 0);
    if (!f->options->swap || !is_well || (made->plan && made->extra_ns <= 0))
        return status;
    const qn_status mixed = qn_budget_swap_or_recompute(allocator, f->graph, f->machine, f->options,
                                                        made, least, &bytes);
    bytes += f->counter.held_bytes;
    f->counter.peak_bytes = bytes > f->counter.peak_bytes ? bytes : f->counter.peak_bytes;
    if (mixed != QN_OK || made->plan)
        return mixed;
    return qn_fail(QN_ERROR_MEMORY,
                   "no plan fits into %zu bytes; the smallest plan found needs %zu bytes", f->limit,
                   *least);
}

/* Ends a search: the plan that was made, which may be none, is the caller's. */
static qn_status hand_over(finding *f, qn_status status, qn_budget_plan *made,
                           qn_budget_plan *found) {
    if (made->plan) {
        made->planning_ns = qn_clock_ns() - f->begin_ns;
        made->planner_bytes = f->counter.peak_bytes;
    }
    if (status == QN_OK)
        *found = *made;
    else
        qn_budget_plan_deinit(made);
    finish(f);
    return status;
}

qn_status qn_budget_plan_find(const qn_allocator *allocator, const qn_graph *graph,
                              const qn_machine *machine, const qn_budget_options *options,
                              qn_budget_plan *found, size_t *least_bytes) {
    finding f;
    qn_budget_plan made = {0};
    size_t least = 0;
    qn_status status = start(&f, allocator, graph, machine, options);
    if (status == QN_OK)
        status = find(&f, qn_allocator_or_default(allocator), &made, &least);
    status = mix(&f, qn_allocator_or_default(allocator), status, &made, &least);
    if (least_bytes)
        *least_bytes = least;
    return hand_over(&f, status, &made, found);
}

/* ---- as little as costs next to nothing ---- */

/* Most of what may be paid for is spent on the first of these, and each takes some hundredths of a
 * second before a large network's first step. */
enum { THRIFTY_HALVINGS = 3 };

/* Halves what lies between the least that was reached and half of the usual arena, with moves that
 * may be paid for alone. *usual: top without any; *least: of the best sequence. */
static qn_status look_for_thrifty(finding *f, size_t *usual, size_t *least) {
    bool is_less;
    *least = SIZE_MAX;
    f->limit = 0;
    f->packing_work = PACKING_WORK;
    QN_TRY(reach(f, SIZE_MAX, least, &is_less));
    *usual = *least;
    size_t low = *usual / 2 > f->model.least_bytes ? *usual / 2 : f->model.least_bytes;
    for (int i = 0; i < THRIFTY_HALVINGS && low < *least - *least / NEAR_BOUND; i++) {
        const size_t target = low + (*least - low) / 2;
        QN_TRY(reach(f, target, least, &is_less));
        low = is_less && f->search.now.peak_bytes <= target ? low : target;
    }
    f->limit = *least;
    qn_budget_trial_set(&f->search.now, f->best_items, f->n_best_items);
    return QN_OK;
}

static qn_status find_thrifty(finding *f, const qn_allocator *allocator, double most_extra,
                              double least_saving, qn_budget_plan *made) {
    size_t usual, least;
    f->search.most_ns = most_extra * f->model.base_ns;
    QN_TRY(look_for_thrifty(f, &usual, &least));
    if ((double)least > (1 - least_saving) * (double)usual)
        return QN_OK;
    return make_plan(f, allocator, made);
}

qn_status qn_budget_plan_thrifty(const qn_allocator *allocator, const qn_graph *graph,
                                 const qn_machine *machine, const qn_budget_options *options,
                                 double most_extra, double least_saving, qn_budget_plan *found) {
    finding f;
    qn_budget_plan made = {0};
    qn_status status = start(&f, allocator, graph, machine, options);
    if (status == QN_OK)
        status =
            find_thrifty(&f, qn_allocator_or_default(allocator), most_extra, least_saving, &made);
    return hand_over(&f, status, &made, found);
}

/* ---- layers that run again ---- */

/* Beside layers, values are made again where all that takes at most this part of a step more. */
static const double more_for_layers = 0.06;
enum { LAYERS_HALVINGS = 2 };

/* From the best sequence on, further moves that may be paid for alone, to lower and lower targets;
 * what is reached is the best. */
static qn_status lower_layers(finding *f) {
    qn_budget_search *s = &f->search;
    size_t least = s->now.peak_bytes, low = least / 2;
    bool holds, is_less;
    s->most_ns = s->now.again_ns + more_for_layers * f->model.base_ns;
    QN_TRY(find_top(f, &least));
    for (int i = 0; i < LAYERS_HALVINGS && low < least - least / NEAR_BOUND; i++) {
        const size_t target = low + (least - low) / 2;
        s->target_bytes = target;
        s->price = 0;
        qn_budget_trial_set(&s->now, f->best_items, f->n_best_items);
        QN_TRY(qn_budget_search_descend(s, &holds));
        QN_TRY(check_least(f, &least, &is_less));
        low = holds ? low : target;
    }
    qn_budget_trial_set(&s->now, f->best_items, f->n_best_items);
    return QN_OK;
}

static qn_status find_layers(finding *f, const qn_allocator *allocator, qn_budget_plan *made) {
    qn_budget_layers layers;
    size_t usual, top;
    bool fits;
    QN_TRY(qn_budget_layers_init(&f->arena, &f->model, &layers));
    if (layers.n_pieces < QN_LAYERS_PIECES)
        return QN_OK;
    usual = f->search.now.peak_bytes;
    f->limit = 0;
    f->packing_work = PACKING_WORK;
    QN_TRY(choose_layers(f, &layers, &fits));
    if (!fits || f->search.now.peak_bytes >= usual)
        return QN_OK;
    QN_TRY(lower_layers(f));
    QN_TRY(find_top(f, &top));
    f->limit = top;
    return make_plan(f, allocator, made);
}

qn_status qn_budget_plan_layers(const qn_allocator *allocator, const qn_graph *graph,
                                const qn_machine *machine, const qn_budget_options *options,
                                qn_budget_plan *found) {
    finding f;
    qn_budget_plan made = {0};
    qn_status status = start(&f, allocator, graph, machine, options);
    if (status == QN_OK)
        status = find_layers(&f, qn_allocator_or_default(allocator), &made);
    return hand_over(&f, status, &made, found);
}
