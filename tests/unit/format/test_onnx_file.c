/* ONNX files: what is read is what was packed, nodes out of order are sorted, outside data are
 * mapped, and what a file can get wrong is refused with the reason. The files are packed by
 * protobuf-c, which can write what no exporter would. */
#include "format/onnx/onnx_parts.h"

#include "check.h"
#include "failing.h"

#include <dirent.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST = 16, MOST_BYTES = 1 << 16 };

static char root[] = "/tmp/quern-test-onnx-XXXXXX";

/* A model of up to MOST of each part, with room for what they need. */
typedef struct made {
    Onnx__ModelProto model;
    Onnx__GraphProto graph;
    Onnx__OperatorSetIdProto opset, *opsets[1];
    Onnx__NodeProto nodes[MOST], *node_list[MOST];
    char *inputs[MOST][2], *outputs[MOST][1];
    Onnx__TensorProto tensors[MOST], *tensor_list[MOST];
    Onnx__StringStringEntryProto entries[MOST][3], *entry_list[MOST][3];
    Onnx__ValueInfoProto values[MOST], *value_list[MOST], *result_list[1];
    int n_values;
    uint8_t bytes[MOST_BYTES];
    size_t n_bytes;
} made;

static made *make(void) {
    made *m = calloc(1, sizeof *m);
    if (!m)
        abort();
    onnx__model_proto__init(&m->model);
    onnx__graph_proto__init(&m->graph);
    onnx__operator_set_id_proto__init(&m->opset);
    m->opset.has_version = true;
    m->opset.version = 13;
    m->opsets[0] = &m->opset;
    m->model.opset_import = m->opsets;
    m->model.n_opset_import = 1;
    m->model.graph = &m->graph;
    m->graph.node = m->node_list;
    m->graph.initializer = m->tensor_list;
    m->graph.input = m->value_list;
    m->graph.output = m->result_list;
    return m;
}

static Onnx__NodeProto *add_node(made *m, const char *type, const char *a, const char *b,
                                 const char *y) {
    const size_t i = m->graph.n_node++;
    Onnx__NodeProto *node = m->node_list[i] = &m->nodes[i];
    onnx__node_proto__init(node);
    node->op_type = (char *)type;
    node->name = (char *)y;
    node->input = m->inputs[i];
    node->output = m->outputs[i];
    m->inputs[i][0] = (char *)a;
    m->inputs[i][1] = (char *)b;
    m->outputs[i][0] = (char *)y;
    node->n_input = b ? 2 : 1;
    node->n_output = 1;
    return node;
}

static Onnx__ValueInfoProto *add_value(made *m, const char *name) {
    Onnx__ValueInfoProto *value = &m->values[m->n_values++];
    onnx__value_info_proto__init(value);
    value->name = (char *)name;
    return value;
}

static void add_input(made *m, const char *name) {
    m->value_list[m->graph.n_input++] = add_value(m, name);
}

static void set_output(made *m, const char *name) {
    m->result_list[0] = add_value(m, name);
    m->graph.n_output = 1;
}

static Onnx__TensorProto *add_tensor(made *m, const char *name, int type, int64_t *dims,
                                     size_t n_dims) {
    const size_t i = m->graph.n_initializer++;
    Onnx__TensorProto *tensor = m->tensor_list[i] = &m->tensors[i];
    onnx__tensor_proto__init(tensor);
    tensor->name = (char *)name;
    tensor->has_data_type = true;
    tensor->data_type = type;
    tensor->dims = dims;
    tensor->n_dims = n_dims;
    return tensor;
}

static void set_raw(Onnx__TensorProto *tensor, const void *data, size_t n) {
    tensor->has_raw_data = true;
    tensor->raw_data.data = (uint8_t *)data;
    tensor->raw_data.len = n;
}

static void add_entry(made *m, size_t tensor, const char *key, const char *value) {
    Onnx__TensorProto *t = &m->tensors[tensor];
    Onnx__StringStringEntryProto *entry = &m->entries[tensor][t->n_external_data];
    onnx__string_string_entry_proto__init(entry);
    entry->key = (char *)key;
    entry->value = (char *)value;
    t->external_data = m->entry_list[tensor];
    t->external_data[t->n_external_data++] = entry;
    t->has_data_location = true;
    t->data_location = ONNX__TENSOR_PROTO__DATA_LOCATION__EXTERNAL;
}

