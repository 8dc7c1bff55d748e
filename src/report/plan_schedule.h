/* The part of a plan's page that has a schedule over the cores: lanes over time as predicted and as
 * rehearsed, and a table of operations. */
#ifndef QN_REPORT_PLAN_SCHEDULE_H
#define QN_REPORT_PLAN_SCHEDULE_H

#include "report/document.h"
#include "report/plan_report.h"

void qn_plan_page_schedule(qn_document *document, const qn_report_schedule *schedule);

#endif
