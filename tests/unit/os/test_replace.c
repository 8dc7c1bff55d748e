/* Replacing files: what links point to is replaced, what is no regular file is refused, rights are
 * kept, and where the system has no files without names, no folders that can be read, or other
 * writers of the same file, the result is all of one file and nothing beside it. */
#define _GNU_SOURCE /* O_TMPFILE */

#include "check.h"
#include "os/os.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdarg.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

enum { CANNOT_BECOME_NOBODY = 77 }; /* exit status of a child */

static char root[] = "/tmp/quern-test-replace-XXXXXX";

/* A file system without files that have no name: vfat, NFS. */
static bool has_no_nameless;

int open(const char *path, int flags, ...) {
    va_list more;
    va_start(more, flags);
    const int mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, int) : 0;
    va_end(more);
    if (has_no_nameless && (flags & O_TMPFILE) == O_TMPFILE) {
        errno = EOPNOTSUPP;
        return -1;
    }
    return (int)syscall(SYS_openat, AT_FDCWD, path, flags, mode);
}

/* ---- paths and contents ---- */

enum { PATHS = 8 };

static const char *in_root(const char *name) {
    static char paths[PATHS][PATH_MAX];
    static int next;
    char *path = paths[next++ % PATHS];
    snprintf(path, PATH_MAX, "%s/%s", root, name);
    return path;
}

static qn_status put_text(void *context, qn_writer *writer) {
    return qn_writer_put(writer, context, strlen(context));
}

static qn_status replace(const char *path, const char *text) {
    return qn_file_replace(path, put_text, (void *)(uintptr_t)text);
}

static bool holds(const char *path, const char *text) {
    char *read = NULL;
    size_t bytes;
    if (qn_file_read_whole(NULL, path, &read, &bytes) != QN_OK)
        return false;
    const bool is_equal = strcmp(read, text) == 0;
    free(read);
    return is_equal;
}

static bool is_link(const char *path) {
    struct stat status;
    return lstat(path, &status) == 0 && S_ISLNK(status.st_mode);
}

static qn_status count_entry(void *context, const char *name, bool is_folder) {
    (void)name;
    (void)is_folder;
    ++*(int *)context;
    return QN_OK;
}

static int n_entries(const char *path) {
    int n = 0;
    CHECK_OK(qn_folder_list(NULL, path, count_entry, &n));
    return n;
}

/* ---- what the target is ---- */

static void check_links(void) {
    CHECK_OK(qn_folder_create(in_root("links/to")));
    CHECK_OK(replace(in_root("links/to/file"), "old"));
    CHECK(symlink("to/file", in_root("links/relative")) == 0);
    CHECK(symlink(in_root("links/relative"), in_root("links/twice")) == 0);
    CHECK(symlink("to/made", in_root("links/dangling")) == 0);
    CHECK(symlink("loop", in_root("links/loop")) == 0);
    CHECK_OK(replace(in_root("links/twice"), "new"));
    CHECK(holds(in_root("links/to/file"), "new"));
    CHECK(is_link(in_root("links/twice")) && is_link(in_root("links/relative")));
    CHECK_OK(replace(in_root("links/dangling"), "made"));
    CHECK(holds(in_root("links/to/made"), "made") && is_link(in_root("links/dangling")));
    CHECK_FAILS(replace(in_root("links/loop"), "x"), QN_ERROR_IO, "links/loop");
    CHECK(n_entries(in_root("links")) == 5 && n_entries(in_root("links/to")) == 2);
}

