/* Large initialisers of a mapped file: protobuf-c copies what it unpacks, so that a weight would be
 * in memory as the file's page, as the copy, and as what an engine makes of it. So a model is
 * unpacked from its bytes without the raw data of large initialisers, which stay where they are in
 * the file: at any address, and in memory only while somebody reads them. Bytes that are no valid
 * message are left to the reader. */
#include "base/status.h"
#include "format/onnx/onnx_parts.h"
#include "os/heap.h"

#include <limits.h>
#include <string.h>

enum { LEAST_CUT = 1 << 20 };

/* Fields, and the first byte of those with a length. */
enum { GRAPH_OF_MODEL = 7, INITIALIZER_OF_GRAPH = 5, RAW_DATA_OF_TENSOR = 9 };
#define TAG_OF(field) ((uint8_t)((field) << 3 | PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED))

/* Raw data that were left out. */
typedef struct cut {
    size_t initializer;
    qn_onnx_span raw;
} cut;

typedef struct slimming {
    size_t n_cuts, most_cuts;
    cut *cuts; /* (most_cuts); null while they are counted */
} slimming;

/* What was written, or, to null, its length. A file that others change between the two passes may
 * be longer in the second. */
typedef struct slim {
    uint8_t *to; /* (room) */
    size_t n, room;
} slim;

static void put(slim *s, const void *data, size_t n) {
    if (s->to && s->n <= s->room && n <= s->room - s->n)
        memcpy(s->to + s->n, data, n);
    s->n += n;
}

static void put_head(slim *s, uint8_t tag, uint64_t length) {
    put(s, &tag, 1);
    for (; length >= 0x80; length >>= 7)
        put(s, &(uint8_t){(uint8_t)(length | 0x80)}, 1);
    put(s, &(uint8_t){(uint8_t)length}, 1);
}

/* A field: all of it, and what it holds where it has a length (else null). */
typedef struct field {
    uint64_t number;
    qn_onnx_span whole, inside;
} field;

static bool take(qn_onnx_span *from, field *f) {
    uint64_t tag;
    *f = (field){.whole.at = from->at};
    if (!qn_onnx_take_number(from, &tag) || !qn_onnx_take_field(from, (int)(tag & 7), &f->inside))
        return false;
    f->number = tag >> 3;
    f->whole.end = from->at;
    return true;
}

static size_t length_of(qn_onnx_span s) {
    return (size_t)(s.end - s.at);
}

/* The raw data of a tensor that has some once, and much; its inside is null elsewhere. */
static field find_raw(qn_onnx_span tensor) {
    field f, raw = {.number = 0};
    int n = 0;
    while (tensor.at < tensor.end && take(&tensor, &f)) {
        if (f.number == RAW_DATA_OF_TENSOR && f.inside.at) {
            raw = f;
            n++;
        }
    }
    const bool is_cut = tensor.at == tensor.end && n == 1 && length_of(raw.inside) >= LEAST_CUT;
    return is_cut ? raw : (field){.number = 0};
}

static void put_initializer(slimming *g, slim *s, const field *tensor, size_t index) {
    static const uint8_t empty[] = {TAG_OF(RAW_DATA_OF_TENSOR), 0};
    const field raw = find_raw(tensor->inside);
    if (!raw.inside.at) {
        put(s, tensor->whole.at, length_of(tensor->whole));
        return;
    }
    put_head(s, TAG_OF(INITIALIZER_OF_GRAPH),
             length_of(tensor->inside) - length_of(raw.whole) + sizeof empty);
    put(s, tensor->inside.at, (size_t)(raw.whole.at - tensor->inside.at));
    put(s, empty, sizeof empty);
    put(s, raw.whole.end, (size_t)(tensor->inside.end - raw.whole.end));
    if (s->to && g->n_cuts < g->most_cuts)
        g->cuts[g->n_cuts] = (cut){index, raw.inside};
    g->n_cuts += s->to || !g->cuts;
}

static bool put_graph(slimming *g, slim *s, qn_onnx_span graph) {
    field f;
    for (size_t index = 0; graph.at < graph.end;) {
        if (!take(&graph, &f))
            return false;
        if (f.number == INITIALIZER_OF_GRAPH && f.inside.at)
            put_initializer(g, s, &f, index++);
        else
            put(s, f.whole.at, length_of(f.whole));
    }
    return true;
}

/* False: the bytes are no model. */
static bool put_model(slimming *g, slim *s, qn_onnx_span model) {
    field f;
    while (model.at < model.end) {
        slim counted = {NULL, 0, 0};
        if (!take(&model, &f))
            return false;
        if (f.number != GRAPH_OF_MODEL || !f.inside.at) {
            put(s, f.whole.at, length_of(f.whole));
            continue;
        }
        if (!put_graph(g, &counted, f.inside))
            return false;
        put_head(s, TAG_OF(GRAPH_OF_MODEL), counted.n);
        put_graph(g, s, f.inside);
    }
    return true;
}

static const char changed[] = "the file was changed while it was read";

/* Points to what was cut. */
static qn_status put_back_cuts(qn_onnx_reading *reading, const slimming *g,
                               Onnx__GraphProto *graph) {
    for (size_t i = 0; graph && i < g->n_cuts; i++) {
        const cut *c = &g->cuts[i];
        if (c->initializer >= graph->n_initializer)
            return QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "%s", changed);
        graph->initializer[c->initializer]->raw_data =
            (ProtobufCBinaryData){length_of(c->raw), (uint8_t *)c->raw.at};
        reading->is_kept_mapped = true;
    }
    return QN_OK;
}

static qn_status unpack_slim(qn_onnx_reading *reading, slimming *g, slim *s, qn_onnx_span file,
                             Onnx__ModelProto **message) {
    qn_onnx_reading in_memory = *reading;
    in_memory.is_mapped = false;
    s->n = g->n_cuts = 0;
    if (!put_model(g, s, file) || s->n > s->room || g->n_cuts > g->most_cuts)
        return QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "%s", changed);
    QN_TRY(qn_onnx_unpack(&in_memory, &onnx__model_proto__descriptor, s->to, s->n, message));
    return put_back_cuts(reading, g, (*message)->graph);
}

qn_status qn_onnx_unpack_model(qn_onnx_reading *reading, const void *from, size_t n,
                               Onnx__ModelProto **message) {
    const qn_allocator *allocator = reading->file->allocator;
    const qn_onnx_span file = {from, n > 0 ? (const uint8_t *)from + n : from};
    slimming g = {.n_cuts = 0};
    slim s = {NULL, 0, 0};
    const bool is_slim = reading->is_mapped && n >= LEAST_CUT && n <= INT32_MAX &&
                         put_model(&g, &s, file) && g.n_cuts > 0;
    if (!is_slim)
        return qn_onnx_unpack(reading, &onnx__model_proto__descriptor, from, n, message);
    s.room = s.n;
    g.most_cuts = g.n_cuts;
    qn_status status = qn_allocate(allocator, s.room, 1, &s.to);
    if (status == QN_OK)
        status = qn_allocate(allocator, g.most_cuts, sizeof *g.cuts, &g.cuts);
    if (status == QN_OK)
        status = unpack_slim(reading, &g, &s, file, message);
    qn_release(allocator, s.to, s.room, 1);
    qn_release(allocator, g.cuts, g.most_cuts, sizeof *g.cuts);
    return status;
}
