/* Making a labeller with a network, and its answers; see net.h. */
#include "label/network/net.h"

#include "base/rng.h"
#include "base/status.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

enum { WIDTH = QN_EMBEDDER_WIDTH, LANES = 16 };
static const size_t kept_bytes = 6 << 20; /* of older samples, about */

int qn_net_places(const qn_label_net *net) {
    return net->n_labelled + QN_NET_WINDOW + net->old_capacity;
}

int qn_net_used(const qn_label_net *net) {
    return net->n_labelled + net->n_window + net->n_old;
}

/* ---- making ---- */

static size_t batch_values(const qn_label_net *net) {
    return (2 * QN_NET_PAIRS + 1) * net->n_values; /* and room for a view */
}

static size_t room_floats(const qn_label_net *net) {
    const size_t head = 2 * (WIDTH + 1) * (size_t)net->head.n_outputs;
    const size_t groups =
        (size_t)(net->n_labelled + QN_NET_WINDOW) + (size_t)net->n_known * QN_GROUPS_CLUSTERS;
    const size_t means = (size_t)net->n_known * (WIDTH + 1);
    const size_t pose = qn_pose_room(net->sample);
    return head + groups + means > pose ? head + groups + means : pose;
}

static size_t head_floats(const qn_label_net *net) {
    return (WIDTH + 1) * (size_t)net->head.n_outputs;
}

/* The arrays of a net, for making and releasing them alike. */
typedef struct part {
    void *at; /* where its pointer is */
    size_t n, size;
} part;

enum { N_PARTS = 12 };

static void list_parts(qn_label_net *net, part parts[N_PARTS]) {
    const size_t n = (size_t)qn_net_places(net);
    const part all[N_PARTS] = {
        {&net->bytes, n, net->n_values},
        {&net->shown, (size_t)net->n_labelled, net->n_values},
        {&net->label, n, sizeof(int32_t)},
        {&net->confidence, n, sizeof(float)},
        {&net->is_new, n, sizeof(float)},
        {&net->z, n, WIDTH * sizeof(float)},
        {&net->x, batch_values(net), sizeof(float)},
        {&net->taught, n, sizeof(int32_t)},
        {&net->weight, n, sizeof(float)},
        {&net->room, room_floats(net), sizeof(float)},
        {&net->head.weight, head_floats(net), sizeof(float)},
        {&net->groups.centre, QN_GROUPS_CLUSTERS, WIDTH * sizeof(float)},
    };
    memcpy(parts, all, sizeof all);
}

static qn_status make_parts(qn_label_net *net) {
    part parts[N_PARTS];
    list_parts(net, parts);
    for (int i = 0; i < N_PARTS; i++)
        QN_TRY(qn_allocate(net->allocator, parts[i].n, parts[i].size, parts[i].at));
    net->head.is_open = net->is_open;
    return qn_allocate(net->allocator, (size_t)(net->n_labelled + QN_NET_WINDOW), sizeof(int32_t),
                       &net->groups.of);
}

static int old_capacity(size_t bytes) {
    const size_t n = kept_bytes / bytes;
    return n < 256 ? 256 : n > 8192 ? 8192 : (int)n;
}

qn_status qn_net_make(const qn_allocator *allocator, qn_shape sample, int n_known, int n_labelled,
                      uint64_t seed, int n_threads, qn_label_net **net) {
    qn_label_net *made;
    const size_t n_values = (size_t)qn_shape_count(sample);
    QN_TRY(qn_allocate(allocator, 1, sizeof *made, &made));
    *made = (qn_label_net){.allocator = allocator,
                           .sample = sample,
                           .n_values = n_values,
                           .step = 1,
                           .scale = {0, 1},
                           .n_known = n_known,
                           .n_labelled = n_labelled,
                           .old_capacity = old_capacity(n_values),
                           .seed = seed};
    made->head.d = WIDTH;
    made->head.n_outputs = (n_known + QN_LABEL_MAX_NEW + LANES - 1) / LANES * LANES;
    qn_status status = make_parts(made);
    if (status == QN_OK)
        status = qn_embedder_create(&(qn_embedder_options){.allocator = allocator,
                                                           .sample = sample,
                                                           .n_outputs = made->head.n_outputs,
                                                           .n_pairs = QN_NET_PAIRS,
                                                           .seed = seed,
                                                           .n_threads = n_threads},
                                    &made->embedder);
    if (status != QN_OK) {
        qn_net_destroy(made);
        return status;
    }
    *net = made;
    return QN_OK;
}

