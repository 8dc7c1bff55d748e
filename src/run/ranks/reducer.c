/* Gradients of several processes for one step (os/ranks.h). The batches that are accumulated for a
 * step are dealt out to the ranks in turn; each rank runs one at a time. Their gradients are added
 * in the order of the batches, element by element, by the rank that owns the element: what one
 * process computes, which adds them in that order too. Messages leave while the backward pass goes
 * on, a group of parameters at a time. What nodes change in place during a batch (running
 * statistics of batch norm) is done again for all ranks' batches in their order.
 *
 * Guarantees: parameters, state and sums have the bits of one process; after a failure before the
 * update they are those before the step.
 *
 * The sums of all gradients are one row of elements, in the order in which the
 * backward pass finishes them, cut into groups. Rank i owns part i of each group:
 *     1. when a group is finished, its parts go to their owners
 *     2. an owner adds the parts of all ranks to its total, in the order of ranks
 *     3. after the step's last batch the totals go to all ranks
 * So a step sends, per rank, (ranks - 1) / ranks of the gradients' bytes for each of its batches,
 * and once more at its end. */
#include "os/ranks.h"
#include "run/offload.h"
#include "run/policy.h"

#include "base/memory.h"
#include "base/status.h"
#include "device/device.h"

#include <string.h>

enum { GROUP_BYTES = 4 << 20, MOST_OPERANDS = 16, MOST_GROUPS = 20000 };

/* Elements [first, first + n) of the row: tensors [tensor, tensor + n_tensors) of the order. The
 * own part is total[own_first...]. */
typedef struct group {
    size_t first, n, own_first;
    int tensor, n_tensors;
} group;

/* A node that changes what is stored, of which it reads the rest (n_read of the inputs): a copy of
 * those is in own + offset. */
typedef struct note {
    int32_t step;
    int n_read, inputs[MOST_OPERANDS];
    size_t offsets[MOST_OPERANDS];
} note;

/* What notes change: a tensor of the store; saved: offset of its copies. */
typedef struct changed {
    const qn_stored_tensor *tensor;
    size_t saved;
} changed;

/* Where a run of the plan pauses: behind a step. */
typedef struct stop {
    int32_t step;
    int group, note; /* less than 0: none */
} stop;

typedef struct reducer {
    qn_engine *engine;
    qn_ranks *ranks;
    const qn_allocator *allocator;
    int n, own, program;
    size_t real_bytes, n_elements, n_own;
    int n_tensors, n_groups, n_notes, n_changed, n_stops;
    int *order;      /* (n_tensors): of engine->sums, as they are finished */
    int32_t *ready;  /* (n_tensors), by tensor: the step that finishes it */
    group *groups;   /* (n_tensors) */
    note *notes;     /* (n_steps) */
    changed *stored; /* (n_steps) */
    stop *stops;     /* (n_steps) */
    size_t n_steps;
    char *row;   /* (n_elements) */
    char *parts; /* (n, n_own): of every rank, of the elements that this one owns */
    char *total; /* (n_own) */
    size_t note_bytes, saved_bytes;
    char *own_notes;   /* (note_bytes) */
    char *all_notes;   /* (n, note_bytes) */
    char *step_saved;  /* (saved_bytes): before the step */
    char *batch_saved; /* (saved_bytes): before the batches of this time */
    bool has_saved, is_broken;
} reducer;

static const qn_program *program_of(const reducer *r) {
    return qn_engine_get_program(r->engine, r->program);
}

static size_t part_begin(const reducer *r, const group *g, int rank) {
    return g->n * (size_t)rank / (size_t)r->n;
}

static size_t part_size(const reducer *r, const group *g, int rank) {
    return part_begin(r, g, rank + 1) - part_begin(r, g, rank);
}

/* ---- making ---- */

