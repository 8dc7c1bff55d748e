/* See proximal.h. */
#include "tasks/proximal.h"

#include "base/status.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <string.h>

static bool is_trained(const qn_stored_tensor *t) {
    return t->trainable && !t->is_frozen && !t->is_state && strncmp(t->name, "task.", 5) != 0;
}

static qn_status count(const qn_engine *engine, size_t *n) {
    *n = 0;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (!is_trained(&t))
            continue;
        if (t.dtype != QN_F32)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "--proximal pulls weights of float, and %s is not; leave --numerics out",
                           t.name);
        *n += (size_t)qn_shape_count(t.shape);
    }
    return QN_OK;
}

qn_status qn_proximal_open(const qn_allocator *allocator, qn_engine *engine, double mu,
                           qn_proximal *p) {
    void *start;
    *p = (qn_proximal){.mu = mu};
    if (!(mu > 0))
        return QN_OK;
    QN_TRY(count(engine, &p->n));
    const int64_t n = (int64_t)p->n;
    QN_TRY(qn_engine_add_state(engine, "task.start", QN_F32, qn_shape_make(1, &n), &start));
    p->start = start;
    return qn_allocate(allocator, p->n, sizeof *p->before, &p->before);
}

void qn_proximal_close(const qn_allocator *allocator, qn_proximal *p) {
    qn_release(allocator, p->before, p->n, sizeof *p->before);
}

static void copy(const qn_engine *engine, float *to) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (!is_trained(&t))
            continue;
        memcpy(to, t.data, t.bytes);
        to += t.bytes / sizeof *to;
    }
}

void qn_proximal_begin(const qn_proximal *p, const qn_engine *engine) {
    if (p->n == 0)
        return;
    if (qn_engine_steps(engine) == 0)
        copy(engine, p->start);
    copy(engine, p->before);
}

void qn_proximal_end(const qn_proximal *p, const qn_engine *engine, double rate) {
    const float factor = (float)(rate * p->mu);
    const float *was = p->before, *start = p->start;
    for (int i = 0; p->n > 0 && i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        float *now = t.data;
        for (size_t j = 0; is_trained(&t) && j < t.bytes / sizeof *now; j++)
            now[j] -= factor * (*was++ - *start++);
    }
}
