/* The output of quern plan; see plan.h. */
#include "base/print.h"
#include "base/text.h"
#include "cli/json.h"
#include "cli/plan/plan.h"
#include "cli/terminal.h"
#include "os/process/group.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static const char *const kind_words[QN_KIND_COUNT] = {
    [QN_KIND_INPUT] = "input",          [QN_KIND_LABEL] = "labels",
    [QN_KIND_PARAMETER] = "parameters", [QN_KIND_GRADIENT] = "gradients",
    [QN_KIND_STATE] = "state",          [QN_KIND_FEATURE] = "feature maps",
    [QN_KIND_WORKSPACE] = "workspace",
};

/* ---- for people ---- */

enum { INDENT = 14, LINE = 512 }; /* where values stand */

/* Adds to a line, as far as there is room. */
__attribute__((format(printf, 2, 3))) static void add(char line[LINE], const char *format, ...) {
    const size_t used = strlen(line);
    va_list list;
    va_start(list, format);
    qn_print_list(line + used, LINE - used, format, list);
    va_end(list);
}

/* What ends a run of this plan here, if it is run here. */
static void print_group(const qn_plan_report *r) {
    qn_group group;
    char a[QN_SIZE_TEXT];
    qn_group_read("", &group);
    if (group.left_bytes >= 0 && (size_t)group.left_bytes < r->peak_bytes)
        terminal_print(INDENT,
                       "  group       %s are left to this control group: quern train plans within "
                       "them, or refuses",
                       qn_text_print_size((uint64_t)group.left_bytes, a));
}

static void print_peak(const qn_plan_report *r) {
    char a[QN_SIZE_TEXT], b[QN_SIZE_TEXT];
    terminal_print(INDENT, "peak          %s of memory for training, as planned",
                   qn_text_print_size(r->peak_bytes, a));
    if (r->budget_bytes > 0)
        terminal_print(INDENT, "  budget      %s", qn_text_print_size(r->budget_bytes, a));
    print_group(r);
    terminal_print(INDENT, "  fixed       %s: parameters and optimiser state",
                   qn_text_print_size(r->fixed_bytes, a));
    terminal_print(INDENT, "  arena       %s; at most %s in use at once",
                   qn_text_print_size(r->arena_bytes, a),
                   qn_text_print_size(r->lower_bound_bytes, b));
    terminal_print(INDENT, "  rest        %s: data, graphs, plans",
                   qn_text_print_size(r->peak_bytes - r->fixed_bytes - r->arena_bytes, a));
}

static void print_against(const qn_plan_report *r) {
    char a[QN_SIZE_TEXT];
    terminal_print(INDENT, "unplanned     %s; the plan needs %.1f %% of that",
                   qn_text_print_size(r->unplanned_peak_bytes, a),
                   100 * (double)r->peak_bytes / (double)r->unplanned_peak_bytes);
    terminal_print(INDENT, "updates       as soon as a gradient is ready, saving %s",
                   qn_text_print_size(r->early_bytes, a));
}

static void print_largest(const qn_plan_report *r) {
    const qn_report_program *p = &r->programs[r->largest];
    char a[QN_SIZE_TEXT], line[LINE] = "              ";
    const char *separator = "";
    if (p->plan->n_steps == 0)
        return;
    if (p->micro_batch > 0)
        terminal_print(INDENT, "batch         in pieces of %lld samples",
                       (long long)p->micro_batch);
    terminal_print(INDENT, "peak step     %d of %d in %s: %s", p->peak_step, p->plan->n_steps,
                   p->name, p->graph->nodes[p->plan->steps[p->peak_step].node]->name);
    for (int kind = 0; kind < QN_KIND_COUNT; kind++) {
        if (p->kind_bytes[kind] == 0)
            continue;
        add(line, "%s%s %s", separator, kind_words[kind],
            qn_text_print_size(p->kind_bytes[kind], a));
        separator = ", ";
    }
    terminal_print(INDENT, "%s", line);
}

