/* Filters, tests and methods of chat templates; see machine.h. */
#include "data/chats/machine.h"

#include <string.h>

static bool is_named(const char *name, size_t n, const char *is) {
    return strlen(is) == n && memcmp(name, is, n) == 0;
}

bool qn_jinja_are_same(qn_jinja_machine *m, const qn_jinja_value *a, const qn_jinja_value *b) {
    const bool are_same = qn_jinja_equals(a, b, 0, &m->work);
    (void)qn_jinja_step(m, 0); /* ends the run where nothing is left */
    return are_same;
}

qn_jinja_value qn_jinja_joined(qn_jinja_machine *m, const qn_jinja_value *a,
                               const qn_jinja_value *b) {
    const qn_jinja_value made = qn_jinja_join(m->arena, a, b);
    return made.kind == QN_JINJA_TEXT ? made : qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
}

static qn_jinja_value need_text(qn_jinja_machine *m, const char *name, size_t n,
                                const qn_jinja_value *v) {
    if (v->kind == QN_JINJA_TEXT || !m->is_live)
        return *v;
    return qn_jinja_fail(m, QN_ERROR_FORMAT, "%.*s is of texts, and this is none", (int)n, name);
}

/* ASCII letters as capitals or small ones; other letters stay as they are. */
static qn_jinja_value change_case(qn_jinja_machine *m, const qn_jinja_value *v, bool to_upper) {
    if (!qn_jinja_step(m, (int64_t)v->n / 64))
        return (qn_jinja_value){0};
    char *text = qn_arena_allocate(m->arena, v->n + 1, 1);
    if (!text)
        return qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
    for (size_t i = 0; i < v->n; i++) {
        const char c = v->text[i];
        if ((unsigned char)c >= 0x80)
            return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "letters beyond ASCII change their case");
        const bool is_letter = to_upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z';
        text[i] = is_letter ? (char)(c ^ 0x20) : c;
    }
    qn_jinja_value made = *v;
    made.text = text;
    return made;
}

static qn_jinja_value replace(qn_jinja_machine *m, const qn_jinja_value *v,
                              const qn_jinja_value *from, const qn_jinja_value *to) {
    qn_jinja_value made = qn_jinja_text("", 0);
    size_t at = 0;
    if (from->kind != QN_JINJA_TEXT || to->kind != QN_JINJA_TEXT || from->n == 0)
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "replace needs two texts");
    while (qn_jinja_step(m, (int64_t)v->n / 64 + (int64_t)made.n / 64)) {
        const size_t next = qn_jinja_seek(v, from, at);
        const qn_jinja_value before = qn_jinja_part(v, at, next);
        made = qn_jinja_joined(m, &made, &before);
        if (next == v->n)
            break;
        made = qn_jinja_joined(m, &made, to);
        at = next + from->n;
    }
    return made;
}

static qn_jinja_value count(qn_jinja_machine *m, const qn_jinja_value *v) {
    if (v->kind == QN_JINJA_MAP)
        return qn_jinja_whole((int64_t)v->map->n);
    if (v->kind == QN_JINJA_LIST)
        return qn_jinja_whole((int64_t)v->n);
    if (v->kind != QN_JINJA_TEXT)
        return m->is_live ? qn_jinja_fail(m, QN_ERROR_FORMAT, "the length of what has none")
                          : (qn_jinja_value){0};
    int64_t n = 0;
    for (size_t i = 0; i < v->n; i++)
        n += ((unsigned char)v->text[i] & 0xC0) != 0x80;
    return qn_jinja_whole(n);
}

static qn_jinja_value join_list(qn_jinja_machine *m, const qn_jinja_value *v,
                                const qn_jinja_value *between) {
    qn_jinja_value made = qn_jinja_text("", 0);
    if (v->kind != QN_JINJA_LIST)
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "join of what is no list");
    for (size_t i = 0; i < v->n; i++) {
        const qn_jinja_value one = qn_jinja_written(m->arena, &v->list[i]);
        if (one.kind != QN_JINJA_TEXT)
            return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "join of lists, maps or fractions");
        if (i > 0 && between)
            made = qn_jinja_joined(m, &made, between);
        made = qn_jinja_joined(m, &made, &one);
        if (!qn_jinja_step(m, (int64_t)made.n / 64))
            return made;
    }
    return made;
}

