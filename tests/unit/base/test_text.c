/* Characters and words with their vocabularies, texts and parallel sentences: what is read, what is
 * held out, what is refused, batches of like length, BLEU, and running out of memory. */
#include "base/status.h"
#include "base/text.h"
#include "data/text/buckets.h"
#include "data/text/corpus.h"
#include "data/text/pairs.h"
#include "data_files.h"
#include "os/heap.h"
#include "tasks/bleu.h"

static void test_utf8(void) {
    /* RFC 3629: the ends of each length, and what is no character. */
    static const struct {
        const char *text;
        size_t bytes, taken;
        uint32_t code;
    } rows[] = {
        {"\x7f", 1, 1, 0x7F},
        {"\xc2\x80", 2, 2, 0x80},
        {"\xdf\xbf", 2, 2, 0x7FF},
        {"\xe0\xa0\x80", 3, 3, 0x800},
        {"\xef\xbf\xbf", 3, 3, 0xFFFF},
        {"\xf0\x90\x80\x80", 4, 4, 0x10000},
        {"\xf4\x8f\xbf\xbf", 4, 4, 0x10FFFF},
        {"\xc1\xbf", 2, 1, QN_UNKNOWN_CHARACTER},
        {"\xe0\x9f\xbf", 3, 1, QN_UNKNOWN_CHARACTER},
        {"\xed\xa0\x80", 3, 1, QN_UNKNOWN_CHARACTER},
        {"\xf4\x90\x80\x80", 4, 1, QN_UNKNOWN_CHARACTER},
        {"\xe2\x82", 2, 1, QN_UNKNOWN_CHARACTER},
        {"\xe2\x82x", 3, 1, QN_UNKNOWN_CHARACTER},
        {"\x80", 1, 1, QN_UNKNOWN_CHARACTER},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        uint32_t code;
        char back[QN_UTF8_BYTES];
        CHECK(qn_utf8_read(rows[i].text, rows[i].bytes, &code) == rows[i].taken);
        CHECK(code == rows[i].code);
        CHECK(qn_text_character(rows[i].text) ==
              (code == QN_UNKNOWN_CHARACTER ? 0 : rows[i].taken));
        if (code != QN_UNKNOWN_CHARACTER)
            CHECK(qn_utf8_write(code, back) == rows[i].taken &&
                  memcmp(back, rows[i].text, rows[i].taken) == 0);
    }
}

static void test_printable(void) {
    char to[32], small[6];
    CHECK(strcmp(qn_text_printable("a\033[2J\xff"
                                   "\u00e9",
                                   to, sizeof to),
                 "a\\x1b[2J\\xff\u00e9") == 0);
    CHECK(strcmp(qn_text_printable("\xc2\x9b"
                                   "b",
                                   to, sizeof to),
                 "\\xc2\\x9bb") == 0);
    CHECK(strcmp(qn_text_printable("abc\001", small, sizeof small), "abc") == 0);
}

static void test_characters(void) {
    qn_arena arena;
    qn_characters c, back;
    qn_arena_init(&arena, qn_allocator_default());
    /* b three times, é twice, a and d once: a is first of the equal ones. */
    static const char text[] = "bé\xff"
                               "bdabé";
    CHECK_OK(qn_characters_count(&arena, text, strlen(text), 4, &c));
    CHECK(c.n == 4 && c.codes[0] == QN_UNKNOWN_CHARACTER);
    CHECK(qn_characters_find(&c, 'a') == 1 && qn_characters_find(&c, 'b') == 2);
    CHECK(qn_characters_find(&c, 0xE9) == 3 && qn_characters_find(&c, 'd') == 0);
    const char *printed = qn_characters_print(&arena, &c);
    CHECK(printed && strcmp(printed, "\uFFFDabé") == 0);
    CHECK_OK(qn_characters_parse(&arena, printed, &back));
    CHECK(back.n == c.n && memcmp(back.codes, c.codes, (size_t)c.n * sizeof *c.codes) == 0);
    CHECK_FAILS(qn_characters_parse(&arena, "ab", &back), QN_ERROR_FORMAT, "damaged");
    CHECK_FAILS(qn_characters_parse(&arena, "\uFFFDba", &back), QN_ERROR_FORMAT, "damaged");
    CHECK_FAILS(qn_characters_parse(&arena, "\uFFFD", &back), QN_ERROR_FORMAT, "damaged");
    CHECK_FAILS(qn_characters_count(&arena, "a", 1, 1, &back), QN_ERROR_ARGUMENT, "2 to 65536");
    qn_arena_deinit(&arena);
}

