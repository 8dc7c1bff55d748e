/* Language models from files, on text: fine-tuning, its adapters among it, and measuring by
 * perplexity and bits per byte. Texts are cut into windows (windows.h), which training reads in an
 * order that is drawn anew for each epoch; batches go on from one epoch into the next. Evaluation
 * reads all windows, one at a time. Leaves out: windows of several texts. */
#include "tasks/language/tokens.h"

#include "base/fmath.h"
#include "base/rng.h"
#include "base/status.h"
#include "tasks/language/chats.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TRAINING = 0, LOSS = 0, LOSSES = 1 };

/* ---- data ---- */

static qn_status add_texts(qn_tokens_task *t, const qn_corpus *corpus) {
    for (int split = 0; split < QN_SPLITS; split++) {
        qn_windows *w = &t->splits[split];
        w->length = t->length;
        w->begin_token = t->model->special.begin;
        for (int64_t i = 0; i < corpus->n[split]; i++)
            QN_TRY(qn_windows_add(w, t->model, corpus->passages[split][i].text,
                                  corpus->passages[split][i].bytes));
    }
    return QN_OK;
}

static void tell_lost(const qn_task *task, const qn_tokens_task *t) {
    char text[256];
    int64_t n = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        n += t->splits[split].n_lost;
    if (n == 0 || !task->log || !task->log->write)
        return;
    snprintf(text, sizeof text,
             "%lld bytes of the text have no token in the model's vocabulary, and are left out",
             (long long)n);
    task->log->write(task->log->user, 1, text);
}

static const char chat_prefix[] = "chat:";

static qn_status add_chats(const qn_task *task, qn_tokens_task *t, const char *path) {
    const qn_chats_options o = {.log = task->log,
                                .is_whole = qn_setting_flag(task, QN_WHOLE, false),
                                .holdout = qn_setting_number(task, "holdout", 0)};
    for (int split = 0; split < QN_SPLITS; split++) {
        t->splits[split].length = t->length;
        t->splits[split].begin_token = -1; /* the template writes it */
    }
    return qn_chats_add(t->splits, t->model, path, &o);
}

static qn_status add_corpus(const qn_task *task, qn_tokens_task *t, const char *data) {
    qn_corpus corpus;
    const qn_corpus_options options = {.allocator = task->allocator,
                                       .log = task->log,
                                       .is_raw = true,
                                       .is_whole = qn_setting_flag(task, QN_WHOLE, false),
                                       .holdout = qn_setting_number(task, "holdout", 0),
                                       .seed = qn_seed_of(task->settings)};
    QN_TRY(qn_corpus_open(data, &options, &corpus));
    const qn_status status = add_texts(t, &corpus);
    qn_corpus_close(&corpus);
    return status;
}

static qn_status open_texts(qn_task *task, qn_tokens_task *t) {
    const char *data = qn_setting_text(task, "data", NULL);
    if (t->has_text)
        return QN_OK;
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "nothing says what data to use; give --data text:FILE or chat:FILE.jsonl");
    if (strncmp(data, chat_prefix, sizeof chat_prefix - 1) == 0)
        QN_TRY(add_chats(task, t, data + sizeof chat_prefix - 1));
    else
        QN_TRY(add_corpus(task, t, data));
    t->has_text = true;
    tell_lost(task, t);
    for (int split = 0; split < QN_SPLITS; split++)
        task->facts.n_samples[split] = t->splits[split].n_predicted;
    return QN_OK;
}

static qn_status check_training(const qn_task *task, const qn_tokens_task *t) {
    if (t->splits[QN_TRAIN].n == 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s has no two tokens of text to train on: the next token is what is "
                       "learned",
                       qn_setting_text(task, "data", ""));
    if (qn_setting_text(task, "lora", NULL) || qn_language_has_floats(&t->model->language))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "the weights of %s are in blocks of few bits, which cannot be trained: train "
                   "adapters beside them with --lora rank=8",
                   task->model->name);
}

/* ---- settings ---- */

/* Parts of a model by their names: what adapters stand beside. */
static const struct {
    const char *name, *patterns;
} parts[] = {{"attn", "blk.*.attn_*"}, {"mlp", "blk.*.ffn_*"}, {"all-linear", "blk.*"}};

static const char *pattern_of(const char *name, size_t bytes) {
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        if (strlen(parts[i].name) == bytes && memcmp(parts[i].name, name, bytes) == 0)
            return parts[i].patterns;
    }
    return NULL;
}

/* Where the part with the layers, which is the last, begins; null: there is none. */
static const char *find_layers(const char *lora) {
    while (lora && strncmp(lora, "layers=", 7) != 0) {
        lora = strchr(lora, ',');
        lora += lora != NULL;
    }
    return lora;
}

