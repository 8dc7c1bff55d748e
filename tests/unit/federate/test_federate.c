/* Federated training: partitions hold each sample once and are as skewed as they say, messages are
 * decoded as they should be, one client with all samples is plain training, what clients keep
 * survives a run that was cut off, and runs are the same for any number of threads and after a
 * resume. */
#include "federate/client_store.h"
#include "federate/flower.h"
#include "federate/partition/partition.h"
#include "federate/privacy/accountant.h"
#include "federate/simulate.h"

#include "base/rng.h"
#include "check.h"
#include "failing.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N = 600, N_CLASSES = 5, SIDE = 6, N_TEST = 50 };

static int32_t labels[N];

/* ---- partitions ---- */

static qn_partition divide(const char *specification, int64_t n_clients) {
    qn_partition p = {0};
    for (int i = 0; i < N; i++)
        labels[i] = i % N_CLASSES;
    const qn_partition_classes of = {labels, N, N_CLASSES, NULL};
    CHECK_OK(qn_partition_create(NULL, specification, &of, n_clients, 3, &p));
    return p;
}

/* Mean number of classes of a client. */
static double count_classes(const qn_partition *p) {
    int64_t n = 0;
    for (int64_t i = 0; i < p->n_clients; i++) {
        int has = 0;
        for (int64_t j = p->first[i]; j < p->first[i + 1]; j++)
            has |= 1 << labels[p->samples[j]];
        for (; has; has &= has - 1)
            n++;
    }
    return (double)n / (double)p->n_clients;
}

static void check_whole(const qn_partition *p) {
    bool seen[N] = {false};
    CHECK(p->first[0] == 0 && p->first[p->n_clients] == N);
    for (int64_t i = 0; i < p->n_clients; i++)
        CHECK(p->first[i] < p->first[i + 1]);
    for (int i = 0; i < N; i++) {
        CHECK(p->samples[i] >= 0 && p->samples[i] < N && !seen[p->samples[i]]);
        seen[p->samples[i]] = true;
    }
}

static void test_partitions(void) {
    static const struct {
        const char *specification;
        int64_t n_clients;
        double least, most; /* classes of a client */
    } rows[] = {
        {"iid", 30, 4.5, 5},      {"iid", 1, 5, 5},
        {"iid", N, 1, 1},         {"amount:1", 30, 3, 5},
        {"amount:0", 7, 5, 5},    {"shards:1", 5, 1, 1},
        {"shards:2", 30, 1, 2.5}, {"hsu:500", 30, 4, 5},
        {"hsu:0.5", 30, 1, 2.6},  {"hsu:0.000001", 5, 1, 3},
        {"hsu:1.5", N, 1, 1},     {"lda:100", 30, 4, 5},
        {"lda:0.1:1", 30, 1, 3},  {"lda:0.000001:20", 5, 1, 1.5},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_partition p = divide(rows[i].specification, rows[i].n_clients);
        qn_partition again = divide(rows[i].specification, rows[i].n_clients);
        const double classes = count_classes(&p);
        check_whole(&p);
        CHECK(classes >= rows[i].least && classes <= rows[i].most);
        CHECK(memcmp(p.samples, again.samples, N * sizeof *p.samples) == 0);
        qn_partition_destroy(&p);
        qn_partition_destroy(&again);
    }
}

static void test_wrong_partitions(void) {
    static const struct {
        const char *specification, *says;
        int64_t n_clients;
    } rows[] = {
        {"", "iid, amount:S", 3},
        {"iid:1", "iid, amount:S", 3},
        {"shards", "iid, amount:S", 3},
        {"shards:1.5", "whole number", 3},
        {"shards:0", "whole number", 3},
        {"shards:300", "300 shards", 3},
        {"hsu:0", "above 0", 3},
        {"hsu:-1", "from 0 on", 3},
        {"hsu:1:2", "from 0 on", 3},
        {"hsu:nan", "from 0 on", 3},
        {"lda:0", "above 0", 3},
        {"lda:1:0", "whole number", 3},
        {"lda:1:2.5", "whole number", 3},
        {"lda:1:2:3", "from 0 on", 3},
        {"lda:0.1:200", "take fewer clients", 4},
        {"amount:x", "from 0 on", 3},
        {"iid", "0 clients", 0},
        {"iid", "601 clients", N + 1},
        {"classes:2", "shards:2", 3},
        {"dirichlet:0.3", "hsu:1.5", 3},
        {"dirichlet:0.3", "lda:0.3", 3},
        {"dirichlet:x", "from 0 on", 3},
        {"pachinko:1:2", "from 0 on", 3},
        {"pachinko:0:2:/dev/null", "above 0", 3},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        qn_partition p;
        const qn_partition_classes of = {labels, N, N_CLASSES, NULL};
        CHECK_FAILS(qn_partition_create(NULL, rows[i].specification, &of, rows[i].n_clients, 3, &p),
                    QN_ERROR_ARGUMENT, rows[i].says);
    }
}

