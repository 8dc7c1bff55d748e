/* What a work waits for; see device.h. */
#include "device/device.h"

bool qn_work_is_ready(const qn_work *work) {
    for (int32_t i = 0; i < work->n_waits; i++) {
        if (qn_timeline_value(work->waits[i].timeline) < work->waits[i].value)
            return false;
    }
    return true;
}

bool qn_work_wait(const qn_work *work) {
    for (int32_t i = 0; i < work->n_waits; i++) {
        if (!qn_timeline_wait(work->waits[i].timeline, work->waits[i].value))
            return false;
    }
    return true;
}
