/* See arriving.h. */
#include "label/bench/arriving.h"

#include "base/fmath.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "label/bench/consistency.h"
#include "label/bench/others.h"
#include "label/matching.h"
#include "label/network/net.h"
#include "os/heap.h"
#include "os/os.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

enum { MOST_FOUND = 32 };

/* Methods beside those of others.h, by their place behind them. */
enum { FROZEN, CONSISTENCY, N_BESIDE };
static const char *const beside[N_BESIDE] = {"frozen features, classifier",
                                             "consistency (FixMatch)"};

/* A trial under way. Classes are numbered in the order in which they appear: known ones first. */
typedef struct trial {
    const qn_arriving_set *set;
    qn_arriving_options o;
    const qn_allocator *allocator;
    size_t n_values;
    int32_t number[QN_ARRIVING_MOST_CLASSES]; /* of a class of the set */
    int32_t *left;                            /* (n) samples in a drawn order */
    uint8_t *is_taken;                        /* (n) */
    int32_t *sample, *truth;                  /* (n_stream) of the set; numbers */
    int64_t *answer;                          /* (n_stream) labels */
    float *x;                                 /* (n_labelled of all classes, n_values) */
    int32_t *label;
    uint8_t *bytes;   /* (n_values) a picture as it looks by now */
    int64_t *revised; /* (n_stream) answers after the next lesson */
    double *ns;       /* (n_stream) */
    int n_others;     /* methods of others.h */
    int32_t *other;   /* (n_others + N_BESIDE, n_stream) answers of other methods, known or found
                         there */
    int32_t *window;  /* (labelled and window) such answers of a lesson */
    float *z;         /* (labelled and window, QN_EMBEDDER_WIDTH) */
    float *means;     /* (n_known, QN_EMBEDDER_WIDTH + 1) */
    float *frozen;    /* weights of the labeller's network before it saw the stream */
    size_t n_frozen;
    qn_consistency consistency;
    int n_known, n_labelled, n_stream, n_new;
    double work_ns, longest_ns; /* of pieces of lessons */
} trial;

/* ---- the stream ---- */

static void number_classes(trial *t) {
    const qn_rng rng = qn_rng_make(t->o.class_seed, qn_hash_text("label.arriving.classes"), 0);
    const int n = t->set->n_classes;
    for (int i = 0; i < n; i++)
        t->number[qn_rng_permute(rng, (uint64_t)i, (uint64_t)n)] = i;
    t->n_known = t->o.n_known > 0 ? t->o.n_known : (3 * n + 2) / 5;
    t->n_new = n - t->n_known;
}

/* The class of sample `at` of the stream: any of those that have appeared. */
static int draw_class(const trial *t, qn_rng rng, int at) {
    const int phase = t->n_new > 0 ? (int)((int64_t)at * (t->n_new + 1) / t->n_stream) : 0;
    return (int)qn_rng_below(rng, (uint64_t)at, (uint64_t)(t->n_known + phase));
}

/* The next sample of a class that was not taken, or -1. from: where to look on, by class. */
static int take(trial *t, int number, int *from) {
    for (; from[number] < t->set->n; from[number]++) {
        const int i = t->left[from[number]];
        if (!t->is_taken[i] && t->number[t->set->label[i]] == number) {
            t->is_taken[i] = 1;
            return i;
        }
    }
    return -1;
}

static qn_status draw(trial *t) {
    int from[QN_ARRIVING_MOST_CLASSES] = {0};
    const qn_rng order = qn_rng_make(t->o.seed, qn_hash_text("label.arriving.order"), 0);
    const qn_rng rng = qn_rng_make(t->o.seed, qn_hash_text("label.arriving.stream"), 0);
    memset(t->is_taken, 0, (size_t)t->set->n);
    t->n_labelled = 0;
    for (int i = 0; i < t->set->n; i++)
        t->left[i] = (int32_t)qn_rng_permute(order, (uint64_t)i, (uint64_t)t->set->n);
    for (int c = 0; c < t->n_known; c++)
        for (int k = 0; k < t->o.n_labelled; k++) {
            const int i = take(t, c, from);
            if (i < 0)
                return qn_fail(QN_ERROR_ARGUMENT, "a known class has fewer than %d samples",
                               t->o.n_labelled);
            for (size_t j = 0; j < t->n_values; j++)
                t->x[(size_t)t->n_labelled * t->n_values + j] =
                    (float)t->set->bytes[(size_t)i * t->n_values + j];
            t->label[t->n_labelled++] = c;
        }
    for (int s = 0; s < t->n_stream; s++) {
        t->truth[s] = draw_class(t, rng, s);
        t->sample[s] = take(t, t->truth[s], from);
        if (t->sample[s] < 0)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "a class has too few samples for a stream of %d: give a smaller one",
                           t->n_stream);
    }
    return QN_OK;
}

