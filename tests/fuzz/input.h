/* What fuzz targets share: memory that runs out where the input says, and a folder of their own for
 * files and the cache, in memory where the system has such a place. */
#ifndef QN_TESTS_FUZZ_INPUT_H
#define QN_TESTS_FUZZ_INPUT_H

#include "base/rng.h"
#include "failing.h"
#include "os/os.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An allocation that fails with one of two inputs: early ones as often as those that come late. */
static inline failing input_failing(const uint8_t *data, size_t size) {
    const uint64_t chosen = qn_hash_bytes(data, size);
    const int64_t most = INT64_C(1) << (chosen >> 8) % 11;
    return (failing){.left = chosen & 1 ? (int64_t)((chosen >> 16) % (uint64_t)most) : -1};
}

static inline qn_allocator input_allocator(failing *f) {
    return (qn_allocator){f, failing_allocate, failing_release};
}

/* Once all that came from it was given back. */
static inline void input_check_memory(const failing *f) {
    if (f->held_bytes != 0)
        abort();
}

static char input_folder_path[64];

static qn_status input_remove(void *context, const char *name, bool is_folder) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", (const char *)context, name);
    if (is_folder)
        (void)qn_folder_list(NULL, path, input_remove, path);
    (void)(is_folder ? rmdir(path) : unlink(path));
    return QN_OK;
}

static void input_remove_folder(void) {
    (void)qn_folder_list(NULL, input_folder_path, input_remove, input_folder_path);
    rmdir(input_folder_path);
}

/* The folder; from its first call on caches are in it. It goes when the process ends. */
static inline const char *input_folder(void) {
    if (input_folder_path[0])
        return input_folder_path;
    snprintf(input_folder_path, sizeof input_folder_path, "/dev/shm/quern-fuzz-XXXXXX");
    if (!mkdtemp(input_folder_path)) {
        snprintf(input_folder_path, sizeof input_folder_path, "/tmp/quern-fuzz-XXXXXX");
        if (!mkdtemp(input_folder_path))
            abort();
    }
    setenv("XDG_CACHE_HOME", input_folder_path, 1);
    atexit(input_remove_folder);
    return input_folder_path;
}

/* Puts bytes into a file of the folder, in place of what it holds. */
static inline void input_write(const char *name, const void *data, size_t size) {
    char path[512];
    snprintf(path, sizeof path, "%s/%s", input_folder(), name);
    FILE *file = fopen(path, "wb");
    if (!file || fwrite(data, 1, size, file) != size || fclose(file) != 0)
        abort();
}

static qn_status input_note_first(void *context, const char *name, bool is_folder) {
    const char *prefix = *(const char **)context;
    if (is_folder || strncmp(name, prefix, strlen(prefix)) != 0)
        return QN_OK;
    snprintf(*((char **)context + 1), 256, "quern/%s", name);
    return QN_ERROR_INTERRUPTED; /* enough */
}

/* The file of the cache whose name begins so, as input_write takes it; "": there is none. */
static inline void input_find_cached(const char *prefix, char name[256]) {
    char path[128];
    const void *context[] = {prefix, name};
    name[0] = 0;
    snprintf(path, sizeof path, "%s/quern", input_folder());
    (void)qn_folder_list(NULL, path, input_note_first, (void *)context);
}

#endif
