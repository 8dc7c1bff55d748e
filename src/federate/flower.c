/* See flower.h. The texts are files of share/flower, embedded; @WORDS@ in them are replaced. */
#include "federate/flower.h"

#include "base/embed.h"
#include "base/memory.h"
#include "base/status.h"
#include "data/npy_write.h"
#include "federate/partition/partition.h"
#include "format/output.h"
#include "os/heap.h"
#include "os/os.h"
#include "tensor/tensor.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

QN_EMBED(flower_project, QN_FLOWER "/pyproject.toml.in");
QN_EMBED(flower_readme, QN_FLOWER "/README.md.in");
QN_EMBED(flower_task, QN_FLOWER "/task.py");
QN_EMBED(flower_client, QN_FLOWER "/client_app.py");
QN_EMBED(flower_secure, QN_FLOWER "/secure.py");
QN_EMBED(flower_server, QN_FLOWER "/server_app.py");

/* The end of an empty file, too. */
static const struct {
    const char *path;
    const unsigned char *begin, *end;
} files[] = {
    {"README.md", flower_readme, flower_readme_end},
    {"quern_app/__init__.py", flower_task, flower_task},
    {"quern_app/task.py", flower_task, flower_task_end},
    {"quern_app/secure.py", flower_secure, flower_secure_end},
    {"quern_app/client_app.py", flower_client, flower_client_end},
    {"quern_app/server_app.py", flower_server, flower_server_end},
    /* last: an app is there when this is */
    {"pyproject.toml", flower_project, flower_project_end},
};

enum { N_FILES = sizeof files / sizeof files[0], WORD_BYTES = 32 };

typedef struct app {
    const qn_federation_options *o;
    const qn_flower_options *how;
    qn_partition partition;
    char folder[PATH_MAX], wheel[PATH_MAX], start[PATH_MAX]; /* from the root; wheel: "" for none */
    int file;                                                /* that is being written */
    qn_split split;
    void *sample;
} app;

static qn_status make_path(const app *a, const char *name, char path[PATH_MAX]) {
    if (snprintf(path, PATH_MAX, "%s/%s", a->folder, name) < PATH_MAX)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT, "%s: the path is too long", a->folder);
}

/* ---- texts ---- */

static const char *name_of(qn_server_rule rule) {
    static const char *const names[] = {"average", "momentum", "adam", "yogi"};
    return names[rule];
}

/* A whole number with a point, too: TOML's types are those that settings have. */
static void put_real(double number, qn_output *out) {
    qn_output_number(out, number, 9, "0.0");
    if (number == trunc(number) && fabs(number) < 1e9)
        qn_output_text(out, ".0");
}

/* What stands for a word between two @. */
static void put_word(const app *a, const char *word, qn_output *out) {
    const qn_federation_options *o = a->o;
    const struct {
        const char *word;
        int64_t count;
    } counts[] = {{"CLIENTS", o->n_clients}, {"PER_ROUND", o->per_round},
                  {"ROUNDS", o->n_rounds},   {"EPOCHS", o->local_epochs},
                  {"BATCH", o->batch},       {"SEED", (int64_t)o->seed}};
    const struct {
        const char *word;
        double number;
    } numbers[] = {{"RATE", o->rate},
                   {"MOMENTUM", o->momentum},
                   {"PROXIMAL", o->proximal},
                   {"SERVER_RATE", o->server_rate},
                   {"SERVER_MOMENTUM", o->server_momentum},
                   {"DP_CLIP", o->clip},
                   {"DP_NOISE", o->clip > 0 ? o->noise : 1},
                   {"DP_DELTA", o->clip > 0 ? o->delta : 1e-5}};
    const struct {
        const char *word, *text;
    } texts[] = {{"MODEL", o->model->name},
                 {"DATA", o->data->name},
                 {"FOLDER", a->folder},
                 {"PARTITION", o->partition},
                 {"SERVER", name_of(o->rule)},
                 {"PERSONAL", o->personal ? o->personal : ""},
                 {"START", a->start},
                 {"TRAIN_ONLY", a->how->train_only ? a->how->train_only : ""},
                 {"SECURE", a->how->is_secure ? "true" : "false"},
                 {"DP_WHERE", a->how->is_noise_local ? "client" : "server"}};
    for (size_t i = 0; i < sizeof counts / sizeof counts[0]; i++) {
        if (strcmp(word, counts[i].word) == 0)
            qn_output_count(out, counts[i].count);
    }
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++) {
        if (strcmp(word, numbers[i].word) == 0)
            put_real(numbers[i].number, out);
    }
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++) {
        if (strcmp(word, texts[i].word) == 0)
            qn_output_text(out, texts[i].text);
    }
    if (strcmp(word, "QUERN") == 0 && a->wheel[0]) {
        qn_output_text(out, ", \"quern @ file://");
        qn_output_text(out, a->wheel);
        qn_output_text(out, "\"");
    }
}

