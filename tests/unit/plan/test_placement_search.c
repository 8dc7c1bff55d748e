/* Placements of random training graphs on two and three processors with random costs: what is
 * chosen is by prediction never slower than the best single processor, and near the best of all
 * where those can be tried; a copy is not made twice; every failing allocation. */
#include "base/status.h"
#include "failing.h"
#include "plan/placement/problem.h"
#include "random_graphs.h"

#include <stdlib.h>

enum { SEEDS = 14, SITES = 3, FEW = 9 };

typedef struct problem {
    qn_program program;
    qn_site sites[SITES];
    double *ns;
    int16_t *site_of;
    qn_placement_problem problem;
} problem;

/* Some nodes can run on further sites, at most so many of them. */
static void fill_costs(problem *p, uint64_t seed, int most) {
    const qn_rng rng = qn_rng_make(seed, 9, 0);
    const qn_graph *graph = p->program.graph;
    uint64_t at = 0;
    int n_free = 0;
    p->ns = calloc((size_t)graph->n_nodes * SITES + 1, sizeof *p->ns);
    p->site_of = calloc((size_t)graph->n_nodes + 1, sizeof *p->site_of);
    if (!p->ns || !p->site_of)
        abort();
    for (int n = 0; n < graph->n_nodes; n++) {
        const bool is_free = n_free < most && qn_rng_below(rng, at++, 2) == 0;
        double *ns = p->ns + n * p->problem.n_sites;
        ns[0] = (double)(100 + qn_rng_below(rng, at++, 10000));
        for (int site = 1; site < p->problem.n_sites; site++)
            ns[site] = is_free ? (double)(100 + qn_rng_below(rng, at++, 10000)) : -1;
        if (p->problem.keeps && graph->nodes[n]->op->overwrites[0] != 0)
            ns[1] = ns[0];
        n_free += is_free && !graph->nodes[n]->op->is_view;
    }
}

static void make(problem *p, uint64_t seed, int n_sites, int most) {
    *p = (problem){.program = random_program(seed)};
    p->sites[0] = (qn_site){.watts = 5};
    p->sites[1] = (qn_site){.space = 1,
                            .can_be_lost = true,
                            .watts = 2,
                            .copy_in_ns = 200,
                            .copy_out_ns = 300,
                            .in_bytes_per_ns = 4,
                            .out_bytes_per_ns = 3};
    p->sites[2] = (qn_site){.space = 0, .watts = 1};
    p->problem = (qn_placement_problem){
        .graph = p->program.graph, .n_sites = n_sites, .sites = p->sites, .idle_watts = 0.5};
    p->problem.keeps = seed % 4 > 1;
    fill_costs(p, seed, most);
    p->problem.ns = p->ns;
}

static void end(problem *p) {
    qn_program_deinit(&p->program);
    free(p->ns);
    free(p->site_of);
}

static double cost_of(const qn_placement_result *r, qn_prefer prefer) {
    return prefer == QN_PREFER_ENERGY ? r->joules
           : prefer == QN_PREFER_TIME ? r->ns
                                      : r->joules * r->ns;
}

/* The cheapest of those that use one further processor, or none. */
static double single_cost(problem *p, qn_prefer prefer) {
    double least = 1e300;
    for (int site = 0; site < p->problem.n_sites; site++) {
        qn_placement_result r;
        qn_placement_fill(&p->problem, site, p->site_of);
        CHECK_OK(qn_placement_predict(qn_allocator_default(), &p->problem, p->site_of, &r));
        CHECK(site > 0 || p->problem.keeps || r.n_copies == 0);
        least = cost_of(&r, prefer) < least ? cost_of(&r, prefer) : least;
    }
    return least;
}