/* Each is refused, and by the trial before the work too. */
static void check_refused(void) {
    char longest[NAME_MAX + 2];
    memset(longest, 'n', sizeof longest);
    longest[NAME_MAX + 1] = 0;
    CHECK(mkfifo(in_root("fifo"), 0600) == 0);
    CHECK(symlink("/dev/null", in_root("null")) == 0);
    const struct {
        const char *path, *says;
    } rows[] = {
        {in_root("fifo"), "regular"},        {in_root("null"), "regular"},   {root, "regular"},
        {in_root("none/file"), "none/file"}, {"/dev/stdout", "stream"},      {"-", "stream"},
        {"/proc/self/fd/1", "stream"},       {in_root(longest), "too long"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        CHECK_FAILS(replace(rows[i].path, "x"), QN_ERROR_IO, rows[i].says);
        CHECK_FAILS(qn_file_check_target(rows[i].path, false), QN_ERROR_IO, rows[i].says);
    }
    longest[NAME_MAX] = 0;
    CHECK_OK(qn_file_check_target(in_root(longest), false));
    CHECK_OK(replace(in_root(longest), "x"));
    CHECK(unlink(in_root(longest)) == 0 && unlink(in_root("fifo")) == 0);
    CHECK(unlink(in_root("null")) == 0);
}

static void check_streams(void) {
    int ends[2];
    char name[32], text[16] = "";
    CHECK(pipe(ends) == 0);
    snprintf(name, sizeof name, "/dev/fd/%d", ends[1]);
    CHECK_OK(qn_file_check_target(name, true));
    CHECK_OK(qn_file_write(name, put_text, "stream"));
    CHECK(read(ends[0], text, sizeof text) == 6 && memcmp(text, "stream", 6) == 0);
    close(ends[0]);
    close(ends[1]);
    CHECK_FAILS(qn_file_check_target(name, true), QN_ERROR_IO, name);
    CHECK_OK(qn_file_write(in_root("no-stream"), put_text, "file"));
    CHECK(holds(in_root("no-stream"), "file") && unlink(in_root("no-stream")) == 0);
}

static void check_rights(void) {
    struct stat status;
    CHECK_OK(replace(in_root("private"), "old"));
    CHECK(chmod(in_root("private"), 0640) == 0);
    CHECK_OK(replace(in_root("private"), "new"));
    CHECK(stat(in_root("private"), &status) == 0 && (status.st_mode & 0777) == 0640);
    CHECK(unlink(in_root("private")) == 0);
}

/* As a user who is not allowed everything. */
static void check_as_user(void) {
    char protected[PATH_MAX], shut[PATH_MAX];
    snprintf(protected, sizeof protected, "%s", in_root("open/protected"));
    snprintf(shut, sizeof shut, "%s", in_root("shut/file"));
    CHECK(mkdir(in_root("open"), 0777) == 0 && chmod(in_root("open"), 0777) == 0);
    CHECK_OK(replace(protected, "old"));
    CHECK(chmod(protected, 0444) == 0);
    CHECK(mkdir(in_root("unread"), 0300) == 0 && chmod(in_root("unread"), 0733) == 0);
    CHECK(mkdir(in_root("shut"), 0755) == 0 && chmod(root, 0755) == 0);
    fflush(stdout);
    const pid_t id = fork();
    if (id == 0) {
        if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
            _exit(CANNOT_BECOME_NOBODY);
        checks_failed = 0;
        CHECK_FAILS(replace(protected, "new"), QN_ERROR_IO, "denied");
        CHECK_FAILS(qn_file_check_target(protected, false), QN_ERROR_IO, "denied");
        CHECK_OK(replace(in_root("unread/file"), "saved"));
        CHECK_OK(replace(in_root("unread/file"), "saved again"));
        CHECK(holds(in_root("unread/file"), "saved again"));
        if (geteuid() == 65534)
            CHECK_FAILS(qn_file_check_target(shut, false), QN_ERROR_IO, "denied");
        fflush(stdout);
        _exit(checks_failed);
    }
    int how = 0;
    CHECK(waitpid(id, &how, 0) == id && WIFEXITED(how));
    if (WEXITSTATUS(how) == CANNOT_BECOME_NOBODY)
        printf("permission is not tested: cannot become another user\n");
    else
        CHECK(WEXITSTATUS(how) == 0);
    CHECK(holds(protected, "old"));
}

/* ---- who else is there ---- */

static qn_status die(void *context, qn_writer *writer) {
    CHECK_OK(put_text(context, writer));
    kill(getpid(), SIGKILL);
    return QN_OK;
}

/* What a kill leaves is one file at most, of one name, and gone with the next trial. */
static void check_kill(void) {
    CHECK_OK(qn_folder_create(in_root("killed")));
    for (int i = 0; i < 3; i++) {
        const pid_t id = fork();
        if (id == 0)
            qn_file_replace(in_root("killed/file"), die, "half");
        CHECK(waitpid(id, NULL, 0) == id);
        CHECK(n_entries(in_root("killed")) <= 1 && !qn_path_is_file(in_root("killed/file")));
    }
    CHECK(qn_path_is_file(in_root("killed/file.quern-tmp")) == has_no_nameless);
    CHECK_OK(qn_file_check_target(in_root("killed/file"), false));
    CHECK(n_entries(in_root("killed")) == 0);
    const pid_t id = fork();
    if (id == 0)
        qn_file_replace(in_root("killed/file"), die, "a long text that is cut");
    CHECK(waitpid(id, NULL, 0) == id);
    CHECK_OK(replace(in_root("killed/file"), "whole"));
    CHECK(holds(in_root("killed/file"), "whole") && n_entries(in_root("killed")) == 1);
    CHECK(unlink(in_root("killed/file")) == 0);
}

enum { WRITERS = 4, ROUNDS = 12, TEXT = 100000 };

static void write_rounds(void *context) {
    const int number = *(const int *)context;
    static char texts[WRITERS][TEXT + 1];
    char *text = texts[number % WRITERS], path[PATH_MAX];
    snprintf(path, sizeof path, "%s/shared/file", root);
    memset(text, 'a' + number, TEXT);
    for (int i = 0; i < ROUNDS; i++) {
        char *read = NULL;
        size_t bytes = 0;
        const qn_status status = replace(path, text);
        if (status != QN_OK)
            printf("%s\n", qn_error_message());
        __atomic_fetch_add(&checks_failed, status != QN_OK, __ATOMIC_RELAXED);
        if (qn_file_read_whole(NULL, path, &read, &bytes) == QN_OK) {
            const bool is_whole = bytes == TEXT && strspn(read, (char[]){read[0], 0}) == TEXT;
            __atomic_fetch_add(&checks_failed, !is_whole, __ATOMIC_RELAXED);
            free(read);
        }
    }
}

/* Threads and processes that write one file at once: each is a whole one at any time. */
static void check_many_writers(void) {
    int numbers[WRITERS], how;
    qn_thread *threads[WRITERS];
    CHECK_OK(qn_folder_create(in_root("shared")));
    fflush(stdout);
    const pid_t id = fork();
    checks_failed = id == 0 ? 0 : checks_failed;
    for (int i = 0; i < WRITERS; i++) {
        numbers[i] = i + (id == 0 ? WRITERS : 0);
        CHECK_OK(qn_thread_start(NULL, write_rounds, &numbers[i], &threads[i]));
    }
    for (int i = 0; i < WRITERS; i++)
        qn_thread_join(threads[i]);
    if (id == 0) {
        fflush(stdout);
        _exit(checks_failed != 0);
    }
    CHECK(waitpid(id, &how, 0) == id && WIFEXITED(how) && WEXITSTATUS(how) == 0);
    CHECK(n_entries(in_root("shared")) == 1 && unlink(in_root("shared/file")) == 0);
}

/* ---- files that do not last ---- */

static void check_made(void) {
    qn_file *file = NULL;
    char text[8] = "";
    CHECK_OK(qn_file_make(NULL, "of nothing", put_text, "unpacked", &file));
    CHECK(qn_file_bytes(file) == 8);
    qn_file_limit(file, 7);
    qn_file_limit(file, 100);
    CHECK(qn_file_bytes(file) == 7);
    CHECK_OK(qn_file_read(file, 2, text, 5));
    CHECK(memcmp(text, "packe", 5) == 0);
    qn_file_close(file);
}

int main(void) {
    CHECK(mkdtemp(root));
    check_links();
    check_refused();
    check_streams();
    check_rights();
    check_as_user();
    for (int i = 0; i < 2; i++) {
        has_no_nameless = i > 0;
        check_kill();
        check_many_writers();
        check_made();
    }
    char command[PATH_MAX];
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
    return checks_finish();
}
