/* Values that go to the swap file and come back: plans with them hold, steps give the same bits
 * however slow the disk is, plans that swap some and make others again are no dearer than those
 * that only make again, and a disk that fails ends the step before a wrong number is used. The
 * moments and the time of intervals are those worked out by hand. */
#include "a_machine.h"
#include "check.h"
#include "failing.h"
#include "faulty_disk.h"
#include "graph_run.h"
#include "os/heap.h"
#include "os/os.h"
#include "os/team.h"
#include "plan/swap/intervals.h"
#include "plan/swap/swap_speed.h"
#include "quern/quern.h"
#include "random_graphs.h"
#include "run/program.h"
#include "run/trainer.h"
#include "small_models.h"

#include <stdlib.h>

static const qn_kernels *kernels;
static qn_team *team;
static char root[] = "/var/tmp/quern-test-swapping-XXXXXX";

static qn_program build(const qn_model *model, int64_t batch) {
    qn_trainer_options o = qn_trainer_options_for(model);
    o.engine.allocator = qn_allocator_default();
    o.engine.real = QN_F32;
    o.input = model->input;
    o.n_outputs = model->n_classes;
    o.batch = batch;
    const qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                      .allocator = o.engine.allocator, .real = o.engine.real,
                                      .update = o.engine.update};
    qn_program_options programs[QN_TRAINER_PROGRAMS];
    qn_program p;
    qn_trainer_describe(&o, programs);
    programs[QN_TRAINER_TRAINING].user = &o;
    CHECK_OK(qn_program_build(&p, &programs[QN_TRAINER_TRAINING], &engine));
    return p;
}

/* ---- running a plan ---- */

/* What a run leaves: all that is given from outside or a result, one behind the other. */
typedef struct outcome {
    qn_status status;
    size_t bytes;
    char *data;
} outcome;

static char *put(outcome *to, const void *from, size_t bytes) {
    to->data = realloc(to->data, to->bytes + bytes);
    if (!to->data)
        abort();
    memcpy(to->data + to->bytes, from, bytes);
    to->bytes += bytes;
    return to->data;
}

static void bind_all(const graph_run *memory, qn_executor *executor) {
    for (int v = 0; v < memory->n_values; v++) {
        if (memory->graph->values[v]->producer < 0)
            qn_executor_bind(executor, (qn_value){v}, memory->memory[v]);
    }
}

static outcome run_plan(const qn_graph *graph, const qn_plan *plan) {
    outcome left = {0};
    qn_executor *executor = NULL;
    const qn_disk_options options = {root, qn_plan_arena(plan, 1).bytes, 2};
    qn_machine machine = a_disk_machine(kernels, 1, NULL);
    graph_run memory = run_create(graph);
    void *arena = run_allocate(plan->arena_bytes);
    run_fill(&memory);
    if (plan->lanes)
        CHECK_OK(qn_device_disk.open(NULL, &options, &machine.devices[1].state));
    CHECK_OK(
        qn_executor_create(qn_allocator_default(), graph, plan, &machine, team, arena, &executor));
    bind_all(&memory, executor);
    left.status = qn_executor_run(executor, 3, 5, NULL);
    for (int v = 0; v < graph->n_values; v++) {
        const qn_value_info *info = graph->values[v];
        if (info->producer < 0)
            put(&left, memory.memory[v], qn_tensor_bytes(info->tensor));
    }
    for (int i = 0; i < graph->n_results; i++)
        put(&left, qn_executor_get(executor, graph->results[i]),
            qn_tensor_bytes(qn_graph_tensor(graph, graph->results[i])));
    qn_executor_destroy(executor);
    qn_device_disk.close(machine.devices[1].state);
    free(arena);
    run_destroy(&memory);
    return left;
}

static bool is_same(const outcome *a, const outcome *b) {
    return a->status == QN_OK && b->status == QN_OK && a->bytes == b->bytes &&
           memcmp(a->data, b->data, a->bytes) == 0;
}

