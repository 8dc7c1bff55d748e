/* Small training steps and what the planner makes of them within several limits, as text for
 * bench_optimum.py, which compares with proven optima:
 *     bench_optimum SEED
 *     graph N_TURNS N_VALUES BASE_NS ARENA_BYTES    the step, and its arena without a limit
 *     turn I NS WORKSPACE_BYTES LATEST              in the usual order; may run again in front of
 *                                                   LATEST
 *     output TURN VALUE BYTES IS_RESULT
 *     read TURN VALUE MAY_TAKE_PLACE
 *     plan LIMIT_BYTES ARENA_BYTES EXTRA_NS PLANNING_NS */
#include "os/heap.h"
#include "plan/budget/model.h"
#include "quern/quern.h"
#include "run/program.h"

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>

static void stop(const char *what) {
    fprintf(stderr, "bench_optimum: %s: %s\n", what, qn_error_message());
    exit(1);
}

typedef struct drawing {
    qn_rng rng;
    uint64_t n_drawn;
} drawing;

static int draw(drawing *d, int n) {
    return (int)qn_rng_below(d->rng, d->n_drawn++, (uint64_t)n);
}

/* Convolution and ReLU, often with batch norm, sometimes with a way around it. */
static qn_value add_block(qn_graph *graph, drawing *d, int number, qn_value x, int64_t *channels) {
    char name[2][32];
    snprintf(name[0], sizeof name[0], "conv%d", number);
    snprintf(name[1], sizeof name[1], "norm%d", number);
    const bool is_around = draw(d, 3) == 0 && number > 0;
    if (!is_around)
        *channels = 4 << draw(d, 3);
    const int kernel = draw(d, 2) ? 3 : 1, stride = is_around || draw(d, 3) ? 1 : 2;
    qn_value y = qn_conv2d_layer(graph, name[0], x, *channels,
                                 qn_window_square(kernel, stride, kernel / 2), 1, false);
    if (draw(d, 3))
        y = qn_batch_norm_layer(graph, name[1], y, 1e-5);
    return qn_relu(graph, NULL, is_around ? qn_add(graph, NULL, x, y) : y);
}

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const uint64_t seed = *(const uint64_t *)user;
    drawing d = {.rng = qn_rng_make(seed, 3, 0)};
    (void)phase;
    (void)kept;
    int64_t channels = 3;
    qn_value x = qn_input(graph, "x", (qn_shape){4, {16, 32, 32, 3}});
    const qn_value labels = qn_label(graph, "labels", QN_I32, (qn_shape){1, {16}});
    const int n_blocks = 2 + draw(&d, 3);
    for (int i = 0; i < n_blocks; i++)
        x = add_block(graph, &d, i, x, &channels);
    x = qn_linear_layer(graph, "fc", qn_global_average_pool(graph, NULL, x), 10);
    return qn_mean(graph, NULL, qn_softmax_cross_entropy(graph, NULL, x, labels, 0));
}

static void print_model(const qn_budget_model *model) {
    for (int32_t t = 0; t < model->n_turns; t++) {
        const qn_budget_turn *turn = &model->turns[t];
        printf("turn %d %.0f %zu %d\n", t, turn->ns, turn->workspace, turn->latest);
        for (int32_t k = 0; k < turn->n_outputs; k++) {
            const qn_budget_value *value = &model->values[turn->first_output + k];
            printf("output %d %d %zu %d\n", t, turn->first_output + k, value->room,
                   value->is_result);
        }
        for (int32_t r = 0; r < turn->n_reads; r++) {
            const qn_budget_read *read = &model->reads[turn->first_read + r];
            printf("read %d %d %d\n", t, read->value, read->may_take_place);
        }
    }
}

static void print_plans(const qn_graph *graph, const qn_machine *machine, size_t full) {
    const qn_allocator *a = qn_allocator_default();
    qn_budget_options options = {0};
    size_t least = 0;
    if (qn_budget_least(a, graph, machine, &options, &least) != QN_OK)
        stop("least");
    for (int part = 0; part < 4; part++) {
        qn_budget_plan made;
        options.arena_bytes = least + (full - least) * (size_t)part / 4;
        if (qn_budget_plan_find(a, graph, machine, &options, &made, NULL) != QN_OK)
            stop("plan");
        printf("plan %zu %zu %.0f %lld\n", options.arena_bytes, made.plan->arena_bytes,
               made.extra_ns, (long long)made.planning_ns);
        qn_budget_plan_deinit(&made);
    }
}

int main(int argc, char **argv) {
    uint64_t seed = argc > 1 ? strtoull(argv[1], NULL, 10) : 0;
    const qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                      .allocator = qn_allocator_default(), .real = QN_F32,
                                      .update = {.optimizer = QN_SGD, .accumulate = 1}};
    const qn_program_options options = {QN_OPTIONS_INIT(qn_program_options), .training = true,
                                        .user = &seed, .build = build};
    qn_program p;
    qn_isa isa;
    qn_budget_model model;
    const qn_budget_options none = {.arena_bytes = SIZE_MAX};
    if (qn_cpu_isa(&isa) != QN_OK || qn_program_build(&p, &options, &engine) != QN_OK)
        stop("graph");
    const qn_machine machine = qn_machine_of_isa(isa, 1);
    if (qn_plan_create(engine.allocator, p.graph, &machine, &p.plan) != QN_OK ||
        qn_budget_model_init(engine.allocator, p.graph, &machine, &none, &model) != QN_OK)
        stop("plan");
    printf("graph %d %d %.0f %zu\n", model.n_turns, model.n_values, model.base_ns,
           p.plan->arena_bytes);
    print_model(&model);
    print_plans(p.graph, &machine, p.plan->arena_bytes);
    qn_budget_model_deinit(&model);
    qn_program_deinit(&p);
}
