/* Our memory planner beside the policies of others, under one executor: for a model, a batch and
 * budgets, whether each finds a plan, its peak, the time that it loses (predicted from measured
 * times of the nodes, and measured, all interleaved), the time that planning took, and whether the
 * weights have the same bits.
 *
 *     bench_memory MODEL [--batch N] [--size PIXELS] [--percent 75,50,35,25] [--bytes A,B]
 *                  [--policies quern,melon] [--threads N] [--profile ROUNDS] [--rounds N]
 *                  [--steps N] [--seconds S]
 *                  [--swap DIR] [--write BYTES_PER_NS --read BYTES_PER_NS] [--most BYTES]
 *                  [--ideal N]
 *
 * Budgets are those of the arena: per cent of that of the plan without a budget, or bytes. A JSON
 * object a line: first the model's figures, then one for each budget and policy. --profile 0: times
 * of nodes are estimated; --rounds 0: nothing is measured; more rounds than said are run where they
 * take no longer than --seconds for a budget. With --threads 1 processor time is measured, else
 * time. The policy "default" is the plan without a budget once more: what it differs by is the
 * noise. Plans that swap need --swap DIR to be run; --write and
 * --read are what the planners are told of its speed instead of what it is. quern-again: our
 * planner when it may not swap. Where the plan without a budget takes more than --most bytes, it is
 * not run: nodes are then measured in a plan of ours within the first budget. --ideal N: in every
 * round a small batch of N is run without a budget, too, as often as takes a quarter of a policy's
 * samples; "over_ideal" is the time per sample over that of the small batch. */
#include "memory_subject.h"

#include "base/status.h"
#include "os/os.h"
#include "plan/budget/model.h"
#include "plan/swap/swap_speed.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_BUDGETS = 16, MOST_POLICIES = 24, MOST_ROUNDS = 101 };

typedef struct settings {
    const char *model;
    int64_t batch, size, ideal;
    int n_threads, n_profile, n_rounds, n_steps, n_budgets;
    double percents[MOST_BUDGETS]; /* 0: bytes */
    size_t bytes[MOST_BUDGETS];
    const char *policies, *swap_folder;
    size_t most_bytes;
    double seconds;
    qn_swap_speed swap; /* 0: measured in the folder, or none */
} settings;

/* What a policy came to for a budget; index 0 is the plan without a budget. */
typedef struct contender {
    const char *name;
    qn_policy_fit fit;
    int64_t planning_cpu_ns; /* that all of a policy's tries took, with finding the least */
    qn_subject_run run;
    double times[MOST_ROUNDS], ratios[MOST_ROUNDS]; /* ns; to the plan without a budget */
    double over_ideal[MOST_ROUNDS];                 /* per sample, to a small batch */
    int n_rounds;
    double waited_ns; /* for the swap file, in a step */
    uint64_t hash;
    bool is_finite;
} contender;

static void stop(const char *what) {
    fprintf(stderr, "bench_memory: %s: %s\n", what, qn_error_message());
    exit(1);
}

static void try(qn_status status, const char *what) {
    if (status != QN_OK)
        stop(what);
}

/* ---- the command line ---- */

static void add_budgets(settings *s, const char *list, bool is_percent) {
    for (const char *at = list; at && *at && s->n_budgets < MOST_BUDGETS;) {
        char *end;
        const double number = strtod(at, &end);
        if (end == at || number <= 0)
            stop("budgets must be numbers above 0, separated by commas");
        s->percents[s->n_budgets] = is_percent ? number : 0;
        s->bytes[s->n_budgets++] = is_percent ? 0 : (size_t)number;
        at = *end ? end + 1 : end;
    }
}

