/* See store.h. */
#include "learn/store.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

#include <stdio.h>
#include <string.h>

enum { FORMAT = 2, COUNT_BYTES = 8 };

#define COUNT_OF(cells) ((int)(sizeof(cells) / sizeof *(cells)))

static const char schema[] =
    "CREATE TABLE IF NOT EXISTS setting(name TEXT PRIMARY KEY, value) WITHOUT ROWID;"
    "CREATE TABLE IF NOT EXISTS sample(id INTEGER PRIMARY KEY AUTOINCREMENT, origin INTEGER,"
    " held_out INTEGER, place INTEGER, label INTEGER, version INTEGER, name TEXT, x BLOB,"
    " UNIQUE(origin, held_out, place));"
    "CREATE TABLE IF NOT EXISTS memory(origin INTEGER, held_out INTEGER, seen BLOB, full BLOB,"
    " PRIMARY KEY(origin, held_out));"
    "CREATE TABLE IF NOT EXISTS inbox(id INTEGER PRIMARY KEY AUTOINCREMENT, label INTEGER,"
    " name TEXT, x BLOB);"
    "CREATE TABLE IF NOT EXISTS taken(key INTEGER PRIMARY KEY);"
    "CREATE TABLE IF NOT EXISTS version(number INTEGER PRIMARY KEY, second INTEGER, steps INTEGER,"
    " joules REAL, seconds REAL, part REAL, recent INTEGER, recent_right INTEGER,"
    " recent_better INTEGER, recent_worse INTEGER, old INTEGER, old_right INTEGER,"
    " old_better INTEGER, old_worse INTEGER, weights BLOB);"
    "CREATE TABLE IF NOT EXISTS state(one INTEGER PRIMARY KEY, offered_old INTEGER,"
    " offered_user INTEGER, tried INTEGER, best_old INTEGER, version INTEGER, step INTEGER,"
    " steps INTEGER, round BLOB);"
    "CREATE TABLE IF NOT EXISTS log(id INTEGER PRIMARY KEY AUTOINCREMENT, second INTEGER,"
    " text TEXT);"
    "CREATE TABLE IF NOT EXISTS day(day INTEGER PRIMARY KEY, joules REAL, seconds REAL);";

const char *qn_store_path(const char *folder, const char *name, char path[QN_STORE_PATH]) {
    snprintf(path, QN_STORE_PATH, "%.480s/%.30s", folder, name);
    return path;
}

/* ---- opening ---- */

static qn_status make_tables(qn_store *s, const char *folder) {
    int64_t format, has_tables;
    QN_TRY(qn_database_ask(s->database, "SELECT count(*) FROM sqlite_master WHERE name='setting'",
                           0, NULL, 0, &has_tables));
    if (!has_tables)
        QN_TRY(qn_database_run(s->database, "BEGIN IMMEDIATE"));
    qn_status status = has_tables ? QN_OK : qn_database_run(s->database, schema);
    if (!has_tables && status == QN_OK)
        status = qn_store_set(s, "format", FORMAT);
    if (!has_tables)
        status = qn_store_end(s, status);
    QN_TRY(status);
    QN_TRY(qn_store_get(s, "format", 0, &format));
    if (format != FORMAT)
        return qn_fail(QN_ERROR_FORMAT, "%s/learn.db has format %lld, of another version of quern",
                       folder, (long long)format);
    return qn_store_get(s, "generation", 0, &s->generation);
}

/* A store has tables alone. What else a stranger's has would run with our statements. */
static qn_status check_schema(qn_store *s, const char *folder) {
    int64_t n;
    QN_TRY(qn_database_ask(s->database,
                           "SELECT count(*) FROM sqlite_master WHERE type IN ('trigger','view')"
                           " OR sql LIKE 'CREATE VIRTUAL%'",
                           0, NULL, 0, &n));
    return n == 0 ? QN_OK
                  : qn_fail(QN_ERROR_FORMAT,
                            "%s/learn.db has triggers, views or virtual tables, so quern did not "
                            "make it; begin in another folder",
                            folder);
}

