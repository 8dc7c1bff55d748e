/* See identity.h. */
#include "os/files/identity.h"

#include <dirent.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

static qn_file_identity identity_of(const struct stat *status) {
    return (qn_file_identity){(uint64_t)status->st_dev, (uint64_t)status->st_ino};
}

bool qn_file_identify(const char *path, qn_file_identity *identity) {
    struct stat status;
    if (stat(path, &status) != 0)
        return false;
    *identity = identity_of(&status);
    return true;
}

bool qn_file_is_same(qn_file_identity a, qn_file_identity b) {
    return a.device == b.device && a.number == b.number;
}

/* Of an entry that is a folder itself, its path goes to below. */
static bool entry_is(const char *folder, DIR *open, const struct dirent *entry,
                     qn_file_identity wanted, char below[PATH_MAX]) {
    struct stat status;
    *below = 0;
    if (strcmp(entry->d_name, ".") == 0 || strcmp(entry->d_name, "..") == 0)
        return false;
    const bool is_plain = entry->d_type == DT_REG;
    if (is_plain && (uint64_t)entry->d_ino != wanted.number)
        return false;
    if (fstatat(dirfd(open), entry->d_name, &status, 0) != 0)
        return false;
    const bool is_link = entry->d_type == DT_LNK;
    if (S_ISDIR(status.st_mode) && !is_link &&
        snprintf(below, PATH_MAX, "%s/%s", folder, entry->d_name) >= PATH_MAX)
        *below = 0;
    return qn_file_is_same(identity_of(&status), wanted);
}

bool qn_folder_holds(const char *folder, qn_file_identity wanted) {
    char below[PATH_MAX];
    const struct dirent *entry;
    bool is_found = false;
    DIR *open = opendir(folder);
    while (open && !is_found && (entry = readdir(open))) {
        is_found = entry_is(folder, open, entry, wanted, below);
        if (!is_found && *below)
            is_found = qn_folder_holds(below, wanted);
    }
    if (open)
        closedir(open);
    return is_found;
}

static char lower(char c) {
    return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

static bool is_equal(const char *a, const char *b) {
    while (*a && lower(*a) == lower(*b)) {
        a++;
        b++;
    }
    return lower(*a) == lower(*b);
}

/* The folder of a path, and its name in it. */
static bool split(const char *path, qn_file_identity *folder, const char **name) {
    char text[PATH_MAX];
    const char *slash = strrchr(path, '/');
    *name = slash ? slash + 1 : path;
    const int n = snprintf(text, sizeof text, "%.*s", (int)(slash ? slash - path + 1 : 0), path);
    return n < (int)sizeof text && qn_file_identify(n > 0 ? text : ".", folder);
}

bool qn_path_is_same(const char *a, const char *b) {
    qn_file_identity folder_a, folder_b;
    const char *name_a, *name_b;
    return split(a, &folder_a, &name_a) && split(b, &folder_b, &name_b) &&
           qn_file_is_same(folder_a, folder_b) && is_equal(name_a, name_b);
}