/* The value from outside whose storage an output takes over; less than 0: none. */
static int32_t changed_value(const qn_graph *graph, const qn_node *node, int output) {
    int32_t v = node->outputs[output].id;
    if (v < 0 || graph->values[v]->overwrites < 0)
        return -1;
    while (graph->values[v]->overwrites >= 0)
        v = graph->values[v]->overwrites;
    return v;
}

static int find_sum(const reducer *r, const char *name) {
    const qn_stored_tensor *found = qn_store_find(&r->engine->sums, name);
    return found ? (int)(found - r->engine->sums.tensors) : -1;
}

static qn_status add_changed(reducer *r, const char *name) {
    const qn_stored_tensor *tensor = qn_store_find(&r->engine->store, name);
    if (!tensor)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s changes during a batch, so ranks cannot share "
                       "steps; train without mpirun",
                       name);
    for (int i = 0; i < r->n_changed; i++) {
        if (r->stored[i].tensor == tensor)
            return QN_OK;
    }
    r->stored[r->n_changed++] = (changed){tensor, r->saved_bytes};
    r->saved_bytes += (tensor->bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
    return QN_OK;
}

static bool is_overwritten_input(const qn_node *node, int input) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (node->op->overwrites[i] - 1 == input)
            return true;
    }
    return false;
}

/* Its inputs but for what it changes are copied when it has run. */
static qn_status add_note(reducer *r, int32_t step, const qn_node *node) {
    const qn_graph *graph = program_of(r)->graph;
    note *to = &r->notes[r->n_notes++];
    *to = (note){.step = step};
    if (node->n_inputs > MOST_OPERANDS)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s has %d inputs", node->name, node->n_inputs);
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id < 0 || is_overwritten_input(node, i))
            continue;
        const size_t bytes = qn_tensor_bytes(qn_graph_tensor(graph, node->inputs[i]));
        to->inputs[to->n_read] = i;
        to->offsets[to->n_read++] = r->note_bytes;
        r->note_bytes += (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
    }
    return QN_OK;
}

/* What a batch changes, later nodes of it must not read: other ranks' changes are not there yet. */
static qn_status check_unread(const reducer *r, const qn_node *node) {
    const qn_graph *graph = program_of(r)->graph;
    for (int i = 0; i < node->n_inputs; i++) {
        const int32_t v = node->inputs[i].id;
        if (v >= 0 && graph->values[v]->producer >= 0 && graph->values[v]->overwrites >= 0)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "%s reads what changes from batch to batch, so ranks cannot share "
                           "steps; train without mpirun",
                           node->name);
    }
    return QN_OK;
}

static qn_status sort_step(reducer *r, int32_t step) {
    const qn_program *p = program_of(r);
    const qn_node *node = p->graph->nodes[p->plan->steps[step].node];
    bool is_note = false;
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t v = changed_value(p->graph, node, i);
        const char *name = v < 0 ? NULL : p->graph->values[v]->name;
        const int sum = name ? find_sum(r, name) : -1;
        if (sum >= 0)
            r->ready[sum] = step;
        if (!name || sum >= 0)
            continue;
        QN_TRY(add_changed(r, name));
        is_note = true;
    }
    if (is_note)
        QN_TRY(add_note(r, step, node));
    return is_note || node->op->overwrites[0] == 0 ? check_unread(r, node) : QN_OK;
}

/* By the steps that finish them; equal ones as they are listed. */
static void sort_tensors(reducer *r) {
    for (int i = 0; i < r->n_tensors; i++) {
        int k = i;
        for (; k > 0 && r->ready[r->order[k - 1]] > r->ready[i]; k--)
            r->order[k] = r->order[k - 1];
        r->order[k] = i;
    }
}

