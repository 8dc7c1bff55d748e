/* A device and a peer of split learning in one process: the peer in a thread, a connection between
 * them, and data. */
#ifndef QN_TESTS_SPLIT_PAIR_H
#define QN_TESTS_SPLIT_PAIR_H

#include "federate/halves.h"

#include "base/rng.h"
#include "check.h"
#include "os/network/socket.h"
#include "os/os.h"
#include "tensor/tensor.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BATCH = 4, STEPS = 3 };

/* ---- a peer in a thread ---- */

typedef struct peer {
    qn_peer_options how;
    int connection;
    pthread_t thread;
    qn_status status;
    int64_t n_steps;
    char message[256];
} peer;

static inline void *serve(void *context) {
    peer *p = context;
    p->status = qn_peer_half_serve(&p->how, p->connection, &p->n_steps);
    qn_socket_close(p->connection);
    snprintf(p->message, sizeof p->message, "%s", p->status == QN_OK ? "" : qn_error_message());
    return NULL;
}

/* The device's end. */
static inline int start_as(peer *p, const qn_peer_options *how) {
    int ends[2];
    CHECK_OK(qn_socket_pair(ends));
    *p = (peer){.how = *how, .connection = ends[1]};
    CHECK(pthread_create(&p->thread, NULL, serve, p) == 0);
    return ends[0];
}

static inline int start(peer *p, const char *path) {
    const qn_peer_options how = {.n_threads = 1, .path = path};
    return start_as(p, &how);
}

static inline qn_device_options over(int connection, const char *path) {
    return (qn_device_options){.n_threads = 1, .connection = connection, .path = path};
}

static inline qn_status create(const qn_halves_options *o, int connection, const char *path,
                               qn_device_half **half) {
    const qn_device_options how = over(connection, path);
    return qn_device_half_create(o, &how, half);
}

static inline void finish(peer *p, qn_status status, const char *says) {
    pthread_join(p->thread, NULL);
    CHECK(p->status == status);
    CHECK(strstr(p->message, says));
}

/* ---- data ---- */

static inline float *draw(int64_t n, uint64_t seed) {
    float *x = malloc((size_t)n * sizeof *x);
    const qn_rng rng = qn_rng_make(seed, 1, 2);
    for (int64_t i = 0; i < n; i++)
        x[i] = (float)qn_rng_normal(rng, (uint64_t)i);
    return x;
}

static const int32_t labels[STEPS][BATCH] = {{0, 1, 2, 1}, {2, 2, 0, 1}, {1, 0, 2, 0}};

static inline qn_halves_options options_of(const char *model, const char *cut, qn_shape input) {
    qn_halves_options o = {.model = qn_model_find(model),
                           .input = input,
                           .n_outputs = 3,
                           .batch = BATCH,
                           .test_batch = BATCH - 1,
                           .update = {.optimizer = QN_SGD,
                                      .rate = 0.05,
                                      .momentum = 0.9,
                                      .weight_decay = 1e-4,
                                      .schedule = QN_COSINE,
                                      .schedule_steps = STEPS},
                           .label_smoothing = 0.1,
                           .seed = 5};
    snprintf(o.cut, sizeof o.cut, "%s", cut);
    return o;
}

/* A path of mkstemp's kind at which there is nothing. */
static inline const char *make_path(char path[]) {
    const int file = mkstemp(path);
    CHECK(file >= 0);
    close(file);
    unlink(path);
    return path;
}

static inline void remove_all(const char *path) {
    char before[300];
    snprintf(before, sizeof before, "%s.before", path);
    unlink(path);
    unlink(before);
}

#endif
