/* The reader of ONNX files: whatever the bytes, what is handed out keeps what onnx_file.h
 * guarantees, of bytes and of a file, as a model and as a tensor. */
#include "format/onnx/onnx_file.h"
#include "fuzz/input.h"

static size_t sum; /* of what was read, so that all of it is */

static void read_bytes(const void *bytes, size_t n) {
    for (size_t i = 0; i < n; i++)
        sum += ((const unsigned char *)bytes)[i];
}

static void read_text(const char *text) {
    read_bytes(text, strlen(text));
}

static void check_tensor(const qn_onnx_tensor *tensor) {
    size_t bytes = qn_onnx_type_bytes(tensor->type);
    for (int i = 0; i < tensor->n_dims; i++)
        bytes *= (size_t)tensor->dims[i];
    if (bytes != tensor->bytes || !tensor->data || tensor->n_dims > QN_ONNX_MOST_DIMS ||
        (uintptr_t)tensor->data % qn_onnx_type_bytes(tensor->type) != 0)
        abort();
    read_text(tensor->name);
    read_bytes(tensor->data, tensor->bytes);
}

static void check_attribute(const qn_onnx_attribute *a) {
    read_text(a->name);
    if (a->kind == QN_ONNX_ATTRIBUTE_TEXT)
        read_text(a->text);
    if (a->kind == QN_ONNX_ATTRIBUTE_TENSOR)
        check_tensor(&a->tensor);
    if (a->kind == QN_ONNX_ATTRIBUTE_FLOATS)
        read_bytes(a->numbers, (size_t)a->n * sizeof *a->numbers);
    if (a->kind == QN_ONNX_ATTRIBUTE_INTS)
        read_bytes(a->counts, (size_t)a->n * sizeof *a->counts);
    for (int i = 0; a->kind == QN_ONNX_ATTRIBUTE_TEXTS && i < a->n; i++)
        read_text(a->texts[i]);
}

static void check_value(const qn_onnx_value *value) {
    read_text(value->name);
    for (int i = 0; i < value->n_dims; i++) {
        if (value->dims[i] < -1)
            abort();
        read_text(value->symbols[i]);
    }
}

/* How often a name is given before a node. */
static int count_givers(const qn_onnx_model *m, int before, const char *name) {
    int n = 0;
    for (int i = 0; i < m->n_initializers; i++)
        n += strcmp(m->initializers[i].name, name) == 0;
    for (int i = 0; i < m->n_inputs; i++)
        n += strcmp(m->inputs[i].name, name) == 0;
    for (int i = 0; i < before; i++) {
        for (int k = 0; k < m->nodes[i].n_outputs; k++)
            n += strcmp(m->nodes[i].outputs[k], name) == 0;
    }
    return n;
}

static void check_node(const qn_onnx_model *m, int index) {
    const qn_onnx_node *node = &m->nodes[index];
    read_text(node->name);
    read_text(node->type);
    read_text(node->domain);
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i][0] && count_givers(m, index, node->inputs[i]) != 1)
            abort();
    }
    for (int i = 0; i < node->n_outputs; i++) {
        if (node->outputs[i][0] && count_givers(m, m->n_nodes, node->outputs[i]) != 1)
            abort();
    }
    for (int i = 0; i < node->n_attributes; i++) {
        check_attribute(&node->attributes[i]);
        if (qn_onnx_find_attribute(node, node->attributes[i].name) != &node->attributes[i])
            abort();
    }
}

static void check_model(const qn_onnx_model *m) {
    if (m->opset < 6 || m->opset > 28)
        abort();
    for (int i = 0; i < m->n_initializers; i++)
        check_tensor(&m->initializers[i]);
    for (int i = 0; i < m->n_nodes; i++)
        check_node(m, i);
    for (int i = 0; i < m->n_inputs; i++)
        check_value(&m->inputs[i]);
    for (int i = 0; i < m->n_outputs; i++)
        check_value(&m->outputs[i]);
    for (int i = 0; i < m->n_infos; i++)
        check_value(&m->infos[i]);
    for (int i = 0; i < m->n_properties; i++) {
        read_text(m->properties[i].key);
        read_text(m->properties[i].value);
    }
}

static void open_tensor(const char *path, const qn_allocator *allocator) {
    qn_onnx_file *file;
    const qn_onnx_tensor *tensor;
    if (qn_onnx_tensor_open(allocator, path, &file, &tensor) != QN_OK)
        return;
    check_tensor(tensor);
    qn_onnx_file_close(file);
}

static void open_model(const char *path, const qn_allocator *allocator) {
    qn_onnx_file *file;
    if (qn_onnx_file_open(allocator, path, false, &file) != QN_OK)
        return;
    check_model(qn_onnx_file_model(file));
    sum += qn_onnx_file_hash_outside(file);
    qn_onnx_file_close(file);
}

/* Puts the input and a file of outside data into the folder, and reads it from there. */
static void open_files(const uint8_t *data, size_t size) {
    static const char outside[40] = "0123456789abcdef0123456789abcdef";
    char path[128];
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    snprintf(path, sizeof path, "%s/model.onnx", input_folder());
    input_write("quern-fuzz.data", outside, sizeof outside);
    input_write("model.onnx", data, size);
    open_model(path, &allocator);
    open_tensor(path, &allocator);
    input_check_memory(&f);
    open_model(path, NULL);
    open_tensor(path, NULL);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_onnx_file *file;
    open_files(data, size);
    if (qn_onnx_file_open_bytes(NULL, data, size, input_folder(), "FILE", &file) == QN_OK) {
        check_model(qn_onnx_file_model(file));
        qn_onnx_file_close(file);
    }
    return 0;
}
