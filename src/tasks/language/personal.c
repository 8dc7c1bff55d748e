/* A language task of words, made a user's: see qn_task_personalise. */
#include "base/memory.h"
#include "base/options.h"
#include "base/print.h"
#include "base/status.h"
#include "data/text/typed.h"
#include "data/text/words.h"
#include "os/heap.h"
#include "os/os.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { USUAL_WORDS = 2000, USUAL_EPOCHS = 12, BATCH = 1, LENGTH = 20, NEW_OF = 10 };

typedef struct personalising {
    const qn_task *general;
    const qn_personal_options *o;
    const qn_allocator *allocator;
    qn_arena arena;
    qn_words words; /* of the general task, then with the user's */
    float *best;    /* (n_values) of all weights */
    size_t n_values;
    qn_personal *result;
} personalising;

/* ---- weights ---- */

static bool is_weight(const qn_stored_tensor *t) {
    return !t->is_state && strncmp(t->name, "task.", 5) != 0;
}

/* Rows of new words, and their biases: those of the unknown word, whose chance they share, to the
 * next power of two. */
static void begin_rows(const personalising *p, const qn_stored_tensor *t) {
    const int64_t n = p->words.n, n_new = p->result->n_new;
    const size_t columns = t->bytes / sizeof(float) / (size_t)n;
    float *rows = t->data, shared = 0;
    if (t->shape.rank < 1 || t->shape.dims[0] != n)
        return;
    for (int64_t i = n - n_new; i < n; i++)
        memcpy(rows + (size_t)i * columns, rows, columns * sizeof *rows);
    for (int64_t left = n_new; left > 0; left /= 2)
        shared += (float)M_LN2;
    for (int64_t i = n - n_new; columns == 1 && i < n; i++)
        rows[i] -= shared;
}

static qn_status take_weights(const personalising *p, qn_task *task) {
    const qn_engine *from = qn_task_engine(p->general), *to = qn_task_engine(task);
    for (int i = 0; i < qn_engine_tensor_count(to); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(to, i);
        const qn_stored_tensor f = qn_engine_find(from, t.name);
        if (!is_weight(&t))
            continue;
        if (!f.data || f.bytes != t.bytes)
            return qn_fail(QN_ERROR_ARGUMENT, "the network has another %s than it was opened with",
                           t.name);
        memcpy(t.data, f.data, t.bytes);
        begin_rows(p, &t);
    }
    return QN_OK;
}

static size_t copy_best(float *best, qn_task *task, bool is_back) {
    const qn_engine *engine = qn_task_engine(task);
    size_t n = 0;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (!is_weight(&t))
            continue;
        if (best && is_back)
            memcpy(t.data, best + n, t.bytes);
        else if (best)
            memcpy(best + n, t.data, t.bytes);
        n += t.bytes / sizeof *best;
    }
    return n;
}

/* ---- words ---- */

static qn_status read_typed(const personalising *p, const char *path, char **typed, size_t *n,
                            size_t *capacity) {
    qn_file *file;
    char *text;
    QN_TRY(qn_file_open(p->allocator, path, &file));
    const size_t bytes = (size_t)qn_file_bytes(file);
    qn_status status = qn_allocate(p->allocator, bytes + 1, 1, &text);
    if (status == QN_OK) {
        status = qn_file_read(file, 0, text, bytes);
        if (status == QN_OK && !memchr(text, 0, bytes)) /* as the corpus: others are no text */
            status = qn_text_type(p->allocator, text, bytes, typed, n, capacity);
        qn_release(p->allocator, text, bytes + 1, 1);
    }
    qn_file_close(file);
    return status;
}

/* Counts unknown words among those that are trained on. */
static qn_status count_unknown(const personalising *p, const char *text, size_t n,
                               qn_word_table *unknown) {
    const char *at = text, *word;
    size_t bytes;
    for (int64_t i = 0; i < p->o->n_words - p->o->n_words / 5; i++) {
        if (!qn_word_next(&at, text + n, &word, &bytes))
            break;
        if (!qn_word_is_end(word, bytes) &&
            qn_words_find(&p->words, word, bytes) == QN_UNKNOWN_WORD)
            QN_TRY(qn_word_table_add(unknown, word, bytes));
    }
    return QN_OK;
}

typedef struct visit {
    personalising *p;
    qn_word_table *unknown;
} visit;

static qn_status count_file(const visit *v, const char *path) {
    char *typed = NULL;
    size_t n = 0, capacity = 0;
    qn_status status = read_typed(v->p, path, &typed, &n, &capacity);
    if (status == QN_OK)
        status = count_unknown(v->p, typed, n, v->unknown);
    qn_release(v->p->allocator, typed, capacity, 1);
    return status;
}

