/* See run_folder.h. */
#include "cli/train/run_folder.h"

#include "base/memory.h"
#include "base/print.h"
#include "base/status.h"
#include "format/output.h"
#include "os/heap.h"
#include "os/os.h"
#include "report/document.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char last_name[] = "last.safetensors", best_name[] = "best.safetensors",
                  log_name[] = "log.jsonl", page_name[] = "report.html";

enum { MOST_RUNS = 1000000 };

static qn_status join(char path[PATH_MAX], const char *folder, const char *name) {
    const int n = snprintf(path, PATH_MAX, "%s/%s", folder, name);
    return n < PATH_MAX ? QN_OK
                        : qn_fail(QN_ERROR_ARGUMENT, "%.200s: the path is too long", folder);
}

/* ---- the folder ---- */

/* "lenet5", "model" of "nets/model.onnx". */
static void name_of(const char *model, char name[128]) {
    const char *slash = strrchr(model, '/'), *from = slash ? slash + 1 : model;
    const char *end = strstr(from, ".onnx");
    snprintf(name, 128, "%.*s", (int)(end ? (size_t)(end - from) : strlen(from)), from);
}

static qn_status make(run_folder *f, const char *place, const char *model) {
    char name[128];
    bool is_new = false;
    name_of(model, name);
    QN_TRY(qn_folder_create(place));
    for (int i = 1; i <= MOST_RUNS && !is_new; i++) {
        const int n = snprintf(f->path, sizeof f->path, "%s/%s-%d", place, name, i);
        if (n >= (int)sizeof f->path)
            return qn_fail(QN_ERROR_ARGUMENT, "%.200s: the path is too long", place);
        QN_TRY(qn_folder_create_new(f->path, &is_new));
    }
    f->is_new = is_new;
    return is_new ? QN_OK
                  : qn_fail(QN_ERROR_IO, "%s: there are %d runs of %s; remove some", place,
                            MOST_RUNS, name);
}

/* Whether a checkpoint is the last of a run's folder. */
static bool find_resumed(run_folder *f, const char *resume) {
    char log[PATH_MAX];
    const char *slash = resume ? strrchr(resume, '/') : NULL;
    if (!slash || strcmp(slash + 1, last_name) != 0)
        return false;
    snprintf(f->path, sizeof f->path, "%.*s", (int)(slash - resume), resume);
    if (join(log, f->path, log_name) == QN_OK && qn_path_is_file(log))
        return true;
    *f->path = 0;
    return false;
}

qn_status run_folder_open(run_folder *f, const char *model, const char *resume) {
    const char *place = getenv("QUERN_RUNS");
    *f = (run_folder){.is_new = false};
    if (place && strcmp(place, "none") == 0)
        return QN_OK;
    if (!find_resumed(f, resume)) {
        const qn_status made = make(f, place && *place ? place : "runs", model);
        if (made != QN_OK) {
            *f->path = 0;
            return qn_fail_within(
                made, "the run has no place to be kept (--save FILE names one, --no-save goes "
                      "without)");
        }
    }
    QN_TRY(join(f->last, f->path, last_name));
    return join(f->best, f->path, best_name);
}

/* ---- the log ---- */

static qn_status put_log(void *user, const void *data, size_t bytes) {
    return qn_out_stream_put(user, data, bytes);
}

static qn_output begin_line(run_folder *f, const char *event) {
    qn_output out = {.user = f->log, .put = put_log};
    qn_json_open(&out, NULL, '{');
    qn_json_text(&out, "event", event);
    return out;
}

/* After a failure nothing is written any more. */
static qn_status end_line(run_folder *f, qn_output *out) {
    qn_json_close(out, '}');
    qn_output_text(out, "\n");
    if (out->status == QN_OK)
        out->status = qn_out_stream_flush(f->log);
    if (out->status == QN_OK)
        return QN_OK;
    const qn_status status = out->status;
    (void)qn_out_stream_close(f->log);
    f->log = NULL;
    return status;
}

qn_status run_folder_begin(run_folder *f, const qn_metadata *pairs, int64_t first_step) {
    char path[PATH_MAX];
    if (!*f->path)
        return QN_OK;
    QN_TRY(join(path, f->path, log_name));
    const int64_t bytes = qn_path_bytes(path);
    QN_TRY(qn_out_stream_open(NULL, path, bytes > 0 ? bytes : 0, &f->log));
    qn_output out = begin_line(f, "begin");
    qn_json_text(&out, "version", qn_version());
    qn_json_count(&out, "step", first_step);
    qn_json_open(&out, "settings", '{');
    for (int i = 0; i < qn_metadata_count(pairs); i++) {
        const char *key, *value;
        qn_metadata_at(pairs, i, &key, &value);
        if (strlen(value) < 1024) /* no vocabularies */
            qn_json_text(&out, key, value);
    }
    qn_json_close(&out, '}');
    return end_line(f, &out);
}

static void put_metrics(qn_output *out, const char *split, const qn_metrics *metrics) {
    char name[64];
    for (int i = 0; metrics && i < metrics->n; i++) {
        snprintf(name, sizeof name, "%s_%s", split, metrics->list[i].name);
        qn_json_number(out, name, metrics->list[i].value);
    }
}

static qn_status keep_point(run_folder *f, const run_point *point) {
    QN_TRY(qn_grow(qn_allocator_default(), &f->points, &f->capacity, f->n_points + 1,
                   sizeof *f->points));
    f->points[f->n_points++] = *point;
    return QN_OK;
}

