/* Functions of ONNX files: a node that calls one becomes the nodes of its body, in graphs inside of
 * attributes, too. Names that the body gives itself get a prefix of the call's own, attributes that
 * refer to the call's are replaced by them, and each node keeps the opset of its function.
 * Guaranteed: a function that calls itself, calls nested deeper than any model's, and bodies that
 * grow beyond a budget of memory are refused. The schema may be older than the file: what it does
 * not know (overloads, default attributes) is read from the unknown fields. */
#include "base/status.h"
#include "format/onnx/onnx_parts.h"

#include <stdlib.h>
#include <string.h>

enum {
    MOST_DEPTH = 64,     /* calls and graphs inside of one another */
    MOST_FORMALS = 1024, /* inputs and outputs of a function */
    OVERLOAD_OF_NODE = 8,
    DEFAULTS_OF_FUNCTION = 11,
    OVERLOAD_OF_FUNCTION = 13
};

static const size_t MOST_BYTES = (size_t)1 << 28; /* of all nodes and names that calls make */

typedef struct body {
    const char *domain, *name, *overload;
    const Onnx__FunctionProto *from;
    int64_t opset; /* of the default domain; 0: as the model's */
    int n_nodes, n_defaults;
    const qn_onnx_node *nodes;
    const qn_onnx_attribute *defaults;
    bool is_open; /* its nodes are being placed */
} body;

typedef struct inlining {
    qn_onnx_reading *reading;
    body *bodies; /* (n_bodies), sorted */
    size_t n_bodies, n_bytes;
    int n_calls, depth;
} inlining;

/* Where names mean something: inside of a call, or, with body null, in the file's graph. */
typedef struct scope {
    const body *body;
    const qn_onnx_node *call; /* with the names of the graph around it */
    const char *prefix;
} scope;

/* Nodes that are being listed. */
typedef struct node_list {
    qn_onnx_node *nodes;
    size_t n, capacity;
} node_list;

static qn_status spend(inlining *in, size_t bytes) {
    in->n_bytes += bytes;
    return in->n_bytes <= MOST_BYTES
               ? QN_OK
               : QN_ONNX_FAIL(in->reading, QN_ERROR_UNSUPPORTED,
                              "its functions make more than %zu bytes of nodes", MOST_BYTES);
}

static qn_status take(inlining *in, size_t count, size_t size, void *memory) {
    QN_TRY(spend(in, (count + 1) * size));
    return qn_onnx_place(in->reading, count, size, memory);
}

static qn_status append(inlining *in, node_list *list, const qn_onnx_node *node) {
    if (list->n == list->capacity) {
        const size_t capacity = list->capacity ? 2 * list->capacity : 16;
        qn_onnx_node *nodes;
        QN_TRY(take(in, capacity, sizeof *nodes, &nodes));
        if (list->n > 0)
            memcpy(nodes, list->nodes, list->n * sizeof *nodes);
        list->nodes = nodes;
        list->capacity = capacity;
    }
    list->nodes[list->n++] = *node;
    return QN_OK;
}

/* ---- what the schema does not know ---- */

/* The content of an unknown field with a length; false: it is another kind of field. */
static bool content_of(const ProtobufCMessageUnknownField *field, const uint8_t **data, size_t *n) {
    size_t begin = 0;
    if (field->wire_type != PROTOBUF_C_WIRE_TYPE_LENGTH_PREFIXED)
        return false;
    while (begin < field->len && field->data[begin] >= 0x80)
        begin++;
    if (begin >= field->len)
        return false;
    *data = field->data + begin + 1;
    *n = field->len - begin - 1;
    return true;
}

/* A text among the unknown fields, or "". Null: memory is out. */
static const char *unknown_text(qn_onnx_reading *reading, const ProtobufCMessage *message,
                                uint32_t tag) {
    const uint8_t *data;
    size_t n;
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
        if (field->tag == tag && content_of(field, &data, &n) && n <= INT32_MAX)
            return qn_arena_format(&reading->file->arena, "%.*s", (int)n, (const char *)data);
    }
    return "";
}

