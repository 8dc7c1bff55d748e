/* Statements of chat templates, and what they write; see jinja.h and machine.h. */
#include "data/chats/jinja.h"

#include "base/print.h"
#include "base/status.h"
#include "data/chats/machine.h"

#include <cjson/cJSON.h>
#include <stdarg.h>
#include <string.h>

/* Steps of a rendering: some hundred thousand tokens of conversation. What is written, in bytes. */
enum { MOST_WORK = 1 << 22, MOST_WRITTEN = 1 << 28 };

qn_jinja_value qn_jinja_fail(qn_jinja_machine *m, qn_status status, const char *format, ...) {
    char text[320];
    int line = 1;
    va_list arguments;
    if (m->status != QN_OK)
        return (qn_jinja_value){0};
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    for (const char *c = m->source; c < m->at; c++)
        line += *c == '\n';
    m->status = qn_fail(status, "the chat template, line %d: %s", line, text);
    return (qn_jinja_value){0};
}

bool qn_jinja_step(qn_jinja_machine *m, int64_t work) {
    if (m->status != QN_OK)
        return false;
    m->work -= 1 + work;
    if (m->work < 0)
        (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "it runs too long");
    return m->status == QN_OK;
}

/* ---- variables ---- */

qn_jinja_value *qn_jinja_variable_of(qn_jinja_machine *m, const char *name, size_t n) {
    for (int i = m->n - 1; i >= 0; i--) {
        if (m->variables[i].n == n && memcmp(m->variables[i].name, name, n) == 0)
            return &m->variables[i].value;
    }
    return NULL;
}

/* Of the innermost loop; is_new: hides one of that name. */
void qn_jinja_set(qn_jinja_machine *m, const char *name, size_t n, const qn_jinja_value *value,
                  bool is_new) {
    for (int i = m->n - 1; i >= m->scope && !is_new; i--) {
        if (m->variables[i].n == n && memcmp(m->variables[i].name, name, n) == 0) {
            m->variables[i].value = *value;
            return;
        }
    }
    if (m->n == QN_JINJA_VARIABLES)
        (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "it has too many variables");
    else
        m->variables[m->n++] = (qn_jinja_variable){name, n, *value};
}

/* ---- writing ---- */

static void write_out(qn_jinja_machine *m, const char *text, const bool *mask, size_t n) {
    if (!m->is_live || n == 0 || !qn_jinja_step(m, (int64_t)n / 64))
        return;
    if (m->written + n > MOST_WRITTEN) {
        (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "it writes too much");
        return;
    }
    if (m->written + n > m->capacity) {
        const size_t capacity = 2 * (m->written + n) + 256;
        char *larger = qn_arena_allocate(m->arena, capacity, 1);
        bool *marks = qn_arena_allocate(m->arena, capacity, sizeof *marks);
        if (!larger || !marks) {
            m->status = QN_ERROR_MEMORY;
            return;
        }
        if (m->written > 0) {
            memcpy(larger, m->text, m->written);
            memcpy(marks, m->mask, m->written * sizeof *marks);
        }
        m->text = larger;
        m->mask = marks;
        m->capacity = capacity;
    }
    memcpy(m->text + m->written, text, n);
    for (size_t i = 0; i < n; i++)
        m->mask[m->written + i] = m->is_answer || (mask && mask[i]);
    m->written += n;
}

/* The next "{{", "{%" or "{#", or the end. */
static const char *find_tag(const qn_jinja_machine *m) {
    for (const char *c = m->at; c + 1 < m->end; c++) {
        if (*c == '{' && (c[1] == '{' || c[1] == '%' || c[1] == '#'))
            return c;
    }
    return m->end;
}

/* Text up to the next tag; a tag with a '-' takes the white space before it, and one that is no
 * output the blanks of its line, if nothing else is before it there. */
static void write_text(qn_jinja_machine *m) {
    const char *tag = find_tag(m), *end = tag;
    if (tag < m->end && tag + 2 < m->end && tag[2] == '-') {
        while (end > m->at && qn_jinja_is_space(end[-1]))
            end--;
    } else if (tag < m->end && tag[1] != '{' && !(tag + 2 < m->end && tag[2] == '+')) {
        const char *blank = end;
        while (blank > m->at && (blank[-1] == ' ' || blank[-1] == '\t'))
            blank--;
        end = blank == m->source || blank[-1] == '\n' ? blank : end;
    }
    write_out(m, m->at, NULL, (size_t)(end - m->at));
    m->at = tag;
}

