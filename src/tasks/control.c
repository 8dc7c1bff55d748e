/* Control by Q-learning: an agent acts in an environment, stores its experience, and learns the
 * value of its actions from samples of that memory (Mnih et al. 2015, algorithm 1), with the
 * targets of double Q-learning (van Hasselt et al. 2016, equation 4) over the rewards of
 * return_steps actions (Sutton 1988; Hessel et al. 2018, "multi-step learning"). One step plays the
 * actions between two updates and performs an update; the first step fills the memory before.
 * Everything that a step depends on is in the engine's tensors or follows from counters, so a
 * resumed run continues to the same bits; an environment that is a process begins a new episode. */
#include "tasks/control.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "models/models.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

static const char target_prefix[] = "task.target";

enum { STACK = 4, SYNTHETIC = 64 };

/* ---- settings ---- */

static void read_settings(const qn_task *task, qn_control_settings *s) {
    const bool is_mlp = strcmp(qn_setting_text(task, "net", "conv"), "mlp") == 0 ||
                        task->model->sizes.variant == QN_DQN_MLP;
    *s = (qn_control_settings){
        .is_mlp = is_mlp,
        .frames = qn_setting_count(task, "frames", is_mlp ? 60000 : 200000),
        .replay = qn_setting_count(task, "replay", is_mlp ? 20000 : 30000),
        .fill = qn_setting_count(task, "fill", is_mlp ? 1000 : 8000),
        .explore = qn_setting_count(task, "explore", is_mlp ? 10000 : 80000),
        .update_every = qn_setting_count(task, "update-every", is_mlp ? 1 : 4),
        .target_every = qn_setting_count(task, "target-every", 250),
        .return_steps = qn_setting_count(task, "return-steps", 3),
        .episodes = qn_setting_count(task, "episodes", is_mlp ? 100 : 30),
        .timeout_s = qn_setting_count(task, "timeout", 30),
        .discount = qn_setting_number(task, "discount", 0.99),
        .epsilon = qn_setting_number(task, "epsilon", is_mlp ? 0.02 : 0.05),
        .test_epsilon = qn_setting_number(task, "test-epsilon", is_mlp ? 0 : 0.05),
        .seed = (uint64_t)qn_setting_count(task, "seed", 1),
    };
}

/* Settings may come from a file: none may lead to a division by zero or an endless game. */
static qn_status check_ranges(const qn_task *task, const qn_control_settings *s) {
    const int64_t many = 1000000000000000;
    const struct {
        const char *name;
        int64_t value, least, most;
    } rows[] = {
        {"batch", qn_task_batch(task), 1, 1000000000},
        {"frames", s->frames, 1, many},
        {"replay", s->replay, 100, 1000000000},
        {"fill", s->fill, 0, many},
        {"explore", s->explore, 0, many},
        {"update-every", s->update_every, 1, 1000000},
        {"target-every", s->target_every, 1, many},
        {"return-steps", s->return_steps, 1, 100},
        {"episodes", s->episodes, 1, 1000000},
        {"timeout", s->timeout_s, 1, 86400},
    };
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        if (rows[i].value < rows[i].least || rows[i].value > rows[i].most)
            return qn_fail(QN_ERROR_ARGUMENT, "--%s is %lld; it must be %lld to %lld", rows[i].name,
                           (long long)rows[i].value, (long long)rows[i].least,
                           (long long)rows[i].most);
    }
    return QN_OK;
}

/* ---- the environment ---- */

qn_status qn_control_open_env(const qn_task *task, qn_env **env) {
    const qn_control *c = task->self;
    const char *data = qn_setting_text(task, "data", NULL);
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "nothing says what environment to use; give --data cartpole, breakout or "
                       "process:COMMAND");
    const qn_env_options options = {
        .allocator = task->allocator, .specification = data, .timeout_ms = 1000 * c->s.timeout_s};
    return qn_env_open(&options, env);
}

