/* See trace.h: reading. Tokens are read one by one, so a file of hundreds of megabytes needs memory
 * for its slices only; equal texts are stored once. */
#include "base/decimal.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "format/json_stream.h"
#include "format/trace.h"
#include "os/heap.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Times are held to a hundred years either way, so that sums stay within an int64. */
#define MOST_US 3.2e15

enum { MOST_NUMBER = 64 };

typedef enum field {
    FIELD_NONE,
    FIELD_NAME,
    FIELD_CATEGORY,
    FIELD_PHASE,
    FIELD_BEGIN,
    FIELD_DURATION,
    FIELD_PID,
    FIELD_TID,
} field;

static const char *const field_names[] = {
    [FIELD_NAME] = "name",    [FIELD_CATEGORY] = "cat", [FIELD_PHASE] = "ph", [FIELD_BEGIN] = "ts",
    [FIELD_DURATION] = "dur", [FIELD_PID] = "pid",      [FIELD_TID] = "tid",
};

enum { N_FIELDS = sizeof field_names / sizeof field_names[0] };

/* The event that is being read. */
typedef struct event {
    const char *name, *category, *pid, *tid;
    int64_t begin_ns, duration_ns;
    bool has_begin;
    char phase; /* 0: none, or longer than a letter */
} event;

typedef struct fact {
    const char *name, *value;
} fact;

/* The lists have room for n_... in ..._capacity. */
struct qn_trace_reading {
    const qn_allocator *allocator;
    qn_arena texts;
    const char **table; /* (table_size) hash table of all texts, a power of two */
    size_t table_size, n_texts;
    qn_trace_slice_read *slices, *halves; /* halves: end_ns 0 of a B, 1 of an E */
    size_t n_slices, n_halves, slice_capacity, half_capacity;
    qn_trace_track *tracks;
    size_t n_tracks, track_capacity;
    fact *facts;
    size_t n_facts, fact_capacity;
    /* while it is read */
    const char *empty;
    int event_depth; /* depth of the opening of an event; 0: not in the events' list yet */
    bool is_bare, has_events;
    field field;     /* whose value comes next */
    const char *key; /* of the top level, likewise */
    event event;
    uint32_t order;
    int32_t last_track;
};

/* ---- texts ---- */

/* The slot of a text, or the empty one where it belongs. */
static size_t find_slot(const qn_trace_reading *r, const char *text) {
    size_t i = (size_t)qn_hash_text(text) & (r->table_size - 1);
    while (r->table[i] && strcmp(r->table[i], text) != 0)
        i = (i + 1) & (r->table_size - 1);
    return i;
}

/* Twice the room, for which all are put anew. */
static qn_status grow_table(qn_trace_reading *r) {
    const char **old = r->table, **grown;
    const size_t old_size = r->table_size, size = old_size ? old_size * 2 : 1024;
    QN_TRY(qn_allocate(r->allocator, size, sizeof *grown, &grown));
    r->table = grown;
    r->table_size = size;
    for (size_t i = 0; i < old_size; i++) {
        if (old[i])
            grown[find_slot(r, old[i])] = old[i];
    }
    qn_release(r->allocator, old, old_size, sizeof *old);
    return QN_OK;
}

/* The one copy of a text. */
static qn_status keep_text(qn_trace_reading *r, const char *text, size_t bytes, const char **kept) {
    if (2 * r->n_texts >= r->table_size)
        QN_TRY(grow_table(r));
    char buffer[256], *copy = buffer;
    if (bytes >= sizeof buffer && !(copy = qn_arena_allocate(&r->texts, bytes + 1, 1)))
        return QN_ERROR_MEMORY;
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    const size_t slot = find_slot(r, copy);
    if (!r->table[slot]) {
        if (copy == buffer && !(copy = qn_arena_text(&r->texts, buffer)))
            return QN_ERROR_MEMORY;
        r->table[slot] = copy;
        r->n_texts++;
    }
    *kept = r->table[slot];
    return QN_OK;
}

/* ---- fields ---- */

/* Microseconds as they are written to nanoseconds: exactly for plain decimals, since a double has
 * no room for the nanoseconds of a clock that began in 1970. */
