/* See library.h. A qn_library is dlopen's handle. */
#include "os/library.h"

#include "base/status.h"

#include <dlfcn.h>
#include <string.h>

qn_status qn_library_open(const char *name, qn_library **library) {
    void *handle = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    if (!handle)
        return qn_fail(QN_ERROR_UNSUPPORTED, "cannot load %s: %s", name, dlerror());
    *library = handle;
    return QN_OK;
}

void qn_library_close(qn_library *library) {
    if (library)
        dlclose(library);
}

bool qn_library_find(qn_library *library, const char *name, void *function) {
    void *address = dlsym(library, name);
    memcpy(function, &address, sizeof address);
    return address != NULL;
}
