/* See speed.h. */
#include "device/speed.h"

#include "base/status.h"
#include "os/os.h"

/* A call wakes a team. Memory is shared by all threads. */
static const double typical_bytes_per_ns = 10, call_ns = 2000;

/* About two thirds of what multiply-adds in registers reach in a thread. */
static double typical_flops_per_ns(void) {
    qn_isa isa;
    if (qn_cpu_isa(&isa) != QN_OK)
        return 12;
    switch (isa) {
    case QN_ISA_AVX512:
        return 90;
    case QN_ISA_AVX2:
        return 50;
    case QN_ISA_NEON:
        return 12;
    default:
        return 3;
    }
}

qn_speed qn_speed_typical(int n_threads) {
    return (qn_speed){.flops_per_ns = typical_flops_per_ns() * (n_threads > 1 ? n_threads : 1),
                      .bytes_per_ns = typical_bytes_per_ns};
}

double qn_speed_ns(const qn_speed *speed, const qn_cost *cost) {
    const double flops = speed->flops_per_ns > 0 ? speed->flops_per_ns : typical_flops_per_ns();
    const double rate = speed->bytes_per_ns > 0 ? speed->bytes_per_ns : typical_bytes_per_ns;
    const double arithmetic_ns = (double)cost->flops / flops;
    const double memory_ns = (double)cost->bytes / rate;
    return (arithmetic_ns > memory_ns ? arithmetic_ns : memory_ns) + call_ns;
}