static qn_status open_corpus(const char *specification, const qn_allocator *allocator,
                             const char *characters, qn_corpus *corpus) {
    const qn_corpus_options options = {.allocator = allocator,
                                       .characters = characters,
                                       .most_tokens = 96,
                                       .holdout = 0.25,
                                       .seed = 1};
    return qn_corpus_open(at_root(specification), &options, corpus);
}

/* The characters of a part, ASCII. */
static const char *part_text(const qn_corpus *c, qn_split split) {
    static char text[256];
    CHECK(c->n[split] < (int64_t)sizeof text);
    for (int64_t i = 0; i < c->n[split]; i++)
        text[i] = (char)c->characters.codes[c->tokens[split][i]];
    text[c->n[split]] = 0;
    return text;
}

static void test_corpus(void) {
    qn_corpus c;
    write_text("@/a.txt", "\xef\xbb\xbf"
                          "abcab\r\ncX");
    CHECK_OK(open_corpus("text:@/a.txt", NULL, NULL, &c));
    CHECK(strcmp(part_text(&c, QN_TRAIN), "abcab\n") == 0);
    /* X is in the held-out part alone, so has no number. */
    CHECK(c.n[QN_TEST] == 2 && c.tokens[QN_TEST][1] == 0 && c.characters.n == 5);
    qn_corpus_close(&c);
    /* A vocabulary that is given is the one in use. */
    CHECK_OK(open_corpus("text:@/a.txt", NULL, "\uFFFDXa", &c));
    CHECK(c.characters.n == 3 && c.tokens[QN_TEST][1] == 1 && c.tokens[QN_TRAIN][1] == 0);
    qn_corpus_close(&c);
}

static void test_folder(void) {
    qn_corpus c;
    make_folder("@/texts/inner");
    write_text("@/texts/b", "2222");
    write_text("@/texts/a", "1113");
    write_text("@/texts/empty", "");
    write_file("@/texts/binary", "4\0004", 3);
    CHECK(symlink("a", at_root("@/texts/link")) == 0);
    CHECK_OK(open_corpus("text:@/texts", NULL, NULL, &c));
    CHECK(strcmp(part_text(&c, QN_TRAIN), "111222") == 0);
    CHECK(c.n[QN_TEST] == 2);
    qn_corpus_close(&c);
}

static void test_corpus_refusals(void) {
    qn_corpus c;
    write_text("@/empty.txt", "");
    write_file("@/zero.txt", "a\0b", 3);
    CHECK_FAILS(open_corpus("text:@/empty.txt", NULL, NULL, &c), QN_ERROR_FORMAT, "no text");
    CHECK_FAILS(open_corpus("text:@/zero.txt", NULL, NULL, &c), QN_ERROR_FORMAT, "not UTF-8 text");
    write_text("@/bytes.txt", "\xff\xfe\xff\xfe");
    CHECK_FAILS(open_corpus("text:@/bytes.txt", NULL, NULL, &c), QN_ERROR_FORMAT, "no character");
    CHECK_FAILS(open_corpus("text:@/none.txt", NULL, NULL, &c), QN_ERROR_IO, "none.txt");
    CHECK_FAILS(open_corpus("text:", NULL, NULL, &c), QN_ERROR_ARGUMENT, "text:FILE");
    CHECK_FAILS(open_corpus("csv:a", NULL, NULL, &c), QN_ERROR_ARGUMENT, "is not text");
}

static void test_synthetic_text(void) {
    qn_corpus a, b;
    CHECK_OK(open_corpus("synthetic", NULL, NULL, &a));
    CHECK_OK(open_corpus("synthetic", NULL, NULL, &b));
    CHECK(a.n[QN_TRAIN] > 100000 && a.n[QN_TRAIN] == b.n[QN_TRAIN] && a.characters.n == 96);
    CHECK(memcmp(a.tokens[QN_TRAIN], b.tokens[QN_TRAIN], (size_t)a.n[QN_TRAIN] * 2) == 0);
    qn_corpus_close(&a);
    qn_corpus_close(&b);
}