static qn_status visit_file(void *context, const char *name, bool is_folder) {
    const visit *v = context;
    char path[1024];
    if (is_folder)
        return QN_OK;
    snprintf(path, sizeof path, "%.700s/%.300s", v->p->o->text, name);
    return count_file(v, path);
}

/* The vocabulary with the user's words for its last ones, as text in the settings. */
static qn_status renew_words(personalising *p, const qn_word_table *unknown,
                             qn_metadata *settings) {
    const int32_t room = p->words.n / NEW_OF;
    qn_words chosen;
    if (unknown->n == 0 || room == 0)
        return QN_OK;
    QN_TRY(qn_words_choose(&p->arena, unknown, QN_FIRST_WORD + room, 1, &chosen));
    const int32_t n_new = chosen.n - QN_FIRST_WORD;
    for (int32_t i = 0; i < n_new; i++)
        p->words.words[p->words.n - n_new + i] = chosen.words[QN_FIRST_WORD + i];
    p->result->n_new = n_new;
    qn_words_deinit(&chosen);
    const char *text = qn_words_print(&p->arena, &p->words);
    return text ? qn_metadata_set(settings, QN_TEXT_WORDS, text) : QN_ERROR_MEMORY;
}

static qn_status find_new_words(personalising *p, qn_metadata *settings) {
    qn_word_table unknown = {.arena = &p->arena};
    visit v = {p, &unknown};
    qn_status status = qn_path_is_folder(p->o->text)
                           ? qn_folder_list(p->allocator, p->o->text, visit_file, &v)
                           : count_file(&v, p->o->text);
    if (status == QN_OK)
        status = renew_words(p, &unknown, settings);
    qn_word_table_deinit(&unknown);
    return status;
}

/* ---- tasks ---- */

static qn_status set_number(qn_metadata *settings, const char *key, double value) {
    char text[32];
    qn_print(text, sizeof text, "%.17g", value);
    return qn_metadata_set(settings, key, text);
}

/* What belongs to the run that made the general network stays behind. */
static qn_status make_settings(const personalising *p, qn_metadata *settings) {
    static const char *const left[] = {"step",       "best",           "resume", "load",   "steps",
                                       "early-stop", "schedule-steps", "warmup", "holdout"};
    const qn_metadata *from = p->general->settings;
    char data[1024];
    for (int i = 0; i < qn_metadata_count(from); i++) {
        const char *key, *value;
        bool is_left = false;
        qn_metadata_at(from, i, &key, &value);
        for (size_t j = 0; j < sizeof left / sizeof *left; j++)
            is_left = is_left || strcmp(key, left[j]) == 0;
        if (!is_left)
            QN_TRY(qn_metadata_set(settings, key, value));
    }
    snprintf(data, sizeof data, "text:%.1000s", p->o->text);
    QN_TRY(qn_metadata_set(settings, "data", data));
    QN_TRY(qn_metadata_set(settings, "schedule", "constant"));
    QN_TRY(set_number(settings, "lr", p->o->rate));
    QN_TRY(set_number(settings, "batch", BATCH));
    QN_TRY(set_number(settings, "length", LENGTH));
    QN_TRY(set_number(settings, "epochs", (double)p->o->epochs));
    return set_number(settings, QN_FIRST_WORDS, (double)p->o->n_words);
}

static qn_status open_task(const personalising *p, qn_metadata *settings, qn_task **task) {
    qn_task_options o = {QN_TASK_OPTIONS_INIT, .model = p->general->model, .training = true};
    o.engine.allocator = p->allocator;
    o.engine.n_threads = qn_engine_get_options(p->general->engine)->n_threads;
    o.log = p->general->log;
    o.settings = settings;
    QN_TRY(qn_task_open(&o, task));
    const qn_status status = take_weights(p, *task);
    if (status != QN_OK)
        qn_task_close(*task);
    return status;
}

static qn_status measure(const personalising *p, qn_task *task, qn_split split, qn_metrics *m) {
    int64_t n;
    QN_TRY(qn_task_evaluate(task, split, p->o->should_stop, p->o->user, m, &n));
    p->result->n_words[split] = n;
    if (n > 0)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s has too few words: none is left to %s; write more, or use a smaller "
                   "--personal-words",
                   p->o->text, split == QN_TEST ? "test on" : "validate by");
}

