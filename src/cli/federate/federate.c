/* quern federate: one network from many devices' data. simulate runs server and clients in this
 * process; app writes them for Flower. */
#include "base/decimal.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/options.h"
#include "cli/session.h"
#include "cli/terminal.h"
#include "federate/flower.h"
#include "os/heap.h"
#include "os/process/interrupt.h"
#include "report/document.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option options[] = {
    {.name = "model",
     .kind = OPTION_TEXT,
     .argument = "MODEL",
     .fallback = "lenet5",
     .help = "a classifier of quern models"},
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .otherwise = "none, must be given",
     .help = "training samples are divided among clients; test samples are the server's"},
    {.name = "holdout",
     .kind = OPTION_NUMBER,
     .argument = "PART",
     .most = 0.9,
     .otherwise = "as the data comes",
     .help = "part of the samples to test on, of data without test samples"},
    {.name = "clients",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .fallback = "100",
     .help = "devices"},
    {.name = "per-round",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .fallback = "10",
     .help = "clients that train in a round, chosen at random"},
    {.name = "rounds",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .fallback = "50",
     .help = "rounds, those before a resume included"},
    {.name = "partition",
     .kind = OPTION_INPUT,
     .argument = "KIND",
     .fallback = "iid",
     .help =
         "who has what: iid, amount:S, shards:N, hsu:A, lda:A, pachinko:A:B:FILE, or users:FILE "
         "with a user a line"},
    {.name = "local-epochs",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1000,
     .fallback = "1",
     .help = "passes of a client over its samples in a round"},
    {.name = "batch",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 65536,
     .fallback = "10",
     .help = "samples in a client's step; a client with fewer repeats them"},
    {.name = "lr",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1e6,
     .fallback = "0.05",
     .help = "learning rate of clients (SGD)"},
    {.name = "momentum",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .fallback = "0",
     .help = "momentum of clients, from 0 in each round"},
    {.name = "proximal",
     .kind = OPTION_NUMBER,
     .argument = "MU",
     .most = 1e6,
     .fallback = "0",
     .help = "FedProx: pull of clients towards the server's weights"},
    {.name = "drop",
     .kind = OPTION_NUMBER,
     .argument = "P",
     .most = 1,
     .fallback = "0",
     .help = "chance that a client never answers"},
    {.name = "server",
     .kind = OPTION_CHOICE,
     .argument = "average|momentum|adam|yogi",
     .fallback = "average",
     .help = "what the server does with the mean change: FedAvg, FedAvgM, FedAdam, FedYogi"},
    {.name = "server-lr",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1e6,
     .otherwise = "1; 0.01 with adam and yogi",
     .help = "learning rate of the server"},
    {.name = "server-momentum",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .most = 1,
     .fallback = "0.9",
     .help = "of momentum, adam and yogi"},
    {.name = "updates",
     .kind = OPTION_TEXT,
     .argument = "KIND",
     .fallback = "full",
     .help = "what clients send: full (floats), int8 (bytes with an exponent for each tensor), "
             "top:S (the share S that changed most; the rest is added to the next update)"},
    {.name = "personal",
     .kind = OPTION_TEXT,
     .argument = "PATTERNS",
     .otherwise = "none",
     .help = "tensors that never leave a client, by name: 'fc2.*' (FedPer), '*.norm.*' (FedBN); "
             "accuracy is then that of the clients that answered"},
    {.name = "dp-clip",
     .kind = OPTION_NUMBER,
     .argument = "NORM",
     .least = 1e-9,
     .most = 1e9,
     .otherwise = "no differential privacy",
     .help = "differential privacy of clients: largest norm of an update; each client takes part "
             "by chance"},
    {.name = "dp-noise",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .least = 1e-3,
     .most = 1e6,
     .fallback = "1",
     .help = "deviation of the noise that the server adds to the sum, in --dp-clip"},
    {.name = "dp-delta",
     .kind = OPTION_NUMBER,
     .argument = "X",
     .least = 1e-200,
     .most = 0.5,
     .otherwise = "clients to the power of -1.1",
     .help = "delta of the epsilon that each round reports"},
    {.name = "devices",
     .kind = OPTION_TEXT,
     .argument = "KIND[:N],...",
     .otherwise = "none: time and energy are not simulated",
     .help = "kinds of the clients' devices and how many beside each other, such as "
             "snapdragon-phone:6,raspberry-pi-5:1; each round then reports hours and joules"},
    {.name = "when",
     .kind = OPTION_TEXT,
     .argument = "RULES",
     .otherwise = "always",
     .help = "rules that must hold on a device while it takes part, as of quern learn: "
             "idle,charging,cool"},
    {.name = "network",
     .kind = OPTION_TEXT,
     .argument = "DOWN,UP[,W]",
     .fallback = "20,5,1",
     .help = "Mbit/s of each device's network, and watts of its radio"},
    {.name = "deadline",
     .kind = OPTION_NUMBER,
     .argument = "S",
     .most = 1e9,
     .fallback = "0",
     .help = "simulated seconds after which a round goes on without those that are late; 0: none"},
    {.name = "pace",
     .kind = OPTION_NUMBER,
     .argument = "S",
     .most = 1e9,
     .fallback = "0",
     .help = "simulated seconds between the beginnings of two rounds, at least"},
    {.name = "target",
     .kind = OPTION_NUMBER,
     .argument = "PERCENT",
     .most = 100,
     .otherwise = "none: all rounds",
     .help = "stop at the first round with this test accuracy"},
    {.name = "memory",
     .kind = OPTION_SIZE,
     .argument = "SIZE",
     .otherwise = "no limit",
     .help = "memory budget of training, such as 30M; does not change the result"},
    {.name = "numerics",
     .kind = OPTION_NUMERICS,
     .argument = "NAME|FILE",
     .fallback = "f32",
     .help = "types and rules of the numbers of clients (quern numerics), with float weights"},
    {.name = "evaluate-every",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e9,
     .fallback = "1",
     .help = "rounds between two tests"},
    {.name = "save",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_WEIGHTS,
     .replaces = "resume",
     .beside = ".clients",
     .argument = "FILE",
     .otherwise = "none",
     .help = "the server's network, written after every round; what clients keep, with --personal "
             "or top:S, is in FILE.clients"},
    {.name = "resume",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "continue what --save wrote, with the same options"},
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
     .help = "of partition, choice of clients, order of samples and initial weights"},
    {.name = "html",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_PAGE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "write a page with accuracy by rounds and by bytes sent"},
    {.name = "out",
     .kind = OPTION_TEXT,
     .argument = "FOLDER",
     .otherwise = "none, must be given to app",
     .help = "folder to write the Flower app to"},
    {.name = "secure",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "for app: secure aggregation (SecAgg+), so that the server learns the mean of the "
             "clients' networks alone"},
    {.name = "train-only",
     .kind = OPTION_TEXT,
     .argument = "PATTERNS",
     .otherwise = "all",
     .help = "for app: tensors that clients train and send, such as 'fc*', or head"},
    {.name = "load",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none: its first weights",
     .help = "for app: checkpoint of the network to begin with"},
    {.name = "dp-where",
     .kind = OPTION_CHOICE,
     .argument = "server|client",
     .fallback = "server",
     .help = "for app: who adds the noise of --dp-clip"},
    {.name = "wheel",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none: add it to the app later",
     .help = "quern's wheel, of script/wheel, that the app installs"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "one JSON object a round"},
};

