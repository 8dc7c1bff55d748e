/* Checkpoints: the engine's tensors as a safetensors file, sorted by name, with its step and the
 * caller's pairs. A whole file is checked against the engine before the first tensor is loaded.
 * Only finite weights are written: a run that has diverged does not replace the last good
 * checkpoint. */
#include "format/checkpoint.h"

#include "base/rng.h"
#include "base/status.h"
#include "format/metadata.h"
#include "graph/graph.h"
#include "tensor/number.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char step_key[] = "step", base_key[] = "base_hash", held_key[] = "lora_base";

/* ---- saving ---- */

static bool is_finite(const qn_stored_tensor *tensor) {
    const int64_t n = (int64_t)(tensor->bytes / qn_dtype_bytes(tensor->dtype));
    return qn_numbers_find_bad(tensor->dtype, tensor->data, n, false) == n;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const qn_safetensor *)left)->name, ((const qn_safetensor *)right)->name);
}

static bool has_adapters(const qn_engine *engine) {
    return qn_engine_get_options(engine)->tuning.lora_rank > 0;
}

static bool is_adapter(const char *name) {
    return strstr(name, ".lora_a.") || strstr(name, ".lora_b.");
}

/* What a network makes itself whenever it is built. */
static bool is_constant(const char *name) {
    return strncmp(name, QN_CONSTANT_PREFIX, strlen(QN_CONSTANT_PREFIX)) == 0;
}

/* One tensor's part of the sum that a base is known by, which no order changes. */
static uint64_t hash_tensor(const qn_stored_tensor *tensor) {
    return qn_hash_text(tensor->name) * 3 ^ qn_hash_bytes(tensor->data, tensor->bytes);
}

/* How an engine's tensors are written. */
typedef struct saving {
    const qn_engine *engine;
    const char *path;
    bool is_merged;  /* parameters without adapters; else all, or what is changed beside adapters */
    bool holds_base; /* with what adapters stand beside */
    qn_safetensor *tensors;
    size_t n_tensors;
    uint64_t base; /* of the weights that an adapter stands beside */
    qn_room *room;
    int64_t *n_bytes; /* where the file is to be measured alone; else null */
} saving;

static bool is_left_out(const saving *s, const qn_stored_tensor *tensor) {
    if (is_constant(tensor->name))
        return true;
    if (s->is_merged)
        return tensor->is_state || is_adapter(tensor->name);
    return tensor->is_frozen && !tensor->is_head && has_adapters(s->engine) && !s->holds_base;
}

static qn_status list_tensors(saving *s) {
    size_t n = 0;
    for (int i = 0; i < qn_engine_tensor_count(s->engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(s->engine, i);
        if (is_left_out(s, &tensor)) {
            s->base += tensor.is_state || s->is_merged || is_constant(tensor.name)
                           ? 0
                           : hash_tensor(&tensor);
            continue;
        }
        if (!s->n_bytes && !is_finite(&tensor))
            return qn_fail(QN_ERROR_NUMERIC,
                           "step %lld: %s holds numbers that are not finite; %s is not written",
                           (long long)qn_engine_steps(s->engine), tensor.name, s->path);
        s->tensors[n++] = (qn_safetensor){.name = tensor.name,
                                          .dtype = tensor.dtype,
                                          .shape = tensor.shape,
                                          .bytes = tensor.bytes,
                                          .data = tensor.data};
    }
    s->n_tensors = n;
    if (n > 0)
        qsort(s->tensors, n, sizeof *s->tensors, compare_names);
    return QN_OK;
}

static bool is_of_tuning(const char *key) {
    static const char *const keys[] = {"freeze", "train-only", "update", "lr-for",
                                       "lora",   "load",       base_key, held_key};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        if (strcmp(keys[i], key) == 0)
            return true;
    }
    return false;
}

/* Whether the caller says that adapters begin at weights which no file and no model has. */
static bool is_base_held(const qn_metadata *metadata) {
    const char *where = metadata ? qn_metadata_get(metadata, held_key) : NULL;
    return where && strcmp(where, "inside") == 0;
}

/* A copy of the caller's pairs with the engine's step. */
static qn_status copy_pairs(const saving *s, const qn_metadata *from, qn_metadata *to) {
    char digits[24];
    for (size_t i = 0; from && i < from->n_pairs; i++) {
        if (!s->is_merged || !is_of_tuning(from->pairs[i].key))
            QN_TRY(qn_metadata_set(to, from->pairs[i].key, from->pairs[i].value));
    }
    snprintf(digits, sizeof digits, "%lld", (long long)qn_engine_steps(s->engine));
    QN_TRY(qn_metadata_set(to, step_key, digits));
    if (s->is_merged || !has_adapters(s->engine))
        return QN_OK;
    snprintf(digits, sizeof digits, "%016" PRIx64, s->base);
    return qn_metadata_set(to, base_key, digits);
}

