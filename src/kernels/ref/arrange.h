/* Axes in another order, reductions along an axis, and elements chosen by indices. A task is some
 * rows or columns of the result. */
#ifndef QN_KERNELS_REF_ARRANGE_H
#define QN_KERNELS_REF_ARRANGE_H

#include "kernels/ref/elementwise.h"
#include "kernels/ref/lanes.h"

/* ---- transpose ---- */

/* The result's last two axes are done in squares of this many elements, so that neither the reads
 * nor the writes go through more cache lines at a time than the first cache holds. */
enum { TRANSPOSE_SQUARE = 16 };

typedef struct transpose_context {
    int rank;
    const int64_t *extents, *strides; /* of the result's axes; strides in x */
    int64_t rows, columns;            /* the last two axes */
    const real *x;
    real *y;
} transpose_context;

/* Where the first element of a matrix of the last two axes is in x. */
static const real *transpose_from(const transpose_context *t, int64_t matrix) {
    const real *from = t->x;
    for (int axis = t->rank - 3; axis >= 0; axis--) {
        from += matrix % t->extents[axis] * t->strides[axis];
        matrix /= t->extents[axis];
    }
    return from;
}

/* Rows [begin, end) of one matrix. */
static void transpose_rows(const transpose_context *t, const real *from, int64_t begin, int64_t end,
                           real *to) {
    const int64_t row = t->strides[t->rank - 2], step = t->strides[t->rank - 1];
    const int64_t columns = t->columns;
    if (step == 1) {
        for (int64_t i = begin; i < end; i++)
            memcpy(to + i * columns, from + i * row, (size_t)columns * sizeof *to);
        return;
    }
    for (int64_t j0 = 0; j0 < columns; j0 += TRANSPOSE_SQUARE) {
        for (int64_t i = begin; i < end; i++) {
            for (int64_t j = j0; j < min_int(columns, j0 + TRANSPOSE_SQUARE); j++)
                to[i * columns + j] = from[i * row + j * step];
        }
    }
}

/* A task is up to TRANSPOSE_SQUARE rows of a matrix. */
static void transpose_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const transpose_context *t = context;
    const int64_t blocks = ceil_div(t->rows, TRANSPOSE_SQUARE);
    for (int64_t task = begin; task < end; task++) {
        const int64_t matrix = task / blocks, first = task % blocks * TRANSPOSE_SQUARE;
        transpose_rows(t, transpose_from(t, matrix), first,
                       min_int(t->rows, first + TRANSPOSE_SQUARE),
                       t->y + matrix * t->rows * t->columns);
    }
}

static void transpose(qn_team *team, int rank, const int64_t *extents, const int64_t *strides,
                      const void *x, void *y) {
    transpose_context t = {.rank = rank,
                           .extents = extents,
                           .strides = strides,
                           .rows = extents[rank - 2],
                           .columns = extents[rank - 1],
                           .x = x,
                           .y = y};
    int64_t matrices = 1;
    for (int axis = 0; axis < rank - 2; axis++)
        matrices *= extents[axis];
    qn_team_run(team, matrices * ceil_div(t.rows, TRANSPOSE_SQUARE), transpose_task, &t);
}

/* ---- reductions along an axis of x (outer, n, inner) ---- */

enum { REDUCE_COLUMNS = 64 }; /* of a task */

typedef struct reduce_context {
    int64_t n, inner, blocks;
    double factor;
    const real *x; /* (outer, n, inner); backward dy (outer, inner) */
    const int32_t *index_in;
    real *y;
    int32_t *index;
} reduce_context;

static void sum_columns_of(const reduce_context *r, const real *x, int64_t width, real *y) {
    double sums[REDUCE_COLUMNS] = {0};
    for (int64_t i = 0; i < r->n; i++) {
        for (int64_t j = 0; j < width; j++)
            sums[j] += (double)x[i * r->inner + j];
    }
    for (int64_t j = 0; j < width; j++)
        y[j] = (real)(r->factor * sums[j]);
}

/* NaN is larger than any number. */
static void max_columns_of(const reduce_context *r, const real *x, int64_t width, real *y,
                           int32_t *index) {
    memcpy(y, x, (size_t)width * sizeof *y);
    memset(index, 0, (size_t)width * sizeof *index);
    for (int64_t i = 1; i < r->n; i++) {
        const real *row = x + i * r->inner;
        for (int64_t j = 0; j < width; j++) {
            const bool better = (row[j] > y[j]) | ((row[j] != row[j]) & (y[j] == y[j]));
            y[j] = better ? row[j] : y[j];
            index[j] = better ? (int32_t)i : index[j];
        }
    }
}