/* What the graph's usual plan leaves. */
static outcome run_usual(const qn_graph *graph) {
    qn_plan *plan = NULL;
    CHECK_OK(qn_plan_create(qn_allocator_default(), graph, A_DISK_MACHINE(kernels, 2), &plan));
    CHECK(!plan->lanes);
    const outcome usual = run_plan(graph, plan);
    qn_plan_destroy(plan);
    return usual;
}

static qn_budget_plan make(const qn_graph *graph, const qn_sequence *sequence) {
    qn_budget_plan made = {0};
    CHECK_OK(qn_budget_plan_make(qn_allocator_default(), graph, A_DISK_MACHINE(kernels, 2),
                                 sequence, &made));
    if (!made.graph)
        exit(checks_finish());
    CHECK_OK(qn_graph_check(made.graph));
    CHECK_OK(qn_plan_check(made.plan, made.graph));
    return made;
}

/* ---- intervals at random moments ---- */

static int32_t between(qn_rng rng, uint64_t *draw, int32_t least, int32_t most) {
    return least + (int32_t)qn_rng_below(rng, (*draw)++, (uint64_t)(most - least + 1));
}

static int32_t draw_intervals(const qn_graph *graph, const qn_sequence *base, uint64_t seed,
                              qn_swap_interval *intervals) {
    const qn_rng rng = qn_rng_make(seed, 9, 0);
    double *item_ns = calloc(base->n, sizeof *item_ns);
    uint64_t draw = 0;
    int32_t n = 0;
    for (int32_t v = 0; item_ns && v < graph->n_values; v++) {
        qn_swap_interval t = qn_swap_interval_find(graph, base, item_ns, v);
        if (t.value < 0 || qn_rng_below(rng, draw++, 3) == 0)
            continue;
        CHECK(t.made <= t.after && t.after + 1 < t.before);
        t.stored = between(rng, &draw, t.after + 1, t.before);
        t.store = between(rng, &draw, t.made + 1, t.stored);
        t.load = between(rng, &draw, t.stored, t.before);
        t.loaded = between(rng, &draw, t.load, t.before);
        intervals[n++] = t;
    }
    free(item_ns);
    return n;
}

static qn_sequence make_random(const qn_graph *graph, uint64_t seed) {
    qn_swap_interval *intervals = calloc((size_t)graph->n_values, sizeof *intervals);
    qn_sequence base, sequence;
    CHECK_OK(qn_sequence_base(qn_allocator_default(), graph, &base));
    const int32_t n = intervals ? draw_intervals(graph, &base, seed, intervals) : 0;
    CHECK(n > 4);
    CHECK_OK(qn_swap_intervals_insert(&base, intervals, n, &sequence));
    CHECK(sequence.n == base.n + 4 * (size_t)n);
    qn_sequence_deinit(&base);
    free(intervals);
    return sequence;
}

/* Steps of a lane. */
static int count_copies(const qn_budget_plan *made, int lane) {
    int n = 0;
    for (int32_t s = 0; s < made->plan->n_steps; s++)
        n += made->plan->steps[s].lane == lane;
    return n;
}

static void check_same(const qn_graph *graph, const qn_sequence *sequence, const outcome *usual) {
    qn_budget_plan made = make(graph, sequence);
    CHECK(made.plan->lanes && made.plan->lanes->n_lanes == 3);
    CHECK(count_copies(&made, 1) > 0 && count_copies(&made, 1) == count_copies(&made, 2));
    CHECK(qn_plan_arena(made.plan, 1).bytes >= 4096 && made.swapped_bytes > 0);
    outcome swapped = run_plan(made.graph, made.plan);
    CHECK(is_same(&swapped, usual));
    free(swapped.data);
    qn_budget_plan_deinit(&made);
}

static void test_random(const qn_model *model, int64_t batch, int n) {
    qn_program p = build(model, batch);
    outcome usual = run_usual(p.graph);
    for (int i = 0; i < n; i++) {
        qn_sequence sequence = make_random(p.graph, (uint64_t)i);
        disk.stutters = i % 2;
        disk.delay_ns = i % 3 == 2 ? 500000 : 0;
        check_same(p.graph, &sequence, &usual);
        disk_reset();
        qn_sequence_deinit(&sequence);
    }
    free(usual.data);
    qn_program_deinit(&p);
}

/* ---- the policy ---- */

