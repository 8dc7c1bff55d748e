/* See held_back.h. */
#include "label/bench/held_back.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "label/columns.h"
#include "os/heap.h"
#include "os/os.h"

#include <string.h>

enum { CLASSES_PURPOSE = 0x68656c64, ORDER_PURPOSE = 0x6f726465 };

/* rank: the place of a class in the drawn order; those below n_known are known. counts and quota
 * are by rank: samples of a class, and those that are yet to be labelled. */
typedef struct held_back {
    const qn_allocator *allocator;
    const qn_label_known *all;
    qn_held_back_options options;
    int n_known, n_labelled, n_streamed;
    int *counts, *quota; /* (n_classes) each */
    int *streamed;       /* (n) samples of the stream, in its order */
    float *x;            /* (n, d): labelled samples */
    qn_label_columns columns;
    float *features; /* (n, features) of all samples, for the rules */
    float *known;    /* (n, features) of labelled samples */
    int32_t *label;  /* (n) */
    qn_labeller *labeller;
    void *rules[QN_BENCH_MOST_RULES];
    qn_naming naming;
} held_back;

static int rank_of(const held_back *b, int sample) {
    const qn_rng rng = qn_rng_make(b->options.seed, CLASSES_PURPOSE, 0);
    return (int)qn_rng_permute(rng, (uint64_t)b->all->label[sample], (uint64_t)b->all->n_classes);
}

/* A third of the known samples of each class, less if that were too many in all. */
static void set_quota(held_back *b) {
    int64_t n_known = 0;
    for (int i = 0; i < b->all->n; i++)
        b->counts[rank_of(b, i)]++;
    for (int c = 0; c < b->n_known; c++)
        n_known += b->counts[c];
    const int64_t most = n_known / 3 < QN_BENCH_LABELLED ? n_known / 3 : QN_BENCH_LABELLED;
    for (int c = 0; c < b->n_known; c++) {
        b->quota[c] = n_known > 0 ? (int)(b->counts[c] * most / n_known) : 0;
        b->quota[c] += b->quota[c] == 0 && b->counts[c] > 0;
    }
}

static void deal(held_back *b) {
    const qn_rng rng = qn_rng_make(b->options.seed, ORDER_PURPOSE, 0);
    const size_t d = (size_t)b->all->d, n_features = (size_t)b->columns.n_features;
    for (int at = 0; at < b->all->n; at++) {
        const int i = (int)qn_rng_permute(rng, (uint64_t)at, (uint64_t)b->all->n);
        const int rank = rank_of(b, i);
        if (b->quota[rank] > 0) {
            b->quota[rank]--;
            memcpy(b->x + (size_t)b->n_labelled * d, b->all->x + (size_t)i * d, d * sizeof *b->x);
            memcpy(b->known + (size_t)b->n_labelled * n_features,
                   b->features + (size_t)i * n_features, n_features * sizeof *b->known);
            b->label[b->n_labelled++] = rank;
        } else if (b->n_streamed < QN_BENCH_STREAM &&
                   (rank < b->n_known || !b->options.nothing_new)) {
            b->streamed[b->n_streamed++] = i;
        }
    }
}

static qn_status allocate(held_back *b) {
    const size_t n = (size_t)b->all->n, n_classes = (size_t)b->all->n_classes;
    QN_TRY(qn_allocate(b->allocator, n_classes, sizeof *b->counts, &b->counts));
    QN_TRY(qn_allocate(b->allocator, n_classes, sizeof *b->quota, &b->quota));
    QN_TRY(qn_allocate(b->allocator, n, sizeof *b->streamed, &b->streamed));
    QN_TRY(qn_allocate(b->allocator, n * (size_t)b->all->d, sizeof *b->x, &b->x));
    const size_t n_features = n * (size_t)b->columns.n_features;
    QN_TRY(qn_allocate(b->allocator, n_features, sizeof *b->features, &b->features));
    QN_TRY(qn_allocate(b->allocator, n_features, sizeof *b->known, &b->known));
    return qn_allocate(b->allocator, n, sizeof *b->label, &b->label);
}

static void release(held_back *b) {
    const size_t n = (size_t)b->all->n, n_classes = (size_t)b->all->n_classes;
    const qn_label_rule *rule;
    qn_labeller_destroy(b->labeller);
    qn_naming_deinit(&b->naming, b->allocator);
    for (int r = 0; (rule = qn_label_rule_at(r)); r++)
        rule->destroy(b->allocator, b->rules[r]);
    qn_release(b->allocator, b->counts, n_classes, sizeof *b->counts);
    qn_release(b->allocator, b->quota, n_classes, sizeof *b->quota);
    qn_release(b->allocator, b->streamed, n, sizeof *b->streamed);
    qn_release(b->allocator, b->x, n * (size_t)b->all->d, sizeof *b->x);
    const size_t n_features = n * (size_t)b->columns.n_features;
    qn_release(b->allocator, b->features, n_features, sizeof *b->features);
    qn_release(b->allocator, b->known, n_features, sizeof *b->known);
    qn_release(b->allocator, b->label, n, sizeof *b->label);
    qn_label_columns_deinit(&b->columns);
}

