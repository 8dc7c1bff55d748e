/* What a labeller with a network learns at once; see net.h. */
#include "label/network/net.h"

#include "base/rng.h"
#include "base/status.h"

#include <string.h>

enum { WIDTH = QN_EMBEDDER_WIDTH, HEAD_STEPS = 60, ROUNDS = 3 };
static const float sure = 0.6f;      /* probability from which the classifier teaches itself */
static const float very_sure = 0.8f; /* and from which it teaches the embedder */
static const float shrink = 0.3f;
static const float least_overlap = 0.3f; /* of a group with a class found before */

int qn_net_due(int64_t n_samples) {
    if (n_samples % QN_NET_EVERY == 0 || n_samples == QN_NET_EVERY / 2)
        return QN_NET_STEPS;
    return 0;
}

/* ---- the embedder ---- */

/* A sample as lessons see it: labelled ones as they look by now. */
static const uint8_t *bytes_of(const qn_label_net *net, size_t place) {
    return (place < (size_t)net->n_labelled ? net->shown : net->bytes) + place * net->n_values;
}

/* How the samples since the last lesson look. */
static void measure_pose(qn_label_net *net, int64_t n_samples) {
    int32_t order[QN_NET_EVERY];
    const int64_t due = n_samples % QN_NET_EVERY;
    const int n = (int)(due == 0 && n_samples > QN_NET_EVERY ? QN_NET_EVERY : QN_NET_EVERY / 2);
    if (n > net->n_window)
        return;
    for (int i = 0; i < n; i++)
        order[i] = (int32_t)((n_samples - 1 - i) % QN_NET_WINDOW);
    memmove(net->pose + 1, net->pose, (QN_NET_POSES - 1) * sizeof *net->pose);
    qn_pose_measure(net->pose,
                    &(qn_pose_samples){net->sample, net->n_labelled, n, net->bytes,
                                       net->bytes + (size_t)net->n_labelled * net->n_values, order},
                    net->room);
}

static void show_labelled(qn_label_net *net, int64_t n_samples) {
    for (int i = 0; i < net->n_labelled; i++)
        qn_view_show(net->sample, &net->pose[i % QN_NET_POSES], net->seed + (uint64_t)n_samples,
                     (uint64_t)i, net->bytes + (size_t)i * net->n_values,
                     net->shown + (size_t)i * net->n_values);
}

/* Half of a batch are labelled samples, half any others. */
static int draw_place(const qn_label_net *net, uint64_t number) {
    const qn_rng rng = qn_rng_make(net->seed, qn_hash_text("label.lesson"), number);
    const int n_others = net->n_window + net->n_old;
    if (number % 2 == 0 || n_others == 0)
        return (int)qn_rng_below(rng, 0, (uint64_t)net->n_labelled);
    return net->n_labelled + (int)qn_rng_below(rng, 0, (uint64_t)n_others);
}

static qn_status teach_embedder(qn_label_net *net, int n_steps) {
    float loss;
    float *room = net->x + 2 * QN_NET_PAIRS * net->n_values;
    qn_embedder_begin(net->embedder);
    for (int step = 0; step < n_steps; step++) {
        for (int i = 0; i < QN_NET_PAIRS; i++) {
            const uint64_t number = (uint64_t)net->n_drawn++;
            const size_t place = (size_t)draw_place(net, number);
            for (int view = 0; view < 2; view++) {
                const size_t to = (size_t)(i + view * QN_NET_PAIRS);
                qn_view_make(net->sample, net->scale, net->seed, 2 * number + (uint64_t)view,
                             bytes_of(net, place), net->x + to * net->n_values, room);
                net->taught[to] = net->confidence[place] > very_sure ? net->label[place] : -1;
            }
        }
        QN_TRY(qn_embedder_step(net->embedder, net->x, net->taught, &loss));
    }
    return QN_OK;
}

/* Features of all places in use. */
static qn_status embed_all(qn_label_net *net) {
    float many[QN_EMBEDDER_MANY * WIDTH];
    const int n = qn_net_used(net);
    for (int begin = 0; begin < n; begin += QN_EMBEDDER_MANY) {
        const int n_now = n - begin < QN_EMBEDDER_MANY ? n - begin : QN_EMBEDDER_MANY;
        for (int i = 0; i < n_now; i++)
            qn_view_plain(net->sample, net->scale, bytes_of(net, (size_t)(begin + i)),
                          net->x + (size_t)i * net->n_values);
        QN_TRY(qn_embedder_embed(net->embedder, net->x, QN_EMBEDDER_MANY, many));
        for (int i = 0; i < n_now; i++)
            memcpy(net->z + (begin + i) * WIDTH, many + i * WIDTH, WIDTH * sizeof *many);
    }
    return QN_OK;
}

static void whiten(qn_label_net *net) {
    qn_whitening_measure(&net->whitening, net->n_labelled, WIDTH, net->z, net->label, net->n_known,
                         shrink, net->room);
    qn_whitening_apply(&net->whitening, qn_net_used(net), net->z);
}

/* ---- found classes ---- */

/* Members of each group that had each found class before: overlap (groups, QN_LABEL_MAX_NEW). */
static void count_overlaps(const qn_label_net *net, int32_t (*overlap)[QN_LABEL_MAX_NEW],
                           int32_t *size) {
    memset(size, 0, QN_GROUPS_CLUSTERS * sizeof *size);
    memset(overlap, 0, QN_GROUPS_CLUSTERS * sizeof *overlap);
    for (int i = net->n_labelled; i < net->n_labelled + net->n_window; i++) {
        const int group = net->groups.group[net->groups.of[i]];
        if (group < 0)
            continue;
        size[group]++;
        if (net->label[i] >= net->n_known)
            overlap[group][net->label[i] - net->n_known]++;
    }
}

