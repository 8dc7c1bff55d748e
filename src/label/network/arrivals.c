/* See arrivals.h. */
#include "label/network/arrivals.h"

#include "base/fmath.h"
#include "base/memory.h"
#include "base/status.h"
#include "label/network/groups.h"

#include <string.h>

enum { CELLS = QN_ARRIVALS_CELLS, PERIODS = QN_ARRIVALS_PERIODS, FOUND = QN_ARRIVALS_FOUND };
enum {
    FIT,    /* the known classes */
    RETURN, /* those found before */
    TRY,    /* candidates, one after another */
    GROW,   /* the best of them */
    SHIFT,  /* found classes to earlier and later periods */
    DROP,   /* those that are not needed beside others */
    END
};
enum {
    FIT_STEPS = 30,
    TRY_STEPS = 10,
    GROW_STEPS = 20,
    IN_PERIOD = 60,  /* samples of a period, at least */
    PER_ONSET = 3,   /* candidates that begin in one period */
    IN_PIECE = 40000 /* numbers of parts that a piece looks at, about */
};
/* What a class must add to the logarithm of the likelihood. */
static const double least_gain = 20.0;
static const float least = 1e-9f;

/* ---- memory ---- */

typedef struct array {
    float **at;
    size_t n;
} array;

enum { N_PARTS = 12 };

static void list_parts(qn_arrivals *a, array parts[N_PARTS]) {
    const size_t classes = (size_t)(a->n_known + FOUND);
    const array all[N_PARTS] = {
        {&a->count, CELLS * PERIODS},
        {&a->labelled, (size_t)a->n_known * CELLS},
        {&a->before_cells, FOUND * CELLS},
        {&a->before_periods, FOUND * PERIODS},
        {&a->likeness, CELLS * CELLS},
        {&a->room, CELLS * PERIODS + classes * (CELLS + PERIODS)},
        {&a->now.part, classes * CELLS},
        {&a->now.rate, classes * PERIODS},
        {&a->trial.part, classes * CELLS},
        {&a->trial.rate, classes * PERIODS},
        {&a->best.part, classes * CELLS},
        {&a->best.rate, classes * PERIODS},
    };
    memcpy(parts, all, sizeof all);
}

qn_status qn_arrivals_make(const qn_allocator *allocator, int n_known, qn_arrivals *a) {
    array parts[N_PARTS];
    *a = (qn_arrivals){.allocator = allocator, .n_known = n_known};
    list_parts(a, parts);
    for (int i = 0; i < N_PARTS; i++)
        QN_TRY(qn_allocate(allocator, parts[i].n, sizeof(float), parts[i].at));
    return QN_OK;
}

void qn_arrivals_destroy(qn_arrivals *a) {
    array parts[N_PARTS];
    if (!a->allocator)
        return;
    list_parts(a, parts);
    for (int i = 0; i < N_PARTS; i++)
        qn_release(a->allocator, *parts[i].at, parts[i].n, sizeof(float));
}

size_t qn_arrivals_bytes(const qn_arrivals *arrivals) {
    qn_arrivals a = *arrivals;
    array parts[N_PARTS];
    size_t bytes = 0;
    list_parts(&a, parts);
    for (int i = 0; i < N_PARTS; i++)
        bytes += parts[i].n * sizeof(float);
    return bytes;
}

int qn_arrivals_periods(int n) {
    const int periods = n / IN_PERIOD;
    return periods < 2 ? 2 : periods > PERIODS ? PERIODS : periods;
}

/* ---- a mixture ---- */

static void copy(const qn_arrivals *a, qn_mixture *to, const qn_mixture *from) {
    const size_t classes = (size_t)(a->n_known + from->n);
    to->n = from->n;
    to->fit = from->fit;
    memcpy(to->onset, from->onset, sizeof to->onset);
    memcpy(to->part, from->part, classes * CELLS * sizeof *to->part);
    memcpy(to->rate, from->rate, classes * PERIODS * sizeof *to->rate);
}

static void swap(qn_mixture *x, qn_mixture *y) {
    const qn_mixture held = *x;
    *x = *y;
    *y = held;
}