/* A processor of 1 FLOP a nanosecond would do; only the proportions matter. */
static double *estimate(const qn_graph *graph) {
    double *node_ns = calloc((size_t)graph->n_nodes, sizeof *node_ns);
    for (int i = 0; node_ns && i < graph->n_nodes; i++) {
        const qn_cost cost = qn_node_cost(graph, graph->nodes[i]);
        node_ns[i] = 1000 + (double)cost.flops / 20 + (double)cost.bytes / 5;
    }
    return node_ns;
}

static void test_policy(const qn_model *model, int64_t batch, double most) {
    const qn_swap_speed speed = {.write_bytes_per_ns = 2, .read_bytes_per_ns = 2};
    qn_program p = build(model, batch);
    qn_plan *plan = NULL;
    qn_sequence sequence;
    double *node_ns = estimate(p.graph), ns, waiting_ns;
    CHECK_OK(qn_plan_create(qn_allocator_default(), p.graph, A_DISK_MACHINE(kernels, 2), &plan));
    outcome usual = run_plan(p.graph, plan);
    CHECK_OK(qn_swap_intervals_of_convolutions(qn_allocator_default(), p.graph, node_ns, &speed,
                                               &sequence));
    CHECK_OK(qn_swap_intervals_estimate(qn_allocator_default(), p.graph, &sequence, node_ns, &speed,
                                        &ns, &waiting_ns));
    CHECK(waiting_ns >= 0 && waiting_ns < ns);
    qn_budget_plan made = make(p.graph, &sequence);
    printf("%s: arena %zu, swapped %zu: %zu, file %zu, waits %.3f of the time\n", model->name,
           plan->arena_bytes, made.swapped_bytes, made.plan->arena_bytes,
           qn_plan_arena(made.plan, 1).bytes, waiting_ns / ns);
    CHECK((double)made.plan->arena_bytes < most * (double)plan->arena_bytes);
    check_same(p.graph, &sequence, &usual);
    qn_budget_plan_deinit(&made);
    qn_sequence_deinit(&sequence);
    qn_plan_destroy(plan);
    free(node_ns);
    free(usual.data);
    qn_program_deinit(&p);
}

/* Four values of 64 KiB, each made from the one before, then read backwards. */
static qn_graph *build_chain(qn_value values[4]) {
    const qn_graph_options options = {QN_OPTIONS_INIT(qn_graph_options), .training = true};
    qn_graph *g = NULL;
    CHECK_OK(qn_graph_create(&options, &g));
    qn_value v = qn_input(g, "x", QN_SHAPE(128, 128));
    for (int i = 0; i < 4; i++)
        values[i] = v = qn_tanh(g, NULL, v);
    v = qn_sigmoid(g, "turn", v);
    for (int i = 3; i >= 0; i--)
        v = qn_add(g, NULL, v, values[i]);
    qn_result(g, v);
    CHECK_OK(qn_graph_finish(g));
    return g;
}

