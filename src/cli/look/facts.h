/* How what was understood of a data set is said: lines for people, entries of a JSON object. */
#ifndef QN_CLI_LOOK_FACTS_H
#define QN_CLI_LOOK_FACTS_H

#include "cli/look/lines.h"
#include "data/facts.h"

/* Lines of the facts of a source, whose facts are not null. */
void facts_print(const qn_data_source *source, const look_lines *to);

/* The same as entries of the JSON object that is being written. */
void facts_add_json(const qn_data_source *source);

#endif
