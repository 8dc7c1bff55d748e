/* See service.h. start stays in the foreground. The other actions work while it runs, and without.
 */
#include "cli/learn/service.h"

#include "base/decimal.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "learn/service.h"
#include "os/files/record_file.h"
#include "os/files/stream.h"
#include "os/os.h"
#include "os/process/group.h"
#include "os/process/interrupt.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const int64_t usual_memory = 200 << 20, usual_disk = 500 << 20;

/* Half of what a control group leaves, where that is less. */
static int64_t usual_memory_here(void) {
    qn_group group;
    qn_group_read("", &group);
    return group.left_bytes >= 0 && group.left_bytes / 2 < usual_memory ? group.left_bytes / 2
                                                                        : usual_memory;
}

static const char *folder_of(const arguments *a) {
    return a->words[1];
}

static bool is_json(const arguments *a) {
    return arguments_flag(a, "json");
}

/* ---- start ---- */

static void say(void *user, int64_t second, const char *text) {
    const arguments *a = user;
    char date[QN_DATE_TEXT];
    qn_clock_print_second(second, date);
    if (!is_json(a)) {
        printf("%s  %s\n", date, terminal_name(text));
        fflush(stdout);
        return;
    }
    json_begin();
    json_text("event", "log");
    json_text("date", date);
    json_text("text", text);
    json_end();
}

static bool was_stopped(void *user) {
    (void)user;
    return qn_was_interrupted();
}

static void wait_for(int64_t ns) {
    const int64_t end = qn_clock_ns() + ns;
    while (qn_clock_ns() < end && !qn_was_interrupted())
        qn_in_stream_pause();
}

static qn_status serve(const arguments *a, qn_service *service) {
    qn_learn_turn turn = QN_TURN_WORKED;
    int64_t rest_ns;
    while (!qn_was_interrupted()) {
        QN_TRY(qn_service_turn(service, &turn, &rest_ns));
        if (turn != QN_TURN_WORKED && arguments_flag(a, "once"))
            break;
        if (rest_ns > 0)
            wait_for(rest_ns);
    }
    return qn_service_keep(service);
}

static qn_status images_of(const arguments *a, const char *name, const char **folder) {
    const char *data = arguments_has(a, name) ? arguments_get(a, name) : NULL;
    *folder = NULL;
    if (!data)
        return QN_OK;
    *folder = strncmp(data, "images:", 7) == 0 ? data + 7 : data;
    if (qn_path_is_folder(*folder))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "--%s %s: it must be images:DIR, a folder with CLASS/FILE",
                   name, data);
}

static double number_of(const arguments *a, const char *name) {
    return arguments_has(a, name) ? qn_decimal_read(arguments_get(a, name), NULL) : 0;
}

static int64_t count_or(const arguments *a, const char *name, int64_t otherwise) {
    return arguments_has(a, name) ? arguments_count(a, name) : otherwise;
}

static qn_status start(const arguments *a) {
    qn_service *service;
    qn_service_options o = {
        .folder = folder_of(a),
        .model = arguments_has(a, "model") ? arguments_get(a, "model") : NULL,
        .n_kept = count_or(a, "keep", 0),
        .batch = count_or(a, "batch", 0),
        .seed = count_or(a, "seed", 0),
        .n_fresh = arguments_count(a, "fresh"),
        .memory_bytes = count_or(a, "memory", usual_memory_here()),
        .disk_bytes = count_or(a, "disk", usual_disk),
        .n_threads = (int)count_or(a, "threads", 0),
        .when = arguments_get(a, "when"),
        .day_joules = number_of(a, "joules"),
        .day_seconds = 60 * number_of(a, "minutes"),
        .watts = qn_decimal_read(arguments_get(a, "watts"), NULL),
        .power_watts = qn_decimal_read(arguments_get(a, "power"), NULL),
        .root = arguments_get(a, "sysroot"),
        .user = (void *)(uintptr_t)a,
        .said = say,
        .should_stop = was_stopped,
    };
    QN_TRY(images_of(a, "data", &o.inbox));
    QN_TRY(images_of(a, "old", &o.old));
    if (!o.inbox)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "start needs --data images:INBOX, a folder to learn from");
    qn_interrupt_watch(EXIT_FAILED);
    QN_TRY(qn_service_open(&o, &service));
    const qn_status status = serve(a, service);
    qn_service_close(service);
    return status;
}

/* ---- looking ---- */

