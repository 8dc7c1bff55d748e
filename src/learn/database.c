/* See database.h. The functions are named as sqlite3.h has them, with its types as void. */
#include "learn/database.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/library.h"

#include <stdio.h>
#include <string.h>

/* Results and flags of sqlite3.h. */
enum { DONE_OK = 0, BUSY = 5, NOT_A_DATABASE = 26, CORRUPT = 11, FULL = 13, ROW = 100, DONE = 101 };
enum { OPEN_READ_WRITE = 2, OPEN_CREATE = 4, WAIT_MS = 10000, PAGE_BYTES = 4096 };

typedef struct sqlite {
    int (*open)(const char *path, void **database, int flags, const char *vfs);
    int (*close)(void *database);
    int (*exec)(void *database, const char *text, void *callback, void *user, char **error);
    int (*prepare)(void *database, const char *text, int bytes, void **statement,
                   const char **tail);
    int (*step)(void *statement);
    int (*finalize)(void *statement);
    int (*bind_count)(void *statement, int place, int64_t value);
    int (*bind_number)(void *statement, int place, double value);
    int (*bind_text)(void *statement, int place, const char *text, int bytes, void *release);
    int (*bind_bytes)(void *statement, int place, const void *bytes, uint64_t n, void *release);
    int64_t (*count)(void *statement, int column);
    double (*number)(void *statement, int column);
    const unsigned char *(*text)(void *statement, int column);
    const void *(*bytes)(void *statement, int column);
    int (*n_bytes)(void *statement, int column);
    const char *(*message)(void *database);
    int (*wait)(void *database, int milliseconds);
    int (*configure)(void *database, int what, ...);
} sqlite;

struct qn_database {
    const qn_allocator *allocator;
    sqlite s;
    qn_library *library;
    void *handle;
    char path[512];
};

struct qn_rows {
    qn_database *database;
    void *statement;
};

/* Where a program was linked with SQLite, as a static one can be, these are its functions: no
 * library is opened then. The types are not theirs: only the addresses count. */
#define MAY_BE_LINKED(name) extern char name[] __attribute__((weak))
MAY_BE_LINKED(sqlite3_open_v2);
MAY_BE_LINKED(sqlite3_close);
MAY_BE_LINKED(sqlite3_exec);
MAY_BE_LINKED(sqlite3_prepare_v2);
MAY_BE_LINKED(sqlite3_step);
MAY_BE_LINKED(sqlite3_finalize);
MAY_BE_LINKED(sqlite3_bind_int64);
MAY_BE_LINKED(sqlite3_bind_double);
MAY_BE_LINKED(sqlite3_bind_text);
MAY_BE_LINKED(sqlite3_bind_blob64);
MAY_BE_LINKED(sqlite3_column_int64);
MAY_BE_LINKED(sqlite3_column_double);
MAY_BE_LINKED(sqlite3_column_text);
MAY_BE_LINKED(sqlite3_column_blob);
MAY_BE_LINKED(sqlite3_column_bytes);
MAY_BE_LINKED(sqlite3_errmsg);
MAY_BE_LINKED(sqlite3_busy_timeout);
MAY_BE_LINKED(sqlite3_db_config);

