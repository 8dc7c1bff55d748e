/* Shared parts of the actions of quern label. */
#ifndef QN_CLI_LABEL_LABEL_H
#define QN_CLI_LABEL_LABEL_H

#include "cli/options.h"
#include "quern/label.h"

/* The actions with a file of their own; each returns the exit status. */
int label_stream(const arguments *a, qn_labeller *labeller);
int label_show(const arguments *a, const qn_labeller *labeller);
int label_ask(const arguments *a, const qn_labeller *labeller);
int label_bench(const arguments *a);

#endif