void qn_net_destroy(qn_label_net *net) {
    part parts[N_PARTS];
    if (!net)
        return;
    qn_embedder_destroy(net->embedder);
    list_parts(net, parts);
    for (int i = 0; i < N_PARTS; i++)
        qn_release(net->allocator, *(void **)parts[i].at, parts[i].n, parts[i].size);
    qn_release(net->allocator, net->groups.of, (size_t)(net->n_labelled + QN_NET_WINDOW),
               sizeof(int32_t));
    qn_release(net->allocator, net, 1, sizeof *net);
}

/* ---- the labelled samples ---- */

static void to_bytes(const qn_label_net *net, const float *x, uint8_t *bytes) {
    const float each = 1.0f / net->step;
    for (size_t i = 0; i < net->n_values; i++) {
        const float at = (x[i] - net->low) * each + 0.5f;
        bytes[i] = at < 0 ? 0 : at >= 255.0f ? 255 : (uint8_t)at;
    }
}

/* Whole numbers from 0 to 255 are taken as they are; others by their range. */
static void choose_bytes(qn_label_net *net, const float *x, size_t n) {
    float least = x[0], most = x[0];
    bool are_bytes = true;
    for (size_t i = 0; i < n; i++) {
        least = x[i] < least ? x[i] : least;
        most = x[i] > most ? x[i] : most;
        are_bytes &= x[i] >= 0 && x[i] <= 255.0f && x[i] == (float)(int)x[i];
    }
    net->low = are_bytes ? 0 : least;
    net->step = are_bytes && most > 1.0f ? 1.0f : (most - least) / 255.0f;
    net->step = net->step > 1e-30f ? net->step : 1.0f;
}

/* Mean 0 and deviation 1 of all numbers together, for the network. */
static void measure_scale(qn_label_net *net) {
    double sum = 0, square = 0;
    const size_t n = (size_t)net->n_labelled * net->n_values;
    for (size_t i = 0; i < n; i++) {
        sum += net->bytes[i];
        square += (double)net->bytes[i] * net->bytes[i];
    }
    const double mean = sum / (double)n, variance = square / (double)n - mean * mean;
    net->scale.shift = (float)mean;
    net->scale.factor = variance > 1e-6 ? (float)(1 / __builtin_sqrt(variance)) : 1.0f;
}

/* All samples, or so many of them drawn by seed. */
static void take_labelled(qn_label_net *net, const qn_label_options *o) {
    const qn_rng rng = qn_rng_make(net->seed, qn_hash_text("label.labelled"), 0);
    choose_bytes(net, o->x, (size_t)o->n_samples * net->n_values);
    for (int i = 0; i < net->n_labelled; i++) {
        const int64_t from =
            net->n_labelled == o->n_samples
                ? i
                : (int64_t)qn_rng_permute(rng, (uint64_t)i, (uint64_t)o->n_samples);
        to_bytes(net, o->x + (size_t)from * net->n_values, net->bytes + (size_t)i * net->n_values);
        net->label[i] = o->label[from];
        net->confidence[i] = 1;
    }
    measure_scale(net);
}

static qn_status fill(qn_labeller *l, const qn_label_options *o) {
    const int n = o->n_samples < QN_NET_MOST_LABELLED ? (int)o->n_samples : QN_NET_MOST_LABELLED;
    QN_TRY(qn_net_make(l->allocator, o->sample, o->n_classes, n, o->seed, o->n_threads, &l->net));
    take_labelled(l->net, o);
    return qn_net_learn(l, QN_NET_FIRST_STEPS);
}

qn_status qn_net_create(const qn_label_options *options, qn_labeller **labeller) {
    qn_labeller *l;
    QN_TRY(qn_labeller_make_empty(options->allocator, options->n_classes, &l));
    l->d = (int)qn_shape_count(options->sample);
    l->seed = options->seed;
    qn_labeller_begin_records(l, options);
    const qn_status status = fill(l, options);
    if (status != QN_OK) {
        qn_labeller_destroy(l);
        return status;
    }
    *labeller = l;
    return QN_OK;
}

/* ---- answers ---- */

static qn_label_answer answer_of(const qn_labeller *l, int class, float confidence, float is_new) {
    const int place = class - l->n_known;
    const int64_t label =
        class < l->n_known ? class : l->n_known + qn_labeller_found(l, place)->serial;
    return (qn_label_answer){class < 0 ? QN_LABEL_UNSURE : label, confidence, is_new};
}

/* The place for a sample of the stream; what was there goes to the older ones, or is forgotten:
 * each of them is kept with the same probability (Vitter 1985, algorithm R). */
