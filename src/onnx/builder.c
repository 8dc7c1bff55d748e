/* Runs over a file's nodes and adds them to a graph. Guarantees that every translator gets inputs
 * that are there, that every output which is read was given, and that names of nodes are the file's
 * wherever these are free and given. Knows no operator but "Constant". */
#include "onnx/builder.h"

#include "base/rng.h"
#include "base/status.h"
#include "onnx/axes.h"
#include "onnx/integers.h"
#include "onnx/trains.h"

#include <stdio.h>
#include <string.h>

/* ---- items ---- */

static int *find_slot(const qn_onnx_builder *b, const char *name) {
    size_t slot = qn_hash_text(name) & (b->capacity - 1);
    while (b->table[slot] && strcmp(b->items[b->table[slot] - 1].name, name) != 0)
        slot = (slot + 1) & (b->capacity - 1);
    return &b->table[slot];
}

qn_onnx_item *qn_onnx_find_item(const qn_onnx_builder *b, const char *name) {
    const int number = *name ? *find_slot(b, name) : 0;
    return number > 0 ? &b->items[number - 1] : NULL;
}

static bool is_trained(const qn_onnx_builder *b, const char *name) {
    const qn_onnx_initializer *decision = qn_onnx_find_decision(b->decisions, name);
    return decision && decision->trains;
}

static qn_onnx_item *add_item(qn_onnx_builder *b, const char *name, qn_onnx_type type,
                              const qn_onnx_tensor *initializer) {
    qn_onnx_item *item = &b->items[b->n_items++];
    *item = (qn_onnx_item){.name = name,
                           .type = type,
                           .value = QN_NO_VALUE,
                           .other = QN_NO_VALUE,
                           .row = QN_NO_VALUE,
                           .initializer = initializer,
                           .trains = initializer && is_trained(b, name)};
    *find_slot(b, name) = b->n_items;
    return item;
}

/* Names that a graph inside of a node gives itself are added when it is built. */
static size_t count_inner(const qn_onnx_model *m) {
    size_t n = 0;
    for (int i = 0; i < m->n_nodes; i++) {
        for (int k = 0; k < m->nodes[i].n_attributes; k++) {
            const qn_onnx_model *g = m->nodes[i].attributes[k].graph;
            if (!g)
                continue;
            n += (size_t)g->n_inputs + (size_t)g->n_initializers + count_inner(g);
            for (int j = 0; j < g->n_nodes; j++)
                n += (size_t)g->nodes[j].n_outputs;
        }
    }
    return n;
}

static void add_items(qn_onnx_builder *b) {
    const qn_onnx_model *m = b->model;
    for (int i = 0; i < m->n_inputs; i++)
        add_item(b, m->inputs[i].name, m->inputs[i].type, NULL);
    for (int i = 0; i < m->n_initializers; i++)
        add_item(b, m->initializers[i].name, m->initializers[i].type, &m->initializers[i]);
    for (int n = 0; n < m->n_nodes; n++) {
        for (int i = 0; i < m->nodes[n].n_outputs; i++) {
            if (*m->nodes[n].outputs[i])
                add_item(b, m->nodes[n].outputs[i], QN_ONNX_NONE, NULL);
        }
    }
}

qn_status qn_onnx_builder_init(qn_onnx_builder *b, const qn_onnx_model *model,
                               const qn_onnx_decisions *decisions, qn_graph *graph,
                               qn_arena *kept) {
    size_t most = (size_t)model->n_inputs + (size_t)model->n_initializers + count_inner(model);
    for (int n = 0; n < model->n_nodes; n++)
        most += (size_t)model->nodes[n].n_outputs;
    *b = (qn_onnx_builder){.model = model,
                           .graph = graph,
                           .decisions = decisions,
                           .kept = kept,
                           .capacity = 16,
                           .batch = -1};
    while (b->capacity < 2 * most)
        b->capacity *= 2;
    b->most_items = (int)most;
    qn_arena_init(&b->arena, graph->allocator);
    b->items = qn_arena_allocate(&b->arena, most + 1, sizeof *b->items);
    b->table = qn_arena_allocate(&b->arena, b->capacity, sizeof *b->table);
    qn_status status = b->items && b->table ? QN_OK : QN_ERROR_MEMORY;
    if (status == QN_OK && !decisions) {
        status = qn_onnx_decide(model, NULL, NULL, &b->arena, &b->own_decisions);
        b->decisions = &b->own_decisions;
    }
    if (status == QN_OK)
        add_items(b);
    else
        qn_arena_deinit(&b->arena);
    return status;
}

void qn_onnx_builder_deinit(qn_onnx_builder *b) {
    qn_arena_deinit(&b->arena);
}

/* ---- names ---- */