static qn_status cut_groups(reducer *r) {
    const qn_stored_tensor *tensors = r->engine->sums.tensors;
    for (int i = 0; i < r->n_tensors;) {
        group *g = &r->groups[r->n_groups++];
        *g = (group){.first = r->n_elements, .tensor = i, .own_first = r->n_own};
        for (; i < r->n_tensors && g->n * r->real_bytes < GROUP_BYTES; i++, g->n_tensors++)
            g->n += tensors[r->order[i]].bytes / r->real_bytes;
        r->n_elements += g->n;
        r->n_own += part_size(r, g, r->own);
        if ((g->n / (size_t)r->n + 1) * r->real_bytes > QN_RANKS_MOST_BYTES ||
            r->n_groups >= MOST_GROUPS)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "%s is too large for messages between ranks; use more ranks",
                           tensors[r->order[g->tensor]].name);
    }
    return QN_OK;
}

static void list_stops(reducer *r) {
    int g = 0, k = 0;
    while (g < r->n_groups || k < r->n_notes) {
        const group *next = &r->groups[g];
        const int32_t of_group =
            g < r->n_groups ? r->ready[r->order[next->tensor + next->n_tensors - 1]] : INT32_MAX;
        const int32_t of_note = k < r->n_notes ? r->notes[k].step : INT32_MAX;
        stop *to = &r->stops[r->n_stops++];
        *to = of_note <= of_group ? (stop){of_note, -1, k++} : (stop){of_group, g++, -1};
    }
}

static qn_status allocate_lists(reducer *r) {
    const size_t n = (size_t)r->n_tensors;
    r->n_steps = (size_t)program_of(r)->plan->n_steps;
    QN_TRY(qn_allocate(r->allocator, n, sizeof *r->order, &r->order));
    QN_TRY(qn_allocate(r->allocator, n, sizeof *r->ready, &r->ready));
    QN_TRY(qn_allocate(r->allocator, n, sizeof *r->groups, &r->groups));
    QN_TRY(qn_allocate(r->allocator, r->n_steps, sizeof *r->notes, &r->notes));
    QN_TRY(qn_allocate(r->allocator, r->n_steps, sizeof *r->stored, &r->stored));
    return qn_allocate(r->allocator, n + r->n_steps, sizeof *r->stops, &r->stops);
}

static qn_status allocate_buffers(reducer *r) {
    const size_t n = (size_t)r->n;
    QN_TRY(qn_allocate(r->allocator, r->n_elements, r->real_bytes, &r->row));
    QN_TRY(qn_allocate(r->allocator, n * r->n_own, r->real_bytes, &r->parts));
    QN_TRY(qn_allocate(r->allocator, r->n_own, r->real_bytes, &r->total));
    QN_TRY(qn_allocate(r->allocator, r->note_bytes, 1, &r->own_notes));
    QN_TRY(qn_allocate(r->allocator, n, r->note_bytes, &r->all_notes));
    QN_TRY(qn_allocate(r->allocator, r->saved_bytes, 1, &r->step_saved));
    QN_TRY(qn_allocate(r->allocator, r->saved_bytes, 1, &r->batch_saved));
    return qn_ranks_reserve(r->ranks, n * (size_t)(r->n_groups + 1));
}

/* The row and all parts are the sums once each. A node of the forward pass is noted with its
 * inputs, which are as small as what it changes. */
static size_t reserve(const qn_engine *e) {
    const size_t n = (size_t)qn_ranks_count(e->options.ranks);
    size_t n_nodes = 0, changed_bytes = 0;
    if (n == 1)
        return 0;
    for (int i = 0; i < e->n_programs; i++)
        n_nodes += e->programs[i].training ? 2 * (size_t)e->programs[i].graph->n_nodes : 0;
    for (int i = 0; i < e->store.n_tensors; i++) {
        const qn_stored_tensor *t = &e->store.tensors[i];
        changed_bytes += t->trainable || t->is_state ? 0 : t->bytes + QN_ALIGNMENT;
    }
    return 2 * e->sums.bytes + e->sums.bytes / n + (n + 3) * changed_bytes +
           n_nodes * (sizeof(note) + sizeof(changed) + sizeof(stop)) +
           (size_t)e->sums.n_tensors * (sizeof(group) + sizeof(stop) + 64) + sizeof(reducer);
}

