/* See simulate.h. The trainer's own tensors hold the network of the client that is trained; the
 * server's is a flat copy, changed once a round by the sum of what came back:
 *     sum = sum over answering clients of weight * decoded change, in double, in their order
 * Flat arrays begin with the n numbers that are shared, then come those of personal tensors, which
 * stay with the server as they were at first. A client's record, where it has one:
 *     (n_all - n) of its personal tensors, then with top n that its messages have left out
 */
#include "federate/simulate.h"

#include "base/decimal.h"
#include "base/memory.h"
#include "base/patterns.h"
#include "base/print.h"
#include "base/rng.h"
#include "base/status.h"
#include "federate/client_store.h"
#include "federate/partition/partition.h"
#include "federate/privacy/accountant.h"
#include "format/checkpoint.h"
#include "os/heap.h"
#include "os/os.h"
#include "quern/numerics.h"
#include "run/watch.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    OPTIONS_TEXT = 2048,
    STEPS_OF_A_CLIENT = 1 << 20,
    TESTS_OF_A_CLIENT = 100,
    EVALUATION_BATCH = 100,
};

static const double beta2 = 0.99, tau = 1e-3; /* of FedAdam and FedYogi, as their authors' */

typedef struct part {
    float *data;
    int64_t n;
} part;

struct qn_federation {
    qn_federation_options o;
    qn_partition partition;
    qn_numerics *numerics; /* or null */
    qn_trainer *trainer;
    qn_engine *engine;
    qn_loader *test;
    int64_t round, bytes_down, bytes_up;
    /* parameters, running statistics included */
    int n_tensors, n_parts, n_shared; /* parts: shared ones first */
    part *parts;                      /* (n_parts), room for n_tensors: the engine's */
    int64_t n, n_all;                 /* numbers of shared tensors, of all */
    float *server;                    /* (n_all) */
    float *before;                    /* (n): a client's before its step; with proximal alone */
    float *change;                    /* (n): a client's */
    float *room;                      /* (n): with top alone */
    double *sum;                      /* (n) */
    float *state[2];                  /* (n): the rule's, or null; the engine's */
    qn_client_store *store;           /* or null: clients keep nothing */
    qn_room *disk;                    /* for the next checkpoint; null: none is kept */
    qn_partition tests;               /* clients' own, with personal tensors alone */
    int64_t *answered;                /* (n_answered), room for all that may be asked */
    int64_t n_answered;               /* in this round */
    qn_accountant *accountant;        /* or null */
    qn_fleet *fleet;                  /* or null */
    qn_fleet_options fleet_options;
    int64_t forward_flops, message_bytes, memory_bytes; /* what a client's work is made of */
    double seconds, joules;                             /* simulated so far */
    double begin_seconds, round_seconds; /* of this round: when it began, its last answer's */
};

/* ---- a client ---- */

/* The samples of one client, as a data set. */
typedef struct view {
    const qn_data_source *data;
    const int64_t *samples;
} view;

static qn_status read_view(void *self, qn_split split, int64_t index, void *x, void *y) {
    const view *v = self;
    return v->data->read(v->data->self, split, v->samples[index], x, y);
}

static bool is_private(const qn_federation *f) {
    return f->o.clip > 0;
}

static int64_t most_answers(const qn_federation *f) {
    return is_private(f) ? f->o.n_clients : f->o.per_round;
}

static bool keeps_rest(const qn_federation *f) {
    return f->o.code == QN_UPDATE_TOP;
}

static void put_server(const qn_federation *f) {
    const float *from = f->server;
    for (int i = 0; i < f->n_parts; from += f->parts[i++].n)
        memcpy(f->parts[i].data, from, (size_t)f->parts[i].n * sizeof *from);
}

/* The client's own tensors, where it has trained before. */
static qn_status put_personal(const qn_federation *f, int64_t client, int64_t round) {
    const float *from = NULL;
    if (f->n_all > f->n)
        QN_TRY(qn_client_store_read(f->store, client, round, &from));
    for (int i = f->n_shared; from && i < f->n_parts; from += f->parts[i++].n)
        memcpy(f->parts[i].data, from, (size_t)f->parts[i].n * sizeof *from);
    return QN_OK;
}

/* A client begins without momentum. */
static void clear_state(const qn_federation *f) {
    for (int i = 0; i < qn_engine_tensor_count(f->engine); i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(f->engine, i);
        if (t.is_state && strncmp(t.name, "task.", 5) != 0)
            memset(t.data, 0, t.bytes);
    }
}

static void copy_parts(const qn_federation *f, int first, int end, float *to) {
    for (int i = first; i < end; to += f->parts[i++].n)
        memcpy(to, f->parts[i].data, (size_t)f->parts[i].n * sizeof *to);
}

