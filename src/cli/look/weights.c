/* See weights.h. */
#include "cli/look/weights.h"

#include "base/print.h"
#include "base/status.h"
#include "cli/data_name.h"
#include "cli/json.h"
#include "cli/look/reading.h"
#include "data/facts.h"
#include "os/os.h"
#include "tasks/reading.h"
#include "tensor/tensor.h"

#include <string.h>

enum { LINE = 1024, MOST_NAMED = 8 };

/* ---- reading ---- */

static const option of_checkpoint = {
    .name = "weights", .kind = OPTION_INPUT, .of_run = "best", .argument = "FILE"};

qn_status weights_find(const char *word, qn_arena *texts, const char **path) {
    return option_canonical(&of_checkpoint, word, texts, path);
}

qn_status weights_read(const char *word, const char *data, qn_arena *texts, weights *w) {
    *w = (weights){.name = word, .model = qn_model_find(word)};
    if (w->model)
        return QN_OK;
    if (!qn_path_is_file(word) && !qn_path_is_folder(word))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s is neither a model (quern models), a checkpoint nor a run's folder",
                       word);
    QN_TRY(weights_find(word, texts, &w->path));
    QN_TRY(qn_checkpoint_read(NULL, w->path, &w->pairs));
    const char *kept = qn_metadata_get(w->pairs, "data"), *model;
    w->is_own_data = kept && data_name_is_same(kept, data);
    model = qn_metadata_get(w->pairs, "model");
    w->model = model ? qn_model_find(model) : NULL;
    return QN_OK;
}

void weights_deinit(weights *w) {
    qn_known_data_deinit(&w->known);
    qn_metadata_destroy(w->pairs);
    *w = (weights){.name = NULL};
}

static qn_status keep(const weights *w, const option_list *list, qn_metadata *settings) {
    for (int i = 0; i < list->n; i++) {
        const char *name = list->rows[i].name, *kept = qn_metadata_get(w->pairs, name);
        if (kept && !qn_metadata_get(settings, name))
            QN_TRY(qn_metadata_set(settings, name, kept));
    }
    return QN_OK;
}

/* How another file is written does not follow from the one that was trained on. */
qn_status weights_keep_settings(const weights *w, qn_metadata *settings) {
    static const char *const divided[] = {"holdout", "validation", "seed"};
    const char *input = w->pairs ? qn_metadata_get(w->pairs, "input") : NULL;
    if (!w->pairs)
        return QN_OK;
    QN_TRY(keep(w, &reading_options, settings));
    if (input && !qn_metadata_get(settings, "input"))
        QN_TRY(qn_metadata_set(settings, "input", input));
    if (!w->is_own_data)
        return QN_OK;
    QN_TRY(keep(w, &table_form_options, settings));
    for (size_t i = 0; i < sizeof divided / sizeof *divided; i++) {
        const char *kept = qn_metadata_get(w->pairs, divided[i]);
        if (kept && !qn_metadata_get(settings, divided[i]))
            QN_TRY(qn_metadata_set(settings, divided[i], kept));
    }
    return QN_OK;
}

qn_status weights_open_data(weights *w, const char *data, const qn_data_options *how,
                            qn_data_source *source) {
    qn_data_options known = *how;
    if (w->pairs && qn_metadata_get(w->pairs, QN_PREPARED))
        known.target = known.ignore = known.categories = known.task = NULL;
    const qn_status status = qn_known_data_open(w->path, data, &known, &w->known, source);
    return status == QN_OK || !w->name ? status : qn_fail_within(status, "%s", w->name);
}

/* ---- columns and classes ---- */

typedef struct found {
    int n_known, n_found; /* columns or classes of the weights, and those that the data have */
    int n_other;          /* columns that only the data have */
    const char *lacking[MOST_NAMED]; /* the first classes without samples */
    int n_lacking;
} found;

static found find_columns(const weights *w, const qn_data_facts *facts) {
    const qn_table *table = w->known.preparation.table;
    found f = {.n_known = table ? table->n_columns : 0};
    f.n_found = f.n_known; /* a column that is missing is refused */
    for (size_t i = 0; table && i < facts->n_columns; i++)
        f.n_other += facts->columns[i].left_out != NULL;
    return f;
}

static found find_classes(const weights *w, const qn_look *look) {
    const qn_preparation *p = &w->known.preparation;
    found f = {.n_known = p->n_classes};
    for (int i = 0; i < p->n_classes && i < look->n_classes; i++) {
        int64_t n = 0;
        for (int split = 0; split < QN_SPLITS; split++)
            n += look->counts[split * look->n_classes + i];
        f.n_found += n > 0;
        if (n == 0 && f.n_lacking < MOST_NAMED && p->class_names)
            f.lacking[f.n_lacking++] = p->class_names[i];
    }
    return f;
}

/* ---- the shape ---- */

