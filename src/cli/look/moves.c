/* See moves.h. */
#include "cli/look/moves.h"

#include "base/status.h"
#include "format/csv.h"
#include "os/heap.h"
#include "os/os.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

enum { MOST_NAMES = 10000 };

static const char first_line[] = "moved from,moved to\n";

void moves_init(moves *m) {
    *m = (moves){.n = 0};
    qn_arena_init(&m->texts, qn_allocator_default());
}

void moves_deinit(moves *m) {
    qn_release(qn_allocator_default(), m->list, m->capacity, sizeof *m->list);
    qn_arena_deinit(&m->texts);
}

static qn_status append(moves *m, const char *from, const char *to) {
    QN_TRY(qn_grow(qn_allocator_default(), &m->list, &m->capacity, m->n + 1, sizeof *m->list));
    one_move *one = &m->list[m->n];
    *one = (one_move){qn_arena_text(&m->texts, from), qn_arena_text(&m->texts, to), false};
    if (!one->from || !one->to)
        return QN_ERROR_MEMORY;
    m->n++;
    return QN_OK;
}

/* ---- adding ---- */

static bool is_taken(const moves *m, const char *path) {
    if (qn_path_is_file(path) || qn_path_is_folder(path))
        return true;
    for (size_t i = 0; i < m->n; i++)
        if (strcmp(m->list[i].to, path) == 0)
            return true;
    return false;
}

qn_status moves_add(moves *m, const char *from, const char *to) {
    const char *name = strrchr(to, '/'), *dot = strrchr(name ? name : to, '.');
    const int stem = (int)(dot ? dot - to : (long)strlen(to));
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", to);
    for (int k = 2; is_taken(m, path) && k < MOST_NAMES; k++) {
        const int n = snprintf(path, sizeof path, "%.*s-%d%s", stem, to, k, dot ? dot : "");
        if ((size_t)n >= sizeof path)
            return qn_fail(QN_ERROR_IO, "%s: the path is too long", to);
    }
    return append(m, from, path);
}

/* ---- the list ---- */

/* As it is: names need not be UTF-8. */
static qn_status put_field(qn_writer *writer, const char *text, const char *after) {
    QN_TRY(qn_writer_put(writer, "\"", 1));
    for (; *text; text++)
        QN_TRY(qn_writer_put(writer, *text == '"' ? "\"\"" : text, *text == '"' ? 2 : 1));
    QN_TRY(qn_writer_put(writer, "\"", 1));
    return qn_writer_put(writer, after, 1);
}

static qn_status write_list(void *context, qn_writer *writer) {
    const moves *m = context;
    QN_TRY(qn_writer_put(writer, first_line, strlen(first_line)));
    for (size_t i = 0; i < m->n; i++) {
        QN_TRY(put_field(writer, m->list[i].from, ","));
        QN_TRY(put_field(writer, m->list[i].to, "\n"));
    }
    return QN_OK;
}

qn_status moves_write(moves *m, const char *path, const char **written) {
    char name[64] = "moved.csv";
    for (int k = 2; !path && qn_path_is_file(name) && k < MOST_NAMES; k++)
        snprintf(name, sizeof name, "moved-%d.csv", k);
    *written = qn_arena_text(&m->texts, path ? path : name);
    if (!*written)
        return QN_ERROR_MEMORY;
    return qn_file_replace_private(*written, write_list, m);
}

static qn_status read_rows(moves *m, qn_csv_reader *row) {
    bool is_end;
    QN_TRY(qn_csv_next(row, &is_end));
    if (is_end || row->n_fields != 2 || strcmp(qn_csv_text(row, 0), "moved from") != 0 ||
        strcmp(qn_csv_text(row, 1), "moved to") != 0)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s is no list of quern fix: its first line is not "
                       "\"moved from,moved to\"",
                       row->name);
    for (;;) {
        QN_TRY(qn_csv_next(row, &is_end));
        if (is_end)
            return QN_OK;
        if (row->n_fields != 2)
            return qn_fail(QN_ERROR_FORMAT, "%s: line %lld has %zu fields, not 2", row->name,
                           (long long)row->line, row->n_fields);
        char *from = qn_arena_text(&m->texts, qn_csv_text(row, 1));
        if (!from)
            return QN_ERROR_MEMORY;
        QN_TRY(append(m, from, qn_csv_text(row, 0)));
    }
}

qn_status moves_read(moves *m, const char *path) {
    qn_csv_reader row;
    qn_file *file;
    QN_TRY(qn_file_open(qn_allocator_default(), path, &file));
    qn_csv_read_file(&row, qn_allocator_default(), file);
    const qn_status status = read_rows(m, &row);
    qn_csv_deinit(&row);
    qn_file_close(file);
    return status;
}

/* ---- moving ---- */

qn_status moves_make(moves *m, size_t i) {
    one_move *one = &m->list[i];
    const char *slash = strrchr(one->to, '/');
    char folder[PATH_MAX];
    bool is_there;
    if (!qn_path_is_file(one->from) && qn_path_is_file(one->to)) {
        one->is_done = true;
        return QN_OK;
    }
    snprintf(folder, sizeof folder, "%.*s", slash ? (int)(slash - one->to) : 1,
             slash ? one->to : ".");
    QN_TRY(qn_folder_create(folder));
    QN_TRY(qn_file_move_new(one->from, one->to, &is_there));
    one->is_done = true;
    return QN_OK;
}