/* The limit of the last start, which may be none, holds for all who visit the store later. */
static qn_status hold_limit(qn_store *s, bool is_start, int64_t most_bytes) {
    int64_t kept;
    QN_TRY(qn_store_get(s, "disk_bytes", 0, &kept));
    if (is_start)
        return kept == most_bytes ? QN_OK : qn_store_set(s, "disk_bytes", most_bytes);
    return kept > 0 ? qn_database_limit(s->database, kept) : QN_OK;
}

qn_status qn_store_limit(qn_store *s, int64_t most_bytes) {
    QN_TRY(qn_store_set(s, "disk_bytes", most_bytes));
    return qn_database_limit(s->database, most_bytes);
}

qn_status qn_store_open(const qn_allocator *allocator, const char *folder, bool must_exist,
                        int64_t most_bytes, qn_store *store) {
    char path[QN_STORE_PATH];
    *store = (qn_store){.allocator = qn_allocator_or_default(allocator)};
    if (strlen(folder) > 470)
        return qn_fail(QN_ERROR_ARGUMENT, "%.60s...: the path is too long", folder);
    qn_store_path(folder, "learn.db", path);
    if (must_exist && !qn_path_is_file(path))
        return qn_fail(QN_ERROR_ARGUMENT, "%s: nothing learns there; begin with quern learn start",
                       folder);
    QN_TRY(qn_file_make_private(path)); /* before the first sample is in it */
    QN_TRY(qn_database_open(store->allocator, path, most_bytes, &store->database));
    qn_status status = check_schema(store, folder);
    if (status == QN_OK)
        status = make_tables(store, folder);
    if (status == QN_OK)
        status = hold_limit(store, !must_exist, most_bytes);
    if (status != QN_OK)
        qn_store_close(store);
    return status;
}

void qn_store_close(qn_store *s) {
    qn_database_close(s->database);
    s->database = NULL;
}

qn_status qn_store_begin(qn_store *s, bool *is_other) {
    int64_t generation;
    *is_other = false;
    QN_TRY(qn_database_begin(s->database));
    const qn_status status = qn_store_get(s, "generation", 0, &generation);
    *is_other = generation != s->generation;
    if (status != QN_OK || *is_other)
        qn_database_roll_back(s->database);
    return status;
}

qn_status qn_store_end(qn_store *s, qn_status status) {
    if (status == QN_OK)
        return qn_database_commit(s->database);
    qn_database_roll_back(s->database);
    return status;
}

qn_status qn_store_get(qn_store *s, const char *name, int64_t otherwise, int64_t *value) {
    const qn_cell cells[] = {qn_cell_text(name)};
    return qn_database_ask(s->database, "SELECT value FROM setting WHERE name=?", 1, cells,
                           otherwise, value);
}

qn_status qn_store_set(qn_store *s, const char *name, int64_t value) {
    const qn_cell cells[] = {qn_cell_text(name), qn_cell_count(value)};
    return qn_database_change(s->database, "INSERT OR REPLACE INTO setting VALUES(?,?)", 2, cells);
}

/* Whoever holds what was there before reads anew. */
static qn_status raise_generation(qn_store *s) {
    int64_t generation;
    QN_TRY(qn_store_get(s, "generation", 0, &generation));
    return qn_store_set(s, "generation", generation + 1);
}

/* Visits all rows of a statement. */
static qn_status each(qn_store *s, const char *statement, int n, const qn_cell *cells, void *user,
                      qn_status (*visit)(void *user, qn_rows *rows)) {
    qn_rows *rows;
    bool is_end = false;
    QN_TRY(qn_rows_open(s->database, statement, n, cells, &rows));
    qn_status status = QN_OK;
    while (status == QN_OK) {
        status = qn_rows_next(rows, &is_end);
        if (is_end || status != QN_OK)
            break;
        status = visit(user, rows);
    }
    qn_rows_close(rows);
    return status;
}

