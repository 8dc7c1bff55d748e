/* What clients keep between rounds: a record of n floats for each (the layers that never leave a
 * client, and what its messages have left out), in one file, so that memory does not depend on the
 * number of clients.
 *
 * A record has two places. A write goes to the place that does not hold the newest record of the
 * rounds that were synced, so that one stays whatever ends the program, and a run that goes on from
 * a checkpoint of round R, written after R was synced, reads what was there then:
 *
 *   place    in use: the round it was written in, plus 1 (0: never), and a checksum
 *   read     the newest record of a round before the one asked for
 *   sync     comes before the checkpoint of its round is written; the file says which round that is
 */
#ifndef QN_FEDERATE_CLIENT_STORE_H
#define QN_FEDERATE_CLIENT_STORE_H

#include "quern/base.h"

typedef struct qn_client_store qn_client_store;

/* The file at path, or without one a file that ends with the program. run: a number of the run's
 * options. What another run has left there is replaced. */
qn_status qn_client_store_open(const qn_allocator *allocator, const char *path, int64_t n_clients,
                               int64_t n, uint64_t run, qn_client_store **store);
void qn_client_store_close(qn_client_store *store);

/* Begins a run: no client has a record. */
qn_status qn_client_store_begin(qn_client_store *store);

/* Goes on with a run after so many rounds. QN_ERROR_ARGUMENT: the file is another run's, or holds
 * fewer rounds. */
qn_status qn_client_store_resume(qn_client_store *store, int64_t n_rounds);

/* The newest record (n) of a client from before a round, which lasts until the next call; null:
 * there is none. QN_ERROR_FORMAT: the file is damaged. */
qn_status qn_client_store_read(qn_client_store *store, int64_t client, int64_t round,
                               const float **record);

/* Where the record of a client is made: (n) floats, overwritten by the next read. */
float *qn_client_store_room(qn_client_store *store);

/* Writes the room as a client's record of a round. */
qn_status qn_client_store_write(qn_client_store *store, int64_t client, int64_t round);

/* What was written is lasting, and so is that n_rounds are done. */
qn_status qn_client_store_sync(qn_client_store *store, int64_t n_rounds);

#endif
