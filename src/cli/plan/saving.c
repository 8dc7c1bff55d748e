/* Plans as files: quern plan --save and --load; see plan.h. */
#include "cli/model.h"
#include "cli/plan/plan.h"
#include "os/heap.h"

#include "base/status.h"

#include <stdlib.h>
#include <string.h>

/* ---- saving ---- */

/* A plan without a budget as one whose nodes run once each. */
static qn_status take_default(qn_plan_file *file, const planning *p, const qn_report_program *from,
                              qn_saved_program *saved) {
    const qn_allocator *a = qn_allocator_default();
    qn_sequence sequence;
    qn_budget_plan made = {0};
    QN_TRY(qn_sequence_base(a, from->base, &sequence));
    qn_status status = qn_budget_plan_make(a, from->base, p->machine, &sequence, &made);
    if (status == QN_OK)
        status = qn_saved_take(&file->memory, from->name, from->base, &made, saved);
    qn_budget_plan_deinit(&made);
    qn_sequence_deinit(&sequence);
    return status;
}

static qn_status take_programs(qn_plan_file *file, const planning *p) {
    const qn_plan_report *r = &p->report;
    qn_saved_program *programs =
        qn_arena_allocate(&file->memory, (size_t)r->n_programs, sizeof *programs);
    if (!programs)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < r->n_programs; i++) {
        const qn_report_program *from = &r->programs[i];
        QN_TRY(from->budget ? qn_saved_take(&file->memory, from->name, from->base, from->budget,
                                            &programs[i])
                            : take_default(file, p, from, &programs[i]));
        programs[i].micro_batch = from->micro_batch;
    }
    file->plan = (qn_saved_plan){r->n_threads, r->isa, r->n_programs, programs};
    return QN_OK;
}

/* As the settings of the run are, and no more: what the task found out is found out again. */
static qn_status take_settings(qn_plan_file *file, const planning *p) {
    const int n = option_count(p->settings.command);
    file->settings = qn_arena_allocate(&file->memory, (size_t)n, sizeof *file->settings);
    if (!file->settings)
        return QN_ERROR_MEMORY;
    for (int i = 0; i < n; i++) {
        if (p->settings.values[i])
            file->settings[file->n_settings++] =
                (qn_plan_setting){option_at(p->settings.command, i)->name, p->settings.values[i]};
    }
    return QN_OK;
}

qn_status plan_save(const planning *p, const char *path) {
    qn_plan_file file;
    qn_plan_file_init(&file, NULL);
    file.model = p->report.model;
    file.budget_bytes = p->report.budget_bytes;
    qn_status status = take_settings(&file, p);
    if (status == QN_OK)
        status = take_programs(&file, p);
    if (status == QN_OK)
        status = qn_plan_file_write(&file, path);
    qn_plan_file_deinit(&file);
    return status;
}

/* ---- loading ---- */

/* The file's settings stand where nothing was given; what was given must say the same. */
static qn_status use_settings(planning *p, const qn_plan_file *file) {
    for (size_t i = 0; i < file->n_settings; i++) {
        const qn_plan_setting *s = &file->settings[i];
        const int row = option_find(p->a->command, s->key);
        if (row < 0 || !option_at(p->a->command, row)->is_kept)
            return qn_fail(QN_ERROR_FORMAT, "there is no setting %s", s->key);
        const char *given = p->a->values[row];
        if (given && strcmp(given, s->value) != 0)
            return qn_fail(
                QN_ERROR_ARGUMENT,
                "--%s is %s, but the plan was made with %s; leave it out, or make a new plan",
                s->key, given, s->value);
        QN_TRY(settings_set(&p->settings, s->key, s->value));
    }
    return QN_OK;
}

static qn_status find_model(planning *p, const qn_plan_file *file) {
    if (p->a->n_words > 0 && strcmp(p->a->words[0], file->model) != 0)
        return qn_fail(QN_ERROR_ARGUMENT, "the plan is of %s, not of %s", file->model,
                       p->a->words[0]);
    const char *data = NULL;
    for (size_t i = 0; i < file->n_settings; i++)
        data = strcmp(file->settings[i].key, "data") == 0 ? file->settings[i].value : data;
    model_read_options(p->a);
    QN_TRY(model_read_plan(file));
    return model_find(file->model, data, &p->model) == QN_OK ? QN_OK : QN_ERROR_FORMAT;
}

static qn_status load(planning *p, const qn_plan_file *file) {
    QN_TRY(find_model(p, file));
    QN_TRY(settings_resolve(p->a, p->model, NULL, &p->settings));
    QN_TRY(use_settings(p, file));
    if (p->n_threads == 0)
        p->n_threads = file->plan.n_threads;
    if (p->budget_bytes == 0)
        p->budget_bytes = file->budget_bytes;
    QN_TRY(planning_open(p));
    return planning_fill(p);
}

qn_status plan_load(planning *p, const char *path) {
    QN_TRY(qn_plan_file_read(&p->file, path));
    const qn_status status = load(p, &p->file);
    return status == QN_OK ? QN_OK : qn_fail_within(status, "%s", path);
}
