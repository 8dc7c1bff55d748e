/* Sequences: the usual one gives the usual plan; nodes that run again, wherever it is allowed,
 * change no bit, random numbers included; what cannot be run is refused with the item and the node.
 */
#include "a_machine.h"
#include "check.h"
#include "failing.h"
#include "graph_run.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"
#include "plan/budget/budget.h"
#include "small_models.h"
#include "training_program.h"

static const qn_kernels *kernels;
static qn_team *team;

static qn_program build_model(const qn_model *model) {
    const qn_update_options update = {.optimizer = QN_SGD};
    qn_program p;
    CHECK_OK(build_training(model, 2, &update, &p));
    return p;
}

static qn_program build_small(void) {
    qn_program p;
    CHECK_OK(build_training(&small_conv, small_conv.recipe.batch, NULL, &p));
    return p;
}

static qn_sequence base_of(const qn_graph *graph) {
    qn_sequence base;
    CHECK_OK(qn_sequence_base(qn_allocator_default(), graph, &base));
    return base;
}

static int32_t find_node(const qn_graph *graph, const char *name) {
    for (int n = 0; n < graph->n_nodes; n++) {
        if (strcmp(graph->nodes[n]->name, name) == 0)
            return n;
    }
    return -1;
}

static qn_budget_plan make(const qn_graph *graph, const qn_sequence *sequence) {
    qn_budget_plan made = {0};
    CHECK_OK(
        qn_budget_plan_make(qn_allocator_default(), graph, A_MACHINE(kernels, 3), sequence, &made));
    if (!made.graph)
        exit(checks_finish());
    CHECK_OK(qn_graph_check(made.graph));
    CHECK_OK(qn_plan_check(made.plan, made.graph));
    return made;
}

/* ---- the usual order ---- */

static void compare_plans(const qn_graph *graph, const qn_plan *plan, const qn_budget_plan *made) {
    CHECK(made->plan->arena_bytes == plan->arena_bytes);
    CHECK(made->plan->lower_bound_bytes == plan->lower_bound_bytes);
    CHECK(made->plan->n_steps == plan->n_steps);
    for (int32_t s = 0; s < plan->n_steps; s++)
        CHECK(made->origins.node_of[made->plan->steps[s].node] == plan->steps[s].node);
    int n_different = 0;
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value copy = made->origins.last[v];
        const qn_placement *a = &plan->placements[v];
        if (copy.id < 0 || a->storage < 0)
            continue;
        const qn_placement *b = &made->plan->placements[copy.id];
        n_different +=
            plan->storages[a->storage].offset != made->plan->storages[b->storage].offset ||
            a->offset != b->offset;
    }
    CHECK(n_different == 0);
    CHECK(made->n_again == 0 && made->again_bytes == 0 && made->swapped_bytes == 0);
}

static void test_identity(const qn_graph *graph) {
    qn_plan *plan = NULL;
    qn_sequence base = base_of(graph);
    CHECK_OK(qn_plan_create(qn_allocator_default(), graph, A_MACHINE(kernels, 3), &plan));
    qn_budget_plan made = make(graph, &base);
    compare_plans(graph, plan, &made);
    CHECK(made.graph->n_results == graph->n_results);
    qn_budget_plan_deinit(&made);
    qn_plan_destroy(plan);
    qn_sequence_deinit(&base);
}

/* ---- the same bits ---- */

/* Whether what an outside value holds in the end, or a result, is equal in both runs. */
static int count_different(const graph_run *a, const graph_run *b, const qn_value *last) {
    int n_compared = 0, n_different = 0;
    for (int v = 0; v < a->n_values; v++) {
        const qn_value_info *info = a->graph->values[v];
        if (!info->is_result && info->producer >= 0 && info->overwrites < 0)
            continue;
        const size_t bytes = qn_tensor_bytes(info->tensor);
        n_compared++;
        n_different += memcmp(a->memory[v], b->memory[last[v].id], bytes) != 0;
    }
    CHECK(n_compared > 10);
    return n_different;
}

static graph_run run_graph(const qn_graph *graph) {
    graph_run run = run_create(graph);
    run_fill(&run);
    run_all(&run, kernels, team);
    return run;
}

static void check_bits(const qn_graph *graph, const qn_budget_plan *made) {
    graph_run a = run_graph(graph), b = run_graph(made->graph);
    CHECK(count_different(&a, &b, made->origins.last) == 0);
    run_destroy(&a);
    run_destroy(&b);
}

/* What the values that nodes read were overwritten by, so far. */
typedef struct chances {
    const qn_graph *graph;
    bool *has_run, *is_replaced;
} chances;

static bool may_run_again(const chances *c, const qn_node *node, int32_t id) {
    if (!c->has_run[id] || node->op->is_view)
        return false;
    for (int i = 0; i < node->n_outputs; i++) {
        if (c->graph->values[node->outputs[i].id]->overwrites >= 0)
            return false;
    }
    for (int i = 0; i < node->n_inputs; i++) {
        if (node->inputs[i].id >= 0 &&
            c->is_replaced[qn_graph_unview(c->graph, node->inputs[i]).id])
            return false;
    }
    return true;
}

