/* The list of commands, and their shared reporting. */
#include "cli/commands.h"

#include "base/status.h"
#include "base/text.h"
#include "cli/terminal.h"

#include <stdio.h>
#include <string.h>

/* One row for each command, in the order of help. */
static const command *const commands[] = {
    &command_models,   &command_inspect,    &command_train,   &command_plan,    &command_profile,
#ifdef QN_WITH_STUDY
    &command_study,
#endif
    &command_evaluate, &command_show,       &command_fix,     &command_predict, &command_sample,
    &command_convert,  &command_pretrained, &command_merge,   &command_import,  &command_tokens,
    &command_export,   &command_meter,      &command_devices, &command_rules,   &command_numerics,
    &command_cache,
#ifdef QN_WITH_LEARN
    &command_learn,
#endif
#ifdef QN_WITH_FEDERATE
    &command_federate, &command_split,
#endif
#ifdef QN_WITH_LABEL
    &command_label,
#endif
    &command_help,     &command_version,
};

enum { N_COMMANDS = sizeof commands / sizeof commands[0] };

const command *command_at(int index) {
    return index < N_COMMANDS ? commands[index] : NULL;
}

const command *command_find(const char *name) {
    const char *names[N_COMMANDS];
    for (int i = 0; i < N_COMMANDS; i++) {
        names[i] = commands[i]->name;
        if (strcmp(names[i], name) == 0)
            return commands[i];
    }
    const char *nearest = qn_text_nearest(name, names, N_COMMANDS);
    if (nearest)
        qn_fail(QN_ERROR_ARGUMENT, "unknown command %s; did you mean %s?", name, nearest);
    else
        qn_fail(QN_ERROR_ARGUMENT, "unknown command %s; see quern help", name);
    return NULL;
}

int report_failed_run(void) {
    fflush(stdout);
    terminal_note("%s", qn_error_message());
    return EXIT_FAILED;
}

int report_failure(qn_status status) {
    report_failed_run();
    return status == QN_ERROR_ARGUMENT ? EXIT_USAGE : EXIT_FAILED;
}

const char *grouped(int64_t count, char *text) {
    char digits[24];
    const int n = snprintf(digits, sizeof digits, "%lld", (long long)count);
    char *to = text;
    for (int i = 0; i < n; i++) {
        if (i > 0 && (n - i) % 3 == 0 && digits[i - 1] != '-')
            *to++ = ',';
        *to++ = digits[i];
    }
    *to = 0;
    return text;
}