static qn_status open_made(made *m, const qn_allocator *allocator, qn_onnx_file **file) {
    m->n_bytes = protobuf_c_message_get_packed_size(&m->model.base);
    if (m->n_bytes > MOST_BYTES)
        abort();
    protobuf_c_message_pack(&m->model.base, m->bytes);
    *file = NULL;
    return qn_onnx_file_open_bytes(allocator, m->bytes, m->n_bytes, root, "FILE", file);
}

static int64_t two[] = {2}, none[] = {0}, huge[] = {INT64_MAX / 2, 3}, large[] = {1, INT64_MAX / 2},
               below[] = {-1}, many[17];

/* y = x + w, which is right. */
static made *make_right(void) {
    static const float numbers[2] = {1.5f, -2};
    made *m = make();
    add_input(m, "x");
    set_raw(add_tensor(m, "w", 1, two, 1), numbers, sizeof numbers);
    add_node(m, "Add", "x", "w", "y");
    set_output(m, "y");
    return m;
}

static void test_right(void) {
    qn_onnx_file *file;
    made *m = make_right();
    m->model.producer_name = (char *)"somebody";
    CHECK_OK(open_made(m, NULL, &file));
    memset(m->bytes, 0xEE, m->n_bytes); /* the bytes may go away */
    const qn_onnx_model *model = qn_onnx_file_model(file);
    CHECK(model->opset == 13 && model->n_nodes == 1 && model->n_inputs == 1);
    CHECK(strcmp(model->producer, "somebody") == 0 && strcmp(model->text, "") == 0);
    const qn_onnx_tensor *w = model->initializers;
    CHECK(w->bytes == 8 && w->n_dims == 1 && w->dims[0] == 2);
    CHECK(((const float *)w->data)[0] == 1.5f && ((const float *)w->data)[1] == -2);
    CHECK(strcmp(model->nodes[0].inputs[1], "w") == 0 && model->nodes[0].n_attributes == 0);
    CHECK(model->inputs[0].n_dims == -1);
    qn_onnx_file_close(file);
    free(m);
}

static void test_order(void) {
    qn_onnx_file *file;
    made *m = make();
    add_input(m, "x");
    add_node(m, "Relu", "c", NULL, "d");
    add_node(m, "Relu", "b", NULL, "c");
    add_node(m, "Relu", "x", NULL, "e");
    add_node(m, "Add", "a", "e", "b");
    add_node(m, "Relu", "x", NULL, "a");
    set_output(m, "d");
    CHECK_OK(open_made(m, NULL, &file));
    static const char *const wanted[] = {"a", "e", "b", "c", "d"};
    for (int i = 0; i < 5; i++)
        CHECK(strcmp(qn_onnx_file_model(file)->nodes[i].name, wanted[i]) == 0);
    qn_onnx_file_close(file);
    free(m);
}

/* An old file lists its initialiser as an input, too. */
static void test_initializer_as_input(void) {
    qn_onnx_file *file;
    made *m = make_right();
    add_input(m, "w");
    CHECK_OK(open_made(m, NULL, &file));
    CHECK(qn_onnx_file_model(file)->n_inputs == 1);
    CHECK(strcmp(qn_onnx_file_model(file)->inputs[0].name, "x") == 0);
    qn_onnx_file_close(file);
    free(m);
}

