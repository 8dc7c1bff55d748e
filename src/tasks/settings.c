/* A task's settings: text pairs, with the model's recipe as default. */
#include "base/decimal.h"
#include "base/status.h"
#include "format/metadata.h"
#include "models/models.h"
#include "run/inspect.h"
#include "tasks/reading.h"
#include "tasks/tasks.h"

#include <math.h>
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
    return text ? qn_decimal_read(text, NULL) : fallback;
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

/* Where training goes on with other data, or begins with weights. */
static qn_status find_known_table(qn_task *task, qn_data_options *options) {
    const bool is_resumed = qn_setting_text(task, QN_PREPARED, NULL) != NULL;
    qn_metadata *pairs = is_resumed ? task->settings : task->start;
    const qn_table *known = NULL;
    if (pairs)
        QN_TRY(qn_metadata_get_table(pairs, &known));
    if (!known)
        return QN_OK;
    if (is_resumed && !options->target) {
        options->table = known;
        return QN_OK;
    }
    task->start_table =
        (qn_table){.n_columns = known->n_columns, .columns = known->columns, .n_targets = 0};
    options->table = &task->start_table;
    return QN_OK;
}

qn_status qn_task_table_options(qn_task *task, bool is_prepared, qn_data_options *options) {
    qn_reading_set(task->settings, options);
    if (is_prepared)
        QN_TRY(qn_metadata_get_table(task->settings, &options->table));
    else if (task->training)
        QN_TRY(find_known_table(task, options));
    if (options->table && options->table->n_targets > 0)
        options->target = options->ignore = options->categories = options->task = NULL;
    return QN_OK;
}

int64_t qn_task_batch(const qn_task *task) {
    const int64_t fixed = qn_model_batch(task->model);
    if (!task->training && fixed > 1) /* a file's, which may fit no other */
        return fixed;
    return qn_setting_count(task, "batch", task->model->recipe.batch);
}

int64_t qn_task_test_batch(const qn_task *task) {
    const int64_t batch = qn_task_batch(task);
    return task->had_budget && batch > FEW_SAMPLES ? FEW_SAMPLES : batch;
}

