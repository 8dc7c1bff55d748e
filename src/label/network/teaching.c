/* What a lesson of a labeller with a network makes of groups of samples: classes, and a classifier;
 * see lesson.h. */
#include "base/fmath.h"
#include "label/network/net.h"

#include <string.h>

enum { WIDTH = QN_EMBEDDER_WIDTH, HEAD_STEPS = 60, ROUNDS = 3, REVIEW_ROUNDS = 4, GATHERED = 2048 };
static const float sure = 0.6f;        /* probability from which the classifier teaches itself */
static const float told_weight = 5.0f; /* of a sample whose class the user said */
static const float least_gradient = 1e-6f, least_in_review = 1e-2f; /* taken by relative size */
static const float own_part = 0.98f; /* of the classifier's probabilities beside cells' */
static const float least_overlap = 0.3f;
/* of a group with a class found before */

/* ---- found classes ---- */

/* The group of a sample of the stream, or -1. */
static int group_of(const qn_label_net *net, int place) {
    float probability;
    if (!net->lesson.by_arrival)
        return place < net->n_labelled + QN_NET_WINDOW ? net->groups.group[net->groups.of[place]]
                                                       : -1;
    const int class = qn_arrivals_class(&net->arrivals, net->groups.of[place],
                                        net->lesson.period[place], &probability);
    return class < net->n_known ? -1 : class - net->n_known;
}

/* Members of each group that had each found class before: overlap (groups, QN_LABEL_MAX_NEW). */
static void count_overlaps(const qn_label_net *net, int32_t (*overlap)[QN_LABEL_MAX_NEW],
                           int32_t *size) {
    memset(size, 0, QN_GROUPS_CLUSTERS * sizeof *size);
    memset(overlap, 0, QN_GROUPS_CLUSTERS * sizeof *overlap);
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        const int group = group_of(net, i);
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

/* A free place, or that of the class that was found first among those without samples; it begins
 * when the lesson ends. */
static int choose_place(qn_labeller *l, const bool *is_taken) {
    qn_lesson *lesson = &l->net->lesson;
    int best = -1;
    for (int p = 0; p < QN_LABEL_MAX_NEW; p++) {
        const qn_label_record *r = qn_labeller_found(l, p);
        if (is_taken[p] || (r->serial >= 0 && has_samples(l->net, l->n_known + p)))
            continue;
        if (best < 0 || r->serial < qn_labeller_found(l, best)->serial)
            best = p;
        if (r->serial < 0)
            break;
    }
    if (best >= 0)
        lesson->begun[lesson->n_begun++] = best;
    return best;
}

/* Gives groups the found classes that most of their members had, the largest overlaps first, and
 * those without one a new class. */
void qn_lesson_identify(qn_labeller *l) {
    int32_t *class = l->net->lesson.class;
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
        const int place = class[g] < 0 ? choose_place(l, is_taken) : -1;
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
        if (place < net->n_labelled || net->is_told[place])
            taught = net->label[place];
        else if (place < net->n_labelled + QN_NET_WINDOW) {
            const int group = net->groups.group[net->groups.of[place]];
            taught = group >= 0 ? class[group] : -1;
        } else if (net->label[place] >= net->n_known && net->confidence[place] > sure)
            taught = net->label[place];
        net->taught[place] = taught;
        net->weight[place] = net->is_told[place] ? told_weight : 1.0f;
    }
}

/* The same by arrivals: every sample is taught what it is most probably. */
static void begin_by_arrival(qn_label_net *net, const int32_t *class) {
    for (int i = 0; i < net->n_labelled; i++) {
        net->taught[i] = net->label[i];
        net->weight[i] = 1.0f;
    }
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        float p;
        const int found =
            qn_arrivals_class(&net->arrivals, net->groups.of[i], net->lesson.period[i], &p);
        net->taught[i] = found < net->n_known ? found : class[found - net->n_known];
        net->weight[i] = p * p;
    }
}

