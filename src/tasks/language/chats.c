/* See chats.h. */
#include "tasks/language/chats.h"

#include "base/status.h"
#include "data/chats/jinja.h"

#include <cjson/cJSON.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

typedef struct writing {
    qn_windows *splits;
    qn_language_model *model;
    qn_tokenizer *tokenizer;
    qn_arena arena; /* of the conversation at hand */
    qn_chat_words words;
    qn_tokens tokens, part;
    bool *learned; /* (tokens.n) of capacity */
    size_t capacity;
    double holdout;
    int64_t n_cut; /* conversations that are longer than a row */
} writing;

static qn_status begin(writing *w, qn_language_model *model) {
    *w = (writing){.model = model};
    qn_arena_init(&w->arena, model->allocator);
    qn_tokens_init(&w->tokens, model->allocator);
    qn_tokens_init(&w->part, model->allocator);
    return qn_language_model_tokenizer(model, &w->tokenizer);
}

static void end(writing *w) {
    qn_release(w->tokens.allocator, w->learned, w->capacity, sizeof *w->learned);
    qn_tokens_deinit(&w->tokens);
    qn_tokens_deinit(&w->part);
    qn_arena_deinit(&w->arena);
}

static qn_status render(writing *w, const cJSON *messages, bool asks, qn_rendered *rendered) {
    const qn_language *language = &w->model->language;
    if (!*language->chat)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s has no chat template; give lines of {\"prompt\", \"completion\"} or "
                       "{\"text\"}, written as the model expects them",
                       w->model->model.name);
    QN_TRY(qn_language_read_words(language, w->tokenizer, &w->arena, &w->words));
    const qn_status status =
        qn_jinja_render(&w->arena, language->chat, messages, &w->words, asks, rendered);
    return status == QN_ERROR_UNSUPPORTED
               ? qn_fail_within(status, "give lines of {\"prompt\", \"completion\"} instead")
               : status;
}

/* ---- which tokens are learned ---- */

static qn_status set_learned(writing *w, size_t from, bool is) {
    QN_TRY(qn_grow(w->tokens.allocator, &w->learned, &w->capacity, w->tokens.n + 1,
                   sizeof *w->learned));
    for (size_t i = from; i < w->tokens.n; i++)
        w->learned[i] = is;
    return QN_OK;
}

/* Tokens that the text up to a byte has in common with all of it; *is_whole: those are all of its
 * tokens. */
static qn_status count_common(writing *w, const char *text, size_t bytes, size_t *n,
                              bool *is_whole) {
    w->part.n = 0;
    QN_TRY(qn_tokenizer_encode(w->tokenizer, text, bytes, &w->part));
    *n = 0;
    while (*n < w->part.n && *n < w->tokens.n && w->part.list[*n] == w->tokens.list[*n])
        ++*n;
    *is_whole = *n == w->part.n;
    return QN_OK;
}

static bool is_blank(const writing *w, size_t token) {
    size_t bytes;
    const char *text = qn_tokenizer_token(w->tokenizer, w->tokens.list[token], &bytes);
    for (size_t i = 0; i < bytes; i++) {
        if (!strchr(" \t\n", text[i]) || text[i] == 0)
            return false;
    }
    return true;
}

static bool ends_answer(const writing *w, size_t token) {
    return token < w->tokens.n && (qn_language_is_end(&w->model->special, w->tokens.list[token]) ||
                                   qn_tokenizer_is_added(w->tokenizer, w->tokens.list[token]));
}

/* The tokens of an answer, and the mark behind it, without which a model would not learn to stop;
 * a blank may stand between. A token that is partly the answer's counts. */
static qn_status learn_answer(writing *w, const qn_rendered *r, size_t first, size_t last) {
    size_t from, to;
    bool is_whole;
    QN_TRY(count_common(w, r->text, first, &from, &is_whole));
    QN_TRY(count_common(w, r->text, last, &to, &is_whole));
    to += !is_whole;
    if (!ends_answer(w, to) && to < w->tokens.n && is_blank(w, to) && ends_answer(w, to + 1))
        to++;
    to += ends_answer(w, to);
    for (size_t i = from; i < to && i < w->tokens.n; i++)
        w->learned[i] = true;
    return QN_OK;
}

static qn_status write_messages(writing *w, const cJSON *messages) {
    qn_rendered r;
    size_t n_answers = 0;
    QN_TRY(render(w, messages, false, &r));
    QN_TRY(qn_tokenizer_encode(w->tokenizer, r.text, r.bytes, &w->tokens));
    QN_TRY(set_learned(w, 0, false));
    for (size_t i = 0, last; i < r.bytes; i = last) {
        for (last = i; last < r.bytes && r.is_answer[last] == r.is_answer[i];)
            last++;
        n_answers += r.is_answer[i];
        if (r.is_answer[i])
            QN_TRY(learn_answer(w, &r, i, last));
    }
    if (n_answers == 0)
        return qn_fail(QN_ERROR_FORMAT, "the chat template leaves the answers out");
    return QN_OK;
}

