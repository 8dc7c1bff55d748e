/* See swap_file.h. A request is split into pieces that the threads take one by one. A thread copies
 * a piece between memory and its own aligned buffer and computes its checksum on the way. All state
 * shared by threads is under one monitor. */
#define _GNU_SOURCE /* O_DIRECT, O_TMPFILE, sync_file_range */

#include "os/files/swap_file.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <linux/magic.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/vfs.h>
#include <unistd.h>

enum { N_THREADS = 4, PIECE_BYTES = 512 * 1024, SUM_LANES = 8 };

/* Why a request failed, besides what errno says. */
enum { ENDED_EARLY = -1, WRONG_SUM = -2 };

/* Invariant: n_done <= n_taken <= n_pieces; at rest n_done = n_pieces. */
typedef struct request {
    char *memory;
    size_t bytes;
    int64_t offset;
    bool is_write;
    int n_pieces, n_taken, n_done;
    uint64_t sum; /* of the pieces done */
    int error;    /* 0: none */
    int next;     /* begun after it, or -1 */
} request;

typedef struct worker {
    struct qn_swap_file *swap;
    qn_thread *thread;
    char *memory; /* where its buffer lies in */
    char *buffer; /* (PIECE_BYTES), at a multiple of QN_SWAP_FILE_BLOCK */
} worker;

/* Invariant: first .. last are linked by next and are the requests with pieces that nobody took. */
struct qn_swap_file {
    const qn_allocator *allocator;
    char *folder; /* (folder_bytes) */
    size_t folder_bytes;
    int descriptor;
    bool is_direct;
    int64_t bytes;
    qn_monitor *monitor;
    worker workers[N_THREADS];
    int n_requests;
    request *requests; /* (n_requests) */
    /* under the monitor */
    int first, last, awaited; /* requests, or -1 */
    int n_under_way;
    bool is_closing, has_failed;
    request failure; /* the first that failed */
};

/* ---- a piece ---- */

/* Position counts: sums and sums of sums, by lane (Fletcher, "An arithmetic checksum for serial
 * transmissions", 1982, with words of 64 bits), then mixed. bytes: a multiple of
 * QN_SWAP_FILE_BLOCK. */
static uint64_t sum_piece(const char *bytes, size_t n_bytes, uint64_t seed) {
    typedef uint64_t lanes __attribute__((vector_size(SUM_LANES * sizeof(uint64_t))));
    lanes sum = {0}, sums = {0};
    for (size_t at = 0; at < n_bytes; at += sizeof(lanes)) {
        sum += *(const lanes *)(bytes + at);
        sums += sum;
    }
    uint64_t mixed = seed;
    for (int lane = 0; lane < SUM_LANES; lane++) {
        mixed = (mixed ^ sum[lane]) * UINT64_C(0x9E3779B97F4A7C15);
        mixed = (mixed ^ (mixed >> 29) ^ sums[lane]) * UINT64_C(0xBF58476D1CE4E5B9);
    }
    return mixed ^ (mixed >> 32);
}

