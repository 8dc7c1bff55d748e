/* Which samples are worth asking for; see asking.h. */
#include "label/network/asking.h"

#include "base/status.h"

#include <string.h>

enum { WIDTH = QN_EMBEDDER_WIDTH, IN_CLUSTER = 100 /* samples, about */, MOST_CLUSTERS = 60 };
static const float least_gain = 1.0f; /* samples that a question must be worth */
static const float near_part = 0.3f;  /* of the joining distance: an answer says nothing beyond */

/* ---- all that is kept ---- */

/* Puts the sample of a place to others for the embedder: labelled ones as they look by now. */
static void show(const qn_label_net *net, int place, uint8_t *room, float *x) {
    const uint8_t *bytes = net->bytes + (size_t)place * net->n_values;
    if (place < net->n_labelled) {
        qn_view_show(net->sample, &net->pose[place % QN_NET_POSES], net->seed, (uint64_t)place,
                     bytes, room);
        bytes = room;
    }
    qn_view_plain(net->sample, net->scale, bytes, x);
}

static qn_status embed_all(qn_label_net *net, qn_overview *o, uint8_t *room) {
    float many[QN_EMBEDDER_MANY * WIDTH];
    for (int begin = 0; begin < o->n; begin += QN_EMBEDDER_MANY) {
        const int n = o->n - begin < QN_EMBEDDER_MANY ? o->n - begin : QN_EMBEDDER_MANY;
        for (int i = 0; i < n; i++)
            show(net, begin + i, room, net->x + (size_t)i * net->n_values);
        QN_TRY(qn_embedder_embed(net->embedder, net->x, QN_EMBEDDER_MANY, many));
        memcpy(o->z + begin * WIDTH, many, (size_t)n * WIDTH * sizeof *many);
    }
    qn_whitening_apply(&net->whitening, o->n, o->z);
    return QN_OK;
}

/* Samples of found classes that have a name are in no doubt. */
static void trust_names(const qn_labeller *l, qn_overview *o) {
    const qn_label_net *net = l->net;
    int32_t named[QN_GROUPS_MOST] = {0};
    for (int i = net->n_labelled; i < o->n; i++)
        named[o->groups.of[i]] +=
            net->label[i] >= l->n_known && !qn_labeller_is_unnamed(l, net->label[i]);
    for (int k = 0; k < o->groups.k; k++)
        if (o->groups.size[k] > 0)
            o->doubt[k] *= 1.0f - (float)named[k] / (float)o->groups.size[k];
}

static int count_clusters(int n) {
    const int k = n / IN_CLUSTER;
    return k < QN_GROUPS_CLUSTERS ? QN_GROUPS_CLUSTERS : k < MOST_CLUSTERS ? k : MOST_CLUSTERS;
}

qn_status qn_overview_make(const qn_labeller *l, qn_arena *arena, qn_overview *o) {
    qn_label_net *net = l->net;
    const size_t n = (size_t)qn_net_used(net);
    *o = (qn_overview){.n = (int)n};
    o->z = qn_arena_allocate(arena, n * WIDTH, sizeof *o->z);
    o->groups.of = qn_arena_allocate(arena, n, sizeof *o->groups.of);
    o->groups.centre = qn_arena_allocate(arena, QN_GROUPS_MOST * WIDTH, sizeof *o->groups.centre);
    float *room = qn_arena_allocate(arena, n + (size_t)net->n_known * QN_GROUPS_MOST, sizeof *room);
    uint8_t *shown = qn_arena_allocate(arena, net->n_values, 1);
    if (!o->z || !o->groups.of || !o->groups.centre || !room || !shown)
        return QN_ERROR_MEMORY;
    qn_lesson_load(net, false);
    QN_TRY(embed_all(net, o, shown));
    const qn_group_samples samples = {.n = o->n,
                                      .n_labelled = net->n_labelled,
                                      .d = WIDTH,
                                      .n_classes = net->n_known,
                                      .k = count_clusters(o->n),
                                      .z = o->z,
                                      .label = net->label,
                                      .seed = net->seed};
    qn_groups_begin(&o->groups, &samples);
    while (qn_groups_go_on(&o->groups, &samples, room)) {
    }
    qn_groups_doubt(&o->groups, &samples, room, o->doubt, &o->joining);
    trust_names(l, o);
    return QN_OK;
}

