/* The page of a plan: it holds what it is made of, and whatever allocation fails, no file is left
 * and no memory lost. */
#include "a_machine.h"
#include "check.h"
#include "failing.h"
#include "os/heap.h"
#include "os/os.h"
#include "report/plan_report.h"
#include "small_models.h"
#include "training_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char folder[] = "/tmp/quern-page-XXXXXX";

static qn_status build(qn_program *p) {
    return build_training(&small_conv, 16, NULL, p);
}

/* The usual sequence, with the first node running a second time. */
static void plan_again(const qn_graph *graph, qn_budget_plan *made) {
    const qn_allocator *a = qn_allocator_default();
    qn_sequence sequence, again;
    CHECK_OK(qn_sequence_base(a, graph, &sequence));
    qn_sequence_init(&again, a);
    for (size_t i = 0; i < sequence.n; i++) {
        if (i == sequence.n / 2)
            CHECK_OK(qn_sequence_add(&again, QN_ACTION_RUN, sequence.items[0].id));
        CHECK_OK(qn_sequence_add(&again, sequence.items[i].action, sequence.items[i].id));
    }
    CHECK_OK(qn_budget_plan_make(a, graph, A_MACHINE(qn_kernels_get(QN_F32, QN_ISA_REF), 2), &again,
                                 made));
    qn_sequence_deinit(&sequence);
    qn_sequence_deinit(&again);
}

static bool reads(const qn_node *node, qn_value value) {
    bool does = false;
    for (int i = 0; i < node->n_inputs; i++)
        does |= node->inputs[i].id == value.id;
    return does;
}

/* The usual sequence; the first node's output is in the file where nobody reads it longest. */
static void plan_swapped(const qn_graph *graph, const qn_machine *machine, qn_budget_plan *made) {
    const qn_allocator *a = qn_allocator_default();
    const qn_value value = graph->nodes[0]->outputs[0];
    qn_sequence base, swapped;
    CHECK_OK(qn_sequence_base(a, graph, &base));
    size_t from = 0, to = 0, last = 0;
    for (size_t i = 1; i < base.n; i++) {
        if (!reads(graph->nodes[base.items[i].id], value))
            continue;
        if (last > 0 && i - last > to - from) {
            from = last;
            to = i;
        }
        last = i;
    }
    CHECK(to > from + 2);
    qn_sequence_init(&swapped, a);
    for (size_t i = 0; i < base.n; i++) {
        if (i == to)
            CHECK(qn_sequence_add(&swapped, QN_ACTION_LOAD, value.id) == QN_OK &&
                  qn_sequence_add(&swapped, QN_ACTION_LOADED, value.id) == QN_OK);
        CHECK_OK(qn_sequence_add(&swapped, base.items[i].action, base.items[i].id));
        if (i == 0)
            CHECK_OK(qn_sequence_add(&swapped, QN_ACTION_STORE, value.id));
        if (i == from)
            CHECK_OK(qn_sequence_add(&swapped, QN_ACTION_STORED, value.id));
    }
    CHECK_OK(qn_budget_plan_make(a, graph, machine, &swapped, made));
    qn_sequence_deinit(&base);
    qn_sequence_deinit(&swapped);
}

static qn_report_program describe(const qn_program *built, const qn_budget_plan *made) {
    return (qn_report_program){.name = "training",
                               .is_training = true,
                               .base = built->graph,
                               .graph = made->graph,
                               .plan = made->plan,
                               .budget = made,
                               .base_ns = 1e6};
}

static qn_plan_report report_of(qn_report_program *program) {
    const size_t arena = program->plan->arena_bytes;
    return (qn_plan_report){.model = "<small>",
                            .input = "8x8x3",
                            .optimizer = "sgd",
                            .isa = "ref",
                            .batch = 16,
                            .n_threads = 2,
                            .budget_bytes = 2 * arena,
                            .peak_bytes = arena + 1000,
                            .arena_bytes = arena,
                            .n_programs = 1,
                            .programs = program};
}

