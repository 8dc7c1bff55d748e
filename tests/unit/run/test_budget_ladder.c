/* Budgets are monotonic: whoever gives more never gets less. Over a ladder of budgets in steps of
 * about 1 %, for tasks of several kinds: below some budget all are refused, from it on none is;
 * what a refusal names is accepted, and so is all above it, and where it is said to be the least,
 * no KiB less is; what is planned is within what was given. With QUERN_ALL for more tasks. */
#include "base/memory.h"
#include "check.h"
#include "quern/quern.h"

#include <stdlib.h>

typedef struct subject {
    const char *model;
    const char *const *pairs;
} subject;

/* One that was refused 1660K where 1632K worked. */
static const char *const cartpole[] = {"data", "cartpole", "net", "mlp",   "fill", "40", "replay",
                                       "300",  "batch",    "32",  "steps", "1",    NULL};
static const char *const plain[] = {"data", "synthetic", "batch", "32", "steps", "1", NULL};
static const char *const small[] = {"data", "synthetic", "batch", "6", "steps", "1", NULL};

/* Plans a task within a budget. *peak_bytes: what is predicted. */
static qn_status plan(const subject *s, size_t budget, size_t *peak_bytes) {
    qn_metadata *settings;
    qn_task *task;
    CHECK_OK(qn_metadata_create(NULL, &settings));
    for (int i = 0; s->pairs[i]; i += 2)
        CHECK_OK(qn_metadata_set(settings, s->pairs[i], s->pairs[i + 1]));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,
                                     .model = qn_model_find(s->model),
                                     .settings = settings,
                                     .training = true,
                                     .engine.n_threads = 2,
                                     .engine.plan_only = true,
                                     .engine.memory_budget_bytes = budget};
    const qn_status status = qn_task_open(&options, &task);
    if (status == QN_OK) {
        *peak_bytes = qn_engine_get_budget(qn_task_engine(task)).peak_bytes;
        qn_task_close(task);
    }
    qn_metadata_destroy(settings);
    return status;
}

/* The budget that the last message names. */
static size_t named_budget(void) {
    const char *at = strstr(qn_error_message(), "--memory ");
    char *end = NULL;
    const size_t n = at ? strtoul(at + strlen("--memory "), &end, 10) : 0;
    return n == 0 ? 0 : *end == 'M' ? n << 20 : n << 10;
}

/* What is named as the least is: tasks this small are proven in time on any machine. */
static void check_least(const subject *s, size_t named) {
    size_t peak = 0;
    for (size_t less = 1; less <= 64; less *= 2) {
        const bool is_refused = plan(s, named - less * 1024, &peak) == QN_ERROR_MEMORY;
        CHECK(is_refused);
        if (!is_refused)
            printf("%s: %zu is named, and %zu KiB less is accepted\n", s->model, named, less);
    }
}

/* In steps of one part of the budget. */
static void check_ladder(const subject *s, size_t part) {
    size_t peak = 0, named, refused = 0, accepted = 0;
    CHECK(plan(s, 65536, &peak) == QN_ERROR_MEMORY);
    named = named_budget();
    CHECK(named > 65536);
    if (strstr(qn_error_message(), "the minimum is"))
        check_least(s, named);
    CHECK_OK(plan(s, named, &peak));
    for (size_t budget = named - named / 10; budget < named + named / 10; budget += named / part) {
        const qn_status status = plan(s, budget, &peak);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        if (status == QN_OK) {
            CHECK(peak <= budget);
            accepted = accepted > 0 ? accepted : budget;
            continue;
        }
        refused = budget;
        const size_t other = named_budget();
        CHECK(other > budget && plan(s, other, &peak) == QN_OK);
    }
    CHECK(refused < accepted && refused < named);
    if (refused >= accepted)
        printf("%s: %zu is accepted, and %zu refused\n", s->model, accepted, refused);
}

int main(void) {
    const subject few[] = {{"dqn", cartpole}, {"lenet5", plain}};
    const subject more[] = {{"bert-tiny", small}, {"char-cnn", small},   {"seq2seq", small},
                            {"dcgan", small},     {"squeezenet", small}, {"char-lstm", small}};
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++)
        check_ladder(&few[i], i == 0 ? 120 : 40);
    for (size_t i = 0; getenv("QUERN_ALL") && i < sizeof more / sizeof more[0]; i++)
        check_ladder(&more[i], 200);
    return checks_finish();
}
