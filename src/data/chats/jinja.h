/* Chat templates: texts in Jinja that say how a conversation is written for a language model, as
 * Hugging Face's transformers run them (blocks' lines trimmed, undefined names empty). The part of
 * Jinja that such templates use is run as it stands: for, if, set, namespaces, expressions with
 * their usual filters, tests and methods. What else is there is refused by name when it is reached.
 *
 * Every byte of a text knows whether it comes from an answer, through trimming, cutting and
 * joining, so that what was rendered says which bytes are the answers'.
 *
 * A template is a stranger's: steps, depth and the length of what it writes are limited. Leaves
 * out: macros, recursive loops, imports, formats of numbers, and the date of today. */
#ifndef QN_DATA_CHATS_JINJA_H
#define QN_DATA_CHATS_JINJA_H

#include "base/memory.h"

struct cJSON;

/* What is written around messages. Texts may be null: the name is not defined. */
typedef struct qn_chat_words {
    const char *begin, *end; /* bos_token and eos_token */
} qn_chat_words;

/* What a template wrote: (bytes) of text, and for each byte whether it is an answer's. */
typedef struct qn_rendered {
    char *text;
    bool *is_answer;
    size_t bytes;
} qn_rendered;

/* Renders a list of messages; what they call content is an answer's where the role is "assistant".
 * asks: the beginning of an answer follows. All memory is the arena's. A template that raises an
 * exception is QN_ERROR_FORMAT with its sentence, one that asks for what is left out
 * QN_ERROR_UNSUPPORTED. */
qn_status qn_jinja_render(qn_arena *arena, const char *jinja, const struct cJSON *messages,
                          const qn_chat_words *words, bool asks, qn_rendered *rendered);

#endif
