/* Five training steps of every model as quern train makes them, on an OpenCL device and on the CPU.
 * The first loss is the same but for rounding. Later losses of networks with many batch norms drift
 * apart by some percent, as they do between the CPU's own instruction sets: they are printed, and
 * held to that. With arguments only of the models named. */
#include "base/status.h"
#include "check.h"
#include "driver/opencl/platforms.h"
#include "quern/quern.h"
#include "run/engine.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { STEPS = 5, STRICT = 1 };

typedef struct run {
    qn_metadata *settings;
    qn_task *task;
    double losses[STEPS];
} run;

static void run_open(run *r, const qn_model *model, const char *device) {
    *r = (run){.task = NULL};
    CHECK_OK(qn_metadata_create(NULL, &r->settings));
    CHECK_OK(qn_metadata_set(r->settings, "data", "synthetic"));
    CHECK_OK(qn_metadata_set(r->settings, "batch", "8"));
    CHECK_OK(
        qn_metadata_set(r->settings, "lr", "0.0005")); /* recipes' diverge with small batches */
    CHECK_OK(qn_metadata_set(r->settings, "device", device));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = model, .settings = r->settings,
                                     .training = true, .engine.n_threads = 2};
    CHECK_OK(qn_task_open(&options, &r->task));
}

static void run_steps(run *r) {
    for (int i = 0; r->task && i < STEPS; i++) {
        qn_metrics metrics;
        CHECK_OK(qn_task_step(r->task, &metrics));
        r->losses[i] = metrics.list[0].value;
    }
}

static void run_close(run *r) {
    qn_task_close(r->task);
    qn_metadata_destroy(r->settings);
}

static int count_on_device(const qn_engine *e) {
    const qn_plan *plan = e->programs[0].plan;
    int n = 0;
    for (int32_t s = 0; s < plan->n_steps; s++)
        n += plan->steps[s].lane > 0 &&
             !e->programs[0].graph->nodes[plan->steps[s].node]->op->output_space;
    return n;
}

/* Of all parameters, beside their size. */
static double distance_of(const qn_engine *a, const qn_engine *b) {
    double distance = 0, size = 0;
    for (int i = 0; i < qn_engine_tensor_count(a); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(a, i);
        const float *x = t.data, *y = qn_engine_find(b, t.name).data;
        for (int64_t j = 0; t.dtype == QN_F32 && !t.is_state && j < qn_shape_count(t.shape); j++) {
            distance += ((double)x[j] - (double)y[j]) * ((double)x[j] - (double)y[j]);
            size += (double)y[j] * (double)y[j];
        }
    }
    return sqrt(distance / size);
}

static void check_model(const qn_model *model) {
    run cpu, device;
    double worst = 0, strict = 0;
    run_open(&cpu, model, "cpu");
    run_open(&device, model, "opencl");
    run_steps(&cpu);
    run_steps(&device);
    for (int i = 0; i < STEPS; i++) {
        const double off = fabs(device.losses[i] - cpu.losses[i]) / fabs(cpu.losses[i]);
        strict = i < STRICT ? fmax(strict, off) : strict;
        worst = fmax(worst, off);
    }
    const double distance = distance_of(qn_task_engine(device.task), qn_task_engine(cpu.task));
    printf("%-16s %4d nodes on the device, loss %.6f, off by %.1e then %.1e, parameters by %.1e\n",
           model->name, count_on_device(qn_task_engine(device.task)), device.losses[STEPS - 1],
           strict, worst, distance);
    fflush(stdout);
    CHECK(isfinite(cpu.losses[STEPS - 1]) && strict < 1e-4);
    CHECK(worst < 0.1 && distance < 0.1);
    run_close(&cpu);
    run_close(&device);
}

static bool is_wanted(const char *model, int n, char **names) {
    for (int i = 1; i < n; i++) {
        if (strcmp(names[i], model) == 0)
            return true;
    }
    return n <= 1;
}

int main(int n, char **names) {
    qn_opencl_device devices[QN_OPENCL_MOST_DEVICES];
    int n_devices;
    if (qn_opencl_find_devices(devices, &n_devices) != QN_OK) {
        printf("skipped: %s\n", qn_error_message());
        return checks_finish();
    }
    for (int i = 0; qn_model_at(i); i++) {
        if (is_wanted(qn_model_at(i)->name, n, names))
            check_model(qn_model_at(i));
    }
    return checks_finish();
}
