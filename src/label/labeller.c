/* Creating a labeller, querying it, and describing its classes. */
#include "label/labeller.h"

#include "base/fmath.h"
#include "base/options.h"
#include "base/status.h"
#include "label/blur.h"
#include "label/network/net.h"
#include "label/turn.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>

static const float far_out = 1e4f; /* deviations beyond which a feature is taken as that */

/* ---- making ---- */

static size_t lay(qn_labeller *l, float *block) {
    const size_t d = (size_t)l->d, known = qn_clusters_floats(l->d, l->capacity);
    float *at = block;
    l->shift = at;
    l->factor = at += d;
    qn_clusters_lay(&l->origin, l->d, l->capacity, at += d);
    qn_clusters_lay(&l->known, l->d, l->capacity, at += known);
    qn_clusters_lay(&l->fresh, l->d, QN_LABEL_FRESH, at += known);
    l->window = at += qn_clusters_floats(l->d, QN_LABEL_FRESH);
    l->rest = at += (size_t)QN_LABEL_WINDOW * d;
    l->spread = at += QN_LABEL_WINDOW;
    l->known_weight = ++at;
    l->lead = ++at;
    l->scratch = ++at;
    const int lanes = l->capacity > QN_LABEL_FRESH ? l->capacity : QN_LABEL_FRESH;
    qn_grow_space_lay(&l->space, QN_LABEL_WINDOW, l->d, lanes, at);
    return (size_t)(at - block) + qn_grow_space_floats(QN_LABEL_WINDOW, l->d, lanes);
}

size_t qn_labeller_record_count(const qn_labeller *l) {
    return (size_t)l->n_known + QN_LABEL_MAX_NEW;
}

static void free_found(const qn_labeller *l) {
    for (int i = 0; i < QN_LABEL_MAX_NEW; i++)
        qn_labeller_found(l, i)->serial = -1;
}

qn_status qn_labeller_make_empty(const qn_allocator *allocator, int n_known,
                                 qn_labeller **labeller) {
    qn_labeller *l;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *l, &l));
    l->allocator = allocator;
    l->n_known = n_known;
    const qn_status status =
        qn_allocate(allocator, qn_labeller_record_count(l), sizeof *l->records, &l->records);
    if (status != QN_OK) {
        qn_labeller_destroy(l);
        return status;
    }
    free_found(l);
    *labeller = l;
    return QN_OK;
}

qn_status qn_labeller_make(const qn_allocator *allocator, int d, int n_known, int capacity,
                           qn_labeller **labeller) {
    qn_labeller *l;
    static float nowhere[1];
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *l, &l));
    l->allocator = allocator;
    l->d = d;
    l->n_known = n_known;
    l->capacity = capacity;
    qn_label_columns_init(&l->columns, d);
    l->n_floats = lay(l, nowhere);
    qn_status status = qn_allocate(allocator, l->n_floats, sizeof *l->block, &l->block);
    if (status == QN_OK)
        status =
            qn_allocate(allocator, qn_labeller_record_count(l), sizeof *l->records, &l->records);
    if (status != QN_OK) {
        qn_labeller_destroy(l);
        return status;
    }
    lay(l, l->block);
    qn_clusters_clear(&l->origin);
    qn_clusters_clear(&l->known);
    qn_clusters_clear(&l->fresh);
    qn_clusters_clear(&l->space.tried);
    free_found(l);
    *labeller = l;
    return QN_OK;
}

void qn_labeller_destroy(qn_labeller *labeller) {
    if (!labeller)
        return;
    qn_net_destroy(labeller->net);
    qn_release(labeller->allocator, labeller->block, labeller->n_floats, sizeof(float));
    qn_labeller_drop_examples(labeller);
    qn_label_columns_deinit(&labeller->columns);
    qn_labeller_drop_turn(labeller);
    qn_blur_drop(labeller);
    if (labeller->records)
        qn_release(labeller->allocator, labeller->records, qn_labeller_record_count(labeller),
                   sizeof *labeller->records);
    qn_release(labeller->allocator, labeller, 1, sizeof *labeller);
}