/* Draws a stream as long as it was asked for, or shorter by tenths until no class is used up. */
static qn_status draw_what_there_is(trial *t) {
    qn_status status = draw(t);
    while (status == QN_ERROR_ARGUMENT && t->n_stream >= QN_ARRIVING_LEAST) {
        t->n_stream = t->n_stream * 9 / 10;
        status = draw(t);
    }
    return status;
}

/* Samples of each known class that are labelled: of small classes a third. */
static int choose_labelled(const trial *t) {
    int count[QN_ARRIVING_MOST_CLASSES] = {0}, least = QN_ARRIVING_LABELLED;
    for (int i = 0; i < t->set->n; i++)
        count[t->set->label[i]]++;
    for (int c = 0; c < t->set->n_classes; c++)
        least = (count[c] + 2) / 3 < least ? (count[c] + 2) / 3 : least;
    return least;
}

/* A picture of the stream as it looks by now. */
static const uint8_t *look(trial *t, int at) {
    const uint8_t *bytes = t->set->bytes + (size_t)t->sample[at] * t->n_values;
    if (!t->o.has_drift)
        return bytes;
    const float part = (float)at / (float)t->n_stream;
    const qn_pose pose = {{[QN_POSE_ANGLE] = 0.698f * part,
                           [QN_POSE_LIGHT] = qn_log_f32(1.0f - 0.5f * part),
                           [QN_POSE_NOISE] = 25.0f * part}};
    qn_view_show(t->set->sample, &pose, t->o.seed, (uint64_t)at, bytes, t->bytes);
    return t->bytes;
}

/* ---- labelling and judging ---- */

/* Right answers: known classes as they are, found ones as matched. begin: from that sample on. */
static qn_status judge(const trial *t, int begin, double *right) {
    const int most = QN_MATCHING_MOST;
    int32_t *count = NULL, of[QN_MATCHING_MOST];
    int64_t labels[QN_MATCHING_MOST], n_right = 0;
    int n_labels = 0;
    QN_TRY(qn_allocate(t->allocator, (size_t)(most * (t->n_new + 1)), sizeof *count, &count));
    for (int s = 0; s < t->n_stream; s++) {
        int row = 0;
        if (t->answer[s] < t->n_known)
            continue;
        while (row < n_labels && labels[row] != t->answer[s])
            row++;
        if (row == n_labels && row < most)
            labels[n_labels++] = t->answer[s];
        if (row < most && t->truth[s] >= t->n_known)
            count[row * t->n_new + t->truth[s] - t->n_known]++;
    }
    qn_match(n_labels, t->n_new, count, of);
    for (int s = begin; s < t->n_stream; s++) {
        int row = 0;
        if (t->answer[s] < t->n_known) {
            n_right += t->answer[s] == t->truth[s];
            continue;
        }
        while (row < n_labels && labels[row] != t->answer[s])
            row++;
        n_right += row < n_labels && of[row] >= 0 && of[row] + t->n_known == t->truth[s];
    }
    *right = 100.0 * (double)n_right / (t->n_stream - begin);
    qn_release(t->allocator, count, (size_t)(most * (t->n_new + 1)), sizeof *count);
    return QN_OK;
}

static int emerged_at(const trial *t) {
    return (int)((int64_t)t->n_new * t->n_stream / (t->n_new + 1));
}

/* Judges the answers as a method's. */
static qn_status judge_method(const trial *t, const char *name, qn_arriving_trial *result) {
    qn_arriving_method *m = &result->methods[result->n_methods++];
    m->name = name;
    for (int s = 0; s < t->n_stream; s++) {
        const int taken_for =
            t->answer[s] >= 0 && t->answer[s] < t->n_known ? (int)t->answer[s] : -1;
        qn_label_score_add(&m->score, t->n_known, t->truth[s], taken_for);
    }
    QN_TRY(judge(t, 0, &m->part.whole));
    return judge(t, emerged_at(t), &m->part.emerged);
}

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void measure_times(double *ns, int n, qn_arriving_trial *result) {
    for (int i = 0; i < n; i++)
        result->all_ns += ns[i];
    qsort(ns, (size_t)n, sizeof *ns, by_size);
    result->answer_ns = ns[n / 2];
}