static qn_status write_text(void *context, qn_writer *writer) {
    const app *a = context;
    const char *at = (const char *)files[a->file].begin, *end = (const char *)files[a->file].end;
    qn_output out = qn_output_to_file(writer);
    while (at < end) {
        char word[WORD_BYTES];
        const char *sign = memchr(at, '@', (size_t)(end - at));
        const char *stop = sign ? sign : end;
        size_t n = 0;
        qn_output_bytes(&out, at, (size_t)(stop - at));
        if (!sign)
            break;
        while (n + 1 < WORD_BYTES && sign + 1 + n < end &&
               strchr("ABCDEFGHIJKLMNOPQRSTUVWXYZ_", sign[1 + n]))
            n++;
        memcpy(word, sign + 1, n);
        word[n] = 0;
        if (n > 0 && sign + 1 + n < end && sign[1 + n] == '@') {
            put_word(a, word, &out);
            at = sign + n + 2;
        } else {
            qn_output_text(&out, "@"); /* a decorator's */
            at = sign + 1;
        }
    }
    return out.status;
}

static qn_status write_texts(app *a) {
    char path[PATH_MAX];
    for (a->file = 0; a->file < N_FILES; a->file++) {
        QN_TRY(make_path(a, files[a->file].path, path));
        QN_TRY(qn_file_replace(path, write_text, a));
    }
    return QN_OK;
}

/* ---- data ---- */

static void put_list(qn_output *out, const char *key, const float *values, int n,
                     double otherwise) {
    qn_json_open(out, key, '[');
    for (int i = 0; i < n; i++)
        qn_json_number(out, NULL, (double)values[i]);
    if (n == 0)
        qn_json_number(out, NULL, otherwise);
    qn_json_close(out, ']');
}

static qn_status write_facts(void *context, qn_writer *writer) {
    const app *a = context;
    const qn_data_source *data = a->o->data;
    const qn_preparation *p = &data->preparation;
    qn_output out = qn_output_to_file(writer);
    qn_json_open(&out, NULL, '{');
    qn_json_count(&out, "clients", a->o->n_clients);
    qn_json_count(&out, "classes", p->n_classes);
    qn_json_flag(&out, "bytes", data->dtype == QN_U8);
    put_list(&out, "mean", p->mean, p->n_statistics, 0);
    put_list(&out, "std_dev", p->std_dev, p->n_statistics, 1);
    qn_json_open(&out, "input", '[');
    for (int i = 0; i < p->sample.rank; i++)
        qn_json_count(&out, NULL, p->sample.dims[i]);
    qn_json_close(&out, ']');
    qn_json_close(&out, '}');
    qn_output_text(&out, "\n");
    return out.status;
}

static qn_status read_sample(void *user, int64_t index, void *row) {
    const app *a = user;
    int32_t label;
    return a->o->data->read(a->o->data->self, a->split, index, row, &label);
}

static qn_status read_label(void *user, int64_t index, void *row) {
    const app *a = user;
    return a->o->data->read(a->o->data->self, a->split, index, a->sample, row);
}

static qn_status read_count(void *user, int64_t index, void *row) {
    memcpy(row, (const int64_t *)user + index, sizeof(int64_t));
    return QN_OK;
}

static qn_status write_counts(const app *a, const char *name, int64_t *counts, int64_t n) {
    char path[PATH_MAX];
    QN_TRY(make_path(a, name, path));
    return qn_npy_write(path, &(qn_npy_rows){.kind = "<i8",
                                             .n_rows = n,
                                             .row_bytes = sizeof *counts,
                                             .user = counts,
                                             .read = read_count});
}

static qn_status write_split(app *a, qn_split split, const char *x_name, const char *y_name) {
    const qn_data_source *data = a->o->data;
    char path[PATH_MAX];
    const qn_npy_rows x = {.kind = data->dtype == QN_U8 ? "|u1" : "<f4",
                           .n_rows = data->n_samples[split],
                           .row = data->sample,
                           .row_bytes =
                               (size_t)qn_shape_count(data->sample) * qn_dtype_bytes(data->dtype),
                           .user = a,
                           .read = read_sample};
    const qn_npy_rows y = {.kind = "<i4",
                           .n_rows = data->n_samples[split],
                           .row_bytes = sizeof(int32_t),
                           .user = a,
                           .read = read_label};
    a->split = split;
    QN_TRY(make_path(a, x_name, path));
    QN_TRY(qn_npy_write(path, &x));
    QN_TRY(make_path(a, y_name, path));
    return qn_npy_write(path, &y);
}