qn_status qn_labeller_make_turn(qn_labeller *l) {
    return qn_allocate(l->allocator, (size_t)l->d * (size_t)l->d, sizeof *l->turn, &l->turn);
}

void qn_labeller_drop_turn(qn_labeller *l) {
    qn_release(l->allocator, l->turn, (size_t)l->d * (size_t)l->d, sizeof *l->turn);
    l->turn = NULL;
}

qn_status qn_labeller_make_examples(qn_labeller *l, int n) {
    const size_t n_floats = qn_examples_floats(l->d, n);
    QN_TRY(qn_allocate(l->allocator, n_floats, sizeof(float), &l->example_block));
    l->n_example_floats = n_floats;
    qn_examples_lay(&l->examples, l->d, n, l->example_block);
    qn_examples_clear(&l->examples);
    return QN_OK;
}

void qn_labeller_drop_examples(qn_labeller *l) {
    qn_release(l->allocator, l->example_block, l->n_example_floats, sizeof(float));
    l->example_block = NULL;
    l->n_example_floats = 0;
    l->examples = (qn_examples){.n = 0};
}

qn_label_record *qn_labeller_found(const qn_labeller *l, int place) {
    return &l->records[l->n_known + place];
}

static qn_status check_shape(const qn_label_options *o) {
    const qn_shape *s = &o->sample;
    int64_t n = 1;
    for (int i = 0; i < 3 && s->rank == 3; i++)
        n *= s->dims[i] >= 1 && s->dims[i] <= QN_LABEL_MAX_VALUES && n <= QN_LABEL_MAX_VALUES
                 ? s->dims[i]
                 : QN_LABEL_MAX_VALUES + 1;
    if (s->rank != 3 || n > QN_LABEL_MAX_VALUES || n != o->n_features)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "samples for a network are (H, W, C) of at most %d numbers, n_features",
                       QN_LABEL_MAX_VALUES);
    return QN_OK;
}

static qn_status check_sizes(const qn_label_options *o) {
    if (o->sample.rank != 0)
        QN_TRY(check_shape(o));
    else if (o->n_features < 1 || o->n_features > QN_LABEL_MAX_FEATURES)
        return qn_fail(QN_ERROR_ARGUMENT, "samples have %d numbers; a labeller accepts 1 to %d",
                       o->n_features, QN_LABEL_MAX_FEATURES);
    const int most = o->sample.rank != 0 ? QN_LABEL_MAX_PICTURED : QN_LABEL_MAX_KNOWN;
    if (o->n_classes < 1 || o->n_classes > most)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%d classes; a labeller accepts 1 to %d: remove or merge some", o->n_classes,
                       most);
    if (o->n_samples < 2 || o->n_samples > INT32_MAX)
        return qn_fail(QN_ERROR_ARGUMENT, "%lld labelled samples; at least 2 are needed",
                       (long long)o->n_samples);
    return QN_OK;
}

static qn_status check_samples(const qn_label_options *o) {
    for (int64_t i = 0; i < o->n_samples; i++) {
        for (int j = 0; j < o->n_features; j++)
            if (!__builtin_isfinite(o->x[i * o->n_features + j]))
                return qn_fail(QN_ERROR_ARGUMENT, "labelled sample %lld: number %d is not finite",
                               (long long)i + 1, j + 1);
        if (o->label[i] < 0 || o->label[i] >= o->n_classes)
            return qn_fail(
                QN_ERROR_ARGUMENT,
                "labelled sample %lld has class %d, but there are %d classes, numbered from 0",
                (long long)i + 1, o->label[i], o->n_classes);
    }
    return QN_OK;
}

