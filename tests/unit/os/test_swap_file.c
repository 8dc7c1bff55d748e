/* The swap file: what comes back is what went, in any order, through a disk that stutters and under
 * signals; every failure of the disk is an error that names the folder; nothing stays in memory. */
#define _GNU_SOURCE
#include "check.h"
#include "failing.h"
#include "faulty_disk.h"
#include "os/files/swap_file.h"
#include "os/os.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/vfs.h>

enum { MIB = 1024 * 1024, N_SIZES = 7, TMPFS = 0x01021994 };

static char root[] = "/var/tmp/quern-test-swap-XXXXXX";

/* Odd ones and whole ones, below, at and above a piece. */
static const size_t sizes[N_SIZES] = {1,          4095,         4096,          512 * 1024 - 4,
                                      512 * 1024, 3 * MIB + 12, 5 * MIB + 4096};

typedef struct buffers {
    char *from[N_SIZES], *to[N_SIZES];
    int64_t offsets[N_SIZES], bytes;
} buffers;

static void fill(char *memory, size_t bytes, uint32_t seed) {
    for (size_t i = 0; i < bytes; i++) {
        seed = seed * 1664525 + 1013904223;
        memory[i] = (char)(seed >> 24);
    }
}

static buffers make_buffers(void) {
    buffers b = {.bytes = 0};
    for (int i = 0; i < N_SIZES; i++) {
        b.from[i] = malloc(sizes[i]);
        b.to[i] = calloc(1, sizes[i]);
        if (!b.from[i] || !b.to[i])
            abort();
        fill(b.from[i], sizes[i], (uint32_t)i + 7);
        b.offsets[i] = b.bytes;
        b.bytes += (int64_t)((sizes[i] + QN_SWAP_FILE_BLOCK - 1) / QN_SWAP_FILE_BLOCK *
                             QN_SWAP_FILE_BLOCK);
    }
    return b;
}

static void free_buffers(buffers *b) {
    for (int i = 0; i < N_SIZES; i++) {
        free(b->from[i]);
        free(b->to[i]);
    }
}

/* Writes all, reads all back in the other order, and says what became of it. */
static qn_status go_round(qn_swap_file *swap, buffers *b) {
    uint64_t sums[N_SIZES];
    for (int i = 0; i < N_SIZES; i++)
        qn_swap_file_begin_write(swap, i, b->offsets[i], b->from[i], sizes[i]);
    for (int i = N_SIZES - 1; i >= 0; i--)
        sums[i] = qn_swap_file_end_write(swap, i);
    for (int i = N_SIZES - 1; i >= 0; i--)
        qn_swap_file_begin_read(swap, i, b->offsets[i], b->to[i], sizes[i]);
    for (int i = 0; i < N_SIZES; i++)
        qn_swap_file_end_read(swap, i, sums[i]);
    return qn_swap_file_settle(swap);
}

static bool are_equal(const buffers *b) {
    for (int i = 0; i < N_SIZES; i++) {
        if (memcmp(b->from[i], b->to[i], sizes[i]) != 0)
            return false;
    }
    return true;
}

static qn_swap_file *open_swap(const buffers *b) {
    qn_swap_file *swap = NULL;
    CHECK_OK(qn_swap_file_open(NULL, root, b->bytes, N_SIZES, &swap));
    return swap;
}

/* Pages of our nameless file that are in memory; -1: there is no such file. */
static int64_t count_cached_pages(int64_t bytes) {
    char link[64], target[PATH_MAX];
    const size_t n_pages = (size_t)bytes / 4096;
    int64_t n = -1;
    for (int d = 0; d < 64 && n < 0; d++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", d);
        const ssize_t length = readlink(link, target, sizeof target - 1);
        if (length < 0 || strncmp(target, root, sizeof root - 1) != 0)
            continue;
        unsigned char *pages = calloc(n_pages, 1);
        void *map = mmap(NULL, (size_t)bytes, PROT_READ, MAP_SHARED, d, 0);
        if (pages && map != MAP_FAILED && mincore(map, (size_t)bytes, pages) == 0) {
            n = 0;
            for (size_t i = 0; i < n_pages; i++)
                n += pages[i] & 1;
        }
        if (map != MAP_FAILED)
            munmap(map, (size_t)bytes);
        free(pages);
    }
    return n;
}

