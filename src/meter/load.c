/* See load.h. */
#include "meter/load.h"

#include "os/probe.h"
#include "os/process/cpu_time.h"

#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* user, nice, system, idle, wait for disks, interrupts, soft interrupts, steal; what guests used is
 * in the first two. */
enum { IDLE = 3, DISKS = 4, LEAST_FIELDS = 4, MOST_FIELDS = 8 };
enum { TICK_NS = 10000000, LEAST_TICKS = 10, STAT_TEXT = 512 };

/* More than the processors of any machine use in a hundred years. */
#define MOST_TICKS (UINT64_C(1) << 36)

qn_load qn_load_parse(const char *text) {
    qn_load load = {0};
    int n = 0;
    if (strncmp(text, "cpu ", 4) != 0)
        return load;
    text += 4;
    for (; n < MOST_FIELDS; n++) {
        char *end;
        text += strspn(text, " ");
        if (!isdigit((unsigned char)*text))
            break;
        const unsigned long long ticks = strtoull(text, &end, 10);
        const int64_t ns = (int64_t)(ticks < MOST_TICKS ? ticks : MOST_TICKS) * TICK_NS;
        load.all_ns += ns;
        load.busy_ns += n == IDLE || n == DISKS ? 0 : ns;
        text = end;
    }
    load.is_known = n >= LEAST_FIELDS;
    return load.is_known ? load : (qn_load){0};
}

qn_load qn_load_read(const char *root, int64_t process) {
    char path[256], text[STAT_TEXT];
    snprintf(path, sizeof path, "%s/proc/stat", root);
    if (qn_probe_text_at(path, text, sizeof text) != QN_OK)
        return (qn_load){0};
    qn_load load = qn_load_parse(text);
    if (!*root) {
        load.own_ns = qn_process_cpu_ns(process);
        load.is_known = load.is_known && load.own_ns >= 0;
    }
    return load;
}

double qn_load_others(const qn_load *begin, const qn_load *end) {
    const int64_t all_ns = end->all_ns - begin->all_ns;
    const int64_t busy_ns = end->busy_ns - begin->busy_ns;
    const int64_t own_ns = end->own_ns - begin->own_ns;
    if (!begin->is_known || !end->is_known || all_ns < LEAST_TICKS * TICK_NS)
        return NAN;
    return fmin(fmax((double)(busy_ns - own_ns) / (double)all_ns, 0), 1);
}
