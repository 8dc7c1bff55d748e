/* Runs a call on the calling thread, with or without recording, for every lane of the host. */
#ifndef QN_DEVICE_RUN_CALL_H
#define QN_DEVICE_RUN_CALL_H

#include "device/device.h"

/* Runs a call and puts a record of it, of label->kind, into the ring of label->thread; what further
 * threads of its team do of it goes by the same label. item: step of the plan. */
void qn_run_recorded(void (*run)(const qn_call *call), const qn_call *call, int32_t item,
                     qn_events *events, const qn_event *label);

#endif
