/* Conversations as the tokens of a language model: written by the model's own chat template, with
 * the loss on what the assistant says and on the mark that ends it. */
#ifndef QN_TASKS_LANGUAGE_CHATS_H
#define QN_TASKS_LANGUAGE_CHATS_H

#include "data/chats/chats.h"
#include "tasks/language/windows.h"

typedef struct qn_chats_options {
    const qn_log *log; /* may be null */
    double holdout;    /* of the conversations, the last; 0: a twentieth */
    bool is_whole;     /* nothing is held out */
} qn_chats_options;

/* Adds the conversations of a file to the splits QN_TRAIN and QN_TEST. */
qn_status qn_chats_add(qn_windows *splits, qn_language_model *model, const char *path,
                       const qn_chats_options *options);

/* What a user says first, up to where the answer begins. */
qn_status qn_chats_ask(qn_language_model *model, const char *question, qn_tokens *tokens);

#endif
