/* The version, which the build takes from CMakeLists.txt. */
#include "quern/base.h"

const char *qn_version(void) {
    return QN_VERSION_TEXT;
}
