/* Parallel sentences from files and generated ones; see pairs.h. */
#include "data/text/pairs.h"

#include "base/rng.h"
#include "base/status.h"
#include "data/source.h"
#include "data/split/holdout.h"
#include "data/text/characters.h"
#include "os/heap.h"
#include "os/os.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* begin[s][i] to begin[s][i + 1] are the words of side s of pair i, 0 <= i < n, in tokens[s]. */
struct qn_pairs {
    const qn_allocator *allocator;
    qn_arena arena;
    const char *name;
    qn_words words[2];
    int64_t n;
    int64_t *begin[2]; /* (n + 1) */
    int32_t *tokens[2];
    qn_holdout holdout;
};

/* A file in memory, and its lines that are of use. */
typedef struct text_file {
    const char *path;
    char *data; /* (bytes) */
    size_t bytes;
    const char *at; /* of the line that comes next */
} text_file;

typedef struct line {
    const char *begin, *end;
} line;

typedef struct reader {
    const qn_pairs_options *options;
    const qn_allocator *allocator;
    qn_pairs *pairs;
    text_file files[2];
    line (*lines)[2]; /* (n_lines) of capacity: the pairs that are kept */
    size_t n_lines, capacity;
    int64_t n_empty, n_long;
} reader;

/* ---- lines ---- */

/* Words go into checkpoints, whose texts are UTF-8. */
static qn_status check_encoding(const text_file *f) {
    int64_t number = 1;
    for (size_t i = 0; i < f->bytes;) {
        uint32_t code;
        const size_t n = qn_utf8_read(f->data + i, f->bytes - i, &code);
        if (n == 1 && code == QN_UNKNOWN_CHARACTER)
            return qn_fail(QN_ERROR_FORMAT, "%s: line %lld is not UTF-8 (iconv converts)", f->path,
                           (long long)number);
        number += code == '\n';
        i += n;
    }
    return QN_OK;
}

static qn_status load(reader *r, text_file *f) {
    qn_file *file;
    QN_TRY(qn_file_open(r->allocator, f->path, &file));
    const size_t bytes = (size_t)qn_file_bytes(file);
    qn_status status = qn_allocate(r->allocator, bytes, 1, &f->data);
    if (status == QN_OK && bytes > 0) {
        f->bytes = bytes;
        status = qn_file_read(file, 0, f->data, bytes);
    }
    qn_file_close(file);
    QN_TRY(status);
    f->at = f->data;
    if (f->bytes >= 3 && memcmp(f->data, "\xef\xbb\xbf", 3) == 0)
        f->at += 3; /* the mark some begin UTF-8 with */
    return check_encoding(f);
}

static bool next_line(text_file *f, line *l) {
    const char *end = f->bytes > 0 ? f->data + f->bytes : NULL;
    if (!end || f->at >= end)
        return false;
    const char *stop = memchr(f->at, '\n', (size_t)(end - f->at));
    *l = (line){f->at, stop ? stop : end};
    f->at = stop ? stop + 1 : end;
    return true;
}

static int64_t count_words(line l) {
    const char *word;
    size_t bytes;
    int64_t n = 0;
    while (qn_word_next(&l.begin, l.end, &word, &bytes))
        n++;
    return n;
}

static int64_t count_lines(text_file *f) {
    line l;
    int64_t n = 0;
    while (next_line(f, &l))
        n++;
    return n;
}

static qn_status fail_uneven(reader *r, int64_t n_read) {
    const int64_t more[2] = {count_lines(&r->files[0]), count_lines(&r->files[1])};
    return qn_fail(QN_ERROR_FORMAT,
                   "%s has %lld lines and %s has %lld; line by line they must be translations of "
                   "each other",
                   r->files[0].path, (long long)(n_read + more[0]), r->files[1].path,
                   (long long)(n_read + more[1]));
}

static qn_status keep_line(reader *r, const line pair[2]) {
    const int64_t n_source = count_words(pair[0]), n_target = count_words(pair[1]);
    if (n_source == 0 || n_target == 0) {
        r->n_empty++;
        return QN_OK;
    }
    if (n_source > r->options->length || n_target >= r->options->length) {
        r->n_long++;
        return QN_OK;
    }
    QN_TRY(qn_grow(r->allocator, &r->lines, &r->capacity, r->n_lines + 1, sizeof *r->lines));
    memcpy(r->lines[r->n_lines++], pair, sizeof *r->lines);
    return QN_OK;
}

