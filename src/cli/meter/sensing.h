/* A device's sensors and their values: every kind of source opened, its channels read for a moment.
 */
#ifndef QN_CLI_METER_SENSING_H
#define QN_CLI_METER_SENSING_H

#include "base/memory.h"
#include "meter/sources/source.h"

/* A kind of source; source is null where it found nothing. */
typedef struct sensed {
    const qn_source_kind *kind;
    void *source;
    int n;
    const qn_channel *channels; /* (n) */
    double *values;             /* (n) last said; NaN: nothing */
    qn_reading *readings;       /* (n) */
} sensed;

/* What a source said. */
typedef struct remark {
    const char *source, *text;
} remark;

typedef struct sensing {
    qn_arena arena;
    int n, n_remarks;
    sensed *kinds;    /* (n) */
    remark *remarks;  /* (n_remarks) */
    qn_status status; /* of what a source said: memory may run out */
} sensing;

/* Opens the sensors of a device (root "": this one) and reads them, for as long as the slowest
 * needs to say something, a second and a half at most. */
qn_status sensing_begin(sensing *s, const char *root);
void sensing_end(sensing *s);

#endif
