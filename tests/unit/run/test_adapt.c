/* From one plan to another in the middle of a run, at every step, between the usual plan and plans
 * in which nodes run again here and there, for small networks with joins, updates in two phases,
 * dropout and recurrence: results, parameters and statistics have equal bits as without a switch,
 * and nothing beyond the room that was given is touched. Then what is refused, and failing
 * allocations. */
#include "a_machine.h"
#include "check.h"
#include "device/cpu/cpu.h"
#include "failing.h"
#include "graph_run.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"
#include "plan/budget/budget.h"
#include "run/rebudget/adapt.h"
#include "small_models.h"
#include "training_program.h"

enum { GUARD = 4096, SEED = 3, STEP = 5 };

static const qn_kernels *kernels;
static qn_team *team;
static int64_t n_switches, n_refused, n_made_again;

/* ---- networks ---- */

static qn_value conv(qn_graph *g, const char *name, qn_value x, int filters) {
    return qn_conv2d_layer(g, name, x, filters, qn_window_square(3, 1, 1), 1, false);
}

/* A dense block: each layer reads all that came before, and adds columns to it. */
static qn_value dense_build(qn_graph *g, void *user, qn_value x, int n_outputs) {
    (void)user;
    x = conv(g, "stem", x, 5);
    for (int i = 0; i < 3; i++) {
        char name[32];
        snprintf(name, sizeof name, "norm%d", i);
        qn_value y = qn_relu(g, NULL, qn_batch_norm_layer(g, name, x, 1e-5));
        snprintf(name, sizeof name, "conv%d", i);
        y = conv(g, name, y, 3);
        x = qn_concat(g, NULL, (qn_value[]){x, y}, 2, -1);
    }
    x = qn_max_pool(g, "pool", x, qn_window_square(2, 2, 0));
    return qn_linear_layer(g, "fc", x, n_outputs);
}

static const qn_model small_dense = {
    .name = "small-dense", .input = {3, {6, 6, 3}}, .n_classes = 4, .build = dense_build};

static qn_program build_classifier(const qn_model *model, int64_t accumulate) {
    qn_update_options update = qn_update_options_for(model);
    update.accumulate = accumulate;
    update.rate = 0.1;
    qn_program p;
    CHECK_OK(build_training(model, 3, &update, &p));
    return p;
}

static qn_program build_model(const char *name) {
    const qn_update_options update = {.optimizer = QN_ADAM};
    qn_program p;
    CHECK_OK(build_training(qn_model_find(name), 2, &update, &p));
    return p;
}

/* ---- plans ---- */

/* A sequence in which values that were dropped are made again when they are read late. */
typedef struct dropping {
    const qn_graph *graph;
    qn_sequence *to;
    const bool *is_dropped; /* by node */
    bool *is_replaced;      /* by value */
    int64_t *ran_at;        /* by node; 0: not yet */
    int64_t late;           /* items after which it counts as gone */
} dropping;

static bool may_run_again(const dropping *d, const qn_node *node) {
    for (int i = 0; i < node->n_outputs; i++) {
        if (d->graph->values[node->outputs[i].id]->overwrites >= 0)
            return false;
    }
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0 &&
            d->is_replaced[qn_graph_unview(d->graph, node->inputs[i]).id])
            return false;
    }
    return true;
}

static void run_item(const dropping *d, int32_t id);

static void refresh(const dropping *d, qn_value value) {
    const int32_t producer = d->graph->values[qn_graph_unview(d->graph, value).id]->producer;
    if (producer < 0 || !d->is_dropped[producer] ||
        (int64_t)d->to->n + 1 - d->ran_at[producer] < d->late ||
        !may_run_again(d, d->graph->nodes[producer]))
        return;
    run_item(d, producer);
}

static void run_item(const dropping *d, int32_t id) {
    const qn_node *node = d->graph->nodes[id];
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0)
            refresh(d, node->inputs[i]);
    }
    CHECK_OK(qn_sequence_add(d->to, QN_ACTION_RUN, id));
    d->ran_at[id] = (int64_t)d->to->n;
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t old = d->graph->values[node->outputs[i].id]->overwrites;
        if (old >= 0)
            d->is_replaced[old] = true;
    }
}