/* What the network takes; false: it takes what the data are. */
static bool find_input(const weights *w, const qn_metadata *settings, const qn_data_source *source,
                       qn_shape *input) {
    const char *kept = qn_metadata_get(settings, "input");
    if (kept && qn_shape_parse(kept, input))
        return true;
    *input = w->model ? w->model->input : source->sample;
    return w->model && source->sample.rank != 1 && !qn_reading_is_series(source);
}

/* How the samples become the network's input; fails where they do not. */
static qn_status fit(const weights *w, const qn_metadata *settings, qn_data_source *source,
                     char text[LINE]) {
    char from[QN_SHAPE_TEXT], to[QN_SHAPE_TEXT];
    qn_shape input, sample = source->sample;
    const bool is_given = find_input(w, settings, source, &input);
    const bool is_open = sample.rank == 3 && sample.dims[0] == 0;
    qn_shape_print(input, to);
    qn_shape_print(sample, from);
    if (!is_given)
        qn_print(text, LINE, "%s, as the samples are", from);
    else if (is_open)
        qn_print(text, LINE, "%s, to which pictures are fitted", to);
    else if (qn_shape_equal(sample, input))
        qn_print(text, LINE, "%s, as the samples are", to);
    else
        qn_print(text, LINE, "%s, made of samples of %s", to, from);
    if (sample.rank == 1 && is_given && qn_shape_count(sample) != qn_shape_count(input))
        return qn_fail(QN_ERROR_FORMAT, "%s takes %s, and the samples are %s", w->name, to, from);
    return is_given ? qn_reading_fit(settings, source, &input) : QN_OK;
}

/* ---- telling ---- */

static int64_t count_all(const qn_data_source *source) {
    int64_t n = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        n += source->n_samples[split];
    return n;
}

static void print_classes(const found *f, const look_lines *to) {
    char line[LINE] = "";
    size_t used = 0;
    for (int i = 0; i < f->n_lacking && used < sizeof line; i++)
        used += (size_t)qn_print(line + used, sizeof line - used, "%s%.60s",
                                 i ? ", " : "; none of ", f->lacking[i]);
    look_put(to, "  classes: samples of %d of its %d%s%s", f->n_found, f->n_known, line,
             f->n_known - f->n_found > f->n_lacking && f->n_lacking > 0 ? ", ..." : "");
}

static void print_held_out(const weights *w, const qn_data_source *source, const look_lines *to) {
    const int64_t n = count_all(source);
    if (!w->is_own_data)
        look_put(to, "  samples: it was trained on other data; all %lld can be judged",
                 (long long)n);
    else
        look_put(to,
                 "  samples: it was trained on %lld of %lld; %lld to test and %lld to "
                 "validate are held out",
                 (long long)source->n_samples[QN_TRAIN], (long long)n,
                 (long long)source->n_samples[QN_TEST],
                 (long long)source->n_samples[QN_VALIDATION]);
}

static void print_lines(const weights *w, const qn_data_source *source, const qn_look *look,
                        const char *input, const look_lines *to) {
    const found columns = find_columns(w, source->facts), classes = find_classes(w, look);
    const char *step = w->pairs ? qn_metadata_get(w->pairs, "step") : NULL;
    look_put(to, "%s%s%s%s%s:", w->name, w->model && w->path ? ", " : "",
             w->model && w->path ? w->model->name : "", step ? ", trained for steps: " : "",
             step ? step : "");
    look_put(to, "  input: %s", input);
    if (columns.n_known > 0)
        look_put(to, "  columns: %d of its %d are there, by name; %d others are not used",
                 columns.n_found, columns.n_known, columns.n_other);
    if (classes.n_known > 0)
        print_classes(&classes, to);
    if (w->pairs)
        print_held_out(w, source, to);
}

static void add_json(const weights *w, const qn_data_source *source, const qn_look *look,
                     const char *input) {
    const found columns = find_columns(w, source->facts), classes = find_classes(w, look);
    json_text("weights", w->name);
    json_text("weights_input", input);
    if (!w->pairs)
        return;
    json_flag("weights_of_these_data", w->is_own_data);
    json_count("weights_columns", columns.n_known);
    json_count("columns_not_used", columns.n_other);
    json_count("weights_classes", classes.n_known);
    json_count("weights_classes_found", classes.n_found);
    json_open_list("weights_classes_lacking");
    for (int i = 0; i < classes.n_lacking; i++)
        json_item_text(classes.lacking[i]);
    json_close_list();
}

qn_status weights_print(const weights *w, const qn_metadata *settings, qn_data_source *source,
                        const qn_look *look, bool is_json, const look_lines *to) {
    char input[LINE];
    if (!w->name)
        return QN_OK;
    const qn_status status = fit(w, settings, source, input);
    if (status == QN_OK && is_json)
        add_json(w, source, look, input);
    if (status == QN_OK && to)
        print_lines(w, source, look, input, to);
    return status;
}
