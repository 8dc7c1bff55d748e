/* The places of a switch's values while nodes are recomputed, and how values get to their places in
 * the new plan. Held values stay where they are, and recomputed ones go into the gaps; if they do
 * not fit, the held values are first moved together at the start of the arena. */
#include "base/status.h"
#include "device/cpu/cpu.h"
#include "run/rebudget/adapt_state.h"

#include <stdlib.h>
#include <string.h>

enum { NO_STEP = -1 };

/* Bytes in use from one node run again to another, both included; what is held: from the first. */
typedef struct box {
    size_t offset, bytes, wish; /* wish: SIZE_MAX: none */
    int32_t first, last;
    bool is_held;
} box;

typedef struct turn {
    size_t bytes;
    int32_t box;
} turn;

/* Nodes by their place among those that run again. */
typedef struct placing {
    qn_adapt_state *a;
    const qn_allocator *allocator;
    int32_t n_again, *again;      /* (n_again) */
    int32_t *last_read;           /* (base n_values): last of them that reads it, or NO_STEP */
    int32_t *held_box, *made_box; /* (base n_values): boxes, or -1 */
    int32_t *workspace_box;       /* (n_again) */
    size_t n_boxes, box_capacity;
    box *boxes;
    size_t order_capacity, sorted_capacity;
    turn *order;     /* (n_boxes): in which they are placed */
    int32_t *sorted; /* (n_boxes): those that are, by offset */
    qn_move *moves;  /* (base n_values) */
    bool is_gathered;
} placing;

static int32_t root(const placing *p, qn_value value) {
    return qn_graph_unview(p->a->base, value).id;
}

static bool is_made(const placing *p, int32_t value) {
    const int32_t producer = p->a->base->values[value]->producer;
    return producer >= 0 && p->a->is_again[producer];
}

static bool is_outside(const placing *p, int32_t value) {
    const qn_variant *from = &p->a->options->from;
    return qn_adapt_is_bound(from, from->origins->first[value].id);
}

/* ---- boxes ---- */

static qn_status add_box(placing *p, box b, int32_t *index) {
    QN_TRY(qn_grow(p->allocator, &p->boxes, &p->box_capacity, p->n_boxes + 1, sizeof *p->boxes));
    b.bytes = (b.bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
    p->boxes[p->n_boxes] = b;
    *index = (int32_t)p->n_boxes++;
    return QN_OK;
}

static void list_again(placing *p) {
    for (int32_t i = 0; i < p->a->n_done; i++) {
        if (p->a->is_again[p->a->done[i]])
            p->again[p->n_again++] = p->a->done[i];
    }
    for (int v = 0; v < p->a->base->n_values; v++)
        p->last_read[v] = p->held_box[v] = p->made_box[v] = NO_STEP;
    for (int32_t r = 0; r < p->n_again; r++) {
        const qn_node *node = p->a->base->nodes[p->again[r]];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                p->last_read[root(p, node->inputs[i])] = r;
        }
    }
}

static qn_status add_held(placing *p) {
    for (int v = 0; v < p->a->base->n_values; v++) {
        const bool is_wanted = p->a->wanted[v] >= 0;
        const bool is_read = p->last_read[v] >= 0 && !is_made(p, v);
        if (p->a->held[v] < 0 || (!is_wanted && !is_read))
            continue;
        const qn_move rows = qn_adapt_rows(&p->a->options->from, p->a->held[v]);
        const size_t begin = rows.from.offset / QN_ALIGNMENT * QN_ALIGNMENT;
        QN_TRY(add_box(p,
                       (box){.offset = begin,
                             .bytes = rows.from.offset - begin + qn_move_extent(&rows, &rows.from),
                             .last = is_wanted ? p->n_again : p->last_read[v],
                             .is_held = true},
                       &p->held_box[v]));
    }
    return QN_OK;
}

/* Where the new plan wants a value, if it may be made there. */
static size_t find_wish(const placing *p, int32_t value) {
    if (p->a->wanted[value] < 0)
        return SIZE_MAX;
    const qn_move rows = qn_adapt_rows(&p->a->options->to, p->a->wanted[value]);
    const bool is_dense = rows.rows == 1 || rows.to.step == rows.row;
    return is_dense && rows.to.offset % QN_ALIGNMENT == 0 ? rows.to.offset : SIZE_MAX;
}

