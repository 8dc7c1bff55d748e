/* Which algorithm a convolution goes by, where two would round differently: a table of rules by
 * instruction set, pass and shape. The built-in one is derived by bench/bench_rules.c; a user's own
 * is part of what a result is, like the seed. What gives equal bits is no rule's matter: tilings
 * into blocks, and the ways of a matrix product (tilings.h).
 *
 * Shapes are those of the whole batch, so that pieces of it go the way that the whole would. */
#ifndef QN_KERNELS_RULES_H
#define QN_KERNELS_RULES_H

#include "kernels/kernels.h"

/* What computes a convolution; names in qn_algorithm_names. */
typedef enum qn_algorithm {
    QN_ALGORITHM_PRODUCT,  /* implicit matrix product, always possible */
    QN_ALGORITHM_WINOGRAD, /* F(4x4, 3x3) */
    QN_ALGORITHM_SLIDING,  /* bands of the image, copied once */
    QN_ALGORITHM_THIN,     /* pixels along the vectors */
    QN_ALGORITHM_SCATTER,  /* rows of dy times the filter, added where they belong */
    QN_ALGORITHM_CHUNKS,   /* a product whose batch is shared out, not its tiles */
    QN_ALGORITHM_STRIPS,   /* rows of the image, copied once column by column */
    QN_ALGORITHM_COUNT
} qn_algorithm;

/* Numbers of a shape that conditions are about; names in qn_feature_names. */
typedef enum qn_feature {
    QN_FEATURE_BATCH,
    QN_FEATURE_H,
    QN_FEATURE_W,
    QN_FEATURE_C,
    QN_FEATURE_K,
    QN_FEATURE_R,
    QN_FEATURE_S,
    QN_FEATURE_P,
    QN_FEATURE_Q,
    QN_FEATURE_TAPS,    /* r s */
    QN_FEATURE_RUN,     /* s c: floats of a row of taps */
    QN_FEATURE_PIXELS,  /* batch p q */
    QN_FEATURE_WEIGHTS, /* of a group */
    QN_FEATURE_TILES,   /* of Winograd's 4x4 outputs, on the side that has fewer */
    QN_FEATURE_GAIN,    /* percent of Winograd's products that a direct sum takes, likewise */
    QN_FEATURE_SPREAD,  /* percent of a scattered product's that a gathered one takes */
    QN_FEATURE_COUNT
} qn_feature;

extern const char *const qn_algorithm_names[QN_ALGORITHM_COUNT];
extern const char *const qn_feature_names[QN_FEATURE_COUNT];
extern const char *const qn_pass_names[3]; /* by qn_conv2d_pass */

enum { QN_RULE_CONDITIONS = 6, QN_MAX_RULES = 48 };

typedef struct qn_condition {
    uint8_t feature;
    bool is_most; /* feature <= value; else feature >= value */
    int32_t value;
} qn_condition;

/* Sets and passes as bit masks of qn_isa and qn_conv2d_pass. */
typedef struct qn_rule {
    uint8_t sets, passes, algorithm, n;
    qn_condition conditions[QN_RULE_CONDITIONS]; /* (n), all of which must hold */
} qn_rule;

enum { QN_ALL_SETS = 15, QN_ALL_PASSES = 7 };

typedef struct qn_rules {
    int n;
    const qn_rule *rules; /* (n) */
} qn_rules;

extern const qn_rules qn_rules_built_in;

/* The algorithm of the first rule that fits and is possible (a bit mask); product where none is.
 * rules null: the built-in ones. */
qn_algorithm qn_rules_choose(const qn_rules *rules, qn_isa isa, qn_conv2d_pass pass,
                             const qn_conv2d_shape *shape, unsigned possible);

/* Reads a table from its text (docs/rules.md), whose lines end with a newline or ";". A failure of
 * QN_ERROR_FORMAT names the line. The table's rows are in `rows`. */
qn_status qn_rules_parse(const char *text, size_t bytes, qn_rule rows[QN_MAX_RULES],
                         qn_rules *rules);

#endif
