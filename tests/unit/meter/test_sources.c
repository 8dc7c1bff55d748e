/* Sources of processor use, memory, frequency, temperature and GPU load: every file they can be
 * read from, in trees of the test's own; and this machine, where threads come and go. */
#define _GNU_SOURCE

#include "base/memory.h"
#include "check.h"
#include "device_files.h"
#include "failing.h"
#include "meter/family.h"
#include "meter/sources/sensor.h"
#include "meter/sources/sources.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/cpu_time.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

#define MS INT64_C(1000000)

/* ---- a source, read by hand ---- */

enum { MOST_CHANNELS = 80 };

typedef struct opened {
    const qn_source_kind *kind;
    void *source;
    int n;
    const qn_channel *channels;
    qn_reading readings[MOST_CHANNELS]; /* of the last look */
    int n_said;
    char said[4][400];
} opened;

static void hear(void *user, const char *source, const char *text) {
    opened *o = user;
    snprintf(o->said[o->n_said % 4], sizeof o->said[0], "%s: %s", source, text);
    o->n_said++;
}

/* Whether it found anything. */
static bool open_kind(opened *o, const qn_source_kind *kind, const char *root, int64_t pid) {
    const qn_source_options options = {.allocator = qn_allocator_default(),
                                       .root = root,
                                       .is_recorded = root[0] != 0,
                                       .pid = pid,
                                       .user = o,
                                       .say = hear};
    *o = (opened){.kind = kind};
    CHECK_OK(kind->open(&options, &o->source));
    if (o->source)
        o->channels = kind->channels(o->source, &o->n);
    CHECK(o->n <= MOST_CHANNELS);
    return o->source != NULL;
}

static void look(opened *o, int64_t now_ns) {
    memset(o->readings, 0, sizeof o->readings);
    if (o->source)
        o->kind->read(o->source, now_ns, o->readings);
}

static void close_kind(opened *o) {
    if (o->source)
        o->kind->close(o->source);
    o->source = NULL;
}

/* Whether a reading of the last look is of a stretch (in milliseconds) and has a value. */
static bool is_reading(const opened *o, int channel, int64_t begin_ms, int64_t end_ms,
                       double value) {
    const qn_reading *r = &o->readings[channel];
    const bool is_same = r->begin_ns == begin_ms * MS && r->end_ns == end_ms * MS &&
                         fabs(r->value - value) < 1e-9 * (1 + fabs(value));
    if (!is_same)
        printf("channel %d: %lld to %lld ms: %g\n", channel, (long long)(r->begin_ns / MS),
               (long long)(r->end_ns / MS), r->value);
    return is_same;
}

static bool is_silent(const opened *o, int channel) {
    return o->readings[channel].end_ns == 0;
}

/* ---- cores ---- */

static void check_cpuacct(void) {
    static const char path[] = "sys/fs/cgroup/cpuacct/cpuacct.usage_percpu";
    device_files files = device_files_make();
    opened o;
    device_files_put(&files, path, "1000000000 2000000000 0 \n");
    device_files_put(&files, "proc/stat", "cpu0 1 2 3 4 5\n");
    CHECK(open_kind(&o, &qn_source_cores, files.root, 1) && o.n == 3);
    CHECK(strcmp(o.channels[1].name, "cpu1") == 0 && o.channels[1].index == 1);
    CHECK(o.channels[1].part == QN_PART_CORE && strcmp(o.channels[1].source, "cores") == 0);
    look(&o, 100 * MS);
    CHECK(is_silent(&o, 0));
    device_files_put(&files, path, "1005000000 2012000000 0 \n");
    look(&o, 110 * MS);
    CHECK(is_reading(&o, 0, 100, 110, 0.5) && is_reading(&o, 1, 100, 110, 1));
    CHECK(is_reading(&o, 2, 100, 110, 0));
    look(&o, 120 * MS); /* the 2 ms that were beyond 10 */
    CHECK(is_reading(&o, 0, 110, 120, 0) && is_reading(&o, 1, 110, 120, 0.2));
    CHECK(o.n_said == 0);
    close_kind(&o);
    device_files_remove(&files, "");
}

/* Two cores, and what lies between their lines. */
static void put_schedstat(const device_files *files, long long ran0, int came0, long long ran1,
                          int came1) {
    device_files_put(files, "proc/schedstat",
                     "version 15\ntimestamp 4295\ncpu0 0 0 11 12 13 14 %lld 99 %d\n"
                     "domain0 3 1 2 3 4 5 6 7 8\ncpu1 0 0 11 12 13 14 %lld 99 %d\n",
                     ran0, came0, ran1, came1);
}

