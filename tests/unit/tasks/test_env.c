/* Environments: equal seeds and actions give equal bits, a state that is put elsewhere goes on the
 * same, states that cannot be are refused, the rules hold; and what a process may do wrong: it
 * dies, talks nonsense, keeps silent. */
#include "base/rng.h"
#include "check.h"
#include "env/env.h"
#include "env/protocol.h"
#include "os/os.h"

#include <stdlib.h>

enum { MOST_BYTES = 84 * 84, N_ACTIONS = 3000 };

static qn_env *open_env(const char *specification) {
    const qn_env_options options = {.specification = specification, .timeout_ms = 10000};
    qn_env *env = NULL;
    CHECK_OK(qn_env_open(&options, &env));
    return env;
}

/* Plays actions drawn from a seed; a hash of all that was seen and got. */
static uint64_t play(qn_env *env, int n_actions, int begin, int end, bool is_new) {
    static unsigned char seen[MOST_BYTES];
    const qn_rng rng = qn_rng_make(5, 0, 0);
    uint64_t hash = 1469598103934665603u;
    qn_env_outcome outcome = {.is_over = is_new};
    for (int i = begin; i < end; i++) {
        if (outcome.is_over)
            CHECK_OK(qn_env_reset(env, (uint64_t)i, seen));
        const int action = (int)qn_rng_below(rng, (uint64_t)i, (uint64_t)n_actions);
        CHECK_OK(qn_env_step(env, action, seen, &outcome));
        for (size_t k = 0; k < qn_env_observation_bytes(env); k++)
            hash = (hash ^ seen[k]) * 1099511628211u;
        hash = (hash ^ (uint64_t)(outcome.reward * 16) ^ (uint64_t)outcome.is_terminal << 40 ^
                (uint64_t)outcome.is_over << 41) *
               1099511628211u;
    }
    return hash;
}

static void test_same_bits(const char *name) {
    qn_env *first = open_env(name), *second = open_env(name);
    const int n = qn_env_get_space(first).n_actions;
    const size_t bytes = qn_env_state_bytes(first);
    void *saved = calloc(1, bytes);
    CHECK(bytes > 0 && strcmp(qn_env_name(first), name) == 0);
    qn_env_use_state(first, saved);
    CHECK(play(first, n, 0, N_ACTIONS, true) == play(second, n, 0, N_ACTIONS, true));
    CHECK_OK(qn_env_check_state(first));
    /* Ten actions in, the first one's state goes on in another environment. */
    qn_env *third = open_env(name);
    void *copy = malloc(bytes);
    play(first, n, 0, 10, true);
    memcpy(copy, saved, bytes);
    qn_env_use_state(third, copy);
    CHECK_OK(qn_env_check_state(third));
    CHECK(play(first, n, 10, 15, false) == play(third, n, 10, 15, false));
    CHECK(memcmp(copy, saved, bytes) == 0);
    qn_env_close(first);
    qn_env_close(second);
    qn_env_close(third);
    free(saved);
    free(copy);
}

/* A state of any bytes is refused or can be played. */
static void test_any_state(const char *name) {
    qn_env *env = open_env(name);
    const int n = qn_env_get_space(env).n_actions;
    const size_t bytes = qn_env_state_bytes(env);
    unsigned char *state = calloc(1, bytes);
    int n_refused = 0;
    qn_env_use_state(env, state);
    for (uint64_t round = 0; round < 400; round++) {
        const qn_rng rng = qn_rng_make(9, 0, round);
        play(env, n, 0, 3, true);
        for (uint64_t k = 0; k < 1 + round % 3; k++)
            state[qn_rng_below(rng, 2 * k, bytes)] = (unsigned char)qn_rng_word(rng, 100 + k);
        if (qn_env_check_state(env) == QN_OK)
            play(env, n, 3, 60, false);
        else
            n_refused++;
    }
    CHECK(n_refused > 0);
    qn_env_close(env);
    free(state);
}

