/* One matrix product by the best float kernels that the processor has, on the calling thread: small
 * enough to be run an instruction at a time (core/count_instructions.py). Fails where a result is
 * not what the sums of whole numbers give. */
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>

enum { M = 192, N = 48, K = 128 };

static _Alignas(64) float a[M * K], b[K * N], c[M * N];

int main(void) {
    qn_isa isa;
    if (qn_cpu_isa(&isa) != QN_OK)
        return 2;
    const qn_kernels *table = qn_kernels_get(QN_F32, isa);
    const qn_gemm_shape shape = {.m = M, .n = N, .k = K};
    void *workspace = aligned_alloc(64, (table->gemm_workspace(&shape, 1) + 127) / 64 * 64);
    for (int i = 0; i < M * K; i++)
        a[i] = (float)(i % 7 - 3);
    for (int i = 0; i < K * N; i++)
        b[i] = (float)(i % 5 - 2);
    if (!workspace)
        return 2;
    table->gemm(NULL, &shape, a, b, NULL, (qn_activation){QN_ACTIVATION_NONE, 0}, c, workspace);
    free(workspace);
    for (int i = 0; i < M * N; i++) {
        int sum = 0;
        for (int k = 0; k < K; k++)
            sum += ((i / N * K + k) % 7 - 3) * ((k * N + i % N) % 5 - 2);
        if (c[i] != (float)sum) {
            printf("element %d is %g, not %d\n", i, (double)c[i], sum);
            return 1;
        }
    }
    printf("%s\n", table->name);
    return 0;
}
