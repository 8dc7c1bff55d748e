/* Executes a prepared switch; see adapt.h. */
#include "device/device.h"
#include "run/rebudget/adapt.h"

static void *find_operand(const qn_again_operand *operand, const qn_executor *from, char *arena) {
    if (operand->outside >= 0)
        return qn_executor_get(from, (qn_value){operand->outside});
    return operand->offset == SIZE_MAX ? NULL : arena + operand->offset;
}

static void run_again(qn_adapt *adapt, const qn_executor *from, char *arena, qn_team *team,
                      uint64_t seed, uint64_t step) {
    for (size_t i = 0; i < adapt->n_operands; i++)
        adapt->pointers[i] = find_operand(&adapt->operands[i], from, arena);
    for (size_t r = 0; r < adapt->n_again; r++) {
        qn_call *call = &adapt->calls[r];
        call->team = team;
        call->seed = seed;
        call->step = step;
        call->workspace = adapt->workspaces[r] == SIZE_MAX ? NULL : arena + adapt->workspaces[r];
        qn_device_cpu.run(call);
    }
}

/* What is bound to one is then bound to the other. */
static void bind_outside(const qn_adapt_options *o, const qn_executor *from, qn_executor *to) {
    for (int v = 0; v < o->base->n_values; v++) {
        if (o->base->values[v]->producer >= 0)
            continue;
        void *memory = qn_executor_get(from, o->from.origins->first[v]);
        if (memory)
            qn_executor_bind(to, o->to.origins->first[v], memory);
    }
}

void qn_adapt_run(qn_adapt *adapt, const qn_adapt_options *options, qn_executor *from,
                  qn_executor *to, void *arena, qn_team *team, uint64_t seed, uint64_t step) {
    qn_moves_run(&adapt->gather, arena);
    run_again(adapt, from, arena, team, seed, step);
    qn_moves_run(&adapt->place, arena);
    bind_outside(options, from, to);
}

void qn_adapt_deinit(qn_adapt *adapt) {
    const qn_allocator *a = adapt->allocator;
    qn_moves_deinit(&adapt->gather);
    qn_moves_deinit(&adapt->place);
    qn_release(a, adapt->calls, adapt->n_again, sizeof *adapt->calls);
    qn_release(a, adapt->workspaces, adapt->n_again, sizeof *adapt->workspaces);
    qn_release(a, adapt->operands, adapt->n_operands, sizeof *adapt->operands);
    qn_release(a, adapt->pointers, adapt->n_operands, sizeof *adapt->pointers);
    qn_release(a, adapt->tensors, adapt->n_operands, sizeof *adapt->tensors);
    qn_release(a, adapt->strides, adapt->n_operands, sizeof *adapt->strides);
    *adapt = (qn_adapt){.allocator = a};
}