uint64_t qn_control_episode_seed(const qn_control *c, const char *purpose, uint64_t episode) {
    uint32_t words[4];
    qn_rng_block(qn_rng_make(c->s.seed, qn_hash_text(purpose), episode), 0, words);
    return (uint64_t)words[0] << 32 | words[1];
}

/* Frames for one network, numbers for the other. */
static qn_status check_space(const qn_task *task, const qn_control *c) {
    char text[QN_SHAPE_TEXT];
    const qn_shape frame = QN_SHAPE(84, 84);
    if (c->s.is_mlp && c->space.dtype != QN_F32)
        return qn_fail(QN_ERROR_ARGUMENT, "%s shows frames; --net mlp is for rows of numbers",
                       qn_env_name(c->env));
    if (!c->s.is_mlp && c->space.dtype != QN_U8)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s shows %lld numbers, and %s looks at frames; use --net mlp",
                       qn_env_name(c->env), (long long)c->space.shape.dims[0], task->model->name);
    if (!c->s.is_mlp && !qn_shape_equal(c->space.shape, frame))
        return qn_fail(QN_ERROR_ARGUMENT, "%s shows frames of %s; they must be 84x84",
                       qn_env_name(c->env), qn_shape_print(c->space.shape, text));
    return QN_OK;
}

static qn_env_space synthetic_space(const qn_task *task, bool is_mlp) {
    const int n_actions = (int)task->model->sizes.n_outputs;
    if (is_mlp)
        return (qn_env_space){QN_F32, {1, {4}}, 2, 1};
    return (qn_env_space){QN_U8, {2, {84, 84}}, n_actions, 1};
}

static qn_status open_space(qn_task *task, qn_control *c) {
    if (strcmp(qn_setting_text(task, "data", ""), "synthetic") == 0) {
        c->space = synthetic_space(task, c->s.is_mlp);
    } else {
        QN_TRY(qn_control_open_env(task, &c->env));
        c->space = qn_env_get_space(c->env);
        QN_TRY(check_space(task, c));
    }
    const int64_t n_values = qn_shape_count(c->space.shape);
    const int depth = c->space.dtype == QN_U8 ? STACK : 1;
    c->observation_bytes = qn_tensor_bytes((qn_tensor){c->space.dtype, c->space.shape});
    c->stack_bytes = (size_t)n_values * (size_t)depth * sizeof(float);
    c->sizes = (qn_network_sizes){.batch = qn_task_batch(task),
                                  .n_inputs = n_values,
                                  .n_outputs = c->space.n_actions,
                                  .variant = c->s.is_mlp ? QN_DQN_MLP : QN_DQN_FRAMES};
    c->replay = (qn_replay){.n_values = (size_t)n_values,
                            .dtype = c->space.dtype,
                            .depth = depth,
                            .discount = c->s.discount,
                            .n_steps = (int)c->s.return_steps};
    return QN_OK;
}

/* ---- programs ---- */

static qn_value build_learning(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_task *task = user;
    const qn_control *c = task->self;
    return task->model->network(graph, task->model->user, &c->sizes, phase, kept);
}

static qn_value build_acting(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_task *task = user;
    qn_network_sizes one = ((const qn_control *)task->self)->sizes;
    one.batch = 1;
    one.is_bare = true;
    task->model->network(graph, task->model->user, &one, phase, kept);
    return QN_NO_VALUE;
}

/* The values of the next states: ours, which choose the action, and the target network's. */
static qn_value build_judging(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_task *task = user;
    const qn_model *model = task->model;
    qn_network_sizes sizes = ((const qn_control *)task->self)->sizes;
    sizes.is_bare = true;
    kept[0] = qn_input(graph, "state", qn_dqn_input(&sizes));
    model->network(graph, model->user, &sizes, phase, kept);
    qn_graph_enter(graph, "%s", target_prefix);
    model->network(graph, model->user, &sizes, phase, kept);
    qn_graph_leave(graph);
    kept[0] = QN_NO_VALUE;
    return QN_NO_VALUE;
}