/* What the labeller calls classes that it finds: "new", "new-1", ... */
static bool is_found_name(const char *name) {
    return strcmp(name, "new") == 0 ||
           (strncmp(name, "new-", 4) == 0 && name[4] && !name[4 + strspn(name + 4, "0123456789")]);
}

/* A name that a person gives a class. */
static qn_status check_name(const char *name) {
    if (!*name || strlen(name) >= QN_LABEL_NAME)
        return qn_fail(QN_ERROR_ARGUMENT, "class name '%.80s' has %zu bytes; use 1 to %d", name,
                       strlen(name), QN_LABEL_NAME - 1);
    for (const char *c = name; *c; c++)
        if ((unsigned char)*c < ' ' || *c == 0x7f)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "class name '%.*s...' has a line break or another control character",
                           (int)(c - name), name);
    if (is_found_name(name))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "class name '%s': such names are those of classes that are found in the "
                       "stream; choose another",
                       name);
    return QN_OK;
}

static qn_status check_names(const qn_label_options *o) {
    for (int i = 0; o->names && i < o->n_classes; i++) {
        QN_TRY(check_name(o->names[i]));
        for (int j = 0; j < i; j++)
            if (strcmp(o->names[i], o->names[j]) == 0)
                return qn_fail(QN_ERROR_ARGUMENT, "two classes are called '%s'", o->names[i]);
    }
    return QN_OK;
}

void qn_labeller_begin_records(qn_labeller *l, const qn_label_options *o) {
    for (int i = 0; i < l->n_known; i++) {
        qn_label_record *r = &l->records[i];
        *r = (qn_label_record){.serial = i, .first = -1, .last = -1};
        if (o->names)
            snprintf(r->name, sizeof r->name, "%s", o->names[i]);
        else
            snprintf(r->name, sizeof r->name, "%d", i);
    }
}

/* Lanes for the clusters of known classes: 16 each where these are few, and some for those that are
 * found to be known. */
static int lanes_for(int n_classes) {
    enum { USUAL = 256, SPARE = 24 };
    const int wanted = n_classes * 16, least = (n_classes + SPARE) / 8 * 8;
    const int most = least > USUAL ? least : USUAL;
    return wanted < 64 ? 64 : wanted > most ? most : wanted;
}

/* Makes a labeller of rows that were found to be of these columns, whose texts it takes over. */
static qn_status make_of_columns(const qn_label_options *o, qn_label_columns *columns,
                                 qn_labeller **labeller) {
    const int lanes = lanes_for(o->n_classes);
    QN_TRY(qn_labeller_make(o->allocator, columns->n_features, o->n_classes, lanes, labeller));
    (*labeller)->columns = *columns;
    (*labeller)->seed = o->seed;
    *columns = (qn_label_columns){.n = 0};
    qn_labeller_begin_records(*labeller, o);
    return QN_OK;
}

/* Learns from samples whose columns of texts are made features of. */
static qn_status learn_rows(qn_labeller *l, const qn_label_options *options) {
    const size_t n = (size_t)options->n_samples;
    float *features;
    QN_TRY(qn_allocate(l->allocator, n * (size_t)l->d, sizeof *features, &features));
    for (size_t i = 0; i < n; i++)
        qn_label_columns_encode(&l->columns, options->x + i * (size_t)l->columns.n,
                                features + i * (size_t)l->d);
    qn_status status = qn_blur_find(l, features, options->n_samples);
    for (size_t i = 0; i < n && status == QN_OK; i++)
        qn_blur_apply(l, -1 - (int64_t)i, features + i * (size_t)l->d);
    qn_label_options known = *options;
    known.x = features;
    known.n_features = l->d;
    if (status == QN_OK)
        status = qn_labeller_learn(l, &known);
    qn_release(l->allocator, features, n * (size_t)l->d, sizeof *features);
    return status;
}