/* Every node takes 1000 ns; a write 500 and a read 1000, twice that while training goes on. */
static void test_moments(void) {
    const qn_allocator *a = qn_allocator_default();
    const qn_swap_speed speed = {65536. / 400, 65536. / 900, 100, 0};
    qn_value values[4];
    qn_graph *graph = build_chain(values);
    qn_sequence base, sequence;
    double item_ns[9], ns, waiting_ns;
    qn_swap_interval intervals[3];
    for (int i = 0; i < 9; i++)
        item_ns[i] = 1000;
    CHECK_OK(qn_sequence_base(a, graph, &base));
    CHECK(base.n == 9);
    for (int i = 0; i < 2; i++)
        intervals[1 - i] = qn_swap_interval_find(graph, &base, item_ns, values[i].id);
    CHECK(intervals[1].made == 0 && intervals[1].after == 1 && intervals[1].before == 8);
    CHECK(intervals[0].made == 1 && intervals[0].after == 2 && intervals[0].before == 7);
    CHECK(qn_swap_interval_find(graph, &base, item_ns, values[3].id).value < 0);
    CHECK_OK(qn_swap_intervals_schedule(a, graph, item_ns, 9, &speed, intervals, 2));
    CHECK(intervals[0].value == values[0].id && intervals[0].store == 1 &&
          intervals[0].stored == 2);
    CHECK(intervals[1].value == values[1].id && intervals[1].store == 2 &&
          intervals[1].stored == 3);
    CHECK(intervals[0].load == 6 && intervals[0].loaded == 8); /* 8000 - 2000 */
    CHECK(intervals[1].load == 4 && intervals[1].loaded == 7); /* 6000 - 2000 */
    CHECK_OK(qn_swap_intervals_insert(&base, intervals, 2, &sequence));
    CHECK_OK(qn_swap_intervals_estimate(a, graph, &sequence, item_ns, &speed, &ns, &waiting_ns));
    CHECK(ns == 9000 && waiting_ns == 0);
    qn_sequence_deinit(&sequence);
    intervals[1].load = 7; /* at the last moment: its read is waited for whole */
    intervals[0].load = 6;
    CHECK_OK(qn_swap_intervals_insert(&base, intervals, 2, &sequence));
    CHECK_OK(qn_swap_intervals_estimate(a, graph, &sequence, item_ns, &speed, &ns, &waiting_ns));
    CHECK(fabs(waiting_ns - 3000) < 1e-6 && fabs(ns - 12000) < 1e-6); /* 1000 left, then 2000 */
    qn_sequence_deinit(&sequence);
    qn_sequence_deinit(&base);
    qn_graph_destroy(graph);
}

/* ---- swapped and made again in one plan ---- */

static bool find_mixed(const qn_graph *graph, size_t limit, const double *node_ns,
                       const qn_swap_speed *speed, qn_budget_plan *found, size_t *least) {
    const qn_budget_options options = {.arena_bytes = limit, .node_ns = node_ns, .swap = speed};
    const qn_status status = qn_budget_plan_find(
        qn_allocator_default(), graph, A_DISK_MACHINE(kernels, 2), &options, found, least);
    CHECK(status == QN_OK || (status == QN_ERROR_MEMORY && *least > limit));
    if (status != QN_OK)
        return false;
    CHECK_OK(qn_sequence_check(&found->sequence, graph));
    CHECK_OK(qn_graph_check(found->graph));
    CHECK_OK(qn_plan_check(found->plan, found->graph));
    CHECK(found->plan->arena_bytes <= limit && found->planner_bytes > 0);
    return true;
}

/* With a disk as fast as memory nothing should be dearer than without; a slow one is left alone. */
static void compare_mixed(const qn_graph *graph, const double *node_ns, size_t limit,
                          int *n_swapped) {
    const qn_swap_speed fast = {50, 50, 1, 0}, slow = {1e-4, 1e-4, 1000000, 1};
    qn_budget_plan without = {0}, mixed = {0}, lazy = {0};
    size_t least = 0;
    const bool can = find_mixed(graph, limit, node_ns, NULL, &without, &least);
    if (find_mixed(graph, limit, node_ns, &fast, &mixed, &least)) {
        outcome usual = run_usual(graph), swapped = run_plan(mixed.graph, mixed.plan);
        CHECK(is_same(&swapped, &usual));
        CHECK(!can || mixed.extra_ns <= without.extra_ns);
        *n_swapped += mixed.swapped_bytes > 0;
        free(usual.data);
        free(swapped.data);
    }
    CHECK(!can || mixed.plan); /* what can be done without can be done with */
    if (can && find_mixed(graph, limit, node_ns, &slow, &lazy, &least))
        CHECK(lazy.swapped_bytes == 0 && lazy.extra_ns == without.extra_ns);
    qn_budget_plan_deinit(&without);
    qn_budget_plan_deinit(&mixed);
    qn_budget_plan_deinit(&lazy);
}

static void test_mixed(const qn_model *model, int64_t batch, double part) {
    qn_program p = build(model, batch);
    qn_plan *plan = NULL;
    double *node_ns = estimate(p.graph);
    int n_swapped = 0;
    CHECK_OK(qn_plan_create(qn_allocator_default(), p.graph, A_DISK_MACHINE(kernels, 2), &plan));
    compare_mixed(p.graph, node_ns, (size_t)((double)plan->arena_bytes * part), &n_swapped);
    qn_plan_destroy(plan);
    free(node_ns);
    qn_program_deinit(&p);
}

