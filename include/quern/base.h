/* What all parts of the interface use: status and error text, element types, allocator and log
 * callback. The library never prints, never exits, and keeps no global state except the text of the
 * calling thread's last error.
 *
 * Invalid calls (null where a value is required, an index out of range, a senseless count) return
 * QN_ERROR_ARGUMENT. Functions that return no status return null, 0 or an empty value, and set the
 * message. destroy and close accept null.
 *
 * Threads: an object serves one call at a time, from any thread; different objects can be used
 * in parallel. Functions that may be called during another call say so (qn_engine_set_budget).
 * After fork, the child must not use engines, trainers, tasks, predictors and loaders of the
 * parent, whose threads it lacks: such calls are refused there. It may destroy them and create
 * new ones. */
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

/* Result of every function that can fail. A failure changes nothing that the caller can see;
 * qn_error_message() says what went wrong, where, and what to do. */
typedef enum qn_status {
    QN_OK = 0,
    QN_ERROR_ARGUMENT,    /* a value that the caller gave is not acceptable */
    QN_ERROR_MEMORY,      /* an allocation failed */
    QN_ERROR_IO,          /* the operating system refused a file operation */
    QN_ERROR_FORMAT,      /* a file is malformed */
    QN_ERROR_NUMERIC,     /* a loss or a weight is not finite */
    QN_ERROR_UNSUPPORTED, /* valid, but not supported by this build */
    QN_ERROR_INTERRUPTED, /* a callback asked to stop */
    QN_ERROR_DEVICE,      /* a device was lost in the middle of its work */
} qn_status;

/* Text of the last failure on the calling thread; "" when there was none. Valid until the next
 * failure on this thread. */
QN_API const char *qn_error_message(void);

/* A short name of a status, such as "out of memory". */
QN_API const char *qn_status_text(qn_status status);

/* Element types. Classes and token numbers are QN_I32, raw pixels QN_U8. */
typedef enum qn_dtype {
    QN_NONE = 0,
    QN_F32,
    QN_F64,
    QN_I32,
    QN_U8,
    QN_U16,
    QN_I8,
    QN_I16,
    QN_F16,    /* IEEE 754 binary16 */
    QN_BF16,   /* the upper half of a QN_F32 */
    QN_F8E4M3, /* OCP 8-bit floating point, without infinities */
    QN_F8E5M2, /* OCP 8-bit floating point, with infinities */
    QN_I64,    /* only inside of imported networks */
} qn_dtype;

/* Option structs begin with their size, so that programs compiled against an older or newer header
 * keep working: fields missing from a shorter struct are 0, the default; extra fields of a longer
 * one must be 0. Initialise a struct with
 *
 *     qn_loader_options options = {QN_OPTIONS_INIT(qn_loader_options), .batch = 8};
 *
 * or with the function that fills it (qn_trainer_options_for). A size that no version of the
 * header has is QN_ERROR_ARGUMENT. */
#ifdef __cplusplus /* the size is the first field, and C++17 does not name fields */
#define QN_OPTIONS_INIT(type) sizeof(type)
#else
#define QN_OPTIONS_INIT(type) .size = sizeof(type)
#endif

/* Source of memory. allocate returns null on failure; align is a power of two. release receives
 * the byte count of the allocation. Called by one thread at a time per object that uses the
 * allocator; a loader calls it only while it is created. */
typedef struct qn_allocator {
    void *user;
    void *(*allocate)(void *user, size_t bytes, size_t align);
    void (*release)(void *user, void *memory, size_t bytes);
} qn_allocator;

/* Receives messages that are not errors (level 0: notice, 1: warning), and the progress of slow
 * work before training begins. */
typedef struct qn_log {
    void *user;
    void (*write)(void *user, int level, const char *text);
    void (*progress)(void *user, const char *what, int64_t n_done, int64_t n); /* may be null */
} qn_log;

/* The version of this header. The library's, which may be another where it is shared, is
 * qn_version(). */
#define QN_VERSION_MAJOR 0
#define QN_VERSION_MINOR 1
#define QN_VERSION_PATCH 0
#define QN_VERSION_TEXT  "0.1.0"

/* Version of the library as "1.2.3". */
QN_API const char *qn_version(void);

#ifdef __cplusplus
}
#endif
#endif