/* All of it, or why not. */
static int write_all(int descriptor, const char *from, size_t bytes, int64_t offset) {
    while (bytes > 0) {
        const ssize_t n = pwrite(descriptor, from, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENDED_EARLY;
        from += n;
        offset += n;
        bytes -= (size_t)n;
    }
    return 0;
}

static int read_all(int descriptor, char *to, size_t bytes, int64_t offset) {
    while (bytes > 0) {
        const ssize_t n = pread(descriptor, to, bytes, (off_t)offset);
        if (n < 0 && errno == EINTR)
            continue;
        if (n <= 0)
            return n < 0 ? errno : ENDED_EARLY;
        to += n;
        offset += n;
        bytes -= (size_t)n;
    }
    return 0;
}

/* Where the cache is not bypassed: what it holds of these bytes goes to the disk and out of memory.
 */
static int empty_cache(const qn_swap_file *s, int64_t offset, size_t bytes, bool is_write) {
    int error = 0;
    if (s->is_direct)
        return 0;
    if (is_write && sync_file_range(s->descriptor, offset, (off_t)bytes,
                                    SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE |
                                        SYNC_FILE_RANGE_WAIT_AFTER) != 0)
        error = fdatasync(s->descriptor) == 0 ? 0 : errno;
    (void)posix_fadvise(s->descriptor, offset, (off_t)bytes, POSIX_FADV_DONTNEED);
    return error;
}

static size_t round_up(size_t bytes) {
    return (bytes + QN_SWAP_FILE_BLOCK - 1) / QN_SWAP_FILE_BLOCK * QN_SWAP_FILE_BLOCK;
}

/* Does a piece of a request through a buffer; *sum is of its bytes. */
static int do_piece(const qn_swap_file *s, const request *r, int piece, char *buffer,
                    uint64_t *sum) {
    const size_t begin = (size_t)piece * PIECE_BYTES;
    const size_t left = r->bytes - begin, bytes = left < PIECE_BYTES ? left : PIECE_BYTES;
    const size_t whole = round_up(bytes);
    const int64_t offset = r->offset + (int64_t)begin;
    int error;
    if (r->is_write) {
        memcpy(buffer, r->memory + begin, bytes);
        memset(buffer + bytes, 0, whole - bytes);
        error = write_all(s->descriptor, buffer, whole, offset);
    } else {
        error = read_all(s->descriptor, buffer, whole, offset);
        if (error == 0)
            memcpy(r->memory + begin, buffer, bytes);
    }
    *sum = error ? 0 : sum_piece(buffer, whole, (uint64_t)piece);
    return error ? error : empty_cache(s, offset, whole, r->is_write);
}

/* ---- the line, under the monitor ---- */

/* Takes a request that has no more pieces out of line. */
static void take_out(qn_swap_file *s, int taken) {
    int before = -1;
    for (int i = s->first; i != taken; i = s->requests[i].next)
        before = i;
    if (before < 0)
        s->first = s->requests[taken].next;
    else
        s->requests[before].next = s->requests[taken].next;
    if (s->last == taken)
        s->last = before;
}

/* A request with a piece for this thread, or -1: there is none, and the file closes. */
static int take_piece(qn_swap_file *s, int *piece) {
    while (s->first < 0) {
        if (s->is_closing)
            return -1;
        qn_monitor_wait(s->monitor);
    }
    const bool is_awaited =
        s->awaited >= 0 && s->requests[s->awaited].n_taken < s->requests[s->awaited].n_pieces;
    const int taken = is_awaited ? s->awaited : s->first;
    *piece = s->requests[taken].n_taken++;
    if (s->requests[taken].n_taken == s->requests[taken].n_pieces)
        take_out(s, taken);
    return taken;
}

static void finish_piece(qn_swap_file *s, request *r, int error, uint64_t sum) {
    r->sum += sum;
    r->error = r->error ? r->error : error;
    if (++r->n_done < r->n_pieces)
        return;
    s->n_under_way--;
    qn_monitor_notify(s->monitor);
}

static void work(void *context) {
    const worker *w = context;
    qn_swap_file *s = w->swap;
    int piece, taken;
    qn_monitor_lock(s->monitor);
    while ((taken = take_piece(s, &piece)) >= 0) {
        request *r = &s->requests[taken];
        uint64_t sum;
        qn_monitor_unlock(s->monitor);
        const int error = do_piece(s, r, piece, w->buffer, &sum);
        qn_monitor_lock(s->monitor);
        finish_piece(s, r, error, sum);
    }
    qn_monitor_unlock(s->monitor);
}

/* ---- opening ---- */

/* What grows beyond the limit of file sizes gets a signal that ends the program. */
static qn_status check_limit(const char *folder, int64_t bytes) {
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY ||
        limit.rlim_cur >= (rlim_t)bytes)
        return QN_OK;
    return qn_fail(QN_ERROR_IO,
                   "cannot reserve %" PRId64 " bytes to swap to in %s: files may have %" PRIu64
                   " (ulimit -f); raise the limit, or swap less",
                   bytes, folder, (uint64_t)limit.rlim_cur);
}

static qn_status check_folder(const char *folder) {
    struct statfs status;
    if (statfs(folder, &status) != 0)
        return qn_fail(QN_ERROR_IO, "cannot swap to %s: %s", folder, strerror(errno));
    const unsigned long type = (unsigned long)status.f_type;
    if (type == TMPFS_MAGIC || type == RAMFS_MAGIC || type == HUGETLBFS_MAGIC)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "cannot swap to %s: its files are kept in memory; name a folder on a disk",
                       folder);
    return QN_OK;
}