/* Any graph, and limits from what running again can just hold up. */
static void test_mixed_random(uint64_t n) {
    int n_swapped = 0;
    for (uint64_t seed = 0; seed < n; seed++) {
        qn_program p = random_program(seed);
        double *node_ns = estimate(p.graph);
        const qn_budget_options options = {.node_ns = node_ns};
        size_t least = 0;
        qn_plan *plan = NULL;
        CHECK_OK(
            qn_plan_create(qn_allocator_default(), p.graph, A_DISK_MACHINE(kernels, 2), &plan));
        CHECK_OK(qn_budget_least(qn_allocator_default(), p.graph, A_DISK_MACHINE(kernels, 2),
                                 &options, &least));
        compare_mixed(p.graph, node_ns, least + (plan->arena_bytes - least) * (seed % 3) / 4,
                      &n_swapped);
        qn_plan_destroy(plan);
        free(node_ns);
        qn_program_deinit(&p);
    }
    printf("%d of %d random steps swap\n", n_swapped, (int)n);
    CHECK(n_swapped > 1);
}

/* ---- speed ---- */

/* A disk whose every call takes 4 ms, four at a time: 4 * 512 KiB in 4 ms at most. */
static void test_speed(void) {
    qn_swap_speed speed = {0}, kept = {0};
    char cache[sizeof root + 16], command[sizeof cache + 16];
    snprintf(cache, sizeof cache, "%s/cache", root);
    setenv("XDG_CACHE_HOME", cache, 1);
    disk.delay_ns = 4000000;
    CHECK_OK(qn_swap_speed_get(NULL, root, &speed));
    disk_reset();
    CHECK(speed.write_bytes_per_ns > 0 && speed.write_bytes_per_ns <= 0.525);
    CHECK(speed.read_bytes_per_ns > 0 && speed.read_bytes_per_ns <= 0.525);
    CHECK(speed.latency_ns >= 4000000);
    const int64_t n_calls = disk.n_calls;
    CHECK_OK(qn_swap_speed_get(NULL, root, &kept));
    CHECK(disk.n_calls <= n_calls + 2); /* the kept text is read, nothing is measured again */
    CHECK(fabs(kept.write_bytes_per_ns / speed.write_bytes_per_ns - 1) < 1e-6);
    CHECK(fabs(kept.read_bytes_per_ns / speed.read_bytes_per_ns - 1) < 1e-6);
    CHECK(kept.latency_ns == speed.latency_ns);
    CHECK(speed.work_ns_per_byte > 0 && isfinite(speed.work_ns_per_byte));
    CHECK(fabs(kept.work_ns_per_byte / speed.work_ns_per_byte - 1) < 1e-6);
    CHECK_FAILS(qn_swap_speed_get(NULL, "/proc/none", &kept), QN_ERROR_IO, "/proc/none");
    disk.writes_left = 9;
    disk.error = EIO;
    CHECK_FAILS(qn_swap_speed_measure(NULL, root, &kept), QN_ERROR_IO, "Input/output");
    disk_reset();
    snprintf(command, sizeof command, "rm -r %s", cache);
    CHECK(system(command) == 0);
}

/* ---- an engine that swaps ---- */

enum { BATCH = 3072 };

static _Alignas(64) float batch_x[BATCH * 8 * 8 * 3];
static _Alignas(64) int32_t batch_y[BATCH];

/* Makes the folder's kept speed one that makes swapping worth it on any machine. */
static void pretend_speed(void) {
    char host[256], names[sizeof host + sizeof root + 1], folder[128], path[256];
    snprintf(folder, sizeof folder, "%s/cache/quern", root);
    CHECK_OK(qn_folder_create(folder));
    snprintf(path, sizeof path, "%s/cache", root);
    setenv("XDG_CACHE_HOME", path, 1);
    qn_host_name(host, sizeof host);
    snprintf(names, sizeof names, "%s %s", host, root);
    snprintf(path, sizeof path, "%s/swap-%016llx.txt", folder,
             (unsigned long long)qn_hash_text(names));
    FILE *file = fopen(path, "w");
    if (!file)
        abort();
    fprintf(file, "machine %s\nfolder %s\n", host, root);
    fprintf(file, "write 50000000000\nread 50000000000\nlatency 1\nwork 1\n");
    fclose(file);
}

