/* See terminal.h. */
#include "cli/terminal.h"

#include "base/print.h"
#include "base/text.h"
#include "os/terminal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* Columns of the line that is shown; 0: there is none. One process has one such line. */
static int n_shown;

bool terminal_moves(void) {
    return qn_terminal_moves();
}

/* The last column stays free: many terminals begin a new line when it is filled. */
int terminal_columns(void) {
    const int columns = qn_terminal_columns();
    return columns > 1 ? columns - 1 : 79;
}

/* A terminal that was made narrower has laid the line over several rows: those go too. */
void terminal_clear(void) {
    if (n_shown == 0)
        return;
    const int width = terminal_columns() + 1;
    fflush(stdout);
    if (n_shown > width)
        fprintf(stderr, "\033[%dA", (n_shown - 1) / width);
    fputs("\r\033[J", stderr);
    fflush(stderr);
    n_shown = 0;
}

static bool is_quiet;

void terminal_be_quiet(void) {
    is_quiet = true;
}

void terminal_show(const char *line) {
    if (is_quiet || !terminal_moves())
        return;
    const int columns = terminal_columns();
    if (n_shown > columns + 1)
        terminal_clear();
    n_shown = fprintf(stderr, "\r%.*s\033[K", columns, line) - (int)strlen("\r\033[K");
    fflush(stderr);
}

int terminal_table_columns(int otherwise) {
    return qn_terminal_is_output() ? terminal_columns() : otherwise;
}

/* Bytes of a text that fit into so many columns and end between words; of a longer word all. */
static int fitting(const char *text, int columns) {
    int last = 0, n = 0;
    for (int i = 0; text[i]; i++) {
        n += ((unsigned char)text[i] & 0xC0) != 0x80; /* letters, not bytes */
        if (n > columns + 1 && last > 0)
            return last;
        last = text[i] == ' ' ? i : last;
    }
    return n > columns && last > 0 ? last : (int)strlen(text);
}

static void print_wrapped(FILE *to, int indent, const char *rest) {
    int n = fitting(rest, terminal_columns());
    fprintf(to, "%.*s\n", n, rest);
    for (rest += n; *rest; rest += n) {
        rest += strspn(rest, " ");
        n = fitting(rest, terminal_columns() - indent);
        fprintf(to, "%*s%.*s\n", indent, "", n, rest);
    }
}

/* Names of files and classes come into lines, and a terminal obeys some characters. */
static void make_harmless(char *line) {
    size_t n;
    for (char *c = line; *c; c += n) {
        char one[8] = "", shown[40];
        n = qn_text_character(c);
        n = n > 0 ? n : 1;
        memcpy(one, c, n);
        if (*c != '\n' && *c != '\t' &&
            strcmp(qn_text_printable(one, shown, sizeof shown), one) != 0)
            memset(c, '?', n);
    }
}

void terminal_print(int indent, const char *format, ...) {
    char line[1024];
    va_list list;
    va_start(list, format);
    qn_print_list(line, sizeof line, format, list);
    va_end(list);
    make_harmless(line);
    if (qn_terminal_is_output())
        print_wrapped(stdout, indent, line);
    else
        puts(line);
}

const char *terminal_name(const char *name) {
    enum { N_NAMES = 4, NAME_BYTES = 512 };
    static char texts[N_NAMES][NAME_BYTES];
    static int next;
    next = (next + 1) % N_NAMES;
    return qn_text_printable(name, texts[next], NAME_BYTES);
}

/* A text of several lines stays as it is. */
void terminal_note(const char *format, ...) {
    static const char name[] = "quern: ";
    char line[4096];
    va_list list;
    if (is_quiet)
        return;
    va_start(list, format);
    memcpy(line, name, sizeof name);
    qn_print_list(line + sizeof name - 1, sizeof line - sizeof name, format, list);
    va_end(list);
    make_harmless(line);
    fflush(stdout);
    if (qn_terminal_is_error() && !strchr(line, '\n'))
        print_wrapped(stderr, 2, line);
    else
        fprintf(stderr, "%s\n", line);
}
