/* Numbers with a scale go out as QuantizeLinear and DequantizeLinear: their inputs, the zero
 * point's type and shape, and the axis in ONNX's order of an image; narrow types as casts. What
 * opset 17 cannot say is refused with the reason. */
#include "check.h"

#include "format/onnx/onnx_file.h"
#include "ops/ops.h"
#include "os/heap.h"
#include "quern/onnx.h"
#include "quern/ops.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

typedef struct network {
    qn_dtype dtype;
    qn_quantise how;
    bool is_exponent, is_cast;
} network;

/* The image there and back. */
static qn_value there_and_back(qn_graph *g, const network *n, qn_value x) {
    qn_value scale = qn_op_scalar(g, "scale", 0.25);
    if (n->is_cast)
        return qn_op_cast(g, "back", qn_op_cast(g, "narrow", x, n->dtype), QN_F32);
    if (n->how.axis >= 0)
        scale = qn_parameter(g, "scales", QN_SHAPE(3), (qn_initial){QN_INITIAL_ONE, 0}, true);
    if (n->is_exponent)
        scale = qn_op_cast(g, "exponent", scale, QN_I32);
    const qn_value q = qn_op_quantise(g, "q", x, scale, QN_NO_VALUE, n->dtype, &n->how);
    return qn_op_dequantise(g, "back", q, scale, QN_NO_VALUE, n->how.axis);
}

static qn_value build(qn_graph *g, void *user, qn_value x, int n_outputs) {
    const qn_window one = {.kernel_h = 1, .kernel_w = 1};
    const qn_value y = there_and_back(g, user, qn_max_pool(g, "pool", x, one));
    (void)n_outputs;
    return qn_reshape(g, "outputs", qn_max_pool(g, "last", y, one),
                      QN_SHAPE(qn_graph_shape(g, x).dims[0], -1));
}

static const qn_onnx_node *find_node(const qn_onnx_model *m, const char *type) {
    for (int i = 0; i < m->n_nodes; i++) {
        if (strcmp(m->nodes[i].type, type) == 0)
            return &m->nodes[i];
    }
    return NULL;
}

static int64_t attribute_of(const qn_onnx_node *node, const char *name, int64_t none) {
    for (int i = 0; i < node->n_attributes; i++) {
        if (strcmp(node->attributes[i].name, name) == 0)
            return node->attributes[i].count;
    }
    return none;
}

static const qn_onnx_tensor *find_tensor(const qn_onnx_model *m, const char *name) {
    for (int i = 0; i < m->n_initializers; i++) {
        if (strcmp(m->initializers[i].name, name) == 0)
            return &m->initializers[i];
    }
    return NULL;
}

static void check_linear(const qn_onnx_model *m, const char *type, const network *n) {
    const qn_onnx_node *node = find_node(m, type);
    CHECK(node && node->n_inputs == 3);
    if (!node || node->n_inputs != 3)
        return;
    const qn_onnx_tensor *zero = find_tensor(m, node->inputs[2]);
    const bool is_along = n->how.axis >= 0;
    CHECK(zero && zero->type == (n->dtype == QN_I8 ? QN_ONNX_INT8 : QN_ONNX_UINT8));
    CHECK(zero && zero->n_dims == is_along && (!is_along || zero->dims[0] == 3));
    CHECK(attribute_of(node, "axis", -1) == (is_along ? 1 : -1)); /* channels second */
}

static qn_status export_to(const network *n, const char *path) {
    const qn_model model = {.name = "quantised",
                            .input = QN_SHAPE(5, 7, 3),
                            .n_classes = 1,
                            .user = (void *)(uintptr_t)n,
                            .build = build};
    return qn_onnx_export(
        &(qn_onnx_export_options){QN_OPTIONS_INIT(qn_onnx_export_options), .model = &model}, path);
}

static void check_good(const network *n, const char *path, int64_t type) {
    qn_onnx_file *file = NULL;
    CHECK_OK(export_to(n, path));
    CHECK_OK(qn_onnx_file_open(qn_allocator_or_default(NULL), path, false, &file));
    if (!file)
        return;
    const qn_onnx_model *m = qn_onnx_file_model(file);
    if (n->is_cast) {
        const qn_onnx_node *cast = find_node(m, "Cast");
        CHECK(cast && attribute_of(cast, "to", 0) == type);
    } else {
        check_linear(m, "QuantizeLinear", n);
        check_linear(m, "DequantizeLinear", n);
    }
    qn_onnx_file_close(file);
}

int main(void) {
    char path[] = "/tmp/quern-test-quantise-XXXXXX";
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0 && close(descriptor) == 0);
    check_good(&(network){.dtype = QN_I8, .how = {.axis = -1}}, path, 0);
    check_good(&(network){.dtype = QN_U8, .how = {.axis = -1}}, path, 0);
    check_good(&(network){.dtype = QN_I8, .how = {.axis = 3}}, path, 0);
    check_good(&(network){.dtype = QN_BF16, .is_cast = true}, path, QN_ONNX_BFLOAT16);
    check_good(&(network){.dtype = QN_F16, .is_cast = true}, path, QN_ONNX_FLOAT16);
    check_good(&(network){.dtype = QN_I8, .is_cast = true}, path, QN_ONNX_INT8);
    CHECK_FAILS(export_to(&(network){.dtype = QN_I16, .how = {.axis = -1}}, path),
                QN_ERROR_UNSUPPORTED, "other than i8 and u8");
    CHECK_FAILS(export_to(&(network){.dtype = QN_I8, .how = {-1, QN_ROUND_AWAY, false}}, path),
                QN_ERROR_UNSUPPORTED, "a rounding other than to even");
    CHECK_FAILS(
        export_to(&(network){.dtype = QN_I8, .how = {.axis = -1}, .is_exponent = true}, path),
        QN_ERROR_UNSUPPORTED, "an exponent");
    CHECK_FAILS(export_to(&(network){.dtype = QN_F8E4M3, .is_cast = true}, path),
                QN_ERROR_UNSUPPORTED, "8 bits with fractions");
    unlink(path);
    return checks_finish();
}
