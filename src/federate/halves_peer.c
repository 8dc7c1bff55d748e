/* The peer's half; see halves.h. What a device says is a stranger's: its options are bounded by the
 * peer's own limits before anything of their size is allocated, and a checkpoint is read and
 * written for the run that it belongs to alone. */
#include "federate/halves.h"

#include "base/memory.h"
#include "base/status.h"
#include "federate/halves_build.h"
#include "federate/tls.h"
#include "os/heap.h"
#include "os/network/socket.h"
#include "os/os.h"
#include "os/process/interrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { TRAINING, TESTING, N_PROGRAMS };

typedef struct peer_half {
    const qn_peer_options *how;
    qn_halves_options o;
    qn_engine *engine;
    qn_link link;
    int64_t n; /* numbers of the cut, in a sample */
    float *x;
    int32_t *labels;
    int64_t most;              /* samples that they have room for */
    char path[QN_HALVES_PATH]; /* of the run's checkpoint; "": none */
    int64_t kept;              /* step of the checkpoint there, of this run; -1: there is none */
    int64_t confirmed;         /* step that the device is known to have on its side */
    bool has_saved;            /* and the device has not spoken since */
    qn_room *room, *before;    /* for the next checkpoint, and for a copy of the one it replaces */
} peer_half;

/* ---- the graph ---- */

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

static void enter(const peer_half *p) {
    if (p->how->enter)
        p->how->enter(p->how->user);
}

static void leave(const peer_half *p) {
    if (p->how->leave)
        p->how->leave(p->how->user);
}

/* ---- agreeing ---- */

/* Without a key, a device that has one is told so, and the other way round. */
static qn_status begin_tls(peer_half *p) {
    uint8_t first[QN_LINK_MAGIC];
    if (!p->how->key)
        return QN_OK;
    QN_TRY(qn_socket_peek(p->link.connection, first, sizeof first, p->link.end_ns));
    if (qn_link_is_magic(first))
        return qn_fail(QN_ERROR_FORMAT, "this peer serves only devices that have its key (--key)");
    return qn_tls_create(p->how->key, true, p->link.connection, p->link.end_ns, &p->link.tls);
}

static qn_status read_hello(peer_half *p) {
    char text[QN_LINK_TEXT];
    qn_message kind;
    int64_t length;
    QN_TRY(qn_link_receive_head(&p->link, &kind, &length));
    if (kind != QN_MESSAGE_HELLO)
        return qn_fail(QN_ERROR_FORMAT, "the device began with message %d", (int)kind);
    QN_TRY(qn_link_receive_text(&p->link, length, text));
    return qn_halves_parse(text, &p->o);
}

static qn_status check_wishes(const peer_half *p) {
    const qn_model *model = p->how->model;
    if (model && model != p->o.model)
        return qn_fail(QN_ERROR_ARGUMENT, "this peer trains %s alone (--model)", model->name);
    if (p->o.saves && !p->how->path)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the device wants to save, and this peer keeps nothing (--save)");
    return qn_halves_check(&p->o);
}

/* ---- checkpoints ---- */

/* The run's own file in a folder, or the one file. */
static qn_status find_path(peer_half *p) {
    const char *path = p->how->path;
    int n = 0;
    if (path && qn_path_is_folder(path))
        n = snprintf(p->path, sizeof p->path, "%s/%.16s.safetensors", path, p->o.run);
    else if (path)
        n = snprintf(p->path, sizeof p->path, "%s", path);
    return n < (int)sizeof p->path ? QN_OK
                                   : qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", path);
}

/* The step of the checkpoint there, which must be of this run; -1: there is none. */
static qn_status find_kept(const peer_half *p, const char *path, int64_t *step) {
    *step = -1;
    return qn_path_is_file(path) ? qn_halves_check_run(path, &p->o, step) : QN_OK;
}

/* The checkpoint of the step that the device goes on from: the newest, or the one before. */
static qn_status load_step(peer_half *p) {
    char before[QN_HALVES_PATH];
    int64_t kept_before;
    QN_TRY(qn_halves_before(p->path, before));
    QN_TRY(find_kept(p, before, &kept_before));
    if (p->o.step == p->kept)
        return qn_checkpoint_load(p->engine, p->path, true);
    if (p->o.step == kept_before)
        return qn_checkpoint_load(p->engine, before, true);
    if (p->kept < 0)
        return qn_fail(QN_ERROR_ARGUMENT, "this peer has no checkpoint of the device's run");
    return qn_fail(QN_ERROR_ARGUMENT,
                   "the device goes on from step %" PRId64 "; this peer has step %" PRId64
                   " of that run and the one saved before",
                   p->o.step, p->kept);
}

