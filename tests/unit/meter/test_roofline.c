/* The roofline: what it says of work, keeping it, files that are no good, the loops it is measured
 * with, and a measurement of this machine, of which only what must hold anywhere is asked. */
#define _GNU_SOURCE

#include "meter/roofline.h"

#include "base/memory.h"
#include "check.h"
#include "device_files.h"
#include "failing.h"
#include "kernels/peak.h"

static const qn_roofline machine = {
    .machine = "made",
    .n_peaks = 3,
    .peaks = {{"performance", "f32", 2, 4e9, 7e9},
              {"performance", "f64", 2, 2e9, 3.5e9},
              {"efficiency", "f32", 4, 1e9, 3e9}},
    .n_levels = 3,
    .levels = {{"L1", 1000, 6000, 4e9, 20e9, 3e9},
               {"L2", 10000, 20000, 2e9, 8e9},
               {"DRAM", 0, 0, 1e9, 1.5e9}},
};

static void test_answers(void) {
    const qn_roofline none = {.n_peaks = 0};
    CHECK(qn_roofline_flops(&machine, "f32", 1) == 4e9);
    CHECK(qn_roofline_flops(&machine, "f32", 6) == 10e9);
    CHECK(qn_roofline_flops(&machine, "f32", 99) == 10e9);
    CHECK(qn_roofline_flops(&machine, "f64", 1) == 2e9);
    CHECK(isnan(qn_roofline_flops(&machine, "bf16", 1)));
    CHECK(isnan(qn_roofline_flops(&machine, NULL, 1)));
    CHECK(qn_roofline_bandwidth(&machine, 1, INFINITY) == 1e9);
    CHECK(qn_roofline_bandwidth(&machine, 6, INFINITY) == 1.5e9);
    CHECK(qn_roofline_bandwidth(&machine, 1, 1000) == 4e9);
    CHECK(qn_roofline_bandwidth(&machine, 1, 1001) == 2e9);
    CHECK(qn_roofline_bandwidth(&machine, 4, 4000) == 16e9); /* four times the first level */
    CHECK(qn_roofline_bandwidth(&machine, 6, 20000) == 8e9);
    CHECK(qn_roofline_bandwidth(&machine, 6, 20001) == 1.5e9);
    CHECK(isnan(qn_roofline_flops(&none, "f32", 1)));
    CHECK(isnan(qn_roofline_bandwidth(&none, 1, 1)));
}

/* ---- keeping ---- */

#define DRAM                                                                                       \
    "{\"name\":\"DRAM\",\"bytes\":0,\"all_bytes\":0,\"bandwidth\":1e9,\"all_bandwidth\":1e9}"
#define L1 "{\"name\":\"L1\",\"bytes\":10,\"all_bytes\":10,\"bandwidth\":1e9,\"all_bandwidth\":1e9}"
#define PEAK(N, FLOPS)                                                                             \
    "{\"core\":\"cpu\",\"dtype\":\"f32\",\"n_cores\":" N ",\"flops\":" FLOPS ",\"all_flops\":1e9}"
#define WHOLE(PEAKS, LEVELS)                                                                       \
    ("{\"machine\":\"made\",\"peaks\":[" PEAKS "],\"levels\":[" LEVELS "]}")

static const char *const broken[] = {
    "",
    "null",
    "[1, 2",
    WHOLE("", ""),
    "{\"machine\":3,\"peaks\":[],\"levels\":[]}",
    "{\"machine\":\"made\",\"peaks\":{},\"levels\":7}",
    WHOLE(PEAK("1", "1e9"), ""),
    WHOLE(PEAK("1", "1e9"), L1),
    WHOLE(PEAK("1", "-1"), DRAM),
    WHOLE(PEAK("1e99", "1e9"), DRAM),
    WHOLE(PEAK("1", "1e999"), DRAM),
    WHOLE(PEAK("1", "\"fast\""), DRAM),
    WHOLE(PEAK("1", "1e9"), "{\"name\":\"DRAM\",\"bytes\":0,\"all_bytes\":0,\"bandwidth\":1e9,"
                            "\"all_bandwidth\":1e9,\"beside_bandwidth\":-1}"),
};

static void test_broken_text(void) {
    const char *whole = WHOLE(PEAK("1", "1e9"), L1 "," DRAM);
    qn_roofline r;
    qn_roofline_parse(whole, strlen(whole), &r);
    CHECK(r.n_peaks == 1 && r.n_levels == 2 && r.peaks[0].flops == 1e9);
    for (size_t i = 0; i < sizeof broken / sizeof *broken; i++) {
        qn_roofline_parse(broken[i], strlen(broken[i]), &r);
        CHECK(r.n_peaks == 0 && r.n_levels == 0 && r.machine[0] == 0);
    }
}

static void find_file(const device_files *files, char *path, size_t bytes) {
    char command[256], name[128] = "";
    snprintf(command, sizeof command, "ls %s/quern", files->root);
    FILE *listing = popen(command, "r");
    CHECK(listing && fgets(name, sizeof name, listing));
    if (listing)
        pclose(listing);
    name[strcspn(name, "\n")] = 0;
    snprintf(path, bytes, "quern/%s", name);
}

