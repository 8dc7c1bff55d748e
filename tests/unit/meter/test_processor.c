/* Processors of the shipped trees: kinds, clusters, caches; and trees that say little or nonsense.
 */
#define _GNU_SOURCE

#include "meter/processor.h"

#include "base/memory.h"
#include "check.h"
#include "device_files.h"
#include "failing.h"

static qn_processor *read_device(const char *name) {
    char root[512];
    qn_processor *p = NULL;
    snprintf(root, sizeof root, "%s/tests/devices/%s", getenv("QUERN_SOURCE"), name);
    CHECK_OK(qn_processor_create(NULL, root, &p));
    return p;
}

static bool is_kind(const qn_core_kind *k, const char *name, const char *model, int n_cores,
                    int n_physical) {
    return strcmp(k->name, name) == 0 && strcmp(k->model, model) == 0 && k->n_cores == n_cores &&
           k->n_physical == n_physical;
}

static void test_tx2(void) {
    qn_processor *p = read_device("jetson-tx2");
    CHECK(p->n_cores == 6 && p->n_kinds == 2 && p->n_clusters == 2);
    CHECK(is_kind(&p->kinds[0], "performance", "Denver 2", 2, 2));
    CHECK(is_kind(&p->kinds[1], "efficiency", "Cortex-A57", 4, 4));
    CHECK(strcmp(p->name, "2 x Denver 2 + 4 x Cortex-A57") == 0);
    CHECK(strcmp(p->machine, "quill") == 0 && strcmp(p->isa, "neon") == 0);
    CHECK(p->cores[1].kind == 0 && p->cores[3].kind == 1 && p->kinds[0].first == 1);
    CHECK(p->cores[0].cluster == p->cores[5].cluster && p->cores[0].cluster != p->cores[2].cluster);
    CHECK(qn_processor_cache_bytes(p, 0, 1) == 64 << 10);
    CHECK(qn_processor_cache_bytes(p, 1, 1) == 32 << 10);
    CHECK(qn_processor_cache_bytes(p, 1, 2) == 2 << 20);
    CHECK(qn_processor_cache_bytes(p, 1, 3) == 0);
    CHECK(p->memory_bytes == 8048584LL * 1024);
    qn_processor_destroy(p);
}

static void test_phone(void) {
    qn_processor *p = read_device("snapdragon-phone");
    CHECK(p->n_cores == 8 && p->n_kinds == 3 && p->n_clusters == 3 && p->n_caches == 0);
    CHECK(is_kind(&p->kinds[0], "prime", "Kryo 4xx Gold", 1, 1));
    CHECK(is_kind(&p->kinds[1], "performance", "Kryo 4xx Gold", 3, 3));
    CHECK(is_kind(&p->kinds[2], "efficiency", "Kryo 4xx Silver", 4, 4));
    CHECK(p->kinds[0].most_hz == 2841600000 && p->kinds[2].capacity == 306);
    CHECK(p->cores[7].cluster == 2 && p->cores[4].cluster == 1);
    qn_processor_destroy(p);
}

static void test_pi(void) {
    qn_processor *p = read_device("raspberry-pi-5");
    CHECK(p->n_kinds == 1 && p->n_clusters == 1 &&
          is_kind(&p->kinds[0], "cpu", "Cortex-A76", 4, 4));
    CHECK(p->n_caches == 4 && p->caches[2].n == 4 && p->caches[3].n == 1);
    CHECK(p->caches[3].n_sharing == 4 && p->caches[3].bytes == 2 << 20);
    qn_processor_destroy(p);
}

