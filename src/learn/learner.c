/* See learner.h. The trainer of the whole network holds the model between calls. While a candidate
 * is trained, `model` has the model's; the candidate is the mean of the weights over the second
 * half of its steps, which varies less than the last ones. */
#include "learn/learner.h"

#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "learn/replay.h"
#include "os/heap.h"
#include "tensor/tensor.h"

#include <math.h>
#include <string.h>

enum { HELD_OUT_OF = 4, TEST_BATCH = 64, MOST_STEPS = 1 << 20 };
enum { LEAST_TO_TRAIN = 16, LEAST_TO_TEST = 8 };

typedef struct pool {
    qn_sample_memory train, test;
    int64_t n_offered;
} pool;

/*     0 <= step <= n_steps; n_steps > 0: a round is under way */
struct qn_learner {
    qn_learner_options o;
    int64_t n_values, forward_flops;
    qn_trainer *whole, *head; /* head: made when it is first needed */
    pool pools[2];            /* by origin */
    int64_t n;                /* numbers of a network, running statistics included */
    float *model;             /* (n) */
    bool has_begun;
    int64_t version, n_tried, best_old;
    int64_t step, n_steps;
    double *sum; /* (n) of weights over steps */
    float *x;    /* (max of batches, n_values) */
    int32_t *y;  /* (TEST_BATCH or batch) */
    int32_t *taken;
    bool *right[3]; /* (n_held_out) of the model by origin, and of the candidate */
    bool *is_new;   /* (n_held_out) of the user's: not judged by yet */
};

/* ---- weights ---- */

static bool is_weight(const qn_stored_tensor *t) {
    return !t->is_state && strncmp(t->name, "task.", 5) != 0;
}

typedef enum direction { TO_FLAT, FROM_FLAT } direction;

static void copy_weights(qn_trainer *trainer, float *flat, direction way) {
    const qn_engine *engine = qn_trainer_engine(trainer);
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (!is_weight(&t))
            continue;
        memcpy(way == TO_FLAT ? (void *)flat : t.data, way == TO_FLAT ? t.data : (void *)flat,
               t.bytes);
        flat += t.bytes / sizeof *flat;
    }
}

/* A candidate begins without momentum. */
static void clear_state(qn_trainer *trainer) {
    const qn_engine *engine = qn_trainer_engine(trainer);
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (t.is_state)
            memset(t.data, 0, t.bytes);
    }
}

static void add_to_mean(qn_learner *l, qn_trainer *trainer) {
    const qn_engine *engine = qn_trainer_engine(trainer);
    double *sum = l->sum;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        const float *from = t.data;
        for (size_t j = 0; is_weight(&t) && j < t.bytes / sizeof *from; j++)
            *sum++ += (double)from[j];
    }
}

/* ---- creation ---- */

static qn_status make_trainer(const qn_learner *l, bool is_head, qn_trainer **trainer) {
    qn_trainer_options o = qn_trainer_options_for(l->o.model);
    o.engine.allocator = l->o.allocator;
    o.engine.n_threads = l->o.n_threads;
    o.engine.seed = l->o.seed;
    o.engine.memory_budget_bytes = l->o.memory_bytes;
    o.engine.update.rate = l->o.rate;
    o.engine.update.schedule = QN_CONSTANT;
    o.engine.update.warmup = 0;
    if (is_head)
        o.engine.tuning.train_only = "head";
    o.input = l->o.input;
    o.n_outputs = l->o.n_classes;
    o.batch = l->o.batch;
    o.evaluation_batch = TEST_BATCH;
    return qn_trainer_create(&o, trainer);
}

static void count_weights(qn_learner *l) {
    const qn_engine *engine = qn_trainer_engine(l->whole);
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (is_weight(&t))
            l->n += (int64_t)(t.bytes / sizeof(float));
    }
}

