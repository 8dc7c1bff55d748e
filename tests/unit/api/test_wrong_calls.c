/* Wrong calls of every public function, each in a process of its own: one argument or one field of
 * an options structure that is null, out of range, or no number. None may end the process or hang,
 * and null where something is needed is refused with a message. The calls are made from the headers
 * (make_calls.py), so that a new function is tried without a new test. And: an engine, a loader and
 * a predictor from before a fork say so in the child, and can be destroyed there. */
#include "check.h"
#include "quern/quern.h"
#include "small_models.h"

#include <limits.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/* A call, run in a child: its exit status. */
typedef struct wrong_call {
    int (*call)(void);
    const char *text;
    bool must_fail;
} wrong_call;

enum { REFUSED = 0, ACCEPTED = 2, SILENT = 3, MOST_SECONDS = 60 };

/* checkpoint is for calls to read and write. */
static char checkpoint[64], onnx[64];

static int outcome(qn_status status) {
    return status == QN_OK ? ACCEPTED : *qn_error_message() ? REFUSED : SILENT;
}

/* ---- right arguments, made when they are needed ---- */

/* Zeros, room for whatever is written. */
static void *room(void) {
    static _Alignas(64) char memory[16][1 << 16];
    static int n;
    return memory[n++ % 16];
}

#define RIGHT(kind, suffix, value)                                                                 \
    static inline kind right_##suffix(const char *name) {                                          \
        (void)name;                                                                                \
        return value;                                                                              \
    }

RIGHT(bool, bool, true)
RIGHT(int, int, 1)
RIGHT(int64_t, int64_t, 1)
RIGHT(size_t, size_t, 1 << 20)
RIGHT(double, double, 0.5)
RIGHT(void *, void_to, room())
RIGHT(float *, float_to, room())
RIGHT(int *, int_to, room())
RIGHT(int64_t *, int64_t_to, room())
RIGHT(qn_batch *, qn_batch_to, room())
RIGHT(qn_border, qn_border, QN_BORDER_VALUE)
RIGHT(qn_dtype, qn_dtype, QN_F32)
RIGHT(qn_reduction, qn_reduction, QN_SUM)
RIGHT(qn_split, qn_split, QN_TRAIN)
RIGHT(qn_status, qn_status, QN_OK)
RIGHT(qn_meter_format, qn_meter_format, QN_METER_CSV)
RIGHT(qn_shape, qn_shape, QN_SHAPE(2, 4))
RIGHT(qn_window, qn_window, qn_window_square(3, 1, 1))
RIGHT(qn_initial, qn_initial, ((qn_initial){QN_INITIAL_ONE, 1}))
RIGHT(bool *, bool_to, room())
RIGHT(qn_label_question *, qn_label_question_to, room())
RIGHT(qn_evaluation *, qn_evaluation_to, room())
RIGHT(qn_metrics *, qn_metrics_to, room())
RIGHT(qn_model_size *, qn_model_size_to, room())
RIGHT(qn_prediction *, qn_prediction_to, room())
RIGHT(qn_step_result *, qn_step_result_to, room())
RIGHT(qn_meter_summary *, qn_meter_summary_to, room())
RIGHT(qn_allocator *, qn_allocator_to, NULL)
RIGHT(const qn_model *, qn_model_to, &small_linear)
RIGHT(qn_graph **, qn_graph_to_to, room())
RIGHT(qn_engine **, qn_engine_to_to, room())
RIGHT(qn_trainer **, qn_trainer_to_to, room())
RIGHT(qn_loader **, qn_loader_to_to, room())
RIGHT(qn_metadata **, qn_metadata_to_to, room())
RIGHT(qn_numerics **, qn_numerics_to_to, room())
RIGHT(qn_meter **, qn_meter_to_to, room())
RIGHT(qn_task **, qn_task_to_to, room())
RIGHT(qn_training **, qn_training_to_to, room())
RIGHT(qn_predictor **, qn_predictor_to_to, room())
RIGHT(qn_onnx_network **, qn_onnx_network_to_to, room())
RIGHT(const qn_model **, qn_model_to_to, room())

