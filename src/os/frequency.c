/* See frequency.h. */
#include "os/frequency.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { MOST_CORES = 256, ROOT_BYTES = 256, PATH_BYTES = ROOT_BYTES + 96 };

/* Without a list of the driver's. */
static const double usual[] = {1, 0.8, 0.6, 0.4};

typedef struct core {
    int number;
    long long kept_khz; /* the limit as it was found */
} core;

struct qn_frequency {
    const qn_allocator *allocator;
    char root[ROOT_BYTES];
    int n, n_levels;
    core cores[MOST_CORES]; /* (n) */
    double levels[QN_FREQUENCY_LEVELS];
};

static const char *path_of(const qn_frequency *f, int number, const char *name,
                           char path[PATH_BYTES]) {
    snprintf(path, PATH_BYTES, "%s/sys/devices/system/cpu/cpu%d/cpufreq/%s", f->root, number, name);
    return path;
}

/* Kilohertz in a file; 0: there are none. */
static long long read_khz(const qn_frequency *f, int number, const char *name) {
    char path[PATH_BYTES];
    long long khz = 0;
    FILE *file = fopen(path_of(f, number, name, path), "re");
    if (!file)
        return 0;
    if (fscanf(file, "%lld", &khz) != 1 || khz < 0)
        khz = 0;
    fclose(file);
    return khz;
}

static bool write_khz(const qn_frequency *f, int number, long long khz) {
    char path[PATH_BYTES];
    FILE *file = fopen(path_of(f, number, "scaling_max_freq", path), "re+");
    if (!file)
        return false;
    const bool is_written = fprintf(file, "%lld\n", khz) > 0;
    return fclose(file) == 0 && is_written;
}

static void find_cores(qn_frequency *f) {
    char path[PATH_BYTES];
    for (int number = 0; number < MOST_CORES; number++) {
        const long long khz = read_khz(f, number, "scaling_max_freq");
        if (khz > 0 && access(path_of(f, number, "scaling_max_freq", path), W_OK) == 0)
            f->cores[f->n++] = (core){number, khz};
    }
}

/* In its place, falling; where it is full, the lowest stays. */
static void add_level(qn_frequency *f, double part) {
    int at = 0;
    while (at < f->n_levels && f->levels[at] > part + 0.01)
        at++;
    if (part > 1 || part < 0.2 || (at < f->n_levels && f->levels[at] > part - 0.01))
        return;
    if (f->n_levels == QN_FREQUENCY_LEVELS)
        return;
    memmove(f->levels + at + 1, f->levels + at, (size_t)(f->n_levels - at) * sizeof *f->levels);
    f->levels[at] = part;
    f->n_levels++;
}

/* Of the first core: the others have the same parts, or the next that their drivers allow. */
static void find_levels(qn_frequency *f) {
    const core *first = &f->cores[0];
    const double least =
        (double)read_khz(f, first->number, "cpuinfo_min_freq") / (double)first->kept_khz;
    char path[PATH_BYTES];
    long long khz;
    add_level(f, 1);
    FILE *file = fopen(path_of(f, first->number, "scaling_available_frequencies", path), "re");
    while (file && fscanf(file, "%lld", &khz) == 1)
        add_level(f, (double)khz / (double)first->kept_khz);
    if (file)
        fclose(file);
    const bool has_list = f->n_levels > 1;
    for (size_t i = 1; !has_list && i < sizeof usual / sizeof *usual; i++) {
        if (usual[i] >= least)
            add_level(f, usual[i]);
    }
}

qn_status qn_frequency_open(const qn_allocator *allocator, const char *root,
                            qn_frequency **frequency) {
    qn_frequency *f;
    *frequency = NULL;
    allocator = qn_allocator_or_default(allocator);
    if (strlen(root) >= ROOT_BYTES)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", root);
    QN_TRY(qn_allocate(allocator, 1, sizeof *f, &f));
    f->allocator = allocator;
    snprintf(f->root, sizeof f->root, "%s", root);
    find_cores(f);
    if (f->n == 0) {
        qn_release(allocator, f, 1, sizeof *f);
        return QN_OK;
    }
    find_levels(f);
    *frequency = f;
    return QN_OK;
}

bool qn_frequency_set(qn_frequency *f, double part) {
    bool is_set = true;
    for (int i = 0; i < f->n; i++) {
        const long long khz = (long long)((double)f->cores[i].kept_khz * part + 0.5);
        is_set = write_khz(f, f->cores[i].number, khz) && is_set;
    }
    return is_set;
}

int qn_frequency_levels(const qn_frequency *f, double levels[QN_FREQUENCY_LEVELS]) {
    memcpy(levels, f->levels, sizeof f->levels);
    return f->n_levels;
}

void qn_frequency_close(qn_frequency *f) {
    if (!f)
        return;
    (void)qn_frequency_set(f, 1);
    qn_release(f->allocator, f, 1, sizeof *f);
}
