/* A file on disk to which memory is written and from which it is read back while the program runs.
 * The file has its own threads for writing and reading; a caller waits for a request when it needs
 * the memory. Disk space is reserved when the file is opened, and the file has no name, so nothing
 * is left however the program ends. Nothing is allocated between open and close.
 *
 * Guarantees: data read equals data written (checked by a checksum over all bytes), or the failure
 * is known before anybody uses the data. Written data does not stay in memory: the system's cache
 * is bypassed (O_DIRECT) or, if the file system cannot do that, emptied after each piece.
 *
 * Threads with pread and pwrite, not io_uring: a few threads keep a disk busy with pieces of this
 * size, need no further library, and work where containers and phones forbid io_uring. */
#ifndef QN_OS_FILES_SWAP_FILE_H
#define QN_OS_FILES_SWAP_FILE_H

#include "quern/base.h"

typedef struct qn_swap_file qn_swap_file;

/* Offsets in the file are multiples of this, and no request shares such a block with another. */
enum { QN_SWAP_FILE_BLOCK = 4096 };

/* A file of so many bytes in a folder, for requests 0 to n_requests - 1. A folder that is memory
 * itself (tmpfs), one that has no room, and one that cannot be written are refused with what to do.
 */
qn_status qn_swap_file_open(const qn_allocator *allocator, const char *folder, int64_t bytes,
                            int n_requests, qn_swap_file **swap);

/* Bytes of memory that such a file takes while it is open. */
size_t qn_swap_file_memory(const char *folder, int n_requests);

/* Waits for what is under way. Null is fine. */
void qn_swap_file_close(qn_swap_file *swap);

const char *qn_swap_file_folder(const qn_swap_file *swap);
int64_t qn_swap_file_bytes(const qn_swap_file *swap);

/* Whether the system's cache is bypassed. */
bool qn_swap_file_is_direct(const qn_swap_file *swap);

/* Begin a request, which is at rest. Until its end the memory is not changed (write) or not looked
 * at (read). Requests are served in the order in which they began, but one that is waited for goes
 * first, a read before a write. A request is begun and ended by one thread, others by others. */
void qn_swap_file_begin_write(qn_swap_file *swap, int request, int64_t offset, const void *from,
                              size_t bytes);
void qn_swap_file_begin_read(qn_swap_file *swap, int request, int64_t offset, void *to,
                             size_t bytes);

/* Wait for a request. The sum that a write gives is what a read of the same bytes expects. */
uint64_t qn_swap_file_end_write(qn_swap_file *swap, int request);
void qn_swap_file_end_read(qn_swap_file *swap, int request, uint64_t sum);

/* Whether a request that has ended did not do what it should. */
bool qn_swap_file_has_failed(qn_swap_file *swap);

/* Waits for all that is under way; the first failure since the last call (QN_ERROR_IO, with folder,
 * place and reason), which is then forgotten. */
qn_status qn_swap_file_settle(qn_swap_file *swap);

#endif
