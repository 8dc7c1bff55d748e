/* The products of training beside those of well-kept libraries, in one process, in turn:
 * convolutions, all three passes, against oneDNN in the layouts that it chooses, without its
 * reorders; matrix products against the best of oneDNN, OpenBLAS and BLIS, shape by shape.
 *     bench_rivals [CSV [WORD [BATCH [ROUNDS [least]]]]]    only lines with WORD; each goes to CSV
 * Shapes are those that a peer was measured on, and every convolution of the suite's models at a
 * batch. A round runs a rival's calls for some milliseconds and then ours; a ratio, rival's time /
 * ours, is the median over the rounds of the ratio of median calls; with `least`, for machines that
 * others use too, the ratio of the fastest calls of all rounds. The number of threads is that of
 * OMP_NUM_THREADS, which the rivals read too, else 2. */
#include "kernels/kernels.h"

#include "base/memory.h"
#include "base/status.h"
#include "ops/ops.h"
#include "quern/quern.h"

#include <dlfcn.h>
#include <dnnl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_ROUNDS = 64, MOST_CALLS = 256, LEAST_CALLS = 3, TURN_NS = 12000000 };
enum { MOST_SHAPES = 512, MOST_LINES = 4096 };

static qn_team *team;
static const qn_kernels *table;
static int n_threads = 2, n_rounds = 5;
static bool is_least;
static const char *only = "";
static FILE *csv;
static dnnl_engine_t engine;
static dnnl_stream_t stream;

static void stop(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(2);
}

static void check_dnnl(dnnl_status_t status) {
    if (status != dnnl_success)
        stop("oneDNN failed");
}

/* ---- time ---- */

typedef struct work {
    void (*run)(void *context);
    void *context;
} work;

static int by_value(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, by_value);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Seconds of the median call of a turn, or of the fastest; the first call, which finds another's
 * data in the caches and threads asleep, is left out. */
static double take_turn(const work *w) {
    static double times[MOST_CALLS];
    int n = 0;
    w->run(w->context);
    for (int64_t begin_ns = qn_clock_ns();
         n < MOST_CALLS && (n < LEAST_CALLS || qn_clock_ns() - begin_ns < TURN_NS); n++) {
        const int64_t call_ns = qn_clock_ns();
        w->run(w->context);
        times[n] = (double)(qn_clock_ns() - call_ns) * 1e-9;
    }
    const double middle = median(times, n);
    return is_least ? times[0] : middle;
}

/* The ratio of each rival's time to ours; seconds (1 + n_rivals), ours first, are medians or minima
 * over rounds. */
static void compare(const work *ours, const work *rivals, int n_rivals, double *seconds,
                    double *ratios) {
    static double times[4][MOST_ROUNDS], parts[MOST_ROUNDS];
    for (int round = 0; round < n_rounds; round++) {
        for (int i = 0; i < n_rivals; i++)
            times[1 + i][round] = take_turn(&rivals[i]);
        times[0][round] = take_turn(ours);
    }
    for (int i = 0; i < n_rivals; i++) {
        for (int round = 0; round < n_rounds; round++)
            parts[round] = times[1 + i][round] / times[0][round];
        ratios[i] = median(parts, n_rounds);
    }
    for (int i = 0; i <= n_rivals; i++) {
        const double middle = median(times[i], n_rounds);
        seconds[i] = is_least ? times[i][0] : middle;
    }
    for (int i = 0; i < n_rivals && is_least; i++)
        ratios[i] = seconds[1 + i] / seconds[0];
}

static float *floats(int64_t n) {
    float *values = NULL;
    if (posix_memalign((void **)&values, QN_ALIGNMENT, (size_t)n * sizeof *values) != 0)
        stop("out of memory");
    for (int64_t i = 0; i < n; i++)
        values[i] = (float)(((uint64_t)i * 2654435761u >> 16) & 255) / 256 - 0.5f;
    return values;
}

/* ---- what was found ---- */

typedef struct line {
    const char *kind;
    double ratio;
} line;

static line lines[MOST_LINES];
static int n_lines;