/* Answers of a lesson keep the names that they gave to the same samples before: those that found
 * classes share most samples with. first: samples from there on are new in the window. */
static void keep_names(const trial *t, const int32_t *before, int begin, int first, int end) {
    int32_t count[MOST_FOUND * MOST_FOUND] = {0}, of[MOST_FOUND];
    int32_t *now = t->window + t->n_labelled;
    for (int s = begin; s < first; s++) {
        const int row = now[s % QN_NET_WINDOW] - t->n_known, column = before[s] - t->n_known;
        if (row >= 0 && column >= 0)
            count[row * MOST_FOUND + column]++;
    }
    qn_match(MOST_FOUND, MOST_FOUND, count, of);
    for (int s = begin; s < end; s++) {
        int32_t *answer = &now[s % QN_NET_WINDOW];
        if (*answer >= t->n_known)
            *answer = t->n_known + of[*answer - t->n_known];
    }
}

/* Features for other methods, which know nothing of poses: of the labelled samples as they were
 * given, and of the window, whitened by the former. */
static qn_status embed_plainly(trial *t, const qn_label_net *net) {
    const int n = net->n_labelled + net->n_window, width = QN_EMBEDDER_WIDTH;
    qn_whitening whitening;
    for (int begin = 0; begin < n; begin += QN_EMBEDDER_MANY) {
        for (int i = begin; i < begin + QN_EMBEDDER_MANY && i < n; i++)
            qn_view_plain(net->sample, net->scale, net->bytes + (size_t)i * net->n_values,
                          net->x + (size_t)(i - begin) * net->n_values);
        QN_TRY(qn_embedder_embed(net->embedder, net->x, QN_EMBEDDER_MANY, t->z + begin * width));
    }
    qn_whitening_measure(&whitening, net->n_labelled, width, t->z, net->label, net->n_known, 0.3f,
                         t->means);
    qn_whitening_apply(&whitening, n, t->z);
    return QN_OK;
}

/* A method's answers for the samples since the last lesson, from those that it gave the window. */
static void take_answers(trial *t, int method, int begin, int first, int end) {
    int32_t *answers = t->other + method * t->n_stream;
    keep_names(t, answers, begin, first, end);
    for (int s = first; s < end; s++)
        answers[s] = t->window[t->n_labelled + s % QN_NET_WINDOW];
}

static qn_others describe(const trial *t, const qn_label_net *net) {
    return (qn_others){.allocator = t->allocator,
                       .n = net->n_labelled + net->n_window,
                       .n_labelled = net->n_labelled,
                       .d = QN_EMBEDDER_WIDTH,
                       .n_known = t->n_known,
                       .n_new = t->n_new,
                       .seed = t->o.seed,
                       .z = t->z,
                       .label = net->label};
}

/* The two that do not use the features of the last lesson. */
static qn_status ask_beside(trial *t, const qn_labeller *l, int begin, int first, int end) {
    const qn_label_net *net = l->net;
    const qn_others others = describe(t, net);
    qn_embedder_swap_weights(net->embedder, t->frozen);
    qn_status status = embed_plainly(t, net);
    qn_embedder_swap_weights(net->embedder, t->frozen);
    if (status == QN_OK)
        status = qn_other_transfer(&others, t->window);
    QN_TRY(status);
    take_answers(t, t->n_others + FROZEN, begin, first, end);
    QN_TRY(qn_consistency_learn(&t->consistency, net, QN_NET_STEPS));
    QN_TRY(qn_consistency_answer(&t->consistency, net, t->window));
    take_answers(t, t->n_others + CONSISTENCY, begin, first, end);
    return QN_OK;
}

/* Other methods label the samples since the last lesson, by the features that it made. */
static qn_status ask_others(trial *t, const qn_labeller *l, int first, int end) {
    const qn_label_net *net = l->net;
    const qn_others others = describe(t, net);
    const int begin = end - net->n_window;
    QN_TRY(embed_plainly(t, net));
    for (int m = 0; m < t->n_others; m++) {
        QN_TRY(qn_other_at(m)->answer(&others, t->window));
        take_answers(t, m, begin, first, end);
    }
    return ask_beside(t, l, begin, first, end);
}

