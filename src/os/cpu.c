/* Clock, memory of the process and what its processor can do; see os.h. */
#define _GNU_SOURCE

#include "base/status.h"
#include "os/os.h"
#include "os/process/group.h"

#if defined(__x86_64__)
#include <cpuid.h>
#elif defined(__aarch64__)
#include <sys/auxv.h>
#endif
#include <limits.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

static int64_t read_clock(clockid_t clock) {
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

void qn_host_name(char *name, size_t bytes) {
    if (gethostname(name, bytes) != 0)
        *name = 0;
    name[bytes - 1] = 0;
}

int64_t qn_clock_ns(void) {
    return read_clock(CLOCK_MONOTONIC);
}

int64_t qn_thread_cpu_ns(void) {
    return read_clock(CLOCK_THREAD_CPUTIME_ID);
}

/* The kernel's own high-water mark: getrusage also remembers the program that started this one. */
int64_t qn_process_peak_bytes(void) {
    long long kib = 0;
    FILE *file = fopen("/proc/self/status", "re");
    char line[256];
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "VmHWM: %lld", &kib) == 1)
            break;
    if (file)
        fclose(file);
    struct rusage usage;
    if (kib == 0 && getrusage(RUSAGE_SELF, &usage) == 0)
        kib = usage.ru_maxrss;
    return (int64_t)kib * 1024;
}

/* Processors that the quota of a control group pays for, rounded up; 0 where there is no quota. */
static int quota_cpus(void) {
    qn_group group;
    qn_group_read("", &group);
    return group.cpus < INT_MAX ? (int)ceil(group.cpus) : 0;
}

int qn_cpu_count(void) {
    cpu_set_t set;
    int count = 0;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        count = CPU_COUNT(&set);
    if (count < 1)
        count = (int)sysconf(_SC_NPROCESSORS_ONLN);
    int quota = quota_cpus();
    if (quota > 0 && quota < count)
        count = quota;
    return count < 1 ? 1 : count;
}

static const char *const isa_names[] = {[QN_ISA_REF] = "ref",
                                        [QN_ISA_NEON] = "neon",
                                        [QN_ISA_AVX2] = "avx2",
                                        [QN_ISA_AVX512] = "avx512"};

enum { N_ISAS = sizeof isa_names / sizeof *isa_names };

const char *qn_isa_name(qn_isa isa) {
    return isa_names[isa];
}

/* Only sets whose kernels the library was built with: see src/kernels/kernels.cmake. */
static bool isa_is_possible(qn_isa isa) {
#if defined(__x86_64__)
    /* These ask for the operating system's support of the registers, too. */
    __builtin_cpu_init();
#ifdef QN_WITH_AVX2
    if (isa == QN_ISA_AVX2)
        return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma");
#endif
#ifdef QN_WITH_AVX512
    if (isa == QN_ISA_AVX512)
        return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
               __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw");
#endif
#elif defined(QN_WITH_NEON)
    if (isa == QN_ISA_NEON)
        return true;
#endif
    return isa == QN_ISA_REF;
}

#if defined(__x86_64__)
/* A bit of leaf 7, part 1; clang 14 does not know the features' names. */
static bool has_late_feature(int bit) {
    unsigned a = 0, b, c, d;
    return __get_cpuid_count(7, 1, &a, &b, &c, &d) && a >> bit & 1;
}
#endif

bool qn_cpu_has(qn_isa isa, qn_cpu_feature feature) {
    if (!isa_is_possible(isa))
        return false;
#if defined(__x86_64__)
    if (feature == QN_CPU_AVX_VNNI)
        return has_late_feature(4);
    if (feature == QN_CPU_AVX512_BF16)
        return has_late_feature(5);
    if (feature == QN_CPU_AVX512_VNNI)
        return __builtin_cpu_supports("avx512vnni");
#elif defined(__aarch64__)
    if (feature == QN_CPU_DOTPROD)
        return (getauxval(AT_HWCAP) & HWCAP_ASIMDDP) != 0;
#endif
    return feature == QN_CPU_ANY;
}

qn_status qn_cpu_isa(qn_isa *isa) {
    const char *cap = getenv("QUERN_ISA");
    qn_isa best = QN_ISA_REF;
    char choices[64] = "";
    for (int i = 0; i < N_ISAS; i++) {
        if (!isa_is_possible((qn_isa)i))
            continue;
        snprintf(choices + strlen(choices), sizeof choices - strlen(choices), " %s", isa_names[i]);
        best = (qn_isa)i;
        if (cap && strcmp(cap, isa_names[i]) == 0) {
            *isa = best;
            return QN_OK;
        }
    }
    if (cap && *cap)
        return qn_fail(QN_ERROR_ARGUMENT, "QUERN_ISA=%s: this machine has%s; choose one of them",
                       cap, choices);
    *isa = best;
    return QN_OK;
}