static void add_line(const char *kind, const char *name, const char *rival, double gflop,
                     const double seconds[2], double ratio) {
    printf("%-22s %-34s %8.3f GFLOP  %7.1f GFLOP/s  %-9s %7.1f  ratio %5.2f\n", kind, name, gflop,
           gflop / seconds[0], rival, gflop / seconds[1], ratio);
    fflush(stdout);
    if (csv)
        fprintf(csv, "%s,\"%s\",%s,%.6f,%.3f,%.3f,%.4f\n", kind, name, rival, gflop,
                gflop / seconds[0], gflop / seconds[1], ratio);
    if (n_lines < MOST_LINES)
        lines[n_lines++] = (line){kind, ratio};
}

static void print_means(const char *kind) {
    double sum = 0, least = 1e9;
    int n = 0, n_behind = 0;
    for (int i = 0; i < n_lines; i++) {
        if (strcmp(lines[i].kind, kind) != 0)
            continue;
        sum += log(lines[i].ratio);
        least = lines[i].ratio < least ? lines[i].ratio : least;
        n_behind += lines[i].ratio < 1;
        n++;
    }
    if (n > 0)
        printf("%-22s %4d shapes, geometric mean %.3f, least %.3f, %d below 1\n", kind, n,
               exp(sum / n), least, n_behind);
}

/* ---- convolutions ---- */

typedef struct convolution {
    qn_conv2d_shape d;
    qn_conv2d_pass pass;
    float *x, *w, *y;
    void *workspace;
    dnnl_primitive_t primitive;
    dnnl_exec_arg_t arguments[3];
} convolution;

static void run_ours(void *context) {
    const convolution *c = context;
    const qn_activation none = {QN_ACTIVATION_NONE, 0};
    if (c->pass == QN_CONV2D_FORWARD)
        table->conv2d_forward(team, &c->d, c->x, c->w, NULL, none, c->y, c->workspace);
    else if (c->pass == QN_CONV2D_BACKWARD_DATA)
        table->conv2d_backward_data(team, &c->d, c->y, c->w, c->x, c->workspace);
    else
        table->conv2d_backward_filter(team, &c->d, c->x, c->y, c->w, c->workspace);
}

static void run_dnnl(void *context) {
    const convolution *c = context;
    check_dnnl(dnnl_primitive_execute(c->primitive, stream, 3, c->arguments));
    check_dnnl(dnnl_stream_wait(stream));
}

static dnnl_memory_desc_t any_layout(int rank, const dnnl_dim_t *dims) {
    dnnl_memory_desc_t layout;
    check_dnnl(dnnl_memory_desc_init_by_tag(&layout, rank, dims, dnnl_f32, dnnl_format_tag_any));
    return layout;
}

/* The operation's description; the bias is left out. */
static dnnl_convolution_desc_t describe(const convolution *c) {
    const qn_conv2d_shape *d = &c->d;
    const dnnl_dims_t x = {d->n, d->c, d->h, d->w}, y = {d->n, d->k, d->p, d->q};
    const dnnl_dims_t dense = {d->k, d->c, d->r, d->s};
    const dnnl_dims_t grouped = {d->groups, d->k / d->groups, d->c / d->groups, d->r, d->s};
    const dnnl_dims_t strides = {d->stride_h, d->stride_w};
    const dnnl_dims_t dilations = {d->dilation_h - 1, d->dilation_w - 1};
    const dnnl_dims_t before = {d->pad_top, d->pad_left};
    const dnnl_dims_t after = {
        (d->p - 1) * d->stride_h + (d->r - 1) * d->dilation_h + 1 - d->h - d->pad_top,
        (d->q - 1) * d->stride_w + (d->s - 1) * d->dilation_w + 1 - d->w - d->pad_left};
    const dnnl_memory_desc_t of_x = any_layout(4, x), of_y = any_layout(4, y);
    const dnnl_memory_desc_t of_w = d->groups > 1 ? any_layout(5, grouped) : any_layout(4, dense);
    dnnl_convolution_desc_t made;
    const dnnl_alg_kind_t way = dnnl_convolution_direct;
    if (c->pass == QN_CONV2D_FORWARD)
        check_dnnl(dnnl_dilated_convolution_forward_desc_init(&made, dnnl_forward_training, way,
                                                              &of_x, &of_w, NULL, &of_y, strides,
                                                              dilations, before, after));
    else if (c->pass == QN_CONV2D_BACKWARD_DATA)
        check_dnnl(dnnl_dilated_convolution_backward_data_desc_init(
            &made, way, &of_x, &of_w, &of_y, strides, dilations, before, after));
    else
        check_dnnl(dnnl_dilated_convolution_backward_weights_desc_init(
            &made, way, &of_x, &of_w, NULL, &of_y, strides, dilations, before, after));
    return made;
}