static void test_page(const qn_plan_report *report, const char *path) {
    char *text;
    size_t bytes;
    CHECK_OK(qn_plan_report_write(NULL, report, path));
    CHECK_OK(qn_file_read_whole(NULL, path, &text, &bytes));
    CHECK(strstr(text, "&lt;small&gt;, batch 16: memory plan"));
    CHECK(strstr(text, "Memory of training over its steps"));
    CHECK(strstr(text, "Recomputed or swapped in training"));
    CHECK(strstr(text, "\"conv1.again\",\"16x8x8x7\"]"));
    CHECK(strstr(text, "\"limit\":"));
    CHECK(!strstr(text, "Lanes of") && !strstr(text, "waits for"));
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    CHECK(unlink(path) == 0);
}

/* A plan with lanes: a picture of each space, a table of lanes, and what each step waits for. */
static void test_lanes(const qn_program *built, const char *path) {
    const qn_machine *machine = A_DISK_MACHINE(qn_kernels_get(QN_F32, QN_ISA_REF), 2);
    qn_budget_plan made;
    plan_swapped(built->graph, machine, &made);
    qn_report_program program = describe(built, &made);
    qn_plan_report report = report_of(&program);
    report.machine = machine;
    char *text;
    size_t bytes;
    CHECK_OK(qn_plan_report_write(NULL, &report, path));
    CHECK_OK(qn_file_read_whole(NULL, path, &text, &bytes));
    CHECK(strstr(text, "Memory of training over its steps: disk"));
    CHECK(strstr(text, "Lanes of training") && strstr(text, "waits for"));
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    CHECK(unlink(path) == 0);
    int32_t n_steps = 0, n_waits = 0;
    CHECK(qn_report_space_count(&program) == 2 && qn_report_lane_count(&program) == 3);
    CHECK(strcmp(qn_report_space_name(&report, 1), "disk") == 0);
    for (int i = 0; i < 3; i++) {
        const qn_report_lane lane = qn_report_lane_at(&report, &program, i);
        CHECK(strcmp(lane.device, i == 0 ? "cpu" : "disk") == 0);
        CHECK(i == 0 || lane.n_steps == 1);
        n_steps += lane.n_steps;
        n_waits += lane.n_waits;
    }
    CHECK(n_steps == made.plan->n_steps && n_waits == made.plan->lanes->n_waits && n_waits > 2);
    qn_budget_plan_deinit(&made);
}

static void test_failures(const qn_plan_report *report, const char *path) {
    qn_status status = QN_ERROR_MEMORY;
    int64_t n = 0;
    for (; status != QN_OK && n < 1000; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = qn_plan_report_write(&allocator, report, path);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
        CHECK(qn_path_is_file(path) == (status == QN_OK));
    }
    CHECK(n > 5 && status == QN_OK);
    unlink(path);
}

int main(void) {
    char path[64];
    qn_program built;
    qn_budget_plan made;
    qn_arena memory;
    CHECK(mkdtemp(folder) != NULL);
    snprintf(path, sizeof path, "%s/plan.html", folder);
    qn_arena_init(&memory, qn_allocator_default());
    CHECK_OK(build(&built));
    plan_again(built.graph, &made);
    qn_report_program program = describe(&built, &made);
    CHECK_OK(qn_plan_report_extra(&memory, &program));
    CHECK(program.n_again == 1 && strcmp(program.again[0].name, "conv1") == 0);
    CHECK(program.again[0].n_times == 1 && program.again[0].bytes == 16 * 8 * 8 * 7 * 4);
    const qn_plan_report report = report_of(&program);
    test_page(&report, path);
    test_failures(&report, path);
    test_lanes(&built, path);
    qn_arena_deinit(&memory);
    qn_budget_plan_deinit(&made);
    qn_program_deinit(&built);
    rmdir(folder);
    return checks_finish();
}
