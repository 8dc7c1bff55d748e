/* See decided.h. */
#include "decided.h"

#include "base/status.h"

typedef struct running {
    qn_decided *plan;
    int32_t *leaves, *next_leaving; /* (n_turns), (n_values): lists of what leaves behind a turn */
    int32_t *loads, *next_loading;  /* the same of what is loaded before a turn */
    int32_t *writing;               /* (n_values): values that are being stored, oldest first */
    double *written_ns;             /* (n_values): clock at which writing[i] will be done */
    int32_t first_writing, n_writing;
    double channel_ns;
} running;

qn_status qn_decided_init(qn_decided *d, qn_facts *f) {
    const size_t n = (size_t)f->graph->n_values;
    *d = (qn_decided){.facts = f};
    d->fate = qn_arena_allocate(&f->arena, n, sizeof *d->fate);
    d->from = qn_arena_allocate(&f->arena, n, sizeof *d->from);
    d->to = qn_arena_allocate(&f->arena, n, sizeof *d->to);
    d->load_at = qn_arena_allocate(&f->arena, n, sizeof *d->load_at);
    if (!d->fate || !d->from || !d->to || !d->load_at)
        return QN_ERROR_MEMORY;
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        d->from[v] = d->to[v] = d->load_at[v] = -1;
        if (!f->is_movable[v] || f->is_backward[f->nodes[f->made[v]]])
            continue;
        int32_t from = f->made[v];
        for (int32_t i = f->first_read[v]; i < f->first_read[v + 1] && d->to[v] < 0; i++) {
            if (f->is_backward[f->nodes[f->reads[i]]] && !f->is_update[f->nodes[f->reads[i]]])
                d->to[v] = f->reads[i];
            else
                from = f->reads[i];
        }
        d->from[v] = d->to[v] < 0 ? -1 : from;
        d->load_at[v] = d->to[v];
    }
    return QN_OK;
}

/* ---- hooks ---- */

static qn_status finish_first(running *s, bench_replay *replay) {
    const int32_t v = s->writing[s->first_writing++];
    return replay->residence[v] == QN_STORING ? bench_replay_stored(replay, v) : QN_OK;
}

static qn_status begin_storing(running *s, bench_replay *replay, int32_t v) {
    const qn_swap_speed *speed = s->plan->facts->problem->swap;
    if (replay->residence[v] != QN_HERE)
        return QN_OK;
    if (s->channel_ns < replay->clock_ns)
        s->channel_ns = replay->clock_ns;
    s->channel_ns +=
        (double)speed->latency_ns + (double)s->plan->facts->bytes[v] / speed->write_bytes_per_ns;
    s->written_ns[s->n_writing] = s->channel_ns;
    s->writing[s->n_writing++] = v;
    return bench_replay_store(replay, v);
}

static qn_status turn(void *user, bench_replay *replay) {
    running *s = user;
    for (int32_t v = s->loads[replay->turn]; v >= 0; v = s->next_loading[v]) {
        if (replay->residence[v] == QN_STORED || replay->residence[v] == QN_STORING)
            QN_TRY(bench_replay_load(replay, v));
    }
    for (int32_t v = s->leaves[replay->turn]; s->plan->stores_early && v >= 0;
         v = s->next_leaving[v]) {
        if (s->plan->fate[v] == QN_SWAP && s->plan->facts->made[v] < replay->turn)
            QN_TRY(begin_storing(s, replay, v));
    }
    return QN_OK;
}

static qn_status behind(void *user, bench_replay *replay) {
    running *s = user;
    for (int32_t v = s->leaves[replay->turn]; v >= 0; v = s->next_leaving[v]) {
        if (s->plan->fate[v] == QN_SWAP)
            QN_TRY(begin_storing(s, replay, v));
        else if (bench_replay_may_evict(replay, v))
            bench_replay_evict(replay, v);
    }
    while (s->first_writing < s->n_writing &&
           (s->plan->stores_early || s->written_ns[s->first_writing] <= replay->clock_ns))
        QN_TRY(finish_first(s, replay));
    return QN_OK;
}

/* Of what is dropped anyway and was made again too early, the one that is needed last. */
static int32_t find_early(const running *s, const bench_replay *replay) {
    int32_t chosen = -1, latest = -1;
    for (int32_t i = 0; i < replay->n_listed; i++) {
        const int32_t v = replay->listed[i];
        if (s->plan->fate[v] != QN_DROP || replay->turn <= s->plan->from[v] ||
            !bench_replay_may_evict(replay, v))
            continue;
        const int32_t next = qn_facts_next_read(s->plan->facts, v, replay->turn);
        if (next > latest) {
            chosen = v;
            latest = next;
        }
    }
    return chosen;
}

static qn_status before(void *user, bench_replay *replay, int32_t node, size_t bytes) {
    running *s = user;
    const size_t limit = s->plan->facts->problem->limit_bytes;
    (void)node;
    while (replay->live_bytes + bytes > limit && s->first_writing < s->n_writing)
        QN_TRY(finish_first(s, replay));
    while (replay->live_bytes + bytes > limit) {
        const int32_t v = find_early(s, replay);
        if (v < 0)
            break;
        bench_replay_evict(replay, v);
    }
    return QN_OK;
}

static qn_status init(running *s, qn_facts *f) {
    const size_t n_values = (size_t)f->graph->n_values, n_turns = (size_t)f->n_turns + 1;
    s->leaves = qn_arena_allocate(&f->arena, n_turns, sizeof *s->leaves);
    s->next_leaving = qn_arena_allocate(&f->arena, n_values, sizeof *s->next_leaving);
    s->loads = qn_arena_allocate(&f->arena, n_turns, sizeof *s->loads);
    s->next_loading = qn_arena_allocate(&f->arena, n_values, sizeof *s->next_loading);
    s->writing = qn_arena_allocate(&f->arena, n_values, sizeof *s->writing);
    s->written_ns = qn_arena_allocate(&f->arena, n_values, sizeof *s->written_ns);
    if (!s->leaves || !s->next_leaving || !s->loads || !s->next_loading || !s->writing ||
        !s->written_ns)
        return QN_ERROR_MEMORY;
    for (int32_t t = 0; t < f->n_turns; t++)
        s->leaves[t] = s->loads[t] = -1;
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        if (s->plan->from[v] < 0 || s->plan->fate[v] == QN_KEEP)
            continue;
        s->next_leaving[v] = s->leaves[s->plan->from[v]];
        s->leaves[s->plan->from[v]] = v;
        if (s->plan->fate[v] != QN_SWAP)
            continue;
        s->next_loading[v] = s->loads[s->plan->load_at[v]];
        s->loads[s->plan->load_at[v]] = v;
    }
    return QN_OK;
}

qn_status qn_decided_run(qn_decided *decided, qn_sequence *to) {
    running s = {.plan = decided};
    const bench_replay_hooks hooks = {.user = &s, .before = before, .turn = turn, .behind = behind};
    bench_replay replay;
    QN_TRY(init(&s, decided->facts));
    QN_TRY(bench_replay_init(&replay, decided->facts, &hooks, to));
    return bench_replay_run(&replay);
}
