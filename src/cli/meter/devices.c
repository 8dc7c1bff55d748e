/* quern devices: the parts of this device, or of a recorded one, its sensors, the missing ones and
 * why, and, on request, its peak speed. */
#include "base/print.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/meter/driver_devices.h"
#include "cli/meter/sensing.h"
#include "cli/terminal.h"
#include "meter/processor.h"
#include "meter/roofline.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/process/group.h"
#include "report/words.h"

#include <ctype.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const option options[] = {
    {.name = "sysroot",
     .kind = OPTION_TEXT,
     .argument = "DIR",
     .otherwise = "this device",
     .help = "recorded tree of /sys and /proc to look at"},
    {.name = "calibrate",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "measure peak FLOP/s and bandwidths, and keep them for reports"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object"},
};

typedef struct device {
    bool is_recorded;
    char isa[16]; /* in use; of a recorded tree what it would be */
    qn_processor *processor;
    sensing sensing;
    qn_roofline roofline; /* n_peaks 0: not measured */
    qn_group group;       /* of this program; of a recorded tree what it tells */
} device;

enum { LABEL = 14, WIDTH = 79 };

/* ---- text in a column ---- */

/* A label, and a text behind it that is broken at spaces. */
static void print_field(const char *label, const char *text) {
    size_t room = WIDTH - LABEL;
    printf("%-*s", LABEL, label);
    while (strlen(text) > room) {
        size_t n = room;
        while (n > 0 && text[n] != ' ')
            n--;
        n = n > 0 ? n : room;
        printf("%.*s\n%*s", (int)n, text, LABEL, "");
        text += n + (text[n] == ' ');
    }
    puts(text);
}

typedef struct line {
    size_t used;
    char text[1024];
} line;

