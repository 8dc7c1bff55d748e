/* See run_call.h. */
#include "device/run_call.h"

#include "os/os.h"
#include "os/team.h"

void qn_run_recorded(void (*run)(const qn_call *call), const qn_call *call, int32_t item,
                     qn_events *events, const qn_event *label) {
    qn_event event = *label;
    event.item = item;
    if (call->team)
        qn_team_label(call->team, &event);
    event.begin_ns = qn_clock_ns();
    run(call);
    event.end_ns = qn_clock_ns();
    qn_events_put(events, event.thread, &event);
}
