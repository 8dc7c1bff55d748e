/* See budget.h. A thread reads the file when its time changes, and plans for the new budget while
 * training continues. */
#include "cli/budget.h"

#include "base/status.h"
#include "base/text.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "os/probe.h"

#include <stdio.h>
#include <string.h>

enum { LOOK_MS = 50 };

bool budget_may_change(const arguments *a) {
    return arguments_has(a, "budget-file") || arguments_has(a, "memory-pressure");
}

/* ---- what is said ---- */

static void print_json(const qn_budget_change *c) {
    json_begin();
    json_text("event", "budget");
    json_count("from_bytes", (int64_t)c->from_bytes);
    json_count("to_bytes", (int64_t)c->to_bytes);
    json_count("step", c->step);
    json_count("operations_waited", c->n_waited);
    json_count("kept_bytes", (int64_t)c->kept_bytes);
    json_count("moved_bytes", (int64_t)c->moved_bytes);
    json_count("operations_again", c->n_again);
    json_number("again_ms", c->again_ns * 1e-6);
    json_number("restart_ms", c->restart_ns * 1e-6);
    json_number("took_ms", (double)c->ns * 1e-6);
    json_end();
}

static void print_line(const qn_budget_change *c) {
    char to[QN_SIZE_TEXT], moved[QN_SIZE_TEXT];
    printf("memory: %s after %lld steps; %s moved, %lld operation%s again, %.1f ms\n",
           c->to_bytes ? qn_text_print_size(c->to_bytes, to) : "no limit", (long long)c->step,
           qn_text_print_size(c->moved_bytes, moved), (long long)c->n_again,
           c->n_again == 1 ? "" : "s", (double)c->ns * 1e-6);
    fflush(stdout);
}

/* On the thread that trains. */
static void note_change(void *user, const qn_budget_change *change) {
    budget *b = user;
    progress_clear(&b->t->progress);
    if (b->t->progress.is_json)
        print_json(change);
    else
        print_line(change);
}

static void warn(void) {
    terminal_note("warning: memory: %s", qn_error_message());
}

/* ---- asking ---- */

/* Under the lock: asks for what holds now, if that is new. */
static void ask(budget *b) {
    size_t bytes = b->wanted_bytes;
    if (b->is_short && (bytes == 0 || b->low_bytes < bytes))
        bytes = b->low_bytes;
    if (bytes == b->asked_bytes)
        return;
    if (qn_engine_set_budget(b->engine, bytes) == QN_OK)
        b->asked_bytes = bytes;
    else
        warn();
}

static void note_pressure(void *user, bool is_short) {
    budget *b = user;
    qn_monitor_lock(b->lock);
    b->is_short = is_short;
    ask(b);
    qn_monitor_unlock(b->lock);
}

/* A size, or "none". */
static qn_status read_file(const budget *b, size_t *bytes) {
    char text[64];
    uint64_t size = 0;
    QN_TRY(qn_probe_text_at(b->path, text, sizeof text));
    if (strcmp(text, "none") != 0 && (!qn_text_size(text, &size) || size == 0))
        return qn_fail(QN_ERROR_FORMAT, "%s: %s is not a size such as 300M or 1.5G, nor \"none\"",
                       b->path, text);
    *bytes = (size_t)size;
    return QN_OK;
}

static void look(budget *b) {
    const int64_t modified_ns = qn_file_modified_ns(b->path);
    if (modified_ns == b->modified_ns)
        return;
    b->modified_ns = modified_ns;
    if (modified_ns != 0 && read_file(b, &b->wanted_bytes) != QN_OK)
        warn();
    ask(b);
}

static void follow(void *context) {
    budget *b = context;
    qn_monitor_lock(b->lock);
    while (!b->is_ending) {
        look(b);
        qn_monitor_wait_until(b->lock, qn_clock_ns() + (int64_t)LOOK_MS * 1000000);
    }
    qn_monitor_unlock(b->lock);
}

/* ---- begin and end ---- */

static qn_status open_pressure(budget *b, const arguments *a) {
    const qn_pressure_options options = {.allocator = &b->t->s.allocator,
                                         .path = arguments_get(a, "pressure-file"),
                                         .calm_ns =
                                             arguments_count(a, "pressure-calm") * 1000000000,
                                         .user = b,
                                         .changed = note_pressure};
    if (!arguments_has(a, "memory-pressure"))
        return QN_OK;
    b->low_bytes = (size_t)arguments_count(a, "memory-pressure");
    return qn_pressure_open(&options, &b->pressure);
}

qn_status budget_begin(budget *b, training *t) {
    *b = (budget){.t = t, .path = arguments_get(t->a, "budget-file")};
    if (!budget_may_change(t->a))
        return QN_OK;
    const qn_allocator *allocator = &t->s.allocator;
    b->engine = qn_task_engine(t->s.task);
    b->wanted_bytes = b->asked_bytes = t->s.how.engine.memory_budget_bytes;
    qn_engine_on_budget(b->engine, note_change, b);
    QN_TRY(qn_monitor_create(allocator, &b->lock));
    QN_TRY(open_pressure(b, t->a));
    return b->path ? qn_thread_start(allocator, follow, b, &b->thread) : QN_OK;
}

void budget_end(budget *b) {
    if (!b->lock)
        return;
    qn_monitor_lock(b->lock);
    b->is_ending = true;
    qn_monitor_notify(b->lock);
    qn_monitor_unlock(b->lock);
    qn_thread_join(b->thread);
    qn_pressure_close(b->pressure);
    qn_monitor_destroy(b->lock);
    qn_engine_on_budget(b->engine, NULL, NULL);
    *b = (budget){0};
}
