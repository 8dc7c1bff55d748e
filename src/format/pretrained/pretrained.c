/* See pretrained.h. */
#include "format/pretrained/pretrained.h"

#include "base/status.h"
#include "format/pretrained/json_file.h"
#include "os/heap.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <string.h>

static const char config_name[] = "config.json";

static bool has_config(const qn_allocator *allocator, const char *folder) {
    qn_arena texts;
    qn_arena_init(&texts, qn_allocator_or_default(allocator));
    const char *path = qn_arena_format(&texts, "%s/%s", folder, config_name);
    const bool has = path && qn_path_is_file(path);
    qn_arena_deinit(&texts);
    return has;
}

bool qn_pretrained_is(const qn_allocator *allocator, const char *path) {
    uint8_t magic[4];
    qn_file *file;
    if (qn_path_is_folder(path))
        return has_config(allocator, path);
    if (!qn_path_is_file(path) || qn_path_bytes(path) < (int64_t)sizeof magic ||
        qn_file_open(allocator, path, &file) != QN_OK)
        return false;
    const bool is =
        qn_file_read(file, 0, magic, sizeof magic) == QN_OK && qn_gguf_is(magic, sizeof magic);
    qn_file_close(file);
    return is;
}

static qn_status open_gguf(qn_pretrained *p) {
    qn_file *file;
    QN_TRY(qn_file_open(p->allocator, p->path, &file));
    qn_status status = qn_file_map(file, &p->memory);
    p->bytes = p->memory ? (size_t)qn_file_bytes(file) : 0;
    qn_file_close(file);
    QN_TRY(status);
    p->is_gguf = true;
    p->tensors = &p->gguf.tensors;
    return qn_gguf_parse(&p->gguf, p->path, p->memory, p->bytes);
}

static qn_status open_folder(qn_pretrained *p) {
    if (!has_config(p->allocator, p->path))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s: no %s is in it; a folder of a language model has %s, tokenizer.json "
                       "and *.safetensors",
                       p->path, config_name, config_name);
    QN_TRY(qn_json_file_read(p->allocator, p->path, config_name, &p->config));
    p->tensors = &p->shards.tensors;
    return qn_shards_open(&p->shards, p->path);
}

qn_status qn_pretrained_open(const qn_allocator *allocator, const char *path,
                             qn_pretrained **pretrained) {
    qn_pretrained *p;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *p, &p));
    p->allocator = allocator;
    p->path_bytes = strlen(path) + 1;
    qn_gguf_init(&p->gguf, allocator);
    qn_shards_init(&p->shards, allocator);
    qn_status status = qn_allocate(allocator, p->path_bytes, 1, &p->path);
    if (status == QN_OK) {
        memcpy(p->path, path, p->path_bytes);
        status = qn_path_is_folder(path) ? open_folder(p) : open_gguf(p);
    }
    if (status == QN_OK)
        *pretrained = p;
    else
        qn_pretrained_close(p);
    return status;
}

void qn_pretrained_close(qn_pretrained *p) {
    if (!p)
        return;
    cJSON_Delete(p->config);
    qn_shards_deinit(&p->shards);
    qn_gguf_deinit(&p->gguf);
    qn_file_unmap(p->memory, p->bytes);
    qn_release(p->allocator, p->path, p->path_bytes, 1);
    qn_release(p->allocator, p, 1, sizeof *p);
}

int64_t qn_pretrained_bytes(const qn_pretrained *p) {
    int64_t bytes = (int64_t)p->bytes;
    for (size_t i = 0; i < p->shards.n; i++)
        bytes += (int64_t)p->shards.list[i].bytes;
    return bytes;
}