static qn_status make_pools(qn_learner *l) {
    for (int i = 0; i < 2; i++) {
        pool *p = &l->pools[i];
        QN_TRY(qn_sample_memory_init(l->o.allocator, l->o.n_kept, l->n_values, l->o.n_classes,
                                     l->o.seed + (uint64_t)i, &p->train));
        QN_TRY(qn_sample_memory_init(l->o.allocator, l->o.n_held_out, l->n_values, l->o.n_classes,
                                     l->o.seed + 2 + (uint64_t)i, &p->test));
    }
    return QN_OK;
}

static size_t batch_room(const qn_learner *l) {
    return (size_t)(l->o.batch > TEST_BATCH ? l->o.batch : TEST_BATCH);
}

static qn_status set_up(qn_learner *l) {
    const qn_allocator *a = l->o.allocator;
    const size_t room = batch_room(l);
    qn_model_size size;
    QN_TRY(qn_model_measure(l->o.model, l->o.input, l->o.n_classes, &size));
    l->forward_flops = size.forward_flops;
    QN_TRY(make_trainer(l, false, &l->whole));
    count_weights(l);
    QN_TRY(make_pools(l));
    QN_TRY(qn_allocate(a, (size_t)l->n, sizeof *l->sum, &l->sum));
    QN_TRY(qn_allocate(a, (size_t)l->n, sizeof *l->model, &l->model));
    QN_TRY(qn_allocate(a, room * (size_t)l->n_values, sizeof *l->x, &l->x));
    QN_TRY(qn_allocate(a, room, sizeof *l->y, &l->y));
    QN_TRY(qn_allocate(a, TEST_BATCH, sizeof *l->taken, &l->taken));
    for (int i = 0; i < 3; i++)
        QN_TRY(qn_allocate(a, (size_t)l->o.n_held_out, sizeof *l->right[i], &l->right[i]));
    return qn_allocate(a, (size_t)l->o.n_held_out, sizeof *l->is_new, &l->is_new);
}

static qn_status check(const qn_learner_options *o) {
    if (!o->model->build)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s is no classifier, and only those learn by day",
                       o->model->name);
    if (o->n_classes < 2 || o->n_kept < LEAST_TO_TRAIN || o->n_held_out < LEAST_TO_TEST ||
        o->batch < 1 || o->epochs < 1)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "learning needs at least 2 classes, %d samples kept and %d held out",
                       LEAST_TO_TRAIN, LEAST_TO_TEST);
    return QN_OK;
}

qn_status qn_learner_create(const qn_learner_options *options, qn_learner **learner) {
    qn_learner *l;
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    QN_TRY(check(options));
    QN_TRY(qn_allocate(allocator, 1, sizeof *l, &l));
    l->o = *options;
    l->o.allocator = allocator;
    l->o.rate = l->o.rate > 0 ? l->o.rate : 0.2 * l->o.model->recipe.rate;
    l->o.most_chance = l->o.most_chance > 0 ? l->o.most_chance : 0.05;
    l->o.most_forgotten = l->o.most_forgotten > 0 ? l->o.most_forgotten : 0.005;
    l->n_values = qn_shape_count(l->o.input);
    const qn_status status = set_up(l);
    if (status != QN_OK) {
        qn_learner_destroy(l);
        return status;
    }
    *learner = l;
    return QN_OK;
}

void qn_learner_destroy(qn_learner *l) {
    if (!l)
        return;
    const qn_allocator *a = l->o.allocator;
    const size_t room = batch_room(l);
    for (int i = 0; i < 2; i++) {
        qn_sample_memory_deinit(&l->pools[i].train);
        qn_sample_memory_deinit(&l->pools[i].test);
    }
    for (int i = 0; i < 3; i++)
        qn_release(a, l->right[i], (size_t)l->o.n_held_out, sizeof *l->right[i]);
    qn_release(a, l->is_new, (size_t)l->o.n_held_out, sizeof *l->is_new);
    qn_release(a, l->model, (size_t)l->n, sizeof *l->model);
    qn_release(a, l->taken, TEST_BATCH, sizeof *l->taken);
    qn_release(a, l->y, room, sizeof *l->y);
    qn_release(a, l->x, room * (size_t)l->n_values, sizeof *l->x);
    qn_release(a, l->sum, (size_t)l->n, sizeof *l->sum);
    qn_trainer_destroy(l->head);
    qn_trainer_destroy(l->whole);
    qn_release(a, l, 1, sizeof *l);
}

