/* Expressions of chat templates, by recursive descent in Jinja's order of precedence. */
#include "data/chats/machine.h"

#include <stdlib.h>
#include <string.h>

static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static bool is_digit(char c) {
    return c >= '0' && c <= '9';
}

void qn_jinja_skip(qn_jinja_machine *m) {
    while (m->at < m->end && qn_jinja_is_space(*m->at))
        m->at++;
}

size_t qn_jinja_name(const qn_jinja_machine *m) {
    size_t n = 0;
    while (m->at + n < m->end && (is_letter(m->at[n]) || (n > 0 && is_digit(m->at[n]))))
        n++;
    return n;
}

bool qn_jinja_take(qn_jinja_machine *m, const char *sign) {
    const size_t n = strlen(sign);
    qn_jinja_skip(m);
    if ((size_t)(m->end - m->at) < n || memcmp(m->at, sign, n) != 0)
        return false;
    m->at += n;
    return true;
}

bool qn_jinja_take_word(qn_jinja_machine *m, const char *word) {
    qn_jinja_skip(m);
    const size_t n = qn_jinja_name(m);
    if (n != strlen(word) || memcmp(m->at, word, n) != 0)
        return false;
    m->at += n;
    return true;
}

static qn_jinja_value expect(qn_jinja_machine *m, const char *sign, qn_jinja_value value) {
    if (qn_jinja_take(m, sign))
        return value;
    return qn_jinja_fail(m, QN_ERROR_FORMAT, "%s is missing", sign);
}

/* ---- literals ---- */

static char escaped(char c) {
    return c == 'n' ? '\n' : c == 't' ? '\t' : c == 'r' ? '\r' : c;
}

static qn_jinja_value literal_text(qn_jinja_machine *m) {
    const char quote = *m->at++;
    size_t most = 0, n = 0;
    while (m->at + most < m->end && m->at[most] != quote)
        most += 1 + (m->at[most] == '\\');
    (void)qn_jinja_step(m, (int64_t)most / 64);
    char *text = qn_arena_allocate(m->arena, most + 1, 1);
    if (!text)
        return qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
    for (; m->at < m->end && *m->at != quote; m->at++) {
        if (*m->at != '\\' || m->at + 1 == m->end) {
            text[n++] = *m->at;
            continue;
        }
        m->at++;
        if (!strchr("ntr\\'\"", *m->at))
            return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "the escape \\%c", *m->at);
        text[n++] = escaped(*m->at);
    }
    if (m->at == m->end)
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "a text has no end");
    m->at++;
    return qn_jinja_text(text, n);
}

static qn_jinja_value literal_number(qn_jinja_machine *m) {
    int64_t number = 0;
    for (; m->at < m->end && is_digit(*m->at); m->at++) {
        if (number > INT64_MAX / 100)
            return qn_jinja_fail(m, QN_ERROR_FORMAT, "a number is too large");
        number = 10 * number + (*m->at - '0');
    }
    if (m->at < m->end && (*m->at == '.' || is_letter(*m->at)))
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "numbers with a fraction");
    return qn_jinja_whole(number);
}

enum { MOST_LISTED = 64 };

static qn_jinja_value literal_list(qn_jinja_machine *m, const char *close) {
    qn_jinja_value made = {.kind = QN_JINJA_LIST};
    made.list = qn_arena_allocate(m->arena, MOST_LISTED, sizeof *made.list);
    (void)qn_jinja_step(m, MOST_LISTED);
    if (!made.list)
        return qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
    while (m->status == QN_OK && !qn_jinja_take(m, close)) {
        if (made.n == MOST_LISTED)
            return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "a list of more than %d", MOST_LISTED);
        made.list[made.n++] = qn_jinja_expression(m);
        if (!qn_jinja_take(m, ","))
            return expect(m, close, made);
    }
    return made;
}

