/* See network.h. */
#include "models/language/network.h"

#include "base/print.h"
#include "base/rng.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NAME = 160 };

/* Added to products that do not count: exp of what is left is 0 in any type. */
static const float masked = -1e30F;

typedef struct builder {
    qn_graph *graph;
    const qn_language *language;
    const qn_language_call *call;
    int64_t n, length, layer;
} builder;

/* ---- parameters ---- */

static int64_t size_of(const builder *b, qn_language_size size) {
    return b->language->sizes[size];
}

/* "blk.#.attn_q" and ".weight" with the layer's number, in text. */
static const char *name_of(const builder *b, const char *row, const char *part,
                           char text[MOST_NAME]) {
    const char *mark = strchr(row, '#');
    if (mark)
        qn_print(text, MOST_NAME, "%.*s%lld%s%s", (int)(mark - row), row, (long long)b->layer,
                 mark + 1, part);
    else
        qn_print(text, MOST_NAME, "%s%s", row, part);
    return text;
}

static bool has(const builder *b, const char *row, const char *part) {
    char name[MOST_NAME];
    qn_print(name, sizeof name, "%s%s", row, part);
    const qn_language_tensor *found = qn_language_row(b->language, name);
    return found && qn_language_find(b->language, found, b->layer);
}

/* A parameter of the model, or QN_NO_VALUE: it has none of that name. */
static qn_value parameter(const builder *b, const char *row, const char *part, qn_shape shape) {
    char name[MOST_NAME];
    if (!has(b, row, part))
        return QN_NO_VALUE;
    const qn_value found = qn_graph_find(b->graph, name_of(b, row, part, name));
    if (found.id >= 0) /* an embedding that is the last product too */
        return qn_graph_latest(b->graph, found);
    return qn_parameter(b->graph, name, shape, (qn_initial){QN_INITIAL_ZERO, 0}, b->call->trains);
}

/* ---- parts ---- */

/* x (rows, C) to (rows, outputs). */
static qn_value linear(const builder *b, const char *row, qn_value x, int64_t outputs) {
    char name[MOST_NAME];
    const int64_t inputs = qn_graph_shape(b->graph, x).dims[1];
    const qn_value weight = parameter(b, row, ".weight", QN_SHAPE(outputs, inputs));
    const qn_value bias = parameter(b, row, ".bias", QN_SHAPE(outputs));
    return qn_linear(b->graph, name_of(b, row, "", name), x, weight, bias);
}

/* x / sqrt(mean(x^2) + epsilon) * scale (Zhang and Sennrich 2019, equation 4). */
static qn_value rms_norm(const builder *b, qn_value x, qn_value scale) {
    qn_graph *g = b->graph;
    const int64_t rows = qn_graph_shape(g, x).dims[0];
    qn_value size = qn_reduce(g, NULL, qn_multiply(g, NULL, x, x), 1, QN_MEAN);
    size = qn_op_function(
        g, NULL, size,
        (qn_function){QN_FUNCTION_LINE, 1, b->language->epsilon, -INFINITY, INFINITY});
    size = qn_op_function(g, NULL, size, (qn_function){.kind = QN_FUNCTION_SQRT});
    size = qn_reshape(g, NULL, size, QN_SHAPE(rows, 1));
    x = qn_op_combine(g, NULL, QN_COMBINE_DIVIDE, x, size);
    return qn_op_combine(g, NULL, QN_COMBINE_MULTIPLY, x, scale);
}

/* x (rows, C); without the norm's tensor x itself. */
static qn_value norm(const builder *b, const char *row, qn_value x) {
    char name[MOST_NAME];
    const qn_shape shape = QN_SHAPE(qn_graph_shape(b->graph, x).dims[1]);
    const qn_value scale = parameter(b, row, ".weight", shape);
    const qn_value shift = parameter(b, row, ".bias", shape);
    if (scale.id < 0)
        return x;
    return shift.id < 0 ? rms_norm(b, x, scale)
                        : qn_layer_norm(b->graph, name_of(b, row, "", name), x, scale, shift,
                                        b->language->epsilon);
}

