/* The meter's internals: its measurement, for the reports of later floors. */
#ifndef QN_METER_METER_H
#define QN_METER_METER_H

#include "meter/recording.h"
#include "quern/meter.h"

/* Works out what was measured (once; after stop). The meter holds it. */
qn_status qn_meter_measure(qn_meter *meter, const qn_measurement **measurement);
const char *qn_meter_title(const qn_meter *meter);

#endif