static dnnl_exec_arg_t argument(const_dnnl_primitive_desc_t chosen, int which) {
    const dnnl_memory_desc_t *layout =
        dnnl_primitive_desc_query_md(chosen, dnnl_query_exec_arg_md, which);
    dnnl_exec_arg_t made = {.arg = which};
    float *data;
    check_dnnl(dnnl_memory_create(&made.memory, layout, engine, DNNL_MEMORY_ALLOCATE));
    check_dnnl(dnnl_memory_get_data_handle(made.memory, (void **)&data));
    const size_t n = dnnl_memory_desc_get_size(layout) / sizeof *data;
    for (size_t i = 0; i < n; i++)
        data[i] = (float)((i * 2654435761u >> 16) & 255) / 256 - 0.5f;
    return made;
}

/* Also of the forward pass, which the backward ones are chosen by. */
static dnnl_primitive_desc_t choose(const convolution *c) {
    dnnl_primitive_desc_t forward = NULL, chosen;
    convolution before = *c;
    before.pass = QN_CONV2D_FORWARD;
    dnnl_convolution_desc_t of_forward = describe(&before), wanted = describe(c);
    check_dnnl(dnnl_primitive_desc_create(&forward, &of_forward, NULL, engine, NULL));
    if (c->pass == QN_CONV2D_FORWARD)
        return forward;
    check_dnnl(dnnl_primitive_desc_create(&chosen, &wanted, NULL, engine, forward));
    dnnl_primitive_desc_destroy(forward);
    return chosen;
}

static void open_dnnl(convolution *c) {
    static const int of_pass[][3] = {{DNNL_ARG_SRC, DNNL_ARG_WEIGHTS, DNNL_ARG_DST},
                                     {DNNL_ARG_DIFF_DST, DNNL_ARG_WEIGHTS, DNNL_ARG_DIFF_SRC},
                                     {DNNL_ARG_SRC, DNNL_ARG_DIFF_DST, DNNL_ARG_DIFF_WEIGHTS}};
    dnnl_primitive_desc_t chosen = choose(c);
    check_dnnl(dnnl_primitive_create(&c->primitive, chosen));
    for (int i = 0; i < 3; i++)
        c->arguments[i] = argument(chosen, of_pass[c->pass][i]);
    dnnl_primitive_desc_destroy(chosen);
}

static void close_dnnl(convolution *c) {
    for (int i = 0; i < 3; i++)
        dnnl_memory_destroy(c->arguments[i].memory);
    dnnl_primitive_destroy(c->primitive);
}

static void compare_pass(convolution *c, const char *name) {
    static const char *const dense[] = {"forward", "backward-data", "backward-weights"};
    static const char *const depthwise[] = {"dw-forward", "dw-backward-data",
                                            "dw-backward-weights"};
    const qn_conv2d_shape *d = &c->d;
    const double gflop =
        2e-9 * (double)(d->n * d->p * d->q * d->k) * (double)(d->r * d->s * d->c / d->groups);
    const work ours = {run_ours, c}, rival = {run_dnnl, c};
    double seconds[2], ratio;
    c->workspace = floats(
        (int64_t)table->conv2d_workspace(d, c->pass, n_threads) / (int64_t)sizeof(float) + 1);
    open_dnnl(c);
    compare(&ours, &rival, 1, seconds, &ratio);
    add_line((d->groups == d->c ? depthwise : dense)[c->pass], name, "onednn", gflop, seconds,
             ratio);
    close_dnnl(c);
    free(c->workspace);
}

static void compare_convolution(const qn_conv2d_shape *d, const char *model, bool is_first) {
    char name[96];
    snprintf(name, sizeof name, "%s%dx%d/%d g%d %d->%d @%dx%d b%d %s",
             d->groups == d->c ? "dw " : "", (int)d->r, (int)d->s, (int)d->stride_h, (int)d->groups,
             (int)d->c, (int)d->k, (int)d->h, (int)d->w, (int)d->n, model);
    if (!strstr(name, only))
        return;
    convolution c = {.d = *d};
    c.x = floats(d->n * d->h * d->w * d->c);
    c.w = floats(d->k * d->r * d->s * d->c / d->groups);
    c.y = floats(d->n * d->p * d->q * d->k);
    for (c.pass = QN_CONV2D_FORWARD; c.pass <= QN_CONV2D_BACKWARD_FILTER; c.pass++) {
        if (!is_first || c.pass != QN_CONV2D_BACKWARD_DATA) /* not needed of a first layer */
            compare_pass(&c, name);
    }
    free(c.x);
    free(c.w);
    free(c.y);
}

