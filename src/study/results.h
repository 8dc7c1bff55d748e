/* The results of a study as files for programs. */
#ifndef QN_STUDY_RESULTS_H
#define QN_STUDY_RESULTS_H

#include "study/study.h"

/* Each is written whole or not at all. */
qn_status qn_study_write_csv(const qn_study *study, const qn_study_facts *facts, const char *path);
qn_status qn_study_write_json(const qn_study *study, const qn_study_facts *facts,
                              const qn_finding findings[QN_OBSERVATIONS], const char *path);

/* The page to look at. */
qn_status qn_study_write_page(const qn_study *study, const qn_study_facts *facts,
                              const qn_finding findings[QN_OBSERVATIONS], const char *path);

#endif
