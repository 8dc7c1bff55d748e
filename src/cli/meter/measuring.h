/* Shared by the commands that measure: where samples come from, and the reports to write. */
#ifndef QN_CLI_METER_MEASURING_H
#define QN_CLI_METER_MEASURING_H

#include "cli/options.h"
#include "meter/results/measurement.h"
#include "quern/meter.h"

#include <stdio.h>

/* interval, sysroot, power, description. */
extern const option_list measuring_options;

/* html, trace, csv, metrics. */
extern const option_list report_options;

/* Fills in what measuring_options say. A failure is wrong usage. */
qn_status measuring_read(const arguments *a, qn_meter_options *options);

/* Writes the reports that report_options ask for, each whole or not at all. What fails is told, and
 * the others are still written; lines (may be null) gets where they are. Returns whether all were.
 */
bool measuring_write(const arguments *a, const qn_measurement *m, const char *title, FILE *lines);

#endif
