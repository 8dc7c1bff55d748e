/* Drawing text with a language model: the prompt is read in pieces and every further token by
 * itself, behind the keys and values of those before it, which are kept. */
#include "base/rng.h"
#include "base/status.h"
#include "data/text/characters.h"
#include "tasks/language/chats.h"
#include "tasks/language/choose.h"
#include "tasks/language/tokens.h"

#include <math.h>
#include <string.h>

enum { USUAL_LENGTH = 100 };

/* ---- programs ---- */

/* Floats that a layer keeps of a token. */
static size_t token_width(const qn_tokens_task *t) {
    const int64_t *s = t->model->language.sizes;
    return (size_t)(s[QN_LANGUAGE_KEY_HEADS] * s[QN_LANGUAGE_HEAD_WIDTH]);
}

qn_status qn_drawing_prepare(qn_tokens_task *t) {
    const size_t layers = (size_t)t->model->language.sizes[QN_LANGUAGE_LAYERS];
    const size_t n = (layers + 1) * ((size_t)t->length + 1) * token_width(t);
    t->keys = qn_arena_allocate(&t->arena, n, sizeof *t->keys);
    t->values = qn_arena_allocate(&t->arena, n, sizeof *t->values);
    if (!t->keys || !t->values)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < QN_DRAWING_PROGRAMS; i++) {
        qn_drawing *d = &t->drawings[i];
        *d = (qn_drawing){
            .model = t->model, .n = i == QN_READING ? QN_READ_AT_ONCE : 1, .most = t->length};
        d->tokens = qn_arena_allocate(&t->arena, (size_t)d->n, sizeof *d->tokens);
        d->positions = qn_arena_allocate(&t->arena, (size_t)d->n, sizeof *d->positions);
        d->first = qn_arena_allocate(&t->arena, (size_t)d->n, sizeof *d->first);
        if (!d->tokens || !d->positions || !d->first)
            return QN_ERROR_MEMORY;
    }
    return qn_language_model_prepare(t->model, t->length);
}

/* Results: the call's keys and values, and of one token its logits. */
qn_value qn_drawing_build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    qn_drawing *d = user;
    const qn_language *language = &d->model->language;
    const int64_t *s = language->sizes;
    const qn_shape past = QN_SHAPE(s[QN_LANGUAGE_LAYERS], d->most, s[QN_LANGUAGE_KEY_HEADS],
                                   s[QN_LANGUAGE_HEAD_WIDTH]);
    qn_language_past made;
    (void)phase;
    (void)kept;
    qn_language_call call = qn_language_call_of(qn_index_input(graph, "tokens", QN_SHAPE(1, d->n)));
    call.positions = qn_index_input(graph, "positions", QN_SHAPE(1, d->n));
    call.first = qn_index_input(graph, "first", QN_SHAPE(1, d->n));
    call.past.keys = qn_input(graph, "keys", past);
    call.past.values = qn_input(graph, "values", past);
    call.has_parameters = d->model->has_parameters;
    call.trains = call.has_parameters && qn_language_has_floats(language);
    qn_language_model_tables(d->model, graph, &call.tables);
    const qn_value x = qn_language_build(graph, language, &call, &made);
    qn_result(graph, made.keys);
    qn_result(graph, made.values);
    if (d->n == 1)
        qn_result(graph, qn_language_logits(graph, language, &call, x));
    return QN_NO_VALUE;
}

/* ---- running ---- */

/* What a call made of n tokens goes behind what is kept of each layer. */
static void keep(const qn_tokens_task *t, const qn_drawing *d, const float *made, int64_t n,
                 float *kept) {
    const size_t layers = (size_t)t->model->language.sizes[QN_LANGUAGE_LAYERS];
    const size_t width = token_width(t);
    for (size_t layer = 0; layer < layers; layer++)
        memcpy(kept + ((layer + 1) * (size_t)d->most + (size_t)t->n_read) * width,
               made + layer * (size_t)d->n * width, (size_t)n * width * sizeof *kept);
}

/* Reads n tokens, at most so many as the program takes. */
static qn_status read_tokens(qn_task *task, qn_tokens_task *t, int program, const int32_t *tokens,
                             int64_t n) {
    const qn_drawing *d = &t->drawings[program];
    const size_t begin = (size_t)t->n_read * token_width(t);
    for (int64_t i = 0; i < d->n; i++) {
        d->tokens[i] = i < n ? tokens[i] : 0;
        d->positions[i] = (int32_t)(t->n_read + i);
        d->first[i] = (int32_t)(d->most - t->n_read);
    }
    QN_TRY(qn_engine_run(
        task->engine, program,
        (const void *[]){d->tokens, d->positions, d->first, t->keys + begin, t->values + begin}));
    keep(t, d, qn_engine_result(task->engine, program, 0), n, t->keys);
    keep(t, d, qn_engine_result(task->engine, program, 1), n, t->values);
    t->n_read += n;
    return QN_OK;
}