static qn_value cap(qn_graph *g, qn_value x, double limit) {
    if (limit <= 0)
        return x;
    return qn_scale(g, NULL, qn_tanh(g, NULL, qn_scale(g, NULL, x, 1 / limit)), limit);
}

/* GELU by tanh (Hendrycks and Gimpel 2016, section 2), or SiLU. */
static qn_value activate(const builder *b, qn_value x) {
    qn_graph *g = b->graph;
    if (!b->language->family->traits.has_gelu)
        return qn_multiply(g, NULL, x, qn_sigmoid(g, NULL, x));
    qn_value cube = qn_multiply(g, NULL, qn_multiply(g, NULL, x, x), x);
    qn_value inner = qn_add(g, NULL, x, qn_scale(g, NULL, cube, 0.044715));
    inner = qn_tanh(g, NULL, qn_scale(g, NULL, inner, sqrt(2 / M_PI)));
    inner = qn_op_function(g, NULL, inner,
                           (qn_function){QN_FUNCTION_LINE, 0.5, 0.5, -INFINITY, INFINITY});
    return qn_multiply(g, NULL, x, inner);
}

/* ---- attention ---- */

/* Turns the first numbers of each head of x (N, T, heads, D): pairs are neighbours, or the halves
 * of what is turned. */
static qn_value turn(const builder *b, qn_value x, qn_value cosines, qn_value sines) {
    qn_graph *g = b->graph;
    const qn_shape shape = qn_graph_shape(g, x);
    const int64_t heads = shape.dims[2], width = b->language->rotary.width, half = width / 2;
    const bool is_near = b->language->files->is_gguf && b->language->family->traits.has_neighbours;
    const int axis = is_near ? 4 : 3;
    const qn_shape pairs = is_near ? QN_SHAPE(b->n, b->length, heads, half, 2)
                                   : QN_SHAPE(b->n, b->length, heads, 2, half);
    const qn_shape table =
        is_near ? QN_SHAPE(b->length, 1, half, 1) : QN_SHAPE(b->length, 1, 1, half);
    const qn_value c = qn_reshape(g, NULL, cosines, table), s = qn_reshape(g, NULL, sines, table);
    qn_value rest = QN_NO_VALUE;
    if (width < shape.dims[3]) {
        rest = qn_slice(g, NULL, x, 3, width, shape.dims[3]);
        x = qn_slice(g, NULL, x, 3, 0, width);
    }
    x = qn_reshape(g, NULL, x, pairs);
    const qn_value first = qn_slice(g, NULL, x, axis, 0, 1),
                   second = qn_slice(g, NULL, x, axis, 1, 2);
#define TIMES(a, b) qn_op_combine(g, NULL, QN_COMBINE_MULTIPLY, a, b)
    const qn_value turned[] = {
        qn_op_combine(g, NULL, QN_COMBINE_SUBTRACT, TIMES(first, c), TIMES(second, s)),
        qn_add(g, NULL, TIMES(second, c), TIMES(first, s))};
#undef TIMES
    x = qn_reshape(g, NULL, qn_concat(g, NULL, turned, 2, axis),
                   QN_SHAPE(b->n, b->length, heads, width));
    return rest.id < 0 ? x : qn_concat(g, NULL, (qn_value[]){x, rest}, 2, 3);
}

/* Queries or keys (N * T, heads * D): normed, turned, and by head (N, heads, T, D). */
static qn_value place(const builder *b, const char *norm_row, qn_value x, int64_t heads) {
    static const int order[] = {0, 2, 1, 3};
    qn_graph *g = b->graph;
    const int64_t width = size_of(b, QN_LANGUAGE_HEAD_WIDTH);
    const int kind = b->language->is_local[b->layer];
    const qn_value cosines = b->call->tables.cosines[kind];
    if (norm_row && has(b, norm_row, ".weight"))
        x = norm(b, norm_row, qn_reshape(g, NULL, x, QN_SHAPE(b->n * b->length * heads, width)));
    x = qn_reshape(g, NULL, x, QN_SHAPE(b->n, b->length, heads, width));
    if (norm_row && cosines.id >= 0)
        x = turn(b, x, cosines, b->call->tables.sines[kind]);
    return qn_transpose(g, NULL, x, order);
}