static qn_jinja_value text_of(qn_jinja_machine *m, const qn_jinja_value *v) {
    const qn_jinja_value made = qn_jinja_written(m->arena, v);
    return made.kind == QN_JINJA_TEXT
               ? made
               : qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "string of a list, a map or a fraction");
}

static qn_jinja_value at_end(qn_jinja_machine *m, const qn_jinja_value *v, bool is_last) {
    if (v->kind != QN_JINJA_LIST)
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "first and last are of lists");
    return v->n == 0 ? (qn_jinja_value){0} : v->list[is_last ? v->n - 1 : 0];
}

qn_jinja_value qn_jinja_filter(qn_jinja_machine *m, const char *name, size_t n,
                               const qn_jinja_value *v, const qn_jinja_value *a, int n_a) {
    if (!m->is_live)
        return (qn_jinja_value){0};
    if (is_named(name, n, "length") || is_named(name, n, "count"))
        return count(m, v);
    if (is_named(name, n, "default") || is_named(name, n, "d"))
        return v->kind == QN_JINJA_UNDEFINED ||
                       (n_a > 1 && qn_jinja_is_true(&a[1]) && !qn_jinja_is_true(v))
                   ? (n_a > 0 ? a[0] : qn_jinja_text("", 0))
                   : *v;
    if (is_named(name, n, "safe") || is_named(name, n, "list"))
        return *v;
    if (is_named(name, n, "string"))
        return text_of(m, v);
    if (is_named(name, n, "join"))
        return join_list(m, v, n_a > 0 ? &a[0] : NULL);
    if (is_named(name, n, "first") || is_named(name, n, "last"))
        return at_end(m, v, is_named(name, n, "last"));
    if (is_named(name, n, "trim")) {
        const qn_jinja_value text = need_text(m, name, n, v);
        return qn_jinja_strip(&text, n_a > 0 ? &a[0] : NULL, true, true);
    }
    if (is_named(name, n, "upper") || is_named(name, n, "lower") || is_named(name, n, "replace"))
        return qn_jinja_method(m, name, n, v, a, n_a);
    return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "the filter %.*s is not known", (int)n, name);
}

qn_jinja_value qn_jinja_test(qn_jinja_machine *m, const char *name, size_t n,
                             const qn_jinja_value *v, const qn_jinja_value *argument) {
    static const struct {
        const char *name;
        unsigned kinds; /* a bit for each */
    } tests[] = {
        {"defined", ~(1u << QN_JINJA_UNDEFINED)},
        {"undefined", 1u << QN_JINJA_UNDEFINED},
        {"none", 1u << QN_JINJA_NONE},
        {"string", 1u << QN_JINJA_TEXT},
        {"mapping", 1u << QN_JINJA_MAP},
        {"boolean", 1u << QN_JINJA_BOOL},
        {"integer", 1u << QN_JINJA_WHOLE},
        {"float", 1u << QN_JINJA_REAL},
        {"number", 1u << QN_JINJA_BOOL | 1u << QN_JINJA_WHOLE | 1u << QN_JINJA_REAL},
        {"iterable", 1u << QN_JINJA_TEXT | 1u << QN_JINJA_LIST | 1u << QN_JINJA_MAP},
        {"sequence", 1u << QN_JINJA_TEXT | 1u << QN_JINJA_LIST | 1u << QN_JINJA_MAP},
    };
    for (size_t i = 0; i < sizeof tests / sizeof *tests; i++) {
        if (is_named(name, n, tests[i].name))
            return qn_jinja_bool(tests[i].kinds >> v->kind & 1);
    }
    if (is_named(name, n, "true") || is_named(name, n, "false"))
        return qn_jinja_bool(v->kind == QN_JINJA_BOOL && (v->whole != 0) == (name[0] == 't'));
    if ((is_named(name, n, "odd") || is_named(name, n, "even")) && v->kind == QN_JINJA_WHOLE)
        return qn_jinja_bool((v->whole & 1) == (name[0] == 'o'));
    if ((is_named(name, n, "equalto") || is_named(name, n, "eq")) && argument)
        return qn_jinja_bool(qn_jinja_are_same(m, v, argument));
    return m->is_live
               ? qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "the test %.*s is not known", (int)n, name)
               : (qn_jinja_value){0};
}

/* ---- methods ---- */

