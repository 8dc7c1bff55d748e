/* See pickle.h. A machine with a stack of values and a list of those that it keeps for later. */
#include "format/foreign/pickle.h"

#include "base/status.h"

#include <string.h>

typedef struct machine {
    qn_arena *arena;
    const unsigned char *data;
    size_t n_bytes, at;
    qn_pickle_value **stack; /* (n_stack of most_stack) */
    size_t n_stack, most_stack;
    qn_pickle_value **kept; /* (n_kept of most_kept) by number; null: none */
    size_t n_kept, most_kept;
} machine;

static qn_status fail_damaged(const machine *m, const char *what) {
    return qn_fail(QN_ERROR_FORMAT, "damaged at byte %zu: %s", m->at, what);
}

/* ---- bytes ---- */

static qn_status take_bytes(machine *m, size_t n, const unsigned char **bytes) {
    if (n > m->n_bytes - m->at)
        return fail_damaged(m, "it ends too early");
    *bytes = m->data + m->at;
    m->at += n;
    return QN_OK;
}

/* An unsigned integer of so many bytes, the lowest first. */
static qn_status take_count(machine *m, int n_bytes, uint64_t *value) {
    const unsigned char *bytes;
    QN_TRY(take_bytes(m, (size_t)n_bytes, &bytes));
    *value = 0;
    for (int i = n_bytes - 1; i >= 0; i--)
        *value = *value << 8 | bytes[i];
    return QN_OK;
}

/* Text up to a line's end, which is passed over. */
static qn_status take_line(machine *m, const char **line, size_t *n) {
    const unsigned char *begin = m->data + m->at;
    const unsigned char *end = memchr(begin, '\n', m->n_bytes - m->at);
    if (!end)
        return fail_damaged(m, "a name without an end");
    *line = (const char *)begin;
    *n = (size_t)(end - begin);
    m->at += *n + 1;
    return QN_OK;
}

/* ---- values ---- */

/* Room for one more pointer; the old array stays in the arena, so that all of them together take
 * at most twice the last one. */
static qn_status make_room(qn_arena *arena, qn_pickle_value ***items, size_t n, size_t *most) {
    if (n < *most)
        return QN_OK;
    const size_t wanted = *most < 8 ? 8 : *most * 2;
    qn_pickle_value **grown = qn_arena_allocate(arena, wanted, sizeof(qn_pickle_value *));
    if (!grown)
        return QN_ERROR_MEMORY;
    if (n > 0)
        memcpy(grown, *items, n * sizeof(qn_pickle_value *));
    *items = grown;
    *most = wanted;
    return QN_OK;
}

static qn_status push(machine *m, qn_pickle_value *value) {
    QN_TRY(make_room(m->arena, &m->stack, m->n_stack, &m->most_stack));
    m->stack[m->n_stack++] = value;
    return QN_OK;
}

static qn_status push_new(machine *m, qn_pickle_kind kind, qn_pickle_value **value) {
    *value = qn_arena_allocate(m->arena, 1, sizeof **value);
    if (!*value)
        return QN_ERROR_MEMORY;
    (*value)->kind = kind;
    return push(m, *value);
}

static qn_status add(machine *m, qn_pickle_value *to, qn_pickle_value *item) {
    QN_TRY(make_room(m->arena, &to->items, to->n, &to->capacity));
    to->items[to->n++] = item;
    return QN_OK;
}

static qn_status pop(machine *m, qn_pickle_value **value) {
    if (m->n_stack == 0 || m->stack[m->n_stack - 1]->kind == QN_PICKLE_MARK)
        return fail_damaged(m, "a value is missing");
    *value = m->stack[--m->n_stack];
    return QN_OK;
}

/* The values above the last mark, which is taken away: [*first, n_stack). */
static qn_status find_mark(machine *m, size_t *first) {
    *first = m->n_stack;
    while (*first > 0 && m->stack[*first - 1]->kind != QN_PICKLE_MARK)
        --*first;
    return *first > 0 ? QN_OK : fail_damaged(m, "a mark is missing");
}

static qn_status push_text(machine *m, qn_pickle_kind kind, const void *text, size_t n) {
    qn_pickle_value *value;
    char *copy = qn_arena_allocate(m->arena, n + 1, 1);
    if (!copy)
        return QN_ERROR_MEMORY;
    memcpy(copy, text, n);
    QN_TRY(push_new(m, kind, &value));
    value->text = copy;
    value->n_text = n;
    return QN_OK;
}

/* A text whose length is in so many bytes. */
static qn_status read_text(machine *m, qn_pickle_kind kind, int length_bytes) {
    uint64_t n;
    const unsigned char *bytes;
    QN_TRY(take_count(m, length_bytes, &n));
    if (n > m->n_bytes)
        return fail_damaged(m, "it ends too early");
    QN_TRY(take_bytes(m, (size_t)n, &bytes));
    return push_text(m, kind, bytes, (size_t)n);
}

