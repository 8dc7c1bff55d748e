/* The loader: batches are the same with and without a thread, wherever it begins; order, padding,
 * ends, failures, allocation. */
#include "data_files.h"

#include "base/status.h"
#include "os/os.h"

/* A source of the test: sample i is (i, split), class i % 3; sample fails_at cannot be read. */
typedef struct counted {
    int64_t fails_at, n_reads;
} counted;

static qn_status counted_read(void *self, qn_split split, int64_t index, void *x, void *y) {
    counted *c = self;
    float values[2] = {(float)index, (float)split};
    int32_t class = (int32_t)(index % 3);
    __atomic_add_fetch(&c->n_reads, 1, __ATOMIC_RELAXED);
    memcpy(x, values, sizeof values);
    memcpy(y, &class, sizeof class);
    if (index == c->fails_at) {
        qn_file *file;
        return qn_file_open(NULL, "/no/such/sample", &file);
    }
    return QN_OK;
}

static qn_data_source make_source(counted *c, int64_t n_train, int64_t n_test) {
    *c = (counted){.fails_at = -1};
    return (qn_data_source){.self = c,
                            .name = "counted",
                            .n_samples = {n_train, n_test},
                            .sample = QN_SHAPE(2),
                            .dtype = QN_F32,
                            .preparation = {.sample = QN_SHAPE(2), .n_classes = 3},
                            .read = counted_read};
}

static qn_loader *make_loader(const qn_data_source *source, qn_loader_options options) {
    qn_loader *loader = NULL;
    CHECK_OK(qn_loader_create(source, &source->preparation, &options, &loader));
    return loader;
}

/* All batches are equal, byte by byte, to the end. */
static void check_equal(qn_loader *a, qn_loader *b, size_t x_bytes, size_t y_bytes) {
    qn_batch left, right;
    for (int n = 0; n < 1000; n++) {
        CHECK_OK(qn_loader_next(a, &left));
        CHECK_OK(qn_loader_next(b, &right));
        CHECK(!left.x == !right.x);
        if (!left.x || !right.x)
            return;
        CHECK(memcmp(left.x, right.x, x_bytes) == 0 && memcmp(left.y, right.y, y_bytes) == 0);
        CHECK(left.epoch == right.epoch && left.position == right.position &&
              left.n_valid == right.n_valid);
    }
    CHECK(!"the loaders end");
}

static void check_determinism(bool crop) {
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .sample = QN_SHAPE(8, 8, 3),
                               .seed = 4};
    qn_data_source source;
    qn_batch batch;
    CHECK_OK(open_at("synthetic", &options, &source));
    qn_loader_options o = {QN_OPTIONS_INIT(qn_loader_options),
                           .batch = 100,
                           .seed = 9,
                           .shuffle = true,
                           .crop = crop,
                           .flip = crop,
                           .n_batches = 210};
    qn_loader *plain = make_loader(&source, o);
    o.n_prefetched = 3;
    qn_loader *ahead = make_loader(&source, o);
    check_equal(plain, ahead, 100 * 192 * 4, 400);
    CHECK_OK(qn_loader_rewind(plain));
    CHECK_OK(qn_loader_rewind(ahead));
    for (int i = 0; i < 137; i++)
        CHECK_OK(qn_loader_next(plain, &batch));
    CHECK(batch.epoch == 1 && batch.position == 36 && batch.n_valid == 100);
    o.first = 137;
    o.n_batches = 210 - 137;
    qn_loader *resumed = make_loader(&source, o);
    check_equal(plain, resumed, 100 * 192 * 4, 400);
    CHECK_OK(qn_loader_next(ahead, &batch));
    CHECK_OK(qn_loader_rewind(ahead)); /* while the thread is at work */
    CHECK_OK(qn_loader_rewind(plain));
    check_equal(plain, ahead, 100 * 192 * 4, 400);
    CHECK(qn_loader_wait_ns(plain) > 0);
    qn_loader_destroy(plain);
    qn_loader_destroy(ahead);
    qn_loader_destroy(resumed);
    qn_data_close(&source);
}

/* Dropping takes each sample at most once an epoch, in another order each time; without shuffling
 * in the file's order. */
static void check_order(void) {
    counted c;
    qn_data_source source = make_source(&c, 25, 0);
    qn_batch batch;
    qn_loader *loader =
        make_loader(&source, (qn_loader_options){QN_OPTIONS_INIT(qn_loader_options), .batch = 8,
                                                 .shuffle = true, .n_batches = 6, .seed = 1});
    int orders[2][24] = {{0}}, n_same = 0;
    CHECK(qn_loader_epoch_batches(loader) == 3);
    for (int i = 0; i < 6; i++) {
        CHECK_OK(qn_loader_next(loader, &batch));
        for (int k = 0; k < 8; k++) {
            orders[i / 3][i % 3 * 8 + k] = (int)batch.x[2 * k];
            CHECK(((const int32_t *)batch.y)[k] == (int)batch.x[2 * k] % 3);
        }
    }
    CHECK_OK(qn_loader_next(loader, &batch));
    CHECK(!batch.x);
    for (int i = 0; i < 24; i++) {
        n_same += orders[0][i] == orders[1][i];
        for (int k = 0; k < i; k++)
            CHECK(orders[0][i] != orders[0][k] && orders[1][i] != orders[1][k]);
    }
    CHECK(n_same < 12);
    qn_loader_destroy(loader);
    loader =
        make_loader(&source, (qn_loader_options){QN_OPTIONS_INIT(qn_loader_options), .batch = 5,
                                                 .n_batches = -1, .n_prefetched = 2});
    for (int i = 0; i < 12; i++) {
        CHECK_OK(qn_loader_next(loader, &batch));
        CHECK(batch.x[8] == (float)(i % 5 * 5 + 4));
    }
    qn_loader_destroy(loader); /* in the middle of its work */
}