/* Samples that are expected in each cell and period. */
static void expect(const qn_arrivals *a, const qn_mixture *m, float *expected) {
    memset(expected, 0, CELLS * PERIODS * sizeof *expected);
    for (int c = 0; c < a->n_known + m->n; c++)
        for (int k = 0; k < a->n_cells; k++) {
            const float part = m->part[c * CELLS + k], *rate = m->rate + c * PERIODS;
            for (int b = 0; part > 0 && b < PERIODS; b++)
                expected[k * PERIODS + b] += part * rate[b];
        }
}

/* Samples of a found class: as many as `all` from its onset on, an equal part of all samples. */
static void set_rate(const qn_arrivals *a, int onset, float all, float *rate) {
    float sum = 0;
    for (int b = onset; b < a->n_periods; b++)
        sum += a->total[b];
    for (int b = 0; b < PERIODS; b++)
        rate[b] = b >= onset && sum > 0 ? all * a->total[b] / sum : 0.0f;
}

/* The part of a known class in all samples changes slowly. */
static void smooth_rate(const qn_arrivals *a, const float *from, float *rate) {
    static const float weight[] = {1.0f, 0.8825f, 0.6065f, 0.3247f, 0.1353f, 0.0439f};
    enum { REACH = sizeof weight / sizeof *weight };
    for (int b = 0; b < a->n_periods; b++) {
        float sum = 0, total = 0;
        for (int o = b - REACH + 1; o < b + REACH; o++)
            if (o >= 0 && o < a->n_periods) {
                sum += weight[o < b ? b - o : o - b] * from[o];
                total += weight[o < b ? b - o : o - b] * a->total[o];
            }
        rate[b] = total > 0 ? a->total[b] * sum / total : 0.0f;
    }
}

/* A step of expectation-maximisation. */
static void step(qn_arrivals *a, qn_mixture *m) {
    float *excess = a->room, *rates = a->room + CELLS * PERIODS;
    expect(a, m, excess);
    for (int i = 0; i < a->n_cells * PERIODS; i++)
        excess[i] = a->count[i] / (excess[i] + least);
    for (int c = 0; c < a->n_known + m->n; c++) {
        float *part = m->part + c * CELLS, *rate = m->rate + c * PERIODS;
        float gets[PERIODS] = {0}, sum = 0;
        for (int k = 0; k < a->n_cells; k++) {
            const float *here = excess + k * PERIODS, had = part[k];
            float all[4] = {0};
            for (int b = 0; b < PERIODS; b += 4)
                for (int i = 0; i < 4; i++) {
                    all[i] += here[b + i] * rate[b + i];
                    gets[b + i] += had * here[b + i];
                }
            part[k] = had * (all[0] + all[1] + (all[2] + all[3]));
            part[k] += c < a->n_known ? a->labelled[c * CELLS + k] : 0.0f;
            sum += part[k];
        }
        for (int k = 0; k < a->n_cells; k++)
            part[k] /= sum + least;
        for (int b = 0; b < PERIODS; b++)
            gets[b] *= rate[b];
        if (c < a->n_known)
            smooth_rate(a, gets, rates);
        else
            set_rate(a, m->onset[c - a->n_known], sum, rates);
        memcpy(rate, rates, PERIODS * sizeof *rate);
    }
}

static void measure_fit(qn_arrivals *a, qn_mixture *m) {
    double sum = 0;
    expect(a, m, a->room);
    for (int k = 0; k < a->n_cells; k++)
        for (int b = 0; b < a->n_periods; b++) {
            const double expected = (double)a->room[k * PERIODS + b] + 1e-9;
            const double count = (double)a->count[k * PERIODS + b];
            sum += (count > 0 ? count * qn_log_f64(expected) : 0) - expected;
        }
    for (int c = 0; c < a->n_known; c++)
        for (int k = 0; k < a->n_cells; k++) {
            const double labelled = (double)a->labelled[c * CELLS + k];
            if (labelled > 0)
                sum += labelled * qn_log_f64((double)m->part[c * CELLS + k] + 1e-4 / a->n_cells);
        }
    m->fit = sum;
}

/* ---- candidates ---- */

