/* quern plan --buffers: the packer alone, from one CSV file to another. */
#ifndef QN_CLI_PLAN_BUFFERS_H
#define QN_CLI_PLAN_BUFFERS_H

#include "cli/commands.h"

/* Its options but --json: --buffers, --capacity, --seconds, --out. */
extern const option_list plan_buffers_options;

enum { EXIT_DOES_NOT_FIT = 3 };

/* Packs the file of --buffers. Returns the exit status: done, where everything lies within the
 * capacity or none was given; does not fit; or a failure's, which has been reported. */
int plan_buffers(const arguments *a);

#endif
