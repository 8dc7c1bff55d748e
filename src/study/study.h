/* A study: the characterisation of training on this machine, as cells that each run in a process of
 * their own and write a file in FOLDER/cells, completely or not at all. So a cell has its own
 * memory, a cell that dies becomes a row with the reason, and a study that was interrupted in any
 * way continues where it was. After every cell the results are written again:
 *     FOLDER/study.csv     a row for each cell
 *     FOLDER/study.json    the same, and the findings
 *     FOLDER/report.html   figures, tables, findings: a page for reading
 *     FOLDER/settings.json the settings of the cells; other settings are rejected
 * Results cover all cells of the folder, whichever run measured them. */
#ifndef QN_STUDY_STUDY_H
#define QN_STUDY_STUDY_H

#include "study/observations.h"

typedef struct qn_study qn_study;

/* A setting on which the numbers of cells depend. */
typedef struct qn_study_setting {
    const char *name, *value; /* value null: not set */
} qn_study_setting;

enum { QN_STUDY_ARGUMENTS = 40 };

/* Fills the command line of a cell's process, (QN_STUDY_ARGUMENTS) with a null at its end; texts
 * are its memory. The process is to write its file to path. */
typedef qn_status (*qn_study_command)(void *user, const qn_cell *cell, int64_t steps,
                                      const char *path, qn_arena *texts, const char **arguments);

typedef struct qn_study_options {
    const qn_allocator *allocator;
    const char *folder;
    int n_models, n_batches;
    const qn_model *const *models; /* (n_models) */
    const int64_t *batches;        /* (n_batches), rising */
    const qn_model *drip_model;    /* null: no drip training */
    int n_drip_batches;
    const int64_t *drip_batches; /* (n_drip_batches) */
    double drip_flops;           /* of one of them, for the time left */
    int64_t steps;               /* measured in a cell, at least */
    double least_s;              /* that the measured steps of a cell shall take, at least */
    int n_threads;               /* 0: the processors available */
    double memory_limit;         /* bytes that a cell may take; 0: what is free when it begins */
    bool retries;                /* runs cells again that have failed */
    const char *sysroot;         /* of a recorded tree, or null */
    const qn_study_setting *settings; /* (n_settings) */
    int n_settings;
    void *user;
    qn_study_command command;
    bool (*should_stop)(void *user);
    /* A cell begins (WAITING), or has come to its end. */
    void (*tell)(void *user, const qn_study *study, const qn_cell *cell);
    void (*warn)(void *user, const char *text);
} qn_study_options;

/* Makes the folder and its settings, or compares them with those that are there, and reads the
 * cells that are. A cell's file that cannot be read counts as missing; warn hears of it. */
qn_status qn_study_open(const qn_study_options *options, qn_study **study);
void qn_study_close(qn_study *study);

/* Runs what is missing, and writes the results after each cell. QN_ERROR_INTERRUPTED where
 * should_stop said so; the results are then those so far. */
qn_status qn_study_run(qn_study *study);

/* Writes CSV, JSON and page, each whole or not at all. */
qn_status qn_study_write(const qn_study *study);

/* ---- looking in ---- */
int qn_study_count(const qn_study *study);
const qn_cell *qn_study_cell(const qn_study *study, int index);
int qn_study_count_in(const qn_study *study, qn_cell_state state);
const qn_study_options *qn_study_get_options(const qn_study *study);

/* From what cells took so far; NaN where nothing is known. */
double qn_study_seconds_left(const qn_study *study);

/* Rows and facts of all cells that are done, in the arena. */
qn_status qn_study_facts_make(const qn_study *study, qn_arena *arena, qn_study_facts *facts);

/* What the machine calls itself: "Intel(R) Xeon(R) ..., 2 cores". */
const char *qn_study_machine(const qn_study *study);
int qn_study_threads(const qn_study *study); /* of a cell */

#endif
