/* See head_fit.h. */
#include "tasks/features/head_fit.h"

#include "base/fmath.h"
#include "base/status.h"
#include "tasks/features/calibration.h"
#include "tasks/features/dot.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    MOST_FOLDS = 5,
    N_DECAYS = 10,
    PAIRS = 8,        /* of steps and changes of the gradient that L-BFGS keeps */
    MOST_TRIALS = 20, /* of a step's length */
    FOLD_STEPS = 40,
    LAST_STEPS = 300
};

static const double decays[N_DECAYS] = {1e-1, 1e-2, 1e-3, 3e-4, 1e-4, 3e-5, 1e-5, 3e-6, 1e-6, 1e-7};
static const double usual_decay = 1e-3; /* where nothing can be held out */
static const double sure_part = 0.95;   /* of the answers that are not unsure are right */
static const double known_part = 0.98;  /* of the right answers are not unsure for that */

/* A layer lies as (n_classes, width + 1): the bias behind each row. */
typedef struct problem {
    const qn_allocator *allocator;
    const qn_features *f;
    int n_classes;
    int64_t row, n;  /* width + 1; numbers of a layer */
    const int *fold; /* (f->n), null: nothing is held out */
    int held;        /* the fold that is */
    double decay;
    bool (*should_stop)(void *user);
    void *user;
    double *z;                                                    /* (n_classes) */
    float *w, *g, *next_w, *next_g, *direction, *steps, *changes; /* (n), the last two (PAIRS, n) */
    double rho[PAIRS];
} problem;

/* ---- vectors ---- */

static void add_times(float *to, float factor, const float *a, int64_t n) {
    int64_t i = 0;
    for (; i + QN_DOT_LANES <= n; i += QN_DOT_LANES) {
        qn_dot_lanes x, y;
        memcpy(&x, a + i, sizeof x);
        memcpy(&y, to + i, sizeof y);
        y += factor * x;
        memcpy(to + i, &y, sizeof y);
    }
    for (; i < n; i++)
        to[i] += factor * a[i];
}

/* Of whole layers: in double, since lines are searched by small differences. */
static double dot_layers(const float *a, const float *b, int64_t n) {
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (double)a[i] * (double)b[i];
    return sum;
}

/* ---- the loss ---- */

static const float *row_of(const problem *p, int64_t sample, int64_t view) {
    return p->f->x + (sample * p->f->n_views + view) * p->f->width;
}

static void add_outputs(const problem *p, const float *w, const float *x, double *z) {
    for (int c = 0; c < p->n_classes; c++)
        z[c] =
            (double)(qn_features_dot(x, w + c * p->row, p->f->width) + w[c * p->row + p->f->width]);
}

/* z becomes chances. The result: the logarithm of the sum, so that -log chance = result - z. */
static double soften(double *z, int n) {
    double most = z[0], sum = 0;
    for (int c = 1; c < n; c++)
        most = z[c] > most ? z[c] : most;
    for (int c = 0; c < n; c++)
        sum += z[c] = qn_exp_f64(z[c] - most);
    for (int c = 0; c < n; c++)
        z[c] /= sum;
    return most + qn_log_f64(sum);
}

static int64_t count_kept(const problem *p) {
    int64_t n = 0;
    for (int64_t i = 0; i < p->f->n; i++)
        n += !p->fold || p->fold[i] != p->held;
    return n;
}

/* Adds the loss and gradient of one view of a sample, whose weight in the mean is part. */
static double add_view(problem *p, const float *w, float *g, int64_t sample, const float *x,
                       double part) {
    const int32_t y = p->f->y[sample];
    add_outputs(p, w, x, p->z);
    const double z_y = p->z[y], loss = soften(p->z, p->n_classes) - z_y;
    for (int c = 0; c < p->n_classes; c++) {
        const float r = (float)((p->z[c] - (c == y)) * part);
        add_times(g + c * p->row, r, x, p->f->width);
        g[c * p->row + p->f->width] += r;
    }
    return loss * part;
}

