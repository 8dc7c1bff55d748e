/* How an engine's programs are planned: without a budget each separately, large ones with what
 * costs next to nothing made again; with one, so that
 * everything held at any time, planning included, stays within it. The memory of plans and
 * executors is known only once they exist, so planning starts with a guess and is repeated with the
 * real figure. */
#include "run/planning/planning.h"
#include "base/status.h"
#include "base/text.h"
#include "os/os.h"
#include "run/inspect.h"
#include "run/policy.h"

/* A guess of what a node takes in a graph that was made anew, its plan and its executor. */
enum { NODE_BYTES = 2200, EXECUTOR_BYTES = 500 };

/* Times to try with what the last try found. */
enum { MOST_TRIES = 4 };

/* Bytes by node of a graph for the sequences that a planner keeps of it (qn_budget_low). */
enum { LOW_NODE_BYTES = 24 };

typedef qn_fit fit;

/* What the planner keeps lies outside of the counter, so that a try does not depend on those before
 * it, and is always set aside as if it were there. */
static size_t low_bytes(const qn_program *p) {
    return (size_t)p->graph->n_nodes * LOW_NODE_BYTES;
}

static size_t all_low_bytes(const qn_engine *e) {
    size_t bytes = 0;
    for (int i = 0; e->planning.is_within && i < e->n_programs; i++)
        bytes += 2 * low_bytes(&e->programs[i]);
    return bytes;
}

/* What counts against a budget besides what the counter counts. */
static size_t uncounted_bytes(const qn_engine *e) {
    return sizeof *e + e->memory.planned_bytes + e->memory.outside_bytes;
}

/* The same while a budget is planned. */
static size_t uncounted_planning(const qn_engine *e) {
    return uncounted_bytes(e) + all_low_bytes(e);
}

/* All that is held, and would be by an engine that runs. */
static size_t held_bytes(const qn_engine *e) {
    return uncounted_bytes(e) + qn_counter_held(&e->counter);
}

static size_t larger(size_t a, size_t b) {
    return a > b ? a : b;
}

/* Of what is known, which 0 is not. */
static size_t smaller(size_t a, size_t b) {
    return a == 0 || (b > 0 && b < a) ? b : a;
}

/* Measured times of all nodes; those that were not seen are estimated, and scaled to the others.
 * Null: none was seen. */
static const double *complete_times(qn_program *p) {
    const qn_graph *graph = p->graph;
    const qn_speed speed = qn_speed_typical(1); /* only ratios are used */
    double measured = 0, estimated = 0;
    for (int n = 0; p->node_ns && n < graph->n_nodes; n++) {
        if (p->node_ns[n] < 0)
            continue;
        measured += p->node_ns[n];
        estimated += qn_estimate_ns(graph, n, &speed);
    }
    const double scale = estimated > 0 ? measured / estimated : 1;
    for (int n = 0; p->node_ns && n < graph->n_nodes; n++) {
        if (p->node_ns[n] < 0)
            p->node_ns[n] = scale * qn_estimate_ns(graph, n, &speed);
    }
    return p->node_ns;
}

static void note_arena(qn_engine *e, const qn_program *p) {
    e->memory.arena_bytes = larger(e->memory.arena_bytes, p->plan->arena_bytes);
}

static qn_status plan_as_is(qn_engine *e, qn_program *p) {
    const qn_policy *policy = p == &e->update ? NULL : qn_policies_that_plans(e);
    if (policy)
        return policy->plan(e, p);
    return qn_plan_create(&e->allocator, p->graph, &e->machine, &p->plan);
}

static void unplan(qn_engine *e) {
    for (int i = 0; i < e->n_programs; i++) {
        qn_program_unplan(&e->programs[i]);
        if (e->options.micro_batch == 0)
            qn_program_unsplit(&e->programs[i]);
    }
    qn_program_unplan(&e->update);
    e->memory.arena_bytes = 0;
}

/* ---- within a budget ---- */