static void test_lists(void) {
    int32_t small[2] = {-128, 127}, halves[2] = {0x3C00, 0xBC00}, wrong[2] = {-129, 0};
    int64_t longs[2] = {-1, INT64_MAX};
    qn_onnx_file *file;
    made *m = make_right();
    Onnx__TensorProto *bytes = add_tensor(m, "bytes", QN_ONNX_INT8, two, 1);
    bytes->int32_data = small;
    bytes->n_int32_data = 2;
    Onnx__TensorProto *half = add_tensor(m, "halves", QN_ONNX_FLOAT16, two, 1);
    half->int32_data = halves;
    half->n_int32_data = 2;
    Onnx__TensorProto *whole = add_tensor(m, "whole", QN_ONNX_INT64, two, 1);
    whole->int64_data = longs;
    whole->n_int64_data = 2;
    add_tensor(m, "none", QN_ONNX_FLOAT, none, 1);
    CHECK_OK(open_made(m, NULL, &file));
    const qn_onnx_tensor *read = qn_onnx_file_model(file)->initializers;
    CHECK(((const int8_t *)read[1].data)[0] == -128 && ((const int8_t *)read[1].data)[1] == 127);
    CHECK(((const uint16_t *)read[2].data)[1] == 0xBC00);
    CHECK(((const int64_t *)read[3].data)[1] == INT64_MAX);
    CHECK(read[4].bytes == 0 && read[4].data);
    qn_onnx_file_close(file);
    bytes->int32_data = wrong;
    CHECK_FAILS(open_made(m, NULL, &file), QN_ERROR_FORMAT, "not of its type");
    whole->n_int64_data = 1;
    bytes->int32_data = small;
    CHECK_FAILS(open_made(m, NULL, &file), QN_ERROR_FORMAT, "1 numbers, while its extents say 2");
    free(m);
}

/* ---- outside data ---- */

static void write_file(const char *name, const void *data, size_t n) {
    char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(data, 1, n, file) == n);
    if (file)
        fclose(file);
}

static made *make_outside(const char *location, const char *offset, const char *length) {
    made *m = make();
    add_tensor(m, "w", 1, two, 1);
    add_entry(m, 0, "location", location);
    if (offset)
        add_entry(m, 0, "offset", offset);
    if (length)
        add_entry(m, 0, "length", length);
    add_node(m, "Relu", "w", NULL, "y");
    set_output(m, "y");
    return m;
}

static void test_outside(void) {
    const float numbers[4] = {1, 2, 3, 4};
    char unaligned[11];
    memcpy(unaligned + 3, numbers + 2, 8);
    write_file("w.data", numbers, sizeof numbers);
    write_file("odd.data", unaligned, sizeof unaligned);
    static const char *const places[][2] = {{"w.data", "8"}, {"./w.data", "8"}, {"odd.data", "3"}};
    for (int i = 0; i < 3; i++) {
        qn_onnx_file *file;
        made *m = make_outside(places[i][0], places[i][1], "8");
        CHECK_OK(open_made(m, NULL, &file));
        const qn_onnx_tensor *w = file ? qn_onnx_file_model(file)->initializers : NULL;
        CHECK(w && ((const float *)w->data)[0] == 3 && ((const float *)w->data)[1] == 4);
        CHECK(w && (uintptr_t)w->data % 4 == 0);
        qn_onnx_file_close(file);
        free(m);
    }
}

static void test_outside_refused(void) {
    char link[128];
    snprintf(link, sizeof link, "%s/link.data", root);
    CHECK(symlink("/etc/passwd", link) == 0);
    static const struct {
        const char *location, *offset, *length;
        qn_status status;
        const char *message;
    } wrong[] = {
        {"../w.data", NULL, NULL, QN_ERROR_FORMAT, "leads out of the model's folder"},
        {"a/../../w.data", NULL, NULL, QN_ERROR_FORMAT, "leads out"},
        {"a/..", NULL, NULL, QN_ERROR_FORMAT, "leads out"},
        {"/etc/passwd", NULL, NULL, QN_ERROR_FORMAT, "leads out"},
        {"", NULL, NULL, QN_ERROR_FORMAT, "leads out"},
        {"link.data", NULL, NULL, QN_ERROR_FORMAT, "by a link"},
        {"missing.data", NULL, NULL, QN_ERROR_IO, "missing.data"},
        {"w.data", "9", NULL, QN_ERROR_FORMAT, "beyond the end"},
        {"w.data", "-8", NULL, QN_ERROR_FORMAT, "not a count"},
        {"w.data", "99999999999999999999", NULL, QN_ERROR_FORMAT, "not a count"},
        {"w.data", "0", "4", QN_ERROR_FORMAT, "not as long"},
    };
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        qn_onnx_file *file;
        made *m = make_outside(wrong[i].location, wrong[i].offset, wrong[i].length);
        CHECK_FAILS(open_made(m, NULL, &file), wrong[i].status, wrong[i].message);
        free(m);
    }
    made *m = make_outside("w.data", NULL, NULL);
    qn_onnx_file *file;
    m->n_bytes = protobuf_c_message_pack(&m->model.base, m->bytes);
    CHECK_FAILS(qn_onnx_file_open_bytes(NULL, m->bytes, m->n_bytes, NULL, "FILE", &file),
                QN_ERROR_FORMAT, "no folder");
    free(m);
}