/* Batches that go on with the next epoch: in any stretch of as many samples as there are that
 * begins with an epoch, each is met once; the same with a thread, and from the middle on. */
static void check_wrap(void) {
    enum { N = 11, BATCH = 4, BATCHES = 33 }; /* 12 epochs */
    counted c;
    qn_data_source source = make_source(&c, N, 0);
    qn_loader_options o = {QN_OPTIONS_INIT(qn_loader_options),
                           .batch = BATCH,
                           .seed = 5,
                           .shuffle = true,
                           .wrap = true,
                           .n_batches = BATCHES};
    qn_loader *plain = make_loader(&source, o);
    qn_batch batch;
    int n_met[N] = {0};
    for (int i = 0; i < BATCHES * BATCH; i++) {
        if (i % BATCH == 0)
            CHECK_OK(qn_loader_next(plain, &batch));
        CHECK(batch.n_valid == BATCH && batch.epoch == i / BATCH * BATCH / N);
        n_met[(int)batch.x[2 * (i % BATCH)]]++;
        for (int k = 0; k < N && i % N == N - 1; k++)
            CHECK(n_met[k] == i / N + 1);
    }
    CHECK_OK(qn_loader_rewind(plain));
    for (int i = 0; i < 7; i++)
        CHECK_OK(qn_loader_next(plain, &batch));
    CHECK(batch.epoch == 2 &&
          batch.position == 0); /* samples 24 to 27, of which 22 begins epoch 2 */
    o.first = 7;
    o.n_batches = BATCHES - 7;
    o.n_prefetched = 3;
    qn_loader *later = make_loader(&source, o);
    check_equal(plain, later, BATCH * 8, BATCH * 4);
    qn_loader_destroy(plain);
    qn_loader_destroy(later);
}

static void check_padding(void) {
    counted c;
    qn_data_source source = make_source(&c, 25, 10);
    qn_loader *loader =
        make_loader(&source, (qn_loader_options){QN_OPTIONS_INIT(qn_loader_options),
                                                 .split = QN_TEST, .batch = 4, .pad_last = true,
                                                 .n_batches = 3, .n_prefetched = 1});
    qn_batches stream = qn_loader_batches(loader);
    for (int twice = 0; twice < 2; twice++) {
        qn_batch batch;
        for (int i = 0; i < 3; i++)
            CHECK_OK(stream.next(stream.self, &batch));
        CHECK(batch.n_valid == 2 && batch.x[2] == 9 && batch.x[3] == 1);
        CHECK(batch.x[4] == 0 && batch.x[7] == 0);
        CHECK(((const int32_t *)batch.y)[1] == 0 && ((const int32_t *)batch.y)[2] == -1 &&
              ((const int32_t *)batch.y)[3] == -1);
        CHECK_OK(stream.next(stream.self, &batch));
        CHECK(!batch.x);
        CHECK_OK(stream.rewind(stream.self));
    }
    qn_loader_destroy(loader);
}

/* A failure comes with the batch it belongs to, again and again, with its message. */
static void check_failure(int n_prefetched) {
    counted c;
    qn_data_source source = make_source(&c, 25, 0);
    qn_batch batch;
    c.fails_at = 13;
    qn_loader *loader =
        make_loader(&source, (qn_loader_options){QN_OPTIONS_INIT(qn_loader_options), .batch = 5,
                                                 .n_batches = -1, .n_prefetched = n_prefetched});
    for (int i = 0; i < 2; i++)
        CHECK_OK(qn_loader_next(loader, &batch));
    for (int i = 0; i < 3; i++) {
        qn_fail(QN_ERROR_ARGUMENT, "another failure in between");
        CHECK_FAILS(qn_loader_next(loader, &batch), QN_ERROR_IO, "/no/such/sample");
    }
    CHECK_OK(qn_loader_rewind(loader));
    CHECK_OK(qn_loader_next(loader, &batch));
    CHECK(batch.position == 0 && batch.x[8] == 4);
    qn_loader_destroy(loader);
    c.fails_at = -1;
    source.preparation.n_classes = 2;
    loader =
        make_loader(&source, (qn_loader_options){QN_OPTIONS_INIT(qn_loader_options), .batch = 5,
                                                 .n_batches = -1, .n_prefetched = n_prefetched});
    CHECK_FAILS(qn_loader_next(loader, &batch), QN_ERROR_FORMAT, "sample 2 is of class 2");
    qn_loader_destroy(loader);
}