/* What is drawn at the end: tested rounds. */
typedef struct point {
    double round, accuracy, loss, mib_up, hours, kilojoules;
} point;

typedef struct simulation {
    const arguments *a;
    bool is_json;
    qn_data_source data;
    qn_known_data known; /* of the weights that are gone on from */
    bool is_open;
    qn_federation *federation;
    qn_federation_options o;
    qn_fleet_options fleet;
    qn_metadata *pairs;
    char client_path[PATH_MAX];
    point *points; /* (n_points) */
    size_t n_points, room;
} simulation;

static double number(const arguments *a, const char *name) {
    return qn_decimal_read(arguments_get(a, name), NULL);
}

static qn_server_rule rule_of(const char *name) {
    if (strcmp(name, "adam") == 0)
        return QN_SERVER_ADAM;
    if (strcmp(name, "yogi") == 0)
        return QN_SERVER_YOGI;
    return strcmp(name, "momentum") == 0 ? QN_SERVER_MOMENTUM : QN_SERVER_AVERAGE;
}

static qn_status read_updates(const char *kind, qn_federation_options *o) {
    const bool is_top = strncmp(kind, "top:", 4) == 0;
    if (is_top && qn_decimal_parse(kind + 4, &o->share) && o->share > 0 && o->share <= 1)
        o->code = QN_UPDATE_TOP;
    else if (strcmp(kind, "int8") == 0)
        o->code = QN_UPDATE_INT8;
    else if (strcmp(kind, "full") == 0)
        o->code = QN_UPDATE_FULL;
    else
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--updates %s: it is full, int8, or top:S with a share S above 0 and at "
                       "most 1, such as top:0.01",
                       kind);
    return QN_OK;
}