/* The end of a tag. One that is no output also takes the end of its line, '-' all white space. */
static void close_tag(qn_jinja_machine *m, const char *close) {
    qn_jinja_skip(m);
    const bool strips = m->at < m->end && *m->at == '-';
    const bool keeps = m->at < m->end && *m->at == '+';
    m->at += strips || keeps;
    if ((size_t)(m->end - m->at) < 2 || memcmp(m->at, close, 2) != 0) {
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "%s is missing", close);
        return;
    }
    m->at += 2;
    while (strips && m->at < m->end && qn_jinja_is_space(*m->at))
        m->at++;
    if (!strips && !keeps && close[0] != '}' && m->at < m->end && *m->at == '\n')
        m->at++;
}

static void write_expression(qn_jinja_machine *m) {
    m->at += 2;
    m->at += m->at < m->end && (*m->at == '-' || *m->at == '+');
    const qn_jinja_value v = qn_jinja_expression(m);
    if (m->status == QN_OK && m->is_live) {
        const qn_jinja_value text = qn_jinja_written(m->arena, &v);
        if (text.kind == QN_JINJA_TEXT)
            write_out(m, text.text, text.mask, text.n);
        else
            (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "it writes a list, a map or a fraction");
    }
    close_tag(m, "}}");
}

static void skip_comment(qn_jinja_machine *m) {
    while (m->at + 1 < m->end && !(*m->at == '#' && m->at[1] == '}' && m->at[-1] != '{'))
        m->at++;
    if (m->at + 1 >= m->end) {
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "a comment has no end");
        return;
    }
    m->at -= m->at[-1] == '-' || m->at[-1] == '+';
    close_tag(m, "#}");
}

/* ---- statements ---- */

static const char *run_body(qn_jinja_machine *m);

static bool is_word(const char *word, const char *is) {
    return word && strcmp(word, is) == 0;
}

/* Behind "if" or "elif": bodies until "endif", of which at most one is taken. */
static void run_if(qn_jinja_machine *m) {
    const bool was_live = m->is_live;
    bool is_done = false;
    const char *word = "if";
    while (m->status == QN_OK && !is_word(word, "endif")) {
        bool is = !is_done;
        if (!is_word(word, "else")) {
            m->is_live = was_live && !is_done;
            const qn_jinja_value condition = qn_jinja_expression(m);
            is = is && qn_jinja_is_true(&condition);
        }
        close_tag(m, "%}");
        m->is_live = was_live && is;
        is_done |= is;
        word = run_body(m);
        if (m->status == QN_OK && !is_word(word, "elif") && !is_word(word, "else") &&
            !is_word(word, "endif"))
            (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "an if has no endif");
    }
    m->is_live = was_live;
    close_tag(m, "%}");
}

/* "loop" in round i. */
static void set_loop(qn_jinja_machine *m, const qn_jinja_value *list, size_t i) {
    qn_jinja_value loop = {.kind = QN_JINJA_MAP};
    const struct {
        const char *name;
        qn_jinja_value value;
    } facts[] = {{"index", qn_jinja_whole((int64_t)i + 1)},
                 {"index0", qn_jinja_whole((int64_t)i)},
                 {"first", qn_jinja_bool(i == 0)},
                 {"last", qn_jinja_bool(i + 1 == list->n)},
                 {"length", qn_jinja_whole((int64_t)list->n)},
                 {"revindex", qn_jinja_whole((int64_t)(list->n - i))},
                 {"revindex0", qn_jinja_whole((int64_t)(list->n - i) - 1)},
                 {"previtem", i > 0 ? list->list[i - 1] : (qn_jinja_value){0}},
                 {"nextitem", i + 1 < list->n ? list->list[i + 1] : (qn_jinja_value){0}}};
    loop.map = qn_arena_allocate(m->arena, 1, sizeof *loop.map);
    (void)qn_jinja_step(m, (int64_t)(4 * sizeof facts / sizeof *facts));
    for (size_t k = 0; loop.map && k < sizeof facts / sizeof *facts; k++) {
        const qn_jinja_value key = qn_jinja_text(facts[k].name, strlen(facts[k].name));
        if (!qn_jinja_put(m->arena, loop.map, &key, &facts[k].value))
            loop.map = NULL;
    }
    if (loop.map)
        qn_jinja_set(m, "loop", 4, &loop, true);
    else
        m->status = QN_ERROR_MEMORY;
}

typedef struct loop_names {
    const char *name[2];
    size_t n[2];
    int count;
} loop_names;

static void set_names(qn_jinja_machine *m, const loop_names *names, const qn_jinja_value *v) {
    if (names->count == 1) {
        qn_jinja_set(m, names->name[0], names->n[0], v, true);
        return;
    }
    if (v->kind != QN_JINJA_LIST || v->n != 2) {
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "a loop over pairs, and these are none");
        return;
    }
    for (int k = 0; k < 2; k++)
        qn_jinja_set(m, names->name[k], names->n[k], &v->list[k], true);
}

