/* A product of int8 on a Hexagon DSP, with the largest of its sums, as integer training makes it:
 * c (M, N) = a (M, K) * b (N, K) transposed. A whole program without a C library. With HVX it packs
 * b into vectors of 32 columns by 4 products and keeps 8 rows by 64 columns in registers; without,
 * it is the plain loop that the other one's bytes are compared with. Writes largest and sums.
 * M is a multiple of 8, N of 64, K of 8. -DROUNDS=0 leaves the product out, to be subtracted. */
#ifdef __HVX__
#include <hexagon_protos.h>
#include <hexagon_types.h>
#include <hvx_hexagon_protos.h>
#endif

enum { VECTOR = 128, LANES = 32, ROWS = 8 };

static signed char a[M * K] __attribute__((aligned(VECTOR)));
static signed char b[N * K] __attribute__((aligned(VECTOR)));
static struct {
    int sums[M * N];
    unsigned largest[LANES];
} result __attribute__((aligned(VECTOR)));

static void fill(signed char *to, int n, unsigned seed) {
    for (int i = 0; i < n; i++) {
        seed = seed * 1664525U + 1013904223U;
        to[i] = (signed char)(seed >> 24);
    }
}

#ifdef __HVX__
static signed char packed[N * K] __attribute__((aligned(VECTOR)));

/* Vector k / 4 of a panel of 32 columns has four numbers of each, with 128 added: the only product
 * of bytes by a register's is of unsigned ones. What that adds to all sums of a row is where they
 * begin. */
static void pack(void) {
    const int *from = (const int *)b;
    int *to = (int *)packed;
    for (int panel = 0; panel < N / LANES; panel++) {
        for (int lane = 0; lane < LANES; lane++) {
            const int *row = from + (panel * LANES + lane) * (K / 4);
            int *column = to + panel * LANES * (K / 4) + lane;
#pragma clang loop vectorize(disable)
            for (int k = 0; k < K / 4; k++)
                column[k * LANES] = row[k] ^ (int)0x80808080;
        }
    }
}

static HVX_Vector tile(const int *rows, const int *begin, const HVX_Vector *left, int *to,
                       HVX_Vector largest) {
    const HVX_Vector *right = left + K / 4;
    HVX_Vector sums[ROWS][2];
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS; i++)
        sums[i][0] = sums[i][1] = Q6_V_vsplat_R(begin[i]);
    for (int k = 0; k < K / 4; k++) {
        const HVX_Vector l = left[k], r = right[k];
#pragma clang loop unroll(full)
        for (int i = 0; i < ROWS; i++) {
            const int x = rows[i * (K / 4) + k];
            sums[i][0] = Q6_Vw_vrmpyacc_VwVubRb(sums[i][0], l, x);
            sums[i][1] = Q6_Vw_vrmpyacc_VwVubRb(sums[i][1], r, x);
        }
    }
#pragma clang loop unroll(full)
    for (int i = 0; i < ROWS; i++) {
        HVX_Vector *at = (HVX_Vector *)(to + i * N);
        at[0] = sums[i][0];
        at[1] = sums[i][1];
        largest = Q6_Vw_vmax_VwVw(largest, Q6_Vw_vabs_Vw(sums[i][0]));
        largest = Q6_Vw_vmax_VwVw(largest, Q6_Vw_vabs_Vw(sums[i][1]));
    }
    return largest;
}

/* Of K numbers, eight at once as unsigned ones, each 128 more. */
static int sum_of(const long long *row) {
    long long sums = 0;
#pragma clang loop vectorize(disable)
    for (int k = 0; k < K / 8; k++)
        sums = Q6_P_vraddubacc_PP(sums, row[k] ^ (long long)0x8080808080808080ULL, 0);
    return (int)sums + (int)(sums >> 32) - 128 * K;
}

static void multiply(void) {
    HVX_Vector largest = Q6_V_vzero();
    pack();
    for (int m = 0; m < M; m += ROWS) {
        int begin[ROWS];
        for (int i = 0; i < ROWS; i++)
            begin[i] = -128 * sum_of((const long long *)(a + (m + i) * K));
        for (int n = 0; n < N; n += 2 * LANES)
            largest = tile((const int *)(a + m * K), begin, (const HVX_Vector *)(packed + n * K),
                           result.sums + m * N + n, largest);
    }
    *(HVX_Vector *)result.largest = largest;
    for (int i = 1; i < LANES; i++) {
        if (result.largest[i] > result.largest[0])
            result.largest[0] = result.largest[i];
    }
}
#else
static void multiply(void) {
    for (int m = 0; m < M; m++) {
        for (int n = 0; n < N; n++) {
            int sum = 0;
            for (int k = 0; k < K; k++)
                sum += a[m * K + k] * b[n * K + k];
            const unsigned size = sum < 0 ? -(unsigned)sum : (unsigned)sum;
            result.sums[m * N + n] = sum;
            if (size > result.largest[0])
                result.largest[0] = size;
        }
    }
}
#endif

static int call(int number, int first, const void *second, int third) {
    register int r0 __asm__("r0") = first;
    register const void *r1 __asm__("r1") = second;
    register int r2 __asm__("r2") = third;
    register int r6 __asm__("r6") = number;
    __asm__ volatile("trap0(#1)" : "+r"(r0) : "r"(r1), "r"(r2), "r"(r6) : "memory");
    return r0;
}

__attribute__((noreturn, used)) static void run(void) {
    enum { WRITE = 64, EXIT = 93 };
    fill(a, M * K, 1);
    fill(b, N * K, 2);
    __asm__ volatile("" : : "r"(a), "r"(b) : "memory"); /* filled also where nothing reads them */
    for (int i = 0; i < ROUNDS; i++)
        multiply();
    (void)call(WRITE, 1, result.sums, sizeof result.sums + sizeof result.largest[0]);
    for (;;)
        (void)call(EXIT, 0, 0, 0);
}

__asm__(".globl _start\n_start:\n r29 = and(r29, #-128)\n jump run\n");
