/* The phone that the emulated DSP is said to be part of. Nothing of it is measured here: where its
 * figures come from, and what they leave out, is in docs/dsp.md. A packet takes a nanosecond; the
 * CPU has four cores with dot products of int8; watts are those above an idle phone. */
#include "driver/hexagon/hexagon.h"

enum { CORES = 4 };

static const double flops_per_core_ns = 12; /* as of other ARM processors (device/speed.h) */
static const double byte_products = 4;      /* in the place of one of floats */
static const double bytes_per_ns = 10, call_ns = 2000, message_ns = 6000;

static double cpu_ns(const qn_query *query, const qn_cost *cost) {
    const bool is_bytes = query->n_inputs > 0 && query->inputs[0].dtype == QN_I8;
    const double speed = CORES * flops_per_core_ns * (is_bytes ? byte_products : 1);
    const double arithmetic_ns = (double)cost->flops / speed;
    const double memory_ns = (double)cost->bytes / bytes_per_ns;
    return (arithmetic_ns > memory_ns ? arithmetic_ns : memory_ns) + call_ns;
}

double qn_hexagon_copy_ns(size_t bytes) {
    return message_ns + (double)bytes / bytes_per_ns;
}

/* Published: 5.5 times less time and 8.9 times less energy with the DSP than with four cores. */
const qn_device_model qn_hexagon_model = {
    .counted = "packets",
    .counts_per_ns = 1,
    .cpu_watts = CORES * 1.3,
    .device_watts = CORES * 1.3 * 5.5 / 8.9,
    .cpu_ns = cpu_ns,
};