static qn_status open_checkpoint(peer_half *p) {
    p->kept = -1;
    p->confirmed = p->o.step;
    QN_TRY(find_path(p));
    if (p->path[0])
        QN_TRY(find_kept(p, p->path, &p->kept));
    if (p->o.step == 0)
        return QN_OK;
    if (!p->path[0])
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the device goes on from step %" PRId64
                       ", and this peer keeps nothing (--save)",
                       p->o.step);
    return load_step(p);
}

/* A full disk is found before the device trains. */
static qn_status keep_room(peer_half *p) {
    char before[QN_HALVES_PATH];
    if (!p->o.saves || !p->path[0])
        return QN_OK;
    QN_TRY(qn_halves_before(p->path, before));
    QN_TRY(qn_halves_keep_room(p->engine, &p->o, NULL, p->path, &p->room));
    return qn_halves_keep_room(p->engine, &p->o, NULL, before, &p->before);
}

/* A copy is made beside the room, which goes for so long. */
static qn_status keep_before(peer_half *p) {
    qn_room_give(p->before);
    QN_TRY(qn_halves_keep(p->path));
    (void)qn_room_renew(p->before);
    return QN_OK;
}

/* The checkpoint that is replaced is kept if the device is known to have its step: what follows may
 * be lost on the device's side. A step before the kept one cannot come from an honest device. */
static qn_status save(peer_half *p) {
    const int64_t step = qn_engine_steps(p->engine);
    if (!p->path[0])
        return qn_fail(QN_ERROR_ARGUMENT, "the peer has no file to save to (--save)");
    if (step < p->kept)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "the peer has step %" PRId64 " of this run, and keeps it instead of step "
                       "%" PRId64,
                       p->kept, step);
    if (p->kept >= 0 && p->kept == p->confirmed && p->kept < step)
        QN_TRY(keep_before(p));
    QN_TRY(qn_halves_save(p->engine, &p->o, NULL, p->room, p->path));
    p->kept = step;
    p->has_saved = true;
    return QN_OK;
}

/* ---- beginning ---- */

static qn_status say_ready(peer_half *p) {
    const int64_t step = qn_engine_steps(p->engine);
    QN_TRY(qn_link_send_head(&p->link, QN_MESSAGE_READY, sizeof step));
    return qn_link_send(&p->link, &step, sizeof step);
}

/* Bytes of the batches beside the engine. */
static size_t batch_bytes(const peer_half *p) {
    const size_t sample = (size_t)p->n * (sizeof *p->x + (p->o.is_int8 ? 1 : 0));
    return (size_t)p->most * (sample + sizeof *p->labels);
}

/* What the engine may take: the limit without the batches. */
static qn_status find_budget(const peer_half *p, size_t *bytes) {
    const size_t limit = p->how->memory_bytes, batches = batch_bytes(p);
    *bytes = limit > batches ? limit - batches : 0;
    if (limit == 0 || *bytes > 0)
        return QN_OK;
    return qn_fail(QN_ERROR_MEMORY,
                   "the device's batches take %zu bytes; this peer gives a device %zu (--memory, "
                   "--devices)",
                   batches, limit);
}

static qn_status make_engine(peer_half *p) {
    size_t budget;
    p->most = p->o.batch > p->o.test_batch ? p->o.batch : p->o.test_batch;
    QN_TRY(qn_halves_count(&p->o, &p->n));
    QN_TRY(find_budget(p, &budget));
    const qn_engine_options options = qn_halves_engine(&p->o, p->how->n_threads, budget);
    const qn_program_options programs[N_PROGRAMS] = {
        {QN_OPTIONS_INIT(qn_program_options), .training = true, .user = p, .build = build_back},
        {QN_OPTIONS_INIT(qn_program_options), .user = p, .build = build_back_test}};
    return qn_engine_create(&options, programs, N_PROGRAMS, &p->engine);
}

static qn_status allocate_batches(peer_half *p) {
    const qn_allocator *heap = qn_allocator_default();
    QN_TRY(qn_halves_open_link(&p->link, p->n, &p->o));
    QN_TRY(qn_allocate(heap, (size_t)(p->most * p->n), sizeof *p->x, &p->x));
    return qn_allocate(heap, (size_t)p->most, sizeof *p->labels, &p->labels);
}