static qn_status read_lines(reader *r) {
    line pair[2];
    for (int64_t n = 0;; n++) {
        text_file before[2];
        memcpy(before, r->files, sizeof before);
        const bool has[2] = {next_line(&r->files[0], &pair[0]), next_line(&r->files[1], &pair[1])};
        if (!has[0] && !has[1])
            return QN_OK;
        if (has[0] != has[1]) {
            memcpy(r->files, before, sizeof before);
            return fail_uneven(r, n);
        }
        QN_TRY(keep_line(r, pair));
    }
}

static void tell(const reader *r) {
    char text[256];
    const qn_log *log = r->options->log;
    if (!log || !log->write || r->n_empty + r->n_long == 0)
        return;
    snprintf(text, sizeof text,
             "left out %lld pairs with an empty side and %lld with more than %lld words "
             "(a target: %lld)",
             (long long)r->n_empty, (long long)r->n_long, (long long)r->options->length,
             (long long)r->options->length - 1);
    log->write(log->user, 0, text);
}

/* ---- numbers ---- */

static qn_status count_vocabulary(reader *r, qn_side side) {
    qn_pairs *p = r->pairs;
    qn_word_table counted = {.arena = &p->arena};
    qn_status status = QN_OK;
    for (int64_t i = 0; i < p->n - p->holdout.n_test && status == QN_OK; i++) {
        line l = r->lines[qn_holdout_index(&p->holdout, QN_TRAIN, i)][side];
        const char *word;
        size_t bytes;
        while (status == QN_OK && qn_word_next(&l.begin, l.end, &word, &bytes))
            status = qn_word_table_add(&counted, word, bytes);
    }
    if (status == QN_OK)
        status = qn_words_choose(&p->arena, &counted, r->options->most_words,
                                 r->options->least_count, &p->words[side]);
    qn_word_table_deinit(&counted);
    return status;
}

static qn_status make_room(qn_pairs *p, int64_t n_words, qn_side side) {
    p->begin[side] = qn_arena_allocate(&p->arena, (size_t)p->n + 1, sizeof *p->begin[side]);
    p->tokens[side] = qn_arena_allocate(&p->arena, (size_t)n_words + 1, sizeof *p->tokens[side]);
    return p->begin[side] && p->tokens[side] ? QN_OK : QN_ERROR_MEMORY;
}

static qn_status number_side(reader *r, qn_side side) {
    qn_pairs *p = r->pairs;
    int64_t n = 0;
    for (size_t i = 0; i < r->n_lines; i++)
        n += count_words(r->lines[i][side]);
    QN_TRY(make_room(p, n, side));
    n = 0;
    for (int64_t i = 0; i < p->n; i++) {
        line l = r->lines[i][side];
        const char *word;
        size_t bytes;
        while (qn_word_next(&l.begin, l.end, &word, &bytes))
            p->tokens[side][n++] = qn_words_find(&p->words[side], word, bytes);
        p->begin[side][i + 1] = n;
    }
    return QN_OK;
}

/* The vocabulary that a checkpoint gives, if it gives one. */
static qn_status take_vocabulary(reader *r, qn_side side) {
    const char *words = r->options->words[side];
    return words ? qn_words_parse(&r->pairs->arena, words, &r->pairs->words[side]) : QN_OK;
}

static qn_status read_sides(reader *r) {
    for (int side = 0; side < 2; side++) {
        QN_TRY(take_vocabulary(r, (qn_side)side));
        if (!r->options->words[side])
            QN_TRY(count_vocabulary(r, (qn_side)side));
        QN_TRY(number_side(r, (qn_side)side));
    }
    return QN_OK;
}

/* ---- made-up sentences ---- */

enum { N_SYNTHETIC = 10000 };

/* A word's number under a law like Zipf's: the octave is uniform, and the number within it. */
static int32_t draw_word(qn_rng rng, uint64_t index, int32_t n_words) {
    int n_octaves = 1;
    while (n_octaves < 31 && (1LL << n_octaves) - 1 < n_words)
        n_octaves++;
    const uint64_t octave = 1ULL << qn_rng_below(rng, 2 * index, (uint64_t)n_octaves);
    const uint64_t drawn = octave - 1 + qn_rng_below(rng, 2 * index + 1, octave);
    return (int32_t)(drawn % (uint64_t)n_words);
}

