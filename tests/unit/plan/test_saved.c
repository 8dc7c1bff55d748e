/* Plans that are taken down and restored are the plans they were, also where nodes run again, and
 * whatever allocation fails, nothing is left behind. */
#include "a_machine.h"
#include "check.h"
#include "failing.h"
#include "format/plan_file.h"
#include "os/heap.h"
#include "small_models.h"
#include "training_program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const qn_kernels *kernels;
static char path[] = "/tmp/quern-plan-XXXXXX";

static qn_status build(qn_program *p, int64_t batch) {
    return build_training(&small_conv, batch, NULL, p);
}

/* The usual sequence, with the first node running a second time before the last but one. */
static void make_again(const qn_graph *graph, qn_budget_plan *made) {
    const qn_allocator *a = qn_allocator_default();
    qn_sequence usual, again;
    CHECK_OK(qn_sequence_base(a, graph, &usual));
    qn_sequence_init(&again, a);
    for (size_t i = 0; i < usual.n; i++) {
        if (i == usual.n / 2)
            CHECK_OK(qn_sequence_add(&again, QN_ACTION_RUN, usual.items[0].id));
        CHECK_OK(qn_sequence_add(&again, usual.items[i].action, usual.items[i].id));
    }
    CHECK_OK(qn_budget_plan_make(a, graph, A_MACHINE(kernels, 2), &again, made));
    qn_sequence_deinit(&usual);
    qn_sequence_deinit(&again);
}

static qn_status save(const qn_allocator *allocator, const qn_graph *graph,
                      const qn_budget_plan *made) {
    qn_plan_setting settings[] = {{"batch", "6"}, {"data", "a \"b\""}};
    qn_saved_program program;
    qn_plan_file file;
    qn_plan_file_init(&file, allocator);
    file.model = "small-conv";
    file.budget_bytes = 12345;
    file.n_settings = 2;
    file.settings = settings;
    qn_status status = qn_saved_take(&file.memory, "training", graph, made, &program);
    file.plan = (qn_saved_plan){2, "any", 1, &program};
    if (status == QN_OK)
        status = qn_plan_file_write(&file, path);
    qn_plan_file_deinit(&file);
    return status;
}

static qn_status restore(const qn_allocator *allocator, const qn_graph *graph,
                         qn_budget_plan *restored) {
    qn_plan_file file;
    const qn_saved_program *program = NULL;
    qn_plan_file_init(&file, allocator);
    qn_status status = qn_plan_file_read(&file, path);
    if (status == QN_OK) {
        CHECK(file.budget_bytes == 12345 && file.n_settings == 2);
        CHECK(strcmp(file.settings[1].value, "a \"b\"") == 0);
        status = qn_saved_find(&file.plan, 0, "training", 2, "any", &program);
    }
    if (status == QN_OK)
        status = qn_saved_restore(allocator, program, graph, A_MACHINE(kernels, 2), restored);
    qn_plan_file_deinit(&file);
    return status;
}

static void check_equal(const qn_budget_plan *a, const qn_budget_plan *b) {
    CHECK(a->sequence.n == b->sequence.n);
    for (size_t i = 0; i < a->sequence.n && i < b->sequence.n; i++)
        CHECK(a->sequence.items[i].action == b->sequence.items[i].action &&
              a->sequence.items[i].id == b->sequence.items[i].id);
    CHECK(a->plan->n_storages == b->plan->n_storages);
    for (int32_t i = 0; i < a->plan->n_storages; i++)
        CHECK(a->plan->storages[i].offset == b->plan->storages[i].offset);
    CHECK(a->plan->arena_bytes == b->plan->arena_bytes);
    CHECK(a->n_again == b->n_again);
}

static void test_failures(const qn_graph *graph, const qn_budget_plan *made) {
    qn_status status = QN_ERROR_MEMORY;
    for (int64_t n = 0; status != QN_OK && n < 10000; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        qn_budget_plan restored = {0};
        status = restore(&allocator, graph, &restored);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        if (status == QN_OK)
            check_equal(made, &restored);
        qn_budget_plan_deinit(&restored);
        CHECK(f.held_bytes == 0);
    }
    CHECK_OK(status);
}

static void test_refusals(const qn_graph *graph) {
    const qn_saved_plan plan = {2, "avx2", 0, NULL};
    const qn_saved_program *program;
    qn_program other;
    qn_budget_plan restored = {0};
    CHECK_FAILS(qn_saved_find(&plan, 0, "training", 1, "avx2", &program), QN_ERROR_ARGUMENT,
                "--threads 2");
    CHECK_FAILS(qn_saved_find(&plan, 0, "training", 2, "neon", &program), QN_ERROR_ARGUMENT,
                "this machine uses neon");
    CHECK_FAILS(qn_saved_find(&plan, 0, "training", 2, "avx2", &program), QN_ERROR_FORMAT,
                "no program");
    CHECK_OK(build(&other, 7));
    CHECK(qn_saved_fingerprint(other.graph) != qn_saved_fingerprint(graph));
    CHECK_FAILS(restore(NULL, other.graph, &restored), QN_ERROR_FORMAT, "another graph");
    qn_program_deinit(&other);
}

int main(void) {
    qn_program program;
    qn_budget_plan made, restored = {0};
    kernels = qn_kernels_get(QN_F32, QN_ISA_REF);
    const int descriptor = mkstemp(path);
    CHECK(descriptor >= 0);
    close(descriptor);
    CHECK_OK(build(&program, 6));
    make_again(program.graph, &made);
    CHECK(made.n_again == 1);
    CHECK_OK(save(NULL, program.graph, &made));
    CHECK_OK(restore(qn_allocator_default(), program.graph, &restored));
    check_equal(&made, &restored);
    qn_budget_plan_deinit(&restored);
    test_failures(program.graph, &made);
    test_refusals(program.graph);
    qn_budget_plan_deinit(&made);
    qn_program_deinit(&program);
    unlink(path);
    return checks_finish();
}
