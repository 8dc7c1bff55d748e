/* See partition.h. Samples are first put into a random order; every kind then takes them from
 * there. */
#include "federate/partition.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "federate/users.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

/* Random numbers in the order in which they are asked for. */
typedef struct draws {
    qn_rng rng;
    uint64_t next;
} draws;

/* Uniform in (0, 1). */
static double draw(draws *d) {
    const uint32_t high = qn_rng_word(d->rng, d->next++), low = qn_rng_word(d->rng, d->next++);
    return ((double)(high >> 5) * 0x1p26 + (double)(low >> 6) + 0.5) * 0x1p-53;
}

static double draw_normal(draws *d) {
    const double radius = sqrt(-2 * log(draw(d)));
    return radius * cos(6.283185307179586 * draw(d));
}

/* Marsaglia and Tsang, "A simple method for generating gamma variables", ACM TOMS 26(3), 2000; for
 * shapes below 1 by section 6. */
static double draw_gamma(draws *d, double shape) {
    const double boost = shape < 1 ? pow(draw(d), 1 / shape) : 1;
    const double a = (shape < 1 ? shape + 1 : shape) - 1.0 / 3, c = 1 / sqrt(9 * a);
    for (;;) {
        const double x = draw_normal(d), t = 1 + c * x, v = t * t * t;
        if (v > 0 && log(draw(d)) < 0.5 * x * x + a - a * v + a * log(v))
            return boost * a * v;
    }
}

/* ---- what is being divided ---- */

typedef struct division {
    qn_partition *p;
    const int32_t *labels;
    int n_classes;
    double value;    /* of the specification */
    int64_t *order;  /* (n_samples): at random; by class, at random within each */
    int64_t *begins; /* (n_classes + 1): where a class begins in order */
    draws draws;
} division;

/* Clients' numbers of samples become equal, or differ by one. */
static void share_equally(qn_partition *p) {
    for (int64_t i = 0; i <= p->n_clients; i++)
        p->first[i] = i * p->n_samples / p->n_clients;
}

static void order_by_class(division *d) {
    const int64_t n = d->p->n_samples;
    memset(d->begins, 0, ((size_t)d->n_classes + 1) * sizeof *d->begins);
    for (int64_t i = 0; i < n; i++)
        d->begins[d->labels[i] + 1]++;
    for (int c = 0; c < d->n_classes; c++)
        d->begins[c + 1] += d->begins[c];
    /* samples still hold the random order */
    for (int64_t i = 0; i < n; i++)
        d->order[d->begins[d->labels[d->p->samples[i]]]++] = d->p->samples[i];
    for (int c = d->n_classes; c > 0; c--)
        d->begins[c] = d->begins[c - 1];
    d->begins[0] = 0;
}

static qn_status divide_iid(division *d) {
    share_equally(d->p);
    return QN_OK;
}

/* Everybody has one sample; the rest goes by weight. */
static qn_status divide_amount(division *d) {
    qn_partition *p = d->p;
    double sum = 0, before = 0;
    draws again = d->draws;
    for (int64_t i = 0; i < p->n_clients; i++)
        sum += exp(d->value * draw_normal(&again));
    for (int64_t i = 0; i < p->n_clients; i++) {
        p->first[i] = i + (int64_t)(before / sum * (double)(p->n_samples - p->n_clients));
        before += exp(d->value * draw_normal(&d->draws));
    }
    p->first[p->n_clients] = p->n_samples;
    return QN_OK;
}

static qn_status divide_classes(division *d) {
    qn_partition *p = d->p;
    const int64_t each = (int64_t)d->value, n_shards = each * p->n_clients;
    const qn_rng rng = d->draws.rng;
    int64_t at = 0;
    if ((double)each != d->value || each < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "classes:K: K is a whole number from 1 on");
    if (each > p->n_samples / p->n_clients)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%lld clients with %lld shards each, and there are %lld samples",
                       (long long)p->n_clients, (long long)each, (long long)p->n_samples);
    order_by_class(d);
    for (int64_t i = 0; i < n_shards; i++) {
        const int64_t shard = (int64_t)qn_rng_permute(rng, (uint64_t)i, (uint64_t)n_shards);
        const int64_t begin = shard * p->n_samples / n_shards;
        const int64_t end = (shard + 1) * p->n_samples / n_shards;
        if (i % each == 0)
            p->first[i / each] = at;
        memcpy(p->samples + at, d->order + begin, (size_t)(end - begin) * sizeof *p->samples);
        at += end - begin;
    }
    p->first[p->n_clients] = p->n_samples;
    return QN_OK;
}

