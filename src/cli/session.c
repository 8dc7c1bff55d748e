/* See session.h. */
#include "cli/session.h"

#include "base/status.h"
#include "cli/data_name.h"
#include "cli/look/reading.h"
#include "cli/model.h"
#include "cli/outputs/outputs.h"
#include "cli/terminal.h"
#include "cli/train/patience.h"
#include "format/operation_times.h"
#include "os/heap.h"
#include "tasks/tasks.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static void write_log(void *user, int level, const char *text) {
    (void)user;
    terminal_clear();
    terminal_note("%s%s", level > 0 ? "warning: " : "", text);
}

/* Redrawn ten times a second; not shown at all where it takes less than half of one. */
static void show_progress(void *user, const char *what, int64_t n_done, int64_t n) {
    static int64_t begin_ns, shown_ns;
    const int64_t now_ns = qn_clock_ns();
    char text[160];
    (void)user;
    if (begin_ns == 0)
        begin_ns = now_ns;
    if (n_done == n) {
        terminal_clear();
        begin_ns = 0;
    } else if (now_ns - begin_ns > 500000000 && now_ns - shown_ns > 100000000) {
        snprintf(text, sizeof text, "%s: %lld of %lld", what, (long long)n_done, (long long)n);
        terminal_show(text);
        shown_ns = now_ns;
    }
}

const qn_log session_log = {NULL, write_log, show_progress};

void session_init(session *s) {
    *s = (session){.how = {QN_TASK_OPTIONS_INIT}};
    s->allocator = qn_counter_init(&s->counter, qn_allocator_default());
}

void session_deinit(session *s) {
    qn_task_close(s->task);
    qn_metadata_destroy(s->pairs);
    qn_metadata_destroy(s->kept);
}

/* What a checkpoint names is an input, too. */
static qn_status check_outputs(const qn_metadata *kept, const char *path) {
    static const char *const keys[] = {"data", "load", "model", "wordpiece", "class-weights"};
    char what[PATH_MAX + 64];
    const char *model = qn_metadata_get(kept, "model");
    const bool is_built_in = model && qn_model_find(model);
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (is_built_in && strcmp(keys[i], "model") == 0)
            continue;
        snprintf(what, sizeof what, "%s, its %s", path, keys[i]);
        QN_TRY(outputs_check_input(what, qn_metadata_get(kept, keys[i])));
    }
    return QN_OK;
}

/* Names of files that are no UTF-8 are kept with their bytes written out. */
static qn_status restore_names(session *s) {
    static const char *const keys[] = {"data", "prepared"};
    const char *found;
    qn_arena texts;
    qn_status status = QN_OK;
    qn_arena_init(&texts, &s->allocator);
    for (size_t i = 0; i < sizeof keys / sizeof *keys && status == QN_OK; i++) {
        const char *kept = qn_metadata_get(s->kept, keys[i]);
        if (!kept || data_name_is_there(kept))
            continue;
        status = data_name_restore(kept, &texts, &found);
        if (status == QN_OK && found && data_name_is_there(found))
            status = qn_metadata_set(s->kept, keys[i], found);
    }
    qn_arena_deinit(&texts);
    return status;
}

/* The data's name is that of the folder where the run was: here, or beside the checkpoint. */
static qn_status move_data(session *s, const char *path, const char *data) {
    const char *end = strrchr(path, '/'), *found;
    const char *prepared = qn_metadata_get(s->kept, "prepared");
    const bool is_prepared = prepared && strcmp(prepared, data) == 0;
    char folder[4096];
    qn_arena texts;
    if (!end || snprintf(folder, sizeof folder, "%.*s", (int)(end - path), path) < 0)
        return QN_OK;
    qn_arena_init(&texts, &s->allocator);
    qn_status status = data_name_beside(data, folder, &texts, &found);
    if (status == QN_OK && found) {
        char what[512];
        snprintf(what, sizeof what, "%s, its data", path);
        terminal_note("%s names its data %s, which is not in this folder; %s is taken, beside it",
                      path, data, found);
        status = outputs_check_input(what, found);
        if (status == QN_OK)
            status = qn_metadata_set(s->kept, "data", found);
        if (status == QN_OK && is_prepared)
            status = qn_metadata_set(s->kept, "prepared", found);
    }
    qn_arena_deinit(&texts);
    return status;
}

/* A checkpoint of another folder may mean other data than this folder has by the name. */
static void tell_taken(const char *path, const char *data) {
    if (strchr(path, '/') && data_name_is_relative(data))
        terminal_note("%s names its data %s, which is taken from this folder; --data names other "
                      "data",
                      path, data);
}

