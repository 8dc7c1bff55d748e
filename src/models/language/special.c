/* See special.h. GGUF files say it in their values. A folder says the ends in
 * generation_config.json
 * or config.json, and the beginning in what tokenizer.json puts around a text. */
#include "models/language/special.h"

#include "base/status.h"
#include "format/pretrained/json_file.h"
#include "models/language/settings.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <string.h>

bool qn_language_is_end(const qn_language_special *special, int32_t token) {
    for (int i = 0; i < special->n_ends; i++) {
        if (special->ends[i] == token)
            return true;
    }
    return false;
}

/* A number that is no token of the vocabulary is passed over: files have -1 for none. */
static bool is_token(const qn_language *language, double number) {
    return number >= 0 && number < (double)language->sizes[QN_LANGUAGE_VOCABULARY] &&
           number == (double)(int32_t)number;
}

static void add_end(const qn_language *language, double number, qn_language_special *special) {
    if (is_token(language, number) && special->n_ends < QN_MOST_ENDS &&
        !qn_language_is_end(special, (int32_t)number))
        special->ends[special->n_ends++] = (int32_t)number;
}

/* ---- GGUF ---- */

/* Files that do not say it: SentencePiece's models and Llama 3's begin texts with a token. */
static bool begins_by_default(const qn_language *language) {
    static const char *const splits[] = {"llama3", "llama-v3", "llama-bpe", "falcon3"};
    static const char *const keys[] = {"tokenizer.ggml.model", "tokenizer.ggml.pre"};
    for (int k = 0; k < 2; k++) {
        const qn_gguf_value *value = qn_gguf_find(&language->files->gguf, keys[k]);
        if (!value || value->kind != QN_GGUF_TEXT || value->is_list)
            continue;
        size_t bytes;
        const uint8_t *at = value->data;
        const char *text = qn_gguf_next_text(&at, &bytes);
        for (size_t i = 0; k == 1 && i < sizeof splits / sizeof *splits; i++) {
            if (bytes == strlen(splits[i]) && memcmp(text, splits[i], bytes) == 0)
                return true;
        }
        if (k == 0 && bytes == 5 && memcmp(text, "llama", bytes) == 0)
            return true;
    }
    return false;
}

static void read_gguf(const qn_language *language, qn_language_special *special) {
    static const qn_language_key adds = {"tokenizer.ggml.add_bos_token", ""},
                                 begin = {"tokenizer.ggml.bos_token_id", ""},
                                 ends[] = {{"tokenizer.ggml.eos_token_id", ""},
                                           {"tokenizer.ggml.eot_token_id", ""},
                                           {"tokenizer.ggml.eom_token_id", ""}};
    double number = begins_by_default(language), token = -1;
    (void)qn_language_number(language, adds, &number);
    if (number != 0 && qn_language_number(language, begin, &token) == QN_LANGUAGE_FOUND &&
        is_token(language, token))
        special->begin = (int32_t)token;
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        token = -1;
        if (qn_language_number(language, ends[i], &token) == QN_LANGUAGE_FOUND)
            add_end(language, token, special);
    }
}

/* ---- folders ---- */

/* The token that a post-processor puts before a text; null: none. */
static const cJSON *find_begin(const cJSON *processor) {
    const cJSON *inner, *list = cJSON_GetObjectItemCaseSensitive(processor, "processors");
    cJSON_ArrayForEach(inner, list) {
        const cJSON *found = find_begin(inner);
        if (found)
            return found;
    }
    const cJSON *first =
        cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(processor, "single"), 0);
    const char *name = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(
        cJSON_GetObjectItemCaseSensitive(first, "SpecialToken"), "id"));
    const cJSON *tokens = cJSON_GetObjectItemCaseSensitive(processor, "special_tokens");
    const cJSON *token = name ? cJSON_GetObjectItemCaseSensitive(tokens, name) : NULL;
    return cJSON_GetArrayItem(cJSON_GetObjectItemCaseSensitive(token, "ids"), 0);
}