/* ---- shapes ---- */

static void compare_known(void) {
    static const int known[][8] = {
        /* batch, groups, channels, outputs, size, kernel, stride, padding */
        {32, 1, 3, 64, 32, 3, 1, 1},      {32, 1, 64, 64, 32, 3, 1, 1},
        {4, 1, 64, 64, 32, 3, 1, 1},      {32, 1, 128, 128, 16, 3, 1, 1},
        {32, 1, 256, 256, 8, 3, 1, 1},    {32, 1, 512, 512, 4, 3, 1, 1},
        {4, 1, 512, 512, 4, 3, 1, 1},     {32, 1, 512, 512, 2, 3, 1, 1},
        {32, 1, 128, 256, 16, 3, 2, 1},   {32, 1, 256, 64, 32, 1, 1, 0},
        {32, 1, 64, 256, 32, 1, 1, 0},    {32, 1, 1024, 256, 8, 1, 1, 0},
        {32, 1, 24, 144, 32, 1, 1, 0},    {16, 1, 728, 728, 8, 1, 1, 0},
        {32, 144, 144, 144, 32, 3, 1, 1}, {32, 512, 512, 512, 4, 3, 1, 1},
        {16, 728, 728, 728, 8, 3, 1, 1},  {32, 128, 128, 128, 32, 3, 2, 1},
        {64, 1, 6, 16, 14, 5, 1, 0},      {16, 1, 32, 96, 32, 5, 1, 2},
        {32, 1, 4, 32, 84, 8, 4, 0},      {32, 1, 160, 12, 32, 3, 1, 1},
    };
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        const int *k = known[i], out = (k[4] + 2 * k[7] - k[5]) / k[6] + 1;
        const qn_conv2d_shape d = {.n = k[0],
                                   .groups = k[1],
                                   .c = k[2],
                                   .k = k[3],
                                   .h = k[4],
                                   .w = k[4],
                                   .r = k[5],
                                   .s = k[5],
                                   .p = out,
                                   .q = out,
                                   .stride_h = k[6],
                                   .stride_w = k[6],
                                   .pad_top = k[7],
                                   .pad_left = k[7],
                                   .dilation_h = 1,
                                   .dilation_w = 1};
        compare_convolution(&d, "known", k[2] <= 4);
    }
}

static qn_conv2d_shape seen[MOST_SHAPES];
static int n_seen;

/* An attribute of a node by its name. */
static const void *attribute_of(const qn_node *node, const char *name) {
    const qn_attribute *a = node->op->attributes;
    while (strcmp(a->name, name) != 0)
        a++;
    return (const char *)node->attributes + a->offset;
}

static qn_conv2d_shape shape_of(const qn_graph *graph, const qn_node *node) {
    const qn_window *w = attribute_of(node, "window");
    const qn_shape x = qn_graph_shape(graph, node->inputs[0]);
    const qn_shape filter = qn_graph_shape(graph, node->inputs[1]);
    const qn_shape y = qn_graph_shape(graph, node->outputs[0]);
    const int groups = *(const int *)attribute_of(node, "groups");
    return (qn_conv2d_shape){.n = x.dims[0],
                             .h = x.dims[1],
                             .w = x.dims[2],
                             .c = x.dims[3],
                             .k = filter.dims[0],
                             .r = filter.dims[1],
                             .s = filter.dims[2],
                             .p = y.dims[1],
                             .q = y.dims[2],
                             .stride_h = w->stride_h > 0 ? w->stride_h : 1,
                             .stride_w = w->stride_w > 0 ? w->stride_w : 1,
                             .pad_top = w->pad_top,
                             .pad_left = w->pad_left,
                             .dilation_h = w->dilation_h > 0 ? w->dilation_h : 1,
                             .dilation_w = w->dilation_w > 0 ? w->dilation_w : 1,
                             .groups = groups > 0 ? groups : 1};
}