/* Estimated time of a run of a program that is planned as its graph is. */
static double estimate_ns(const qn_program *p) {
    const qn_speed speed = qn_speed_typical(p->plan->n_threads);
    double ns = 0;
    for (int32_t s = 0; s < p->plan->n_steps; s++)
        ns += qn_estimate_ns(p->graph, p->plan->steps[s].node, &speed);
    return ns;
}

/* Pieces that a batch is split into at most, and nodes of the graph that this makes, about; less
 * where values are to be made again in it, which takes long to plan. */
enum { MOST_PIECES = 16, MOST_PIECE_NODES = 5000, MOST_MIXED_NODES = 1000 };

/* Bytes of an arena with what a program's pieces take besides what was set aside: their graph,
 * their plan, and an executor. */
static size_t bytes_of_pieces(const qn_engine *e, const qn_program *p, const fit *f,
                              size_t before) {
    const size_t executor = (size_t)p->graph->n_nodes * EXECUTOR_BYTES;
    const size_t taken = held_bytes(e) - before + executor;
    return p->plan->arena_bytes + (taken > f->reserve ? taken - f->reserve : 0);
}

/* What is refused, and the limit that was there before. */
typedef struct limited {
    size_t limit_bytes, n_refused;
} limited;

/* From here on nothing is allocated that a try may not hold. Gives what end_limit takes. */
static limited begin_limit(qn_engine *e, const fit *f) {
    const size_t uncounted = uncounted_planning(e);
    const limited before = {e->counter.limit_bytes, e->counter.n_refused};
    const size_t total = f->total < f->most ? f->total : f->most;
    qn_counter_set_limit(&e->counter, total > uncounted ? total - uncounted : 1);
    return before;
}

/* True where something was refused since. */
static bool end_limit(qn_engine *e, limited before) {
    qn_counter_set_limit(&e->counter, before.limit_bytes);
    return e->counter.n_refused > before.n_refused;
}

static void make_whole(qn_program *p) {
    qn_program_unplan(p);
    qn_program_unsplit(p);
}

/* Plans a program in pieces of so many samples. Where that takes more memory than there is, or it
 * cannot be split, *is_split is false, and it is whole. */
static qn_status split_batch(qn_engine *e, qn_program *p, const fit *f, int64_t micro_batch,
                             bool *is_split) {
    const limited before = begin_limit(e, f);
    qn_status status = qn_program_split(p, &e->machine, micro_batch);
    const bool cannot = status == QN_ERROR_UNSUPPORTED;
    if (status == QN_OK)
        status = plan_as_is(e, p);
    *is_split = !end_limit(e, before) && !cannot;
    if (*is_split)
        return status;
    make_whole(p);
    return QN_OK;
}

/* What is known of a program's pieces. */
typedef struct pieces {
    int64_t micro_batch; /* the largest that fit; 0: none do */
    double extra;        /* time that they cost, as a part of that of the whole batch */
    int64_t smallest;    /* that had the smallest arena, where none fit; 0: none */
    size_t least;        /* bytes of an arena that would have done for some of them; 0: unknown */
    double whole_ns;     /* of the whole batch: time, arena */
    size_t whole_bytes;
} pieces;

/* Splits the batch into as few equal pieces as it takes for an arena of at most limit bytes,
 * planned; where none do, or it cannot be split, the program is whole and without a plan. */
static qn_status plan_in_pieces(qn_engine *e, qn_program *p, const fit *f, size_t limit,
                                pieces *found) {
    const int64_t batch = qn_program_batch(p), most = MOST_PIECE_NODES / p->graph->n_nodes;
    const size_t before = held_bytes(e);
    size_t smallest = found->whole_bytes;
    for (int64_t n = 2; n <= batch && n <= MOST_PIECES && n <= most; n++) {
        bool is_split;
        if (batch % n != 0)
            continue;
        QN_TRY(split_batch(e, p, f, batch / n, &is_split));
        if (!is_split)
            break;
        const size_t bytes = bytes_of_pieces(e, p, f, before);
        if (bytes <= limit) {
            const double extra = estimate_ns(p) / found->whole_ns - 1;
            found->micro_batch = batch / n;
            found->extra = extra > 0 ? extra : 0;
            return QN_OK;
        }
        found->least = smaller(found->least, bytes);
        if (p->plan->arena_bytes < smallest && p->graph->n_nodes <= MOST_MIXED_NODES) {
            found->smallest = batch / n;
            smallest = p->plan->arena_bytes;
        }
        make_whole(p);
    }
    return QN_OK;
}

