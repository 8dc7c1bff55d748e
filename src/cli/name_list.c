/* See name_list.h. */
#include "cli/name_list.h"

#include "base/status.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <string.h>

enum { MOST_BYTES = 16 << 20 };

static void add_name(char *list, size_t *at, const char *name, size_t n) {
    while (n > 0 && strchr(" \t\r", name[n - 1]))
        n--;
    while (n > 0 && strchr(" \t", *name)) {
        name++;
        n--;
    }
    if (n == 0 || *name == '#')
        return;
    list[(*at)++] = '\n';
    memcpy(list + *at, name, n);
    *at += n;
    list[*at] = 0;
}

static qn_status read_json(const char *path, const char *text, char *list) {
    cJSON *json = cJSON_Parse(text);
    const cJSON *one;
    size_t at = 0;
    qn_status status = cJSON_IsArray(json)
                           ? QN_OK
                           : qn_fail(QN_ERROR_FORMAT, "%s: not a list of names in JSON", path);
    cJSON_ArrayForEach(one, json) {
        const char *name = cJSON_GetStringValue(one);
        if (status == QN_OK && (!name || strchr(name, '\n')))
            status = qn_fail(QN_ERROR_FORMAT, "%s: its list holds something else than names", path);
        if (status == QN_OK)
            add_name(list, &at, name, strlen(name));
    }
    cJSON_Delete(json);
    return status;
}

static void read_lines(const char *text, char *list) {
    size_t at = 0;
    while (*text) {
        const size_t n = strcspn(text, "\n");
        add_name(list, &at, text, n);
        text += n + (text[n] == '\n');
    }
}

qn_status name_list_read(const char *value, qn_arena *texts, const char **names) {
    qn_file *file;
    if (*value == '\n') {
        *names = qn_arena_text(texts, value);
        return *names ? QN_OK : QN_ERROR_MEMORY;
    }
    QN_TRY(qn_file_open(NULL, value, &file));
    const int64_t n = qn_file_bytes(file);
    char *text = n <= MOST_BYTES ? qn_arena_allocate(texts, (size_t)n + 1, 1) : NULL;
    char *list = text ? qn_arena_allocate(texts, 2 * (size_t)n + 2, 1) : NULL;
    qn_status status = list ? qn_file_read(file, 0, text, (size_t)n)
                       : n > MOST_BYTES
                           ? qn_fail(QN_ERROR_FORMAT, "%s: too long for a list of names", value)
                           : QN_ERROR_MEMORY;
    qn_file_close(file);
    if (status == QN_OK && memchr(text, 0, (size_t)n))
        status = qn_fail(QN_ERROR_FORMAT, "%s: not a list of names", value);
    if (status == QN_OK && text[strspn(text, " \t\r\n")] == '[')
        status = read_json(value, text, list);
    else if (status == QN_OK)
        read_lines(text, list);
    if (status == QN_OK && !*list)
        status = qn_fail(QN_ERROR_FORMAT, "%s: no name is in it", value);
    *names = list;
    return status;
}
