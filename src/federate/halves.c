/* See halves.h. Both halves build the whole network, cut it (passes/cut.h) and keep their part: a
 * name says where the cut is, and names of parameters, of which initial weights are drawn, are
 * those of the whole. */
#include "federate/halves.h"

#include "base/memory.h"
#include "base/status.h"
#include "federate/halves_build.h"
#include "ops/loss.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/socket.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRAINING, TESTING, N_PROGRAMS };

/* ---- the device ---- */

struct qn_device_half {
    qn_halves_options o;
    qn_peer peer;
    qn_engine *engine;
    qn_link link;
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

static qn_status receive_answer(qn_link *link, double *loss, int64_t *n_correct) {
    QN_TRY(qn_link_receive(link, loss, sizeof *loss));
    return qn_link_receive(link, n_correct, sizeof *n_correct);
}

enum { ANSWER_BYTES = sizeof(double) + sizeof(int64_t) };

static qn_status exchange(qn_device_half *h, const float *x, const int32_t *labels, float *error,
                          double *loss) {
    qn_link *l = &h->link;
    QN_TRY(send_batch(l, QN_MESSAGE_STEP, 0, labels, h->o.batch, x, h->n_values));
    QN_TRY(
        qn_link_expect(l, QN_MESSAGE_ANSWER, ANSWER_BYTES + qn_link_numbers_bytes(l, h->n_values)));
    QN_TRY(receive_answer(l, loss, &h->n_correct));
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

/* Room for numbers as bytes, of the larger batch. */
static qn_status make_room(qn_link *link, int64_t n_of_a_sample, const qn_halves_options *o) {
    const int64_t most = o->batch > o->test_batch ? o->batch : o->test_batch;
    if (!o->is_int8)
        return QN_OK;
    link->is_int8 = true;
    link->n_bytes = most * n_of_a_sample;
    return qn_allocate(qn_allocator_default(), (size_t)link->n_bytes, 1, &link->bytes);
}

static void close_link(qn_link *link) {
    qn_socket_close(link->connection);
    qn_release(qn_allocator_default(), link->bytes, (size_t)link->n_bytes, 1);
}

static qn_status greet(qn_device_half *h) {
    char text[QN_LINK_TEXT];
    int64_t step;
    qn_halves_print(&h->o, text);
    QN_TRY(qn_link_send_text(&h->link, QN_MESSAGE_HELLO, text));
    QN_TRY(qn_link_expect(&h->link, QN_MESSAGE_READY, sizeof step));
    QN_TRY(qn_link_receive(&h->link, &step, sizeof step));
    if (step != h->o.step)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the peer is at step %" PRId64 ", and this half at step %" PRId64, step,
                       h->o.step);
    return QN_OK;
}

static qn_status begin_device(qn_device_half *h, int n_threads, const char *path) {
    const qn_engine_options options = qn_halves_engine(&h->o, n_threads);
    const qn_program_options programs[N_PROGRAMS] = {
        {QN_OPTIONS_INIT(qn_program_options), .training = true, .user = h, .build = build_front},
        {QN_OPTIONS_INIT(qn_program_options), .user = h, .build = build_front_test}};
    QN_TRY(qn_halves_check(&h->o));
    QN_TRY(qn_engine_create(&options, programs, N_PROGRAMS, &h->engine));
    if (path)
        QN_TRY(qn_checkpoint_load(h->engine, path, true));
    h->o.step = qn_engine_steps(h->engine);
    const int64_t n = qn_shape_count(qn_engine_result_shape(h->engine, TESTING, 0));
    h->n_values = n / h->o.test_batch * h->o.batch;
    QN_TRY(make_room(&h->link, n / h->o.test_batch, &h->o));
    return greet(h);
}

qn_status qn_device_half_create(const qn_halves_options *options, int n_threads, int connection,
                                const char *path, qn_device_half **half) {
    qn_device_half *h;
    qn_status status = qn_allocate(qn_allocator_default(), 1, sizeof *h, &h);
    if (status != QN_OK) {
        qn_socket_close(connection);
        return status;
    }
    h->o = *options;
    h->link = (qn_link){.connection = connection, .seconds = QN_HALVES_PATIENCE};
    h->peer = (qn_peer){h, ask};
    status = begin_device(h, n_threads, path);
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
    close_link(&h->link);
    qn_engine_destroy(h->engine);
    qn_release(qn_allocator_default(), h, 1, sizeof *h);
}

const qn_engine *qn_device_half_engine(const qn_device_half *h) {
    return h->engine;
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
    QN_TRY(qn_link_expect(&h->link, QN_MESSAGE_ANSWER, ANSWER_BYTES));
    QN_TRY(receive_answer(&h->link, &r->loss, &r->n_correct));
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
    return qn_checkpoint_save(h->engine, pairs, path);
}

qn_status qn_device_half_save(qn_device_half *h, const qn_metadata *pairs, const char *path) {
    return h->status = save_both(h, pairs, path);
}

/* ---- the peer ---- */

typedef struct peer_half {
    const qn_peer_options *how;
    qn_halves_options o;
    qn_engine *engine;
    qn_link link;
    int64_t n; /* numbers of the cut, in a sample */
    float *x;
    int32_t *labels;
    int64_t most; /* samples that they have room for */
} peer_half;

static qn_value build_back(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const peer_half *p = user;
    qn_value labels;
    (void)phase;
    (void)kept;
    const qn_value outputs = qn_halves_back(graph, &p->o, p->o.batch, true, &labels);
    const qn_value loss = qn_mean(
        graph, "loss",
        qn_softmax_cross_entropy(graph, "loss.samples", outputs, labels, p->o.label_smoothing));
    qn_result(graph, loss);
    qn_result(graph, outputs);
    return loss;
}

static qn_value build_back_test(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const peer_half *p = user;
    qn_value labels;
    (void)phase;
    (void)kept;
    const qn_value outputs = qn_halves_back(graph, &p->o, p->o.test_batch, false, &labels);
    qn_result(graph, qn_softmax_cross_entropy(graph, "loss.samples", outputs, labels, 0));
    qn_result(graph, outputs);
    return QN_NO_VALUE;
}

/* The checkpoint of the step that the device goes on from: the newest, or the one before. */
static qn_status load_step(peer_half *p) {
    char before[QN_HALVES_PATH];
    const char *path = p->how->path;
    if (p->o.step == 0)
        return QN_OK;
    if (!path)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the device goes on from step %" PRId64
                       ", and this peer keeps nothing (--save)",
                       p->o.step);
    QN_TRY(qn_halves_before(path, before));
    const char *const paths[] = {path, before};
    for (int i = 0; i < 2; i++) {
        if (!qn_path_is_file(paths[i]))
            continue;
        QN_TRY(qn_checkpoint_load(p->engine, paths[i], true));
        if (qn_engine_steps(p->engine) == p->o.step)
            return QN_OK;
    }
    return qn_fail(QN_ERROR_ARGUMENT, "the device goes on from step %" PRId64 ", which %s is not",
                   p->o.step, path);
}