/* The file's name of a node without what would spoil a line of text; its first output's where it
 * has none; no initialiser's, since these become parameters. In the builder's memory, or null. */
static const char *node_name(qn_onnx_builder *b, const qn_onnx_node *node) {
    const char *given = *node->name ? node->name : node->type;
    for (int i = 0; !*node->name && i < node->n_outputs && given == node->type; i++)
        given = *node->outputs[i] ? node->outputs[i] : given;
    const qn_onnx_item *item = qn_onnx_find_item(b, given);
    char *name =
        qn_arena_format(&b->arena, "%s%s", given, item && item->initializer ? ".node" : "");
    for (char *c = name; c && *c; c++)
        *c = (char)((unsigned char)*c < ' ' || *c == 0x7F ? '_' : *c);
    return qn_onnx_free_name(b, name);
}

const char *qn_onnx_free_name(qn_onnx_builder *b, const char *name) {
    if (!name)
        qn_graph_fail(b->graph, QN_ERROR_MEMORY, "%s", qn_error_message());
    return name ? qn_graph_unique(b->graph, name, false) : NULL;
}

const char *qn_onnx_side_name(qn_onnx_call *call, const char *suffix) {
    return qn_onnx_free_name(call->builder,
                             qn_arena_format(&call->builder->arena, "%s.%s", call->name, suffix));
}

/* ---- nodes ---- */

static qn_status build_constant(qn_onnx_call *call) {
    static const char *const others[] = {"value_float", "value_int", "value_floats", "value_ints"};
    const qn_onnx_attribute *a = qn_onnx_find_attribute(call->node, "value");
    qn_onnx_item *item = qn_onnx_find_item(call->builder, call->node->outputs[0]);
    if (item && a && a->kind == QN_ONNX_ATTRIBUTE_TENSOR) {
        item->initializer = &a->tensor;
        item->type = a->tensor.type;
        item->is_constant_node = true;
        item->trains = is_trained(call->builder, item->name);
        return QN_OK;
    }
    for (int i = 0; i < 4 && (!a || i == 0); i++)
        a = qn_onnx_find_attribute(call->node, others[i]);
    if (!a)
        return qn_fail(QN_ERROR_UNSUPPORTED, "it has no value that is a tensor or number");
    const double number = a->number;
    if (a->kind == QN_ONNX_ATTRIBUTE_FLOAT)
        return qn_onnx_give_reals(call, 0, (qn_shape){0}, &number);
    if (a->kind == QN_ONNX_ATTRIBUTE_INT)
        return qn_onnx_give_whole(call, 0, QN_ONNX_INT64, (qn_shape){0}, &a->count);
    const qn_shape shape = {.rank = 1, .dims = {a->n}};
    if (a->kind == QN_ONNX_ATTRIBUTE_INTS)
        return qn_onnx_give_whole(call, 0, QN_ONNX_INT64, shape, a->counts);
    double *numbers = qn_onnx_scratch(call, ((size_t)a->n + 1) * sizeof *numbers);
    for (int i = 0; numbers && i < a->n; i++)
        numbers[i] = a->numbers[i];
    return numbers ? qn_onnx_give_reals(call, 0, shape, numbers) : QN_ERROR_MEMORY;
}

static const qn_onnx_translator constant_translator = {"Constant", 0, 0, build_constant};

const qn_onnx_translator *qn_onnx_translator_of(const qn_onnx_node *node) {
    char name[128];
    if (!*node->domain)
        return strchr(node->type, '.') ? NULL : qn_onnx_find_translator(node->type);
    const int n = snprintf(name, sizeof name, "%s.%s", node->domain, node->type);
    return n > 0 && (size_t)n < sizeof name ? qn_onnx_find_translator(name) : NULL;
}

const qn_onnx_translator *qn_onnx_find_translator(const char *type) {
    if (strcmp(type, constant_translator.type) == 0)
        return &constant_translator;
    for (int list = 0; qn_onnx_translators[list]; list++) {
        for (const qn_onnx_translator *t = qn_onnx_translators[list]; t->type; t++) {
            if (strcmp(t->type, type) == 0)
                return t;
        }
    }
    return NULL;
}

/* Inputs left out at the end are not counted. */
static qn_status find_inputs(qn_onnx_call *call, qn_onnx_item **inputs) {
    for (int i = 0; i < call->node->n_inputs; i++) {
        inputs[i] = qn_onnx_find_item(call->builder, call->node->inputs[i]);
        if (inputs[i])
            call->n_inputs = i + 1;
    }
    call->inputs = inputs;
    return QN_OK;
}