static qn_status create_of_rows(const qn_label_options *options, qn_labeller **labeller) {
    qn_label_columns columns;
    qn_labeller *l = NULL;
    qn_label_columns_init(&columns, options->n_features);
    qn_status status = qn_label_columns_choose(
        &columns, qn_allocator_or_default(options->allocator), options->columns, options->x,
        options->n_samples, QN_LABEL_MAX_FEATURES);
    if (status == QN_OK)
        status = make_of_columns(options, &columns, &l);
    if (status == QN_OK)
        status = learn_rows(l, options);
    qn_label_columns_deinit(&columns);
    if (status != QN_OK) {
        qn_labeller_destroy(l);
        return status;
    }
    *labeller = l;
    return QN_OK;
}

qn_status qn_labeller_create(const qn_label_options *options, qn_labeller **labeller) {
    QN_NEED(options, "options");
    QN_NEED(labeller, "labeller");
    QN_NEED(options->x, "options.x");
    QN_NEED(options->label, "options.label");
    qn_label_options known = {QN_OPTIONS_INIT(qn_label_options)};
    QN_TRY(QN_OPTIONS_TAKE(qn_label_options, options, &known));
    options = &known;
    QN_TRY(check_sizes(options));
    QN_TRY(check_names(options));
    QN_TRY(check_samples(options));
    if (known.sample.rank != 0) {
        known.allocator = qn_allocator_or_default(known.allocator);
        return qn_net_create(&known, labeller);
    }
    return create_of_rows(options, labeller);
}

/* ---- answers ---- */

/* Adds the examples to what clusters say, whose sum is given; returns the sum of both. */
static float look_at_examples(const qn_labeller *l, const float *x, float sum,
                              qn_label_view *view) {
    const float share = *l->examples.share, before = view->known.base;
    const float others =
        qn_examples_look(&l->examples, x, l->n_known, &view->known.base, view->examples);
    const float scale = (1.0f - share) * qn_exp_f32(before - view->known.base);
    for (int k = 0; k < l->origin.n; k++)
        view->known.density[k] *= scale;
    for (int c = 0; c < l->n_known; c++)
        view->examples[c] *= share;
    return scale * sum + share * others;
}

void qn_labeller_look(const qn_labeller *l, const qn_clusters *known, const float *x,
                      qn_label_view *view) {
    view->has_examples = known == &l->origin && qn_labeller_has_examples(l);
    float sum = qn_clusters_look(known, x, qn_labeller_least_log(l), &view->known);
    if (view->has_examples)
        sum = look_at_examples(l, x, sum, view);
    view->fresh_part = qn_clusters_look(&l->fresh, x, view->known.base, &view->fresh);
    view->known_part = *l->known_weight * sum * qn_exp_f32(view->known.base - view->fresh.base);
    view->log_known = view->known.base + qn_ln(sum + 1e-30f);
    if (view->has_examples)
        view->odds = qn_labeller_odds(l, x, view->log_known);
}

/* From which probability on a sample is called new: between the half, which makes the fewest
 * mistakes, and the share of new samples, which weighs both kinds of them alike. */
static float threshold(const qn_labeller *l) {
    const float share = 1.0f - *l->known_weight;
    const float odds = 0.45f * (qn_ln(share + 1e-9f) - qn_ln(*l->known_weight + 1e-9f));
    return 1.0f / (1.0f + qn_exp_f32(-odds));
}

float qn_labeller_class_parts(const qn_labeller *l, const qn_label_view *view, float *part) {
    float sum = 0;
    for (int c = 0; c < l->n_known; c++) {
        part[c] = view->has_examples ? view->examples[c] : 0.0f;
        sum += part[c];
    }
    for (int k = 0; k < l->known.n; k++) {
        part[l->owner[k]] += view->known.density[k];
        sum += view->known.density[k];
    }
    return sum;
}

