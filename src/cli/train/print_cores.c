/* What came of --cores auto: before the first step, and at the end; see training.h. */
#include "base/text.h"
#include "cli/json.h"
#include "cli/terminal.h"
#include "cli/train/core_facts.h"
#include "cli/train/training.h"

/* The curve of time against energy. */
static void print_points(const qn_cores_use *use) {
    json_open_list("ways");
    for (int i = 0; i < use->n_points; i++) {
        const qn_core_point *at = &use->points[i];
        json_begin_item();
        json_flag("side_by_side", at->is_beside);
        json_count("threads", at->n_threads);
        json_number("ms", at->ns * 1e-6);
        if (at->joules > 0)
            json_number("joules", at->joules);
        else
            json_null("joules");
        json_end_item();
    }
    json_close_list();
}

static void print_object(const qn_cores_use *use, bool is_done) {
    json_begin();
    json_text("event", is_done ? "cores_compared" : "cores");
    core_facts_print(use);
    json_count("operations", use->n_operations);
    json_count("measured", use->n_measured);
    json_count("narrow", use->n_narrow);
    json_count("beside", use->n_beside);
    json_flag("cached", use->is_cached);
    json_number("median_error", use->median_error);
    json_number("nine_tenths_error", use->most_errors);
    json_number("uncorrected_one_by_one_ms", use->uncorrected_one_by_one_ns * 1e-6);
    json_count("changes", use->n_changes);
    json_count("threads_used", use->n_threads_used);
    if (use->is_measured)
        json_number("measured_gain", use->measured_gain);
    else
        json_null("measured_gain");
    print_points(use);
    json_end();
}

static void print_schedule(const qn_cores_use *use) {
    char arena[QN_SIZE_TEXT], usual[QN_SIZE_TEXT];
    if (use->is_over_budget)
        terminal_print(2, "cores: one by one, because a schedule is above the budget");
    else if (use->is_beside)
        terminal_print(
            2,
            "cores: the first steps compare both; %d operations use fewer than %d cores; "
            "arena %s instead of %s",
            use->n_narrow, use->n_cores, qn_text_print_size(use->arena_bytes, arena),
            qn_text_print_size(use->usual_arena_bytes, usual));
}

static void print_compared(const training *t, const qn_cores_use *use) {
    if (use->is_measured)
        terminal_print(2,
                       "cores: side by side a step was %.3f times as fast as one by one; kept: %s",
                       use->measured_gain, use->is_beside ? "side by side" : "one by one");
    if (t->s.how.engine.core_wish.prefer == QN_PREFER_TIME)
        return;
    for (int i = 0; i < use->n_points; i++)
        terminal_print(2, "cores: %s, %d thread%s: %.3f ms, %.3f mJ a step (a model)",
                       use->points[i].is_beside ? "side by side" : "one by one",
                       use->points[i].n_threads, use->points[i].n_threads == 1 ? "" : "s",
                       use->points[i].ns * 1e-6, use->points[i].joules * 1e3);
    terminal_print(2, "cores: kept: %s, %d thread%s",
                   use->is_beside ? "side by side" : "one by one", use->n_threads_used,
                   use->n_threads_used == 1 ? "" : "s");
}

void training_print_cores(const training *t, bool is_done) {
    const qn_cores_use use = qn_engine_get_cores(qn_task_engine(t->s.task));
    if (use.n_cores == 0 || (is_done && use.n_points == 0))
        return;
    if (t->progress.is_json)
        print_object(&use, is_done);
    else if (is_done)
        print_compared(t, &use);
    else
        print_schedule(&use);
}
