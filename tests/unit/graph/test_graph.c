/* Building graphs: names and scopes, the first failure kept, messages, updates, check and print,
 * and every allocation failing in turn. */
#include "check.h"

#include "graph/graph.h"
#include "ops/ops.h"
#include "passes/passes.h"

#include <stdlib.h>

static qn_graph *create(void) {
    qn_graph *graph = NULL;
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = true}, &graph));
    return graph;
}

static const char *name_of(const qn_graph *graph, qn_value value) {
    const qn_value_info *info = qn_graph_value(graph, value);
    return info ? info->name : "(none)";
}

static void test_names(void) {
    qn_graph *g = create();
    qn_value x = qn_input(g, "x", QN_SHAPE(2, 3));
    qn_graph_enter(g, "stage%d.%d", 1, 0);
    qn_value a = qn_relu(g, NULL, x), b = qn_relu(g, NULL, a);
    qn_graph_enter(g, "inner");
    qn_value c = qn_tanh(g, "out", b);
    qn_graph_leave(g);
    qn_value d = qn_linear_layer(g, "fc", c, 5);
    qn_graph_leave(g);
    CHECK(strcmp(name_of(g, a), "stage1.0.relu1") == 0);
    CHECK(strcmp(name_of(g, b), "stage1.0.relu2") == 0);
    CHECK(strcmp(name_of(g, c), "stage1.0.inner.out") == 0);
    CHECK(strcmp(name_of(g, d), "stage1.0.fc") == 0);
    CHECK(qn_graph_find(g, "stage1.0.fc.weight").id >= 0);
    CHECK(qn_graph_find(g, "fc.weight").id == -1);
    CHECK(qn_graph_find(g, "stage1.0.relu2").id == b.id);
    CHECK_OK(qn_graph_finish(g));
    CHECK_OK(qn_graph_check(g));
    qn_graph_destroy(g);
    qn_graph_destroy(NULL);
}

static void test_many_names(void) {
    qn_graph *g = create();
    qn_value x = qn_input(g, "x", QN_SHAPE(1));
    char name[32];
    for (int i = 0; i < 5000; i++)
        x = qn_relu(g, NULL, x);
    CHECK_OK(qn_graph_finish(g));
    for (int i = 1; i <= 5000; i++) {
        snprintf(name, sizeof name, "relu%d", i);
        CHECK(qn_graph_find(g, name).id == i);
    }
    qn_graph_destroy(g);
}

static void test_unique(void) {
    qn_graph *g = create();
    static const char *const taken[] = {"a", "a1", "a2", "a3", "b"};
    for (int i = 0; i < 5; i++)
        qn_input(g, taken[i], QN_SHAPE(1));
    CHECK(strcmp(qn_graph_unique(g, "a", false), "a4") == 0);
    CHECK(strcmp(qn_graph_unique(g, "b", false), "b1") == 0);
    CHECK(strcmp(qn_graph_unique(g, "c", false), "c") == 0);
    CHECK(strcmp(qn_graph_unique(g, "c", true), "c1") == 0);
    qn_graph_destroy(g);
}

/* Builds something wrong; its message must contain text. */
static void check_wrong(void (*build)(qn_graph *graph, qn_value image, qn_value row),
                        const char *text) {
    qn_graph *g = create();
    qn_value image = qn_input(g, "image", QN_SHAPE(2, 28, 28, 3));
    qn_value row = qn_input(g, "row", QN_SHAPE(2, 7));
    build(g, image, row);
    CHECK_FAILS(qn_graph_finish(g), QN_ERROR_ARGUMENT, text);
    qn_graph_destroy(g);
}

static void wrong_filter(qn_graph *g, qn_value image, qn_value row) {
    (void)row;
    qn_value filter = qn_input(g, "filter", QN_SHAPE(16, 5, 5, 6));
    qn_conv2d(g, "conv", image, filter, QN_NO_VALUE, qn_window_square(5, 1, 0), 1);
}

