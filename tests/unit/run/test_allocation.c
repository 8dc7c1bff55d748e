/* Running out of memory at every allocation in turn, and no allocation in a step, watched or not.
 */
#include "base/memory.h"
#include "check.h"
#include "os/heap.h"
#include "quern/quern.h"
#include "run/watch.h"
#include "small_models.h"

#include <stdlib.h>
#include <unistd.h>

/* Counts calls of the C library's heap by standing before it, where no sanitizer does that. */
static _Atomic int64_t n_heap_calls;

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define HEAP_IS_TAKEN
#endif
#endif
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__) || !defined(__GLIBC__)
#define HEAP_IS_TAKEN
#endif
#ifndef HEAP_IS_TAKEN
void *__libc_malloc(size_t bytes);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *memory, size_t bytes);

void *malloc(size_t bytes) {
    n_heap_calls++;
    return __libc_malloc(bytes);
}

void *calloc(size_t count, size_t size) {
    n_heap_calls++;
    return __libc_calloc(count, size);
}

void *realloc(void *memory, size_t bytes) {
    n_heap_calls++;
    return __libc_realloc(memory, bytes);
}
#endif

/* Fails the allocation number `failing` (from 0), and counts all. */
typedef struct failing_heap {
    int64_t failing, n_allocations, held_bytes;
} failing_heap;

static void *heap_allocate(void *user, size_t bytes, size_t align) {
    failing_heap *heap = user;
    if (heap->n_allocations++ == heap->failing)
        return NULL;
    void *memory = aligned_alloc(align, (bytes + align - 1) / align * align);
    heap->held_bytes += memory ? (int64_t)bytes : 0;
    return memory;
}

static void heap_release(void *user, void *memory, size_t bytes) {
    failing_heap *heap = user;
    heap->held_bytes -= memory ? (int64_t)bytes : 0;
    free(memory);
}

static const char *path;
static qn_cores_choice cores; /* of the engines below */

/* Makes a trainer, does a step and an evaluation, saves and loads. */
static qn_status whole_run(const qn_allocator *allocator, qn_trainer **trainer,
                           qn_metadata **metadata) {
    static _Alignas(64) float x[6 * 8 * 8 * 3];
    static _Alignas(64) int32_t y[6];
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_step_result result;
    qn_evaluation sum = {0};
    o.engine.allocator = allocator;
    o.engine.n_threads = 2;
    o.engine.cores = cores;
    o.engine.update.accumulate = 2;
    qn_status status = qn_trainer_create(&o, trainer);
    for (int i = 0; i < 2 && status == QN_OK; i++)
        status = qn_trainer_step(*trainer, x, y, &result);
    if (status == QN_OK)
        status = qn_trainer_evaluate(*trainer, x, y, 6, &sum);
    if (status == QN_OK)
        status = qn_metadata_create(allocator, metadata);
    if (status == QN_OK)
        status = qn_metadata_set(*metadata, "model", "small");
    if (status == QN_OK)
        status = qn_checkpoint_save(qn_trainer_engine(*trainer), *metadata, path);
    if (status == QN_OK)
        status = qn_checkpoint_load(qn_trainer_engine(*trainer), path, true);
    qn_metadata_destroy(*metadata);
    *metadata = NULL;
    if (status == QN_OK)
        status = qn_checkpoint_read(allocator, path, metadata);
    return status;
}

static void test_failures(void) {
    failing_heap heap = {0};
    const qn_allocator allocator = {&heap, heap_allocate, heap_release};
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    const int stride = cores == QN_CORES_AUTO ? 7 : 1; /* the others differ only there */
    for (; status != QN_OK && n < 100000; n += stride) {
        qn_trainer *trainer = NULL;
        qn_metadata *metadata = NULL;
        heap = (failing_heap){.failing = n};
        status = whole_run(&allocator, &trainer, &metadata);
        qn_metadata_destroy(metadata);
        qn_trainer_destroy(trainer);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(heap.held_bytes == 0);
    }
    CHECK(status == QN_OK);
    printf("%lld allocations failed in turn\n", (long long)n - 1);
}

/* Neither the allocator nor the C library's heap sees an allocation while steps run. */
static void test_steps(bool is_watched) {
    static _Alignas(64) float x[6 * 8 * 8 * 3];
    static _Alignas(64) int32_t y[6];
    failing_heap heap = {.failing = -1};
    const qn_allocator allocator = {&heap, heap_allocate, heap_release};
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_trainer *trainer = NULL;
    o.engine.allocator = &allocator;
    o.engine.n_threads = 2;
    o.engine.cores = cores;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    qn_events *events = NULL;
    CHECK_OK(qn_events_create(qn_allocator_default(), 2, 4096, &events));
    qn_engine_watch(qn_trainer_engine(trainer), is_watched ? events : NULL);
    const int64_t before = heap.n_allocations, n_calls = n_heap_calls;
    for (int i = 0; i < 30; i++) { /* with two plans: beyond their comparison */
        qn_step_result result;
        qn_evaluation sum = {0};
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
        CHECK_OK(qn_trainer_evaluate(trainer, x, y, 6, &sum));
    }
    CHECK(heap.n_allocations == before);
    CHECK(n_heap_calls == n_calls);
    CHECK((qn_events_waiting(events, 0) > 0) == is_watched);
    CHECK(is_watched || qn_events_waiting(events, 1) == 0); /* a thread may come too late */
    qn_trainer_destroy(trainer);
    qn_events_destroy(events);
    CHECK(heap.held_bytes == 0);
}

/* Nor while a meter samples and moves what it is told. */
static void test_metered_steps(void) {
    static _Alignas(64) float x[6 * 8 * 8 * 3];
    static _Alignas(64) int32_t y[6];
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_trainer *trainer = NULL;
    qn_meter *meter = NULL;
    o.engine.n_threads = 2;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    const qn_meter_options options = {QN_OPTIONS_INIT(qn_meter_options),
                                      .engine = qn_trainer_engine(trainer), .interval_ns = 1000000};
    CHECK_OK(qn_meter_start(&options, &meter));
    const int64_t n_calls = n_heap_calls;
    for (int i = 0; i < 100; i++) {
        qn_step_result result;
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
        qn_meter_mark(meter);
    }
    CHECK(n_heap_calls == n_calls);
    qn_meter_destroy(meter);
    qn_trainer_destroy(trainer);
}

int main(void) {
    char file[64];
    snprintf(file, sizeof file, "/tmp/quern-allocation-%ld.safetensors", (long)getpid());
    path = file;
#ifndef HEAP_IS_TAKEN
    void *volatile block = malloc(1); /* volatile: clang drops a pair that nobody looks at */
    free(block);
    CHECK(n_heap_calls > 0);
#endif
    test_steps(false);
    test_steps(true);
    test_metered_steps();
    test_failures();
    setenv("XDG_CACHE_HOME", "/proc/none", 1); /* no schedule is kept */
    cores = QN_CORES_AUTO;
    test_failures();
    test_steps(false);
    cores = QN_CORES_ONE_BY_ONE;
    remove(file);
    return checks_finish();
}
