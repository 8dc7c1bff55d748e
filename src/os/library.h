/* Libraries opened at run time because not every machine has them. */
#ifndef QN_OS_LIBRARY_H
#define QN_OS_LIBRARY_H

#include "quern/base.h"

typedef struct qn_library qn_library;

/* Opens a shared library by its name ("libnvidia-ml.so.1"); one that is not there, or cannot be
 * loaded, is QN_ERROR_UNSUPPORTED. */
qn_status qn_library_open(const char *name, qn_library **library);
void qn_library_close(qn_library *library);

/* Copies the address of a function to *function (a pointer to a function); false: there is none. */
bool qn_library_find(qn_library *library, const char *name, void *function);

#endif
