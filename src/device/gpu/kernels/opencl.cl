/* The words that the kernels are written in, as OpenCL C 1.2. */
#pragma OPENCL FP_CONTRACT OFF

#define KERNEL       __kernel
#define TILED_KERNEL __attribute__((reqd_work_group_size(LX, LY, 1))) __kernel
#define GLOBAL       __global
#define LOCAL        __local
#define LOCAL_ARRAY  __local
#define INLINE       static inline
#define BARRIER      barrier(CLK_LOCAL_MEM_FENCE)
#define ID(d)        ((int)get_global_id(d))
#define LOCAL_ID(d)  ((int)get_local_id(d))
/* A launch may start with a later group (device/gpu/pace.c). */
#define GROUP_ID(d)  ((int)(get_group_id(d) + get_global_offset(d) / get_local_size(d)))

#define JOIN_(a, b)            a##b
#define JOIN(a, b)             JOIN_(a, b)
#define VECTOR                 JOIN(float, LANES)
#define VECTOR_ZERO            ((VECTOR)(0))
#define VECTOR_ADD(a, b)       ((a) + (b))
#define VECTOR_SCALED(s, v, t) fma((VECTOR)(s), v, t) /* s v + t, rounded once */