static qn_label_answer answer_known(const qn_labeller *l, const qn_label_view *view, float fresh) {
    float part[QN_LABEL_MAX_KNOWN];
    const float sum = qn_labeller_class_parts(l, view, part);
    int best = 0;
    for (int i = 1; i < l->n_known; i++)
        best = part[i] > part[best] ? i : best;
    const float confidence = sum > 0 ? part[best] / sum * (1.0f - fresh) : 0.0f;
    return (qn_label_answer){best, confidence, fresh};
}

static qn_label_answer answer_found(const qn_labeller *l, const qn_label_view *view, float fresh) {
    int best = 0;
    for (int k = 1; k < l->fresh.n; k++)
        if (best == 0 || view->fresh.density[k] > view->fresh.density[best])
            best = k;
    const int64_t label =
        best ? l->n_known + qn_labeller_found(l, l->place[best])->serial : QN_LABEL_UNSURE;
    const float part = view->fresh.density[best] / (view->fresh_part + 1e-30f);
    return (qn_label_answer){label, part * fresh, fresh};
}

static qn_label_answer answer_of(const qn_labeller *l, const qn_label_view *view) {
    const float all = view->known_part + view->fresh_part + 1e-30f;
    const float odds = view->has_examples ? view->odds - *l->examples.limit : 0.0f;
    const float fresh =
        view->has_examples ? 1.0f / (1.0f + qn_exp_f32(odds)) : view->fresh_part / all;
    const bool is_new = view->has_examples ? odds < 0 : fresh > threshold(l);
    return is_new ? answer_found(l, view, fresh) : answer_known(l, view, fresh);
}

/* Looks with the known clusters that foretell better. */
static void look_best(const qn_labeller *l, const float *x, qn_label_view *view) {
    qn_labeller_look(l, *l->lead > 0 ? &l->known : &l->origin, x, view);
}

static float log_all(const qn_label_view *view) {
    return view->fresh.base + qn_ln(view->known_part + view->fresh_part + 1e-30f);
}

/* Looks with both, and counts which one foretold the sample better; older ones fade. The view is
 * of the better one: it comes second unless they change places, for there is one view, not two. */
static void look_both(qn_labeller *l, const float *x, qn_label_view *view) {
    const bool is_known = *l->lead > 0;
    qn_labeller_look(l, is_known ? &l->origin : &l->known, x, view);
    const float first = log_all(view);
    look_best(l, x, view);
    const float second = log_all(view);
    const float lead =
        *l->lead * 0.995f + (is_known ? second : first) - (is_known ? first : second);
    *l->lead = lead > 50.0f ? 50.0f : lead < -50.0f ? -50.0f : lead;
    if (is_known != (*l->lead > 0))
        look_best(l, x, view);
}

static qn_label_record *record_of(const qn_labeller *l, int64_t label) {
    if (label >= 0 && label < l->n_known)
        return &l->records[label];
    for (int i = 0; label >= l->n_known && i < QN_LABEL_MAX_NEW; i++)
        if (qn_labeller_found(l, i)->serial == label - l->n_known)
            return qn_labeller_found(l, i);
    return NULL;
}

void qn_labeller_count(const qn_labeller *l, int64_t label) {
    qn_label_record *r = record_of(l, label);
    if (!r)
        return;
    r->n_members++;
    r->first = r->first < 0 ? l->n_samples : r->first;
    r->last = l->n_samples;
}

static qn_status scale_sample(const qn_labeller *l, const float *x, float *scaled) {
    for (int j = 0; j < l->columns.n; j++)
        if (!__builtin_isfinite(x[j]))
            return qn_fail(QN_ERROR_ARGUMENT, "sample %lld: number %d is not finite",
                           (long long)l->n_samples + 1, j + 1);
    qn_label_columns_encode(&l->columns, x, scaled);
    qn_blur_apply(l, l->n_samples, scaled);
    for (int j = 0; j < l->d; j++) {
        const float at = (scaled[j] - l->shift[j]) * l->factor[j];
        scaled[j] = at > far_out ? far_out : at < -far_out ? -far_out : at;
    }
    if (l->turn)
        qn_turn_apply(l->turn, l->d, scaled);
    return QN_OK;
}