static qn_status make_programs(qn_task *task, qn_control *c) {
    const qn_program_options learning = {QN_OPTIONS_INIT(qn_program_options), .name = "learning",
                                         .training = true, .user = task, .build = build_learning};
    const qn_program_options judging = {QN_OPTIONS_INIT(qn_program_options), .name = "judging",
                                        .user = task, .build = build_judging};
    const qn_program_options acting = {QN_OPTIONS_INIT(qn_program_options), .name = "acting",
                                       .user = task, .build = build_acting};
    if (!task->training)
        return qn_task_make_engine(task, &acting, 1);
    c->act = 1;
    c->judge = 2;
    return qn_task_make_engine(task, (qn_program_options[]){learning, acting, judging}, 3);
}

/* The target network takes over the parameters that are learned. */
static void copy_to_target(qn_engine *engine) {
    const size_t length = sizeof target_prefix; /* with a dot in place of the zero */
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor to = qn_engine_tensor_at(engine, i);
        if (strncmp(to.name, target_prefix, length - 1) == 0)
            memcpy(to.data, qn_engine_find(engine, to.name + length).data, to.bytes);
    }
}

/* ---- memory ---- */

static qn_status allocate_batch(qn_task *task, qn_control *c) {
    const size_t n = (size_t)c->sizes.batch;
    QN_TRY(qn_allocate(task->allocator, n, c->stack_bytes, &c->next));
    QN_TRY(qn_allocate(task->allocator, n, sizeof *c->targets, &c->targets));
    QN_TRY(qn_allocate(task->allocator, n, sizeof *c->discounts, &c->discounts));
    return qn_allocate(task->allocator, n, sizeof *c->actions, &c->actions);
}

/* Replay memory, counters and the environment's state, which the engine's checkpoints keep. */
static qn_status add_state(qn_task *task, qn_control *c) {
    const size_t slot_bytes = qn_replay_slot_bytes(c->observation_bytes);
    void *memory;
    c->replay.capacity = c->env ? c->s.replay : SYNTHETIC + STACK;
    QN_TRY(qn_engine_add_state(task->engine, "task.counters", QN_U8,
                               QN_SHAPE((int64_t)sizeof *c->state), &memory));
    if (!task->how->plan_only) {
        c->state = memory;
        c->replay.place = &c->state->place;
    }
    QN_TRY(qn_engine_add_state(task->engine, "task.replay", QN_U8,
                               QN_SHAPE(c->replay.capacity, (int64_t)slot_bytes), &memory));
    c->replay.memory = memory;
    if (!c->env || qn_env_state_bytes(c->env) == 0)
        return QN_OK;
    QN_TRY(qn_engine_add_state(task->engine, "task.environment", QN_U8,
                               QN_SHAPE((int64_t)qn_env_state_bytes(c->env)), &memory));
    if (!task->how->plan_only)
        qn_env_use_state(c->env, memory);
    return QN_OK;
}

/* Observations, actions and rewards that mean nothing, each an episode's last. */
static void fill_synthetic(qn_control *c) {
    for (uint64_t i = 0; i < SYNTHETIC && c->state->place.n < SYNTHETIC; i++) {
        const qn_rng rng = qn_rng_make(c->s.seed, qn_hash_text("control.synthetic"), i);
        uint8_t *bytes = c->observation;
        float *numbers = c->observation;
        for (uint64_t k = 0; c->space.dtype == QN_U8 && k < c->observation_bytes; k++)
            bytes[k] = (uint8_t)qn_rng_word(rng, k);
        for (uint64_t k = 0; c->space.dtype == QN_F32 && k < c->replay.n_values; k++)
            numbers[k] = 2 * qn_rng_uniform(qn_rng_word(rng, k)) - 1;
        const uint64_t action =
            qn_rng_below(rng, c->observation_bytes, (uint64_t)c->space.n_actions);
        const float reward = 2 * qn_rng_uniform(qn_rng_word(rng, 4 * c->observation_bytes)) - 1;
        if (i == 0)
            qn_replay_begin(&c->replay, c->observation);
        qn_replay_add(&c->replay, (int)action, (double)reward, true, c->observation);
    }
}

