/* See embedder.h. */
#include "label/network/embedder.h"

#include "base/memory.h"
#include "base/status.h"
#include "models/models.h"
#include "tensor/tensor.h"

#include <string.h>

enum { N_BLOCKS = 3, PROJECTED = 32, LEAST_POOLED = 6 };
enum { TRAINING, EMBEDDING_ONE, EMBEDDING_MANY, N_PROGRAMS };

static const int64_t filters[N_BLOCKS] = {16, 32, 64};
static const double temperature = 0.2, rate = 1.4e-3, decay = 1e-4;

struct qn_embedder {
    const qn_allocator *allocator;
    qn_embedder_options how;
    qn_engine *engine;
    int32_t *order; /* (n_pairs) 0, 1, ...: which view belongs to which */
    double flops;
};

/* What a program is built for. */
typedef struct build {
    const qn_embedder *embedder;
    int64_t batch;
} build;

/* ---- the network ---- */

/* The window of an axis: that of others, or nothing along an axis of one element. */
static int along(int64_t extent, int otherwise, int alone) {
    return extent > 1 ? otherwise : alone;
}

static qn_value add_block(qn_graph *graph, qn_value x, int block) {
    const qn_shape shape = qn_graph_shape(graph, x);
    const int64_t h = shape.dims[1], w = shape.dims[2];
    const int high = along(h, 3, 1), wide = along(w, 3, 1);
    qn_graph_enter(graph, "block%d", block + 1);
    x = qn_conv_norm_relu_window(graph, "conv", x, filters[block], qn_window_keep(high, wide),
                                 1e-5);
    const qn_window half = {.kernel_h = h >= LEAST_POOLED ? 2 : 1,
                            .kernel_w = w >= LEAST_POOLED ? 2 : 1,
                            .stride_h = h >= LEAST_POOLED ? 2 : 1,
                            .stride_w = w >= LEAST_POOLED ? 2 : 1};
    if (half.kernel_h > 1 || half.kernel_w > 1)
        x = qn_max_pool(graph, "pool", x, half);
    qn_graph_leave(graph);
    return x;
}

static qn_value add_network(qn_graph *graph, qn_value x) {
    for (int block = 0; block < N_BLOCKS; block++)
        x = add_block(graph, x, block);
    return qn_linear_layer(graph, "features", x, QN_EMBEDDER_WIDTH);
}

/* Features on a sphere, for comparisons by angle: the norm's own scale and shift never change. */
static qn_value project(qn_graph *graph, qn_value z) {
    z = qn_linear_layer(graph, "projection", qn_relu(graph, "features.relu", z), PROJECTED);
    qn_value one = qn_parameter(graph, "sphere.scale", QN_SHAPE(PROJECTED),
                                (qn_initial){QN_INITIAL_ONE, 0}, false);
    qn_value zero = qn_parameter(graph, "sphere.shift", QN_SHAPE(PROJECTED),
                                 (qn_initial){QN_INITIAL_ZERO, 0}, false);
    return qn_layer_norm(graph, "sphere", z, one, zero, 1e-5);
}

/* Each first view must be closest to its own second view among all second views. */
static qn_value add_contrast(qn_graph *graph, qn_value z, int64_t n) {
    qn_value p = project(graph, z);
    qn_value a = qn_slice(graph, "first", p, 0, 0, n);
    qn_value b = qn_slice(graph, "second", p, 0, n, 2 * n);
    qn_value order = qn_label(graph, "order", QN_I32, QN_SHAPE(n));
    qn_value close = qn_matmul(graph, "products", a, b, false, true);
    close = qn_scale(graph, "closeness", close, 1 / (PROJECTED * temperature));
    return qn_mean(graph, "contrast",
                   qn_softmax_cross_entropy(graph, "contrast.losses", close, order, 0));
}

static qn_value build_training(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const build *b = user;
    const int64_t n = b->embedder->how.n_pairs;
    const qn_shape s = b->embedder->how.sample;
    (void)phase;
    (void)kept;
    qn_value x = qn_input(graph, "views", QN_SHAPE(2 * n, s.dims[0], s.dims[1], s.dims[2]));
    qn_value label = qn_label(graph, "label", QN_I32, QN_SHAPE(2 * n));
    qn_value z = add_network(graph, x);
    qn_value logits = qn_linear_layer(graph, "head", z, b->embedder->how.n_outputs);
    qn_value losses = qn_softmax_cross_entropy(graph, "losses", logits, label, 0);
    qn_value known = qn_mean_valid(graph, "classification", losses, label);
    qn_value loss = known;
    if (!b->embedder->how.is_plain)
        loss = qn_add(graph, "loss", known, add_contrast(graph, z, n));
    qn_result(graph, loss);
    return loss;
}

static qn_value build_embedding(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const build *b = user;
    const qn_shape s = b->embedder->how.sample;
    (void)phase;
    (void)kept;
    qn_result(graph,
              add_network(graph, qn_input(graph, "samples",
                                          QN_SHAPE(b->batch, s.dims[0], s.dims[1], s.dims[2]))));
    return QN_NO_VALUE;
}

/* ---- making ---- */

