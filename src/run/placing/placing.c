/* See placing.h. */
#include "run/placing/placing.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"

#include <string.h>

/* ---- measuring ---- */

void qn_placing_end(qn_placing *p) {
    qn_release(&p->engine->allocator, p->numbers, (size_t)p->n_nodes + 1, sizeof *p->numbers);
    qn_release(&p->engine->allocator, p->ns, (size_t)p->n_nodes * 2 + 1, sizeof *p->ns);
    qn_events_destroy(p->events);
}

/* What nodes are of one of the whole batch: its pieces, in their order; another is number 0. */
static qn_status number_pieces(qn_placing *p) {
    const qn_program *program = p->program;
    const size_t n = (size_t)p->n_nodes + 1;
    QN_TRY(qn_allocate(&p->engine->allocator, n, sizeof *p->numbers, &p->numbers));
    for (int32_t i = 1; i < p->n_nodes; i++) {
        int32_t before = i - 1; /* slices and joins lie between them */
        while (before >= 0 && program->unsplit_node[before] < 0)
            before--;
        const bool is_next = program->unsplit_node[i] >= 0 && before >= 0 &&
                             program->unsplit_node[i] == program->unsplit_node[before];
        p->numbers[i] = is_next ? p->numbers[before] + 1 : 0;
    }
    return QN_OK;
}

qn_status qn_placing_begin(qn_engine *e, qn_program *program, qn_placing *p) {
    enum { ROOM = 4, MORE = 64 }; /* records for a node and its copies */
    *p = (qn_placing){
        .engine = e, .program = program, .n_nodes = qn_program_built_graph(program)->n_nodes};
    const size_t n = (size_t)p->n_nodes;
    qn_status status = qn_allocate(&e->allocator, n * 2 + 1, sizeof *p->ns, &p->ns);
    if (status == QN_OK)
        status = qn_events_create(&e->allocator, qn_team_size(e->team) + QN_MAX_LANES,
                                  ROOM * n + MORE, &p->events);
    for (size_t i = 0; status == QN_OK && i < n * 2; i++)
        p->ns[i] = -1;
    if (status == QN_OK && program->is_apart)
        status = number_pieces(p);
    if (status != QN_OK)
        qn_placing_end(p);
    return status;
}

static void note_copy(qn_placing *p, const qn_node *node, double ns) {
    const bool is_out = node->op->output_space(node->attributes) == 0;
    qn_placing_copies *c = is_out ? &p->out : &p->in;
    c->least_ns = c->n == 0 || ns < c->least_ns ? ns : c->least_ns;
    c->bytes += (double)qn_tensor_bytes(qn_graph_tensor(p->program->graph, node->outputs[0]));
    c->ns += ns;
    c->n++;
}

static void take_event(qn_placing *p, const qn_event *event) {
    const qn_program *program = p->program;
    const double ns = (double)(event->end_ns - event->begin_ns);
    if ((event->kind != QN_EVENT_OPERATION && event->kind != QN_EVENT_QUEUED) || event->item < 0 ||
        event->item >= program->plan->n_steps)
        return;
    const qn_step *step = &program->plan->steps[event->item];
    const qn_node *node = program->graph->nodes[step->node];
    if (node->op->output_space) {
        note_copy(p, node, ns);
        return;
    }
    const int32_t built = qn_program_built_node(program, step->node);
    double *known = built >= 0 ? &p->ns[built * 2 + (step->lane > 0)] : NULL;
    if (known && (*known < 0 || ns < *known))
        *known = ns;
}

qn_status qn_placing_measure(qn_placing *p, const qn_rehearsal *r) {
    enum { BATCH = 128 };
    qn_event events[BATCH];
    const qn_watch watch = {p->events, {.kind = QN_EVENT_OPERATION}};
    int64_t ns;
    QN_TRY(qn_rehearsal_run(r, p->program->executor, &watch, &ns));
    for (int thread = 0; thread < qn_events_thread_count(p->events); thread++) {
        size_t n;
        while ((n = qn_events_take(p->events, thread, events, BATCH)) > 0) {
            for (size_t i = 0; i < n; i++)
                take_event(p, &events[i]);
        }
    }
    return QN_OK;
}

/* ---- choosing ---- */

/* The least time of a copy is taken for what it costs besides its bytes. */
static double rate_of(const qn_placing_copies *c) {
    const double ns = c->ns - c->n * c->least_ns;
    return ns > 0 ? c->bytes / ns : 0;
}