static void put_stat(const device_files *files, int busy0, int idle0, int busy1, int idle1) {
    device_files_put(files, "proc/stat",
                     "cpu  1 2 3 4 5 6 7 8 9 10\ncpu0 %d 0 0 %d 0 0 0 0 0 0\n"
                     "cpu1 %d 0 0 %d 0 0 0 0 0 0\nintr 1 2 3\n",
                     busy0, idle0, busy1, idle1);
}

static void check_schedstat(void) {
    device_files files = device_files_make();
    opened o;
    put_schedstat(&files, 1000000, 1, 1000000, 1);
    put_stat(&files, 0, 1000, 0, 1000);
    CHECK(open_kind(&o, &qn_source_cores, files.root, 1) && o.n == 2);
    look(&o, 1000 * MS);
    put_schedstat(&files, 4000000, 2, 1000000, 1);
    look(&o, 1010 * MS);
    /* nothing came to core 1 and nothing left it: idle, or one task runs on and on */
    CHECK(is_reading(&o, 0, 1000, 1010, 0.3) && is_silent(&o, 1));
    put_stat(&files, 26, 1000, 26, 1000);
    look(&o, 1260 * MS);
    CHECK(is_silent(&o, 0) && is_reading(&o, 1, 1000, 1260, 1));
    put_stat(&files, 26, 1050, 76, 1000);
    put_schedstat(&files, 4000000, 2, 1000000, 1);
    look(&o, 1760 * MS);
    CHECK(is_reading(&o, 0, 1010, 1760, 0) && is_reading(&o, 1, 1260, 1760, 1));
    /* the task leaves core 1 at last: what was told of it is not told again */
    put_schedstat(&files, 4000000, 3, 1000000 + 810 * MS, 2);
    look(&o, 1860 * MS);
    CHECK(is_reading(&o, 1, 1760, 1860, 0.5));
    CHECK(o.n_said == 0);
    close_kind(&o);
    device_files_put(&files, "proc/schedstat", "version 14\ncpu0 1 2 3 4 5 6 7 8 9 10 11 12\n");
    CHECK(open_kind(&o, &qn_source_cores, files.root, 1) && o.n == 2); /* stat */
    close_kind(&o);
    device_files_remove(&files, "");
}

static void check_stat(void) {
    device_files files = device_files_make();
    opened o;
    put_stat(&files, 100, 1000, 100, 1000);
    CHECK(open_kind(&o, &qn_source_cores, files.root, 1) && o.n == 2);
    look(&o, 1000 * MS);
    put_stat(&files, 101, 1004, 105, 1000);
    look(&o, 1050 * MS);
    CHECK(is_silent(&o, 0) && is_silent(&o, 1)); /* too soon for units of 10 ms */
    put_stat(&files, 103, 1007, 110, 1000);
    look(&o, 1100 * MS);
    CHECK(is_reading(&o, 0, 1000, 1100, 0.3) && is_reading(&o, 1, 1000, 1100, 1));
    put_stat(&files, 103, 1018, 120, 1000); /* 11 units in 10: one was late */
    look(&o, 1200 * MS);
    CHECK(is_reading(&o, 0, 1100, 1200, 0) && is_reading(&o, 1, 1100, 1200, 1));
    put_stat(&files, 108, 1022, 130, 1000);
    look(&o, 1300 * MS);
    CHECK(is_reading(&o, 0, 1200, 1300, 0.5));
    device_files_put(&files, "proc/stat", "cpu0 113 0 0 1027 0 0 0 0\n"); /* core 1 goes ... */
    look(&o, 1400 * MS);
    CHECK(is_reading(&o, 0, 1300, 1400, 0.5) && is_silent(&o, 1));
    put_stat(&files, 118, 1032, 200, 1500); /* ... and comes back */
    look(&o, 1500 * MS);
    CHECK(is_silent(&o, 1));
    put_stat(&files, 123, 1037, 205, 1505);
    look(&o, 1600 * MS);
    CHECK(is_reading(&o, 1, 1500, 1600, 0.5));
    close_kind(&o);
    device_files_remove(&files, "proc");
    CHECK(!open_kind(&o, &qn_source_cores, files.root, 1) && o.n_said == 1);
    device_files_remove(&files, "");
}

/* ---- threads and memory, recorded ---- */

static void put_thread(const device_files *files, int id, long long ran) {
    char path[64];
    snprintf(path, sizeof path, "proc/77/task/%d/schedstat", id);
    device_files_put(files, path, "%lld 123 45\n", ran);
}

