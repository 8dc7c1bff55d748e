/* Files as memory; see os.h. Reading a page that a file no longer has, or that its disk does not
 * give, raises SIGBUS. While files are mapped, a handler of ours puts zeros in the place of what is
 * gone of a mapped file and notes it, and whoever reads the mapping asks qn_file_map_check before
 * the result counts. Faults elsewhere go to the handler that was there before. The table of mapped
 * files is of fixed size and changed by single stores, since the handler may look at any moment;
 * beyond it a file is read instead. */
#define _GNU_SOURCE

#include "base/status.h"
#include "os/files/file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MOST_MAPPED = 256, PATH_BYTES = 256 };

/* begin 0: free. [begin, end) holds whole pages. */
typedef struct mapped {
    atomic_uintptr_t begin, end;
    atomic_bool is_broken;
    int descriptor;          /* of the file */
    int64_t bytes;           /* that it had */
    struct timespec written; /* last, before it was mapped */
    char path[PATH_BYTES];   /* for messages */
} mapped;

static mapped table[MOST_MAPPED];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static atomic_int n_mapped; /* by lock, as are the next two */
static struct sigaction before;
static uintptr_t page_bytes;

/* ---- faults ---- */

static mapped *find(uintptr_t at) {
    for (int i = 0; i < MOST_MAPPED; i++) {
        const uintptr_t begin = atomic_load(&table[i].begin);
        if (begin && at >= begin && at < atomic_load(&table[i].end))
            return &table[i];
    }
    return NULL;
}

/* A signal that somebody sent, and that nobody takes, ends the process as it would have; a fault
 * comes again with its instruction. */
static void pass_on(int number, siginfo_t *info, void *context) {
    const bool is_sent = info->si_code <= 0;
    if (before.sa_flags & SA_SIGINFO)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    else if (!is_sent || before.sa_handler == SIG_DFL) {
        signal(number, SIG_DFL);
        if (is_sent)
            raise(number);
    }
}

static void on_fault(int number, siginfo_t *info, void *context) {
    const int error = errno;
    const uintptr_t at = (uintptr_t)info->si_addr;
    mapped *m = info->si_code > 0 ? find(at) : NULL;
    const uintptr_t gone = at / page_bytes * page_bytes;
    if (m && mmap((void *)gone, atomic_load(&m->end) - gone, PROT_READ,
                  MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) != MAP_FAILED)
        atomic_store(&m->is_broken, true);
    else
        pass_on(number, info, context);
    errno = error;
}

