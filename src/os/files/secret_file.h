/* Small files that their owner alone may read, such as keys. */
#ifndef QN_OS_FILES_SECRET_FILE_H
#define QN_OS_FILES_SECRET_FILE_H

#include "quern/base.h"

/* Makes a file of mode 0600, lasting when this returns. One that exists is never replaced. */
qn_status qn_secret_file_create(const char *path, const void *data, size_t bytes);

/* Reads a file of at most `room` - 1 bytes and ends it with a 0. QN_ERROR_ARGUMENT: it is longer,
 * no regular file, or other users of the machine can read it. */
qn_status qn_secret_file_read(const char *path, char *text, size_t room);

#endif
