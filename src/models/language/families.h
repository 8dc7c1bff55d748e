/* Families of language models as data: what their files call sizes and tensors, and which tensors a
 * model of the family has, with their shapes. A new family of known parts is a row. */
#ifndef QN_MODELS_LANGUAGE_FAMILIES_H
#define QN_MODELS_LANGUAGE_FAMILIES_H

#include "quern/base.h"

/* Sizes of a model. The letters are those of shapes. */
typedef enum qn_language_size {
    QN_LANGUAGE_LAYERS,
    QN_LANGUAGE_WIDTH,        /* E: of the residual stream */
    QN_LANGUAGE_HEADS,        /* Q is heads x head width */
    QN_LANGUAGE_KEY_HEADS,    /* of keys and of values; K is that x head width */
    QN_LANGUAGE_HEAD_WIDTH,   /* H */
    QN_LANGUAGE_FEED_FORWARD, /* F */
    QN_LANGUAGE_CONTEXT,      /* C: tokens */
    QN_LANGUAGE_WINDOW,       /* tokens that attention looks back; 0: all */
    QN_LANGUAGE_VOCABULARY,   /* V: rows of the embedding */
    QN_LANGUAGE_SIZES
} qn_language_size;

/* Whether a model has a tensor. */
typedef enum qn_language_need {
    QN_LANGUAGE_NEEDED,
    QN_LANGUAGE_OPTIONAL,
    QN_LANGUAGE_UNUSED, /* files may have it; nothing reads it */
} qn_language_need;

/* A tensor, or one for each layer where the name has a '#'. Shapes are letters, slowest axis first;
 * a digit before a letter is a factor, and + adds: "Q+2K E". folder_shape: of Hugging Face's
 * folders, where they store the matrix with inputs as rows; null: as here. */
typedef struct qn_language_tensor {
    const char *gguf, *folder; /* null: files of this kind have it under no name */
    const char *shape, *folder_shape;
    qn_language_need need;
} qn_language_tensor;

/* What a family's layers compute beyond what its tensors say. The rest follows from those: a model
 * with norms of queries and keys, biases, a gate, joined matrices or learned positions has the
 * tensors of them, and a norm with a bias is a layer norm. */
typedef struct qn_language_traits {
    bool has_gelu;       /* GELU by tanh in the feed-forward part, else SiLU */
    bool has_neighbours; /* GGUF files: a rotation's pairs are neighbours, else halves of a head */
    bool scales_embedding; /* by the square root of the width */
    bool adds_one;         /* folders: norms multiply by 1 + their weight */
    int global_every; /* of so many layers the last attends to all tokens, the others to those of
                           the window; 0: all layers are alike */
} qn_language_traits;

typedef struct qn_language_family {
    const char *name;
    const char *gguf;     /* general.architecture */
    const char *folder;   /* values of model_type in config.json, with blanks between */
    const char *prefix;   /* of a folder's names, which may be missing */
    const char *features; /* what else its layers have, for people */
    qn_language_traits traits;
    const qn_language_tensor *tensors; /* up to one whose names are null */
} qn_language_family;

/* The families; null beyond the last. */
const qn_language_family *qn_language_family_at(int index);

/* The family of an architecture as a file names it, or null. */
const qn_language_family *qn_language_family_find(const char *architecture, bool is_gguf);

#endif
