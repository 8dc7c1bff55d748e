/* How close packings come to the bytes alive at once, and how long they take: over the training
 * graphs of the whole zoo, and over rectangles cut into boxes, of which a perfect packing is known.
 * Rectangles are timed by the processor's time, so that other programs matter little; only the
 * limit is by the clock. Usage: bench_packing zoo [MODEL] | cut [SECONDS [FIRST LAST]] */
#include "../tests/cut_rectangle.h"
#include "os/os.h"
#include "plan/packing/packing.h"
#include "quern/quern.h"
#include "run/inspect.h"
#include "run/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static void stop(const char *what) {
    fprintf(stderr, "bench_packing: %s: %s\n", what, qn_error_message());
    exit(1);
}

static int by_double(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

/* ---- the zoo ---- */

static double ratios[4096], worst_ms;
static int n_ratios;

static void pack_program(const qn_program *program, const char *model, const char *batch) {
    const qn_plan *plan = program->plan;
    qn_box *boxes = malloc((size_t)plan->n_storages * sizeof *boxes);
    qn_packing packing;
    int32_t n = 0;
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (!s->is_bound)
            boxes[n++] = (qn_box){.lower = s->first, .upper = s->last + 1, .bytes = s->bytes};
    }
    double ms[2];
    size_t tops[2];
    for (int i = 0; i < 2; i++) {
        const qn_packing_options options = {.most_work = i ? INT64_MAX : 0,
                                            .most_ns = i ? 950000000 : 0};
        const int64_t begin_ns = qn_clock_ns();
        if (qn_pack(NULL, boxes, n, &options, &packing) != QN_OK)
            stop(model);
        ms[i] = (double)(qn_clock_ns() - begin_ns) * 1e-6;
        tops[i] = packing.top_bytes;
    }
    if (qn_packing_check(boxes, n, packing.top_bytes) != QN_OK)
        stop(model);
    const double bound = (double)packing.lower_bound_bytes;
    ratios[n_ratios++] = (double)packing.top_bytes / bound;
    worst_ms = ms[1] > worst_ms ? ms[1] : worst_ms;
    printf("%-16s %5s %-12s %5d  %8.4f %8.2f ms  %8.4f %8.2f ms\n", model, batch, program->name, n,
           (double)tops[0] / bound, ms[0], (double)tops[1] / bound, ms[1]);
    free(boxes);
}

static void pack_model(const qn_model *model, const char *batch) {
    qn_metadata *settings = NULL;
    qn_task *task = NULL;
    if (qn_metadata_create(NULL, &settings) != QN_OK ||
        qn_metadata_set(settings, "data", "synthetic") != QN_OK ||
        qn_metadata_set(settings, "batch", batch) != QN_OK)
        stop(model->name);
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = model, .settings = settings,
                                     .training = true,     .n_threads = 2, .plan_only = true};
    if (qn_task_open(&options, &task) != QN_OK)
        stop(model->name);
    const qn_engine *engine = qn_task_engine(task);
    for (int i = 0; i < qn_engine_program_count(engine); i++)
        pack_program(qn_engine_get_program(engine, i), model->name, batch);
    qn_task_close(task);
    qn_metadata_destroy(settings);
}

static void pack_zoo(const char *only) {
    static const char *const batches[] = {"4", "16", "64"};
    for (int i = 0; qn_model_at(i); i++)
        for (int j = 0; j < 3; j++)
            if (!only || strcmp(only, qn_model_at(i)->name) == 0)
                pack_model(qn_model_at(i), batches[j]);
    qsort(ratios, (size_t)n_ratios, sizeof *ratios, by_double);
    printf("%d programs: median %.4f, largest %.4f, longest %.0f ms\n", n_ratios,
           ratios[n_ratios / 2], ratios[n_ratios - 1], worst_ms);
}

/* ---- rectangles ---- */

typedef struct cutting {
    cut_kind kind;
    int64_t times, bytes;
    int32_t n, hole_percent; /* boxes at most; how many are taken out again */
} cutting;

