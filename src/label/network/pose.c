/* See pose.h. */
#include "label/network/pose.h"

#include "base/fmath.h"
#include "label/select.h"
#include "tensor/tensor.h"

#include <string.h>

enum { ROUNDS = 2, SOME = 64, SOME_PAIRS = 32 };

/* Why samples are compared, and what else is done. */
enum { REDUCING, HERE, LESS, MORE, THERE, LAST, LOOKING, DONE };

/* The distance at which other angles are tried, and what is below it is no change. */
static const float reach = 0.1f, least_angle = 0.03f, least_light = 0.08f, least_noise = 5.0f;
static const float most[QN_POSE_PARTS] = {1.6f, 1.6f, 80.0f};

enum { LANES = 16 };

static int64_t ceiling(int64_t n, int64_t of) {
    return (n + of - 1) / of;
}

/* The smallest block after which few enough numbers are left. */
static void size_blocks(qn_pose_search *c, qn_shape s) {
    for (c->block = 1;; c->block++) {
        c->rows = ceiling(s.dims[0], c->block);
        c->columns = ceiling(s.dims[1], c->block);
        const int64_t n = c->rows * c->columns * s.dims[2];
        c->d = (int)(ceiling(n, LANES) * LANES);
        const int64_t extent = s.dims[0] > s.dims[1] ? s.dims[0] : s.dims[1];
        const bool is_coarse = c->block * 2 > extent || c->block > 1 || extent < 16;
        if ((n <= QN_POSE_VALUES && is_coarse) || c->block >= extent)
            return;
    }
}

size_t qn_pose_room(qn_shape sample) {
    const size_t many = QN_POSE_STREAM + QN_POSE_LABELLED;
    const size_t values = (size_t)qn_shape_count(sample);
    const size_t d = values < QN_POSE_VALUES + LANES ? values + LANES : QN_POSE_VALUES + LANES;
    return many * d + 3 * QN_POSE_STREAM + values;
}

static void reduce(const qn_pose_search *c, const uint8_t *bytes, float *x) {
    const qn_shape s = c->of.sample;
    const int64_t channels = s.dims[2], n = c->rows * c->columns * channels;
    float sum = 0, square = 0;
    memset(x, 0, (size_t)c->d * sizeof *x);
    for (int64_t h = 0, i = 0; h < s.dims[0]; h++)
        for (int64_t w = 0; w < s.dims[1]; w++)
            for (int64_t k = 0; k < channels; k++, i++)
                x[(h / c->block * c->columns + w / c->block) * channels + k] += (float)bytes[i];
    for (int64_t i = 0; i < n; i++)
        sum += x[i];
    for (int64_t i = 0; i < n; i++) {
        x[i] -= sum / (float)n;
        square += x[i] * x[i];
    }
    const float factor = square > 0 ? 1.0f / __builtin_sqrtf(square) : 0.0f;
    for (int64_t i = 0; i < n; i++)
        x[i] *= factor;
}

static float product(const float *a, const float *b, int d) {
    float sum[LANES] = {0}, all = 0;
    for (int j = 0; j < d; j += LANES)
        for (int i = 0; i < LANES; i++)
            sum[i] += a[j + i] * b[j + i];
    for (int i = 0; i < LANES; i++)
        all += sum[i];
    return all;
}

static const uint8_t *labelled_bytes(const qn_pose_search *c, int i) {
    const int64_t place = (int64_t)i * c->of.n_labelled / c->n_labelled;
    return c->of.labelled + place * qn_shape_count(c->of.sample);
}

static const uint8_t *stream_bytes(const qn_pose_search *c, int i) {
    const int64_t place = (int64_t)i * c->of.n_stream / c->n_stream;
    return c->of.stream + c->of.order[place] * qn_shape_count(c->of.sample);
}

/* Turned, without light and noise. */
static void show(const qn_pose_search *c, float angle, int i) {
    const qn_pose pose = {{[QN_POSE_ANGLE] = angle}};
    qn_view_show(c->of.sample, &pose, 0, 0, labelled_bytes(c, i), c->shown);
}

/* Compares samples with the labelled ones at the angle that is tried: a part of the labelled ones
 * is shown so, or a part of the samples is compared. */
static bool compare(qn_pose_search *c) {
    const int all = c->n_labelled + c->n_stream, from = c->at;
    const int end = from < c->n_labelled ? c->n_labelled : all;
    c->at = from + SOME < end ? from + SOME : end;
    for (int i = from; i < c->at && from < c->n_labelled; i++) {
        show(c, c->tried, i);
        reduce(c, c->shown, c->labelled + i * c->d);
    }
    for (int s = from - c->n_labelled; s >= 0 && s < c->at - c->n_labelled; s++) {
        c->like[s] = -2.0f;
        for (int i = 0; i < c->n_labelled; i++) {
            const float like = product(c->stream + s * c->d, c->labelled + i * c->d, c->d);
            c->nearest[s] = like > c->like[s] ? i : c->nearest[s];
            c->like[s] = like > c->like[s] ? like : c->like[s];
        }
    }
    return c->at < all;
}