static void check_recorded_threads(void) {
    device_files files = device_files_make();
    opened o;
    CHECK(!open_kind(&o, &qn_source_threads, files.root, 77));
    put_thread(&files, 77, 10 * MS);
    put_thread(&files, 78, 20 * MS);
    CHECK(open_kind(&o, &qn_source_threads, files.root, 77) && o.n == 65);
    CHECK(strcmp(o.channels[0].name, "process") == 0 && o.channels[0].part == QN_PART_PROCESS);
    CHECK(strcmp(o.channels[2].name, "thread-1") == 0 && o.channels[2].part == QN_PART_THREAD);
    look(&o, 1000 * MS);
    CHECK(is_silent(&o, 0) && is_silent(&o, 1));
    put_thread(&files, 77, 13 * MS);
    put_thread(&files, 78, 29 * MS);
    put_thread(&files, 80, 0);
    look(&o, 1010 * MS);
    CHECK(is_reading(&o, 0, 1000, 1010, 1.2));
    const bool is_in_order = o.readings[1].value < 0.5;
    CHECK(is_reading(&o, is_in_order ? 1 : 2, 1000, 1010, 0.3));
    CHECK(is_reading(&o, is_in_order ? 2 : 1, 1000, 1010, 0.9));
    CHECK(is_silent(&o, 3) && is_silent(&o, 4));
    device_files_remove(&files, "proc/77/task/78");
    put_thread(&files, 80, 5 * MS);
    look(&o, 2020 * MS);
    CHECK(is_reading(&o, 3, 1010, 2020, 5.0 / 1010) && is_silent(&o, is_in_order ? 2 : 1));
    close_kind(&o);
    device_files_remove(&files, "");
}

static void check_recorded_memory(void) {
    const double page = (double)qn_page_bytes();
    device_files files = device_files_make();
    opened o;
    CHECK(!open_kind(&o, &qn_source_resident, files.root, 77));
    device_files_put(&files, "proc/77/statm", "5000 300 100 20 0 400 0\n");
    device_files_put(&files, "proc/77/status", "Name:\tx\nVmPeak:\t 9 kB\nVmHWM:\t    2048 kB\n");
    CHECK(open_kind(&o, &qn_source_resident, files.root, 77) && o.n == 1);
    CHECK(o.channels[0].quantity == QN_QUANTITY_MEMORY && o.channels[0].part == QN_PART_PROCESS);
    look(&o, 10 * MS);
    CHECK(is_reading(&o, 0, 10, 10, 300 * page));
    device_files_put(&files, "proc/77/statm", "5000 400 100 20 0 400 0\n");
    look(&o, 20 * MS);
    CHECK(is_reading(&o, 0, 10, 20, 400 * page));
    device_files_put(&files, "proc/77/statm", "0 0 0 0 0 0 0\n"); /* it has ended */
    look(&o, 30 * MS);
    CHECK(is_silent(&o, 0) && o.n_said == 0);
    close_kind(&o);
    CHECK(open_kind(&o, &qn_source_peak, files.root, 77));
    look(&o, 10 * MS);
    CHECK(is_reading(&o, 0, 10, 10, 2048 * 1024));
    close_kind(&o);
    device_files_remove(&files, "");
}

/* ---- files of one number ---- */

