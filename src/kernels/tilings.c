/* See tilings.h. */
#include "kernels/tilings.h"

const char *const qn_tiling_names[QN_TILING_COUNT] = {"way",     "split", "rows",
                                                      "columns", "fetch", "tiles"};

const uint8_t qn_tiling_variants[QN_TILING_COUNT] = {3, 2, 3, 2, 1, 2};

static uint64_t mix(uint64_t hash, int64_t with) {
    hash = (hash ^ (uint64_t)with) * UINT64_C(0x9e3779b97f4a7c15);
    return hash ^ hash >> 29;
}

static uint64_t mix_all(uint64_t hash, const int64_t *numbers, int n) {
    for (int i = 0; i < n; i++)
        hash = mix(hash, numbers[i]);
    return hash ? hash : 1;
}

uint64_t qn_tiling_key_conv2d(const qn_conv2d_shape *d, qn_conv2d_pass pass, int algorithm,
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

uint64_t qn_tiling_key_gemm(const qn_gemm_shape *d, int n_threads) {
    const int64_t numbers[] = {d->m, d->n, d->k, d->transpose_a, d->transpose_b, n_threads};
    return mix_all(2, numbers, sizeof numbers / sizeof *numbers);
}

size_t qn_tilings_place(const qn_tilings *tilings, uint64_t key) {
    size_t low = 0, high = tilings->n;
    while (low < high) {
        const size_t middle = low + (high - low) / 2;
        if (tilings->entries[middle].key < key)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool qn_tilings_has(const qn_tilings *tilings, uint64_t key) {
    const size_t place = qn_tilings_place(tilings, key);
    return place < tilings->n && tilings->entries[place].key == key;
}

static bool try_tiling(qn_tiling_trial *trial, uint64_t key, unsigned kinds, qn_tiling *tiling) {
    trial->key = key;
    trial->kinds = kinds;
    *tiling = trial->tiling;
    return !trial->is_question;
}

bool qn_tilings_take(const qn_tilings *tilings, uint64_t key, unsigned kinds, qn_tiling *tiling) {
    *tiling = (qn_tiling){{0}};
    if (tilings && tilings->trial)
        return try_tiling(tilings->trial, key, kinds, tiling);
    if (tilings && qn_tilings_has(tilings, key))
        *tiling = tilings->entries[qn_tilings_place(tilings, key)].tiling;
    return true;
}
