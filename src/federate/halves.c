/* The device's half; see halves.h. Both halves build the whole network, cut it (passes/cut.h) and
 * keep their part: a name says where the cut is, and names of parameters, of which initial weights
 * are drawn, are those of the whole. */
#include "federate/halves.h"

#include "base/memory.h"
#include "base/status.h"
#include "federate/halves_build.h"
#include "federate/tls.h"
#include "ops/loss.h"
#include "os/heap.h"
#include "os/network/socket.h"
#include "os/os.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAINING, TESTING, N_PROGRAMS };

struct qn_device_half {
    qn_halves_options o;
    qn_peer peer;
    qn_engine *engine;
    qn_link link;
    qn_room *room;     /* for the next checkpoint; null: none is kept */
    int64_t n_values;  /* of the cut, in a batch of training */
    int64_t n_correct; /* of the step at hand */
    int64_t waited_ns;
    qn_status status; /* of the exchange of the step at hand */
    char message[256];
};

static qn_status send_batch(qn_link *link, qn_message kind, int64_t n_valid, const int32_t *labels,
                            int64_t batch, const float *x, int64_t n) {
    const int64_t label_bytes = batch * (int64_t)sizeof *labels;
    const int64_t bytes = label_bytes + qn_link_numbers_bytes(link, n);
    const bool is_test = kind == QN_MESSAGE_TEST;
    QN_TRY(qn_link_send_head(link, kind, bytes + (is_test ? (int64_t)sizeof n_valid : 0)));
    if (is_test)
        QN_TRY(qn_link_send(link, &n_valid, sizeof n_valid));
    QN_TRY(qn_link_send(link, labels, (size_t)label_bytes));
    return qn_link_send_numbers(link, x, n);
}

/* What the peer answers of n samples. */
static qn_status receive_answer(qn_link *link, int64_t n, double *loss, int64_t *n_correct) {
    QN_TRY(qn_link_receive(link, loss, sizeof *loss));
    QN_TRY(qn_link_receive(link, n_correct, sizeof *n_correct));
    if (*n_correct < 0 || *n_correct > n)
        return qn_fail(QN_ERROR_FORMAT,
                       "the peer says that %" PRId64 " of %" PRId64 " samples are right",
                       *n_correct, n);
    return QN_OK;
}

static qn_status exchange(qn_device_half *h, const float *x, const int32_t *labels, float *error,
                          double *loss) {
    qn_link *l = &h->link;
    QN_TRY(send_batch(l, QN_MESSAGE_STEP, 0, labels, h->o.batch, x, h->n_values));
    QN_TRY(qn_link_expect(l, QN_MESSAGE_ANSWER,
                          QN_ANSWER_BYTES + qn_link_numbers_bytes(l, h->n_values)));
    QN_TRY(receive_answer(l, h->o.batch, loss, &h->n_correct));
    return qn_link_receive_numbers(l, error, h->n_values);
}

/* What the operator peer_loss calls. A loss that is no number ends the step. */
static double ask(void *user, qn_tensor tensor, const void *x, const int32_t *labels, void *error) {
    qn_device_half *h = user;
    const int64_t begin = qn_clock_ns();
    double loss = NAN;
    h->status = exchange(h, x, labels, error, &loss);
    h->waited_ns = qn_clock_ns() - begin;
    if (h->status == QN_OK)
        return loss;
    snprintf(h->message, sizeof h->message, "%s", qn_error_message());
    memset(error, 0, (size_t)qn_shape_count(tensor.shape) * sizeof(float));
    return (double)NAN;
}

static qn_value build_front(qn_graph *graph, void *user, int phase, qn_value *kept) {
    qn_device_half *h = user;
    (void)phase;
    (void)kept;
    const qn_value value = qn_halves_front(graph, &h->o, h->o.batch);
    const qn_value labels = qn_label(graph, "label", QN_I32, QN_SHAPE(h->o.batch));
    const qn_value loss = qn_peer_loss(graph, "loss", value, labels, &h->peer);
    qn_result(graph, loss);
    return loss;
}

