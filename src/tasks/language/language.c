/* Language: predicts the next character, or the next word, of a text. The training text is split
 * into as many streams as a batch has rows. Each step takes the next block of every stream and
 * continues with the network's state after the previous block (gradients stop there), also across a
 * checkpoint. An epoch that begins with a block begins with zero states. The end of an epoch that
 * does not fill a block is in one with the beginning of the next epoch, which goes on with the
 * state; the characters that do not fill a column of all streams are the first of the next epoch.
 * Checkpoints of older versions skip both. A network of this task has the inputs tokens (N, T), its
 * states, and labels (N * T); its results are the loss, the states after the block, and, except in
 * training, the loss of each label and the logits (N * T, C). It may have any number of states, of
 * any shape, in the same order among inputs and results. Leaves out: different stream starts in
 * each epoch. */
#include "base/fmath.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/text/corpus.h"
#include "data/text/typed.h"
#include "tasks/language/word_score.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STATES = 16, SAMPLE_LENGTH = 400, SAMPLE_WORDS = 60 };

/* The training program, where there is one; the loss among its results. */
enum { TRAINING = 0, LOSS = 0 };

/* Setting under which a checkpoint keeps its characters. */
static const char characters_key[] = "text.characters";

/* Rows of a text that are read side by side, a block at a time. Row r begins at r * row_length and
 * predicts row_length characters, fewer where the text ends. In training it predicts of_epoch of
 * them in an epoch, the text is a ring, and an epoch begins by shift characters behind the one
 * before. */
typedef struct streams {
    const uint16_t *text;   /* (n) */
    const uint8_t *letters; /* (n) of words; or null */
    int64_t n, n_rows, row_length, block_length, of_epoch, shift;
} streams;

/* A program's state: memory of its inputs. */
typedef struct states {
    int n;
    void *data[MOST_STATES];
    size_t bytes[MOST_STATES];
} states;

typedef struct language {
    qn_corpus corpus; /* opened when it is first needed, unless it is trained on */
    bool has_corpus;
    qn_arena arena; /* of characters that a checkpoint gave, and buffers */
    qn_characters characters;
    qn_words words; /* the corpus's, or its own; n 0: tokens are characters */
    int n_tokens;
    qn_network_sizes sizes;          /* of a block; drawing has a character */
    int evaluation, drawing;         /* programs */
    states carried, measured, drawn; /* of training, evaluation, drawing */
    int32_t *tokens, *labels;        /* (N, T) */
    streams train;
    int64_t n_batches; /* trained on so far */
    char input_text[64], output_text[32];
} language;

/* ---- data ---- */

static qn_status open_corpus(qn_task *task, language *l) {
    const char *data = qn_setting_text(task, "data", NULL);
    if (l->has_corpus)
        return QN_OK;
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT, "nothing says what data to use; give --data");
    const qn_corpus_options options = {
        .allocator = task->allocator,
        .log = task->log,
        .characters = qn_setting_text(task, characters_key, NULL),
        .words = qn_setting_text(task, QN_TEXT_WORDS, NULL),
        .has_words = task->model->has_words,
        .most_tokens = (int)qn_setting_count(task, "vocabulary", task->model->sizes.n_inputs),
        .holdout = qn_setting_number(task, "holdout", 0),
        .n_first = qn_setting_count(task, QN_FIRST_WORDS, 0),
        .seed = (uint64_t)qn_setting_count(task, "seed", 1),
    };
    QN_TRY(qn_corpus_open(data, &options, &l->corpus));
    l->has_corpus = true;
    task->facts.data = l->corpus.name;
    for (int split = 0; split < QN_SPLITS; split++)
        task->facts.n_samples[split] = l->corpus.n[split] > 1 ? l->corpus.n[split] - 1 : 0;
    return QN_OK;
}

/* From the checkpoint, or else from the text, which is then kept. */
static qn_status find_characters(qn_task *task, language *l) {
    const char *kept = qn_setting_text(task, characters_key, NULL);
    if (kept)
        return qn_characters_parse(&l->arena, kept, &l->characters);
    QN_TRY(open_corpus(task, l));
    l->characters = l->corpus.characters;
    const char *text = qn_characters_print(&l->arena, &l->characters);
    return text ? qn_setting_set(task, characters_key, text) : QN_ERROR_MEMORY;
}

