/* Checkpoints: the engine's tensors as a safetensors file, sorted by name, its step and the
 * caller's pairs beside them. A file is checked as a whole against the engine before the first
 * tensor is filled. Only weights that are finite are written: a run that has gone wrong does not
 * replace the last good checkpoint. */
#include "quern/checkpoint.h"

#include "base/status.h"
#include "format/metadata.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const char step_key[] = "step";

/* ---- saving ---- */

static bool is_finite(const qn_stored_tensor *tensor) {
    const float *floats = tensor->data;
    const double *doubles = tensor->data;
    if (tensor->dtype == QN_F32) {
        for (size_t i = 0; i < tensor->bytes / sizeof *floats; i++) {
            if (!isfinite(floats[i]))
                return false;
        }
    } else if (tensor->dtype == QN_F64) {
        for (size_t i = 0; i < tensor->bytes / sizeof *doubles; i++) {
            if (!isfinite(doubles[i]))
                return false;
        }
    }
    return true;
}

static int compare_names(const void *left, const void *right) {
    return strcmp(((const qn_safetensor *)left)->name, ((const qn_safetensor *)right)->name);
}

static qn_status list_tensors(const qn_engine *engine, const char *path, qn_safetensor *tensors) {
    const int n = qn_engine_tensor_count(engine);
    for (int i = 0; i < n; i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(engine, i);
        if (!is_finite(&tensor))
            return qn_fail(QN_ERROR_NUMERIC,
                           "step %lld: %s holds numbers that are not finite; %s is not written",
                           (long long)qn_engine_steps(engine), tensor.name, path);
        tensors[i] = (qn_safetensor){.name = tensor.name,
                                     .dtype = tensor.dtype,
                                     .shape = tensor.shape,
                                     .bytes = tensor.bytes,
                                     .data = tensor.data};
    }
    if (n > 0)
        qsort(tensors, (size_t)n, sizeof *tensors, compare_names);
    return QN_OK;
}

/* A copy of the caller's pairs with the engine's step. */
static qn_status copy_pairs(const qn_engine *engine, const qn_metadata *from, qn_metadata *to) {
    char digits[24];
    for (size_t i = 0; from && i < from->n_pairs; i++)
        QN_TRY(qn_metadata_set(to, from->pairs[i].key, from->pairs[i].value));
    snprintf(digits, sizeof digits, "%lld", (long long)qn_engine_steps(engine));
    return qn_metadata_set(to, step_key, digits);
}

static qn_status save(const qn_engine *engine, const qn_metadata *metadata, const char *path,
                      qn_metadata *pairs, qn_safetensor *tensors) {
    QN_TRY(list_tensors(engine, path, tensors));
    QN_TRY(copy_pairs(engine, metadata, pairs));
    return qn_safetensors_write(pairs->allocator, path, tensors,
                                (size_t)qn_engine_tensor_count(engine), pairs->pairs,
                                pairs->n_pairs);
}

qn_status qn_checkpoint_save(const qn_engine *engine, const qn_metadata *metadata,
                             const char *path) {
    const qn_allocator *allocator = qn_engine_allocator(engine);
    const size_t n = (size_t)qn_engine_tensor_count(engine);
    qn_metadata *pairs;
    qn_safetensor *tensors;
    QN_TRY(qn_metadata_create(allocator, &pairs));
    qn_status status = qn_allocate(allocator, n, sizeof *tensors, &tensors);
    if (status == QN_OK) {
        status = save(engine, metadata, path, pairs, tensors);
        qn_release(allocator, tensors, n, sizeof *tensors);
    }
    qn_metadata_destroy(pairs);
    return status;
}

/* ---- reading ---- */

static qn_status read_pairs(const qn_safetensors *file, qn_metadata *metadata) {
    for (size_t i = 0; i < file->n_pairs; i++)
        QN_TRY(qn_metadata_set(metadata, file->pairs[i].key, file->pairs[i].value));
    return QN_OK;
}

qn_status qn_checkpoint_read(const qn_allocator *allocator, const char *path,
                             qn_metadata **metadata) {
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
} loading;

static bool is_wanted(const loading *load, const qn_stored_tensor *tensor) {
    return load->with_state || !tensor->is_state;
}

static qn_status check_tensor(const loading *load, const qn_stored_tensor *tensor) {
    const char *path = qn_file_path(load->from);
    const qn_safetensor *found = qn_safetensors_find(&load->file, tensor->name);
    char wanted[QN_SHAPE_TEXT], given[QN_SHAPE_TEXT];
    if (!found)
        return qn_fail(QN_ERROR_FORMAT, "%s: tensor %s of the model is not in it%s", path,
                       tensor->name,
                       tensor->is_state ? "; it was saved with another optimizer" : "");
    if (found->dtype == tensor->dtype && qn_shape_equal(found->shape, tensor->shape))
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "%s: tensor %s is %s %s, but the model's is %s %s", path,
                   tensor->name, qn_safetensors_type(found->dtype),
                   qn_shape_print(found->shape, given), qn_safetensors_type(tensor->dtype),
                   qn_shape_print(tensor->shape, wanted));
}

static bool is_state_name(const char *name) {
    return strncmp(name, "optimizer.", 10) == 0 || strncmp(name, "task.", 5) == 0;
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
        return qn_fail(QN_ERROR_FORMAT, "%s: has no step; it is no checkpoint to go on from",
                       qn_file_path(load->from));
    return QN_OK;
}

static qn_status fill(const loading *load) {
    for (int i = 0; i < qn_engine_tensor_count(load->engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(load->engine, i);
        if (!is_wanted(load, &tensor))
            continue;
        const qn_safetensor *found = qn_safetensors_find(&load->file, tensor.name);
        QN_TRY(qn_file_read(load->from, load->file.data_offset + found->begin, tensor.data,
                            tensor.bytes));
    }
    return QN_OK;
}

static qn_status load_file(loading *load) {
    int64_t step;
    QN_TRY(qn_safetensors_read(&load->file, load->from));
    QN_TRY(check_tensors(load));
    QN_TRY(find_step(load, &step));
    QN_TRY(fill(load));
    qn_engine_set_steps(load->engine, step);
    return QN_OK;
}

qn_status qn_checkpoint_load(qn_engine *engine, const char *path, bool with_state) {
    const qn_allocator *allocator = qn_engine_allocator(engine);
    loading load = {.engine = engine, .with_state = with_state};
    QN_TRY(qn_file_open(allocator, path, &load.from));
    qn_safetensors_init(&load.file, allocator);
    qn_status status = load_file(&load);
    qn_safetensors_deinit(&load.file);
    qn_file_close(load.from);
    return status;
}
