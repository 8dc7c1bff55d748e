/* See cuts.h. */
#include "kernels/cuts.h"

const char *const qn_cut_names[QN_CUT_COUNT] = {"way",     "split", "rows",
                                                "columns", "fetch", "tiles"};

const uint8_t qn_cut_variants[QN_CUT_COUNT] = {3, 2, 3, 2, 1, 2};

static uint64_t mix(uint64_t hash, int64_t with) {
    hash = (hash ^ (uint64_t)with) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t mix_all(uint64_t hash, const int64_t *numbers, int n) {
    for (int i = 0; i < n; i++)
        hash = mix(hash, numbers[i]);
    return hash ? hash : 1;
}

uint64_t qn_cut_key_conv2d(const qn_conv2d_shape *d, qn_conv2d_pass pass, int algorithm,
                           int n_threads) {
    const int64_t numbers[] = {d->batch > 0 ? d->batch : d->n,
                               d->h,
                               d->w,
                               d->c,
                               d->k,
                               d->r,
                               d->s,
                               d->p,
                               d->q,
                               d->stride_h,
                               d->stride_w,
                               d->pad_top,
                               d->pad_left,
                               d->dilation_h,
                               d->dilation_w,
                               d->groups,
                               (int64_t)pass,
                               algorithm,
                               n_threads};
    return mix_all(1, numbers, sizeof numbers / sizeof *numbers);
}

uint64_t qn_cut_key_gemm(const qn_gemm_shape *d, int n_threads) {
    const int64_t numbers[] = {d->m, d->n, d->k, d->transpose_a, d->transpose_b, n_threads};
    return mix_all(2, numbers, sizeof numbers / sizeof *numbers);
}

size_t qn_cuts_place(const qn_cuts *cuts, uint64_t key) {
    size_t low = 0, high = cuts->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (cuts->entries[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool qn_cuts_has(const qn_cuts *cuts, uint64_t key) {
    const size_t place = qn_cuts_place(cuts, key);
    return place < cuts->n && cuts->entries[place].key == key;
}

static bool try_cut(qn_cut_trial *trial, uint64_t key, unsigned kinds, qn_cut *cut) {
    trial->key = key;
    trial->kinds = kinds;
    *cut = trial->cut;
    return !trial->is_question;
}

bool qn_cuts_take(const qn_cuts *cuts, uint64_t key, unsigned kinds, qn_cut *cut) {
    *cut = (qn_cut){{0}};
    if (cuts && cuts->trial)
        return try_cut(cuts->trial, key, kinds, cut);
    if (cuts && qn_cuts_has(cuts, key))
        *cut = cuts->entries[qn_cuts_place(cuts, key)].cut;
    return true;
}
