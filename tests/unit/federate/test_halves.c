/* Split learning: wherever a network can be cut, its halves trained over a connection have the bits
 * of the whole trained in one place; with bytes they come near; runs go on from what both saved;
 * and whoever speaks to the peer, it answers or ends with a reason. */
#include "federate/halves.h"

#include "base/memory.h"
#include "os/heap.h"
#include "quern/trainer.h"
#include "split_pair.h"

#include <math.h>

/* The whole network's training, in one place. */
static qn_trainer *train_whole(const qn_halves_options *o, const float *x, double losses[STEPS]) {
    qn_trainer *t;
    qn_trainer_options options = {QN_TRAINER_OPTIONS_INIT,
                                  .model = o->model,
                                  .input = o->input,
                                  .n_outputs = o->n_outputs,
                                  .batch = o->batch,
                                  .evaluation_batch = o->test_batch,
                                  .label_smoothing = o->label_smoothing};
    options.engine.update = o->update;
    options.engine.seed = o->seed;
    options.engine.n_threads = 1;
    CHECK_OK(qn_trainer_create(&options, &t));
    for (int i = 0; i < STEPS; i++) {
        qn_step_result r;
        CHECK_OK(qn_trainer_step(t, x + i * BATCH * qn_shape_count(o->input), labels[i], &r));
        losses[i] = r.loss;
    }
    return t;
}

/* How many of the half's tensors are the whole's, bit for bit; all must be. */
static int count_equal(const qn_engine *half, const qn_engine *whole) {
    const int n = qn_engine_tensor_count(half);
    for (int i = 0; i < n; i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(half, i);
        const qn_stored_tensor w = qn_engine_find(whole, t.name);
        CHECK(w.data && w.bytes == t.bytes);
        CHECK(w.data && memcmp(w.data, t.data, t.bytes) == 0);
    }
    return n;
}

/* ---- bits ---- */

/* Both checkpoints joined are the whole's weights. */
static void check_joined(const char *front, const char *back, const qn_trainer *whole,
                         const qn_halves_options *o) {
    char joined[] = "/tmp/test_halves_joined.XXXXXX";
    qn_trainer *t;
    qn_trainer_options options = {QN_TRAINER_OPTIONS_INIT, .model = o->model, .input = o->input,
                                  .n_outputs = o->n_outputs, .batch = 1};
    CHECK_OK(qn_halves_join(front, back, make_path(joined)));
    CHECK_OK(qn_trainer_create(&options, &t));
    CHECK_OK(qn_checkpoint_load(qn_trainer_engine(t), joined, false));
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(t)); i++) {
        const qn_stored_tensor ours = qn_engine_tensor_at(qn_trainer_engine(t), i);
        const qn_stored_tensor w = qn_engine_find(qn_trainer_engine(whole), ours.name);
        CHECK(ours.is_state || (w.data && memcmp(w.data, ours.data, ours.bytes) == 0));
    }
    qn_trainer_destroy(t);
    CHECK_FAILS(qn_halves_join(front, front, joined), QN_ERROR_ARGUMENT, "nothing in common");
    unlink(joined);
}

static void train_halves(const qn_halves_options *o, const float *x, const qn_trainer *whole,
                         const double losses[STEPS]) {
    char front[] = "/tmp/test_halves_front.XXXXXX", back[] = "/tmp/test_halves_back.XXXXXX";
    peer p;
    qn_device_half *h;
    qn_half_result r;
    qn_metadata *pairs;
    qn_evaluation sum = {0};
    make_path(front);
    const int connection = start(&p, make_path(back));
    CHECK_OK(qn_metadata_create(NULL, &pairs));
    CHECK_OK(create(o, connection, NULL, &h));
    for (int i = 0; i < STEPS; i++) {
        CHECK_OK(qn_device_half_step(h, x + i * BATCH * qn_shape_count(o->input), labels[i], &r));
        CHECK(r.loss == losses[i]);
    }
    CHECK(count_equal(qn_device_half_engine(h), qn_trainer_engine(whole)) > 0);
    CHECK_OK(qn_device_half_test(h, x, labels[0], 2, &r));
    CHECK_OK(qn_trainer_evaluate((qn_trainer *)(uintptr_t)whole, x, labels[0], 2, &sum));
    CHECK(r.loss == sum.loss_sum && r.n_correct == sum.n_correct);
    CHECK_OK(qn_device_half_save(h, pairs, front));
    check_joined(front, back, whole, o);
    qn_device_half_destroy(h);
    qn_metadata_destroy(pairs);
    finish(&p, QN_OK, "");
    CHECK(p.n_steps == STEPS);
    remove_all(front);
    remove_all(back);
}