static qn_value build_front_test(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_device_half *h = user;
    (void)phase;
    (void)kept;
    qn_result(graph, qn_halves_front(graph, &h->o, h->o.test_batch));
    return QN_NO_VALUE;
}

/* Both sides agree within QN_HALVES_HANDSHAKE seconds, and the peer may then make its half. */
static qn_status greet_once(qn_device_half *h, const qn_tls_key *key) {
    char text[QN_LINK_TEXT];
    int64_t step;
    h->link.end_ns = qn_clock_ns() + (int64_t)QN_HALVES_HANDSHAKE * 1000000000;
    if (key)
        QN_TRY(qn_tls_create(key, false, h->link.connection, h->link.end_ns, &h->link.tls));
    qn_halves_print(&h->o, text);
    QN_TRY(qn_link_send_text(&h->link, QN_MESSAGE_HELLO, text));
    h->link.end_ns = 0;
    QN_TRY(qn_link_expect(&h->link, QN_MESSAGE_READY, sizeof step));
    QN_TRY(qn_link_receive(&h->link, &step, sizeof step));
    if (step != h->o.step)
        return qn_fail(QN_ERROR_FORMAT,
                       "the peer is at step %" PRId64 ", and this half at step %" PRId64, step,
                       h->o.step);
    return QN_OK;
}

/* A peer that others press gives up connections: then it is tried again, a few times. */
static qn_status greet(qn_device_half *h, const qn_device_options *how) {
    enum { TRIES = 6, FIRST_PAUSE_MS = 50 };
    for (int i = 1;; i++) {
        if (how->place)
            QN_TRY(qn_socket_connect(how->place, &h->link.connection));
        const qn_status status = greet_once(h, how->key);
        if (status != QN_ERROR_IO || !how->place || h->link.was_refused || i == TRIES)
            return status;
        qn_tls_destroy(h->link.tls);
        qn_socket_close(h->link.connection);
        h->link.tls = NULL;
        h->link.connection = -1;
        qn_sleep_ns((int64_t)FIRST_PAUSE_MS * 1000000 << i);
    }
}

/* The run that a checkpoint of the front is of. */
static qn_status go_on(qn_device_half *h, const char *path) {
    QN_TRY(qn_checkpoint_load(h->engine, path, true));
    h->o.step = qn_engine_steps(h->engine);
    return qn_halves_resume(path, &h->o);
}

static qn_status begin_device(qn_device_half *h, const qn_device_options *how) {
    const qn_engine_options options = qn_halves_engine(&h->o, how->n_threads, how->memory_bytes);
    const qn_program_options programs[N_PROGRAMS] = {
        {QN_OPTIONS_INIT(qn_program_options), .training = true, .user = h, .build = build_front},
        {QN_OPTIONS_INIT(qn_program_options), .user = h, .build = build_front_test}};
    QN_TRY(qn_halves_check(&h->o));
    QN_TRY(qn_engine_create(&options, programs, N_PROGRAMS, &h->engine));
    h->o.step = 0;
    QN_TRY(how->path ? go_on(h, how->path) : qn_halves_name_run(h->o.run));
    const int64_t n = qn_shape_count(qn_engine_result_shape(h->engine, TESTING, 0));
    h->n_values = n / h->o.test_batch * h->o.batch;
    QN_TRY(qn_halves_open_link(&h->link, n / h->o.test_batch, &h->o));
    return greet(h, how);
}

qn_status qn_device_half_create(const qn_halves_options *options, const qn_device_options *how,
                                qn_device_half **half) {
    qn_device_half *h;
    qn_status status = qn_allocate(qn_allocator_default(), 1, sizeof *h, &h);
    if (status != QN_OK) {
        qn_socket_close(how->place ? -1 : how->connection);
        return status;
    }
    h->o = *options;
    h->link =
        (qn_link){.connection = how->place ? -1 : how->connection, .seconds = QN_HALVES_PATIENCE};
    h->peer = (qn_peer){h, ask};
    status = begin_device(h, how);
    if (status != QN_OK) {
        h->status = status;
        qn_device_half_destroy(h);
        return status;
    }
    *half = h;
    return QN_OK;
}