static qn_status add_outputs(placing *p, int32_t r) {
    const qn_node *node = p->a->base->nodes[p->again[r]];
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t v = node->outputs[i].id;
        const bool is_kept = p->a->wanted[v] >= 0 && p->a->held[v] < 0;
        const int32_t last_read = p->last_read[v] > r ? p->last_read[v] : r;
        QN_TRY(add_box(p,
                       (box){.bytes = qn_tensor_bytes(p->a->base->values[v]->tensor),
                             .first = r,
                             .last = is_kept ? p->n_again : last_read,
                             .wish = is_kept ? find_wish(p, v) : SIZE_MAX},
                       &p->made_box[v]));
    }
    return QN_OK;
}

static qn_status add_workspace(placing *p, int32_t r) {
    const qn_node *node = p->a->base->nodes[p->again[r]];
    p->workspace_box[r] = -1;
    const qn_machine *machine = p->a->options->machine;
    qn_tensor outputs[QN_MAX_OUTPUTS];
    const qn_query query = qn_machine_query(p->a->base, node, machine->n_threads, outputs);
    const size_t bytes = qn_machine_workspace(machine, 0, &query);
    if (bytes == 0)
        return QN_OK;
    return add_box(p, (box){.bytes = bytes, .first = r, .last = r, .wish = SIZE_MAX},
                   &p->workspace_box[r]);
}

/* ---- placing them ---- */

static bool do_meet(const box *a, const box *b) {
    return a->first <= b->last && b->first <= a->last;
}

static bool is_free(const placing *p, size_t n_placed, const box *b, size_t offset) {
    for (size_t i = 0; i < n_placed; i++) {
        const box *other = &p->boxes[p->sorted[i]];
        if (do_meet(other, b) && other->offset < offset + b->bytes &&
            offset < other->offset + other->bytes)
            return false;
    }
    return true;
}

/* The lowest offset that is free for all of its time. */
static size_t find_lowest(const placing *p, size_t n_placed, const box *b) {
    size_t offset = 0;
    for (size_t i = 0; i < n_placed; i++) {
        const box *other = &p->boxes[p->sorted[i]];
        if (!do_meet(other, b))
            continue;
        if (other->offset >= offset && other->offset - offset >= b->bytes)
            break;
        if (other->offset + other->bytes > offset)
            offset = other->offset + other->bytes;
    }
    return offset;
}

static void note_placed(placing *p, size_t *n_placed, int32_t index) {
    size_t at = (*n_placed)++;
    for (; at > 0 && p->boxes[p->sorted[at - 1]].offset > p->boxes[index].offset; at--)
        p->sorted[at] = p->sorted[at - 1];
    p->sorted[at] = index;
}

static int by_bytes(const void *left, const void *right) {
    const turn *a = left, *b = right;
    return a->bytes != b->bytes ? (a->bytes < b->bytes ? 1 : -1)
                                : (a->box > b->box) - (a->box < b->box);
}

/* Places all that is made again around what is held, the largest first; false: it does not fit. */
static bool place_around(placing *p) {
    const size_t limit = p->a->options->limit_bytes;
    size_t n_placed = 0, n_order = 0;
    for (size_t i = 0; i < p->n_boxes; i++) {
        if (p->boxes[i].is_held)
            note_placed(p, &n_placed, (int32_t)i);
        else
            p->order[n_order++] = (turn){p->boxes[i].bytes, (int32_t)i};
    }
    if (n_order > 0)
        qsort(p->order, n_order, sizeof *p->order, by_bytes);
    for (size_t i = 0; i < n_order; i++) {
        box *b = &p->boxes[p->order[i].box];
        const bool has_wish = b->wish < limit && b->bytes <= limit - b->wish;
        b->offset =
            has_wish && is_free(p, n_placed, b, b->wish) ? b->wish : find_lowest(p, n_placed, b);
        if (b->offset > limit || b->bytes > limit - b->offset)
            return false;
        note_placed(p, &n_placed, p->order[i].box);
    }
    return true;
}

/* ---- moves ---- */

static int by_place(const void *left, const void *right) {
    const qn_move *a = left, *b = right;
    return (a->from.offset > b->from.offset) - (a->from.offset < b->from.offset);
}

