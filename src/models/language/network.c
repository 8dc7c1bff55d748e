/* See network.h. */
#include "models/language/network.h"

#include "base/print.h"
#include "base/rng.h"
#include "ops/language.h"
#include "ops/network/frozen.h"
#include "ops/ops.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NAME = 160 };

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

/* The weight of a row as it lies in the file; false: it is a parameter of the engine's. */
static bool find_frozen(const builder *b, const char *row, int64_t rows, int64_t columns,
                        qn_frozen *weight) {
    char name[MOST_NAME];
    qn_print(name, sizeof name, "%s.weight", row);
    const qn_language_tensor *found = qn_language_row(b->language, name);
    const bool is_folder = !b->language->files->is_gguf;
    if (b->call->has_parameters || (is_folder && found->folder_shape))
        return false;
    const qn_pretrained_tensor *tensor = qn_language_find(b->language, found, b->layer);
    const qn_value known = qn_graph_find(b->graph, name_of(b, row, ".weight", name));
    *weight = (qn_frozen){known, tensor->blocks, columns};
    if (known.id < 0) /* else an embedding that is the last product too */
        *weight = qn_frozen_weight(b->graph, name, tensor->blocks, rows, columns, tensor->data);
    return true;
}

/* x (rows, C) to (rows, outputs). */
static qn_value linear(const builder *b, const char *row, qn_value x, int64_t outputs) {
    char name[MOST_NAME];
    const int64_t inputs = qn_graph_shape(b->graph, x).dims[1];
    const qn_value bias = parameter(b, row, ".bias", QN_SHAPE(outputs));
    qn_frozen frozen;
    if (find_frozen(b, row, outputs, inputs, &frozen))
        return qn_frozen_linear(b->graph, name_of(b, row, "", name), x, frozen, bias);
    const qn_value weight = parameter(b, row, ".weight", QN_SHAPE(outputs, inputs));
    return qn_linear(b->graph, name_of(b, row, "", name), x, weight, bias);
}

/* Rows of a table (rows, E) by indices. */
static qn_value look_up(const builder *b, const char *row, int64_t rows, qn_value indices) {
    const int64_t width = size_of(b, QN_LANGUAGE_WIDTH);
    qn_frozen frozen;
    if (find_frozen(b, row, rows, width, &frozen))
        return qn_frozen_embedding(b->graph, row, frozen, indices);
    return qn_embedding(b->graph, row, parameter(b, row, ".weight", QN_SHAPE(rows, width)),
                        indices);
}

/* x (rows, C); without the norm's tensor x itself. */
static qn_value norm(const builder *b, const char *row, qn_value x) {
    char name[MOST_NAME];
    const qn_shape shape = QN_SHAPE(qn_graph_shape(b->graph, x).dims[1]);
    const qn_value scale = parameter(b, row, ".weight", shape);
    const qn_value shift = parameter(b, row, ".bias", shape);
    if (scale.id < 0)
        return x;
    return shift.id < 0 ? qn_rms_norm(b->graph, NULL, x, scale, b->language->epsilon, 0)
                        : qn_layer_norm(b->graph, name_of(b, row, "", name), x, scale, shift,
                                        b->language->epsilon);
}

static qn_value cap(qn_graph *g, qn_value x, double limit) {
    if (limit <= 0)
        return x;
    return qn_scale(g, NULL, qn_tanh(g, NULL, qn_scale(g, NULL, x, 1 / limit)), limit);
}

/* f(gate) * up; up may be QN_NO_VALUE. */
static qn_value activate(const builder *b, qn_value gate, qn_value up) {
    return qn_gated(b->graph, NULL,
                    b->language->family->traits.has_gelu ? QN_GATE_GELU : QN_GATE_SILU, gate, up);
}

/* ---- attention ---- */

