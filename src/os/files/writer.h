/* Buffered output to a descriptor, so that small pieces need no system call each. Every file that
 * the program writes goes through it. */
#ifndef QN_OS_FILES_WRITER_H
#define QN_OS_FILES_WRITER_H

#include "os/os.h"

enum { QN_WRITER_BYTES = 32 * 1024 };

struct qn_writer {
    const char *path; /* for messages */
    int descriptor;
    size_t used; /* <= QN_WRITER_BYTES */
    char buffer[QN_WRITER_BYTES];
};

/* Gives what was collected to the descriptor. */
qn_status qn_writer_flush(qn_writer *writer);

/* Flushes and makes the bytes lasting. */
qn_status qn_writer_sync(qn_writer *writer);

/* Makes the entry of an open file in its folder lasting. A folder that may not be read cannot be
 * synced; its file system can. */
qn_status qn_entry_sync(const char *path, int file);

/* All bytes to a descriptor; path is for messages. */
qn_status qn_descriptor_write(int descriptor, const char *path, const void *from, size_t bytes);

/* fsync, past interruptions. Some file systems know no such thing for what is asked, and say so:
 * that is no failure. */
bool qn_descriptor_sync(int descriptor);

/* Opens a file without a name, for reading and writing: in a folder for what need not last, else in
 * memory. -1: errno says why. */
int qn_descriptor_nameless(void);

#endif
