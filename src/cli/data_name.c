/* See data_name.h. */
#include "cli/data_name.h"

#include "cli/terminal.h"
#include "os/os.h"
#include "quern/data.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "~/" at the begin, after the kind and after commas. */
static const char *expand_home(const char *given, qn_arena *texts) {
    const char *home = getenv("HOME");
    char text[2 * PATH_MAX];
    size_t used = 0;
    if (!home || !strstr(given, "~/"))
        return qn_arena_text(texts, given);
    for (const char *c = given; *c && used < sizeof text - PATH_MAX; c++) {
        const bool is_start = c == given || c[-1] == ':' || c[-1] == ',';
        if (is_start && c[0] == '~' && c[1] == '/')
            used += (size_t)snprintf(text + used, PATH_MAX, "%.*s", PATH_MAX - 1, home);
        else
            text[used++] = *c;
    }
    text[used] = 0;
    return qn_arena_text(texts, text);
}

static bool is_kind(const char *name) {
    static const char *const kinds[] = {"fashion-mnist", "synthetic", "breakout", "cartpole"};
    for (size_t i = 0; i < sizeof kinds / sizeof kinds[0]; i++) {
        if (strcmp(kinds[i], name) == 0)
            return true;
    }
    return strchr(name, ':') != NULL;
}

qn_status data_name_find(const char *given, qn_arena *texts, const char **name) {
    const char *kind = NULL;
    *name = expand_home(given, texts);
    if (*name && !is_kind(*name))
        kind = qn_data_kind_of(*name);
    if (!*name || !kind)
        return *name ? QN_OK : QN_ERROR_MEMORY;
    *name = qn_arena_format(texts, "%s:%s", kind, *name);
    if (*name)
        terminal_note("--data %s is taken as %s", given, *name);
    return *name ? QN_OK : QN_ERROR_MEMORY;
}

/* ---- paths in names ---- */

/* The parts of a name that may be paths: what is between the colon and the commas. */
typedef struct name_part {
    const char *at;
    size_t length;
} name_part;

static bool next_part(const char **at, name_part *part) {
    if (!*at || !**at)
        return false;
    const size_t length = strcspn(*at, ",");
    *part = (name_part){*at, length};
    *at += length + ((*at)[length] == ',');
    return true;
}

static const char *paths_of(const char *name) {
    const char *colon = strchr(name, ':');
    return colon ? colon + 1 : NULL;
}

static bool is_there(const char *path) {
    return qn_path_is_file(path) || qn_path_is_folder(path);
}

static bool copy_part(const name_part *part, const char *folder, char path[PATH_MAX]) {
    const int n = folder ? snprintf(path, PATH_MAX, "%s/%.*s", folder, (int)part->length, part->at)
                         : snprintf(path, PATH_MAX, "%.*s", (int)part->length, part->at);
    return n >= 0 && n < PATH_MAX;
}

/* Whether two parts are the same text or lead to the same place. */
static bool is_same_part(const name_part *a, const name_part *b) {
    char paths[2][PATH_MAX], resolved[2][PATH_MAX];
    if (a->length == b->length && memcmp(a->at, b->at, a->length) == 0)
        return true;
    return copy_part(a, NULL, paths[0]) && copy_part(b, NULL, paths[1]) && is_there(paths[0]) &&
           is_there(paths[1]) &&
           qn_path_resolve(paths[0], resolved[0], sizeof resolved[0]) == QN_OK &&
           qn_path_resolve(paths[1], resolved[1], sizeof resolved[1]) == QN_OK &&
           strcmp(resolved[0], resolved[1]) == 0;
}

bool data_name_is_same(const char *a, const char *b) {
    const char *at_a = paths_of(a), *at_b = paths_of(b);
    name_part part_a, part_b;
    if (strcmp(a, b) == 0)
        return true;
    if (!at_a || !at_b || at_a - a != at_b - b || strncmp(a, b, (size_t)(at_a - a)) != 0)
        return false;
    while (next_part(&at_a, &part_a))
        if (!next_part(&at_b, &part_b) || !is_same_part(&part_a, &part_b))
            return false;
    return !next_part(&at_b, &part_b);
}

qn_status data_name_beside(const char *name, const char *folder, qn_arena *texts,
                           const char **found) {
    const char *at = paths_of(name);
    char path[PATH_MAX];
    name_part part;
    int n_moved = 0;
    *found = NULL;
    if (!at)
        return QN_OK;
    const char *made = qn_arena_format(texts, "%.*s", (int)(at - name), name);
    for (int i = 0; made && next_part(&at, &part); i++) {
        const bool is_here = part.at[0] == '/' || !copy_part(&part, NULL, path) || is_there(path);
        const bool is_beside = !is_here && copy_part(&part, folder, path) && is_there(path);
        n_moved += is_beside;
        made =
            qn_arena_format(texts, "%s%s%s%s%.*s", made, i > 0 ? "," : "", is_beside ? folder : "",
                            is_beside ? "/" : "", (int)part.length, part.at);
    }
    *found = n_moved > 0 ? made : NULL;
    return made ? QN_OK : QN_ERROR_MEMORY;
}

bool data_name_is_there(const char *name) {
    const char *at = paths_of(name);
    char path[PATH_MAX];
    name_part part;
    return !at || !next_part(&at, &part) || !copy_part(&part, NULL, path) || is_there(path) ||
           strcmp(path, "-") == 0;
}

bool data_name_is_relative(const char *name) {
    const char *at = paths_of(name);
    char path[PATH_MAX];
    name_part part;
    return at && next_part(&at, &part) && copy_part(&part, NULL, path) && path[0] != '/' &&
           is_there(path);
}

/* "\xe9"; bytes of UTF-8 are not written so. */
static bool is_written_byte(const char *at, char *byte) {
    const char *const digits = "0123456789abcdef";
    const char *high = at[0] == '\\' && at[1] == 'x' && at[2] ? strchr(digits, at[2]) : NULL;
    const char *low = high && at[3] ? strchr(digits, at[3]) : NULL;
    if (!low || high < digits + 8)
        return false;
    *byte = (char)((high - digits) << 4 | (low - digits));
    return true;
}

qn_status data_name_restore(const char *name, qn_arena *texts, const char **found) {
    char *to = qn_arena_text(texts, name);
    *found = NULL;
    if (!to)
        return QN_ERROR_MEMORY;
    char *made = to;
    for (const char *at = name; *at; to++) {
        const bool is_byte = is_written_byte(at, to);
        if (!is_byte)
            *to = *at;
        at += is_byte ? 4 : 1;
    }
    *to = 0;
    *found = strcmp(made, name) != 0 ? made : NULL;
    return QN_OK;
}
