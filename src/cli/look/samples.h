/* How what was counted in the samples of a data set is said: in full for quern inspect, in a few
 * lines before training, as entries of a JSON object for programs. */
#ifndef QN_CLI_LOOK_SAMPLES_H
#define QN_CLI_LOOK_SAMPLES_H

#include "cli/look/lines.h"
#include "data/look/look.h"

/* Lines: with is_short no more than one, and no class by itself. */
void samples_print(const qn_data_source *source, const qn_look *look, bool is_short,
                   const look_lines *to);

/* A class, or a label, by its name, or its number in text. */
const char *samples_class_name(const qn_data_source *source, int class, char text[24]);
const char *samples_label_name(const qn_data_source *source, int label, char text[24]);

/* What need not be said: classes are weighted already; small ones were warned of. */
typedef struct samples_known {
    bool is_weighted, few_are_told;
} samples_known;

/* Warnings, and what to do. */
void samples_warn(const qn_data_source *source, const qn_look *look, samples_known known,
                  void (*warn)(void *context, const char *text), void *context);

/* Entries of the JSON object that is being written, warnings among them. */
void samples_add_json(const qn_data_source *source, const qn_look *look);

#endif
