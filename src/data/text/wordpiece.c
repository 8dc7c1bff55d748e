/* See wordpiece.h. Text is split at blanks, punctuation and ideographs, then greedily into the
 * longest tokens of the vocabulary; tokens inside a word begin with "##". Unicode's tables are
 * utf8proc's. Left out: lower-case rules that depend on neighbours (a final sigma stays a sigma);
 * marks like [MASK] inside a text are ordinary text. */
#include "data/text/wordpiece.h"

#include "base/status.h"
#include "os/heap.h"
#include "os/os.h"

#include <string.h>
#include <utf8proc.h>

enum {
    MOST_CHARACTERS = 100, /* a longer word is unknown */
    CHARACTER_BYTES = 4,
    MOST_PARTS = 16, /* more than any character comes apart into */
};

static const size_t most_bytes = (size_t)1 << 26;

/* Invariant: token i is bytes [starts[i], starts[i + 1] - 1) of text, without a carriage return; an
 * entry of table is -1 or a token, found from its hash on. */
struct qn_wordpiece {
    const qn_allocator *allocator;
    char *text; /* (n_bytes + 1) */
    size_t n_bytes;
    size_t *starts; /* (n_tokens + 1) */
    int32_t n_tokens;
    int32_t *table; /* (n_table), a power of two */
    size_t n_table;
    size_t longest; /* bytes of a token */
    bool is_cased;
    qn_wordpiece_marks marks;
};

/* ---- the vocabulary ---- */

static uint64_t hash_bytes(const char *bytes, size_t n) {
    uint64_t hash = 0xcbf29ce484222325u;
    for (size_t i = 0; i < n; i++)
        hash = (hash ^ (unsigned char)bytes[i]) * 0x100000001b3u;
    return hash ^ hash >> 32;
}

const char *qn_wordpiece_token(const qn_wordpiece *w, int32_t token, size_t *bytes) {
    const char *at = w->text + w->starts[token];
    size_t n = w->starts[token + 1] - w->starts[token] - 1;
    *bytes = n > 0 && at[n - 1] == '\r' ? n - 1 : n;
    return at;
}

/* Where a token is or would be in the table. */
static size_t find_slot(const qn_wordpiece *w, const char *bytes, size_t n) {
    size_t slot = hash_bytes(bytes, n) & (w->n_table - 1), length;
    for (; w->table[slot] >= 0; slot = (slot + 1) & (w->n_table - 1)) {
        const char *token = qn_wordpiece_token(w, w->table[slot], &length);
        if (length == n && memcmp(token, bytes, n) == 0)
            break;
    }
    return slot;
}

static int32_t find_token(const qn_wordpiece *w, const char *bytes, size_t n) {
    return n > w->longest ? -1 : w->table[find_slot(w, bytes, n)];
}

static qn_status check_text(const char *name, const char *text, size_t bytes) {
    int64_t line = 1;
    if (bytes > most_bytes)
        return qn_fail(QN_ERROR_UNSUPPORTED, "%s: a vocabulary of more than 64 MiB", name);
    for (size_t i = 0; i < bytes;) {
        utf8proc_int32_t character;
        const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)text + i,
                                                    (utf8proc_ssize_t)(bytes - i), &character);
        if (n < 1 || character == 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: line %lld is not UTF-8 text; a vocabulary is a token a line", name,
                           (long long)line);
        line += character == '\n';
        i += (size_t)n;
    }
    return QN_OK;
}

/* The last line may or may not end. */
static qn_status find_lines(qn_wordpiece *w) {
    size_t n_lines = w->n_bytes > 0 && w->text[w->n_bytes - 1] != '\n', line = 0;
    for (size_t i = 0; i < w->n_bytes; i++)
        n_lines += w->text[i] == '\n';
    QN_TRY(qn_allocate(w->allocator, n_lines + 1, sizeof *w->starts, &w->starts));
    w->n_tokens = (int32_t)n_lines;
    for (size_t i = 0; i < w->n_bytes; i++) {
        if (w->text[i] == '\n')
            w->starts[++line] = i + 1;
    }
    w->starts[n_lines] = line == n_lines ? w->starts[n_lines] : w->n_bytes + 1;
    return QN_OK;
}

