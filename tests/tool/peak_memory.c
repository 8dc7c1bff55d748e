/* Runs a program and says on standard error how many bytes of it were resident at most. It is this
 * small so that its own pages, which the system counts too until the program is there, are few. */
#define _GNU_SOURCE
#include <stdio.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv) {
    struct rusage use;
    int status = 0;
    const pid_t child = argc > 1 ? vfork() : -1;
    if (child == 0) {
        execv(argv[1], argv + 1);
        _exit(127);
    }
    if (child < 0 || wait4(child, &status, 0, &use) != child)
        return 126;
    fprintf(stderr, "%lld\n", (long long)use.ru_maxrss * 1024);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 125;
}
