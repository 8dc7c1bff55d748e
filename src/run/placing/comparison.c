/* See comparison.h. */
#include "run/placing/comparison.h"

#include "base/memory.h"
#include "base/print.h"
#include "base/status.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>

/* ---- what is kept ---- */

const qn_device_choice *qn_engine_device_choice(const qn_engine *e) {
    return qn_offload_of(e)->choice;
}

void qn_device_choice_destroy(qn_engine *e) {
    qn_device_choice *p = qn_offload_of(e)->choice;
    if (!p)
        return;
    qn_release(&e->allocator, p->ns, (size_t)p->n_nodes * 2 + 1, sizeof *p->ns);
    qn_release(&e->allocator, p->site_of, (size_t)p->n_nodes + 1, sizeof *p->site_of);
    qn_release(&e->allocator, p, 1, sizeof *p);
    qn_offload_of(e)->choice = NULL;
}

static qn_status create(qn_engine *e, int program, int32_t n_nodes) {
    QN_TRY(
        qn_allocate(&e->allocator, 1, sizeof *qn_offload_of(e)->choice, &qn_offload_of(e)->choice));
    qn_device_choice *p = qn_offload_of(e)->choice;
    p->program = program;
    p->n_nodes = n_nodes;
    QN_TRY(qn_allocate(&e->allocator, (size_t)n_nodes * 2 + 1, sizeof *p->ns, &p->ns));
    return qn_allocate(&e->allocator, (size_t)n_nodes + 1, sizeof *p->site_of, &p->site_of);
}

/* ---- measuring ---- */

typedef struct comparison {
    qn_engine *e;
    const qn_rehearsal *r;
    qn_placing placing;
    qn_device_choice *found;
    int device;
} comparison;

/* The shortest of some runs after one that warms up. */
static qn_status measure(const qn_rehearsal *r, qn_device_mode_cost *result) {
    enum { MOST_RUNS = 5 };
    const int64_t most_ns = 1000000000;
    int64_t ns, all_ns = 0, shortest_ns = INT64_MAX;
    QN_TRY(qn_rehearsal_run(r, r->program->executor, NULL, &ns));
    for (int i = 0; i < MOST_RUNS && all_ns < most_ns; i++, all_ns += ns) {
        QN_TRY(qn_rehearsal_run(r, r->program->executor, NULL, &ns));
        shortest_ns = ns < shortest_ns ? ns : shortest_ns;
    }
    result->ns = (double)shortest_ns;
    result->is_measured = true;
    return QN_OK;
}

/* Times of all nodes too: the shortest of some runs. */
static qn_status measure_all(comparison *c, qn_device_mode mode) {
    enum { MOST_RUNS = 3 };
    const double most_ns = 1e9;
    qn_device_mode_cost *result = &c->found->modes[mode];
    QN_TRY(measure(c->r, result));
    for (int i = 0; i < MOST_RUNS && (i == 0 || (i + 1) * result->ns < most_ns); i++)
        QN_TRY(qn_placing_measure(&c->placing, c->r));
    return QN_OK;
}

/* ---- what is preferred ---- */

static void set_wish(comparison *c) {
    const qn_device_model *m = qn_offload_opened(c->e)->device->model;
    qn_device_wish *wish = &c->found->wish;
    *wish = c->e->options.device_wish;
    c->found->model = m;
    if (!m)
        return;
    wish->cpu_watts = wish->cpu_watts > 0 ? wish->cpu_watts : m->cpu_watts;
    wish->device_watts = wish->device_watts > 0 ? wish->device_watts : m->device_watts;
    wish->idle_watts = wish->idle_watts > 0 ? wish->idle_watts : m->idle_watts;
}

/* A way that was not measured is as dear as can be. */
static double cost_of(const comparison *c, qn_device_mode mode) {
    const qn_device_mode_cost *r = &c->found->modes[mode];
    const double never = 1e300;
    if (!r->is_measured)
        return never;
    switch (c->found->wish.prefer) {
    case QN_PREFER_ENERGY:
        return r->joules;
    case QN_PREFER_BALANCED:
        return r->joules * r->ns;
    default:
        return r->ns;
    }
}

