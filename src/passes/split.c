/* See split.h. In their topological order, nodes are classified by what they read:
 *     EARLY   no data of samples: constants, views of parameters; or only samples from outside, of
 *             all of which the node needs to know (the weights of a mean over valid labels)
 *     PIECE   reads samples and computes samples: copied once for every piece
 *     SUM     reads samples and computes sums that can continue from piece to piece or, if its
 *             chunks are longer than a piece, from one group of pieces to the next
 *     LATE    reads sums, or reads samples and computes a sum that cannot continue
 * They are then added in this order: early ones, piece by piece PIECE and SUM, late ones. */
#include "passes/split.h"

#include "base/status.h"
#include "device/cpu/cpu.h"
#include "ops/ops.h"
#include "ops/shared.h"
#include "passes/copy.h"

#include <string.h>

typedef enum part { EARLY, PIECE, SUM, LATE } part;

/* Arrays over the old graph, in the new one's memory. */
typedef struct splitting {
    const qn_graph *from;
    qn_graph *to;
    const qn_machine *machine;
    int64_t pieces;
    bool is_apart;      /* sums do not go on from piece to piece where they need not */
    int64_t *groups;    /* by node of SUM: pieces that it sums at once */
    part *parts;        /* by node */
    int *axis;          /* by value: the one that is split, or less than 0 */
    bool *is_samples;   /* by value: it is split */
    bool *is_joined;    /* by value: samples made in pieces that are read as a whole */
    bool *is_late;      /* by value: follows from sums over the batch */
    int64_t *grouped;   /* by value: pieces that such nodes read at once, 0: none do */
    qn_tensor *small;   /* by value: what it is in a piece */
    qn_value *whole;    /* by value, in the new graph; of a sum, so far */
    qn_value *group;    /* by value, in the new graph: the pieces of the group so far */
    qn_value *pieced;   /* (values, pieces), in the new graph */
    void *attributes;   /* of the node at hand */
    qn_tensor *tensors; /* of its inputs */
    qn_value *inputs;   /* of its copy */
    int32_t *node_of;   /* by new node */
} splitting;

static qn_status fail(const qn_node *node, const char *why) {
    return qn_fail(QN_ERROR_UNSUPPORTED, "%s (%s) %s, so the batch cannot be split into pieces",
                   node->name, node->op->name, why);
}

static const qn_value_info *info_of(const splitting *s, qn_value v) {
    return qn_graph_value(s->from, v);
}

/* ---- sorting ---- */

/* A reshape's shape for a piece: split behind as many elements as its input is. -1: it cannot be.
 */
static int split_axis_of_view(const splitting *s, const qn_node *node) {
    const qn_shape x = info_of(s, node->inputs[0])->tensor.shape;
    const qn_shape y = info_of(s, node->outputs[0])->tensor.shape;
    const int axis = s->axis[node->inputs[0].id];
    int64_t outer = 1;
    if (axis < 0)
        return -1;
    for (int i = 0; i < y.rank; outer *= y.dims[i++]) {
        if (outer == qn_shape_count_range(x, 0, axis) && y.dims[i] % s->pieces == 0)
            return i;
    }
    return -1;
}

/* The shape that a view's attributes name, in a copy of them; null: they name none. */
static qn_shape *shape_of_view(const qn_op *op, void *attributes) {
    for (const qn_attribute *a = op->is_view ? op->attributes : NULL; a && a->name; a++) {
        if (a->type == QN_ATTRIBUTE_SHAPE)
            return (qn_shape *)(void *)((char *)attributes + a->offset);
    }
    return NULL;
}

/* Attributes of a piece of a node, in s->attributes. */
static void split_attributes(const splitting *s, const qn_node *node, int64_t piece,
                             int64_t pieces) {
    if (node->op->attributes_bytes > 0)
        memcpy(s->attributes, node->attributes, node->op->attributes_bytes);
    if (node->op->split)
        node->op->split(s->from, node, piece, pieces, s->attributes);
    qn_shape *shape = shape_of_view(node->op, s->attributes);
    const int axis = shape ? split_axis_of_view(s, node) : -1;
    if (axis >= 0) {
        *shape = info_of(s, node->outputs[0])->tensor.shape;
        shape->dims[axis] /= pieces;
    }
}