static const char *text_of(const char *name) {
    if (strcmp(name, "specification") == 0)
        return "synthetic";
    if (strcmp(name, "path") == 0)
        return checkpoint;
    return strcmp(name, "task") == 0 ? "classification" : "x";
}

/* Of any use for const char * and, as room, for char *. */
static char *right_char_to(const char *name) {
    if (strcmp(name, "text") == 0)
        return calloc(1, 4096); /* one call frees it */
    return (char *)(uintptr_t)text_of(name);
}

static void *right_char_to_to(const char *name) {
    (void)name;
    return room();
}

/* Of qn_engine_run and qn_engine_add_state. */
static void *right_void_to_to(const char *name) {
    void **list = room();
    for (int i = 0; strcmp(name, "inputs") == 0 && i < 8; i++)
        list[i] = room();
    return list;
}

static const qn_given *right_qn_given_to(const char *name) {
    static const float data[8] = {1};
    static const qn_given given = {QN_F32, data, {4, 1}};
    (void)name;
    return &given;
}

static const qn_resampling *right_qn_resampling_to(const char *name) {
    static const qn_resampling how;
    (void)name;
    return &how;
}

static const qn_image *right_qn_image_to(const char *name) {
    static uint8_t pixels[64];
    static qn_image image = {.pixels = pixels, .height = 2, .width = 2, .channels = 3};
    (void)name;
    return &image;
}

static qn_graph *right_qn_graph_to(const char *name) {
    static qn_graph *graph;
    (void)name;
    if (!graph &&
        qn_graph_create(&(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = true},
                        &graph) == QN_OK) {
        (void)qn_input(graph, "first", QN_SHAPE(2, 4));
        (void)qn_input(graph, "second", QN_SHAPE(2, 8, 8, 3));
        (void)qn_input(graph, "third", QN_SHAPE(2, 4));
    }
    return graph;
}

static qn_value right_qn_value(const char *name) {
    (void)right_qn_graph_to("graph");
    return (qn_value){strcmp(name, "filter") == 0 ? 1 : 0};
}

static qn_value *right_qn_value_to(const char *name) {
    qn_value *list = room();
    for (int i = 0; i < 8; i++)
        list[i] = right_qn_value(name);
    return list;
}

static const qn_graph_options *right_qn_graph_options_to(const char *name) {
    static const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options)};
    (void)name;
    return &options;
}

static qn_value build_tiny(qn_graph *graph, void *user, int phase, qn_value *kept) {
    (void)user, (void)phase, (void)kept;
    const qn_value x = qn_input(graph, "x", QN_SHAPE(2, 4));
    const qn_value loss = qn_mean(graph, "loss", qn_linear_layer(graph, "fc", x, 3));
    qn_result(graph, loss);
    return loss;
}

static const qn_program_options *right_qn_program_options_to(const char *name) {
    static const qn_program_options options = {QN_OPTIONS_INIT(qn_program_options),
                                               .training = true, .build = build_tiny};
    (void)name;
    return &options;
}

static const qn_engine_options *right_qn_engine_options_to(const char *name) {
    static const qn_engine_options options = {QN_OPTIONS_INIT(qn_engine_options), .n_threads = 2,
                                              .update = {.rate = 0.1}};
    (void)name;
    return &options;
}

static const qn_trainer_options *right_qn_trainer_options_to(const char *name) {
    static qn_trainer_options options;
    (void)name;
    options = qn_trainer_options_for(&small_linear);
    options.engine.n_threads = 2;
    return &options;
}

static qn_trainer *right_qn_trainer_to(const char *name) {
    static qn_trainer *trainer;
    if (!trainer && qn_trainer_create(right_qn_trainer_options_to(name), &trainer) != QN_OK)
        abort();
    return trainer;
}

static qn_engine *right_qn_engine_to(const char *name) {
    return qn_trainer_engine(right_qn_trainer_to(name));
}

static qn_metadata *right_qn_metadata_to(const char *name) {
    static qn_metadata *metadata;
    (void)name;
    if (!metadata && qn_metadata_create(NULL, &metadata) != QN_OK)
        abort();
    return metadata;
}

static qn_numerics *right_qn_numerics_to(const char *name) {
    static qn_numerics *numerics;
    (void)name;
    if (!numerics && qn_numerics_create(NULL, "niti", &numerics) != QN_OK)
        abort();
    return numerics;
}

