/* Small files of the kernel: texts and numbers, nonsense, what is missing, denied, or lost. */
#define _GNU_SOURCE

#include "os/probe.h"

#include "base/memory.h"
#include "check.h"
#include "device_files.h"
#include "os/heap.h"

static void put_and_path(const device_files *files, const char *name, const char *text,
                         char path[128]) {
    device_files_put(files, name, "%s", text);
    snprintf(path, 128, "%s/%s", files->root, name);
}

static void test_values(const device_files *files) {
    char path[128], text[16];
    int64_t value = 7;
    put_and_path(files, "a/number", "-12345678901\n", path);
    CHECK_OK(qn_probe_number_at(path, &value));
    CHECK(value == -12345678901);
    CHECK_OK(qn_probe_text_at(path, text, sizeof text));
    CHECK(strcmp(text, "-12345678901") == 0);
    CHECK_OK(qn_probe_text_at(path, text, 4));
    CHECK(strcmp(text, "-12") == 0);
    const char *const nonsense[] = {"", "\n", "12x", "1 2", "99999999999999999999", "<unknown>"};
    for (size_t i = 0; i < sizeof nonsense / sizeof nonsense[0]; i++) {
        put_and_path(files, "a/nonsense", nonsense[i], path);
        value = 7;
        CHECK_FAILS(qn_probe_number_at(path, &value), QN_ERROR_FORMAT, "not a whole number");
        CHECK(value == 7);
    }
}

static void test_again(const device_files *files) {
    char path[128];
    int64_t value;
    qn_probe probe = {0};
    CHECK_FAILS(qn_probe_number(&probe, &value), QN_ERROR_IO, "cannot be read");
    put_and_path(files, "counter", "1\n", path);
    CHECK_OK(qn_probe_open(path, &probe));
    for (int i = 10; i < 13; i++) {
        device_files_put(files, "counter", "%d\n", i);
        CHECK_OK(qn_probe_number(&probe, &value));
        CHECK(value == i);
    }
    qn_probe_close(&probe);
    qn_probe_close(&probe);
    CHECK_FAILS(qn_probe_number(&probe, &value), QN_ERROR_IO, "cannot be read");
}

static void test_not_there(const device_files *files) {
    char path[128], text[8];
    snprintf(path, sizeof path, "%s/nothing", files->root);
    CHECK(!qn_path_is_there(path));
    CHECK_FAILS(qn_probe_text_at(path, text, sizeof text), QN_ERROR_IO, "No such file");
    CHECK(qn_path_is_there(files->root));
    CHECK_FAILS(qn_probe_text_at(files->root, text, sizeof text), QN_ERROR_IO, "directory");
}

static void test_whole(const device_files *files) {
    static char text[10001], path[128];
    char *read = NULL;
    size_t capacity = 0;
    memset(text, 'x', 10000);
    put_and_path(files, "long", text, path);
    CHECK_OK(qn_probe_whole(qn_allocator_default(), path, &read, &capacity));
    CHECK(read && strcmp(read, text) == 0);
    qn_release(qn_allocator_default(), read, capacity, 1);
    CHECK_FAILS(qn_probe_whole(qn_allocator_default(), files->root, &read, &capacity), QN_ERROR_IO,
                "directory");
}

/* Root may read everything, so it becomes somebody else for this. */
static void test_denied(const device_files *files) {
    char path[128], text[8];
    put_and_path(files, "secret", "1", path);
    chmod(path, 0);
    chmod(files->root, 0755);
    if (geteuid() == 0 && seteuid(65534) != 0) {
        printf("permission is not tested: cannot become another user\n");
        return;
    }
    CHECK(qn_path_is_there(path));
    CHECK_FAILS(qn_probe_text_at(path, text, sizeof text), QN_ERROR_IO,
                "secret: Permission denied; run as root");
    if (getuid() == 0)
        CHECK(seteuid(0) == 0);
}

int main(void) {
    const device_files files = device_files_make();
    test_values(&files);
    test_again(&files);
    test_not_there(&files);
    test_whole(&files);
    test_denied(&files);
    device_files_remove(&files, "");
    return checks_finish();
}
