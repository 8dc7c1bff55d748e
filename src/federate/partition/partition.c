/* See partition.h. Samples are first put into a random order; every kind then takes them from
 * there. Here are the simple kinds and the list of all; dirichlet.c and pachinko.c have others. */
#include "federate/partition/partition.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "federate/partition/divide.h"
#include "federate/partition/users.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

void qn_divide_equally(qn_partition *p) {
    for (int64_t i = 0; i <= p->n_clients; i++)
        p->first[i] = i * p->n_samples / p->n_clients;
}

void qn_divide_by_class(qn_division *d) {
    const int64_t n = d->p->n_samples;
    const int n_classes = d->classes->n_classes;
    const int32_t *labels = d->classes->labels;
    memset(d->begins, 0, ((size_t)n_classes + 1) * sizeof *d->begins);
    for (int64_t i = 0; i < n; i++)
        d->begins[labels[i] + 1]++;
    for (int c = 0; c < n_classes; c++)
        d->begins[c + 1] += d->begins[c];
    for (int64_t i = 0; i < n; i++)
        d->order[d->begins[labels[d->p->samples[i]]]++] = d->p->samples[i];
    for (int c = n_classes; c > 0; c--)
        d->begins[c] = d->begins[c - 1];
    d->begins[0] = 0;
}

static qn_status divide_iid(qn_division *d) {
    qn_divide_equally(d->p);
    return QN_OK;
}

/* Everybody has one sample; the rest goes by weight. */
static qn_status divide_amount(qn_division *d) {
    qn_partition *p = d->p;
    double sum = 0, before = 0;
    qn_draws again = d->draws;
    for (int64_t i = 0; i < p->n_clients; i++)
        sum += exp(d->numbers[0] * qn_draws_normal(&again));
    for (int64_t i = 0; i < p->n_clients; i++) {
        p->first[i] = i + (int64_t)(before / sum * (double)(p->n_samples - p->n_clients));
        before += exp(d->numbers[0] * qn_draws_normal(&d->draws));
    }
    p->first[p->n_clients] = p->n_samples;
    return QN_OK;
}

static qn_status divide_shards(qn_division *d) {
    qn_partition *p = d->p;
    const int64_t each = (int64_t)d->numbers[0], n_shards = each * p->n_clients;
    const qn_rng rng = d->draws.rng;
    int64_t at = 0;
    if ((double)each != d->numbers[0] || each < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "shards:N: N is a whole number from 1 on");
    if (each > p->n_samples / p->n_clients)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%lld clients with %lld shards each, and there are %lld samples",
                       (long long)p->n_clients, (long long)each, (long long)p->n_samples);
    qn_divide_by_class(d);
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

/* ---- the kinds ---- */

static const struct {
    const char *name;
    int least, most; /* numbers behind it */
    bool has_path;
    qn_status (*divide)(qn_division *d);
} kinds[] = {
    {"iid", 0, 0, false, divide_iid},       {"amount", 1, 1, false, divide_amount},
    {"shards", 1, 1, false, divide_shards}, {"hsu", 1, 1, false, qn_divide_hsu},
    {"lda", 1, 2, false, qn_divide_lda},    {"pachinko", 2, 2, true, qn_divide_pachinko},
};

enum { N_KINDS = sizeof kinds / sizeof kinds[0] };

static qn_status refuse(const char *text) {
    return qn_fail(QN_ERROR_ARGUMENT,
                   "partition '%.60s': iid, amount:S, shards:N, hsu:A, lda:A, lda:A:N, "
                   "pachinko:A:B:FILE or users:FILE, with numbers from 0 on for single letters",
                   text);
}

/* Names that other versions had, whose numbers meant something else or nothing that is written
 * anywhere. */
static qn_status refuse_old(const char *text, int n_classes) {
    double value;
    const bool is_mixture = strncmp(text, "dirichlet:", 10) == 0;
    if (strncmp(text, "classes:", 8) == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "partition '%.60s': its name is shards:%.40s (McMahan et al. 2017)", text,
                       text + 8);
    if (!is_mixture || !qn_decimal_parse(text + 10, &value) || !(value > 0 && value < 1e9))
        return refuse(text);
    return qn_fail(QN_ERROR_ARGUMENT,
                   "partition '%.60s': papers mean two things by it. lda:%g divides each class "
                   "among the clients (Yurochkin et al. 2019, Flower); hsu:A draws a mixture of "
                   "classes for each client (Hsu et al. 2019), and what dirichlet:%g was is hsu:%g",
                   text, value, value, value * n_classes);
}

/* A number from 0 on, before a colon or the end; *at goes behind it. */
static bool read_number(const char **at, double *value) {
    char word[64];
    const size_t n = strcspn(*at, ":");
    if (n == 0 || n >= sizeof word)
        return false;
    memcpy(word, *at, n);
    word[n] = 0;
    *at += n;
    return qn_decimal_parse(word, value) && *value >= 0 && *value < 1e9;
}