/* Moves what is held to the arena's begin, dense. */
static qn_status gather(placing *p, qn_moves *moves) {
    size_t n = 0, end = 0;
    for (int v = 0; v < p->a->base->n_values; v++) {
        if (p->held_box[v] < 0)
            continue;
        p->moves[n] = qn_adapt_rows(&p->a->options->from, p->a->held[v]);
        /* The value travels in the step until its new place is known. */
        p->moves[n++].to.step = (size_t)v;
    }
    qsort(p->moves, n, sizeof *p->moves, by_place);
    for (size_t i = 0; i < n; i++) {
        qn_move *m = &p->moves[i];
        box *b = &p->boxes[p->held_box[m->to.step]];
        b->offset = end;
        b->bytes = (m->rows * m->row + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
        m->to = (qn_rows_at){end, m->row};
        end += b->bytes;
    }
    p->is_gathered = true;
    return qn_moves_find(p->allocator, p->moves, n, p->a->options->limit_bytes, moves);
}

/* Rows of a value as they lie when all has run again. */
static qn_rows_at find_rows(const placing *p, int32_t value, bool from_made) {
    const int32_t index = from_made ? p->made_box[value] : p->held_box[value];
    if (!from_made && !p->is_gathered)
        return qn_adapt_rows(&p->a->options->from, p->a->held[value]).from;
    const qn_tensor tensor = p->a->base->values[value]->tensor;
    const int rank = tensor.shape.rank;
    const size_t columns = rank > 0 ? (size_t)tensor.shape.dims[rank - 1] : 1;
    return (qn_rows_at){p->boxes[index].offset, columns * qn_dtype_bytes(tensor.dtype)};
}

static qn_status move_to_goals(placing *p, qn_adapt *found) {
    size_t n = 0;
    for (int v = 0; v < p->a->base->n_values; v++) {
        if (p->a->wanted[v] < 0)
            continue;
        qn_move m = qn_adapt_rows(&p->a->options->to, p->a->wanted[v]);
        m.from = find_rows(p, v, p->a->held[v] < 0);
        if (p->a->held[v] >= 0)
            found->kept_bytes += m.rows * m.row;
        p->moves[n++] = m;
    }
    return qn_moves_find(p->allocator, p->moves, n, p->a->options->limit_bytes, &found->place);
}

/* ---- calls ---- */

static void fill_input(const placing *p, const qn_node *node, int input, qn_adapt *f, size_t at) {
    const qn_value value = node->inputs[input];
    qn_again_operand *operand = &f->operands[at];
    *operand = (qn_again_operand){.outside = -1, .offset = SIZE_MAX};
    if (value.id < 0)
        return;
    const int32_t whole = root(p, value);
    f->strides[at] = f->tensors[at].shape.rank > 0
                         ? f->tensors[at].shape.dims[f->tensors[at].shape.rank - 1]
                         : 1;
    if (is_outside(p, whole)) {
        operand->outside = p->a->options->from.origins->first[whole].id;
        return;
    }
    const qn_rows_at rows = find_rows(p, whole, is_made(p, whole));
    operand->offset = rows.offset;
    if (whole == value.id)
        f->strides[at] = (int64_t)(rows.step / qn_dtype_bytes(f->tensors[at].dtype));
}

static void fill_output(const placing *p, const qn_node *node, int output, qn_adapt *f, size_t at) {
    const qn_rows_at rows = find_rows(p, node->outputs[output].id, true);
    f->operands[at] = (qn_again_operand){.outside = -1, .offset = rows.offset};
    f->strides[at] = (int64_t)(rows.step / qn_dtype_bytes(f->tensors[at].dtype));
}

static void fill_tensors(const placing *p, const qn_node *node, qn_tensor *tensors) {
    for (int i = 0; i < node->n_inputs; i++)
        tensors[i] = qn_graph_tensor(p->a->base, node->inputs[i]);
    for (int i = 0; i < node->n_outputs; i++)
        tensors[node->n_inputs + i] = qn_graph_tensor(p->a->base, node->outputs[i]);
}

static void fill_calls(const placing *p, qn_adapt *f) {
    size_t at = 0;
    for (int32_t r = 0; r < p->n_again; r++) {
        const qn_node *node = p->a->base->nodes[p->again[r]];
        const size_t outputs = at + (size_t)node->n_inputs;
        for (int i = 0; i < node->n_inputs; i++)
            fill_input(p, node, i, f, at + (size_t)i);
        for (int i = 0; i < node->n_outputs; i++)
            fill_output(p, node, i, f, outputs + (size_t)i);
        f->calls[r] = (qn_call){
            .node = node,
            .attributes = node->attributes,
            .inputs = f->tensors + at,
            .outputs = f->tensors + outputs,
            .in = f->pointers + at,
            .out = f->pointers + outputs,
            .in_strides = f->strides + at,
            .out_strides = f->strides + outputs,
        };
        qn_cpu_prepare(&f->calls[r], p->a->options->machine);
        f->workspaces[r] =
            p->workspace_box[r] < 0 ? SIZE_MAX : p->boxes[p->workspace_box[r]].offset;
        at = outputs + (size_t)node->n_outputs;
    }
}

static qn_status allocate_calls(const placing *p, qn_adapt *f) {
    f->n_again = (size_t)p->n_again;
    for (int32_t r = 0; r < p->n_again; r++) {
        const qn_node *node = p->a->base->nodes[p->again[r]];
        f->n_operands += (size_t)(node->n_inputs + node->n_outputs);
    }
    QN_TRY(qn_allocate(p->allocator, f->n_again, sizeof *f->calls, &f->calls));
    QN_TRY(qn_allocate(p->allocator, f->n_again, sizeof *f->workspaces, &f->workspaces));
    QN_TRY(qn_allocate(p->allocator, f->n_operands, sizeof *f->operands, &f->operands));
    QN_TRY(qn_allocate(p->allocator, f->n_operands, sizeof *f->pointers, &f->pointers));
    QN_TRY(qn_allocate(p->allocator, f->n_operands, sizeof *f->tensors, &f->tensors));
    return qn_allocate(p->allocator, f->n_operands, sizeof *f->strides, &f->strides);
}

/* ---- all of it ---- */

static qn_status add_boxes(placing *p, qn_adapt *found) {
    size_t at = 0;
    QN_TRY(add_held(p));
    for (int32_t r = 0; r < p->n_again; r++) {
        const qn_node *node = p->a->base->nodes[p->again[r]];
        fill_tensors(p, node, found->tensors + at);
        QN_TRY(add_outputs(p, r));
        QN_TRY(add_workspace(p, r));
        at += (size_t)(node->n_inputs + node->n_outputs);
    }
    const size_t n = p->n_boxes;
    QN_TRY(qn_grow(p->allocator, &p->order, &p->order_capacity, n, sizeof *p->order));
    return qn_grow(p->allocator, &p->sorted, &p->sorted_capacity, n, sizeof *p->sorted);
}

static qn_status place(placing *p, qn_adapt *found) {
    list_again(p);
    QN_TRY(allocate_calls(p, found));
    QN_TRY(add_boxes(p, found));
    if (!place_around(p)) {
        QN_TRY(gather(p, &found->gather));
        if (!place_around(p))
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "%d recomputed operations do not fit into %zu bytes", (int)p->n_again,
                           p->a->options->limit_bytes);
    }
    QN_TRY(move_to_goals(p, found));
    fill_calls(p, found);
    return QN_OK;
}

