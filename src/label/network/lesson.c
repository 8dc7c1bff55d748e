/* The order of a lesson's pieces; see lesson.h. */
#include "label/network/lesson.h"

#include "base/rng.h"
#include "base/status.h"
#include "label/network/net.h"

#include <string.h>

enum { WIDTH = QN_EMBEDDER_WIDTH, SHOWN = 32, WHITENED = 1024 };
enum { POSE, SHOW, STEPS, EMBED, WHITEN, CLUSTER, ARRIVE, JOIN, TEACH, DONE };
enum { CELL_MOVES = 10, IN_CELL = 20, BUCKETS = 2048 };
static const float very_sure = 0.8f; /* confidence from which labels teach the embedder */
static const float shrink = 0.3f;
/* Changes of the pose that hardly matter. */
static const float slight[QN_POSE_PARTS] = {
    [QN_POSE_ANGLE] = 0.09f, [QN_POSE_LIGHT] = 0.15f, [QN_POSE_NOISE] = 6.0f};
static const float there_from_begin = 0.15f; /* part of the first samples */

int64_t qn_lesson_before(int64_t n) {
    return n >= QN_NET_EVERY       ? n / QN_NET_EVERY * QN_NET_EVERY
           : n >= QN_NET_EVERY / 2 ? QN_NET_EVERY / 2
                                   : -1;
}

void qn_lesson_load(qn_label_net *net, bool is_lesson) {
    qn_lesson *lesson = &net->lesson;
    if (!lesson->is_under_way || lesson->is_loaded == is_lesson)
        return;
    qn_embedder_swap_weights(net->embedder, lesson->weights);
    lesson->is_loaded = is_lesson;
}

void qn_lesson_begin(qn_labeller *l, int64_t begun_at, int n_steps) {
    qn_label_net *net = l->net;
    qn_lesson *lesson = &net->lesson;
    qn_embedder_copy_weights(net->embedder, lesson->weights);
    lesson->begun_at = begun_at;
    lesson->is_under_way = lesson->is_loaded = true;
    lesson->phase = POSE;
    lesson->at = lesson->n_done = lesson->n_begun = 0;
    lesson->n_steps = n_steps;
    lesson->n_drawn = net->n_drawn;
    lesson->by_arrival = lesson->is_review = false;
    memcpy(lesson->pose, net->pose, sizeof lesson->pose);
    net->groups.n = 0;
    qn_embedder_begin(net->embedder);
}

/* ---- how the stream looks ---- */

/* Samples since the last lesson. */
static int count_latest(const qn_label_net *net) {
    const int64_t begun_at = net->lesson.begun_at;
    const bool is_full = begun_at % QN_NET_EVERY == 0 && begun_at > QN_NET_EVERY;
    return is_full ? QN_NET_EVERY : QN_NET_EVERY / 2;
}

/* Whether there are any. */
static bool begin_pose(qn_label_net *net) {
    qn_lesson *lesson = &net->lesson;
    const int64_t begun_at = lesson->begun_at;
    const int n = count_latest(net);
    if (n > net->n_window)
        return false;
    for (int i = 0; i < n; i++)
        lesson->order[i] = (int32_t)((begun_at - 1 - i) % QN_NET_WINDOW);
    qn_pose_begin(&lesson->search, lesson->pose,
                  &(qn_pose_samples){net->sample, net->n_labelled, n, net->bytes,
                                     net->bytes + (size_t)net->n_labelled * net->n_values,
                                     lesson->order},
                  net->room);
    return true;
}

static bool measure_pose(qn_label_net *net) {
    qn_lesson *lesson = &net->lesson;
    if (lesson->at == 0)
        return begin_pose(net);
    if (qn_pose_go_on(&lesson->search))
        return true;
    memmove(lesson->pose + 1, lesson->pose, (QN_NET_POSES - 1) * sizeof *lesson->pose);
    lesson->pose[0] = lesson->search.pose;
    return false;
}