static void check_frequency(void) {
    device_files files = device_files_make();
    opened o;
    CHECK(!open_kind(&o, &qn_source_frequency, files.root, 1));
    CHECK(o.n_said == 1 && strstr(o.said[0], "virtual machines"));
    device_files_put(&files, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2035200\n");
    device_files_put(&files, "sys/devices/system/cpu/cpu10/cpufreq/scaling_cur_freq", "345600\n");
    device_files_put(&files, "sys/devices/system/cpu/cpu2/online", "0\n");
    device_files_put(&files, "sys/devices/system/cpu/cpufreq/policy0/scaling_cur_freq", "1\n");
    CHECK(open_kind(&o, &qn_source_frequency, files.root, 1) && o.n == 2);
    CHECK(strcmp(o.channels[1].name, "cpu10") == 0 && o.channels[1].index == 10);
    CHECK(o.channels[1].quantity == QN_QUANTITY_FREQUENCY && o.channels[1].part == QN_PART_CORE);
    look(&o, 100 * MS);
    CHECK(is_reading(&o, 0, 100, 100, 2.0352e9) && is_reading(&o, 1, 100, 100, 345.6e6));
    device_files_put(&files, "sys/devices/system/cpu/cpu10/cpufreq/scaling_cur_freq", "0\n");
    look(&o, 110 * MS);
    CHECK(is_reading(&o, 0, 100, 110, 2.0352e9) && is_silent(&o, 1) && o.n_said == 1);
    look(&o, 120 * MS);
    CHECK(o.n_said == 1);
    close_kind(&o);
    device_files_remove(&files, "");
}

static void put_zone(const device_files *files, int zone, const char *type, int value) {
    char path[64];
    snprintf(path, sizeof path, "sys/class/thermal/thermal_zone%d/type", zone);
    device_files_put(files, path, "%s\n", type);
    snprintf(path, sizeof path, "sys/class/thermal/thermal_zone%d/temp", zone);
    device_files_put(files, path, "%d\n", value);
}

static void check_thermal(void) {
    device_files files = device_files_make();
    opened o;
    CHECK(!open_kind(&o, &qn_source_thermal, files.root, 1) && o.n_said == 1);
    put_zone(&files, 0, "BCPU-therm", 45500);
    put_zone(&files, 1, "GPU-therm", 44000);
    put_zone(&files, 2, "battery", 31250);
    put_zone(&files, 3, "battery", -274000);
    device_files_put(&files, "sys/class/thermal/cooling_device0/type", "fan\n");
    CHECK(open_kind(&o, &qn_source_thermal, files.root, 1) && o.n == 4);
    CHECK(strcmp(o.channels[0].name, "BCPU-therm") == 0 && o.channels[0].part == QN_PART_CPU);
    CHECK(o.channels[1].part == QN_PART_GPU && o.channels[2].part == QN_PART_OTHER);
    CHECK(strcmp(o.channels[3].name, "battery-3") == 0 && o.channels[3].index == 3);
    look(&o, 100 * MS);
    CHECK(is_reading(&o, 0, 100, 100, 45.5) && is_reading(&o, 2, 100, 100, 31.25));
    CHECK(is_silent(&o, 3) && o.n_said == 1 && strstr(o.said[0], "-274000"));
    close_kind(&o);
    device_files_remove(&files, "");
}

/* A tree with one file of load (and, where it is not null, one of frequency): what it says. */
static void check_gpu(const char *path, const char *text, double value, const char *frequency) {
    device_files files = device_files_make();
    opened o;
    device_files_put(&files, path, "%s\n", text);
    if (frequency)
        device_files_put(&files, frequency, "1300500000\n");
    CHECK(open_kind(&o, &qn_source_gpu_load, files.root, 1) && o.n == 1 + (frequency != NULL));
    CHECK(o.n > 0 && o.channels[0].part == QN_PART_GPU && strcmp(o.channels[0].name, "gpu") == 0);
    CHECK(o.n > 0 && o.channels[0].quantity == QN_QUANTITY_UTILISATION);
    look(&o, 100 * MS);
    CHECK(value >= 0 ? is_reading(&o, 0, 100, 100, value) : is_silent(&o, 0) && o.n_said == 1);
    if (frequency)
        CHECK(is_reading(&o, 1, 100, 100, 1300.5e6));
    close_kind(&o);
    device_files_remove(&files, "");
}

static void check_gpu_load(void) {
    device_files files = device_files_make();
    opened o;
    CHECK(!open_kind(&o, &qn_source_gpu_load, files.root, 1));
    device_files_put(&files, "sys/class/devfreq/memory-controller/cur_freq", "1\n");
    CHECK(!open_kind(&o, &qn_source_gpu_load, files.root, 1) && o.n_said == 0);
    device_files_remove(&files, "");
    check_gpu("sys/devices/gpu.0/load", "374", 0.374, "sys/class/devfreq/17000000.gp10b/cur_freq");
    check_gpu("sys/class/devfreq/17000000.ga10b/device/load", "1000", 1,
              "sys/class/devfreq/17000000.ga10b/cur_freq");
    check_gpu("sys/class/devfreq/fb000000.gpu/load", "12@300000000Hz", 0.12,
              "sys/class/devfreq/fb000000.gpu/cur_freq");
    check_gpu("sys/class/kgsl/kgsl-3d0/gpubusy", " 250000 1000000", 0.25,
              "sys/class/kgsl/kgsl-3d0/gpuclk");
    check_gpu("sys/class/kgsl/kgsl-3d0/gpubusy", "      0       0", 0, NULL); /* it sleeps */
    check_gpu("sys/class/kgsl/kgsl-3d0/gpubusy", "5 0", -1, NULL);
    check_gpu("sys/class/kgsl/kgsl-3d0/gpu_busy_percentage", "37 %", 0.37, NULL);
    check_gpu("sys/class/kgsl/kgsl-3d0/devfreq/gpu_load", "21", 0.21, NULL);
    check_gpu("sys/class/misc/mali0/device/utilization", "55", 0.55, NULL);
    check_gpu("sys/class/misc/mali0/device/utilization", "155", -1, NULL);
    check_gpu("sys/class/misc/mali0/device/utilization", "busy", -1, NULL);
}

/* ---- the devices of tests/devices ---- */

/* Channels of a kind on a device; their first readings are within reason. */
static int count_channels(const qn_source_kind *kind, const char *device) {
    const char *tests = getenv("QUERN_SOURCE");
    char root[200];
    opened o;
    snprintf(root, sizeof root, "%s/tests/devices/%s", tests ? tests : ".", device);
    if (!open_kind(&o, kind, root, 1))
        return 0;
    look(&o, 1000 * MS);
    const int n = o.n;
    for (int i = 0; i < n; i++) {
        const double value = o.readings[i].value;
        if (o.channels[i].quantity == QN_QUANTITY_FREQUENCY)
            CHECK(value > 1e8 && value < 5e9);
        if (o.channels[i].quantity == QN_QUANTITY_TEMPERATURE)
            CHECK(value > 20 && value <= 100);
        if (o.channels[i].quantity == QN_QUANTITY_UTILISATION && kind == &qn_source_gpu_load)
            CHECK(value > 0 && value < 1);
    }
    CHECK(o.n_said == 0);
    close_kind(&o);
    return n;
}

static void check_devices(void) {
    static const struct {
        const char *name;
        int cores, frequency, thermal, gpu; /* channels */
    } devices[] = {{"jetson-tx2", 6, 6, 7, 2},
                   {"snapdragon-phone", 8, 8, 5, 2},
                   {"raspberry-pi-5", 4, 4, 1, 0},
                   {"intel-laptop", 8, 8, 2, 0}};
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++) {
        CHECK(count_channels(&qn_source_cores, devices[i].name) == devices[i].cores);
        CHECK(count_channels(&qn_source_frequency, devices[i].name) == devices[i].frequency);
        CHECK(count_channels(&qn_source_thermal, devices[i].name) == devices[i].thermal);
        CHECK(count_channels(&qn_source_gpu_load, devices[i].name) == devices[i].gpu);
    }
}

