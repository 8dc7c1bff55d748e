/* What quern show and quern fix have in common: a checkpoint, what it makes of every sample of its
 * data, and what that says of the data. */
#ifndef QN_CLI_LOOK_LOOKED_H
#define QN_CLI_LOOK_LOOKED_H

#include "cli/look/reading.h"
#include "cli/session.h"
#include "data/source.h"
#include "tasks/features/findings.h"

typedef struct looked {
    qn_arena texts;
    const char *path; /* of the checkpoint */
    session s;
    const qn_data_source *source; /* the task's */
    qn_sample_looks looks;
    qn_findings f;
} looked;

/* Of the first word and the options data and threads. What fails leaves it to close. */
qn_status looked_open(const arguments *a, looked *l);
void looked_close(looked *l);

enum { LOOKED_NAME = 4096 + 64 };

/* The file of a sample, or what it is: "row 17"; in text. */
const char *looked_name(const looked *l, const qn_sample_finding *sample, char text[LOOKED_NAME]);

/* The name of a class, or its number, in text. */
const char *looked_class(const looked *l, int class, char text[24]);

extern const option_list looked_options;

#endif