/* A file that has no name any more. */
static qn_status open_nameless(qn_swap_file *s) {
    char *path;
    s->descriptor = open(s->folder, O_TMPFILE | O_RDWR | O_EXCL | O_CLOEXEC, 0600);
    if (s->descriptor >= 0)
        return QN_OK;
    if (errno != EOPNOTSUPP && errno != EISDIR)
        return qn_fail(QN_ERROR_IO, "cannot swap to %s: %s", s->folder, strerror(errno));
    QN_TRY(qn_allocate(s->allocator, 1, s->folder_bytes + 64, &path));
    snprintf(path, s->folder_bytes + 64, "%s/quern-swap-%ld-%lld", s->folder, (long)getpid(),
             (long long)qn_clock_ns());
    s->descriptor = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    qn_status status = QN_OK;
    if (s->descriptor < 0 || unlink(path) != 0)
        status = qn_fail(QN_ERROR_IO, "cannot swap to %s: %s", path, strerror(errno));
    qn_release(s->allocator, path, 1, s->folder_bytes + 64);
    return status;
}

static qn_status reserve(const qn_swap_file *s) {
    int error;
    do
        error = s->bytes > 0 ? posix_fallocate(s->descriptor, 0, (off_t)s->bytes) : 0;
    while (error == EINTR);
    if (error == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_IO,
                   "cannot reserve %" PRId64
                   " bytes to swap to in %s: %s; free some space, or name "
                   "a folder on another disk",
                   s->bytes, s->folder, strerror(error));
}

/* Bypasses the cache if a block can be written and read so. */
static qn_status set_direct(qn_swap_file *s) {
    char *buffer = s->workers[0].buffer;
    const int flags = fcntl(s->descriptor, F_GETFL);
    if (s->bytes < QN_SWAP_FILE_BLOCK)
        return QN_OK;
    s->is_direct = fcntl(s->descriptor, F_SETFL, flags | O_DIRECT) == 0;
    int error = write_all(s->descriptor, buffer, QN_SWAP_FILE_BLOCK, 0);
    error = error ? error : read_all(s->descriptor, buffer, QN_SWAP_FILE_BLOCK, 0);
    if (error == EINVAL && s->is_direct) {
        s->is_direct = false;
        error = fcntl(s->descriptor, F_SETFL, flags) == 0 ? 0 : errno;
        (void)posix_fadvise(s->descriptor, 0, 0, POSIX_FADV_RANDOM);
    }
    return error == 0 ? QN_OK
                      : qn_fail(QN_ERROR_IO, "cannot write to the swap file in %s: %s", s->folder,
                                error > 0 ? strerror(error) : "it ended early");
}

/* Threads and monitors are a few hundred bytes. */
size_t qn_swap_file_memory(const char *folder, int n_requests) {
    return sizeof(qn_swap_file) + N_THREADS * (PIECE_BYTES + QN_SWAP_FILE_BLOCK) +
           (size_t)n_requests * sizeof(request) + strlen(folder) + 1024;
}

static qn_status allocate_all(qn_swap_file *s, const char *folder) {
    const size_t buffer_bytes = PIECE_BYTES + QN_SWAP_FILE_BLOCK;
    s->folder_bytes = strlen(folder) + 1;
    QN_TRY(qn_allocate(s->allocator, 1, s->folder_bytes, &s->folder));
    memcpy(s->folder, folder, s->folder_bytes);
    QN_TRY(qn_monitor_create(s->allocator, &s->monitor));
    QN_TRY(qn_allocate(s->allocator, (size_t)s->n_requests, sizeof *s->requests, &s->requests));
    for (int i = 0; i < N_THREADS; i++) {
        worker *w = &s->workers[i];
        QN_TRY(qn_allocate(s->allocator, 1, buffer_bytes, &w->memory));
        w->buffer = w->memory + (0 - (uintptr_t)w->memory) % QN_SWAP_FILE_BLOCK;
    }
    return QN_OK;
}

static qn_status make(qn_swap_file *s, const char *folder) {
    QN_TRY(allocate_all(s, folder));
    QN_TRY(check_folder(folder));
    QN_TRY(check_limit(folder, s->bytes));
    QN_TRY(open_nameless(s));
    QN_TRY(reserve(s));
    QN_TRY(set_direct(s));
    for (int i = 0; i < N_THREADS; i++) {
        worker *w = &s->workers[i];
        w->swap = s;
        QN_TRY(qn_thread_start(s->allocator, work, w, &w->thread));
    }
    return QN_OK;
}

qn_status qn_swap_file_open(const qn_allocator *allocator, const char *folder, int64_t bytes,
                            int n_requests, qn_swap_file **swap) {
    qn_swap_file *s;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *s, &s));
    *s = (qn_swap_file){.allocator = allocator,
                        .descriptor = -1,
                        .bytes = bytes,
                        .n_requests = n_requests,
                        .first = -1,
                        .last = -1,
                        .awaited = -1};
    const qn_status status = make(s, folder);
    if (status != QN_OK) {
        qn_swap_file_close(s);
        return status;
    }
    *swap = s;
    return QN_OK;
}

