/* quern predict: what trained weights see in image files. */
#include "base/status.h"
#include "cli/json.h"
#include "cli/session.h"
#include "tensor/tensor.h"

#include <stdio.h>
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
    session s;
    int n_top;
    bool is_json;
    float *x;       /* sample */
    float *outputs; /* (n_outputs) */
} prediction;

static qn_status open_all(const arguments *a, prediction *p) {
    const char *weights = arguments_get(a, "weights");
    session *s = &p->s;
    if (!weights)
        return qn_fail(QN_ERROR_ARGUMENT, "quern predict needs --weights FILE");
    s->model = qn_model_find(a->words[0]);
    if (!s->model)
        return QN_ERROR_ARGUMENT;
    QN_TRY(session_read_checkpoint(s, weights));
    if (s->preparation.sample.rank != 3)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s was trained on rows of numbers, not on images",
                       weights);
    QN_TRY(session_open_weights(s, weights, 1, (int)arguments_count(a, "threads")));
    const size_t n_x = (size_t)qn_shape_count(s->input);
    QN_TRY(qn_allocate(&s->allocator, n_x, sizeof *p->x, &p->x));
    return qn_allocate(&s->allocator, (size_t)s->n_outputs, sizeof *p->outputs, &p->outputs);
}

static void close_all(prediction *p) {
    const size_t n_x = (size_t)qn_shape_count(p->s.input);
    qn_release(&p->s.allocator, p->x, n_x, sizeof *p->x);
    qn_release(&p->s.allocator, p->outputs, (size_t)p->s.n_outputs, sizeof *p->outputs);
    session_deinit(&p->s);
}

/* The likeliest class not named yet; its output is taken out. */
static int take_best(prediction *p, float *chance) {
    int best = 0;
    for (int i = 1; i < p->s.n_outputs; i++) {
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
    json_open_list(p->s.is_regression ? "values" : "classes");
    for (int i = 0; i < p->n_top; i++) {
        float chance = p->outputs[i];
        json_begin_item();
        if (!p->s.is_regression)
            json_text("class",
                      class_name(&p->s.preparation, take_best(p, &chance), number, sizeof number));
        json_number(p->s.is_regression ? "value" : "probability", (double)chance);
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
        if (p->s.is_regression) {
            printf(" %.6g", (double)p->outputs[i]);
            continue;
        }
        const char *name =
            class_name(&p->s.preparation, take_best(p, &chance), number, sizeof number);
        printf("%s %s %.1f %%", i ? "," : "", name, 100.0 * (double)chance);
    }
    putchar('\n');
}

static qn_status predict(prediction *p, const char *path) {
    QN_TRY(qn_image_prepare(&p->s.allocator, path, &p->s.preparation, p->x));
    QN_TRY(qn_trainer_predict(p->s.trainer, p->x, p->outputs));
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
    p->n_top = p->s.is_regression || n_top > p->s.n_outputs ? p->s.n_outputs : (int)n_top;
    for (int i = 1; i < a->n_words; i++) {
        if (predict(p, a->words[i]) != QN_OK)
            result = report_failed_run();
    }
    return result;
}

static int run(const arguments *a) {
    prediction p = {.x = NULL};
    session_init(&p.s);
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
