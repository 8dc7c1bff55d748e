/* What training beside it adds to the frames of a program that draws, and what that takes from
 * training. Usage: bench_foreground [-r HZ] [-w MS] [-t THREADS] [-s SECONDS] [-n ROUNDS] COMMAND
 * Every frame, each of some threads wakes and computes for so many milliseconds, as measured on
 * an idle processor; a frame's latency is from when it was due to when its last thread is done.
 * The command runs in stretches, in turn with stretches in which it is stopped (SIGSTOP), and with
 * stretches in which it runs and nothing is drawn; the processor time that it gets in both is
 * compared. Printed: median, 99 % and mean of the frames' latency alone and beside the command. */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { MOST_FRAMES = 1 << 18, MOST_THREADS = 16 };
enum { ALONE, BESIDE, MODES };

typedef struct settings {
    double hz, work_ms, seconds;
    int n_threads, n_rounds;
} settings;

typedef struct drawing {
    settings s;
    int64_t loops; /* of a frame's work */
    pthread_barrier_t begin, end;
    bool is_over;
} drawing;

static double late_ms[MODES][MOST_FRAMES];
static int n_frames[MODES];

static int64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void sleep_until(int64_t ns) {
    const struct timespec t = {.tv_sec = ns / 1000000000, .tv_nsec = ns % 1000000000};
    while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &t, NULL) != 0)
        ;
}

static volatile float seed = 0.5F;

static void compute(int64_t loops) {
    float x = seed;
    for (int64_t i = 0; i < loops; i++)
        x = x * 0.999F + 0.001F;
    seed = x > 2 ? 0 : 0.5F;
}

/* Loops that take so long: by the shortest of many tries. */
static int64_t calibrate(double ms) {
    enum { LOOPS = 200000, TRIES = 200 };
    int64_t least = INT64_MAX;
    for (int i = 0; i < TRIES; i++) {
        const int64_t begin = now_ns();
        compute(LOOPS);
        const int64_t ns = now_ns() - begin;
        least = ns < least ? ns : least;
    }
    return (int64_t)(ms * 1e6 * LOOPS / (double)least);
}

static void *draw(void *user) {
    drawing *d = user;
    for (;;) {
        pthread_barrier_wait(&d->begin);
        if (d->is_over)
            return NULL;
        compute(d->loops);
        pthread_barrier_wait(&d->end);
    }
}

/* Frames for some seconds. The caller is one of the threads. */
static void draw_for(drawing *d, int mode) {
    const int64_t frame_ns = (int64_t)(1e9 / d->s.hz), begin = now_ns() + frame_ns;
    const int64_t n = (int64_t)(d->s.seconds * d->s.hz);
    for (int64_t i = 0; i < n && n_frames[mode] < MOST_FRAMES; i++) {
        const int64_t due = begin + i * frame_ns;
        sleep_until(due);
        pthread_barrier_wait(&d->begin);
        compute(d->loops);
        pthread_barrier_wait(&d->end);
        late_ms[mode][n_frames[mode]++] = (double)(now_ns() - due) * 1e-6;
    }
}

/* ---- the command ---- */

static pid_t start(char **command) {
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        setpriority(PRIO_PROCESS, 0, 0); /* the frames may have a better one */
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(126);
        execvp(command[0], command);
        _exit(127);
    }
    setpgid(child, child);
    return child;
}

/* Seconds of processor time of a process so far. */
static double cpu_seconds(pid_t process) {
    char path[64], text[1024] = "";
    unsigned long long user = 0, system = 0;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)process);
    FILE *f = fopen(path, "r");
    const size_t n = f ? fread(text, 1, sizeof text - 1, f) : 0;
    if (f)
        fclose(f);
    text[n] = 0;
    const char *at = strrchr(text, ')');
    if (at)
        sscanf(at + 2, "%*c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %llu %llu", &user, &system);
    return (double)(user + system) / (double)sysconf(_SC_CLK_TCK);
}

static bool has_ended(pid_t child) {
    int status;
    return waitpid(child, &status, WNOHANG) == child;
}