/* A class by the mixture's weights of those that have samples left; where none of them weighs
 * anything, the one with most samples. */
static int choose_class(division *d, const double *mixture, const int64_t *left) {
    double sum = 0;
    int most = 0;
    for (int c = 0; c < d->n_classes; c++) {
        sum += left[c] > 0 ? mixture[c] : 0;
        most = left[c] > left[most] ? c : most;
    }
    double rest = draw(&d->draws) * sum;
    for (int c = 0; c < d->n_classes && sum > 0; c++) {
        if (left[c] > 0 && mixture[c] > 0 && (rest -= mixture[c]) < 0)
            return c;
    }
    return most;
}

static void divide_by_mixtures(division *d, double *mixture, int64_t *left) {
    qn_partition *p = d->p;
    share_equally(p);
    order_by_class(d);
    for (int c = 0; c < d->n_classes; c++)
        left[c] = d->begins[c + 1] - d->begins[c];
    for (int64_t client = 0; client < p->n_clients; client++) {
        for (int c = 0; c < d->n_classes; c++)
            mixture[c] = draw_gamma(&d->draws, d->value);
        for (int64_t i = p->first[client]; i < p->first[client + 1]; i++) {
            const int c = choose_class(d, mixture, left);
            p->samples[i] = d->order[d->begins[c] + --left[c]];
        }
    }
}

static qn_status divide_dirichlet(division *d) {
    double *mixture = NULL;
    int64_t *left = NULL;
    if (d->value <= 0)
        return qn_fail(QN_ERROR_ARGUMENT, "dirichlet:A: A is above 0");
    const size_t n = (size_t)d->n_classes;
    qn_status status = qn_allocate(d->p->allocator, n, sizeof *mixture, &mixture);
    if (status == QN_OK)
        status = qn_allocate(d->p->allocator, n, sizeof *left, &left);
    if (status == QN_OK)
        divide_by_mixtures(d, mixture, left);
    qn_release(d->p->allocator, left, n, sizeof *left);
    qn_release(d->p->allocator, mixture, n, sizeof *mixture);
    return status;
}

/* ---- the kinds ---- */

static const struct {
    const char *name;
    bool has_value;
    qn_status (*divide)(division *d);
} kinds[] = {
    {"iid", false, divide_iid},
    {"amount", true, divide_amount},
    {"classes", true, divide_classes},
    {"dirichlet", true, divide_dirichlet},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static qn_status read_specification(const char *text, int *kind, double *value) {
    const size_t n = strcspn(text, ":");
    for (int i = 0; i < N_KINDS; i++) {
        if (strlen(kinds[i].name) != n || strncmp(text, kinds[i].name, n) != 0)
            continue;
        *kind = i;
        *value = 0;
        if (kinds[i].has_value == (text[n] == ':') &&
            (text[n] == 0 ||
             (qn_decimal_parse(text + n + 1, value) && *value >= 0 && *value < 1e9)))
            return QN_OK;
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "partition '%.60s': iid, amount:S, classes:K or dirichlet:A, with numbers from "
                   "0 on for the letters",
                   text);
}

static qn_status check_labels(const int32_t *labels, int64_t n, int n_classes) {
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] < 0 || labels[i] >= n_classes)
            return qn_fail(QN_ERROR_ARGUMENT, "sample %lld has class %d, and there are %d",
                           (long long)i, labels[i], n_classes);
    }
    return QN_OK;
}