static const qn_data_options *right_qn_data_options_to(const char *name) {
    static const qn_data_options options = {QN_OPTIONS_INIT(qn_data_options), .seed = 1,
                                            .sample = {1, {4}}, .n_classes = 3};
    (void)name;
    return &options;
}

static qn_data_source *right_qn_data_source_to(const char *name) {
    static qn_data_source source;
    if (!source.read && qn_data_open("synthetic", right_qn_data_options_to(name), &source) != QN_OK)
        abort();
    return &source;
}

static const qn_samples *right_qn_samples_to(const char *name) {
    static const float x[4][2];
    static const int32_t y[4] = {0, 1, 0, 1};
    static const qn_samples samples = {
        QN_OPTIONS_INIT(qn_samples), .n = {4},       .x = {x}, .y = {y},
        .sample = QN_SHAPE(2),       .dtype = QN_F32};
    (void)name;
    return &samples;
}

static qn_preparation *right_qn_preparation_to(const char *name) {
    static qn_preparation preparation;
    preparation = right_qn_data_source_to(name)->preparation;
    return &preparation;
}

static const qn_loader_options *right_qn_loader_options_to(const char *name) {
    static const qn_loader_options options = {QN_OPTIONS_INIT(qn_loader_options), .batch = 8,
                                              .n_batches = -1, .n_prefetched = 2};
    (void)name;
    return &options;
}

static qn_loader *right_qn_loader_to(const char *name) {
    static qn_loader *loader;
    if (!loader && qn_loader_create(right_qn_data_source_to(name), right_qn_preparation_to(name),
                                    right_qn_loader_options_to(name), &loader) != QN_OK)
        abort();
    return loader;
}

static qn_batches right_qn_batches(const char *name) {
    static const qn_loader_options finite = {QN_OPTIONS_INIT(qn_loader_options), .batch = 8,
                                             .n_batches = 2, .split = QN_TRAIN};
    qn_loader *loader;
    if (qn_loader_create(right_qn_data_source_to(name), right_qn_preparation_to(name), &finite,
                         &loader) != QN_OK)
        abort();
    return qn_loader_batches(loader);
}

static bool stops(void *user) {
    (void)user;
    return true;
}

static const qn_fit_options *right_qn_fit_options_to(const char *name) {
    static qn_fit_options options;
    options = (qn_fit_options){QN_OPTIONS_INIT(qn_fit_options),
                               .train = qn_loader_batches(right_qn_loader_to(name)),
                               .epoch_batches = 2, .steps = 4, .should_stop = stops};
    return &options;
}

static const qn_task_options *right_qn_task_options_to(const char *name) {
    static qn_task_options options;
    qn_metadata *settings = right_qn_metadata_to(name);
    (void)qn_metadata_set(settings, "data", "synthetic");
    (void)qn_metadata_set(settings, "steps", "2");
    (void)qn_metadata_set(settings, "batch", "4");
    options = (qn_task_options){QN_TASK_OPTIONS_INIT, .model = qn_model_find("mlp"),
                                .settings = settings, .training = true, .engine.n_threads = 2};
    return &options;
}

static qn_task *right_qn_task_to(const char *name) {
    static qn_task *task;
    if (!task && qn_task_open(right_qn_task_options_to(name), &task) != QN_OK)
        abort();
    return task;
}

static const qn_sample_options *right_qn_sample_options_to(const char *name) {
    static const qn_sample_options options = {QN_OPTIONS_INIT(qn_sample_options), .seed = 1};
    (void)name;
    return &options;
}

static const qn_personal_options *right_qn_personal_options_to(const char *name) {
    static const qn_personal_options options = {QN_OPTIONS_INIT(qn_personal_options),
                                                .text = "no-such-file"};
    (void)name;
    return &options;
}

static qn_personal *right_qn_personal_to(const char *name) {
    static qn_personal personal;
    (void)name;
    return &personal;
}

static const qn_training_options *right_qn_training_options_to(const char *name) {
    static qn_training_options options;
    options = (qn_training_options){.task = right_qn_task_to(name)};
    return &options;
}