/* What is known of the least arena of its graph as it is split now. */
static qn_budget_low *low_of(const qn_engine *e, qn_program *p) {
    qn_budget_low *low = &p->low[p->micro_batch > 0];
    if (p->micro_batch > 0 && p->low_pieces != p->micro_batch) {
        qn_budget_low_deinit(low);
        p->low_pieces = p->micro_batch;
    }
    low->allocator = e->counter.below;
    low->most_bytes = low_bytes(p);
    return low;
}

void qn_fit_end(qn_engine *e) {
    for (int i = 0; i < e->n_programs; i++) {
        qn_budget_low_deinit(&e->programs[i].low[0]);
        qn_budget_low_deinit(&e->programs[i].low[1]);
    }
}

static qn_status find_plan(qn_engine *e, const qn_program *p, const fit *f,
                           const qn_budget_options *options, qn_budget_plan *found, size_t *least) {
    const qn_policy *policy = qn_policies_that_plans(e);
    if (policy && policy->find)
        return policy->find(e, p, f->total, options, found, least);
    return qn_budget_plan_find(&e->allocator, p->graph, &e->machine, options, found, least);
}

/* Whether a plan keeps within limit bytes of the arena. */
static bool is_within(const qn_engine *e, const qn_plan *plan, const fit *f, size_t limit) {
    const qn_policy *policy = qn_policies_that_plans(e);
    return policy && policy->fits ? policy->fits(e, plan, limit, f->total)
                                  : plan->arena_bytes <= limit;
}

/* A plan of its graph with an arena of at most limit bytes, where values are made again or swapped.
 */
static qn_status plan_again(qn_engine *e, qn_program *p, fit *f, size_t limit, size_t *least) {
    qn_budget_options options = {.arena_bytes = limit,
                                 .has_layers = e->options.recompute == QN_RECOMPUTE_LAYERS,
                                 .node_ns = complete_times(p),
                                 .most_work = f->is_rough ? 1 : 0,
                                 .low = low_of(e, p)};
    qn_budget_plan found = {0};
    const size_t before = held_bytes(e);
    if (!f->no_offers)
        qn_policies_offer(e, &options);
    QN_TRY(find_plan(e, p, f, &options, &found, least));
    const size_t peak = before + found.planner_bytes;
    e->planning.planner_bytes = larger(e->planning.planner_bytes, found.planner_bytes);
    e->planning.ns += found.planning_ns;
    qn_program_take(p, &found);
    if (peak <= f->total)
        return QN_OK;
    f->needed_bytes = larger(f->needed_bytes, peak);
    return QN_ERROR_MEMORY;
}

/* Pieces that cost less than this part of a step are taken without looking for anything better. */
static const double little_time = 0.02;

/* Both: values are made again in pieces of so many samples. */
static qn_status plan_both(qn_engine *e, qn_program *p, fit *f, size_t limit, int64_t micro_batch,
                           size_t *least) {
    const size_t known = *least;
    bool is_split;
    QN_TRY(split_batch(e, p, f, micro_batch, &is_split));
    qn_program_unplan(p);
    const qn_status status = plan_again(e, p, f, limit, least);
    *least = smaller(*least, known);
    return status;
}

/* The same for a program that may be split as well: what costs less of both, or both where neither
 * does. Looking for what to make again may not take more than there is, since pieces are left.
 * Times are measured of whole batches, if at all. */
