/* Checkpointing (Chen et al. 2016, "Training deep nets with sublinear memory cost", section 4.3):
 * the forward pass is cut into segments where one value alone crosses, if there are such places;
 * what crosses is kept, what else the backward pass reads is dropped and made again a segment at a
 * time. A segment ends once it holds more than b bytes. "sqrt" takes as many segments as the square
 * root of the places; "sublinear" searches b for the fastest that keeps to the limit (the paper's
 * search over the budget, over a wider range). */
#include "replay.h"

#include "base/status.h"

#include <math.h>

enum { NOT_DROPPED = -1 };

typedef struct checkpoints {
    qn_facts *facts;
    bool *may_cut;         /* (n_turns): a segment may end behind it */
    int32_t *segment;      /* (n_turns) of forward turns; -1 of others */
    int32_t *drop_at;      /* (n_values): turn behind which it is dropped, or NOT_DROPPED */
    int32_t *last_forward; /* (n_values): the last turn that makes or reads it before a backward
                              one, updates of running statistics included */
    int32_t *drops, *next; /* (n_turns), (n_values): lists of what is dropped behind a turn */
} checkpoints;

static bool is_forward(const checkpoints *c, int32_t turn) {
    return !c->facts->is_backward[c->facts->nodes[turn]];
}

/* Whether the backward pass reads a value of the forward pass: all that takes memory for long. */
static bool is_kept_by_default(const checkpoints *c, int32_t v) {
    return c->facts->is_movable[v] && is_forward(c, c->facts->made[v]) &&
           c->facts->last[v] > c->last_forward[v];
}

static void find_last_forward(checkpoints *c) {
    for (int32_t v = 0; v < c->facts->graph->n_values; v++) {
        c->last_forward[v] = c->facts->made[v];
        for (int32_t i = c->facts->first_read[v]; i < c->facts->first_read[v + 1]; i++) {
            const int32_t turn = c->facts->reads[i];
            if (!is_forward(c, turn) && !c->facts->is_update[c->facts->nodes[turn]])
                break;
            c->last_forward[v] = turn;
        }
    }
}

/* Places that one value alone crosses, on its way to another forward turn; where there are few
 * such, all places. */
static int32_t find_cuts(checkpoints *c, int32_t *crossing) {
    const qn_facts *f = c->facts;
    int32_t n_cuts = 0, n_forward = 0, n = 0;
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        if (f->bytes[v] == 0 || !is_forward(c, f->made[v]) || c->last_forward[v] == f->made[v])
            continue;
        crossing[f->made[v]]++;
        crossing[c->last_forward[v]]--;
    }
    for (int32_t t = 0; t < f->n_turns; t++) {
        n += crossing[t];
        c->may_cut[t] = is_forward(c, t) && n <= 1;
        n_cuts += c->may_cut[t];
        n_forward += is_forward(c, t);
    }
    if (n_cuts >= 6)
        return n_cuts;
    for (int32_t t = 0; t < f->n_turns; t++)
        c->may_cut[t] = is_forward(c, t);
    return n_forward;
}

static size_t kept_bytes(const checkpoints *c, int32_t turn) {
    const qn_node *node = c->facts->graph->nodes[c->facts->nodes[turn]];
    size_t bytes = 0;
    for (int i = 0; i < node->n_outputs; i++) {
        if (c->facts->bytes[node->outputs[i].id] && is_kept_by_default(c, node->outputs[i].id))
            bytes += c->facts->bytes[node->outputs[i].id];
    }
    return bytes;
}

/* Cuts the forward turns where a segment has come to hold more than so many bytes. Whenever
 * backward turns lie between, a new segment begins. Returns nothing; the last segment before
 * backward turns is kept. */
static void cut(checkpoints *c, double most_bytes) {
    int32_t segment = 0;
    double held = 0;
    for (int32_t t = 0; t < c->facts->n_turns; t++) {
        c->segment[t] = is_forward(c, t) ? segment : -1;
        held += is_forward(c, t) ? (double)kept_bytes(c, t) : 0;
        const bool ends = t + 1 < c->facts->n_turns && is_forward(c, t) && !is_forward(c, t + 1) &&
                          !c->facts->is_update[c->facts->nodes[t + 1]];
        if (ends || (is_forward(c, t) && held > most_bytes && c->may_cut[t])) {
            segment++;
            held = 0;
        }
    }
}

/* Whether a segment is the last before a backward turn that is no update. */
static bool is_last(const checkpoints *c, int32_t segment) {
    int32_t before = -1;
    for (int32_t t = 0; t < c->facts->n_turns; t++) {
        if (is_forward(c, t))
            before = c->segment[t];
        else if (!c->facts->is_update[c->facts->nodes[t]] && before == segment)
            return true;
        else if (!c->facts->is_update[c->facts->nodes[t]])
            before = -1;
    }
    return false;
}

static void choose_drops(checkpoints *c) {
    const qn_facts *f = c->facts;
    int32_t known = -1;
    bool known_last = false;
    for (int32_t t = 0; t < f->n_turns; t++)
        c->drops[t] = -1;
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        c->drop_at[v] = NOT_DROPPED;
        if (f->bytes[v] == 0 || !is_kept_by_default(c, v))
            continue;
        const int32_t segment = c->segment[f->made[v]];
        bool crosses = false;
        for (int32_t i = f->first_read[v]; i < f->first_read[v + 1]; i++)
            crosses = crosses || (is_forward(c, f->reads[i]) && c->segment[f->reads[i]] != segment);
        if (segment != known)
            known_last = is_last(c, segment);
        known = segment;
        if (crosses || known_last)
            continue;
        c->drop_at[v] = c->last_forward[v];
        c->next[v] = c->drops[c->drop_at[v]];
        c->drops[c->drop_at[v]] = v;
    }
}