static const qn_meter_options *right_qn_meter_options_to(const char *name) {
    static const qn_meter_options options = {QN_OPTIONS_INIT(qn_meter_options), .title = "t"};
    (void)name;
    return &options;
}

static qn_meter *right_qn_meter_to(const char *name) {
    static qn_meter *meter;
    if (!meter && qn_meter_start(right_qn_meter_options_to(name), &meter) != QN_OK)
        abort();
    return meter;
}

static qn_onnx_options *right_qn_onnx_options_to(const char *name) {
    static qn_onnx_options options = {QN_OPTIONS_INIT(qn_onnx_options)};
    (void)name;
    return &options;
}

static const qn_onnx_export_options *right_qn_onnx_export_options_to(const char *name) {
    static const qn_onnx_export_options options = {QN_OPTIONS_INIT(qn_onnx_export_options),
                                                   .model = &small_linear, .n_outputs = 3};
    (void)name;
    return &options;
}

static qn_onnx_network *right_qn_onnx_network_to(const char *name) {
    static qn_onnx_network *network;
    if (!network && qn_onnx_open(right_qn_onnx_options_to(name), onnx, &network) != QN_OK)
        abort();
    return network;
}

static const qn_predictor_options *right_qn_predictor_options_to(const char *name) {
    static qn_predictor_options options;
    options =
        (qn_predictor_options){QN_OPTIONS_INIT(qn_predictor_options), .own_model = &small_linear,
                               .preparation = right_qn_preparation_to(name), .n_threads = 2};
    return &options;
}

static qn_predictor *right_qn_predictor_to(const char *name) {
    static qn_predictor *predictor;
    if (!predictor &&
        qn_predictor_open(onnx, right_qn_predictor_options_to(name), &predictor) != QN_OK)
        abort();
    return predictor;
}

static const qn_label_options *right_qn_label_options_to(const char *name) {
    static const float x[12 * 4] = {1, 0, 0, 0, 0, 1};
    static const int32_t label[12] = {0, 1, 0, 1, 0, 1, 0, 1, 0, 1, 0, 1};
    static const qn_label_options options = {QN_OPTIONS_INIT(qn_label_options),
                                             .n_features = 4,
                                             .n_classes = 2,
                                             .n_samples = 12,
                                             .x = x,
                                             .label = label};
    (void)name;
    return &options;
}

static qn_labeller *right_qn_labeller_to(const char *name) {
    static qn_labeller *labeller;
    if (!labeller && qn_labeller_create(right_qn_label_options_to(name), &labeller) != QN_OK)
        abort();
    return labeller;
}

static const qn_learning_options *right_qn_learning_options_to(const char *name) {
    static char folder[96];
    static const qn_preparation preparation = {.sample = {3, {28, 28, 1}}, .n_classes = 10};
    static qn_learning_options options = {QN_OPTIONS_INIT(qn_learning_options)};
    char model[128];
    qn_metadata *pairs;
    qn_trainer *trainer;
    const qn_trainer_options o = qn_trainer_options_for(qn_model_find("lenet5"));
    (void)name;
    if (options.folder)
        return &options;
    snprintf(folder, sizeof folder, "%s.learned", checkpoint);
    snprintf(model, sizeof model, "%s-model", folder);
    (void)mkdir(folder, 0700); /* there already from another call */
    if (qn_trainer_create(&o, &trainer) != QN_OK || qn_metadata_create(NULL, &pairs) != QN_OK ||
        qn_metadata_set(pairs, "model", "lenet5") != QN_OK ||
        qn_metadata_set_preparation(pairs, &preparation) != QN_OK ||
        qn_checkpoint_save(qn_trainer_engine(trainer), pairs, model) != QN_OK)
        abort();
    qn_metadata_destroy(pairs);
    qn_trainer_destroy(trainer);
    options.folder = folder;
    options.model = strdup(model);
    options.n_kept = 64;
    options.n_threads = 2;
    return &options;
}

static qn_learning *right_qn_learning_to(const char *name) {
    static qn_learning *learning;
    if (!learning && qn_learning_open(right_qn_learning_options_to(name), &learning) != QN_OK)
        abort();
    return learning;
}

