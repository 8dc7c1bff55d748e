/* See class_list.h. */
#include "onnx/properties/class_list.h"

#include "base/status.h"
#include "base/text.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

/* Reading goes on until something does not fit (is_none), or memory is out (status). */
typedef struct reading {
    const char *at, *end;
    qn_arena *arena;
    qn_status status;
    bool is_none;
    int n, most;
    const char **names; /* (n) of most, as they are read */
    int *places;        /* (n): of dictionaries, else as they come */
} reading;

static bool goes_on(const reading *r) {
    return r->status == QN_OK && !r->is_none;
}

static void skip_blanks(reading *r) {
    while (r->at < r->end && qn_text_is_space(*r->at))
        r->at++;
}

static bool take(reading *r, char c) {
    skip_blanks(r);
    if (r->at == r->end || *r->at != c)
        return false;
    r->at++;
    return true;
}

/* Whether bytes are a name: UTF-8 without control characters. */
static bool is_name(const char *text, size_t n) {
    utf8proc_int32_t c;
    for (size_t i = 0; i < n;) {
        const utf8proc_ssize_t taken =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (taken < 1 || c < 0x20 || (c >= 0x7f && c < 0xa0))
            return false;
        i += (size_t)taken;
    }
    return n > 0 && n <= QN_CLASS_NAME_MOST;
}

static const char *keep(reading *r, const char *text, size_t n) {
    if (!is_name(text, n)) {
        r->is_none = true;
        return NULL;
    }
    char *kept = qn_arena_allocate(r->arena, n + 1, 1);
    if (!kept)
        r->status = QN_ERROR_MEMORY;
    else
        memcpy(kept, text, n);
    return kept;
}

/* ---- texts and numbers ---- */

/* Digits of a \x or \u escape as UTF-8; 0 bytes: it is none. */
static size_t read_code(reading *r, int n_digits, char *to) {
    utf8proc_int32_t code = 0;
    for (int i = 0; i < n_digits; i++, r->at++) {
        const char digit[2] = {r->at < r->end ? *r->at : 0, 0};
        if (!isxdigit((unsigned char)*digit))
            return 0;
        code = code * 16 + (utf8proc_int32_t)strtol(digit, NULL, 16);
    }
    const bool is_half = code >= 0xd800 && code < 0xe000; /* of two: no program writes names so */
    return is_half ? 0 : (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)to);
}

/* What stands behind a backslash. */
static size_t read_escape(reading *r, char *to) {
    static const char plain[] = "\\\"'/";
    if (r->at == r->end)
        return 0;
    const char c = *r->at++;
    if (c == 'x' || c == 'u')
        return read_code(r, c == 'x' ? 2 : 4, to);
    *to = c;
    return c && strchr(plain, c) ? 1 : 0;
}

/* A text in quotes of either kind; null: none. */
static const char *read_text(reading *r) {
    char text[QN_CLASS_NAME_MOST + 8];
    size_t n = 0;
    skip_blanks(r);
    const char quote = r->at < r->end ? *r->at : 0;
    if (quote != '"' && quote != '\'')
        return NULL;
    for (r->at++; r->at < r->end && *r->at != quote && n <= QN_CLASS_NAME_MOST;) {
        if (*r->at != '\\') {
            text[n++] = *r->at++;
            continue;
        }
        r->at++;
        const size_t taken = read_escape(r, text + n);
        r->is_none = r->is_none || taken == 0;
        n += taken;
    }
    if (!take(r, quote))
        r->is_none = true;
    return r->is_none ? NULL : keep(r, text, n);
}

/* A count below most; -1: none. */
static int to_count(const char *text, size_t n, int most) {
    int64_t number = 0;
    for (size_t i = 0; i < n; i++) {
        if (!isdigit((unsigned char)text[i]) || number > most)
            return -1;
        number = number * 10 + (text[i] - '0');
    }
    return n > 0 && number < most ? (int)number : -1;
}

static int read_count(reading *r) {
    skip_blanks(r);
    const char *begin = r->at;
    while (r->at < r->end && isdigit((unsigned char)*r->at))
        r->at++;
    return to_count(begin, (size_t)(r->at - begin), r->most);
}

/* ---- lists ---- */

static void add(reading *r, const char *name, int place) {
    if (!name || place < 0 || place >= r->most || r->n == r->most) {
        r->is_none = true;
        return;
    }
    r->names[r->n] = name;
    r->places[r->n++] = place;
}