/* ---- opening ---- */

static void fill_facts(qn_task *task, qn_control *c) {
    char text[QN_SHAPE_TEXT];
    if (c->replay.depth > 1)
        snprintf(c->input_text, sizeof c->input_text, "%sx%d", qn_shape_print(c->space.shape, text),
                 c->replay.depth);
    else
        snprintf(c->input_text, sizeof c->input_text, "%lld numbers",
                 (long long)c->space.shape.dims[0]);
    snprintf(c->output_text, sizeof c->output_text, "%d actions", c->space.n_actions);
    task->facts.data = c->env ? qn_env_name(c->env) : "synthetic";
    task->facts.input = c->input_text;
    task->facts.sizes = c->sizes;
    task->facts.output = c->output_text;
    task->facts.unit = task->training ? "transitions" : "episodes";
}

/* The run's length in updates: so many as the frames leave room for, or fewer steps. */
static void set_length(qn_task *task, const qn_control *c) {
    const int64_t actions = c->s.frames / c->space.frames_per_step;
    const int64_t fill = c->s.fill / c->space.frames_per_step;
    const int64_t updates = actions > fill ? (actions - fill) / c->s.update_every : 0;
    const bool has_frames = qn_setting_text(task, "frames", NULL) != NULL;
    qn_task_set_length(task, 0);
    if (task->facts.total_steps == 0 || (has_frames && updates < task->facts.total_steps))
        task->facts.total_steps = updates;
}

static qn_status check_settings(const qn_task *task, const qn_control *c) {
    if (qn_setting_count(task, "accumulate", 1) != 1)
        return qn_fail(QN_ERROR_UNSUPPORTED, "control accumulates no batches; use --batch");
    if (!task->training && !c->env)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "synthetic data has no environment to play in; give --data");
    return QN_OK;
}

static qn_status control_open(qn_task *task) {
    qn_control *c;
    QN_TRY(qn_allocate(task->allocator, 1, sizeof *c, &c));
    task->self = c;
    read_settings(task, &c->s);
    QN_TRY(check_ranges(task, &c->s));
    QN_TRY(open_space(task, c));
    QN_TRY(check_settings(task, c));
    set_length(task, c);
    fill_facts(task, c);
    task->aligned_inputs = true;
    task->reserve_bytes = qn_control_play_bytes(c);
    QN_TRY(make_programs(task, c));
    QN_TRY(qn_allocate(task->allocator, (size_t)c->sizes.batch, c->stack_bytes, &c->states));
    QN_TRY(qn_allocate(task->allocator, 1, c->observation_bytes, &c->observation));
    if (!task->training)
        return QN_OK;
    QN_TRY(allocate_batch(task, c));
    return add_state(task, c);
}

static void control_close(qn_task *task) {
    qn_control *c = task->self;
    if (!c)
        return;
    const size_t n = (size_t)c->sizes.batch;
    qn_env_close(c->env);
    qn_release(task->allocator, c->states, n, c->stack_bytes);
    qn_release(task->allocator, c->next, n, c->stack_bytes);
    qn_release(task->allocator, c->targets, n, sizeof *c->targets);
    qn_release(task->allocator, c->discounts, n, sizeof *c->discounts);
    qn_release(task->allocator, c->actions, n, sizeof *c->actions);
    qn_release(task->allocator, c->observation, 1, c->observation_bytes);
    qn_release(task->allocator, c, 1, sizeof *c);
}

/* ---- playing ---- */

qn_status qn_control_decide(qn_task *task, const qn_replay *replay, double epsilon,
                            const char *purpose, uint64_t number, int *action) {
    const qn_control *c = task->self;
    const qn_rng rng = qn_rng_make(c->s.seed, qn_hash_text(purpose), number);
    if ((double)qn_rng_uniform(qn_rng_word(rng, 0)) < epsilon) {
        *action = (int)qn_rng_below(rng, 1, (uint64_t)c->space.n_actions);
        return QN_OK;
    }
    qn_replay_newest(replay, c->states);
    QN_TRY(qn_engine_run(task->engine, c->act, (const void *[]){c->states}));
    const float *values = qn_engine_result(task->engine, c->act, 0);
    *action = 0;
    for (int i = 1; i < c->space.n_actions; i++) {
        if (values[i] > values[*action])
            *action = i;
    }
    return QN_OK;
}

