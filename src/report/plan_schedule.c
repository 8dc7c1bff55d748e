/* See plan_schedule.h. */
#include "report/plan_schedule.h"

#include "base/print.h"
#include "base/text.h"
#include "format/output.h"

#include <math.h>
#include <stdio.h>

enum { PREDICTED, MEASURED, LINE = 160 };

/* Kinds of operations, as colours. */
enum { FORWARD, BACKWARD, UPDATE, KINDS };

static const char *const kind_names[] = {"forward", "backward", "update", NULL};

bool qn_report_was_seen(const qn_report_schedule *s, int32_t step) {
    return s->seen && s->seen->n > step && s->seen->turns[step].end_ns > 0;
}

const char *qn_report_schedule_text(const qn_report_schedule *s, char text[QN_SCHEDULE_TEXT]) {
    const qn_cores_use *use = &s->use;
    if (use->is_over_budget || !s->predicted)
        snprintf(text, QN_SCHEDULE_TEXT,
                 "A schedule side by side needs more memory than there is.");
    else
        qn_print(
            text, QN_SCHEDULE_TEXT,
            "Side by side a step was predicted to take %.3f ms and took %.3f in rehearsal; one "
            "by one %.3f and %.3f. No schedule can take less than %.3f ms. %d of %d operations "
            "use fewer than %d cores. Faster in rehearsal: %s.",
            use->predicted_ns * 1e-6, use->rehearsed_ns * 1e-6, use->one_by_one_ns * 1e-6,
            use->rehearsed_usual_ns * 1e-6, use->bound_ns * 1e-6, use->n_narrow, use->n_operations,
            use->n_cores, use->is_beside ? "side by side" : "one by one");
    return text;
}

static const qn_node *node_of(const qn_report_schedule *s, int32_t step) {
    return s->graph->nodes[s->plan->steps[step].node];
}

static int kind_of(const qn_report_schedule *s, int32_t step) {
    const qn_node *node = node_of(s, step);
    const qn_value_info *made = qn_graph_value(s->graph, node->outputs[0]);
    if (made->overwrites >= 0)
        return UPDATE;
    return made->kind == QN_KIND_GRADIENT ? BACKWARD : FORWARD;
}

/* ---- the picture ---- */

static void put_box(qn_output *out, const qn_report_schedule *s, int set, int32_t step) {
    const qn_timetable *t = set == PREDICTED ? s->predicted : s->seen;
    const qn_turn *turn = &t->turns[step];
    const qn_node *node = node_of(s, step);
    qn_json_open(out, NULL, '[');
    qn_json_count(out, NULL, set);
    qn_json_count(out, NULL, turn->first);
    qn_json_count(out, NULL, turn->width);
    qn_json_number(out, NULL, turn->begin_ns * 1e-6);
    qn_json_number(out, NULL, turn->end_ns * 1e-6);
    qn_json_count(out, NULL, kind_of(s, step));
    qn_json_text(out, NULL, node->name);
    qn_json_text(out, NULL, node->op->name);
    qn_json_close(out, ']');
}

static void put_boxes(qn_output *out, const qn_report_schedule *s) {
    qn_json_open(out, "boxes", '[');
    for (int32_t rank = 0; rank < s->predicted->n; rank++)
        put_box(out, s, PREDICTED, s->predicted->order[rank]);
    for (int32_t rank = 0; rank < s->predicted->n; rank++) {
        if (qn_report_was_seen(s, s->predicted->order[rank]))
            put_box(out, s, MEASURED, s->predicted->order[rank]);
    }
    qn_json_close(out, ']');
}

static double last_end_ns(const qn_report_schedule *s) {
    double ns = s->predicted->ns;
    for (int32_t i = 0; i < s->predicted->n; i++) {
        if (qn_report_was_seen(s, i) && s->seen->turns[i].end_ns > ns)
            ns = s->seen->turns[i].end_ns;
    }
    return ns;
}