static qn_status check_call(const qn_onnx_call *call, const qn_onnx_translator *translator) {
    const char *domain = call->node->domain;
    if (*domain && !translator)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "it is of the domain %s; export with operators of ONNX's own", domain);
    if (!translator)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "there is no such operator here; export with another opset, or write the "
                       "model without it");
    if (call->n_inputs < translator->least_inputs ||
        (translator->most_inputs >= 0 && call->n_inputs > translator->most_inputs))
        return qn_fail(QN_ERROR_FORMAT, "it has %d inputs where %d to %d are needed",
                       call->n_inputs, translator->least_inputs, translator->most_inputs);
    for (int i = 0; i < translator->least_inputs; i++) {
        if (!call->inputs[i])
            return qn_fail(QN_ERROR_FORMAT, "its input %d is left out, but needed", i);
    }
    if (call->node->n_outputs < 1)
        return qn_fail(QN_ERROR_FORMAT, "it has no output");
    return QN_OK;
}

/* Attributes that no translator asks for because they change nothing that can be built, or are
 * read elsewhere. */
static bool is_harmless(const qn_onnx_node *node, const char *name) {
    static const char *const names[] = {
        "saturate", "sorted", "noop_with_empty_axes",
        /* of opset 6: without "axis", axes are aligned at the end */
        "broadcast", "is_test"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(name, names[i]) == 0)
            return true;
    }
    return strcmp(node->type, "Constant") == 0;
}

static qn_status check_read(const qn_onnx_call *call) {
    for (int i = 0; i < call->node->n_attributes && i < 64; i++) {
        if ((call->opset > QN_ONNX_STABLE_OPSET || call->opset < QN_ONNX_FIRST_OPSET) &&
            !(call->builder->read >> i & 1) &&
            !is_harmless(call->node, call->node->attributes[i].name))
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "its attribute %s of opset %lld is not known here: export with opset %d "
                           "to %d",
                           call->node->attributes[i].name, (long long)call->opset,
                           QN_ONNX_FIRST_OPSET, QN_ONNX_STABLE_OPSET);
    }
    return QN_OK;
}

qn_status qn_onnx_build_with(qn_onnx_call *call) {
    const qn_onnx_translator *translator = qn_onnx_translator_of(call->node);
    bool is_done;
    QN_TRY(qn_onnx_build_empty(call, &is_done));
    if (!is_done)
        QN_TRY(qn_onnx_build_integers(call, &is_done));
    if (!is_done)
        QN_TRY(qn_onnx_move_integers(call, translator, &is_done));
    return is_done ? QN_OK : translator->build(call);
}

static qn_status build_node(qn_onnx_call *call) {
    const qn_onnx_translator *translator = qn_onnx_translator_of(call->node);
    qn_onnx_item **inputs =
        qn_onnx_scratch(call, ((size_t)call->node->n_inputs + 1) * sizeof(qn_onnx_item *));
    if (!inputs || !call->name)
        return QN_ERROR_MEMORY;
    QN_TRY(find_inputs(call, inputs));
    QN_TRY(check_call(call, translator));
    call->builder->read = 0;
    QN_TRY(qn_onnx_build_with(call));
    QN_TRY(check_read(call));
    return call->graph->status == QN_OK ? QN_OK
                                        : qn_fail(call->graph->status, "%s", call->graph->message);
}

/* What reads an output that nothing was given for fails. */
static qn_status check_given(const qn_onnx_call *call) {
    for (int i = 0; i < call->n_inputs; i++) {
        const qn_onnx_item *item = call->inputs[i];
        if (item && item->value.id < 0 && !item->constant && !item->initializer && !item->turned &&
            item->row.id < 0)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "its input %s is an output that is not made here; export for inference, "
                           "or without it",
                           item->name);
    }
    return QN_OK;
}

/* Says where it was, and what may be the cause. */
static void fail_node(const qn_onnx_builder *b, const qn_onnx_call *call, qn_status status) {
    qn_fail_within(status, "node %s (%s)", call->name ? call->name : "", call->node->type);
    if (b->file_batch > 0 && b->file_batch != b->batch && status != QN_ERROR_MEMORY)
        qn_fail(status,
                "%s; the file is made for a batch of %lld, and this is one of %lld: use batches "
                "as long as the file's, or export it with an open batch",
                qn_error_message(), (long long)b->file_batch, (long long)b->batch);
    qn_graph_fail(b->graph, status, "%s", qn_error_message());
}

/* A node whose output is its first input instead. */
static qn_status leave_out(qn_onnx_call *call, qn_onnx_item *first) {
    qn_onnx_item *const inputs[] = {first};
    qn_status status = QN_OK;
    int axis;
    call->inputs = inputs;
    call->n_inputs = 1;
    if (qn_onnx_attribute_of(call, "axis"))
        status = qn_onnx_axis(qn_onnx_int(call, "axis", 0), qn_onnx_shape(call, 0).rank, &axis);
    if (status == QN_OK)
        qn_onnx_give_input(call, 0, 0);
    call->inputs = NULL;
    call->n_inputs = 0;
    return status;
}