static void fill_joules(qn_device_mode_cost *r) {
    r->joules = r->predicted.ns > 0 ? r->predicted.joules * r->ns / r->predicted.ns : 0;
}

/* ---- comparing ---- */

static qn_status leave_both(comparison *c) {
    c->placing.program->site_of = NULL;
    c->found->modes[QN_DEVICE_MODE_BOTH].is_measured = false;
    return qn_engine_note_placed(c->e, c->placing.program);
}

static qn_status predict(comparison *c, bool *is_mixed) {
    qn_device_choice *f = c->found;
    qn_placing *p = &c->placing;
    p->wish = f->wish;
    memcpy(f->ns, p->ns, (size_t)f->n_nodes * 2 * sizeof *f->ns);
    f->in = p->in;
    f->out = p->out;
    QN_TRY(qn_placing_predict(p, 0, &f->modes[QN_DEVICE_MODE_CPU].predicted));
    QN_TRY(qn_placing_predict(p, 1, &f->modes[QN_DEVICE_MODE_DEVICE].predicted));
    QN_TRY(qn_placing_choose(p, f->site_of, is_mixed, &f->modes[QN_DEVICE_MODE_BOTH].predicted));
    fill_joules(&f->modes[QN_DEVICE_MODE_CPU]);
    fill_joules(&f->modes[QN_DEVICE_MODE_DEVICE]);
    return QN_OK;
}

/* Both processors at once, where that is predicted to be better; a device that fails there is as
 * dear as can be. */
static qn_status try_both(comparison *c) {
    qn_device_mode_cost *both = &c->found->modes[QN_DEVICE_MODE_BOTH];
    bool is_mixed;
    QN_TRY(predict(c, &is_mixed));
    if (!is_mixed)
        return leave_both(c);
    QN_TRY(qn_engine_note_placed(c->e, c->placing.program));
    QN_TRY(qn_engine_change_device(c->e, c->device));
    const qn_status status = measure(c->r, both);
    fill_joules(both);
    return status == QN_ERROR_DEVICE ? QN_OK : status;
}

/* The CPU is what there is now, unless both were measured. */
static qn_status take_best(comparison *c) {
    qn_device_choice *f = c->found;
    const bool is_both = qn_engine_device(c->e) > 0;
    f->chosen = QN_DEVICE_MODE_CPU;
    for (int mode = QN_DEVICE_MODE_DEVICE; mode < QN_DEVICE_MODES; mode++) {
        if (cost_of(c, (qn_device_mode)mode) < cost_of(c, f->chosen))
            f->chosen = (qn_device_mode)mode;
    }
    if (f->chosen == QN_DEVICE_MODE_BOTH)
        return QN_OK;
    c->placing.program->site_of = NULL;
    QN_TRY(qn_engine_note_placed(c->e, c->placing.program));
    if (f->chosen == QN_DEVICE_MODE_CPU && !is_both)
        return QN_OK;
    return qn_engine_change_device(c->e, f->chosen == QN_DEVICE_MODE_DEVICE ? c->device : 0);
}

/* ---- pieces ---- */

/* As many pieces as divide the batch, but few: each is less work at once. */
static int64_t count_pieces(const comparison *c) {
    enum { MOST = 4 };
    const qn_program *p = c->placing.program;
    const int64_t batch = qn_program_batch(p);
    int64_t pieces = MOST;
    while (pieces > 1 && batch % pieces != 0)
        pieces--;
    const bool can = pieces > 1 && c->e->options.memory_budget_bytes == 0 &&
                     qn_program_can_split_apart(p, &c->e->machine, pieces);
    return can ? pieces : 0;
}

