/* The kernels, compiled by NVIDIA's own run-time compiler for the architectures of Jetsons (87) and
 * of data-centre GPUs; skipped, with a word, where it is not there. One that the compiler does not
 * know gets code for the newest before it, which drivers translate. */
#define _GNU_SOURCE /* memmem */
#include "base/status.h"
#include "check.h"
#include "driver/cuda/compile.h"
#include "os/heap.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void check(int architecture, const char *begin) {
    const qn_allocator *a = qn_allocator_default();
    const qn_gpu_tile tile = qn_gpu_choose_tile(1024, false, 0);
    char *code = NULL;
    size_t bytes = 0;
    CHECK_OK(qn_cuda_compile(a, &tile, architecture, &code, &bytes));
    if (!code)
        return;
    bool has_all = true;
    for (int i = 0; i < QN_GPU_KERNEL_COUNT; i++)
        has_all &=
            memmem(code, bytes, qn_gpu_kernel_names[i], strlen(qn_gpu_kernel_names[i])) != NULL;
    CHECK(has_all && bytes > strlen(begin) && memmem(code, 64, begin, strlen(begin)) != NULL);
    printf("architecture %d: %zu bytes\n", architecture, bytes);
    qn_release(a, code, 1, bytes);
}

int main(void) {
    const qn_nvrtc_api *rtc;
    if (qn_nvrtc_api_get(&rtc) != QN_OK) {
        printf("skipped: %s\n", qn_error_message());
        return checks_finish();
    }
    check(87, "\177ELF");
    check(90, "\177ELF");
    check(999, "//"); /* of a GPU to come */
    if (getenv("QUERN_ALL")) {
        check(80, "\177ELF");
        check(75, "\177ELF");
    }
    return checks_finish();
}
