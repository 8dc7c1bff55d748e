/* The terminal behind standard error, if there is one. */
#ifndef QN_OS_TERMINAL_H
#define QN_OS_TERMINAL_H

#include <stdbool.h>

/* Whether standard output, or standard error, is a terminal. */
bool qn_terminal_is_output(void);
bool qn_terminal_is_error(void);

/* Its columns; 0: unknown. */
int qn_terminal_columns(void);

/* Whether it understands movements of the cursor: $TERM names a kind, and not "dumb". */
bool qn_terminal_moves(void);

#endif