static qn_status divide(int kind, division *d) {
    qn_partition *p = d->p;
    const size_t n = (size_t)p->n_samples;
    QN_TRY(qn_allocate(p->allocator, (size_t)p->n_clients + 1, sizeof *p->first, &p->first));
    QN_TRY(qn_allocate(p->allocator, n, sizeof *p->samples, &p->samples));
    QN_TRY(qn_allocate(p->allocator, n, sizeof *d->order, &d->order));
    QN_TRY(qn_allocate(p->allocator, (size_t)d->n_classes + 1, sizeof *d->begins, &d->begins));
    for (int64_t i = 0; i < p->n_samples; i++)
        p->samples[i] = (int64_t)qn_rng_permute(d->draws.rng, (uint64_t)i, (uint64_t)n);
    return kinds[kind].divide(d);
}

qn_status qn_partition_create(const qn_allocator *allocator, const char *specification,
                              const int32_t *labels, int64_t n, int n_classes, int64_t n_clients,
                              uint64_t seed, qn_partition *partition) {
    int kind;
    division d = {.p = partition, .labels = labels, .n_classes = n_classes};
    if (strncmp(specification, "users:", 6) == 0)
        return qn_partition_users(allocator, specification + 6, n, n_clients, partition);
    QN_TRY(read_specification(specification, &kind, &d.value));
    if (n_clients < 1 || n_clients > n)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%lld clients: from 1 to as many as training samples, %lld",
                       (long long)n_clients, (long long)n);
    QN_TRY(check_labels(labels, n, n_classes));
    d.draws.rng = qn_rng_make(seed, qn_hash_text("federate.partition"), 0);
    *partition = (qn_partition){
        .allocator = qn_allocator_or_default(allocator), .n_clients = n_clients, .n_samples = n};
    const qn_status status = divide(kind, &d);
    qn_release(partition->allocator, d.begins, (size_t)n_classes + 1, sizeof *d.begins);
    qn_release(partition->allocator, d.order, (size_t)n, sizeof *d.order);
    if (status != QN_OK)
        qn_partition_destroy(partition);
    return status;
}

static qn_status read_classes(const qn_data_source *data, qn_split split, int32_t *labels,
                              void *x) {
    for (int64_t i = 0; i < data->n_samples[split]; i++) {
        if (data->read_class)
            QN_TRY(data->read_class(data->self, split, i, &labels[i]));
        else
            QN_TRY(data->read(data->self, split, i, x, &labels[i]));
    }
    return QN_OK;
}

/* Labels (n) of a split; the caller releases them. */
static qn_status read_labels(const qn_allocator *allocator, const qn_data_source *data,
                             qn_split split, int32_t **labels) {
    const size_t n = (size_t)data->n_samples[split];
    const size_t bytes = (size_t)qn_shape_count(data->sample) * qn_dtype_bytes(data->dtype);
    void *x = NULL;
    QN_TRY(qn_allocate(allocator, n, sizeof **labels, labels));
    qn_status status = qn_allocate(allocator, bytes, 1, &x);
    if (status == QN_OK)
        status = read_classes(data, split, *labels, x);
    qn_release(allocator, x, bytes, 1);
    if (status == QN_OK)
        return QN_OK;
    qn_release(allocator, *labels, n, sizeof **labels);
    *labels = NULL;
    return status;
}

qn_status qn_partition_data(const qn_allocator *allocator, const char *specification,
                            const qn_data_source *data, int64_t n_clients, uint64_t seed,
                            qn_partition *partition) {
    const size_t n = (size_t)data->n_samples[QN_TRAIN];
    int32_t *labels;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(read_labels(allocator, data, QN_TRAIN, &labels));
    const qn_status status =
        qn_partition_create(allocator, specification, labels, (int64_t)n,
                            data->preparation.n_classes, n_clients, seed, partition);
    qn_release(allocator, labels, n, sizeof *labels);
    return status;
}

/* ---- tests of clients ---- */

/* Training and test labels, and the test samples of each class. */
typedef struct test_draw {
    const qn_allocator *allocator;
    int64_t n_train, n_test;
    int n_classes;
    int32_t *train, *test; /* (n_train), (n_test) */
    int64_t *begins;       /* (n_classes + 1) */
    int64_t *order;        /* (n_test): of class c from begins[c] to begins[c + 1] */
} test_draw;

