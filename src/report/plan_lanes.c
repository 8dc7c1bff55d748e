/* See plan_report.h: lanes and memory spaces of plans. */
#include "report/plan_report.h"

int qn_report_lane_count(const qn_report_program *program) {
    return program->plan->lanes ? program->plan->lanes->n_lanes : 1;
}

int qn_report_space_count(const qn_report_program *program) {
    return program->plan->lanes ? 1 + program->plan->lanes->n_further : 1;
}

const char *qn_report_space_name(const qn_plan_report *report, int space) {
    return report->machine->spaces[space].space->name;
}

qn_report_lane qn_report_lane_at(const qn_plan_report *report, const qn_report_program *program,
                                 int lane) {
    const qn_plan *plan = program->plan;
    const qn_lane at = qn_plan_lane(plan, lane);
    qn_report_lane found = {.device = report->machine->devices[at.device].device->name,
                            .space = qn_report_space_name(report, at.space),
                            .n_threads = lane == 0 ? plan->n_threads : at.n_threads};
    for (int32_t s = 0; s < plan->n_steps; s++) {
        int32_t n;
        if (plan->steps[s].lane != lane)
            continue;
        (void)qn_plan_waits(plan, s, &n);
        found.n_steps++;
        found.n_waits += n;
    }
    return found;
}