static void check_round_trips(void) {
    buffers b = make_buffers();
    for (int direct = 1; direct >= 0; direct--) {
        disk_reset();
        disk.n_refused = !direct;
        qn_swap_file *swap = open_swap(&b);
        if (!direct)
            CHECK(!qn_swap_file_is_direct(swap));
        CHECK(strcmp(qn_swap_file_folder(swap), root) == 0 && qn_swap_file_bytes(swap) == b.bytes);
        for (int round = 0; round < 3; round++) {
            fill(b.from[5], sizes[5], (uint32_t)round);
            CHECK_OK(go_round(swap, &b));
            CHECK(are_equal(&b));
        }
        CHECK(count_cached_pages(b.bytes) == 0);
        disk.stutters = true;
        fill(b.from[5], sizes[5], 99);
        CHECK_OK(go_round(swap, &b));
        CHECK(are_equal(&b));
        CHECK(!qn_swap_file_has_failed(swap));
        qn_swap_file_close(swap);
    }
    qn_swap_file_close(NULL);
    free_buffers(&b);
}

/* The first and a later call of a kind fail; afterwards the file is as good as before. */
static void check_faults(void) {
    static const struct {
        int error;
        bool of_write, of_read;
        const char *text;
    } faults[] = {
        {ENOSPC, true, false, "No space left"},
        {EIO, true, true, "Input/output error"},
        {FAULT_ENDS, true, true, "ended early"},
        {FAULT_FLIPS, false, true, "not what was written"},
    };
    buffers b = make_buffers();
    disk_reset();
    qn_swap_file *swap = open_swap(&b);
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        for (int64_t call = 0; call < 15; call += 7) {
            disk.error = faults[i].error;
            if (faults[i].of_write) {
                disk.writes_left = call;
                CHECK_FAILS(go_round(swap, &b), QN_ERROR_IO, faults[i].text);
                CHECK(strstr(qn_error_message(), root) && strstr(qn_error_message(), "write"));
            }
            disk.writes_left = -1;
            if (faults[i].of_read) {
                disk.reads_left = call;
                CHECK_FAILS(go_round(swap, &b), QN_ERROR_IO, faults[i].text);
                CHECK(strstr(qn_error_message(), root) && strstr(qn_error_message(), "read back"));
            }
            disk_reset();
            memset(b.to[5], 0, sizes[5]);
            CHECK_OK(go_round(swap, &b));
            CHECK(are_equal(&b));
        }
    }
    qn_swap_file_close(swap);
    free_buffers(&b);
}

/* A read of bytes that somebody else wrote over is not what its sum says. */
static void check_sums(void) {
    buffers b = make_buffers();
    qn_swap_file *swap = open_swap(&b);
    qn_swap_file_begin_write(swap, 0, 0, b.from[5], sizes[5]);
    const uint64_t sum = qn_swap_file_end_write(swap, 0);
    for (size_t at = 0; at < sizes[5]; at += sizes[5] / 5) {
        b.from[5][at] ^= 1;
        qn_swap_file_begin_write(swap, 1, 0, b.from[5], sizes[5]);
        CHECK(qn_swap_file_end_write(swap, 1) != sum);
        qn_swap_file_begin_read(swap, 2, 0, b.to[5], sizes[5]);
        qn_swap_file_end_read(swap, 2, sum);
        CHECK(qn_swap_file_has_failed(swap));
        CHECK_FAILS(qn_swap_file_settle(swap), QN_ERROR_IO, "not what was written");
        b.from[5][at] ^= 1;
    }
    /* the same pieces in another order */
    memcpy(b.to[6], b.from[6] + MIB, MIB);
    memcpy(b.to[6] + MIB, b.from[6], MIB);
    qn_swap_file_begin_write(swap, 0, 0, b.from[6], 2 * (size_t)MIB);
    const uint64_t straight = qn_swap_file_end_write(swap, 0);
    qn_swap_file_begin_write(swap, 0, 0, b.to[6], 2 * (size_t)MIB);
    CHECK(qn_swap_file_end_write(swap, 0) != straight);
    CHECK_OK(qn_swap_file_settle(swap));
    qn_swap_file_close(swap);
    free_buffers(&b);
}