/* percent: of the nodes whose outputs are dropped; 0: the usual plan. */
static qn_budget_plan make_plan(const qn_graph *graph, uint64_t seed, int percent, int64_t late) {
    const qn_rng rng = qn_rng_make(seed, 1, 0);
    qn_sequence base, dropped;
    qn_budget_plan made = {0};
    bool *is_dropped = calloc((size_t)graph->n_nodes + 1, 1);
    qn_sequence_init(&dropped, NULL);
    const dropping d = {.graph = graph,
                        .to = &dropped,
                        .is_dropped = is_dropped,
                        .is_replaced = calloc((size_t)graph->n_values + 1, 1),
                        .ran_at = calloc((size_t)graph->n_nodes + 1, sizeof(int64_t)),
                        .late = late};
    for (int n = 0; n < graph->n_nodes; n++)
        is_dropped[n] = (int)(qn_rng_word(rng, (uint64_t)n) % 100) < percent;
    CHECK_OK(qn_sequence_base(qn_allocator_default(), graph, &base));
    for (size_t i = 0; i < base.n; i++)
        run_item(&d, base.items[i].id);
    CHECK_OK(
        qn_budget_plan_make(qn_allocator_default(), graph, A_MACHINE(kernels, 3), &dropped, &made));
    free(is_dropped);
    free(d.is_replaced);
    free(d.ran_at);
    qn_sequence_deinit(&base);
    qn_sequence_deinit(&dropped);
    return made;
}

/* ---- one run with switches ---- */

/* All plans of a program in one arena, over one set of outside values. */
typedef struct versions {
    const qn_graph *graph;
    int n;
    qn_budget_plan plans[4];
    qn_executor *executors[4];
    size_t arena_bytes;
    char *arena;      /* and GUARD bytes behind it */
    graph_run wanted; /* the graph run without any plan */
    graph_run start;  /* what outside values were */
    void **outside;   /* by value of the graph */
    double *node_ns;
} versions;

static qn_variant version_of(const versions *v, int i) {
    return (qn_variant){v->plans[i].graph, &v->plans[i].origins, v->plans[i].plan};
}

static void make_executor(versions *v, int i) {
    CHECK_OK(qn_executor_create(qn_allocator_default(), v->plans[i].graph, v->plans[i].plan,
                                A_MACHINE(kernels, 1), team, v->arena, &v->executors[i]));
    for (int value = 0; value < v->graph->n_values; value++) {
        if (v->outside[value])
            qn_executor_bind(v->executors[i], v->plans[i].origins.first[value], v->outside[value]);
    }
}

static versions versions_create(const qn_graph *graph) {
    versions v = {.graph = graph, .n = 4};
    const int percents[] = {0, 60, 90, 30};
    for (int i = 0; i < v.n; i++) {
        v.plans[i] = make_plan(graph, (uint64_t)i + 9, percents[i], 6 + 10 * (i % 2));
        if (v.plans[i].plan->arena_bytes > v.arena_bytes)
            v.arena_bytes = v.plans[i].plan->arena_bytes;
    }
    v.arena = run_allocate(v.arena_bytes + GUARD);
    v.outside = calloc((size_t)graph->n_values + 1, sizeof *v.outside);
    v.node_ns = calloc((size_t)graph->n_nodes + 1, sizeof *v.node_ns);
    for (int n = 0; n < graph->n_nodes; n++)
        v.node_ns[n] = 1;
    v.start = run_create(graph);
    v.wanted = run_create(graph);
    run_fill(&v.start);
    run_fill(&v.wanted);
    run_all(&v.wanted, kernels, team);
    for (int value = 0; value < graph->n_values; value++) {
        if (graph->values[value]->producer < 0)
            v.outside[value] = run_allocate(qn_tensor_bytes(graph->values[value]->tensor));
    }
    for (int i = 0; i < v.n; i++)
        make_executor(&v, i);
    return v;
}

static void versions_destroy(versions *v) {
    for (int i = 0; i < v->n; i++) {
        qn_executor_destroy(v->executors[i]);
        qn_budget_plan_deinit(&v->plans[i]);
    }
    for (int value = 0; value < v->graph->n_values; value++)
        free(v->outside[value]);
    free(v->outside);
    free(v->node_ns);
    free(v->arena);
    run_destroy(&v->start);
    run_destroy(&v->wanted);
}

static void begin_run(versions *v) {
    memset(v->arena, 0xff, v->arena_bytes);
    memset(v->arena + v->arena_bytes, 0x5a, GUARD);
    for (int value = 0; value < v->graph->n_values; value++) {
        if (v->outside[value])
            memcpy(v->outside[value], v->start.memory[value],
                   qn_tensor_bytes(v->graph->values[value]->tensor));
    }
}