/* ---- what is refused ---- */

static void spoil_opset(made *m) {
    m->opset.version = 29;
}
static void spoil_domain(made *m) {
    m->opset.domain = (char *)"elsewhere";
}
static void spoil_graph(made *m) {
    m->model.graph = NULL;
}
static void spoil_missing(made *m) {
    m->inputs[0][1] = (char *)"x7";
}
static void spoil_output(made *m) {
    m->values[1].name = (char *)"z";
}
static void spoil_twice(made *m) {
    add_node(m, "Relu", "x", NULL, "y");
}
static void spoil_twice_initializer(made *m) {
    m->outputs[0][0] = (char *)"w";
}
static void spoil_cycle(made *m) {
    m->inputs[0][0] = (char *)"z";
    add_node(m, "Relu", "y", NULL, "z");
}
static void spoil_self(made *m) {
    m->inputs[0][0] = (char *)"y";
}
static void spoil_operator(made *m) {
    m->nodes[0].op_type = NULL;
}
static void spoil_name(made *m) {
    m->tensors[0].name = NULL;
}
static void spoil_input(made *m) {
    m->values[0].name = NULL;
}
static void spoil_size(made *m) {
    m->tensors[0].raw_data.len = 7;
}
static void spoil_huge(made *m) {
    m->tensors[0].dims = huge;
    m->tensors[0].n_dims = 2;
}
static void spoil_large(made *m) {
    m->tensors[0].dims = large;
    m->tensors[0].n_dims = 2;
}
static void spoil_below(made *m) {
    m->tensors[0].dims = below;
}
static void spoil_axes(made *m) {
    m->tensors[0].dims = many;
    m->tensors[0].n_dims = 17;
}
static void spoil_type(made *m) {
    m->tensors[0].data_type = 14;
}
static void spoil_text(made *m) {
    m->tensors[0].data_type = QN_ONNX_STRING;
}

static const struct {
    void (*spoil)(made *m);
    qn_status status;
    const char *message;
} cases[] = {
    {spoil_opset, QN_ERROR_UNSUPPORTED, "FILE: operators of opset 29; quern reads 6 to 28"},
    {spoil_domain, QN_ERROR_UNSUPPORTED, "opset 0"},
    {spoil_graph, QN_ERROR_FORMAT, "no graph"},
    {spoil_missing, QN_ERROR_FORMAT, "node 'y' (Add) reads 'x7', which nothing gives"},
    {spoil_output, QN_ERROR_FORMAT, "output 'z' is given by nothing"},
    {spoil_twice, QN_ERROR_FORMAT, "'y' is given twice"},
    {spoil_twice_initializer, QN_ERROR_FORMAT, "'w' is given twice"},
    {spoil_cycle, QN_ERROR_FORMAT, "depends on what it gives itself"},
    {spoil_self, QN_ERROR_FORMAT,
     "node 'y' (Add) reads 'y', which depends on what it gives itself"},
    {spoil_operator, QN_ERROR_FORMAT, "node 1 ('y') has no operator"},
    {spoil_name, QN_ERROR_FORMAT, "an initialiser has no name"},
    {spoil_input, QN_ERROR_FORMAT, "an input has no name"},
    {spoil_size, QN_ERROR_FORMAT, "initialiser 'w': 7 bytes, while type and extents say 8"},
    {spoil_huge, QN_ERROR_FORMAT, "beyond all memory"},
    {spoil_large, QN_ERROR_FORMAT, "beyond all memory"},
    {spoil_below, QN_ERROR_FORMAT, "below 0"},
    {spoil_axes, QN_ERROR_UNSUPPORTED, "16 axes"},
    {spoil_type, QN_ERROR_UNSUPPORTED, "type unknown (14)"},
    {spoil_text, QN_ERROR_UNSUPPORTED, "type string"},
};

