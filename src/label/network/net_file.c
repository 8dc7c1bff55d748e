/* A labeller with a network as a safetensors file: counts, weights, classifier, and the samples
 * that it keeps with their classes, which `labelled:` reads as a data set. Everything is checked
 * before use. */
#include "base/status.h"
#include "label/file.h"
#include "label/network/net.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

#define VERSION      "network 2"
#define TOLD_VERSION "network 3" /* of files in which the user said what samples are */
#define TOLD         "samples.told"

/* Places of the tensor "counts", before those of records. */
enum {
    AT_KNOWN,
    AT_LABELLED,
    AT_WINDOW,
    AT_OLD,
    AT_SEED_LOW, /* 32 bits each */
    AT_SEED_HIGH,
    AT_SAMPLES,
    AT_FOUND,
    AT_DRAWN,
    AT_ROWS,
    AT_BYTES,
    AT_RECENT, /* since a lesson began that is under way */
    N_FIXED
};

enum { WIDTH = QN_EMBEDDER_WIDTH, N_OWN = 9, NAME_BYTES = 96, N_SCALE = 4, N_PAIRS = 3 };

static size_t n_counts(const qn_labeller *l) {
    return N_FIXED + QN_LABEL_RECORD_COUNTS * qn_labeller_record_count(l);
}

/* The tensors beside the network's, in order of their names; data are where they lie. */
static void list_tensors(const qn_labeller *l, double *counts, float *scale,
                         qn_safetensor tensors[N_OWN]) {
    const qn_label_net *net = l->net;
    const int64_t n = qn_net_used(net) + net->n_recent, outputs = net->head.n_outputs;
    const qn_shape s = net->sample;
    const qn_safetensor all[N_OWN] = {
        qn_label_tensor("classifier", QN_F32, QN_SHAPE(WIDTH + 1, outputs), net->head.weight),
        qn_label_tensor("counts", QN_F64, QN_SHAPE((int64_t)n_counts(l)), counts),
        qn_label_tensor("open", QN_U8, QN_SHAPE(outputs), net->is_open),
        qn_label_tensor("pose", QN_F32, QN_SHAPE(QN_NET_POSES, QN_POSE_PARTS), net->pose),
        qn_label_tensor("samples.class", QN_I32, QN_SHAPE(n), net->label),
        qn_label_tensor("samples.confidence", QN_F32, QN_SHAPE(n), net->confidence),
        qn_label_tensor("samples.new", QN_F32, QN_SHAPE(n), net->is_new),
        qn_label_tensor(QN_NET_FILE_MARK, QN_U8, QN_SHAPE(n, s.dims[0], s.dims[1], s.dims[2]),
                        net->bytes),
        qn_label_tensor("scale", QN_F32, QN_SHAPE(N_SCALE), scale),
    };
    memcpy(tensors, all, sizeof all);
}

/* Which samples the user told the class of; written if there are any. */
static qn_safetensor told_tensor(const qn_label_net *net) {
    return qn_label_tensor(TOLD, QN_U8, QN_SHAPE(qn_net_used(net) + net->n_recent), net->is_told);
}

static bool has_told(const qn_label_net *net) {
    for (int i = 0; i < qn_net_used(net); i++)
        if (net->is_told[i])
            return true;
    return false;
}

/* The whitening lies between them by name. */
static qn_safetensor whitening_tensor(const qn_label_net *net) {
    return qn_label_tensor("whitening", QN_F32, QN_SHAPE(WIDTH + 1, WIDTH), net->whitening.w);
}

static void fill_counts(const qn_labeller *l, double *counts) {
    const qn_label_net *net = l->net;
    const double fixed[N_FIXED] = {
        [AT_KNOWN] = l->n_known,
        [AT_LABELLED] = net->n_labelled,
        [AT_WINDOW] = net->n_window,
        [AT_OLD] = net->n_old,
        [AT_SEED_LOW] = (double)(l->seed & 0xffffffffu),
        [AT_SEED_HIGH] = (double)(l->seed >> 32),
        [AT_SAMPLES] = (double)l->n_samples,
        [AT_FOUND] = (double)l->n_found,
        [AT_DRAWN] = (double)net->n_drawn,
        [AT_ROWS] = (double)l->where.n_rows,
        [AT_BYTES] = (double)l->where.n_bytes,
        [AT_RECENT] = net->n_recent,
    };
    memcpy(counts, fixed, sizeof fixed);
    qn_labeller_put_records(l, counts + N_FIXED);
}

