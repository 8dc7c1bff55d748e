/* What answers change; see asking.h. */
#include "base/fmath.h"
#include "base/status.h"
#include "label/network/asking.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    WIDTH = QN_EMBEDDER_WIDTH,
    PERIODS = QN_ARRIVALS_PERIODS,
    NEIGHBOURS = 15,
    LOOKED_AT = 8, /* clusters in which neighbours of a sample are looked for */
    SPREADS = 40,
    HEAD_STEPS = 60,
    LIKE_IT = 10 /* an answer is given for one of so many samples of its cluster, the nearest */
};
enum { NONE = -2, MIXED = -1 }; /* no sample of a class was told; several, of different classes */
static const double least_gain = 3.0;    /* of an onset, in the logarithm of the likelihood */
static const double more_often = 1.5;    /* than before its onset a class comes at least */
static const float before_onset = 0.02f; /* part that is left of what came before it */
static const float passed_on = 0.95f;    /* part of what a sample has that its neighbours gave */
/* The confidence from which labels of found classes, and those of known ones, are given. */
static const float sure = 0.6f, very_sure = 0.9f;
static const float fairly_sure = 0.5f; /* from which a label stands where no answer was given */

/* A place, and how far it is. */
typedef struct neighbour {
    float far;
    int32_t place;
} neighbour;

typedef struct spreading {
    qn_overview all;
    int n_classes;                                                     /* that are given */
    int32_t class[QN_HEAD_MOST_OUTPUTS], column[QN_HEAD_MOST_OUTPUTS]; /* of a class, or -1 */
    /* What a found class is by its told samples: a class, NONE or MIXED. */
    int32_t became[QN_LABEL_MAX_NEW];
    int32_t *seed;                 /* (n) class, or -1 */
    float *far;                    /* (n) from the sample that gave it */
    int32_t *order;                /* (n) places, cluster by cluster */
    int first[QN_GROUPS_MOST + 1]; /* of a cluster in this order */
    neighbour *near;               /* (n, NEIGHBOURS); before that, (n) */
    float *link;                   /* (n, NEIGHBOURS) */
    float *degree;                 /* (n) */
    float *given, *has, *gets;     /* (n, n_classes) */
    float *room;                   /* of the classifier */
} spreading;

/* All memory, so that nothing fails after something was changed. */
static qn_status make(const qn_label_net *net, spreading *s, qn_arena *arena) {
    const size_t n = (size_t)s->all.n, most = (size_t)net->head.n_outputs;
    s->seed = qn_arena_allocate(arena, n, sizeof *s->seed);
    s->far = qn_arena_allocate(arena, n, sizeof *s->far);
    s->order = qn_arena_allocate(arena, n, sizeof *s->order);
    s->near = qn_arena_allocate(arena, n * NEIGHBOURS, sizeof *s->near);
    s->link = qn_arena_allocate(arena, n * NEIGHBOURS, sizeof *s->link);
    s->degree = qn_arena_allocate(arena, n, sizeof *s->degree);
    s->given = qn_arena_allocate(arena, n * most, sizeof *s->given);
    s->has = qn_arena_allocate(arena, n * most, sizeof *s->has);
    s->gets = qn_arena_allocate(arena, n * most, sizeof *s->gets);
    s->room = qn_arena_allocate(arena, 2 * (WIDTH + 1) * most + 1, sizeof *s->room);
    return s->seed && s->far && s->order && s->near && s->link && s->degree && s->given && s->has &&
                   s->gets && s->room
               ? QN_OK
               : QN_ERROR_MEMORY;
}

static void put_in_order(spreading *s) {
    int at = 0;
    for (int k = 0; k < s->all.groups.k; k++) {
        s->first[k] = at;
        for (int i = 0; i < s->all.n; i++)
            if (s->all.groups.of[i] == k)
                s->order[at++] = i;
    }
    s->first[s->all.groups.k] = at;
}

static float distance(const spreading *s, int a, int b) {
    return qn_square_distance(s->all.z + a * WIDTH, s->all.z + b * WIDTH, WIDTH);
}

/* ---- what is given ---- */