static bool is_running(const char *folder) {
    char path[QN_STORE_PATH];
    qn_record_file *lock;
    const bool is_free =
        qn_record_file_open(NULL, qn_store_path(folder, "lock", path), &lock) == QN_OK;
    if (is_free)
        qn_record_file_close(lock);
    return !is_free;
}

static void print_status(const char *folder, const qn_learner_state *state, int64_t taken,
                         int64_t fresh) {
    const char *now = is_running(folder) ? "runs" : "does not run";
    printf("%s: the service %s%s\n", terminal_name(folder), now,
           qn_service_is_paused(folder) ? ", paused" : "");
    printf("  version %" PRId64 " is in use; %" PRId64 " samples were taken, %" PRId64
           " since the last round\n",
           state->version, taken, fresh);
    if (state->n_steps > 0)
        printf("  a round is at step %" PRId64 " of %" PRId64 "\n", state->step, state->n_steps);
}

static qn_status look(const arguments *a, qn_store *store) {
    const char *folder = folder_of(a);
    qn_learner_state state;
    int64_t taken, fresh;
    QN_TRY(qn_store_get_state(store, &state, NULL, NULL));
    QN_TRY(qn_store_get(store, "taken", 0, &taken));
    QN_TRY(qn_store_get(store, "fresh", 0, &fresh));
    if (!is_json(a)) {
        print_status(folder, &state, taken, fresh);
        return QN_OK;
    }
    json_begin();
    json_text("event", "service");
    json_flag("runs", is_running(folder));
    json_flag("paused", qn_service_is_paused(folder));
    json_count("version", state.version);
    json_count("taken", taken);
    json_count("fresh", fresh);
    json_count("step", state.step);
    json_count("steps", state.n_steps);
    json_end();
    return QN_OK;
}

static qn_status print_version(void *user, const qn_stored_version *v) {
    char date[QN_DATE_TEXT];
    qn_clock_print_second(v->second, date);
    if (!is_json(user)) {
        printf("version %-4" PRId64 " %s  %" PRId64 " steps, %.1f s, %.0f J; recent +%" PRId64
               " -%" PRId64 " of %" PRId64 ", old +%" PRId64 " -%" PRId64 " of %" PRId64 "%s\n",
               v->number, date, v->n_steps, v->seconds, v->joules, v->recent.n_better,
               v->recent.n_worse, v->recent.n, v->old.n_better, v->old.n_worse, v->old.n,
               v->has_weights ? "" : " (weights not kept)");
        return QN_OK;
    }
    json_begin();
    json_text("event", "version");
    json_count("version", v->number);
    json_text("date", date);
    json_count("steps", v->n_steps);
    json_number("seconds", v->seconds);
    json_number("joules", v->joules);
    json_count("recent_samples", v->recent.n);
    json_count("recent_became_right", v->recent.n_better);
    json_count("recent_became_wrong", v->recent.n_worse);
    json_count("old_samples", v->old.n);
    json_count("old_became_right", v->old.n_better);
    json_count("old_became_wrong", v->old.n_worse);
    json_flag("has_weights", v->has_weights);
    json_end();
    return QN_OK;
}

static qn_status print_sample(void *user, const qn_stored_sample *s) {
    const char *origin = s->origin == QN_ORIGIN_OLD ? "old" : "user";
    const char *use = s->is_held_out ? "judges" : "trains";
    if (!is_json(user)) {
        printf("%-8" PRId64 " %-4s %s  since version %-3" PRId64 " %s\n", s->id, origin, use,
               s->version, terminal_name(s->name));
        return QN_OK;
    }
    json_begin();
    json_text("event", "sample");
    json_count("id", s->id);
    json_text("origin", origin);
    json_text("use", use);
    json_count("class", s->label);
    json_count("version", s->version);
    json_text("name", s->name);
    json_end();
    return QN_OK;
}

static qn_status print_log(void *user, int64_t second, const char *text) {
    say(user, second, text);
    return QN_OK;
}

/* ---- changing ---- */

/* What the user did stands in the log, too. */
static qn_status note(qn_store *store, const char *what, int64_t number) {
    char text[80];
    snprintf(text, sizeof text, "%s", what);
    if (number >= 0)
        snprintf(text, sizeof text, "%s %" PRId64, what, number);
    return qn_store_log(store, qn_clock_local_second(), text);
}

