/* Operators on a CUDA device (gpu_operators.h): where tests have their own CUDA libraries, whose
 * device runs the same kernels as C (tests/fake/cuda.c), that one. */
#include "driver/cuda/cuda.h"
#include "gpu_operators.h"

int main(void) {
    const qn_cuda_options options = {0};
    void *state;
    if (!gpu_open(&qn_device_cuda, &options, &state))
        return checks_finish();
    check_operators(&qn_device_cuda, state, NULL);
    qn_device_cuda.close(state);
    return checks_finish();
}