/* How uneven the kinds are, as the table in docs/federated.md says. */
static void test_shares(void) {
    enum { MANY = 60000 };
    static int32_t many[MANY];
    static const struct {
        const char *specification;
        double share; /* of the largest class, mean of clients */
    } rows[] = {{"iid", 0.12},       {"amount:1", 0.13}, {"shards:2", 0.57},
                {"hsu:1", 0.67},     {"hsu:3", 0.49},    {"hsu:10", 0.31},
                {"lda:0.1:1", 0.75}, {"lda:0.3", 0.53},  {"lda:1", 0.32}};
    for (int i = 0; i < MANY; i++)
        many[i] = i % 10;
    const qn_partition_classes of = {many, MANY, 10, NULL};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_partition p;
        CHECK_OK(qn_partition_create(NULL, rows[i].specification, &of, 100, 1, &p));
        CHECK(fabs(p.largest_share - rows[i].share) < 0.02);
        qn_partition_destroy(&p);
    }
}

/* ---- messages ---- */

/* What is decoded of int8 is at most half a step away, and the step is the least power of two. */
static void test_int8(void) {
    float x[200], y[200];
    const qn_rng rng = qn_rng_make(1, 2, 3);
    for (int scale = -60; scale <= 60; scale += 15) {
        float most = 0;
        for (int i = 0; i < 200; i++) {
            x[i] = y[i] = (float)ldexp(qn_rng_normal(rng, (uint64_t)i), scale);
            most = fmaxf(most, fabsf(x[i]));
        }
        const double step = exp2(ceil(log2((double)most / 127)));
        CHECK(qn_update_send(QN_UPDATE_INT8, y, 200) == 201);
        for (int i = 0; i < 200; i++) {
            CHECK(fabs((double)x[i] - (double)y[i]) <= step / 2);
            CHECK(fmod((double)y[i], step) == 0 && fabs((double)y[i]) <= 127 * step);
        }
    }
    memset(y, 0, sizeof y);
    CHECK(qn_update_send(QN_UPDATE_INT8, y, 200) == 201 && y[0] == 0 && y[199] == 0);
    CHECK(qn_update_send(QN_UPDATE_FULL, y, 200) == 800);
}

/* The largest stay, to half a step of int8; their bits are counted by writing the code itself. */
static void test_top(void) {
    enum { COUNT = 1000 };
    float x[COUNT], y[COUNT], room[COUNT];
    const qn_rng rng = qn_rng_make(4, 2, 3);
    for (int kept = 1; kept <= COUNT; kept *= 10) {
        double least = INFINITY, largest_left = 0;
        int64_t fewest = INT64_MAX, n_sent = 0;
        for (int i = 0; i < COUNT; i++)
            x[i] = y[i] = (float)qn_rng_normal(rng, (uint64_t)i);
        const int64_t bytes = qn_update_send_top(y, COUNT, kept, room);
        for (int i = 0; i < COUNT; i++) {
            const double size = fabs((double)x[i]);
            if (y[i] == 0) {
                largest_left = fmax(largest_left, size);
                continue;
            }
            n_sent++;
            least = fmin(least, size);
            CHECK(fabs((double)x[i] - (double)y[i]) <= 4.0 / 127);
        }
        CHECK(n_sent <= kept && n_sent >= kept * 9 / 10);
        CHECK(largest_left <= least);
        for (int b = 0; b < 12; b++) {
            int64_t bits = 0;
            for (int i = 0, gap = 0; i < COUNT; i++, gap++) {
                if (y[i] == 0)
                    continue;
                for (; gap >= 1 << b; gap -= 1 << b)
                    bits++;
                bits += 1 + b;
                gap = -1;
            }
            fewest = bits < fewest ? bits : fewest;
        }
        CHECK(bytes == 6 + n_sent + (fewest + 7) / 8);
    }
    memset(y, 0, sizeof y);
    CHECK(qn_update_send_top(y, COUNT, 10, room) == 6 && y[0] == 0);
    for (int i = 0; i < COUNT; i++)
        y[i] = i % 2 ? 1 : -1; /* of equal ones the first */
    (void)qn_update_send_top(y, COUNT, 10, room);
    CHECK(y[0] == -1 && y[9] == 1 && y[10] == 0 && y[999] == 0);
}

