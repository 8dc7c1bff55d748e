/* Plan files: whatever the bytes, a plan that is restored from them keeps its promises, and every
 * other one is refused. They are held against the training graph of LeNet-5 for a batch of 2,
 * planned for two threads and the reference kernels; fingerprints are passed over, for no file
 * would match by chance. */
#include "format/plan_file.h"
#include "quern/quern.h"
#include "run/program.h"
#include "run/trainer.h"

#include <stdlib.h>

enum { N_THREADS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const qn_graph *build(void) {
    static qn_trainer_options o;
    static qn_program program;
    qn_program_options programs[QN_TRAINER_PROGRAMS];
    o = qn_trainer_options_for(qn_model_find("lenet5"));
    o.allocator = qn_allocator_default();
    o.real = QN_F32;
    o.n_outputs = 10;
    o.batch = o.evaluation_batch = 2;
    o.update.accumulate = 1;
    const qn_engine_options engine = {.allocator = o.allocator, .real = o.real, .update = o.update};
    qn_trainer_describe(&o, programs);
    if (qn_program_build(&program, &programs[QN_TRAINER_TRAINING], &engine) != QN_OK)
        abort();
    return program.graph;
}

static void restore(qn_saved_program *saved, const qn_graph *graph) {
    qn_budget_plan restored;
    saved->graph = qn_saved_fingerprint(graph);
    if (qn_saved_restore(qn_allocator_default(), saved, graph, qn_kernels_get(QN_F32, QN_ISA_REF),
                         N_THREADS, &restored) != QN_OK)
        return;
    if (qn_plan_check(restored.plan, restored.graph) != QN_OK ||
        qn_sequence_check(&restored.sequence, graph) != QN_OK ||
        restored.plan->arena_bytes != saved->arena_bytes)
        abort();
    qn_budget_plan_deinit(&restored);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const qn_graph *graph;
    qn_plan_file file;
    if (!graph)
        graph = build();
    qn_plan_file_init(&file, NULL);
    if (qn_plan_file_parse(&file, "fuzz", (const char *)data, size) == QN_OK) {
        for (int i = 0; i < file.plan.n_programs && i < 4; i++)
            restore(&file.plan.programs[i], graph);
    }
    qn_plan_file_deinit(&file);
    return 0;
}
