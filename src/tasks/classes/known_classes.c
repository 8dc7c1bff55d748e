/* Which classes a network knows by name: as the settings of a checkpoint say, or the weights that
 * training begins with, or a network's own file. The data are matched to them by data/classes.h. */
#include "base/status.h"
#include "base/text.h"
#include "data/classes.h"
#include "format/metadata.h"
#include "onnx/import.h"
#include "os/heap.h"
#include "tasks/tasks.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char rename_them[] = "rename them, or leave them out; to learn them, train with "
                                  "--load FILE --head data, which grows "
                                  "the head and keeps what the network knows of the other classes";

static const char grow_it[] =
    "rename them, or leave them out; --head data grows the head by them and keeps what the network "
    "knows of the other classes; --head N begins it anew";

static bool has_preparation(const qn_metadata *pairs) {
    const char *n = qn_metadata_get(pairs, "preparation.n_classes");
    return n && atoi(n) > 0 && qn_metadata_get(pairs, "preparation.class_names");
}

/* The names of a network's outputs: of a preparation, or of another program's file. */
static bool has_names(const qn_metadata *pairs) {
    return has_preparation(pairs) || qn_metadata_get(pairs, QN_NETWORK_CLASSES);
}

static qn_status get_names(qn_metadata *pairs, qn_preparation *known) {
    *known = (qn_preparation){.n_classes = 0};
    if (has_preparation(pairs))
        return qn_metadata_get_preparation(pairs, known);
    return qn_metadata_get_texts(pairs, QN_NETWORK_CLASSES, &known->class_names, &known->n_classes);
}

/* Of amounts and labels there are no classes, but columns, or the labels' names. */
static bool has_table(const qn_metadata *pairs) {
    const char *table = qn_metadata_get(pairs, "preparation.table");
    return table && *table;
}

static bool is_head(const qn_task *task, const char *word) {
    const char *head = qn_setting_text(task, "head", "");
    const size_t n = strlen(word);
    return strncmp(head, word, n) == 0 && (!head[n] || head[n] == ',');
}

/* Of a checkpoint that is gone on from, or evaluated. */
static qn_status match_settings(qn_task *task, qn_data_source *source) {
    qn_preparation known;
    QN_TRY(get_names(task->settings, &known));
    const qn_class_matching matching = {
        .allocator = task->allocator,
        .log = task->log,
        .n = known.n_classes,
        .names = known.class_names,
        .n_outputs = task->training ? (int)qn_setting_count(task, "classes", 0) : 0,
        .advice = rename_them,
    };
    return qn_classes_match(&matching, source);
}

/* Of weights that training begins with. Their names must stay as long as the source: they go into
 * the task's settings. */
static qn_status match_start(qn_task *task, qn_metadata *pairs, qn_data_source *source) {
    const char *outputs = qn_metadata_get(pairs, "classes");
    const int n_outputs = outputs ? atoi(outputs) : 0;
    const bool grows = is_head(task, "data");
    qn_preparation known;
    if (!has_names(pairs))
        return QN_OK; /* of amounts, or of classes without names */
    QN_TRY(get_names(pairs, &known));
    const qn_class_matching matching = {
        .allocator = task->allocator,
        .log = task->log,
        .n = known.n_classes,
        .names = known.class_names,
        .n_outputs = grows ? INT_MAX : n_outputs,
        .advice = grow_it,
    };
    if (n_outputs < known.n_classes || (grows && qn_classes_count_known(&matching, source) == 0))
        return QN_OK; /* all of the head begins anew */
    task->n_kept_outputs = grows ? n_outputs : 0;
    return qn_classes_match(&matching, source);
}

/* What a network's file says of its outputs. */
static qn_status read_file(qn_task *task, const qn_onnx_network *network, qn_metadata **pairs) {
    char n_outputs[24];
    snprintf(n_outputs, sizeof n_outputs, "%d", task->model->n_classes);
    QN_TRY(qn_metadata_create(task->allocator, pairs));
    qn_status status = qn_onnx_properties(network, *pairs);
    if (status == QN_OK)
        status = qn_metadata_set(*pairs, "classes", n_outputs);
    if (status == QN_OK)
        status = qn_task_read_names(task->model, task->log, *pairs);
    if (status != QN_OK)
        qn_metadata_destroy(*pairs);
    return status;
}

