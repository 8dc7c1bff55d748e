/* See socket.h. */
#define _GNU_SOURCE /* accept4 */
#include "os/network/socket.h"

#include "base/status.h"
#include "os/os.h"
#include "os/process/interrupt.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PLACE_TEXT = 256, BACKLOG = 64 };

/* An address of either family. */
typedef union address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} address;

static socklen_t bytes_of(const address *a) {
    return a->any.sa_family == AF_INET6 ? sizeof a->v6 : sizeof a->v4;
}

/* Host and port of a place; the host is "" where none is given, and without its brackets. */
static qn_status read_place(const char *place, char host[PLACE_TEXT], int *port) {
    const char *colon = strrchr(place, ':'), *digits = colon ? colon + 1 : place;
    const bool has_brackets = place[0] == '[' && colon && colon > place && colon[-1] == ']';
    const char *from = place + has_brackets;
    const size_t n = colon ? (size_t)(colon - from) - has_brackets : 0;
    char *end;
    const long number = strtol(digits, &end, 10);
    if (n >= PLACE_TEXT || end == digits || *end || number < 0 || number > 65535)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not ADDRESS:PORT, as in 192.168.0.2:7000", place);
    memcpy(host, from, n);
    host[n] = '\0';
    *port = (int)number;
    return QN_OK;
}

/* Names are not looked up: what does that cannot be part of a static program. */
static qn_status find(const char *place, address *a) {
    char host[PLACE_TEXT];
    int port;
    *a = (address){0};
    QN_TRY(read_place(place, host, &port));
    const char *name = host;
    if (!host[0] || strcmp(host, "localhost") == 0)
        name = "127.0.0.1";
    else if (strcmp(host, "*") == 0)
        name = "0.0.0.0";
    if (inet_pton(AF_INET, name, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons((uint16_t)port);
        return QN_OK;
    }
    if (inet_pton(AF_INET6, name, &a->v6.sin6_addr) == 1) {
        a->v6.sin6_family = AF_INET6;
        a->v6.sin6_port = htons((uint16_t)port);
        return QN_OK;
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s: give the address in numbers, as in 192.168.0.2:7000 (getent hosts %s)",
                   place, host);
}

qn_status qn_socket_is_local(const char *place, bool *is_local) {
    static const uint8_t v6_loopback[16] = {[15] = 1};
    address a;
    QN_TRY(find(place, &a));
    *is_local = a.any.sa_family == AF_INET6
                    ? memcmp(&a.v6.sin6_addr, v6_loopback, sizeof v6_loopback) == 0
                    : (ntohl(a.v4.sin_addr.s_addr) >> 24) == 127;
    return QN_OK;
}

static qn_status fail(const char *what, const char *place) {
    return qn_fail(QN_ERROR_IO, "cannot %s %s: %s", what, place, strerror(errno));
}

/* Small messages go at once. */
static void send_at_once(int connection) {
    const int one = 1;
    (void)setsockopt(connection, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
}

static int port_of(int listener) {
    address own;
    socklen_t bytes = sizeof own;
    if (getsockname(listener, &own.any, &bytes) != 0)
        return 0;
    return ntohs(own.any.sa_family == AF_INET6 ? own.v6.sin6_port : own.v4.sin_port);
}

/* A socket for the address, or -1. */
static int open_socket(const address *a) {
    return socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
}

static qn_status give_up(int s, const char *what, const char *place) {
    const qn_status status = fail(what, place);
    qn_socket_close(s);
    return status;
}

qn_status qn_socket_listen(const char *place, int *listener, int *port) {
    const int one = 1;
    address a;
    QN_TRY(find(place, &a));
    const int s = open_socket(&a);
    if (s >= 0)
        (void)setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (s < 0 || bind(s, &a.any, bytes_of(&a)) != 0 || listen(s, BACKLOG) != 0)
        return give_up(s, "listen at", place);
    (void)fcntl(s, F_SETFL, O_NONBLOCK); /* a connection may be gone before it is accepted */
    *listener = s;
    *port = port_of(s);
    return QN_OK;
}

/* ---- waiting ---- */

enum { SLICE_MS = 100, CONNECT_SECONDS = 30 };

/* Waits until the connection may be read or written. A signal that asks the command to stop ends
 * the wait within a slice, whichever thread it reached. */
static qn_status wait_for(int connection, short events, int64_t deadline_ns) {
    for (;;) {
        struct pollfd p = {.fd = connection, .events = events};
        const int64_t left_ms = (deadline_ns - qn_clock_ns()) / 1000000;
        const int n = poll(&p, 1, left_ms < 0 ? 0 : left_ms < SLICE_MS ? (int)left_ms : SLICE_MS);
        if (n > 0)
            return QN_OK;
        if (n < 0 && errno != EINTR)
            return fail("wait for", "the other side");
        if (qn_was_interrupted())
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while waiting");
        if (n == 0 && left_ms < SLICE_MS)
            return qn_fail(QN_ERROR_IO, "the other side has not answered in time");
    }
}

static int64_t in_seconds(int64_t seconds) {
    return qn_clock_ns() + seconds * 1000000000;
}

/* Connects a socket that does not block: the system's own patience is minutes long. */
static qn_status finish_connecting(int s, const address *a, const char *place) {
    int error = 0;
    socklen_t bytes = sizeof error;
    if (connect(s, &a->any, bytes_of(a)) == 0)
        return QN_OK;
    if (errno != EINPROGRESS)
        return fail("connect to", place);
    QN_TRY(wait_for(s, POLLOUT, in_seconds(CONNECT_SECONDS)));
    if (getsockopt(s, SOL_SOCKET, SO_ERROR, &error, &bytes) != 0)
        return fail("connect to", place);
    errno = error;
    return error ? fail("connect to", place) : QN_OK;
}

qn_status qn_socket_connect(const char *place, int *connection) {
    address a;
    QN_TRY(find(place, &a));
    const int s = open_socket(&a);
    if (s < 0)
        return fail("connect to", place);
    (void)fcntl(s, F_SETFL, O_NONBLOCK);
    const qn_status status = finish_connecting(s, &a, place);
    if (status != QN_OK) {
        qn_socket_close(s);
        return status;
    }
    send_at_once(s);
    *connection = s;
    return QN_OK;
}

qn_status qn_socket_accept(int listener, int *connection) {
    do {
        QN_TRY(wait_for(listener, POLLIN, INT64_MAX));
        *connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC | SOCK_NONBLOCK);
    } while (*connection < 0 && (errno == EAGAIN || errno == EINTR || errno == ECONNABORTED));
    if (*connection < 0)
        return fail("accept", "a connection");
    send_at_once(*connection);
    return QN_OK;
}

qn_status qn_socket_pair(int ends[2]) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fail("make", "a connection");
    return QN_OK;
}

