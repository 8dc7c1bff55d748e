/* See pressure.h. The line "some avg10=P ..." of the file is polled. If a trigger can be set
 * (kernel 5.2, and 6.5 for unprivileged programs), waiting ends early when it fires. */
#define _GNU_SOURCE
#include "os/pressure.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/probe.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static const char system_path[] = "/proc/pressure/memory";

/* 200 ms of waiting within 2 s: programs without rights may only ask for windows of 2 s. */
static const char trigger_text[] = "some 200000 2000000";

struct qn_pressure {
    const qn_allocator *allocator;
    qn_pressure_options options;
    char *path;
    size_t path_bytes;
    qn_probe probe;
    int trigger; /* descriptor, or -1: none */
    int wake[2]; /* a pipe: closing its end ends the thread */
    qn_thread *thread;
};

static bool read_share(const qn_pressure *p, double *percent) {
    static const char name[] = "some avg10=";
    char text[256], *end;
    return qn_probe_text(&p->probe, text, sizeof text) == QN_OK &&
           strncmp(text, name, strlen(name)) == 0 &&
           (*percent = qn_decimal_read(text + strlen(name), &end), end != text + strlen(name));
}

/* Sleeps until it is time to look, the trigger fires (true) or the end is wanted (*ends). */
static bool wait_for(const qn_pressure *p, bool *ends) {
    struct pollfd files[] = {{p->wake[0], POLLIN, 0}, {p->trigger, POLLPRI, 0}};
    const int n = poll(files, 2, (int)(p->options.every_ns / 1000000));
    *ends = n > 0 && files[0].revents;
    return n > 0 && (files[1].revents & POLLPRI);
}

static void watch(void *context) {
    qn_pressure *p = context;
    bool is_short = false, ends = false;
    int64_t calm_since = qn_clock_ns();
    for (;;) {
        const bool has_fired = wait_for(p, &ends);
        double percent = 0;
        if (ends)
            return;
        const bool is_high =
            has_fired || (read_share(p, &percent) && percent >= p->options.high_percent);
        const int64_t now = qn_clock_ns();
        calm_since = is_high ? now : calm_since;
        const bool was_short = is_short;
        is_short = is_high || (is_short && now - calm_since < p->options.calm_ns);
        if (is_short != was_short)
            p->options.changed(p->options.user, is_short);
    }
}

static void set_trigger(qn_pressure *p) {
    p->trigger = -1;
    if (strcmp(p->path, system_path) != 0)
        return;
    const int file = open(p->path, O_RDWR | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && write(file, trigger_text, sizeof trigger_text) < 0)
        close(file);
    else
        p->trigger = file;
}

static qn_status open_all(qn_pressure *p) {
    const char *path = p->options.path ? p->options.path : system_path;
    double percent;
    p->path_bytes = strlen(path) + 1;
    QN_TRY(qn_allocate(p->allocator, 1, p->path_bytes, &p->path));
    memcpy(p->path, path, p->path_bytes);
    const qn_status status = qn_probe_open(path, &p->probe);
    if (status != QN_OK || !read_share(p, &percent))
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "this system does not say how short of memory it is: %s",
                       status != QN_OK ? qn_error_message() : "its file has another form");
    if (pipe2(p->wake, O_CLOEXEC) != 0) {
        p->wake[0] = p->wake[1] = -1;
        return qn_fail(QN_ERROR_IO, "cannot make a pipe: %s", strerror(errno));
    }
    set_trigger(p);
    return qn_thread_start(p->allocator, watch, p, &p->thread);
}

qn_status qn_pressure_open(const qn_pressure_options *options, qn_pressure **pressure) {
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    qn_pressure *p;
    QN_TRY(qn_allocate(allocator, 1, sizeof *p, &p));
    p->allocator = allocator;
    p->options = *options;
    p->options.high_percent = options->high_percent > 0 ? options->high_percent : 10;
    p->options.calm_ns = options->calm_ns > 0 ? options->calm_ns : 10000000000;
    p->options.every_ns = options->every_ns > 0 ? options->every_ns : 1000000000;
    p->trigger = p->wake[0] = p->wake[1] = -1;
    const qn_status status = open_all(p);
    if (status != QN_OK) {
        qn_pressure_close(p);
        return status;
    }
    *pressure = p;
    return QN_OK;
}

static void close_file(int file) {
    if (file >= 0)
        close(file);
}

void qn_pressure_close(qn_pressure *p) {
    if (!p)
        return;
    close_file(p->wake[1]);
    qn_thread_join(p->thread);
    close_file(p->wake[0]);
    close_file(p->trigger);
    qn_probe_close(&p->probe);
    qn_release(p->allocator, p->path, 1, p->path_bytes);
    qn_release(p->allocator, p, 1, sizeof *p);
}
