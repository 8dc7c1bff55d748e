/* Assumed power of a device's cores for devices without a sensor: from a description (JSON) or
 * built in.
 *
 *     {"package_w": 0.4, "rest_w": 2.0,
 *      "cores": [{"kind": "cpu", "idle_w": 0.05, "busy_w": 1.4, "at_hz": 2.4e9, "exponent": 2}]}
 *
 * A core needs idle_w + (busy_w - idle_w) * utilisation * (frequency / at_hz) ^ exponent; package_w
 * is the constant power of the rest of the processor, rest_w that of the rest of the device. */
#ifndef QN_METER_SOURCES_COEFFICIENTS_H
#define QN_METER_SOURCES_COEFFICIENTS_H

#include "meter/processor.h"

typedef struct qn_core_watts {
    double idle_w, busy_w;
    double at_hz; /* 0: at any frequency */
    double exponent;
} qn_core_watts;

typedef struct qn_coefficients {
    double package_w, rest_w;
    qn_core_watts kinds[QN_KINDS_MOST]; /* by the processor's */
} qn_coefficients;

/* Of a processor that nothing is known of: within a factor of two or so. */
void qn_coefficients_guess(const qn_processor *processor, qn_coefficients *coefficients);

/* Reads a description; each kind of core of the processor must be in it, or a kind "*". */
qn_status qn_coefficients_read(const qn_allocator *allocator, const char *path,
                               const qn_processor *processor, qn_coefficients *coefficients);

/* Watts of a core of a kind; hz 0: unknown, taken as at_hz. */
double qn_core_power(const qn_core_watts *watts, double utilisation, double hz);

#endif
