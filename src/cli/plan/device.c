/* quern plan --device auto, and --device hexagon:emulated: where each operation would run, why, and
 * what that gains. Measured on this machine, or counted, as training would, on an engine of its own
 * that trains nothing. */
#include "base/print.h"
#include "base/status.h"
#include "cli/json.h"
#include "cli/plan/plan.h"
#include "cli/terminal.h"
#include "graph/graph.h"
#include "run/placing/comparison.h"

#include <stdio.h>
#include <string.h>

bool plan_wants_device(const arguments *a) {
    const char *device = arguments_get(a, "device");
    return device && qn_device_is_chosen(device);
}

qn_status plan_choose_device(planning *p) {
    QN_TRY(planned_open(&p->choosing, p, &(planned_as){.chooses_device = true}));
    return settings_set(&p->settings, "device",
                        qn_engine_get_options(planned_engine(&p->choosing))->device);
}

/* ---- why ---- */

typedef struct found {
    const qn_device_choice *choice;
    const qn_graph *graph;
    const qn_device_wish *wish;
} found; /* wish: that of the choice */

/* The CPU alone, all that the device can, or as predicted for both. */
static bool is_on_device(const found *f, int32_t node) {
    const bool can = f->choice->ns[node * 2 + 1] >= 0;
    return can && (f->choice->chosen == QN_DEVICE_MODE_DEVICE ||
                   (f->choice->chosen >= QN_DEVICE_MODE_BOTH && f->choice->site_of[node] > 0));
}

typedef enum reason {
    WHY_NO_KERNEL,
    WHY_UPDATE,
    WHY_FASTER,
    WHY_CHEAPER,
    WHY_COPIES,
    WHY_STEP
} reason;

static const char *const why_words[] = {
    [WHY_NO_KERNEL] = "the device has no kernel for it",
    [WHY_UPDATE] = "the CPU updates what training keeps",
    [WHY_FASTER] = "faster there",
    [WHY_CHEAPER] = "less energy there",
    [WHY_COPIES] = "copies would cost more than it gains",
    [WHY_STEP] = "the step as a whole is better so",
};

static bool is_update(const qn_graph *graph, const qn_node *node) {
    bool is = false;
    for (int i = 0; i < node->n_outputs; i++)
        is = is || graph->values[node->outputs[i].id]->overwrites >= 0;
    return is;
}

/* Of a node by itself, on the CPU or on the device. */
static double cost_of(const found *f, int32_t node, bool on_device) {
    const qn_device_wish *w = f->wish;
    const double watts = w->idle_watts + (on_device ? w->device_watts : w->cpu_watts);
    return f->choice->ns[node * 2 + on_device] * (w->prefer == QN_PREFER_TIME ? 1 : watts);
}

static reason why_of(const found *f, int32_t node) {
    const bool on_device = is_on_device(f, node);
    if (!on_device && is_update(f->graph, f->graph->nodes[node]))
        return WHY_UPDATE;
    if (f->choice->ns[node * 2 + 1] < 0)
        return WHY_NO_KERNEL;
    if (cost_of(f, node, on_device) <= cost_of(f, node, !on_device))
        return f->wish->prefer == QN_PREFER_TIME ? WHY_FASTER : WHY_CHEAPER;
    return f->choice->chosen >= QN_DEVICE_MODE_BOTH ? WHY_COPIES : WHY_STEP;
}

/* ---- for people ---- */

/* Operations of one type, on one processor, for one reason. */
typedef struct row {
    const char *type;
    bool on_device;
    reason why;
    int32_t n;
    double cpu_ns, device_ns;
} row;

enum { MOST_ROWS = 128 };

static int add_to_row(const found *f, int32_t node, row *rows, int n) {
    const char *type = f->graph->nodes[node]->op->name;
    const bool on_device = is_on_device(f, node);
    const reason why = why_of(f, node);
    int i = 0;
    while (i < n && (strcmp(rows[i].type, type) != 0 || rows[i].on_device != on_device ||
                     rows[i].why != why))
        i++;
    if (i == MOST_ROWS)
        return n;
    if (i == n)
        rows[n++] = (row){.type = type, .on_device = on_device, .why = why};
    rows[i].n++;
    rows[i].cpu_ns += f->choice->ns[node * 2];
    rows[i].device_ns += f->choice->ns[node * 2 + 1];
    return n;
}

static bool is_shown(const qn_node *node) {
    return !node->op->is_view && !node->op->is_wait;
}

static double counts_per_ns(const found *f) {
    return f->choice->model ? f->choice->model->counts_per_ns : 0;
}

static void print_rows(const found *f) {
    row rows[MOST_ROWS];
    int n = 0;
    for (int32_t node = 0; node < f->choice->n_nodes; node++) {
        if (is_shown(f->graph->nodes[node]))
            n = add_to_row(f, node, rows, n);
    }
    printf("\n%-32s %5s %10s %10s", "operations", "count", "ms on CPU", "ms there");
    printf(f->choice->model ? " %13s" : "%.0s", f->choice->model ? f->choice->model->counted : "");
    printf("  %-7s %s\n", "run on", "because");
    for (int i = 0; i < n; i++) {
        const row *r = &rows[i];
        printf("%-32.32s %5d %10.3f ", r->type, r->n, r->cpu_ns * 1e-6);
        if (r->device_ns < 0)
            printf("%10s", "-");
        else
            printf("%10.3f", r->device_ns * 1e-6);
        if (f->choice->model)
            printf(" %13.0f", r->device_ns < 0 ? 0 : r->device_ns * counts_per_ns(f));
        printf("  %-7s %s\n", r->on_device ? "device" : "CPU", why_words[r->why]);
    }
}

