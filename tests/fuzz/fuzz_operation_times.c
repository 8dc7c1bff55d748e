/* Kept times of operations: what is put is a name and a time that can be worked with. In the place
 * of the cache's file of an engine, the input is taken whole or as if it were not there; what the
 * engine keeps then, it loads again. */
#include "format/operation_times.h"
#include "fuzz/input.h"
#include "quern/quern.h"

#include <math.h>

static qn_status put(void *context, int program, const char *node, double ns) {
    (void)context;
    if (program < 0 || !*node || !isfinite(ns) || ns < 0)
        abort();
    return QN_OK;
}

/* A task whose engine has a plan and no memory. */
static qn_engine *open_engine(void) {
    static qn_task *task;
    qn_metadata *settings;
    if (task)
        return qn_task_engine(task);
    if (qn_metadata_create(NULL, &settings) != QN_OK ||
        qn_metadata_set(settings, "data", "synthetic") != QN_OK ||
        qn_metadata_set(settings, "batch", "2") != QN_OK)
        abort();
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,  .model = qn_model_find("mlp"),
                                     .settings = settings,  .training = true,
                                     .engine.n_threads = 1, .engine.plan_only = true};
    if (qn_task_open(&options, &task) != QN_OK)
        abort();
    qn_metadata_destroy(settings);
    return qn_task_engine(task);
}

static void check_cache(const uint8_t *data, size_t size) {
    static char name[256];
    qn_engine *engine = open_engine();
    int64_t n = -1, n_again = -1;
    if (!name[0]) {
        if (qn_operation_times_save(engine) != QN_OK)
            abort();
        input_find_cached("times-", name);
    }
    input_write(name, data, size);
    if (qn_operation_times_load(engine, &n) != QN_OK || n < 0)
        return;
    if (qn_operation_times_save(engine) != QN_OK ||
        qn_operation_times_load(engine, &n_again) != QN_OK || n_again < 0)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    input_folder();
    qn_operation_times_parse((const char *)data, size, put, NULL);
    check_cache(data, size);
    return 0;
}