void qn_swap_file_close(qn_swap_file *s) {
    if (!s)
        return;
    if (s->monitor) {
        qn_monitor_lock(s->monitor);
        s->is_closing = true;
        qn_monitor_notify(s->monitor);
        qn_monitor_unlock(s->monitor);
    }
    for (int i = 0; i < N_THREADS; i++) {
        qn_thread_join(s->workers[i].thread);
        qn_release(s->allocator, s->workers[i].memory, 1, PIECE_BYTES + QN_SWAP_FILE_BLOCK);
    }
    if (s->descriptor >= 0)
        close(s->descriptor);
    qn_monitor_destroy(s->monitor);
    qn_release(s->allocator, s->requests, (size_t)s->n_requests, sizeof *s->requests);
    qn_release(s->allocator, s->folder, 1, s->folder_bytes);
    qn_release(s->allocator, s, 1, sizeof *s);
}

const char *qn_swap_file_folder(const qn_swap_file *swap) {
    return swap->folder;
}

int64_t qn_swap_file_bytes(const qn_swap_file *swap) {
    return swap->bytes;
}

bool qn_swap_file_is_direct(const qn_swap_file *swap) {
    return swap->is_direct;
}

/* ---- requests ---- */

static void begin(qn_swap_file *s, int id, request begun) {
    begun.n_pieces = (int)((begun.bytes + PIECE_BYTES - 1) / PIECE_BYTES);
    begun.next = -1;
    qn_monitor_lock(s->monitor);
    s->requests[id] = begun;
    if (begun.n_pieces > 0) {
        if (s->first < 0)
            s->first = id;
        else
            s->requests[s->last].next = id;
        s->last = id;
        s->n_under_way++;
        qn_monitor_notify(s->monitor);
    }
    qn_monitor_unlock(s->monitor);
}

void qn_swap_file_begin_write(qn_swap_file *s, int id, int64_t offset, const void *from,
                              size_t bytes) {
    begin(
        s, id,
        (request){
            .memory = (char *)(uintptr_t)from, .bytes = bytes, .offset = offset, .is_write = true});
}

void qn_swap_file_begin_read(qn_swap_file *s, int id, int64_t offset, void *to, size_t bytes) {
    begin(s, id, (request){.memory = to, .bytes = bytes, .offset = offset});
}

/* sum: what it must have; null: what it has is right. */
static uint64_t end(qn_swap_file *s, int id, const uint64_t *sum) {
    request *r = &s->requests[id];
    qn_monitor_lock(s->monitor);
    if (s->awaited < 0 || s->requests[s->awaited].is_write)
        s->awaited = id;
    while (r->n_done < r->n_pieces)
        qn_monitor_wait(s->monitor);
    s->awaited = s->awaited == id ? -1 : s->awaited;
    if (!r->error && sum && *sum != r->sum)
        r->error = WRONG_SUM;
    if (r->error && !s->has_failed) {
        s->has_failed = true;
        s->failure = *r;
    }
    qn_monitor_unlock(s->monitor);
    return r->sum;
}

uint64_t qn_swap_file_end_write(qn_swap_file *s, int id) {
    return end(s, id, NULL);
}

void qn_swap_file_end_read(qn_swap_file *s, int id, uint64_t sum) {
    end(s, id, &sum);
}

bool qn_swap_file_has_failed(qn_swap_file *s) {
    qn_monitor_lock(s->monitor);
    const bool has_failed = s->has_failed;
    qn_monitor_unlock(s->monitor);
    return has_failed;
}

qn_status qn_swap_file_settle(qn_swap_file *s) {
    qn_monitor_lock(s->monitor);
    while (s->n_under_way > 0)
        qn_monitor_wait(s->monitor);
    const bool has_failed = s->has_failed;
    const request r = s->failure;
    s->has_failed = false;
    qn_monitor_unlock(s->monitor);
    if (!has_failed)
        return QN_OK;
    return qn_fail(QN_ERROR_IO, "cannot %s %zu bytes at %" PRId64 " of the swap file in %s: %s",
                   r.is_write ? "write" : "read back", r.bytes, r.offset, s->folder,
                   r.error == ENDED_EARLY ? "it ended early"
                   : r.error == WRONG_SUM ? "they are not what was written; the disk is not sound"
                                          : strerror(r.error));
}
