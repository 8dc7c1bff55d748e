/* Answering: finds the part of a passage that answers a question. A sample is a row of tokens,
 * question and passage side by side (data/text/squad.h); a passage that is too long gives several
 * rows. The loss is the mean of the cross entropies of the first and the last token of the answer.
 * Checkpoints contain the vocabulary, so nothing else is needed to ask. A network of this task
 * (variant QN_ANSWER_PADDED) has the inputs tokens, types (N, T), lengths (N), and as labels first
 * and last token (N); its results are the loss and the logits of both (N, T). Leaves out: searching
 * for a threshold for questions without an answer; an answer is given if it is more likely than
 * [CLS]. */
#include "base/memory.h"
#include "base/rng.h"
#include "base/status.h"
#include "data/text/squad.h"
#include "models/models.h"
#include "tasks/tasks.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    MOST_ANSWER = 30, /* tokens */
    SYNTHETIC_TRAINING = 1024,
    SYNTHETIC_TEST = 128,
    SYNTHETIC_QUESTION = 62, /* words at most */
    SHOWN = 3,
};

/* The training program, where there is one, and the results of all. */
enum { TRAINING = 0 };
enum { LOSS, START, END };

/* Settings: a checkpoint's vocabulary, what it was made of, and whether there may be no answer. */
static const char words_key[] = "wordpiece.text", source_key[] = "wordpiece.source",
                  unanswerable_key[] = "squad.unanswerable";

typedef struct answering {
    qn_arena arena;
    qn_wordpiece *words;
    qn_squad squads[2]; /* by split; opened when first needed, unless trained on */
    qn_squad_rows rows[2];
    bool has_data;
    qn_network_sizes sizes;
    int evaluation;                                    /* program */
    int32_t *tokens, *types, *lengths, *starts, *ends; /* (N, T), (N, T), (N), (N), (N) */
    int64_t n_batches;                                 /* trained on so far */
    char input_text[64];
} answering;

/* ---- the vocabulary ---- */

static bool is_synthetic(const qn_task *task) {
    return strcmp(qn_setting_text(task, "data", ""), "synthetic") == 0;
}

static qn_status make_words(qn_task *task, answering *a, const char *source) {
    const char *path = qn_setting_text(task, "wordpiece", NULL);
    if (!source)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s needs a vocabulary to read questions with; give --wordpiece FILE",
                       task->model->name);
    if (!is_synthetic(task))
        return qn_wordpiece_open(task->allocator, path, &a->words);
    if (path)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "--data synthetic has words of its own; leave --wordpiece out");
    const char *text = qn_synthetic_vocabulary(&a->arena, (int32_t)task->model->sizes.n_inputs);
    return text ? qn_wordpiece_create(task->allocator, source, text, strlen(text), &a->words)
                : QN_ERROR_MEMORY;
}

/* That of the checkpoint, unless training now goes on with another. */
static qn_status find_words(qn_task *task, answering *a) {
    const char *kept = qn_setting_text(task, words_key, NULL);
    const char *kept_source = qn_setting_text(task, source_key, "");
    const char *source =
        is_synthetic(task) ? "synthetic" : qn_setting_text(task, "wordpiece", NULL);
    if (kept && (!task->training || !source || strcmp(kept_source, source) == 0))
        return qn_wordpiece_create(task->allocator, "the checkpoint's vocabulary", kept,
                                   strlen(kept), &a->words);
    QN_TRY(make_words(task, a, source));
    QN_TRY(qn_setting_set(task, words_key, qn_wordpiece_text(a->words)));
    return qn_setting_set(task, source_key, source);
}

/* ---- data ---- */

static qn_status synthesise(qn_task *task, answering *a) {
    const uint64_t seed = (uint64_t)qn_setting_count(task, "seed", 1);
    const int64_t half = a->sizes.length / 2 - 3;
    const int64_t question = half < SYNTHETIC_QUESTION ? half : SYNTHETIC_QUESTION;
    const int64_t passage = a->sizes.length - 3 - question;
    const int32_t n_words = qn_wordpiece_count(a->words);
    QN_TRY(qn_squad_synthesise(&a->squads[QN_TRAIN], SYNTHETIC_TRAINING, question, passage, n_words,
                               seed));
    return qn_squad_synthesise(&a->squads[QN_TEST], SYNTHETIC_TEST, question, passage, n_words,
                               ~seed);
}

