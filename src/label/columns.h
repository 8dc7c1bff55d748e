/* Columns of rows to be labelled: numbers, or texts such as colours. A row comes with a number for
 * each column; that of a text is its number in a list of the caller's. The labeller works with
 * features: a column of numbers is one; one of n texts is n, in which the texts, and one place for
 * all others, are the corners of a regular simplex, so that any two differ by the same distance
 * (the square root of 2). Where that were too many features, the rarest texts count as others. */
#ifndef QN_LABEL_COLUMNS_H
#define QN_LABEL_COLUMNS_H

#include "base/memory.h"
#include "quern/label.h"

enum { QN_LABEL_TEXT = 256 }; /* bytes of a text with its closing zero; longer ones are others */

typedef struct qn_label_column {
    bool is_text;
    int n; /* texts that are told apart */
    const char **texts;
    int32_t *number; /* (n) in the caller's list, in rising order */
} qn_label_column;

/* column null: all are numbers, and n is n_features. Else the sum of their widths is n_features. */
typedef struct qn_label_columns {
    int n, n_features;
    const char **names; /* (n) of the labelled samples' header; null: there was none */
    float *medians;     /* (n) of the labelled samples, 0 of texts; null: they are not kept */
    qn_label_column *column;
    qn_arena arena; /* of names, medians and texts, if there are any */
    bool has_arena;
} qn_label_columns;

/* Those of a labeller of rows. */
const qn_label_columns *qn_labeller_columns(const qn_labeller *labeller);

/* Features of a column. */
static inline int qn_label_column_width(const qn_label_column *column) {
    return column->n > 0 ? column->n : 1;
}

void qn_label_columns_init(qn_label_columns *columns, int n);
void qn_label_columns_deinit(qn_label_columns *columns);

/* Takes over the names, the medians of samples x (n_samples, columns->n), and the texts that occur
 * in them, as many as most_features have room for. given null: there are numbers alone, without
 * names and medians. On failure,
 * deinit releases what was taken. */
qn_status qn_label_columns_choose(qn_label_columns *columns, const qn_allocator *allocator,
                                  const qn_data_column *given, const float *x, int64_t n_samples,
                                  int most_features);

/* Makes columns and lists of these sizes: n_texts (columns->n), below 0 for numbers; and room for
 * names and medians. On failure, deinit releases what was made. */
qn_status qn_label_columns_make(qn_label_columns *columns, const qn_allocator *allocator,
                                const int32_t *n_texts);
qn_status qn_label_columns_make_names(qn_label_columns *columns, const qn_allocator *allocator);
qn_status qn_label_columns_make_medians(qn_label_columns *columns, const qn_allocator *allocator);

/* The median of the finite ones among numbers that lie d apart, of many of them those that lie
 * evenly; 0: there are none. */
qn_status qn_label_columns_median(const qn_allocator *allocator, const float *x, int64_t n, int d,
                                  float *median);

/* x (n) to features (n_features), and back. */
void qn_label_columns_encode(const qn_label_columns *columns, const float *x, float *features);
void qn_label_columns_decode(const qn_label_columns *columns, const float *features, float *x);

/* The number of a text in column i, or -1. */
int32_t qn_label_columns_find(const qn_label_columns *columns, int i, const char *text);

#endif
