/* The processor of a device as /sys and /proc describe it: cores, their kinds, clusters, caches,
 * memory. Paths are read below a root, so that a recorded tree of files can stand for a device.
 * What the kernel does not report is 0, "" or -1, never guessed. */
#ifndef QN_METER_PROCESSOR_H
#define QN_METER_PROCESSOR_H

#include "quern/base.h"

typedef struct qn_core {
    int number;        /* of the kernel's: cpu3 */
    int kind;          /* -1: it is offline, and nothing is known of it */
    int cluster;       /* counted from 0: cores that share a clock or a cache; -1: unknown */
    int64_t most_hz;   /* highest frequency */
    int64_t capacity;  /* of the device's best core's 1024 */
    int first_sibling; /* lowest number among the hardware threads of the same core */
    bool is_online;
} qn_core;

/* Cores that do not differ. Kinds are in order of falling strength. */
typedef struct qn_core_kind {
    char name[32]; /* one kind: "cpu"; two: "performance", "efficiency"; three: "prime" before them;
                        more: "kind-0", ... */
    char model[64]; /* "Cortex-A76" */
    int n_cores;    /* as the kernel counts: hardware threads */
    int n_physical; /* without counting threads of one core twice */
    int first;      /* lowest number of its cores */
    int64_t most_hz, capacity;
} qn_core_kind;

typedef enum qn_cache_type { QN_CACHE_DATA, QN_CACHE_INSTRUCTION, QN_CACHE_UNIFIED } qn_cache_type;

/* Caches of one size and level that cores of a kind have. */
typedef struct qn_cpu_cache {
    int kind, level;
    qn_cache_type type;
    int64_t bytes; /* of one */
    int n_sharing; /* cores (as the kernel counts) that share one */
    int n;         /* how many there are */
} qn_cpu_cache;

enum { QN_KINDS_MOST = 8, QN_CACHES_MOST = 40 };

typedef struct qn_processor {
    const qn_allocator *allocator;
    char name[96];    /* "Intel(R) Core(TM) i7-1260P", "2 x Denver 2 + 4 x Cortex-A57" */
    char machine[96]; /* "Raspberry Pi 5 Model B Rev 1.0" */
    char isa[8];    /* best set of kernels that its flags allow: "avx512", "avx2", "neon", "ref" */
    int n_cores;    /* present */
    qn_core *cores; /* (n_cores) by number */
    int n_kinds, n_clusters, n_caches;
    qn_core_kind kinds[QN_KINDS_MOST];
    qn_cpu_cache caches[QN_CACHES_MOST]; /* by kind, level, type */
    int64_t memory_bytes;                /* main memory */
} qn_processor;

/* root: "" for this device, or a recorded tree's folder. Fails for lack of memory only; a tree
 * without a processor gives n_cores 0. Destroy with qn_processor_destroy. */
qn_status qn_processor_create(const qn_allocator *allocator, const char *root,
                              qn_processor **processor);
void qn_processor_destroy(qn_processor *processor);

/* In one line: "Raspberry Pi 5 Model B Rev 1.0, 4 x Cortex-A76, 4 cores". */
enum { QN_PROCESSOR_TEXT = 240 };
const char *qn_processor_print(const qn_processor *processor, char text[QN_PROCESSOR_TEXT]);

/* Bytes of the data or unified cache of a level that a core of the kind uses; 0: unknown. */
int64_t qn_processor_cache_bytes(const qn_processor *processor, int kind, int level);

#endif
