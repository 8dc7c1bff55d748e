/* See training.h. */
#include "cli/training.h"

#include "cli/json.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

void training_print_opening(const training *t) {
    const qn_data_source *data = &t->s.source;
    const qn_trainer_options *o = qn_trainer_get_options(t->s.trainer);
    char input[QN_SHAPE_TEXT], parameters[32];
    int64_t n_parameters = 0;
    for (int i = 0; i < qn_engine_tensor_count(qn_trainer_engine(t->s.trainer)); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(qn_trainer_engine(t->s.trainer), i);
        n_parameters += tensor.trainable && !tensor.is_state ? qn_shape_count(tensor.shape) : 0;
    }
    printf("%s: %s parameters, input %s, %d output%s\n", t->s.model->name,
           grouped(n_parameters, parameters), qn_shape_print(t->s.input, input), t->s.n_outputs,
           t->s.n_outputs == 1 ? "" : "s");
    printf("%s: %lld training and %lld test samples\n", data->name,
           (long long)data->n_samples[QN_TRAIN], (long long)data->n_samples[QN_TEST]);
    printf("%s, rate %s, schedule %s, batch %lld, steps %lld to %lld, seed %llu, %d thread%s\n",
           settings_get(&t->settings, "optimizer"), settings_get(&t->settings, "lr"),
           settings_get(&t->settings, "schedule"), (long long)o->batch,
           (long long)t->first_step + 1, (long long)t->total_steps, (unsigned long long)o->seed,
           o->n_threads, o->n_threads == 1 ? "" : "s");
    if (data->n_samples[QN_TRAIN] % o->batch)
        printf("the last %lld samples of each epoch fill no batch and are left out\n",
               (long long)(data->n_samples[QN_TRAIN] % o->batch));
    fflush(stdout);
}

static double test_accuracy(const training *t) {
    return t->progress.has_test && !t->s.is_regression ? t->progress.test_accuracy : NAN;
}

static void print_done_json(training *t) {
    const qn_trainer_options *o = qn_trainer_get_options(t->s.trainer);
    json_begin();
    json_text("event", "done");
    json_number("test_accuracy", test_accuracy(t));
    json_number("median_step_ms", progress_median_ms(&t->progress));
    json_number("samples_per_second", progress_samples_per_second(&t->progress));
    json_count("steps", qn_trainer_steps(t->s.trainer));
    json_count("threads", o->n_threads);
    json_count("seed", (int64_t)o->seed);
    json_count("peak_bytes", (int64_t)t->s.counter.peak_bytes);
    json_count("parameter_bytes",
               (int64_t)qn_engine_get_memory(qn_trainer_engine(t->s.trainer)).parameter_bytes);
    json_count("peak_rss_bytes", qn_process_peak_bytes());
    json_end();
}

static void print_done_line(training *t) {
    const double mib = 1.0 / (1 << 20);
    printf("done: %lld steps", (long long)qn_trainer_steps(t->s.trainer));
    if (t->progress.has_test && t->s.is_regression)
        printf(", test loss %.4f", t->progress.test_loss);
    else if (t->progress.has_test)
        printf(", test accuracy %.2f %%", 100 * t->progress.test_accuracy);
    if (t->progress.times.n_times > 0)
        printf(", %.2f ms a step, %.0f samples/s", progress_median_ms(&t->progress),
               progress_samples_per_second(&t->progress));
    printf(", %.1f MiB of memory (%.1f of them parameters)\n",
           (double)t->s.counter.peak_bytes * mib,
           (double)qn_engine_get_memory(qn_trainer_engine(t->s.trainer)).parameter_bytes * mib);
}

void training_print_done(training *t) {
    if (arguments_flag(t->a, "json"))
        print_done_json(t);
    else
        print_done_line(t);
}

/* In single quotes where a shell would cut it. */
static void print_quoted(const char *text) {
    if (*text && strspn(text, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                              "_-./:,=+@%") == strlen(text)) {
        fputs(text, stderr);
        return;
    }
    fputc('\'', stderr);
    for (; *text; text++)
        fputs(*text == '\'' ? "'\\''" : (char[]){*text, 0}, stderr);
    fputc('\'', stderr);
}

void training_print_resume_command(const training *t) {
    static const char *const repeated[] = {"checkpoint-every", "threads"};
    if (!t->save) {
        fputs("quern: nothing is saved; with --save FILE a stopped run can be resumed\n", stderr);
        return;
    }
    fprintf(stderr, "resume with: quern train %s --resume ", t->s.model->name);
    print_quoted(t->save);
    fputs(" --save ", stderr);
    print_quoted(t->save);
    for (int i = 0; i < 2; i++) {
        if (arguments_has(t->a, repeated[i]))
            fprintf(stderr, " --%s %s", repeated[i], arguments_get(t->a, repeated[i]));
    }
    fputs(arguments_flag(t->a, "json") ? " --json\n" : "\n", stderr);
}
