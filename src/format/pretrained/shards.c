/* See shards.h. cJSON parses the index; what it says is checked here. */
#include "format/pretrained/shards.h"

#include "base/status.h"
#include "format/pretrained/json_file.h"
#include "format/safetensors.h"
#include "os/heap.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <string.h>

static const char single[] = "model.safetensors", index_name[] = "model.safetensors.index.json";

void qn_shards_init(qn_shards *shards, const qn_allocator *allocator) {
    allocator = qn_allocator_or_default(allocator);
    *shards = (qn_shards){.tensors.allocator = allocator};
    qn_arena_init(&shards->texts, allocator);
}

void qn_shards_deinit(qn_shards *shards) {
    for (size_t i = 0; i < shards->n; i++)
        qn_file_unmap(shards->list[i].memory, shards->list[i].bytes);
    qn_release(shards->texts.allocator, shards->list, shards->capacity, sizeof *shards->list);
    qn_tensors_deinit(&shards->tensors);
    qn_arena_deinit(&shards->texts);
}

/* ---- a file ---- */

static qn_blocks blocks_of(qn_dtype dtype) {
    switch (dtype) {
    case QN_F32:
        return QN_BLOCKS_F32;
    case QN_F16:
        return QN_BLOCKS_F16;
    case QN_BF16:
        return QN_BLOCKS_BF16;
    default:
        return QN_BLOCKS_NONE;
    }
}

static qn_status add_tensors(qn_shards *shards, const qn_safetensors *file, const uint8_t *memory) {
    for (size_t i = 0; i < file->n_tensors; i++) {
        const qn_safetensor *from = &file->tensors[i];
        const qn_pretrained_tensor tensor = {
            .name = qn_arena_text(&shards->texts, from->name),
            .type = from->type,
            .blocks = blocks_of(from->dtype),
            .shape = from->shape,
            .data = memory + file->data_offset + from->begin,
            .bytes = from->bytes,
        };
        if (!tensor.name)
            return QN_ERROR_MEMORY;
        QN_TRY(qn_tensors_add(&shards->tensors, &tensor));
    }
    return QN_OK;
}

static qn_status add_file(qn_shards *shards, const char *name, qn_file *file) {
    const qn_allocator *allocator = shards->texts.allocator;
    qn_shard shard = {.name = name, .bytes = (size_t)qn_file_bytes(file)};
    qn_safetensors header;
    QN_TRY(qn_grow(allocator, &shards->list, &shards->capacity, shards->n + 1, sizeof shard));
    QN_TRY(qn_file_map(file, &shard.memory));
    shards->list[shards->n++] = shard;
    qn_safetensors_init(&header, allocator);
    header.takes_any_type = true;
    qn_status status = qn_safetensors_read(&header, file);
    if (status == QN_OK)
        status = add_tensors(shards, &header, shard.memory);
    qn_safetensors_deinit(&header);
    return status;
}

static qn_status open_file(qn_shards *shards, const char *folder, const char *name) {
    qn_file *file;
    const char *path = qn_arena_format(&shards->texts, "%s/%s", folder, name);
    if (!path)
        return QN_ERROR_MEMORY;
    QN_TRY(qn_file_open(shards->texts.allocator, path, &file));
    const qn_status status = add_file(shards, name, file);
    qn_file_close(file);
    return status;
}

/* ---- the index ---- */

static bool is_plain_name(const char *name) {
    return *name && !strchr(name, '/') && !strchr(name, '\\') && strcmp(name, ".") != 0 &&
           strcmp(name, "..") != 0;
}

static const qn_shard *find_shard(const qn_shards *shards, const char *name) {
    for (size_t i = 0; i < shards->n; i++) {
        if (strcmp(shards->list[i].name, name) == 0)
            return &shards->list[i];
    }
    return NULL;
}