/* What mu / 2 |w - server|^2 adds to the gradient of a step, which began at f->before. */
static void pull_back(const qn_federation *f) {
    const float *was = f->before, *server = f->server;
    const float factor = (float)(f->o.rate * f->o.proximal);
    for (int i = 0; i < f->n_shared; i++) {
        for (int64_t j = 0; j < f->parts[i].n; j++)
            f->parts[i].data[j] -= factor * (*was++ - *server++);
    }
}

/* The samples of one client, of one split. */
static qn_data_source view_of(const qn_federation *f, const qn_partition *p, qn_split split,
                              int64_t client, view *v) {
    qn_data_source own = *f->o.data;
    *v = (view){f->o.data, p->samples + p->first[client]};
    own.self = v;
    own.read = read_view;
    own.read_class = NULL;
    own.close = NULL;
    own.n_samples[split] = p->first[client + 1] - p->first[client];
    return own;
}

static int64_t steps_of(const qn_federation *f, int64_t n_samples) {
    return (n_samples * f->o.local_epochs + f->o.batch - 1) / f->o.batch;
}

static qn_status open_loader(const qn_federation *f, int64_t client, view *v, int64_t *n_steps,
                             qn_loader **loader) {
    const qn_data_source own = view_of(f, &f->partition, QN_TRAIN, client, v);
    const int64_t n = own.n_samples[QN_TRAIN];
    *n_steps = steps_of(f, n);
    const qn_rng rng = qn_rng_make(f->o.seed, qn_hash_text("federate.order"),
                                   (uint64_t)f->round << 32 ^ (uint64_t)client);
    const qn_loader_options options = {
        QN_OPTIONS_INIT(qn_loader_options),
        .allocator = f->o.allocator,
        .split = QN_TRAIN,
        .batch = f->o.batch,
        .seed = rng.key ^ rng.step,
        .shuffle = true,
        .wrap = true,
        .n_batches = *n_steps,
    };
    return qn_loader_create(&own, &f->o.data->preparation, &options, loader);
}

static qn_status check_stop(const qn_federation *f) {
    const bool is_stopped = f->o.stop && __atomic_load_n(f->o.stop, __ATOMIC_ACQUIRE) != 0;
    return is_stopped ? qn_fail(QN_ERROR_INTERRUPTED, "stopped within a round") : QN_OK;
}

static qn_status train_steps(const qn_federation *f, qn_loader *loader, double *first_loss) {
    for (int64_t i = 0;; i++) {
        qn_batch batch;
        qn_step_result result;
        QN_TRY(check_stop(f));
        QN_TRY(qn_loader_next(loader, &batch));
        if (!batch.x)
            return QN_OK;
        if (f->before)
            copy_parts(f, 0, f->n_shared, f->before);
        QN_TRY(qn_trainer_step(f->trainer, batch.x, batch.y, &result));
        if (f->before)
            pull_back(f);
        if (i == 0)
            *first_loss = result.loss;
    }
}

/* Trains the server's network on the client's samples; place: the client's in the round. */
static qn_status train_client(const qn_federation *f, int64_t client, int64_t place,
                              double *first_loss) {
    view v;
    int64_t n_steps;
    qn_loader *loader = NULL;
    put_server(f);
    QN_TRY(put_personal(f, client, f->round));
    clear_state(f);
    /* dropout's random numbers are those of the step */
    qn_engine_set_steps(f->engine, (f->round * most_answers(f) + place) * STEPS_OF_A_CLIENT);
    QN_TRY(open_loader(f, client, &v, &n_steps, &loader));
    const qn_status status = train_steps(f, loader, first_loss);
    qn_loader_destroy(loader);
    return status;
}

/* f->change of what was trained; false: it is not finite. */
static bool find_change(const qn_federation *f) {
    const float *server = f->server;
    float *change = f->change;
    double norm = 0;
    copy_parts(f, 0, f->n_shared, change);
    for (int64_t i = 0; i < f->n; i++) {
        change[i] -= server[i];
        norm += (double)change[i] * (double)change[i];
    }
    return isfinite(norm);
}

/* The largest of the change and of what earlier messages left out; the rest goes to the record. */
static qn_status send_top(const qn_federation *f, int64_t client, float *rest, int64_t *bytes) {
    const float *record;
    const int64_t n_kept = (int64_t)ceil(f->o.share * (double)f->n);
    QN_TRY(qn_client_store_read(f->store, client, f->round, &record));
    for (int64_t i = 0; record && i < f->n; i++)
        f->change[i] += rest[i];
    memcpy(rest, f->change, (size_t)f->n * sizeof *rest);
    *bytes = qn_update_send_top(f->change, f->n, n_kept, f->room);
    for (int64_t i = 0; i < f->n; i++)
        rest[i] -= f->change[i];
    return QN_OK;
}

