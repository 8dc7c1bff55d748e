/* The settings with which the cells of a folder were measured. */
#ifndef QN_STUDY_SETTINGS_H
#define QN_STUDY_SETTINGS_H

#include "study/study.h"

/* Writes the study's settings to path, or, where it is there, fails with QN_ERROR_ARGUMENT if they
 * are others: numbers of different settings do not belong in one report. */
qn_status qn_study_settings_hold(const qn_study *study, const char *path);

#endif
