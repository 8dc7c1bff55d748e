/* See plan_report.h: plans as an HTML page. */
#include "base/memory.h"
#include "base/print.h"
#include "base/status.h"
#include "base/text.h"
#include "format/output.h"
#include "report/document.h"
#include "report/plan_report.h"
#include "report/plan_schedule.h"
#include "report/words.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* Kinds as they are shown: those of the arena first. Their number is that of their colour. */
static const struct {
    qn_kind kind;
    const char *words;
} shown_kinds[QN_KIND_COUNT] = {
    {QN_KIND_FEATURE, "feature map"}, {QN_KIND_GRADIENT, "gradient"},
    {QN_KIND_WORKSPACE, "workspace"}, {QN_KIND_INPUT, "input"},
    {QN_KIND_LABEL, "labels"},        {QN_KIND_PARAMETER, "parameters"},
    {QN_KIND_STATE, "state"},
};

enum { MADE_AGAIN = 1, READ_BACK = 2, LINE = 256, MEBIBYTE = 1 << 20 };

static int colour_of(qn_kind kind) {
    int i = 0;
    while (shown_kinds[i].kind != kind)
        i++;
    return i;
}

/* ---- figures ---- */

static void add_figures(qn_document *d, const qn_plan_report *r) {
    char size[QN_SIZE_TEXT], other[QN_SIZE_TEXT], note[LINE], number[QN_WORDS_NUMBER];
    snprintf(note, sizeof note, "%s unplanned, %s by default",
             qn_text_print_size(r->unplanned_peak_bytes, size),
             qn_text_print_size(r->default_peak_bytes, other));
    qn_document_figure(d, "Peak memory of training", qn_text_print_size(r->peak_bytes, size), note);
    if (r->budget_bytes > 0)
        qn_document_figure(d, "Budget", qn_text_print_size(r->budget_bytes, size), NULL);
    qn_document_figure(d, "Fixed part", qn_text_print_size(r->fixed_bytes, size),
                       "parameters and optimiser state");
    snprintf(note, sizeof note, "%s in use at once",
             qn_text_print_size(r->lower_bound_bytes, other));
    qn_document_figure(d, "Arena", qn_text_print_size(r->arena_bytes, size), note);
    const qn_report_program *p = &r->programs[r->largest];
    qn_print(other, sizeof other, "%.1f ms", p->base_ns * 1e-6);
    const char *how = r->is_measured ? "measured" : "estimated";
    qn_print(note, sizeof note, "%s, %.60s; the %s adds %.1f ms (%.1f %%)", how, p->name,
             r->budget_bytes > 0 ? "budget" : "recomputation", p->extra_ns * 1e-6,
             100 * p->extra_ns / p->base_ns);
    qn_document_figure(d, "Time of a step", other, p->n_again > 0 ? note : how);
    qn_document_figure(d, "Early updates save", qn_text_print_size(r->early_bytes, size),
                       "each gradient is released as soon as it is applied");
    snprintf(note, sizeof note, "in %s of memory", qn_text_print_size(r->planner_bytes, size));
    qn_document_figure(d, "Planning time",
                       qn_words_scaled((double)r->planning_ns * 1e-9, "s", number), note);
}

/* ---- the picture ---- */

static void put_steps(qn_output *out, const qn_report_program *p) {
    qn_json_open(out, "steps", '[');
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        const qn_node *node = p->graph->nodes[p->plan->steps[s].node];
        qn_json_open(out, NULL, '[');
        qn_json_text(out, NULL, node->name);
        qn_json_text(out, NULL, node->op->name);
        qn_json_close(out, ']');
    }
    qn_json_close(out, ']');
}

/* Whether a value of the graph that runs was made before. */
static int flags_of(const qn_report_program *p, int32_t value) {
    const qn_origins *o = p->budget ? &p->budget->origins : NULL;
    if (!o || o->value_of[value] < 0 || o->first[o->value_of[value]].id == value)
        return 0;
    const int32_t producer = p->graph->values[value]->producer;
    return producer >= 0 && o->node_of[producer] < 0 ? READ_BACK : MADE_AGAIN;
}

