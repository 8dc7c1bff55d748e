/* quern split: one network on two machines. train has the data and the first layers, serve the
 * rest; cuts lists where a network can be cut, and what each place costs. */
#include "base/decimal.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "federate/halves.h"
#include "federate/split_server.h"
#include "federate/tls.h"
#include "learn/replay.h"
#include "os/heap.h"
#include "os/network/socket.h"
#include "os/os.h"
#include "os/process/interrupt.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TEST_BATCH = 100 };

static const option options[] = {
    {.name = "model",
     .kind = OPTION_TEXT,
     .argument = "MODEL",
     .fallback = "lenet5",
     .help = "a classifier of quern models"},
    {.name = "cut",
     .kind = OPTION_TEXT,
     .argument = "VALUE",
     .otherwise = "none, must be given to train",
     .help = "last value of the device's half, such as pool1 (quern split cuts)"},
    {.name = "peer",
     .kind = OPTION_TEXT,
     .argument = "ADDRESS:PORT",
     .otherwise = "none, must be given to train",
     .help = "where quern split serve listens"},
    {.name = "listen",
     .kind = OPTION_TEXT,
     .argument = "PORT",
     .fallback = "7000",
     .help = "for serve: PORT for programs of this machine; with --key also *:PORT for any, and "
             "ADDRESS:PORT for one network"},
    {.name = "key",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none: only between programs of one machine",
     .help = "the secret that both sides have (quern split key): encrypts with TLS 1.3 and lets "
             "nobody else in"},
    {.name = "devices",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = QN_SPLIT_MOST_DEVICES,
     .fallback = "4",
     .help = "for serve: devices at the same time; they compute in turns"},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "for train none, for serve half of what is available",
     .help = "limit of all memory for training; serve gives each of its devices an equal share"},
    {.name = "once",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "for serve: end after the first device that was accepted"},
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .otherwise = "none, must be given to train",
     .help = "images with classes; only the device reads them"},
    {.name = "holdout",
     .kind = OPTION_NUMBER,
     .argument = "PART",
     .most = 0.9,
     .otherwise = "as the data comes",
     .help = "part of the samples to test on, of data without test samples"},
    {.name = "epochs",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .fallback = "1",
     .help = "passes over the training samples, those before a resume included"},
    {.name = "batch",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .fallback = "64",
     .help = "samples of a step"},
    {.name = "lr",
     .kind = OPTION_NUMBER,
     .argument = "RATE",
     .least = 1e-12,
     .most = 1e6,
     .otherwise = "the model's recipe",
     .help = "learning rate, constant"},
    {.name = "momentum",
     .kind = OPTION_NUMBER,
     .argument = "M",
     .most = 1,
     .fallback = "0.9",
     .help = "of SGD"},
    {.name = "messages",
     .kind = OPTION_CHOICE,
     .argument = "float|int8",
     .fallback = "float",
     .help = "what crosses the network; int8 takes a quarter of the bytes and changes the result"},
    {.name = "device",
     .kind = OPTION_TEXT,
     .argument = "KIND",
     .fallback = "snapdragon-phone",
     .help = "for cuts: the device, as of quern learn simulate"},
    {.name = "peer-device",
     .kind = OPTION_TEXT,
     .argument = "KIND",
     .fallback = "intel-laptop",
     .help = "for cuts: the peer"},
    {.name = "network",
     .kind = OPTION_TEXT,
     .argument = "DOWN,UP",
     .fallback = "20,5",
     .help = "for cuts: Mbit/s of the device's network"},
    {.name = "save",
     .kind = OPTION_TEXT,
     .makes = QN_OWN_WEIGHTS,
     .replaces = "resume",
     .beside = ".before",
     .argument = "FILE",
     .otherwise = "none",
     .help = "this side's half, written after every epoch; a file belongs to one run; for serve "
             "also a folder, with a file for each run"},
    {.name = "resume",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "for train: go on from what --save wrote"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1024,
     .otherwise = "all cores",
     .help = "threads; the result does not depend on them"},
    {.name = "seed",
     .kind = OPTION_COUNT,
     .argument = "N",
     .most = 9e15,
     .fallback = "1",
     .help = "of initial weights and order of samples"},
    {.name = "out",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_WEIGHTS,
     .argument = "FILE",
     .otherwise = "none, must be given to join and key",
     .help = "for join: the whole network; for key: the new secret"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "one JSON object an event"},
};

