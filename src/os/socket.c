/* See socket.h. */
#define _GNU_SOURCE /* accept4 */
#include "os/socket.h"

#include "base/status.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { PLACE_TEXT = 256 };

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
    if (s < 0 || bind(s, &a.any, bytes_of(&a)) != 0 || listen(s, 1) != 0)
        return give_up(s, "listen at", place);
    *listener = s;
    *port = port_of(s);
    return QN_OK;
}

qn_status qn_socket_connect(const char *place, int *connection) {
    address a;
    QN_TRY(find(place, &a));
    const int s = open_socket(&a);
    if (s < 0 || connect(s, &a.any, bytes_of(&a)) != 0)
        return give_up(s, "connect to", place);
    send_at_once(s);
    *connection = s;
    return QN_OK;
}

qn_status qn_socket_accept(int listener, int *connection) {
    *connection = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
    if (*connection < 0)
        return errno == EINTR ? qn_fail(QN_ERROR_INTERRUPTED, "stopped while waiting")
                              : fail("accept", "a connection");
    send_at_once(*connection);
    return QN_OK;
}

qn_status qn_socket_pair(int ends[2]) {
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return fail("make", "a connection");
    return QN_OK;
}

/* Waits until the connection may be read or written. */
static qn_status wait_for(int connection, short events, int seconds) {
    struct pollfd p = {.fd = connection, .events = events};
    const int n = poll(&p, 1, seconds * 1000);
    if (n == 0)
        return qn_fail(QN_ERROR_IO, "the other side has not answered for %d s", seconds);
    if (n < 0)
        return errno == EINTR ? qn_fail(QN_ERROR_INTERRUPTED, "stopped while waiting")
                              : fail("wait for", "the other side");
    return QN_OK;
}

qn_status qn_socket_send(int connection, const void *data, size_t bytes, int seconds) {
    const char *at = data;
    while (bytes > 0) {
        QN_TRY(wait_for(connection, POLLOUT, seconds));
        const ssize_t n = send(connection, at, bytes, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail("send to", "the other side");
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return QN_OK;
}

qn_status qn_socket_receive(int connection, void *data, size_t bytes, int seconds) {
    char *at = data;
    while (bytes > 0) {
        QN_TRY(wait_for(connection, POLLIN, seconds));
        const ssize_t n = recv(connection, at, bytes, MSG_DONTWAIT);
        if (n == 0)
            return qn_fail(QN_ERROR_IO, "the other side has gone");
        if (n < 0 && errno != EAGAIN && errno != EINTR)
            return fail("receive from", "the other side");
        at += n > 0 ? n : 0;
        bytes -= n > 0 ? (size_t)n : 0;
    }
    return QN_OK;
}

void qn_socket_close(int socket) {
    if (socket >= 0)
        close(socket);
}
