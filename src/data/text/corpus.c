/* Texts from files and generated ones; see corpus.h. */
#include "data/text/corpus.h"

#include "base/rng.h"
#include "base/status.h"
#include "data/source.h"
#include "data/text/typed.h"
#include "os/heap.h"
#include "os/os.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

/* Bytes that grow. */
typedef struct buffer {
    char *data; /* (n) of capacity */
    size_t n, capacity;
} buffer;

/* Where texts that were appended end. */
typedef struct ends {
    size_t *list; /* (n) of capacity */
    size_t n, capacity;
} ends;

typedef struct reader {
    const qn_corpus_options *options;
    const qn_allocator *allocator;
    qn_arena *arena;
    const char *folder; /* being read; null: one file */
    const char **paths; /* (n_paths) of path_capacity: resolved, of the files read */
    size_t n_paths, path_capacity;
    buffer file, typed, parts[QN_SPLITS];
    ends ends[QN_SPLITS]; /* of raw texts */
    int64_t n_ignored;
} reader;

static qn_status append(reader *r, buffer *to, const char *data, size_t n) {
    QN_TRY(qn_grow(r->allocator, &to->data, &to->capacity, to->n + n + 1, 1));
    if (n > 0)
        memcpy(to->data + to->n, data, n);
    to->n += n;
    return QN_OK;
}

/* CRLF to LF, in place. */
static void join_line_ends(buffer *text) {
    size_t used = 0;
    for (size_t i = 0; i < text->n; i++) {
        const bool is_first_of_two =
            text->data[i] == '\r' && i + 1 < text->n && text->data[i + 1] == '\n';
        if (!is_first_of_two)
            text->data[used++] = text->data[i];
    }
    text->n = used;
}

/* Reads a file into r->file. */
static qn_status load(reader *r, const char *path) {
    qn_file *file;
    QN_TRY(qn_file_open(r->allocator, path, &file));
    const size_t bytes = (size_t)qn_file_bytes(file);
    r->file.n = 0;
    qn_status status = qn_grow(r->allocator, &r->file.data, &r->file.capacity, bytes + 1, 1);
    if (status == QN_OK)
        status = qn_file_read(file, 0, r->file.data, bytes);
    qn_file_close(file);
    QN_TRY(status);
    r->file.n = bytes;
    if (bytes >= 3 && memcmp(r->file.data, "\xef\xbb\xbf", 3) == 0) {
        memmove(r->file.data, r->file.data + 3, bytes - 3); /* the mark some begin UTF-8 with */
        r->file.n -= 3;
    }
    join_line_ends(&r->file);
    return QN_OK;
}

static size_t find_boundary(const reader *r, const buffer *text) {
    const double part = r->options->is_whole      ? 0
                        : r->options->holdout > 0 ? r->options->holdout
                                                  : 1.0 / 20;
    const size_t wanted = (size_t)((double)text->n * (1 - part));
    return wanted < text->n ? wanted : text->n;
}

static qn_status note_end(reader *r, qn_split split, size_t bytes) {
    ends *e = &r->ends[split];
    if (bytes == 0)
        return QN_OK;
    QN_TRY(qn_grow(r->allocator, &e->list, &e->capacity, e->n + 1, sizeof *e->list));
    e->list[e->n++] = r->parts[split].n;
    return QN_OK;
}

/* Cuts the file that was loaded into its two parts, between characters. */
static qn_status split_characters(reader *r) {
    size_t boundary = find_boundary(r, &r->file);
    while (boundary < r->file.n && ((unsigned char)r->file.data[boundary] & 0xC0) == 0x80)
        boundary++;
    QN_TRY(append(r, &r->parts[QN_TRAIN], r->file.data, boundary));
    QN_TRY(append(r, &r->parts[QN_TEST], r->file.data + boundary, r->file.n - boundary));
    if (!r->options->is_raw)
        return QN_OK;
    QN_TRY(note_end(r, QN_TRAIN, boundary));
    return note_end(r, QN_TEST, r->file.n - boundary);
}

/* Where the word behind n words begins. */
static size_t skip_words(const buffer *text, size_t at, int64_t n) {
    while (n > 0 && at < text->n)
        n -= text->data[at++] == ' ';
    return at;
}

