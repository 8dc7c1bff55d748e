/* See cores.h. */
#include "plan/schedule/cores.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

qn_cores qn_cores_typical(int n) {
    const qn_speed one = qn_speed_typical(1);
    n = n < 1 ? 1 : n > QN_MAX_CORES ? QN_MAX_CORES : n;
    return (qn_cores){
        .n_kinds = 1,
        .n = n,
        .kinds = {{.name = "core",
                   .n = n,
                   .flops_per_ns = one.flops_per_ns,
                   .bytes_per_ns = one.bytes_per_ns,
                   .watts = 4}},
        .bytes_per_ns = one.bytes_per_ns * (n > 4 ? 4 : n),
        .near_bytes = 512 * 1024,
        .call_ns = 500,
        .thread_ns = 1000,
        .wait_ns = 1000,
        .help = QN_CORES_HELP,
        .idle_watts = 4,
        .speed = 1,
    };
}

qn_cores qn_cores_at(const qn_cores *c, int level) {
    qn_cores at = *c;
    if (level == 0)
        return at;
    at.speed = c->levels[level - 1].speed;
    for (int k = 0; k < at.n_kinds; k++) {
        at.kinds[k].flops_per_ns *= at.speed;
        at.kinds[k].bytes_per_ns *= at.speed;
        at.kinds[k].watts *= c->levels[level - 1].watts;
    }
    return at;
}

int qn_cores_kind(const qn_cores *c, int core) {
    int kind = 0;
    while (kind + 1 < c->n_kinds && core >= c->kinds[kind].n)
        core -= c->kinds[kind++].n;
    return kind;
}

qn_cores qn_cores_part(const qn_cores *c, const int n_of_kind[QN_MAX_CORE_KINDS]) {
    qn_cores part = *c;
    part.n = part.n_kinds = 0;
    for (int k = 0; k < c->n_kinds; k++) {
        if (n_of_kind[k] <= 0)
            continue;
        part.kinds[part.n_kinds] = c->kinds[k];
        part.kinds[part.n_kinds++].n = n_of_kind[k];
        part.n += n_of_kind[k];
    }
    return part;
}

static double larger(double a, double b) {
    return a > b ? a : b;
}

static double smaller(double a, double b) {
    return a < b ? a : b;
}

static double roofline_ns(const qn_core_kind *kind, double flops, double bytes) {
    return larger(flops / kind->flops_per_ns, bytes / kind->bytes_per_ns);
}

/* Of a core of a kind, where one of kind 0 has 1. */
static double speed_of(const qn_curve *curve, const qn_cores *c, int kind) {
    const double first = roofline_ns(&c->kinds[0], curve->flops, curve->bytes);
    const double ns = roofline_ns(&c->kinds[kind], curve->flops, curve->bytes);
    if (kind == 0)
        return 1;
    return ns > 0 ? first / ns : c->kinds[kind].bytes_per_ns / c->kinds[0].bytes_per_ns;
}

qn_curve qn_curve_estimate(const qn_cores *c, const qn_cost *cost) {
    const double flops = (double)cost->flops, bytes = (double)cost->bytes;
    return (qn_curve){.alone_ns = c->call_ns + roofline_ns(&c->kinds[0], flops, bytes),
                      .serial_ns = c->call_ns,
                      .thread_ns = c->thread_ns,
                      .flops = flops,
                      .bytes = bytes};
}

qn_curve qn_curve_fit(const qn_cores *c, const qn_cost *cost, double alone_ns, double wide_ns,
                      int width) {
    qn_curve curve = {.alone_ns = alone_ns,
                      .serial_ns = alone_ns,
                      .flops = (double)cost->flops,
                      .bytes = (double)cost->bytes,
                      .least_ns = smaller(alone_ns, wide_ns),
                      .thread_ns = c->thread_ns};
    if (width < 2)
        return curve;
    const double part = 1.0 / width, over_ns = larger(0, wide_ns - part * alone_ns);
    curve.thread_ns = smaller(c->thread_ns, over_ns / (width - 1));
    curve.serial_ns = (over_ns - curve.thread_ns * (width - 1)) / (1 - part);
    /* What costs more on several threads than on one costs that for each. */
    curve.serial_ns = smaller(curve.serial_ns, alone_ns + wide_ns);
    return curve;
}

/* What is not in the cores' caches, by the memory alone. */
double qn_curve_memory_ns(const qn_curve *curve, const qn_cores *c) {
    return larger(0, curve->bytes - c->near_bytes) / c->bytes_per_ns;
}

double qn_curve_speed(const qn_curve *curve, const qn_cores *c, int core) {
    return speed_of(curve, c, qn_cores_kind(c, core));
}

double qn_curve_helped_ns(const qn_curve *curve, const qn_cores *c, int first, int width,
                          int n_others, double speed_of_others) {
    const double leader = qn_curve_speed(curve, c, first);
    double floor_ns = smaller(qn_curve_memory_ns(curve, c), curve->alone_ns / leader);
    if (curve->least_ns > 0)
        floor_ns = smaller(floor_ns, curve->least_ns);
    double speed = leader + speed_of_others;
    if (width + n_others == 1)
        return larger(curve->alone_ns / leader, floor_ns);
    for (int i = first + 1; i < first + width; i++)
        speed += qn_curve_speed(curve, c, i);
    const double shared = curve->alone_ns - curve->serial_ns;
    const double ns =
        curve->serial_ns / leader + shared / speed + curve->thread_ns * (width + n_others - 1);
    return larger(larger(ns, floor_ns), 1);
}

double qn_curve_ns(const qn_curve *curve, const qn_cores *c, int first, int width) {
    return qn_curve_helped_ns(curve, c, first, width, 0, 0);
}

double qn_curve_disturbance(const qn_curve *curve, const qn_cores *c, double ns) {
    int i = 0;
    if (c->n_caches == 0 || ns <= 0)
        return 0;
    while (i + 1 < c->n_caches && curve->bytes > c->caches[i].bytes)
        i++;
    const qn_core_cache *cache = &c->caches[i];
    const double walking = smaller(1, curve->bytes / cache->bytes_per_ns / ns);
    return walking * (cache->bytes_per_ns / cache->beside_bytes_per_ns - 1);
}

double qn_curve_demand(const qn_curve *curve, const qn_cores *c, double ns) {
    return ns > 0 ? smaller(1, qn_curve_memory_ns(curve, c) / ns) : 0;
}