/* Puts a candidate to those with the highest scores; the first of equal ones stay first. */
static void put_candidate(qn_arrival_candidate *all, int most, int *n, qn_arrival_candidate one) {
    int at = *n < most ? (*n)++ : one.score > all[most - 1].score ? most - 1 : -1;
    for (; at > 0 && all[at - 1].score < one.score; at--)
        all[at] = all[at - 1];
    if (at >= 0)
        all[at] = one;
}

/* Samples of a cell since a period, and those that the mixture expects. */
static void sum_since(const qn_arrivals *a, int onset, int cell, float *seen, float *expected) {
    *seen = *expected = 0;
    for (int b = onset; b < a->n_periods; b++) {
        *seen += a->count[cell * PERIODS + b];
        *expected += a->room[cell * PERIODS + b];
    }
}

/* Cells that, with those around them, have most more samples than expected since a period. */
static void look_since(const qn_arrivals *a, int onset, qn_arrival_candidate *found, int *n) {
    float seen[CELLS], expected[CELLS];
    for (int k = 0; k < a->n_cells; k++)
        sum_since(a, onset, k, &seen[k], &expected[k]);
    for (int k = 0; k < a->n_cells; k++) {
        float x = 0, e = 0;
        for (int o = 0; o < a->n_cells; o++) {
            x += a->likeness[k * CELLS + o] * seen[o];
            e += a->likeness[k * CELLS + o] * expected[o];
        }
        if (x > e && e > 0)
            put_candidate(
                found, PER_ONSET, n,
                (qn_arrival_candidate){x * (float)qn_log_f64((double)(x / e)) - (x - e), onset, k});
    }
}

static void find_candidates(qn_arrivals *a) {
    expect(a, &a->now, a->room);
    a->n_candidates = 0;
    for (int onset = 0; onset + 1 < a->n_periods; onset++) {
        qn_arrival_candidate here[PER_ONSET];
        int n = 0;
        look_since(a, onset, here, &n);
        for (int i = 0; i < n; i++)
            put_candidate(a->candidate, QN_ARRIVALS_CANDIDATES, &a->n_candidates, here[i]);
    }
}

/* The mixture with a candidate: it begins with what is not expected around its cell. */
static void add_candidate(qn_arrivals *a, const qn_arrival_candidate *one) {
    qn_mixture *m = &a->trial;
    copy(a, m, &a->now);
    expect(a, m, a->room);
    float *part = m->part + (a->n_known + m->n) * CELLS, sum = 0, all = 0;
    for (int k = 0; k < a->n_cells; k++) {
        const float like = a->likeness[one->cell * CELLS + k];
        float seen, expected;
        sum_since(a, one->onset, k, &seen, &expected);
        const float more = seen > expected ? seen - expected : 0.0f;
        all += like * more;
        part[k] = like * (more + 0.05f * seen) + 1e-9f;
        sum += part[k];
    }
    for (int k = 0; k < a->n_cells; k++)
        part[k] /= sum;
    set_rate(a, one->onset, all > 5.0f ? all : 5.0f, m->rate + (a->n_known + m->n) * PERIODS);
    m->onset[m->n++] = one->onset;
}

static double fit_of(double x, double total) {
    return x > 0 ? x * qn_log_f64(x / (total + 1e-9)) : 0.0;
}

int qn_arrivals_onset(int n_periods, const float *samples, const float *all, int last,
                      double gain_needed, double ratio) {
    double best = gain_needed, sum = 0, total = 0, before = 0, early = 0;
    int onset = 0;
    for (int b = 0; b < n_periods; b++) {
        sum += (double)samples[b];
        total += (double)all[b];
    }
    for (int o = 1; o <= last && o < n_periods; o++) {
        before += (double)samples[o - 1];
        early += (double)all[o - 1];
        const double gain =
            fit_of(before, early) + fit_of(sum - before, total - early) - fit_of(sum, total);
        if (gain > best && (sum - before) * early > ratio * before * (total - early)) {
            best = gain;
            onset = o;
        }
    }
    return onset;
}