/* ---- results ---- */

static int compare(const void *a, const void *b) {
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static double part(int mode, double of) {
    return late_ms[mode][(int)(of * (n_frames[mode] - 1))];
}

static double mean(int mode) {
    double sum = 0;
    for (int i = 0; i < n_frames[mode]; i++)
        sum += late_ms[mode][i];
    return sum / n_frames[mode];
}

static void print(double free_s, double beside_s) {
    static const char *const names[MODES] = {"alone", "beside"};
    for (int mode = 0; mode < MODES; mode++)
        qsort(late_ms[mode], (size_t)n_frames[mode], sizeof late_ms[mode][0], compare);
    printf("%-8s %7s %9s %9s %9s\n", "frames", "count", "median ms", "99 % ms", "mean ms");
    for (int mode = 0; mode < MODES; mode++)
        printf("%-8s %7d %9.3f %9.3f %9.3f\n", names[mode], n_frames[mode], part(mode, 0.5),
               part(mode, 0.99), mean(mode));
    printf("%-8s %7s %9.3f %9.3f %9.3f\n", "added", "", part(BESIDE, 0.5) - part(ALONE, 0.5),
           part(BESIDE, 0.99) - part(ALONE, 0.99), mean(BESIDE) - mean(ALONE));
    printf("processor time of the command beside frames: %.2f of what it gets without\n",
           beside_s / free_s);
}

static int measure(drawing *d, char **command) {
    const pid_t child = start(command);
    double free_s = 0, beside_s = 0;
    bool is_good = true;
    sleep_until(now_ns() + 3000000000); /* it begins to train */
    for (int round = 0; round < d->s.n_rounds && is_good; round++) {
        kill(-child, SIGSTOP);
        draw_for(d, ALONE);
        kill(-child, SIGCONT);
        const double before = cpu_seconds(child);
        draw_for(d, BESIDE);
        const double between = cpu_seconds(child);
        sleep_until(now_ns() + (int64_t)(d->s.seconds * 1e9));
        beside_s += between - before;
        free_s += cpu_seconds(child) - between;
        is_good = !has_ended(child);
    }
    kill(-child, SIGKILL);
    if (is_good)
        (void)waitpid(child, NULL, 0);
    else
        fprintf(stderr, "the command ended before the frames did\n");
    print(free_s, beside_s);
    return is_good ? 0 : 1;
}

static int run(drawing *d, char **command) {
    pthread_t threads[MOST_THREADS];
    d->loops = calibrate(d->s.work_ms);
    pthread_barrier_init(&d->begin, NULL, (unsigned)d->s.n_threads);
    pthread_barrier_init(&d->end, NULL, (unsigned)d->s.n_threads);
    for (int i = 1; i < d->s.n_threads; i++)
        pthread_create(&threads[i], NULL, draw, d);
    const int result = measure(d, command);
    d->is_over = true;
    pthread_barrier_wait(&d->begin);
    for (int i = 1; i < d->s.n_threads; i++)
        pthread_join(threads[i], NULL);
    return result;
}

int main(int argc, char **argv) {
    static drawing d = {.s = {60, 4, 2, 1, 5}};
    for (int option; (option = getopt(argc, argv, "+r:w:t:s:n:")) >= 0;) {
        const double value = optarg ? strtod(optarg, NULL) : 0;
        d.s.hz = option == 'r' ? value : d.s.hz;
        d.s.work_ms = option == 'w' ? value : d.s.work_ms;
        d.s.n_threads = option == 't' ? (int)value : d.s.n_threads;
        d.s.seconds = option == 's' ? value : d.s.seconds;
        d.s.n_rounds = option == 'n' ? (int)value : d.s.n_rounds;
    }
    if (optind >= argc || !(d.s.hz > 0) || d.s.n_threads < 1 || d.s.n_threads > MOST_THREADS) {
        fprintf(stderr, "usage: bench_foreground [-r HZ] [-w MS] [-t THREADS] [-s SECONDS] "
                        "[-n ROUNDS] COMMAND...\n");
        return 2;
    }
    return run(&d, argv + optind);
}