static qn_status write_file(saving *s, const qn_metadata *metadata, qn_metadata *pairs) {
    s->holds_base = is_base_held(metadata);
    QN_TRY(list_tensors(s));
    QN_TRY(copy_pairs(s, metadata, pairs));
    if (s->n_bytes)
        return qn_safetensors_measure(pairs->allocator, s->tensors, s->n_tensors, pairs->pairs,
                                      pairs->n_pairs, s->n_bytes);
    return qn_safetensors_write_in(pairs->allocator, s->room, s->path, s->tensors, s->n_tensors,
                                   pairs->pairs, pairs->n_pairs);
}

static qn_status save(saving *s, const qn_metadata *metadata) {
    const qn_allocator *allocator = qn_engine_allocator(s->engine);
    const size_t n = (size_t)qn_engine_tensor_count(s->engine);
    qn_metadata *pairs;
    QN_TRY(qn_metadata_create(allocator, &pairs));
    qn_status status = qn_allocate(allocator, n, sizeof *s->tensors, &s->tensors);
    if (status == QN_OK) {
        status = write_file(s, metadata, pairs);
        qn_release(allocator, s->tensors, n, sizeof *s->tensors);
    }
    qn_metadata_destroy(pairs);
    return status;
}

qn_status qn_checkpoint_keep_room(const qn_allocator *allocator, const qn_engine *engine,
                                  const qn_metadata *metadata, const char *path, qn_room **room) {
    enum { GROWTH_BYTES = 64 * 1024 };
    int64_t n_bytes = 0;
    QN_TRY(save(&(saving){.engine = engine, .path = path, .n_bytes = &n_bytes}, metadata));
    return qn_room_open(allocator, path, n_bytes + GROWTH_BYTES, room);
}

qn_status qn_checkpoint_save(const qn_engine *engine, const qn_metadata *metadata,
                             const char *path) {
    return qn_checkpoint_save_in(NULL, engine, metadata, path);
}

qn_status qn_checkpoint_save_in(qn_room *room, const qn_engine *engine, const qn_metadata *metadata,
                                const char *path) {
    QN_NEED(engine, "engine");
    QN_NEED(path, "path");
    if (!qn_engine_is_sound(engine))
        return qn_fail(QN_ERROR_NUMERIC,
                       "step %lld has failed and spoiled the parameters; %s is not written",
                       (long long)qn_engine_steps(engine) + 1, path);
    return save(&(saving){.engine = engine, .path = path, .room = room}, metadata);
}

/* What stands in a file that the engine only reads takes no adapter. */
static qn_status check_mergeable(const qn_engine *engine) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor a = qn_engine_tensor_at(engine, i);
        const char *end = a.is_state ? NULL : strstr(a.name, ".lora_a.weight");
        char name[1024], plain[1024];
        if (!end)
            continue;
        const int n = (int)(end - a.name);
        snprintf(plain, sizeof plain, "%.*s", n, a.name);
        snprintf(name, sizeof name, "%.*s.weight", n, a.name);
        if (!qn_engine_find(engine, name).name && !qn_engine_find(engine, plain).name)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "%s stays in the model's file as it is, and is not merged with its "
                           "adapter; use the model's file with the adapter's beside it",
                           name);
    }
    return QN_OK;
}

qn_status qn_checkpoint_save_merged(qn_engine *engine, const qn_metadata *metadata,
                                    const char *path) {
    QN_NEED(engine, "engine");
    QN_NEED(path, "path");
    QN_TRY(check_mergeable(engine));
    qn_engine_merge_adapters(engine);
    return save(&(saving){.engine = engine, .path = path, .is_merged = true}, metadata);
}

/* ---- reading ---- */

static qn_status read_pairs(const qn_safetensors *file, qn_metadata *metadata) {
    for (size_t i = 0; i < file->n_pairs; i++)
        QN_TRY(qn_metadata_set(metadata, file->pairs[i].key, file->pairs[i].value));
    return QN_OK;
}

