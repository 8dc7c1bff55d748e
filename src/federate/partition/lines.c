/* See lines.h. */
#include "federate/partition/lines.h"

#include "os/os.h"

#include <string.h>

qn_status qn_lines_read(qn_arena *arena, const char *path, qn_lines *lines) {
    qn_file *file;
    QN_TRY(qn_file_open(arena->allocator, path, &file));
    const size_t bytes = (size_t)qn_file_bytes(file);
    char *text = qn_arena_allocate(arena, bytes + 1, 1);
    const qn_status status = text ? qn_file_read(file, 0, text, bytes) : QN_ERROR_MEMORY;
    qn_file_close(file);
    QN_TRY(status);
    *lines = (qn_lines){text, text + bytes};
    return QN_OK;
}

bool qn_lines_next(qn_lines *lines, const char **line, size_t *bytes) {
    if (lines->at >= lines->end)
        return false;
    const char *stop = memchr(lines->at, '\n', (size_t)(lines->end - lines->at));
    *line = lines->at;
    stop = stop ? stop : lines->end;
    lines->at = stop + 1;
    *bytes = (size_t)(stop - *line);
    *bytes -= *bytes > 0 && (*line)[*bytes - 1] == '\r';
    return true;
}
