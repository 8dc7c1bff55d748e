/* How a product's work is tiled where that changes no bit of what it gives: its way through memory,
 * blocks of rows and columns, their share-out over threads, what is fetched ahead. Zeros are the
 * fixed rules, by the shape; a table says otherwise for some shapes, since a measurement on this
 * machine did (run/tuning/tuner.h).
 *
 * Whatever a table says, bits are equal (tests/unit/kernels/test_tilings.c), and no kernel takes
 * more workspace than by the fixed rules: so a plan holds with every table, and one may be a file
 * that was found. What rounds differently is a matter of rules.h alone. */
#ifndef QN_KERNELS_TILINGS_H
#define QN_KERNELS_TILINGS_H

#include "kernels/kernels.h"

/* Names in qn_tiling_names, variants besides the fixed rule in qn_tiling_variants. */
typedef enum qn_tiling_kind {
    QN_TILING_WAY,     /* qn_tiling_way, of those that can */
    QN_TILING_SPLIT,   /* of panels over threads: 1 by rows, 2 by columns */
    QN_TILING_ROWS,    /* of a task by panels at most: a half, a quarter, three quarters */
    QN_TILING_COLUMNS, /* that a task goes through at a time: 1 few, 2 fewer; of panels: 2 many */
    QN_TILING_FETCH,   /* 1: nothing is fetched ahead */
    QN_TILING_TILES,   /* of a block of Winograd's forward: a half, a quarter */
    QN_TILING_COUNT
} qn_tiling_kind;

enum qn_tiling_way {
    QN_TILING_WAY_FIXED,
    QN_TILING_WAY_PANELS,
    QN_TILING_WAY_ROWS,
    QN_TILING_WAY_EXCHANGED
};

extern const char *const qn_tiling_names[QN_TILING_COUNT];
extern const uint8_t qn_tiling_variants[QN_TILING_COUNT];

/* 0 <= kinds[k] <= qn_tiling_variants[k]; 0: by the fixed rule. */
typedef struct qn_tiling {
    uint8_t kinds[QN_TILING_COUNT];
} qn_tiling;

typedef struct qn_tiling_entry {
    uint64_t key;
    qn_tiling tiling;
} qn_tiling_entry;

/* While it is found out which tiling is best: every product is tiled so, or, with is_question, does
 * nothing but say its key and which kinds it knows. */
typedef struct qn_tiling_trial {
    bool is_question;
    qn_tiling tiling;
    uint64_t key;   /* of the last product; 0: there was none */
    unsigned kinds; /* a bit mask of qn_tiling_kind */
} qn_tiling_trial;

/* Invariant: the keys rise. */
typedef struct qn_tilings {
    size_t n;
    qn_tiling_entry *entries; /* (n) */
    qn_tiling_trial *trial;   /* null: none */
} qn_tilings;

/* Of a shape with all that an answer may depend on but the machine. A piece of a batch has that of
 * the whole; steps of rows, and whether sums go on, have no part in it. */
uint64_t qn_tiling_key_conv2d(const qn_conv2d_shape *shape, qn_conv2d_pass pass, int algorithm,
                              int n_threads);
uint64_t qn_tiling_key_gemm(const qn_gemm_shape *shape, int n_threads);

/* The place of a key among the entries: of it, or of the first behind it. */
size_t qn_tilings_place(const qn_tilings *tilings, uint64_t key);
bool qn_tilings_has(const qn_tilings *tilings, uint64_t key);

/* The tiling for a product that knows these kinds; all by the fixed rules where the table (null:
 * none) has none. False: it was only a question. */
bool qn_tilings_take(const qn_tilings *tilings, uint64_t key, unsigned kinds, qn_tiling *tiling);

#endif
