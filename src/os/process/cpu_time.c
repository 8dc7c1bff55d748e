/* See cpu_time.h. The clocks of other threads and processes are computed as the kernel's interface
 * defines them (the complement of the id, shifted by three, and the kind of clock).
 * pthread_getcpuclockid and clock_getcpuclockid do the same, but the former does not accept a
 * thread id. */
#define _GNU_SOURCE

#include "os/process/cpu_time.h"

#include "base/status.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { CLOCK_SCHEDULED = 2, CLOCK_OF_THREAD = 4, TASK_BITS = 28 };

int64_t qn_process_id(void) {
    return getpid();
}

int64_t qn_thread_id(void) {
    return gettid();
}

int64_t qn_page_bytes(void) {
    return sysconf(_SC_PAGESIZE);
}

static int64_t read_clock_of(int64_t task, int kind) {
    const clockid_t clock = (clockid_t)((~(uint32_t)task << 3) | (uint32_t)kind);
    struct timespec now;
    if (task <= 0 || task >> TASK_BITS || clock_gettime(clock, &now) != 0)
        return -1;
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t qn_process_cpu_ns(int64_t process) {
    return read_clock_of(process, CLOCK_SCHEDULED);
}

int64_t qn_own_thread_cpu_ns(int64_t thread) {
    return read_clock_of(thread, CLOCK_SCHEDULED | CLOCK_OF_THREAD);
}

/* ---- numbered folders ---- */

/* "cpu  user nice system idle iowait ..." */
int64_t qn_idle_cpu_ns(void) {
    char text[256];
    long long idle = 0, waiting = 0;
    const long ticks = sysconf(_SC_CLK_TCK);
    const int file = open("/proc/stat", O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return -1;
    const ssize_t n = read(file, text, sizeof text - 1);
    close(file);
    text[n > 0 ? n : 0] = 0;
    if (sscanf(text, "cpu %*u %*u %*u %lld %lld", &idle, &waiting) != 2 || ticks <= 0)
        return -1;
    return (int64_t)(idle + waiting) * (1000000000 / ticks);
}

qn_status qn_numbered_open(const char *path, qn_numbered *folder) {
    const int descriptor = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (descriptor < 0)
        return qn_fail(QN_ERROR_IO, "%s: %s", path, strerror(errno));
    folder->handle = descriptor + 1;
    return QN_OK;
}

void qn_numbered_close(qn_numbered *folder) {
    if (folder->handle > 0)
        close(folder->handle - 1);
    folder->handle = 0;
}

/* A folder has a link from its parent, one from itself, and one from each folder in it. */
int64_t qn_numbered_count(const qn_numbered *folder) {
    struct stat status;
    if (fstat(folder->handle - 1, &status) != 0 || status.st_nlink == 0)
        return -1;
    return (int64_t)status.st_nlink - 2;
}

/* The number that a name is; -1: it is none. */
static int64_t number_of(const char *name) {
    char *end;
    errno = 0;
    const long long number = strtoll(name, &end, 10);
    return end == name || *end || errno || number < 0 ? -1 : number;
}

/* readdir would allocate. */
int qn_numbered_list(const qn_numbered *folder, int64_t *numbers, int most) {
    _Alignas(struct dirent64) char entries[4096];
    int n = 0;
    lseek(folder->handle - 1, 0, SEEK_SET);
    for (;;) {
        const long bytes = syscall(SYS_getdents64, folder->handle - 1, entries, sizeof entries);
        if (bytes <= 0)
            return n;
        for (long at = 0; at < bytes;) {
            const struct dirent64 *entry = (const struct dirent64 *)(entries + at);
            const int64_t number = number_of(entry->d_name);
            at += entry->d_reclen;
            if (number >= 0 && n++ < most)
                numbers[n - 1] = number;
        }
    }
}