/* ---- writing ---- */

/* The name of a weight in the file. */
static void print_name(char *text, const char *name) {
    snprintf(text, NAME_BYTES, "network.%s", name);
}

static int by_name(const qn_safetensor *a, const qn_safetensor *b) {
    return strcmp(a->name, b->name);
}

static void sort(qn_safetensor *tensors, size_t n) {
    for (size_t i = 1; i < n; i++) {
        const qn_safetensor held = tensors[i];
        size_t at = i;
        for (; at > 0 && by_name(&tensors[at - 1], &held) > 0; at--)
            tensors[at] = tensors[at - 1];
        tensors[at] = held;
    }
}

/* What writing needs beside the labeller. */
typedef struct writing {
    double *counts;
    qn_safetensor *tensors;
    char (*names)[NAME_BYTES];
    qn_safetensors_pair *pairs;
    char (*keys)[QN_LABEL_KEY];
} writing;

static bool make_writing(const qn_labeller *l, qn_arena *arena, writing *w) {
    const size_t n = (size_t)qn_embedder_weight_count(l->net->embedder);
    const size_t n_records = qn_labeller_record_count(l);
    w->counts = qn_arena_allocate(arena, n_counts(l), sizeof *w->counts);
    w->tensors = qn_arena_allocate(arena, n + N_OWN + 2, sizeof *w->tensors);
    w->names = qn_arena_allocate(arena, n, sizeof *w->names);
    w->pairs = qn_arena_allocate(arena, n_records + N_PAIRS, sizeof *w->pairs);
    w->keys = qn_arena_allocate(arena, n_records, sizeof *w->keys);
    return w->counts && w->tensors && w->names && w->pairs && w->keys;
}

static qn_status write_parts(const qn_labeller *l, const char *path, writing *w) {
    const qn_label_net *net = l->net;
    float scale[N_SCALE] = {net->low, net->step, net->scale.shift, net->scale.factor};
    size_t n = N_OWN, n_pairs = 0;
    fill_counts(l, w->counts);
    list_tensors(l, w->counts, scale, w->tensors);
    w->tensors[n++] = whitening_tensor(net);
    if (has_told(net))
        w->tensors[n++] = told_tensor(net);
    for (int i = 0; i < qn_embedder_weight_count(net->embedder); i++) {
        const qn_stored_tensor t = qn_embedder_weight_at(net->embedder, i);
        print_name(w->names[i], t.name);
        w->tensors[n++] = qn_label_tensor(w->names[i], t.dtype, t.shape, t.data);
    }
    sort(w->tensors, n);
    w->pairs[n_pairs++] = (qn_safetensors_pair){"format", QN_LABEL_FORMAT};
    n_pairs += qn_labeller_put_names(l, w->pairs + n_pairs, w->keys);
    w->pairs[n_pairs++] = (qn_safetensors_pair){"source", l->where.source};
    w->pairs[n_pairs++] = (qn_safetensors_pair){"version", has_told(net) ? TOLD_VERSION : VERSION};
    return qn_safetensors_write(l->allocator, path, w->tensors, n, w->pairs, n_pairs);
}

qn_status qn_net_save(const qn_labeller *l, const char *path) {
    qn_arena arena;
    writing w;
    qn_lesson_load(l->net, false);
    qn_arena_init(&arena, l->allocator);
    const qn_status status =
        make_writing(l, &arena, &w) ? write_parts(l, path, &w) : QN_ERROR_MEMORY;
    qn_arena_deinit(&arena);
    return status;
}

/* ---- reading ---- */

/* Samples since the beginning of a lesson that is under way after n samples. */
static int64_t count_recent(int64_t n) {
    const int64_t begun_at = qn_lesson_before(n);
    return begun_at >= 0 && n - begun_at < QN_NET_DELAY ? n - begun_at : 0;
}