static void check_options(void) {
    counted c;
    qn_data_source source = make_source(&c, 25, 0);
    const qn_preparation *p = &source.preparation;
    qn_loader *loader;
    CHECK_FAILS(qn_loader_create(
                    &source, p,
                    &(qn_loader_options){QN_OPTIONS_INIT(qn_loader_options), .batch = 26}, &loader),
                QN_ERROR_ARGUMENT, "26 is larger than the 25 training samples of counted");
    CHECK_FAILS(qn_loader_create(
                    &source, p,
                    &(qn_loader_options){QN_OPTIONS_INIT(qn_loader_options), .batch = 0}, &loader),
                QN_ERROR_ARGUMENT, "at least 1");
    CHECK_FAILS(qn_loader_create(&source, p,
                                 &(qn_loader_options){QN_OPTIONS_INIT(qn_loader_options),
                                                      .batch = 1, .split = QN_TEST},
                                 &loader),
                QN_ERROR_ARGUMENT, "no test samples");
    CHECK_FAILS(qn_loader_create(&source, p,
                                 &(qn_loader_options){QN_OPTIONS_INIT(qn_loader_options),
                                                      .batch = 1, .crop = true},
                                 &loader),
                QN_ERROR_ARGUMENT, "only images");
    qn_preparation other = {.sample = QN_SHAPE(3), .n_classes = 3};
    CHECK_FAILS(qn_loader_create(
                    &source, &other,
                    &(qn_loader_options){QN_OPTIONS_INIT(qn_loader_options), .batch = 1}, &loader),
                QN_ERROR_ARGUMENT, "cannot feed");
    qn_loader_destroy(NULL);
}

/* Creation with the n-th allocation failing; none after it. */
static void check_allocation(void) {
    qn_data_options data = {QN_OPTIONS_INIT(qn_data_options), .sample = QN_SHAPE(8, 8, 1)};
    qn_data_source source;
    qn_batch batch;
    bool is_done = false;
    CHECK_OK(open_at("synthetic", &data, &source));
    qn_preparation p = source.preparation;
    p.sample = QN_SHAPE(12, 12, 3);
    for (int n = 0; n < 100 && !is_done; n++) {
        failing f = {.left = n};
        qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_loader_options o = {QN_OPTIONS_INIT(qn_loader_options),
                               .allocator = &allocator,
                               .batch = 4,
                               .crop = true,
                               .n_batches = -1,
                               .n_prefetched = 2};
        qn_loader *loader = NULL;
        qn_status status = qn_loader_create(&source, &p, &o, &loader);
        is_done = status == QN_OK;
        CHECK(is_done || (status == QN_ERROR_MEMORY && f.held_bytes == 0 && !loader));
        int64_t left = f.left;
        for (int i = 0; i < 20 && is_done; i++)
            CHECK_OK(qn_loader_next(loader, &batch));
        CHECK(!is_done || (f.left == left && n > 10));
        qn_loader_destroy(loader);
        CHECK(f.held_bytes == 0);
    }
    CHECK(is_done);
    check_open_survives("synthetic");
    qn_data_close(&source);
}

/* Classes of made-up data can be told apart: samples lie nearer to the mean of their own class. */
static void check_synthetic(void) {
    enum { N = 600, D = 36 };
    static float x[N][D], mean[3][D];
    int32_t y[N];
    int n_right = 0, count[3] = {0};
    qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .sample = QN_SHAPE(6, 6, 1),
                               .n_classes = 3, .seed = 2};
    qn_data_source source;
    CHECK_OK(open_at("synthetic", &options, &source));
    for (int i = 0; i < N; i++) {
        CHECK_OK(source.read(source.self, QN_TRAIN, i, x[i], &y[i]));
        count[y[i]]++;
        for (int k = 0; k < D; k++)
            mean[y[i]][k] += x[i][k];
    }
    CHECK(count[0] > 150 && count[1] > 150 && count[2] > 150);
    for (int i = 0; i < N; i++) {
        double distance[3] = {0};
        for (int c = 0; c < 3; c++)
            for (int k = 0; k < D; k++)
                distance[c] += pow(x[i][k] - mean[c][k] / (float)count[c], 2);
        int best = distance[1] < distance[0];
        n_right += (distance[2] < distance[best] ? 2 : best) == y[i];
    }
    CHECK(n_right > N * 8 / 10);
    qn_data_close(&source);
    options.n_targets = 2;
    CHECK_OK(open_at("synthetic", &options, &source));
    float target[2];
    CHECK_OK(source.read(source.self, QN_TEST, 1999, x[0], target));
    CHECK(source.n_targets == 2 && fabsf(target[0]) <= 1 && fabsf(target[1]) <= 1);
    qn_data_close(&source);
}

int main(void) {
    files_begin();
    check_determinism(false);
    check_determinism(true);
    check_order();
    check_wrap();
    check_padding();
    check_failure(0);
    check_failure(3);
    check_options();
    check_allocation();
    check_synthetic();
    files_end();
    return checks_finish();
}