static void note_run(chances *c, int32_t id) {
    const qn_node *node = c->graph->nodes[id];
    c->has_run[id] = true;
    for (int i = 0; i < node->n_outputs; i++) {
        const int32_t old = c->graph->values[node->outputs[i].id]->overwrites;
        if (old >= 0)
            c->is_replaced[old] = true;
    }
}

/* The base sequence with nodes that run again here and there: n tries before each item. */
static qn_sequence make_random(const qn_graph *graph, uint64_t seed, int n_tries) {
    const qn_rng rng = qn_rng_make(seed, 1, 0);
    chances c = {graph, calloc((size_t)graph->n_nodes + 1, 1),
                 calloc((size_t)graph->n_values + 1, 1)};
    qn_sequence base = base_of(graph), made;
    qn_sequence_init(&made, NULL);
    uint64_t draw = 0;
    for (size_t i = 0; i < base.n; i++) {
        for (int k = 0; k < n_tries; k++) {
            const int32_t again = (int32_t)(qn_rng_word(rng, draw++) % (uint64_t)graph->n_nodes);
            if (may_run_again(&c, graph->nodes[again], again))
                CHECK_OK(qn_sequence_add(&made, QN_ACTION_RUN, again));
        }
        CHECK_OK(qn_sequence_add(&made, QN_ACTION_RUN, base.items[i].id));
        note_run(&c, base.items[i].id);
    }
    free(c.has_run);
    free(c.is_replaced);
    qn_sequence_deinit(&base);
    return made;
}

static void check_origins(const qn_graph *graph, const qn_budget_plan *made) {
    int n_again = 0;
    for (int n = 0; n < made->graph->n_nodes; n++) {
        const int32_t old = made->origins.node_of[n], item = made->origins.item_of[n];
        CHECK(graph->nodes[old]->op == made->graph->nodes[n]->op);
        CHECK(graph->nodes[old]->key == made->graph->nodes[n]->key);
        CHECK(item >= 0 ? made->sequence.items[item].id == old : graph->nodes[old]->op->is_view);
        n_again += item >= 0 && strcmp(graph->nodes[old]->name, made->graph->nodes[n]->name) != 0;
    }
    CHECK(n_again == made->n_again);
    for (int v = 0; v < made->graph->n_values; v++) {
        const qn_value_info *old = graph->values[made->origins.value_of[v]];
        CHECK(old->kind == made->graph->values[v]->kind);
        CHECK(qn_shape_equal(old->tensor.shape, made->graph->values[v]->tensor.shape));
    }
}

static void test_random(const qn_graph *graph, uint64_t seed, bool is_run) {
    qn_sequence sequence = make_random(graph, seed, 2);
    qn_budget_plan made = make(graph, &sequence);
    CHECK(made.n_again > 0 && made.again_bytes > 0);
    check_origins(graph, &made);
    if (is_run)
        check_bits(graph, &made);
    qn_budget_plan_deinit(&made);
    qn_sequence_deinit(&sequence);
}

/* Dropout that runs a second and a third time, right before each of its readers. */
static void test_dropout(const qn_graph *graph) {
    const int32_t drop = find_node(graph, "drop");
    qn_sequence base = base_of(graph), sequence;
    qn_sequence_init(&sequence, NULL);
    int n_runs = 0;
    for (size_t i = 0; i < base.n; i++) {
        const qn_node *node = graph->nodes[base.items[i].id];
        bool reads = false;
        for (int k = 0; k < node->n_inputs; k++)
            reads |= node->inputs[k].id >= 0 && qn_graph_unview(graph, node->inputs[k]).id ==
                                                    graph->nodes[drop]->outputs[0].id;
        if (reads && n_runs++ < 2)
            CHECK_OK(qn_sequence_add(&sequence, QN_ACTION_RUN, drop));
        CHECK_OK(qn_sequence_add(&sequence, QN_ACTION_RUN, base.items[i].id));
    }
    CHECK(n_runs == 2);
    qn_budget_plan made = make(graph, &sequence);
    CHECK(made.n_again == 2);
    CHECK(find_node(made.graph, "drop") >= 0 && find_node(made.graph, "drop.again") >= 0);
    CHECK(find_node(made.graph, "drop.again2") >= 0);
    check_bits(graph, &made);
    qn_budget_plan_deinit(&made);
    qn_sequence_deinit(&sequence);
    qn_sequence_deinit(&base);
}

/* ---- what is refused ---- */

static void add(qn_sequence *sequence, qn_action action, int32_t id) {
    CHECK_OK(qn_sequence_add(sequence, action, id));
}