qn_engine *qn_learner_engine(qn_learner *l) {
    return qn_trainer_engine(l->whole);
}

int64_t qn_learner_version(const qn_learner *l) {
    return l->version;
}

qn_status qn_learner_begin(qn_learner *l, const qn_engine *engine) {
    const qn_engine *own = qn_trainer_engine(l->whole);
    for (int i = 0; i < qn_engine_tensor_count(own); i++) {
        const qn_stored_tensor to = qn_engine_tensor_at(own, i);
        const qn_stored_tensor from = qn_engine_find(engine, to.name);
        if (!is_weight(&to))
            continue;
        if (!from.data || from.bytes != to.bytes)
            return qn_fail(QN_ERROR_ARGUMENT, "the network to begin with has no such tensor %s",
                           to.name);
        if (from.data != to.data)
            memcpy(to.data, from.data, to.bytes);
    }
    copy_weights(l->whole, l->model, TO_FLAT);
    l->has_begun = true;
    return QN_OK;
}

qn_sample_memory *qn_learner_memory(qn_learner *l, qn_origin origin, bool is_held_out) {
    pool *p = &l->pools[origin];
    return is_held_out ? &p->test : &p->train;
}

qn_status qn_learner_offer(qn_learner *l, qn_origin origin, qn_sample_use use, const float *x,
                           int32_t label, qn_placing *placing) {
    pool *p = &l->pools[origin];
    const qn_rng rng = qn_rng_make(l->o.seed, qn_hash_text("learn.held_out"), (uint64_t)origin);
    if (label < 0 || label >= l->o.n_classes)
        return qn_fail(QN_ERROR_ARGUMENT, "class %d of a sample; there are %d", label,
                       l->o.n_classes);
    const bool is_drawn = qn_rng_below(rng, (uint64_t)p->n_offered, HELD_OUT_OF) == 0;
    const bool is_test = use == QN_USE_TEST || (use == QN_USE_DRAWN && is_drawn);
    p->n_offered++;
    const int64_t place = qn_sample_memory_offer(qn_learner_memory(l, origin, is_test), x, label);
    if (placing)
        *placing = (qn_placing){is_test, place};
    if (is_test && origin == QN_ORIGIN_USER && place >= 0)
        qn_learner_note_new(l, place, true);
    return QN_OK;
}

void qn_learner_note_new(qn_learner *l, int64_t place, bool is_new) {
    l->is_new[place] = is_new;
}

/* ---- testing ---- */

static qn_status test_batch(qn_learner *l, const float *x, const int32_t *labels, int64_t n,
                            bool *right) {
    qn_evaluation e = {.taken = l->taken};
    memset(l->x, 0, (size_t)TEST_BATCH * (size_t)l->n_values * sizeof *x);
    memcpy(l->x, x, (size_t)n * (size_t)l->n_values * sizeof *x);
    for (int64_t i = 0; i < TEST_BATCH; i++)
        l->y[i] = i < n ? labels[i] : 0;
    QN_TRY(qn_trainer_evaluate(l->whole, l->x, l->y, n, &e));
    for (int64_t i = 0; i < n; i++)
        right[i] = l->taken[i] == labels[i];
    return QN_OK;
}

static qn_status test_all(qn_learner *l, const qn_sample_memory *m, bool *right) {
    for (int64_t i = 0; i < m->n; i += TEST_BATCH) {
        const int64_t n = m->n - i < TEST_BATCH ? m->n - i : TEST_BATCH;
        if (l->o.should_stop && l->o.should_stop(l->o.user))
            return qn_fail(QN_ERROR_INTERRUPTED, "the judgement was stopped");
        QN_TRY(test_batch(l, m->x + i * l->n_values, m->labels + i, n, right + i));
    }
    return QN_OK;
}

