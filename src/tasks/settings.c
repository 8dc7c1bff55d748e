/* A task's settings: text pairs, the model's recipe where they say nothing. */
#include "tasks/tasks.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW_SAMPLES = 32 };

static const char *const optimizer_names[] = {
    [QN_SGD] = "sgd", [QN_ADAM] = "adam", [QN_ADAMW] = "adamw"};
static const char *const schedule_names[] = {
    [QN_CONSTANT] = "constant", [QN_STEP] = "step", [QN_COSINE] = "cosine"};

const char *qn_optimizer_name(int optimizer) {
    const int n = (int)(sizeof optimizer_names / sizeof optimizer_names[0]);
    return optimizer >= 0 && optimizer < n ? optimizer_names[optimizer] : NULL;
}

const char *qn_schedule_name(int schedule) {
    const int n = (int)(sizeof schedule_names / sizeof schedule_names[0]);
    return schedule >= 0 && schedule < n ? schedule_names[schedule] : NULL;
}

const char *qn_setting_text(const qn_task *task, const char *name, const char *fallback) {
    const char *text = task->settings ? qn_metadata_get(task->settings, name) : NULL;
    return text ? text : fallback;
}

int64_t qn_setting_count(const qn_task *task, const char *name, int64_t fallback) {
    const char *text = qn_setting_text(task, name, NULL);
    return text ? strtoll(text, NULL, 10) : fallback;
}

double qn_setting_number(const qn_task *task, const char *name, double fallback) {
    const char *text = qn_setting_text(task, name, NULL);
    return text ? strtod(text, NULL) : fallback;
}

bool qn_setting_flag(const qn_task *task, const char *name, bool fallback) {
    const char *text = qn_setting_text(task, name, NULL);
    return text ? strcmp(text, "yes") == 0 : fallback;
}

qn_status qn_setting_set(qn_task *task, const char *name, const char *value) {
    return qn_metadata_set(task->settings, name, value);
}

qn_status qn_setting_set_count(qn_task *task, const char *name, int64_t value) {
    char text[24];
    snprintf(text, sizeof text, "%lld", (long long)value);
    return qn_setting_set(task, name, text);
}

int64_t qn_task_batch(const qn_task *task) {
    return qn_setting_count(task, "batch", task->model->recipe.batch);
}

int64_t qn_task_test_batch(const qn_task *task) {
    const int64_t batch = qn_task_batch(task);
    return task->memory_budget_bytes > 0 && batch > FEW_SAMPLES ? FEW_SAMPLES : batch;
}

void qn_task_set_length(qn_task *task, int64_t epoch_batches) {
    const int64_t accumulate = qn_setting_count(task, "accumulate", 1);
    const int64_t steps = qn_setting_count(task, "steps", 0);
    const bool has_epochs = qn_setting_text(task, "epochs", NULL) || steps == 0;
    const int64_t epochs = qn_setting_count(task, "epochs", task->model->recipe.epochs);
    int64_t total = steps, of_epochs;
    if (has_epochs && epoch_batches > 0 && epochs > 0) {
        if (__builtin_mul_overflow(epochs, epoch_batches, &of_epochs))
            of_epochs = INT64_MAX / 2;
        of_epochs = (of_epochs - 1) / accumulate + 1;
        total = steps > 0 && steps < of_epochs ? steps : of_epochs;
    }
    if (total == 0)
        total = task->model->recipe.steps;
    task->facts.batch = qn_task_batch(task);
    task->facts.epoch_steps = (double)epoch_batches / (double)accumulate;
    task->facts.step_samples = task->facts.batch * accumulate;
    task->facts.total_steps = total;
}

static int find(const char *(*name_at)(int), const char *name, int fallback) {
    for (int i = 0; name && name_at(i); i++) {
        if (strcmp(name_at(i), name) == 0)
            return i;
    }
    return fallback;
}

static qn_update_options update_options(const qn_task *task) {
    const qn_recipe *r = &task->model->recipe;
    const int64_t schedule_steps = qn_setting_count(task, "schedule-steps", 0);
    return (qn_update_options){
        .optimizer = (qn_optimizer)find(qn_optimizer_name, qn_setting_text(task, "optimizer", NULL),
                                        (int)r->optimizer),
        .rate = qn_setting_number(task, "lr", r->rate),
        .momentum = qn_setting_number(task, "momentum", r->momentum),
        .weight_decay = qn_setting_number(task, "weight-decay", r->weight_decay),
        .nesterov = qn_setting_flag(task, "nesterov", r->nesterov),
        .beta1 = qn_setting_number(task, "beta1", r->beta1),
        .schedule = (qn_schedule)find(qn_schedule_name, qn_setting_text(task, "schedule", NULL),
                                      (int)r->schedule),
        .warmup = qn_setting_count(task, "warmup", r->warmup),
        .schedule_steps = schedule_steps > 0 ? schedule_steps : task->facts.total_steps,
        .clip_norm = qn_setting_number(task, "clip-norm", r->clip_norm),
        .accumulate = qn_setting_count(task, "accumulate", 1),
    };
}

qn_tuning qn_tuning_of(const qn_metadata *settings) {
    if (!settings)
        return (qn_tuning){0};
    const char *lora = qn_metadata_get(settings, "lora"), *head = qn_metadata_get(settings, "head");
    qn_tuning t = {.freeze = qn_metadata_get(settings, "freeze"),
                   .train_only = qn_metadata_get(settings, "train-only"),
                   .rates = qn_metadata_get(settings, "lr-for")};
    if (head)
        t.head = strchr(head, ',') ? strchr(head, ',') + 1 : "*";
    if (lora && strstr(lora, "rank=") && strstr(lora, "layers=")) {
        const char *alpha = strstr(lora, "alpha=");
        t.lora_rank = strtoll(strstr(lora, "rank=") + 5, NULL, 10);
        t.lora_alpha = alpha ? strtod(alpha + 6, NULL) : 0;
        t.lora_layers = strstr(lora, "layers=") + 7;
    }
    return t;
}

uint64_t qn_seed_of(const qn_metadata *settings) {
    const char *seed = settings ? qn_metadata_get(settings, "seed") : NULL;
    return seed ? strtoull(seed, NULL, 10) : 1;
}

/* "built-in", too, for the built-in ones. */
static const char *rules_of(const qn_task *task) {
    const char *rules = qn_setting_text(task, "rules", NULL);
    return rules && strcmp(rules, "built-in") != 0 ? rules : NULL;
}

qn_engine_options qn_task_engine_options(const qn_task *task) {
    qn_engine_options options = {
        .allocator = task->allocator,
        .n_threads = task->n_threads,
        .micro_batch = task->micro_batch,
        .seed = qn_seed_of(task->settings),
        .tuning = qn_tuning_of(task->settings),
        .plan_only = task->plan_only,
        .no_fusion = task->no_fusion,
        .rules = rules_of(task),
        .tune = task->tune,
        .memory_budget_bytes = task->memory_budget_bytes,
        .no_least = task->no_least,
        .saved_plan = task->saved_plan,
        .swap_folder = task->swap_folder,
        .budget_changes = task->budget_changes,
        .plan_later = true,
        .aligned_inputs = task->aligned_inputs,
    };
    /* Without optimiser state where nothing is trained. */
    if (task->training)
        options.update = update_options(task);
    return options;
}

qn_status qn_task_make_engine(qn_task *task, const qn_program_options *programs, int n_programs) {
    const qn_engine_options options = qn_task_engine_options(task);
    return qn_engine_create(&options, programs, n_programs, &task->engine);
}