static int by_distance(const void *left, const void *right) {
    const neighbour *a = left, *b = right;
    return a->far != b->far ? (a->far > b->far) - (a->far < b->far)
                            : (a->place > b->place) - (a->place < b->place);
}

/* The samples of its cluster that are nearest to a told one get its class, but for those to which
 * another told one is nearer. */
static void give_answer(const qn_label_net *net, spreading *s, int told) {
    const int cluster = s->all.groups.of[told];
    int n = 0;
    for (int at = s->first[cluster]; at < s->first[cluster + 1]; at++) {
        const int i = s->order[at];
        if (i >= net->n_labelled)
            s->near[n++] = (neighbour){i == told ? -1.0f : distance(s, told, i), i};
    }
    qsort(s->near, (size_t)n, sizeof *s->near, by_distance);
    for (int k = 0; k < (n + LIKE_IT - 1) / LIKE_IT; k++)
        if (s->near[k].far < s->far[s->near[k].place]) {
            s->far[s->near[k].place] = s->near[k].far;
            s->seed[s->near[k].place] = net->label[told];
        }
}

/* What a sample of a found class is by those that were told; -1: nobody knows. */
static int32_t class_by_told(const qn_label_net *net, const spreading *s, int place) {
    const int32_t class = s->became[net->label[place] - net->n_known];
    return class == NONE ? net->label[place] : class == MIXED ? -1 : class;
}

/* Classes have the samples that surely are theirs, outside clusters in which one was told: found
 * ones those of the class that their told samples have, if these agree. */
static void give_sure(const qn_label_net *net, spreading *s) {
    bool has_told[QN_GROUPS_MOST] = {false};
    for (int i = net->n_labelled; i < s->all.n; i++)
        if (net->is_told[i])
            has_told[s->all.groups.of[i]] = true;
    for (int i = net->n_labelled; i < s->all.n; i++) {
        const bool is_known = net->label[i] < net->n_known;
        if (s->seed[i] < 0 && !has_told[s->all.groups.of[i]] &&
            net->confidence[i] > (is_known ? very_sure : sure))
            s->seed[i] = is_known ? net->label[i] : class_by_told(net, s, i);
    }
}

static void give(const qn_label_net *net, spreading *s) {
    for (int i = 0; i < s->all.n; i++) {
        s->seed[i] = i < net->n_labelled ? net->label[i] : -1;
        s->far[i] = 1e30f;
    }
    for (int i = net->n_labelled; i < s->all.n; i++)
        if (net->is_told[i])
            give_answer(net, s, i);
    give_sure(net, s);
    for (int c = 0; c < net->head.n_outputs; c++)
        s->column[c] = -1;
    for (int i = 0; i < s->all.n; i++)
        if (s->seed[i] >= 0 && s->column[s->seed[i]] < 0) {
            s->column[s->seed[i]] = s->n_classes;
            s->class[s->n_classes++] = s->seed[i];
        }
}

/* ---- the graph ---- */

/* The clusters nearest to a sample. */
static void choose_clusters(const spreading *s, int place, int chosen[LOOKED_AT]) {
    float far[LOOKED_AT];
    int n = 0;
    for (int k = 0; k < s->all.groups.k; k++) {
        const float here =
            qn_square_distance(s->all.z + place * WIDTH, s->all.groups.centre + k * WIDTH, WIDTH);
        int at = n < LOOKED_AT ? n++ : here < far[LOOKED_AT - 1] ? LOOKED_AT - 1 : -1;
        for (; at > 0 && far[at - 1] > here; at--) {
            far[at] = far[at - 1];
            chosen[at] = chosen[at - 1];
        }
        if (at >= 0) {
            far[at] = here;
            chosen[at] = k;
        }
    }
    for (; n < LOOKED_AT; n++)
        chosen[n] = -1;
}