/* Where what clients keep goes: beside the checkpoint. */
static qn_status choose_client_path(simulation *s) {
    const char *save = arguments_get(s->a, "save"), *resume = arguments_get(s->a, "resume");
    const char *beside = resume ? resume : save;
    const bool is_kept = s->o.code == QN_UPDATE_TOP || s->o.personal;
    if (!is_kept || !beside)
        return QN_OK;
    if (resume && save && strcmp(resume, save) != 0)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "what clients keep is in %s.clients, so --save must be %s too", resume,
                       resume);
    if (snprintf(s->client_path, PATH_MAX, "%s.clients", beside) >= PATH_MAX)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", beside);
    s->o.client_path = s->client_path;
    return QN_OK;
}

static qn_status read_network(const char *text, qn_fleet_options *o) {
    double *const values[] = {&o->down_mbit, &o->up_mbit, &o->radio_watts};
    int n = 0;
    o->radio_watts = 1;
    for (const char *at = text; at && n < 3; n++) {
        char word[32];
        const size_t length = strcspn(at, ",");
        snprintf(word, sizeof word, "%.*s", (int)length, at);
        if (!qn_decimal_parse(word, values[n]) || !(*values[n] >= (n < 2 ? 1e-6 : 0)) ||
            *values[n] > 1e6)
            break;
        at = at[length] ? at + length + 1 : NULL;
        if (!at && n > 0)
            return QN_OK;
    }
    return qn_fail(QN_ERROR_ARGUMENT,
                   "--network %s: it is the speed down and up in Mbit/s, and, where it is known, "
                   "the radio's watts, as in 20,5,1",
                   text);
}

static const char *numerics_of(const arguments *a) {
    const char *text = arguments_get(a, "numerics");
    return strcmp(text, "f32") == 0 ? NULL : text;
}

/* The devices, where there are any; what only means something with them is refused without. */
static qn_status read_fleet(simulation *s) {
    static const char *const needing[] = {"when", "network", "deadline", "pace"};
    for (int i = 0; i < 4 && !arguments_has(s->a, "devices"); i++) {
        if (arguments_has(s->a, needing[i]))
            return qn_fail(QN_ERROR_ARGUMENT,
                           "--%s needs --devices, such as --devices snapdragon-phone", needing[i]);
    }
    if (!arguments_has(s->a, "devices"))
        return QN_OK;
    s->fleet.kinds = arguments_get(s->a, "devices");
    s->fleet.when = arguments_get(s->a, "when");
    s->o.fleet = &s->fleet;
    s->o.deadline = number(s->a, "deadline");
    s->o.pace = number(s->a, "pace");
    return read_network(arguments_get(s->a, "network"), &s->fleet);
}