/* The general network on the user's words. */
static qn_status measure_before(personalising *p) {
    qn_metadata *settings;
    qn_task *task;
    QN_TRY(qn_metadata_create(p->allocator, &settings));
    qn_status status = make_settings(p, settings);
    if (status == QN_OK)
        status = open_task(p, settings, &task);
    if (status == QN_OK) {
        status = measure(p, task, QN_TEST, &p->result->before);
        qn_task_close(task);
    }
    qn_metadata_destroy(settings);
    return status;
}

static qn_status train_epoch(const personalising *p, qn_task *task) {
    const double n = qn_task_get_facts(task).epoch_steps;
    for (int64_t i = 0; i < (int64_t)ceil(n); i++) {
        qn_metrics metrics = {0};
        if (p->o->should_stop && p->o->should_stop(p->o->user))
            return qn_fail(QN_ERROR_INTERRUPTED, "personalising was stopped");
        QN_TRY(qn_task_step(task, &metrics));
        p->result->n_steps++;
        if (p->o->stepped)
            p->o->stepped(p->o->user);
    }
    return QN_OK;
}

/* *least: the least validation loss so far. */
static qn_status judge(const personalising *p, qn_task *task, int64_t epoch, double *least) {
    qn_metrics metrics = {0};
    QN_TRY(measure(p, task, QN_VALIDATION, &metrics));
    if (p->o->judged)
        p->o->judged(p->o->user, epoch, &metrics);
    const double loss = qn_metrics_get(&metrics, "loss");
    if (epoch > 0 && !(loss < *least))
        return QN_OK;
    *least = loss;
    p->result->epoch = epoch;
    copy_best(p->best, task, false);
    return QN_OK;
}

/* It ends where two epochs in a row were no better, or it diverges. */
static qn_status train(personalising *p, qn_task *task) {
    double least = (double)INFINITY;
    p->n_values = copy_best(NULL, task, false);
    QN_TRY(qn_allocate(p->allocator, p->n_values, sizeof *p->best, &p->best));
    QN_TRY(judge(p, task, 0, &least));
    for (int64_t epoch = 1; epoch <= p->o->epochs && epoch <= p->result->epoch + 2; epoch++) {
        qn_status status = train_epoch(p, task);
        if (status == QN_OK)
            status = judge(p, task, epoch, &least);
        if (status == QN_ERROR_NUMERIC)
            break;
        QN_TRY(status);
    }
    copy_best(p->best, task, true);
    p->result->n_words[QN_TRAIN] = qn_task_get_facts(task).n_samples[QN_TRAIN];
    return measure(p, task, QN_TEST, &p->result->after);
}

static qn_status personalise(personalising *p, qn_metadata *settings, qn_task **personal) {
    const char *kept = qn_metadata_get(p->general->settings, QN_TEXT_WORDS);
    if (!p->general->model->has_words || !kept)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s does not predict words; next-word does",
                       p->general->model->name);
    QN_TRY(qn_words_parse(&p->arena, kept, &p->words));
    QN_TRY(measure_before(p));
    QN_TRY(make_settings(p, settings));
    QN_TRY(find_new_words(p, settings));
    QN_TRY(open_task(p, settings, personal));
    const qn_status status = train(p, *personal);
    if (status != QN_OK)
        qn_task_close(*personal);
    return status;
}

qn_status qn_task_personalise(const qn_task *task, const qn_personal_options *options,
                              qn_metadata *settings, qn_task **personal, qn_personal *result) {
    qn_personal_options o;
    QN_NEED(task, "task");
    QN_NEED(options, "options");
    QN_NEED(settings, "settings");
    QN_NEED(personal, "personal");
    QN_NEED(result, "result");
    QN_TRY(QN_OPTIONS_TAKE(qn_personal_options, options, &o));
    *result = (qn_personal){0};
    if (!o.text)
        return qn_fail(QN_ERROR_ARGUMENT, "qn_personal_options: text is null");
    o.n_words = o.n_words > 0 ? o.n_words : USUAL_WORDS;
    o.epochs = o.epochs > 0 ? o.epochs : USUAL_EPOCHS;
    o.rate = o.rate > 0 ? o.rate : task->model->recipe.rate / 6;
    personalising p = {
        .general = task, .o = &o, .allocator = task->counter.below, .result = result};
    qn_arena_init(&p.arena, p.allocator);
    const qn_status status = personalise(&p, settings, personal);
    qn_release(p.allocator, p.best, p.n_values, sizeof *p.best);
    qn_words_deinit(&p.words);
    qn_arena_deinit(&p.arena);
    return status;
}
