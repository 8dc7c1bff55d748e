/* Translation of ONNX files: whatever a model says, its nodes make a graph that keeps the graph's
 * invariants, or are refused. Nothing is run; extents that the file leaves open are 2. */
#include "onnx/import.h"

#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void give_input(qn_onnx_builder *b, const qn_onnx_value *input) {
    qn_onnx_item *item = qn_onnx_find_item(b, input->name);
    qn_shape shape = {.rank = input->n_dims < 0 ? 2 : input->n_dims};
    if (shape.rank > QN_MAX_RANK)
        shape.rank = QN_MAX_RANK;
    for (int i = 0; i < shape.rank; i++)
        shape.dims[i] = input->n_dims < 0 || input->dims[i] < 0 ? 2 : input->dims[i];
    const char *name = qn_graph_unique(b->graph, "input", true);
    if (!name)
        return;
    item->value = qn_onnx_type_is_real(input->type) ? qn_input(b->graph, name, shape)
                                                    : qn_index_input(b->graph, name, shape);
    item->is_image = shape.rank == 4 && qn_onnx_type_is_real(input->type);
    if (b->batch < 0 && shape.rank > 0) {
        b->file_batch = input->n_dims > 0 ? input->dims[0] : -1;
        b->batch = shape.dims[0];
    }
}

/* What was given for the outputs is asked for, as networks do. */
static void build(qn_onnx_builder *b) {
    const qn_onnx_model *m = b->model;
    for (int i = 0; i < m->n_inputs; i++)
        give_input(b, &m->inputs[i]);
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

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    const qn_allocator *allocator = qn_allocator_or_default(NULL);
    qn_onnx_builder builder;
    qn_onnx_file *file;
    qn_graph *graph;
    qn_arena kept;
    if (qn_onnx_file_open_bytes(allocator, data, size, NULL, "FILE", &file) != QN_OK)
        return 0;
    if (qn_graph_create(&(qn_graph_options){.training = size % 2}, &graph) == QN_OK) {
        qn_arena_init(&kept, allocator);
        const qn_onnx_model *model = qn_onnx_file_model(file);
        if (qn_onnx_recognise(model, &kept, &model) == QN_OK &&
            qn_onnx_builder_init(&builder, model, graph, &kept) == QN_OK) {
            build(&builder);
            qn_onnx_builder_deinit(&builder);
        }
        qn_graph_destroy(graph);
        qn_arena_deinit(&kept);
    }
    qn_onnx_file_close(file);
    return 0;
}