qn_status run_folder_note(run_folder *f, const qn_training_event *e, const progress *p) {
    const double loss = p->n_epoch_steps ? p->epoch_loss / (double)p->n_epoch_steps : NAN;
    const qn_metrics *named = e->validation ? e->validation : e->test;
    if (!*f->path)
        return QN_OK;
    if (named && named->n > 0)
        snprintf(f->metric, sizeof f->metric, "%s", named->list[0].name);
    const run_point point = {(double)e->step, loss,
                             e->validation ? e->validation->list[0].value : NAN,
                             e->test ? e->test->list[0].value : NAN};
    QN_TRY(keep_point(f, &point));
    if (!f->log)
        return QN_OK;
    qn_output out = begin_line(f, "epoch");
    qn_json_count(&out, "epoch", e->epoch);
    qn_json_count(&out, "step", e->step);
    qn_json_number(&out, "train_loss", loss);
    put_metrics(&out, "validation", e->validation);
    put_metrics(&out, "test", e->test);
    qn_json_number(&out, "seconds", (double)(qn_clock_ns() - p->begin_ns) * 1e-9);
    return end_line(f, &out);
}

/* ---- the page ---- */

static void draw(qn_document *d, const run_folder *f, const char *title, const char *y_label,
                 const size_t *fields, const char *const *names, int n_fields) {
    const qn_chart chart = {
        .kind = QN_CHART_LINE, .title = title, .x_label = "step", .y_label = y_label};
    double *x = malloc(2 * f->n_points * sizeof *x), *y = x ? x + f->n_points : NULL;
    if (!x) {
        qn_document_fail(d, qn_fail_memory(2 * f->n_points * sizeof *x));
        return;
    }
    qn_document_begin_chart(d, &chart);
    for (int k = 0; k < n_fields; k++) {
        bool is_there = false;
        for (size_t i = 0; i < f->n_points; i++) {
            x[i] = f->points[i].step;
            memcpy(&y[i], (const char *)&f->points[i] + fields[k], sizeof y[i]);
            is_there |= !isnan(y[i]);
        }
        if (is_there)
            qn_document_series(d, names[k], (int64_t)f->n_points, x, y);
    }
    qn_document_end_chart(d);
    free(x);
}

static void put_page(qn_document *d, const run_folder *f, const qn_training_state *s,
                     const char *how) {
    char text[96];
    const size_t losses[] = {offsetof(run_point, train_loss)};
    const size_t measured[] = {offsetof(run_point, validation), offsetof(run_point, test)};
    const char *const loss_names[] = {"training loss"};
    const char *const names[] = {"validation", "test"};
    qn_document_text(d, how);
    snprintf(text, sizeof text, "%lld", (long long)s->saved_step);
    qn_document_figure(d, "Last checkpoint", text, "step");
    if (s->best.step >= 0) {
        qn_print(text, sizeof text, "%.4f", s->best.value);
        qn_document_figure(d, "Best", text, s->best.metric);
        snprintf(text, sizeof text, "%lld", (long long)s->best.step);
        qn_document_figure(d, "Best checkpoint", text, "step");
    }
    if (f->n_points == 0)
        return;
    draw(d, f, "Training loss", "mean of the epoch", losses, loss_names, 1);
    if (*f->metric)
        draw(d, f, "Measured", f->metric, measured, names, 2);
}

static qn_status write_page(const run_folder *f, const qn_training_state *s, const char *title,
                            const char *how) {
    char path[PATH_MAX];
    qn_document *d;
    QN_TRY(join(path, f->path, page_name));
    QN_TRY(qn_document_create(NULL, title, &d));
    put_page(d, f, s, how);
    const qn_status status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}

qn_status run_folder_end(run_folder *f, const qn_training_state *state, const char *title,
                         const char *how) {
    if (!*f->path)
        return QN_OK;
    if (f->log) {
        qn_output out = begin_line(f, "end");
        qn_json_text(&out, "how", how);
        qn_json_count(&out, "step", state->saved_step);
        qn_json_count(&out, "best_step", state->best.step);
        QN_TRY(end_line(f, &out));
    }
    return write_page(f, state, title, how);
}

/* A log of nothing that was kept is nothing to keep. */
static void remove_vain(const run_folder *f) {
    char log[PATH_MAX];
    if (!qn_path_is_file(f->last) && !qn_path_is_file(f->best) &&
        join(log, f->path, log_name) == QN_OK)
        qn_file_remove(log);
    qn_folder_remove_empty(f->path);
}

void run_folder_close(run_folder *f) {
    (void)qn_out_stream_close(f->log);
    qn_release(qn_allocator_default(), f->points, f->capacity, sizeof *f->points);
    if (f->is_new)
        remove_vain(f);
    *f = (run_folder){.is_new = false};
}

/* ---- finding ---- */

qn_status run_folder_find(const char *path, const char *of_run, char found[PATH_MAX],
                          const char **what) {
    *what = "the best by its measurements";
    if (strcmp(of_run, "best") == 0) {
        QN_TRY(join(found, path, best_name));
        if (qn_path_is_file(found))
            return QN_OK;
    }
    *what = "the last";
    QN_TRY(join(found, path, last_name));
    if (qn_path_is_file(found))
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "%s is a folder without %s, so none of a run of quern train; name a checkpoint",
                   path, last_name);
}
