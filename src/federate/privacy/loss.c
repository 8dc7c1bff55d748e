/* See loss.h. The server's sum is x of N(0, noise^2), or with a client of chance share of
 * N(1, noise^2), in clips. With the likelihood ratio of the mixture and N(0, noise^2)
 *     l(x) = log(1 - share + share * exp((2 x - 1) / (2 noise^2)))
 * the loss is l(x) under the mixture where a client is removed, and -l(x) under N(0, noise^2) where
 * one is added. The chances p of a cell of the grid and q of it under the other law are kept by two
 * masses at its ends: that curve of delta over e^epsilon which connects the exact points of the
 * grid, and lies above the exact curve, which is convex. */
#include "federate/privacy/loss.h"

#include <math.h>
#include <string.h>

/* where the loss is next to constant */
static const double least_step = 1e-9;

enum { CELLS_OF_DEVIATION = 20, MOST_CELLS = 1 << 17, POINTS = 4001 };

typedef struct mechanism {
    double share, noise;
    bool is_removed;
} mechanism;

/* log of the likelihood ratio at x, without overflow. */
static double ratio_at(const mechanism *m, double x) {
    const double power = (2 * x - 1) / (2 * m->noise * m->noise);
    const double a = log1p(-m->share), b = log(m->share) + power;
    return fmax(a, b) + log1p(exp(-fabs(a - b)));
}

/* Where the likelihood ratio has this logarithm. */
static double place_of(const mechanism *m, double ratio) {
    const double least = log1p(-m->share);
    if (ratio <= least)
        return -INFINITY;
    /* log(e^ratio - e^least) */
    const double difference = ratio + log(-expm1(least - ratio));
    return m->noise * m->noise * (difference - log(m->share)) + 0.5;
}

/* The chance that a standard normal variable is between two numbers, precise in both tails. */
static double between(double a, double b) {
    const double root = 0.70710678118654752440;
    return a > 0 ? 0.5 * (erfc(a * root) - erfc(b * root))
                 : 0.5 * (erfc(-b * root) - erfc(-a * root));
}

/* Chances of x between two places under the loss's own law and under the other. */
static void find_chances(const mechanism *m, double from, double to, double *p, double *q) {
    const double without = between(from / m->noise, to / m->noise);
    const double with = between((from - 1) / m->noise, (to - 1) / m->noise);
    const double mixed = (1 - m->share) * without + m->share * with;
    *p = m->is_removed ? mixed : without;
    *q = m->is_removed ? without : mixed;
}

/* The loss's deviation, by the trapezoidal rule. */
static double find_deviation(const mechanism *m) {
    const double from = -9 * m->noise, width = 1 + 18 * m->noise;
    double sum = 0, first = 0, second = 0;
    for (int i = 0; i < POINTS; i++) {
        const double x = from + width * i / (POINTS - 1), y = (x - 1) / m->noise;
        const double without = exp(-0.5 * x * x / (m->noise * m->noise));
        const double weight =
            m->is_removed ? (1 - m->share) * without + m->share * exp(-0.5 * y * y) : without;
        const double loss = ratio_at(m, x);
        sum += weight;
        first += weight * loss;
        second += weight * loss * loss;
    }
    return sqrt(fmax(second / sum - first / sum * (first / sum), 0));
}

/* Both ends of the losses that count, of which x beyond `farthest` is left out. */
static void find_range(const mechanism *m, double tail, double *lowest, double *highest) {
    /* the chance above z deviations is at most exp(-z^2 / 2) / 2 */
    const double farthest = (m->is_removed ? 1 : 0) + m->noise * sqrt(-2 * log(tail));
    const double bound = log1p(-m->share), far = ratio_at(m, farthest);
    *lowest = m->is_removed ? bound : -far;
    *highest = m->is_removed ? far : -bound;
}

/* Splits the chances of the cell above place i between its ends. */
static void add_cell(const mechanism *m, qn_losses *l, int64_t i) {
    const double begin = (double)(l->lowest + i) * l->step, end = begin + l->step;
    double p, q;
    if (m->is_removed)
        find_chances(m, place_of(m, begin), place_of(m, end), &p, &q);
    else
        find_chances(m, place_of(m, -end), place_of(m, -begin), &p, &q);
    const double held = q > 0 ? exp(log(q) + begin) : 0;
    const double above = fmin(fmax((p - held) / -expm1(-l->step), 0), p);
    l->masses[i + 1] += above;
    l->masses[i] += p - above;
}

static void fill(const mechanism *m, qn_losses *l) {
    double p, q;
    for (int64_t i = 0; i + 1 < l->n; i++)
        add_cell(m, l, i);
    if (m->is_removed) {
        find_chances(m, place_of(m, (double)(l->lowest + l->n - 1) * l->step), INFINITY, &p, &q);
        l->infinite = p;
    } else {
        find_chances(m, place_of(m, -(double)l->lowest * l->step), INFINITY, &p, &q);
        l->masses[0] += p;
    }
}

/* All chances are 1 together but for rounding, which many rounds would raise to their power. */
static void normalise(qn_losses *l) {
    double sum = l->infinite;
    for (int64_t i = 0; i < l->n; i++)
        sum += l->masses[i];
    for (int64_t i = 0; i < l->n; i++)
        l->masses[i] /= sum;
}

/* Takes masses away that are next to nothing at both ends, upwards: a moment is computed from its
 * end on. */
static void trim(qn_losses *l) {
    const double least = 1e-300;
    int64_t n_low = 0;
    while (l->n > 1 && l->masses[l->n - 1] < least)
        l->infinite += l->masses[--l->n];
    while (n_low + 1 < l->n && l->masses[n_low] < least) {
        l->masses[n_low + 1] += l->masses[n_low];
        n_low++;
    }
    l->lowest += n_low;
    l->n -= n_low;
    memmove(l->masses, l->masses + n_low, (size_t)l->n * sizeof *l->masses);
}

qn_status qn_losses_create(const qn_allocator *allocator, double share, double noise, double tail,
                           bool is_removed, qn_losses *losses) {
    const mechanism m = {share, noise, is_removed};
    double lowest, highest;
    find_range(&m, tail, &lowest, &highest);
    const double step = fmax(find_deviation(&m) / CELLS_OF_DEVIATION,
                             fmax((highest - lowest) / MOST_CELLS, least_step));
    *losses = (qn_losses){.allocator = allocator, .step = step};
    losses->lowest = (int64_t)floor(lowest / step);
    losses->n = (int64_t)ceil(highest / step) - losses->lowest + 1;
    QN_TRY(qn_allocate(allocator, (size_t)losses->n, sizeof *losses->masses, &losses->masses));
    losses->n_reserved = losses->n;
    fill(&m, losses);
    trim(losses);
    normalise(losses);
    return QN_OK;
}

void qn_losses_destroy(qn_losses *l) {
    if (l->allocator)
        qn_release(l->allocator, l->masses, (size_t)l->n_reserved, sizeof *l->masses);
    *l = (qn_losses){0};
}

double qn_losses_log_moment(const qn_losses *l, double order) {
    /* from the end with the largest factor, in Horner's order: what underflows adds nothing */
    const double factor = exp(-fabs(order) * l->step);
    const int64_t end = l->lowest + (order > 0 ? l->n - 1 : 0);
    double sum = 0;
    for (int64_t i = 0; i < l->n; i++)
        sum = sum * factor + l->masses[order > 0 ? i : l->n - 1 - i];
    return order * (double)end * l->step + log(sum);
}