/* Whether a found class has samples left. */
static bool has_samples(const qn_label_net *net, int class) {
    for (int i = net->n_labelled; i < qn_net_used(net); i++)
        if (net->label[i] == class)
            return true;
    return false;
}

static int begin_class(qn_labeller *l, const bool *is_taken) {
    int best = -1;
    for (int p = 0; p < QN_LABEL_MAX_NEW; p++) {
        const qn_label_record *r = qn_labeller_found(l, p);
        if (is_taken[p] || (r->serial >= 0 && has_samples(l->net, l->n_known + p)))
            continue;
        if (best < 0 || r->serial < 0 || r->last < qn_labeller_found(l, best)->last)
            best = p;
        if (r->serial < 0)
            break;
    }
    if (best >= 0)
        qn_labeller_begin_class(l, best);
    return best;
}

/* Gives groups the found classes that most of their members had, the largest overlaps first, and
 * those without one a new class. class (groups). */
static void identify(qn_labeller *l, int32_t *class) {
    int32_t overlap[QN_GROUPS_CLUSTERS][QN_LABEL_MAX_NEW], size[QN_GROUPS_CLUSTERS];
    bool is_taken[QN_LABEL_MAX_NEW] = {false};
    const int n = l->net->groups.n;
    count_overlaps(l->net, overlap, size);
    for (int g = 0; g < n; g++)
        class[g] = -1;
    for (;;) {
        int best = -1, at = -1;
        for (int g = 0; g < n; g++)
            for (int p = 0; p < QN_LABEL_MAX_NEW && class[g] < 0; p++)
                if (!is_taken[p] && (float)overlap[g][p] > least_overlap * (float)size[g] &&
                    (best < 0 || overlap[g][p] > overlap[best][at])) {
                    best = g;
                    at = p;
                }
        if (best < 0)
            break;
        class[best] = l->n_known + at;
        is_taken[at] = true;
    }
    for (int g = 0; g < n; g++) {
        const int place = class[g] < 0 ? begin_class(l, is_taken) : -1;
        if (place >= 0) {
            class[g] = l->n_known + place;
            is_taken[place] = true;
        }
    }
}

/* ---- the classifier ---- */

/* What it is taught first: the labelled samples, groups of the window, and what older ones of found
 * classes were. */
static void begin_teaching(qn_label_net *net, const int32_t *class) {
    for (int i = 0; i < qn_net_used(net); i++) {
        const int place = i;
        int taught = -1;
        if (place < net->n_labelled)
            taught = net->label[place];
        else if (place < net->n_labelled + QN_NET_WINDOW) {
            const int group = net->groups.group[net->groups.of[place]];
            taught = group >= 0 ? class[group] : -1;
        } else if (net->label[place] >= net->n_known && net->confidence[place] > sure)
            taught = net->label[place];
        net->taught[place] = taught;
        net->weight[place] = 1;
    }
}

static void open_classes(qn_label_net *net) {
    memset(net->is_open, 0, sizeof net->is_open);
    memset(net->is_open, 1, (size_t)net->n_known);
    for (int i = 0; i < qn_net_used(net); i++)
        if (net->taught[i] >= 0)
            net->is_open[net->taught[i]] = 1;
}

/* Labels all samples of the stream. */
static void label_all(qn_label_net *net) {
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        float p[QN_HEAD_MOST_OUTPUTS], is_new = 0;
        const int place = i;
        int best = 0;
        qn_head_look(&net->head, net->z + place * WIDTH, p);
        for (int c = 0; c < net->head.n_outputs; c++) {
            best = p[c] > p[best] ? c : best;
            is_new += c >= net->n_known ? p[c] : 0.0f;
        }
        net->label[place] = best;
        net->confidence[place] = p[best];
        net->is_new[place] = is_new;
    }
}

static void teach_itself(qn_label_net *net) {
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        const int place = i;
        net->taught[place] = net->confidence[place] > sure ? net->label[place] : -1;
    }
}

static void teach_classifier(qn_label_net *net, const int32_t *class) {
    begin_teaching(net, class);
    open_classes(net);
    memset(net->head.weight, 0,
           (WIDTH + 1) * (size_t)net->head.n_outputs * sizeof *net->head.weight);
    for (int round = 0; round < ROUNDS; round++) {
        qn_head_fit(&net->head, qn_net_used(net), net->z, net->taught, net->weight, HEAD_STEPS,
                    net->room);
        label_all(net);
        teach_itself(net);
    }
}

qn_status qn_net_learn(qn_labeller *l, int n_steps) {
    qn_label_net *net = l->net;
    int32_t class[QN_GROUPS_CLUSTERS];
    measure_pose(net, l->n_samples);
    show_labelled(net, l->n_samples);
    QN_TRY(teach_embedder(net, n_steps));
    QN_TRY(embed_all(net));
    whiten(net);
    net->groups.n = 0;
    if (net->n_window > 0)
        qn_groups_find(&net->groups,
                       &(qn_group_samples){.n = net->n_labelled + net->n_window,
                                           .n_labelled = net->n_labelled,
                                           .d = WIDTH,
                                           .n_classes = net->n_known,
                                           .z = net->z,
                                           .label = net->label,
                                           .seed = net->seed + (uint64_t)l->n_samples},
                       net->room);
    identify(l, class);
    teach_classifier(net, class);
    return QN_OK;
}