/* In a review every sample is taught all that it may be by its cell and period. */
static void begin_by_clues(qn_label_net *net, const int32_t *class) {
    const int outputs = net->head.n_outputs;
    float *share = net->lesson.share;
    for (int i = 0; i < qn_net_used(net); i++) {
        const bool is_told = i >= net->n_labelled && net->is_told[i];
        net->taught[i] = i < net->n_labelled || is_told ? net->label[i] : -1;
        net->weight[i] = is_told ? told_weight : 1.0f;
    }
    memset(share, 0, QN_ARRIVALS_CELLS * (size_t)outputs * sizeof *share);
    for (int k = 0; k < net->arrivals.n_cells; k++, share += outputs) {
        float sum = 1e-20f;
        for (int c = 0; c < net->n_known + net->arrivals.now.n; c++) {
            const int to = c < net->n_known ? c : class[c - net->n_known];
            if (to >= 0)
                sum += share[to] = qn_arrivals_share(&net->arrivals, c, k);
        }
        for (int c = 0; c < outputs; c++)
            share[c] /= sum;
    }
}

/* How much more often than on the whole classes come in each period. */
static void find_ratios(qn_label_net *net, const int32_t *class) {
    const int outputs = net->head.n_outputs;
    for (int i = 0; i < QN_ARRIVALS_PERIODS * outputs; i++)
        net->lesson.ratio[i] = 1.0f;
    if (!net->lesson.by_arrival)
        return;
    for (int c = 0; c < net->n_known + net->arrivals.now.n; c++) {
        const int to = c < net->n_known ? c : class[c - net->n_known];
        for (int b = 0; to >= 0 && b < net->arrivals.n_periods; b++)
            net->lesson.ratio[b * outputs + to] = qn_arrivals_ratio(&net->arrivals, c, b);
    }
}

/* Probabilities of the classes of a sample, in its period. */
static void look_at(const qn_label_net *net, int place, float *p) {
    const qn_head *head = &net->lesson.head;
    const float *ratio = net->lesson.ratio + net->lesson.period[place] * head->n_outputs;
    float sum = 1e-20f;
    qn_head_look(head, net->z + place * WIDTH, p);
    if (!net->lesson.by_arrival)
        return;
    for (int c = 0; c < head->n_outputs; c++)
        sum += p[c] *= ratio[c];
    for (int c = 0; c < head->n_outputs; c++)
        p[c] /= sum;
}

/* From now on classes come as often as in the last period. */
static void expect_latest(qn_label_net *net) {
    qn_head *head = &net->lesson.head;
    const float *ratio = net->lesson.ratio + (net->arrivals.n_periods - 1) * head->n_outputs;
    for (int c = 0; net->lesson.by_arrival && c < head->n_outputs; c++)
        if (net->lesson.is_open[c])
            head->weight[WIDTH * head->n_outputs + c] +=
                qn_log_f32(ratio[c] > 0.05f ? ratio[c] : 0.05f);
}

/* Whether samples are taught all that they may be, instead of what they are most probably. */
static bool is_by_clues(const qn_label_net *net) {
    return net->lesson.is_review && net->lesson.by_arrival;
}

static void open_classes(qn_label_net *net) {
    qn_lesson *lesson = &net->lesson;
    memset(lesson->is_open, 0, sizeof lesson->is_open);
    memset(lesson->is_open, 1, (size_t)net->n_known);
    for (int i = 0; i < qn_net_used(net); i++)
        if (net->taught[i] >= 0)
            lesson->is_open[net->taught[i]] = 1;
    for (int c = 0; is_by_clues(net) && c < net->arrivals.now.n; c++)
        if (lesson->class[c] >= 0)
            lesson->is_open[lesson->class[c]] = 1;
    qn_head_count_used(&lesson->head);
}

