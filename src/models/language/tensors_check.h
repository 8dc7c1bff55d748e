/* Whether the tensors of a language model are those of its family, in the shapes that its sizes ask
 * for. Differences are added to its problems. */
#ifndef QN_MODELS_LANGUAGE_TENSORS_CHECK_H
#define QN_MODELS_LANGUAGE_TENSORS_CHECK_H

#include "models/language/description.h"

/* Of a model with a family; also sets whether the embedding is tied, and the vocabulary. */
qn_status qn_language_check_tensors(qn_language *language);

/* Types that quern does not read. */
qn_status qn_language_check_types(qn_language *language);

#endif
