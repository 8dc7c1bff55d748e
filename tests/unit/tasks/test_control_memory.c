/* The task control runs out of memory cleanly at every allocation in turn, and a game goes on as if
 * no test had been played. */
#include "base/status.h"
#include "check.h"
#include "quern/quern.h"
#include "quern/task.h"

#include <stdlib.h>

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

/* On failure nothing is open. */
static qn_status open_task(const qn_allocator *allocator, qn_metadata **settings, qn_task **task) {
    static const char *const pairs[][2] = {{"data", "cartpole"}, {"net", "mlp"},  {"fill", "20"},
                                           {"replay", "100"},    {"steps", "10"}, {"batch", "4"},
                                           {"episodes", "2"},    {"lr", "0.001"}};
    QN_TRY(qn_metadata_create(allocator, settings));
    qn_status status = QN_OK;
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0] && status == QN_OK; i++)
        status = qn_metadata_set(*settings, pairs[i][0], pairs[i][1]);
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,
                                     .engine.allocator = allocator,
                                     .model = qn_model_find("dqn"),
                                     .settings = *settings,
                                     .training = true,
                                     .engine.n_threads = 1};
    if (status == QN_OK)
        status = qn_task_open(&options, task);
    if (status != QN_OK)
        qn_metadata_destroy(*settings);
    return status;
}

/* Some steps; with a test after each or not. */
static qn_status play(qn_task *task, bool has_tests, double *loss) {
    qn_metrics metrics, tested;
    int64_t n;
    qn_status status = QN_OK;
    for (int i = 0; i < 6 && status == QN_OK; i++) {
        status = qn_task_step(task, &metrics);
        if (status == QN_OK && has_tests)
            status = qn_task_evaluate(task, QN_TEST, NULL, NULL, &tested, &n);
    }
    *loss = qn_metrics_get(&metrics, "loss");
    return status;
}

static qn_status whole_run(const qn_allocator *allocator, bool has_tests, double *loss) {
    qn_metadata *settings;
    qn_task *task;
    QN_TRY(open_task(allocator, &settings, &task));
    qn_status status = play(task, has_tests, loss);
    qn_task_close(task);
    qn_metadata_destroy(settings);
    return status;
}

static void test_out_of_memory(void) {
    failing_heap heap = {.failing = -1};
    const qn_allocator allocator = {&heap, heap_allocate, heap_release};
    double loss;
    CHECK_OK(whole_run(&allocator, true, &loss));
    CHECK(heap.held_bytes == 0);
    const int64_t n = heap.n_allocations;
    for (int64_t failing = 0; failing < n; failing++) {
        heap = (failing_heap){.failing = failing};
        CHECK_FAILS(whole_run(&allocator, true, &loss), QN_ERROR_MEMORY, "");
        CHECK(heap.held_bytes == 0);
    }
}

static void test_undisturbed(void) {
    double plain = 0, tested = 1;
    CHECK_OK(whole_run(NULL, false, &plain));
    CHECK_OK(whole_run(NULL, true, &tested));
    CHECK(plain == tested);
}

/* Settings of a file that no command line would let through. */
static void test_refused_settings(void) {
    static const char *const names[] = {"batch",        "frames",       "replay",   "update-every",
                                        "target-every", "return-steps", "episodes", "timeout"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        qn_metadata *settings;
        qn_task *task;
        CHECK_OK(qn_metadata_create(NULL, &settings));
        CHECK_OK(qn_metadata_set(settings, "data", "cartpole"));
        CHECK_OK(qn_metadata_set(settings, "net", "mlp"));
        CHECK_OK(qn_metadata_set(settings, names[i], "0"));
        const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = qn_model_find("dqn"),
                                         .settings = settings};
        CHECK_FAILS(qn_task_open(&options, &task), QN_ERROR_ARGUMENT, names[i]);
        qn_metadata_destroy(settings);
    }
}

int main(void) {
    test_refused_settings();
    test_out_of_memory();
    test_undisturbed();
    return checks_finish();
}