/* At every place of a network where it can be cut (stride 1), or at some. */
static void test_cuts(const char *model, qn_shape input, size_t stride, size_t least) {
    const qn_halves_options o = options_of(model, "", input);
    float *x = draw(STEPS * BATCH * qn_shape_count(input), 7);
    double losses[STEPS];
    qn_cut *cuts;
    size_t n, room;
    qn_trainer *whole = train_whole(&o, x, losses);
    CHECK_OK(qn_cuts_list(o.model, input, 3, &cuts, &n, &room));
    CHECK(n >= least);
    for (size_t i = 0; i < n; i += stride) {
        const qn_halves_options here = options_of(model, cuts[i].name, input);
        train_halves(&here, x, whole, losses);
        CHECK(i == 0 || cuts[i].front_flops >= cuts[i - 1].front_flops);
        CHECK(cuts[i].front_flops + cuts[i].back_flops == cuts[0].front_flops + cuts[0].back_flops);
    }
    qn_release(qn_allocator_default(), cuts, room, sizeof *cuts);
    qn_trainer_destroy(whole);
    free(x);
}

/* ---- bytes ---- */

static void test_bytes(void) {
    qn_halves_options o = options_of("lenet5", "pool2", (qn_shape){3, {28, 28, 1}});
    float *x = draw(STEPS * BATCH * 28 * 28, 8);
    double losses[STEPS];
    int64_t sent[2];
    qn_trainer *whole = train_whole(&o, x, losses);
    for (int i = 0; i < 2; i++) {
        peer p;
        qn_device_half *h;
        qn_half_result r;
        o.is_int8 = i == 1;
        CHECK_OK(create(&o, start(&p, NULL), NULL, &h));
        for (int j = 0; j < STEPS; j++) {
            CHECK_OK(qn_device_half_step(h, x + j * BATCH * 28 * 28, labels[j], &r));
            CHECK(fabs(r.loss - losses[j]) <= (i ? 0.02 : 0) && (i == 0 || r.loss != losses[j]));
        }
        sent[i] = qn_device_half_link(h)->n_sent;
        qn_device_half_destroy(h);
        finish(&p, QN_OK, "");
    }
    CHECK(sent[0] > 3 * sent[1]);
    qn_trainer_destroy(whole);
    free(x);
}

/* ---- going on ---- */

/* Saves after the first step, makes another that the device does not save, and goes on. */
static void test_resume(void) {
    char front[] = "/tmp/test_halves_front.XXXXXX", back[] = "/tmp/test_halves_back.XXXXXX";
    char lost[] = "/tmp/test_halves_lost.XXXXXX";
    const qn_halves_options o = options_of("lenet5", "pool1", (qn_shape){3, {28, 28, 1}});
    float *x = draw(STEPS * BATCH * 28 * 28, 9);
    double losses[STEPS];
    qn_trainer *whole = train_whole(&o, x, losses);
    peer p;
    qn_device_half *h;
    qn_half_result r;
    qn_metadata *pairs;
    CHECK_OK(qn_metadata_create(NULL, &pairs));
    make_path(front);
    make_path(back);
    make_path(lost);
    CHECK_OK(create(&o, start(&p, back), NULL, &h));
    for (int i = 0; i < 2; i++) {
        CHECK_OK(qn_device_half_step(h, x + i * BATCH * 28 * 28, labels[i], &r));
        CHECK_OK(qn_device_half_save(h, pairs, i == 0 ? front : lost));
    }
    qn_device_half_destroy(h);
    finish(&p, QN_OK, "");
    CHECK_OK(create(&o, start(&p, back), front, &h));
    for (int i = 1; i < STEPS; i++) {
        CHECK_OK(qn_device_half_step(h, x + i * BATCH * 28 * 28, labels[i], &r));
        CHECK(r.loss == losses[i]);
    }
    CHECK(count_equal(qn_device_half_engine(h), qn_trainer_engine(whole)) > 0);
    qn_device_half_destroy(h);
    finish(&p, QN_OK, "");
    CHECK(p.n_steps == STEPS - 1);
    CHECK_FAILS(create(&o, start(&p, NULL), front, &h), QN_ERROR_IO, "keeps nothing");
    finish(&p, QN_ERROR_ARGUMENT, "keeps nothing");
    qn_metadata_destroy(pairs);
    qn_trainer_destroy(whole);
    remove_all(front);
    remove_all(back);
    remove_all(lost);
    free(x);
}