/* An action's options; another one is refused. */
typedef struct action {
    const char *name;
    qn_status (*act)(const arguments *a);
    const char *options; /* their names, with spaces around each */
} action;

static int threads_of(const arguments *a) {
    return arguments_has(a, "threads") ? (int)arguments_count(a, "threads") : 0;
}

static qn_status need(const arguments *a, const char *who, const char *name) {
    if (arguments_has(a, name))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "quern split %s needs --%s; see quern split --help", who,
                   name);
}

/* Reads the key; *found: key, or null where none is given, which only one machine's programs may
 * do without. */
static qn_status find_key(const arguments *a, const char *place, qn_tls_key *key,
                          const qn_tls_key **found) {
    bool is_local;
    *found = NULL;
    QN_TRY(qn_socket_is_local(place, &is_local));
    if (arguments_has(a, "key")) {
        QN_TRY(qn_tls_key_read(arguments_get(a, "key"), key));
        *found = key;
        return QN_OK;
    }
    if (is_local)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s is beyond this machine, where anybody could read along and change the "
                   "network; make a secret with quern split key --out FILE, bring it to the other "
                   "side, and give both --key FILE",
                   place);
}

/* Before the work, whether a file can be written; a folder is serve's matter. */
static qn_status check_target(const char *path) {
    return path && !qn_path_is_folder(path) ? qn_file_check_target(path, false) : QN_OK;
}

/* ---- the device ---- */

typedef struct device {
    const arguments *a;
    qn_data_source data;
    qn_known_data known; /* of the half that is gone on with */
    bool is_open;
    qn_halves_options o;
    qn_metadata *pairs;
    qn_device_half *half;
    int64_t steps_of_epoch;
} device;

static qn_status open_data(device *d) {
    const arguments *a = d->a;
    const char *holdout = arguments_get(a, "holdout");
    const qn_model *model = qn_model_find(arguments_get(a, "model"));
    if (!model)
        return QN_ERROR_ARGUMENT;
    const qn_data_options how = {
        QN_OPTIONS_INIT(qn_data_options),
        .log = &session_log,
        .seed = (uint64_t)arguments_count(a, "seed"),
        .holdout = holdout ? qn_decimal_read(holdout, NULL) : 0,
        .sample = model->input,
        .n_classes = model->n_classes,
    };
    QN_TRY(qn_known_data_open(arguments_get(a, "resume"), arguments_get(a, "data"), &how, &d->known,
                              &d->data));
    d->is_open = true;
    if (d->data.preparation.n_classes == 0)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s has no classes", d->data.name);
    d->o = (qn_halves_options){
        .model = model,
        .input = d->data.preparation.sample,
        .n_outputs = d->data.preparation.n_classes,
        .batch = arguments_count(a, "batch"),
        .test_batch = TEST_BATCH,
        .update = {.optimizer = QN_SGD,
                   .rate = arguments_has(a, "lr") ? qn_decimal_read(arguments_get(a, "lr"), NULL)
                                                  : model->recipe.rate,
                   .momentum = qn_decimal_read(arguments_get(a, "momentum"), NULL)},
        .is_int8 = strcmp(arguments_get(a, "messages"), "int8") == 0,
        .seed = (uint64_t)arguments_count(a, "seed"),
        .saves = arguments_has(a, "save"),
    };
    if (snprintf(d->o.cut, sizeof d->o.cut, "%s", arguments_get(a, "cut")) >= QN_CUT_NAME)
        return qn_fail(QN_ERROR_ARGUMENT, "--cut: no value has a name as long as that");
    d->steps_of_epoch = d->data.n_samples[QN_TRAIN] / d->o.batch;
    if (d->steps_of_epoch == 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--batch %" PRId64 " is more than the %" PRId64 " training samples",
                       d->o.batch, d->data.n_samples[QN_TRAIN]);
    return QN_OK;
}

