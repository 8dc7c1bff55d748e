/* What a language model's files say of it: its family, sizes and texts, and whether every tensor
 * that the family has is there in its shape. What quern cannot use is a problem, in a sentence; the
 * rest is described all the same. */
#ifndef QN_MODELS_LANGUAGE_DESCRIPTION_H
#define QN_MODELS_LANGUAGE_DESCRIPTION_H

#include "format/pretrained/pretrained.h"
#include "models/language/families.h"
#include "models/language/rotary.h"

typedef struct qn_language {
    const qn_pretrained *files;
    qn_arena texts;
    const qn_language_family *family; /* null: none that quern knows */
    const char *architecture;         /* as the files name it; "" */
    const char *name;                 /* what people call the model; "" */
    const char *scaling;              /* of rotary positions, "yarn"; "" */
    const char *chat;                 /* the chat template, in Jinja; "" */
    int64_t sizes[QN_LANGUAGE_SIZES]; /* 0: unknown */
    double rotary_base, epsilon;      /* 0: the files do not say */
    qn_language_rotary rotary;
    double attention_scale; /* of products of queries and keys */
    double final_cap;       /* of logits, cap * tanh(x / cap); 0: none */
    bool is_tied;           /* the embedding is the last product too */
    const bool *is_local;  /* (layers): attends to the window alone; null: the model has problems */
    const char **problems; /* (n_problems) of capacity, in texts */
    size_t n_problems, capacity;
} qn_language;

/* Describes opened files, which must outlive it. Fails only where memory is out. */
qn_status qn_language_describe(const qn_pretrained *files, qn_language *language);
void qn_language_deinit(qn_language *language);

/* Adds a problem. */
qn_status qn_language_refuse(qn_language *language, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* QN_ERROR_UNSUPPORTED with the first of its problems, if it has any. */
qn_status qn_language_check(const qn_language *language);

/* The row of the family by its name in GGUF files, or null: its models have no such tensor. */
const qn_language_tensor *qn_language_row(const qn_language *language, const char *gguf);

/* The tensor of the family's row and of a layer, or null: it is not there. */
const qn_pretrained_tensor *qn_language_find(const qn_language *language,
                                             const qn_language_tensor *row, int64_t layer);

#endif
