/* Generation with a network of a few numbers, whose discriminator has batch norm: the running
 * statistics that three calls move in turn, plans of steps with two updates, tests and samples that
 * change nothing, and every allocation failing in turn. */
#include "a_machine.h"
#include "data_files.h"

#include "base/status.h"
#include "data/images/image.h"
#include "graph/graph.h"
#include "os/heap.h"
#include "plan/plan.h"
#include "quern/quern.h"
#include "run/program.h"

enum { SIDE = 4, NOISE = 3, BATCH = 4 };

static qn_value judge(qn_graph *graph, const char *call, qn_value x) {
    qn_graph_call(graph, "%s", call);
    qn_graph_enter(graph, "discriminator");
    x = qn_conv2d_layer(graph, "conv", x, 5, qn_window_square(2, 2, 0), 0, true);
    x = qn_leaky_relu(graph, "leaky", qn_batch_norm_layer(graph, "norm", x, 1e-5), 0.2);
    x = qn_linear_layer(graph, "out", x, 1);
    qn_graph_leave(graph);
    qn_graph_leave(graph);
    return x;
}

static qn_value generate(qn_graph *graph, qn_value noise) {
    const int64_t n = qn_graph_shape(graph, noise).dims[0];
    qn_graph_enter(graph, "generator");
    qn_value x = qn_reshape(graph, "pixel", noise, QN_SHAPE(n, 1, 1, NOISE));
    x = qn_conv2d_transpose_layer(graph, "up1", x, 6, qn_window_square(2, 1, 0), true);
    x = qn_relu(graph, "relu", qn_batch_norm_layer(graph, "norm", x, 1e-5));
    x = qn_conv2d_transpose_layer(graph, "up2", x, 1, qn_window_square(2, 2, 0), true);
    x = qn_tanh(graph, "tanh", x);
    qn_graph_leave(graph);
    return x;
}

static qn_value network(qn_graph *graph, void *user, const qn_network_sizes *sizes, int phase,
                        qn_value *kept) {
    (void)user;
    qn_value loss;
    if (phase == 0) {
        qn_value real = qn_input(graph, "real", QN_SHAPE(sizes->batch, SIDE, SIDE, 1));
        kept[0] = generate(graph, qn_input(graph, "noise", QN_SHAPE(sizes->batch, NOISE)));
        kept[1] = judge(graph, "real", real);
        kept[2] = judge(graph, "fake", kept[0]);
        qn_value ones = qn_binary_cross_entropy_with(graph, "ones", kept[1], 1);
        qn_value zeros = qn_binary_cross_entropy_with(graph, "zeros", kept[2], 0);
        loss = qn_mean(graph, "loss", qn_add(graph, "both", ones, zeros));
        qn_result(graph, loss);
        return loss;
    }
    loss =
        qn_mean(graph, "second_loss",
                qn_binary_cross_entropy_with(graph, "fooled", judge(graph, "again", kept[0]), 1));
    qn_result(graph, loss);
    qn_result(graph, kept[1]);
    qn_result(graph, kept[2]);
    if (!qn_graph_is_training(graph))
        qn_result(graph, kept[0]);
    return loss;
}

static const qn_model small = {
    .name = "small",
    .domain = "tests",
    .source = "tests",
    .input = {3, {SIDE, SIDE, 1}},
    .recipe = {.optimizer = QN_ADAM, .rate = 1e-3, .beta1 = 0.5, .epochs = 1, .batch = BATCH},
    .task = "generation",
    .sizes = {.batch = 1, .n_inputs = NOISE},
    .network = network,
    .n_phases = 2,
    .trained = {"discriminator.", "generator."},
};

/* ---- plans ---- */

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_network_sizes sizes = {.batch = BATCH};
    return network(graph, user, &sizes, phase, kept);
}

/* Each running statistic is overwritten three times, the last time last. */
static void check_plan(bool training) {
    const qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                      .allocator = qn_allocator_default(), .real = QN_F32,
                                      .update = {.optimizer = QN_ADAM, .accumulate = 1}};
    const qn_program_options options = {
        QN_OPTIONS_INIT(qn_program_options), .training = training, .n_phases = 2,
        .trained = {small.trained[0], small.trained[1]}, .build = build};
    qn_program program;
    CHECK_OK(qn_program_build(&program, &options, &engine));
    CHECK_OK(qn_graph_check(program.graph));
    CHECK_OK(qn_plan_create(qn_allocator_default(), program.graph,
                            A_MACHINE(qn_kernels_get(QN_F32, QN_ISA_REF), 2), &program.plan));
    CHECK_OK(qn_plan_check(program.plan, program.graph));
    qn_value value = qn_graph_find(program.graph, "discriminator.norm.running_mean");
    CHECK(value.id >= 0);
    int n_updates = 0;
    for (int32_t v = value.id + 1; v < program.graph->n_values; v++) {
        if (program.graph->values[v]->overwrites != value.id)
            continue;
        value.id = v;
        n_updates++;
    }
    CHECK(n_updates == (training ? 3 : 0));
    qn_program_deinit(&program);
}

/* ---- the task ---- */

/* A task on data made up, and a step; with samples, a test and a picture too. */
static qn_status whole_run(const qn_allocator *allocator, qn_metadata *settings, bool is_looked_at,
                           double *loss) {
    qn_metrics metrics;
    int64_t n_samples;
    qn_task *task;
    const qn_task_options options = {QN_TASK_OPTIONS_INIT, .engine.allocator = allocator,
                                     .model = &small,      .settings = settings,
                                     .training = true,     .engine.n_threads = 2};
    const qn_sample_options sampled = {QN_OPTIONS_INIT(qn_sample_options), .count = 5,
                                       .picture = at_root("@/p.png")};
    QN_TRY(qn_task_open(&options, &task));
    qn_status status = QN_OK;
    for (int i = 0; i < 3 && status == QN_OK; i++) {
        status = qn_task_step(task, &metrics);
        if (status == QN_OK && is_looked_at)
            status = qn_task_evaluate(task, QN_TEST, NULL, NULL, &metrics, &n_samples);
        if (status == QN_OK && is_looked_at)
            status = qn_task_sample(task, &sampled);
    }
    if (status == QN_OK)
        status = qn_task_step(task, &metrics);
    *loss = qn_metrics_get(&metrics, "loss");
    qn_task_close(task);
    return status;
}

static void check_looking(qn_metadata *settings) {
    double plain = 0, looked_at = 1;
    uint8_t pixels[(3 * 6 - 2) * (2 * 6 - 2)];
    const qn_shape size = QN_SHAPE(2 * 6 - 2, 3 * 6 - 2, 1);
    CHECK_OK(whole_run(NULL, settings, false, &plain));
    CHECK_OK(whole_run(NULL, settings, true, &looked_at));
    CHECK(plain == looked_at && isfinite(plain));
    CHECK_OK(qn_image_load(at_root("@/p.png"), &size, false, pixels));
}

static void check_memory(qn_metadata *settings) {
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    for (; status != QN_OK && n < 10000; n++) {
        double loss;
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = whole_run(&allocator, settings, true, &loss);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK);
    printf("%lld allocations failed in turn\n", (long long)n - 1);
}

int main(void) {
    qn_metadata *settings;
    files_begin();
    check_plan(true);
    check_plan(false);
    CHECK_OK(qn_metadata_create(NULL, &settings));
    CHECK_OK(qn_metadata_set(settings, "data", "synthetic"));
    check_looking(settings);
    check_memory(settings);
    qn_metadata_destroy(settings);
    files_end();
    return checks_finish();
}