static void test_bad_runs(const qn_graph *graph) {
    qn_sequence s = base_of(graph);
    const qn_item first = s.items[0], last = s.items[s.n - 1];
    s.items[0] = last;
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT, "item 0");
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT, "which is not made yet");
    s.items[0] = (qn_item){QN_ACTION_RUN, graph->n_nodes};
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT, "has no node");
    s.items[0] = (qn_item){QN_ACTION_COUNT, 0};
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT, "no action");
    s.items[0] = first;
    add(&s, QN_ACTION_RUN, find_node(graph, "fc1.weight.update"));
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT,
                "fc1.weight.update updates in place, and runs a second time");
    s.items[s.n - 1].id = find_node(graph, "fc1");
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT,
                "fc1 reads fc1.weight after its update");
    s.items[s.n - 1].id =
        graph->values[graph->nodes[find_node(graph, "fc1")]->inputs[0].id]->producer;
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT, "is a view");
    s.n -= 2;
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT, "never runs");
    qn_graph *none = NULL;
    qn_origins origins;
    CHECK_FAILS(qn_resequence(graph, &s, 1, &none, &origins), QN_ERROR_ARGUMENT, "never runs");
    s.n = 0;
    CHECK(!none && qn_sequence_check(&s, graph) == QN_ERROR_ARGUMENT);
    qn_sequence_deinit(&s);
}

/* The base sequence with swaps of a value right behind its maker. */
static qn_status try_swaps(const qn_graph *graph, int32_t value, const qn_action *actions, int n) {
    qn_sequence base = base_of(graph), s;
    qn_sequence_init(&s, NULL);
    for (size_t i = 0; i < base.n; i++) {
        add(&s, QN_ACTION_RUN, base.items[i].id);
        for (int k = 0; k < n && base.items[i].id == graph->values[value]->producer; k++)
            add(&s, actions[k], value);
    }
    const qn_status status = qn_sequence_check(&s, graph);
    qn_sequence_deinit(&s);
    qn_sequence_deinit(&base);
    return status;
}

static void test_bad_swaps(const qn_graph *graph) {
    static const qn_action good[] = {QN_ACTION_STORE,  QN_ACTION_STORED, QN_ACTION_LOAD,
                                     QN_ACTION_LOADED, QN_ACTION_LOAD,   QN_ACTION_LOADED};
    const int32_t conv = graph->nodes[find_node(graph, "conv2")]->outputs[0].id;
    CHECK_OK(try_swaps(graph, conv, good, 6));
    CHECK_FAILS(try_swaps(graph, conv, good, 1), QN_ERROR_ARGUMENT, "never waited for");
    CHECK_FAILS(try_swaps(graph, conv, good, 3), QN_ERROR_ARGUMENT, "while it is being loaded");
    CHECK_FAILS(try_swaps(graph, conv, good + 1, 1), QN_ERROR_ARGUMENT, "not in the order");
    CHECK_FAILS(try_swaps(graph, conv, good + 2, 2), QN_ERROR_ARGUMENT, "load of conv2");
    const int32_t update = graph->nodes[find_node(graph, "fc1.weight.update")]->outputs[0].id;
    CHECK_FAILS(try_swaps(graph, update, good, 2), QN_ERROR_ARGUMENT, "cannot be swapped");
    qn_sequence s = base_of(graph);
    add(&s, QN_ACTION_LOAD, graph->n_values);
    CHECK_FAILS(qn_sequence_check(&s, graph), QN_ERROR_ARGUMENT, "no value");
    qn_sequence_deinit(&s);
}

/* ---- memory ---- */

static void test_failures(const qn_graph *graph) {
    failing heap = {.left = 0};
    const qn_allocator a = {&heap, failing_allocate, failing_release};
    qn_sequence sequence = make_random(graph, 5, 1);
    qn_graph copy = *graph; /* what is made of it comes from the graph's allocator */
    copy.allocator = &a;
    bool is_done = false;
    int n_failed = 0;
    for (int64_t n = 0; !is_done; n++) {
        qn_budget_plan made = {0};
        heap = (failing){.left = n};
        const qn_status status =
            qn_budget_plan_make(&a, &copy, A_MACHINE(kernels, 3), &sequence, &made);
        is_done = status == QN_OK;
        n_failed += !is_done;
        if (!is_done && (status != QN_ERROR_MEMORY || made.graph || heap.held_bytes != 0))
            CHECK(!"a failed allocation is reported and leaves nothing");
        qn_budget_plan_deinit(&made);
    }
    CHECK(heap.held_bytes == 0 && n_failed > 10);
    qn_sequence_deinit(&sequence);
}

int main(void) {
    kernels = qn_kernels_get(QN_F32, QN_ISA_REF);
    CHECK_OK(qn_team_create(qn_allocator_default(), 2, &team));
    qn_program small = build_small();
    test_identity(small.graph);
    test_dropout(small.graph);
    for (uint64_t seed = 0; seed < 30; seed++)
        test_random(small.graph, seed, true);
    test_bad_runs(small.graph);
    test_bad_swaps(small.graph);
    test_failures(small.graph);
    qn_program_deinit(&small);
    for (int i = 0; qn_model_at(i); i++) {
        if (!qn_model_at(i)->network)
            continue;
        qn_program p = build_model(qn_model_at(i));
        test_identity(p.graph);
        test_random(p.graph, (uint64_t)i, false);
        qn_program_deinit(&p);
    }
    qn_team_destroy(team);
    return checks_finish();
}