/* So that DIR/model.safetensors is the version in use; a service that runs does that itself. */
static qn_status settle(const char *folder) {
    const qn_service_options o = {.folder = folder, .when = "cool"};
    qn_service *service;
    if (is_running(folder))
        return QN_OK;
    QN_TRY(qn_service_open(&o, &service));
    const qn_status status = qn_service_load(service);
    qn_service_close(service);
    return status;
}

static void print_back(const arguments *a, const char *what, int64_t version) {
    if (!is_json(a)) {
        printf("%s; version %" PRId64 " is in use\n", what, version);
        return;
    }
    json_begin();
    json_text("event", a->words[0]);
    json_count("version", version);
    json_end();
}

static qn_status undo(const arguments *a, qn_store *store) {
    int64_t version;
    QN_TRY(qn_store_undo(store, &version));
    QN_TRY(note(store, "the user went back to version", version));
    QN_TRY(settle(folder_of(a)));
    print_back(a, "went back", version);
    return QN_OK;
}

static qn_status forget(const arguments *a, qn_store *store) {
    int64_t came;
    char *end = NULL;
    qn_learner_state state;
    const long long id = a->n_words > 2 ? strtoll(a->words[2], &end, 10) : 0;
    if (id < 1 || *end)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "forget needs the number of a sample: quern learn "
                       "samples %s lists them",
                       folder_of(a));
    QN_TRY(qn_store_forget(store, id, arguments_flag(a, "relearn"), &came));
    QN_TRY(qn_store_get_state(store, &state, NULL, NULL));
    QN_TRY(note(store, "the user deleted sample", id));
    if (arguments_flag(a, "relearn"))
        QN_TRY(note(store, "learns again from the rest, from version", state.version));
    QN_TRY(settle(folder_of(a)));
    if (state.version > came && !is_json(a))
        printf("versions %" PRId64 " to %" PRId64
               " may have learned from it; --relearn goes back\n",
               came + 1, state.version);
    print_back(a, "deleted", state.version);
    if (!is_json(a))
        puts("it is overwritten in learn.db; blocks that its journal, the inbox or a flash disk's "
             "controller let go are out of reach");
    return QN_OK;
}

static qn_status list_versions(const arguments *a, qn_store *store) {
    return qn_store_each_version(store, (void *)(uintptr_t)a, print_version);
}

static qn_status list_samples(const arguments *a, qn_store *store) {
    return qn_store_each_sample(store, (void *)(uintptr_t)a, print_sample);
}

static qn_status list_log(const arguments *a, qn_store *store) {
    return qn_store_each_log(store, arguments_count(a, "last"), (void *)(uintptr_t)a, print_log);
}

static qn_status pause(const arguments *a, qn_store *store) {
    QN_TRY(qn_service_set_paused(folder_of(a), true));
    return note(store, "paused by the user", -1);
}

static qn_status resume(const arguments *a, qn_store *store) {
    QN_TRY(qn_service_set_paused(folder_of(a), false));
    return note(store, "resumed by the user", -1);
}

/* ---- all ---- */

static const struct {
    const char *name;
    qn_status (*act)(const arguments *a, qn_store *store);
} actions[] = {{"start", NULL},           {"status", look},  {"versions", list_versions},
               {"samples", list_samples}, {"log", list_log}, {"pause", pause},
               {"resume", resume},        {"undo", undo},    {"forget", forget}};

enum { N_ACTIONS = sizeof actions / sizeof actions[0] };

static int find_action(const char *name) {
    for (int i = 0; i < N_ACTIONS; i++) {
        if (strcmp(actions[i].name, name) == 0)
            return i;
    }
    return -1;
}

bool learn_needs_folder(const char *action) {
    return strcmp(action, "status") != 0 && find_action(action) >= 0;
}

qn_status learn_in_folder(const arguments *a) {
    const int i = find_action(a->words[0]);
    const int most = i >= 0 && actions[i].act == forget ? 3 : 2;
    qn_store store;
    if (i < 0)
        return qn_fail(QN_ERROR_ARGUMENT, "%s DIR is not an action: " LEARN_ACTIONS, a->words[0]);
    if (a->n_words < 2 || a->n_words > most)
        return qn_fail(QN_ERROR_ARGUMENT, "quern learn %s DIR%s", a->words[0],
                       most == 3 ? " ID" : "");
    if (!actions[i].act)
        return start(a);
    QN_TRY(qn_store_open(NULL, folder_of(a), true, 0, &store));
    const qn_status status = actions[i].act(a, &store);
    qn_store_close(&store);
    return status;
}
