/* Graphs of ONNX files: nodes with their attributes, values with their types, initialisers; those
 * inside of attributes, too. */
#include "base/status.h"
#include "format/onnx/onnx_parts.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *qn_onnx_node_text(const qn_onnx_node *node, int index, char text[QN_ONNX_NODE_TEXT]) {
    if (node->name[0])
        snprintf(text, QN_ONNX_NODE_TEXT, "node '%.80s' (%.40s)", node->name, node->type);
    else
        snprintf(text, QN_ONNX_NODE_TEXT, "node %d (%.40s)", index + 1, node->type);
    return text;
}

const qn_onnx_attribute *qn_onnx_find_attribute(const qn_onnx_node *node, const char *name) {
    for (int i = 0; i < node->n_attributes; i++) {
        if (strcmp(node->attributes[i].name, name) == 0)
            return &node->attributes[i];
    }
    return NULL;
}

/* ---- attributes ---- */

static const char *text_of(qn_onnx_reading *reading, const ProtobufCBinaryData *from) {
    return qn_arena_format(&reading->file->arena, "%.*s", (int)from->len,
                           from->len ? (const char *)from->data : "");
}

static qn_status read_texts(qn_onnx_reading *reading, const Onnx__AttributeProto *from,
                            qn_onnx_attribute *attribute) {
    const char **texts;
    QN_TRY(qn_onnx_place(reading, from->n_strings, sizeof *texts, &texts));
    for (size_t i = 0; i < from->n_strings; i++) {
        texts[i] = text_of(reading, &from->strings[i]);
        if (!texts[i])
            return QN_ERROR_MEMORY;
    }
    attribute->n = (int)from->n_strings;
    attribute->texts = texts;
    return QN_OK;
}

/* Old files do not say which field an attribute uses. */
static Onnx__AttributeProto__AttributeType type_of(const Onnx__AttributeProto *from) {
    if (from->ref_attr_name && from->ref_attr_name[0])
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
    if (from->type != ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED)
        return from->type;
    if (from->has_f)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT;
    if (from->has_i)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT;
    if (from->has_s)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING;
    if (from->t)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR;
    if (from->n_floats > 0)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS;
    if (from->n_strings > 0)
        return ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS;
    return from->n_ints > 0 ? ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS
                            : ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__UNDEFINED;
}

/* A tensor that cannot be had leaves the attribute without a value: only its node is the worse for
 * it. */
static qn_status read_attribute_tensor(qn_onnx_reading *reading, const Onnx__AttributeProto *from,
                                       qn_onnx_attribute *attribute) {
    if (!from->t)
        return QN_OK;
    const qn_status status = qn_onnx_read_tensor(reading, "attribute", from->t, &attribute->tensor);
    if (status == QN_OK)
        attribute->kind = QN_ONNX_ATTRIBUTE_TENSOR;
    return status == QN_ERROR_UNSUPPORTED ? QN_OK : status;
}

static qn_status read_inner_graph(qn_onnx_reading *reading, const Onnx__GraphProto *from,
                                  qn_onnx_attribute *attribute) {
    qn_onnx_model *graph;
    if (!from)
        return QN_OK;
    QN_TRY(qn_onnx_place(reading, 1, sizeof *graph, &graph));
    QN_TRY(qn_onnx_read_graph(reading, from, graph));
    attribute->kind = QN_ONNX_ATTRIBUTE_GRAPH;
    attribute->graph = graph;
    return QN_OK;
}

qn_status qn_onnx_read_attribute(qn_onnx_reading *reading, const Onnx__AttributeProto *from,
                                 qn_onnx_attribute *attribute) {
    attribute->name = qn_onnx_text_or_empty(from->name);
    attribute->reference =
        from->ref_attr_name && from->ref_attr_name[0] ? from->ref_attr_name : NULL;
    switch (type_of(from)) {
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOAT:
        attribute->kind = QN_ONNX_ATTRIBUTE_FLOAT;
        attribute->number = from->f;
        return QN_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INT:
        attribute->kind = QN_ONNX_ATTRIBUTE_INT;
        attribute->count = from->i;
        return QN_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRING:
        attribute->kind = QN_ONNX_ATTRIBUTE_TEXT;
        attribute->text = text_of(reading, &from->s);
        return attribute->text ? QN_OK : QN_ERROR_MEMORY;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__TENSOR:
        return read_attribute_tensor(reading, from, attribute);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__FLOATS:
        attribute->kind = QN_ONNX_ATTRIBUTE_FLOATS;
        attribute->n = (int)from->n_floats;
        attribute->numbers = from->floats;
        return QN_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__INTS:
        attribute->kind = QN_ONNX_ATTRIBUTE_INTS;
        attribute->n = (int)from->n_ints;
        attribute->counts = from->ints;
        return QN_OK;
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__STRINGS:
        attribute->kind = QN_ONNX_ATTRIBUTE_TEXTS;
        return read_texts(reading, from, attribute);
    case ONNX__ATTRIBUTE_PROTO__ATTRIBUTE_TYPE__GRAPH:
        return read_inner_graph(reading, from->g, attribute);
    default:
        return QN_OK;
    }
}