void qn_device_half_destroy(qn_device_half *h) {
    if (!h)
        return;
    if (h->status == QN_OK)
        (void)qn_link_send_head(&h->link, QN_MESSAGE_BYE, 0);
    qn_halves_close_link(&h->link);
    qn_socket_close(h->link.connection);
    qn_room_close(h->room);
    qn_engine_destroy(h->engine);
    qn_release(qn_allocator_default(), h, 1, sizeof *h);
}

const qn_engine *qn_device_half_engine(const qn_device_half *h) {
    return h->engine;
}

const qn_halves_options *qn_device_half_options(const qn_device_half *h) {
    return &h->o;
}

const qn_link *qn_device_half_link(const qn_device_half *h) {
    return &h->link;
}

qn_status qn_device_half_step(qn_device_half *h, const float *x, const int32_t *y,
                              qn_half_result *r) {
    const qn_status status = qn_engine_run(h->engine, TRAINING, (const void *[]){x, y});
    if (h->status != QN_OK) /* whose message was replaced by that of a loss that is no number */
        return qn_fail(h->status, "step %" PRId64 ": %s", qn_engine_steps(h->engine) + 1,
                       h->message);
    QN_TRY(status);
    const float *loss = qn_engine_result(h->engine, TRAINING, 0);
    *r = (qn_half_result){(double)*loss, h->n_correct, h->waited_ns};
    return QN_OK;
}

static qn_status test(qn_device_half *h, const float *x, const int32_t *y, int64_t n_valid,
                      qn_half_result *r) {
    QN_TRY(qn_engine_run(h->engine, TESTING, (const void *[]){x}));
    const int64_t begin = qn_clock_ns();
    const int64_t n = qn_shape_count(qn_engine_result_shape(h->engine, TESTING, 0));
    const float *value = qn_engine_result(h->engine, TESTING, 0);
    QN_TRY(send_batch(&h->link, QN_MESSAGE_TEST, n_valid, y, h->o.test_batch, value, n));
    QN_TRY(qn_link_expect(&h->link, QN_MESSAGE_ANSWER, QN_ANSWER_BYTES));
    QN_TRY(receive_answer(&h->link, n_valid, &r->loss, &r->n_correct));
    r->waited_ns = qn_clock_ns() - begin;
    return QN_OK;
}

qn_status qn_device_half_test(qn_device_half *h, const float *x, const int32_t *y, int64_t n_valid,
                              qn_half_result *r) {
    return h->status = test(h, x, y, n_valid, r);
}

static qn_status save_both(qn_device_half *h, const qn_metadata *pairs, const char *path) {
    int64_t step;
    QN_TRY(qn_link_send_head(&h->link, QN_MESSAGE_SAVE, 0));
    QN_TRY(qn_link_expect(&h->link, QN_MESSAGE_READY, sizeof step));
    QN_TRY(qn_link_receive(&h->link, &step, sizeof step));
    if (step != qn_engine_steps(h->engine))
        return qn_fail(QN_ERROR_FORMAT, "the peer saved step %" PRId64 " instead of %" PRId64, step,
                       qn_engine_steps(h->engine));
    return qn_halves_save(h->engine, &h->o, pairs, h->room, path);
}

qn_status qn_device_half_keep_room(qn_device_half *h, const qn_metadata *pairs, const char *path) {
    return qn_halves_keep_room(h->engine, &h->o, pairs, path, &h->room);
}

qn_status qn_device_half_save(qn_device_half *h, const qn_metadata *pairs, const char *path) {
    return h->status = save_both(h, pairs, path);
}
