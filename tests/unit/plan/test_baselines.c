/* What a plan is held against: counted by hand on a small graph, on whole models by the
 * definition's words, step by step; and training without fusion, which must give the same bits. */
#include "a_machine.h"
#include "check.h"
#include "os/heap.h"
#include "plan/baselines.h"
#include "quern/quern.h"
#include "run/program.h"
#include "run/trainer.h"
#include "small_models.h"

#include <stdlib.h>

/* tanh and sigmoid of it are alive beside their sum: three times 256 bytes; the view takes nothing.
 */
static void test_by_hand(void) {
    qn_graph *g;
    qn_unplanned bytes = {0};
    CHECK_OK(qn_graph_create(
        &(qn_graph_options){QN_OPTIONS_INIT(qn_graph_options), .training = true}, &g));
    const qn_value x = qn_input(g, "x", QN_SHAPE(8, 8));
    const qn_value a = qn_reshape(g, "flat", qn_tanh(g, "tanh", x), QN_SHAPE(64));
    qn_sigmoid(g, "unread", a);
    const qn_value c = qn_add(g, "sum", a, qn_sigmoid(g, "sigmoid", a));
    qn_result(g, qn_mean(g, "mean", c));
    CHECK_OK(qn_graph_finish(g));
    CHECK_OK(qn_baseline_unplanned(qn_allocator_default(), g, &bytes));
    CHECK(bytes.bytes == 3 * 256);
    CHECK(bytes.freed_bytes == 3 * 256);
    qn_graph_destroy(g);
}

static int32_t owner_of(const qn_graph *graph, int32_t v) {
    const int32_t producer = graph->values[v]->producer;
    if (producer < 0 || !graph->nodes[producer]->op->is_view)
        return v;
    return owner_of(graph, graph->nodes[producer]->inputs[0].id);
}

/* Whether something that runs at or after a node reads a value; results are read at the end. */
static bool is_read_from(const qn_graph *graph, int32_t value, int32_t from) {
    for (int32_t v = 0; v < graph->n_values; v++) {
        if (graph->values[v]->is_result && owner_of(graph, v) == value)
            return true;
    }
    for (int32_t n = from; n < graph->n_nodes; n++) {
        const qn_node *node = graph->nodes[n];
        for (int i = 0; i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0 && owner_of(graph, node->inputs[i].id) == value)
                return true;
        }
    }
    return false;
}

/* The definition, said again: at each node, what it makes and what it or a later one still reads,
 * and all gradients, as the only updates come at the end. All nodes of a training graph are needed.
 */
static size_t count_unplanned(const qn_graph *graph, bool keeps_gradients) {
    size_t most = 0;
    for (int32_t n = 0; n < graph->n_nodes; n++) {
        size_t alive = 0;
        for (int32_t v = 0; v < graph->n_values; v++) {
            const qn_value_info *info = graph->values[v];
            const bool is_made = info->producer >= 0 && info->producer <= n;
            if (is_made && info->overwrites < 0 && owner_of(graph, v) == v &&
                (info->producer == n || is_read_from(graph, v, n) ||
                 (keeps_gradients && info->kind == QN_KIND_GRADIENT)))
                alive += qn_tensor_bytes(info->tensor);
        }
        most = alive > most ? alive : most;
    }
    return most;
}

static qn_status build(qn_program *p, const qn_model *model, bool no_fusion) {
    static qn_trainer_options o; /* programs refer to it */
    qn_program_options programs[QN_TRAINER_PROGRAMS];
    o = qn_trainer_options_for(model);
    o.engine.allocator = qn_allocator_default();
    o.engine.real = QN_F32;
    o.n_outputs = model->n_classes;
    o.batch = o.evaluation_batch = 4;
    o.engine.update.accumulate = 1;
    const qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                      .allocator = o.engine.allocator, .real = o.engine.real,
                                      .update = o.engine.update, .no_fusion = no_fusion};
    qn_trainer_describe(&o, programs);
    return qn_program_build(p, &programs[QN_TRAINER_TRAINING], &engine);
}

static void check_model(const qn_model *model, const qn_kernels *kernels) {
    const qn_allocator *a = qn_allocator_default();
    qn_program plain, fused;
    qn_plan *early, *late;
    qn_unplanned unplanned = {0};
    size_t alive;
    CHECK_OK(build(&plain, model, true));
    CHECK_OK(build(&fused, model, false));
    CHECK(plain.graph->n_nodes > fused.graph->n_nodes);
    CHECK_OK(qn_baseline_unplanned(a, plain.graph, &unplanned));
    CHECK(unplanned.bytes == count_unplanned(plain.graph, true));
    CHECK(unplanned.freed_bytes == count_unplanned(plain.graph, false));
    CHECK_OK(qn_plan_create(a, fused.graph, A_MACHINE(kernels, 2), &early));
    CHECK_OK(qn_baseline_plan_late(a, fused.graph, A_MACHINE(kernels, 2), &late));
    CHECK_OK(qn_plan_check(late, fused.graph));
    CHECK(late->lower_bound_bytes >= early->lower_bound_bytes);
    const int32_t peak = qn_plan_peak_step(early, &alive);
    CHECK(alive == early->lower_bound_bytes);
    CHECK(peak >= 0 && peak < early->n_steps);
    qn_plan_destroy(early);
    qn_plan_destroy(late);
    qn_program_deinit(&plain);
    qn_program_deinit(&fused);
}

/* Loss of the third step. */
static double train(bool no_fusion) {
    float x[4 * 8 * 8 * 3];
    const int32_t y[4] = {0, 1, 2, 3};
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_step_result result = {0};
    qn_trainer *trainer;
    o.n_outputs = 5;
    o.batch = 4;
    o.engine.no_fusion = no_fusion;
    CHECK_OK(qn_trainer_create(&o, &trainer));
    CHECK(qn_engine_input_at(qn_trainer_engine(trainer), 0, 0).bytes <= sizeof x);
    for (size_t i = 0; i < sizeof x / sizeof *x; i++)
        x[i] = (float)(i % 17) / 17 - 0.5f;
    for (int i = 0; i < 3; i++)
        CHECK_OK(qn_trainer_step(trainer, x, y, &result));
    qn_trainer_destroy(trainer);
    return result.loss;
}

int main(void) {
    qn_isa isa;
    CHECK_OK(qn_cpu_isa(&isa));
    const qn_kernels *kernels = qn_kernels_get(QN_F32, isa);
    static const char *const names[] = {"lenet5", "mobilenet-v2", "squeezenet", "resnet18"};
    test_by_hand();
    check_model(&small_conv, kernels);
    for (int i = 0; i < 4; i++)
        check_model(qn_model_find(names[i]), kernels);
    CHECK(train(true) == train(false));
    return checks_finish();
}
