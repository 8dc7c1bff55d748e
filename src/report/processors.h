/* What each processor did in the measured steps, where operations run on more than the CPU: times
 * and copies by the operations' rows, energy by the watts that the user gave. */
#ifndef QN_REPORT_PROCESSORS_H
#define QN_REPORT_PROCESSORS_H

#include "report/sections.h"

enum { QN_REPORT_PROCESSORS = 4 };

typedef struct qn_processor_use {
    const char *device;                            /* "cpu", "opencl", "disk" */
    int n_operations;                              /* of the plans, that were run */
    double operations_ms, copies_ms, copied_bytes; /* a step */
    double energy_mj; /* a step: of given watts while it works; NaN: none were given */
} qn_processor_use;

/* Fills uses (QN_REPORT_PROCESSORS), the CPU first; how many. */
int qn_report_processors(const qn_measurement *m, qn_processor_use *uses);

/* Whether a row is of a copy between memories. */
bool qn_report_is_copy(const qn_operation_row *row);

/* The row of an operation's event; null: there is none. */
const qn_operation_row *qn_report_row_of(const qn_measurement *m, const qn_event *event);

/* A table, and a chart of the first steps with a track for each processor and its copies; nothing
 * where there is the CPU alone. */
void qn_sections_add_processors(qn_sections *s);

#endif
