/* RNN, GRU and LSTM over whole sequences. A plain LSTM is quern's own layer; the others are put
 * together step by step, with weights that all steps share. The product of the input is one node
 * for all steps. Directions: a reversed one sees its sequence backwards. Weights keep the file's
 * order of gates and both biases, so that what is trained goes back as it came. ONNX Runtime's
 * DynamicQuantizeLSTM is one whose products are of bytes: they train straight through. Left out:
 * clip, input_forget, activations that are not the usual ones of RNN, GRU and LSTM, and sequences
 * of different lengths but for a forward LSTM. */
#include "base/status.h"
#include "base/text.h"
#include "onnx/axes.h"
#include "onnx/fold.h"
#include "ops/ops.h"

enum { IN_X, IN_W, IN_R, IN_B, IN_LENGTHS, IN_H, IN_C, IN_P };
enum { IN_W_SCALE = 8, IN_W_ZERO, IN_R_SCALE, IN_R_ZERO }; /* of DynamicQuantizeLSTM */
enum { MOST_STEPS = 1024, MOST_DIRECTIONS = 2 };

typedef qn_value function(qn_graph *graph, const char *name, qn_value x);

/* A layer being built: T steps of N sequences of C numbers to K units with so many gates. */
typedef struct layer {
    qn_onnx_call *call;
    int gates, directions;
    bool is_batch_first;   /* in the file */
    bool lies_batch_first; /* x and each y here: (N, T, ...), else (T, N, ...) */
    bool is_reversed;      /* the first direction */
    bool resets_after;     /* GRU: linear_before_reset */
    bool has_own_gates;    /* LSTM: weights (4 K, ...) with gates in our order, one bias */
    bool is_quantised; /* LSTM: weights (..., 4 K) are whole, operands of products are rounded */
    int64_t t, n, c, k;
    qn_value x;
    int n_activations; /* of a direction */
    function *activations[3 * MOST_DIRECTIONS];
} layer;

/* What one direction is given and makes. */
typedef struct direction {
    bool is_reversed;
    qn_value weight_x, weight_h; /* (gates K, C), (gates K, K) */
    qn_value bias, bias_h; /* (gates K), or QN_NO_VALUE; of the input, and of the state if apart */
    qn_value weight_first, weight_last; /* GRU: of two gates, and of the last */
    qn_value h, c;                      /* (N, K), or QN_NO_VALUE: zeros; then those at the end */
    qn_value peepholes;                 /* (3 K), or QN_NO_VALUE */
    qn_value y;                         /* of K, as x lies */
    function *const *activations;
} direction;

/* ---- short names for nodes beside the call's ---- */

static const char *name_of(const layer *l, const char *suffix) {
    return qn_onnx_side_name(l->call, suffix);
}

static qn_value shaped(const layer *l, qn_value x, qn_shape shape) {
    return qn_reshape(l->call->graph, name_of(l, "shape"), x, shape);
}

static qn_value part(const layer *l, qn_value x, int axis, int64_t begin, int64_t n) {
    return qn_slice(l->call->graph, name_of(l, "part"), x, axis, begin, begin + n);
}

static qn_value combine(const layer *l, qn_combination kind, qn_value a, qn_value b) {
    return qn_op_combine(l->call->graph, name_of(l, "step"), kind, a, b);
}

static qn_value sum(const layer *l, qn_value a, qn_value b) {
    return combine(l, QN_COMBINE_ADD, a, b);
}

static qn_value product(const layer *l, qn_value a, qn_value b) {
    return combine(l, QN_COMBINE_MULTIPLY, a, b);
}

/* (N, T, ...) as (T, N, ...), and back. */
static qn_value swapped(const layer *l, qn_value x) {
    return qn_transpose(l->call->graph, name_of(l, "swapped"), x, (int[]){1, 0, 2});
}

static qn_value backwards(const layer *l, qn_value x, int axis) {
    return qn_slice_steps(l->call->graph, name_of(l, "backwards"), x, axis, l->t - 1, -1, l->t);
}