static loop_names read_names(qn_jinja_machine *m) {
    loop_names names = {.count = 0};
    do {
        qn_jinja_skip(m);
        names.name[names.count] = m->at;
        names.n[names.count] = qn_jinja_name(m);
        m->at += names.n[names.count];
        if (names.n[names.count++] == 0)
            (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "a loop has no name");
    } while (m->status == QN_OK && names.count < 2 && qn_jinja_take(m, ","));
    if (!qn_jinja_take_word(m, "in"))
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "a loop has no in");
    return names;
}

/* A condition of a loop chooses before it begins. */
static void choose(qn_jinja_machine *m, const loop_names *names, qn_jinja_value *list) {
    const char *condition = m->at;
    const bool was_live = m->is_live;
    const int n = m->n, scope = m->scope;
    qn_jinja_value chosen = {.kind = QN_JINJA_LIST};
    m->is_live = false;
    (void)qn_jinja_expression(m);
    m->is_live = was_live;
    const char *behind = m->at;
    chosen.list = qn_arena_allocate(m->arena, list->n + 1, sizeof *chosen.list);
    (void)qn_jinja_step(m, (int64_t)list->n);
    for (size_t i = 0; was_live && chosen.list && i < list->n && m->status == QN_OK; i++) {
        m->scope = m->n = n;
        m->at = condition;
        set_names(m, names, &list->list[i]);
        const qn_jinja_value is = qn_jinja_expression(m);
        if (qn_jinja_is_true(&is))
            chosen.list[chosen.n++] = list->list[i];
    }
    m->n = n;
    m->scope = scope;
    m->at = behind;
    *list = chosen;
    if (!chosen.list)
        m->status = QN_ERROR_MEMORY;
}

static qn_jinja_value list_of_map(qn_jinja_machine *m, qn_jinja_value v) {
    if (v.kind == QN_JINJA_MAP)
        return qn_jinja_method(m, "keys", 4, &v, NULL, 0);
    if (v.kind == QN_JINJA_LIST || !m->is_live)
        return v.kind == QN_JINJA_LIST ? v : (qn_jinja_value){.kind = QN_JINJA_LIST};
    return qn_jinja_fail(m, QN_ERROR_FORMAT, "a loop over what is no list");
}

/* Runs a body once for each element, or reads it once; returns the word that ends it. */
static const char *run_rounds(qn_jinja_machine *m, const loop_names *names,
                              const qn_jinja_value *list) {
    const bool was_live = m->is_live;
    const int n = m->n, scope = m->scope;
    const char *body = m->at, *word = NULL;
    const size_t rounds = was_live ? list->n : 0;
    for (size_t i = 0; i < rounds && m->status == QN_OK; i++) {
        m->at = body;
        m->scope = m->n = n;
        set_loop(m, list, i);
        if (m->status == QN_OK)
            set_names(m, names, &list->list[i]);
        word = m->status == QN_OK ? run_body(m) : NULL;
    }
    m->n = n;
    m->scope = scope;
    if (rounds == 0) {
        m->is_live = false;
        word = run_body(m);
        m->is_live = was_live;
    }
    return word;
}

static void run_for(qn_jinja_machine *m) {
    const bool was_live = m->is_live;
    const loop_names names = read_names(m);
    qn_jinja_value list = list_of_map(m, qn_jinja_simple_expression(m));
    if (m->status == QN_OK && qn_jinja_take_word(m, "if"))
        choose(m, &names, &list);
    if (qn_jinja_take_word(m, "recursive"))
        (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "a recursive loop");
    close_tag(m, "%}");
    if (m->status != QN_OK)
        return;
    const char *word = run_rounds(m, &names, &list);
    if (m->status == QN_OK && is_word(word, "else")) {
        m->is_live = was_live && list.n == 0;
        close_tag(m, "%}");
        word = run_body(m);
        m->is_live = was_live;
    }
    if (m->status == QN_OK && !is_word(word, "endfor"))
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "a for has no endfor");
    close_tag(m, "%}");
}

/* "set NAME = VALUE", or of a namespace. */
static void run_set(qn_jinja_machine *m) {
    qn_jinja_skip(m);
    const char *name = m->at, *part = NULL;
    const size_t n = qn_jinja_name(m);
    size_t n_part = 0;
    m->at += n;
    if (qn_jinja_take(m, ".")) {
        part = m->at;
        n_part = qn_jinja_name(m);
        m->at += n_part;
    }
    if (n == 0 || (part && n_part == 0) || !qn_jinja_take(m, "=")) {
        (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "a set without \"NAME = \"");
        return;
    }
    const qn_jinja_value value = qn_jinja_expression(m);
    close_tag(m, "%}");
    if (m->status != QN_OK || !m->is_live)
        return;
    if (!part) {
        qn_jinja_set(m, name, n, &value, false);
        return;
    }
    const qn_jinja_value *space = qn_jinja_variable_of(m, name, n);
    const qn_jinja_value key = qn_jinja_text(part, n_part);
    if (!space || space->kind != QN_JINJA_MAP)
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "%.*s is no namespace", n < 60 ? (int)n : 60, name);
    else if (!qn_jinja_put(m->arena, space->map, &key, &value))
        m->status = QN_ERROR_MEMORY;
}