static qn_jinja_value literal_map(qn_jinja_machine *m) {
    qn_jinja_value made = {.kind = QN_JINJA_MAP};
    made.map = qn_arena_allocate(m->arena, 1, sizeof *made.map);
    (void)qn_jinja_step(m, QN_JINJA_MAP_WORK);
    while (made.map && m->status == QN_OK && !qn_jinja_take(m, "}")) {
        const qn_jinja_value key = qn_jinja_expression(m);
        const qn_jinja_value value = expect(m, ":", qn_jinja_whole(0));
        (void)value;
        const qn_jinja_value of = m->status == QN_OK ? qn_jinja_expression(m) : key;
        if (m->status == QN_OK && m->is_live &&
            (key.kind != QN_JINJA_TEXT || !qn_jinja_put(m->arena, made.map, &key, &of)))
            return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "a map whose keys are no texts");
        if (!qn_jinja_take(m, ","))
            return expect(m, "}", made);
    }
    return made.map ? made : qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
}

/* ---- calls ---- */

/* Arguments up to ")"; names of arguments go into a map, which is the first argument then. */
static int arguments(qn_jinja_machine *m, qn_jinja_value list[QN_JINJA_ARGUMENTS],
                     qn_jinja_value *named) {
    int n = 0;
    *named = (qn_jinja_value){.kind = QN_JINJA_MAP};
    (void)qn_jinja_step(m, QN_JINJA_MAP_WORK);
    named->map = qn_arena_allocate(m->arena, 1, sizeof *named->map);
    if (!named->map) {
        (void)qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
        return 0;
    }
    while (m->status == QN_OK && !qn_jinja_take(m, ")")) {
        qn_jinja_skip(m);
        const char *begin = m->at;
        const size_t n_name = qn_jinja_name(m);
        m->at += n_name;
        const bool is_named =
            n_name > 0 && qn_jinja_take(m, "=") && (m->at == m->end || *m->at != '=');
        if (!is_named)
            m->at = begin;
        const qn_jinja_value value = qn_jinja_expression(m), key = qn_jinja_text(begin, n_name);
        if (is_named && !qn_jinja_put(m->arena, named->map, &key, &value))
            (void)qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
        else if (!is_named && n == QN_JINJA_ARGUMENTS)
            (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "a call with so many arguments");
        else if (!is_named)
            list[n++] = value;
        if (!qn_jinja_take(m, ",")) {
            (void)expect(m, ")", value);
            break;
        }
    }
    return n;
}

/* What takes arguments by their place alone would leave those with a name out in silence. */
static void refuse_named(qn_jinja_machine *m, const qn_jinja_value *named) {
    if (m->status != QN_OK || !m->is_live || named->map->n == 0)
        return;
    const qn_jinja_value *key = &named->map->pairs[0].key;
    (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "an argument by its name, %.*s",
                        key->n < 60 ? (int)key->n : 60, key->text);
}

static qn_jinja_value range(qn_jinja_machine *m, const qn_jinja_value *a, int n) {
    const int64_t begin = n > 1 ? a[0].whole : 0, end = n > 1 ? a[1].whole : a[0].whole;
    qn_jinja_value made = {.kind = QN_JINJA_LIST};
    if (n < 1 || n > 2 || a[0].kind != QN_JINJA_WHOLE || a[n - 1].kind != QN_JINJA_WHOLE)
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "range of one or two whole numbers");
    const int64_t most = 1 << 16, count = end > begin ? end - begin : 0;
    if (begin < -most || end > most || count > most)
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "a range of so many");
    made.list = qn_arena_allocate(m->arena, (size_t)count + 1, sizeof *made.list);
    (void)qn_jinja_step(m, count);
    if (!made.list)
        return qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
    for (; made.n < (size_t)count; made.n++)
        made.list[made.n] = qn_jinja_whole(begin + (int64_t)made.n);
    return made;
}

