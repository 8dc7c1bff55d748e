/* Operators on an OpenCL device (gpu_operators.h). Drivers take long to compile kernels, so a few
 * operators stand for all unless $QUERN_ALL is set. And training where the device works in the
 * host's memory: nothing is copied. */
#include "driver/opencl/opencl.h"
#include "gpu_operators.h"
#include "quern/quern.h"
#include "run/offload.h"

/* What stands for all: tiles, a window, sums of columns, rows, sequences, updates. */
static bool is_one_of_few(const qn_op *op) {
    static const char *const few[] = {
        "linear",    "conv2d", "relu", "softmax_cross_entropy", "lstm",
        "attention", "sgd",    "adam", "clip_factor",           "batch_norm_running"};
    for (size_t i = 0; i < sizeof few / sizeof few[0]; i++) {
        if (strcmp(few[i], op->name) == 0)
            return true;
    }
    return false;
}

enum { BATCH = 8, STEPS = 3 };

static _Alignas(64) float x[BATCH * 28 * 28];
static _Alignas(64) int32_t y[BATCH];

static qn_trainer *make(const char *device) {
    qn_trainer_options o = qn_trainer_options_for(qn_model_find("mlp"));
    qn_trainer *trainer;
    o.batch = o.evaluation_batch = BATCH;
    o.engine.n_threads = 1;
    o.engine.device = device;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    return trainer;
}

static int count_copies(const qn_program *p) {
    int n = 0;
    for (int32_t s = 0; s < p->plan->n_steps; s++)
        n += p->graph->nodes[p->plan->steps[s].node]->op->output_space != NULL;
    return n;
}

/* PoCL's memory is the host's, reached by both at any time. */
static void test_shares(void) {
    qn_trainer *cpu = make("cpu"), *shared = make("opencl");
    const qn_engine *e = qn_trainer_engine(shared);
    const qn_machine_device *d = qn_offload_opened(e);
    qn_device_counters counters;
    CHECK(qn_engine_shares(e) && qn_engine_device(e) > 0 && count_copies(&e->programs[0]) == 0);
    for (int i = 0; i < BATCH * 28 * 28; i++)
        x[i] = (float)(i * 37 % 101) / 50 - 1;
    for (int i = 0; i < BATCH; i++)
        y[i] = i % 10;
    for (int i = 0; i < STEPS; i++) {
        qn_step_result a, b;
        CHECK_OK(qn_trainer_step(cpu, x, y, &a));
        CHECK_OK(qn_trainer_step(shared, x, y, &b));
        CHECK(fabs(a.loss - b.loss) < 1e-4 * fabs(a.loss));
    }
    d->device->counters(d->state, &counters);
    CHECK(counters.n_works > 10 && counters.bytes_in == 0 && counters.bytes_out == 0);
    qn_trainer_destroy(cpu);
    qn_trainer_destroy(shared);
}

int main(int n, char **words) {
    const qn_opencl_options options = {0};
    const bool only_operators = n > 1 && strcmp(words[1], "operators") == 0;
    void *state;
    if (!gpu_open(&qn_device_opencl, &options, &state))
        return checks_finish();
    check_operators(&qn_device_opencl, state, getenv("QUERN_ALL") ? NULL : is_one_of_few);
    qn_device_opencl.close(state);
    if (!only_operators)
        test_shares();
    return checks_finish();
}
