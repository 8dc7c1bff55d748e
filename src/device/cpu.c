/* The processor itself: runs every operator through its kernel table. */
#include "device/device.h"

#include "graph/graph.h"

static void cpu_run(const qn_call *call) {
    call->node->op->run(call);
}

static const qn_device cpu = {"cpu", cpu_run};

const qn_device *const qn_devices[] = {&cpu, NULL};