/* All but the last token of a prompt. */
static qn_status read_prompt(qn_task *task, qn_tokens_task *t, const qn_tokens *prompt) {
    t->n_read = 0;
    for (size_t at = 0; at + 1 < prompt->n; at += QN_READ_AT_ONCE) {
        const size_t left = prompt->n - 1 - at;
        QN_TRY(read_tokens(task, t, QN_READING, prompt->list + at,
                           (int64_t)(left < QN_READ_AT_ONCE ? left : QN_READ_AT_ONCE)));
    }
    return QN_OK;
}

/* ---- text ---- */

/* Text on its way out. What may be the beginning of the text that ends it, or of a character, is
 * held back; where nobody takes pieces, all of it is, until lines are put. */
typedef struct writer {
    const qn_allocator *allocator;
    const qn_sample_options *options;
    char *text; /* (n) of capacity, not put out yet */
    size_t n, capacity;
    char *lines; /* (n_lines) of line_capacity */
    size_t n_lines, line_capacity;
    bool is_ended;
} writer;

static qn_status put(writer *w, size_t bytes) {
    const qn_sample_options *o = w->options;
    if (o->stream && bytes > 0)
        o->stream(o->user, w->text, bytes);
    if (!o->stream) {
        QN_TRY(qn_grow(w->allocator, &w->lines, &w->line_capacity, w->n_lines + bytes + 1, 1));
        memcpy(w->lines + w->n_lines, w->text, bytes);
        w->n_lines += bytes;
        w->lines[w->n_lines] = 0;
    }
    memmove(w->text, w->text + bytes, w->n - bytes);
    w->n -= bytes;
    return QN_OK;
}

/* Bytes at the end of a text that begin a character and do not end it. */
static size_t count_open(const char *text, size_t n) {
    for (size_t back = 1; back <= n && back < QN_UTF8_BYTES; back++) {
        const unsigned char c = (unsigned char)text[n - back];
        if ((c & 0xC0) == 0x80)
            continue;
        const size_t wanted = c >= 0xF0 ? 4 : c >= 0xE0 ? 3 : c >= 0xC0 ? 2 : 1;
        return wanted > back ? back : 0;
    }
    return 0;
}

/* Bytes at the end of a text that the text `stop` may begin with. */
static size_t count_begun(const char *text, size_t n, const char *stop) {
    const size_t most = strlen(stop);
    for (size_t length = most < n ? most : n; length > 0; length--) {
        if (memcmp(text + n - length, stop, length) == 0)
            return length;
    }
    return 0;
}

static qn_status write_text(writer *w, const char *text, size_t bytes) {
    const char *stop = w->options->stop;
    QN_TRY(qn_grow(w->allocator, &w->text, &w->capacity, w->n + bytes + 1, 1));
    memcpy(w->text + w->n, text, bytes);
    w->n += bytes;
    w->text[w->n] = 0;
    const char *found = stop && *stop ? strstr(w->text, stop) : NULL;
    if (found) {
        w->is_ended = true;
        w->n = (size_t)(found - w->text);
        return put(w, w->n);
    }
    const size_t begun = stop && *stop ? count_begun(w->text, w->n, stop) : 0;
    const size_t open = count_open(w->text, w->n);
    return put(w, w->n - (begun > open ? begun : open));
}

static qn_status end_text(writer *w) {
    const qn_sample_options *o = w->options;
    if (w->n > 0)
        QN_TRY(put(w, w->n));
    if (o->stream)
        o->stream(o->user, "\n", 1);
    for (char *at = o->stream || !o->put ? NULL : w->lines; at;) {
        char *end = strchr(at, '\n');
        if (end)
            *end = 0;
        o->put(o->user, at);
        at = end ? end + 1 : NULL;
    }
    return QN_OK;
}

/* ---- sampling ---- */

static qn_status check_logits(const qn_task *task, const float *logits, int64_t n) {
    for (int64_t i = 0; i < n; i++) {
        if (!isfinite(logits[i]))
            return qn_fail(QN_ERROR_NUMERIC,
                           "%s gives logits that are not finite: its weights are of no use",
                           task->model->name);
    }
    return QN_OK;
}

