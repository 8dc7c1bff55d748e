/* See link.h. */
#include "federate/link.h"

#include "base/status.h"
#include "federate/tls.h"
#include "federate/update_code.h"
#include "os/network/socket.h"
#include "os/os.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const uint8_t magic[QN_LINK_MAGIC] = "QNL2";

/* Of numbers that travel as bytes: those of finite floats (federate/update_code.h). */
enum { LEAST_EXPONENT = -126, MOST_EXPONENT = 122 };

static void put(uint8_t *at, uint64_t number, int bytes) {
    for (int i = 0; i < bytes; i++)
        at[i] = (uint8_t)(number >> (8 * i));
}

static uint64_t take(const uint8_t *at, int bytes) {
    uint64_t number = 0;
    for (int i = 0; i < bytes; i++)
        number |= (uint64_t)at[i] << (8 * i);
    return number;
}

bool qn_link_is_magic(const uint8_t bytes[QN_LINK_MAGIC]) {
    return memcmp(bytes, magic, QN_LINK_MAGIC) == 0;
}

qn_status qn_link_parse_head(const uint8_t head[QN_LINK_HEAD], qn_message *kind, int64_t *length) {
    const uint64_t number = take(head + 4, 4), bytes = take(head + 8, 8);
    if (!qn_link_is_magic(head))
        return qn_fail(QN_ERROR_FORMAT, "the other side is no quern split (it sent no message)");
    if (number < QN_MESSAGE_HELLO || number > QN_MESSAGE_FAILURE || bytes > INT64_MAX)
        return qn_fail(QN_ERROR_FORMAT, "a message of the unknown kind %" PRIu64, number);
    *kind = (qn_message)number;
    *length = (int64_t)bytes;
    return QN_OK;
}

/* Sets the deadline of a message whose remaining bytes are so many. */
static void set_deadline(qn_link *link, int64_t bytes) {
    const int64_t most_seconds = 24 * 3600, slow = bytes / QN_LINK_SLOWEST;
    const int64_t seconds = link->seconds + (slow < most_seconds ? slow : most_seconds);
    link->deadline_ns = qn_clock_ns() + seconds * 1000000000;
    if (link->end_ns && link->end_ns < link->deadline_ns)
        link->deadline_ns = link->end_ns;
}

qn_status qn_link_receive(qn_link *link, void *data, size_t bytes) {
    QN_TRY(link->tls ? qn_tls_receive(link->tls, data, bytes, link->deadline_ns)
                     : qn_socket_receive(link->connection, data, bytes, link->deadline_ns));
    link->n_received += (int64_t)bytes;
    return QN_OK;
}

qn_status qn_link_send_head(qn_link *link, qn_message kind, int64_t length) {
    uint8_t head[QN_LINK_HEAD];
    memcpy(head, magic, sizeof magic);
    put(head + 4, (uint64_t)kind, 4);
    put(head + 8, (uint64_t)length, 8);
    set_deadline(link, length);
    return qn_link_send(link, head, sizeof head);
}

qn_status qn_link_send_text(qn_link *link, qn_message kind, const char *text) {
    const size_t n = strnlen(text, QN_LINK_TEXT - 1);
    QN_TRY(qn_link_send_head(link, kind, (int64_t)n));
    return qn_link_send(link, text, n);
}

qn_status qn_link_receive_text(qn_link *link, int64_t length, char text[QN_LINK_TEXT]) {
    if (length >= QN_LINK_TEXT)
        return qn_fail(QN_ERROR_FORMAT, "a text of %" PRId64 " bytes; at most %d are allowed",
                       length, QN_LINK_TEXT - 1);
    QN_TRY(qn_link_receive(link, text, (size_t)length));
    text[length] = '\0';
    return QN_OK;
}

/* A stranger's text must not move the cursor of a terminal or end a line of JSON. */
static void make_printable(char *text) {
    for (char *c = text; *c; c++)
        *c = (unsigned char)*c < ' ' || (unsigned char)*c > '~' ? '?' : *c;
}

qn_status qn_link_receive_head(qn_link *link, qn_message *kind, int64_t *length) {
    uint8_t head[QN_LINK_HEAD];
    char text[QN_LINK_TEXT];
    set_deadline(link, 0);
    QN_TRY(qn_link_receive(link, head, sizeof head));
    QN_TRY(qn_link_parse_head(head, kind, length));
    set_deadline(link, *length);
    if (*kind != QN_MESSAGE_FAILURE)
        return QN_OK;
    QN_TRY(qn_link_receive_text(link, *length, text));
    make_printable(text);
    link->was_refused = true;
    return qn_fail(QN_ERROR_IO, "the other side stopped: %s", text);
}

qn_status qn_link_expect(qn_link *link, qn_message kind, int64_t length) {
    qn_message found;
    int64_t bytes;
    QN_TRY(qn_link_receive_head(link, &found, &bytes));
    if (found == kind && bytes == length)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT,
                   "the other side sent message %d of %" PRId64 " bytes instead of %d of %" PRId64,
                   (int)found, bytes, (int)kind, length);
}

/* The other side no longer listens: what it said at last is the reason, if it said something. */
static qn_status find_reason(qn_link *link, qn_status status) {
    char lost[QN_LINK_TEXT];
    qn_link last = *link;
    qn_message kind = QN_MESSAGE_BYE;
    int64_t length;
    snprintf(lost, sizeof lost, "%s", qn_error_message());
    last.seconds = 1;
    const qn_status found = qn_link_receive_head(&last, &kind, &length);
    link->was_refused = last.was_refused;
    return kind == QN_MESSAGE_FAILURE ? found : qn_fail(status, "%s", lost);
}

qn_status qn_link_send(qn_link *link, const void *data, size_t bytes) {
    const qn_status status = link->tls
                                 ? qn_tls_send(link->tls, data, bytes, link->deadline_ns)
                                 : qn_socket_send(link->connection, data, bytes, link->deadline_ns);
    if (status == QN_ERROR_INTERRUPTED)
        return status;
    if (status != QN_OK)
        return find_reason(link, status);
    link->n_sent += (int64_t)bytes;
    return QN_OK;
}

int64_t qn_link_numbers_bytes(const qn_link *link, int64_t n) {
    return link->is_int8 ? n + 4 : n * (int64_t)sizeof(float);
}

qn_status qn_link_send_numbers(qn_link *link, const float *numbers, int64_t n) {
    uint8_t exponent[4];
    if (!link->is_int8)
        return qn_link_send(link, numbers, (size_t)n * sizeof *numbers);
    put(exponent, (uint64_t)(uint32_t)qn_update_encode(numbers, n, link->bytes), 4);
    QN_TRY(qn_link_send(link, exponent, sizeof exponent));
    return qn_link_send(link, link->bytes, (size_t)n);
}

qn_status qn_link_receive_numbers(qn_link *link, float *numbers, int64_t n) {
    uint8_t exponent[4];
    if (!link->is_int8)
        return qn_link_receive(link, numbers, (size_t)n * sizeof *numbers);
    QN_TRY(qn_link_receive(link, exponent, sizeof exponent));
    QN_TRY(qn_link_receive(link, link->bytes, (size_t)n));
    const int32_t e = (int32_t)(uint32_t)take(exponent, 4);
    if (e < LEAST_EXPONENT || e > MOST_EXPONENT)
        return qn_fail(QN_ERROR_FORMAT, "the other side sent numbers with the exponent %" PRId32,
                       e);
    qn_update_decode(link->bytes, n, e, numbers);
    return QN_OK;
}