/* "squad:TRAIN[,TEST]". */
static qn_status read_files(qn_task *task, answering *a, const char *data) {
    static const char prefix[] = "squad:";
    if (strncmp(data, prefix, strlen(prefix)) != 0 || !data[strlen(prefix)])
        return qn_fail(QN_ERROR_ARGUMENT,
                       "%s cannot use %s; it takes squad:TRAIN[,TEST], files of "
                       "SQuAD's format, or synthetic",
                       task->model->name, data);
    char *path = qn_arena_text(&a->arena, data + strlen(prefix));
    if (!path)
        return QN_ERROR_MEMORY;
    char *comma = strchr(path, ',');
    if (comma)
        *comma = 0;
    QN_TRY(qn_squad_read(&a->squads[QN_TRAIN], path));
    return comma ? qn_squad_read(&a->squads[QN_TEST], comma + 1) : QN_OK;
}

static qn_status open_data(qn_task *task, answering *a) {
    const char *data = qn_setting_text(task, "data", NULL);
    if (a->has_data)
        return QN_OK;
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT, "nothing says what data to use; give --data");
    QN_TRY(is_synthetic(task) ? synthesise(task, a) : read_files(task, a, data));
    for (int split = 0; split < 2; split++) {
        QN_TRY(qn_squad_rows_init(&a->rows[split], task->allocator, &a->squads[split], a->words,
                                  a->sizes.length, qn_setting_count(task, "stride", 0)));
        task->facts.n_samples[split] = (int64_t)a->squads[split].n_questions;
    }
    a->has_data = true;
    return QN_OK;
}

static qn_status find_length(qn_task *task, answering *a) {
    const int64_t n_rows = (int64_t)a->rows[QN_TRAIN].n;
    if (n_rows == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s has no questions to train on",
                       qn_setting_text(task, "data", ""));
    QN_TRY(qn_task_fit_batch(task, n_rows, "rows of questions"));
    a->sizes.batch = qn_task_batch(task);
    qn_task_set_length(task, qn_task_epoch_batches(task, n_rows));
    return qn_setting_set(task, unanswerable_key,
                          a->squads[QN_TRAIN].has_unanswerable ? "yes" : "no");
}

/* Row i of the buffers. */
static void fill_row(answering *a, const qn_squad_rows *rows, size_t row, int64_t i) {
    const int64_t at = i * a->sizes.length;
    a->lengths[i] = qn_squad_rows_fill(rows, row, a->tokens + at, a->types + at);
    a->starts[i] = rows->list[row].start;
    a->ends[i] = rows->list[row].end;
}

/* Batch `number` of training: what is in it depends on seed and number alone. */
static void fill_batch(const qn_task *task, answering *a, int64_t number) {
    const qn_squad_rows *rows = &a->rows[QN_TRAIN];
    const int64_t n = a->sizes.batch;
    for (int64_t i = 0; i < n; i++)
        fill_row(
            a, rows,
            (size_t)qn_task_sample_at(task, "answering.order", (int64_t)rows->n, number * n + i),
            i);
}

/* ---- opening ---- */

static qn_status find_sizes(qn_task *task, answering *a) {
    a->sizes = task->model->sizes;
    a->sizes.batch = qn_task_batch(task);
    a->sizes.length = qn_setting_count(task, "length", a->sizes.length);
    a->sizes.n_inputs = qn_wordpiece_count(a->words);
    a->sizes.variant = QN_ANSWER_PADDED;
    snprintf(a->input_text, sizeof a->input_text, "%lld of %lld words", (long long)a->sizes.length,
             (long long)a->sizes.n_inputs);
    if (a->sizes.batch >= 1 && a->sizes.length >= QN_SQUAD_LEAST_LENGTH)
        return QN_OK;
    return qn_fail(QN_ERROR_ARGUMENT,
                   "a batch of %lld rows of %lld tokens; they are at least 1 and %d",
                   (long long)a->sizes.batch, (long long)a->sizes.length, QN_SQUAD_LEAST_LENGTH);
}

static qn_status make_buffers(answering *a) {
    const size_t rows = (size_t)a->sizes.batch, n = rows * (size_t)a->sizes.length;
    int32_t **const buffers[] = {&a->tokens, &a->types, &a->lengths, &a->starts, &a->ends};
    for (int i = 0; i < 5; i++) {
        *buffers[i] = qn_arena_allocate(&a->arena, i < 2 ? n : rows, sizeof(int32_t));
        if (!*buffers[i])
            return QN_ERROR_MEMORY;
    }
    return QN_OK;
}

