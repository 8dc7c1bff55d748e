/* See accountant.h. The loss of n rounds is a sum of n independent losses. Its distribution is
 * needed where it is as rare as delta, far below what a transform can tell from rounding: so the
 * losses are shifted there first, by weights e^(order * loss), which add up over rounds and are
 * taken back in the end. */
#include "federate/privacy/accountant.h"

#include "federate/privacy/loss.h"
#include "federate/privacy/transform.h"
#include "os/heap.h"

#include <math.h>
#include <string.h>

enum { MOST_PLACES = 1 << 19 };
static const double left_out = 1e-14; /* of the shifted distribution, at each end */
static const double rounding = 1e-14; /* of a moment, which is a sum of many masses */

struct qn_accountant {
    const qn_allocator *allocator;
    double share, noise, delta;
    qn_losses losses[2]; /* of a client removed, added; none where everybody always takes part */
};

/* The sum of n losses, shifted. */
typedef struct composition {
    const qn_losses *losses;
    int64_t n_rounds;
    double delta;          /* without that of losses without bound */
    double order;          /* of the shift */
    double log_moment;     /* of one loss, of that order */
    double mean, variance; /* of one shifted loss */
    int64_t first, n;      /* places of the sum: from first on, n of them, a power of two */
    double *z;             /* (n, 2) */
} composition;

/* ---- everybody takes part: one normal variable ---- */

/* The chance of a standard normal variable above x over its density at x. */
static double mills_ratio(double x) {
    if (x < 5)
        return 0.5 * erfc(x * 0.70710678118654752440) / (exp(-0.5 * x * x) * 0.3989422804014327);
    double ratio = x; /* the continued fraction of Laplace */
    for (int i = 100; i > 0; i--)
        ratio = x + i / ratio;
    return 1 / ratio;
}

/* Balle and Wang, "Improving the Gaussian mechanism for differential privacy", ICML 2018, theorem
 * 8, with the noise's deviation 1 / mu. */
static double gaussian_delta(double mu, double epsilon) {
    const double a = epsilon / mu - mu / 2, b = epsilon / mu + mu / 2;
    if (a < -30)
        return 1;
    return exp(-0.5 * a * a) * 0.3989422804014327 * (mills_ratio(a) - mills_ratio(b));
}

static double count_gaussian(const qn_accountant *a, int64_t n_rounds) {
    const double mu = sqrt((double)n_rounds) / a->noise;
    double least = 0, most = 1;
    if (gaussian_delta(mu, 0) <= a->delta)
        return 0;
    while (gaussian_delta(mu, most) > a->delta)
        most *= 2;
    for (int i = 0; i < 100; i++) {
        const double middle = (least + most) / 2;
        *(gaussian_delta(mu, middle) > a->delta ? &least : &most) = middle;
    }
    return most;
}

/* ---- sampled clients ---- */

/* The bound on epsilon that the moment of an order gives, by Markov's inequality: delta is at most
 * the largest of e^(-order y) (1 - e^-y) over y times e^(n log_moment - order epsilon). */
static double bound_by_order(const composition *c, double order) {
    const double moment = (double)c->n_rounds * (qn_losses_log_moment(c->losses, order) + rounding);
    const double largest = order * log(order) - (order + 1) * log1p(order);
    return (moment + largest - log(c->delta)) / order;
}

/* The order with the least bound, to a factor: that puts the shifted sum's mean close to the
 * epsilon that is looked for. Returns the bound. */
static double choose_order(composition *c, double deviation) {
    const double factor = 1.25;
    double order = sqrt(-2 * log(c->delta) / (double)c->n_rounds) / deviation;
    double best = bound_by_order(c, order);
    for (int sign = -1; sign <= 1; sign += 2) {
        for (double next = order;;) {
            next *= sign < 0 ? 1 / factor : factor;
            const double bound = bound_by_order(c, next);
            if (!(bound < best))
                break;
            best = bound;
            order = next;
        }
    }
    c->order = order;
    return best;
}

static double shifted_mass(const composition *c, int64_t i) {
    const double loss = (double)(c->losses->lowest + i) * c->losses->step;
    const double mass = c->losses->masses[i];
    return mass > 0 ? exp(log(mass) + c->order * loss - c->log_moment) : 0;
}

static void find_moments(composition *c) {
    double first = 0, second = 0;
    c->log_moment = qn_losses_log_moment(c->losses, c->order);
    for (int64_t i = 0; i < c->losses->n; i++) {
        const double loss = (double)(c->losses->lowest + i) * c->losses->step;
        const double mass = shifted_mass(c, i);
        first += mass * loss;
        second += mass * loss * loss;
    }
    c->mean = first;
    c->variance = fmax(second - first * first, c->losses->step * c->losses->step);
}

/* How far the shifted sum goes up (sign 1) or down (-1), but for a chance of left_out: Chernoff's
 * bound, at the best of some orders. */
static double find_end(const composition *c, int sign) {
    const double n = (double)c->n_rounds, rare = -log(left_out);
    const double usual = sqrt(2 * rare / (n * c->variance));
    double least = INFINITY;
    for (int i = -3; i <= 3; i++) {
        const double order = ldexp(usual, i);
        const double moment = qn_losses_log_moment(c->losses, c->order + sign * order);
        least = fmin(least, (n * (moment - c->log_moment) + rare) / order);
    }
    return sign * least;
}

