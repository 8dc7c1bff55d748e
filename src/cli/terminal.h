/* Output that fits the terminal. A progress line (on standard error) is redrawn while something
 * runs. It fits the terminal's current width, so it stays one line when a window becomes narrower.
 * Without a movable cursor (a file, TERM=dumb) there is no progress line. Lines on standard output
 * are wrapped between words, but not in files and pipes. */
#ifndef QN_CLI_TERMINAL_H
#define QN_CLI_TERMINAL_H

#include <stdbool.h>

/* Whether there is a line that moves. */
bool terminal_moves(void);

/* Columns that a line may fill without going over; 79 where the terminal does not say. */
int terminal_columns(void);

/* No line that moves and no note from now on. */
void terminal_be_quiet(void);

/* Replaces the line, cut to the columns; nothing where it cannot move. */
void terminal_show(const char *line);

/* Takes the line away. */
void terminal_clear(void);

/* Prints a line to standard output; the newline is added. On a terminal it is broken between words,
 * and goes on after indent spaces. */
void terminal_print(int indent, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Prints a message to standard error, with "quern: " before it; broken likewise. */
void terminal_note(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* A name of a file or class as it may be printed (qn_text_printable), cut after some hundred
 * bytes. Valid until a few more names were asked for. */
const char *terminal_name(const char *name);

/* Columns for a table on standard output: those of a terminal, else so many. */
int terminal_table_columns(int otherwise);

#endif
