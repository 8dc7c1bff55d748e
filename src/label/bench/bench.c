/* See bench.h. */
#include "label/bench/bench.h"

#include "base/memory.h"
#include "base/status.h"
#include "label/bench/rules.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdlib.h>

/* A sample of the stream by the true density. */
typedef struct truth {
    double is_new; /* its probability */
    bool was_new;
} truth;

typedef struct bench {
    const qn_allocator *allocator;
    qn_rbf rbf;
    bool nothing_new;
    qn_labeller *labeller;
    void *rules[QN_BENCH_MOST_RULES];
    float x[QN_BENCH_LABELLED * QN_RBF_FEATURES];
    int32_t label[QN_BENCH_LABELLED];
    truth truths[QN_BENCH_STREAM];
    qn_label_score best;
    qn_naming naming;
} bench;

static int by_probability(const void *left, const void *right) {
    const double a = ((const truth *)left)->is_new, b = ((const truth *)right)->is_new;
    return (a > b) - (a < b);
}

/* The least mean of both shares over all thresholds. */
static double best_balanced(bench *b) {
    int64_t n_new = 0, missed = 0;
    for (int i = 0; i < QN_BENCH_STREAM; i++)
        n_new += b->truths[i].was_new;
    const int64_t n_known = QN_BENCH_STREAM - n_new;
    int64_t false_new = n_known;
    double least = 100.0;
    qsort(b->truths, QN_BENCH_STREAM, sizeof *b->truths, by_probability);
    for (int i = 0; i <= QN_BENCH_STREAM; i++) {
        const double mean = 50.0 * ((double)missed / (double)(n_new ? n_new : 1) +
                                    (double)false_new / (double)(n_known ? n_known : 1));
        least = mean < least ? mean : least;
        if (i < QN_BENCH_STREAM && b->truths[i].was_new)
            missed++;
        else
            false_new--;
    }
    return least;
}

static void judge_truth(bench *b, int i, int class, const float *x) {
    double p[QN_RBF_CLASSES], fresh = 0.0;
    qn_rbf_densities(&b->rbf, x, p);
    for (int c = QN_RBF_KNOWN; c < b->rbf.n_classes; c++)
        fresh += p[c];
    const int known = p[1] > p[0];
    b->truths[i] = (truth){fresh / (fresh + p[0] + p[1]), class >= QN_RBF_KNOWN};
    qn_label_score_add(&b->best, QN_RBF_KNOWN, class, fresh > p[known] ? -1 : known);
}

static qn_status stream_sample(bench *b, int i, qn_label_trial *trial) {
    float x[QN_RBF_FEATURES];
    qn_label_answer answer;
    const int class = qn_rbf_draw(&b->rbf, b->nothing_new, x);
    judge_truth(b, i, class, x);
    qn_rbf_move(&b->rbf);
    const int64_t began = qn_thread_cpu_ns();
    QN_TRY(qn_labeller_add(b->labeller, x, &answer));
    const double ns = (double)(qn_thread_cpu_ns() - began);
    trial->add_ns += ns / QN_BENCH_STREAM;
    trial->largest_ns = ns > trial->largest_ns ? ns : trial->largest_ns;
    const bool is_known = answer.label >= 0 && answer.label < QN_RBF_KNOWN;
    QN_TRY(qn_naming_add(&b->naming, b->labeller, class, &answer));
    qn_label_score_add(&trial->ours, QN_RBF_KNOWN, class, is_known ? (int)answer.label : -1);
    const qn_label_rule *rule;
    for (int r = 0; (rule = qn_label_rule_at(r)); r++)
        qn_label_score_add(&trial->rules[r], QN_RBF_KNOWN, class, rule->add(b->rules[r], x));
    return QN_OK;
}

static qn_status prepare(bench *b, const qn_rbf_options *options) {
    qn_rbf_init(&b->rbf, options);
    b->nothing_new = options->nothing_new;
    const int d = b->rbf.n_features;
    for (int i = 0; i < QN_BENCH_LABELLED; i++)
        b->label[i] = qn_rbf_draw(&b->rbf, true, b->x + i * d);
    const qn_label_options known = {QN_OPTIONS_INIT(qn_label_options),
                                    .allocator = b->allocator,
                                    .n_features = d,
                                    .n_classes = QN_RBF_KNOWN,
                                    .n_samples = QN_BENCH_LABELLED,
                                    .x = b->x,
                                    .label = b->label,
                                    .seed = options->seed};
    const qn_label_known rules = {QN_BENCH_LABELLED, d, QN_RBF_KNOWN, b->x, b->label, NULL};
    const qn_label_rule *rule;
    QN_TRY(qn_labeller_create(&known, &b->labeller));
    for (int r = 0; (rule = qn_label_rule_at(r)); r++)
        QN_TRY(rule->create(b->allocator, &rules, &b->rules[r]));
    return QN_OK;
}

static qn_status run(bench *b, const qn_rbf_options *options, qn_label_trial *trial) {
    QN_TRY(prepare(b, options));
    QN_TRY(qn_naming_init(&b->naming, b->allocator, QN_RBF_KNOWN, QN_BENCH_STREAM));
    for (int i = 0; i < QN_BENCH_STREAM; i++)
        QN_TRY(stream_sample(b, i, trial));
    trial->n_features = b->rbf.n_features;
    trial->n_classes = b->rbf.n_classes;
    trial->n_centroids = b->rbf.n_centroids;
    trial->new_share = b->rbf.new_share;
    trial->n_found = qn_labeller_class_count(b->labeller) - QN_RBF_KNOWN;
    trial->bytes = qn_labeller_get_cost(b->labeller).bytes;
    trial->best_error = qn_label_error(&b->best);
    trial->best_balanced = best_balanced(b);
    trial->naming = qn_naming_judge(&b->naming);
    return QN_OK;
}

qn_status qn_label_try(const qn_allocator *allocator, const qn_rbf_options *options,
                       qn_label_trial *trial) {
    bench *b;
    const qn_label_rule *rule;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *b, &b));
    b->allocator = allocator;
    *trial = (qn_label_trial){.n_found = 0};
    const qn_status status = run(b, options, trial);
    qn_labeller_destroy(b->labeller);
    qn_naming_deinit(&b->naming, allocator);
    for (int r = 0; (rule = qn_label_rule_at(r)); r++)
        rule->destroy(allocator, b->rules[r]);
    qn_release(allocator, b, 1, sizeof *b);
    return status;
}
