/* The speeds of the drivers' devices for the roofline, by quern's own kernels. See roofline.h. */
#include "meter/roofline.h"

#include "base/status.h"
#include "driver/driver.h"

#include <stdio.h>
#include <string.h>

typedef struct measuring {
    const qn_allocator *allocator;
    qn_roofline *roofline;
    void *user;
    void (*tell)(void *user, const char *what, double done);
    char *failed; /* (256) */
} measuring;

static void note_failure(const measuring *m, const char *device) {
    if (!m->failed[0])
        snprintf(m->failed, 256, "%s: %.200s", device, qn_error_message());
}

static void add_row(qn_roofline *r, const char *device, const char *name,
                    const qn_device_speed *speed) {
    qn_roofline_gpu *g = &r->gpus[r->n_gpus++];
    *g = (qn_roofline_gpu){.flops = speed->flops,
                           .bandwidth = speed->bandwidth,
                           .in_bandwidth = speed->in_bandwidth,
                           .out_bandwidth = speed->out_bandwidth,
                           .launch_ns = speed->launch_ns};
    snprintf(g->device, sizeof g->device, "%.15s", device);
    snprintf(g->name, sizeof g->name, "%.95s", name);
}

static void measure(const measuring *m, const qn_driver *driver, int number) {
    const qn_driver_options options = {.number = number};
    const qn_device *device = driver->functions->device;
    char name[24];
    qn_device_speed speed;
    void *state;
    if (m->roofline->n_gpus == QN_ROOFLINE_MOST)
        return;
    snprintf(name, sizeof name, "%.12s:%d", driver->scheme, number);
    if (m->tell)
        m->tell(m->user, name, 0.99);
    if (qn_driver_open(driver, m->allocator, &options, &state) != QN_OK) {
        note_failure(m, name);
        return;
    }
    if (device->measure(state, &speed) == QN_OK)
        add_row(m->roofline, name, device->model_name ? device->model_name(state) : name, &speed);
    else
        note_failure(m, name);
    device->close(state);
}

static void measure_driver(const measuring *m, const qn_driver *driver) {
    int n;
    if (!driver->functions || !driver->functions->device->measure ||
        qn_driver_count(driver, &n) != QN_OK)
        return;
    for (int number = 0; number < n; number++)
        measure(m, driver, number);
}

void qn_roofline_measure_gpus(const qn_allocator *allocator, qn_roofline *roofline, void *user,
                              void (*tell)(void *user, const char *what, double done),
                              char failed[256]) {
    const measuring m = {allocator, roofline, user, tell, failed};
    failed[0] = 0;
    roofline->n_gpus = 0;
    for (const qn_driver *d = qn_drivers; d->scheme; d++)
        measure_driver(&m, d);
    if (tell)
        tell(user, "", 1);
}