/* The axis by which a piece differs from the whole, -1 if there is none, -2 if it is no piece of
 * it. */
static int find_axis(const splitting *s, qn_shape small, qn_shape whole) {
    int found = -1;
    if (small.rank != whole.rank)
        return -2;
    for (int axis = 0; axis < whole.rank; axis++) {
        if (small.dims[axis] == whole.dims[axis])
            continue;
        if (found >= 0 || small.dims[axis] * s->pieces != whole.dims[axis])
            return -2;
        found = axis;
    }
    return found;
}

/* Whether a value is there as a whole before the first piece: from outside, or a view of that. */
static bool is_given(const splitting *s, qn_value v) {
    const qn_value_info *info = info_of(s, v);
    if (info->producer < 0)
        return true;
    const qn_node *node = s->from->nodes[info->producer];
    return s->parts[info->producer] == EARLY || (node->op->is_view && is_given(s, node->inputs[0]));
}

typedef struct reads {
    bool samples, sums, given; /* given: all samples that it reads are there as a whole */
} reads;

static reads reads_of(const splitting *s, const qn_node *node) {
    reads r = {.given = true};
    for (int i = 0; i < node->n_inputs; i++) {
        const qn_value v = node->inputs[i];
        if (v.id < 0)
            continue;
        r.samples |= s->is_samples[v.id];
        r.sums |= s->is_late[v.id];
        if (s->is_samples[v.id])
            r.given &= is_given(s, v);
    }
    return r;
}

/* What a node makes of a piece, by its own rule. */
static qn_status infer_piece(const splitting *s, const qn_node *node, qn_infer *infer) {
    split_attributes(s, node, 0, s->pieces);
    for (int i = 0; i < node->n_inputs; i++)
        s->tensors[i] =
            node->inputs[i].id < 0 ? (qn_tensor){.dtype = QN_NONE} : s->small[node->inputs[i].id];
    *infer = (qn_infer){.attributes = s->attributes,
                        .n_inputs = node->n_inputs,
                        .inputs = s->tensors,
                        .n_outputs = 1};
    return node->op->infer(infer);
}

/* Whether a node leaves samples in their order: not so where batches are put behind one another. */
static bool keeps_order(const splitting *s, const qn_node *node) {
    const qn_value y = node->outputs[0];
    bool keeps = true;
    for (int i = 0; node->op->joins && i < node->n_inputs; i++) {
        const qn_value x = node->inputs[i];
        keeps &= x.id < 0 || s->axis[x.id] < 0 ||
                 qn_graph_shape(s->from, x).dims[s->axis[x.id]] ==
                     qn_graph_shape(s->from, y).dims[s->axis[y.id]];
    }
    return keeps;
}

/* Bytes of the samples that a node reads of a whole batch, and of what it makes. */
static bool reads_less_than_it_makes(const splitting *s, const qn_node *node) {
    size_t read = 0, made = 0;
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0 && s->is_samples[node->inputs[i].id])
            read += qn_tensor_bytes(info_of(s, node->inputs[i])->tensor);
    }
    for (int i = 0; i < node->n_outputs; i++)
        made += qn_tensor_bytes(info_of(s, node->outputs[i])->tensor);
    return read < made;
}

/* How many pieces are a whole number of the chunks of a sum, whose s->attributes and s->tensors
 * are; 0: it cannot go on. */
