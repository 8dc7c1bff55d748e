/* The machine that plans are made for and run on: its opened devices, all their memory spaces, the
 * CPU's kernel tables, and the threads of lane 0. A plain struct that its owner keeps until
 * everything made with it is gone.
 *
 * Invariants:
 *   devices[0] is the CPU; spaces[0] is the host's memory, where the CPU works
 *   the spaces of device d are spaces[d.first_space] and the d.device->n_spaces - 1 after it
 *   kernels of a real type compute in it: f32->real = QN_F32, f64->real = QN_F64 */
#ifndef QN_DEVICE_MACHINE_H
#define QN_DEVICE_MACHINE_H

#include "device/device.h"

enum { QN_MAX_SPACES = 8, QN_MAX_DEVICES = 8 };

/* A device as it was opened. */
typedef struct qn_machine_device {
    const qn_device *device;
    void *state;
    int16_t first_space; /* of the machine's, that is its row 0; 0: it works in the host's */
} qn_machine_device;

/* A memory space, and whose it is. */
typedef struct qn_machine_space {
    const qn_space *space;
    int16_t device; /* row of the machine's */
    int16_t row;    /* of that device's spaces */
} qn_machine_space;

typedef struct qn_machine {
    int n_threads; /* of lane 0 */
    int n_devices, n_spaces;
    const qn_kernels *f32, *f64;
    qn_machine_device devices[QN_MAX_DEVICES]; /* (n_devices) */
    qn_machine_space spaces[QN_MAX_SPACES];    /* (n_spaces) */
} qn_machine;

/* A machine of nothing but the CPU, which computes one real type with the given table and the other
 * one with the reference's. */
qn_machine qn_machine_cpu(const qn_kernels *kernels, int n_threads);

/* A machine with the tables of an instruction set. */
qn_machine qn_machine_of_isa(qn_isa isa, int n_threads);

/* Takes another table for its real type. */
void qn_machine_set_kernels(qn_machine *machine, const qn_kernels *kernels);

/* The table of a real type. */
const qn_kernels *qn_machine_kernels(const qn_machine *machine, qn_dtype real);

/* Adds a device that is open, with its spaces: its row, for lanes. QN_ERROR_ARGUMENT: there are
 * QN_MAX_DEVICES or QN_MAX_SPACES already. */
qn_status qn_machine_add(qn_machine *machine, const qn_device *device, void *state, int *row);

/* The first space that is a disk's, where values are swapped to; -1: there is none. */
int qn_machine_disk(const qn_machine *machine);

/* Whether two spaces are the same chips, and so share one budget: those of the host and of the
 * disk are one each; others are one where they belong to the same device. */
bool qn_machine_same_memory(const qn_machine *machine, int space, int other);

/* ---- a device asked about a node ---- */

/* A node of a graph as it is asked about; outputs is room for their descriptions. */
qn_query qn_machine_query(const qn_graph *graph, const qn_node *node, int n_threads,
                          qn_tensor outputs[QN_MAX_OUTPUTS]);

/* Scratch memory of a call on a device; 0: none. */
size_t qn_machine_workspace(const qn_machine *machine, int device, const qn_query *query);

/* Whether a device runs it. */
bool qn_machine_supports(const qn_machine *machine, int device, const qn_query *query);

/* Estimated nanoseconds of a node on a device; negative: only measuring tells. */
double qn_machine_cost_ns(const qn_machine *machine, int device, const qn_graph *graph,
                          const qn_node *node);

/* Of an operator that sums over the batch: the chunk, in the first axis of input 0, that pieces of
 * the sum but the last must be whole numbers of, so that its bits stay; 0: it may not be made in
 * pieces. Asked of the CPU, whose bits are the reference. */
int64_t qn_machine_chunk(const qn_machine *machine, const qn_query *query);

#endif
