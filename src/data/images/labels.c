/* A table of files and labels as labelling programs export it: images:DIR,LABELS.csv. It is written
 * as other tables are; what separates its fields is what makes most of them names of pictures. The
 * column of files is the one whose fields are pictures below the folder, with their endings or
 * without, and with what programs make of paths: folders of their own, backslashes, %20, a number
 * in front. The label is the other column where there are two, else the one that is named so, or
 * that the caller names. A column split, set or subset says where a picture belongs. */
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "base/text.h"
#include "data/cache.h"
#include "data/images/image.h"
#include "data/images/several.h"
#include "data/images/tree.h"
#include "data/table/scan.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LOOKED_AT = 100 };

typedef struct labels {
    qn_image_tree *tree;
    const char *folder;
    csv_table *table;
    const qn_csv_reader *row; /* the table's */
    bool has_header;
    size_t n_columns, file, label, split, group; /* of the last two n_columns: there is none */
    const char **names;                          /* (n_columns), in the arena */
} labels;

/* ---- files ---- */

static bool is_there(const char *folder, const char *name) {
    char path[PATH_MAX];
    const int length = snprintf(path, sizeof path, "%s/%s", folder, name);
    return length > 0 && (size_t)length < sizeof path && *name && qn_path_is_file(path);
}

static bool find_form(const labels *l, const char *form, char *name, size_t bytes) {
    static const char *const endings[] = {"",     ".jpg", ".png", ".jpeg", ".JPG",
                                          ".PNG", ".bmp", ".tif", ".webp"};
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++) {
        const int n = snprintf(name, bytes, "%s%s", form, endings[i]);
        if (n > 0 && (size_t)n < bytes && qn_image_has_name(name) && is_there(l->folder, name))
            return true;
    }
    return false;
}

static const char *last_part(const char *path) {
    const char *last = strrchr(path, '/');
    return last ? last + 1 : path;
}

static int hex_of(char c) {
    return c >= '0' && c <= '9' ? c - '0' : (c | 32) >= 'a' && (c | 32) <= 'f' ? (c | 32) - 87 : -1;
}

/* A path with slashes, and characters in the place of %20 and the like; false: it is too long. */
static bool write_plainly(const char *field, char *plain, size_t bytes) {
    size_t n = 0;
    for (; *field && n + 1 < bytes; field++) {
        const bool is_code = *field == '%' && hex_of(field[1]) >= 0 && hex_of(field[2]) >= 0;
        const int code = is_code ? 16 * hex_of(field[1]) + hex_of(field[2]) : 0;
        plain[n++] = code > 0 ? (char)code : *field == '\\' ? '/' : *field;
        field += code > 0 ? 2 : 0;
    }
    plain[n] = 0;
    return !*field;
}

/* A name without the number that a labelling program put in front of it: 4c0f24a1-a.png. */
static const char *without_number(const char *name) {
    enum { DIGITS = 8 };
    int n = 0;
    while (n < DIGITS && hex_of(name[n]) >= 0)
        n++;
    return n == DIGITS && name[n] == '-' ? name + n + 1 : name;
}

/* The path below the folder that a field names: as it stands, with an ending, or, of a program that
 * writes where it has its own copies, its last part. False: there is no such file. */
static bool find_file(const labels *l, const char *field, char *name, size_t bytes) {
    char plain[PATH_MAX];
    if (find_form(l, field, name, bytes) || find_form(l, last_part(field), name, bytes))
        return true;
    if (!write_plainly(field, plain, sizeof plain))
        return false;
    return find_form(l, plain, name, bytes) || find_form(l, last_part(plain), name, bytes) ||
           find_form(l, without_number(last_part(plain)), name, bytes);
}

/* ---- columns ---- */

static qn_status keep_names(labels *l) {
    qn_arena *arena = &l->tree->base->arena;
    l->n_columns = l->row->n_fields;
    l->names = qn_arena_allocate(arena, l->n_columns, sizeof *l->names);
    for (size_t i = 0; l->names && i < l->n_columns; i++) {
        l->names[i] = qn_arena_text(arena, qn_csv_text(l->row, i));
        if (!l->names[i])
            return QN_ERROR_MEMORY;
    }
    return l->names ? QN_OK : QN_ERROR_MEMORY;
}

