/* Ctrl-C and SIGTERM: the first asks the command to stop in good order, the second ends it. */
#ifndef QN_CLI_INTERRUPT_H
#define QN_CLI_INTERRUPT_H

#include <stdbool.h>

/* From now on signals are noted; was_interrupted says whether one came. */
void interrupt_watch(void);
bool was_interrupted(void);

#endif