static qn_status make_words(reader *r, qn_side side) {
    qn_words *words = &r->pairs->words[side];
    const int64_t n = r->options->most_words - QN_FIRST_WORD;
    char text[24];
    qn_word_table counted = {.arena = &r->pairs->arena};
    if (r->options->words[side])
        return take_vocabulary(r, side);
    if (n < 1 || n > 1000000)
        return qn_fail(QN_ERROR_ARGUMENT, "a synthetic vocabulary has %d to %d words, not %lld",
                       QN_FIRST_WORD + 1, QN_FIRST_WORD + 1000000,
                       (long long)r->options->most_words);
    qn_status status = QN_OK;
    for (int64_t i = 0; i < n && status == QN_OK; i++) {
        const int bytes = snprintf(text, sizeof text, "w%lld", (long long)i);
        status = qn_word_table_add(&counted, text, (size_t)bytes);
    }
    if (status == QN_OK)
        status = qn_words_choose(&r->pairs->arena, &counted, n + QN_FIRST_WORD, 1, words);
    qn_word_table_deinit(&counted);
    return status;
}

/* Sentences as long as a target may be, so that a program's rows are full. */
static qn_status make_pairs(reader *r) {
    qn_pairs *p = r->pairs;
    const int64_t length = r->options->length - 1;
    const qn_rng rng = qn_rng_make(r->options->seed, qn_hash_text("pairs.words"), 0);
    p->n = N_SYNTHETIC;
    for (int side = 0; side < 2; side++) {
        QN_TRY(make_words(r, (qn_side)side));
        QN_TRY(make_room(p, p->n * length, (qn_side)side));
        for (int64_t i = 0; i <= p->n; i++)
            p->begin[side][i] = i * length;
    }
    const int32_t n = p->words[QN_SOURCE].n < p->words[QN_TARGET].n ? p->words[QN_SOURCE].n
                                                                    : p->words[QN_TARGET].n;
    for (int64_t i = 0; i < p->n * length; i++) {
        const int64_t first = i / length * length, mirrored = 2 * first + length - 1 - i;
        const int32_t word = QN_FIRST_WORD + draw_word(rng, (uint64_t)i, n - QN_FIRST_WORD);
        p->tokens[QN_SOURCE][i] = p->tokens[QN_TARGET][mirrored] = word;
    }
    return QN_OK;
}

/* ---- opening ---- */

/* pairs:SOURCE,TARGET to two paths. */
static qn_status split_specification(reader *r, const char *specification) {
    static const char prefix[] = "pairs:";
    const size_t n = sizeof prefix - 1;
    const bool is_pairs = strncmp(specification, prefix, n) == 0;
    const char *paths = is_pairs ? specification + n : "";
    const char *comma = strchr(paths, ',');
    if (!comma || comma == paths || !comma[1] || strchr(comma + 1, ','))
        return qn_fail(QN_ERROR_ARGUMENT,
                       "data '%s' is not parallel text; it is written pairs:SOURCE,TARGET or "
                       "synthetic",
                       specification);
    r->files[0].path = qn_arena_format(&r->pairs->arena, "%.*s", (int)(comma - paths), paths);
    r->files[1].path = qn_arena_text(&r->pairs->arena, comma + 1);
    return r->files[0].path && r->files[1].path ? QN_OK : QN_ERROR_MEMORY;
}

/* Pairs of one source sentence are on one side, whatever they are translated to. */
static qn_status look(void *context, int64_t index, uint64_t *content, int32_t *class) {
    const reader *r = context;
    line l = r->lines[index][QN_SOURCE];
    const char *word;
    size_t bytes;
    *class = 0;
    *content = 0;
    while (qn_word_next(&l.begin, l.end, &word, &bytes))
        *content = *content * 31 + qn_hash_bytes(word, bytes);
    return QN_OK;
}

