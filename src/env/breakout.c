/* Breakout on 84x84 grey pixels: a paddle, a ball, six rows of ten bricks, five balls. A brick is
 * worth 1; when all are gone a new wall appears. An action (stay, left, right) holds for four
 * frames, the last of which is observed. A lost ball is terminal for the actions before it,
 * although the episode continues until the last ball, or is truncated after MOST_STEPS actions.
 * Positions are integers of 1/256 pixel, so a game is the same on every machine. The ball's
 * direction depends on where it meets the paddle; it does not get faster. */
#include "base/rng.h"
#include "base/status.h"
#include "env/kinds.h"

#include <stdlib.h>
#include <string.h>

enum {
    SIDE = 84,
    FRAMES = 4,
    MOST_STEPS = 2500,
    ONE = 256, /* a pixel */
    WALL = 2,  /* thickness of the left, right and upper wall */
    BRICK_ROWS = 6,
    BRICK_COLUMNS = 10,
    N_BRICKS = BRICK_ROWS * BRICK_COLUMNS,
    BRICK_TOP = 18,
    BRICK_HEIGHT = 3,
    BRICK_WIDTH = 8,
    PADDLE_TOP = 78,
    PADDLE_WIDTH = 12,
    PADDLE_HEIGHT = 2,
    PADDLE_SPEED = ONE * 3 / 2,
    BALL = 2,         /* side of the ball */
    BALL_SPEED = ONE, /* up and down, a frame */
    SERVE_TOP = 40,
    BALLS = 5,
};

enum { WALL_GREY = 142, PADDLE_GREY = 200, BALL_GREY = 236 };

static const uint8_t brick_grey[BRICK_ROWS] = {200, 180, 160, 140, 120, 100};

/* Where things are: their left upper corners, in ONEs. */
typedef struct breakout {
    uint64_t seed;
    int32_t ball_x, ball_y, ball_dx, ball_dy; /* dx, dy: movement a frame */
    int32_t paddle_x;
    int32_t balls; /* left, the one in play included */
    int32_t n_served, n_steps;
    uint8_t bricks[N_BRICKS]; /* (BRICK_ROWS, BRICK_COLUMNS): 1 where there is one */
    uint8_t padding[4];
} breakout;

static bool is_within(int32_t value, int32_t least, int32_t most) {
    return value >= least && value <= most;
}

static qn_status breakout_check(const qn_env *env) {
    const breakout *b = env->state;
    bool is_sound = is_within(b->ball_x, WALL * ONE, (SIDE - WALL - BALL) * ONE) &&
                    is_within(b->ball_y, WALL * ONE, SIDE * ONE) &&
                    is_within(b->ball_dx, -2 * ONE, 2 * ONE) && abs(b->ball_dy) == BALL_SPEED &&
                    is_within(b->paddle_x, WALL * ONE, (SIDE - WALL - PADDLE_WIDTH) * ONE) &&
                    is_within(b->balls, 0, BALLS) && is_within(b->n_served, 0, BALLS) &&
                    is_within(b->n_steps, 0, MOST_STEPS);
    for (int i = 0; i < N_BRICKS; i++)
        is_sound &= b->bricks[i] <= 1;
    return is_sound ? QN_OK
                    : qn_fail(QN_ERROR_FORMAT, "the state of breakout is none that it can be in");
}

/* ---- drawing ---- */

static void fill(uint8_t *frame, int left, int top, int width, int height, uint8_t grey) {
    for (int y = top; y < top + height && y < SIDE; y++)
        memset(frame + y * SIDE + left, grey, (size_t)width);
}

/* frame: (SIDE, SIDE) */
static void draw(const breakout *b, uint8_t *frame) {
    memset(frame, 0, (size_t)SIDE * SIDE);
    fill(frame, 0, 0, SIDE, WALL, WALL_GREY);
    fill(frame, 0, 0, WALL, SIDE, WALL_GREY);
    fill(frame, SIDE - WALL, 0, WALL, SIDE, WALL_GREY);
    for (int i = 0; i < N_BRICKS; i++) {
        if (b->bricks[i])
            fill(frame, WALL + i % BRICK_COLUMNS * BRICK_WIDTH,
                 BRICK_TOP + i / BRICK_COLUMNS * BRICK_HEIGHT, BRICK_WIDTH, BRICK_HEIGHT,
                 brick_grey[i / BRICK_COLUMNS]);
    }
    fill(frame, b->paddle_x / ONE, PADDLE_TOP, PADDLE_WIDTH, PADDLE_HEIGHT, PADDLE_GREY);
    fill(frame, b->ball_x / ONE, b->ball_y / ONE, BALL, BALL, BALL_GREY);
}

/* ---- the game ---- */

/* Below the bricks, falling, at a place and a slant that are drawn. */
static void serve(breakout *b) {
    const qn_rng rng = qn_rng_make(b->seed, qn_hash_text("breakout"), (uint64_t)b->n_served++);
    const int32_t room = SIDE - 2 * WALL - BALL, slant = (int32_t)qn_rng_below(rng, 1, 2 * ONE + 1);
    b->ball_x = (WALL + (int32_t)qn_rng_below(rng, 0, (uint64_t)room + 1)) * ONE;
    b->ball_y = SERVE_TOP * ONE;
    b->ball_dx = slant - ONE;
    b->ball_dy = BALL_SPEED;
}