static qn_status check_engine(const qn_engine *e) {
    const qn_engine_options *o = &e->options;
    const int n = qn_ranks_count(o->ranks);
    int n_training = 0;
    for (int i = 0; i < e->n_programs; i++)
        n_training += e->programs[i].training;
    if (o->update.accumulate % n != 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%d ranks cannot share the %lld batches of a step equally; use --accumulate "
                       "with a multiple of %d, or start as many ranks as divide it",
                       n, (long long)o->update.accumulate, n);
    if (n_training != 1)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "ranks share the steps of one training program, and "
                       "this model has %d; train without mpirun",
                       n_training);
    if (qn_engine_device(e) != 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "under mpirun, steps run on the CPU only: leave out "
                                             "--device");
    if (o->budget_changes || o->swap_folder)
        return qn_fail(QN_ERROR_UNSUPPORTED, "under mpirun, a budget neither changes nor swaps: "
                                             "leave out --swap, --budget-file and "
                                             "--memory-pressure");
    return QN_OK;
}

static qn_status fill(reducer *r) {
    qn_engine *e = r->engine;
    while (!e->programs[r->program].training)
        r->program++;
    r->n = qn_ranks_count(r->ranks);
    r->own = qn_ranks_own(r->ranks);
    r->real_bytes = qn_dtype_bytes(e->options.real);
    r->n_tensors = e->sums.n_tensors;
    QN_TRY(allocate_lists(r));
    for (int32_t step = 0; step < (int32_t)r->n_steps; step++)
        QN_TRY(sort_step(r, step));
    sort_tensors(r);
    QN_TRY(cut_groups(r));
    list_stops(r);
    return allocate_buffers(r);
}

static void release(reducer *r) {
    const qn_allocator *a = r->allocator;
    const size_t n = (size_t)r->n, n_tensors = (size_t)r->n_tensors;
    qn_release(a, r->order, n_tensors, sizeof *r->order);
    qn_release(a, r->ready, n_tensors, sizeof *r->ready);
    qn_release(a, r->groups, n_tensors, sizeof *r->groups);
    qn_release(a, r->notes, r->n_steps, sizeof *r->notes);
    qn_release(a, r->stored, r->n_steps, sizeof *r->stored);
    qn_release(a, r->stops, n_tensors + r->n_steps, sizeof *r->stops);
    qn_release(a, r->row, r->n_elements, r->real_bytes);
    qn_release(a, r->parts, n * r->n_own, r->real_bytes);
    qn_release(a, r->total, r->n_own, r->real_bytes);
    qn_release(a, r->own_notes, r->note_bytes, 1);
    qn_release(a, r->all_notes, n, r->note_bytes);
    qn_release(a, r->step_saved, r->saved_bytes, 1);
    qn_release(a, r->batch_saved, r->saved_bytes, 1);
    qn_release(a, r, 1, sizeof *r);
}

static qn_status create(qn_engine *engine) {
    reducer *r;
    QN_TRY(check_engine(engine));
    QN_TRY(qn_allocate(&engine->allocator, 1, sizeof *r, &r));
    r->engine = engine;
    r->ranks = engine->options.ranks;
    r->allocator = &engine->allocator;
    const qn_status status = fill(r);
    if (status != QN_OK) {
        release(r);
        return status;
    }
    engine->policies[QN_POLICY_RANKS] = r;
    return QN_OK;
}

/* ---- what batches change in place ---- */

static void keep_changed(const reducer *r, char *to) {
    for (int i = 0; i < r->n_changed; i++)
        memcpy(to + r->stored[i].saved, r->stored[i].tensor->data, r->stored[i].tensor->bytes);
}

static void put_back(const reducer *r, const char *from) {
    for (int i = 0; i < r->n_changed; i++)
        memcpy(r->stored[i].tensor->data, from + r->stored[i].saved, r->stored[i].tensor->bytes);
}