/* Replaces f->change by what the server decodes, and writes what the client keeps. */
static qn_status send(qn_federation *f, int64_t client) {
    const int64_t n_personal = f->n_all - f->n;
    float *change = f->change, *kept = f->store ? qn_client_store_room(f->store) : NULL;
    int64_t bytes = 0;
    if (keeps_rest(f)) {
        QN_TRY(send_top(f, client, kept + n_personal, &bytes));
    } else {
        for (int i = 0; i < f->n_shared; change += f->parts[i++].n)
            bytes += qn_update_send(f->o.code, change, f->parts[i].n);
    }
    f->bytes_up += bytes;
    if (!kept)
        return QN_OK;
    copy_parts(f, f->n_shared, f->n_parts, kept);
    return qn_client_store_write(f->store, client, f->round);
}

/* What the server makes of a client that may have changed as it likes: at most the clip. */
static double clip_weight(const qn_federation *f) {
    double norm = 0;
    for (int64_t i = 0; i < f->n; i++)
        norm += (double)f->change[i] * (double)f->change[i];
    norm = sqrt(norm);
    return norm > f->o.clip ? f->o.clip / norm : 1;
}

/* Sends the change to the server, which adds it to the sum. */
static qn_status answer(qn_federation *f, int64_t client, int64_t n_samples) {
    QN_TRY(send(f, client));
    const double weight = is_private(f) ? clip_weight(f) : (double)n_samples;
    for (int64_t i = 0; i < f->n; i++)
        f->sum[i] += weight * (double)f->change[i];
    f->answered[f->n_answered++] = client;
    return QN_OK;
}

static bool is_dropped(const qn_federation *f, qn_rng rng, int64_t place) {
    return f->o.drop > 0 && (double)qn_rng_uniform(qn_rng_word(rng, (uint64_t)place)) < f->o.drop;
}

/* ---- the clients' devices ---- */

static bool has_rules(const qn_federation *f) {
    return f->fleet && f->fleet_options.when && f->fleet_options.when[0];
}

/* The device's time and energy for its turn in the round. */
static qn_status spend(qn_federation *f, int64_t client, int64_t n_samples, bool *is_done) {
    qn_fleet_turn turn;
    const double flops =
        (double)(QN_TRAIN_COST * f->forward_flops) * (double)(steps_of(f, n_samples) * f->o.batch);
    const qn_fleet_work work = {flops, f->n * (int64_t)sizeof(float), f->message_bytes,
                                f->memory_bytes};
    *is_done = true;
    if (!f->fleet)
        return QN_OK;
    const double deadline = f->o.deadline > 0 ? f->o.deadline : (double)INFINITY;
    QN_TRY(qn_fleet_take_part(f->fleet, client, f->begin_seconds, &work, deadline, &turn));
    f->joules += turn.joules;
    f->round_seconds = fmax(f->round_seconds, turn.seconds);
    *is_done = turn.is_done;
    return QN_OK;
}

/* Asks one client, the place-th of the round. */
static qn_status ask_client(qn_federation *f, int64_t client, int64_t place, double *losses,
                            qn_federation_round *r) {
    const qn_rng dropped =
        qn_rng_make(f->o.seed, qn_hash_text("federate.drop"), (uint64_t)f->round);
    const int64_t n_samples = f->partition.first[client + 1] - f->partition.first[client];
    double loss = 0;
    bool is_done;
    f->bytes_down += f->n * (int64_t)sizeof(float);
    r->n_asked++;
    if (is_dropped(f, dropped, place))
        return QN_OK;
    QN_TRY(spend(f, client, n_samples, &is_done));
    r->n_late += !is_done;
    if (!is_done)
        return QN_OK;
    const qn_status status = train_client(f, client, place, &loss);
    if (status == QN_ERROR_NUMERIC || (status == QN_OK && !find_change(f))) {
        r->n_failed++;
        return QN_OK;
    }
    QN_TRY(status);
    QN_TRY(answer(f, client, n_samples));
    r->n_samples += n_samples;
    *losses += loss;
    return QN_OK;
}

/* Each client takes part or not, independently of the others: what privacy is counted for. */
static qn_status ask_by_chance(qn_federation *f, double *losses, qn_federation_round *r) {
    const double share = (double)f->o.per_round / (double)f->o.n_clients;
    const qn_rng rng = qn_rng_make(f->o.seed, qn_hash_text("federate.chance"), (uint64_t)f->round);
    for (int64_t i = 0; i < f->o.n_clients; i++) {
        if ((double)qn_rng_word(rng, (uint64_t)i) < share * 0x1p32)
            QN_TRY(ask_client(f, i, r->n_asked, losses, r));
    }
    return QN_OK;
}

/* Clients at random; with rules those that may train, which the server waits for. */
static qn_status ask_chosen(qn_federation *f, double *losses, qn_federation_round *r) {
    const uint64_t n = (uint64_t)f->o.n_clients;
    const qn_rng rng = qn_rng_make(f->o.seed, qn_hash_text("federate.clients"), (uint64_t)f->round);
    if (has_rules(f))
        QN_TRY(qn_fleet_wait(f->fleet, f->o.per_round, f->begin_seconds, &f->begin_seconds));
    for (uint64_t i = 0; r->n_asked < f->o.per_round; i++) {
        const int64_t client = (int64_t)qn_rng_permute(rng, i, n);
        bool is_free = true;
        if (has_rules(f))
            QN_TRY(qn_fleet_is_free(f->fleet, client, f->begin_seconds, &is_free));
        if (is_free)
            QN_TRY(ask_client(f, client, r->n_asked, losses, r));
    }
    return QN_OK;
}