static void reduce_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const reduce_context *r = context;
    for (int64_t task = begin; task < end; task++) {
        const int64_t outer = task / r->blocks, j = task % r->blocks * REDUCE_COLUMNS;
        const real *x = r->x + outer * r->n * r->inner + j;
        const int64_t width = min_int(REDUCE_COLUMNS, r->inner - j), at = outer * r->inner + j;
        if (r->index)
            max_columns_of(r, x, width, r->y + at, r->index + at);
        else if (r->inner == 1)
            r->y[at] = (real)(r->factor * sum_of_row(r->n, x));
        else
            sum_columns_of(r, x, width, r->y + at);
    }
}

static void run_reduce(qn_team *team, int64_t outer, reduce_context *r, qn_team_task *task) {
    r->blocks = ceil_div(r->inner, REDUCE_COLUMNS);
    qn_team_run(team, outer * r->blocks, task, r);
}

static void reduce_sum(qn_team *team, int64_t outer, int64_t n, int64_t inner, double factor,
                       const void *x, void *y) {
    reduce_context r = {.n = n, .inner = inner, .factor = factor, .x = x, .y = y};
    run_reduce(team, outer, &r, reduce_task);
}

static void reduce_max(qn_team *team, int64_t outer, int64_t n, int64_t inner, const void *x,
                       void *y, int32_t *index) {
    reduce_context r = {.n = n, .inner = inner, .x = x, .y = y, .index = index};
    run_reduce(team, outer, &r, reduce_task);
}

static void reduce_backward_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const reduce_context *r = context;
    const real factor = (real)r->factor;
    for (int64_t task = begin; task < end; task++) {
        const int64_t outer = task / r->blocks, first = task % r->blocks * REDUCE_COLUMNS;
        const int64_t width = min_int(REDUCE_COLUMNS, r->inner - first);
        const real *dy = r->x + outer * r->inner + first;
        const int32_t *index = r->index_in ? r->index_in + outer * r->inner + first : NULL;
        for (int64_t i = 0; i < r->n; i++) {
            real *dx = r->y + (outer * r->n + i) * r->inner + first;
            for (int64_t j = 0; j < width; j++)
                dx[j] = !index || index[j] == i ? factor * dy[j] : 0;
        }
    }
}

static void reduce_backward(qn_team *team, int64_t outer, int64_t n, int64_t inner, double factor,
                            const void *dy, const int32_t *index, void *dx) {
    reduce_context r = {
        .n = n, .inner = inner, .factor = factor, .x = dy, .index_in = index, .y = dx};
    run_reduce(team, outer, &r, reduce_backward_task);
}

/* ---- sums of rows of an axis ---- */

typedef struct map_context {
    const qn_axis_map *map;
    const real *x;
    real *y;
} map_context;

/* y (inner) = the sum of rows [first, end) of the map, of x (n, inner). */
static void sum_mapped_rows(const qn_axis_map *map, int32_t first, int32_t end, const real *x,
                            real *y) {
    for (int64_t j0 = 0; j0 < map->inner; j0 += REDUCE_COLUMNS) {
        const int64_t width = min_int(REDUCE_COLUMNS, map->inner - j0);
        double sums[REDUCE_COLUMNS] = {0};
        for (int32_t e = first; e < end; e++) {
            const real *row = x + map->at[e] * map->inner + j0;
            for (int64_t j = 0; j < width; j++)
                sums[j] += map->weights[e] * (double)row[j];
        }
        for (int64_t j = 0; j < width; j++)
            y[j0 + j] = (real)sums[j];
    }
}

/* A task is a row of y. */
static void map_axis_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const map_context *c = context;
    const qn_axis_map *map = c->map;
    for (int64_t task = begin; task < end; task++) {
        const int32_t first = map->first[task % map->m], last = map->first[task % map->m + 1];
        const real *x = c->x + task / map->m * map->n * map->inner;
        real *y = c->y + task * map->inner;
        if (first == last) {
            for (int64_t j = 0; j < map->inner; j++)
                y[j] = (real)map->fill;
        } else if (last - first > 1 || map->weights[first] != 1) {
            sum_mapped_rows(map, first, last, x, y);
        } else if (map->inner == 1) {
            *y = x[map->at[first]];
        } else {
            memcpy(y, x + map->at[first] * map->inner, (size_t)map->inner * sizeof *y);
        }
    }
}

static void map_axis(qn_team *team, const qn_axis_map *map, const void *x, void *y) {
    map_context c = {map, x, y};
    qn_team_run(team, map->outer * map->m, map_axis_task, &c);
}

#endif
