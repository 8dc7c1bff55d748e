/* Pressure read from a file like the system's: told once when it rises above what is high, and once
 * when it has been calm for long enough; wrong files are refused. Then memory whose pages go back.
 */
#include "check.h"
#include "failing.h"
#include "os/os.h"
#include "os/pages.h"
#include "os/pressure.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

typedef struct told {
    qn_monitor *monitor;
    int n_short, n_calm;
} told;

static void note(void *user, bool is_short) {
    told *t = user;
    qn_monitor_lock(t->monitor);
    *(is_short ? &t->n_short : &t->n_calm) += 1;
    qn_monitor_notify(t->monitor);
    qn_monitor_unlock(t->monitor);
}

static void write_share(const char *path, double percent) {
    FILE *file = fopen(path, "r+");
    fprintf(file, "some avg10=%05.2f avg60=0.00 avg300=0.00 total=0\n", percent);
    fclose(file);
}

/* Whether so often was said within ten seconds. */
static bool wait_told(told *t, const int *count, int wanted) {
    const int64_t until = qn_clock_ns() + 10000000000;
    qn_monitor_lock(t->monitor);
    while (*count < wanted && qn_monitor_wait_until(t->monitor, until))
        ;
    const bool is_told = *count == wanted;
    qn_monitor_unlock(t->monitor);
    return is_told;
}

static void test_file(const char *path) {
    told t = {0};
    qn_pressure *pressure = NULL;
    CHECK_OK(qn_monitor_create(NULL, &t.monitor));
    write_share(path, 0);
    const qn_pressure_options options = {.path = path,
                                         .high_percent = 20,
                                         .calm_ns = 50000000,
                                         .every_ns = 2000000,
                                         .user = &t,
                                         .changed = note};
    CHECK_OK(qn_pressure_open(&options, &pressure));
    for (int round = 1; round <= 2; round++) {
        write_share(path, 31.5);
        CHECK(wait_told(&t, &t.n_short, round));
        write_share(path, 19.5);
        CHECK(wait_told(&t, &t.n_calm, round));
    }
    qn_pressure_close(pressure);
    CHECK(t.n_short == 2 && t.n_calm == 2);
    qn_monitor_destroy(t.monitor);
}

static void test_refused(const char *path) {
    qn_pressure *pressure = NULL;
    const qn_pressure_options missing = {.path = "/nowhere/memory", .changed = note};
    const qn_pressure_options wrong = {.path = path, .changed = note};
    CHECK_FAILS(qn_pressure_open(&missing, &pressure), QN_ERROR_UNSUPPORTED, "/nowhere/memory");
    FILE *file = fopen(path, "w");
    fputs("full avg10=1\n", file);
    fclose(file);
    CHECK_FAILS(qn_pressure_open(&wrong, &pressure), QN_ERROR_UNSUPPORTED, "another form");
    CHECK(pressure == NULL);
}

static void test_allocation_failure(const char *path) {
    for (int64_t n = 0; n < 3; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        const qn_pressure_options options = {
            .allocator = &allocator, .path = path, .changed = note};
        qn_pressure *pressure = NULL;
        CHECK(qn_pressure_open(&options, &pressure) == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
}

/* Pages of ours that are resident. */
static int64_t resident_pages(void) {
    long long size = 0, resident = 0;
    FILE *file = fopen("/proc/self/statm", "r");
    if (!file || fscanf(file, "%lld %lld", &size, &resident) != 2)
        resident = 0;
    if (file)
        fclose(file);
    return resident;
}

/* Whether so many pages are resident; a sanitizer's own are among them, so there nothing is said.
 */
static bool is_resident(int64_t before, int64_t least, int64_t most) {
#ifdef __SANITIZE_THREAD__
    return before >= 0 && least < most;
#else
    const int64_t n = resident_pages() - before;
    return n >= least && n < most;
#endif
}

static void test_pages(void) {
    const size_t bytes = (size_t)64 << 20, kept = (size_t)16 << 20;
    const int64_t pages = (int64_t)(bytes / 4096), before = resident_pages();
    char *memory = NULL;
    CHECK_OK(qn_pages_open(bytes, (void **)&memory));
    CHECK(is_resident(before, -pages, pages / 8));
    memset(memory, 1, bytes);
    CHECK(is_resident(before, pages / 8 * 7, 2 * pages));
    CHECK_OK(qn_pages_resize((void **)&memory, bytes, kept + 1));
    CHECK(is_resident(before, pages / 8, pages / 8 * 3));
    CHECK_OK(qn_pages_resize((void **)&memory, kept + 1, bytes));
    CHECK(memory[0] == 1 && memory[kept] == 1 && memory[kept + 8192] == 0);
    CHECK(qn_pages_resize((void **)&memory, bytes, (size_t)1 << 60) == QN_ERROR_MEMORY);
    CHECK(memory[kept] == 1);
    CHECK_OK(qn_pages_resize((void **)&memory, bytes, 0));
    CHECK(memory == NULL && is_resident(before, -pages, pages / 8));
    CHECK_OK(qn_pages_resize((void **)&memory, 0, 100));
    memory[99] = 1;
    qn_pages_close(memory, 100);
}

int main(void) {
    char path[] = "/tmp/quern-pressure-XXXXXX";
    const int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    test_file(path);
    test_allocation_failure(path);
    test_refused(path);
    unlink(path);
    test_pages();
    return checks_finish();
}
