/* Files that are used while they grow: input that is read as it arrives, and output that is resumed
 * where it stopped. Output that has been synced survives a power cut; of later output any prefix
 * may survive a kill. Files that must be complete or absent are written by qn_file_replace instead.
 */
#ifndef QN_OS_FILES_STREAM_H
#define QN_OS_FILES_STREAM_H

#include "os/os.h"

typedef struct qn_in_stream qn_in_stream;

/* Opens a file or pipe from its beginning; null: standard input. */
qn_status qn_in_stream_open(const qn_allocator *allocator, const char *path, qn_in_stream **stream);
void qn_in_stream_close(qn_in_stream *stream);

/* Takes what there is, at most so many bytes, and waits for the first of them: a fifth of a second,
 * or until a signal comes that this program handles. *n is 0 then, and at the end of a file
 * (*is_end): one that grows may be read on. */
qn_status qn_in_stream_read(qn_in_stream *stream, void *to, size_t bytes, size_t *n, bool *is_end);

/* Waits a moment (50 ms, less where a signal comes), until a file that has ended may have grown. */
void qn_in_stream_pause(void);

typedef struct qn_out_stream qn_out_stream;

/* Opens a file for what comes behind its first `kept` bytes; with none it is made, or emptied if it
 * is there. A file that has fewer is QN_ERROR_ARGUMENT. Null: standard output. */
qn_status qn_out_stream_open(const qn_allocator *allocator, const char *path, int64_t kept,
                             qn_out_stream **stream);
qn_status qn_out_stream_put(qn_out_stream *stream, const void *data, size_t bytes);

/* Gives what was put to the system; sync makes it lasting, where it is a file. */
qn_status qn_out_stream_flush(qn_out_stream *stream);
qn_status qn_out_stream_sync(qn_out_stream *stream);

/* Flushes and closes; null is fine. */
qn_status qn_out_stream_close(qn_out_stream *stream);

#endif
