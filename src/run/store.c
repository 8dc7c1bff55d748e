/* See store.h. */
#include "run/store.h"

#include "base/rng.h"
#include "base/status.h"
#include "os/os.h"
#include "tensor/number.h"

#include <string.h>

void qn_store_init(qn_store *store, const qn_allocator *allocator) {
    *store = (qn_store){.allocator = allocator, .data_allocator = allocator};
}

void qn_store_deinit(qn_store *store) {
    const qn_allocator *a = store->allocator;
    for (int i = 0; i < store->n_tensors; i++) {
        const char *name = store->tensors[i].name;
        qn_release(a, (void *)(uintptr_t)name, 1, strlen(name) + 1);
    }
    for (int i = 0; i < store->n_blocks; i++)
        qn_release(store->data_allocator, store->blocks[i].memory, 1, store->blocks[i].bytes);
    qn_release(a, store->tensors, store->capacity, sizeof *store->tensors);
    qn_release(a, store->blocks, store->block_capacity, sizeof *store->blocks);
    *store = (qn_store){.allocator = a, .data_allocator = a};
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

/* ---- given values ---- */

enum { GATHERED_AT_ONCE = 256, SPAN_BYTES = 4 << 20 };

/* n numbers of a row: element to and on of the tensor, from and on of what is given, which may lie
 * at any address. */
static void copy_row(const qn_stored_tensor *tensor, const qn_given *given, int64_t to,
                     int64_t from, int64_t stride, int64_t n) {
    const size_t width = qn_dtype_bytes(given->dtype), size = qn_dtype_bytes(tensor->dtype);
    const char *source = given->data;
    double gathered[GATHERED_AT_ONCE];
    for (int64_t i = 0, now; i < n; i += now) {
        now = n - i < GATHERED_AT_ONCE ? n - i : GATHERED_AT_ONCE;
        const char *first = source + (from + i * stride) * (int64_t)width;
        if (stride == 1)
            memcpy(gathered, first, (size_t)now * width);
        for (int64_t j = 0; stride != 1 && j < now; j++)
            memcpy((char *)gathered + (size_t)j * width, first + j * stride * (int64_t)width,
                   width);
        qn_numbers_convert(given->dtype, gathered, tensor->dtype,
                           (char *)tensor->data + (size_t)(to + i) * size, 0, now);
    }
}

/* Those of which the index of one axis is within [begin, end), row by row. */
static void copy_slab(const qn_stored_tensor *tensor, const qn_given *given, int axis,
                      int64_t begin, int64_t end) {
    const qn_shape shape = tensor->shape;
    const int last = shape.rank - 1;
    const int64_t n = last == axis ? end - begin : shape.dims[last];
    const int64_t first = last == axis ? begin : 0;
    int64_t index[QN_MAX_RANK] = {0};
    index[axis] = begin;
    for (int k = 0; k >= 0;) {
        int64_t to = first, from = first * given->strides[last];
        for (int i = 0; i < last; i++) {
            to += index[i] * qn_shape_count_range(shape, i + 1, shape.rank);
            from += index[i] * given->strides[i];
        }
        copy_row(tensor, given, to, from, given->strides[last], n);
        for (k = last - 1; k >= 0; k--) {
            if (++index[k] < (k == axis ? end : shape.dims[k]))
                break;
            index[k] = k == axis ? begin : 0;
        }
    }
}

/* They may be a file in memory, which is then there only in part: a slab is of the axis along which
 * they lie furthest apart. */
static void copy_given(const qn_stored_tensor *tensor, const qn_given *given) {
    const qn_shape shape = tensor->shape;
    int axis = 0;
    if (shape.rank == 0) {
        copy_row(tensor, given, 0, 0, 1, 1);
        return;
    }
    for (int i = 1; i < shape.rank; i++) {
        if (given->strides[i] * shape.dims[i] > given->strides[axis] * shape.dims[axis])
            axis = i;
    }
    const int64_t bytes = given->strides[axis] * (int64_t)qn_dtype_bytes(given->dtype);
    const int64_t step = bytes > 0 && bytes < SPAN_BYTES ? SPAN_BYTES / bytes
                         : bytes > 0                     ? 1
                                                         : shape.dims[axis];
    for (int64_t i = 0; i < shape.dims[axis]; i += step) {
        copy_slab(tensor, given, axis, i,
                  i + step < shape.dims[axis] ? i + step : shape.dims[axis]);
        qn_file_forget(given->data);
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

/* Millions of numbers that do not depend on each other, in memory that is touched here first: most
 * of the time before a large model's first step. */
static void draw(qn_team *team, const qn_stored_tensor *tensor, qn_initial initial, uint64_t seed) {
    drawing d = {tensor, initial, qn_rng_make(seed, qn_hash_text(tensor->name), 0),
                 qn_shape_count(tensor->shape)};
    qn_team_run(team, (d.n + DRAWN_AT_ONCE - 1) / DRAWN_AT_ONCE, draw_task, &d);
}

static bool is_random(qn_initial initial) {
    return initial.kind == QN_INITIAL_UNIFORM || initial.kind == QN_INITIAL_NORMAL;
}

enum { ZEROED_AT_ONCE = 1 << 18 }; /* bytes of a task */

static void zero_task(void *context, int64_t begin, int64_t end, int thread) {
    const qn_stored_tensor *t = context;
    const int64_t bytes = (int64_t)t->bytes, first = begin * ZEROED_AT_ONCE;
    const int64_t behind = end * ZEROED_AT_ONCE < bytes ? end * ZEROED_AT_ONCE : bytes;
    (void)thread;
    memset((char *)t->data + first, 0, (size_t)(behind - first));
}

static void zero(qn_team *team, qn_stored_tensor *tensor) {
    const int64_t bytes = (int64_t)tensor->bytes;
    qn_team_run(team, (bytes + ZEROED_AT_ONCE - 1) / ZEROED_AT_ONCE, zero_task, tensor);
}

static size_t round_up(size_t bytes) {
    return (bytes + QN_ALIGNMENT - 1) / QN_ALIGNMENT * QN_ALIGNMENT;
}

/* Memory for tensors of so many bytes, each rounded up. */
static qn_status add_block(qn_store *store, size_t bytes, char **memory) {
    const qn_allocator *a = store->allocator;
    *memory = NULL;
    QN_TRY(qn_grow(a, &store->blocks, &store->block_capacity, (size_t)store->n_blocks + 1,
                   sizeof *store->blocks));
    if (!store->plan_only)
        QN_TRY(qn_allocate_unset(store->data_allocator, 1, bytes, memory));
    store->blocks[store->n_blocks++] = (qn_store_block){*memory, bytes};
    return QN_OK;
}

static void drop_block(qn_store *store) {
    const qn_store_block block = store->blocks[--store->n_blocks];
    qn_release(store->data_allocator, block.memory, 1, block.bytes);
}

/* Adds the tensor, whose memory holds nothing yet, and a copy of its name; its number is the last.
 */
static qn_status add(qn_store *store, qn_stored_tensor tensor) {
    const qn_allocator *a = store->allocator;
    const size_t length = strlen(tensor.name) + 1;
    char *name;
    QN_TRY(qn_grow(a, &store->tensors, &store->capacity, (size_t)store->n_tensors + 1,
                   sizeof *store->tensors));
    QN_TRY(qn_allocate(a, 1, length, &name));
    memcpy(name, tensor.name, length);
    tensor.name = name;
    store->tensors[store->n_tensors++] = tensor;
    store->bytes += tensor.bytes;
    store->block_bytes += round_up(tensor.bytes);
    return QN_OK;
}

/* Parameters that a task keeps beside the model's, as a target network's. */
static bool is_of_task(const char *name) {
    return strncmp(name, "task.", 5) == 0;
}

/* With memory at the place, which is null where tensors have none. */
static qn_status add_value(qn_store *store, const qn_value_info *info, uint64_t seed, void *place) {
    const qn_initial initial = info->initial;
    QN_TRY(add(store, (qn_stored_tensor){
                          .name = info->name,
                          .dtype = info->tensor.dtype,
                          .shape = info->tensor.shape,
                          .is_state = info->kind == QN_KIND_STATE || is_of_task(info->name),
                          .trainable = info->trainable,
                          .is_frozen = info->kind == QN_KIND_PARAMETER && !info->trainable &&
                                       !info->is_overwritten,
                          .is_head = info->is_head,
                          .bytes = qn_tensor_bytes(info->tensor),
                          .data = place,
                      }));
    qn_stored_tensor *tensor = &store->tensors[store->n_tensors - 1];
    if (store->plan_only)
        return QN_OK;
    if (info->given) {
        copy_given(tensor, info->given);
        return qn_file_map_check_same(info->given->data);
    }
    if (initial.kind == QN_INITIAL_ZERO || (store->no_random_values && is_random(initial)))
        zero(store->team, tensor);
    else
        draw(store->team, tensor, initial, seed);
    return QN_OK;
}

qn_status qn_store_add(qn_store *store, const char *name, qn_dtype dtype, qn_shape shape,
                       void **data) {
    if (qn_store_find(store, name))
        return qn_fail(QN_ERROR_ARGUMENT, "a tensor %s exists already", name);
    if (!qn_shape_is_valid(shape) || qn_dtype_bytes(dtype) == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "tensor %s is empty or too large", name);
    qn_stored_tensor tensor = {.name = name,
                               .dtype = dtype,
                               .shape = shape,
                               .is_state = true,
                               .bytes = qn_tensor_bytes((qn_tensor){dtype, shape})};
    char *place;
    QN_TRY(add_block(store, round_up(tensor.bytes), &place));
    tensor.data = place;
    const qn_status status = add(store, tensor);
    if (status != QN_OK) {
        drop_block(store);
        return status;
    }
    if (place)
        zero(store->team, &store->tensors[store->n_tensors - 1]);
    *data = place;
    return QN_OK;
}

/* Whether the store takes up a value of a graph. */
static bool is_new(const qn_store *store, const qn_value_info *info, uint32_t kinds) {
    const bool is_kept = info->producer < 0 && !info->lent && (kinds >> info->kind & 1);
    return is_kept && !qn_store_find(store, info->name);
}

qn_status qn_store_add_graph(qn_store *store, const qn_graph *graph, uint32_t kinds,
                             uint64_t seed) {
    size_t bytes = 0;
    char *place;
    for (int v = 0; v < graph->n_values; v++) {
        if (is_new(store, graph->values[v], kinds))
            bytes += round_up(qn_tensor_bytes(graph->values[v]->tensor));
    }
    QN_TRY(add_block(store, bytes, &place));
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (!is_new(store, info, kinds))
            continue;
        QN_TRY(add_value(store, info, seed, place));
        if (place)
            place += round_up(qn_tensor_bytes(info->tensor));
    }
    return QN_OK;
}