static qn_status read_specification(qn_division *d, int *kind) {
    const char *text = d->specification;
    const size_t n = strcspn(text, ":");
    for (*kind = 0; *kind < N_KINDS; ++*kind) {
        if (strlen(kinds[*kind].name) == n && strncmp(text, kinds[*kind].name, n) == 0)
            break;
    }
    if (*kind == N_KINDS)
        return refuse_old(text, d->classes->n_classes);
    const char *at = text + n;
    while (*at == ':' && d->n_numbers < kinds[*kind].most) {
        at++;
        if (!read_number(&at, &d->numbers[d->n_numbers++]))
            return refuse(text);
    }
    if (kinds[*kind].has_path && *at == ':' && at[1]) {
        d->path = at + 1;
        at += strlen(at);
    }
    if (*at || d->n_numbers < kinds[*kind].least || kinds[*kind].has_path != (d->path != NULL))
        return refuse(text);
    return QN_OK;
}

static qn_status check_labels(const int32_t *labels, int64_t n, int n_classes) {
    for (int64_t i = 0; i < n; i++) {
        if (labels[i] < 0 || labels[i] >= n_classes)
            return qn_fail(QN_ERROR_ARGUMENT, "sample %lld has class %d, and there are %d",
                           (long long)i, labels[i], n_classes);
    }
    return QN_OK;
}

static qn_status divide(int kind, qn_division *d) {
    qn_partition *p = d->p;
    const size_t n = (size_t)p->n_samples;
    QN_TRY(qn_allocate(p->allocator, (size_t)p->n_clients + 1, sizeof *p->first, &p->first));
    QN_TRY(qn_allocate(p->allocator, n, sizeof *p->samples, &p->samples));
    d->order = qn_arena_allocate(&d->arena, n, sizeof *d->order);
    d->begins = qn_arena_allocate(&d->arena, (size_t)d->classes->n_classes + 1, sizeof *d->begins);
    if (!d->order || !d->begins)
        return QN_ERROR_MEMORY;
    for (int64_t i = 0; i < p->n_samples; i++)
        p->samples[i] = (int64_t)qn_rng_permute(d->draws.rng, (uint64_t)i, (uint64_t)n);
    return kinds[kind].divide(d);
}

static qn_status divide_as_said(const char *specification, const qn_partition_classes *classes,
                                uint64_t seed, qn_partition *p) {
    int kind;
    qn_division d = {.p = p, .classes = classes, .specification = specification};
    if (strncmp(specification, "users:", 6) == 0)
        return qn_partition_users(p->allocator, specification + 6, classes->n, p->n_clients, p);
    QN_TRY(read_specification(&d, &kind));
    if (p->n_clients < 1 || p->n_clients > classes->n)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%lld clients: from 1 to as many as training samples, %lld",
                       (long long)p->n_clients, (long long)classes->n);
    d.draws.rng = qn_rng_make(seed, qn_hash_text("federate.partition"), 0);
    qn_arena_init(&d.arena, p->allocator);
    const qn_status status = divide(kind, &d);
    qn_arena_deinit(&d.arena);
    return status;
}

/* p->largest_share. */
static qn_status find_largest_share(const qn_partition_classes *classes, qn_partition *p) {
    const size_t n_classes = (size_t)classes->n_classes;
    int64_t *counts = NULL;
    double sum = 0;
    QN_TRY(qn_allocate(p->allocator, n_classes, sizeof *counts, &counts));
    for (int64_t i = 0; i < p->n_clients; i++) {
        int64_t most = 0;
        memset(counts, 0, n_classes * sizeof *counts);
        for (int64_t j = p->first[i]; j < p->first[i + 1]; j++) {
            const int64_t count = ++counts[classes->labels[p->samples[j]]];
            most = count > most ? count : most;
        }
        sum += (double)most / (double)(p->first[i + 1] - p->first[i]);
    }
    p->largest_share = sum / (double)p->n_clients;
    qn_release(p->allocator, counts, n_classes, sizeof *counts);
    return QN_OK;
}

qn_status qn_partition_create(const qn_allocator *allocator, const char *specification,
                              const qn_partition_classes *classes, int64_t n_clients, uint64_t seed,
                              qn_partition *partition) {
    *partition = (qn_partition){.allocator = qn_allocator_or_default(allocator),
                                .n_clients = n_clients,
                                .n_samples = classes->n};
    qn_status status = check_labels(classes->labels, classes->n, classes->n_classes);
    if (status == QN_OK)
        status = divide_as_said(specification, classes, seed, partition);
    if (status == QN_OK)
        status = find_largest_share(classes, partition);
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
    const qn_partition_classes classes = {labels, (int64_t)n, data->preparation.n_classes,
                                          data->preparation.class_names};
    const qn_status status =
        qn_partition_create(allocator, specification, &classes, n_clients, seed, partition);
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