/* What is to be placed; sites has room for both. */
static qn_placement_problem problem_of(const qn_placing *p, qn_site sites[2]) {
    sites[0] = (qn_site){.space = 0, .watts = p->wish.cpu_watts};
    const qn_machine_device *device = qn_offload_opened(p->engine);
    const int16_t space = device->first_space;
    sites[1] = (qn_site){.space = space > 0,
                         .can_be_lost = device->device->is_lost != NULL,
                         .watts = p->wish.device_watts,
                         .copy_in_ns = p->in.least_ns,
                         .copy_out_ns = p->out.least_ns,
                         .in_bytes_per_ns = rate_of(&p->in),
                         .out_bytes_per_ns = rate_of(&p->out)};
    for (int32_t n = 0; n < p->n_nodes; n++) /* what the host was not seen to do costs it nothing */
        p->ns[n * 2] = p->ns[n * 2] < 0 ? 0 : p->ns[n * 2];
    return (qn_placement_problem){.graph = qn_program_built_graph(p->program),
                                  .n_sites = 2,
                                  .sites = sites,
                                  .ns = p->ns,
                                  .idle_watts = p->wish.idle_watts,
                                  .numbers = p->numbers,
                                  .n_starts = (int32_t)qn_program_pieces(p->program)};
}

qn_status qn_placing_predict(qn_placing *p, int site, qn_placement_result *result) {
    const size_t n = (size_t)p->n_nodes + 1;
    qn_site sites[2];
    qn_placement_problem problem = problem_of(p, sites);
    int16_t *site_of;
    problem.keeps = site == 1 && sites[1].space > 0 && qn_placement_can_keep(&problem, site);
    QN_TRY(qn_allocate(&p->engine->allocator, n, sizeof *site_of, &site_of));
    qn_placement_fill(&problem, site, site_of);
    const qn_status status = qn_placement_predict(&p->engine->allocator, &problem, site_of, result);
    qn_release(&p->engine->allocator, site_of, n, sizeof *site_of);
    return status;
}

/* Whether it uses both where both work. */
static bool uses_both(const qn_placing *p, const int16_t *site_of) {
    int32_t n_device = 0, n_able = 0;
    for (int32_t n = 0; n < p->n_nodes; n++) {
        n_device += site_of[n] > 0;
        n_able += p->ns[n * 2 + 1] >= 0;
    }
    return n_device > 0 && n_device < n_able;
}

/* With the host's updates, and with the device's if that is better. */
static qn_status choose(qn_placing *p, int16_t *site_of, qn_placement_result *result) {
    const qn_allocator *a = &p->engine->allocator;
    const size_t n = (size_t)p->n_nodes + 1;
    qn_site sites[2];
    qn_placement_problem problem = problem_of(p, sites);
    qn_placement_result kept;
    int16_t *kept_site_of;
    QN_TRY(qn_placement_choose(a, &problem, p->wish.prefer, site_of, result));
    problem.keeps = sites[1].space > 0 && qn_placement_can_keep(&problem, 1);
    if (!problem.keeps)
        return QN_OK;
    QN_TRY(qn_allocate(a, n, sizeof *kept_site_of, &kept_site_of));
    const qn_status status = qn_placement_choose(a, &problem, p->wish.prefer, kept_site_of, &kept);
    if (status == QN_OK &&
        qn_placement_cost(&kept, p->wish.prefer) < qn_placement_cost(result, p->wish.prefer)) {
        memcpy(site_of, kept_site_of, (n - 1) * sizeof *site_of);
        *result = kept;
    }
    qn_release(a, kept_site_of, n, sizeof *kept_site_of);
    return status;
}

qn_status qn_placing_choose(qn_placing *p, int16_t *site_of, bool *is_mixed,
                            qn_placement_result *result) {
    const size_t n = (size_t)p->n_nodes;
    QN_TRY(choose(p, site_of, result));
    *is_mixed = uses_both(p, site_of);
    if (!*is_mixed)
        return QN_OK;
    int16_t *kept = qn_arena_allocate(&p->program->graph->arena, n + 1, sizeof *kept);
    if (!kept)
        return QN_ERROR_MEMORY;
    memcpy(kept, site_of, n * sizeof *kept);
    p->program->site_of = kept;
    return QN_OK;
}
