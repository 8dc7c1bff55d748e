/* A file that was read, written again with other numbers: messages are copied where something
 * changes and pointed to where nothing does, so that names, types, layout, open axes, what no
 * reader here knows, and the order of everything stay as they came. */
#include "base/status.h"
#include "format/onnx/onnx_parts.h"

#include <string.h>

typedef struct rewriting {
    const qn_onnx_file *file;
    const qn_onnx_changes *changes;
    qn_arena arena;
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    qn_onnx_model list; /* of initialisers, as they are written */
} rewriting;

static qn_status place(rewriting *r, size_t count, size_t size, void *memory) {
    void *block = qn_arena_allocate(&r->arena, count + 1, size);
    memcpy(memory, &block, sizeof block);
    return block ? QN_OK : QN_ERROR_MEMORY;
}

static const qn_onnx_change *find_change(const rewriting *r, qn_onnx_change_kind kind,
                                         const char *name) {
    for (int i = 0; i < r->changes->n_tensors; i++) {
        const qn_onnx_change *c = &r->changes->tensors[i];
        if (c->kind == kind &&
            strcmp(c->kind == QN_ONNX_CHANGE_READ ? c->node : c->tensor.name, name) == 0)
            return c;
    }
    return NULL;
}

/* ---- initialisers ---- */

static qn_status list_initializers(rewriting *r) {
    const qn_onnx_model *from = &r->file->model;
    qn_onnx_tensor *tensors;
    QN_TRY(place(r, (size_t)(from->n_initializers + r->changes->n_tensors), sizeof *tensors,
                 &tensors));
    int n = 0;
    const int n_own = from->n_initializers - (r->changes->is_trained ? 0 : r->file->n_parted);
    for (int i = 0; i < n_own; i++) {
        const qn_onnx_change *c =
            find_change(r, QN_ONNX_CHANGE_NUMBERS, from->initializers[i].name);
        tensors[n++] = c ? c->tensor : from->initializers[i];
    }
    for (int i = 0; i < r->changes->n_tensors; i++) {
        const qn_onnx_change *c = &r->changes->tensors[i];
        if (c->kind != QN_ONNX_CHANGE_NUMBERS)
            tensors[n++] = c->tensor;
    }
    r->list.initializers = tensors;
    r->list.n_initializers = n;
    return QN_OK;
}

/* ---- nodes ---- */

/* A node "Constant" with other numbers. */
static qn_status change_constant(rewriting *r, const qn_onnx_change *c, Onnx__NodeProto *node) {
    Onnx__AttributeProto **list, *attribute;
    Onnx__TensorProto *tensor;
    QN_TRY(place(r, node->n_attribute, sizeof *list, &list));
    QN_TRY(place(r, 1, sizeof *attribute, &attribute));
    QN_TRY(place(r, 1, sizeof *tensor, &tensor));
    for (size_t i = 0; i < node->n_attribute; i++) {
        list[i] = node->attribute[i];
        if (strcmp(qn_onnx_text_or_empty(list[i]->name), "value") != 0 || !list[i]->t)
            continue;
        *attribute = *list[i];
        onnx__tensor_proto__init(tensor);
        tensor->name = attribute->t->name;
        tensor->has_data_type = true;
        tensor->data_type = (int32_t)c->tensor.type;
        tensor->n_dims = (size_t)c->tensor.n_dims;
        tensor->dims = (int64_t *)c->tensor.dims;
        tensor->has_raw_data = true;
        tensor->raw_data = (ProtobufCBinaryData){c->tensor.bytes, (uint8_t *)c->tensor.data};
        attribute->t = tensor;
        list[i] = attribute;
    }
    node->attribute = list;
    return QN_OK;
}

/* A node that reads a tensor of its own where it read one that others read, too. */
static qn_status change_reads(rewriting *r, const char *output, Onnx__NodeProto *node) {
    char **inputs;
    QN_TRY(place(r, node->n_input, sizeof *inputs, &inputs));
    memcpy(inputs, node->input, node->n_input * sizeof *inputs);
    for (int i = 0; i < r->changes->n_tensors; i++) {
        const qn_onnx_change *c = &r->changes->tensors[i];
        if (c->kind == QN_ONNX_CHANGE_READ && strcmp(c->node, output) == 0 && c->input >= 0 &&
            (size_t)c->input < node->n_input)
            inputs[c->input] = (char *)c->tensor.name;
    }
    node->input = inputs;
    return QN_OK;
}

