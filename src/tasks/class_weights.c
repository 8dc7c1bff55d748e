/* See class_weights.h. */
#include "tasks/class_weights.h"

#include "base/status.h"
#include "data/csv.h"
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

/* Whether text is numbers with commas between; those beyond n are counted only. */
static bool parse_list(char *text, int n, double *weights, int *n_found) {
    *n_found = 0;
    for (char *at = text; at; (*n_found)++) {
        char *comma = strchr(at, ',');
        double value;
        if (comma)
            *comma = 0;
        const bool is_number = qn_number_parse(at, &value);
        if (comma)
            *comma = ',';
        if (!is_number)
            return false;
        if (*n_found < n)
            weights[*n_found] = value;
        at = comma ? comma + 1 : NULL;
    }
    return true;
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

/* A line of a file: "NAME,WEIGHT", or the weight of class *n_found. */
static qn_status parse_line(const qn_data_source *source, const char *place, char *line, int n,
                            double *weights, int *n_found) {
    char *comma = strrchr(line, ',');
    double value;
    int class = *n_found;
    if (comma) {
        *comma = 0;
        class = find_class(source, line, n);
    }
    if (class < 0 || class >= n)
        return qn_fail(QN_ERROR_FORMAT, "%s: %s is none of the %d classes", place,
                       comma ? line : "a weight too many", n);
    if (!qn_number_parse(comma ? comma + 1 : line, &value))
        return qn_fail(QN_ERROR_FORMAT, "%s: '%.40s' is no number", place,
                       comma ? comma + 1 : line);
    if (weights[class] >= 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: class %d has a weight already", place, class);
    if (!(value >= 0))
        return qn_fail(QN_ERROR_FORMAT, "%s: a weight of %g; weights are at least 0", place, value);
    weights[class] = value;
    (*n_found)++;
    return QN_OK;
}

static qn_status parse_file(const qn_data_source *source, const char *path, char *text, int n,
                            double *weights) {
    char place[1024];
    int n_found = 0;
    for (int i = 0; i < n; i++)
        weights[i] = -1;
    for (int number = 1; *text; number++) {
        const size_t length = strcspn(text, "\n");
        const bool has_next = text[length] != 0;
        text[length] = 0;
        snprintf(place, sizeof place, "%s:%d", path, number);
        text[strcspn(text, "\r")] = 0;
        if (*text)
            QN_TRY(parse_line(source, place, text, n, weights, &n_found));
        text += length + has_next;
    }
    for (int i = 0; i < n; i++) {
        if (weights[i] < 0)
            return qn_fail(QN_ERROR_FORMAT, "%s: class %d of %d has no weight", path, i, n);
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
    const qn_status status = parse_file(source, path, text, n, weights);
    qn_release(allocator, text, bytes + 1, 1);
    return status;
}

qn_status qn_class_weights_find(const qn_allocator *allocator, const qn_data_source *source,
                                const char *text, int n, double *weights) {
    const size_t bytes = strlen(text) + 1;
    char *copy;
    int n_found;
    if (strcmp(text, "balanced") == 0)
        return balance(allocator, source, n, weights);
    QN_TRY(qn_allocate(allocator, bytes, 1, &copy));
    memcpy(copy, text, bytes);
    const bool is_list = parse_list(copy, n, weights, &n_found);
    qn_release(allocator, copy, bytes, 1);
    if (!is_list)
        return read_file(allocator, source, text, n, weights);
    if (n_found != n)
        return qn_fail(QN_ERROR_ARGUMENT, "--class-weights has %d numbers for %d classes", n_found,
                       n);
    return QN_OK;
}
