/* See store.h. */
#include "run/store.h"

#include "base/rng.h"
#include "base/status.h"
#include "tensor/number.h"

#include <string.h>

void qn_store_init(qn_store *store, const qn_allocator *allocator) {
    *store = (qn_store){.allocator = allocator};
}

void qn_store_deinit(qn_store *store) {
    const qn_allocator *a = store->allocator;
    for (int i = 0; i < store->n_tensors; i++) {
        qn_stored_tensor *t = &store->tensors[i];
        qn_release(a, t->data, 1, t->bytes);
        qn_release(a, (void *)(uintptr_t)t->name, 1, strlen(t->name) + 1);
    }
    qn_release(a, store->tensors, store->capacity, sizeof *store->tensors);
    *store = (qn_store){.allocator = a};
}

const qn_stored_tensor *qn_store_find(const qn_store *store, const char *name) {
    for (int i = 0; i < store->n_tensors; i++) {
        if (strcmp(store->tensors[i].name, name) == 0)
            return &store->tensors[i];
    }
    return NULL;
}

/* Floats, of which there are many, without a call. */
static void set_number(const qn_stored_tensor *tensor, int64_t i, double value) {
    if (tensor->dtype == QN_F32)
        ((float *)tensor->data)[i] = (float)value;
    else
        qn_number_set(tensor->dtype, tensor->data, i, value);
}

/* Element by element, the last axis quickest. */
static void copy_given(const qn_stored_tensor *tensor, const qn_given *given) {
    const qn_shape shape = tensor->shape;
    const int64_t n = qn_shape_count(shape);
    int64_t index[QN_MAX_RANK] = {0}, from = 0;
    for (int64_t i = 0; i < n; i++) {
        set_number(tensor, i, qn_number_get(given->dtype, given->data, from));
        for (int axis = shape.rank - 1; axis >= 0; axis--) {
            from += given->strides[axis];
            if (++index[axis] < shape.dims[axis])
                break;
            from -= index[axis] * given->strides[axis];
            index[axis] = 0;
        }
    }
}

enum { DRAWN_AT_ONCE = 8192 }; /* elements of a task; a multiple of 4 */

typedef struct drawing {
    const qn_stored_tensor *tensor;
    qn_initial initial;
    qn_rng rng;
    int64_t n;
} drawing;

static void draw_uniform(const drawing *d, int64_t begin, int64_t end) {
    for (int64_t i = begin, n; i < end; i += n) {
        float uniform[256];
        n = end - i < 256 ? end - i : 256;
        qn_rng_uniforms(d->rng, (uint64_t)i / 4, (size_t)n, uniform);
        for (int64_t j = 0; j < n; j++)
            set_number(d->tensor, i + j, d->initial.scale * (2.0 * uniform[j] - 1.0));
    }
}

static void draw_task(void *context, int64_t begin, int64_t end, int thread) {
    const drawing *d = context;
    (void)thread;
    begin *= DRAWN_AT_ONCE;
    end = end * DRAWN_AT_ONCE < d->n ? end * DRAWN_AT_ONCE : d->n;
    if (d->initial.kind == QN_INITIAL_UNIFORM) {
        draw_uniform(d, begin, end);
        return;
    }
    for (int64_t i = begin; i < end; i++)
        set_number(d->tensor, i,
                   d->initial.kind == QN_INITIAL_ONE
                       ? 1
                       : d->initial.scale * qn_rng_normal(d->rng, (uint64_t)i));
}

/* Memory is zeros so far. Millions of numbers that do not depend on each other: most of the time
 * before a large model's first step. */
static void draw(qn_team *team, const qn_stored_tensor *tensor, qn_initial initial, uint64_t seed) {
    drawing d = {tensor, initial, qn_rng_make(seed, qn_hash_text(tensor->name), 0),
                 qn_shape_count(tensor->shape)};
    if (initial.kind != QN_INITIAL_ZERO)
        qn_team_run(team, (d.n + DRAWN_AT_ONCE - 1) / DRAWN_AT_ONCE, draw_task, &d);
}

static bool is_random(qn_initial initial) {
    return initial.kind == QN_INITIAL_UNIFORM || initial.kind == QN_INITIAL_NORMAL;
}

/* Adds the tensor, with memory of zeros or none, and a copy of its name; its number is the last. */
static qn_status add(qn_store *store, qn_stored_tensor tensor, bool has_memory) {
    const qn_allocator *a = store->allocator;
    const size_t length = strlen(tensor.name) + 1;
    char *name;
    QN_TRY(qn_grow(a, &store->tensors, &store->capacity, (size_t)store->n_tensors + 1,
                   sizeof *store->tensors));
    QN_TRY(qn_allocate(a, 1, length, &name));
    memcpy(name, tensor.name, length);
    tensor.name = name;
    qn_status status = has_memory ? qn_allocate(a, 1, tensor.bytes, &tensor.data) : QN_OK;
    if (status != QN_OK) {
        qn_release(a, name, 1, length);
        return status;
    }
    store->tensors[store->n_tensors++] = tensor;
    store->bytes += tensor.bytes;
    return QN_OK;
}

/* Parameters that a task keeps beside the model's, as a target network's. */
static bool is_of_task(const char *name) {
    return strncmp(name, "task.", 5) == 0;
}

static qn_status add_value(qn_store *store, const qn_value_info *info, uint64_t seed) {
    QN_TRY(add(store,
               (qn_stored_tensor){
                   .name = info->name,
                   .dtype = info->tensor.dtype,
                   .shape = info->tensor.shape,
                   .is_state = info->kind == QN_KIND_STATE || is_of_task(info->name),
                   .trainable = info->trainable,
                   .is_frozen =
                       info->kind == QN_KIND_PARAMETER && !info->trainable && !info->is_overwritten,
                   .is_head = info->is_head,
                   .bytes = qn_tensor_bytes(info->tensor),
               },
               !store->plan_only));
    const qn_stored_tensor *tensor = &store->tensors[store->n_tensors - 1];
    if (!store->plan_only && info->given)
        copy_given(tensor, info->given);
    else if (!store->plan_only && !(store->no_random_values && is_random(info->initial)))
        draw(store->team, tensor, info->initial, seed);
    return QN_OK;
}

qn_status qn_store_add(qn_store *store, const char *name, qn_dtype dtype, qn_shape shape,
                       void **data) {
    if (qn_store_find(store, name))
        return qn_fail(QN_ERROR_ARGUMENT, "a tensor %s exists already", name);
    if (!qn_shape_is_valid(shape) || qn_dtype_bytes(dtype) == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "tensor %s is empty or too large", name);
    QN_TRY(add(store,
               (qn_stored_tensor){.name = name,
                                  .dtype = dtype,
                                  .shape = shape,
                                  .is_state = true,
                                  .bytes = qn_tensor_bytes((qn_tensor){dtype, shape})},
               !store->plan_only));
    *data = store->tensors[store->n_tensors - 1].data;
    return QN_OK;
}

qn_status qn_store_add_graph(qn_store *store, const qn_graph *graph, uint32_t kinds,
                             uint64_t seed) {
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        bool is_kept = info->producer < 0 && (kinds >> info->kind & 1);
        if (is_kept && !qn_store_find(store, info->name))
            QN_TRY(add_value(store, info, seed));
    }
    return QN_OK;
}