/* Whether the record last read names a picture in a column; *n counts such records by column. */
static bool count_files(const labels *l, int64_t *n) {
    char name[PATH_MAX];
    bool has_any = false;
    for (size_t i = 0; i < l->row->n_fields && i < l->n_columns; i++) {
        const bool is_file = find_file(l, qn_csv_text(l->row, i), name, sizeof name);
        n[i] += is_file;
        has_any |= is_file;
    }
    return has_any;
}

/* The column that names pictures in most of the first records: a label 3 may be a file's name,
 * too. */
static qn_status find_file_column(labels *l, bool is_end) {
    int64_t *n = qn_arena_allocate(&l->tree->base->arena, l->n_columns, sizeof *n);
    if (!n)
        return QN_ERROR_MEMORY;
    l->has_header = !count_files(l, n);
    for (int k = 0; k < LOOKED_AT && !is_end; k++) {
        QN_TRY(qn_csv_next(&l->table->reader, &is_end));
        if (!is_end)
            count_files(l, n);
    }
    for (size_t i = 0; i < l->n_columns; i++)
        if (n[i] > n[l->file])
            l->file = i;
    return n[l->file] > 0
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT,
                         "%s: no column names pictures that lie in %s; the first line is '%.60s'",
                         l->row->name, l->folder, l->names[0]);
}

/* How many of the first records name a picture, with a separator. */
static int count_pictures(const labels *l, char separator) {
    char name[PATH_MAX];
    bool is_end = false;
    int n = 0;
    l->table->separator = separator;
    qn_csv_begin(l->table);
    for (int k = 0; k < LOOKED_AT; k++) {
        bool is_there = false;
        if (qn_csv_next(&l->table->reader, &is_end) != QN_OK || is_end)
            return n;
        for (size_t i = 0; l->row->n_fields > 1 && i < l->row->n_fields && !is_there; i++)
            is_there = find_file(l, qn_csv_text(l->row, i), name, sizeof name);
        n += is_there;
    }
    return n;
}

static void find_separator(labels *l) {
    static const char separators[] = ",;\t|";
    const char *told = l->tree->base->options.separator;
    char best = ',';
    int most = 0;
    for (const char *at = separators; *at && !(told && *told); at++) {
        const int n = count_pictures(l, *at);
        best = n > most ? *at : best;
        most = n > most ? n : most;
    }
    l->table->separator = !told || !*told ? best : strcmp(told, "tab") == 0 ? '\t' : told[0];
    qn_csv_begin(l->table);
}

static size_t find_named(const labels *l, const char *const *names, size_t n) {
    for (size_t k = 0; k < n; k++)
        for (size_t i = 0; l->has_header && i < l->n_columns; i++)
            if (i != l->file && qn_text_is_same(l->names[i], names[k]))
                return i;
    return l->n_columns;
}

static qn_status fail_label(const labels *l, const char *label) {
    char known[512] = "";
    for (size_t i = 0; i < l->n_columns && l->has_header; i++) {
        const size_t used = strlen(known);
        snprintf(known + used, sizeof known - used, "%s%.60s", i ? ", " : "", l->names[i]);
    }
    return qn_fail(
        QN_ERROR_FORMAT, "%s: %s%s%s; name the column of labels with ,label=NAME (there are: %s)",
        l->row->name, label ? "there is no column " : "no column is named label or class",
        label ? label : "", "", known);
}

static qn_status find_label(labels *l, const char *label) {
    static const char *const usual[] = {"label",    "labels",     "class",  "class_name",
                                        "category", "class_id",   "choice", "target",
                                        "species",  "label_name", "tag"};
    static const char *const splits[] = {"split", "set", "subset", "fold_name"};
    l->split = find_named(l, splits, sizeof splits / sizeof splits[0]);
    l->label =
        label ? find_named(l, &label, 1) : find_named(l, usual, sizeof usual / sizeof usual[0]);
    if (!label && l->label == l->n_columns && l->n_columns == 2)
        l->label = 1 - l->file;
    return l->label < l->n_columns ? QN_OK : fail_label(l, label);
}

static qn_status find_group(labels *l) {
    qn_source_base *base = l->tree->base;
    const char *group = qn_source_group(base);
    l->group = group ? find_named(l, &group, 1) : l->n_columns;
    if (!group)
        return QN_OK;
    if (l->group == l->n_columns)
        return qn_fail(QN_ERROR_ARGUMENT, "%s has no column '%s' (--group)", l->row->name, group);
    base->units = qn_arena_format(&base->arena, "values of '%s'", group);
    return base->units ? QN_OK : QN_ERROR_MEMORY;
}