static int64_t find_group(const splitting *s, const qn_node *node) {
    const qn_query query = {.op = node->op,
                            .attributes = s->attributes,
                            .n_inputs = node->n_inputs,
                            .inputs = s->tensors};
    const int64_t chunk = node->op->sums_batch ? qn_machine_chunk(s->machine, &query) : 0;
    const int64_t n = s->tensors[0].shape.rank > 0 ? s->tensors[0].shape.dims[0] : 0;
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0 && s->axis[node->inputs[i].id] > 0)
            return 0;
    }
    if (chunk < 1 || n < 1)
        return 0;
    if (n % chunk == 0)
        return 1;
    return chunk % n == 0 && s->pieces % (chunk / n) == 0 ? chunk / n : 0;
}

/* Sorts a node that reads samples. */
static qn_status sort_reader(splitting *s, int node_id) {
    const qn_node *node = s->from->nodes[node_id];
    part *result = &s->parts[node_id];
    int n_split = 0, n_sums = 0;
    qn_infer infer;
    if (infer_piece(s, node, &infer) != QN_OK || infer.n_outputs != node->n_outputs)
        return fail(node, "does not work on a part of its samples");
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_value v = node->outputs[i];
        const qn_shape whole = info_of(s, v)->tensor.shape;
        if (info_of(s, v)->overwrites >= 0)
            return fail(node, "changes a parameter by single samples");
        s->small[v.id] = infer.outputs[i];
        s->axis[v.id] = find_axis(s, infer.outputs[i].shape, whole);
        s->is_samples[v.id] = s->axis[v.id] >= 0;
        s->is_late[v.id] = !s->is_samples[v.id];
        n_split += s->is_samples[v.id];
        n_sums += s->axis[v.id] == -1;
    }
    if (n_split + n_sums != node->n_outputs || (n_split > 0 && !keeps_order(s, node)))
        return fail(node, "puts samples together in another order");
    *result = PIECE;
    if (n_sums == 0)
        return QN_OK;
    const int64_t group = find_group(s, node);
    if (n_split > 0 && group != 1)
        return fail(node, node->op->sums_batch
                              ? "sums in chunks that are no divisors of such pieces"
                              : "uses statistics of the whole batch");
    const bool goes_on = group > 0 && group < s->pieces;
    *result = goes_on && (n_split > 0 || !reads_less_than_it_makes(s, node)) ? SUM : LATE;
    s->groups[node_id] = group;
    return QN_OK;
}

/* Of a node that reads no samples but may make some: a scalar in the place of every sample's. */
static bool makes_samples(const splitting *s, const qn_node *node, int64_t batch) {
    const qn_shape y = info_of(s, node->outputs[0])->tensor.shape;
    return node->op->is_broadcast && y.rank > 0 && y.dims[0] % batch == 0;
}

static qn_status sort_node(splitting *s, int n, int64_t batch) {
    const qn_node *node = s->from->nodes[n];
    const reads r = reads_of(s, node);
    const bool is_early = !r.sums && (!r.samples || (node->op->looks_at_batch && r.given));
    if (r.samples && !is_early) {
        if (node->op->looks_at_batch)
            return fail(node, "looks at the whole batch");
        QN_TRY(sort_reader(s, n));
        if (!r.sums)
            return QN_OK;
        for (int i = 0; i < node->n_outputs; i++) {
            if (s->is_samples[node->outputs[i].id])
                return fail(node, "uses a sum over the whole batch");
        }
        s->parts[n] = LATE;
        return QN_OK;
    }
    s->parts[n] = is_early ? EARLY : LATE;
    const bool is_split = is_early && (r.samples || makes_samples(s, node, batch));
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_value v = node->outputs[i];
        s->small[v.id] = info_of(s, v)->tensor;
        s->is_samples[v.id] = is_split;
        s->axis[v.id] = is_split ? 0 : -1;
        s->is_late[v.id] = r.sums;
        if (is_split)
            qn_split_shape(s->pieces, &s->small[v.id].shape);
    }
    return QN_OK;
}

