/* Which samples are worth asking for; see asking.h. */
#include "label/network/asking.h"

#include "base/fmath.h"
#include "base/status.h"

#include <string.h>

enum {
    WIDTH = QN_EMBEDDER_WIDTH,
    CELLS = QN_GROUPS_MOST,
    PERIODS = QN_ARRIVALS_PERIODS,
    IN_CELL = 20, /* samples, about */
    BUCKETS = 2048,
    NEIGHBOURS = 6 /* cells around one that are like it */
};
static const float tiny = 1e-9f, least_worth = 0.1f;
static const float of_unsure = 0.3f; /* weight of what the classifier doubts */
static const float of_found = 0.2f;  /* doubt of a sample of a found class that is asked for */
static const float surely = 0.99f;   /* of the surest sample's confidence: as sure */

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

static int count_cells(int n) {
    const int k = n / IN_CELL;
    return k < QN_GROUPS_CLUSTERS ? QN_GROUPS_CLUSTERS : k < CELLS ? k : CELLS;
}

/* Periods with equal numbers of the samples that are kept; one, where samples look different by
 * now. */
static void find_periods(const qn_labeller *l, qn_overview *o) {
    const qn_label_net *net = l->net;
    const int first = net->n_labelled, n = o->n - first;
    int32_t before[BUCKETS] = {0};
    o->n_periods = qn_arrivals_periods(n);
    for (int i = 0; i < QN_NET_POSES; i++)
        for (int k = 0; k < QN_POSE_PARTS; k++)
            o->n_periods = net->pose[i].part[k] != 0 ? 1 : o->n_periods;
    for (int i = first; i < o->n; i++)
        before[net->arrived[i] * BUCKETS / l->n_samples]++;
    for (int b = 0, sum = 0; b < BUCKETS; b++) {
        const int here = before[b];
        before[b] = sum;
        sum += here;
    }
    memset(o->count, 0, CELLS * PERIODS * sizeof *o->count);
    for (int i = first; i < o->n; i++) {
        const int64_t rank = before[net->arrived[i] * BUCKETS / l->n_samples];
        o->period[i] = (uint8_t)(rank * o->n_periods / n);
        o->total[o->period[i]]++;
        o->count[o->groups.of[i] * PERIODS + o->period[i]]++;
    }
}