/* Of a node of the whole batch: where most of its pieces run. */
static void fill_sites(qn_device_choice *f, const qn_program *p) {
    const qn_graph *graph = qn_program_built_graph(p);
    int16_t *site_of = f->site_of;
    for (int32_t n = 0; n < f->n_nodes; n++)
        site_of[n] = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        if (p->unsplit_node[n] >= 0)
            site_of[p->unsplit_node[n]] += p->site_of[n] > 0 ? 1 : -1;
    }
    for (int32_t n = 0; n < f->n_nodes; n++)
        site_of[n] = site_of[n] > 0;
}

/* Times of all nodes of the pieces, on the device and on the CPU, and the best placement of them.
 */
static qn_status place_pieces(comparison *c, qn_placing *p, bool *is_mixed) {
    qn_device_mode_cost *mode = &c->found->modes[QN_DEVICE_MODE_PIECES];
    const size_t n = (size_t)p->n_nodes + 1;
    int16_t *site_of;
    int64_t ns;
    for (int device = c->device; device >= 0; device -= c->device) {
        if (qn_engine_device(c->e) != device)
            QN_TRY(qn_engine_change_device(c->e, device));
        QN_TRY(qn_rehearsal_run(c->r, c->r->program->executor, NULL, &ns));
        QN_TRY(qn_placing_measure(p, c->r));
        QN_TRY(qn_placing_measure(p, c->r));
    }
    QN_TRY(qn_allocate(&c->e->allocator, n, sizeof *site_of, &site_of));
    const qn_status status = qn_placing_choose(p, site_of, is_mixed, &mode->predicted);
    qn_release(&c->e->allocator, site_of, n, sizeof *site_of);
    return status;
}

static qn_status measure_pieces(comparison *c, int64_t pieces) {
    qn_device_mode_cost *mode = &c->found->modes[QN_DEVICE_MODE_PIECES];
    qn_placing p;
    bool is_mixed = false;
    QN_TRY(qn_engine_change_pieces(c->e, c->placing.program, pieces, NULL, c->device));
    QN_TRY(qn_placing_begin(c->e, c->placing.program, &p));
    p.wish = c->found->wish;
    qn_status status = place_pieces(c, &p, &is_mixed);
    qn_placing_end(&p);
    if (status != QN_OK || !is_mixed)
        return status;
    status = qn_engine_change_device(c->e, c->device);
    if (status == QN_OK)
        status = measure(c->r, mode);
    fill_joules(mode);
    return status;
}

/* The batch in pieces, each on one of both, where the rest has been compared; else as before. */
static qn_status try_pieces(comparison *c) {
    qn_device_choice *f = c->found;
    qn_program *p = c->placing.program;
    int16_t *site_of = p->site_of;
    const int device = qn_engine_device(c->e);
    const int64_t pieces = count_pieces(c);
    if (pieces == 0)
        return QN_OK;
    QN_TRY(qn_engine_note_placed(c->e, NULL));
    const qn_status status = measure_pieces(c, pieces);
    const bool is_lost = status == QN_ERROR_DEVICE;
    if (status != QN_OK && !is_lost)
        return status;
    if (!is_lost && cost_of(c, QN_DEVICE_MODE_PIECES) < cost_of(c, f->chosen)) {
        f->chosen = QN_DEVICE_MODE_PIECES;
        f->pieces = pieces;
        fill_sites(f, p);
        return qn_engine_note_placed(c->e, p);
    }
    QN_TRY(qn_engine_change_pieces(c->e, p, 0, site_of, is_lost ? 0 : device));
    f->chosen = is_lost ? QN_DEVICE_MODE_CPU : f->chosen;
    return qn_engine_note_placed(c->e, p);
}

/* ---- what is said ---- */