static bool is_new(const qn_conv2d_shape *d) {
    for (int i = 0; i < n_seen; i++)
        if (memcmp(&seen[i], d, sizeof *d) == 0)
            return false;
    if (n_seen < MOST_SHAPES)
        seen[n_seen++] = *d;
    return true;
}

static void compare_model(const char *name, int64_t batch) {
    const qn_model *model = qn_model_find(name);
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .real = QN_F32};
    qn_graph *graph;
    if (!model || qn_graph_create(&options, &graph) != QN_OK)
        stop(qn_error_message());
    qn_shape shape = {.rank = model->input.rank + 1, .dims = {batch}};
    for (int i = 0; i < model->input.rank; i++)
        shape.dims[i + 1] = model->input.dims[i];
    const qn_value x = qn_input(graph, "x", shape);
    model->build(graph, model->user, x, qn_model_classes(model, model->input));
    if (qn_graph_finish(graph) != QN_OK)
        stop(qn_error_message());
    for (int i = 0; i < graph->n_nodes; i++) {
        const qn_node *node = graph->nodes[i];
        if (strcmp(node->op->name, "conv2d") != 0)
            continue;
        const qn_conv2d_shape d = shape_of(graph, node);
        if (is_new(&d))
            compare_convolution(&d, name, node->inputs[0].id == x.id);
    }
    qn_graph_destroy(graph);
}

/* ---- matrix products ---- */

typedef void sgemm(int order, int transpose_a, int transpose_b, int m, int n, int k, float alpha,
                   const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);

typedef struct product {
    qn_gemm_shape d;
    float *a, *b, *c;
    void *workspace;
    sgemm *library;
} product;

static void run_our_product(void *context) {
    const product *p = context;
    table->gemm(team, &p->d, p->a, p->b, NULL, (qn_activation){QN_ACTIVATION_NONE, 0}, p->c,
                p->workspace);
}

static void run_library(void *context) {
    const product *p = context;
    const int m = (int)p->d.m, n = (int)p->d.n, k = (int)p->d.k;
    p->library(101, p->d.transpose_a ? 112 : 111, p->d.transpose_b ? 112 : 111, m, n, k, 1, p->a,
               p->d.transpose_a ? m : k, p->b, p->d.transpose_b ? k : n, 0, p->c, n);
}

static void run_dnnl_product(void *context) {
    const product *p = context;
    const int64_t m = p->d.m, n = p->d.n, k = p->d.k;
    check_dnnl(dnnl_sgemm(p->d.transpose_a ? 'T' : 'N', p->d.transpose_b ? 'T' : 'N', m, n, k, 1,
                          p->a, p->d.transpose_a ? m : k, p->b, p->d.transpose_b ? k : n, 0, p->c,
                          n));
}

/* A library's product, or null where it is not installed. */
static sgemm *find_library(const char *name) {
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    sgemm *found = NULL;
    void *symbol = library ? dlsym(library, "cblas_sgemm") : NULL;
    memcpy(&found, &symbol, sizeof found);
    if (!found)
        fprintf(stderr, "%s: not installed, left out\n", name);
    return found;
}

static void compare_product(const int s[5], sgemm *openblas, sgemm *blis) {
    char name[96];
    snprintf(name, sizeof name, "%c%c %dx%dx%d", s[0] ? 'T' : 'N', s[1] ? 'T' : 'N', s[2], s[3],
             s[4]);
    if (!strstr(name, only))
        return;
    product p = {.d = {.m = s[2], .n = s[3], .k = s[4], .transpose_a = s[0], .transpose_b = s[1]},
                 .a = floats((int64_t)s[2] * s[4]),
                 .b = floats((int64_t)s[3] * s[4]),
                 .c = floats((int64_t)s[2] * s[3])};
    p.workspace =
        floats((int64_t)table->gemm_workspace(&p.d, n_threads) / (int64_t)sizeof(float) + 1);
    product by_openblas = p, by_blis = p;
    by_openblas.library = openblas;
    by_blis.library = blis;
    const work ours = {run_our_product, &p};
    work rivals[3] = {{run_dnnl_product, &p}};
    const char *names[3] = {"onednn"};
    int n = 1, best = 0;
    if (openblas)
        names[n] = "openblas", rivals[n++] = (work){run_library, &by_openblas};
    if (blis)
        names[n] = "blis", rivals[n++] = (work){run_library, &by_blis};
    double seconds[4], ratios[3];
    compare(&ours, rivals, n, seconds, ratios);
    for (int i = 1; i < n; i++)
        best = ratios[i] < ratios[best] ? i : best;
    add_line(s[2] <= 32 || s[4] <= 32 ? "product-skinny" : "product", name, names[best],
             2e-9 * s[2] * s[3] * s[4], (double[]){seconds[0], seconds[1 + best]}, ratios[best]);
    free(p.a);
    free(p.b);
    free(p.c);
    free(p.workspace);
}

