/* --cores by hand: which cores of the machine a run keeps to; --prefer and --power for all. */
#ifndef QN_CLI_TRAIN_CORE_CHOICE_H
#define QN_CLI_TRAIN_CORE_CHOICE_H

#include "cli/settings.h"
#include "quern/engine.h"

/* The row of --power: of train and of plan, but not of profile, which has another one. */
#define CORE_CHOICE_POWER                                                                          \
    {                                                                                              \
        .name = "power", .kind = OPTION_NUMBER, .argument = "WATTS", .least = 0.001, .most = 1e6,  \
        .otherwise = "no limit",                                                                   \
        .help = "ceiling of power, by the watts given or a model: uses fewer cores"                \
    }

/* Whether a value is neither "all" nor "auto". */
bool core_choice_is_by_hand(const char *value);

/* Whether --cores auto was given. */
bool core_choice_is_auto(const arguments *a);

/* What --cores asks an engine for: where neither it nor --threads is given, to look for a schedule
 * once a run is long. */
qn_cores_choice core_choice_of(const arguments *a);

/* Keeps this process, and all threads that it starts from now on, to the cores of a value: "big"
 * (all kinds but the weakest), "little" (the weakest kind), a number N (the N strongest), or
 * numbers as the kernel counts ("0-3", "0,2-3"). *n: how many. QN_ERROR_ARGUMENT: there are none
 * such. */
qn_status core_choice_keep(const char *value, int *n);

/* The watts of --cpu-watts and --idle-watts; else those that a sensor shows, idle and at work; else
 * those that are typical of the cores that this process may run on. */
qn_status core_choice_watts(const settings *s, qn_core_wish *wish);

/* What --prefer and --power ask for, with those watts. All 0 where nothing needs watts. */
qn_status core_choice_wish(const arguments *a, const settings *s, qn_core_wish *wish);

#endif