/* Labels all samples of the stream. */
static void label_all(qn_label_net *net) {
    qn_lesson *lesson = &net->lesson;
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        float p[QN_HEAD_MOST_OUTPUTS], is_new = 0;
        int best = 0;
        if (net->is_told[i]) {
            lesson->label[i] = net->label[i];
            lesson->confidence[i] = 1;
            lesson->is_new[i] = net->label[i] >= net->n_known ? 1.0f : 0.0f;
            continue;
        }
        look_at(net, i, p);
        for (int c = 0; c < lesson->head.n_outputs; c++) {
            best = p[c] > p[best] ? c : best;
            is_new += c >= net->n_known ? p[c] : 0.0f;
        }
        lesson->label[i] = best;
        lesson->confidence[i] = p[best];
        lesson->is_new[i] = is_new;
    }
}

static void teach_itself(qn_label_net *net) {
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        net->taught[i] = net->lesson.confidence[i] > sure ? net->lesson.label[i] : -1;
        net->weight[i] = net->lesson.by_arrival ? 1.0f : net->weight[i];
    }
}

/* Counts classes in periods anew, by what the classifier knows. */
static void count_anew(qn_label_net *net) {
    const int32_t *class = net->lesson.class;
    const int n = net->n_known + net->arrivals.now.n;
    float *mass = net->room;
    memset(mass, 0, (size_t)n * QN_ARRIVALS_PERIODS * sizeof *mass);
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        float p[QN_HEAD_MOST_OUTPUTS];
        look_at(net, i, p);
        for (int c = 0; c < n; c++) {
            const int to = c < net->n_known ? c : class[c - net->n_known];
            mass[c * QN_ARRIVALS_PERIODS + net->lesson.period[i]] += to >= 0 ? p[to] : 0.0f;
        }
    }
    qn_arrivals_set_rates(&net->arrivals, mass);
    find_ratios(net, class);
}

static int count_parts(const qn_label_net *net) {
    return (qn_net_used(net) + GATHERED - 1) / GATHERED;
}

static int count_rounds(const qn_label_net *net) {
    return is_by_clues(net) ? REVIEW_ROUNDS : ROUNDS;
}

int qn_lesson_teachings(const qn_label_net *net) {
    return 1 + count_rounds(net) * (HEAD_STEPS * count_parts(net) + 1);
}

/* Part `at` of the parts of a round's steps. */
static void fit_part(qn_label_net *net, int at, int round) {
    const int parts = count_parts(net), n = qn_net_used(net), begin = at % parts * GATHERED;
    qn_head *head = &net->lesson.head;
    const qn_head_clues clues = {net->lesson.period, net->lesson.ratio, net->groups.of,
                                 net->lesson.share, round == 0 ? 0.0f : own_part};
    qn_head_gather(head, begin, begin + GATHERED < n ? begin + GATHERED : n, net->z, net->taught,
                   net->weight, is_by_clues(net) ? &clues : NULL, net->room);
    if (at % parts < parts - 1)
        return;
    if (is_by_clues(net) && round > 0) /* small steps, so that no class jumps to another's place */
        qn_head_move(head, round * HEAD_STEPS + at / parts, REVIEW_ROUNDS * HEAD_STEPS,
                     least_in_review, net->room);
    else
        qn_head_move(head, at / parts, HEAD_STEPS, least_gradient, net->room);
}

static void begin(qn_label_net *net) {
    qn_head *head = &net->lesson.head;
    const int32_t *class = net->lesson.class;
    if (is_by_clues(net))
        begin_by_clues(net, class);
    else if (net->lesson.by_arrival)
        begin_by_arrival(net, class);
    else
        begin_teaching(net, class);
    find_ratios(net, class);
    open_classes(net);
    memset(head->weight, 0, (WIDTH + 1) * (size_t)head->n_outputs * sizeof *head->weight);
}

bool qn_lesson_teach(qn_label_net *net, int piece) {
    const int in_round = HEAD_STEPS * count_parts(net) + 1, at = (piece - 1) % in_round;
    if (piece == 0) {
        begin(net);
    } else if (at < in_round - 1) {
        fit_part(net, at, (piece - 1) / in_round);
    } else {
        label_all(net);
        if (is_by_clues(net))
            count_anew(net);
        else
            teach_itself(net);
    }
    if (piece + 1 == qn_lesson_teachings(net))
        expect_latest(net);
    return piece + 1 < qn_lesson_teachings(net);
}