static int take_place(qn_label_net *net, int64_t n_samples) {
    const int place = net->n_labelled + (int)(n_samples % QN_NET_WINDOW);
    if (net->n_window < QN_NET_WINDOW) {
        net->n_window++;
        return place;
    }
    const uint64_t n_left = (uint64_t)(n_samples - QN_NET_WINDOW); /* the window before this one */
    const qn_rng rng = qn_rng_make(net->seed, qn_hash_text("label.older"), n_left);
    uint64_t to = (uint64_t)net->n_old;
    if (net->n_old == net->old_capacity)
        to = qn_rng_below(rng, 0, n_left + 1);
    else
        net->n_old++;
    if (to < (uint64_t)net->old_capacity) {
        const size_t older = (size_t)(net->n_labelled + QN_NET_WINDOW) + (size_t)to;
        memcpy(net->bytes + older * net->n_values, net->bytes + (size_t)place * net->n_values,
               net->n_values);
        net->label[older] = net->label[place];
        net->confidence[older] = net->confidence[place];
        net->is_new[older] = net->is_new[place];
    }
    return place;
}

static int look(const qn_label_net *net, const float *z, float *confidence, float *is_new) {
    float p[QN_HEAD_MOST_OUTPUTS];
    int best = 0;
    qn_head_look(&net->head, z, p);
    *is_new = 0;
    for (int c = 0; c < net->head.n_outputs; c++) {
        best = p[c] > p[best] ? c : best;
        *is_new += c >= net->n_known ? p[c] : 0.0f;
    }
    *confidence = p[best];
    return best;
}

qn_status qn_net_add(qn_labeller *l, const float *x, qn_label_answer *answer) {
    qn_label_net *net = l->net;
    uint8_t *bytes = (uint8_t *)(net->x + net->n_values);
    float z[WIDTH], confidence, is_new;
    for (size_t i = 0; i < net->n_values; i++)
        if (!__builtin_isfinite(x[i]))
            return qn_fail(QN_ERROR_ARGUMENT, "sample %lld: number %zu is not finite",
                           (long long)l->n_samples + 1, i + 1);
    to_bytes(net, x, bytes);
    qn_view_plain(net->sample, net->scale, bytes, net->x);
    QN_TRY(qn_embedder_embed(net->embedder, net->x, 1, z));
    qn_whitening_apply(&net->whitening, 1, z);
    const int class = look(net, z, &confidence, &is_new);
    const int place = take_place(net, l->n_samples);
    memcpy(net->bytes + (size_t)place * net->n_values, bytes, net->n_values);
    net->label[place] = class;
    net->confidence[place] = confidence;
    net->is_new[place] = is_new;
    *answer = answer_of(l, class, confidence, is_new);
    l->n_window = net->n_window;
    l->window_at = (int32_t)((l->n_samples + 1) % QN_NET_WINDOW);
    qn_labeller_count(l, answer->label);
    l->n_samples++;
    const int n_steps = qn_net_due(l->n_samples);
    return n_steps > 0 ? qn_net_learn(l, n_steps) : QN_OK;
}

void qn_net_revise(const qn_labeller *l, int64_t age, float *x, qn_label_answer *answer) {
    const qn_label_net *net = l->net;
    const int64_t back = (l->n_samples - 1 - age) % QN_NET_WINDOW;
    const int place = net->n_labelled + (int)back;
    *answer = answer_of(l, net->label[place], net->confidence[place], net->is_new[place]);
    const uint8_t *bytes = net->bytes + (size_t)place * net->n_values;
    for (size_t i = 0; x && i < net->n_values; i++)
        x[i] = net->low + net->step * (float)bytes[i];
}

double qn_net_share(const qn_label_net *net, int class) {
    int n = 0;
    for (int i = 0; i < net->n_window; i++)
        n += net->label[net->n_labelled + i] == class;
    return net->n_window > 0 ? (double)n / net->n_window : 0.0;
}

qn_label_cost qn_net_get_cost(const qn_labeller *l) {
    part parts[N_PARTS];
    qn_label_net *net = l->net;
    qn_label_cost cost = {.bytes = sizeof *l + sizeof *net + qn_embedder_bytes(net->embedder)};
    const double n = qn_net_places(net), embed = qn_embedder_flops(net->embedder);
    const double clusters = 20.0 * (net->n_labelled + QN_NET_WINDOW) * QN_GROUPS_CLUSTERS * 3;
    const double heads = 4.0 * 60 * n * net->head.n_outputs * 4;
    list_parts(net, parts);
    for (int i = 0; i < N_PARTS; i++)
        cost.bytes += parts[i].n * parts[i].size;
    cost.largest_flops = QN_NET_STEPS * 2.0 * QN_NET_PAIRS * 3 * embed +
                         n * (embed + WIDTH * WIDTH) + (clusters + heads) * WIDTH;
    cost.mean_flops = embed + cost.largest_flops / QN_NET_EVERY;
    return cost;
}