/* Lines without text have a number, but stand for nothing. */
static qn_status fill_table(qn_wordpiece *w, const char *name) {
    w->n_table = 16;
    while (w->n_table < 2 * (size_t)w->n_tokens)
        w->n_table *= 2;
    QN_TRY(qn_allocate(w->allocator, w->n_table, sizeof *w->table, &w->table));
    memset(w->table, 0xff, w->n_table * sizeof *w->table);
    for (int32_t i = 0; i < w->n_tokens; i++) {
        size_t n;
        const char *token = qn_wordpiece_token(w, i, &n);
        if (n == 0)
            continue;
        const size_t slot = find_slot(w, token, n);
        if (w->table[slot] >= 0)
            return qn_fail(QN_ERROR_FORMAT, "%s: line %d: the token %.*s is in line %d already",
                           name, i + 1, (int)(n < 40 ? n : 40), token, w->table[slot] + 1);
        w->table[slot] = i;
        w->longest = n > w->longest ? n : w->longest;
    }
    return QN_OK;
}

static bool has_capital(const char *token, size_t bytes) {
    if (bytes > 1 && token[0] == '[' && token[bytes - 1] == ']')
        return false;
    for (size_t i = 0; i < bytes;) {
        utf8proc_int32_t character;
        const utf8proc_ssize_t n = utf8proc_iterate((const utf8proc_uint8_t *)token + i,
                                                    (utf8proc_ssize_t)(bytes - i), &character);
        if (n < 1)
            break;
        if (utf8proc_category(character) == UTF8PROC_CATEGORY_LU)
            return true;
        i += (size_t)n;
    }
    return false;
}

static qn_status find_marks(qn_wordpiece *w, const char *name) {
    const struct {
        const char *text;
        int32_t *token;
    } marks[] = {{"[PAD]", &w->marks.padding},
                 {"[UNK]", &w->marks.unknown},
                 {"[CLS]", &w->marks.first},
                 {"[SEP]", &w->marks.separator}};
    for (size_t i = 0; i < sizeof marks / sizeof marks[0]; i++) {
        *marks[i].token = find_token(w, marks[i].text, strlen(marks[i].text));
        if (*marks[i].token < 0)
            return qn_fail(QN_ERROR_FORMAT,
                           "%s: no line is %s; a WordPiece vocabulary has lines [PAD], [UNK], "
                           "[CLS] and [SEP]",
                           name, marks[i].text);
    }
    w->marks.mask = find_token(w, "[MASK]", strlen("[MASK]"));
    return QN_OK;
}

static qn_status fill(qn_wordpiece *w, const char *name, const char *text, size_t bytes) {
    QN_TRY(check_text(name, text, bytes));
    QN_TRY(qn_allocate(w->allocator, bytes + 1, 1, &w->text));
    w->n_bytes = bytes;
    memcpy(w->text, text, bytes);
    QN_TRY(find_lines(w));
    QN_TRY(fill_table(w, name));
    for (int32_t i = 0; i < w->n_tokens && !w->is_cased; i++) {
        size_t n;
        const char *token = qn_wordpiece_token(w, i, &n);
        w->is_cased = has_capital(token, n);
    }
    return find_marks(w, name);
}

qn_status qn_wordpiece_create(const qn_allocator *allocator, const char *name, const char *text,
                              size_t bytes, qn_wordpiece **wordpiece) {
    qn_wordpiece *w;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_allocate(allocator, 1, sizeof *w, &w));
    w->allocator = allocator;
    qn_status status = fill(w, name, text, bytes);
    if (status == QN_OK)
        *wordpiece = w;
    else
        qn_wordpiece_destroy(w);
    return status;
}

qn_status qn_wordpiece_open(const qn_allocator *allocator, const char *path,
                            qn_wordpiece **wordpiece) {
    char *text;
    size_t bytes;
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(qn_file_read_whole(allocator, path, &text, &bytes));
    qn_status status = qn_wordpiece_create(allocator, path, text, bytes, wordpiece);
    qn_release(allocator, text, bytes + 1, 1);
    return status;
}

