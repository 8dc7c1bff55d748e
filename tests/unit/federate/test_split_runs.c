/* Split learning's checkpoints and limits: only the two halves of one run meet; a run is neither
 * overwritten nor taken back; what a device asks for stays within the peer's memory; a budget on
 * either side leaves the bits; with a key both sides speak TLS, and without it nobody does. */
#include "federate/tls.h"
#include "split_pair.h"

#include <math.h>

static const qn_shape picture = {3, {28, 28, 1}};

static qn_halves_options usual(void) {
    return options_of("lenet5", "pool1", picture);
}

static void step(qn_device_half *h, const float *x, int i) {
    qn_half_result r;
    CHECK_OK(qn_device_half_step(h, x + i * BATCH * 28 * 28, labels[i], &r));
    CHECK(isfinite(r.loss));
}

/* A run of a step that both sides save. */
static void save_run(const qn_halves_options *o, const float *x, const char *front,
                     const char *back) {
    peer p;
    qn_device_half *h;
    CHECK_OK(create(o, start(&p, back), NULL, &h));
    step(h, x, 0);
    CHECK_OK(qn_device_half_save(h, NULL, front));
    qn_device_half_destroy(h);
    finish(&p, QN_OK, "");
}

/* ---- identity ---- */

/* Two runs of equal settings after the same step, and a run with another setting. */
static void test_other_runs(void) {
    char front[] = "/tmp/test_split_front.XXXXXX", back[] = "/tmp/test_split_back.XXXXXX";
    char front2[] = "/tmp/test_split_front.XXXXXX", back2[] = "/tmp/test_split_back.XXXXXX";
    char whole[] = "/tmp/test_split_whole.XXXXXX";
    qn_halves_options o = usual();
    float *x = draw(STEPS * BATCH * 28 * 28, 3);
    peer p;
    qn_device_half *h;
    save_run(&o, x, make_path(front), make_path(back));
    save_run(&o, x, make_path(front2), make_path(back2));
    CHECK_FAILS(create(&o, start(&p, back2), front, &h), QN_ERROR_IO, "another run");
    finish(&p, QN_ERROR_ARGUMENT, "another run");
    CHECK_FAILS(create(&o, start(&p, back), NULL, &h), QN_ERROR_IO, "another run");
    finish(&p, QN_ERROR_ARGUMENT, "another run");
    CHECK_FAILS(qn_halves_join(front, back2, make_path(whole)), QN_ERROR_ARGUMENT,
                "different runs");
    CHECK_OK(qn_halves_join(front, back, whole));
    o.update.rate = 0.06;
    CHECK_FAILS(create(&o, -1, front, &h), QN_ERROR_ARGUMENT, "\"rate\"");
    o.update.rate = 0.05;
    CHECK_FAILS(create(&o, -1, whole, &h), QN_ERROR_FORMAT, "");
    remove_all(front);
    remove_all(back);
    remove_all(front2);
    remove_all(back2);
    remove_all(whole);
    free(x);
}

/* In a folder each run has a file; a peer that keeps nothing says so before the work. */
static void test_folder(void) {
    char folder[] = "/tmp/test_split_folder.XXXXXX", front[] = "/tmp/test_split_front.XXXXXX";
    char command[100];
    qn_halves_options o = usual();
    float *x = draw(STEPS * BATCH * 28 * 28, 4);
    peer p;
    qn_device_half *h;
    CHECK(mkdtemp(folder));
    make_path(front);
    save_run(&o, x, front, folder);
    save_run(&o, x, front, folder);
    CHECK_OK(create(&o, start(&p, folder), front, &h));
    step(h, x, 1);
    qn_device_half_destroy(h);
    finish(&p, QN_OK, "");
    o.saves = true;
    CHECK_FAILS(create(&o, start(&p, NULL), NULL, &h), QN_ERROR_IO, "keeps nothing");
    finish(&p, QN_ERROR_ARGUMENT, "keeps nothing");
    snprintf(command, sizeof command, "test $(ls %s | wc -l) = 2 && rm -r %s", folder, folder);
    CHECK(system(command) == 0);
    remove_all(front);
    free(x);
}

/* ---- going back ---- */

