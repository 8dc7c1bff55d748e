/* Generation: a generator that makes images of random numbers and a discriminator that judges
 * whether an image is real learn from each other. The data is any set of images; classes are not
 * used. Its bytes become -1 to 1; numbers keep the data set's own preparation. Random numbers are
 * drawn by seed and step, so a resumed run gets the same ones. Measured are both losses, and the
 * discriminator's scores for the data's images and for generated ones. Sampling needs no data. */
#include "base/fmath.h"
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "format/picture.h"
#include "tasks/reading.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { DEFAULT_COUNT = 64, MOST_COUNT = 10000 };

/* Results of the network's program: the losses; the logits (N, 1) that the judge gives the data's
 * images and the generated ones, before its update; where nothing is trained, the images made. */
enum { RESULT_LOSS, RESULT_GENERATOR_LOSS, RESULT_REAL, RESULT_FAKE, RESULT_IMAGES };

static const float half[1] = {0.5f};

typedef struct generation {
    qn_data_source source;
    bool is_open; /* the source */
    qn_preparation preparation;
    qn_loader *train;           /* of training, null otherwise */
    qn_loader *test[QN_SPLITS]; /* by split, made when first asked for */
    qn_network_sizes sizes;
    qn_batch last;           /* of the last step */
    int test_program;        /* which evaluates and samples */
    float *noise;            /* (n_noise) */
    float *blank;            /* (n_blank), zeros: instead of the data's images */
    size_t n_noise, n_blank; /* floats */
    char input_text[QN_SHAPE_TEXT], output_text[QN_SHAPE_TEXT + 8];
} generation;

/* ---- data ---- */

static qn_status open_data(qn_task *task, generation *g) {
    const char *data = qn_setting_text(task, "data", NULL);
    const qn_data_options options = {
        QN_OPTIONS_INIT(qn_data_options),
        .allocator = task->allocator,
        .log = task->log,
        .seed = (uint64_t)qn_setting_count(task, "seed", 1),
        .holdout = qn_setting_number(task, "holdout", 0),
        .sample = task->model->input,
        .n_classes = 10,
        .held_out = qn_task_held_out(task->settings),
    };
    if (g->is_open)
        return QN_OK;
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT, "nothing says what data to use; give --data");
    QN_TRY(qn_data_open(data, &options, &g->source));
    g->is_open = true;
    if (task->training && g->source.held_out)
        QN_TRY(qn_setting_set(task, QN_HELD_OUT, g->source.held_out));
    task->facts.data = g->source.name;
    if (g->source.sample.rank != 3)
        return qn_fail(QN_ERROR_FORMAT, "%s has rows of numbers; %s needs images", g->source.name,
                       task->model->name);
    if (task->training)
        QN_TRY(qn_reading_check(task->settings, &g->source));
    QN_TRY(qn_reading_fit(task->settings, &g->source, &task->model->input));
    g->preparation = g->source.preparation;
    g->preparation.sample = task->model->input;
    if (g->source.dtype == QN_U8) {
        g->preparation.n_statistics = 1;
        g->preparation.mean = g->preparation.std_dev = half;
    }
    const int64_t *const sides = task->model->input.dims;
    if (g->source.set_size && g->source.sample.dims[0] == 0)
        QN_TRY(g->source.set_size(g->source.self, sides[0], sides[1], sides[2]));
    for (int split = 0; split < 2; split++)
        task->facts.n_samples[split] = g->source.n_samples[split];
    return QN_OK;
}

/* ---- opening ---- */

static qn_value build(qn_graph *graph, void *user, int phase, qn_value *kept) {
    const qn_task *task = user;
    const generation *g = task->self;
    return task->model->network(graph, task->model->user, &g->sizes, phase, kept);
}

static qn_status make_engine(qn_task *task, generation *g) {
    qn_program_options programs[2] = {
        {QN_OPTIONS_INIT(qn_program_options), .name = "training", .training = true},
        {QN_OPTIONS_INIT(qn_program_options), .name = "testing"}};
    for (int i = 0; i < 2; i++) {
        programs[i].n_phases = task->model->n_phases;
        memcpy(programs[i].trained, task->model->trained, sizeof programs[i].trained);
        programs[i].user = task;
        programs[i].build = build;
    }
    g->test_program = task->training ? 1 : 0;
    return task->training ? qn_task_make_engine(task, programs, 2)
                          : qn_task_make_engine(task, programs + 1, 1);
}

static qn_status allocate_inputs(qn_task *task, generation *g) {
    g->n_noise = (size_t)(g->sizes.batch * g->sizes.n_inputs);
    g->n_blank = (size_t)(g->sizes.batch * qn_shape_count(task->model->input));
    QN_TRY(qn_allocate(task->allocator, g->n_noise, sizeof *g->noise, &g->noise));
    return qn_allocate(task->allocator, g->n_blank, sizeof *g->blank, &g->blank);
}

