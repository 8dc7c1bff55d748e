/* See pages.h. */
#define _GNU_SOURCE
#include "os/pages.h"

#include "base/memory.h"
#include "base/status.h"
#include "os/heap.h"
#include "os/process/cpu_time.h"

#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

static size_t whole_pages(size_t bytes) {
    const size_t page = (size_t)qn_page_bytes();
    return (bytes + page - 1) / page * page;
}

static qn_status check(void *block, size_t bytes, void **memory) {
    if (block == MAP_FAILED)
        return qn_fail(QN_ERROR_MEMORY, "the system has no %zu bytes: %s", bytes, strerror(errno));
    *memory = block;
    return QN_OK;
}

qn_status qn_pages_open(size_t bytes, void **memory) {
    *memory = NULL;
    if (bytes == 0)
        return QN_OK;
    QN_TRY(check(
        mmap(NULL, whole_pages(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
        bytes, memory));
    qn_prefer_huge_pages(*memory, bytes);
    return QN_OK;
}

void qn_pages_close(void *memory, size_t bytes) {
    if (memory)
        munmap(memory, whole_pages(bytes));
}

qn_status qn_pages_resize(void **memory, size_t bytes, size_t new_bytes) {
    const size_t old = whole_pages(bytes), new = whole_pages(new_bytes);
    if (old == new)
        return QN_OK;
    if (!*memory)
        return qn_pages_open(new_bytes, memory);
    if (new_bytes == 0) {
        qn_pages_close(*memory, bytes);
        *memory = NULL;
        return QN_OK;
    }
    return check(mremap(*memory, old, new, MREMAP_MAYMOVE), new_bytes, memory);
}

/* ---- twins ---- */

static char *map_file(int file, size_t bytes, int protection) {
    void *memory = mmap(NULL, bytes, protection, MAP_SHARED, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

qn_status qn_twin_pages_open(size_t bytes, qn_twin_pages *pages) {
    *pages = (qn_twin_pages){.bytes = whole_pages(bytes)};
    if (bytes == 0)
        return QN_OK;
    const int file = memfd_create("quern", MFD_CLOEXEC);
    if (file >= 0 && ftruncate(file, (off_t)pages->bytes) == 0) {
        pages->open = map_file(file, pages->bytes, PROT_READ | PROT_WRITE);
        pages->guarded = map_file(file, pages->bytes, PROT_NONE);
    }
    const int error = errno;
    if (file >= 0)
        close(file);
    if (pages->open && pages->guarded)
        return QN_OK;
    qn_twin_pages_close(pages);
    return qn_fail(QN_ERROR_MEMORY, "the system has no %zu bytes: %s", bytes, strerror(error));
}

void qn_twin_pages_close(qn_twin_pages *pages) {
    if (pages->open)
        munmap(pages->open, pages->bytes);
    if (pages->guarded)
        munmap(pages->guarded, pages->bytes);
    *pages = (qn_twin_pages){0};
}

qn_status qn_twin_pages_show(const qn_twin_pages *pages, size_t offset, size_t bytes, bool shown) {
    const size_t page = (size_t)qn_page_bytes(), first = offset / page * page;
    if (bytes == 0)
        return QN_OK;
    if (mprotect(pages->guarded + first, offset + bytes - first,
                 shown ? PROT_READ | PROT_WRITE : PROT_NONE) == 0)
        return QN_OK;
    return qn_fail(QN_ERROR_MEMORY, "cannot protect %zu bytes: %s", bytes, strerror(errno));
}

/* ---- shared ---- */

qn_status qn_shared_pages_open(size_t bytes, qn_shared_pages *pages) {
    *pages =
        (qn_shared_pages){.bytes = whole_pages(bytes), .file = memfd_create("quern", MFD_CLOEXEC)};
    if (pages->file >= 0 && ftruncate(pages->file, (off_t)pages->bytes) == 0)
        pages->memory = map_file(pages->file, pages->bytes, PROT_READ | PROT_WRITE);
    const int error = errno;
    if (pages->memory)
        return QN_OK;
    qn_shared_pages_close(pages);
    return qn_fail(QN_ERROR_MEMORY, "the system has no %zu bytes to share: %s", bytes,
                   strerror(error));
}

void qn_shared_pages_close(qn_shared_pages *pages) {
    if (pages->memory)
        munmap(pages->memory, pages->bytes);
    if (pages->file >= 0 && pages->bytes > 0)
        close(pages->file);
    *pages = (qn_shared_pages){0};
}

void qn_shared_pages_give_back(const qn_shared_pages *pages, size_t offset, size_t bytes) {
    const size_t first = whole_pages(offset),
                 end = (offset + bytes) / (size_t)qn_page_bytes() * (size_t)qn_page_bytes();
    if (end > first)
        (void)madvise(pages->memory + first, end - first, MADV_REMOVE);
}