static void wrong_window(qn_graph *g, qn_value image, qn_value row) {
    (void)row;
    qn_max_pool(g, "pool", image, qn_window_square(29, 1, 0));
}

static void wrong_pad(qn_graph *g, qn_value image, qn_value row) {
    (void)row;
    qn_average_pool(g, "pool", image, qn_window_square(2, 1, 2));
}

static void wrong_name(qn_graph *g, qn_value image, qn_value row) {
    (void)row;
    qn_relu(g, "image", image);
}

static void wrong_type(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    (void)row;
    qn_tanh(g, "relu", qn_label(g, "labels", QN_I32, QN_SHAPE(4)));
}

static void wrong_count(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    qn_reshape(g, "reshape", row, QN_SHAPE(3, -1));
}

static void wrong_missing(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    qn_add(g, "sum", row, QN_NO_VALUE);
}

static void wrong_scope(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    (void)row;
    qn_graph_enter(g, "stage1");
}

static void wrong_leave(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    (void)row;
    qn_graph_leave(g);
}

static void wrong_size(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    (void)row;
    const int64_t large = INT64_C(1) << 31;
    qn_input(g, "large", QN_SHAPE(large, large));
}

static void wrong_update(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    qn_op_accumulate(g, "sum", qn_relu(g, "relu", row), row);
}

static void wrong_second_update(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    qn_value x = qn_relu(g, "relu", row);
    qn_op_accumulate(g, "sum", row, x);
    qn_op_accumulate(g, "sum2", row, x);
}

static void wrong_dropout(qn_graph *g, qn_value image, qn_value row) {
    (void)image;
    qn_dropout(g, "dropout", row, 1);
}

static void test_messages(void) {
    check_wrong(wrong_filter, "conv (conv2d): filter 16x5x5x6 does not fit input 2x28x28x3: 3 "
                              "channels / 1 groups, filter has 6");
    check_wrong(wrong_window, "29x29 window with pads 0, 0, 0, 0 does not fit input 2x28x28x3");
    check_wrong(wrong_pad, "lies in its padding");
    check_wrong(wrong_name, "the name image is taken");
    check_wrong(wrong_type, "labels, is i32 where f32 or f64 is needed");
    check_wrong(wrong_count, "2x7 cannot become 3x-1");
    check_wrong(wrong_missing, "sum (add): input 1 is left out");
    check_wrong(wrong_scope, "scope \"stage1.\" was entered but not left");
    check_wrong(wrong_leave, "left that was not entered");
    check_wrong(wrong_size, "2147483648x2147483648");
    check_wrong(wrong_update, "relu is computed, so it cannot be updated");
    check_wrong(wrong_second_update, "row is updated twice");
    check_wrong(wrong_dropout, "rate 1 is not in [0, 1)");
}

/* The first failure is kept; what follows does nothing. */
static void test_sticky(void) {
    qn_graph *g = create();
    qn_value x = qn_input(g, "x", QN_SHAPE(2, 3));
    qn_value bad = qn_bias(g, "first", x, x);
    qn_value next = qn_relu(g, "second", bad);
    qn_bias(g, "third", next, x);
    qn_graph_enter(g, "scope");
    qn_linear_layer(g, "fc", next, 3);
    CHECK(bad.id == -1 && next.id == -1);
    CHECK(g->n_nodes == 0);
    CHECK_FAILS(qn_graph_finish(g), QN_ERROR_ARGUMENT, "first (bias)");
    qn_graph_destroy(g);
}

static void test_updates(void) {
    qn_graph *g = create();
    qn_value x = qn_input(g, "x", QN_SHAPE(8, 3));
    qn_batch_norm_layer(g, "norm", x, 1e-5);
    qn_value mean = qn_graph_find(g, "norm.running");
    const qn_value_info *info = qn_graph_value(g, mean);
    CHECK(info && info->overwrites == qn_graph_find(g, "norm.running_mean").id);
    CHECK(info && info->kind == QN_KIND_PARAMETER);
    CHECK(qn_graph_find(g, "norm.inv_std").id >= 0);
    CHECK_OK(qn_graph_check(g));
    qn_graph_destroy(g);
}