/* Asks the clients of the round, in their order. */
static qn_status ask(qn_federation *f, qn_federation_round *r) {
    double losses = 0;
    f->n_answered = 0;
    f->begin_seconds = f->round == 0 ? 0 : fmax(f->begin_seconds + f->o.pace, f->seconds);
    f->round_seconds = 0;
    QN_TRY(is_private(f) ? ask_by_chance(f, &losses, r) : ask_chosen(f, &losses, r));
    f->seconds = f->begin_seconds + f->round_seconds;
    r->n_answered = f->n_answered;
    r->train_loss = f->n_answered ? losses / (double)f->n_answered : (double)NAN;
    return QN_OK;
}

/* ---- the server ---- */

static double follow_rule(const qn_federation *f, int64_t i, double change) {
    float *m = f->state[0], *v = f->state[1];
    if (!m)
        return change;
    const double beta = f->o.server_momentum, share = v ? 1 - beta : 1;
    m[i] = (float)(beta * (double)m[i] + share * change);
    if (!v)
        return (double)m[i];
    const double square = change * change, variance = (double)v[i];
    if (f->o.rule == QN_SERVER_ADAM)
        v[i] = (float)(beta2 * variance + (1 - beta2) * square);
    else /* Yogi goes towards the square by a part of the square, not of the difference */
        v[i] =
            (float)(variance + (1 - beta2) * square * ((square > variance) - (square < variance)));
    return (double)m[i] / (sqrt((double)v[i]) + tau);
}

/* Of the sum of changes that were clipped. */
static void add_noise(const qn_federation *f) {
    const qn_rng rng = qn_rng_make(f->o.seed, qn_hash_text("federate.noise"), (uint64_t)f->round);
    for (int64_t i = 0; i < f->n; i++)
        f->sum[i] += f->o.clip * f->o.noise * qn_rng_normal(rng, (uint64_t)i);
}

static void change_server(const qn_federation *f, double weights) {
    for (int64_t i = 0; i < f->n; i++) {
        const double change = follow_rule(f, i, f->sum[i] / weights);
        f->server[i] = (float)((double)f->server[i] + f->o.server_rate * change);
    }
}

static qn_status load_tests(const qn_federation *f, const qn_data_source *data, int n_prefetched,
                            qn_loader **loader) {
    const int64_t n = data->n_samples[QN_TEST];
    const qn_loader_options options = {
        QN_OPTIONS_INIT(qn_loader_options),
        .allocator = f->o.allocator,
        .split = QN_TEST,
        .batch = EVALUATION_BATCH,
        .pad_last = true,
        .n_batches = (n + EVALUATION_BATCH - 1) / EVALUATION_BATCH,
        .n_prefetched = n_prefetched,
    };
    return n == 0 ? QN_OK : qn_loader_create(data, &f->o.data->preparation, &options, loader);
}

/* The server's new network with the client's own tensors on the client's tests. */
static qn_status evaluate_client(const qn_federation *f, int64_t client, qn_evaluation *sum) {
    view v;
    qn_evaluation e;
    qn_loader *loader = NULL;
    const qn_data_source own = view_of(f, &f->tests, QN_TEST, client, &v);
    put_server(f);
    QN_TRY(put_personal(f, client, f->round));
    QN_TRY(load_tests(f, &own, 0, &loader));
    if (!loader)
        return QN_OK;
    const qn_status status = qn_trainer_evaluate_all(f->trainer, qn_loader_batches(loader), &e);
    qn_loader_destroy(loader);
    QN_TRY(status);
    sum->loss_sum += e.loss_sum;
    sum->n_correct += e.n_correct;
    sum->n_samples += e.n_samples;
    return QN_OK;
}

static qn_status evaluate(const qn_federation *f, qn_federation_round *r) {
    qn_evaluation e = {0};
    if (!f->test || (f->round % f->o.evaluate_every != 0 && f->round != f->o.n_rounds))
        return QN_OK;
    put_server(f);
    if (f->n_all == f->n)
        QN_TRY(qn_trainer_evaluate_all(f->trainer, qn_loader_batches(f->test), &e));
    for (int64_t i = 0; f->n_all > f->n && i < f->n_answered; i++)
        QN_TRY(evaluate_client(f, f->answered[i], &e));
    r->has_test = e.n_samples > 0;
    r->test_loss = e.loss_sum / (double)e.n_samples;
    r->test_accuracy = (double)e.n_correct / (double)e.n_samples;
    return QN_OK;
}

static qn_status count_privacy(const qn_federation *f, qn_federation_round *r) {
    return is_private(f) ? qn_accountant_count(f->accountant, f->round, &r->epsilon) : QN_OK;
}