/* Shows some of the labelled samples as they would look by now, in the poses of the window. */
static bool show(qn_label_net *net) {
    const int begin = net->lesson.at * SHOWN;
    const int end = begin + SHOWN < net->n_labelled ? begin + SHOWN : net->n_labelled;
    for (int i = begin; i < end; i++)
        qn_view_show(net->sample, &net->lesson.pose[i % QN_NET_POSES],
                     net->seed + (uint64_t)net->lesson.begun_at, (uint64_t)i,
                     net->bytes + (size_t)i * net->n_values,
                     net->shown + (size_t)i * net->n_values);
    return end < net->n_labelled;
}

/* ---- the embedder ---- */

/* A sample as lessons see it: labelled ones as they look by now. */
static const uint8_t *bytes_of(const qn_label_net *net, size_t place) {
    return (place < (size_t)net->n_labelled ? net->shown : net->bytes) + place * net->n_values;
}

/* Half of a batch are labelled samples, half any others. */
static int draw_place(const qn_label_net *net, uint64_t number) {
    const qn_rng rng = qn_rng_make(net->seed, qn_hash_text("label.lesson"), number);
    const int n_others = net->n_window + net->n_old;
    if (number % 2 == 0 || n_others == 0)
        return (int)qn_rng_below(rng, 0, (uint64_t)net->n_labelled);
    return net->n_labelled + (int)qn_rng_below(rng, 0, (uint64_t)n_others);
}

static qn_status teach_embedder(qn_label_net *net, bool *is_left) {
    float loss, *room = net->x + 2 * QN_NET_PAIRS * net->n_values;
    *is_left = net->lesson.at + 1 < net->lesson.n_steps;
    for (int i = 0; i < QN_NET_PAIRS && net->lesson.n_steps > 0; i++) {
        const uint64_t number = (uint64_t)net->lesson.n_drawn++;
        const size_t place = (size_t)draw_place(net, number);
        for (int view = 0; view < 2; view++) {
            const size_t to = (size_t)(i + view * QN_NET_PAIRS);
            qn_view_make(net->sample, net->scale, net->seed, 2 * number + (uint64_t)view,
                         bytes_of(net, place), net->x + to * net->n_values, room);
            net->taught[to] = net->confidence[place] > very_sure ? net->label[place] : -1;
        }
    }
    return net->lesson.n_steps > 0 ? qn_embedder_step(net->embedder, net->x, net->taught, &loss)
                                   : QN_OK;
}

static qn_status embed(qn_label_net *net, bool *is_left) {
    float many[QN_EMBEDDER_MANY * WIDTH];
    const int n = qn_net_used(net), begin = net->lesson.at * QN_EMBEDDER_MANY;
    const int n_now = n - begin < QN_EMBEDDER_MANY ? n - begin : QN_EMBEDDER_MANY;
    for (int i = 0; i < n_now; i++)
        qn_view_plain(net->sample, net->scale, bytes_of(net, (size_t)(begin + i)),
                      net->x + (size_t)i * net->n_values);
    QN_TRY(qn_embedder_embed(net->embedder, net->x, QN_EMBEDDER_MANY, many));
    for (int i = 0; i < n_now; i++)
        memcpy(net->z + (begin + i) * WIDTH, many + i * WIDTH, WIDTH * sizeof *many);
    *is_left = begin + n_now < n;
    return QN_OK;
}

static bool whiten(qn_label_net *net) {
    qn_whitening *whitening = &net->lesson.whitening;
    const int n = qn_net_used(net), begin = (net->lesson.at - 1) * WHITENED;
    if (net->lesson.at == 0) {
        qn_whitening_measure(whitening, net->n_labelled, WIDTH, net->z, net->label, net->n_known,
                             shrink, net->room);
        return true;
    }
    qn_whitening_apply(whitening, n - begin < WHITENED ? n - begin : WHITENED,
                       net->z + begin * WIDTH);
    return begin + WHITENED < n;
}

/* ---- groups ---- */

static int count_cells(int n) {
    const int cells = n / IN_CELL < QN_ARRIVALS_CELLS ? n / IN_CELL : QN_ARRIVALS_CELLS;
    return cells > QN_GROUPS_CLUSTERS ? cells : QN_GROUPS_CLUSTERS;
}