static const cutting cuttings[] = {
    {CUT_STRAIGHT, 1024, 1024, 150, 0}, {CUT_STRAIGHT, 1024, 1024, 500, 0},
    {CUT_PINWHEEL, 1024, 1024, 150, 0}, {CUT_PINWHEEL, 1024, 1024, 500, 0},
    {CUT_BRICKS, 1024, 1024, 150, 0},   {CUT_BRICKS, 1024, 1024, 500, 0},
    {CUT_STRAIGHT, 1024, 1024, 300, 3}, {CUT_PINWHEEL, 1024, 1024, 300, 3},
    {CUT_STRAIGHT, 256, 256, 300, 0},   {CUT_PINWHEEL, 256, 256, 300, 0},
    {CUT_STRAIGHT, 128, 1024, 300, 0},  {CUT_PINWHEEL, 128, 1024, 500, 0},
    {CUT_STRAIGHT, 64, 1024, 200, 0},   {CUT_STRAIGHT, 64, 1024, 500, 0},
    {CUT_PINWHEEL, 64, 1024, 150, 0},   {CUT_PINWHEEL, 64, 1024, 300, 0},
    {CUT_BRICKS, 64, 1024, 300, 0},
};

static double processor_seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void pack_cutting(const cutting *c, double seconds, int first, int last) {
    static qn_box boxes[4096];
    double times[1000], tops[1000], greedy[1000];
    int n_within = 0, n_quick = 0, n_runs = 0;
    for (int seed = first; seed < last && n_runs < 1000; seed++, n_runs++) {
        int32_t n = cut_rectangle(c->kind, (uint64_t)seed, c->times, c->bytes, boxes, c->n);
        n -= n * c->hole_percent / 100;
        qn_packing packing;
        qn_packing_options options = {0};
        if (qn_pack(NULL, boxes, n, &options, &packing) != QN_OK)
            stop("qn_pack");
        greedy[n_runs] = (double)packing.top_bytes / (double)c->bytes;
        options.most_work = INT64_MAX;
        options.most_ns = (int64_t)(seconds * 1e9);
        options.capacity = (size_t)c->bytes * 101 / 100;
        const double begin = processor_seconds();
        if (qn_pack(NULL, boxes, n, &options, &packing) != QN_OK ||
            qn_packing_check(boxes, n, packing.top_bytes) != QN_OK)
            stop("qn_pack");
        times[n_runs] = processor_seconds() - begin;
        tops[n_runs] = (double)packing.top_bytes / (double)c->bytes;
        n_within += tops[n_runs] <= 1.01;
        n_quick += tops[n_runs] <= 1.01 && times[n_runs] <= 10;
    }
    qsort(times, (size_t)n_runs, sizeof *times, by_double);
    qsort(tops, (size_t)n_runs, sizeof *tops, by_double);
    qsort(greedy, (size_t)n_runs, sizeof *greedy, by_double);
    printf(
        "%-8s %4d x %4d, at most %3d boxes, %d %% out: greedy %.3f to %.3f; within 1 %%: %d of %d, "
        "in 10 s %d; median %.4f largest %.4f; seconds: median %.2f, ninth of ten %.2f, longest "
        "%.2f\n",
        cut_names[c->kind], (int)c->times, (int)c->bytes, c->n, c->hole_percent, greedy[0],
        greedy[n_runs - 1], n_within, n_runs, n_quick, tops[n_runs / 2], tops[n_runs - 1],
        times[n_runs / 2], times[(n_runs * 9 - 1) / 10], times[n_runs - 1]);
    fflush(stdout);
}

int main(int n, char **arguments) {
    if (n > 1 && strcmp(arguments[1], "zoo") == 0)
        pack_zoo(n > 2 ? arguments[2] : NULL);
    if (n > 1 && strcmp(arguments[1], "cut") == 0)
        for (size_t i = 0; i < sizeof cuttings / sizeof *cuttings; i++)
            pack_cutting(&cuttings[i], n > 2 ? atof(arguments[2]) : 10,
                         n > 4 ? atoi(arguments[3]) : 0, n > 4 ? atoi(arguments[4]) : 10);
    return 0;
}