static void tell_result(const comparison *c) {
    char text[700], both[160] = "", split[80] = "";
    const qn_device_choice *f = c->found;
    const qn_device_mode_cost *b = &f->modes[QN_DEVICE_MODE_BOTH],
                              *s = &f->modes[QN_DEVICE_MODE_PIECES];
    const char *words[] = {"the CPU", f->name, "both", "both, with the batch in pieces"};
    if (f->has_failed) {
        snprintf(text, sizeof text, "device auto: %s fails%s; trains on the CPU", f->name,
                 f->reason);
    } else {
        if (b->is_measured)
            qn_print(both, sizeof both, ", %.2f ms on both (%d operations and %d)", b->ns * 1e-6,
                     b->predicted.n_nodes[1], b->predicted.n_nodes[0]);
        if (s->is_measured)
            qn_print(split, sizeof split, ", %.2f ms with the batch in pieces on both",
                     s->ns * 1e-6);
        qn_print(text, sizeof text,
                 "device auto: a step takes %.2f ms on %s and %.2f ms on the CPU%s%s; trains on "
                 "%s%s",
                 f->modes[QN_DEVICE_MODE_DEVICE].ns * 1e-6, f->name,
                 f->modes[QN_DEVICE_MODE_CPU].ns * 1e-6, both, split, words[f->chosen],
                 f->wish.prefer == QN_PREFER_TIME ? "" : " for the energy");
    }
    qn_engine_tell(c->e, 0, text);
}

static qn_status compare_all(comparison *c) {
    qn_device_choice *f = c->found;
    const qn_status status = measure_all(c, QN_DEVICE_MODE_DEVICE);
    qn_engine_describe_device(c->e, f->name, f->reason);
    if (status != QN_OK && status != QN_ERROR_DEVICE)
        return status;
    f->has_failed = status != QN_OK;
    f->modes[QN_DEVICE_MODE_DEVICE].is_measured &= !f->has_failed;
    QN_TRY(qn_engine_change_device(c->e, 0));
    QN_TRY(measure_all(c, QN_DEVICE_MODE_CPU));
    if (!f->has_failed) {
        QN_TRY(try_both(c));
        QN_TRY(take_best(c));
        QN_TRY(try_pieces(c));
    }
    tell_result(c);
    return QN_OK;
}

/* ---- a device that is emulated ---- */

static void fill_cpu(const comparison *c) {
    const qn_engine *e = c->e;
    const qn_program *p = c->placing.program;
    const qn_graph *graph = p->base ? p->base : p->graph;
    for (int32_t n = 0; n < c->placing.n_nodes; n++) {
        qn_tensor outputs[QN_MAX_OUTPUTS];
        const qn_node *node = graph->nodes[n];
        const qn_query query = qn_machine_query(graph, node, e->options.n_threads, outputs);
        const qn_cost cost = qn_node_cost(graph, node);
        const bool is_work = !node->op->is_view && !node->op->is_wait;
        c->placing.ns[n * 2] = is_work ? c->found->model->cpu_ns(&query, &cost) : 0;
    }
}

/* The one before prepares what stays there. */
static qn_status count_step(comparison *c) {
    int64_t ns;
    QN_TRY(qn_rehearsal_run(c->r, c->r->program->executor, NULL, &ns));
    return qn_placing_measure(&c->placing, c->r);
}

static void tell_modelled(const comparison *c) {
    static const char *const words[] = {"all operations on the CPU", "all that it can do on it",
                                        "both"};
    const qn_device_choice *f = c->found;
    char text[600], both[120] = "";
    if (f->modes[QN_DEVICE_MODE_BOTH].is_measured)
        qn_print(both, sizeof both, ", %.3f ms with %d operations on it and %d on the CPU",
                 f->modes[QN_DEVICE_MODE_BOTH].ns * 1e-6,
                 f->modes[QN_DEVICE_MODE_BOTH].predicted.n_nodes[1],
                 f->modes[QN_DEVICE_MODE_BOTH].predicted.n_nodes[0]);
    qn_print(
        text, sizeof text,
        "device %s: by its model a step takes %.3f ms on the CPU, %.3f ms with all that it can "
        "do on it%s; trains with %s",
        f->name, f->modes[QN_DEVICE_MODE_CPU].ns * 1e-6, f->modes[QN_DEVICE_MODE_DEVICE].ns * 1e-6,
        both, words[f->chosen]);
    qn_engine_tell(c->e, 0, text);
}

