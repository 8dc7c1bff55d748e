/* How the CPU runs operators: each has a row with its functions, in the table of its family's file.
 * A row uses the kernel table of the node's real type. */
#ifndef QN_DEVICE_CPU_CPU_H
#define QN_DEVICE_CPU_CPU_H

#include "device/machine.h"
#include "kernels/integer.h"
#include "ops/rescaled.h"

/* Types of input 0, or where there is none of output 0, as a mask. */
#define QN_TYPES(dtype) (UINT32_C(1) << (dtype))
#define QN_TYPES_ANY    UINT32_MAX

/* Where an operator has several rows, they are neighbours, and the first one that takes a node's
 * types is the node's. */
typedef struct qn_cpu_operator {
    const qn_op *op; /* null ends a table */
    /* That it runs (QN_TYPES); 0: those with kernels of the node's real type, whose operands are
     * QN_F32 or QN_F64, and whole numbers where the operator takes them. */
    uint32_t types;
    void (*run)(const qn_call *call);
    /* Scratch of a call; null: none. */
    size_t (*workspace)(const qn_kernels *kernels, const void *attributes, const qn_tensor *inputs,
                        const qn_tensor *outputs, int n_threads);
    /* Of an operator that sums over the batch: the chunk that pieces but the last must be whole
     * numbers of, in the first axis of input 0, or 0: not with these attributes. */
    int64_t (*chunk)(const qn_kernels *kernels, const void *attributes, const qn_tensor *inputs);
    /* Its kernel takes a tiling (kernels/tilings.h): run during a question, it does nothing else.
     */
    bool takes_tiling;
} qn_cpu_operator;

/* How a node is run; null: not at all, as it is a view or of types that no row takes. */
const qn_cpu_operator *qn_cpu_find(const qn_query *query);

/* The first row of an operator; null: there is none. */
const qn_cpu_operator *qn_cpu_row(const qn_op *op);

/* By its row: 0 where it needs none, or may not be made in pieces. */
bool qn_cpu_supports(const void *state, const qn_query *query);
double qn_cpu_cost_ns(const qn_machine *machine, const void *state, const qn_query *query,
                      const qn_cost *cost);
size_t qn_cpu_workspace(const qn_machine *machine, const void *state, const qn_query *query);
int64_t qn_cpu_chunk(const qn_machine *machine, const qn_query *query);

/* Fills in a call what the CPU goes by, its row and kernels, from its node and tensors. */
void qn_cpu_prepare(qn_call *call, const qn_machine *machine);

/* Whether an update may change what it updates: its inputs are finite, and so were those of the
 * updates before it (call->finite, which is given). */
bool qn_cpu_may_change(const qn_call *call);

/* Runs a call that is prepared. */
void qn_cpu_run(const qn_call *call);

/* ---- the families' tables ---- */
extern const qn_cpu_operator qn_cpu_convolution[], qn_cpu_pool[], qn_cpu_product[], qn_cpu_norm[],
    qn_cpu_attention[], qn_cpu_lstm[], qn_cpu_activation[], qn_cpu_elementwise[], qn_cpu_loss[],
    qn_cpu_layout[], qn_cpu_exact[], qn_cpu_reduce[], qn_cpu_update[], qn_cpu_quantise[],
    qn_cpu_integer[], qn_cpu_round[], qn_cpu_chunked[], qn_cpu_whole_norm[], qn_cpu_frozen[],
    qn_cpu_language[];

/* ---- parts of calls ---- */

/* Whether an input lies already where the call is to leave it, as the plan says. */
bool qn_call_is_placed(const qn_call *call, int input);

/* Whether a call goes on from the sum in input `sum`; it is then in output `output`. */
bool qn_call_goes_on(const qn_call *call, int sum, int output);

/* Elements of output 0 of a call. */
int64_t qn_call_count(const qn_call *call);

/* Of an optimiser's call: its hyper, the first input, with the rate times a factor; in own, unless
 * the factor is 1. */
const void *qn_call_hyper(const qn_call *call, double factor, double own[QN_HYPER_COUNT]);

/* Elements from one row of an input or output of a call to the next. */
int64_t qn_call_in_stride(const qn_call *call, int input);
int64_t qn_call_out_stride(const qn_call *call, int output);

/* Rows and columns of output 0 of a call, dense. */
qn_rows qn_call_rows(const qn_call *call);

/* A product of I8, which adds to a result what the node's attributes and inputs say of it. */
typedef void qn_integer_product(const qn_call *call, const qn_integer_result *y);

/* Whether the sums of a product are stored before they are shifted. */
typedef enum qn_sums {
    QN_SUMS_SHIFTED, /* never: as they are made, they are shifted by what is kept */
    QN_SUMS_EITHER,  /* while the shift changes often */
    QN_SUMS_STORED,  /* always */
} qn_sums;

/* By how they are shifted, the products of each sum, and whether they are made in parts, which are
 * stored anyway. */
qn_sums qn_cpu_sums(const qn_rescaling *how, int64_t products, bool in_parts);

/* Runs a product whose sums are shifted (ops/rescaled.h). */
void qn_cpu_rescale(const qn_call *call, qn_integer_product *product, qn_sums sums);

/* The place of sums that are stored, with which the workspace begins. */
size_t qn_cpu_sums_bytes(const qn_tensor *outputs, qn_sums sums);

/* A window as kernels get it; y_stride: elements from one pixel of y or dy to the next. */
qn_conv2d_shape qn_cpu_window(const qn_convolution *window, int64_t y_stride);

#endif
