/* The list of data formats, opening and closing by name; see source.h and quern/data.h. */
#include "data/source.h"

#include "base/options.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "data/split/divide.h"
#include "os/heap.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

extern const qn_data_format qn_format_fashion_mnist, qn_format_idx, qn_format_cifar10,
    qn_format_cifar100, qn_format_images, qn_format_npy, qn_format_csv, qn_format_labelled,
    qn_format_sounds, qn_format_texts, qn_format_synthetic;

static const qn_data_format *const formats[] = {
    &qn_format_fashion_mnist, &qn_format_idx,   &qn_format_cifar10,   &qn_format_cifar100,
    &qn_format_images,        &qn_format_npy,   &qn_format_csv,       &qn_format_labelled,
    &qn_format_sounds,        &qn_format_texts, &qn_format_synthetic,
};

enum { N_FORMATS = sizeof formats / sizeof *formats };

void qn_data_tell(const qn_source_base *base, int level, const char *format, ...) {
    const qn_log *log = base->options.log;
    char text[1024];
    if (!log || !log->write)
        return;
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    log->write(log->user, level, text);
}

static qn_status fail_unknown(const char *specification) {
    char known[512] = "";
    for (int i = 0; i < N_FORMATS; i++) {
        size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%s%s%s", i > 0 ? ", " : "", formats[i]->name,
                 formats[i]->usage ? ":" : "", formats[i]->usage ? formats[i]->usage : "");
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "data '%s' is neither a file or folder of a known kind nor one of: %s",
                   specification, known);
}

/* The row that a specification names; *argument is what follows the colon, "" if nothing does. */
static qn_status find_format(const char *specification, const qn_data_format **format,
                             const char **argument) {
    size_t length = strcspn(specification, ":");
    bool has_argument = specification[length] == ':' && specification[length + 1];
    for (int i = 0; i < N_FORMATS; i++) {
        if (strlen(formats[i]->name) != length ||
            memcmp(specification, formats[i]->name, length) != 0)
            continue;
        if (has_argument == !formats[i]->usage)
            return qn_fail(QN_ERROR_ARGUMENT, "data '%s': it is written %s%s%s", specification,
                           formats[i]->name, formats[i]->usage ? ":" : "",
                           formats[i]->usage ? formats[i]->usage : "");
        *format = formats[i];
        *argument = specification + length + has_argument;
        return QN_OK;
    }
    return fail_unknown(specification);
}

static void close_source(void *self) {
    qn_source_base *base = self;
    if (base->format->release)
        base->format->release(base);
    qn_data_facts_deinit(base);
    qn_arena_deinit(&base->arena);
    qn_release(base->options.allocator, base, 1, base->format->self_bytes);
}

/* Where neither the format nor the division has said by what it splits. */
static void name_split(qn_source_base *base, const qn_data_source *source) {
    if (!base->facts.split_by)
        base->facts.split_by = source->n_samples[QN_TEST] == 0 ? "nothing, as --holdout is 0"
                                                               : "the data's own test set";
}

const char *qn_source_group(const qn_source_base *base) {
    const char *group = base->options.group;
    return group && *group && strcmp(group, "none") != 0 ? group : NULL;
}

/* What a format cannot do is refused, and what says how windows are made needs them. */
static qn_status check_options(const qn_source_base *base, const char *name) {
    const qn_data_options *o = &base->options;
    const char *said = o->stride > 0     ? "--stride"
                       : o->window_label ? "--window-label"
                       : o->time         ? "--time"
                                         : NULL;
    if (qn_source_group(base) && !base->format->has_groups)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--group %s is a column of tables (csv:FILE, images:DIR,TABLE.csv), a "
                       "folder of pictures, or an array beside arrays; %s has none: leave it out "
                       "(--group none)",
                       o->group, name);
    if (o->classes_from != QN_CLASSES_FROM_TOP && strcmp(base->format->name, "images") != 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--classes-from is for folders of pictures (images:DIR); %s is none", name);
    if (o->task && strcmp(o->task, "labels") == 0 && !o->table && !base->format->has_labels)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--task labels is for tables and folders of pictures; %s has none", name);
    if (o->window > 0 && !base->format->has_windows)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--window is for tables and arrays whose rows are steps of time; %s has "
                       "none",
                       name);
    if (o->window <= 0 && said)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is for windows; say how many rows with --window N",
                       said);
    return o->window > 0 && o->window < 2
               ? qn_fail(QN_ERROR_ARGUMENT, "a window has 2 rows or more")
               : QN_OK;
}

static qn_status fill_source(qn_source_base *base, const char *specification,
                             qn_data_source *source) {
    base->argument = qn_arena_text(&base->arena, base->argument ? base->argument : "");
    source->name = qn_arena_text(&base->arena, specification);
    if (!base->argument || !source->name)
        return QN_ERROR_MEMORY;
    QN_TRY(check_options(base, specification));
    QN_TRY(base->format->open(base, source));
    if (source->n_targets > 0 && base->facts.target_kind == QN_TARGET_CLASSES)
        base->facts.target_kind = QN_TARGET_NUMBERS;
    source->facts = &base->facts;
    if (source->n_samples[QN_TRAIN] < 1 && !base->needs_no_training)
        return qn_fail(QN_ERROR_FORMAT, "%s holds no training samples", specification);
    QN_TRY(qn_source_divide(base, source));
    if (base->divided)
        QN_TRY(base->divided(base, source));
    name_split(base, source);
    QN_TRY(qn_targets_measure(base, source));
    if (base->wants_statistics)
        return qn_statistics_measure(base, source);
    return QN_OK;
}

qn_status qn_source_open(const qn_data_format *format, const qn_source_base *given,
                         const char *specification, const qn_data_options *options,
                         qn_data_source *source) {
    qn_source_base *base = NULL;
    qn_data_options known = {QN_OPTIONS_INIT(qn_data_options)};
    if (options)
        QN_TRY(QN_OPTIONS_TAKE(qn_data_options, options, &known));
    known.allocator = qn_allocator_or_default(known.allocator);
    QN_TRY(qn_allocate(known.allocator, 1, format->self_bytes, &base));
    base->format = format;
    base->options = known;
    base->argument = given->argument;
    base->samples = given->samples;
    qn_arena_init(&base->arena, known.allocator);
    qn_data_source opened = {.self = base, .close = close_source};
    qn_status status = fill_source(base, specification, &opened);
    if (status != QN_OK) {
        close_source(base);
        return status;
    }
    *source = opened;
    return QN_OK;
}

qn_status qn_data_open(const char *specification, const qn_data_options *options,
                       qn_data_source *source) {
    QN_NEED(specification, "specification");
    QN_NEED(source, "source");
    const qn_data_format *format = NULL;
    qn_source_base given = {.argument = NULL};
    QN_TRY(find_format(specification, &format, &given.argument));
    return qn_source_open(format, &given, specification, options, source);
}

void qn_data_close(qn_data_source *source) {
    if (source && source->close)
        source->close(source->self);
    if (source)
        *source = (qn_data_source){0};
}

bool qn_split_of_name(const char *name, qn_split *split) {
    static const struct {
        const char *name;
        qn_split split;
    } names[] = {{"train", QN_TRAIN},          {"training", QN_TRAIN}, {"test", QN_TEST},
                 {"testing", QN_TEST},         {"val", QN_VALIDATION}, {"valid", QN_VALIDATION},
                 {"validation", QN_VALIDATION}};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        *split = names[i].split;
        if (qn_text_is_same(names[i].name, name))
            return true;
    }
    return false;
}
