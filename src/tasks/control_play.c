/* Playing without learning: episodes for measuring, and one to show. They use their own environment
 * and a small memory, so training continues as if nothing had been played. */
#include "base/memory.h"
#include "base/print.h"
#include "base/status.h"
#include "tasks/control.h"

enum { SLOTS = 16 };

typedef struct player {
    qn_env *env;
    qn_replay replay;
    qn_replay_place place;
    const char *purpose; /* of random numbers */
    uint64_t n_actions;
    double return_so_far;
    bool is_over;
} player;

size_t qn_control_play_bytes(const qn_control *c) {
    return SLOTS * qn_replay_slot_bytes(c->observation_bytes);
}

static void player_deinit(const qn_task *task, player *p) {
    const qn_control *c = task->self;
    qn_env_close(p->env);
    qn_release(task->allocator, p->replay.memory, SLOTS,
               qn_replay_slot_bytes(c->observation_bytes));
}

static qn_status player_init(const qn_task *task, const char *purpose, player *p) {
    const qn_control *c = task->self;
    *p = (player){.replay = c->replay, .purpose = purpose};
    p->replay.memory = NULL;
    QN_TRY(qn_allocate(task->allocator, SLOTS, qn_replay_slot_bytes(c->observation_bytes),
                       &p->replay.memory));
    p->replay.capacity = SLOTS;
    qn_status status = qn_control_open_env(task, &p->env);
    if (status != QN_OK)
        player_deinit(task, p);
    return status;
}

static qn_status begin(const qn_task *task, player *p, uint64_t episode) {
    const qn_control *c = task->self;
    QN_TRY(qn_env_reset(p->env, qn_control_episode_seed(c, p->purpose, episode), c->observation));
    p->replay.place = &p->place;
    qn_replay_begin(&p->replay, c->observation);
    p->return_so_far = 0;
    p->is_over = false;
    return QN_OK;
}

static qn_status act(qn_task *task, player *p) {
    const qn_control *c = task->self;
    qn_env_outcome outcome;
    int action;
    QN_TRY(qn_control_decide(task, &p->replay, c->s.test_epsilon, p->purpose, p->n_actions++,
                             &action));
    QN_TRY(qn_env_step(p->env, action, c->observation, &outcome));
    qn_replay_add(&p->replay, action, 0, outcome.is_terminal, c->observation);
    p->return_so_far += outcome.reward;
    p->is_over = outcome.is_over;
    return QN_OK;
}

/* ---- measuring ---- */

static qn_status play_episodes(qn_task *task, player *p, bool (*should_stop)(void *user),
                               void *user, double *sum) {
    const qn_control *c = task->self;
    for (int64_t episode = 0; episode < c->s.episodes; episode++) {
        QN_TRY(begin(task, p, (uint64_t)episode));
        while (!p->is_over) {
            QN_TRY(act(task, p));
            if (should_stop && should_stop(user))
                return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
        }
        *sum += p->return_so_far;
    }
    return QN_OK;
}

qn_status qn_control_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                              void *user, qn_metrics *metrics, int64_t *n_samples) {
    const qn_control *c = task->self;
    player p;
    double sum = 0;
    if (!c->env || split != QN_TEST)
        return QN_OK;
    QN_TRY(player_init(task, "control.test", &p));
    qn_status status = play_episodes(task, &p, should_stop, user, &sum);
    player_deinit(task, &p);
    if (status != QN_OK)
        return status;
    *n_samples = c->s.episodes;
    qn_metrics_add(metrics, "return", sum / (double)c->s.episodes, false);
    return QN_OK;
}

/* ---- showing ---- */

/* A frame (84, 84) as lines of characters, each for two by four pixels; the brightest counts. */
static void show_frame(const uint8_t *frame, const qn_sample_options *options) {
    static const char shades[] = " .:-=+*#%@";
    enum { SIDE = 84, WIDTH = SIDE / 2 };
    for (int y = 0; y < SIDE; y += 4) {
        char line[WIDTH + 1] = "";
        for (int x = 0; x < WIDTH; x++) {
            int most = 0;
            for (int i = 0; i < 8; i++) {
                const int grey = frame[(y + i / 2) * SIDE + 2 * x + i % 2];
                most = grey > most ? grey : most;
            }
            line[x] = shades[most * 9 / 255];
        }
        options->put(options->user, line);
    }
}

static void show_numbers(const float *numbers, int64_t n, const qn_sample_options *options) {
    char line[200] = "";
    size_t used = 0;
    for (int64_t i = 0; i < n && used + 20 < sizeof line; i++)
        used += (size_t)qn_print(line + used, sizeof line - used, " %9.4g", (double)numbers[i]);
    options->put(options->user, line);
}

static void show_observation(const qn_control *c, const player *p,
                             const qn_sample_options *options) {
    char line[80];
    qn_print(line, sizeof line, "after %llu actions, return %g:", (unsigned long long)p->n_actions,
             p->return_so_far);
    options->put(options->user, line);
    if (c->space.dtype == QN_U8)
        show_frame(c->observation, options);
    else
        show_numbers(c->observation, c->space.shape.dims[0], options);
}

static qn_status show_episode(qn_task *task, player *p, const qn_sample_options *options) {
    const qn_control *c = task->self;
    const int64_t most = options->count > 0 ? options->count : 3;
    const uint64_t pause = options->length > 0 ? (uint64_t)options->length : 60;
    char line[80];
    QN_TRY(begin(task, p, options->seed));
    show_observation(c, p, options);
    for (int64_t n_shown = 1; !p->is_over;) {
        QN_TRY(act(task, p));
        if (n_shown >= most || p->n_actions % pause != 0)
            continue;
        show_observation(c, p, options);
        n_shown++;
    }
    qn_print(line, sizeof line, "an episode of %llu actions, return %g",
             (unsigned long long)p->n_actions, p->return_so_far);
    options->put(options->user, line);
    return QN_OK;
}

qn_status qn_control_sample(qn_task *task, const qn_sample_options *options) {
    const qn_control *c = task->self;
    player p;
    if (options->picture)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s shows games as text, not as pictures",
                       task->model->name);
    if (!c->env || !options->put)
        return QN_OK;
    if (c->state)
        qn_control_curve_show(&c->state->curve, options->put, options->user);
    QN_TRY(player_init(task, "control.sample", &p));
    qn_status status = show_episode(task, &p, options);
    player_deinit(task, &p);
    return status;
}