/* The mixture with a class that was found before. */
static void add_before(qn_arrivals *a, int before) {
    const float *cells = a->before_cells + before * CELLS;
    const float *periods = a->before_periods + before * PERIODS;
    qn_mixture *m = &a->trial;
    const int onset =
        qn_arrivals_onset(a->n_periods, periods, a->total, a->n_periods - 2, 0.0, 1.0);
    float *part = m->part + (a->n_known + a->now.n) * CELLS, sum = 0;
    copy(a, m, &a->now);
    for (int k = 0; k < a->n_cells; k++) {
        part[k] = cells[k] + 0.1f;
        sum += part[k];
    }
    for (int k = 0; k < a->n_cells; k++)
        part[k] /= sum;
    set_rate(a, onset, sum, m->rate + (a->n_known + m->n) * PERIODS);
    m->onset[m->n++] = onset;
}

/* ---- in order ---- */

static float size_of(const qn_arrivals *a, const qn_mixture *m, int found) {
    float sum = 0;
    for (int b = 0; b < a->n_periods; b++)
        sum += m->rate[(a->n_known + found) * PERIODS + b];
    return sum;
}

static void drop(qn_arrivals *a, qn_mixture *m, int found) {
    const size_t after = (size_t)(m->n - 1 - found);
    float *part = m->part + (a->n_known + found) * CELLS;
    float *rate = m->rate + (a->n_known + found) * PERIODS;
    memmove(part, part + CELLS, after * CELLS * sizeof *part);
    memmove(rate, rate + PERIODS, after * PERIODS * sizeof *rate);
    memmove(m->onset + found, m->onset + found + 1, after * sizeof *m->onset);
    m->n--;
}

static void enter(qn_arrivals *a, int phase) {
    a->phase = phase;
    a->at = 0;
}

/* Shift `at`: found class at / 2, to the period before or after; false: there is none. */
static bool shift(qn_arrivals *a) {
    const int found = a->at / 2, onset = a->now.onset[found] + (a->at % 2 ? 1 : -1);
    if (onset < 0 || onset + 1 >= a->n_periods)
        return false;
    copy(a, &a->trial, &a->now);
    a->trial.onset[found] = onset;
    set_rate(a, onset, size_of(a, &a->now, found), a->trial.rate + (a->n_known + found) * PERIODS);
    return true;
}

/* Chooses what is tried next, and how many steps. */
static void prepare(qn_arrivals *a) {
    if (a->phase == RETURN && (a->at >= a->n_before || a->now.n == FOUND))
        enter(a, SHIFT);
    if (a->phase == RETURN)
        add_before(a, a->at);
    if (a->phase == SHIFT) {
        while (a->at < 2 * a->now.n && !shift(a))
            a->at++;
        if (a->at >= 2 * a->now.n) {
            enter(a, a->now.n < FOUND ? TRY : DROP);
            if (a->phase == TRY)
                find_candidates(a);
        }
    }
    if (a->phase == TRY && a->at == 0)
        a->best.n = -1;
    if (a->phase == TRY && a->n_candidates == 0)
        enter(a, DROP);
    if (a->phase == TRY)
        add_candidate(a, &a->candidate[a->at]);
    if (a->phase == DROP && a->at < a->now.n) {
        copy(a, &a->trial, &a->now);
        drop(a, &a->trial, a->at);
    } else if (a->phase == DROP)
        enter(a, END);
    a->left = a->phase == FIT                          ? FIT_STEPS
              : a->phase == GROW || a->phase == RETURN ? GROW_STEPS
                                                       : TRY_STEPS;
}

/* Draws the conclusion from what was tried. */
static void conclude(qn_arrivals *a) {
    qn_mixture *trial = &a->trial;
    measure_fit(a, trial);
    switch (a->phase) {
    case FIT:
        swap(&a->now, trial);
        enter(a, RETURN);
        break;
    case RETURN:
        if (trial->fit - a->now.fit >= least_gain &&
            size_of(a, trial, trial->n - 1) >= QN_ARRIVALS_LEAST)
            swap(&a->now, trial);
        a->at++;
        break;
    case TRY:
        if (a->best.n < 0 || trial->fit > a->best.fit)
            swap(&a->best, trial);
        if (++a->at == a->n_candidates) {
            enter(a, GROW);
            swap(trial, &a->best);
        }
        break;
    case GROW:
        if (trial->fit - a->now.fit < least_gain ||
            size_of(a, trial, trial->n - 1) < QN_ARRIVALS_LEAST) {
            enter(a, DROP);
        } else {
            swap(&a->now, trial);
            enter(a, SHIFT);
        }
        break;
    case SHIFT:
        if (trial->fit > a->now.fit + 0.5)
            swap(&a->now, trial);
        else
            a->at++;
        break;
    case DROP:
        if (a->now.fit - trial->fit < least_gain || size_of(a, &a->now, a->at) < QN_ARRIVALS_LEAST)
            swap(&a->now, trial);
        else
            a->at++;
        break;
    default:
        break;
    }
}

