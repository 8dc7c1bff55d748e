/* Connections between two programs over TCP. Whatever waits ends at a deadline, a moment of
 * qn_clock_ns, and returns QN_ERROR_INTERRUPTED soon after a signal that asks the command to stop
 * (os/process/interrupt.h), in every thread. */
#ifndef QN_OS_NETWORK_SOCKET_H
#define QN_OS_NETWORK_SOCKET_H

#include "quern/base.h"

/* place: "ADDRESS:PORT", "PORT" (for programs of this machine alone) or "*:PORT" (for any); port 0:
 * the system chooses one. *port: the one in use. Addresses are numbers (IPv4, or IPv6 in brackets).
 */
qn_status qn_socket_listen(const char *place, int *listener, int *port);

/* Whether only programs of this machine can be at the other end. */
qn_status qn_socket_is_local(const char *place, bool *is_local);

/* Waits for the next connection, without a deadline. */
qn_status qn_socket_accept(int listener, int *connection);

/* place: "ADDRESS:PORT". Waits for at most 30 seconds. */
qn_status qn_socket_connect(const char *place, int *connection);

/* Two ends that are connected with each other, in this process. */
qn_status qn_socket_pair(int ends[2]);

/* All of the bytes, or QN_ERROR_IO: the other end is gone, or the deadline has passed. */
qn_status qn_socket_send(int connection, const void *data, size_t bytes, int64_t deadline_ns);
qn_status qn_socket_receive(int connection, void *data, size_t bytes, int64_t deadline_ns);

/* At least one byte, at most `room`. */
qn_status qn_socket_receive_some(int connection, void *data, size_t room, int64_t deadline_ns,
                                 size_t *bytes);

/* The first bytes, which stay to be received. QN_ERROR_FORMAT: fewer came together. */
qn_status qn_socket_peek(int connection, void *data, size_t bytes, int64_t deadline_ns);

/* From any thread: whatever waits on the connection ends, and the other side sees it closed. */
void qn_socket_end(int connection);

void qn_socket_close(int socket); /* below 0: nothing */

#endif