/* A function by its name, behind "(". */
static qn_jinja_value call(qn_jinja_machine *m, const char *name, size_t n) {
    qn_jinja_value list[QN_JINJA_ARGUMENTS], named;
    const int n_list = arguments(m, list, &named);
    if (m->status != QN_OK || !m->is_live)
        return (qn_jinja_value){0};
    const qn_jinja_value self = qn_jinja_text(name, n);
    if (qn_jinja_is_text(&self, "namespace") || qn_jinja_is_text(&self, "dict"))
        return n_list == 0 ? named
                           : qn_jinja_fail(m, QN_ERROR_UNSUPPORTED,
                                           "%.*s of a value without a name", (int)n, name);
    refuse_named(m, &named);
    if (m->status != QN_OK)
        return (qn_jinja_value){0};
    if (qn_jinja_is_text(&self, "range"))
        return range(m, list, n_list);
    if (qn_jinja_is_text(&self, "raise_exception") && n_list > 0) {
        const qn_jinja_value why = qn_jinja_written(m->arena, &list[0]);
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "it refuses the conversation: %.*s",
                             why.n < 200 ? (int)why.n : 200, why.text);
    }
    return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "the function %.*s is not known",
                         n < 60 ? (int)n : 60, name);
}

/* ---- parts ---- */

static qn_jinja_value named_value(qn_jinja_machine *m) {
    static const struct {
        const char *name;
        qn_jinja_kind kind;
        int64_t whole;
    } constants[] = {{"true", QN_JINJA_BOOL, 1},  {"True", QN_JINJA_BOOL, 1},
                     {"false", QN_JINJA_BOOL, 0}, {"False", QN_JINJA_BOOL, 0},
                     {"none", QN_JINJA_NONE, 0},  {"None", QN_JINJA_NONE, 0}};
    const char *name = m->at;
    const size_t n = qn_jinja_name(m);
    m->at += n;
    for (size_t i = 0; i < sizeof constants / sizeof *constants; i++) {
        if (strlen(constants[i].name) == n && memcmp(constants[i].name, name, n) == 0)
            return (qn_jinja_value){.kind = constants[i].kind, .whole = constants[i].whole};
    }
    const char *behind = m->at;
    if (qn_jinja_take(m, "("))
        return call(m, name, n);
    m->at = behind;
    const qn_jinja_value *found = qn_jinja_variable_of(m, name, n);
    return found ? *found : (qn_jinja_value){0};
}

static qn_jinja_value primary(qn_jinja_machine *m) {
    qn_jinja_skip(m);
    if (m->at == m->end)
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "an expression is missing");
    if (*m->at == '"' || *m->at == '\'')
        return literal_text(m);
    if (is_digit(*m->at))
        return literal_number(m);
    if (is_letter(*m->at))
        return named_value(m);
    if (qn_jinja_take(m, "("))
        return expect(m, ")", qn_jinja_expression(m));
    if (qn_jinja_take(m, "["))
        return literal_list(m, "]");
    if (qn_jinja_take(m, "{"))
        return literal_map(m);
    return qn_jinja_fail(m, QN_ERROR_FORMAT, "%c is no expression", *m->at);
}

/* Parts of texts are cut by bytes, which are characters in ASCII alone. */
static bool can_be_cut(qn_jinja_machine *m, const qn_jinja_value *text) {
    if (!qn_jinja_step(m, (int64_t)text->n / 64))
        return false;
    for (size_t i = 0; i < text->n; i++) {
        if ((unsigned char)text->text[i] >= 0x80) {
            (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "a part of a text beyond ASCII");
            return false;
        }
    }
    return true;
}