qn_status qn_checkpoint_read(const qn_allocator *allocator, const char *path,
                             qn_metadata **metadata) {
    QN_NEED(path, "path");
    QN_NEED(metadata, "metadata");
    qn_file *from;
    qn_safetensors file;
    qn_metadata *made = NULL;
    QN_TRY(qn_file_open(allocator, path, &from));
    qn_safetensors_init(&file, allocator);
    qn_status status = qn_safetensors_read(&file, from);
    if (status == QN_OK)
        status = qn_metadata_create(allocator, &made);
    if (status == QN_OK)
        status = read_pairs(&file, made);
    qn_safetensors_deinit(&file);
    qn_file_close(from);
    if (status != QN_OK) {
        qn_metadata_destroy(made);
        return status;
    }
    *metadata = made;
    return QN_OK;
}

/* One loading: which file into which engine. */
typedef struct loading {
    qn_engine *engine;
    qn_file *from;
    qn_safetensors file;
    bool with_state;
    bool is_start;  /* weights to begin with: the head is left as it is, and so are adapters */
    int64_t n_kept; /* of the head's outputs, that it takes from a file that has so many; 0: none */
    int n_loaded, n_left;
} loading;

/* Whether the file may do without it. */
static bool may_lack(const loading *load, const qn_stored_tensor *tensor) {
    if (load->is_start)
        return tensor->is_head || is_adapter(tensor->name);
    return has_adapters(load->engine) && !tensor->is_state && !is_adapter(tensor->name);
}

static bool is_wanted(const loading *load, const qn_stored_tensor *tensor) {
    if ((!load->with_state && tensor->is_state) || (load->is_start && tensor->is_head) ||
        is_constant(tensor->name))
        return false;
    return qn_safetensors_find(&load->file, tensor->name) || !may_lack(load, tensor);
}

/* A part of a head whose first outputs come from the file. */
static bool is_grown(const loading *load, const qn_stored_tensor *tensor) {
    return load->n_kept > 0 && tensor->is_head && !tensor->is_state;
}

static bool is_real(qn_dtype dtype) {
    return dtype == QN_F64 || dtype == QN_F32 || dtype == QN_F16 || dtype == QN_BF16;
}

/* The axis of a head's outputs, in which it has more of them than the file; -1: they differ in
 * something else. */
static int grown_axis(const loading *load, const qn_safetensor *found,
                      const qn_stored_tensor *tensor) {
    int axis = -1;
    if (!found || found->shape.rank != tensor->shape.rank || !is_real(found->dtype))
        return -1;
    for (int i = 0; i < tensor->shape.rank; i++) {
        const int64_t n_old = found->shape.dims[i], n_new = tensor->shape.dims[i];
        if (axis < 0 && n_old == load->n_kept && n_new >= n_old)
            axis = i;
        else if (n_old != n_new)
            return -1;
    }
    return axis;
}

static qn_status check_grown(const loading *load, const qn_stored_tensor *tensor) {
    const qn_safetensor *found = qn_safetensors_find(&load->file, tensor->name);
    char wanted[QN_SHAPE_TEXT];
    if (grown_axis(load, found, tensor) >= 0)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s: its tensor %s is none that could grow to %s; --head %d begins the last "
                   "layer anew",
                   qn_file_path(load->from), tensor->name, qn_shape_print(tensor->shape, wanted),
                   (int)tensor->shape.dims[0]);
}

static qn_status check_tensor(const loading *load, const qn_stored_tensor *tensor) {
    const char *path = qn_file_path(load->from);
    const qn_safetensor *found = qn_safetensors_find(&load->file, tensor->name);
    char wanted[QN_SHAPE_TEXT], given[QN_SHAPE_TEXT];
    if (!found)
        return qn_fail(QN_ERROR_FORMAT, "%s: tensor %s of the model is not in it%s", path,
                       tensor->name,
                       tensor->is_state ? "; it was saved with another optimizer" : "");
    const bool is_of_type =
        found->dtype == tensor->dtype || (load->is_start && is_real(found->dtype));
    if (is_of_type && qn_shape_equal(found->shape, tensor->shape))
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "%s: tensor %s is %s %s, but the model's is %s %s%s", path,
                   tensor->name, qn_safetensors_type(found->dtype),
                   qn_shape_print(found->shape, given), qn_safetensors_type(tensor->dtype),
                   qn_shape_print(tensor->shape, wanted),
                   load->is_start ? "; --head begins the last layer anew" : "");
}

static const char *find_pair(const loading *load, const char *key) {
    for (size_t i = 0; i < load->file.n_pairs; i++) {
        if (strcmp(load->file.pairs[i].key, key) == 0)
            return load->file.pairs[i].value;
    }
    return NULL;
}