/* What quern evaluate needs, once both halves are joined. */
static qn_status set_pairs(device *d) {
    char text[QN_SHAPE_TEXT];
    QN_TRY(qn_metadata_create(NULL, &d->pairs));
    QN_TRY(qn_metadata_set(d->pairs, "model", d->o.model->name));
    if (arguments_has(d->a, "holdout"))
        QN_TRY(qn_metadata_set(d->pairs, "holdout", arguments_get(d->a, "holdout")));
    QN_TRY(qn_known_data_put(d->pairs, arguments_get(d->a, "data"), &d->data));
    return qn_metadata_set(d->pairs, "input", qn_shape_print(d->o.input, text));
}

static qn_status connect_device(device *d) {
    const arguments *a = d->a;
    qn_tls_key key;
    qn_device_options how = {
        .n_threads = threads_of(a),
        .memory_bytes = arguments_has(a, "memory") ? (size_t)arguments_count(a, "memory") : 0,
        .place = arguments_get(a, "peer"),
        .path = arguments_get(a, "resume"),
    };
    QN_TRY(find_key(a, how.place, &key, &how.key));
    return qn_device_half_create(&d->o, &how, &d->half);
}

static qn_status open_loader(const device *d, qn_split split, int64_t first, qn_loader **loader) {
    const bool is_test = split == QN_TEST;
    const int64_t n = d->data.n_samples[split];
    const qn_loader_options o = {
        QN_OPTIONS_INIT(qn_loader_options),
        .split = split,
        .batch = is_test ? TEST_BATCH : d->o.batch,
        .seed = d->o.seed,
        .shuffle = !is_test,
        .pad_last = is_test,
        .first = first,
        .n_batches = is_test ? (n + TEST_BATCH - 1) / TEST_BATCH : -1,
        .n_prefetched = 2,
    };
    return qn_loader_create(&d->data, &d->data.preparation, &o, loader);
}

/* Sums of an epoch. */
typedef struct epoch {
    int64_t number, n_samples, n_correct, n_tested, n_test_correct, waited_ns, begin_ns;
    double loss, test_loss;
} epoch;

static qn_status test_half(device *d, epoch *e) {
    qn_loader *loader;
    qn_status status = QN_OK;
    if (d->data.n_samples[QN_TEST] == 0)
        return QN_OK;
    QN_TRY(open_loader(d, QN_TEST, 0, &loader));
    for (;;) {
        qn_batch b;
        qn_half_result r;
        status = qn_loader_next(loader, &b);
        if (status != QN_OK || !b.x)
            break;
        status = qn_device_half_test(d->half, b.x, b.y, b.n_valid, &r);
        if (status != QN_OK)
            break;
        e->test_loss += r.loss;
        e->n_test_correct += r.n_correct;
        e->n_tested += b.n_valid;
    }
    qn_loader_destroy(loader);
    return status;
}

static double share(int64_t part, int64_t all) {
    return all > 0 ? (double)part / (double)all : (double)NAN;
}

static void print_epoch(const device *d, const epoch *e) {
    char sent[QN_SIZE_TEXT], received[QN_SIZE_TEXT];
    const qn_link *link = qn_device_half_link(d->half);
    const int64_t ns = qn_clock_ns() - e->begin_ns;
    const double loss = e->loss / (double)d->steps_of_epoch;
    if (arguments_flag(d->a, "json")) {
        json_begin();
        json_text("event", "epoch");
        json_count("epoch", e->number);
        json_number("train_loss", loss);
        json_number("train_accuracy", share(e->n_correct, e->n_samples));
        json_number("test_loss", e->test_loss / (double)e->n_tested);
        json_number("test_accuracy", share(e->n_test_correct, e->n_tested));
        json_count("bytes_sent", link->n_sent);
        json_count("bytes_received", link->n_received);
        json_number("waited_seconds", (double)e->waited_ns * 1e-9);
        json_number("seconds", (double)ns * 1e-9);
        json_end();
        return;
    }
    printf("epoch %" PRId64 ": train loss %.4f, accuracy %.2f %%", e->number, loss,
           100 * share(e->n_correct, e->n_samples));
    if (e->n_tested > 0)
        printf("; test loss %.4f, accuracy %.2f %%", e->test_loss / (double)e->n_tested,
               100 * share(e->n_test_correct, e->n_tested));
    printf("; %s sent, %s received; %.1f s, %.1f of them waiting for the peer\n",
           qn_text_print_size((uint64_t)link->n_sent, sent),
           qn_text_print_size((uint64_t)link->n_received, received), (double)ns * 1e-9,
           (double)e->waited_ns * 1e-9);
    fflush(stdout);
}