/* ---- a file that is lost ---- */

static void check_sensor(void) {
    device_files files = device_files_make();
    opened o = {.n_said = 0};
    const qn_source_options options = {.root = files.root, .user = &o, .say = hear};
    const qn_speaker speaker = qn_speaker_of(&options, "test");
    qn_sensor sensor;
    int64_t number;
    CHECK(!qn_sensor_open(&options, "test", &sensor, "/sys/none%d", 1) && o.n_said == 0);
    device_files_put(&files, "sys/folder/x", "1");
    CHECK(!qn_sensor_open(&options, "test", &sensor, "/sys/folder") && o.n_said == 1);
    device_files_put(&files, "sys/a1", "42\n");
    CHECK(qn_sensor_open(&options, "test", &sensor, "/sys/a%d", 1));
    CHECK(qn_sensor_number(&sensor, &speaker, 0, &number) && number == 42);
    device_files_put(&files, "sys/a1", "42 MHz\n");
    CHECK(qn_sensor_number(&sensor, &speaker, 0, &number) && number == 42);
    device_files_put(&files, "sys/a1", "none\n");
    for (int i = 0; i < 3; i++)
        CHECK(!qn_sensor_number(&sensor, &speaker, i, &number));
    CHECK(o.n_said == 2 && strstr(o.said[1], "test: ") &&
          strstr(o.said[1], "/sys/a1: the value \"none"));
    device_files_put(&files, "sys/a1", "7\n");
    CHECK(qn_sensor_number(&sensor, &speaker, 5, &number) && number == 7);
    qn_sensor_close(&sensor);
    CHECK(qn_sensor_number(&sensor, &speaker, 6, &number) && number == 7); /* opened again */
    qn_sensor_close(&sensor);
    device_files_remove(&files, "");
}

/* ---- this machine ---- */

static void sleep_ms(int64_t ms) {
    const struct timespec span = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * MS};
    nanosleep(&span, NULL);
}

/* A thread that uses as much of a processor as it was told to, in all, and then waits to be told
 * more: what it has used is known at any load of the machine. */
typedef struct spinner {
    int64_t cpu_ns;  /* told: how much to use, -1 to end */
    int64_t used_ns; /* the last cpu_ns that was reached */
} spinner;