enum {
    MOST_AGAIN = 20,
    TYPE = 22,
    OTHER_COLUMNS = 28 + TYPE,
    NARROW = 75,
    LEAST_NAME = 10,
    MOST_NAME = 48
};

/* A name that loses its middle where it is too long: names differ at their ends. */
static const char *shortened(const char *name, int width, char text[MOST_NAME + 1]) {
    const int length = (int)strlen(name), head = (width - 2) / 2;
    if (length <= width)
        return name;
    snprintf(text, MOST_NAME + 1, "%.*s..%s", head, name, name + length - (width - 2 - head));
    return text;
}

/* A narrow terminal gets no types, so that names stay different. */
static void print_again(const qn_report_program *p) {
    char bytes[QN_SIZE_TEXT], name[MOST_NAME + 1];
    const int columns = terminal_table_columns(OTHER_COLUMNS + MOST_NAME);
    const int type = columns < NARROW ? 0 : TYPE;
    int width = columns - OTHER_COLUMNS + TYPE - type;
    width = width < LEAST_NAME ? LEAST_NAME : width > MOST_NAME ? MOST_NAME : width;
    if (p->n_again == 0)
        return;
    printf("\n%-*.*s %-*.*s %10s %5s %9s\n", width, width, "recomputed or swapped", type, type,
           "type", "bytes", "times", "ms");
    for (int32_t i = 0; i < p->n_again && i < MOST_AGAIN; i++) {
        const qn_report_extra *again = &p->again[i];
        printf("%-*s %-*.*s %10s %5d %9.3f\n", width, shortened(again->name, width, name), type,
               type, again->type, qn_text_print_size(again->bytes, bytes), again->n_times,
               again->ns * 1e-6);
    }
    if (p->n_again > MOST_AGAIN)
        printf("and %d more: see --json or --html\n", p->n_again - MOST_AGAIN);
}

static const char *what_costs(const qn_plan_report *r, const qn_report_program *p) {
    return p->n_again == 0 ? "split" : r->budget_bytes > 0 ? "budget" : "recomputation";
}

/* Of the largest program: what a step takes. */
static void print_time(const qn_plan_report *r) {
    const qn_report_program *p = &r->programs[r->largest];
    char line[LINE] = "";
    add(line, "time          %.1f ms a step of %s, %s", p->base_ns * 1e-6, p->name,
        r->is_measured ? "measured" : "estimated");
    if (p->extra_ns > 0)
        add(line, "; the %s adds %.1f ms (%.1f %%)", what_costs(r, p), p->extra_ns * 1e-6,
            100 * p->extra_ns / p->base_ns);
    terminal_print(INDENT, "%s", line);
}

static void print_programs(const qn_plan_report *r) {
    enum { NUMBERS = 53, NAME = 24 };
    char arena[QN_SIZE_TEXT], bound[QN_SIZE_TEXT], unplanned[QN_SIZE_TEXT];
    int width = terminal_table_columns(NUMBERS + NAME) - NUMBERS;
    width = width < LEAST_NAME ? LEAST_NAME : width > NAME ? NAME : width;
    printf("\n%-*s %6s %9s %10s %10s %10s\n", width, "program", "steps", "storages", "arena",
           "in use", "unplanned");
    for (int i = 0; i < r->n_programs; i++) {
        const qn_report_program *p = &r->programs[i];
        printf("%-*s %6d %9d %10s %10s %10s\n", width, p->name, p->plan->n_steps,
               p->plan->n_storages, qn_text_print_size(p->plan->arena_bytes, arena),
               qn_text_print_size(p->plan->lower_bound_bytes, bound),
               qn_text_print_size(p->unplanned.bytes, unplanned));
    }
}