static qn_status open_accountant(qn_federation *f) {
    const double share = (double)f->o.per_round / (double)f->o.n_clients;
    if (!is_private(f))
        return QN_OK;
    return qn_accountant_create(f->o.allocator, share, f->o.noise, f->o.n_rounds, f->o.delta,
                                &f->accountant);
}

qn_status qn_federation_step(qn_federation *f, qn_federation_round *r) {
    const int64_t begin_ns = qn_clock_ns();
    *r = (qn_federation_round){0};
    if (f->store && f->round == 0)
        QN_TRY(qn_client_store_begin(f->store));
    memset(f->sum, 0, (size_t)f->n * sizeof *f->sum);
    QN_TRY(ask(f, r));
    if (is_private(f)) {
        add_noise(f);
        change_server(f, (double)f->o.per_round);
    } else if (r->n_samples > 0) {
        change_server(f, (double)r->n_samples);
    }
    f->round++;
    QN_TRY(evaluate(f, r));
    r->round = f->round;
    r->bytes_down = f->bytes_down;
    r->bytes_up = f->bytes_up;
    QN_TRY(count_privacy(f, r));
    r->seconds = f->seconds;
    r->joules = f->joules;
    r->ns = qn_clock_ns() - begin_ns;
    return QN_OK;
}

int64_t qn_federation_rounds(const qn_federation *f) {
    return f->round;
}

qn_federation_division qn_federation_get_division(const qn_federation *f) {
    const int64_t *first = f->partition.first;
    qn_federation_division d = {first[1], first[1], f->partition.largest_share};
    for (int64_t i = 1; i < f->partition.n_clients; i++) {
        const int64_t n = first[i + 1] - first[i];
        d.least = n < d.least ? n : d.least;
        d.most = n > d.most ? n : d.most;
    }
    return d;
}

/* ---- creation ---- */

static qn_status check_number(const char *name, double value, double least, double most) {
    if (value >= least && value <= most)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s is %g; it must be from %g to %g", name, value, least,
                   most);
}

qn_status qn_federation_check(const qn_federation_options *o) {
    if (!o->model->build)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s is no classifier, and only those are federated",
                       o->model->name);
    if (o->data->preparation.n_classes == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s has no classes", o->data->name);
    if (o->data->sample.dims[0] == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "the images of %s differ in size; make them equal before", o->data->name);
    QN_TRY(check_number("clients in a round", (double)o->per_round, 1, (double)o->n_clients));
    QN_TRY(check_number("the learning rate", o->rate, 0, 1e6));
    QN_TRY(check_number("momentum", o->momentum, 0, 1));
    QN_TRY(check_number("mu", o->proximal, 0, 1e6));
    QN_TRY(check_number("the chance that a client drops out", o->drop, 0, 1));
    QN_TRY(check_number("the server's learning rate", o->server_rate, 0, 1e6));
    QN_TRY(check_number("the server's momentum", o->server_momentum, 0, 1));
    if (o->code == QN_UPDATE_TOP)
        QN_TRY(check_number("the share of numbers that is sent", o->share, 1e-9, 1));
    QN_TRY(check_number("the deadline", o->deadline, 0, 1e9));
    QN_TRY(check_number("the pace", o->pace, 0, 1e9));
    if (o->clip == 0)
        return QN_OK;
    if (o->fleet && o->fleet->when && o->fleet->when[0])
        return qn_fail(QN_ERROR_ARGUMENT,
                       "privacy is counted for clients that take part by chance, not by rules when "
                       "they may train");
    QN_TRY(check_number("the clip", o->clip, 1e-9, 1e9));
    QN_TRY(check_number("the noise", o->noise, 1e-3, 1e6));
    return check_number("delta", o->delta, 1e-200, 0.5);
}

static qn_status create_trainer(qn_federation *f) {
    if (f->o.numerics)
        QN_TRY(qn_numerics_create(f->o.allocator, f->o.numerics, &f->numerics));
    qn_trainer_options options = qn_trainer_options_for(f->o.model);
    options.engine.allocator = f->o.allocator;
    options.engine.n_threads = f->o.n_threads;
    options.engine.seed = f->o.seed;
    options.engine.memory_budget_bytes = f->o.memory_budget_bytes;
    options.engine.numerics = f->numerics;
    options.engine.update =
        (qn_update_options){.optimizer = QN_SGD, .rate = f->o.rate, .momentum = f->o.momentum};
    options.input = f->o.data->preparation.sample;
    options.n_outputs = f->o.data->preparation.n_classes;
    options.batch = f->o.batch;
    options.evaluation_batch = EVALUATION_BATCH;
    QN_TRY(qn_trainer_create(&options, &f->trainer));
    f->engine = qn_trainer_engine(f->trainer);
    qn_engine_stop_on(f->engine, f->o.stop, false);
    return QN_OK;
}

static bool is_personal(const qn_federation *f, const qn_stored_tensor *t) {
    return f->o.personal && qn_patterns_match(f->o.personal, t->name);
}

