/* See logind.h. The functions are named as systemd/sd-bus.h has them, with its types as void. */
#include "learn/senses/logind.h"

#include "os/library.h"
#include "os/os.h"

#include <math.h>

typedef struct bus {
    qn_library *library;
    int (*open)(void **bus);
    int (*get)(void *bus, const char *destination, const char *path, const char *interface,
               const char *member, void *error, char type, void *value);
    void *(*close)(void *bus);
} bus;

static bool open_library(bus *b) {
    if (qn_library_open("libsystemd.so.0", &b->library) != QN_OK)
        return false;
    return qn_library_find(b->library, "sd_bus_open_system", &b->open) &&
           qn_library_find(b->library, "sd_bus_get_property_trivial", &b->get) &&
           qn_library_find(b->library, "sd_bus_flush_close_unref", &b->close);
}

static bool get_property(const bus *b, void *handle, const char *name, char type, void *value) {
    return b->get(handle, "org.freedesktop.login1", "/org/freedesktop/login1",
                  "org.freedesktop.login1.Manager", name, NULL, type, value) >= 0;
}

static double ask(const bus *b, void *handle) {
    int is_idle = 0;
    uint64_t since_us = 0;
    if (!get_property(b, handle, "IdleHint", 'b', &is_idle))
        return (double)NAN;
    if (!is_idle)
        return 0;
    if (!get_property(b, handle, "IdleSinceHint", 't', &since_us) || since_us == 0)
        return (double)NAN;
    const qn_clock_offset real = qn_clock_compare(QN_CLOCK_REALTIME);
    const double now_us = (double)(qn_clock_ns() + real.offset_ns) / 1e3;
    return fmax(now_us - (double)since_us, 0) / 60e6;
}

double qn_logind_idle_minutes(void) {
    bus b = {0};
    void *handle = NULL;
    double minutes = (double)NAN;
    if (open_library(&b) && b.open(&handle) >= 0) {
        minutes = ask(&b, handle);
        b.close(handle);
    }
    if (b.library)
        qn_library_close(b.library);
    return minutes;
}
