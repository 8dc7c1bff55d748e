/* See template.h. */
#include "models/language/template.h"

#include <stddef.h>
#include <string.h>

/* The first row whose marks are all in the text. */
static const struct {
    const char *name, *mark, *second;
} forms[] = {
    {"ChatML", "<|im_start|>", "<|im_end|>"},
    {"Llama 3", "<|start_header_id|>", "<|eot_id|>"},
    {"Gemma", "<start_of_turn>", "<end_of_turn>"},
    {"Llama 2", "[INST]", "<<SYS>>"},
    {"Mistral", "[INST]", "[/INST]"},
    {"Phi-3", "<|user|>", "<|end|>"},
    {"Zephyr", "<|user|>", "<|assistant|>"},
};

const char *qn_language_template_form(const char *jinja) {
    for (size_t i = 0; i < sizeof forms / sizeof forms[0]; i++) {
        if (strstr(jinja, forms[i].mark) && strstr(jinja, forms[i].second))
            return forms[i].name;
    }
    return NULL;
}
