/* quern show: what trained weights say of data: labels that are probably wrong, mistakes, doubtful
 * samples, duplicates, and what to add. */
#include "base/print.h"
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/look/looked.h"
#include "cli/look/show_page.h"
#include "cli/terminal.h"

#include <math.h>
#include <stdio.h>

enum { MOST_LINES = 10, MOST_NEEDS = 5 };

static const option options[] = {
    {.name = "html",
     .kind = OPTION_TARGET,
     .makes = QN_OWN_PAGE,
     .argument = "FILE",
     .otherwise = "none",
     .help = "write a page with thumbnails, readable by its owner alone"},
    {.name = "json", .kind = OPTION_FLAG, .fallback = "no", .help = "print one JSON object a line"},
};

/* ---- JSON ---- */

static void begin_sample(const looked *l, const char *event, const qn_sample_finding *s) {
    static const char *const splits[QN_SPLITS] = {"train", "test", "validation"};
    char name[LOOKED_NAME], class[24];
    json_begin();
    json_text("event", event);
    json_text("sample", looked_name(l, s, name));
    json_text("split", splits[s->split]);
    json_text("class", looked_class(l, s->label, class));
}

static void print_suspect(const looked *l, const qn_sample_finding *s) {
    char class[24];
    begin_sample(l, "suspect", s);
    json_text("suggested", looked_class(l, s->suggest, class));
    json_number("trust", (double)s->trust);
    json_number("suggestion", (double)s->suggestion);
    json_number("neighbours", (double)s->votes);
    json_end();
}

static void print_answer(const looked *l, const char *event, const qn_sample_finding *s) {
    char class[24];
    begin_sample(l, event, s);
    json_text("answer", looked_class(l, s->answer, class));
    json_number("probability", (double)s->chance);
    json_end();
}

static void print_duplicate(const looked *l, const qn_sample_finding *s) {
    char name[LOOKED_NAME], class[24];
    const qn_sample_finding *other = &l->f.samples[s->nearest];
    begin_sample(l, "duplicate", s);
    json_text("of", looked_name(l, other, name));
    json_text("of_class", looked_class(l, other->label, class));
    json_number("distance", (double)s->distance);
    json_end();
}

static void print_class(const looked *l, int class) {
    const qn_class_finding *c = &l->f.classes[class];
    char text[24], advice[SHOW_ADVICE];
    json_begin();
    json_text("event", "class");
    json_text("class", looked_class(l, class, text));
    json_count("samples", c->n);
    json_count("judged", c->n_judged);
    json_count("right", c->n_right);
    json_count("unsure", c->n_unsure);
    json_count("suspects", c->n_suspect);
    if (c->taken_for >= 0)
        json_text("taken_for", looked_class(l, c->taken_for, text));
    json_number("need", (double)c->need);
    json_text("advice", show_advice(l, class, advice));
    json_end();
}

static void print_json(const looked *l) {
    const qn_findings *f = &l->f;
    json_begin();
    json_text("event", "show");
    json_count("samples", f->n);
    json_count("left_out", f->n_left_out);
    json_number("accuracy", f->accuracy);
    json_number("calibration_error", f->calibration);
    json_number("unsure_below", (double)f->unsure);
    json_count("suspects", f->n_suspects);
    json_count("mistakes", f->n_mistakes);
    json_count("doubtful", f->n_doubtful);
    json_count("duplicates", f->n_duplicates);
    json_end();
    for (int i = 0; i < f->n_classes; i++)
        print_class(l, (int)f->by_need[i]);
    for (int64_t i = 0; i < f->n_suspects; i++)
        print_suspect(l, &f->samples[f->suspects[i]]);
    for (int64_t i = 0; i < f->n_mistakes; i++)
        print_answer(l, "mistake", &f->samples[f->mistakes[i]]);
    for (int64_t i = 0; i < f->n_doubtful; i++)
        print_answer(l, "doubtful", &f->samples[f->doubtful[i]]);
    for (int64_t i = 0; i < f->n_duplicates; i++)
        print_duplicate(l, &f->samples[f->duplicates[i]]);
}

/* ---- lines ---- */

static int64_t begin_lines(const char *what, int64_t n) {
    if (n > 0)
        printf("%s: %lld%s\n", what, (long long)n, n > MOST_LINES ? ", the first of them" : "");
    return n < MOST_LINES ? n : MOST_LINES;
}

