/* Names and numbers in the form that all reports use. */
#ifndef QN_REPORT_WORDS_H
#define QN_REPORT_WORDS_H

#include "meter/results/measurement.h"

const char *qn_words_quantity(qn_quantity quantity); /* "utilisation" */
const char *qn_words_part(qn_part part);             /* "gpu" */
const char *qn_words_bound(qn_bound bound);          /* "compute" */

/* Kinds of qn_memory_use.kind_bytes, in order: "feature_map". */
enum { QN_MEMORY_KINDS = 7 };
extern const char *const qn_words_memory[QN_MEMORY_KINDS];

/* What a quantity is shown in, and one of its unit in that: "W" 1, "MHz" 1e-6. Utilisation of a
 * part that is not a single unit (process, thread) is in cores. */
const char *qn_words_unit(const qn_channel *channel, double *scale);

/* Three significant digits with a prefix: "1.93 J", "912 k"; no prefix below 1e-12. Not for
 * non-finite ones. */
enum { QN_WORDS_NUMBER = 48 };
const char *qn_words_scaled(double value, const char *unit, char text[QN_WORDS_NUMBER]);

#endif
