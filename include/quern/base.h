/* What every part of the interface uses: status and error text, element types, the allocator and
 * the log callback. The library never prints, never exits and keeps no global state but the text
 * of the calling thread's last error. */
#ifndef QUERN_BASE_H
#define QUERN_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define QN_API
#else
#define QN_API __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* Result of every function that can fail. On failure nothing that the caller can see has changed
 * and qn_error_message() says what went wrong, where, and what to do about it. */
typedef enum qn_status {
    QN_OK = 0,
    QN_ERROR_ARGUMENT,    /* a value that the caller gave is not acceptable */
    QN_ERROR_MEMORY,      /* an allocation failed */
    QN_ERROR_IO,          /* the operating system refused a file operation */
    QN_ERROR_FORMAT,      /* a file's content is not what its format demands */
    QN_ERROR_NUMERIC,     /* a loss or a weight is no finite number */
    QN_ERROR_UNSUPPORTED, /* right, but not something this build can do */
    QN_ERROR_INTERRUPTED, /* a callback asked to stop */
} qn_status;

/* Text of the last failure on the calling thread; "" when there was none. Valid until the next
 * failure on this thread. */
QN_API const char *qn_error_message(void);

/* A short name of a status, as "out of memory". */
QN_API const char *qn_status_text(qn_status status);

/* Element types. Classes and token numbers are QN_I32, raw pixels QN_U8. */
typedef enum qn_dtype { QN_NONE = 0, QN_F32, QN_F64, QN_I32, QN_U8, QN_U16 } qn_dtype;

/* Where memory comes from. allocate returns null on failure; align is a power of two. release gets
 * the byte count that allocate was asked for. Called from one thread at a time per object that
 * was given the allocator, except the loader, which calls it from its own creation only. */
typedef struct qn_allocator {
    void *user;
    void *(*allocate)(void *user, size_t bytes, size_t align);
    void (*release)(void *user, void *memory, size_t bytes);
} qn_allocator;

/* Where messages go that are no errors (level 0 notice, 1 warning). */
typedef struct qn_log {
    void *user;
    void (*write)(void *user, int level, const char *text);
} qn_log;

/* Version of the library as "1.2.3". */
QN_API const char *qn_version(void);

#ifdef __cplusplus
}
#endif
#endif