/* Saved and loaded again; cut short anywhere, it counts as none; so does another machine's. */
static void test_keeping(void) {
    const device_files files = device_files_make();
    char path[160], whole[256], text[4096];
    qn_roofline kept = machine, loaded;
    setenv("XDG_CACHE_HOME", files.root, 1);
    CHECK_OK(qn_roofline_load(NULL, &loaded));
    CHECK(loaded.n_peaks == 0);
    CHECK_OK(qn_roofline_machine(NULL, kept.machine, sizeof kept.machine));
    CHECK_OK(qn_roofline_save(&kept));
    CHECK_OK(qn_roofline_load(NULL, &loaded));
    CHECK(memcmp(&loaded, &kept, sizeof kept) == 0);

    find_file(&files, path, sizeof path);
    snprintf(whole, sizeof whole, "%s/%s", files.root, path);
    FILE *file = fopen(whole, "r");
    const size_t bytes = file ? fread(text, 1, sizeof text - 1, file) : 0;
    if (file)
        fclose(file);
    CHECK(bytes > 100);
    int n_wrong = 0;
    for (size_t cut = 0; cut + 2 < bytes; cut++) {
        qn_roofline_parse(text, cut, &loaded);
        n_wrong += loaded.n_peaks != 0;
    }
    CHECK(n_wrong == 0);
    device_files_put(&files, path, "%.*s", (int)bytes / 2, text);
    CHECK_OK(qn_roofline_load(NULL, &loaded));
    CHECK(loaded.n_peaks == 0);
    text[bytes] = 0;
    memcpy(strstr(text, kept.machine), "Z", 1);
    device_files_put(&files, path, "%s", text);
    CHECK_OK(qn_roofline_load(NULL, &loaded));
    CHECK(loaded.n_peaks == 0);

    /* A cache folder that cannot be: loading finds nothing, saving says so. */
    device_files_put(&files, "file", "no folder");
    snprintf(whole, sizeof whole, "%s/file", files.root);
    setenv("XDG_CACHE_HOME", whole, 1);
    setenv("TMPDIR", whole, 1);
    CHECK_OK(qn_roofline_load(NULL, &loaded));
    CHECK(loaded.n_peaks == 0);
    CHECK_FAILS(qn_roofline_save(&kept), QN_ERROR_IO, "cannot make folder");
    device_files_remove(&files, "");
}

/* ---- loops ---- */

static void test_loops(qn_isa isa) {
    enum { N = 8 * QN_PEAK_STEP };
    _Alignas(QN_ALIGNMENT) static float a[N], b[N], y[N + 1];
    const qn_peak_loops *loops = qn_peak_get(isa);
    /* Registers count from 0 by terms and settle at term / (1 - factor). */
    const int64_t n_f32 = loops->f32_flops / 2, n_f64 = loops->f64_flops / 2;
    CHECK(fabs(loops->f32(200, 0.5F, 1) - 2.0 * (double)n_f32) < 1e-3);
    CHECK(fabs(loops->f64(200, 0.5, 1) - 2.0 * (double)n_f64) < 1e-9);
    CHECK(n_f32 == 2 * n_f64);
    for (int i = 0; i < N; i++) {
        a[i] = (float)i;
        b[i] = (float)(i % 13);
    }
    y[N] = 77;
    loops->triad(N, 2, a, b, y);
    int n_wrong = 0;
    for (int i = 0; i < N; i++)
        n_wrong += y[i] != a[i] + 2 * b[i];
    CHECK(n_wrong == 0 && y[N] == 77);
}

/* ---- measuring ---- */

static void count_tells(void *user, const char *what, double done) {
    double *last = user;
    CHECK(what[0] && done >= *last && done < 1);
    *last = done;
}

static void test_measuring(void) {
    qn_roofline r;
    double last = 0;
    CHECK_OK(qn_roofline_measure(NULL, &r, &last, count_tells));
    CHECK(r.machine[0] && r.n_peaks >= 2 && r.n_levels >= 1 && last > 0.3);
    for (int i = 0; i < r.n_peaks; i++)
        CHECK(r.peaks[i].flops > 1e6 && r.peaks[i].all_flops >= r.peaks[i].flops &&
              r.peaks[i].n_cores >= 1);
    for (int i = 0; i < r.n_levels; i++)
        CHECK(r.levels[i].bandwidth > 1e6 && r.levels[i].all_bandwidth >= r.levels[i].bandwidth);
    CHECK(strcmp(r.levels[r.n_levels - 1].name, "DRAM") == 0 &&
          r.levels[r.n_levels - 1].bytes == 0);
    CHECK(qn_roofline_flops(&r, "f32", 1) > 0 && qn_roofline_bandwidth(&r, 2, 1) > 0);
    for (int i = 0; i < r.n_peaks; i++)
        printf("%s %s: %.4g GFLOP/s one core, %.4g all %d\n", r.peaks[i].core, r.peaks[i].dtype,
               r.peaks[i].flops * 1e-9, r.peaks[i].all_flops * 1e-9, r.peaks[i].n_cores);
    for (int i = 0; i < r.n_levels; i++)
        printf("%s: %.4g GB/s one core, %.4g all\n", r.levels[i].name, r.levels[i].bandwidth * 1e-9,
               r.levels[i].all_bandwidth * 1e-9);
}

/* Up to where threads are started one by one. */
static void test_failing_allocation(void) {
    qn_roofline r = {.n_peaks = 77};
    for (int n = 0; n < 16; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        CHECK(qn_roofline_measure(&allocator, &r, NULL, NULL) == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0 && r.n_peaks == 77);
    }
}

int main(void) {
    qn_isa best;
    CHECK_OK(qn_cpu_isa(&best));
    test_answers();
    test_broken_text();
    test_keeping();
    test_loops(QN_ISA_REF);
    test_loops(best);
    test_failing_allocation();
    test_measuring();
    return checks_finish();
}
