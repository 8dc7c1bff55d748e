/* How the CPU runs operators along one axis: reductions and resampling. */
#include "ops/reduce.h"
#include "device/cpu/cpu.h"
#include "ops/shared.h"

#include <string.h>

/* ---- reduce ---- */

/* x as (outer, n, inner), and what a sum is multiplied with. */
typedef struct reduce_extents {
    int64_t outer, n, inner;
    double factor;
} reduce_extents;

static reduce_extents reduce_extents_of(const qn_reduce_attributes *a, qn_shape x) {
    const int64_t n = x.dims[a->axis];
    return (reduce_extents){.outer = qn_shape_count_range(x, 0, a->axis),
                            .n = n,
                            .inner = qn_shape_count_range(x, a->axis + 1, x.rank),
                            .factor = a->reduction == QN_MEAN ? 1 / (double)n : 1};
}

static void reduce_run(const qn_call *call) {
    const qn_reduce_attributes *a = call->attributes;
    const reduce_extents e = reduce_extents_of(a, call->inputs[0].shape);
    if (a->reduction == QN_MAX)
        call->kernels->reduce_max(call->team, e.outer, e.n, e.inner, call->in[0], call->out[0],
                                  call->out[1]);
    else
        call->kernels->reduce_sum(call->team, e.outer, e.n, e.inner, e.factor, call->in[0],
                                  call->out[0]);
}

static void reduce_backward_run(const qn_call *call) {
    const qn_reduce_attributes *a = call->attributes;
    const reduce_extents e = reduce_extents_of(a, a->shape);
    call->kernels->reduce_backward(call->team, e.outer, e.n, e.inner, e.factor, call->in[0],
                                   call->in[1], call->out[0]);
}

/* ---- resample ---- */

static size_t resample_workspace(const qn_kernels *kernels, const void *attributes,
                                 const qn_tensor *inputs, const qn_tensor *outputs, int n_threads) {
    (void)kernels;
    (void)inputs;
    (void)outputs;
    (void)n_threads;
    const qn_resample_attributes *a = attributes;
    return (size_t)(a->to * qn_resample_most_taps(a)) * (sizeof(double) + sizeof(int32_t)) +
           (size_t)((a->to > a->from ? a->to : a->from) + 1) * sizeof(int32_t);
}

/* The map over a tensor's shape but for the axis, with room in the workspace. */
static qn_axis_map resample_place_map(const qn_call *call, const qn_resample_attributes *a,
                                      int32_t **first, int32_t **at, double **weights) {
    const qn_shape x = call->inputs[0].shape;
    const int64_t most = a->to * qn_resample_most_taps(a);
    *weights = call->workspace;
    *at = (int32_t *)(*weights + most);
    *first = *at + most;
    return (qn_axis_map){.outer = qn_shape_count_range(x, 0, a->axis),
                         .n = a->from,
                         .m = a->to,
                         .inner = qn_shape_count_range(x, a->axis + 1, x.rank),
                         .first = *first,
                         .at = *at,
                         .weights = *weights,
                         .fill = a->value};
}

static qn_axis_map resample_make_map(const qn_call *call) {
    const qn_resample_attributes *a = call->attributes;
    int32_t *first, *at;
    double *weights;
    const qn_axis_map map = resample_place_map(call, a, &first, &at, &weights);
    first[0] = 0;
    for (int64_t i = 0; i < a->to; i++)
        first[i + 1] = first[i] + qn_resample_taps(a, i, at + first[i], weights + first[i]);
    return map;
}

/* The same the other way: counts the uses of each element, then puts them in their places. */
static qn_axis_map resample_make_transposed_map(const qn_call *call) {
    const qn_resample_attributes *a = call->attributes;
    int32_t *first, *at, places[QN_RESAMPLE_MOST_TAPS];
    double *weights, w[QN_RESAMPLE_MOST_TAPS];
    qn_axis_map map = resample_place_map(call, a, &first, &at, &weights);
    map.n = a->to;
    map.m = a->from;
    map.fill = 0;
    memset(first, 0, (size_t)(a->from + 1) * sizeof *first);
    for (int64_t i = 0; i < a->to; i++) {
        const int n = qn_resample_taps(a, i, places, w);
        for (int t = 0; t < n; t++)
            first[places[t] + 1]++;
    }
    for (int64_t j = 0; j < a->from; j++)
        first[j + 1] += first[j];
    for (int64_t i = 0; i < a->to; i++) {
        const int n = qn_resample_taps(a, i, places, w);
        for (int t = 0; t < n; t++) {
            at[first[places[t]]] = (int32_t)i;
            weights[first[places[t]]++] = w[t];
        }
    }
    memmove(first + 1, first, (size_t)a->from * sizeof *first);
    first[0] = 0;
    return map;
}

typedef struct resample_whole_map {
    const qn_axis_map *map;
    const int32_t *x;
    int32_t *y;
} resample_whole_map;

/* Whole numbers: none is made of several. */
static void resample_whole_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const resample_whole_map *c = context;
    const qn_axis_map *m = c->map;
    for (int64_t task = begin; task < end; task++) {
        const int32_t e = m->first[task % m->m];
        const bool is_given = e < m->first[task % m->m + 1];
        const int32_t *x = c->x + (task / m->m * m->n + (is_given ? m->at[e] : 0)) * m->inner;
        for (int64_t j = 0; j < m->inner; j++)
            c->y[task * m->inner + j] = is_given ? x[j] : (int32_t)m->fill;
    }
}

static void resample_run(const qn_call *call) {
    const qn_axis_map map = resample_make_map(call);
    if (call->inputs[0].dtype == QN_I32) {
        resample_whole_map whole = {&map, call->in[0], call->out[0]};
        qn_team_run(call->team, map.outer * map.m, resample_whole_task, &whole);
        return;
    }
    call->kernels->map_axis(call->team, &map, call->in[0], call->out[0]);
}

static void resample_backward_run(const qn_call *call) {
    const qn_axis_map map = resample_make_transposed_map(call);
    call->kernels->map_axis(call->team, &map, call->in[0], call->out[0]);
}

const qn_cpu_operator qn_cpu_reduce[] = {
    {&qn_op_reduce, .run = reduce_run},
    {&qn_op_reduce_backward, .run = reduce_backward_run},
    {&qn_op_resample, .run = resample_run, .workspace = resample_workspace},
    {&qn_op_resample_backward, .run = resample_backward_run, .workspace = resample_workspace},
    {0},
};
