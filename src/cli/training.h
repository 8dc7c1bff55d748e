/* A run of quern train, and what is said about it. */
#ifndef QN_CLI_TRAINING_H
#define QN_CLI_TRAINING_H

#include "cli/progress.h"
#include "cli/session.h"
#include "cli/settings.h"

/* saved_step: of the last checkpoint that this run wrote, or of the one resumed; -1: none. */
typedef struct training {
    const arguments *a;
    session s;
    settings settings;
    const char *save; /* or null */
    int64_t first_step, total_steps, saved_step;
    progress progress;
} training;

/* Model, data and settings, before the first step. */
void training_print_opening(const training *t);

/* Results: JSON lines with --json, else a line for people. */
void training_print_done(training *t);

/* The command line that goes on from what was saved. */
void training_print_resume_command(const training *t);

#endif