/* The element of a list, the character of a text, or the value of a map's key. */
static qn_jinja_value element(qn_jinja_machine *m, const qn_jinja_value *of,
                              const qn_jinja_value *at) {
    if (!m->is_live)
        return (qn_jinja_value){0};
    if (of->kind == QN_JINJA_UNDEFINED)
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "it asks for a part of what is not defined");
    if (of->kind == QN_JINJA_MAP && at->kind == QN_JINJA_TEXT) {
        const qn_jinja_value *found = qn_jinja_find(of, at->text, at->n);
        return found ? *found : (qn_jinja_value){0};
    }
    if (at->kind != QN_JINJA_WHOLE)
        return (qn_jinja_value){0};
    const int64_t n = (int64_t)of->n, i = at->whole < 0 ? at->whole + n : at->whole;
    if (of->kind == QN_JINJA_LIST && i >= 0 && i < n)
        return of->list[i];
    if (of->kind == QN_JINJA_TEXT && i >= 0 && i < n && can_be_cut(m, of))
        return qn_jinja_part(of, (size_t)i, (size_t)i + 1);
    return (qn_jinja_value){0};
}

static int64_t clamp(int64_t at, int64_t n) {
    at = at < 0 ? at + n : at;
    return at < 0 ? 0 : at > n ? n : at;
}

static qn_jinja_value reversed(qn_jinja_machine *m, const qn_jinja_value *of) {
    qn_jinja_value made = {.kind = QN_JINJA_LIST, .n = of->n};
    (void)qn_jinja_step(m, (int64_t)of->n);
    made.list = qn_arena_allocate(m->arena, of->n + 1, sizeof *made.list);
    for (size_t i = 0; made.list && i < of->n; i++)
        made.list[i] = of->list[of->n - 1 - i];
    return made.list ? made : qn_jinja_fail(m, QN_ERROR_MEMORY, "out of memory");
}

/* "[begin:end]" or "[::-1]", behind the first ":"; begin may be undefined. */
static qn_jinja_value slice(qn_jinja_machine *m, const qn_jinja_value *of, qn_jinja_value begin) {
    qn_jinja_value end = {0};
    if (qn_jinja_take(m, ":")) {
        const bool is_back = qn_jinja_take(m, "-1") && begin.kind == QN_JINJA_UNDEFINED;
        const qn_jinja_value done = expect(m, "]", begin);
        if (m->status != QN_OK || !m->is_live)
            return done;
        if (!is_back || of->kind != QN_JINJA_LIST)
            return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "a slice with a step");
        return reversed(m, of);
    }
    if (!qn_jinja_take(m, "]"))
        end = expect(m, "]", qn_jinja_expression(m));
    if (m->status != QN_OK || !m->is_live)
        return (qn_jinja_value){0};
    const int64_t n = (int64_t)of->n;
    const int64_t first = begin.kind == QN_JINJA_WHOLE ? clamp(begin.whole, n) : 0;
    int64_t last = end.kind == QN_JINJA_WHOLE ? clamp(end.whole, n) : n;
    last = last < first ? first : last;
    if (of->kind == QN_JINJA_TEXT)
        return can_be_cut(m, of) ? qn_jinja_part(of, (size_t)first, (size_t)last)
                                 : (qn_jinja_value){0};
    if (of->kind != QN_JINJA_LIST)
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "a slice of what is no list and no text");
    qn_jinja_value made = *of;
    made.list += first;
    made.n = (size_t)(last - first);
    return made;
}

static qn_jinja_value subscript(qn_jinja_machine *m, const qn_jinja_value *of) {
    if (qn_jinja_take(m, ":"))
        return slice(m, of, (qn_jinja_value){0});
    const qn_jinja_value at = qn_jinja_expression(m);
    if (qn_jinja_take(m, ":"))
        return slice(m, of, at);
    return expect(m, "]", element(m, of, &at));
}

static qn_jinja_value attribute(qn_jinja_machine *m, const qn_jinja_value *of) {
    qn_jinja_value list[QN_JINJA_ARGUMENTS], named;
    qn_jinja_skip(m);
    const char *name = m->at;
    const size_t n = qn_jinja_name(m);
    m->at += n;
    if (n == 0)
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "a name is missing behind a dot");
    const char *behind = m->at;
    if (qn_jinja_take(m, "(")) {
        const int n_list = arguments(m, list, &named);
        refuse_named(m, &named);
        return m->status == QN_OK ? qn_jinja_method(m, name, n, of, list, n_list) : named;
    }
    m->at = behind;
    const qn_jinja_value key = qn_jinja_text(name, n);
    return element(m, of, &key);
}