/* The device loses what the peer has saved, twice: its own step is still there. */
static void test_lost_saves(void) {
    char front[] = "/tmp/test_split_front.XXXXXX", back[] = "/tmp/test_split_back.XXXXXX";
    char lost[] = "/tmp/test_split_lost.XXXXXX";
    const qn_halves_options o = usual();
    float *x = draw(STEPS * BATCH * 28 * 28, 5);
    save_run(&o, x, make_path(front), make_path(back));
    make_path(lost);
    for (int i = 0; i < 3; i++) {
        peer p;
        qn_device_half *h;
        CHECK_OK(create(&o, start(&p, back), front, &h));
        CHECK(qn_engine_steps(qn_device_half_engine(h)) == 1);
        step(h, x, 1);
        CHECK_OK(qn_device_half_save(h, NULL, lost));
        qn_device_half_destroy(h);
        finish(&p, QN_OK, "");
    }
    remove_all(front);
    remove_all(back);
    remove_all(lost);
    free(x);
}

/* A copy of an early front cannot take the peer's later half away. */
static void test_earlier_step(void) {
    char front[] = "/tmp/test_split_front.XXXXXX", back[] = "/tmp/test_split_back.XXXXXX";
    char late[] = "/tmp/test_split_late.XXXXXX";
    const qn_halves_options o = usual();
    float *x = draw(STEPS * BATCH * 28 * 28, 6);
    peer p;
    qn_device_half *h;
    save_run(&o, x, make_path(front), make_path(back));
    make_path(late);
    CHECK_OK(create(&o, start(&p, back), front, &h));
    step(h, x, 1);
    step(h, x, 2);
    CHECK_OK(qn_device_half_save(h, NULL, late));
    qn_device_half_destroy(h);
    finish(&p, QN_OK, "");
    CHECK_OK(create(&o, start(&p, back), front, &h)); /* of the step before: it may go on */
    step(h, x, 1);
    CHECK_FAILS(qn_device_half_save(h, NULL, front), QN_ERROR_IO, "keeps it instead of step 2");
    qn_device_half_destroy(h);
    finish(&p, QN_ERROR_ARGUMENT, "keeps it instead of step 2");
    CHECK_OK(create(&o, start(&p, back), late, &h));
    CHECK(qn_engine_steps(qn_device_half_engine(h)) == 3);
    qn_device_half_destroy(h);
    finish(&p, QN_OK, "");
    remove_all(front);
    remove_all(back);
    remove_all(late);
    free(x);
}

/* ---- memory ---- */

/* Of options that would take gigabytes, only the message is ever held. */
static void test_greedy_device(void) {
    const qn_peer_options how = {.n_threads = 1, .memory_bytes = 64 << 20};
    const int64_t before = qn_process_peak_bytes();
    qn_halves_options o = usual();
    uint8_t head[QN_LINK_HEAD] = "QNL2\1\0\0\0";
    char text[QN_LINK_TEXT];
    memcpy(o.run, "0123456789abcdef0123456789abcdef", sizeof o.run);
    o.batch = 1 << 20;
    for (int i = 0; i < 2; i++) {
        peer p;
        qn_halves_print(&o, text);
        const size_t n = strlen(text);
        head[8] = (uint8_t)n;
        head[9] = (uint8_t)(n >> 8);
        const int connection = start_as(&p, &how);
        const int64_t deadline = qn_clock_ns() + 60000000000;
        CHECK_OK(qn_socket_send(connection, head, sizeof head, deadline));
        CHECK_OK(qn_socket_send(connection, text, n, deadline));
        finish(&p, QN_ERROR_MEMORY, "");
        qn_socket_close(connection);
        o.batch = 4;
        o.n_outputs = 1 << 22; /* a last layer of gigabytes */
    }
    CHECK(qn_process_peak_bytes() - before < 192 << 20);
}

/* The bits of a run with budgets on both sides, and with a key. */
static double train(const qn_device_options *device, const qn_peer_options *how, const float *x) {
    const qn_halves_options o =
        options_of("squeezenet", "fire4.concat", (qn_shape){3, {32, 32, 3}});
    qn_device_options here = *device;
    peer p;
    qn_device_half *h = NULL;
    qn_half_result r = {0};
    double sum = 0;
    here.connection = start_as(&p, how);
    CHECK_OK(qn_device_half_create(&o, &here, &h));
    for (int i = 0; h && i < STEPS; i++) {
        CHECK_OK(qn_device_half_step(h, x + i * BATCH * 32 * 32 * 3, labels[i], &r));
        sum += r.loss * (i + 1);
    }
    qn_device_half_destroy(h);
    finish(&p, QN_OK, "");
    return sum;
}

static void test_budgets_and_key(void) {
    float *x = draw(STEPS * BATCH * 32 * 32 * 3, 8);
    qn_tls_key key = {{1, 2, 3}};
    const qn_device_options free_device = {.n_threads = 1};
    const qn_peer_options free_peer = {.n_threads = 1};
    const qn_device_options small_device = {.n_threads = 1, .memory_bytes = 4 << 20, .key = &key};
    const qn_peer_options small_peer = {.n_threads = 1, .memory_bytes = 7 << 20, .key = &key};
    const double sum = train(&free_device, &free_peer, x);
    CHECK(isfinite(sum) && sum == train(&small_device, &small_peer, x));
    free(x);
}