static void fill_facts(qn_task *task, generation *g) {
    snprintf(g->input_text, sizeof g->input_text, "%lld random numbers",
             (long long)g->sizes.n_inputs);
    qn_shape_print(task->model->input, g->output_text);
    task->facts.input = g->input_text;
    task->facts.output = g->output_text;
    task->facts.unit = "samples";
    task->facts.sizes = g->sizes;
    if (!task->training) {
        task->facts.data = qn_setting_text(task, "data", "no data");
        return;
    }
    task->facts.n_left_out = qn_task_left_out(task, g->source.n_samples[QN_TRAIN]);
}

static qn_status generation_open(qn_task *task) {
    generation *g;
    QN_TRY(qn_allocate(task->allocator, 1, sizeof *g, &g));
    task->self = g;
    if (task->training) {
        QN_TRY(qn_task_choose_last_batch(task, NULL));
        QN_TRY(open_data(task, g));
        QN_TRY(qn_task_fit_batch(task, g->source.n_samples[QN_TRAIN], "samples"));
        QN_TRY(qn_task_open_train(task, &g->source, &g->preparation, 0, &g->train));
        qn_task_set_length(task, qn_task_epoch_batches(task, g->source.n_samples[QN_TRAIN]));
    }
    g->sizes = task->model->sizes;
    g->sizes.batch = qn_task_batch(task);
    if (task->training)
        QN_TRY(qn_task_open_tests(task, &g->source, &g->preparation, g->sizes.batch, g->test));
    fill_facts(task, g);
    QN_TRY(allocate_inputs(task, g));
    if (!task->training) /* a batch to test, or images in rows */
        task->reserve_bytes = 2 * g->n_blank * sizeof *g->blank;
    task->aligned_inputs = true;
    return make_engine(task, g);
}

static void generation_close(qn_task *task) {
    generation *g = task->self;
    if (!g)
        return;
    qn_release(task->allocator, g->noise, g->n_noise, sizeof *g->noise);
    qn_release(task->allocator, g->blank, g->n_blank, sizeof *g->blank);
    for (int split = 0; split < 2; split++)
        qn_loader_destroy(g->test[split]);
    qn_loader_destroy(g->train);
    if (g->is_open)
        qn_data_close(&g->source);
    qn_release(task->allocator, g, 1, sizeof *g);
}

static qn_status generation_resume(qn_task *task) {
    generation *g = task->self;
    if (!task->training)
        return QN_OK;
    qn_loader_destroy(g->train);
    g->train = NULL;
    return qn_task_open_train(task, &g->source, &g->preparation, qn_engine_steps(task->engine),
                              &g->train);
}

/* ---- running ---- */

/* The noise of a batch: elements from `first` on of a purpose's normal numbers at a time. */
static void fill_noise(generation *g, int64_t first, uint64_t seed, const char *purpose,
                       int64_t time) {
    const qn_rng rng = qn_rng_make(seed, qn_hash_text(purpose), (uint64_t)time);
    for (size_t i = 0; i < g->n_noise; i++)
        g->noise[i] = (float)qn_rng_normal(rng, (uint64_t)first + i);
}

/* log(1 + e^x). */
static double soft_plus(double x) {
    return (x > 0 ? x : 0) + qn_log1p_f64(qn_exp_f64(-fabs(x)));
}

/* Sums over samples: both losses, and the probabilities of being real. */
typedef struct judgement {
    int64_t n;
    double loss, generator_loss, real, fake;
} judgement;

/* Adds the first n samples of a program's last run. */
static void add_judgement(const qn_task *task, int program, int64_t n, judgement *sum) {
    const float *real = qn_engine_result(task->engine, program, RESULT_REAL);
    const float *fake = qn_engine_result(task->engine, program, RESULT_FAKE);
    for (int64_t i = 0; i < n; i++) {
        const double of_real = (double)real[i], of_fake = (double)fake[i];
        sum->loss += soft_plus(-of_real) + soft_plus(of_fake);
        sum->generator_loss += soft_plus(-of_fake);
        sum->real += 1 / (1 + qn_exp_f64(-of_real));
        sum->fake += 1 / (1 + qn_exp_f64(-of_fake));
    }
    sum->n += n;
}

static void put_metrics(qn_metrics *metrics, const judgement *sum) {
    const double n = (double)sum->n;
    qn_metrics_add(metrics, "loss", sum->loss / n, false);
    qn_metrics_add(metrics, "generator_loss", sum->generator_loss / n, false);
    qn_metrics_add(metrics, "real_judged_real", sum->real / n, true);
    qn_metrics_add(metrics, "fake_judged_real", sum->fake / n, true);
}

