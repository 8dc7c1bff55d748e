/* See driver_devices.h. */
#include "cli/meter/driver_devices.h"

#include "base/print.h"
#include "base/status.h"
#include "cli/json.h"
#include "driver/driver.h"
#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { NAME = 40 };

/* "opencl:1", or "hexagon:emulated", which is the only one. */
static void name_device(const qn_driver *driver, int number, char name[NAME]) {
    snprintf(name, NAME, driver->functions->is_numbered ? "%.24s:%d" : "%.24s", driver->scheme,
             number);
}

/* The key of the driver's list: its scheme up to a colon. */
static void name_list(const qn_driver *driver, char name[NAME]) {
    snprintf(name, NAME, "%.*s", (int)strcspn(driver->scheme, ":"), driver->scheme);
}

/* ---- text ---- */

static void print_speed(const qn_roofline_gpu *g,
                        void (*print)(const char *label, const char *text)) {
    char flops[QN_WORDS_NUMBER], rate[QN_WORDS_NUMBER], in[QN_WORDS_NUMBER], out[QN_WORDS_NUMBER];
    char text[256];
    qn_print(text, sizeof text,
             "measured: %s in f32, memory %s; copies %s there, %s back; %.0f us for a kernel",
             qn_words_scaled(g->flops, "FLOP/s", flops), qn_words_scaled(g->bandwidth, "B/s", rate),
             qn_words_scaled(g->in_bandwidth, "B/s", in),
             qn_words_scaled(g->out_bandwidth, "B/s", out), g->launch_ns * 1e-3);
    print("", text);
}

static void print_device(const qn_driver *driver, int number, const qn_roofline *roofline,
                         void (*print)(const char *label, const char *text)) {
    char name[NAME], label[NAME + 2];
    qn_driver_info info;
    name_device(driver, number, name);
    snprintf(label, sizeof label, "  %s", name);
    if (driver->functions->describe(number, &info) != QN_OK) {
        print(label, qn_error_message());
        return;
    }
    print(label, info.summary);
    const qn_roofline_gpu *g = qn_roofline_find_gpu(roofline, name, info.name);
    if (g)
        print_speed(g, print);
}

/* A driver of one device. */
static void print_only(const qn_driver *driver,
                       void (*print)(const char *label, const char *text)) {
    char text[700];
    qn_driver_info info;
    const qn_status status = driver->functions->describe(0, &info);
    snprintf(text, sizeof text, "%s, %s", driver->scheme,
             status == QN_OK ? info.summary : qn_error_message());
    print(driver->title, text);
}

void driver_devices_print(const qn_roofline *roofline,
                          void (*print)(const char *label, const char *text)) {
    int n;
    for (const qn_driver *d = qn_drivers; d->scheme; d++) {
        if (!d->title)
            continue;
        if (qn_driver_count(d, &n) != QN_OK) {
            print(d->title, qn_error_message());
            continue;
        }
        if (!d->functions->is_numbered) {
            print_only(d, print);
            continue;
        }
        print(d->title, n == 1 ? "1 device" : "several devices");
        for (int i = 0; i < n; i++)
            print_device(d, i, roofline, print);
    }
}

/* ---- JSON ---- */

static void json_fact(const qn_driver_fact *fact) {
    if (fact->kind == QN_FACT_IS_TEXT)
        json_text(fact->name, fact->text);
    else if (fact->kind == QN_FACT_IS_FLAG)
        json_flag(fact->name, fact->number != 0);
    else
        json_count(fact->name, fact->number);
}

/* Null where it was not measured. */
static void json_speed(const qn_roofline_gpu *g) {
    const double none = NAN;
    json_number("flops", g ? g->flops : none);
    json_number("bandwidth", g ? g->bandwidth : none);
    json_number("copy_in_bandwidth", g ? g->in_bandwidth : none);
    json_number("copy_out_bandwidth", g ? g->out_bandwidth : none);
    json_number("launch_us", g ? g->launch_ns * 1e-3 : none);
}

static void json_device(const qn_driver *driver, int number, const qn_roofline *roofline) {
    char name[NAME];
    qn_driver_info info;
    if (driver->functions->describe(number, &info) != QN_OK)
        return;
    name_device(driver, number, name);
    json_begin_item();
    json_text("device", name);
    json_text("name", info.name);
    for (int i = 0; i < info.n_facts; i++)
        json_fact(&info.facts[i]);
    if (driver->functions->device->measure)
        json_speed(qn_roofline_find_gpu(roofline, name, info.name));
    json_end_item();
}

void driver_devices_json(const qn_roofline *roofline) {
    char list[NAME], missing[NAME + 16];
    int n;
    for (const qn_driver *d = qn_drivers; d->scheme; d++) {
        if (!d->title)
            continue;
        name_list(d, list);
        snprintf(missing, sizeof missing, "%s_missing", list);
        const qn_status status = qn_driver_count(d, &n);
        json_open_list(list);
        for (int i = 0; i < n; i++)
            json_device(d, i, roofline);
        json_close_list();
        if (status != QN_OK)
            json_text(missing, qn_error_message());
        else
            json_null(missing);
    }
}
