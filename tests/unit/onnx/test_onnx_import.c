/* Importing networks: what exporters write out node by node becomes one operator again, weights
 * start with the file's numbers in the order of axes that is used here, equal ones that are one by
 * accident are parted, and memory that runs out at any point is said and leaves nothing behind.
 * Files are written by the writer. */
#include "check.h"
#include "failing.h"
#include "os/heap.h"

#include "base/status.h"
#include "format/onnx/onnx_file.h"
#include "onnx/import.h"
#include "quern/quern.h"

#include <stdlib.h>

static const float numbers[] = {2, 1e-5F, 1.41421356F, 1, 0.5F};
static float filter[6 * 2], row[6], ones[6] = {1, 1, 1, 1, 1, 1}, head[6 * 3];

#define NAMES(...) ((const char *const[]){__VA_ARGS__})
#define DIMS(...)  ((const int64_t[]){__VA_ARGS__})
#define NODE(name_, type_, output, n, ...)                                                         \
    {                                                                                              \
        .name = (name_), .type = (type_), .domain = "", .n_inputs = (n),                           \
        .inputs = NAMES(__VA_ARGS__), .n_outputs = 1, .outputs = NAMES(output)                     \
    }
#define TENSOR(name_, memory, n, ...)                                                              \
    {                                                                                              \
        .name = (name_), .type = QN_ONNX_FLOAT, .n_dims = (n), .dims = DIMS(__VA_ARGS__),          \
        .bytes = sizeof(memory), .data = (memory)                                                  \
    }
#define SCALAR(name_, i)                                                                           \
    { .name = (name_), .type = QN_ONNX_FLOAT, .bytes = sizeof(float), .data = numbers + (i) }

static const qn_onnx_attribute last[] = {
    {.name = "axes", .kind = QN_ONNX_ATTRIBUTE_INTS, .n = 1, .counts = (const int64_t[]){-1}}};

/* A convolution, the mean over the image, two layer norms whose scale is one tensor, GELU, a linear
 * layer. */
static const qn_onnx_node nodes[] = {
    NODE("conv", "Conv", "a", 2, "x", "filter"),
    NODE("mean", "GlobalAveragePool", "b", 1, "a"),
    NODE("flat", "Flatten", "c", 1, "b"),
    NODE("scale2", "Identity", "scale2", 1, "scale"),
    {.name = "m",
     .type = "ReduceMean",
     .domain = "",
     .n_inputs = 1,
     .inputs = NAMES("c"),
     .n_outputs = 1,
     .outputs = NAMES("m"),
     .n_attributes = 1,
     .attributes = last},
    NODE("d", "Sub", "d", 2, "c", "m"),
    NODE("p", "Pow", "p", 2, "d", "two"),
    {.name = "v",
     .type = "ReduceMean",
     .domain = "",
     .n_inputs = 1,
     .inputs = NAMES("p"),
     .n_outputs = 1,
     .outputs = NAMES("v"),
     .n_attributes = 1,
     .attributes = last},
    NODE("e", "Add", "e", 2, "v", "epsilon"),
    NODE("s", "Sqrt", "s", 1, "e"),
    NODE("q", "Div", "q", 2, "d", "s"),
    NODE("t", "Mul", "t", 2, "q", "scale"),
    NODE("norm", "Add", "n", 2, "t", "shift"),
    NODE("less", "Div", "g1", 2, "n", "root"),
    NODE("erf", "Erf", "g2", 1, "g1"),
    NODE("more", "Add", "g3", 2, "g2", "one"),
    NODE("gate", "Mul", "g4", 2, "n", "g3"),
    NODE("gelu", "Mul", "g", 2, "g4", "half"),
    NODE("again", "Mul", "h", 2, "g", "scale2"),
    NODE("head", "MatMul", "y", 2, "h", "head"),
};

static const qn_onnx_tensor tensors[] = {
    TENSOR("filter", filter, 4, 6, 2, 1, 1),
    TENSOR("scale", ones, 1, 6),
    TENSOR("shift", row, 1, 6),
    TENSOR("head", head, 2, 6, 3),
    SCALAR("two", 0),
    SCALAR("epsilon", 1),
    SCALAR("root", 2),
    SCALAR("one", 3),
    SCALAR("half", 4),
};

static const qn_onnx_value input = {.name = "x",
                                    .type = QN_ONNX_FLOAT,
                                    .n_dims = 4,
                                    .dims = DIMS(-1, 2, 5, 5),
                                    .symbols = NAMES("n", "", "", "")};
static const qn_onnx_value output = {.name = "y",
                                     .type = QN_ONNX_FLOAT,
                                     .n_dims = 2,
                                     .dims = DIMS(-1, 3),
                                     .symbols = NAMES("n", "")};