static void add(line *l, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add(line *l, const char *format, ...) {
    va_list values;
    va_start(values, format);
    const int n = qn_print_list(l->text + l->used, sizeof l->text - l->used, format, values);
    va_end(values);
    l->used += n > 0 ? (size_t)n : 0;
    if (l->used >= sizeof l->text)
        l->used = sizeof l->text - 1;
}

static const char *plural(int n) {
    return n == 1 ? "" : "s";
}

static void add_bytes(line *l, int64_t bytes) {
    static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double size = (double)bytes;
    int unit = 0;
    for (; size >= 1024 && unit < 4; unit++)
        size /= 1024;
    add(l, "%.4g %s", size, units[unit]);
}

/* ---- the processor ---- */

/* Numbers of a kind's cores in a cluster, as "0,3-5". */
static void add_numbers(line *l, const qn_processor *p, int kind, int cluster) {
    int from = -1, last = -2;
    bool is_first = true;
    for (int i = 0; i <= p->n_cores; i++) {
        const bool is_in = i < p->n_cores && p->cores[i].kind == kind &&
                           (cluster < 0 || p->cores[i].cluster == cluster);
        if (from >= 0 && (i == p->n_cores || (is_in && p->cores[i].number != last + 1))) {
            add(l, last > from ? "%s%d-%d" : "%s%d", is_first ? "" : ",", from, last);
            is_first = false;
            from = -1;
        }
        if (is_in && from < 0)
            from = p->cores[i].number;
        if (is_in)
            last = p->cores[i].number;
    }
}

static void add_clusters(line *l, const qn_processor *p, int kind) {
    int n = 0;
    for (int cluster = 0; cluster < p->n_clusters; cluster++) {
        bool is_in = false;
        for (int i = 0; i < p->n_cores; i++)
            is_in = is_in || (p->cores[i].kind == kind && p->cores[i].cluster == cluster);
        if (!is_in)
            continue;
        add(l, "%s cluster %d: cpu", n++ ? ";" : ",", cluster);
        add_numbers(l, p, kind, cluster);
    }
}

static void print_kind(const qn_processor *p, int index) {
    const qn_core_kind *kind = &p->kinds[index];
    char label[40];
    line l = {.used = 0};
    snprintf(label, sizeof label, "  %s", kind->name);
    add(&l, "%d core%s", kind->n_physical, plural(kind->n_physical));
    if (kind->n_cores != kind->n_physical)
        add(&l, " with %d threads", kind->n_cores);
    if (kind->model[0] && strcmp(kind->model, p->name) != 0)
        add(&l, " (%s)", kind->model);
    if (kind->most_hz > 0)
        add(&l, ", up to %.2f GHz", (double)kind->most_hz * 1e-9);
    add_clusters(&l, p, index);
    print_field(label, l.text);
}

static void print_caches(const qn_processor *p, int kind) {
    static const char *const types[] = {" data ", " code ", " "};
    line l = {.used = 0};
    for (int i = 0; i < p->n_caches; i++) {
        const qn_cpu_cache *c = &p->caches[i];
        if (c->kind != kind)
            continue;
        add(&l, "%sL%d%s", l.used ? ", " : "caches: ", c->level, types[c->type]);
        if (c->bytes > 0)
            add_bytes(&l, c->bytes);
        else
            add(&l, "of unknown size");
        if (c->n > 1)
            add(&l, " x %d", c->n);
        if (c->n_sharing > 1)
            add(&l, " for %d", c->n_sharing);
    }
    print_field("", l.used ? l.text : "caches: the kernel does not tell");
}

static void print_offline(const qn_processor *p) {
    line l = {.used = 0};
    add_numbers(&l, p, -1, -1);
    if (l.used)
        print_field("  offline", l.text);
}

/* Sources that tell what GPUs do. */
static void print_gpus(const sensing *s) {
    line l = {.used = 0};
    for (int i = 0; i < s->n; i++) {
        for (int k = 0; k < s->kinds[i].n; k++) {
            const qn_channel *c = &s->kinds[i].channels[k];
            if (c->part == QN_PART_GPU && c->quantity == QN_QUANTITY_UTILISATION)
                add(&l, "%s%s (load by %s)", l.used ? ", " : "", c->name, c->source);
        }
    }
    print_field("GPU", l.used ? l.text : "none whose load can be read");
}

/* What of the machine a program may take that is in the control group of this one. */
static void print_group(const device *d) {
    const qn_group group = d->group;
    line l = {.used = 0};
    if (group.memory_bytes >= 0) {
        add(&l, "at most ");
        add_bytes(&l, group.memory_bytes);
        add(&l, " of memory, ");
        add_bytes(&l, group.left_bytes);
        add(&l, " now left");
    }
    if (group.cpus > 0)
        add(&l, "%sthe time of %.3g processors", l.used ? "; " : "", group.cpus);
    if (l.used)
        print_field("  group", l.text);
}

static void print_processor(const device *d) {
    const qn_processor *p = d->processor;
    line l = {.used = 0};
    print_field("machine", p->machine[0] ? p->machine : "the kernel does not tell");
    print_field("processor", p->name[0] ? p->name : "the kernel does not tell");
    print_field("kernels", d->isa);
    if (p->memory_bytes > 0)
        add_bytes(&l, p->memory_bytes);
    print_field("memory", l.used ? l.text : "the kernel does not tell");
    print_group(d);
    puts("cores");
    for (int k = 0; k < p->n_kinds; k++) {
        print_kind(p, k);
        print_caches(p, k);
    }
    print_offline(p);
    print_gpus(&d->sensing);
}

/* ---- sensors ---- */

static bool is_of_process(const qn_channel *c) {
    return c->part == QN_PART_PROCESS || c->part == QN_PART_THREAD;
}

/* Channels from `first` on that differ by the number of the core only: how many. */
static int count_alike(const sensed *k, int first) {
    const qn_channel *c = &k->channels[first];
    int n = 1;
    if (strncmp(c->name, "cpu", 3) != 0 || !isdigit((unsigned char)c->name[3]))
        return n;
    while (first + n < k->n && strncmp(k->channels[first + n].name, "cpu", 3) == 0 &&
           isdigit((unsigned char)k->channels[first + n].name[3]) &&
           k->channels[first + n].quantity == c->quantity)
        n++;
    return n;
}

/* An estimate is good to two digits, and hundredths of a watt; so a line is no wider than a screen.
 */
static int digits_of(const qn_channel *channel, double *least, double most) {
    if (channel->quantity != QN_QUANTITY_POWER)
        return 4;
    if (!channel->is_estimated || most >= 99.5)
        return 3;
    *least = round(*least * 100) / 100;
    return 2;
}

static void format_value(const sensed *k, int first, int n, char *text, size_t bytes) {
    double scale, least = INFINITY, most = -INFINITY;
    const char *unit = qn_words_unit(&k->channels[first], &scale);
    for (int i = first; i < first + n; i++) {
        least = fmin(least, k->values[i] * scale);
        most = fmax(most, k->values[i] * scale);
    }
    const int digits = digits_of(&k->channels[first], &least, most);
    char range[64];
    qn_print(range, sizeof range, "%.*g", digits, least);
    if (n > 1 && most > least)
        qn_print(range, sizeof range, "%.*g to %.*g", digits, least, digits, most);
    if (isfinite(least))
        snprintf(text, bytes, "%s %s%s", range, unit,
                 k->channels[first].is_estimated ? " estimated" : "");
    else
        snprintf(text, bytes, "no reading");
}

static void format_period(const qn_source_kind *kind, char *text, size_t bytes) {
    if (kind->period_ns == 0)
        snprintf(text, bytes, "any");
    else
        qn_print(text, bytes, "%g ms", (double)kind->period_ns * 1e-6);
}

static void print_row(const sensed *k, int first, int n) {
    const qn_channel *c = &k->channels[first];
    char name[64], value[80], period[24];
    snprintf(name, sizeof name, "%s%s%s", c->name, n > 1 ? "-" : "",
             n > 1 ? k->channels[first + n - 1].name + strlen("cpu") : "");
    format_value(k, first, n, value, sizeof value);
    format_period(k->kind, period, sizeof period);
    printf("  %-9.9s %-16.16s %-7s %-11s %-6s %s\n", c->source, name, qn_words_part(c->part),
           qn_words_quantity(c->quantity), period, value);
}

static void print_sensors(const sensing *s) {
    puts("sensors");
    printf("  %-9s %-16s %-7s %-11s %-6s %s\n", "source", "channel", "part", "quantity", "every",
           "now");
    for (int i = 0; i < s->n; i++) {
        const sensed *k = &s->kinds[i];
        for (int first = 0, n; first < k->n; first += n) {
            n = count_alike(k, first);
            if (!is_of_process(&k->channels[first]))
                print_row(k, first, n);
        }
    }
}

/* What has no channel, though a device could have it: sources of the process, of files that the
 * user names, and the estimate are no sensors. */
static bool is_missing(const sensed *k) {
    static const char *const others[] = {"threads", "resident", "peak", "replay", "model"};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (strcmp(k->kind->name, others[i]) == 0)
            return false;
    }
    return k->n == 0;
}