/* ---- privacy ---- */

static double count(double share, double noise, int64_t n_rounds, double delta) {
    qn_accountant *a;
    double epsilon;
    CHECK_OK(qn_accountant_create(NULL, share, noise, n_rounds, delta, &a));
    CHECK_OK(qn_accountant_count(a, n_rounds, &epsilon));
    qn_accountant_destroy(a);
    return epsilon;
}

/* The values are those of Google's dp-accounting 0.6.0 (PLDAccountant). */
static void test_privacy(void) {
    static const struct {
        double share, noise;
        int64_t n_rounds;
        double delta, epsilon;
    } rows[] = {{256.0 / 60000, 1.1, 14062, 1e-5, 2.38169},
                {0.01, 4, 10000, 1e-5, 0.946999},
                {0.1, 1, 50, 1e-3, 3.31391},
                {0.1, 1, 200, 1e-5, 9.97128},
                {0.1, 0.6, 10, 1e-5, 8.34206},
                {0.01, 0.7, 1000, 1e-6, 5.44792},
                {0.5, 2, 100, 1e-5, 14.2845},
                {0.02, 1, 1, 1e-5, 0.438864},
                {0.1, 1, 1, 1e-3, 0.649885},
                {0.001, 0.5, 5000, 1e-7, 6.45528},
                {0.9, 5, 500, 1e-5, 24.65},
                {0.25, 1.5, 1000, 1e-9, 51.5195},
                {1, 2, 1, 1e-5, 1.99309},
                {1, 1, 100, 1e-5, 91.8173},
                {1e-4, 1, 100000, 1e-6, 0.156912},
                {0.05, 3, 3, 1e-5, 0.124833}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const double epsilon = count(rows[i].share, rows[i].noise, rows[i].n_rounds, rows[i].delta);
        CHECK(epsilon >= 0.998 * rows[i].epsilon && epsilon <= 1.01 * rows[i].epsilon);
    }
}

/* Where nearly everybody takes part, the distributions are those of the Gaussian mechanism, whose
 * epsilon has a closed form; deltas that are far below rounding included. */
static void test_privacy_closed_form(void) {
    for (double delta = 0.1; delta > 1e-200; delta = pow(delta, 3)) {
        for (int64_t n = 1; n <= 1000; n *= 30) {
            const double exact = count(1, 5, n, delta), epsilon = count(1 - 1e-9, 5, n, delta);
            CHECK(epsilon >= exact * 0.9999 - 1e-9 && epsilon <= exact * 1.005 + 1e-9);
        }
    }
    /* a delta at which other programs' transforms see nothing but rounding: Rényi says 0.146 */
    const double small = count(0.00033, 4, 10000, 1.13e-18);
    CHECK(small > 0.067 && small < 0.1);
    CHECK(count(1, 1e3, 1, 0.4) == 0 && count(0.5, 1e3, 1, 0.4) == 0);
}

/* Extreme numbers end, with a number that grows with the rounds; a failing allocation is said. */
static void test_privacy_extremes(void) {
    static const double shares[] = {1e-3, 0.5, 0.999}, noises[] = {1e-3, 1, 1e6},
                        deltas[] = {1e-200, 0.5};
    for (int i = 0; i < 18; i++) {
        double last = 0;
        qn_accountant *a;
        CHECK_OK(qn_accountant_create(NULL, shares[i % 3], noises[i / 3 % 3], 1000000,
                                      deltas[i / 9], &a));
        for (int64_t n = 0; n <= 1000000; n = n ? n * 1000 : 1) {
            double epsilon;
            CHECK_OK(qn_accountant_count(a, n, &epsilon));
            CHECK(isfinite(epsilon) && epsilon >= last && (n > 0 || epsilon == 0));
            last = epsilon;
        }
        qn_accountant_destroy(a);
    }
    qn_status status = QN_ERROR_MEMORY;
    for (int n = 0; status != QN_OK; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_accountant *a;
        double epsilon;
        status = qn_accountant_create(&allocator, 0.1, 1, 10, 1e-5, &a);
        if (status == QN_OK) {
            status = qn_accountant_count(a, 10, &epsilon);
            qn_accountant_destroy(a);
        }
        CHECK((status == QN_OK || status == QN_ERROR_MEMORY) && f.held_bytes == 0);
    }
}

