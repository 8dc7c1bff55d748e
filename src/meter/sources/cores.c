/* Utilisation of each core, from the best counter available:
 *   cpuacct    nanoseconds that tasks ran on a core, up to the scheduler's last tick (control
 *              groups of the first version: Android, Jetson, many containers; in a container,
 *              that container's tasks only)
 *   schedstat  nanoseconds that tasks ran on a core, each added when the task leaves the core;
 *              if no task left or arrived, /proc/stat decides between idle and busy
 *   stat       idle time of a core, in units of 10 ms: read every 100 ms at most */
#include "base/memory.h"
#include "base/status.h"
#include "meter/sources/busy.h"
#include "meter/sources/sensor.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_CORES = 1024, STAT_LINE = 256, TICK_NS = 10000000 };
enum { STAT_PERIOD_NS = 100000000, CHECK_PERIOD_NS = 250000000 };

/* What a file says of a core. */
typedef struct core_sample {
    int core;
    int64_t counter_ns; /* busy, or of stat: idle */
    int64_t stamp;      /* differs when anything happened */
} core_sample;

typedef struct way {
    const char *path;
    int (*parse)(const char *text, core_sample *samples, int most);
} way;

typedef struct core_state {
    qn_busy busy;
    int64_t counter_ns, stamp; /* last said */
    int64_t idle_ns;           /* of /proc/stat at the last check */
} core_state;

typedef struct cores {
    const qn_allocator *allocator;
    qn_speaker speaker;
    const way *way;
    qn_sensor file, stat; /* stat: of schedstat, to check with */
    int n;
    qn_channel *channels;           /* (n) */
    core_state *cores;              /* (n) */
    core_sample *samples, *checked; /* (n) */
    char *text;                     /* (bytes) */
    size_t bytes;
    int64_t last_ns, check_ns; /* when the file was read, and stat */
} cores;

/* ---- the three files ---- */

/* More than any counter reaches in a hundred years: what is beyond is nonsense, and does no harm.
 */
static int64_t bound(uint64_t number, int64_t most) {
    return number < (uint64_t)most ? (int64_t)number : most;
}

/* Numbers of a line, up to `most`; how many. */
static int parse_numbers(const char *text, int64_t *numbers, int most) {
    for (int n = 0; n < most; n++) {
        char *end;
        while (*text == ' ' || *text == '\t')
            text++;
        if (!isdigit((unsigned char)*text))
            return n;
        numbers[n] = bound(strtoull(text, &end, 10), INT64_C(1) << 61);
        text = end;
    }
    return most;
}

static int parse_cpuacct(const char *text, core_sample *samples, int most) {
    int64_t numbers[MOST_CORES];
    const int n = parse_numbers(text, numbers, most);
    for (int i = 0; i < n; i++)
        samples[i] = (core_sample){.core = i, .counter_ns = numbers[i]};
    return n;
}

/* The line after this one, or null. */
static const char *next_line(const char *text) {
    const char *end = strchr(text, '\n');
    return end ? end + 1 : NULL;
}

/* Lines "cpuN ..." with at least so many numbers after N; numbers beyond `most` are left out. */
static int parse_lines(const char *text, int least, core_sample *samples, int most,
                       void (*fill)(const int64_t *numbers, int n_numbers, core_sample *sample)) {
    int n = 0;
    for (const char *line = text; line && n < most; line = next_line(line)) {
        int64_t numbers[12];
        if (strncmp(line, "cpu", 3) != 0 || !isdigit((unsigned char)line[3]))
            continue;
        const int n_numbers = parse_numbers(line + 3, numbers, 12);
        if (n_numbers < least + 1)
            continue;
        samples[n].core = (int)bound((uint64_t)numbers[0], INT32_MAX);
        fill(numbers + 1, n_numbers - 1, &samples[n++]);
    }
    return n;
}

/* user, nice, system, idle, wait for disks, interrupts, ... */
static void fill_stat(const int64_t *numbers, int n_numbers, core_sample *sample) {
    const int64_t most = INT64_C(1) << 38;
    sample->counter_ns =
        (bound((uint64_t)numbers[3], most) + bound((uint64_t)numbers[4], most)) * TICK_NS;
    sample->stamp = 0;
    for (int i = 0; i < n_numbers && i < 8; i++)
        sample->stamp += bound((uint64_t)numbers[i], most);
}

static int parse_stat(const char *text, core_sample *samples, int most) {
    return parse_lines(text, 5, samples, most, fill_stat);
}

/* Version 15 and later: the seventh is the time that tasks ran, the ninth how often one came. */
static void fill_schedstat(const int64_t *numbers, int n_numbers, core_sample *sample) {
    (void)n_numbers;
    sample->counter_ns = numbers[6];
    sample->stamp = numbers[8];
}