/* Noise would make variances negative. */
static bool takes_no_noise(const qn_federation *f, const char *name) {
    return is_private(f) && strstr(name, "running_");
}

/* Appends those tensors that are personal, or those that are not. */
static qn_status append_parts(qn_federation *f, bool personal) {
    for (int i = 0; i < f->n_tensors; i++) {
        const qn_stored_tensor t = qn_engine_tensor_at(f->engine, i);
        const int64_t n = (int64_t)(t.bytes / sizeof(float));
        if (t.is_state || strncmp(t.name, "task.", 5) == 0 || is_personal(f, &t) != personal)
            continue;
        if (t.dtype != QN_F32)
            return qn_fail(QN_ERROR_UNSUPPORTED,
                           "with these numerics %s is made of whole numbers, and a server takes "
                           "the mean of floats; bf16 and fp16 have float weights",
                           t.name);
        if (!personal && takes_no_noise(f, t.name))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "%s cannot take the noise of privacy; keep such tensors with the "
                           "clients: --personal '*.running_*'",
                           t.name);
        f->parts[f->n_parts++] = (part){t.data, n};
        f->n_shared += !personal;
        f->n += personal ? 0 : n;
        f->n_all += n;
    }
    return QN_OK;
}

static const char *name_of_part(const qn_federation *f, int i) {
    int j = 0;
    while (qn_engine_tensor_at(f->engine, j).data != f->parts[i].data)
        j++;
    return qn_engine_tensor_at(f->engine, j).name;
}

static qn_status find_parts(qn_federation *f) {
    f->n_tensors = qn_engine_tensor_count(f->engine);
    QN_TRY(qn_allocate(f->o.allocator, (size_t)f->n_tensors, sizeof *f->parts, &f->parts));
    QN_TRY(append_parts(f, false));
    QN_TRY(append_parts(f, true));
    const bool has_personal = f->n_parts > f->n_shared;
    if (f->n_shared == 0 || (f->o.personal && f->o.personal[0] && !has_personal))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--personal %s: %s of %s has such a name; its first is %s, its last %s",
                       f->o.personal, f->n_shared == 0 ? "every tensor" : "no tensor",
                       f->o.model->name, name_of_part(f, 0), name_of_part(f, f->n_parts - 1));
    return QN_OK;
}

static qn_status reserve_state(qn_federation *f) {
    static const char *const names[] = {"task.federate.m", "task.federate.v"};
    const int n_states = f->o.rule >= QN_SERVER_ADAM ? 2 : f->o.rule == QN_SERVER_MOMENTUM;
    for (int i = 0; i < n_states; i++) {
        void *state;
        QN_TRY(qn_engine_add_state(f->engine, names[i], QN_F32, qn_shape_make(1, &f->n), &state));
        f->state[i] = state;
    }
    return QN_OK;
}

static qn_status reserve(qn_federation *f) {
    const qn_allocator *a = f->o.allocator;
    const size_t n = (size_t)f->n;
    QN_TRY(qn_allocate(a, (size_t)f->n_all, sizeof *f->server, &f->server));
    QN_TRY(qn_allocate(a, n, sizeof *f->change, &f->change));
    QN_TRY(qn_allocate(a, n, sizeof *f->sum, &f->sum));
    QN_TRY(qn_allocate(a, (size_t)most_answers(f), sizeof *f->answered, &f->answered));
    if (f->o.proximal > 0)
        QN_TRY(qn_allocate(a, n, sizeof *f->before, &f->before));
    if (keeps_rest(f))
        QN_TRY(qn_allocate(a, n, sizeof *f->room, &f->room));
    QN_TRY(reserve_state(f));
    copy_parts(f, 0, f->n_parts, f->server);
    return QN_OK;
}

static void print_fleet(const qn_federation_options *o, char text[OPTIONS_TEXT]) {
    const size_t n = strlen(text);
    const qn_fleet_options *f = o->fleet;
    if (f)
        qn_print(text + n, OPTIONS_TEXT - n,
                 ", devices %s, when %s, network %.9g %.9g %.9g, deadline %.9g, pace %.9g",
                 f->kinds, f->when ? f->when : "", f->down_mbit, f->up_mbit, f->radio_watts,
                 o->deadline, o->pace);
}