/* ---- what clients keep ---- */

static void put(qn_client_store *store, int64_t client, int64_t round, float value) {
    for (int i = 0; i < 3; i++)
        qn_client_store_room(store)[i] = value;
    CHECK_OK(qn_client_store_write(store, client, round));
}

/* The number in a client's record from before a round; -1: it has none. */
static float get(qn_client_store *store, int64_t client, int64_t round) {
    const float *record;
    CHECK_OK(qn_client_store_read(store, client, round, &record));
    if (!record)
        return -1;
    CHECK(record[0] == record[2]);
    return record[0];
}

static qn_client_store *open_store(const char *path) {
    qn_client_store *store;
    CHECK_OK(qn_client_store_open(NULL, path, 4, 3, 77, &store));
    return store;
}

static void test_store(void) {
    char path[] = "/tmp/test_federate.XXXXXX";
    qn_client_store *store, *other;
    close(mkstemp(path));
    store = open_store(path);
    CHECK_FAILS(qn_client_store_resume(store, 0), QN_ERROR_ARGUMENT, "belong together");
    CHECK_OK(qn_client_store_begin(store));
    CHECK_FAILS(qn_client_store_open(NULL, path, 4, 3, 77, &other), QN_ERROR_IO, "in use");
    put(store, 2, 0, 10);
    put(store, 3, 0, 20);
    CHECK_OK(qn_client_store_sync(store, 1));
    CHECK(get(store, 2, 0) == -1 && get(store, 2, 1) == 10 && get(store, 0, 1) == -1);
    put(store, 2, 1, 11); /* rounds that are not synced */
    put(store, 2, 2, 12);
    CHECK(get(store, 2, 3) == 12);
    qn_client_store_close(store);
    store = open_store(path);
    CHECK_FAILS(qn_client_store_resume(store, 2), QN_ERROR_ARGUMENT, "belong together");
    CHECK_OK(qn_client_store_resume(store, 1));
    CHECK(get(store, 2, 1) == 10 && get(store, 3, 1) == 20);
    put(store, 2, 1, 11);
    CHECK(get(store, 2, 2) == 11 && get(store, 2, 1) == 10);
    qn_client_store_close(store);
    CHECK_OK(qn_client_store_open(NULL, path, 4, 3, 78, &store)); /* of another run */
    CHECK_FAILS(qn_client_store_resume(store, 1), QN_ERROR_ARGUMENT, "belong together");
    qn_client_store_close(store);
    FILE *file = fopen(path, "r+b"); /* client 3's first place, past its header */
    CHECK(file && fseek(file, 64 + 6 * 32 + 16, SEEK_SET) == 0 && fputc(1, file) == 1);
    fclose(file);
    store = open_store(path);
    const float *record;
    CHECK_OK(qn_client_store_resume(store, 1));
    CHECK_FAILS(qn_client_store_read(store, 3, 1, &record), QN_ERROR_FORMAT, "damaged");
    qn_client_store_close(store);
    unlink(path);
}

/* ---- whole runs ---- */

/* Images of a class have its row bright. */
static uint8_t images[N + N_TEST][SIDE * SIDE];
static int32_t classes[N + N_TEST];

static qn_data_source open_images(void) {
    qn_data_source source;
    const qn_rng rng = qn_rng_make(5, 6, 7);
    for (int i = 0; i < N + N_TEST; i++) {
        classes[i] = i % N_CLASSES;
        for (int j = 0; j < SIDE * SIDE; j++)
            images[i][j] = (uint8_t)(qn_rng_word(rng, (uint64_t)(i * SIDE * SIDE + j)) % 120 +
                                     (j / SIDE == classes[i] ? 120 : 0));
    }
    const qn_samples samples = {QN_OPTIONS_INIT(qn_samples),
                                .n = {[QN_TRAIN] = N, [QN_TEST] = N_TEST},
                                .x = {[QN_TRAIN] = images, [QN_TEST] = images[N]},
                                .y = {[QN_TRAIN] = classes, [QN_TEST] = classes + N},
                                .sample = {3, {SIDE, SIDE, 1}},
                                .dtype = QN_U8};
    CHECK_OK(qn_data_open_samples(&samples, NULL, &source));
    return source;
}

