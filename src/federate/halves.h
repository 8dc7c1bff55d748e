/* Split learning (Gupta and Raskar 2018; Vepakomma et al., "Split learning for health", 2018): a
 * classifier is cut at a value. A device has the data and the front, a peer the back. In each step
 * the device sends the value and the labels, and the peer sends the loss and the value's gradient
 * back; both update their own half. With floats both halves have the bits of the whole network
 * trained in one place. */
#ifndef QN_FEDERATE_HALVES_H
#define QN_FEDERATE_HALVES_H

#include "federate/link.h"
#include "quern/checkpoint.h"
#include "quern/engine.h"
#include "quern/model.h"

enum { QN_CUT_NAME = 128 };

/* What both halves must know. */
typedef struct qn_halves_options {
    const qn_model *model;
    char cut[QN_CUT_NAME]; /* name of the value, as "pool2" */
    qn_shape input;        /* of a sample */
    int n_outputs;
    int64_t batch, test_batch;
    qn_update_options
        update; /* without a clipped norm and accumulation: they look at all gradients */
    double label_smoothing;
    bool is_int8; /* values and gradients travel as bytes */
    uint64_t seed;
    int64_t step; /* that the run goes on from; 0: a new one */
} qn_halves_options;

/* Options as lines of text, and back. QN_ERROR_FORMAT, QN_ERROR_ARGUMENT: text that is none. */
void qn_halves_print(const qn_halves_options *options, char text[QN_LINK_TEXT]);
qn_status qn_halves_parse(const char *text, qn_halves_options *options);

/* One place where a network can be cut. Figures are of a sample. */
typedef struct qn_cut {
    char name[QN_CUT_NAME];
    qn_shape shape;                  /* of the value, without the batch */
    int64_t front_flops, back_flops; /* of a forward pass */
    int64_t front_numbers;           /* parameters of the front */
} qn_cut;

/* The places of a network, from its input on: (n) in *cuts, of the C library's heap, to be given
 * back with qn_release for `room` elements. */
qn_status qn_cuts_list(const qn_model *model, qn_shape input, int n_outputs, qn_cut **cuts,
                       size_t *n, size_t *room);

/* ---- the device ---- */

typedef struct qn_half_result {
    double loss; /* of a step the mean, of a test the sum */
    int64_t n_correct;
    int64_t waited_ns; /* for the peer */
} qn_half_result;

typedef struct qn_device_half qn_device_half;

/* Makes the front, and agrees with the peer at the other end of the connection, which the half then
 * owns. path: a checkpoint of the front that the run goes on from, and whose step the peer must
 * have too; null: a new run. */
qn_status qn_device_half_create(const qn_halves_options *options, int n_threads, int connection,
                                const char *path, qn_device_half **half);

/* x (batch,) + input, y (batch) classes. After a failure both sides go on from what was saved. */
qn_status qn_device_half_step(qn_device_half *half, const float *x, const int32_t *y,
                              qn_half_result *result);

/* The first n_valid samples of a test batch count. */
qn_status qn_device_half_test(qn_device_half *half, const float *x, const int32_t *y,
                              int64_t n_valid, qn_half_result *result);

/* The peer writes its half, then this one is written, with the pairs. */
qn_status qn_device_half_save(qn_device_half *half, const qn_metadata *pairs, const char *path);

const qn_engine *qn_device_half_engine(const qn_device_half *half);
const qn_link *qn_device_half_link(const qn_device_half *half);

/* Says goodbye to the peer, unless the connection has failed. */
void qn_device_half_destroy(qn_device_half *half);

/* ---- the peer ---- */

typedef struct qn_peer_options {
    int n_threads;
    const char *path; /* of its checkpoint; null: SAVE is refused. The one before it is kept as
                         PATH.before, since the device may not have written that step's */
    void *user;
    void (*began)(void *user, const qn_halves_options *options, int64_t step); /* may be null */
} qn_peer_options;

/* Serves one device over the connection until it says goodbye, and closes it. *n_steps: done. */
qn_status qn_peer_half_serve(const qn_peer_options *options, int connection, int64_t *n_steps);

/* ---- both ---- */

/* Writes the whole network's weights, of the checkpoints of both halves after the same step, as a
 * checkpoint with the front's pairs. */
qn_status qn_halves_join(const char *front, const char *back, const char *path);

#endif
