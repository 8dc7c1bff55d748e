/* Kept times of operations: what is put is a name and a time that can be worked with. */
#include "format/operation_times.h"

#include <math.h>
#include <stdlib.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static qn_status put(void *context, int program, const char *node, double ns) {
    (void)context;
    if (program < 0 || !*node || !isfinite(ns) || ns < 0)
        abort();
    return QN_OK;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    qn_operation_times_parse((const char *)data, size, put, NULL);
    return 0;
}