/* Probability of any action: falls from 1 in a straight line. */
static double epsilon_now(const qn_control *c) {
    const double part = c->s.explore > 0 ? (double)c->state->n_frames / (double)c->s.explore : 1;
    return part < 1 ? 1 - part * (1 - c->s.epsilon) : c->s.epsilon;
}

static qn_status begin_episode(qn_control *c) {
    const uint64_t seed =
        qn_control_episode_seed(c, "control.episode", (uint64_t)c->state->n_episodes);
    QN_TRY(qn_env_reset(c->env, seed, c->observation));
    qn_replay_begin(&c->replay, c->observation);
    c->state->return_so_far = 0;
    return QN_OK;
}

static qn_status end_episode(qn_control *c) {
    qn_control_state *s = c->state;
    s->returns[s->n_episodes % QN_CONTROL_RETURNS] = s->return_so_far;
    s->n_episodes++;
    qn_control_curve_add(&s->curve, s->return_so_far, s->n_frames);
    return begin_episode(c);
}

/* Rewards of games differ by orders of magnitude; those of frames are clamped to [-1, 1] for
 * learning, as in Mnih et al. 2015. */
static double learned_reward(const qn_control *c, double reward) {
    return c->space.dtype == QN_U8 ? fmax(-1, fmin(1, reward)) : reward;
}

static qn_status act(qn_task *task, qn_control *c) {
    qn_control_state *s = c->state;
    qn_env_outcome outcome;
    int action;
    QN_TRY(qn_control_decide(task, &c->replay, epsilon_now(c), "control.action",
                             (uint64_t)s->n_actions, &action));
    QN_TRY(qn_env_step(c->env, action, c->observation, &outcome));
    s->n_actions++;
    s->n_frames += c->space.frames_per_step;
    s->return_so_far += outcome.reward;
    const bool has_next = !outcome.is_over || !outcome.is_terminal;
    qn_replay_add(&c->replay, action, learned_reward(c, outcome.reward), outcome.is_terminal,
                  has_next ? c->observation : NULL);
    return outcome.is_over ? end_episode(c) : QN_OK;
}

static qn_status play(qn_task *task, qn_control *c) {
    if (!c->env) {
        fill_synthetic(c);
        return QN_OK;
    }
    if (c->state->place.n == 0)
        QN_TRY(begin_episode(c));
    for (int64_t i = 0; i < c->s.update_every; i++)
        QN_TRY(act(task, c));
    while (c->state->n_frames < c->s.fill || !qn_replay_is_ready(&c->replay))
        QN_TRY(act(task, c));
    return QN_OK;
}

/* ---- learning ---- */

/* Where our own values are highest, the target network's value. */
static void add_next_values(qn_task *task, qn_control *c) {
    const float *ours = qn_engine_result(task->engine, c->judge, 0);
    const float *theirs = qn_engine_result(task->engine, c->judge, 1);
    const int n_actions = c->space.n_actions;
    for (int64_t i = 0; i < c->sizes.batch; i++, ours += n_actions, theirs += n_actions) {
        int best = 0;
        for (int a = 1; a < n_actions; a++)
            best = ours[a] > ours[best] ? a : best;
        c->targets[i] += c->discounts[i] * theirs[best];
    }
}