/* ---- nodes ---- */

static qn_status check_attributes(qn_onnx_reading *reading, const qn_onnx_node *node, int index) {
    char text[QN_ONNX_NODE_TEXT];
    for (int i = 0; i < node->n_attributes; i++) {
        if (qn_onnx_find_attribute(node, node->attributes[i].name) != &node->attributes[i])
            return QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "%s has attribute '%.80s' twice",
                                qn_onnx_node_text(node, index, text), node->attributes[i].name);
    }
    return QN_OK;
}

static qn_status read_attributes(qn_onnx_reading *reading, const Onnx__NodeProto *from, int index,
                                 qn_onnx_node *node) {
    enum { MOST_ATTRIBUTES = 256 };
    char text[QN_ONNX_NODE_TEXT];
    qn_onnx_attribute *attributes;
    if (from->n_attribute > MOST_ATTRIBUTES)
        return QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "%s has more than 256 attributes",
                            qn_onnx_node_text(node, index, text));
    QN_TRY(qn_onnx_place(reading, from->n_attribute, sizeof *attributes, &attributes));
    node->attributes = attributes;
    node->n_attributes = (int)from->n_attribute;
    for (size_t i = 0; i < from->n_attribute; i++) {
        const qn_status status =
            qn_onnx_read_attribute(reading, from->attribute[i], &attributes[i]);
        if (status != QN_OK)
            return qn_fail_within(status, "%s", qn_onnx_node_text(node, index, text));
    }
    return check_attributes(reading, node, index);
}

static qn_status read_node(qn_onnx_reading *reading, const Onnx__NodeProto *from, int index,
                           qn_onnx_node *node) {
    node->name = qn_onnx_text_or_empty(from->name);
    node->type = qn_onnx_text_or_empty(from->op_type);
    node->domain = qn_onnx_text_or_empty(from->domain);
    if (strcmp(node->domain, "ai.onnx") == 0)
        node->domain = "";
    node->n_inputs = (int)from->n_input;
    node->n_outputs = (int)from->n_output;
    node->inputs = (const char *const *)from->input;
    node->outputs = (const char *const *)from->output;
    if (!node->type[0])
        return QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "node %d ('%.80s') has no operator",
                            index + 1, node->name);
    QN_TRY(qn_onnx_read_overload(reading, from, &node->overload));
    return read_attributes(reading, from, index, node);
}

qn_status qn_onnx_read_nodes(qn_onnx_reading *reading, Onnx__NodeProto *const *from, size_t n,
                             const qn_onnx_node **nodes, int *n_nodes) {
    qn_onnx_node *list;
    QN_TRY(qn_onnx_place(reading, n, sizeof *list, &list));
    for (size_t i = 0; i < n; i++)
        QN_TRY(read_node(reading, from[i], (int)i, &list[i]));
    *nodes = list;
    *n_nodes = (int)n;
    return QN_OK;
}

/* ---- values ---- */

static qn_status read_dims(qn_onnx_reading *reading, const Onnx__TensorShapeProto *from,
                           qn_onnx_value *value) {
    int64_t *dims;
    const char **symbols;
    if (from->n_dim > QN_ONNX_MOST_DIMS)
        return QN_ONNX_FAIL(reading, QN_ERROR_UNSUPPORTED, "'%.80s' has more than 16 axes",
                            value->name);
    QN_TRY(qn_onnx_place(reading, from->n_dim, sizeof *dims, &dims));
    QN_TRY(qn_onnx_place(reading, from->n_dim, sizeof *symbols, &symbols));
    for (size_t i = 0; i < from->n_dim; i++) {
        const Onnx__TensorShapeProto__Dimension *dim = from->dim[i];
        const bool is_known =
            dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_VALUE &&
            dim->dim_value >= 0;
        const bool is_named =
            dim->value_case == ONNX__TENSOR_SHAPE_PROTO__DIMENSION__VALUE_DIM_PARAM;
        dims[i] = is_known ? dim->dim_value : -1;
        symbols[i] = is_named ? qn_onnx_text_or_empty(dim->dim_param) : "";
    }
    value->n_dims = (int)from->n_dim;
    value->dims = dims;
    value->symbols = symbols;
    return QN_OK;
}

