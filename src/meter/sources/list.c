/* The list of sources, one line for each file. */
#include "meter/sources/sources.h"

/* clang-format off */
const qn_source_kind *const qn_source_kinds[] = {
    &qn_source_cores,
    &qn_source_threads,
    &qn_source_resident,
    &qn_source_peak,
    &qn_source_frequency,
    &qn_source_gpu_load,
    &qn_source_thermal,
    &qn_source_replay,
    &qn_source_ina3221,
    &qn_source_rapl,
    &qn_source_hwmon,
    &qn_source_battery,
    &qn_source_nvml,
    &qn_source_model,
    NULL,
};