static qn_federation_options options_of(const qn_data_source *data) {
    return (qn_federation_options){.model = qn_model_find("mlp"),
                                   .data = data,
                                   .partition = "hsu:2.5",
                                   .n_clients = 20,
                                   .per_round = 5,
                                   .n_rounds = 6,
                                   .local_epochs = 2,
                                   .batch = 8,
                                   .rate = 0.1,
                                   .server_rate = 1,
                                   .server_momentum = 0.5,
                                   .evaluate_every = 3,
                                   .n_threads = 1,
                                   .seed = 4};
}

/* A number of all weights after the rounds; saved and loaded again before round `resumed`. */
static uint64_t train(const qn_federation_options *o, int64_t resumed, qn_federation_round *last) {
    char path[] = "/tmp/test_federate.XXXXXX";
    char client_path[sizeof path + 8];
    qn_federation *f;
    qn_metadata *pairs;
    qn_federation_options named = *o;
    close(mkstemp(path));
    snprintf(client_path, sizeof client_path, "%s.clients", path);
    named.client_path = client_path;
    o = &named;
    CHECK_OK(qn_metadata_create(NULL, &pairs));
    CHECK_OK(qn_federation_create(o, &f));
    while (qn_federation_rounds(f) < o->n_rounds) {
        if (qn_federation_rounds(f) == resumed) {
            CHECK_OK(qn_federation_save(f, pairs, path));
            CHECK_OK(qn_federation_step(f, last)); /* which nobody saves */
            qn_federation_destroy(f);
            CHECK_OK(qn_federation_create(o, &f));
            CHECK_OK(qn_federation_load(f, path));
            CHECK(qn_federation_rounds(f) == resumed);
        }
        CHECK_OK(qn_federation_step(f, last));
    }
    CHECK_OK(qn_federation_save(f, pairs, path));
    qn_federation_destroy(f);
    qn_metadata_destroy(pairs);
    char *text;
    size_t bytes;
    FILE *file = fopen(path, "rb");
    CHECK(file && fseek(file, 0, SEEK_END) == 0);
    bytes = (size_t)ftell(file);
    rewind(file);
    text = malloc(bytes);
    CHECK(text && fread(text, 1, bytes, file) == bytes);
    fclose(file);
    const uint64_t hash = qn_hash_bytes(text, bytes);
    free(text);
    unlink(path);
    unlink(client_path);
    return hash;
}

static void test_runs(const qn_data_source *data) {
    qn_federation_round r, again;
    for (int rule = QN_SERVER_AVERAGE; rule <= QN_SERVER_YOGI; rule++) {
        qn_federation_options o = options_of(data);
        o.rule = (qn_server_rule)rule;
        o.server_rate = rule >= QN_SERVER_ADAM ? 0.02 : 1;
        o.momentum = 0.5;
        o.drop = 0.2;
        o.code = rule == QN_SERVER_ADAM ? QN_UPDATE_INT8 : QN_UPDATE_FULL;
        const uint64_t hash = train(&o, -1, &r);
        CHECK(r.round == 6 && r.n_asked == 5 && r.has_test && r.test_accuracy > 0.4);
        o.n_threads = 2;
        CHECK(train(&o, 4, &again) == hash);
        CHECK(again.bytes_up == r.bytes_up && again.test_loss == r.test_loss);
        o.seed++;
        CHECK(train(&o, -1, &again) != hash);
    }
}

/* Runs whose clients keep something, or are private. */
static void test_kept(const qn_data_source *data) {
    static const struct {
        qn_update_code code;
        const char *personal;
        double clip;
        double least; /* accuracy */
    } rows[] = {{QN_UPDATE_TOP, NULL, 0, 0.3},
                {QN_UPDATE_FULL, "fc3.*", 0, 0.6},
                {QN_UPDATE_TOP, "fc3.*,fc2.bias", 0, 0.5},
                {QN_UPDATE_FULL, NULL, 2, 0.2},
                {QN_UPDATE_TOP, "fc3.*", 2, 0.3}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        qn_federation_round r, again;
        qn_federation_options o = options_of(data);
        o.code = rows[i].code;
        o.share = 0.05;
        o.personal = rows[i].personal;
        o.clip = rows[i].clip;
        o.noise = 0.01;
        o.delta = 1e-3;
        const uint64_t hash = train(&o, -1, &r);
        CHECK(r.has_test && r.test_accuracy > rows[i].least);
        CHECK((r.epsilon > 0) == (o.clip > 0));
        CHECK(o.code != QN_UPDATE_TOP || r.bytes_up * 30 < r.bytes_down);
        o.n_threads = 2;
        CHECK(train(&o, 3, &again) == hash);
        CHECK(again.bytes_up == r.bytes_up && again.test_loss == r.test_loss);
    }
}

