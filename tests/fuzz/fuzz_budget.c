/* Budgets: whatever is given, with whatever task, plans fit into it, or a refusal names one that is
 * larger and works. The first bytes choose the task, its batch and its threads, the rest the
 * budget, about what the task needs. */
#include "base/memory.h"
#include "quern/quern.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static qn_status plan(const uint8_t *choice, size_t budget, size_t *peak) {
    static const char *const models[] = {"lenet5", "mlp", "dqn", "char-cnn", "squeezenet"};
    char batch[8];
    qn_metadata *settings;
    qn_task *task;
    snprintf(batch, sizeof batch, "%d", 1 + choice[1] % 32);
    if (qn_metadata_create(NULL, &settings) != QN_OK ||
        qn_metadata_set(settings, "data", "synthetic") != QN_OK ||
        qn_metadata_set(settings, "steps", "1") != QN_OK ||
        qn_metadata_set(settings, "batch", batch) != QN_OK)
        abort();
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,
                                     .model = qn_model_find(models[choice[0] % 5]),
                                     .settings = settings,
                                     .training = true,
                                     .engine.budget_changes = choice[2] & 2,
                                     .engine.n_threads = 1 + choice[2] % 3,
                                     .engine.plan_only = true,
                                     .engine.memory_budget_bytes = budget};
    const qn_status status = qn_task_open(&options, &task);
    if (status == QN_OK) {
        *peak = qn_engine_get_budget(qn_task_engine(task)).peak_bytes;
        qn_task_close(task);
    }
    qn_metadata_destroy(settings);
    return status;
}

static size_t named_budget(void) {
    const char *at = strstr(qn_error_message(), "--memory ");
    char *end = NULL;
    const size_t n = at ? strtoul(at + strlen("--memory "), &end, 10) : 0;
    return n == 0 ? 0 : *end == 'M' ? n << 20 : n << 10;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    uint8_t choice[3] = {0};
    uint32_t bytes = 0;
    size_t peak = 0;
    if (size < 7)
        return 0;
    memcpy(choice, data, 3);
    memcpy(&bytes, data + 3, 4);
    const size_t budget = 1 + bytes % (64u << 20);
    const qn_status status = plan(choice, budget, &peak);
    if (status == QN_OK && peak > budget)
        abort();
    if (status != QN_OK && status != QN_ERROR_MEMORY)
        return 0;
    const size_t named = status == QN_OK ? budget : named_budget();
    if (named < budget || plan(choice, named, &peak) != QN_OK || peak > named)
        abort();
    return 0;
}
