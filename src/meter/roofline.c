/* See roofline.h: the cached values, and the bound for an amount of work. JSON is parsed and
 * printed by cJSON. */
#include "meter/roofline.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "meter/processor.h"
#include "os/files/cache_folder.h"
#include "os/heap.h"
#include "os/os.h"

#include <cjson/cJSON.h>
#include <limits.h>
#include <math.h>
#include <string.h>

/* ---- answers ---- */

double qn_roofline_flops(const qn_roofline *roofline, const char *dtype, int n_threads) {
    double sum = 0, one = 0;
    int n_cores = 0;
    for (int i = 0; i < roofline->n_peaks && dtype; i++) {
        const qn_roofline_peak *p = &roofline->peaks[i];
        if (strcmp(p->dtype, dtype) != 0)
            continue;
        sum += p->all_flops;
        one = fmax(one, p->flops);
        n_cores += p->n_cores;
    }
    if (n_cores == 0)
        return NAN;
    return n_threads < n_cores ? fmin(sum, one * n_threads) : sum;
}

static double level_bandwidth(const qn_roofline_level *level, int n_threads) {
    return n_threads <= 1 ? level->bandwidth
                          : fmin(level->all_bandwidth, level->bandwidth * n_threads);
}

/* The first level in which so many bytes have room; the last is main memory, which has no end. */
static const qn_roofline_level *find_level(const qn_roofline *roofline, int n_threads,
                                           double bytes) {
    for (int i = 0; i < roofline->n_levels; i++) {
        const qn_roofline_level *level = &roofline->levels[i];
        const double room = n_threads <= 1
                                ? (double)level->bytes
                                : fmin((double)level->all_bytes, (double)level->bytes * n_threads);
        if (level->bytes == 0 || bytes <= room)
            return level;
    }
    return NULL;
}

double qn_roofline_bandwidth(const qn_roofline *roofline, int n_threads, double bytes) {
    const qn_roofline_level *level = find_level(roofline, n_threads, bytes);
    return level ? level_bandwidth(level, n_threads) : NAN;
}

const qn_roofline_gpu *qn_roofline_find_gpu(const qn_roofline *r, const char *device,
                                            const char *name) {
    for (int i = 0; i < r->n_gpus; i++) {
        const qn_roofline_gpu *g = &r->gpus[i];
        if (strcmp(g->device, device) == 0 && strncmp(g->name, name, sizeof g->name - 1) == 0)
            return g;
    }
    return NULL;
}

/* ---- reading ---- */

static bool read_text(const cJSON *item, const char *field, char *to, size_t bytes) {
    const char *text = cJSON_GetStringValue(cJSON_GetObjectItemCaseSensitive(item, field));
    return text && (size_t)snprintf(to, bytes, "%s", text) < bytes;
}

/* A number from least on; no machine of today comes near the most. */
static bool read_number(const cJSON *item, const char *field, double least, double *to) {
    const cJSON *number = cJSON_GetObjectItemCaseSensitive(item, field);
    if (!cJSON_IsNumber(number) || !(number->valuedouble >= least && number->valuedouble <= 1e18))
        return false;
    *to = number->valuedouble;
    return true;
}

static bool read_peak(const cJSON *item, qn_roofline_peak *p) {
    double n_cores;
    if (!read_text(item, "core", p->core, sizeof p->core) ||
        !read_text(item, "dtype", p->dtype, sizeof p->dtype) ||
        !read_number(item, "n_cores", 1, &n_cores) || n_cores > 1e6 ||
        !read_number(item, "flops", 1, &p->flops) ||
        !read_number(item, "all_flops", 1, &p->all_flops))
        return false;
    p->n_cores = (int)n_cores;
    return true;
}

