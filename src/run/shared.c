/* Memory that operations read and write. Where the device works in the host's memory, it comes from
 * the device, which knows it then; what others work with comes from the caller's allocator, as all
 * else. Both count against the engine's budget; the device's is not the caller's. */
#include "run/policy.h"

bool qn_engine_shares(const qn_engine *e) {
    return qn_policies_sharer(e) != NULL;
}

static bool is_above_limit(qn_counter *counter, size_t bytes) {
    const bool is_above =
        counter->limit_bytes > 0 &&
        (bytes > counter->limit_bytes || qn_counter_held(counter) > counter->limit_bytes - bytes);
    counter->n_refused += is_above;
    return is_above;
}

/* A device that is lost gives none. */
static void *allocate(void *user, size_t bytes, size_t align) {
    qn_engine *e = user;
    const qn_machine_device *d = qn_policies_sharer(e);
    void *memory = NULL;
    if (!d || d->device->is_lost(d->state))
        return e->allocator.allocate(e->allocator.user, bytes, align);
    if (is_above_limit(&e->counter, bytes) || d->device->share(d->state, bytes, &memory) != QN_OK)
        return NULL;
    qn_counter_add(&e->counter, bytes);
    e->memory.shared_bytes += bytes;
    e->memory.mapped_bytes = e->memory.shared_bytes > e->memory.mapped_bytes
                                 ? e->memory.shared_bytes
                                 : e->memory.mapped_bytes;
    return memory;
}

static void release(void *user, void *memory, size_t bytes) {
    qn_engine *e = user;
    const qn_machine_device *d = qn_policies_sharer(e);
    if (!d || !d->device->unshare(d->state, memory)) {
        e->allocator.release(e->allocator.user, memory, bytes);
        return;
    }
    qn_counter_subtract(&e->counter, bytes);
    e->memory.shared_bytes -= bytes;
}

qn_allocator qn_engine_shared(qn_engine *e) {
    return (qn_allocator){e, allocate, release};
}