/* ---- places of the window ---- */

int qn_net_place_of(const qn_labeller *l, int64_t age) {
    return l->net->n_labelled + (int)((l->n_samples - 1 - age) % QN_NET_WINDOW);
}

int64_t qn_net_age_of(const qn_labeller *l, int place) {
    const int64_t last = l->n_samples - l->net->n_recent - 1, at = place - l->net->n_labelled;
    return l->net->n_recent + (last - at) % QN_NET_WINDOW;
}

/* ---- questions ---- */

/* How far an answer in cluster a holds in b: 1, all of it, to 0. */
static float likeness(const qn_overview *o, int a, int b) {
    const float far =
        qn_square_distance(o->groups.centre + a * WIDTH, o->groups.centre + b * WIDTH, WIDTH);
    const float most = near_part * o->joining;
    return a == b ? 1.0f : far < most ? 1.0f - far / most : 0.0f;
}

static void settle(qn_overview *o, int cluster) {
    for (int k = 0; k < o->groups.k; k++)
        o->doubt[k] *= 1.0f - likeness(o, cluster, k);
}

/* The sample of the window that is nearest to the centre of each cluster, or -1. */
static void find_middles(const qn_label_net *net, const qn_overview *o, int *middle) {
    float least[QN_GROUPS_MOST];
    for (int k = 0; k < QN_GROUPS_MOST; k++)
        middle[k] = -1;
    for (int i = net->n_labelled; i < net->n_labelled + net->n_window; i++) {
        const int k = o->groups.of[i];
        const float far = qn_square_distance(o->z + i * WIDTH, o->groups.centre + k * WIDTH, WIDTH);
        if (!net->is_told[i] && (middle[k] < 0 || far < least[k])) {
            middle[k] = i;
            least[k] = far;
        }
    }
}

/* The cluster whose answer is worth most, or -1. */
static int choose(const qn_overview *o, const int *middle) {
    float most = least_gain;
    int best = -1;
    for (int k = 0; k < o->groups.k; k++) {
        float gain = 0;
        for (int j = 0; j < o->groups.k; j++)
            gain += o->doubt[j] * likeness(o, k, j);
        if (middle[k] >= 0 && gain > most) {
            most = gain;
            best = k;
        }
    }
    return best;
}

static qn_status ask(const qn_labeller *l, qn_arena *arena, int most, qn_label_question *questions,
                     int *n) {
    const qn_label_net *net = l->net;
    qn_overview o;
    int middle[QN_GROUPS_MOST];
    QN_TRY(qn_overview_make(l, arena, &o));
    for (int i = net->n_labelled; i < o.n; i++)
        if (net->is_told[i])
            settle(&o, o.groups.of[i]);
    find_middles(net, &o, middle);
    for (int k = choose(&o, middle); *n < most && k >= 0; k = choose(&o, middle)) {
        const int64_t age = qn_net_age_of(l, middle[k]);
        qn_label_answer now;
        qn_net_revise(l, age, NULL, &now);
        questions[(*n)++] = (qn_label_question){now.label, o.groups.size[k], age};
        middle[k] = -1;
        settle(&o, k);
    }
    return QN_OK;
}

qn_status qn_net_ask(const qn_labeller *l, int most, qn_label_question *questions, int *n) {
    qn_arena arena;
    *n = 0;
    if (l->net->n_window == 0)
        return QN_OK;
    qn_arena_init(&arena, l->allocator);
    const qn_status status = ask(l, &arena, most, questions, n);
    qn_arena_deinit(&arena);
    return status;
}