static void compare_products(void) {
    static const int shapes[][5] = {
        /* transposed a, b; m, n, k */
        {0, 0, 512, 512, 512},    {0, 0, 1024, 1024, 1024}, {0, 0, 1536, 1536, 1536},
        {0, 0, 2048, 2048, 2048}, {0, 0, 64, 1024, 576},    {0, 0, 64, 32768, 576},
        {0, 0, 64, 1024, 256},    {0, 0, 512, 512, 4608},   {0, 1, 64, 576, 1024},
        {1, 0, 576, 1024, 64},    {0, 1, 32, 4096, 1024},   {0, 1, 32, 4096, 4096},
        {0, 0, 32, 4096, 4096},   {1, 0, 4096, 4096, 32},   {0, 1, 4, 4096, 4096},
        {0, 0, 4, 4096, 4096},    {1, 0, 4096, 4096, 4},    {0, 1, 16, 4096, 4096},
        {0, 0, 16, 4096, 4096},   {1, 0, 4096, 4096, 16},   {0, 1, 3200, 1024, 256},
        {0, 1, 32, 1024, 256},    {0, 1, 4, 1024, 256},     {0, 0, 144, 1024, 24},
        {0, 1, 64, 120, 400},     {0, 0, 64, 400, 120},     {1, 0, 120, 400, 64},
        {0, 1, 2048, 768, 768},   {0, 1, 2048, 3072, 768},  {1, 0, 768, 3072, 2048}};
    sgemm *openblas = find_library("libopenblas.so.0"), *blis = find_library("libblis.so.4");
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        compare_product(shapes[i], openblas, blis);
}

int main(int argc, char **argv) {
    static const char *const models[] = {"lenet5",       "alexnet",   "vgg11",      "vgg16",
                                         "resnet18",     "resnet50",  "squeezenet", "mobilenet-v1",
                                         "mobilenet-v2", "googlenet", "xception",   "densenet40"};
    static const char *const kinds[] = {"forward",    "backward-data",    "backward-weights",
                                        "dw-forward", "dw-backward-data", "dw-backward-weights",
                                        "product",    "product-skinny"};
    const char *threads = getenv("OMP_NUM_THREADS");
    const int64_t batch = argc > 3 ? atoll(argv[3]) : 16;
    qn_isa isa;
    n_threads = threads ? atoi(threads) : n_threads;
    only = argc > 2 ? argv[2] : only;
    n_rounds = argc > 4 ? atoi(argv[4]) : n_rounds;
    is_least = argc > 5 && strcmp(argv[5], "least") == 0;
    if (batch < 1 || n_rounds < 1 || n_rounds > MOST_ROUNDS)
        stop("usage: bench_rivals [CSV [WORD [BATCH [ROUNDS [least]]]]]");
    if (qn_cpu_isa(&isa) != QN_OK || qn_team_create(NULL, n_threads, &team) != QN_OK)
        stop(qn_error_message());
    table = qn_kernels_get(QN_F32, isa);
    csv = argc > 1 && argv[1][0] ? fopen(argv[1], "w") : NULL;
    if (csv)
        fprintf(csv, "kind,shape,rival,gflop,gflops,rival_gflops,ratio\n");
    check_dnnl(dnnl_engine_create(&engine, dnnl_cpu, 0));
    check_dnnl(dnnl_stream_create(&stream, engine, dnnl_stream_default_flags));
    compare_products();
    compare_known();
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        compare_model(models[i], batch);
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        print_means(kinds[i]);
    if (csv && fclose(csv) != 0)
        stop("the CSV file could not be written");
    dnnl_stream_destroy(stream);
    dnnl_engine_destroy(engine);
    qn_team_destroy(team);
    return 0;
}