/* Gates [first, first + n) of columns (rows, gates K) or of a vector. */
static qn_value gates(const layer *l, qn_value x, int first, int n) {
    const int rank = qn_graph_shape(l->call->graph, x).rank;
    return part(l, x, rank - 1, first * l->k, n * l->k);
}

static qn_value apply(const layer *l, function *f, qn_value x) {
    return f(l->call->graph, name_of(l, "activation"), x);
}

/* ---- operands ---- */

/* One direction's share of something (directions, ...) in a shape without that axis. */
static qn_value share_of(const layer *l, qn_value x, int number, int axis, qn_shape shape) {
    if (l->directions > 1)
        x = part(l, x, axis, number, 1);
    return shaped(l, x, shape);
}

/* The same of an input. Where batches come first, states have the axis second. */
static qn_value share(const layer *l, int input, int number, int axis, qn_shape shape) {
    if (!qn_onnx_has(l->call, input))
        return QN_NO_VALUE;
    return share_of(l, qn_onnx_plain(l->call, input), number, axis, shape);
}

/* A direction's weights, (gates K, n). */
static qn_value read_weights(const layer *l, int input, int number, int64_t n) {
    const int64_t rows = l->gates * l->k;
    const int scale = input == IN_W ? IN_W_SCALE : IN_R_SCALE;
    if (!l->is_quantised)
        return share(l, input, number, 0, QN_SHAPE(rows, n));
    const qn_value x = qn_onnx_dequantised(l->call, input, scale, scale + 1);
    return qn_transpose(l->call->graph, name_of(l, "turned"),
                        share_of(l, x, number, 0, QN_SHAPE(n, rows)), (int[]){1, 0});
}

/* What a product reads. */
static qn_value operand(const layer *l, qn_value x) {
    return l->is_quantised ? qn_onnx_rounded_to_bytes(l->call, x) : x;
}

/* Whether a state is zeros, which is what stands for none, too. */
static bool is_zeros(const layer *l, int input) {
    const qn_onnx_constant *c =
        qn_onnx_is_known(l->call, input) ? qn_onnx_constant_of(l->call, input) : NULL;
    bool is_zeros = c && c->reals;
    for (int64_t i = 0; is_zeros && i < c->n; i++)
        is_zeros = c->reals[i] == 0;
    return is_zeros;
}

/* Whether a file that was made for one sample has a state for that. */
static bool is_of_one(const layer *l, int input) {
    int64_t file, now;
    qn_onnx_batch(l->call, &file, &now);
    return file == 1 && l->n != 1 && qn_onnx_has(l->call, input) &&
           qn_onnx_shape(l->call, input).dims[l->is_batch_first ? 0 : 1] == 1;
}

/* A direction's state (N, K) to begin with, or none. */
static qn_value read_state(const layer *l, int input, int number) {
    const int axis = l->is_batch_first ? 1 : 0;
    const qn_shape all = QN_SHAPE(l->n, l->k), one = QN_SHAPE(1, l->k);
    if (!qn_onnx_has(l->call, input) || is_zeros(l, input))
        return QN_NO_VALUE;
    if (!is_of_one(l, input))
        return share(l, input, number, axis, all);
    return qn_expand(l->call->graph, name_of(l, "batch"), share(l, input, number, axis, one), all);
}

/* Of an LSTM whose weights are as they are here. */
static direction read_own(const layer *l) {
    return (direction){.weight_x = qn_onnx_plain(l->call, IN_W),
                       .weight_h = qn_onnx_plain(l->call, IN_R),
                       .bias = qn_onnx_plain(l->call, IN_B),
                       .bias_h = QN_NO_VALUE,
                       .h = read_state(l, IN_H, 0),
                       .c = read_state(l, IN_C, 0),
                       .peepholes = QN_NO_VALUE};
}