static qn_status push_whole(machine *m, qn_pickle_kind kind, int64_t whole) {
    qn_pickle_value *value;
    QN_TRY(push_new(m, kind, &value));
    value->whole = whole;
    return QN_OK;
}

/* Two's complement, the lowest byte first. */
static qn_status read_long(machine *m, int length_bytes) {
    uint64_t n, value = 0;
    const unsigned char *bytes;
    QN_TRY(take_count(m, length_bytes, &n));
    if (n > m->n_bytes)
        return fail_damaged(m, "it ends too early");
    QN_TRY(take_bytes(m, (size_t)n, &bytes));
    if (n > 8)
        return push_whole(m, QN_PICKLE_HUGE, 0);
    for (uint64_t i = n; i-- > 0;)
        value = value << 8 | bytes[i];
    const int unused = 64 - 8 * (int)n;
    return push_whole(m, QN_PICKLE_WHOLE, n == 0 ? 0 : (int64_t)(value << unused) >> unused);
}

static qn_status read_whole(machine *m, int n_bytes) {
    uint64_t value;
    QN_TRY(take_count(m, n_bytes, &value));
    return push_whole(m, QN_PICKLE_WHOLE,
                      n_bytes == 4 ? (int64_t)(int32_t)(uint32_t)value : (int64_t)value);
}

/* The highest byte first, as nothing else here. */
static qn_status read_real(machine *m) {
    const unsigned char *bytes;
    uint64_t bits = 0;
    qn_pickle_value *value;
    QN_TRY(take_bytes(m, 8, &bytes));
    for (int i = 0; i < 8; i++)
        bits = bits << 8 | bytes[i];
    QN_TRY(push_new(m, QN_PICKLE_REAL, &value));
    memcpy(&value->real, &bits, sizeof bits);
    return QN_OK;
}

/* ---- names and calls ---- */

static qn_status push_name(machine *m, const char *module, size_t n_module, const char *name,
                           size_t n_name) {
    qn_pickle_value *value;
    char *text = qn_arena_allocate(m->arena, n_module + n_name + 2, 1);
    if (!text)
        return QN_ERROR_MEMORY;
    memcpy(text, module, n_module);
    text[n_module] = '.';
    memcpy(text + n_module + 1, name, n_name);
    QN_TRY(push_new(m, QN_PICKLE_NAME, &value));
    value->text = text;
    value->n_text = n_module + n_name + 1;
    return QN_OK;
}

static qn_status read_name(machine *m) {
    const char *module, *name;
    size_t n_module, n_name;
    QN_TRY(take_line(m, &module, &n_module));
    QN_TRY(take_line(m, &name, &n_name));
    return push_name(m, module, n_module, name, n_name);
}

static qn_status join_name(machine *m) {
    qn_pickle_value *module, *name;
    QN_TRY(pop(m, &name));
    QN_TRY(pop(m, &module));
    if (module->kind != QN_PICKLE_TEXT || name->kind != QN_PICKLE_TEXT)
        return fail_damaged(m, "a name that is no text");
    return push_name(m, module->text, module->n_text, name->text, name->n_text);
}

/* A call of what is below its arguments. Dictionaries with an order are dictionaries. */
static qn_status call(machine *m) {
    qn_pickle_value *arguments, *callee, *value;
    QN_TRY(pop(m, &arguments));
    QN_TRY(pop(m, &callee));
    if (qn_pickle_is_name(callee, "collections.OrderedDict") && arguments->n == 0)
        return push_new(m, QN_PICKLE_DICT, &value);
    QN_TRY(push_new(m, QN_PICKLE_CALL, &value));
    QN_TRY(add(m, value, callee));
    return add(m, value, arguments);
}

/* What would set an object's fields: of a call it is kept as one more item. */
static qn_status build(machine *m) {
    qn_pickle_value *state, *object;
    QN_TRY(pop(m, &state));
    QN_TRY(pop(m, &object));
    m->n_stack++;
    return object->kind == QN_PICKLE_CALL ? add(m, object, state) : QN_OK;
}

static qn_status refer(machine *m) {
    qn_pickle_value *to, *value;
    QN_TRY(pop(m, &to));
    QN_TRY(push_new(m, QN_PICKLE_REFERENCE, &value));
    return add(m, value, to);
}

/* ---- collections ---- */

