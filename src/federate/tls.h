/* TLS 1.3 (RFC 8446) with a pre-shared key and an ephemeral Diffie-Hellman exchange over a
 * connection: only who has the key can speak or listen, and a key that leaks later opens nothing
 * that was recorded before. By GnuTLS, which is opened when a key is first used. Session tickets
 * and early data, which could be replayed, are off. */
#ifndef QN_FEDERATE_TLS_H
#define QN_FEDERATE_TLS_H

#include "quern/base.h"

enum { QN_TLS_KEY_BYTES = 32 };

typedef struct qn_tls_key {
    uint8_t bytes[QN_TLS_KEY_BYTES];
} qn_tls_key;

/* A key file is one line of 64 hexadecimal digits. Another content, or one that other users of the
 * machine can read, is refused. */
qn_status qn_tls_key_read(const char *path, qn_tls_key *key);
qn_status qn_tls_key_parse(const char *text, qn_tls_key *key);

/* Writes a new random key that its owner alone can read. A file that exists is refused. */
qn_status qn_tls_key_create(const char *path);

/* One end of an encrypted connection, which stays the caller's. Threads: one at a time. */
typedef struct qn_tls qn_tls;

/* Agrees with the other end until the deadline. QN_ERROR_UNSUPPORTED: GnuTLS is not installed.
 * QN_ERROR_FORMAT: the other end has another key, or none. */
qn_status qn_tls_create(const qn_tls_key *key, bool is_server, int connection, int64_t deadline_ns,
                        qn_tls **tls);

/* Says nothing to the other end: who uses a connection knows the length of all that is sent. */
void qn_tls_destroy(qn_tls *tls);

/* As qn_socket_send and qn_socket_receive. */
qn_status qn_tls_send(qn_tls *tls, const void *data, size_t bytes, int64_t deadline_ns);
qn_status qn_tls_receive(qn_tls *tls, void *data, size_t bytes, int64_t deadline_ns);

#endif