static qn_group_samples group_samples(const qn_label_net *net) {
    const bool by_arrival = net->lesson.by_arrival;
    const int n = by_arrival ? qn_net_used(net) : net->n_labelled + net->n_window;
    return (qn_group_samples){.n = n,
                              .k = by_arrival ? count_cells(n) : 0,
                              .moves = by_arrival ? CELL_MOVES : 0,
                              .n_labelled = net->n_labelled,
                              .d = WIDTH,
                              .n_classes = net->n_known,
                              .z = net->z,
                              .label = net->label,
                              .history = net->taught,
                              .seed = net->seed + (uint64_t)net->lesson.begun_at};
}

/* Whether new classes were there from the beginning: found ones have more of the first samples than
 * mistakes would. */
static bool were_there(const qn_label_net *net) {
    int n = 0, n_found = 0;
    for (int i = net->n_labelled; i < qn_net_used(net); i++)
        if (net->arrived[i] < QN_NET_EVERY) {
            n++;
            n_found += net->label[i] >= net->n_known;
        }
    return (float)n_found > there_from_begin * (float)n;
}

/* Where samples look different by now, new classes were always there, or the user said what some
 * are, when those of a cell came tells less. */
static bool is_by_arrival(const qn_label_net *net) {
    if (net->lesson.begun_at <= QN_NET_EVERY || were_there(net))
        return false;
    for (int i = 0; i < QN_NET_POSES; i++)
        for (int k = 0; k < QN_POSE_PARTS; k++)
            if (__builtin_fabsf(net->lesson.pose[i].part[k]) >
                (net->lesson.is_review ? slight[k] : 0.0f))
                return false;
    for (int i = net->n_labelled; i < qn_net_used(net) && !net->lesson.is_review; i++)
        if (net->is_told[i])
            return false;
    return true;
}

static bool cluster(qn_label_net *net) {
    if (net->n_window == 0)
        return false;
    if (net->lesson.at == 0)
        net->lesson.by_arrival = is_by_arrival(net);
    const qn_group_samples samples = group_samples(net);
    if (net->lesson.at > 0)
        return qn_groups_go_on(&net->groups, &samples, net->room);
    qn_groups_begin(&net->groups, &samples);
    return true;
}

/* Periods with equal numbers of the samples that are kept, in the order in which they came. */
static void find_periods(qn_label_net *net, int n_periods) {
    int32_t before[BUCKETS] = {0};
    const int first = net->n_labelled, n = qn_net_used(net) - first;
    const int64_t all = net->lesson.begun_at;
    for (int i = first; i < first + n; i++)
        before[net->arrived[i] * BUCKETS / all]++;
    for (int b = 0, sum = 0; b < BUCKETS; b++) {
        const int here = before[b];
        before[b] = sum;
        sum += here;
    }
    for (int i = first; i < first + n; i++)
        net->lesson.period[i] =
            (uint8_t)((int64_t)before[net->arrived[i] * BUCKETS / all] * n_periods / n);
}

/* Found classes by their samples, those with most first. */
static void fill_before(qn_label_net *net) {
    qn_arrivals *a = &net->arrivals;
    int size[QN_LABEL_MAX_NEW] = {0}, place[QN_LABEL_MAX_NEW];
    for (int i = net->n_labelled; i < qn_net_used(net); i++)
        if (net->label[i] >= net->n_known)
            size[net->label[i] - net->n_known]++;
    for (int p = 0; p < QN_LABEL_MAX_NEW; p++)
        place[p] = -1;
    for (a->n_before = 0; a->n_before < QN_ARRIVALS_FOUND; a->n_before++) {
        int best = -1;
        for (int p = 0; p < QN_LABEL_MAX_NEW; p++)
            if (place[p] < 0 && size[p] >= QN_ARRIVALS_LEAST && (best < 0 || size[p] > size[best]))
                best = p;
        if (best < 0)
            break;
        place[best] = a->n_before;
    }
    memset(a->before_cells, 0, QN_ARRIVALS_FOUND * QN_ARRIVALS_CELLS * sizeof *a->before_cells);
    memset(a->before_periods, 0,
           QN_ARRIVALS_FOUND * QN_ARRIVALS_PERIODS * sizeof *a->before_periods);
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        const int at = net->label[i] < net->n_known ? -1 : place[net->label[i] - net->n_known];
        if (at >= 0) {
            a->before_cells[at * QN_ARRIVALS_CELLS + net->groups.of[i]]++;
            a->before_periods[at * QN_ARRIVALS_PERIODS + net->lesson.period[i]]++;
        }
    }
}