qn_status qn_adapting_place(qn_adapt_state *a, qn_adapt *found) {
    const size_t n_nodes = (size_t)a->base->n_nodes, n_values = (size_t)a->base->n_values;
    const qn_allocator *allocator = a->options->allocator;
    placing p = {.a = a, .allocator = allocator};
    qn_status status = qn_allocate(allocator, n_nodes, sizeof *p.again, &p.again);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_values, sizeof *p.last_read, &p.last_read);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_values, sizeof *p.held_box, &p.held_box);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_values, sizeof *p.made_box, &p.made_box);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_nodes, sizeof *p.workspace_box, &p.workspace_box);
    if (status == QN_OK)
        status = qn_allocate(allocator, n_values, sizeof *p.moves, &p.moves);
    if (status == QN_OK)
        status = place(&p, found);
    qn_release(allocator, p.again, n_nodes, sizeof *p.again);
    qn_release(allocator, p.last_read, n_values, sizeof *p.last_read);
    qn_release(allocator, p.held_box, n_values, sizeof *p.held_box);
    qn_release(allocator, p.made_box, n_values, sizeof *p.made_box);
    qn_release(allocator, p.workspace_box, n_nodes, sizeof *p.workspace_box);
    qn_release(allocator, p.moves, n_values, sizeof *p.moves);
    qn_release(allocator, p.boxes, p.box_capacity, sizeof *p.boxes);
    qn_release(allocator, p.order, p.order_capacity, sizeof *p.order);
    qn_release(allocator, p.sorted, p.sorted_capacity, sizeof *p.sorted);
    return status;
}