static bool are_sound_counts(const qn_label_reading *r) {
    static const double least[N_FIXED] = {[AT_KNOWN] = 1, [AT_LABELLED] = 1};
    static const double most[N_FIXED] = {
        [AT_KNOWN] = QN_LABEL_MAX_PICTURED,    [AT_LABELLED] = QN_NET_MOST_LABELLED,
        [AT_WINDOW] = QN_NET_WINDOW,           [AT_OLD] = 8192,
        [AT_SEED_LOW] = 4294967295.0,          [AT_SEED_HIGH] = 4294967295.0,
        [AT_SAMPLES] = QN_LABEL_LARGEST_COUNT, [AT_FOUND] = QN_LABEL_LARGEST_COUNT,
        [AT_DRAWN] = QN_LABEL_LARGEST_COUNT,   [AT_ROWS] = QN_LABEL_LARGEST_COUNT,
        [AT_BYTES] = QN_LABEL_LARGEST_COUNT,   [AT_RECENT] = QN_NET_DELAY - 1,
    };
    for (int i = 0; i < N_FIXED; i++)
        if (!qn_label_is_count(r->counts[i], least[i], most[i]))
            return false;
    const double recent = r->counts[AT_RECENT], window = r->counts[AT_WINDOW];
    const double n = r->counts[AT_SAMPLES] - recent;
    return recent == (double)count_recent((int64_t)r->counts[AT_SAMPLES]) &&
           window == (n < QN_NET_WINDOW ? n : QN_NET_WINDOW) && r->counts[AT_OLD] <= n - window;
}

static qn_status read_counts(qn_label_reading *r) {
    const qn_safetensor *x = qn_safetensors_find(&r->file, QN_NET_FILE_MARK);
    QN_TRY(qn_label_check_format(r, qn_safetensors_find(&r->file, TOLD) ? TOLD_VERSION : VERSION));
    QN_TRY(qn_label_read_counts(r, N_FIXED, 0));
    if (!are_sound_counts(r))
        return qn_label_refuse(r, "its counts are invalid");
    if (x->dtype != QN_U8 || x->shape.rank != 4 ||
        (double)x->shape.dims[0] != r->counts[AT_LABELLED] + r->counts[AT_WINDOW] +
                                        r->counts[AT_OLD] + r->counts[AT_RECENT] ||
        x->bytes / (size_t)x->shape.dims[0] > QN_LABEL_MAX_VALUES || x->bytes == 0)
        return qn_label_refuse(r, "its samples have an invalid size");
    return QN_OK;
}

static qn_status make(qn_label_reading *r) {
    const qn_safetensor *x = qn_safetensors_find(&r->file, QN_NET_FILE_MARK);
    const double *c = r->counts;
    QN_TRY(qn_labeller_make_empty(r->allocator, (int)c[AT_KNOWN], &r->labeller));
    qn_labeller *l = r->labeller;
    l->seed = (uint64_t)c[AT_SEED_LOW] | (uint64_t)c[AT_SEED_HIGH] << 32;
    l->n_samples = (int64_t)c[AT_SAMPLES];
    l->n_found = (int64_t)c[AT_FOUND];
    l->where.n_rows = (int64_t)c[AT_ROWS];
    l->where.n_bytes = (int64_t)c[AT_BYTES];
    l->d = (int)(x->bytes / (size_t)x->shape.dims[0]);
    if (r->n_counts != n_counts(l) || !qn_labeller_take_records(l, c + N_FIXED))
        return qn_label_refuse(r, "its classes are invalid");
    QN_TRY(qn_net_make(r->allocator, QN_SHAPE(x->shape.dims[1], x->shape.dims[2], x->shape.dims[3]),
                       l->n_known, (int)c[AT_LABELLED], l->seed, 0, &l->net));
    l->net->n_drawn = (int64_t)c[AT_DRAWN];
    l->net->n_window = (int)c[AT_WINDOW];
    l->net->n_old = (int)c[AT_OLD];
    l->net->n_recent = (int)c[AT_RECENT];
    l->n_window = l->net->n_window + l->net->n_recent;
    return l->net->n_old <= l->net->old_capacity ? QN_OK
                                                 : qn_label_refuse(r, "it keeps too many samples");
}

