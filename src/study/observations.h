/* The twelve observations of the TX2 study (Liu et al. 2019, arXiv 1906.04278), tested on this
 * machine's measurements. The rules are functions of the figures alone; docs/study.md describes
 * them, with the thresholds at the top of observations.c. */
#ifndef QN_STUDY_OBSERVATIONS_H
#define QN_STUDY_OBSERVATIONS_H

#include "study/row.h"

enum { QN_OBSERVATIONS = 12 };

typedef enum qn_verdict {
    QN_VERDICT_CONFIRMED,
    QN_VERDICT_NOT_CONFIRMED,
    QN_VERDICT_UNCERTAIN, /* the numbers are not sure enough: other programs were at work, or steps
                             took now longer, now shorter */
    QN_VERDICT_UNKNOWN,   /* it cannot be judged here; the numbers say why */
} qn_verdict;

const char *qn_verdict_text(qn_verdict verdict);

/* What the rules look at. */
typedef struct qn_study_facts {
    int n_rows;
    const qn_study_row *rows; /* (n_rows) */
    int n_drips;
    const qn_drip *const *drips; /* (n_drips) */
    int n_left_out;              /* cells that would not fit in memory */
    double memory_limit;         /* bytes they had to fit in */
    qn_study_cores cores;
} qn_study_facts;

typedef struct qn_finding {
    int number;         /* 1 to 12 */
    const char *title;  /* a few words */
    const char *claim;  /* what the study says */
    const char *theirs; /* its numbers, on a Jetson TX2 */
    qn_verdict verdict;
    bool is_estimated; /* rests on power that no sensor has measured */
    char here[400];    /* the numbers that the verdict rests on, or why there is none */
} qn_finding;

void qn_observations_judge(const qn_study_facts *facts, qn_finding findings[QN_OBSERVATIONS]);

#endif
