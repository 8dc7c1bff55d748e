/* See settings.h. */
#include "models/language/settings.h"

#include "base/print.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { MOST_KEY = 256 };

static const qn_gguf_value *find_value(const qn_language *language, const char *key) {
    char name[MOST_KEY];
    qn_print(name, sizeof name, key, language->architecture);
    return qn_gguf_find(&language->files->gguf, name);
}

/* The first of several names that is there and not null. */
static const cJSON *find_member(const qn_language *language, const char *names) {
    char name[MOST_KEY];
    for (const char *at = names; *at; at += strspn(at, " ")) {
        const size_t bytes = strcspn(at, " ");
        qn_print(name, sizeof name, "%.*s", (int)bytes, at);
        const cJSON *item = cJSON_GetObjectItemCaseSensitive(language->files->config, name);
        if (item && !cJSON_IsNull(item))
            return item;
        at += bytes;
    }
    return NULL;
}

qn_language_found qn_language_number(const qn_language *language, qn_language_key key,
                                     double *number) {
    if (language->files->is_gguf) {
        const qn_gguf_value *value = find_value(language, key.gguf);
        if (!value)
            return QN_LANGUAGE_ABSENT;
        return !value->is_list && qn_gguf_get_number(value, 0, number) ? QN_LANGUAGE_FOUND
                                                                       : QN_LANGUAGE_WRONG;
    }
    const cJSON *item = find_member(language, key.folder);
    if (!item)
        return QN_LANGUAGE_ABSENT;
    *number = item->valuedouble;
    return cJSON_IsNumber(item) ? QN_LANGUAGE_FOUND : QN_LANGUAGE_WRONG;
}

/* Up to its first zero byte. */
static const char *copy_value(qn_language *language, const qn_gguf_value *value) {
    size_t bytes;
    const uint8_t *at = value->data;
    if (value->kind != QN_GGUF_TEXT || value->is_list)
        return "";
    const char *text = qn_gguf_next_text(&at, &bytes);
    char *copy = qn_arena_allocate(&language->texts, bytes + 1, 1);
    if (copy)
        memcpy(copy, text, bytes);
    return copy;
}

const char *qn_language_text(qn_language *language, qn_language_key key) {
    if (language->files->is_gguf) {
        const qn_gguf_value *value = find_value(language, key.gguf);
        return value ? copy_value(language, value) : "";
    }
    const char *text = cJSON_GetStringValue(find_member(language, key.folder));
    return text ? qn_arena_text(&language->texts, text) : "";
}

bool qn_language_is_denied(const qn_language *language, const char *name) {
    return !language->files->is_gguf &&
           cJSON_IsFalse(cJSON_GetObjectItemCaseSensitive(language->files->config, name));
}

bool qn_language_is_true(const qn_language *language, const char *name) {
    return !language->files->is_gguf &&
           cJSON_IsTrue(cJSON_GetObjectItemCaseSensitive(language->files->config, name));
}
