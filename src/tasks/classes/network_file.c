/* What the file of an imported network says of itself, as settings of what opens it. Exports of
 * quern's say what a checkpoint would; of others' the names of the outputs are read. */
#include "base/status.h"
#include "data/classes.h"
#include "format/metadata.h"
#include "onnx/import.h"
#include "onnx/properties/class_names.h"
#include "onnx/properties/inside.h"
#include "os/heap.h"
#include "tasks/tasks.h"

#include <string.h>

const char *const qn_split_keys[] = {QN_HELD_OUT, "holdout", "validation", "seed", NULL};

/* Whether a pair is of the data that the file's network was trained on. */
static bool is_of_data(const char *key, bool is_prepared_inside) {
    static const char preparation[] = "preparation.";
    if (strncmp(key, preparation, sizeof preparation - 1) == 0)
        return !is_prepared_inside;
    for (int i = 0; qn_split_keys[i]; i++) {
        if (strcmp(key, qn_split_keys[i]) == 0)
            return true;
    }
    return strcmp(key, QN_PREPARED) == 0;
}

/* Files of versions that did not say how samples were held out: as is usual. */
static qn_status add_held_out(qn_metadata *pairs) {
    return qn_metadata_get(pairs, QN_PREPARED) && !qn_metadata_get(pairs, QN_HELD_OUT)
               ? qn_metadata_set(pairs, QN_HELD_OUT, "content")
               : QN_OK;
}

static qn_status add_others(const qn_metadata *of_file, qn_metadata *pairs) {
    const bool is_inside = qn_metadata_get(of_file, QN_ONNX_PREPARED_INSIDE);
    for (int i = 0; i < qn_metadata_count(of_file); i++) {
        const char *key, *value;
        qn_metadata_at(of_file, i, &key, &value);
        if (!qn_metadata_get(pairs, key) && !is_of_data(key, is_inside))
            QN_TRY(qn_metadata_set(pairs, key, value));
    }
    return QN_OK;
}

qn_status qn_task_read_network(const qn_onnx_network *network, bool training, qn_metadata *pairs) {
    QN_NEED(network, "network");
    QN_NEED(pairs, "settings");
    qn_metadata *of_file;
    if (!training && !qn_metadata_get(pairs, QN_PREPARED)) {
        QN_TRY(qn_onnx_properties(network, pairs));
        return add_held_out(pairs);
    }
    QN_TRY(qn_metadata_create(NULL, &of_file));
    qn_status status = qn_onnx_properties(network, of_file);
    if (status == QN_OK)
        status = add_others(of_file, pairs);
    qn_metadata_destroy(of_file);
    return status;
}

qn_status qn_task_read_names(const qn_model *model, const qn_log *log, qn_metadata *pairs) {
    const qn_onnx_network *network = qn_onnx_network_of(model);
    qn_onnx_class_names names;
    qn_arena arena;
    if (!network || qn_metadata_get(pairs, QN_NETWORK_CLASSES) ||
        qn_metadata_get(pairs, "preparation.n_classes"))
        return QN_OK;
    qn_arena_init(&arena, qn_allocator_default());
    qn_status status = qn_onnx_find_class_names(network, model->n_classes, log, &arena, &names);
    if (status == QN_OK && names.list.n > 0)
        status = qn_metadata_set_texts(pairs, QN_NETWORK_CLASSES, names.list.names, names.list.n);
    qn_arena_deinit(&arena);
    return status;
}

/* A network that is looked at without a checkpoint is what its file says. */
qn_status qn_task_add_file(qn_task *task) {
    const qn_onnx_network *network = qn_onnx_network_of(task->model);
    if (!network)
        return QN_OK;
    QN_TRY(qn_task_read_network(network, task->training, task->settings));
    return task->training ? QN_OK : qn_task_read_names(task->model, task->log, task->settings);
}