/* ---- samples ---- */

qn_status qn_store_put_sample(qn_store *s, const qn_stored_sample *sample) {
    const qn_cell cells[] = {
        qn_cell_count(sample->origin),          qn_cell_count(sample->is_held_out),
        qn_cell_count(sample->place),           qn_cell_count(sample->label),
        qn_cell_count(sample->version),         qn_cell_text(sample->name),
        qn_cell_bytes(sample->x, sample->bytes)};
    return qn_database_change(s->database,
                              "INSERT OR REPLACE INTO sample"
                              "(origin, held_out, place, label, version, name, x)"
                              " VALUES(?,?,?,?,?,?,?)",
                              COUNT_OF(cells), cells);
}

typedef struct sample_visit {
    void *user;
    qn_status (*visit)(void *user, const qn_stored_sample *sample);
} sample_visit;

static qn_status visit_sample(void *user, qn_rows *r) {
    const sample_visit *v = user;
    qn_stored_sample sample = {.id = qn_rows_count(r, 0),
                               .origin = qn_rows_count(r, 1) ? QN_ORIGIN_USER : QN_ORIGIN_OLD,
                               .is_held_out = qn_rows_count(r, 2) != 0,
                               .place = qn_rows_count(r, 3),
                               .label = (int32_t)qn_rows_count(r, 4),
                               .version = qn_rows_count(r, 5),
                               .name = qn_rows_text(r, 6)};
    sample.x = qn_rows_bytes(r, 7, &sample.bytes);
    return v->visit(v->user, &sample);
}

qn_status qn_store_each_sample(qn_store *s, void *user,
                               qn_status (*visit)(void *user, const qn_stored_sample *sample)) {
    sample_visit v = {user, visit};
    return each(s,
                "SELECT id, origin, held_out, place, label, version, name, x FROM sample"
                " ORDER BY origin, held_out, place",
                0, NULL, &v, visit_sample);
}

qn_status qn_store_last_sample(qn_store *s, int64_t *id) {
    return qn_database_ask(s->database, "SELECT max(id) FROM sample", 0, NULL, 0, id);
}

qn_status qn_store_put_memory(qn_store *s, qn_origin origin, bool is_held_out,
                              const qn_sample_memory *m) {
    const size_t n = (size_t)m->n_classes;
    uint8_t *seen, *full;
    QN_TRY(qn_allocate(s->allocator, n, COUNT_BYTES + 1, &seen));
    full = seen + n * COUNT_BYTES;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < COUNT_BYTES; j++)
            seen[i * COUNT_BYTES + j] = (uint8_t)((uint64_t)m->seen[i] >> 8 * j);
        full[i] = m->full[i];
    }
    const qn_cell cells[] = {qn_cell_count(origin), qn_cell_count(is_held_out),
                             qn_cell_bytes(seen, n * COUNT_BYTES), qn_cell_bytes(full, n)};
    const qn_status status = qn_database_change(
        s->database, "INSERT OR REPLACE INTO memory VALUES(?,?,?,?)", COUNT_OF(cells), cells);
    qn_release(s->allocator, seen, n, COUNT_BYTES + 1);
    return status;
}

static qn_status visit_memory(void *user, qn_rows *r) {
    qn_sample_memory *m = user;
    const size_t n = (size_t)m->n_classes;
    size_t seen_bytes, full_bytes;
    const uint8_t *seen = qn_rows_bytes(r, 0, &seen_bytes);
    const uint8_t *full = qn_rows_bytes(r, 1, &full_bytes);
    if (seen_bytes != n * COUNT_BYTES || full_bytes != n)
        return qn_fail(QN_ERROR_FORMAT, "learn.db: damaged: it counts other classes");
    for (size_t i = 0; i < n; i++) {
        uint64_t count = 0;
        for (size_t j = 0; j < COUNT_BYTES; j++)
            count |= (uint64_t)seen[i * COUNT_BYTES + j] << 8 * j;
        if (count > (uint64_t)QN_STORE_MOST_COUNT)
            return qn_fail(QN_ERROR_FORMAT, "learn.db: damaged: a class came too often");
        m->seen[i] = (int64_t)count;
        m->full[i] = full[i] != 0;
    }
    return QN_OK;
}