/* Its nearest neighbours; where there are fewer, the place is -1. */
static void find_neighbours(spreading *s, int place) {
    neighbour *near = s->near + (size_t)place * NEIGHBOURS;
    int chosen[LOOKED_AT], n = 0;
    choose_clusters(s, place, chosen);
    for (int k = 0; k < LOOKED_AT && chosen[k] >= 0; k++)
        for (int o = s->first[chosen[k]]; o < s->first[chosen[k] + 1]; o++) {
            const int i = s->order[o];
            const float here = i == place ? 1e30f : distance(s, place, i);
            int at = i == place ? -1 : n < NEIGHBOURS ? n++ : NEIGHBOURS - 1;
            if (at < 0 || (n == NEIGHBOURS && at == NEIGHBOURS - 1 && near[at].place >= 0 &&
                           here >= near[at].far))
                continue;
            for (; at > 0 && near[at - 1].far > here; at--)
                near[at] = near[at - 1];
            near[at] = (neighbour){here, i};
        }
}

/* How much neighbours give each other: less if they are far apart, or have many of them. */
static void link_neighbours(spreading *s) {
    const size_t n = (size_t)s->all.n * NEIGHBOURS;
    double sum = 0, count = 0;
    memset(s->degree, 0, (size_t)s->all.n * sizeof *s->degree);
    for (size_t e = 0; e < n; e++)
        if (s->near[e].place >= 0) {
            sum += (double)s->near[e].far;
            count++;
        }
    const float width = sum > 0 ? (float)(sum / count) : 1.0f;
    for (size_t e = 0; e < n; e++) {
        s->link[e] = s->near[e].place >= 0 ? qn_exp_f32(-s->near[e].far / width) : 0.0f;
        s->degree[e / NEIGHBOURS] += s->link[e];
        if (s->near[e].place >= 0)
            s->degree[s->near[e].place] += s->link[e];
    }
    for (size_t e = 0; e < n; e++)
        if (s->link[e] > 0)
            s->link[e] /= __builtin_sqrtf(s->degree[e / NEIGHBOURS] * s->degree[s->near[e].place]);
}

static void make_graph(spreading *s) {
    for (size_t e = 0; e < (size_t)s->all.n * NEIGHBOURS; e++)
        s->near[e] = (neighbour){1e30f, -1};
    for (int i = 0; i < s->all.n; i++)
        find_neighbours(s, i);
    link_neighbours(s);
}

/* ---- spreading ---- */

/* Every class gives as much as any other. */
static void make_given(spreading *s) {
    const size_t n = (size_t)s->all.n, c = (size_t)s->n_classes;
    float count[QN_HEAD_MOST_OUTPUTS] = {0};
    for (size_t i = 0; i < n; i++)
        if (s->seed[i] >= 0)
            count[s->column[s->seed[i]]] += 1.0f;
    memset(s->given, 0, n * c * sizeof *s->given);
    for (size_t i = 0; i < n; i++)
        if (s->seed[i] >= 0)
            s->given[i * c + (size_t)s->column[s->seed[i]]] =
                1000.0f / count[s->column[s->seed[i]]];
    memcpy(s->has, s->given, n * c * sizeof *s->has);
}

static void spread_once(spreading *s) {
    const size_t n = (size_t)s->all.n, c = (size_t)s->n_classes;
    memset(s->gets, 0, n * c * sizeof *s->gets);
    for (size_t e = 0; e < n * NEIGHBOURS; e++) {
        if (!(s->link[e] > 0))
            continue;
        const size_t a = e / NEIGHBOURS * c, b = (size_t)s->near[e].place * c;
        for (size_t k = 0; k < c; k++) {
            s->gets[a + k] += s->link[e] * s->has[b + k];
            s->gets[b + k] += s->link[e] * s->has[a + k];
        }
    }
    for (size_t i = 0; i < n * c; i++)
        s->has[i] = passed_on * s->gets[i] + (1.0f - passed_on) * s->given[i];
}

/* Found classes have no sample before they begin: counts those that each would get in each period,
 * and takes what came before its onset from it. None begins after a told sample came. */
