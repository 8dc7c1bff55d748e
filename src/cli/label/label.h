/* Shared parts of the actions of quern label. */
#ifndef QN_CLI_LABEL_LABEL_H
#define QN_CLI_LABEL_LABEL_H

#include "cli/options.h"
#include "quern/data.h"
#include "quern/label.h"

/* The labelled samples in memory. */
typedef struct label_samples {
    float *x;       /* (n, n_features) */
    int32_t *label; /* (n) */
    int64_t n;
    int n_features;
} label_samples;

/* Reads all samples of a data set of rows; what it holds is released by deinit, also on failure. */
qn_status label_samples_read(const qn_data_source *source, label_samples *set);
void label_samples_deinit(label_samples *set);

/* The actions with a file of their own; each returns the exit status. */
int label_stream(const arguments *a, qn_labeller *labeller);
int label_show(const arguments *a, const qn_labeller *labeller);
int label_ask(const arguments *a, const qn_labeller *labeller);
int label_bench(const arguments *a);

#endif