qn_status qn_store_get_memory(qn_store *s, qn_origin origin, bool is_held_out,
                              qn_sample_memory *m) {
    const qn_cell cells[] = {qn_cell_count(origin), qn_cell_count(is_held_out)};
    return each(s, "SELECT seen, full FROM memory WHERE origin=? AND held_out=?", 2, cells, m,
                visit_memory);
}

qn_status qn_store_put_waiting(qn_store *s, const qn_stored_sample *sample) {
    const qn_cell cells[] = {qn_cell_count(sample->label), qn_cell_text(sample->name),
                             qn_cell_bytes(sample->x, sample->bytes)};
    return qn_database_change(s->database, "INSERT INTO inbox(label, name, x) VALUES(?,?,?)",
                              COUNT_OF(cells), cells);
}

typedef struct waiting_visit {
    sample_visit visit;
    int64_t last, n;
} waiting_visit;

static qn_status visit_waiting(void *user, qn_rows *r) {
    waiting_visit *v = user;
    const int64_t label = qn_rows_count(r, 1);
    qn_stored_sample sample = {.id = qn_rows_count(r, 0),
                               .label = label >= 0 && label <= INT32_MAX ? (int32_t)label : -1,
                               .name = qn_rows_text(r, 2)};
    sample.x = qn_rows_bytes(r, 3, &sample.bytes);
    v->last = sample.id;
    v->n++;
    return v->visit.visit(v->visit.user, &sample);
}

qn_status qn_store_take_waiting(qn_store *s, int most, void *user,
                                qn_status (*visit)(void *user, const qn_stored_sample *sample),
                                int64_t *n) {
    const qn_cell first[] = {qn_cell_count(most)};
    waiting_visit v = {{user, visit}, 0, 0};
    QN_TRY(each(s, "SELECT id, label, name, x FROM inbox ORDER BY id LIMIT ?", 1, first, &v,
                visit_waiting));
    const qn_cell last[] = {qn_cell_count(v.last)};
    *n = v.n;
    return v.n == 0 ? QN_OK
                    : qn_database_change(s->database, "DELETE FROM inbox WHERE id<=?", 1, last);
}

qn_status qn_store_count_waiting(qn_store *s, int64_t *n) {
    return qn_database_ask(s->database, "SELECT count(*) FROM inbox", 0, NULL, 0, n);
}

qn_status qn_store_has_taken(qn_store *s, uint64_t key, bool *has) {
    const qn_cell cells[] = {qn_cell_count((int64_t)key)};
    int64_t n;
    QN_TRY(qn_database_ask(s->database, "SELECT count(*) FROM taken WHERE key=?", 1, cells, 0, &n));
    *has = n > 0;
    return QN_OK;
}

qn_status qn_store_take(qn_store *s, uint64_t key) {
    const qn_cell cells[] = {qn_cell_count((int64_t)key)};
    return qn_database_change(s->database, "INSERT OR IGNORE INTO taken VALUES(?)", 1, cells);
}

/* ---- state ---- */

qn_status qn_store_put_state(qn_store *s, const qn_learner_state *state, const void *round,
                             size_t bytes) {
    const qn_cell cells[] = {
        qn_cell_count(state->n_offered[0]), qn_cell_count(state->n_offered[1]),
        qn_cell_count(state->n_tried),      qn_cell_count(state->best_old),
        qn_cell_count(state->version),      qn_cell_count(state->step),
        qn_cell_count(state->n_steps),      qn_cell_bytes(round, round ? bytes : 0)};
    return qn_database_change(s->database, "INSERT OR REPLACE INTO state VALUES(1,?,?,?,?,?,?,?,?)",
                              COUNT_OF(cells), cells);
}