/* What is known of a storage by its values. */
typedef struct box {
    int32_t value; /* the first that lies in it, or -1 */
    int n_values, flags;
} box;

static void find_boxes(const qn_report_program *p, box *boxes) {
    for (int32_t i = 0; i < p->plan->n_storages; i++)
        boxes[i] = (box){.value = -1};
    for (int32_t v = 0; v < p->plan->n_values; v++) {
        const int32_t storage = p->plan->placements[v].storage;
        if (storage < 0)
            continue;
        box *b = &boxes[storage];
        b->value = b->n_values == 0 ? v : b->value;
        b->flags |= b->n_values == 0 ? flags_of(p, v) : 0;
        b->n_values++;
    }
}

static void put_box(qn_output *out, const qn_report_program *p, const box *b, int32_t i) {
    const qn_storage *s = &p->plan->storages[i];
    char name[LINE], shape[QN_SHAPE_TEXT] = "";
    const char *first = qn_plan_name_of(p->plan, p->graph, i);
    if (b->n_values > 1)
        snprintf(name, sizeof name, "%.200s and %d more", first, b->n_values - 1);
    else
        snprintf(name, sizeof name, "%.200s", first);
    if (b->value >= 0)
        qn_shape_print(p->graph->values[b->value]->tensor.shape, shape);
    qn_json_open(out, NULL, '[');
    qn_json_count(out, NULL, s->first);
    qn_json_count(out, NULL, s->last);
    qn_json_count(out, NULL, (int64_t)s->offset);
    qn_json_count(out, NULL, (int64_t)s->bytes);
    qn_json_count(out, NULL, colour_of(s->kind));
    qn_json_count(out, NULL, b->flags);
    qn_json_text(out, NULL, name);
    qn_json_text(out, NULL, shape);
    qn_json_close(out, ']');
}

static void put_boxes(qn_output *out, const qn_report_program *p, const box *boxes, int space) {
    qn_json_open(out, "boxes", '[');
    for (int32_t i = 0; i < p->plan->n_storages; i++) {
        if (!p->plan->storages[i].is_bound && p->plan->storages[i].space == space)
            put_box(out, p, &boxes[i], i);
    }
    qn_json_close(out, ']');
}

/* Bytes that a budget leaves for the arena; 0: there is none. */
static size_t arena_limit(const qn_plan_report *r) {
    const size_t rest = r->peak_bytes - r->arena_bytes;
    return r->budget_bytes > rest ? r->budget_bytes - rest : 0;
}

static void put_picture(qn_output *out, const qn_plan_report *r, const qn_report_program *p,
                        const box *boxes, int space) {
    const qn_arena_need arena = qn_plan_arena(p->plan, space);
    qn_json_open(out, NULL, '{');
    put_steps(out, p);
    qn_json_open(out, "kinds", '[');
    for (int i = 0; i < QN_KIND_COUNT; i++)
        qn_json_text(out, NULL, shown_kinds[i].words);
    qn_json_close(out, ']');
    qn_json_count(out, "arena", (int64_t)arena.bytes);
    qn_json_count(out, "least", (int64_t)arena.lower_bound_bytes);
    qn_json_count(out, "limit", space == 0 ? (int64_t)arena_limit(r) : 0);
    put_boxes(out, p, boxes, space);
    qn_json_close(out, '}');
}

static void add_picture(qn_document *d, const qn_plan_report *r, const qn_report_program *p,
                        int space) {
    static const char told[] = "Steps run from left to right, addresses upwards; the line shows "
                               "how much is in use. Point at "
                               "a box or tap it for details. Drag to move; zoom with Ctrl and "
                               "wheel, two fingers, + and -.";
    static const char *const key[] = {"feature map", "gradient", "workspace",
                                      "recomputed or read back", NULL};
    static const int colours[] = {0, 1, 2, -1};
    const qn_allocator *a = qn_document_allocator(d);
    const size_t n = (size_t)p->plan->n_storages;
    char title[LINE];
    box *boxes = NULL;
    const qn_status status = qn_allocate(a, n, sizeof *boxes, &boxes);
    qn_document_fail(d, status);
    if (status != QN_OK)
        return;
    find_boxes(p, boxes);
    if (space == 0)
        snprintf(title, sizeof title, "Memory of %.100s over its steps", p->name);
    else
        snprintf(title, sizeof title, "Memory of %.100s over its steps: %s", p->name,
                 qn_report_space_name(r, space));
    qn_output *out = qn_document_begin_picture(d, "plan", title, told, key, colours);
    if (out)
        put_picture(out, r, p, boxes, space);
    qn_document_end_picture(d);
    qn_release(a, boxes, n, sizeof *boxes);
}

