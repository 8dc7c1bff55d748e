/* Data that the caller gives a task: samples in memory are what the same arrays in files are, to
 * the bit; measuring and predicting on other data than the task's own; wrong samples and every
 * failing allocation; what goes with another optimizer, and a meter that the loop marks. */
#include "data_files.h"
#include "os/heap.h"
#include "quern/quern.h"

enum { N = 60, SIDE = 6, CHANNELS = 3, PIXELS = SIDE * SIDE * CHANNELS, CLASSES = 4 };

static uint8_t bytes[N][PIXELS], planes[N][PIXELS]; /* (H, W, C), and the same as (C, H, W) */
static float rows[N][PIXELS], targets[N];
static int32_t labels[N];

static void make_arrays(void) {
    uint32_t state = 7;
    for (int i = 0; i < N; i++) {
        labels[i] = i % CLASSES;
        targets[i] = (float)i / N;
        for (int k = 0; k < PIXELS; k++) {
            state = state * 1664525u + 1013904223u;
            bytes[i][k] = (uint8_t)((state >> 25) + (k % CLASSES == labels[i] ? 100 : 0));
            rows[i][k] = (float)bytes[i][k] / 255;
            planes[i][k % CHANNELS * SIDE * SIDE + k / CHANNELS] = bytes[i][k];
        }
    }
}

static void write_npy(const char *path, const char *type, const char *shape, const void *data,
                      size_t n_bytes) {
    static char file[1 << 16];
    memcpy(file, "\x93NUMPY\x01\x00", 8);
    const int n = snprintf(file + 10, 200, "{'descr': '%s', 'fortran_order': False, 'shape': %s}\n",
                           type, shape);
    file[8] = (char)n;
    file[9] = 0;
    memcpy(file + 10 + n, data, n_bytes);
    write_file(path, file, 10 + (size_t)n + n_bytes);
}

static qn_samples samples_of(const void *x, qn_dtype dtype) {
    return (qn_samples){QN_OPTIONS_INIT(qn_samples),
                        .n = {N},
                        .x = {x},
                        .y = {labels},
                        .sample = QN_SHAPE(SIDE, SIDE, CHANNELS),
                        .dtype = dtype};
}

static qn_data_source open_samples(qn_samples samples, double holdout) {
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .seed = 1,
                                     .holdout = holdout};
    qn_data_source source = {0};
    CHECK_OK(qn_data_open_samples(&samples, &options, &source));
    return source;
}

/* ---- as in a file ---- */

static void check_same_samples(const qn_data_source *a, const qn_data_source *b) {
    uint8_t x[2][PIXELS * 4];
    int32_t y[2];
    for (int split = 0; split < QN_SPLITS; split++) {
        CHECK(a->n_samples[split] == b->n_samples[split]);
        for (int64_t i = 0; i < a->n_samples[split]; i++) {
            CHECK_OK(a->read(a->self, (qn_split)split, i, x[0], &y[0]));
            CHECK_OK(b->read(b->self, (qn_split)split, i, x[1], &y[1]));
            CHECK(memcmp(x[0], x[1], a->dtype == QN_U8 ? PIXELS : PIXELS * 4) == 0);
            CHECK(y[0] == y[1]);
        }
    }
    CHECK(a->preparation.n_classes == b->preparation.n_classes);
    CHECK(a->preparation.n_statistics == b->preparation.n_statistics);
    for (int i = 0; i < a->preparation.n_statistics; i++)
        CHECK(a->preparation.mean[i] == b->preparation.mean[i] &&
              a->preparation.std_dev[i] == b->preparation.std_dev[i]);
}

static void check_as_file(void) {
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .seed = 1, .holdout = 0.25,
                                     .validation = 0.2};
    qn_data_source file, memory;
    write_npy("@/x.npy", "|u1", "(60, 6, 6, 3)", bytes, sizeof bytes);
    write_npy("@/planes.npy", "|u1", "(60, 3, 6, 6)", planes, sizeof planes);
    write_npy("@/y.npy", "<i4", "(60,)", labels, sizeof labels);
    qn_samples samples = samples_of(bytes, QN_U8);
    CHECK_OK(open_at("npy:@/x.npy,@/y.npy", &options, &file));
    CHECK_OK(qn_data_open_samples(&samples, &options, &memory));
    CHECK(memory.n_samples[QN_TEST] > 5 && memory.n_samples[QN_VALIDATION] > 2);
    check_same_samples(&file, &memory);
    qn_data_close(&memory);
    qn_data_close(&file);
    samples = samples_of(planes, QN_U8);
    samples.is_nchw = true;
    CHECK_OK(open_at("npy:@/planes.npy,@/y.npy,nchw", &options, &file));
    CHECK_OK(qn_data_open_samples(&samples, &options, &memory));
    check_same_samples(&file, &memory);
    qn_data_close(&memory);
    qn_data_close(&file);
}