typedef struct state_visit {
    const qn_allocator *allocator;
    qn_learner_state *state;
    void **round;
    size_t *bytes;
    bool was_there;
} state_visit;

static qn_status get_state(qn_rows *r, qn_learner_state *state) {
    int64_t *const values[] = {&state->n_offered[0], &state->n_offered[1], &state->n_tried,
                               &state->best_old,     &state->version,      &state->step,
                               &state->n_steps};
    for (int i = 0; i < 7; i++) {
        *values[i] = qn_rows_count(r, i);
        if (*values[i] < 0 || *values[i] > QN_STORE_MOST_COUNT)
            return qn_fail(QN_ERROR_FORMAT, "learn.db: damaged: a state that cannot be");
    }
    return QN_OK;
}

static qn_status visit_state(void *user, qn_rows *r) {
    state_visit *v = user;
    QN_TRY(get_state(r, v->state));
    v->was_there = true;
    if (!v->round)
        return QN_OK;
    const void *round = qn_rows_bytes(r, 7, v->bytes);
    if (*v->bytes == 0)
        return QN_OK;
    QN_TRY(qn_allocate(v->allocator, *v->bytes, 1, v->round));
    memcpy(*v->round, round, *v->bytes);
    return QN_OK;
}

qn_status qn_store_get_state(qn_store *s, qn_learner_state *state, void **round, size_t *bytes) {
    state_visit v = {s->allocator, state, round, bytes, false};
    if (round) {
        *round = NULL;
        *bytes = 0;
    }
    QN_TRY(each(s,
                "SELECT offered_old, offered_user, tried, best_old, version, step, steps, round"
                " FROM state WHERE one=1",
                0, NULL, &v, visit_state));
    return v.was_there ? QN_OK
                       : qn_fail(QN_ERROR_FORMAT, "learn.db: damaged: it has no state; begin in "
                                                  "another folder");
}

/* ---- versions ---- */

qn_status qn_store_put_version(qn_store *s, const qn_stored_version *v, const float *weights,
                               int64_t n) {
    const qn_cell cells[] = {qn_cell_count(v->number),
                             qn_cell_count(v->second),
                             qn_cell_count(v->n_steps),
                             qn_cell_number(v->joules),
                             qn_cell_number(v->seconds),
                             qn_cell_number(v->part),
                             qn_cell_count(v->recent.n),
                             qn_cell_count(v->recent.n_right),
                             qn_cell_count(v->recent.n_better),
                             qn_cell_count(v->recent.n_worse),
                             qn_cell_count(v->old.n),
                             qn_cell_count(v->old.n_right),
                             qn_cell_count(v->old.n_better),
                             qn_cell_count(v->old.n_worse),
                             qn_cell_bytes(weights, (size_t)n * sizeof *weights)};
    const qn_cell old[] = {qn_cell_count(v->number - QN_STORE_VERSIONS)};
    QN_TRY(qn_database_change(s->database,
                              "INSERT INTO version VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?,?)",
                              COUNT_OF(cells), cells));
    return qn_database_change(s->database, "UPDATE version SET weights=NULL WHERE number<=?", 1,
                              old);
}

typedef struct version_visit {
    void *user;
    qn_status (*visit)(void *user, const qn_stored_version *version);
} version_visit;

static qn_comparison get_comparison(qn_rows *r, int column) {
    return (qn_comparison){qn_rows_count(r, column), qn_rows_count(r, column + 1),
                           qn_rows_count(r, column + 2), qn_rows_count(r, column + 3)};
}

static qn_status visit_version(void *user, qn_rows *r) {
    const version_visit *v = user;
    qn_stored_version version = {.number = qn_rows_count(r, 0),
                                 .second = qn_rows_count(r, 1),
                                 .n_steps = qn_rows_count(r, 2),
                                 .joules = qn_rows_number(r, 3),
                                 .seconds = qn_rows_number(r, 4),
                                 .part = qn_rows_number(r, 5),
                                 .recent = get_comparison(r, 6),
                                 .old = get_comparison(r, 10),
                                 .has_weights = qn_rows_count(r, 14) != 0};
    return v->visit(v->user, &version);
}

