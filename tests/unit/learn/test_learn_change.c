/* Changes of the world: a rise of the error rate is found soon, equal rates seldom or never, a fall
 * never; and a service says it in its log. */
#include "base/rng.h"
#include "check.h"
#include "learn/change.h"

/* Samples until a change is found after the first `before`; -1: none in so many; *n_early: found
 * before. */
static int64_t find(uint64_t seed, double first, double then, int64_t before, int64_t most,
                    int *n_early) {
    const qn_rng rng = qn_rng_make(seed, 1, 2);
    qn_change c = {0};
    for (int64_t i = 0; i < before + most; i++) {
        const double p = i < before ? first : then;
        const bool is_wrong = (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)i)) < p;
        if (!qn_change_add(&c, is_wrong))
            continue;
        c = (qn_change){0};
        if (i >= before)
            return i - before + 1;
        (*n_early)++;
    }
    return -1;
}

static void test_rates(void) {
    int64_t longest = 0;
    int n_found = 0, n_early = 0, n_false = 0;
    for (uint64_t seed = 0; seed < 100; seed++) {
        const int64_t took = find(seed, 0.1, 0.5, 500, 400, &n_early);
        n_found += took > 0;
        longest = took > longest ? took : longest;
        n_false += find(seed, 0.1, 0.1, 500, 500, &n_false) > 0;
    }
    printf("found %d of 100 changes from 10 to 50 %%, after at most %lld samples; %d early; %d "
           "false of 100 times 1000\n",
           n_found, (long long)longest, n_early, n_false);
    CHECK(n_found == 100 && longest <= 64);
    CHECK(n_early <= 5 && n_false <= 5);
    int none = 0;
    for (uint64_t seed = 0; seed < 20; seed++)
        CHECK(find(seed, 0.5, 0.05, 500, 3000, &none) < 0);
}

static bool add(qn_change *c, int n, bool is_wrong) {
    bool has_changed = false;
    for (int i = 0; i < n && !has_changed; i++)
        has_changed = qn_change_add(c, is_wrong);
    return has_changed;
}

static void test_edges(void) {
    qn_change c = {0};
    CHECK(!add(&c, QN_CHANGE_WINDOW + 29, false) && c.n == 29);
    CHECK(!add(&c, 1000, false) && c.n_wrong == 0);
    CHECK(add(&c, 10, true)); /* never wrong until now */
    CHECK(qn_change_recent_wrong(&c) < 8);
    c = (qn_change){0};
    CHECK(!add(&c, 2000, true)); /* not more wrong than always */
    CHECK(qn_change_recent_wrong(&c) == QN_CHANGE_WINDOW && c.n_wrong == c.n);
    CHECK(!add(&c, 2000, false));
}

int main(void) {
    test_rates();
    test_edges();
    return checks_finish();
}