static settings parse(int argc, char **argv) {
    settings s = {.batch = 32, .n_profile = 5, .n_rounds = 5, .n_steps = 2, .n_threads = 2};
    s.most_bytes = (size_t)8 << 30;
    if (argc < 2 || argc % 2 != 0)
        stop("usage: MODEL [--OPTION VALUE]...");
    s.model = argv[1];
    for (int i = 2; i + 1 < argc; i += 2) {
        const char *name = argv[i], *value = argv[i + 1];
        if (strcmp(name, "--batch") == 0)
            s.batch = atoll(value);
        else if (strcmp(name, "--size") == 0)
            s.size = atoll(value);
        else if (strcmp(name, "--threads") == 0)
            s.n_threads = atoi(value);
        else if (strcmp(name, "--profile") == 0)
            s.n_profile = atoi(value);
        else if (strcmp(name, "--rounds") == 0)
            s.n_rounds = atoi(value) < MOST_ROUNDS ? atoi(value) : MOST_ROUNDS;
        else if (strcmp(name, "--steps") == 0)
            s.n_steps = atoi(value);
        else if (strcmp(name, "--policies") == 0)
            s.policies = value;
        else if (strcmp(name, "--write") == 0)
            s.swap.write_bytes_per_ns = atof(value);
        else if (strcmp(name, "--read") == 0)
            s.swap.read_bytes_per_ns = atof(value);
        else if (strcmp(name, "--swap") == 0)
            s.swap_folder = value;
        else if (strcmp(name, "--seconds") == 0)
            s.seconds = atof(value);
        else if (strcmp(name, "--ideal") == 0)
            s.ideal = atoll(value);
        else if (strcmp(name, "--most") == 0)
            s.most_bytes = (size_t)atof(value);
        else if (strcmp(name, "--percent") == 0 || strcmp(name, "--bytes") == 0)
            add_budgets(&s, value, name[2] == 'p');
        else
            stop(name);
    }
    s.swap.latency_ns = 100000;
    if (s.swap_folder && s.swap.write_bytes_per_ns <= 0)
        try(qn_swap_speed_get(NULL, s.swap_folder, &s.swap), s.swap_folder);
    return s;
}

/* Whether a name is in the list of those asked for. */
static bool is_asked(const settings *s, const char *name) {
    const size_t length = strlen(name);
    if (!s->policies)
        return true;
    for (const char *at = s->policies; at; at = strchr(at, ',')) {
        at += *at == ',';
        if (strncmp(at, name, length) == 0 && (at[length] == ',' || at[length] == 0))
            return true;
    }
    return false;
}

static bool has_swap(const settings *s) {
    return s->swap.write_bytes_per_ns > 0 && s->swap.read_bytes_per_ns > 0;
}

/* ---- plans ---- */

static void plan_base(const qn_subject *s, contender *base) {
    *base = (contender){.name = "default", .fit = {.is_feasible = true}};
    try(qn_budget_plan_make(s->engine.allocator, s->program.graph, &s->machine, &s->base,
                            &base->fit.plan),
        "default plan");
    base->fit.least_bytes = base->fit.plan.plan->arena_bytes;
}

/* Our planner; times as the policies' are predicted. */
static void plan_ours(const qn_subject *s, const qn_policy_problem *problem, size_t arena_bytes,
                      contender *ours) {
    const qn_budget_options options = {
        .arena_bytes = arena_bytes, .node_ns = s->node_ns, .swap = problem->swap};
    qn_policy_fit *fit = &ours->fit;
    const int64_t begin_ns = qn_thread_cpu_ns();
    const qn_status status = qn_budget_plan_find(s->engine.allocator, s->program.graph, &s->machine,
                                                 &options, &fit->plan, &fit->least_bytes);
    ours->planning_cpu_ns = qn_thread_cpu_ns() - begin_ns;
    fit->n_tries = 1;
    fit->is_feasible = status == QN_OK;
    if (!fit->is_feasible && status != QN_ERROR_MEMORY)
        stop("quern");
    if (!fit->is_feasible)
        return;
    fit->least_bytes = fit->plan.plan->arena_bytes;
    fit->extra_ns = qn_policy_predict_ns(problem, &fit->plan.sequence) -
                    qn_policy_predict_ns(problem, problem->base);
}