/* 0: 'ant', "0": "ant" or "ant": 0. */
static void read_pair(reading *r) {
    const char *key = read_text(r);
    const int key_count = key ? to_count(key, strlen(key), r->most) : read_count(r);
    if (!goes_on(r) || !take(r, ':')) {
        r->is_none = true;
        return;
    }
    const char *value = read_text(r);
    if (value)
        add(r, value, key_count);
    else
        add(r, key_count < 0 ? key : NULL, read_count(r));
}

static void read_items(reading *r, bool are_pairs, char close) {
    while (goes_on(r) && !take(r, close)) {
        if (are_pairs)
            read_pair(r);
        else
            add(r, read_text(r), r->n);
        if (goes_on(r) && !take(r, ',') && (r->at == r->end || *r->at != close))
            r->is_none = true;
    }
    skip_blanks(r);
    r->is_none = r->is_none || r->at != r->end;
}

/* Names with one kind of separator between them. */
static void read_separated(reading *r, char separator) {
    while (goes_on(r) && r->at <= r->end) {
        skip_blanks(r);
        const char *end = memchr(r->at, separator, (size_t)(r->end - r->at));
        const char *next = end ? end + 1 : r->end + 1;
        end = end ? end : r->end;
        while (end > r->at && qn_text_is_space(end[-1]))
            end--;
        add(r, keep(r, r->at, (size_t)(end - r->at)), r->n);
        if (next > r->end)
            break;
        r->at = next;
    }
}

/* The only separator that is there, lines before others; 0: none, or several. */
static char find_separator(const char *text, size_t length) {
    static const char separators[] = "\n,;|";
    char found = 0;
    for (const char *s = separators; *s; s++) {
        const bool is_there = memchr(text, *s, length) != NULL;
        if (is_there && found)
            return 0;
        found = is_there ? *s : found;
    }
    return found;
}

static int compare_texts(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* In the order of their places, each of which has one, and each name another one. */
static qn_status finish(reading *r, qn_class_list *list) {
    const char **names = qn_arena_allocate(r->arena, (size_t)r->n + 1, sizeof *names);
    const char **sorted = qn_arena_allocate(r->arena, (size_t)r->n + 1, sizeof *sorted);
    if (!names || !sorted)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < r->n; i++) {
        if (r->places[i] >= r->n || names[r->places[i]])
            return QN_OK;
        names[r->places[i]] = sorted[i] = r->names[i];
    }
    qsort(sorted, (size_t)r->n, sizeof *sorted, compare_texts);
    for (int i = 1; i < r->n; i++) {
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return QN_OK;
    }
    *list = (qn_class_list){r->n, names};
    return QN_OK;
}

static void read_any(reading *r) {
    if (take(r, '['))
        read_items(r, false, ']');
    else if (take(r, '('))
        read_items(r, false, ')');
    else if (take(r, '{'))
        read_items(r, true, '}');
    else
        read_separated(r, find_separator(r->at, (size_t)(r->end - r->at)));
}

qn_status qn_class_list_read(const char *text, size_t length, qn_arena *arena,
                             qn_class_list *list) {
    reading r = {.at = text, .end = text + length, .arena = arena, .most = 1};
    *list = (qn_class_list){.n = 0};
    while (r.at < r.end && qn_text_is_space(*r.at))
        r.at++;
    while (r.end > r.at && qn_text_is_space(r.end[-1]))
        r.end--;
    for (const char *at = r.at; at < r.end; at++)
        r.most += *at == ',' || *at == ';' || *at == '|' || *at == '\n';
    if (r.most < 2)
        return QN_OK; /* of one name there is nothing to tell apart */
    r.names = qn_arena_allocate(arena, (size_t)r.most, sizeof *r.names);
    r.places = qn_arena_allocate(arena, (size_t)r.most, sizeof *r.places);
    if (!r.names || !r.places)
        return QN_ERROR_MEMORY;
    read_any(&r);
    QN_TRY(r.status);
    return r.is_none || r.n < 2 ? QN_OK : finish(&r, list);
}

bool qn_class_list_equal(const qn_class_list *a, const qn_class_list *b) {
    bool are_equal = a->n == b->n;
    for (int i = 0; are_equal && i < a->n; i++)
        are_equal = strcmp(a->names[i], b->names[i]) == 0;
    return are_equal;
}