static qn_trainer *make_trainer(const qn_allocator *allocator, size_t budget, const char *folder) {
    qn_trainer_options o = qn_trainer_options_for(&small_conv);
    qn_trainer *trainer = NULL;
    o.engine.allocator = allocator;
    o.batch = o.evaluation_batch = BATCH;
    o.engine.n_threads = 2;
    o.engine.aligned_inputs = true;
    o.engine.memory_budget_bytes = budget;
    o.engine.swap_folder = folder;
    CHECK(qn_trainer_create(&o, &trainer) == QN_OK || budget > 0);
    return trainer;
}

static void train(qn_trainer *trainer, int n_steps) {
    qn_step_result result;
    for (int i = 0; i < n_steps; i++)
        CHECK_OK(qn_trainer_step(trainer, batch_x, batch_y, &result));
}

static bool have_same_tensors(const qn_engine *a, const qn_engine *b) {
    bool is_equal = qn_engine_tensor_count(a) == qn_engine_tensor_count(b);
    for (int i = 0; is_equal && i < qn_engine_tensor_count(a); i++) {
        const qn_stored_tensor x = qn_engine_tensor_at(a, i), y = qn_engine_tensor_at(b, i);
        is_equal = x.bytes == y.bytes && memcmp(x.data, y.data, x.bytes) == 0;
    }
    return is_equal;
}

/* The largest budget in which something is swapped, from what it takes without one downwards. */
static qn_trainer *find_swapping(const qn_allocator *allocator, size_t full) {
    for (size_t part = 95; part > 30; part -= 5) {
        qn_trainer *trainer = make_trainer(allocator, full * part / 100, root);
        if (trainer && qn_engine_get_budget(qn_trainer_engine(trainer)).swapped_bytes > 0)
            return trainer;
        qn_trainer_destroy(trainer);
    }
    printf("no budget makes it swap\n");
    exit(1);
}

/* Same bits, nothing allocated in a step, all inside the budget; a step whose disk fails before its
 * updates changes nothing, and the next ones go on. */
static void test_engine(void) {
    qn_counter counter;
    const qn_allocator counting = qn_counter_init(&counter, qn_allocator_default());
    char command[sizeof root + 32];
    pretend_speed();
    for (int i = 0; i < BATCH * 8 * 8 * 3; i++)
        batch_x[i] = (float)(i * 37 % 101) / 50 - 1;
    qn_trainer *usual = make_trainer(NULL, 0, NULL);
    const qn_engine *engine = qn_trainer_engine(usual);
    qn_trainer *swapping = find_swapping(&counting, qn_engine_get_memory(engine).held_bytes);
    const qn_engine *other = qn_trainer_engine(swapping);
    const qn_budget_use use = qn_engine_get_budget(other);
    train(usual, 3);
    const size_t n_allocations = counter.n_allocations;
    train(swapping, 3);
    CHECK(counter.n_allocations == n_allocations);
    CHECK(counter.peak_bytes <= use.budget_bytes && use.peak_bytes <= use.budget_bytes);
    CHECK(have_same_tensors(engine, other));
    qn_step_result result;
    disk.writes_left = 1;
    disk.error = EIO;
    CHECK_FAILS(qn_trainer_step(swapping, batch_x, batch_y, &result), QN_ERROR_IO,
                "Input/output error");
    CHECK(strstr(qn_error_message(), root));
    CHECK(qn_engine_steps(other) == 3 && have_same_tensors(engine, other));
    disk_reset();
    train(usual, 1);
    train(swapping, 1);
    CHECK(have_same_tensors(engine, other));
    qn_trainer_destroy(usual);
    qn_trainer_destroy(swapping);
    snprintf(command, sizeof command, "rm -r %s/cache", root);
    CHECK(system(command) == 0);
}

/* ---- failures ---- */