/* A linear layer over the last axis: whatever axes are before it come back. */
static void test_linear_last(void) {
    qn_graph *g = create();
    const qn_shape shapes[] = {QN_SHAPE(7), QN_SHAPE(2, 7), QN_SHAPE(2, 3, 7),
                               QN_SHAPE(2, 3, 5, 7)};
    for (int i = 0; i < 4; i++) {
        qn_shape wanted = shapes[i];
        wanted.dims[wanted.rank - 1] = 4;
        qn_graph_enter(g, "%d", i);
        qn_value y = qn_linear_last_layer(g, "fc", qn_input(g, "x", shapes[i]), 4);
        qn_graph_leave(g);
        CHECK(qn_shape_equal(qn_graph_shape(g, y), wanted));
    }
    CHECK(qn_shape_equal(qn_graph_shape(g, qn_graph_find(g, "2.fc.weight")), QN_SHAPE(4, 7)));
    CHECK_OK(qn_graph_finish(g));
    qn_linear_last_layer(g, "fc", qn_input(g, "scalar", (qn_shape){0}), 4);
    CHECK_FAILS(qn_graph_finish(g), QN_ERROR_ARGUMENT, "fc (linear): a scalar has no last axis");
    qn_graph_destroy(g);
}

static int64_t parameter_count(const qn_graph *g, const char *name) {
    return qn_shape_count(qn_graph_shape(g, qn_graph_find(g, name)));
}

/* Embedding and LSTM as layers: PyTorch's parameters, two biases, and all of them trained. */
static void test_sequence_layers(void) {
    const qn_value *parameters, *gradients;
    int n;
    qn_graph *g = create();
    qn_value tokens = qn_index_input(g, "tokens", QN_SHAPE(2, 3));
    qn_value x = qn_embedding_layer(g, "embedding", tokens, 11, 5, 1);
    qn_lstm_result r = qn_lstm_layer(g, "lstm1", x, 7, QN_NO_VALUE, QN_NO_VALUE, QN_NO_VALUE);
    r = qn_lstm_layer(g, "lstm2", r.y, 7, r.h, r.c, QN_NO_VALUE);
    qn_value y = qn_linear_last_layer(g, "output", r.y, 11);
    CHECK(qn_shape_equal(qn_graph_shape(g, y), QN_SHAPE(2, 3, 11)));
    CHECK(qn_shape_equal(qn_graph_shape(g, r.c), QN_SHAPE(2, 7)));
    CHECK(parameter_count(g, "embedding.weight") == 11 * 5);
    CHECK(parameter_count(g, "lstm1.weight_x") == 4 * 7 * 5);
    CHECK(parameter_count(g, "lstm2.weight_h") == 4 * 7 * 7);
    CHECK(parameter_count(g, "lstm2.bias_x") == 4 * 7 && parameter_count(g, "lstm2.bias_h") == 28);
    CHECK_OK(qn_autodiff(g, qn_mean(g, "loss", y), NULL, &parameters, &gradients, &n));
    CHECK(n == 11);
    for (int i = 0; i < n; i++)
        CHECK(gradients[i].id >= 0);
    CHECK_OK(qn_graph_check(g));
    qn_lstm_layer(g, "lstm3", tokens, 7, QN_NO_VALUE, QN_NO_VALUE, QN_NO_VALUE);
    CHECK_FAILS(qn_graph_finish(g), QN_ERROR_ARGUMENT,
                "lstm3 (lstm): x is 2x3, but (N, T, C) is needed");
    qn_graph_destroy(g);
}