void qn_wordpiece_destroy(qn_wordpiece *w) {
    if (!w)
        return;
    qn_release(w->allocator, w->table, w->n_table, sizeof *w->table);
    qn_release(w->allocator, w->starts, (size_t)w->n_tokens + 1, sizeof *w->starts);
    qn_release(w->allocator, w->text, w->n_bytes + 1, 1);
    qn_release(w->allocator, w, 1, sizeof *w);
}

int32_t qn_wordpiece_count(const qn_wordpiece *w) {
    return w->n_tokens;
}

const char *qn_wordpiece_text(const qn_wordpiece *w) {
    return w->text;
}

bool qn_wordpiece_is_cased(const qn_wordpiece *w) {
    return w->is_cased;
}

qn_wordpiece_marks qn_wordpiece_get_marks(const qn_wordpiece *w) {
    return w->marks;
}

/* ---- characters ---- */

static bool is_blank(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return c == '\t' || c == '\n' || c == '\r' || category == UTF8PROC_CATEGORY_ZS ||
           category == UTF8PROC_CATEGORY_ZL || category == UTF8PROC_CATEGORY_ZP;
}

/* Not text at all. */
static bool is_passed_over(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return c == 0 || c == 0xfffd || category == UTF8PROC_CATEGORY_CC ||
           category == UTF8PROC_CATEGORY_CF;
}

/* All that is on a keyboard and no letter or digit, whatever Unicode calls it, and its
 * punctuation. */
static bool is_punctuation(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    if ((c >= 33 && c <= 47) || (c >= 58 && c <= 64) || (c >= 91 && c <= 96) ||
        (c >= 123 && c <= 126))
        return true;
    return category >= UTF8PROC_CATEGORY_PC && category <= UTF8PROC_CATEGORY_PO;
}

/* Ideographs are words of their own; kana and hangul are written with blanks or are cut by the
 * vocabulary. */
static bool is_ideograph(utf8proc_int32_t c) {
    static const struct {
        utf8proc_int32_t first, last;
    } blocks[] = {{0x4e00, 0x9fff},   {0x3400, 0x4dbf},   {0x20000, 0x2a6df}, {0x2a700, 0x2b73f},
                  {0x2b740, 0x2b81f}, {0x2b820, 0x2ceaf}, {0xf900, 0xfaff},   {0x2f800, 0x2fa1f}};
    for (size_t i = 0; c >= 0x3400 && i < sizeof blocks / sizeof blocks[0]; i++) {
        if (c >= blocks[i].first && c <= blocks[i].last)
            return true;
    }
    return false;
}

/* ---- splitting ---- */

/* The word that is being read. Character i is bytes [at[i], at[i + 1]) of text, whose first two are
 * "##", and stands for bytes [begin[i], end[i]) of the whole text. Of a word with more than
 * MOST_CHARACTERS only the number of characters and the whole extent count. */
typedef struct word {
    int n;
    int32_t first, last;
    int at[MOST_CHARACTERS + 1];
    int32_t begin[MOST_CHARACTERS], end[MOST_CHARACTERS];
    char text[2 + CHARACTER_BYTES * MOST_CHARACTERS];
} word;

typedef struct splitter {
    const qn_wordpiece *w;
    qn_pieces *pieces;
    word word;
} splitter;

static qn_status put_piece(splitter *s, int32_t token, int32_t begin, int32_t end) {
    qn_pieces *p = s->pieces;
    QN_TRY(qn_grow(p->allocator, &p->list, &p->capacity, p->n + 1, sizeof *p->list));
    p->list[p->n++] = (qn_piece){token, begin, end};
    return QN_OK;
}

/* The longest token that the word goes on with at character i; its end in *end. */
static int32_t find_longest(splitter *s, int i, int *end) {
    word *r = &s->word;
    char kept[2], *key = r->text + r->at[i] - (i > 0 ? 2 : 0);
    int32_t token = -1;
    memcpy(kept, key, 2);
    if (i > 0)
        memcpy(key, "##", 2);
    for (*end = r->n; token < 0 && *end > i; --*end)
        token = find_token(s->w, key, (size_t)(r->text + r->at[*end] - key));
    ++*end;
    memcpy(key, kept, 2);
    return token;
}