static qn_status run_node_of(qn_onnx_builder *b, const qn_onnx_node *node, bool is_left_out) {
    qn_onnx_call call = {.builder = b,
                         .graph = b->graph,
                         .node = node,
                         .name = node_name(b, node),
                         .opset = node->opset > 0 ? node->opset : b->model->opset};
    b->node = node;
    qn_onnx_item *first = node->n_inputs > 0 ? qn_onnx_find_item(b, node->inputs[0]) : NULL;
    qn_status status = is_left_out && first ? leave_out(&call, first) : build_node(&call);
    if (status != QN_OK && status != QN_ERROR_MEMORY && check_given(&call) != QN_OK)
        status = QN_ERROR_UNSUPPORTED;
    if (status == QN_OK)
        return QN_OK;
    if (b->graph->status == QN_ERROR_MEMORY)
        status = qn_fail(QN_ERROR_MEMORY, "%s", b->graph->message);
    fail_node(b, &call, status);
    return status;
}

/* ---- graphs inside of nodes ---- */

bool qn_onnx_node_reads(const qn_onnx_node *node, const char *name) {
    for (int i = 0; i < node->n_inputs; i++) {
        if (strcmp(node->inputs[i], name) == 0)
            return true;
    }
    for (int a = 0; a < node->n_attributes; a++) {
        const qn_onnx_model *g = node->attributes[a].graph;
        for (int n = 0; g && n < g->n_nodes; n++) {
            if (qn_onnx_node_reads(&g->nodes[n], name))
                return true;
        }
        for (int i = 0; g && i < g->n_outputs; i++) {
            if (strcmp(g->outputs[i].name, name) == 0)
                return true;
        }
    }
    return false;
}

/* The item of a name, empty. A name that something around the graph has is refused by ONNX. */
static qn_status renew(qn_onnx_builder *b, const char *name, qn_onnx_type type,
                       const qn_onnx_tensor *initializer) {
    qn_onnx_item *item = qn_onnx_find_item(b, name);
    if (!item && b->n_items >= b->most_items)
        return qn_fail(QN_ERROR_FORMAT, "a graph inside of it gives '%.80s', which is not its own",
                       name);
    if (!item) {
        add_item(b, name, type, initializer);
        return QN_OK;
    }
    *item = (qn_onnx_item){.name = item->name,
                           .type = type,
                           .value = QN_NO_VALUE,
                           .other = QN_NO_VALUE,
                           .row = QN_NO_VALUE,
                           .initializer = initializer,
                           .trains = initializer && is_trained(b, name)};
    return QN_OK;
}

qn_status qn_onnx_bind(qn_onnx_builder *b, const char *name, const qn_onnx_item *same) {
    const qn_onnx_item from = *same;
    if (!*name)
        return qn_fail(QN_ERROR_FORMAT, "an input of its body has no name");
    QN_TRY(renew(b, name, from.type, NULL));
    qn_onnx_item *to = qn_onnx_find_item(b, name);
    const char *own = to->name;
    *to = from;
    to->name = own;
    return QN_OK;
}

qn_status qn_onnx_builder_run_inner(qn_onnx_builder *b, const qn_onnx_model *graph) {
    for (int i = 0; i < graph->n_initializers; i++) {
        const qn_onnx_tensor *t = &graph->initializers[i];
        const qn_onnx_item *item = qn_onnx_find_item(b, t->name);
        if (!item || item->initializer != t) /* a weight keeps its parameter */
            QN_TRY(renew(b, t->name, t->type, t));
    }
    for (int n = 0; n < graph->n_nodes; n++) {
        for (int i = 0; i < graph->nodes[n].n_outputs; i++) {
            if (*graph->nodes[n].outputs[i])
                QN_TRY(renew(b, graph->nodes[n].outputs[i], QN_ONNX_NONE, NULL));
        }
    }
    const qn_onnx_node *outer = b->node;
    const uint64_t read = b->read;
    for (int n = 0; n < graph->n_nodes; n++)
        QN_TRY(run_node_of(b, &graph->nodes[n], false));
    b->node = outer;
    b->read = read;
    return QN_OK;
}

qn_status qn_onnx_builder_run(qn_onnx_builder *b) {
    for (int n = 0; n < b->model->n_nodes; n++) {
        if (!b->wanted || b->wanted[n])
            QN_TRY(run_node_of(b, &b->model->nodes[n], b->left_out && b->left_out[n]));
    }
    return QN_OK;
}