static qn_status find_words(qn_task *task, language *l) {
    const char *kept = qn_setting_text(task, QN_TEXT_WORDS, NULL);
    if (kept)
        return qn_words_parse(&l->arena, kept, &l->words);
    QN_TRY(open_corpus(task, l));
    l->words = l->corpus.words;
    const char *text = qn_words_print(&l->arena, &l->words);
    return text ? qn_setting_set(task, QN_TEXT_WORDS, text) : QN_ERROR_MEMORY;
}

static qn_status find_tokens(qn_task *task, language *l) {
    QN_TRY(task->model->has_words ? find_words(task, l) : find_characters(task, l));
    l->n_tokens = task->model->has_words ? l->words.n : l->characters.n;
    return QN_OK;
}

static const char *unit_of(const qn_task *task) {
    return task->model->has_words ? "words" : "characters";
}

static int64_t block_length(const qn_task *task) {
    return qn_setting_count(task, "length", task->model->sizes.length);
}

static qn_status fit_batch(qn_task *task, language *l) {
    const int64_t length = block_length(task);
    QN_TRY(open_corpus(task, l));
    if (length > 0 && l->corpus.n[QN_TRAIN] <= length)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s has %lld %s to train on: too few for a block of %lld; use a smaller "
                       "--length",
                       l->corpus.name, (long long)l->corpus.n[QN_TRAIN], unit_of(task),
                       (long long)length);
    return length > 0
               ? qn_task_fit_batch(task, (l->corpus.n[QN_TRAIN] - 1) / length, "blocks of text")
               : QN_OK;
}

static void find_streams(qn_task *task, language *l) {
    const bool uses_all = qn_task_uses_last_batch(task);
    const int64_t n = l->corpus.n[QN_TRAIN], n_rows = l->sizes.batch, length = l->sizes.length;
    const int64_t row = (n - 1) / n_rows, of_epoch = uses_all ? row : row / length * length;
    l->train = (streams){.text = l->corpus.tokens[QN_TRAIN],
                         .n = n,
                         .n_rows = n_rows,
                         .row_length = row,
                         .block_length = length,
                         .of_epoch = of_epoch,
                         .shift = uses_all ? (n - 1) % n_rows : 0};
    task->facts.n_left_out = uses_all ? 0 : n - 1 - of_epoch * n_rows;
    qn_task_set_length(task, (double)of_epoch / (double)length);
}

/* Fills tokens and labels with block `number` of training, counted over all epochs; false: the
 * block begins amid an epoch. */
static bool fill_training(const streams *s, int64_t number, int32_t *tokens, int32_t *labels) {
    const int64_t length = s->block_length;
    for (int64_t i = 0; i < s->n_rows * length; i++) {
        const int64_t place = number * length + i % length, epoch = place / s->of_epoch;
        const int64_t of_row = i / length * s->row_length + place % s->of_epoch;
        const int64_t at = (epoch * s->shift + of_row) % (s->n - 1);
        tokens[i] = s->text[at];
        labels[i] = s->text[at + 1];
    }
    return number * length % s->of_epoch == 0;
}

/* Fills tokens and labels with block `number` of every row; labels beyond a row's end are -1.
 * Returns how many are not. */
static int64_t fill_block(const streams *s, int64_t number, int32_t *tokens, int32_t *labels) {
    int64_t n_labels = 0;
    for (int64_t row = 0; row < s->n_rows; row++) {
        const int64_t begin = row * s->row_length + number * s->block_length;
        int64_t end = (row + 1) * s->row_length;
        end = end < s->n - 1 ? end : s->n - 1;
        for (int64_t t = 0; t < s->block_length; t++) {
            const bool is_there = begin + t < end;
            const int64_t at = row * s->block_length + t;
            tokens[at] = is_there ? s->text[begin + t] : 0;
            labels[at] = is_there ? s->text[begin + t + 1] : -1;
            n_labels += is_there;
        }
    }
    return n_labels;
}