static qn_status write_data(app *a) {
    char path[PATH_MAX];
    QN_TRY(write_split(a, QN_TRAIN, "data/train-x.npy", "data/train-y.npy"));
    QN_TRY(write_split(a, QN_TEST, "data/test-x.npy", "data/test-y.npy"));
    QN_TRY(write_counts(a, "data/first.npy", a->partition.first, a->partition.n_clients + 1));
    QN_TRY(write_counts(a, "data/order.npy", a->partition.samples, a->partition.n_samples));
    QN_TRY(make_path(a, "data/facts.json", path));
    return qn_file_replace(path, write_facts, a);
}

/* ---- the whole ---- */

static qn_status check(const qn_federation_options *o, const qn_flower_options *how) {
    QN_TRY(qn_federation_check(o));
    if (o->drop > 0 || o->code != QN_UPDATE_FULL || o->fleet || o->memory_budget_bytes > 0 ||
        o->numerics)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "only the simulation knows clients that drop out, other --updates "
                       "than full, --devices, --memory and --numerics");
    if (how->is_secure && o->clip > 0)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "Flower's parts for secure aggregation and for differential privacy do not "
                       "work together; give --secure or --dp-clip");
    if (how->is_secure && o->per_round < 3)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "secure aggregation takes at least 3 clients in a round (--per-round)");
    if (o->personal && strpbrk(o->personal, "\"\\\n"))
        return qn_fail(QN_ERROR_ARGUMENT, "--personal %s: no tensor has such a name", o->personal);
    if (how->train_only && strpbrk(how->train_only, "\"\\\n"))
        return qn_fail(QN_ERROR_ARGUMENT, "--train-only %s: no tensor has such a name",
                       how->train_only);
    if (o->data->n_samples[QN_TEST] < 1)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s has no test samples, on which the server tests; hold some out "
                       "(--holdout 0.1)",
                       o->data->name);
    return QN_OK;
}

/* An app that was not finished is written again: it has its folder of programs and no project. */
static qn_status check_names(const app *a) {
    static const char *const names[] = {"pyproject.toml", "README.md", "data"};
    char path[PATH_MAX];
    QN_TRY(make_path(a, "quern_app", path));
    const int n = qn_path_is_folder(path) ? 1 : sizeof names / sizeof *names;
    for (int i = 0; i < n; i++) {
        QN_TRY(make_path(a, names[i], path));
        if (qn_path_bytes(path) >= 0)
            return qn_fail(QN_ERROR_ARGUMENT, "%s is there already; name another folder", path);
    }
    return QN_OK;
}

static qn_status make_folders(app *a, const char *folder) {
    static const char *const names[] = {"quern_app", "data"};
    char path[PATH_MAX];
    QN_TRY(qn_folder_create(folder));
    QN_TRY(qn_path_resolve(folder, a->folder, sizeof a->folder));
    QN_TRY(check_names(a));
    for (int i = 0; i < 2; i++) {
        QN_TRY(make_path(a, names[i], path));
        QN_TRY(qn_folder_create(path));
    }
    return QN_OK;
}

static qn_status write_app(app *a, const char *folder) {
    const qn_federation_options *o = a->o;
    QN_TRY(make_folders(a, folder));
    QN_TRY(qn_partition_data(o->allocator, o->partition, o->data, o->n_clients, o->seed,
                             &a->partition));
    QN_TRY(write_data(a));
    return write_texts(a);
}

qn_status qn_flower_write(const qn_federation_options *options, const qn_flower_options *how) {
    const qn_allocator *heap = qn_allocator_default();
    app *a;
    QN_TRY(check(options, how));
    QN_TRY(qn_allocate(heap, 1, sizeof *a, &a));
    a->o = options;
    a->how = how;
    const size_t bytes =
        (size_t)qn_shape_count(options->data->sample) * qn_dtype_bytes(options->data->dtype);
    qn_status status = qn_allocate(heap, bytes, 1, &a->sample);
    if (status == QN_OK && how->wheel)
        status = qn_path_resolve(how->wheel, a->wheel, sizeof a->wheel);
    if (status == QN_OK && how->start)
        status = qn_path_resolve(how->start, a->start, sizeof a->start);
    if (status == QN_OK)
        status = write_app(a, how->folder);
    qn_partition_destroy(&a->partition);
    qn_release(heap, a->sample, bytes, 1);
    qn_release(heap, a, 1, sizeof *a);
    return status;
}
