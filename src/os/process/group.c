/* See group.h. */
#include "os/process/group.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

enum { PATH = 2048, LINE = 4096 };

/* Version 1 has a tree for each controller, version 2 one for all. */
typedef enum tree { TREE_BOTH, TREE_MEMORY, TREE_CPU, TREES } tree;

static const char *const controllers[TREES] = {"", "memory", "cpu"};
/* Where systems mount them; for a process that cannot see /proc. */
static const char *const usual_mounts[TREES] = {"/sys/fs/cgroup", "/sys/fs/cgroup/memory",
                                                "/sys/fs/cgroup/cpu"};

typedef struct search {
    const char *root; /* "" or a test's */
    qn_group *group;
    char mount[PATH]; /* where the tree is, below the root */
    char top[PATH];   /* the group that is seen there */
    char own[PATH];   /* the process's, from the tree's own top */
} search;

/* ---- files ---- */

static FILE *open_below(const search *s, const char *folder, const char *name) {
    char path[2 * PATH];
    const int n = snprintf(path, sizeof path, "%s%s/%s", s->root, folder, name);
    return n < (int)sizeof path ? fopen(path, "re") : NULL;
}

/* A number from 0 to below 2^60, which version 1 says for none; -1: none, or the word "max". */
static int64_t read_count(const search *s, const char *folder, const char *name) {
    long long count = -1;
    FILE *file = open_below(s, folder, name);
    if (file && fscanf(file, "%lld", &count) != 1)
        count = -1;
    if (file)
        fclose(file);
    return count >= 0 && count < INT64_C(1) << 60 ? count : -1;
}

/* The value of a line "NAME 123" of a file, or 0. */
static int64_t find_count(const search *s, const char *folder, const char *file_name,
                          const char *name) {
    char line[256], word[64];
    long long count = 0, value;
    FILE *file = open_below(s, folder, file_name);
    while (file && fgets(line, sizeof line, file)) {
        if (sscanf(line, "%63s %lld", word, &value) == 2 && strcmp(word, name) == 0)
            count = value;
    }
    if (file)
        fclose(file);
    return count;
}

/* ---- limits of one group ---- */

static int64_t least(int64_t a, int64_t b) {
    return a < 0 ? b : b < 0 || a < b ? a : b;
}

static void add_memory(search *s, int64_t most, int64_t now, int64_t cached) {
    if (most < 0)
        return;
    const int64_t left = most - (now > 0 ? now : 0) + cached;
    s->group->memory_bytes = least(s->group->memory_bytes, most);
    s->group->left_bytes = least(s->group->left_bytes, left > 0 ? left : 0);
}

static void add_quota(search *s, int64_t quota, int64_t period) {
    if (quota <= 0 || period <= 0)
        return;
    const double cpus = (double)quota / (double)period;
    if (s->group->cpus <= 0 || cpus < s->group->cpus)
        s->group->cpus = cpus;
}

static void look_at_both(search *s, const char *folder) {
    /* Above "high" a group is slowed down until it stands still: as good as a limit. */
    const int64_t most =
        least(read_count(s, folder, "memory.max"), read_count(s, folder, "memory.high"));
    if (most >= 0)
        add_memory(s, most, read_count(s, folder, "memory.current"),
                   find_count(s, folder, "memory.stat", "inactive_file"));
    long long quota, period;
    FILE *file = open_below(s, folder, "cpu.max");
    if (file && fscanf(file, "%lld %lld", &quota, &period) == 2)
        add_quota(s, quota, period);
    if (file)
        fclose(file);
}

static void look_at(search *s, tree t, const char *folder) {
    if (t == TREE_BOTH)
        look_at_both(s, folder);
    else if (t == TREE_MEMORY)
        add_memory(s, read_count(s, folder, "memory.limit_in_bytes"),
                   read_count(s, folder, "memory.usage_in_bytes"),
                   find_count(s, folder, "memory.stat", "total_inactive_file"));
    else
        add_quota(s, read_count(s, folder, "cpu.cfs_quota_us"),
                  read_count(s, folder, "cpu.cfs_period_us"));
}

/* ---- where the groups are ---- */

/* Whether a list "cpu,cpuacct" has the word. */
static bool has_word(const char *list, const char *word) {
    const size_t n = strlen(word);
    for (const char *at = list; (at = strstr(at, word)) != NULL; at += n) {
        if ((at == list || at[-1] == ',') && (at[n] == 0 || at[n] == ',' || at[n] == '\n'))
            return true;
    }
    return false;
}

/* "4:memory:/jobs/17" of /proc/self/cgroup; version 2 has an empty list. */
static bool find_own(search *s, tree t) {
    char line[LINE];
    bool is_found = false;
    FILE *file = open_below(s, "/proc/self", "cgroup");
    while (file && !is_found && fgets(line, sizeof line, file)) {
        char *list = strchr(line, ':'), *path = list ? strchr(list + 1, ':') : NULL;
        if (!path)
            continue;
        *path = 0;
        is_found = t == TREE_BOTH ? list[1] == 0 : has_word(list + 1, controllers[t]);
        snprintf(s->own, sizeof s->own, "%.*s", (int)strcspn(path + 1, "\n"), path + 1);
    }
    if (file)
        fclose(file);
    return is_found;
}

/* "36 35 0:30 /top /sys/fs/cgroup rw - cgroup2 cgroup2 rw" of /proc/self/mountinfo. */
static bool read_mount(search *s, tree t, char *line) {
    char type[32], options[LINE];
    const char *rest = strstr(line, " - ");
    if (!rest || sscanf(rest, " - %31s %*s %4095s", type, options) != 2 ||
        strcmp(type, t == TREE_BOTH ? "cgroup2" : "cgroup") != 0)
        return false;
    return (t == TREE_BOTH || has_word(options, controllers[t])) &&
           sscanf(line, "%*s %*s %*s %2047s %2047s", s->top, s->mount) == 2;
}

static bool find_mount(search *s, tree t) {
    char line[LINE];
    bool is_found = false;
    FILE *file = open_below(s, "/proc/self", "mountinfo");
    while (file && !is_found && fgets(line, sizeof line, file))
        is_found = read_mount(s, t, line);
    if (file)
        fclose(file);
    return is_found;
}

/* The process's group below the mount, as far as it is seen there: "" where a container shows its
 * own as the top. */
static const char *path_below(const search *s) {
    const size_t n = strlen(s->top);
    if (strcmp(s->top, "/") == 0)
        return strstr(s->own, "/..") || strcmp(s->own, "/") == 0 ? "" : s->own;
    const bool is_below = strncmp(s->own, s->top, n) == 0 && (s->own[n] == '/' || s->own[n] == 0);
    return is_below ? s->own + n : "";
}

static void look_at_tree(search *s, tree t) {
    char folder[2 * PATH];
    if (!find_own(s, t) || !find_mount(s, t)) {
        snprintf(s->mount, sizeof s->mount, "%s", usual_mounts[t]);
        snprintf(s->top, sizeof s->top, "/");
        s->own[0] = 0;
    }
    snprintf(folder, sizeof folder, "%s%s", s->mount, path_below(s));
    /* From the process's own group up to the top that is seen. */
    while (strlen(folder) > strlen(s->mount)) {
        look_at(s, t, folder);
        *strrchr(folder, '/') = 0;
    }
    look_at(s, t, s->mount);
}

void qn_group_read(const char *root, qn_group *group) {
    search s = {.root = root, .group = group};
    *group = (qn_group){.memory_bytes = -1, .left_bytes = -1};
    for (tree t = 0; t < TREES; t++)
        look_at_tree(&s, t);
}