static qn_status read_options(simulation *s) {
    const arguments *a = s->a;
    s->o = (qn_federation_options){
        .data = &s->data,
        .model = qn_model_find(arguments_get(a, "model")),
        .partition = arguments_get(a, "partition"),
        .n_clients = arguments_count(a, "clients"),
        .per_round = arguments_count(a, "per-round"),
        .n_rounds = arguments_count(a, "rounds"),
        .local_epochs = arguments_count(a, "local-epochs"),
        .batch = arguments_count(a, "batch"),
        .rate = number(a, "lr"),
        .momentum = number(a, "momentum"),
        .proximal = number(a, "proximal"),
        .drop = number(a, "drop"),
        .rule = rule_of(arguments_get(a, "server")),
        .server_momentum = number(a, "server-momentum"),
        .personal = arguments_get(a, "personal"),
        .clip = arguments_has(a, "dp-clip") ? number(a, "dp-clip") : 0,
        .noise = number(a, "dp-noise"),
        .evaluate_every = arguments_count(a, "evaluate-every"),
        .stop = qn_interrupt_flag(),
        .numerics = numerics_of(a),
        .n_threads = arguments_has(a, "threads") ? (int)arguments_count(a, "threads") : 0,
        .seed = (uint64_t)arguments_count(a, "seed"),
    };
    const double usual = s->o.rule >= QN_SERVER_ADAM ? 0.01 : 1;
    s->o.server_rate = arguments_has(a, "server-lr") ? number(a, "server-lr") : usual;
    s->o.delta = arguments_has(a, "dp-delta") ? number(a, "dp-delta")
                                              : fmin(pow((double)s->o.n_clients, -1.1), 0.5);
    if (!s->o.model)
        return QN_ERROR_ARGUMENT;
    if (arguments_has(a, "memory"))
        s->o.memory_budget_bytes = (size_t)arguments_count(a, "memory");
    QN_TRY(read_fleet(s));
    QN_TRY(read_updates(arguments_get(a, "updates"), &s->o));
    return choose_client_path(s);
}

/* Photos of any size become as large as the network's input. */
static qn_status settle_size(simulation *s) {
    const qn_shape input = s->o.model->input;
    if (!s->data.set_size || s->data.sample.dims[0] > 0 || input.rank != 3)
        return QN_OK;
    QN_TRY(s->data.set_size(s->data.self, input.dims[0], input.dims[1], input.dims[2]));
    s->data.sample = s->data.preparation.sample = input;
    return QN_OK;
}

static qn_status open_data(simulation *s) {
    const char *name = arguments_get(s->a, "data"), *holdout = arguments_get(s->a, "holdout");
    const char *resume = arguments_get(s->a, "resume"), *load = arguments_get(s->a, "load");
    const qn_data_options how = {QN_OPTIONS_INIT(qn_data_options),
                                 .log = &session_log,
                                 .seed = s->o.seed,
                                 .holdout = holdout ? qn_decimal_read(holdout, NULL) : 0,
                                 .sample = s->o.model->input,
                                 .n_classes = s->o.model->n_classes};
    if (!name)
        return qn_fail(QN_ERROR_ARGUMENT, "quern federate needs --data; see quern federate --help");
    QN_TRY(qn_known_data_open(resume ? resume : load, name, &how, &s->known, &s->data));
    s->is_open = true;
    return settle_size(s);
}

/* What quern evaluate and predict need to know. */
static qn_status set_pairs(simulation *s) {
    char text[QN_SHAPE_TEXT];
    QN_TRY(qn_metadata_create(NULL, &s->pairs));
    QN_TRY(qn_metadata_set(s->pairs, "model", s->o.model->name));
    if (arguments_has(s->a, "holdout"))
        QN_TRY(qn_metadata_set(s->pairs, "holdout", arguments_get(s->a, "holdout")));
    QN_TRY(qn_known_data_put(s->pairs, arguments_get(s->a, "data"), &s->data));
    return qn_metadata_set(s->pairs, "input", qn_shape_print(s->data.preparation.sample, text));
}

static qn_status open_simulation(simulation *s) {
    QN_TRY(set_pairs(s));
    QN_TRY(qn_federation_create(&s->o, &s->federation));
    if (arguments_has(s->a, "resume"))
        QN_TRY(qn_federation_load(s->federation, arguments_get(s->a, "resume")));
    return QN_OK;
}

