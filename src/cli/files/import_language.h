/* quern import of a language model: a GGUF file, or a folder of Hugging Face's. */
#ifndef QN_CLI_FILES_IMPORT_LANGUAGE_H
#define QN_CLI_FILES_IMPORT_LANGUAGE_H

#include <stdbool.h>

/* Prints what is in it. Returns the exit status: with is_check 1 where something is refused. */
int import_language(const char *path, bool is_check, bool is_json);

#endif
