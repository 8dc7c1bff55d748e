/* What other programs use of a machine: texts of /proc/stat as kernels write them and as they never
 * would, and the part of others between two moments, worked out by hand. */
#define _GNU_SOURCE

#include "meter/load.h"

#include "check.h"
#include "device_files.h"
#include "os/process/cpu_time.h"

#include <math.h>

#define TICK INT64_C(10000000)

static void test_parse(void) {
    const qn_load load = qn_load_parse("cpu  100 20 30 1000 50 5 6 7 900 900\ncpu0 1 2 3 4\n");
    CHECK(load.is_known && load.own_ns == 0);
    CHECK(load.busy_ns == (100 + 20 + 30 + 5 + 6 + 7) * TICK); /* guests are in the first two */
    CHECK(load.all_ns == load.busy_ns + (1000 + 50) * TICK);
    const qn_load old = qn_load_parse("cpu 1 2 3 4\n");
    CHECK(old.is_known && old.busy_ns == 6 * TICK && old.all_ns == 10 * TICK);
}

static void test_nonsense(void) {
    static const char *const texts[] = {
        "",     "cpu", "cpu ", "cpu  1 2 3\n", "cpu0 1 2 3 4\n", "intr 1 2 3 4\n", "cpu -1 2 3 4\n",
        "cpu x"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        CHECK(!qn_load_parse(texts[i]).is_known);
    const qn_load huge = qn_load_parse("cpu 99999999999999999999999 1 99999999999999 4 5 6 7 8");
    CHECK(huge.is_known && huge.busy_ns > 0 && huge.busy_ns <= huge.all_ns);
}

/* A second of two processors, in ticks; own_s of it by the process itself. */
static double others_of(int64_t busy_ticks, double own_s) {
    const qn_load begin = {true, 500 * TICK, 100 * TICK, 40 * TICK};
    const qn_load end = {true, 700 * TICK, (100 + busy_ticks) * TICK,
                         40 * TICK + (int64_t)(own_s * 1e9)};
    return qn_load_others(&begin, &end);
}

static void test_others(void) {
    const qn_load known = {true, 500 * TICK, 100 * TICK, 0}, unknown = {0};
    const qn_load soon = {true, 509 * TICK, 105 * TICK, 0};
    CHECK(fabs(others_of(150, 1.5)) < 1e-12);
    CHECK(fabs(others_of(200, 1.5) - 0.25) < 1e-12);
    CHECK(fabs(others_of(200, 0) - 1) < 1e-12);
    CHECK(others_of(100, 1.02) == 0); /* ticks lag behind nanoseconds */
    CHECK(isnan(qn_load_others(&known, &soon)));
    CHECK(isnan(qn_load_others(&unknown, &known)) && isnan(qn_load_others(&known, &unknown)));
    CHECK(isnan(qn_load_others(&known, &known)));
}

static void test_read(void) {
    const device_files files = device_files_make();
    device_files_put(&files, "proc/stat", "cpu  10 0 0 90\n");
    const qn_load tree = qn_load_read(files.root, 1);
    CHECK(tree.is_known && tree.own_ns == 0 && tree.busy_ns == 10 * TICK);
    device_files_remove(&files, "proc/stat");
    CHECK(!qn_load_read(files.root, 1).is_known);
    device_files_remove(&files, "");
    const qn_load here = qn_load_read("", qn_process_id());
    CHECK(!here.is_known || (here.own_ns > 0 && here.busy_ns <= here.all_ns));
    CHECK(!qn_load_read("", INT64_C(1) << 40).is_known);
}

int main(void) {
    test_parse();
    test_nonsense();
    test_others();
    test_read();
    return checks_finish();
}
