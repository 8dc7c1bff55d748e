/* See consistency.h. */
#include "label/bench/consistency.h"

#include "base/fmath.h"
#include "base/rng.h"
#include "base/status.h"

#include <string.h>

enum { WIDTH = QN_EMBEDDER_WIDTH, PAIRS = QN_NET_PAIRS, MANY = QN_EMBEDDER_MANY };
enum { STEPS_AT_ONCE = MANY / PAIRS }; /* that one look at unaltered samples is for */
static const float sure = 0.95f;       /* as published */

qn_status qn_consistency_init(qn_consistency *c, const qn_label_net *net, int n_threads) {
    *c = (qn_consistency){.allocator = net->allocator,
                          .n_known = net->n_known,
                          .n_batch = (size_t)(MANY + 1) * net->n_values,
                          .seed = net->seed};
    const qn_embedder_options options = {.allocator = net->allocator,
                                         .sample = net->sample,
                                         .n_outputs = net->n_known,
                                         .n_pairs = PAIRS,
                                         .is_plain = true,
                                         .seed = net->seed,
                                         .n_threads = n_threads};
    QN_TRY(qn_embedder_create(&options, &c->embedder));
    const qn_status status = qn_allocate(net->allocator, c->n_batch, sizeof *c->x, &c->x);
    if (status != QN_OK)
        qn_embedder_destroy(c->embedder);
    return status;
}

void qn_consistency_deinit(qn_consistency *c) {
    if (!c->x)
        return;
    qn_embedder_destroy(c->embedder);
    qn_release(c->allocator, c->x, c->n_batch, sizeof *c->x);
}

static const float *weights_of(const qn_embedder *e, const char *name) {
    for (int i = 0; i < qn_embedder_weight_count(e); i++) {
        const qn_stored_tensor t = qn_embedder_weight_at(e, i);
        if (strcmp(t.name, name) == 0)
            return t.data;
    }
    return NULL;
}

/* The likeliest class of a sample's features, and its probability. */
static int classify(const qn_consistency *c, const float *z, float *p) {
    const float *weight = weights_of(c->embedder, "head.weight"); /* (n_known, WIDTH) */
    const float *bias = weights_of(c->embedder, "head.bias");
    float say[QN_HEAD_MOST_OUTPUTS], sum = 0;
    int best = 0;
    for (int k = 0; k < c->n_known; k++) {
        say[k] = bias[k];
        for (int j = 0; j < WIDTH; j++)
            say[k] += weight[k * WIDTH + j] * z[j];
        best = say[k] > say[best] ? k : best;
    }
    for (int k = 0; k < c->n_known; k++)
        sum += qn_exp_f32(say[k] - say[best]);
    *p = 1 / sum;
    return best;
}

static const uint8_t *bytes_at(const qn_label_net *net, int place) {
    return net->bytes + (size_t)place * net->n_values;
}

/* Classes and probabilities of samples as they are, at most MANY of them. */
static qn_status look(qn_consistency *c, const qn_label_net *net, const int32_t *places, int n,
                      int32_t *class, float *p) {
    float z[MANY * WIDTH];
    for (int i = 0; i < n; i++)
        qn_view_plain(net->sample, net->scale, bytes_at(net, places[i]),
                      c->x + (size_t)i * net->n_values);
    QN_TRY(qn_embedder_embed(c->embedder, c->x, MANY, z));
    for (int i = 0; i < n; i++)
        class[i] = classify(c, z + i * WIDTH, &p[i]);
    return QN_OK;
}

/* A batch: altered views of labelled samples, then of samples of the stream with what was said of
 * them. */
static qn_status step(qn_consistency *c, const qn_label_net *net, const int32_t *places,
                      const int32_t *class, const float *p) {
    const qn_rng rng = qn_rng_make(c->seed, qn_hash_text("label.consistency"), 0);
    float loss, *room = c->x + (size_t)MANY * net->n_values;
    int32_t taught[2 * PAIRS];
    for (int i = 0; i < 2 * PAIRS; i++) {
        const uint64_t number = (uint64_t)c->n_drawn++;
        const bool is_labelled = i < PAIRS || net->n_window == 0;
        const int place = is_labelled ? (int)qn_rng_below(rng, number, (uint64_t)net->n_labelled)
                                      : places[i - PAIRS];
        taught[i] = is_labelled ? net->label[place] : p[i - PAIRS] > sure ? class[i - PAIRS] : -1;
        qn_view_make(net->sample, net->scale, c->seed + 1, number, bytes_at(net, place),
                     c->x + (size_t)i * net->n_values, room);
    }
    return qn_embedder_step(c->embedder, c->x, taught, &loss);
}

qn_status qn_consistency_learn(qn_consistency *c, const qn_label_net *net, int n_steps) {
    const qn_rng rng = qn_rng_make(c->seed, qn_hash_text("label.consistency.stream"), 0);
    int32_t places[MANY], class[MANY];
    float p[MANY];
    qn_embedder_begin(c->embedder);
    for (int at = 0; at < n_steps; at++) {
        const int part = at % STEPS_AT_ONCE * PAIRS;
        for (int i = 0; i < MANY && part == 0 && net->n_window > 0; i++)
            places[i] = net->n_labelled +
                        (int)qn_rng_below(rng, (uint64_t)(c->n_drawn + i), (uint64_t)net->n_window);
        if (part == 0 && net->n_window > 0)
            QN_TRY(look(c, net, places, MANY, class, p));
        QN_TRY(step(c, net, places + part, class + part, p + part));
    }
    return QN_OK;
}

qn_status qn_consistency_answer(qn_consistency *c, const qn_label_net *net, int32_t *answers) {
    const int n = net->n_labelled + net->n_window;
    int32_t places[MANY];
    float p[MANY];
    for (int begin = 0; begin < n; begin += MANY) {
        const int n_now = n - begin < MANY ? n - begin : MANY;
        for (int i = 0; i < n_now; i++)
            places[i] = begin + i;
        QN_TRY(look(c, net, places, n_now, answers + begin, p));
    }
    return QN_OK;
}
