/* The figures of a study's page: those of the TX2 study (its figures 3 to 10), the drip training of
 * its twelfth observation, and training against inference, for this machine. */
#ifndef QN_STUDY_FIGURES_H
#define QN_STUDY_FIGURES_H

#include "report/document.h"
#include "study/study.h"

/* What all of them draw from. */
typedef struct qn_figures {
    qn_document *document;
    const qn_study *study;
    const qn_study_facts *facts;
    qn_arena *arena; /* of the numbers that are drawn */
    const qn_cell
        *representative[QN_DOMAIN_COUNT]; /* the cell whose three steps are shown, or null */
} qn_figures;

void qn_figures_choose(qn_figures *f);

/* Each adds headings, charts and words about what is missing; memory that runs out is
 * QN_ERROR_MEMORY. */
qn_status qn_figures_add_utilisation(const qn_figures *f);
qn_status qn_figures_add_power(const qn_figures *f);
qn_status qn_figures_add_batches(const qn_figures *f);
qn_status qn_figures_add_memory(const qn_figures *f);
qn_status qn_figures_add_drip(const qn_figures *f);
qn_status qn_figures_add_inference(const qn_figures *f);

#endif