/* The answer for a sample. A function of its own, whose stack is free again when a refit begins. */
__attribute__((noinline)) static qn_label_answer answer_sample(qn_labeller *l, const float *scaled,
                                                               float *log_known) {
    qn_label_view view;
    look_both(l, scaled, &view);
    *log_known = view.log_known;
    return answer_of(l, &view);
}

qn_status qn_labeller_add(qn_labeller *labeller, const float *x, qn_label_answer *answer) {
    QN_NEED(labeller, "labeller");
    QN_NEED(x, "x");
    QN_NEED(answer, "answer");
    qn_labeller *l = labeller;
    float scaled[QN_LABEL_MAX_FEATURES];
    if (l->net)
        return qn_net_add(l, x, answer);
    QN_TRY(scale_sample(l, x, scaled));
    *answer = answer_sample(l, scaled, &l->rest[l->window_at]);
    qn_labeller_count(l, answer->label);
    memcpy(l->window + (size_t)l->window_at * (size_t)l->d, scaled, (size_t)l->d * sizeof *scaled);
    l->window_at = (l->window_at + 1) % QN_LABEL_WINDOW;
    l->n_window += l->n_window < QN_LABEL_WINDOW;
    l->n_samples++;
    qn_labeller_refit(l);
    return QN_OK;
}

void qn_labeller_unscale(const qn_labeller *l, const float *scaled, float *features) {
    memcpy(features, scaled, (size_t)l->d * sizeof *scaled);
    if (l->turn)
        qn_turn_undo(l->turn, l->d, features);
    for (int j = 0; j < l->d; j++)
        features[j] = features[j] / l->factor[j] + l->shift[j];
    qn_blur_undo(l, features);
}

qn_status qn_labeller_work(qn_labeller *labeller, bool *is_left) {
    QN_NEED(labeller, "labeller");
    QN_NEED(is_left, "is_left");
    const qn_labeller *l = labeller;
    *is_left = false;
    return l->net ? qn_net_work(labeller, is_left) : QN_OK;
}

qn_status qn_labeller_revise(const qn_labeller *labeller, int64_t age, float *x,
                             qn_label_answer *answer) {
    QN_NEED(labeller, "labeller");
    QN_NEED(answer, "answer");
    const qn_labeller *l = labeller;
    if (age < 0 || age >= l->n_window)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "sample %lld before the last one is not available; the last %d are kept",
                       (long long)age, l->n_window);
    if (l->net) {
        qn_net_revise(l, age, x, answer);
        return QN_OK;
    }
    const int i = (l->window_at - 1 - (int)age + 2 * QN_LABEL_WINDOW) % QN_LABEL_WINDOW;
    const float *scaled = l->window + (size_t)i * (size_t)l->d;
    qn_label_view view;
    look_best(l, scaled, &view);
    *answer = answer_of(l, &view);
    if (x) {
        float features[QN_LABEL_MAX_FEATURES];
        qn_labeller_unscale(l, scaled, features);
        qn_label_columns_decode(&l->columns, features, x);
    }
    return QN_OK;
}

int64_t qn_labeller_kept(const qn_labeller *labeller) {
    QN_NEED_OR(labeller, "labeller", 0);
    return labeller->n_window;
}

int64_t qn_labeller_samples(const qn_labeller *labeller) {
    QN_NEED_OR(labeller, "labeller", 0);
    return labeller->n_samples;
}

int qn_labeller_features(const qn_labeller *labeller) {
    QN_NEED_OR(labeller, "labeller", 0);
    return labeller->net ? labeller->d : labeller->columns.n;
}

const qn_label_columns *qn_labeller_columns(const qn_labeller *l) {
    return &l->columns;
}

