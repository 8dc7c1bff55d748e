/* The inside of the task of language models from files, for what draws text with them. */
#ifndef QN_TASKS_LANGUAGE_TOKENS_H
#define QN_TASKS_LANGUAGE_TOKENS_H

#include "tasks/language/windows.h"
#include "tasks/tasks.h"

/* Programs of drawing: the prompt is read in pieces. */
enum { QN_READING, QN_DRAWING, QN_DRAWING_PROGRAMS, QN_READ_AT_ONCE = 16 };

/* Inputs of a drawing program, which runs n tokens at a time behind so many that are kept. */
typedef struct qn_drawing {
    qn_language_model *model;
    int64_t n, most;                     /* tokens of a call; of past keys */
    int32_t *tokens, *positions, *first; /* (n) */
} qn_drawing;

/* The task's own. */
typedef struct qn_tokens_task {
    qn_arena arena;
    qn_language_model *model;
    int64_t batch, length;
    qn_windows splits[QN_SPLITS];
    bool has_text;
    int evaluation;           /* a program */
    int32_t *tokens, *labels; /* (batch, length) */
    int64_t n_batches;        /* trained on so far */
    /* Keys and values of tokens while drawing: token i of a layer lies at (layer + 1) * length + i,
     * so that what a layer reads, the `length` tokens up to the last one, has the same distance
     * from layer to layer and begins n_read tokens behind the begin of the buffer. */
    float *keys, *values; /* (layers + 1, length, key heads, head width) */
    int64_t n_read;       /* tokens that are kept */
    qn_drawing drawings[QN_DRAWING_PROGRAMS];
    char input_text[64], output_text[32];
} qn_tokens_task;

/* "rank=8,alpha=8,layers=attn": the names of parts become patterns; without layers, all linear ones
 * of the layers are meant. The text is the arena's. */
qn_status qn_tokens_expand_lora(qn_arena *arena, const char *lora, const char **expanded);

/* Memory and inputs of the drawing programs; then the programs. */
qn_status qn_drawing_prepare(qn_tokens_task *t);
qn_value qn_drawing_build(qn_graph *graph, void *user, int phase, qn_value *kept);

/* Draws as the options say. */
qn_status qn_drawing_sample(qn_task *task, const qn_sample_options *options);

#endif