/* ---- bytes ---- */

qn_status qn_socket_send(int connection, const void *data, size_t bytes, int64_t deadline_ns) {
    const char *at = data;
    while (bytes > 0) {
        QN_TRY(wait_for(connection, POLLOUT, deadline_ns));
        const ssize_t n = send(connection, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail("send to", "the other side");
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return QN_OK;
}

qn_status qn_socket_receive_some(int connection, void *data, size_t room, int64_t deadline_ns,
                                 size_t *bytes) {
    ssize_t n;
    do {
        QN_TRY(wait_for(connection, POLLIN, deadline_ns));
        n = recv(connection, data, room, MSG_DONTWAIT);
    } while (n < 0 && (errno == EAGAIN || errno == EINTR));
    if (n == 0)
        return qn_fail(QN_ERROR_IO, "the other side has gone");
    if (n < 0)
        return fail("receive from", "the other side");
    *bytes = (size_t)n;
    return QN_OK;
}

qn_status qn_socket_receive(int connection, void *data, size_t bytes, int64_t deadline_ns) {
    char *at = data;
    while (bytes > 0) {
        size_t n;
        QN_TRY(qn_socket_receive_some(connection, at, bytes, deadline_ns, &n));
        at += n;
        bytes -= n;
    }
    return QN_OK;
}

qn_status qn_socket_peek(int connection, void *data, size_t bytes, int64_t deadline_ns) {
    ssize_t n = 0;
    QN_TRY(wait_for(connection, POLLIN, deadline_ns));
    do
        n = recv(connection, data, bytes, MSG_DONTWAIT | MSG_PEEK);
    while (n < 0 && errno == EINTR);
    if (n <= 0)
        return n < 0 ? fail("receive from", "the other side")
                     : qn_fail(QN_ERROR_IO, "the other side has gone");
    return (size_t)n == bytes
               ? QN_OK
               : qn_fail(QN_ERROR_FORMAT, "the other side began with %d bytes", (int)n);
}

void qn_socket_end(int connection) {
    (void)shutdown(connection, SHUT_RDWR);
}

void qn_socket_close(int socket) {
    if (socket >= 0)
        close(socket);
}
