/* quern label ask, tell: which samples are worth asking for, and the user's answers. */
#include "base/status.h"
#include "cli/commands.h"
#include "cli/json.h"
#include "cli/label/label.h"
#include "cli/terminal.h"
#include "format/csv.h"
#include "os/files/stream.h"
#include "report/document.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_row(const qn_labeller *l, const float *x) {
    for (int j = 0; j < qn_labeller_features(l); j++)
        if (qn_labeller_has_texts(l, j))
            printf("%s%s", j ? "," : "",
                   x[j] < 0 ? "?" : terminal_name(qn_labeller_text_of(l, j, (int32_t)x[j])));
        else
            printf("%s%.6g", j ? "," : "", (double)x[j]);
}

static void print_question(const qn_labeller *l, const qn_label_question *q, bool is_json) {
    const bool is_row = qn_labeller_sample(l).rank == 0;
    float x[QN_LABEL_MAX_FEATURES];
    qn_label_answer answer;
    if (qn_labeller_revise(l, q->age, is_row ? x : NULL, &answer) != QN_OK)
        return;
    const int64_t sample = qn_labeller_samples(l) - q->age;
    if (is_json) {
        json_begin();
        json_text("event", "question");
        json_text("class", qn_labeller_name_of(l, q->label));
        json_count("members", q->n_members);
        json_count("sample", sample);
        json_end();
    } else if (is_row) {
        printf("%s: %" PRId64 " of the last %" PRId64 " samples; what is sample %" PRId64 "?  (",
               terminal_name(qn_labeller_name_of(l, q->label)), q->n_members, qn_labeller_kept(l),
               sample);
        print_row(l, x);
        puts(")");
    } else {
        printf("%s by now, with %" PRId64 " samples like it: what is sample %" PRId64 "?\n",
               terminal_name(qn_labeller_name_of(l, q->label)), q->n_members, sample);
    }
    fflush(stdout);
}

/* ---- answers ---- */

static qn_status read_more(void *context, void *to, size_t bytes, size_t *n) {
    bool is_end = false;
    *n = 0;
    while (*n == 0 && !is_end)
        QN_TRY(qn_in_stream_read(context, to, bytes, n, &is_end));
    return QN_OK;
}

/* What was answered. */
typedef struct answers {
    int n;
    int64_t ages[QN_LABEL_MAX_NEW];
    const char *names[QN_LABEL_MAX_NEW];
    char texts[QN_LABEL_MAX_NEW][QN_LABEL_NAME];
} answers;

/* Asks one question after another, and takes a line of standard input for each: a name, or - for
 * none. The end of the input leaves the rest without names. */
static qn_status take_answers(const qn_labeller *l, const qn_label_question *questions, int n,
                              bool is_json, qn_csv_reader *lines, answers *taken) {
    for (int i = 0; i < n; i++) {
        bool is_end;
        print_question(l, &questions[i], is_json);
        QN_TRY(qn_csv_next(lines, &is_end));
        if (is_end)
            return QN_OK;
        const char *name = qn_csv_text(lines, 0);
        if (lines->n_fields != 1)
            return qn_fail(QN_ERROR_ARGUMENT, "answer %d: a name has no comma", i + 1);
        if (strlen(name) >= QN_LABEL_NAME)
            return qn_fail(QN_ERROR_ARGUMENT, "answer %d: a name has at most %d bytes", i + 1,
                           QN_LABEL_NAME - 1);
        if (strcmp(name, "-") == 0)
            continue;
        taken->ages[taken->n] = questions[i].age;
        taken->names[taken->n] = taken->texts[taken->n];
        snprintf(taken->texts[taken->n++], QN_LABEL_NAME, "%s", name);
    }
    return QN_OK;
}

static qn_status tell(const arguments *a, qn_labeller *l, const answers *taken) {
    QN_TRY(qn_labeller_tell(l, taken->n, taken->ages, taken->names));
    QN_TRY(label_save_correction(l, a->words[1]));
    if (!arguments_flag(a, "json"))
        printf("%d samples told\n", taken->n);
    return QN_OK;
}