qn_status qn_tokens_expand_lora(qn_arena *arena, const char *lora, const char **expanded) {
    const char *layers = find_layers(lora);
    const int before = layers ? (int)(layers - lora) : (int)strlen(lora);
    const char *made = qn_arena_format(arena, "%.*s%slayers=", before, lora,
                                       before > 0 && lora[before - 1] != ',' ? "," : "");
    const char *at = layers ? layers + 7 : "all-linear";
    for (int i = 0; made && *at; i++) {
        const size_t bytes = strcspn(at, ",");
        const char *pattern = pattern_of(at, bytes);
        made = qn_arena_format(arena, "%s%s%.*s", made, i ? "," : "",
                               pattern ? (int)strlen(pattern) : (int)bytes, pattern ? pattern : at);
        at += bytes + (at[bytes] == ',');
    }
    *expanded = made;
    return made ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status expand_lora(qn_task *task, qn_tokens_task *t) {
    const char *lora = qn_setting_text(task, "lora", NULL);
    if (!lora)
        return QN_OK;
    QN_TRY(qn_tokens_expand_lora(&t->arena, lora, &lora));
    return qn_setting_set(task, "lora", lora);
}

static qn_status find_sizes(qn_task *task, qn_tokens_task *t) {
    const int64_t context = t->model->language.sizes[QN_LANGUAGE_CONTEXT];
    t->batch = qn_task_batch(task);
    t->length = qn_setting_count(task, "length", task->model->sizes.length);
    if (t->batch < 1 || t->length < 1)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a batch of %lld rows of %lld tokens; both are at least 1",
                       (long long)t->batch, (long long)t->length);
    if (t->length > context)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a row of %lld tokens, and %s was made for %lld at most; use a smaller "
                       "--length",
                       (long long)t->length, task->model->name, (long long)context);
    snprintf(t->input_text, sizeof t->input_text, "%lld of %lld tokens", (long long)t->length,
             (long long)task->model->sizes.n_inputs);
    snprintf(t->output_text, sizeof t->output_text, "%lld outputs",
             (long long)task->model->sizes.n_outputs);
    return QN_OK;
}

/* Weights are the engine's where all of them train, or come from a checkpoint; beside adapters they
 * stay in the files. */
static bool has_parameters(const qn_task *task) {
    const bool has_checkpoint = qn_setting_text(task, "format", NULL) != NULL;
    return !qn_setting_text(task, "lora", NULL) && (task->training || has_checkpoint);
}

/* ---- opening ---- */

static qn_status make_drawing(qn_task *task, qn_tokens_task *t) {
    static const char *const names[] = {"reading", "drawing"};
    qn_program_options programs[QN_DRAWING_PROGRAMS];
    QN_TRY(qn_drawing_prepare(t));
    for (int i = 0; i < QN_DRAWING_PROGRAMS; i++)
        programs[i] = (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = names[i],
                                           .user = &t->drawings[i], .build = qn_drawing_build};
    return qn_task_make_engine(task, programs, QN_DRAWING_PROGRAMS);
}

static qn_status make_programs(qn_task *task, qn_tokens_task *t) {
    qn_task_network rows = {task->model, task->model->sizes}, row;
    qn_program_options programs[2];
    int n = 0;
    rows.sizes.batch = t->batch;
    rows.sizes.length = t->length;
    row = rows;
    row.sizes.batch = 1;
    task->facts.sizes = rows.sizes;
    if (task->training)
        programs[n++] =
            (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "training",
                                 .training = true, .user = &rows, .build = qn_task_build};
    t->evaluation = n;
    programs[n++] = (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "evaluation",
                                         .user = &row, .build = qn_task_build};
    return qn_task_make_engine(task, programs, n);
}

static void fill_facts(qn_task *task, const qn_tokens_task *t) {
    qn_task_facts *f = &task->facts;
    f->data = qn_setting_text(task, "data", "");
    f->input = t->input_text;
    f->output = t->output_text;
    f->unit = "tokens";
    f->batch = t->batch;
    f->step_samples = t->batch * t->length * qn_setting_count(task, "accumulate", 1);
}

static qn_status open_training(qn_task *task, qn_tokens_task *t) {
    QN_TRY(open_texts(task, t));
    QN_TRY(check_training(task, t));
    qn_task_set_length(task, (double)t->splits[QN_TRAIN].n / (double)t->batch);
    return QN_OK;
}

static qn_status tokens_open(qn_task *task) {
    qn_tokens_task *t;
    const bool draws = qn_setting_flag(task, QN_DRAWS, false);
    QN_TRY(qn_allocate(task->allocator, 1, sizeof *t, &t));
    task->self = t;
    qn_arena_init(&t->arena, task->allocator);
    for (int split = 0; split < QN_SPLITS; split++)
        qn_windows_init(&t->splits[split], task->allocator);
    t->model = qn_language_model_of(task->model);
    if (!t->model)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s is no language model from a file",
                       task->model->name);
    QN_TRY(find_sizes(task, t));
    QN_TRY(expand_lora(task, t));
    t->model->has_parameters = has_parameters(task);
    if (task->opening->recompute == QN_RECOMPUTE_USUAL)
        task->opening->recompute = QN_RECOMPUTE_LAYERS;
    if (task->training)
        QN_TRY(open_training(task, t));
    fill_facts(task, t);
    const size_t n = (size_t)(t->batch * t->length);
    t->tokens = qn_arena_allocate(&t->arena, n, sizeof *t->tokens);
    t->labels = qn_arena_allocate(&t->arena, n, sizeof *t->labels);
    if (!t->tokens || !t->labels)
        return QN_ERROR_MEMORY;
    QN_TRY(draws ? make_drawing(task, t) : make_programs(task, t));
    return qn_language_model_fill(t->model, task->engine);
}

