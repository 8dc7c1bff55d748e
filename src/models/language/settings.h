/* Settings of a language model, whichever kind of file has them: values of a GGUF file, whose keys
 * begin with the architecture, or members of config.json. */
#ifndef QN_MODELS_LANGUAGE_SETTINGS_H
#define QN_MODELS_LANGUAGE_SETTINGS_H

#include "models/language/description.h"

/* A GGUF file's key, "%s" standing for the architecture; names in config.json, of which the first
 * that is there counts, with blanks between. */
typedef struct qn_language_key {
    const char *gguf, *folder;
} qn_language_key;

typedef enum qn_language_found {
    QN_LANGUAGE_ABSENT,
    QN_LANGUAGE_FOUND,
    QN_LANGUAGE_WRONG, /* it is there, and is not of the kind that was asked for */
} qn_language_found;

qn_language_found qn_language_number(const qn_language *language, qn_language_key key,
                                     double *number);

/* A copy of a text in the model's memory; "": there is none. Null: memory is out. */
const char *qn_language_text(qn_language *language, qn_language_key key);

/* Whether a truth value of config.json is false, and not only absent; whether it is true. */
bool qn_language_is_denied(const qn_language *language, const char *name);
bool qn_language_is_true(const qn_language *language, const char *name);

#endif