static void test_refused(void) {
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        qn_onnx_file *file;
        made *m = make_right();
        cases[i].spoil(m);
        CHECK_FAILS(open_made(m, NULL, &file), cases[i].status, cases[i].message);
        free(m);
    }
}

/* So many graphs inside of attributes that unpacking them would go deep; *n gets their bytes. */
static uint8_t *nest(int levels, size_t *n) {
    uint8_t *inner = malloc(MOST_BYTES), *outer = malloc(MOST_BYTES);
    static const uint8_t tags[] = {6 << 3 | 2, 5 << 3 | 2, 1 << 3 | 2}; /* graph, attribute, node */
    *n = 0;
    for (int i = 0; i <= 3 * levels && inner && outer; i++) {
        size_t k = 0;
        outer[k++] = i == 3 * levels ? 7 << 3 | 2 : tags[i % 3]; /* at last the model */
        size_t rest = *n;
        do {
            outer[k++] = (uint8_t)((rest & 0x7F) | (rest > 0x7F ? 0x80 : 0));
            rest >>= 7;
        } while (rest > 0);
        memcpy(outer + k, inner, *n);
        *n += k;
        uint8_t *swap = inner;
        inner = outer;
        outer = swap;
    }
    free(outer);
    return inner;
}

static void test_bytes(void) {
    qn_onnx_file *file;
    made *m = make_right();
    CHECK_OK(open_made(m, NULL, &file));
    qn_onnx_file_close(file);
    /* Cut anywhere, it is no model or lacks something. */
    for (size_t n = 0; n < m->n_bytes; n++)
        CHECK(qn_onnx_file_open_bytes(NULL, m->bytes, n, NULL, "FILE", &file) != QN_OK);
    free(m);
    size_t n;
    uint8_t *nested = nest(3000, &n);
    CHECK_FAILS(qn_onnx_file_open_bytes(NULL, nested, n, NULL, "FILE", &file), QN_ERROR_FORMAT,
                "nest too deeply");
    free(nested);
    static const uint8_t twice[] = {7 << 3 | 2, 0, 7 << 3 | 2, 0};
    CHECK_FAILS(qn_onnx_file_open_bytes(NULL, twice, sizeof twice, NULL, "FILE", &file),
                QN_ERROR_FORMAT, "given twice");
}

/* ---- writing ---- */

static char *path_of(const char *name) {
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", root, name);
    return path;
}

/* A model with each thing that is written. */
static qn_onnx_model model_to_write(void) {
    static float numbers[300], ratios[] = {0.25f, 4};
    static const int64_t dims[] = {300}, counts[] = {-1, INT64_MAX}, batch[] = {-1, 300};
    static const char *const symbols[] = {"N", ""}, *const texts[] = {"a", ""};
    static const char *const inputs[] = {"x", "", "w"}, *const outputs[] = {"y"};
    static qn_onnx_tensor tensors[2];
    static qn_onnx_attribute attributes[7];
    static qn_onnx_node node;
    static qn_onnx_value places[2];
    static const qn_onnx_property property = {"key", "value"};
    for (int i = 0; i < 300; i++)
        numbers[i] = (float)i;
    tensors[0] =
        (qn_onnx_tensor){"w", QN_ONNX_FLOAT, 1, dims, sizeof numbers, numbers, 0, NULL, NULL};
    tensors[1] =
        (qn_onnx_tensor){"s", QN_ONNX_FLOAT, 0, NULL, sizeof(float), ratios, 0, NULL, NULL};
    attributes[0] =
        (qn_onnx_attribute){.name = "f", .kind = QN_ONNX_ATTRIBUTE_FLOAT, .number = 0.1f};
    attributes[1] = (qn_onnx_attribute){.name = "i", .kind = QN_ONNX_ATTRIBUTE_INT, .count = -7};
    attributes[2] =
        (qn_onnx_attribute){.name = "s", .kind = QN_ONNX_ATTRIBUTE_TEXT, .text = "text"};
    attributes[3] =
        (qn_onnx_attribute){.name = "t", .kind = QN_ONNX_ATTRIBUTE_TENSOR, .tensor = tensors[1]};
    attributes[4] = (qn_onnx_attribute){
        .name = "fs", .kind = QN_ONNX_ATTRIBUTE_FLOATS, .n = 2, .numbers = ratios};
    attributes[5] =
        (qn_onnx_attribute){.name = "is", .kind = QN_ONNX_ATTRIBUTE_INTS, .n = 2, .counts = counts};
    attributes[6] =
        (qn_onnx_attribute){.name = "ss", .kind = QN_ONNX_ATTRIBUTE_TEXTS, .n = 2, .texts = texts};
    node = (qn_onnx_node){"node", "Odd", "", 3, 1, 7, inputs, outputs, attributes, "", 0};
    places[0] = (qn_onnx_value){"x", QN_ONNX_FLOAT, 2, batch, symbols, 0, NULL};
    places[1] = (qn_onnx_value){"y", QN_ONNX_INT32, -1, NULL, NULL, 0, NULL};
    return (qn_onnx_model){8, 17, "quern", "1",   "graph", "",     1,          2,    1,
                           1, 0,  1,       &node, tensors, places, places + 1, NULL, &property};
}

