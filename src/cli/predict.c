/* quern predict: what trained weights see in image files. */
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/model.h"
#include "quern/quern.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const option options[] = {
    {.name = "weights",
     .kind = OPTION_TEXT,
     .argument = "FILE",
     .otherwise = "none, must be given",
     .help = "checkpoint with the weights, the preparation and the classes"},
    {.name = "top",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 1e6,
     .fallback = "3",
     .help = "how many classes to name, the likeliest first"},
    {.name = "threads",
     .kind = OPTION_COUNT,
     .argument = "N",
     .least = 1,
     .most = 256,
     .otherwise = "the processors there are",
     .help = "threads; the result does not depend on them"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* One image and its outputs. */
typedef struct prediction {
    qn_counter counter; /* of all memory below */
    qn_allocator allocator;
    const qn_model *model;
    qn_metadata *metadata; /* of the checkpoint */
    qn_preparation preparation;
    qn_shape input;
    int n_outputs;
    bool is_regression;
    qn_trainer *trainer;
    int n_top;
    bool is_json;
    float *x;       /* sample */
    float *outputs; /* (n_outputs) */
} prediction;

/* Input, outputs and preparation as the checkpoint says. */
static qn_status read_checkpoint(prediction *p, const char *path) {
    QN_TRY(qn_checkpoint_read(&p->allocator, path, &p->metadata));
    const qn_status status = qn_metadata_get_preparation(p->metadata, &p->preparation);
    if (status != QN_OK)
        return qn_fail_within(status, "%s", path);
    QN_TRY(model_check(p->model, p->metadata, path));
    const char *input = qn_metadata_get(p->metadata, "input");
    const char *classes = qn_metadata_get(p->metadata, "classes");
    if (!input || !classes || !qn_shape_parse(input, &p->input))
        return qn_fail(QN_ERROR_FORMAT, "%s: its settings do not say input and classes", path);
    p->n_outputs = atoi(classes);
    p->is_regression = p->preparation.n_classes == 0;
    if (p->n_outputs < 1 || p->n_outputs < p->preparation.n_classes ||
        !qn_shape_equal(p->input, p->preparation.sample))
        return qn_fail(QN_ERROR_FORMAT, "%s: its settings and its preparation differ", path);
    if (p->preparation.sample.rank != 3)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s was trained on rows of numbers, not on images",
                       path);
    return QN_OK;
}

static qn_status open_trainer(prediction *p, const char *path, int n_threads) {
    const char *kept = qn_metadata_get(p->metadata, "model");
    const qn_trainer_options trainer = {
        .allocator = &p->allocator,
        .model = p->model,
        .input = p->input,
        .n_outputs = p->n_outputs,
        .regression = p->is_regression,
        .tuning = qn_tuning_of(p->metadata),
        .seed = qn_seed_of(p->metadata),
        .batch = 1,
        .n_threads = n_threads,
    };
    QN_TRY(qn_trainer_create(&trainer, &p->trainer));
    QN_TRY(qn_checkpoint_load_base(qn_trainer_engine(p->trainer), p->metadata, path));
    const qn_status status = qn_checkpoint_load(qn_trainer_engine(p->trainer), path, false);
    if (status != QN_OK && kept && strcmp(kept, p->model->name) != 0)
        return qn_fail_within(status, "%s is of model %s, not %s", path, kept, p->model->name);
    return status;
}

static qn_status open_all(const arguments *a, prediction *p) {
    const char *weights = arguments_get(a, "weights");
    if (!weights)
        return qn_fail(QN_ERROR_ARGUMENT, "quern predict needs --weights FILE");
    QN_TRY(model_find(a->words[0], NULL, &p->model));
    if (!p->model->build)
        return qn_fail(QN_ERROR_UNSUPPORTED,
                       "quern predict names what images show; see quern sample for %s",
                       p->model->name);
    QN_TRY(read_checkpoint(p, weights));
    QN_TRY(open_trainer(p, weights, (int)arguments_count(a, "threads")));
    const size_t n_x = (size_t)qn_shape_count(p->input);
    QN_TRY(qn_allocate(&p->allocator, n_x, sizeof *p->x, &p->x));
    return qn_allocate(&p->allocator, (size_t)p->n_outputs, sizeof *p->outputs, &p->outputs);
}