qn_status qn_learner_test(qn_learner *l, const float *x, const int32_t *labels, int64_t n,
                          int64_t *n_right) {
    *n_right = 0;
    for (int64_t i = 0; i < n; i += TEST_BATCH) {
        const int64_t count = n - i < TEST_BATCH ? n - i : TEST_BATCH;
        bool right[TEST_BATCH];
        QN_TRY(test_batch(l, x + i * l->n_values, labels + i, count, right));
        for (int64_t j = 0; j < count; j++)
            *n_right += right[j];
    }
    return QN_OK;
}

/* What the model is right on. */
static qn_status test_model(qn_learner *l) {
    copy_weights(l->whole, l->model, FROM_FLAT);
    for (int i = 0; i < 2; i++)
        QN_TRY(test_all(l, &l->pools[i].test, l->right[i]));
    return QN_OK;
}

/* Compares the candidate with what the model is right on. */
static qn_status compare(qn_learner *l, float *candidate, qn_origin origin, qn_comparison *c) {
    const qn_sample_memory *m = &l->pools[origin].test;
    copy_weights(l->whole, candidate, FROM_FLAT);
    QN_TRY(test_all(l, m, l->right[2]));
    *c = qn_comparison_make(l->right[origin], l->right[2], m->n);
    return QN_OK;
}

/* ---- training ---- */

static double step_flops(const qn_learner *l, bool is_head) {
    return (double)(l->forward_flops * l->o.batch) * (is_head ? 1 : QN_TRAIN_COST);
}

static int64_t wanted_steps(const qn_learner *l) {
    const int64_t n = l->pools[0].train.n + l->pools[1].train.n;
    return (n * l->o.epochs + l->o.batch - 1) / l->o.batch;
}

double qn_learner_wanted_flops(const qn_learner *l) {
    return (double)wanted_steps(l) * step_flops(l, false);
}

/* A quarter of a batch is the user's, the rest old, where there is both. */
static void make_batch(qn_learner *l, int64_t step) {
    const qn_rng rng = qn_rng_make(l->o.seed, qn_hash_text("learn.batch"),
                                   (uint64_t)(l->n_tried * MOST_STEPS + step));
    for (int64_t i = 0; i < l->o.batch; i++) {
        const bool is_old = l->pools[QN_ORIGIN_OLD].train.n > 0 && i % 4 != 0;
        const qn_sample_memory *m = &l->pools[is_old ? QN_ORIGIN_OLD : QN_ORIGIN_USER].train;
        const int64_t k = (int64_t)qn_rng_below(rng, (uint64_t)i, (uint64_t)m->n);
        memcpy(l->x + i * l->n_values, m->x + k * l->n_values, (size_t)l->n_values * sizeof *l->x);
        l->y[i] = m->labels[k];
    }
}

static void begin_round(qn_learner *l, qn_trainer *trainer, int64_t n_steps) {
    l->n_tried++;
    l->step = 0;
    l->n_steps = n_steps;
    copy_weights(trainer, l->model, FROM_FLAT);
    clear_state(trainer);
    qn_engine_set_steps(qn_trainer_engine(trainer), l->n_tried * MOST_STEPS);
    memset(l->sum, 0, (size_t)l->n * sizeof *l->sum);
}

static qn_status step_round(qn_learner *l, qn_trainer *trainer) {
    qn_step_result result;
    make_batch(l, l->step);
    QN_TRY(qn_trainer_step(trainer, l->x, l->y, &result));
    if (l->step >= l->n_steps / 2)
        add_to_mean(l, trainer);
    l->step++;
    return QN_OK;
}

static void take_mean(const qn_learner *l, float *candidate) {
    for (int64_t i = 0; i < l->n; i++)
        candidate[i] = (float)(l->sum[i] / (double)(l->n_steps - l->n_steps / 2));
}

