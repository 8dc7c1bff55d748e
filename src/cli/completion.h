/* Completion of the command line in shells, from the tables of commands and options. */
#ifndef QN_CLI_COMPLETION_H
#define QN_CLI_COMPLETION_H

#include "cli/commands.h"

/* Prints the script of a shell: bash, zsh or fish. */
void completion_print(const char *shell);

#endif
