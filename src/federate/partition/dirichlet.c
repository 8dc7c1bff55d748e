/* The kinds hsu and lda (partition.h): two things that papers call a Dirichlet partition. */
#include "federate/partition/divide.h"

#include "base/memory.h"
#include "base/status.h"

#include <string.h>

static qn_status check_concentration(const qn_division *d) {
    if (d->numbers[0] > 0)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "partition '%.60s': the concentration A is above 0",
                   d->specification);
}

/* ---- hsu: for each client over classes ---- */

typedef struct mixture {
    double *logarithms, *weights; /* (n_classes) */
    int64_t *left;                /* (n_classes): samples */
} mixture;

static void draw_mixture(qn_division *d, const mixture *m) {
    for (int c = 0; c < d->classes->n_classes; c++) {
        const int64_t n = d->begins[c + 1] - d->begins[c];
        const double prior = (double)n / (double)d->p->n_samples;
        m->logarithms[c] = qn_draws_log_gamma(&d->draws, d->numbers[0] * prior);
    }
    qn_weigh(m->logarithms, m->left, d->classes->n_classes, m->weights);
}

static void divide_by_mixtures(qn_division *d, const mixture *m) {
    qn_partition *p = d->p;
    const int n_classes = d->classes->n_classes;
    for (int c = 0; c < n_classes; c++)
        m->left[c] = d->begins[c + 1] - d->begins[c];
    for (int64_t client = 0; client < p->n_clients; client++) {
        draw_mixture(d, m);
        for (int64_t i = p->first[client]; i < p->first[client + 1]; i++) {
            const int64_t c = qn_draws_choose(&d->draws, m->weights, n_classes);
            p->samples[i] = d->order[d->begins[c] + --m->left[c]];
            if (m->left[c] == 0)
                qn_weigh(m->logarithms, m->left, n_classes, m->weights);
        }
    }
}

qn_status qn_divide_hsu(qn_division *d) {
    const size_t n = (size_t)d->classes->n_classes;
    const mixture m = {qn_arena_allocate(&d->arena, n, sizeof(double)),
                       qn_arena_allocate(&d->arena, n, sizeof(double)),
                       qn_arena_allocate(&d->arena, n, sizeof(int64_t))};
    QN_TRY(check_concentration(d));
    if (!m.logarithms || !m.weights || !m.left)
        return QN_ERROR_MEMORY;
    qn_divide_equally(d->p);
    qn_divide_by_class(d);
    divide_by_mixtures(d, &m);
    return QN_OK;
}

/* ---- lda: for each class over clients ---- */

enum { TRIES = 100, USUAL_LEAST = 10 };

typedef struct allotment {
    double *logarithms, *weights; /* (n_clients) */
    int64_t *is_open;             /* (n_clients): has no more than the mean */
    int64_t *sizes;               /* (n_clients): samples so far */
    int64_t *owners;              /* (n_samples): the client of the sample at this place of order */
} allotment;

/* Divides one class: the samples from begin to end in order. */
static void divide_class(qn_division *d, const allotment *a, int64_t begin, int64_t end) {
    const int64_t n_clients = d->p->n_clients;
    double sum = 0, before = 0;
    for (int64_t i = 0; i < n_clients; i++) {
        a->logarithms[i] = qn_draws_log_gamma(&d->draws, d->numbers[0]);
        a->is_open[i] = (double)a->sizes[i] <= (double)d->p->n_samples / (double)n_clients;
    }
    qn_weigh(a->logarithms, a->is_open, n_clients, a->weights);
    for (int64_t i = 0; i < n_clients; i++)
        sum += a->weights[i];
    int64_t at = begin, last = 0;
    for (int64_t i = 0; i < n_clients; i++) {
        before += a->weights[i];
        const int64_t stop = begin + (int64_t)(before / sum * (double)(end - begin));
        last = a->weights[i] > 0 ? i : last;
        for (; at < stop && at < end; at++, a->sizes[i]++)
            a->owners[at] = i;
    }
    for (; at < end; at++, a->sizes[last]++) /* by rounding */
        a->owners[at] = last;
}

/* One draw; returns the least number of samples of a client. */
static int64_t draw_owners(qn_division *d, const allotment *a) {
    int64_t least = INT64_MAX;
    memset(a->sizes, 0, (size_t)d->p->n_clients * sizeof *a->sizes);
    for (int c = 0; c < d->classes->n_classes; c++)
        divide_class(d, a, d->begins[c], d->begins[c + 1]);
    for (int64_t i = 0; i < d->p->n_clients; i++)
        least = a->sizes[i] < least ? a->sizes[i] : least;
    return least;
}

/* first and samples, of sizes and owners. */
static void group_by_owner(const qn_division *d, const allotment *a) {
    qn_partition *p = d->p;
    p->first[0] = 0;
    for (int64_t i = 0; i < p->n_clients; i++) {
        p->first[i + 1] = p->first[i] + a->sizes[i];
        a->sizes[i] = p->first[i]; /* where its next sample goes */
    }
    for (int64_t i = 0; i < p->n_samples; i++)
        p->samples[a->sizes[a->owners[i]]++] = d->order[i];
}

static qn_status draw_until(qn_division *d, const allotment *a, int64_t least) {
    int64_t best = 0;
    for (int i = 0; i < TRIES; i++) {
        const int64_t found = draw_owners(d, a);
        best = found > best ? found : best;
        if (found >= least) {
            group_by_owner(d, a);
            return QN_OK;
        }
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "partition '%.60s': in each of %d draws a client had fewer than %lld samples, "
                   "in the best one %lld; take fewer clients or a larger A, or say how many are "
                   "enough: lda:%g:%d",
                   d->specification, TRIES, (long long)least, (long long)best, d->numbers[0],
                   (int)(best > 1 && best < USUAL_LEAST ? best : 1));
}

qn_status qn_divide_lda(qn_division *d) {
    const size_t n = (size_t)d->p->n_clients;
    const int64_t least = d->n_numbers > 1 ? (int64_t)d->numbers[1] : USUAL_LEAST;
    const allotment a = {qn_arena_allocate(&d->arena, n, sizeof(double)),
                         qn_arena_allocate(&d->arena, n, sizeof(double)),
                         qn_arena_allocate(&d->arena, n, sizeof(int64_t)),
                         qn_arena_allocate(&d->arena, n, sizeof(int64_t)),
                         qn_arena_allocate(&d->arena, (size_t)d->p->n_samples, sizeof(int64_t))};
    QN_TRY(check_concentration(d));
    if (least < 1 || (d->n_numbers > 1 && (double)least != d->numbers[1]))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "partition '%.60s': the samples that everybody has at least are a whole "
                       "number from 1 on",
                       d->specification);
    if (!a.logarithms || !a.weights || !a.is_open || !a.sizes || !a.owners)
        return QN_ERROR_MEMORY;
    qn_divide_by_class(d);
    return draw_until(d, &a, least);
}
