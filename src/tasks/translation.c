/* Translation: sentences into another language, word by word. A batch has sentences of similar
 * length; there is one training program for each length, over one set of parameters. Shorter
 * sentences are padded, and padding is masked everywhere. The decoder is trained on the correct
 * previous words; when translating, it uses its own most likely ones, one step at a time. A network
 * of this task is one of three, by variant (models.h), or, from a file, the first only:
 *     whole    source (N, S), source_lengths (N), target (N, T), labels (N * T)
 *              -> loss; except in training, the loss of each label and logits (N * T, C)
 *     encoder  source, source_lengths -> encoded (N, S, K), states
 *     step     encoded, source_lengths, states, word (N, 1) -> logits (N, C), states
 * Leaves out: beam search. */
#include "base/memory.h"
#include "base/status.h"
#include "data/text/buckets.h"
#include "models/models.h"
#include "tasks/bleu.h"
#include "tasks/tasks.h"
#include "tensor/tensor.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MOST_STATES = 8, MOST_PROGRAMS = QN_MOST_BUCKETS + 3, SAMPLES = 3 };

/* Results of programs. */
enum { LOSS = 0, LOSSES, LOGITS };
enum { ENCODED = 0, FIRST_STATE = 1, NEXT_LOGITS = 0 };

/* Settings under which a checkpoint keeps its words, by side. */
static const char *const words_keys[2] = {"text.source_words", "text.target_words"};

typedef struct translation {
    qn_pairs *pairs; /* opened when first needed, unless it is trained on */
    qn_arena arena;  /* of words and buffers */
    qn_words words[2];
    qn_network_sizes sizes; /* of a batch of the longest sentences */
    qn_buckets buckets;     /* of training; bucket b is program b */
    int evaluation, encoder, step;
    int64_t columns;   /* of a whole network's logits: a file may know more words */
    int64_t n_batches; /* trained on so far */
    int64_t *indices;  /* (N) */
    int32_t *source, *lengths, *target, *labels; /* (N, length), lengths (N) */
    int32_t *output, *n_output;                  /* translations, (N, length) and (N) */
    int n_states;
    void *encoded, *states[MOST_STATES];
    size_t encoded_bytes, state_bytes[MOST_STATES];
    char input_text[64], output_text[32];
} translation;

/* ---- data ---- */

static qn_status open_pairs(qn_task *task, translation *t) {
    const char *data = qn_setting_text(task, "data", NULL);
    if (t->pairs)
        return QN_OK;
    if (!data)
        return qn_fail(QN_ERROR_ARGUMENT, "nothing says what data to use; give --data");
    /* a checkpoint of a version that kept no rule: it has words */
    const bool is_older =
        qn_setting_text(task, words_keys[0], NULL) && !qn_setting_text(task, QN_HELD_OUT, NULL);
    const qn_pairs_options options = {
        .allocator = task->allocator,
        .log = task->log,
        .words = {qn_setting_text(task, words_keys[0], NULL),
                  qn_setting_text(task, words_keys[1], NULL)},
        .most_words = qn_setting_count(task, "vocabulary", task->model->sizes.n_inputs),
        .least_count = qn_setting_count(task, "min-count", 1),
        .length = qn_setting_count(task, "length", task->model->sizes.length),
        .holdout = qn_setting_number(task, "holdout", 0),
        .seed = (uint64_t)qn_setting_count(task, "seed", 1),
        .by_place = is_older,
    };
    QN_TRY(qn_pairs_open(data, &options, &t->pairs));
    if (task->training && !is_older)
        QN_TRY(qn_setting_set(task, QN_HELD_OUT, "content"));
    task->facts.data = qn_pairs_name(t->pairs);
    for (int split = 0; split < 2; split++)
        task->facts.n_samples[split] = qn_pairs_count(t->pairs, (qn_split)split);
    return QN_OK;
}

/* From the checkpoint, or else from the data, whose words are then kept. */
static qn_status find_words(qn_task *task, translation *t, qn_side side) {
    const char *kept = qn_setting_text(task, words_keys[side], NULL);
    if (!kept) {
        QN_TRY(open_pairs(task, t));
        kept = qn_words_print(&t->arena, qn_pairs_words(t->pairs, side));
        if (!kept)
            return QN_ERROR_MEMORY;
        QN_TRY(qn_setting_set(task, words_keys[side], kept));
    }
    return qn_words_parse(&t->arena, kept, &t->words[side]);
}

