/* A training run as its options describe it: opening it, and its messages. */
#ifndef QN_CLI_TRAIN_TRAINING_H
#define QN_CLI_TRAIN_TRAINING_H

#include "cli/files/pretrained_files.h"
#include "cli/session.h"
#include "cli/settings.h"
#include "cli/train/best.h"
#include "cli/train/progress.h"
#include "cli/train/run_folder.h"
#include "format/plan_file.h"
#include "meter/power_ceiling.h"
#include "os/frequency.h"
#include "plan/schedule/cores.h"

/* Options of all commands that train, but for data, epochs and steps, which every such command has
 * too, with its own defaults. */
extern const option_list training_options;

/* --plan, of commands that can train by a saved plan. */
extern const option_list by_plan_options;

typedef struct training {
    const arguments *a;
    session s;
    settings settings;
    int n_cores;         /* that were chosen by hand; 0: none were */
    qn_cores core_facts; /* with --cores auto */
    qn_frequency *clock; /* that --prefer or --power set; null: none */
    double clock_level;
    qn_power_ceiling *ceiling; /* of --power, where there is a sensor; or null */
    qn_plan_file plan;         /* to train by; model null: none */
    const char *save;          /* or null */
    const char *save_best;     /* or null */
    run_folder folder;         /* of a run without --save */
    bool has_starts;           /* starts was opened (start.h) */
    pretrained_list starts;
    const pretrained_file *start; /* among them, that the run begins with; null: none */
    int64_t first_step, total_steps;
    qn_training *run; /* of quern train, and its state before and after it ran */
    qn_training_state state;
    progress progress;
} training;

/* t: zeroed; half a megabyte. */
void training_init(training *t, const arguments *a);
void training_deinit(training *t);

/* Finds the model, reads the checkpoint that is resumed, and resolves the settings, which can be
 * changed before training_open opens the task. A failure of QN_ERROR_ARGUMENT is wrong usage. */
qn_status training_begin(training *t);
qn_status training_open(training *t);

/* In between: measures the operations of this training, for the plans of what is opened then. */
qn_status training_measure(training *t);

/* After a step: holds a ceiling of power by the sensor's watts. */
void training_hold_power(training *t);

/* Progress of the run from its beginning, as training_open leaves it. */
void training_prepare_progress(training *t);

/* Parameters that are trained. */
int64_t training_count_parameters(const training *t);

/* Model, data and settings, before the first step. */
void training_print_opening(const training *t);

/* What the data are, in a few lines or an object: classes, what knowing nothing would give,
 * warnings. Nothing where looking would take long. */
qn_status training_print_look(const training *t);

/* Where products were to be tuned: what came of it, a line or an object. */
void training_print_tuning(const training *t);

/* With --cores auto: the schedule, before the first step; when it is done, which was faster. */
void training_print_cores(const training *t, bool is_done);

/* Under a budget: what was planned, before the first step, a line or an object. */
void training_print_plan(const training *t);

/* Results: JSON lines with --json, else a line for people. */
void training_print_done(training *t);

/* The command line that goes on from a checkpoint. */
void training_print_resume_command(const training *t, const char *checkpoint);

#endif
