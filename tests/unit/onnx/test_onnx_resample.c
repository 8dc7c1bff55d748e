/* Axes sampled anew go out as the operators of ONNX that mean it, a node for all axes of one kind,
 * and come back as what they were: equal bits with another batch than those that an export builds.
 * Extents are open where they follow from the batch, and nowhere else. */
#include "check.h"
#include "graph_run.h"
#include "os/heap.h"

#include "format/onnx/onnx_file.h"
#include "quern/onnx.h"
#include "quern/ops.h"

#include <string.h>
#include <unistd.h>

enum { BATCH = 3 };

/* ---- networks over an image (N, 5, 7, 3) ---- */

typedef qn_value maker(qn_graph *g, qn_value x);

static qn_value pads(qn_graph *g, qn_value x, qn_border border) {
    return qn_pad(g, "w", qn_pad(g, "h", x, 1, 1, 2, border, 0.5), 2, 3, -1, border, 0.5);
}

static qn_value pads_value(qn_graph *g, qn_value x) {
    return pads(g, x, QN_BORDER_VALUE);
}

static qn_value pads_edge(qn_graph *g, qn_value x) {
    return pads(g, x, QN_BORDER_EDGE);
}

static qn_value pads_reflect(qn_graph *g, qn_value x) {
    return pads(g, x, QN_BORDER_REFLECT);
}

static qn_value pads_batch(qn_graph *g, qn_value x) {
    return qn_pad(g, "n", x, 0, 1, 2, QN_BORDER_VALUE, 0);
}

static qn_value tiles(qn_graph *g, qn_value x) {
    return qn_pad(g, "w", qn_pad(g, "h", x, 1, 0, 5, QN_BORDER_WRAP, 0), 2, 0, 14, QN_BORDER_WRAP,
                  0);
}

static qn_value wraps(qn_graph *g, qn_value x) {
    return qn_pad(g, "w", x, 2, 9, 2, QN_BORDER_WRAP, 0);
}

static qn_value reflects_far(qn_graph *g, qn_value x) {
    return qn_pad(g, "h", x, 1, 6, 0, QN_BORDER_REFLECT, 0);
}

static qn_value slices(qn_graph *g, qn_value x) {
    return qn_slice_steps(g, "w", qn_slice_steps(g, "h", x, 1, 0, 2, 3), 2, 6, -3, 3);
}

static qn_value slices_batch(qn_graph *g, qn_value x) {
    return qn_slice_steps(g, "n", x, 0, 0, 2, (qn_graph_shape(g, x).dims[0] + 1) / 2);
}

static qn_value resized(qn_graph *g, qn_value x, int64_t h, int64_t w, qn_resampling rows,
                        qn_resampling columns) {
    return qn_resample(g, "w", qn_resample(g, "h", x, 1, h, &rows), 2, w, &columns);
}

static qn_value doubles(qn_graph *g, qn_value x) {
    const qn_resampling how = {QN_LINEAR, QN_BORDER_EDGE, .shift = 0.5,
                               .step = 1, .scale = 2,     .offset = -0.5};
    return resized(g, x, 10, 14, how, how);
}

static qn_value repeats(qn_graph *g, qn_value x) {
    const qn_resampling how = {QN_NEAREST_FLOOR, QN_BORDER_EDGE, .step = 1, .scale = 2};
    return resized(g, x, 10, 14, how, how);
}

static qn_value sizes(qn_graph *g, qn_value x) {
    qn_resampling rows = {.interpolation = QN_CUBIC,
                          .border = QN_BORDER_EDGE,
                          .shift = 0.5,
                          .step = 1,
                          .scale = 9.0 / 5,
                          .offset = -0.5,
                          .cubic = -0.75,
                          .leaves_outs = true};
    qn_resampling columns = rows;
    columns.scale = 11.0 / 7;
    return resized(g, x, 9, 11, rows, columns);
}

static qn_value corners(qn_graph *g, qn_value x) {
    return resized(g, x, 9, 4, (qn_resampling){QN_LINEAR, QN_BORDER_EDGE, .step = 4, .scale = 8},
                   (qn_resampling){QN_LINEAR, QN_BORDER_EDGE, .step = 6, .scale = 3});
}

