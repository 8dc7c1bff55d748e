/* See rehearsal.h. */
#include "run/rehearsal.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/os.h"
#include "run/resident/resident.h"

#include <string.h>

/* The sums of gradients are kept elsewhere where batches are accumulated. */
bool qn_rehearsal_can_run(const qn_engine *e, const qn_call *call) {
    const char *arena = e->memory.arena;
    for (int i = 0; i < call->node->n_inputs; i++) {
        if (call->node->inputs[i].id >= 0 && !call->in[i])
            return false;
    }
    for (int i = 0; i < call->node->n_outputs; i++) {
        const char *out = call->out[i];
        if (out && (out < arena || out >= arena + e->memory.arena_bytes))
            return false;
    }
    return true;
}

void qn_rehearsal_fill(qn_engine *e) {
    float *reals = e->memory.arena;
    for (size_t i = 0; i < e->memory.arena_bytes / sizeof *reals; i++)
        reals[i] = (float)(int)(i * 7 % 13) / 16 - 0.375F;
}

/* ---- whole steps ---- */

/* Copies all that runs change to a place or back from it. */
static void copy_stores(const qn_engine *e, char *place, bool is_back) {
    const qn_store *stores[] = {&e->store, &e->sums};
    for (int s = 0; s < 2; s++) {
        for (int i = 0; i < stores[s]->n_tensors; i++) {
            const qn_stored_tensor *t = &stores[s]->tensors[i];
            memcpy(is_back ? t->data : place, is_back ? place : t->data, t->bytes);
            place += t->bytes;
        }
    }
}

static size_t stores_bytes(const qn_engine *e) {
    size_t bytes = 0;
    for (int i = 0; i < e->store.n_tensors; i++)
        bytes += e->store.tensors[i].bytes;
    for (int i = 0; i < e->sums.n_tensors; i++)
        bytes += e->sums.tensors[i].bytes;
    return bytes;
}

static size_t input_bytes(const qn_program *p, int i) {
    const size_t bytes = qn_tensor_bytes(qn_graph_tensor(p->graph, p->inputs[i]));
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

static void release(qn_rehearsal *r) {
    qn_release(&r->engine->allocator, r->kept, 1, r->kept_bytes);
    qn_release(&r->engine->allocator, r->zeros, 1, r->zeros_bytes);
}

qn_status qn_rehearsal_begin(qn_engine *e, const qn_program *p, qn_rehearsal *r) {
    *r = (qn_rehearsal){.engine = e, .program = p, .kept_bytes = stores_bytes(e)};
    for (int i = 0; i < p->n_inputs; i++)
        r->zeros_bytes += input_bytes(p, i);
    qn_status status = qn_allocate(&e->allocator, 1, r->kept_bytes, &r->kept);
    if (status == QN_OK)
        status = qn_allocate(&e->allocator, 1, r->zeros_bytes, &r->zeros);
    if (status == QN_OK)
        copy_stores(e, r->kept, false);
    else
        release(r);
    return status;
}

void qn_rehearsal_end(qn_rehearsal *r) {
    copy_stores(r->engine, r->kept, true);
    qn_resident_forget(r->engine);
    release(r);
}

void qn_rehearsal_bind(const qn_rehearsal *r, qn_executor *executor) {
    char *at = r->zeros;
    for (int i = 0; i < r->program->n_inputs; i++) {
        qn_executor_bind(executor, r->program->inputs[i], at);
        at += input_bytes(r->program, i);
    }
}

qn_status qn_rehearsal_run(const qn_rehearsal *r, qn_executor *executor, const qn_watch *watch,
                           int64_t *ns) {
    qn_rehearsal_bind(r, executor);
    QN_TRY(qn_resident_load(r->engine));
    const int64_t begin_ns = qn_clock_ns();
    QN_TRY(qn_executor_run(executor, r->engine->options.seed, 0, watch));
    *ns = qn_clock_ns() - begin_ns;
    return QN_OK;
}