static void test_cartpole(void) {
    qn_env *env = open_env("cartpole");
    qn_env_outcome outcome = {0};
    float seen[4];
    int n = 0;
    CHECK_OK(qn_env_reset(env, 1, seen));
    for (int i = 0; i < 4; i++)
        CHECK(fabsf(seen[i]) <= 0.05f);
    const double before = (double)seen[1];
    CHECK_OK(qn_env_step(env, 1, seen, &outcome));
    /* Near the upright pole's rest a push of 10 N moves 1.1 kg by 0.195 m/s in 0.02 s. */
    CHECK(outcome.reward == 1 && fabs((double)seen[1] - before - 0.195) < 0.002);
    for (; !outcome.is_over && n < 500; n++)
        CHECK_OK(qn_env_step(env, 1, seen, &outcome));
    CHECK(n < 20 && outcome.is_terminal && fabsf(seen[2]) > 0.2094f);
    CHECK_FAILS(qn_env_step(env, 2, seen, &outcome), QN_ERROR_ARGUMENT, "action 2");
    /* Pushing towards where the pole falls holds it up until it is cut short. */
    CHECK_OK(qn_env_reset(env, 3, seen));
    outcome = (qn_env_outcome){0};
    for (n = 0; !outcome.is_over && n < 600; n++)
        CHECK_OK(qn_env_step(env, seen[2] + 0.5f * seen[3] + 0.05f * seen[0] + 0.1f * seen[1] > 0,
                             seen, &outcome));
    CHECK(n == 500 && !outcome.is_terminal);
    qn_env_close(env);
}

/* Column of the middle of the brightest pixels from row `top` on: the ball's or the paddle's. */
static double find(const unsigned char *frame, int top, int end, int grey) {
    double sum = 0, n = 0;
    for (int y = top; y < end; y++) {
        for (int x = 2; x < 82; x++) {
            sum += frame[y * 84 + x] == grey ? x : 0;
            n += frame[y * 84 + x] == grey;
        }
    }
    return n > 0 ? sum / n : -1;
}

/* A player that follows the ball clears walls; one that stays loses five balls. */
static void test_breakout(void) {
    static unsigned char frame[84 * 84];
    qn_env *env = open_env("breakout");
    double sum = 0;
    int n = 0, n_lost = 0;
    qn_env_outcome outcome = {0};
    CHECK_OK(qn_env_reset(env, 1, frame));
    for (; !outcome.is_over; n++) {
        const double ball = find(frame, 40, 84, 236), paddle = find(frame, 78, 84, 200);
        const int action = ball < 0 || fabs(ball - paddle) < 3 ? 0 : ball < paddle ? 1 : 2;
        CHECK_OK(qn_env_step(env, action, frame, &outcome));
        sum += outcome.reward;
        n_lost += outcome.is_terminal;
    }
    CHECK(sum > 20);
    CHECK(n == 2500 || n_lost == 5);
    CHECK_OK(qn_env_reset(env, 2, frame));
    n_lost = 0;
    for (outcome.is_over = false, n = 0; !outcome.is_over; n++) {
        CHECK_OK(qn_env_step(env, 1, frame, &outcome));
        n_lost += outcome.is_terminal;
    }
    CHECK(n_lost == 5 && n < 1000);
    qn_env_close(env);
}

static void test_names(void) {
    qn_env_options options = {.specification = "pong", .timeout_ms = 1000};
    qn_env *env = NULL;
    CHECK_FAILS(qn_env_open(&options, &env), QN_ERROR_ARGUMENT, "cartpole, breakout");
    options.specification = "cartpole:x";
    CHECK_FAILS(qn_env_open(&options, &env), QN_ERROR_ARGUMENT, "cartpole:x");
    options.specification = "process:";
    CHECK_FAILS(qn_env_open(&options, &env), QN_ERROR_ARGUMENT, "process:COMMAND");
    CHECK(!env);
    qn_env_close(NULL);
}