/* ---- tasks ---- */

typedef struct opened {
    qn_metadata *settings;
    qn_task *task;
} opened;

/* mlp on what the settings name or a source is. */
static opened open_task(const char *data, const qn_data_source *source, bool training) {
    opened o = {0};
    CHECK_OK(qn_metadata_create(NULL, &o.settings));
    if (data)
        CHECK_OK(qn_metadata_set(o.settings, "data", at_root(data)));
    CHECK_OK(qn_metadata_set(o.settings, "batch", "8"));
    CHECK_OK(qn_metadata_set(o.settings, "holdout", "0.25"));
    CHECK_OK(qn_metadata_set(o.settings, "input", "6x6x3"));
    CHECK_OK(qn_metadata_set(o.settings, "steps", "12"));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT,   .model = qn_model_find("mlp"),
                                     .settings = o.settings, .training = training,
                                     .engine.n_threads = 1,  .source = source};
    CHECK_OK(qn_task_open(&options, &o.task));
    return o;
}

static void close_task(opened *o) {
    qn_task_close(o->task);
    qn_metadata_destroy(o->settings);
}

static void step(opened *o, int n) {
    qn_metrics metrics;
    for (int i = 0; i < n; i++)
        CHECK_OK(qn_task_step(o->task, &metrics));
}

static void check_same_bits(void) {
    qn_data_source source = open_samples(samples_of(bytes, QN_U8), 0.25);
    opened file = open_task("npy:@/x.npy,@/y.npy", NULL, true),
           memory = open_task(NULL, &source, true);
    CHECK(strcmp(qn_metadata_get(memory.settings, "data"), "memory") == 0);
    step(&file, 12);
    step(&memory, 12);
    const qn_engine *a = qn_task_engine(file.task), *b = qn_task_engine(memory.task);
    CHECK(qn_engine_tensor_count(a) > 4 && qn_engine_tensor_count(a) == qn_engine_tensor_count(b));
    for (int i = 0; i < qn_engine_tensor_count(a); i++) {
        const qn_stored_tensor p = qn_engine_tensor_at(a, i), q = qn_engine_tensor_at(b, i);
        CHECK(p.bytes == q.bytes && memcmp(p.data, q.data, p.bytes) == 0);
    }
    close_task(&file);
    close_task(&memory);
    qn_data_close(&source);
}

static int likeliest(const float *outputs) {
    int best = 0;
    for (int i = 1; i < CLASSES; i++)
        best = outputs[i] > outputs[best] ? i : best;
    return best;
}

static bool stop_now(void *user) {
    (void)user;
    return true;
}

/* The task's own test samples, given as other data, and what is predicted of them. */
static void check_other_data(void) {
    qn_data_source source = open_samples(samples_of(bytes, QN_U8), 0.25);
    opened o = open_task(NULL, &source, true);
    qn_metrics own, other;
    int64_t n_own, n_other;
    float outputs[N][CLASSES];
    const int64_t n = source.n_samples[QN_TEST];
    step(&o, 12);
    CHECK(qn_task_output_count(o.task) == CLASSES);
    CHECK_OK(qn_task_evaluate(o.task, QN_TEST, NULL, NULL, &own, &n_own));
    CHECK_OK(qn_task_evaluate_on(o.task, &source, QN_TEST, NULL, NULL, &other, &n_other));
    CHECK(n_own == n && n_other == n);
    CHECK(qn_metrics_get(&own, "loss") == qn_metrics_get(&other, "loss"));
    CHECK_OK(qn_task_predict(o.task, &source, QN_TEST, NULL, NULL, outputs[0]));
    int n_right = 0;
    double loss = 0;
    for (int64_t i = 0; i < n; i++) {
        uint8_t x[PIXELS];
        int32_t y;
        CHECK_OK(source.read(source.self, QN_TEST, i, x, &y));
        n_right += likeliest(outputs[i]) == y;
        loss -= log((double)outputs[i][y]) / (double)n;
    }
    CHECK(fabs((double)n_right / (double)n - qn_metrics_get(&own, "accuracy")) < 1e-12);
    CHECK(fabs(loss - qn_metrics_get(&own, "loss")) < 1e-5);
    CHECK_FAILS(qn_task_predict(o.task, &source, QN_TEST, stop_now, NULL, outputs[0]),
                QN_ERROR_INTERRUPTED, "stopped");
    close_task(&o);
    qn_data_close(&source);
}