static void test_faults(void) {
    qn_program p = build(&small_conv, 6);
    outcome usual = run_usual(p.graph);
    qn_sequence sequence = make_random(p.graph, 2);
    qn_budget_plan made = make(p.graph, &sequence);
    for (int i = 0; i < 12; i++) {
        const bool is_read = i % 2;
        disk.error = i % 3 == 0 ? EIO : i % 3 == 1 && is_read ? FAULT_FLIPS : FAULT_ENDS;
        disk.writes_left =
            is_read ? -1 : 1 + i / 2; /* the first write and read are the opening's */
        disk.reads_left = is_read ? 1 + i / 2 : -1;
        outcome failed = run_plan(made.graph, made.plan);
        CHECK(failed.status == QN_ERROR_IO && strstr(qn_error_message(), root));
        disk_reset();
        free(failed.data);
        outcome good = run_plan(made.graph, made.plan);
        CHECK(is_same(&good, &usual));
        free(good.data);
    }
    qn_budget_plan_deinit(&made);
    qn_sequence_deinit(&sequence);
    free(usual.data);
    qn_program_deinit(&p);
}

/* A storage of the disk from one on. */
static qn_storage *find_place(qn_plan *plan, int32_t *from) {
    while (*from < plan->n_storages && plan->storages[*from].space == 0)
        ++*from;
    return *from < plan->n_storages ? &plan->storages[(*from)++] : NULL;
}

/* Places in the file are checked as those in memory are. */
static void test_bad_places(const qn_budget_plan *made) {
    qn_plan *plan = made->plan;
    int32_t next = 0;
    qn_storage *first = find_place(plan, &next), *second = find_place(plan, &next);
    const qn_storage kept = *first;
    first->offset += 512;
    CHECK_FAILS(qn_plan_check(plan, made->graph), QN_ERROR_ARGUMENT, "is misaligned");
    first->offset = qn_plan_arena(plan, 1).bytes;
    CHECK_FAILS(qn_plan_check(plan, made->graph), QN_ERROR_ARGUMENT, "exceeds the arena");
    *first = kept;
    first->offset = second->offset;
    first->first = 0;
    first->last = plan->n_steps;
    CHECK_FAILS(qn_plan_check(plan, made->graph), QN_ERROR_ARGUMENT, "overlap");
    *first = kept;
    first->space = 0;
    CHECK(qn_plan_check(plan, made->graph) == QN_ERROR_ARGUMENT);
    *first = kept;
}

/* Without one of its waits a plan is refused, unless the lanes' order says the same; whether it was
 * refused. */
static bool is_refused_without(const qn_budget_plan *made, int32_t wait) {
    qn_plan *plan = made->plan;
    const int32_t kept = plan->lanes->waits[wait];
    /* The first step of the lane that is waited for is done long since, or nothing is lost. */
    int32_t first = 0;
    while (plan->steps[first].lane != plan->steps[kept].lane)
        first++;
    plan->lanes->waits[wait] = first;
    const bool is_refused = qn_plan_check(plan, made->graph) == QN_ERROR_ARGUMENT;
    plan->lanes->waits[wait] = kept;
    return is_refused;
}

/* Every wrong plan is refused. */
static void test_bad_plans(void) {
    qn_program p = build(&small_conv, 6);
    qn_sequence sequence = make_random(p.graph, 2);
    qn_budget_plan made = make(p.graph, &sequence);
    int32_t n_refused = 0;
    test_bad_places(&made);
    for (int32_t w = 0; w < made.plan->lanes->n_waits; w++)
        n_refused += is_refused_without(&made, w);
    printf("%d of %d waits are needed\n", n_refused, made.plan->lanes->n_waits);
    CHECK(n_refused > made.plan->lanes->n_waits / 3);
    CHECK_OK(qn_plan_check(made.plan, made.graph));
    CHECK(qn_budget_plan_make(qn_allocator_default(), p.graph, A_MACHINE(kernels, 2), &sequence,
                              &(qn_budget_plan){0}) == QN_ERROR_ARGUMENT); /* no disk */
    qn_budget_plan_deinit(&made);
    qn_sequence_deinit(&sequence);
    qn_program_deinit(&p);
}

