/* What can run a node. A device is one file and one row in the list. */
#ifndef QN_DEVICE_DEVICE_H
#define QN_DEVICE_DEVICE_H

#include "graph/op.h"

typedef struct qn_device {
    const char *name;
    /* Runs a node to its end. */
    void (*run)(const qn_call *call);
} qn_device;

/* The devices; row 0 is the CPU, which runs every operator. A null pointer ends the list. */
extern const qn_device *const qn_devices[];

#endif
