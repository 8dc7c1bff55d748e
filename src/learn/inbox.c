/* See inbox.h. */
#include "learn/inbox.h"

#include "base/rng.h"
#include "base/status.h"
#include "data/images/image.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct listing {
    qn_inbox *inbox;
    const char *folder;
    const qn_preparation *preparation;
    const char *class_name;
    int32_t label;
} listing;

static uint64_t key_of(const char *name, const char *path) {
    char text[640];
    const int n = snprintf(text, sizeof text, "%.500s %lld %lld", name,
                           (long long)qn_path_bytes(path), (long long)qn_file_modified_ns(path));
    return qn_hash_bytes(text, (size_t)n);
}

static qn_status visit_file(void *context, const char *name, bool is_folder) {
    const listing *l = context;
    qn_inbox *b = l->inbox;
    if (is_folder || name[0] == '.' || !qn_image_has_name(name))
        return QN_OK;
    const char *path = qn_arena_format(&b->arena, "%s/%s/%s", l->folder, l->class_name, name);
    if (!path)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_grow(b->allocator, &b->files, &b->capacity, b->n + 1, sizeof *b->files));
    const char *short_name = path + strlen(l->folder) + 1;
    b->files[b->n++] = (qn_inbox_file){path, short_name, l->label, key_of(short_name, path)};
    return QN_OK;
}

/* -1: no class has this name. */
static int32_t find_class(const qn_preparation *p, const char *name) {
    char *end;
    for (int i = 0; p->class_names && i < p->n_classes; i++) {
        if (strcmp(p->class_names[i], name) == 0)
            return i;
    }
    const long number = strtol(name, &end, 10);
    const bool is_number = !p->class_names && *name && !*end;
    return is_number && number >= 0 && number < p->n_classes ? (int32_t)number : -1;
}

static qn_status visit_class(void *context, const char *name, bool is_folder) {
    listing *l = context;
    if (!is_folder || name[0] == '.')
        return QN_OK;
    l->class_name = name;
    l->label = find_class(l->preparation, name);
    if (l->label < 0 && !l->inbox->stranger) {
        l->inbox->stranger = qn_arena_text(&l->inbox->arena, name);
        return l->inbox->stranger ? QN_OK : QN_ERROR_MEMORY;
    }
    if (l->label < 0)
        return QN_OK;
    char path[512];
    snprintf(path, sizeof path, "%.300s/%.200s", l->folder, name);
    return qn_folder_list(l->inbox->allocator, path, visit_file, l);
}

qn_status qn_inbox_list(const qn_allocator *allocator, const char *folder,
                        const qn_preparation *preparation, qn_inbox *inbox) {
    listing l = {inbox, folder, preparation, NULL, -1};
    *inbox = (qn_inbox){.allocator = qn_allocator_or_default(allocator)};
    qn_arena_init(&inbox->arena, inbox->allocator);
    const qn_status status = qn_folder_list(inbox->allocator, folder, visit_class, &l);
    if (status != QN_OK)
        qn_inbox_deinit(inbox);
    return status;
}

void qn_inbox_deinit(qn_inbox *b) {
    if (!b->allocator)
        return;
    qn_release(b->allocator, b->files, b->capacity, sizeof *b->files);
    qn_arena_deinit(&b->arena);
    *b = (qn_inbox){0};
}
