/* Finds new classes in a stream by when their samples came and by which labelled samples are
 * missing. Features are divided into small cells, the time of the stream into periods. A class has
 * a share of its samples in each cell, the same at all times, and a number of samples in each
 * period; what the stream has in a cell and a period is the sum over classes (a mixture: Hofmann
 * 1999, "Probabilistic latent semantic indexing"). Labelled samples lie in cells as their classes'
 * samples do. A new class has an equal part of all samples from some period on, and none before:
 * one that lies among known classes is seen by cells that have more samples from then on than the
 * known ones explain. Classes are added while they make the whole much more likely. All is done in
 * pieces of a fixed order. */
#ifndef QN_LABEL_ARRIVALS_H
#define QN_LABEL_ARRIVALS_H

#include "quern/base.h"

#include <stdbool.h>
#include <stdint.h>

enum {
    QN_ARRIVALS_CELLS = 100,
    QN_ARRIVALS_PERIODS = 20,
    QN_ARRIVALS_FOUND = 10, /* new classes, at most */
    QN_ARRIVALS_LEAST = 25  /* samples of one */
};

/* Classes: n_known, then n found ones. */
typedef struct qn_mixture {
    int n, onset[QN_ARRIVALS_FOUND]; /* the first period of each */
    double fit;                      /* logarithm of the likelihood */
    float *part;                     /* (classes, QN_ARRIVALS_CELLS) */
    float *rate;                     /* (classes, QN_ARRIVALS_PERIODS) samples */
} qn_mixture;

typedef struct qn_arrival_candidate {
    float score;
    int onset, cell;
} qn_arrival_candidate;

enum { QN_ARRIVALS_CANDIDATES = 8 };

typedef struct qn_arrivals {
    const qn_allocator *allocator;
    int n_known, n_cells, n_periods;
    float *count;    /* (cells, periods) samples of the stream */
    float *labelled; /* (n_known, cells) */
    /* Classes that were found before, those with most samples first: their samples in cells and in
     * periods. */
    int n_before;
    float *before_cells;   /* (QN_ARRIVALS_FOUND, cells) */
    float *before_periods; /* (QN_ARRIVALS_FOUND, periods) */
    float *likeness;       /* (cells, cells) from 0 to 1 */
    float *room;           /* (cells, periods), and of the parts and rates of a mixture */
    float total[QN_ARRIVALS_PERIODS];
    qn_mixture now, trial, best;
    qn_arrival_candidate candidate[QN_ARRIVALS_CANDIDATES];
    int n_candidates, phase, at, left;
} qn_arrivals;

qn_status qn_arrivals_make(const qn_allocator *allocator, int n_known, qn_arrivals *arrivals);
void qn_arrivals_destroy(qn_arrivals *arrivals);
size_t qn_arrivals_bytes(const qn_arrivals *arrivals);

/* Periods for n samples of a stream. */
int qn_arrivals_periods(int n);

/* The first period, from 1 to `last`, of a class with `samples` (n_periods) of `all` (n_periods):
 * where two rates, the later more than `ratio` times the earlier, are most likely, by more than
 * gain_needed natural logarithms; 0: there is none. */
int qn_arrivals_onset(int n_periods, const float *samples, const float *all, int last,
                      double gain_needed, double ratio);

/* Begins. Cells have centres (n_cells, d), and counts, labelled and what was found
 * before were filled in by the caller. */
void qn_arrivals_begin(qn_arrivals *arrivals, const float *centre, int d);

/* A piece; whether more are left. Then `now` has what was found. */
bool qn_arrivals_go_on(qn_arrivals *arrivals);

/* The class, from 0, that a sample of a cell and a period has with most probability. */
int qn_arrivals_class(const qn_arrivals *arrivals, int cell, int period, float *probability);

/* Takes over numbers of samples of each class in each period, mass (n_known + now.n,
 * QN_ARRIVALS_PERIODS), that are known better by now. */
void qn_arrivals_set_rates(qn_arrivals *arrivals, const float *mass);

/* Samples of a class in a cell that are expected. */
float qn_arrivals_share(const qn_arrivals *arrivals, int class, int cell);

/* How much more often than over the whole stream a class comes in a period. */
float qn_arrivals_ratio(const qn_arrivals *arrivals, int class, int period);

#endif