static qn_status read_weights(const qn_label_reading *r) {
    const qn_embedder *e = r->labeller->net->embedder;
    for (int i = 0; i < qn_embedder_weight_count(e); i++) {
        const qn_stored_tensor t = qn_embedder_weight_at(e, i);
        char name[NAME_BYTES];
        print_name(name, t.name);
        QN_TRY(qn_label_read_tensor(r, name, QN_F32, t.bytes, t.data));
        if (!qn_label_are_moderate(t.data, t.bytes / sizeof(float)))
            return qn_label_refuse(r, "its network is invalid");
        /* Running variances, the only ones that something is divided by, come from squares. */
        for (size_t k = 0; strstr(t.name, "variance") && k < t.bytes / sizeof(float); k++)
            if (((const float *)t.data)[k] < 0)
                return qn_label_refuse(r, "its network is invalid");
    }
    return QN_OK;
}

static bool is_open_class(const qn_labeller *l, int class) {
    return class < l->n_known ||
           (class < l->n_known + QN_LABEL_MAX_NEW && l->records[class].serial >= 0);
}

/* Whether classes, probabilities and numbers are possible. */
static bool is_sound(const qn_labeller *l) {
    const qn_label_net *net = l->net;
    const size_t n = (size_t)(qn_net_used(net) + net->n_recent);
    for (int c = 0; c < net->head.n_outputs; c++)
        if (net->is_open[c] > 1 || (net->is_open[c] && !is_open_class(l, c)))
            return false;
    for (size_t i = 0; i < n; i++) {
        const bool is_labelled = i < (size_t)net->n_labelled;
        if (net->label[i] < 0 || !is_open_class(l, net->label[i]) ||
            (is_labelled && net->label[i] >= l->n_known) || net->is_told[i] > !is_labelled ||
            !(net->confidence[i] >= 0 && net->confidence[i] <= 1.001f) ||
            !(net->is_new[i] >= 0 && net->is_new[i] <= 1.001f))
            return false;
    }
    for (int i = 0; i < QN_NET_POSES; i++)
        if (!qn_pose_is_sound(&net->pose[i]))
            return false;
    return net->is_open[0] && net->step > 0 && net->scale.factor > 0;
}

static qn_status read_state(const qn_label_reading *r) {
    qn_labeller *l = r->labeller;
    qn_label_net *net = l->net;
    float scale[N_SCALE];
    qn_safetensor tensors[N_OWN];
    list_tensors(l, r->counts, scale, tensors);
    for (int i = 0; i < N_OWN; i++) {
        const qn_safetensor *t = &tensors[i];
        QN_TRY(qn_label_read_tensor(r, t->name, t->dtype, t->bytes, (void *)t->data));
        if (t->dtype == QN_F32 && !qn_label_are_moderate(t->data, t->bytes / sizeof(float)))
            return qn_label_refuse(r, "its numbers are invalid");
    }
    QN_TRY(qn_label_read_tensor(r, "whitening", QN_F32, (WIDTH + 1) * WIDTH * sizeof(float),
                                net->whitening.w));
    if (qn_safetensors_find(&r->file, TOLD)) {
        const qn_safetensor t = told_tensor(net);
        QN_TRY(qn_label_read_tensor(r, TOLD, QN_U8, t.bytes, net->is_told));
    }
    net->low = scale[0];
    net->step = scale[1];
    net->scale = (qn_view_scale){scale[2], scale[3]};
    net->whitening.d = WIDTH;
    qn_head_count_used(&net->head);
    if (!qn_label_are_moderate(net->whitening.w[0], (WIDTH + 1) * WIDTH) || !is_sound(l))
        return qn_label_refuse(r, "its numbers are invalid");
    return qn_labeller_take_texts(l, &r->file) ? QN_OK : qn_label_refuse(r, "a name is too long");
}

qn_status qn_net_read(qn_label_reading *r) {
    QN_TRY(read_counts(r));
    QN_TRY(make(r));
    QN_TRY(read_weights(r));
    QN_TRY(read_state(r));
    qn_net_find_arrived(r->labeller->net, r->labeller->n_samples - r->labeller->net->n_recent);
    const int64_t begun_at = qn_lesson_before(r->labeller->n_samples);
    if (begun_at >= 0 && r->labeller->n_samples - begun_at < QN_NET_DELAY)
        qn_lesson_begin(r->labeller, begun_at, QN_NET_STEPS);
    return QN_OK;
}