/* The values above the mark become the items of a new one. */
static qn_status collect(machine *m, qn_pickle_kind kind) {
    size_t first;
    qn_pickle_value *value;
    QN_TRY(find_mark(m, &first));
    const size_t n = m->n_stack - first;
    qn_pickle_value **items = &m->stack[first];
    if (kind == QN_PICKLE_DICT && n % 2 != 0)
        return fail_damaged(m, "a key without a value");
    m->n_stack = first - 1;
    value = qn_arena_allocate(m->arena, 1, sizeof *value);
    if (!value)
        return QN_ERROR_MEMORY;
    value->kind = kind;
    for (size_t i = 0; i < n; i++)
        QN_TRY(add(m, value, items[i]));
    return push(m, value);
}

/* The last n values become a tuple. */
static qn_status collect_last(machine *m, size_t n) {
    qn_pickle_value *items[3] = {NULL, NULL, NULL}, *value;
    for (size_t i = n; i-- > 0;)
        QN_TRY(pop(m, &items[i]));
    QN_TRY(push_new(m, QN_PICKLE_TUPLE, &value));
    for (size_t i = 0; i < n; i++)
        QN_TRY(add(m, value, items[i]));
    return QN_OK;
}

/* A call that makes a collection of a class of its own may be filled, too. */
static bool can_be_filled(const qn_pickle_value *value, qn_pickle_kind kind) {
    return value->kind == kind || value->kind == QN_PICKLE_CALL;
}

/* The values above the mark go into the collection below it. */
static qn_status fill_marked(machine *m, qn_pickle_kind kind) {
    size_t first;
    QN_TRY(find_mark(m, &first));
    if (first < 2 || !can_be_filled(m->stack[first - 2], kind))
        return fail_damaged(m, "nothing to put values into");
    if (kind == QN_PICKLE_DICT && (m->n_stack - first) % 2 != 0)
        return fail_damaged(m, "a key without a value");
    for (size_t i = first; i < m->n_stack && m->stack[first - 2]->kind == kind; i++)
        QN_TRY(add(m, m->stack[first - 2], m->stack[i]));
    m->n_stack = first - 1;
    return QN_OK;
}

static qn_status fill_last(machine *m, qn_pickle_kind kind, size_t n) {
    qn_pickle_value *items[2], *to;
    for (size_t i = n; i-- > 0;)
        QN_TRY(pop(m, &items[i]));
    QN_TRY(pop(m, &to));
    m->n_stack++;
    if (!can_be_filled(to, kind))
        return fail_damaged(m, "nothing to put values into");
    for (size_t i = 0; i < n && to->kind == kind; i++)
        QN_TRY(add(m, to, items[i]));
    return QN_OK;
}

/* ---- values kept ---- */

/* No stream has as many values as bytes, so that a larger number is none that it was given. */
static qn_status keep(machine *m, uint64_t number) {
    qn_pickle_value *value;
    QN_TRY(pop(m, &value));
    m->n_stack++;
    if (number >= m->n_bytes)
        return fail_damaged(m, "a value is kept under a number that is too large");
    for (; m->n_kept <= number; m->n_kept++)
        QN_TRY(make_room(m->arena, &m->kept, m->n_kept, &m->most_kept));
    m->kept[number] = value;
    return QN_OK;
}

static qn_status keep_at(machine *m, int n_bytes) {
    uint64_t number;
    QN_TRY(take_count(m, n_bytes, &number));
    return keep(m, number);
}

static qn_status get(machine *m, int n_bytes) {
    uint64_t number;
    QN_TRY(take_count(m, n_bytes, &number));
    if (number >= m->n_kept || !m->kept[number])
        return fail_damaged(m, "a value that was not kept");
    return push(m, m->kept[number]);
}

/* ---- opcodes ---- */

static qn_status read_protocol(machine *m) {
    uint64_t version;
    QN_TRY(take_count(m, 1, &version));
    if (version > 5)
        return qn_fail(QN_ERROR_UNSUPPORTED, "pickle of protocol %d; 2 to 5 are read",
                       (int)version);
    return QN_OK;
}

static qn_status copy_top(machine *m) {
    qn_pickle_value *value;
    QN_TRY(pop(m, &value));
    m->n_stack++;
    return push(m, value);
}

static qn_status drop_to_mark(machine *m) {
    size_t first;
    QN_TRY(find_mark(m, &first));
    m->n_stack = first - 1;
    return QN_OK;
}