static qn_status plan_either(qn_engine *e, qn_program *p, fit *f, size_t limit, pieces found,
                             size_t *least) {
    bool is_split;
    QN_TRY(plan_in_pieces(e, p, f, limit, &found));
    if (found.micro_batch > 0 && found.extra <= little_time && !qn_policies_time_batches(e))
        return QN_OK;
    make_whole(p);
    if (found.micro_batch == 0 && found.smallest == 0)
        return plan_again(e, p, f, limit, least);
    const limited before = begin_limit(e, f);
    const qn_status status = plan_again(e, p, f, limit, least);
    const bool is_refused = end_limit(e, before);
    const double extra = p->base ? p->budget.extra_ns / p->budget.base_ns : 0;
    if (status == QN_OK &&
        (found.micro_batch == 0 || qn_policies_time_batches(e) || extra <= found.extra))
        return QN_OK;
    if (status != QN_OK && (status != QN_ERROR_MEMORY || (*least == 0 && !is_refused)))
        return status;
    *least = smaller(*least, found.least);
    qn_program_unplan(p);
    if (found.micro_batch == 0)
        return plan_both(e, p, f, limit, found.smallest, least);
    QN_TRY(split_batch(e, p, f, found.micro_batch, &is_split));
    return is_split ? QN_OK : plan_again(e, p, f, limit, least);
}

/* Micro-batches are the caller's where it gave some; what a policy plans is of whole batches. */
static bool may_be_split(const qn_engine *e, const qn_program *p) {
    return p->training && p->n_phases == 1 && e->options.micro_batch == 0 &&
           !qn_policies_that_plans(e);
}

/* A plan with an arena of at most limit bytes; where there is none, *least gets the smallest that
 * was found. */
static qn_status plan_within(qn_engine *e, qn_program *p, fit *f, size_t limit, size_t *least) {
    QN_TRY(plan_as_is(e, p));
    if (is_within(e, p->plan, f, limit))
        return QN_OK;
    const pieces whole = {.whole_ns = estimate_ns(p), .whole_bytes = p->plan->arena_bytes};
    qn_program_unplan(p);
    return may_be_split(e, p) ? plan_either(e, p, f, limit, whole, least)
                              : plan_again(e, p, f, limit, least);
}

/* All programs with arenas of at most limit bytes. Goes on after one that has none, to learn what
 * all of them need; fails with what else goes wrong. */
static qn_status plan_all(qn_engine *e, fit *f, size_t limit, bool *does_fit) {
    size_t most = 0;
    *does_fit = true;
    f->needed_bytes = 0;
    for (int i = 0; i < e->n_programs; i++) {
        size_t least = 0;
        const qn_status status = plan_within(e, &e->programs[i], f, limit, &least);
        if (status != QN_OK && (status != QN_ERROR_MEMORY || (least == 0 && !f->needed_bytes)))
            return status;
        *does_fit &= status == QN_OK;
        most = status == QN_OK ? most : larger(most, least);
        if (e->programs[i].plan)
            note_arena(e, &e->programs[i]);
    }
    if (most > 0)
        f->needed_bytes = larger(f->needed_bytes, f->total - limit + most);
    return QN_OK;
}

static qn_status make_executors(qn_engine *e) {
    for (int i = 0; i < e->n_programs; i++)
        QN_TRY(qn_engine_make_executor(e, &e->programs[i]));
    return e->update.graph ? qn_engine_make_executor(e, &e->update) : QN_OK;
}

static size_t guess_reserve(const qn_engine *e, const fit *f) {
    qn_budget_options options = {0};
    size_t n_nodes = 0;
    for (int i = 0; i < e->n_programs; i++)
        n_nodes += (size_t)e->programs[i].graph->n_nodes;
    return n_nodes * NODE_BYTES + (f->no_offers ? 0 : qn_policies_offer(e, &options));
}

static size_t update_bytes(const qn_engine *e) {
    return e->update.plan ? e->update.plan->arena_bytes : 0;
}

/* What is held with the arenas and the policies' memory to come; or of other memory, if that is
 * more. */