static qn_value crops(qn_graph *g, qn_value x) {
    const qn_resampling how = {QN_LINEAR, QN_BORDER_VALUE, .value = 2,
                               .step = 3, .scale = 7,      .offset = -1};
    return qn_resample(g, "h", x, 1, 8, &how);
}

/* A token in front of a sequence, as a transformer has it. */
static qn_value token(qn_graph *g, qn_value x) {
    const int64_t n = qn_graph_shape(g, x).dims[0];
    const qn_value first =
        qn_parameter(g, "token", QN_SHAPE(1, 1, 3), (qn_initial){QN_INITIAL_NORMAL, 1}, true);
    const qn_value parts[] = {qn_expand(g, "all", first, QN_SHAPE(n, 1, 3)),
                              qn_reshape(g, "sequence", x, QN_SHAPE(n, 35, 3))};
    return qn_concat(g, "both", parts, 2, 1);
}

/* Every sample twice: the batch is in an extent. */
static qn_value twice(qn_graph *g, qn_value x) {
    const int64_t n = qn_graph_shape(g, x).dims[0];
    x = qn_expand(g, "pair", qn_reshape(g, "one", x, QN_SHAPE(n, 1, 105)), QN_SHAPE(n, 2, 105));
    return qn_reshape(g, "rows", x, QN_SHAPE(2 * n, 105));
}

/* Seven rows, whatever the batch is. */
static qn_value seven(qn_graph *g, qn_value x) {
    const int64_t n = qn_graph_shape(g, x).dims[0];
    x = qn_reduce(g, "mean", qn_reshape(g, "flat", x, QN_SHAPE(n, 105)), 0, QN_MEAN);
    return qn_reshape(g, "seven", x, QN_SHAPE(7, 15));
}

static const struct {
    const char *name;
    maker *make;
    const char *type, *rows; /* the node's in the file; the first extent's symbol, null: 7 */
    int n;                   /* nodes of the type */
} cases[] = {
    {"pads with a value", pads_value, "Pad", "N", 1},
    {"pads with the edge", pads_edge, "Pad", "N", 1},
    {"pads reflected", pads_reflect, "Pad", "N", 1},
    {"a padded batch", pads_batch, "Pad", "", 1},
    {"tiles", tiles, "Tile", "N", 1},
    {"wrapped", wraps, "Gather", "N", 1},
    {"reflected far", reflects_far, "Gather", "N", 1},
    {"slices with steps", slices, "Slice", "N", 1},
    {"every other sample", slices_batch, "Slice", "", 1},
    {"twice as large", doubles, "Resize", "N", 1},
    {"each twice", repeats, "Resize", "N", 1},
    {"other sizes", sizes, "Resize", "N", 1},
    {"corners kept", corners, "Resize", "N", 1},
    {"a region", crops, "Resize", "N", 1},
    {"a token", token, "Expand", "N", 1},
    {"samples twice", twice, "Expand", "N*2", 1},
    {"seven rows", seven, "Reshape", NULL, 1},
};

/* A pool of one place keeps the image one for the reader. */
static qn_value build(qn_graph *g, void *user, qn_value x, int n_outputs) {
    const qn_window one = {.kernel_h = 1, .kernel_w = 1};
    (void)n_outputs;
    const qn_value y = ((maker *const *)user)[0](g, qn_max_pool(g, "pool", x, one));
    const qn_shape shape = qn_graph_shape(g, y);
    return qn_reshape(g, "outputs", y, QN_SHAPE(shape.dims[0], -1));
}

/* ---- there and back ---- */