static qn_status train_epoch(device *d, qn_loader *loader, epoch *e) {
    e->begin_ns = qn_clock_ns();
    for (int64_t i = 0; i < d->steps_of_epoch; i++) {
        qn_batch b;
        qn_half_result r;
        QN_TRY(qn_loader_next(loader, &b));
        QN_TRY(qn_device_half_step(d->half, b.x, b.y, &r));
        e->loss += r.loss;
        e->n_correct += r.n_correct;
        e->n_samples += d->o.batch;
        e->waited_ns += r.waited_ns;
        if (qn_was_interrupted())
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped; --resume goes on from the last epoch "
                                                 "that was saved");
    }
    return test_half(d, e);
}

static qn_status train_epochs(device *d, qn_loader *loader, int64_t first) {
    const char *save = arguments_get(d->a, "save");
    for (int64_t i = first; i < arguments_count(d->a, "epochs"); i++) {
        epoch e = {.number = i + 1};
        QN_TRY(train_epoch(d, loader, &e));
        print_epoch(d, &e);
        if (save)
            QN_TRY(qn_device_half_save(d->half, d->pairs, save));
    }
    return QN_OK;
}

static qn_status run_device(device *d) {
    static const char *const needed[] = {"data", "cut", "peer"};
    qn_loader *loader;
    for (int i = 0; i < 3; i++)
        QN_TRY(need(d->a, "train", needed[i]));
    QN_TRY(check_target(arguments_get(d->a, "save")));
    QN_TRY(open_data(d));
    QN_TRY(set_pairs(d));
    qn_interrupt_watch(EXIT_FAILED);
    QN_TRY(connect_device(d));
    if (arguments_has(d->a, "save"))
        QN_TRY(qn_device_half_keep_room(d->half, d->pairs, arguments_get(d->a, "save")));
    const int64_t steps = qn_engine_steps(qn_device_half_engine(d->half));
    QN_TRY(open_loader(d, QN_TRAIN, steps, &loader));
    const qn_status status = train_epochs(d, loader, steps / d->steps_of_epoch);
    qn_loader_destroy(loader);
    return status;
}

static qn_status train(const arguments *a) {
    device d = {.a = a};
    const qn_status status = run_device(&d);
    qn_device_half_destroy(d.half);
    qn_metadata_destroy(d.pairs);
    if (d.is_open)
        qn_data_close(&d.data);
    qn_known_data_deinit(&d.known);
    return status;
}

/* ---- the peer ---- */

static void print_began(void *user, const qn_halves_options *o, int64_t step) {
    const arguments *a = user;
    if (arguments_flag(a, "json")) {
        json_begin();
        json_text("event", "device");
        json_text("model", o->model->name);
        json_text("cut", o->cut);
        json_count("batch", o->batch);
        json_count("step", step);
        json_end();
        return;
    }
    printf("a device trains %s, cut at %s, batches of %" PRId64 ", from step %" PRId64 " on\n",
           o->model->name, o->cut, o->batch, step);
    fflush(stdout);
}

static void print_steps(const arguments *a, int64_t n_steps) {
    if (arguments_flag(a, "json")) {
        json_begin();
        json_text("event", "device_done");
        json_count("steps", n_steps);
        json_end();
        return;
    }
    printf("%" PRId64 " steps\n", n_steps);
    fflush(stdout);
}

static void print_ended(void *user, qn_status status, bool was_accepted, int64_t n_steps) {
    if (status != QN_OK)
        report_failed_run(); /* the next device may do better */
    if (was_accepted)
        print_steps(user, n_steps);
}

/* What all devices together may take. */
static int64_t serve_memory(const arguments *a) {
    return arguments_has(a, "memory") ? arguments_count(a, "memory")
                                      : qn_memory_available_bytes() / 2;
}

