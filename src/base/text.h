/* Helpers for names that people type. */
#ifndef QN_BASE_TEXT_H
#define QN_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The one of n names that is nearest to what was typed by edit distance (insertions, deletions,
 * replacements; Levenshtein 1966), or null if none is near: for "did you mean". Names beyond 63
 * bytes are compared by their first 63. */
const char *qn_text_nearest(const char *typed, const char *const *names, int n_names);

/* Bytes of a size as people write it: "300M", "1.5G", "64K", "4096"; K, M, G and T are powers of
 * 1024, may be small, and "iB" or "B" may follow. False: it is none, or beyond 2^60. */
bool qn_text_size(const char *text, uint64_t *bytes);

enum { QN_SIZE_TEXT = 32 };

/* "300 MiB", "1.5 GiB": three digits. */
const char *qn_text_print_size(uint64_t bytes, char text[QN_SIZE_TEXT]);

/* Letters and white space of ASCII, whatever the program's locale. */
bool qn_text_is_letter(char c);
bool qn_text_is_space(char c);

/* Whether two texts differ in nothing but the case of ASCII letters. */
bool qn_text_is_same(const char *a, const char *b);

/* Whether a text holds a word, whatever the case of ASCII letters. */
bool qn_text_holds(const char *text, const char *word);

/* The first character of a text, of so many bytes (qn_text_character). */
uint32_t qn_text_code(const char *text, size_t bytes);

/* Bytes of the character of UTF-8 that a text begins with; 0: it begins with none (a byte of
 * another encoding, a surrogate, one that is cut). */
size_t qn_text_character(const char *text);

/* The UTF-8 of a character, of at most QN_TEXT_CODE bytes, and how many they are. */
enum { QN_TEXT_CODE = 4 };
size_t qn_text_put_code(uint32_t code, char to[QN_TEXT_CODE]);

/* Whether a terminal or a page obeys a character instead of showing it: control characters, those
 * that turn the direction of text, and the line breaks of Unicode. */
bool qn_text_is_obeyed(uint32_t code);

/* A text as a terminal may show it: what it would obey, and bytes that are no UTF-8, as \xNN. As
 * much of it as there is space for; returns to. */
const char *qn_text_printable(const char *text, char *to, size_t bytes);

/* Names in a sentence: the first few, then how many more there are. All zero: none. */
enum { QN_TEXT_NAMES = 512 };

typedef struct qn_text_names {
    char text[QN_TEXT_NAMES];
    size_t used;
    int n; /* that were added */
} qn_text_names;

void qn_text_names_add(qn_text_names *names, const char *name);
const char *qn_text_names_finish(qn_text_names *names);

#endif
