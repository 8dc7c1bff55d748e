/* A disk that is slow, stutters, or fails when it is told to: pread and pwrite of this program go
 * through here, those of the library that is linked into it too. */
#ifndef FAULTY_DISK_H
#define FAULTY_DISK_H

#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

enum { FAULT_ENDS = -1, FAULT_FLIPS = -2 };

/* Counts and settings; call number `left` (from 0) of a kind fails with error: an errno,
 * FAULT_ENDS (nothing is transferred), or FAULT_FLIPS (one bit of what was read is wrong). */
typedef struct faulty_disk {
    int64_t writes_left, reads_left; /* -1: none fails */
    int error;
    bool stutters;    /* every third call is interrupted, every other one is cut short */
    int64_t delay_ns; /* of every call */
    int64_t n_calls;  /* so far */
    int64_t
        n_refused; /* calls to come that are refused with EINVAL: a file system without O_DIRECT */
} faulty_disk;

static faulty_disk disk = {.writes_left = -1, .reads_left = -1};

static inline void disk_reset(void) {
    disk = (faulty_disk){.writes_left = -1, .reads_left = -1};
}

/* Whether the call goes on; *bytes is how far. */
static inline bool disk_allows(int64_t *left, size_t *bytes, ssize_t *result) {
    const int64_t call = __atomic_fetch_add(&disk.n_calls, 1, __ATOMIC_RELAXED);
    const struct timespec delay = {.tv_sec = disk.delay_ns / 1000000000,
                                   .tv_nsec = disk.delay_ns % 1000000000};
    if (disk.delay_ns > 0)
        nanosleep(&delay, NULL);
    *result = -1;
    if (disk.n_refused > 0 && __atomic_fetch_sub(&disk.n_refused, 1, __ATOMIC_RELAXED) > 0) {
        errno = EINVAL;
        return false;
    }
    const bool fails = __atomic_load_n(left, __ATOMIC_RELAXED) >= 0 &&
                       __atomic_fetch_sub(left, 1, __ATOMIC_RELAXED) == 0;
    if (fails && disk.error == FAULT_ENDS)
        *result = 0;
    if (fails && disk.error > 0)
        errno = disk.error;
    if (disk.stutters && call % 3 == 0 && !fails) {
        errno = EINTR;
        return false;
    }
    if (disk.stutters && call % 2 == 0 && *bytes >= 8192)
        *bytes = *bytes / 8192 * 4096;
    return !fails || disk.error == FAULT_FLIPS;
}

ssize_t pwrite(int descriptor, const void *from, size_t bytes, off_t offset) {
    ssize_t result;
    return disk_allows(&disk.writes_left, &bytes, &result)
               ? syscall(SYS_pwrite64, descriptor, from, bytes, offset)
               : result;
}

ssize_t pread(int descriptor, void *to, size_t bytes, off_t offset) {
    const int64_t before = __atomic_load_n(&disk.reads_left, __ATOMIC_RELAXED);
    ssize_t result;
    if (!disk_allows(&disk.reads_left, &bytes, &result))
        return result;
    result = syscall(SYS_pread64, descriptor, to, bytes, offset);
    if (before == 0 && disk.error == FAULT_FLIPS && result > 0)
        ((char *)to)[result / 2] ^= 16;
    return result;
}

#endif
