/* The kept roofline: what is accepted gives numbers that can be worked with, and, kept for this
 * machine and loaded, the same ones; an input in place of the cache's file is read or is none. */
#include "fuzz/input.h"
#include "meter/roofline.h"

#include <math.h>

static void check(const qn_roofline *r) {
    const double bandwidth = qn_roofline_bandwidth(r, 2, INFINITY);
    const double flops = qn_roofline_flops(r, r->peaks[0].dtype, 2);
    if (r->n_peaks > QN_ROOFLINE_MOST || r->n_levels < 1 || r->n_levels > QN_ROOFLINE_MOST ||
        r->n_gpus > QN_ROOFLINE_MOST || !(bandwidth > 0) || !isfinite(bandwidth) || !(flops > 0) ||
        !isfinite(flops) || !(qn_roofline_bandwidth(r, 1, 1) > 0) ||
        isfinite(qn_roofline_flops(r, "none", 1)))
        abort();
}

static void check_kept(const qn_roofline *r) {
    qn_roofline kept = *r, loaded;
    if (qn_roofline_machine(NULL, kept.machine, sizeof kept.machine) != QN_OK ||
        qn_roofline_save(&kept) != QN_OK || qn_roofline_load(NULL, &loaded) != QN_OK ||
        loaded.n_peaks != kept.n_peaks || loaded.n_levels != kept.n_levels ||
        loaded.n_gpus != kept.n_gpus)
        abort();
    for (int i = 0; i < kept.n_gpus; i++) {
        const qn_roofline_gpu *g = &kept.gpus[i];
        if (!qn_roofline_find_gpu(&loaded, g->device, g->name) || !(loaded.gpus[i].flops > 0) ||
            fabs(loaded.gpus[i].in_bandwidth / g->in_bandwidth - 1) > 1e-12)
            abort();
    }
    for (int i = 0; i < kept.n_peaks; i++) {
        if (fabs(loaded.peaks[i].flops / kept.peaks[i].flops - 1) > 1e-12)
            abort();
    }
}

static void check_cache(const uint8_t *data, size_t size) {
    char name[256];
    qn_roofline r;
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    input_find_cached("roofline-", name);
    if (!name[0])
        return;
    input_write(name, data, size);
    if (qn_roofline_load(&allocator, &r) == QN_OK && r.n_peaks > 0)
        check(&r);
    input_check_memory(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_roofline r;
    input_folder();
    check_cache(data, size);
    qn_roofline_parse((const char *)data, size, &r);
    if (r.n_peaks == 0)
        return 0;
    check(&r);
    check_kept(&r);
    return 0;
}
