/* What the files of the task "control" share. */
#ifndef QN_TASKS_CONTROL_H
#define QN_TASKS_CONTROL_H

#include "env/env.h"
#include "tasks/replay.h"
#include "tasks/tasks.h"

enum { QN_CONTROL_RETURNS = 100, QN_CONTROL_POINTS = 48 };

/* The mean return over time, in points of ever more episodes. */
typedef struct qn_control_curve {
    int64_t n_points, n_each; /* points; episodes in each, 0 before the first */
    int64_t n_pending;        /* episodes of the next point */
    double pending;           /* sum of their returns */
    double returns[QN_CONTROL_POINTS];
    int64_t frames[QN_CONTROL_POINTS]; /* at the point's end */
} qn_control_curve;

/* What training knows beside parameters, replay memory and environment. Plain memory: a checkpoint
 * keeps it as it is. */
typedef struct qn_control_state {
    int64_t n_actions, n_frames, n_episodes;
    double return_so_far;               /* of the episode that goes on */
    double returns[QN_CONTROL_RETURNS]; /* of the last episodes, a ring */
    qn_replay_place place;
    qn_control_curve curve;
} qn_control_state;

/* How it is played and learned. */
typedef struct qn_control_settings {
    bool is_mlp;
    int64_t frames, replay, fill, explore; /* frames, observations, frames, frames */
    int64_t update_every, target_every;    /* actions, updates */
    int64_t return_steps, episodes, timeout_s;
    double discount, epsilon, test_epsilon;
    uint64_t seed;
} qn_control_settings;

typedef struct qn_control {
    qn_control_settings s;
    qn_env *env; /* null: synthetic */
    qn_env_space space;
    qn_network_sizes sizes;
    qn_replay replay;
    qn_control_state *state;    /* of the engine's, in training */
    int learn, act, judge;      /* programs; learn and judge in training only */
    float *states, *next;       /* (N) stacks */
    bool has_batch;             /* states are of the last step */
    float *targets, *discounts; /* (N) */
    int32_t *actions;           /* (N) */
    void *observation;          /* one */
    size_t stack_bytes;         /* of a stack of floats */
    size_t observation_bytes;
    char input_text[48], output_text[32];
} qn_control;

/* The action of the highest value in the newest stack of a memory, or with probability epsilon any;
 * drawn by (seed, purpose, number). */
qn_status qn_control_decide(qn_task *task, const qn_replay *replay, double epsilon,
                            const char *purpose, uint64_t number, int *action);

qn_status qn_control_open_env(const qn_task *task, qn_env **env);

/* What playing an episode takes besides its environment. */
size_t qn_control_play_bytes(const qn_control *control);
uint64_t qn_control_episode_seed(const qn_control *control, const char *purpose, uint64_t episode);

/* Of qn_task_kind; control_play.c. */
qn_status qn_control_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                              void *user, qn_metrics *metrics, int64_t *n_samples);
qn_status qn_control_sample(qn_task *task, const qn_sample_options *options);

/* ---- the curve; control_curve.c ---- */
void qn_control_curve_add(qn_control_curve *curve, double episode_return, int64_t n_frames);
qn_status qn_control_curve_check(const qn_control_curve *curve);

/* As lines of text. */
void qn_control_curve_show(const qn_control_curve *curve, void (*put)(void *user, const char *line),
                           void *user);

#endif