/* What the engine holds of the weights that an adapter's file leaves out must be what it was
 * trained beside. Files from before there was such a sum have none. */
static qn_status check_base(const loading *load) {
    const char *wanted = find_pair(load, base_key), *base = find_pair(load, "load");
    const char *model = find_pair(load, "model");
    char digits[24];
    uint64_t sum = 0;
    if (!wanted || load->is_start || !has_adapters(load->engine))
        return QN_OK;
    for (int i = 0; i < qn_engine_tensor_count(load->engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(load->engine, i);
        if (!tensor.is_state && !is_constant(tensor.name) &&
            !qn_safetensors_find(&load->file, tensor.name))
            sum += hash_tensor(&tensor);
    }
    snprintf(digits, sizeof digits, "%016" PRIx64, sum);
    if (strcmp(digits, wanted) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "%s was trained beside other weights than these: beside those of %s, whose "
                   "sum was %.16s, and the sum of these is %s; quern merge --load FILE takes them "
                   "from where they are now",
                   qn_file_path(load->from),
                   base    ? base
                   : model ? model
                           : "a model",
                   wanted, digits);
}

/* What training keeps beside weights: an engine that only predicts has less of it. */
static bool is_state_name(const char *name) {
    static const char shift[] = ".kept_shift"; /* ops/kept_shift.h: also of backward passes */
    const size_t n = strlen(name), m = sizeof shift - 1;
    return strncmp(name, "optimizer.", 10) == 0 || strncmp(name, "task.", 5) == 0 ||
           (n > m && strcmp(name + n - m, shift) == 0);
}

static bool has_tensor(const qn_engine *engine, const char *name) {
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        if (strcmp(qn_engine_tensor_at(engine, i).name, name) == 0)
            return true;
    }
    return false;
}