static qn_status make_engine(qn_task *task, answering *a) {
    qn_task_network network = {task->model, a->sizes};
    qn_program_options programs[2];
    int n = 0;
    if (task->training)
        programs[n++] =
            (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "training",
                                 .training = true, .user = &network, .build = qn_task_build};
    a->evaluation = n;
    programs[n++] = (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "evaluation",
                                         .user = &network, .build = qn_task_build};
    return qn_task_make_engine(task, programs, n);
}

static void fill_facts(qn_task *task, const answering *a) {
    qn_task_facts *f = &task->facts;
    f->data = qn_setting_text(task, "data", "");
    f->input = a->input_text;
    f->output = "first and last word";
    f->unit = "questions";
    f->batch = a->sizes.batch;
    f->sizes = a->sizes;
    f->n_left_out = task->training ? qn_task_left_out(task, (int64_t)a->rows[QN_TRAIN].n) : 0;
}

static qn_status answering_open(qn_task *task) {
    answering *a;
    QN_TRY(qn_allocate(task->allocator, 1, sizeof *a, &a));
    task->self = a;
    qn_arena_init(&a->arena, task->allocator);
    for (int split = 0; split < 2; split++)
        qn_squad_init(&a->squads[split], task->allocator);
    if (task->training)
        QN_TRY(qn_task_choose_last_batch(task, words_key));
    QN_TRY(find_words(task, a));
    QN_TRY(find_sizes(task, a));
    if (task->training) {
        QN_TRY(open_data(task, a));
        QN_TRY(find_length(task, a));
    }
    fill_facts(task, a);
    QN_TRY(make_buffers(a));
    return make_engine(task, a);
}

static void answering_close(qn_task *task) {
    answering *a = task->self;
    if (!a)
        return;
    for (int split = 0; split < 2; split++) {
        qn_squad_rows_deinit(&a->rows[split]);
        qn_squad_deinit(&a->squads[split]);
    }
    qn_wordpiece_destroy(a->words);
    qn_arena_deinit(&a->arena);
    qn_release(task->allocator, a, 1, sizeof *a);
}

static qn_status answering_resume(qn_task *task) {
    answering *a = task->self;
    a->n_batches = qn_engine_steps(task->engine) * qn_setting_count(task, "accumulate", 1);
    return QN_OK;
}

/* ---- training ---- */

static qn_status run(qn_task *task, answering *a, int program) {
    const void *const inputs[] = {a->tokens, a->types, a->lengths, a->starts, a->ends};
    return qn_engine_run(task->engine, program, inputs);
}

static double loss_of(const qn_task *task, int program) {
    return (double)*(const float *)qn_engine_result(task->engine, program, LOSS);
}

/* Logits (T) of row i. */
static const float *logits_of(const qn_task *task, const answering *a, int program, int result,
                              int64_t i) {
    return (const float *)qn_engine_result(task->engine, program, result) + i * a->sizes.length;
}

static int32_t find_largest(const float *logits, int32_t n) {
    int32_t largest = 0;
    for (int32_t i = 1; i < n; i++)
        largest = logits[i] > logits[largest] ? i : largest;
    return largest;
}

/* Rows of the batch of which both ends are the likeliest. */
static int64_t count_exact(const qn_task *task, const answering *a) {
    int64_t n = 0;
    for (int64_t i = 0; i < a->sizes.batch; i++)
        n += find_largest(logits_of(task, a, TRAINING, START, i), a->lengths[i]) == a->starts[i] &&
             find_largest(logits_of(task, a, TRAINING, END, i), a->lengths[i]) == a->ends[i];
    return n;
}

static qn_status answering_step(qn_task *task, qn_metrics *metrics) {
    answering *a = task->self;
    const int64_t step = qn_engine_steps(task->engine);
    double sum = 0;
    int64_t n = 0, n_exact = 0;
    while (qn_engine_steps(task->engine) == step) {
        fill_batch(task, a, a->n_batches);
        QN_TRY(run(task, a, TRAINING));
        sum += loss_of(task, TRAINING);
        n_exact += count_exact(task, a);
        a->n_batches++;
        n++;
    }
    qn_metrics_add(metrics, "loss", sum / (double)n, false);
    qn_metrics_add(metrics, "exact_span", (double)n_exact / (double)(n * a->sizes.batch), true);
    return QN_OK;
}

static qn_status answering_infer(qn_task *task, double *loss) {
    answering *a = task->self;
    if (a->n_batches == 0)
        return QN_OK;
    fill_batch(task, a, a->n_batches - 1);
    QN_TRY(run(task, a, a->evaluation));
    *loss = loss_of(task, a->evaluation);
    return QN_OK;
}

/* ---- answers ---- */

