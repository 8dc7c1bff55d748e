/* Chat templates: which of the well-known forms a model's Jinja text writes. The text is not run;
 * it is recognised by the marks that it writes. */
#ifndef QN_MODELS_LANGUAGE_TEMPLATE_H
#define QN_MODELS_LANGUAGE_TEMPLATE_H

/* "ChatML", "Llama 3", ...; null: another. */
const char *qn_language_template_form(const char *jinja);

#endif