static void check_written(const qn_onnx_model *m) {
    CHECK(m->opset == 17 && m->ir_version == 8 && strcmp(m->producer, "quern") == 0);
    CHECK(m->n_properties == 1 && strcmp(m->properties[0].value, "value") == 0);
    CHECK(m->n_inputs == 1 && m->inputs[0].dims[0] == -1 && m->inputs[0].dims[1] == 300);
    CHECK(strcmp(m->inputs[0].symbols[0], "N") == 0 && m->outputs[0].n_dims == -1);
    CHECK(m->outputs[0].type == QN_ONNX_INT32);
    CHECK(m->n_initializers == 2 && ((const float *)m->initializers[0].data)[299] == 299);
    CHECK(m->initializers[1].n_dims == 0 && m->initializers[1].bytes == 4);
    const qn_onnx_attribute *a = m->nodes[0].attributes;
    CHECK(m->nodes[0].n_inputs == 3 && m->nodes[0].n_attributes == 7);
    CHECK(a[0].number == 0.1f && a[1].count == -7 && strcmp(a[2].text, "text") == 0);
    CHECK(*(const float *)a[3].tensor.data == 0.25f && a[4].numbers[1] == 4);
    CHECK(a[5].counts[0] == -1 && a[5].counts[1] == INT64_MAX && strcmp(a[6].texts[0], "a") == 0);
}

/* Files and folders that begin so; the last one's path. */
static int find_data(const char *prefix, char path[512]) {
    DIR *folder = opendir(root);
    int n = 0;
    for (struct dirent *e; folder && (e = readdir(folder));) {
        if (strncmp(e->d_name, prefix, strlen(prefix)) != 0)
            continue;
        snprintf(path, 512, "%s/%s", root, e->d_name);
        n++;
    }
    if (folder)
        closedir(folder);
    return n;
}

static void test_writing(void) {
    const qn_onnx_model model = model_to_write();
    const char *path = path_of("written.onnx");
    for (int is_outside = 0; is_outside < 2; is_outside++) {
        qn_onnx_file *file;
        CHECK_OK(qn_onnx_file_write(NULL, &model, path, is_outside));
        CHECK_OK(qn_onnx_file_open(NULL, path, false, &file));
        check_written(qn_onnx_file_model(file));
        qn_onnx_file_close(file);
    }
    char data_path[512];
    CHECK(find_data("written.onnx.", data_path) == 1 && access(data_path, R_OK) == 0);
    /* Where outside data cannot be written, the model stays as it was. */
    CHECK(remove(data_path) == 0 && mkdir(data_path, 0777) == 0);
    path = path_of("written.onnx");
    CHECK_OK(qn_onnx_file_write(NULL, &model, path, false));
    CHECK_FAILS(qn_onnx_file_write(NULL, &model, path, true), QN_ERROR_IO, ".data");
    qn_onnx_file *file;
    CHECK_OK(qn_onnx_file_open(NULL, path, false, &file));
    check_written(qn_onnx_file_model(file));
    qn_onnx_file_close(file);
    CHECK(rmdir(data_path) == 0);
}

