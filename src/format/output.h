/* Text output to a file or memory, with what report formats have in common. Numbers never depend on
 * the locale. Invalid UTF-8 becomes U+FFFD. Failures are sticky: status keeps the first, and later
 * output is dropped. */
#ifndef QN_FORMAT_OUTPUT_H
#define QN_FORMAT_OUTPUT_H

#include "quern/base.h"

typedef struct qn_output {
    void *user;
    qn_status (*put)(void *user, const void *data, size_t bytes);
    qn_status status;
    bool is_within; /* of JSON: the object or list that is open has an entry */
} qn_output;

/* An output into a file that qn_file_replace writes. */
struct qn_writer;
qn_output qn_output_to_file(struct qn_writer *writer);

void qn_output_bytes(qn_output *output, const void *data, size_t bytes);
void qn_output_text(qn_output *output, const char *text); /* as it is */
void qn_output_count(qn_output *output, int64_t count);
/* Significant digits (1 to 17), or digits after the point (0 to 9); one that is not finite gives
 * `missing`. */
void qn_output_number(qn_output *output, double value, int digits, const char *missing);
void qn_output_fixed(qn_output *output, double value, int decimals, const char *missing);

enum { QN_NUMBER_TEXT = 344 }; /* the largest double has 309 digits */

/* A finite number with 0 to 9 digits after the point, into text; returns it. */
const char *qn_print_fixed(double value, int decimals, char text[QN_NUMBER_TEXT]);

/* Escaped for the content and attributes of HTML; a field of CSV, quoted where it must be. */
void qn_output_html(qn_output *output, const char *text);
void qn_output_csv(qn_output *output, const char *text);

/* ---- JSON ----  Also safe inside a script element. key is null in a list. A number has nine
 * digits, one that is not finite is null. */
void qn_json_open(qn_output *output, const char *key, char bracket); /* { or [ */
void qn_json_close(qn_output *output, char bracket);                 /* } or ] */
void qn_json_text(qn_output *output, const char *key, const char *text);
void qn_json_count(qn_output *output, const char *key, int64_t count);
void qn_json_number(qn_output *output, const char *key, double value);
void qn_json_flag(qn_output *output, const char *key, bool flag);

#endif
