/* See data_name.h. */
#include "cli/data_name.h"

#include "cli/terminal.h"
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