static qn_status draw_batch(qn_task *task, qn_control *c) {
    const size_t stack = c->stack_bytes / sizeof(float);
    const uint64_t update = (uint64_t)qn_engine_steps(task->engine);
    for (int64_t i = 0; i < c->sizes.batch; i++) {
        float *next = c->env ? c->next + (size_t)i * stack : NULL;
        const qn_replay_sample drawn = qn_replay_draw(&c->replay, c->s.seed, update, (uint64_t)i,
                                                      c->states + (size_t)i * stack, next);
        c->actions[i] = drawn.action;
        c->targets[i] = drawn.reward;
        c->discounts[i] = drawn.discount;
    }
    if (!c->env)
        return QN_OK;
    QN_TRY(qn_engine_run(task->engine, c->judge, (const void *[]){c->next}));
    add_next_values(task, c);
    return QN_OK;
}

static double mean_return(const qn_control_state *s) {
    const int64_t n = s->n_episodes < QN_CONTROL_RETURNS ? s->n_episodes : QN_CONTROL_RETURNS;
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += s->returns[i];
    return n > 0 ? sum / (double)n : NAN;
}

static void add_metrics(const qn_task *task, const qn_control *c, qn_metrics *metrics) {
    const float *values = qn_engine_result(task->engine, c->learn, 1);
    double sum = 0;
    for (int64_t i = 0; i < c->sizes.batch; i++)
        sum += (double)values[i];
    qn_metrics_add(metrics, "loss",
                   (double)*(const float *)qn_engine_result(task->engine, c->learn, 0), false);
    qn_metrics_add(metrics, "value", sum / (double)c->sizes.batch, false);
    if (!c->env)
        return;
    qn_metrics_add(metrics, "return", mean_return(c->state), false);
    qn_metrics_add(metrics, "epsilon", epsilon_now(c), false);
    qn_metrics_add_count(metrics, "episodes", c->state->n_episodes);
    qn_metrics_add_count(metrics, "frames", c->state->n_frames);
}

static qn_status control_step(qn_task *task, qn_metrics *metrics) {
    qn_control *c = task->self;
    if (qn_engine_steps(task->engine) % c->s.target_every == 0)
        copy_to_target(task->engine);
    QN_TRY(play(task, c));
    QN_TRY(draw_batch(task, c));
    QN_TRY(
        qn_engine_run(task->engine, c->learn, (const void *[]){c->states, c->actions, c->targets}));
    c->has_batch = true;
    add_metrics(task, c, metrics);
    return QN_OK;
}

static qn_status control_infer(qn_task *task, double *loss) {
    const qn_control *c = task->self;
    if (!c->has_batch)
        return QN_OK;
    QN_TRY(qn_engine_run(task->engine, c->judge, (const void *[]){c->states}));
    const float *values = qn_engine_result(task->engine, c->judge, 0);
    const int64_t n = c->sizes.batch * c->space.n_actions;
    *loss = 0;
    for (int64_t i = 0; i < n; i++)
        *loss += (double)values[i] / (double)n;
    return QN_OK;
}

/* ---- going on ---- */

static qn_status check_state(const qn_control *c) {
    const qn_control_state *s = c->state;
    if (s->n_actions < 0 || s->n_frames < 0 || s->n_episodes < 0 || !isfinite(s->return_so_far))
        return qn_fail(QN_ERROR_FORMAT, "the counters are none that were saved here");
    QN_TRY(qn_control_curve_check(&s->curve));
    QN_TRY(qn_replay_check(&c->replay, c->space.n_actions));
    return c->env ? qn_env_check_state(c->env) : QN_OK;
}

static qn_status control_resume(qn_task *task) {
    qn_control *c = task->self;
    if (!task->training)
        return QN_OK;
    qn_status status = check_state(c);
    if (status != QN_OK)
        return qn_fail_within(status, "the checkpoint's state of control");
    if (!c->env || qn_env_state_bytes(c->env) > 0 || c->state->place.n == 0)
        return QN_OK;
    return begin_episode(c);
}

const qn_task_kind qn_task_control = {
    .name = "control",
    .summary = "acting in an environment so that rewards add up",
    .open = control_open,
    .close = control_close,
    .resume = control_resume,
    .step = control_step,
    .evaluate = qn_control_evaluate,
    .sample = qn_control_sample,
    .infer = control_infer,
};