static int plan_all(const settings *set, const qn_subject *s, size_t arena_bytes,
                    contender *contenders) {
    const qn_policy_problem problem = qn_subject_problem(s, has_swap(set) ? &set->swap : NULL);
    int n = 0;
    if (set->policies && is_asked(set, "default"))
        plan_base(s, &contenders[n++]);
    if (is_asked(set, "quern")) {
        contenders[n] = (contender){.name = "quern"};
        plan_ours(s, &problem, arena_bytes, &contenders[n++]);
    }
    if (has_swap(set) && is_asked(set, "quern-again")) { /* without swapping */
        const qn_policy_problem again = qn_subject_problem(s, NULL);
        contenders[n] = (contender){.name = "quern-again"};
        plan_ours(s, &again, arena_bytes, &contenders[n++]);
    }
    for (int i = 0; qn_policies[i]; i++) {
        const qn_policy *policy = qn_policies[i];
        if (!is_asked(set, policy->name) || (policy->swaps && !has_swap(set)))
            continue;
        const int64_t begin_ns = qn_thread_cpu_ns();
        contenders[n] = (contender){.name = policy->name};
        try(qn_policy_fit_arena(policy, &problem, &s->machine, arena_bytes, &contenders[n].fit),
            policy->name);
        if (contenders[n].fit.is_feasible)
            try(qn_plan_check(contenders[n].fit.plan.plan, contenders[n].fit.plan.graph),
                policy->name);
        contenders[n].planning_cpu_ns = qn_thread_cpu_ns() - begin_ns;
        n++;
    }
    return n;
}

/* ---- measuring ---- */