static bool is_initializer(const rewriting *r, const char *name) {
    const Onnx__GraphProto *graph = r->file->message->graph;
    for (size_t i = 0; i < graph->n_initializer; i++) {
        if (strcmp(qn_onnx_text_or_empty(graph->initializer[i]->name), name) == 0)
            return true;
    }
    return false;
}

/* Whether a batch norm has statistics of the file, and gives new ones. */
static bool moves_statistics(const rewriting *r, const Onnx__NodeProto *node) {
    return node->n_input > 4 && is_initializer(r, node->input[3]) &&
           is_initializer(r, node->input[4]) && node->n_output > 1 && *node->output[1];
}

/* What was trained is written for inference: batch norms by the statistics that training moved,
 * and dropouts without masks. A batch norm that is always by its batch stays. */
static qn_status make_inference(rewriting *r, Onnx__NodeProto *node) {
    const char *type = qn_onnx_text_or_empty(node->op_type);
    if (!r->changes->is_trained)
        return QN_OK;
    if (strcmp(type, "Dropout") == 0 && node->n_input > 2) {
        node->n_input = 2;
        return QN_OK;
    }
    if (strcmp(type, "BatchNormalization") != 0 || !moves_statistics(r, node))
        return QN_OK;
    Onnx__AttributeProto **list;
    size_t n = 0;
    bool was_training = false;
    QN_TRY(place(r, node->n_attribute, sizeof *list, &list));
    for (size_t i = 0; i < node->n_attribute; i++) {
        const Onnx__AttributeProto *a = node->attribute[i];
        const bool is_mode = strcmp(qn_onnx_text_or_empty(a->name), "training_mode") == 0;
        was_training = was_training || (is_mode && a->i != 0);
        if (!is_mode || a->i == 0)
            list[n++] = node->attribute[i];
    }
    node->attribute = list;
    node->n_attribute = n;
    if (was_training && node->n_output > 1)
        node->n_output = 1;
    return QN_OK;
}

/* What was parted to train stays parted. */
static qn_status part_reads(rewriting *r, const char *output, Onnx__NodeProto *node) {
    char **inputs = NULL;
    for (const qn_onnx_parted *p = r->file->parted; p; p = p->next) {
        if (!r->changes->is_trained || strcmp(p->output, output) != 0)
            continue;
        if (!inputs) {
            QN_TRY(place(r, node->n_input + 1, sizeof *inputs, &inputs));
            memcpy(inputs, node->input, node->n_input * sizeof *inputs);
            node->input = inputs;
        }
        if ((size_t)p->input == node->n_input) /* a bias that the file left out */
            node->n_input++;
        else if ((size_t)p->input > node->n_input)
            continue;
        inputs[p->input] = (char *)(uintptr_t)p->name;
    }
    return QN_OK;
}

/* The node as it is written, or null: it goes, since what it gave is a tensor of its own. */
static qn_status rewrite_node(rewriting *r, Onnx__NodeProto *from, Onnx__NodeProto **to) {
    const char *output = from->n_output > 0 ? from->output[0] : "";
    *to = NULL;
    if (*output && find_change(r, QN_ONNX_CHANGE_ADD, output))
        return QN_OK;
    QN_TRY(place(r, 1, sizeof **to, to));
    **to = *from;
    const qn_onnx_change *c = find_change(r, QN_ONNX_CHANGE_NUMBERS, output);
    if (c && strcmp(qn_onnx_text_or_empty(from->op_type), "Constant") == 0)
        QN_TRY(change_constant(r, c, *to));
    QN_TRY(part_reads(r, output, *to));
    if (find_change(r, QN_ONNX_CHANGE_READ, output))
        QN_TRY(change_reads(r, output, *to));
    return make_inference(r, *to);
}