static qn_jinja_value filtered(qn_jinja_machine *m, const qn_jinja_value *of) {
    qn_jinja_value list[QN_JINJA_ARGUMENTS], named;
    int n_list = 0;
    qn_jinja_skip(m);
    const char *name = m->at;
    const size_t n = qn_jinja_name(m);
    m->at += n;
    if (qn_jinja_take(m, "(")) {
        n_list = arguments(m, list, &named);
        refuse_named(m, &named);
    }
    return m->status == QN_OK ? qn_jinja_filter(m, name, n, of, list, n_list) : *of;
}

static qn_jinja_value tested(qn_jinja_machine *m, const qn_jinja_value *of) {
    const bool is_not = qn_jinja_take_word(m, "not");
    qn_jinja_value argument, named, list[QN_JINJA_ARGUMENTS];
    bool has_argument = false;
    qn_jinja_skip(m);
    const char *name = m->at;
    const size_t n = qn_jinja_name(m);
    m->at += n;
    if (qn_jinja_take(m, "(")) {
        has_argument = arguments(m, list, &named) > 0;
        refuse_named(m, &named);
        argument = has_argument ? list[0] : named;
    }
    qn_jinja_value is = qn_jinja_test(m, name, n, of, has_argument ? &argument : NULL);
    is.whole = is_not ? !is.whole : is.whole;
    return is;
}

static qn_jinja_value postfix(qn_jinja_machine *m) {
    qn_jinja_value v = primary(m);
    while (qn_jinja_step(m, 1)) {
        qn_jinja_skip(m);
        const char *before = m->at;
        if (qn_jinja_take(m, "."))
            v = attribute(m, &v);
        else if (qn_jinja_take(m, "["))
            v = subscript(m, &v);
        else if (qn_jinja_take(m, "|"))
            v = filtered(m, &v);
        else if (qn_jinja_take_word(m, "is"))
            v = tested(m, &v);
        if (m->at == before)
            break;
    }
    return v;
}

/* ---- operators ---- */

static qn_jinja_value negative(qn_jinja_machine *m) {
    qn_jinja_skip(m);
    const bool is_negative =
        m->at + 1 < m->end && *m->at == '-' && m->at[1] != '%' && m->at[1] != '}';
    m->at += is_negative;
    qn_jinja_value v = postfix(m);
    if (is_negative && m->is_live && v.kind != QN_JINJA_WHOLE)
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "- of what is no whole number");
    v.whole = is_negative ? -v.whole : v.whole;
    return v;
}

/* Python's: with the sign of the divisor. */
static int64_t remainder_of(int64_t a, int64_t b) {
    const int64_t r = b == -1 ? 0 : a % b;
    return r != 0 && (r < 0) != (b < 0) ? r + b : r;
}

static qn_jinja_value calculate(qn_jinja_machine *m, char sign, const qn_jinja_value *a,
                                const qn_jinja_value *b) {
    const int64_t most = (int64_t)1 << 30;
    if (!m->is_live)
        return (qn_jinja_value){0};
    if (sign == '+' && a->kind == QN_JINJA_TEXT && b->kind == QN_JINJA_TEXT) {
        (void)qn_jinja_step(m, (int64_t)(a->n + b->n) / 64);
        return qn_jinja_joined(m, a, b);
    }
    const bool can = (a->kind == QN_JINJA_WHOLE || a->kind == QN_JINJA_BOOL) &&
                     (b->kind == QN_JINJA_WHOLE || b->kind == QN_JINJA_BOOL) && a->whole < most &&
                     a->whole > -most && b->whole < most && b->whole > -most;
    if (!can || ((sign == '%' || sign == '/') && b->whole == 0))
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "%c cannot be worked out of these two values",
                             sign);
    switch (sign) {
    case '+':
        return qn_jinja_whole(a->whole + b->whole);
    case '-':
        return qn_jinja_whole(a->whole - b->whole);
    case '*':
        return qn_jinja_whole(a->whole * b->whole);
    case '%':
        return qn_jinja_whole(remainder_of(a->whole, b->whole));
    default:
        return qn_jinja_whole((a->whole - remainder_of(a->whole, b->whole)) / b->whole);
    }
}

