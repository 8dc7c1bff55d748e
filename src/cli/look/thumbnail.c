/* See thumbnail.h. */
#include "cli/look/thumbnail.h"

#include "base/status.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <stdlib.h>

static qn_shape shape_of(const qn_data_source *s) {
    return s->sample.rank == 3 && s->sample.dims[0] == 0 ? s->preparation.sample : s->sample;
}

bool thumbnail_can(const qn_data_source *source) {
    const qn_shape shape = shape_of(source);
    return source->dtype == QN_U8 && shape.rank == 3 && (shape.dims[2] == 1 || shape.dims[2] == 3);
}

qn_status thumbnail_open(thumbnail *t, const qn_data_source *source, int64_t side) {
    const qn_shape s = shape_of(source);
    const int64_t longer = s.dims[0] > s.dims[1] ? s.dims[0] : s.dims[1];
    const int64_t by = longer > side ? longer : side;
    const size_t n_targets = (size_t)(source->n_targets > 0 ? source->n_targets : 1);
    *t = (thumbnail){.source = source, .shape = s};
    t->h = longer > side ? (s.dims[0] * side + by - 1) / by : s.dims[0];
    t->w = longer > side ? (s.dims[1] * side + by - 1) / by : s.dims[1];
    t->x = malloc((size_t)qn_shape_count(s));
    t->y = calloc(n_targets, sizeof *t->y);
    t->row = calloc((size_t)(t->w * s.dims[2]), sizeof *t->row);
    t->pixels = calloc((size_t)(t->h * t->w * s.dims[2]), 1);
    if (!t->x || !t->y || !t->row || !t->pixels)
        return qn_fail_memory((size_t)qn_shape_count(s));
    return qn_resizer_init(&t->resizer, qn_allocator_default(), s.dims, (int64_t[]){t->h, t->w},
                           false);
}

void thumbnail_close(thumbnail *t) {
    if (t->resizer.allocator)
        qn_resizer_deinit(&t->resizer);
    free(t->x);
    free(t->y);
    free(t->row);
    free(t->pixels);
}

qn_status thumbnail_read(thumbnail *t, qn_split split, int64_t index) {
    return t->source->read(t->source->self, split, index, t->x, t->y);
}

void thumbnail_make(thumbnail *t) {
    const int64_t width = t->shape.dims[1] * t->shape.dims[2], c = t->w * t->shape.dims[2];
    int64_t y = 0;
    qn_resizer_restart(&t->resizer);
    for (int64_t i = 0; i < t->shape.dims[0]; i++) {
        qn_resizer_put(&t->resizer, QN_U8, (const uint8_t *)t->x + i * width);
        while (y < t->h && qn_resizer_take(&t->resizer, t->row)) {
            for (int64_t k = 0; k < c; k++)
                t->pixels[y * c + k] = (uint8_t)(t->row[k] + 0.5f);
            y++;
        }
    }
}
