/* quern: the command line. Finds the command, parses its options, runs it. */
#include "cli/commands.h"
#include "cli/outputs/outputs.h"
#include "os/os.h"
#include "os/process/interrupt.h"

#include <stdio.h>
#include <string.h>

/* Output that could not be written is a failure, whatever the command did. */
static int finish(int status) {
    if (status == EXIT_FAILED && qn_was_ctrl_c())
        status = EXIT_CTRL_C; /* as a shell says of a program that the signal ended */
    if (fflush(stdout) == 0 && !ferror(stdout))
        return status;
    fputs("quern: cannot write to standard output\n", stderr);
    return status == EXIT_DONE ? EXIT_FAILED : status;
}

static int run_command(const command *c, int n, char **texts) {
    arguments a;
    int status = EXIT_DONE;
    if (c->makes_files)
        qn_broken_pipe_ignore();
    qn_status parsed = arguments_parse(c, n, texts, &a);
    if (parsed == QN_OK && !a.wants_help)
        parsed = outputs_check(&a);
    if (parsed != QN_OK)
        status = report_failure(parsed);
    else if (a.wants_help)
        help_print_command(c, a.n_words > 0 ? a.words[0] : NULL);
    else
        status = c->run(&a);
    arguments_deinit(&a);
    return finish(status);
}

int main(int n, char **texts) {
    const char *name = n > 1 ? texts[1] : "help";
    qn_process_begin();
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0)
        name = "help";
    if (strcmp(name, "--version") == 0)
        name = "version";
    const command *c = command_find(name);
    if (!c)
        return report_failure(QN_ERROR_ARGUMENT);
    return run_command(c, n > 2 ? n - 2 : 0, texts + 2);
}