static qn_status answer(const arguments *a, qn_labeller *l, const qn_label_question *questions,
                        int n) {
    qn_in_stream *in;
    qn_csv_reader lines;
    answers taken = {.n = 0};
    QN_TRY(qn_in_stream_open(NULL, NULL, &in));
    qn_csv_read_stream(&lines, NULL, "the answers", read_more, in);
    qn_status status = take_answers(l, questions, n, arguments_flag(a, "json"), &lines, &taken);
    qn_csv_deinit(&lines);
    qn_in_stream_close(in);
    return status == QN_OK && taken.n > 0 ? tell(a, l, &taken) : status;
}

/* SAMPLE=NAME */
static qn_status read_word(const qn_labeller *l, const char *word, answers *taken) {
    char *end;
    const long long sample = strtoll(word, &end, 10);
    if (end == word || *end != '=' || sample < 1 || sample > qn_labeller_samples(l) ||
        strlen(end + 1) >= QN_LABEL_NAME)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "'%.80s' is not SAMPLE=NAME, as 5321=boots, with a sample that quern label "
                       "ask asked for",
                       word);
    taken->ages[taken->n] = qn_labeller_samples(l) - sample;
    taken->names[taken->n] = taken->texts[taken->n];
    snprintf(taken->texts[taken->n++], QN_LABEL_NAME, "%s", end + 1);
    return QN_OK;
}

int label_tell(const arguments *a, qn_labeller *labeller) {
    answers taken = {.n = 0};
    qn_status status =
        a->n_words > 2 && a->n_words - 2 <= QN_LABEL_MAX_NEW
            ? QN_OK
            : qn_fail(QN_ERROR_ARGUMENT, "quern label tell FILE SAMPLE=NAME..., 1 to %d of them",
                      QN_LABEL_MAX_NEW);
    for (int i = 2; status == QN_OK && i < a->n_words; i++)
        status = read_word(labeller, a->words[i], &taken);
    if (status == QN_OK)
        status = tell(a, labeller, &taken);
    return status == QN_OK ? EXIT_DONE : report_failure(status);
}

/* What is asked, to be looked at. */
static qn_status write_page(const qn_labeller *l, const qn_label_question *questions, int n,
                            const char *path) {
    qn_document *d;
    QN_TRY(qn_document_create(NULL, "Questions of a labeller", &d));
    qn_document_about(d, NULL, 1);
    qn_status status = label_add_questions(d, l, questions, n);
    if (status == QN_OK)
        qn_document_text(d, "quern label tell FILE SAMPLE=NAME... answers; an answer holds for the "
                            "samples that are like the one asked for, too.");
    if (status == QN_OK)
        status = qn_document_write(d, path);
    qn_document_destroy(d);
    return status;
}

int label_ask(const arguments *a, qn_labeller *labeller) {
    qn_label_question questions[QN_LABEL_MAX_NEW];
    const int wanted = a->n_words > 2 ? atoi(a->words[2]) : 10;
    const bool is_json = arguments_flag(a, "json");
    const char *html = arguments_get(a, "html");
    int n = 0;
    if (wanted < 1)
        return report_failure(
            qn_fail(QN_ERROR_ARGUMENT, "'%s' is not a number of questions", a->words[2]));
    qn_status status = qn_labeller_ask(labeller, wanted, questions, &n);
    if (status == QN_OK && n == 0 && !is_json)
        puts("none of the last samples is worth asking for");
    if (status == QN_OK && html)
        status = write_page(labeller, questions, n, html);
    if (status == QN_OK && html && !is_json)
        printf("saved to %s\n", terminal_name(html));
    if (status == QN_OK && n > 0 && arguments_flag(a, "answers"))
        status = answer(a, labeller, questions, n);
    else
        for (int i = 0; status == QN_OK && i < n; i++)
            print_question(labeller, &questions[i], is_json);
    if (status != QN_OK)
        return report_failure(status);
    if (n > 0 && !is_json && !arguments_flag(a, "answers"))
        printf("answer with quern label tell %s %" PRId64 "=NAME ..., or --answers\n",
               terminal_name(a->words[1]), qn_labeller_samples(labeller) - questions[0].age);
    return EXIT_DONE;
}