qn_status qn_overview_make(const qn_labeller *l, qn_arena *arena, qn_overview *o) {
    qn_label_net *net = l->net;
    float joining;
    const size_t n = (size_t)qn_net_used(net);
    *o = (qn_overview){.n = (int)n};
    o->z = qn_arena_allocate(arena, n * WIDTH, sizeof *o->z);
    o->groups.of = qn_arena_allocate(arena, n, sizeof *o->groups.of);
    o->groups.centre = qn_arena_allocate(arena, QN_GROUPS_MOST * WIDTH, sizeof *o->groups.centre);
    o->period = qn_arena_allocate(arena, n, 1);
    o->count = qn_arena_allocate(arena, CELLS * PERIODS, sizeof *o->count);
    float *room = qn_arena_allocate(arena, n + (size_t)net->n_known * QN_GROUPS_MOST, sizeof *room);
    uint8_t *shown = qn_arena_allocate(arena, net->n_values, 1);
    if (!o->z || !o->groups.of || !o->groups.centre || !o->period || !o->count || !room || !shown)
        return QN_ERROR_MEMORY;
    qn_lesson_load(net, false);
    QN_TRY(embed_all(net, o, shown));
    const qn_group_samples samples = {.n = o->n,
                                      .n_labelled = net->n_labelled,
                                      .d = WIDTH,
                                      .n_classes = net->n_known,
                                      .k = count_cells(o->n),
                                      .z = o->z,
                                      .label = net->label,
                                      .seed = net->seed};
    qn_groups_begin(&o->groups, &samples);
    while (qn_groups_go_on(&o->groups, &samples, room)) {
    }
    qn_groups_doubt(&o->groups, &samples, room, o->doubt, &joining);
    find_periods(l, o);
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

typedef struct asking {
    qn_overview all;
    int n_classes;                      /* outputs */
    float *likeness;                    /* (CELLS, CELLS) from 0 to 1 */
    int32_t *size;                      /* (classes) samples of the stream */
    int32_t *has_told;                  /* (classes) */
    float worth[CELLS];                 /* of settling a cell */
    int n_asked, asked[QN_GROUPS_MOST]; /* places */
} asking;

static qn_status make(const qn_label_net *net, asking *a, qn_arena *arena) {
    const size_t classes = (size_t)net->head.n_outputs;
    a->n_classes = net->head.n_outputs;
    a->likeness = qn_arena_allocate(arena, CELLS * CELLS, sizeof *a->likeness);
    a->size = qn_arena_allocate(arena, classes, sizeof *a->size);
    a->has_told = qn_arena_allocate(arena, classes, sizeof *a->has_told);
    if (!a->likeness || !a->size || !a->has_told)
        return QN_ERROR_MEMORY;
    memset(a->size, 0, classes * sizeof *a->size);
    memset(a->has_told, 0, classes * sizeof *a->has_told);
    for (int i = net->n_labelled; i < a->all.n; i++) {
        const int32_t c = net->label[i];
        a->size[c]++;
        a->has_told[c] += net->is_told[i];
    }
    return QN_OK;
}

/* How much settling each cell is worth: samples that no labelled ones speak for, or of which the
 * classifier is not sure, and more where many came late. */
static void find_worth(const qn_labeller *l, asking *a) {
    const qn_label_net *net = l->net;
    const qn_overview *o = &a->all;
    float late[CELLS] = {0}, unsure[CELLS] = {0}, known[CELLS] = {0};
    const int n_late = (o->n_periods + 4) / 5;
    for (int i = net->n_labelled; i < o->n; i++) {
        const int k = o->groups.of[i];
        const bool is_found = net->label[i] >= net->n_known;
        late[k] += o->period[i] >= o->n_periods - n_late;
        unsure[k] += 1.0f - net->confidence[i];
        known[k] += !is_found;
    }
    for (int k = 0; k < o->groups.k; k++) {
        const float size = (float)o->groups.size[k] + tiny;
        const float lateness = late[k] / size * (float)o->n_periods / (float)n_late;
        a->worth[k] =
            (o->doubt[k] * known[k] / size + of_unsure * unsure[k] + of_found * (size - known[k])) *
            lateness;
    }
}

/* The sample of the window that is nearest to the middle of a cell, or of a class, of whose samples
 * the surest ones count; below 0: of any. -1: there is none. */
static int find_middle(const qn_label_net *net, const asking *a, int cell, int class) {
    float mean[WIDTH] = {0}, least = 1e30f, surest = 0;
    int n = 0, best = -1;
    for (int i = net->n_labelled; class >= 0 && i < net->n_labelled + net->n_window; i++)
        if (net->label[i] == class && !net->is_told[i] && net->confidence[i] > surest)
            surest = net->confidence[i];
    for (int i = net->n_labelled; i < a->all.n; i++)
        if ((cell < 0 || a->all.groups.of[i] == cell) && (class < 0 || net->label[i] == class)) {
            n++;
            for (int d = 0; d < WIDTH; d++)
                mean[d] += a->all.z[i * WIDTH + d];
        }
    for (int d = 0; d < WIDTH; d++)
        mean[d] /= (float)(n > 0 ? n : 1);
    for (int i = net->n_labelled; i < net->n_labelled + net->n_window; i++) {
        if ((cell >= 0 && a->all.groups.of[i] != cell) || (class >= 0 && net->label[i] != class) ||
            net->is_told[i] || net->confidence[i] < surely * surest)
            continue;
        const float far = qn_square_distance(a->all.z + i * WIDTH, mean, WIDTH);
        best = far < least ? i : best;
        least = far < least ? far : least;
    }
    return best;
}

static void put_question(asking *a, int place) {
    const int cell = a->all.groups.of[place];
    a->asked[a->n_asked++] = place;
    for (int k = 0; k < a->all.groups.k; k++)
        a->worth[k] *= 1.0f - a->likeness[cell * CELLS + k];
}

/* The middle of the largest found class without a name of which no sample was told or asked for;
 * -1: there is none. */
static int choose_class(const qn_labeller *l, const asking *a, bool *is_asked) {
    const qn_label_net *net = l->net;
    int best = -1;
    for (int c = net->n_known; c < a->n_classes; c++)
        if (a->size[c] >= QN_GROUPS_LEAST && !is_asked[c] && a->has_told[c] == 0 &&
            qn_labeller_is_unnamed(l, c) && (best < 0 || a->size[c] > a->size[best]))
            best = c;
    if (best < 0)
        return -1;
    is_asked[best] = true;
    const int place = find_middle(net, a, -1, best);
    return place >= 0 ? place : -2;
}

/* The middle of the cell that is worth most, or -1. */
static int choose_cell(const qn_label_net *net, asking *a) {
    for (;;) {
        int best = -1;
        float most = least_worth;
        for (int k = 0; k < a->all.groups.k; k++) {
            float worth = 0;
            for (int o = 0; o < a->all.groups.k; o++)
                worth += a->likeness[k * CELLS + o] * a->worth[o];
            if (a->worth[k] > 0 && worth > most) {
                most = worth;
                best = k;
            }
        }
        const int place = best >= 0 ? find_middle(net, a, best, -1) : -1;
        if (best < 0 || place >= 0)
            return place;
        a->worth[best] = 0;
    }
}

static qn_status ask(const qn_labeller *l, qn_arena *arena, int most, qn_label_question *questions,
                     int *n) {
    const qn_label_net *net = l->net;
    bool is_asked[QN_HEAD_MOST_OUTPUTS] = {false};
    asking a = {.n_asked = 0};
    int place;
    QN_TRY(qn_overview_make(l, arena, &a.all));
    QN_TRY(make(net, &a, arena));
    qn_groups_compare(a.all.groups.k, WIDTH, a.all.groups.centre, CELLS, a.likeness);
    find_worth(l, &a);
    most = most < QN_GROUPS_MOST ? most : QN_GROUPS_MOST;
    for (int i = net->n_labelled; i < a.all.n; i++)
        if (net->is_told[i])
            for (int k = 0; k < a.all.groups.k; k++)
                a.worth[k] *= 1.0f - a.likeness[a.all.groups.of[i] * CELLS + k];
    while (a.n_asked < most && (place = choose_class(l, &a, is_asked)) != -1)
        if (place >= 0)
            put_question(&a, place);
    while (a.n_asked < most && (place = choose_cell(net, &a)) >= 0)
        put_question(&a, place);
    for (int i = 0; i < a.n_asked; i++) {
        const int64_t age = qn_net_age_of(l, a.asked[i]);
        qn_label_answer now;
        qn_net_revise(l, age, NULL, &now);
        questions[(*n)++] =
            (qn_label_question){now.label, a.all.groups.size[a.all.groups.of[a.asked[i]]], age};
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