/* Devices that are never late change no bit; with rules and a deadline, a run that goes on is the
 * run that was not cut off, its clock and energy included. */
static void test_devices(const qn_data_source *data) {
    qn_fleet_options fleet = {.kinds = "snapdragon-phone:3,intel-laptop",
                              .down_mbit = 20,
                              .up_mbit = 5,
                              .radio_watts = 1};
    qn_federation_options o = options_of(data);
    qn_federation_round plain, r, again;
    (void)train(&o, -1, &plain);
    o.fleet = &fleet;
    (void)train(&o, -1, &r);
    CHECK(r.test_loss == plain.test_loss && r.n_late == 0);
    CHECK(plain.seconds == 0 && r.seconds > 0 && r.joules > 0);
    fleet.when = "idle:10,charging,cool,night:23-5";
    fleet.up_mbit = 0.01; /* a message takes half a minute */
    o.pace = 6 * 3600;    /* every fourth round waits for the evening */
    const uint64_t hash = train(&o, -1, &r);
    o.n_threads = 2;
    CHECK(train(&o, 4, &again) == hash);
    CHECK(r.seconds > 3 * 86400 && r.seconds < 7 * 86400);
    CHECK(r.seconds == again.seconds && r.joules == again.joules && r.seconds > plain.seconds);
    o.deadline = 1;
    (void)train(&o, -1, &again);
    CHECK(again.n_late == 5 && again.n_answered == 0 && again.joules < r.joules);
    o.clip = o.noise = 1;
    o.delta = 0.1;
    qn_federation *f;
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_ARGUMENT, "take part by chance");
}

/* Numerics and a memory budget reach the clients' engine. */
static void test_engine_options(const qn_data_source *data) {
    qn_federation_options o = options_of(data);
    qn_federation_round plain, r;
    qn_federation *f;
    (void)train(&o, -1, &plain);
    o.memory_budget_bytes = 64 << 20;
    (void)train(&o, -1, &r);
    CHECK(r.test_loss == plain.test_loss);
    o.memory_budget_bytes = 10000;
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_MEMORY, "too small");
    o.memory_budget_bytes = 0;
    o.numerics = "bf16";
    (void)train(&o, -1, &r);
    CHECK(r.test_loss != plain.test_loss && r.test_accuracy > 0.4);
    o.numerics = "niti";
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_UNSUPPORTED, "whole numbers");
}

/* A round of one client that has everything is plain training of the same steps. */
static void test_one_client(const qn_data_source *data) {
    qn_federation_options o = options_of(data);
    qn_federation_round r;
    o.n_clients = o.per_round = 1;
    o.n_rounds = 1;
    o.partition = "iid";
    o.local_epochs = 6;
    (void)train(&o, -1, &r);
    CHECK(r.n_samples == N && r.n_answered == 1);
    CHECK(r.bytes_up == r.bytes_down && r.bytes_up % 4 == 0);
    CHECK(r.has_test && r.test_accuracy > 0.9);
}

/* The pull of FedProx keeps clients nearer to the server. */
static void test_proximal(const qn_data_source *data) {
    qn_federation_options o = options_of(data);
    qn_federation_round free_run, pulled;
    o.n_rounds = 3;
    o.local_epochs = 10;
    (void)train(&o, -1, &free_run);
    o.proximal = 5;
    (void)train(&o, -1, &pulled);
    CHECK(pulled.test_loss != free_run.test_loss);
    CHECK(pulled.train_loss > free_run.train_loss);
}