static direction read_direction(const layer *l, int number) {
    const int64_t rows = l->gates * l->k;
    if (l->has_own_gates)
        return read_own(l);
    const qn_value both = share(l, IN_B, number, 0, QN_SHAPE(2 * rows));
    direction d = {
        .is_reversed = number > 0 || l->is_reversed,
        .weight_x = read_weights(l, IN_W, number, l->c),
        .weight_h = read_weights(l, IN_R, number, l->k),
        .bias = both,
        .bias_h = QN_NO_VALUE,
        .h = read_state(l, IN_H, number),
        .c = read_state(l, IN_C, number),
        .peepholes = share(l, IN_P, number, 0, QN_SHAPE(3 * l->k)),
        .activations = l->activations + l->n_activations * number,
    };
    if (both.id < 0)
        return d;
    d.bias = part(l, both, 0, 0, rows);
    d.bias_h = part(l, both, 0, rows, rows);
    if (!l->resets_after) {
        d.bias = sum(l, d.bias, d.bias_h);
        d.bias_h = QN_NO_VALUE;
    }
    return d;
}

static qn_status expect(const qn_onnx_call *call, int input, qn_shape wanted) {
    char is[QN_SHAPE_TEXT], text[QN_SHAPE_TEXT];
    const qn_shape shape = qn_onnx_shape(call, input);
    if (!qn_onnx_has(call, input) || qn_shape_equal(shape, wanted))
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "its input %d is %s, but %s is needed", input,
                   qn_shape_print(shape, is), qn_shape_print(wanted, text));
}

static qn_status check_operands(const layer *l) {
    const int64_t d = l->directions, rows = l->gates * l->k;
    const bool own = l->has_own_gates, turned = l->is_quantised;
    QN_TRY(expect(l->call, IN_W,
                  own      ? QN_SHAPE(rows, l->c)
                  : turned ? QN_SHAPE(d, l->c, rows)
                           : QN_SHAPE(d, rows, l->c)));
    QN_TRY(expect(l->call, IN_R,
                  own      ? QN_SHAPE(rows, l->k)
                  : turned ? QN_SHAPE(d, l->k, rows)
                           : QN_SHAPE(d, rows, l->k)));
    QN_TRY(expect(l->call, IN_B, own ? QN_SHAPE(rows) : QN_SHAPE(d, 2 * rows)));
    for (int input = IN_H; input <= IN_C; input++) {
        const int64_t n = is_of_one(l, input) ? 1 : l->n;
        if (!is_zeros(l, input))
            QN_TRY(expect(l->call, input,
                          l->is_batch_first ? QN_SHAPE(n, d, l->k) : QN_SHAPE(d, n, l->k)));
    }
    return expect(l->call, IN_P, QN_SHAPE(d, 3 * l->k));
}

/* Activations by name, those of all directions; `usual` for one where none are named. */
static qn_status read_activations(layer *l, function *const *usual) {
    const int n = l->n_activations;
    static const struct {
        const char *name;
        function *f;
    } known[] = {{"Sigmoid", qn_sigmoid}, {"Tanh", qn_tanh}, {"Relu", qn_relu}};
    const qn_onnx_attribute *a = qn_onnx_find_attribute(l->call->node, "activations");
    for (int i = 0; i < n * l->directions; i++) {
        l->activations[i] = usual[i % n];
        if (!a || a->kind != QN_ONNX_ATTRIBUTE_TEXTS || a->n != n * l->directions)
            continue;
        l->activations[i] = NULL;
        for (int f = 0; f < 3; f++) {
            if (qn_text_is_same(known[f].name, a->texts[i]))
                l->activations[i] = known[f].f;
        }
        if (!l->activations[i])
            return qn_fail(QN_ERROR_UNSUPPORTED, "its activation %s; export it step by step",
                           a->texts[i]);
    }
    return QN_OK;
}

/* Whether all sequences are of T steps: that can be known only of constants. */
static bool is_full(const layer *l) {
    const qn_onnx_constant *c =
        qn_onnx_is_known(l->call, IN_LENGTHS) ? qn_onnx_constant_of(l->call, IN_LENGTHS) : NULL;
    bool is_full = !qn_onnx_has(l->call, IN_LENGTHS) || (c && c->whole);
    for (int64_t i = 0; c && is_full && i < c->n; i++)
        is_full = c->whole[i] == l->t;
    return is_full;
}