static size_t used_bytes(const qn_engine *e) {
    return larger(held_bytes(e) + update_bytes(e) + e->memory.arena_bytes +
                      qn_policies_open_bytes(e),
                  qn_policies_other_bytes(e));
}

/* One try. *does_fit is false where the reserve was too small, or no plan was found (needed_bytes
 * then says for how much). */
static qn_status try_fit(qn_engine *e, fit *f, bool *does_fit) {
    *does_fit = false;
    if (e->update.graph)
        QN_TRY(plan_as_is(e, &e->update));
    const size_t before = held_bytes(e) + qn_policies_open_bytes(e);
    const size_t taken = before + f->reserve + update_bytes(e);
    QN_TRY(plan_all(e, f, f->total > taken ? f->total - taken : 0, does_fit));
    if (!*does_fit) {
        f->needed_bytes += f->total > taken ? 0 : taken - f->total;
        return QN_OK;
    }
    QN_TRY(make_executors(e));
    *does_fit = used_bytes(e) <= f->total;
    f->reserve = held_bytes(e) + qn_policies_open_bytes(e) - before;
    return QN_OK;
}

/* A try, and what was held at most while it was made: never more than it may. */
static qn_status try_measured(qn_engine *e, fit *f, bool *does_fit) {
    const size_t peak = e->counter.peak_bytes;
    unplan(e);
    e->counter.peak_bytes = e->counter.held_bytes;
    const limited before = begin_limit(e, f);
    const qn_status status = try_fit(e, f, does_fit);
    const bool is_refused = end_limit(e, before);
    f->peak_bytes = larger(f->peak_bytes, uncounted_planning(e) + e->counter.peak_bytes);
    e->counter.peak_bytes = larger(peak, e->counter.peak_bytes);
    if (status != QN_ERROR_MEMORY || !is_refused)
        return status;
    *does_fit = false;
    f->needed_bytes = larger(f->needed_bytes, f->total + 1);
    return QN_OK;
}

static qn_status fit_within(qn_engine *e, fit *f) {
    if (f->before > f->total) {
        f->needed_bytes = f->before;
        return QN_OK;
    }
    unplan(e); /* the guess is of whole batches */
    f->reserve = guess_reserve(e, f);
    f->peak_bytes = 0;
    f->is_hopeless = false;
    size_t needed = 0;
    bool has_lowered = false;
    for (int i = 0; i < MOST_TRIES; i++) {
        bool does_fit;
        QN_TRY(try_measured(e, f, &does_fit));
        if (f->peak_bytes > f->total) {
            f->needed_bytes = larger(f->needed_bytes, f->peak_bytes);
            return QN_OK;
        }
        if (does_fit) {
            f->needed_bytes = 0;
            f->used = larger(used_bytes(e) + all_low_bytes(e), f->peak_bytes);
            return QN_OK;
        }
        needed = larger(needed, f->needed_bytes);
        if (f->needed_bytes > 0 && i > 0) {
            f->needed_bytes = needed;
            f->is_hopeless = has_lowered;
            return QN_OK;
        }
        has_lowered = f->needed_bytes > 0;
        if (f->needed_bytes > 0) /* less may do for them; what they take is then known */
            f->reserve /= 4;
    }
    f->needed_bytes = f->total + f->reserve / 8;
    return QN_OK;
}

/* Whether the memory of what policies offer may be why there are no plans, or, where only memory
 * matters, why they take so much. */
static bool may_be_less_without(const qn_engine *e, const fit *f) {
    qn_budget_options options = {0};
    if (qn_policies_offer(e, &options) == 0 || f->before > f->total)
        return false;
    return f->needed_bytes > 0 || (f->is_rough && qn_policies_open_bytes(e) > 0);
}