static qn_status draw_text(qn_task *task, qn_tokens_task *t, writer *w, qn_tokens *tokens,
                           qn_candidate *candidates, int64_t number) {
    const qn_sample_options *o = w->options;
    const qn_choosing how = {o->temperature, o->top_k, o->top_p, o->repetition_penalty};
    const qn_rng rng = qn_rng_make(o->seed, qn_hash_text("language.sample"), (uint64_t)number);
    const int64_t rows = t->model->language.sizes[QN_LANGUAGE_VOCABULARY];
    /* Rows beyond the tokenizer's tokens pad the table. */
    const int64_t n = qn_tokenizer_count(t->model->tokenizer) < rows
                          ? qn_tokenizer_count(t->model->tokenizer)
                          : rows;
    const int64_t length = o->length > 0 ? o->length : USUAL_LENGTH;
    QN_TRY(read_prompt(task, t, tokens));
    for (int64_t i = 0; i < length && !w->is_ended; i++) {
        QN_TRY(read_tokens(task, t, QN_DRAWING, &tokens->list[tokens->n - 1], 1));
        const float *logits = qn_engine_result(task->engine, QN_DRAWING, 2);
        QN_TRY(check_logits(task, logits, n));
        const float uniform = qn_rng_uniform(qn_rng_word(rng, (uint64_t)i));
        const int32_t token =
            qn_choose_token(&how, logits, n, tokens->list, tokens->n, (double)uniform, candidates);
        if (qn_language_is_end(&t->model->special, token))
            break;
        size_t bytes;
        const char *text = qn_tokenizer_token(t->model->tokenizer, token, &bytes);
        QN_TRY(write_text(w, text, bytes));
        QN_TRY(qn_grow(task->allocator, &tokens->list, &tokens->capacity, tokens->n + 1,
                       sizeof *tokens->list));
        tokens->list[tokens->n++] = token;
    }
    return end_text(w);
}

/* The prompt's tokens, behind the one that texts begin with; without either, the one that ends
 * texts, behind which another begins. */
static qn_status read_tokens_of(qn_tokens_task *t, const char *prompt, qn_tokens *tokens) {
    qn_tokenizer *tokenizer;
    const qn_language_special *special = &t->model->special;
    const bool is_empty = !prompt || !*prompt;
    const int32_t first = special->begin >= 0               ? special->begin
                          : is_empty && special->n_ends > 0 ? special->ends[0]
                                                            : -1;
    QN_TRY(qn_language_model_tokenizer(t->model, &tokenizer));
    if (first >= 0) {
        QN_TRY(
            qn_grow(tokens->allocator, &tokens->list, &tokens->capacity, 1, sizeof *tokens->list));
        tokens->list[tokens->n++] = first;
    }
    if (!is_empty)
        QN_TRY(qn_tokenizer_encode(tokenizer, prompt, strlen(prompt), tokens));
    return tokens->n > 0 ? QN_OK
                         : qn_fail(QN_ERROR_ARGUMENT,
                                   "%s has no token that texts begin with: give a --prompt",
                                   t->model->model.name);
}

static qn_status check_room(const qn_tokens_task *t, const qn_sample_options *o, size_t n_prompt) {
    const int64_t wanted = o->length > 0 ? o->length : USUAL_LENGTH;
    if ((int64_t)n_prompt + wanted <= t->length + 1)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "a prompt of %lld tokens and %lld further ones; %s is opened for %lld in all",
                   (long long)n_prompt, (long long)wanted, t->model->model.name,
                   (long long)t->length);
}

static qn_status sample_one(qn_task *task, qn_tokens_task *t, const qn_sample_options *o,
                            qn_candidate *candidates, int64_t number) {
    writer w = {.allocator = task->allocator, .options = o};
    qn_tokens tokens;
    qn_tokens_init(&tokens, task->allocator);
    qn_status status = o->is_chat ? qn_chats_ask(t->model, o->prompt ? o->prompt : "", &tokens)
                                  : read_tokens_of(t, o->prompt, &tokens);
    if (status == QN_OK)
        status = check_room(t, o, tokens.n);
    if (status == QN_OK && o->prompt && !o->is_chat) {
        const qn_sample_options plain = {.stream = o->stream, .put = o->put, .user = o->user};
        w.options = &plain; /* what ends the text may be in the prompt */
        status = write_text(&w, o->prompt, strlen(o->prompt));
        w.options = o;
    }
    if (status == QN_OK)
        status = draw_text(task, t, &w, &tokens, candidates, number);
    qn_release(task->allocator, w.text, w.capacity, 1);
    qn_release(task->allocator, w.lines, w.line_capacity, 1);
    qn_tokens_deinit(&tokens);
    return status;
}

qn_status qn_drawing_sample(qn_task *task, const qn_sample_options *o) {
    qn_tokens_task *t = task->self;
    const size_t n = (size_t)t->model->language.sizes[QN_LANGUAGE_VOCABULARY];
    const int64_t count = o->count > 0 ? o->count : 1;
    qn_candidate *candidates;
    if (!qn_setting_flag(task, QN_DRAWS, false))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "this task trains or measures; text is drawn by one with the setting "
                       "\"%s\", quern sample",
                       QN_DRAWS);
    QN_TRY(qn_allocate(task->allocator, n, sizeof *candidates, &candidates));
    qn_status status = QN_OK;
    for (int64_t i = 0; i < count && status == QN_OK; i++)
        status = sample_one(task, t, o, candidates, i);
    qn_release(task->allocator, candidates, n, sizeof *candidates);
    return status;
}
