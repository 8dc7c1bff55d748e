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
    qn_release(qn_allocator_default(), text, bytes + 1, 1);
    CHECK(unlink(path) == 0);
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
    qn_arena_deinit(&memory);
    qn_budget_plan_deinit(&made);
    qn_program_deinit(&built);
    rmdir(folder);
    return checks_finish();
}