static qn_status fit_batch(qn_task *task, translation *t) {
    QN_TRY(open_pairs(task, t));
    const int64_t n = qn_pairs_count(t->pairs, QN_TRAIN);
    if (n < 1)
        return qn_fail(QN_ERROR_FORMAT, "%s has no training pairs", qn_pairs_name(t->pairs));
    return qn_task_fit_batch(task, n, "pairs");
}

/* A row of a batch of so many columns; a row without a pair is a source of one unknown word. */
static void fill_row(translation *t, int64_t row, int64_t columns, qn_sentence source,
                     qn_sentence target) {
    int32_t *s = t->source + row * columns, *to = t->target + row * columns;
    int32_t *labels = t->labels + row * columns;
    t->lengths[row] = source.n > 0 ? source.n : 1;
    for (int64_t i = 0; i < columns; i++) {
        s[i] = i < source.n ? source.tokens[i] : QN_UNKNOWN_WORD;
        to[i] = i == 0 ? QN_SENTENCE_BEGIN : i <= target.n ? target.tokens[i - 1] : QN_UNKNOWN_WORD;
        labels[i] = i < target.n ? target.tokens[i] : -1;
    }
    if (target.n > 0)
        labels[target.n] = QN_SENTENCE_END;
}

/* Pairs of a split by their numbers in indices; rows from n_valid on have none. */
static void fill_batch(translation *t, qn_split split, int64_t n_valid, int64_t columns) {
    for (int64_t row = 0; row < t->sizes.batch; row++) {
        qn_sentence source = {NULL, 0}, target = {NULL, 0};
        if (row < n_valid) {
            source = qn_pairs_get(t->pairs, split, t->indices[row], QN_SOURCE);
            target = qn_pairs_get(t->pairs, split, t->indices[row], QN_TARGET);
        }
        fill_row(t, row, columns, source, target);
    }
}

/* ---- opening ---- */

static qn_status find_sizes(qn_task *task, translation *t) {
    qn_network_sizes *s = &t->sizes;
    *s = task->model->sizes;
    s->batch = qn_task_batch(task);
    s->length = s->target_length = qn_setting_count(task, "length", s->length);
    s->hidden = qn_setting_count(task, "hidden", 0);
    s->n_inputs = t->words[QN_SOURCE].n;
    s->n_outputs = t->words[QN_TARGET].n;
    if (s->batch < 1 || s->length < 2)
        return qn_fail(QN_ERROR_ARGUMENT,
                       "a batch of %lld sentences of %lld words; it has at "
                       "least 1, and they 2",
                       (long long)s->batch, (long long)s->length);
    snprintf(t->input_text, sizeof t->input_text, "%lld of %lld words", (long long)s->length,
             (long long)s->n_inputs);
    snprintf(t->output_text, sizeof t->output_text, "%lld outputs", (long long)s->n_outputs);
    return QN_OK;
}

static qn_status make_engine(qn_task *task, translation *t) {
    qn_task_network networks[MOST_PROGRAMS];
    qn_program_options programs[MOST_PROGRAMS];
    int n = 0;
    for (int i = 0; i < MOST_PROGRAMS; i++) {
        networks[i] = (qn_task_network){task->model, t->sizes};
        programs[i] =
            (qn_program_options){QN_OPTIONS_INIT(qn_program_options), .name = "evaluation",
                                 .user = &networks[i], .build = qn_task_build};
    }
    for (; n < t->buckets.n; n++) {
        programs[n].name = "training";
        programs[n].training = true;
        networks[n].sizes.length = networks[n].sizes.target_length = t->buckets.length[n];
    }
    t->evaluation = n++;
    if (task->model->has_one_variant)
        return qn_task_make_engine(task, programs, n);
    t->encoder = n++;
    t->step = n++;
    networks[t->encoder].sizes.variant = QN_TRANSLATE_ENCODER;
    networks[t->step].sizes.variant = QN_TRANSLATE_STEP;
    return qn_task_make_engine(task, programs, n);
}