static qn_status begin_peer(peer_half *p) {
    p->link.end_ns = qn_clock_ns() + (int64_t)QN_HALVES_HANDSHAKE * 1000000000;
    QN_TRY(begin_tls(p));
    QN_TRY(read_hello(p));
    p->link.end_ns = 0;
    QN_TRY(check_wishes(p));
    if (p->how->claim)
        QN_TRY(p->how->claim(p->how->user, &p->o));
    enter(p);
    qn_status status = make_engine(p);
    leave(p);
    if (status == QN_OK)
        status = allocate_batches(p);
    QN_TRY(status);
    QN_TRY(open_checkpoint(p));
    QN_TRY(keep_room(p));
    if (p->how->began)
        p->how->began(p->how->user, &p->o, p->o.step);
    return say_ready(p);
}

/* ---- running ---- */

static qn_status receive_batch(peer_half *p, int64_t batch) {
    QN_TRY(qn_link_receive(&p->link, p->labels, (size_t)batch * sizeof *p->labels));
    for (int64_t i = 0; i < batch; i++) {
        if (p->labels[i] < -1 || p->labels[i] >= p->o.n_outputs) /* -1: padding */
            return qn_fail(QN_ERROR_FORMAT, "sample %" PRId64 " has class %d, and there are %d", i,
                           p->labels[i], p->o.n_outputs);
    }
    return qn_link_receive_numbers(&p->link, p->x, batch * p->n);
}

/* In this device's turn. */
static qn_status run(peer_half *p, int program) {
    enter(p);
    const qn_status status = qn_engine_run(p->engine, program, (const void *[]){p->x, p->labels});
    leave(p);
    return status;
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
    QN_TRY(qn_link_send_head(&p->link, QN_MESSAGE_ANSWER, QN_ANSWER_BYTES + more));
    QN_TRY(qn_link_send(&p->link, &loss, sizeof loss));
    QN_TRY(qn_link_send(&p->link, &n_correct, sizeof n_correct));
    return error ? qn_link_send_numbers(&p->link, error, n) : QN_OK;
}

static qn_status do_step(peer_half *p) {
    enum { LOSS, OUTPUTS, ERROR };
    const int64_t n = p->o.batch;
    QN_TRY(receive_batch(p, n));
    QN_TRY(run(p, TRAINING));
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
    QN_TRY(run(p, TESTING));
    const float *losses = qn_engine_result(p->engine, TESTING, 0);
    for (int64_t i = 0; i < n_valid; i++)
        sum += (double)losses[i];
    return answer(p, sum, count_correct(p, TESTING, n_valid), NULL, 0);
}

static qn_status do_save(peer_half *p) {
    QN_TRY(save(p));
    return say_ready(p);
}

static qn_status do_message(peer_half *p, qn_message kind, int64_t length) {
    const int64_t batch = kind == QN_MESSAGE_TEST ? p->o.test_batch : p->o.batch;
    const int64_t expected =
        batch * (int64_t)sizeof *p->labels + qn_link_numbers_bytes(&p->link, batch * p->n);
    if (kind == QN_MESSAGE_STEP && length == expected)
        return do_step(p);
    if (kind == QN_MESSAGE_TEST && length == expected + (int64_t)sizeof(int64_t))
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
        if (p->has_saved) /* a device speaks on only when it has written its own half */
            p->confirmed = p->kept;
        p->has_saved = false;
        if (qn_was_interrupted())
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped");
        if (kind == QN_MESSAGE_BYE)
            return QN_OK;
        QN_TRY(do_message(p, kind, length));
    }
}

/* Says why it ends, to the device if it still listens, and keeps the message. */
static qn_status report(qn_link *link, qn_status why) {
    char text[QN_LINK_TEXT];
    snprintf(text, sizeof text, "%s", qn_error_message());
    link->seconds = 1;
    link->end_ns = 0;
    (void)qn_link_send_text(link, QN_MESSAGE_FAILURE,
                            why == QN_ERROR_INTERRUPTED ? "the peer was stopped" : text);
    return qn_fail(why, "%s", text);
}

qn_status qn_peer_half_serve(const qn_peer_options *how, int connection, int64_t *n_steps) {
    const qn_allocator *heap = qn_allocator_default();
    peer_half p = {.how = how, .link = {.connection = connection, .seconds = QN_HALVES_PATIENCE}};
    qn_status status = serve(&p);
    if (status != QN_OK)
        status = report(&p.link, status);
    *n_steps = p.engine ? qn_engine_steps(p.engine) - p.o.step : 0;
    qn_room_close(p.room);
    qn_room_close(p.before);
    qn_halves_close_link(&p.link);
    qn_release(heap, p.labels, (size_t)p.most, sizeof *p.labels);
    qn_release(heap, p.x, (size_t)(p.most * p.n), sizeof *p.x);
    qn_engine_destroy(p.engine);
    return status;
}