static qn_status mark_inputs(splitting *s, const qn_value *samples, int n_samples) {
    const int64_t batch = qn_graph_shape(s->from, samples[0]).dims[0];
    for (int v = 0; v < s->from->n_values; v++) {
        s->axis[v] = -1;
        s->small[v] = s->from->values[v]->tensor;
    }
    for (int i = 0; i < n_samples; i++) {
        const qn_value_info *info = info_of(s, samples[i]);
        if (info->tensor.shape.rank < 1 || info->tensor.shape.dims[0] % batch != 0 ||
            batch % s->pieces != 0)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "%s is not a batch of %lld samples in %lld equal pieces", info->name,
                           (long long)batch, (long long)s->pieces);
        s->is_samples[samples[i].id] = true;
        s->axis[samples[i].id] = 0;
        s->small[samples[i].id].shape.dims[0] /= s->pieces;
    }
    return QN_OK;
}

static qn_status sort_nodes(splitting *s, const qn_value *samples, int n_samples) {
    const int64_t batch = qn_graph_shape(s->from, samples[0]).dims[0];
    QN_TRY(mark_inputs(s, samples, n_samples));
    for (int n = 0; n < s->from->n_nodes; n++)
        QN_TRY(sort_node(s, n, batch));
    return QN_OK;
}

/* Which samples late nodes read, or are results. */
static qn_status find_joined(splitting *s) {
    for (int v = 0; v < s->from->n_values; v++)
        s->is_joined[v] = s->from->values[v]->is_result;
    for (int n = 0; n < s->from->n_nodes; n++) {
        const qn_node *node = s->from->nodes[n];
        for (int i = 0; s->parts[n] == LATE && i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0)
                s->is_joined[node->inputs[i].id] = true;
        }
    }
    for (int v = 0; v < s->from->n_values; v++)
        s->is_joined[v] = s->is_joined[v] && s->is_samples[v] && !is_given(s, (qn_value){v});
    for (int v = 0; v < s->from->n_values; v++) {
        if (s->is_joined[v] && s->axis[v] > 0)
            return fail(s->from->nodes[s->from->values[v]->producer],
                        "is read as a whole, with samples in its inner axes");
    }
    return QN_OK;
}

/* Readers of a value read groups of one size of it: all the largest, which is a whole number of
 * their chunks too; where it is not, they run behind all pieces. */
static bool agree_on_groups(splitting *s) {
    bool changed = false;
    for (int n = 0; n < s->from->n_nodes; n++) {
        const qn_node *node = s->from->nodes[n];
        int64_t most = s->groups[n];
        if (s->parts[n] != SUM || most == 1)
            continue;
        for (int i = 0; i < node->n_inputs; i++) {
            const int32_t v = node->inputs[i].id;
            if (v >= 0 && s->is_samples[v] && s->grouped[v] > most)
                most = s->grouped[v];
        }
        if (most % s->groups[n] != 0)
            s->parts[n] = LATE;
        changed |= most != s->groups[n] || s->parts[n] == LATE;
        s->groups[n] = most;
        for (int i = 0; s->parts[n] == SUM && i < node->n_inputs; i++) {
            const int32_t v = node->inputs[i].id;
            if (v < 0 || !s->is_samples[v] || s->grouped[v] == most)
                continue;
            s->grouped[v] = most;
            changed = true;
        }
    }
    return changed;
}

/* ---- making the new graph ---- */

/* A copy of node n; its outputs have the kinds of the old ones. Null after a failure. */
static const qn_node *copy_node(splitting *s, int32_t n, const char *name, int n_inputs,
                                const void *attributes) {
    const qn_node *node = s->from->nodes[n];
    const qn_node *copy = qn_graph_add(s->to, node->op, name, s->inputs, n_inputs, attributes);
    if (!copy)
        return NULL;
    for (int i = 0; i < node->n_outputs; i++)
        s->to->values[copy->outputs[i].id]->kind = info_of(s, node->outputs[i])->kind;
    s->node_of[s->to->n_nodes - 1] = n;
    return copy;
}