/* Numbers, truths and texts. */
static qn_status step_plain(machine *m, int code) {
    qn_pickle_value *value;
    switch (code) {
    case 'N':
        return push_new(m, QN_PICKLE_NONE, &value);
    case 0x88:
        return push_whole(m, QN_PICKLE_TRUTH, 1);
    case 0x89:
        return push_whole(m, QN_PICKLE_TRUTH, 0);
    case 'K':
        return read_whole(m, 1);
    case 'M':
        return read_whole(m, 2);
    case 'J':
        return read_whole(m, 4);
    case 0x8a:
        return read_long(m, 1);
    case 0x8b:
        return read_long(m, 4);
    case 'G':
        return read_real(m);
    case 0x8c:
        return read_text(m, QN_PICKLE_TEXT, 1);
    case 'X':
        return read_text(m, QN_PICKLE_TEXT, 4);
    case 0x8d:
        return read_text(m, QN_PICKLE_TEXT, 8);
    case 'U':
        return read_text(m, QN_PICKLE_TEXT, 1);
    case 'T':
        return read_text(m, QN_PICKLE_TEXT, 4);
    case 'C':
        return read_text(m, QN_PICKLE_BYTES, 1);
    case 'B':
        return read_text(m, QN_PICKLE_BYTES, 4);
    case 0x8e:
        return read_text(m, QN_PICKLE_BYTES, 8);
    case 0x96:
        return read_text(m, QN_PICKLE_BYTES, 8);
    default:
        return qn_fail(QN_ERROR_UNSUPPORTED, "opcode 0x%02x at byte %zu, which weights do not need",
                       (unsigned)code, m->at - 1);
    }
}

static qn_status step_collection(machine *m, int code) {
    qn_pickle_value *value;
    switch (code) {
    case '(':
        return push_new(m, QN_PICKLE_MARK, &value);
    case ')':
        return push_new(m, QN_PICKLE_TUPLE, &value);
    case ']':
        return push_new(m, QN_PICKLE_TUPLE, &value);
    case 0x8f:
        return push_new(m, QN_PICKLE_TUPLE, &value);
    case '}':
        return push_new(m, QN_PICKLE_DICT, &value);
    case 't':
        return collect(m, QN_PICKLE_TUPLE);
    case 'l':
        return collect(m, QN_PICKLE_TUPLE);
    case 0x91:
        return collect(m, QN_PICKLE_TUPLE);
    case 'd':
        return collect(m, QN_PICKLE_DICT);
    case 0x85:
        return collect_last(m, 1);
    case 0x86:
        return collect_last(m, 2);
    case 0x87:
        return collect_last(m, 3);
    case 'a':
        return fill_last(m, QN_PICKLE_TUPLE, 1);
    case 's':
        return fill_last(m, QN_PICKLE_DICT, 2);
    case 'e':
        return fill_marked(m, QN_PICKLE_TUPLE);
    case 0x90:
        return fill_marked(m, QN_PICKLE_TUPLE);
    case 'u':
        return fill_marked(m, QN_PICKLE_DICT);
    default:
        return step_plain(m, code);
    }
}

static qn_status step(machine *m, int code) {
    const unsigned char *ignored;
    qn_pickle_value *value;
    switch (code) {
    case 0x80:
        return read_protocol(m);
    case 0x95:
        return take_bytes(m, 8, &ignored); /* a frame's length */
    case '0':
        return pop(m, &value);
    case '1':
        return drop_to_mark(m);
    case '2':
        return copy_top(m);
    case 'q':
        return keep_at(m, 1);
    case 'r':
        return keep_at(m, 4);
    case 0x94:
        return keep(m, m->n_kept);
    case 'h':
        return get(m, 1);
    case 'j':
        return get(m, 4);
    case 'c':
        return read_name(m);
    case 0x93:
        return join_name(m);
    case 'R':
        return call(m);
    case 0x81:
        return call(m);
    case 'b':
        return build(m);
    case 'Q':
        return refer(m);
    default:
        return step_collection(m, code);
    }
}

qn_status qn_pickle_read(qn_arena *arena, const unsigned char *data, size_t n_bytes, size_t *n_used,
                         const qn_pickle_value **value) {
    machine m = {.arena = arena, .data = data, .n_bytes = n_bytes};
    qn_pickle_value *result;
    for (;;) {
        uint64_t code;
        QN_TRY(take_count(&m, 1, &code));
        if (code == '.')
            break;
        QN_TRY(step(&m, (int)code));
    }
    QN_TRY(pop(&m, &result));
    if (m.n_stack != 0)
        return fail_damaged(&m, "values are left over");
    *value = result;
    *n_used = m.at;
    return QN_OK;
}

/* ---- looking at values ---- */

bool qn_pickle_is_name(const qn_pickle_value *value, const char *name) {
    return value->kind == QN_PICKLE_NAME && strcmp(value->text, name) == 0;
}

bool qn_pickle_is_call(const qn_pickle_value *value, const char *name) {
    return value->kind == QN_PICKLE_CALL && qn_pickle_is_name(value->items[0], name);
}

const qn_pickle_value *qn_pickle_find(const qn_pickle_value *dict, const char *key) {
    for (size_t i = 0; dict->kind == QN_PICKLE_DICT && i + 1 < dict->n; i += 2) {
        if (dict->items[i]->kind == QN_PICKLE_TEXT && strcmp(dict->items[i]->text, key) == 0)
            return dict->items[i + 1];
    }
    return NULL;
}