/* What is handed from the encoder to the steps and from step to step. */
static qn_status make_states(qn_task *task, translation *t) {
    const int n_inputs = qn_engine_input_count(task->engine, t->step);
    t->n_states = n_inputs - 3;
    if (t->n_states < 0 || t->n_states > MOST_STATES)
        return qn_fail(QN_ERROR_ARGUMENT, "%s: %d states; a decoder has at most %d",
                       task->model->name, t->n_states, MOST_STATES);
    t->encoded_bytes = qn_engine_input_at(task->engine, t->step, 0).bytes;
    t->encoded = qn_arena_allocate(&t->arena, 1, t->encoded_bytes);
    for (int i = 0; i < t->n_states; i++) {
        t->state_bytes[i] = qn_engine_input_at(task->engine, t->step, 2 + i).bytes;
        t->states[i] = qn_arena_allocate(&t->arena, 1, t->state_bytes[i]);
        if (!t->states[i])
            return QN_ERROR_MEMORY;
    }
    return t->encoded ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status make_buffers(qn_task *task, translation *t) {
    const size_t batch = (size_t)t->sizes.batch, n = batch * (size_t)t->sizes.length;
    int32_t **const buffers[] = {&t->source, &t->target, &t->labels, &t->output};
    for (int i = 0; i < 4; i++) {
        *buffers[i] = qn_arena_allocate(&t->arena, n, sizeof(int32_t));
        if (!*buffers[i])
            return QN_ERROR_MEMORY;
    }
    t->lengths = qn_arena_allocate(&t->arena, batch, sizeof *t->lengths);
    t->n_output = qn_arena_allocate(&t->arena, batch, sizeof *t->n_output);
    t->indices = qn_arena_allocate(&t->arena, batch, sizeof *t->indices);
    if (!t->lengths || !t->n_output || !t->indices)
        return QN_ERROR_MEMORY;
    return task->model->has_one_variant ? QN_OK : make_states(task, t);
}

static void fill_facts(qn_task *task, const translation *t) {
    qn_task_facts *f = &task->facts;
    f->data = t->pairs ? qn_pairs_name(t->pairs) : qn_setting_text(task, "data", "");
    f->input = t->input_text;
    f->output = t->output_text;
    f->unit = "sentences";
    f->batch = t->sizes.batch;
    f->sizes = t->sizes;
}

static qn_status make_buckets(qn_task *task, translation *t) {
    t->buckets = (qn_buckets){.batch = t->sizes.batch,
                              .seed = (uint64_t)qn_setting_count(task, "seed", 1),
                              .shuffle = qn_setting_flag(task, "shuffle", true),
                              .skips_last = !qn_task_uses_last_batch(task)};
    QN_TRY(qn_buckets_make(&t->arena, t->pairs, &t->buckets));
    task->facts.n_left_out = qn_buckets_count_skipped(&t->buckets);
    qn_task_set_length(task, (double)(qn_pairs_count(t->pairs, QN_TRAIN) - task->facts.n_left_out) /
                                 (double)t->sizes.batch);
    return QN_OK;
}

static qn_status translation_open(qn_task *task) {
    translation *t;
    QN_TRY(qn_allocate(task->allocator, 1, sizeof *t, &t));
    task->self = t;
    qn_arena_init(&t->arena, task->allocator);
    if (task->training)
        QN_TRY(qn_task_choose_last_batch(task, words_keys[0]));
    QN_TRY(find_words(task, t, QN_SOURCE));
    QN_TRY(find_words(task, t, QN_TARGET));
    if (task->training)
        QN_TRY(fit_batch(task, t));
    QN_TRY(find_sizes(task, t));
    if (task->training)
        QN_TRY(make_buckets(task, t));
    fill_facts(task, t);
    QN_TRY(make_engine(task, t));
    t->columns = qn_engine_result_shape(task->engine, t->evaluation, LOGITS).dims[1];
    return make_buffers(task, t);
}

static void translation_close(qn_task *task) {
    translation *t = task->self;
    if (!t)
        return;
    for (int side = 0; side < 2; side++)
        qn_words_deinit(&t->words[side]);
    qn_pairs_close(t->pairs);
    qn_arena_deinit(&t->arena);
    qn_release(task->allocator, t, 1, sizeof *t);
}

static qn_status translation_resume(qn_task *task) {
    translation *t = task->self;
    t->n_batches = qn_engine_steps(task->engine) * qn_setting_count(task, "accumulate", 1);
    return QN_OK;
}

/* ---- training ---- */

/* Runs a whole network on the batch that was filled; the loss goes to *loss. */
static qn_status run_whole(const qn_task *task, const translation *t, int program, double *loss) {
    const void *inputs[] = {t->source, t->lengths, t->target, t->labels};
    QN_TRY(qn_engine_run(task->engine, program, inputs));
    *loss = (double)*(const float *)qn_engine_result(task->engine, program, LOSS);
    return QN_OK;
}

static qn_status translation_step(qn_task *task, qn_metrics *metrics) {
    translation *t = task->self;
    const int64_t step = qn_engine_steps(task->engine);
    double sum = 0, loss;
    int n = 0;
    while (qn_engine_steps(task->engine) == step) {
        const int bucket = qn_buckets_get(&t->buckets, t->n_batches, t->indices);
        fill_batch(t, QN_TRAIN, t->sizes.batch, t->buckets.length[bucket]);
        QN_TRY(run_whole(task, t, bucket, &loss));
        t->n_batches++;
        sum += loss;
        n++;
    }
    qn_metrics_add(metrics, "loss", sum / n, false);
    return QN_OK;
}

static qn_status translation_infer(qn_task *task, double *loss) {
    translation *t = task->self;
    if (t->n_batches == 0)
        return QN_OK;
    qn_buckets_get(&t->buckets, t->n_batches - 1, t->indices);
    fill_batch(t, QN_TRAIN, t->sizes.batch, t->sizes.length);
    return run_whole(task, t, t->evaluation, loss);
}

/* ---- translating ---- */

static int32_t likeliest(const float *logits, int64_t n) {
    int64_t best = 0;
    for (int64_t i = 1; i < n; i++)
        best = logits[i] > logits[best] ? i : best;
    return (int32_t)best;
}

/* Copies the states out of a program's results. */
static void keep_states(const qn_task *task, translation *t, int program) {
    for (int i = 0; i < t->n_states; i++)
        memcpy(t->states[i], qn_engine_result(task->engine, program, FIRST_STATE + i),
               t->state_bytes[i]);
}

static qn_status encode(const qn_task *task, translation *t) {
    const void *inputs[] = {t->source, t->lengths};
    QN_TRY(qn_engine_run(task->engine, t->encoder, inputs));
    memcpy(t->encoded, qn_engine_result(task->engine, t->encoder, ENCODED), t->encoded_bytes);
    keep_states(task, t, t->encoder);
    return QN_OK;
}

/* Appends a row's next word unless the sentence has ended; returns whether it goes on. *last is
 * what the row's decoder got, and gets next. */
static bool append_word(translation *t, int64_t row, int32_t word, int32_t *last) {
    const bool has_ended = *last == QN_SENTENCE_END || word == QN_SENTENCE_END;
    *last = has_ended ? QN_SENTENCE_END : word;
    if (!has_ended)
        t->output[row * t->sizes.length + t->n_output[row]++] = word;
    return !has_ended;
}

/* The same by a whole network, which for each word is run over all that there are so far. */
static qn_status translate_whole(const qn_task *task, translation *t, int64_t n_rows) {
    const int64_t length = t->sizes.length;
    bool goes_on = true;
    double loss;
    for (int64_t i = 0; i < t->sizes.batch * length; i++) {
        t->labels[i] = -1;
        t->target[i] = QN_SENTENCE_BEGIN;
    }
    memset(t->n_output, 0, (size_t)t->sizes.batch * sizeof *t->n_output);
    for (int64_t i = 0; goes_on && i < length; i++) {
        QN_TRY(run_whole(task, t, t->evaluation, &loss));
        const float *logits = qn_engine_result(task->engine, t->evaluation, LOGITS);
        goes_on = false;
        for (int64_t row = 0; row < n_rows; row++) {
            const int64_t at = row * length + i;
            int32_t last = t->target[at];
            goes_on |=
                append_word(t, row, likeliest(logits + at * t->columns, t->sizes.n_outputs), &last);
            if (i + 1 < length)
                t->target[at + 1] = last;
        }
    }
    return QN_OK;
}

/* Translates the first rows of source to output; the words of a step lie in target. */
static qn_status translate(const qn_task *task, translation *t, int64_t n_rows) {
    const void *inputs[MOST_STATES + 3] = {t->encoded, t->lengths};
    int32_t *words = t->target;
    bool goes_on = true;
    if (task->model->has_one_variant)
        return translate_whole(task, t, n_rows);
    QN_TRY(encode(task, t));
    for (int i = 0; i < t->n_states; i++)
        inputs[2 + i] = t->states[i];
    inputs[2 + t->n_states] = words;
    for (int64_t row = 0; row < t->sizes.batch; row++) {
        words[row] = QN_SENTENCE_BEGIN;
        t->n_output[row] = 0;
    }
    for (int64_t i = 0; goes_on && i < t->sizes.length; i++) {
        QN_TRY(qn_engine_run(task->engine, t->step, inputs));
        const float *logits = qn_engine_result(task->engine, t->step, NEXT_LOGITS);
        goes_on = false;
        for (int64_t row = 0; row < n_rows; row++) {
            const float *own = logits + row * t->sizes.n_outputs;
            goes_on |= append_word(t, row, likeliest(own, t->sizes.n_outputs), &words[row]);
        }
        keep_states(task, t, t->step);
    }
    return QN_OK;
}

static qn_sentence output_of(const translation *t, int64_t row) {
    return (qn_sentence){t->output + row * t->sizes.length, t->n_output[row]};
}

/* ---- measuring ---- */

typedef struct sums {
    double loss;
    int64_t n_words, n_correct, n_exact;
    qn_bleu bleu;
} sums;

/* Loss and words that are right, given the right ones before. */
static qn_status measure_words(const qn_task *task, translation *t, sums *s) {
    double mean;
    QN_TRY(run_whole(task, t, t->evaluation, &mean));
    const float *losses = qn_engine_result(task->engine, t->evaluation, LOSSES);
    const float *logits = qn_engine_result(task->engine, t->evaluation, LOGITS);
    for (int64_t i = 0; i < t->sizes.batch * t->sizes.length; i++) {
        if (t->labels[i] < 0)
            continue;
        s->n_words++;
        s->loss += (double)losses[i];
        s->n_correct += likeliest(logits + i * t->columns, t->sizes.n_outputs) == t->labels[i];
    }
    return QN_OK;
}

/* Sentences that come out as they should; an unknown word never does. */
static qn_status measure_sentences(const qn_task *task, translation *t, qn_split split,
                                   int64_t n_rows, sums *s) {
    QN_TRY(translate(task, t, n_rows));
    for (int64_t row = 0; row < n_rows; row++) {
        const qn_sentence target = qn_pairs_get(t->pairs, split, t->indices[row], QN_TARGET);
        const qn_sentence output = output_of(t, row);
        bool is_exact = output.n == target.n;
        for (int i = 0; is_exact && i < target.n; i++)
            is_exact = output.tokens[i] == target.tokens[i] && target.tokens[i] != QN_UNKNOWN_WORD;
        s->n_exact += is_exact;
        qn_bleu_add(&s->bleu, output, target);
    }
    return QN_OK;
}

static qn_status translation_evaluate(qn_task *task, qn_split split,
                                      bool (*should_stop)(void *user), void *user,
                                      qn_metrics *metrics, int64_t *n_samples) {
    translation *t = task->self;
    sums s = {0};
    QN_TRY(open_pairs(task, t));
    const int64_t n = qn_pairs_count(t->pairs, split), batch = t->sizes.batch;
    for (int64_t first = 0; first < n; first += batch) {
        const int64_t n_rows = n - first < batch ? n - first : batch;
        if (should_stop && should_stop(user))
            return qn_fail(QN_ERROR_INTERRUPTED, "stopped while testing");
        for (int64_t row = 0; row < n_rows; row++)
            t->indices[row] = first + row;
        fill_batch(t, split, n_rows, t->sizes.length);
        QN_TRY(measure_words(task, t, &s));
        QN_TRY(measure_sentences(task, t, split, n_rows, &s));
    }
    *n_samples = n;
    if (n == 0)
        return QN_OK;
    qn_metrics_add(metrics, "loss", s.loss / (double)s.n_words, false);
    qn_metrics_add(metrics, "word_accuracy", (double)s.n_correct / (double)s.n_words, true);
    qn_metrics_add(metrics, "exact", (double)s.n_exact / (double)n, true);
    qn_metrics_add(metrics, "bleu", qn_bleu_score(&s.bleu), true);
    return QN_OK;
}

/* ---- showing ---- */

/* "NAME: the words" as a line. */
static qn_status put_sentence(const qn_task *task, const qn_sample_options *o, const char *name,
                              const qn_words *words, qn_sentence s) {
    size_t bytes = strlen(name) + 3, used;
    char *line;
    for (int i = 0; i < s.n; i++)
        bytes += strlen(words->words[s.tokens[i]]) + 1;
    QN_TRY(qn_allocate(task->allocator, bytes, 1, &line));
    used = (size_t)snprintf(line, bytes, "%s:", name);
    for (int i = 0; i < s.n; i++)
        used += (size_t)snprintf(line + used, bytes - used, " %s", words->words[s.tokens[i]]);
    o->put(o->user, line);
    qn_release(task->allocator, line, bytes, 1);
    return QN_OK;
}

/* The prompt's words as the first row. */
static qn_status fill_prompt(translation *t, const char *prompt) {
    const char *end = prompt + strlen(prompt), *word;
    const qn_words *words = &t->words[QN_SOURCE];
    size_t bytes;
    int n = 0;
    while (qn_word_next(&prompt, end, &word, &bytes)) {
        const int32_t number = qn_words_find(words, word, bytes);
        if (number == QN_UNKNOWN_WORD)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "the prompt has the word '%.*s', which is not among the %d that were "
                           "learned",
                           (int)bytes, word, words->n - QN_FIRST_WORD);
        if (n == t->sizes.length)
            return qn_fail(QN_ERROR_ARGUMENT,
                           "the prompt has more than the %lld words that a "
                           "sentence may have",
                           (long long)t->sizes.length);
        t->output[n++] = number;
    }
    if (n == 0)
        return qn_fail(QN_ERROR_ARGUMENT, "the prompt has no words");
    fill_row(t, 0, t->sizes.length, (qn_sentence){t->output, n}, (qn_sentence){NULL, 0});
    return QN_OK;
}

