/* The lines of a small text file. */
#ifndef QN_FEDERATE_LINES_H
#define QN_FEDERATE_LINES_H

#include "base/memory.h"
#include "base/status.h"

/* What is left of the text: from at up to end. A copy begins where the original stands. */
typedef struct qn_lines {
    const char *at, *end;
} qn_lines;

/* All of a file, in the arena. */
qn_status qn_lines_read(qn_arena *arena, const char *path, qn_lines *lines);

/* The next line without its end, which may be LF or CR LF; false: there is none. */
bool qn_lines_next(qn_lines *lines, const char **line, size_t *bytes);

#endif