/* The first record is a header where it names no picture. */
static qn_status read_header(labels *l, const char *label) {
    bool is_end;
    find_separator(l);
    QN_TRY(qn_csv_next(&l->table->reader, &is_end));
    if (is_end)
        return qn_fail(QN_ERROR_FORMAT, "%s: no rows", l->row->name);
    QN_TRY(keep_names(l));
    QN_TRY(find_file_column(l, is_end));
    QN_TRY(find_label(l, label));
    QN_TRY(find_group(l));
    qn_csv_begin(l->table);
    return l->has_header ? qn_csv_next(&l->table->reader, &is_end) : QN_OK;
}

/* ---- rows ---- */

static qn_status find_split(const labels *l, qn_split *split) {
    *split = QN_TRAIN;
    if (l->split == l->n_columns || qn_split_of_name(qn_csv_text(l->row, l->split), split))
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": '%.40s' is none of train, val and test",
                   l->row->name, l->row->line, qn_csv_text(l->row, l->split));
}

static qn_status leave_out(labels *l, const char *kind, const char *why, const char *example) {
    if (l->tree->base->options.strict)
        return qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": %s: %s", l->row->name, l->row->line,
                       example, why);
    return qn_data_facts_count(l->tree->base, &l->tree->base->facts.dropped, kind, why, example, 1);
}

/* Of the picture that was added last. */
static qn_status set_group(labels *l, qn_split split) {
    qn_image_list *list = &l->tree->lists[split];
    if (l->group == l->n_columns)
        return QN_OK;
    const char *group = qn_csv_text(l->row, l->group);
    if (!*group)
        return qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": an empty field instead of a group",
                       l->row->name, l->row->line);
    list->entries[list->n - 1].group = qn_hash_text(group) | 1;
    return QN_OK;
}

/* A picture with its label; "": none. */
static qn_status add_picture(labels *l, qn_split split, const char *name, const char *label) {
    int32_t class = -1;
    if (*label)
        QN_TRY(qn_image_tree_class(l->tree, label, &class));
    QN_TRY(qn_image_tree_add(l->tree, split, name, class));
    return set_group(l, split);
}

/* A list of labels with a bar between, as tables of numbers have them. */
static qn_status add_list(labels *l, qn_split split, const char *name, const char *list) {
    char label[PATH_MAX];
    for (;;) {
        list += strspn(list, " ");
        const size_t n = strcspn(list, "|");
        size_t used = n;
        while (used > 0 && list[used - 1] == ' ')
            used--;
        if (used >= sizeof label)
            return qn_fail(QN_ERROR_FORMAT, "%s: line %" PRId64 ": a label of %zu bytes",
                           l->row->name, l->row->line, used);
        snprintf(label, sizeof label, "%.*s", (int)used, list);
        QN_TRY(add_picture(l, split, name, label));
        if (!list[n])
            return QN_OK;
        list += n + 1;
    }
}

static qn_status add_row(labels *l) {
    char name[PATH_MAX];
    qn_split split;
    const bool are_labels = qn_images_have_labels(l->tree->base);
    if (l->row->n_fields != l->n_columns)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s: line %" PRId64 " has %zu fields, the first line has %zu", l->row->name,
                       l->row->line, l->row->n_fields, l->n_columns);
    const char *field = qn_csv_text(l->row, l->file), *label = qn_csv_text(l->row, l->label);
    if (!*label && !are_labels)
        return leave_out(l, "rows", "without a label", field);
    if (!find_file(l, field, name, sizeof name))
        return leave_out(l, "rows of files", "which are not there, or are no pictures", field);
    QN_TRY(find_split(l, &split));
    return are_labels ? add_list(l, split, name, label) : add_picture(l, split, name, label);
}

/* ---- pictures in two rows ---- */

static int by_name(const void *left, const void *right) {
    const qn_image_entry *const *a = left, *const *b = right;
    return strcmp((*a)->name, (*b)->name);
}