static qn_status read_serve(const arguments *a, qn_split_server_options *o, qn_tls_key *key) {
    *o = (qn_split_server_options){
        .peer = {.n_threads = threads_of(a), .path = arguments_get(a, "save")},
        .n_devices = (int)arguments_count(a, "devices"),
        .once = arguments_flag(a, "once"),
        .user = (void *)(uintptr_t)a,
        .began = print_began,
        .ended = print_ended,
    };
    o->peer.memory_bytes = (size_t)(serve_memory(a) / o->n_devices);
    if (arguments_has(a, "model")) {
        o->peer.model = qn_model_find(arguments_get(a, "model"));
        if (!o->peer.model)
            return QN_ERROR_ARGUMENT;
    }
    QN_TRY(check_target(o->peer.path));
    return find_key(a, arguments_get(a, "listen"), key, &o->peer.key);
}

static qn_status serve(const arguments *a) {
    qn_split_server_options o;
    qn_tls_key key;
    int listener, port;
    int64_t n_steps = 0;
    QN_TRY(read_serve(a, &o, &key));
    QN_TRY(qn_socket_listen(arguments_get(a, "listen"), &listener, &port));
    qn_interrupt_watch(EXIT_FAILED);
    printf("listening at port %d\n", port);
    fflush(stdout);
    const qn_status status = qn_split_serve(&o, listener, &n_steps);
    if (o.once)
        print_steps(a, n_steps);
    qn_socket_close(listener);
    return status;
}

/* ---- places to cut ---- */

typedef struct costs {
    const qn_learn_device *device, *peer;
    double down, up; /* bytes a second */
} costs;

static qn_status read_costs(const arguments *a, costs *c) {
    const char *network = arguments_get(a, "network"), *comma = strchr(network, ',');
    char down[32];
    c->device = qn_learn_device_find(arguments_get(a, "device"));
    c->peer = c->device ? qn_learn_device_find(arguments_get(a, "peer-device")) : NULL;
    if (!c->peer)
        return QN_ERROR_ARGUMENT;
    snprintf(down, sizeof down, "%.*s", comma ? (int)(comma - network) : 0, network);
    if (!qn_decimal_parse(down, &c->down) || !qn_decimal_parse(comma + 1, &c->up) ||
        !(c->down > 0) || !(c->up > 0))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--network %s: it is the speed down and up in Mbit/s, as "
                       "in 20,5",
                       network);
    c->down *= 1e6 / 8;
    c->up *= 1e6 / 8;
    return QN_OK;
}

/* Seconds and the device's joules for a sample's training; radio and waiting at 1 W. */
static double seconds_of(const costs *c, const qn_cut *cut, bool is_int8, double *joules) {
    const double bytes = (double)qn_shape_count(cut->shape) * (is_int8 ? 1 : 4);
    const double own = QN_TRAIN_COST * (double)cut->front_flops / c->device->flops;
    const double other = QN_TRAIN_COST * (double)cut->back_flops / c->peer->flops;
    const double network = bytes / c->up + bytes / c->down;
    *joules = own * c->device->train_w + network + other;
    return own + other + network;
}

static void print_cut(const arguments *a, const costs *c, const qn_cut *cut) {
    const bool is_int8 = strcmp(arguments_get(a, "messages"), "int8") == 0;
    const double all = (double)(cut->front_flops + cut->back_flops);
    const int64_t bytes = qn_shape_count(cut->shape) * (is_int8 ? 1 : 4);
    double joules;
    const double seconds = seconds_of(c, cut, is_int8, &joules);
    char shape[QN_SHAPE_TEXT], size[32];
    if (arguments_flag(a, "json")) {
        json_begin();
        json_text("event", "cut");
        json_text("cut", cut->name);
        json_count("front_flops", cut->front_flops);
        json_count("back_flops", cut->back_flops);
        json_count("front_parameters", cut->front_numbers);
        json_count("bytes_each_way", bytes);
        json_number("seconds", seconds);
        json_number("joules", joules);
        json_end();
        return;
    }
    printf("%-32s %-14s %6.1f %% %12s %10" PRId64 " %9.3f %9.3f\n", cut->name,
           qn_shape_print(cut->shape, shape), all > 0 ? 100 * (double)cut->front_flops / all : 0,
           grouped(cut->front_numbers, size), bytes, 1000 * seconds, 1000 * joules);
}