/* What is known of the samples since the last lesson. */
static qn_status look_back(trial *t, qn_labeller *l, int first, int end) {
    for (int s = first; s < end; s++) {
        qn_label_answer answer;
        QN_TRY(qn_labeller_revise(l, end - 1 - s, NULL, &answer));
        t->revised[s] = answer.label;
    }
    return ask_others(t, l, first, end);
}

/* Ends a lesson at the end of the stream, so that it has been learned from as a whole. */
static qn_status end_lesson(qn_labeller *l, int end) {
    if (!l->net->lesson.is_under_way)
        qn_lesson_begin(l, end, 0);
    return qn_lesson_follow(l, QN_NET_DELAY);
}

/* Nothing comes for a while: learns what there is to learn. */
static qn_status idle(trial *t, qn_labeller *l) {
    for (bool is_left = true; is_left;) {
        const int64_t begin = qn_thread_cpu_ns();
        QN_TRY(qn_labeller_work(l, &is_left));
        const double ns = (double)(qn_thread_cpu_ns() - begin);
        t->work_ns += ns;
        t->longest_ns = ns > t->longest_ns ? ns : t->longest_ns;
    }
    return QN_OK;
}

/* Labels the stream. Answers are the immediate ones; revised those after the next lesson, which the
 * end of the stream has as well. */
static qn_status label_stream(trial *t, qn_labeller *l) {
    int first = 0;
    for (int s = 0; s < t->n_stream; s++) {
        qn_label_answer answer;
        const uint8_t *bytes = look(t, s);
        const bool was_learning = l->net->lesson.is_under_way;
        for (size_t j = 0; j < t->n_values; j++)
            t->x[j] = (float)bytes[j];
        const int64_t begin = qn_clock_ns();
        QN_TRY(qn_labeller_add(l, t->x, &answer));
        t->ns[s] = (double)(qn_clock_ns() - begin);
        t->answer[s] = answer.label;
        QN_TRY(idle(t, l));
        const bool is_last = s + 1 == t->n_stream;
        if (is_last)
            QN_TRY(end_lesson(l, s + 1));
        if (!is_last && (!was_learning || l->net->lesson.is_under_way))
            continue;
        QN_TRY(look_back(t, l, first, s + 1));
        first = s + 1;
    }
    return QN_OK;
}

static qn_status judge_others(trial *t, qn_arriving_trial *result) {
    for (int m = 0; m < t->n_others + N_BESIDE; m++) {
        for (int s = 0; s < t->n_stream; s++)
            t->answer[s] = t->other[m * t->n_stream + s];
        const bool is_beside = m >= t->n_others;
        QN_TRY(judge_method(t, is_beside ? beside[m - t->n_others] : qn_other_at(m)->name, result));
        result->methods[result->n_methods - 1].is_other = is_beside || !qn_other_at(m)->is_told;
    }
    return QN_OK;
}

static qn_status try_all(trial *t, qn_labeller *l, qn_arriving_trial *result) {
    QN_TRY(label_stream(t, l));
    QN_TRY(judge_method(t, "quern, at once", result));
    memcpy(t->answer, t->revised, (size_t)t->n_stream * sizeof *t->answer);
    QN_TRY(judge_method(t, "quern, after the next lesson", result));
    measure_times(t->ns, t->n_stream, result);
    result->all_ns += t->work_ns;
    result->piece_ns = t->longest_ns;
    result->n_found = qn_labeller_class_count(l) - t->n_known;
    return judge_others(t, result);
}

/* What methods have to learn before the stream begins. */
static qn_status prepare_beside(trial *t, const qn_label_net *net) {
    t->n_frozen = qn_embedder_size(net->embedder);
    QN_TRY(qn_allocate(t->allocator, t->n_frozen, sizeof *t->frozen, &t->frozen));
    qn_embedder_copy_weights(net->embedder, t->frozen);
    QN_TRY(qn_consistency_init(&t->consistency, net, t->o.n_threads));
    return qn_consistency_learn(&t->consistency, net, QN_NET_FIRST_STEPS);
}