static qn_status parse_time(const char *name, const qn_json_token *token, int64_t *ns) {
    char text[MOST_NUMBER], *end;
    if (token->bytes >= sizeof text)
        return qn_fail(QN_ERROR_FORMAT, "\"%s\" has too many digits", name);
    memcpy(text, token->text, token->bytes);
    text[token->bytes] = 0;
    const double us = qn_decimal_read(text, &end);
    if (end == text || *end || !(fabs(us) <= MOST_US))
        return qn_fail(QN_ERROR_FORMAT,
                       "\"%s\": %s is not a time; it must be a number of microseconds within %.2g",
                       name, text, MOST_US);
    const long long whole = strtoll(text, &end, 10);
    if (*end == '.' && !strpbrk(end, "eE")) {
        const double rest = qn_decimal_read(end, NULL) * 1000;
        *ns = whole * 1000 + llround(text[0] == '-' ? -rest : rest);
    } else {
        *ns = *end ? llround(us * 1000) : whole * 1000;
    }
    return QN_OK;
}

static qn_status set_time(event *e, field which, const qn_json_token *token) {
    int64_t ns = 0;
    QN_TRY(parse_time(field_names[which], token, &ns));
    if (which == FIELD_DURATION) {
        e->duration_ns = ns > 0 ? ns : 0;
        return QN_OK;
    }
    e->begin_ns = ns;
    e->has_begin = true;
    return QN_OK;
}

/* The value of a field of the event. */
static qn_status set_field(qn_trace_reading *r, const qn_json_token *token) {
    event *e = &r->event;
    switch (r->field) {
    case FIELD_NAME:
        return keep_text(r, token->text, token->bytes, &e->name);
    case FIELD_CATEGORY:
        return keep_text(r, token->text, token->bytes, &e->category);
    case FIELD_PID:
        return keep_text(r, token->text, token->bytes, &e->pid);
    case FIELD_TID:
        return keep_text(r, token->text, token->bytes, &e->tid);
    case FIELD_PHASE:
        e->phase = token->bytes == 1 ? token->text[0] : 0;
        return QN_OK;
    case FIELD_BEGIN:
    case FIELD_DURATION:
        return set_time(e, r->field, token);
    case FIELD_NONE:
        break;
    }
    return QN_OK;
}

static field find_field(const qn_json_token *key) {
    for (int i = FIELD_NONE + 1; i < N_FIELDS; i++) {
        if (strlen(field_names[i]) == key->bytes &&
            memcmp(field_names[i], key->text, key->bytes) == 0)
            return (field)i;
    }
    return FIELD_NONE;
}

/* ---- events ---- */

static qn_status find_track(qn_trace_reading *r, const event *e, int32_t *track) {
    for (size_t i = 0; i < r->n_tracks; i++) {
        const size_t at = ((size_t)r->last_track + i) % r->n_tracks;
        if (r->tracks[at].pid == e->pid && r->tracks[at].tid == e->tid) {
            *track = r->last_track = (int32_t)at;
            return QN_OK;
        }
    }
    if (r->n_tracks > INT16_MAX)
        return qn_fail(QN_ERROR_UNSUPPORTED, "the events have more than 32768 threads");
    QN_TRY(
        qn_grow(r->allocator, &r->tracks, &r->track_capacity, r->n_tracks + 1, sizeof *r->tracks));
    r->tracks[r->n_tracks] = (qn_trace_track){e->pid, e->tid};
    *track = r->last_track = (int32_t)r->n_tracks++;
    return QN_OK;
}

static qn_status add_slice(qn_trace_reading *r, const qn_trace_slice_read *slice) {
    QN_TRY(
        qn_grow(r->allocator, &r->slices, &r->slice_capacity, r->n_slices + 1, sizeof *r->slices));
    r->slices[r->n_slices++] = *slice;
    return QN_OK;
}

static qn_status add_half(qn_trace_reading *r, const qn_trace_slice_read *half) {
    QN_TRY(
        qn_grow(r->allocator, &r->halves, &r->half_capacity, r->n_halves + 1, sizeof *r->halves));
    r->halves[r->n_halves++] = *half;
    return QN_OK;
}