static void print_opening(const simulation *s) {
    const qn_federation_division d = qn_federation_get_division(s->federation);
    if (s->is_json) {
        json_begin();
        json_text("event", "division");
        json_text("partition", s->o.partition);
        json_count("clients", s->o.n_clients);
        json_count("samples_least", d.least);
        json_count("samples_most", d.most);
        json_number("largest_share", d.largest_share);
        json_end();
        return;
    }
    printf("%s on %s: %" PRId64 " clients with %" PRId64 " to %" PRId64
           " samples (%s, %.0f %% of one class in the mean), %" PRId64 " in a round\n",
           s->o.model->name, terminal_name(s->data.name), s->o.n_clients, d.least, d.most,
           terminal_name(s->o.partition), 100 * d.largest_share, s->o.per_round);
    if (s->o.clip > 0)
        printf("differential privacy of whole clients, with all of their samples; each takes part "
               "in a round with a chance of %" PRId64 " in %" PRId64 "\n",
               s->o.per_round, s->o.n_clients);
    fflush(stdout);
}

static void print_round_json(const simulation *s, const qn_federation_round *r) {
    json_begin();
    json_text("event", "round");
    json_count("round", r->round);
    json_count("clients_asked", r->n_asked);
    json_count("clients_answered", r->n_answered);
    json_count("clients_failed", r->n_failed);
    json_count("clients_late", r->n_late);
    json_count("samples", r->n_samples);
    json_number("train_loss", r->train_loss);
    if (r->has_test) {
        json_number("test_loss", r->test_loss);
        json_number("test_accuracy", r->test_accuracy);
    }
    json_count("bytes_down", r->bytes_down);
    json_count("bytes_up", r->bytes_up);
    if (s->o.clip > 0) {
        json_number("epsilon", r->epsilon);
        json_number("delta", s->o.delta);
        json_text("privacy_of", "clients");
    }
    if (r->seconds > 0) {
        json_number("simulated_seconds", r->seconds);
        json_number("joules", r->joules);
    }
    json_number("seconds", (double)r->ns * 1e-9);
    json_end();
}

enum { COST_TEXT = 64 };

/* Simulated time and energy, in units that fit. */
static const char *print_cost(double seconds, double joules, char text[COST_TEXT]) {
    static const struct {
        double least, unit;
        const char *name;
    } times[] = {{172800, 86400, "days"}, {7200, 3600, "h"}, {120, 60, "min"}, {0, 1, "s"}};
    int i = 0;
    while (seconds < times[i].least)
        i++;
    const bool is_large = joules >= 10000;
    qn_print(text, COST_TEXT, "%.1f %s, %.1f %s", seconds / times[i].unit, times[i].name,
             is_large ? joules / 1000 : joules, is_large ? "kJ" : "J");
    return text;
}

static void print_round(const simulation *s, const qn_federation_round *r) {
    char up[QN_SIZE_TEXT], cost[COST_TEXT], privacy[COST_TEXT] = "";
    if (s->is_json) {
        print_round_json(s, r);
        return;
    }
    printf("round %" PRId64 ": %" PRId64 " of %" PRId64 " clients, train loss %.4f", r->round,
           r->n_answered, r->n_asked, r->train_loss);
    if (r->has_test)
        printf(", test loss %.4f, %s %.2f %%", r->test_loss,
               s->o.personal ? "clients' accuracy" : "test accuracy", 100 * r->test_accuracy);
    printf(", %s sent", qn_text_print_size((uint64_t)r->bytes_up, up));
    if (s->o.clip > 0)
        qn_print(privacy, sizeof privacy, ", epsilon %.3g at delta %.3g", r->epsilon, s->o.delta);
    fputs(privacy, stdout);
    if (r->seconds > 0)
        printf(", simulated: %s", print_cost(r->seconds, r->joules, cost));
    printf(", %.2f s\n", (double)r->ns * 1e-9);
    if (r->n_late > 0)
        printf("  %" PRId64 " clients were late or wanted elsewhere\n", r->n_late);
    if (r->n_failed > 0)
        printf("  %" PRId64 " clients diverged and were left out; try a smaller --lr\n",
               r->n_failed);
    fflush(stdout);
}

static qn_status keep_point(simulation *s, const qn_federation_round *r) {
    if (!r->has_test || !arguments_has(s->a, "html"))
        return QN_OK;
    QN_TRY(
        qn_grow(qn_allocator_default(), &s->points, &s->room, s->n_points + 1, sizeof *s->points));
    s->points[s->n_points++] =
        (point){(double)r->round,  r->test_accuracy, r->test_loss, (double)r->bytes_up / 1048576,
                r->seconds / 3600, r->joules / 1000};
    return QN_OK;
}