static void spin(void *context) {
    spinner *s = context;
    for (;;) {
        const int64_t cpu_ns = __atomic_load_n(&s->cpu_ns, __ATOMIC_ACQUIRE);
        if (cpu_ns < 0)
            break;
        while (qn_thread_cpu_ns() < cpu_ns)
            ;
        if (s->used_ns != cpu_ns)
            __atomic_store_n(&s->used_ns, cpu_ns, __ATOMIC_RELEASE);
        sleep_ms(1);
    }
}

static void tell(spinner *s, int64_t cpu_ns) {
    __atomic_store_n(&s->cpu_ns, cpu_ns, __ATOMIC_RELEASE);
}

static bool has_used(spinner *s, int64_t cpu_ns) {
    return __atomic_load_n(&s->used_ns, __ATOMIC_ACQUIRE) == cpu_ns;
}

static double cores_of(const opened *o, int channel) {
    const qn_reading *r = &o->readings[channel];
    return r->value * (double)(r->end_ns - r->begin_ns);
}

/* A thread that comes, uses 240 ms of a processor, and goes: it is found at a look 50 ms after the
 * last search, and told as much as it used from then on. */
static void check_own_threads(void) {
    spinner s = {.cpu_ns = 40 * MS};
    qn_thread *thread;
    opened o;
    int n_threads = 0;
    CHECK(open_kind(&o, &qn_source_threads, "", qn_process_id()));
    look(&o, qn_clock_ns());
    const int64_t before_ns = qn_thread_cpu_ns();
    CHECK_OK(qn_thread_start(NULL, spin, &s, &thread));
    while (!has_used(&s, 40 * MS))
        sleep_ms(1);
    sleep_ms(50);
    look(&o, qn_clock_ns());
    double process = cores_of(&o, 0);
    tell(&s, 240 * MS);
    while (!has_used(&s, 240 * MS))
        sleep_ms(1);
    look(&o, qn_clock_ns());
    double told = 0;
    process += cores_of(&o, 0);
    for (int i = 2; i < o.n; i++)
        told += cores_of(&o, i);
    for (int i = 1; i < o.n; i++)
        n_threads += !is_silent(&o, i);
    CHECK(n_threads >= 2); /* and one more under the thread sanitizer */
    CHECK(told > 190 * MS && told < 230 * MS);
    const double own = (double)(qn_thread_cpu_ns() - before_ns);
    CHECK(process > 0.9 * (240 * MS + own) && process < 1.1 * (240 * MS + own) + 10 * MS);
    tell(&s, -1);
    qn_thread_join(thread);
    look(&o, qn_clock_ns());
    look(&o, qn_clock_ns());
    CHECK(!is_silent(&o, 0) && o.n_said == 0);
    close_kind(&o);
}

/* Looked at every millisecond, when not all clocks are read each time: what is told in all is what
 * was used, of the process as of its threads, one that ended in between included. What was used is
 * known but for what passed during the first look and the last; what a late reading had too much is
 * told by those after it, of which there are 200 ms with little to tell. */
static void check_own_often(void) {
    spinner s = {.cpu_ns = 20 * MS};
    qn_thread *thread;
    opened o;
    double process = 0, told = 0;
    CHECK(open_kind(&o, &qn_source_threads, "", qn_process_id()));
    CHECK_OK(qn_thread_start(NULL, spin, &s, &thread));
    while (!has_used(&s, 20 * MS))
        sleep_ms(1);
    const int64_t before_ns = qn_process_cpu_ns(qn_process_id());
    look(&o, qn_clock_ns());
    const int64_t first_ns = qn_process_cpu_ns(qn_process_id());
    tell(&s, 200 * MS);
    for (int i = 0, n_after = 0; n_after < 20; i++) {
        n_after += i > 100 && has_used(&s, 200 * MS);
        sleep_ms(n_after > 0 ? 10 : 1);
        look(&o, qn_clock_ns());
        process += cores_of(&o, 0);
        for (int k = 1; k < o.n; k++)
            told += cores_of(&o, k);
    }
    tell(&s, -1);
    qn_thread_join(thread);
    sleep_ms(60);
    const int64_t last_ns = qn_process_cpu_ns(qn_process_id());
    look(&o, qn_clock_ns());
    const int64_t after_ns = qn_process_cpu_ns(qn_process_id());
    process += cores_of(&o, 0);
    const double least = (double)(last_ns - first_ns), most = (double)(after_ns - before_ns);
    CHECK(least > 170 * MS && process > 0.98 * least - MS && process < 1.02 * most + MS);
    CHECK(told > 0.9 * least - 2 * MS && told < 1.1 * most + 2 * MS);
    close_kind(&o);
}