static qn_jinja_value product(qn_jinja_machine *m) {
    qn_jinja_value v = negative(m);
    while (qn_jinja_step(m, 1)) {
        qn_jinja_skip(m);
        char sign = m->at < m->end ? *m->at : 0;
        const bool is_end = sign == '%' && m->at + 1 < m->end && m->at[1] == '}';
        if (is_end || !(sign == '*' || sign == '%' || qn_jinja_take(m, "//")))
            break;
        m->at += sign != '/';
        const qn_jinja_value right = negative(m);
        v = calculate(m, sign, &v, &right);
    }
    return v;
}

static qn_jinja_value concatenation(qn_jinja_machine *m) {
    qn_jinja_value v = product(m);
    while (qn_jinja_step(m, 1) && qn_jinja_take(m, "~")) {
        const qn_jinja_value right = product(m);
        if (!m->is_live)
            continue;
        const qn_jinja_value a = qn_jinja_written(m->arena, &v);
        const qn_jinja_value b = qn_jinja_written(m->arena, &right);
        if (a.kind != QN_JINJA_TEXT || b.kind != QN_JINJA_TEXT)
            return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "~ of lists and maps");
        (void)qn_jinja_step(m, (int64_t)(a.n + b.n) / 64);
        v = qn_jinja_joined(m, &a, &b);
    }
    return v;
}

static qn_jinja_value sum(qn_jinja_machine *m) {
    qn_jinja_value v = concatenation(m);
    while (qn_jinja_step(m, 1)) {
        qn_jinja_skip(m);
        const char sign = m->at < m->end ? *m->at : 0;
        const char next = m->at + 1 < m->end ? m->at[1] : 0;
        if ((sign != '+' && sign != '-') || next == '%' || next == '}')
            break;
        m->at++;
        const qn_jinja_value right = concatenation(m);
        v = calculate(m, sign, &v, &right);
    }
    return v;
}

qn_jinja_value qn_jinja_simple_expression(qn_jinja_machine *m) {
    return sum(m);
}

static bool contains(qn_jinja_machine *m, const qn_jinja_value *in, const qn_jinja_value *v) {
    if (in->kind == QN_JINJA_MAP && v->kind == QN_JINJA_TEXT)
        return qn_jinja_find(in, v->text, v->n) != NULL;
    if (in->kind == QN_JINJA_TEXT && v->kind == QN_JINJA_TEXT &&
        qn_jinja_step(m, (int64_t)in->n / 64))
        return v->n == 0 || qn_jinja_seek(in, v, 0) < in->n;
    for (size_t i = 0; in->kind == QN_JINJA_LIST && i < in->n; i++) {
        if (qn_jinja_are_same(m, &in->list[i], v))
            return true;
    }
    if (in->kind != QN_JINJA_LIST && m->is_live)
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "in looks into what is no list, map or text");
    return false;
}

static qn_jinja_value compare(qn_jinja_machine *m, const char *sign, const qn_jinja_value *a,
                              const qn_jinja_value *b) {
    bool can;
    if (!m->is_live)
        return (qn_jinja_value){0};
    if (sign[1] == '=' && (sign[0] == '=' || sign[0] == '!'))
        return qn_jinja_bool(qn_jinja_are_same(m, a, b) == (sign[0] == '='));
    const int order = qn_jinja_compare(a, b, &can);
    if (!can)
        return qn_jinja_fail(m, QN_ERROR_FORMAT, "%s of values without an order", sign);
    const bool is = sign[0] == '<' ? order < 0 : order > 0;
    return qn_jinja_bool(is || (sign[1] == '=' && order == 0));
}