/* Mean likeness of the more alike half: the others may be of classes that have no labels. */
static float score(qn_pose_search *c) {
    float sum = 0;
    const int half = c->n_stream / 2;
    memcpy(c->room, c->like, (size_t)c->n_stream * sizeof *c->room);
    qn_select_smallest(c->room, c->n_stream, half);
    for (int i = half; i < c->n_stream; i++)
        sum += c->room[i];
    return sum / (float)(c->n_stream - half);
}

/* Whether samples that are like a labelled one are more like it on one side than on the other: by
 * more than three deviations of the mean difference. */
static bool is_tilted(const qn_pose_search *c) {
    float sum = 0, square = 0;
    const float limit = 0.5f * (c->limit[0] + c->limit[1]);
    int n = 0;
    for (int i = 0; i < c->n_stream; i++) {
        const float off = c->side[1][i] - c->side[0][i];
        if (0.5f * (c->side[0][i] + c->side[1][i]) < limit)
            continue;
        sum += off;
        square += off * off;
        n++;
    }
    return n > 1 && sum * sum > 9.0f * (square - sum * sum / (float)n);
}

/* By how many steps to move: to the top of the parabola through three angles, if there is one, or a
 * step up a slope. Where both sides are higher, they are but smoother. */
static float choose_move(const qn_pose_search *c) {
    const float bend = 2.0f * c->here - c->high[0] - c->high[1];
    if (!is_tilted(c) || (c->high[0] > c->here && c->high[1] > c->here))
        return 0;
    const float move = bend > 1e-6f           ? 0.5f * (c->high[1] - c->high[0]) / bend
                       : c->high[1] > c->here ? 1.0f
                                              : -1.0f;
    return move > 1.5f ? 1.5f : move < -1.5f ? -1.5f : move;
}

static void try_angle(qn_pose_search *c, int stage, float angle) {
    c->stage = stage;
    c->at = 0;
    c->tried = angle;
}

/* The angle has been found. */
static void settle(qn_pose_search *c) {
    float *before = &c->pose.part[QN_POSE_ANGLE];
    if (c->angle - *before >= least_angle || *before - c->angle >= least_angle)
        *before = c->angle;
    try_angle(c, LAST, *before);
}

static void note_side(qn_pose_search *c, int side) {
    c->high[side] = score(c);
    c->limit[side] = c->room[c->n_stream / 2];
    memcpy(c->side[side], c->like, (size_t)c->n_stream * sizeof *c->like);
}

static bool is_turned(const qn_pose_search *c) {
    return c->of.sample.dims[0] > 1 && c->of.sample.dims[1] > 1;
}

/* What follows from a comparison. */
static void decide(qn_pose_search *c) {
    float move, there;
    switch (c->stage) {
    case HERE:
        c->here = score(c);
        if (is_turned(c))
            try_angle(c, LESS, c->angle - reach);
        else
            try_angle(c, LAST, 0);
        break;
    case LESS:
        note_side(c, 0);
        try_angle(c, MORE, c->angle + reach);
        break;
    case MORE:
        note_side(c, 1);
        move = choose_move(c);
        if (move > 0 || move < 0)
            try_angle(c, THERE, c->angle + move * reach);
        else
            settle(c);
        break;
    default: /* THERE */
        there = score(c);
        c->angle = there > c->here ? c->tried : c->angle;
        if (there > c->here && ++c->round < ROUNDS) {
            c->here = there;
            try_angle(c, LESS, c->angle - reach);
        } else {
            settle(c);
        }
    }
}

/* ---- light and noise ---- */

/* What a look is: mean, deviation, and mean size of the second differences along all axes
 * (Immerkaer 1996). */
enum { MEAN, DEVIATION, ROUGHNESS };

static float bend_at(qn_shape s, const uint8_t *bytes, int64_t at) {
    const int64_t along_h = s.dims[0] >= 3 ? s.dims[1] * s.dims[2] : 0;
    const int64_t along_w = s.dims[1] >= 3 ? s.dims[2] : 0;
    static const float weight[3] = {1, -2, 1};
    float sum = 0;
    for (int i = along_h ? -1 : 0; i <= (along_h ? 1 : 0); i++)
        for (int j = along_w ? -1 : 0; j <= (along_w ? 1 : 0); j++)
            sum += (along_h ? weight[i + 1] : 1) * (along_w ? weight[j + 1] : 1) *
                   (float)bytes[at + i * along_h + j * along_w];
    return sum < 0 ? -sum : sum;
}

static void look_at(qn_shape s, const uint8_t *bytes, float look[3]) {
    const int64_t n = qn_shape_count(s), frame_h = s.dims[0] >= 3, frame_w = s.dims[1] >= 3;
    float sum = 0, square = 0, rough = 0;
    int64_t n_rough = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += (float)bytes[i];
        square += (float)bytes[i] * (float)bytes[i];
    }
    for (int64_t h = frame_h; h < s.dims[0] - frame_h; h++)
        for (int64_t w = frame_w; w < s.dims[1] - frame_w; w++)
            for (int64_t k = 0; k < s.dims[2]; k++, n_rough++)
                rough += bend_at(s, bytes, (h * s.dims[1] + w) * s.dims[2] + k);
    const float mean = sum / (float)n, variance = square / (float)n - mean * mean;
    look[MEAN] = mean;
    look[DEVIATION] = __builtin_sqrtf(variance > 0 ? variance : 0);
    look[ROUGHNESS] = rough / (float)n_rough;
}

