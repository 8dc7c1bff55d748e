/* A load of known duty, pinned to one core, and what the sampler says of it:
 *     known_load PERCENT SECONDS          samples itself
 *     known_load PERCENT SECONDS other    the load is another process, and that one is sampled
 *     known_load PERCENT SECONDS CONTROL ACK    perf stat counts from the load's begin to its end:
 *                                         the two named pipes of its --control
 * Prints a line of JSON: the duty that was reached by the load's own processor time, what the
 * system says of it (getrusage) and of the core (/proc/stat), and what the sampler's channels say.
 */
#define _GNU_SOURCE

#include "meter/sampler.h"
#include "os/os.h"
#include "os/process/cpu_time.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

/* perf stat sees nothing of a switch between threads, some 20 us each that the kernel's own clocks
 * do count: beside it load and sampler sleep less often, so that these stay below a part in 300. */
enum { PERIOD_NS = 10000000, PERF_PERIOD_NS = 100000000 };

/* The last processor that this process may run on. */
static int last_cpu(void) {
    cpu_set_t set;
    int cpu = 0;
    sched_getaffinity(0, sizeof set, &set);
    for (int i = 0; i < CPU_SETSIZE; i++)
        if (CPU_ISSET(i, &set))
            cpu = i;
    return cpu;
}

static void sleep_until(int64_t moment_ns) {
    const struct timespec moment = {.tv_sec = moment_ns / 1000000000,
                                    .tv_nsec = moment_ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &moment, NULL) != 0)
        ;
}

/* In every period the part that is asked for, by the time that this thread really ran: another
 * program on the core delays it, and does not change the duty. The duty that was reached. */
static double load(double duty, double seconds, int64_t period_ns) {
    const struct sched_param first = {.sched_priority = 1};
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(last_cpu(), &set);
    sched_setaffinity(0, sizeof set, &set);
    sched_setscheduler(0, SCHED_FIFO, &first); /* where that is allowed */
    const int64_t begin_ns = qn_clock_ns(), cpu_ns = qn_thread_cpu_ns();
    const int64_t n_periods = (int64_t)(seconds * 1e9 / (double)period_ns);
    for (int64_t i = 0; i < n_periods; i++) {
        while ((double)(qn_thread_cpu_ns() - cpu_ns) < duty * (double)((i + 1) * period_ns))
            ;
        sleep_until(begin_ns + (i + 1) * period_ns);
    }
    return (double)(qn_thread_cpu_ns() - cpu_ns) / (double)(qn_clock_ns() - begin_ns);
}

/* Units of 10 ms that the core has been idle. */
static long long idle_ticks(int cpu) {
    FILE *file = fopen("/proc/stat", "r");
    char line[512];
    long long idle = 0, waiting = 0;
    int number;
    while (file && fgets(line, sizeof line, file))
        if (sscanf(line, "cpu%d %*d %*d %*d %lld %lld", &number, &idle, &waiting) == 3 &&
            number == cpu)
            break;
    if (file)
        fclose(file);
    return idle + waiting;
}

static double seconds_of(struct timeval user, struct timeval system) {
    return (double)(user.tv_sec + system.tv_sec) + (double)(user.tv_usec + system.tv_usec) * 1e-6;
}

static double used_seconds(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return seconds_of(usage.ru_utime, usage.ru_stime);
}

/* Busy seconds of a channel, and the seconds that were seen. */
static double busy_seconds(const qn_sampler *s, const char *name, double *seen) {
    *seen = 0;
    for (int i = 0; i < qn_sampler_channel_count(s); i++) {
        double busy = 0;
        size_t n;
        const qn_reading *readings = qn_sampler_readings(s, i, &n);
        if (strcmp(qn_sampler_channel(s, i)->name, name) != 0)
            continue;
        for (size_t j = 0; j < n; j++) {
            const double span = (double)(readings[j].end_ns - readings[j].begin_ns) * 1e-9;
            busy += readings[j].value * span;
            *seen += span;
        }
        return busy;
    }
    return 0;
}