/* Ends all of a process group, the child that was its first one included. */
static void end_group(pid_t child) {
    kill(-child, SIGKILL);
    waitpid(child, NULL, 0);
}

/* A process that starts another, which uses 50 ms of a processor and ends: its time and its memory
 * are counted, and its time stays counted. */
static void check_family(void) {
    opened threads, memory;
    double told = 0, most = 0;
    int go[2], ready[2];
    char byte, path[64], text[128];
    CHECK(pipe(go) == 0 && pipe(ready) == 0);
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        if (fork() == 0) {
            const bool is_told = read(go[0], &byte, 1) == 1;
            while (is_told && qn_thread_cpu_ns() < 50 * MS)
                ;
            _exit(read(go[0], &byte, 1) != 1); /* told a second time: it has been looked at */
        }
        _exit(wait(NULL) < 0 || write(ready[1], "", 1) != 1 || pause() < 0);
    }
    setpgid(child, child);
    CHECK(open_kind(&threads, &qn_source_threads, "", child));
    CHECK(open_kind(&memory, &qn_source_resident, "", child));
    look(&memory, qn_clock_ns());
    look(&threads, qn_clock_ns());
    snprintf(path, sizeof path, "/proc/%d/statm", (int)child);
    CHECK_OK(qn_probe_text_at(path, text, sizeof text));
    const double alone = (double)qn_page_bytes() * atof(strchr(text, ' '));
    CHECK(write(go[1], "", 1) == 1);
    for (int i = 0; i < 400 && (told < 45 * MS || most <= 1.1 * alone); i++) {
        sleep_ms(10);
        look(&threads, qn_clock_ns());
        look(&memory, qn_clock_ns());
        CHECK(threads.readings[0].value >= 0);
        told += cores_of(&threads, 0);
        most = memory.readings[0].value > most ? memory.readings[0].value : most;
    }
    CHECK(write(go[1], "", 1) == 1);
    CHECK(read(ready[0], &byte, 1) == 1);
    look(&threads, qn_clock_ns());
    told += cores_of(&threads, 0);
    CHECK(told > 25 * MS && told < 75 * MS);
    CHECK(alone > 0 && most > 1.1 * alone);
    end_group(child);
    look(&threads, qn_clock_ns());
    look(&memory, qn_clock_ns());
    CHECK(is_silent(&memory, 0) && threads.n_said == 0 && memory.n_said == 0);
    close_kind(&threads);
    close_kind(&memory);
    for (int i = 0; i < 2; i++) {
        close(go[i]);
        close(ready[i]);
    }
}

/* A recorded family, by the list of children and by the parents that they name. */
static void check_recorded_family(void) {
    device_files files = device_files_make();
    qn_family family;
    device_files_put(&files, "proc/10/task/10/children", "30 20 \n");
    device_files_put(&files, "proc/10/task/11/children", "\n");
    device_files_put(&files, "proc/20/task/20/children", "40 \n");
    device_files_put(&files, "proc/30/task/30/children", "\n");
    qn_family_init(files.root, 10, &family);
    qn_family_look(&family, 1000 * MS);
    CHECK(family.n == 4 && family.ids[0] == 10 && family.ids[1] == 30 && family.ids[3] == 40);
    qn_family_remove(&family, 1);
    CHECK(family.n == 3 && family.ids[1] == 40);
    qn_family_look(&family, 1050 * MS);
    CHECK(family.n == 3); /* too soon */
    qn_family_look(&family, 1100 * MS);
    CHECK(family.n == 4 && !family.is_crowded);
    device_files_remove(&files, "proc/10");
    device_files_remove(&files, "proc/20");
    device_files_put(&files, "proc/10/task/10/schedstat", "1 2 3\n");
    device_files_put(&files, "proc/10/stat", "10 (a) S 1 10\n");
    device_files_put(&files, "proc/15/stat", "15 (b) (S 10) S 40 10\n");
    device_files_put(&files, "proc/40/stat", "40 (sh) S 10 10\n");
    device_files_put(&files, "proc/50/stat", "50 (other) S 1 10\n");
    qn_family_init(files.root, 10, &family);
    qn_family_look(&family, 1000 * MS);
    CHECK(family.n == 3 && family.ids[1] == 40 && family.ids[2] == 15);
    device_files_remove(&files, "");
}

