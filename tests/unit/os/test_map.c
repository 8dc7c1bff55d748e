/* Files as memory that are cut short while they are read: zeros and a failure instead of a signal
 * that ends the process, in every thread; faults of others go to the handler before; more files
 * than the table has places. */
#include "check.h"
#include "os/os.h"

#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PAGES = 4, MANY = 300 };

static char path[] = "/tmp/quern-test-map-XXXXXX";
static size_t page;

/* Makes the file anew: PAGES pages and 100 bytes of ones; mapped. */
static const unsigned char *map_whole(size_t *bytes) {
    const void *memory;
    qn_file *file;
    unsigned char *ones = malloc(PAGES * page + 100);
    *bytes = PAGES * page + 100;
    memset(ones, 1, *bytes);
    const int made = open(path, O_WRONLY | O_TRUNC);
    CHECK(made >= 0 && write(made, ones, *bytes) == (ssize_t)*bytes);
    close(made);
    free(ones);
    CHECK_OK(qn_file_open(NULL, path, &file));
    CHECK_OK(qn_file_map(file, &memory));
    qn_file_close(file);
    return memory;
}

static int sum_of(const unsigned char *memory, size_t bytes) {
    int sum = 0;
    for (size_t i = 0; i < bytes; i++)
        sum += ((const volatile unsigned char *)memory)[i];
    return sum;
}

/* Cut to every length within and between pages. */
static void check_cut(void) {
    const size_t lengths[] = {0, 1, page - 1, page, page + 1, PAGES * page, PAGES * page + 99};
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        size_t bytes;
        const unsigned char *memory = map_whole(&bytes);
        CHECK_OK(qn_file_map_check(memory));
        CHECK(truncate(path, (off_t)lengths[i]) == 0);
        CHECK(sum_of(memory, bytes) <= (int)lengths[i]);
        CHECK_FAILS(qn_file_map_check(memory), QN_ERROR_IO, path);
        CHECK_FAILS(qn_file_map_check(memory + bytes - 1), QN_ERROR_IO, "cut short");
        CHECK_OK(qn_file_map_check(&bytes));
        qn_file_unmap(memory, bytes);
    }
}

/* A longer file, and one that was replaced, are what they were. */
static void check_sound(void) {
    size_t bytes;
    const unsigned char *memory = map_whole(&bytes);
    CHECK(truncate(path, (off_t)(2 * bytes)) == 0);
    CHECK(sum_of(memory, bytes) == (int)bytes);
    CHECK(unlink(path) == 0);
    const int made = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    CHECK(made >= 0 && close(made) == 0);
    CHECK(sum_of(memory, bytes) == (int)bytes);
    CHECK_OK(qn_file_map_check(memory));
    CHECK_FAILS(qn_file_map_check_same(memory), QN_ERROR_IO, "written to"); /* it is longer */
    qn_file_unmap(memory, bytes);
    CHECK_OK(qn_file_map_check(NULL));
}

/* What was forgotten is read again; what was written meanwhile is noticed, though it is as long. */
static void check_same(void) {
    const struct timespec past[] = {{.tv_sec = 1000000000}, {.tv_sec = 1000000000}};
    size_t bytes;
    const unsigned char *memory = map_whole(&bytes);
    qn_file_unmap(memory, bytes);
    CHECK(utimensat(AT_FDCWD, path, past, 0) == 0);
    qn_file *file;
    const void *again;
    CHECK_OK(qn_file_open(NULL, path, &file));
    CHECK_OK(qn_file_map(file, &again));
    qn_file_close(file);
    CHECK(sum_of(again, bytes) == (int)bytes);
    qn_file_forget((const char *)again + page + 1);
    CHECK(sum_of(again, bytes) == (int)bytes);
    CHECK_OK(qn_file_map_check_same(again));
    const int written = open(path, O_WRONLY);
    CHECK(written >= 0 && pwrite(written, "\2", 1, 0) == 1 && close(written) == 0);
    CHECK_OK(qn_file_map_check(again));
    CHECK_FAILS(qn_file_map_check_same(again), QN_ERROR_IO, "written to");
    qn_file_unmap(again, bytes);
    CHECK_OK(qn_file_map_check_same(NULL));
}

typedef struct reading {
    const unsigned char *memory;
    size_t bytes;
    int sum;
} reading;

static void read_all(void *context) {
    reading *r = context;
    r->sum = sum_of(r->memory, r->bytes);
}

static void check_thread(void) {
    qn_thread *thread;
    reading r = {.sum = -1};
    r.memory = map_whole(&r.bytes);
    CHECK(truncate(path, (off_t)page) == 0);
    CHECK_OK(qn_thread_start(NULL, read_all, &r, &thread));
    qn_thread_join(thread);
    CHECK(r.sum == (int)page);
    CHECK_FAILS(qn_file_map_check(r.memory), QN_ERROR_IO, path);
    qn_file_unmap(r.memory, r.bytes);
}

static sigjmp_buf back;
static volatile int n_caught;

static void catch_fault(int number) {
    (void)number;
    n_caught++;
    siglongjmp(back, 1);
}

/* A mapping of the program's own, which nobody gives zeros for. */
static void fault_elsewhere(void) {
    char own[] = "/tmp/quern-test-map-own-XXXXXX";
    const int file = mkstemp(own);
    CHECK(file >= 0 && ftruncate(file, (off_t)page) == 0);
    unsigned char *memory = mmap(NULL, page, PROT_READ, MAP_SHARED, file, 0);
    CHECK(memory != MAP_FAILED && ftruncate(file, 0) == 0);
    if (sigsetjmp(back, 1) == 0)
        (void)sum_of(memory, page);
    munmap(memory, page);
    close(file);
    unlink(own);
}

static void check_others(void) {
    struct sigaction theirs = {.sa_handler = catch_fault}, now;
    size_t bytes;
    CHECK(sigaction(SIGBUS, &theirs, NULL) == 0);
    const unsigned char *memory = map_whole(&bytes);
    fault_elsewhere();
    CHECK(n_caught == 1);
    CHECK(truncate(path, 0) == 0 && sum_of(memory, bytes) == 0 && n_caught == 1);
    qn_file_unmap(memory, bytes);
    CHECK(sigaction(SIGBUS, NULL, &now) == 0 && now.sa_handler == catch_fault);
    fault_elsewhere();
    CHECK(n_caught == 2);
    CHECK(signal(SIGBUS, SIG_DFL) == catch_fault);
}

/* More than there are places for: what has none is read, and does not change any more. */
static void check_many(void) {
    static const void *mapped[MANY];
    qn_file *file;
    size_t bytes;
    const void *first = map_whole(&bytes);
    qn_file_unmap(first, bytes);
    CHECK_OK(qn_file_open(NULL, path, &file));
    for (int i = 0; i < MANY; i++)
        CHECK_OK(qn_file_map(file, &mapped[i]));
    CHECK(truncate(path, 0) == 0);
    for (int i = 0; i < MANY; i++) {
        qn_file_forget(mapped[i]);
        const int sum = sum_of(mapped[i], bytes);
        CHECK(qn_file_map_check(mapped[i]) == QN_OK ? sum == (int)bytes : sum == 0);
        qn_file_unmap(mapped[i], bytes);
    }
    qn_file_close(file);
}

int main(void) {
    page = (size_t)sysconf(_SC_PAGESIZE);
    const int made = mkstemp(path);
    CHECK(made >= 0 && close(made) == 0);
    check_cut();
    check_sound();
    check_same();
    check_thread();
    check_others();
    check_many();
    unlink(path);
    return checks_finish();
}
