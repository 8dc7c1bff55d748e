/* The version, which CMakeLists.txt takes from the header. */
#include "quern/base.h"

const char *qn_version(void) {
    return QN_VERSION_TEXT;
}
