/* See looked.h. */
#include "cli/look/looked.h"

#include "base/decimal.h"
#include "base/status.h"
#include "cli/look/samples.h"
#include "cli/look/weights.h"
#include "os/heap.h"
#include "os/process/interrupt.h"
#include "tasks/tasks.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const option rows[] = {
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .otherwise = "the checkpoint's",
     .help = "data with classes to look at"},
};

const option_list looked_options = {rows, sizeof rows / sizeof rows[0]};

static bool should_stop(void *user) {
    (void)user;
    return qn_was_interrupted();
}

/* Steps after the fit change what the body makes of a picture, and may be many. */
static qn_status prepare(const arguments *a, session *s) {
    const char *start = s->kept ? qn_metadata_get(s->kept, QN_START) : NULL;
    const char *step = s->kept ? qn_metadata_get(s->kept, "step") : NULL;
    const bool is_fitted = start && strcmp(start, "none") != 0 && step && strcmp(step, "1") == 0;
    (void)a;
    return qn_metadata_set(s->pairs, QN_GIVES_FEATURES, is_fitted ? "kept" : "made");
}

static qn_status look(looked *l) {
    qn_task *task = l->s.task;
    const char *unsure = qn_setting_text(task, QN_UNSURE_BELOW, NULL);
    if (!task->kind->look)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "%s is of the task %s: it is classes of samples that are looked at", l->path,
                       task->kind->name);
    qn_interrupt_watch(EXIT_FAILED);
    QN_TRY(task->kind->look(task, should_stop, NULL, &l->looks));
    if (l->looks.features.n == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s has no samples", task->facts.data);
    return qn_findings_make(&l->looks, unsure ? qn_decimal_read(unsure, NULL) : 0, should_stop,
                            NULL, &l->f);
}

qn_status looked_open(const arguments *a, looked *l) {
    static const char *const names[] = {"data", NULL};
    *l = (looked){.path = NULL};
    session_init(&l->s);
    qn_arena_init(&l->texts, qn_allocator_default());
    QN_TRY(weights_find(a->words[0], &l->texts, &l->path));
    QN_TRY(session_open_checkpoint(&l->s, a, l->path, names, prepare));
    l->source = l->s.task->data;
    return look(l);
}

void looked_close(looked *l) {
    qn_findings_deinit(&l->f);
    qn_looks_deinit(&l->looks);
    session_deinit(&l->s);
    qn_arena_deinit(&l->texts);
}

const char *looked_name(const looked *l, const qn_sample_finding *sample, char text[LOOKED_NAME]) {
    static const char *const splits[QN_SPLITS] = {"", "test ", "validation "};
    qn_split split = sample->split;
    int64_t index = sample->index;
    qn_sample_file file;
    if (qn_source_file_of(l->source, split, index, &file)) {
        snprintf(text, LOOKED_NAME, "%s/%s", file.root, file.name);
        return text;
    }
    qn_source_find_sample(l->source, &split, &index);
    snprintf(text, LOOKED_NAME, "%srow %" PRId64, splits[split], index + 1);
    return text;
}

const char *looked_class(const looked *l, int class, char text[24]) {
    return samples_class_name(l->source, class, text);
}