static qn_status open_library(qn_database *d) {
    sqlite *s = &d->s;
    const struct {
        const char *name;
        void *function;
        char *linked; /* or null */
    } functions[] = {
        {"sqlite3_open_v2", &s->open, sqlite3_open_v2},
        {"sqlite3_close", &s->close, sqlite3_close},
        {"sqlite3_exec", &s->exec, sqlite3_exec},
        {"sqlite3_prepare_v2", &s->prepare, sqlite3_prepare_v2},
        {"sqlite3_step", &s->step, sqlite3_step},
        {"sqlite3_finalize", &s->finalize, sqlite3_finalize},
        {"sqlite3_bind_int64", &s->bind_count, sqlite3_bind_int64},
        {"sqlite3_bind_double", &s->bind_number, sqlite3_bind_double},
        {"sqlite3_bind_text", &s->bind_text, sqlite3_bind_text},
        {"sqlite3_bind_blob64", &s->bind_bytes, sqlite3_bind_blob64},
        {"sqlite3_column_int64", &s->count, sqlite3_column_int64},
        {"sqlite3_column_double", &s->number, sqlite3_column_double},
        {"sqlite3_column_text", &s->text, sqlite3_column_text},
        {"sqlite3_column_blob", &s->bytes, sqlite3_column_blob},
        {"sqlite3_column_bytes", &s->n_bytes, sqlite3_column_bytes},
        {"sqlite3_errmsg", &s->message, sqlite3_errmsg},
        {"sqlite3_busy_timeout", &s->wait, sqlite3_busy_timeout},
        {"sqlite3_db_config", &s->configure, sqlite3_db_config},
    };
    for (size_t i = 0; sqlite3_open_v2 && i < sizeof functions / sizeof functions[0]; i++)
        memcpy(functions[i].function, &functions[i].linked, sizeof functions[i].linked);
    if (sqlite3_open_v2)
        return QN_OK;
    if (qn_library_open("libsqlite3.so.0", &d->library) != QN_OK)
        return qn_fail(QN_ERROR_UNSUPPORTED, "samples are stored in SQLite, which is not installed "
                                             "(Debian: apt-get install libsqlite3-0)");
    for (size_t i = 0; i < sizeof functions / sizeof functions[0]; i++) {
        if (!qn_library_find(d->library, functions[i].name, functions[i].function))
            return qn_fail(QN_ERROR_UNSUPPORTED, "libsqlite3 lacks %s; 3.8.7 or later is needed",
                           functions[i].name);
    }
    return QN_OK;
}

static qn_status judge(qn_database *d, int result) {
    if (result == DONE_OK || result == ROW || result == DONE)
        return QN_OK;
    const char *why = d->handle ? d->s.message(d->handle) : "no memory";
    if (result == NOT_A_DATABASE || result == CORRUPT)
        return qn_fail(QN_ERROR_FORMAT, "%s: %s; take a copy of it, or begin in another folder",
                       d->path, why);
    if (result == FULL)
        return qn_fail(QN_ERROR_IO, "%s: no room: the disk is full, or --disk is reached", d->path);
    if (result == BUSY)
        return qn_fail(QN_ERROR_IO, "%s: another program has it in use for too long", d->path);
    return qn_fail(QN_ERROR_IO, "%s: %s", d->path, why);
}

/* A file from elsewhere runs nothing of its own: no triggers, no functions of its schema, and
 * nobody writes its structures. Older libraries lack some of these and say so, which is no failure:
 * the store refuses such files itself. */
static void distrust(qn_database *d) {
    enum { TRIGGERS = 1003, DEFENSIVE = 1010, VIEWS = 1015, TRUSTED_SCHEMA = 1017 };
    d->s.configure(d->handle, TRIGGERS, 0, NULL);
    d->s.configure(d->handle, VIEWS, 0, NULL);
    d->s.configure(d->handle, TRUSTED_SCHEMA, 0, NULL);
    d->s.configure(d->handle, DEFENSIVE, 1, NULL);
}

qn_status qn_database_limit(qn_database *d, int64_t most_bytes) {
    char text[64];
    const int64_t pages = most_bytes / PAGE_BYTES; /* of none, SQLite would keep its old limit */
    snprintf(text, sizeof text, "PRAGMA max_page_count=%lld;", (long long)(pages > 0 ? pages : 1));
    return qn_database_run(d, text);
}

static qn_status set_up(qn_database *d, int64_t most_bytes) {
    char text[160];
    QN_TRY(judge(d, d->s.open(d->path, &d->handle, OPEN_READ_WRITE | OPEN_CREATE, NULL)));
    d->s.wait(d->handle, WAIT_MS);
    distrust(d);
    snprintf(text, sizeof text, "PRAGMA page_size=%d; PRAGMA max_page_count=%lld;", PAGE_BYTES,
             most_bytes > 0 ? (long long)(most_bytes / PAGE_BYTES) : 1073741823LL);
    QN_TRY(qn_database_run(d, text));
    return qn_database_run(d, "PRAGMA journal_mode=TRUNCATE; PRAGMA synchronous=FULL;"
                              "PRAGMA secure_delete=ON; PRAGMA cache_size=-512;");
}