static void check_file(int c, const char *path) {
    qn_onnx_file *file = NULL;
    CHECK_OK(qn_onnx_file_open(qn_allocator_or_default(NULL), path, false, &file));
    if (!file)
        return;
    const qn_onnx_model *m = qn_onnx_file_model(file);
    int n = 0;
    for (int i = 0; i < m->n_nodes; i++)
        n += strcmp(m->nodes[i].type, cases[c].type) == 0;
    CHECK(n == cases[c].n);
    CHECK(m->inputs[0].dims[0] == -1 && strcmp(m->inputs[0].symbols[0], "N") == 0);
    CHECK(m->inputs[0].dims[1] == 3 && m->inputs[0].dims[2] == 5 && m->inputs[0].dims[3] == 7);
    CHECK(m->outputs[0].dims[0] == (cases[c].rows ? -1 : 7));
    CHECK(!cases[c].rows || strcmp(m->outputs[0].symbols[0], cases[c].rows) == 0);
    qn_onnx_file_close(file);
}

static void copy_parameters(const graph_run *from, const graph_run *to) {
    for (int v = 0; v < to->graph->n_values; v++) {
        const qn_value_info *info = to->graph->values[v];
        const qn_value same = qn_graph_find(from->graph, info->name);
        for (int64_t i = 0;
             info->kind == QN_KIND_PARAMETER && i < qn_shape_count(info->tensor.shape); i++)
            run_set(to, (qn_value){v}, i, run_get(from, same, i));
    }
}

/* The outputs' values are the same, to the bit. */
static void check_same(qn_graph *a, qn_value x, qn_graph *b, qn_value y) {
    const int64_t n = qn_shape_count(qn_graph_shape(a, x));
    graph_run run_a = run_create(a), run_b = run_create(b);
    int64_t n_differing = 0;
    run_fill(&run_a);
    run_fill(&run_b);
    run_fill_given(&run_b);
    copy_parameters(&run_b, &run_a);
    run_all(&run_a, qn_kernels_get(QN_F32, QN_ISA_REF), NULL);
    run_all(&run_b, qn_kernels_get(QN_F32, QN_ISA_REF), NULL);
    CHECK(qn_shape_equal(qn_graph_shape(a, x), qn_graph_shape(b, y)));
    for (int64_t i = 0; i < n; i++)
        n_differing += run_get(&run_a, x, i) != run_get(&run_b, y, i);
    CHECK(n_differing == 0);
    run_destroy(&run_a);
    run_destroy(&run_b);
}

static void check_network(const qn_model *model, qn_onnx_network *network) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .training = false};
    qn_graph *ours = NULL, *theirs = NULL;
    CHECK_OK(qn_graph_create(&options, &ours));
    CHECK_OK(qn_graph_create(&options, &theirs));
    const qn_value x = qn_input(ours, "x", QN_SHAPE(BATCH, 5, 7, 3));
    const qn_value y = model->build(ours, model->user, x, 0);
    const qn_value given = qn_input(theirs, "x", QN_SHAPE(BATCH, 5, 7, 3));
    qn_value made;
    CHECK_OK(qn_graph_finish(ours));
    CHECK_OK(qn_onnx_build(network, theirs, &given, &made));
    if (qn_graph_finish(theirs) == QN_OK)
        check_same(ours, y, theirs, made);
    qn_graph_destroy(ours);
    qn_graph_destroy(theirs);
}

static void check_case(int c) {
    char path[] = "/tmp/quern-test-resample-XXXXXX";
    maker *const make = cases[c].make;
    const qn_model model = {.name = cases[c].name,
                            .input = QN_SHAPE(5, 7, 3),
                            .n_classes = 1,
                            .user = (void *)(uintptr_t)&make,
                            .build = build};
    const int before = checks_failed, descriptor = mkstemp(path);
    qn_onnx_network *network = NULL;
    CHECK(descriptor >= 0 && close(descriptor) == 0);
    CHECK_OK(qn_onnx_export(
        &(qn_onnx_export_options){QN_OPTIONS_INIT(qn_onnx_export_options), .model = &model}, path));
    check_file(c, path);
    CHECK_OK(qn_onnx_open(&(qn_onnx_options){QN_OPTIONS_INIT(qn_onnx_options)}, path, &network));
    if (network)
        check_network(&model, network);
    qn_onnx_close(network);
    unlink(path);
    if (checks_failed > before)
        printf("%s\n", cases[c].name);
}

int main(void) {
    for (int c = 0; c < (int)(sizeof cases / sizeof *cases); c++)
        check_case(c);
    return checks_finish();
}