/* x (N * T, E) to queries, keys and values, by three products or by one. */
static void project(const builder *b, qn_value x, qn_value parts[3]) {
    static const char *const rows[] = {"blk.#.attn_q", "blk.#.attn_k", "blk.#.attn_v"};
    static const char joined[] = "blk.#.attn_qkv";
    const int64_t width = size_of(b, QN_LANGUAGE_HEAD_WIDTH);
    const int64_t queries = size_of(b, QN_LANGUAGE_HEADS) * width;
    const int64_t keys = size_of(b, QN_LANGUAGE_KEY_HEADS) * width;
    const int64_t ends[] = {queries, queries + keys, queries + 2 * keys};
    if (has(b, joined, ".weight"))
        x = linear(b, joined, x, ends[2]);
    for (int i = 0; i < 3; i++) {
        const int64_t begin = i ? ends[i - 1] : 0;
        parts[i] = has(b, joined, ".weight") ? qn_slice(b->graph, NULL, x, 1, begin, ends[i])
                                             : linear(b, rows[i], x, ends[i] - begin);
    }
}

/* The layer's own part of what was kept, behind which x (1, heads, T, D) goes on. */
static qn_value join_past(const builder *b, qn_value past, qn_value x) {
    qn_graph *g = b->graph;
    if (past.id < 0)
        return x;
    past = qn_slice(g, NULL, past, 0, b->layer, b->layer + 1);
    return qn_concat(g, NULL, (qn_value[]){past, x}, 2, 2);
}

/* Softmax of queries (N, heads, T, D) with keys (N, key heads, U, D), each of which serves a group
 * of heads, times values -> (N * T, heads * D). */
static qn_value weigh(const builder *b, qn_value query, qn_value key, qn_value value) {
    static const int order[] = {0, 2, 1, 3};
    qn_graph *g = b->graph;
    const int64_t heads = size_of(b, QN_LANGUAGE_HEADS), groups = size_of(b, QN_LANGUAGE_KEY_HEADS);
    const int64_t width = size_of(b, QN_LANGUAGE_HEAD_WIDTH), of_group = heads / groups;
    const int64_t n_keys = qn_graph_shape(g, key).dims[2];
    query = qn_reshape(g, NULL, query, QN_SHAPE(b->n, groups, of_group * b->length, width));
    qn_value x = qn_matmul(g, NULL, query, key, false, true);
    x = qn_scale(g, NULL, x, b->language->attention_scale);
    x = qn_reshape(g, NULL, x, QN_SHAPE(b->n, groups, of_group, b->length, n_keys));
    x = qn_op_combine(g, NULL, QN_COMBINE_ADD, x,
                      b->call->tables.mask[b->language->is_local[b->layer]]);
    x = qn_softmax(g, NULL, x);
    x = qn_reshape(g, NULL, x, QN_SHAPE(b->n, groups, of_group * b->length, n_keys));
    x = qn_matmul(g, NULL, x, value, false, false);
    x = qn_reshape(g, NULL, x, QN_SHAPE(b->n, heads, b->length, width));
    x = qn_transpose(g, NULL, x, order);
    return qn_reshape(g, NULL, x, QN_SHAPE(b->n * b->length, heads * width));
}

static qn_value attend(const builder *b, qn_value x, qn_language_past *own) {
    qn_value parts[3];
    project(b, x, parts);
    const qn_value query = place(b, "blk.#.attn_q_norm", parts[0], size_of(b, QN_LANGUAGE_HEADS));
    const int64_t key_heads = size_of(b, QN_LANGUAGE_KEY_HEADS);
    own->keys = place(b, "blk.#.attn_k_norm", parts[1], key_heads);
    own->values = place(b, NULL, parts[2], key_heads);
    x = weigh(b, query, join_past(b, b->call->past.keys, own->keys),
              join_past(b, b->call->past.values, own->values));
    return linear(b, "blk.#.attn_output", x, size_of(b, QN_LANGUAGE_WIDTH));
}

/* ---- layers ---- */