static qn_value *pieced_at(const splitting *s, qn_value v, int64_t piece) {
    return &s->pieced[(int64_t)v.id * s->pieces + piece];
}

/* What holds a value of the whole batch; views of what is given are made here. */
static qn_value whole_of(splitting *s, qn_value v) {
    if (v.id < 0 || s->whole[v.id].id >= 0 || s->to->status != QN_OK)
        return v.id < 0 ? QN_NO_VALUE : s->whole[v.id];
    const qn_node *node = s->from->nodes[info_of(s, v)->producer];
    const qn_value input = whole_of(s, node->inputs[0]);
    s->inputs[0] = input;
    const qn_node *copy = copy_node(s, info_of(s, v)->producer, node->name, 1, node->attributes);
    s->whole[v.id] = copy ? copy->outputs[0] : QN_NO_VALUE;
    return s->whole[v.id];
}

static const char *piece_name(const splitting *s, const char *name, int64_t piece) {
    const char *text = qn_arena_format(&s->to->arena, "%s.piece%lld", name, (long long)piece + 1);
    if (!text)
        qn_graph_fail(s->to, QN_ERROR_MEMORY, "splitting the batch: %s", qn_error_message());
    return text;
}

static qn_value piece_of(splitting *s, qn_value v, int64_t piece) {
    if (v.id < 0 || !s->is_samples[v.id])
        return v.id < 0 ? QN_NO_VALUE : s->whole[v.id];
    qn_value *made = pieced_at(s, v, piece);
    if (made->id < 0) {
        const int64_t n = s->small[v.id].shape.dims[0];
        const char *name = piece_name(s, info_of(s, v)->name, piece);
        *made = qn_slice(s->to, name, whole_of(s, v), 0, piece * n, (piece + 1) * n);
    }
    return *made;
}

/* A node once for the whole batch. */
static void add_whole(splitting *s, int32_t n) {
    const qn_node *node = s->from->nodes[n];
    for (int i = 0; i < node->n_inputs; i++)
        whole_of(s, node->inputs[i]);
    for (int i = 0; i < node->n_inputs; i++)
        s->inputs[i] = whole_of(s, node->inputs[i]);
    const qn_node *copy = copy_node(s, n, node->name, node->n_inputs, node->attributes);
    for (int i = 0; copy && i < node->n_outputs; i++)
        s->whole[node->outputs[i].id] = copy->outputs[i];
}

/* A piece of samples to where it belongs in so many of them, which *joined holds so far; they are
 * complete with the last one. */
static void join_piece(splitting *s, qn_value v, int64_t piece, int64_t count, const char *what,
                       qn_value *joined) {
    const qn_value_info *info = info_of(s, v);
    const int64_t n = s->small[v.id].shape.dims[0];
    const char *name =
        qn_arena_format(&s->to->arena, "%s.%s%lld", info->name, what, (long long)piece + 1);
    if (!name) {
        qn_graph_fail(s->to, QN_ERROR_MEMORY, "splitting the batch: %s", qn_error_message());
        return;
    }
    if (piece % count == 0)
        *joined = QN_NO_VALUE;
    *joined = qn_op_join_rows(s->to, name, *pieced_at(s, v, piece), *joined, piece % count * n,
                              count * n);
    qn_value_info *made = qn_graph_value(s->to, *joined);
    if (made)
        made->kind = info->kind;
}

static void join_outputs(splitting *s, const qn_node *node, int64_t piece) {
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_value v = node->outputs[i];
        if (s->is_joined[v.id])
            join_piece(s, v, piece, s->pieces, "joined", &s->whole[v.id]);
        if (s->is_samples[v.id] && s->grouped[v.id] > 0)
            join_piece(s, v, piece, s->grouped[v.id], "grouped", &s->group[v.id]);
    }
}