static float log_ratio(float a, float b) {
    return qn_log_f32((a + 1.0f) / (b + 1.0f));
}

static float median(float *x, int n) {
    return n > 0 ? qn_select_smallest(x, n, n / 2) : 0;
}

/* Looks at some of the samples that are most like a labelled one, and at that. */
static bool look_at_pairs(qn_pose_search *c) {
    memcpy(c->room, c->like, (size_t)c->n_stream * sizeof *c->room);
    const float limit = median(c->room, c->n_stream);
    const int end = c->at + SOME_PAIRS < c->n_stream ? c->at + SOME_PAIRS : c->n_stream;
    for (; c->at < end; c->at++) {
        if (c->like[c->at] < limit)
            continue;
        show(c, c->tried, c->nearest[c->at]);
        look_at(c->of.sample, stream_bytes(c, c->at), c->now[c->n_pairs]);
        look_at(c->of.sample, c->shown, c->then[c->n_pairs++]);
    }
    return c->at < c->n_stream;
}

static float update(float before, float found, float least) {
    return found - before > least || before - found > least ? found : before;
}

static void find_light(qn_pose_search *c) {
    float *part = c->pose.part, found[QN_POSE_STREAM];
    const bool is_flat = c->of.sample.dims[0] < 3 || c->of.sample.dims[1] < 3;
    const int n = c->n_pairs;
    for (int i = 0; i < n; i++)
        found[i] = 0.5f * (log_ratio(c->now[i][MEAN], c->then[i][MEAN]) +
                           log_ratio(c->now[i][DEVIATION], c->then[i][DEVIATION]));
    part[QN_POSE_LIGHT] = update(part[QN_POSE_LIGHT], median(found, n), least_light);
    const float light = qn_exp_f32(part[QN_POSE_LIGHT]);
    for (int i = 0; i < n; i++) {
        const float now = c->now[i][ROUGHNESS], then = light * c->then[i][ROUGHNESS];
        found[i] = now * now - then * then;
    }
    const float square = median(found, n), factor = is_flat ? 1.95f : 4.79f;
    const float noise = square > 0 ? __builtin_sqrtf(square) / factor : 0;
    part[QN_POSE_NOISE] = update(part[QN_POSE_NOISE], noise, least_noise);
}

bool qn_pose_is_sound(const qn_pose *pose) {
    for (int i = 0; i < QN_POSE_PARTS; i++)
        if (!(pose->part[i] >= -most[i] && pose->part[i] <= most[i]))
            return false;
    return pose->part[QN_POSE_NOISE] >= 0;
}

void qn_pose_begin(qn_pose_search *c, const qn_pose *pose, const qn_pose_samples *samples,
                   float *room) {
    *c = (qn_pose_search){.of = *samples, .pose = *pose, .angle = pose->part[QN_POSE_ANGLE]};
    c->n_stream = samples->n_stream < QN_POSE_STREAM ? samples->n_stream : QN_POSE_STREAM;
    c->n_labelled = samples->n_labelled < QN_POSE_LABELLED ? samples->n_labelled : QN_POSE_LABELLED;
    size_blocks(c, samples->sample);
    c->like = room;
    c->room = c->like + QN_POSE_STREAM;
    c->stream = c->room + QN_POSE_STREAM;
    c->labelled = c->stream + (size_t)QN_POSE_STREAM * (size_t)c->d;
    c->shown = (uint8_t *)(c->labelled + (size_t)QN_POSE_LABELLED * (size_t)c->d);
}

static void finish(qn_pose_search *c) {
    find_light(c);
    for (int i = 0; i < QN_POSE_PARTS; i++) {
        float *part = &c->pose.part[i];
        *part = *part > most[i] ? most[i] : *part < -most[i] ? -most[i] : *part;
    }
    c->stage = DONE;
}

static bool reduce_some(qn_pose_search *c) {
    const int end = c->at + SOME < c->n_stream ? c->at + SOME : c->n_stream;
    for (; c->at < end; c->at++)
        reduce(c, stream_bytes(c, c->at), c->stream + c->at * c->d);
    return c->at < c->n_stream;
}

bool qn_pose_go_on(qn_pose_search *c) {
    if (c->stage == REDUCING) {
        if (!reduce_some(c))
            try_angle(c, HERE, c->angle);
    } else if (c->stage == LOOKING) {
        if (!look_at_pairs(c))
            finish(c);
    } else if (!compare(c)) {
        if (c->stage == LAST)
            try_angle(c, LOOKING, c->tried);
        else
            decide(c);
    }
    return c->stage != DONE;
}

void qn_pose_measure(qn_pose *pose, const qn_pose_samples *samples, float *room) {
    qn_pose_search search;
    qn_pose_begin(&search, pose, samples, room);
    while (qn_pose_go_on(&search)) {
    }
    *pose = search.pose;
}
