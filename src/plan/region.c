/* See region.h; and what a node finds in its place already (plan.h). */
#include "plan/region.h"

qn_region qn_region_of(const qn_plan *plan, const qn_graph *graph, int32_t value) {
    const qn_placement *placement = &plan->placements[value];
    const qn_tensor tensor = graph->values[value]->tensor;
    const size_t size = qn_dtype_bytes(tensor.dtype);
    const int rank = tensor.shape.rank;
    const size_t columns = rank > 0 ? (size_t)tensor.shape.dims[rank - 1] : 1;
    return (qn_region){.storage = placement->storage,
                       .offset = placement->offset,
                       .rows = (size_t)qn_shape_count(tensor.shape) / columns,
                       .row = columns * size,
                       .step = (size_t)qn_placement_step(placement, tensor.shape) * size};
}

qn_region qn_region_of_columns(const qn_plan *plan, const qn_graph *graph,
                               const qn_columns *columns) {
    const qn_tensor inner = graph->values[columns->inner]->tensor;
    const size_t size = qn_dtype_bytes(inner.dtype);
    qn_region a = qn_region_of(plan, graph, columns->outer);
    a.offset += (size_t)columns->column * size;
    a.row = (size_t)inner.shape.dims[inner.shape.rank - 1] * size;
    return a;
}

size_t qn_region_end(const qn_region *region) {
    return region->offset + (region->rows - 1) * region->step + region->row;
}

bool qn_regions_overlap(const qn_region *a, const qn_region *b) {
    if (a->storage != b->storage || qn_region_end(a) <= b->offset || qn_region_end(b) <= a->offset)
        return false;
    const size_t at = a->offset % a->step, other = b->offset % a->step;
    if (a->step != b->step || at + a->row > a->step || other + b->row > b->step)
        return true;
    return at < other + b->row && other < at + a->row;
}

bool qn_regions_are_equal(const qn_region *a, const qn_region *b) {
    return a->storage == b->storage && a->offset == b->offset && a->row == b->row &&
           a->rows == b->rows && (a->step == b->step || a->rows == 1);
}

bool qn_plan_is_placed(const qn_plan *plan, const qn_graph *graph, const qn_node *node, int input) {
    const qn_columns columns = qn_plan_columns(graph, node, input);
    if (node->inputs[input].id < 0)
        return false;
    if (columns.inner >= 0) {
        const qn_region place = qn_region_of_columns(plan, graph, &columns);
        const qn_region is = qn_region_of(plan, graph, columns.inner);
        return qn_regions_are_equal(&place, &is);
    }
    const qn_region is = qn_region_of(plan, graph, node->inputs[input].id);
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_region to = qn_region_of(plan, graph, node->outputs[i].id);
        if (qn_regions_are_equal(&is, &to))
            return true;
    }
    return false;
}
