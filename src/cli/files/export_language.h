/* quern export of language models from files: their adapters. */
#ifndef QN_CLI_FILES_EXPORT_LANGUAGE_H
#define QN_CLI_FILES_EXPORT_LANGUAGE_H

#include "quern/checkpoint.h"

/* Writes the adapters of a checkpoint as a GGUF file that llama.cpp loads beside the model's. pairs
 * are the checkpoint's; null: there is none. */
qn_status export_language(const qn_model *model, const qn_metadata *pairs, const char *weights,
                          const char *out);

#endif