/* ---- tables ---- */

static size_t made_bytes(const qn_report_program *p, const qn_node *node) {
    size_t bytes = 0;
    for (int i = 0; i < node->n_outputs; i++) {
        const qn_value_info *info = qn_graph_value(p->graph, node->outputs[i]);
        bytes += info->overwrites < 0 ? qn_tensor_bytes(info->tensor) : 0;
    }
    return bytes;
}

/* Of a node of the graph that runs. */
static double step_ns(const qn_report_program *p, int32_t node) {
    const int32_t base = p->budget ? p->budget->origins.node_of[node] : node;
    return base < 0 ? NAN : qn_report_node_ns(p, base);
}

/* A step's lane, and the steps of others that it waits for. */
static void add_lane(qn_document *d, const qn_plan *plan, int32_t step) {
    char text[LINE] = "";
    int32_t n;
    size_t used = 0;
    const int32_t *waits = qn_plan_waits(plan, step, &n);
    for (int32_t i = 0; i < n && used < sizeof text; i++)
        used +=
            (size_t)snprintf(text + used, sizeof text - used, "%s%d", i > 0 ? ", " : "", waits[i]);
    qn_document_cell_number(d, plan->steps[step].lane, 0);
    qn_document_cell_text(d, text);
}

static void add_operation(qn_document *d, const qn_report_program *p, int32_t s, size_t alive) {
    const int32_t n = p->plan->steps[s].node;
    const qn_node *node = p->graph->nodes[n];
    char shape[QN_SHAPE_TEXT];
    qn_document_cell_number(d, s, 0);
    qn_document_cell_text(d, node->name);
    qn_document_cell_text(d, node->op->name);
    qn_document_cell_text(d,
                          qn_shape_print(qn_graph_tensor(p->graph, node->outputs[0]).shape, shape));
    qn_document_cell_number(d, (double)made_bytes(p, node) / MEBIBYTE, 3);
    qn_document_cell_number(d, (double)alive / MEBIBYTE, 3);
    qn_document_cell_number(d, step_ns(p, n) * 1e-3, 1);
    if (p->plan->lanes)
        add_lane(d, p->plan, s);
}

/* Bytes alive in each step, from what begins and ends there. */
static void find_alive(const qn_plan *plan, size_t *alive) {
    for (int32_t i = 0; i < plan->n_storages; i++) {
        const qn_storage *s = &plan->storages[i];
        if (s->is_bound || s->space != 0)
            continue;
        alive[s->first] += s->bytes;
        alive[s->last + 1] -= s->bytes; /* wraps around, and back when summed */
    }
    for (int32_t t = 1; t <= plan->n_steps; t++)
        alive[t] += alive[t - 1];
}

static void add_operations(qn_document *d, const qn_report_program *p) {
    static const char *const columns[] = {
        "step",         "operation",        "type", "output",   "writes (MiB)",
        "in use (MiB)", "time (\xc2\xb5s)", "lane", "waits for"};
    enum { N_COLUMNS = sizeof columns / sizeof *columns, N_LANE_COLUMNS = 2 };
    const qn_allocator *a = qn_document_allocator(d);
    const size_t n = (size_t)p->plan->n_steps + 2;
    char title[LINE];
    size_t *alive = NULL;
    const qn_status status = qn_allocate(a, n, sizeof *alive, &alive);
    qn_document_fail(d, status);
    if (status != QN_OK)
        return;
    find_alive(p->plan, alive);
    snprintf(title, sizeof title, "Operations of %.100s", p->name);
    qn_document_begin_table(d, title, N_COLUMNS - (p->plan->lanes ? 0 : N_LANE_COLUMNS), columns);
    for (int32_t s = 0; s < p->plan->n_steps; s++)
        add_operation(d, p, s, alive[s]);
    qn_document_end_table(d);
    qn_release(a, alive, n, sizeof *alive);
}