/* Ends the word, if there is one: its tokens, or the unknown one. */
static qn_status end_word(splitter *s) {
    word *r = &s->word;
    const size_t before = s->pieces->n;
    int end, i = 0;
    while (r->n <= MOST_CHARACTERS && i < r->n) {
        const int32_t token = find_longest(s, i, &end);
        if (token < 0)
            break;
        QN_TRY(put_piece(s, token, r->begin[i], r->end[end - 1]));
        i = end;
    }
    const bool is_known = i == r->n;
    r->n = 0;
    if (is_known)
        return QN_OK;
    s->pieces->n = before;
    return put_piece(s, s->w->marks.unknown, r->first, r->last);
}

static void put_character(word *r, utf8proc_int32_t c, int32_t begin, int32_t end) {
    if (r->n == 0) {
        r->first = begin;
        r->at[0] = 2;
    }
    r->last = end;
    if (r->n < MOST_CHARACTERS) {
        r->begin[r->n] = begin;
        r->end[r->n] = end;
        r->at[r->n + 1] =
            r->at[r->n] + (int)utf8proc_encode_char(c, (utf8proc_uint8_t *)r->text + r->at[r->n]);
    }
    r->n++;
}

/* An accent that is dropped still belongs to the letter before it. */
static void drop_accent(word *r, int32_t end) {
    r->last = end;
    if (r->n > 0 && r->n <= MOST_CHARACTERS)
        r->end[r->n - 1] = end;
}

static qn_status put_part(splitter *s, utf8proc_int32_t c, int32_t begin, int32_t end) {
    const bool is_alone = is_punctuation(c);
    if (!s->w->is_cased && utf8proc_category(c) == UTF8PROC_CATEGORY_MN) {
        drop_accent(&s->word, end);
        return QN_OK;
    }
    if (is_alone)
        QN_TRY(end_word(s));
    put_character(&s->word, c, begin, end);
    return is_alone ? end_word(s) : QN_OK;
}

static qn_status read_character(splitter *s, utf8proc_int32_t c, int32_t begin, int32_t end) {
    utf8proc_int32_t parts[MOST_PARTS] = {c};
    utf8proc_ssize_t n_parts = 1;
    const bool is_alone = is_ideograph(c);
    int boundary = 0;
    if (is_blank(c))
        return end_word(s);
    if (is_passed_over(c))
        return QN_OK;
    if (!s->w->is_cased)
        n_parts = utf8proc_decompose_char(utf8proc_tolower(c), parts, MOST_PARTS,
                                          UTF8PROC_DECOMPOSE, &boundary);
    if (is_alone)
        QN_TRY(end_word(s));
    for (utf8proc_ssize_t i = 0; i < n_parts && i < MOST_PARTS; i++)
        QN_TRY(put_part(s, parts[i], begin, end));
    return is_alone ? end_word(s) : QN_OK;
}

static qn_status split(splitter *s, const char *text, int32_t bytes) {
    for (int32_t i = 0; i < bytes;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t n =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, bytes - i, &c);
        if (n > 0)
            QN_TRY(read_character(s, c, i, i + (int32_t)n));
        i += n > 0 ? (int32_t)n : 1;
    }
    return end_word(s);
}

qn_status qn_wordpiece_split(const qn_wordpiece *w, const char *text, size_t bytes,
                             qn_pieces *pieces) {
    const size_t before = pieces->n;
    splitter s = {.w = w, .pieces = pieces};
    if (bytes > INT32_MAX)
        return qn_fail(QN_ERROR_UNSUPPORTED, "a text of more than 2 GiB");
    qn_status status = split(&s, text, (int32_t)bytes);
    if (status != QN_OK)
        pieces->n = before;
    return status;
}

void qn_pieces_init(qn_pieces *pieces, const qn_allocator *allocator) {
    *pieces = (qn_pieces){.allocator = qn_allocator_or_default(allocator)};
}

void qn_pieces_deinit(qn_pieces *pieces) {
    qn_release(pieces->allocator, pieces->list, pieces->capacity, sizeof *pieces->list);
    *pieces = (qn_pieces){.allocator = pieces->allocator};
}