static void take_note(const reducer *r, const note *n) {
    const qn_call *call = qn_executor_get_call(program_of(r)->executor, n->step);
    for (int i = 0; i < n->n_read; i++)
        memcpy(r->own_notes + n->offsets[i], call->in[n->inputs[i]],
               qn_tensor_bytes(call->inputs[n->inputs[i]]));
}

/* A noted node once more, on what a rank has read. */
static void repeat(const reducer *r, const note *n, char *notes) {
    qn_call call = *qn_executor_get_call(program_of(r)->executor, n->step);
    void *in[MOST_OPERANDS] = {0};
    memcpy(in, call.in, (size_t)call.node->n_inputs * sizeof *in);
    for (int i = 0; i < n->n_read; i++)
        in[n->inputs[i]] = notes + n->offsets[i];
    call.in = in;
    qn_device_cpu.run(&call);
}

static qn_status repeat_all(reducer *r) {
    if (r->n_notes == 0)
        return QN_OK;
    QN_TRY(qn_ranks_gather(r->ranks, r->own_notes, r->note_bytes, r->all_notes));
    put_back(r, r->batch_saved);
    for (int rank = 0; rank < r->n; rank++) {
        for (int i = 0; i < r->n_notes; i++)
            repeat(r, &r->notes[i], r->all_notes + (size_t)rank * r->note_bytes);
    }
    return QN_OK;
}

/* ---- running ---- */

/* The group's gradients go to their owners, and its sums begin anew. */
static qn_status send_group(reducer *r, int index) {
    const group *g = &r->groups[index];
    char *row = r->row + g->first * r->real_bytes, *to = row;
    for (int i = 0; i < g->n_tensors; i++) {
        const qn_stored_tensor *sum = &r->engine->sums.tensors[r->order[g->tensor + i]];
        memcpy(to, sum->data, sum->bytes);
        memset(sum->data, 0, sum->bytes);
        to += sum->bytes;
    }
    for (int rank = 0; rank < r->n; rank++) {
        char *part = r->parts + ((size_t)rank * r->n_own + g->own_first) * r->real_bytes;
        char *from = row + part_begin(r, g, rank) * r->real_bytes;
        const size_t bytes = part_size(r, g, r->own) * r->real_bytes;
        if (rank == r->own) {
            memcpy(part, from, bytes);
            continue;
        }
        QN_TRY(qn_ranks_receive(r->ranks, rank, index, part, bytes));
        QN_TRY(qn_ranks_send(r->ranks, rank, index, from, part_size(r, g, rank) * r->real_bytes));
    }
    return QN_OK;
}

static void add(const reducer *r, char *total, const char *part) {
    if (r->real_bytes == sizeof(double)) {
        for (size_t i = 0; i < r->n_own; i++)
            ((double *)(void *)total)[i] += ((const double *)(const void *)part)[i];
        return;
    }
    for (size_t i = 0; i < r->n_own; i++)
        ((float *)(void *)total)[i] += ((const float *)(const void *)part)[i];
}

static qn_status run_plan(reducer *r, uint64_t step, const qn_watch *watch) {
    qn_executor *executor = program_of(r)->executor;
    const uint64_t seed = r->engine->options.seed;
    int32_t next = 0;
    for (int i = 0; i < r->n_stops; i++) {
        const stop *s = &r->stops[i];
        QN_TRY(qn_executor_run_from(executor, &next, s->step + 1, NULL, seed, step, watch));
        qn_ranks_poll(r->ranks);
        if (s->note >= 0)
            take_note(r, &r->notes[s->note]);
        else
            QN_TRY(send_group(r, s->group));
    }
    return qn_executor_run_from(executor, &next, (int32_t)r->n_steps, NULL, seed, step, watch);
}