static bool read_level(const cJSON *item, qn_roofline_level *l) {
    double bytes, all_bytes;
    if (!read_text(item, "name", l->name, sizeof l->name) ||
        !read_number(item, "bytes", 0, &bytes) || !read_number(item, "all_bytes", 0, &all_bytes) ||
        !read_number(item, "bandwidth", 1, &l->bandwidth) ||
        !read_number(item, "all_bandwidth", 1, &l->all_bandwidth))
        return false;
    /* Files of before it was measured have none. */
    l->beside_bandwidth = 0;
    if (cJSON_GetObjectItemCaseSensitive(item, "beside_bandwidth") &&
        !read_number(item, "beside_bandwidth", 1, &l->beside_bandwidth))
        return false;
    l->bytes = (int64_t)bytes;
    l->all_bytes = (int64_t)all_bytes;
    return true;
}

static bool read_gpu(const cJSON *item, qn_roofline_gpu *g) {
    return read_text(item, "device", g->device, sizeof g->device) &&
           read_text(item, "name", g->name, sizeof g->name) &&
           read_number(item, "flops", 1, &g->flops) &&
           read_number(item, "bandwidth", 1, &g->bandwidth) &&
           read_number(item, "in_bandwidth", 1, &g->in_bandwidth) &&
           read_number(item, "out_bandwidth", 1, &g->out_bandwidth) &&
           read_number(item, "launch_ns", 1, &g->launch_ns);
}

/* Files of before GPUs were measured have none. */
static bool read_gpus(const cJSON *json, qn_roofline *r) {
    const cJSON *gpus = cJSON_GetObjectItemCaseSensitive(json, "gpus"), *item;
    if (gpus && !cJSON_IsArray(gpus))
        return false;
    cJSON_ArrayForEach(item, gpus) {
        if (r->n_gpus == QN_ROOFLINE_MOST || !read_gpu(item, &r->gpus[r->n_gpus++]))
            return false;
    }
    return true;
}

static bool read_all(const cJSON *json, qn_roofline *r) {
    const cJSON *peaks = cJSON_GetObjectItemCaseSensitive(json, "peaks"), *item;
    const cJSON *levels = cJSON_GetObjectItemCaseSensitive(json, "levels");
    if (!read_text(json, "machine", r->machine, sizeof r->machine) || !cJSON_IsArray(peaks) ||
        !cJSON_IsArray(levels))
        return false;
    cJSON_ArrayForEach(item, peaks) {
        if (r->n_peaks == QN_ROOFLINE_MOST || !read_peak(item, &r->peaks[r->n_peaks++]))
            return false;
    }
    cJSON_ArrayForEach(item, levels) {
        if (r->n_levels == QN_ROOFLINE_MOST || !read_level(item, &r->levels[r->n_levels++]))
            return false;
    }
    return read_gpus(json, r) && r->n_peaks > 0 && r->n_levels > 0 &&
           r->levels[r->n_levels - 1].bytes == 0;
}

void qn_roofline_parse(const char *text, size_t bytes, qn_roofline *roofline) {
    cJSON *json = cJSON_ParseWithLength(text, bytes);
    memset(roofline, 0, sizeof *roofline);
    if (!json || !read_all(json, roofline))
        memset(roofline, 0, sizeof *roofline);
    cJSON_Delete(json);
}

/* ---- keeping ---- */

qn_status qn_roofline_machine(const qn_allocator *allocator, char *machine, size_t bytes) {
    qn_processor *processor;
    qn_isa isa;
    QN_TRY(qn_cpu_isa(&isa));
    QN_TRY(qn_processor_create(allocator, "", &processor));
    snprintf(machine, bytes, "%.60s, %d cores, %s", processor->name, qn_cpu_count(),
             qn_isa_name(isa));
    qn_processor_destroy(processor);
    return QN_OK;
}

/* A machine's file: several may share a home folder. */
static qn_status find_path(const char *machine, char *path, size_t bytes) {
    char folder[PATH_MAX - 64];
    QN_TRY(qn_folder_cache(folder, sizeof folder));
    snprintf(path, bytes, "%s/roofline-%016llx.json", folder,
             (unsigned long long)qn_hash_text(machine));
    return QN_OK;
}