/* Runs on until a step, or to the end. */
static void run_until(versions *v, int i, int32_t *next, int32_t until) {
    const qn_executor *e = v->executors[i];
    for (; *next < until; ++*next) {
        qn_call call = *qn_executor_get_call(e, *next);
        call.seed = SEED;
        call.step = STEP;
        qn_cpu_run(&call);
    }
}

/* The value as the graph without a plan made it, against where it lies. */
static bool is_right(const versions *v, int plan, int32_t value) {
    const qn_budget_plan *p = &v->plans[plan];
    const qn_tensor tensor = p->graph->values[value]->tensor;
    const int rank = tensor.shape.rank;
    const int64_t columns = rank > 0 ? tensor.shape.dims[rank - 1] : 1;
    const size_t size = qn_dtype_bytes(tensor.dtype), row = (size_t)columns * size;
    const size_t step = (size_t)qn_placement_step(&p->plan->placements[value], tensor.shape) * size;
    const char *is = qn_executor_get(v->executors[plan], (qn_value){value});
    const char *wanted = v->wanted.memory[p->origins.value_of[value]];
    for (int64_t r = 0; r < qn_shape_count(tensor.shape) / columns; r++) {
        if (memcmp(is + (size_t)r * step, wanted + (size_t)r * row, row) != 0)
            return false;
    }
    return true;
}

/* All that the plan still reads and that no update changes on the way. */
static void check_values(const versions *v, int plan, int32_t next) {
    const qn_budget_plan *p = &v->plans[plan];
    bool *is_made = calloc((size_t)p->graph->n_values + 1, 1);
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        const qn_node *node = p->graph->nodes[p->plan->steps[s].node];
        for (int i = 0; s < next && i < node->n_outputs; i++)
            is_made[node->outputs[i].id] =
                !p->plan->storages[p->plan->placements[node->outputs[i].id].storage].is_bound;
        for (int i = 0; s >= next && i < node->n_inputs; i++) {
            if (node->inputs[i].id >= 0 && is_made[node->inputs[i].id])
                CHECK(is_right(v, plan, node->inputs[i].id));
        }
    }
    free(is_made);
}

/* Switches if it is possible there: what the new plan does not need is overwritten. */
static bool try_switch(versions *v, int from, int to, int32_t *next, int32_t *entered) {
    qn_adapt adapt;
    const size_t a = v->plans[from].plan->arena_bytes, b = v->plans[to].plan->arena_bytes;
    const qn_adapt_options options = {.allocator = qn_allocator_default(),
                                      .base = v->graph,
                                      .machine = A_MACHINE(kernels, 3),
                                      .node_ns = v->node_ns,
                                      .from = version_of(v, from),
                                      .to = version_of(v, to),
                                      .step = *next,
                                      .entered = *entered,
                                      .limit_bytes = a > b ? a : b};
    const qn_status status = qn_adapt_find(&options, &adapt);
    n_switches++;
    if (status != QN_OK) {
        CHECK(status == QN_ERROR_UNSUPPORTED);
        n_refused++;
        return false;
    }
    qn_adapt_run(&adapt, &options, v->executors[from], v->executors[to], v->arena, team, SEED,
                 STEP);
    memset(v->arena + b, 0xff, v->arena_bytes - b);
    *next = *entered = adapt.to_step;
    check_values(v, to, *next);
    n_made_again += (int64_t)adapt.n_again;
    qn_adapt_deinit(&adapt);
    return true;
}

static int count_different(const versions *v, int plan) {
    int n_different = 0;
    for (int value = 0; value < v->graph->n_values; value++) {
        const qn_value_info *info = v->graph->values[value];
        const size_t bytes = qn_tensor_bytes(info->tensor);
        const void *is = v->outside[value];
        if (info->is_result)
            is = qn_executor_get(v->executors[plan], v->plans[plan].origins.last[value]);
        if (is)
            n_different += memcmp(is, v->wanted.memory[value], bytes) != 0;
    }
    for (int i = 0; i < GUARD; i++)
        n_different += v->arena[v->arena_bytes + (size_t)i] != 0x5a;
    return n_different;
}

/* ---- tests ---- */

/* From one plan to another at every step. */
static void test_every_step(versions *v, int from, int to) {
    const int32_t n_steps = v->plans[from].plan->n_steps;
    for (int32_t at = 0; at <= n_steps; at++) {
        int32_t next = 0, entered = 0;
        begin_run(v);
        run_until(v, from, &next, at);
        const bool is_switched = try_switch(v, from, to, &next, &entered);
        const int last = is_switched ? to : from;
        CHECK(is_switched || at < n_steps);
        run_until(v, last, &next, v->plans[last].plan->n_steps);
        CHECK(count_different(v, last) == 0);
    }
}