static qn_status check_tensors(const loading *load) {
    for (int i = 0; i < qn_engine_tensor_count(load->engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(load->engine, i);
        if (is_wanted(load, &tensor))
            QN_TRY(check_tensor(load, &tensor));
        if (is_grown(load, &tensor))
            QN_TRY(check_grown(load, &tensor));
    }
    for (size_t i = 0; i < load->file.n_tensors; i++) {
        const char *name = load->file.tensors[i].name;
        const bool is_skipped = !load->with_state && is_state_name(name);
        if (!is_skipped && !has_tensor(load->engine, name))
            return qn_fail(QN_ERROR_FORMAT, "%s: tensor %s is none of the model's",
                           qn_file_path(load->from), name);
    }
    return QN_OK;
}

/* The step that the pairs name; a file of weights only may have none. */
static qn_status find_step(const loading *load, int64_t *step) {
    *step = 0;
    for (size_t i = 0; i < load->file.n_pairs; i++) {
        char *end;
        if (strcmp(load->file.pairs[i].key, step_key) != 0)
            continue;
        *step = strtoll(load->file.pairs[i].value, &end, 10);
        if (end == load->file.pairs[i].value || *end || *step < 0)
            return qn_fail(QN_ERROR_FORMAT, "%s: step is \"%.40s\", no count",
                           qn_file_path(load->from), load->file.pairs[i].value);
        return QN_OK;
    }
    if (load->with_state)
        return qn_fail(QN_ERROR_FORMAT, "%s: has no step; it is not a checkpoint to go on from",
                       qn_file_path(load->from));
    return QN_OK;
}

/* Weights to begin with may be of another type of reals than the engine's. */
static qn_status read_tensor(const loading *load, const qn_safetensor *found,
                             const qn_stored_tensor *tensor) {
    const qn_allocator *allocator = qn_engine_allocator(load->engine);
    const int64_t at = load->file.data_offset + found->begin;
    char *bytes;
    if (found->dtype == tensor->dtype)
        return qn_file_read(load->from, at, tensor->data, tensor->bytes);
    QN_TRY(qn_allocate(allocator, found->bytes, 1, &bytes));
    const qn_status status = qn_file_read(load->from, at, bytes, found->bytes);
    if (status == QN_OK)
        qn_numbers_convert(found->dtype, bytes, tensor->dtype, tensor->data, 0,
                           qn_shape_count(tensor->shape));
    qn_release(allocator, bytes, found->bytes, 1);
    return status;
}

/* from (before, n_old, after) to the first n_old of to (before, n_new, after). */
static void copy_first(const qn_stored_tensor *tensor, int axis, int64_t n_old, const char *from) {
    const qn_shape *shape = &tensor->shape;
    size_t after = qn_dtype_bytes(tensor->dtype);
    int64_t before = 1;
    for (int i = 0; i < shape->rank; i++) {
        before *= i < axis ? shape->dims[i] : 1;
        after *= i > axis ? (size_t)shape->dims[i] : 1;
    }
    const size_t n_bytes = (size_t)n_old * after, stride = (size_t)shape->dims[axis] * after;
    for (int64_t i = 0; i < before; i++)
        memcpy((char *)tensor->data + (size_t)i * stride, from + (size_t)i * n_bytes, n_bytes);
}

static qn_status read_grown(const loading *load, const qn_stored_tensor *tensor) {
    const qn_safetensor *found = qn_safetensors_find(&load->file, tensor->name);
    const qn_allocator *allocator = qn_engine_allocator(load->engine);
    const size_t bytes = (size_t)qn_shape_count(found->shape) * qn_dtype_bytes(tensor->dtype);
    qn_stored_tensor old = {.dtype = tensor->dtype, .shape = found->shape, .bytes = bytes};
    QN_TRY(qn_allocate(allocator, bytes, 1, &old.data));
    const qn_status status = read_tensor(load, found, &old);
    if (status == QN_OK)
        copy_first(tensor, grown_axis(load, found, tensor), load->n_kept, old.data);
    qn_release(allocator, old.data, bytes, 1);
    return status;
}

static qn_status fill(loading *load) {
    for (int i = 0; i < qn_engine_tensor_count(load->engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(load->engine, i);
        const bool grows = is_grown(load, &tensor);
        if (!is_wanted(load, &tensor)) {
            load->n_left += !tensor.is_state && !is_constant(tensor.name) && !grows;
            load->n_loaded += grows;
            if (grows)
                QN_TRY(read_grown(load, &tensor));
            continue;
        }
        load->n_loaded++;
        const qn_safetensor *found = qn_safetensors_find(&load->file, tensor.name);
        QN_TRY(read_tensor(load, found, &tensor));
    }
    return QN_OK;
}

static qn_status load_file(loading *load) {
    int64_t step;
    QN_TRY(qn_safetensors_read(&load->file, load->from));
    QN_TRY(check_tensors(load));
    QN_TRY(check_base(load));
    QN_TRY(find_step(load, &step));
    QN_TRY(fill(load));
    if (!load->is_start)
        qn_engine_set_steps(load->engine, step);
    return QN_OK;
}

static qn_status load_path(loading *load, const char *path) {
    const qn_allocator *allocator = qn_engine_allocator(load->engine);
    QN_TRY(qn_file_open(allocator, path, &load->from));
    qn_safetensors_init(&load->file, allocator);
    qn_status status = load_file(load);
    qn_safetensors_deinit(&load->file);
    qn_file_close(load->from);
    return status;
}

qn_status qn_checkpoint_load(qn_engine *engine, const char *path, bool with_state) {
    QN_NEED(engine, "engine");
    QN_NEED(path, "path");
    return load_path(&(loading){.engine = engine, .with_state = with_state}, path);
}

qn_status qn_checkpoint_load_base(qn_engine *engine, const qn_metadata *pairs, const char *path) {
    QN_NEED(engine, "engine");
    QN_NEED(pairs, "pairs");
    const char *base = qn_metadata_get(pairs, "load");
    int n_loaded, n_new;
    if (!base || !qn_metadata_get(pairs, "lora") || is_base_held(pairs))
        return QN_OK;
    const qn_status status = qn_checkpoint_begin(engine, base, &n_loaded, &n_new);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "what %s was trained beside", path);
}

qn_status qn_checkpoint_begin(qn_engine *engine, const char *path, int *n_loaded, int *n_new) {
    return qn_checkpoint_begin_grown(engine, path, 0, n_loaded, n_new);
}

qn_status qn_checkpoint_begin_grown(qn_engine *engine, const char *path, int n_kept, int *n_loaded,
                                    int *n_new) {
    QN_NEED(engine, "engine");
    QN_NEED(path, "path");
    QN_NEED(n_loaded, "n_loaded");
    QN_NEED(n_new, "n_new");
    loading load = {.engine = engine, .is_start = true, .n_kept = n_kept};
    QN_TRY(load_path(&load, path));
    *n_loaded = load.n_loaded;
    *n_new = load.n_left;
    return QN_OK;
}
