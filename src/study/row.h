/* A cell's figures as observations, tables and charts use them: one row for each trained cell. A
 * value that was not measured is NaN. */
#ifndef QN_STUDY_ROW_H
#define QN_STUDY_ROW_H

#include "study/cell.h"

/* What a model works on; the study's observations tell vision from LSTMs. */
typedef enum qn_domain {
    QN_DOMAIN_VISION,
    QN_DOMAIN_LSTM, /* language and translation by recurrent networks */
    QN_DOMAIN_LANGUAGE,
    QN_DOMAIN_GENERATION,
    QN_DOMAIN_CONTROL,
    QN_DOMAIN_COUNT
} qn_domain;

const char *qn_domain_name(qn_domain domain);
qn_domain qn_domain_of(const qn_model *model);

enum { QN_STUDY_KINDS = 8 }; /* of cores, at most */

/* The cores of the machine, as far as the observations ask. */
typedef struct qn_study_cores {
    int n_kinds; /* 0: unknown */
    const char *names[QN_STUDY_KINDS];
    int n_cores;
    const int *kind; /* (n_cores); -1: offline */
} qn_study_cores;

typedef struct qn_study_row {
    const char *model;
    qn_domain domain;
    int64_t batch;
    double step_ms, throughput;       /* samples per second: batch / mean time of a step */
    double step_ms_low, step_ms_high; /* how far step_ms can be relied on; see qn_measurement */
    double others;                    /* part of the cores that other programs used, 0 to 1 */
    double cpu, gpu;                  /* utilisation, 0 to 1 */
    double process;                   /* of the cores by the process that trains, 0 to 1 */
    double correlation;               /* of GPU and CPU utilisation over time, -1 to 1 */
    double use_periodicity; /* of utilisation, with one step as period; NaN: steps are too short to
                               be seen by the sampler, or nothing was sampled */
    double power_periodicity;
    bool power_is_estimated;
    double energy_mj; /* of a step */
    double part_j[QN_PART_COUNT];
    double memory[7]; /* bytes by qn_kind, as planned */
    double planned_bytes, resident_bytes;
    double kind_use[QN_STUDY_KINDS], kind_idle[QN_STUDY_KINDS]; /* by kind of core: mean */
    double inference_ms; /* of a batch of this size, forward only */
    double meter_bytes;
} qn_study_row;

/* Samples of a second, a sample being one of the batch, whatever a task counts: also a text. */
double qn_cell_throughput(const qn_cell *cell);

/* The row of a cell that is done. inference: the cell with the same model and batch, or null. */
void qn_study_row_fill(const qn_cell *cell, const qn_cell *inference, const qn_study_cores *cores,
                       qn_study_row *row);

/* Pearson's coefficient of the readings of two channels at the times of the first's; NaN with fewer
 * than eight that overlap, and where one of them never changes. */
double qn_correlation(const qn_series *a, const qn_series *b);

#endif