static qn_jinja_value comparison(qn_jinja_machine *m) {
    static const char *const signs[] = {"==", "!=", "<=", ">=", "<", ">"};
    qn_jinja_value v = sum(m);
    while (qn_jinja_step(m, 1)) {
        const char *before = m->at;
        const bool is_not = qn_jinja_take_word(m, "not");
        if (qn_jinja_take_word(m, "in")) {
            const qn_jinja_value in = sum(m);
            v = qn_jinja_bool(m->is_live && contains(m, &in, &v) != is_not);
            continue;
        }
        m->at = before;
        size_t i = 0;
        while (i < sizeof signs / sizeof *signs && !qn_jinja_take(m, signs[i]))
            i++;
        if (i == sizeof signs / sizeof *signs)
            break;
        const qn_jinja_value right = sum(m);
        v = compare(m, signs[i], &v, &right);
    }
    return v;
}

static qn_jinja_value negation(qn_jinja_machine *m) {
    int n = 0;
    while (qn_jinja_take_word(m, "not"))
        n++;
    const qn_jinja_value v = comparison(m);
    return n == 0 ? v : qn_jinja_bool(qn_jinja_is_true(&v) == (n % 2 == 0));
}

/* The right side of a decided "and" or "or" is read, and not run. */
static qn_jinja_value conjunction(qn_jinja_machine *m) {
    const bool was_live = m->is_live;
    qn_jinja_value v = negation(m);
    while (qn_jinja_step(m, 1) && qn_jinja_take_word(m, "and")) {
        const bool goes_on = qn_jinja_is_true(&v);
        m->is_live &= goes_on;
        const qn_jinja_value right = negation(m);
        v = goes_on ? right : v;
    }
    m->is_live = was_live;
    return v;
}

static qn_jinja_value disjunction(qn_jinja_machine *m) {
    const bool was_live = m->is_live;
    qn_jinja_value v = conjunction(m);
    while (qn_jinja_step(m, 1) && qn_jinja_take_word(m, "or")) {
        const bool goes_on = !qn_jinja_is_true(&v);
        m->is_live &= goes_on;
        const qn_jinja_value right = conjunction(m);
        v = goes_on ? right : v;
    }
    m->is_live = was_live;
    return v;
}

/* "a if c else b": what is chosen stands before the condition, so the first part is read once to
 * find where it ends, and run only if it counts. */
static qn_jinja_value conditional(qn_jinja_machine *m) {
    const bool was_live = m->is_live;
    const char *begin = m->at;
    m->is_live = false;
    (void)disjunction(m);
    const bool is_conditional = m->status == QN_OK && qn_jinja_take_word(m, "if");
    m->is_live = was_live;
    if (m->status != QN_OK)
        return (qn_jinja_value){0};
    if (!is_conditional) {
        m->at = begin;
        return disjunction(m);
    }
    const qn_jinja_value condition = disjunction(m);
    const bool is = qn_jinja_is_true(&condition);
    qn_jinja_value other = {0};
    m->is_live = was_live && !is;
    if (qn_jinja_take_word(m, "else"))
        other = qn_jinja_expression(m);
    const char *end = m->at;
    m->is_live = was_live;
    if (!is || m->status != QN_OK)
        return other;
    m->at = begin;
    const qn_jinja_value chosen = disjunction(m);
    m->at = end;
    return chosen;
}

qn_jinja_value qn_jinja_expression(qn_jinja_machine *m) {
    if (m->depth >= QN_JINJA_DEPTH)
        return qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "it is nested too deeply");
    if (!qn_jinja_step(m, 1))
        return (qn_jinja_value){0};
    m->depth++;
    const qn_jinja_value v = conditional(m);
    m->depth--;
    return v;
}
