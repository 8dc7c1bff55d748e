/* See class_weights.h. */
#include "tasks/class_weights.h"

#include "base/decimal.h"
#include "base/status.h"
#include "format/csv.h"
#include "os/os.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- balanced ---- */

static qn_status count_classes(const qn_data_source *source, void *sample, int n, double *counts) {
    int32_t class;
    for (int64_t i = 0; i < source->n_samples[QN_TRAIN]; i++) {
        if (source->read_class)
            QN_TRY(source->read_class(source->self, QN_TRAIN, i, &class));
        else
            QN_TRY(source->read(source->self, QN_TRAIN, i, sample, &class));
        if (class >= 0 && class < n)
            counts[class]++;
    }
    return QN_OK;
}

static qn_status balance(const qn_allocator *allocator, const qn_data_source *source, int n,
                         double *weights) {
    void *sample = NULL;
    const size_t bytes =
        source->read_class ? 0
                           : (size_t)qn_shape_count(source->sample) * qn_dtype_bytes(source->dtype);
    memset(weights, 0, (size_t)n * sizeof *weights);
    QN_TRY(qn_allocate(allocator, bytes, 1, &sample));
    const qn_status status = count_classes(source, sample, n, weights);
    qn_release(allocator, sample, bytes, 1);
    int n_met = 0;
    for (int i = 0; i < n; i++)
        n_met += weights[i] > 0;
    for (int i = 0; i < n; i++)
        weights[i] =
            weights[i] > 0 ? (double)source->n_samples[QN_TRAIN] / (n_met * weights[i]) : 0;
    return status;
}

/* ---- lists and files ---- */

/* *is_list: whether text is numbers with commas between; those beyond n are counted only. */
static qn_status parse_list(const qn_allocator *allocator, const char *text, int n, double *weights,
                            int *n_found, bool *is_list) {
    qn_csv_reader list;
    bool is_end;
    qn_csv_read_text(&list, allocator, "--class-weights", text, strlen(text));
    const qn_status status = qn_csv_next(&list, &is_end);
    *is_list = status == QN_OK && !is_end;
    for (size_t i = 0; *is_list && i < list.n_fields; i++) {
        double value;
        *is_list = qn_decimal_parse(qn_csv_text(&list, i), &value);
        if (*is_list && i < (size_t)n)
            weights[i] = value;
    }
    *n_found = (int)list.n_fields;
    qn_csv_deinit(&list);
    return status == QN_ERROR_FORMAT ? QN_OK : status;
}

static int find_class(const qn_data_source *source, const char *name, int n) {
    const qn_preparation *p = &source->preparation;
    char *end;
    for (int i = 0; p->class_names && i < p->n_classes && i < n; i++) {
        if (strcmp(p->class_names[i], name) == 0)
            return i;
    }
    const long number = strtol(name, &end, 10);
    return !p->class_names && end != name && !*end && number >= 0 && number < n ? (int)number : -1;
}

/* What is before the last comma, without quotes: a name may have commas of its own. */
static const char *name_of(const qn_csv_reader *row, char *name, size_t bytes) {
    if (row->n_fields == 2)
        return qn_csv_text(row, 0);
    const int64_t length = row->fields[row->n_fields - 2].end - row->begin;
    snprintf(name, bytes, "%.*s", (int)length, row->source + row->begin);
    return name;
}

/* A line of a file: "NAME,WEIGHT", or the weight of class *n_found. */
static qn_status parse_row(const qn_data_source *source, const qn_csv_reader *row, int n,
                           double *weights, int *n_found) {
    char place[1024], name[1024];
    double value;
    const bool has_name = row->n_fields > 1;
    const char *weight = qn_csv_text(row, row->n_fields - 1);
    const char *class_name = has_name ? name_of(row, name, sizeof name) : "a weight too many";
    const int class = has_name ? find_class(source, class_name, n) : *n_found;
    snprintf(place, sizeof place, "%s:%lld", row->name, (long long)row->line);
    if (class < 0 || class >= n)
        return qn_fail(QN_ERROR_FORMAT, "%s: %s is none of the %d classes", place, class_name, n);
    if (!qn_decimal_parse(weight, &value))
        return qn_fail(QN_ERROR_FORMAT, "%s: '%.40s' is not a number", place, weight);
    if (weights[class] >= 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: class %d has a weight already", place, class);
    if (!(value >= 0))
        return qn_fail(QN_ERROR_FORMAT, "%s: a weight of %g; weights are at least 0", place, value);
    weights[class] = value;
    (*n_found)++;
    return QN_OK;
}

static qn_status parse_rows(const qn_data_source *source, qn_csv_reader *row, int n,
                            double *weights) {
    int n_found = 0;
    for (int i = 0; i < n; i++)
        weights[i] = -1;
    for (;;) {
        bool is_end;
        QN_TRY(qn_csv_next(row, &is_end));
        if (is_end)
            break;
        QN_TRY(parse_row(source, row, n, weights, &n_found));
    }
    for (int i = 0; i < n; i++) {
        if (weights[i] < 0)
            return qn_fail(QN_ERROR_FORMAT, "%s: class %d of %d has no weight", row->name, i, n);
    }
    return QN_OK;
}

static qn_status read_file(const qn_allocator *allocator, const qn_data_source *source,
                           const char *path, int n, double *weights) {
    char *text;
    size_t bytes;
    if (!qn_path_is_file(path))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--class-weights is balanced, numbers with commas between, or a file; there "
                       "is no file %s",
                       path);
    QN_TRY(qn_file_read_whole(allocator, path, &text, &bytes));
    qn_csv_reader row;
    qn_csv_read_text(&row, allocator, path, text, bytes);
    const qn_status status = parse_rows(source, &row, n, weights);
    qn_csv_deinit(&row);
    qn_release(allocator, text, bytes + 1, 1);
    return status;
}

qn_status qn_class_weights_find(const qn_allocator *allocator, const qn_data_source *source,
                                const char *text, int n, double *weights) {
    bool is_list;
    int n_found;
    if (strcmp(text, "balanced") == 0)
        return balance(allocator, source, n, weights);
    QN_TRY(parse_list(allocator, text, n, weights, &n_found, &is_list));
    if (!is_list)
        return read_file(allocator, source, text, n, weights);
    if (n_found != n)
        return qn_fail(QN_ERROR_ARGUMENT, "--class-weights has %d numbers for %d classes", n_found,
                       n);
    return QN_OK;
}