/* ---- words and pairs ---- */

static void test_words(void) {
    qn_arena arena;
    qn_words w, back;
    static const char text[] = " b  a\tb c\nb a ";
    const char *at = text, *word;
    size_t bytes;
    qn_arena_init(&arena, qn_allocator_default());
    qn_word_table counted = {.arena = &arena};
    while (qn_word_next(&at, text + strlen(text), &word, &bytes))
        CHECK_OK(qn_word_table_add(&counted, word, bytes));
    CHECK(counted.n == 3);
    CHECK_OK(qn_words_choose(&arena, &counted, 100, 2, &w));
    CHECK(w.n == 5 && qn_words_find(&w, "b", 1) == 3 && qn_words_find(&w, "a", 1) == 4);
    CHECK(qn_words_find(&w, "c", 1) == QN_UNKNOWN_WORD);
    const char *printed = qn_words_print(&arena, &w);
    CHECK(printed && strcmp(printed, "b\na\n") == 0);
    CHECK_OK(qn_words_parse(&arena, printed, &back));
    CHECK(back.n == 5 && strcmp(back.words[4], "a") == 0);
    qn_words_deinit(&back);
    CHECK_FAILS(qn_words_parse(&arena, "a b a", &back), QN_ERROR_FORMAT, "twice");
    qn_words_deinit(&w);
    CHECK_OK(qn_words_choose(&arena, &counted, 4, 1, &w));
    CHECK(w.n == 4 && strcmp(w.words[3], "b") == 0);
    qn_words_deinit(&w);
    CHECK_FAILS(qn_words_choose(&arena, &counted, 3, 1, &w), QN_ERROR_ARGUMENT, "at least 4");
    qn_word_table_deinit(&counted);
    qn_arena_deinit(&arena);
}

static qn_status open_pairs(const char *specification, const qn_allocator *allocator,
                            qn_pairs **pairs) {
    const qn_pairs_options options = {.allocator = allocator,
                                      .most_words = 100,
                                      .least_count = 1,
                                      .length = 4,
                                      .holdout = 0.3,
                                      .seed = 1};
    return qn_pairs_open(at_root(specification), &options, pairs);
}

/* Words of a sentence with blanks between. */
static const char *sentence_text(const qn_pairs *p, qn_split split, int64_t i, qn_side side) {
    static char text[2][256];
    const qn_sentence s = qn_pairs_get(p, split, i, side);
    size_t used = 0;
    text[side][0] = 0;
    for (int k = 0; k < s.n; k++)
        used += (size_t)snprintf(text[side] + used, sizeof text[side] - used, "%s%s", k ? " " : "",
                                 qn_pairs_words(p, side)->words[s.tokens[k]]);
    return text[side];
}

static void test_pairs(void) {
    qn_pairs *p;
    /* Two empty lines, a source and a target that are too long; CRLF; no line end at the end. */
    write_text("@/s", "a b\n\nc\r\nd d d d d\ne\nf g h i\n");
    write_text("@/t", "1 2\n9\n3\r\n4\n5 5 5 5\n6 7 8");
    CHECK_OK(open_pairs("pairs:@/s,@/t", NULL, &p));
    const int64_t n_train = qn_pairs_count(p, QN_TRAIN);
    CHECK(n_train >= 1 && n_train <= 2 && n_train + qn_pairs_count(p, QN_TEST) == 3);
    for (int64_t i = 0; i < n_train; i++) {
        static const char *const sources[] = {"a b", "c", "f g h i"};
        static const char *const targets[] = {"1 2", "3", "6 7 8"};
        bool is_there = false;
        for (int k = 0; k < 3; k++)
            is_there |= strcmp(sentence_text(p, QN_TRAIN, i, QN_SOURCE), sources[k]) == 0 &&
                        strcmp(sentence_text(p, QN_TRAIN, i, QN_TARGET), targets[k]) == 0;
        CHECK(is_there);
    }
    /* No word of the held-out pair is in the vocabulary. */
    CHECK(strstr(sentence_text(p, QN_TEST, 0, QN_SOURCE), "<unknown>") != NULL);
    qn_pairs_close(p);
}