/* What decides the bits of a run. */
static void print_options(const qn_federation_options *o, char text[OPTIONS_TEXT]) {
    qn_print(text, OPTIONS_TEXT,
             "%s, %s, partition %s, %" PRId64 " clients, %" PRId64 " a round, %" PRId64
             " local epochs, batch %" PRId64
             ", rate %.9g, momentum %.9g, mu %.9g, drop %.9g, rule %d, server rate %.9g, server "
             "momentum %.9g, updates %d, seed %" PRIu64,
             o->model->name, o->data->name, o->partition, o->n_clients, o->per_round,
             o->local_epochs, o->batch, o->rate, o->momentum, o->proximal, o->drop, (int)o->rule,
             o->server_rate, o->server_momentum, (int)o->code, o->seed);
    const size_t n = strlen(text);
    if (o->code == QN_UPDATE_TOP || (o->personal && o->personal[0]) || o->clip > 0)
        qn_print(text + n, OPTIONS_TEXT - n,
                 ", share %.9g, personal %s, clip %.9g, noise %.9g, delta %.9g", o->share,
                 o->personal ? o->personal : "", o->clip, o->noise, o->delta);
    print_fleet(o, text);
    if (o->numerics)
        snprintf(text + strlen(text), OPTIONS_TEXT - strlen(text), ", numerics %" PRIx64,
                 qn_hash_text(o->numerics));
}

/* Whether the disk has room for what clients keep, two records of each that may take part; what is
 * there already counts. */
static qn_status try_disk(const qn_federation *f, int64_t n) {
    const double asked = (double)f->o.n_rounds * (double)most_answers(f);
    const double clients = fmin((double)f->o.n_clients, asked);
    const double bytes = 2 * clients * ((double)n * sizeof(float) + 64);
    const int64_t there = qn_path_bytes(f->o.client_path);
    return bytes > (double)there && bytes < 9e18
               ? qn_room_try(f->o.allocator, f->o.client_path,
                             (int64_t)bytes - (there > 0 ? there : 0))
               : QN_OK;
}

/* The clients' file, where they keep something. */
static qn_status open_store(qn_federation *f) {
    char text[OPTIONS_TEXT];
    const int64_t n = f->n_all - f->n + (keeps_rest(f) ? f->n : 0);
    if (n == 0)
        return QN_OK;
    print_options(&f->o, text);
    if (f->o.client_path)
        QN_TRY(try_disk(f, n));
    return qn_client_store_open(f->o.allocator, f->o.client_path, f->o.n_clients, n,
                                qn_hash_text(text), &f->store);
}

/* Bytes of a client's message; of top about, since they depend on its numbers: a byte and its gap
 * for each (Rice's code takes 2 bits more than the logarithm of the mean gap). */
static int64_t message_bytes(const qn_federation *f) {
    if (f->o.code == QN_UPDATE_FULL)
        return f->n * (int64_t)sizeof(float);
    if (f->o.code == QN_UPDATE_INT8)
        return f->n + f->n_shared;
    return (int64_t)(f->o.share * (double)f->n * (8 + 2 - log2(f->o.share)) / 8) + 1;
}

static qn_status open_fleet(qn_federation *f) {
    qn_model_size size;
    if (!f->o.fleet)
        return QN_OK;
    const qn_shape input = f->o.data->preparation.sample;
    QN_TRY(qn_model_measure(f->o.model, input, f->o.data->preparation.n_classes, &size));
    f->forward_flops = size.forward_flops;
    f->message_bytes = message_bytes(f);
    f->memory_bytes = (int64_t)qn_engine_get_memory(f->engine).peak_bytes;
    f->fleet_options = *f->o.fleet;
    f->fleet_options.allocator = f->o.allocator;
    f->fleet_options.n_clients = f->o.n_clients;
    f->fleet_options.seed = f->o.seed;
    return qn_fleet_create(&f->fleet_options, &f->fleet);
}

static qn_status begin(qn_federation *f) {
    QN_TRY(qn_partition_data(f->o.allocator, f->o.partition, f->o.data, f->o.n_clients, f->o.seed,
                             &f->partition));
    QN_TRY(create_trainer(f));
    QN_TRY(find_parts(f));
    QN_TRY(reserve(f));
    QN_TRY(open_store(f));
    QN_TRY(open_fleet(f));
    QN_TRY(open_accountant(f));
    if (f->n_all > f->n)
        QN_TRY(qn_partition_tests(f->o.allocator, f->o.data, &f->partition, TESTS_OF_A_CLIENT,
                                  f->o.seed, &f->tests));
    return load_tests(f, f->o.data, 2, &f->test);
}

qn_status qn_federation_create(const qn_federation_options *options, qn_federation **federation) {
    qn_federation *f;
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    QN_TRY(qn_federation_check(options));
    QN_TRY(qn_allocate(allocator, 1, sizeof *f, &f));
    f->o = *options;
    f->o.allocator = allocator;
    const qn_status status = begin(f);
    if (status != QN_OK) {
        qn_federation_destroy(f);
        return status;
    }
    *federation = f;
    return QN_OK;
}

