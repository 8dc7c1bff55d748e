/* vDNN (Rhu et al., MICRO 2016, section III): inputs of layers with products (of convolutions, in
 * the paper's "conv" form) go to the other memory while the layer runs, the next layer waits until
 * they are there, and each comes back while the backward pass of the layer behind it runs. The
 * paper swaps all or finds out by trial; here they are swapped in the order of the layers until the
 * sum of live bytes is within the limit. */
#include "decided.h"

#include "base/status.h"

/* The next feature map from a turn on that a layer with products reads last in the forward pass; by
 * turn of that read. */
static int32_t find_offloaded(const qn_decided *d, int32_t *turn) {
    const qn_facts *f = d->facts;
    for (; *turn < f->n_turns; (*turn)++) {
        const qn_node *node = f->graph->nodes[f->nodes[*turn]];
        if (!node->op->is_product || f->is_backward[f->nodes[*turn]])
            continue;
        const int32_t v = f->root[node->inputs[0].id];
        if (d->from[v] >= 0 && d->fate[v] == QN_KEEP && d->to[v] > *turn)
            return v;
    }
    return -1;
}

/* Most bytes alive when what is swapped takes none between its layer and the turn it is loaded. */
static size_t find_peak(const qn_decided *d, int64_t *live) {
    const qn_facts *f = d->facts;
    int64_t now = 0, most = 0;
    for (int32_t t = 0; t <= f->n_turns; t++)
        live[t] = 0;
    for (int32_t v = 0; v < f->graph->n_values; v++) {
        const int64_t bytes = (int64_t)f->bytes[v];
        if (bytes == 0)
            continue;
        const int32_t last = f->last[v] < 0 ? f->made[v] : f->last[v];
        live[f->made[v]] += bytes;
        if (last + 1 <= f->n_turns)
            live[last + 1] -= bytes;
        if (d->fate[v] == QN_SWAP && d->load_at[v] > d->from[v] + 1) {
            live[d->from[v] + 1] -= bytes;
            live[d->load_at[v]] += bytes;
        }
    }
    for (int32_t t = 0; t < f->n_turns; t++) {
        now += live[t];
        const int64_t with = now + (int64_t)f->problem->workspace[f->nodes[t]];
        most = with > most ? with : most;
    }
    return (size_t)most;
}

static qn_status decide(qn_decided *d) {
    int64_t *live =
        qn_arena_allocate(&d->facts->arena, (size_t)d->facts->n_turns + 2, sizeof *live);
    int32_t turn = 0, before = -1;
    if (!live)
        return QN_ERROR_MEMORY;
    d->stores_early = true;
    while (find_peak(d, live) > d->facts->problem->limit_bytes) {
        const int32_t v = find_offloaded(d, &turn);
        if (v < 0)
            break;
        d->fate[v] = QN_SWAP;
        /* The one before comes back with the backward pass of this layer. */
        if (before >= 0 && d->to[v] < d->to[before])
            d->load_at[before] = d->to[v];
        before = v;
    }
    return QN_OK;
}

static qn_status make(const qn_policy_problem *problem, qn_sequence *sequence, size_t *own) {
    qn_facts facts;
    qn_decided decided;
    (void)own;
    QN_TRY(qn_facts_init(&facts, problem));
    qn_status status = qn_decided_init(&decided, &facts);
    if (status == QN_OK)
        status = decide(&decided);
    if (status == QN_OK)
        status = qn_decided_run(&decided, sequence);
    qn_facts_deinit(&facts);
    return status;
}

const qn_policy qn_policy_vdnn = {
    .name = "vdnn", .source = "Rhu et al. 2016", .swaps = true, .has_limit = true, .make = make};