static void check_misfits(void) {
    qn_data_source source = open_samples(samples_of(bytes, QN_U8), 0.25);
    qn_samples with_targets = samples_of(bytes, QN_U8), many = with_targets;
    with_targets.n_targets = 1;
    with_targets.y[QN_TRAIN] = targets;
    many.n_classes = 9;
    qn_data_source numbers = open_samples(with_targets, 0), nine = open_samples(many, 0);
    opened o = open_task(NULL, &source, true);
    qn_metrics metrics;
    int64_t n;
    float outputs[N][CLASSES];
    CHECK_FAILS(qn_task_evaluate_on(o.task, &numbers, QN_TRAIN, NULL, NULL, &metrics, &n),
                QN_ERROR_ARGUMENT, "other targets");
    CHECK_FAILS(qn_task_evaluate_on(o.task, &nine, QN_TRAIN, NULL, NULL, &metrics, &n),
                QN_ERROR_ARGUMENT, "memory has 9 classes, but the network has 4 outputs");
    CHECK_OK(qn_task_predict(o.task, &numbers, QN_TRAIN, NULL, NULL, outputs[0]));
    close_task(&o);
    o = open_task(NULL, &numbers, true); /* a regression predicts for samples without targets */
    CHECK(qn_task_output_count(o.task) == 1);
    CHECK_OK(qn_task_predict(o.task, &source, QN_TEST, NULL, NULL, outputs[0]));
    close_task(&o);
    qn_data_close(&nine);
    qn_data_close(&numbers);
    qn_data_close(&source);
}

static void check_other_tasks(void) {
    qn_data_source source = open_samples(samples_of(bytes, QN_U8), 0.25);
    opened o = {0};
    qn_task *none = NULL;
    float output;
    CHECK_OK(qn_metadata_create(NULL, &o.settings));
    CHECK_OK(qn_metadata_set(o.settings, "data", "synthetic"));
    qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = qn_model_find("char-lstm"),
                               .settings = o.settings, .source = &source};
    CHECK_FAILS(qn_task_open(&options, &none), QN_ERROR_UNSUPPORTED, "takes its data from files");
    options.source = NULL;
    options.training = true;
    CHECK_OK(qn_task_open(&options, &o.task));
    CHECK(qn_task_output_count(o.task) == 0);
    CHECK_FAILS(qn_task_predict(o.task, &source, QN_TEST, NULL, NULL, &output),
                QN_ERROR_UNSUPPORTED, "on its own data alone");
    close_task(&o);
    qn_data_close(&source);
}

/* ---- wrong samples ---- */

static void check_refused(qn_samples samples, qn_status status, const char *text) {
    qn_data_source source;
    CHECK_FAILS(qn_data_open_samples(&samples, NULL, &source), status, text);
}

static qn_status read_none(void *user, qn_split split, int64_t index, void *x, void *y) {
    (void)user, (void)split, (void)index, (void)x, (void)y;
    return QN_OK;
}

static void check_wrong_samples(void) {
    qn_samples s = samples_of(rows, QN_F32);
    labels[3] = -1;
    check_refused(s, QN_ERROR_FORMAT, "training samples: label -1 in row 3");
    labels[3] = 3;
    rows[5][7] = NAN;
    check_refused(s, QN_ERROR_FORMAT, "row 5, number 7 of it: nan");
    rows[5][7] = 0;
    s.n_classes = 3;
    check_refused(s, QN_ERROR_FORMAT, "label 3 in row 3; classes are numbered from 0 to 2");
    s.n_targets = 1;
    check_refused(s, QN_ERROR_ARGUMENT, "not both");
    s = samples_of(rows, QN_F64);
    check_refused(s, QN_ERROR_UNSUPPORTED, "float32 or uint8");
    s = samples_of(NULL, QN_F32);
    check_refused(s, QN_ERROR_ARGUMENT, "60 training samples, but no x");
    s.read = read_none;
    check_refused(s, QN_ERROR_ARGUMENT, "need the number of classes");
    s = samples_of(rows, QN_F32);
    s.sample = QN_SHAPE(6, 18);
    check_refused(s, QN_ERROR_ARGUMENT, "(H, W, C)");
    s = samples_of(rows, QN_F32);
    s.n[QN_TEST] = -1;
    check_refused(s, QN_ERROR_ARGUMENT, "-1 test samples");
    s.n[QN_TEST] = 0;
    s.size = 3;
    check_refused(s, QN_ERROR_ARGUMENT, "qn_samples");
}

