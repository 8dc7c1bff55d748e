/* Free memory of the system, and the heap's own; see os.h. */
#include "os/os.h"
#include "os/process/group.h"

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

int64_t qn_memory_available_bytes(void) {
    const int64_t available = find_kib("/proc/meminfo", "MemAvailable");
    qn_group group;
    qn_group_read("", &group);
    if (group.left_bytes >= 0 && (available < 0 || group.left_bytes < available))
        return group.left_bytes;
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
