/* The property that schedules over cores rest on: in whatever order that their edges allow, on
 * whatever cores, and on however many, by however many threads, operations leave the same bits, and
 * nothing is allocated. Random schedules of models on four lanes that are cores, beside a step in
 * one lane. Plans are checked, and a step beyond the cores is refused. */
#include "base/events.h"
#include "os/team.h"
#include "placements.h"
#include "plan/schedule/timetable.h"

enum { CORES = 4 };

static const qn_lane lanes[CORES] = {
    {.n_threads = 1}, {.n_threads = 1}, {.n_threads = 1}, {.n_threads = 1}};

/* An order in which any step that may come next does, a first core, a width, and how many before it
 * have to be done, at random. */
typedef struct scattered {
    int32_t *order, *behind, n;
    int16_t *lane_of, *width_of;
} scattered;

static void scatter(const qn_graph *graph, const qn_plan *plan, uint64_t seed, scattered *s) {
    const qn_rng rng = qn_rng_make(seed, 5, 0);
    qn_tasks tasks;
    CHECK_OK(qn_tasks_of_plan(qn_allocator_default(), plan, graph, &tasks));
    int32_t *ready = calloc((size_t)tasks.n + 1, sizeof *ready), n_ready = 0;
    int32_t *n_before = calloc((size_t)tasks.n + 1, sizeof *n_before);
    s->n = tasks.n;
    s->order = calloc((size_t)tasks.n + 1, sizeof *s->order);
    s->behind = calloc((size_t)tasks.n + 1, sizeof *s->behind);
    s->lane_of = calloc((size_t)graph->n_nodes + 1, sizeof *s->lane_of);
    s->width_of = calloc((size_t)graph->n_nodes + 1, sizeof *s->width_of);
    if (!ready || !n_before || !s->order || !s->behind || !s->lane_of || !s->width_of)
        abort();
    for (int32_t i = 0; i < tasks.n; i++) {
        n_before[i] = tasks.before.first[i + 1] - tasks.before.first[i];
        if (n_before[i] == 0)
            ready[n_ready++] = i;
    }
    for (int32_t at = 0; at < tasks.n; at++) {
        const uint64_t draw = 4 * (uint64_t)at;
        const int32_t pick = (int32_t)qn_rng_below(rng, draw, (uint64_t)n_ready);
        const int32_t task = ready[pick], node = plan->steps[task].node;
        const int first = (int)qn_rng_below(rng, draw + 1, CORES);
        ready[pick] = ready[--n_ready];
        s->order[at] = node;
        const int32_t before = at > 0 ? s->behind[at - 1] : 0;
        s->behind[at] = before + (int32_t)qn_rng_below(rng, draw + 3, (uint64_t)(at - before + 1));
        s->lane_of[node] = (int16_t)first;
        s->width_of[node] = (int16_t)(1 + qn_rng_below(rng, draw + 2, (uint64_t)(CORES - first)));
        for (int32_t e = tasks.after.first[task]; e < tasks.after.first[task + 1]; e++) {
            if (--n_before[tasks.after.tasks[e]] == 0)
                ready[n_ready++] = tasks.after.tasks[e];
        }
    }
    free(ready);
    free(n_before);
    qn_tasks_deinit(&tasks);
}

static void scattered_free(const scattered *s) {
    free(s->order);
    free(s->behind);
    free(s->lane_of);
    free(s->width_of);
}

static qn_plan *plan_of(const placed_model *m, const scattered *s, bool is_behind) {
    const qn_assignment assignment = {.n_lanes = CORES,
                                      .n_spaces = 1,
                                      .lanes = lanes,
                                      .lane_of = s->lane_of,
                                      .width_of = s->width_of,
                                      .order = s->order,
                                      .behind = is_behind ? s->behind : NULL,
                                      .n_order = s->n};
    qn_plan *plan = NULL;
    CHECK_OK(qn_plan_create_for_lanes(qn_allocator_default(), m->program.graph,
                                      A_MACHINE(m->kernels, CORES), &assignment, &plan));
    return plan;
}

/* By so many threads: all that is done for another lane is done where they are fewer than lanes. */
static void check_run(const placed_model *m, const outside *o, qn_plan *plan, int n_threads) {
    qn_counter counter;
    const qn_allocator a = qn_counter_init(&counter, qn_allocator_default());
    void *arena = placed_allocate(plan->arena_bytes);
    qn_executor *executor;
    qn_team *team = NULL;
    if (n_threads > 1)
        CHECK_OK(qn_team_create(NULL, n_threads, &team));
    CHECK_OK(qn_executor_create(&a, m->program.graph, plan, A_MACHINE(m->kernels, CORES), team,
                                arena, &executor));
    const size_t held = counter.peak_bytes;
    outside_copy(&m->begun, o);
    CHECK_OK(run_steps(m, o, executor, NULL, NULL));
    CHECK(outside_equal(&m->expected, o));
    CHECK(counter.peak_bytes == held);
    qn_executor_destroy(executor);
    CHECK(qn_counter_held(&counter) == 0);
    qn_team_destroy(team);
    free(arena);
}

static void check_refusals(const placed_model *m, qn_plan *plan) {
    qn_step *last = &plan->steps[plan->n_steps - 1];
    const int16_t kept = last->n_threads;
    last->n_threads = (int16_t)(CORES + 1 - last->lane);
    CHECK_FAILS(qn_plan_check(plan, m->program.graph), QN_ERROR_ARGUMENT, "cores from");
    last->n_threads = kept;
    CHECK_OK(qn_plan_check(plan, m->program.graph));
}

/* What is behind others shares memory with what they read last, so no more is alive at once. */
static void check_behind(const placed_model *m, const scattered *s) {
    qn_plan *free_plan = plan_of(m, s, false), *plan = plan_of(m, s, true);
    int32_t n_waits = 0, n;
    for (int32_t i = 0; i < plan->n_steps; i++) {
        qn_plan_waits(plan, i, &n);
        n_waits += n;
    }
    CHECK(n_waits > 0 && plan->lower_bound_bytes <= free_plan->lower_bound_bytes);
    CHECK_OK(qn_plan_check(plan, m->program.graph));
    qn_plan_destroy(plan);
    qn_plan_destroy(free_plan);
}

static void check_model(const char *name, int n) {
    placed_model m;
    qn_plan *usual;
    placed_open(&m, qn_model_find(name));
    const outside o = outside_create(m.program.graph);
    CHECK_OK(
        qn_plan_create(qn_allocator_default(), m.program.graph, A_MACHINE(m.kernels, 1), &usual));
    for (int seed = 1; seed <= n; seed++) {
        scattered s;
        scatter(m.program.graph, usual, (uint64_t)seed, &s);
        qn_plan *plan = plan_of(&m, &s, seed % 2 == 0);
        check_refusals(&m, plan);
        check_run(&m, &o, plan, 1 + (seed + 2) % CORES);
        qn_plan_destroy(plan);
        check_behind(&m, &s);
        scattered_free(&s);
    }
    qn_plan_destroy(usual);
    outside_destroy(&o);
    placed_close(&m);
}

int main(void) {
    check_model("lenet5", 8);
    check_model("char-lstm", 2);
    check_model("squeezenet", 3);
    return checks_finish();
}
