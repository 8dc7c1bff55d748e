/* A disk as a memory space: a file to and from which values are copied (os/files/swap_file.h),
 * which the host cannot map. Its queues only copy, several requests at a time, so that the disk
 * stays busy even if single copies are short. Data read equals data written, or the queue fails.
 *
 * All memories start at the beginning of the file: plans that run in turn share it, as they share
 * arenas. Without a state (null) it can be planned for, but not used. */
#ifndef QN_DEVICE_DISK_H
#define QN_DEVICE_DISK_H

#include "device/device.h"

typedef struct qn_disk_options {
    const char *folder;
    size_t bytes; /* of the file: of the largest memory */
    int n_queues; /* that are open at once, at most */
} qn_disk_options;

extern const qn_device qn_device_disk; /* opened with qn_disk_options */

/* Memory that it takes while it is open, with its queues and n_works, the sum of what they take at
 * once. */
size_t qn_disk_memory(const char *folder, int n_queues, int32_t n_works);

#endif