static qn_status begin(layer *l, qn_onnx_call *call, int n_gates, function *const *usual,
                       int n_activations) {
    const char *way = qn_onnx_text(call, "direction", "forward");
    const qn_shape x = qn_onnx_shape(call, IN_X), r = qn_onnx_shape(call, IN_R);
    *l = (layer){.call = call,
                 .gates = n_gates,
                 .n_activations = n_activations,
                 .directions = way[0] == 'b' ? 2 : 1,
                 .is_reversed = way[0] == 'r',
                 .is_batch_first = qn_onnx_int(call, "layout", 0) != 0,
                 .resets_after = qn_onnx_int(call, "linear_before_reset", 0) != 0,
                 .is_quantised = *call->node->domain != 0,
                 .has_own_gates = qn_onnx_int(call, "quern_gates", 0) != 0};
    const int rank = l->has_own_gates ? 2 : 3;
    if (x.rank != 3 || r.rank != rank)
        return qn_fail(QN_ERROR_FORMAT, "its input has rank %d, its recurrence %d, and not 3, %d",
                       x.rank, r.rank, rank);
    l->t = x.dims[l->is_batch_first ? 1 : 0];
    l->n = x.dims[l->is_batch_first ? 0 : 1];
    l->c = x.dims[2];
    l->k = r.dims[l->is_quantised ? 1 : rank - 1];
    for (int i = IN_W_SCALE; l->is_quantised && i <= IN_R_ZERO; i++) {
        if (!qn_onnx_has(call, i))
            return qn_fail(QN_ERROR_FORMAT, "its input %d is left out, but needed", i);
    }
    if (qn_onnx_float(call, "clip", 0) != 0 || qn_onnx_int(call, "input_forget", 0) != 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "clip and input_forget; export without them");
    QN_TRY(check_operands(l));
    return read_activations(l, usual);
}

/* ---- step by step ---- */

/* One step: h and, of an LSTM, c of the direction move on by the input's products (N, gates K). */
typedef void step(const layer *l, direction *d, qn_value x);

static qn_value recur(const layer *l, qn_value h, qn_value weight, qn_value bias) {
    return qn_linear(l->call->graph, name_of(l, "recurrence"), operand(l, h), weight, bias);
}

static void step_rnn(const layer *l, direction *d, qn_value x) {
    d->h = apply(l, d->activations[0], sum(l, x, recur(l, d->h, d->weight_h, QN_NO_VALUE)));
}

/* Update z, reset r, and n, which the state moves to: h = n + z (h - n). The reset is of h, or of
 * what becomes of it. */
static void step_gru(const layer *l, direction *d, qn_value x) {
    const qn_value h = d->h;
    const qn_value all = l->resets_after ? recur(l, h, d->weight_h, d->bias_h)
                                         : recur(l, h, d->weight_first, QN_NO_VALUE);
    const qn_value zr =
        apply(l, d->activations[0],
              sum(l, gates(l, x, 0, 2), l->resets_after ? gates(l, all, 0, 2) : all));
    const qn_value z = gates(l, zr, 0, 1), r = gates(l, zr, 1, 1);
    const qn_value last = l->resets_after ? product(l, r, gates(l, all, 2, 1))
                                          : recur(l, product(l, r, h), d->weight_last, QN_NO_VALUE);
    const qn_value n = apply(l, d->activations[1], sum(l, gates(l, x, 2, 1), last));
    d->h = sum(l, n, product(l, z, combine(l, QN_COMBINE_SUBTRACT, h, n)));
}

/* A gate's sum with what it sees of the cells, which is none without peepholes. */
static qn_value peep(const layer *l, const direction *d, qn_value gate, int peephole, qn_value c) {
    if (d->peepholes.id < 0)
        return gate;
    return sum(l, gate, product(l, c, gates(l, d->peepholes, peephole, 1)));
}