/* ---- lines without a template ---- */

static qn_status put_token(writing *w, int32_t token) {
    if (token < 0)
        return QN_OK;
    QN_TRY(qn_grow(w->tokens.allocator, &w->tokens.list, &w->tokens.capacity, w->tokens.n + 1,
                   sizeof *w->tokens.list));
    w->tokens.list[w->tokens.n++] = token;
    return QN_OK;
}

/* A whole text: with the tokens that the model's texts begin and end with. */
static qn_status write_plain(writing *w, const char *prompt, const char *rest) {
    const qn_language_special *special = &w->model->special;
    const size_t n_prompt = strlen(prompt), n = n_prompt + strlen(rest);
    char *text = qn_arena_format(&w->arena, "%s%s", prompt, rest);
    size_t from;
    bool is_whole;
    if (!text)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_tokenizer_encode(w->tokenizer, text, n, &w->tokens));
    QN_TRY(count_common(w, text, n_prompt, &from, &is_whole));
    w->tokens.n = 0;
    QN_TRY(put_token(w, special->begin));
    from += w->tokens.n;
    QN_TRY(qn_tokenizer_encode(w->tokenizer, text, n, &w->tokens));
    QN_TRY(put_token(w, special->n_ends > 0 ? special->ends[0] : -1));
    QN_TRY(set_learned(w, 0, false));
    return set_learned(w, from, true);
}

/* ---- files ---- */

static qn_status add_chat(void *user, const qn_chat *chat, int64_t index, int64_t n) {
    writing *w = user;
    const int64_t n_held = n > 1 && w->holdout > 0 ? (int64_t)ceil((double)n * w->holdout) : 0;
    qn_windows *to = &w->splits[index >= n - n_held ? QN_TEST : QN_TRAIN];
    qn_arena_deinit(&w->arena);
    qn_arena_init(&w->arena, w->model->allocator);
    w->tokens.n = 0;
    if (chat->messages)
        QN_TRY(write_messages(w, chat->messages));
    else
        QN_TRY(write_plain(w, chat->text ? "" : chat->prompt,
                           chat->text ? chat->text : chat->completion));
    w->n_cut += (int64_t)w->tokens.n - 1 > to->length;
    return qn_windows_add_learned(to, w->tokenizer, &w->tokens, w->learned);
}

static void tell_cut(const qn_log *log, const writing *w, int64_t length) {
    char text[200];
    if (w->n_cut == 0 || !log || !log->write)
        return;
    snprintf(text, sizeof text,
             "%lld conversations are longer than a row of %lld tokens, and are cut into several; "
             "--length makes rows longer",
             (long long)w->n_cut, (long long)length);
    log->write(log->user, 1, text);
}

qn_status qn_chats_add(qn_windows *splits, qn_language_model *model, const char *path,
                       const qn_chats_options *o) {
    writing w;
    if (o->holdout < 0 || o->holdout >= 1)
        return qn_fail(QN_ERROR_ARGUMENT, "a held-out part of %g is not between 0 and 1",
                       o->holdout);
    qn_status status = begin(&w, model);
    w.splits = splits;
    w.holdout = o->is_whole ? 0 : o->holdout > 0 ? o->holdout : 1.0 / 20;
    if (status == QN_OK)
        status = qn_chats_read(model->allocator, path, add_chat, &w);
    if (status == QN_OK)
        tell_cut(o->log, &w, splits[QN_TRAIN].length);
    end(&w);
    return status;
}

static cJSON *one_message(const char *content) {
    cJSON *messages = cJSON_CreateArray(), *message = cJSON_CreateObject();
    if (message && (!cJSON_AddStringToObject(message, "role", "user") ||
                    !cJSON_AddStringToObject(message, "content", content) ||
                    !cJSON_AddItemToArray(messages, message))) {
        cJSON_Delete(message);
        message = NULL;
    }
    if (message)
        return messages;
    cJSON_Delete(messages);
    return NULL;
}

qn_status qn_chats_ask(qn_language_model *model, const char *question, qn_tokens *tokens) {
    writing w;
    qn_rendered r;
    cJSON *messages = one_message(question);
    qn_status status = begin(&w, model);
    if (!messages && status == QN_OK)
        status = qn_fail_memory(strlen(question));
    if (status == QN_OK)
        status = render(&w, messages, true, &r);
    if (status == QN_OK)
        status = qn_tokenizer_encode(w.tokenizer, r.text, r.bytes, tokens);
    cJSON_Delete(messages);
    end(&w);
    return status;
}