/* ---- hooks ---- */

static qn_status behind(void *user, bench_replay *replay) {
    const checkpoints *c = user;
    for (int32_t v = c->drops[replay->turn]; v >= 0; v = c->next[v]) {
        if (bench_replay_may_evict(replay, v))
            bench_replay_evict(replay, v);
    }
    return QN_OK;
}

/* A segment is made again as a whole: all that will be read of it. */
static void wanted(void *user, bench_replay *replay, int32_t node) {
    const checkpoints *c = user;
    const qn_facts *f = c->facts;
    const int32_t turn = f->turn_of[node], segment = c->segment[turn];
    for (int step = -1; step <= 1; step += 2) {
        for (int32_t t = turn + step; t >= 0 && t < f->n_turns && c->segment[t] == segment;
             t += step) {
            const qn_node *other = f->graph->nodes[f->nodes[t]];
            for (int i = 0; i < other->n_outputs && !replay->is_wanted[f->nodes[t]]; i++) {
                const int32_t v = other->outputs[i].id;
                if (c->drop_at[v] != NOT_DROPPED && replay->residence[v] == QN_AWAY &&
                    qn_facts_next_read(f, v, replay->turn) >= 0)
                    bench_replay_want(replay, f->nodes[t]);
            }
        }
    }
}

/* ---- the policies ---- */

static qn_status init(checkpoints *c, qn_facts *f, int32_t *n_cuts) {
    const size_t n_values = (size_t)f->graph->n_values, n_turns = (size_t)f->n_turns + 1;
    c->facts = f;
    c->may_cut = qn_arena_allocate(&f->arena, n_turns, sizeof *c->may_cut);
    c->segment = qn_arena_allocate(&f->arena, n_turns, sizeof *c->segment);
    c->drop_at = qn_arena_allocate(&f->arena, n_values, sizeof *c->drop_at);
    c->last_forward = qn_arena_allocate(&f->arena, n_values, sizeof *c->last_forward);
    c->drops = qn_arena_allocate(&f->arena, n_turns, sizeof *c->drops);
    c->next = qn_arena_allocate(&f->arena, n_values, sizeof *c->next);
    int32_t *crossing = qn_arena_allocate(&f->arena, n_turns, sizeof *crossing);
    if (!c->may_cut || !c->segment || !c->drop_at || !c->last_forward || !c->drops || !c->next ||
        !crossing)
        return QN_ERROR_MEMORY;
    find_last_forward(c);
    *n_cuts = find_cuts(c, crossing);
    return QN_OK;
}

static double total_bytes(const checkpoints *c) {
    double total = 0;
    for (int32_t t = 0; t < c->facts->n_turns; t++)
        total += is_forward(c, t) ? (double)kept_bytes(c, t) : 0;
    return total;
}

static qn_status run(checkpoints *c, double most_bytes, qn_sequence *to, size_t *peak, double *ns) {
    const bench_replay_hooks hooks = {.user = c, .behind = behind, .wanted = wanted};
    bench_replay replay;
    to->n = 0;
    cut(c, most_bytes);
    choose_drops(c);
    QN_TRY(bench_replay_init(&replay, c->facts, &hooks, to));
    QN_TRY(bench_replay_run(&replay));
    *peak = replay.most_bytes;
    *ns = replay.clock_ns;
    return QN_OK;
}

enum { N_SIZES = 28 };

/* The fastest of several segment sizes that keeps to the limit, or the smallest. */
static qn_status search(checkpoints *c, size_t limit_bytes, qn_sequence *to) {
    const double total = total_bytes(c);
    double best = 0, best_ns = 0;
    size_t best_peak = 0, peak;
    for (int i = 0; i < N_SIZES; i++) {
        const double size = total * pow(2, -0.25 * i);
        double ns;
        QN_TRY(run(c, size, to, &peak, &ns));
        const bool fits = peak <= limit_bytes;
        const bool is_better =
            i == 0 || (best_peak > limit_bytes ? peak < best_peak : fits && ns < best_ns);
        if (!is_better)
            continue;
        best = size;
        best_ns = ns;
        best_peak = peak;
    }
    return run(c, best, to, &peak, &best_ns);
}

static qn_status make(const qn_policy_problem *problem, qn_sequence *sequence, bool is_sqrt) {
    qn_facts facts;
    checkpoints c = {0};
    int32_t n_cuts;
    size_t peak;
    double ns;
    QN_TRY(qn_facts_init(&facts, problem));
    qn_status status = init(&c, &facts, &n_cuts);
    if (status == QN_OK && is_sqrt)
        status = run(&c, total_bytes(&c) / sqrt(n_cuts), sequence, &peak, &ns);
    else if (status == QN_OK)
        status = search(&c, problem->limit_bytes, sequence);
    qn_facts_deinit(&facts);
    return status;
}

static qn_status make_sqrt(const qn_policy_problem *problem, qn_sequence *sequence, size_t *own) {
    (void)own;
    return make(problem, sequence, true);
}

static qn_status make_sublinear(const qn_policy_problem *problem, qn_sequence *sequence,
                                size_t *own) {
    (void)own;
    return make(problem, sequence, false);
}

const qn_policy qn_policy_sqrt = {
    .name = "sqrt", .source = "Chen et al. 2016, sqrt(n) segments", .make = make_sqrt};
const qn_policy qn_policy_sublinear = {.name = "sublinear",
                                       .source = "Chen et al. 2016, search over the budget",
                                       .has_limit = true,
                                       .make = make_sublinear};
