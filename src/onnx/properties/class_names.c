/* See class_names.h. Programs write them into the file's properties (names, classes, labels, ...),
 * or into a config.json beside it (id2label). */
#include "onnx/properties/class_names.h"

#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "format/pretrained/json_file.h"
#include "onnx/import.h"

#include <cjson/cJSON.h>
#include <stdlib.h>
#include <string.h>

static const char *const class_keys[] = {
    "names",       "classes",    "labels",   "class_names", "classnames", "class_labels",
    "classlabels", "class_list", "id2label", "label2id",    "categories", "class_to_idx"};

bool qn_onnx_is_class_key(const char *key) {
    for (size_t i = 0; i < sizeof class_keys / sizeof *class_keys; i++) {
        if (strcmp(key, class_keys[i]) == 0)
            return true;
    }
    return false;
}

typedef struct search {
    const qn_onnx_network *network;
    int n_outputs;
    const qn_log *log;
    qn_arena *arena;
    qn_onnx_class_names *found;
} search;

static void tell(const search *s, const char *text) {
    if (s->log && s->log->write)
        s->log->write(s->log->user, 0, text);
}

/* "ant, bee, ... " */
static void print_names(const qn_class_list *list, qn_text_names *text) {
    *text = (qn_text_names){.n = 0};
    for (int i = 0; i < list->n; i++)
        qn_text_names_add(text, list->names[i]);
}

/* Names that say nothing but the output's number, as libraries put where there are none. */
static bool are_placeholders(const qn_class_list *list) {
    char name[32];
    bool are_so = true;
    for (int i = 0; are_so && i < list->n; i++) {
        qn_print(name, sizeof name, "LABEL_%d", i);
        are_so = strcmp(list->names[i], name) == 0;
    }
    return are_so;
}

static qn_status refuse(const search *s, const char *where, const qn_class_list *list) {
    qn_text_names first, second;
    print_names(&s->found->list, &first);
    print_names(list, &second);
    return qn_fail(QN_ERROR_FORMAT,
                   "%s: %s says that its outputs are %s; %s says %s: take the wrong one away",
                   s->network->model.name, s->found->where, qn_text_names_finish(&first), where,
                   qn_text_names_finish(&second));
}

static qn_status consider(search *s, const char *text, size_t length, const char *where) {
    qn_class_list list;
    char told[512];
    QN_TRY(qn_class_list_read(text, length, s->arena, &list));
    if (list.n == 0 || are_placeholders(&list))
        return QN_OK;
    if (list.n != s->n_outputs) {
        qn_print(told, sizeof told,
                 "%.200s: %s names %d classes, and it has %d outputs: they are not used",
                 s->network->model.name, where, list.n, s->n_outputs);
        tell(s, told);
        return QN_OK;
    }
    if (s->found->list.n > 0)
        return qn_class_list_equal(&s->found->list, &list) ? QN_OK : refuse(s, where, &list);
    *s->found = (qn_onnx_class_names){list, where};
    return QN_OK;
}

static qn_status look_at_properties(search *s) {
    const qn_onnx_model *m = s->network->source;
    for (int i = 0; i < m->n_properties; i++) {
        const qn_onnx_property *p = &m->properties[i];
        if (!qn_onnx_is_class_key(p->key))
            continue;
        const char *where = qn_arena_format(s->arena, "its property '%s'", p->key);
        if (!where)
            return QN_ERROR_MEMORY;
        QN_TRY(consider(s, p->value, strlen(p->value), where));
    }
    return QN_OK;
}

/* The folder of the file, with the slash at its end, or "". */
static const char *folder_of(search *s) {
    char *folder = qn_arena_text(s->arena, s->network->model.name);
    char *slash = folder ? strrchr(folder, '/') : NULL;
    if (folder)
        *(slash ? slash + 1 : folder) = 0;
    return folder;
}

static qn_status look_at_config(search *s) {
    const char *folder = folder_of(s);
    cJSON *tree = NULL;
    if (!folder)
        return QN_ERROR_MEMORY;
    if (qn_json_file_read(s->network->allocator, *folder ? folder : ".", "config.json", &tree) !=
        QN_OK)
        return QN_OK; /* there is none, or it is another program's */
    const cJSON *labels = cJSON_GetObjectItemCaseSensitive(tree, "id2label");
    char *text = cJSON_IsObject(labels) ? cJSON_PrintUnformatted(labels) : NULL;
    const qn_status status =
        text ? consider(s, text, strlen(text), "id2label of config.json beside it") : QN_OK;
    cJSON_free(text);
    cJSON_Delete(tree);
    return status;
}

qn_status qn_onnx_find_class_names(const qn_onnx_network *network, int n_outputs, const qn_log *log,
                                   qn_arena *arena, qn_onnx_class_names *names) {
    search s = {network, n_outputs, log, arena, names};
    qn_text_names text;
    char told[QN_TEXT_NAMES + 512];
    *names = (qn_onnx_class_names){.where = NULL};
    if (qn_onnx_property_of(network, "preparation.n_classes"))
        return QN_OK;
    QN_TRY(look_at_properties(&s));
    QN_TRY(look_at_config(&s));
    if (names->list.n == 0)
        return QN_OK;
    print_names(&names->list, &text);
    qn_print(told, sizeof told, "%.200s: %s names its outputs: %s", network->model.name,
             names->where, qn_text_names_finish(&text));
    tell(&s, told);
    return QN_OK;
}
