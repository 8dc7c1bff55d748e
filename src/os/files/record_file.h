/* A file whose pieces are written again and again at any offset while the program runs, and may
 * outlast it. What was written is lasting after a sync, not before; what was never written reads as
 * zeros and takes no room on the disk. One process at a time has it open. */
#ifndef QN_OS_FILES_RECORD_FILE_H
#define QN_OS_FILES_RECORD_FILE_H

#include "quern/base.h"

typedef struct qn_record_file qn_record_file;

/* Opens a file, or makes it where there is none; without a path, one without a name that ends with
 * the program. QN_ERROR_IO: the system's reason, or another process has it open. */
qn_status qn_record_file_open(const qn_allocator *allocator, const char *path,
                              qn_record_file **file);
void qn_record_file_close(qn_record_file *file);

qn_status qn_record_file_read(const qn_record_file *file, int64_t offset, void *data, size_t bytes);
qn_status qn_record_file_write(const qn_record_file *file, int64_t offset, const void *data,
                               size_t bytes);

/* Empties it. */
qn_status qn_record_file_clear(const qn_record_file *file);

/* All that was written is lasting when this returns. */
qn_status qn_record_file_sync(const qn_record_file *file);

#endif