static int parse_schedstat(const char *text, core_sample *samples, int most) {
    if (strncmp(text, "version ", 8) != 0 || atoi(text + 8) < 15)
        return 0;
    return parse_lines(text, 9, samples, most, fill_schedstat);
}

static const way ways[] = {{"/sys/fs/cgroup/cpuacct/cpuacct.usage_percpu", parse_cpuacct},
                           {"/sys/fs/cgroup/cpu,cpuacct/cpuacct.usage_percpu", parse_cpuacct},
                           {"/acct/cpuacct.usage_percpu", parse_cpuacct},
                           {"/proc/schedstat", parse_schedstat},
                           {"/proc/stat", parse_stat}};

enum { N_WAYS = sizeof ways / sizeof *ways };

/* ---- opening ---- */

static void cores_close(void *source) {
    cores *c = source;
    const qn_allocator *allocator = c->allocator;
    const size_t n = (size_t)c->n;
    qn_sensor_close(&c->file);
    qn_sensor_close(&c->stat);
    qn_release(allocator, c->channels, n, sizeof *c->channels);
    qn_release(allocator, c->cores, n, sizeof *c->cores);
    qn_release(allocator, c->samples, n, sizeof *c->samples);
    qn_release(allocator, c->checked, n, sizeof *c->checked);
    qn_release(allocator, c->text, c->bytes, 1);
    qn_release(allocator, c, 1, sizeof *c);
}

/* Memory for n cores, and for as much of the files as is read of them. */
static qn_status allocate_cores(cores *c, int n, size_t bytes) {
    const bool has_lines = c->way->parse != parse_cpuacct;
    const size_t lines = has_lines ? (size_t)(n + 2) * STAT_LINE : 0, size = (size_t)n;
    c->n = n;
    QN_TRY(qn_allocate(c->allocator, size, sizeof *c->channels, &c->channels));
    QN_TRY(qn_allocate(c->allocator, size, sizeof *c->cores, &c->cores));
    QN_TRY(qn_allocate(c->allocator, size, sizeof *c->samples, &c->samples));
    QN_TRY(qn_allocate(c->allocator, size, sizeof *c->checked, &c->checked));
    QN_TRY(qn_allocate(c->allocator, bytes < lines ? lines : bytes, 1, &c->text));
    c->bytes = bytes < lines ? lines : bytes;
    return QN_OK;
}

static void fill_channels(cores *c, const core_sample *found) {
    for (int i = 0; i < c->n; i++) {
        qn_channel *channel = &c->channels[i];
        *channel = (qn_channel){.source = "cores",
                                .quantity = QN_QUANTITY_UTILISATION,
                                .part = QN_PART_CORE,
                                .index = found[i].core,
                                .inside = -1};
        snprintf(channel->name, sizeof channel->name, "cpu%d", found[i].core);
    }
}

/* Opens the first file that tells of cores. Its length, without the many lines of /proc/stat that
 * come behind those of the cores, goes to bytes. */
static qn_status find_way(cores *c, const qn_source_options *options, core_sample *found, int *n,
                          size_t *bytes) {
    for (int i = 0; i < N_WAYS; i++) {
        char *text;
        size_t capacity;
        if (!qn_sensor_open(options, "cores", &c->file, "%s", ways[i].path))
            continue;
        const qn_status status = qn_probe_whole(options->allocator, c->file.path, &text, &capacity);
        if (status == QN_ERROR_MEMORY)
            return status;
        *n = 0;
        if (status == QN_OK) {
            *n = ways[i].parse(text, found, MOST_CORES);
            *bytes = ways[i].parse == parse_stat ? 0 : 2 * strlen(text) + STAT_LINE;
            qn_release(options->allocator, text, capacity, 1);
        }
        if (*n > 0) {
            c->way = &ways[i];
            return QN_OK;
        }
        qn_sensor_close(&c->file);
    }
    return QN_OK;
}

static qn_status fill_cores(cores *c, const qn_source_options *options, core_sample *found) {
    int n = 0;
    size_t bytes = 0;
    QN_TRY(find_way(c, options, found, &n, &bytes));
    if (!c->way) {
        qn_speaker_say(&c->speaker,
                       "%s/proc/stat: cannot be read; the load of single cores is unknown",
                       options->root);
        return QN_OK;
    }
    QN_TRY(allocate_cores(c, n, bytes));
    fill_channels(c, found);
    if (c->way->parse == parse_schedstat)
        qn_sensor_open(options, "cores", &c->stat, "/proc/stat");
    return QN_OK;
}