static void take_early(const qn_label_net *net, spreading *s) {
    const int c = s->n_classes;
    float gets[QN_HEAD_MOST_OUTPUTS][PERIODS] = {{0}};
    int last[QN_HEAD_MOST_OUTPUTS], onset[QN_HEAD_MOST_OUTPUTS];
    for (int k = 0; k < c; k++)
        last[k] = s->all.n_periods - 1;
    for (int i = net->n_labelled; i < s->all.n; i++) {
        const float *has = s->has + (size_t)i * (size_t)c;
        int best = 0;
        for (int k = 0; k < c; k++)
            best = has[k] > has[best] ? k : best;
        gets[best][s->all.period[i]] += has[best] > 0 ? 1.0f : 0.0f;
        if (net->is_told[i] && s->all.period[i] < last[s->column[net->label[i]]])
            last[s->column[net->label[i]]] = s->all.period[i];
    }
    for (int k = 0; k < c; k++)
        onset[k] = s->class[k] < net->n_known
                       ? 0
                       : qn_arrivals_onset(s->all.n_periods, gets[k], s->all.total, last[k],
                                           least_gain, more_often);
    for (int i = net->n_labelled; i < s->all.n; i++)
        for (int k = 0; k < c; k++)
            if (s->all.period[i] < onset[k])
                s->has[(size_t)i * (size_t)c + (size_t)k] *= before_onset;
}

/* Whether a sample's label, or what that became, stands: it is sure, and got no answer. */
static bool is_kept(const qn_label_net *net, const spreading *s, int place) {
    const bool is_known = net->label[place] < net->n_known;
    return net->confidence[place] > fairly_sure && s->far[place] >= 1e30f &&
           (is_known || class_by_told(net, s, place) >= 0);
}

/* Labels of samples that nothing reaches stay. */
static void label_all(qn_label_net *net, const spreading *s) {
    const int c = s->n_classes;
    for (int i = net->n_labelled; i < s->all.n; i++) {
        const float *has = s->has + (size_t)i * (size_t)c;
        float sum = 0, is_new = 0;
        int best = 0;
        for (int k = 0; k < c; k++) {
            sum += has[k];
            is_new += s->class[k] >= net->n_known ? has[k] : 0.0f;
            best = has[k] > has[best] ? k : best;
        }
        if (net->is_told[i]) {
            net->confidence[i] = 1;
            net->is_new[i] = net->label[i] >= net->n_known ? 1.0f : 0.0f;
        } else if (is_kept(net, s, i)) {
            if (net->label[i] >= net->n_known)
                net->label[i] = class_by_told(net, s, i);
        } else if (sum > 1e-20f) {
            net->label[i] = s->class[best];
            net->confidence[i] = has[best] / sum;
            net->is_new[i] = is_new / sum;
        }
    }
}

/* The classifier learns what the samples are by now. */
static void teach(qn_label_net *net, const spreading *s) {
    const size_t n_weights = (WIDTH + 1) * (size_t)net->head.n_outputs;
    memset(net->is_open, 0, sizeof net->is_open);
    memset(net->is_open, 1, (size_t)net->n_known);
    for (int i = 0; i < s->all.n; i++)
        net->is_open[net->label[i]] = 1;
    qn_head_count_used(&net->head);
    memset(net->head.weight, 0, n_weights * sizeof *net->head.weight);
    qn_head_fit(&net->head, s->all.n, s->all.z, net->label, net->confidence, HEAD_STEPS, s->room);
}

static void spread(qn_label_net *net, spreading *s) {
    put_in_order(s);
    give(net, s);
    make_graph(s);
    make_given(s);
    for (int i = 0; i < SPREADS; i++)
        spread_once(s);
    take_early(net, s);
    label_all(net, s);
    teach(net, s);
}

/* ---- answers ---- */

/* The class that has a name, or -1. */
static int find_class(const qn_labeller *l, const char *name) {
    for (int c = 0; c < (int)qn_labeller_record_count(l); c++)
        if (l->records[c].serial >= 0 && strcmp(l->records[c].name, name) == 0)
            return c;
    return -1;
}

/* A place for a found class: a free one, or one that no sample has; -1: there is none. */
static int find_place(const qn_labeller *l) {
    bool is_used[QN_LABEL_MAX_NEW] = {false};
    int best = -1;
    for (int i = l->net->n_labelled; i < qn_net_used(l->net) + l->net->n_recent; i++)
        if (l->net->label[i] >= l->n_known)
            is_used[l->net->label[i] - l->n_known] = true;
    for (int p = QN_LABEL_MAX_NEW - 1; p >= 0; p--)
        if (!is_used[p] && (best < 0 || qn_labeller_found(l, p)->serial < 0))
            best = p;
    return best;
}