/* Switches at random steps to random plans, several in a run. */
static void test_random(versions *v, int n_runs) {
    uint64_t drawn = 0;
    const qn_rng rng = qn_rng_make(17, 4, 0);
    for (int run = 0; run < n_runs; run++) {
        int32_t next = 0, entered = 0;
        int plan = (int)(qn_rng_word(rng, drawn++) % 4);
        begin_run(v);
        while (next < v->plans[plan].plan->n_steps) {
            const int32_t left = v->plans[plan].plan->n_steps - next;
            const int to = (int)(qn_rng_word(rng, drawn++) % 4);
            run_until(v, plan, &next,
                      next + 1 + (int32_t)(qn_rng_word(rng, drawn++) % (uint64_t)left));
            if (try_switch(v, plan, to, &next, &entered))
                plan = to;
        }
        CHECK(count_different(v, plan) == 0);
    }
}

static void test_program(qn_program p, bool is_small) {
    versions v = versions_create(p.graph);
    CHECK(v.plans[1].n_again > 0 && v.plans[2].n_again > v.plans[3].n_again);
    n_switches = n_refused = n_made_again = 0;
    for (int from = 0; is_small && from < 3; from++) {
        for (int to = 0; to < 3; to++)
            test_every_step(&v, from, to);
    }
    test_random(&v, 20);
    CHECK(n_made_again > 0);
    CHECK(n_refused * 4 < n_switches);
    printf("%lld switches, %lld refused, %lld nodes made again\n", (long long)n_switches,
           (long long)n_refused, (long long)n_made_again);
    versions_destroy(&v);
    qn_program_deinit(&p);
}

/* From a plan to itself: nothing moves, nothing runs again. */
static void test_itself(void) {
    qn_program p = build_classifier(&small_dense, 1);
    versions v = versions_create(p.graph);
    for (int32_t at = 0; at <= v.plans[0].plan->n_steps; at++) {
        qn_adapt found;
        const qn_adapt_options options = {.allocator = qn_allocator_default(),
                                          .base = v.graph,
                                          .machine = A_MACHINE(kernels, 3),
                                          .node_ns = v.node_ns,
                                          .from = version_of(&v, 0),
                                          .to = version_of(&v, 0),
                                          .step = at,
                                          .limit_bytes = v.plans[0].plan->arena_bytes};
        CHECK_OK(qn_adapt_find(&options, &found));
        CHECK(found.n_again == 0 && found.place.n == 0 && found.gather.n == 0);
        CHECK(found.to_step == at);
        qn_adapt_deinit(&found);
    }
    versions_destroy(&v);
    qn_program_deinit(&p);
}

static void test_allocation_failure(void) {
    qn_program p = build_classifier(&small_dense, 1);
    versions v = versions_create(p.graph);
    int n_failed = 0;
    for (int64_t left = 0; left < 200; left++) {
        failing f = {.left = left};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_adapt found;
        const size_t limit = v.arena_bytes;
        const qn_adapt_options options = {.allocator = &allocator,
                                          .base = v.graph,
                                          .machine = A_MACHINE(kernels, 3),
                                          .node_ns = v.node_ns,
                                          .from = version_of(&v, 2),
                                          .to = version_of(&v, 0),
                                          .step = v.plans[2].plan->n_steps / 2,
                                          .limit_bytes = limit};
        const qn_status status = qn_adapt_find(&options, &found);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        n_failed += status != QN_OK;
        if (status == QN_OK)
            qn_adapt_deinit(&found);
        CHECK(f.held_bytes == 0);
    }
    CHECK(n_failed > 10 && n_failed < 200);
    versions_destroy(&v);
    qn_program_deinit(&p);
}

int main(void) {
    qn_isa isa;
    CHECK_OK(qn_cpu_isa(&isa));
    kernels = qn_kernels_get(QN_F32, isa);
    CHECK_OK(qn_team_create(qn_allocator_default(), 3, &team));
    test_itself();
    test_program(build_classifier(&small_dense, 1), true);
    test_program(build_classifier(&small_conv, 1), true);
    test_program(build_classifier(&small_conv, 2), false);
    test_program(build_model("dcgan"), false);
    test_allocation_failure();
    qn_team_destroy(team);
    return checks_finish();
}