qn_status qn_database_open(const qn_allocator *allocator, const char *path, int64_t most_bytes,
                           qn_database **database) {
    qn_database *d;
    allocator = qn_allocator_or_default(allocator);
    if (strlen(path) >= sizeof d->path)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
    QN_TRY(qn_allocate(allocator, 1, sizeof *d, &d));
    d->allocator = allocator;
    snprintf(d->path, sizeof d->path, "%s", path);
    qn_status status = open_library(d);
    if (status == QN_OK)
        status = set_up(d, most_bytes);
    if (status != QN_OK) {
        qn_database_close(d);
        return status;
    }
    *database = d;
    return QN_OK;
}

void qn_database_close(qn_database *d) {
    if (!d)
        return;
    if (d->handle)
        d->s.close(d->handle);
    if (d->library)
        qn_library_close(d->library);
    qn_release(d->allocator, d, 1, sizeof *d);
}

qn_status qn_database_run(qn_database *d, const char *statements) {
    return judge(d, d->s.exec(d->handle, statements, NULL, NULL, NULL));
}

qn_status qn_database_begin(qn_database *d) {
    return qn_database_run(d, "BEGIN IMMEDIATE");
}

qn_status qn_database_commit(qn_database *d) {
    const qn_status status = qn_database_run(d, "COMMIT");
    if (status != QN_OK)
        qn_database_roll_back(d);
    return status;
}

void qn_database_roll_back(qn_database *d) {
    d->s.exec(d->handle, "ROLLBACK", NULL, NULL, NULL); /* the first failure is the one to tell */
}

static int bind(qn_database *d, void *statement, int place, const qn_cell *c) {
    switch (c->kind) {
    case QN_CELL_COUNT:
        return d->s.bind_count(statement, place, c->count);
    case QN_CELL_NUMBER:
        return d->s.bind_number(statement, place, c->number);
    case QN_CELL_TEXT:
        return d->s.bind_text(statement, place, c->text, -1, NULL);
    case QN_CELL_BYTES:
        break;
    }
    return d->s.bind_bytes(statement, place, c->bytes, c->n_bytes, NULL);
}

qn_status qn_rows_open(qn_database *d, const char *text, int n, const qn_cell *values,
                       qn_rows **rows) {
    qn_rows *r;
    QN_TRY(qn_allocate(d->allocator, 1, sizeof *r, &r));
    r->database = d;
    int result = d->s.prepare(d->handle, text, -1, &r->statement, NULL);
    for (int i = 0; i < n && result == DONE_OK; i++)
        result = bind(d, r->statement, i + 1, &values[i]);
    const qn_status status = judge(d, result);
    if (status != QN_OK)
        qn_rows_close(r);
    else
        *rows = r;
    return status;
}

qn_status qn_rows_next(qn_rows *r, bool *is_end) {
    const int result = r->database->s.step(r->statement);
    *is_end = result != ROW;
    return judge(r->database, result);
}

int64_t qn_rows_count(qn_rows *r, int column) {
    return r->database->s.count(r->statement, column);
}

double qn_rows_number(qn_rows *r, int column) {
    return r->database->s.number(r->statement, column);
}

const char *qn_rows_text(qn_rows *r, int column) {
    const unsigned char *text = r->database->s.text(r->statement, column);
    return text ? (const char *)text : "";
}

const void *qn_rows_bytes(qn_rows *r, int column, size_t *n) {
    const void *bytes = r->database->s.bytes(r->statement, column);
    *n = (size_t)r->database->s.n_bytes(r->statement, column);
    return bytes;
}

void qn_rows_close(qn_rows *r) {
    if (!r)
        return;
    r->database->s.finalize(r->statement);
    qn_release(r->database->allocator, r, 1, sizeof *r);
}

qn_status qn_database_change(qn_database *d, const char *statement, int n, const qn_cell *values) {
    int64_t nothing;
    return qn_database_ask(d, statement, n, values, 0, &nothing);
}

qn_status qn_database_ask(qn_database *d, const char *statement, int n, const qn_cell *values,
                          int64_t otherwise, int64_t *count) {
    qn_rows *r;
    bool is_end;
    QN_TRY(qn_rows_open(d, statement, n, values, &r));
    const qn_status status = qn_rows_next(r, &is_end);
    *count = status == QN_OK && !is_end ? qn_rows_count(r, 0) : otherwise;
    qn_rows_close(r);
    return status;
}