/* Group number `group` of samples of which so many pieces are read at once. */
static qn_value group_of(splitting *s, qn_value v, int64_t group) {
    if (v.id < 0 || !s->is_samples[v.id])
        return v.id < 0 ? QN_NO_VALUE : s->whole[v.id];
    if (!is_given(s, v))
        return s->group[v.id];
    const int64_t n = s->small[v.id].shape.dims[0] * s->grouped[v.id];
    const char *name =
        qn_arena_format(&s->to->arena, "%s.group%lld", info_of(s, v)->name, (long long)group + 1);
    const qn_value known = name ? qn_graph_find(s->to, name) : QN_NO_VALUE;
    if (!name)
        qn_graph_fail(s->to, QN_ERROR_MEMORY, "splitting the batch: %s", qn_error_message());
    return known.id >= 0 ? known
                         : qn_slice(s->to, name, whole_of(s, v), 0, group * n, (group + 1) * n);
}

/* The inputs of a node's copy: of a piece, or of a group of them. */
static void find_inputs(splitting *s, const qn_node *node, int64_t count, int64_t index) {
    for (int pass = 0; pass < 2; pass++) { /* what is made on the way needs s->inputs */
        for (int i = 0; i < node->n_inputs; i++) {
            const qn_value v = node->inputs[i];
            s->inputs[i] = count > 1 ? group_of(s, v, index) : piece_of(s, v, index);
        }
    }
}

/* A node for piece number `piece`, or for the group of pieces that ends with it. */
static void add_piece(splitting *s, int32_t n, int64_t piece) {
    const qn_node *node = s->from->nodes[n];
    const int64_t count = s->parts[n] == SUM ? s->groups[n] : 1, index = piece / count;
    int n_inputs = node->n_inputs;
    if ((piece + 1) % count != 0)
        return;
    find_inputs(s, node, count, index);
    for (int i = 0; index > 0 && i < node->n_outputs; i++) {
        if (!s->is_samples[node->outputs[i].id])
            s->inputs[n_inputs++] = s->whole[node->outputs[i].id];
    }
    split_attributes(s, node, index, s->pieces / count);
    const char *name = piece_name(s, node->name, index);
    const qn_node *copy = name ? copy_node(s, n, name, n_inputs, s->attributes) : NULL;
    for (int i = 0; copy && i < node->n_outputs; i++) {
        const qn_value v = node->outputs[i];
        *(s->is_samples[v.id] ? pieced_at(s, v, piece) : &s->whole[v.id]) = copy->outputs[i];
    }
    if (copy)
        join_outputs(s, node, piece);
}

static void add_part(splitting *s, part wanted) {
    for (int32_t n = 0; n < s->from->n_nodes && s->to->status == QN_OK; n++) {
        if (s->parts[n] == wanted)
            add_whole(s, n);
    }
}

static void add_pieces(splitting *s) {
    for (int64_t piece = 0; piece < s->pieces; piece++) {
        for (int32_t n = 0; n < s->from->n_nodes && s->to->status == QN_OK; n++) {
            if (s->parts[n] == PIECE || s->parts[n] == SUM)
                add_piece(s, n, piece);
        }
    }
}

static void add_sources(splitting *s) {
    for (int v = 0; v < s->from->n_values; v++) {
        const qn_value_info *info = s->from->values[v];
        if (info->producer < 0)
            s->whole[v] = qn_copy_source(s->to, info);
    }
}

static void add_results(splitting *s) {
    for (int v = 0; v < s->from->n_values && s->to->status == QN_OK; v++) {
        qn_value_info *info = s->from->values[v]->is_result
                                  ? qn_graph_value(s->to, whole_of(s, (qn_value){v}))
                                  : NULL;
        if (info)
            info->is_result = true;
    }
    for (int i = 0; i < s->from->n_results; i++)
        s->to->results[i] = s->whole[s->from->results[i].id];
    s->to->n_results = s->from->n_results;
}

/* ---- the whole pass ---- */

