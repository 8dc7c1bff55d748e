/* Operators on an OpenCL device (gpu_operators.h). Drivers take long to compile kernels, so a few
 * operators stand for all unless $QUERN_ALL is set. */
#include "device/opencl/opencl.h"
#include "gpu_operators.h"

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

int main(void) {
    const qn_opencl_options options = {0};
    void *state;
    if (!gpu_open(&qn_device_opencl, &options, &state))
        return checks_finish();
    check_operators(&qn_device_opencl, state, getenv("QUERN_ALL") ? NULL : is_one_of_few);
    qn_device_opencl.close(state);
    return checks_finish();
}
