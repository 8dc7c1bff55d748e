/* See arriving.h. */
#include "label/network/arriving.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "label/network/matching.h"
#include "label/network/net.h"
#include "os/heap.h"
#include "os/os.h"
#include "tensor/tensor.h"

#include <stdlib.h>
#include <string.h>

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
    uint8_t *bytes; /* (n_values) a picture as it looks by now */
    int n_known, n_labelled, n_stream, n_new;
} trial;

/* ---- the stream ---- */

static void number_classes(trial *t) {
    const qn_rng rng = qn_rng_make(t->o.seed, qn_hash_text("label.arriving.classes"), 0);
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

/* A picture of the stream as it looks by now. */
static const uint8_t *look(trial *t, int at) {
    const uint8_t *bytes = t->set->bytes + (size_t)t->sample[at] * t->n_values;
    if (!t->o.has_drift)
        return bytes;
    qn_view_drift(t->set->sample, t->o.seed, (uint64_t)at, (float)at / (float)t->n_stream, bytes,
                  t->bytes);
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

/* Labels the stream. Answers are the immediate ones, or those after the next lesson. */
static qn_status label_stream(trial *t, qn_labeller *l, double *ns, int64_t *revised) {
    for (int s = 0; s < t->n_stream; s++) {
        qn_label_answer answer;
        const uint8_t *bytes = look(t, s);
        for (size_t j = 0; j < t->n_values; j++)
            t->x[j] = (float)bytes[j];
        const int64_t begin = qn_clock_ns();
        QN_TRY(qn_labeller_add(l, t->x, &answer));
        ns[s] = (double)(qn_clock_ns() - begin);
        t->answer[s] = answer.label;
        if ((s + 1) % QN_NET_EVERY != 0 && s + 1 != t->n_stream)
            continue;
        for (int age = s % QN_NET_EVERY; age >= 0; age--) {
            QN_TRY(qn_labeller_revise(l, age, NULL, &answer));
            revised[s - age] = answer.label;
        }
    }
    return QN_OK;
}

static qn_status try_ours(trial *t, qn_arriving_trial *result) {
    qn_labeller *l = NULL;
    double *ns = NULL;
    int64_t *revised = NULL;
    const size_t n = (size_t)t->n_stream;
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
    qn_status status = qn_allocate(t->allocator, n, sizeof *ns, &ns);
    if (status == QN_OK)
        status = qn_allocate(t->allocator, n, sizeof *revised, &revised);
    if (status == QN_OK)
        status = qn_labeller_create(&options, &l);
    if (status == QN_OK)
        status = label_stream(t, l, ns, revised);
    if (status == QN_OK)
        status = judge_method(t, "quern, at once", result);
    if (status == QN_OK) {
        memcpy(t->answer, revised, n * sizeof *revised);
        measure_times(ns, t->n_stream, result);
        result->n_found = qn_labeller_class_count(l) - t->n_known;
        status = judge_method(t, "quern, within 600 samples", result);
    }
    qn_labeller_destroy(l);
    qn_release(t->allocator, revised, n, sizeof *revised);
    qn_release(t->allocator, ns, n, sizeof *ns);
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
    return t->left && t->is_taken && t->sample && t->truth && t->answer && t->x && t->label &&
                   t->bytes
               ? QN_OK
               : QN_ERROR_MEMORY;
}

static qn_status run(trial *t, qn_arriving_trial *result) {
    qn_arena arena;
    qn_arena_init(&arena, t->allocator);
    qn_status status = allocate(t, &arena);
    if (status == QN_OK)
        status = draw(t);
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
    t.o.n_labelled = t.o.n_labelled > 0 ? t.o.n_labelled : QN_ARRIVING_LABELLED;
    t.n_stream = t.o.n_stream > 0 ? t.o.n_stream : QN_ARRIVING_STREAM;
    number_classes(&t);
    return run(&t, result);
}