qn_status qn_fit_within(qn_engine *e, fit *f) {
    const fit start = *f;
    QN_TRY(fit_within(e, f));
    if (!may_be_less_without(e, f))
        return QN_OK;
    const fit with = *f;
    *f = start;
    f->no_offers = true;
    QN_TRY(fit_within(e, f));
    f->no_offers = false;
    const bool is_less = f->needed_bytes == 0 && (with.needed_bytes > 0 || f->used < with.used);
    if (is_less)
        return QN_OK;
    if (with.needed_bytes > 0) {
        f->needed_bytes = smaller(with.needed_bytes, f->needed_bytes);
        f->is_hopeless &= with.is_hopeless;
        return QN_OK;
    }
    *f = start; /* the plans with what is offered are the better ones: they are made again */
    return fit_within(e, f);
}

/* Without a budget, values are made again where that takes at most this part of a step and saves at
 * least that part of an arena which is the larger half of a large program's memory: of so many
 * numbers, whatever type most of them have. */
enum { LARGE_ARENA_NUMBERS = 48 << 20 };
static const double next_to_nothing = 0.025, worth_while = 0.05;

/* Of a number of the largest value that a node makes. */
static size_t usual_bytes(const qn_graph *graph) {
    int64_t most = 0;
    qn_dtype dtype = QN_F32;
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        const int64_t n = info->producer < 0 ? 0 : qn_shape_count(info->tensor.shape);
        if (n > most) {
            most = n;
            dtype = info->tensor.dtype;
        }
    }
    return qn_dtype_bytes(dtype);
}

static bool has_layers_again(const qn_engine *e) {
    return e->options.recompute == QN_RECOMPUTE_LAYERS;
}

static bool may_be_thrifty(const qn_engine *e, const qn_program *p) {
    const size_t arena = p->plan->arena_bytes;
    return p->training && !p->unsplit && !qn_policies_that_plans(e) && !p->base &&
           (has_layers_again(e) || arena >= LARGE_ARENA_NUMBERS * usual_bytes(p->graph)) &&
           arena > held_bytes(e);
}

static qn_status find_smaller(const qn_engine *e, const qn_program *p, qn_budget_plan *found) {
    const qn_budget_options options = {.arena_bytes = SIZE_MAX};
    if (has_layers_again(e))
        QN_TRY(qn_budget_plan_layers(&e->allocator, p->graph, &e->machine, &options, found));
    if (found->plan || p->plan->arena_bytes < LARGE_ARENA_NUMBERS * usual_bytes(p->graph))
        return QN_OK;
    return qn_budget_plan_thrifty(&e->allocator, p->graph, &e->machine, &options, next_to_nothing,
                                  worth_while, found);
}

static qn_status save_memory(qn_engine *e, qn_program *p) {
    const size_t before = held_bytes(e);
    qn_budget_plan found = {0};
    QN_TRY(find_smaller(e, p, &found));
    if (!found.plan)
        return QN_OK;
    e->planning.planner_bytes = larger(e->planning.planner_bytes, found.planner_bytes);
    e->planning.ns += found.planning_ns;
    qn_engine_note_peak(e, before + found.planner_bytes);
    qn_program_unplan(p);
    qn_program_take(p, &found);
    return QN_OK;
}

static qn_status plan_freely(qn_engine *e, bool is_thrifty) {
    for (int i = 0; i < e->n_programs; i++) {
        qn_program *p = &e->programs[i];
        QN_TRY(plan_as_is(e, p));
        if (is_thrifty && may_be_thrifty(e, p))
            QN_TRY(save_memory(e, p));
        note_arena(e, p);
    }
    if (e->update.graph)
        QN_TRY(plan_as_is(e, &e->update));
    return make_executors(e);
}

/* Plans that are given cannot be made smaller. */
static qn_status plan_as_saved(qn_engine *e) {
    const size_t budget = e->options.memory_budget_bytes;
    char given[QN_SIZE_TEXT], needed[QN_SIZE_TEXT];
    QN_TRY(qn_engine_take_saved(e));
    if (e->update.graph)
        QN_TRY(plan_as_is(e, &e->update));
    QN_TRY(make_executors(e));
    if (budget == 0 || used_bytes(e) <= budget)
        return QN_OK;
    return qn_fail(QN_ERROR_MEMORY, "the plan needs %s, but the budget is %s; make a new plan",
                   qn_text_print_size(used_bytes(e), needed), qn_text_print_size(budget, given));
}