/* Takes a placement of all nodes, also where they are all in one place. */
static qn_status take_placement(comparison *c) {
    qn_device_choice *f = c->found;
    qn_program *p = c->placing.program;
    const size_t n = (size_t)f->n_nodes;
    for (size_t i = 0; f->chosen != QN_DEVICE_MODE_BOTH && i < n; i++)
        f->site_of[i] = f->chosen == QN_DEVICE_MODE_DEVICE && f->ns[i * 2 + 1] >= 0;
    int16_t *kept = qn_arena_allocate(&p->graph->arena, n + 1, sizeof *kept);
    if (!kept)
        return QN_ERROR_MEMORY;
    memcpy(kept, f->site_of, n * sizeof *kept);
    p->site_of = kept;
    QN_TRY(qn_engine_note_placed(c->e, p));
    return qn_engine_change_device(c->e, c->device);
}

static qn_status compare_modelled(comparison *c) {
    qn_device_choice *f = c->found;
    bool is_mixed;
    const qn_status status = count_step(c);
    qn_engine_describe_device(c->e, f->name, f->reason);
    f->has_failed = status == QN_ERROR_DEVICE;
    if (status != QN_OK)
        return f->has_failed ? qn_engine_lose_device(c->e, f->program) : status;
    QN_TRY(qn_engine_change_device(c->e, 0));
    fill_cpu(c);
    QN_TRY(predict(c, &is_mixed));
    for (int mode = 0; mode < QN_DEVICE_MODE_PIECES; mode++) {
        f->modes[mode].is_measured = mode != QN_DEVICE_MODE_BOTH || is_mixed;
        f->modes[mode].ns = f->modes[mode].predicted.ns;
        f->modes[mode].joules = f->modes[mode].predicted.joules;
        f->chosen = cost_of(c, (qn_device_mode)mode) < cost_of(c, f->chosen) ? (qn_device_mode)mode
                                                                             : f->chosen;
    }
    tell_modelled(c);
    return take_placement(c);
}

static qn_status compare(qn_engine *e, const qn_rehearsal *r) {
    const int program = (int)(r->program - e->programs);
    comparison c = {.e = e, .r = r, .device = qn_engine_device(e)};
    QN_TRY(qn_placing_begin(e, &e->programs[program], &c.placing));
    qn_status status = create(e, program, c.placing.n_nodes);
    c.found = qn_offload_of(e)->choice;
    if (status == QN_OK)
        set_wish(&c);
    if (status == QN_OK)
        status = c.found->model ? compare_modelled(&c) : compare_all(&c);
    qn_placing_end(&c.placing);
    return status;
}

static qn_status choose(qn_engine *e, const qn_program *p) {
    qn_rehearsal r;
    QN_TRY(qn_rehearsal_begin(e, p, &r));
    const qn_status status = compare(e, &r);
    qn_rehearsal_end(&r);
    return status;
}

static bool is_placed(const qn_engine *e) {
    const qn_offload *o = qn_offload_of(e);
    return qn_engine_device(e) > 0 && !e->options.plan_only && o->driver->functions->is_placed &&
           !o->placed.is_given;
}

qn_status qn_engine_choose_device(qn_engine *e) {
    int i = 0;
    if (!qn_offload_of(e)->is_tried && !is_placed(e))
        return QN_OK;
    while (i + 1 < e->n_programs && !e->programs[i].training)
        i++;
    if (qn_engine_device(e) > 0)
        QN_TRY(choose(e, &e->programs[i]));
    if (!qn_offload_of(e)->is_tried)
        return QN_OK;
    return qn_engine_device(e) > 0 ? qn_engine_note_placed(e, &e->programs[i])
                                   : qn_engine_note_cpu(e);
}