/* Gates are input, output, forget, cell; peepholes the first three. */
static void step_lstm(const layer *l, direction *d, qn_value x) {
    function *const *f = d->activations;
    const qn_value all = sum(l, x, recur(l, d->h, d->weight_h, QN_NO_VALUE));
    const qn_value input = apply(l, f[0], peep(l, d, gates(l, all, 0, 1), 0, d->c));
    const qn_value forget = apply(l, f[0], peep(l, d, gates(l, all, 2, 1), 2, d->c));
    const qn_value cell = apply(l, f[1], gates(l, all, 3, 1));
    d->c = sum(l, product(l, forget, d->c), product(l, input, cell));
    const qn_value output = apply(l, f[0], peep(l, d, gates(l, all, 1, 1), 1, d->c));
    d->h = product(l, output, apply(l, f[2], d->c));
}

static qn_value zeros_unless(const layer *l, qn_value state) {
    if (state.id >= 0)
        return state;
    const qn_value zero = qn_op_scalar(l->call->graph, name_of(l, "zero"), 0);
    return qn_op_broadcast(l->call->graph, name_of(l, "zeros"), zero, QN_SHAPE(l->n, l->k), 1);
}

/* A direction over x (T, N, C). */
static qn_status run_steps(const layer *l, direction *d, step *move) {
    qn_graph *graph = l->call->graph;
    qn_value *all = qn_onnx_scratch(l->call, (size_t)l->t * sizeof *all);
    if (l->t > MOST_STEPS)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%lld steps, where %d are the most; use an LSTM",
                       (long long)l->t, MOST_STEPS);
    if (!all)
        return QN_ERROR_MEMORY;
    const qn_value x =
        qn_linear(graph, name_of(l, "input"),
                  operand(l, shaped(l, l->x, QN_SHAPE(l->t * l->n, l->c))), d->weight_x, d->bias);
    d->h = zeros_unless(l, d->h);
    if (l->gates == 4)
        d->c = zeros_unless(l, d->c);
    if (l->gates == 3 && !l->resets_after) {
        d->weight_first = part(l, d->weight_h, 0, 0, 2 * l->k);
        d->weight_last = part(l, d->weight_h, 0, 2 * l->k, l->k);
    }
    for (int64_t i = 0; i < l->t; i++) {
        const int64_t t = d->is_reversed ? l->t - 1 - i : i;
        move(l, d, part(l, x, 0, t * l->n, l->n));
        all[t] = shaped(l, d->h, QN_SHAPE(1, l->n, l->k));
    }
    d->y = qn_concat(graph, name_of(l, "steps"), all, (int)l->t, 0);
    return QN_OK;
}

/* ---- the whole sequence by quern's own layer ---- */

/* Rows of four gates, or a bias, from input, output, forget, cell to input, forget, cell, output.
 */
static qn_value order_gates(const layer *l, qn_value x) {
    if (x.id < 0 || l->has_own_gates)
        return x;
    const qn_value parts[] = {part(l, x, 0, 0, l->k), part(l, x, 0, 2 * l->k, 2 * l->k),
                              part(l, x, 0, l->k, l->k)};
    return qn_concat(l->call->graph, name_of(l, "gates"), parts, 3, 0);
}

/* A direction over x (N, T, C). */
static void run_lstm(const layer *l, direction *d, qn_value lengths) {
    const qn_value x = d->is_reversed ? backwards(l, l->x, 1) : l->x;
    const qn_lstm_result r =
        qn_lstm(l->call->graph, name_of(l, "lstm"), x, order_gates(l, d->weight_x),
                order_gates(l, d->weight_h), order_gates(l, d->bias), d->h, d->c, lengths);
    d->y = d->is_reversed ? backwards(l, r.y, 1) : r.y;
    d->h = r.h;
    d->c = r.c;
}

/* ---- outputs ---- */

/* What the directions made, side by side along an axis that they have not; shape: with a 1 there.
 */
