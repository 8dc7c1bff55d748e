/* The seam to the operating system: instruction sets and their cap, threads and monitors, files
 * that are read at offsets and replaced as a whole, folders. */
#include "base/memory.h"
#include "base/status.h"
#include "check.h"
#include "os/os.h"

#include <limits.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

static char root[] = "/tmp/quern-test-os-XXXXXX";
static char path_text[PATH_MAX];

/* A path in the test's folder; valid until the next call. */
static const char *in_root(const char *name) {
    snprintf(path_text, sizeof path_text, "%s/%s", root, name);
    return path_text;
}

static void check_cpu(void) {
    qn_isa isa, capped;
    unsetenv("QUERN_ISA");
    CHECK(qn_cpu_count() >= 1);
    CHECK(qn_process_peak_bytes() > 4096);
    CHECK_OK(qn_cpu_isa(&isa));
    setenv("QUERN_ISA", "ref", 1);
    CHECK_OK(qn_cpu_isa(&capped));
    CHECK(capped == QN_ISA_REF);
    setenv("QUERN_ISA", qn_isa_name(isa), 1);
    CHECK_OK(qn_cpu_isa(&capped));
    CHECK(capped == isa);
    setenv("QUERN_ISA", "sse9", 1);
    CHECK_FAILS(qn_cpu_isa(&capped), QN_ERROR_ARGUMENT, "sse9");
    CHECK(strstr(qn_error_message(), "ref") && strstr(qn_error_message(), qn_isa_name(isa)));
    setenv("QUERN_ISA", "", 1);
    CHECK_OK(qn_cpu_isa(&capped));
    CHECK(capped == isa);
    unsetenv("QUERN_ISA");
}

typedef struct queue {
    qn_monitor *monitor;
    int n_waiting, sum;
} queue;

/* Takes numbers until -1. */
static void consume(void *context) {
    queue *q = context;
    for (bool is_open = true; is_open;) {
        qn_monitor_lock(q->monitor);
        while (q->n_waiting == 0)
            qn_monitor_wait(q->monitor);
        is_open = q->n_waiting > 0;
        if (is_open) {
            q->sum += q->n_waiting;
            q->n_waiting = 0;
            qn_monitor_notify(q->monitor);
        }
        qn_monitor_unlock(q->monitor);
    }
}

static void check_threads(void) {
    queue q = {0};
    qn_thread *thread;
    CHECK_OK(qn_monitor_create(NULL, &q.monitor));
    CHECK_OK(qn_thread_start(NULL, consume, &q, &thread));
    for (int i = 1; i <= 100; i++) {
        qn_monitor_lock(q.monitor);
        while (q.n_waiting != 0)
            qn_monitor_wait(q.monitor);
        q.n_waiting = i < 100 ? i : -1;
        qn_monitor_notify(q.monitor);
        qn_monitor_unlock(q.monitor);
    }
    qn_thread_join(thread);
    CHECK(q.sum == 99 * 100 / 2);
    qn_monitor_destroy(q.monitor);
    qn_thread_join(NULL);
    qn_monitor_destroy(NULL);
}

typedef struct content {
    size_t bytes, piece; /* pieces of so many bytes */
    qn_status status;    /* what to end with */
} content;

static qn_status write_content(void *context, qn_writer *writer) {
    const content *c = context;
    char piece[70000];
    for (size_t at = 0; at < c->bytes; at += c->piece) {
        for (size_t i = 0; i < c->piece; i++)
            piece[i] = (char)((at + i) % 251);
        QN_TRY(qn_writer_put(writer, piece, c->bytes - at < c->piece ? c->bytes - at : c->piece));
    }
    return c->status == QN_OK ? QN_OK : qn_fail(c->status, "stopped by the test");
}