static qn_jinja_value split(qn_jinja_machine *m, const qn_jinja_value *v,
                            const qn_jinja_value *by) {
    qn_jinja_value made = {.kind = QN_JINJA_LIST};
    size_t n = 1;
    if (!by || by->kind != QN_JINJA_TEXT || by->n == 0)
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "split needs a text to split at");
    for (size_t at = qn_jinja_seek(v, by, 0); at < v->n; at = qn_jinja_seek(v, by, at + by->n))
        n++;
    made.list = qn_arena_allocate(m->arena, n, sizeof *made.list);
    (void)qn_jinja_step(m, (int64_t)n + (int64_t)v->n / 64);
    if (!made.list)
        return qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
    for (size_t at = 0; made.n < n && qn_jinja_step(m, 1);) {
        const size_t next = qn_jinja_seek(v, by, at);
        made.list[made.n++] = qn_jinja_part(v, at, next);
        at = next + by->n;
    }
    return made;
}

static qn_jinja_value items_of(qn_jinja_machine *m, const qn_jinja_value *v, bool keys_only) {
    qn_jinja_value made = {.kind = QN_JINJA_LIST};
    made.list = qn_arena_allocate(m->arena, 3 * v->map->n + 1, sizeof *made.list);
    (void)qn_jinja_step(m, 3 * (int64_t)v->map->n);
    if (!made.list)
        return qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
    qn_jinja_value *pairs = made.list + v->map->n;
    for (; made.n < v->map->n; made.n++) {
        qn_jinja_value *pair = pairs + 2 * made.n;
        pair[0] = v->map->pairs[made.n].key;
        pair[1] = v->map->pairs[made.n].value;
        made.list[made.n] =
            keys_only ? pair[0] : (qn_jinja_value){.kind = QN_JINJA_LIST, .n = 2, .list = pair};
    }
    return made;
}

static qn_jinja_value map_method(qn_jinja_machine *m, const char *name, size_t n,
                                 const qn_jinja_value *v, const qn_jinja_value *a, int n_a) {
    if (is_named(name, n, "items") || is_named(name, n, "keys"))
        return items_of(m, v, name[0] == 'k');
    if (is_named(name, n, "get") && n_a > 0 && a[0].kind == QN_JINJA_TEXT) {
        const qn_jinja_value *found = qn_jinja_find(v, a[0].text, a[0].n);
        return found ? *found : n_a > 1 ? a[1] : (qn_jinja_value){.kind = QN_JINJA_NONE};
    }
    return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "the method %.*s of a map is not known", (int)n,
                         name);
}

static bool has_at(const qn_jinja_value *v, const qn_jinja_value *part, bool at_begin) {
    return part->n <= v->n && (part->n == 0 || memcmp(v->text + (at_begin ? 0 : v->n - part->n),
                                                      part->text, part->n) == 0);
}

qn_jinja_value qn_jinja_method(qn_jinja_machine *m, const char *name, size_t n,
                               const qn_jinja_value *v, const qn_jinja_value *a, int n_a) {
    if (!m->is_live)
        return (qn_jinja_value){0};
    if (v->kind == QN_JINJA_MAP)
        return map_method(m, name, n, v, a, n_a);
    const qn_jinja_value text = need_text(m, name, n, v);
    if (m->status != QN_OK)
        return text;
    if (n_a > 0 && a[0].kind != QN_JINJA_TEXT)
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "%.*s needs a text", (int)n, name);
    if (is_named(name, n, "strip") || is_named(name, n, "lstrip") || is_named(name, n, "rstrip"))
        return qn_jinja_strip(&text, n_a > 0 ? a : NULL, name[0] != 'r', name[0] != 'l');
    if (is_named(name, n, "upper") || is_named(name, n, "lower"))
        return change_case(m, &text, name[0] == 'u');
    if (is_named(name, n, "split") && n_a < 2)
        return split(m, &text, n_a > 0 ? a : NULL);
    if ((is_named(name, n, "startswith") || is_named(name, n, "endswith")) && n_a == 1)
        return qn_jinja_bool(has_at(&text, a, name[0] == 's'));
    if (is_named(name, n, "replace") && n_a == 2)
        return replace(m, &text, &a[0], &a[1]);
    return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "the method %.*s of a text is not known", (int)n,
                         name);
}
