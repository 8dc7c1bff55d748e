/* Every kind of source, one in each file (memory.c has two). */
#ifndef QN_METER_SOURCES_SOURCES_H
#define QN_METER_SOURCES_SOURCES_H

#include "meter/sources/source.h"

extern const qn_source_kind qn_source_cores;
extern const qn_source_kind qn_source_threads;
extern const qn_source_kind qn_source_frequency;
extern const qn_source_kind qn_source_gpu_load;
extern const qn_source_kind qn_source_thermal;
extern const qn_source_kind qn_source_resident;
extern const qn_source_kind qn_source_peak;
extern const qn_source_kind qn_source_replay;
extern const qn_source_kind qn_source_ina3221;
extern const qn_source_kind qn_source_rapl;
extern const qn_source_kind qn_source_hwmon;
extern const qn_source_kind qn_source_battery;
extern const qn_source_kind qn_source_nvml;
extern const qn_source_kind qn_source_model;

#endif