static qn_status read_value(qn_onnx_reading *reading, const Onnx__ValueInfoProto *from,
                            qn_onnx_value *value) {
    *value = (qn_onnx_value){.name = qn_onnx_text_or_empty(from->name), .n_dims = -1};
    QN_TRY(qn_onnx_read_properties(reading, &from->base, QN_ONNX_PROPERTIES_OF_VALUE,
                                   &value->properties, &value->n_properties));
    if (!from->type || from->type->value_case != ONNX__TYPE_PROTO__VALUE_TENSOR_TYPE ||
        !from->type->tensor_type)
        return QN_OK;
    value->type = (qn_onnx_type)from->type->tensor_type->elem_type;
    const Onnx__TensorShapeProto *shape = from->type->tensor_type->shape;
    return shape ? read_dims(reading, shape, value) : QN_OK;
}

static qn_status read_values(qn_onnx_reading *reading, Onnx__ValueInfoProto *const *from, size_t n,
                             qn_onnx_value **values) {
    QN_TRY(qn_onnx_place(reading, n, sizeof **values, values));
    for (size_t i = 0; i < n; i++)
        QN_TRY(read_value(reading, from[i], &(*values)[i]));
    return QN_OK;
}

static qn_status read_initializers(qn_onnx_reading *reading, const Onnx__GraphProto *graph,
                                   qn_onnx_model *model) {
    qn_onnx_tensor *tensors;
    if (graph->n_sparse_initializer > 0)
        return QN_ONNX_FAIL(reading, QN_ERROR_UNSUPPORTED, "%s",
                            "it has sparse initialisers; export it with dense ones");
    QN_TRY(qn_onnx_place(reading, graph->n_initializer, sizeof *tensors, &tensors));
    for (size_t i = 0; i < graph->n_initializer; i++) {
        QN_TRY(qn_onnx_read_tensor(reading, "initialiser", graph->initializer[i], &tensors[i]));
        if (!tensors[i].name[0])
            return QN_ONNX_FAIL(reading, QN_ERROR_FORMAT, "%s", "an initialiser has no name");
    }
    model->initializers = tensors;
    model->n_initializers = (int)graph->n_initializer;
    return QN_OK;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(*(const char *const *)left, *(const char *const *)right);
}

/* Files up to version 3 list initialisers among the inputs, too. */
static qn_status drop_initializers(qn_onnx_reading *reading, qn_onnx_model *model,
                                   qn_onnx_value *inputs, size_t n) {
    const size_t n_names = (size_t)model->n_initializers;
    const char **names;
    QN_TRY(qn_onnx_place(reading, n_names, sizeof *names, &names));
    for (size_t i = 0; i < n_names; i++)
        names[i] = model->initializers[i].name;
    qsort(names, n_names, sizeof *names, compare_names);
    for (size_t i = 0; i < n; i++) {
        if (!bsearch(&inputs[i].name, names, n_names, sizeof *names, compare_names))
            inputs[model->n_inputs++] = inputs[i];
    }
    model->inputs = inputs;
    return QN_OK;
}

qn_status qn_onnx_read_graph(qn_onnx_reading *reading, const Onnx__GraphProto *graph,
                             qn_onnx_model *model) {
    qn_onnx_value *inputs, *outputs, *infos;
    model->graph_name = qn_onnx_text_or_empty(graph->name);
    QN_TRY(read_initializers(reading, graph, model));
    QN_TRY(qn_onnx_read_nodes(reading, graph->node, graph->n_node, &model->nodes, &model->n_nodes));
    QN_TRY(read_values(reading, graph->input, graph->n_input, &inputs));
    QN_TRY(read_values(reading, graph->output, graph->n_output, &outputs));
    QN_TRY(read_values(reading, graph->value_info, graph->n_value_info, &infos));
    model->n_outputs = (int)graph->n_output;
    model->outputs = outputs;
    model->n_infos = (int)graph->n_value_info;
    model->infos = infos;
    return drop_initializers(reading, model, inputs, graph->n_input);
}