/* Calls of the disk until the last of 40 writes is done, which is waited for at once. */
static int64_t calls_until_last(void) {
    enum { N = 40 };
    static char memory[N][4096];
    qn_swap_file *swap;
    disk_reset();
    CHECK_OK(qn_swap_file_open(NULL, root, N * 4096, N, &swap));
    disk.delay_ns = 10000000;
    for (int i = 0; i < N; i++)
        qn_swap_file_begin_write(swap, i, i * 4096, memory[i], sizeof memory[i]);
    qn_swap_file_end_write(swap, N - 1);
    const int64_t n_calls = __atomic_load_n(&disk.n_calls, __ATOMIC_RELAXED);
    CHECK_OK(qn_swap_file_settle(swap));
    CHECK(disk.n_calls >= N);
    disk.delay_ns = 0;
    qn_swap_file_close(swap);
    return n_calls;
}

/* What is waited for does not wait for what began before it. Where other programs hold this thread
 * up, the disk goes on meanwhile: then once more. */
static void check_turns(void) {
    int64_t least = calls_until_last();
    for (int tries = 0; tries < 10 && least >= 20; tries++) {
        const int64_t n_calls = calls_until_last();
        least = n_calls < least ? n_calls : least;
    }
    CHECK(least < 20);
}

static void on_alarm(int signal) {
    (void)signal;
}

static void check_signals(void) {
    const struct itimerval often = {{0, 500}, {0, 500}}, never = {{0, 0}, {0, 0}};
    const struct sigaction action = {.sa_handler = on_alarm}; /* no SA_RESTART */
    buffers b = make_buffers();
    qn_swap_file *swap = open_swap(&b);
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &often, NULL);
    for (int i = 0; i < 5; i++) {
        memset(b.to[6], 0, sizes[6]);
        CHECK_OK(go_round(swap, &b));
        CHECK(are_equal(&b));
    }
    setitimer(ITIMER_REAL, &never, NULL);
    qn_swap_file_close(swap);
    free_buffers(&b);
}

static void check_refusals(void) {
    qn_swap_file *swap;
    char path[PATH_MAX];
    struct statfs status;
    struct rlimit old, small;
    disk_reset();
    snprintf(path, sizeof path, "%s/none", root);
    CHECK_FAILS(qn_swap_file_open(NULL, path, MIB, 1, &swap), QN_ERROR_IO, path);
    CHECK_FAILS(qn_swap_file_open(NULL, "/proc/self/exe", MIB, 1, &swap), QN_ERROR_IO, "Not a dir");
    CHECK_FAILS(qn_swap_file_open(NULL, root, INT64_C(1) << 52, 1, &swap), QN_ERROR_IO, "reserve");
    if (statfs("/dev/shm", &status) == 0 && status.f_type == TMPFS)
        CHECK_FAILS(qn_swap_file_open(NULL, "/dev/shm", MIB, 1, &swap), QN_ERROR_ARGUMENT,
                    "kept in memory");
    getrlimit(RLIMIT_FSIZE, &old);
    small = (struct rlimit){MIB, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &small);
    CHECK_FAILS(qn_swap_file_open(NULL, root, MIB + 4096, 1, &swap), QN_ERROR_IO, "ulimit");
    CHECK_OK(qn_swap_file_open(NULL, root, MIB, 1, &swap));
    qn_swap_file_close(swap);
    setrlimit(RLIMIT_FSIZE, &old);
    disk.writes_left = 0;
    disk.error = EIO;
    CHECK_FAILS(qn_swap_file_open(NULL, root, MIB, 1, &swap), QN_ERROR_IO, "Input/output");
    disk_reset();
}

static void check_failing_allocations(void) {
    qn_swap_file *swap;
    int n = 0;
    for (bool is_done = false; !is_done; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        const qn_status status = qn_swap_file_open(&allocator, root, MIB, 3, &swap);
        is_done = status == QN_OK;
        CHECK(is_done || status == QN_ERROR_MEMORY);
        if (is_done)
            qn_swap_file_close(swap);
        CHECK(f.held_bytes == 0);
    }
    CHECK(n > 8);
}

int main(void) {
    if (!mkdtemp(root))
        return 1;
    check_round_trips();
    check_faults();
    check_sums();
    check_turns();
    check_signals();
    check_refusals();
    check_failing_allocations();
    CHECK(rmdir(root) == 0); /* it is empty */
    return checks_finish();
}