/* Of the class with this name, or -1: of the found class that the sample had, if nobody has named
 * it, or of a new one. */
static int take_class(qn_labeller *l, int had, const char *name) {
    int class = find_class(l, name);
    if (class >= 0)
        return class;
    class = had;
    if (!qn_labeller_is_unnamed(l, had)) {
        const int place = find_place(l);
        if (place < 0)
            return -1;
        qn_labeller_begin_class(l, place);
        class = l->n_known + place;
    }
    snprintf(l->records[class].name, QN_LABEL_NAME, "%s", name);
    return class;
}

/* What answers change, before they do. */
typedef struct told {
    int64_t n_found;
    qn_label_record *records;
    int32_t *label;
    uint8_t *is_told;
} told;

static qn_status copy_told(const qn_labeller *l, qn_arena *arena, told *t) {
    const size_t n = (size_t)qn_net_used(l->net), n_records = qn_labeller_record_count(l);
    t->n_found = l->n_found;
    t->records = qn_arena_allocate(arena, n_records, sizeof *t->records);
    t->label = qn_arena_allocate(arena, n, sizeof *t->label);
    t->is_told = qn_arena_allocate(arena, n, sizeof *t->is_told);
    if (!t->records || !t->label || !t->is_told)
        return QN_ERROR_MEMORY;
    memcpy(t->records, l->records, n_records * sizeof *t->records);
    memcpy(t->label, l->net->label, n * sizeof *t->label);
    memcpy(t->is_told, l->net->is_told, n * sizeof *t->is_told);
    return QN_OK;
}

static void put_back(qn_labeller *l, const told *t) {
    const size_t n = (size_t)qn_net_used(l->net);
    l->n_found = t->n_found;
    memcpy(l->records, t->records, qn_labeller_record_count(l) * sizeof *t->records);
    memcpy(l->net->label, t->label, n * sizeof *t->label);
    memcpy(l->net->is_told, t->is_told, n * sizeof *t->is_told);
}

/* Takes all answers, or none. */
static qn_status take(qn_labeller *l, qn_arena *arena, int n, const int64_t *ages,
                      const char *const *names, int32_t *became) {
    qn_label_net *net = l->net;
    told before;
    QN_TRY(copy_told(l, arena, &before));
    for (int p = 0; p < QN_LABEL_MAX_NEW; p++)
        became[p] = NONE;
    for (int i = 0; i < n; i++) {
        const int place = qn_net_place_of(l, ages[i]);
        const int had = net->label[place], class = take_class(l, had, names[i]);
        if (class < 0) {
            put_back(l, &before);
            return qn_fail(
                QN_ERROR_ARGUMENT,
                "no room for the class %s: all %d places of found classes have samples; "
                "give sample %lld before the last one the name of a class that is there, "
                "or no answer (nothing was told)",
                names[i], QN_LABEL_MAX_NEW, (long long)ages[i]);
        }
        if (had >= l->n_known && !net->is_told[place]) {
            int32_t *now = &became[had - l->n_known];
            *now = *now == NONE || *now == class ? class : MIXED;
        }
        net->label[place] = class;
        net->is_told[place] = 1;
    }
    return QN_OK;
}

qn_status qn_net_tell(qn_labeller *l, int n, const int64_t *ages, const char *const *names) {
    qn_label_net *net = l->net;
    spreading s = {.n_classes = 0};
    qn_arena arena;
    for (int i = 0; i < n; i++)
        if (ages[i] < net->n_recent)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "sample %lld before the last one came while a lesson is under way, "
                           "which ends after %d more samples; tell its class then",
                           (long long)ages[i], QN_NET_DELAY - net->n_recent);
    qn_arena_init(&arena, l->allocator);
    qn_status status = qn_overview_make(l, &arena, &s.all);
    if (status == QN_OK)
        status = make(net, &s, &arena);
    if (status == QN_OK)
        status = take(l, &arena, n, ages, names, s.became);
    if (status == QN_OK)
        spread(net, &s);
    qn_arena_deinit(&arena);
    if (status == QN_OK && net->lesson.is_under_way)
        qn_lesson_begin(l, net->lesson.begun_at,
                        net->lesson.n_steps); /* again, from these labels */
    return status;
}
