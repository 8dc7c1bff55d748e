/* Linked from the objects of the core floors and no library but libc, libm and threads. */
#include "quern/base.h"

#include <stdio.h>

int main(void) {
    printf("the core of quern %s stands alone\n", qn_version());
    return 0;
}