static void add_ends(const qn_language *language, const cJSON *config,
                     qn_language_special *special) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, "eos_token_id"), *one;
    if (cJSON_IsNumber(item))
        add_end(language, item->valuedouble, special);
    cJSON_ArrayForEach(one, item) {
        if (cJSON_IsNumber(one))
            add_end(language, one->valuedouble, special);
    }
}

/* Files that are not there say nothing; others must be right. */
static qn_status read_json(const qn_language *language, const char *name, cJSON **tree) {
    const qn_pretrained *files = language->files;
    qn_arena texts;
    *tree = NULL;
    qn_arena_init(&texts, files->allocator);
    const char *path = qn_arena_format(&texts, "%s/%s", files->path, name);
    const bool is_there = path && qn_path_is_file(path);
    qn_arena_deinit(&texts);
    if (!path)
        return QN_ERROR_MEMORY;
    return is_there ? qn_json_file_read(files->allocator, files->path, name, tree) : QN_OK;
}

static qn_status read_folder(const qn_language *language, qn_language_special *special) {
    cJSON *tree;
    QN_TRY(read_json(language, "generation_config.json", &tree));
    add_ends(language, tree, special);
    cJSON_Delete(tree);
    add_ends(language, language->files->config, special);
    QN_TRY(read_json(language, "tokenizer.json", &tree));
    const cJSON *begin = find_begin(cJSON_GetObjectItemCaseSensitive(tree, "post_processor"));
    if (cJSON_IsNumber(begin) && is_token(language, begin->valuedouble))
        special->begin = (int32_t)begin->valuedouble;
    cJSON_Delete(tree);
    return QN_OK;
}

qn_status qn_language_read_special(const qn_language *language, qn_language_special *special) {
    *special = (qn_language_special){.begin = -1};
    if (!language->files->is_gguf)
        return read_folder(language, special);
    read_gguf(language, special);
    return QN_OK;
}

/* ---- words of chat templates ---- */

static qn_status word_of_token(const qn_language *language, qn_language_key key,
                               const qn_tokenizer *tokenizer, qn_arena *arena, const char **word) {
    double number = -1;
    size_t bytes;
    if (qn_language_number(language, key, &number) != QN_LANGUAGE_FOUND ||
        !is_token(language, number) || number >= qn_tokenizer_count(tokenizer))
        return QN_OK;
    const char *text = qn_tokenizer_token(tokenizer, (int32_t)number, &bytes);
    *word = qn_arena_format(arena, "%.*s", (int)bytes, text);
    return *word ? QN_OK : QN_ERROR_MEMORY;
}

/* A text, or an object with the text as "content". */
static qn_status word_of_json(const cJSON *tree, const char *name, qn_arena *arena,
                              const char **word) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(tree, name);
    const char *text = cJSON_GetStringValue(
        cJSON_IsObject(item) ? cJSON_GetObjectItemCaseSensitive(item, "content") : item);
    if (!text || *word)
        return QN_OK;
    *word = qn_arena_text(arena, text);
    return *word ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status words_of_folder(const qn_language *language, qn_arena *arena,
                                 qn_chat_words *words) {
    static const char *const files[] = {"tokenizer_config.json", "special_tokens_map.json"};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        cJSON *tree;
        QN_TRY(read_json(language, files[i], &tree));
        qn_status status = word_of_json(tree, "bos_token", arena, &words->begin);
        if (status == QN_OK)
            status = word_of_json(tree, "eos_token", arena, &words->end);
        cJSON_Delete(tree);
        QN_TRY(status);
    }
    return QN_OK;
}

qn_status qn_language_read_words(const qn_language *language, const qn_tokenizer *tokenizer,
                                 qn_arena *arena, qn_chat_words *words) {
    static const qn_language_key begin = {"tokenizer.ggml.bos_token_id", ""},
                                 end = {"tokenizer.ggml.eos_token_id", ""};
    *words = (qn_chat_words){NULL, NULL};
    if (!language->files->is_gguf)
        return words_of_folder(language, arena, words);
    QN_TRY(word_of_token(language, begin, tokenizer, arena, &words->begin));
    return word_of_token(language, end, tokenizer, arena, &words->end);
}