/* Writes pairs first to n, each of two of eight words, and every one of a third of them twice. */
static void write_numbered(const char *name, int first, int n) {
    char text[2048], path[32], *at = text;
    for (int i = first; i < n; i++)
        for (int k = 0; k <= (i % 3 == 0); k++)
            at += sprintf(at, "%c %c %c\n", 'a' + i % 8, 'a' + i / 8 % 8, 'a' + i / 3 % 8);
    snprintf(path, sizeof path, "@/%s", name);
    write_text(path, text);
}

static bool is_of(const qn_pairs *p, qn_split split, const char *source) {
    for (int64_t i = 0; i < qn_pairs_count(p, split); i++)
        if (strcmp(sentence_text(p, split, i, QN_SOURCE), source) == 0)
            return true;
    return false;
}

/* Pairs that are added in front move none across, and equal ones are on one side. */
static void test_pairs_stay(void) {
    qn_pairs *few, *more;
    char source[256];
    write_numbered("few", 12, 60);
    write_numbered("more", 0, 60);
    CHECK_OK(open_pairs("pairs:@/few,@/few", NULL, &few));
    CHECK_OK(open_pairs("pairs:@/more,@/more", NULL, &more));
    CHECK(qn_pairs_count(few, QN_TEST) > 5);
    for (int64_t i = 0; i < qn_pairs_count(few, QN_TEST); i++) {
        snprintf(source, sizeof source, "%s", sentence_text(few, QN_TEST, i, QN_SOURCE));
        CHECK(!is_of(few, QN_TRAIN, source));
        CHECK(is_of(more, QN_TEST, source) && !is_of(more, QN_TRAIN, source));
    }
    qn_pairs_close(few);
    qn_pairs_close(more);
}

static void test_pairs_refusals(void) {
    qn_pairs *p;
    write_text("@/three", "a\nb\nc\n");
    write_text("@/two", "a\nb");
    write_text("@/none", "");
    write_text("@/latin", "a\nb\n\xe9t\xe9\n");
    CHECK_FAILS(open_pairs("pairs:@/three,@/two", NULL, &p), QN_ERROR_FORMAT, "three has 3 lines");
    CHECK_FAILS(open_pairs("pairs:@/three,@/two", NULL, &p), QN_ERROR_FORMAT, "two has 2;");
    CHECK_FAILS(open_pairs("pairs:@/none,@/none", NULL, &p), QN_ERROR_FORMAT, "hold 0 pairs");
    CHECK_FAILS(open_pairs("pairs:@/three,@/latin", NULL, &p), QN_ERROR_FORMAT, "latin: line 3");
    CHECK_FAILS(open_pairs("pairs:@/three,@/away", NULL, &p), QN_ERROR_IO, "away");
    CHECK_FAILS(open_pairs("pairs:@/three", NULL, &p), QN_ERROR_ARGUMENT, "pairs:SOURCE,TARGET");
    CHECK_FAILS(open_pairs("text:@/three", NULL, &p), QN_ERROR_ARGUMENT, "not parallel text");
}

static void test_synthetic_pairs(void) {
    qn_pairs *p;
    CHECK_OK(open_pairs("synthetic", NULL, &p));
    CHECK(qn_pairs_count(p, QN_TRAIN) == 7000 && qn_pairs_count(p, QN_TEST) == 3000);
    CHECK(qn_pairs_words(p, QN_SOURCE)->n == 100);
    for (int64_t i = 0; i < 100; i++) {
        const qn_sentence s = qn_pairs_get(p, QN_TEST, i, QN_SOURCE);
        const qn_sentence t = qn_pairs_get(p, QN_TEST, i, QN_TARGET);
        CHECK(s.n == 3 && t.n == 3 && s.tokens[0] == t.tokens[2] && s.tokens[1] == t.tokens[1]);
        CHECK(s.tokens[2] == t.tokens[0] && s.tokens[0] >= QN_FIRST_WORD && s.tokens[0] < 100);
    }
    qn_pairs_close(p);
}

