/* Plan files: what is read is written and read again as the same bytes; whatever the bytes, a plan
 * that is restored from them keeps its promises, and every other one is refused. They are held
 * against the training graph of LeNet-5 for a batch of 2, planned for two threads and the reference
 * kernels; fingerprints are passed over, for no file would match by chance. */
#include "a_machine.h"
#include "format/plan_file.h"
#include "fuzz/input.h"
#include "quern/quern.h"
#include "run/program.h"
#include "run/trainer.h"

enum { N_THREADS = 2 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const qn_graph *build(void) {
    static qn_trainer_options o;
    static qn_program program;
    qn_program_options programs[QN_TRAINER_PROGRAMS];
    o = qn_trainer_options_for(qn_model_find("lenet5"));
    o.engine.allocator = qn_allocator_default();
    o.engine.real = QN_F32;
    o.n_outputs = 10;
    o.batch = o.evaluation_batch = 2;
    o.engine.update.accumulate = 1;
    const qn_engine_options engine = {QN_OPTIONS_INIT(qn_engine_options),
                                      .allocator = o.engine.allocator, .real = o.engine.real,
                                      .update = o.engine.update};
    qn_trainer_describe(&o, programs);
    if (qn_program_build(&program, &programs[QN_TRAINER_TRAINING], &engine) != QN_OK)
        abort();
    return program.graph;
}

static void restore(qn_saved_program *saved, const qn_graph *graph) {
    qn_budget_plan restored;
    saved->graph = qn_saved_fingerprint(graph);
    if (qn_saved_restore(qn_allocator_default(), saved, graph,
                         A_MACHINE(qn_kernels_get(QN_F32, QN_ISA_REF), N_THREADS),
                         &restored) != QN_OK)
        return;
    if (qn_plan_check(restored.plan, restored.graph) != QN_OK ||
        qn_sequence_check(&restored.sequence, graph) != QN_OK ||
        restored.plan->arena_bytes != saved->arena_bytes)
        abort();
    qn_budget_plan_deinit(&restored);
}

/* Writes a plan and reads it: the text that is written of it. */
static char *write_and_read(const qn_plan_file *file, qn_plan_file *back, size_t *bytes) {
    char path[128], *text;
    snprintf(path, sizeof path, "%s/plan.json", input_folder());
    qn_plan_file_init(back, NULL);
    if (qn_plan_file_write(file, path) != QN_OK ||
        qn_file_read_whole(NULL, path, &text, bytes) != QN_OK ||
        qn_plan_file_read(back, path) != QN_OK)
        abort();
    return text;
}

static void check_written(const qn_plan_file *file) {
    qn_plan_file first, second;
    size_t n_first, n_second;
    char *one = write_and_read(file, &first, &n_first);
    char *two = write_and_read(&first, &second, &n_second);
    if (n_first != n_second || memcmp(one, two, n_first) != 0)
        abort();
    qn_release(qn_allocator_default(), one, n_first + 1, 1);
    qn_release(qn_allocator_default(), two, n_second + 1, 1);
    qn_plan_file_deinit(&first);
    qn_plan_file_deinit(&second);
}

/* As much of it as memory allows. */
static void parse_failing(const uint8_t *data, size_t size) {
    failing f = input_failing(data, size);
    const qn_allocator allocator = input_allocator(&f);
    qn_plan_file file;
    qn_plan_file_init(&file, &allocator);
    (void)qn_plan_file_parse(&file, "fuzz", (const char *)data, size);
    qn_plan_file_deinit(&file);
    input_check_memory(&f);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    static const qn_graph *graph;
    qn_plan_file file;
    if (!graph)
        graph = build();
    parse_failing(data, size);
    qn_plan_file_init(&file, NULL);
    if (qn_plan_file_parse(&file, "fuzz", (const char *)data, size) == QN_OK) {
        check_written(&file);
        for (int i = 0; i < file.plan.n_programs && i < 4; i++)
            restore(&file.plan.programs[i], graph);
    }
    qn_plan_file_deinit(&file);
    return 0;
}
