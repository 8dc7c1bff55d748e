/* An opened language model as a qn_model: its files, what they say, and its network with the tables
 * of positions as constants. A task of the kind "tokens" trains it. */
#ifndef QN_MODELS_LANGUAGE_MODEL_H
#define QN_MODELS_LANGUAGE_MODEL_H

#include "data/tokens/tokenizer.h"
#include "models/language/network.h"
#include "models/language/special.h"
#include "quern/engine.h"

/* Rotary tables of so many positions, which the graphs of an engine start with: they stay until it
 * is made. */
typedef struct qn_language_constants {
    int64_t length;
    float *cosines[2], *sines[2];
} qn_language_constants;

typedef struct qn_language_model {
    qn_model model; /* user: this structure */
    const qn_allocator *allocator;
    qn_arena arena;
    qn_pretrained *files;
    qn_language language;
    qn_language_special special;
    qn_tokenizer *tokenizer;         /* once it was asked for */
    qn_language_constants constants; /* of the last length */
    bool has_parameters;             /* of graphs that are built next (qn_language_call) */
} qn_language_model;

/* Opens a GGUF file or a folder; what quern cannot use of it is QN_ERROR_UNSUPPORTED. */
qn_status qn_language_model_open(const qn_allocator *allocator, const char *path,
                                 qn_language_model **model);
void qn_language_model_close(qn_language_model *model);

/* The language model that a model is of, or null. */
qn_language_model *qn_language_model_of(const qn_model *model);

/* Its tokenizer, which must have no more tokens than the embedding has rows. */
qn_status qn_language_model_tokenizer(qn_language_model *model, qn_tokenizer **tokenizer);

/* Constants of a length, for graphs that are built next. */
qn_status qn_language_model_prepare(qn_language_model *model, int64_t length);

/* The same as values of a graph. */
void qn_language_model_tables(const qn_language_model *model, qn_graph *graph,
                              qn_language_tables *tables);

/* Fills the engine's parameters from the files. */
qn_status qn_language_model_fill(const qn_language_model *model, qn_engine *engine);

#endif
