/* See family.h. Children come from /proc/PID/task/TID/children if the kernel has it, otherwise from
 * the parent in /proc/PID/stat of every process. */
#include "meter/family.h"

#include "os/probe.h"
#include "os/process/cpu_time.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_TASKS = 128, MOST_PROCESSES = 1024 };

#define LOOK_PERIOD_NS INT64_C(100000000)

void qn_family_init(const char *root, int64_t process, qn_family *family) {
    *family = (qn_family){.root = root, .ids = {process}, .n = 1};
}

void qn_family_remove(qn_family *family, int index) {
    family->ids[index] = family->ids[--family->n];
}

static bool is_in(const qn_family *family, int64_t id) {
    for (int i = 0; i < family->n; i++)
        if (family->ids[i] == id)
            return true;
    return false;
}

static void add(qn_family *family, int64_t id) {
    if (id <= 0 || is_in(family, id))
        return;
    if (family->n < QN_FAMILY_MOST)
        family->ids[family->n++] = id;
    else
        family->is_crowded = true;
}

static int list(const char *path, int64_t *numbers, int most) {
    qn_numbered folder;
    if (qn_numbered_open(path, &folder) != QN_OK)
        return 0;
    const int n = qn_numbered_list(&folder, numbers, most);
    qn_numbered_close(&folder);
    return n < most ? n : most;
}

/* Adds what the threads of a process started. False: the kernel does not tell. */
static bool add_children(qn_family *family, int64_t process) {
    int64_t tasks[MOST_TASKS];
    char path[300], text[1024], *end;
    snprintf(path, sizeof path, "%.200s/proc/%lld/task", family->root, (long long)process);
    const int n = list(path, tasks, MOST_TASKS);
    bool is_told = n == 0;
    for (int i = 0; i < n; i++) {
        snprintf(path, sizeof path, "%.200s/proc/%lld/task/%lld/children", family->root,
                 (long long)process, (long long)tasks[i]);
        if (qn_probe_text_at(path, text, sizeof text) != QN_OK)
            continue;
        is_told = true;
        for (const char *at = text; *at; at = end) {
            const int64_t id = strtoll(at, &end, 10);
            if (end == at)
                break;
            add(family, id);
        }
    }
    return is_told;
}

/* The parent of a process; 0: unknown. Its name, in brackets, may hold anything. */
static int64_t parent_of(const qn_family *family, int64_t process) {
    char path[300], text[512];
    long long parent;
    snprintf(path, sizeof path, "%.200s/proc/%lld/stat", family->root, (long long)process);
    if (qn_probe_text_at(path, text, sizeof text) != QN_OK)
        return 0;
    const char *end = strrchr(text, ')');
    return end && sscanf(end, ") %*c %lld", &parent) == 1 ? parent : 0;
}

/* Until nothing is added: a child may have a lower number than its parent. */
static void add_by_parents(qn_family *family) {
    int64_t processes[MOST_PROCESSES];
    char path[300];
    snprintf(path, sizeof path, "%.200s/proc", family->root);
    const int n = list(path, processes, MOST_PROCESSES);
    for (int before = 0; before != family->n;) {
        before = family->n;
        for (int i = 0; i < n; i++)
            if (!is_in(family, processes[i]) && is_in(family, parent_of(family, processes[i])))
                add(family, processes[i]);
    }
}

void qn_family_look(qn_family *family, int64_t now_ns) {
    bool is_told = true;
    if (family->look_ns > 0 && now_ns - family->look_ns < LOOK_PERIOD_NS)
        return;
    family->look_ns = now_ns;
    for (int i = 0; i < family->n && is_told; i++)
        is_told = add_children(family, family->ids[i]);
    if (is_told)
        return;
    add_by_parents(family);
    family->look_ns += 9 * LOOK_PERIOD_NS; /* that takes milliseconds */
}