/* The model moved by a part of the way to what was trained (Wortsman et al., "Robust fine-tuning of
 * zero-shot models", CVPR 2022): a smaller part learns less and forgets less. */
static void move_towards(const qn_learner *l, const float *trained, double part, float *to) {
    const float *from = l->model;
    for (int64_t i = 0; i < l->n; i++)
        to[i] = (float)((1 - part) * (double)from[i] + part * (double)trained[i]);
}

static qn_status judge(qn_learner *l, float *candidate, qn_learned *d) {
    const int64_t n_old = l->pools[QN_ORIGIN_OLD].test.n;
    const int64_t n_forgotten = (int64_t)(l->o.most_forgotten * (double)n_old);
    QN_TRY(compare(l, candidate, QN_ORIGIN_USER, &d->recent));
    QN_TRY(compare(l, candidate, QN_ORIGIN_OLD, &d->old));
    const int64_t model_old = d->old.n_right - d->old.n_better + d->old.n_worse;
    l->best_old = model_old > l->best_old ? model_old : l->best_old;
    d->chance = qn_comparison_chance(&d->recent);
    d->has_replaced = qn_judge(&d->recent, &d->old, l->o.most_chance, l->best_old, n_forgotten);
    return QN_OK;
}

static void count_new(const qn_learner *l, qn_learned *d) {
    d->n_new = d->n_new_wrong = 0;
    for (int64_t i = 0; i < l->pools[QN_ORIGIN_USER].test.n; i++) {
        d->n_new += l->is_new[i];
        d->n_new_wrong += l->is_new[i] && !l->right[QN_ORIGIN_USER][i];
    }
}

/* The first of some candidates that is better. */
static qn_status choose(qn_learner *l, const float *trained, float *candidate, qn_learned *d) {
    QN_TRY(test_model(l));
    count_new(l, d);
    for (d->part = 1; d->part > 0.1; d->part -= 0.2) {
        move_towards(l, trained, d->part, candidate);
        QN_TRY(judge(l, candidate, d));
        if (d->has_replaced)
            break;
    }
    if (!d->has_replaced)
        return QN_OK;
    memcpy(l->model, candidate, (size_t)l->n * sizeof *candidate);
    l->version++;
    return QN_OK;
}

/* Judging needs the trainer's weights; the candidate's are then its mean's alone. */
static qn_status end_round(qn_learner *l, qn_learned *d) {
    const size_t n = (size_t)l->n;
    float *trained;
    QN_TRY(qn_allocate(l->o.allocator, 2 * n, sizeof *trained, &trained));
    take_mean(l, trained);
    const qn_status status = choose(l, trained, trained + n, d);
    qn_release(l->o.allocator, trained, 2 * n, sizeof *trained);
    if (status != QN_OK)
        return status;
    memset(l->is_new, 0, (size_t)l->o.n_held_out * sizeof *l->is_new);
    qn_learner_drop_round(l);
    return QN_OK;
}

void qn_learner_drop_round(qn_learner *l) {
    l->step = l->n_steps = 0;
    copy_weights(l->whole, l->model, FROM_FLAT);
    clear_state(l->whole); /* a checkpoint says nothing of what was tried */
}

static qn_status try_candidate(qn_learner *l, qn_trainer *trainer, qn_learned *d) {
    qn_status status = QN_OK;
    begin_round(l, trainer, d->n_steps);
    while (l->step < l->n_steps && status == QN_OK)
        status = step_round(l, trainer);
    if (status == QN_OK)
        status = end_round(l, d);
    if (status != QN_OK)
        qn_learner_drop_round(l);
    return status == QN_ERROR_NUMERIC ? QN_OK : status; /* it diverged: the model stays */
}

bool qn_learner_can_begin(const qn_learner *l) {
    return l->has_begun && l->pools[QN_ORIGIN_USER].train.n >= LEAST_TO_TRAIN &&
           l->pools[QN_ORIGIN_USER].test.n >= LEAST_TO_TEST;
}

