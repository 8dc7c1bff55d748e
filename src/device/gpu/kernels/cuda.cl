/* The words that the kernels are written in, as CUDA C; also as C of a host that has CUDA's built-in
 * variables and functions (tests/fake/cuda_items.h). Compiled without contraction. Items of kernels
 * without tiles are along x and y, y folded into z where it is more than a grid's y holds; tiles have
 * their rows along x, which holds most. */
#ifdef __cplusplus
#define KERNEL extern "C" __global__
#else
#define KERNEL __global__
#endif
#define TILED_KERNEL KERNEL __launch_bounds__(LX *LY)
#define GLOBAL
#define LOCAL
#define LOCAL_ARRAY  __shared__
#define INLINE       static __device__ inline
#define BARRIER      __syncthreads()
#define ID(d)                                                                                      \
    ((int)((d) == 0 ? blockIdx.x * blockDim.x + threadIdx.x : blockIdx.y + blockIdx.z * gridDim.y))
#define LOCAL_ID(d) ((int)((d) == 0 ? threadIdx.x : threadIdx.y))
#define GROUP_ID(d) ((int)((d) == 0 ? blockIdx.y : (d) == 1 ? blockIdx.x : blockIdx.z))

typedef unsigned char uchar;
typedef unsigned short ushort;
typedef unsigned int uint;
typedef unsigned long ulong;

#ifndef INT_MIN
#define INT_MIN (-2147483647 - 1)
#endif
#ifndef INFINITY
#define INFINITY __int_as_float(0x7f800000)
#endif
#ifndef NAN
#define NAN __int_as_float(0x7fc00000)
#endif
#define mul_hi(a, b) __umulhi(a, b)

INLINE int clamp(int x, int least, int most) {
    return x < least ? least : x > most ? most : x;
}

typedef struct __align__(16) {
    float of[LANES];
} VECTOR;

INLINE VECTOR vector_zero(void) {
    VECTOR z;
#pragma unroll
    for (int i = 0; i < LANES; i++)
        z.of[i] = 0;
    return z;
}

INLINE VECTOR vector_add(VECTOR a, VECTOR b) {
#pragma unroll
    for (int i = 0; i < LANES; i++)
        a.of[i] += b.of[i];
    return a;
}

/* s v + t, rounded once */
INLINE VECTOR vector_scaled(float s, VECTOR v, VECTOR t) {
#pragma unroll
    for (int i = 0; i < LANES; i++)
        t.of[i] = fma(s, v.of[i], t.of[i]);
    return t;
}

#define VECTOR_ZERO            vector_zero()
#define VECTOR_ADD(a, b)       vector_add(a, b)
#define VECTOR_SCALED(s, v, t) vector_scaled(s, v, t)

