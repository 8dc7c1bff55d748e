/* See samples.h. */
#include "cli/look/samples.h"

#include "base/print.h"
#include "cli/json.h"
#include "data/columns.h"
#include "data/facts.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { TEXT = 1024, MOST_CLASSES = 12 };

static const char *const split_names[QN_SPLITS] = {"training", "test", "validation"};

/* The split that knowing nothing is judged on. */
static qn_split judged_split(const qn_data_source *source) {
    return source->n_samples[QN_TEST] > 0         ? QN_TEST
           : source->n_samples[QN_VALIDATION] > 0 ? QN_VALIDATION
                                                  : QN_TRAIN;
}

const char *samples_class_name(const qn_data_source *source, int class, char text[24]) {
    const qn_preparation *p = &source->preparation;
    if (p->class_names && class < p->n_classes)
        return p->class_names[class];
    snprintf(text, 24, "%d", class);
    return text;
}

const char *samples_label_name(const qn_data_source *source, int label, char text[24]) {
    const qn_table *table = source->preparation.table;
    if (table && label < table->n_targets)
        return table->targets[label];
    snprintf(text, 24, "%d", label);
    return text;
}

/* ---- lines ---- */

static void print_classes(const qn_data_source *source, const qn_look *k, const look_lines *to) {
    char line[TEXT] = "classes:", text[24];
    for (int i = 0; i < k->n_classes && i < MOST_CLASSES; i++) {
        const size_t used = strlen(line);
        qn_print(line + used, sizeof line - used, "%s %.60s %lld", i ? "," : "",
                 samples_class_name(source, i, text), (long long)k->counts[i]);
    }
    if (k->n_classes > MOST_CLASSES) {
        const size_t used = strlen(line);
        qn_print(line + used, sizeof line - used, ", and %d more", k->n_classes - MOST_CLASSES);
    }
    look_put(to, "%s (training samples)", line);
}

/* Labels, of which a sample may have several. */
static void print_labels(const qn_data_source *source, const qn_look *k, const look_lines *to) {
    const qn_split split = source->n_samples[QN_TRAIN] > 0 ? QN_TRAIN : QN_TEST;
    char line[TEXT] = "labels:", text[24];
    for (int i = 0; i < k->n_labels && i < MOST_CLASSES; i++) {
        const size_t used = strlen(line);
        qn_print(line + used, sizeof line - used, "%s %.60s %lld", i ? "," : "",
                 samples_label_name(source, i, text),
                 (long long)k->counts[split * k->n_labels + i]);
    }
    if (k->n_labels > MOST_CLASSES) {
        const size_t used = strlen(line);
        qn_print(line + used, sizeof line - used, ", and %d more", k->n_labels - MOST_CLASSES);
    }
    look_put(to, "%s (%s samples); of all samples %lld have several, %lld have none", line,
             split_names[split], (long long)k->n_several, (long long)k->n_bare);
}

static void print_knowing_nothing(const qn_data_source *source, const qn_look *k,
                                  const look_lines *to) {
    const qn_split split = judged_split(source);
    char common[24], rare[24], range[200];
    const qn_split counted = source->n_samples[QN_TRAIN] > 0 ? QN_TRAIN : QN_TEST;
    const int64_t *counts = k->counts + counted * k->n_classes;
    if (k->n_classes == 0) {
        look_put(to,
                 "target: from %.6g to %.6g, mean %.6g; always answering the mean has an "
                 "error (RMSE) of %.6g on the %s samples",
                 k->least, k->most, k->mean, k->by_mean[split], split_names[split]);
        return;
    }
    const char *name = samples_class_name(source, k->commonest, common);
    if (counts[k->rarest] == counts[k->commonest])
        qn_print(range, sizeof range, "%lld samples of each", (long long)counts[k->commonest]);
    else
        qn_print(range, sizeof range, "from %lld samples (%.60s) to %lld (%.60s)",
                 (long long)counts[k->rarest], samples_class_name(source, k->rarest, rare),
                 (long long)counts[k->commonest], name);
    look_put(to, "classes: %s; always answering %.60s is right for %.2f %% of the %s samples",
             range, name, 100 * k->by_commonest[split], split_names[split]);
}

void samples_print(const qn_data_source *source, const qn_look *look, bool is_short,
                   const look_lines *to) {
    if (look->n_classes > 0 && !is_short)
        print_classes(source, look, to);
    if (look->n_labels > 0)
        print_labels(source, look, to);
    else
        print_knowing_nothing(source, look, to);
    if (is_short)
        return;
    look_put(to,
             "compared: %lld samples%s; %lld test or validation samples are training "
             "samples, too",
             (long long)look->n_compared, look->is_part ? ", the first of each part" : "",
             (long long)look->n_across);
}

/* ---- warnings ---- */

/* Names of columns of a table, else numbers from 1. */
static void name_columns(const qn_data_source *source, const qn_look_columns *columns,
                         char text[TEXT]) {
    const qn_table *table = source->preparation.table;
    text[0] = 0;
    for (int k = 0; k < QN_LOOK_NAMED && k < columns->n; k++) {
        const size_t used = strlen(text);
        const int column = table ? qn_table_column_of(table, columns->first[k]) : -1;
        if (column >= 0)
            qn_print(text + used, TEXT - used, "%s%.60s", k ? ", " : "",
                     table->columns[column].name);
        else
            qn_print(text + used, TEXT - used, "%s%lld", k ? ", " : "",
                     (long long)columns->first[k] + 1);
    }
}