/* ---- the protocol's lines ---- */

static void test_hello(void) {
    static const char *const wrong[] = {
        "",
        "hello",
        "quern-environment",
        "quern-environment x",
        "quern-environment 1",
        "quern-environment 1 observation",
        "quern-environment 1 observation u8",
        "quern-environment 1 observation u8 84x actions 4",
        "quern-environment 1 observation u8 84x0 actions 4",
        "quern-environment 1 observation u8 84x84x84 actions 4",
        "quern-environment 1 observation u8 -84x84 actions 4",
        "quern-environment 1 observation u8 99999999999999999999x84 actions 4",
        "quern-environment 1 observation u8 4194304x2 actions 4",
        "quern-environment 1 observation f64 4 actions 2",
        "quern-environment 1 observation f32 4 actions 0",
        "quern-environment 1 observation f32 4 actions 2 frames",
        "quern-environment 1 observation f32 4 actions 2 frames 0",
        "quern-environment 1 observation f32 4 actions 2 more",
        "quern-environment 1 observation f32 4x4 actions 2",
        "quern-environment 1 observation u8 4 actions 2",
    };
    qn_env_space space = {.n_actions = 77};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_FAILS(qn_env_parse_hello(wrong[i], &space), QN_ERROR_FORMAT, "");
    CHECK(space.n_actions == 77);
    CHECK_FAILS(qn_env_parse_hello("quern-environment 2 observation u8 84x84 actions 4", &space),
                QN_ERROR_FORMAT, "version 2");
    CHECK_OK(
        qn_env_parse_hello("quern-environment 1 observation u8 84x80 actions 4 frames 4", &space));
    CHECK(space.dtype == QN_U8 && space.shape.rank == 2 && space.shape.dims[0] == 84 &&
          space.shape.dims[1] == 80 && space.n_actions == 4 && space.frames_per_step == 4);
    CHECK_OK(qn_env_parse_hello("quern-environment 1 observation f32 7 actions 2", &space));
    CHECK(space.dtype == QN_F32 && space.shape.rank == 1 && space.shape.dims[0] == 7 &&
          space.frames_per_step == 1);
}

static void test_reply(void) {
    static const char *const wrong[] = {"",
                                        "reward",
                                        "reward 1",
                                        "reward 1 ",
                                        "reward 1 going",
                                        "reward nan running",
                                        "reward inf running",
                                        "reward 1e30 running",
                                        "reward  1 running",
                                        "reward 1 running ",
                                        "reward 1running",
                                        "running"};
    qn_env_outcome outcome = {.reward = 77};
    for (size_t i = 0; i < sizeof wrong / sizeof wrong[0]; i++)
        CHECK_FAILS(qn_env_parse_reply(wrong[i], &outcome), QN_ERROR_FORMAT, "should answer");
    CHECK_FAILS(qn_env_parse_reply("error no more coins", &outcome), QN_ERROR_IO, "no more coins");
    CHECK(outcome.reward == 77);
    CHECK_OK(qn_env_parse_reply("reward -1.5 running", &outcome));
    CHECK(outcome.reward == -1.5 && !outcome.is_terminal && !outcome.is_over);
    CHECK_OK(qn_env_parse_reply("reward 0 lost", &outcome));
    CHECK(outcome.is_terminal && !outcome.is_over);
    CHECK_OK(qn_env_parse_reply("reward 2 terminal", &outcome));
    CHECK(outcome.reward == 2 && outcome.is_terminal && outcome.is_over);
    CHECK_OK(qn_env_parse_reply("reward 2e1 truncated", &outcome));
    CHECK(outcome.reward == 20 && !outcome.is_terminal && outcome.is_over);
}

/* ---- processes ---- */

#define HELLO "echo 'quern-environment 1 observation u8 2x2 actions 2'; "