/* With a gate of its own, with one that is the first half of a joined product, or without. */
static qn_value feed_forward(const builder *b, qn_value x) {
    qn_graph *g = b->graph;
    const int64_t wide = size_of(b, QN_LANGUAGE_FEED_FORWARD);
    const qn_language_tensor *up = qn_language_row(b->language, "blk.#.ffn_up.weight");
    const bool is_joined = strncmp(up->shape, "2F", 2) == 0;
    qn_value y = linear(b, "blk.#.ffn_up", x, is_joined ? 2 * wide : wide);
    if (is_joined)
        y = qn_multiply(g, NULL, activate(b, qn_slice(g, NULL, y, 1, 0, wide)),
                        qn_slice(g, NULL, y, 1, wide, 2 * wide));
    else if (has(b, "blk.#.ffn_gate", ".weight"))
        y = qn_multiply(g, NULL, activate(b, linear(b, "blk.#.ffn_gate", x, wide)), y);
    else
        y = activate(b, y);
    return linear(b, "blk.#.ffn_down", y, size_of(b, QN_LANGUAGE_WIDTH));
}

/* x (N * T, E) to the same shape. */
static qn_value add_layer(const builder *b, qn_value x, qn_language_past *own) {
    qn_graph *g = b->graph;
    qn_value y = attend(b, norm(b, "blk.#.attn_norm", x), own);
    x = qn_add(g, NULL, x, norm(b, "blk.#.post_attention_norm", y));
    y = feed_forward(b, norm(b, "blk.#.ffn_norm", x));
    return qn_add(g, NULL, x, norm(b, "blk.#.post_ffw_norm", y));
}

static qn_value embed(const builder *b) {
    qn_graph *g = b->graph;
    const int64_t width = size_of(b, QN_LANGUAGE_WIDTH);
    const qn_value table =
        parameter(b, "token_embd", ".weight", QN_SHAPE(size_of(b, QN_LANGUAGE_VOCABULARY), width));
    const qn_value positions =
        parameter(b, "position_embd", ".weight", QN_SHAPE(size_of(b, QN_LANGUAGE_CONTEXT), width));
    qn_value x = qn_embedding(g, "token_embd", table, b->call->tokens);
    if (b->language->family->traits.scales_embedding)
        x = qn_scale(g, NULL, x, sqrt((double)width));
    const qn_value numbers = b->call->tables.positions;
    if (positions.id >= 0)
        x = qn_add_rows(g, NULL, x,
                        numbers.id >= 0 ? qn_embedding(g, "position_embd", positions, numbers)
                                        : qn_slice(g, NULL, positions, 0, 0, b->length));
    return qn_reshape(g, NULL, x, QN_SHAPE(b->n * b->length, width));
}

qn_value qn_language_build(qn_graph *graph, const qn_language *language,
                           const qn_language_call *call, qn_language_past *made) {
    const qn_shape shape = qn_graph_shape(graph, call->tokens);
    builder b = {graph, language, call, shape.dims[0], shape.dims[1], 0};
    const int64_t n_layers = language->sizes[QN_LANGUAGE_LAYERS];
    qn_value x = embed(&b), keys = QN_NO_VALUE, values = QN_NO_VALUE;
    for (; b.layer < n_layers; b.layer++) {
        qn_language_past own;
        x = add_layer(&b, x, &own);
        if (!made)
            continue;
        keys = b.layer ? qn_concat(graph, NULL, (qn_value[]){keys, own.keys}, 2, 0) : own.keys;
        values =
            b.layer ? qn_concat(graph, NULL, (qn_value[]){values, own.values}, 2, 0) : own.values;
    }
    if (made)
        *made = (qn_language_past){keys, values};
    return norm(&b, "output_norm", x);
}

qn_value qn_language_logits(qn_graph *graph, const qn_language *language, qn_value x, bool trains) {
    const qn_language_call call = {.trains = trains};
    const builder b = {graph, language, &call, 0, 0, 0};
    const int64_t *s = language->sizes;
    const qn_value weight = parameter(&b, language->is_tied ? "token_embd" : "output", ".weight",
                                      QN_SHAPE(s[QN_LANGUAGE_VOCABULARY], s[QN_LANGUAGE_WIDTH]));
    x = qn_linear(graph, "output", x, weight, QN_NO_VALUE);
    return cap(graph, x, language->final_cap);
}

/* ---- weights ---- */