static qn_status run(reducer *r, uint64_t step, const qn_watch *watch) {
    QN_TRY(run_plan(r, step + (uint64_t)r->own, watch));
    QN_TRY(qn_ranks_wait(r->ranks));
    for (int rank = 0; rank < r->n; rank++)
        add(r, r->total, r->parts + (size_t)rank * r->n_own * r->real_bytes);
    return repeat_all(r);
}

static qn_status run_program(qn_engine *e, int program, uint64_t step, const qn_watch *watch) {
    reducer *r = e->policies[QN_POLICY_RANKS];
    (void)program;
    if (r->is_broken)
        return qn_fail(QN_ERROR_IO, "the other ranks are gone; continue from a checkpoint");
    if (e->run.n_accumulated == 0)
        keep_changed(r, r->step_saved);
    r->has_saved = true;
    keep_changed(r, r->batch_saved);
    return run(r, step, watch);
}

/* ---- the end of a step ---- */

static qn_status exchange_totals(reducer *r) {
    for (int i = 0; i < r->n_groups; i++) {
        const group *g = &r->groups[i];
        char *row = r->row + g->first * r->real_bytes;
        const char *total = r->total + g->own_first * r->real_bytes;
        const size_t bytes = part_size(r, g, r->own) * r->real_bytes;
        memcpy(row + part_begin(r, g, r->own) * r->real_bytes, total, bytes);
        for (int rank = 0; rank < r->n; rank++) {
            if (rank == r->own)
                continue;
            QN_TRY(qn_ranks_receive(r->ranks, rank, i, row + part_begin(r, g, rank) * r->real_bytes,
                                    part_size(r, g, rank) * r->real_bytes));
            QN_TRY(qn_ranks_send(r->ranks, rank, i, total, bytes));
        }
    }
    return qn_ranks_wait(r->ranks);
}

static qn_status finish_step(qn_engine *e) {
    reducer *r = e->policies[QN_POLICY_RANKS];
    if (!r)
        return QN_OK;
    const char *from = r->row;
    QN_TRY(exchange_totals(r));
    for (int i = 0; i < r->n_tensors; i++) {
        const qn_stored_tensor *sum = &r->engine->sums.tensors[r->order[i]];
        memcpy(sum->data, from, sum->bytes);
        from += sum->bytes;
    }
    memset(r->total, 0, r->n_own * r->real_bytes);
    return QN_OK;
}

static void undo_step(qn_engine *e) {
    reducer *r = e->policies[QN_POLICY_RANKS];
    if (r->has_saved)
        put_back(r, r->step_saved);
    for (int i = 0; i < r->n_tensors; i++)
        memset(r->engine->sums.tensors[i].data, 0, r->engine->sums.tensors[i].bytes);
    memset(r->total, 0, r->n_own * r->real_bytes);
    r->is_broken = true;
}

/* ---- the policy ---- */

static qn_status start(qn_engine *e) {
    const qn_engine_options *o = &e->options;
    return o->ranks && !o->plan_only && o->update.accumulate > 1 ? create(e) : QN_OK;
}

static bool runs(const qn_engine *e, int program) {
    return e->policies[QN_POLICY_RANKS] && program != QN_PROGRAM_UPDATE &&
           e->programs[program].training;
}

static int batches(const qn_engine *e) {
    return e->policies[QN_POLICY_RANKS] ? qn_ranks_count(e->options.ranks) : 1;
}

static void destroy(qn_engine *e) {
    if (e->policies[QN_POLICY_RANKS])
        release(e->policies[QN_POLICY_RANKS]);
    e->policies[QN_POLICY_RANKS] = NULL;
}

/* Only the update changes parameters, and it does not fail: a step can be undone. */
const qn_policy qn_policy_ranks = {
    .name = "ranks",
    .reserve = reserve,
    .start = start,
    .runs = runs,
    .run = run_program,
    .batches = batches,
    .finish_step = finish_step,
    .undo_step = undo_step,
    .stop = destroy,
};
