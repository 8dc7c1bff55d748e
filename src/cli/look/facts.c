/* See facts.h. */
#include "cli/look/facts.h"

#include "base/print.h"
#include "cli/json.h"
#include "tensor/tensor.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { LINE = 1024, MOST_COLUMNS = 12 };

static void append(char line[LINE], const char *format, ...) __attribute__((format(printf, 2, 3)));

static void append(char line[LINE], const char *format, ...) {
    const size_t used = strlen(line);
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(line + used, LINE - used, format, arguments);
    va_end(arguments);
}

/* ---- for people ---- */

static const char *separator_name(char separator) {
    return separator == '\t'  ? "tabs"
           : separator == ';' ? "semicolons"
           : separator == '|' ? "bars"
           : separator == ',' ? "commas"
                              : "blanks";
}

static void print_table(const qn_data_facts *f, const look_lines *to) {
    char line[LINE] = "";
    if (!f->separator)
        return;
    append(line, "table: separated by %s, decimal %s", separator_name(f->separator),
           f->decimal == ',' ? "comma" : "point");
    if (f->has_header != QN_NOT_ASKED)
        append(line, ", %s", f->has_header == QN_ANSWER_YES ? "a header" : "no header");
    if (f->encoding)
        append(line, ", %s", f->encoding);
    look_put(to, "%s", line);
}

static void print_columns(const qn_data_facts *f, const look_lines *to) {
    char line[LINE] = "";
    if (f->n_columns == 0)
        return;
    append(line, "columns: %zu", f->n_columns);
    for (size_t i = 0; i < f->n_columns && i < MOST_COLUMNS; i++) {
        const qn_column_fact *c = &f->columns[i];
        append(line, "%s %s (%s%s", i ? "," : ":", c->name, c->left_out ? "left out: " : "",
               c->left_out ? c->left_out : c->kind);
        if (c->n_missing > 0)
            append(line, ", %lld missing", (long long)c->n_missing);
        append(line, ")");
    }
    if (f->n_columns > MOST_COLUMNS)
        append(line, ", and %zu more", f->n_columns - MOST_COLUMNS);
    look_put(to, "%s", line);
}

static void print_counts(const char *name, const qn_count_facts *facts, const look_lines *to) {
    char line[LINE] = "";
    for (size_t i = 0; i < facts->n; i++) {
        const qn_count_fact *c = &facts->list[i];
        append(line, "%s %lld %s", i ? "," : "", (long long)c->n, c->kind);
        if (c->why)
            append(line, " (%s)", c->why);
    }
    if (facts->n > 0)
        look_put(to, "%s:%s", name, line);
}

static void print_samples(const qn_data_source *source, const look_lines *to) {
    const qn_data_facts *f = source->facts;
    char shape[QN_SHAPE_TEXT], line[LINE] = "";
    if (source->sample.rank == 3 && source->sample.dims[0] == 0) {
        append(line, "samples: pictures of any size");
    } else {
        qn_shape_print(source->sample, shape);
        append(line, "samples: %s %s", shape, source->dtype == QN_U8 ? "bytes" : "numbers");
    }
    if (f->element)
        append(line, ", %s in the file", f->element);
    if (f->axes)
        append(line, ", axes %s", f->axes);
    look_put(to, "%s", line);
}

static void print_target(const qn_data_source *source, const look_lines *to) {
    const qn_data_facts *f = source->facts;
    char line[LINE] = "target: ";
    if (f->target)
        append(line, "%s, ", f->target);
    if (f->target_kind == QN_TARGET_CLASSES)
        append(line, "%d class%s", source->preparation.n_classes,
               source->preparation.n_classes == 1 ? "" : "es");
    else if (f->target_kind == QN_TARGET_NUMBERS)
        append(line, "%d number%s", source->n_targets, source->n_targets == 1 ? "" : "s");
    else
        append(line, "%s", qn_target_kind_name(f->target_kind));
    if (f->target_why)
        append(line, " (%s)", f->target_why);
    look_put(to, "%s", line);
}

static void print_split(const qn_data_source *source, const look_lines *to) {
    char line[LINE] = "";
    append(line, "split: %lld to train on", (long long)source->n_samples[QN_TRAIN]);
    if (source->n_samples[QN_VALIDATION] > 0)
        append(line, ", %lld to validate", (long long)source->n_samples[QN_VALIDATION]);
    append(line, ", %lld to test, by %s", (long long)source->n_samples[QN_TEST],
           source->facts->split_by);
    look_put(to, "%s", line);
}

void facts_print(const qn_data_source *source, const look_lines *to) {
    const qn_data_facts *f = source->facts;
    print_table(f, to);
    print_columns(f, to);
    print_samples(source, to);
    print_counts("formats", &f->formats, to);
    print_counts("sizes", &f->sizes, to);
    print_target(source, to);
    print_split(source, to);
    print_counts("left out", &f->dropped, to);
    for (size_t i = 0; i < f->n_notes; i++)
        look_put(to, "note: %s", f->notes[i]);
}

/* ---- JSON ---- */

static void add_text(const char *key, const char *text) {
    if (text)
        json_text(key, text);
    else
        json_null(key);
}

static void add_counts(const char *key, const qn_count_facts *facts) {
    json_open_list(key);
    for (size_t i = 0; i < facts->n; i++) {
        const qn_count_fact *c = &facts->list[i];
        json_begin_item();
        json_text("kind", c->kind);
        json_count("files", c->n);
        add_text("why", c->why);
        add_text("example", c->example);
        json_end_item();
    }
    json_close_list();
}

static void add_columns(const qn_data_facts *f) {
    json_open_list("columns");
    for (size_t i = 0; i < f->n_columns; i++) {
        const qn_column_fact *c = &f->columns[i];
        json_begin_item();
        json_text("name", c->name);
        json_text("kind", c->kind);
        json_count("missing", c->n_missing);
        json_count("values", c->n_values);
        add_text("left_out", c->left_out);
        json_end_item();
    }
    json_close_list();
}

static void add_table(const qn_data_facts *f) {
    if (f->separator) {
        json_text("separator", (char[]){f->separator, 0});
        json_text("decimal_mark", (char[]){f->decimal, 0});
    }
    if (f->has_header != QN_NOT_ASKED)
        json_flag("header", f->has_header == QN_ANSWER_YES);
    add_text("encoding", f->encoding);
    add_columns(f);
}

void facts_add_json(const qn_data_source *source) {
    const qn_data_facts *f = source->facts;
    char shape[QN_SHAPE_TEXT];
    qn_shape_print(source->sample, shape);
    json_text("data", source->name);
    add_table(f);
    json_text("sample", shape);
    json_text("sample_type", source->dtype == QN_U8 ? "bytes" : "numbers");
    add_text("element", f->element);
    add_text("axes", f->axes);
    add_counts("formats", &f->formats);
    add_counts("sizes", &f->sizes);
    add_text("target", f->target);
    json_text("target_kind", qn_target_kind_name(f->target_kind));
    add_text("target_why", f->target_why);
    json_count("targets", source->n_targets);
    json_count("training_samples", source->n_samples[QN_TRAIN]);
    json_count("validation_samples", source->n_samples[QN_VALIDATION]);
    json_count("test_samples", source->n_samples[QN_TEST]);
    json_text("split_by", f->split_by);
    add_counts("left_out", &f->dropped);
    json_open_list("notes");
    for (size_t i = 0; i < f->n_notes; i++)
        json_item_text(f->notes[i]);
    json_close_list();
}