/* The channel's mean: over the time that was seen, or over a span in which all of it was busy. */
static void print_channel(const qn_sampler *s, const char *key, const char *name, double span) {
    double seen;
    const double busy = busy_seconds(s, name, &seen);
    const double time = span > 0 ? span : seen;
    printf(", \"%s\": %.6f, \"%s_seconds\": %.6f", key, time > 0 ? busy / time : -1, key, busy);
}

/* Runs the load in a child: its number, and a pipe that says the duty at the end. */
static pid_t start_other(double duty, double seconds, int *from) {
    int ends[2];
    if (pipe(ends) != 0)
        exit(2);
    const pid_t child = fork();
    if (child == 0) {
        const double reached = load(duty, seconds, PERIOD_NS);
        const ssize_t n = write(ends[1], &reached, sizeof reached);
        pause();
        _exit(n != sizeof reached);
    }
    *from = ends[0];
    return child;
}

/* Has perf stat enable or disable its counter, and waits until it has. Nothing without pipes. */
static void tell_perf(const int pipes[2], const char *word) {
    char answer[8];
    if (pipes[0] >= 0 &&
        (write(pipes[0], word, strlen(word)) < 0 || read(pipes[1], answer, sizeof answer) <= 0)) {
        perror("perf stat");
        exit(2);
    }
}

int main(int argc, char **argv) {
    if (argc < 3)
        return 2;
    const double duty = atof(argv[1]) / 100, seconds = atof(argv[2]);
    const bool is_other = argc == 4;
    const int perf[2] = {argc == 5 ? open(argv[3], O_WRONLY) : -1,
                         argc == 5 ? open(argv[4], O_RDONLY) : -1};
    int from = -1;
    const pid_t child = is_other ? start_other(duty, seconds, &from) : 0;
    qn_sampler *s;
    const qn_sampler_options options = {.pid = child,
                                        .interval_ns = argc == 5 ? PERF_PERIOD_NS / 2 : 0};
    if (qn_sampler_create(&options, &s) != QN_OK || qn_sampler_start(s) != QN_OK) {
        fprintf(stderr, "%s\n", qn_error_message());
        return 2;
    }
    tell_perf(perf, "enable\n");
    const int cpu = last_cpu();
    const int64_t begin_ns = qn_clock_ns();
    const long long idle = idle_ticks(cpu);
    const double used = used_seconds();
    double reached = 0;
    if (is_other) {
        if (read(from, &reached, sizeof reached) != sizeof reached)
            return 2;
    } else {
        reached = load(duty, seconds, argc == 5 ? PERF_PERIOD_NS : PERIOD_NS);
    }
    const double span = (double)(qn_clock_ns() - begin_ns) * 1e-9;
    const double used_here = used_seconds() - used;
    const double idle_part = (double)(idle_ticks(cpu) - idle) * 0.01 / span;
    tell_perf(perf, "disable\n");
    qn_sampler_stop(s);
    char core[16];
    snprintf(core, sizeof core, "cpu%d", cpu);
    printf("{\"duty\": %.6f, \"seconds\": %.6f, \"rusage_seconds\": %.6f, \"core_stat\": %.6f",
           reached, span, used_here, 1 - idle_part);
    print_channel(s, "process", "process", is_other ? 0 : span);
    print_channel(s, "thread", "thread-0", is_other ? 0 : span);
    print_channel(s, "core", core, 0);
    const qn_sampler_cost cost = qn_sampler_get_cost(s);
    printf(", \"ticks\": %lld, \"missed\": %lld, \"busy\": %.6f, \"bytes\": %zu}\n",
           (long long)cost.n_ticks, (long long)cost.n_missed, (double)cost.busy_ns * 1e-9,
           cost.bytes);
    qn_sampler_destroy(s);
    if (is_other) {
        kill(child, SIGKILL);
        waitpid(child, NULL, 0);
    }
    return 0;
}