static void begin_arrivals(qn_label_net *net) {
    qn_arrivals *a = &net->arrivals;
    a->n_cells = net->groups.k;
    a->n_periods = qn_arrivals_periods(qn_net_used(net) - net->n_labelled);
    find_periods(net, a->n_periods);
    memset(a->count, 0, QN_ARRIVALS_CELLS * QN_ARRIVALS_PERIODS * sizeof *a->count);
    memset(a->labelled, 0, (size_t)net->n_known * QN_ARRIVALS_CELLS * sizeof *a->labelled);
    for (int i = 0; i < qn_net_used(net); i++)
        if (i < net->n_labelled)
            a->labelled[net->label[i] * QN_ARRIVALS_CELLS + net->groups.of[i]]++;
        else
            a->count[net->groups.of[i] * QN_ARRIVALS_PERIODS + net->lesson.period[i]]++;
    a->n_before = 0;
    if (net->lesson.is_review)
        fill_before(net);
    qn_arrivals_begin(a, net->groups.centre, WIDTH);
}

static bool arrive(qn_label_net *net) {
    if (net->n_window == 0 || !net->lesson.by_arrival)
        return false;
    if (net->lesson.at > 0)
        return qn_arrivals_go_on(&net->arrivals);
    begin_arrivals(net);
    return true;
}

/* What the samples of the window are, in the order of places. */
static void write_history(qn_label_net *net) {
    for (int i = 0; i < net->n_window; i++) {
        const int place = net->n_labelled + i;
        const int64_t age = (net->lesson.begun_at - 1 - i) % QN_NET_WINDOW;
        net->taught[place] = age < count_latest(net)            ? QN_HISTORY_LATEST
                             : net->label[place] < net->n_known ? QN_HISTORY_KNOWN
                                                                : QN_HISTORY_FOUND;
    }
}

static bool join(qn_labeller *l) {
    qn_label_net *net = l->net;
    const qn_group_samples samples = group_samples(net);
    if (net->n_window > 0 && net->lesson.by_arrival) {
        net->groups.n = net->arrivals.now.n;
    } else if (net->n_window > 0) {
        write_history(net);
        qn_groups_finish(&net->groups, &samples, net->room);
    }
    qn_lesson_identify(l);
    return false;
}

/* ---- in order ---- */

qn_status qn_lesson_work(qn_labeller *l, bool *is_left) {
    qn_label_net *net = l->net;
    qn_lesson *lesson = &net->lesson;
    bool has_more = false;
    *is_left = lesson->phase != DONE;
    if (!*is_left)
        return QN_OK;
    qn_lesson_load(net, true);
    switch (lesson->phase) {
    case POSE:
        has_more = measure_pose(net);
        break;
    case SHOW:
        has_more = show(net);
        break;
    case STEPS:
        QN_TRY(teach_embedder(net, &has_more));
        break;
    case EMBED:
        QN_TRY(embed(net, &has_more));
        break;
    case WHITEN:
        has_more = whiten(net);
        break;
    case CLUSTER:
        has_more = cluster(net);
        break;
    case ARRIVE:
        has_more = arrive(net);
        break;
    case JOIN:
        has_more = join(l);
        break;
    case TEACH:
        has_more = qn_lesson_teach(net, lesson->at);
        break;
    default:
        break;
    }
    lesson->at = has_more ? lesson->at + 1 : 0;
    lesson->phase += !has_more;
    lesson->n_done++;
    *is_left = lesson->phase != DONE;
    return QN_OK;
}