static const qn_label_column *text_column(const qn_labeller *l, int i) {
    const bool has = l->columns.column && i >= 0 && i < l->columns.n;
    return has && l->columns.column[i].is_text ? &l->columns.column[i] : NULL;
}

bool qn_labeller_has_texts(const qn_labeller *labeller, int i) {
    QN_NEED_OR(labeller, "labeller", false);
    return text_column(labeller, i) != NULL;
}

int32_t qn_labeller_number_of(const qn_labeller *labeller, int i, const char *text) {
    QN_NEED_OR(labeller, "labeller", -1);
    QN_NEED_OR(text, "text", -1);
    return text_column(labeller, i) ? qn_label_columns_find(&labeller->columns, i, text) : -1;
}

const char *qn_labeller_text_of(const qn_labeller *labeller, int i, int32_t number) {
    QN_NEED_OR(labeller, "labeller", "");
    const qn_label_column *c = text_column(labeller, i);
    for (int k = 0; c && k < c->n; k++)
        if (c->number[k] == number)
            return c->texts[k];
    return "";
}

qn_shape qn_labeller_sample(const qn_labeller *labeller) {
    QN_NEED_OR(labeller, "labeller", (qn_shape){0});
    return labeller->net ? labeller->net->sample : (qn_shape){0};
}

/* ---- cost ---- */

qn_label_cost qn_labeller_get_cost(const qn_labeller *labeller) {
    QN_NEED_OR(labeller, "labeller", (qn_label_cost){0});
    const qn_labeller *l = labeller;
    if (l->net)
        return qn_net_get_cost(l);
    /* Operations for one cluster and one sample: looking (with a logarithm and an exponential), and
     * adding to the sums. */
    const double look = 3.0 * l->d + 60, add = 2.0 * l->d + 12;
    const double known = l->capacity, fresh = QN_LABEL_FRESH, lanes = QN_CLUSTER_LANES;
    const double w = QN_LABEL_WINDOW;
    const double fit = 5 * w * fresh * (look + add);
    const double grow =
        4 * w * fresh * look + 32 * w * (3.0 * l->d + 3 * 12) + 14 * w * lanes * (look + add);
    const double takeover = 3 * w * (known + fresh) * look;
    const double examples = qn_labeller_has_examples(l) ? 2 * l->examples.capacity * look : 0;
    const double follow = 200 * (known * (look + add) + fresh * look) + w * known * look;
    const double largest = takeover > grow ? takeover : grow;
    return (qn_label_cost){
        .bytes = sizeof *l +
                 (l->n_floats + l->n_example_floats + (size_t)(l->turn ? l->d * l->d : 0) +
                  (size_t)(l->step ? 2 * l->d : 0)) *
                     sizeof(float) +
                 qn_labeller_record_count(l) * sizeof *l->records,
        .mean_flops =
            2 * (known + fresh) * look + examples + (2 * fit + grow + takeover + follow) / 100,
        .largest_flops = largest > fit ? largest : fit,
    };
}

/* ---- classes ---- */

/* The record number `index` of those in use, found ones in the order of their serials. */
static const qn_label_record *record_at(const qn_labeller *l, int index, int *place) {
    if (index < l->n_known)
        return &l->records[index];
    int64_t after = -1;
    for (int seen = l->n_known;; seen++) {
        const qn_label_record *next = NULL;
        for (int i = 0; i < QN_LABEL_MAX_NEW; i++) {
            const qn_label_record *r = qn_labeller_found(l, i);
            if (r->serial > after && (!next || r->serial < next->serial)) {
                next = r;
                *place = i;
            }
        }
        if (!next || seen == index)
            return next;
        after = next->serial;
    }
}

int qn_labeller_class_count(const qn_labeller *labeller) {
    QN_NEED_OR(labeller, "labeller", 0);
    int n = labeller->n_known;
    for (int i = 0; i < QN_LABEL_MAX_NEW; i++)
        n += qn_labeller_found(labeller, i)->serial >= 0;
    return n;
}

