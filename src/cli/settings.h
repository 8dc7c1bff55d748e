/* The settings of a training run, each from the first source that has it: the command line, the
 * resumed checkpoint, the model's recipe. A command line that contradicts the checkpoint is
 * rejected unless it contains --override. Stored in checkpoints under the options' names. */
#ifndef QN_CLI_SETTINGS_H
#define QN_CLI_SETTINGS_H

#include "cli/options.h"
#include "quern/task.h"

/* Values by row of the command's table, in their one form; null where there is none. */
typedef struct settings {
    const command *command;
    const char *values[MAX_OPTIONS];
    qn_arena texts;
    bool is_new_optimizer; /* another one than the checkpoint's: its state cannot be used */
} settings;

/* What a model's recipe says for an option; false where it says nothing. */
bool recipe_value(const qn_model *model, const char *name, char *text, size_t bytes);

/* checkpoint null: a new run. A failure of QN_ERROR_ARGUMENT is wrong usage. */
qn_status settings_resolve(const arguments *a, const qn_model *model, const qn_metadata *checkpoint,
                           settings *s);
void settings_deinit(settings *s);

const char *settings_get(const settings *s, const char *name); /* or null */
bool settings_flag(const settings *s, const char *name);
int64_t settings_count(const settings *s, const char *name); /* 0 where there is none */
double settings_number(const settings *s, const char *name); /* 0 where there is none */

/* Gives an option of the command another value. */
qn_status settings_set(settings *s, const char *name, const char *value);

/* Keeps them in metadata. */
qn_status settings_store(const settings *s, qn_metadata *metadata);

#endif