static void test_never_worse(void) {
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        problem p;
        make(&p, seed, 2 + (int)(seed % 2), 1000);
        for (int prefer = QN_PREFER_TIME; prefer <= QN_PREFER_BALANCED; prefer++) {
            qn_placement_result chosen, told;
            const double single = single_cost(&p, (qn_prefer)prefer);
            CHECK_OK(qn_placement_choose(qn_allocator_default(), &p.problem, (qn_prefer)prefer,
                                         p.site_of, &chosen));
            CHECK_OK(qn_placement_predict(qn_allocator_default(), &p.problem, p.site_of, &told));
            CHECK(memcmp(&told, &chosen, sizeof told) == 0);
            CHECK(cost_of(&chosen, (qn_prefer)prefer) <= single * (1 + 1e-9));
        }
        end(&p);
    }
}

/* Every node at most FEW of which have a choice; within 5 % of the best. */
static void test_near_the_best(void) {
    double worst = 1;
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        problem p;
        qn_placement_result best, chosen;
        const qn_prefer prefer = seed % 3 == 0 ? QN_PREFER_TIME : QN_PREFER_ENERGY;
        make(&p, seed, 2 + (int)(seed % 2), FEW);
        CHECK_OK(
            qn_placement_optimum(qn_allocator_default(), &p.problem, prefer, p.site_of, &best));
        CHECK_OK(
            qn_placement_choose(qn_allocator_default(), &p.problem, prefer, p.site_of, &chosen));
        const double ratio = cost_of(&chosen, prefer) / cost_of(&best, prefer);
        CHECK(ratio >= 1 - 1e-9 && ratio <= 1.05);
        worst = ratio > worst ? ratio : worst;
        end(&p);
    }
    printf("at most %.4f of the best\n", worst);
}

/* What site 1 updates lies there: it is told so, and fewer bytes are copied. */
static void test_kept(void) {
    problem p;
    qn_placement_result kept, copied;
    make(&p, 2, 2, 1000);
    CHECK(p.problem.keeps && qn_placement_can_keep(&p.problem, 1));
    qn_placement_fill(&p.problem, 1, p.site_of);
    CHECK_OK(qn_placement_predict(qn_allocator_default(), &p.problem, p.site_of, &kept));
    p.problem.keeps = false;
    CHECK_OK(qn_placement_predict(qn_allocator_default(), &p.problem, p.site_of, &copied));
    CHECK(kept.copied_bytes < copied.copied_bytes);
    p.problem.keeps = true;
    CHECK_OK(
        qn_placement_choose(qn_allocator_default(), &p.problem, QN_PREFER_TIME, p.site_of, &kept));
    int n_updates = 0;
    for (int n = 0; n < p.problem.graph->n_nodes; n++) {
        const bool is_update = p.problem.graph->nodes[n]->op->overwrites[0] != 0;
        CHECK(!is_update || p.site_of[n] == 1);
        n_updates += is_update;
    }
    CHECK(n_updates > 0);
    end(&p);
}

static void test_too_many_ways(void) {
    problem p;
    qn_placement_result r;
    make(&p, 6, 3, 1000);
    CHECK(p.problem.graph->n_nodes > 60);
    CHECK(qn_placement_optimum(qn_allocator_default(), &p.problem, QN_PREFER_TIME, p.site_of, &r) ==
          QN_ERROR_UNSUPPORTED);
    end(&p);
}

static void test_failing_allocations(void) {
    problem p;
    make(&p, 1, 3, FEW);
    for (int64_t n = 0, is_over = 0; !is_over; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_placement_result r;
        const qn_status status =
            qn_placement_choose(&allocator, &p.problem, QN_PREFER_TIME, p.site_of, &r);
        is_over = f.left >= 0;
        CHECK(status == (is_over ? QN_OK : QN_ERROR_MEMORY));
        CHECK(f.held_bytes == 0);
    }
    end(&p);
}

int main(void) {
    test_never_worse();
    test_near_the_best();
    test_kept();
    test_too_many_ways();
    test_failing_allocations();
    return checks_finish();
}