static qn_status split_words(reader *r) {
    const int64_t n_first = r->options->n_first;
    buffer *t = &r->typed;
    QN_TRY(qn_text_type(r->allocator, r->file.data, r->file.n, &t->data, &t->n, &t->capacity));
    if (t->n == 0)
        return QN_OK;
    size_t boundary = n_first > 0 ? skip_words(t, 0, n_first - n_first / 5) : find_boundary(r, t);
    if (n_first == 0 && boundary > 0)
        boundary = skip_words(t, boundary - 1, 1);
    const size_t held_out = n_first > 0 ? skip_words(t, boundary, n_first / 5) : boundary;
    QN_TRY(append(r, &r->parts[QN_TRAIN], t->data, boundary));
    QN_TRY(append(r, &r->parts[QN_VALIDATION], t->data + boundary, held_out - boundary));
    return append(r, &r->parts[QN_TEST], t->data + held_out, t->n - held_out);
}

static qn_status split_file(reader *r) {
    return r->options->has_words ? split_words(r) : split_characters(r);
}

static bool is_text(const buffer *text) {
    return text->n == 0 || !memchr(text->data, 0, text->n);
}

/* Whether a file was read under another name; else it is noted. */
static qn_status note_path(reader *r, const char *path, bool *is_known) {
    char resolved[PATH_MAX];
    *is_known = false;
    QN_TRY(qn_path_resolve(path, resolved, sizeof resolved));
    for (size_t i = 0; i < r->n_paths && !*is_known; i++)
        *is_known = strcmp(r->paths[i], resolved) == 0;
    if (*is_known)
        return QN_OK;
    QN_TRY(qn_grow(r->allocator, &r->paths, &r->path_capacity, r->n_paths + 1, sizeof *r->paths));
    const char *copy = qn_arena_text(r->arena, resolved);
    if (!copy)
        return QN_ERROR_MEMORY;
    r->paths[r->n_paths++] = copy;
    return QN_OK;
}

static qn_status visit(void *context, const char *name, bool is_folder) {
    reader *r = context;
    bool is_known;
    char path[PATH_MAX];
    if (is_folder)
        return QN_OK;
    if (snprintf(path, sizeof path, "%s/%s", r->folder, name) >= (int)sizeof path)
        return qn_fail(QN_ERROR_IO, "%s/%s: the path is too long", r->folder, name);
    QN_TRY(note_path(r, path, &is_known));
    if (is_known)
        return QN_OK;
    QN_TRY(load(r, path));
    if (!is_text(&r->file)) {
        r->n_ignored++;
        return QN_OK;
    }
    return split_file(r);
}

static void tell(const reader *r, const char *text) {
    const qn_log *log = r->options->log;
    if (log && log->write)
        log->write(log->user, 0, text);
}

static qn_status read_folder(reader *r, const char *path) {
    char text[PATH_MAX + 128];
    r->folder = path;
    QN_TRY(qn_folder_list(r->allocator, path, visit, r));
    if (r->n_ignored > 0) {
        snprintf(text, sizeof text,
                 "%s: skipped %lld files that contain a zero byte and are not text", path,
                 (long long)r->n_ignored);
        tell(r, text);
    }
    return QN_OK;
}

static qn_status read_path(reader *r, const char *path) {
    if (qn_path_is_folder(path))
        QN_TRY(read_folder(r, path));
    else {
        QN_TRY(load(r, path));
        if (!is_text(&r->file))
            return qn_fail(QN_ERROR_FORMAT, "%s: contains a zero byte, so it is not UTF-8 text",
                           path);
        QN_TRY(split_file(r));
    }
    if (r->parts[QN_TRAIN].n == 0)
        return qn_fail(QN_ERROR_FORMAT, "%s: holds no text to learn from", path);
    return QN_OK;
}

/* ---- made-up text ---- */

enum { WORD_BYTES = 8, SYNTHETIC_BYTES = 1 << 18, FIRST_SIGN = '!', N_SIGNS = 94 };

/* Words of 1 to 8 signs of ASCII. */
static size_t make_word(qn_rng rng, uint64_t number, char word[WORD_BYTES]) {
    const size_t length = 1 + qn_rng_below(rng, number * 16, WORD_BYTES);
    for (size_t i = 0; i < length; i++)
        word[i] = (char)(FIRST_SIGN + qn_rng_below(rng, number * 16 + 1 + i, N_SIGNS));
    return length;
}