static qn_status cores_open(const qn_source_options *options, void **source) {
    cores *c;
    core_sample *found;
    QN_TRY(qn_allocate(options->allocator, 1, sizeof *c, &c));
    c->allocator = options->allocator;
    c->speaker = qn_speaker_of(options, "cores");
    qn_status status = qn_allocate(c->allocator, MOST_CORES, sizeof *found, &found);
    if (status == QN_OK) {
        status = fill_cores(c, options, found);
        qn_release(c->allocator, found, MOST_CORES, sizeof *found);
    }
    if (status != QN_OK || !c->way) {
        cores_close(c);
        return status;
    }
    *source = c;
    return QN_OK;
}

static const qn_channel *cores_channels(const void *source, int *n) {
    const cores *c = source;
    *n = c->n;
    return c->channels;
}

/* ---- reading ---- */

static const core_sample *find_sample(const core_sample *samples, int n, int number) {
    for (int i = 0; i < n; i++)
        if (samples[i].core == number)
            return &samples[i];
    return NULL;
}

/* Whether the file has been read, and how many cores it told of. */
static bool read_samples(cores *c, qn_sensor *file, int64_t now_ns,
                         int (*parse)(const char *, core_sample *, int), core_sample *samples,
                         int *n) {
    if (!qn_sensor_text(file, &c->speaker, now_ns, c->text, c->bytes))
        return false;
    *n = parse(c->text, samples, c->n);
    return true;
}

/* Nothing came to this core nor left it since before the last check: it was idle all the time, or
 * one task ran. A task's time that is told so is taken off when it is counted at last. */
static void decide(core_state *core, const core_sample *check, int64_t now_ns, int64_t since_ns,
                   qn_reading *reading) {
    const double idle = (double)(check->counter_ns - core->idle_ns) / (double)(now_ns - since_ns);
    const bool is_busy = idle < 0.5;
    *reading = (qn_reading){core->busy.begin_ns, now_ns, is_busy};
    if (is_busy)
        core->busy.carry_ns -= now_ns - core->busy.begin_ns;
    core->busy.begin_ns = now_ns;
}

static void check_quiet_cores(cores *c, int64_t now_ns, qn_reading *readings) {
    int n;
    if (now_ns - c->check_ns < CHECK_PERIOD_NS || c->stat.path[0] == 0 ||
        !read_samples(c, &c->stat, now_ns, parse_stat, c->checked, &n))
        return;
    for (int i = 0; i < c->n; i++) {
        core_state *core = &c->cores[i];
        const core_sample *check = find_sample(c->checked, n, c->channels[i].index);
        if (check && c->check_ns > 0 && core->busy.is_known && core->busy.begin_ns <= c->check_ns)
            decide(core, check, now_ns, c->check_ns, &readings[i]);
        core->idle_ns = check ? check->counter_ns : 0;
    }
    c->check_ns = now_ns;
}

static void read_core(const cores *c, core_state *core, const core_sample *sample, int64_t now_ns,
                      qn_reading *reading) {
    const bool is_same = sample->stamp == core->stamp && sample->counter_ns == core->counter_ns;
    const int64_t counted_ns = sample->counter_ns - core->counter_ns;
    if (core->busy.is_known && is_same && c->way->parse != parse_cpuacct)
        return;
    core->stamp = sample->stamp;
    core->counter_ns = sample->counter_ns;
    if (c->way->parse == parse_stat) /* busy is what was not idle */
        qn_busy_add_span(&core->busy, now_ns, now_ns - core->busy.begin_ns - counted_ns, 1,
                         reading);
    else
        qn_busy_add(&core->busy, now_ns, sample->counter_ns, 1, reading);
}

static void cores_read(void *source, int64_t now_ns, qn_reading *readings) {
    cores *c = source;
    int n;
    if (c->way->parse == parse_stat && c->last_ns > 0 && now_ns - c->last_ns < STAT_PERIOD_NS)
        return;
    if (!read_samples(c, &c->file, now_ns, c->way->parse, c->samples, &n))
        return;
    c->last_ns = now_ns;
    for (int i = 0; i < c->n; i++) {
        const core_sample *sample = find_sample(c->samples, n, c->channels[i].index);
        if (sample)
            read_core(c, &c->cores[i], sample, now_ns, &readings[i]);
        else
            c->cores[i].busy.is_known = false; /* switched off */
    }
    check_quiet_cores(c, now_ns, readings);
}

const qn_source_kind qn_source_cores = {.name = "cores",
                                        .about = "utilisation of each core",
                                        .period_ns = 20000000, /* it lags by up to 10 ms */
                                        .open = cores_open,
                                        .channels = cores_channels,
                                        .read = cores_read,
                                        .close = cores_close};