static void give_joined(const layer *l, int output, const qn_value *made, qn_shape shape,
                        int axis) {
    qn_value parts[MOST_DIRECTIONS];
    if (!qn_onnx_is_used(l->call, output))
        return;
    for (int i = 0; i < l->directions; i++)
        parts[i] = shaped(l, made[i], shape);
    qn_onnx_give_like(l->call, output,
                      l->directions == 1 ? parts[0]
                                         : qn_concat(l->call->graph, name_of(l, "directions"),
                                                     parts, l->directions, axis),
                      false);
}

static void give_outputs(const layer *l, const direction *d) {
    const bool first = l->is_batch_first;
    qn_value y[MOST_DIRECTIONS], h[MOST_DIRECTIONS], c[MOST_DIRECTIONS];
    for (int i = 0; i < l->directions; i++) {
        y[i] = l->lies_batch_first == first || !qn_onnx_is_used(l->call, 0) ? d[i].y
                                                                            : swapped(l, d[i].y);
        h[i] = d[i].h;
        c[i] = d[i].c;
    }
    const qn_shape state = first ? QN_SHAPE(l->n, 1, l->k) : QN_SHAPE(1, l->n, l->k);
    give_joined(l, 0, y, first ? QN_SHAPE(l->n, l->t, 1, l->k) : QN_SHAPE(l->t, 1, l->n, l->k),
                first ? 2 : 1);
    give_joined(l, 1, h, state, first ? 1 : 0);
    give_joined(l, 2, c, state, first ? 1 : 0);
}

/* ---- the operators ---- */

/* Every direction: step by step, or, with no step, as a whole. */
static qn_status finish(layer *l, step *move) {
    qn_value lengths = QN_NO_VALUE;
    direction d[MOST_DIRECTIONS];
    if (!is_full(l)) {
        if (move || l->directions > 1 || l->is_reversed)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "sequence_lens, but of a forward LSTM; export without them");
        lengths = qn_onnx_plain(l->call, IN_LENGTHS);
    }
    l->lies_batch_first = move == NULL;
    l->x = qn_onnx_plain(l->call, IN_X);
    if (l->lies_batch_first != l->is_batch_first)
        l->x = swapped(l, l->x);
    for (int i = 0; i < l->directions; i++) {
        d[i] = read_direction(l, i);
        if (move)
            QN_TRY(run_steps(l, &d[i], move));
        else
            run_lstm(l, &d[i], lengths);
    }
    give_outputs(l, d);
    return QN_OK;
}

static qn_status build_rnn(qn_onnx_call *call) {
    layer l;
    QN_TRY(begin(&l, call, 1, (function *[]){qn_tanh}, 1));
    return finish(&l, step_rnn);
}

static qn_status build_gru(qn_onnx_call *call) {
    layer l;
    QN_TRY(begin(&l, call, 3, (function *[]){qn_sigmoid, qn_tanh}, 2));
    return finish(&l, step_gru);
}

static qn_status build_lstm(qn_onnx_call *call) {
    function *const usual[] = {qn_sigmoid, qn_tanh, qn_tanh};
    layer l;
    QN_TRY(begin(&l, call, 4, usual, 3));
    bool is_usual = !qn_onnx_has(call, IN_P);
    for (int i = 0; i < 3 * l.directions; i++)
        is_usual = is_usual && l.activations[i] == usual[i % 3];
    if (l.has_own_gates && (!is_usual || l.directions > 1 || l.is_reversed || l.is_batch_first))
        return qn_fail(QN_ERROR_FORMAT, "gates of quern's own order are those of a plain layer");
    return finish(&l, is_usual && !l.is_quantised ? NULL : step_lstm);
}

const qn_onnx_translator qn_onnx_recurrent_translators[] = {
    {"RNN", 3, 6, build_rnn},   {"GRU", 3, 6, build_gru},
    {"LSTM", 3, 8, build_lstm}, {"com.microsoft.DynamicQuantizeLSTM", 3, 12, build_lstm},
    {NULL, 0, 0, NULL},
};