static qn_status find_kept_data(session *s, const char *path, const char **data) {
    *data = qn_metadata_get(s->kept, "data");
    if (!*data)
        return QN_OK;
    if (data_name_is_there(*data)) {
        tell_taken(path, *data);
        return QN_OK;
    }
    QN_TRY(move_data(s, path, *data));
    *data = qn_metadata_get(s->kept, "data");
    return QN_OK;
}

/* Why a task did not open, where its data is the checkpoint's and is gone. */
static qn_status refuse_data(const session *s, qn_status status) {
    const char *data = qn_metadata_get(s->pairs, "data");
    const char *kept = s->kept ? qn_metadata_get(s->kept, "data") : NULL;
    if (status == QN_OK || !data || !kept || strcmp(data, kept) != 0 || data_name_is_there(data))
        return status;
    return qn_fail(status,
                   "the checkpoint names its data %s, which is neither in this folder nor beside "
                   "the checkpoint; say where it is: --data",
                   data);
}

qn_status session_begin(session *s, const char *model, const char *data, const char *path) {
    if (path && model && !model_is_file(model))
        QN_TRY(model_find(model, data, &s->model)); /* a name that is none is said first */
    if (path)
        QN_TRY(qn_checkpoint_read(&s->allocator, path, &s->kept));
    if (s->kept)
        QN_TRY(restore_names(s));
    if (s->kept)
        QN_TRY(check_outputs(s->kept, path));
    model_read_kept(s->kept);
    if (!data && s->kept)
        QN_TRY(find_kept_data(s, path, &data));
    if (!model && s->kept)
        model = qn_metadata_get(s->kept, "model");
    if (!model)
        return qn_fail(QN_ERROR_ARGUMENT, "%s does not name its model; give it as the first word",
                       path ? path : "nothing");
    QN_TRY(model_find(model, data, &s->model));
    if (s->kept)
        QN_TRY(model_check(s->model, s->kept, path));
    return qn_metadata_create(&s->allocator, &s->pairs);
}

qn_status session_keep_pairs(session *s) {
    for (int i = 0; s->kept && i < qn_metadata_count(s->kept); i++) {
        const char *key, *value;
        qn_metadata_at(s->kept, i, &key, &value);
        if (strcmp(key, "step") != 0 && !qn_metadata_get(s->pairs, key))
            QN_TRY(qn_metadata_set(s->pairs, key, value));
    }
    if (s->kept && !qn_metadata_get(s->kept, QN_LAST_BATCH))
        QN_TRY(qn_metadata_set(s->pairs, QN_LAST_BATCH, "left")); /* as versions before did */
    return QN_OK;
}

void session_set_budget(session *s, size_t bytes) {
    s->how.engine.memory_budget_bytes = bytes;
    if (bytes > 0)
        qn_memory_give_back_early();
}

qn_recompute session_recompute(const arguments *a) {
    const char *value =
        option_find(a->command, "recompute") < 0 ? NULL : arguments_get(a, "recompute");
    return !value                         ? QN_RECOMPUTE_USUAL
           : strcmp(value, "layers") == 0 ? QN_RECOMPUTE_LAYERS
                                          : QN_RECOMPUTE_LITTLE;
}

static qn_status use_times(void *user, qn_engine *engine) {
    const session *s = user;
    int64_t n_found;
    return s->how.engine.memory_budget_bytes > 0 ? qn_operation_times_load(engine, &n_found)
                                                 : QN_OK;
}

static qn_status prepare_timing(void *user, qn_engine *engine) {
    (void)user;
    return qn_engine_prepare_timing(engine);
}

static qn_status open_task(session *s, bool training, int n_threads,
                           qn_status (*on_built)(void *user, qn_engine *engine)) {
    QN_TRY(model_add_pairs(s->model, training, s->pairs));
    s->how.engine.allocator = &s->allocator;
    s->how.engine.n_threads = n_threads;
    s->how.log = &session_log;
    s->how.model = s->model;
    s->how.settings = s->pairs;
    s->how.training = training;
    s->how.on_built = on_built;
    s->how.user = s;
    s->how.memory_outside_bytes = s->counter.held_bytes;
    return refuse_data(s, patience_open(&s->how, &s->task));
}

qn_status session_open_task(session *s, bool training, int n_threads) {
    return open_task(s, training, n_threads, use_times);
}