/* Opens, resets and acts once with a shell script; the first failure. */
static qn_status try_script(const char *script, int64_t timeout_ms) {
    char specification[600];
    unsigned char seen[4];
    qn_env *env;
    qn_env_outcome outcome;
    snprintf(specification, sizeof specification, "process:%s", script);
    const qn_env_options options = {.specification = specification, .timeout_ms = timeout_ms};
    qn_status status = qn_env_open(&options, &env);
    if (status != QN_OK)
        return status;
    status = qn_env_reset(env, 1, seen);
    if (status == QN_OK)
        status = qn_env_step(env, 1, seen, &outcome);
    if (status == QN_OK && (outcome.reward != 3 || memcmp(seen, "bcde", 4) != 0))
        status = QN_ERROR_NUMERIC;
    qn_env_close(env);
    return status;
}

static void test_processes(void) {
    const int64_t begin_ns = qn_clock_ns();
    qn_status status = QN_OK;
    CHECK_OK(try_script(HELLO "read a; printf 'reward 0 running\\nabcd'; read a;"
                              "test \"$a\" = 'step 1' && printf 'reward 3 running\\nbcde'; read a",
                        10000));
    CHECK_FAILS(try_script("exit 3", 10000), QN_ERROR_IO, "status 3");
    CHECK_FAILS(try_script("kill -9 $$", 10000), QN_ERROR_IO, "signal 9");
    CHECK_FAILS(try_script("no-such-command-anywhere 2>/dev/null", 10000), QN_ERROR_IO,
                "status 127");
    CHECK_FAILS(try_script("echo hello", 10000), QN_ERROR_FORMAT, "hello");
    CHECK_FAILS(try_script("head -c 1000 /dev/zero", 10000), QN_ERROR_FORMAT, "more than 255");
    CHECK_FAILS(try_script("exec sleep 1000", 100), QN_ERROR_IO, "in time");
    CHECK_FAILS(try_script(HELLO "exit 0", 10000), QN_ERROR_IO, "status 0");
    CHECK(strstr(qn_error_message(), "reset"));
    CHECK_FAILS(try_script(HELLO "read a; exec sleep 1000", 100), QN_ERROR_IO, "in time");
    CHECK_FAILS(try_script(HELLO "read a; printf 'reward 0 terminal\\nabcd'; read a", 10000),
                QN_ERROR_FORMAT, "as it begins");
    CHECK_FAILS(try_script(HELLO "read a; printf 'reward 0 running\\nabcdefgh'; read a", 10000),
                QN_ERROR_FORMAT, "more than its observation");
    CHECK_FAILS(try_script(HELLO "read a; printf 'reward 0 running\\nab'; exit 1", 10000),
                QN_ERROR_IO, "status 1");
    CHECK_FAILS(try_script(HELLO "read a; printf 'error broken\\n'; read a", 10000), QN_ERROR_IO,
                "broken");
    /* A busy machine may take longer than that to start the shell: then with more time. */
    for (int ms = 100; ms <= 12800; ms *= 2) {
        status = try_script(HELLO "read a; printf 'reward 0 running\\nabcd'; exec sleep 1000", ms);
        if (strstr(qn_error_message(), "step 1"))
            break;
    }
    CHECK(status == QN_ERROR_IO && strstr(qn_error_message(), "step 1"));
    /* One that neither listens nor ends is ended. */
    CHECK_FAILS(try_script("trap '' HUP INT TERM; " HELLO "while :; do sleep 1; done", 100),
                QN_ERROR_IO, "in time");
    CHECK(qn_clock_ns() - begin_ns < (int64_t)500e9); /* no sleep was waited for */
}

int main(void) {
    static const char *const own[] = {"cartpole", "breakout"};
    for (int i = 0; i < 2; i++) {
        test_same_bits(own[i]);
        test_any_state(own[i]);
    }
    test_cartpole();
    test_breakout();
    test_names();
    test_hello();
    test_reply();
    test_processes();
    return checks_finish();
}