static void tell_copies(const reader *r) {
    const qn_holdout *held = &r->pairs->holdout;
    const qn_log *log = r->options->log;
    char text[200];
    if (held->n_copies == 0 || !log || !log->write)
        return;
    snprintf(text, sizeof text,
             "%s%lld of %lld pairs have the source sentence of another one; such are held out "
             "together, or not at all",
             held->is_estimate ? "about " : "", (long long)held->n_copies, (long long)held->n);
    log->write(log->user, 0, text);
}

/* Generated pairs have no lines. */
static qn_status hold_out(reader *r) {
    qn_pairs *p = r->pairs;
    const double part = r->options->holdout > 0 ? r->options->holdout : 1.0 / 20;
    const qn_holdout_samples samples = {p->n, 0, r, look};
    const qn_holdout_options how = {
        .allocator = r->allocator, .part = part, .seed = r->options->seed, .purpose = "test"};
    if (!r->lines || r->options->by_place)
        return qn_holdout_by_place(p->n, part, r->options->seed, &p->holdout);
    QN_TRY(qn_holdout_by_content(&p->arena, &samples, &how, &p->holdout));
    tell_copies(r);
    return QN_OK;
}

static qn_status read_pairs(reader *r, const char *specification) {
    QN_TRY(split_specification(r, specification));
    QN_TRY(load(r, &r->files[0]));
    QN_TRY(load(r, &r->files[1]));
    QN_TRY(read_lines(r));
    tell(r);
    r->pairs->n = (int64_t)r->n_lines;
    if (r->n_lines < 2)
        return qn_fail(QN_ERROR_FORMAT,
                       "%s and %s hold %lld pairs of sentences to learn from (at most %lld words "
                       "long); at least 2 are needed",
                       r->files[0].path, r->files[1].path, (long long)r->n_lines,
                       (long long)r->options->length);
    QN_TRY(hold_out(r));
    return read_sides(r);
}

static qn_status fill(reader *r, const char *specification) {
    r->pairs->name = qn_arena_text(&r->pairs->arena, specification);
    if (!r->pairs->name)
        return QN_ERROR_MEMORY;
    if (r->options->length < 2 || r->options->length > 1000000)
        return qn_fail(QN_ERROR_ARGUMENT, "sentences of at most %lld words; it is 2 to 1000000",
                       (long long)r->options->length);
    if (strcmp(specification, "synthetic") != 0)
        return read_pairs(r, specification);
    QN_TRY(make_pairs(r));
    return hold_out(r);
}

qn_status qn_pairs_open(const char *specification, const qn_pairs_options *options,
                        qn_pairs **pairs) {
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    reader r = {.options = options, .allocator = allocator};
    QN_TRY(qn_allocate(allocator, 1, sizeof *r.pairs, &r.pairs));
    r.pairs->allocator = allocator;
    qn_arena_init(&r.pairs->arena, allocator);
    qn_status status = fill(&r, specification);
    qn_release(allocator, r.lines, r.capacity, sizeof *r.lines);
    for (int side = 0; side < 2; side++)
        qn_release(allocator, r.files[side].data, r.files[side].bytes, 1);
    if (status == QN_OK)
        *pairs = r.pairs;
    else
        qn_pairs_close(r.pairs);
    return status;
}

void qn_pairs_close(qn_pairs *pairs) {
    if (!pairs)
        return;
    for (int side = 0; side < 2; side++)
        qn_words_deinit(&pairs->words[side]);
    qn_arena_deinit(&pairs->arena);
    qn_release(pairs->allocator, pairs, 1, sizeof *pairs);
}

const char *qn_pairs_name(const qn_pairs *pairs) {
    return pairs->name;
}

const qn_words *qn_pairs_words(const qn_pairs *pairs, qn_side side) {
    return &pairs->words[side];
}

int64_t qn_pairs_count(const qn_pairs *pairs, qn_split split) {
    return split == QN_TEST ? pairs->holdout.n_test : pairs->n - pairs->holdout.n_test;
}

qn_sentence qn_pairs_get(const qn_pairs *pairs, qn_split split, int64_t index, qn_side side) {
    const int64_t i = qn_holdout_index(&pairs->holdout, split, index);
    const int64_t begin = pairs->begin[side][i], end = pairs->begin[side][i + 1];
    return (qn_sentence){pairs->tokens[side] + begin, (int)(end - begin)};
}