static qn_status show_row(qn_task *task, translation *t, const qn_sample_options *o, int64_t row,
                          const qn_sentence *target) {
    const qn_sentence source = {t->source + row * t->sizes.length, t->lengths[row]};
    QN_TRY(put_sentence(task, o, "source", &t->words[QN_SOURCE], source));
    if (target)
        QN_TRY(put_sentence(task, o, "target", &t->words[QN_TARGET], *target));
    return put_sentence(task, o, "output", &t->words[QN_TARGET], output_of(t, row));
}

/* Sentences of the held-out part, spread over it. */
static qn_status show_pairs(qn_task *task, translation *t, const qn_sample_options *o) {
    QN_TRY(open_pairs(task, t));
    const int64_t n = qn_pairs_count(t->pairs, QN_TEST);
    int64_t wanted = o->count > 0 ? o->count : SAMPLES;
    wanted = wanted < n ? wanted : n;
    for (int64_t i = 0; i < wanted; i++) {
        t->indices[0] = (int64_t)((__int128)i * n / wanted);
        const qn_sentence target = qn_pairs_get(t->pairs, QN_TEST, t->indices[0], QN_TARGET);
        fill_batch(t, QN_TEST, 1, t->sizes.length);
        QN_TRY(translate(task, t, 1));
        QN_TRY(show_row(task, t, o, 0, &target));
    }
    return QN_OK;
}

static qn_status translation_sample(qn_task *task, const qn_sample_options *options) {
    translation *t = task->self;
    if (!options->put)
        return QN_OK;
    if (!options->prompt)
        return show_pairs(task, t, options);
    fill_batch(t, QN_TEST, 0, t->sizes.length);
    QN_TRY(fill_prompt(t, options->prompt));
    QN_TRY(translate(task, t, 1));
    return show_row(task, t, options, 0, NULL);
}

const qn_task_kind qn_task_translation = {
    .name = "translation",
    .summary = "sentences of one language in the words of another",
    .open = translation_open,
    .close = translation_close,
    .resume = translation_resume,
    .step = translation_step,
    .evaluate = translation_evaluate,
    .sample = translation_sample,
    .infer = translation_infer,
};