/* Of a program that does not run on the host alone. */
static void print_lanes(const qn_plan_report *r, const qn_report_program *p) {
    char arena[QN_SIZE_TEXT], bound[QN_SIZE_TEXT], stay[QN_SIZE_TEXT];
    if (!p->plan->lanes)
        return;
    printf("\n%-6s %-10s %-10s %7s %6s %6s  of %s\n", "lane", "device", "memory", "threads",
           "steps", "waits", p->name);
    for (int i = 0; i < qn_report_lane_count(p); i++) {
        const qn_report_lane lane = qn_report_lane_at(r, p, i);
        printf("%-6d %-10s %-10s %7d %6d %6d\n", i, lane.device, lane.space, lane.n_threads,
               lane.n_steps, lane.n_waits);
    }
    for (int i = 1; i < qn_report_space_count(p); i++) {
        const qn_arena_need need = qn_plan_arena(p->plan, i);
        const size_t given = qn_plan_given_bytes(p->plan, i);
        if (need.bytes + given == 0) /* a space of this machine that the program does not use */
            continue;
        terminal_print(INDENT, "%-13s %s; at most %s in use at once%s%s",
                       qn_report_space_name(r, i), qn_text_print_size(need.bytes, arena),
                       qn_text_print_size(need.lower_bound_bytes, bound),
                       given ? "; parameters and state that stay there: " : "",
                       given ? qn_text_print_size(given, stay) : "");
    }
}

void plan_print(const qn_plan_report *r) {
    char a[QN_SIZE_TEXT];
    terminal_print(2, "%s: batch %lld, input %s, %s, %d thread%s, %s", r->model,
                   (long long)r->batch, r->input, r->optimizer, r->n_threads,
                   r->n_threads == 1 ? "" : "s", r->isa);
    print_peak(r);
    print_against(r);
    print_largest(r);
    print_time(r);
    terminal_print(INDENT, "planning      %.1f ms, %s of memory", (double)r->planning_ns * 1e-6,
                   qn_text_print_size(r->planner_bytes, a));
    print_programs(r);
    for (int i = 0; i < r->n_programs; i++)
        print_lanes(r, &r->programs[i]);
    for (int i = 0; i < r->n_programs; i++)
        print_again(&r->programs[i]);
}

/* ---- JSON ---- */

static void add_program(const qn_report_program *p) {
    char key[40];
    json_begin_item();
    json_text("program", p->name);
    json_flag("training", p->is_training);
    json_count("micro_batch", p->micro_batch);
    json_count("nodes", p->graph->n_nodes);
    json_count("steps", p->plan->n_steps);
    json_count("storages", p->plan->n_storages);
    json_count("arena_bytes", (int64_t)p->plan->arena_bytes);
    json_count("lower_bound_bytes", (int64_t)p->plan->lower_bound_bytes);
    json_count("default_arena_bytes", (int64_t)p->default_bytes);
    json_count("once_arena_bytes", (int64_t)p->once_bytes);
    json_count("late_arena_bytes", (int64_t)p->late_bytes);
    json_count("unplanned_bytes", (int64_t)p->unplanned.bytes);
    json_count("unplanned_freed_bytes", (int64_t)p->unplanned.freed_bytes);
    json_count("peak_step", p->peak_step);
    json_number("base_ms", p->base_ns * 1e-6);
    json_number("extra_ms", p->extra_ns * 1e-6);
    for (int kind = 0; kind < QN_KIND_COUNT; kind++) {
        snprintf(key, sizeof key, "peak_%s_bytes", qn_kind_name((qn_kind)kind));
        json_count(key, (int64_t)p->kind_bytes[kind]);
    }
    json_end_item();
}

/* One list for all programs: lists of objects do not hold lists. */
static void add_again(const qn_report_program *p) {
    for (int32_t i = 0; i < p->n_again; i++) {
        const qn_report_extra *again = &p->again[i];
        json_begin_item();
        json_text("program", p->name);
        json_text("name", again->name);
        json_text("type", again->type);
        json_flag("swapped", again->is_swapped);
        json_count("times", again->n_times);
        json_count("bytes", (int64_t)again->bytes);
        json_number("ms", again->ns * 1e-6);
        json_end_item();
    }
}

