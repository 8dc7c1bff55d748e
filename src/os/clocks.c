/* Clocks besides our own; see os.h. */
#define _GNU_SOURCE /* timegm */
#include "os/os.h"

#include <time.h>

/* The more often it is tried, the less likely is it that each try was interrupted. */
enum { TRIES = 8 };

static const clockid_t ids[QN_CLOCK_COUNT] = {
    [QN_CLOCK_REALTIME] = CLOCK_REALTIME,
    [QN_CLOCK_MONOTONIC] = CLOCK_MONOTONIC,
    [QN_CLOCK_BOOTTIME] = CLOCK_BOOTTIME,
};

static int64_t read_clock(qn_clock clock) {
    struct timespec now = {0};
    clock_gettime(ids[clock], &now);
    return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

qn_clock_offset qn_clock_compare(qn_clock clock) {
    qn_clock_offset best = {.error_ns = INT64_MAX};
    if (clock == QN_CLOCK_MONOTONIC) /* it is ours */
        return (qn_clock_offset){.at_ns = qn_clock_ns()};
    for (int i = 0; i < TRIES; i++) {
        const int64_t before_ns = qn_clock_ns();
        const int64_t there_ns = read_clock(clock);
        const int64_t after_ns = qn_clock_ns(), width_ns = after_ns - before_ns;
        if (width_ns < best.error_ns)
            best = (qn_clock_offset){before_ns, there_ns - before_ns - width_ns / 2, width_ns};
    }
    return best;
}

void qn_sleep_ns(int64_t ns) {
    if (ns > 0)
        (void)nanosleep(&(struct timespec){.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000},
                        NULL);
}

const char *qn_clock_print_date(char text[QN_DATE_TEXT]) {
    const time_t now = time(NULL);
    struct tm here = {0};
    localtime_r(&now, &here);
    if (strftime(text, QN_DATE_TEXT, "%Y-%m-%d %H:%M", &here) == 0)
        text[0] = 0;
    return text;
}

int64_t qn_clock_local_second(void) {
    const time_t now = time(NULL);
    struct tm here = {0};
    localtime_r(&now, &here);
    return timegm(&here);
}

const char *qn_clock_print_second(int64_t second, char text[QN_DATE_TEXT]) {
    const time_t moment = (time_t)second;
    struct tm date;
    if (!gmtime_r(&moment, &date) || strftime(text, QN_DATE_TEXT, "%Y-%m-%d %H:%M:%S", &date) == 0)
        text[0] = 0;
    return text;
}