RIGHT(const uint8_t *, uint8_t_to, room())
RIGHT(int32_t, int32_t, 1)
RIGHT(qn_learning **, qn_learning_to_to, room())
RIGHT(qn_learn_turn *, qn_learn_turn_to, room())
RIGHT(qn_labeller **, qn_labeller_to_to, room())
RIGHT(qn_label_answer *, qn_label_answer_to, room())
RIGHT(qn_label_place *, qn_label_place_to, room())

#include "wrong_calls.inc"

/* ---- in a child ---- */

static int run_child(int (*body)(void)) {
    fflush(stdout);
    const pid_t child = fork();
    if (child == 0) {
        /* What asks for too much memory is refused it, and does not take the machine's. */
        const struct rlimit most = {(rlim_t)4 << 30, (rlim_t)4 << 30};
        if (!getenv("QUERN_SLOW"))
            setrlimit(RLIMIT_AS, &most);
        alarm(MOST_SECONDS);
        _exit(body());
    }
    int status = -1;
    waitpid(child, &status, 0);
    return status;
}

static void try_all(void) {
    const int n = (int)(sizeof wrong_calls / sizeof wrong_calls[0]);
    for (int i = 0; i < n; i++) {
        const wrong_call *w = &wrong_calls[i];
        const int status = run_child(w->call);
        const bool is_well = WIFEXITED(status) &&
                             (!w->must_fail || WEXITSTATUS(status) == REFUSED) &&
                             WEXITSTATUS(status) != SILENT;
        CHECK(is_well);
        if (!is_well)
            printf("  %s: %s %d\n", w->text, WIFSIGNALED(status) ? "signal" : "exit status",
                   WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
    }
    printf("%d wrong calls of %d functions\n", n, FUNCTIONS);
}

/* ---- after a fork ---- */

static int use_forked(void) {
    float x[8 * 4] = {0};
    int32_t y[8] = {0};
    qn_step_result result;
    qn_batch batch;
    qn_prediction best[3];
    const bool is_refused =
        qn_trainer_step(right_qn_trainer_to(""), x, y, &result) == QN_ERROR_ARGUMENT &&
        strstr(qn_error_message(), "forked") &&
        qn_loader_next(right_qn_loader_to(""), &batch) == QN_ERROR_ARGUMENT &&
        strstr(qn_error_message(), "forked") &&
        qn_predictor_predict_prepared(right_qn_predictor_to(""), x, 1, (float *)best) ==
            QN_ERROR_ARGUMENT;
    qn_loader_destroy(right_qn_loader_to(""));
    qn_predictor_close(right_qn_predictor_to(""));
    qn_trainer_destroy(right_qn_trainer_to(""));
    return is_refused ? REFUSED : ACCEPTED;
}

static void test_fork(void) {
    float x[8 * 4] = {0};
    int32_t y[8] = {0};
    qn_step_result result;
    qn_batch batch;
    CHECK_OK(qn_trainer_step(right_qn_trainer_to(""), x, y, &result));
    CHECK_OK(qn_loader_next(right_qn_loader_to(""), &batch));
    CHECK(right_qn_predictor_to(""));
    const int status = run_child(use_forked);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == REFUSED);
    CHECK_OK(qn_trainer_step(right_qn_trainer_to(""), x, y, &result)); /* the parent goes on */
    y[3] = -1;
    CHECK_FAILS(qn_trainer_step(right_qn_trainer_to(""), x, y, &result), QN_ERROR_ARGUMENT,
                "class -1");
}

/* The files that calls are given. */
static int write_files(void) {
    const qn_status status = qn_checkpoint_save(right_qn_engine_to(""), NULL, checkpoint);
    return status == QN_OK ? outcome(qn_onnx_export(right_qn_onnx_export_options_to(""), onnx))
                           : REFUSED;
}

int main(void) {
    snprintf(checkpoint, sizeof checkpoint, "/tmp/quern-calls-%d.safetensors", (int)getpid());
    snprintf(onnx, sizeof onnx, "/tmp/quern-calls-%d.onnx", (int)getpid());
    CHECK(WEXITSTATUS(run_child(write_files)) == ACCEPTED);
    try_all();
    test_fork();
    remove(checkpoint);
    remove(onnx);
    return checks_finish();
}