/* A word's number under a law like Zipf's: the octave is uniform, and the number within it. */
static uint64_t draw_word(qn_rng rng, uint64_t index) {
    const uint64_t octave = 1ULL << qn_rng_below(rng, 2 * index, 8);
    return octave - 1 + qn_rng_below(rng, 2 * index + 1, octave);
}

static qn_status make_text(reader *r) {
    const qn_rng words = qn_rng_make(r->options->seed, qn_hash_text("text.words"), 0);
    const qn_rng order = qn_rng_make(r->options->seed, qn_hash_text("text.order"), 0);
    QN_TRY(qn_grow(r->allocator, &r->file.data, &r->file.capacity, SYNTHETIC_BYTES, 1));
    for (uint64_t i = 0; r->file.n + WORD_BYTES + 1 <= SYNTHETIC_BYTES; i++) {
        r->file.n += make_word(words, draw_word(order, i), r->file.data + r->file.n);
        r->file.data[r->file.n++] = ' ';
    }
    return split_file(r);
}

/* ---- numbers ---- */

static qn_status number_characters(qn_corpus *corpus, qn_split split, const buffer *text) {
    uint32_t code;
    int64_t n = 0;
    for (size_t at = 0; at < text->n; n++)
        at += qn_utf8_read(text->data + at, text->n - at, &code);
    uint16_t *tokens = qn_arena_allocate(&corpus->arena, (size_t)n + 1, sizeof *tokens);
    if (!tokens)
        return QN_ERROR_MEMORY;
    n = 0;
    for (size_t at = 0; at < text->n; n++) {
        at += qn_utf8_read(text->data + at, text->n - at, &code);
        tokens[n] = (uint16_t)qn_characters_find(&corpus->characters, code);
    }
    corpus->tokens[split] = tokens;
    corpus->n[split] = n;
    return QN_OK;
}

static int32_t number_of(const qn_corpus *corpus, const char *word, size_t bytes) {
    return qn_word_is_end(word, bytes) ? QN_SENTENCE_END
                                       : qn_words_find(&corpus->words, word, bytes);
}

static qn_status number_words(qn_corpus *corpus, qn_split split, const buffer *text) {
    const char *word, *at = text->data, *end = text->data ? text->data + text->n : at;
    size_t bytes, n = 0;
    while (qn_word_next(&at, end, &word, &bytes))
        n++;
    uint16_t *tokens = qn_arena_allocate(&corpus->arena, n + 1, sizeof *tokens);
    uint8_t *letters = qn_arena_allocate(&corpus->arena, n + 1, 1);
    if (!tokens || !letters)
        return QN_ERROR_MEMORY;
    at = text->data;
    for (size_t i = 0; qn_word_next(&at, end, &word, &bytes); i++) {
        const int n_letters = qn_word_letters(word, bytes);
        tokens[i] = (uint16_t)number_of(corpus, word, bytes);
        letters[i] = (uint8_t)(n_letters < UINT8_MAX ? n_letters : UINT8_MAX);
    }
    corpus->tokens[split] = tokens;
    corpus->letters[split] = letters;
    corpus->n[split] = (int64_t)n;
    return QN_OK;
}

/* The sentence's end has its own number. */
static qn_status count_words(reader *r, qn_corpus *corpus) {
    qn_word_table counted = {.arena = &corpus->arena};
    const buffer *text = &r->parts[QN_TRAIN];
    const char *word, *at = text->data, *end = text->data + text->n;
    size_t bytes;
    qn_status status = QN_OK;
    while (status == QN_OK && qn_word_next(&at, end, &word, &bytes)) {
        if (!qn_word_is_end(word, bytes))
            status = qn_word_table_add(&counted, word, bytes);
    }
    if (status == QN_OK)
        status =
            qn_words_choose(&corpus->arena, &counted, r->options->most_tokens, 1, &corpus->words);
    qn_word_table_deinit(&counted);
    return status;
}