static void close_all(prediction *p) {
    const size_t n_x = (size_t)qn_shape_count(p->input);
    qn_release(&p->allocator, p->x, n_x, sizeof *p->x);
    qn_release(&p->allocator, p->outputs, (size_t)p->n_outputs, sizeof *p->outputs);
    qn_trainer_destroy(p->trainer);
    qn_metadata_destroy(p->metadata);
}

/* The name of a class, or its number, in text. */
static const char *class_name(const qn_preparation *preparation, int64_t index, char *text,
                              size_t bytes) {
    if (preparation->class_names && index < preparation->n_classes)
        return preparation->class_names[index];
    snprintf(text, bytes, "%lld", (long long)index);
    return text;
}

/* The likeliest class not named yet; its output is taken out. */
static int take_best(prediction *p, float *chance) {
    int best = 0;
    for (int i = 1; i < p->n_outputs; i++) {
        if (p->outputs[i] > p->outputs[best])
            best = i;
    }
    *chance = p->outputs[best];
    p->outputs[best] = -1;
    return best;
}

static void print_json(prediction *p, const char *path) {
    char number[24];
    json_begin();
    json_text("image", path);
    json_open_list(p->is_regression ? "values" : "classes");
    for (int i = 0; i < p->n_top; i++) {
        float chance = p->outputs[i];
        json_begin_item();
        if (!p->is_regression)
            json_text("class",
                      class_name(&p->preparation, take_best(p, &chance), number, sizeof number));
        json_number(p->is_regression ? "value" : "probability", (double)chance);
        json_end_item();
    }
    json_close_list();
    json_end();
}

static void print_line(prediction *p, const char *path) {
    char number[24];
    printf("%s:", path);
    for (int i = 0; i < p->n_top; i++) {
        float chance;
        if (p->is_regression) {
            printf(" %.6g", (double)p->outputs[i]);
            continue;
        }
        const char *name =
            class_name(&p->preparation, take_best(p, &chance), number, sizeof number);
        printf("%s %s %.1f %%", i ? "," : "", name, 100.0 * (double)chance);
    }
    putchar('\n');
}

static qn_status predict(prediction *p, const char *path) {
    QN_TRY(qn_image_prepare(&p->allocator, path, &p->preparation, p->x));
    QN_TRY(qn_trainer_predict(p->trainer, p->x, p->outputs));
    if (p->is_json)
        print_json(p, path);
    else
        print_line(p, path);
    return QN_OK;
}

/* An image that cannot be read does not keep the others from being looked at. */
static int predict_all(const arguments *a, prediction *p) {
    const int64_t n_top = arguments_count(a, "top");
    int result = EXIT_DONE;
    p->is_json = arguments_flag(a, "json");
    p->n_top = p->is_regression || n_top > p->n_outputs ? p->n_outputs : (int)n_top;
    for (int i = 1; i < a->n_words; i++) {
        if (predict(p, a->words[i]) != QN_OK)
            result = report_failed_run();
    }
    return result;
}

static int run(const arguments *a) {
    prediction p = {.x = NULL};
    p.allocator = qn_counter_init(&p.counter, NULL);
    qn_status status = open_all(a, &p);
    int result = status == QN_OK ? predict_all(a, &p) : report_failure(status);
    close_all(&p);
    return result;
}

const command command_predict = {
    .name = "predict",
    .words = "MODEL IMAGE...",
    .least_words = 2,
    .most_words = -1,
    .summary = "Name what images show",
    .description = "Images are prepared as the checkpoint says: size, mean and deviation.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .run = run,
};
