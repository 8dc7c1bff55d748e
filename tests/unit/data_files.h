/* What the tests of data share: a folder of their own that goes away, small files of every format
 * in it, and an allocator whose n-th allocation fails. */
#ifndef QN_TESTS_DATA_FILES_H
#define QN_TESTS_DATA_FILES_H

#include "base/memory.h"
#include "check.h"
#include "failing.h"
#include "quern/data.h"

#include <limits.h>
#include <stdarg.h>
#include <stdlib.h>
#include <unistd.h>

static char test_root[] = "/tmp/quern-test-data-XXXXXX";

/* Makes the folder and puts the cache into it. */
static inline void files_begin(void) {
    char cache[PATH_MAX];
    if (!mkdtemp(test_root))
        exit(2);
    snprintf(cache, sizeof cache, "%s/cache", test_root);
    setenv("XDG_CACHE_HOME", cache, 1);
}

static inline void files_end(void) {
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", test_root);
    CHECK(system(command) == 0);
}

/* Text with the test's folder for every @; one of four buffers in turn. */
static inline const char *at_root(const char *text) {
    static char buffers[4][PATH_MAX];
    static int next;
    char *to = buffers[next++ % 4];
    size_t used = 0;
    for (; *text && used + sizeof test_root < PATH_MAX; text++)
        if (*text == '@')
            used += (size_t)snprintf(to + used, PATH_MAX - used, "%s", test_root);
        else
            to[used++] = *text;
    to[used] = 0;
    return to;
}

static inline void write_file(const char *path, const void *data, size_t bytes) {
    FILE *file = fopen(at_root(path), "wb");
    CHECK(file && fwrite(data, 1, bytes, file) == bytes);
    if (file)
        fclose(file);
}

static inline void write_text(const char *path, const char *text) {
    write_file(path, text, strlen(text));
}

static inline void make_folder(const char *path) {
    char command[PATH_MAX + 16];
    snprintf(command, sizeof command, "mkdir -p '%s'", at_root(path));
    CHECK(system(command) == 0);
}

/* Opens a specification in which @ is the test's folder. */
static inline qn_status open_at(const char *specification, const qn_data_options *options,
                                qn_data_source *source) {
    return qn_data_open(at_root(specification), options, source);
}

/* A specification that must fail to open. */
#define CHECK_OPEN_FAILS(specification, status, text)                                              \
    do {                                                                                           \
        qn_data_source unopened;                                                                   \
        CHECK_FAILS(open_at(specification, NULL, &unopened), status, text);                        \
    } while (0)

/* Opening with the n-th allocation failing, for every n up to the first success: an error of memory
 * each time, and nothing is kept. */
static inline void check_open_survives(const char *specification) {
    for (int n = 0; n < 1000; n++) {
        failing f = {.left = n};
        qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .allocator = &allocator};
        qn_data_source source;
        qn_status status = open_at(specification, &options, &source);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        if (status == QN_OK) {
            qn_data_close(&source);
            CHECK(n > 1 && f.held_bytes == 0);
            return;
        }
        CHECK(f.held_bytes == 0);
    }
    CHECK(!"opening ends at last");
}

#endif
