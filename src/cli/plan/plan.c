/* quern plan: estimates what training a model takes, without training it. */
#include "cli/plan/plan.h"

#include "base/status.h"
#include "cli/look/reading.h"
#include "cli/plan/buffers.h"
#include "cli/train/training.h"

static const option options[] = {
    {.name = "data",
     .kind = OPTION_DATA,
     .argument = "DATA",
     .is_kept = true,
     .fallback = "synthetic",
     .help = "training data"},
    {.name = "max-batch",
     .kind = OPTION_FLAG,
     .fallback = "no",
     .help = "find the largest batch that --memory allows, and the fastest, before"},
    {.name = "html",
     .kind = OPTION_OUTPUT,
     .makes = QN_OWN_PAGE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "HTML page with a timeline of memory use"},
    {.name = "save",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_PLAN,
     .argument = "FILE",
     .otherwise = "none",
     .help = "save the plan, for training with --plan"},
    {.name = "load",
     .kind = OPTION_INPUT,
     .argument = "FILE",
     .otherwise = "none",
     .help = "check and show a plan written by --save"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

static qn_status check_usage(const arguments *a) {
    if (arguments_has(a, "resume") || arguments_has(a, "override"))
        return qn_fail(QN_ERROR_ARGUMENT, "quern plan trains nothing: --resume and --override are "
                                          "of quern train");
    if (a->n_words == 0 && !arguments_has(a, "load"))
        return qn_fail(
            QN_ERROR_ARGUMENT,
            "quern plan needs a MODEL, --load FILE or --buffers FILE; see quern plan --help");
    if (arguments_flag(a, "max-batch") && (!arguments_has(a, "memory") || arguments_has(a, "load")))
        return qn_fail(QN_ERROR_ARGUMENT, "--max-batch needs a --memory SIZE, and no --load");
    if (arguments_flag(a, "max-batch") && arguments_has(a, "micro-batch"))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--micro-batch is a divisor of one batch; --max-batch tries many");
    return QN_OK;
}

static qn_status plan_anew(planning *p) {
    QN_TRY(planning_begin(p));
    if (plan_wants_device(p->a))
        QN_TRY(plan_choose_device(p));
    if (arguments_flag(p->a, "max-batch"))
        QN_TRY(plan_batches(p));
    QN_TRY(planning_open(p));
    return planning_fill(p);
}

static qn_status find_out(planning *p) {
    const char *load = arguments_get(p->a, "load"), *save = arguments_get(p->a, "save");
    const char *html = arguments_get(p->a, "html");
    QN_TRY(check_usage(p->a));
    QN_TRY(load ? plan_load(p, load) : plan_anew(p));
    if (plan_wants_schedule(p->a))
        QN_TRY(plan_schedule(p));
    if (save)
        QN_TRY(plan_save(p, save));
    return html ? qn_plan_report_write(NULL, &p->report, html) : QN_OK;
}

static int run(const arguments *a) {
    if (arguments_has(a, "buffers"))
        return plan_buffers(a);
    planning p;
    int result = EXIT_DONE;
    planning_init(&p, a);
    qn_status status = find_out(&p);
    if (status == QN_OK) {
        if (arguments_flag(a, "json"))
            plan_print_json(&p.report);
        else
            plan_print(&p.report);
        plan_print_device(&p);
        if (plan_wants_schedule(a))
            plan_print_schedule(&p);
        if (plan_wants_cores(a))
            status = plan_compare_cores(&p);
    }
    if (status != QN_OK)
        result = report_failure(status);
    planning_deinit(&p);
    return result;
}

const command command_plan = {
    .name = "plan",
    .words = "MODEL",
    .least_words = 0,
    .most_words = 1,
    .summary = "Estimate training cost",
    .description =
        "Plans training as quern train would, without training. Prints the peak of all memory\n"
        "that training needs, its fixed part, how much is in use at once, and the peak without\n"
        "planning: every value allocated when it is computed and freed after its last reader.\n"
        "\n"
        "With --device auto, times the operations on this machine's processors and says which "
        "would\n"
        "run where, why, and what that would gain. With --device hexagon:emulated, counts the "
        "DSP's\n"
        "instruction packets and says the same of a phone's CPU and DSP, by a model.\n"
        "\n"
        "With --cores auto, also measures operations on this machine and shows the schedule over "
        "the\n"
        "cores that training would begin with; with --html, its lanes over time.\n"
        "\n"
        "With --compare-cores, also predicts a step with operations side by side, scheduled over\n"
        "the cores of this machine, or of --machine FILE, by several rules.\n"
        "\n"
        "With --buffers, packs the buffers of a CSV file, each in use during [lower, upper); no\n"
        "MODEL is needed. Exits with 0 if they fit into the capacity and with 3 if they do not.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&plan_buffers_options, &plan_cores_options, &training_options, &table_options,
               &table_form_options, &reading_options, &onnx_options},
    .run = run,
};