/* The best span over the rows of a question so far, and the lowest score of there being none. */
typedef struct answer {
    size_t row;
    int32_t start, end;
    double score, none;
} answer;

static const answer no_answer = {.score = -INFINITY, .none = INFINITY};

/* What looks at the answers of a split's questions in turn. */
typedef struct reader {
    qn_task *task;
    answering *a;
    const qn_squad_rows *rows;
    bool may_be_none;
    bool (*should_stop)(void *user);
    void *user;
    double loss_sum; /* over rows */
    void *context;
    qn_status (*put)(void *context, const qn_squad_question *question, const char *text,
                     size_t bytes);
} reader;

static reader make_reader(qn_task *task, const qn_squad_rows *rows) {
    return (reader){.task = task,
                    .a = task->self,
                    .rows = rows,
                    .may_be_none = qn_setting_flag(task, unanswerable_key, false)};
}

static void improve(const reader *r, size_t row, int64_t i, answer *best) {
    const float *start = logits_of(r->task, r->a, r->a->evaluation, START, i);
    const float *end = logits_of(r->task, r->a, r->a->evaluation, END, i);
    const int32_t at = qn_squad_rows_passage_at(r->rows, row);
    const double none = (double)start[0] + (double)end[0];
    best->none = none < best->none ? none : best->none;
    for (int32_t last = at; last < at + r->rows->list[row].n; last++) {
        const int32_t first = last - MOST_ANSWER + 1 > at ? last - MOST_ANSWER + 1 : at;
        const int32_t begin = first + find_largest(start + first, last - first + 1);
        const double score = (double)start[begin] + (double)end[last];
        if (score > best->score)
            *best = (answer){row, begin, last, score, best->none};
    }
}

static qn_status put_answer(reader *r, size_t question, const answer *best) {
    const qn_squad_question *q = &r->rows->squad->questions[question];
    const bool is_none = best->score == -INFINITY || (r->may_be_none && best->none >= best->score);
    int32_t begin = 0, end = 0;
    if (!is_none)
        qn_squad_rows_bytes(r->rows, best->row, best->start, best->end, &begin, &end);
    return r->put(r->context, q, r->rows->squad->passages[q->passage] + begin,
                  (size_t)(end - begin));
}

/* Rows [first, end) as a batch; what is left of it is padding, which has no loss. */
static qn_status run_rows(reader *r, size_t first, size_t end) {
    answering *a = r->a;
    const int64_t n = (int64_t)(end - first);
    for (int64_t i = 0; i < a->sizes.batch; i++) {
        fill_row(a, r->rows, i < n ? first + (size_t)i : first, i);
        if (i >= n)
            a->starts[i] = a->ends[i] = -1;
    }
    QN_TRY(run(r->task, a, a->evaluation));
    r->loss_sum += loss_of(r->task, a->evaluation) * (double)n;
    return QN_OK;
}

