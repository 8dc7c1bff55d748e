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

enum {
    QN_CUT_NAME = 128,
    QN_RUN_NAME = 33, /* 32 hexadecimal digits */
};

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
    /* Who the run is: 128 random bits that both checkpoints keep, so that only halves of one
     * run ever meet. Nobody else knows them. Chosen by qn_device_half_create. */
    char run[QN_RUN_NAME];
    bool saves; /* the device will ask the peer to save */
} qn_halves_options;

/* Options as lines of text, and back. QN_ERROR_FORMAT, QN_ERROR_ARGUMENT: text that is none. */
void qn_halves_print(const qn_halves_options *options, char text[QN_LINK_TEXT]);
qn_status qn_halves_parse(const char *text, qn_halves_options *options);

/* The settings of a run that no resume may change, as the same text: all but the step. */
void qn_halves_print_settings(const qn_halves_options *options, char text[QN_LINK_TEXT]);

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

typedef struct qn_device_options {
    int n_threads;
    size_t memory_bytes; /* limit of the engine; 0: none */
    const char *place;   /* of the peer (os/network/socket.h); null: it is connected already */
    int connection;      /* which the half then owns */
    const struct qn_tls_key *key; /* null: no encryption */
    const char *path; /* a checkpoint of the front that the run goes on from, and whose run and step
                         the peer must have too; null: a new run */
} qn_device_options;

/* Makes the front, and agrees with the peer. QN_ERROR_ARGUMENT: the checkpoint is of other settings
 * or of none of two halves. */
qn_status qn_device_half_create(const qn_halves_options *options, const qn_device_options *how,
                                qn_device_half **half);

/* The run's name, and those of its settings. */
const qn_halves_options *qn_device_half_options(const qn_device_half *half);

/* x (batch,) + input, y (batch) classes. After a failure both sides go on from what was saved. */
qn_status qn_device_half_step(qn_device_half *half, const float *x, const int32_t *y,
                              qn_half_result *result);

/* The first n_valid samples of a test batch count. */
qn_status qn_device_half_test(qn_device_half *half, const float *x, const int32_t *y,
                              int64_t n_valid, qn_half_result *result);

/* Before the first step: keeps room on the disk for what is written with the pairs. */
qn_status qn_device_half_keep_room(qn_device_half *half, const qn_metadata *pairs,
                                   const char *path);

/* The peer writes its half, then this one is written, with the pairs. */
qn_status qn_device_half_save(qn_device_half *half, const qn_metadata *pairs, const char *path);

const qn_engine *qn_device_half_engine(const qn_device_half *half);
const qn_link *qn_device_half_link(const qn_device_half *half);

/* Says goodbye to the peer, unless the connection has failed. */
void qn_device_half_destroy(qn_device_half *half);

/* ---- the peer ---- */

typedef struct qn_peer_options {
    int n_threads;
    size_t memory_bytes;   /* limit of all that a device makes the peer hold; 0: none */
    const qn_model *model; /* that devices may train; null: any classifier */
    /* Its checkpoint, which belongs to one run from the first save on, and no other run is served
     * then; or a folder, in which each run has a file of its own. The checkpoint before is kept as
     * FILE.before until the device is known to have saved that step. Null: a device that wants to
     * save is refused. */
    const char *path;
    const struct qn_tls_key *key; /* that devices must have; null: no encryption */
    void *user;
    /* All may be null. claim: a device says which run it wants to train, and may be refused; began:
     * it was accepted; enter, leave: around all that uses the processor; enter may wait. */
    qn_status (*claim)(void *user, const qn_halves_options *options);
    void (*began)(void *user, const qn_halves_options *options, int64_t step);
    void (*enter)(void *user);
    void (*leave)(void *user);
} qn_peer_options;

/* Serves one device over the connection, which stays the caller's, until it says goodbye. *n_steps:
 * done. */
qn_status qn_peer_half_serve(const qn_peer_options *options, int connection, int64_t *n_steps);

/* ---- both ---- */

/* Writes the whole network's weights, of the checkpoints of both halves of one run after the same
 * step, as a checkpoint with the front's pairs. */
qn_status qn_halves_join(const char *front, const char *back, const char *path);

#endif
