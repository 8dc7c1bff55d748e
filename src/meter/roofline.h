/* The peak performance of this machine: measured once, cached by machine. */
#ifndef QN_METER_ROOFLINE_H
#define QN_METER_ROOFLINE_H

#include "quern/base.h"

#include <stdbool.h>
#include <stdint.h>

enum { QN_ROOFLINE_MOST = 16 };

/* Arithmetic of one kind of core. */
typedef struct qn_roofline_peak {
    char core[32];    /* kind of core: "performance", "efficiency", "cpu" */
    char dtype[8];    /* "f32", "f64" */
    int n_cores;      /* of this kind */
    double flops;     /* per second of one core */
    double all_flops; /* of all cores of this kind together */
} qn_roofline_peak;

/* A level of memory. */
typedef struct qn_roofline_level {
    char name[8];                    /* "L1", "L2", "L3", "DRAM" */
    int64_t bytes, all_bytes;        /* that one core, and all cores, have of it; 0: DRAM */
    double bandwidth, all_bandwidth; /* bytes per second: one core, all cores */
    double beside_bandwidth; /* one core, while all others walk through DRAM; 0: not measured */
} qn_roofline_level;

/* A GPU: a second's FLOPs of a product and bytes, copies from the host and to it, and what starting
 * a kernel and waiting for it takes. */
typedef struct qn_roofline_gpu {
    char device[16]; /* "opencl:0" */
    char name[96];
    double flops, bandwidth, in_bandwidth, out_bandwidth, launch_ns;
} qn_roofline_gpu;

typedef struct qn_roofline {
    char machine[96]; /* processor, cores, instruction set: the cache's key */
    int n_peaks, n_levels, n_gpus;
    qn_roofline_peak peaks[QN_ROOFLINE_MOST];
    qn_roofline_level levels[QN_ROOFLINE_MOST];
    qn_roofline_gpu gpus[QN_ROOFLINE_MOST];
} qn_roofline;

/* Measures, in a few seconds, on threads of its own, each kept on a core. Each number is the best
 * of several short tries: what the machine can do, not what it does while others use it. tell (may
 * be null) hears what is being measured and the part done. */
qn_status qn_roofline_measure(const qn_allocator *allocator, qn_roofline *roofline, void *user,
                              void (*tell)(void *user, const char *what, double done));

/* Measures the OpenCL and CUDA devices of this machine, some seconds each as drivers compile the
 * kernels. A device that fails is left out, and failed says which and why; "": none. */
void qn_roofline_measure_gpus(const qn_allocator *allocator, qn_roofline *roofline, void *user,
                              void (*tell)(void *user, const char *what, double done),
                              char failed[256]);

/* The one of a device by its name, so that another one in its place is not taken for it; null: it
 * was not measured. */
const qn_roofline_gpu *qn_roofline_find_gpu(const qn_roofline *roofline, const char *device,
                                            const char *name);

/* What is written as qn_roofline.machine on this machine. */
qn_status qn_roofline_machine(const qn_allocator *allocator, char *machine, size_t bytes);

/* The one kept for this machine; QN_OK with n_peaks 0 where there is none. A file that cannot be
 * read counts as none. */
qn_status qn_roofline_load(const qn_allocator *allocator, qn_roofline *roofline);
qn_status qn_roofline_save(const qn_roofline *roofline);

/* What save has written, from its text. Whatever it holds, *roofline has either everything, with
 * numbers that can be, or n_peaks 0. */
void qn_roofline_parse(const char *text, size_t bytes, qn_roofline *roofline);

/* Most FLOPs per second of n_threads with a type of element; NaN where it was not measured. */
double qn_roofline_flops(const qn_roofline *roofline, const char *dtype, int n_threads);

/* Most bytes per second of n_threads that walk through so much memory again and again: the
 * bandwidth of the nearest level that holds it. NaN where it was not measured. */
double qn_roofline_bandwidth(const qn_roofline *roofline, int n_threads, double bytes);

#endif
