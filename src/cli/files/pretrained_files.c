/* See pretrained_files.h. */
#include "cli/files/pretrained_files.h"

#include "base/status.h"
#include "cli/terminal.h"
#include "os/heap.h"
#include "os/os.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

static const char ending[] = ".safetensors";

typedef struct looking {
    pretrained_list *list;
    const char *folder;
} looking;

const pretrained_file *pretrained_find(const pretrained_list *list, const char *name) {
    for (size_t i = 0; i < list->n; i++) {
        if (strcmp(list->files[i].name, name) == 0)
            return &list->files[i];
    }
    return NULL;
}

/* A copy that outlives the pairs; "" of null. */
static const char *keep(pretrained_list *list, const char *text) {
    return qn_arena_text(&list->texts, text ? text : "");
}

static qn_status fill(pretrained_list *list, const qn_metadata *pairs, pretrained_file *file) {
    file->model = keep(list, qn_metadata_get(pairs, "model"));
    file->input = keep(list, qn_metadata_get(pairs, "input"));
    file->licence = keep(list, qn_metadata_get(pairs, "licence"));
    file->source = keep(list, qn_metadata_get(pairs, "source"));
    file->bytes = qn_path_bytes(file->path);
    if (!file->name || !file->path || !file->model || !file->input || !file->licence ||
        !file->source)
        return QN_ERROR_MEMORY;
    return qn_model_find(file->model) && *file->input
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "%s is of no model that quern has", file->path);
}

static qn_status add(pretrained_list *list, pretrained_file file) {
    qn_metadata *pairs;
    qn_status status = qn_checkpoint_read(list->texts.allocator, file.path, &pairs);
    if (status == QN_OK) {
        status = fill(list, pairs, &file);
        qn_metadata_destroy(pairs);
    }
    if (status == QN_ERROR_MEMORY)
        return status;
    if (status != QN_OK) {
        terminal_note("warning: %s; it is not used", qn_error_message());
        return QN_OK;
    }
    QN_TRY(qn_grow(list->texts.allocator, &list->files, &list->capacity, list->n + 1,
                   sizeof *list->files));
    list->files[list->n++] = file;
    return QN_OK;
}

static qn_status visit(void *context, const char *name, bool is_folder) {
    const looking *l = context;
    const size_t n = strlen(name), n_ending = sizeof ending - 1;
    char path[PATH_MAX], stem[NAME_MAX + 1];
    if (is_folder || n <= n_ending || strcmp(name + n - n_ending, ending) != 0)
        return QN_OK;
    snprintf(stem, sizeof stem, "%.*s", (int)(n - n_ending), name);
    if (pretrained_find(l->list, stem) ||
        (size_t)snprintf(path, sizeof path, "%s/%s", l->folder, name) >= sizeof path)
        return QN_OK;
    return add(l->list,
               (pretrained_file){.name = keep(l->list, stem), .path = keep(l->list, path)});
}

static qn_status look_in(pretrained_list *list, const char *folder) {
    looking l = {list, folder};
    if (!list->folder && !(list->folder = keep(list, folder)))
        return QN_ERROR_MEMORY;
    return qn_path_is_folder(folder) ? qn_folder_list(list->texts.allocator, folder, visit, &l)
                                     : QN_OK;
}

qn_status pretrained_list_open(const char *folder, pretrained_list *list) {
    char data[PATH_MAX - 64], path[PATH_MAX];
    *list = (pretrained_list){.files = NULL};
    qn_arena_init(&list->texts, qn_allocator_default());
    if (folder && !qn_path_is_folder(folder))
        return qn_fail(QN_ERROR_IO, "%s is no folder", folder);
    if (folder)
        return look_in(list, folder);
    for (int i = 0; qn_folder_data(i, data, sizeof data); i++) {
        snprintf(path, sizeof path, "%s/pretrained", data);
        QN_TRY(look_in(list, path));
    }
    return QN_OK;
}

void pretrained_list_close(pretrained_list *list) {
    qn_release(list->texts.allocator, list->files, list->capacity, sizeof *list->files);
    qn_arena_deinit(&list->texts);
}
