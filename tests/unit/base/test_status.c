/* Failures: the message is kept per thread, nests, is cut and not overrun. */
#include "base/status.h"

#include "check.h"

#include <pthread.h>

static void *fail_elsewhere(void *context) {
    (void)context;
    qn_fail(QN_ERROR_IO, "elsewhere");
    return NULL;
}

static void test_messages(void) {
    CHECK(strcmp(qn_error_message(), "") == 0);
    CHECK(qn_fail(QN_ERROR_FORMAT, "%s: %d", "file", 3) == QN_ERROR_FORMAT);
    CHECK(strcmp(qn_error_message(), "file: 3") == 0);
    CHECK(qn_fail_within(QN_ERROR_IO, "while loading %s", "x") == QN_ERROR_IO);
    CHECK(strcmp(qn_error_message(), "while loading x: file: 3") == 0);
    /* The message itself may be an argument. */
    qn_fail(QN_ERROR_IO, "again: %s", qn_error_message());
    CHECK(strcmp(qn_error_message(), "again: while loading x: file: 3") == 0);
}

static void test_threads(void) {
    qn_fail(QN_ERROR_IO, "here");
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, fail_elsewhere, NULL) == 0);
    pthread_join(thread, NULL);
    CHECK(strcmp(qn_error_message(), "here") == 0);
}

static void test_long_messages(void) {
    char text[5000];
    memset(text, 'x', sizeof text);
    text[sizeof text - 1] = 0;
    qn_fail(QN_ERROR_IO, "%s", text);
    size_t length = strlen(qn_error_message());
    CHECK(length > 500 && length < sizeof text);
    for (int i = 0; i < 10; i++)
        qn_fail_within(QN_ERROR_IO, "%s", "place");
    CHECK(strncmp(qn_error_message(), "place: place: ", 14) == 0);
}

static void test_names(void) {
    for (int status = QN_OK; status <= QN_ERROR_INTERRUPTED; status++)
        CHECK(strcmp(qn_status_text((qn_status)status), "unknown status") != 0);
    CHECK(strcmp(qn_status_text((qn_status)99), "unknown status") == 0);
    CHECK_FAILS(qn_fail_memory(123), QN_ERROR_MEMORY, "123 bytes");
}

int main(void) {
    test_messages();
    test_threads();
    test_long_messages();
    test_names();
    return checks_finish();
}
