/* See chats.h. */
#include "data/chats/chats.h"

#include "base/status.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <string.h>

static const cJSON *member(const cJSON *tree, const char *name) {
    return cJSON_GetObjectItemCaseSensitive(tree, name);
}

static bool is_blank(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes; i++) {
        if (!strchr(" \t\r\n", text[i]) || text[i] == 0)
            return false;
    }
    return true;
}

static qn_status check_messages(const cJSON *messages, const char *place, int64_t line) {
    const cJSON *message;
    int n = 0, n_answers = 0;
    cJSON_ArrayForEach(message, messages) {
        const char *role = cJSON_GetStringValue(member(message, "role"));
        const char *content = cJSON_GetStringValue(member(message, "content"));
        n++;
        if (!role || !content)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s, line %lld: message %d has no %s that is a text; texts alone are "
                           "learned",
                           place, (long long)line, n, role ? "content" : "role");
        n_answers += strcmp(role, "assistant") == 0 && *content;
    }
    if (n_answers > 0)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s, line %lld: no message is of the role \"assistant\": there is no answer to "
                   "learn",
                   place, (long long)line);
}

static qn_status take(qn_chat *chat, const char *place, int64_t line) {
    const cJSON *tree = chat->tree, *messages = member(tree, "messages");
    const cJSON *text = member(tree, "text"), *prompt = member(tree, "prompt"),
                *completion = member(tree, "completion");
    const int n_forms = (messages != NULL) + (text != NULL) + (prompt || completion);
    if (n_forms != 1)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s, line %lld: %s of \"messages\", \"text\", or \"prompt\" and "
                       "\"completion\"",
                       place, (long long)line, n_forms == 0 ? "it has none" : "it has two");
    if (messages && !cJSON_IsArray(messages))
        return qn_fail(QN_ERROR_FORMAT, "%s, line %lld: \"messages\" is no list", place,
                       (long long)line);
    if (messages) {
        chat->messages = messages;
        return check_messages(messages, place, line);
    }
    chat->text = cJSON_GetStringValue(text);
    chat->prompt = cJSON_GetStringValue(prompt);
    chat->completion = cJSON_GetStringValue(completion);
    if (text ? chat->text != NULL : chat->prompt && chat->completion)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "%s, line %lld: %s", place, (long long)line,
                   text ? "\"text\" is no text"
                        : "\"prompt\" and \"completion\" are not both there as texts");
}

/* The reader of JSON would end a text there. A backslash may itself stand behind one. */
static bool has_zero(const char *line, size_t n) {
    for (size_t i = 0; i + 1 < n; i++) {
        if (line[i] != '\\')
            continue;
        if (n - i >= 6 && memcmp(line + i, "\\u0000", 6) == 0)
            return true;
        i++;
    }
    return false;
}

qn_status qn_chat_parse(const char *line, size_t bytes, const char *place, int64_t number,
                        qn_chat *chat) {
    const char *end = NULL;
    *chat = (qn_chat){.tree = cJSON_ParseWithLengthOpts(line, bytes, &end, false)};
    const bool is_whole = chat->tree && is_blank(end, bytes - (size_t)(end - line));
    qn_status status = QN_OK;
    if (!is_whole || !cJSON_IsObject(chat->tree))
        status = qn_fail(QN_ERROR_FORMAT,
                         "%s, line %lld: it is no JSON object; each line is a conversation of its "
                         "own, {\"messages\": [...]}",
                         place, (long long)number);
    if (status == QN_OK && has_zero(line, bytes))
        status = qn_fail(QN_ERROR_FORMAT, "%s, line %lld: a text has the character \\u0000", place,
                         (long long)number);
    if (status == QN_OK)
        status = take(chat, place, number);
    if (status != QN_OK)
        qn_chat_deinit(chat);
    return status;
}

void qn_chat_deinit(qn_chat *chat) {
    cJSON_Delete(chat->tree);
    *chat = (qn_chat){0};
}

/* ---- files ---- */

typedef struct lines {
    const char *at, *end;
    int64_t number;
} lines;

/* The next line that is not blank; false: there is none. */
static bool next_line(lines *l, const char **line, size_t *bytes) {
    while (l->at < l->end) {
        const char *newline = memchr(l->at, '\n', (size_t)(l->end - l->at));
        *line = l->at;
        *bytes = (size_t)((newline ? newline : l->end) - l->at);
        l->at = newline ? newline + 1 : l->end;
        l->number++;
        if (!is_blank(*line, *bytes))
            return true;
    }
    return false;
}

static qn_status read_lines(const char *path, const char *text, size_t bytes, qn_chat_visit *visit,
                            void *user) {
    const size_t mark = bytes >= 3 && memcmp(text, "\xef\xbb\xbf", 3) == 0 ? 3 : 0;
    const char *line;
    size_t n_line;
    int64_t n = 0;
    for (lines l = {text + mark, text + bytes, 0}; next_line(&l, &line, &n_line);)
        n++;
    if (n == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s has no conversation", path);
    lines l = {text + mark, text + bytes, 0};
    for (int64_t i = 0; next_line(&l, &line, &n_line); i++) {
        qn_chat chat;
        QN_TRY(qn_chat_parse(line, n_line, path, l.number, &chat));
        const qn_status status = visit(user, &chat, i, n);
        qn_chat_deinit(&chat);
        if (status != QN_OK)
            return qn_fail_within(status, "%s, line %lld", path, (long long)l.number);
    }
    return QN_OK;
}

qn_status qn_chats_read(const qn_allocator *allocator, const char *path, qn_chat_visit *visit,
                        void *user) {
    qn_file *file;
    const void *memory = NULL;
    QN_TRY(qn_file_open(allocator, path, &file));
    const size_t bytes = (size_t)qn_file_bytes(file);
    qn_status status = bytes > 0 ? qn_file_map(file, &memory) : QN_OK;
    if (status == QN_OK)
        status = read_lines(path, memory ? memory : "", bytes, visit, user);
    if (memory && status == QN_OK)
        status = qn_file_map_check(memory);
    qn_file_unmap(memory, memory ? bytes : 0);
    qn_file_close(file);
    return status;
}