qn_status qn_onnx_read_overload(qn_onnx_reading *reading, const Onnx__NodeProto *from,
                                const char **overload) {
    *overload = unknown_text(reading, &from->base, OVERLOAD_OF_NODE);
    return *overload ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status read_defaults(qn_onnx_reading *reading, const Onnx__FunctionProto *from,
                               body *to) {
    const ProtobufCMessage *message = &from->base;
    Onnx__AttributeProto *attribute;
    qn_onnx_attribute *defaults;
    const uint8_t *data;
    size_t n;
    QN_TRY(qn_onnx_place(reading, message->n_unknown_fields, sizeof *defaults, &defaults));
    to->defaults = defaults;
    for (unsigned i = 0; i < message->n_unknown_fields; i++) {
        const ProtobufCMessageUnknownField *field = &message->unknown_fields[i];
        if (field->tag != DEFAULTS_OF_FUNCTION || !content_of(field, &data, &n))
            continue;
        QN_TRY(qn_onnx_unpack(reading, &onnx__attribute_proto__descriptor, data, n, &attribute));
        QN_TRY(qn_onnx_read_attribute(reading, attribute, &defaults[to->n_defaults++]));
    }
    return QN_OK;
}

/* ---- bodies ---- */

static int compare_bodies(const void *left, const void *right) {
    const body *a = left, *b = right;
    int order = strcmp(a->domain, b->domain);
    order = order ? order : strcmp(a->name, b->name);
    return order ? order : strcmp(a->overload, b->overload);
}

static const char *domain_of(const char *domain) {
    domain = qn_onnx_text_or_empty(domain);
    return strcmp(domain, "ai.onnx") == 0 ? "" : domain;
}

static qn_status read_body(qn_onnx_reading *reading, const Onnx__FunctionProto *from, body *to) {
    *to = (body){.domain = domain_of(from->domain),
                 .name = qn_onnx_text_or_empty(from->name),
                 .overload = unknown_text(reading, &from->base, OVERLOAD_OF_FUNCTION),
                 .from = from};
    if (!to->overload)
        return QN_ERROR_MEMORY;
    if (from->n_input + from->n_output > MOST_FORMALS)
        return QN_ONNX_FAIL(reading, QN_ERROR_UNSUPPORTED,
                            "function '%.80s' has more than %d inputs and outputs", to->name,
                            MOST_FORMALS);
    for (size_t i = 0; i < from->n_opset_import; i++) {
        if (!domain_of(from->opset_import[i]->domain)[0])
            to->opset = from->opset_import[i]->version;
    }
    QN_TRY(read_defaults(reading, from, to));
    const qn_status status =
        qn_onnx_read_nodes(reading, from->node, from->n_node, &to->nodes, &to->n_nodes);
    return status == QN_OK ? status : qn_fail_within(status, "function '%.80s'", to->name);
}

static qn_status read_bodies(inlining *in, const Onnx__ModelProto *message) {
    in->n_bodies = message->n_functions;
    QN_TRY(qn_onnx_place(in->reading, in->n_bodies, sizeof *in->bodies, &in->bodies));
    for (size_t i = 0; i < in->n_bodies; i++)
        QN_TRY(read_body(in->reading, message->functions[i], &in->bodies[i]));
    qsort(in->bodies, in->n_bodies, sizeof *in->bodies, compare_bodies);
    for (size_t i = 1; i < in->n_bodies; i++) {
        if (compare_bodies(&in->bodies[i - 1], &in->bodies[i]) == 0)
            return QN_ONNX_FAIL(in->reading, QN_ERROR_FORMAT,
                                "function '%.80s' is there twice: names of functions must differ",
                                in->bodies[i].name);
    }
    return QN_OK;
}

static body *find_body(const inlining *in, const qn_onnx_node *node) {
    const body wanted = {.domain = node->domain, .name = node->type, .overload = node->overload};
    return bsearch(&wanted, in->bodies, in->n_bodies, sizeof wanted, compare_bodies);
}

/* ---- names ---- */

static qn_status prefixed(inlining *in, const scope *s, const char *name, const char **result) {
    QN_TRY(spend(in, strlen(s->prefix) + strlen(name) + 1));
    *result = qn_arena_format(&in->reading->file->arena, "%s%s", s->prefix, name);
    return *result ? QN_OK : QN_ERROR_MEMORY;
}

static const char *name_at(const char *const *names, int n, size_t i) {
    return i < (size_t)n ? names[i] : "";
}

/* What a name of a scope is called in the file's graph. */
static qn_status rename_value(inlining *in, const scope *s, const char *name, const char **result) {
    *result = name;
    if (!name[0] || !s->body)
        return QN_OK;
    const Onnx__FunctionProto *f = s->body->from;
    for (size_t i = 0; i < f->n_input; i++) {
        if (strcmp(f->input[i], name) == 0) {
            *result = name_at(s->call->inputs, s->call->n_inputs, i);
            return QN_OK;
        }
    }
    for (size_t i = 0; i < f->n_output; i++) {
        const char *outer = name_at(s->call->outputs, s->call->n_outputs, i);
        if (strcmp(f->output[i], name) == 0 && outer[0]) {
            *result = outer;
            return QN_OK;
        }
    }
    return prefixed(in, s, name, result);
}

static qn_status rename_values(inlining *in, const scope *s, int n, const char *const **names) {
    const char **renamed;
    if (!s->body)
        return QN_OK;
    QN_TRY(take(in, (size_t)n, sizeof *renamed, &renamed));
    for (int i = 0; i < n; i++)
        QN_TRY(rename_value(in, s, (*names)[i], &renamed[i]));
    *names = renamed;
    return QN_OK;
}

/* ---- attributes and graphs inside of them ---- */

static qn_status place_nodes(inlining *in, const scope *s, const qn_onnx_node *nodes, int n,
                             node_list *list);

static qn_status rename_list(inlining *in, const scope *s, int n, const qn_onnx_value **values) {
    qn_onnx_value *renamed;
    QN_TRY(take(in, (size_t)n, sizeof *renamed, &renamed));
    for (int i = 0; i < n; i++) {
        renamed[i] = (*values)[i];
        QN_TRY(rename_value(in, s, renamed[i].name, &renamed[i].name));
    }
    *values = renamed;
    return QN_OK;
}

static qn_status copy_graph(inlining *in, const scope *s, const qn_onnx_model **graph) {
    qn_onnx_model *copy;
    qn_onnx_tensor *tensors;
    node_list list = {0};
    QN_TRY(take(in, 1, sizeof *copy, &copy));
    *copy = **graph;
    QN_TRY(rename_list(in, s, copy->n_inputs, &copy->inputs));
    QN_TRY(rename_list(in, s, copy->n_outputs, &copy->outputs));
    QN_TRY(take(in, (size_t)copy->n_initializers, sizeof *tensors, &tensors));
    for (int i = 0; i < copy->n_initializers; i++) {
        tensors[i] = copy->initializers[i];
        QN_TRY(rename_value(in, s, tensors[i].name, &tensors[i].name));
    }
    copy->initializers = tensors;
    QN_TRY(place_nodes(in, s, copy->nodes, copy->n_nodes, &list));
    copy->nodes = list.nodes;
    copy->n_nodes = (int)list.n;
    *graph = copy;
    return QN_OK;
}

static const qn_onnx_attribute *find_default(const body *b, const char *name) {
    for (int i = 0; i < b->n_defaults; i++) {
        if (strcmp(b->defaults[i].name, name) == 0)
            return &b->defaults[i];
    }
    return NULL;
}

/* The attribute that one of a body stands for; null: the call leaves it out. */
static const qn_onnx_attribute *find_referred(const scope *s, const qn_onnx_attribute *a) {
    if (!a->reference || !s->body)
        return a;
    const qn_onnx_attribute *given = qn_onnx_find_attribute(s->call, a->reference);
    return given ? given : find_default(s->body, a->reference);
}

static qn_status copy_attributes(inlining *in, const scope *s, qn_onnx_node *node) {
    qn_onnx_attribute *copies;
    int n = 0;
    bool is_same = true;
    for (int i = 0; i < node->n_attributes; i++)
        is_same = is_same && !node->attributes[i].reference && !node->attributes[i].graph;
    if (is_same)
        return QN_OK;
    QN_TRY(take(in, (size_t)node->n_attributes, sizeof *copies, &copies));
    for (int i = 0; i < node->n_attributes; i++) {
        const qn_onnx_attribute *a = find_referred(s, &node->attributes[i]);
        if (!a)
            continue;
        copies[n] = *a;
        copies[n].name = node->attributes[i].name;
        if (a->graph && a == &node->attributes[i]) /* one of the call is placed already */
            QN_TRY(copy_graph(in, s, &copies[n].graph));
        n++;
    }
    node->attributes = copies;
    node->n_attributes = n;
    return QN_OK;
}

/* ---- calls ---- */

/* An output of a function that is one of its inputs. */
static qn_status pass_through(inlining *in, const scope *s, node_list *list) {
    const Onnx__FunctionProto *f = s->body->from;
    for (size_t i = 0; i < f->n_output; i++) {
        const char *outer = name_at(s->call->outputs, s->call->n_outputs, i), **names;
        for (size_t k = 0; k < f->n_input && outer[0]; k++) {
            if (strcmp(f->input[k], f->output[i]) != 0)
                continue;
            QN_TRY(take(in, 2, sizeof *names, &names));
            names[0] = name_at(s->call->inputs, s->call->n_inputs, k);
            names[1] = outer;
            const qn_onnx_node same = {.name = "",
                                       .type = "Identity",
                                       .domain = "",
                                       .overload = "",
                                       .n_inputs = 1,
                                       .n_outputs = 1,
                                       .inputs = names,
                                       .outputs = names + 1};
            QN_TRY(append(in, list, &same));
            break;
        }
    }
    return QN_OK;
}

static qn_status check_call(const inlining *in, const body *b, const qn_onnx_node *call) {
    if (b->is_open)
        return QN_ONNX_FAIL(in->reading, QN_ERROR_FORMAT, "function '%.80s' calls itself", b->name);
    if (b->opset && (b->opset < QN_ONNX_LEAST_OPSET || b->opset > QN_ONNX_MOST_OPSET))
        return QN_ONNX_FAIL(in->reading, QN_ERROR_UNSUPPORTED,
                            "function '%.80s' is of opset %lld; quern reads %d to %d", b->name,
                            (long long)b->opset, QN_ONNX_LEAST_OPSET, QN_ONNX_MOST_OPSET);
    if ((size_t)call->n_inputs > b->from->n_input || (size_t)call->n_outputs > b->from->n_output)
        return QN_ONNX_FAIL(in->reading, QN_ERROR_FORMAT,
                            "node '%.80s' calls function '%.80s' with more inputs or outputs than "
                            "that has",
                            call->name, b->name);
    return QN_OK;
}

static qn_status place_call(inlining *in, body *b, const qn_onnx_node *call, node_list *list) {
    scope inner = {.body = b, .call = call};
    QN_TRY(check_call(in, b, call));
    inner.prefix = qn_arena_format(&in->reading->file->arena, "%.48s.%d/",
                                   call->name[0] ? call->name : call->type, ++in->n_calls);
    if (!inner.prefix)
        return QN_ERROR_MEMORY;
    b->is_open = true;
    const qn_status status = place_nodes(in, &inner, b->nodes, b->n_nodes, list);
    b->is_open = false;
    return status == QN_OK ? pass_through(in, &inner, list) : status;
}

static qn_status place_node(inlining *in, const scope *s, const qn_onnx_node *from,
                            node_list *list) {
    qn_onnx_node node = *from;
    QN_TRY(rename_values(in, s, node.n_inputs, &node.inputs));
    QN_TRY(rename_values(in, s, node.n_outputs, &node.outputs));
    QN_TRY(copy_attributes(in, s, &node));
    if (s->body) {
        node.opset = s->body->opset;
        QN_TRY(prefixed(in, s, node.name[0] ? node.name : node.type, &node.name));
    }
    body *called = find_body(in, &node);
    if (!called)
        return append(in, list, &node);
    return place_call(in, called, &node, list);
}

static qn_status place_nodes(inlining *in, const scope *s, const qn_onnx_node *nodes, int n,
                             node_list *list) {
    if (++in->depth > MOST_DEPTH)
        return QN_ONNX_FAIL(in->reading, QN_ERROR_FORMAT, "%s",
                            "its functions and graphs nest too deeply");
    for (int i = 0; i < n; i++)
        QN_TRY(place_node(in, s, &nodes[i], list));
    in->depth--;
    return QN_OK;
}

qn_status qn_onnx_place_functions(qn_onnx_reading *reading, const Onnx__ModelProto *message,
                                  qn_onnx_model *model) {
    inlining in = {.reading = reading};
    const scope outer = {0};
    node_list list = {0};
    if (message->n_functions == 0)
        return QN_OK;
    QN_TRY(read_bodies(&in, message));
    QN_TRY(place_nodes(&in, &outer, model->nodes, model->n_nodes, &list));
    model->nodes = list.nodes;
    model->n_nodes = (int)list.n;
    return QN_OK;
}