bool qn_language_has_floats(const qn_language *language) {
    const qn_pretrained_tensors *all = language->files->tensors;
    for (size_t i = 0; i < all->n; i++) {
        if (qn_blocks_numbers(all->list[i].blocks) > 1)
            return false;
    }
    return true;
}

void qn_language_hash(const qn_language *language, char text[QN_LANGUAGE_HASH_TEXT]) {
    enum { EDGE_BYTES = 1024 };
    const qn_pretrained_tensors *all = language->files->tensors;
    uint64_t sum = qn_hash_text(language->architecture);
    for (size_t i = 0; i < all->n; i++) {
        const qn_pretrained_tensor *t = &all->list[i];
        const size_t edge = t->bytes < EDGE_BYTES ? t->bytes : EDGE_BYTES;
        sum = sum * 31 + qn_hash_text(t->name) + 3 * qn_hash_text(t->type);
        sum = sum * 31 + qn_hash_bytes(t->shape.dims, sizeof t->shape.dims);
        sum = sum * 31 + qn_hash_bytes(t->data, edge);
        sum = sum * 31 + qn_hash_bytes(t->data + t->bytes - edge, edge);
    }
    qn_print(text, QN_LANGUAGE_HASH_TEXT, "%016llx", (unsigned long long)sum);
}

/* The row and the layer of a parameter's name; null: it is none of the family. */
static const qn_language_tensor *row_of(const qn_language *language, const char *parameter,
                                        int64_t *layer) {
    char name[MOST_NAME];
    long long number = 0;
    int end = 0;
    *layer = 0;
    if (sscanf(parameter, "blk.%lld.%n", &number, &end) < 1 || end == 0)
        return qn_language_row(language, parameter);
    *layer = number;
    qn_print(name, sizeof name, "blk.#.%s", parameter + end);
    return qn_language_row(language, name);
}

const qn_pretrained_tensor *qn_language_tensor_of(const qn_language *language,
                                                  const char *parameter) {
    int64_t layer;
    const qn_language_tensor *row = row_of(language, parameter, &layer);
    return row ? qn_language_find(language, row, layer) : NULL;
}

/* from (rows, columns) to (columns, rows), in pieces, since both are large. */
static void transpose(const qn_pretrained_tensor *tensor, float *to) {
    const int64_t rows = tensor->shape.dims[0], columns = tensor->shape.dims[1];
    float piece[QN_BLOCKS_MOST_NUMBERS];
    for (int64_t row = 0; row < rows; row++) {
        for (int64_t at = 0; at < columns; at += QN_BLOCKS_MOST_NUMBERS) {
            const int64_t n =
                columns - at < QN_BLOCKS_MOST_NUMBERS ? columns - at : QN_BLOCKS_MOST_NUMBERS;
            qn_blocks_widen(tensor->blocks, tensor->data, row * columns + at,
                            row * columns + at + n, piece);
            for (int64_t i = 0; i < n; i++)
                to[(at + i) * rows + row] = piece[i];
        }
    }
}

void qn_language_widen(const qn_language *language, const char *parameter,
                       const qn_pretrained_tensor *tensor, float *to) {
    int64_t layer;
    const qn_language_tensor *row = row_of(language, parameter, &layer);
    const bool is_folder = !language->files->is_gguf;
    const int64_t n = qn_shape_count(tensor->shape);
    if (is_folder && row->folder_shape) {
        transpose(tensor, to);
        return;
    }
    qn_blocks_widen(tensor->blocks, tensor->data, 0, n / qn_blocks_numbers(tensor->blocks), to);
    for (int64_t i = 0;
         i < n && is_folder && language->family->traits.adds_one && tensor->shape.rank == 1; i++)
        to[i] += 1;
}

void qn_language_mask(int64_t n, int64_t past, int64_t past_length, int64_t window, float *mask) {
    for (int64_t t = 0; t < n; t++) {
        const int64_t own = past_length + t; /* the token's position */
        for (int64_t u = 0; u < past + n; u++) {
            const int64_t position = u < past ? u : past_length + u - past;
            const bool is_there = u < past ? u < past_length : position <= own;
            const bool is_near = window <= 0 || own - position < window;
            mask[t * (past + n) + u] = is_there && is_near ? 0 : masked;
        }
    }
}