static bool has_remark(const sensing *s, const char *source) {
    for (int i = 0; i < s->n_remarks; i++) {
        if (strcmp(s->remarks[i].source, source) == 0)
            return true;
    }
    return false;
}

static bool is_estimated(const sensing *s) {
    for (int i = 0; i < s->n; i++) {
        if (s->kinds[i].n > 0 && s->kinds[i].channels[0].is_estimated)
            return true;
    }
    return false;
}

static void print_missing(const sensing *s) {
    char label[40], text[256];
    puts("missing");
    if (is_estimated(s))
        print_field("  power", "no sensor measures the power of this device or its processor: it "
                               "is estimated from load and clock, roughly");
    for (int i = 0; i < s->n; i++) {
        const qn_source_kind *kind = s->kinds[i].kind;
        if (!is_missing(&s->kinds[i]) || has_remark(s, kind->name))
            continue;
        snprintf(label, sizeof label, "  %s", kind->name);
        snprintf(text, sizeof text, "not there: %s", kind->about);
        print_field(label, text);
    }
    for (int i = 0; i < s->n_remarks; i++) {
        snprintf(label, sizeof label, "  %s", s->remarks[i].source);
        print_field(label, s->remarks[i].text);
    }
}

/* ---- the roofline ---- */

static void print_roofline(const qn_roofline *r) {
    char one[QN_WORDS_NUMBER], all[QN_WORDS_NUMBER], text[256], label[24];
    if (r->n_peaks == 0) {
        print_field("peak", "not measured; quern devices --calibrate does, in some seconds");
        return;
    }
    puts("peak");
    for (int i = 0; i < r->n_peaks; i++) {
        const qn_roofline_peak *p = &r->peaks[i];
        snprintf(label, sizeof label, "  %.4s", p->dtype);
        snprintf(text, sizeof text, "%s: %s of one core, %s of %d", p->core,
                 qn_words_scaled(p->flops, "FLOP/s", one),
                 qn_words_scaled(p->all_flops, "FLOP/s", all), p->n_cores);
        print_field(label, text);
    }
    for (int i = 0; i < r->n_levels; i++) {
        const qn_roofline_level *level = &r->levels[i];
        snprintf(label, sizeof label, "  %.6s", level->name);
        const int length = snprintf(text, sizeof text, "%s for one core, %s for all",
                                    qn_words_scaled(level->bandwidth, "B/s", one),
                                    qn_words_scaled(level->all_bandwidth, "B/s", all));
        if (level->beside_bandwidth > 0)
            snprintf(text + length, sizeof text - (size_t)length, ", %s for one beside others",
                     qn_words_scaled(level->beside_bandwidth, "B/s", one));
        print_field(label, text);
    }
}