static const char *const way_words[QN_DEVICE_MODES] = {"the CPU alone", "the device", "both",
                                                       "pieces"};

static void print_way(const qn_device_choice *c, int way) {
    const qn_device_mode_cost *w = &c->modes[way];
    char joules[48] = "", copies[96] = "", predicted[48] = "";
    if (w->joules > 0)
        qn_print(joules, sizeof joules, ", %.1f mJ", w->joules * 1e3);
    if (w->predicted.n_copies > 0)
        qn_print(copies, sizeof copies, ", %d copies of %.1f MB", w->predicted.n_copies,
                 (double)w->predicted.copied_bytes * 1e-6);
    if (w->is_measured && !c->model)
        qn_print(predicted, sizeof predicted, " (predicted %.3f)", w->predicted.ns * 1e-6);
    if (w->is_measured)
        terminal_print(14, "  %-13s %.3f ms a step%s%s%s%s", way_words[way], w->ns * 1e-6,
                       predicted, joules, copies, (int)c->chosen == way ? ": chosen" : "");
    else if (way == QN_DEVICE_MODE_BOTH)
        terminal_print(14, "  %-13s not tried: nothing better is predicted", way_words[way]);
}

static void print_text(const found *f) {
    const qn_device_choice *c = f->choice;
    puts("");
    const char *word = c->model ? "device     " : "device auto";
    if (c->has_failed) {
        terminal_print(14, "%s   %s fails%s; the CPU would be used", word, c->name, c->reason);
        return;
    }
    terminal_print(14, "%s   %s beside the CPU, %s; a step then takes %.1f %% of the CPU's time",
                   word, c->name, c->model ? "by its model" : "measured",
                   100 * c->modes[c->chosen].ns / c->modes[QN_DEVICE_MODE_CPU].ns);
    for (int way = 0; way < QN_DEVICE_MODES; way++)
        print_way(c, way);
    print_rows(f);
}

/* ---- JSON ---- */

static void json_way(const qn_device_choice *c, int way) {
    static const char *const names[QN_DEVICE_MODES] = {"cpu", "device", "both", "pieces"};
    const qn_device_mode_cost *w = &c->modes[way];
    if (!w->is_measured && w->predicted.ns <= 0) /* nobody tried it */
        return;
    json_begin_item();
    json_text("on", names[way]);
    json_flag("measured", w->is_measured && !c->model);
    json_flag("chosen", (int)c->chosen == way);
    json_number("ms", w->is_measured ? w->ns * 1e-6 : w->predicted.ns * 1e-6);
    json_number("predicted_ms", w->predicted.ns * 1e-6);
    json_number("joules", w->joules);
    json_count("copies", w->predicted.n_copies);
    json_count("copied_bytes", w->predicted.copied_bytes);
    json_end_item();
}

static void json_node(const found *f, int32_t node) {
    const qn_node *n = f->graph->nodes[node];
    const double device_ns = f->choice->ns[node * 2 + 1];
    json_begin_item();
    json_text("name", n->name);
    json_text("type", n->op->name);
    json_text("on", is_on_device(f, node) ? "device" : "cpu");
    json_text("because", why_words[why_of(f, node)]);
    json_number("cpu_ms", f->choice->ns[node * 2] * 1e-6);
    if (device_ns >= 0)
        json_number("device_ms", device_ns * 1e-6);
    else
        json_null("device_ms");
    if (f->choice->model && device_ns >= 0)
        json_count(f->choice->model->counted, (int64_t)(device_ns * counts_per_ns(f)));
    json_end_item();
}

static void print_object(const found *f, const planning *p) {
    json_begin();
    json_text("event", "device");
    json_text("device", settings_get(&p->settings, "device"));
    json_text("name", f->choice->name);
    json_flag("failed", f->choice->has_failed);
    json_open_list("ways");
    for (int way = 0; way < QN_DEVICE_MODES; way++)
        json_way(f->choice, way);
    json_close_list();
    json_open_list("operations");
    for (int32_t node = 0; node < f->choice->n_nodes; node++) {
        if (is_shown(f->graph->nodes[node]))
            json_node(f, node);
    }
    json_close_list();
    json_end();
}

static void print_nothing(const planning *p) {
    if (!arguments_flag(p->a, "json")) {
        puts("");
        terminal_print(14, "device auto   no device besides the CPU can be used here (quern "
                           "devices says why); the CPU would be used");
        return;
    }
    json_begin();
    json_text("event", "device");
    json_text("device", "cpu");
    json_null("name");
    json_end();
}

void plan_print_device(const planning *p) {
    if (!p->choosing.task)
        return;
    const qn_engine *engine = planned_engine(&p->choosing);
    const qn_device_choice *choice = qn_engine_device_choice(engine);
    if (!choice) {
        print_nothing(p);
        return;
    }
    const qn_program *program = qn_engine_get_program(engine, choice->program);
    const found f = {choice, program->base ? program->base : program->graph, &choice->wish};
    if (arguments_flag(p->a, "json"))
        print_object(&f, p);
    else
        print_text(&f);
}
