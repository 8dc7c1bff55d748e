/* Replay memory: each draw is a state, an action, the rewards after it and the state they led to,
 * of one episode, with stacks that go no further back than its beginning; also after the ring has
 * been round, and for equal seeds the same. */
#include "check.h"
#include "tasks/replay.h"

#include <stdlib.h>

enum { CAPACITY = 40, DEPTH = 4, N_VALUES = 3 };

static qn_replay_place place;

static qn_replay make(qn_dtype dtype, int depth, int n_steps) {
    const size_t bytes = N_VALUES * (dtype == QN_U8 ? 1 : sizeof(float));
    place = (qn_replay_place){0};
    return (qn_replay){.capacity = CAPACITY,
                       .n_values = N_VALUES,
                       .dtype = dtype,
                       .depth = depth,
                       .discount = 0.5,
                       .n_steps = n_steps,
                       .memory = calloc(CAPACITY, qn_replay_slot_bytes(bytes)),
                       .place = &place};
}

/* Observation t of an episode: all values are its number. */
static void observe(int number, uint8_t *observation) {
    memset(observation, number, N_VALUES);
}

static int number_of(float value) {
    return (int)lrintf(value * 255);
}

/* Episodes of seven actions, numbered on, each terminal or cut short in turn; action: number % 5,
 * reward: number. The next episode begins 10 later. */
static void fill(qn_replay *r, int n_episodes) {
    uint8_t seen[N_VALUES];
    for (int episode = 0; episode < n_episodes; episode++) {
        const bool is_cut = episode % 2;
        observe(10 * episode, seen);
        qn_replay_begin(r, seen);
        for (int t = 0; t < 7; t++) {
            const int number = 10 * episode + t;
            observe(number + 1, seen);
            const bool is_end = t == 6;
            qn_replay_add(r, number % 5, number, is_end && !is_cut,
                          is_end && !is_cut ? NULL : seen);
        }
    }
}

/* The stack that ends with observation `number`. */
static void check_state(const float *state, int number) {
    const int first = number / 10 * 10;
    for (int d = 0; d < DEPTH; d++) {
        const int wanted = number - (DEPTH - 1 - d);
        for (int i = 0; i < N_VALUES; i++)
            CHECK(number_of(state[i * DEPTH + d]) == (wanted > first ? wanted : first));
    }
}

static void check_draw(const qn_replay *r, uint64_t update, uint64_t index, int *n_of) {
    float state[N_VALUES * DEPTH], next[N_VALUES * DEPTH], again[N_VALUES * DEPTH];
    const qn_replay_sample drawn = qn_replay_draw(r, 1, update, index, state, next);
    const int number = number_of(state[DEPTH - 1]), t = number % 10;
    const bool is_cut = number / 10 % 2;
    const int n = 7 - t < r->n_steps ? 7 - t : r->n_steps;
    double reward = 0, discount = 1;
    for (int k = 0; k < n; k++, discount /= 2)
        reward += discount * (number + k);
    const bool is_terminal = t + n == 7 && !is_cut;
    CHECK(t < 7 && drawn.action == number % 5 && fabs((double)drawn.reward - reward) < 1e-4);
    CHECK((double)drawn.discount == (is_terminal ? 0 : discount));
    check_state(state, number);
    if (!is_terminal)
        check_state(next, number + n);
    n_of[number]++;
    const qn_replay_sample second = qn_replay_draw(r, 1, update, index, again, NULL);
    CHECK(second.action == drawn.action && memcmp(again, state, sizeof state) == 0);
}

static void test_draws(int n_episodes, int n_steps) {
    qn_replay r = make(QN_U8, DEPTH, n_steps);
    int n_of[256] = {0}, n_seen = 0, most = 0;
    CHECK(!qn_replay_is_ready(&r));
    fill(&r, n_episodes);
    CHECK(qn_replay_is_ready(&r));
    CHECK_OK(qn_replay_check(&r, 5));
    for (uint64_t update = 0; update < 60; update++)
        for (uint64_t index = 0; index < 32; index++)
            check_draw(&r, update, index, n_of);
    for (int i = 0; i < 256; i++) {
        n_seen += n_of[i] > 0;
        most = n_of[i] > most ? n_of[i] : most;
    }
    /* All that can be drawn is, about equally often. */
    const int n_all = n_episodes * 7 < CAPACITY ? n_episodes * 7 : 31;
    CHECK(n_seen >= n_all && most < 3 * 60 * 32 / n_seen);
    free(r.memory);
}

static void test_newest(void) {
    qn_replay r = make(QN_U8, DEPTH, 1);
    uint8_t seen[N_VALUES];
    float state[N_VALUES * DEPTH];
    observe(10, seen);
    qn_replay_begin(&r, seen);
    for (int number = 10; number < 19; number++) {
        qn_replay_newest(&r, state);
        check_state(state, number);
        observe(number + 1, seen);
        qn_replay_add(&r, 0, 0, false, seen);
    }
    free(r.memory);
}

static void test_numbers(void) {
    qn_replay r = make(QN_F32, 1, 1);
    const float first[N_VALUES] = {1.5f, -2, 3}, second[N_VALUES] = {4, 5, -6.25f};
    float state[N_VALUES], next[N_VALUES];
    qn_replay_begin(&r, first);
    qn_replay_add(&r, 1, -3, false, second);
    const qn_replay_sample drawn = qn_replay_draw(&r, 1, 0, 0, state, next);
    CHECK(drawn.action == 1 && (double)drawn.reward == -3 && (double)drawn.discount == 0.5);
    CHECK(memcmp(state, first, sizeof state) == 0 && memcmp(next, second, sizeof next) == 0);
    free(r.memory);
}

static void test_check(void) {
    qn_replay r = make(QN_U8, DEPTH, 1);
    fill(&r, 3);
    CHECK_FAILS(qn_replay_check(&r, 4), QN_ERROR_FORMAT, "replay memory");
    const qn_replay_place wrong[] = {{-1, 3}, {CAPACITY, 3}, {0, -1}, {0, CAPACITY + 1}};
    for (int i = 0; i < 4; i++) {
        place = wrong[i];
        CHECK_FAILS(qn_replay_check(&r, 5), QN_ERROR_FORMAT, "replay memory");
    }
    free(r.memory);
}

int main(void) {
    for (int n_steps = 1; n_steps <= 3; n_steps += 2) {
        test_draws(3, n_steps);
        test_draws(5, n_steps);
        test_draws(24, n_steps);
    }
    test_newest();
    test_numbers();
    test_check();
    return checks_finish();
}