/* ---- batches ---- */

enum { N_PAIRS = 400, LONGEST = 12, BATCH = 16 };

/* Sources of 1 to 11 words and targets of 1 to 11, some longer than their source. */
static qn_status open_uneven(qn_pairs **pairs) {
    static char texts[2][N_PAIRS * LONGEST * 2 + 1];
    for (int side = 0; side < 2; side++) {
        char *at = texts[side];
        for (int i = 0; i < N_PAIRS; i++) {
            for (int k = 0; k <= (i * (side + 3)) % (LONGEST - 1); k++)
                at += sprintf(at, "w ");
            at += sprintf(at, "\n");
        }
    }
    write_text("@/uneven.s", texts[0]);
    write_text("@/uneven.t", texts[1]);
    const qn_pairs_options options = {
        .most_words = 10, .length = LONGEST, .seed = 1, .by_place = true};
    return qn_pairs_open(at_root("pairs:@/uneven.s,@/uneven.t"), &options, pairs);
}

static int64_t columns_of(const qn_pairs *p, int64_t pair) {
    const int64_t source = qn_pairs_get(p, QN_TRAIN, pair, QN_SOURCE).n;
    const int64_t target = qn_pairs_get(p, QN_TRAIN, pair, QN_TARGET).n + 1;
    return source > target ? source : target;
}

/* Counts the pairs of batches [first, end). Each batch fits its bucket and not the one before. */
static void count_met(const qn_buckets *b, const qn_pairs *p, int64_t first, int64_t end,
                      int met[N_PAIRS]) {
    int64_t pairs[BATCH];
    for (int64_t i = first; i < end; i++) {
        const int bucket = qn_buckets_get(b, i, pairs);
        for (int k = 0; k < BATCH; k++) {
            const int64_t columns = columns_of(p, pairs[k]);
            CHECK(columns <= b->length[bucket]);
            CHECK(bucket == 0 || columns > b->length[bucket - 1]);
            met[pairs[k]]++;
        }
    }
}

/* An epoch has no pair twice. */
static void check_epoch(const qn_buckets *b, const qn_pairs *p, int64_t epoch) {
    const int64_t n_used = qn_pairs_count(p, QN_TRAIN) - qn_buckets_count_skipped(b);
    const int64_t n_batches = n_used / BATCH;
    int met[N_PAIRS] = {0};
    CHECK(n_used % BATCH == 0);
    count_met(b, p, epoch * n_batches, (epoch + 1) * n_batches, met);
    for (int i = 0; i < N_PAIRS; i++)
        CHECK(met[i] <= 1);
}

/* A whole number of epochs, in each bucket, has every pair as often. */
static void check_all_are_used(const qn_buckets *b, const qn_pairs *p) {
    const int64_t n = qn_pairs_count(p, QN_TRAIN);
    int met[N_PAIRS] = {0};
    CHECK(qn_buckets_count_skipped(b) == 0 && n % BATCH != 0);
    for (int bucket = 0; bucket < b->n; bucket++)
        CHECK((b->first[bucket + 1] - b->first[bucket]) % BATCH != 0);
    count_met(b, p, 0, n, met); /* BATCH epochs */
    for (int64_t i = 0; i < n; i++)
        CHECK(met[i] == BATCH);
}