qn_status qn_store_each_version(qn_store *s, void *user,
                                qn_status (*visit)(void *user, const qn_stored_version *version)) {
    version_visit v = {user, visit};
    return each(s,
                "SELECT number, second, steps, joules, seconds, part, recent, recent_right,"
                " recent_better, recent_worse, old, old_right, old_better, old_worse,"
                " weights IS NOT NULL FROM version ORDER BY number",
                0, NULL, &v, visit_version);
}

typedef struct weights_visit {
    float *weights;
    size_t bytes;
    bool were_there;
} weights_visit;

static qn_status visit_weights(void *user, qn_rows *r) {
    weights_visit *v = user;
    size_t bytes;
    const void *from = qn_rows_bytes(r, 0, &bytes);
    if (bytes != v->bytes)
        return qn_fail(QN_ERROR_FORMAT, "learn.db: its weights are of another network");
    memcpy(v->weights, from, bytes);
    v->were_there = true;
    return QN_OK;
}

qn_status qn_store_get_weights(qn_store *s, int64_t version, float *weights, int64_t n) {
    const qn_cell cells[] = {qn_cell_count(version)};
    weights_visit v = {weights, (size_t)n * sizeof *weights, false};
    QN_TRY(each(s, "SELECT weights FROM version WHERE number=? AND weights IS NOT NULL", 1, cells,
                &v, visit_weights));
    return v.were_there ? QN_OK
                        : qn_fail(QN_ERROR_ARGUMENT, "the weights of version %lld are not kept",
                                  (long long)version);
}

/* Makes an earlier version the one in use; a round that is under way is dropped. */
static qn_status go_back(qn_store *s, int64_t version) {
    const qn_cell cells[] = {qn_cell_count(version)};
    qn_learner_state state;
    int64_t has;
    QN_TRY(qn_store_get_state(s, &state, NULL, NULL));
    QN_TRY(qn_database_ask(s->database,
                           "SELECT count(*) FROM version WHERE number=? AND weights IS NOT NULL", 1,
                           cells, 0, &has));
    if (!has)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "version %lld cannot be gone back to; the last %d versions are kept",
                       (long long)version, QN_STORE_VERSIONS);
    QN_TRY(qn_database_change(s->database, "DELETE FROM version WHERE number>?", 1, cells));
    QN_TRY(qn_database_run(s->database, "DELETE FROM setting WHERE name LIKE 'change_%'"));
    state.version = version;
    state.step = state.n_steps = 0;
    QN_TRY(qn_store_put_state(s, &state, NULL, 0));
    return raise_generation(s);
}

static qn_status undo(qn_store *s, int64_t *version) {
    qn_learner_state state;
    QN_TRY(qn_store_get_state(s, &state, NULL, NULL));
    if (state.version == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "there is no version before 0 to go back to");
    *version = state.version - 1;
    QN_TRY(qn_store_set(s, "fresh", 0));
    QN_TRY(qn_store_set(s, "must_learn", 0));
    return go_back(s, *version);
}

qn_status qn_store_undo(qn_store *s, int64_t *version) {
    QN_TRY(qn_database_begin(s->database));
    return qn_store_end(s, undo(s, version));
}

/* ---- forgetting ---- */

typedef struct place_visit {
    int64_t origin, held_out, place, version;
    bool was_there;
} place_visit;

static qn_status visit_place(void *user, qn_rows *r) {
    *(place_visit *)user = (place_visit){qn_rows_count(r, 0), qn_rows_count(r, 1),
                                         qn_rows_count(r, 2), qn_rows_count(r, 3), true};
    return QN_OK;
}

