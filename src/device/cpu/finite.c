/* Whether an update may be made: see qn_finite_check (device/call.h). Numbers are looked at by the
 * team in one pass, and in a second one only where some are large. */
#include "device/cpu/cpu.h"
#include "os/team.h"
#include "tensor/number.h"

#include <stdio.h>

enum { TASK = 1 << 15 }; /* elements */

typedef struct looking {
    const qn_kernels *kernels;
    qn_dtype dtype;
    const char *data;
    int64_t n;
    int are_large, are_bad; /* atomic */
} looking;

static void look(void *context, int64_t begin, int64_t end, int thread) {
    looking *l = context;
    const int64_t first = begin * TASK, last = end * TASK < l->n ? end * TASK : l->n;
    const char *data = l->data + (size_t)first * qn_dtype_bytes(l->dtype);
    (void)thread;
    if (l->kernels->are_moderate(last - first, data))
        return;
    __atomic_store_n(&l->are_large, 1, __ATOMIC_RELAXED);
    if (qn_numbers_find_bad(l->dtype, data, last - first, false) < last - first)
        __atomic_store_n(&l->are_bad, 1, __ATOMIC_RELAXED);
}

static bool is_finite(const qn_call *call, int input) {
    looking l = {.kernels = call->kernels,
                 .dtype = call->inputs[input].dtype,
                 .data = call->in[input],
                 .n = qn_shape_count(call->inputs[input].shape)};
    if (!l.data || !qn_dtype_is_real(l.dtype))
        return true;
    qn_team_run(call->team, (l.n + TASK - 1) / TASK, look, &l);
    if (l.are_large)
        __atomic_store_n(&call->finite->is_large, 1, __ATOMIC_RELAXED);
    return !l.are_bad;
}

/* Whether running variances that move towards 1 / inv_std^2 stay finite. */
static bool have_variances(const qn_call *call) {
    const int64_t n = qn_shape_count(call->inputs[1].shape);
    const bool is_f64 = call->inputs[1].dtype == QN_F64;
    const double least = is_f64 ? 0x1p-511 : 0x1p-63;
    bool have = true;
    for (int64_t i = 0; i < n; i++)
        have &=
            (is_f64 ? ((const double *)call->in[1])[i] : ((const float *)call->in[1])[i]) >= least;
    return have;
}

/* The first one is named. */
static void refuse(const qn_call *call) {
    int expected = 0;
    if (__atomic_compare_exchange_n(&call->finite->is_bad, &expected, 1, false, __ATOMIC_ACQ_REL,
                                    __ATOMIC_RELAXED))
        snprintf(call->finite->node, sizeof call->finite->node, "%s", call->node->name);
}

bool qn_cpu_may_change(const qn_call *call) {
    qn_finite_check *check = call->finite;
    for (int i = 0; !check->is_over && i < call->node->n_inputs; i++) {
        if ((call->node->op->finite_inputs >> i & 1) && !is_finite(call, i))
            refuse(call);
    }
    if (call->node->op->moves_statistics && !have_variances(call))
        refuse(call);
    if (check->is_trial || __atomic_load_n(&check->is_bad, __ATOMIC_ACQUIRE))
        return false;
    if (!call->node->op->moves_statistics)
        __atomic_add_fetch(&check->n_changes, 1, __ATOMIC_RELAXED);
    return true;
}