void qn_task_set_length(qn_task *task, double epoch_batches) {
    const int64_t accumulate = qn_setting_count(task, "accumulate", 1);
    const int64_t steps = qn_setting_count(task, "steps", 0);
    const bool has_epochs = qn_setting_text(task, "epochs", NULL) || steps == 0;
    const int64_t epochs = qn_setting_count(task, "epochs", task->model->recipe.epochs);
    int64_t total = steps;
    if (has_epochs && epoch_batches > 0 && epochs > 0) {
        const double n_batches = (double)epochs * epoch_batches; /* exact where they are */
        const int64_t most = INT64_MAX / 2,
                      of_epochs = n_batches < (double)most
                                      ? ((int64_t)ceil(n_batches) - 1) / accumulate + 1
                                      : most;
        total = steps > 0 && steps < of_epochs ? steps : of_epochs;
    }
    if (total == 0)
        total = task->model->recipe.steps;
    task->facts.batch = qn_task_batch(task);
    task->facts.epoch_steps = epoch_batches / (double)accumulate;
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

/* What another optimizer than the recipe's begins with: rates that suit one do not suit the next.
 */
static const struct {
    const char *name, *values[3]; /* by qn_optimizer */
} optimizer_defaults[] = {
    {"lr", {"0.01", "0.001", "0.001"}},
    {"momentum", {"0.9", "0", "0"}},
    {"nesterov", {"no", "no", "no"}},
    {"weight-decay", {"0", "0", "0.01"}},
};

const char *qn_optimizer_default(const char *optimizer, const char *name) {
    const int row = find(qn_optimizer_name, optimizer, 0);
    for (size_t i = 0; i < sizeof optimizer_defaults / sizeof *optimizer_defaults; i++) {
        if (strcmp(optimizer_defaults[i].name, name) == 0)
            return optimizer_defaults[i].values[row];
    }
    return NULL;
}

bool qn_task_has_own_optimizer(const qn_task *task) {
    const char *usual = qn_optimizer_name((int)task->model->recipe.optimizer);
    return strcmp(qn_setting_text(task, "optimizer", usual), usual) != 0;
}

/* A number that goes with the optimizer: the setting, else the recipe's, or that of another one. */
static double number_of_optimizer(const qn_task *task, const char *name, double recipe) {
    const char *optimizer = qn_setting_text(task, "optimizer", NULL);
    const double usual = qn_task_has_own_optimizer(task)
                             ? qn_decimal_read(qn_optimizer_default(optimizer, name), NULL)
                             : recipe;
    return qn_setting_number(task, name, usual);
}

static qn_update_options update_options(const qn_task *task) {
    const qn_recipe recipe = qn_numerics_recipe(&task->numerics, &task->model->recipe);
    const qn_recipe *r = &recipe;
    const int64_t schedule_steps = qn_setting_count(task, "schedule-steps", 0);
    return (qn_update_options){
        .optimizer = (qn_optimizer)find(qn_optimizer_name, qn_setting_text(task, "optimizer", NULL),
                                        (int)r->optimizer),
        .rate = number_of_optimizer(task, "lr", r->rate),
        .momentum = number_of_optimizer(task, "momentum", r->momentum),
        .weight_decay = number_of_optimizer(task, "weight-decay", r->weight_decay),
        .nesterov =
            qn_setting_flag(task, "nesterov", r->nesterov && !qn_task_has_own_optimizer(task)),
        .beta1 = qn_setting_number(task, "beta1", r->beta1),
        .schedule = (qn_schedule)find(qn_schedule_name, qn_setting_text(task, "schedule", NULL),
                                      (int)r->schedule),
        .warmup = qn_setting_count(task, "warmup", r->warmup),
        .schedule_steps = schedule_steps > 0 ? schedule_steps : task->facts.total_steps,
        .clip_norm = qn_setting_number(task, "clip-norm", r->clip_norm),
        .accumulate = qn_setting_count(task, "accumulate", 1),
    };
}

/* "rank=N,alpha=X,layers=PATTERNS", of which alpha may be left out: the patterns, which may hold
 * commas, are the last. Anything else is no LoRA. */
static void read_lora(const char *text, qn_tuning *t) {
    static const char rank_key[] = "rank=", alpha_key[] = "alpha=", layers_key[] = "layers=";
    qn_tuning read = {0};
    while (strncmp(text, layers_key, strlen(layers_key)) != 0) {
        char *end = NULL;
        if (strncmp(text, rank_key, strlen(rank_key)) == 0)
            read.lora_rank = strtoll(text + strlen(rank_key), &end, 10);
        else if (strncmp(text, alpha_key, strlen(alpha_key)) == 0)
            read.lora_alpha = qn_decimal_read(text + strlen(alpha_key), &end);
        if (!end || *end != ',')
            return;
        text = end + 1;
    }
    t->lora_rank = read.lora_rank;
    t->lora_alpha = read.lora_alpha;
    t->lora_layers = text + strlen(layers_key);
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
    if (lora)
        read_lora(lora, &t);
    return t;
}

/* A checkpoint of a version that said nothing held out by place. */
const char *qn_task_held_out(const qn_metadata *settings) {
    const char *kept = settings ? qn_metadata_get(settings, QN_HELD_OUT) : NULL;
    const char *prepared = settings ? qn_metadata_get(settings, QN_PREPARED) : NULL;
    const char *data = settings ? qn_metadata_get(settings, "data") : NULL;
    const bool is_same = prepared && data && strcmp(prepared, data) == 0;
    if (!kept)
        return is_same ? "place" : NULL;
    return is_same || strcmp(kept, "place") != 0 ? kept : NULL;
}

qn_status qn_numerics_of(const qn_metadata *settings, qn_numerics *numerics) {
    const char *text = settings ? qn_metadata_get(settings, "numerics") : NULL;
    *numerics = (qn_numerics){.name = ""};
    if (!text || strcmp(text, "f32") == 0)
        return QN_OK;
    if (text[0] != '{')
        text = qn_numerics_find(text);
    return text ? qn_numerics_read(text, strlen(text), numerics) : QN_ERROR_ARGUMENT;
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

static qn_device_wish device_wish_of(const qn_task *task) {
    const char *prefer = qn_setting_text(task, "prefer", "time");
    return (qn_device_wish){
        .prefer = strcmp(prefer, "energy") == 0     ? QN_PREFER_ENERGY
                  : strcmp(prefer, "balanced") == 0 ? QN_PREFER_BALANCED
                                                    : QN_PREFER_TIME,
        .cpu_watts = qn_setting_number(task, "cpu-watts", 0),
        .device_watts = qn_setting_number(task, "device-watts", 0),
        .idle_watts = qn_setting_number(task, "idle-watts", 0),
    };
}

const qn_engine_options *qn_task_engine_options(qn_task *task) {
    qn_engine_options *options = task->opening;
    options->allocator = task->allocator;
    options->update = (qn_update_options){0};
    options->tuning = qn_tuning_of(task->settings);
    options->sparse_update = qn_setting_text(task, "update", NULL);
    options->rules = rules_of(task);
    options->device = task->training ? qn_setting_text(task, "device", NULL) : NULL;
    options->device_wish = device_wish_of(task);
    options->log = task->log;
    options->numerics = task->numerics.name[0] ? &task->numerics : NULL;
    options->seed = qn_seed_of(task->settings);
    options->plan_later = true;
    options->aligned_inputs = task->aligned_inputs;
    /* Without optimiser state where nothing is trained. */
    if (task->training)
        options->update = update_options(task);
    return options;
}

qn_status qn_task_make_engine(qn_task *task, const qn_program_options *programs, int n_programs) {
    return qn_engine_make(qn_task_engine_options(task), programs, n_programs, &task->engine);
}