static int by_size(const void *left, const void *right) {
    const double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static double median(const double *values, int n) {
    double sorted[MOST_ROUNDS];
    if (n == 0)
        return 0;
    memcpy(sorted, values, (size_t)n * sizeof *sorted);
    qsort(sorted, (size_t)n, sizeof *sorted, by_size);
    return sorted[n / 2];
}

static double fastest(const contender *c) {
    double least = c->n_rounds > 0 ? c->times[0] : 0;
    for (int i = 1; i < c->n_rounds; i++)
        least = c->times[i] < least ? c->times[i] : least;
    return least;
}

static void hash_weights(const settings *set, qn_subject *s, contender *c) {
    try(qn_subject_restart(s), "parameters");
    for (int64_t step = 0; step < set->n_steps; step++)
        try(qn_subject_step(s, &c->run, step), c->name);
    c->hash = qn_subject_hash(s, &c->is_finite);
}

/* Of one thread its processor time, which others on the machine change less. */
static int64_t clock_ns(const qn_subject *s) {
    return s->engine.n_threads == 1 ? qn_thread_cpu_ns() : qn_clock_ns();
}

static double time_step(qn_subject *s, contender *c, int64_t step) {
    const int64_t begin_ns = clock_ns(s);
    try(qn_subject_step(s, &c->run, step), c->name);
    return (double)(clock_ns(s) - begin_ns);
}

static bool is_run(const settings *set, const contender *c) {
    return c->fit.is_feasible && c->fit.plan.plan->arena_bytes <= set->most_bytes;
}

static void prepare(const settings *set, qn_subject *s, contender *c, void *arena) {
    if (!is_run(set, c))
        return;
    try(qn_subject_prepare(s, &c->fit.plan, arena, &c->run), c->name);
    hash_weights(set, s, c);
}

/* The small batch that is run between. */
typedef struct small_batch {
    qn_subject subject;
    contender base;
    void *arena;
    int64_t batch;
} small_batch;

static void open_small(const settings *set, small_batch *small) {
    small->batch = set->ideal;
    try(qn_subject_open(&small->subject, set->model, set->ideal, set->size, set->n_threads),
        set->model);
    plan_base(&small->subject, &small->base);
    const size_t bytes = small->base.fit.plan.plan->arena_bytes;
    try(qn_subject_fill(&small->subject), "tensors");
    try(qn_allocate(small->subject.engine.allocator, 1, bytes, &small->arena), "arena");
    try(qn_subject_prepare(&small->subject, &small->base.fit.plan, small->arena, &small->base.run),
        "small batch");
    time_step(&small->subject, &small->base, 0);
}

static void close_small(small_batch *small) {
    const size_t bytes = small->base.fit.plan.plan->arena_bytes;
    qn_subject_finish(&small->base.run);
    qn_release(small->subject.engine.allocator, small->arena, 1, bytes);
    qn_budget_plan_deinit(&small->base.fit.plan);
    qn_subject_close(&small->subject);
}

/* ns per sample of the small batch, over a quarter as many samples as the large one has. */
static double time_small(const settings *set, small_batch *small, int round) {
    const int64_t quarter = set->batch / 4 / small->batch, n = quarter > 1 ? quarter : 1;
    double ns = 0;
    for (int64_t i = 0; i < n; i++)
        ns += time_step(&small->subject, &small->base, round);
    return ns / (double)(n * small->batch);
}

static void time_round(const settings *set, qn_subject *s, small_batch *small, contender *base,
                       contender *contenders, int n, int round) {
    const double ideal_ns = small->batch > 0 ? time_small(set, small, round) : 0;
    if (is_run(set, base))
        base->times[round] = time_step(s, base, round);
    for (int i = 0; i < n; i++) {
        contender *c = &contenders[i];
        if (!is_run(set, c))
            continue;
        c->times[round] = time_step(s, c, round);
        c->ratios[round] = is_run(set, base) ? c->times[round] / base->times[round] : 0;
        c->over_ideal[round] =
            small->batch > 0 ? c->times[round] / (double)set->batch / ideal_ns : 0;
    }
}

/* As many as were asked for, and more while they take little time. */
static int count_rounds(const settings *set, const qn_subject *s, const contender *contenders,
                        int n) {
    const qn_policy_problem problem = qn_subject_problem(s, NULL);
    double ns = qn_policy_predict_ns(&problem, &s->base);
    for (int i = 0; i < n; i++)
        ns += is_run(set, &contenders[i])
                  ? qn_policy_predict_ns(&problem, &s->base) + contenders[i].fit.extra_ns
                  : 0;
    const double rounds = set->seconds * 1e9 / ns;
    if (rounds <= set->n_rounds)
        return set->n_rounds;
    return rounds < MOST_ROUNDS ? (int)rounds : MOST_ROUNDS;
}

static size_t largest_arena(const settings *set, const contender *contenders, int n, size_t bytes) {
    for (int i = 0; i < n; i++) {
        if (is_run(set, &contenders[i]) && contenders[i].fit.plan.plan->arena_bytes > bytes)
            bytes = contenders[i].fit.plan.plan->arena_bytes;
    }
    return bytes;
}

/* What a step waits for the swap file: the median of as many steps as there are rounds. */
static void measure_waiting(const settings *set, qn_subject *s, contender *c) {
    double waits[MOST_ROUNDS];
    if (!is_run(set, c) || c->fit.plan.swapped_bytes == 0 || set->n_rounds == 0)
        return;
    for (int round = 0; round < c->n_rounds; round++)
        try(qn_subject_wait(s, &c->run, round, &waits[round]), c->name);
    c->waited_ns = median(waits, c->n_rounds);
}

/* Runs those that found a plan, in turn; the plan without a budget is the first of each round. */
static void measure(const settings *set, qn_subject *s, contender *base, contender *contenders,
                    int n) {
    void *arena;
    static small_batch small;
    const size_t bytes = largest_arena(set, contenders, n, largest_arena(set, base, 1, 0));
    try(qn_allocate(s->engine.allocator, 1, bytes, &arena), "arena");
    prepare(set, s, base, arena);
    for (int i = 0; i < n; i++)
        prepare(set, s, &contenders[i], arena);
    if (set->ideal > 0)
        open_small(set, &small);
    const int n_rounds = count_rounds(set, s, contenders, n);
    base->n_rounds = n_rounds;
    for (int i = 0; i < n; i++)
        contenders[i].n_rounds = n_rounds;
    for (int round = 0; round < n_rounds; round++)
        time_round(set, s, &small, base, contenders, n, round);
    if (set->ideal > 0)
        close_small(&small);
    for (int i = 0; i < n; i++)
        measure_waiting(set, s, &contenders[i]);
    for (int i = 0; i < n; i++)
        qn_subject_finish(&contenders[i].run);
    qn_subject_finish(&base->run);
    qn_release(s->engine.allocator, arena, 1, bytes);
}

/* ---- results ---- */

/* What the largest operation touches at once: no arena is smaller, whatever the order. */
static size_t find_bound(const qn_subject *s) {
    const qn_budget_options options = {.node_ns = s->node_ns};
    qn_budget_model model;
    try(qn_budget_model_init(s->engine.allocator, s->program.graph, &s->machine, &options, &model),
        "bound");
    const size_t bytes = model.least_bytes;
    qn_budget_model_deinit(&model);
    return bytes;
}

static void print_subject(const settings *set, const qn_subject *s, const contender *base) {
    const qn_policy_problem problem = qn_subject_problem(s, NULL);
    printf("{\"model\": \"%s\", \"batch\": %lld, \"size\": %lld, \"threads\": %d, "
           "\"fixed_bytes\": %zu, \"unplanned_bytes\": %zu, \"unplanned_freed_bytes\": %zu, "
           "\"default_bytes\": %zu, "
           "\"lower_bound_bytes\": %zu, \"bound_bytes\": %zu, \"nodes\": %zu, \"base_ns\": %.0f}\n",
           set->model, (long long)set->batch, (long long)set->size, s->engine.n_threads,
           s->fixed_bytes, s->unplanned.bytes, s->unplanned.freed_bytes,
           base->fit.plan.plan->arena_bytes, base->fit.plan.plan->lower_bound_bytes, find_bound(s),
           s->base.n, qn_policy_predict_ns(&problem, &s->base));
    fflush(stdout);
}

/* disk_ns: what the file needs for a step's bytes. What of it is not waited for is overlapped. */
static void print_waiting(const settings *set, const contender *c) {
    const double disk_ns = (double)c->fit.plan.swapped_bytes *
                           (1 / set->swap.write_bytes_per_ns + 1 / set->swap.read_bytes_per_ns);
    printf(", \"disk_ns\": %.0f, \"waited_ns\": %.0f, \"overlapped\": %.3f", disk_ns, c->waited_ns,
           1 - c->waited_ns / disk_ns);
}

static void print_contender(const settings *set, const qn_subject *s, int budget,
                            size_t arena_bytes, const contender *base, const contender *c) {
    const qn_policy_problem problem = qn_subject_problem(s, NULL);
    const qn_policy_fit *fit = &c->fit;
    printf("{\"model\": \"%s\", \"batch\": %lld, \"size\": %lld, \"percent\": %g, "
           "\"limit_bytes\": %zu, \"policy\": \"%s\", \"feasible\": %s, \"least_bytes\": %zu, "
           "\"planning_ns\": %lld, \"planning_cpu_ns\": %lld, \"planner_bytes\": %zu, "
           "\"tries\": %d",
           set->model, (long long)set->batch, (long long)set->size, set->percents[budget],
           arena_bytes, c->name, fit->is_feasible ? "true" : "false", fit->least_bytes,
           (long long)fit->plan.planning_ns, (long long)c->planning_cpu_ns, fit->plan.planner_bytes,
           fit->n_tries);
    if (fit->is_feasible)
        printf(", \"arena_bytes\": %zu, \"own_top_bytes\": %zu, \"predicted\": %.5f, "
               "\"again\": %lld, \"swapped_bytes\": %zu",
               fit->plan.plan->arena_bytes, fit->own_top_bytes,
               1 + fit->extra_ns / qn_policy_predict_ns(&problem, &s->base),
               (long long)fit->plan.n_again, fit->plan.swapped_bytes);
    if (is_run(set, c) && fit->plan.swapped_bytes > 0 && set->n_rounds > 0)
        print_waiting(set, c);
    if (is_run(set, c) && set->n_rounds > 0)
        printf(", \"measured\": %.5f, \"fastest\": %.5f, \"rounds\": %d, \"step_ns\": %.0f, "
               "\"default_step_ns\": %.0f, "
               "\"same_bits\": %s, \"finite\": %s",
               median(c->ratios, c->n_rounds), is_run(set, base) ? fastest(c) / fastest(base) : 0,
               c->n_rounds, median(c->times, c->n_rounds), median(base->times, base->n_rounds),
               !is_run(set, base)      ? "null"
               : c->hash == base->hash ? "true"
                                       : "false",
               c->is_finite ? "true" : "false");
    if (is_run(set, c) && set->ideal > 0 && set->n_rounds > 0)
        printf(", \"over_ideal\": %.5f", median(c->over_ideal, c->n_rounds));
    printf("}\n");
    fflush(stdout);
}

static size_t budget_bytes(const settings *set, int budget, const contender *base) {
    const double full = (double)base->fit.plan.plan->arena_bytes;
    return set->bytes[budget] ? set->bytes[budget] : (size_t)(set->percents[budget] / 100 * full);
}

static void bench_budget(const settings *set, qn_subject *s, int budget, contender *base) {
    static contender contenders[MOST_POLICIES];
    const size_t arena_bytes = budget_bytes(set, budget, base);
    const int n = plan_all(set, s, arena_bytes, contenders);
    if (set->n_rounds > 0)
        measure(set, s, base, contenders, n);
    for (int i = 0; i < n; i++) {
        print_contender(set, s, budget, arena_bytes, base, &contenders[i]);
        qn_budget_plan_deinit(&contenders[i].fit.plan);
    }
}

/* Measures the nodes in the plan without a budget, or in ours within the first one. */
static void profile(const settings *set, qn_subject *s, contender *base) {
    contender ours = {.name = "quern"}, *used = base;
    void *arena;
    if (!is_run(set, base)) {
        const qn_policy_problem problem = qn_subject_problem(s, NULL);
        used = &ours;
        plan_ours(s, &problem, set->n_budgets ? budget_bytes(set, 0, base) : set->most_bytes, used);
        if (!used->fit.is_feasible)
            return;
    }
    const size_t bytes = used->fit.plan.plan->arena_bytes;
    try(qn_allocate(s->engine.allocator, 1, bytes, &arena), "arena");
    try(qn_subject_prepare(s, &used->fit.plan, arena, &used->run), used->name);
    try(qn_subject_profile(s, &used->run, set->n_profile), "profile");
    qn_subject_finish(&used->run);
    qn_release(s->engine.allocator, arena, 1, bytes);
    qn_budget_plan_deinit(&ours.fit.plan);
}

int main(int argc, char **argv) {
    static contender base;
    const settings set = parse(argc, argv);
    qn_subject subject;
    try(qn_subject_open(&subject, set.model, set.batch, set.size, set.n_threads), set.model);
    subject.swap_folder = set.swap_folder;
    plan_base(&subject, &base);
    if (set.n_profile > 0 || set.n_rounds > 0)
        try(qn_subject_fill(&subject), "tensors");
    if (set.n_profile > 0)
        profile(&set, &subject, &base);
    print_subject(&set, &subject, &base);
    for (int i = 0; i < set.n_budgets; i++)
        bench_budget(&set, &subject, i, &base);
    qn_budget_plan_deinit(&base.fit.plan);
    qn_subject_close(&subject);
    return 0;
}