static void check_clocks(void) {
    CHECK(qn_process_cpu_ns(qn_process_id()) >= qn_thread_cpu_ns() / 2);
    CHECK(qn_process_cpu_ns(0) == -1 && qn_own_thread_cpu_ns(0) == -1);
    CHECK(qn_own_thread_cpu_ns(1 << 30) == -1);
    const int64_t before_ns = qn_thread_cpu_ns();
    const int64_t other_ns = qn_own_thread_cpu_ns(qn_thread_id());
    CHECK(before_ns <= other_ns && other_ns <= qn_thread_cpu_ns());
    /* waiting ends at its moment, and no sooner */
    qn_monitor *monitor;
    CHECK_OK(qn_monitor_create(NULL, &monitor));
    qn_monitor_lock(monitor);
    const int64_t moment_ns = qn_clock_ns() + 5 * MS;
    while (qn_monitor_wait_until(monitor, moment_ns))
        ;
    CHECK(qn_clock_ns() >= moment_ns);
    qn_monitor_unlock(monitor);
    qn_monitor_destroy(monitor);
}

static void check_here(void) {
    opened o;
    CHECK(open_kind(&o, &qn_source_resident, "", qn_process_id()));
    look(&o, qn_clock_ns());
    CHECK(o.readings[0].value > 100000 && o.readings[0].value < 1e10);
    const double resident = o.readings[0].value;
    close_kind(&o);
    CHECK(open_kind(&o, &qn_source_peak, "", qn_process_id()));
    look(&o, qn_clock_ns());
    CHECK(o.readings[0].value > 0.5 * resident && o.readings[0].value < 1e10);
    close_kind(&o);
    CHECK(open_kind(&o, &qn_source_cores, "", qn_process_id()) && o.n >= 1);
    for (int i = 0; i < 4; i++) {
        look(&o, qn_clock_ns());
        for (int j = 0; j < o.n; j++)
            CHECK(o.readings[j].value >= 0 && o.readings[j].value <= 1);
    }
    close_kind(&o);
    CHECK(!open_kind(&o, &qn_source_threads, "", 1 << 30) && o.n_said == 1);
}

/* ---- failing allocations ---- */

/* Opens a source with every allocation failing in turn; reading allocates nothing. */
static void check_allocations(const qn_source_kind *kind, const char *root) {
    static qn_reading readings[MOST_CHANNELS];
    failing f;
    const qn_allocator allocator = {&f, failing_allocate, failing_release};
    opened o = {.kind = kind};
    const qn_source_options options = {.allocator = &allocator,
                                       .root = root,
                                       .is_recorded = root[0] != 0,
                                       .pid = root[0] ? 77 : qn_process_id(),
                                       .user = &o,
                                       .say = hear};
    int64_t n_failed = 0;
    for (;; n_failed++) {
        void *source = NULL;
        f = (failing){.left = n_failed};
        const qn_status status = kind->open(&options, &source);
        if (status == QN_OK) {
            const int64_t left = f.left;
            CHECK(source != NULL && left < n_failed);
            if (!source)
                break;
            kind->read(source, 1000 * MS, readings);
            CHECK(f.left == left);
            kind->close(source);
            CHECK(f.held_bytes == 0);
            break;
        }
        CHECK(status == QN_ERROR_MEMORY && !source && f.held_bytes == 0);
    }
    CHECK(n_failed > 0);
}

static void check_all_allocations(void) {
    device_files files = device_files_make();
    put_zone(&files, 0, "cpu", 40000);
    device_files_put(&files, "sys/devices/system/cpu/cpu0/cpufreq/scaling_cur_freq", "2035200\n");
    device_files_put(&files, "sys/devices/gpu.0/load", "10\n");
    device_files_put(&files, "sys/class/devfreq/17000000.gp10b/cur_freq", "1300500000\n");
    put_schedstat(&files, 1000000, 1, 1000000, 1);
    put_stat(&files, 0, 1000, 0, 1000);
    check_allocations(&qn_source_cores, files.root);
    check_allocations(&qn_source_frequency, files.root);
    check_allocations(&qn_source_thermal, files.root);
    check_allocations(&qn_source_gpu_load, files.root);
    check_allocations(&qn_source_threads, "");
    check_allocations(&qn_source_resident, "");
    check_allocations(&qn_source_peak, "");
    device_files_remove(&files, "");
}

int main(void) {
    check_sensor();
    check_cpuacct();
    check_schedstat();
    check_stat();
    check_recorded_threads();
    check_recorded_memory();
    check_recorded_family();
    check_frequency();
    check_thermal();
    check_gpu_load();
    check_devices();
    check_all_allocations();
    check_clocks();
    check_own_threads();
    check_own_often();
    check_family();
    check_here();
    return checks_finish();
}
