/* See terminal.h. */
#include "os/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

bool qn_terminal_is_output(void) {
    return isatty(STDOUT_FILENO);
}

bool qn_terminal_is_error(void) {
    return isatty(STDERR_FILENO);
}

int qn_terminal_columns(void) {
    struct winsize size;
    return ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool qn_terminal_moves(void) {
    const char *kind = getenv("TERM");
    return qn_terminal_is_error() && kind && *kind && strcmp(kind, "dumb") != 0;
}
