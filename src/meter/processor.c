/* See processor.h. Cores are grouped into kinds by name (on ARM by implementer and part number), by
 * the kernel's measure of capacity, and by the lists of a hybrid processor. */
#include "meter/processor.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/probe.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CPUS "/sys/devices/system/cpu"

/* More than any kernel is built for: a list that goes beyond is no list. */
enum { MOST_CORES = 1 << 13 };

/* What one core says of itself. */
typedef struct facts {
    char model[64];
    unsigned implementer, part;
    int strength; /* where the kernel does not measure it: of known parts, from their age and size
                   */
    int cluster_first; /* lowest core of its cluster */
} facts;

typedef struct work {
    qn_processor *processor;
    facts *facts; /* (n_cores) */
    const char *root;
    char performance[128], efficiency[128]; /* lists of a hybrid's cores, "" */
    bool is_x86;
} work;

/* ---- parts of ARM's licensees ---- */

static const struct part {
    unsigned implementer, part;
    const char *name;
    int strength;
} parts[] = {
    {0x41, 0xc07, "Cortex-A7", 1},       {0x41, 0xc09, "Cortex-A9", 2},
    {0x41, 0xc0f, "Cortex-A15", 4},      {0x41, 0xd03, "Cortex-A53", 2},
    {0x41, 0xd04, "Cortex-A35", 1},      {0x41, 0xd05, "Cortex-A55", 3},
    {0x41, 0xd07, "Cortex-A57", 5},      {0x41, 0xd08, "Cortex-A72", 6},
    {0x41, 0xd09, "Cortex-A73", 6},      {0x41, 0xd0a, "Cortex-A75", 8},
    {0x41, 0xd0b, "Cortex-A76", 10},     {0x41, 0xd0c, "Neoverse-N1", 10},
    {0x41, 0xd0d, "Cortex-A77", 12},     {0x41, 0xd40, "Neoverse-V1", 15},
    {0x41, 0xd41, "Cortex-A78", 13},     {0x41, 0xd42, "Cortex-A78AE", 13},
    {0x41, 0xd44, "Cortex-X1", 16},      {0x41, 0xd46, "Cortex-A510", 4},
    {0x41, 0xd47, "Cortex-A710", 14},    {0x41, 0xd48, "Cortex-X2", 18},
    {0x41, 0xd49, "Neoverse-N2", 14},    {0x41, 0xd4b, "Cortex-A78C", 13},
    {0x41, 0xd4d, "Cortex-A715", 15},    {0x41, 0xd4e, "Cortex-X3", 20},
    {0x41, 0xd4f, "Neoverse-V2", 18},    {0x41, 0xd80, "Cortex-A520", 4},
    {0x41, 0xd81, "Cortex-A720", 16},    {0x41, 0xd82, "Cortex-X4", 22},
    {0x48, 0xd40, "Cortex-A76", 10},     {0x4e, 0x003, "Denver 2", 7},
    {0x4e, 0x004, "Carmel", 9},          {0x51, 0x800, "Kryo 2xx Gold", 6},
    {0x51, 0x801, "Kryo 2xx Silver", 2}, {0x51, 0x802, "Kryo 3xx Gold", 8},
    {0x51, 0x803, "Kryo 3xx Silver", 3}, {0x51, 0x804, "Kryo 4xx Gold", 10},
    {0x51, 0x805, "Kryo 4xx Silver", 3}, {0x51, 0x001, "Oryon", 22},
};

static void name_part(facts *f) {
    for (size_t i = 0; i < sizeof parts / sizeof parts[0]; i++) {
        if (parts[i].implementer == f->implementer && parts[i].part == f->part) {
            snprintf(f->model, sizeof f->model, "%s", parts[i].name);
            f->strength = parts[i].strength;
            return;
        }
    }
    snprintf(f->model, sizeof f->model, "implementer 0x%02x part 0x%03x", f->implementer, f->part);
}

/* ---- lists of cores: "0-3,8", in older files "0 1 2 3" ---- */

static bool next_range(const char **list, int *from, int *to) {
    char *end;
    while (**list == ',' || **list == ' ')
        ++*list;
    *from = *to = (int)strtol(*list, &end, 10);
    if (end == *list)
        return false;
    if (*end == '-')
        *to = (int)strtol(end + 1, &end, 10);
    *list = end;
    return *from >= 0 && *to >= *from && *to < MOST_CORES;
}