/* Pieces of it, about. */
static int64_t count_pieces(const qn_label_net *net) {
    const int n = qn_net_used(net), n_compared = QN_POSE_STREAM + QN_POSE_LABELLED;
    return 8 * n_compared / 64 + net->n_labelled / SHOWN + net->lesson.n_steps +
           n / QN_EMBEDDER_MANY + n / WHITENED + qn_lesson_teachings(net) +
           (CELL_MOVES + 1) * count_cells(n) * n / QN_GROUPS_PIECE + 60;
}

static qn_status end(qn_labeller *l) {
    qn_label_net *net = l->net;
    qn_lesson *lesson = &net->lesson;
    const size_t first = (size_t)net->n_labelled, n = (size_t)qn_net_used(net) - first;
    float *weight = net->head.weight;
    qn_lesson_load(net, true);
    lesson->is_under_way = false;
    net->head.weight = lesson->head.weight;
    lesson->head.weight = weight;
    net->head.n_used = lesson->head.n_used;
    memcpy(net->is_open, lesson->is_open, sizeof net->is_open);
    net->whitening = lesson->whitening;
    net->n_drawn = lesson->n_drawn;
    memcpy(net->pose, lesson->pose, sizeof net->pose);
    memcpy(net->label + first, lesson->label + first, n * sizeof *net->label);
    memcpy(net->confidence + first, lesson->confidence + first, n * sizeof *net->confidence);
    memcpy(net->is_new + first, lesson->is_new + first, n * sizeof *net->is_new);
    for (int i = 0; i < lesson->n_begun; i++)
        qn_labeller_begin_class(l, lesson->begun[i]);
    return qn_net_take_recent(l);
}

qn_status qn_lesson_follow(qn_labeller *l, int64_t n) {
    qn_lesson *lesson = &l->net->lesson;
    const int64_t all = count_pieces(l->net);
    bool is_left = lesson->phase != DONE;
    while (is_left && (n >= QN_NET_DELAY || lesson->n_done * (int64_t)QN_NET_DELAY < all * n))
        QN_TRY(qn_lesson_work(l, &is_left));
    return n >= QN_NET_DELAY ? end(l) : QN_OK;
}

/* Labels what is kept by what a review found. Returns how many labels changed. */
static int64_t take_review(qn_labeller *l) {
    qn_label_net *net = l->net;
    const qn_lesson *lesson = &net->lesson;
    int64_t n_changed = 0;
    for (int i = 0; i < lesson->n_begun; i++)
        qn_labeller_begin_class(l, lesson->begun[i]);
    for (int i = net->n_labelled; i < qn_net_used(net); i++) {
        n_changed += net->label[i] != lesson->label[i];
        net->label[i] = lesson->label[i];
        net->confidence[i] = lesson->confidence[i];
        net->is_new[i] = lesson->is_new[i];
    }
    return n_changed;
}

qn_status qn_lesson_review(qn_labeller *l, int64_t *n_changed) {
    qn_lesson *lesson = &l->net->lesson;
    const bool was_under_way = lesson->is_under_way;
    const int64_t begun_at = was_under_way ? lesson->begun_at : l->n_samples;
    const int n_steps = was_under_way ? lesson->n_steps : QN_NET_STEPS;
    qn_status status = QN_OK;
    if (begun_at <= QN_NET_EVERY)
        return QN_OK;
    qn_lesson_load(l->net, false);
    qn_lesson_begin(l, begun_at, n_steps);
    lesson->is_review = true;
    for (bool is_left = true; status == QN_OK && is_left;)
        status = qn_lesson_work(l, &is_left);
    if (status == QN_OK && lesson->by_arrival)
        *n_changed = take_review(l);
    qn_lesson_load(l->net, false);
    lesson->is_under_way = false;
    if (was_under_way) /* it sees what the review found */
        qn_lesson_begin(l, begun_at, n_steps);
    return status;
}