static qn_status end_event(qn_trace_reading *r) {
    const event *e = &r->event;
    qn_trace_slice_read slice = {.name = e->name, .category = e->category};
    if (e->phase != 'X' && e->phase != 'B' && e->phase != 'E')
        return QN_OK;
    if (!e->has_begin)
        return qn_fail(QN_ERROR_FORMAT, "an event of phase %c without \"ts\"", e->phase);
    if (r->order == UINT32_MAX)
        return qn_fail(QN_ERROR_UNSUPPORTED, "there are more than 4294967295 events");
    QN_TRY(find_track(r, e, &slice.track));
    slice.order = r->order++;
    slice.begin_ns = e->begin_ns;
    if (e->phase == 'X') {
        slice.end_ns = e->begin_ns + e->duration_ns;
        return add_slice(r, &slice);
    }
    slice.end_ns = e->phase == 'E';
    return add_half(r, &slice);
}

/* ---- tokens ---- */

static bool is_scalar(qn_json_kind kind) {
    return kind == QN_JSON_NUMBER || kind == QN_JSON_TEXT;
}

/* At the outermost level: the list of events itself, or an object that has it. */
static qn_status begin_file(qn_trace_reading *r, const qn_json_token *token) {
    if (token->kind == QN_JSON_LIST) {
        r->is_bare = r->has_events = true;
        r->event_depth = 1;
        return QN_OK;
    }
    if (token->kind == QN_JSON_OBJECT || token->kind == QN_JSON_OBJECT_END ||
        token->kind == QN_JSON_LIST_END)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "it is not a trace: neither a list of events nor an object");
}

static qn_status keep_fact(qn_trace_reading *r, const qn_json_token *token) {
    QN_TRY(qn_grow(r->allocator, &r->facts, &r->fact_capacity, r->n_facts + 1, sizeof *r->facts));
    fact *kept = &r->facts[r->n_facts];
    kept->name = r->key;
    QN_TRY(keep_text(r, token->text, token->bytes, &kept->value));
    r->n_facts++;
    return QN_OK;
}

/* Within the outermost object. */
static qn_status take_top(qn_trace_reading *r, const qn_json_token *token) {
    if (token->kind == QN_JSON_KEY)
        return keep_text(r, token->text, token->bytes, &r->key);
    if (strcmp(r->key, "traceEvents") == 0) {
        if (token->kind != QN_JSON_LIST && token->kind != QN_JSON_LIST_END)
            return qn_fail(QN_ERROR_FORMAT, "\"traceEvents\" is not a list");
        r->event_depth = token->kind == QN_JSON_LIST ? 2 : 0;
        r->has_events = true;
    } else if (is_scalar(token->kind)) {
        return keep_fact(r, token);
    }
    return QN_OK;
}

/* Within an event; what is deeper is nobody's here. */
static qn_status take_field(qn_trace_reading *r, const qn_json_token *token) {
    if (token->kind == QN_JSON_KEY) {
        r->field = find_field(token);
        return QN_OK;
    }
    if (is_scalar(token->kind))
        return set_field(r, token);
    if (r->field == FIELD_BEGIN || r->field == FIELD_DURATION)
        return qn_fail(QN_ERROR_FORMAT, "\"%s\" is not a number", field_names[r->field]);
    return QN_OK;
}

static qn_status take_event(qn_trace_reading *r, const qn_json_token *token) {
    if (token->kind == QN_JSON_OBJECT_END)
        return end_event(r);
    if (token->kind != QN_JSON_OBJECT)
        return qn_fail(QN_ERROR_FORMAT, "an event is not an object");
    const char *none = r->empty;
    r->event = (event){.name = none, .category = none, .pid = none, .tid = none};
    return QN_OK;
}

/* The bare list may lack its end: programs that trace themselves are often killed. */
static qn_status take_end(const qn_trace_reading *r, const qn_json_token *token) {
    if (r->is_bare && token->depth == 1)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "the file is cut off here; record it again");
}