/* The largest attributes and number of inputs of a node, with room for sums. */
static qn_status allocate_widest(splitting *s, qn_arena *scratch) {
    size_t bytes = 1, width = 1;
    for (int n = 0; n < s->from->n_nodes; n++) {
        const qn_node *node = s->from->nodes[n];
        const size_t inputs = (size_t)node->n_inputs + QN_MAX_OUTPUTS;
        bytes = node->op->attributes_bytes > bytes ? node->op->attributes_bytes : bytes;
        width = inputs > width ? inputs : width;
    }
    s->attributes = qn_arena_allocate(scratch, 1, bytes);
    s->tensors = qn_arena_allocate(scratch, width, sizeof *s->tensors);
    s->inputs = qn_arena_allocate(scratch, width, sizeof *s->inputs);
    return s->attributes && s->tensors && s->inputs ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status allocate(splitting *s, qn_arena *scratch) {
    const size_t n_values = (size_t)s->from->n_values + 1, n_nodes = (size_t)s->from->n_nodes + 1;
    const size_t times = (size_t)s->pieces + 1;
    const size_t n_most = (n_nodes + n_values) * times;
    QN_TRY(allocate_widest(s, scratch));
    s->parts = qn_arena_allocate(scratch, n_nodes, sizeof *s->parts);
    s->groups = qn_arena_allocate(scratch, n_nodes, sizeof *s->groups);
    s->grouped = qn_arena_allocate(scratch, n_values, sizeof *s->grouped);
    s->group = qn_arena_allocate(scratch, n_values, sizeof *s->group);
    s->axis = qn_arena_allocate(scratch, n_values, sizeof *s->axis);
    s->is_samples = qn_arena_allocate(scratch, n_values, sizeof *s->is_samples);
    s->is_late = qn_arena_allocate(scratch, n_values, sizeof *s->is_late);
    s->is_joined = qn_arena_allocate(scratch, n_values, sizeof *s->is_joined);
    s->small = qn_arena_allocate(scratch, n_values, sizeof *s->small);
    s->pieced = qn_arena_allocate(scratch, n_values * times, sizeof *s->pieced);
    s->whole = qn_arena_allocate(&s->to->arena, n_values, sizeof *s->whole);
    s->node_of = qn_arena_allocate(&s->to->arena, n_most, sizeof *s->node_of);
    if (!s->axis || !s->groups || !s->grouped || !s->group || !s->parts || !s->is_samples ||
        !s->is_late || !s->is_joined || !s->small || !s->pieced || !s->whole || !s->node_of)
        return QN_ERROR_MEMORY;
    for (size_t i = 0; i < n_values; i++)
        s->whole[i] = s->group[i] = QN_NO_VALUE;
    for (size_t i = 0; i < n_values * times; i++)
        s->pieced[i] = QN_NO_VALUE;
    for (size_t i = 0; i < n_most; i++)
        s->node_of[i] = -1;
    return QN_OK;
}

static qn_status split(splitting *s, const qn_value *samples, int n_samples) {
    QN_TRY(sort_nodes(s, samples, n_samples));
    while (agree_on_groups(s)) {
    }
    QN_TRY(find_joined(s));
    add_sources(s);
    add_part(s, EARLY);
    add_pieces(s);
    add_part(s, LATE);
    add_results(s);
    return qn_graph_finish(s->to);
}

/* ---- for several processors ---- */

/* Whether all outputs of a node are as many samples as its piece's would be. */
static bool is_piecewise(splitting *s, const qn_node *node, qn_infer *infer) {
    bool is = !node->op->looks_at_batch && infer_piece(s, node, infer) == QN_OK &&
              infer->n_outputs == node->n_outputs;
    for (int i = 0; is && i < node->n_outputs; i++) {
        const qn_value_info *info = info_of(s, node->outputs[i]);
        s->axis[node->outputs[i].id] = find_axis(s, infer->outputs[i].shape, info->tensor.shape);
        is = info->overwrites < 0 && s->axis[node->outputs[i].id] == 0;
    }
    return is && keeps_order(s, node);
}

/* Of a node that is run once: outputs of the shape of samples that it reads are samples again, as a
 * batch norm's. */
static void mark_samples(splitting *s, const qn_node *node) {
    for (int o = 0; o < node->n_outputs; o++) {
        const qn_value y = node->outputs[o];
        const qn_shape shape = info_of(s, y)->tensor.shape;
        bool is = false;
        for (int i = 0; i < node->n_inputs; i++)
            is |= node->inputs[i].id >= 0 && s->is_samples[node->inputs[i].id] &&
                  qn_shape_equal(shape, qn_graph_shape(s->from, node->inputs[i]));
        s->axis[y.id] = is ? 0 : -1;
        s->is_samples[y.id] = is;
        s->small[y.id] = info_of(s, y)->tensor;
        if (is)
            s->small[y.id].shape.dims[0] /= s->pieces;
    }
}

/* A node is made piece by piece, or once. */
static void sort_apart(splitting *s, int n) {
    const qn_node *node = s->from->nodes[n];
    qn_infer infer;
    s->parts[n] = reads_of(s, node).samples && is_piecewise(s, node, &infer) ? PIECE : LATE;
    if (s->parts[n] == LATE) {
        mark_samples(s, node);
        return;
    }
    for (int i = 0; i < node->n_outputs; i++) {
        s->small[node->outputs[i].id] = infer.outputs[i];
        s->is_samples[node->outputs[i].id] = true;
    }
}

/* Node by node, in the graph's order. */
static qn_status split_apart(splitting *s, const qn_value *samples, int n_samples) {
    QN_TRY(mark_inputs(s, samples, n_samples));
    for (int n = 0; n < s->from->n_nodes; n++)
        sort_apart(s, n);
    QN_TRY(find_joined(s));
    add_sources(s);
    for (int32_t n = 0; n < s->from->n_nodes && s->to->status == QN_OK; n++) {
        if (s->parts[n] == LATE)
            add_whole(s, n);
        for (int64_t piece = 0; s->parts[n] == PIECE && piece < s->pieces; piece++)
            add_piece(s, n, piece);
    }
    add_results(s);
    return qn_graph_finish(s->to);
}

static qn_status make(splitting s, const qn_value *samples, int n_samples,
                      qn_status (*divide)(splitting *s, const qn_value *samples, int n_samples),
                      qn_graph **made, qn_split_origins *origins) {
    const qn_graph *graph = s.from;
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options),
                                      .allocator = graph->allocator, .real = graph->real,
                                      .training = graph->training, .no_dropout = graph->no_dropout};
    qn_arena scratch;
    if (n_samples < 1 || s.pieces < 2)
        return qn_fail(QN_ERROR_UNSUPPORTED, "there is no batch to split into pieces");
    QN_TRY(qn_graph_create(&options, &s.to));
    qn_arena_init(&scratch, graph->allocator);
    qn_status status = allocate(&s, &scratch);
    if (status == QN_OK)
        status = divide(&s, samples, n_samples);
    qn_arena_deinit(&scratch);
    if (status != QN_OK) {
        qn_graph_destroy(s.to);
        return status;
    }
    *made = s.to;
    *origins = (qn_split_origins){s.node_of, s.whole};
    return QN_OK;
}

qn_status qn_split(const qn_graph *graph, const qn_machine *machine, const qn_value *samples,
                   int n_samples, int64_t pieces, qn_graph **made, qn_split_origins *origins) {
    const splitting s = {.from = graph, .machine = machine, .pieces = pieces};
    return make(s, samples, n_samples, split, made, origins);
}

qn_status qn_split_apart(const qn_graph *graph, const qn_machine *machine, const qn_value *samples,
                         int n_samples, int64_t pieces, qn_graph **made,
                         qn_split_origins *origins) {
    const splitting s = {.from = graph, .machine = machine, .pieces = pieces};
    return make(s, samples, n_samples, split_apart, made, origins);
}
