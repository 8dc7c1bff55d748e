/* libc's stderr for the archives that a wheel's library has inside (cmake/python.cmake). */
#include <stdio.h>

FILE *qn_archive_stderr;

__attribute__((constructor)) static void set_archive_stderr(void) {
    qn_archive_stderr = stderr;
}