static void test_failures(const qn_data_source *data) {
    qn_federation_options o = options_of(data);
    qn_federation_round r;
    qn_federation *f;
    o.rate = 1e6; /* clients diverge: they are left out, and the server stays as it is */
    o.local_epochs = 5;
    CHECK_OK(qn_federation_create(&o, &f));
    CHECK_OK(qn_federation_step(f, &r));
    CHECK(r.n_failed > 0 && r.n_failed + r.n_answered == r.n_asked);
    qn_federation_destroy(f);
    o = options_of(data);
    o.per_round = 21;
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_ARGUMENT, "clients in a round");
    o.per_round = 1;
    o.n_clients = N + 1;
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_ARGUMENT, "601 clients");
    o = options_of(data);
    o.drop = 1.5;
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_ARGUMENT, "drops out");
    o = options_of(data);
    o.personal = "head.*";
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_ARGUMENT, "no tensor of mlp");
    o.personal = "*";
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_ARGUMENT, "every tensor of mlp");
    qn_flower_options how = {.folder = "/none", .is_secure = true};
    o = options_of(data);
    o.clip = o.noise = 1;
    o.delta = 0.1;
    CHECK_FAILS(qn_flower_write(&o, &how), QN_ERROR_UNSUPPORTED, "do not work together");
    o = options_of(data);
    o.numerics = "bf16";
    CHECK_FAILS(qn_flower_write(&o, &how), QN_ERROR_UNSUPPORTED, "only the simulation");
    o = options_of(data);
    o.per_round = 2;
    CHECK_FAILS(qn_flower_write(&o, &how), QN_ERROR_ARGUMENT, "at least 3");
    o.personal = "fc\"*";
    how.is_secure = false;
    CHECK_FAILS(qn_flower_write(&o, &how), QN_ERROR_ARGUMENT, "no tensor");
    o = options_of(data);
    o.code = QN_UPDATE_TOP;
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_ARGUMENT, "share of numbers");
    o = options_of(data);
    o.model = qn_model_find("dcgan");
    CHECK_FAILS(qn_federation_create(&o, &f), QN_ERROR_UNSUPPORTED, "no classifier");
}

/* Memory that runs out at any allocation of a run leaves nothing behind. */
static void test_memory(const qn_data_source *data) {
    qn_federation_options o = options_of(data);
    o.rule = QN_SERVER_ADAM;
    o.proximal = 1;
    o.code = QN_UPDATE_TOP;
    o.share = 0.1;
    o.personal = "fc3.*";
    o.numerics = "bf16";
    const qn_fleet_options fleet = {
        .kinds = "intel-laptop", .down_mbit = 20, .up_mbit = 5, .radio_watts = 1};
    o.fleet = &fleet;
    for (int64_t n = 0;; n++) {
        failing state = {.left = n};
        const qn_allocator allocator = {&state, failing_allocate, failing_release};
        qn_federation *f = NULL;
        qn_federation_round r;
        o.allocator = &allocator;
        qn_status status = qn_federation_create(&o, &f);
        if (status == QN_OK)
            status = qn_federation_step(f, &r);
        qn_federation_destroy(f);
        CHECK(state.held_bytes == 0);
        if (status == QN_OK)
            break;
        CHECK(status == QN_ERROR_MEMORY);
    }
}

/* ---- by user ---- */

static void write_lines(const char *path, const char *lines) {
    FILE *file = fopen(path, "w");
    CHECK(file && fputs(lines, file) >= 0 && fclose(file) == 0);
}

static qn_status divide_users(const char *specification, int64_t n, int64_t n_clients,
                              qn_partition *p) {
    static const int32_t none[8] = {0};
    const qn_partition_classes of = {none, n, 1, NULL};
    return qn_partition_create(NULL, specification, &of, n_clients, 1, p);
}

static void test_users(void) {
    char path[] = "/tmp/quern-users-XXXXXX", text[64];
    qn_partition p;
    const int handle = mkstemp(path);
    CHECK(handle >= 0 && close(handle) == 0);
    snprintf(text, sizeof text, "users:%s", path);
    write_lines(path, "ann b\nbob\nann b\ncy\r\nbob\nann b\nbob\nann b\n");
    CHECK_OK(divide_users(text, 8, 3, &p));
    static const int64_t first[] = {0, 4, 7, 8}, samples[] = {0, 2, 5, 7, 1, 4, 6, 3};
    CHECK(memcmp(p.first, first, sizeof first) == 0);
    CHECK(memcmp(p.samples, samples, sizeof samples) == 0);
    qn_partition_destroy(&p);
    CHECK_OK(divide_users(text, 8, 2, &p)); /* cy is with ann b */
    CHECK(p.first[1] == 5 && p.first[2] == 8);
    qn_partition_destroy(&p);
    CHECK_FAILS(divide_users(text, 8, 4, &p), QN_ERROR_ARGUMENT, "names 3 users; --clients 3");
    CHECK_FAILS(divide_users(text, 7, 3, &p), QN_ERROR_FORMAT, "has 8 lines, and there are 7");
    write_lines(path, "ann\n\nbob\n");
    CHECK_FAILS(divide_users(text, 3, 2, &p), QN_ERROR_FORMAT, "line 2 names no user");
    unlink(path);
    CHECK_FAILS(divide_users(text, 3, 2, &p), QN_ERROR_IO, path);
}

