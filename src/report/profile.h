/* Reports of a measurement, for quern profile and quern meter. Each file is written completely or
 * not at all. A value that was not measured is empty (CSV), null (JSON), left out (trace), or a
 * dash (HTML); estimates are marked in all of them. */
#ifndef QN_REPORT_PROFILE_H
#define QN_REPORT_PROFILE_H

#include "meter/results/measurement.h"
#include "report/document.h"

/* The columns of the operations' table are those of qn_operation_row by node: type, name, device,
 * calls, total_ms, share, mean_us, p50_us, p95_us, flops, bytes, gflops, bound, energy_mj, mean_w,
 * estimated. */
qn_status qn_report_csv(const qn_measurement *m, const char *path);
qn_status qn_report_trace(const qn_measurement *m, const char *title, const char *path);
/* Of single readings it holds those of the first steps (report/stretch.h). */
qn_status qn_report_json(const qn_measurement *m, const char *title, const char *path);
qn_status qn_report_html(const qn_allocator *allocator, const qn_measurement *m, const char *title,
                         const char *path);

/* Its sections, for documents that hold more. */
void qn_report_add_profile(qn_document *document, const qn_measurement *m);

/* The run for a terminal of so many columns, 59 to 80 of which are used; a line at a time. */
void qn_report_summary(const qn_measurement *m, const char *title, int columns, void *user,
                       void (*put)(void *user, const char *line));

#endif
