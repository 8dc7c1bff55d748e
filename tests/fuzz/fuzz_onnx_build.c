/* Translation of ONNX files: whatever a model says, its nodes make a graph that keeps the graph's
 * invariants, or are refused. Nothing is run; extents that the file leaves open are 2. For the
 * batch of the file, for another one, and with memory that runs out. */
#include "fuzz/input.h"
#include "onnx/import.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An input of rank 4 is an image, whose channels are last in a graph. */
static void give_input(qn_onnx_builder *b, const qn_onnx_value *input, int64_t batch) {
    qn_onnx_item *item = qn_onnx_find_item(b, input->name);
    qn_shape shape = {.rank = input->n_dims < 0 ? 2 : input->n_dims};
    if (shape.rank > QN_MAX_RANK)
        shape.rank = QN_MAX_RANK;
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = input->n_dims < 0 || input->dims[i] < 0 ? 2 : input->dims[i];
    if (batch > 0 && shape.rank > 0)
        shape.dims[0] = batch;
    const bool is_image = shape.rank == 4 && qn_onnx_type_is_real(input->type);
    const qn_shape as_is = shape;
    if (is_image)
        shape = QN_SHAPE(as_is.dims[0], as_is.dims[2], as_is.dims[3], as_is.dims[1]);
    const char *name = qn_graph_unique(b->graph, "input", true);
    if (!name)
        return;
    item->value = qn_onnx_type_is_real(input->type) ? qn_input(b->graph, name, shape)
                                                    : qn_index_input(b->graph, name, shape);
    item->is_image = is_image;
    if (b->batch < 0 && shape.rank > 0) {
        b->file_batch = input->n_dims > 0 ? input->dims[0] : -1;
        b->batch = shape.dims[0];
    }
}

/* What was given for the outputs is asked for, as networks do. */
static void build(qn_onnx_builder *b, int64_t batch) {
    const qn_onnx_model *m = b->model;
    for (int i = 0; i < m->n_inputs; i++)
        give_input(b, &m->inputs[i], batch);
    if (b->graph->status != QN_OK || qn_onnx_builder_run(b) != QN_OK)
        return;
    for (int i = 0; i < m->n_outputs; i++) {
        qn_onnx_item *item = qn_onnx_find_item(b, m->outputs[i].name);
        if (item && (item->value.id >= 0 || item->constant || item->initializer))
            qn_onnx_item_value(b, item);
    }
    if (qn_graph_finish(b->graph) == QN_OK && qn_graph_check(b->graph) != QN_OK)
        abort();
}

/* Translates for a batch; 0: the file's own. */
static void translate(const qn_allocator *allocator, const qn_onnx_model *model, bool training,
                      int64_t batch) {
    qn_onnx_builder builder;
    qn_graph *graph;
    qn_arena kept;
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .allocator = allocator,
                                      .training = training};
    if (qn_graph_create(&options, &graph) != QN_OK)
        return;
    qn_arena_init(&kept, allocator);
    if (qn_onnx_recognise(model, &kept, &model) == QN_OK &&
        qn_onnx_builder_init(&builder, model, NULL, graph, &kept) == QN_OK) {
        build(&builder, batch);
        qn_onnx_builder_deinit(&builder);
    }
    qn_graph_destroy(graph);
    qn_arena_deinit(&kept);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    qn_onnx_file *file;
    if (qn_onnx_file_open_bytes(NULL, data, size, NULL, "FILE", &file) != QN_OK)
        return 0;
    translate(qn_allocator_or_default(NULL), qn_onnx_file_model(file), size % 2, 0);
    translate(qn_allocator_or_default(NULL), qn_onnx_file_model(file), size % 2, 3);
    translate(&allocator, qn_onnx_file_model(file), size % 2, 0);
    input_check_memory(&f);
    qn_onnx_file_close(file);
    return 0;
}