/* The last sample of its memory takes its place, so that there are no gaps. */
static qn_status close_gap(qn_store *s, const place_visit *p) {
    const qn_cell cells[] = {qn_cell_count(p->place), qn_cell_count(p->origin),
                             qn_cell_count(p->held_out)};
    const char *statement = "UPDATE sample SET place=?1 WHERE origin=?2 AND held_out=?3 AND place="
                            "(SELECT max(place) FROM sample WHERE origin=?2 AND held_out=?3)"
                            " AND place>?1";
    return qn_database_change(s->database, statement, 3, cells);
}

static qn_status forget(qn_store *s, int64_t id, bool must_relearn, int64_t *version) {
    const qn_cell cells[] = {qn_cell_count(id)};
    place_visit p = {0};
    qn_learner_state state;
    QN_TRY(each(s, "SELECT origin, held_out, place, version FROM sample WHERE id=?", 1, cells, &p,
                visit_place));
    if (!p.was_there)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "there is no sample %lld; quern learn samples lists what there is",
                       (long long)id);
    QN_TRY(qn_database_change(s->database, "DELETE FROM sample WHERE id=?", 1, cells));
    QN_TRY(close_gap(s, &p));
    *version = p.version;
    QN_TRY(qn_store_get_state(s, &state, NULL, NULL));
    if (must_relearn && state.version > p.version) {
        QN_TRY(qn_store_set(s, "must_learn", 1));
        return go_back(s, p.version);
    }
    return go_back(s, state.version); /* a round may have learned from it */
}

qn_status qn_store_forget(qn_store *s, int64_t id, bool must_relearn, int64_t *version) {
    QN_TRY(qn_database_begin(s->database));
    return qn_store_end(s, forget(s, id, must_relearn, version));
}

/* ---- log, days ---- */

qn_status qn_store_log(qn_store *s, int64_t second, const char *text) {
    const qn_cell cells[] = {qn_cell_count(second), qn_cell_text(text)};
    const qn_cell most[] = {qn_cell_count(QN_STORE_LOG_ROWS)};
    QN_TRY(qn_database_change(s->database, "INSERT INTO log(second, text) VALUES(?,?)", 2, cells));
    return qn_database_change(s->database, "DELETE FROM log WHERE id<=(SELECT max(id) FROM log)-?",
                              1, most);
}

typedef struct log_visit {
    void *user;
    qn_status (*visit)(void *user, int64_t second, const char *text);
} log_visit;

static qn_status visit_log(void *user, qn_rows *r) {
    const log_visit *v = user;
    return v->visit(v->user, qn_rows_count(r, 0), qn_rows_text(r, 1));
}

qn_status qn_store_each_log(qn_store *s, int64_t n, void *user,
                            qn_status (*visit)(void *user, int64_t second, const char *text)) {
    const qn_cell cells[] = {qn_cell_count(n)};
    log_visit v = {user, visit};
    return each(s,
                "SELECT second, text FROM (SELECT * FROM log ORDER BY id DESC LIMIT ?)"
                " ORDER BY id",
                1, cells, &v, visit_log);
}

qn_status qn_store_put_day(qn_store *s, int64_t day, double joules, double seconds) {
    const qn_cell cells[] = {qn_cell_count(day), qn_cell_number(joules), qn_cell_number(seconds)};
    return qn_database_change(s->database, "INSERT OR REPLACE INTO day VALUES(?,?,?)", 3, cells);
}

typedef struct day_visit {
    int64_t day;
    double joules, seconds;
} day_visit;

static qn_status visit_day(void *user, qn_rows *r) {
    *(day_visit *)user =
        (day_visit){qn_rows_count(r, 0), qn_rows_number(r, 1), qn_rows_number(r, 2)};
    return QN_OK;
}

qn_status qn_store_get_day(qn_store *s, int64_t *day, double *joules, double *seconds) {
    day_visit v = {-1, 0, 0};
    QN_TRY(each(s, "SELECT day, joules, seconds FROM day ORDER BY day DESC LIMIT 1", 0, NULL, &v,
                visit_day));
    *day = v.day;
    *joules = v.joules;
    *seconds = v.seconds;
    return QN_OK;
}