static void tell_progress(void *user, const char *what, double done) {
    char text[160];
    (void)user;
    qn_print(text, sizeof text, "%3.0f %%  %s", 100 * done, what);
    if (done < 1)
        terminal_show(text);
    else
        terminal_clear();
}

static qn_status calibrate(device *d) {
    char failed[256];
    if (d->is_recorded)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--calibrate measures this device; leave out --sysroot, or --calibrate");
    QN_TRY(qn_roofline_measure(qn_allocator_default(), &d->roofline, NULL, tell_progress));
    qn_roofline_measure_gpus(qn_allocator_default(), &d->roofline, NULL, tell_progress, failed);
    if (failed[0])
        terminal_note("not measured: %s", failed);
    return qn_roofline_save(&d->roofline);
}

/* ---- JSON ---- */

/* Null where no control group has a limit. */
static void json_group(const device *d) {
    const qn_group group = d->group;
    if (group.memory_bytes >= 0) {
        json_count("memory_limit_bytes", group.memory_bytes);
        json_count("memory_left_bytes", group.left_bytes);
    } else {
        json_null("memory_limit_bytes");
        json_null("memory_left_bytes");
    }
    if (group.cpus > 0)
        json_number("cpu_quota", group.cpus);
    else
        json_null("cpu_quota");
}

static void json_processor(const device *d) {
    const qn_processor *p = d->processor;
    json_text("machine", p->machine);
    json_text("processor", p->name);
    json_text("isa", d->isa);
    json_count("memory_bytes", p->memory_bytes);
    json_group(d);
    json_count("clusters", p->n_clusters);
    json_open_list("kinds");
    for (int k = 0; k < p->n_kinds; k++) {
        json_begin_item();
        json_text("name", p->kinds[k].name);
        json_text("model", p->kinds[k].model);
        json_count("cores", p->kinds[k].n_physical);
        json_count("threads", p->kinds[k].n_cores);
        json_count("most_hz", p->kinds[k].most_hz);
        json_end_item();
    }
    json_close_list();
    json_open_list("cores");
    for (int i = 0; i < p->n_cores; i++) {
        json_begin_item();
        json_count("number", p->cores[i].number);
        if (p->cores[i].kind >= 0)
            json_text("kind", p->kinds[p->cores[i].kind].name);
        else
            json_null("kind");
        json_count("cluster", p->cores[i].cluster);
        json_count("most_hz", p->cores[i].most_hz);
        json_end_item();
    }
    json_close_list();
}

static void json_caches(const qn_processor *p) {
    static const char *const types[] = {"data", "instruction", "unified"};
    json_open_list("caches");
    for (int i = 0; i < p->n_caches; i++) {
        const qn_cpu_cache *c = &p->caches[i];
        json_begin_item();
        json_text("kind", p->kinds[c->kind].name);
        json_count("level", c->level);
        json_text("type", types[c->type]);
        json_count("bytes", c->bytes);
        json_count("shared_by", c->n_sharing);
        json_count("count", c->n);
        json_end_item();
    }
    json_close_list();
}

static void json_sensors(const sensing *s) {
    json_open_list("sensors");
    for (int i = 0; i < s->n; i++) {
        for (int k = 0; k < s->kinds[i].n; k++) {
            const qn_channel *c = &s->kinds[i].channels[k];
            if (is_of_process(c))
                continue;
            json_begin_item();
            json_text("source", c->source);
            json_text("channel", c->name);
            json_text("part", qn_words_part(c->part));
            json_text("quantity", qn_words_quantity(c->quantity));
            json_number("value", s->kinds[i].values[k]);
            json_number("period_ms", (double)s->kinds[i].kind->period_ns * 1e-6);
            json_count("estimated", c->is_estimated);
            json_end_item();
        }
    }
    json_close_list();
}

static void json_lack(const char *source, const char *why) {
    json_begin_item();
    json_text("source", source);
    json_text("why", why);
    json_end_item();
}