static void release_draw(test_draw *d) {
    qn_release(d->allocator, d->order, (size_t)d->n_test, sizeof *d->order);
    qn_release(d->allocator, d->begins, (size_t)d->n_classes + 1, sizeof *d->begins);
    qn_release(d->allocator, d->test, (size_t)d->n_test, sizeof *d->test);
    qn_release(d->allocator, d->train, (size_t)d->n_train, sizeof *d->train);
}

static qn_status prepare_draw(const qn_data_source *data, test_draw *d) {
    const qn_allocator *a = d->allocator;
    QN_TRY(read_labels(a, data, QN_TRAIN, &d->train));
    QN_TRY(read_labels(a, data, QN_TEST, &d->test));
    QN_TRY(check_labels(d->test, d->n_test, d->n_classes));
    QN_TRY(qn_allocate(a, (size_t)d->n_classes + 1, sizeof *d->begins, &d->begins));
    QN_TRY(qn_allocate(a, (size_t)d->n_test, sizeof *d->order, &d->order));
    int64_t n = 0;
    for (int c = 0; c < d->n_classes; c++) {
        d->begins[c] = n;
        for (int64_t i = 0; i < d->n_test; i++) {
            if (d->test[i] == c)
                d->order[n++] = i;
        }
    }
    d->begins[d->n_classes] = n;
    return QN_OK;
}

/* Appends the test samples of a client. */
static void draw_tests(const test_draw *d, const qn_partition *p, int64_t client, int64_t most,
                       uint64_t seed, qn_partition *tests) {
    const int64_t begin = p->first[client], n = p->first[client + 1] - begin;
    const qn_rng rng = qn_rng_make(seed, qn_hash_text("federate.test"), (uint64_t)client);
    for (int64_t i = 0; i < n && i < most; i++) {
        /* spread over its samples, which may be sorted by class */
        const int32_t c = d->train[p->samples[begin + (n <= most ? i : i * n / most)]];
        const int64_t room = d->begins[c + 1] - d->begins[c];
        if (room > 0)
            tests->samples[tests->first[client + 1]++] =
                d->order[d->begins[c] + (int64_t)qn_rng_below(rng, (uint64_t)i, (uint64_t)room)];
    }
}

qn_status qn_partition_tests(const qn_allocator *allocator, const qn_data_source *data,
                             const qn_partition *p, int64_t most, uint64_t seed,
                             qn_partition *tests) {
    allocator = qn_allocator_or_default(allocator);
    test_draw d = {.allocator = allocator,
                   .n_train = data->n_samples[QN_TRAIN],
                   .n_test = data->n_samples[QN_TEST],
                   .n_classes = data->preparation.n_classes};
    *tests = (qn_partition){.allocator = allocator, .n_clients = p->n_clients};
    for (int64_t i = 0; i < p->n_clients; i++) {
        const int64_t n = p->first[i + 1] - p->first[i];
        tests->n_samples += n < most ? n : most;
    }
    qn_status status = prepare_draw(data, &d);
    if (status == QN_OK)
        status =
            qn_allocate(allocator, (size_t)p->n_clients + 1, sizeof *tests->first, &tests->first);
    if (status == QN_OK)
        status = qn_allocate(allocator, (size_t)tests->n_samples, sizeof *tests->samples,
                             &tests->samples);
    for (int64_t i = 0; status == QN_OK && i < p->n_clients; i++) {
        tests->first[i + 1] = tests->first[i];
        draw_tests(&d, p, i, most, seed, tests);
    }
    release_draw(&d);
    if (status != QN_OK)
        qn_partition_destroy(tests);
    return status;
}

void qn_partition_destroy(qn_partition *p) {
    if (p->allocator) {
        qn_release(p->allocator, p->first, (size_t)p->n_clients + 1, sizeof *p->first);
        qn_release(p->allocator, p->samples, (size_t)p->n_samples, sizeof *p->samples);
    }
    *p = (qn_partition){0};
}