static void test_laptop(void) {
    qn_processor *p = read_device("intel-laptop");
    CHECK(strcmp(p->name, "12th Gen Intel(R) Core(TM) i3-1215U") == 0);
    CHECK(strcmp(p->isa, "avx2") == 0 && strcmp(p->machine, "Laptop 14") == 0);
    CHECK(p->n_kinds == 2 && p->n_clusters == 2);
    CHECK(is_kind(&p->kinds[0], "performance", p->name, 4, 2));
    CHECK(is_kind(&p->kinds[1], "efficiency", p->name, 4, 4));
    CHECK(p->kinds[0].most_hz == 4400000000 && p->cores[3].first_sibling == 2);
    CHECK(qn_processor_cache_bytes(p, 0, 2) == 1280 << 10);
    CHECK(qn_processor_cache_bytes(p, 1, 2) == 2 << 20);
    CHECK(qn_processor_cache_bytes(p, 1, 3) == 10 << 20);
    qn_processor_destroy(p);
}

/* Cores of which two are offline, as in a power mode; nothing is made up for them. */
static void test_offline(void) {
    const device_files files = device_files_make();
    qn_processor *p = NULL;
    device_files_put(&files, "sys/devices/system/cpu/present", "0-3\n");
    device_files_put(&files, "sys/devices/system/cpu/online", "0,3\n");
    device_files_put(&files, "sys/devices/system/cpu/cpu0/cache/index0/level", "nonsense\n");
    device_files_put(&files, "sys/devices/system/cpu/cpu0/cpufreq/cpuinfo_max_freq", "-5\n");
    device_files_put(&files, "proc/cpuinfo", "processor\nprocessor : 77\nCPU part : zz\n\n: :\n");
    CHECK_OK(qn_processor_create(NULL, files.root, &p));
    CHECK(p->n_cores == 4 && p->n_kinds == 1 && p->kinds[0].n_cores == 2 && p->n_caches == 0);
    CHECK(!p->cores[1].is_online && p->cores[1].kind == -1 && p->cores[1].cluster == -1);
    CHECK(p->cores[3].is_online && p->cores[3].kind == 0 && p->kinds[0].most_hz == 0);
    CHECK(p->memory_bytes == 0 && strcmp(p->name, "2 x unknown core") == 0);
    qn_processor_destroy(p);
    device_files_remove(&files, "");
}

static void test_nothing(void) {
    const device_files files = device_files_make();
    qn_processor *p = NULL;
    CHECK_OK(qn_processor_create(NULL, files.root, &p));
    CHECK(p->n_cores == 0 && p->n_kinds == 0 && p->n_caches == 0 && p->name[0] == 0);
    qn_processor_destroy(p);
    device_files_put(&files, "sys/devices/system/cpu/present", "many\n");
    CHECK_OK(qn_processor_create(NULL, files.root, &p));
    CHECK(p->n_cores == 0);
    qn_processor_destroy(p);
    qn_processor_destroy(NULL);
    device_files_remove(&files, "");
}

static void test_memory(void) {
    char root[512];
    snprintf(root, sizeof root, "%s/tests/devices/intel-laptop", getenv("QUERN_SOURCE"));
    for (int n = 0; n < 100; n++) {
        failing f = {.left = n, .and_after = true};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_processor *p = NULL;
        const qn_status status = qn_processor_create(&allocator, root, &p);
        qn_processor_destroy(p);
        if (status == QN_OK) {
            CHECK(n > 2);
            return;
        }
        CHECK(status == QN_ERROR_MEMORY && !p);
    }
    CHECK(false);
}

/* This device, whatever it is. */
static void test_here(void) {
    qn_processor *p = NULL;
    CHECK_OK(qn_processor_create(NULL, "", &p));
    for (int i = 0; i < p->n_cores; i++)
        CHECK(!p->cores[i].is_online || (p->cores[i].kind >= 0 && p->cores[i].kind < p->n_kinds &&
                                         p->cores[i].cluster < p->n_clusters));
    printf("here: %s, %d cores, isa %s\n", p->name, p->n_cores, p->isa);
    qn_processor_destroy(p);
}

int main(void) {
    if (!getenv("QUERN_SOURCE"))
        setenv("QUERN_SOURCE", ".", 1);
    test_tx2();
    test_phone();
    test_pi();
    test_laptop();
    test_offline();
    test_nothing();
    test_memory();
    test_here();
    return checks_finish();
}
