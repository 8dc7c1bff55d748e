/* A machine of the CPU alone for an argument, or of it and a disk that is not open: it lives to the
 * end of the block. */
#ifndef QN_TESTS_A_MACHINE_H
#define QN_TESTS_A_MACHINE_H

#include "device/disk.h"
#include "device/machine.h"

#include <stdlib.h>

#define A_MACHINE(kernels, n_threads) ((const qn_machine[]){qn_machine_cpu(kernels, n_threads)})

__attribute__((unused)) static qn_machine a_disk_machine(const qn_kernels *kernels, int n_threads,
                                                         void *state) {
    qn_machine machine = qn_machine_cpu(kernels, n_threads);
    int row;
    if (qn_machine_add(&machine, &qn_device_disk, state, &row) != QN_OK)
        abort();
    return machine;
}

#define A_DISK_MACHINE(kernels, n_threads)                                                         \
    ((const qn_machine[]){a_disk_machine(kernels, n_threads, NULL)})

#endif