static void say_suspects(const looked *l) {
    const qn_findings *f = &l->f;
    char name[LOOKED_NAME], class[24];
    const int64_t n = begin_lines("probably wrong labels", f->n_suspects);
    for (int64_t i = 0; i < n; i++) {
        const qn_sample_finding *s = &f->samples[f->suspects[i]];
        terminal_print(4, "  %s: looks like %s", terminal_name(looked_name(l, s, name)),
                       terminal_name(looked_class(l, s->suggest, class)));
    }
}

static void say_answers(const looked *l, const char *what, const int64_t *list, int64_t n_all) {
    const int64_t n = begin_lines(what, n_all);
    char name[LOOKED_NAME], class[24], percent[32];
    for (int64_t i = 0; i < n; i++) {
        const qn_sample_finding *s = &l->f.samples[list[i]];
        qn_print(percent, sizeof percent, "%.1f", 100 * (double)s->chance);
        terminal_print(4, "  %s: %s %s %%", terminal_name(looked_name(l, s, name)),
                       terminal_name(looked_class(l, s->answer, class)), percent);
    }
}

static void say_duplicates(const looked *l) {
    const qn_findings *f = &l->f;
    char name[LOOKED_NAME], other[LOOKED_NAME];
    const int64_t n = begin_lines("duplicates", f->n_duplicates);
    for (int64_t i = 0; i < n; i++) {
        const qn_sample_finding *s = &f->samples[f->duplicates[i]];
        terminal_print(4, "  %s and %s", terminal_name(looked_name(l, s, name)),
                       terminal_name(looked_name(l, &f->samples[s->nearest], other)));
    }
}

static void say_needs(const looked *l) {
    const qn_findings *f = &l->f;
    char class[24], advice[SHOW_ADVICE];
    printf("what would help most:\n");
    for (int i = 0; i < f->n_classes && i < MOST_NEEDS; i++)
        terminal_print(4, "  %s: %s", terminal_name(looked_class(l, (int)f->by_need[i], class)),
                       terminal_name(show_advice(l, (int)f->by_need[i], advice)));
}

static void say_all(const looked *l) {
    const qn_findings *f = &l->f;
    char right[64] = "", error[64] = "";
    if (isfinite(f->accuracy)) {
        qn_print(right, sizeof right, ", %.1f %% right", 100 * f->accuracy);
        qn_print(error, sizeof error, ", calibration error %.1f %%", 100 * f->calibration);
    }
    terminal_print(2, "%s: %lld samples of %d classes%s%s", terminal_name(l->source->name),
                   (long long)f->n, f->n_classes, right, error);
    if (f->n_left_out > 0)
        terminal_print(2, "the first %lld samples were compared, %lld were left out",
                       (long long)f->n, (long long)f->n_left_out);
    say_suspects(l);
    say_answers(l, "worst mistakes", f->mistakes, f->n_mistakes);
    say_answers(l, "most doubtful", f->doubtful, f->n_doubtful);
    say_duplicates(l);
    say_needs(l);
}

static qn_status show(const arguments *a, const looked *l) {
    const char *html = arguments_get(a, "html");
    if (arguments_flag(a, "json"))
        print_json(l);
    else
        say_all(l);
    if (html)
        QN_TRY(show_page_write(l, html));
    if (html && !arguments_flag(a, "json"))
        terminal_print(2, "saved to %s", html);
    return QN_OK;
}

static int run(const arguments *a) {
    looked l;
    qn_status status = looked_open(a, &l);
    if (status == QN_OK)
        status = show(a, &l);
    looked_close(&l);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

const command command_show = {
    .name = "show",
    .words = "CHECKPOINT",
    .least_words = 1,
    .most_words = 1,
    .summary = "Show what trained weights say of their data",
    .description =
        "Labels that are probably wrong, the worst mistakes, doubtful samples, duplicates, what a\n"
        "class looks like and what to add. Answers are of layers fitted without the sample, where\n"
        "the head was fitted to features (--start); else of samples that were held out.",
    .options = options,
    .n_options = sizeof options / sizeof options[0],
    .shared = {&looked_options, &session_options, &table_form_options, &reading_options},
    .run = run,
};
