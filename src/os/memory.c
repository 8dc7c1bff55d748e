/* Free memory of the system, and the heap's own; see os.h. */
#include "os/os.h"

#include <string.h>

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* The value in bytes of a line "NAME:  123 kB" of a file, or -1. */
static int64_t find_kib(const char *path, const char *name) {
    char line[256];
    long long kib = -1;
    const size_t length = strlen(name);
    FILE *file = fopen(path, "re");
    while (file && kib < 0 && fgets(line, sizeof line, file)) {
        if (strncmp(line, name, length) == 0 && sscanf(line + length, ": %lld", &kib) != 1)
            kib = -1;
    }
    if (file)
        fclose(file);
    return kib < 0 ? -1 : (int64_t)kib * 1024;
}

/* A whole number, or -1: no such file, or the word "max". */
static int64_t read_count(const char *path) {
    long long count = -1;
    FILE *file = fopen(path, "re");
    if (file && fscanf(file, "%lld", &count) != 1)
        count = -1;
    if (file)
        fclose(file);
    return count;
}

/* The value of a line "NAME 123" of a file, or 0. */
static int64_t find_count(const char *path, const char *name) {
    char line[256], word[64];
    long long count = 0, value;
    FILE *file = fopen(path, "re");
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %lld", word, &value) == 2 && strcmp(word, name) == 0)
            count = value;
    }
    if (file)
        fclose(file);
    return count;
}

/* What a container's limit leaves, cached files that can go counted as left; -1: no limit. */
static int64_t left_of_limit(const char *limit, const char *used, const char *statistics) {
    const int64_t most = read_count(limit), now = read_count(used);
    if (most < 0 || now < 0)
        return -1;
    const int64_t left = most - now + find_count(statistics, "inactive_file");
    return left > 0 ? left : 0;
}

int64_t qn_memory_available_bytes(void) {
    int64_t available = find_kib("/proc/meminfo", "MemAvailable");
    const int64_t left[] = {
        left_of_limit("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current",
                      "/sys/fs/cgroup/memory.stat"),
        left_of_limit("/sys/fs/cgroup/memory/memory.limit_in_bytes",
                      "/sys/fs/cgroup/memory/memory.usage_in_bytes",
                      "/sys/fs/cgroup/memory/memory.stat"),
    };
    for (int i = 0; i < 2; i++) {
        if (left[i] >= 0 && (available < 0 || left[i] < available))
            available = left[i];
    }
    return available > 0 ? available : 0;
}

void qn_memory_give_back_early(void) {
#ifdef __GLIBC__
    /* Thresholds that are set no longer grow with what is released. */
    enum { LARGE_BYTES = 64 * 1024 };
    mallopt(M_MMAP_THRESHOLD, LARGE_BYTES);
    mallopt(M_TRIM_THRESHOLD, LARGE_BYTES);
    mallopt(M_ARENA_MAX, 1);
#endif
}

void qn_memory_give_back(void) {
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}