qn_status qn_learner_learn(qn_learner *l, double flops, qn_learned *d) {
    const int64_t wanted = wanted_steps(l), a_pass = wanted / l->o.epochs;
    const int64_t n_whole = (int64_t)fmin(flops / step_flops(l, false), (double)wanted);
    *d = (qn_learned){.version = l->version, .chance = 1};
    d->is_head = n_whole < a_pass;
    d->n_steps = d->is_head ? (int64_t)fmin(flops / step_flops(l, true), (double)wanted) : n_whole;
    if (d->n_steps < 2 || !qn_learner_can_begin(l)) {
        d->n_steps = 0;
        return QN_OK;
    }
    if (d->is_head && !l->head)
        QN_TRY(make_trainer(l, true, &l->head));
    d->has_tried = true;
    d->flops = (double)d->n_steps * step_flops(l, d->is_head);
    QN_TRY(try_candidate(l, d->is_head ? l->head : l->whole, d));
    d->version = l->version;
    return QN_OK;
}

/* ---- rounds ---- */

void qn_learner_begin_round(qn_learner *l) {
    begin_round(l, l->whole, wanted_steps(l));
}

int64_t qn_learner_steps_left(const qn_learner *l) {
    return l->n_steps - l->step;
}

qn_status qn_learner_step(qn_learner *l) {
    return step_round(l, l->whole);
}

qn_status qn_learner_end_round(qn_learner *l, qn_learned *d) {
    *d = (qn_learned){.has_tried = true, .n_steps = l->n_steps, .chance = 1};
    d->flops = (double)l->n_steps * step_flops(l, false);
    QN_TRY(end_round(l, d));
    d->version = l->version;
    return QN_OK;
}

qn_learner_state qn_learner_get_state(const qn_learner *l) {
    return (qn_learner_state){{l->pools[0].n_offered, l->pools[1].n_offered},
                              l->n_tried,
                              l->best_old,
                              l->version,
                              l->step,
                              l->n_steps};
}

const float *qn_learner_weights(const qn_learner *l, int64_t *n) {
    *n = l->n;
    return l->model;
}

/* All tensors of the engine, then the sum. */
static size_t copy_round(const qn_learner *l, char *bytes, direction way) {
    const qn_engine *engine = qn_trainer_engine(l->whole);
    const size_t sum_bytes = (size_t)l->n * sizeof *l->sum;
    size_t at = 0;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(engine, i);
        if (bytes)
            memcpy(way == TO_FLAT ? bytes + at : t.data, way == TO_FLAT ? t.data : bytes + at,
                   t.bytes);
        at += t.bytes;
    }
    if (bytes)
        memcpy(way == TO_FLAT ? (void *)(bytes + at) : l->sum,
               way == TO_FLAT ? (void *)l->sum : bytes + at, sum_bytes);
    return at + sum_bytes;
}

size_t qn_learner_round_bytes(const qn_learner *l) {
    return copy_round(l, NULL, TO_FLAT);
}

void qn_learner_save_round(const qn_learner *l, void *to) {
    copy_round(l, to, TO_FLAT);
}

void qn_learner_resume(qn_learner *l, const qn_learner_state *state, const float *weights,
                       const void *round) {
    for (int i = 0; i < 2; i++)
        l->pools[i].n_offered = state->n_offered[i];
    l->n_tried = state->n_tried;
    l->best_old = state->best_old;
    l->version = state->version;
    memmove(l->model, weights, (size_t)l->n * sizeof *weights);
    l->has_begun = true;
    qn_learner_drop_round(l);
    if (state->n_steps == 0)
        return;
    l->step = state->step;
    l->n_steps = state->n_steps;
    copy_round(l, (char *)(uintptr_t)round, FROM_FLAT);
    qn_engine_set_steps(qn_trainer_engine(l->whole), l->n_tried * MOST_STEPS + l->step);
}
