/* Splitting of text into words, in which byte pairs are merged, as the patterns of well-known
 * tokenizers do it. A pattern is a row of properties; another is recognised by its exact text or
 * refused, for a pattern that is nearly right gives other tokens. */
#ifndef QN_DATA_TOKENS_SPLIT_H
#define QN_DATA_TOKENS_SPLIT_H

#include "data/tokens/classes.h"

typedef struct qn_split {
    const char *name;  /* "GPT-2" */
    const char *regex; /* as tokenizer.json has it; null: by other means */
    const char *gguf;  /* values of tokenizer.ggml.pre, with blanks around each */
    bool any_case;     /* 'S and 's */
    bool any_before;   /* any character but a break goes before letters, not only a blank */
    int most_numbers;  /* in a word, without a blank before; 0: any, with a blank */
    bool takes_breaks; /* line breaks go with what is before them */
    bool cuts_numbers; /* a number ends the text before it, with all of its white space */
    bool composes;     /* where GGUF says no more: text is brought to NFC first */
    bool whole_words;  /* likewise: a word that is a token is not made of pairs */
} qn_split;

/* The row of a pattern's text, of a name in GGUF files, or of a name; null: none. */
const qn_split *qn_split_of_regex(const char *regex);
const qn_split *qn_split_of_gguf(const char *name);
const qn_split *qn_split_named(const char *name);

/* Bytes of the first word of a text that is not empty; at least 1. */
size_t qn_split_next(const qn_split *split, const uint8_t *classes, const uint8_t *text,
                     size_t bytes);

#endif