static double count_flops(qn_shape s) {
    double flops = 0, channels = (double)s.dims[2];
    int64_t h = s.dims[0], w = s.dims[1];
    for (int i = 0; i < N_BLOCKS; i++) {
        flops +=
            2.0 * (double)(h * w) * along(h, 3, 1) * along(w, 3, 1) * channels * (double)filters[i];
        channels = (double)filters[i];
        h = h >= LEAST_POOLED ? h / 2 : h;
        w = w >= LEAST_POOLED ? w / 2 : w;
    }
    return flops + 2.0 * (double)(h * w) * channels * QN_EMBEDDER_WIDTH;
}

static qn_status make_engine(qn_embedder *e) {
    build what[N_PROGRAMS] = {{e, 2 * e->how.n_pairs}, {e, 1}, {e, QN_EMBEDDER_MANY}};
    qn_program_options programs[N_PROGRAMS];
    static const char *const names[N_PROGRAMS] = {"lesson", "embedding", "embedding of many"};
    for (int i = 0; i < N_PROGRAMS; i++)
        programs[i] = (qn_program_options){
            QN_OPTIONS_INIT(qn_program_options), .name = names[i], .training = i == TRAINING,
            .user = &what[i], .build = i == TRAINING ? build_training : build_embedding};
    const qn_engine_options options = {
        QN_OPTIONS_INIT(qn_engine_options), .allocator = e->allocator,
        .update = {.optimizer = QN_ADAM, .rate = rate, .weight_decay = decay},
        .n_threads = e->how.n_threads, .seed = e->how.seed};
    return qn_engine_create(&options, programs, N_PROGRAMS, &e->engine);
}

qn_status qn_embedder_create(const qn_embedder_options *options, qn_embedder **embedder) {
    qn_embedder *e;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *e, &e));
    e->allocator = options->allocator;
    e->how = *options;
    e->flops = count_flops(options->sample);
    qn_status status =
        qn_allocate(e->allocator, (size_t)e->how.n_pairs, sizeof *e->order, &e->order);
    if (status == QN_OK)
        status = make_engine(e);
    if (status != QN_OK) {
        qn_embedder_destroy(e);
        return status;
    }
    for (int64_t i = 0; i < e->how.n_pairs; i++)
        e->order[i] = (int32_t)i;
    *embedder = e;
    return QN_OK;
}

void qn_embedder_destroy(qn_embedder *e) {
    if (!e)
        return;
    qn_engine_destroy(e->engine);
    qn_release(e->allocator, e->order, (size_t)e->how.n_pairs, sizeof *e->order);
    qn_release(e->allocator, e, 1, sizeof *e);
}

/* ---- running ---- */

void qn_embedder_begin(qn_embedder *e) {
    for (int i = 0; i < qn_engine_tensor_count(e->engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(e->engine, i);
        if (t.is_state)
            memset(t.data, 0, t.bytes);
    }
    qn_engine_set_steps(e->engine, 0);
}

qn_status qn_embedder_step(qn_embedder *e, const float *x, const int32_t *label, float *loss) {
    QN_TRY(qn_engine_run(e->engine, TRAINING,
                         (const void *[]){x, label, e->how.is_plain ? NULL : e->order}));
    *loss = *(const float *)qn_engine_result(e->engine, TRAINING, 0);
    return QN_OK;
}

qn_status qn_embedder_embed(qn_embedder *e, const float *x, int n, float *z) {
    const int program = n == 1 ? EMBEDDING_ONE : EMBEDDING_MANY;
    QN_TRY(qn_engine_run(e->engine, program, (const void *[]){x}));
    memcpy(z, qn_engine_result(e->engine, program, 0), (size_t)n * QN_EMBEDDER_WIDTH * sizeof *z);
    return QN_OK;
}

/* ---- weights ---- */

int qn_embedder_weight_count(const qn_embedder *e) {
    int n = 0;
    for (int i = 0; i < qn_engine_tensor_count(e->engine); i++)
        n += !qn_engine_tensor_at(e->engine, i).is_state;
    return n;
}

qn_stored_tensor qn_embedder_weight_at(const qn_embedder *e, int index) {
    int seen = 0;
    for (int i = 0; i < qn_engine_tensor_count(e->engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(e->engine, i);
        if (!t.is_state && seen++ == index)
            return t;
    }
    return (qn_stored_tensor){.name = NULL};
}

size_t qn_embedder_size(const qn_embedder *e) {
    size_t bytes = 0;
    for (int i = 0; i < qn_engine_tensor_count(e->engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(e->engine, i);
        bytes += t.is_state ? 0 : t.bytes;
    }
    return bytes / sizeof(float);
}

void qn_embedder_copy_weights(const qn_embedder *e, float *weights) {
    for (int i = 0; i < qn_engine_tensor_count(e->engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(e->engine, i);
        if (t.is_state)
            continue;
        memcpy(weights, t.data, t.bytes);
        weights += t.bytes / sizeof(float);
    }
}

void qn_embedder_swap_weights(qn_embedder *e, float *weights) {
    for (int i = 0; i < qn_engine_tensor_count(e->engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(e->engine, i);
        float *own = t.data;
        for (size_t k = 0; !t.is_state && k < t.bytes / sizeof *own; k++) {
            const float held = own[k];
            own[k] = *weights;
            *weights++ = held;
        }
    }
}

size_t qn_embedder_bytes(const qn_embedder *e) {
    return qn_engine_get_memory(e->engine).held_bytes;
}

double qn_embedder_flops(const qn_embedder *e) {
    return e->flops;
}
