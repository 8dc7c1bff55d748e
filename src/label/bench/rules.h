/* Other rules for labelling a stream with unknown classes, for comparison: simple ones, and
 * micro-clusters. Each learns from the labelled samples, and then immediately assigns each sample a
 * known class, or calls it new. */
#ifndef QN_LABEL_RULES_H
#define QN_LABEL_RULES_H

#include "quern/label.h"

#include <stdint.h>

/* What a rule is made from; it stays while the rule is used. */
typedef struct qn_label_known {
    int n, d, n_classes;
    const float *x;                /* (n, d) */
    const int32_t *label;          /* (n) */
    const qn_data_column *columns; /* (d) for data sets of them; null: all are numbers. Rules get
                                      features (columns.h) */
} qn_label_known;

typedef struct qn_label_rule {
    const char *name;
    qn_status (*create)(const qn_allocator *allocator, const qn_label_known *known, void **self);
    void (*destroy)(const qn_allocator *allocator, void *self);
    int (*add)(void *self, const float *x); /* a known class, or -1: new */
} qn_label_rule;

enum { QN_RULES_FEATURES = QN_LABEL_MAX_FEATURES, QN_RULES_CLASSES = QN_LABEL_MAX_KNOWN };

/* Those with a file of their own. */
extern const qn_label_rule qn_rule_self_training, qn_rule_means, qn_rule_spreading; /* learned.c */
extern const qn_label_rule qn_rule_vectors, qn_rule_boosting;                       /* margins.c */
extern const qn_label_rule qn_rule_outliers;                                        /* outliers.c */

/* The rules in a fixed order; null beyond the last. */
const qn_label_rule *qn_label_rule_at(int index);

#endif
