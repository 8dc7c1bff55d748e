/* The calling thread's last failure. Nothing is allocated, so running out of memory can be
 * reported; a text that is too long is truncated. */
#include "base/status.h"

#include "base/print.h"

#include <stdarg.h>
#include <string.h>

static _Thread_local char message[1024];

const char *qn_error_message(void) {
    return message;
}

const char *qn_status_text(qn_status status) {
    switch (status) {
    case QN_OK:
        return "success";
    case QN_ERROR_ARGUMENT:
        return "bad argument";
    case QN_ERROR_MEMORY:
        return "out of memory";
    case QN_ERROR_IO:
        return "input or output error";
    case QN_ERROR_FORMAT:
        return "malformed file";
    case QN_ERROR_NUMERIC:
        return "not a finite number";
    case QN_ERROR_UNSUPPORTED:
        return "not supported";
    case QN_ERROR_INTERRUPTED:
        return "interrupted";
    case QN_ERROR_DEVICE:
        return "a device was lost";
    }
    return "unknown status";
}

qn_status qn_fail(qn_status status, const char *format, ...) {
    /* Through a copy: the arguments may point into the message itself. */
    char text[sizeof message];
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(text, sizeof text, format, arguments);
    va_end(arguments);
    memcpy(message, text, sizeof message);
    return status;
}

qn_status qn_fail_within(qn_status status, const char *format, ...) {
    char place[sizeof message];
    va_list arguments;
    va_start(arguments, format);
    qn_print_list(place, sizeof place, format, arguments);
    va_end(arguments);
    return qn_fail(status, "%s: %s", place, message);
}

void qn_fail_null(const char *function, const char *name) {
    qn_fail(QN_ERROR_ARGUMENT, "%s: %s is null", function, name);
}

qn_status qn_fail_memory(size_t bytes) {
    return qn_fail(QN_ERROR_MEMORY,
                   "cannot allocate %zu bytes; use a smaller batch, input or model", bytes);
}