static bool list_has(const char *list, int number) {
    int from, to;
    while (next_range(&list, &from, &to)) {
        if (number >= from && number <= to)
            return true;
    }
    return false;
}

static int list_count(const char *list) {
    int from, to, n = 0;
    while (next_range(&list, &from, &to))
        n += to - from + 1;
    return n;
}

/* The lowest number; -1 of an empty list. */
static int list_first(const char *list) {
    int from, to;
    return next_range(&list, &from, &to) ? from : -1;
}

/* ---- files of a core ---- */

/* "" where there is no such file. */
static void read_text(const work *w, const char *path, char *text, size_t bytes) {
    char whole[512];
    snprintf(whole, sizeof whole, "%s%s", w->root, path);
    if (!qn_path_is_there(whole) || qn_probe_text_at(whole, text, bytes) != QN_OK)
        text[0] = 0;
}

static void core_text(const work *w, int number, const char *name, char *text, size_t bytes) {
    char path[160];
    snprintf(path, sizeof path, CPUS "/cpu%d/%s", number, name);
    read_text(w, path, text, bytes);
}

/* 0 where the file has no positive number. */
static int64_t core_number(const work *w, int number, const char *name) {
    char text[64];
    core_text(w, number, name, text, sizeof text);
    const long long value = strtoll(text, NULL, 10);
    return value > 0 ? value : 0;
}

static void read_core(work *w, qn_core *core) {
    char siblings[256];
    core->most_hz = core_number(w, core->number, "cpufreq/cpuinfo_max_freq") * 1000;
    core->capacity = core_number(w, core->number, "cpu_capacity");
    core_text(w, core->number, "topology/thread_siblings_list", siblings, sizeof siblings);
    core->first_sibling = siblings[0] ? list_first(siblings) : core->number;
}

/* ---- /proc/cpuinfo ---- */

/* The value of a line "name : value", or null. */
static const char *value_of(const char *line, const char *name) {
    const size_t length = strlen(name);
    if (strncmp(line, name, length) != 0)
        return NULL;
    line += length + strspn(line + length, " \t");
    return *line == ':' ? line + 1 + strspn(line + 1, " \t") : NULL;
}

static bool has_word(const char *words, const char *word) {
    const size_t length = strlen(word);
    for (const char *at = words; (at = strstr(at, word)); at += length) {
        if ((at == words || at[-1] == ' ') && (at[length] == ' ' || !at[length]))
            return true;
    }
    return false;
}

/* The same demands as of the kernels in use (os/cpu.c). */
static const char *isa_of(const char *flags) {
    if (has_word(flags, "avx512f") && has_word(flags, "avx512vl") && has_word(flags, "avx512dq") &&
        has_word(flags, "avx512bw"))
        return "avx512";
    if (has_word(flags, "avx2") && has_word(flags, "fma"))
        return "avx2";
    return has_word(flags, "asimd") ? "neon" : "ref";
}

static void read_flags(work *w, const char *line) {
    const char *flags = value_of(line, "flags");
    if (flags)
        w->is_x86 = true;
    else
        flags = value_of(line, "Features");
    if (flags)
        snprintf(w->processor->isa, sizeof w->processor->isa, "%s", isa_of(flags));
}

/* One line; *core is the one that is being described, or -1. */
static void read_line(work *w, const char *line, int *core) {
    const char *text;
    if ((text = value_of(line, "processor"))) {
        const int number = (int)strtol(text, NULL, 10);
        for (*core = w->processor->n_cores - 1; *core >= 0; --*core) {
            if (w->processor->cores[*core].number == number)
                break;
        }
    }
    facts *f = *core >= 0 ? &w->facts[*core] : NULL;
    if ((text = value_of(line, "Hardware")) && !w->processor->machine[0])
        snprintf(w->processor->machine, sizeof w->processor->machine, "%s", text);
    if (f && (text = value_of(line, "model name")))
        snprintf(f->model, sizeof f->model, "%s", text);
    if (f && (text = value_of(line, "CPU implementer")))
        f->implementer = (unsigned)strtoul(text, NULL, 0);
    if (f && (text = value_of(line, "CPU part"))) {
        f->part = (unsigned)strtoul(text, NULL, 0);
        name_part(f);
    }
    read_flags(w, line);
}

