/* What a command writes, held against what it reads before anything of it is opened: no output
 * replaces an input or another output, whatever name it has, and none a file that quern did not
 * write, unless --force says so. And what is new is readable by nobody who may not read the inputs.
 * Which options are which is a matter of the options' table: inputs
 * are words and options of kinds that are read, outputs the options with kinds of files that they
 * make. */
#ifndef QN_CLI_OUTPUTS_OUTPUTS_H
#define QN_CLI_OUTPUTS_OUTPUTS_H

#include "cli/options.h"

/* All that the command line names. The arguments must last as long as the command. */
qn_status outputs_check(const arguments *arguments);

/* The same for what the command line does not name, but a checkpoint does: a file, or a data set.
 * what is for messages: "the data of w.safetensors". */
qn_status outputs_check_input(const char *what, const char *value);

#endif