/* The first steps, which touch memory for the first time, are longer; the shortest of each
 * operation counts. */
static qn_status measure(qn_task *task) {
    enum { STEPS = 4 };
    qn_engine *engine = qn_task_engine(task);
    qn_engine_begin_timing(engine);
    for (int i = 0; i < STEPS; i++) {
        qn_metrics metrics;
        QN_TRY(qn_task_step(task, &metrics));
        QN_TRY(qn_engine_take_times(engine));
    }
    return qn_operation_times_save(engine);
}

qn_status session_measure(session *s, int n_threads) {
    QN_TRY(open_task(s, true, n_threads, prepare_timing));
    const qn_status status = measure(s->task);
    qn_task_close(s->task);
    s->task = NULL;
    return status;
}

qn_status session_load_start(session *s, const char *path) {
    int n_loaded, n_new, n_kept;
    QN_TRY(qn_task_begin(s->task, &n_loaded, &n_new, &n_kept));
    terminal_note("loaded %d tensors from %s; %d newly initialised", n_loaded, path, n_new);
    if (n_kept > 0)
        terminal_note("the head grows: its first %d outputs are those of %s", n_kept, path);
    return QN_OK;
}

qn_status session_load(session *s, const char *path, bool with_state) {
    const char *kept = qn_metadata_get(s->kept, "model");
    const bool is_other = kept && !model_hash(s->model) && strcmp(kept, s->model->name) != 0;
    const qn_status status = qn_task_load(s->task, path, with_state);
    if (is_other && status == QN_OK)
        return qn_fail(QN_ERROR_FORMAT, "%s is of model %s, not %s", path, kept, s->model->name);
    return is_other
               ? qn_fail_within(status, "%s is of model %s, not %s", path, kept, s->model->name)
               : status;
}

/* How another file is written does not follow from the one that was trained on. */
static qn_status forget_form(session *s, const arguments *a) {
    const char *data = arguments_get(a, "data"), *kept = qn_metadata_get(s->kept, "data");
    if (!data || (kept && strcmp(data, kept) == 0))
        return QN_OK;
    for (int i = 0; i < table_form_options.n; i++) {
        const char *name = table_form_options.rows[i].name;
        if (qn_metadata_get(s->kept, name) && !qn_metadata_get(s->pairs, name))
            QN_TRY(qn_metadata_set(s->pairs, name, ""));
    }
    return QN_OK;
}

static const option rows[] = {
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "no limit",
     .help = "memory budget, such as 300M; does not change the result"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "all processors",
     .help = "threads; does not change the result"},
};

const option_list session_options = {rows, sizeof rows / sizeof rows[0]};

/* What names and prepare say, then the checkpoint's settings; then the task, with its weights. */
static qn_status open_begun(session *s, const arguments *a, const char *weights,
                            const char *const *names, session_prepare *prepare) {
    for (; *names; names++) {
        if (arguments_get(a, *names))
            QN_TRY(qn_metadata_set(s->pairs, *names, arguments_get(a, *names)));
    }
    if (prepare)
        QN_TRY(prepare(a, s));
    if (s->kept)
        QN_TRY(forget_form(s, a));
    QN_TRY(reading_store(a, s->pairs));
    QN_TRY(session_keep_pairs(s));
    session_set_budget(s, (size_t)arguments_count(a, "memory"));
    QN_TRY(session_open_task(s, false, (int)arguments_count(a, "threads")));
    return weights ? session_load(s, weights, false) : QN_OK;
}

qn_status session_open_trained(session *s, const arguments *a, const char *const *names,
                               session_prepare *prepare) {
    const char *weights = arguments_get(a, "weights"), *name = a->n_words > 0 ? a->words[0] : "";
    if (!weights && !model_is_file(name))
        return qn_fail(QN_ERROR_ARGUMENT, "quern %s needs --weights FILE", a->command->name);
    model_read_options(a);
    QN_TRY(session_begin(s, *name ? name : NULL, arguments_get(a, "data"), weights));
    return open_begun(s, a, weights, names, prepare);
}

qn_status session_open_checkpoint(session *s, const arguments *a, const char *path,
                                  const char *const *names, session_prepare *prepare) {
    QN_TRY(session_begin(s, NULL, arguments_get(a, "data"), path));
    return open_begun(s, a, path, names, prepare);
}

const char *metric_words(const char *name, char *text, size_t bytes) {
    snprintf(text, bytes, "%s", name);
    for (char *c = text; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return text;
}
