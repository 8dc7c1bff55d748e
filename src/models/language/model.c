/* See model.h. */
#include "models/language/model.h"

#include "base/status.h"
#include "graph/graph.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

enum { USUAL_LENGTH = 256, USUAL_BATCH = 4, USUAL_WARMUP = 10 };

/* ---- tables ---- */

static qn_status make_tables(qn_language_model *m, qn_language_constants *c, int kind) {
    const qn_language_rotary *rotary = &m->language.rotary;
    const size_t n = (size_t)c->length, half = (size_t)(rotary->width / 2);
    c->cosines[kind] = qn_arena_allocate(&m->arena, n * half + 1, sizeof(float));
    c->sines[kind] = qn_arena_allocate(&m->arena, n * half + 1, sizeof(float));
    if (!c->cosines[kind] || !c->sines[kind])
        return QN_ERROR_MEMORY;
    if (half > 0)
        qn_language_fill_rotary(rotary, kind, 0, c->length, c->length, c->cosines[kind],
                                c->sines[kind]);
    return QN_OK;
}

qn_status qn_language_model_prepare(qn_language_model *m, int64_t length) {
    qn_language_constants made = {.length = length};
    const int64_t context = m->language.sizes[QN_LANGUAGE_CONTEXT];
    if (length > context)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a length of %lld tokens; %s was made for %lld at most: use a smaller "
                       "--length",
                       (long long)length, m->model.name, (long long)context);
    if (m->constants.length == length)
        return QN_OK;
    QN_TRY(make_tables(m, &made, 0));
    QN_TRY(make_tables(m, &made, 1));
    m->constants = made;
    return QN_OK;
}

/* A constant of a graph; its name says its length, since programs of several share one store. */
static qn_value constant(qn_graph *graph, const char *what, int kind, qn_shape shape,
                         const void *data, qn_dtype dtype) {
    static const char *const kinds[] = {"all", "window"};
    char name[96];
    qn_given given = {.dtype = dtype, .data = data};
    int64_t stride = 1;
    snprintf(name, sizeof name, QN_CONSTANT_PREFIX "%s.%s.%lld", what, kinds[kind],
             (long long)shape.dims[0]);
    for (int axis = shape.rank - 1; axis >= 0; axis--) {
        given.strides[axis] = stride;
        stride *= shape.dims[axis];
    }
    return qn_parameter_from(graph, name, shape, &given, false);
}

static bool has_local(const qn_language *language) {
    bool has = false;
    for (int64_t i = 0; i < language->sizes[QN_LANGUAGE_LAYERS]; i++)
        has = has || language->is_local[i];
    return has;
}

static bool has_global(const qn_language *language) {
    bool has = false;
    for (int64_t i = 0; i < language->sizes[QN_LANGUAGE_LAYERS]; i++)
        has = has || !language->is_local[i];
    return has;
}

void qn_language_model_tables(const qn_language_model *m, qn_graph *graph,
                              qn_language_tables *tables) {
    const qn_language_constants *c = &m->constants;
    const qn_shape shape = QN_SHAPE(c->length, m->language.rotary.width / 2);
    const bool is_used[2] = {has_global(&m->language), has_local(&m->language)};
    for (int kind = 0; kind < 2; kind++) {
        tables->cosines[kind] = tables->sines[kind] = QN_NO_VALUE;
        if (!is_used[kind] || shape.dims[1] == 0)
            continue;
        tables->cosines[kind] = constant(graph, "cosines", kind, shape, c->cosines[kind], QN_F32);
        tables->sines[kind] = constant(graph, "sines", kind, shape, c->sines[kind], QN_F32);
    }
}

/* ---- the network ---- */

/* As the task "tokens" has it: results are the loss and, where nothing is trained, the loss of each
 * label. A bare one's only result is the logits. */
