/* See blocks.h. */
#include "kernels/blocks.h"

#include "base/memory.h"
#include "kernels/language.h"
#include "kernels/ref/real.h"

enum {
    ROWS_STEP = 48,       /* rows of the weight in a task: whole tiles of every set */
    ROWS_NUMBERS = 65536, /* numbers of a task's rows, where several steps are no more */
    COLUMNS_LEAST = 96,   /* columns of the weight in a task of the product with dy */
    COLUMNS_MOST = 512,
    PART_ROWS = 192, /* rows of the other operand that are worth to widen the weight for */
};

static const qn_activation none = {QN_ACTIVATION_NONE, 0};

static size_t align(size_t bytes) {
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

void qn_block_row_widen(const qn_kernels *kernels, const qn_block_matrix *w, int64_t row,
                        int64_t first, int64_t n, void *to) {
    const qn_language_kernels *language = qn_language_kernels_get(kernels);
    const int64_t numbers = qn_blocks_numbers(w->blocks);
    const char *from = (const char *)w->data + row * qn_blocks_row_bytes(w->blocks, w->columns) +
                       first / numbers * qn_blocks_bytes(w->blocks);
    if (kernels->real == QN_F32) {
        language->widen(w->blocks, from, n / numbers, to);
        return;
    }
    double *wide = to;
    float some[QN_BLOCKS_MOST_NUMBERS];
    for (int64_t i = 0; i < n; i += numbers, from += qn_blocks_bytes(w->blocks)) {
        language->widen(w->blocks, from, 1, some);
        for (int64_t k = 0; k < numbers; k++)
            *wide++ = (double)some[k];
    }
}

/* A task has some rows or columns of the weight, and all or some rows of the other operand. */
typedef struct product_context {
    const qn_kernels *kernels;
    const qn_block_matrix *w;
    bool is_backward;           /* the weight's columns are shared out, else its rows */
    int64_t n, n_step, n_parts; /* rows of the other operand, those of a task, parts of them */
    int64_t step, depth;        /* of the weight: what a task has, and at once of the other axis */
    const char *x, *bias;       /* x: of dy backward */
    char *y, *workspace;
    size_t unit, widened_bytes, thread_bytes;
} product_context;

/* Of the weight: the axis that is shared out, and the other. */
static int64_t shared_axis(const product_context *c) {
    return c->is_backward ? c->w->columns : c->w->rows;
}

static int64_t other_axis(const product_context *c) {
    return c->is_backward ? c->w->rows : c->w->columns;
}

static qn_gemm_shape gemm_of(const product_context *c, int64_t m, int64_t n, int64_t k) {
    return (qn_gemm_shape){
        .m = m, .n = n, .k = k, .transpose_b = !c->is_backward, .c_row = shared_axis(c)};
}

/* The most of a whole task and of those at the ends, each of which goes its own way. */
static size_t gemm_bytes_of(const product_context *c) {
    const int64_t m[] = {c->n_step, c->n % c->n_step}, n[] = {c->step, shared_axis(c) % c->step};
    const int64_t k[] = {c->depth, other_axis(c) % c->depth};
    size_t most = 0;
    for (int i = 0; i < 8; i++) {
        const qn_gemm_shape gemm = gemm_of(c, m[i & 1], n[i >> 1 & 1], k[i >> 2]);
        const bool is_there = gemm.m > 0 && gemm.n > 0 && gemm.k > 0;
        const size_t bytes = is_there ? c->kernels->gemm_workspace(&gemm, 1) : 0;
        most = bytes > most ? bytes : most;
    }
    return most;
}

/* The tasks' sizes depend on the team, and no element's bits on them. */
static product_context context_of(const qn_kernels *kernels, int64_t n, const qn_block_matrix *w,
                                  bool is_backward, int n_threads) {
    product_context c = {.kernels = kernels, .w = w, .is_backward = is_backward, .n = n, .unit = 4};
    const int64_t numbers = qn_blocks_numbers(w->blocks), all = shared_axis(&c);
    const int64_t least = is_backward ? max_int(numbers, COLUMNS_LEAST) : ROWS_STEP;
    const int64_t most = max_int(is_backward ? COLUMNS_MOST : ROWS_NUMBERS / w->columns, least);
    c.unit = kernels->real == QN_F64 ? sizeof(double) : sizeof(float);
    /* Each thread gets some, equally. */
    const int64_t rounds = ceil_div(all, most * n_threads);
    c.step = min_int(round_up(ceil_div(all, rounds * n_threads), least), all);
    c.depth = is_backward ? min_int(kernels->gemm_chunk, w->rows) : w->columns;
    /* A narrow weight is widened more often, where there are enough rows to pay for it. */
    c.n_parts = 1;
    if (ceil_div(all, c.step) < n_threads)
        c.n_parts = min_int(n_threads, ceil_div(n, PART_ROWS));
    c.n_step = ceil_div(n, c.n_parts);
    c.n_parts = ceil_div(n, c.n_step);
    c.widened_bytes = align((size_t)(c.step * c.depth) * c.unit);
    c.thread_bytes = c.widened_bytes + align(gemm_bytes_of(&c));
    return c;
}

/* Rows [k, k + depth) and columns [j, j + n) of the weight, dense. */
static void widen_part(const product_context *c, int64_t k, int64_t depth, int64_t j, int64_t n,
                       char *to) {
    for (int64_t i = 0; i < depth; i++)
        qn_block_row_widen(c->kernels, c->w, k + i, j, n, to + (size_t)(i * n) * c->unit);
}

/* Rows [i, i + m) of y, and those columns of it that come of rows [j, j + n) of the weight. */
static void run_forward(const product_context *c, int64_t i, int64_t m, int64_t j, int64_t n,
                        char *widened) {
    const qn_gemm_shape gemm = gemm_of(c, m, n, c->depth);
    const char *bias = c->bias ? c->bias + (size_t)j * c->unit : NULL;
    widen_part(c, j, n, 0, c->w->columns, widened);
    c->kernels->gemm(NULL, &gemm, c->x + (size_t)(i * c->w->columns) * c->unit, widened, bias, none,
                     c->y + (size_t)(i * c->w->rows + j) * c->unit, widened + c->widened_bytes);
}

/* Rows [i, i + m) and columns [j, j + n) of dx: the chain over the weight's rows. */
static void run_backward(const product_context *c, int64_t i, int64_t m, int64_t j, int64_t n,
                         char *widened) {
    for (int64_t k = 0; k < c->w->rows; k += c->depth) {
        qn_gemm_shape gemm = gemm_of(c, m, n, min_int(c->depth, c->w->rows - k));
        gemm.add = k > 0;
        gemm.a_row = c->w->rows;
        widen_part(c, k, gemm.k, j, n, widened);
        c->kernels->gemm(NULL, &gemm, c->x + (size_t)(i * c->w->rows + k) * c->unit, widened, NULL,
                         none, c->y + (size_t)(i * c->w->columns + j) * c->unit,
                         widened + c->widened_bytes);
    }
}

static void product_task(void *context, int64_t begin, int64_t end, int thread) {
    const product_context *c = context;
    char *widened = c->workspace + (size_t)thread * c->thread_bytes;
    for (int64_t task = begin; task < end; task++) {
        const int64_t i = task % c->n_parts * c->n_step, j = task / c->n_parts * c->step;
        const int64_t m = min_int(c->n_step, c->n - i), n = min_int(c->step, shared_axis(c) - j);
        (c->is_backward ? run_backward : run_forward)(c, i, m, j, n, widened);
    }
}

static void run(product_context *c, qn_team *team) {
    qn_team_run(team, c->n_parts * ceil_div(shared_axis(c), c->step), product_task, c);
}

void qn_block_product(const qn_kernels *kernels, qn_team *team, int64_t n, const void *x,
                      const qn_block_matrix *w, const void *bias, void *y, void *workspace) {
    product_context c = context_of(kernels, n, w, false, qn_team_size(team));
    c.x = x;
    c.bias = bias;
    c.y = y;
    c.workspace = workspace;
    run(&c, team);
}

void qn_block_product_data(const qn_kernels *kernels, qn_team *team, int64_t n, const void *dy,
                           const qn_block_matrix *w, void *dx, void *workspace) {
    product_context c = context_of(kernels, n, w, true, qn_team_size(team));
    c.x = dy;
    c.y = dx;
    c.workspace = workspace;
    run(&c, team);
}

size_t qn_block_product_workspace(const qn_kernels *kernels, int64_t n, const qn_block_matrix *w,
                                  int n_threads) {
    return context_of(kernels, n, w, false, n_threads).thread_bytes * (size_t)n_threads;
}

size_t qn_block_product_data_workspace(const qn_kernels *kernels, int64_t n,
                                       const qn_block_matrix *w, int n_threads) {
    return context_of(kernels, n, w, true, n_threads).thread_bytes * (size_t)n_threads;
}

/* ---- rows by indices ---- */

typedef struct embedding_context {
    const qn_kernels *kernels;
    const qn_block_matrix *w;
    const int32_t *indices;
    char *y;
} embedding_context;

static void set_nan(const qn_kernels *kernels, int64_t n, char *y) {
    for (int64_t i = 0; i < n; i++) {
        if (kernels->real == QN_F64)
            ((double *)(void *)y)[i] = (double)NAN;
        else
            ((float *)(void *)y)[i] = NAN;
    }
}

static void embedding_task(void *context, int64_t begin, int64_t end, int thread) {
    (void)thread;
    const embedding_context *e = context;
    const size_t row_bytes =
        (size_t)e->w->columns * (e->kernels->real == QN_F64 ? sizeof(double) : sizeof(float));
    for (int64_t i = begin; i < end; i++) {
        char *y = e->y + (size_t)i * row_bytes;
        const int64_t row = max_int(0, min_int(e->indices[i], e->w->rows - 1));
        if (e->indices[i] == INT32_MIN)
            set_nan(e->kernels, e->w->columns, y);
        else
            qn_block_row_widen(e->kernels, e->w, row, 0, e->w->columns, y);
    }
}

void qn_block_embedding(const qn_kernels *kernels, qn_team *team, int64_t n,
                        const qn_block_matrix *w, const int32_t *indices, void *y) {
    embedding_context e = {kernels, w, indices, y};
    qn_team_run(team, n, embedding_task, &e);
}
