/* See squad.h: scores, by the rules of the dataset's own evaluation. */
#include "base/status.h"
#include "data/text/squad.h"
#include "os/heap.h"

#include <string.h>
#include <utf8proc.h>

/* An answer as it is compared: words with one blank between. */
typedef struct plain {
    char *text; /* (capacity), with a zero at the end */
    size_t n, capacity;
} plain;

/* The next character; broken bytes count as characters of their own. */
static size_t read_character(const char *text, size_t bytes, utf8proc_int32_t *c) {
    const utf8proc_ssize_t n =
        utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)bytes, c);
    if (n > 0)
        return (size_t)n;
    *c = 0xfffd;
    return 1;
}

static bool is_ascii_punctuation(utf8proc_int32_t c) {
    return c < 128 && c > 32 && strchr("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", (int)c);
}

static bool is_blank(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return (c >= 9 && c <= 13) || (c >= 28 && c <= 31) || c == 0x85 ||
           category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
           category == UTF8PROC_CATEGORY_ZP;
}

static bool is_letter_or_digit(utf8proc_int32_t c) {
    const utf8proc_category_t category = utf8proc_category(c);
    return (category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO) ||
           (category >= UTF8PROC_CATEGORY_ND && category <= UTF8PROC_CATEGORY_NO);
}

/* In lower case, without punctuation. */
static void put_bare(const char *text, size_t bytes, plain *to) {
    utf8proc_int32_t c;
    for (size_t i = 0; i < bytes;) {
        i += read_character(text + i, bytes - i, &c);
        c = utf8proc_tolower(c);
        if (!is_ascii_punctuation(c) && c != 0)
            to->n += (size_t)utf8proc_encode_char(c, (utf8proc_uint8_t *)to->text + to->n);
    }
    to->text[to->n] = 0;
}

/* Bytes of the article that begins here, 0 if none does. */
static size_t article_at(const char *text, size_t bytes) {
    static const char *const articles[] = {"a", "an", "the"};
    for (size_t i = 0; i < sizeof articles / sizeof articles[0]; i++) {
        const size_t n = strlen(articles[i]);
        utf8proc_int32_t next = ' ';
        if (n > bytes || memcmp(text, articles[i], n) != 0)
            continue;
        if (n < bytes)
            read_character(text + n, bytes - n, &next);
        if (!is_letter_or_digit(next))
            return n;
    }
    return 0;
}

/* Articles and blanks become one blank; none at the ends. Works in place: nothing grows. */
static void close_up(plain *p) {
    bool is_in_word = false, wants_blank = false;
    size_t n = 0;
    for (size_t i = 0; i < p->n;) {
        utf8proc_int32_t c;
        const size_t article = is_in_word ? 0 : article_at(p->text + i, p->n - i);
        const size_t length = article ? article : read_character(p->text + i, p->n - i, &c);
        if (article || is_blank(c)) {
            wants_blank = n > 0;
            is_in_word = false;
        } else {
            if (wants_blank)
                p->text[n++] = ' ';
            wants_blank = false;
            is_in_word = is_letter_or_digit(c);
            memmove(p->text + n, p->text + i, length);
            n += length;
        }
        i += length;
    }
    p->n = n;
    p->text[n] = 0;
}

/* A character in lower case has at most twice the bytes, and one that is broken three. */
static qn_status plain_init(plain *p, const qn_allocator *allocator, const char *text,
                            size_t bytes) {
    *p = (plain){.capacity = 3 * bytes + 1};
    QN_TRY(qn_allocate(allocator, p->capacity, 1, &p->text));
    put_bare(text, bytes, p);
    close_up(p);
    return QN_OK;
}

static void plain_deinit(plain *p, const qn_allocator *allocator) {
    qn_release(allocator, p->text, p->capacity, 1);
}

/* The next word from *at on, and its bytes; 0 at the end. */
static size_t next_word(const plain *p, size_t *at, const char **word) {
    const size_t begin = *at;
    *word = p->text + begin;
    if (begin >= p->n)
        return 0;
    const char *blank = memchr(*word, ' ', p->n - begin);
    const size_t bytes = blank ? (size_t)(blank - *word) : p->n - begin;
    *at = begin + bytes + 1;
    return bytes;
}

/* How often a word is among the first `end` bytes. */
static int count_word(const plain *p, size_t end, const char *wanted, size_t bytes) {
    const plain part = {.text = p->text, .n = end};
    const char *word;
    int n = 0;
    for (size_t at = 0, length; (length = next_word(&part, &at, &word)) > 0;)
        n += length == bytes && memcmp(word, wanted, bytes) == 0;
    return n;
}

static double find_f1(const plain *answer, const plain *right) {
    int n_answer = 0, n_right = 0, n_common = 0;
    const char *word;
    if (answer->n == 0 || right->n == 0)
        return answer->n == right->n;
    for (size_t at = 0; next_word(right, &at, &word) > 0;)
        n_right++;
    for (size_t at = 0, bytes; (bytes = next_word(answer, &at, &word)) > 0; n_answer++) {
        const size_t before = (size_t)(word - answer->text);
        n_common +=
            count_word(answer, before, word, bytes) < count_word(right, right->n, word, bytes);
    }
    return 2.0 * n_common / (n_answer + n_right);
}

static qn_status compare(const qn_allocator *allocator, const plain *answer, const char *text,
                         qn_squad_score *best) {
    plain right;
    QN_TRY(plain_init(&right, allocator, text, strlen(text)));
    const double f1 = find_f1(answer, &right);
    if (answer->n == right.n && memcmp(answer->text, right.text, right.n) == 0)
        best->exact = 1;
    best->f1 = f1 > best->f1 ? f1 : best->f1;
    plain_deinit(&right, allocator);
    return QN_OK;
}

qn_status qn_squad_score_answer(const qn_allocator *allocator, const qn_squad_question *question,
                                const char *answer, size_t bytes, qn_squad_score *score) {
    plain given;
    qn_squad_score best = {0};
    allocator = qn_allocator_or_default(allocator);
    QN_TRY(plain_init(&given, allocator, answer, bytes));
    qn_status status = QN_OK;
    if (question->n_answers == 0)
        status = compare(allocator, &given, "", &best);
    for (int i = 0; i < question->n_answers && status == QN_OK; i++)
        status = compare(allocator, &given, question->answers[i].text, &best);
    plain_deinit(&given, allocator);
    if (status == QN_OK)
        *score = best;
    return status;
}