static qn_status copy_start(qn_task *task, qn_metadata **pairs) {
    QN_TRY(qn_metadata_create(task->allocator, pairs));
    const qn_status status = qn_metadata_add(*pairs, task->given_start);
    if (status != QN_OK)
        qn_metadata_destroy(*pairs);
    return status;
}

/* The file may be of another program, and have none. */
qn_status qn_task_read_start(qn_task *task) {
    const char *start = qn_setting_text(task, "load", NULL);
    const bool is_given = task->given_start != NULL;
    const qn_onnx_network *network = start || is_given ? NULL : qn_onnx_network_of(task->model);
    qn_metadata *pairs = NULL;
    if (!task->training || task->start || qn_setting_text(task, QN_PREPARED, NULL))
        return QN_OK;
    if (is_given)
        QN_TRY(copy_start(task, &pairs));
    else if (network)
        QN_TRY(read_file(task, network, &pairs));
    else if (!start || qn_checkpoint_read(task->allocator, start, &pairs) != QN_OK)
        return QN_OK; /* said when its weights are loaded */
    task->start_is_file = network != NULL;
    if (qn_metadata_get(pairs, "preparation.n_classes") || has_names(pairs))
        task->start = pairs;
    else
        qn_metadata_destroy(pairs);
    return QN_OK;
}

/* Of a network's file, which has no outputs by name. */
static void tell_new_head(const qn_task *task) {
    char text[400];
    snprintf(text, sizeof text,
             "%.200s does not name the classes of its outputs: its head begins anew; a checkpoint "
             "(--load FILE) keeps the outputs of the classes that it names",
             task->model->name);
    if (task->model->has_fixed_outputs && task->log && task->log->write)
        task->log->write(task->log->user, 0, text);
}

/* A network of another program's file, and data whose classes have names: which is which nobody
 * says. */
static qn_status tell_order(const qn_task *task, const qn_data_source *source) {
    const qn_preparation *p = &source->preparation;
    qn_text_names names = {.n = 0};
    char text[QN_TEXT_NAMES + 512];
    if (!task->model->has_fixed_outputs || !p->class_names || !task->log || !task->log->write)
        return QN_OK;
    for (int i = 0; i < p->n_classes; i++)
        qn_text_names_add(&names, p->class_names[i]);
    snprintf(text, sizeof text,
             "%.200s does not name the classes of its outputs: they are taken to be, in this "
             "order, %s",
             task->model->name, qn_text_names_finish(&names));
    task->log->write(task->log->user, 1, text);
    return QN_OK;
}

qn_status qn_task_match_classes(qn_task *task, qn_data_source *source) {
    const bool is_resumed = qn_setting_text(task, QN_PREPARED, NULL);
    const bool is_new_head = qn_setting_text(task, "head", NULL) && !is_head(task, "data");
    if (source->n_targets > 0 || (task->training && !is_resumed && is_new_head))
        return QN_OK;
    if (task->training && !is_resumed) {
        QN_TRY(qn_task_read_start(task));
        if (task->start)
            return match_start(task, task->start, source);
        if (is_head(task, "data") && !qn_setting_text(task, "load", NULL))
            tell_new_head(task);
        return QN_OK;
    }
    return has_names(task->settings) ? match_settings(task, source) : tell_order(task, source);
}

qn_status qn_match_classes(const qn_allocator *allocator, const qn_log *log,
                           const qn_preparation *known, qn_data_source *source) {
    const qn_class_matching matching = {.allocator = allocator,
                                        .log = log,
                                        .n = known->n_classes,
                                        .names = known->class_names,
                                        .advice = rename_them};
    return qn_classes_match(&matching, source);
}