static qn_status try_ours(trial *t, qn_arriving_trial *result) {
    qn_labeller *l = NULL;
    const qn_label_options options = {QN_OPTIONS_INIT(qn_label_options),
                                      .allocator = t->allocator,
                                      .n_features = (int)t->n_values,
                                      .n_classes = t->n_known,
                                      .n_samples = t->n_labelled,
                                      .x = t->x,
                                      .label = t->label,
                                      .seed = t->o.seed,
                                      .sample = t->set->sample,
                                      .n_threads = t->o.n_threads};
    QN_TRY(qn_labeller_create(&options, &l));
    qn_status status = prepare_beside(t, l->net);
    if (status == QN_OK)
        status = try_all(t, l, result);
    qn_consistency_deinit(&t->consistency);
    qn_release(t->allocator, t->frozen, t->n_frozen, sizeof *t->frozen);
    qn_labeller_destroy(l);
    return status;
}

static void measure_shares(const trial *t, qn_arriving_trial *result) {
    int n = 0;
    for (int s = 0; s < t->n_stream; s++)
        n += t->truth[s] < t->n_known;
    result->known_share = 100.0 * n / t->n_stream;
    result->n_known = t->n_known;
    result->n_classes = t->set->n_classes;
    result->n_stream = t->n_stream;
}

/* ---- a trial ---- */

static qn_status allocate(trial *t, qn_arena *arena) {
    const size_t n = (size_t)t->set->n, n_stream = (size_t)t->n_stream;
    const size_t n_labelled = (size_t)(t->n_known * t->o.n_labelled);
    t->left = qn_arena_allocate(arena, n, sizeof *t->left);
    t->is_taken = qn_arena_allocate(arena, n, 1);
    t->sample = qn_arena_allocate(arena, n_stream, sizeof *t->sample);
    t->truth = qn_arena_allocate(arena, n_stream, sizeof *t->truth);
    t->answer = qn_arena_allocate(arena, n_stream, sizeof *t->answer);
    t->x = qn_arena_allocate(arena, n_labelled * t->n_values, sizeof *t->x);
    t->label = qn_arena_allocate(arena, n_labelled, sizeof *t->label);
    t->bytes = qn_arena_allocate(arena, t->n_values, 1);
    t->revised = qn_arena_allocate(arena, n_stream, sizeof *t->revised);
    t->ns = qn_arena_allocate(arena, n_stream, sizeof *t->ns);
    t->other =
        qn_arena_allocate(arena, n_stream, (size_t)(t->n_others + N_BESIDE) * sizeof *t->other);
    t->window = qn_arena_allocate(arena, n_labelled + QN_NET_WINDOW, sizeof *t->window);
    t->z = qn_arena_allocate(arena, n_labelled + QN_NET_WINDOW + QN_EMBEDDER_MANY,
                             QN_EMBEDDER_WIDTH * sizeof *t->z);
    t->means =
        qn_arena_allocate(arena, (size_t)t->n_known * (QN_EMBEDDER_WIDTH + 1), sizeof *t->means);
    return t->left && t->is_taken && t->sample && t->truth && t->answer && t->x && t->label &&
                   t->bytes && t->revised && t->ns && t->other && t->window && t->z && t->means
               ? QN_OK
               : QN_ERROR_MEMORY;
}

static qn_status run(trial *t, qn_arriving_trial *result) {
    qn_arena arena;
    qn_arena_init(&arena, t->allocator);
    qn_status status = allocate(t, &arena);
    if (status == QN_OK)
        status = draw_what_there_is(t);
    if (status == QN_OK) {
        measure_shares(t, result);
        status = try_ours(t, result);
    }
    qn_arena_deinit(&arena);
    return status;
}

qn_status qn_label_try_arriving(const qn_arriving_set *set, const qn_arriving_options *options,
                                qn_arriving_trial *result) {
    trial t = {.set = set,
               .o = *options,
               .allocator = qn_allocator_or_default(options->allocator),
               .n_values = (size_t)qn_shape_count(set->sample)};
    *result = (qn_arriving_trial){.n_methods = 0};
    if (set->n_classes < 2 || set->n_classes > QN_ARRIVING_MOST_CLASSES)
        return qn_fail(QN_ERROR_ARGUMENT, "%d classes; the benchmark takes 2 to %d", set->n_classes,
                       QN_ARRIVING_MOST_CLASSES);
    t.o.n_labelled = t.o.n_labelled > 0 ? t.o.n_labelled : choose_labelled(&t);
    t.n_stream = t.o.n_stream > 0 ? t.o.n_stream : QN_ARRIVING_STREAM;
    while (qn_other_at(t.n_others))
        t.n_others++;
    number_classes(&t);
    return run(&t, result);
}
