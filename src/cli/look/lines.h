/* Where the lines of what was understood go: the terminal, or a page as well. */
#ifndef QN_CLI_LOOK_LINES_H
#define QN_CLI_LOOK_LINES_H

typedef struct look_lines {
    void (*put)(void *context, const char *line);
    void *context;
} look_lines;

/* Standard output. */
extern const look_lines look_terminal;

void look_put(const look_lines *to, const char *format, ...) __attribute__((format(printf, 2, 3)));

#endif
