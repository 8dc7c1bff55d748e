/* quern merge: full weights from an adapter and the base weights that it was trained on. */
#include "base/status.h"
#include "cli/model.h"
#include "cli/session.h"
#include "cli/terminal.h"

#include <stdio.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_INPUT,
     .of_run = "best",
     .argument = "FILE",
     .otherwise = "none, must be given",
     .help = "adapter saved by quern train --lora"},
    {.name = "out",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_WEIGHTS,
     .argument = "FILE",
     .otherwise = "none, must be given",
     .help = "safetensors file with the whole network's weights"},
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .otherwise = "the adapter's",
     .help = "current path of the data that sets input and output sizes"},
    {.name = "load",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "the adapter's",
     .help = "current path of the base weights"},
};

static qn_status merge(const arguments *a, session *s) {
    static const char *const names[] = {"data", "load"};
    const char *weights = arguments_get(a, "weights"), *out = arguments_get(a, "out");
    if (!weights || !out)
        return qn_fail(QN_ERROR_ARGUMENT, "quern merge needs --weights FILE and --out FILE");
    model_read_options(a);
    QN_TRY(session_begin(s, a->words[0], NULL, weights));
    if (!qn_metadata_get(s->kept, "lora"))
        return qn_fail(QN_ERROR_ARGUMENT, "%s is not an adapter, so there is nothing to merge",
                       weights);
    for (int i = 0; i < 2; i++) {
        if (arguments_get(a, names[i]))
            QN_TRY(qn_metadata_set(s->pairs, names[i], arguments_get(a, names[i])));
    }
    QN_TRY(session_keep_pairs(s));
    QN_TRY(session_open_task(s, false, 0));
    QN_TRY(session_load(s, weights, false));
    return qn_checkpoint_save_merged(qn_task_engine(s->task), s->pairs, out);
}

static int run(const arguments *a) {
    session s;
    session_init(&s);
    const qn_status status = merge(a, &s);
    if (status == QN_OK)
        printf("saved to %s\n", terminal_name(arguments_get(a, "out")));
    session_deinit(&s);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_merge = {
    .name = "merge",
    .words = "MODEL",
    .least_words = 1,
    .most_words = 1,
    .summary = "Merge an adapter into its base weights",
    .description =
        "The result is a checkpoint as quern train saves it without --lora: for quern evaluate,\n"
        "predict and sample, and for further training (--load).",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&onnx_options},
    .run = run,
    .makes_files = true,
};
