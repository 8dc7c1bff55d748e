/* See json.h. Nothing is allocated. */
#include "cli/json.h"

#include "base/print.h"
#include "base/text.h"

#include <math.h>
#include <stdio.h>

/* Null: standard output. */
static FILE *chosen;

/* Whether the next entry is the first in its object or list. */
static bool is_first;

void json_to(FILE *stream) {
    chosen = stream;
}

static FILE *out(void) {
    return chosen ? chosen : stdout;
}

static void put(char c) {
    fputc(c, out());
}

static void separate(void) {
    if (!is_first)
        put(',');
    is_first = false;
}

/* A character, or U+FFFD for a byte that is of none; bytes of text that it was. One that a terminal
 * would obey is escaped. */
static size_t put_character(const char *text) {
    const size_t n = qn_text_character(text);
    const uint32_t code = n > 0 ? qn_text_code(text, n) : 0;
    if (n > 0 && qn_text_is_obeyed(code)) {
        fprintf(out(), "\\u%04x", (unsigned)code);
        return n;
    }
    fwrite(n > 0 ? text : "\xef\xbf\xbd", 1, n > 0 ? n : 3, out());
    return n > 0 ? n : 1;
}

static void put_quoted(const char *text) {
    put('"');
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            fprintf(out(), "\\%c", *text);
        else
            text += put_character(text) - 1;
    }
    put('"');
}

static void put_key(const char *key) {
    separate();
    put_quoted(key);
    put(':');
}

void json_begin(void) {
    put('{');
    is_first = true;
}

void json_end(void) {
    fputs("}\n", out());
    fflush(out());
}

void json_text(const char *key, const char *value) {
    put_key(key);
    put_quoted(value);
}

void json_count(const char *key, int64_t value) {
    put_key(key);
    fprintf(out(), "%lld", (long long)value);
}

void json_number(const char *key, double value) {
    char text[32];
    put_key(key);
    qn_print(text, sizeof text, "%.9g", value);
    fputs(isfinite(value) ? text : "null", out());
}

void json_flag(const char *key, bool value) {
    put_key(key);
    fputs(value ? "true" : "false", out());
}

void json_null(const char *key) {
    put_key(key);
    fprintf(out(), "null");
}

void json_open_list(const char *key) {
    put_key(key);
    put('[');
    is_first = true;
}

void json_begin_item(void) {
    separate();
    json_begin();
}

void json_end_item(void) {
    put('}');
    is_first = false;
}

void json_item_count(int64_t value) {
    separate();
    fprintf(out(), "%lld", (long long)value);
}

void json_item_text(const char *value) {
    separate();
    put_quoted(value);
}

void json_close_list(void) {
    put(']');
    is_first = false;
}
