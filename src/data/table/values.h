/* What the text of one field can be: missing, a number, a truth, a date. Independent of the
 * locale. */
#ifndef QN_DATA_TABLE_VALUES_H
#define QN_DATA_TABLE_VALUES_H

#include <stdbool.h>
#include <stddef.h>

/* Nothing at all, or a word that programs write for it: NA, N/A, NaN, null, and of inputs None, ?
 * and infinity, which of targets may be classes. */
bool qn_value_is_missing(const char *text, bool is_target);

/* How numbers are written: decimal is '.' or ',', and the other one may group thousands. */
bool qn_value_number(const char *text, char decimal, double *value);

/* What the commas and points of a number tell of the decimal mark. */
typedef enum qn_number_marks {
    QN_MARKS_NONE,  /* no number, or one without either */
    QN_MARKS_POINT, /* the point is decimal, or the comma groups: "1.5", "1,234.5", "1,234,567" */
    QN_MARKS_COMMA, /* the comma is decimal, or the point groups */
    QN_MARKS_POINT_OR_GROUP, /* "1.234" */
    QN_MARKS_COMMA_OR_GROUP, /* "1,234" */
} qn_number_marks;
qn_number_marks qn_value_marks(const char *text);

/* true, yes, t, y: 1; false, no, f, n: 0. */
bool qn_value_truth(const char *text, double *value);

/* A day, with or without its time: 2024-05-31, 2024/05/31, 31.05.2024, 31/05/2024, 05/31/2024, then
 * blank or T, 23:59, 23:59:59.5, Z or an offset, which is not applied. */
typedef struct qn_value_day {
    double days;           /* since 2000-01-01 */
    bool has_time;         /* it says hours */
    bool is_day_first;     /* it can only be day, month, year */
    bool is_month_first;   /* it can only be month, day, year */
    bool has_either_order; /* it can be both; days take it as day_first says */
} qn_value_day;
bool qn_value_date(const char *text, bool day_first, qn_value_day *day);

/* The median of numbers, of which none is NaN; 0: there are none. They are sorted. */
float qn_value_median(float *values, size_t n);

#endif