/* ---- failures ---- */

static void test_wrong_options(void) {
    const qn_shape input = {3, {28, 28, 1}};
    qn_device_half *h;
    peer p;
    qn_halves_options o = options_of("lenet5", "fc2", input);
    CHECK_FAILS(create(&o, -1, NULL, &h), QN_ERROR_ARGUMENT, "cannot be cut");
    o = options_of("lenet5", "nothing", input);
    CHECK_FAILS(create(&o, -1, NULL, &h), QN_ERROR_ARGUMENT, "cannot be cut");
    o = options_of("dcgan", "x", input);
    CHECK_FAILS(create(&o, -1, NULL, &h), QN_ERROR_UNSUPPORTED, "no classifier");
    o = options_of("lenet5", "pool1", input);
    o.update.clip_norm = 1;
    CHECK_FAILS(create(&o, -1, NULL, &h), QN_ERROR_UNSUPPORTED, "all gradients");
    o = options_of("lenet5", "pool1", input);
    const int connection = start(&p, NULL);
    float *x = draw(BATCH * 28 * 28, 3);
    qn_half_result r;
    const int32_t wrong[BATCH] = {0, 1, 3, 0};
    CHECK_OK(create(&o, connection, NULL, &h));
    CHECK_FAILS(qn_device_half_step(h, x, wrong, &r), QN_ERROR_IO, "sample 2 has class 3");
    qn_device_half_destroy(h);
    finish(&p, QN_ERROR_FORMAT, "sample 2 has class 3");
    free(x);
}

/* What somebody sends who is no device, in whole or cut off. */
static void send_to_peer(const void *data, size_t bytes, qn_status status, const char *says) {
    peer p;
    const int connection = start(&p, NULL);
    CHECK_OK(qn_socket_send(connection, data, bytes, qn_clock_ns() + 5000000000));
    qn_socket_close(connection);
    finish(&p, status, says);
}

static void test_hostile(void) {
    char text[QN_LINK_TEXT];
    uint8_t message[QN_LINK_HEAD + QN_LINK_TEXT] = "QNL2\1\0\0\0";
    qn_halves_options o = options_of("mlp", "fc1", (qn_shape){3, {6, 6, 1}}), parsed;
    memcpy(o.run, "0123456789abcdef0123456789abcdef", sizeof o.run);
    qn_halves_print(&o, text);
    CHECK_OK(qn_halves_parse(text, &parsed));
    CHECK(parsed.model == o.model && strcmp(parsed.cut, o.cut) == 0 && parsed.seed == o.seed);
    CHECK(memcmp(&parsed.update, &o.update, sizeof o.update) == 0);
    CHECK(memcmp(&parsed.input, &o.input, sizeof o.input) == 0);
    const size_t n = strlen(text);
    for (size_t i = 0; i < n; i++) { /* cut off anywhere */
        char part[QN_LINK_TEXT] = "";
        memcpy(part, text, i);
        CHECK(qn_halves_parse(part, &parsed) != QN_OK);
    }
    send_to_peer("GET / HTTP/1.1\r\n\r\n", 18, QN_ERROR_FORMAT, "no quern split");
    send_to_peer("QNL2", 4, QN_ERROR_IO, "has gone");
    send_to_peer("QNL2\xff\0\0\0\0\0\0\0\0\0\0\0", 16, QN_ERROR_FORMAT, "unknown kind");
    send_to_peer("QNL2\3\0\0\0\0\0\0\0\0\0\0\0", 16, QN_ERROR_FORMAT, "began with message 3");
    message[8] = 0xff;
    message[9] = 0xff;
    send_to_peer(message, 16, QN_ERROR_FORMAT, "at most");
    message[8] = (uint8_t)n;
    message[9] = (uint8_t)(n >> 8);
    memcpy(message + 16, text, n);
    send_to_peer(message, 16 + n, QN_ERROR_IO, "the other side"); /* agreed, and went */
    memcpy(message + 16, "model mlp\ncut", 13);
    message[16 + 13] = '\n';
    send_to_peer(message, 16 + n, QN_ERROR_FORMAT, "lack");
}

int main(void) {
    test_cuts("lenet5", (qn_shape){3, {28, 28, 1}}, 1, 8);
    test_cuts("squeezenet", (qn_shape){3, {32, 32, 3}}, 9, 10);
    test_cuts("mobilenet-v1", (qn_shape){3, {32, 32, 3}}, 40, 20);
    test_bytes();
    test_resume();
    test_wrong_options();
    test_hostile();
    return checks_finish();
}