/* Places for the sum; false: there would be too many, or the moments are beyond all numbers. */
static bool find_places(composition *c) {
    const double step = c->losses->step, n = (double)c->n_rounds;
    const double lowest = n * (double)c->losses->lowest;
    const double highest = lowest + n * (double)(c->losses->n - 1);
    const double begin = fmax(lowest, floor(find_end(c, -1) / step));
    const double end = fmin(highest, ceil(find_end(c, 1) / step));
    if (!(end - begin < MOST_PLACES - 1 && end >= begin && fabs(begin) < 1e15 &&
          fabs(n * c->mean / step) < 1e15 && isfinite(c->log_moment)))
        return false;
    c->first = (int64_t)begin;
    for (c->n = 2; (double)c->n < end - begin + 1;)
        c->n *= 2;
    return true;
}

static int64_t wrap(int64_t place, int64_t n) {
    return (place % n + n) % n;
}

static void compose(const composition *c, double *turns) {
    memset(c->z, 0, 2 * (size_t)c->n * sizeof *c->z);
    for (int64_t i = 0; i < c->losses->n; i++)
        c->z[2 * wrap(c->losses->lowest + i, c->n)] += shifted_mass(c, i);
    qn_convolve_power(c->z, turns, c->n, c->n_rounds);
}

/* From the largest sums down until those above have delta. With the masses w above epsilon,
 *     delta = sum of w - e^epsilon * sum of w e^-sum
 * in units of e^(n log_moment - order * middle), that of the weights at middle. */
static double find_epsilon(const composition *c) {
    const double step = c->losses->step, n = (double)c->n_rounds;
    const int64_t middle = (int64_t)round(n * c->mean / step);
    const double target = c->delta * exp(c->order * (double)middle * step - n * c->log_moment);
    double sum = 0, weighted = 0;
    for (int64_t j = c->first + c->n - 1; j >= c->first; j--) {
        const double distance = (double)(j - middle) * step;
        if (sum - exp(distance) * weighted >= target)
            return fmax((double)middle * step + log((sum - target) / weighted), 0);
        const double mass = fmax(c->z[2 * wrap(j, c->n)], 0) * exp(-c->order * distance);
        sum += mass;
        weighted += mass * exp(-distance);
    }
    return fmax((double)c->first * step, 0);
}

static qn_status count_sampled(const qn_accountant *a, const qn_losses *losses, int64_t n_rounds,
                               double *epsilon) {
    const double unbounded = -expm1((double)n_rounds * log1p(-losses->infinite));
    composition c = {.losses = losses, .n_rounds = n_rounds, .delta = a->delta - unbounded};
    double *turns = NULL;
    *epsilon = INFINITY;
    if (!(c.delta > 0))
        return QN_OK;
    /* losses are in steps of a part of their deviation */
    *epsilon = fmax(choose_order(&c, losses->step * 20), 0);
    find_moments(&c);
    if (!find_places(&c))
        return QN_OK; /* the bound is left */
    QN_TRY(qn_allocate(a->allocator, 2 * (size_t)c.n, sizeof *c.z, &c.z));
    const qn_status status = qn_allocate(a->allocator, (size_t)c.n, sizeof *turns, &turns);
    if (status == QN_OK) {
        compose(&c, turns);
        *epsilon = fmin(*epsilon, find_epsilon(&c));
    }
    qn_release(a->allocator, turns, (size_t)c.n, sizeof *turns);
    qn_release(a->allocator, c.z, 2 * (size_t)c.n, sizeof *c.z);
    return status;
}

/* ---- the accountant ---- */

qn_status qn_accountant_create(const qn_allocator *allocator, double share, double noise,
                               int64_t n_most, double delta, qn_accountant **accountant) {
    qn_accountant *a;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *a, &a));
    *a = (qn_accountant){.allocator = allocator, .share = share, .noise = noise, .delta = delta};
    const double tail = fmax(1e-3 * delta / (double)n_most, 1e-307);
    qn_status status = QN_OK;
    for (int i = 0; i < 2 && share < 1 && status == QN_OK; i++)
        status = qn_losses_create(allocator, share, noise, tail, i == 0, &a->losses[i]);
    if (status != QN_OK) {
        qn_accountant_destroy(a);
        return status;
    }
    *accountant = a;
    return QN_OK;
}

void qn_accountant_destroy(qn_accountant *a) {
    if (!a)
        return;
    qn_losses_destroy(&a->losses[0]);
    qn_losses_destroy(&a->losses[1]);
    qn_release(a->allocator, a, 1, sizeof *a);
}

qn_status qn_accountant_count(qn_accountant *a, int64_t n_rounds, double *epsilon) {
    *epsilon = 0;
    if (n_rounds == 0)
        return QN_OK;
    if (a->share >= 1) {
        *epsilon = count_gaussian(a, n_rounds);
        return QN_OK;
    }
    for (int i = 0; i < 2; i++) {
        double one;
        QN_TRY(count_sampled(a, &a->losses[i], n_rounds, &one));
        *epsilon = fmax(*epsilon, one);
    }
    return QN_OK;
}