/* ---- by superclass ---- */

/* Two superclasses; with tiny concentrations nearly every client has one class, with a tiny A and
 * a huge B one superclass. */
static void test_pachinko(void) {
    static const char *const names[] = {"ant", "bee, wild", "cod", "eel", "fly"};
    const qn_partition_classes of = {labels, N, N_CLASSES, NULL},
                               named = {labels, N, N_CLASSES, names};
    char path[] = "/tmp/quern-supers-XXXXXX", text[64];
    qn_partition p;
    const int handle = mkstemp(path);
    CHECK(handle >= 0 && close(handle) == 0);
    write_lines(path, "4,insect\n0,insect\n1,insect\r\n2,fish\n9,none\n3,fish\n");
    snprintf(text, sizeof text, "pachinko:0.000001:0.000001:%s", path);
    p = divide(text, 30);
    check_whole(&p);
    CHECK(count_classes(&p) < 1.5);
    qn_partition_destroy(&p);
    snprintf(text, sizeof text, "pachinko:0.000001:100:%s", path);
    p = divide(text, 30);
    check_whole(&p);
    for (int64_t i = 0; i < 5; i++) { /* before anything is used up */
        const bool is_fish = labels[p.samples[p.first[i]]] / 2 == 1;
        for (int64_t j = p.first[i]; j < p.first[i + 1]; j++)
            CHECK((labels[p.samples[j]] / 2 == 1) == is_fish);
    }
    CHECK_FAILS(qn_partition_create(NULL, text, &named, 3, 1, &(qn_partition){0}), QN_ERROR_FORMAT,
                "no line for class ant");
    qn_partition_destroy(&p);
    write_lines(path, "ant,i\nbee, wild,i\ncod,f\neel,f\nfly,i\n");
    CHECK_OK(qn_partition_create(NULL, text, &named, 3, 1, &p));
    qn_partition_destroy(&p);
    static const char *const wrong[][2] = {{"0,i\n1,i\n2,f\n0,f\n", "class 0 has two lines"},
                                           {"0,i\n1\n", "line 2 is not"},
                                           {"0,i\n,i\n", "line 2 is not"},
                                           {"0,\n", "line 1 is not"},
                                           {"", "no line for class 0"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        write_lines(path, wrong[i][0]);
        CHECK_FAILS(qn_partition_create(NULL, text, &of, 3, 1, &p), QN_ERROR_FORMAT, wrong[i][1]);
    }
    unlink(path);
    CHECK_FAILS(qn_partition_create(NULL, text, &of, 3, 1, &p), QN_ERROR_IO, path);
}

/* Every allocation fails once: nothing is left behind. */
static void test_failing(void) {
    char path[] = "/tmp/quern-supers-XXXXXX", text[64];
    const int handle = mkstemp(path);
    CHECK(handle >= 0 && close(handle) == 0);
    write_lines(path, "0,a\n1,a\n2,b\n3,b\n4,b\n");
    snprintf(text, sizeof text, "pachinko:0.1:10:%s", path);
    const char *const kinds[] = {"hsu:1", "lda:1", text};
    for (int i = 0; i < 3; i++) {
        qn_partition p;
        const qn_partition_classes of = {labels, N, N_CLASSES, NULL};
        qn_status status = QN_ERROR_MEMORY;
        for (int n = 0; status != QN_OK; n++) {
            failing f = {.left = n};
            const qn_allocator a = {&f, failing_allocate, failing_release};
            status = qn_partition_create(&a, kinds[i], &of, 4, 1, &p);
            CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
            if (status == QN_OK)
                qn_partition_destroy(&p);
            CHECK(f.held_bytes == 0);
        }
    }
    unlink(path);
}

int main(void) {
    test_users();
    test_partitions();
    test_wrong_partitions();
    test_shares();
    test_pachinko();
    test_failing();
    test_int8();
    test_top();
    test_privacy();
    test_privacy_closed_form();
    test_privacy_extremes();
    test_store();
    qn_data_source data = open_images();
    test_runs(&data);
    test_kept(&data);
    test_devices(&data);
    test_engine_options(&data);
    test_one_client(&data);
    test_proximal(&data);
    test_failures(&data);
    test_memory(&data);
    qn_data_close(&data);
    return checks_finish();
}