static void put_picture(qn_output *out, const qn_report_schedule *s) {
    static const char *const sets[] = {"predicted", "measured"};
    char name[LINE];
    qn_json_open(out, NULL, '{');
    qn_json_open(out, "cores", '[');
    for (int core = 0; core < s->use.n_cores; core++) {
        snprintf(name, sizeof name, "core %d", core);
        qn_json_text(out, NULL, name);
    }
    qn_json_close(out, ']');
    qn_json_open(out, "sets", '[');
    for (int set = PREDICTED; set <= MEASURED; set++)
        qn_json_text(out, NULL, sets[set]);
    qn_json_close(out, ']');
    qn_json_number(out, "end", last_end_ns(s) * 1e-6);
    qn_json_open(out, "colours", '[');
    for (int kind = 0; kind < KINDS; kind++)
        qn_json_text(out, NULL, kind_names[kind]);
    qn_json_close(out, ']');
    put_boxes(out, s);
    qn_json_close(out, '}');
}

static void add_picture(qn_document *d, const qn_report_schedule *s) {
    static const char told[] = "Time runs from left to right. Point at an operation or tap it for "
                               "details. Drag to move; zoom with Ctrl and wheel, two fingers, + "
                               "and -.";
    static const int colours[] = {FORWARD, BACKWARD, UPDATE};
    char title[LINE];
    snprintf(title, sizeof title, "Lanes of %.100s over time", s->program);
    qn_output *out = qn_document_begin_picture(d, "lanes", title, told, kind_names, colours);
    if (out)
        put_picture(out, s);
    qn_document_end_picture(d);
}

/* ---- the table ---- */

static void add_operation(qn_document *d, const qn_report_schedule *s, int32_t step) {
    const qn_turn *turn = &s->predicted->turns[step];
    const qn_turn *seen = qn_report_was_seen(s, step) ? &s->seen->turns[step] : NULL;
    const double ns = turn->end_ns - turn->begin_ns;
    const double took_ns = seen ? seen->end_ns - seen->begin_ns : NAN;
    qn_document_cell_text(d, node_of(s, step)->name);
    qn_document_cell_text(d, node_of(s, step)->op->name);
    qn_document_cell_number(d, turn->first, 0);
    qn_document_cell_number(d, turn->width, 0);
    qn_document_cell_number(d, turn->begin_ns * 1e-3, 1);
    qn_document_cell_number(d, seen ? seen->begin_ns * 1e-3 : NAN, 1);
    qn_document_cell_number(d, ns * 1e-3, 1);
    qn_document_cell_number(d, took_ns * 1e-3, 1);
    qn_document_cell_number(d, ns > 0 ? 100 * (ns / took_ns - 1) : NAN, 0);
}

static void add_operations(qn_document *d, const qn_report_schedule *s) {
    static const char *const columns[] = {"operation",
                                          "type",
                                          "first core",
                                          "cores",
                                          "begin, predicted (\xc2\xb5s)",
                                          "begin, measured (\xc2\xb5s)",
                                          "time, predicted (\xc2\xb5s)",
                                          "time, measured (\xc2\xb5s)",
                                          "error (%)"};
    char title[LINE];
    snprintf(title, sizeof title, "Schedule of %.100s", s->program);
    qn_document_begin_table(d, title, sizeof columns / sizeof *columns, columns);
    for (int32_t rank = 0; rank < s->predicted->n; rank++)
        add_operation(d, s, s->predicted->order[rank]);
    qn_document_end_table(d);
}

/* ---- time against energy ---- */

static void add_trades(qn_document *d, const qn_report_schedule *s) {
    static const char *const columns[] = {"cores", "step (ms)", "energy (mJ)", "power (W)"};
    char name[LINE];
    if (s->trades.n == 0)
        return;
    qn_document_begin_table(d, "Time against energy", sizeof columns / sizeof *columns, columns);
    for (int i = 0; i < s->trades.n; i++) {
        const qn_trade *t = &s->trades.list[i];
        qn_trade_name(t, &s->cores, name, sizeof name);
        qn_document_cell_text(d, name);
        qn_document_cell_number(d, t->ns * 1e-6, 3);
        qn_document_cell_number(d, t->joules * 1e3, 3);
        qn_document_cell_number(d, t->most_watts, 2);
    }
    qn_document_end_table(d);
}

void qn_plan_page_schedule(qn_document *d, const qn_report_schedule *s) {
    char text[QN_SCHEDULE_TEXT];
    qn_document_heading(d, "Schedule over the cores");
    qn_document_text(d, qn_report_schedule_text(s, text));
    add_trades(d, s);
    if (!s->predicted)
        return;
    add_picture(d, s);
    add_operations(d, s);
}