/* Whoever has set a handler after ours gets what is not ours, too. */
static void take_faults(void) {
    struct sigaction now, ours = {.sa_sigaction = on_fault, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    page_bytes = (uintptr_t)sysconf(_SC_PAGESIZE);
    if (sigaction(SIGBUS, NULL, &now) != 0 ||
        ((now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault))
        return;
    before = now;
    sigaction(SIGBUS, &ours, NULL);
}

static void leave_faults(void) {
    struct sigaction now;
    if (sigaction(SIGBUS, NULL, &now) == 0 && (now.sa_flags & SA_SIGINFO) &&
        now.sa_sigaction == on_fault)
        sigaction(SIGBUS, &before, NULL);
}

/* ---- mappings ---- */

static uintptr_t whole_pages(size_t bytes) {
    return (bytes + page_bytes - 1) / page_bytes * page_bytes;
}

/* False: the table is full, or the process has too many open files. */
static bool note(const void *memory, const qn_file *file) {
    const int descriptor = fcntl(qn_file_descriptor(file), F_DUPFD_CLOEXEC, 3);
    mapped *m = NULL;
    struct stat now;
    if (descriptor < 0)
        return false;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < MOST_MAPPED && !m; i++)
        m = atomic_load(&table[i].begin) ? NULL : &table[i];
    if (m) {
        take_faults();
        atomic_fetch_add(&n_mapped, 1);
        m->descriptor = descriptor;
        m->bytes = qn_file_bytes(file);
        m->written = fstat(descriptor, &now) == 0 ? now.st_mtim : (struct timespec){0};
        snprintf(m->path, sizeof m->path, "%s", qn_file_path(file));
        atomic_store(&m->is_broken, false);
        atomic_store(&m->end, (uintptr_t)memory + whole_pages((size_t)m->bytes));
        atomic_store(&m->begin, (uintptr_t)memory);
    }
    pthread_mutex_unlock(&lock);
    if (!m)
        close(descriptor);
    return m != NULL;
}

static void forget(const void *memory) {
    pthread_mutex_lock(&lock);
    mapped *m = find((uintptr_t)memory);
    if (m) {
        close(m->descriptor);
        atomic_store(&m->begin, 0);
        if (atomic_fetch_sub(&n_mapped, 1) == 1)
            leave_faults();
    }
    pthread_mutex_unlock(&lock);
}

/* The same memory, read. */
static qn_status read_instead(const qn_file *file, const void **memory) {
    const size_t bytes = (size_t)qn_file_bytes(file);
    void *read = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (read == MAP_FAILED)
        return qn_fail(QN_ERROR_MEMORY, "the system has no %zu bytes: %s", bytes, strerror(errno));
    const qn_status status = qn_file_read(file, 0, read, bytes);
    if (status != QN_OK)
        munmap(read, bytes);
    else
        *memory = read;
    return status;
}

qn_status qn_file_map(const qn_file *file, const void **memory) {
    const int64_t bytes = qn_file_bytes(file);
    *memory = NULL;
    if (bytes == 0)
        return QN_OK;
    if ((uint64_t)bytes > SIZE_MAX)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s is larger than this machine can address",
                       qn_file_path(file));
    void *made = mmap(NULL, (size_t)bytes, PROT_READ, MAP_PRIVATE, qn_file_descriptor(file), 0);
    if (made == MAP_FAILED && (errno == ENODEV || errno == ENOSYS || errno == EOPNOTSUPP))
        return read_instead(file, memory); /* a file system without mappings */
    if (made == MAP_FAILED)
        return qn_fail(QN_ERROR_IO, "cannot map %s: %s", qn_file_path(file), strerror(errno));
    if (note(made, file)) {
        *memory = made;
        return QN_OK;
    }
    munmap(made, (size_t)bytes);
    return read_instead(file, memory);
}

void qn_file_unmap(const void *memory, size_t bytes) {
    if (!memory)
        return;
    forget(memory);
    munmap((void *)memory, bytes);
}

static mapped *find_mapped(const void *memory) {
    return memory && atomic_load(&n_mapped) > 0 ? find((uintptr_t)memory) : NULL;
}

qn_status qn_file_map_check(const void *memory) {
    const mapped *m = find_mapped(memory);
    struct stat now;
    /* Behind a file's end its last page reads as zeros without a fault. */
    if (!m ||
        (!atomic_load(&m->is_broken) && fstat(m->descriptor, &now) == 0 && now.st_size >= m->bytes))
        return QN_OK;
    return qn_fail(QN_ERROR_IO,
                   "cannot read %s any more: it was cut short, or its disk is gone, while it was "
                   "in use",
                   m->path);
}

qn_status qn_file_map_check_same(const void *memory) {
    const mapped *m = find_mapped(memory);
    struct stat now;
    QN_TRY(qn_file_map_check(memory));
    if (!m || fstat(m->descriptor, &now) != 0 ||
        (now.st_size == m->bytes && now.st_mtim.tv_sec == m->written.tv_sec &&
         now.st_mtim.tv_nsec == m->written.tv_nsec))
        return QN_OK;
    return qn_fail(QN_ERROR_IO,
                   "%s was written to while it was in use: open it again, or write another file",
                   m->path);
}

/* Pages of a mapping are the file's. Memory that was read instead is not in the table, and would
 * become zeros. */
void qn_file_forget(const void *memory) {
    const mapped *m = find_mapped(memory);
    if (!m)
        return;
    const uintptr_t begin = atomic_load(&m->begin), end = atomic_load(&m->end);
    (void)madvise((void *)begin, end - begin, MADV_DONTNEED);
}