static qn_status breakout_reset(qn_env *env, uint64_t seed, void *observation) {
    breakout *b = env->state;
    *b = (breakout){.seed = seed, .paddle_x = (SIDE - PADDLE_WIDTH) / 2 * ONE, .balls = BALLS};
    memset(b->bricks, 1, sizeof b->bricks);
    serve(b);
    draw(b, observation);
    return QN_OK;
}

/* The first brick that the ball touches, or -1. */
static int touched_brick(const breakout *b) {
    const int left = b->ball_x / ONE, top = b->ball_y / ONE;
    for (int corner = 0; corner < 4; corner++) {
        const int x = left + corner % 2 * (BALL - 1) - WALL;
        const int y = top + corner / 2 * (BALL - 1) - BRICK_TOP;
        if (y < 0 || y >= BRICK_ROWS * BRICK_HEIGHT)
            continue;
        const int brick = y / BRICK_HEIGHT * BRICK_COLUMNS + x / BRICK_WIDTH;
        if (b->bricks[brick])
            return brick;
    }
    return -1;
}

/* Takes the touched brick away; whether there was one. */
static bool hit_brick(breakout *b, double *reward) {
    const int brick = touched_brick(b);
    if (brick < 0)
        return false;
    b->bricks[brick] = 0;
    *reward += 1;
    return true;
}

static void move_sideways(breakout *b, double *reward) {
    const int32_t least = WALL * ONE, most = (SIDE - WALL - BALL) * ONE, before = b->ball_x;
    b->ball_x += b->ball_dx;
    if (b->ball_x < least || b->ball_x > most) {
        b->ball_x = b->ball_x < least ? least : most;
        b->ball_dx = -b->ball_dx;
    } else if (hit_brick(b, reward)) {
        b->ball_x = before;
        b->ball_dx = -b->ball_dx;
    }
}

static bool is_on_paddle(const breakout *b) {
    return b->ball_dy > 0 &&
           is_within(b->ball_y / ONE + BALL, PADDLE_TOP + 1, PADDLE_TOP + PADDLE_HEIGHT) &&
           is_within(b->ball_x, b->paddle_x - BALL * ONE, b->paddle_x + PADDLE_WIDTH * ONE);
}

/* Up to a pixel and an eighth a frame to the side, by how far from the paddle's middle it lands. */
static void bounce_off_paddle(breakout *b) {
    const int32_t middle = b->paddle_x + PADDLE_WIDTH * ONE / 2;
    const int32_t away = b->ball_x + BALL * ONE / 2 - middle;
    b->ball_dy = -BALL_SPEED;
    b->ball_dx = away * 9 / 56;
}

static void move_up_or_down(breakout *b, double *reward) {
    const int32_t before = b->ball_y;
    b->ball_y += b->ball_dy;
    if (b->ball_y < WALL * ONE) {
        b->ball_y = WALL * ONE;
        b->ball_dy = BALL_SPEED;
    } else if (hit_brick(b, reward)) {
        b->ball_y = before;
        b->ball_dy = -b->ball_dy;
    } else if (is_on_paddle(b)) {
        bounce_off_paddle(b);
    }
}

static void move_paddle(breakout *b, int action) {
    const int32_t least = WALL * ONE, most = (SIDE - WALL - PADDLE_WIDTH) * ONE;
    b->paddle_x += action == 1 ? -PADDLE_SPEED : action == 2 ? PADDLE_SPEED : 0;
    b->paddle_x = b->paddle_x < least ? least : b->paddle_x > most ? most : b->paddle_x;
}

/* A frame; whether the ball is lost. */
static bool advance(breakout *b, int action, double *reward) {
    move_paddle(b, action);
    move_sideways(b, reward);
    move_up_or_down(b, reward);
    if (!memchr(b->bricks, 1, sizeof b->bricks) && b->ball_y > SERVE_TOP * ONE)
        memset(b->bricks, 1, sizeof b->bricks);
    return b->ball_y >= SIDE * ONE;
}

static qn_status breakout_step(qn_env *env, int action, void *observation,
                               qn_env_outcome *outcome) {
    breakout *b = env->state;
    bool is_lost = false;
    for (int frame = 0; frame < FRAMES && !is_lost; frame++)
        is_lost = advance(b, action, &outcome->reward);
    if (is_lost && --b->balls > 0)
        serve(b);
    b->n_steps++;
    outcome->is_terminal = is_lost;
    outcome->is_over = b->balls == 0 || b->n_steps >= MOST_STEPS;
    draw(b, observation);
    return QN_OK;
}

const qn_env_kind qn_env_breakout = {
    .name = "breakout",
    .space = {.dtype = QN_U8,
              .shape = {2, {SIDE, SIDE}},
              .n_actions = 3,
              .frames_per_step = FRAMES},
    .state_bytes = sizeof(breakout),
    .check_state = breakout_check,
    .reset = breakout_reset,
    .step = breakout_step,
};
