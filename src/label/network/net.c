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
    return net->n_labelled + QN_NET_WINDOW + net->old_capacity + QN_NET_DELAY;
}

int qn_net_used(const qn_label_net *net) {
    return net->n_labelled + net->n_window + net->n_old;
}

/* ---- making ---- */

static size_t batch_values(const qn_label_net *net) {
    const size_t n = 2 * QN_NET_PAIRS > QN_EMBEDDER_MANY ? 2 * QN_NET_PAIRS : QN_EMBEDDER_MANY;
    return (n + 1) * net->n_values; /* and room for a view */
}

static size_t room_floats(const qn_label_net *net) {
    const size_t head = 2 * (WIDTH + 1) * (size_t)net->head.n_outputs + 1;
    const size_t groups = (size_t)qn_net_places(net) + (size_t)net->n_known * QN_GROUPS_MOST;
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

enum { N_PARTS = 23 };

static void list_parts(qn_label_net *net, part parts[N_PARTS]) {
    const size_t n = (size_t)qn_net_places(net);
    const part all[N_PARTS] = {
        {&net->bytes, n, net->n_values},
        {&net->shown, (size_t)net->n_labelled, net->n_values},
        {&net->label, n, sizeof(int32_t)},
        {&net->confidence, n, sizeof(float)},
        {&net->is_new, n, sizeof(float)},
        {&net->is_told, n, 1},
        {&net->arrived, n, sizeof(int64_t)},
        {&net->z, n, WIDTH * sizeof(float)},
        {&net->x, batch_values(net), sizeof(float)},
        {&net->taught, n, sizeof(int32_t)},
        {&net->weight, n, sizeof(float)},
        {&net->room, room_floats(net), sizeof(float)},
        {&net->head.weight, head_floats(net), sizeof(float)},
        {&net->lesson.head.weight, head_floats(net), sizeof(float)},
        {&net->lesson.weights, net->embedder ? qn_embedder_size(net->embedder) : 0, sizeof(float)},
        {&net->lesson.label, n, sizeof(int32_t)},
        {&net->lesson.confidence, n, sizeof(float)},
        {&net->lesson.is_new, n, sizeof(float)},
        {&net->lesson.period, n, 1},
        {&net->lesson.ratio, QN_ARRIVALS_PERIODS * (size_t)net->head.n_outputs, sizeof(float)},
        {&net->lesson.share, QN_ARRIVALS_CELLS * (size_t)net->head.n_outputs, sizeof(float)},
        {&net->groups.centre, QN_GROUPS_MOST, WIDTH * sizeof(float)},
        {&net->groups.of, n, sizeof(int32_t)},
    };
    memcpy(parts, all, sizeof all);
}

static qn_status make_parts(qn_label_net *net) {
    part parts[N_PARTS];
    list_parts(net, parts);
    for (int i = 0; i < N_PARTS; i++)
        QN_TRY(qn_allocate(net->allocator, parts[i].n, parts[i].size, parts[i].at));
    net->head.is_open = net->is_open;
    net->lesson.head.is_open = net->lesson.is_open;
    net->lesson.head.d = net->head.d;
    net->lesson.head.n_outputs = net->head.n_outputs;
    return qn_arrivals_make(net->allocator, net->n_known, &net->arrivals);
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
    qn_status status = qn_embedder_create(&(qn_embedder_options){.allocator = allocator,
                                                                 .sample = sample,
                                                                 .n_outputs = made->head.n_outputs,
                                                                 .n_pairs = QN_NET_PAIRS,
                                                                 .seed = seed,
                                                                 .n_threads = n_threads},
                                          &made->embedder);
    if (status == QN_OK)
        status = make_parts(made);
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
    list_parts(net, parts);
    for (int i = 0; i < N_PARTS; i++)
        qn_release(net->allocator, *(void **)parts[i].at, parts[i].n, parts[i].size);
    qn_arrivals_destroy(&net->arrivals);
    qn_embedder_destroy(net->embedder);
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
    qn_lesson_begin(l, 0, QN_NET_FIRST_STEPS);
    return qn_lesson_follow(l, QN_NET_DELAY);
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

/* Where a sample that leaves the window goes among older ones; from their number on: nowhere. */
static uint64_t choose_older(const qn_label_net *net, int64_t number) {
    const qn_rng rng = qn_rng_make(net->seed, qn_hash_text("label.older"), (uint64_t)number);
    return number < net->old_capacity ? (uint64_t)number
                                      : qn_rng_below(rng, 0, (uint64_t)number + 1);
}

void qn_net_find_arrived(qn_label_net *net, int64_t n) {
    int64_t *window = net->arrived + net->n_labelled, *older = window + QN_NET_WINDOW;
    for (int64_t i = n > QN_NET_WINDOW ? n - QN_NET_WINDOW : 0; i < n; i++)
        window[i % QN_NET_WINDOW] = i;
    for (int64_t i = 0; i < n - QN_NET_WINDOW; i++) {
        const uint64_t to = choose_older(net, i);
        if (to < (uint64_t)net->old_capacity)
            older[to] = i;
    }
}

/* The place for sample `number` of the stream; what was there goes to the older ones, or is
 * forgotten: each of them is kept with the same probability (Vitter 1985, algorithm R). */
static int take_place(qn_label_net *net, int64_t number) {
    const int place = net->n_labelled + (int)(number % QN_NET_WINDOW);
    net->n_window += net->n_window < QN_NET_WINDOW;
    if (number < QN_NET_WINDOW) {
        net->arrived[place] = number;
        return place;
    }
    const int64_t n_left = number - QN_NET_WINDOW; /* the window before this one */
    const uint64_t to = choose_older(net, n_left);
    net->n_old += net->n_old < net->old_capacity;
    net->arrived[place] = number;
    if (to < (uint64_t)net->old_capacity) {
        const size_t older = (size_t)(net->n_labelled + QN_NET_WINDOW) + (size_t)to;
        memcpy(net->bytes + older * net->n_values, net->bytes + (size_t)place * net->n_values,
               net->n_values);
        net->label[older] = net->label[place];
        net->confidence[older] = net->confidence[place];
        net->is_new[older] = net->is_new[place];
        net->is_told[older] = net->is_told[place];
        net->arrived[older] = n_left;
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

/* What is known of a sample that is being added. */
typedef struct known {
    int32_t class;
    float confidence, is_new;
} known;

static void put(qn_label_net *net, int place, const uint8_t *bytes, const known *k) {
    memcpy(net->bytes + (size_t)place * net->n_values, bytes, net->n_values);
    net->label[place] = k->class;
    net->confidence[place] = k->confidence;
    net->is_new[place] = k->is_new;
    net->is_told[place] = 0;
}

/* Labels n recent samples from `first` on by features that are computed for them. */
static qn_status label_recent(qn_label_net *net, int first, int n, known *k) {
    float z[QN_EMBEDDER_MANY * WIDTH];
    for (int i = 0; i < n; i++)
        qn_view_plain(net->sample, net->scale,
                      net->bytes + (size_t)(qn_net_used(net) + first + i) * net->n_values,
                      net->x + (size_t)i * net->n_values);
    QN_TRY(qn_embedder_embed(net->embedder, net->x, QN_EMBEDDER_MANY, z));
    qn_whitening_apply(&net->whitening, n, z);
    for (int i = 0; i < n; i++)
        k[i].class = look(net, z + i * WIDTH, &k[i].confidence, &k[i].is_new);
    return QN_OK;
}

_Static_assert(QN_NET_DELAY <= QN_EMBEDDER_MANY * sizeof(float), "x holds recent samples");

qn_status qn_net_take_recent(qn_labeller *l) {
    qn_label_net *net = l->net;
    const int n = net->n_recent;
    uint8_t *held = (uint8_t *)net->x; /* places to take may be where recent samples are */
    known k[QN_NET_DELAY];
    for (int i = 0; i < n; i += QN_EMBEDDER_MANY)
        QN_TRY(label_recent(net, i, n - i < QN_EMBEDDER_MANY ? n - i : QN_EMBEDDER_MANY, k + i));
    memcpy(held, net->bytes + (size_t)qn_net_used(net) * net->n_values, (size_t)n * net->n_values);
    net->n_recent = 0;
    for (int i = 0; i < n; i++)
        put(net, take_place(net, l->n_samples - n + i), held + (size_t)i * net->n_values, &k[i]);
    return QN_OK;
}

/* What is due after a sample. */
static qn_status follow(qn_labeller *l) {
    qn_label_net *net = l->net;
    if (net->lesson.is_under_way)
        QN_TRY(qn_lesson_follow(l, l->n_samples - net->lesson.begun_at));
    l->n_window = net->n_window + net->n_recent;
    if (qn_lesson_before(l->n_samples) == l->n_samples)
        qn_lesson_begin(l, l->n_samples, QN_NET_STEPS);
    return QN_OK;
}

qn_status qn_net_add(qn_labeller *l, const float *x, qn_label_answer *answer) {
    qn_label_net *net = l->net;
    uint8_t *bytes = (uint8_t *)(net->x + net->n_values);
    float z[WIDTH];
    known k;
    for (size_t i = 0; i < net->n_values; i++)
        if (!__builtin_isfinite(x[i]))
            return qn_fail(QN_ERROR_ARGUMENT, "sample %lld: number %zu is not finite",
                           (long long)l->n_samples + 1, i + 1);
    to_bytes(net, x, bytes);
    qn_view_plain(net->sample, net->scale, bytes, net->x);
    qn_lesson_load(net, false);
    QN_TRY(qn_embedder_embed(net->embedder, net->x, 1, z));
    qn_whitening_apply(&net->whitening, 1, z);
    k.class = look(net, z, &k.confidence, &k.is_new);
    put(net,
        net->lesson.is_under_way ? qn_net_used(net) + net->n_recent++
                                 : take_place(net, l->n_samples),
        bytes, &k);
    *answer = answer_of(l, k.class, k.confidence, k.is_new);
    qn_labeller_count(l, answer->label);
    l->n_samples++;
    return follow(l);
}

qn_status qn_net_work(qn_labeller *l, bool *is_left) {
    *is_left = false;
    return l->net->lesson.is_under_way ? qn_lesson_work(l, is_left) : QN_OK;
}

void qn_net_revise(const qn_labeller *l, int64_t age, float *x, qn_label_answer *answer) {
    const qn_label_net *net = l->net;
    const int64_t number = l->n_samples - 1 - age, settled = l->n_samples - net->n_recent;
    const int place = number < settled ? net->n_labelled + (int)(number % QN_NET_WINDOW)
                                       : qn_net_used(net) + (int)(number - settled);
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
    const double clusters = 12.0 * n * QN_ARRIVALS_CELLS * 3;
    const double heads = 4.0 * 60 * n * net->head.n_outputs * 4;
    const double lesson = QN_NET_STEPS * 2.0 * QN_NET_PAIRS * 3 * embed +
                          n * (embed + WIDTH * WIDTH) + (clusters + heads) * WIDTH;
    list_parts(net, parts);
    cost.bytes += qn_arrivals_bytes(&net->arrivals);
    for (int i = 0; i < N_PARTS; i++)
        cost.bytes += parts[i].n * parts[i].size;
    cost.largest_flops = embed + 2 * lesson / QN_NET_DELAY;
    cost.mean_flops = embed + lesson / QN_NET_EVERY;
    return cost;
}