/* The loss of a layer, and its gradient. */
static double find_loss(problem *p, const float *w, float *g) {
    const double part = 1.0 / (double)(count_kept(p) * p->f->n_views);
    double loss = 0;
    memset(g, 0, (size_t)p->n * sizeof *g);
    for (int64_t i = 0; i < p->f->n; i++) {
        for (int64_t v = 0; v < p->f->n_views && (!p->fold || p->fold[i] != p->held); v++)
            loss += add_view(p, w, g, i, row_of(p, i, v), part);
    }
    for (int c = 0; c < p->n_classes; c++) {
        const float *of = w + c * p->row;
        loss += p->decay / 2 * dot_layers(of, of, p->f->width);
        add_times(g + c * p->row, (float)p->decay, of, p->f->width);
    }
    return loss;
}

/* ---- L-BFGS ---- */

/* direction = -(approximate inverse of the curvature) g, of the last n_pairs steps. */
static void find_direction(problem *p, int64_t n_pairs) {
    double alpha[PAIRS];
    const int64_t first = n_pairs > PAIRS ? n_pairs - PAIRS : 0;
    for (int64_t i = 0; i < p->n; i++)
        p->direction[i] = -p->g[i];
    for (int64_t k = n_pairs - 1; k >= first; k--) {
        const int64_t at = k % PAIRS;
        alpha[at] = p->rho[at] * dot_layers(p->steps + at * p->n, p->direction, p->n);
        add_times(p->direction, (float)-alpha[at], p->changes + at * p->n, p->n);
    }
    if (n_pairs > 0) {
        const int64_t at = (n_pairs - 1) % PAIRS;
        const float *change = p->changes + at * p->n;
        const float scale = (float)(1 / (p->rho[at] * dot_layers(change, change, p->n)));
        for (int64_t i = 0; i < p->n; i++)
            p->direction[i] *= scale;
    }
    for (int64_t k = first; k < n_pairs; k++) {
        const int64_t at = k % PAIRS;
        const double beta = p->rho[at] * dot_layers(p->changes + at * p->n, p->direction, p->n);
        add_times(p->direction, (float)(alpha[at] - beta), p->steps + at * p->n, p->n);
    }
}

/* A step along the direction that lowers the loss enough (Armijo); false: there is none. */
static bool search_line(problem *p, double *loss) {
    const double slope = dot_layers(p->direction, p->g, p->n), enough = 1e-4;
    double length = 1;
    if (!(slope < 0))
        return false;
    for (int trial = 0; trial < MOST_TRIALS; trial++, length /= 2) {
        memcpy(p->next_w, p->w, (size_t)p->n * sizeof *p->w);
        add_times(p->next_w, (float)length, p->direction, p->n);
        const double next = find_loss(p, p->next_w, p->next_g);
        if (next <= *loss + enough * length * slope) {
            *loss = next;
            return true;
        }
    }
    return false;
}

/* Keeps the pair of a step where the loss curves upwards, and takes the step. */
static void take_step(problem *p, int64_t *n_pairs) {
    const int64_t at = *n_pairs % PAIRS;
    float *step = p->steps + at * p->n, *change = p->changes + at * p->n, *w = p->w, *g = p->g;
    for (int64_t i = 0; i < p->n; i++) {
        step[i] = p->next_w[i] - p->w[i];
        change[i] = p->next_g[i] - p->g[i];
    }
    const double curve = dot_layers(step, change, p->n);
    if (curve > 1e-12) {
        p->rho[at] = 1 / curve;
        ++*n_pairs;
    }
    p->w = p->next_w;
    p->g = p->next_g;
    p->next_w = w;
    p->next_g = g;
}