static qn_status greet_device(peer_half *p) {
    char text[QN_LINK_TEXT];
    qn_message kind;
    int64_t length;
    QN_TRY(qn_link_receive_head(&p->link, &kind, &length));
    if (kind != QN_MESSAGE_HELLO)
        return qn_fail(QN_ERROR_FORMAT, "the device began with message %d", (int)kind);
    QN_TRY(qn_link_receive_text(&p->link, length, text));
    QN_TRY(qn_halves_parse(text, &p->o));
    return qn_halves_check(&p->o);
}

static qn_status say_ready(peer_half *p) {
    const int64_t step = qn_engine_steps(p->engine);
    QN_TRY(qn_link_send_head(&p->link, QN_MESSAGE_READY, sizeof step));
    return qn_link_send(&p->link, &step, sizeof step);
}

static qn_status begin_peer(peer_half *p) {
    const qn_allocator *heap = qn_allocator_default();
    QN_TRY(greet_device(p));
    const qn_engine_options options = qn_halves_engine(&p->o, p->how->n_threads);
    const qn_program_options programs[N_PROGRAMS] = {
        {QN_OPTIONS_INIT(qn_program_options), .training = true, .user = p, .build = build_back},
        {QN_OPTIONS_INIT(qn_program_options), .user = p, .build = build_back_test}};
    QN_TRY(qn_engine_create(&options, programs, N_PROGRAMS, &p->engine));
    p->most = p->o.batch > p->o.test_batch ? p->o.batch : p->o.test_batch;
    p->n = qn_shape_count(qn_engine_input_at(p->engine, TRAINING, 0).shape) / p->o.batch;
    QN_TRY(make_room(&p->link, p->n, &p->o));
    QN_TRY(qn_allocate(heap, (size_t)(p->most * p->n), sizeof *p->x, &p->x));
    QN_TRY(qn_allocate(heap, (size_t)p->most, sizeof *p->labels, &p->labels));
    QN_TRY(load_step(p));
    if (p->how->began)
        p->how->began(p->how->user, &p->o, p->o.step);
    return say_ready(p);
}

static qn_status receive_batch(peer_half *p, int64_t batch) {
    QN_TRY(qn_link_receive(&p->link, p->labels, (size_t)batch * sizeof *p->labels));
    for (int64_t i = 0; i < batch; i++) {
        if (p->labels[i] < -1 || p->labels[i] >= p->o.n_outputs) /* -1: padding */
            return qn_fail(QN_ERROR_FORMAT, "sample %" PRId64 " has class %d, and there are %d", i,
                           p->labels[i], p->o.n_outputs);
    }
    return qn_link_receive_numbers(&p->link, p->x, batch * p->n);
}