/* Opens the files that the index names, each once. */
static qn_status open_listed(qn_shards *shards, const char *folder, const cJSON *map) {
    const cJSON *item;
    cJSON_ArrayForEach(item, map) {
        const char *name = cJSON_GetStringValue(item);
        if (!name || !is_plain_name(name))
            return qn_fail(QN_ERROR_FORMAT,
                           "%s/%s: the file of %.80s is no name of a file in this folder", folder,
                           index_name, item->string);
        if (find_shard(shards, name))
            continue;
        const char *kept = qn_arena_text(&shards->texts, name);
        if (!kept)
            return QN_ERROR_MEMORY;
        QN_TRY(open_file(shards, folder, kept));
    }
    return QN_OK;
}

static bool lies_in(const qn_pretrained_tensor *tensor, const qn_shard *shard) {
    const uint8_t *memory = shard->memory;
    return tensor->data >= memory && tensor->data + tensor->bytes <= memory + shard->bytes;
}

/* Both name the same tensors. cJSON's list may hold a name twice, so names are counted as well. */
static qn_status check_index(const qn_shards *shards, const char *folder, const cJSON *map) {
    const cJSON *item;
    size_t n = 0;
    cJSON_ArrayForEach(item, map) {
        const qn_pretrained_tensor *tensor = qn_tensors_find(&shards->tensors, item->string);
        if (!tensor || !lies_in(tensor, find_shard(shards, item->valuestring)))
            return qn_fail(QN_ERROR_FORMAT, "%s/%s: %.80s is not in %.80s", folder, index_name,
                           item->string, item->valuestring);
        n++;
    }
    if (n == shards->tensors.n)
        return QN_OK;
    for (size_t i = 0; i < shards->tensors.n; i++) {
        if (!cJSON_GetObjectItemCaseSensitive(map, shards->tensors.list[i].name))
            return qn_fail(QN_ERROR_FORMAT, "%s/%s: %.80s is in one of the files and not listed",
                           folder, index_name, shards->tensors.list[i].name);
    }
    return qn_fail(QN_ERROR_FORMAT, "%s/%s: a tensor is listed twice", folder, index_name);
}

static qn_status open_index(qn_shards *shards, const char *folder, const cJSON *index) {
    const cJSON *map = cJSON_GetObjectItemCaseSensitive(index, "weight_map");
    if (!cJSON_IsObject(map) || !map->child)
        return qn_fail(QN_ERROR_FORMAT, "%s/%s: it has no weight_map that lists tensors", folder,
                       index_name);
    QN_TRY(open_listed(shards, folder, map));
    QN_TRY(qn_tensors_finish(&shards->tensors, folder));
    return check_index(shards, folder, map);
}

static bool has_file(const char *folder, const char *name, qn_arena *texts) {
    const char *path = qn_arena_format(texts, "%s/%s", folder, name);
    return path && qn_path_is_file(path);
}

static qn_status refuse_folder(qn_shards *shards, const char *folder) {
    if (has_file(folder, "pytorch_model.bin", &shards->texts) ||
        has_file(folder, "pytorch_model.bin.index.json", &shards->texts))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s: its weights are pickled (pytorch_model.bin); save them as safetensors: "
                       "model.save_pretrained(FOLDER) of transformers does",
                       folder);
    return qn_fail(QN_ERROR_ARGUMENT, "%s: neither %s nor %s is in it", folder, single, index_name);
}

qn_status qn_shards_open(qn_shards *shards, const char *folder) {
    cJSON *index;
    if (!has_file(folder, index_name, &shards->texts)) {
        if (!has_file(folder, single, &shards->texts))
            return refuse_folder(shards, folder);
        QN_TRY(open_file(shards, folder, single));
        return qn_tensors_finish(&shards->tensors, folder);
    }
    QN_TRY(qn_json_file_read(shards->texts.allocator, folder, index_name, &index));
    const qn_status status = open_index(shards, folder, index);
    cJSON_Delete(index);
    return status;
}
