/* What an import makes of a network beside right numbers, which test_onnx_nodes shows: images keep
 * their channels last through elementwise work, reductions and softmax, so that no transpose is
 * added; numbers known at import are attributes, not operands; shape arithmetic leaves no node that
 * runs. */
#include "check.h"

#include "onnx/builder.h"
#include "os/heap.h"

typedef struct network {
    qn_onnx_model model;
    qn_onnx_node nodes[16];
    const char *inputs[16][3], *outputs[16];
    qn_onnx_tensor initializers[8];
    qn_arena kept;
    qn_graph *graph;
    qn_onnx_builder builder;
} network;

static const int64_t image_dims[] = {2, 8, 6, 5}; /* (N, C, H, W) */
static const qn_onnx_value image_input = {
    .name = "x", .type = QN_ONNX_FLOAT, .n_dims = 4, .dims = image_dims};

/* A node with up to three inputs ("" ends them), whose output has a name. */
static void put(network *n, const char *type, const char *a, const char *b, const char *c,
                const char *output, const qn_onnx_attribute *attributes) {
    const int i = n->model.n_nodes++;
    const char *const names[] = {a, b, c};
    int n_inputs = 0;
    while (n_inputs < 3 && *names[n_inputs]) {
        n->inputs[i][n_inputs] = names[n_inputs];
        n_inputs++;
    }
    n->outputs[i] = output;
    n->nodes[i] = (qn_onnx_node){.name = output,
                                 .type = type,
                                 .domain = "",
                                 .n_inputs = n_inputs,
                                 .n_outputs = 1,
                                 .inputs = n->inputs[i],
                                 .outputs = &n->outputs[i],
                                 .n_attributes = attributes ? 1 : 0,
                                 .attributes = attributes};
}

static void put_tensor(network *n, const char *name, qn_onnx_type type, int n_dims,
                       const int64_t *dims, const void *data) {
    int64_t count = 1;
    for (int i = 0; i < n_dims; i++)
        count *= dims[i];
    n->initializers[n->model.n_initializers++] =
        (qn_onnx_tensor){.name = name,
                         .type = type,
                         .n_dims = n_dims,
                         .dims = dims,
                         .bytes = (size_t)count * qn_onnx_type_bytes(type),
                         .data = data};
}

/* Builds over x, an image, and makes a value of the last node's output. */
static qn_value build(network *n) {
    n->model.opset = 13;
    n->model.producer = "";
    n->model.nodes = n->nodes;
    n->model.initializers = n->initializers;
    n->model.inputs = &image_input;
    n->model.n_inputs = 1;
    qn_arena_init(&n->kept, qn_allocator_default());
    CHECK_OK(qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options)}, &n->graph));
    CHECK_OK(qn_onnx_builder_init(&n->builder, &n->model, NULL, n->graph, &n->kept));
    qn_onnx_item *x = qn_onnx_find_item(&n->builder, "x");
    x->value = qn_input(n->graph, "x", QN_SHAPE(2, 6, 5, 8));
    x->is_image = true;
    CHECK_OK(qn_onnx_builder_run(&n->builder));
    return qn_onnx_item_value(&n->builder,
                              qn_onnx_find_item(&n->builder, n->outputs[n->model.n_nodes - 1]));
}

static void finish(network *n) {
    CHECK_OK(qn_graph_finish(n->graph));
    qn_onnx_builder_deinit(&n->builder);
    qn_graph_destroy(n->graph);
    qn_arena_deinit(&n->kept);
}

/* Nodes of an operator; null: of any that runs. */
static int count(const network *n, const char *op) {
    int found = 0;
    for (int i = 0; i < n->graph->n_nodes; i++) {
        const qn_op *is = n->graph->nodes[i]->op;
        found += op ? strcmp(is->name, op) == 0 : !is->is_view;
    }
    return found;
}

static bool is_image(const network *n, const char *name) {
    return qn_onnx_find_item(&n->builder, name)->is_image;
}