/* Puts out the answers of rows [first, end), which are all of their questions'. */
static qn_status read_rows(reader *r, size_t first, size_t end) {
    const size_t batch = (size_t)r->a->sizes.batch;
    answer best = no_answer;
    for (size_t begin = first; begin < end; begin += batch) {
        const size_t until = begin + batch < end ? begin + batch : end;
        if (r->should_stop && r->should_stop(r->user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
        QN_TRY(run_rows(r, begin, until));
        for (size_t row = begin; row < until; row++) {
            const int32_t question = r->rows->list[row].question;
            improve(r, row, (int64_t)(row - begin), &best);
            if (row + 1 < r->rows->n && r->rows->list[row + 1].question == question)
                continue;
            QN_TRY(put_answer(r, (size_t)question, &best));
            best = no_answer;
        }
    }
    return QN_OK;
}

/* ---- measuring ---- */

typedef struct scores {
    const qn_allocator *allocator;
    qn_squad_score sum;
} scores;

static qn_status add_score(void *context, const qn_squad_question *question, const char *text,
                           size_t bytes) {
    scores *s = context;
    qn_squad_score score;
    QN_TRY(qn_squad_score_answer(s->allocator, question, text, bytes, &score));
    s->sum.exact += score.exact;
    s->sum.f1 += score.f1;
    return QN_OK;
}

static qn_status answering_evaluate(qn_task *task, qn_split split, bool (*should_stop)(void *user),
                                    void *user, qn_metrics *metrics, int64_t *n_samples) {
    answering *a = task->self;
    scores s = {.allocator = task->allocator};
    QN_TRY(open_data(task, a));
    const double n = (double)a->squads[split].n_questions;
    reader r = make_reader(task, &a->rows[split]);
    if (n == 0)
        return QN_OK;
    r.should_stop = should_stop;
    r.user = user;
    r.context = &s;
    r.put = add_score;
    QN_TRY(read_rows(&r, 0, a->rows[split].n));
    *n_samples = (int64_t)n;
    qn_metrics_add(metrics, "loss", r.loss_sum / (double)a->rows[split].n, false);
    qn_metrics_add(metrics, "f1", s.sum.f1 / n, true);
    qn_metrics_add(metrics, "exact_match", s.sum.exact / n, true);
    return QN_OK;
}

/* ---- showing ---- */

typedef struct shower {
    const qn_allocator *allocator;
    const qn_sample_options *options;
    bool is_of_data; /* the question and what is right stand beside the answer */
} shower;

static qn_status put_line(const shower *s, const char *what, const char *text, size_t bytes) {
    char *line;
    const char none[] = "(no answer)";
    const size_t n = strlen(what) + bytes + sizeof none;
    QN_TRY(qn_allocate(s->allocator, n, 1, &line));
    if (bytes > 0)
        snprintf(line, n, "%s%.*s", what, (int)bytes, text);
    else
        snprintf(line, n, "%s%s", what, none);
    s->options->put(s->options->user, line);
    qn_release(s->allocator, line, n, 1);
    return QN_OK;
}

static qn_status show_answer(void *context, const qn_squad_question *q, const char *text,
                             size_t bytes) {
    const shower *s = context;
    if (!s->is_of_data)
        return put_line(s, "", text, bytes);
    const char *right = q->n_answers > 0 ? q->answers[0].text : "";
    QN_TRY(put_line(s, "question: ", q->text, strlen(q->text)));
    QN_TRY(put_line(s, "answer:   ", text, bytes));
    return put_line(s, "right:    ", right, strlen(right));
}

/* The user's question. */
static qn_status ask(qn_task *task, shower *s, qn_squad *squad) {
    const answering *a = task->self;
    const qn_squad_question question = {.text = s->options->prompt};
    qn_squad_rows rows;
    QN_TRY(qn_squad_add_passage(squad, s->options->context));
    QN_TRY(qn_squad_add_question(squad, &question));
    QN_TRY(qn_squad_rows_init(&rows, task->allocator, squad, a->words, a->sizes.length,
                              qn_setting_count(task, "stride", 0)));
    reader r = make_reader(task, &rows);
    r.context = s;
    r.put = show_answer;
    qn_status status = read_rows(&r, 0, rows.n);
    qn_squad_rows_deinit(&rows);
    return status;
}

/* Some of the data's, drawn by the options' seed. */
static qn_status show_some(qn_task *task, shower *s) {
    answering *a = task->self;
    const int64_t count = s->options->count > 0 ? s->options->count : SHOWN;
    const qn_rng rng = qn_rng_make(s->options->seed, qn_hash_text("answering.sample"), 0);
    QN_TRY(open_data(task, a));
    const qn_squad_rows *rows = &a->rows[a->rows[QN_TEST].n > 0 ? QN_TEST : QN_TRAIN];
    reader r = make_reader(task, rows);
    s->is_of_data = true;
    r.context = s;
    r.put = show_answer;
    for (int64_t i = 0; i < count; i++) {
        size_t first = qn_rng_below(rng, (uint64_t)i, rows->n), end = first + 1;
        while (first > 0 && rows->list[first - 1].question == rows->list[first].question)
            first--;
        while (end < rows->n && rows->list[end].question == rows->list[first].question)
            end++;
        if (i > 0)
            s->options->put(s->options->user, "");
        QN_TRY(read_rows(&r, first, end));
    }
    return QN_OK;
}

static qn_status answering_sample(qn_task *task, const qn_sample_options *options) {
    shower s = {.allocator = task->allocator, .options = options};
    qn_squad squad;
    if (!options->prompt != !options->context)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a question is asked about a text: give --prompt QUESTION and --context "
                       "TEXT");
    if (!options->put)
        return QN_OK;
    if (!options->prompt)
        return show_some(task, &s);
    qn_squad_init(&squad, task->allocator);
    qn_status status = ask(task, &s, &squad);
    qn_squad_deinit(&squad);
    return status;
}

const qn_task_kind qn_task_answering = {
    .name = "answering",
    .summary = "finding the answer to a question in a text",
    .open = answering_open,
    .close = answering_close,
    .resume = answering_resume,
    .step = answering_step,
    .evaluate = answering_evaluate,
    .sample = answering_sample,
    .infer = answering_infer,
};