static void test_failing_allocations(void) {
    const qn_swap_speed speed = {1, 1, 1000, 0.2};
    qn_program p = build(&small_conv, 6);
    double *node_ns = estimate(p.graph);
    failing heap = {.left = 0};
    const qn_allocator a = {&heap, failing_allocate, failing_release};
    qn_graph copy = *p.graph;
    copy.allocator = &a;
    bool is_done = false;
    int n_failed = 0;
    for (int64_t n = 0; !is_done; n++) {
        qn_budget_plan made = {0};
        qn_sequence sequence;
        heap = (failing){.left = n};
        qn_status status = qn_swap_intervals_of_convolutions(&a, &copy, node_ns, &speed, &sequence);
        if (status == QN_OK) {
            status = qn_budget_plan_make(&a, &copy, A_DISK_MACHINE(kernels, 2), &sequence, &made);
            qn_sequence_deinit(&sequence);
        }
        is_done = status == QN_OK;
        n_failed += status == QN_ERROR_MEMORY;
        CHECK(is_done || status == QN_ERROR_MEMORY);
        qn_budget_plan_deinit(&made);
        CHECK(heap.held_bytes == 0);
    }
    CHECK(n_failed > 20);
    free(node_ns);
    qn_program_deinit(&p);
}

/* As above of planning within a limit; every 29th allocation, since there are thousands. */
static void test_failing_mixing(void) {
    const qn_swap_speed speed = {50, 50, 1, 0};
    qn_program p = random_program(4);
    double *node_ns = estimate(p.graph);
    failing heap = {.left = -1};
    const qn_allocator a = {&heap, failing_allocate, failing_release};
    qn_graph copy = *p.graph;
    qn_budget_options options = {.node_ns = node_ns, .swap = &speed, .most_work = 20};
    bool is_done = false;
    int n_failed = 0;
    CHECK_OK(qn_budget_least(qn_allocator_default(), p.graph, A_DISK_MACHINE(kernels, 2), &options,
                             &options.arena_bytes));
    copy.allocator = &a;
    for (int64_t n = 0; !is_done; n += 29) {
        qn_budget_plan found = {0};
        size_t least = 0;
        heap = (failing){.left = n};
        const qn_status status =
            qn_budget_plan_find(&a, &copy, A_DISK_MACHINE(kernels, 2), &options, &found, &least);
        n_failed += heap.left < 0 && status == QN_ERROR_MEMORY;
        is_done = status == QN_OK && heap.left >= 0;
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        qn_budget_plan_deinit(&found);
        CHECK(heap.held_bytes == 0);
    }
    CHECK(n_failed > 5);
    free(node_ns);
    qn_program_deinit(&p);
}

/* Under the thread sanitizer the small network alone: large ones take minutes, and have no other
 * threads. */
#if defined(__has_feature)
#define HAS_FEATURE(feature) __has_feature(feature)
#else
#define HAS_FEATURE(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || HAS_FEATURE(thread_sanitizer)
enum { HAS_TIME = 0 };
#else
enum { HAS_TIME = 1 };
#endif

static void test_large(void) {
    test_random(qn_model_find("lenet5"), 5, 3);
    test_random(qn_model_find("googlenet"), 1, 1);
    test_policy(qn_model_find("squeezenet"), 4, 0.92);
    test_policy(qn_model_find("mobilenet-v2"), 2, 0.6);
    test_mixed(qn_model_find("squeezenet"), 2, 0.6);
    test_mixed_random(9);
    test_failing_mixing();
    test_engine();
}

int main(void) {
    qn_isa isa;
    if (!mkdtemp(root))
        return 1;
    CHECK_OK(qn_cpu_isa(&isa));
    kernels = qn_kernels_get(QN_F32, isa);
    CHECK_OK(qn_team_create(NULL, 2, &team));
    test_random(&small_conv, 6, HAS_TIME ? 9 : 3);
    test_moments();
    test_speed();
    test_faults();
    test_bad_plans();
    test_failing_allocations();
    if (HAS_TIME && !getenv("QUERN_SLOW"))
        test_large();
    qn_team_destroy(team);
    CHECK(rmdir(root) == 0);
    return checks_finish();
}