/* Operands of every rank beside an image; means over its pixels; softmax over its channels. */
static void test_images(void) {
    static const int64_t three[] = {8, 1, 1}, four[] = {1, 8, 1, 1}, row[] = {5}, axes[] = {2, 3};
    static const float numbers[8] = {1, 2, 3, 4, 5, 6, 7, 8};
    const qn_onnx_attribute pixels = {
        .name = "axes", .kind = QN_ONNX_ATTRIBUTE_INTS, .n = 2, .counts = axes};
    const qn_onnx_attribute channels = {.name = "axis", .kind = QN_ONNX_ATTRIBUTE_INT, .count = 1};
    network n = {0};
    put_tensor(&n, "three", QN_ONNX_FLOAT, 3, three, numbers);
    put_tensor(&n, "four", QN_ONNX_FLOAT, 4, four, numbers);
    put_tensor(&n, "row", QN_ONNX_FLOAT, 1, row, numbers);
    put(&n, "Mul", "x", "three", "", "scaled", NULL);
    put(&n, "Add", "scaled", "four", "", "shifted", NULL);
    put(&n, "Sub", "row", "shifted", "", "rows", NULL);
    put(&n, "PRelu", "rows", "three", "", "sloped", NULL);
    put(&n, "HardSwish", "sloped", "", "", "active", NULL);
    put(&n, "ReduceMean", "active", "", "", "squeezed", &pixels);
    put(&n, "HardSigmoid", "squeezed", "", "", "gate", NULL);
    put(&n, "Mul", "gate", "active", "", "excited", NULL);
    put(&n, "Greater", "excited", "x", "", "larger", NULL);
    put(&n, "Where", "larger", "excited", "x", "chosen", NULL);
    put(&n, "Softmax", "chosen", "", "", "y", &channels);
    const qn_value y = build(&n);
    CHECK(qn_shape_equal(qn_graph_shape(n.graph, y), QN_SHAPE(2, 6, 5, 8)));
    CHECK(is_image(&n, "y") && is_image(&n, "squeezed"));
    CHECK(count(&n, "transpose") == 0);
    CHECK(count(&n, "bias") == 1); /* the shift by channels, as a convolution's */
    CHECK(count(&n, "reduce") == 1);
    finish(&n);
}

static void test_numbers(void) {
    static const float half = 0.5f, two = 2, six = 6, zero = 0;
    network n = {0};
    put_tensor(&n, "half", QN_ONNX_FLOAT, 0, NULL, &half);
    put_tensor(&n, "two", QN_ONNX_FLOAT, 0, NULL, &two);
    put_tensor(&n, "zero", QN_ONNX_FLOAT, 0, NULL, &zero);
    put_tensor(&n, "six", QN_ONNX_FLOAT, 0, NULL, &six);
    put(&n, "Mul", "x", "half", "", "a", NULL);
    put(&n, "Add", "two", "a", "", "b", NULL);
    put(&n, "Div", "b", "two", "", "c", NULL);
    put(&n, "Pow", "c", "two", "", "d", NULL);
    put(&n, "Sub", "two", "d", "", "e", NULL);
    put(&n, "Clip", "e", "zero", "six", "f", NULL);
    put(&n, "Clip", "f", "zero", "", "y", NULL);
    build(&n);
    CHECK(is_image(&n, "y"));
    CHECK(count(&n, "scale") == 1 && count(&n, "function") == 3 && count(&n, "multiply") == 1);
    CHECK(count(&n, "relu6") == 1 && count(&n, "relu") == 1);
    CHECK(count(&n, NULL) == 7);
    finish(&n);
}

/* What exporters write for x.view(x.size(0), -1) and x.size(2) // 2 * 2. */
static void test_shapes(void) {
    static const int64_t first = 0, third = 2, minus[] = {-1}, one[] = {1}, axis[] = {0}, two = 2;
    const qn_onnx_attribute along = {.name = "axis", .kind = QN_ONNX_ATTRIBUTE_INT, .count = 0};
    network n = {0};
    put_tensor(&n, "first", QN_ONNX_INT64, 0, NULL, &first);
    put_tensor(&n, "third", QN_ONNX_INT64, 0, NULL, &third);
    put_tensor(&n, "minus", QN_ONNX_INT64, 1, one, minus);
    put_tensor(&n, "axis", QN_ONNX_INT64, 1, one, axis);
    put_tensor(&n, "two", QN_ONNX_INT64, 0, NULL, &two);
    put(&n, "Shape", "x", "", "", "shape", NULL);
    put(&n, "Gather", "shape", "third", "", "height", NULL);
    put(&n, "Div", "height", "two", "", "half", NULL);
    put(&n, "Mul", "half", "two", "", "even", NULL);
    put(&n, "Equal", "even", "height", "", "same", NULL);
    put(&n, "Where", "same", "height", "two", "kept", NULL);
    put(&n, "Gather", "shape", "first", "", "batch", NULL);
    put(&n, "Unsqueeze", "batch", "axis", "", "rows", NULL);
    put(&n, "Concat", "rows", "minus", "", "wanted", &along);
    const qn_value wanted = build(&n);
    const qn_onnx_constant *kept = qn_onnx_find_item(&n.builder, "kept")->constant;
    const qn_onnx_constant *shape = qn_onnx_find_item(&n.builder, "wanted")->constant;
    CHECK(kept && kept->n == 1 && kept->whole && kept->whole[0] == 6);
    CHECK(shape && shape->n == 2 && shape->whole[0] == 2 && shape->whole[1] == -1);
    CHECK(wanted.id >= 0 && count(&n, NULL) == 0 && n.graph->n_nodes == 0);
    finish(&n);
}

int main(void) {
    test_images();
    test_numbers();
    test_shapes();
    return checks_finish();
}
