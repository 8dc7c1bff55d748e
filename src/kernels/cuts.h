/* How a product's work is cut where that changes no bit of what it gives: its way through memory,
 * blocks of rows and columns, their share-out over threads, what is fetched ahead. Zeros are the
 * fixed rules, by the shape; a table says otherwise for some shapes, since a measurement on this
 * machine did (run/tuner.h).
 *
 * Whatever a table says, bits are equal (tests/unit/test_cuts.c), and no kernel takes more
 * workspace than by the fixed rules: so a plan holds with every table, and one may be a file that
 * was found. What rounds differently is a matter of rules.h alone. */
#ifndef QN_KERNELS_CUTS_H
#define QN_KERNELS_CUTS_H

#include "kernels/kernels.h"

/* Names in qn_cut_names, variants besides the fixed rule in qn_cut_variants. */
typedef enum qn_cut_kind {
    QN_CUT_WAY,     /* qn_cut_way, of those that can */
    QN_CUT_SPLIT,   /* of panels over threads: 1 by rows, 2 by columns */
    QN_CUT_ROWS,    /* of a task by panels at most: a half, a quarter, three quarters */
    QN_CUT_COLUMNS, /* that a task goes through at a time: 1 few, 2 fewer; of panels: 2 many */
    QN_CUT_FETCH,   /* 1: nothing is fetched ahead */
    QN_CUT_TILES,   /* of a block of Winograd's forward: a half, a quarter */
    QN_CUT_COUNT
} qn_cut_kind;

enum qn_cut_way { QN_CUT_WAY_FIXED, QN_CUT_WAY_PANELS, QN_CUT_WAY_ROWS, QN_CUT_WAY_SWAPPED };

extern const char *const qn_cut_names[QN_CUT_COUNT];
extern const uint8_t qn_cut_variants[QN_CUT_COUNT];

/* 0 <= kinds[k] <= qn_cut_variants[k]; 0: by the fixed rule. */
typedef struct qn_cut {
    uint8_t kinds[QN_CUT_COUNT];
} qn_cut;

typedef struct qn_cut_entry {
    uint64_t key;
    qn_cut cut;
} qn_cut_entry;

/* While it is found out which cut is best: every product is cut so, or, with is_question, does
 * nothing but say its key and which kinds it knows. */
typedef struct qn_cut_trial {
    bool is_question;
    qn_cut cut;
    uint64_t key;   /* of the last product; 0: there was none */
    unsigned kinds; /* a bit mask of qn_cut_kind */
} qn_cut_trial;

/* Invariant: the keys rise. */
typedef struct qn_cuts {
    size_t n;
    qn_cut_entry *entries; /* (n) */
    qn_cut_trial *trial;   /* null: none */
} qn_cuts;

/* Of a shape with all that an answer may depend on but the machine. A piece of a batch has that of
 * the whole; steps of rows, and whether sums go on, have no part in it. */
uint64_t qn_cut_key_conv2d(const qn_conv2d_shape *shape, qn_conv2d_pass pass, int algorithm,
                           int n_threads);
uint64_t qn_cut_key_gemm(const qn_gemm_shape *shape, int n_threads);

/* The place of a key among the entries: of it, or of the first behind it. */
size_t qn_cuts_place(const qn_cuts *cuts, uint64_t key);
bool qn_cuts_has(const qn_cuts *cuts, uint64_t key);

/* The cut for a product that knows these kinds; all by the fixed rules where the table (null: none)
 * has none. False: it was only a question. */
bool qn_cuts_take(const qn_cuts *cuts, uint64_t key, unsigned kinds, qn_cut *cut);

#endif
