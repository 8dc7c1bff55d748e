/* A disk as a memory space: a file that values are copied to and from (os/files/swap_file.h), which
 * the host cannot map. Its queues do nothing but copy, several requests at a time, so that the disk
 * is busy while a queue's work is short. What is read is what was written, or the queue fails.
 *
 * Memories are the file from its beginning: what plans have in it that run in turn is shared, as
 * arenas are. Without a state (null) it can be planned for, but not used. */
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