qn_status qn_roofline_load(const qn_allocator *allocator, qn_roofline *roofline) {
    char machine[sizeof roofline->machine], path[PATH_MAX], *text;
    size_t bytes;
    allocator = qn_allocator_or_default(allocator);
    memset(roofline, 0, sizeof *roofline);
    QN_TRY(qn_roofline_machine(allocator, machine, sizeof machine));
    if (find_path(machine, path, sizeof path) != QN_OK || !qn_path_is_file(path))
        return QN_OK;
    const qn_status status = qn_file_read_whole(allocator, path, &text, &bytes);
    if (status != QN_OK)
        return status == QN_ERROR_MEMORY ? status : QN_OK;
    qn_roofline_parse(text, bytes, roofline);
    qn_release(allocator, text, bytes + 1, 1);
    if (strcmp(roofline->machine, machine) != 0)
        memset(roofline, 0, sizeof *roofline);
    return QN_OK;
}

static cJSON *add_item(cJSON *list) {
    cJSON *item = cJSON_CreateObject();
    cJSON_AddItemToArray(list, item);
    return item;
}

/* cJSON passes failures on: where memory was out, printing fails or lacks an item, which the
 * parser refuses. */
static void print_gpus(const qn_roofline *r, cJSON *json) {
    cJSON *gpus = cJSON_AddArrayToObject(json, "gpus");
    for (int i = 0; i < r->n_gpus; i++) {
        const qn_roofline_gpu *g = &r->gpus[i];
        cJSON *item = add_item(gpus);
        cJSON_AddStringToObject(item, "device", g->device);
        cJSON_AddStringToObject(item, "name", g->name);
        cJSON_AddNumberToObject(item, "flops", g->flops);
        cJSON_AddNumberToObject(item, "bandwidth", g->bandwidth);
        cJSON_AddNumberToObject(item, "in_bandwidth", g->in_bandwidth);
        cJSON_AddNumberToObject(item, "out_bandwidth", g->out_bandwidth);
        cJSON_AddNumberToObject(item, "launch_ns", g->launch_ns);
    }
}

static cJSON *print_all(const qn_roofline *r) {
    cJSON *json = cJSON_CreateObject();
    cJSON_AddStringToObject(json, "machine", r->machine);
    cJSON *peaks = cJSON_AddArrayToObject(json, "peaks");
    for (int i = 0; i < r->n_peaks; i++) {
        cJSON *item = add_item(peaks);
        cJSON_AddStringToObject(item, "core", r->peaks[i].core);
        cJSON_AddStringToObject(item, "dtype", r->peaks[i].dtype);
        cJSON_AddNumberToObject(item, "n_cores", r->peaks[i].n_cores);
        cJSON_AddNumberToObject(item, "flops", r->peaks[i].flops);
        cJSON_AddNumberToObject(item, "all_flops", r->peaks[i].all_flops);
    }
    cJSON *levels = cJSON_AddArrayToObject(json, "levels");
    for (int i = 0; i < r->n_levels; i++) {
        cJSON *item = add_item(levels);
        cJSON_AddStringToObject(item, "name", r->levels[i].name);
        cJSON_AddNumberToObject(item, "bytes", (double)r->levels[i].bytes);
        cJSON_AddNumberToObject(item, "all_bytes", (double)r->levels[i].all_bytes);
        cJSON_AddNumberToObject(item, "bandwidth", r->levels[i].bandwidth);
        cJSON_AddNumberToObject(item, "all_bandwidth", r->levels[i].all_bandwidth);
        if (r->levels[i].beside_bandwidth > 0)
            cJSON_AddNumberToObject(item, "beside_bandwidth", r->levels[i].beside_bandwidth);
    }
    print_gpus(r, json);
    return json;
}

static qn_status write_text(void *context, qn_writer *writer) {
    const char *text = context;
    return qn_writer_put(writer, text, strlen(text));
}

qn_status qn_roofline_save(const qn_roofline *roofline) {
    char path[PATH_MAX];
    QN_TRY(find_path(roofline->machine, path, sizeof path));
    cJSON *json = print_all(roofline);
    char *text = cJSON_Print(json);
    cJSON_Delete(json);
    if (!text)
        return qn_fail(QN_ERROR_MEMORY, "%s: out of memory", path);
    const qn_status status = qn_cache_replace(path, write_text, text);
    cJSON_free(text);
    return status;
}
