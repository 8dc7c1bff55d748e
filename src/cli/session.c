/* See session.h. */
#include "cli/session.h"

#include "base/status.h"

#include <stdio.h>
#include <string.h>

static void write_log(void *user, int level, const char *text) {
    (void)user;
    fprintf(stderr, "quern: %s%s\n", level > 0 ? "warning: " : "", text);
}

const qn_log session_log = {NULL, write_log};

void session_init(session *s) {
    *s = (session){.model = NULL};
    s->allocator = qn_counter_init(&s->counter, NULL);
}

void session_deinit(session *s) {
    qn_task_close(s->task);
    qn_metadata_destroy(s->pairs);
    qn_metadata_destroy(s->kept);
}

qn_status session_begin(session *s, const char *model, const char *path) {
    s->model = qn_model_find(model);
    if (!s->model)
        return QN_ERROR_ARGUMENT;
    if (path)
        QN_TRY(qn_checkpoint_read(&s->allocator, path, &s->kept));
    return qn_metadata_create(&s->allocator, &s->pairs);
}

qn_status session_keep_pairs(session *s) {
    for (int i = 0; s->kept && i < qn_metadata_count(s->kept); i++) {
        const char *key, *value;
        qn_metadata_at(s->kept, i, &key, &value);
        if (strcmp(key, "step") != 0 && !qn_metadata_get(s->pairs, key))
            QN_TRY(qn_metadata_set(s->pairs, key, value));
    }
    return QN_OK;
}

qn_status session_open_task(session *s, bool training, int n_threads) {
    const qn_task_options options = {
        .allocator = &s->allocator,
        .log = &session_log,
        .model = s->model,
        .settings = s->pairs,
        .training = training,
        .n_threads = n_threads,
    };
    return qn_task_open(&options, &s->task);
}

qn_status session_load(session *s, const char *path, bool with_state) {
    const char *kept = qn_metadata_get(s->kept, "model");
    const bool is_other = kept && strcmp(kept, s->model->name) != 0;
    qn_status status = qn_checkpoint_load(qn_task_engine(s->task), path, with_state);
    if (is_other && status == QN_OK)
        return qn_fail(QN_ERROR_FORMAT, "%s is of model %s, not %s", path, kept, s->model->name);
    if (is_other)
        return qn_fail_within(status, "%s is of model %s, not %s", path, kept, s->model->name);
    return status == QN_OK ? qn_task_resume(s->task) : status;
}

qn_status session_open_trained(session *s, const arguments *a, const char *const *names) {
    const char *weights = arguments_get(a, "weights");
    if (!weights)
        return qn_fail(QN_ERROR_ARGUMENT, "quern %s needs --weights FILE", a->command->name);
    QN_TRY(session_begin(s, a->words[0], weights));
    for (; *names; names++) {
        if (arguments_get(a, *names))
            QN_TRY(qn_metadata_set(s->pairs, *names, arguments_get(a, *names)));
    }
    QN_TRY(session_keep_pairs(s));
    QN_TRY(session_open_task(s, false, (int)arguments_count(a, "threads")));
    return session_load(s, weights, false);
}

const char *metric_words(const char *name, char *text, size_t bytes) {
    snprintf(text, bytes, "%s", name);
    for (char *c = text; *c; c++)
        *c = *c == '_' ? ' ' : *c;
    return text;
}