static void json_missing(const sensing *s) {
    char text[256];
    json_open_list("missing");
    for (int i = 0; i < s->n; i++) {
        const qn_source_kind *kind = s->kinds[i].kind;
        snprintf(text, sizeof text, "not there: %s", kind->about);
        if (is_missing(&s->kinds[i]) && !has_remark(s, kind->name))
            json_lack(kind->name, text);
    }
    for (int i = 0; i < s->n_remarks; i++)
        json_lack(s->remarks[i].source, s->remarks[i].text);
    json_close_list();
}

static void json_roofline(const qn_roofline *r) {
    json_open_list("peaks");
    for (int i = 0; i < r->n_peaks; i++) {
        json_begin_item();
        json_text("core", r->peaks[i].core);
        json_text("dtype", r->peaks[i].dtype);
        json_count("cores", r->peaks[i].n_cores);
        json_number("flops", r->peaks[i].flops);
        json_number("all_flops", r->peaks[i].all_flops);
        json_end_item();
    }
    json_close_list();
    json_open_list("levels");
    for (int i = 0; i < r->n_levels; i++) {
        json_begin_item();
        json_text("name", r->levels[i].name);
        json_count("bytes", r->levels[i].bytes);
        json_number("bandwidth", r->levels[i].bandwidth);
        json_number("all_bandwidth", r->levels[i].all_bandwidth);
        if (r->levels[i].beside_bandwidth > 0)
            json_number("beside_bandwidth", r->levels[i].beside_bandwidth);
        json_end_item();
    }
    json_close_list();
}

/* ---- the command ---- */

static void print_all(const device *d, bool is_json) {
    if (is_json) {
        json_begin();
        json_text("event", "devices");
        json_processor(d);
        json_caches(d->processor);
        json_sensors(&d->sensing);
        json_missing(&d->sensing);
        json_roofline(&d->roofline);
        if (!d->is_recorded)
            driver_devices_json(&d->roofline);
        json_end();
        return;
    }
    print_processor(d);
    if (!d->is_recorded)
        driver_devices_print(&d->roofline, print_field);
    print_sensors(&d->sensing);
    print_missing(&d->sensing);
    if (!d->is_recorded)
        print_roofline(&d->roofline);
}

static qn_status look(device *d, const char *root, bool is_calibrated) {
    qn_isa isa;
    QN_TRY(qn_processor_create(NULL, root, &d->processor));
    if (d->is_recorded && d->processor->n_cores == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--sysroot %s: it holds no /sys/devices/system/cpu/present; give the folder "
                       "that holds a device's sys and proc",
                       root);
    QN_TRY(qn_cpu_isa(&isa));
    snprintf(d->isa, sizeof d->isa, "%s", d->is_recorded ? d->processor->isa : qn_isa_name(isa));
    if (is_calibrated)
        QN_TRY(calibrate(d));
    else if (!d->is_recorded)
        QN_TRY(qn_roofline_load(qn_allocator_default(), &d->roofline));
    qn_group_read(root, &d->group);
    return sensing_begin(&d->sensing, root);
}

/* The folder without a slash at its end; "" for this device. */
static qn_status read_root(const char *sysroot, char root[256]) {
    const int length = snprintf(root, 256, "%s", sysroot ? sysroot : "");
    if (length >= 256)
        return qn_fail(QN_ERROR_ARGUMENT, "--sysroot %s: the path is too long", sysroot);
    if (sysroot && !qn_path_is_folder(sysroot))
        return qn_fail(QN_ERROR_ARGUMENT, "--sysroot %s: there is no such folder", sysroot);
    for (int i = length - 1; i >= 0 && root[i] == '/'; i--)
        root[i] = 0;
    return QN_OK;
}

static int run(const arguments *a) {
    char root[256];
    qn_status status = read_root(arguments_get(a, "sysroot"), root);
    if (status != QN_OK)
        return report_failure(status);
    device d = {.is_recorded = root[0] != 0};
    status = look(&d, root, arguments_flag(a, "calibrate"));
    if (status == QN_OK)
        print_all(&d, arguments_flag(a, "json"));
    sensing_end(&d.sensing);
    qn_processor_destroy(d.processor);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_devices = {
    .name = "devices",
    .summary = "Show cores, caches, sensors, and what is missing",
    .description =
        "Lists each sensor with the part of the device that it belongs to, how often it can be\n"
        "read and its current reading; then the missing sensors, and why they are missing.\n"
        "--calibrate measures the peak speed and bandwidths of this device, to which quern\n"
        "profile compares operations, and those of OpenCL and CUDA devices with their copies.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
