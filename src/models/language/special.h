/* The tokens that a language model expects around texts: the one that texts begin with, and those
 * after which nothing follows. */
#ifndef QN_MODELS_LANGUAGE_SPECIAL_H
#define QN_MODELS_LANGUAGE_SPECIAL_H

#include "data/chats/jinja.h"
#include "data/tokens/tokenizer.h"
#include "models/language/description.h"

enum { QN_MOST_ENDS = 8 };

typedef struct qn_language_special {
    int32_t begin;              /* that a text begins with; -1: it begins at once */
    int32_t ends[QN_MOST_ENDS]; /* (n_ends); the first stands between texts */
    int n_ends;
} qn_language_special;

qn_status qn_language_read_special(const qn_language *language, qn_language_special *special);

/* What chat templates call bos_token and eos_token, in the arena. */
qn_status qn_language_read_words(const qn_language *language, const qn_tokenizer *tokenizer,
                                 qn_arena *arena, qn_chat_words *words);

bool qn_language_is_end(const qn_language_special *special, int32_t token);

#endif