/* ---- keys ---- */

static void test_wrong_keys(void) {
    const qn_halves_options o = usual();
    const qn_tls_key right = {{1}}, wrong = {{2}};
    const qn_tls_key *const ours[] = {&wrong, NULL, &right}, *const theirs[] = {&right, &right,
                                                                                NULL};
    static const char *const device_says[] = {"key", "its key", "key"};
    for (int i = 0; i < 3; i++) {
        const qn_peer_options how = {.n_threads = 1, .key = theirs[i]};
        peer p;
        qn_device_half *h;
        const qn_device_options device = {
            .n_threads = 1, .connection = start_as(&p, &how), .key = ours[i]};
        const qn_status status = qn_device_half_create(&o, &device, &h);
        CHECK(status != QN_OK && strstr(qn_error_message(), device_says[i]));
        pthread_join(p.thread, NULL);
        CHECK(p.status == QN_ERROR_FORMAT || p.status == QN_ERROR_IO);
        CHECK(p.n_steps == 0);
    }
}

static void test_key_files(void) {
    char path[] = "/tmp/test_split_key.XXXXXX", command[100];
    qn_tls_key key, again;
    CHECK_OK(qn_tls_key_create(make_path(path)));
    CHECK_OK(qn_tls_key_read(path, &key));
    CHECK_OK(qn_tls_key_read(path, &again));
    CHECK(memcmp(&key, &again, sizeof key) == 0);
    CHECK_FAILS(qn_tls_key_create(path), QN_ERROR_IO, "exists");
    snprintf(command, sizeof command, "chmod 644 %s", path);
    CHECK(system(command) == 0);
    CHECK_FAILS(qn_tls_key_read(path, &key), QN_ERROR_ARGUMENT, "chmod 600");
    unlink(path);
    CHECK_FAILS(qn_tls_key_parse("secret", &key), QN_ERROR_FORMAT, "64");
    CHECK_FAILS(qn_tls_key_parse("", &key), QN_ERROR_FORMAT, "64");
}

/* ---- a peer that lies ---- */

static void *answer_nonsense(void *context) {
    const int connection = *(const int *)context;
    const int64_t deadline = qn_clock_ns() + 60000000000;
    uint8_t head[QN_LINK_HEAD];
    char *body = malloc(1 << 20);
    qn_message kind;
    int64_t length;
    const struct {
        uint8_t head[QN_LINK_HEAD];
        int64_t step;
    } ready = {"QNL2\2\0\0\0\10", 0};
    CHECK_OK(qn_socket_receive(connection, head, sizeof head, deadline));
    CHECK_OK(qn_link_parse_head(head, &kind, &length));
    CHECK_OK(qn_socket_receive(connection, body, (size_t)length, deadline));
    CHECK_OK(qn_socket_send(connection, &ready, sizeof ready, deadline));
    CHECK_OK(qn_socket_receive(connection, head, sizeof head, deadline));
    CHECK_OK(qn_link_parse_head(head, &kind, &length));
    CHECK_OK(qn_socket_receive(connection, body, (size_t)length, deadline));
    const struct {
        uint8_t head[QN_LINK_HEAD];
        double loss;
        int64_t n_correct;
    } answer = {"QNL2\5\0\0\0\20", 1.5, (int64_t)1 << 40};
    CHECK_OK(qn_socket_send(connection, &answer, sizeof answer, deadline));
    free(body);
    return NULL;
}

static void test_lying_peer(void) {
    const qn_halves_options o = usual();
    float *x = draw(BATCH * 28 * 28, 9);
    int ends[2];
    pthread_t thread;
    qn_device_half *h;
    qn_half_result r;
    CHECK_OK(qn_socket_pair(ends));
    CHECK(pthread_create(&thread, NULL, answer_nonsense, &ends[1]) == 0);
    CHECK_OK(create(&o, ends[0], NULL, &h));
    CHECK_FAILS(qn_device_half_test(h, x, labels[0], 2, &r), QN_ERROR_FORMAT, "of 2 samples");
    qn_device_half_destroy(h);
    pthread_join(thread, NULL);
    qn_socket_close(ends[1]);
    free(x);
}

int main(void) {
    test_other_runs();
    test_folder();
    test_lost_saves();
    test_earlier_step();
    test_greedy_device();
    test_budgets_and_key();
    test_wrong_keys();
    test_key_files();
    test_lying_peer();
    return checks_finish();
}