/* Of two classes a picture is an error. */
static qn_status check_classes(const labels *l, const qn_image_entry **all, size_t n) {
    const char **classes = l->tree->classes;
    qsort(all, n, sizeof *all, by_name);
    for (size_t i = 1; i < n; i++) {
        if (strcmp(all[i - 1]->name, all[i]->name) == 0 && all[i - 1]->class != all[i]->class)
            return qn_fail(
                QN_ERROR_FORMAT,
                "%s: %s is of class %s in one row and of %s in another; leave one out, or "
                "train labels, of which a picture may have several (--task labels)",
                l->row->name, all[i]->name, classes[all[i - 1]->class], classes[all[i]->class]);
    }
    return QN_OK;
}

/* In sorted lists a picture that counts twice follows itself. */
static qn_status drop_repeated(labels *l) {
    for (int split = 0; split < QN_SPLITS; split++) {
        qn_image_list *list = &l->tree->lists[split];
        size_t n_kept = 0;
        for (size_t i = 0; i < list->n; i++) {
            const bool is_again =
                n_kept > 0 && strcmp(list->entries[n_kept - 1].name, list->entries[i].name) == 0;
            if (!is_again)
                list->entries[n_kept++] = list->entries[i];
            else
                QN_TRY(leave_out(l, "rows of pictures", "named before", list->entries[i].name));
        }
        list->n = n_kept;
    }
    return QN_OK;
}

static qn_status check_repeated(labels *l) {
    const qn_allocator *allocator = l->tree->base->options.allocator;
    const qn_image_entry **all;
    size_t n = 0, at = 0;
    for (int split = 0; split < QN_SPLITS; split++)
        n += l->tree->lists[split].n;
    QN_TRY(qn_allocate(allocator, n, sizeof *all, &all));
    for (int split = 0; split < QN_SPLITS; split++)
        for (size_t i = 0; i < l->tree->lists[split].n; i++)
            all[at++] = &l->tree->lists[split].entries[i];
    const qn_status status = check_classes(l, all, n);
    qn_release(allocator, all, n, sizeof *all);
    return status == QN_OK ? drop_repeated(l) : status;
}

/* ---- all ---- */

static qn_status read_rows(labels *l) {
    for (;;) {
        bool is_end;
        QN_TRY(qn_csv_next(&l->table->reader, &is_end));
        if (is_end)
            return QN_OK;
        QN_TRY(add_row(l));
    }
}

static qn_status list_rows(labels *l, const char *label) {
    qn_source_base *base = l->tree->base;
    QN_TRY(read_header(l, label));
    for (int split = 0; split < QN_SPLITS; split++)
        if (split == QN_TRAIN || l->split < l->n_columns)
            l->tree->lists[split].root = l->folder;
    QN_TRY(read_rows(l));
    if (l->tree->n_classes == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: no picture has a label", l->row->name);
    QN_TRY(qn_data_facts_set(base, &base->facts.target, "column %s of %s",
                             l->has_header ? l->names[l->label] : "2", l->row->name));
    const qn_csv_form form = {l->table->decoder.encoding, l->table->separator, '.'};
    qn_csv_tell_form(&form, base->options.log, l->row->name);
    base->facts.has_header = l->has_header ? QN_ANSWER_YES : QN_ANSWER_NO;
    QN_TRY(qn_image_tree_sort(l->tree));
    return qn_images_have_labels(base) ? QN_OK : check_repeated(l);
}

qn_status qn_image_labels_list(qn_image_tree *tree, const char *folder, const char *table,
                               const char *label) {
    labels l = {.tree = tree, .folder = folder};
    qn_file *file;
    tree->is_of_table = true;
    if (tree->base->options.classes_from != QN_CLASSES_FROM_TOP)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--classes-from is for folders of pictures; images:%s,%s has its classes in "
                       "a table",
                       folder, table);
    if (!qn_path_is_folder(folder))
        return qn_fail(QN_ERROR_IO, "images:%s,%s: there is no folder %s", folder, table, folder);
    const qn_csv_options options = {
        .allocator = tree->base->options.allocator, .name = table, .how = &tree->base->options};
    QN_TRY(qn_data_open_file(tree->base, table, &file));
    qn_status status = qn_csv_open_table(&options, file, &l.table);
    if (status == QN_OK) {
        l.row = &l.table->reader;
        status = list_rows(&l, label);
        qn_csv_close_table(l.table);
    }
    qn_file_close(file);
    return status;
}
