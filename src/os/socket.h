/* Connections between two programs over TCP. What waits returns QN_ERROR_INTERRUPTED when a signal
 * comes that the program handles (os/process/interrupt.h). */
#ifndef QN_OS_SOCKET_H
#define QN_OS_SOCKET_H

#include "quern/base.h"

/* place: "ADDRESS:PORT", "PORT" (for programs of this machine alone) or "*:PORT" (for any); port 0:
 * the system chooses one. *port: the one in use. Addresses are numbers (IPv4, or IPv6 in brackets).
 */
qn_status qn_socket_listen(const char *place, int *listener, int *port);

/* Waits for the next connection. QN_ERROR_INTERRUPTED: a signal came first. */
qn_status qn_socket_accept(int listener, int *connection);

/* place: "ADDRESS:PORT". */
qn_status qn_socket_connect(const char *place, int *connection);

/* Two ends that are connected with each other, in this process. */
qn_status qn_socket_pair(int ends[2]);

/* All of the bytes, or QN_ERROR_IO: the other end is gone, or has not moved for `seconds`. */
qn_status qn_socket_send(int connection, const void *data, size_t bytes, int seconds);
qn_status qn_socket_receive(int connection, void *data, size_t bytes, int seconds);

void qn_socket_close(int socket); /* below 0: nothing */

#endif