/* The name that a node of the file has for a value from now on. */
static char *renamed(const rewriting *r, char *name, bool is_read) {
    const qn_onnx_changes *c = r->changes;
    if (is_read && c->prepared && strcmp(name, c->input) == 0)
        return (char *)(uintptr_t)c->prepared;
    return c->inner && strcmp(name, c->output) == 0 ? (char *)(uintptr_t)c->inner : name;
}

/* The nodes in front read the input, and those of the file what they make; the nodes at the end
 * make the output of what the file's made. */
static qn_status rename_values(rewriting *r, Onnx__NodeProto *node) {
    char **inputs, **outputs;
    if (!r->changes->prepared && !r->changes->inner)
        return QN_OK;
    QN_TRY(place(r, node->n_input, sizeof *inputs, &inputs));
    QN_TRY(place(r, node->n_output, sizeof *outputs, &outputs));
    for (size_t i = 0; i < node->n_input; i++)
        inputs[i] = renamed(r, node->input[i], true);
    for (size_t i = 0; i < node->n_output; i++)
        outputs[i] = renamed(r, node->output[i], false);
    node->input = inputs;
    node->output = outputs;
    return QN_OK;
}

static qn_status rewrite_nodes(rewriting *r) {
    const Onnx__GraphProto *from = r->file->message->graph;
    Onnx__NodeProto **nodes;
    size_t n = 0;
    const qn_onnx_changes *c = r->changes;
    const int n_last = c->n_nodes - c->n_front;
    QN_TRY(place(r, from->n_node + (size_t)c->n_nodes, sizeof *nodes, &nodes));
    QN_TRY(qn_onnx_make_nodes(&r->arena, c->nodes, c->n_front, nodes));
    n = (size_t)c->n_front;
    for (size_t i = 0; i < from->n_node; i++) {
        QN_TRY(rewrite_node(r, from->node[i], &nodes[n]));
        if (nodes[n])
            QN_TRY(rename_values(r, nodes[n++]));
    }
    if (n_last > 0)
        QN_TRY(qn_onnx_make_nodes(&r->arena, c->nodes + c->n_front, n_last, &nodes[n]));
    n += (size_t)n_last;
    r->graph.node = nodes;
    r->graph.n_node = n;
    return QN_OK;
}

/* Nodes of functions are for inference, too. */
static qn_status rewrite_functions(rewriting *r) {
    const Onnx__ModelProto *from = r->file->message;
    Onnx__FunctionProto **functions;
    QN_TRY(place(r, from->n_functions, sizeof *functions, &functions));
    for (size_t i = 0; i < from->n_functions; i++) {
        Onnx__NodeProto **nodes;
        QN_TRY(place(r, 1, sizeof **functions, &functions[i]));
        QN_TRY(place(r, from->functions[i]->n_node, sizeof *nodes, &nodes));
        *functions[i] = *from->functions[i];
        functions[i]->node = nodes;
        for (size_t k = 0; k < functions[i]->n_node; k++) {
            QN_TRY(place(r, 1, sizeof **nodes, &nodes[k]));
            *nodes[k] = *from->functions[i]->node[k];
            QN_TRY(make_inference(r, nodes[k]));
        }
    }
    r->model.functions = functions;
    return QN_OK;
}

/* ---- what the file says of itself ---- */

static const char version_key[] = "quern.version";

static bool is_replaced(const rewriting *r, const char *key) {
    bool is_so = strcmp(key, version_key) == 0;
    for (int k = 0; k < r->changes->n_properties; k++)
        is_so = is_so || strcmp(key, r->changes->properties[k].key) == 0;
    return is_so;
}

/* The last says that quern wrote the file, whoever produced the network: so a later export knows
 * that it may replace it (format/own). */