/* transformers' own statement: what it writes is the answer's. */
static void run_generation(qn_jinja_machine *m) {
    const bool was = m->is_answer;
    close_tag(m, "%}");
    m->is_answer = true;
    const char *word = m->status == QN_OK ? run_body(m) : NULL;
    m->is_answer = was;
    if (m->status == QN_OK && !is_word(word, "endgeneration"))
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "a generation has no endgeneration");
    close_tag(m, "%}");
}

/* A word that ends a body, behind "{%"; null: another. */
static const char *take_end(qn_jinja_machine *m) {
    static const char *const ends[] = {"elif", "else", "endif", "endfor", "endgeneration"};
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        if (qn_jinja_take_word(m, ends[i]))
            return ends[i];
    }
    return NULL;
}

static void run_statement(qn_jinja_machine *m) {
    qn_jinja_skip(m);
    const size_t n = qn_jinja_name(m);
    if (qn_jinja_take_word(m, "if"))
        run_if(m);
    else if (qn_jinja_take_word(m, "for"))
        run_for(m);
    else if (qn_jinja_take_word(m, "set"))
        run_set(m);
    else if (qn_jinja_take_word(m, "generation"))
        run_generation(m);
    else
        (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "the statement \"%.*s\" is not known",
                            n < 60 ? (int)n : 60, m->at);
}

/* Up to a tag that ends a body, whose word is taken, or to the end of the template (null). */
static const char *run_body(qn_jinja_machine *m) {
    const char *word = NULL;
    if (m->depth >= QN_JINJA_DEPTH) {
        (void)qn_jinja_fail(m, QN_ERROR_UNSUPPORTED, "it is nested too deeply");
        return NULL;
    }
    m->depth++;
    while (!word && qn_jinja_step(m, 0)) {
        write_text(m);
        if (m->at == m->end || m->status != QN_OK)
            break;
        if (m->at[1] == '{') {
            write_expression(m);
            continue;
        }
        const bool is_comment = m->at[1] == '#';
        m->at += 2;
        if (is_comment) {
            skip_comment(m);
            continue;
        }
        m->at += m->at < m->end && (*m->at == '-' || *m->at == '+');
        word = take_end(m);
        if (!word)
            run_statement(m);
    }
    m->depth--;
    return word;
}

/* ---- rendering ---- */

static void set_text(qn_jinja_machine *m, const char *name, const char *text) {
    const qn_jinja_value value = qn_jinja_text(text ? text : "", text ? strlen(text) : 0);
    if (text)
        qn_jinja_set(m, name, strlen(name), &value, true);
}

qn_status qn_jinja_render(qn_arena *arena, const char *jinja, const cJSON *messages,
                          const qn_chat_words *words, bool asks, qn_rendered *rendered) {
    const qn_jinja_value none = {.kind = QN_JINJA_NONE}, generates = qn_jinja_bool(asks);
    const size_t n = strlen(jinja);
    qn_jinja_machine *m = qn_arena_allocate(arena, 1, sizeof *m);
    if (!m)
        return QN_ERROR_MEMORY;
    *m = (qn_jinja_machine){.arena = arena, .source = jinja, .at = jinja, .is_live = true};
    m->end = jinja + n - (n > 0 && jinja[n - 1] == '\n');
    m->work = MOST_WORK;
    const qn_jinja_value list = qn_jinja_of_json(arena, messages, 0);
    if (list.kind == QN_JINJA_UNDEFINED)
        return qn_fail(QN_ERROR_FORMAT, "messages are nested too deeply, or memory is out");
    qn_jinja_set(m, "messages", 8, &list, true);
    qn_jinja_set(m, "add_generation_prompt", 21, &generates, true);
    qn_jinja_set(m, "tools", 5, &none, true);
    qn_jinja_set(m, "documents", 9, &none, true);
    set_text(m, "bos_token", words->begin);
    set_text(m, "eos_token", words->end);
    const char *word = run_body(m);
    if (m->status == QN_OK && word)
        (void)qn_jinja_fail(m, QN_ERROR_FORMAT, "%s without a beginning", word);
    QN_TRY(m->status);
    *rendered = (qn_rendered){m->text, m->mask, m->written};
    return QN_OK;
}