static bool has_reached_target(const simulation *s, const qn_federation_round *r) {
    return arguments_has(s->a, "target") && r->has_test &&
           100 * r->test_accuracy >= number(s->a, "target");
}

/* What the accuracy took. */
static void print_target(const simulation *s, const qn_federation_round *r) {
    char up[QN_SIZE_TEXT], cost[COST_TEXT];
    if (s->is_json)
        return;
    printf("%.2f %% reached in round %" PRId64 ", with %s sent", 100 * r->test_accuracy, r->round,
           qn_text_print_size((uint64_t)r->bytes_up, up));
    if (r->seconds > 0)
        printf("; simulated: %s on all devices", print_cost(r->seconds, r->joules, cost));
    printf("\n");
}

/* saved: the round that is in the file. */
static qn_status tell_stopped(const char *save, int64_t saved) {
    return save && saved > 0 ? qn_fail(QN_ERROR_INTERRUPTED,
                                       "stopped; %s holds round %" PRId64
                                       "; the same command with --resume %s continues",
                                       save, saved, save)
                             : qn_fail(QN_ERROR_INTERRUPTED, "stopped; nothing was saved%s",
                                       save ? ", as no round was over" : " (--save)");
}

static qn_status run_rounds(simulation *s) {
    const char *save = arguments_get(s->a, "save");
    int64_t saved = 0;
    if (save)
        QN_TRY(qn_federation_keep_room(s->federation, s->pairs, save));
    while (qn_federation_rounds(s->federation) < s->o.n_rounds) {
        qn_federation_round r;
        const qn_status status = qn_federation_step(s->federation, &r);
        if (status == QN_ERROR_INTERRUPTED)
            return tell_stopped(save, saved);
        QN_TRY(status);
        print_round(s, &r);
        QN_TRY(keep_point(s, &r));
        if (save)
            QN_TRY(qn_federation_save(s->federation, s->pairs, save));
        saved = r.round;
        if (has_reached_target(s, &r)) {
            print_target(s, &r);
            return QN_OK;
        }
        if (qn_was_interrupted())
            return tell_stopped(save, saved);
    }
    return QN_OK;
}

/* ---- the page ---- */

static void draw(qn_document *d, const simulation *s, const char *title, const char *x_label,
                 double (*x_of)(const point *p), double *x, double *y) {
    const qn_chart chart = {
        .kind = QN_CHART_LINE, .title = title, .x_label = x_label, .y_label = "test accuracy (%)"};
    for (size_t i = 0; i < s->n_points; i++) {
        x[i] = x_of(&s->points[i]);
        y[i] = 100 * s->points[i].accuracy;
    }
    qn_document_begin_chart(d, &chart);
    qn_document_series(d, "test accuracy", (int64_t)s->n_points, x, y);
    qn_document_end_chart(d);
}

static double round_of(const point *p) {
    return p->round;
}

static double sent_of(const point *p) {
    return p->mib_up;
}

static double hours_of(const point *p) {
    return p->hours;
}

static double kilojoules_of(const point *p) {
    return p->kilojoules;
}

static void put_fleet(qn_document *d, const simulation *s, const point *last, double *x,
                      double *y) {
    char text[80];
    if (!s->o.fleet)
        return;
    qn_print(text, sizeof text, "%.2f h", last->hours);
    qn_document_figure(d, "Time, simulated", text, s->fleet.when ? s->fleet.when : "always");
    qn_print(text, sizeof text, "%.3g kJ", last->kilojoules);
    qn_document_figure(d, "Energy, simulated", text, s->fleet.kinds);
    draw(d, s, "Accuracy by time", "simulated hours", hours_of, x, y);
    draw(d, s, "Accuracy by energy", "all devices (kJ)", kilojoules_of, x, y);
}