/* Lowers the loss from p->w on. */
static qn_status minimise(problem *p, int64_t most_steps, double least_gradient) {
    int64_t n_pairs = 0;
    double loss = find_loss(p, p->w, p->g);
    for (int64_t step = 0; step < most_steps; step++) {
        if (p->should_stop && p->should_stop(p->user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while the head was fitted");
        if (sqrt(dot_layers(p->g, p->g, p->n)) < least_gradient)
            break;
        find_direction(p, n_pairs);
        if (!search_line(p, &loss))
            break;
        take_step(p, &n_pairs);
    }
    return isfinite(loss) ? QN_OK
                          : qn_fail(QN_ERROR_NUMERIC, "the features of the pictures are no finite "
                                                      "numbers: the weights are of no use");
}

/* ---- what is held out ---- */

/* Deals the samples of each class out in order. The number of folds, 0: a class has one sample. */
static int deal_folds(const qn_features *f, int n_classes, int64_t *counts, int *fold) {
    int64_t least = f->n;
    memset(counts, 0, (size_t)n_classes * sizeof *counts);
    for (int64_t i = 0; i < f->n; i++)
        counts[f->y[i]]++;
    for (int c = 0; c < n_classes; c++)
        least = counts[c] > 0 && counts[c] < least ? counts[c] : least;
    const int n_folds = least < 2 ? 0 : least < MOST_FOLDS ? (int)least : MOST_FOLDS;
    memset(counts, 0, (size_t)n_classes * sizeof *counts);
    for (int64_t i = 0; i < f->n && n_folds > 0; i++)
        fold[i] = (int)(counts[f->y[i]]++ % n_folds);
    return n_folds;
}

/* Outputs of the samples of the fold that is held, in their first view: z (f->n, n_classes). */
static void put_held(const problem *p, double *z) {
    for (int64_t i = 0; i < p->f->n; i++) {
        if (p->fold[i] == p->held)
            add_outputs(p, p->w, row_of(p, i, 0), z + i * p->n_classes);
    }
}

/* The mean loss of outputs z over a temperature; chances (n_classes): room. Of n answers that are
 * all right half a one might be wrong (Jeffreys' prior of a part; cf. Platt 1999, section 2.2):
 * without that doubt, the temperature of answers that are all right would be 0. */
static double loss_at(const problem *p, const double *z, double temperature, double *chances) {
    const double doubt = 0.5 / ((double)p->f->n + 1);
    double sum = 0;
    for (int64_t i = 0; i < p->f->n; i++) {
        double all = 0;
        for (int c = 0; c < p->n_classes; c++)
            all += chances[c] = z[i * p->n_classes + c] / temperature;
        const double z_y = chances[p->f->y[i]];
        sum += soften(chances, p->n_classes) - (1 - doubt) * z_y;
        if (p->n_classes > 1)
            sum -= doubt * (all - z_y) / (p->n_classes - 1);
    }
    return sum / (double)p->f->n;
}

/* By golden sections of its logarithm, in which the loss has one valley. */
static double find_temperature(const problem *p, const double *z, double *chances) {
    const double golden = 0.6180339887498949;
    double low = -4, high = 4;
    for (int i = 0; i < 40; i++) {
        const double a = high - golden * (high - low), b = low + golden * (high - low);
        if (loss_at(p, z, qn_exp_f64(a), chances) < loss_at(p, z, qn_exp_f64(b), chances))
            high = b;
        else
            low = a;
    }
    return qn_exp_f64((low + high) / 2);
}

/* An answer: its chance, and whether it is right. */
typedef struct answer {
    double chance;
    bool is_right;
} answer;

static int compare_answers(const void *a, const void *b) {
    const answer *x = a, *y = b;
    return (x->chance < y->chance) - (x->chance > y->chance);
}

static answer answer_of(const problem *p, const double *z, int64_t i, double temperature,
                        double *chances) {
    int best = 0;
    for (int c = 0; c < p->n_classes; c++)
        chances[c] = z[i * p->n_classes + c] / temperature;
    soften(chances, p->n_classes);
    for (int c = 1; c < p->n_classes; c++)
        best = chances[c] > chances[best] ? c : best;
    return (answer){chances[best], best == p->f->y[i]};
}

static double find_calibration_error(const answer *answers, int64_t n) {
    qn_calibration sum = {.unsure = 0};
    for (int64_t i = 0; i < n; i++)
        qn_calibration_add(&sum, answers[i].chance, answers[i].is_right);
    return qn_calibration_error(&sum);
}

/* The chance that so large a part of the right answers, which are sorted, reach. */
static double chance_of_most(const answer *answers, int64_t n, int64_t n_right) {
    const int64_t wanted = (int64_t)ceil(known_part * (double)n_right);
    int64_t found = 0;
    for (int64_t i = 0; i < n; i++) {
        found += answers[i].is_right;
        if (found >= wanted)
            return answers[i].chance;
    }
    return 1;
}

/* From the surest answer on, as many as leave so large a part right (answers of equal chance stay
 * together); and none that is less sure than nearly all that are right, as those of unknown things
 * are. */
static void find_unsure(answer *answers, int64_t n, qn_head_fit *fit) {
    int64_t n_right = 0, n_sure = 0, n_answered = 0;
    qsort(answers, (size_t)n, sizeof *answers, compare_answers);
    for (int64_t i = 0; i < n; i++) {
        n_right += answers[i].is_right;
        const bool is_end = i + 1 == n || answers[i + 1].chance < answers[i].chance;
        if (is_end && (double)n_right >= sure_part * (double)(i + 1))
            n_sure = i + 1;
    }
    const double least = chance_of_most(answers, n, n_right);
    const double sure = n_sure == 0 ? 1 : answers[n_sure - 1].chance;
    fit->unsure = sure > least ? sure : least;
    for (int64_t i = 0; i < n; i++)
        n_answered += n_sure > 0 && answers[i].chance >= fit->unsure;
    fit->accuracy = (double)n_right / (double)n;
    fit->answered = (double)n_answered / (double)n;
}

/* ---- the whole ---- */

/* Centred, and of length 1 on average; mean (width). The factor. */
static double normalise(qn_features *f, double *mean) {
    const int64_t rows = f->n * f->n_views;
    double squares = 0;
    for (int64_t i = 0; i < rows * f->width; i++)
        mean[i % f->width] += (double)f->x[i] / (double)rows;
    for (int64_t i = 0; i < rows * f->width; i++) {
        f->x[i] = (float)((double)f->x[i] - mean[i % f->width]);
        squares += (double)f->x[i] * (double)f->x[i];
    }
    const double factor = squares > 0 ? 1 / sqrt(squares / (double)rows) : 1;
    for (int64_t i = 0; i < rows * f->width; i++)
        f->x[i] = (float)(factor * (double)f->x[i]);
    return factor;
}

/* Each decay begins with the weights of the larger one. z (N_DECAYS, f->n, n_classes). */
static qn_status cross_validate(problem *p, int n_folds, double *z) {
    const int64_t n = p->f->n * p->n_classes;
    for (p->held = 0; p->held < n_folds; p->held++) {
        memset(p->w, 0, (size_t)p->n * sizeof *p->w);
        for (int k = 0; k < N_DECAYS; k++) {
            p->decay = decays[k];
            QN_TRY(minimise(p, FOLD_STEPS, 1e-4));
            put_held(p, z + k * n);
        }
    }
    return QN_OK;
}

/* What the outputs of what was held out say: the decay, the temperature, what is unsure. The
 * result: the outputs of that decay. */
static const double *judge(problem *p, const double *z, answer *answers, qn_head_fit *fit) {
    const int64_t n = p->f->n * p->n_classes;
    double least = INFINITY;
    int best = 0;
    for (int k = 0; k < N_DECAYS; k++) {
        const double t = find_temperature(p, z + k * n, p->z),
                     loss = loss_at(p, z + k * n, t, p->z);
        if (loss < least) {
            least = loss;
            best = k;
            fit->temperature = t;
        }
    }
    fit->decay = decays[best];
    for (int64_t i = 0; i < p->f->n; i++)
        answers[i] = answer_of(p, z + best * n, i, fit->temperature, p->z);
    fit->calibration_error = find_calibration_error(answers, p->f->n);
    find_unsure(answers, p->f->n, fit);
    return z + best * n;
}

/* The chances of z (n, n_classes), over a temperature. */
static void put_chances(const problem *p, const double *z, double temperature, float *to) {
    for (int64_t i = 0; i < p->f->n; i++) {
        for (int c = 0; c < p->n_classes; c++)
            p->z[c] = z[i * p->n_classes + c] / temperature;
        soften(p->z, p->n_classes);
        for (int c = 0; c < p->n_classes; c++)
            to[i * p->n_classes + c] = (float)p->z[c];
    }
}

static qn_status hold_out(problem *p, qn_arena *arena, float *held, qn_head_fit *fit) {
    const size_t n = (size_t)p->f->n;
    int64_t *counts = qn_arena_allocate(arena, (size_t)p->n_classes, sizeof *counts);
    int *fold = qn_arena_allocate(arena, n, sizeof *fold);
    answer *answers = qn_arena_allocate(arena, n, sizeof *answers);
    double *z = qn_arena_allocate(arena, N_DECAYS * n * (size_t)p->n_classes, sizeof *z);
    if (!counts || !fold || !answers || !z)
        return QN_ERROR_MEMORY;
    fit->n_folds = deal_folds(p->f, p->n_classes, counts, fold);
    if (fit->n_folds == 0)
        return QN_OK;
    p->fold = fold;
    QN_TRY(cross_validate(p, fit->n_folds, z));
    p->fold = NULL;
    const double *best = judge(p, z, answers, fit);
    if (held)
        put_chances(p, best, fit->temperature, held);
    return QN_OK;
}

/* The layer of the features as they were, over the temperature. */
static void put_layer(const problem *p, const double *mean, double factor, double temperature,
                      float *weight, float *bias) {
    const int64_t width = p->f->width;
    for (int c = 0; c < p->n_classes; c++) {
        const float *w = p->w + c * p->row;
        double shift = (double)w[width];
        for (int64_t j = 0; j < width; j++) {
            shift -= (double)w[j] * factor * mean[j];
            weight[c * width + j] = (float)((double)w[j] * factor / temperature);
        }
        bias[c] = (float)(shift / temperature);
    }
}

static qn_status open_problem(problem *p, qn_arena *arena) {
    const size_t n = (size_t)p->n;
    float **const vectors[] = {&p->w, &p->g, &p->next_w, &p->next_g, &p->direction};
    for (size_t i = 0; i < sizeof vectors / sizeof *vectors; i++) {
        *vectors[i] = qn_arena_allocate(arena, n, sizeof(float));
        if (!*vectors[i])
            return QN_ERROR_MEMORY;
    }
    p->steps = qn_arena_allocate(arena, PAIRS * n, sizeof(float));
    p->changes = qn_arena_allocate(arena, PAIRS * n, sizeof(float));
    p->z = qn_arena_allocate(arena, (size_t)p->n_classes, sizeof *p->z);
    return p->steps && p->changes && p->z ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status find(problem *p, qn_arena *arena, qn_features *features, float *weight,
                      float *bias, float *held, qn_head_fit *fit) {
    double *mean = qn_arena_allocate(arena, (size_t)features->width, sizeof *mean);
    if (!mean)
        return QN_ERROR_MEMORY;
    memset(mean, 0, (size_t)features->width * sizeof *mean);
    const double factor = normalise(features, mean);
    QN_TRY(open_problem(p, arena));
    QN_TRY(hold_out(p, arena, held, fit));
    if (!weight)
        return QN_OK;
    p->decay = fit->decay;
    memset(p->w, 0, (size_t)p->n * sizeof *p->w);
    QN_TRY(minimise(p, LAST_STEPS, 1e-6));
    put_layer(p, mean, factor, fit->temperature, weight, bias);
    return QN_OK;
}

qn_status qn_head_fit_find(const qn_allocator *allocator, qn_features *features, int n_classes,
                           bool (*should_stop)(void *user), void *user, float *weight, float *bias,
                           float *held, qn_head_fit *fit) {
    qn_arena arena;
    problem p = {.allocator = allocator,
                 .f = features,
                 .n_classes = n_classes,
                 .row = features->width + 1,
                 .n = n_classes * (features->width + 1),
                 .should_stop = should_stop,
                 .user = user};
    *fit = (qn_head_fit){.decay = usual_decay, .temperature = 1};
    qn_arena_init(&arena, allocator);
    const qn_status status = find(&p, &arena, features, weight, bias, held, fit);
    qn_arena_deinit(&arena);
    return status;
}