static qn_status find_words(reader *r, qn_corpus *corpus) {
    if (r->options->words)
        QN_TRY(qn_words_parse(&corpus->arena, r->options->words, &corpus->words));
    else
        QN_TRY(count_words(r, corpus));
    if (corpus->words.n > QN_MOST_CHARACTERS)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a vocabulary of %d words; the most are %d",
                       corpus->words.n, QN_MOST_CHARACTERS);
    return QN_OK;
}

static qn_status find_characters(reader *r, qn_corpus *corpus) {
    if (r->options->characters)
        return qn_characters_parse(&corpus->arena, r->options->characters, &corpus->characters);
    return qn_characters_count(&corpus->arena, r->parts[QN_TRAIN].data, r->parts[QN_TRAIN].n,
                               r->options->most_tokens, &corpus->characters);
}

static qn_status keep_passages(reader *r, qn_corpus *corpus, qn_split split) {
    const ends *e = &r->ends[split];
    const buffer *text = &r->parts[split];
    char *copy = qn_arena_allocate(&corpus->arena, text->n + 1, 1);
    qn_passage *list = qn_arena_allocate(&corpus->arena, e->n + 1, sizeof *list);
    if (!copy || !list)
        return QN_ERROR_MEMORY;
    if (text->n > 0)
        memcpy(copy, text->data, text->n);
    for (size_t i = 0, begin = 0; i < e->n; begin = e->list[i++])
        list[i] = (qn_passage){copy + begin, e->list[i] - begin};
    corpus->passages[split] = list;
    corpus->n[split] = (int64_t)e->n;
    return QN_OK;
}

static qn_status number_all(reader *r, qn_corpus *corpus) {
    const bool has_words = r->options->has_words;
    if (!r->options->is_raw)
        QN_TRY(has_words ? find_words(r, corpus) : find_characters(r, corpus));
    for (qn_split s = 0; s < QN_SPLITS; s++)
        QN_TRY(r->options->is_raw ? keep_passages(r, corpus, s)
               : has_words        ? number_words(corpus, s, &r->parts[s])
                                  : number_characters(corpus, s, &r->parts[s]));
    return QN_OK;
}

static qn_status read_all(reader *r, const char *specification, qn_corpus *corpus) {
    static const char prefix[] = "text:";
    const size_t n = sizeof prefix - 1;
    if (strcmp(specification, "synthetic") == 0)
        QN_TRY(make_text(r));
    else if (strncmp(specification, prefix, n) == 0 && specification[n])
        QN_TRY(read_path(r, specification + n));
    else
        return qn_fail(QN_ERROR_ARGUMENT,
                       "data '%s' is not text; it is written text:FILE, text:FOLDER or synthetic",
                       specification);
    corpus->name = qn_arena_text(&corpus->arena, specification);
    if (!corpus->name)
        return QN_ERROR_MEMORY;
    return number_all(r, corpus);
}

qn_status qn_corpus_open(const char *specification, const qn_corpus_options *options,
                         qn_corpus *corpus) {
    qn_corpus opened = {0};
    const qn_allocator *allocator = qn_allocator_or_default(options->allocator);
    if (options->holdout < 0 || options->holdout >= 1)
        return qn_fail(QN_ERROR_ARGUMENT, "a held-out part of %g is not between 0 and 1",
                       options->holdout);
    qn_arena_init(&opened.arena, allocator);
    reader r = {.options = options, .allocator = allocator, .arena = &opened.arena};
    qn_status status = read_all(&r, specification, &opened);
    qn_release(allocator, r.paths, r.path_capacity, sizeof *r.paths);
    qn_release(allocator, r.file.data, r.file.capacity, 1);
    qn_release(allocator, r.typed.data, r.typed.capacity, 1);
    for (int s = 0; s < QN_SPLITS; s++) {
        qn_release(allocator, r.parts[s].data, r.parts[s].capacity, 1);
        qn_release(allocator, r.ends[s].list, r.ends[s].capacity, sizeof *r.ends[s].list);
    }
    if (status == QN_OK) {
        *corpus = opened;
        corpus->words.table.arena = &corpus->arena;
    } else {
        qn_words_deinit(&opened.words);
        qn_arena_deinit(&opened.arena);
    }
    return status;
}

void qn_corpus_close(qn_corpus *corpus) {
    qn_words_deinit(&corpus->words);
    qn_arena_deinit(&corpus->arena);
    *corpus = (qn_corpus){0};
}
