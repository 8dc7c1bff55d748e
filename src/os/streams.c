/* What a program must do before it opens files; see os.h. */
#include "os/os.h"

#include "base/status.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>

void qn_process_begin(void) {
    for (int i = STDIN_FILENO; i <= STDERR_FILENO; i++) {
        /* The lowest number that is free is this one. Kept by programs that are started. */
        if (fcntl(i, F_GETFD) < 0 && errno == EBADF && open("/dev/null", O_RDWR) < 0)
            return;
    }
    signal(SIGXFSZ, SIG_IGN);
}

qn_status qn_output_discard(void) {
    return freopen("/dev/null", "w", stdout)
               ? QN_OK
               : qn_fail(QN_ERROR_IO, "cannot open /dev/null: there is no place for output");
}
