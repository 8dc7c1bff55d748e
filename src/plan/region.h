/* The bytes of a storage that a value covers, as rows. */
#ifndef QN_PLAN_REGION_H
#define QN_PLAN_REGION_H

#include "plan/plan.h"

/* `rows` rows of `row` bytes, `step` apart, from `offset` in the storage on. */
typedef struct qn_region {
    int32_t storage;
    size_t offset, rows, row, step;
} qn_region;

qn_region qn_region_of(const qn_plan *plan, const qn_graph *graph, int32_t value);

/* The columns of outer that inner is, wherever inner itself lies. */
qn_region qn_region_of_columns(const qn_plan *plan, const qn_graph *graph,
                               const qn_columns *columns);

/* Where its last row ends. */
size_t qn_region_end(const qn_region *region);

/* Never false where a byte is shared; exact for rows of one step that keep within it. */
bool qn_regions_overlap(const qn_region *a, const qn_region *b);
bool qn_regions_are_equal(const qn_region *a, const qn_region *b);

#endif