static void test_buckets(void) {
    qn_pairs *p;
    qn_buckets b = {.batch = BATCH, .seed = 7, .shuffle = true, .skips_last = true}, all = b;
    qn_arena arena;
    int64_t first[BATCH], again[BATCH];
    qn_arena_init(&arena, qn_allocator_default());
    CHECK_OK(open_uneven(&p));
    CHECK_OK(qn_buckets_make(&arena, p, &b));
    CHECK(b.n == 4 && b.length[0] == 3 && b.length[3] == LONGEST);
    CHECK(b.first[4] == qn_pairs_count(p, QN_TRAIN));
    for (int64_t epoch = 0; epoch < 3; epoch++)
        check_epoch(&b, p, epoch);
    qn_buckets_get(&b, 5, first);
    const int64_t n_batches = (qn_pairs_count(p, QN_TRAIN) - qn_buckets_count_skipped(&b)) / BATCH;
    qn_buckets_get(&b, 5 + n_batches, again);
    CHECK(memcmp(first, again, sizeof first) != 0);
    all.skips_last = false;
    CHECK_OK(qn_buckets_make(&arena, p, &all));
    check_all_are_used(&all, p);
    for (int64_t i = 0; i < n_batches; i++) { /* the first epoch is the same */
        CHECK(qn_buckets_get(&b, i, first) == qn_buckets_get(&all, i, again));
        CHECK(memcmp(first, again, sizeof first) == 0);
    }
    /* Buckets that fill no batch join. */
    b.batch = 350;
    CHECK_OK(qn_buckets_make(&arena, p, &b));
    CHECK(b.n == 1 && b.length[0] == LONGEST && qn_buckets_count_skipped(&b) == 30);
    b.batch = 381;
    CHECK_FAILS(qn_buckets_make(&arena, p, &b), QN_ERROR_ARGUMENT, "batch");
    qn_pairs_close(p);
    qn_arena_deinit(&arena);
}

/* Matches of the example in Papineni et al. 2002, section 2: "the" seven times has a precision of
 * two sevenths; and a score worked out by hand. */
static void test_bleu(void) {
    static const int32_t the[] = {1, 1, 1, 1, 1, 1, 1}, cat[] = {1, 2, 3, 4, 1, 5};
    static const int32_t output[] = {1, 2, 3, 4, 6}, wanted[] = {1, 2, 3, 4, 5, 7};
    qn_bleu bleu = {0};
    qn_bleu_add(&bleu, (qn_sentence){the, 7}, (qn_sentence){cat, 6});
    CHECK(bleu.n_matches[0] == 2 && bleu.n_grams[0] == 7 && qn_bleu_score(&bleu) == 0);
    bleu = (qn_bleu){0};
    qn_bleu_add(&bleu, (qn_sentence){output, 5}, (qn_sentence){wanted, 6});
    const double precisions = 4.0 / 5 * 3 / 4 * 2 / 3 * 1 / 2;
    CHECK(fabs(qn_bleu_score(&bleu) - exp(1 - 6.0 / 5) * pow(precisions, 0.25)) < 1e-12);
    bleu = (qn_bleu){0};
    qn_bleu_add(&bleu, (qn_sentence){wanted, 6}, (qn_sentence){wanted, 6});
    qn_bleu_add(&bleu, (qn_sentence){NULL, 0}, (qn_sentence){NULL, 0});
    CHECK(fabs(qn_bleu_score(&bleu) - 1) < 1e-12);
}

/* ---- memory ---- */

static qn_status open_and_close(const char *specification, const qn_allocator *allocator) {
    qn_corpus corpus;
    qn_pairs *pairs;
    if (strncmp(specification, "text", 4) == 0) {
        QN_TRY(open_corpus(specification, allocator, NULL, &corpus));
        qn_corpus_close(&corpus);
    } else {
        QN_TRY(open_pairs(specification, allocator, &pairs));
        qn_pairs_close(pairs);
    }
    return QN_OK;
}

static void check_survives(const char *specification) {
    qn_status status = QN_ERROR_MEMORY;
    int n = 0;
    for (; status != QN_OK && n < 1000; n++) {
        failing f = {.left = n};
        const qn_allocator allocator = {&f, failing_allocate, failing_release};
        status = open_and_close(specification, &allocator);
        CHECK(status == QN_OK || status == QN_ERROR_MEMORY);
        CHECK(f.held_bytes == 0);
    }
    CHECK(status == QN_OK && n > 2);
}

int main(void) {
    files_begin();
    test_utf8();
    test_printable();
    test_characters();
    test_corpus();
    test_folder();
    test_corpus_refusals();
    test_synthetic_text();
    test_words();
    test_pairs();
    test_pairs_stay();
    test_pairs_refusals();
    test_synthetic_pairs();
    test_buckets();
    test_bleu();
    check_survives("text:@/a.txt");
    check_survives("text:@/texts");
    check_survives("pairs:@/s,@/t");
    files_end();
    return checks_finish();
}