static qn_status read_cpuinfo(work *w) {
    char path[512], *text, *rest;
    size_t capacity;
    int core = -1;
    snprintf(path, sizeof path, "%s/proc/cpuinfo", w->root);
    if (!qn_path_is_there(path))
        return QN_OK;
    const qn_status status = qn_probe_whole(w->processor->allocator, path, &text, &capacity);
    if (status != QN_OK)
        return status == QN_ERROR_MEMORY ? status : QN_OK;
    for (char *line = strtok_r(text, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        read_line(w, line, &core);
    qn_release(w->processor->allocator, text, capacity, 1);
    return QN_OK;
}

/* ---- kinds ---- */

static bool is_efficiency(const work *w, int core) {
    return list_has(w->efficiency, w->processor->cores[core].number);
}

/* Whether two cores are of one kind. Favoured cores of x86 reach different clocks; that makes no
 * kind. */
static bool are_alike(const work *w, int a, int b) {
    const qn_core *left = &w->processor->cores[a], *right = &w->processor->cores[b];
    if (strcmp(w->facts[a].model, w->facts[b].model) != 0 ||
        is_efficiency(w, a) != is_efficiency(w, b))
        return false;
    if (w->is_x86)
        return true;
    return left->capacity == right->capacity &&
           (left->capacity > 0 || left->most_hz == right->most_hz);
}

/* By what the kernel measured, else by what is known of the part. */
static bool is_stronger(const work *w, int a, int b) {
    const qn_core *left = &w->processor->cores[a], *right = &w->processor->cores[b];
    if (is_efficiency(w, a) != is_efficiency(w, b))
        return is_efficiency(w, b);
    if (left->capacity != right->capacity)
        return left->capacity > right->capacity;
    if (w->facts[a].strength != w->facts[b].strength)
        return w->facts[a].strength > w->facts[b].strength;
    return left->most_hz > right->most_hz;
}

/* First cores of kinds, strongest first; cores beyond the most kinds count as the weakest. */
static int find_kinds(work *w, int firsts[QN_KINDS_MOST]) {
    int n = 0;
    for (int i = 0; i < w->processor->n_cores; i++) {
        int k = 0, at = 0;
        if (!w->processor->cores[i].is_online)
            continue;
        while (k < n && !are_alike(w, firsts[k], i))
            k++;
        if (k < n || n == QN_KINDS_MOST)
            continue;
        while (at < n && !is_stronger(w, i, firsts[at]))
            at++;
        memmove(firsts + at + 1, firsts + at, sizeof *firsts * (size_t)(n - at));
        firsts[at] = i;
        n++;
    }
    return n;
}

static void name_kind(const work *w, qn_core_kind *kind, int index) {
    static const char *const names[] = {"prime", "performance", "efficiency"};
    const int n = w->processor->n_kinds;
    if (n == 1)
        snprintf(kind->name, sizeof kind->name, "cpu");
    else if (n <= 3)
        snprintf(kind->name, sizeof kind->name, "%s", names[3 - n + index]);
    else
        snprintf(kind->name, sizeof kind->name, "kind-%d", index);
}

static void make_kinds(work *w) {
    qn_processor *p = w->processor;
    int firsts[QN_KINDS_MOST];
    p->n_kinds = find_kinds(w, firsts);
    for (int k = 0; k < p->n_kinds; k++) {
        const qn_core *first = &p->cores[firsts[k]];
        p->kinds[k] = (qn_core_kind){.first = first->number, .capacity = first->capacity};
        snprintf(p->kinds[k].model, sizeof p->kinds[k].model, "%s", w->facts[firsts[k]].model);
        name_kind(w, &p->kinds[k], k);
    }
    for (int i = 0; i < p->n_cores; i++) {
        qn_core *core = &p->cores[i];
        if (!core->is_online)
            continue;
        core->kind = 0;
        while (core->kind < p->n_kinds - 1 && !are_alike(w, firsts[core->kind], i))
            core->kind++;
        qn_core_kind *kind = &p->kinds[core->kind];
        kind->n_cores++;
        kind->n_physical += core->first_sibling == core->number;
        if (core->most_hz > kind->most_hz)
            kind->most_hz = core->most_hz;
    }
}

/* ---- clusters ---- */

/* Lowest core of those that share this one's cluster, clock or chip: what first tells more than of
 * the core itself. */
static int cluster_first(const work *w, const qn_core *core) {
    static const char *const files[] = {"topology/cluster_cpus_list", "cpufreq/related_cpus",
                                        "topology/package_cpus_list",
                                        "topology/core_siblings_list"};
    char siblings[256], list[256];
    core_text(w, core->number, "topology/thread_siblings_list", siblings, sizeof siblings);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++) {
        core_text(w, core->number, files[i], list, sizeof list);
        if (list_count(list) > 1 && strcmp(list, siblings) != 0)
            return list_first(list);
    }
    return core->number;
}

static void make_clusters(work *w) {
    qn_processor *p = w->processor;
    for (int i = 0; i < p->n_cores; i++) {
        qn_core *core = &p->cores[i];
        if (!core->is_online)
            continue;
        w->facts[i].cluster_first = cluster_first(w, core);
        for (int k = 0; k < i && core->cluster < 0; k++) {
            if (p->cores[k].is_online && p->cores[k].kind == core->kind &&
                w->facts[k].cluster_first == w->facts[i].cluster_first)
                core->cluster = p->cores[k].cluster;
        }
        if (core->cluster < 0)
            core->cluster = p->n_clusters++;
    }
}

/* ---- caches ---- */

static int64_t parse_bytes(const char *text) {
    char *end;
    const long long n = strtoll(text, &end, 10);
    if (n <= 0 || n > INT32_MAX)
        return 0;
    return *end == 'K' ? n << 10 : *end == 'M' ? n << 20 : *end == 'G' ? n << 30 : n;
}

/* Reads index `index` of a core's caches; false where there is none. */
static bool read_cache(const work *w, const qn_core *core, int index, qn_cpu_cache *cache,
                       char list[256]) {
    char name[64], text[64];
    snprintf(name, sizeof name, "cache/index%d/level", index);
    *cache = (qn_cpu_cache){.kind = core->kind, .level = (int)core_number(w, core->number, name)};
    snprintf(name, sizeof name, "cache/index%d/type", index);
    core_text(w, core->number, name, text, sizeof text);
    cache->type = text[0] == 'D'   ? QN_CACHE_DATA
                  : text[0] == 'I' ? QN_CACHE_INSTRUCTION
                                   : QN_CACHE_UNIFIED;
    snprintf(name, sizeof name, "cache/index%d/size", index);
    core_text(w, core->number, name, text, sizeof text);
    cache->bytes = parse_bytes(text);
    snprintf(name, sizeof name, "cache/index%d/shared_cpu_list", index);
    core_text(w, core->number, name, list, 256);
    cache->n_sharing = list[0] ? list_count(list) : 1;
    return cache->level > 0;
}

/* Whether no core of the same kind before this one is in the list. */
static bool is_first_of(const qn_processor *p, const qn_core *core, const char *list) {
    for (const qn_core *c = p->cores; c < core; c++) {
        if (c->kind == core->kind && list_has(list, c->number))
            return false;
    }
    return true;
}

static void add_cache(qn_processor *p, const qn_cpu_cache *cache) {
    for (int i = 0; i < p->n_caches; i++) {
        qn_cpu_cache *c = &p->caches[i];
        if (c->kind == cache->kind && c->level == cache->level && c->type == cache->type &&
            c->bytes == cache->bytes && c->n_sharing == cache->n_sharing) {
            c->n++;
            return;
        }
    }
    if (p->n_caches == QN_CACHES_MOST)
        return;
    p->caches[p->n_caches] = *cache;
    p->caches[p->n_caches++].n = 1;
}

static int compare_caches(const void *left, const void *right) {
    const qn_cpu_cache *a = left, *b = right;
    if (a->kind != b->kind)
        return a->kind - b->kind;
    return a->level != b->level ? a->level - b->level : (int)a->type - (int)b->type;
}

static void make_caches(work *w) {
    qn_processor *p = w->processor;
    qn_cpu_cache cache;
    char list[256];
    for (int i = 0; i < p->n_cores; i++) {
        if (!p->cores[i].is_online)
            continue;
        for (int k = 0; read_cache(w, &p->cores[i], k, &cache, list); k++) {
            if (is_first_of(p, &p->cores[i], list))
                add_cache(p, &cache);
        }
    }
    qsort(p->caches, (size_t)p->n_caches, sizeof p->caches[0], compare_caches);
}

int64_t qn_processor_cache_bytes(const qn_processor *p, int kind, int level) {
    for (int i = 0; i < p->n_caches; i++) {
        const qn_cpu_cache *c = &p->caches[i];
        if (c->kind == kind && c->level == level && c->type != QN_CACHE_INSTRUCTION)
            return c->bytes;
    }
    return 0;
}

/* ---- the whole ---- */

/* "2 x Denver 2 + 4 x Cortex-A57"; of x86 the name that it gives itself. */
static void name_processor(work *w) {
    qn_processor *p = w->processor;
    size_t used = 0;
    if (w->is_x86 && p->n_kinds > 0) {
        snprintf(p->name, sizeof p->name, "%s", p->kinds[0].model);
        return;
    }
    for (int k = 0; k < p->n_kinds && used < sizeof p->name; k++)
        used += (size_t)snprintf(p->name + used, sizeof p->name - used, "%s%d x %s", k ? " + " : "",
                                 p->kinds[k].n_cores,
                                 p->kinds[k].model[0] ? p->kinds[k].model : "unknown core");
}

static void name_machine(work *w) {
    static const char *const files[] = {"/proc/device-tree/model",
                                        "/sys/firmware/devicetree/base/model",
                                        "/sys/class/dmi/id/product_name"};
    char text[96] = "";
    for (size_t i = 0; i < sizeof files / sizeof files[0] && !text[0]; i++)
        read_text(w, files[i], text, sizeof text);
    if (text[0])
        memcpy(w->processor->machine, text, sizeof text);
}

static void read_memory(work *w) {
    char text[4096];
    read_text(w, "/proc/meminfo", text, sizeof text);
    const char *line = strstr(text, "MemTotal:");
    const long long kib = line ? strtoll(line + strlen("MemTotal:"), NULL, 10) : 0;
    w->processor->memory_bytes = kib > 0 && kib < 1LL << 50 ? kib * 1024 : 0;
}

/* Cores that are present, and which of them are online (where nothing is said: all). */
static qn_status make_cores(work *w) {
    qn_processor *p = w->processor;
    char present[256], online[256];
    int from, to, n = 0;
    read_text(w, CPUS "/present", present, sizeof present);
    read_text(w, CPUS "/online", online, sizeof online);
    p->n_cores = list_count(present);
    QN_TRY(qn_allocate(p->allocator, (size_t)p->n_cores, sizeof *p->cores, &p->cores));
    QN_TRY(qn_allocate(p->allocator, (size_t)p->n_cores, sizeof *w->facts, &w->facts));
    for (const char *list = present; next_range(&list, &from, &to);) {
        for (int number = from; number <= to; number++)
            p->cores[n++] = (qn_core){.number = number,
                                      .kind = -1,
                                      .cluster = -1,
                                      .is_online = !online[0] || list_has(online, number)};
    }
    for (int i = 0; i < n; i++)
        read_core(w, &p->cores[i]);
    return QN_OK;
}

static qn_status read_all(work *w) {
    QN_TRY(make_cores(w));
    read_text(w, "/sys/devices/cpu_core/cpus", w->performance, sizeof w->performance);
    read_text(w, "/sys/devices/cpu_atom/cpus", w->efficiency, sizeof w->efficiency);
    if (!w->performance[0])
        w->efficiency[0] = 0;
    QN_TRY(read_cpuinfo(w));
    make_kinds(w);
    make_clusters(w);
    make_caches(w);
    name_processor(w);
    name_machine(w);
    read_memory(w);
    return QN_OK;
}

qn_status qn_processor_create(const qn_allocator *allocator, const char *root,
                              qn_processor **processor) {
    qn_processor *p;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *p, &p));
    p->allocator = allocator;
    work w = {.processor = p, .root = root};
    const qn_status status = read_all(&w);
    qn_release(allocator, w.facts, (size_t)p->n_cores, sizeof *w.facts);
    if (status != QN_OK) {
        qn_processor_destroy(p);
        return status;
    }
    *processor = p;
    return QN_OK;
}

void qn_processor_destroy(qn_processor *p) {
    if (!p)
        return;
    qn_release(p->allocator, p->cores, (size_t)p->n_cores, sizeof *p->cores);
    qn_release(p->allocator, p, 1, sizeof *p);
}

const char *qn_processor_print(const qn_processor *p, char text[QN_PROCESSOR_TEXT]) {
    snprintf(text, QN_PROCESSOR_TEXT, "%s%s%s, %d core%s", p->machine,
             *p->machine && *p->name ? ", " : "", *p->name ? p->name : "unknown processor",
             p->n_cores, p->n_cores == 1 ? "" : "s");
    return text;
}