bool qn_statistics_fit(const qn_preparation *p, const qn_shape *input) {
    const int n = p->n_statistics;
    return n <= 1 || n == input->dims[input->rank - 1] || n == qn_shape_count(*input);
}

/* Samples are prepared as the weights expect them. */
static void take_statistics(const qn_preparation *known, qn_data_source *source) {
    qn_preparation *p = &source->preparation;
    if (!qn_statistics_fit(known, &known->sample) || !qn_shape_equal(known->sample, p->sample))
        return;
    p->n_statistics = known->n_statistics;
    p->mean = known->mean;
    p->std_dev = known->std_dev;
}

static const char samples_key[] = "samples_of_data";

static int64_t count_samples(const qn_data_source *source) {
    int64_t n = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        n += source->n_samples[split];
    return n;
}

/* Going on with data of the same name that has become another is no error, and is said. */
static void tell_changed(const qn_known_data *known, const char *data,
                         const qn_data_options *options, const qn_data_source *source) {
    const char *prepared = qn_metadata_get(known->pairs, QN_PREPARED);
    const char *before = qn_metadata_get(known->pairs, samples_key);
    const int64_t now = count_samples(source);
    char text[600];
    if (!prepared || !before || strcmp(prepared, data) != 0 || strtoll(before, NULL, 10) == now ||
        !options->log || !options->log->write)
        return;
    snprintf(text, sizeof text,
             "%.400s has changed since the weights were trained: %s samples, now %lld", data,
             before, (long long)now);
    options->log->write(options->log->user, 1, text);
}

static qn_status open_known(const char *data, qn_data_options *options, qn_known_data *known,
                            qn_data_source *source) {
    qn_data_source opened;
    QN_TRY(qn_metadata_get_preparation(known->pairs, &known->preparation));
    options->table = known->preparation.table;
    options->held_out = qn_metadata_get(known->pairs, QN_HELD_OUT);
    QN_TRY(qn_data_open(data, options, &opened));
    const qn_status status =
        qn_match_classes(options->allocator, options->log, &known->preparation, &opened);
    if (status == QN_OK) {
        take_statistics(&known->preparation, &opened);
        tell_changed(known, data, options, &opened);
        *source = opened;
    } else {
        qn_data_close(&opened);
    }
    return status;
}

qn_status qn_known_data_open(const char *checkpoint, const char *data,
                             const qn_data_options *options, qn_known_data *known,
                             qn_data_source *source) {
    qn_data_options how = *options;
    how.allocator = qn_allocator_or_default(options->allocator);
    *known = (qn_known_data){.pairs = NULL};
    if (checkpoint)
        QN_TRY(qn_checkpoint_read(how.allocator, checkpoint, &known->pairs));
    const bool is_known =
        known->pairs && (has_preparation(known->pairs) || has_table(known->pairs));
    return is_known ? open_known(data, &how, known, source) : qn_data_open(data, &how, source);
}

const char *qn_elements_of(const qn_data_source *source) {
    return source->dtype == QN_U8 ? QN_ELEMENTS_BYTES : QN_ELEMENTS_NUMBERS;
}

void qn_known_data_deinit(qn_known_data *known) {
    qn_metadata_destroy(known->pairs);
    *known = (qn_known_data){.pairs = NULL};
}

qn_status qn_known_data_put(qn_metadata *pairs, const char *data, const qn_data_source *source) {
    QN_TRY(qn_metadata_set(pairs, "data", data));
    QN_TRY(qn_metadata_set(pairs, QN_PREPARED, data));
    char n_samples[24];
    snprintf(n_samples, sizeof n_samples, "%lld", (long long)count_samples(source));
    QN_TRY(qn_metadata_set(pairs, samples_key, n_samples));
    QN_TRY(qn_metadata_set(pairs, QN_ELEMENTS, qn_elements_of(source)));
    if (source->held_out)
        QN_TRY(qn_metadata_set(pairs, QN_HELD_OUT, source->held_out));
    return qn_metadata_set_preparation(pairs, &source->preparation);
}