/* Other content has another file, and what was there before goes when the model is there. */
static void test_other_data(void) {
    float numbers[300] = {1};
    qn_onnx_tensor tensor = {.name = "w",
                             .type = QN_ONNX_FLOAT,
                             .n_dims = 1,
                             .dims = (int64_t[]){300},
                             .bytes = sizeof numbers,
                             .data = numbers};
    qn_onnx_model model = model_to_write();
    char paths[3][512];
    model.initializers = &tensor;
    model.n_initializers = 1;
    model.n_nodes = 0;
    for (int i = 0; i < 3; i++) {
        numbers[7] = (float)(i / 2);
        CHECK_OK(qn_onnx_file_write(NULL, &model, path_of("other.onnx"), true));
        CHECK(find_data("other.onnx.", paths[i]) == 1);
    }
    CHECK(strcmp(paths[0], paths[1]) == 0 && strcmp(paths[1], paths[2]) != 0);
    CHECK_OK(qn_onnx_file_write(NULL, &model, path_of("other.onnx"), false));
    CHECK(find_data("other.onnx.", paths[0]) == 0);
}

/* What a file may hold, 2 GB minus 64 MB, to the byte; no sum of sizes may wrap around. */
static void test_limit(void) {
    const size_t most = ((size_t)1 << 31) - 1 - ((size_t)64 << 20);
    const struct {
        size_t bytes[3];
        bool is_beyond;
    } sums[] = {{{0, 0, 0}, false},
                {{most, 0, 0}, false},
                {{most, 1, 0}, true},
                {{most / 2, most - most / 2, 0}, false},
                {{most / 2, most / 2, 2}, true},
                {{1, most + 1, 0}, true},
                {{SIZE_MAX / 2 + 1, SIZE_MAX / 2 + 1, 1}, true}};
    for (int i = 0; i < (int)(sizeof sums / sizeof *sums); i++) {
        qn_onnx_tensor tensors[3] = {{.name = "a"}, {.name = "b"}, {.name = "c"}};
        const qn_onnx_model model = {.n_initializers = 3, .initializers = tensors};
        for (int t = 0; t < 3; t++)
            tensors[t].bytes = sums[i].bytes[t];
        CHECK(qn_onnx_is_beyond_file(&model) == sums[i].is_beyond);
    }
}

static void test_writing_memory(void) {
    failing f = {.left = 0};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    const qn_onnx_model model = model_to_write();
    CHECK(qn_onnx_file_write(&allocator, &model, path_of("none.onnx"), false) == QN_ERROR_MEMORY);
    CHECK(access(path_of("none.onnx"), F_OK) != 0 && f.held_bytes == 0);
}

static void test_memory(void) {
    failing f = {.left = 0};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    int64_t n = 0;
    qn_status status = QN_ERROR_MEMORY;
    made *m = make_outside("w.data", NULL, NULL);
    add_node(m, "Relu", "v", NULL, "u"); /* in an order to sort */
    add_node(m, "Relu", "y", NULL, "v");
    for (; status != QN_OK && n < 100; n++) {
        qn_onnx_file *file;
        f.left = n;
        status = open_made(m, &allocator, &file);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_onnx_file_close(file);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK && n > 3);
    free(m);
}

int main(void) {
    CHECK(mkdtemp(root) != NULL);
    for (int i = 0; i < 17; i++)
        many[i] = 1;
    test_right();
    test_order();
    test_initializer_as_input();
    test_lists();
    test_limit();
    test_outside();
    test_outside_refused();
    test_refused();
    test_bytes();
    test_writing();
    test_other_data();
    test_writing_memory();
    test_memory();
    char command[64];
    snprintf(command, sizeof command, "rm -r %s", root);
    CHECK(system(command) == 0);
    return checks_finish();
}