static qn_status learn(held_back *b) {
    const qn_label_options ours = {QN_OPTIONS_INIT(qn_label_options),
                                   .allocator = b->allocator,
                                   .n_features = b->all->d,
                                   .n_classes = b->n_known,
                                   .n_samples = b->n_labelled,
                                   .x = b->x,
                                   .label = b->label,
                                   .seed = b->options.seed,
                                   .columns = b->all->columns};
    const qn_label_known known = {.n = b->n_labelled,
                                  .d = b->columns.n_features,
                                  .n_classes = b->n_known,
                                  .x = b->known,
                                  .label = b->label};
    const qn_label_rule *rule;
    QN_TRY(qn_labeller_create(&ours, &b->labeller));
    for (int r = 0; (rule = qn_label_rule_at(r)); r++)
        QN_TRY(rule->create(b->allocator, &known, &b->rules[r]));
    return QN_OK;
}

static qn_status stream_sample(held_back *b, int i, qn_label_trial *trial) {
    const float *x = b->all->x + (size_t)i * (size_t)b->all->d;
    const int rank = rank_of(b, i);
    const int64_t began = qn_thread_cpu_ns();
    qn_label_answer answer;
    QN_TRY(qn_labeller_add(b->labeller, x, &answer));
    const double ns = (double)(qn_thread_cpu_ns() - began);
    trial->add_ns += ns / b->n_streamed;
    trial->largest_ns = ns > trial->largest_ns ? ns : trial->largest_ns;
    const bool is_known = answer.label >= 0 && answer.label < b->n_known;
    QN_TRY(qn_naming_add(&b->naming, b->labeller, rank, &answer));
    qn_label_score_add(&trial->ours, b->n_known, rank, is_known ? (int)answer.label : -1);
    const qn_label_rule *rule;
    x = b->features + (size_t)i * (size_t)b->columns.n_features;
    for (int r = 0; (rule = qn_label_rule_at(r)); r++)
        qn_label_score_add(&trial->rules[r], b->n_known, rank, rule->add(b->rules[r], x));
    return QN_OK;
}

static qn_status begin(held_back *b) {
    const qn_label_known *all = b->all;
    qn_label_columns_init(&b->columns, all->d);
    QN_TRY(qn_label_columns_choose(&b->columns, b->allocator, all->columns, all->x, all->n,
                                   QN_LABEL_MAX_FEATURES));
    QN_TRY(allocate(b));
    for (int i = 0; i < all->n; i++)
        qn_label_columns_encode(&b->columns, all->x + (size_t)i * (size_t)all->d,
                                b->features + (size_t)i * (size_t)b->columns.n_features);
    return QN_OK;
}

static qn_status run(held_back *b, qn_label_trial *trial) {
    QN_TRY(begin(b));
    set_quota(b);
    deal(b);
    QN_TRY(learn(b));
    QN_TRY(qn_naming_init(&b->naming, b->allocator, b->n_known, b->n_streamed));
    for (int i = 0; i < b->n_streamed; i++)
        QN_TRY(stream_sample(b, b->streamed[i], trial));
    trial->naming = qn_naming_judge(&b->naming);
    const int64_t n_new = trial->ours.n_new;
    trial->new_share = b->n_streamed > 0 ? (double)n_new / b->n_streamed : 0;
    trial->n_features = b->all->d;
    trial->n_classes = b->all->n_classes;
    trial->n_found = qn_labeller_class_count(b->labeller) - b->n_known;
    trial->bytes = qn_labeller_get_cost(b->labeller).bytes;
    return QN_OK;
}

qn_status qn_label_try_held_back(const qn_allocator *allocator, const qn_label_known *all,
                                 const qn_held_back_options *options, qn_label_trial *trial) {
    held_back b = {.allocator = qn_allocator_or_default(allocator),
                   .all = all,
                   .options = *options,
                   .n_known = (all->n_classes + 1) / 2};
    *trial = (qn_label_trial){.n_found = 0};
    if (all->n_classes < 2)
        return qn_fail(QN_ERROR_ARGUMENT, "%d class; with two or more, one can be held back",
                       all->n_classes);
    const qn_status status = run(&b, trial);
    release(&b);
    return status;
}
