/* See training.h. */
#include "cli/training.h"

#include "cli/json.h"
#include "tensor/tensor.h"

#include <stdio.h>
#include <string.h>

static int64_t count_parameters(const qn_engine *engine) {
    int64_t n_parameters = 0;
    for (int i = 0; i < qn_engine_tensor_count(engine); i++) {
        const qn_stored_tensor tensor = qn_engine_tensor_at(engine, i);
        n_parameters += tensor.trainable && !tensor.is_state ? qn_shape_count(tensor.shape) : 0;
    }
    return n_parameters;
}

void training_print_opening(const training *t) {
    const qn_task_facts facts = qn_task_get_facts(t->s.task);
    const qn_engine *engine = qn_task_engine(t->s.task);
    const qn_engine_options *o = qn_engine_get_options(engine);
    char parameters[32];
    printf("%s: %s parameters, input %s, %s\n", t->s.model->name,
           grouped(count_parameters(engine), parameters), facts.input, facts.output);
    if (facts.n_samples[QN_TRAIN] > 0)
        printf("%s: %lld training and %lld test %s\n", facts.data,
               (long long)facts.n_samples[QN_TRAIN], (long long)facts.n_samples[QN_TEST],
               facts.unit);
    else
        printf("%s\n", facts.data);
    printf("%s, rate %s, schedule %s, batch %lld, steps %lld to %lld, seed %llu, %d thread%s\n",
           settings_get(&t->settings, "optimizer"), settings_get(&t->settings, "lr"),
           settings_get(&t->settings, "schedule"), (long long)facts.batch,
           (long long)t->first_step + 1, (long long)t->total_steps, (unsigned long long)o->seed,
           o->n_threads, o->n_threads == 1 ? "" : "s");
    if (facts.n_left_out > 0)
        printf("the last %lld %s of each epoch fill no batch and are left out\n",
               (long long)facts.n_left_out, facts.unit);
    fflush(stdout);
}

static void print_done_json(training *t) {
    const qn_engine *engine = qn_task_engine(t->s.task);
    const qn_engine_options *o = qn_engine_get_options(engine);
    json_begin();
    json_text("event", "done");
    progress_add_test(&t->progress);
    json_number("median_step_ms", progress_median_ms(&t->progress));
    json_number("samples_per_second", progress_samples_per_second(&t->progress));
    json_count("steps", qn_engine_steps(engine));
    json_count("threads", o->n_threads);
    json_count("seed", (int64_t)o->seed);
    json_count("parameters", count_parameters(engine));
    json_count("peak_bytes", (int64_t)t->s.counter.peak_bytes);
    json_count("parameter_bytes", (int64_t)qn_engine_get_memory(engine).parameter_bytes);
    json_count("peak_rss_bytes", qn_process_peak_bytes());
    json_end();
}

static void print_done_line(training *t) {
    const double mib = 1.0 / (1 << 20);
    const qn_engine *engine = qn_task_engine(t->s.task);
    const progress *p = &t->progress;
    char words[40];
    printf("done: %lld steps", (long long)qn_engine_steps(engine));
    for (int i = 0; p->has_test && i < p->test.n; i++) {
        const qn_metric *m = &p->test.list[i];
        printf(m->is_fraction ? ", test %s %.2f %%" : ", test %s %.4f",
               metric_words(m->name, words, sizeof words),
               m->is_fraction ? 100 * m->value : m->value);
    }
    if (p->times.n_times > 0)
        printf(", %.2f ms a step, %.0f %s/s", progress_median_ms(&t->progress),
               progress_samples_per_second(p), p->unit);
    printf(", %.1f MiB of memory (%.1f of them parameters)\n",
           (double)t->s.counter.peak_bytes * mib,
           (double)qn_engine_get_memory(engine).parameter_bytes * mib);
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