static const qn_onnx_model file = {
    .ir_version = 8,
    .opset = 13,
    .producer = "",
    .producer_version = "",
    .graph_name = "net",
    .text = "",
    .n_nodes = sizeof nodes / sizeof nodes[0],
    .nodes = nodes,
    .n_initializers = sizeof tensors / sizeof tensors[0],
    .initializers = tensors,
    .n_inputs = 1,
    .inputs = &input,
    .n_outputs = 1,
    .outputs = &output,
};

static void fill(float *values, int n) {
    for (int i = 0; i < n; i++)
        values[i] = 0.1F * (float)(i + 1);
}

static int count_nodes(const qn_graph *graph, const char *op) {
    int count = 0;
    for (int n = 0; n < graph->n_nodes; n++)
        count += strcmp(graph->nodes[n]->op->name, op) == 0;
    return count;
}

static void check_graph(const char *path) {
    qn_onnx_network *network;
    qn_graph *graph;
    qn_value y;
    CHECK_OK(qn_onnx_open(&(qn_onnx_options){QN_OPTIONS_INIT(qn_onnx_options)}, path, &network));
    CHECK_OK(qn_onnx_try(network, true, &graph, &y));
    CHECK(count_nodes(graph, "layer_norm") == 1 && count_nodes(graph, "gelu") == 1);
    CHECK(count_nodes(graph, "conv2d") == 1 && count_nodes(graph, "linear") == 1);
    CHECK(count_nodes(graph, "transpose") == 0);
    const qn_node *norm = graph->nodes[graph->values[qn_graph_find(graph, "norm").id]->producer];
    CHECK(strcmp(norm->op->name, "layer_norm") == 0);
    CHECK(qn_graph_find(graph, "scale").id >= 0 && qn_graph_find(graph, "scale2").id >= 0);
    CHECK(qn_shape_equal(qn_graph_shape(graph, qn_graph_find(graph, "filter")),
                         QN_SHAPE(6, 1, 1, 2)));
    CHECK(qn_shape_equal(qn_graph_shape(graph, qn_graph_find(graph, "head")), QN_SHAPE(3, 6)));
    CHECK(qn_shape_equal(qn_graph_shape(graph, y), QN_SHAPE(1, 3)));
    qn_graph_destroy(graph);
    qn_onnx_close(network);
}

/* An engine's parameters are the file's, in the order that is used here. */
static void check_start(const char *path) {
    qn_onnx_network *network;
    const qn_model *model;
    qn_trainer *trainer;
    CHECK_OK(qn_onnx_open(&(qn_onnx_options){QN_OPTIONS_INIT(qn_onnx_options)}, path, &network));
    CHECK_OK(qn_onnx_model_of(network, &model));
    CHECK(model->n_classes == 3 && qn_shape_equal(model->input, QN_SHAPE(5, 5, 2)));
    qn_trainer_options options = qn_trainer_options_for(model);
    options.batch = 4;
    options.engine.real = QN_F64;
    CHECK_OK(qn_trainer_create(&options, &trainer));
    qn_onnx_close(network);
    const qn_stored_tensor weight = qn_engine_find(qn_trainer_engine(trainer), "head");
    bool is_equal = weight.data && weight.trainable;
    for (int k = 0; k < 3 && is_equal; k++) {
        for (int c = 0; c < 6; c++)
            is_equal =
                is_equal && ((const double *)weight.data)[k * 6 + c] == (double)head[c * 3 + k];
    }
    CHECK(is_equal);
    qn_trainer_destroy(trainer);
}

static qn_status import_all(const qn_allocator *allocator, const char *path) {
    const qn_onnx_options options = {QN_OPTIONS_INIT(qn_onnx_options), .allocator = allocator};
    qn_onnx_network *network;
    const qn_model *model;
    qn_graph *graph;
    qn_value y;
    char *json;
    QN_TRY(qn_onnx_inspect(&options, path, &json));
    qn_onnx_free_text(&options, json);
    QN_TRY(qn_onnx_open(&options, path, &network));
    qn_status status = qn_onnx_model_of(network, &model);
    if (status == QN_OK) {
        status = qn_onnx_try(network, true, &graph, &y);
        qn_graph_destroy(graph);
    }
    qn_onnx_close(network);
    return status;
}

static void check_memory(const char *path) {
    failing f = {.left = -1};
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    for (; status == QN_ERROR_MEMORY && n < 5000; n++) {
        f = (failing){.left = n};
        status = import_all(&allocator, path);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK && n > 20);
}

int main(void) {
    char folder[] = "/tmp/quern-import-XXXXXX", path[64];
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/net.onnx", folder);
    fill(filter, 12);
    fill(row, 6);
    fill(head, 18);
    CHECK_OK(qn_onnx_file_write(qn_allocator_default(), &file, path, false));
    check_graph(path);
    check_start(path);
    check_memory(path);
    remove(path);
    remove(folder);
    return checks_finish();
}
