/* Messages between the halves of a network (federate/halves.h) over a connection, encrypted where
 * both sides have a key (federate/tls.h):
 *
 *     4 bytes "QNL2", 4 bytes kind, 8 bytes of the length of what follows, little endian
 *
 *     kind     from    what follows
 *     HELLO    device  text: the options of both halves (qn_halves_print)
 *     READY    peer    int64: steps that its half has behind it
 *     STEP     device  labels (batch) int32, activations
 *     TEST     device  int64: samples that count, labels (test batch) int32, activations
 *     ANSWER   peer    loss (of STEP the mean, of TEST the sum) double, int64 correct samples;
 *                      after STEP: the activations' gradient
 *     SAVE     device  nothing; the answer is READY
 *     BYE      device  nothing
 *     FAILURE  both    text: why the sender ends
 *
 * Activations and gradients are floats, or an int32 exponent e and bytes q that stand for q * 2^e.
 * Every length is known before it is read, and another one is refused. Each message has a deadline:
 * the other side may be silent for a time, and then its bytes must come at QN_LINK_SLOWEST or
 * faster. */
#ifndef QN_FEDERATE_LINK_H
#define QN_FEDERATE_LINK_H

#include "quern/base.h"

typedef enum qn_message {
    QN_MESSAGE_HELLO = 1,
    QN_MESSAGE_READY,
    QN_MESSAGE_STEP,
    QN_MESSAGE_TEST,
    QN_MESSAGE_ANSWER,
    QN_MESSAGE_SAVE,
    QN_MESSAGE_BYE,
    QN_MESSAGE_FAILURE,
} qn_message;

enum {
    QN_LINK_TEXT = 2048,
    QN_LINK_HEAD = 16,
    QN_LINK_SLOWEST = 32 * 1024, /* bytes a second */
};

typedef struct qn_link {
    int connection;
    struct qn_tls *tls;  /* null: what is sent can be read on its way */
    int seconds;         /* that the other side may stay silent */
    int64_t deadline_ns; /* of the message at hand */
    int64_t end_ns;      /* before which all must be said, as while both sides agree; 0: no such */
    bool is_int8;
    int8_t *bytes; /* (n_bytes): scratch for numbers as bytes; with is_int8 alone */
    int64_t n_bytes;
    int64_t n_sent, n_received; /* bytes so far */
    bool was_refused;           /* the other side said why it stops */
} qn_link;

/* A connection's first bytes that begin no TLS: those of a message. */
enum { QN_LINK_MAGIC = 4 };
bool qn_link_is_magic(const uint8_t bytes[QN_LINK_MAGIC]);

/* Kind and length of a message from its head. QN_ERROR_FORMAT: it is none. */
qn_status qn_link_parse_head(const uint8_t head[QN_LINK_HEAD], qn_message *kind, int64_t *length);

qn_status qn_link_send_head(qn_link *link, qn_message kind, int64_t length);
qn_status qn_link_send(qn_link *link, const void *data, size_t bytes);
qn_status qn_link_receive(qn_link *link, void *data, size_t bytes);

/* A message of text; longer ones are cut. */
qn_status qn_link_send_text(qn_link *link, qn_message kind, const char *text);

/* The text of a message of that length, ended by a 0. */
qn_status qn_link_receive_text(qn_link *link, int64_t length, char text[QN_LINK_TEXT]);

/* Reads a head. A FAILURE is read whole, and its text is the error. */
qn_status qn_link_receive_head(qn_link *link, qn_message *kind, int64_t *length);

/* The same of one kind with one length. */
qn_status qn_link_expect(qn_link *link, qn_message kind, int64_t length);

/* Bytes that so many numbers take, and these. The link's scratch is enough for them. */
int64_t qn_link_numbers_bytes(const qn_link *link, int64_t n);
qn_status qn_link_send_numbers(qn_link *link, const float *numbers, int64_t n);
qn_status qn_link_receive_numbers(qn_link *link, float *numbers, int64_t n);

#endif