/* Queries or keys (N * T, heads * D): normed and turned (N, T, heads, D). */
static qn_value place(const builder *b, const char *norm_row, qn_value x, int64_t heads) {
    qn_graph *g = b->graph;
    const int64_t width = size_of(b, QN_LANGUAGE_HEAD_WIDTH);
    const int kind = b->language->is_local[b->layer];
    const qn_value cosines = b->call->tables.cosines[kind];
    const bool is_near = b->language->files->is_gguf && b->language->family->traits.has_neighbours;
    if (norm_row && has(b, norm_row, ".weight"))
        x = norm(b, norm_row, qn_reshape(g, NULL, x, QN_SHAPE(b->n * b->length * heads, width)));
    x = qn_reshape(g, NULL, x, QN_SHAPE(b->n, b->length, heads, width));
    if (!norm_row || cosines.id < 0)
        return x;
    return qn_rotary(g, NULL, x, cosines, b->call->tables.sines[kind], b->call->positions, is_near);
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

/* The layer's own part of what was kept, behind which x (1, T, heads, D) goes on. */
static qn_value join_past(const builder *b, qn_value past, qn_value x) {
    qn_graph *g = b->graph;
    if (past.id < 0)
        return x;
    past = qn_slice(g, NULL, past, 0, b->layer, b->layer + 1);
    return qn_concat(g, NULL, (qn_value[]){past, x}, 2, 1);
}

static qn_value attend(const builder *b, qn_value x, qn_language_past *own) {
    qn_value parts[3];
    project(b, x, parts);
    const int64_t heads = size_of(b, QN_LANGUAGE_HEADS);
    const int64_t key_heads = size_of(b, QN_LANGUAGE_KEY_HEADS);
    const qn_value query = place(b, "blk.#.attn_q_norm", parts[0], heads);
    own->keys = place(b, "blk.#.attn_k_norm", parts[1], key_heads);
    own->values = place(b, NULL, parts[2], key_heads);
    const qn_causal_attention_options how = {
        .query = query,
        .key = join_past(b, b->call->past.keys, own->keys),
        .value = join_past(b, b->call->past.values, own->values),
        .first = b->call->first,
        .last = QN_NO_VALUE,
        .scale = b->language->attention_scale,
        .window = b->language->is_local[b->layer] ? size_of(b, QN_LANGUAGE_WINDOW) : 0,
    };
    x = qn_causal_attention(b->graph, NULL, &how);
    x = qn_reshape(b->graph, NULL, x,
                   QN_SHAPE(b->n * b->length, heads * size_of(b, QN_LANGUAGE_HEAD_WIDTH)));
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
        y = activate(b, qn_slice(g, NULL, y, 1, 0, wide), qn_slice(g, NULL, y, 1, wide, 2 * wide));
    else if (has(b, "blk.#.ffn_gate", ".weight"))
        y = activate(b, linear(b, "blk.#.ffn_gate", x, wide), y);
    else
        y = activate(b, y, QN_NO_VALUE);
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

/* Learned positions, a small table. */
static qn_value add_positions(const builder *b, qn_value x) {
    qn_graph *g = b->graph;
    const qn_value table =
        parameter(b, "position_embd", ".weight",
                  QN_SHAPE(size_of(b, QN_LANGUAGE_CONTEXT), size_of(b, QN_LANGUAGE_WIDTH)));
    if (table.id < 0)
        return x;
    if (b->call->positions.id < 0)
        return qn_add_rows(g, NULL, x, qn_slice(g, NULL, table, 0, 0, b->length));
    return qn_add(g, NULL, x, qn_embedding(g, "position_embd", table, b->call->positions));
}

static qn_value embed(const builder *b) {
    qn_graph *g = b->graph;
    const int64_t width = size_of(b, QN_LANGUAGE_WIDTH);
    qn_value x = look_up(b, "token_embd", size_of(b, QN_LANGUAGE_VOCABULARY), b->call->tokens);
    if (b->language->family->traits.scales_embedding)
        x = qn_scale(g, NULL, x, sqrt((double)width));
    return qn_reshape(g, NULL, add_positions(b, x), QN_SHAPE(b->n * b->length, width));
}

qn_language_call qn_language_call_of(qn_value tokens) {
    return (qn_language_call){.tokens = tokens,
                              .positions = QN_NO_VALUE,
                              .first = QN_NO_VALUE,
                              .tables = {{QN_NO_VALUE, QN_NO_VALUE}, {QN_NO_VALUE, QN_NO_VALUE}},
                              .past = {QN_NO_VALUE, QN_NO_VALUE}};
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

static const char *output_row(const qn_language *language) {
    return language->is_tied ? "token_embd" : "output";
}

qn_value qn_language_logits(qn_graph *graph, const qn_language *language,
                            const qn_language_call *call, qn_value x) {
    const builder b = {graph, language, call, 0, 0, 0};
    const int64_t *s = language->sizes, rows = s[QN_LANGUAGE_VOCABULARY];
    const char *row = output_row(language);
    qn_frozen frozen;
    if (find_frozen(&b, row, rows, s[QN_LANGUAGE_WIDTH], &frozen))
        x = qn_frozen_linear(graph, "output", x, frozen, QN_NO_VALUE);
    else
        x = qn_linear(graph, "output", x,
                      parameter(&b, row, ".weight", QN_SHAPE(rows, s[QN_LANGUAGE_WIDTH])),
                      QN_NO_VALUE);
    return cap(graph, x, language->final_cap);
}

qn_value qn_language_losses(qn_graph *graph, const qn_language *language,
                            const qn_language_call *call, qn_value x, qn_value labels) {
    const builder b = {graph, language, call, 0, 0, 0};
    const int64_t *s = language->sizes;
    qn_frozen table;
    if (find_frozen(&b, output_row(language), s[QN_LANGUAGE_VOCABULARY], s[QN_LANGUAGE_WIDTH],
                    &table))
        return qn_sliced_cross_entropy(graph, "losses", x, table, labels, language->final_cap);
    return qn_softmax_cross_entropy(graph, "losses", qn_language_logits(graph, language, call, x),
                                    labels, 0);
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