void qn_federation_destroy(qn_federation *f) {
    if (!f)
        return;
    const qn_allocator *a = f->o.allocator;
    const size_t n = (size_t)f->n;
    qn_loader_destroy(f->test);
    qn_partition_destroy(&f->tests);
    qn_client_store_close(f->store);
    qn_room_close(f->disk);
    qn_fleet_destroy(f->fleet);
    qn_accountant_destroy(f->accountant);
    qn_release(a, f->answered, (size_t)most_answers(f), sizeof *f->answered);
    qn_release(a, f->room, n, sizeof *f->room);
    qn_release(a, f->change, n, sizeof *f->change);
    qn_release(a, f->before, n, sizeof *f->before);
    qn_release(a, f->sum, n, sizeof *f->sum);
    qn_release(a, f->server, (size_t)f->n_all, sizeof *f->server);
    qn_release(a, f->parts, (size_t)f->n_tensors, sizeof *f->parts);
    qn_trainer_destroy(f->trainer);
    qn_numerics_destroy(f->numerics);
    qn_partition_destroy(&f->partition);
    qn_release(a, f, 1, sizeof *f);
}

/* ---- checkpoints ---- */

static qn_status set_count(qn_metadata *pairs, const char *key, int64_t value) {
    char text[32];
    snprintf(text, sizeof text, "%" PRId64, value);
    return qn_metadata_set(pairs, key, text);
}

static qn_status set_number(qn_metadata *pairs, const char *key, double value) {
    char text[32];
    qn_print(text, sizeof text, "%.17g", value);
    return qn_metadata_set(pairs, key, text);
}

static qn_status copy_pairs(const qn_federation *f, const qn_metadata *from, qn_metadata *to) {
    char text[OPTIONS_TEXT];
    for (int i = 0; i < qn_metadata_count(from); i++) {
        const char *key, *value;
        qn_metadata_at(from, i, &key, &value);
        QN_TRY(qn_metadata_set(to, key, value));
    }
    print_options(&f->o, text);
    QN_TRY(qn_metadata_set(to, "federate.options", text));
    QN_TRY(set_count(to, "federate.bytes_down", f->bytes_down));
    QN_TRY(set_count(to, "federate.bytes_up", f->bytes_up));
    if (f->fleet) {
        QN_TRY(set_number(to, "federate.seconds", f->seconds));
        QN_TRY(set_number(to, "federate.joules", f->joules));
        QN_TRY(set_number(to, "federate.begin_seconds", f->begin_seconds));
    }
    return QN_OK;
}

qn_status qn_federation_keep_room(qn_federation *f, const qn_metadata *pairs, const char *path) {
    qn_metadata *all;
    QN_TRY(qn_metadata_create(f->o.allocator, &all));
    qn_status status = copy_pairs(f, pairs, all);
    if (status == QN_OK)
        status = qn_checkpoint_keep_room(f->o.allocator, f->engine, all, path, &f->disk);
    qn_metadata_destroy(all);
    return status;
}

qn_status qn_federation_save(qn_federation *f, const qn_metadata *pairs, const char *path) {
    qn_metadata *all;
    QN_TRY(qn_metadata_create(f->o.allocator, &all));
    qn_status status = copy_pairs(f, pairs, all);
    put_server(f);
    clear_state(f);
    qn_engine_set_steps(f->engine, f->round);
    if (status == QN_OK && f->store)
        status = qn_client_store_sync(f->store, f->round);
    if (status == QN_OK)
        status = qn_checkpoint_save_in(f->disk, f->engine, all, path);
    if (status == QN_OK)
        (void)qn_room_renew(f->disk);
    qn_metadata_destroy(all);
    return status;
}

static qn_status check_options(const qn_federation *f, const qn_metadata *pairs, const char *path) {
    char ours[OPTIONS_TEXT];
    const char *theirs = qn_metadata_get(pairs, "federate.options");
    print_options(&f->o, ours);
    if (!theirs)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: no checkpoint of a federated run", path);
    if (strcmp(ours, theirs) != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s belongs to another run (%s); this one is: %s", path,
                       theirs, ours);
    return QN_OK;
}

static int64_t get_count(const qn_metadata *pairs, const char *key) {
    const char *text = qn_metadata_get(pairs, key);
    return text ? strtoll(text, NULL, 10) : 0;
}

static double get_number(const qn_metadata *pairs, const char *key) {
    const char *text = qn_metadata_get(pairs, key);
    return text ? qn_decimal_read(text, NULL) : 0;
}

qn_status qn_federation_load(qn_federation *f, const char *path) {
    qn_metadata *pairs;
    QN_TRY(qn_checkpoint_read(f->o.allocator, path, &pairs));
    qn_status status = check_options(f, pairs, path);
    if (status == QN_OK)
        status = qn_checkpoint_load(f->engine, path, true);
    if (status == QN_OK) {
        f->round = qn_engine_steps(f->engine);
        f->bytes_down = get_count(pairs, "federate.bytes_down");
        f->bytes_up = get_count(pairs, "federate.bytes_up");
        f->seconds = get_number(pairs, "federate.seconds");
        f->joules = get_number(pairs, "federate.joules");
        f->begin_seconds = get_number(pairs, "federate.begin_seconds");
        copy_parts(f, 0, f->n_parts, f->server);
    }
    if (status == QN_OK && f->store)
        status = qn_client_store_resume(f->store, f->round);
    qn_metadata_destroy(pairs);
    return status;
}
