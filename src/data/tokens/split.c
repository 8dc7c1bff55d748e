/* See split.h. Patterns are alternatives, of which the first that matches counts. */
#include "data/tokens/split.h"

#include <stdio.h>
#include <string.h>

#define LLAMA3(numbers)                                                                            \
    "(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" numbers                          \
    "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

static const qn_split splits[] = {
    {.name = "GPT-2",
     .regex = "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
     .gguf = " gpt-2 phi-2 olmo "},
    {.name = "SmolLM", .gguf = " smollm starcoder ", .most_numbers = 1, .cuts_numbers = true},
    {.name = "Llama 3",
     .regex = LLAMA3("\\p{N}{1,3}"),
     .gguf = " llama-bpe llama3 llama-v3 ",
     .any_case = true,
     .any_before = true,
     .most_numbers = 3,
     .takes_breaks = true,
     .whole_words = true},
    {.name = "Qwen2",
     .regex = LLAMA3("\\p{N}"),
     .gguf = " qwen2 ",
     .any_case = true,
     .any_before = true,
     .most_numbers = 1,
     .takes_breaks = true,
     .composes = true},
};

enum { N_SPLITS = sizeof splits / sizeof splits[0] };

const qn_split *qn_split_of_regex(const char *regex) {
    for (int i = 0; i < N_SPLITS; i++) {
        if (splits[i].regex && strcmp(splits[i].regex, regex) == 0)
            return &splits[i];
    }
    return NULL;
}

const qn_split *qn_split_of_gguf(const char *name) {
    char word[64];
    for (int i = 0; i < N_SPLITS; i++) {
        snprintf(word, sizeof word, " %s ", name);
        if (*name && !strchr(name, ' ') && strstr(splits[i].gguf, word))
            return &splits[i];
    }
    return NULL;
}

const qn_split *qn_split_named(const char *name) {
    for (int i = 0; i < N_SPLITS; i++) {
        if (strcmp(splits[i].name, name) == 0)
            return &splits[i];
    }
    return NULL;
}

/* A text that is being split. */
typedef struct reader {
    const qn_split *split;
    const uint8_t *classes, *end;
} reader;

static qn_class class_at(const reader *r, const uint8_t *at, int *bytes) {
    return qn_classes_get(r->classes, at, r->end, bytes);
}

static bool is_space(qn_class c) {
    return c == QN_CLASS_SPACE || c == QN_CLASS_BREAK;
}

/* Behind at most so many characters of a class; most < 0: all. */
static const uint8_t *pass(const reader *r, const uint8_t *at, qn_class wanted, int64_t most) {
    int bytes;
    for (; at < r->end && most != 0 && class_at(r, at, &bytes) == wanted; most--)
        at += bytes;
    return at;
}

/* The end of "'s" and its like at `at`, or null. In any case the long s (U+017F) is an s. */
static const uint8_t *pass_contraction(const reader *r, const uint8_t *at) {
    static const char *const ends[] = {"s", "t", "re", "ve", "m", "ll", "d"};
    const size_t left = (size_t)(r->end - at);
    if (*at != '\'')
        return NULL;
    for (size_t i = 0; i < sizeof ends / sizeof ends[0]; i++) {
        const size_t n = strlen(ends[i]);
        bool fits = left > n;
        for (size_t k = 0; fits && k < n; k++) {
            const uint8_t c = at[1 + k];
            const bool is_capital = r->split->any_case && c >= 'A' && c <= 'Z';
            fits = (is_capital ? c + 32 : c) == (uint8_t)ends[i][k];
        }
        if (fits)
            return at + 1 + n;
    }
    return r->split->any_case && left > 2 && at[1] == 0xc5 && at[2] == 0xbf ? at + 3 : NULL;
}

static const uint8_t *pass_letters(const reader *r, const uint8_t *at) {
    int bytes;
    const qn_class first = class_at(r, at, &bytes);
    const bool may_lead =
        r->split->any_before ? first == QN_CLASS_OTHER || first == QN_CLASS_SPACE : *at == ' ';
    const uint8_t *begin = may_lead ? at + bytes : at, *end = pass(r, begin, QN_CLASS_LETTER, -1);
    return end > begin ? end : NULL;
}

static const uint8_t *pass_numbers(const reader *r, const uint8_t *at) {
    const int most = r->split->most_numbers;
    const uint8_t *begin = most == 0 && *at == ' ' ? at + 1 : at;
    const uint8_t *end = pass(r, begin, QN_CLASS_NUMBER, most == 0 ? -1 : most);
    return end > begin ? end : NULL;
}

static const uint8_t *pass_others(const reader *r, const uint8_t *at) {
    const uint8_t *begin = *at == ' ' ? at + 1 : at, *end = pass(r, begin, QN_CLASS_OTHER, -1);
    if (end == begin)
        return NULL;
    return r->split->takes_breaks ? pass(r, end, QN_CLASS_BREAK, -1) : end;
}

/* The run of white space at `at`: to behind its last break, if breaks are taken; else without its
 * last character, which goes with the word that follows, unless it is all there is. */
static const uint8_t *pass_spaces(const reader *r, const uint8_t *at) {
    const uint8_t *end = at, *last = at, *behind_break = NULL;
    int bytes;
    for (qn_class c; end < r->end && is_space(c = class_at(r, end, &bytes));) {
        last = end;
        end += bytes;
        if (c == QN_CLASS_BREAK)
            behind_break = end;
    }
    if (r->split->takes_breaks && behind_break)
        return behind_break;
    const bool is_cut =
        end == r->end || (r->split->cuts_numbers && class_at(r, end, &bytes) == QN_CLASS_NUMBER);
    return is_cut || last == at ? end : last;
}

static size_t match(const reader *r, const uint8_t *at) {
    const uint8_t *end = pass_contraction(r, at);
    if (!end)
        end = pass_letters(r, at);
    if (!end)
        end = pass_numbers(r, at);
    if (!end)
        end = pass_others(r, at);
    if (!end)
        end = pass_spaces(r, at);
    return (size_t)(end - at);
}

size_t qn_split_next(const qn_split *split, const uint8_t *classes, const uint8_t *text,
                     size_t bytes) {
    const reader r = {split, classes, text + bytes};
    return match(&r, text);
}
