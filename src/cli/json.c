/* See json.h. Nothing is allocated. */
#include "cli/json.h"

#include <math.h>
#include <stdio.h>

/* Whether the next entry is the first in its object or list. */
static bool is_first;

static void separate(void) {
    if (!is_first)
        putchar(',');
    is_first = false;
}

static void put_quoted(const char *text) {
    putchar('"');
    for (; *text; text++) {
        if ((unsigned char)*text < ' ')
            printf("\\u%04x", (unsigned)*text);
        else if (*text == '"' || *text == '\\')
            printf("\\%c", *text);
        else
            putchar(*text);
    }
    putchar('"');
}

static void put_key(const char *key) {
    separate();
    put_quoted(key);
    putchar(':');
}

void json_begin(void) {
    putchar('{');
    is_first = true;
}

void json_end(void) {
    puts("}");
    fflush(stdout);
}

void json_text(const char *key, const char *value) {
    put_key(key);
    put_quoted(value);
}

void json_count(const char *key, int64_t value) {
    put_key(key);
    printf("%lld", (long long)value);
}

void json_number(const char *key, double value) {
    put_key(key);
    if (isfinite(value))
        printf("%.9g", value);
    else
        printf("null");
}

void json_null(const char *key) {
    put_key(key);
    printf("null");
}

void json_open_list(const char *key) {
    put_key(key);
    putchar('[');
    is_first = true;
}

void json_begin_item(void) {
    separate();
    json_begin();
}

void json_end_item(void) {
    putchar('}');
    is_first = false;
}

void json_close_list(void) {
    putchar(']');
    is_first = false;
}
