/* A tree of files in a temporary folder, that stands for a device's /sys and /proc. */
#ifndef QN_TESTS_DEVICE_FILES_H
#define QN_TESTS_DEVICE_FILES_H

#include "os/os.h"

#include <ftw.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct device_files {
    char root[64];
} device_files;

static inline device_files device_files_make(void) {
    device_files files = {"/tmp/quern-device-XXXXXX"};
    if (!mkdtemp(files.root))
        exit(2);
    return files;
}

static inline int device_files_remove_one(const char *path, const struct stat *status, int kind,
                                          struct FTW *place) {
    (void)status, (void)kind, (void)place;
    return remove(path);
}

/* Takes away a file or folder below the root ("sys/class/hwmon"); "" takes all. */
static inline void device_files_remove(const device_files *files, const char *path) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", files->root, path);
    nftw(whole, device_files_remove_one, 8, FTW_DEPTH | FTW_PHYS);
}

/* Writes a file below the root ("sys/class/hwmon/hwmon0/name"), and the folders above it. A file
 * that is there is written in place, so that who has opened it sees the new text. */
static inline void device_files_put(const device_files *files, const char *path, const char *format,
                                    ...) __attribute__((format(printf, 3, 4)));

static inline void device_files_put(const device_files *files, const char *path, const char *format,
                                    ...) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s/%s", files->root, path);
    char *slash = strrchr(whole, '/');
    *slash = 0;
    if (qn_folder_create(whole) != QN_OK)
        exit(2);
    *slash = '/';
    FILE *file = fopen(whole, "w");
    if (!file)
        exit(2);
    va_list arguments;
    va_start(arguments, format);
    vfprintf(file, format, arguments);
    va_end(arguments);
    fclose(file);
}

#endif
