/* The sections of a measurement's document, and their shared parts. */
#ifndef QN_REPORT_SECTIONS_H
#define QN_REPORT_SECTIONS_H

#include "meter/results/measurement.h"
#include "report/document.h"

/* A document being filled; scratch holds texts and numbers until all sections are there. */
typedef struct qn_sections {
    qn_document *document;
    const qn_measurement *m;
    qn_arena *scratch;
} qn_sections;

/* Of the arena; where memory is out the document has failed. */
double *qn_sections_numbers(qn_sections *s, size_t n);
const char **qn_sections_texts(qn_sections *s, size_t n);
const char *qn_sections_format(qn_sections *s, const char *format, ...)
    __attribute__((format(printf, 2, 3))); /* never null */

/* A number with its unit, "1.93 J", in the arena; never null. */
const char *qn_sections_scaled(qn_sections *s, double value, const char *unit);

/* ", estimated" where a number is. */
const char *qn_sections_mark(bool is_estimated);

void qn_sections_add_operations(qn_sections *s);
void qn_sections_add_roofline(qn_sections *s);
void qn_sections_add_samples(qn_sections *s); /* over a few steps, and over the run */
void qn_sections_add_sensors(qn_sections *s);

#endif