static qn_status rewrite_properties(rewriting *r) {
    const Onnx__ModelProto *from = r->file->message;
    Onnx__StringStringEntryProto **list, *entries;
    const int n_new = r->changes->n_properties;
    size_t n = 0;
    QN_TRY(place(r, from->n_metadata_props + (size_t)n_new + 1, sizeof *list, &list));
    QN_TRY(place(r, (size_t)n_new + 1, sizeof *entries, &entries));
    for (size_t i = 0; i < from->n_metadata_props; i++) {
        if (!is_replaced(r, qn_onnx_text_or_empty(from->metadata_props[i]->key)))
            list[n++] = from->metadata_props[i];
    }
    for (int k = 0; k <= n_new; k++) {
        const bool is_last = k == n_new;
        if (!is_last && !r->changes->properties[k].value)
            continue;
        onnx__string_string_entry_proto__init(&entries[k]);
        entries[k].key = is_last ? (char *)version_key : (char *)r->changes->properties[k].key;
        entries[k].value =
            (char *)(uintptr_t)(is_last ? qn_version() : r->changes->properties[k].value);
        list[n++] = &entries[k];
    }
    r->model.metadata_props = list;
    r->model.n_metadata_props = n;
    return QN_OK;
}

/* An output with another number of classes: the last extent that was the old number. */
static qn_status rewrite_output(rewriting *r, Onnx__ValueInfoProto **output) {
    Onnx__TypeProto *type = (*output)->type, *new_type;
    Onnx__TypeProto__Tensor *tensor;
    Onnx__TensorShapeProto *shape;
    Onnx__TensorShapeProto__Dimension **dims, *dim;
    Onnx__ValueInfoProto *value;
    if (!type || type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE || !type->tensor_type ||
        !type->tensor_type->shape)
        return QN_OK;
    const Onnx__TensorShapeProto *old = type->tensor_type->shape;
    QN_TRY(place(r, 1, sizeof *value, &value));
    QN_TRY(place(r, 1, sizeof *new_type, &new_type));
    QN_TRY(place(r, 1, sizeof *tensor, &tensor));
    QN_TRY(place(r, 1, sizeof *shape, &shape));
    QN_TRY(place(r, old->n_dim, sizeof *dims, &dims));
    QN_TRY(place(r, 1, sizeof *dim, &dim));
    *value = **output;
    *new_type = *type;
    *tensor = *type->tensor_type;
    *shape = *old;
    memcpy(dims, old->dim, old->n_dim * sizeof *dims);
    for (size_t i = old->n_dim; i > 0; i--) {
        if (dims[i - 1]->value_case != ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE ||
            dims[i - 1]->dim_value != r->changes->old_width)
            continue;
        *dim = *dims[i - 1];
        dim->dim_value = r->changes->width;
        dims[i - 1] = dim;
        break;
    }
    value->type = new_type;
    new_type->tensor_type = tensor;
    tensor->shape = shape;
    shape->dim = dims;
    *output = value;
    return QN_OK;
}

/* What is said of values in between may no longer be so. */
static qn_status rewrite_outputs(rewriting *r) {
    const Onnx__GraphProto *from = r->file->message->graph;
    Onnx__ValueInfoProto **outputs;
    if (r->changes->width == r->changes->old_width)
        return QN_OK;
    QN_TRY(place(r, from->n_output, sizeof *outputs, &outputs));
    memcpy(outputs, from->output, from->n_output * sizeof *outputs);
    for (size_t i = 0; i < from->n_output; i++)
        QN_TRY(rewrite_output(r, &outputs[i]));
    r->graph.output = outputs;
    r->graph.n_value_info = 0;
    return QN_OK;
}

static qn_status rewrite(rewriting *r, const char *path, bool is_outside) {
    r->model = *r->file->message;
    r->graph = *r->file->message->graph;
    r->model.graph = &r->graph;
    QN_TRY(list_initializers(r));
    QN_TRY(rewrite_nodes(r));
    QN_TRY(rewrite_functions(r));
    QN_TRY(rewrite_properties(r));
    QN_TRY(rewrite_outputs(r));
    const qn_onnx_written what = {r->file, &r->model, &r->list, r->changes->sources,
                                  r->changes->n_sources};
    return qn_onnx_write_message(r->file->allocator, &what, path, is_outside);
}

qn_status qn_onnx_file_rewrite(const qn_onnx_file *file, const qn_onnx_changes *changes,
                               const char *path, bool is_outside) {
    rewriting r = {.file = file, .changes = changes};
    qn_arena_init(&r.arena, file->allocator);
    const qn_status status = rewrite(&r, path, is_outside);
    qn_arena_deinit(&r.arena);
    return status;
}