static void tokens_close(qn_task *task) {
    qn_tokens_task *t = task->self;
    if (!t)
        return;
    for (int split = 0; split < QN_SPLITS; split++)
        qn_windows_deinit(&t->splits[split]);
    qn_arena_deinit(&t->arena);
    qn_release(task->allocator, t, 1, sizeof *t);
}

static qn_status tokens_resume(qn_task *task) {
    qn_tokens_task *t = task->self;
    t->n_batches = qn_engine_steps(task->engine) * qn_setting_count(task, "accumulate", 1);
    return QN_OK;
}

/* ---- running ---- */

/* Rows of batch `number`: windows in the order of their epochs. */
static void fill_batch(const qn_task *task, qn_tokens_task *t, int64_t number) {
    const qn_windows *w = &t->splits[QN_TRAIN];
    const bool shuffles = qn_setting_flag(task, "shuffle", true);
    for (int64_t row = 0; row < t->batch; row++) {
        const uint64_t at = (uint64_t)(number * t->batch + row), n = w->n;
        const qn_rng rng =
            qn_rng_make(qn_seed_of(task->settings), qn_hash_text("language.order"), at / n);
        const uint64_t index = shuffles ? qn_rng_permute(rng, at % n, n) : at % n;
        qn_windows_fill(w, (size_t)index, t->tokens + row * t->length, t->labels + row * t->length);
    }
}

static qn_status run(qn_task *task, const qn_tokens_task *t, int program) {
    return qn_engine_run(task->engine, program, (const void *[]){t->tokens, t->labels});
}

static double loss_of(const qn_task *task, int program) {
    return (double)*(const float *)qn_engine_result(task->engine, program, LOSS);
}

static qn_status tokens_step(qn_task *task, qn_metrics *metrics) {
    qn_tokens_task *t = task->self;
    const int64_t step = qn_engine_steps(task->engine);
    double sum = 0;
    int n = 0;
    while (qn_engine_steps(task->engine) == step) {
        fill_batch(task, t, t->n_batches);
        QN_TRY(run(task, t, TRAINING));
        sum += loss_of(task, TRAINING);
        t->n_batches++;
        n++;
    }
    qn_metrics_add(metrics, "loss", sum / n, false);
    qn_metrics_add(metrics, "perplexity", qn_exp_f64(sum / n), false);
    return QN_OK;
}

static qn_status tokens_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                                 void *user, qn_metrics *metrics, int64_t *n_samples) {
    qn_tokens_task *t = task->self;
    double sum = 0;
    QN_TRY(open_texts(task, t));
    const qn_windows *w = &t->splits[split];
    for (size_t i = 0; i < w->n; i++) {
        if (should_stop && should_stop(user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
        qn_windows_fill(w, i, t->tokens, t->labels);
        QN_TRY(run(task, t, t->evaluation));
        const float *losses = qn_engine_result(task->engine, t->evaluation, LOSSES);
        for (int64_t k = 0; k < w->list[i].n; k++)
            sum += (double)losses[k];
    }
    *n_samples = w->n_predicted;
    if (w->n_predicted == 0)
        return QN_OK;
    const double loss = sum / (double)w->n_predicted;
    qn_metrics_add(metrics, "loss", loss, false);
    qn_metrics_add(metrics, "perplexity", qn_exp_f64(loss), false);
    qn_metrics_add(metrics, "bits_per_byte", sum / M_LN2 / (double)w->n_bytes, false);
    return QN_OK;
}

/* The first row of the last batch. */
static qn_status tokens_infer(qn_task *task, double *loss) {
    qn_tokens_task *t = task->self;
    if (t->n_batches == 0)
        return QN_OK;
    fill_batch(task, t, t->n_batches - 1);
    QN_TRY(run(task, t, t->evaluation));
    *loss = loss_of(task, t->evaluation);
    return QN_OK;
}

const qn_task_kind qn_task_tokens = {
    .name = "tokens",
    .summary = "predicting the next token of text, by a language model from a file",
    .open = tokens_open,
    .close = tokens_close,
    .resume = tokens_resume,
    .step = tokens_step,
    .evaluate = tokens_evaluate,
    .sample = qn_drawing_sample,
    .infer = tokens_infer,
};
