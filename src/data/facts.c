/* See facts.h. */
#include "data/facts.h"

#include "base/print.h"
#include "base/status.h"
#include "data/source.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MOST_TEXT = 1024 };

qn_status qn_data_facts_set(qn_source_base *base, const char **fact, const char *format, ...) {
    char text[MOST_TEXT];
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    const char *kept = qn_arena_text(&base->arena, text);
    if (!kept)
        return QN_ERROR_MEMORY;
    *fact = kept;
    return QN_OK;
}

qn_status qn_data_facts_note(qn_source_base *base, const char *format, ...) {
    qn_data_facts *f = &base->facts;
    char text[MOST_TEXT];
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    QN_TRY(qn_grow(base->options.allocator, &f->notes, &f->note_capacity, f->n_notes + 1,
                   sizeof *f->notes));
    QN_TRY(qn_data_facts_set(base, &f->notes[f->n_notes], "%s", text));
    f->n_notes++;
    return QN_OK;
}

/* A copy of a text that may be null. */
static qn_status keep(qn_source_base *base, const char *text, const char **kept) {
    *kept = NULL;
    return text ? qn_data_facts_set(base, kept, "%s", text) : QN_OK;
}

qn_status qn_data_facts_count(qn_source_base *base, qn_count_facts *facts, const char *kind,
                              const char *why, const char *example, int64_t n) {
    qn_count_fact fact = {.n = n};
    for (size_t i = 0; i < facts->n; i++) {
        if (strcmp(facts->list[i].kind, kind) != 0)
            continue;
        facts->list[i].n += n;
        return QN_OK;
    }
    QN_TRY(keep(base, kind, &fact.kind));
    QN_TRY(keep(base, why, &fact.why));
    QN_TRY(keep(base, example, &fact.example));
    QN_TRY(qn_grow(base->options.allocator, &facts->list, &facts->capacity, facts->n + 1,
                   sizeof *facts->list));
    facts->list[facts->n++] = fact;
    return QN_OK;
}

qn_status qn_data_facts_add_column(qn_source_base *base, const qn_column_fact *column) {
    qn_data_facts *f = &base->facts;
    qn_column_fact fact = *column;
    QN_TRY(keep(base, column->name, &fact.name));
    QN_TRY(keep(base, column->kind, &fact.kind));
    QN_TRY(keep(base, column->left_out, &fact.left_out));
    QN_TRY(qn_grow(base->options.allocator, &f->columns, &f->column_capacity, f->n_columns + 1,
                   sizeof *f->columns));
    f->columns[f->n_columns++] = fact;
    return QN_OK;
}

static void release_counts(const qn_allocator *allocator, qn_count_facts *facts) {
    qn_release(allocator, facts->list, facts->capacity, sizeof *facts->list);
    *facts = (qn_count_facts){.list = NULL};
}

void qn_data_facts_deinit(qn_source_base *base) {
    const qn_allocator *allocator = base->options.allocator;
    qn_data_facts *f = &base->facts;
    release_counts(allocator, &f->formats);
    release_counts(allocator, &f->sizes);
    release_counts(allocator, &f->dropped);
    qn_release(allocator, f->columns, f->column_capacity, sizeof *f->columns);
    qn_release(allocator, f->notes, f->note_capacity, sizeof *f->notes);
}

const char *qn_target_kind_name(qn_target_kind kind) {
    static const char *const names[] = {[QN_TARGET_CLASSES] = "classes",
                                        [QN_TARGET_NUMBERS] = "numbers",
                                        [QN_TARGET_LABELS] = "labels",
                                        [QN_TARGET_NONE] = "none"};
    return names[kind];
}
