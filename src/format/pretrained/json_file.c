/* See json_file.h. */
#include "format/pretrained/json_file.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <errno.h>
#include <string.h>

static const int64_t most_bytes = 1 << 26;

/* cJSON does not say why it takes no text, but the heap does. */
static qn_status parse(const char *path, const char *text, size_t bytes, cJSON **tree) {
    errno = 0;
    cJSON *parsed =
        memchr(text, 0, bytes) ? NULL : cJSON_ParseWithLengthOpts(text, bytes + 1, NULL, true);
    if (cJSON_IsObject(parsed)) {
        *tree = parsed;
        return QN_OK;
    }
    cJSON_Delete(parsed);
    if (errno == ENOMEM)
        return qn_fail(QN_ERROR_MEMORY, "%s: no memory to read it", path);
    return qn_fail(QN_ERROR_FORMAT, "%s: it is not a JSON object", path);
}

qn_status qn_json_file_read(const qn_allocator *allocator, const char *folder, const char *name,
                            cJSON **tree) {
    char *text;
    size_t bytes;
    qn_arena texts;
    allocator = qn_allocator_or_default(allocator);
    qn_arena_init(&texts, allocator);
    const char *path = qn_arena_format(&texts, "%s/%s", folder, name);
    qn_status status = path ? QN_OK : QN_ERROR_MEMORY;
    if (path && qn_path_bytes(path) > most_bytes)
        status = qn_fail(QN_ERROR_UNSUPPORTED, "%s: it is larger than 64 MiB", path);
    if (status == QN_OK)
        status = qn_file_read_whole(allocator, path, &text, &bytes);
    if (status == QN_OK) {
        status = parse(path, text, bytes, tree);
        qn_release(allocator, text, bytes + 1, 1);
    }
    qn_arena_deinit(&texts);
    return status;
}