/* The generator's loss is that of the second phase: after the judge's update. */
static qn_status generation_step(qn_task *task, qn_metrics *metrics) {
    generation *g = task->self;
    const uint64_t seed = (uint64_t)qn_setting_count(task, "seed", 1);
    judgement sum = {0};
    QN_TRY(qn_loader_next(g->train, &g->last));
    fill_noise(g, 0, seed, "training noise", qn_engine_steps(task->engine));
    QN_TRY(qn_engine_run(task->engine, 0, (const void *[]){g->last.x, g->noise}));
    add_judgement(task, 0, g->sizes.batch, &sum);
    sum.generator_loss = (double)sum.n * (double)*(const float *)qn_engine_result(
                                             task->engine, 0, RESULT_GENERATOR_LOSS);
    put_metrics(metrics, &sum);
    return QN_OK;
}

static qn_status generation_infer(qn_task *task, double *loss) {
    generation *g = task->self;
    judgement sum = {0};
    if (!g->last.x)
        return QN_OK;
    QN_TRY(qn_engine_run(task->engine, g->test_program, (const void *[]){g->last.x, g->noise}));
    add_judgement(task, g->test_program, g->sizes.batch, &sum);
    *loss = sum.loss;
    return QN_OK;
}

static qn_status generation_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                                     void *user, qn_metrics *metrics, int64_t *n_samples) {
    generation *g = task->self;
    const uint64_t seed = (uint64_t)qn_setting_count(task, "seed", 1);
    judgement sum = {0};
    qn_batch batch;
    QN_TRY(open_data(task, g));
    if (g->source.n_samples[split] == 0)
        return QN_OK;
    QN_TRY(qn_task_open_split(task, &g->source, &g->preparation, split, g->sizes.batch,
                              &g->test[split]));
    for (int64_t i = 0;; i++) {
        if (should_stop && should_stop(user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
        QN_TRY(qn_loader_next(g->test[split], &batch));
        if (!batch.x)
            break;
        fill_noise(g, i * (int64_t)g->n_noise, seed, "testing noise", 0);
        QN_TRY(qn_engine_run(task->engine, g->test_program, (const void *[]){batch.x, g->noise}));
        add_judgement(task, g->test_program, batch.n_valid, &sum);
    }
    *n_samples = sum.n;
    put_metrics(metrics, &sum);
    return QN_OK;
}

/* images (count) + model.input, of the numbers that the seed gives each. */
static qn_status generate(qn_task *task, uint64_t seed, int64_t count, float *images) {
    generation *g = task->self;
    const int64_t size = qn_shape_count(task->model->input), batch = g->sizes.batch;
    for (int64_t first = 0; first < count; first += batch) {
        const int64_t n = count - first < batch ? count - first : batch;
        fill_noise(g, first * g->sizes.n_inputs, seed, "sampling noise", 0);
        QN_TRY(qn_engine_run(task->engine, g->test_program, (const void *[]){g->blank, g->noise}));
        memcpy(images + first * size,
               qn_engine_result(task->engine, g->test_program, RESULT_IMAGES),
               (size_t)(n * size) * sizeof *images);
    }
    return QN_OK;
}

static qn_status generation_sample(qn_task *task, const qn_sample_options *options) {
    const int64_t count = options->count > 0 ? options->count : DEFAULT_COUNT;
    const int64_t *const sides = task->model->input.dims;
    const int64_t columns = (int64_t)ceil(sqrt((double)count));
    const size_t n_floats = (size_t)(count * qn_shape_count(task->model->input));
    float *images;
    if (!options->picture)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s makes images; say with --picture FILE where to",
                       task->model->name);
    if (count > MOST_COUNT)
        return qn_fail(QN_ERROR_ARGUMENT, "%lld images are too many for a picture; %d is the most",
                       (long long)count, MOST_COUNT);
    QN_TRY(qn_allocate(task->allocator, n_floats, sizeof *images, &images));
    qn_status status = generate(task, options->seed, count, images);
    if (status == QN_OK)
        status = qn_picture_write_grid(task->allocator, options->picture, count, columns, sides[0],
                                       sides[1], (int)sides[2], images);
    qn_release(task->allocator, images, n_floats, sizeof *images);
    return status;
}

const qn_task_kind qn_task_generation = {
    .name = "generation",
    .summary = "making images like those of a data set",
    .open = generation_open,
    .close = generation_close,
    .resume = generation_resume,
    .step = generation_step,
    .evaluate = generation_evaluate,
    .sample = generation_sample,
    .infer = generation_infer,
};