static qn_status take(void *context, const qn_json_token *token) {
    qn_trace_reading *r = context;
    if (token->kind == QN_JSON_CUT_OFF)
        return take_end(r, token);
    if (token->depth == 0)
        return begin_file(r, token);
    if (r->event_depth == 0 || token->depth < r->event_depth)
        return token->depth == 1 ? take_top(r, token) : QN_OK;
    if (token->depth == r->event_depth)
        return take_event(r, token);
    return token->depth == r->event_depth + 1 ? take_field(r, token) : QN_OK;
}

/* ---- halves ---- */

static int order_halves(const void *left, const void *right) {
    const qn_trace_slice_read *a = left, *b = right;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* An E ends the last B of its track that is open. Open ones stay at the front of the list, which is
 * long done with there. */
static qn_status join_halves(qn_trace_reading *r) {
    size_t n_open = 0;
    if (r->n_halves > 0)
        qsort(r->halves, r->n_halves, sizeof *r->halves, order_halves);
    for (size_t i = 0; i < r->n_halves; i++) {
        const qn_trace_slice_read half = r->halves[i];
        if (n_open > 0 && r->halves[n_open - 1].track != half.track)
            n_open = 0;
        if (half.end_ns == 0) {
            r->halves[n_open++] = half;
        } else if (n_open > 0) {
            qn_trace_slice_read slice = r->halves[--n_open];
            slice.end_ns = half.begin_ns;
            QN_TRY(add_slice(r, &slice));
        }
    }
    return QN_OK;
}

static int order_slices(const void *left, const void *right) {
    const qn_trace_slice_read *a = left, *b = right;
    if (a->track != b->track)
        return a->track < b->track ? -1 : 1;
    if (a->begin_ns != b->begin_ns)
        return a->begin_ns < b->begin_ns ? -1 : 1;
    if (a->end_ns != b->end_ns)
        return a->end_ns > b->end_ns ? -1 : 1;
    return a->order < b->order ? -1 : 1;
}

/* ---- the reading ---- */

static qn_status read_all(qn_trace_reading *r, const char *path) {
    QN_TRY(keep_text(r, "", 0, &r->empty));
    r->key = r->empty;
    QN_TRY(qn_json_read(r->allocator, path, r, take));
    if (!r->has_events)
        return qn_fail(QN_ERROR_FORMAT, "%s: it is not a trace: there is no \"traceEvents\"", path);
    QN_TRY(join_halves(r));
    if (r->n_slices > 0)
        qsort(r->slices, r->n_slices, sizeof *r->slices, order_slices);
    return QN_OK;
}

qn_status qn_trace_read(const qn_allocator *allocator, const char *path,
                        qn_trace_reading **reading) {
    qn_trace_reading *r;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *r, &r));
    r->allocator = allocator;
    qn_arena_init(&r->texts, allocator);
    const qn_status status = read_all(r, path);
    if (status != QN_OK) {
        qn_trace_reading_destroy(r);
        return status;
    }
    *reading = r;
    return QN_OK;
}

void qn_trace_reading_destroy(qn_trace_reading *reading) {
    if (!reading)
        return;
    qn_trace_reading *r = reading;
    qn_release(r->allocator, r->facts, r->fact_capacity, sizeof *r->facts);
    qn_release(r->allocator, r->tracks, r->track_capacity, sizeof *r->tracks);
    qn_release(r->allocator, r->halves, r->half_capacity, sizeof *r->halves);
    qn_release(r->allocator, r->slices, r->slice_capacity, sizeof *r->slices);
    qn_release(r->allocator, r->table, r->table_size, sizeof *r->table);
    qn_arena_deinit(&r->texts);
    qn_release(r->allocator, r, 1, sizeof *r);
}

const qn_trace_slice_read *qn_trace_reading_slices(const qn_trace_reading *reading, size_t *n) {
    *n = reading->n_slices;
    return reading->slices;
}

const qn_trace_track *qn_trace_reading_tracks(const qn_trace_reading *reading, size_t *n) {
    *n = reading->n_tracks;
    return reading->tracks;
}

const char *qn_trace_reading_fact(const qn_trace_reading *reading, const char *name) {
    for (size_t i = 0; i < reading->n_facts; i++) {
        if (strcmp(reading->facts[i].name, name) == 0)
            return reading->facts[i].value;
    }
    return NULL;
}