qn_status qn_fit_usual(qn_engine *e, fit *f) {
    const size_t peak = e->counter.peak_bytes;
    unplan(e);
    e->counter.peak_bytes = e->counter.held_bytes;
    const limited before = begin_limit(e, f);
    const qn_status status = plan_freely(e, false);
    const bool is_refused = end_limit(e, before);
    f->peak_bytes = uncounted_planning(e) + e->counter.peak_bytes; /* as begin_limit counts */
    f->used = larger(larger(used_bytes(e), f->peak_bytes), f->before);
    f->needed_bytes = is_refused || f->used > f->total ? larger(f->used, f->total + 1) : 0;
    e->counter.peak_bytes = larger(peak, e->counter.peak_bytes);
    if (f->needed_bytes > 0)
        unplan(e);
    return is_refused && status == QN_ERROR_MEMORY ? QN_OK : status;
}

void qn_engine_note_peak(qn_engine *e, size_t bytes) {
    e->planning.noted_bytes = larger(e->planning.noted_bytes, bytes);
}

qn_status qn_engine_make_plans(qn_engine *e) {
    if (e->options.saved_plan)
        return plan_as_saved(e);
    return e->options.memory_budget_bytes > 0 ? qn_engine_plan_budget(e) : plan_freely(e, true);
}

/* ---- what is said before the first step ---- */

static double base_ns(const qn_program *p) {
    const qn_speed speed = qn_speed_typical(p->plan->n_threads);
    double ns = 0;
    if (p->base)
        return p->budget.base_ns;
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        const int32_t node = p->plan->steps[s].node;
        ns += p->node_ns && p->node_ns[node] >= 0 ? p->node_ns[node]
                                                  : qn_estimate_ns(p->graph, node, &speed);
    }
    return ns;
}

/* Estimated time of a graph's nodes, each once. */
static double sum_ns(const qn_graph *graph, int n_threads) {
    const qn_speed speed = qn_speed_typical(n_threads);
    double ns = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++)
        ns += graph->nodes[n]->op->is_view || graph->nodes[n]->op->is_wait
                  ? 0
                  : qn_estimate_ns(graph, n, &speed);
    return ns;
}

/* What a batch in pieces takes more than the whole one, by estimates; with what is made again in
 * it. */
static double extra_of_pieces(const qn_program *p, double whole_ns) {
    const double again = p->budget.base_ns > 0 ? p->budget.extra_ns / p->budget.base_ns : 0;
    const double ns = (1 + again) * sum_ns(p->base ? p->base : p->graph, p->plan->n_threads);
    return ns > whole_ns ? ns - whole_ns : 0;
}

qn_budget_use qn_engine_get_budget(const qn_engine *e) {
    QN_NEED_OR(e, "engine", (qn_budget_use){0});
    qn_budget_use use = {.budget_bytes = e->options.memory_budget_bytes,
                         .planner_bytes = e->planning.planner_bytes,
                         .planning_ns = e->planning.ns};
    double base = 0, extra = 0;
    if (!e->planning.is_done)
        return use;
    use.peak_bytes = held_bytes(e);
    for (int i = 0; i < e->n_programs; i++) {
        const qn_program *p = &e->programs[i];
        if (!p->training)
            continue;
        const double ns = p->unsplit ? sum_ns(p->unsplit, p->plan->n_threads) : base_ns(p);
        base += ns;
        extra += p->unsplit ? extra_of_pieces(p, ns) : p->budget.extra_ns;
        use.micro_batch = p->unsplit ? p->micro_batch : use.micro_batch;
        use.is_measured |= p->node_ns != NULL;
        use.n_operations += p->plan->n_steps;
        use.n_again += p->budget.n_again;
        use.swapped_bytes += p->budget.swapped_bytes;
    }
    use.slowdown = base > 0 ? (base + extra) / base : 1;
    return use;
}