/* Share of a known class, and how far its clusters moved in the mean. */
static void measure_known(const qn_labeller *l, int class, qn_label_class *c) {
    double weight = 0.0, moved = 0.0;
    for (int k = 0; k < l->known.n; k++) {
        double square = 0.0;
        if (l->owner[k] != class)
            continue;
        for (int j = 0; j < l->d; j++) {
            const size_t at = (size_t)j * (size_t)l->capacity + (size_t)k;
            const double off = (double)l->known.centre[at] - (double)l->origin.centre[at];
            square += off * off;
        }
        weight += (double)l->known.weight[k];
        moved += (double)l->known.weight[k] * __builtin_sqrt(square);
    }
    c->share = weight * (double)*l->known_weight;
    c->moved = weight > 0 && *l->lead > 0 ? moved / weight : 0.0;
}

qn_label_class qn_labeller_class_at(const qn_labeller *labeller, int index) {
    QN_NEED_OR(labeller, "labeller", (qn_label_class){0});
    QN_DEMAND_OR(index >= 0, (qn_label_class){0});
    const qn_labeller *l = labeller;
    int place = 0;
    const qn_label_record *r = record_at(l, index, &place);
    qn_label_class c = {.label = index, .is_known = index < l->n_known};
    if (!r)
        return c;
    c.name = r->name;
    c.n_members = r->n_members;
    c.first = r->first;
    c.last = r->last;
    if (l->net) {
        c.label = c.is_known ? index : l->n_known + r->serial;
        c.share = qn_net_share(l->net, c.is_known ? index : l->n_known + place);
        return c;
    }
    if (c.is_known) {
        measure_known(l, index, &c);
        return c;
    }
    c.label = l->n_known + r->serial;
    for (int k = 1; k < l->fresh.n; k++)
        c.share += l->place[k] == place ? (double)l->fresh.weight[k] : 0.0;
    return c;
}

const char *qn_labeller_name_of(const qn_labeller *labeller, int64_t label) {
    QN_NEED_OR(labeller, "labeller", NULL);
    const qn_label_record *r = record_of(labeller, label);
    return r ? r->name : "new";
}

bool qn_labeller_is_unnamed(const qn_labeller *l, int place) {
    return place >= l->n_known && is_found_name(l->records[place].name);
}

static bool has_name(const qn_labeller *l, const char *name) {
    for (size_t i = 0; i < qn_labeller_record_count(l); i++)
        if (l->records[i].serial >= 0 && strcmp(l->records[i].name, name) == 0)
            return true;
    return false;
}

qn_status qn_labeller_check_name(const qn_labeller *l, const char *name) {
    return l && has_name(l, name) ? QN_OK : check_name(name);
}

qn_status qn_labeller_rename(qn_labeller *labeller, const char *name, const char *to) {
    QN_NEED(labeller, "labeller");
    QN_NEED(name, "name");
    QN_NEED(to, "to");
    QN_TRY(qn_labeller_check_name(labeller, to));
    if (!has_name(labeller, name))
        return qn_fail(QN_ERROR_ARGUMENT, "no class is named '%s'; quern label show lists them",
                       name);
    for (size_t i = 0; i < qn_labeller_record_count(labeller); i++) {
        qn_label_record *r = &labeller->records[i];
        if (r->serial >= 0 && strcmp(r->name, name) == 0)
            snprintf(r->name, sizeof r->name, "%s", to);
    }
    return QN_OK;
}

qn_label_place qn_labeller_get_place(const qn_labeller *labeller) {
    QN_NEED_OR(labeller, "labeller", (qn_label_place){0});
    return labeller->where;
}

void qn_labeller_set_place(qn_labeller *labeller, const qn_label_place *place) {
    QN_NEED_OR(labeller, "labeller", );
    QN_NEED_OR(place, "place", );
    labeller->where = *place;
    labeller->where.source[sizeof labeller->where.source - 1] = 0;
}
