/* The list of commands, their help and manual page, and how they report. */
#ifndef QN_CLI_COMMANDS_H
#define QN_CLI_COMMANDS_H

#include "cli/options.h"

enum { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_CTRL_C = 130 };

/* The command at an index; null beyond the last. */
const command *command_at(int index);

/* The command of a name, or null (the message names the nearest). */
const command *command_find(const char *name);

/* Help of one command; model_name adds that model's recipe, may be null. */
void help_print_command(const command *command, const char *model_name);

/* Prints "quern: " and this thread's message to standard error. Returns the exit status: wrong
 * usage for a bad argument, else failed. */
int report_failure(qn_status status);

/* The same for what happened while running: always failed. */
int report_failed_run(void);

/* "12,345,678" in text, which holds at least 32 bytes. Returns text. */
const char *grouped(int64_t count, char *text);

extern const command command_help, command_models, command_train, command_plan, command_profile,
    command_study, command_inspect, command_evaluate, command_show, command_fix, command_predict,
    command_sample, command_convert, command_pretrained, command_merge, command_import,
    command_tokens, command_export, command_meter, command_devices, command_cache, command_rules,
    command_numerics, command_label, command_learn, command_federate, command_split,
    command_version;

#endif
