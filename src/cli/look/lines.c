/* See lines.h. */
#include "cli/look/lines.h"

#include "base/print.h"
#include "cli/terminal.h"

#include <stdarg.h>
#include <stddef.h>

static void print_line(void *context, const char *line) {
    (void)context;
    terminal_print(2, "%s", line);
}

const look_lines look_terminal = {print_line, NULL};

void look_put(const look_lines *to, const char *format, ...) {
    char line[2048];
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(line, sizeof line, format, arguments);
    va_end(arguments);
    to->put(to->context, line);
}