/* ---- failing allocations ---- */

static qn_status whole(const qn_allocator *allocator) {
    const qn_samples samples = samples_of(bytes, QN_U8);
    const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .allocator = allocator,
                                     .holdout = 0.25};
    qn_data_source source = {0};
    qn_metadata *settings = NULL;
    qn_task *task = NULL;
    float outputs[N][CLASSES];
    qn_metrics metrics;
    int64_t n;
    qn_status status = qn_data_open_samples(&samples, &options, &source);
    if (status == QN_OK)
        status = qn_metadata_create(allocator, &settings);
    if (status == QN_OK)
        status = qn_metadata_set(settings, "input", "6x6x3");
    if (status == QN_OK)
        status = qn_metadata_set(settings, "batch", "8");
    const qn_task_options how = {QN_TASK_OPTIONS_INIT,  .engine.allocator = allocator,
                                 .engine.n_threads = 1, .model = qn_model_find("mlp"),
                                 .settings = settings,  .source = &source,
                                 .training = true};
    if (status == QN_OK)
        status = qn_task_open(&how, &task);
    if (status == QN_OK)
        status = qn_task_evaluate_on(task, &source, QN_TEST, NULL, NULL, &metrics, &n);
    if (status == QN_OK)
        status = qn_task_predict(task, &source, QN_TEST, NULL, NULL, outputs[0]);
    qn_task_close(task);
    qn_metadata_destroy(settings);
    qn_data_close(&source);
    return status;
}

static void check_failures(void) {
    qn_status status = QN_ERROR_MEMORY;
    for (int64_t n = 0; status == QN_ERROR_MEMORY && n < 10000; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = whole(&allocator);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK_OK(status);
}

/* ---- settings, and the loop's meter ---- */

static double rate_with(const char *optimizer, const char *rate) {
    qn_data_source source = open_samples(samples_of(bytes, QN_U8), 0.25);
    opened o = {0};
    CHECK_OK(qn_metadata_create(NULL, &o.settings));
    if (optimizer)
        CHECK_OK(qn_metadata_set(o.settings, "optimizer", optimizer));
    if (rate)
        CHECK_OK(qn_metadata_set(o.settings, "lr", rate));
    CHECK_OK(qn_metadata_set(o.settings, "batch", "8"));
    CHECK_OK(qn_metadata_set(o.settings, "input", "6x6x3"));
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .model = qn_model_find("mlp"),
                                     .settings = o.settings, .source = &source, .training = true};
    CHECK_OK(qn_task_open(&options, &o.task));
    const double found = qn_engine_get_options(qn_task_engine(o.task))->update.rate;
    close_task(&o);
    qn_data_close(&source);
    return found;
}

static void check_optimizers(void) {
    const qn_recipe *recipe = &qn_model_find("mlp")->recipe;
    CHECK(recipe->optimizer == QN_SGD && recipe->rate != 0.001);
    CHECK(rate_with(NULL, NULL) == recipe->rate);
    CHECK(rate_with("sgd", NULL) == recipe->rate);
    CHECK(rate_with("adam", NULL) == 0.001);
    CHECK(rate_with("adam", "0.02") == 0.02);
}

static void check_meter(void) {
    qn_data_source source = open_samples(samples_of(bytes, QN_U8), 0.25);
    opened o = open_task(NULL, &source, true);
    qn_training *training;
    qn_meter *meter;
    qn_meter_summary summary;
    const qn_meter_options measured = {QN_OPTIONS_INIT(qn_meter_options),
                                       .engine = qn_task_engine(o.task), .skip_steps = 2};
    CHECK_OK(qn_meter_start(&measured, &meter));
    const qn_training_options options = {QN_OPTIONS_INIT(qn_training_options), .task = o.task,
                                         .settings = o.settings, .meter = meter};
    CHECK_OK(qn_training_create(&options, &training));
    CHECK_OK(qn_training_run(training));
    qn_meter_stop(meter);
    CHECK_OK(qn_meter_report(meter, &summary));
    CHECK(summary.steps == 12 - 2);
    qn_meter_destroy(meter);
    qn_training_destroy(training);
    close_task(&o);
    qn_data_close(&source);
}

int main(void) {
    files_begin();
    make_arrays();
    check_as_file();
    check_same_bits();
    check_other_data();
    check_misfits();
    check_other_tasks();
    check_wrong_samples();
    check_failures();
    check_optimizers();
    check_meter();
    files_end();
    return checks_finish();
}