static qn_status print_cuts(const arguments *a) {
    const qn_model *model = qn_model_find(arguments_get(a, "model"));
    costs c;
    qn_cut *cuts;
    size_t n, room;
    if (!model)
        return QN_ERROR_ARGUMENT;
    if (!model->build)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s is no classifier, and only those are cut",
                       model->name);
    QN_TRY(read_costs(a, &c));
    QN_TRY(qn_cuts_list(model, model->input, model->n_classes, &cuts, &n, &room));
    if (!arguments_flag(a, "json"))
        printf("%-32s %-14s %8s %12s %10s %9s %9s\n", "cut after", "value", "FLOPs", "parameters",
               "bytes", "ms", "mJ");
    for (size_t i = 0; i < n; i++)
        print_cut(a, &c, &cuts[i]);
    qn_release(qn_allocator_default(), cuts, room, sizeof *cuts);
    return QN_OK;
}

/* ---- both ---- */

static qn_status join(const arguments *a) {
    if (a->n_words != 3)
        return qn_fail(QN_ERROR_ARGUMENT, "quern split join FRONT BACK --out FILE: it takes the "
                                          "files that --save wrote on both sides");
    QN_TRY(need(a, "join", "out"));
    QN_TRY(qn_halves_join(a->words[1], a->words[2], arguments_get(a, "out")));
    printf("saved to %s\n", terminal_name(arguments_get(a, "out")));
    return QN_OK;
}

static qn_status make_key(const arguments *a) {
    QN_TRY(need(a, "key", "out"));
    QN_TRY(qn_tls_key_create(arguments_get(a, "out")));
    printf("a new secret is in %s; bring a copy to the other side by a way that you trust\n",
           terminal_name(arguments_get(a, "out")));
    return QN_OK;
}

static const action actions[] = {
    {"train", train,
     " model cut peer key data holdout epochs batch lr momentum messages memory save resume "
     "threads seed json "},
    {"serve", serve, " model listen key devices memory once save threads json "},
    {"cuts", print_cuts, " model messages device peer-device network json "},
    {"join", join, " out "},
    {"key", make_key, " out "},
};

static bool is_listed(const char *names, const char *name) {
    char padded[32];
    snprintf(padded, sizeof padded, " %s ", name);
    return strstr(names, padded) != NULL;
}

static qn_status check_options(const arguments *a, const action *chosen) {
    for (int i = 0; i < option_count(a->command); i++) {
        const char *name = option_at(a->command, i)->name;
        if (arguments_has(a, name) && !is_listed(chosen->options, name))
            return qn_fail(QN_ERROR_ARGUMENT, "--%s means nothing to quern split %s", name,
                           chosen->name);
    }
    return QN_OK;
}

static qn_status act(const arguments *a) {
    for (size_t i = 0; i < sizeof actions / sizeof actions[0]; i++) {
        if (strcmp(a->words[0], actions[i].name) != 0)
            continue;
        QN_TRY(check_options(a, &actions[i]));
        return actions[i].act(a);
    }
    return qn_fail(QN_ERROR_ARGUMENT, "%s is not an action: cuts, key, serve, train, join",
                   a->words[0]);
}

static int run(const arguments *a) {
    const qn_status status = act(a);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_split = {
    .name = "split",
    .words = "ACTION [FRONT BACK]",
    .least_words = 1,
    .most_words = 3,
    .summary = "Train one network on two machines",
    .description =
        "split cuts --model MODEL                  where it can be cut, and what that costs\n"
        "split key --out KEY                       a secret for both sides\n"
        "split serve --listen *:7000 --key KEY --save FILE   the peer: all layers behind the cut\n"
        "split train --peer ADDRESS:7000 --key KEY --cut VALUE --data DATA   the device: data,\n"
        "                                          first layers\n"
        "split join FRONT BACK --out FILE          one network of what both have saved\n"
        "\n"
        "Split learning: each step sends a value of the network, and the labels, to the peer, "
        "which\n"
        "sends the value's gradient back. With float messages the halves have the bits of the\n"
        "whole network trained in one place.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
    .makes_files = true,
};
