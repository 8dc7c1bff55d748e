/* See regression.h. */
#include "tasks/rows/regression.h"

#include "base/print.h"
#include "base/status.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void qn_targets_restore(const qn_preparation *p, int n_outputs, int64_t n, float *outputs) {
    if (p->n_scaled != n_outputs)
        return;
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < n_outputs; k++, outputs++)
            *outputs = p->target_mean[k] + p->target_scale[k] * *outputs;
}

/* ---- errors ---- */

enum { N_SUMS = 5 };

static double **sums_of(qn_errors *e, int i) {
    double **all[N_SUMS] = {&e->square, &e->absolute, &e->first, &e->sum, &e->sum_square};
    return all[i];
}

qn_status qn_errors_init(qn_errors *e, const qn_allocator *allocator, int n_targets) {
    *e = (qn_errors){.n_targets = n_targets};
    for (int i = 0; i < N_SUMS; i++)
        QN_TRY(qn_allocate(allocator, (size_t)n_targets, sizeof(double), sums_of(e, i)));
    return QN_OK;
}

void qn_errors_deinit(qn_errors *e, const qn_allocator *allocator) {
    for (int i = 0; i < N_SUMS; i++)
        qn_release(allocator, *sums_of(e, i), (size_t)e->n_targets, sizeof(double));
}

void qn_errors_clear(qn_errors *e) {
    e->n = 0;
    for (int i = 0; e->n_targets > 0 && i < N_SUMS; i++)
        memset(*sums_of(e, i), 0, (size_t)e->n_targets * sizeof(double));
}

void qn_errors_add(qn_errors *e, const qn_preparation *p, const float *outputs,
                   const float *targets, int64_t n) {
    const bool is_scaled = p->n_scaled == e->n_targets;
    for (int64_t i = 0; i < n; i++, e->n++)
        for (int k = 0; k < e->n_targets; k++, outputs++, targets++) {
            const double scale = is_scaled ? (double)p->target_scale[k] : 1.0;
            const double target = scale * (double)*targets;
            const double error = scale * (double)*outputs - target;
            e->first[k] = e->n == 0 ? target : e->first[k];
            e->square[k] += error * error;
            e->absolute[k] += fabs(error);
            e->sum[k] += target - e->first[k];
            e->sum_square[k] += (target - e->first[k]) * (target - e->first[k]);
        }
}

typedef struct errors_of {
    double rmse, mae, r2, rmse_of_mean;
} errors_of;

/* R2 of targets that never change is 0: no answer explains what is not there. */
static errors_of find_errors(const qn_errors *e, int k) {
    const double n = (double)e->n, shift = e->sum[k] / n;
    const double variance = fmax(e->sum_square[k] / n - shift * shift, 0.0);
    const double square = e->square[k] / n;
    return (errors_of){.rmse = sqrt(square),
                       .mae = e->absolute[k] / n,
                       .r2 = variance > 0 ? 1 - square / variance : 0,
                       .rmse_of_mean = sqrt(variance)};
}

void qn_errors_report(const qn_errors *e, qn_metrics *metrics) {
    errors_of mean = {0};
    for (int k = 0; e->n > 0 && k < e->n_targets; k++) {
        const errors_of of = find_errors(e, k);
        mean.rmse += of.rmse / e->n_targets;
        mean.mae += of.mae / e->n_targets;
        mean.r2 += of.r2 / e->n_targets;
        mean.rmse_of_mean += of.rmse_of_mean / e->n_targets;
    }
    qn_metrics_add(metrics, "rmse_of_mean", mean.rmse_of_mean, false);
    qn_metrics_add(metrics, "r2", mean.r2, false);
    qn_metrics_add(metrics, "mae", mean.mae, false);
    qn_metrics_add(metrics, "rmse", mean.rmse, false);
}

void qn_errors_tell(const qn_errors *e, const qn_preparation *p, const qn_log *log) {
    const bool has_names = p->table && p->table->n_targets == e->n_targets;
    char text[256], number[24];
    for (int k = 0; e->n_targets > 1 && e->n > 0 && log && k < e->n_targets; k++) {
        const errors_of of = find_errors(e, k);
        snprintf(number, sizeof number, "target %d", k + 1);
        qn_print(text, sizeof text, "%.60s: RMSE %.6g (of the mean %.6g), MAE %.6g, R2 %.4f",
                 has_names ? p->table->targets[k] : number, of.rmse, of.rmse_of_mean, of.mae,
                 of.r2);
        log->write(log->user, 0, text);
    }
}