static void add_spaces(const qn_plan_report *r, const qn_report_program *p) {
    for (int i = 0; i < qn_report_space_count(p); i++) {
        const qn_arena_need need = qn_plan_arena(p->plan, i);
        json_begin_item();
        json_text("program", p->name);
        json_text("space", qn_report_space_name(r, i));
        json_count("arena_bytes", (int64_t)need.bytes);
        json_count("lower_bound_bytes", (int64_t)need.lower_bound_bytes);
        json_count("given_bytes", (int64_t)qn_plan_given_bytes(p->plan, i));
        json_end_item();
    }
}

static void add_lanes(const qn_plan_report *r, const qn_report_program *p) {
    for (int i = 0; i < qn_report_lane_count(p); i++) {
        const qn_report_lane lane = qn_report_lane_at(r, p, i);
        json_begin_item();
        json_text("program", p->name);
        json_count("lane", i);
        json_text("device", lane.device);
        json_text("space", lane.space);
        json_count("threads", lane.n_threads);
        json_count("steps", lane.n_steps);
        json_count("waits", lane.n_waits);
        json_end_item();
    }
}

/* What runs beside lane 0, and where lanes wait for one another: a step for one of another lane. */
static void add_steps(const qn_report_program *p) {
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        if (p->plan->steps[s].lane == 0)
            continue;
        json_begin_item();
        json_text("program", p->name);
        json_count("step", s);
        json_count("lane", p->plan->steps[s].lane);
        json_text("name", p->graph->nodes[p->plan->steps[s].node]->name);
        json_end_item();
    }
}

static void add_waits(const qn_report_program *p) {
    for (int32_t s = 0; s < p->plan->n_steps; s++) {
        int32_t n;
        const int32_t *waits = qn_plan_waits(p->plan, s, &n);
        for (int32_t i = 0; i < n; i++) {
            json_begin_item();
            json_text("program", p->name);
            json_count("step", s);
            json_count("after", waits[i]);
            json_end_item();
        }
    }
}

/* Of all programs, as again. */
static void add_graph_of_steps(const qn_plan_report *r) {
    json_open_list("spaces");
    for (int i = 0; i < r->n_programs; i++)
        add_spaces(r, &r->programs[i]);
    json_close_list();
    json_open_list("lanes");
    for (int i = 0; i < r->n_programs; i++)
        add_lanes(r, &r->programs[i]);
    json_close_list();
    json_open_list("beside");
    for (int i = 0; i < r->n_programs; i++)
        add_steps(&r->programs[i]);
    json_close_list();
    json_open_list("waits");
    for (int i = 0; i < r->n_programs; i++)
        add_waits(&r->programs[i]);
    json_close_list();
}

void plan_print_json(const qn_plan_report *r) {
    json_begin();
    json_text("event", "plan");
    json_text("model", r->model);
    json_count("batch", r->batch);
    json_text("input", r->input);
    json_text("optimizer", r->optimizer);
    json_count("threads", r->n_threads);
    json_text("isa", r->isa);
    json_count("memory_budget_bytes", (int64_t)r->budget_bytes);
    json_count("peak_bytes", (int64_t)r->peak_bytes);
    json_count("fixed_bytes", (int64_t)r->fixed_bytes);
    json_count("arena_bytes", (int64_t)r->arena_bytes);
    json_count("lower_bound_bytes", (int64_t)r->lower_bound_bytes);
    json_count("default_peak_bytes", (int64_t)r->default_peak_bytes);
    json_count("unplanned_peak_bytes", (int64_t)r->unplanned_peak_bytes);
    json_count("early_update_saves_bytes", (int64_t)r->early_bytes);
    json_flag("is_measured", r->is_measured);
    json_number("planning_ms", (double)r->planning_ns * 1e-6);
    json_count("planner_bytes", (int64_t)r->planner_bytes);
    json_open_list("programs");
    for (int i = 0; i < r->n_programs; i++)
        add_program(&r->programs[i]);
    json_close_list();
    json_open_list("again");
    for (int i = 0; i < r->n_programs; i++)
        add_again(&r->programs[i]);
    json_close_list();
    add_graph_of_steps(r);
    json_end();
}