static void test_inference(void) {
    qn_graph *g;
    CHECK_OK(qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .real = QN_F64},
                             &g));
    qn_value x = qn_input(g, "x", QN_SHAPE(8, 3));
    CHECK(qn_dropout(g, "dropout", x, 0.5).id == x.id);
    CHECK(qn_flatten(g, "flatten", x).id == x.id);
    qn_batch_norm_layer(g, "norm", x, 1e-5);
    CHECK(g->n_nodes == 1 && strcmp(g->nodes[0]->op->name, "batch_norm_inference") == 0);
    CHECK(qn_graph_tensor(g, x).dtype == QN_F64);
    qn_graph_destroy(g);
    CHECK_FAILS(
        qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .real = QN_I32}, &g),
        QN_ERROR_ARGUMENT, "i32");
}

static void test_print(void) {
    qn_graph *g = create();
    qn_value x = qn_input(g, "x", QN_SHAPE(2, 8, 8, 3));
    qn_conv2d_layer(g, "conv", x, 4, qn_window_square(3, 2, 1), 1, false);
    const char *text = qn_graph_print(g);
    CHECK(text && strstr(text, "x: f32 2x8x8x3 input\n"));
    CHECK(text && strstr(text, "conv.weight: f32 4x3x3x3 parameter trainable\n"));
    CHECK(text && strstr(text, "conv: f32 2x4x4x4 = conv2d(x, conv.weight, -) kernel=3x3 "
                               "stride=2x2 pad=1,1,1,1 dilation=0x0 groups=1 activation=none"));
    qn_graph_destroy(g);
}

/* An allocator that fails at the n-th call. */
typedef struct failing {
    int calls, fail_at, held;
} failing;

static void *failing_allocate(void *user, size_t bytes, size_t align) {
    failing *f = user;
    if (++f->calls == f->fail_at)
        return NULL;
    f->held++;
    return aligned_alloc(align, (bytes + align - 1) / align * align);
}

static void failing_release(void *user, void *memory, size_t bytes) {
    (void)bytes;
    ((failing *)user)->held--;
    free(memory);
}

static qn_status build_all(const qn_allocator *allocator) {
    qn_graph *g;
    qn_status status =
        qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options),
                                            .allocator = allocator, .training = true},
                        &g);
    if (status != QN_OK)
        return status;
    qn_value x = qn_input(g, "x", QN_SHAPE(2, 8, 8, 3)), y = x;
    for (int i = 0; i < 40; i++) {
        qn_graph_enter(g, "block%d", i);
        y = qn_conv2d_layer(g, "conv", y, 3, qn_window_square(3, 1, 1), 1, true);
        y = qn_relu(g, "relu", qn_batch_norm_layer(g, "norm", y, 1e-5));
        qn_graph_leave(g);
    }
    qn_value loss = qn_mean(g, "loss", qn_linear_layer(g, "fc", y, 5));
    const qn_value *parameters, *gradients;
    int n = 0;
    status = qn_graph_finish(g);
    if (status == QN_OK)
        status = qn_autodiff(g, loss, NULL, &parameters, &gradients, &n);
    if (status == QN_OK && !qn_graph_print(g))
        status = QN_ERROR_MEMORY;
    qn_graph_destroy(g);
    return status;
}

static void test_failing_allocations(void) {
    qn_status status = QN_ERROR_MEMORY;
    int n = 0;
    while (status == QN_ERROR_MEMORY && n < 10000) {
        failing f = {.fail_at = ++n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = build_all(&allocator);
        CHECK(f.held == 0);
        CHECK(status == (f.calls < n ? QN_OK : QN_ERROR_MEMORY));
    }
    CHECK(status == QN_OK && n > 10);
}

int main(void) {
    test_names();
    test_many_names();
    test_unique();
    test_messages();
    test_sticky();
    test_updates();
    test_linear_last();
    test_sequence_layers();
    test_inference();
    test_print();
    test_failing_allocations();
    return checks_finish();
}
