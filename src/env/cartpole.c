/* CartPole: a pole on a cart that is pushed left or right and must not fall (Barto, Sutton and
 * Anderson 1983, appendix; their constants). In the common form: no friction, explicit Euler steps,
 * an initial state drawn from [-0.05, 0.05), reward 1 for each step, lost at 12 degrees or 2.4 m,
 * truncated after 500 steps. */
#include "base/rng.h"
#include "base/status.h"
#include "env/kinds.h"

#include <math.h>

enum { MOST_STEPS = 500 };

static const double gravity = 9.8, cart_mass = 1.0, pole_mass = 0.1, half_length = 0.5;
static const double force = 10.0, tau = 0.02;
static const double most_place = 2.4, most_angle = 12 * 2 * 3.14159265358979323846 / 360;

typedef struct cartpole {
    double place, speed;      /* m, m/s */
    double angle, turn_speed; /* from upright; rad, rad/s */
    int64_t n_steps;          /* 0 to MOST_STEPS */
} cartpole;

static void observe(const cartpole *c, float *observation) {
    observation[0] = (float)c->place;
    observation[1] = (float)c->speed;
    observation[2] = (float)c->angle;
    observation[3] = (float)c->turn_speed;
}

static qn_status cartpole_check(const qn_env *env) {
    const cartpole *c = env->state;
    if (isfinite(c->place) && isfinite(c->speed) && isfinite(c->angle) && isfinite(c->turn_speed) &&
        c->n_steps >= 0 && c->n_steps <= MOST_STEPS)
        return QN_OK;
    return qn_fail(QN_ERROR_FORMAT, "the state of cartpole is none that it can be in");
}

static qn_status cartpole_reset(qn_env *env, uint64_t seed, void *observation) {
    const qn_rng rng = qn_rng_make(seed, qn_hash_text("cartpole"), 0);
    cartpole *c = env->state;
    double start[4];
    for (int i = 0; i < 4; i++)
        start[i] = 0.1 * (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)i)) - 0.05;
    *c = (cartpole){start[0], start[1], start[2], start[3], 0};
    observe(c, observation);
    return QN_OK;
}

static void move(cartpole *c, double push) {
    const double mass = cart_mass + pole_mass, moment = pole_mass * half_length;
    const double sine = sin(c->angle), cosine = cos(c->angle);
    const double pushed = (push + moment * c->turn_speed * c->turn_speed * sine) / mass;
    const double turn = (gravity * sine - cosine * pushed) /
                        (half_length * (4.0 / 3.0 - pole_mass * cosine * cosine / mass));
    const double faster = pushed - moment * turn * cosine / mass;
    c->place += tau * c->speed;
    c->speed += tau * faster;
    c->angle += tau * c->turn_speed;
    c->turn_speed += tau * turn;
}

static qn_status cartpole_step(qn_env *env, int action, void *observation,
                               qn_env_outcome *outcome) {
    cartpole *c = env->state;
    move(c, action == 1 ? force : -force);
    c->n_steps++;
    observe(c, observation);
    outcome->reward = 1;
    outcome->is_terminal = !(fabs(c->place) <= most_place && fabs(c->angle) <= most_angle);
    outcome->is_over = outcome->is_terminal || c->n_steps >= MOST_STEPS;
    return QN_OK;
}

const qn_env_kind qn_env_cartpole = {
    .name = "cartpole",
    .space = {.dtype = QN_F32, .shape = {1, {4}}, .n_actions = 2, .frames_per_step = 1},
    .state_bytes = sizeof(cartpole),
    .check_state = cartpole_check,
    .reset = cartpole_reset,
    .step = cartpole_step,
};
