/* The largest sum of a product by a pass of its own over all stored sums, as the released code of
 * Mandheling finds it, beside the one that product.c finds in passing, whose result is taken: what
 * rescaling in every batch costs there, in packets. Built with product.c's function under another
 * name (bench_dsp_placing.py). */
#include "product.h"

uint32_t make_sums_in_passing(const prepared *p);

uint32_t make_sums(const prepared *p) {
    const uint32_t largest = make_sums_in_passing(p);
    const qn_dsp_places *at = &p->places;
    const vec *sums = (const vec *)(place(p, p->work.workspace) + at->sums);
    const bool is_planar = at->is_planar && p->work.kind != QN_DSP_FILTER;
    const int n =
        is_planar ? p->work.window.n * at->tile_rows * at->image_lanes : at->rows * at->lanes;
    vec most = Q6_V_vzero(), more = Q6_V_vzero();
    for (int i = 0; i + 2 * QN_DSP_LANES <= n; i += 2 * QN_DSP_LANES, sums += 2) {
        most = Q6_Vw_vmax_VwVw(most, Q6_Vw_vabs_Vw(sums[0]));
        more = Q6_Vw_vmax_VwVw(more, Q6_Vw_vabs_Vw(sums[1]));
    }
    *(volatile vec *)(place(p, p->work.workspace) + at->gathered) = Q6_Vw_vmax_VwVw(most, more);
    return largest;
}