void qn_arrivals_begin(qn_arrivals *a, const float *centre, int d) {
    float all = 0;
    for (int b = 0; b < PERIODS; b++) {
        a->total[b] = 0;
        for (int k = 0; k < a->n_cells; k++)
            a->total[b] += a->count[k * PERIODS + b];
        all += a->total[b];
    }
    qn_groups_compare(a->n_cells, d, centre, CELLS, a->likeness);
    a->trial.n = 0;
    for (int c = 0; c < a->n_known; c++) {
        float sum = 0, *part = a->trial.part + c * CELLS;
        for (int k = 0; k < a->n_cells; k++) {
            float size = 0;
            for (int b = 0; b < a->n_periods; b++)
                size += a->count[k * PERIODS + b];
            part[k] = a->labelled[c * CELLS + k] + size / (all + 1.0f);
            sum += part[k];
        }
        for (int k = 0; k < a->n_cells; k++)
            part[k] /= sum + least;
        for (int b = 0; b < PERIODS; b++)
            a->trial.rate[c * PERIODS + b] = a->total[b] / (float)a->n_known;
    }
    enter(a, FIT);
    prepare(a);
}

bool qn_arrivals_go_on(qn_arrivals *a) {
    const int each = (a->n_known + a->trial.n) * CELLS;
    for (int i = 0; a->left > 0 && (i == 0 || i * each < IN_PIECE); i++, a->left--)
        step(a, &a->trial);
    if (a->left == 0 && a->phase != END) {
        conclude(a);
        prepare(a);
    }
    return a->phase != END;
}

/* ---- what was found ---- */

int qn_arrivals_class(const qn_arrivals *a, int cell, int period, float *probability) {
    float sum = least, most = 0;
    int best = 0;
    for (int c = 0; c < a->n_known + a->now.n; c++) {
        const float here = a->now.part[c * CELLS + cell] * a->now.rate[c * PERIODS + period];
        sum += here;
        best = here > most ? c : best;
        most = here > most ? here : most;
    }
    *probability = most / sum;
    return best;
}

static float sum_periods(const qn_arrivals *a, const float *each) {
    float sum = 0;
    for (int b = 0; b < a->n_periods; b++)
        sum += each[b];
    return sum;
}

/* Found classes have an equal part from their onset on, known ones one of what is left. */
void qn_arrivals_set_rates(qn_arrivals *a, const float *mass) {
    float left[PERIODS], known = least;
    memcpy(left, a->total, sizeof left);
    for (int c = a->n_known; c < a->n_known + a->now.n; c++) {
        float *rate = a->now.rate + c * PERIODS;
        set_rate(a, a->now.onset[c - a->n_known], sum_periods(a, mass + c * PERIODS), rate);
        for (int b = 0; b < a->n_periods; b++)
            left[b] = left[b] > rate[b] ? left[b] - rate[b] : 0.0f;
    }
    known += sum_periods(a, left);
    for (int c = 0; c < a->n_known; c++) {
        const float all = sum_periods(a, mass + c * PERIODS);
        for (int b = 0; b < a->n_periods; b++)
            a->now.rate[c * PERIODS + b] = all * left[b] / known;
    }
}

float qn_arrivals_share(const qn_arrivals *a, int class, int cell) {
    return sum_periods(a, a->now.rate + class * PERIODS) * a->now.part[class * CELLS + cell];
}

float qn_arrivals_ratio(const qn_arrivals *a, int class, int period) {
    const float *rate = a->now.rate + class * PERIODS;
    float sum = 0, total = 0;
    for (int b = 0; b < a->n_periods; b++) {
        sum += rate[b];
        total += a->total[b];
    }
    const float part = sum / (total + least), here = rate[period] / (a->total[period] + least);
    return here / (part + least);
}