/* ---- opening ---- */

static qn_status find_sizes(qn_task *task, language *l) {
    qn_network_sizes sizes = task->model->sizes;
    sizes.batch = qn_task_batch(task);
    sizes.length = block_length(task);
    sizes.hidden = qn_setting_count(task, "hidden", 0);
    sizes.n_inputs = sizes.n_outputs = l->n_tokens;
    if (sizes.batch < 1 || sizes.length < 1)
        return qn_fail(QN_ERROR_ARGUMENT, "a batch of %lld blocks of %lld; both are at least 1",
                       (long long)sizes.batch, (long long)sizes.length);
    l->sizes = sizes;
    snprintf(l->input_text, sizeof l->input_text, "%lld of %d %s", (long long)sizes.length,
             l->n_tokens, unit_of(task));
    snprintf(l->output_text, sizeof l->output_text, "%d outputs", l->n_tokens);
    return QN_OK;
}

static qn_status make_engine(qn_task *task, language *l) {
    qn_task_network block = {task->model, l->sizes}, character = block;
    qn_program_options programs[3];
    int n = 0;
    character.sizes.batch = character.sizes.length = 1;
    if (task->training)
        programs[n++] =
            (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "training",
                                 .training = true, .user = &block, .build = qn_task_build};
    l->evaluation = n;
    programs[n++] = (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "evaluation",
                                         .user = &block, .build = qn_task_build};
    l->drawing = n;
    if (task->model->has_fixed_length)
        return qn_task_make_engine(task, programs, n);
    programs[n++] = (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "drawing",
                                         .user = &character, .build = qn_task_build};
    return qn_task_make_engine(task, programs, n);
}