static void put_page(qn_document *d, const simulation *s, double *x, double *y) {
    char text[80];
    const point *last = &s->points[s->n_points - 1];
    qn_document_about(d, NULL, s->o.n_threads);
    qn_print(text, sizeof text, "%.2f %%", 100 * last->accuracy);
    qn_document_figure(d, "Test accuracy", text, "of the last round");
    snprintf(text, sizeof text, "%" PRId64, s->o.n_clients);
    qn_document_figure(d, "Clients", text, s->o.partition);
    qn_print(text, sizeof text, "%.1f MiB", last->mib_up);
    qn_document_figure(d, "Sent to the server", text, arguments_get(s->a, "updates"));
    draw(d, s, "Accuracy by rounds", "round", round_of, x, y);
    draw(d, s, "Accuracy by bytes", "sent to the server (MiB)", sent_of, x, y);
    put_fleet(d, s, last, x, y);
}

static qn_status write_page(const simulation *s, const char *path) {
    const qn_allocator *heap = qn_allocator_default();
    double *x = NULL;
    qn_document *d;
    char title[160];
    if (s->n_points == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "--html: no round was tested, so there is no page");
    snprintf(title, sizeof title, "Federated training of %s on %s", s->o.model->name, s->data.name);
    QN_TRY(qn_allocate(heap, 2 * s->n_points, sizeof *x, &x));
    qn_status status = qn_document_create(NULL, title, &d);
    if (status == QN_OK) {
        put_page(d, s, x, x + s->n_points);
        status = qn_document_write(d, path);
        qn_document_destroy(d);
    }
    qn_release(heap, x, 2 * s->n_points, sizeof *x);
    return status;
}

static qn_status write_app(const simulation *s) {
    const char *folder = arguments_get(s->a, "out"), *wheel = arguments_get(s->a, "wheel");
    const qn_flower_options how = {folder,
                                   wheel,
                                   arguments_flag(s->a, "secure"),
                                   strcmp(arguments_get(s->a, "dp-where"), "client") == 0,
                                   arguments_get(s->a, "load"),
                                   arguments_get(s->a, "train-only")};
    if (!folder)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "quern federate app needs --out FOLDER; see quern federate --help");
    QN_TRY(qn_flower_write(&s->o, &how));
    printf("%s is a Flower app; its README.md says how to run it\n", terminal_name(folder));
    if (!wheel)
        printf("it also needs quern's wheel: --wheel FILE, or add it to its pyproject.toml\n");
    return QN_OK;
}

static qn_status simulate(simulation *s) {
    const char *html = arguments_get(s->a, "html");
    if (arguments_has(s->a, "train-only") || arguments_has(s->a, "load"))
        return qn_fail(QN_ERROR_ARGUMENT, "--train-only and --load are of quern federate app");
    if (arguments_flag(s->a, "secure") || arguments_has(s->a, "dp-where"))
        return qn_fail(QN_ERROR_ARGUMENT, "--secure and --dp-where are of quern federate app: in a "
                                          "simulation nobody is there to hide from");
    QN_TRY(open_simulation(s));
    qn_interrupt_watch(EXIT_FAILED);
    print_opening(s);
    QN_TRY(run_rounds(s));
    return html ? write_page(s, html) : QN_OK;
}

static qn_status act(simulation *s) {
    const bool is_app = strcmp(s->a->words[0], "app") == 0;
    if (!is_app && strcmp(s->a->words[0], "simulate") != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not an action: simulate, app", s->a->words[0]);
    QN_TRY(read_options(s));
    QN_TRY(open_data(s));
    return is_app ? write_app(s) : simulate(s);
}

static int run(const arguments *a) {
    simulation s = {.a = a, .is_json = arguments_flag(a, "json")};
    const qn_status status = act(&s);
    qn_federation_destroy(s.federation);
    qn_metadata_destroy(s.pairs);
    if (s.is_open)
        qn_data_close(&s.data);
    qn_known_data_deinit(&s.known);
    qn_release(qn_allocator_default(), s.points, s.room, sizeof *s.points);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_federate = {
    .name = "federate",
    .words = "ACTION",
    .least_words = 1,
    .most_words = 1,
    .summary = "Train one model from many devices' data",
    .description =
        "federate simulate --data DATA             server and clients in one process\n"
        "federate app --data DATA --out FOLDER     write a Flower app with the same settings\n"
        "\n"
        "The training samples are divided among --clients. In each round the server sends its\n"
        "network to --per-round of them; they train it on their own samples and send back what\n"
        "changed. The same options give the same bits, whatever the threads, and after --resume.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
    .makes_files = true,
};
