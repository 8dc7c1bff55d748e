/* The peer of split learning for several devices: each connection is served in a thread of its own,
 * and the devices compute in turns, in the order in which they asked. Whoever connects and does not
 * say in time what it wants, or is one of too many, loses its place to the next, so that an honest
 * device gets on whatever others do. */
#ifndef QN_FEDERATE_SPLIT_SERVER_H
#define QN_FEDERATE_SPLIT_SERVER_H

#include "federate/halves.h"

enum { QN_SPLIT_MOST_DEVICES = 64 };

typedef struct qn_split_server_options {
    qn_peer_options
        peer;      /* of each device: claim, enter, leave and user are the server's; memory is
                             a device's */
    int n_devices; /* at the same time, at most QN_SPLIT_MOST_DEVICES */
    bool once;     /* end when the first device that was accepted has ended */
    void *user;
    /* Called one at a time, in the thread of the device. ended: of a device that was accepted
     * (without once), and of a connection that was not, of these at most one a second; a failure's
     * message is the thread's. */
    void (*began)(void *user, const qn_halves_options *options, int64_t step);
    void (*ended)(void *user, qn_status status, bool was_accepted, int64_t n_steps);
} qn_split_server_options;

/* Serves until a signal asks the command to stop, or a device has ended (once): that device's
 * status and steps. The listener stays the caller's. */
qn_status qn_split_serve(const qn_split_server_options *options, int listener, int64_t *n_steps);

#endif