/* Memory of the states that a program has; that of the training one is kept in checkpoints. */
static qn_status make_states(qn_task *task, language *l, int program, bool is_kept, states *s) {
    char name[128];
    s->n = qn_engine_input_count(task->engine, program) - 2;
    if (s->n < 0 || s->n > MOST_STATES)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: %d states; a language model has at most %d",
                       task->model->name, s->n, MOST_STATES);
    for (int i = 0; i < s->n; i++) {
        const qn_engine_input input = qn_engine_input_at(task->engine, program, 1 + i);
        s->bytes[i] = input.bytes;
        snprintf(name, sizeof name, "task.%s", input.name);
        if (is_kept)
            QN_TRY(qn_engine_add_state(task->engine, name, input.dtype, input.shape, &s->data[i]));
        else
            s->data[i] = qn_arena_allocate(&l->arena, 1, input.bytes);
        if (!s->data[i] && !task->how->plan_only)
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

static qn_status make_buffers(qn_task *task, language *l) {
    const size_t n = (size_t)(l->sizes.batch * l->sizes.length);
    l->tokens = qn_arena_allocate(&l->arena, n, sizeof *l->tokens);
    l->labels = qn_arena_allocate(&l->arena, n, sizeof *l->labels);
    if (!l->tokens || !l->labels)
        return QN_ERROR_MEMORY;
    if (task->training)
        QN_TRY(make_states(task, l, TRAINING, true, &l->carried));
    QN_TRY(make_states(task, l, l->evaluation, false, &l->measured));
    return task->model->has_fixed_length ? QN_OK
                                         : make_states(task, l, l->drawing, false, &l->drawn);
}

static void fill_facts(qn_task *task, const language *l) {
    qn_task_facts *f = &task->facts;
    const int64_t accumulate = qn_setting_count(task, "accumulate", 1);
    f->data = l->has_corpus ? l->corpus.name : qn_setting_text(task, "data", "");
    f->input = l->input_text;
    f->output = l->output_text;
    f->unit = unit_of(task);
    f->batch = l->sizes.batch;
    f->sizes = l->sizes;
    f->step_samples = l->sizes.batch * l->sizes.length * accumulate;
}

static qn_status language_open(qn_task *task) {
    language *l;
    QN_TRY(qn_allocate(task->allocator, 1, sizeof *l, &l));
    task->self = l;
    qn_arena_init(&l->arena, task->allocator);
    if (task->training)
        QN_TRY(qn_task_choose_last_batch(task,
                                         task->model->has_words ? QN_TEXT_WORDS : characters_key));
    QN_TRY(find_tokens(task, l));
    if (task->training)
        QN_TRY(fit_batch(task, l));
    QN_TRY(find_sizes(task, l));
    if (task->training)
        find_streams(task, l);
    fill_facts(task, l);
    QN_TRY(make_engine(task, l));
    return make_buffers(task, l);
}

static void language_close(qn_task *task) {
    language *l = task->self;
    if (!l)
        return;
    if (l->words.table.entries != l->corpus.words.table.entries)
        qn_words_deinit(&l->words);
    if (l->has_corpus)
        qn_corpus_close(&l->corpus);
    qn_arena_deinit(&l->arena);
    qn_release(task->allocator, l, 1, sizeof *l);
}

static qn_status language_resume(qn_task *task) {
    language *l = task->self;
    l->n_batches = qn_engine_steps(task->engine) * qn_setting_count(task, "accumulate", 1);
    return QN_OK;
}

/* ---- running ---- */

static void clear(const states *s) {
    for (int i = 0; i < s->n; i++)
        memset(s->data[i], 0, s->bytes[i]);
}

/* Runs a program from its states, which go on unless is_trial. */
static qn_status run(qn_task *task, language *l, int program, const states *s, bool is_trial) {
    const void *inputs[MOST_STATES + 2] = {l->tokens};
    for (int i = 0; i < s->n; i++)
        inputs[1 + i] = s->data[i];
    inputs[1 + s->n] = l->labels;
    QN_TRY(qn_engine_run(task->engine, program, inputs));
    for (int i = 0; i < s->n && !is_trial; i++)
        memcpy(s->data[i], qn_engine_result(task->engine, program, 1 + i), s->bytes[i]);
    return QN_OK;
}

static double loss_of(const qn_task *task, int program) {
    return (double)*(const float *)qn_engine_result(task->engine, program, LOSS);
}

static void add_metrics(const qn_task *task, qn_metrics *metrics, double loss) {
    qn_metrics_add(metrics, "loss", loss, false);
    if (task->model->has_words)
        qn_metrics_add(metrics, "perplexity", qn_exp_f64(loss), false);
    else
        qn_metrics_add(metrics, "bits_per_character", loss / M_LN2, false);
}

static qn_status language_step(qn_task *task, qn_metrics *metrics) {
    language *l = task->self;
    const int64_t step = qn_engine_steps(task->engine);
    double sum = 0;
    int n = 0;
    while (qn_engine_steps(task->engine) == step) {
        if (fill_training(&l->train, l->n_batches, l->tokens, l->labels))
            clear(&l->carried);
        QN_TRY(run(task, l, TRAINING, &l->carried, false));
        sum += loss_of(task, TRAINING);
        l->n_batches++;
        n++;
    }
    add_metrics(task, metrics, sum / n);
    return QN_OK;
}

/* What the words of a block were predicted as. */
static void score_block(const qn_task *task, const language *l, const streams *s, int64_t block,
                        qn_word_score *score) {
    const int64_t n = l->sizes.length;
    const float *logits = qn_engine_result(task->engine, l->evaluation, 2 + l->measured.n);
    for (int64_t i = 0; s->letters && i < s->n_rows * n; i++) {
        const int64_t at = i / n * s->row_length + block * n + i % n + 1;
        if (l->labels[i] >= 0)
            qn_word_score_add(score, &l->words, logits + i * l->n_tokens, l->labels[i],
                              s->letters[at]);
    }
}

static qn_status language_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                                   void *user, qn_metrics *metrics, int64_t *n_samples) {
    language *l = task->self;
    qn_word_score score = {0};
    double sum = 0;
    int64_t n_done = 0;
    QN_TRY(open_corpus(task, l));
    const int64_t n = l->corpus.n[split], n_rows = l->sizes.batch;
    if (n < 2)
        return QN_OK;
    const streams s = {.text = l->corpus.tokens[split],
                       .letters = l->corpus.letters[split],
                       .n = n,
                       .n_rows = n_rows,
                       .row_length = (n - 2) / n_rows + 1,
                       .block_length = l->sizes.length};
    clear(&l->measured);
    for (int64_t block = 0; block * s.block_length < s.row_length; block++) {
        if (should_stop && should_stop(user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
        n_done += fill_block(&s, block, l->tokens, l->labels);
        QN_TRY(run(task, l, l->evaluation, &l->measured, false));
        const float *losses = qn_engine_result(task->engine, l->evaluation, 1 + l->measured.n);
        for (int64_t i = 0; i < n_rows * s.block_length; i++)
            sum += (double)losses[i];
        score_block(task, l, &s, block, &score);
    }
    *n_samples = n_done;
    add_metrics(task, metrics, sum / (double)n_done);
    if (task->model->has_words)
        qn_word_score_end(&score, metrics);
    return QN_OK;
}

static qn_status language_infer(qn_task *task, double *loss) {
    language *l = task->self;
    if (l->n_batches == 0)
        return QN_OK;
    fill_training(&l->train, l->n_batches - 1, l->tokens, l->labels);
    clear(&l->measured);
    QN_TRY(run(task, l, l->evaluation, &l->measured, true));
    *loss = loss_of(task, l->evaluation);
    return QN_OK;
}

/* ---- drawing ---- */

/* A line that grows until its end comes. */
typedef struct writer {
    const qn_sample_options *options;
    char *line; /* (n) of capacity, in the heap of the task */
    size_t n, capacity;
} writer;

static void end_line(writer *w) {
    w->line[w->n] = 0;
    w->options->put(w->options->user, w->line);
    w->n = 0;
}

static qn_status put_character(const qn_task *task, writer *w, uint32_t code) {
    QN_TRY(qn_grow(task->allocator, &w->line, &w->capacity, w->n + QN_UTF8_BYTES + 1, 1));
    if (code == '\n')
        end_line(w);
    else
        w->n += qn_utf8_write(code, w->line + w->n);
    return QN_OK;
}

/* A sentence a line. */
static qn_status put_word(const qn_task *task, const language *l, writer *w, int token) {
    const char *word = token == QN_SENTENCE_END ? "." : l->words.words[token];
    const size_t bytes = strlen(word), blank = w->n > 0 && token != QN_SENTENCE_END;
    QN_TRY(qn_grow(task->allocator, &w->line, &w->capacity, w->n + bytes + blank + 1, 1));
    if (blank)
        w->line[w->n++] = ' ';
    memcpy(w->line + w->n, word, bytes);
    w->n += bytes;
    if (token == QN_SENTENCE_END)
        end_line(w);
    return QN_OK;
}

static qn_status put_token(const qn_task *task, const language *l, writer *w, int token) {
    return task->model->has_words ? put_word(task, l, w, token)
                                  : put_character(task, w, l->characters.codes[token]);
}

/* Feeds a character; the logits of the next are then the program's. */
static qn_status feed(qn_task *task, language *l, int token) {
    l->tokens[0] = token;
    l->labels[0] = -1;
    return run(task, l, l->drawing, &l->drawn, false);
}

/* One of the known tokens by the chances that the logits give at a temperature; 0: the
 * likeliest. uniform is in [0, 1). */
static int draw(const float *logits, int n, double temperature, double uniform) {
    int best = 1, last = 1;
    double sum = 0, at = 0;
    for (int i = 2; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    if (temperature <= 0)
        return best;
    for (int i = 1; i < n; i++)
        sum += qn_exp_f64(((double)logits[i] - (double)logits[best]) / temperature);
    for (int i = 1; i < n; i++) {
        at += qn_exp_f64(((double)logits[i] - (double)logits[best]) / temperature);
        last = i;
        if (at > uniform * sum)
            break;
    }
    return last;
}

/* As feed_prompt; the end of a sentence stands before the first word. */
static qn_status feed_words(qn_task *task, language *l, writer *w, const char *prompt, int *token) {
    char *typed = NULL;
    size_t n = 0, capacity = 0, bytes;
    const char *word;
    qn_status status = qn_text_type(task->allocator, prompt, strlen(prompt), &typed, &n, &capacity);
    const char *at = typed, *end = typed ? typed + n : at;
    *token = QN_SENTENCE_END;
    while (status == QN_OK && qn_word_next(&at, end, &word, &bytes)) {
        status = feed(task, l, *token);
        *token =
            qn_word_is_end(word, bytes) ? QN_SENTENCE_END : qn_words_find(&l->words, word, bytes);
        if (status == QN_OK)
            status = put_word(task, l, w, *token);
    }
    qn_release(task->allocator, typed, capacity, 1);
    return status;
}

/* Puts the prompt out, and all of it but its last token in; *token gets that. Without a prompt
 * it is the end of a line, after which a new one begins. */
static qn_status feed_prompt(qn_task *task, language *l, writer *w, int *token) {
    const char *prompt = w->options->prompt ? w->options->prompt : "";
    size_t left = strlen(prompt);
    if (task->model->has_words)
        return feed_words(task, l, w, prompt, token);
    const int line_end = qn_characters_find(&l->characters, '\n');
    *token = line_end > 0 ? line_end : 1;
    for (bool is_first = true; left > 0; is_first = false) {
        uint32_t code;
        const size_t bytes = qn_utf8_read(prompt, left, &code);
        if (!is_first)
            QN_TRY(feed(task, l, *token));
        *token = qn_characters_find(&l->characters, code);
        QN_TRY(put_character(task, w, code));
        prompt += bytes;
        left -= bytes;
    }
    return QN_OK;
}

static qn_status draw_text(qn_task *task, language *l, writer *w, int64_t number) {
    const qn_sample_options *o = w->options;
    const int64_t usual = task->model->has_words ? SAMPLE_WORDS : SAMPLE_LENGTH;
    const int64_t length = o->length > 0 ? o->length : usual;
    const qn_rng rng = qn_rng_make(o->seed, qn_hash_text("language.sample"), (uint64_t)number);
    int token;
    clear(&l->drawn);
    QN_TRY(feed_prompt(task, l, w, &token));
    for (int64_t i = 0; i < length; i++) {
        QN_TRY(feed(task, l, token));
        const float *logits = qn_engine_result(task->engine, l->drawing, 2 + l->drawn.n);
        const float uniform = qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
        token = draw(logits, l->n_tokens, o->temperature, (double)uniform);
        QN_TRY(put_token(task, l, w, token));
    }
    if (w->n > 0)
        end_line(w);
    return QN_OK;
}

/* A character that the network has never seen would be no start. */
static qn_status check_prompt(const language *l, const char *prompt) {
    for (size_t left = prompt ? strlen(prompt) : 0; left > 0;) {
        uint32_t code;
        const size_t bytes = qn_utf8_read(prompt, left, &code);
        if (qn_characters_find(&l->characters, code) == 0)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "the prompt has the character '%.*s' (U+%04X), which is not among the "
                           "%d of the text that was learned",
                           (int)bytes, prompt, (unsigned)code, l->characters.n - 1);
        prompt += bytes;
        left -= bytes;
    }
    return QN_OK;
}

static qn_status language_sample(qn_task *task, const qn_sample_options *options) {
    language *l = task->self;
    writer w = {.options = options};
    const int64_t count = options->count > 0 ? options->count : 1;
    qn_status status = task->model->has_words ? QN_OK : check_prompt(l, options->prompt);
    if (task->model->has_fixed_length)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s reads blocks of %lld characters, and text is drawn one by one: export "
                       "it with an open length",
                       task->model->name, (long long)l->sizes.length);
    if (!options->put)
        return status;
    for (int64_t i = 0; i < count && status == QN_OK; i++) {
        if (i > 0)
            options->put(options->user, "");
        status = draw_text(task, l, &w, i);
    }
    qn_release(task->allocator, w.line, w.capacity, 1);
    return status;
}

const qn_task_kind qn_task_language = {
    .name = "language",
    .summary = "predicting the next character, or word, of a text",
    .open = language_open,
    .close = language_close,
    .resume = language_resume,
    .step = language_step,
    .evaluate = language_evaluate,
    .sample = language_sample,
    .infer = language_infer,
};