static qn_value build_network(qn_graph *graph, void *user, const qn_network_sizes *sizes, int phase,
                              qn_value *kept) {
    qn_language_model *m = user;
    (void)phase;
    (void)kept;
    if (qn_language_model_prepare(m, sizes->length) != QN_OK) {
        qn_graph_fail(graph, QN_ERROR_ARGUMENT, "%s", qn_error_message());
        return QN_NO_VALUE;
    }
    qn_language_call call =
        qn_language_call_of(qn_index_input(graph, "tokens", QN_SHAPE(sizes->batch, sizes->length)));
    call.has_parameters = m->has_parameters;
    call.trains = m->has_parameters && qn_language_has_floats(&m->language);
    qn_language_model_tables(m, graph, &call.tables);
    const qn_value x = qn_language_build(graph, &m->language, &call, NULL);
    if (sizes->is_bare) {
        qn_result(graph, qn_language_logits(graph, &m->language, &call, x));
        return QN_NO_VALUE;
    }
    const qn_value labels =
        qn_label(graph, "labels", QN_I32, QN_SHAPE(sizes->batch * sizes->length));
    const qn_value losses = qn_language_losses(graph, &m->language, &call, x, labels);
    const qn_value loss = qn_mean_valid(graph, "loss", losses, labels);
    qn_result(graph, loss);
    if (!qn_graph_is_training(graph))
        qn_result(graph, losses);
    return loss;
}

/* ---- opening ---- */

static void describe_model(qn_language_model *m) {
    const int64_t *s = m->language.sizes;
    const int64_t context = s[QN_LANGUAGE_CONTEXT];
    m->model = (qn_model){
        .name = m->files->path,
        .domain = "language",
        .source = m->language.family->name,
        .user = m,
        .task = "tokens",
        .input_text = "tokens of text",
        .sizes = {.batch = 1,
                  .length = context < USUAL_LENGTH ? context : USUAL_LENGTH,
                  .n_inputs = s[QN_LANGUAGE_VOCABULARY],
                  .n_outputs = s[QN_LANGUAGE_VOCABULARY]},
        .network = build_network,
        .recipe = {.optimizer = QN_ADAMW,
                   .rate = 2e-4,
                   .schedule = QN_COSINE,
                   .warmup = USUAL_WARMUP,
                   .epochs = 1,
                   .batch = USUAL_BATCH,
                   .clip_norm = 1},
    };
}

static qn_status open_model(qn_language_model *m, const char *path) {
    QN_TRY(qn_pretrained_open(m->allocator, path, &m->files));
    QN_TRY(qn_language_describe(m->files, &m->language));
    QN_TRY(qn_language_check(&m->language));
    describe_model(m);
    return qn_language_read_special(&m->language, &m->special);
}

qn_status qn_language_model_open(const qn_allocator *allocator, const char *path,
                                 qn_language_model **model) {
    qn_language_model *m;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *m, &m));
    m->allocator = allocator;
    qn_arena_init(&m->arena, allocator);
    const qn_status status = open_model(m, path);
    if (status == QN_OK)
        *model = m;
    else
        qn_language_model_close(m);
    return status;
}

void qn_language_model_close(qn_language_model *m) {
    if (!m)
        return;
    qn_tokenizer_destroy(m->tokenizer);
    if (m->language.files)
        qn_language_deinit(&m->language);
    qn_pretrained_close(m->files);
    qn_arena_deinit(&m->arena);
    qn_release(m->allocator, m, 1, sizeof *m);
}

qn_language_model *qn_language_model_of(const qn_model *model) {
    return model && model->network == build_network ? model->user : NULL;
}

qn_status qn_language_model_tokenizer(qn_language_model *m, qn_tokenizer **tokenizer) {
    if (!m->tokenizer)
        QN_TRY(qn_tokenizer_open(m->allocator, m->files->path, &m->tokenizer));
    const int64_t rows = m->language.sizes[QN_LANGUAGE_VOCABULARY];
    if (qn_tokenizer_count(m->tokenizer) > rows)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: its tokenizer has %d tokens, and its embedding %lld rows: they are "
                       "of two models",
                       m->files->path, (int)qn_tokenizer_count(m->tokenizer), (long long)rows);
    *tokenizer = m->tokenizer;
    return QN_OK;
}

/* ---- weights ---- */

qn_status qn_language_model_fill(const qn_language_model *m, qn_engine *engine) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor to = qn_engine_tensor_at(engine, i);
        const qn_pretrained_tensor *from =
            to.is_state ? NULL : qn_language_tensor_of(&m->language, to.name);
        if (!from || !to.data)
            continue;
        qn_language_widen(&m->language, to.name, from, to.data);
        QN_TRY(qn_file_map_check(from->data));
    }
    return QN_OK;
}