static void add_again(qn_document *d, const qn_report_program *p) {
    static const char *const columns[] = {"operation", "type", "times", "MiB", "time (\xc2\xb5s)"};
    char title[LINE];
    if (p->n_again == 0)
        return;
    snprintf(title, sizeof title, "Recomputed or swapped in %.100s", p->name);
    qn_document_begin_table(d, title, sizeof columns / sizeof *columns, columns);
    for (int32_t i = 0; i < p->n_again; i++) {
        const qn_report_extra *again = &p->again[i];
        qn_document_cell_text(d, again->name);
        qn_document_cell_text(d, again->type);
        qn_document_cell_number(d, again->n_times, 0);
        qn_document_cell_number(d, (double)again->bytes / MEBIBYTE, 3);
        qn_document_cell_number(d, again->ns * 1e-3, 1);
    }
    qn_document_end_table(d);
}

static void add_lanes(qn_document *d, const qn_plan_report *r, const qn_report_program *p) {
    static const char *const columns[] = {"lane", "device", "memory", "threads", "steps", "waits"};
    char title[LINE];
    if (!p->plan->lanes)
        return;
    snprintf(title, sizeof title, "Lanes of %.100s", p->name);
    qn_document_begin_table(d, title, sizeof columns / sizeof *columns, columns);
    for (int i = 0; i < qn_report_lane_count(p); i++) {
        const qn_report_lane lane = qn_report_lane_at(r, p, i);
        qn_document_cell_number(d, i, 0);
        qn_document_cell_text(d, lane.device);
        qn_document_cell_text(d, lane.space);
        qn_document_cell_number(d, lane.n_threads, 0);
        qn_document_cell_number(d, lane.n_steps, 0);
        qn_document_cell_number(d, lane.n_waits, 0);
    }
    qn_document_end_table(d);
}

static void add_program(qn_document *d, const qn_plan_report *r, const qn_report_program *p) {
    char line[LINE], arena[QN_SIZE_TEXT], bound[QN_SIZE_TEXT], unplanned[QN_SIZE_TEXT];
    qn_document_heading(d, p->name);
    snprintf(line, sizeof line,
             "%d steps. The arena takes %s; at most %s in use at once, in step %d. Unplanned: "
             "%s.",
             p->plan->n_steps, qn_text_print_size(p->plan->arena_bytes, arena),
             qn_text_print_size(p->plan->lower_bound_bytes, bound), p->peak_step,
             qn_text_print_size(p->unplanned.bytes, unplanned));
    qn_document_text(d, line);
    for (int i = 0; i < qn_report_space_count(p); i++) {
        if (i == 0 || qn_plan_arena(p->plan, i).bytes > 0)
            add_picture(d, r, p, i);
    }
    add_lanes(d, r, p);
    add_again(d, p);
    add_operations(d, p);
}

qn_status qn_plan_report_write(const qn_allocator *allocator, const qn_plan_report *r,
                               const char *path) {
    qn_document *document;
    char title[LINE];
    snprintf(title, sizeof title, "%.100s, batch %lld: memory plan", r->model, (long long)r->batch);
    QN_TRY(qn_document_create(allocator, title, &document));
    qn_document_about(document, NULL, r->n_threads);
    snprintf(title, sizeof title, "Input %.100s, optimiser %s, %s kernels.", r->input, r->optimizer,
             r->isa);
    qn_document_text(document, title);
    add_figures(document, r);
    if (r->schedule)
        qn_plan_page_schedule(document, r->schedule);
    for (int i = 0; i < r->n_programs; i++)
        add_program(document, r, &r->programs[i]);
    const qn_status status = qn_document_write(document, path);
    qn_document_destroy(document);
    return status;
}