static int64_t count_columns(const qn_data_source *source) {
    const qn_table *table = source->preparation.table;
    return table ? table->n_columns : source->sample.dims[0];
}

static void warn_of_columns(const qn_data_source *source, const qn_look_columns *columns,
                            const char *what, void (*warn)(void *context, const char *text),
                            void *context) {
    char names[TEXT], text[2 * TEXT];
    if (columns->n == 0)
        return;
    name_columns(source, columns, names);
    qn_print(text, sizeof text, "%lld of %lld columns %s (%s%s)", (long long)columns->n,
             (long long)count_columns(source), what, names,
             columns->n > QN_LOOK_NAMED ? ", ..." : "");
    warn(context, text);
}

static void warn_of_classes(const qn_data_source *source, const qn_look *k, samples_known known,
                            void (*warn)(void *context, const char *text), void *context) {
    const bool has_training = source->n_samples[QN_TRAIN] > 0;
    char text[TEXT], rare[24], common[24];
    const int64_t *counts = k->counts;
    if (has_training && !known.few_are_told && k->n_few > 0) {
        qn_print(text, sizeof text,
                 "%d of %d classes have fewer than %d training samples (%.60s: %lld): too few to "
                 "learn them, or to judge it",
                 k->n_few, k->n_classes, QN_LOOK_FEW, samples_class_name(source, k->rarest, rare),
                 (long long)counts[k->rarest]);
        warn(context, text);
    }
    if (has_training && !known.is_weighted && counts[k->rarest] > 0 &&
        counts[k->commonest] >= QN_LOOK_UNEVEN * counts[k->rarest]) {
        qn_print(
            text, sizeof text,
            "%.60s has %.0f times as many training samples as %.60s: accuracy will say little; "
            "train with --class-weights balanced, and go by the balanced accuracy of quern "
            "evaluate --per-class",
            samples_class_name(source, k->commonest, common),
            (double)counts[k->commonest] / (double)counts[k->rarest],
            samples_class_name(source, k->rarest, rare));
        warn(context, text);
    }
}

void samples_warn(const qn_data_source *source, const qn_look *k, samples_known known,
                  void (*warn)(void *context, const char *text), void *context) {
    const bool are_pictures = source->sample.rank == 3 && source->sample.dims[0] == 0;
    char text[TEXT];
    if (k->n_classes > 0)
        warn_of_classes(source, k, known, warn, context);
    if (k->n_across > 0) {
        qn_print(text, sizeof text,
                 "%lld of %lld test and validation samples are training samples, too: the test "
                 "will say too much good; take them out of one part",
                 (long long)k->n_across,
                 (long long)(source->n_samples[QN_TEST] + source->n_samples[QN_VALIDATION]));
        warn(context, text);
    }
    if (k->n_contrary > 0) {
        qn_print(text, sizeof text,
                 "%lld samples are equal to samples of another class: no network can tell them "
                 "apart%s",
                 (long long)k->n_contrary,
                 are_pictures ? "; --task labels makes one picture of them, with all of the labels"
                              : "");
        warn(context, text);
    }
    warn_of_columns(source, &k->constant, "never change", warn, context);
    warn_of_columns(source, &k->counting,
                    "count rows: what is learned from them holds for no other data; leave them "
                    "out with --ignore",
                    warn, context);
}

/* ---- JSON ---- */

static void add_warning(void *context, const char *text) {
    (void)context;
    json_item_text(text);
}

static void add_classes(const qn_data_source *source, const qn_look *k) {
    char text[24];
    json_open_list("classes");
    for (int i = 0; i < k->n_classes; i++) {
        json_begin_item();
        json_text("class", samples_class_name(source, i, text));
        for (int split = 0; split < QN_SPLITS; split++)
            json_count(split_names[split], k->counts[split * k->n_classes + i]);
        json_end_item();
    }
    json_close_list();
    json_text("commonest_class", samples_class_name(source, k->commonest, text));
    json_number("commonest_accuracy", k->by_commonest[judged_split(source)]);
}

static void add_labels(const qn_data_source *source, const qn_look *k) {
    char text[24];
    json_open_list("labels");
    for (int i = 0; i < k->n_labels; i++) {
        json_begin_item();
        json_text("label", samples_label_name(source, i, text));
        for (int split = 0; split < QN_SPLITS; split++)
            json_count(split_names[split], k->counts[split * k->n_labels + i]);
        json_end_item();
    }
    json_close_list();
    json_count("samples_of_several_labels", k->n_several);
    json_count("samples_without_a_label", k->n_bare);
}

void samples_add_json(const qn_data_source *source, const qn_look *k) {
    if (k->n_classes > 0) {
        add_classes(source, k);
    } else if (k->n_labels > 0) {
        add_labels(source, k);
    } else {
        json_number("target_mean", k->mean);
        json_number("target_least", k->least);
        json_number("target_most", k->most);
        json_number("mean_rmse", k->by_mean[judged_split(source)]);
    }
    json_count("compared_samples", k->n_compared);
    json_count("samples_on_both_sides", k->n_across);
    json_count("samples_equal_to_another_class", k->n_contrary);
    json_count("constant_columns", k->constant.n);
    json_count("counting_columns", k->counting.n);
    json_open_list("warnings");
    samples_warn(source, k, (samples_known){false, false}, add_warning, NULL);
    json_close_list();
}