static int64_t count_correct(const peer_half *p, int program, int64_t n) {
    const float *outputs = qn_engine_result(p->engine, program, 1);
    int64_t n_correct = 0;
    for (int64_t i = 0; i < n; i++, outputs += p->o.n_outputs) {
        int best = 0;
        for (int c = 1; c < p->o.n_outputs; c++)
            best = outputs[c] > outputs[best] ? c : best;
        n_correct += best == p->labels[i];
    }
    return n_correct;
}

static qn_status answer(peer_half *p, double loss, int64_t n_correct, const float *error,
                        int64_t n) {
    const int64_t more = error ? qn_link_numbers_bytes(&p->link, n) : 0;
    QN_TRY(qn_link_send_head(&p->link, QN_MESSAGE_ANSWER, ANSWER_BYTES + more));
    QN_TRY(qn_link_send(&p->link, &loss, sizeof loss));
    QN_TRY(qn_link_send(&p->link, &n_correct, sizeof n_correct));
    return error ? qn_link_send_numbers(&p->link, error, n) : QN_OK;
}

static qn_status do_step(peer_half *p) {
    enum { LOSS, OUTPUTS, ERROR };
    const int64_t n = p->o.batch;
    QN_TRY(receive_batch(p, n));
    QN_TRY(qn_engine_run(p->engine, TRAINING, (const void *[]){p->x, p->labels}));
    const float *loss = qn_engine_result(p->engine, TRAINING, LOSS);
    return answer(p, (double)*loss, count_correct(p, TRAINING, n),
                  qn_engine_result(p->engine, TRAINING, ERROR), n * p->n);
}

static qn_status do_test(peer_half *p) {
    int64_t n_valid;
    double sum = 0;
    QN_TRY(qn_link_receive(&p->link, &n_valid, sizeof n_valid));
    if (n_valid < 0 || n_valid > p->o.test_batch)
        return qn_fail(QN_ERROR_FORMAT, "%" PRId64 " samples of a batch of %" PRId64, n_valid,
                       p->o.test_batch);
    QN_TRY(receive_batch(p, p->o.test_batch));
    QN_TRY(qn_engine_run(p->engine, TESTING, (const void *[]){p->x, p->labels}));
    const float *losses = qn_engine_result(p->engine, TESTING, 0);
    for (int64_t i = 0; i < n_valid; i++)
        sum += (double)losses[i];
    return answer(p, sum, count_correct(p, TESTING, n_valid), NULL, 0);
}

static qn_status do_save(peer_half *p) {
    if (!p->how->path)
        return qn_fail(QN_ERROR_ARGUMENT, "the peer has no file to save to (--save)");
    QN_TRY(qn_halves_keep(p->how->path));
    QN_TRY(qn_checkpoint_save(p->engine, NULL, p->how->path));
    return say_ready(p);
}

static qn_status do_message(peer_half *p, qn_message kind, int64_t length) {
    const int64_t batch = kind == QN_MESSAGE_TEST ? p->o.test_batch : p->o.batch;
    const int64_t batch_bytes =
        batch * (int64_t)sizeof *p->labels + qn_link_numbers_bytes(&p->link, batch * p->n);
    if (kind == QN_MESSAGE_STEP && length == batch_bytes)
        return do_step(p);
    if (kind == QN_MESSAGE_TEST && length == batch_bytes + (int64_t)sizeof(int64_t))
        return do_test(p);
    if (kind == QN_MESSAGE_SAVE && length == 0)
        return do_save(p);
    return qn_fail(QN_ERROR_FORMAT, "message %d of %" PRId64 " bytes was not expected", (int)kind,
                   length);
}

static qn_status serve(peer_half *p) {
    QN_TRY(begin_peer(p));
    for (;;) {
        qn_message kind;
        int64_t length;
        QN_TRY(qn_link_receive_head(&p->link, &kind, &length));
        if (kind == QN_MESSAGE_BYE)
            return QN_OK;
        QN_TRY(do_message(p, kind, length));
    }
}

/* Says why it ends, to the device if it still listens, and keeps the message. */
static qn_status tell(qn_link *link, qn_status why) {
    char text[QN_LINK_TEXT];
    snprintf(text, sizeof text, "%s", qn_error_message());
    (void)qn_link_send_text(link, QN_MESSAGE_FAILURE, text);
    return qn_fail(why, "%s", text);
}

qn_status qn_peer_half_serve(const qn_peer_options *how, int connection, int64_t *n_steps) {
    const qn_allocator *heap = qn_allocator_default();
    peer_half p = {.how = how, .link = {.connection = connection, .seconds = QN_HALVES_PATIENCE}};
    qn_status status = serve(&p);
    if (status != QN_OK)
        status = tell(&p.link, status);
    *n_steps = p.engine ? qn_engine_steps(p.engine) - p.o.step : 0;
    close_link(&p.link);
    qn_release(heap, p.labels, (size_t)p.most, sizeof *p.labels);
    qn_release(heap, p.x, (size_t)(p.most * p.n), sizeof *p.x);
    qn_engine_destroy(p.engine);
    return status;
}