/* Whether the file at path is what write_content writes. */
static bool has_content(const char *path, size_t bytes) {
    qn_file *file;
    if (qn_file_open(NULL, path, &file) != QN_OK)
        return false;
    bool is_same = qn_file_bytes(file) == (int64_t)bytes && strcmp(qn_file_path(file), path) == 0;
    for (size_t at = 0; at < bytes && is_same; at += 1000) {
        unsigned char byte;
        is_same = qn_file_read(file, (int64_t)at, &byte, 1) == QN_OK && byte == at % 251;
    }
    qn_file_close(file);
    return is_same;
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

static void check_replace(void) {
    content small = {1000, 7, QN_OK}, large = {300000, 70000, QN_OK};
    content failing = {500, 100, QN_ERROR_FORMAT};
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", in_root("file"));
    CHECK_OK(qn_file_replace(path, write_content, &small));
    CHECK(has_content(path, 1000));
    CHECK_OK(qn_file_replace(path, write_content, &large));
    CHECK(has_content(path, 300000));
    CHECK_FAILS(qn_file_replace(path, write_content, &failing), QN_ERROR_FORMAT, "stopped");
    CHECK(has_content(path, 300000));
    CHECK_FAILS(qn_file_replace(in_root("none/file"), write_content, &small), QN_ERROR_IO, "none");
    CHECK_FAILS(qn_file_replace("/dev/full", write_content, &small), QN_ERROR_IO, "regular");
    CHECK_FAILS(qn_file_replace(root, write_content, &small), QN_ERROR_IO, "regular");
    CHECK(n_entries(root) == 1);
}

/* A limit on the size of files stands for a full disk. */
static void check_full_disk(void) {
    content large = {300000, 70000, QN_OK}, larger = {400000, 1000, QN_OK};
    struct rlimit old, limit;
    char path[PATH_MAX];
    snprintf(path, sizeof path, "%s", in_root("file"));
    CHECK_OK(qn_file_replace(path, write_content, &large));
    signal(SIGXFSZ, SIG_IGN);
    getrlimit(RLIMIT_FSIZE, &old);
    limit = old;
    limit.rlim_cur = 350000;
    setrlimit(RLIMIT_FSIZE, &limit);
    CHECK_FAILS(qn_file_replace(path, write_content, &larger), QN_ERROR_IO, "cannot write");
    setrlimit(RLIMIT_FSIZE, &old);
    CHECK(has_content(path, 300000));
    CHECK(n_entries(root) == 1);
}

static void check_read(void) {
    qn_file *file;
    char data[16];
    CHECK_FAILS(qn_file_open(NULL, in_root("missing"), &file), QN_ERROR_IO, "missing");
    CHECK_FAILS(qn_file_open(NULL, root, &file), QN_ERROR_IO, "regular");
    CHECK_OK(qn_file_open(NULL, in_root("file"), &file));
    CHECK_OK(qn_file_read(file, 299984, data, 16));
    CHECK_FAILS(qn_file_read(file, 299985, data, 16), QN_ERROR_FORMAT, "ends at byte 300000");
    CHECK(strstr(qn_error_message(), "/file"));
    qn_file_close(file);
    qn_file_close(NULL);
    CHECK(qn_path_is_file(in_root("file")) && !qn_path_is_file(root));
    CHECK(qn_path_is_folder(root) && !qn_path_is_folder(in_root("file")));
    CHECK(qn_file_modified_ns(in_root("file")) > (int64_t)1e18);
    CHECK(qn_file_modified_ns(in_root("missing")) == 0);
}

static qn_status join_names(void *context, const char *name, bool is_folder) {
    char *text = context;
    snprintf(text + strlen(text), 100 - strlen(text), "%s%s ", name, is_folder ? "/" : "");
    return strcmp(name, "stop") == 0 ? qn_fail(QN_ERROR_INTERRUPTED, "stop") : QN_OK;
}

static void check_folders(void) {
    content small = {10, 10, QN_OK};
    char names[100] = "";
    CHECK_OK(qn_folder_create(in_root("b/c/d")));
    CHECK_OK(qn_folder_create(in_root("b/c/d")));
    CHECK_OK(qn_file_replace(in_root("b/a"), write_content, &small));
    CHECK_OK(qn_file_replace(in_root("b/Z"), write_content, &small));
    CHECK(symlink("c", in_root("b/link")) == 0);
    CHECK_OK(qn_folder_list(NULL, in_root("b"), join_names, names));
    CHECK(strcmp(names, "Z a c/ link/ ") == 0);
    CHECK_OK(qn_file_replace(in_root("b/stop"), write_content, &small));
    CHECK_OK(qn_file_replace(in_root("b/zzz"), write_content, &small));
    names[0] = 0;
    CHECK_FAILS(qn_folder_list(NULL, in_root("b"), join_names, names), QN_ERROR_INTERRUPTED,
                "stop");
    CHECK(strcmp(names, "Z a c/ link/ stop ") == 0);
    CHECK_FAILS(qn_folder_list(NULL, in_root("none"), join_names, names), QN_ERROR_IO, "none");
    char resolved[PATH_MAX];
    CHECK_OK(qn_path_resolve(in_root("b/link/../a"), resolved, sizeof resolved));
    CHECK(strcmp(resolved, in_root("b/a")) == 0);
    CHECK_FAILS(qn_path_resolve(in_root("none"), resolved, sizeof resolved), QN_ERROR_IO, "none");
    CHECK_FAILS(qn_path_resolve(root, resolved, 3), QN_ERROR_ARGUMENT, "too long");
    CHECK_FAILS(qn_folder_create(in_root("file/x")), QN_ERROR_IO, "file");
}

static void check_cache(void) {
    char path[PATH_MAX], expected[PATH_MAX];
    setenv("XDG_CACHE_HOME", in_root("cache"), 1);
    snprintf(expected, sizeof expected, "%s", in_root("cache/quern"));
    CHECK_OK(qn_folder_cache(path, sizeof path));
    CHECK(strcmp(path, expected) == 0 && qn_path_is_folder(path));
    CHECK_FAILS(qn_folder_cache(path, 10), QN_ERROR_ARGUMENT, "too long");
    unsetenv("XDG_CACHE_HOME");
    setenv("HOME", root, 1);
    snprintf(expected, sizeof expected, "%s", in_root(".cache/quern"));
    CHECK_OK(qn_folder_cache(path, sizeof path));
    CHECK(strcmp(path, expected) == 0 && qn_path_is_folder(path));
}

int main(void) {
    if (!mkdtemp(root))
        return 2;
    check_cpu();
    check_threads();
    check_replace();
    check_full_disk();
    check_read();
    check_folders();
    check_cache();
    char command[100];
    snprintf(command, sizeof command, "rm -rf %s", root);
    CHECK(system(command) == 0);
    return checks_finish();
}
