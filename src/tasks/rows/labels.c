/* See labels.h. */
#include "tasks/rows/labels.h"

#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "tasks/tasks.h"

#include <math.h>
#include <string.h>

qn_status qn_label_counts_init(qn_label_counts *c, const qn_allocator *allocator, int n_labels) {
    *c = (qn_label_counts){.n_labels = n_labels};
    return qn_allocate(allocator, (size_t)n_labels, sizeof *c->has, &c->has);
}

void qn_label_counts_deinit(qn_label_counts *c, const qn_allocator *allocator) {
    qn_release(allocator, c->has, (size_t)c->n_labels, sizeof *c->has);
}

void qn_label_counts_clear(qn_label_counts *c) {
    c->n = 0;
    if (c->has)
        memset(c->has, 0, (size_t)c->n_labels * sizeof *c->has);
}

static int find_bin(double chance) {
    const int bin = chance > 0 ? (int)(chance * QN_LABEL_BINS) : 0;
    return bin < QN_LABEL_BINS ? bin : QN_LABEL_BINS - 1;
}

void qn_label_counts_add(qn_label_counts *c, const float *chances, const float *labels, int64_t n) {
    for (int64_t i = 0; i < n; i++)
        for (int k = 0; k < c->n_labels; k++, chances++, labels++)
            c->has[k][*labels > 0.5f][find_bin((double)*chances)]++;
    c->n += n;
}

double qn_label_precision(const qn_label_counts *c, int label) {
    int64_t n_with = 0, n_all = 0;
    double sum = 0;
    for (int bin = QN_LABEL_BINS - 1; bin >= 0; bin--) {
        const int64_t with = c->has[label][1][bin];
        n_with += with;
        n_all += with + c->has[label][0][bin];
        if (with > 0)
            sum += (double)with * (double)n_with / (double)n_all;
    }
    return n_with > 0 ? sum / (double)n_with : NAN;
}

/* True and false positives of the bins from one on, and all samples that have the label. */
typedef struct positives {
    int64_t right, wrong, all;
} positives;

static positives count_from(const qn_label_counts *c, int label, int first) {
    positives p = {0};
    for (int bin = 0; bin < QN_LABEL_BINS; bin++) {
        p.all += c->has[label][1][bin];
        p.right += bin >= first ? c->has[label][1][bin] : 0;
        p.wrong += bin >= first ? c->has[label][0][bin] : 0;
    }
    return p;
}

static double f1_of(positives p) {
    return p.right > 0 ? 2.0 * (double)p.right / (double)(p.all + p.right + p.wrong) : 0.0;
}

double qn_label_f1(const qn_label_counts *c, int label, double threshold) {
    return f1_of(count_from(c, label, find_bin(threshold)));
}

/* Of thresholds with the same F1, as where nothing lies between them, the middle. */
double qn_label_threshold(const qn_label_counts *c, int label) {
    positives p = count_from(c, label, QN_LABEL_BINS);
    double best = 0;
    int first = QN_LABEL_BINS / 2, last = first;
    for (int bin = QN_LABEL_BINS - 1; bin >= 0; bin--) {
        p.right += c->has[label][1][bin];
        p.wrong += c->has[label][0][bin];
        const double f1 = f1_of(p);
        if (f1 > best)
            first = bin;
        if (f1 >= best && f1 > 0)
            last = bin;
        best = f1 > best ? f1 : best;
    }
    return (first + last) / 2.0 / QN_LABEL_BINS;
}

static double find_accuracy(const qn_label_counts *c) {
    int64_t n_right = 0;
    for (int k = 0; k < c->n_labels; k++) {
        const positives p = count_from(c, k, QN_LABEL_BINS / 2);
        n_right += p.right + (c->n - p.all - p.wrong);
    }
    return (double)n_right / (double)(c->n * c->n_labels);
}

void qn_label_report(const qn_label_counts *c, const double *thresholds, qn_metrics *metrics) {
    double precision = 0, f1 = 0;
    int n_known = 0;
    for (int k = 0; k < c->n_labels; k++) {
        const double one = qn_label_precision(c, k);
        n_known += !isnan(one);
        precision += isnan(one) ? 0 : one;
        f1 += isnan(one) ? 0 : qn_label_f1(c, k, thresholds ? thresholds[k] : 0.5);
    }
    n_known += n_known == 0;
    qn_metrics_add(metrics, "label_accuracy", find_accuracy(c), true);
    qn_metrics_add(metrics, "f1", f1 / n_known, true);
    qn_metrics_add(metrics, "map", precision / n_known, true);
}

void qn_label_tell(const qn_label_counts *c, const double *thresholds, const qn_table *table,
                   const qn_log *log) {
    char text[256];
    for (int k = 0; log && table && c->n > 0 && k < c->n_labels; k++) {
        const double precision = qn_label_precision(c, k);
        if (isnan(precision))
            qn_print(text, sizeof text, "%.60s: no sample has it", table->targets[k]);
        else
            qn_print(text, sizeof text,
                     "%.60s: average precision %.2f %%, F1 %.2f %% above a chance of %.3f",
                     table->targets[k], 100 * precision, 100 * qn_label_f1(c, k, thresholds[k]),
                     thresholds[k]);
        log->write(log->user, 0, text);
    }
}

void qn_label_thresholds_read(const char *text, int n, double *thresholds) {
    char number[40];
    for (int i = 0; i < n; i++) {
        const size_t length = text ? strcspn(text, ",") : 0;
        thresholds[i] = 0.5;
        if (length == 0 || length >= sizeof number)
            continue;
        memcpy(number, text, length);
        number[length] = 0;
        if (!qn_decimal_parse(number, &thresholds[i]) ||
            !(thresholds[i] >= 0 && thresholds[i] <= 1))
            thresholds[i] = 0.5;
        text = text[length] ? text + length + 1 : NULL;
    }
}

qn_status qn_label_thresholds_write(qn_arena *arena, const double *thresholds, int n,
                                    const char **text) {
    enum { NUMBER_BYTES = 12 };
    const size_t bytes = (size_t)n * NUMBER_BYTES + 1;
    size_t used = 0;
    char *to = qn_arena_allocate(arena, bytes, 1);
    if (!to)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        qn_print(to + used, bytes - used, "%s%.6f", i ? "," : "", thresholds[i]);
        used += strlen(to + used);
    }
    *text = to;
    return QN_OK;
}
